//! interrupt.

use std::time::{Duration, Instant};

use firndb_engine::{Parameters, SqlState};

use crate::engine::support::{Ask, session};

const ENDLESS: &str = "SELECT count(*) FROM generate_series(1, 1000000) a(x), generate_series(1, 1000000) b(y) WHERE x * y % 7 = 8";

#[test]
fn a_running_query_ends_within_a_tenth_of_a_second() {
    let session = session();
    std::thread::scope(|scope| {
        let running = scope.spawn(|| session.fail(ENDLESS));
        while session.progress().is_none() {
            std::thread::yield_now();
        }
        let began = Instant::now();
        while !running.is_finished() {
            session.interrupt();
            std::thread::yield_now();
        }
        assert!(began.elapsed() < Duration::from_millis(100));
        assert_eq!(running.join().unwrap().state, SqlState::QueryCanceled);
    });
    assert_eq!(session.ask("SELECT 1"), "1");
}

#[test]
fn a_cancelled_write_leaves_nothing() {
    let session = session();
    session.run("CREATE TABLE t (a BIGINT)");
    std::thread::scope(|scope| {
        let sql = format!(
            "INSERT INTO t SELECT x FROM generate_series(1, 3000000) c(x) WHERE x < 2000000 OR x = ({ENDLESS})"
        );
        let session = &session;
        let running = scope.spawn(move || session.fail(&sql));
        while !running.is_finished() {
            session.interrupt();
            std::thread::yield_now();
        }
        assert_eq!(running.join().unwrap().state, SqlState::QueryCanceled);
    });
    assert_eq!(session.ask("SELECT count(*) FROM t"), "0");
}

#[test]
fn an_open_result_is_cancelled() {
    let session = session();
    let mut rows = session
        .run("SELECT a FROM generate_series(1, 100000) a, generate_series(1, 100000) b")
        .rows
        .unwrap();
    assert!(rows.next().unwrap().is_ok());
    session.interrupt();
    let error = rows.find_map(Result::err).unwrap();
    assert_eq!(error.state, SqlState::QueryCanceled);
    assert!(rows.next().is_none());
}

#[test]
fn a_dropped_result_ends_its_query() {
    let session = session();
    let rows = session.execute(ENDLESS, &Parameters::default()).unwrap();
    drop(rows);
    assert_eq!(session.ask("SELECT 1"), "1");
}

#[test]
fn an_open_result_does_not_block_the_next_statement() {
    let session = session();
    session.run("CREATE TABLE t AS SELECT value AS a FROM generate_series(1, 200000) AS g(value)");
    let mut rows = session.run("SELECT a FROM t").rows.unwrap();
    let first = rows.next().unwrap().unwrap().num_rows();
    session.run("DELETE FROM t");
    let rest: usize = rows.map(|batch| batch.unwrap().num_rows()).sum();
    assert_eq!(first + rest, 200_000);
    assert_eq!(session.ask("SELECT count(*) FROM t"), "0");
}
