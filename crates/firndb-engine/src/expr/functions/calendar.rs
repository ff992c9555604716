//! `date_trunc`, and `date_part` of a part that is no constant: of every date and timestamp, whatever its year.
//!
//! DataFusion's `date_trunc` counts in nanoseconds, which end in the year 2262, and takes constant parts only. Moments are
//! microseconds since 1970 without a zone; what has one was brought to the session's clock before (`semantics`).

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, IntervalMonthDayNanoArray, TimestampMicrosecondArray,
};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
    TimestampMicrosecondType,
};

use super::kernel::{Kernel, Takes};
use crate::expr::convert::{
    MICROS_PER_DAY, civil_from_days, days_from_civil, timestamp_out_of_range,
};
use crate::parse::DATE_PART;
use crate::{Error, SqlState};

const SECOND: i64 = 1_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const NANOS: i64 = 1_000;

/// The functions of this module.
pub(super) fn kernels() -> Vec<Kernel> {
    vec![
        Kernel {
            name: "date_trunc",
            aliases: &["datetrunc"],
            takes: &[Takes::Text, Takes::Any],
            arguments: (2, 2),
            yields: |types| match &types[1] {
                DataType::Interval(_) => Some(DataType::Interval(IntervalUnit::MonthDayNano)),
                DataType::Timestamp(_, None) | DataType::Date32 | DataType::Null => Some(stamp()),
                // Brought to the session's clock before it is run.
                DataType::Timestamp(_, zone) => {
                    Some(DataType::Timestamp(TimeUnit::Microsecond, zone.clone()))
                }
                text => text.is_string().then(stamp),
            },
            run: truncated,
        },
        Kernel {
            name: DATE_PART,
            aliases: &[],
            takes: &[Takes::Text, Takes::Stamp],
            arguments: (2, 2),
            yields: |_| Some(DataType::Float64),
            run: |args| {
                let parts = args[0].as_string_view();
                let moments = args[1].as_primitive::<TimestampMicrosecondType>();
                let mut known: Option<(&str, Part)> = None;
                let values = parts
                    .iter()
                    .zip(moments)
                    .map(|pair| match pair {
                        (Some(name), Some(moment)) => {
                            let part = Part::looked_up(name, &mut known)?;
                            Ok(Some(part.of(moment)))
                        }
                        _ => Ok(None),
                    })
                    .collect::<crate::Result<Float64Array>>()?;
                Ok(Arc::new(values))
            },
        },
    ]
}

fn stamp() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, None)
}

fn truncated(args: &[ArrayRef]) -> datafusion::common::Result<ArrayRef> {
    let parts = args[0].as_string_view();
    let mut known: Option<(&str, Part)> = None;
    if let DataType::Interval(_) = args[1].data_type() {
        let intervals = cast(&args[1], &DataType::Interval(IntervalUnit::MonthDayNano))?;
        let starts = parts
            .iter()
            .zip(intervals.as_primitive::<IntervalMonthDayNanoType>())
            .map(|pair| match pair {
                (Some(name), Some(interval)) => {
                    let part = Part::looked_up(name, &mut known)?;
                    part.start_of_interval(interval).map(Some)
                }
                _ => Ok(None),
            })
            .collect::<crate::Result<IntervalMonthDayNanoArray>>()?;
        return Ok(Arc::new(starts));
    }
    let moments = cast(&args[1], &stamp())?;
    let starts = parts
        .iter()
        .zip(moments.as_primitive::<TimestampMicrosecondType>())
        .map(|pair| match pair {
            (Some(name), Some(moment)) => {
                let part = Part::looked_up(name, &mut known)?;
                part.start_of(moment).map(Some)
            }
            _ => Ok(None),
        })
        .collect::<crate::Result<TimestampMicrosecondArray>>()?;
    Ok(Arc::new(starts))
}

/// A part of a date or a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Millennium,
    Century,
    Decade,
    Year,
    IsoYear,
    Quarter,
    Month,
    Week,
    Day,
    Hour,
    Minute,
    Second,
    Millisecond,
    Microsecond,
    DayOfWeek,
    IsoDayOfWeek,
    DayOfYear,
    YearWeek,
    Era,
    Epoch,
}

