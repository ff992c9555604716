//! PostgreSQL's `to_char`: dates, timestamps and numbers by a template.
//!
//! Templates are those of PostgreSQL's manual ("Data Type Formatting Functions"); a pattern that is not known here is an error and
//! never text. Times of a day in a zone are the session's (`semantics`).

use std::fmt::Write as _;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, TimeUnit, TimestampMicrosecondType};
use datafusion::common::Result;

use super::kernel::{Kernel, Takes};
use super::moment_formats::{DAYS, MONTHS};
use crate::expr::convert::{MICROS_PER_DAY, civil_from_days, days_from_civil};
use crate::{Error, SqlState};

/// The function of this module.
pub(super) fn kernels() -> Vec<Kernel> {
    vec![Kernel {
        name: "to_char",
        aliases: &[],
        takes: &[Takes::Any, Takes::Text],
        arguments: (2, 2),
        yields: |types| {
            let moment = matches!(types[0], DataType::Date32 | DataType::Timestamp(_, _));
            let known = moment || types[0].is_numeric() || types[0].is_null();
            known.then_some(DataType::Utf8View)
        },
        run: |args| {
            let templates = args[1].as_string_view();
            let texts = if args[0].data_type().is_numeric() {
                numbers(&args[0], templates)?
            } else {
                let stamp = DataType::Timestamp(TimeUnit::Microsecond, None);
                let moments = cast(&args[0], &stamp)?;
                moments
                    .as_primitive::<TimestampMicrosecondType>()
                    .iter()
                    .zip(templates)
                    .map(|pair| match pair {
                        (Some(moment), Some(template)) => of_moment(moment, template).map(Some),
                        _ => Ok(None),
                    })
                    .collect::<crate::Result<StringViewArray>>()?
            };
            Ok(Arc::new(texts))
        },
    }]
}

fn unknown(template: &str) -> Error {
    Error::new(
        SqlState::FeatureNotSupported,
        format!("to_char has no pattern for \"{template}\""),
    )
}

fn numbers(values: &ArrayRef, templates: &StringViewArray) -> Result<StringViewArray> {
    let double = values.data_type().is_floating();
    let texts = match double {
        true => None,
        false => Some(cast(values, &DataType::Utf8View)?),
    };
    let doubles = match double {
        true => Some(cast(values, &DataType::Float64)?),
        false => None,
    };
    Ok((0..values.len())
        .map(|row| {
            if values.is_null(row) || templates.is_null(row) {
                return Ok(None);
            }
            let template = Template::of(templates.value(row))?;
            let text = match (&texts, &doubles) {
                (Some(texts), _) => texts.as_string_view().value(row).to_owned(),
                (_, Some(doubles)) => {
                    let value = doubles.as_primitive::<Float64Type>().value(row);
                    if !value.is_finite() {
                        return Err(Error::new(
                            SqlState::NumericValueOutOfRange,
                            "to_char takes finite numbers",
                        ));
                    }
                    format!("{value:.*}", template.fraction.len())
                }
                _ => return Ok(None),
            };
            Ok(Some(template.filled(&text)))
        })
        .collect::<crate::Result<StringViewArray>>()?)
}

/// A template of numbers: digits before and behind the point, and where the sign goes.
struct Template {
    /// `9`, `0` and `,`.
    whole: Vec<char>,
    /// `9` and `0`.
    fraction: Vec<char>,
    point: bool,
    sign: Sign,
    /// FM: no blanks, and no zeros that `9` made.
    tight: bool,
}

#[derive(PartialEq, Eq)]
enum Sign {
    BeforeDigits,
    Leading,
    Trailing,
    MinusBehind,
}

impl Template {
    fn of(text: &str) -> crate::Result<Self> {
        let mut template = Template {
            whole: Vec::new(),
            fraction: Vec::new(),
            point: false,
            sign: Sign::BeforeDigits,
            tight: false,
        };
        let upper = text.to_ascii_uppercase();
        let mut rest = upper.as_str();
        if let Some(after) = rest.strip_prefix("FM") {
            (rest, template.tight) = (after, true);
        }
        if let Some(after) = rest.strip_prefix('S') {
            (rest, template.sign) = (after, Sign::Leading);
        }
        if template.sign == Sign::BeforeDigits {
            if let Some(before) = rest.strip_suffix("MI") {
                (rest, template.sign) = (before, Sign::MinusBehind);
            } else if let Some(before) = rest.strip_suffix('S') {
                (rest, template.sign) = (before, Sign::Trailing);
            }
        }
        for character in rest.chars() {
            match character {
                '9' | '0' if template.point => template.fraction.push(character),
                '9' | '0' => template.whole.push(character),
                ',' | 'G' if !template.point => template.whole.push(','),
                '.' | 'D' if !template.point => template.point = true,
                _ => return Err(unknown(text)),
            }
        }
        match template.whole.is_empty() && template.fraction.is_empty() {
            true => Err(unknown(text)),
            false => Ok(template),
        }
    }

