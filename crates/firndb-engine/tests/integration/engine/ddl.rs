//! Tables: creating, altering, dropping.

use firndb_engine::SqlState;

use crate::engine::support::{Ask, database, session};

#[test]
fn if_not_exists_keeps_and_or_replace_replaces() {
    let session = session();
    session.run("CREATE TABLE t (a INT); INSERT INTO t VALUES (1)");
    session.run("CREATE TABLE IF NOT EXISTS t (b INT)");
    assert_eq!(session.columns("SELECT * FROM t"), "a");
    assert_eq!(
        session.fail("CREATE TABLE t (b INT)").state,
        SqlState::DuplicateTable
    );
    session.run("CREATE OR REPLACE TABLE t (b INT)");
    assert_eq!(session.columns("SELECT * FROM t"), "b");
    assert_eq!(session.ask("SELECT count(*) FROM t"), "0");
}

#[test]
fn create_table_as_takes_names_types_and_rows() {
    let session = session();
    let made = session.run("CREATE TABLE t AS SELECT 1 AS \"One\", 'x' AS two, 1.50 AS three");
    assert_eq!(made.affected, Some(1));
    assert_eq!(session.columns("SELECT * FROM t"), "One,two,three");
    assert_eq!(session.ask("SELECT * FROM t"), "1|x|1.50");
}

#[test]
fn constraints_hold() {
    let session = session();
    session.run("CREATE TABLE t (a INT PRIMARY KEY, b INT NOT NULL, c INT UNIQUE, CHECK (b > 0))");
    session.run("INSERT INTO t VALUES (1, 1, 1)");
    for (sql, state) in [
        ("INSERT INTO t VALUES (1, 1, 2)", SqlState::UniqueViolation),
        (
            "INSERT INTO t VALUES (NULL, 1, 2)",
            SqlState::NotNullViolation,
        ),
        (
            "INSERT INTO t VALUES (2, NULL, 2)",
            SqlState::NotNullViolation,
        ),
        ("INSERT INTO t VALUES (2, 1, 1)", SqlState::UniqueViolation),
        ("INSERT INTO t VALUES (2, 0, 2)", SqlState::CheckViolation),
    ] {
        assert_eq!(session.fail(sql).state, state, "{sql}");
    }
    session.run("INSERT INTO t VALUES (2, 1, NULL), (3, 1, NULL)");
    assert_eq!(session.ask("SELECT count(*) FROM t"), "3");
}

#[test]
fn a_default_fills_what_is_not_named() {
    let session = session();
    session.run("CREATE TABLE t (a INT, b INT DEFAULT 7, c TEXT DEFAULT 'x' || 'y')");
    session.run("INSERT INTO t (a) VALUES (1)");
    assert_eq!(session.ask("SELECT * FROM t"), "1|7|xy");
}

#[test]
fn a_default_names_no_column() {
    let error = session().fail("CREATE TABLE t (a INT, b INT DEFAULT a + 1)");
    assert_eq!(error.state, SqlState::FeatureNotSupported);
}

#[test]
fn add_column_fills_the_rows_that_exist() {
    let session = session();
    session.run("CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2)");
    session.run(
        "ALTER TABLE t ADD COLUMN b INT; ALTER TABLE t ADD COLUMN c TEXT DEFAULT 'new' NOT NULL",
    );
    session.run("INSERT INTO t (a) VALUES (3)");
    assert_eq!(
        session.ask("SELECT * FROM t ORDER BY a"),
        "1|NULL|new 2|NULL|new 3|NULL|new"
    );
    assert_eq!(
        session
            .fail("ALTER TABLE t ADD COLUMN d INT NOT NULL")
            .state,
        SqlState::NotNullViolation
    );
    assert_eq!(
        session.fail("ALTER TABLE t ADD COLUMN b INT").state,
        SqlState::DuplicateColumn
    );
}

