//! Columns of NumPy arrays and Python lists as one record batch.
//!
//! Numbers and times stay where NumPy has them: the batch holds the arrays. Whoever gave them must not write to them while a statement
//! reads them, as with any frame that is scanned in place.

use std::panic::AssertUnwindSafe;
use std::ptr::NonNull;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, IntervalMonthDayNanoArray, PrimitiveArray, RecordBatch,
    RecordBatchOptions, new_null_array,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Field, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, IntervalMonthDayNano, Schema, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use firndb::{Error, Frame, SqlState};
use numpy::{Element, PyArray1, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::errors;
use crate::export;
use crate::frames;
use crate::parameters;

/// Columns in memory as a table that Arrow consumers, and FirnDB itself, can read more than once.
#[pyclass(frozen, module = "firndb._firndb")]
pub struct ColumnTable {
    pub(crate) frame: Frame,
}

#[pymethods]
impl ColumnTable {
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let Frame { schema, batches } = self.frame.clone();
        export::batches(py, schema, batches, requested_schema)
    }

    fn __len__(&self) -> usize {
        self.frame.batches.iter().map(RecordBatch::num_rows).sum()
    }
}

/// A column as `firndb.frames` prepares it: what the values mean (see [`table_of_columns`]), the values, and where they are missing.
type Column<'py> = (
    String,
    Bound<'py, PyAny>,
    Option<Bound<'py, PyArray1<bool>>>,
);

/// Makes a table of columns of one length. A column is its kind, its values and a mask of its nulls:
///
/// | kind | values |
/// | --- | --- |
/// | `number` | contiguous one-dimensional array of native numbers or booleans |
/// | `date` | days as int64 |
/// | `timestamp:s`, `:ms`, `:us`, `:ns` | int64, the least one is NaT |
/// | `interval:s` … | int64, the least one is NaT |
/// | `objects` | any sequence of Python objects |
/// | `refused` | how many rows, and why the column can't be read ([`Frame::REFUSED`]) |
#[pyfunction]
pub(crate) fn table_of_columns(
    py: Python<'_>,
    names: Vec<String>,
    columns: Vec<Column<'_>>,
) -> PyResult<ColumnTable> {
    let mut rows = None;
    let mut fields = Vec::with_capacity(names.len());
    let mut arrays = Vec::with_capacity(names.len());
    for (name, (kind, values, mask)) in names.iter().zip(&columns) {
        let array = column(py, kind, values, mask.as_ref())?;
        if *rows.get_or_insert(array.len()) != array.len() {
            let message = format!(
                "column \"{name}\" has {} rows, the columns before it have {}",
                array.len(),
                rows.unwrap_or(0)
            );
            return Err(invalid(py, message));
        }
        let (field, array) = if kind == "refused" {
            let (_, reason) = values.extract::<(usize, String)>()?;
            let metadata = [(Frame::REFUSED.to_owned(), reason)].into();
            let field = Field::new(name, array.data_type().clone(), true);
            (field.with_metadata(metadata), array)
        } else if kind == "objects" {
            parameters::column(name, array).map_err(|error| errors::to_python(py, &error, None))?
        } else {
            (Field::new(name, array.data_type().clone(), true), array)
        };
        fields.push(field);
        arrays.push(array);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows.unwrap_or(0)));
    let batch = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
        .map_err(|error| errors::to_python(py, &error.into(), None))?;
    Ok(ColumnTable {
        frame: Frame {
            schema: batch.schema(),
            batches: vec![batch],
        },
    })
}

/// Reads an object with an Arrow stream, which may give its rows only once.
#[pyfunction]
pub(crate) fn hold(rows: &Bound<'_, PyAny>) -> PyResult<ColumnTable> {
    frames::import(rows).map(|frame| ColumnTable { frame })
}

fn column(
    py: Python<'_>,
    kind: &str,
    values: &Bound<'_, PyAny>,
    mask: Option<&Bound<'_, PyArray1<bool>>>,
) -> PyResult<ArrayRef> {
    let nulls = mask
        .map(|mask| {
            let mask = contiguous(mask)?;
            Ok::<_, PyErr>(NullBuffer::new(BooleanBuffer::collect_bool(
                mask.len(),
                |row| mask[row] == 0,
            )))
        })
        .transpose()?;
    let array: Result<ArrayRef, Error> = match kind {
        "number" => return number(py, values, nulls),
        "objects" => return objects(py, values),
        "refused" => {
            let (rows, _) = values.extract::<(usize, String)>()?;
            return Ok(new_null_array(&DataType::Utf8View, rows));
        }
        "date" => dates(&integers(values)?, nulls),
        "timestamp:s" => stamps::<TimestampSecondType>(integers(values)?, nulls),
        "timestamp:ms" => stamps::<TimestampMillisecondType>(integers(values)?, nulls),
        "timestamp:us" => stamps::<TimestampMicrosecondType>(integers(values)?, nulls),
        "timestamp:ns" => stamps::<TimestampNanosecondType>(integers(values)?, nulls),
        "interval:s" => intervals(&integers(values)?, 1_000_000_000, nulls),
        "interval:ms" => intervals(&integers(values)?, 1_000_000, nulls),
        "interval:us" => intervals(&integers(values)?, 1_000, nulls),
        "interval:ns" => intervals(&integers(values)?, 1, nulls),
        _ => return Err(invalid(py, format!("unknown kind of column: {kind}"))),
    };
    array.map_err(|error| errors::to_python(py, &error, None))
}

