use crate::dml::harness::{Fixture, database};
use firndb_engine::Parameters;

#[test]
fn a_load_that_fails_at_its_last_row_leaves_nothing() {
    let f = Fixture::new("CREATE TABLE t (a BIGINT PRIMARY KEY, b BIGINT CHECK (b < 300000))");
    f.run("INSERT INTO t VALUES (-1, 0)");
    assert_eq!(
        f.state("INSERT INTO t SELECT value, value FROM generate_series(1, 300000) AS g(value)"),
        "23514"
    );
    assert_eq!(f.rows("SELECT count(*) FROM t"), "1");
    assert_eq!(
        f.state("INSERT INTO t SELECT CASE WHEN value = 300000 THEN -1 ELSE value END, 0 FROM generate_series(1, 300000) AS g(value)"),
        "23505"
    );
    assert_eq!(f.rows("SELECT * FROM t"), "-1,0");
    assert_eq!(
        f.affected("INSERT INTO t SELECT value, 0 FROM generate_series(1, 300000) AS g(value)"),
        300000
    );
}

#[test]
fn a_failing_statement_in_a_transaction_keeps_the_earlier_ones() {
    let f = Fixture::new("CREATE TABLE t (a INT PRIMARY KEY)");
    f.run("BEGIN; INSERT INTO t VALUES (1); SAVEPOINT s");
    assert_eq!(f.state("INSERT INTO t VALUES (2), (1)"), "23505");
    assert_eq!(f.state("INSERT INTO t VALUES (3)"), "25P02");
    f.run("ROLLBACK TO s; INSERT INTO t VALUES (4); COMMIT");
    assert_eq!(f.rows("SELECT a FROM t ORDER BY a"), "1;4");
}

#[test]
fn statements_see_the_earlier_writes_of_their_transaction() {
    let f = Fixture::new("CREATE TABLE t (a INT PRIMARY KEY, n INT)");
    f.run("BEGIN; INSERT INTO t VALUES (1, 1), (2, 2)");
    assert_eq!(f.affected("UPDATE t SET n = n + 10"), 2);
    assert_eq!(f.affected("UPDATE t SET n = n + 10 WHERE a = 1"), 1);
    assert_eq!(f.affected("DELETE FROM t WHERE a = 2"), 1);
    assert_eq!(f.affected("INSERT INTO t VALUES (2, 0)"), 1);
    assert_eq!(f.rows("SELECT * FROM t ORDER BY a"), "1,21;2,0");
    f.run("ROLLBACK");
    assert_eq!(f.rows("SELECT count(*) FROM t"), "0");
}

#[test]
fn rollback_to_a_savepoint_undoes_updates_and_loads() {
    let f = Fixture::new(
        "CREATE TABLE t (a BIGINT PRIMARY KEY, n BIGINT); INSERT INTO t VALUES (0, 0)",
    );
    f.run("BEGIN; UPDATE t SET n = 1; SAVEPOINT s; UPDATE t SET n = 2");
    f.run(
        "INSERT INTO t SELECT value, 3 FROM generate_series(1, 50000) AS g(value); DELETE FROM t WHERE a < 10",
    );
    f.run("ROLLBACK TO s");
    assert_eq!(f.rows("SELECT * FROM t"), "0,1");
    f.run("INSERT INTO t VALUES (5, 5); COMMIT");
    assert_eq!(f.rows("SELECT * FROM t ORDER BY a"), "0,1;5,5");
}

#[test]
fn others_see_a_write_after_commit() {
    let database = database();
    let (one, two) = (database.connect().unwrap(), database.connect().unwrap());
    let run =
        |session: &firndb_engine::Session, sql: &str| session.execute(sql, &Parameters::default());
    run(&one, "CREATE TABLE t (a INT)").unwrap();
    run(&one, "BEGIN; INSERT INTO t VALUES (1)").unwrap();
    assert_eq!(
        crate::dml::harness::text(run(&two, "SELECT count(*) FROM t").unwrap()),
        "0"
    );
    run(&one, "COMMIT").unwrap();
    assert_eq!(
        crate::dml::harness::text(run(&two, "SELECT count(*) FROM t").unwrap()),
        "1"
    );
}

#[test]
fn create_table_as_and_execute_many_load_rows() {
    let f = Fixture::new(
        "CREATE TABLE big AS SELECT value AS a, 'x' || value AS s FROM generate_series(1, 30000) AS g(value)",
    );
    assert_eq!(f.rows("SELECT count(*), max(a) FROM big"), "30000,30000");
    f.run("CREATE TABLE t (a INT PRIMARY KEY, s TEXT)");
    let rows = (1..=10)
        .map(|number| {
            Parameters::Positional(vec![
                firndb_engine::Value::Int64(Some(number)),
                firndb_engine::Value::Utf8(Some(format!("r{number}"))),
            ])
        })
        .collect();
    assert_eq!(
        f.session
            .execute_many("INSERT INTO t VALUES (?, ?)", rows)
            .unwrap(),
        10
    );
    assert_eq!(f.rows("SELECT s FROM t WHERE a = 7"), "r7");
}

#[test]
fn execute_many_is_all_or_nothing() {
    let f = Fixture::new("CREATE TABLE t (a INT PRIMARY KEY)");
    let rows = [1, 2, 1]
        .into_iter()
        .map(|number| Parameters::Positional(vec![firndb_engine::Value::Int64(Some(number))]))
        .collect();
    let error = f
        .session
        .execute_many("INSERT INTO t VALUES (?)", rows)
        .unwrap_err();
    assert_eq!(error.state.code(), "23505");
    assert_eq!(f.rows("SELECT count(*) FROM t"), "0");
}
