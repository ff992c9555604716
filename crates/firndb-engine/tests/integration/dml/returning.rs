use crate::dml::harness::{Fixture, text};

const T: &str = "CREATE TABLE t (Id INT PRIMARY KEY, n INT DEFAULT 5, s TEXT)";

#[test]
fn insert_returns_rows_in_order_with_defaults() {
    let f = Fixture::new(T);
    assert_eq!(
        f.rows("INSERT INTO t (id, s) VALUES (3, 'c'), (1, 'a') RETURNING *"),
        "3,5,c;1,5,a"
    );
}

#[test]
fn insert_returns_expressions_and_counts() {
    let f = Fixture::new(T);
    let outcome =
        f.run("INSERT INTO t VALUES (1, 2, 'x'), (2, 3, 'y') RETURNING id + n AS total, upper(s)");
    assert_eq!(outcome.affected, Some(2));
    assert_eq!(text(outcome), "3,X;5,Y");
}

#[test]
fn names_and_aliases_keep_their_case() {
    let f = Fixture::new(T);
    assert_eq!(
        f.names("INSERT INTO t VALUES (1, 2, 'x') RETURNING id, n AS \"N2\", t.s"),
        ["Id", "N2", "s"]
    );
    assert_eq!(f.names("DELETE FROM t RETURNING *"), ["Id", "n", "s"]);
}

#[test]
fn update_returns_new_values() {
    let f = Fixture::new(T);
    f.run("INSERT INTO t VALUES (1, 10, 'a'), (2, 20, 'b')");
    assert_eq!(
        f.rows("UPDATE t SET n = n + 1 RETURNING id, n"),
        "1,11;2,21"
    );
    assert_eq!(
        f.rows("UPDATE t SET n = n + 1 WHERE id = 2 RETURNING *"),
        "2,22,b"
    );
    assert_eq!(f.rows("UPDATE t SET n = 0 WHERE id = 9 RETURNING *"), "");
}

#[test]
fn update_from_returns_columns_of_both() {
    let f = Fixture::new(T);
    f.run("INSERT INTO t VALUES (1, 10, 'a'), (2, 20, 'b'); CREATE TABLE o (id INT, w INT); INSERT INTO o VALUES (2, 7)");
    assert_eq!(
        f.rows("UPDATE t SET n = w FROM o WHERE o.id = t.id RETURNING t.id, t.n, o.w + 1"),
        "2,7,8"
    );
    assert_eq!(
        f.rows("UPDATE t SET n = w + 1 FROM o WHERE o.id = t.id RETURNING *"),
        "2,8,b,2,7"
    );
    assert_eq!(
        f.rows("UPDATE t x SET n = 1 FROM o WHERE o.id = x.id RETURNING o.*, x.s"),
        "2,7,b"
    );
}

#[test]
fn delete_returns_old_values() {
    let f = Fixture::new(T);
    f.run("INSERT INTO t VALUES (1, 10, 'a'), (2, 20, 'b')");
    assert_eq!(f.rows("DELETE FROM t WHERE id = 2 RETURNING *"), "2,20,b");
    assert_eq!(f.rows("DELETE FROM t RETURNING s || '!' AS x"), "a!");
}

#[test]
fn delete_using_returns_columns_of_both() {
    let f = Fixture::new(T);
    f.run("INSERT INTO t VALUES (1, 10, 'a'), (2, 20, 'b'); CREATE TABLE o (k INT, w INT); INSERT INTO o VALUES (1, 5)");
    assert_eq!(
        f.rows("DELETE FROM t USING o WHERE o.k = t.id RETURNING t.s, w"),
        "a,5"
    );
}

#[test]
fn subqueries_in_returning_see_the_rows_before() {
    let f = Fixture::new(T);
    f.run("INSERT INTO t VALUES (1, 10, 'a')");
    assert_eq!(
        f.rows("INSERT INTO t VALUES (2, 0, 'b') RETURNING (SELECT count(*) FROM t)"),
        "1"
    );
    assert_eq!(
        f.rows("DELETE FROM t RETURNING id, (SELECT sum(o.n) FROM t o)"),
        "1,10;2,10"
    );
}

#[test]
fn aggregates_in_returning_are_refused() {
    let f = Fixture::new(T);
    assert_eq!(
        f.state("INSERT INTO t VALUES (1, 1, '') RETURNING count(*)"),
        "42803"
    );
    assert_eq!(f.rows("SELECT count(*) FROM t"), "0");
}

#[test]
fn unknown_columns_in_returning_leave_nothing() {
    let f = Fixture::new(T);
    assert_eq!(
        f.state("INSERT INTO t VALUES (1, 1, '') RETURNING zz"),
        "42703"
    );
    assert_eq!(f.rows("SELECT count(*) FROM t"), "0");
}

#[test]
fn many_rows_are_returned_in_order() {
    let f = Fixture::new("CREATE TABLE t (a BIGINT)");
    let rows =
        f.rows("INSERT INTO t SELECT value FROM generate_series(1, 50000) AS g(value) RETURNING a");
    let expected: Vec<String> = (1..=50000).map(|n: i32| n.to_string()).collect();
    assert_eq!(rows, expected.join(";"));
    let rows = f.rows(
        "INSERT INTO t SELECT value FROM generate_series(1, 50000) AS g(value) RETURNING a + 0",
    );
    assert_eq!(rows, expected.join(";"));
}
