//! AVG of dates and timestamps, SUM and AVG of intervals and times of day.
//!
//! A value is months, days and microseconds; each is summed by itself in 128 bits. A mean of months that is not whole goes on as
//! days of a thirtieth, one of days as microseconds, as in PostgreSQL.

use std::mem::size_of_val;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array};
use arrow::compute::cast;
use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, Field, FieldRef, Int64Type,
    IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::Accumulator;
use datafusion::logical_expr::utils::format_state_name;

use super::Kind;
use super::gather::as_moment;
use crate::expr::convert::MICROS_PER_DAY;
use crate::{Error, SqlState};

const NANOS: i64 = 1_000;
const DAYS_OF_MONTH: i128 = 30;
const COUNTED: DataType = DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0);

/// The type as which values of a type are aggregated, if they are moments or spans.
pub(super) fn measured(kind: Kind, input: &DataType) -> Option<DataType> {
    match input {
        DataType::Interval(_) => Some(DataType::Interval(IntervalUnit::MonthDayNano)),
        DataType::Time64(_) if kind == Kind::Average => {
            Some(DataType::Time64(TimeUnit::Microsecond))
        }
        moment if kind == Kind::Average => as_moment(moment),
        _ => None,
    }
}

pub(super) fn state_fields(name: &str) -> Vec<FieldRef> {
    ["months", "days", "micros", "count"]
        .map(|part| Arc::new(Field::new(format_state_name(name, part), COUNTED, true)))
        .into()
}

pub(super) fn accumulator(kind: Kind, input: &DataType) -> Box<dyn Accumulator> {
    Box::new(Measures {
        kind,
        input: input.clone(),
        total: Total::default(),
    })
}

#[derive(Debug, Default, Clone, Copy)]
struct Total {
    months: i128,
    days: i128,
    micros: i128,
    count: i128,
}

#[derive(Debug)]
struct Measures {
    kind: Kind,
    input: DataType,
    total: Total,
}

impl Measures {
    /// Adds values, or takes them away with -1 as sign.
    fn add(&mut self, values: &ArrayRef, sign: i128) -> Result<()> {
        let total = &mut self.total;
        total.count += sign * (values.len() - values.null_count()) as i128;
        if let DataType::Interval(_) = self.input {
            for value in values
                .as_primitive::<IntervalMonthDayNanoType>()
                .iter()
                .flatten()
            {
                total.months += sign * i128::from(value.months);
                total.days += sign * i128::from(value.days);
                total.micros += sign * i128::from(value.nanoseconds / NANOS);
            }
            return Ok(());
        }
        let micros = cast(values, &DataType::Int64)?;
        let micros = micros.as_primitive::<Int64Type>().iter().flatten();
        total.micros += sign * micros.map(i128::from).sum::<i128>();
        Ok(())
    }

    fn interval(&self) -> Result<ScalarValue> {
        let Total {
            months,
            days,
            micros,
            count,
        } = self.total;
        let (months, days, micros) = match self.kind {
            Kind::Sum => (months, days, micros),
            Kind::Average => {
                let days = days + months % count * DAYS_OF_MONTH;
                let micros = micros + days % count * i128::from(MICROS_PER_DAY);
                (months / count, days / count, rounded(micros, count))
            }
        };
        let beyond = || Error::new(SqlState::DatetimeFieldOverflow, "interval out of range");
        Ok(ScalarValue::IntervalMonthDayNano(Some(
            IntervalMonthDayNano {
                months: i32::try_from(months).map_err(|_| beyond())?,
                days: i32::try_from(days).map_err(|_| beyond())?,
                nanoseconds: i64::try_from(micros * i128::from(NANOS)).map_err(|_| beyond())?,
            },
        )))
    }
}

/// The whole number nearest to a quotient, away from zero in the middle.
fn rounded(sum: i128, count: i128) -> i128 {
    let half = count / 2;
    if sum < 0 {
        (sum - half) / count
    } else {
        (sum + half) / count
    }
}

impl Accumulator for Measures {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        match values {
            [values, ..] => self.add(values, 1),
            [] => exec_err!("sum and avg take one argument"),
        }
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        match values {
            [values, ..] => self.add(values, -1),
            [] => exec_err!("sum and avg take one argument"),
        }
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [months, days, micros, count] = states else {
            return exec_err!("a state of moments has four columns");
        };
        let sum = |column: &ArrayRef| {
            let column: &Decimal128Array = column.as_primitive::<Decimal128Type>();
            column.iter().flatten().sum::<i128>()
        };
        self.total.months += sum(months);
        self.total.days += sum(days);
        self.total.micros += sum(micros);
        self.total.count += sum(count);
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let Total {
            months,
            days,
            micros,
            count,
        } = self.total;
        Ok([months, days, micros, count]
            .map(|part| ScalarValue::Decimal128(Some(part), DECIMAL128_MAX_PRECISION, 0))
            .into())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.total.count == 0 {
            return ScalarValue::try_from(&self.input);
        }
        if let DataType::Interval(_) = self.input {
            return self.interval();
        }
        // Between the least and the greatest value, so of their type.
        let mean = i64::try_from(rounded(self.total.micros, self.total.count)).ok();
        ScalarValue::Int64(mean).cast_to(&self.input)
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}
