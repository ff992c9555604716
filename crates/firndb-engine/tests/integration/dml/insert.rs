use firndb_engine::Value;

use crate::dml::harness::Fixture;

#[test]
fn columns_not_named_take_their_defaults() {
    let f = Fixture::new("CREATE TABLE t (a INT, b TEXT DEFAULT 'x', c INT DEFAULT 1 + 2)");
    assert_eq!(f.affected("INSERT INTO t (a) VALUES (1), (2)"), 2);
    assert_eq!(f.rows("SELECT * FROM t ORDER BY a"), "1,x,3;2,x,3");
}

#[test]
fn default_stands_among_values() {
    let f = Fixture::new("CREATE TABLE t (a INT DEFAULT 7, b TEXT)");
    f.run("INSERT INTO t VALUES (DEFAULT, 'p'), (1, DEFAULT), (2, 'q')");
    assert_eq!(f.rows("SELECT * FROM t"), "7,p;1,-;2,q");
}

#[test]
fn default_values_inserts_one_row() {
    let f = Fixture::new("CREATE TABLE t (a INT DEFAULT 7, b TEXT)");
    assert_eq!(f.affected("INSERT INTO t DEFAULT VALUES"), 1);
    assert_eq!(f.rows("SELECT * FROM t"), "7,-");
}

#[test]
fn volatile_defaults_are_evaluated_for_each_row() {
    let f = Fixture::new("CREATE TABLE t (a INT, r DOUBLE DEFAULT random())");
    f.run("INSERT INTO t (a) VALUES (1), (2), (3)");
    assert_eq!(f.rows("SELECT count(DISTINCT r) FROM t"), "3");
}

#[test]
fn fewer_values_than_columns_without_a_list_leave_defaults() {
    let f = Fixture::new("CREATE TABLE t (a INT, b INT DEFAULT 5, c INT)");
    f.run("INSERT INTO t VALUES (1)");
    f.run("INSERT INTO t SELECT 2, 3");
    assert_eq!(f.rows("SELECT * FROM t"), "1,5,-;2,3,-");
}

#[test]
fn the_column_list_orders_values() {
    let f = Fixture::new("CREATE TABLE t (a INT, b INT, c INT)");
    f.run("INSERT INTO t (c, a) VALUES (3, 1)");
    f.run("INSERT INTO t (b, a) SELECT 20, 10");
    assert_eq!(f.rows("SELECT * FROM t"), "1,-,3;10,20,-");
}

#[test]
fn wrong_counts_are_syntax_errors() {
    let f = Fixture::new("CREATE TABLE t (a INT, b INT)");
    assert_eq!(f.state("INSERT INTO t VALUES (1, 2, 3)"), "42601");
    assert_eq!(f.state("INSERT INTO t (a, b) VALUES (1)"), "42601");
    assert_eq!(f.state("INSERT INTO t (a) SELECT 1, 2"), "42601");
    assert_eq!(f.state("INSERT INTO t (a, b) SELECT 1"), "42601");
    assert_eq!(f.state("INSERT INTO t VALUES (1, 2), (3)"), "42601");
    assert_eq!(f.rows("SELECT count(*) FROM t"), "0");
}

#[test]
fn column_lists_are_checked() {
    let f = Fixture::new("CREATE TABLE t (a INT, b INT)");
    assert_eq!(f.state("INSERT INTO t (a, x) VALUES (1, 2)"), "42703");
    assert_eq!(f.state("INSERT INTO t (a, a) VALUES (1, 2)"), "42701");
    assert_eq!(f.state("INSERT INTO nothing VALUES (1)"), "42P01");
}

#[test]
fn a_table_can_feed_itself() {
    let f = Fixture::new("CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2)");
    assert_eq!(f.affected("INSERT INTO t SELECT a + 10 FROM t"), 2);
    assert_eq!(f.rows("SELECT * FROM t ORDER BY a"), "1;2;11;12");
}

