//! Arrow values as Python objects, a column at a time.
//!
//! | Arrow | Python |
//! | --- | --- |
//! | integers, floats, booleans, strings, binary | int, float, bool, str, bytes |
//! | decimals | decimal.Decimal |
//! | dates, times, timestamps | datetime.date, time, datetime (aware when the type has a zone) |
//! | intervals, durations | datetime.timedelta; a month counts 30 days, as in other drivers |
//! | uuid (extension type) | uuid.UUID |
//! | lists, structs, maps | list, dict, dict (of `key` and `value` lists where a key is a struct or a map) |
//!
//! Python's dates end with the years 1 and 9999; what lies beyond is an error, never another date. Fractions below a
//! microsecond are cut off.

use arrow::array::{
    Array, AsArray, Decimal32Array, Decimal64Array, Decimal128Array, Decimal256Array,
    OffsetSizeTrait, RecordBatch, StructArray,
};
use arrow::compute::cast;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Date64Type, DurationMicrosecondType,
    DurationMillisecondType, DurationNanosecondType, DurationSecondType, Field, Float16Type,
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, IntervalDayTimeType,
    IntervalMonthDayNanoType, IntervalUnit, IntervalYearMonthType, Time32MillisecondType,
    Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimeUnit,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use firndb::{Error, SqlState};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyBytes, PyDate, PyDateTime, PyDelta, PyDict, PyList, PyString, PyTime, PyTuple, PyType,
    PyTzInfo,
};

use crate::errors;

type Objects<'py> = Vec<Bound<'py, PyAny>>;

/// The rows of a batch as tuples.
pub(crate) fn rows<'py>(
    py: Python<'py>,
    batch: &RecordBatch,
) -> PyResult<Vec<Bound<'py, PyTuple>>> {
    let schema = batch.schema_ref();
    let mut columns = batch
        .columns()
        .iter()
        .zip(schema.fields())
        .map(|(array, field)| column(py, field, array).map(Vec::into_iter))
        .collect::<PyResult<Vec<_>>>()?;
    let none = py.None().into_bound(py);
    (0..batch.num_rows())
        .map(|_| {
            PyTuple::new(
                py,
                columns
                    .iter_mut()
                    .map(|values| values.next().unwrap_or_else(|| none.clone())),
            )
        })
        .collect()
}