fn number(
    py: Python<'_>,
    values: &Bound<'_, PyAny>,
    nulls: Option<NullBuffer>,
) -> PyResult<ArrayRef> {
    macro_rules! try_as {
        ($($arrow:ty),*) => {$(
            if let Ok(array) = values.cast::<PyArray1<<$arrow as ArrowPrimitiveType>::Native>>() {
                return match PrimitiveArray::<$arrow>::try_new(borrowed(array)?, nulls) {
                    Ok(array) => Ok(Arc::new(array)),
                    Err(error) => Err(errors::to_python(py, &error.into(), None)),
                };
            }
        )*};
    }
    try_as!(Int64Type, Int32Type, Int16Type, Int8Type);
    try_as!(UInt64Type, UInt32Type, UInt16Type, UInt8Type);
    try_as!(Float64Type, Float32Type);
    let Ok(array) = values.cast::<PyArray1<bool>>() else {
        return Err(invalid(
            py,
            "a column of numbers must be a one-dimensional array of native numbers".into(),
        ));
    };
    let bytes = contiguous(array)?;
    let values = BooleanBuffer::collect_bool(bytes.len(), |row| bytes[row] != 0);
    Ok(Arc::new(BooleanArray::new(values, nulls)))
}

fn integers(values: &Bound<'_, PyAny>) -> PyResult<ScalarBuffer<i64>> {
    borrowed(values.cast::<PyArray1<i64>>()?)
}

/// The bytes of an array of booleans.
fn contiguous(array: &Bound<'_, PyArray1<bool>>) -> PyResult<ScalarBuffer<u8>> {
    if array.len() == 0 {
        return Ok(ScalarBuffer::from(Vec::new()));
    }
    // SAFETY: see `borrow`; a boolean of NumPy is one byte, and every byte is a u8.
    unsafe { borrow(array, array.data().cast()) }
}

/// The values of an array, where they lie.
fn borrowed<T>(array: &Bound<'_, PyArray1<T>>) -> PyResult<ScalarBuffer<T>>
where
    T: Element + arrow::datatypes::ArrowNativeType,
{
    if array.len() == 0 {
        return Ok(ScalarBuffer::from(Vec::new()));
    }
    // SAFETY: see `borrow`; T is the type that NumPy itself names.
    unsafe { borrow(array, array.data()) }
}

/// A buffer over the values of `array`, which it keeps alive.
///
/// # Safety
/// `values` is the first element of `array`, whose elements have the size of `V`, and every bit pattern must be a `V`.
unsafe fn borrow<T: Element, V: arrow::datatypes::ArrowNativeType>(
    array: &Bound<'_, PyArray1<T>>,
    values: *mut V,
) -> PyResult<ScalarBuffer<V>> {
    let py = array.py();
    let usable = array.is_c_contiguous() && values.is_aligned();
    let (Some(start), true) = (NonNull::new(values.cast::<u8>()), usable) else {
        return Err(invalid(
            py,
            "a column must be contiguous and aligned in memory".into(),
        ));
    };
    let owner = Arc::new(AssertUnwindSafe(array.clone().into_any().unbind()));
    let bytes = array.len() * size_of::<V>();
    // SAFETY: the array is contiguous, so `bytes` bytes from `start` are its own; NumPy frees or moves them no earlier than the
    // array, which `owner` holds. That nobody writes to them meanwhile is the contract of a frame scanned in place; if someone
    // does, each number read is one or the other.
    let buffer = unsafe { Buffer::from_custom_allocation(start, bytes, owner) };
    Ok(ScalarBuffer::new(buffer, 0, array.len()))
}

/// NaT, where NumPy has no mask.
const NOT_A_TIME: i64 = i64::MIN;

fn with_nat(values: &[i64], nulls: Option<NullBuffer>) -> Option<NullBuffer> {
    if !values.contains(&NOT_A_TIME) {
        return nulls;
    }
    let times = NullBuffer::new(BooleanBuffer::collect_bool(values.len(), |row| {
        values[row] != NOT_A_TIME
    }));
    NullBuffer::union(Some(&times), nulls.as_ref())
}

fn stamps<T: ArrowPrimitiveType<Native = i64>>(
    values: ScalarBuffer<i64>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, Error> {
    let nulls = with_nat(&values, nulls);
    Ok(Arc::new(PrimitiveArray::<T>::try_new(values, nulls)?))
}

fn dates(values: &[i64], nulls: Option<NullBuffer>) -> Result<ArrayRef, Error> {
    let nulls = with_nat(values, nulls);
    let days = values
        .iter()
        .enumerate()
        .map(|(row, &days)| match &nulls {
            Some(nulls) if nulls.is_null(row) => Ok(0),
            _ => i32::try_from(days)
                .map_err(|_| Error::new(SqlState::DatetimeFieldOverflow, "a date is out of range")),
        })
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Arc::new(Date32Array::try_new(days.into(), nulls)?))
}

fn intervals(
    values: &[i64],
    nanoseconds: i128,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, Error> {
    const DAY: i128 = 86_400_000_000_000;
    let nulls = with_nat(values, nulls);
    let intervals = values
        .iter()
        .enumerate()
        .map(|(row, &value)| {
            if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                return Ok(IntervalMonthDayNano::new(0, 0, 0));
            }
            let whole = i128::from(value) * nanoseconds;
            let days = i32::try_from(whole / DAY).map_err(|_| {
                Error::new(
                    SqlState::DatetimeFieldOverflow,
                    "an interval is out of range",
                )
            })?;
            // Below a day.
            Ok(IntervalMonthDayNano::new(0, days, (whole % DAY) as i64))
        })
        .collect::<Result<Vec<_>, Error>>()?;
    Ok(Arc::new(IntervalMonthDayNanoArray::try_new(
        intervals.into(),
        nulls,
    )?))
}

fn objects(py: Python<'_>, values: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    parameters::values(py, values.try_iter()?)
}

fn invalid(py: Python<'_>, message: String) -> PyErr {
    errors::misuse(py, &Error::new(SqlState::InvalidParameterValue, message))
}
