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
//! Columns whose values NumPy stores alike are shown, not copied: the pages of frozen memory are mapped privately one after the other
//! (see [`firndb::PrivateMemory`]). What is converted is converted in parallel. Either way writing to an array changes nothing else.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, DurationMicrosecondArray, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Date32Type, Date64Type, DurationMicrosecondType, DurationMillisecondType,
    DurationNanosecondType, DurationSecondType, Float16Type, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit,
    SchemaRef, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use firndb::{Error, PrivateMemory, SqlState};
use numpy::PyArray1;
use pyo3::prelude::*;

use crate::errors;
use crate::fork::Running;
use crate::objects;

mod decimals;
mod memory;

use memory::{filled, into_array, joined};

/// An array and, where values are missing, their mask (true: missing). No array: objects that were not asked for.
pub(crate) type MaskedColumn<'py> = (
    Option<Bound<'py, PyAny>>,
    Option<Bound<'py, PyArray1<bool>>>,
);

/// What becomes an array.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    /// Decimals as objects.
    pub(crate) exact_decimals: bool,
    /// Columns of objects too.
    pub(crate) objects: bool,
}

/// The columns at `positions`, each as one array.
pub(crate) fn columns<'py>(
    py: Python<'py>,
    schema: &SchemaRef,
    batches: &[RecordBatch],
    positions: &[usize],
    wanted: Wanted,
) -> PyResult<Vec<MaskedColumn<'py>>> {
    let built = py
        .detach(|| {
            let _running = Running::begin();
            let build = |&position: &usize| {
                let data_type = schema.field(position).data_type();
                let chunks: Vec<&ArrayRef> =
                    batches.iter().map(|batch| batch.column(position)).collect();
                build_column(data_type, &chunks, wanted)
            };
            positions.iter().map(build).collect::<Result<Vec<_>, _>>()
        })
        .map_err(|error| errors::to_python(py, &error, None))?;
    let array = |(built, &position): (Built, &usize)| {
        let values = match built.values {
            Some((kind, values)) => Some(kind.into_numpy(py, values)?),
            None if !wanted.objects => None,
            None => {
                let mut values: Vec<Py<PyAny>> = Vec::new();
                for batch in batches {
                    let column =
                        objects::column(py, schema.field(position), batch.column(position))?;
                    values.extend(column.into_iter().map(Bound::unbind));
                }
                Some(PyArray1::from_vec(py, values).into_any())
            }
        };
        let mask = built.mask.map(|mask| into_array(py, mask)).transpose()?;
        Ok((values, mask))
    };
    built.into_iter().zip(positions).map(array).collect()
}

/// Values of one column before NumPy takes them over.
struct Built {
    /// `None`: objects, which need the interpreter.
    values: Option<(Kind, PrivateMemory)>,
    mask: Option<PrivateMemory>,
}

