use crate::dml::harness::Fixture;

const COUNTERS: &str = "CREATE TABLE t (k INT PRIMARY KEY, n INT, u TEXT UNIQUE); \
                        INSERT INTO t VALUES (1, 10, 'a'), (2, 20, 'b')";

#[test]
fn do_nothing_keeps_stored_rows() {
    let f = Fixture::new(COUNTERS);
    let sql = "INSERT INTO t VALUES (1, 0, 'x'), (3, 30, 'c') ON CONFLICT (k) DO NOTHING";
    assert_eq!(f.affected(sql), 1);
    assert_eq!(f.rows("SELECT k, n FROM t ORDER BY k"), "1,10;2,20;3,30");
}

#[test]
fn do_nothing_without_a_target_minds_every_unique_key() {
    let f = Fixture::new(COUNTERS);
    let sql = "INSERT INTO t VALUES (3, 0, 'a'), (1, 0, 'z'), (4, 40, 'd') ON CONFLICT DO NOTHING";
    assert_eq!(f.affected(sql), 1);
    assert_eq!(f.rows("SELECT k FROM t ORDER BY k"), "1;2;4");
}

#[test]
fn do_nothing_keeps_the_first_of_equal_proposed_rows() {
    let f = Fixture::new(COUNTERS);
    let sql = "INSERT INTO t VALUES (5, 1, 'p'), (5, 2, 'q') ON CONFLICT (k) DO NOTHING";
    assert_eq!(f.affected(sql), 1);
    assert_eq!(f.rows("SELECT n FROM t WHERE k = 5"), "1");
}

#[test]
fn do_nothing_on_one_key_still_checks_the_others() {
    let f = Fixture::new(COUNTERS);
    let sql = "INSERT INTO t VALUES (9, 0, 'a') ON CONFLICT (k) DO NOTHING";
    assert_eq!(f.state(sql), "23505");
}

#[test]
fn a_row_dropped_for_one_key_does_not_claim_another() {
    let f = Fixture::new(COUNTERS);
    let sql = "INSERT INTO t VALUES (1, 0, 'new'), (7, 70, 'new') ON CONFLICT DO NOTHING";
    assert_eq!(f.affected(sql), 1);
    assert_eq!(f.rows("SELECT k FROM t WHERE u = 'new'"), "7");
}

#[test]
fn do_update_sees_stored_and_excluded_rows() {
    let f = Fixture::new(COUNTERS);
    let sql = "INSERT INTO t VALUES (1, 5, 'x'), (3, 30, 'c') \
               ON CONFLICT (k) DO UPDATE SET n = t.n + excluded.n";
    assert_eq!(f.affected(sql), 2);
    assert_eq!(f.rows("SELECT * FROM t ORDER BY k"), "1,15,a;2,20,b;3,30,c");
}

#[test]
fn do_update_where_leaves_other_rows() {
    let f = Fixture::new(COUNTERS);
    let sql = "INSERT INTO t VALUES (1, 5, 'x'), (2, 99, 'y') \
               ON CONFLICT (k) DO UPDATE SET n = excluded.n WHERE excluded.n > t.n";
    assert_eq!(f.affected(sql), 1);
    assert_eq!(f.rows("SELECT k, n FROM t ORDER BY k"), "1,10;2,99");
}

#[test]
fn do_update_by_constraint_name_and_by_alias() {
    let f = Fixture::new(
        "CREATE TABLE t (k INT, n INT, CONSTRAINT one UNIQUE (k)); INSERT INTO t VALUES (1, 1)",
    );
    f.run("INSERT INTO t AS x VALUES (1, 4) ON CONFLICT ON CONSTRAINT one DO UPDATE SET n = x.n + excluded.n");
    assert_eq!(f.rows("SELECT * FROM t"), "1,5");
}

#[test]
fn do_update_twice_of_a_stored_row_is_refused() {
    let f = Fixture::new(COUNTERS);
    let sql = "INSERT INTO t VALUES (1, 5, 'x'), (1, 6, 'y') \
               ON CONFLICT (k) DO UPDATE SET n = excluded.n";
    assert_eq!(f.state(sql), "21000");
    assert_eq!(f.rows("SELECT n FROM t WHERE k = 1"), "10");
}

#[test]
fn do_update_of_a_row_of_the_same_statement_is_refused() {
    let f = Fixture::new(COUNTERS);
    let sql = "INSERT INTO t VALUES (8, 5, 'x'), (8, 6, 'y') \
               ON CONFLICT (k) DO UPDATE SET n = excluded.n";
    assert_eq!(f.state(sql), "21000");
    assert_eq!(f.rows("SELECT count(*) FROM t"), "2");
}

#[test]
fn do_update_with_a_composite_key_in_any_order() {
    let f = Fixture::new(
        "CREATE TABLE t (a INT, b INT, n INT, PRIMARY KEY (a, b)); INSERT INTO t VALUES (1, 2, 0)",
    );
    f.run(
        "INSERT INTO t VALUES (1, 2, 9), (2, 1, 5) ON CONFLICT (b, a) DO UPDATE SET n = excluded.n",
    );
    assert_eq!(f.rows("SELECT * FROM t ORDER BY a"), "1,2,9;2,1,5");
}

