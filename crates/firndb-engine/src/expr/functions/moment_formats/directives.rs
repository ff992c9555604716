//! The directives of `strftime` and `strptime`, as DuckDB has them: a format, read once, that writes and reads moments.
//!
//! ```text
//! %Y-%m-%d %-H   ─▶  [Year, '-', Month, '-', Day, Space, Hour unpadded]
//! ```
//!
//! Beyond DuckDB's there are C's `%D %e %F %R %r %s %C %k %l`. Reading, a blank of the format stands for any number of blanks but
//! none, numbers take at most the digits that they are written with, and names are read in any case.

use std::fmt::Write as _;
use std::str::FromStr;

use arrow::array::timezone::Tz;

use super::fields::{Fields, iso_week, weekday};
use super::{DAYS, MONTHS};
use crate::expr::convert::{MICROS_PER_DAY, civil_from_days, days_from_civil};
use crate::{Error, Result, SqlState};

/// One part of a format.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Item {
    Text(String),
    Blank(char),
    /// A directive's letter, and whether it is written with leading zeros.
    Directive(char, bool),
}

/// A format, ready to be used.
#[derive(Debug, Clone)]
pub(super) struct Format {
    items: Vec<Item>,
}

/// Why a text does not fit a format, and where.
#[derive(Debug)]
pub(super) struct Unfit {
    pub(super) at: usize,
    pub(super) reason: String,
}

/// A moment to be written: on its clock, with the clock's distance from UTC and name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shown<'a> {
    pub(super) micros: i64,
    pub(super) offset: i64,
    pub(super) zone: &'a str,
}

const LETTERS: &str = "aAwudbhBmyYHIpMSnfgzZjUWVGsDeCkl";

/// Directives that stand for others.
fn composed(letter: char) -> Option<&'static str> {
    Some(match letter {
        'c' => "%Y-%m-%d %H:%M:%S",
        'x' | 'F' => "%Y-%m-%d",
        'X' | 'T' => "%H:%M:%S",
        'R' => "%H:%M",
        'r' => "%I:%M:%S %p",
        'D' => "%m/%d/%y",
        't' => "\t",
        _ => return None,
    })
}

impl Format {
    /// Reads a format.
    pub(super) fn new(format: &str) -> Result<Self> {
        let wrong = |reason: String| {
            Error::new(
                SqlState::InvalidParameterValue,
                format!("failed to parse format specifier {format}: {reason}"),
            )
        };
        if format.is_empty() {
            return Err(wrong("empty format string".to_owned()));
        }
        let mut items = Vec::new();
        let mut letters = format.chars();
        while let Some(letter) = letters.next() {
            if letter != '%' {
                text(&mut items, letter);
                continue;
            }
            let trailing = || wrong("trailing format character %".to_owned());
            let mut directive = letters.next().ok_or_else(trailing)?;
            let padded = directive != '-';
            if !padded {
                directive = letters.next().ok_or_else(trailing)?;
            }
            if directive == '%' && padded {
                text(&mut items, '%');
            } else if let Some(parts) = composed(directive).filter(|_| padded) {
                items.extend(Format::new(parts)?.items);
            } else if LETTERS.contains(directive) && (padded || "dmyHIMSjUW".contains(directive)) {
                items.push(Item::Directive(directive, padded));
            } else {
                let minus = if padded { "" } else { "-" };
                return Err(wrong(format!(
                    "unrecognized format for strftime/strptime: %{minus}{directive}"
                )));
            }
        }
        Ok(Format { items })
    }