/// The values of a column, None for nulls.
pub(crate) fn column<'py>(
    py: Python<'py>,
    field: &Field,
    array: &dyn Array,
) -> PyResult<Objects<'py>> {
    match array.data_type() {
        DataType::Null => Ok(vec![py.None().into_bound(py); array.len()]),
        DataType::Boolean => {
            let array = array.as_boolean();
            each(py, array, |row| array.value(row).into_bound_py_any(py))
        }
        DataType::Int8 => native::<Int8Type>(py, array),
        DataType::Int16 => native::<Int16Type>(py, array),
        DataType::Int32 => native::<Int32Type>(py, array),
        DataType::Int64 => native::<Int64Type>(py, array),
        DataType::UInt8 => native::<UInt8Type>(py, array),
        DataType::UInt16 => native::<UInt16Type>(py, array),
        DataType::UInt32 => native::<UInt32Type>(py, array),
        DataType::UInt64 => native::<UInt64Type>(py, array),
        DataType::Float16 => {
            primitive::<Float16Type>(py, array, |value| f32::from(value).into_bound_py_any(py))
        }
        DataType::Float32 => native::<Float32Type>(py, array),
        DataType::Float64 => native::<Float64Type>(py, array),
        DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => decimals(py, array),
        DataType::Utf8 => {
            let array = array.as_string::<i32>();
            each(py, array, |row| Ok(text(py, array.value(row))))
        }
        DataType::LargeUtf8 => {
            let array = array.as_string::<i64>();
            each(py, array, |row| Ok(text(py, array.value(row))))
        }
        DataType::Utf8View => {
            let array = array.as_string_view();
            each(py, array, |row| Ok(text(py, array.value(row))))
        }
        DataType::Binary => {
            let array = array.as_binary::<i32>();
            each(py, array, |row| Ok(bytes(py, array.value(row))))
        }
        DataType::LargeBinary => {
            let array = array.as_binary::<i64>();
            each(py, array, |row| Ok(bytes(py, array.value(row))))
        }
        DataType::BinaryView => {
            let array = array.as_binary_view();
            each(py, array, |row| Ok(bytes(py, array.value(row))))
        }
        DataType::FixedSizeBinary(_) => fixed_binary(py, field, array),
        DataType::Date32 => primitive::<Date32Type>(py, array, |days| date(py, i64::from(days))),
        DataType::Date64 => primitive::<Date64Type>(py, array, |milliseconds| {
            date(py, milliseconds.div_euclid(86_400_000))
        }),
        DataType::Time32(_) | DataType::Time64(_) => times(py, array),
        DataType::Timestamp(_, zone) => timestamps(py, array, zone.as_deref()),
        DataType::Duration(_) | DataType::Interval(_) => intervals(py, array),
        DataType::List(child) => {
            let array = array.as_list::<i32>();
            lists(py, child, array)
        }
        DataType::LargeList(child) => {
            let array = array.as_list::<i64>();
            lists(py, child, array)
        }
        DataType::FixedSizeList(child, size) => {
            let array = array.as_fixed_size_list();
            let values = column(py, child, array.values())?;
            let size = usize::try_from(*size).unwrap_or(0);
            each(py, array, |row| {
                PyList::new(py, &values[row * size..(row + 1) * size])?.into_bound_py_any(py)
            })
        }
        DataType::Struct(_) => structs(py, array.as_struct()),
        DataType::Map(entries, _) => maps(py, entries, array),
        DataType::Dictionary(_, _) => {
            let array = array.as_any_dictionary();
            let values = column(py, field, array.values())?;
            let keys = array.normalized_keys();
            each(py, array, |row| Ok(values[keys[row]].clone()))
        }
        DataType::RunEndEncoded(_, values) => {
            column(py, field, &converted(py, array, values.data_type())?)
        }
        DataType::ListView(child) => {
            let plain = DataType::List(child.clone());
            column(py, field, &converted(py, array, &plain)?)
        }
        _ => Err(errors::to_python(
            py,
            &Error::unsupported(format!(
                "column \"{}\" holds values that have no Python objects",
                field.name()
            )),
            None,
        )),
    }
}

/// Calls `convert` for the rows that are not null.
fn each<'py>(
    py: Python<'py>,
    array: &dyn Array,
    convert: impl Fn(usize) -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Objects<'py>> {
    match array.logical_nulls().filter(|nulls| nulls.null_count() > 0) {
        None => (0..array.len()).map(convert).collect(),
        Some(nulls) => (0..array.len())
            .map(|row| match nulls.is_valid(row) {
                true => convert(row),
                false => Ok(py.None().into_bound(py)),
            })
            .collect(),
    }
}

fn primitive<'py, T: ArrowPrimitiveType>(
    py: Python<'py>,
    array: &dyn Array,
    convert: impl Fn(T::Native) -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Objects<'py>> {
    let array = array.as_primitive::<T>();
    let values = array.values();
    each(py, array, |row| convert(values[row]))
}

fn native<'py, T>(py: Python<'py>, array: &dyn Array) -> PyResult<Objects<'py>>
where
    T: ArrowPrimitiveType,
    T::Native: IntoPyObject<'py>,
{
    primitive::<T>(py, array, |value| value.into_bound_py_any(py))
}

fn text<'py>(py: Python<'py>, value: &str) -> Bound<'py, PyAny> {
    PyString::new(py, value).into_any()
}

fn bytes<'py>(py: Python<'py>, value: &[u8]) -> Bound<'py, PyAny> {
    PyBytes::new(py, value).into_any()
}

fn converted(py: Python<'_>, array: &dyn Array, to: &DataType) -> PyResult<arrow::array::ArrayRef> {
    cast(array, to).map_err(|error| errors::to_python(py, &error.into(), None))
}

