use crate::dml::harness::Fixture;

const STOCK: &str = "CREATE TABLE stock (item INT PRIMARY KEY, n INT); \
                     INSERT INTO stock VALUES (1, 10), (2, 20), (3, 30); \
                     CREATE TABLE sale (item INT, v INT); \
                     INSERT INTO sale VALUES (1, 3), (2, 20), (7, 70)";

#[test]
fn matched_rows_are_updated_or_deleted_and_others_inserted() {
    let f = Fixture::new(STOCK);
    let sql = "MERGE INTO stock s USING sale ON s.item = sale.item \
               WHEN MATCHED AND s.n - sale.v > 0 THEN UPDATE SET n = s.n - sale.v \
               WHEN MATCHED THEN DELETE \
               WHEN NOT MATCHED THEN INSERT (item, n) VALUES (sale.item, sale.v)";
    assert_eq!(f.affected(sql), 3);
    assert_eq!(f.rows("SELECT * FROM stock ORDER BY item"), "1,7;3,30;7,70");
}

#[test]
fn the_first_clause_that_holds_wins() {
    let f = Fixture::new(STOCK);
    let sql = "MERGE INTO stock USING sale ON stock.item = sale.item \
               WHEN MATCHED AND sale.v = 3 THEN DO NOTHING \
               WHEN MATCHED THEN UPDATE SET n = 0 \
               WHEN NOT MATCHED AND sale.v > 100 THEN INSERT VALUES (sale.item, 1) \
               WHEN NOT MATCHED THEN DO NOTHING";
    assert_eq!(f.affected(sql), 1);
    assert_eq!(f.rows("SELECT * FROM stock ORDER BY item"), "1,10;2,0;3,30");
}

#[test]
fn expressions_are_evaluated_only_for_rows_that_reach_them() {
    let f = Fixture::new(STOCK);
    f.run("UPDATE sale SET v = 0 WHERE item = 1");
    let sql = "MERGE INTO stock USING sale ON stock.item = sale.item \
               WHEN MATCHED AND sale.v = 0 THEN DELETE \
               WHEN MATCHED THEN UPDATE SET n = 100 / sale.v";
    assert_eq!(f.affected(sql), 2);
    assert_eq!(f.rows("SELECT * FROM stock ORDER BY item"), "2,5;3,30");
}

#[test]
fn a_row_is_changed_at_most_once() {
    let f = Fixture::new(STOCK);
    f.run("INSERT INTO sale VALUES (1, 4)");
    let sql = "MERGE INTO stock USING sale ON stock.item = sale.item WHEN MATCHED THEN UPDATE SET n = sale.v";
    assert_eq!(f.state(sql), "21000");
    assert_eq!(f.rows("SELECT n FROM stock WHERE item = 1"), "10");
    let sql = "MERGE INTO stock USING sale ON stock.item = sale.item \
               WHEN MATCHED AND sale.v = 4 THEN UPDATE SET n = sale.v";
    assert_eq!(f.affected(sql), 1);
}

#[test]
fn rows_not_matched_by_source() {
    let f = Fixture::new(STOCK);
    let sql = "MERGE INTO stock t USING sale s ON t.item = s.item \
               WHEN MATCHED THEN UPDATE SET n = s.v \
               WHEN NOT MATCHED BY SOURCE AND t.n > 100 THEN UPDATE SET n = 0 \
               WHEN NOT MATCHED BY SOURCE THEN DELETE \
               WHEN NOT MATCHED BY TARGET THEN INSERT VALUES (s.item, s.v)";
    assert_eq!(f.affected(sql), 4);
    assert_eq!(f.rows("SELECT * FROM stock ORDER BY item"), "1,3;2,20;7,70");
}

#[test]
fn a_null_source_row_is_not_a_missing_one() {
    let f = Fixture::new(
        "CREATE TABLE t (a INT); CREATE TABLE s (a INT); INSERT INTO s VALUES (NULL); INSERT INTO t VALUES (1)",
    );
    let sql = "MERGE INTO t USING s ON t.a = s.a \
               WHEN NOT MATCHED BY SOURCE THEN DELETE \
               WHEN NOT MATCHED THEN INSERT VALUES (-1)";
    assert_eq!(f.affected(sql), 2);
    assert_eq!(f.rows("SELECT * FROM t"), "-1");
}

#[test]
fn sources_may_be_queries() {
    let f = Fixture::new(STOCK);
    let sql = "MERGE INTO stock t USING (SELECT item, sum(v) AS v FROM sale GROUP BY item) s ON t.item = s.item \
               WHEN MATCHED THEN UPDATE SET n = t.n + s.v WHEN NOT MATCHED THEN INSERT (item) VALUES (s.item)";
    assert_eq!(f.affected(sql), 3);
    assert_eq!(
        f.rows("SELECT * FROM stock ORDER BY item"),
        "1,13;2,40;3,30;7,-"
    );
}

