//! Arithmetic of dates, times and intervals that Arrow's kernels lack or type otherwise.
//!
//! A timestamp ± an interval stays with DataFusion; a date ± an interval is planned as its midnight ± the interval.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray};
use arrow::datatypes::{
    DataType, Date32Type, Float64Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType,
    IntervalUnit, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType,
};
use datafusion::common::{Result as DataFusionResult, ScalarValue, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::division_by_zero;
use super::kernels::Operand;
use crate::expr::convert::{
    MICROS_PER_DAY, NANOS_PER_MICRO, interval_from_microseconds, interval_out_of_range,
    timestamp_out_of_range,
};
use crate::{Error, Result, SqlState};

/// What is computed from which operands, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum MomentOperation {
    /// date + days (bigint) = date.
    AddDays,
    /// date - days (bigint) = date.
    SubtractDays,
    /// date - date = days (bigint).
    DaysBetween,
    /// date + time = timestamp.
    AtTime,
    /// timestamp - timestamp = interval of days and time.
    Between,
    /// time + interval = time, round the clock.
    AddToTime,
    /// time - interval = time.
    SubtractFromTime,
    /// interval * double.
    Multiply,
    /// interval / double.
    Divide,
    /// interval + interval.
    AddIntervals,
    /// interval - interval.
    SubtractIntervals,
}

impl MomentOperation {
    pub(crate) fn call(self, left: Expr, right: Expr) -> Expr {
        let function = Moments {
            operation: self,
            signature: Signature::any(2, Volatility::Immutable),
        };
        ScalarUDF::new_from_impl(function).call(vec![left, right])
    }

    fn symbol(self) -> &'static str {
        use MomentOperation::*;
        match self {
            AddDays | AtTime | AddToTime | AddIntervals => "+",
            SubtractDays | DaysBetween | Between | SubtractFromTime | SubtractIntervals => "-",
            Multiply => "*",
            Divide => "/",
        }
    }
}

/// A [`MomentOperation`] as a function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Moments {
    operation: MomentOperation,
    signature: Signature,
}

