//! Intervals: months, days and nanoseconds that do not add up to one another.

use std::fmt::Write;

use arrow::datatypes::IntervalMonthDayNano;

use super::calendar::{MICROS_PER_DAY, MICROS_PER_SECOND, print_fraction};
use crate::{Error, SqlState};

pub(crate) const NANOS_PER_MICRO: i64 = 1_000;

pub(crate) fn out_of_range() -> Error {
    Error::new(SqlState::DatetimeFieldOverflow, "interval out of range")
}

/// Whole days, and the rest as time.
pub(crate) fn from_microseconds(micros: i64) -> Option<IntervalMonthDayNano> {
    Some(IntervalMonthDayNano::new(
        0,
        i32::try_from(micros / MICROS_PER_DAY).ok()?,
        (micros % MICROS_PER_DAY) * NANOS_PER_MICRO,
    ))
}

/// Counts with units (`1 year 2 days -3 hours`), times of day (`04:05:06.7`), perhaps `ago` at the end; a number alone
/// counts seconds.
pub(super) fn parse(text: &str) -> Option<IntervalMonthDayNano> {
    let mut words = text.split_whitespace().peekable();
    words.peek()?;
    let (mut months, mut days, mut micros) = (0f64, 0f64, 0i64);
    let mut backwards = false;
    while let Some(word) = words.next() {
        if word.eq_ignore_ascii_case("ago") {
            backwards = words.next().is_none();
            if !backwards {
                return None;
            }
            break;
        }
        if word.contains(':') {
            micros = micros.checked_add(clock(word)?)?;
            continue;
        }
        let end = word
            .find(|letter: char| letter.is_ascii_alphabetic())
            .unwrap_or(word.len());
        let count: f64 = word[..end]
            .parse()
            .ok()
            .filter(|count: &f64| count.is_finite())?;
        let unit = match &word[end..] {
            "" => words.next_if(|next| next.starts_with(|letter: char| letter.is_alphabetic())),
            unit => Some(unit),
        };
        let unit = unit.unwrap_or("seconds").to_ascii_lowercase();
        let seconds = match unit.trim_end_matches('s') {
            "microsecond" | "u" => count / 1e6,
            "millisecond" | "m" if unit.ends_with('s') => count / 1e3,
            "millisecond" => count / 1e3,
            "second" | "sec" | "" => count,
            "minute" | "min" | "m" => count * 60.0,
            "hour" | "hr" | "h" => count * 3_600.0,
            "day" | "d" => {
                days += count;
                0.0
            }
            "week" | "w" => {
                days += 7.0 * count;
                0.0
            }
            other => {
                months += count
                    * match other {
                        "month" | "mon" => 1.0,
                        "quarter" => 3.0,
                        "year" | "yr" | "y" => 12.0,
                        "decade" => 120.0,
                        "century" | "centurie" => 1_200.0,
                        "millennium" => 12_000.0,
                        _ => return None,
                    };
                0.0
            }
        };
        micros = micros.checked_add(whole(seconds * 1e6)?)?;
    }
    // Fractions move down: a month has 30 days, a day 24 hours.
    days += (months.fract() * 30.0 * 1e6).round() / 1e6;
    micros = micros.checked_add(whole(days.fract() * MICROS_PER_DAY as f64)?)?;
    let sign = if backwards { -1 } else { 1 };
    Some(IntervalMonthDayNano::new(
        i32::try_from(whole(months.trunc())?)
            .ok()?
            .checked_mul(sign)?,
        i32::try_from(whole(days.trunc())?)
            .ok()?
            .checked_mul(sign)?,
        micros
            .checked_mul(NANOS_PER_MICRO)?
            .checked_mul(i64::from(sign))?,
    ))
}

/// `[sign] hours:minutes[:seconds]`, as many hours as there are.
fn clock(text: &str) -> Option<i64> {
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let mut parts = text.split(':');
    let unsigned = |part: &str| {
        part.bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.')
    };
    let hours: i64 = parts.next().filter(|part| unsigned(part))?.parse().ok()?;
    let minutes: i64 = parts.next().filter(|part| unsigned(part))?.parse().ok()?;
    let seconds: f64 = match parts.next() {
        Some(part) if unsigned(part) => part.parse().ok()?,
        Some(_) => return None,
        None => 0.0,
    };
    if parts.next().is_some() || minutes > 59 || seconds >= 60.0 {
        return None;
    }
    let micros = hours
        .checked_mul(60)?
        .checked_add(minutes)?
        .checked_mul(60 * MICROS_PER_SECOND)?
        .checked_add(whole(seconds * 1e6)?)?;
    Some(if negative { -micros } else { micros })
}

fn whole(value: f64) -> Option<i64> {
    let rounded = value.round();
    (rounded.abs() < 9.2e18).then_some(rounded as i64)
}

/// `1 year 2 months 3 days 04:05:06.7`, nothing as `00:00:00`.
pub(crate) fn print(out: &mut String, interval: IntervalMonthDayNano) {
    let start = out.len();
    let mut part = |count: i32, unit: &str| {
        if count != 0 {
            let plural = if count.abs() == 1 { "" } else { "s" };
            let blank = if out.len() > start { " " } else { "" };
            let _ = write!(out, "{blank}{count} {unit}{plural}");
        }
    };
    part(interval.months / 12, "year");
    part(interval.months % 12, "month");
    part(interval.days, "day");
    let micros = interval.nanoseconds / NANOS_PER_MICRO;
    if micros == 0 && out.len() > start {
        return;
    }
    if out.len() > start {
        out.push(' ');
    }
    if micros < 0 {
        out.push('-');
    }
    let micros = micros.unsigned_abs() as i64;
    let seconds = micros / MICROS_PER_SECOND;
    let _ = write!(
        out,
        "{:02}:{:02}:{:02}",
        seconds / 3_600,
        seconds / 60 % 60,
        seconds % 60
    );
    print_fraction(out, micros % MICROS_PER_SECOND);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(text: &str) -> String {
        let mut out = String::new();
        print(&mut out, parse(text).unwrap());
        out
    }

    #[test]
    fn intervals_are_read_and_printed() {
        for (text, printed) in [
            ("1 day", "1 day"),
            ("-1 day", "-1 day"),
            ("90", "00:01:30"),
            (
                "1 year 2 months 3 days 04:05:06.7",
                "1 year 2 months 3 days 04:05:06.7",
            ),
            ("1 day -2 hours", "1 day -02:00:00"),
            ("0 days", "00:00:00"),
            ("1.5 months", "1 month 15 days"),
            ("3 weeks ago", "-21 days"),
            ("100:00:00", "100:00:00"),
            ("15 ms", "00:00:00.015"),
        ] {
            assert_eq!(round_trip(text), printed);
        }
        assert_eq!(parse("some day"), None);
    }
}
