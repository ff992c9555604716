//! The shell as a program: what it reads, prints and returns.
#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// Runs the shell with arguments and an input.
fn firndb(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_firndb"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A shell that does not read its input may be gone already.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

/// What a script prints that must succeed.
fn prints(arguments: &[&str], input: &str) -> String {
    let output = firndb(arguments, input);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stderr(&output), "");
    stdout(&output).to_string()
}

/// A file of this test's own, removed when it is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("firndb-{}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        Scratch(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn statements_of_standard_input_run_in_one_session() {
    let text = prints(
        &["--csv"],
        "CREATE TABLE t (a INTEGER, b VARCHAR);\nINSERT INTO t VALUES (1, 'x;y'),\n  (2, NULL);\nSELECT * FROM t ORDER BY a;\n",
    );
    assert_eq!(text, "a,b\n1,x;y\n2,\n");
}

#[test]
fn the_last_statement_needs_no_semicolon() {
    assert_eq!(prints(&["--csv"], "SELECT 1 AS x"), "x\n1\n");
}

#[test]
fn commands_of_the_command_line_run_in_order() {
    let text = prints(
        &[
            "-csv",
            "-c",
            "CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (41)",
            "-c",
            "SELECT a + 1 AS x FROM t",
        ],
        "",
    );
    assert_eq!(text, "x\n42\n");
}

#[test]
fn the_table_is_the_default() {
    assert_eq!(
        prints(
            &["-c", "SELECT 6 * 7 AS answer, NULL AS nothing, 'text' AS t"],
            ""
        ),
        "┌────────┬─────────┬──────┐\n\
         │ answer │ nothing │ t    │\n\
         ├────────┼─────────┼──────┤\n\
         │     42 │ NULL    │ text │\n\
         └────────┴─────────┴──────┘\n\
         (1 row)\n"
    );
}

#[test]
fn every_mode_prints_its_form() {
    let sql = "SELECT 1 AS a, 'x' AS b";
    assert_eq!(
        prints(&["-json", "-c", sql], ""),
        "[{\"a\":1,\"b\":\"x\"}]\n"
    );
    assert_eq!(
        prints(&["--jsonl", "-c", sql], ""),
        "{\"a\":1,\"b\":\"x\"}\n"
    );
    assert_eq!(
        prints(&["-markdown", "-c", sql], ""),
        "|   a | b   |\n| --: | --- |\n|   1 | x   |\n"
    );
    assert_eq!(prints(&["-line", "-c", sql], ""), "a = 1\nb = x\n");
}

#[test]
fn the_first_error_ends_a_script_with_a_status() {
    let output = firndb(
        &["--csv"],
        "SELECT 1 AS x;\n\nSELECT\n  nosuch;\nSELECT 2;\n",
    );
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stdout(&output), "x\n1\n");
    let error = stderr(&output);
    assert!(
        error.starts_with("ERROR: column \"nosuch\" does not exist (42703)"),
        "{error}"
    );
}

#[test]
fn an_error_points_at_its_line() {
    let output = firndb(&[], "SELECT 1;\nSELECT 1 +\n  );\n");
    assert!(!output.status.success());
    let lines: Vec<&str> = stderr(&output).lines().collect();
    assert!(
        lines[0].starts_with("ERROR: ") && lines[0].ends_with("(42601)"),
        "{lines:?}"
    );
    assert!(lines[1].starts_with("LINE 3: "), "{lines:?}");
    assert_eq!(lines[2].trim(), "^");
}

#[test]
fn an_error_shows_its_hint() {
    let output = firndb(
        &[],
        "CREATE TABLE orders (customer VARCHAR); SELECT custommer FROM orders;",
    );
    assert!(stderr(&output).contains("\nHINT: "), "{}", stderr(&output));
}

#[test]
fn errors_inside_operators_reach_the_status() {
    let output = firndb(&["-c", "SELECT 1 // (i - 5000) FROM range(10000) r(i)"], "");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("(22012)"), "{}", stderr(&output));
}