#[test]
fn drop_column_takes_its_constraints_along() {
    let session = session();
    session
        .run("CREATE TABLE t (a INT, b INT UNIQUE, c INT UNIQUE); INSERT INTO t VALUES (1, 2, 3)");
    session.run("ALTER TABLE t DROP COLUMN b");
    assert_eq!(session.ask("SELECT * FROM t"), "1|3");
    session.run("INSERT INTO t VALUES (1, 4)");
    assert_eq!(
        session.fail("INSERT INTO t VALUES (1, 4)").state,
        SqlState::UniqueViolation
    );
}

#[test]
fn renamed_columns_and_tables_are_found_by_their_new_names() {
    let session = session();
    session.run("CREATE TABLE t (a INT CHECK (a > 0)); INSERT INTO t VALUES (1)");
    session.run("ALTER TABLE t RENAME COLUMN a TO b; ALTER TABLE t RENAME TO u");
    assert_eq!(session.ask("SELECT b FROM u"), "1");
    assert_eq!(
        session.fail("INSERT INTO u VALUES (0)").state,
        SqlState::CheckViolation
    );
    assert_eq!(
        session.fail("SELECT * FROM t").state,
        SqlState::UndefinedTable
    );
}

#[test]
fn defaults_and_nullability_change() {
    let session = session();
    session.run("CREATE TABLE t (a INT NOT NULL, b INT); INSERT INTO t VALUES (1, NULL)");
    assert_eq!(
        session
            .fail("ALTER TABLE t ALTER COLUMN b SET NOT NULL")
            .state,
        SqlState::NotNullViolation
    );
    session.run("ALTER TABLE t ALTER COLUMN a DROP NOT NULL; ALTER TABLE t ALTER b SET DEFAULT 5");
    session.run("INSERT INTO t (a) VALUES (NULL)");
    assert_eq!(session.ask("SELECT b FROM t WHERE a IS NULL"), "5");
    session.run("ALTER TABLE t ALTER b DROP DEFAULT; UPDATE t SET b = 1; ALTER TABLE t ALTER b SET NOT NULL");
    assert_eq!(
        session.fail("INSERT INTO t (a) VALUES (9)").state,
        SqlState::NotNullViolation
    );
}

#[test]
fn a_changed_type_rewrites_the_rows() {
    let session = session();
    session.run(
        "CREATE TABLE t (k INT PRIMARY KEY, a TEXT); INSERT INTO t VALUES (1, '10'), (2, NULL)",
    );
    session.run("ALTER TABLE t ALTER COLUMN a TYPE INT");
    assert_eq!(session.ask("SELECT a + 1 FROM t ORDER BY k"), "11 NULL");
    session.run("ALTER TABLE t ALTER COLUMN a TYPE TEXT USING 'n' || a");
    assert_eq!(session.ask("SELECT a FROM t ORDER BY k"), "n10 NULL");
    assert_eq!(
        session.fail("INSERT INTO t VALUES (1, 'x')").state,
        SqlState::UniqueViolation
    );
    assert_eq!(
        session.fail("ALTER TABLE t ALTER COLUMN a TYPE INT").state,
        SqlState::InvalidTextRepresentation
    );
    assert_eq!(session.ask("SELECT a FROM t ORDER BY k"), "n10 NULL");
}

#[test]
fn constraints_come_and_go() {
    let session = session();
    session.run("CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (1)");
    assert_eq!(
        session
            .fail("ALTER TABLE t ADD CONSTRAINT u UNIQUE (a)")
            .state,
        SqlState::UniqueViolation
    );
    assert_eq!(
        session
            .fail("ALTER TABLE t ADD CONSTRAINT c CHECK (a > 1)")
            .state,
        SqlState::CheckViolation
    );
    session
        .run("DELETE FROM t; INSERT INTO t VALUES (1); ALTER TABLE t ADD CONSTRAINT u UNIQUE (a)");
    assert_eq!(
        session.fail("INSERT INTO t VALUES (1)").state,
        SqlState::UniqueViolation
    );
    session.run("ALTER TABLE t DROP CONSTRAINT u; INSERT INTO t VALUES (1)");
    let error = session.fail("ALTER TABLE t DROP CONSTRAINT v");
    assert_eq!(error.state, SqlState::UndefinedObject);
}

