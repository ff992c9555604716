//! INTERVAL: a number of units, an expression's number of them, a range of fields.
//!
//! ```text
//! INTERVAL (x) DAY                    ─▶  (INTERVAL '1 DAY' * (x))
//! INTERVAL '1-2' YEAR TO MONTH        ─▶  CAST('1 year 2 month' AS INTERVAL)
//! INTERVAL '1 2:03' DAY TO MINUTE     ─▶  CAST('1 day 2 hour 3 minute' AS INTERVAL)
//! ```
//!
//! A text that only FirnDB's cast reads (times of day, quarters, centuries, `ago`) becomes a cast; every other is the planner's.
//! In a range of fields a number alone counts the last one, and what is finer than the last one is cut off, as in PostgreSQL.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, DateTimeField, Expr, Interval, Value,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::Token;

use crate::error::{Error, Result, SqlState};

/// Whether `INTERVAL (` comes next and opens an expression: in `INTERVAL (3) '1 s'` it opens a precision.
pub(super) fn begins_expression(parser: &Parser) -> bool {
    let token = |place: usize| &parser.peek_nth_token_ref(place).token;
    let is_interval = matches!(token(0), Token::Word(word) if word.quote_style.is_none() && word.keyword == Keyword::INTERVAL);
    let precision = matches!(token(2), Token::Number(_, _))
        && *token(3) == Token::RParen
        && matches!(token(4), Token::SingleQuotedString(_));
    is_interval && *token(1) == Token::LParen && !precision
}

/// What an INTERVAL stands for, where the planner would not read it.
pub(super) fn rewrite(interval: &mut Interval) -> Result<Option<Expr>> {
    let precisions = [
        interval.leading_precision.take(),
        interval.fractional_seconds_precision.take(),
    ];
    if let Some(digits) = precisions.into_iter().flatten().last() {
        check_precision(&interval.value, digits)?;
    }
    if let Some(last) = &interval.last_field {
        let first = interval.leading_field.as_ref();
        return of_fields(&interval.value, first, last).map(Some);
    }
    let Some(field) = interval.leading_field.as_ref() else {
        return Ok(match text_of(&interval.value) {
            Some(text) if is_ours(text) => Some(cast(text.to_owned())),
            _ => None,
        });
    };
    if let Expr::Value(value) = interval.value.as_mut() {
        if let Value::Number(digits, _) = &value.value {
            value.value = Value::SingleQuotedString(digits.clone());
        }
        if let Value::SingleQuotedString(count) = &value.value {
            let text = format!("{count} {field}");
            return Ok(is_ours(&text).then(|| cast(text)));
        }
        if !matches!(value.value, Value::Placeholder(_)) {
            return Ok(None);
        }
    }
    let one = Interval {
        value: Box::new(Expr::value(Value::SingleQuotedString(format!("1 {field}")))),
        leading_field: None,
        leading_precision: None,
        last_field: None,
        fractional_seconds_precision: None,
    };
    let mut unit = Expr::Interval(one);
    if let Expr::Interval(one) = &mut unit
        && let Some(ours) = rewrite(one)?
    {
        unit = ours;
    }
    Ok(Some(Expr::Nested(Box::new(Expr::BinaryOp {
        left: Box::new(unit),
        op: BinaryOperator::Multiply,
        right: Box::new(Expr::Nested(interval.value.clone())),
    }))))
}

/// Digits behind a second's point are kept as they are: more than asked for would have to be rounded.
fn check_precision(value: &Expr, digits: u64) -> Result<()> {
    let fraction = text_of(value).and_then(|text| text.trim_end().rsplit_once('.'));
    let given = fraction.map_or(0, |(_, fraction)| fraction.len());
    match u64::try_from(given) {
        Ok(given) if given <= digits => Ok(()),
        _ => Err(Error::unsupported(
            "rounding an interval's seconds is not supported",
        )),
    }
}

fn cast(text: String) -> Expr {
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(Expr::value(Value::SingleQuotedString(text))),
        data_type: DataType::Interval {
            fields: None,
            precision: None,
        },
        array: false,
        format: None,
    }
}

