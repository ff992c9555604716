//! The types that the values of a CSV column can have.
//!
//! Of those that all sampled values fit the column has the first of: BOOLEAN, BIGINT, DECIMAL(38,0), DOUBLE, DATE, TIMESTAMP, TIMESTAMP WITH
//! TIME ZONE, TIME, VARCHAR. Numbers with leading zeros are codes, so text.

use arrow::datatypes::{DataType, TimeUnit};
use chrono::{NaiveDate, NaiveTime};

use super::csv::Records;
use super::options::CsvOptions;
use super::values::{has_separators, plain_number};
use crate::expr::moments_by;

/// The types that all values so far can have, as a set of bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kinds(u8);

impl Kinds {
    const BOOLEAN: u8 = 1;
    const INTEGER: u8 = 2;
    const DOUBLE: u8 = 4;
    const DATE: u8 = 8;
    const TIMESTAMP: u8 = 16;
    const ZONED: u8 = 32;
    const TIME: u8 = 64;
    /// Integers, some beyond BIGINT.
    const DECIMAL: u8 = 128;
    const NUMBERS: u8 = Kinds::INTEGER | Kinds::DOUBLE | Kinds::DECIMAL;
    /// No value seen.
    const ANY: Kinds = Kinds(255);

    pub(super) fn and(self, other: Kinds) -> Kinds {
        Kinds(self.0 & other.0)
    }

    pub(super) fn is_text(self) -> bool {
        self.0 == 0
    }

    pub(super) fn is_unknown(self) -> bool {
        self == Kinds::ANY
    }

    fn of(text: &str) -> Kinds {
        let text = text.trim();
        if text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false") {
            return Kinds(Kinds::BOOLEAN);
        }
        // `007` is a code: as a number it would lose its zeros.
        let digits = text.trim_start_matches(['+', '-']).as_bytes();
        if is_code(digits) {
            return Kinds(0);
        }
        if text.parse::<i64>().is_ok() {
            return Kinds(Kinds::INTEGER | Kinds::DECIMAL | Kinds::DOUBLE);
        }
        if digits.len() <= 38 && digits.iter().all(u8::is_ascii_digit) && !digits.is_empty() {
            return Kinds(Kinds::DECIMAL | Kinds::DOUBLE);
        }
        let numeric = |b: u8| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-');
        if text.bytes().all(numeric) && text.parse::<f64>().is_ok_and(f64::is_finite) {
            return Kinds(Kinds::DOUBLE);
        }
        if is_time(text) {
            return Kinds(Kinds::TIME);
        }
        let Some((date, rest)) = text.split_at_checked(10) else {
            return Kinds(0);
        };
        if !date.is_ascii() || NaiveDate::parse_from_str(date, "%Y-%m-%d").is_err() {
            return Kinds(0);
        }
        if rest.is_empty() {
            return Kinds(Kinds::DATE | Kinds::TIMESTAMP);
        }
        let Some(time) = rest.strip_prefix([' ', 'T']) else {
            return Kinds(0);
        };
        if is_time(time) {
            return Kinds(Kinds::TIMESTAMP);
        }
        let zone = time
            .find(['Z', '+', '-'])
            .filter(|at| is_time(&time[..*at]) && is_zone(&time[*at..]));
        Kinds(if zone.is_some() { Kinds::ZONED } else { 0 })
    }

    /// As [`Kinds::of`], by the options' formats and separators, and only the types that they name.
    fn by(text: &str, options: &CsvOptions) -> Kinds {
        let mut kinds = match has_separators(options) {
            false => Kinds::of(text),
            true => match plain_number(text.trim(), options) {
                Some(plain) => Kinds::of(&plain),
                None => Kinds::of(text).and(Kinds(!Kinds::NUMBERS)),
            },
        };
        let formats = [
            (&options.date_format, Kinds::DATE),
            (&options.timestamp_format, Kinds::TIMESTAMP),
        ];
        for (format, kind) in formats {
            if let Some(format) = format {
                match moments_by(format).ok().and_then(|moment| moment(text)) {
                    Some(_) => kinds = Kinds(kind),
                    None => kinds = Kinds(kinds.0 & !kind),
                }
            }
        }
        match &options.candidates {
            Some(candidates) => kinds.and(Kinds::named(candidates)),
            None => kinds,
        }
    }

    /// The types of these names.
    fn named(names: &[String]) -> Kinds {
        let bits = names
            .iter()
            .map(|name| match name.to_ascii_uppercase().as_str() {
                "BOOLEAN" | "BOOL" => Kinds::BOOLEAN,
                "TINYINT" | "SMALLINT" | "INTEGER" | "INT" | "BIGINT" => Kinds::INTEGER,
                "DOUBLE" | "FLOAT" | "REAL" => Kinds::DOUBLE,
                "DECIMAL" | "HUGEINT" => Kinds::DECIMAL,
                "DATE" => Kinds::DATE,
                "TIMESTAMP" => Kinds::TIMESTAMP,
                "TIMESTAMPTZ" | "TIMESTAMP WITH TIME ZONE" => Kinds::ZONED,
                "TIME" => Kinds::TIME,
                _ => 0,
            });
        Kinds(bits.fold(0, |all, bit| all | bit))
    }

    pub(super) fn data_type(self) -> DataType {
        let has = |bit: u8| self.0 & bit != 0;
        match self {
            k if k.is_unknown() || k.is_text() => DataType::Utf8View,
            _ if has(Kinds::BOOLEAN) => DataType::Boolean,
            _ if has(Kinds::INTEGER) => DataType::Int64,
            _ if has(Kinds::DECIMAL) => DataType::Decimal128(38, 0),
            _ if has(Kinds::DOUBLE) => DataType::Float64,
            _ if has(Kinds::DATE) => DataType::Date32,
            _ if has(Kinds::TIMESTAMP) => DataType::Timestamp(TimeUnit::Microsecond, None),
            _ if has(Kinds::ZONED) => {
                DataType::Timestamp(TimeUnit::Microsecond, Some(crate::types::UTC.into()))
            }
            _ => DataType::Time64(TimeUnit::Microsecond),
        }
    }
}

/// A number with leading zeros.
pub(super) fn is_code(digits: &[u8]) -> bool {
    matches!(digits, [b'0', next, ..] if next.is_ascii_digit())
        && digits.iter().all(|b| b.is_ascii_digit() || *b == b'.')
}

fn is_time(text: &str) -> bool {
    text.len() >= 5
        && text.as_bytes()[0].is_ascii_digit()
        && ["%H:%M:%S%.f", "%H:%M"]
            .iter()
            .any(|format| NaiveTime::parse_from_str(text, format).is_ok())
}

fn is_zone(text: &str) -> bool {
    let digits = text.trim_start_matches(['+', '-']).replace(':', "");
    text == "Z" || (matches!(digits.len(), 2 | 4) && digits.bytes().all(|b| b.is_ascii_digit()))
}

pub(super) fn kinds_of(
    records: &Records,
    rows: std::ops::Range<usize>,
    column: usize,
    options: &CsvOptions,
) -> Kinds {
    let mut kinds = Kinds::ANY;
    for record in rows {
        let Some((text, quoted)) = records.field(record, column) else {
            continue;
        };
        if !quoted && options.nulls.contains(&text) {
            continue;
        }
        kinds = kinds.and(Kinds::by(&text, options));
        if kinds.is_text() {
            break;
        }
    }
    kinds
}
