//! Scans through indexes: the same rows in the same order as without one, whatever transactions do.

use firndb_engine::Session;

use crate::engine::support::{Ask, database, session};

/// A small generator of numbers (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn pick<'t>(&mut self, texts: &[&'t str]) -> &'t str {
        texts[self.below(texts.len() as u64) as usize]
    }

    fn value(&mut self, column: &str) -> String {
        let number = self.below(40) as i64 - 10;
        match column {
            "s" => format!(
                "'{}{}'",
                self.pick(&["a", "ab", "b", "%", "Ä", ""]),
                self.below(4)
            ),
            "x" => self
                .pick(&["0.0", "-0.0", "'NaN'::double", "1.5", "-7.25", "3.0"])
                .to_owned(),
            "d" => format!("{number}.50"),
            "m" => format!("DATE '2024-01-01' + {}", self.below(30)),
            "f" => self.pick(&["true", "false"]).to_owned(),
            _ => number.to_string(),
        }
    }

    fn comparison(&mut self) -> String {
        let column = self.pick(&["k", "a", "b", "s", "x", "d", "m", "f"]);
        if self.below(12) == 0 {
            return format!("{column} IS NULL");
        }
        if column == "s" && self.below(3) == 0 {
            return format!(
                "s LIKE '{}'",
                self.pick(&["a%", "ab_", "%b", "b1", "\\%%", "Ä%"])
            );
        }
        if column == "a" && self.below(4) == 0 {
            return format!("a * 2 = {}", self.below(30));
        }
        match self.below(6) {
            0 | 1 => format!("{column} = {}", self.value(column)),
            2 => format!(
                "{column} IN ({}, {}, {}, {})",
                self.value(column),
                self.value(column),
                self.value(column),
                self.value(column)
            ),
            3 => format!(
                "{column} BETWEEN {} AND {}",
                self.value(column),
                self.value(column)
            ),
            4 => format!(
                "{column} {} {}",
                self.pick(&["<", "<=", ">", ">="]),
                self.value(column)
            ),
            _ => format!(
                "({column} = {} OR {column} > {})",
                self.value(column),
                self.value(column)
            ),
        }
    }

    fn condition(&mut self) -> String {
        let mut parts = vec![self.comparison()];
        while self.below(2) == 0 {
            parts.push(self.comparison());
        }
        parts.join(" AND ")
    }

    fn row(&mut self, key: u64) -> String {
        let mut values = vec![key.to_string()];
        for column in ["a", "b", "s", "x", "d", "m", "f"] {
            values.push(match self.below(8) {
                0 => "NULL".to_owned(),
                _ => self.value(column),
            });
        }
        format!("({})", values.join(", "))
    }
}

const TABLE: &str = "CREATE TABLE t (k BIGINT PRIMARY KEY, a INTEGER, b SMALLINT, s VARCHAR, x DOUBLE, d DECIMAL(8, 2), m DATE, f BOOLEAN);
    CREATE INDEX t_a ON t (a);
    CREATE INDEX t_bs ON t (b DESC, s);
    CREATE INDEX t_s ON t (s);
    CREATE INDEX t_x ON t (x);
    CREATE INDEX t_dm ON t (d, m DESC NULLS LAST);
    CREATE INDEX t_m ON t (m) WHERE f;
    CREATE INDEX t_f ON t (f);
    CREATE UNIQUE INDEX t_ka ON t (a, k);
    CREATE INDEX t_twice ON t ((a * 2))";

/// Compares what a condition gives with what it gives where no index can be used; whether one was.
fn agrees(session: &Session, condition: &str) -> bool {
    let through = session.ask(&format!("SELECT k, a, s FROM t WHERE {condition}"));
    let without = session.ask(&format!(
        "SELECT k, a, s FROM t WHERE CASE WHEN {condition} THEN true ELSE false END"
    ));
    assert_eq!(through, without, "{condition}");
    let plan = session.ask(&format!("EXPLAIN SELECT k, a, s FROM t WHERE {condition}"));
    plan.contains("index=")
}

#[test]
fn an_index_gives_what_the_table_gives_in_every_transaction() {
    for seed in [11, 222, 3333] {
        differential(seed);
    }
}