    /// A moment as text.
    pub(super) fn write(&self, out: &mut String, shown: Shown<'_>) {
        let days = shown.micros.div_euclid(MICROS_PER_DAY);
        let time = shown.micros.rem_euclid(MICROS_PER_DAY);
        let (year, month, day) = civil_from_days(days);
        let second_of_day = time / 1_000_000;
        let micros = time % 1_000_000;
        let (hour, minute) = (second_of_day / 3_600, second_of_day / 60 % 60);
        let twelve = (hour + 11) % 12 + 1;
        let day_of_week = weekday(days);
        let day_of_year = days - days_from_civil(year, 1, 1) + 1;
        let number = |out: &mut String, number: i64, width: usize, padded: bool| {
            // Writing to a string does not fail.
            let _ = match padded {
                true => write!(out, "{number:0width$}"),
                false => write!(out, "{number}"),
            };
        };
        for item in &self.items {
            let (letter, padded) = match item {
                Item::Text(text) => {
                    out.push_str(text);
                    continue;
                }
                Item::Blank(blank) => {
                    out.push(*blank);
                    continue;
                }
                Item::Directive(letter, padded) => (*letter, *padded),
            };
            match letter {
                'a' => out.push_str(&DAYS[day_of_week as usize][..3]),
                'A' => out.push_str(DAYS[day_of_week as usize]),
                'w' => number(out, day_of_week, 1, false),
                'u' => number(out, (day_of_week + 6) % 7 + 1, 1, false),
                'd' => number(out, i64::from(day), 2, padded),
                'e' => drop(write!(out, "{day:2}")),
                'b' | 'h' => out.push_str(&MONTHS[month as usize - 1][..3]),
                'B' => out.push_str(MONTHS[month as usize - 1]),
                'm' => number(out, i64::from(month), 2, padded),
                'y' => number(out, (year % 100).abs(), 2, padded),
                'C' => number(out, year.div_euclid(100), 2, true),
                'Y' => year_of(out, year),
                'G' => year_of(out, iso_week(days).0),
                'H' => number(out, hour, 2, padded),
                'k' => drop(write!(out, "{hour:2}")),
                'I' => number(out, twelve, 2, padded),
                'l' => drop(write!(out, "{twelve:2}")),
                'p' => out.push_str(if hour < 12 { "AM" } else { "PM" }),
                'M' => number(out, minute, 2, padded),
                'S' => number(out, second_of_day % 60, 2, padded),
                'n' => number(out, micros * 1_000, 9, true),
                'f' => number(out, micros, 6, true),
                'g' => number(out, micros / 1_000, 3, true),
                'j' => number(out, day_of_year, 3, padded),
                'U' => number(out, (day_of_year - 1 + 7 - day_of_week) / 7, 2, padded),
                'W' => {
                    let from_monday = (day_of_week + 6) % 7;
                    number(out, (day_of_year - 1 + 7 - from_monday) / 7, 2, padded);
                }
                'V' => number(out, iso_week(days).1, 2, true),
                's' => number(
                    out,
                    shown.micros.div_euclid(1_000_000) - shown.offset,
                    1,
                    false,
                ),
                'z' => {
                    let (sign, ahead) = match shown.offset {
                        behind @ ..0 => ('-', -behind),
                        ahead => ('+', ahead),
                    };
                    out.push(sign);
                    number(out, ahead / 3_600, 2, true);
                    if ahead % 3_600 != 0 {
                        out.push(':');
                        number(out, ahead / 60 % 60, 2, true);
                    }
                }
                'Z' => out.push_str(shown.zone),
                _ => debug_assert!(false, "a letter that is not read"),
            }
        }
    }

    /// Whether the format reads a zone.
    pub(super) fn reads_zone(&self) -> bool {
        let zone = |item: &Item| matches!(item, Item::Directive('z' | 'Z' | 's', _));
        self.items.iter().any(zone)
    }

    /// What a text says by this format.
    pub(super) fn read(&self, text: &str) -> std::result::Result<Fields, Unfit> {
        let mut reader = Reader { text, at: 0 };
        let mut fields = Fields::default();
        if !matches!(self.items.first(), Some(Item::Blank(_))) {
            reader.blanks();
        }
        let mut after_blank = false;
        for item in &self.items {
            let is_blank = matches!(item, Item::Blank(_));
            let goes_on = std::mem::replace(&mut after_blank, is_blank);
            match item {
                Item::Text(wanted) => {
                    for letter in wanted.chars() {
                        if !reader.rest().starts_with(letter) {
                            return reader
                                .unfit(format!("literal does not match, expected {letter}"));
                        }
                        reader.at += letter.len_utf8();
                    }
                }
                Item::Blank(_) => {
                    if !reader.blanks() && !goes_on {
                        return reader.unfit("space does not match, expected a space");
                    }
                }
                Item::Directive(letter, _) => directive(&mut reader, *letter, &mut fields)?,
            }
        }
        reader.blanks();
        match reader.rest().is_empty() {
            true => Ok(fields),
            false => reader.unfit("full specifier did not match: trailing characters"),
        }
    }
}

fn text(items: &mut Vec<Item>, letter: char) {
    if letter.is_ascii_whitespace() {
        items.push(Item::Blank(letter));
        return;
    }
    match items.last_mut() {
        Some(Item::Text(text)) => text.push(letter),
        _ => items.push(Item::Text(letter.to_string())),
    }
}