impl Part {
    fn named(name: &str) -> Option<Part> {
        Some(match name.to_ascii_lowercase().as_str() {
            "millennium" | "millennia" | "millenniums" | "mil" | "mils" => Part::Millennium,
            "century" | "centuries" | "cent" | "c" => Part::Century,
            "decade" | "decades" | "dec" | "decs" => Part::Decade,
            "year" | "years" | "yr" | "yrs" | "y" => Part::Year,
            "isoyear" => Part::IsoYear,
            "quarter" | "quarters" => Part::Quarter,
            "month" | "months" | "mon" | "mons" => Part::Month,
            "week" | "weeks" | "w" | "weekofyear" => Part::Week,
            "day" | "days" | "d" | "dayofmonth" => Part::Day,
            "hour" | "hours" | "hr" | "hrs" | "h" => Part::Hour,
            "minute" | "minutes" | "min" | "mins" | "m" => Part::Minute,
            "second" | "seconds" | "sec" | "secs" | "s" => Part::Second,
            "millisecond" | "milliseconds" | "ms" | "msec" | "msecs" => Part::Millisecond,
            "microsecond" | "microseconds" | "us" | "usec" | "usecs" => Part::Microsecond,
            "dow" | "dayofweek" | "weekday" => Part::DayOfWeek,
            "isodow" => Part::IsoDayOfWeek,
            "doy" | "dayofyear" => Part::DayOfYear,
            "yearweek" => Part::YearWeek,
            "era" => Part::Era,
            "epoch" => Part::Epoch,
            _ => return None,
        })
    }

    /// The part of a name, which most rows share with the one before them.
    fn looked_up<'a>(name: &'a str, known: &mut Option<(&'a str, Part)>) -> crate::Result<Part> {
        match known {
            Some((last, part)) if *last == name => Ok(*part),
            _ => {
                let part = Part::named(name).ok_or_else(|| not_recognized(name))?;
                *known = Some((name, part));
                Ok(part)
            }
        }
    }

    /// The moment at which the part that a moment lies in began.
    fn start_of(self, moment: i64) -> crate::Result<i64> {
        let days = moment.div_euclid(MICROS_PER_DAY);
        let width = match self {
            Part::Microsecond => return Ok(moment),
            Part::Millisecond => 1_000,
            Part::Second | Part::Epoch => SECOND,
            Part::Minute => MINUTE,
            Part::Hour => HOUR,
            _ => MICROS_PER_DAY,
        };
        if width < MICROS_PER_DAY {
            return Ok(moment.div_euclid(width) * width);
        }
        let (year, month, _) = civil_from_days(days);
        let first = |year: i64| days_from_civil(year, 1, 1);
        let start = match self {
            Part::Millennium => first((year - 1).div_euclid(1_000) * 1_000 + 1),
            Part::Century => first((year - 1).div_euclid(100) * 100 + 1),
            Part::Decade => first(year.div_euclid(10) * 10),
            Part::Year => first(year),
            Part::IsoYear => {
                // The week of the fourth of January is the year's first.
                let fourth = days_from_civil(iso_year(days), 1, 4);
                fourth - weekday(fourth)
            }
            Part::Quarter => days_from_civil(year, (month - 1) / 3 * 3 + 1, 1),
            Part::Month => days_from_civil(year, month, 1),
            Part::Week | Part::YearWeek => days - weekday(days),
            Part::Day | Part::DayOfWeek | Part::IsoDayOfWeek | Part::DayOfYear => days,
            _ => return Err(not_recognized("era")),
        };
        start
            .checked_mul(MICROS_PER_DAY)
            .ok_or_else(timestamp_out_of_range)
    }

