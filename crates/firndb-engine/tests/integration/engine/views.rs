//! Views.

use firndb_engine::SqlState;

use crate::engine::support::{Ask, session};

#[test]
fn a_view_shows_what_its_tables_hold_now() {
    let session = session();
    session.run("CREATE TABLE t (Aa INT); CREATE VIEW v (Xx) AS SELECT aa * 2 FROM t");
    session.run("INSERT INTO t VALUES (4)");
    assert_eq!(session.ask("SELECT xx FROM v"), "8");
    assert_eq!(session.columns("SELECT * FROM v"), "Xx");
}

#[test]
fn a_view_keeps_its_columns_when_the_table_grows() {
    let session = session();
    session.run(
        "CREATE TABLE t (a INT); CREATE VIEW v AS SELECT * FROM t; ALTER TABLE t ADD COLUMN b INT",
    );
    assert_eq!(session.columns("SELECT * FROM v"), "a");
}

#[test]
fn a_table_under_a_view_drops_with_cascade_alone() {
    let session = session();
    session.run("CREATE TABLE t (a INT, b INT); CREATE VIEW v AS SELECT a FROM t; CREATE VIEW w AS SELECT * FROM v");
    let error = session.fail("DROP TABLE t");
    assert_eq!(error.state, SqlState::DependentObjectsStillExist);
    assert_eq!(
        session.fail("ALTER TABLE t DROP COLUMN a").state,
        SqlState::DependentObjectsStillExist
    );
    session.run("ALTER TABLE t DROP COLUMN b; DROP TABLE t CASCADE");
    assert_eq!(session.ask("SHOW TABLES"), "");
}

#[test]
fn or_replace_cannot_make_a_view_of_itself() {
    let session = session();
    session.run("CREATE VIEW v AS SELECT 1 AS a");
    session.run("CREATE OR REPLACE VIEW v AS SELECT a + 1 AS a FROM v");
    let error = session.fail("SELECT * FROM v");
    assert_eq!(error.state, SqlState::InvalidTableDefinition);
}

#[test]
fn a_view_means_the_same_under_any_search_path() {
    let session = session();
    session.run("CREATE TABLE t AS SELECT 1 AS a; CREATE VIEW v AS SELECT a FROM t; CREATE SCHEMA s; CREATE TABLE s.t AS SELECT 2 AS a");
    session.run("SET search_path = s");
    assert_eq!(session.ask("SELECT a FROM main.v"), "1");
}

#[test]
fn a_view_is_given_no_column_twice_and_takes_no_rows() {
    let session = session();
    assert_eq!(
        session
            .fail("CREATE VIEW v (a, a) AS SELECT 1 AS a, 2 AS a")
            .state,
        SqlState::DuplicateColumn
    );
    // Columns of the query that come again get a number.
    session.run("CREATE VIEW w AS SELECT 1 AS a, 2 AS a");
    session.run("SELECT a, a_1 FROM w");
    assert_eq!(
        session.fail("INSERT INTO nothing VALUES (1)").state,
        SqlState::UndefinedTable
    );
    session.run("CREATE VIEW v AS SELECT 1 AS a");
    assert_eq!(
        session.fail("INSERT INTO v VALUES (1)").state,
        SqlState::WrongObjectType
    );
}
