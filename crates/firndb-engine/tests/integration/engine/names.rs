//! Names: folding, case, duplicates, result names.

use firndb_engine::SqlState;

use crate::engine::support::{Ask, session};

#[test]
fn names_match_without_case_and_keep_it() {
    let session = session();
    session.run("CREATE TABLE Flights (Carrier TEXT, \"Dep Delay\" INT); INSERT INTO flights VALUES ('UA', 5)");
    assert_eq!(
        session.columns("SELECT carrier, \"dep delay\" FROM FLIGHTS"),
        "Carrier,Dep Delay"
    );
    assert_eq!(
        session.columns("SELECT * FROM flights"),
        "Carrier,Dep Delay"
    );
    assert_eq!(
        session.ask("SELECT F.CARRIER FROM flights AS f WHERE f.carrier = 'UA'"),
        "UA"
    );
    assert_eq!(session.ask("SHOW TABLES"), "Flights");
}

#[test]
fn an_alias_keeps_its_case() {
    let session = session();
    assert_eq!(
        session.columns("SELECT 1 AS One, 2 two, 3 AS \"Three!\""),
        "One,two,Three!"
    );
    assert_eq!(
        session.columns("SELECT * FROM (SELECT 1 AS Inner_Name)"),
        "Inner_Name"
    );
    assert_eq!(
        session.columns("WITH c(Xx) AS (SELECT 1) SELECT xx FROM C"),
        "Xx"
    );
}

#[test]
fn expressions_are_named_by_their_text() {
    let session = session();
    session.run("CREATE TABLE t (a INT)");
    assert_eq!(
        session.columns("SELECT a + 1, count(*), sum(a) FROM t GROUP BY a"),
        "a + 1,count(*),sum(a)"
    );
    assert_eq!(
        session.ask("SELECT \"count(*)\" FROM (SELECT count(*) FROM t)"),
        "0"
    );
}

#[test]
fn equal_names_stand_together_in_a_result() {
    let session = session();
    session.run("CREATE TABLE t (a INT); CREATE TABLE u (a INT); INSERT INTO t VALUES (1); INSERT INTO u VALUES (2)");
    assert_eq!(
        session.columns("SELECT 1, 1, a AS x, a AS x FROM t"),
        "1,1,x,x"
    );
    assert_eq!(session.ask("SELECT a, a FROM t"), "1|1");
    assert_eq!(session.ask("SELECT t.a, u.a FROM t, u"), "1|2");
    assert_eq!(session.columns("SELECT * FROM t, u"), "a,a");
    assert_eq!(session.ask("SELECT * FROM (SELECT 1, 1)"), "1|1");
}

#[test]
fn columns_that_differ_by_case_alone_are_refused() {
    assert_eq!(
        session().fail("CREATE TABLE t (a INT, A INT)").state,
        SqlState::DuplicateColumn
    );
}

#[test]
fn a_common_table_expression_hides_a_table() {
    let session = session();
    session.run("CREATE TABLE t (a INT); INSERT INTO t VALUES (1)");
    assert_eq!(
        session.ask("WITH T AS (SELECT 5 AS a) SELECT a FROM t"),
        "5"
    );
}

#[test]
fn order_by_finds_aliases_positions_and_expressions() {
    let session = session();
    session.run("CREATE TABLE t (a INT, b INT); INSERT INTO t VALUES (1, 9), (2, 8)");
    assert_eq!(
        session.ask("SELECT a AS Key FROM t ORDER BY KEY DESC"),
        "2 1"
    );
    assert_eq!(
        session.ask("SELECT a + b, b FROM t ORDER BY 2"),
        "10|8 10|9"
    );
    assert_eq!(session.ask("SELECT b - a FROM t ORDER BY b - a"), "6 8");
    assert_eq!(
        session.ask("SELECT DISTINCT b - a FROM t ORDER BY b - a"),
        "6 8"
    );
    assert_eq!(
        session.ask("SELECT sum(a), b FROM t GROUP BY b ORDER BY sum(a)"),
        "1|9 2|8"
    );
}
