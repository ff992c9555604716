use crate::dml::harness::Fixture;

const T: &str = "CREATE TABLE t (k INT PRIMARY KEY, n INT, s TEXT); \
                 INSERT INTO t VALUES (1, 10, 'a'), (2, 20, 'b'), (3, NULL, 'c')";

#[test]
fn rows_that_match_are_updated() {
    let f = Fixture::new(T);
    assert_eq!(
        f.affected("UPDATE t SET n = n + 1, s = upper(s) WHERE k < 3"),
        2
    );
    assert_eq!(f.rows("SELECT * FROM t ORDER BY k"), "1,11,A;2,21,B;3,-,c");
}

#[test]
fn without_a_condition_every_row_is_updated() {
    let f = Fixture::new(T);
    assert_eq!(f.affected("UPDATE t SET n = 0"), 3);
    assert_eq!(f.affected("UPDATE t SET n = 1 WHERE false"), 0);
    assert_eq!(f.affected("UPDATE t SET n = 1 WHERE NULL"), 0);
    assert_eq!(f.rows("SELECT DISTINCT n FROM t"), "0");
}

#[test]
fn expressions_see_the_old_row() {
    let f = Fixture::new("CREATE TABLE t (a INT, b INT); INSERT INTO t VALUES (1, 2)");
    f.run("UPDATE t SET a = b, b = a");
    assert_eq!(f.rows("SELECT * FROM t"), "2,1");
}

#[test]
fn a_unique_key_may_shift() {
    let f = Fixture::new(T);
    assert_eq!(f.affected("UPDATE t SET k = k + 1"), 3);
    assert_eq!(f.rows("SELECT k FROM t ORDER BY k"), "2;3;4");
    f.run("UPDATE t SET k = k - 1");
    f.run("UPDATE t SET k = 4 - k");
    assert_eq!(f.rows("SELECT k, s FROM t ORDER BY k"), "1,c;2,b;3,a");
}

#[test]
fn a_unique_key_may_not_collide() {
    let f = Fixture::new(T);
    assert_eq!(f.state("UPDATE t SET k = 1 WHERE k = 2"), "23505");
    assert_eq!(f.state("UPDATE t SET k = 7"), "23505");
    assert_eq!(f.rows("SELECT k FROM t ORDER BY k"), "1;2;3");
}

#[test]
fn a_large_table_may_shift_its_keys() {
    let f = Fixture::new("CREATE TABLE t (k BIGINT PRIMARY KEY)");
    f.run("INSERT INTO t SELECT value FROM generate_series(1, 70000) AS g(value)");
    assert_eq!(f.affected("UPDATE t SET k = k + 1"), 70000);
    assert_eq!(
        f.rows("SELECT min(k), max(k), count(*) FROM t"),
        "2,70001,70000"
    );
}

#[test]
fn default_resets_a_column() {
    let f = Fixture::new("CREATE TABLE t (a INT DEFAULT 9, b INT); INSERT INTO t VALUES (1, 1)");
    f.run("UPDATE t SET a = DEFAULT, b = DEFAULT");
    assert_eq!(f.rows("SELECT * FROM t"), "9,-");
}

#[test]
fn tuples_are_assigned() {
    let f = Fixture::new(T);
    f.run("UPDATE t SET (n, s) = (k * 2, 'z') WHERE k = 1");
    f.run("UPDATE t SET (n, s) = ROW(5, DEFAULT) WHERE k = 2");
    assert_eq!(f.rows("SELECT * FROM t ORDER BY k"), "1,2,z;2,5,-;3,-,c");
    assert_eq!(f.state("UPDATE t SET (n, s) = (1, 2, 3)"), "42601");
}

#[test]
fn tuples_are_assigned_from_correlated_subqueries() {
    let f = Fixture::new(T);
    f.run(
        "CREATE TABLE s (k INT, x INT, y TEXT); INSERT INTO s VALUES (1, 100, 'p'), (3, 300, 'q')",
    );
    f.run("UPDATE t SET (n, s) = (SELECT x, y FROM s WHERE s.k = t.k)");
    assert_eq!(
        f.rows("SELECT * FROM t ORDER BY k"),
        "1,100,p;2,-,-;3,300,q"
    );
    f.run("UPDATE t SET (n, s) = (SELECT max(x), min(y) FROM s WHERE s.k = t.k + 1)");
    assert_eq!(f.rows("SELECT n, s FROM t ORDER BY k"), "-,-;300,q;-,-");
}

