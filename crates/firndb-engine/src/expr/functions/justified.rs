//! PostgreSQL's `justify_hours`, `justify_days` and `justify_interval`: intervals in months of 30 days and days of 24 hours, whose parts
//! have one sign.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, IntervalMonthDayNanoArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit};
use datafusion::common::Result;

use super::kernel::{Kernel, Takes};
use crate::{Error, SqlState};

const DAY: i128 = 86_400_000_000_000;
const MONTH: i128 = 30;

/// The functions of this module.
pub(super) fn kernels() -> Vec<Kernel> {
    let kernel = |name, run| Kernel {
        name,
        aliases: &[],
        takes: &[Takes::Any],
        arguments: (1, 1),
        yields: |types| {
            matches!(types[0], DataType::Interval(_) | DataType::Null)
                .then_some(DataType::Interval(IntervalUnit::MonthDayNano))
        },
        run,
    };
    vec![
        kernel("justify_hours", |args| each(args, hours)),
        kernel("justify_days", |args| each(args, days)),
        kernel("justify_interval", |args| each(args, whole)),
    ]
}

/// Months, days and nanoseconds.
type Parts = (i128, i128, i128);

fn each(args: &[ArrayRef], justify: fn(Parts) -> Parts) -> Result<ArrayRef> {
    let given = cast(&args[0], &DataType::Interval(IntervalUnit::MonthDayNano))?;
    let justified = given
        .as_primitive::<IntervalMonthDayNanoType>()
        .iter()
        .map(|interval| {
            interval
                .map(|interval| of_parts(interval, justify))
                .transpose()
        })
        .collect::<crate::Result<IntervalMonthDayNanoArray>>()?;
    Ok(Arc::new(justified))
}

fn of_parts(
    interval: IntervalMonthDayNano,
    justify: fn(Parts) -> Parts,
) -> crate::Result<IntervalMonthDayNano> {
    let parts = (
        i128::from(interval.months),
        i128::from(interval.days),
        i128::from(interval.nanoseconds),
    );
    let (months, days, nanos) = justify(parts);
    match (months.try_into(), days.try_into(), nanos.try_into()) {
        (Ok(months), Ok(days), Ok(nanos)) => Ok(IntervalMonthDayNano::new(months, days, nanos)),
        _ => Err(Error::new(
            SqlState::DatetimeFieldOverflow,
            "interval out of range",
        )),
    }
}

/// Carries whole units of a smaller part into a greater one and gives both one sign.
fn carried(great: i128, small: i128, unit: i128) -> (i128, i128) {
    one_sign(great + small / unit, small % unit, unit)
}

fn one_sign(great: i128, small: i128, unit: i128) -> (i128, i128) {
    if great > 0 && small < 0 {
        (great - 1, small + unit)
    } else if great < 0 && small > 0 {
        (great + 1, small - unit)
    } else {
        (great, small)
    }
}

fn hours((months, days, nanos): Parts) -> Parts {
    let (days, nanos) = carried(days, nanos, DAY);
    (months, days, nanos)
}

fn days((months, days, nanos): Parts) -> Parts {
    let (months, days) = carried(months, days, MONTH);
    (months, days, nanos)
}

fn whole((months, days, nanos): Parts) -> Parts {
    let (days, nanos) = (days + nanos / DAY, nanos % DAY);
    let (months, days) = (months + days / MONTH, days % MONTH);
    let below = if days == 0 { nanos } else { days };
    let (months, days) = if months > 0 && below < 0 {
        (months - 1, days + MONTH)
    } else if months < 0 && below > 0 {
        (months + 1, days - MONTH)
    } else {
        (months, days)
    };
    let (days, nanos) = one_sign(days, nanos, DAY);
    (months, days, nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_one_sign() {
        const HOUR: i128 = DAY / 24;
        assert_eq!(days((0, 35, 0)), (1, 5, 0));
        assert_eq!(hours((0, 0, 27 * HOUR)), (0, 1, 3 * HOUR));
        assert_eq!(whole((1, 0, -HOUR)), (0, 29, 23 * HOUR));
        assert_eq!(whole((-1, 0, HOUR)), (0, -29, -23 * HOUR));
        assert_eq!(days((1, -1, 0)), (0, 29, 0));
    }
}
