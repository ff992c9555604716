//! `range` and `generate_series` as lists: integers, or moments an interval apart.
//!
//! How many values there will be is known, or counted, before memory is taken for them.

use std::sync::Arc;

use arrow::array::timezone::Tz;
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, ListArray, PrimitiveArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::cast;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Field, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType,
    IntervalUnit, TimeUnit, TimestampMicrosecondType,
};
use datafusion::common::Result;

use super::kernel::{Kernel, Takes};
use crate::expr::convert::{MICROS_PER_DAY, NANOS_PER_MICRO};
use crate::{Error, SqlState};

/// Values that the lists of one call may have together: a gigabyte.
const MOST: usize = 1 << 27;

/// The functions of this module.
pub(super) fn kernels() -> Vec<Kernel> {
    vec![
        Kernel {
            name: "range",
            aliases: &[],
            takes: &[Takes::Any],
            arguments: (1, 3),
            yields,
            run: |args| series(args, false),
        },
        Kernel {
            name: "generate_series",
            aliases: &[],
            takes: &[Takes::Any],
            arguments: (1, 3),
            yields,
            run: |args| series(args, true),
        },
    ]
}

fn yields(types: &[DataType]) -> Option<DataType> {
    let integer = |data_type: &DataType| data_type.is_integer() || *data_type == DataType::Null;
    if types.iter().all(integer) {
        return Some(DataType::new_list(DataType::Int64, true));
    }
    match types {
        [
            start,
            DataType::Date32 | DataType::Timestamp(_, _) | DataType::Null,
            DataType::Interval(_) | DataType::Null,
        ] => match start {
            DataType::Date32 | DataType::Null => Some(DataType::new_list(stamp(None), true)),
            DataType::Timestamp(_, zone) => Some(DataType::new_list(stamp(zone.clone()), true)),
            _ => None,
        },
        _ => None,
    }
}

fn stamp(zone: Option<Arc<str>>) -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, zone)
}

fn series(args: &[ArrayRef], inclusive: bool) -> Result<ArrayRef> {
    let types: Vec<DataType> = args.iter().map(|arg| arg.data_type().clone()).collect();
    match (yields(&types), args) {
        (Some(DataType::List(item)), [start, stop, step])
            if *item.data_type() != DataType::Int64 =>
        {
            moments(start, stop, step, item.data_type(), inclusive)
        }
        _ => integers(args, inclusive),
    }
}

fn integers(args: &[ArrayRef], inclusive: bool) -> Result<ArrayRef> {
    let args = args
        .iter()
        .map(|arg| {
            Ok(cast(arg, &DataType::Int64)?
                .as_primitive::<Int64Type>()
                .clone())
        })
        .collect::<Result<Vec<_>>>()?;
    let [first, rest @ ..] = args.as_slice() else {
        return Ok(Arc::new(Int64Array::from(Vec::<i64>::new())));
    };
    let bounds = |row: usize| -> Option<(i64, i64, i64)> {
        if args.iter().any(|arg| arg.is_null(row)) {
            return None;
        }
        Some(match rest {
            [] => (0, first.value(row), 1),
            [stop] => (first.value(row), stop.value(row), 1),
            [stop, step, ..] => (first.value(row), stop.value(row), step.value(row)),
        })
    };
    let mut values = Lists::<Int64Type>::new(first.len());
    for row in 0..first.len() {
        let Some((start, stop, step)) = bounds(row) else {
            values.end(false);
            continue;
        };
        let step = i128::from(step);
        if step == 0 {
            return Err(zero_step());
        }
        let whole = steps(i128::from(start), i128::from(stop), step, inclusive);
        values.reserve(usize::try_from(whole).unwrap_or(usize::MAX))?;
        for number in 0..whole {
            // Between start and stop, so within 64 bits.
            values
                .values
                .push((i128::from(start) + number * step) as i64);
        }
        values.end(true);
    }
    values.finish(&DataType::Int64)
}