fn text_of(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// Whether an interval's text is one that only our cast reads.
fn is_ours(text: &str) -> bool {
    const UNITS: [&str; 7] = ["quarter", "decade", "centur", "millenn", "ago", "us", "ms"];
    text.contains(':')
        || text
            .split(|letter: char| !letter.is_ascii_alphabetic())
            .any(|word| {
                let word = word.to_ascii_lowercase();
                !word.is_empty()
                    && UNITS.iter().any(|unit| {
                        if unit.len() < 4 {
                            word == *unit
                        } else {
                            word.starts_with(unit)
                        }
                    })
            })
}

/// The fields that a range has ends at, the coarsest first.
const FIELDS: [&str; 6] = ["year", "month", "day", "hour", "minute", "second"];
/// The place of `day` among them: years and months are the one kind of range, days to seconds the other.
const DAY: usize = 2;
const HOUR: usize = 3;

/// `INTERVAL '1 2:03' DAY TO MINUTE`.
fn of_fields(value: &Expr, first: Option<&DateTimeField>, last: &DateTimeField) -> Result<Expr> {
    let place = |field: &DateTimeField| {
        let name = field.to_string().to_lowercase();
        FIELDS
            .iter()
            .position(|known| *known == name.trim_end_matches('s'))
    };
    let places = first.and_then(place).zip(place(last));
    let Some((first, last)) =
        places.filter(|(first, last)| first < last && (*first < DAY) == (*last < DAY))
    else {
        return Err(Error::new(
            SqlState::SyntaxError,
            "an interval's fields are YEAR TO MONTH, or go from DAY, HOUR or MINUTE down to SECOND",
        ));
    };
    let Some(text) = text_of(value) else {
        return Err(Error::unsupported(
            "an interval of several fields is written as text",
        ));
    };
    Ok(cast(match units(text.trim(), first, last) {
        Some(units) => units,
        None => text.to_owned(),
    }))
}

/// The text with its units, if it is one of numbers alone.
fn units(text: &str, first: usize, last: usize) -> Option<String> {
    let is_number = |text: &str| {
        let digits = text.trim_start_matches(['+', '-']);
        text.len() - digits.len() < 2
            && digits.starts_with(|first: char| first.is_ascii_digit())
            && digits
                .chars()
                .all(|letter| letter.is_ascii_digit() || letter == '.')
    };
    if is_number(text) {
        return Some(format!("{text} {}", FIELDS[last]));
    }
    let sign = |text: &str| if text.starts_with('-') { "-" } else { "" };
    if last < DAY {
        let (years, months) = text.trim_start_matches(['+', '-']).split_once('-')?;
        if !is_number(years) || !is_number(months) {
            return None;
        }
        let sign = sign(text);
        return Some(format!("{sign}{years} year {sign}{months} month"));
    }
    let (days, time) = match text.split_once(char::is_whitespace) {
        Some((days, time)) if first == DAY => (Some(days), time.trim_start()),
        _ => (None, text),
    };
    if days.is_some_and(|days| !is_number(days)) {
        return None;
    }
    let sign = sign(time);
    let parts: Vec<&str> = time.trim_start_matches(['+', '-']).split(':').collect();
    if parts.len() > 3 || parts.iter().any(|part| !is_number(part)) {
        return None;
    }
    // Two numbers are hours and minutes, unless only seconds are left for the second.
    let from = match parts.len() {
        2 if first == HOUR + 1 => HOUR + 1,
        _ => HOUR,
    };
    let mut written = days.map(|days| format!("{days} day")).unwrap_or_default();
    for (part, field) in parts.iter().zip(from..=last) {
        written.push_str(&format!(" {sign}{part} {}", FIELDS[field]));
    }
    Some(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_take_the_units_of_their_range() {
        let of = |text, first: &str, last: &str| {
            let place = |name: &str| FIELDS.iter().position(|field| *field == name).unwrap();
            units(text, place(first), place(last))
        };
        assert_eq!(of("1-2", "year", "month").unwrap(), "1 year 2 month");
        assert_eq!(of("-1-2", "year", "month").unwrap(), "-1 year -2 month");
        assert_eq!(of("7", "year", "month").unwrap(), "7 month");
        assert_eq!(of("1 2", "day", "hour").unwrap(), "1 day 2 hour");
        assert_eq!(
            of("1 2:03:04.5", "day", "second").unwrap(),
            "1 day 2 hour 03 minute 04.5 second"
        );
        assert_eq!(
            of("1 2:03:04", "day", "minute").unwrap(),
            "1 day 2 hour 03 minute"
        );
        assert_eq!(
            of("3:04", "minute", "second").unwrap(),
            " 3 minute 04 second"
        );
        assert_eq!(
            of("-3:04", "hour", "minute").unwrap(),
            " -3 hour -04 minute"
        );
        assert_eq!(of("1 day", "day", "second"), None);
    }
}