fn differential(seed: u64) {
    let database = database();
    let (session, other) = (database.connect().unwrap(), database.connect().unwrap());
    session.run(TABLE);
    let mut random = Random(seed * 0x9E37_79B9);
    let mut next = 0;
    let rows = |random: &mut Random, next: &mut u64, count: u64| -> String {
        let rows: Vec<String> = (0..count)
            .map(|_| {
                *next += 1;
                random.row(*next)
            })
            .collect();
        rows.join(", ")
    };
    session.run(&format!(
        "INSERT INTO t VALUES {}",
        rows(&mut random, &mut next, 300)
    ));
    let mut used = 0;
    for _ in 0..25 {
        other.run("BEGIN");
        other.run(&format!(
            "INSERT INTO t VALUES {}",
            rows(&mut random, &mut next, 20)
        ));
        session.run("BEGIN");
        for _ in 0..random.below(5) {
            // What the other transaction wrote is not touched: keys of this one alone.
            let mine = format!("k % 7 = {}", random.below(3));
            match random.below(4) {
                0 => {
                    session.run(&format!(
                        "INSERT INTO t VALUES {}",
                        rows(&mut random, &mut next, 15)
                    ));
                }
                1 => {
                    session.run(&format!(
                        "DELETE FROM t WHERE {mine} AND {}",
                        random.condition()
                    ));
                }
                2 => {
                    let column = random.pick(&["a", "b", "s", "x", "d", "m", "f"]);
                    let value = random.value(column);
                    session.run(&format!(
                        "UPDATE t SET {column} = {value} WHERE {mine} AND {}",
                        random.condition()
                    ));
                }
                _ => {
                    session.run("SAVEPOINT p");
                    let value = random.value("a");
                    session.run(&format!("UPDATE t SET a = {value} WHERE {mine}"));
                    if random.below(2) == 0 {
                        session.run("ROLLBACK TO p");
                    }
                }
            }
            used += usize::from(agrees(&session, &random.condition()));
        }
        let gone = random.below(7);
        if gone > 2 {
            other.run(&format!("DELETE FROM t WHERE k % 7 = {gone}"));
            other.run(&format!(
                "UPDATE t SET a = a + 1 WHERE k % 7 = {}",
                3 + (gone + 1) % 4
            ));
        }
        for _ in 0..8 {
            used += usize::from(agrees(&session, &random.condition()));
            used += usize::from(agrees(&other, &random.condition()));
        }
        other.run(random.pick(&["COMMIT", "ROLLBACK"]));
        for _ in 0..4 {
            used += usize::from(agrees(&session, &random.condition()));
        }
        session.run(random.pick(&["COMMIT", "COMMIT", "ROLLBACK"]));
    }
    assert!(used > 100, "{used}");
}

#[test]
fn explain_shows_the_index() {
    let session = session();
    session.run(TABLE);
    session.run(
        "INSERT INTO t SELECT i, i % 500, i % 300, 's' || i, i, i % 1000, DATE '2024-01-01' + CAST(i % 300 AS INTEGER), i % 2 = 0 FROM range(20000) r(i)",
    );
    for (condition, index) in [
        ("k IN (77, 78)", Some("t_pkey")),
        ("k BETWEEN 100 AND 200", Some("t_pkey")),
        ("a = 3", Some("t_a")),
        ("b = 3 AND s > 's1'", Some("t_bs")),
        ("s LIKE 's123%'", Some("t_s")),
        ("s LIKE '%123'", None),
        ("x IN (1, 2, 3, 4, 5, 6)", Some("t_x")),
        ("d = 1 AND m > DATE '2024-02-01'", Some("t_dm")),
        ("m = DATE '2024-01-05' AND f", Some("t_m")),
        ("m = DATE '2024-01-05'", None),
        ("a * 2 = 4", Some("t_twice")),
        ("a >= 0", None),
        ("f", None),
        ("a + 1 = 4", None),
    ] {
        let plan = session.ask(&format!("EXPLAIN SELECT * FROM t WHERE {condition}"));
        match index {
            Some(index) => assert!(
                plan.contains(&format!("index={index}")),
                "{condition}: {plan}"
            ),
            None => assert!(!plan.contains("index="), "{condition}: {plan}"),
        }
        agrees(&session, condition);
    }
    let plan = session.ask("EXPLAIN SELECT t.k FROM t JOIN t u ON t.k = u.a WHERE u.k = 5");
    assert!(plan.contains("index=t_pkey"), "{plan}");
}

#[test]
fn a_snapshot_from_before_an_index_is_not_served_by_it() {
    let database = database();
    let (old, session) = (database.connect().unwrap(), database.connect().unwrap());
    session.run("CREATE TABLE t (a INT); INSERT INTO t SELECT * FROM range(1000)");
    old.run("BEGIN");
    assert_eq!(old.ask("SELECT a FROM t WHERE a = 5"), "5");
    session.run("DELETE FROM t WHERE a = 5; CREATE INDEX i ON t (a)");
    assert_eq!(old.ask("SELECT a FROM t WHERE a = 5"), "5");
    assert_eq!(session.ask("SELECT a FROM t WHERE a = 5"), "");
    old.run("COMMIT; BEGIN");
    assert_eq!(old.ask("SELECT a FROM t WHERE a = 6"), "6");
    session.run("DROP INDEX i; DELETE FROM t WHERE a = 6");
    session.run("CREATE INDEX i ON t ((a + 1))");
    assert_eq!(old.ask("SELECT a FROM t WHERE a = 6"), "6");
    assert_eq!(old.ask("SELECT a FROM t WHERE a = 8"), "8");
}