#[test]
fn a_column_is_assigned_once() {
    let f = Fixture::new(T);
    assert_eq!(f.state("UPDATE t SET n = 1, n = 2"), "42601");
    assert_eq!(f.state("UPDATE t SET zz = 1"), "42703");
}

#[test]
fn correlated_subqueries_give_values() {
    let f = Fixture::new(T);
    f.run("CREATE TABLE s (k INT, x INT); INSERT INTO s VALUES (1, 100), (2, 200), (9, 1), (9, 2)");
    assert_eq!(
        f.affected("UPDATE t SET n = (SELECT x FROM s WHERE s.k = t.k)"),
        3
    );
    assert_eq!(f.rows("SELECT n FROM t ORDER BY k"), "100;200;-");
}

#[test]
fn a_correlated_subquery_of_several_rows_is_an_error_for_the_row_that_asks() {
    let f = Fixture::new(T);
    f.run("CREATE TABLE s (k INT, x INT); INSERT INTO s VALUES (1, 100), (1, 200)");
    assert_eq!(
        f.state("UPDATE t SET n = (SELECT x FROM s WHERE s.k = t.k)"),
        "21000"
    );
    assert_eq!(
        f.affected("UPDATE t SET n = (SELECT x FROM s WHERE s.k = t.k) WHERE k > 1"),
        2
    );
}

#[test]
fn subqueries_over_the_table_itself_see_the_old_rows() {
    let f = Fixture::new(T);
    f.run("UPDATE t SET n = (SELECT sum(n) FROM t)");
    assert_eq!(f.rows("SELECT n FROM t"), "30;30;30");
    f.run("UPDATE t SET n = (SELECT count(*) FROM t AS o WHERE o.k = t.k + 1)");
    assert_eq!(f.rows("SELECT n FROM t ORDER BY k"), "1;1;0");
}

#[test]
fn conditions_with_subqueries_select_the_right_rows() {
    let f = Fixture::new(T);
    f.run("CREATE TABLE s (k INT); INSERT INTO s VALUES (2), (2)");
    assert_eq!(
        f.affected("UPDATE t SET s = 'in' WHERE k IN (SELECT k FROM s)"),
        1
    );
    assert_eq!(
        f.affected("UPDATE t SET s = 'not' WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.k = t.k)"),
        2
    );
    assert_eq!(f.rows("SELECT s FROM t ORDER BY k"), "not;in;not");
}

#[test]
fn from_joins_other_tables() {
    let f = Fixture::new(T);
    f.run("CREATE TABLE s (k INT, x INT); INSERT INTO s VALUES (1, 100), (3, 300), (9, 900)");
    assert_eq!(f.affected("UPDATE t SET n = s.x FROM s WHERE s.k = t.k"), 2);
    assert_eq!(f.rows("SELECT n FROM t ORDER BY k"), "100;20;300");
}

#[test]
fn several_matches_update_a_row_once() {
    let f = Fixture::new(T);
    f.run("CREATE TABLE s (k INT, x INT); INSERT INTO s VALUES (1, 7), (1, 7), (1, 7)");
    assert_eq!(
        f.affected("UPDATE t SET n = coalesce(n, 0) + s.x FROM s WHERE s.k = t.k"),
        1
    );
    assert_eq!(f.rows("SELECT n FROM t WHERE k = 1"), "17");
}

#[test]
fn from_without_a_condition_is_a_cross_join() {
    let f = Fixture::new(T);
    f.run("CREATE TABLE s (x INT); INSERT INTO s VALUES (5)");
    assert_eq!(f.affected("UPDATE t SET n = x FROM s"), 3);
    f.run("DELETE FROM s");
    assert_eq!(f.affected("UPDATE t SET n = x + 1 FROM s"), 0);
}

#[test]
fn a_table_joins_itself_under_an_alias() {
    let f = Fixture::new(T);
    f.run("UPDATE t AS a SET n = b.k FROM t AS b WHERE b.k = a.k + 1");
    assert_eq!(f.rows("SELECT n FROM t ORDER BY k"), "2;3;-");
}

#[test]
fn common_table_expressions_feed_an_update() {
    let f = Fixture::new(T);
    f.run("WITH c AS (SELECT 2 AS k, 55 AS v) UPDATE t SET n = c.v FROM c WHERE c.k = t.k");
    assert_eq!(f.rows("SELECT n FROM t ORDER BY k"), "10;55;-");
}