fn moments(
    start: &ArrayRef,
    stop: &ArrayRef,
    step: &ArrayRef,
    item: &DataType,
    inclusive: bool,
) -> Result<ArrayRef> {
    let start = cast(start, &stamp(None))?;
    let stop = cast(stop, &stamp(None))?;
    let step = cast(step, &DataType::Interval(IntervalUnit::MonthDayNano))?;
    let (start, stop) = (
        start.as_primitive::<TimestampMicrosecondType>(),
        stop.as_primitive::<TimestampMicrosecondType>(),
    );
    let step = step.as_primitive::<IntervalMonthDayNanoType>();
    let utc: Tz = "+00:00".parse()?;
    let mut values = Lists::<TimestampMicrosecondType>::new(start.len());
    for row in 0..start.len() {
        if start.is_null(row) || stop.is_null(row) || step.is_null(row) {
            values.end(false);
            continue;
        }
        let (mut now, stop, step) = (start.value(row), stop.value(row), step.value(row));
        let Some(forward) = direction(step) else {
            return Err(zero_step());
        };
        if step.months == 0 {
            // Days are as long as each other in UTC, so how many values there are is known.
            let step = i128::from(step.days) * i128::from(MICROS_PER_DAY)
                + i128::from(step.nanoseconds / NANOS_PER_MICRO);
            let count = steps(i128::from(now), i128::from(stop), step, inclusive);
            values.reserve(usize::try_from(count).unwrap_or(usize::MAX))?;
            // Between start and stop, so within 64 bits.
            let moments = (0..count).map(|number| (i128::from(now) + number * step) as i64);
            values.values.extend(moments);
            values.end(true);
            continue;
        }
        loop {
            let within = match forward {
                true => now < stop,
                false => now > stop,
            };
            if !(within || inclusive && now == stop) {
                break;
            }
            values.reserve(1)?;
            values.values.push(now);
            match TimestampMicrosecondType::add_month_day_nano(now, step, utc) {
                Some(next) if next != now && (next > now) == forward => now = next,
                _ => break,
            }
        }
        values.end(true);
    }
    values.finish(item)
}

/// How many values there are from start to stop: the start, and the steps that stay short of the end or, if it counts, reach it.
fn steps(start: i128, stop: i128, step: i128, inclusive: bool) -> i128 {
    let distance = stop - start;
    if distance != 0 && (distance < 0) != (step < 0) {
        return 0;
    }
    let reaches = distance % step == 0;
    distance / step + i128::from(inclusive || !reaches)
}

/// Whether an interval leads forward; `None` for one that leads nowhere, or both ways.
fn direction(step: IntervalMonthDayNano) -> Option<bool> {
    let parts = [
        i64::from(step.months),
        i64::from(step.days),
        step.nanoseconds / NANOS_PER_MICRO,
    ];
    let forward = parts.iter().any(|part| *part > 0);
    let backward = parts.iter().any(|part| *part < 0);
    (forward != backward).then_some(forward)
}

fn zero_step() -> datafusion::common::DataFusionError {
    Error::new(
        SqlState::InvalidParameterValue,
        "step size cannot equal zero",
    )
    .into()
}

/// Lists as they are made.
struct Lists<T: ArrowPrimitiveType> {
    values: Vec<T::Native>,
    ends: Vec<i32>,
    valid: Vec<bool>,
}

impl<T: ArrowPrimitiveType> Lists<T> {
    fn new(rows: usize) -> Self {
        let mut ends = Vec::with_capacity(rows + 1);
        ends.push(0);
        Lists {
            values: Vec::new(),
            ends,
            valid: Vec::with_capacity(rows),
        }
    }

    fn reserve(&mut self, more: usize) -> Result<()> {
        if self.values.len().saturating_add(more) > MOST {
            return Err(Error::new(
                SqlState::ProgramLimitExceeded,
                format!("the list would have more than {MOST} values"),
            )
            .with_hint("Use range() in FROM, which yields rows one batch after the other.")
            .into());
        }
        self.values.reserve(more);
        Ok(())
    }

    fn end(&mut self, valid: bool) {
        // At most `MOST` values.
        self.ends.push(self.values.len() as i32);
        self.valid.push(valid);
    }

    fn finish(self, item: &DataType) -> Result<ArrayRef> {
        let values =
            PrimitiveArray::<T>::from_iter_values(self.values).with_data_type(item.clone());
        Ok(Arc::new(ListArray::try_new(
            Arc::new(Field::new_list_field(item.clone(), true)),
            OffsetBuffer::new(self.ends.into()),
            Arc::new(values),
            Some(NullBuffer::from(self.valid)),
        )?))
    }
}
