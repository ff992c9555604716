//! Dates, times, timestamps and intervals of Python as values.

use arrow::datatypes::IntervalMonthDayNano;
use firndb::Value;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{
    PyDateAccess, PyDateTime, PyDelta, PyDeltaAccess, PyTime, PyTimeAccess, PyTzInfoAccess,
};

use super::{invalid, type_name};

const MICROSECONDS_A_DAY: i64 = 86_400_000_000;

/// The value of a `datetime`.
pub(super) fn timestamp(object: &Bound<'_, PyAny>) -> PyResult<Value> {
    let py = object.py();
    if type_name(object) == "NaTType" {
        return Ok(Value::Null);
    }
    let stamp = object.cast::<PyDateTime>()?;
    let days = days_of(stamp.get_year(), stamp.get_month(), stamp.get_day());
    let local = days * MICROSECONDS_A_DAY
        + clock(
            stamp.get_hour(),
            stamp.get_minute(),
            stamp.get_second(),
            stamp.get_microsecond(),
        );
    if stamp.get_tzinfo().is_none() {
        return Ok(Value::TimestampMicrosecond(Some(local), None));
    }
    let offset = object.call_method0(intern!(py, "utcoffset"))?;
    let offset = match offset.cast::<PyDelta>() {
        Ok(delta) => {
            i64::from(delta.get_days()) * MICROSECONDS_A_DAY
                + i64::from(delta.get_seconds()) * 1_000_000
                + i64::from(delta.get_microseconds())
        }
        Err(_) => return Ok(Value::TimestampMicrosecond(Some(local), None)),
    };
    Ok(Value::TimestampMicrosecond(
        Some(local - offset),
        Some("UTC".into()),
    ))
}

pub(super) fn time_of_day(time: &Bound<'_, PyTime>) -> PyResult<Value> {
    if time.get_tzinfo().is_some() {
        return Err(invalid(
            time.py(),
            "a time of day with a time zone is no value that FirnDB knows".into(),
        ));
    }
    Ok(Value::Time64Microsecond(Some(clock(
        time.get_hour(),
        time.get_minute(),
        time.get_second(),
        time.get_microsecond(),
    ))))
}

pub(super) fn clock(hour: u8, minute: u8, second: u8, microsecond: u32) -> i64 {
    let seconds = (i64::from(hour) * 60 + i64::from(minute)) * 60 + i64::from(second);
    seconds * 1_000_000 + i64::from(microsecond)
}

/// Days and the rest of a day, both of the sign of the whole.
pub(super) fn interval(delta: &Bound<'_, PyDelta>) -> Value {
    let whole = i128::from(delta.get_days()) * i128::from(MICROSECONDS_A_DAY)
        + i128::from(delta.get_seconds()) * 1_000_000
        + i128::from(delta.get_microseconds());
    let day = i128::from(MICROSECONDS_A_DAY);
    // Python bounds days by 999,999,999; the rest is below a day.
    let (days, nanoseconds) = ((whole / day) as i32, (whole % day) as i64 * 1_000);
    Value::IntervalMonthDayNano(Some(IntervalMonthDayNano::new(0, days, nanoseconds)))
}

/// Days since 1970-01-01 of a date of the proleptic Gregorian calendar, counted in eras of 400 years that begin on the first of March.
pub(super) fn days_of(year: i32, month: u8, day: u8) -> i64 {
    let (month, day) = (i64::from(month), i64::from(day));
    let year = i64::from(year) - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}
