//! `time_bucket` and `date_bin`: where the bucket of a moment begins, which an instant's does in UTC, as in DuckDB.
//!
//! Buckets of months are counted from an origin's month, January 2000 if none is given; others from the origin, Monday, the third of
//! that month. `date_bin` counts from 1970 where no origin is given. Dates have buckets that begin at dates.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, TimestampMicrosecondArray};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
    TimestampMicrosecondType,
};
use datafusion::common::Result;

use super::kernel::{Kernel, Takes};
use crate::expr::convert::{
    MICROS_PER_DAY, NANOS_PER_MICRO, civil_from_days, days_from_civil, timestamp_out_of_range,
};
use crate::{Error, SqlState};

/// 2000-01-03 is so many days after 1970-01-01, 2000-01-01 two less.
const MONDAY: i64 = 10_959 * MICROS_PER_DAY;
const MONTH: i64 = 10_957 * MICROS_PER_DAY;

/// The functions of this module.
pub(super) fn kernels() -> Vec<Kernel> {
    let yields = |types: &[DataType]| {
        let width = matches!(types[0], DataType::Interval(_) | DataType::Null);
        let moment = |data_type: &DataType| {
            data_type.is_string()
                || matches!(
                    data_type,
                    DataType::Date32 | DataType::Timestamp(_, _) | DataType::Null
                )
        };
        let third = types
            .get(2)
            .is_none_or(|third| moment(third) || matches!(third, DataType::Interval(_)));
        (width && moment(&types[1]) && third).then(|| match &types[1] {
            DataType::Date32 => DataType::Date32,
            other => stamp_like(other),
        })
    };
    let kernel = |name, yields, run| Kernel {
        name,
        aliases: &[],
        takes: &[Takes::Any],
        arguments: (2, 3),
        yields,
        run,
    };
    vec![
        kernel("time_bucket", yields, |args| starts(args, MONTH, MONDAY)),
        kernel(
            "date_bin",
            |types| {
                let width = matches!(types[0], DataType::Interval(_) | DataType::Null);
                width.then(|| stamp_like(&types[1]))
            },
            |args| starts(args, 0, 0),
        ),
    ]
}

fn stamp() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, None)
}

/// A timestamp, with a zone if the moments have one.
fn stamp_like(moments: &DataType) -> DataType {
    match moments {
        DataType::Timestamp(_, zone) => DataType::Timestamp(TimeUnit::Microsecond, zone.clone()),
        _ => stamp(),
    }
}

fn interval() -> DataType {
    DataType::Interval(IntervalUnit::MonthDayNano)
}

/// The starts of the rows' buckets; `month` and `other` are the origins that are not given.
fn starts(args: &[ArrayRef], month: i64, other: i64) -> Result<ArrayRef> {
    let widths = cast(&args[0], &interval())?;
    let widths = widths.as_primitive::<IntervalMonthDayNanoType>();
    let moments = cast(&args[1], &stamp())?;
    let moments = moments.as_primitive::<TimestampMicrosecondType>();
    let third = args.get(2).map(|third| match third.data_type() {
        DataType::Interval(_) => cast(third, &interval()),
        _ => cast(third, &stamp()),
    });
    let third = third.transpose()?;
    let starts = (0..moments.len()).map(|row| {
        use arrow::array::Array;
        let known = widths.is_valid(row)
            && moments.is_valid(row)
            && third.as_ref().is_none_or(|third| third.is_valid(row));
        if !known {
            return Ok(None);
        }
        let (width, moment) = (widths.value(row), moments.value(row));
        let origin = match width.months {
            0 => other,
            _ => month,
        };
        let start = match &third {
            None => bucket(width, moment, origin)?,
            Some(third) if matches!(third.data_type(), DataType::Interval(_)) => {
                let offset = third.as_primitive::<IntervalMonthDayNanoType>().value(row);
                let back = shifted(moment, offset, -1)?;
                shifted(bucket(width, back, origin)?, offset, 1)?
            }
            Some(third) => {
                let origin = third.as_primitive::<TimestampMicrosecondType>().value(row);
                bucket(width, moment, origin)?
            }
        };
        Ok(Some(start))
    });
    let starts = starts.collect::<crate::Result<TimestampMicrosecondArray>>()?;
    let starts: ArrayRef = Arc::new(starts);
    match args[1].data_type() {
        DataType::Date32 if month != 0 => Ok(cast(&starts, &DataType::Date32)?),
        moments => Ok(cast(&starts, &stamp_like(moments))?),
    }
}

/// A moment moved by an interval, or back by it.
fn shifted(moment: i64, by: IntervalMonthDayNano, sign: i64) -> crate::Result<i64> {
    let days = moment.div_euclid(MICROS_PER_DAY);
    let (year, month, day) = civil_from_days(days);
    let months = year * 12 + i64::from(month) - 1 + sign * i64::from(by.months);
    let (year, month) = (months.div_euclid(12), months.rem_euclid(12) as u32 + 1);
    let next = match month {
        12 => days_from_civil(year + 1, 1, 1),
        _ => days_from_civil(year, month + 1, 1),
    };
    let first = days_from_civil(year, month, 1);
    let day = i64::from(day).min(next - first);
    let micros = sign * (i64::from(by.days) * MICROS_PER_DAY + by.nanoseconds / NANOS_PER_MICRO);
    (first + day - 1)
        .checked_mul(MICROS_PER_DAY)
        .and_then(|start| start.checked_add(moment.rem_euclid(MICROS_PER_DAY)))
        .and_then(|start| start.checked_add(micros))
        .ok_or_else(timestamp_out_of_range)
}

/// Where the bucket of a moment begins.
fn bucket(width: IntervalMonthDayNano, moment: i64, origin: i64) -> crate::Result<i64> {
    let refused = |what: &str| Error::new(SqlState::InvalidParameterValue, what);
    let micros = i64::from(width.days) * MICROS_PER_DAY + width.nanoseconds / NANOS_PER_MICRO;
    if width.months != 0 && micros != 0 {
        return Err(refused(
            "a bucket is as wide as some months, or some days and hours, not both",
        ));
    }
    if width.months > 0 {
        let month = |moment: i64| {
            let (year, month, _) = civil_from_days(moment.div_euclid(MICROS_PER_DAY));
            year * 12 + i64::from(month) - 1
        };
        let (width, from) = (i64::from(width.months), month(origin));
        let months = from + width * (month(moment) - from).div_euclid(width);
        let days = days_from_civil(months.div_euclid(12), months.rem_euclid(12) as u32 + 1, 1);
        return days
            .checked_mul(MICROS_PER_DAY)
            .ok_or_else(timestamp_out_of_range);
    }
    if micros <= 0 {
        return Err(refused("the width of a bucket is more than nothing"));
    }
    let since = moment
        .checked_sub(origin)
        .ok_or_else(timestamp_out_of_range)?;
    (since.div_euclid(micros))
        .checked_mul(micros)
        .and_then(|start| start.checked_add(origin))
        .ok_or_else(timestamp_out_of_range)
}
