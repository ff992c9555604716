//! Moments that are named by words, and SQLite's functions of dates: the time at hand in its place, and which `strftime` is meant.
//!
//! ```text
//! date(), date('now', …)            date(now() AT TIME ZONE 'UTC', …)          also time, datetime, julianday, unixepoch, strftime
//! DATE 'tomorrow'                   (current_date() + 1)                       also today, yesterday and now, of timestamps, too
//! strftime(format, x, modifier …)   SQLite's; of two arguments that are no text, DuckDB's
//! ```

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, Expr, Function, FunctionArguments, TimezoneInfo, Value,
};

use super::calls::{number, rename, set_arguments};
use super::pieces::call;

/// `strftime` of a moment and modifiers, by SQLite's letters.
pub(crate) const MODIFIED_STRFTIME: &str = "__firndb_strftime";

/// Rewrites a call of one of these functions.
pub(super) fn rewrite(name: &str, function: &mut Function, given: &[Expr]) {
    let place = match name {
        "date" | "time" | "datetime" | "julianday" | "unixepoch" => 0,
        "strftime" => 1,
        _ => return,
    };
    if !matches!(function.args, FunctionArguments::List(_)) || given.len() < place {
        return;
    }
    let is_now = given.get(place).is_none_or(says_now);
    let mut arguments = given.to_vec();
    if is_now {
        arguments.truncate(place);
        arguments.push(now());
        arguments.extend(given.iter().skip(place + 1).cloned());
    }
    if name == "strftime" && (is_now || given.len() > 2) {
        rename(function, MODIFIED_STRFTIME);
    }
    set_arguments(function, arguments);
}

/// The moment that a word names as a constant of a type: `DATE 'today'`, `'now'::TIMESTAMP`.
pub(super) fn named(text: &str, data_type: &DataType) -> Option<Expr> {
    let word = text.trim().to_ascii_lowercase();
    let days = match word.as_str() {
        "now" | "today" => "0",
        "tomorrow" => "1",
        "yesterday" => "-1",
        _ => return None,
    };
    let day = || {
        Expr::Nested(Box::new(Expr::BinaryOp {
            left: Box::new(call("current_date", Vec::new())),
            op: BinaryOperator::Plus,
            right: Box::new(number(days)),
        }))
    };
    let value = match data_type {
        DataType::Date => return Some(day()),
        DataType::Timestamp(_, _) if word != "now" => day(),
        DataType::Timestamp(_, _) | DataType::Datetime(_) => call("now", Vec::new()),
        DataType::Time(_, TimezoneInfo::None) if word == "now" => call("now", Vec::new()),
        _ => return None,
    };
    Some(Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(value),
        data_type: data_type.clone(),
        array: false,
        format: None,
    })
}

fn says_now(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if matches!(&value.value, Value::SingleQuotedString(text) if text.trim().eq_ignore_ascii_case("now")))
}

fn now() -> Expr {
    Expr::AtTimeZone {
        timestamp: Box::new(call("now", Vec::new())),
        time_zone: Box::new(Expr::value(Value::SingleQuotedString("UTC".to_owned()))),
    }
}