fn year_of(out: &mut String, year: i64) {
    let _ = match (0..=9_999).contains(&year) {
        true => write!(out, "{year:04}"),
        false => write!(out, "{year}"),
    };
}

fn directive(
    reader: &mut Reader<'_>,
    letter: char,
    fields: &mut Fields,
) -> std::result::Result<(), Unfit> {
    let small = |number: i64| Some(number as u32);
    match letter {
        'Y' => fields.year = Some(reader.year()?),
        'G' => fields.iso_year = Some(reader.year()?),
        'y' => {
            let year = reader.number(2, "year", 0, 99)?;
            fields.year = Some(if year < 69 { 2_000 } else { 1_900 } + year);
        }
        'C' => {
            let century = reader.number(2, "century", 0, 99)?;
            fields.year = Some(century * 100 + fields.year.unwrap_or(0) % 100);
        }
        'm' => fields.month = small(reader.number(2, "month", 1, 12)?),
        'd' => fields.day = small(reader.number(2, "day", 1, 31)?),
        'e' => {
            reader.blanks();
            fields.day = small(reader.number(2, "day", 1, 31)?);
        }
        'b' | 'h' => {
            let place = reader.name(
                &MONTHS,
                true,
                "an abbreviated month name (Jan, Feb, Mar, …)",
            )?;
            fields.month = Some(place as u32 + 1);
        }
        'B' => {
            let place = reader.name(&MONTHS, false, "a full month name (January, February, …)")?;
            fields.month = Some(place as u32 + 1);
        }
        'a' => {
            let place = reader.name(&DAYS, true, "an abbreviated day name (Mon, Tue, Wed, …)")?;
            fields.weekday = Some(place as u32);
        }
        'A' => {
            let place = reader.name(&DAYS, false, "a full day name (Monday, Tuesday, …)")?;
            fields.weekday = Some(place as u32);
        }
        'w' => fields.weekday = small(reader.number(1, "week day", 0, 6)?),
        'u' => fields.weekday = small(reader.number(1, "week day", 1, 7)? % 7),
        'j' => fields.day_of_year = small(reader.number(3, "year day", 1, 366)?),
        'U' => fields.week_from_sunday = small(reader.number(2, "week", 0, 53)?),
        'W' => fields.week_from_monday = small(reader.number(2, "week", 0, 53)?),
        'V' => fields.iso_week = small(reader.number(2, "ISO week", 1, 53)?),
        'H' => fields.hour = small(reader.number(2, "hour", 0, 23)?),
        'k' => {
            reader.blanks();
            fields.hour = small(reader.number(2, "hour", 0, 23)?);
        }
        'I' | 'l' => {
            if letter == 'l' {
                reader.blanks();
            }
            fields.hour = small(reader.number(2, "hour", 1, 12)?);
        }
        'p' => {
            let half = reader.name(&["AM", "PM"], false, "AM or PM")?;
            fields.afternoon = Some(half == 1);
        }
        'M' => fields.minute = small(reader.number(2, "minutes", 0, 59)?),
        'S' => fields.second = small(reader.number(2, "seconds", 0, 59)?),
        'f' => fields.micros = Some(reader.fraction(6)?),
        'g' => fields.micros = Some(reader.fraction(3)?),
        'n' => fields.micros = Some(reader.fraction(9)?),
        's' => {
            let negative = reader.take('-');
            let seconds = reader.number(12, "seconds", 0, 999_999_999_999)?;
            fields.epoch = Some(if negative { -seconds } else { seconds } * 1_000_000);
        }
        'z' => fields.offset = Some(reader.offset()?),
        'Z' => fields.zone = Some(reader.zone()?),
        _ => debug_assert!(false, "a letter that is not read"),
    }
    Ok(())
}

