use crate::dml::harness::Fixture;

const T: &str = "CREATE TABLE t (k INT PRIMARY KEY, n INT); \
                 INSERT INTO t VALUES (1, 10), (2, 20), (3, NULL); \
                 CREATE TABLE s (x INT); INSERT INTO s VALUES (10), (99)";

#[test]
fn rows_that_match_are_deleted() {
    let f = Fixture::new(T);
    assert_eq!(f.affected("DELETE FROM t WHERE n > 10"), 1);
    assert_eq!(f.rows("SELECT k FROM t ORDER BY k"), "1;3");
    assert_eq!(f.affected("DELETE FROM t WHERE n > 100"), 0);
    assert_eq!(f.affected("DELETE FROM t"), 2);
    assert_eq!(f.rows("SELECT count(*) FROM t"), "0");
}

#[test]
fn in_a_subquery() {
    let f = Fixture::new(T);
    assert_eq!(f.affected("DELETE FROM t WHERE n IN (SELECT x FROM s)"), 1);
    assert_eq!(f.rows("SELECT k FROM t ORDER BY k"), "2;3");
}

#[test]
fn in_an_empty_subquery_deletes_nothing() {
    let f = Fixture::new(T);
    assert_eq!(
        f.affected("DELETE FROM t WHERE n IN (SELECT x FROM s WHERE false)"),
        0
    );
    assert_eq!(f.rows("SELECT count(*) FROM t"), "3");
}

#[test]
fn not_in_a_subquery() {
    let f = Fixture::new(T);
    assert_eq!(
        f.affected("DELETE FROM t WHERE n NOT IN (SELECT x FROM s)"),
        1
    );
    assert_eq!(f.rows("SELECT k FROM t ORDER BY k"), "1;3");
}

#[test]
fn not_in_with_a_null_deletes_nothing() {
    let f = Fixture::new(T);
    f.run("INSERT INTO s VALUES (NULL)");
    assert_eq!(
        f.affected("DELETE FROM t WHERE n NOT IN (SELECT x FROM s)"),
        0
    );
    assert_eq!(f.affected("DELETE FROM t WHERE n NOT IN (10, NULL)"), 0);
}

#[test]
fn exists_and_not_exists() {
    let f = Fixture::new(T);
    assert_eq!(
        f.affected("DELETE FROM t WHERE EXISTS (SELECT 1 FROM s WHERE s.x = t.n)"),
        1
    );
    assert_eq!(f.rows("SELECT k FROM t ORDER BY k"), "2;3");
    assert_eq!(
        f.affected("DELETE FROM t WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.x = t.n)"),
        2
    );
}

#[test]
fn subqueries_over_the_table_itself() {
    let f = Fixture::new(T);
    assert_eq!(
        f.affected("DELETE FROM t WHERE k = (SELECT max(k) FROM t)"),
        1
    );
    assert_eq!(
        f.affected("DELETE FROM t WHERE k NOT IN (SELECT min(k) FROM t)"),
        1
    );
    assert_eq!(f.rows("SELECT k FROM t"), "1");
}

#[test]
fn using_joins_other_tables_and_deletes_once() {
    let f = Fixture::new(T);
    f.run("INSERT INTO s VALUES (10), (20)");
    assert_eq!(f.affected("DELETE FROM t USING s WHERE s.x = t.n"), 2);
    assert_eq!(f.rows("SELECT k FROM t"), "3");
}

#[test]
fn using_a_table_under_an_alias() {
    let f = Fixture::new(T);
    assert_eq!(
        f.affected("DELETE FROM t AS a USING t AS b WHERE a.k < b.k"),
        2
    );
    assert_eq!(f.rows("SELECT k FROM t"), "3");
}

#[test]
fn duplicates_are_removed_by_comparing_rows() {
    let f = Fixture::new(
        "CREATE TABLE t (k INT, v INT); INSERT INTO t VALUES (1, 1), (1, 2), (2, 1), (2, 1), (3, 0)",
    );
    f.run("DELETE FROM t WHERE EXISTS (SELECT 1 FROM t o WHERE o.k = t.k AND o.v > t.v)");
    assert_eq!(f.rows("SELECT * FROM t ORDER BY k, v"), "1,2;2,1;2,1;3,0");
}

#[test]
fn deleted_keys_are_free_again() {
    let f = Fixture::new(T);
    f.run("DELETE FROM t WHERE k = 1; INSERT INTO t VALUES (1, 5)");
    assert_eq!(f.rows("SELECT n FROM t WHERE k = 1"), "5");
}

#[test]
fn many_rows_are_deleted() {
    let f = Fixture::new("CREATE TABLE t (a BIGINT)");
    f.run("INSERT INTO t SELECT value FROM generate_series(1, 100000) AS g(value)");
    assert_eq!(f.affected("DELETE FROM t WHERE a % 3 = 0"), 33333);
    assert_eq!(f.rows("SELECT count(*), sum(a) FROM t"), "66667,3333366667");
}

#[test]
fn common_table_expressions_feed_a_delete() {
    let f = Fixture::new(T);
    assert_eq!(
        f.affected("WITH c AS (SELECT 2 AS k) DELETE FROM t USING c WHERE c.k = t.k"),
        1
    );
    assert_eq!(
        f.affected("WITH c AS (SELECT 3 AS k) DELETE FROM t WHERE k IN (SELECT k FROM c)"),
        1
    );
}

#[test]
fn targets_must_be_tables() {
    let f = Fixture::new(T);
    f.run("CREATE VIEW v AS SELECT * FROM t");
    assert_eq!(f.state("DELETE FROM v"), "42809");
    assert_eq!(f.state("DELETE FROM nothing"), "42P01");
    assert_eq!(f.state("DELETE FROM t WHERE zz = 1"), "42703");
}