#[test]
fn a_table_merges_with_itself() {
    let f = Fixture::new(STOCK);
    let sql = "MERGE INTO stock t USING stock s ON t.item = s.item + 1 \
               WHEN MATCHED THEN UPDATE SET n = s.n \
               WHEN NOT MATCHED THEN INSERT VALUES (s.item + 1, s.n)";
    assert_eq!(f.affected(sql), 3);
    assert_eq!(
        f.rows("SELECT * FROM stock ORDER BY item"),
        "1,10;2,10;3,20;4,30"
    );
}

#[test]
fn inserted_rows_take_defaults_and_satisfy_constraints() {
    let f = Fixture::new(
        "CREATE TABLE t (k INT PRIMARY KEY, n INT NOT NULL DEFAULT 5); CREATE TABLE s (k INT); INSERT INTO s VALUES (1), (2)",
    );
    f.run("MERGE INTO t USING s ON t.k = s.k WHEN NOT MATCHED AND s.k = 1 THEN INSERT (k) VALUES (s.k)");
    f.run("MERGE INTO t USING s ON t.k = s.k WHEN NOT MATCHED THEN INSERT VALUES (s.k, DEFAULT)");
    assert_eq!(f.rows("SELECT * FROM t ORDER BY k"), "1,5;2,5");
    assert_eq!(f.state("MERGE INTO t USING (VALUES (3)) s(k) ON t.k = s.k WHEN NOT MATCHED THEN INSERT VALUES (s.k, NULL)"), "23502");
    assert_eq!(f.state("MERGE INTO t USING (VALUES (3), (3)) s(k) ON t.k = s.k WHEN NOT MATCHED THEN INSERT (k) VALUES (s.k)"), "23505");
}

#[test]
fn insert_default_values() {
    let f = Fixture::new(
        "CREATE TABLE t (a INT DEFAULT 4); CREATE TABLE s (k INT); INSERT INTO s VALUES (1)",
    );
    f.run("MERGE INTO t USING s ON t.a = s.k WHEN NOT MATCHED THEN INSERT DEFAULT VALUES");
    assert_eq!(f.rows("SELECT * FROM t"), "4");
}

#[test]
fn not_matched_clauses_do_not_see_the_target() {
    let f = Fixture::new(STOCK);
    let sql = "MERGE INTO stock t USING sale s ON t.item = s.item WHEN NOT MATCHED THEN INSERT VALUES (t.n, 1)";
    f.error(sql);
}

#[test]
fn conditions_may_hold_subqueries() {
    let f = Fixture::new(STOCK);
    let sql = "MERGE INTO stock t USING sale s ON t.item = s.item \
               WHEN MATCHED AND t.item IN (SELECT max(item) - 5 FROM sale) THEN DELETE";
    assert_eq!(f.affected(sql), 1);
    assert_eq!(f.rows("SELECT item FROM stock ORDER BY item"), "1;3");
}

#[test]
fn returning_shows_what_was_done() {
    let f = Fixture::new(STOCK);
    let sql = "MERGE INTO stock t USING (SELECT * FROM sale ORDER BY item) s ON t.item = s.item \
               WHEN MATCHED AND s.v = 20 THEN DELETE \
               WHEN MATCHED THEN UPDATE SET n = t.n + s.v \
               WHEN NOT MATCHED THEN INSERT VALUES (s.item, s.v) RETURNING s.v, t.n";
    let mut rows: Vec<String> = f.rows(sql).split(';').map(str::to_owned).collect();
    rows.sort();
    assert_eq!(rows, ["20,20", "3,13", "70,70"]);
}

#[test]
fn many_rows_are_merged() {
    let f = Fixture::new("CREATE TABLE t (k BIGINT PRIMARY KEY, n BIGINT)");
    f.run("INSERT INTO t SELECT value, 0 FROM generate_series(1, 50000) AS g(value)");
    let sql = "MERGE INTO t USING (SELECT value AS k FROM generate_series(20001, 90000) AS g(value)) s ON t.k = s.k \
               WHEN MATCHED AND s.k % 2 = 0 THEN UPDATE SET n = s.k WHEN MATCHED THEN DELETE \
               WHEN NOT MATCHED THEN INSERT VALUES (s.k, -1)";
    assert_eq!(f.affected(sql), 70000);
    assert_eq!(
        f.rows("SELECT count(*), count(*) FILTER (WHERE n = 0), count(*) FILTER (WHERE n = k), count(*) FILTER (WHERE n = -1) FROM t"),
        "75000,20000,15000,40000"
    );
}