#[test]
fn a_large_table_can_feed_itself() {
    let f = Fixture::new("CREATE TABLE t (a BIGINT)");
    f.run("INSERT INTO t SELECT value FROM generate_series(1, 50000) AS g(value)");
    assert_eq!(f.affected("INSERT INTO t SELECT a + 50000 FROM t"), 50000);
    assert_eq!(
        f.rows("SELECT count(*), count(DISTINCT a), max(a) FROM t"),
        "100000,100000,100000"
    );
}

#[test]
fn not_null_names_column_and_row() {
    let f = Fixture::new("CREATE TABLE t (a INT, b TEXT NOT NULL)");
    let error = f.error("INSERT INTO t VALUES (1, 'x'), (2, NULL)");
    assert_eq!(error.state.code(), "23502");
    assert_eq!(
        error.message,
        "null value in column \"b\" of relation \"t\" violates not-null constraint"
    );
    assert_eq!(
        error.detail.as_deref(),
        Some("Failing row contains (2, null).")
    );
    assert_eq!(f.rows("SELECT count(*) FROM t"), "0");
}

#[test]
fn a_missing_value_of_a_not_null_column_is_refused() {
    let f = Fixture::new("CREATE TABLE t (a INT, b TEXT NOT NULL)");
    assert_eq!(f.state("INSERT INTO t (a) VALUES (1)"), "23502");
    assert_eq!(f.state("INSERT INTO t DEFAULT VALUES"), "23502");
}

#[test]
fn check_names_the_constraint_and_null_passes() {
    let f = Fixture::new("CREATE TABLE t (a INT, CONSTRAINT positive CHECK (a > 0))");
    f.run("INSERT INTO t VALUES (NULL), (1)");
    let error = f.error("INSERT INTO t VALUES (2), (-1)");
    assert_eq!(error.state.code(), "23514");
    assert_eq!(
        error.message,
        "new row for relation \"t\" violates check constraint \"positive\""
    );
    assert_eq!(error.detail.as_deref(), Some("Failing row contains (-1)."));
    assert_eq!(f.rows("SELECT count(*) FROM t"), "2");
}

#[test]
fn the_first_row_that_breaks_a_constraint_is_reported() {
    let f = Fixture::new("CREATE TABLE t (a INT NOT NULL, b INT CHECK (b > 0))");
    assert_eq!(f.state("INSERT INTO t VALUES (1, 0), (NULL, 1)"), "23514");
    assert_eq!(f.state("INSERT INTO t VALUES (NULL, 1), (1, 0)"), "23502");
}

#[test]
fn values_are_converted_to_the_columns() {
    let f = Fixture::new("CREATE TABLE t (i INT, d DECIMAL(6,2), s TEXT, b BOOLEAN, y DATE)");
    f.run("INSERT INTO t VALUES ('12', 1.005, 5, 'true', '2024-02-29')");
    f.run("INSERT INTO t VALUES (2.5, '7', 1.50, false, DATE '2024-03-01')");
    assert_eq!(
        f.rows("SELECT * FROM t"),
        "12,1.01,5,true,2024-02-29;3,7.00,1.50,false,2024-03-01"
    );
}

#[test]
fn values_that_do_not_fit_are_refused() {
    let f = Fixture::new("CREATE TABLE t (i SMALLINT, s VARCHAR(3), d DATE)");
    assert_eq!(f.state("INSERT INTO t (i) VALUES (40000)"), "22003");
    assert_eq!(f.state("INSERT INTO t (s) VALUES ('abcd')"), "22001");
    assert_eq!(f.state("INSERT INTO t (i) VALUES ('x')"), "22P02");
    assert_eq!(f.rows("SELECT count(*) FROM t"), "0");
}

#[test]
fn one_rows_type_does_not_change_anothers_value() {
    let f = Fixture::new("CREATE TABLE t (a BIGINT, s TEXT)");
    f.run("INSERT INTO t VALUES (9007199254740993, 1), (1.5, 'x'), ('3', true)");
    assert_eq!(f.rows("SELECT a FROM t"), "9007199254740993;2;3");
    assert_eq!(f.rows("SELECT s FROM t"), "1;x;true");
}