impl ScalarUDFImpl for Moments {
    fn name(&self) -> &str {
        match self.operation {
            MomentOperation::AddDays => "add_days",
            MomentOperation::SubtractDays => "subtract_days",
            MomentOperation::DaysBetween => "days_between",
            MomentOperation::AtTime => "at_time",
            MomentOperation::Between => "interval_between",
            MomentOperation::AddToTime => "add_to_time",
            MomentOperation::SubtractFromTime => "subtract_from_time",
            MomentOperation::Multiply => "multiply_interval",
            MomentOperation::Divide => "divide_interval",
            MomentOperation::AddIntervals => "add_intervals",
            MomentOperation::SubtractIntervals => "subtract_intervals",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn schema_name(&self, args: &[Expr]) -> DataFusionResult<String> {
        Ok(match args {
            [left, right] => format!(
                "{} {} {}",
                left.schema_name(),
                self.operation.symbol(),
                right.schema_name()
            ),
            _ => self.name().into(),
        })
    }

    fn return_type(&self, _types: &[DataType]) -> DataFusionResult<DataType> {
        use MomentOperation::*;
        Ok(match self.operation {
            AddDays | SubtractDays => DataType::Date32,
            DaysBetween => DataType::Int64,
            AtTime => DataType::Timestamp(TimeUnit::Microsecond, None),
            AddToTime | SubtractFromTime => DataType::Time64(TimeUnit::Microsecond),
            Between | Multiply | Divide | AddIntervals | SubtractIntervals => {
                DataType::Interval(IntervalUnit::MonthDayNano)
            }
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let [left, right] = args.args.as_slice() else {
            return exec_err!("{} takes two arguments", self.name());
        };
        let scalar = matches!(
            (left, right),
            (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_))
        );
        let rows = if scalar { 1 } else { args.number_rows };
        let computed = compute(self.operation, left, right, rows)?;
        if scalar {
            ScalarValue::try_from_array(&computed, 0).map(ColumnarValue::Scalar)
        } else {
            Ok(ColumnarValue::Array(computed))
        }
    }
}

fn compute(
    operation: MomentOperation,
    left: &ColumnarValue,
    right: &ColumnarValue,
    rows: usize,
) -> Result<ArrayRef> {
    use MomentOperation::*;
    match operation {
        AddDays | SubtractDays => {
            each::<Date32Type, Int64Type, Date32Type>(left, right, rows, |date, days| {
                let days = if operation == AddDays {
                    Some(days)
                } else {
                    days.checked_neg()
                };
                days.and_then(|days| i64::from(date).checked_add(days))
                    .and_then(|date| i32::try_from(date).ok())
                    .ok_or_else(|| Error::new(SqlState::DatetimeFieldOverflow, "date out of range"))
            })
        }
        DaysBetween => each::<Date32Type, Date32Type, Int64Type>(left, right, rows, |l, r| {
            Ok(i64::from(l) - i64::from(r))
        }),
        AtTime => each::<Date32Type, Time64MicrosecondType, TimestampMicrosecondType>(
            left,
            right,
            rows,
            |date, time| {
                i64::from(date)
                    .checked_mul(MICROS_PER_DAY)
                    .and_then(|midnight| midnight.checked_add(time))
                    .ok_or_else(timestamp_out_of_range)
            },
        ),
        Between => each::<
            TimestampMicrosecondType,
            TimestampMicrosecondType,
            IntervalMonthDayNanoType,
        >(left, right, rows, |l, r| {
            l.checked_sub(r)
                .and_then(interval_from_microseconds)
                .ok_or_else(interval_out_of_range)
        }),
        AddToTime | SubtractFromTime => each::<
            Time64MicrosecondType,
            IntervalMonthDayNanoType,
            Time64MicrosecondType,
        >(left, right, rows, |time, interval| {
            let micros = interval.nanoseconds / NANOS_PER_MICRO % MICROS_PER_DAY;
            let micros = if operation == AddToTime {
                micros
            } else {
                -micros
            };
            Ok((time + micros).rem_euclid(MICROS_PER_DAY))
        }),
        Multiply => each::<IntervalMonthDayNanoType, Float64Type, IntervalMonthDayNanoType>(
            left, right, rows, scale,
        ),
        Divide => each::<IntervalMonthDayNanoType, Float64Type, IntervalMonthDayNanoType>(
            left,
            right,
            rows,
            |interval, divisor| {
                if divisor == 0.0 {
                    return Err(division_by_zero());
                }
                scale(interval, 1.0 / divisor)
            },
        ),
        AddIntervals | SubtractIntervals => each::<
            IntervalMonthDayNanoType,
            IntervalMonthDayNanoType,
            IntervalMonthDayNanoType,
        >(left, right, rows, |l, r| {
            let sum = if operation == AddIntervals {
                add(l, r)
            } else {
                subtract(l, r)
            };
            sum.ok_or_else(interval_out_of_range)
        }),
    }
}

fn add(l: IntervalMonthDayNano, r: IntervalMonthDayNano) -> Option<IntervalMonthDayNano> {
    Some(IntervalMonthDayNano::new(
        l.months.checked_add(r.months)?,
        l.days.checked_add(r.days)?,
        l.nanoseconds.checked_add(r.nanoseconds)?,
    ))
}

fn subtract(l: IntervalMonthDayNano, r: IntervalMonthDayNano) -> Option<IntervalMonthDayNano> {
    Some(IntervalMonthDayNano::new(
        l.months.checked_sub(r.months)?,
        l.days.checked_sub(r.days)?,
        l.nanoseconds.checked_sub(r.nanoseconds)?,
    ))
}

/// Fractions of a month become days (30 to a month), fractions of a day time, as in PostgreSQL.
fn scale(interval: IntervalMonthDayNano, factor: f64) -> Result<IntervalMonthDayNano> {
    let months = f64::from(interval.months) * factor;
    let days = f64::from(interval.days) * factor + months.fract() * 30.0;
    let whole_days = (days * 1e6).round() / 1e6;
    let micros = (interval.nanoseconds / NANOS_PER_MICRO) as f64 * factor
        + whole_days.fract() * MICROS_PER_DAY as f64;
    let (months, whole_days, micros) = (months.trunc(), whole_days.trunc(), micros.round());
    let fits = |value: f64, limit: f64| value.is_finite() && value.abs() <= limit;
    if !fits(months, 2_147_483_647.0) || !fits(whole_days, 2_147_483_647.0) || !fits(micros, 9.2e15)
    {
        return Err(interval_out_of_range());
    }
    Ok(IntervalMonthDayNano::new(
        months as i32,
        whole_days as i32,
        micros as i64 * NANOS_PER_MICRO,
    ))
}

fn each<L, R, O>(
    left: &ColumnarValue,
    right: &ColumnarValue,
    rows: usize,
    f: impl Fn(L::Native, R::Native) -> Result<O::Native>,
) -> Result<ArrayRef>
where
    L: ArrowPrimitiveType,
    R: ArrowPrimitiveType,
    O: ArrowPrimitiveType,
{
    fn at<T: ArrowPrimitiveType>(operand: &Operand<T>, row: usize) -> Option<T::Native> {
        match operand {
            Operand::Column(column) => column.is_valid(row).then(|| column.value(row)),
            Operand::Constant(value) => *value,
        }
    }
    let (left, right) = (Operand::<L>::of(left)?, Operand::<R>::of(right)?);
    let mut builder = PrimitiveArray::<O>::builder(rows);
    for row in 0..rows {
        match (at(&left, row), at(&right, row)) {
            (Some(l), Some(r)) => builder.append_value(f(l, r)?),
            _ => builder.append_null(),
        }
    }
    Ok(Arc::new(builder.finish()))
}
