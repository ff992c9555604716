//! Transactions, savepoints, conflicts.

use firndb_engine::SqlState;

use crate::engine::support::{Ask, database, session};

#[test]
fn rollback_undoes_writes_and_definitions() {
    let session = session();
    session.run("CREATE TABLE t (a INT)");
    session.run("BEGIN; INSERT INTO t VALUES (1); CREATE TABLE u (b INT); ROLLBACK");
    assert_eq!(session.ask("SELECT count(*) FROM t"), "0");
    assert_eq!(
        session.fail("SELECT * FROM u").state,
        SqlState::UndefinedTable
    );
}

#[test]
fn commit_shows_writes_to_others_and_not_before() {
    let database = database();
    let (one, two) = (database.connect().unwrap(), database.connect().unwrap());
    one.run("CREATE TABLE t (a INT)");
    one.run("BEGIN; INSERT INTO t VALUES (1)");
    assert_eq!(two.ask("SELECT count(*) FROM t"), "0");
    assert_eq!(one.ask("SELECT count(*) FROM t"), "1");
    one.run("COMMIT");
    assert_eq!(two.ask("SELECT count(*) FROM t"), "1");
}

#[test]
fn an_error_fails_the_transaction_until_rollback() {
    let session = session();
    session.run("CREATE TABLE t (a INT); BEGIN; INSERT INTO t VALUES (1)");
    session.fail("SELECT * FROM nowhere");
    assert_eq!(
        session.fail("SELECT 1").state,
        SqlState::InFailedSqlTransaction
    );
    assert!(session.in_transaction());
    assert_eq!(session.run("COMMIT").tag, "ROLLBACK");
    assert!(!session.in_transaction());
    assert_eq!(session.ask("SELECT count(*) FROM t"), "0");
}

#[test]
fn rollback_to_a_savepoint_revives_a_failed_transaction() {
    let session = session();
    session.run("CREATE TABLE t (a INT); BEGIN; INSERT INTO t VALUES (1); SAVEPOINT s");
    session.run("INSERT INTO t VALUES (2)");
    session.fail("SELECT * FROM nowhere");
    session.run("ROLLBACK TO SAVEPOINT s; INSERT INTO t VALUES (3); COMMIT");
    assert_eq!(session.ask("SELECT a FROM t ORDER BY a"), "1 3");
}

#[test]
fn a_savepoint_undoes_definitions_too() {
    let session = session();
    session.run(
        "BEGIN; SAVEPOINT s; CREATE TABLE t (a INT); ROLLBACK TO s; CREATE TABLE t (b INT); COMMIT",
    );
    assert_eq!(session.columns("SELECT * FROM t"), "b");
}

#[test]
fn an_unknown_savepoint_is_3b001() {
    let session = session();
    session.run("BEGIN");
    assert_eq!(
        session.fail("RELEASE SAVEPOINT s").state,
        SqlState::InvalidSavepointSpecification
    );
}

#[test]
fn transaction_control_outside_a_transaction_is_an_error() {
    let session = session();
    for sql in ["COMMIT", "ROLLBACK", "SAVEPOINT s"] {
        assert_eq!(session.fail(sql).state, SqlState::NoActiveSqlTransaction);
    }
    session.run("BEGIN");
    assert_eq!(session.fail("BEGIN").state, SqlState::ActiveSqlTransaction);
}

#[test]
fn a_read_only_transaction_refuses_writes() {
    let session = session();
    session.run("CREATE TABLE t (a INT); START TRANSACTION READ ONLY");
    assert_eq!(
        session.fail("INSERT INTO t VALUES (1)").state,
        SqlState::ReadOnlySqlTransaction
    );
}

#[test]
fn first_writer_wins_between_transactions() {
    let database = database();
    let (one, two) = (database.connect().unwrap(), database.connect().unwrap());
    one.run("CREATE TABLE t (a INT); INSERT INTO t VALUES (1)");
    one.run("BEGIN; UPDATE t SET a = 2");
    two.run("BEGIN");
    assert_eq!(
        two.fail("UPDATE t SET a = 3").state,
        SqlState::SerializationFailure
    );
    one.run("COMMIT");
    two.run("ROLLBACK");
    assert_eq!(two.ask("SELECT a FROM t"), "2");
}

#[test]
fn a_statement_in_autocommit_waits_out_a_conflict() {
    let database = database();
    let (one, two) = (database.connect().unwrap(), database.connect().unwrap());
    one.run("CREATE TABLE t (a INT); INSERT INTO t VALUES (1)");
    one.run("BEGIN; UPDATE t SET a = a + 1");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| two.run("UPDATE t SET a = a * 10").affected);
        one.run("COMMIT");
        assert_eq!(waiting.join().unwrap(), Some(1));
    });
    assert_eq!(one.ask("SELECT a FROM t"), "20");
}