#[test]
fn constants_and_expressions_give_the_same_values() {
    let f = Fixture::new("CREATE TABLE t (a DECIMAL(10,3), b DOUBLE, c INT)");
    f.run("INSERT INTO t VALUES (1.25, 0.1, -5), (1.25 + 0, 0.1 + 0, -5 + 0)");
    assert_eq!(
        f.rows("SELECT count(*) FROM (SELECT DISTINCT a, b, c FROM t)"),
        "1"
    );
}

#[test]
fn values_hold_subqueries_and_functions() {
    let f = Fixture::new("CREATE TABLE t (a INT, b TEXT); INSERT INTO t VALUES (4, 'x')");
    f.run("INSERT INTO t VALUES ((SELECT max(a) + 1 FROM t), upper('y')), (6, lower('Z'))");
    assert_eq!(f.rows("SELECT * FROM t"), "4,x;5,Y;6,z");
}

#[test]
fn a_subquery_among_values_yields_one_row_or_an_error() {
    let f = Fixture::new("CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2)");
    f.run("INSERT INTO t VALUES ((SELECT a FROM t WHERE a > 5))");
    assert_eq!(f.rows("SELECT count(*) FROM t WHERE a IS NULL"), "1");
    assert_eq!(f.state("INSERT INTO t VALUES ((SELECT a FROM t))"), "21000");
}

#[test]
fn parameters_become_values() {
    let f = Fixture::new("CREATE TABLE t (a INT, b TEXT, c DOUBLE)");
    f.run_with(
        "INSERT INTO t VALUES ($1, $2, $3), ($1, $2, $3)",
        vec![
            Value::Int64(Some(3)),
            Value::Utf8(Some("it's".into())),
            Value::Float64(Some(0.1)),
        ],
    );
    assert_eq!(f.rows("SELECT * FROM t"), "3,it's,0.1;3,it's,0.1");
}

#[test]
fn sources_may_be_any_query() {
    let f = Fixture::new("CREATE TABLE t (a INT)");
    f.run("INSERT INTO t VALUES (3), (1) ORDER BY 1 LIMIT 1");
    f.run("INSERT INTO t SELECT 5 UNION ALL SELECT 6");
    f.run("INSERT INTO t WITH x AS (SELECT 7 AS a) SELECT a FROM x");
    f.run("WITH x AS (SELECT 8 AS a) INSERT INTO t SELECT a FROM x");
    f.run("WITH x AS (SELECT 9 AS a) INSERT INTO t VALUES ((SELECT a FROM x))");
    assert_eq!(f.rows("SELECT * FROM t ORDER BY a"), "1;5;6;7;8;9");
}

#[test]
fn names_match_without_case() {
    let f = Fixture::new("CREATE TABLE People (Id INT, FullName TEXT)");
    f.run("INSERT INTO people (ID, fullname) VALUES (1, 'Ada')");
    f.run("INSERT INTO \"People\" (\"FullName\") VALUES ('Bo')");
    assert_eq!(f.rows("SELECT id, FULLNAME FROM PEOPLE"), "1,Ada;-,Bo");
}

#[test]
fn insertion_order_is_the_tables_order() {
    let f = Fixture::new("CREATE TABLE t (a BIGINT)");
    f.run("INSERT INTO t SELECT value FROM generate_series(1, 100000) AS g(value)");
    f.run("INSERT INTO t VALUES (-1), (-2)");
    assert_eq!(f.rows("SELECT a FROM t LIMIT 3"), "1;2;3");
    assert_eq!(f.rows("SELECT a FROM t OFFSET 99999"), "100000;-1;-2");
}

#[test]
fn duplicate_keys_of_one_statement_are_refused() {
    let f = Fixture::new("CREATE TABLE t (a INT PRIMARY KEY)");
    assert_eq!(f.state("INSERT INTO t VALUES (1), (2), (1)"), "23505");
    assert_eq!(f.rows("SELECT count(*) FROM t"), "0");
}

#[test]
fn nulls_in_unique_columns_do_not_collide() {
    let f = Fixture::new("CREATE TABLE t (a INT UNIQUE, b INT)");
    f.run("INSERT INTO t VALUES (NULL, 1), (NULL, 2)");
    assert_eq!(f.rows("SELECT count(*) FROM t"), "2");
}
