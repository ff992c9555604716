//! Functions of dates, times and intervals.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, IntervalMonthDayNanoArray, TimestampMicrosecondArray,
};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, IntervalMonthDayNano, IntervalUnit, TimeUnit, TimestampMicrosecondType,
};
use datafusion::common::Result;

use super::kernel::{Kernel, Takes};
use super::unit;
use crate::expr::convert::{MICROS_PER_DAY, NANOS_PER_MICRO, civil_from_days};
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
        let age = age(to, from);
        return Ok(i64::from(age.months) / months);
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
