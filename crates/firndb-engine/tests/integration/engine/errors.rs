//! SQLSTATEs, positions and hints.

use firndb_engine::{Parameters, SqlState, Value};

use crate::engine::support::{Ask, session};

#[test]
fn an_unknown_table_has_a_place_and_a_near_name() {
    let session = session();
    session.run("CREATE TABLE customers (id INT)");
    let error = session.fail("SELECT *\n FROM cutsomers");
    assert_eq!(error.state, SqlState::UndefinedTable);
    assert_eq!(error.message, "relation \"cutsomers\" does not exist");
    assert_eq!(error.position, Some(15));
    assert!(error.hint.unwrap().contains("\"customers\""));
}

#[test]
fn an_unknown_column_has_a_place_and_a_near_name() {
    let session = session();
    session.run("CREATE TABLE t (price INT)");
    let error = session.fail("SELECT prise FROM t");
    assert_eq!(error.state, SqlState::UndefinedColumn);
    assert_eq!(error.message, "column \"prise\" does not exist");
    assert_eq!(error.position, Some(7));
    assert_eq!(
        error.hint.as_deref(),
        Some("Perhaps you meant to reference the column \"t.price\".")
    );
}

#[test]
fn unknown_names_of_all_kinds_have_their_states() {
    let session = session();
    session.run("CREATE TABLE t (a INT, b INT); CREATE TABLE u (a INT)");
    for (sql, state) in [
        ("SELECT x.a FROM t", SqlState::UndefinedTable),
        ("SELECT t.c FROM t", SqlState::UndefinedColumn),
        ("SELECT a FROM t, u", SqlState::AmbiguousColumn),
        ("SELECT * FROM nowhere.t", SqlState::UndefinedTable),
        ("SELECT summ(a) FROM t", SqlState::UndefinedFunction),
        ("SELECT * FROM summ(1)", SqlState::UndefinedFunction),
        ("INSERT INTO t (c) VALUES (1)", SqlState::UndefinedColumn),
        ("SELECT a, count(*) FROM t", SqlState::GroupingError),
        ("SELECT 1 FROM t, t", SqlState::DuplicateAlias),
        ("SELECT CAST(1 AS nothing)", SqlState::UndefinedObject),
    ] {
        assert_eq!(session.fail(sql).state, state, "{sql}");
    }
}

#[test]
fn syntax_errors_say_where() {
    let error = session().fail("SELECT 1 FORM t WHERE");
    assert_eq!(error.state, SqlState::SyntaxError);
    assert!(error.position.is_some());
    let error = session().fail("SELECT (1");
    assert_eq!(error.message, "syntax error at end of input");
    let error = session().fail("SELECT 'open");
    assert_eq!(error.message, "unterminated quoted string");
}

#[test]
fn arithmetic_errors_have_their_states() {
    let session = session();
    session.run("CREATE TABLE t (a INT, b BIGINT); INSERT INTO t VALUES (0, 9223372036854775807)");
    for (sql, state) in [
        ("SELECT 1 / a FROM t", SqlState::DivisionByZero),
        ("SELECT b + 1 FROM t", SqlState::NumericValueOutOfRange),
        (
            "SELECT CAST('x' AS INT)",
            SqlState::InvalidTextRepresentation,
        ),
        (
            "SELECT CAST(300 AS TINYINT)",
            SqlState::NumericValueOutOfRange,
        ),
        (
            "INSERT INTO t VALUES (99999999999, 1)",
            SqlState::NumericValueOutOfRange,
        ),
    ] {
        assert_eq!(session.fail(sql).state, state, "{sql}");
    }
}

#[test]
fn parameters_must_be_as_many_as_the_values() {
    let session = session();
    for values in [vec![], vec![Value::from(1_i64), Value::from(2_i64)]] {
        let error = session
            .execute("SELECT ?", &Parameters::Positional(values))
            .unwrap_err();
        assert_eq!(error.state, SqlState::UndefinedParameter);
    }
}

#[test]
fn memory_that_is_spent_is_53200() {
    let session = session();
    session.run("SET memory_limit = '100MB'");
    let error = session.fail(
        "CREATE TABLE t AS SELECT value, repeat('x', 200) AS s FROM generate_series(1, 5000000) AS g(value)",
    );
    assert_eq!(error.state, SqlState::OutOfMemory);
    assert_eq!(session.ask("SELECT 1"), "1");
}

#[test]
fn a_name_beyond_all_measure_is_42622() {
    let session = session();
    let long = "x".repeat(200);
    session.run(&format!("CREATE TABLE {long} ({long} INT)"));
    assert_eq!(session.columns(&format!("SELECT * FROM {long}")), long);
    let error = session.fail(&format!("SELECT {}", "x".repeat(5_000)));
    assert_eq!(error.state, SqlState::NameTooLong);
}

#[test]
fn what_the_planner_would_ignore_is_refused() {
    let session = session();
    session.run("CREATE TABLE t (a INT)");
    for sql in [
        "SELECT * FROM t TABLESAMPLE BERNOULLI (10) REPEATABLE (1)",
        "SELECT * FROM t FOR UPDATE",
    ] {
        assert_eq!(
            session.fail(sql).state,
            SqlState::FeatureNotSupported,
            "{sql}"
        );
    }
}