#[test]
fn a_unique_index_is_a_constraint_that_drop_index_takes_away() {
    let session = session();
    session.run("CREATE TABLE t (a INT, b INT); CREATE UNIQUE INDEX i ON t (a, b)");
    session.run("INSERT INTO t VALUES (1, 1), (1, 2)");
    assert_eq!(
        session.fail("INSERT INTO t VALUES (1, 2)").state,
        SqlState::UniqueViolation
    );
    session.run("DROP INDEX i; INSERT INTO t VALUES (1, 2)");
    assert_eq!(session.ask("SELECT count(*) FROM t"), "3");
}

#[test]
fn truncate_empties_and_rolls_back() {
    let session = session();
    session.run("CREATE TABLE t (a INT PRIMARY KEY); INSERT INTO t VALUES (1), (2)");
    session.run("BEGIN; TRUNCATE t; INSERT INTO t VALUES (1)");
    assert_eq!(session.ask("SELECT count(*) FROM t"), "1");
    session.run("ROLLBACK");
    assert_eq!(session.ask("SELECT count(*) FROM t"), "2");
    session.run("TRUNCATE TABLE t; INSERT INTO t VALUES (1)");
    assert_eq!(session.ask("SELECT a FROM t"), "1");
}

#[test]
fn drop_knows_kinds_and_if_exists() {
    let session = session();
    session.run("CREATE TABLE t (a INT); CREATE VIEW v AS SELECT 1 AS x");
    assert_eq!(session.fail("DROP VIEW t").state, SqlState::WrongObjectType);
    assert_eq!(
        session.fail("DROP TABLE v").state,
        SqlState::WrongObjectType
    );
    assert_eq!(session.fail("DROP TABLE u").state, SqlState::UndefinedTable);
    session.run("DROP TABLE IF EXISTS u; DROP TABLE t; DROP VIEW v");
    assert_eq!(session.ask("SHOW TABLES"), "");
}

#[test]
fn schemas_hold_tables_and_drop_with_cascade() {
    let session = session();
    session.run("CREATE SCHEMA s; CREATE TABLE s.t (a INT); INSERT INTO s.t VALUES (1)");
    assert_eq!(session.ask("SELECT t.a FROM s.t"), "1");
    assert_eq!(session.ask("SELECT a FROM firndb.s.t"), "1");
    assert_eq!(
        session.fail("DROP SCHEMA s").state,
        SqlState::DependentObjectsStillExist
    );
    session.run("SET search_path = s, main");
    assert_eq!(session.ask("SELECT a FROM t"), "1");
    session.run("DROP SCHEMA s CASCADE");
    assert_eq!(
        session.fail("SELECT a FROM s.t").state,
        SqlState::UndefinedTable
    );
}

#[test]
fn enum_types_check_their_labels() {
    let session = session();
    session.run("CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE TABLE t (m mood)");
    session.run("INSERT INTO t VALUES ('ok')");
    assert_eq!(session.ask("SELECT m FROM t"), "ok");
    assert_eq!(
        session.fail("INSERT INTO t VALUES ('wild')").state,
        SqlState::InvalidTextRepresentation
    );
    session.run("DROP TYPE mood");
    assert_eq!(
        session.fail("CREATE TABLE u (m mood)").state,
        SqlState::UndefinedObject
    );
}

#[test]
fn a_transaction_on_an_altered_table_conflicts() {
    let database = database();
    let (one, two) = (database.connect().unwrap(), database.connect().unwrap());
    one.run("CREATE TABLE t (a INT); INSERT INTO t VALUES (1)");
    two.run("BEGIN; SELECT * FROM t");
    one.run("ALTER TABLE t ADD COLUMN b INT");
    assert_eq!(two.columns("SELECT * FROM t"), "a");
    assert_eq!(
        two.fail("INSERT INTO t VALUES (2)").state,
        SqlState::SerializationFailure
    );
}

#[test]
fn select_into_makes_a_table() {
    let session = session();
    session.run("SELECT 1 AS a INTO t");
    assert_eq!(session.ask("SELECT a FROM t"), "1");
}
