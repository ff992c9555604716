//! `date`, `time`, `datetime`, `julianday`, `unixepoch` and `strftime` of a moment and modifiers, as in SQLite.
//!
//! ```text
//! date('2024-01-31', '+1 month', 'start of month')     a moment, then what is done to it, one after the other
//! ```
//!
//! A moment is a date, a timestamp, a text of one, a number of days since noon of the 24th of November 4714 BC (the Julian day), or
//! seconds since 1970 where the first modifier is `unixepoch`. All is computed in microseconds since 1970, on the clock of UTC; `now` was
//! replaced by the time of the statement before (`parse::calls`). The results are a DATE, a TIME and a TIMESTAMP, which print as SQLite's
//! texts do; what is no moment or no modifier is an error, not NULL.

use std::fmt::Write;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Date32Array, Float64Array, Int64Array, StringViewArray,
    StringViewBuilder, Time64MicrosecondArray, TimestampMicrosecondArray,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, TimeUnit, TimestampMicrosecondType};
use datafusion::common::Result;
use datafusion::logical_expr::Expr;

use super::kernel::{Kernel, Takes};
use crate::expr::convert::{
    MICROS_PER_DAY, civil_from_days, days_from_civil, parse_utc, timestamp_out_of_range,
};
use crate::parse::MODIFIED_STRFTIME;
use crate::{Error, SqlState};

const SECOND: i64 = 1_000_000;
/// Days from the beginning of Julian days to 1970.
const JULIAN_OF_1970: f64 = 2_440_587.5;
/// The Julian day at the end of the year 9999.
const LAST_JULIAN: f64 = 5_373_484.5;

/// The functions of this module.
pub(super) fn kernels() -> Vec<Kernel> {
    let kernel = |name, yields, run| Kernel {
        name,
        aliases: &[],
        takes: &[Takes::Any],
        arguments: (1, usize::MAX),
        yields,
        run,
    };
    vec![
        kernel(
            "date",
            |_| Some(DataType::Date32),
            |args| {
                let days = moments(args)?.into_iter().map(|moment| {
                    let days = moment.map(|moment| moment.micros.div_euclid(MICROS_PER_DAY));
                    days.map(|days| i32::try_from(days).map_err(|_| timestamp_out_of_range()))
                        .transpose()
                });
                Ok(Arc::new(days.collect::<crate::Result<Date32Array>>()?))
            },
        ),
        kernel(
            "time",
            |_| Some(DataType::Time64(TimeUnit::Microsecond)),
            |args| {
                let times = moments(args)?
                    .into_iter()
                    .map(|moment| moment.map(|moment| moment.shown().rem_euclid(MICROS_PER_DAY)));
                Ok(Arc::new(times.collect::<Time64MicrosecondArray>()))
            },
        ),
        kernel(
            "datetime",
            |_| Some(stamp()),
            |args| {
                let stamps = moments(args)?
                    .into_iter()
                    .map(|moment| moment.map(Moment::shown));
                Ok(Arc::new(stamps.collect::<TimestampMicrosecondArray>()))
            },
        ),
        kernel(
            "julianday",
            |_| Some(DataType::Float64),
            |args| {
                let days = moments(args)?
                    .into_iter()
                    .map(|moment| moment.map(Moment::julian));
                Ok(Arc::new(days.collect::<Float64Array>()))
            },
        ),
        kernel(
            "unixepoch",
            |_| Some(DataType::Int64),
            |args| {
                let seconds = moments(args)?.into_iter().map(|moment| match moment {
                    Some(moment) if moment.subsecond => Err(Error::unsupported(
                        "unixepoch with the modifier \"subsec\" is not supported",
                    )
                    .with_hint("epoch(x) yields seconds with their fraction.")),
                    Some(moment) => Ok(Some(moment.micros.div_euclid(SECOND))),
                    None => Ok(None),
                });
                Ok(Arc::new(seconds.collect::<crate::Result<Int64Array>>()?))
            },
        ),
        modified_strftime(),
    ]
}

fn modified_strftime() -> Kernel {
    Kernel {
        name: MODIFIED_STRFTIME,
        aliases: &[],
        takes: &[Takes::Text, Takes::Any],
        arguments: (2, usize::MAX),
        yields: |_| Some(DataType::Utf8View),
        run: strftime,
    }
}

