//! SET, SHOW, DESCRIBE, EXPLAIN, SUMMARIZE.

use firndb_engine::SqlState;

use crate::engine::support::{Ask, session};

#[test]
fn settings_are_set_shown_and_reset() {
    let session = session();
    session.run("SET threads = 1; SET TimeZone = 'Europe/Berlin'");
    assert_eq!(session.ask("SHOW threads"), "1");
    assert_eq!(session.ask("SHOW timezone"), "Europe/Berlin");
    session.run("SET memory_limit TO '1GiB'; RESET timezone");
    assert_eq!(session.ask("SHOW memory_limit"), "1.0 GiB");
    session.run("PRAGMA threads = 2");
    assert_eq!(session.ask("PRAGMA threads"), "2");
}

#[test]
fn an_unknown_setting_is_42704_with_a_near_name() {
    let error = session().fail("SET thread = 3");
    assert_eq!(error.state, SqlState::UndefinedObject);
    assert!(error.hint.unwrap().contains("threads"));
    assert_eq!(
        session().fail("SET threads = 'many'").state,
        SqlState::InvalidParameterValue
    );
}

#[test]
fn describe_lists_columns() {
    let session = session();
    session.run("CREATE TABLE t (a INT PRIMARY KEY, b DECIMAL(10, 2) DEFAULT 1)");
    assert_eq!(
        session.ask("DESCRIBE t"),
        "a|INTEGER|NO|PRI|NULL|NULL b|DECIMAL(10,2)|YES|NULL|1|NULL"
    );
    assert_eq!(
        session.columns("DESCRIBE SELECT 1 AS x"),
        "column_name,column_type,null,key,default,extra"
    );
}

#[test]
fn summarize_has_a_row_for_each_column() {
    let session = session();
    session.run("CREATE TABLE t (a INT, s TEXT); INSERT INTO t VALUES (1, 'x'), (3, NULL)");
    let rows = session.ask("SELECT 1");
    assert_eq!(rows, "1");
    let summary = session.ask("SUMMARIZE t");
    assert!(
        summary.contains("a|INTEGER|1|3|2|2.0|1.4142135623730951|2|2|3|2|0"),
        "{summary}"
    );
    assert!(
        summary.contains("s|VARCHAR|x|x|1|NULL|NULL|NULL|NULL|NULL|2|50"),
        "{summary}"
    );
}

#[test]
fn explain_shows_operators_and_analyze_their_metrics() {
    let session = session();
    session.run("CREATE TABLE t (a INT); INSERT INTO t VALUES (1)");
    assert!(
        session
            .ask("EXPLAIN SELECT a FROM t WHERE a > 0")
            .contains("Filter")
    );
    assert!(
        session
            .ask("EXPLAIN ANALYZE SELECT a FROM t WHERE a > 0")
            .contains("output_rows=1")
    );
    assert!(
        session
            .ask("EXPLAIN (FORMAT json) SELECT a FROM t")
            .contains("\"Plan\"")
    );
    assert!(
        session
            .ask("EXPLAIN (FORMAT tree) SELECT a FROM t WHERE a > 0")
            .contains('┌')
    );
}

#[test]
fn the_information_schema_knows_tables() {
    let session = session();
    session.run("CREATE TABLE Aa (b INT)");
    assert_eq!(
        session.ask("SELECT table_name FROM information_schema.tables WHERE table_schema = 'main'"),
        "Aa"
    );
}
