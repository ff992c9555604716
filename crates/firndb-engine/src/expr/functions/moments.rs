//! Functions of dates, times and intervals.

use std::fmt::Write;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, IntervalMonthDayNanoArray, StringViewArray,
    StringViewBuilder, TimestampMicrosecondArray,
};
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{
    DataType, Field, IntervalMonthDayNano, IntervalUnit, TimeUnit, TimestampMicrosecondType,
};
use chrono::DateTime;
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, Expr, ScalarFunctionArgs};

use super::kernel::{Kernel, Takes};
use super::unit;
use crate::expr::convert::{MICROS_PER_DAY, NANOS_PER_MICRO, civil_from_days};
use crate::types::UTC;
use crate::{Error, SqlState};

/// The functions of this module.
pub(super) fn kernels() -> Vec<Kernel> {
    use Takes::{Any, Stamp, Text};
    vec![
        Kernel {
            name: "epoch_ms",
            aliases: &[],
            takes: &[Any],
            arguments: (1, 1),
            yields: |types| match &types[0] {
                number if number.is_integer() => Some(stamp()),
                moment => is_moment(moment).then_some(DataType::Int64),
            },
            run: |args| match args[0].data_type().is_integer() {
                true => {
                    let numbers = cast(&args[0], &DataType::Int64)?;
                    let numbers = numbers.as_primitive::<arrow::datatypes::Int64Type>();
                    let stamps: TimestampMicrosecondArray = numbers.try_unary(|number| {
                        number
                            .checked_mul(1_000)
                            .ok_or_else(crate::expr::convert::timestamp_out_of_range)
                    })?;
                    Ok(Arc::new(stamps))
                }
                false => epoch(args, |micros| Some(micros.div_euclid(1_000))),
            },
        },
        Kernel {
            name: "epoch_us",
            aliases: &[],
            takes: &[Any],
            arguments: (1, 1),
            yields: |types| is_moment(&types[0]).then_some(DataType::Int64),
            run: |args| epoch(args, Some),
        },
        Kernel {
            name: "epoch_ns",
            aliases: &[],
            takes: &[Any],
            arguments: (1, 1),
            yields: |types| is_moment(&types[0]).then_some(DataType::Int64),
            run: |args| epoch(args, |micros| micros.checked_mul(1_000)),
        },
        Kernel {
            name: "to_timestamp",
            aliases: &[],
            takes: &[Any],
            arguments: (1, usize::MAX),
            yields: |types| match &types[0] {
                number if number.is_numeric() => (types.len() == 1).then(instant),
                _ => Some(stamp()),
            },
            run: to_timestamp,
        },
        Kernel {
            name: "age",
            aliases: &[],
            takes: &[Stamp],
            arguments: (2, 2),
            yields: |_| Some(DataType::Interval(IntervalUnit::MonthDayNano)),
            run: |args| {
                let (later, earlier) = stamps(&args[0], &args[1]);
                let ages: IntervalMonthDayNanoArray = later
                    .iter()
                    .zip(earlier)
                    .map(|(later, earlier)| Some(age(later?, earlier?)))
                    .collect();
                Ok(Arc::new(ages))
            },
        },
        Kernel {
            name: "date_sub",
            aliases: &["datesub"],
            takes: &[Text, Stamp],
            arguments: (3, 3),
            yields: |_| Some(DataType::Int64),
            run: complete_units,
        },
    ]
}

fn instant() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into()))
}

/// Numbers are seconds since 1970 and give instants; text, in one of the given formats, gives a timestamp.
fn to_timestamp(args: &[ArrayRef]) -> Result<ArrayRef> {
    use arrow::datatypes::{Decimal128Type, Float64Type};
    let out_of_range = crate::expr::convert::timestamp_out_of_range;
    let given = args[0].data_type();
    let strict = CastOptions {
        safe: false,
        ..Default::default()
    };
    let micros: TimestampMicrosecondArray = if given.is_floating() {
        let seconds = cast(&args[0], &DataType::Float64)?;
        seconds.as_primitive::<Float64Type>().try_unary(|seconds| {
            let micros = (seconds * 1e6).round();
            // The bounds of 64 bits as doubles: the upper one is just beyond.
            match (-(2f64.powi(63))..2f64.powi(63)).contains(&micros) {
                true => Ok(micros as i64),
                false => Err(out_of_range()),
            }
        })?
    } else if given.is_numeric() {
        let seconds = cast_with_options(&args[0], &DataType::Decimal128(38, 6), &strict)?;
        seconds
            .as_primitive::<Decimal128Type>()
            .try_unary(|micros| i64::try_from(micros).map_err(|_| out_of_range()))?
    } else if args.len() == 1 {
        return Ok(cast_with_options(&args[0], &stamp(), &strict)?);
    } else {
        return formatted_timestamp(args);
    };
    Ok(Arc::new(micros.with_timezone(UTC)))
}