/// `strftime` of a text or number, by SQLite's letters.
pub(super) fn strftime_of(format: Expr, value: Expr) -> Expr {
    modified_strftime().function().call(vec![format, value])
}

fn stamp() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, None)
}

/// A moment on its way through modifiers.
#[derive(Debug, Clone, Copy)]
struct Moment {
    micros: i64,
    /// Days by which the last step went beyond the end of a month.
    beyond: i64,
    /// Whether fractions of seconds are shown.
    subsecond: bool,
}

/// A value that is a moment, or a number whose meaning the first modifier tells.
#[derive(Debug, Clone, Copy)]
enum Given {
    Micros(i64),
    Number(f64),
}

/// The moments of the rows: the first argument, changed by the others.
fn moments(args: &[ArrayRef]) -> Result<Vec<Option<Moment>>> {
    let given = given(&args[0])?;
    let modifiers = args[1..]
        .iter()
        .map(|modifier| match modifier.data_type() {
            DataType::Null => Ok(cast(modifier, &DataType::Utf8View)?),
            text if text.is_string() => Ok(cast(modifier, &DataType::Utf8View)?),
            other => Err(Error::new(
                SqlState::DatatypeMismatch,
                format!(
                    "a modifier of a date is a text, not of type {}",
                    crate::expr::convert::type_name(other)
                ),
            )
            .into()),
        })
        .collect::<Result<Vec<ArrayRef>>>()?;
    let modifiers: Vec<&StringViewArray> = modifiers.iter().map(|m| m.as_string_view()).collect();
    let mut moments = Vec::with_capacity(given.len());
    for (row, given) in given.into_iter().enumerate() {
        let known = modifiers.iter().all(|modifier| modifier.is_valid(row));
        moments.push(match given.filter(|_| known) {
            Some(given) => {
                let modifiers = modifiers.iter().map(|modifier| modifier.value(row));
                Some(modified(given, modifiers)?)
            }
            None => None,
        });
    }
    Ok(moments)
}

fn given(values: &ArrayRef) -> Result<Vec<Option<Given>>> {
    Ok(match values.data_type() {
        DataType::Null => vec![None; values.len()],
        number if number.is_numeric() => {
            let numbers = cast(values, &DataType::Float64)?;
            let numbers = numbers.as_primitive::<Float64Type>();
            numbers.iter().map(|n| n.map(Given::Number)).collect()
        }
        text if text.is_string() => {
            let texts = cast(values, &DataType::Utf8View)?;
            let texts = texts.as_string_view().iter();
            texts
                .map(|text| text.map(read).transpose())
                .collect::<crate::Result<Vec<_>>>()?
        }
        DataType::Date32 | DataType::Timestamp(_, _) => {
            let stamps = cast(values, &stamp())?;
            let stamps = stamps.as_primitive::<TimestampMicrosecondType>();
            stamps.iter().map(|n| n.map(Given::Micros)).collect()
        }
        DataType::Time64(_) => {
            let first = days_from_civil(2000, 1, 1) * MICROS_PER_DAY;
            let times = cast(values, &DataType::Int64)?;
            let times = times.as_primitive::<arrow::datatypes::Int64Type>();
            times
                .iter()
                .map(|time| time.map(|time| Given::Micros(first + time)))
                .collect()
        }
        other => {
            return Err(Error::new(
                SqlState::DatatypeMismatch,
                format!(
                    "a value of type {} is no moment",
                    crate::expr::convert::type_name(other)
                ),
            )
            .into());
        }
    })
}

fn read(text: &str) -> crate::Result<Given> {
    let text = text.trim();
    if text.eq_ignore_ascii_case("now") {
        return Ok(Given::Micros(chrono::Utc::now().timestamp_micros()));
    }
    if let Some(micros) = parse_utc(text) {
        return Ok(Given::Micros(micros));
    }
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(Given::Number(number)),
        _ => Err(Error::new(
            SqlState::InvalidDatetimeFormat,
            format!("invalid input syntax for a date or time: \"{text}\""),
        )
        .with_hint("Write it as 2024-02-29, 2024-02-29 12:30:00 or 12:30.")),
    }
}

