//! Arrow columns as contiguous NumPy arrays.
//!
//! | Arrow | NumPy |
//! | --- | --- |
//! | integers, floats | the same |
//! | boolean | bool |
//! | decimals | float64, correctly rounded; objects when asked to be exact |
//! | date, timestamp | datetime64 of the unit; with a zone: the instant in UTC |
//! | interval, duration | timedelta64 (a month counts 30 days) |
//! | everything else | objects, as rows have them |
//!
//! Arrays own their memory: writing to one changes nothing else. Columns are copied in parallel.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{Array, ArrayRef, AsArray, DurationMicrosecondArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Date64Type, Decimal32Type, Decimal64Type,
    Decimal128Type, Decimal256Type, DecimalType, DurationMicrosecondType, DurationMillisecondType,
    DurationNanosecondType, DurationSecondType, Float16Type, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, IntervalMonthDayNanoType, IntervalUnit, SchemaRef, TimeUnit,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use firndb::{Error, SqlState};
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;

use crate::errors;
use crate::objects;

/// An array and, where values are missing, their mask (true: missing).
pub(crate) type MaskedColumn<'py> = (Bound<'py, PyAny>, Option<Bound<'py, PyArray1<bool>>>);

/// The columns at `positions`, each as one array.
pub(crate) fn columns<'py>(
    py: Python<'py>,
    schema: &SchemaRef,
    batches: &[RecordBatch],
    positions: &[usize],
    exact_decimals: bool,
) -> PyResult<Vec<MaskedColumn<'py>>> {
    let built = py
        .detach(|| build_all(schema, batches, positions, exact_decimals))
        .map_err(|error| errors::to_python(py, &error, None))?;
    built
        .into_iter()
        .zip(positions)
        .map(|((values, mask), &position)| {
            let array = match values {
                Some(values) => values.into_numpy(py)?,
                None => {
                    let mut values: Vec<Py<PyAny>> = Vec::new();
                    for batch in batches {
                        let column =
                            objects::column(py, schema.field(position), batch.column(position))?;
                        values.extend(column.into_iter().map(Bound::unbind));
                    }
                    PyArray1::from_vec(py, values).into_any()
                }
            };
            Ok((array, mask.map(|mask| mask.into_pyarray(py))))
        })
        .collect()
}

/// Values of one column before NumPy takes them over.
enum Values {
    Boolean(Vec<bool>),
    Int8(Vec<i8>),
    Int16(Vec<i16>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    UInt8(Vec<u8>),
    UInt16(Vec<u16>),
    UInt32(Vec<u32>),
    UInt64(Vec<u64>),
    Float32(Vec<f32>),
    Float64(Vec<f64>),
    /// 64-bit times, of the dtype named.
    Times(Vec<i64>, &'static str),
}

impl Values {
    fn into_numpy(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        Ok(match self {
            Values::Boolean(values) => values.into_pyarray(py).into_any(),
            Values::Int8(values) => values.into_pyarray(py).into_any(),
            Values::Int16(values) => values.into_pyarray(py).into_any(),
            Values::Int32(values) => values.into_pyarray(py).into_any(),
            Values::Int64(values) => values.into_pyarray(py).into_any(),
            Values::UInt8(values) => values.into_pyarray(py).into_any(),
            Values::UInt16(values) => values.into_pyarray(py).into_any(),
            Values::UInt32(values) => values.into_pyarray(py).into_any(),
            Values::UInt64(values) => values.into_pyarray(py).into_any(),
            Values::Float32(values) => values.into_pyarray(py).into_any(),
            Values::Float64(values) => values.into_pyarray(py).into_any(),
            Values::Times(values, dtype) => {
                values.into_pyarray(py).call_method1("view", (dtype,))?
            }
        })
    }
}

/// `None`: objects, which need the interpreter.
type Built = (Option<Values>, Option<Vec<bool>>);

fn build_all(
    schema: &SchemaRef,
    batches: &[RecordBatch],
    positions: &[usize],
    exact_decimals: bool,
) -> Result<Vec<Built>, Error> {
    let build = |position: usize| {
        let chunks: Vec<&ArrayRef> = batches.iter().map(|batch| batch.column(position)).collect();
        build_column(schema.field(position).data_type(), &chunks, exact_decimals)
    };
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = if rows * positions.len() < 1 << 18 {
        1
    } else {
        cores.min(positions.len())
    };
    if threads <= 1 {
        return positions.iter().map(|&position| build(position)).collect();
    }
    let next = AtomicUsize::new(0);
    let built = Mutex::new(Vec::with_capacity(positions.len()));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(&position) = positions.get(index) else {
                        break;
                    };
                    let column = build(position);
                    let mut built = built.lock().unwrap_or_else(PoisonError::into_inner);
                    built.push((index, column));
                }
            });
        }
    });
    let mut built = built.into_inner().unwrap_or_else(PoisonError::into_inner);
    built.sort_unstable_by_key(|(index, _)| *index);
    built.into_iter().map(|(_, column)| column).collect()
}