#[test]
fn scripts_run_from_a_file() {
    let script = Scratch::new(
        "script.sql",
        "-- a comment; with a semicolon\nSELECT 'from a file' AS x;\n",
    );
    assert_eq!(
        prints(&["-csv", "-f", script.path()], ""),
        "x\nfrom a file\n"
    );
}

#[test]
fn a_missing_script_is_an_error() {
    let output = firndb(&["-f", "/nonexistent/script.sql"], "");
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("/nonexistent/script.sql"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_database_file_keeps_what_is_written() {
    let folder = std::env::temp_dir().join(format!("firndb-shell-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("shop.firn");
    let path = file.to_str().unwrap();
    prints(&[path, "-c", "CREATE TABLE t AS SELECT 42 AS x"], "");
    assert_eq!(prints(&[path, "-csv", "-c", "FROM t"], ""), "x\n42\n");
    let output = firndb(&[path, "-readonly", "-c", "DROP TABLE t"], "");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("25006"), "{}", stderr(&output));
    std::fs::write(&file, "id,name\n").unwrap();
    let output = firndb(&[path, "-c", "SELECT 1"], "");
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("is not a FirnDB database"),
        "{}",
        stderr(&output)
    );
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(
        prints(&[":memory:", "-csv", "-c", "SELECT 1 AS x"], ""),
        "x\n1\n"
    );
}

#[test]
fn the_version_is_told() {
    let text = prints(&["--version"], "");
    assert_eq!(text, format!("firndb {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn wrong_arguments_are_status_two() {
    assert_eq!(firndb(&["--nosuch"], "").status.code(), Some(2));
}

#[test]
fn invalid_utf8_is_an_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_firndb"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(b"SELECT 1;\nSELECT '\xff';\n")
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("(22021)"), "{}", stderr(&output));
}

#[test]
fn tables_and_schema_show_what_is_there() {
    let script = "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer VARCHAR NOT NULL, amount DECIMAL(10,2) DEFAULT 1.5);\n\
                  CREATE TABLE planes (tail VARCHAR);\n\
                  CREATE VIEW big AS SELECT * FROM orders WHERE amount > 100;\n";
    assert_eq!(
        prints(&[], &format!("{script}.tables\n")),
        "big\norders\nplanes\n"
    );
    assert_eq!(prints(&[], &format!("{script}.tables 'p%'\n")), "planes\n");
    assert_eq!(
        prints(&[], &format!("{script}.schema orders\n")),
        "CREATE TABLE orders (\n    id INTEGER NOT NULL,\n    customer VARCHAR NOT NULL,\n    amount DECIMAL(10,2) DEFAULT 1.5,\n    PRIMARY KEY (id)\n);\n"
    );
    let all = prints(&[], &format!("{script}.schema\n"));
    assert!(all.ends_with("WHERE amount > 100;\n"), "{all}");
    assert_eq!(prints(&[], &format!("{all}.schema\n")), all);
}

#[test]
fn schema_shows_a_views_own_column_names() {
    let script = "CREATE VIEW v (p, q) AS SELECT 1 AS a, 2 AS b;\n.schema\n";
    let text = prints(&[], script);
    assert!(text.starts_with("CREATE VIEW v (p, q) AS SELECT"), "{text}");
}

#[test]
fn what_schema_prints_creates_the_tables_again() {
    let script = "CREATE TABLE \"my table\" (id INTEGER, \"order\" VARCHAR UNIQUE, n BIGINT CHECK (n > 0), PRIMARY KEY (id, n));\n.schema\n";
    let first = prints(&[], script);
    assert_eq!(prints(&[], &format!("{first}.schema\n")), first);
}

#[test]
fn modes_headers_and_null_are_set_by_commands() {
    let text = prints(
        &[],
        ".mode csv\n.headers off\n.nullvalue nil\nSELECT 1, NULL;\n.headers on\n.nullvalue\nSELECT 1 AS a, NULL AS b;\n.mode\n",
    );
    assert_eq!(text, "1,nil\na,b\n1,\nmode: csv\n");
}

#[test]
fn files_are_imported_into_new_and_existing_tables() {
    let file = Scratch::new("people.csv", "id,name\n1,Ada\n2,\"Grace, H.\"\n");
    let script = format!(
        ".mode csv\n.import '{0}' people\n.import '{0}' people\nSELECT id, name, count(*) AS n FROM people GROUP BY ALL ORDER BY id;\n",
        file.path()
    );
    assert_eq!(
        prints(&[], &script),
        "id,name,n\n1,Ada,2\n2,\"Grace, H.\",2\n"
    );
}

#[test]
fn scripts_read_scripts_and_results_go_to_files() {
    let result = Scratch::new("result.csv", "");
    let inner = Scratch::new("inner.sql", "SELECT 42 AS answer;\n");
    let script = format!(
        ".mode csv\n.output '{}'\n.read '{}'\n.output\nSELECT 1 AS x;\n",
        result.path(),
        inner.path()
    );
    assert_eq!(prints(&[], &script), "x\n1\n");
    assert_eq!(std::fs::read_to_string(&result.0).unwrap(), "answer\n42\n");
}

#[test]
fn an_error_in_a_script_that_is_read_ends_the_reader() {
    let inner = Scratch::new("wrong.sql", "SELECT 1 // 0;\n");
    let output = firndb(
        &["-csv"],
        &format!(".read '{}'\nSELECT 2 AS x;\n", inner.path()),
    );
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stdout(&output), "");
    assert_eq!(stderr(&output).matches("ERROR").count(), 1);
}

#[test]
fn a_script_that_reads_itself_is_an_error() {
    let script = Scratch::new("self.sql", "");
    std::fs::write(&script.0, format!(".read '{}'\n", script.path())).unwrap();
    let output = firndb(&["-f", script.path()], "");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("deep"), "{}", stderr(&output));
}