fn modified<'a>(given: Given, modifiers: impl Iterator<Item = &'a str>) -> crate::Result<Moment> {
    let mut modifiers = modifiers.peekable();
    let first = modifiers
        .peek()
        .map(|modifier| modifier.trim().to_ascii_lowercase());
    let seconds = |number: f64| whole(number * SECOND as f64);
    let days = |number: f64| whole((number - JULIAN_OF_1970) * MICROS_PER_DAY as f64);
    let micros = match (given, first.as_deref()) {
        (Given::Number(number), Some("unixepoch")) => seconds(number)?,
        (Given::Number(number), Some("auto")) if !(0.0..LAST_JULIAN).contains(&number) => {
            seconds(number)?
        }
        (Given::Number(number), _) if (0.0..LAST_JULIAN).contains(&number) => days(number)?,
        (Given::Number(number), _) => {
            return Err(Error::new(
                SqlState::DatetimeFieldOverflow,
                format!("{number} is no Julian day"),
            )
            .with_hint("Seconds since 1970 take the modifier 'unixepoch'."));
        }
        (Given::Micros(micros), Some("auto")) => micros,
        (Given::Micros(_), Some(modifier @ ("unixepoch" | "julianday"))) => {
            return Err(Error::new(
                SqlState::InvalidParameterValue,
                format!("the modifier \"{modifier}\" is for numbers"),
            ));
        }
        (Given::Micros(micros), _) => micros,
    };
    if matches!(first.as_deref(), Some("unixepoch" | "julianday" | "auto")) {
        modifiers.next();
    }
    let mut moment = Moment {
        micros,
        beyond: 0,
        subsecond: false,
    };
    for modifier in modifiers {
        moment.modify(modifier)?;
    }
    Ok(moment)
}

/// Rounded microseconds.
fn whole(micros: f64) -> crate::Result<i64> {
    // The bounds of 64 bits as doubles: the upper one is just beyond.
    match (-(2f64.powi(63))..2f64.powi(63)).contains(&micros) {
        true => Ok(micros.round() as i64),
        false => Err(timestamp_out_of_range()),
    }
}

impl Moment {
    /// With or without the fraction of its second.
    fn shown(self) -> i64 {
        match self.subsecond {
            true => self.micros,
            false => self.micros.div_euclid(SECOND) * SECOND,
        }
    }

    fn julian(self) -> f64 {
        // SQLite counts in milliseconds, and so its fractions are those.
        let millis = self.micros.div_euclid(1_000) as f64;
        (millis + JULIAN_OF_1970 * 86_400_000.0) / 86_400_000.0
    }

    fn day(self) -> i64 {
        self.micros.div_euclid(MICROS_PER_DAY)
    }

    /// Days since the last Sunday.
    fn weekday(self) -> i64 {
        (self.day() + 4).rem_euclid(7)
    }

    fn add(&mut self, micros: i64) -> crate::Result<()> {
        let sum = self.micros.checked_add(micros);
        self.micros = sum.ok_or_else(timestamp_out_of_range)?;
        Ok(())
    }

    /// Goes to a month; a day that it lacks is one of the next month.
    fn add_months(&mut self, months: i64) -> crate::Result<()> {
        let time = self.micros.rem_euclid(MICROS_PER_DAY);
        let (year, month, day) = civil_from_days(self.day());
        let count = year
            .checked_mul(12)
            .and_then(|count| count.checked_add(i64::from(month) - 1)?.checked_add(months))
            .ok_or_else(timestamp_out_of_range)?;
        let (year, month) = (count.div_euclid(12), count.rem_euclid(12) as u32 + 1);
        if !(-300_000..=300_000).contains(&year) {
            return Err(timestamp_out_of_range());
        }
        let first = days_from_civil(year, month, 1);
        let next = match month {
            12 => days_from_civil(year + 1, 1, 1),
            _ => days_from_civil(year, month + 1, 1),
        };
        let day = first + i64::from(day) - 1;
        self.beyond = (day - next + 1).max(0);
        let micros = day.checked_mul(MICROS_PER_DAY);
        let micros = micros.and_then(|micros| micros.checked_add(time));
        self.micros = micros.ok_or_else(timestamp_out_of_range)?;
        Ok(())
    }