fn decimals<'py>(py: Python<'py>, array: &dyn Array) -> PyResult<Objects<'py>> {
    macro_rules! convert {
        ($array:ty) => {
            match array.as_any().downcast_ref::<$array>() {
                Some(array) => each(py, array, |row| decimal(py, &array.value_as_string(row))),
                None => Ok(Vec::new()),
            }
        };
    }
    match array.data_type() {
        DataType::Decimal32(..) => convert!(Decimal32Array),
        DataType::Decimal64(..) => convert!(Decimal64Array),
        DataType::Decimal128(..) => convert!(Decimal128Array),
        _ => convert!(Decimal256Array),
    }
}

/// A decimal of its digits.
pub(crate) fn decimal<'py>(py: Python<'py>, digits: &str) -> PyResult<Bound<'py, PyAny>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    CLASS.import(py, "decimal", "Decimal")?.call1((digits,))
}

/// A UUID of its bytes.
pub(crate) fn uuid<'py>(py: Python<'py>, value: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let names = PyDict::new(py);
    names.set_item(intern!(py, "bytes"), PyBytes::new(py, value))?;
    CLASS.import(py, "uuid", "UUID")?.call((), Some(&names))
}

fn fixed_binary<'py>(py: Python<'py>, field: &Field, array: &dyn Array) -> PyResult<Objects<'py>> {
    let array = array.as_fixed_size_binary();
    if field.extension_type_name() != Some("arrow.uuid") || array.value_length() != 16 {
        return each(py, array, |row| Ok(bytes(py, array.value(row))));
    }
    each(py, array, |row| uuid(py, array.value(row)))
}

/// Days since 1970-01-01 as a year, a month and a day of the proleptic Gregorian calendar, counted in eras of 400 years that begin
/// on the first of March.
fn civil(days: i64) -> (i64, u8, u8) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, next_year) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    // A month is at most 12, a day at most 31.
    (year_of_era + era * 400 + next_year, month as u8, day as u8)
}

fn python_year(py: Python<'_>, year: i64) -> PyResult<i32> {
    if (1..=9999).contains(&year) {
        return Ok(year as i32);
    }
    let error = Error::new(
        SqlState::DatetimeFieldOverflow,
        format!("the year {year} is outside of Python's dates (1 to 9999)"),
    )
    .with_hint("Cast the column to VARCHAR, or read it as Arrow.");
    Err(errors::to_python(py, &error, None))
}

pub(crate) fn date(py: Python<'_>, days: i64) -> PyResult<Bound<'_, PyAny>> {
    let (year, month, day) = civil(days);
    PyDate::new(py, python_year(py, year)?, month, day)?.into_bound_py_any(py)
}

/// Hours, minutes, seconds and microseconds of a time of day.
fn clock(microseconds: i64) -> (u8, u8, u8, u32) {
    let seconds = microseconds / 1_000_000;
    (
        (seconds / 3_600) as u8,
        (seconds / 60 % 60) as u8,
        (seconds % 60) as u8,
        (microseconds % 1_000_000) as u32,
    )
}

/// A time of day.
pub(crate) fn time(py: Python<'_>, microseconds: i64) -> PyResult<Bound<'_, PyAny>> {
    if !(0..86_400_000_000).contains(&microseconds) {
        let error = Error::new(
            SqlState::DatetimeFieldOverflow,
            "a time of day outside of Python's (00:00:00 to 23:59:59.999999)",
        )
        .with_hint("Cast the column to VARCHAR, or read it as Arrow.");
        return Err(errors::to_python(py, &error, None));
    }
    let (hour, minute, second, microsecond) = clock(microseconds);
    PyTime::new(py, hour, minute, second, microsecond, None)?.into_bound_py_any(py)
}

fn times<'py>(py: Python<'py>, array: &dyn Array) -> PyResult<Objects<'py>> {
    let time = |microseconds: i64| time(py, microseconds);
    match array.data_type() {
        DataType::Time32(TimeUnit::Second) => {
            primitive::<Time32SecondType>(py, array, |value| time(i64::from(value) * 1_000_000))
        }
        DataType::Time32(_) => {
            primitive::<Time32MillisecondType>(py, array, |value| time(i64::from(value) * 1_000))
        }
        DataType::Time64(TimeUnit::Microsecond) => {
            primitive::<Time64MicrosecondType>(py, array, time)
        }
        _ => primitive::<Time64NanosecondType>(py, array, |value| time(value.div_euclid(1_000))),
    }
}