fn build_column(
    data_type: &DataType,
    chunks: &[&ArrayRef],
    exact_decimals: bool,
) -> Result<Built, Error> {
    if let DataType::Dictionary(_, value) = data_type {
        let plain = chunks
            .iter()
            .map(|chunk| cast(chunk, value))
            .collect::<Result<Vec<_>, _>>()?;
        return build_column(value, &plain.iter().collect::<Vec<_>>(), exact_decimals);
    }
    let mask = mask(chunks);
    let values = match data_type {
        DataType::Boolean => Some(Values::Boolean(booleans(chunks))),
        DataType::Int8 => Some(Values::Int8(joined::<Int8Type>(chunks))),
        DataType::Int16 => Some(Values::Int16(joined::<Int16Type>(chunks))),
        DataType::Int32 => Some(Values::Int32(joined::<Int32Type>(chunks))),
        DataType::Int64 => Some(Values::Int64(joined::<Int64Type>(chunks))),
        DataType::UInt8 => Some(Values::UInt8(joined::<UInt8Type>(chunks))),
        DataType::UInt16 => Some(Values::UInt16(joined::<UInt16Type>(chunks))),
        DataType::UInt32 => Some(Values::UInt32(joined::<UInt32Type>(chunks))),
        DataType::UInt64 => Some(Values::UInt64(joined::<UInt64Type>(chunks))),
        DataType::Float16 => Some(Values::Float32(mapped::<Float16Type, _>(chunks, |value| {
            value.to_f32()
        }))),
        DataType::Float32 => Some(Values::Float32(joined::<Float32Type>(chunks))),
        DataType::Float64 => Some(Values::Float64(joined::<Float64Type>(chunks))),
        DataType::Decimal32(_, scale) if !exact_decimals => Some(Values::Float64(
            narrow_decimals::<Decimal32Type>(chunks, *scale),
        )),
        DataType::Decimal64(_, scale) if !exact_decimals => Some(Values::Float64(
            narrow_decimals::<Decimal64Type>(chunks, *scale),
        )),
        DataType::Decimal128(_, scale) if !exact_decimals => Some(Values::Float64(
            narrow_decimals::<Decimal128Type>(chunks, *scale),
        )),
        DataType::Decimal256(_, scale) if !exact_decimals => {
            Some(Values::Float64(wide_decimals(chunks, *scale)))
        }
        _ => times(data_type, chunks, mask.as_deref())?,
    };
    Ok((values, mask))
}

fn mask(chunks: &[&ArrayRef]) -> Option<Vec<bool>> {
    let any = chunks.iter().any(|chunk| chunk.logical_null_count() > 0);
    any.then(|| {
        let mut mask = Vec::with_capacity(chunks.iter().map(|chunk| chunk.len()).sum());
        for chunk in chunks {
            match chunk.logical_nulls() {
                Some(nulls) => mask.extend(nulls.iter().map(|valid| !valid)),
                None => mask.resize(mask.len() + chunk.len(), false),
            }
        }
        mask
    })
}

fn joined<T: ArrowPrimitiveType>(chunks: &[&ArrayRef]) -> Vec<T::Native> {
    let mut values = Vec::with_capacity(chunks.iter().map(|chunk| chunk.len()).sum());
    for chunk in chunks {
        values.extend_from_slice(chunk.as_primitive::<T>().values());
    }
    values
}

fn mapped<T: ArrowPrimitiveType, V>(
    chunks: &[&ArrayRef],
    convert: impl Fn(T::Native) -> V,
) -> Vec<V> {
    let mut values = Vec::with_capacity(chunks.iter().map(|chunk| chunk.len()).sum());
    for chunk in chunks {
        values.extend(
            chunk
                .as_primitive::<T>()
                .values()
                .iter()
                .map(|&value| convert(value)),
        );
    }
    values
}

fn booleans(chunks: &[&ArrayRef]) -> Vec<bool> {
    let mut values = Vec::with_capacity(chunks.iter().map(|chunk| chunk.len()).sum());
    for chunk in chunks {
        values.extend(chunk.as_boolean().values().iter());
    }
    values
}

/// The doubles nearest to the decimals. An integer below 2^53 over a power of ten up to 10^22 is one correctly rounded division; the
/// rest goes through text, whose parser rounds correctly.
fn narrow_decimals<T>(chunks: &[&ArrayRef], scale: i8) -> Vec<f64>
where
    T: DecimalType,
    T::Native: Into<i128>,
{
    const EXACT: i128 = 1 << 53;
    if (0..=22).contains(&scale) {
        let divisor = 10f64.powi(i32::from(scale));
        return mapped::<T, _>(chunks, |value| {
            let value: i128 = value.into();
            if (-EXACT..=EXACT).contains(&value) {
                value as f64 / divisor
            } else {
                parsed(&value.to_string(), scale)
            }
        });
    }
    mapped::<T, _>(chunks, |value| parsed(&value.into().to_string(), scale))
}