    fn modify(&mut self, written: &str) -> crate::Result<()> {
        let modifier = written.trim().to_ascii_lowercase();
        let beyond = std::mem::take(&mut self.beyond);
        match modifier.as_str() {
            "start of day" => self.micros = self.day() * MICROS_PER_DAY,
            "start of month" | "start of year" => {
                let (year, month, _) = civil_from_days(self.day());
                let month = if modifier.ends_with("year") { 1 } else { month };
                self.micros = days_from_civil(year, month, 1) * MICROS_PER_DAY;
            }
            "subsec" | "subsecond" => self.subsecond = true,
            "ceiling" => {}
            "floor" => self.add(-beyond * MICROS_PER_DAY)?,
            "localtime" | "utc" => {
                return Err(Error::unsupported(format!(
                    "the modifier \"{modifier}\" is not supported"
                ))
                .with_hint("Use AT TIME ZONE."));
            }
            "unixepoch" | "julianday" | "auto" => {
                return Err(Error::new(
                    SqlState::InvalidParameterValue,
                    format!("the modifier \"{modifier}\" must be the first one"),
                ));
            }
            other => {
                if let Some(day) = other.strip_prefix("weekday ") {
                    let day = day.trim().parse::<i64>().ok();
                    let day = day.filter(|day| (0..7).contains(day));
                    let day = day.ok_or_else(|| unknown(written))?;
                    self.add((day - self.weekday()).rem_euclid(7) * MICROS_PER_DAY)?;
                } else {
                    self.shift(other).unwrap_or_else(|| Err(unknown(written)))?;
                }
            }
        }
        Ok(())
    }

    /// `+3 days`, `-1.5 hours`, `+12:30`, `-0001-02-00 12:00`; `None` for what is none of these.
    fn shift(&mut self, modifier: &str) -> Option<crate::Result<()>> {
        let sign = if modifier.starts_with('-') { -1 } else { 1 };
        let bare = modifier.trim_start_matches(['+', '-']);
        if modifier.len() - bare.len() > 1
            || !bare.starts_with(|first: char| first.is_ascii_digit() || first == '.')
        {
            return None;
        }
        if let Some((number, unit)) = bare.split_once(char::is_whitespace)
            && let Ok(number) = number.parse::<f64>()
        {
            return self.shift_by(f64::from(sign) * number, unit.trim());
        }
        if let Some(time) = clock(bare) {
            return Some(self.add(i64::from(sign) * time));
        }
        if modifier.len() == bare.len() {
            return None;
        }
        let (date, time) = match bare.split_once(' ') {
            Some((date, time)) => (date, clock(time)?),
            None => (bare, 0),
        };
        let mut parts = date.split('-');
        let mut part = |digits: usize| {
            let part = parts.next()?;
            let is_number = part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| part.parse::<i64>().ok())?
        };
        let (years, months, days) = (part(4)?, part(2)?, part(2)?);
        if parts.next().is_some() || months > 11 || days > 30 {
            return None;
        }
        let sign = i64::from(sign);
        Some(
            self.add_months(sign * (years * 12 + months))
                .and_then(|()| self.add(sign * (days * MICROS_PER_DAY + time))),
        )
    }

    fn shift_by(&mut self, number: f64, unit: &str) -> Option<crate::Result<()>> {
        let unit = unit.strip_suffix('s').unwrap_or(unit);
        let micros = match unit {
            "second" => SECOND,
            "minute" => 60 * SECOND,
            "hour" => 3_600 * SECOND,
            "day" => MICROS_PER_DAY,
            "month" | "year" => {
                let (months, days) = if unit == "month" { (1, 30) } else { (12, 365) };
                let rest = number.fract() * days as f64 * MICROS_PER_DAY as f64;
                let months = number.trunc() * f64::from(months);
                return Some(whole(months).and_then(|months| {
                    self.add_months(months)?;
                    self.add(whole(rest)?)
                }));
            }
            _ => return None,
        };
        Some(whole(number * micros as f64).and_then(|micros| self.add(micros)))
    }
}

/// The microseconds of `12:30` and `12:30:15.5`.
fn clock(text: &str) -> Option<i64> {
    let first = days_from_civil(2000, 1, 1) * MICROS_PER_DAY;
    let is_clock = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || matches!(byte, b':' | b'.'));
    parse_utc(text)
        .filter(|_| is_clock)
        .map(|micros| micros - first)
}