/// A timestamp, aware when there is a zone.
pub(crate) fn timestamp<'py>(
    py: Python<'py>,
    microseconds: i64,
    zone: Option<&Bound<'py, PyTzInfo>>,
) -> PyResult<Bound<'py, PyAny>> {
    let (year, month, day) = civil(microseconds.div_euclid(86_400_000_000));
    let (hour, minute, second, microsecond) = clock(microseconds.rem_euclid(86_400_000_000));
    let year = python_year(py, year)?;
    let build = |zone| {
        PyDateTime::new(
            py,
            year,
            month,
            day,
            hour,
            minute,
            second,
            microsecond,
            zone,
        )
    };
    let Some(zone) = zone else {
        return build(None)?.into_bound_py_any(py);
    };
    let utc = PyTzInfo::utc(py)?.to_owned();
    match zone.is(&utc) {
        true => build(Some(&utc))?.into_bound_py_any(py),
        false => build(Some(&utc))?.call_method1(intern!(py, "astimezone"), (zone,)),
    }
}

fn timestamps<'py>(
    py: Python<'py>,
    array: &dyn Array,
    zone: Option<&str>,
) -> PyResult<Objects<'py>> {
    let zone = zone.map(|name| time_zone(py, name)).transpose()?;
    let stamp = |microseconds: i64| timestamp(py, microseconds, zone.as_ref());
    let scaled = |value: i64, factor: i64| {
        let microseconds = value.checked_mul(factor).ok_or_else(|| {
            let error = Error::new(
                SqlState::DatetimeFieldOverflow,
                "a timestamp outside of Python's (the years 1 to 9999)",
            );
            errors::to_python(py, &error, None)
        })?;
        stamp(microseconds)
    };
    match array.data_type() {
        DataType::Timestamp(TimeUnit::Second, _) => {
            primitive::<TimestampSecondType>(py, array, |value| scaled(value, 1_000_000))
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            primitive::<TimestampMillisecondType>(py, array, |value| scaled(value, 1_000))
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            primitive::<TimestampMicrosecondType>(py, array, stamp)
        }
        _ => {
            primitive::<TimestampNanosecondType>(py, array, |value| stamp(value.div_euclid(1_000)))
        }
    }
}

/// The zone of a name or an offset such as +02:00.
pub(crate) fn time_zone<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyTzInfo>> {
    if matches!(name, "UTC" | "Z" | "+00:00" | "-00:00" | "Etc/UTC") {
        return Ok(PyTzInfo::utc(py)?.to_owned());
    }
    let offset = || -> Option<i32> {
        let sign = match name.as_bytes().first()? {
            b'+' => 1,
            b'-' => -1,
            _ => return None,
        };
        let digits = name[1..].replace(':', "");
        let hours: i32 = digits.get(..2)?.parse().ok()?;
        let minutes: i32 = digits.get(2..4).unwrap_or("00").parse().ok()?;
        Some(sign * (hours * 3_600 + minutes * 60))
    };
    match offset() {
        Some(seconds) => PyTzInfo::fixed_offset(py, PyDelta::new(py, 0, seconds, 0, true)?),
        None => PyTzInfo::timezone(py, name).map_err(|_| {
            let error = Error::new(
                SqlState::InvalidParameterValue,
                format!("Python knows no time zone \"{name}\""),
            );
            errors::to_python(py, &error, None)
        }),
    }
}

