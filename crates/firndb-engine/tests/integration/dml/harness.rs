//! A database whose results are compared as text.
use arrow::util::display::{ArrayFormatter, FormatOptions};
use firndb_engine::{Config, Database, Error, Outcome, Parameters, Session, Value};

pub(crate) struct Fixture {
    pub(crate) session: Session,
}

impl Fixture {
    /// A database that has run some statements.
    pub(crate) fn new(sql: &str) -> Self {
        let fixture = Fixture {
            session: database().connect().unwrap(),
        };
        fixture.run(sql);
        fixture
    }

    pub(crate) fn run(&self, sql: &str) -> Outcome {
        self.session
            .execute(sql, &Parameters::default())
            .unwrap_or_else(|error| panic!("{sql}\n{} {error:?}", error.state.code()))
    }

    pub(crate) fn run_with(&self, sql: &str, values: Vec<Value>) -> Outcome {
        self.session
            .execute(sql, &Parameters::Positional(values))
            .unwrap_or_else(|error| panic!("{sql}\n{} {error:?}", error.state.code()))
    }

    /// Rows affected.
    pub(crate) fn affected(&self, sql: &str) -> u64 {
        self.run(sql).affected.unwrap()
    }

    /// Rows as text: columns separated by `,`, rows by `;`, NULL as `-`.
    pub(crate) fn rows(&self, sql: &str) -> String {
        text(self.run(sql))
    }

    /// Column names and rows.
    pub(crate) fn names(&self, sql: &str) -> Vec<String> {
        let rows = self.run(sql).rows.unwrap();
        let schema = rows.schema();
        let fields = schema.fields().iter();
        fields.map(|field| field.name().clone()).collect()
    }

    pub(crate) fn error(&self, sql: &str) -> Error {
        match self.session.execute(sql, &Parameters::default()) {
            Err(error) => error,
            Ok(outcome) => match outcome.rows {
                Some(rows) => rows.collect().expect_err(sql),
                None => panic!("no error: {sql}"),
            },
        }
    }

    /// The SQLSTATE of a statement's error.
    pub(crate) fn state(&self, sql: &str) -> &'static str {
        let error = self.error(sql);
        println!("{sql}\n  {} {error:?}", error.state.code());
        error.state.code()
    }
}

pub(crate) fn database() -> Database {
    Database::open(Config {
        threads: Some(2),
        ..Config::default()
    })
    .unwrap()
}

pub(crate) fn text(outcome: Outcome) -> String {
    let batches = outcome.rows.expect("rows").collect().unwrap();
    let options = FormatOptions::default().with_null("-");
    let mut lines = Vec::new();
    for batch in &batches {
        let formatters: Vec<_> = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column.as_ref(), &options).unwrap())
            .collect();
        for row in 0..batch.num_rows() {
            let values: Vec<String> = formatters
                .iter()
                .map(|formatter| formatter.value(row).to_string())
                .collect();
            lines.push(values.join(","));
        }
    }
    lines.join(";")
}
