//! Runs the sqllogictest files below `tests/slt` of the repository, each in a database of its own.
//!
//! Arguments are those of `cargo test`: a word runs the files whose path holds it. With `FIRNDB_SLT=<folder>` the files of that
//! folder run instead, their column letters unchecked (other systems use them loosely). With `FIRNDB_SLT_FILES=<folder>` the databases are files
//! in that folder, which are opened once more at the end. The format is described in
//! `tests/slt/README.md`.
#![allow(clippy::unwrap_used)]

mod compare;
mod connection;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use firndb::{Config, Database};
use sqllogictest::harness::{Arguments, Failed, Trial, glob, run};
use sqllogictest::{
    Location, QueryExpect, Record, RecordOutput, Runner, StatementExpect, parse_file,
};

use crate::compare::{Expected, check_letters, check_rows};
use crate::connection::{Connection, Convention, Format, Kind, SqlError};

fn main() {
    let foreign = std::env::var_os("FIRNDB_SLT").map(PathBuf::from);
    let strict = foreign.is_none();
    let folder =
        foreign.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/slt"));
    let folder = folder
        .canonicalize()
        .expect("the folder of the tests is there");
    let mut trials = Vec::new();
    for pattern in ["**/*.slt", "**/*.test"] {
        let pattern = folder.join(pattern);
        let files = glob(pattern.to_str().expect("a path in UTF-8")).expect("a valid pattern");
        for file in files {
            let file = file.expect("a readable folder");
            let name = file.strip_prefix(&folder).unwrap_or(&file);
            let name = name.to_string_lossy().into_owned();
            trials.push(Trial::test(name, move || run_file(&file, strict)));
        }
    }
    assert!(!trials.is_empty(), "no tests below {}", folder.display());
    run(&Arguments::from_args(), trials).exit();
}

/// Runs the records of a file up to the first difference.
fn run_file(file: &Path, strict: bool) -> Result<(), Failed> {
    let records = parse_file::<Kind>(file)?;
    let sqlite = records
        .iter()
        .any(|record| matches!(record, Record::HashThreshold { .. }));
    let format = Format::new(if sqlite {
        Convention::Sqlite
    } else {
        Convention::DuckDb
    });
    let kept = std::env::var_os("FIRNDB_SLT_FILES").map(|folder| {
        let name = file.to_string_lossy().replace(['/', '.'], "_");
        Path::new(&folder).join(format!("{name}.firn"))
    });
    let database = match &kept {
        Some(path) => Database::open_file(path, Config::default())?,
        None => Database::open(Config::default())?,
    };
    let mut runner = Runner::new(|| {
        let connection = database
            .connect()
            .map(|session| Connection::new(session, format.clone()))
            .map_err(SqlError::from);
        async { connection }
    });
    let mut labels = HashMap::new();
    for record in records {
        if matches!(record, Record::Halt { .. }) {
            break;
        }
        if let Record::Query {
            expected: QueryExpect::Results { types, .. },
            ..
        } = &record
        {
            format.expect(types);
        }
        let output = block_on(runner.apply_record(record.clone()));
        if let Some((location, problem)) = judge(&record, output, strict && !sqlite, &mut labels) {
            return Err(format!("{location}\n{problem}").into());
        }
    }
    runner.shutdown();
    drop(runner);
    drop(database);
    if let Some(path) = &kept {
        // Closed, it opens again.
        drop(Database::open_file(path, Config::default())?);
    }
    Ok(())
}

/// Drives a future of the runner, which never waits for anything but our blocking connection.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    loop {
        if let std::task::Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        std::thread::yield_now();
    }
}