#[test]
fn a_snapshot_stays_the_same_for_the_whole_transaction() {
    let database = database();
    let (one, two) = (database.connect().unwrap(), database.connect().unwrap());
    one.run("CREATE TABLE t (a INT); INSERT INTO t VALUES (1)");
    two.run("BEGIN");
    assert_eq!(two.ask("SELECT count(*) FROM t"), "1");
    one.run("INSERT INTO t VALUES (2)");
    assert_eq!(two.ask("SELECT count(*), max(a) FROM t"), "1|1");
    two.run("COMMIT");
    assert_eq!(two.ask("SELECT count(*) FROM t"), "2");
}

#[test]
fn a_count_sees_the_transactions_own_rows() {
    let session = session();
    session.run("CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2)");
    session.run("BEGIN; DELETE FROM t WHERE a = 1; INSERT INTO t VALUES (7), (8)");
    assert_eq!(
        session.ask("SELECT count(*), min(a), max(a) FROM t"),
        "3|2|8"
    );
}

#[test]
fn a_statement_that_fails_at_its_last_row_leaves_nothing() {
    let session = session();
    session.run("CREATE TABLE t (a INT CHECK (a < 100000))");
    session.fail("INSERT INTO t SELECT value FROM generate_series(1, 100000) AS g(value)");
    assert_eq!(session.ask("SELECT count(*) FROM t"), "0");
}

#[test]
fn an_open_result_outlives_the_rollback_of_what_it_reads() {
    let session = session();
    session.run("CREATE TABLE t (a INT); BEGIN; INSERT INTO t VALUES (1), (2)");
    let rows = session.run("SELECT a FROM t").rows.unwrap();
    session.run("ROLLBACK");
    let batches = rows.collect().unwrap();
    assert_eq!(
        batches.iter().map(|batch| batch.num_rows()).sum::<usize>(),
        2
    );
}

#[test]
fn two_transactions_that_create_one_table_conflict() {
    let database = database();
    let (one, two) = (database.connect().unwrap(), database.connect().unwrap());
    one.run("BEGIN; CREATE TABLE t (a INT)");
    two.run("BEGIN; CREATE TABLE t (b INT)");
    one.run("COMMIT");
    assert_eq!(two.fail("COMMIT").state, SqlState::SerializationFailure);
    assert_eq!(two.columns("SELECT * FROM t"), "a");
}

#[test]
fn a_temporary_table_belongs_to_its_session() {
    let database = database();
    let (one, two) = (database.connect().unwrap(), database.connect().unwrap());
    one.run("CREATE TEMP TABLE t (a INT); INSERT INTO t VALUES (1)");
    assert_eq!(one.ask("SELECT a FROM t"), "1");
    assert_eq!(two.fail("SELECT a FROM t").state, SqlState::UndefinedTable);
}

#[test]
fn closing_rolls_back_and_later_calls_are_08003() {
    let database = database();
    let (one, two) = (database.connect().unwrap(), database.connect().unwrap());
    one.run("CREATE TABLE t (a INT); BEGIN; INSERT INTO t VALUES (1)");
    one.close();
    assert_eq!(one.fail("SELECT 1").state, SqlState::ConnectionDoesNotExist);
    assert_eq!(two.ask("SELECT count(*) FROM t"), "0");
}

#[test]
fn an_open_transaction_does_not_write_past_a_new_constraint() {
    let breaking = [
        (
            "ADD CONSTRAINT c CHECK (a > 0)",
            "INSERT INTO t VALUES (-1, 1)",
        ),
        (
            "ALTER COLUMN b SET NOT NULL",
            "INSERT INTO t VALUES (1, NULL)",
        ),
        ("ADD PRIMARY KEY (b)", "INSERT INTO t VALUES (1, NULL)"),
        ("ADD UNIQUE (a)", "INSERT INTO t VALUES (5, 5)"),
        ("ADD CONSTRAINT c CHECK (a > 0)", "UPDATE t SET a = -a"),
        ("ALTER COLUMN b SET NOT NULL", "UPDATE t SET b = NULL"),
    ];
    for (change, write) in breaking {
        let database = database();
        let (one, two) = (database.connect().unwrap(), database.connect().unwrap());
        one.run("CREATE TABLE t (a INT, b INT); INSERT INTO t VALUES (5, 5)");
        two.run("BEGIN; SELECT * FROM t");
        one.run(&format!("ALTER TABLE t {change}"));
        let error = two.fail(write);
        assert!(
            matches!(
                error.state,
                SqlState::SerializationFailure | SqlState::UniqueViolation
            ),
            "{change}: {error:?}"
        );
        two.run("ROLLBACK");
        assert_eq!(one.ask("SELECT a, b FROM t"), "5|5", "{change}");
        // In autocommit the new rule is what is broken.
        let state = two.fail(write).state;
        let rules = [
            SqlState::CheckViolation,
            SqlState::NotNullViolation,
            SqlState::UniqueViolation,
        ];
        assert!(rules.contains(&state), "{change}: {state:?}");
    }
}
