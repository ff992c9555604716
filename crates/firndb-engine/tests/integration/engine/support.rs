//! What the tests share: a database, and results as text.

use arrow::util::display::{ArrayFormatter, FormatOptions};
use firndb_engine::{Config, Database, Error, Outcome, Parameters, Session, Value};

/// A session of a new database with two threads.
pub(crate) fn session() -> Session {
    database().connect().unwrap()
}

/// A new database with two threads.
pub(crate) fn database() -> Database {
    Database::open(Config {
        threads: Some(2),
        ..Config::default()
    })
    .unwrap()
}

/// What a test does with a session.
pub(crate) trait Ask {
    /// Runs a text that must succeed.
    fn run(&self, sql: &str) -> Outcome;
    /// The rows of a query: values by `|`, rows by spaces.
    fn ask(&self, sql: &str) -> String;
    /// As `ask`, with positional parameters.
    fn ask_with(&self, sql: &str, values: Vec<Value>) -> String;
    /// The error of a text that must fail, while it runs or while its rows are read.
    fn fail(&self, sql: &str) -> Error;
    /// The names of a query's columns, separated by commas.
    fn columns(&self, sql: &str) -> String;
}

impl Ask for Session {
    fn run(&self, sql: &str) -> Outcome {
        self.execute(sql, &Parameters::default())
            .unwrap_or_else(|error| panic!("{sql}: {error:?}"))
    }

    fn ask(&self, sql: &str) -> String {
        self.ask_with(sql, Vec::new())
    }

    fn ask_with(&self, sql: &str, values: Vec<Value>) -> String {
        let outcome = self
            .execute(sql, &Parameters::Positional(values))
            .unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        text(outcome).unwrap_or_else(|error| panic!("{sql}: {error:?}"))
    }

    fn fail(&self, sql: &str) -> Error {
        match self.execute(sql, &Parameters::default()).and_then(text) {
            Ok(rows) => panic!("{sql} succeeded with {rows:?}"),
            Err(error) => error,
        }
    }

    fn columns(&self, sql: &str) -> String {
        let rows = self.run(sql).rows.unwrap();
        let schema = rows.schema();
        let names: Vec<&str> = schema
            .fields()
            .iter()
            .map(|field| field.name().as_str())
            .collect();
        names.join(",")
    }
}

/// An outcome's rows as text.
pub(crate) fn text(outcome: Outcome) -> Result<String, Error> {
    let mut lines = Vec::new();
    for batch in outcome.rows.into_iter().flatten() {
        let batch = batch?;
        let options = FormatOptions::default().with_null("NULL");
        let columns: Vec<_> = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column.as_ref(), &options).unwrap())
            .collect();
        for row in 0..batch.num_rows() {
            let values: Vec<String> = columns
                .iter()
                .map(|column| column.value(row).to_string())
                .collect();
            lines.push(values.join("|"));
        }
    }
    Ok(lines.join(" "))
}
