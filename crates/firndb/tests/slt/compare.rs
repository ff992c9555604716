//! Whether a result is the expected one.

use md5::{Digest, Md5};
use sqllogictest::SortMode;

use crate::connection::Kind;

/// Doubles may differ by this much of the expected value: other systems add in another order.
const TOLERANCE: f64 = 1e-9;

/// The lines of a record behind `----`.
#[derive(Debug)]
pub(crate) struct Expected<'a> {
    pub lines: &'a [String],
    pub sort: Option<SortMode>,
}

/// Compares the letters of a record with a result's columns; only their number unless `strict`.
pub(crate) fn check_letters(
    expected: &[Kind],
    actual: &[Kind],
    strict: bool,
) -> Result<(), String> {
    use sqllogictest::ColumnType;
    let same = |expected: &Kind, actual: &Kind| {
        expected == &Kind::Any || actual == &Kind::Any || expected.to_char() == actual.to_char()
    };
    let letters = !strict
        || expected
            .iter()
            .zip(actual)
            .all(|(one, other)| same(one, other));
    // A statement without a result has no columns to compare.
    if actual.is_empty() || expected.len() == actual.len() && letters {
        return Ok(());
    }
    let text = |kinds: &[Kind]| kinds.iter().map(Kind::to_char).collect::<String>();
    Err(format!(
        "expected the columns {}, found {}",
        text(expected),
        text(actual)
    ))
}

/// Compares a result with the expected lines. A line holds a row, its values separated by tabs or blanks; or a value, as in
/// SQLite's files; or there is one line, `30 values hashing to …`.
pub(crate) fn check_rows(
    expected: &Expected<'_>,
    rows: &[Vec<String>],
    kinds: &[Kind],
) -> Result<(), String> {
    if let [line] = expected.lines
        && line.contains(" values hashing to ")
    {
        return check_hash(line, rows);
    }
    let values: usize = rows.iter().map(Vec::len).sum();
    let width = rows.first().map_or(1, Vec::len);
    let mut lines: Vec<Vec<String>> = if width > 1 && expected.lines.len() == values {
        expected
            .lines
            .chunks(width)
            .map(<[String]>::to_vec)
            .collect()
    } else {
        expected
            .lines
            .iter()
            .map(|line| cells(line, width))
            .collect()
    };
    if matches!(expected.sort, Some(SortMode::RowSort | SortMode::ValueSort)) {
        lines.sort_unstable();
    }
    let kind = |column: usize| match expected.sort {
        Some(SortMode::ValueSort) => Kind::Any,
        _ => kinds.get(column).copied().unwrap_or(Kind::Any),
    };
    let same_row = |expected: &Vec<String>, actual: &Vec<String>| {
        expected.len() == actual.len()
            && expected
                .iter()
                .zip(actual)
                .enumerate()
                .all(|(column, (expected, actual))| same(expected, actual, kind(column)))
    };
    let difference =
        (0..lines.len().max(rows.len())).find(|&row| match (lines.get(row), rows.get(row)) {
            (Some(expected), Some(actual)) => !same_row(expected, actual),
            _ => true,
        });
    match difference {
        None => Ok(()),
        Some(row) => {
            let show =
                |rows: Option<&Vec<String>>| rows.map_or("no row".into(), |row| row.join("\t"));
            Err(format!(
                "row {} of {} differs ({} expected)\nexpected: {}\n   found: {}\nthe whole result:\n{}",
                row + 1,
                rows.len(),
                lines.len(),
                show(lines.get(row)),
                show(rows.get(row)),
                rows.iter()
                    .take(100)
                    .map(|row| row.join("\t"))
                    .collect::<Vec<_>>()
                    .join("\n")
            ))
        }
    }
}

/// The values of a line: one, or separated by tabs where there are any, else by blanks.
fn cells(line: &str, width: usize) -> Vec<String> {
    if width == 1 {
        return vec![line.trim_end().to_string()];
    }
    if line.contains('\t') {
        return line.split('\t').map(str::to_string).collect();
    }
    line.split_whitespace().map(str::to_string).collect()
}

fn same(expected: &str, actual: &str, kind: Kind) -> bool {
    if expected == actual || expected.trim_end() == actual.trim_end() {
        return true;
    }
    match kind {
        Kind::Boolean => match actual {
            "true" => matches!(expected, "t" | "1" | "True"),
            "false" => matches!(expected, "f" | "0" | "False"),
            _ => false,
        },
        Kind::Real(true) => match (expected.parse::<f64>(), actual.parse::<f64>()) {
            (Ok(expected), Ok(actual)) => (expected - actual).abs() <= expected.abs() * TOLERANCE,
            _ => false,
        },
        _ => false,
    }
}

fn check_hash(expected: &str, rows: &[Vec<String>]) -> Result<(), String> {
    // Above the file's threshold the runner has hashed already.
    if let [row] = rows
        && let [line] = row.as_slice()
        && line.contains(" values hashing to ")
    {
        return if line == expected {
            Ok(())
        } else {
            Err(format!("expected {expected}\n   found {line}"))
        };
    }
    let mut hash = Md5::new();
    let mut values = 0;
    for value in rows.iter().flatten() {
        hash.update(value.as_bytes());
        hash.update(b"\n");
        values += 1;
    }
    let actual = format!("{values} values hashing to {:x}", hash.finalize());
    if actual == expected {
        Ok(())
    } else {
        Err(format!("expected {expected}\n   found {actual}"))
    }
}