/// Text in one of the formats that follow it.
fn formatted_timestamp(args: &[ArrayRef]) -> Result<ArrayRef> {
    let options = Arc::new(datafusion::config::ConfigOptions::default());
    let function = datafusion::functions::datetime::to_timestamp_micros(&options);
    let rows = args[0].len();
    let fields = args
        .iter()
        .map(|values| Arc::new(Field::new("", values.data_type().clone(), true)))
        .collect();
    let parsed = function.invoke_with_args(ScalarFunctionArgs {
        args: args
            .iter()
            .map(|values| ColumnarValue::Array(Arc::clone(values)))
            .collect(),
        arg_fields: fields,
        number_rows: rows,
        return_field: Arc::new(Field::new("", stamp(), true)),
        config_options: options,
    })?;
    Ok(cast(&parsed.into_array(rows)?, &stamp())?)
}

/// `strftime` by a format of each row's own.
pub(super) fn formatted(moment: Expr, format: Expr) -> Expr {
    Kernel {
        name: "format_moment",
        aliases: &[],
        takes: &[Takes::Stamp, Takes::Text],
        arguments: (2, 2),
        yields: |_| Some(DataType::Utf8View),
        run: |args| {
            let moments = args[0].as_primitive::<TimestampMicrosecondType>();
            let formats = args[1].as_string_view();
            let mut texts = StringViewBuilder::new();
            for (moment, format) in moments.iter().zip(formats) {
                let (Some(moment), Some(format)) = (moment, format) else {
                    texts.append_null();
                    continue;
                };
                let moment = DateTime::from_timestamp_micros(moment)
                    .ok_or_else(crate::expr::convert::timestamp_out_of_range)?;
                let mut text = String::new();
                write!(
                    text,
                    "{}",
                    moment.naive_utc().format(&chrono_format(format))
                )
                .map_err(|_| {
                    Error::new(
                        SqlState::InvalidParameterValue,
                        format!("invalid format \"{format}\""),
                    )
                })?;
                texts.append_value(text);
            }
            Ok(Arc::new(texts.finish()))
        },
    }
    .function()
    .call(vec![moment, format])
}

/// Dates or timestamps, on the clock of UTC, as text in a format of `strftime`.
pub(crate) fn moments_as(moments: &ArrayRef, format: &str) -> crate::Result<StringViewArray> {
    let stamps = cast(moments, &stamp())?;
    let format = chrono_format(format);
    let mut texts = StringViewBuilder::new();
    for moment in stamps.as_primitive::<TimestampMicrosecondType>() {
        let Some(moment) = moment else {
            texts.append_null();
            continue;
        };
        let moment = DateTime::from_timestamp_micros(moment)
            .ok_or_else(crate::expr::convert::timestamp_out_of_range)?;
        let mut text = String::new();
        write!(text, "{}", moment.naive_utc().format(&format)).map_err(|_| {
            Error::new(
                SqlState::InvalidParameterValue,
                format!("invalid format \"{format}\""),
            )
        })?;
        texts.append_value(text);
    }
    Ok(texts.finish())
}

fn stamp() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, None)
}

fn is_moment(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Null | DataType::Date32 | DataType::Timestamp(_, _)
    )
}

fn stamps<'a>(
    left: &'a ArrayRef,
    right: &'a ArrayRef,
) -> (&'a TimestampMicrosecondArray, &'a TimestampMicrosecondArray) {
    (
        left.as_primitive::<TimestampMicrosecondType>(),
        right.as_primitive::<TimestampMicrosecondType>(),
    )
}

fn epoch(args: &[ArrayRef], number: fn(i64) -> Option<i64>) -> Result<ArrayRef> {
    let moments = match args[0].data_type() {
        DataType::Timestamp(TimeUnit::Microsecond, _) => Arc::clone(&args[0]),
        _ => cast(&args[0], &stamp())?,
    };
    let moments = moments.as_primitive::<TimestampMicrosecondType>();
    let mut numbers = Vec::with_capacity(moments.len());
    for moment in moments {
        numbers.push(match moment {
            Some(micros) => {
                Some(number(micros).ok_or_else(crate::expr::convert::timestamp_out_of_range)?)
            }
            None => None,
        });
    }
    Ok(Arc::new(Int64Array::from(numbers)))
}