    /// A number written so; `#` where it has more digits than there is room for.
    fn filled(&self, number: &str) -> String {
        let (digits, fraction) = rounded(number.trim_start_matches('-'), self.fraction.len());
        let zero = digits.is_empty() && fraction.bytes().all(|digit| digit == b'0');
        let negative = number.starts_with('-') && !zero;
        let room = self.whole.iter().filter(|place| **place != ',').count();
        let fits = digits.len() <= room;
        let mut body = String::new();
        let mut started = false;
        let mut left = room;
        for place in &self.whole {
            if *place == ',' {
                match started {
                    true => body.push(','),
                    false => body.push(' '),
                }
                continue;
            }
            let digit = (left <= digits.len())
                .then(|| digits.as_bytes()[digits.len() - left])
                .map(char::from);
            let last = left == 1;
            left -= 1;
            let shown = match digit {
                _ if !fits => Some('#'),
                Some(digit) => Some(digit),
                None if *place == '0' || started => Some('0'),
                None if last && self.fraction.is_empty() => Some('0'),
                None => None,
            };
            started |= shown.is_some();
            body.push(shown.unwrap_or(' '));
        }
        if self.point {
            body.push('.');
            let mut shown = match fits {
                true => fraction,
                false => "#".repeat(self.fraction.len()),
            };
            if self.tight {
                let kept = self
                    .fraction
                    .iter()
                    .rposition(|place| *place == '0')
                    .map_or(0, |place| place + 1);
                while shown.len() > kept && shown.ends_with('0') {
                    shown.pop();
                }
            }
            body.push_str(&shown);
        }
        let blanks = body.len() - body.trim_start().len();
        let (blank, body) = body.split_at(blanks);
        let text = match self.sign {
            Sign::BeforeDigits => format!("{blank}{}{body}", if negative { '-' } else { ' ' }),
            Sign::Leading => format!("{blank}{}{body}", if negative { '-' } else { '+' }),
            Sign::Trailing => format!("{blank}{body}{}", if negative { '-' } else { '+' }),
            Sign::MinusBehind => format!("{blank}{body}{}", if negative { '-' } else { ' ' }),
        };
        match self.tight {
            true => text.trim().to_owned(),
            false => text,
        }
    }
}

/// The digits before the point, without zeros in front, and so many behind it.
fn rounded(number: &str, places: usize) -> (String, String) {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let mut digits: Vec<u8> = whole.bytes().chain(fraction.bytes().take(places)).collect();
    digits.extend(std::iter::repeat_n(
        b'0',
        places.saturating_sub(fraction.len()),
    ));
    if fraction
        .as_bytes()
        .get(places)
        .is_some_and(|next| *next >= b'5')
    {
        let mut place = digits.len();
        loop {
            if place == 0 {
                digits.insert(0, b'1');
                break;
            }
            place -= 1;
            if digits[place] == b'9' {
                digits[place] = b'0';
            } else {
                digits[place] += 1;
                break;
            }
        }
    }
    let text: String = digits.into_iter().map(char::from).collect();
    let (whole, fraction) = text.split_at(text.len() - places);
    (
        whole.trim_start_matches('0').to_owned(),
        fraction.to_owned(),
    )
}

const ROMAN: [&str; 12] = [
    "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII",
];

/// What a pattern of dates yields: a number of so many digits, or a word padded to so many characters.
enum Shown {
    Number(i64, usize),
    Word(String, usize),
}

/// The patterns of dates, longer ones first where one begins like another. Those of numbers may be written in any case.
const PATTERNS: [&str; 66] = [
    "B.C.", "A.D.", "b.c.", "a.d.", "BC", "AD", "bc", "ad", "FF1", "FF2", "FF3", "FF4", "FF5",
    "FF6", "CC", "J", "RM", "rm", "HH24", "HH12", "HH", "MI", "SSSSS", "SSSS", "SS", "MS", "US",
    "A.M.", "P.M.", "a.m.", "p.m.", "AM", "PM", "am", "pm", "Y,YYY", "YYYY", "YYY", "YY", "Y",
    "IYYY", "IYY", "IY", "IDDD", "ID", "IW", "I", "MONTH", "Month", "month", "MON", "Mon", "mon",
    "MM", "DAY", "Day", "day", "DY", "Dy", "dy", "DDD", "DD", "D", "WW", "W", "Q",
];