/// A text and how far it was read.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn unfit<T>(&self, reason: impl Into<String>) -> std::result::Result<T, Unfit> {
        Err(Unfit {
            at: self.at,
            reason: reason.into(),
        })
    }

    /// Goes over blanks; whether there were any.
    fn blanks(&mut self) -> bool {
        let rest = self.rest();
        let blanks = rest.len() - rest.trim_start().len();
        self.at += blanks;
        blanks > 0
    }

    fn take(&mut self, letter: char) -> bool {
        let is_next = self.rest().starts_with(letter);
        self.at += if is_next { letter.len_utf8() } else { 0 };
        is_next
    }

    fn digits(&mut self, most: usize) -> std::result::Result<&'a str, Unfit> {
        let rest = self.rest();
        let digits = rest
            .bytes()
            .take(most)
            .take_while(u8::is_ascii_digit)
            .count();
        if digits == 0 {
            return self.unfit("expected a number");
        }
        self.at += digits;
        Ok(&rest[..digits])
    }

    fn number(
        &mut self,
        most: usize,
        name: &str,
        least: i64,
        greatest: i64,
    ) -> std::result::Result<i64, Unfit> {
        let start = self.at;
        let number = self.digits(most)?.parse().unwrap_or(i64::MAX);
        if !(least..=greatest).contains(&number) {
            return Err(Unfit {
                at: start,
                reason: format!(
                    "{name} out of range, expected a value between {least} and {greatest}"
                ),
            });
        }
        Ok(number)
    }

    /// A year of up to four digits, or of any number of them behind a sign.
    fn year(&mut self) -> std::result::Result<i64, Unfit> {
        let negative = self.rest().starts_with('-');
        let signed = negative || self.rest().starts_with('+');
        self.at += usize::from(signed);
        let year = self.number(if signed { 7 } else { 4 }, "year", 0, 5_900_000)?;
        Ok(if negative { -year } else { year })
    }

    /// Digits behind a point, in microseconds.
    fn fraction(&mut self, most: usize) -> std::result::Result<i64, Unfit> {
        let digits = self.digits(most)?;
        let digits = &digits[..digits.len().min(6)];
        let number: i64 = digits.parse().unwrap_or(0);
        Ok(number * 10_i64.pow(6 - digits.len() as u32))
    }

    fn name(
        &mut self,
        names: &[&str],
        short: bool,
        expected: &str,
    ) -> std::result::Result<usize, Unfit> {
        let rest = self.rest();
        for (place, name) in names.iter().enumerate() {
            let name = if short { &name[..3] } else { name };
            let start = rest.get(..name.len());
            if start.is_some_and(|start| start.eq_ignore_ascii_case(name)) {
                self.at += name.len();
                return Ok(place);
            }
        }
        self.unfit(format!("expected {expected}"))
    }

    /// `±HH[:MM[:SS]]`, `±HHMM` or `Z`, in seconds.
    fn offset(&mut self) -> std::result::Result<i64, Unfit> {
        const EXPECTED: &str = "expected ±HH[MM] or ±HH[:MM[:SS]]";
        if self.take('Z') {
            return Ok(0);
        }
        let negative = self.take('-');
        if !negative && !self.take('+') {
            return self.unfit(EXPECTED);
        }
        let mut seconds = self.number(2, "offset", 0, 15)? * 3_600;
        for unit in [60, 1] {
            let colon = self.take(':');
            let digit = self.rest().starts_with(|next: char| next.is_ascii_digit());
            if !colon && (!digit || unit == 1) {
                break;
            }
            seconds += self.number(2, "offset", 0, 59)? * unit;
        }
        Ok(if negative { -seconds } else { seconds })
    }

    fn zone(&mut self) -> std::result::Result<Tz, Unfit> {
        let rest = self.rest();
        let part = |letter: char| letter.is_ascii_alphanumeric() || "_/+-".contains(letter);
        let end = rest.find(|letter| !part(letter)).unwrap_or(rest.len());
        match Tz::from_str(&rest[..end]) {
            Ok(zone) if end > 0 => {
                self.at += end;
                Ok(zone)
            }
            _ => self.unfit(format!("unknown time zone \"{}\"", &rest[..end])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(micros: i64, format: &str) -> String {
        let mut out = String::new();
        let zone = "UTC";
        let shown = Shown {
            micros,
            offset: 0,
            zone,
        };
        Format::new(format).unwrap().write(&mut out, shown);
        out
    }

    #[test]
    fn every_directive_writes() {
        for letter in LETTERS.chars() {
            assert!(!written(0, &format!("%{letter}")).is_empty());
        }
        assert_eq!(
            written(-1, "%Y-%m-%d %H:%M:%S.%f %j %U %W"),
            "1969-12-31 23:59:59.999999 365 52 52"
        );
    }

    #[test]
    fn formats_that_are_none() {
        for format in ["", "%", "%q", "%-", "%-A", "a%"] {
            assert!(Format::new(format).is_err(), "{format}");
        }
    }

    #[test]
    fn texts_that_do_not_fit_say_where() {
        let format = Format::new("%Y-%m").unwrap();
        assert_eq!(format.read("2020-13").unwrap_err().at, 5);
        assert_eq!(format.read("2020é").unwrap_err().at, 4);
        assert_eq!(format.read("2020-12é").unwrap_err().at, 7);
    }
}
