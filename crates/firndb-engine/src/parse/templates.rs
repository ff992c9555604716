//! `to_date` and `to_timestamp` with PostgreSQL's template patterns, as `strptime`:
//!
//! ```text
//! to_date('05 Dec 2000', 'DD Mon YYYY')  ─▶  CAST(strptime('05 Dec 2000', '%d %b %Y') AS DATE)
//! ```
//!
//! The patterns are those of PostgreSQL's manual ("Data Type Formatting Functions") that `strptime` can read. A format with `%` is
//! one of `strptime` already.

use datafusion::sql::sqlparser::ast::{CastKind, DataType, Expr, TimezoneInfo, Value};

use super::pieces::call;
use crate::error::{Error, Result, SqlState};

/// Patterns and what `strptime` calls them; longer ones stand before what they begin with.
const PATTERNS: [(&str, &str); 24] = [
    ("yyyy", "%Y"),
    ("yy", "%y"),
    ("hh24", "%H"),
    ("hh12", "%I"),
    ("hh", "%I"),
    ("mi", "%M"),
    ("month", "%B"),
    ("mon", "%b"),
    ("mm", "%m"),
    ("ddd", "%j"),
    ("dd", "%d"),
    ("day", "%A"),
    ("dy", "%a"),
    ("ss", "%S"),
    ("ms", "%g"),
    ("us", "%f"),
    ("a.m.", "%p"),
    ("p.m.", "%p"),
    ("am", "%p"),
    ("pm", "%p"),
    ("tzh:tzm", "%z"),
    ("tzh", "%z"),
    ("fm", ""),
    ("tm", ""),
];

/// A call of `to_date` or `to_timestamp` by a template.
pub(super) fn rewrite(name: &str, given: &[Expr]) -> Result<Option<Expr>> {
    let ("to_date" | "to_timestamp", [text, Expr::Value(template)]) = (name, given) else {
        return Ok(None);
    };
    let Value::SingleQuotedString(template) = &template.value else {
        return Ok(None);
    };
    if template.contains('%') {
        return Ok(None);
    }
    let format = Expr::value(Value::SingleQuotedString(format_of(template)?));
    let data_type = match name {
        "to_date" => DataType::Date,
        _ => DataType::Timestamp(None, TimezoneInfo::WithTimeZone),
    };
    Ok(Some(Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(call("strptime", vec![text.clone(), format])),
        data_type,
        array: false,
        format: None,
    }))
}

/// The format of `strptime` that reads what a template describes.
fn format_of(template: &str) -> Result<String> {
    let mut format = String::with_capacity(template.len() + 8);
    let mut rest = template;
    while let Some(first) = rest.chars().next() {
        if first == '"' {
            let quoted = &rest[1..];
            let end = quoted.find('"').unwrap_or(quoted.len());
            format.push_str(&quoted[..end]);
            rest = quoted.get(end + 1..).unwrap_or_default();
            continue;
        }
        let known = PATTERNS.iter().find(|(pattern, _)| {
            rest.get(..pattern.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(pattern))
        });
        if let Some((pattern, directive)) = known {
            format.push_str(directive);
            rest = &rest[pattern.len()..];
        } else if first.is_ascii_alphanumeric() && !matches!(first, 'T' | 'Z') {
            return Err(Error::new(
                SqlState::InvalidParameterValue,
                format!("the pattern at \"{rest}\" of the template \"{template}\" is not known"),
            )
            .with_hint("Write text between double quotes, or use strptime and its format."));
        } else {
            format.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    Ok(format)
}