fn intervals<'py>(py: Python<'py>, array: &dyn Array) -> PyResult<Objects<'py>> {
    // Days beyond Python's are refused by timedelta itself.
    let delta = |days: i64, microseconds: i64| {
        let days = days + microseconds.div_euclid(86_400_000_000);
        let rest = microseconds.rem_euclid(86_400_000_000);
        let days = i32::try_from(days).map_err(|_| {
            let error = Error::new(
                SqlState::DatetimeFieldOverflow,
                "an interval outside of Python's timedelta",
            );
            errors::to_python(py, &error, None)
        })?;
        // Below 86,400 and below 1,000,000.
        let (seconds, microseconds) = ((rest / 1_000_000) as i32, (rest % 1_000_000) as i32);
        PyDelta::new(py, days, seconds, microseconds, true)?.into_bound_py_any(py)
    };
    match array.data_type() {
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            primitive::<IntervalMonthDayNanoType>(py, array, |value| {
                delta(
                    i64::from(value.months) * 30 + i64::from(value.days),
                    value.nanoseconds.div_euclid(1_000),
                )
            })
        }
        DataType::Interval(IntervalUnit::DayTime) => {
            primitive::<IntervalDayTimeType>(py, array, |value| {
                delta(i64::from(value.days), i64::from(value.milliseconds) * 1_000)
            })
        }
        DataType::Interval(IntervalUnit::YearMonth) => {
            primitive::<IntervalYearMonthType>(py, array, |value| delta(i64::from(value) * 30, 0))
        }
        DataType::Duration(TimeUnit::Second) => {
            primitive::<DurationSecondType>(py, array, |value| {
                delta(
                    value.div_euclid(86_400),
                    value.rem_euclid(86_400) * 1_000_000,
                )
            })
        }
        DataType::Duration(TimeUnit::Millisecond) => {
            primitive::<DurationMillisecondType>(py, array, |value| {
                delta(
                    value.div_euclid(86_400_000),
                    value.rem_euclid(86_400_000) * 1_000,
                )
            })
        }
        DataType::Duration(TimeUnit::Microsecond) => {
            primitive::<DurationMicrosecondType>(py, array, |value| delta(0, value))
        }
        _ => primitive::<DurationNanosecondType>(py, array, |value| {
            delta(0, value.div_euclid(1_000))
        }),
    }
}

fn lists<'py, O: OffsetSizeTrait>(
    py: Python<'py>,
    child: &Field,
    array: &arrow::array::GenericListArray<O>,
) -> PyResult<Objects<'py>> {
    let offsets = array.value_offsets();
    let first = offsets.first().map_or(0, |offset| offset.as_usize());
    let last = offsets.last().map_or(0, |offset| offset.as_usize());
    let values = column(py, child, &array.values().slice(first, last - first))?;
    each(py, array, |row| {
        let range = offsets[row].as_usize() - first..offsets[row + 1].as_usize() - first;
        PyList::new(py, &values[range])?.into_bound_py_any(py)
    })
}

fn structs<'py>(py: Python<'py>, array: &StructArray) -> PyResult<Objects<'py>> {
    let members = array
        .fields()
        .iter()
        .zip(array.columns())
        .map(|(field, values)| Ok((PyString::new(py, field.name()), column(py, field, values)?)))
        .collect::<PyResult<Vec<_>>>()?;
    each(py, array, |row| {
        let dict = PyDict::new(py);
        for (name, values) in &members {
            dict.set_item(name, &values[row])?;
        }
        dict.into_bound_py_any(py)
    })
}

fn maps<'py>(py: Python<'py>, entries: &Field, array: &dyn Array) -> PyResult<Objects<'py>> {
    let array = array.as_map();
    let DataType::Struct(fields) = entries.data_type() else {
        return Ok(Vec::new());
    };
    let keys = column(py, &fields[0], array.keys())?;
    let values = column(py, &fields[1], array.values())?;
    let offsets = array.value_offsets();
    each(py, array, |row| {
        let dict = PyDict::new(py);
        let places = offsets[row] as usize..offsets[row + 1] as usize;
        for entry in places.clone() {
            // A list is no key in Python; its tuple is.
            let set = match keys[entry].cast::<PyList>() {
                Ok(list) => dict.set_item(list.to_tuple(), &values[entry]),
                Err(_) => dict.set_item(&keys[entry], &values[entry]),
            };
            match set {
                Err(error) if error.is_instance_of::<PyTypeError>(py) => {
                    // Structs and maps are no keys: two lists, as DuckDB has them.
                    let pair = PyDict::new(py);
                    pair.set_item("key", PyList::new(py, &keys[places.clone()])?)?;
                    pair.set_item("value", PyList::new(py, &values[places])?)?;
                    return pair.into_bound_py_any(py);
                }
                set => set?,
            }
        }
        dict.into_bound_py_any(py)
    })
}
