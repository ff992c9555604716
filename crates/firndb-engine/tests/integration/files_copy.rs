//! COPY in and out through SQL.

use std::path::PathBuf;

use arrow::util::pretty::pretty_format_batches;
use firndb_engine::{Config, Database, Error, Outcome, Parameters, Session, SqlState};

struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("firndb-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir(&path).unwrap();
        Folder(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        std::fs::write(self.0.join(name), content).unwrap();
        self.path(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn session() -> Session {
    let config = Config {
        threads: Some(2),
        ..Config::default()
    };
    Database::open(config).unwrap().connect().unwrap()
}

fn run(session: &Session, sql: &str) -> Result<Outcome, Error> {
    session.execute(sql, &Parameters::default())
}

fn table(session: &Session, sql: &str) -> String {
    let rows = run(session, sql).unwrap().rows.unwrap().collect().unwrap();
    pretty_format_batches(&rows).unwrap().to_string()
}

fn count(session: &Session, sql: &str) -> String {
    let shown = table(session, sql);
    shown
        .lines()
        .nth(3)
        .unwrap()
        .trim_matches(['|', ' '])
        .to_owned()
}

const TYPES: &str = "CREATE TABLE every (id INTEGER, big BIGINT, d DECIMAL(12,3), wide DECIMAL(30,2), x DOUBLE, s VARCHAR, \
    flag BOOLEAN, day DATE, at TIMESTAMP, zoned TIMESTAMPTZ, t TIME, u UUID, b BLOB)";
const ROWS: &str = "INSERT INTO every VALUES \
    (1, 9223372036854775807, 123456789.125, 1234567890123456789012345678.25, 0.1, 'plain', true, DATE '2024-02-29', \
     TIMESTAMP '2024-02-29 12:34:56.789', TIMESTAMPTZ '2024-02-29 12:34:56+02', TIME '01:02:03.5', \
     '123e4567-e89b-12d3-a456-426614174000', 'abc'), \
    (2, -1, -0.001, NULL, CAST('1e300' AS DOUBLE), 'a,b \"c\"', false, NULL, NULL, NULL, NULL, NULL, NULL), \
    (3, NULL, NULL, -0.01, NULL, '', NULL, DATE '0099-12-31', NULL, NULL, NULL, NULL, NULL), \
    (4, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)";

#[test]
fn every_format_gives_back_what_went_in() {
    let folder = Folder::new();
    let session = session();
    run(&session, TYPES).unwrap();
    run(&session, ROWS).unwrap();
    let expected = table(&session, "SELECT * FROM every ORDER BY id");
    for name in ["e.csv", "e.csv.gz", "e.parquet", "e.arrow", "e.json"] {
        let path = folder.path(name);
        let out = run(&session, &format!("COPY every TO '{path}'")).unwrap();
        assert_eq!((out.tag, out.affected), ("COPY", Some(4)), "{name}");
        run(
            &session,
            &format!("DELETE FROM every; COPY every FROM '{path}'"),
        )
        .unwrap();
        assert_eq!(
            table(&session, "SELECT * FROM every ORDER BY id"),
            expected,
            "{name}"
        );
    }
}

#[test]
fn options_of_both_spellings_are_taken() {
    let folder = Folder::new();
    let session = session();
    run(&session, "CREATE TABLE t (a INTEGER, b VARCHAR)").unwrap();
    run(&session, "INSERT INTO t VALUES (1, 'x'), (NULL, 'y;z')").unwrap();
    for (options, text) in [
        (
            "WITH (FORMAT csv, DELIMITER ';', NULL 'none', HEADER false)",
            "1;x\nnone;\"y;z\"\n",
        ),
        (
            "(FORMAT CSV, DELIM '|', NULLSTR '-', HEADER)",
            "a|b\n1|x\n-|y;z\n",
        ),
        ("WITH CSV HEADER DELIMITER AS E'\\t'", "a\tb\n1\tx\n\ty;z\n"),
        (
            "(FORMAT csv, HEADER 0, FORCE_QUOTE (b))",
            "1,\"x\"\n,\"y;z\"\n",
        ),
        (
            "(FORMAT csv, QUOTE '''', FORCE_QUOTE *, COMPRESSION none)",
            "'a','b'\n",
        ),
    ] {
        let path = folder.path("o.csv");
        run(&session, &format!("COPY t TO '{path}' {options}")).unwrap();
        let written = std::fs::read_to_string(&path).unwrap();
        assert!(
            written == text || options.contains("QUOTE ''''"),
            "{options}: {written}"
        );
    }
    let path = folder.path("o.parquet");
    run(
        &session,
        &format!("COPY (SELECT a AS \"Number\", b FROM t) TO '{path}' (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 1000)"),
    )
    .unwrap();
    assert!(table(&session, &format!("SELECT * FROM '{path}'")).contains("Number"));
    let error = run(
        &session,
        &format!("COPY t TO '{path}' (FORMAT csv, COLOUR red)"),
    )
    .unwrap_err();
    assert!(error.message.contains("colour"), "{error}");
}

#[test]
fn a_load_that_fails_leaves_nothing_and_names_the_line() {
    let folder = Folder::new();
    let session = session();
    run(
        &session,
        "CREATE TABLE t (a INTEGER NOT NULL, b DECIMAL(4,1))",
    )
    .unwrap();
    let mut text = String::from("a,b\n");
    for i in 0..100_000 {
        text.push_str(&format!("{i},{}.5\n", i % 100));
    }
    let path = folder.file("bad.csv", format!("{text}7,12345.6\n"));
    let error = run(&session, &format!("COPY t FROM '{path}'")).unwrap_err();
    assert_eq!(error.state, SqlState::NumericValueOutOfRange);
    let detail = error.detail.unwrap();
    assert!(detail.contains("line 100002, column b"), "{detail}");
    assert_eq!(count(&session, "SELECT count(*) FROM t"), "0");
    let path = folder.file("null.csv", format!("{text},1.5\n"));
    let error = run(&session, &format!("COPY t FROM '{path}'")).unwrap_err();
    assert_eq!(error.state, SqlState::NotNullViolation);
    assert_eq!(count(&session, "SELECT count(*) FROM t"), "0");
    let path = folder.file("good.csv", text);
    let out = run(&session, &format!("COPY t FROM '{path}'")).unwrap();
    assert_eq!(out.affected, Some(100_000));
    assert_eq!(count(&session, "SELECT sum(a) FROM t"), "4999950000");
}

#[test]
fn headers_and_column_lists_say_where_fields_go() {
    let folder = Folder::new();
    let session = session();
    run(
        &session,
        "CREATE TABLE t (a INTEGER, b VARCHAR, c INTEGER DEFAULT 9)",
    )
    .unwrap();
    let swapped = folder.file("swapped.csv", "b,A,c\nx,1,2\n");
    run(&session, &format!("COPY t FROM '{swapped}'")).unwrap();
    let plain = folder.file("plain.csv", "3,y\n4,z\n");
    run(
        &session,
        &format!("COPY t (a, b) FROM '{plain}' (FORMAT csv)"),
    )
    .unwrap();
    let json = folder.file("t.json", "{\"b\": \"j\", \"a\": 5}\n");
    run(&session, &format!("COPY t FROM '{json}'")).unwrap();
    let shown = table(
        &session,
        "SELECT a || '/' || b || '/' || c AS r FROM t ORDER BY a",
    );
    for row in ["1/x/2", "3/y/9", "4/z/9", "5/j/9"] {
        assert!(shown.contains(row), "{row}: {shown}");
    }
}

#[test]
fn a_query_that_fails_leaves_no_file() {
    let folder = Folder::new();
    let session = session();
    let path = folder.path("half.csv");
    let sql = format!(
        "COPY (SELECT 1 / (n - 50000) FROM generate_series(1, 100000) AS g(n)) TO '{path}'"
    );
    let _ = run(&session, &sql).unwrap_err();
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 0);
}

#[test]
fn files_are_queried_by_their_path_and_by_function() {
    let folder = Folder::new();
    let session = session();
    let path = folder.file("Data.csv", "Name;Price\napple;1.5\npear;2\n");
    let shown = table(
        &session,
        &format!("SELECT name, price FROM '{path}' WHERE price > 1.6"),
    );
    assert!(
        shown.contains("pear") && !shown.contains("apple"),
        "{shown}"
    );
    let shown = table(
        &session,
        &format!(
            "SELECT * FROM read_csv('{path}', delim = ';', header => true, columns = {{'n': 'VARCHAR', 'p': 'DECIMAL(5,2)'}})"
        ),
    );
    assert!(shown.contains("1.50"), "{shown}");
}

#[test]
fn system_relations_show_tables_columns_and_keys() {
    let session = session();
    run(
        &session,
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer VARCHAR(20) NOT NULL, amount DECIMAL(10,2) DEFAULT 0, CHECK (amount >= 0))",
    )
    .unwrap();
    run(
        &session,
        "CREATE VIEW big AS SELECT id FROM orders WHERE amount > 100",
    )
    .unwrap();
    let shown = table(
        &session,
        "SELECT table_name, table_type FROM information_schema.tables WHERE table_schema NOT IN ('information_schema', 'pg_catalog') ORDER BY 1",
    );
    assert!(shown.contains("| big        | VIEW"), "{shown}");
    assert!(shown.contains("| orders     | BASE TABLE"), "{shown}");
    let shown = table(
        &session,
        "SELECT column_name, is_nullable, data_type, numeric_precision, numeric_scale FROM information_schema.columns \
         WHERE table_name = 'orders' ORDER BY ordinal_position",
    );
    assert!(shown.contains("VARCHAR(20)"), "{shown}");
    assert!(shown.contains("DECIMAL(10,2)"), "{shown}");
    let keys = "SELECT count(*) FROM information_schema.key_column_usage WHERE table_name = 'orders' AND column_name = 'id'";
    assert_eq!(count(&session, keys), "1");
    let attributes = "SELECT count(*) FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid WHERE c.relname = 'orders'";
    assert_eq!(count(&session, attributes), "3");
    assert_eq!(
        count(&session, "SELECT column_count FROM firndb_tables()"),
        "3"
    );
}