fn of_moment(moment: i64, template: &str) -> crate::Result<String> {
    let parts = Parts::of(moment);
    let mut text = String::with_capacity(template.len() + 16);
    let mut rest = template;
    while let Some(first) = rest.chars().next() {
        if first == '"' {
            let (quoted, after) = rest[1..].split_once('"').ok_or_else(|| unknown(rest))?;
            text.push_str(quoted);
            rest = after;
            continue;
        }
        let prefix = ["FM", "fm", "TM", "tm"]
            .iter()
            .find_map(|prefix| rest.strip_prefix(prefix));
        let (tight, body) = match prefix {
            Some(body) => (true, body),
            None => (false, rest),
        };
        let pattern = PATTERNS.iter().find(|pattern| is_at(pattern, body));
        let Some(pattern) = pattern else {
            if tight || first.is_ascii_alphabetic() {
                return Err(unknown(rest));
            }
            text.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        };
        rest = &body[pattern.len()..];
        let before = text.len();
        match parts.shown(pattern) {
            Shown::Number(number, width) => {
                let width = if tight { 0 } else { width };
                // Writing to a text does not fail.
                let _ = write!(text, "{number:0width$}");
            }
            Shown::Word(word, width) => {
                let width = if tight { 0 } else { width };
                let _ = write!(text, "{word:width$}");
            }
        }
        let ordinal = ["TH", "th"]
            .iter()
            .find(|ending| rest.starts_with(**ending));
        if let Some(ending) = ordinal {
            let suffix = ordinal_suffix(&text[before..]);
            match *ending {
                "TH" => text.push_str(&suffix.to_ascii_uppercase()),
                _ => text.push_str(suffix),
            }
            rest = &rest[2..];
        }
    }
    Ok(text)
}

/// Whether a text begins with a pattern.
fn is_at(pattern: &str, text: &str) -> bool {
    const WORDS: [&str; 8] = ["MONTH", "MON", "DAY", "DY", "AM", "PM", "RM", "BC"];
    let is_word = |word: &&str| word.eq_ignore_ascii_case(pattern);
    let of_case = WORDS.iter().any(is_word) || pattern.contains('.') || pattern.starts_with('A');
    match of_case {
        true => text.starts_with(pattern),
        false => text
            .get(..pattern.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(pattern)),
    }
}

fn ordinal_suffix(number: &str) -> &'static str {
    let tens = number.len() >= 2 && number.as_bytes()[number.len() - 2] == b'1';
    match number.as_bytes().last() {
        Some(b'1') if !tens => "st",
        Some(b'2') if !tens => "nd",
        Some(b'3') if !tens => "rd",
        _ => "th",
    }
}

struct Parts {
    days: i64,
    time: i64,
    year: i64,
    month: u32,
    day: u32,
    /// Days since Sunday.
    weekday: usize,
}

impl Parts {
    fn of(moment: i64) -> Self {
        let days = moment.div_euclid(MICROS_PER_DAY);
        let (year, month, day) = civil_from_days(days);
        Parts {
            days,
            time: moment.rem_euclid(MICROS_PER_DAY),
            year,
            month,
            day,
            // 1970-01-01 was a Thursday.
            weekday: (days + 4).rem_euclid(7) as usize,
        }
    }

    fn iso(&self) -> (i64, i64) {
        let monday = (self.days + 3).rem_euclid(7);
        let thursday = self.days - monday + 3;
        let year = civil_from_days(thursday).0;
        (year, (thursday - days_from_civil(year, 1, 1)) / 7 + 1)
    }