/// Years, months and days between two moments as a calendar counts them: PostgreSQL's `age`.
fn age(later: i64, earlier: i64) -> IntervalMonthDayNano {
    if later < earlier {
        let age = age(earlier, later);
        return IntervalMonthDayNano::new(-age.months, -age.days, -age.nanoseconds);
    }
    let parts = |micros: i64| {
        let (year, month, day) = civil_from_days(micros.div_euclid(MICROS_PER_DAY));
        (year, month, day, micros.rem_euclid(MICROS_PER_DAY))
    };
    let (from_year, from_month, from_day, from_time) = parts(earlier);
    let (to_year, to_month, to_day, to_time) = parts(later);
    let mut months = (to_year - from_year) * 12 + i64::from(to_month) - i64::from(from_month);
    let mut days = i64::from(to_day) - i64::from(from_day);
    let mut time = to_time - from_time;
    if time < 0 {
        time += MICROS_PER_DAY;
        days -= 1;
    }
    if days < 0 {
        days += days_of_month(from_year, i64::from(from_month));
        months -= 1;
    }
    IntervalMonthDayNano::new(months as i32, days as i32, time * NANOS_PER_MICRO)
}

fn days_of_month(year: i64, month: i64) -> i64 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// How many whole units lie between two moments.
fn complete_units(args: &[ArrayRef]) -> Result<ArrayRef> {
    let parts = args[0].as_string_view();
    let (from, to) = stamps(&args[1], &args[2]);
    let mut counts = Vec::with_capacity(from.len());
    for row in 0..from.len() {
        if parts.is_null(row) || from.is_null(row) || to.is_null(row) {
            counts.push(None);
            continue;
        }
        let part = parts.value(row).to_ascii_lowercase();
        counts.push(Some(complete(&part, from.value(row), to.value(row))?));
    }
    Ok(Arc::new(Int64Array::from(counts)))
}

/// Months between two moments. The last day of a month completes one, though it began at a later day of another.
fn complete_months(from: i64, to: i64) -> i64 {
    if to < from {
        return -complete_months(to, from);
    }
    let parts = |micros: i64| {
        let (year, month, day) = civil_from_days(micros.div_euclid(MICROS_PER_DAY));
        let (month, day) = (i64::from(month), i64::from(day));
        (year, month, day, micros.rem_euclid(MICROS_PER_DAY))
    };
    let (from_year, from_month, from_day, from_time) = parts(from);
    let (to_year, to_month, to_day, to_time) = parts(to);
    let began = match to_day == days_of_month(to_year, to_month) {
        true => from_day.min(to_day),
        false => from_day,
    };
    let months = (to_year - from_year) * 12 + to_month - from_month;
    months - i64::from((to_day, to_time) < (began, from_time))
}

fn complete(part: &str, from: i64, to: i64) -> Result<i64> {
    let part = part.trim_end_matches('s');
    let months = match part {
        "month" | "mon" => 1,
        "quarter" => 3,
        "year" | "yr" | "y" => 12,
        "decade" => 120,
        "century" | "centurie" => 1_200,
        "millennium" | "millennia" => 12_000,
        _ => 0,
    };
    if months > 0 {
        return Ok(complete_months(from, to) / months);
    }
    let micros = match part {
        "week" | "w" => 7 * MICROS_PER_DAY,
        "day" | "d" => MICROS_PER_DAY,
        "hour" | "hr" | "h" => 3_600_000_000,
        "minute" | "min" | "m" => 60_000_000,
        "second" | "sec" => 1_000_000,
        "millisecond" => 1_000,
        "microsecond" => 1,
        _ => {
            debug_assert!(unit(part).is_none());
            return Err(Error::new(
                SqlState::InvalidParameterValue,
                format!("date part \"{part}\" not recognized"),
            )
            .into());
        }
    };
    Ok((to - from) / micros)
}

/// strftime's parts of a second as chrono has them: `%f` microseconds, `%g` milliseconds, `%n` nanoseconds.
pub(super) fn chrono_format(format: &str) -> String {
    parts_of_second(format, &[("%f", "%6f"), ("%g", "%3f"), ("%n", "%9f")])
}

/// strptime's: digits behind the point, however many there are.
pub(super) fn chrono_pattern(format: &str) -> String {
    parts_of_second(
        format,
        &[
            (".%f", "%.f"),
            (".%g", "%.f"),
            (".%n", "%.f"),
            ("%f", "%6f"),
            ("%g", "%3f"),
            ("%n", "%9f"),
        ],
    )
}

fn parts_of_second(format: &str, parts: &[(&str, &str)]) -> String {
    let mut written = String::with_capacity(format.len());
    let mut rest = format;
    while let Some(next) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("%%") {
            written.push_str("%%");
            rest = after;
            continue;
        }
        let known = parts
            .iter()
            .find_map(|(from, to)| Some((rest.strip_prefix(from)?, to)));
        match known {
            Some((after, to)) => {
                written.push_str(to);
                rest = after;
            }
            None => {
                written.push(next);
                rest = &rest[next.len_utf8()..];
            }
        }
    }
    written
}