#[test]
fn unknown_commands_are_errors() {
    let output = firndb(&[], ".chart\nSELECT 1;\n");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stdout(&output), "");
    assert!(stderr(&output).contains(".help"), "{}", stderr(&output));
}

#[test]
fn quit_ends_the_script() {
    assert_eq!(
        prints(&["-csv"], "SELECT 1 AS x;\n.quit\nSELECT nosuch;\n"),
        "x\n1\n"
    );
}

#[test]
fn help_lists_the_commands() {
    let text = prints(&[], ".help\n");
    for command in [
        ".help", ".tables", ".schema", ".timer", ".mode", ".read", ".import", ".output", ".quit",
    ] {
        assert!(text.contains(command), "{command} is missing in {text}");
    }
}

#[test]
fn the_timer_prints_the_time() {
    let text = prints(&["-csv"], ".timer on\nSELECT 1 AS x;\n");
    assert!(text.starts_with("x\n1\nRun time: "), "{text}");
}

#[test]
fn a_reader_that_goes_away_is_no_panic() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_firndb"))
        .args(["-csv", "-c", "SELECT * FROM range(3000000)"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(141));
    assert_eq!(stderr(&output), "");
}

#[test]
fn sigint_cancels_the_running_statement() {
    use std::io::{BufRead, BufReader};
    // A shell without job control starts what runs in the background with SIGINT ignored, and a child inherits that.
    let mut child = Command::new("env")
        .arg("--default-signal=INT")
        .arg(env!("CARGO_BIN_EXE_firndb"))
        .arg("-csv")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let endless = "SELECT 'begun' AS x;\nWITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i % 1000 + 1 FROM n) SELECT count(*) FROM n;\n";
    child
        .stdin
        .take()
        .unwrap()
        .write_all(endless.as_bytes())
        .unwrap();
    let mut line = String::new();
    while !line.contains("begun") {
        assert_ne!(lines.read_line(&mut line).unwrap(), 0);
    }
    // Whether the signal finds the first statement not quite over, the endless one running or neither, the program ends.
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    let begun = std::time::Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > std::time::Duration::from_secs(60) {
            child.kill().unwrap();
            panic!("the statement was not cancelled");
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let output = child.wait_with_output().unwrap();
    let code = output.status.code();
    let cancelled = code == Some(1) && stderr(&output).contains("(57014)");
    assert!(
        cancelled || code == Some(130),
        "{code:?} {}",
        stderr(&output)
    );
}
