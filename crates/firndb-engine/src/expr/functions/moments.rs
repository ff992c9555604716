//! Functions of dates, times and intervals.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, Int64Array, IntervalMonthDayNanoArray,
    TimestampMicrosecondArray,
};
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{
    DataType, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
    TimestampMicrosecondType,
};
use datafusion::common::Result;
use datafusion::logical_expr::Expr;

use super::kernel::{Kernel, Takes};
use super::moment_formats::fields::days_of_month;
use super::unit;
use crate::expr::convert::{MICROS_PER_DAY, NANOS_PER_MICRO, civil_from_days};
use crate::types::UTC;
use crate::{Error, SqlState};

/// The seconds of an interval.
const INTERVAL_SECONDS: &str = "__firndb_interval_seconds";

/// A call of `epoch` of an interval.
pub(super) fn seconds_of_interval(interval: Expr) -> Option<Expr> {
    let mut kernels = kernels().into_iter();
    let kernel = kernels.find(|kernel| kernel.name == INTERVAL_SECONDS)?;
    Some(kernel.function().call(vec![interval]))
}

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
            name: INTERVAL_SECONDS,
            aliases: &[],
            takes: &[Any],
            arguments: (1, 1),
            yields: |types| matches!(types[0], DataType::Interval(_)).then_some(DataType::Float64),
            run: seconds_of_intervals,
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
        return super::moment_formats::in_formats(args);
    };
    Ok(Arc::new(micros.with_timezone(UTC)))
}

fn stamp() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, None)
}

fn is_moment(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Null
            | DataType::Date32
            | DataType::Timestamp(_, _)
            | DataType::Time64(_)
            | DataType::Interval(_)
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
        DataType::Time64(_) => cast(
            &cast(&args[0], &DataType::Time64(TimeUnit::Microsecond))?,
            &DataType::Int64,
        )
        .and_then(|micros| cast(&micros, &stamp()))?,
        DataType::Interval(_) => of_intervals(&args[0])?,
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

/// Intervals in microseconds, of months of 30 days.
fn of_intervals(intervals: &ArrayRef) -> Result<ArrayRef> {
    let intervals = cast(intervals, &DataType::Interval(IntervalUnit::MonthDayNano))?;
    let micros = intervals
        .as_primitive::<IntervalMonthDayNanoType>()
        .iter()
        .map(|interval| {
            let Some(interval) = interval else {
                return Ok(None);
            };
            let days = i64::from(interval.months) * 30 + i64::from(interval.days);
            let micros = days
                .checked_mul(MICROS_PER_DAY)
                .and_then(|micros| micros.checked_add(interval.nanoseconds / NANOS_PER_MICRO));
            micros
                .map(Some)
                .ok_or_else(crate::expr::convert::timestamp_out_of_range)
        })
        .collect::<crate::Result<TimestampMicrosecondArray>>()?;
    Ok(Arc::new(micros))
}

/// The seconds of intervals, of years of 365.25 days and months of 30.
fn seconds_of_intervals(args: &[ArrayRef]) -> Result<ArrayRef> {
    let intervals = cast(&args[0], &DataType::Interval(IntervalUnit::MonthDayNano))?;
    let seconds: Float64Array = intervals
        .as_primitive::<IntervalMonthDayNanoType>()
        .iter()
        .map(|interval| {
            interval.map(|interval| {
                let years = f64::from(interval.months / 12) * 365.25;
                let days = i64::from(interval.months % 12) * 30 + i64::from(interval.days);
                let nanos = interval.nanoseconds as f64 / 1e9;
                (years + days as f64) * 86_400.0 + nanos
            })
        })
        .collect();
    Ok(Arc::new(seconds))
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
        days += i64::from(days_of_month(from_year, from_month));
        months -= 1;
    }
    IntervalMonthDayNano::new(months as i32, days as i32, time * NANOS_PER_MICRO)
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
    let began = match to_day == i64::from(days_of_month(to_year, to_month as u32)) {
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
