//! `make_date`, `make_time` and `make_timestamp`: moments of numbers, which are checked, not carried over.
//!
//! The last second of a day may be followed by 24:00:00, and by the sixtieth second of its last minute, as in PostgreSQL and DuckDB.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Date32Array, Time64MicrosecondArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Float64Type, Int64Type, TimeUnit};

use super::kernel::{Kernel, Takes};
use super::moment_formats::fields::date;
use crate::expr::convert::{MICROS_PER_DAY, timestamp_out_of_range};
use crate::{Error, SqlState};

/// The functions of this module.
pub(super) fn kernels() -> Vec<Kernel> {
    use Takes::{Double, Integer};
    vec![
        Kernel {
            name: "make_date",
            aliases: &[],
            takes: &[Integer],
            arguments: (3, 3),
            yields: |_| Some(DataType::Date32),
            run: |args| {
                let days = rows(args, |row| {
                    let days = day(args, row)?;
                    i32::try_from(days).map_err(|_| timestamp_out_of_range())
                })?;
                Ok(Arc::new(Date32Array::from(days)))
            },
        },
        Kernel {
            name: "make_time",
            aliases: &[],
            takes: &[Integer, Integer, Double],
            arguments: (3, 3),
            yields: |_| Some(DataType::Time64(TimeUnit::Microsecond)),
            run: |args| {
                let times = rows(args, |row| time(args, row))?;
                Ok(Arc::new(Time64MicrosecondArray::from(times)))
            },
        },
        Kernel {
            name: "make_timestamp",
            aliases: &[],
            takes: &[Integer, Integer, Integer, Integer, Integer, Double],
            arguments: (6, 6),
            yields: |_| Some(DataType::Timestamp(TimeUnit::Microsecond, None)),
            run: |args| {
                let stamps = rows(args, |row| {
                    let midnight = day(args, row)?.checked_mul(MICROS_PER_DAY);
                    let time = time(&args[3..], row)?;
                    let moment = midnight.and_then(|midnight| midnight.checked_add(time));
                    moment.ok_or_else(timestamp_out_of_range)
                })?;
                Ok(Arc::new(TimestampMicrosecondArray::from(stamps)))
            },
        },
    ]
}

/// A value for each row in which no argument is NULL.
fn rows<T>(
    args: &[ArrayRef],
    value: impl Fn(usize) -> crate::Result<T>,
) -> crate::Result<Vec<Option<T>>> {
    let count = args.first().map_or(0, Array::len);
    (0..count)
        .map(
            |row| match args.iter().all(|argument| argument.is_valid(row)) {
                true => value(row).map(Some),
                false => Ok(None),
            },
        )
        .collect()
}

fn integer(argument: &ArrayRef, row: usize) -> i64 {
    argument.as_primitive::<Int64Type>().value(row)
}

fn day(args: &[ArrayRef], row: usize) -> crate::Result<i64> {
    let [year, month, day] = [0, 1, 2].map(|place| integer(&args[place], row));
    date(year, month, day)
}

/// Microseconds since midnight of an hour, a minute and a second with its fraction.
fn time(args: &[ArrayRef], row: usize) -> crate::Result<i64> {
    let (hour, minute) = (integer(&args[0], row), integer(&args[1], row));
    let second = args[2].as_primitive::<Float64Type>().value(row);
    let fits =
        (0..=24).contains(&hour) && (0..60).contains(&minute) && (0.0..=60.0).contains(&second);
    let micros = match fits {
        true => (hour * 60 + minute) * 60_000_000 + (second * 1e6).round() as i64,
        false => i64::MAX,
    };
    match micros <= MICROS_PER_DAY {
        true => Ok(micros),
        false => Err(Error::new(
            SqlState::DatetimeFieldOverflow,
            format!("time out of range: {hour}:{minute}:{second}"),
        )),
    }
}