    /// An interval without what is less than the part.
    fn start_of_interval(
        self,
        interval: IntervalMonthDayNano,
    ) -> crate::Result<IntervalMonthDayNano> {
        let of_months = |count: i32| interval.months / count * count;
        let of_nanos = |micros: i64| interval.nanoseconds / (micros * NANOS) * (micros * NANOS);
        let made = IntervalMonthDayNano::new;
        let (months, days) = (interval.months, interval.days);
        Ok(match self {
            Part::Millennium => made(of_months(12_000), 0, 0),
            Part::Century => made(of_months(1_200), 0, 0),
            Part::Decade => made(of_months(120), 0, 0),
            Part::Year | Part::IsoYear => made(of_months(12), 0, 0),
            Part::Quarter => made(of_months(3), 0, 0),
            Part::Month => made(months, 0, 0),
            Part::Week | Part::YearWeek => made(months, days / 7 * 7, 0),
            Part::Day | Part::DayOfWeek | Part::IsoDayOfWeek | Part::DayOfYear => {
                made(months, days, 0)
            }
            Part::Hour => made(months, days, of_nanos(HOUR)),
            Part::Minute => made(months, days, of_nanos(MINUTE)),
            Part::Second | Part::Epoch => made(months, days, of_nanos(SECOND)),
            Part::Millisecond => made(months, days, of_nanos(1_000)),
            Part::Microsecond => interval,
            Part::Era => return Err(not_recognized("era")),
        })
    }

    /// The part's value.
    fn of(self, moment: i64) -> f64 {
        let days = moment.div_euclid(MICROS_PER_DAY);
        let time = moment.rem_euclid(MICROS_PER_DAY);
        let (year, month, day) = civil_from_days(days);
        let week = |days: i64| {
            let thursday = days - weekday(days) + 3;
            (thursday - days_from_civil(iso_year(days), 1, 1)) / 7 + 1
        };
        let value = match self {
            Part::Epoch => return moment as f64 / SECOND as f64,
            Part::Millennium => (year + 999).div_euclid(1_000),
            Part::Century => (year + 99).div_euclid(100),
            Part::Decade => year.div_euclid(10),
            Part::Year => year,
            Part::IsoYear => iso_year(days),
            Part::Quarter => i64::from(month - 1) / 3 + 1,
            Part::Month => i64::from(month),
            Part::Week => week(days),
            Part::YearWeek => iso_year(days) * 100 + week(days),
            Part::Day => i64::from(day),
            Part::Hour => time / HOUR,
            Part::Minute => time / MINUTE % 60,
            Part::Second => time / SECOND % 60,
            Part::Millisecond => time % MINUTE / 1_000,
            Part::Microsecond => time % MINUTE,
            Part::DayOfWeek => (weekday(days) + 1) % 7,
            Part::IsoDayOfWeek => weekday(days) + 1,
            Part::DayOfYear => days - days_from_civil(year, 1, 1) + 1,
            Part::Era => i64::from(year > 0),
        };
        value as f64
    }
}

/// Days since Monday.
fn weekday(days: i64) -> i64 {
    // 1970-01-01 was a Thursday.
    (days + 3).rem_euclid(7)
}

/// The year that a day's week, its Thursday, belongs to.
fn iso_year(days: i64) -> i64 {
    civil_from_days(days - weekday(days) + 3).0
}

/// 22023 for a part that there is none of.
pub(super) fn not_recognized(name: &str) -> Error {
    Error::new(
        SqlState::InvalidParameterValue,
        format!("date part \"{name}\" not recognized"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(year: i64, month: u32, day: u32) -> i64 {
        days_from_civil(year, month, day) * MICROS_PER_DAY
    }

    #[test]
    fn starts_of_parts() {
        let moment = at(2020, 5, 6) + 13 * HOUR + 7;
        for (part, start) in [
            ("millennium", at(2001, 1, 1)),
            ("century", at(2001, 1, 1)),
            ("decade", at(2020, 1, 1)),
            ("year", at(2020, 1, 1)),
            ("isoyear", at(2019, 12, 30)),
            ("quarter", at(2020, 4, 1)),
            ("month", at(2020, 5, 1)),
            ("week", at(2020, 5, 4)),
            ("day", at(2020, 5, 6)),
            ("hour", at(2020, 5, 6) + 13 * HOUR),
        ] {
            assert_eq!(
                Part::named(part).unwrap().start_of(moment).unwrap(),
                start,
                "{part}"
            );
        }
    }

    #[test]
    fn weeks_belong_to_the_year_of_their_thursday() {
        assert_eq!(Part::Week.of(at(2021, 1, 3)), 53.0);
        assert_eq!(Part::IsoYear.of(at(2021, 1, 3)), 2020.0);
        assert_eq!(Part::YearWeek.of(at(2021, 1, 4)), 202_101.0);
        assert_eq!(Part::DayOfWeek.of(at(2021, 1, 3)), 0.0);
    }
}