/// What the memory of an array holds.
#[derive(Clone, Copy)]
enum Kind {
    /// One byte each, 0 or 1.
    Boolean,
    Int8,
    Int16,
    Int32,
    Int64,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
    Float32,
    Float64,
    /// 64-bit times, of the dtype named.
    Times(&'static str),
}

impl Kind {
    fn into_numpy(self, py: Python<'_>, values: PrivateMemory) -> PyResult<Bound<'_, PyAny>> {
        Ok(match self {
            Kind::Boolean => into_array::<bool>(py, values)?.into_any(),
            Kind::Int8 => into_array::<i8>(py, values)?.into_any(),
            Kind::Int16 => into_array::<i16>(py, values)?.into_any(),
            Kind::Int32 => into_array::<i32>(py, values)?.into_any(),
            Kind::Int64 => into_array::<i64>(py, values)?.into_any(),
            Kind::UInt8 => into_array::<u8>(py, values)?.into_any(),
            Kind::UInt16 => into_array::<u16>(py, values)?.into_any(),
            Kind::UInt32 => into_array::<u32>(py, values)?.into_any(),
            Kind::UInt64 => into_array::<u64>(py, values)?.into_any(),
            Kind::Float32 => into_array::<f32>(py, values)?.into_any(),
            Kind::Float64 => into_array::<f64>(py, values)?.into_any(),
            Kind::Times(dtype) => into_array::<i64>(py, values)?.call_method1("view", (dtype,))?,
        })
    }
}

fn build_column(
    data_type: &DataType,
    chunks: &[&ArrayRef],
    wanted: Wanted,
) -> Result<Built, Error> {
    if let DataType::Dictionary(_, value) = data_type {
        let plain = chunks
            .iter()
            .map(|chunk| cast(chunk, value))
            .collect::<Result<Vec<_>, _>>()?;
        return build_column(value, &plain.iter().collect::<Vec<_>>(), wanted);
    }
    let values = match data_type {
        DataType::Boolean => Some((Kind::Boolean, filled(chunks, booleans)?)),
        DataType::Int8 => Some((Kind::Int8, joined::<Int8Type>(chunks)?)),
        DataType::Int16 => Some((Kind::Int16, joined::<Int16Type>(chunks)?)),
        DataType::Int32 => Some((Kind::Int32, joined::<Int32Type>(chunks)?)),
        DataType::Int64 => Some((Kind::Int64, joined::<Int64Type>(chunks)?)),
        DataType::UInt8 => Some((Kind::UInt8, joined::<UInt8Type>(chunks)?)),
        DataType::UInt16 => Some((Kind::UInt16, joined::<UInt16Type>(chunks)?)),
        DataType::UInt32 => Some((Kind::UInt32, joined::<UInt32Type>(chunks)?)),
        DataType::UInt64 => Some((Kind::UInt64, joined::<UInt64Type>(chunks)?)),
        DataType::Float16 => Some((Kind::Float32, filled(chunks, halves)?)),
        DataType::Float32 => Some((Kind::Float32, joined::<Float32Type>(chunks)?)),
        DataType::Float64 => Some((Kind::Float64, joined::<Float64Type>(chunks)?)),
        decimal if decimal.is_decimal() && wanted.exact_decimals => None,
        DataType::Decimal32(_, scale) => Some((Kind::Float64, decimals::of_32(chunks, *scale)?)),
        DataType::Decimal64(_, scale) => Some((Kind::Float64, decimals::of_64(chunks, *scale)?)),
        DataType::Decimal128(_, scale) => Some((Kind::Float64, decimals::of_128(chunks, *scale)?)),
        DataType::Decimal256(_, scale) => Some((Kind::Float64, decimals::of_256(chunks, *scale)?)),
        _ => times(data_type, chunks)?,
    };
    if values.is_none() && !wanted.objects {
        return Ok(Built { values, mask: None });
    }
    let mask = mask(chunks)?;
    Ok(Built { values, mask })
}

/// A byte a row, 1 where it is null; `None` when no row is.
fn mask(chunks: &[&ArrayRef]) -> Result<Option<PrivateMemory>, Error> {
    if chunks.iter().all(|chunk| chunk.logical_null_count() == 0) {
        return Ok(None);
    }
    filled(chunks, |chunk, missing: &mut [u8]| {
        if let Some(nulls) = chunk.logical_nulls() {
            unpack(nulls.inner(), 1, missing);
        }
        Ok(())
    })
    .map(Some)
}

fn booleans(chunk: &ArrayRef, bytes: &mut [u8]) -> Result<(), Error> {
    unpack(chunk.as_boolean().values(), 0, bytes);
    Ok(())
}

/// Bits as bytes of 0 and 1, each bit flipped where `flip` is 1.
fn unpack(bits: &BooleanBuffer, flip: u8, bytes: &mut [u8]) {
    let chunks = bits.bit_chunks();
    let words = chunks.iter().chain(Some(chunks.remainder_bits()));
    for (word, bytes) in words.zip(bytes.chunks_mut(64)) {
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = (word >> at & 1) as u8 ^ flip;
        }
    }
}

fn halves(chunk: &ArrayRef, floats: &mut [f32]) -> Result<(), Error> {
    let values = chunk.as_primitive::<Float16Type>().values();
    for (value, float) in values.iter().zip(floats) {
        *float = value.to_f32();
    }
    Ok(())
}

/// NaT of NumPy.
const NOT_A_TIME: i64 = i64::MIN;

fn times(
    data_type: &DataType,
    chunks: &[&ArrayRef],
) -> Result<Option<(Kind, PrivateMemory)>, Error> {
    let (mut values, dtype) = match data_type {
        DataType::Date32 => (filled(chunks, days)?, "datetime64[D]"),
        DataType::Date64 => (joined::<Date64Type>(chunks)?, "datetime64[ms]"),
        DataType::Timestamp(TimeUnit::Second, _) => {
            (joined::<TimestampSecondType>(chunks)?, "datetime64[s]")
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => (
            joined::<TimestampMillisecondType>(chunks)?,
            "datetime64[ms]",
        ),
        DataType::Timestamp(TimeUnit::Microsecond, _) => (
            joined::<TimestampMicrosecondType>(chunks)?,
            "datetime64[us]",
        ),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            (joined::<TimestampNanosecondType>(chunks)?, "datetime64[ns]")
        }
        DataType::Duration(TimeUnit::Second) => {
            (joined::<DurationSecondType>(chunks)?, "timedelta64[s]")
        }
        DataType::Duration(TimeUnit::Millisecond) => (
            joined::<DurationMillisecondType>(chunks)?,
            "timedelta64[ms]",
        ),
        DataType::Duration(TimeUnit::Microsecond) => (
            joined::<DurationMicrosecondType>(chunks)?,
            "timedelta64[us]",
        ),
        DataType::Duration(TimeUnit::Nanosecond) => {
            (joined::<DurationNanosecondType>(chunks)?, "timedelta64[ns]")
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            (filled(chunks, intervals)?, "timedelta64[us]")
        }
        _ => return Ok(None),
    };
    mark_missing(chunks, values.values_mut());
    Ok(Some((Kind::Times(dtype), values)))
}

/// Makes nulls NaT.
fn mark_missing(chunks: &[&ArrayRef], values: &mut [i64]) {
    let mut rest = values;
    for chunk in chunks {
        let (part, beyond) = rest.split_at_mut(chunk.len());
        if let Some(nulls) = chunk.nulls().filter(|nulls| nulls.null_count() > 0) {
            let missing = !nulls.inner();
            missing.set_indices().for_each(|row| part[row] = NOT_A_TIME);
        }
        rest = beyond;
    }
}

fn days(chunk: &ArrayRef, days: &mut [i64]) -> Result<(), Error> {
    let values = chunk.as_primitive::<Date32Type>().values();
    for (&value, day) in values.iter().zip(days) {
        *day = i64::from(value);
    }
    Ok(())
}

/// Intervals as microseconds: a month counts 30 days.
fn intervals(chunk: &ArrayRef, microseconds: &mut [i64]) -> Result<(), Error> {
    let intervals = chunk.as_primitive::<IntervalMonthDayNanoType>();
    for (row, (value, micros)) in intervals.values().iter().zip(microseconds).enumerate() {
        *micros = match duration(value) {
            Some(duration) => duration,
            // What lies under a null may be anything.
            None if intervals.is_null(row) => 0,
            None => {
                return Err(Error::new(
                    SqlState::DatetimeFieldOverflow,
                    "an interval is out of timedelta64's range",
                ));
            }
        };
    }
    Ok(())
}

fn duration(interval: &IntervalMonthDayNano) -> Option<i64> {
    let days = i64::from(interval.months) * 30 + i64::from(interval.days);
    days.checked_mul(86_400_000_000)?
        .checked_add(interval.nanoseconds.div_euclid(1_000))
}

/// A column of intervals as durations.
pub(crate) fn durations(column: &ArrayRef) -> Result<ArrayRef, Error> {
    let mut values = vec![0; column.len()];
    intervals(column, &mut values)?;
    let nulls = column.nulls().cloned();
    Ok(Arc::new(DurationMicrosecondArray::try_new(
        values.into(),
        nulls,
    )?))
}
