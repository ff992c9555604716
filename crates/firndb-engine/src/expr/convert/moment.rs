//! Conversions among dates, times of day and timestamps.

use arrow::array::timezone::Tz;
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    DataType, Date32Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit,
    Time64MicrosecondType, TimestampMicrosecondType,
};
use chrono::{DateTime, MappedLocalTime, Offset, TimeZone};

use super::calendar::{MICROS_PER_DAY, MICROS_PER_SECOND};
use super::interval::NANOS_PER_MICRO;
use super::{Conversion, arc};
use crate::types::UTC;
use crate::{Error, Result, SqlState};

pub(super) fn is_moment(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Date32
            | DataType::Time64(_)
            | DataType::Timestamp(_, _)
            | DataType::Interval(IntervalUnit::MonthDayNano)
    )
}

pub(super) fn convertible(from: &DataType, to: &DataType) -> bool {
    use DataType::{Date32, Interval, Time64, Timestamp};
    is_moment(from)
        && is_moment(to)
        && matches!(
            (from, to),
            (Date32, Date32 | Timestamp(_, _))
                | (Time64(_), Time64(_) | Interval(_))
                | (Timestamp(_, _), Date32 | Time64(_) | Timestamp(_, _))
                | (Interval(_), Interval(_) | Time64(_))
        )
}

pub(crate) fn timestamp_out_of_range() -> Error {
    Error::new(SqlState::DatetimeFieldOverflow, "timestamp out of range")
}

/// `None` where the two types have nothing to do with one another.
pub(super) fn convert(
    values: &ArrayRef,
    to: &DataType,
    how: Conversion,
) -> Result<Option<ArrayRef>> {
    use DataType::{Date32, Interval, Time64, Timestamp};
    let from = values.data_type().clone();
    if from == *to {
        return Ok(Some(values.clone()));
    }
    let converted = match (&from, to) {
        (Date32, Timestamp(_, zone)) => {
            let local = how.map::<_, TimestampMicrosecondType>(
                values.as_primitive::<Date32Type>(),
                |days| i64::from(days).checked_mul(MICROS_PER_DAY),
                |_| timestamp_out_of_range(),
            )?;
            let zone = zone.as_ref().map(|_| UTC);
            match (zone, how.zone) {
                (Some(zone), Some(session)) => {
                    arc(to_instant(&local, session, how)?.with_timezone(zone))
                }
                (zone, _) => arc(local.with_timezone_opt(zone)),
            }
        }
        (Timestamp(_, from_zone), Timestamp(_, to_zone)) => {
            let stamps = values.as_primitive::<TimestampMicrosecondType>();
            let moved = match (from_zone, to_zone, how.zone) {
                (None, Some(_), Some(session)) => to_instant(stamps, session, how)?,
                (Some(_), None, Some(session)) => to_local(stamps, session, how)?,
                _ => stamps.clone(),
            };
            arc(moved.with_timezone_opt(to_zone.clone()))
        }
        (Timestamp(_, zone), Date32 | Time64(_)) => {
            let stamps = values.as_primitive::<TimestampMicrosecondType>();
            let local = match (zone, how.zone) {
                (Some(_), Some(session)) => to_local(stamps, session, how)?,
                _ => stamps.clone(),
            };
            if *to == Date32 {
                arc(local.unary::<_, Date32Type>(|micros| micros.div_euclid(MICROS_PER_DAY) as i32))
            } else {
                arc(local
                    .unary::<_, Time64MicrosecondType>(|micros| micros.rem_euclid(MICROS_PER_DAY)))
            }
        }
        (Time64(_), Interval(_)) => arc(values
            .as_primitive::<Time64MicrosecondType>()
            .unary::<_, IntervalMonthDayNanoType>(|micros| {
            IntervalMonthDayNano::new(0, 0, micros * NANOS_PER_MICRO)
        })),
        (Interval(_), Time64(_)) => arc(values
            .as_primitive::<IntervalMonthDayNanoType>()
            .unary::<_, Time64MicrosecondType>(|interval| {
            (interval.nanoseconds / NANOS_PER_MICRO).rem_euclid(MICROS_PER_DAY)
        })),
        _ => return Ok(None),
    };
    Ok(Some(converted))
}

/// Moments and times of day rounded to so many digits of a second; halves go away from 1970 and from midnight.
pub(super) fn rounded(values: &ArrayRef, digits: u8, how: Conversion) -> Result<ArrayRef> {
    let step = 10_i64.pow(6_u32.saturating_sub(digits.into()));
    let round = |micros: i64| {
        let half = if micros < 0 { -(step / 2) } else { step / 2 };
        Some(micros.checked_add(half)? / step * step)
    };
    Ok(match values.data_type() {
        DataType::Timestamp(_, zone) => {
            let stamps = values.as_primitive::<TimestampMicrosecondType>();
            let rounded = how
                .map::<_, TimestampMicrosecondType>(stamps, round, |_| timestamp_out_of_range())?;
            arc(rounded.with_timezone_opt(zone.clone()))
        }
        DataType::Time64(_) => arc(how.map::<_, Time64MicrosecondType>(
            values.as_primitive::<Time64MicrosecondType>(),
            round,
            |_| timestamp_out_of_range(),
        )?),
        _ => values.clone(),
    })
}

type Timestamps = arrow::array::PrimitiveArray<TimestampMicrosecondType>;

/// The instants at which clocks in `zone` showed these times; the earlier one where an hour comes twice.
fn to_instant(local: &Timestamps, zone: Tz, how: Conversion) -> Result<Timestamps> {
    how.map(
        local,
        |micros| instant(micros, zone),
        |_| timestamp_out_of_range(),
    )
}

pub(crate) fn instant(micros: i64, zone: Tz) -> Option<i64> {
    let naive = DateTime::from_timestamp_micros(micros)?.naive_utc();
    let offset = match zone.offset_from_local_datetime(&naive) {
        MappedLocalTime::Single(offset) | MappedLocalTime::Ambiguous(offset, _) => offset,
        // Clocks skipped this hour: the offset before the skip counts, as in PostgreSQL.
        MappedLocalTime::None => {
            zone.offset_from_utc_datetime(&naive.checked_sub_signed(chrono::Duration::hours(24))?)
        }
    };
    micros.checked_sub(i64::from(offset.fix().local_minus_utc()) * MICROS_PER_SECOND)
}

/// What clocks in `zone` show at these instants.
fn to_local(instants: &Timestamps, zone: Tz, how: Conversion) -> Result<Timestamps> {
    how.map(
        instants,
        |micros| micros.checked_add(i64::from(offset_at(micros, zone)?) * MICROS_PER_SECOND),
        |_| timestamp_out_of_range(),
    )
}

/// Seconds that clocks in `zone` are ahead of UTC at an instant.
pub(crate) fn offset_at(micros: i64, zone: Tz) -> Option<i32> {
    let utc = DateTime::from_timestamp_micros(micros)?.naive_utc();
    Some(zone.offset_from_utc_datetime(&utc).fix().local_minus_utc())
}
