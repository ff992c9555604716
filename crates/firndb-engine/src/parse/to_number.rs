//! `to_number(text, template)`, as in PostgreSQL: what the template reads, as a decimal of as many digits as the template has.
//!
//! ```text
//! to_number(x, '99G999D9S')  ─▶  CAST(__firndb_to_number(x, '99G999D9S') AS DECIMAL(6, 1))
//! ```
//!
//! A template that is no constant gives a DECIMAL(38, 10).

use datafusion::sql::sqlparser::ast::{CastKind, DataType, ExactNumberInfo, Expr, Value};

use super::pieces::call;
use crate::error::{Error, Result, SqlState};

/// What reads the number's text.
pub(crate) const TO_NUMBER: &str = "__firndb_to_number";
/// Digits of a decimal.
const MOST_DIGITS: usize = 38;
/// Those behind the point, where the template is known only when it is read.
const DIGITS_OF_FRACTIONS: usize = 10;

/// A part of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Digit,
    Group,
    Point,
    Sign,
    /// Angle brackets around negative numbers.
    Brackets,
    Currency,
    /// An ordinal's two letters.
    Ordinal,
    Other(char),
}

/// The parts of a template.
pub(crate) fn parts(template: &str) -> Result<Vec<Part>> {
    let mut parts = Vec::new();
    let mut rest = template;
    while let Some(first) = rest.chars().next() {
        let folded: String = rest
            .chars()
            .take(4)
            .collect::<String>()
            .to_ascii_uppercase();
        let (length, part) = match first {
            '9' | '0' => (1, Some(Part::Digit)),
            ',' | 'G' | 'g' => (1, Some(Part::Group)),
            '.' | 'D' | 'd' => (1, Some(Part::Point)),
            'L' | 'l' => (1, Some(Part::Currency)),
            _ if folded.starts_with("FM") => (2, None),
            _ if folded.starts_with("PR") => (2, Some(Part::Brackets)),
            _ if folded.starts_with("TH") => (2, Some(Part::Ordinal)),
            _ if ["MI", "PL", "SG"]
                .iter()
                .any(|sign| folded.starts_with(sign)) =>
            {
                (2, Some(Part::Sign))
            }
            'S' | 's' => (1, Some(Part::Sign)),
            '"' => {
                let text = rest[1..].split('"').next().unwrap_or_default();
                parts.extend(text.chars().map(Part::Other));
                let end = (text.len() + 2).min(rest.len());
                rest = &rest[end..];
                continue;
            }
            _ if folded.starts_with("EEEE")
                || folded.starts_with("RN")
                || folded.starts_with('V') =>
            {
                return Err(Error::unsupported(format!(
                    "to_number has no pattern for \"{}\"",
                    &rest[..first.len_utf8()]
                )));
            }
            other => (other.len_utf8(), Some(Part::Other(other))),
        };
        if part == Some(Part::Point) && parts.contains(&Part::Point) {
            return Err(Error::new(SqlState::SyntaxError, "multiple decimal points"));
        }
        parts.extend(part);
        rest = &rest[length..];
    }
    Ok(parts)
}

/// The cast that a call stands for.
pub(super) fn of_call(text: &Expr, template: &Expr) -> Result<Expr> {
    let written = match template {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(written) => Some(written),
            _ => None,
        },
        _ => None,
    };
    let Some(written) = written else {
        return Ok(decimal(text, template, MOST_DIGITS, DIGITS_OF_FRACTIONS));
    };
    let parts = parts(written)?;
    let digits = |parts: &[Part]| parts.iter().filter(|part| **part == Part::Digit).count();
    let point = parts.iter().position(|part| *part == Part::Point);
    let (all, fraction) = (
        digits(&parts),
        point.map_or(0, |point| digits(&parts[point..])),
    );
    if all == 0 || all > MOST_DIGITS {
        return Err(Error::new(
            SqlState::InvalidParameterValue,
            format!("a template of to_number has 1 to {MOST_DIGITS} digits, not {all}"),
        ));
    }
    Ok(decimal(text, template, all, fraction))
}

fn decimal(text: &Expr, template: &Expr, all: usize, fraction: usize) -> Expr {
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(call(TO_NUMBER, vec![text.clone(), template.clone()])),
        data_type: DataType::Decimal(ExactNumberInfo::PrecisionAndScale(
            all as u64,
            fraction as i64,
        )),
        array: false,
        format: None,
    }
}