#[test]
fn do_update_with_subqueries_and_defaults() {
    let f = Fixture::new(
        "CREATE TABLE t (k INT PRIMARY KEY, n INT DEFAULT 77, m INT); \
         INSERT INTO t VALUES (1, 1, 1)",
    );
    f.run("INSERT INTO t VALUES (1, 0, 0) ON CONFLICT (k) DO UPDATE SET (n, m) = (DEFAULT, (SELECT count(*) FROM t))");
    assert_eq!(f.rows("SELECT * FROM t"), "1,77,1");
}

#[test]
fn do_update_checks_the_new_row() {
    let f = Fixture::new(
        "CREATE TABLE t (k INT PRIMARY KEY, n INT CHECK (n < 100)); INSERT INTO t VALUES (1, 60)",
    );
    let sql = "INSERT INTO t VALUES (1, 50) ON CONFLICT (k) DO UPDATE SET n = t.n + excluded.n";
    assert_eq!(f.state(sql), "23514");
}

#[test]
fn a_proposed_row_must_satisfy_the_constraints_even_if_it_conflicts() {
    let f = Fixture::new(
        "CREATE TABLE t (k INT PRIMARY KEY, n INT NOT NULL); INSERT INTO t VALUES (1, 60)",
    );
    assert_eq!(
        f.state("INSERT INTO t VALUES (1, NULL) ON CONFLICT DO NOTHING"),
        "23502"
    );
}

#[test]
fn targets_must_be_unique_constraints() {
    let f = Fixture::new(COUNTERS);
    assert_eq!(
        f.state("INSERT INTO t VALUES (1, 1, '') ON CONFLICT (n) DO NOTHING"),
        "42P10"
    );
    assert_eq!(
        f.state("INSERT INTO t VALUES (1, 1, '') ON CONFLICT ON CONSTRAINT x DO NOTHING"),
        "42704"
    );
    assert_eq!(
        f.state("INSERT INTO t VALUES (1, 1, '') ON CONFLICT (zz) DO NOTHING"),
        "42703"
    );
}

#[test]
fn null_keys_never_conflict() {
    let f = Fixture::new("CREATE TABLE t (k INT UNIQUE, n INT); INSERT INTO t VALUES (NULL, 1)");
    assert_eq!(
        f.affected("INSERT INTO t VALUES (NULL, 2), (NULL, 3) ON CONFLICT (k) DO NOTHING"),
        2
    );
}

#[test]
fn zeros_of_both_signs_are_one_key() {
    let f = Fixture::new("CREATE TABLE t (k DOUBLE PRIMARY KEY)");
    assert_eq!(
        f.affected("INSERT INTO t VALUES (0.0), ('-0.0'), ('NaN'), ('NaN') ON CONFLICT DO NOTHING"),
        2
    );
}

#[test]
fn upserts_from_a_query_over_many_rows() {
    let f = Fixture::new("CREATE TABLE t (k BIGINT PRIMARY KEY, n BIGINT)");
    f.run("INSERT INTO t SELECT value, 0 FROM generate_series(1, 50000) AS g(value)");
    let sql = "INSERT INTO t SELECT value, value FROM generate_series(25001, 90000) AS g(value) \
               ON CONFLICT (k) DO UPDATE SET n = excluded.n + t.n";
    assert_eq!(f.affected(sql), 65000);
    assert_eq!(
        f.rows(
            "SELECT count(*), count(*) FILTER (WHERE n = 0), count(*) FILTER (WHERE n = k) FROM t"
        ),
        "90000,25000,65000"
    );
}

#[test]
fn or_ignore_and_or_replace() {
    let f = Fixture::new("CREATE TABLE t (k INT PRIMARY KEY, n INT); INSERT INTO t VALUES (1, 1)");
    assert_eq!(
        f.affected("INSERT OR IGNORE INTO t VALUES (1, 5), (2, 2)"),
        1
    );
    f.run("INSERT OR REPLACE INTO t VALUES (1, 9)");
    assert_eq!(f.rows("SELECT * FROM t ORDER BY k"), "1,9;2,2");
}

#[test]
fn returning_shows_inserted_and_updated_rows_in_order() {
    let f = Fixture::new(COUNTERS);
    let sql = "INSERT INTO t VALUES (5, 50, 'e'), (2, 1, 'x'), (4, 40, 'd') \
               ON CONFLICT (k) DO UPDATE SET n = t.n + excluded.n RETURNING k, n";
    assert_eq!(f.rows(sql), "5,50;2,21;4,40");
    let sql = "INSERT INTO t VALUES (5, 50, 'e'), (6, 60, 'f') ON CONFLICT DO NOTHING RETURNING k";
    assert_eq!(f.rows(sql), "6");
}
