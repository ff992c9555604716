//! Deep and long statements end in a result or an error.

use firndb_engine::SqlState;

use crate::engine::support::{Ask, session};

#[test]
fn a_hundred_thousand_parentheses_are_refused() {
    let depth = 100_000;
    let sql = format!("SELECT {}1{}", "(".repeat(depth), ")".repeat(depth));
    assert_eq!(session().fail(&sql).state, SqlState::StatementTooComplex);
}

#[test]
fn parentheses_with_operators_between_are_refused_when_too_deep() {
    let depth = 20_000;
    let sql = format!("SELECT {}1{}", "(1+".repeat(depth), ")".repeat(depth));
    assert_eq!(session().fail(&sql).state, SqlState::StatementTooComplex);
}

#[test]
fn fifty_thousand_terms_are_refused() {
    let sql = format!("SELECT 1{}", " + 1".repeat(50_000));
    assert_eq!(session().fail(&sql).state, SqlState::StatementTooComplex);
}

#[test]
fn a_sum_of_four_hundred_columns_is_computed() {
    let session = session();
    session.run("CREATE TABLE t (a INT); INSERT INTO t VALUES (2)");
    let sql = format!("SELECT a{} FROM t", " + a".repeat(399));
    assert_eq!(session.ask(&sql), "800");
}

#[test]
fn a_long_disjunction_is_evaluated() {
    let session = session();
    session.run("CREATE TABLE t (a INT); INSERT INTO t VALUES (1999)");
    let terms: Vec<String> = (0..2_000).map(|number| format!("a = {number}")).collect();
    let sql = format!("SELECT count(*) FROM t WHERE {}", terms.join(" OR "));
    assert_eq!(session.ask(&sql), "1");
}

#[test]
fn a_hundred_parentheses_are_no_matter() {
    let sql = format!("SELECT {}1{}", "(".repeat(100), ")".repeat(100));
    assert_eq!(session().ask(&sql), "1");
}

#[test]
fn subqueries_beyond_reason_are_refused() {
    let depth = 1_000;
    let sql = format!(
        "{}SELECT 1{}",
        "SELECT * FROM (".repeat(depth),
        ")".repeat(depth)
    );
    assert_eq!(session().fail(&sql).state, SqlState::StatementTooComplex);
}

#[test]
fn parentheses_around_tables_do_not_multiply_the_work() {
    let session = session();
    session.run("CREATE TABLE t (a INT); INSERT INTO t VALUES (1)");
    for (inner, depth) in [("t", 60), ("SELECT 1", 60), ("t", 400)] {
        let sql = format!(
            "SELECT count(*) FROM {}{inner}{}",
            "(".repeat(depth),
            ")".repeat(depth)
        );
        match session.execute(&sql, &firndb_engine::Parameters::default()) {
            Ok(_) => {}
            Err(error) => assert_ne!(error.state, SqlState::InternalError),
        }
    }
}

#[test]
fn a_literal_of_ten_megabytes_is_a_value() {
    let sql = format!("SELECT length('{}')", "x".repeat(10 << 20));
    assert_eq!(session().ask(&sql), "10485760");
}

#[test]
fn a_number_of_a_million_digits_is_an_error() {
    let sql = format!("SELECT {}", "9".repeat(1_000_000));
    session().fail(&sql);
}

#[test]
fn ten_thousand_rows_of_values_are_inserted() {
    let session = session();
    let rows: Vec<String> = (0..10_000).map(|number| format!("({number})")).collect();
    session.run("CREATE TABLE t (a INT)");
    session.run(&format!("INSERT INTO t VALUES {}", rows.join(", ")));
    assert_eq!(
        session.ask("SELECT count(*), sum(a) FROM t"),
        "10000|49995000"
    );
}

#[test]
fn twenty_thousand_terms_of_or_are_evaluated_and_more_are_refused() {
    let session = session();
    session.run("CREATE TABLE t (a INT, b INT); INSERT INTO t VALUES (19999, 1)");
    let chain = |terms: usize| {
        let terms: Vec<String> = (0..terms).map(|n| format!("a = {n} AND b = 1")).collect();
        format!("SELECT count(*) FROM t WHERE {}", terms.join(" OR "))
    };
    assert_eq!(session.ask(&chain(20_000)), "1");
    let error = session.fail(&chain(20_001));
    assert_eq!(error.state, SqlState::StatementTooComplex);
    assert_eq!(
        error.detail.as_deref(),
        Some("A statement has at most 20000 terms of OR.")
    );
}

#[test]
fn nesting_of_every_form_is_refused_by_name() {
    let session = session();
    for (before, after, what) in [
        ("NOT ", "", "signs and NOTs before one value"),
        ("- ", "", "signs and NOTs before one value"),
        ("CASE WHEN true THEN ", " END", "levels of CASE"),
        ("abs(", ")", "levels of"),
        ("[", "]", "levels of"),
        ("{'a': ", "}", "levels of"),
        ("(SELECT ", ")", "levels of"),
    ] {
        for depth in [600, 1_500, 20_000] {
            let sql = format!("SELECT {}1{}", before.repeat(depth), after.repeat(depth));
            let error = session.fail(&sql);
            assert_eq!(
                error.state,
                SqlState::StatementTooComplex,
                "{depth} of {before}"
            );
            let detail = error.detail.unwrap_or_default();
            assert!(detail.contains(what), "{depth} of {before}: {detail}");
        }
    }
}

#[test]
fn two_hundred_levels_of_queries_are_read_in_every_form() {
    let session = session();
    session.run("CREATE TABLE t (a INT); INSERT INTO t VALUES (7)");
    let depth = 190;
    let sql = format!(
        "SELECT * FROM {}t{} x",
        "(SELECT * FROM ".repeat(depth),
        ") x".repeat(depth - 1) + ")"
    );
    let mut rows = session.run(&sql).rows.unwrap();
    rows.set_form(firndb_storage::Form::Consumer).unwrap();
    assert_eq!(rows.collect().unwrap()[0].num_rows(), 1);
}