#[test]
fn constraints_hold_after_an_update() {
    let f = Fixture::new(
        "CREATE TABLE t (a INT NOT NULL, b INT, c INT, CONSTRAINT sum CHECK (a + b < 10)); INSERT INTO t VALUES (1, 2, 3), (4, 5, 6)",
    );
    let error = f.error("UPDATE t SET b = b + 1");
    assert_eq!(error.state.code(), "23514");
    assert_eq!(
        error.detail.as_deref(),
        Some("Failing row contains (4, 6, 6).")
    );
    let error = f.error("UPDATE t SET a = NULL WHERE c = 6");
    assert_eq!(error.state.code(), "23502");
    assert_eq!(
        error.detail.as_deref(),
        Some("Failing row contains (null, 5, 6).")
    );
    f.run("UPDATE t SET b = NULL");
    f.run("UPDATE t SET c = 0");
    assert_eq!(f.rows("SELECT * FROM t"), "1,-,0;4,-,0");
}

#[test]
fn columns_not_set_stay() {
    let f = Fixture::new("CREATE TABLE t (a BIGINT, b TEXT, c DECIMAL(10,2))");
    f.run("INSERT INTO t SELECT value, 'row ' || value, value FROM generate_series(1, 40000) AS g(value)");
    f.run("UPDATE t SET c = c + 1 WHERE a % 2 = 0");
    assert_eq!(
        f.rows("SELECT count(*) FROM t WHERE b = 'row ' || a AND c = a + CASE WHEN a % 2 = 0 THEN 1 ELSE 0 END"),
        "40000"
    );
}

#[test]
fn an_error_in_a_late_row_leaves_nothing() {
    let f = Fixture::new("CREATE TABLE t (a BIGINT)");
    f.run("INSERT INTO t SELECT value FROM generate_series(1, 40000) AS g(value)");
    assert_eq!(f.state("UPDATE t SET a = 100 / (a - 40000)"), "22012");
    assert_eq!(
        f.rows("SELECT count(*), count(DISTINCT a) FROM t"),
        "40000,40000"
    );
}

#[test]
fn a_name_may_be_used_twice_only_with_an_alias() {
    let f = Fixture::new(T);
    f.error("UPDATE t SET n = 1 FROM t WHERE k = 1");
}

#[test]
fn a_row_found_by_its_key_is_updated_as_any_other() {
    let f = Fixture::new(T);
    f.run("ALTER TABLE t ADD CONSTRAINT small CHECK (n < 1000)");
    assert_eq!(f.affected("UPDATE t SET n = n + k, s = 'x' WHERE k = 2"), 1);
    assert_eq!(f.affected("UPDATE t SET n = 0 WHERE k = 99"), 0);
    assert_eq!(
        f.rows("UPDATE t SET n = n + 1 WHERE 1 = k RETURNING k, n"),
        "1,11"
    );
    assert_eq!(f.state("UPDATE t SET n = 1000 WHERE k = 1"), "23514");
    assert_eq!(f.state("UPDATE t SET k = 2 WHERE k = 1"), "23505");
    assert_eq!(f.state("UPDATE t SET n = n / 0 WHERE k = 1"), "22012");
    assert_eq!(f.rows("SELECT * FROM t ORDER BY k"), "1,11,a;2,22,x;3,-,c");
}

#[test]
fn keys_are_compared_as_sql_compares_them() {
    let f = Fixture::new(T);
    assert_eq!(f.affected("UPDATE t SET n = 0 WHERE k = '1'"), 1);
    assert_eq!(f.affected("UPDATE t SET n = 0 WHERE k = 1.5"), 0);
    assert_eq!(f.affected("UPDATE t SET n = 0 WHERE k = 2.0"), 1);
    assert_eq!(f.affected("UPDATE t SET n = 0 WHERE k = 5000000000"), 0);
    assert_eq!(f.affected("UPDATE t SET n = 0 WHERE k = NULL"), 0);
    assert_eq!(f.affected("UPDATE t SET n = 0 WHERE k = 1 AND k = 2"), 0);
    assert_eq!(f.affected("UPDATE t SET n = 0 WHERE k = 1 AND n = 7"), 0);
    assert_eq!(f.affected("DELETE FROM t AS x WHERE x.k = 3"), 1);
}