/// What is wrong with the output of a record, and where the record is.
fn judge(
    record: &Record<Kind>,
    output: RecordOutput<Kind>,
    strict: bool,
    labels: &mut HashMap<String, Vec<Vec<String>>>,
) -> Option<(Location, String)> {
    match record {
        Record::Statement {
            loc, sql, expected, ..
        } => {
            let problem = judge_statement(expected, output)?;
            Some((loc.clone(), format!("{problem}\n{sql}")))
        }
        Record::Query {
            loc, sql, expected, ..
        } => {
            let problem = judge_query(expected, output, strict, labels)?;
            Some((loc.clone(), format!("{problem}\n{sql}")))
        }
        Record::Let { loc, sql, .. } => match output {
            RecordOutput::Let {
                error: Some(error), ..
            } => Some((loc.clone(), format!("{error}\n{sql}"))),
            _ => None,
        },
        Record::System {
            loc,
            command,
            stdout,
            ..
        } => match output {
            RecordOutput::System {
                error: Some(error), ..
            } => Some((loc.clone(), format!("{error}\n{command}"))),
            RecordOutput::System {
                stdout: Some(actual),
                ..
            } if stdout
                .as_ref()
                .is_some_and(|expected| expected.trim() != actual.trim()) =>
            {
                Some((
                    loc.clone(),
                    format!("the command printed {actual}\n{command}"),
                ))
            }
            _ => None,
        },
        _ => None,
    }
}

fn judge_statement(expected: &StatementExpect, output: RecordOutput<Kind>) -> Option<String> {
    let (count, error) = match output {
        RecordOutput::Statement { count, error } => (count, error),
        RecordOutput::Query { rows, error, .. } => (rows.len() as u64, error),
        _ => return None,
    };
    match (expected, error) {
        (StatementExpect::Ok, None) => None,
        (StatementExpect::Count(expected), None) if *expected == count => None,
        (StatementExpect::Count(expected), None) => {
            Some(format!("expected {expected} rows affected, found {count}"))
        }
        (StatementExpect::Error(expected), Some(error)) => {
            let state = error.downcast_ref::<SqlError>().map(SqlError::state);
            (!expected.is_match(&error.to_string(), state))
                .then(|| other_error(&expected.to_string(), &error.to_string(), state))
        }
        (StatementExpect::Error(_), None) => Some("an error was expected".into()),
        (_, Some(error)) => Some(unexpected_error(error.as_ref())),
    }
}

fn judge_query(
    expected: &QueryExpect<Kind>,
    output: RecordOutput<Kind>,
    strict: bool,
    labels: &mut HashMap<String, Vec<Vec<String>>>,
) -> Option<String> {
    let (kinds, rows, error) = match output {
        RecordOutput::Query { types, rows, error } => (types, rows, error),
        RecordOutput::Statement { error, .. } => (Vec::new(), Vec::new(), error),
        _ => return None,
    };
    match (expected, error) {
        (QueryExpect::Error(expected), Some(error)) => {
            let state = error.downcast_ref::<SqlError>().map(SqlError::state);
            (!expected.is_match(&error.to_string(), state))
                .then(|| other_error(&expected.to_string(), &error.to_string(), state))
        }
        (QueryExpect::Error(_), None) => Some("an error was expected".into()),
        (_, Some(error)) => Some(unexpected_error(error.as_ref())),
        (
            QueryExpect::Results {
                types,
                sort_mode,
                label,
                results,
                ..
            },
            None,
        ) => {
            let letters = check_letters(types, &kinds, strict).err();
            letters
                .or_else(|| {
                    let expected = Expected {
                        lines: results,
                        sort: *sort_mode,
                    };
                    check_rows(&expected, &rows, &kinds).err()
                })
                .or_else(|| {
                    let label = label.as_ref()?;
                    let first = labels.entry(label.clone()).or_insert_with(|| rows.clone());
                    (*first != rows).then(|| format!("the results labelled {label} differ"))
                })
        }
    }
}

fn unexpected_error(error: &(dyn std::error::Error + 'static)) -> String {
    let state = error.downcast_ref::<SqlError>().map_or("", SqlError::state);
    format!("unexpected error {state}: {error}")
}

fn other_error(expected: &str, actual: &str, state: Option<&str>) -> String {
    let state = state.unwrap_or("without SQLSTATE");
    format!("expected the error: {expected}\n     but found {state}: {actual}")
}