fn unknown(modifier: &str) -> Error {
    Error::new(
        SqlState::InvalidParameterValue,
        format!("invalid modifier of a date: \"{modifier}\""),
    )
    .with_hint("Modifiers are '+1 day' (second, minute, hour, day, month, year), 'start of month', 'weekday 0', 'unixepoch' and the like.")
}

fn strftime(args: &[ArrayRef]) -> Result<ArrayRef> {
    let formats = cast(&args[0], &DataType::Utf8View)?;
    let moments = moments(&args[1..])?;
    let mut texts = StringViewBuilder::new();
    for (format, moment) in formats.as_string_view().iter().zip(moments) {
        match (format, moment) {
            (Some(format), Some(moment)) => texts.append_value(formatted(moment, format)?),
            _ => texts.append_null(),
        }
    }
    Ok(Arc::new(texts.finish()))
}

/// A moment by a format of SQLite's `strftime`.
fn formatted(moment: Moment, format: &str) -> crate::Result<String> {
    let (year, month, day) = civil_from_days(moment.day());
    let of_day = moment.micros.rem_euclid(MICROS_PER_DAY);
    let (hour, minute) = (of_day / (3_600 * SECOND), of_day / (60 * SECOND) % 60);
    let (second, micros) = (of_day / SECOND % 60, of_day % SECOND);
    let of_year = moment.day() - days_from_civil(year, 1, 1);
    let monday_first = (moment.weekday() + 6) % 7;
    // The week of a year is that of its Thursday.
    let thursday = moment.day() - monday_first + 3;
    let (week_year, _, _) = civil_from_days(thursday);
    let week = (thursday - days_from_civil(week_year, 1, 1)) / 7 + 1;
    let twelve = (hour + 11) % 12 + 1;
    let mut text = String::new();
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            text.push(letter);
            continue;
        }
        let letter = letters.next();
        // Writing to a string does not fail.
        let _ = match letter {
            Some('d') => write!(text, "{day:02}"),
            Some('e') => write!(text, "{day:2}"),
            Some('f') => write!(text, "{second:02}.{:03}", micros / 1_000),
            Some('F') => write!(text, "{year:04}-{month:02}-{day:02}"),
            Some('g') => write!(text, "{:02}", week_year.rem_euclid(100)),
            Some('G') => write!(text, "{week_year:04}"),
            Some('H') => write!(text, "{hour:02}"),
            Some('I') => write!(text, "{twelve:02}"),
            Some('j') => write!(text, "{:03}", of_year + 1),
            Some('J') => write!(text, "{}", moment.julian()),
            Some('k') => write!(text, "{hour:2}"),
            Some('l') => write!(text, "{twelve:2}"),
            Some('m') => write!(text, "{month:02}"),
            Some('M') => write!(text, "{minute:02}"),
            Some('p') => write!(text, "{}", if hour < 12 { "AM" } else { "PM" }),
            Some('P') => write!(text, "{}", if hour < 12 { "am" } else { "pm" }),
            Some('R') => write!(text, "{hour:02}:{minute:02}"),
            Some('s') => write!(text, "{}", moment.micros.div_euclid(SECOND)),
            Some('S') => write!(text, "{second:02}"),
            Some('T') => write!(text, "{hour:02}:{minute:02}:{second:02}"),
            Some('u') => write!(text, "{}", monday_first + 1),
            Some('U') => write!(text, "{:02}", (of_year + 7 - moment.weekday()) / 7),
            Some('V') => write!(text, "{week:02}"),
            Some('w') => write!(text, "{}", moment.weekday()),
            Some('W') => write!(text, "{:02}", (of_year + 7 - monday_first) / 7),
            Some('Y') => write!(text, "{year:04}"),
            Some('%') => write!(text, "%"),
            other => {
                let written = other.map(String::from).unwrap_or_default();
                return Err(Error::new(
                    SqlState::InvalidParameterValue,
                    format!("strftime has no %{written}"),
                )
                .with_hint(
                    "With modifiers, or of a text, the letters are those of SQLite; of a date or timestamp alone, those of DuckDB.",
                ));
            }
        };
    }
    Ok(text)
}