fn wide_decimals(chunks: &[&ArrayRef], scale: i8) -> Vec<f64> {
    mapped::<Decimal256Type, _>(chunks, |value| parsed(&value.to_string(), scale))
}

fn parsed(unscaled: &str, scale: i8) -> f64 {
    // Digits with an exponent always parse.
    format!("{unscaled}e{}", -i32::from(scale))
        .parse()
        .unwrap_or(f64::NAN)
}

/// NaT of NumPy.
const NOT_A_TIME: i64 = i64::MIN;

fn times(
    data_type: &DataType,
    chunks: &[&ArrayRef],
    mask: Option<&[bool]>,
) -> Result<Option<Values>, Error> {
    let (mut values, dtype) = match data_type {
        DataType::Date32 => (mapped::<Date32Type, _>(chunks, i64::from), "datetime64[D]"),
        DataType::Date64 => (joined::<Date64Type>(chunks), "datetime64[ms]"),
        DataType::Timestamp(TimeUnit::Second, _) => {
            (joined::<TimestampSecondType>(chunks), "datetime64[s]")
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            (joined::<TimestampMillisecondType>(chunks), "datetime64[ms]")
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            (joined::<TimestampMicrosecondType>(chunks), "datetime64[us]")
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            (joined::<TimestampNanosecondType>(chunks), "datetime64[ns]")
        }
        DataType::Duration(TimeUnit::Second) => {
            (joined::<DurationSecondType>(chunks), "timedelta64[s]")
        }
        DataType::Duration(TimeUnit::Millisecond) => {
            (joined::<DurationMillisecondType>(chunks), "timedelta64[ms]")
        }
        DataType::Duration(TimeUnit::Microsecond) => {
            (joined::<DurationMicrosecondType>(chunks), "timedelta64[us]")
        }
        DataType::Duration(TimeUnit::Nanosecond) => {
            (joined::<DurationNanosecondType>(chunks), "timedelta64[ns]")
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => (intervals(chunks)?, "timedelta64[us]"),
        _ => return Ok(None),
    };
    for (value, _) in values
        .iter_mut()
        .zip(mask.unwrap_or_default())
        .filter(|(_, missing)| **missing)
    {
        *value = NOT_A_TIME;
    }
    Ok(Some(Values::Times(values, dtype)))
}

fn intervals(chunks: &[&ArrayRef]) -> Result<Vec<i64>, Error> {
    mapped::<IntervalMonthDayNanoType, _>(chunks, |value| {
        let days = i64::from(value.months) * 30 + i64::from(value.days);
        days.checked_mul(86_400_000_000)?
            .checked_add(value.nanoseconds.div_euclid(1_000))
    })
    .into_iter()
    .map(|value| {
        value.ok_or_else(|| {
            Error::new(
                SqlState::DatetimeFieldOverflow,
                "an interval is out of timedelta64's range",
            )
        })
    })
    .collect()
}

/// A column of intervals as durations.
pub(crate) fn durations(column: &ArrayRef) -> Result<ArrayRef, Error> {
    let values = intervals(&[column])?;
    let nulls = column.nulls().cloned();
    Ok(Arc::new(DurationMicrosecondArray::try_new(
        values.into(),
        nulls,
    )?))
}

#[cfg(test)]
mod tests {
    use arrow::array::Decimal128Array;

    use super::*;

    #[test]
    fn decimals_become_the_nearest_doubles() {
        let values = [
            10,
            123_456_789_012_345_678_901_234_567,
            -1,
            9_007_199_254_740_993,
        ];
        let array: ArrayRef = Arc::new(
            Decimal128Array::from(values.to_vec())
                .with_precision_and_scale(38, 2)
                .unwrap(),
        );
        assert_eq!(
            narrow_decimals::<Decimal128Type>(&[&array], 2),
            [
                0.1,
                1_234_567_890_123_456_789_012_345.67,
                -0.01,
                90_071_992_547_409.93
            ]
        );
    }

    #[test]
    fn chunks_join_with_their_mask() {
        let first: ArrayRef = Arc::new(arrow::array::Int32Array::from(vec![Some(1), None]));
        let second: ArrayRef = Arc::new(arrow::array::Int32Array::from(vec![3]));
        let (values, mask) = build_column(&DataType::Int32, &[&first, &second], false).unwrap();
        assert!(matches!(values, Some(Values::Int32(values)) if values == [1, 0, 3]));
        assert_eq!(mask, Some(vec![false, true, false]));
    }
}