    fn shown(&self, pattern: &str) -> Shown {
        use Shown::{Number, Word};
        let seconds = self.time / 1_000_000;
        let hour = seconds / 3_600;
        let half = if hour < 12 { "AM" } else { "PM" };
        let month = MONTHS[self.month as usize - 1];
        let day = DAYS[self.weekday];
        let of_year = self.days - days_from_civil(self.year, 1, 1) + 1;
        let (iso_year, iso_week) = self.iso();
        // Years before Christ are counted back from 1.
        let shown = |year: i64| if year > 0 { year } else { 1 - year };
        let (year, iso_year) = (shown(self.year), shown(iso_year));
        let era = if self.year > 0 { "AD" } else { "BC" };
        let word = |text: &str, width: usize| {
            let cased = match pattern.chars().nth(1) {
                Some(second) if second.is_uppercase() => text.to_uppercase(),
                _ if pattern.starts_with(char::is_lowercase) => text.to_lowercase(),
                _ => text.to_owned(),
            };
            Word(cased, width)
        };
        match pattern {
            "HH24" => Number(hour, 2),
            "HH12" | "HH" => Number((hour + 11) % 12 + 1, 2),
            "MI" => Number(seconds / 60 % 60, 2),
            "SS" => Number(seconds % 60, 2),
            "SSSSS" | "SSSS" => Number(seconds, 0),
            "MS" => Number(self.time % 1_000_000 / 1_000, 3),
            "US" => Number(self.time % 1_000_000, 6),
            "AM" | "PM" => Word(half.to_owned(), 0),
            "am" | "pm" => Word(half.to_lowercase(), 0),
            "A.M." | "P.M." => Word(format!("{}.M.", &half[..1]), 0),
            "a.m." | "p.m." => Word(format!("{}.m.", half[..1].to_lowercase()), 0),
            "Y,YYY" => Word(format!("{},{:03}", year / 1_000, year % 1_000), 0),
            "YYYY" => Number(year, 4),
            "YYY" => Number(year.rem_euclid(1_000), 3),
            "YY" => Number(year.rem_euclid(100), 2),
            "Y" => Number(year.rem_euclid(10), 1),
            "CC" => Number(
                match self.year {
                    1.. => (self.year - 1) / 100 + 1,
                    before => before / 100 - 1,
                },
                2,
            ),
            "J" => Number(self.days + 2_440_588, 0),
            "RM" => Word(ROMAN[self.month as usize - 1].to_owned(), 4),
            "rm" => Word(ROMAN[self.month as usize - 1].to_lowercase(), 4),
            "BC" | "AD" => Word(era.to_owned(), 0),
            "bc" | "ad" => Word(era.to_lowercase(), 0),
            "B.C." | "A.D." => Word(format!("{}.{}.", &era[..1], &era[1..]), 0),
            "b.c." | "a.d." => {
                let era = era.to_lowercase();
                Word(format!("{}.{}.", &era[..1], &era[1..]), 0)
            }
            "FF1" | "FF2" | "FF3" | "FF4" | "FF5" | "FF6" => {
                let digits = usize::from(pattern.as_bytes()[2] - b'0');
                let unit = 10_i64.pow(6 - digits as u32);
                Number(self.time % 1_000_000 / unit, digits)
            }
            "IYYY" => Number(iso_year, 4),
            "IYY" => Number(iso_year.rem_euclid(1_000), 3),
            "IY" => Number(iso_year.rem_euclid(100), 2),
            "I" => Number(iso_year.rem_euclid(10), 1),
            "IW" => Number(iso_week, 2),
            "IDDD" => Number((iso_week - 1) * 7 + (self.days + 3).rem_euclid(7) + 1, 3),
            "ID" => Number((self.days + 3).rem_euclid(7) + 1, 1),
            "MM" => Number(i64::from(self.month), 2),
            "DDD" => Number(of_year, 3),
            "DD" => Number(i64::from(self.day), 2),
            "D" => Number(self.weekday as i64 + 1, 1),
            "WW" => Number((of_year - 1) / 7 + 1, 2),
            "W" => Number((i64::from(self.day) - 1) / 7 + 1, 1),
            "Q" => Number(i64::from(self.month - 1) / 3 + 1, 1),
            _ if pattern.eq_ignore_ascii_case("MONTH") => word(month, 9),
            _ if pattern.eq_ignore_ascii_case("MON") => word(&month[..3], 0),
            _ if pattern.eq_ignore_ascii_case("DAY") => word(day, 9),
            _ => word(&day[..3], 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(value: &str, template: &str) -> String {
        Template::of(template).unwrap().filled(value)
    }

    #[test]
    fn numbers_as_postgresql_has_them() {
        for (value, template, text) in [
            ("485", "999", " 485"),
            ("-485", "999", "-485"),
            ("485", "9 9 9".replace(' ', "").as_str(), " 485"),
            ("1485", "9,999", " 1,485"),
            ("148.5", "999.999", " 148.500"),
            ("148.5", "FM999.999", "148.5"),
            ("148.5", "FM999.990", "148.500"),
            ("0.1", "0.9", " 0.1"),
            ("0.1", "99.99", "   .10"),
            ("-0.1", "99.99", "  -.10"),
            ("0", "999", "   0"),
            ("12", "9990", "   12"),
            ("12", "0000", " 0012"),
            ("-12", "S9999", "  -12"),
            ("-485", "999S", "485-"),
            ("-485", "999MI", "485-"),
            ("485", "999MI", "485 "),
            ("485", "FM999MI", "485"),
            ("1234.5", "9,999.99", " 1,234.50"),
            ("12345", "999", " ###"),
            ("0.999", "9.99", " 1.00"),
        ] {
            assert_eq!(number(value, template), text, "{value} {template}");
        }
    }
}
