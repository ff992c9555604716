//! Constant expressions against DuckDB's answers (`tests/expected/expressions.tsv`: expression, type, value as text).
//!
//! Where PostgreSQL and DuckDB differ and we follow the former, or where a type is wider than DuckDB's, the list below
//! says so.

use crate::support::{batches, context, rows};
use firndb_engine::types::sql_name;

/// Expressions whose type is another than DuckDB's, with ours.
const OTHER_TYPES: &[(&str, &str)] = &[
    ("2147483648", "BIGINT"),
    ("1::real + 1", "REAL"),
    ("1::real / 2", "REAL"),
    ("2 ^ 10", "DOUBLE"),
];

#[tokio::test]
async fn constant_expressions_have_duckdbs_values_and_types() {
    let context = context();
    let mut wrong = Vec::new();
    for line in include_str!("expected/expressions.tsv").lines() {
        let mut parts = line.split('\t');
        let (Some(expression), Some(sql_type), Some(value)) =
            (parts.next(), parts.next(), parts.next())
        else {
            panic!("malformed line {line}");
        };
        let outcome = rows(&context, &format!("SELECT CAST(({expression}) AS VARCHAR)")).await;
        match outcome {
            Err(_) if sql_type == "ERROR" => continue,
            Err(error) => wrong.push(format!("{expression}: {error}, expected {value}")),
            Ok(found) if sql_type == "ERROR" => {
                wrong.push(format!("{expression}: {found:?}, expected an error"));
            }
            Ok(found) => {
                if found != [[value]] {
                    wrong.push(format!("{expression}: {found:?}, expected {value}"));
                }
                let batches = batches(&context, &format!("SELECT {expression}"))
                    .await
                    .unwrap();
                let found = sql_name(batches[0].schema().field(0));
                if !same_type(expression, &found, sql_type) {
                    wrong.push(format!("{expression}: {found}, expected {sql_type}"));
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Decimals agree in scale; HUGEINT is DECIMAL(38,0); a bare literal is BIGINT.
fn same_type(expression: &str, found: &str, duckdb: &str) -> bool {
    let scale = |name: &str| {
        name.strip_prefix("DECIMAL(")
            .and_then(|rest| rest.strip_suffix(')'))
            .and_then(|rest| rest.split_once(','))
            .map(|(_, scale)| scale.to_string())
    };
    found == duckdb
        || duckdb == "HUGEINT" && found == "DECIMAL(38,0)"
        || scale(found).is_some() && scale(found) == scale(duckdb)
        || OTHER_TYPES.contains(&(expression, found))
}
