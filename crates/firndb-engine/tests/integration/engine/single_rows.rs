//! Compiled statements: concurrency, and that they are found by their text.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use firndb_engine::{Datum, Parameters, SqlState, Value};

use crate::engine::support::{Ask, database, session, text};

const THREADS: usize = 16;

fn positional(values: &[i64]) -> Parameters {
    Parameters::Positional(values.iter().map(|&value| Value::from(value)).collect())
}

#[test]
fn a_statement_is_compiled_when_it_has_run() {
    let session = session();
    session.run("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER); INSERT INTO t VALUES (1, 5)");
    let select = "SELECT n FROM t WHERE id = ?";
    let one = [Datum::Integer(1)];
    assert!(session.execute_compiled(select, &one).is_none());
    assert_eq!(session.ask_with(select, vec![1_i64.into()]), "5");
    let done = session.execute_compiled(select, &one).unwrap();
    let rows = done.rows.unwrap().into_rows().unwrap();
    assert_eq!(rows.schema().field(0).name(), "n");
    // What is not plainly a key of the column is left to the general way.
    for odd in [
        Datum::Text("1"),
        Datum::Float(1.0),
        Datum::Integer(1 << 40),
        Datum::Null,
    ] {
        assert!(
            session.execute_compiled(select, &[odd]).is_none(),
            "{odd:?}"
        );
    }
    assert!(session.execute_compiled(select, &[]).is_none());
    session.run("SET compiled_statements = off");
    assert_eq!(session.ask_with(select, vec![1_i64.into()]), "5");
    assert!(session.execute_compiled(select, &one).is_none());
}

#[test]
fn a_compiled_write_that_does_not_succeed_leaves_nothing() {
    let session = session();
    session.run("CREATE TABLE t (id INTEGER PRIMARY KEY, n SMALLINT NOT NULL); INSERT INTO t VALUES (1, 32767), (2, 0)");
    let update = "UPDATE t SET id = ?, n = n + 1 WHERE id = ?";
    let run = |values: &[i64]| session.execute(update, &positional(values));
    run(&[3, 2]).unwrap();
    run(&[2, 3]).unwrap();
    assert_eq!(run(&[1, 2]).unwrap_err().state, SqlState::UniqueViolation);
    assert_eq!(
        run(&[4, 1]).unwrap_err().state,
        SqlState::NumericValueOutOfRange
    );
    assert_eq!(session.ask("SELECT * FROM t ORDER BY id"), "1|32767 2|2");
    session.run("BEGIN");
    run(&[3, 2]).unwrap();
    session.run("SAVEPOINT s");
    assert_eq!(run(&[1, 3]).unwrap_err().state, SqlState::UniqueViolation);
    assert_eq!(
        run(&[2, 3]).unwrap_err().state,
        SqlState::InFailedSqlTransaction
    );
    session.run("ROLLBACK TO s");
    assert_eq!(session.ask("SELECT * FROM t ORDER BY id"), "1|32767 3|3");
    session.run("COMMIT");
    assert_eq!(session.ask("SELECT * FROM t ORDER BY id"), "1|32767 3|3");
}

#[test]
fn threads_that_increment_one_row_lose_nothing() {
    const TIMES: usize = 300;
    let database = database();
    let session = database.connect().unwrap();
    session.run("CREATE TABLE t (id INTEGER PRIMARY KEY, n BIGINT); INSERT INTO t VALUES (1, 0)");
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let session = database.connect().unwrap();
                for _ in 0..TIMES {
                    let outcome = session
                        .execute("UPDATE t SET n = n + ? WHERE id = ?", &positional(&[1, 1]))
                        .unwrap();
                    assert_eq!(outcome.affected, Some(1));
                }
            });
        }
    });
    assert_eq!(
        session.ask("SELECT n FROM t"),
        (THREADS * TIMES).to_string()
    );
}

#[test]
fn of_threads_that_insert_the_same_keys_one_succeeds_for_each() {
    const KEYS: i64 = 200;
    let database = database();
    let session = database.connect().unwrap();
    session.run("CREATE TABLE t (id BIGINT PRIMARY KEY, writer BIGINT)");
    let inserted = Arc::new(AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for writer in 0..THREADS as i64 {
            let (database, inserted) = (&database, Arc::clone(&inserted));
            scope.spawn(move || {
                let session = database.connect().unwrap();
                for key in 0..KEYS {
                    let values = positional(&[key, writer]);
                    match session.execute("INSERT INTO t VALUES (?, ?)", &values) {
                        Ok(_) => {
                            inserted.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) => assert_eq!(error.state, SqlState::UniqueViolation),
                    }
                }
            });
        }
    });
    assert_eq!(inserted.load(Ordering::Relaxed), KEYS as usize);
    let counted = session.ask("SELECT count(*), count(DISTINCT id) FROM t");
    assert_eq!(counted, format!("{KEYS}|{KEYS}"));
}

/// While a table is altered again and again, whatever a compiled statement yields has the columns of one of its states.
#[test]
fn a_program_never_runs_on_another_catalog_than_its_own() {
    let database = database();
    let session = database.connect().unwrap();
    session.run("CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER); INSERT INTO t VALUES (1, 10)");
    let done = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let other = database.connect().unwrap();
            for _ in 0..60 {
                other.run("ALTER TABLE t ADD COLUMN b INTEGER DEFAULT 7");
                other.run("ALTER TABLE t DROP COLUMN a");
                other.run("BEGIN; ALTER TABLE t DROP COLUMN b; ALTER TABLE t ADD COLUMN a INTEGER DEFAULT 10; COMMIT");
            }
            done.store(1, Ordering::Release);
        });
        let prepared = "SELECT * FROM t WHERE id = ?";
        while done.load(Ordering::Acquire) == 0 {
            let outcome = session.execute(prepared, &positional(&[1])).unwrap();
            let schema = outcome.rows.as_ref().unwrap().schema();
            let names: Vec<&str> = schema
                .fields()
                .iter()
                .map(|field| field.name().as_str())
                .collect();
            let row = text(outcome).unwrap();
            let expected = match names.as_slice() {
                ["id", "a"] => "1|10",
                ["id", "a", "b"] => "1|10|7",
                ["id", "b"] => "1|7",
                other => panic!("columns {other:?}"),
            };
            assert_eq!(row, expected);
        }
    });
}

#[test]
fn a_program_does_not_keep_a_table_that_its_session_dropped() {
    let database = database();
    let session = database.connect().unwrap();
    let hot = || {
        database.storage().collect();
        database.storage().memory().hot
    };
    session.run("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)");
    for id in 0..2 {
        let insert = "INSERT INTO t VALUES (?, ?)";
        session.execute(insert, &positional(&[id, 0])).unwrap();
    }
    assert!(hot() > 0);
    session.run("DROP TABLE t");
    assert_eq!(hot(), 0);
}
