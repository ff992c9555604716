//! Parameters, PREPARE, statements over many rows.

use std::collections::HashMap;

use firndb_engine::{Parameters, SqlState, Value};

use crate::engine::support::{Ask, session, text};

#[test]
fn parameters_come_by_position_number_and_name() {
    let session = session();
    assert_eq!(
        session.ask_with("SELECT ? + ?", vec![1_i64.into(), 2_i64.into()]),
        "3"
    );
    assert_eq!(
        session.ask_with("SELECT $2, $1, $2", vec![1_i64.into(), 2_i64.into()]),
        "2|1|2"
    );
    let named = HashMap::from([("x".to_owned(), Value::from(7_i64))]);
    for sql in ["SELECT $x", "SELECT :x"] {
        let outcome = session
            .execute(sql, &Parameters::Named(named.clone()))
            .unwrap();
        assert_eq!(text(outcome).unwrap(), "7");
    }
}

#[test]
fn a_parameter_takes_the_type_of_what_it_meets() {
    let session = session();
    session.run(
        "CREATE TABLE t (d DATE, n DECIMAL(10, 2)); INSERT INTO t VALUES ('2024-02-29', 1.50)",
    );
    assert_eq!(
        session.ask_with("SELECT n FROM t WHERE d = ?", vec!["2024-02-29".into()]),
        "1.50"
    );
    assert_eq!(
        session.ask_with("SELECT count(*) FROM t WHERE n = ?", vec!["1.5".into()]),
        "1"
    );
}

#[test]
fn values_of_every_kind_pass_through() {
    let session = session();
    for (value, shown) in [
        (Value::Int64(Some(i64::MIN)), "-9223372036854775808"),
        (Value::Float64(Some(0.1)), "0.1"),
        (Value::Boolean(Some(true)), "true"),
        (Value::Utf8(Some("it's".to_owned())), "it's"),
        (Value::Null, "NULL"),
        (Value::Decimal128(Some(-150), 5, 2), "-1.50"),
        (Value::Date32(Some(0)), "1970-01-01"),
    ] {
        assert_eq!(session.ask_with("SELECT ?", vec![value]), shown);
    }
}

#[test]
fn a_prepared_statement_runs_again_and_again() {
    let session = session();
    session.run("CREATE TABLE t (a INT)");
    let insert = session.prepare("INSERT INTO t VALUES (?)").unwrap();
    assert_eq!(insert.parameters(), 1);
    for number in 0..5_i64 {
        session
            .execute_prepared(&insert, &Parameters::Positional(vec![number.into()]))
            .unwrap();
    }
    assert_eq!(session.ask("SELECT sum(a) FROM t"), "10");
}

#[test]
fn prepare_execute_deallocate() {
    let session = session();
    session.run("PREPARE p AS SELECT $1 + $2");
    assert_eq!(session.ask("EXECUTE p(1, 2 * 3)"), "7");
    assert_eq!(
        session.fail("EXECUTE p(1)").state,
        SqlState::UndefinedParameter
    );
    session.run("DEALLOCATE p");
    assert_eq!(
        session.fail("EXECUTE p(1, 2)").state,
        SqlState::InvalidSqlStatementName
    );
}

#[test]
fn many_rows_are_one_statement() {
    let session = session();
    session.run("CREATE TABLE t (a INT PRIMARY KEY, b TEXT DEFAULT 'd', c DOUBLE)");
    let rows = |from: i64, to: i64| -> Vec<Parameters> {
        (from..to)
            .map(|number| {
                let c = if number % 2 == 0 {
                    Value::from(number)
                } else {
                    Value::from(0.5)
                };
                Parameters::Positional(vec![c, number.into()])
            })
            .collect()
    };
    let affected = session
        .execute_many("INSERT INTO t (c, a) VALUES (?, ?)", rows(0, 1_000))
        .unwrap();
    assert_eq!(affected, 1_000);
    assert_eq!(
        session.ask("SELECT count(*), min(b), sum(a) FROM t"),
        "1000|d|499500"
    );
    let error = session
        .execute_many("INSERT INTO t (c, a) VALUES (?, ?)", rows(999, 1_100))
        .unwrap_err();
    assert_eq!(error.state, SqlState::UniqueViolation);
    assert_eq!(session.ask("SELECT count(*) FROM t"), "1000");
}

#[test]
fn many_rows_of_an_update_see_one_another() {
    let session = session();
    session.run("CREATE TABLE t (a INT); INSERT INTO t VALUES (0)");
    let rows = (1..=4_i64)
        .map(|number| Parameters::Positional(vec![number.into()]))
        .collect();
    let affected = session
        .execute_many("UPDATE t SET a = a + ?", rows)
        .unwrap();
    assert_eq!(affected, 4);
    assert_eq!(session.ask("SELECT a FROM t"), "10");
}

#[test]
fn describe_tells_columns_without_running() {
    let session = session();
    session.run("CREATE TABLE t (Aa INT, b TEXT)");
    let schema = session
        .describe("SELECT aa, b FROM t", &Parameters::default(), None)
        .unwrap();
    assert_eq!(schema.field(0).name(), "Aa");
    assert_eq!(schema.fields().len(), 2);
}
