//! Python objects as values of a statement.
//!
//! Integers beyond 64 bits become decimal(38,0); what no type holds is 22003 (a DataError), what is no value at all is 22023
//! (a ProgrammingError). NumPy scalars count as the Python objects that they stand for, pandas' NA and NaT as NULL.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StructArray, new_empty_array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use firndb::{Datum, Error, Parameters, SqlState, Value};
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDate, PyDateAccess, PyDateTime, PyDelta, PyDict, PyFloat,
    PyInt, PyIterator, PyList, PyMapping, PyMemoryView, PySequence, PyString, PyTime, PyTuple,
    PyType,
};

use crate::errors;

mod moments;
mod unify;

use moments::{days_of, interval, time_of_day, timestamp};
use unify::unify;

/// Most lists and structs inside one another: values are taken apart by recursion, here and in the engine, and readers of the
/// Arrow C interface go 64 deep, columns and tables included.
const DEEPEST: usize = 60;

/// The text of a statement or name.
pub(crate) fn text<'a>(object: &'a Bound<'_, PyAny>, what: &str) -> PyResult<&'a str> {
    match object.cast::<PyString>() {
        Ok(string) => utf8(string),
        Err(_) => Err(invalid(
            object.py(),
            format!("{what} must be a str, not {}", type_name(object)),
        )),
    }
}

/// The parameters of one execution: a sequence for `?` and `$1`, a mapping for `$name`.
pub(crate) fn bind(object: Option<&Bound<'_, PyAny>>) -> PyResult<Parameters> {
    let Some(object) = object else {
        return Ok(Parameters::default());
    };
    let py = object.py();
    if let Ok(list) = object.cast_exact::<PyList>() {
        return positional(list.iter());
    }
    if let Ok(tuple) = object.cast_exact::<PyTuple>() {
        return positional(tuple.iter());
    }
    if object.is_none() {
        return Ok(Parameters::default());
    }
    if let Ok(mapping) = object.cast::<PyMapping>() {
        let mut named = HashMap::with_capacity(mapping.len()?);
        for pair in mapping.items()?.iter() {
            let (name, given) = pair.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()?;
            named.insert(
                text(&name, "the name of a parameter")?.to_owned(),
                value(&given)?,
            );
        }
        return Ok(Parameters::Named(named));
    }
    let is_text = object.is_instance_of::<PyString>() || object.is_instance_of::<PyBytes>();
    if !is_text && (object.cast::<PySequence>().is_ok() || object.is_instance(ndarray(py)?)?) {
        return positional(
            iterated(object, "parameters must be a sequence or a mapping")?
                .collect::<PyResult<Vec<_>>>()?
                .into_iter(),
        );
    }
    if !is_text
        && let Some(plain) = unwrapped(object)?
        && let Ok(list) = plain.cast::<PyList>()
    {
        return positional(list.iter());
    }
    let error = Error::new(
        SqlState::InvalidParameterValue,
        format!(
            "parameters must be a sequence or a mapping, not {}",
            type_name(object)
        ),
    )
    .with_hint("Put a single value into a list: [value].");
    Err(errors::misuse(py, &error))
}

/// The parameters of one execution as a compiled statement takes them; `None` if they are given in another way than as a list or a tuple.
pub(crate) fn items<'py>(object: Option<&Bound<'py, PyAny>>) -> Option<Vec<Bound<'py, PyAny>>> {
    let Some(object) = object else {
        return Some(Vec::new());
    };
    if let Ok(tuple) = object.cast_exact::<PyTuple>() {
        return Some(tuple.iter().collect());
    }
    if let Ok(list) = object.cast_exact::<PyList>() {
        return Some(list.iter().collect());
    }
    object.is_none().then(Vec::new)
}

/// The datum of a Python object of the commonest classes; `None` for all others, which [`value`] knows.
pub(crate) fn datum<'a>(object: &'a Bound<'_, PyAny>) -> Option<Datum<'a>> {
    if let Ok(integer) = object.cast_exact::<PyInt>() {
        return integer.extract::<i64>().ok().map(Datum::Integer);
    }
    if let Ok(string) = object.cast_exact::<PyString>() {
        return string.to_str().ok().map(Datum::Text);
    }
    if let Ok(float) = object.cast_exact::<PyFloat>() {
        return Some(Datum::Float(float.value()));
    }
    if object.is_none() {
        return Some(Datum::Null);
    }
    if let Ok(boolean) = object.cast_exact::<PyBool>() {
        return Some(Datum::Boolean(boolean.is_true()));
    }
    if let Ok(bytes) = object.cast_exact::<PyBytes>() {
        return Some(Datum::Bytes(bytes.as_bytes()));
    }
    None
}

/// The sets of parameters of `executemany`.
pub(crate) fn rows<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyIterator>> {
    iterated(
        object,
        "sets of parameters must be an iterable of sequences or mappings",
    )
}

/// An iterator; `wanted` says what the object should have been.
fn iterated<'py>(object: &Bound<'py, PyAny>, wanted: &str) -> PyResult<Bound<'py, PyIterator>> {
    let py = object.py();
    object.try_iter().map_err(|error| {
        if error.is_instance_of::<PyTypeError>(py) {
            invalid(py, format!("{wanted}, not {}", type_name(object)))
        } else {
            error
        }
    })
}

fn positional<'py>(objects: impl Iterator<Item = Bound<'py, PyAny>>) -> PyResult<Parameters> {
    objects
        .map(|object| value(&object))
        .collect::<PyResult<Vec<_>>>()
        .map(Parameters::Positional)
}

/// A number of rows, as fetches take it.
pub(crate) fn size(object: &Bound<'_, PyAny>) -> PyResult<usize> {
    if let Ok(size) = object.extract::<usize>() {
        return Ok(size);
    }
    if object.is_instance_of::<PyInt>() && object.gt(0)? {
        return Ok(usize::MAX);
    }
    let given = if object.is_instance_of::<PyInt>() {
        object.str()?.to_string()
    } else {
        format!("a {}", type_name(object))
    };
    Err(invalid(
        object.py(),
        format!("a number of rows is an integer from 0 on, not {given}"),
    ))
}

/// A column of values from Python, where every 16 bytes of fixed size are a UUID.
pub(crate) fn column(name: &str, values: ArrayRef) -> Result<(Field, ArrayRef), Error> {
    let refined = refine(Field::new(name, values.data_type().clone(), true));
    let values = match refined.data_type() == values.data_type() {
        true => values,
        false => cast(&values, refined.data_type())?,
    };
    Ok((refined, values))
}

/// A field that tells, here or inside, which of its bytes are UUIDs.
fn refine(field: Field) -> Field {
    let inside = |child: &FieldRef| Arc::new(refine(child.as_ref().clone()));
    match field.data_type() {
        DataType::FixedSizeBinary(16) => {
            field.with_metadata([("ARROW:extension:name".into(), "arrow.uuid".into())].into())
        }
        DataType::List(child) => {
            let child = inside(child);
            field.with_data_type(DataType::List(child))
        }
        DataType::Struct(children) => {
            let children = children.iter().map(inside).collect();
            field.with_data_type(DataType::Struct(children))
        }
        _ => field,
    }
}

/// The value of a Python object.
pub(crate) fn value(object: &Bound<'_, PyAny>) -> PyResult<Value> {
    let value = nested_value(object, DEEPEST)?;
    if !value.data_type().is_nested() {
        return Ok(value);
    }
    let refined = value
        .to_array_of_size(1)
        .map_err(Error::from)
        .and_then(|array| Ok(Value::try_from_array(&column("value", array)?.1, 0)?));
    refined.map_err(|error| errors::to_python(object.py(), &error, None))
}

/// The values of a column, of one type.
pub(crate) fn values<'py>(
    py: Python<'py>,
    objects: impl Iterator<Item = PyResult<Bound<'py, PyAny>>>,
) -> PyResult<ArrayRef> {
    let mut values = objects
        .map(|object| nested_value(&object?, DEEPEST))
        .collect::<PyResult<Vec<Value>>>()?;
    let data_type = unify(py, &mut values)?;
    if values.is_empty() {
        return Ok(new_empty_array(&data_type));
    }
    Value::iter_to_array(values).map_err(|error| errors::to_python(py, &error.into(), None))
}

/// The value of an object that may hold others, `depth` deep.
fn nested_value(object: &Bound<'_, PyAny>, depth: usize) -> PyResult<Value> {
    if object.is_none() {
        return Ok(Value::Null);
    }
    if let Ok(string) = object.cast::<PyString>() {
        return Ok(Value::Utf8(Some(utf8(string)?.to_owned())));
    }
    if let Ok(boolean) = object.cast::<PyBool>() {
        return Ok(Value::Boolean(Some(boolean.is_true())));
    }
    if object.is_instance_of::<PyInt>() {
        return integer(object);
    }
    if let Ok(float) = object.cast::<PyFloat>() {
        return Ok(Value::Float64(Some(float.value())));
    }
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return Ok(Value::Binary(Some(bytes.as_bytes().to_vec())));
    }
    if object.is_instance_of::<PyDateTime>() {
        return timestamp(object);
    }
    if let Ok(date) = object.cast::<PyDate>() {
        // Python's dates lie within 32 bits of days.
        let days = days_of(date.get_year(), date.get_month(), date.get_day());
        return Ok(Value::Date32(Some(days as i32)));
    }
    if let Ok(list) = object.cast::<PyList>() {
        return list_of(object.py(), list.iter(), depth);
    }
    if let Ok(tuple) = object.cast::<PyTuple>() {
        return list_of(object.py(), tuple.iter(), depth);
    }
    if let Ok(dict) = object.cast::<PyDict>() {
        return struct_of(dict, depth);
    }
    other(object, depth)
}

/// The depth that is left inside a list or struct.
fn inside(py: Python<'_>, depth: usize) -> PyResult<usize> {
    depth.checked_sub(1).ok_or_else(|| {
        let error = Error::new(
            SqlState::ProgramLimitExceeded,
            format!("a value holds lists or structs more than {DEEPEST} deep"),
        );
        errors::to_python(py, &error, None)
    })
}

fn other(object: &Bound<'_, PyAny>, depth: usize) -> PyResult<Value> {
    static DECIMAL: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    static UUID: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    static GENERIC: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let py = object.py();
    if object.is_instance(DECIMAL.import(py, "decimal", "Decimal")?)? {
        return decimal(object);
    }
    if let Ok(time) = object.cast::<PyTime>() {
        return time_of_day(time);
    }
    if let Ok(delta) = object.cast::<PyDelta>() {
        return Ok(interval(delta));
    }
    if object.is_instance(UUID.import(py, "uuid", "UUID")?)? {
        let bytes: Vec<u8> = object.getattr(intern!(py, "bytes"))?.extract()?;
        return Ok(Value::FixedSizeBinary(16, Some(bytes)));
    }
    if object.is_instance_of::<PyByteArray>() || object.is_instance_of::<PyMemoryView>() {
        let bytes = py
            .get_type::<PyBytes>()
            .call1((object,))?
            .cast_into::<PyBytes>()?;
        return Ok(Value::Binary(Some(bytes.as_bytes().to_vec())));
    }
    if object.is_instance(GENERIC.import(py, "numpy", "generic")?)? {
        return numpy_scalar(object);
    }
    if object.is_instance(ndarray(py)?)? {
        let kind: String = object.getattr("dtype")?.getattr("kind")?.extract()?;
        if "biuf".contains(&kind) {
            return nested_value(&object.call_method0("tolist")?, depth);
        }
        if "OUSTMm".contains(&kind) && object.getattr("ndim")?.gt(0)? {
            let items = object.try_iter()?.collect::<PyResult<Vec<_>>>()?;
            return list_of(py, items.into_iter(), depth);
        }
    }
    if let Some(plain) = unwrapped(object)? {
        return nested_value(&plain, depth);
    }
    if let Ok(sequence) = object.cast::<PySequence>() {
        return list_of(py, sequence.to_list()?.iter(), depth);
    }
    if type_name(object) == "NAType" {
        return Ok(Value::Null);
    }
    let error = Error::new(
        SqlState::InvalidParameterValue,
        format!("a {} is no value that SQL knows", type_name(object)),
    );
    Err(errors::misuse(py, &error))
}

/// A column or scalar of a library as plain Python: the list of its values, its value.
fn unwrapped<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let module = object.get_type().module()?.to_string();
    let methods: &[&str] = match module.split('.').next() {
        Some("pandas") => &["tolist"],
        Some("polars") => &["to_list"],
        Some("pyarrow") => &["as_py", "to_pylist"],
        _ => &[],
    };
    // A frame has columns, and is no value.
    if object.hasattr("columns")? {
        return Ok(None);
    }
    for method in methods {
        if object.hasattr(*method)? {
            return object.call_method0(*method).map(Some);
        }
    }
    Ok(None)
}

fn ndarray(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    CLASS.import(py, "numpy", "ndarray")
}

fn numpy_scalar(object: &Bound<'_, PyAny>) -> PyResult<Value> {
    let py = object.py();
    let kind: String = object.getattr("dtype")?.getattr("kind")?.extract()?;
    let item = object.call_method0(intern!(py, "item"))?;
    let is_time = kind == "M" || kind == "m";
    if is_time && item.is_instance_of::<PyInt>() {
        // Nanoseconds come as integers: they have no class in Python.
        let item = object
            .call_method1("astype", (format!("{kind}8[us]"),))?
            .call_method0("item")?;
        if item.is_instance_of::<PyInt>() {
            return Err(out_of_range(
                py,
                "a time of NumPy outside of Python's years 1 to 9999",
            ));
        }
        return value(&item);
    }
    if item.is_instance(&object.get_type())? {
        return Err(invalid(
            py,
            format!("a {} is no value that SQL knows", type_name(object)),
        ));
    }
    value(&item)
}

fn integer(object: &Bound<'_, PyAny>) -> PyResult<Value> {
    if let Ok(value) = object.extract::<i64>() {
        return Ok(Value::Int64(Some(value)));
    }
    match object.extract::<i128>() {
        Ok(value) if value.unsigned_abs() < 10u128.pow(38) => {
            Ok(Value::Decimal128(Some(value), 38, 0))
        }
        _ => Err(out_of_range(
            object.py(),
            "an integer of more than 38 digits is out of range",
        )),
    }
}

fn decimal(object: &Bound<'_, PyAny>) -> PyResult<Value> {
    let text = object.str()?;
    if !object.call_method0("is_finite")?.is_truthy()? {
        let error = Error::new(
            SqlState::NumericValueOutOfRange,
            format!("{text} is no value of a decimal, which is a finite number"),
        )
        .with_hint("Pass a float for a column of doubles, None for a missing value.");
        return Err(errors::to_python(object.py(), &error, None));
    }
    match parse_decimal(text.to_str()?) {
        Some((value, precision, scale)) => Ok(Value::Decimal128(Some(value), precision, scale)),
        None => Err(out_of_range(
            object.py(),
            &format!("the decimal {text} is out of range: FirnDB's have at most 38 digits"),
        )),
    }
}

/// The unscaled value, precision and scale of a decimal as Python writes it.
fn parse_decimal(text: &str) -> Option<(i128, u8, i8)> {
    let (mantissa, exponent) = match text.split_once(['E', 'e']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
        None => (text, 0),
    };
    let (negative, digits) = match mantissa.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, mantissa),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let mut unscaled: i128 = 0;
    for digit in whole.bytes().chain(fraction.bytes()) {
        let digit = digit.is_ascii_digit().then(|| i128::from(digit - b'0'))?;
        unscaled = unscaled.checked_mul(10)?.checked_add(digit)?;
    }
    let mut scale = i64::try_from(fraction.len()).ok()?.checked_sub(exponent)?;
    if unscaled == 0 {
        scale = scale.clamp(0, 37);
    }
    while scale < 0 {
        unscaled = unscaled.checked_mul(10)?;
        scale += 1;
    }
    // Zeros at the end of a fraction are given up before digits are.
    while scale > 38 && unscaled % 10 == 0 {
        unscaled /= 10;
        scale -= 1;
    }
    let length = unscaled
        .checked_ilog10()
        .map_or(1, |log| i64::from(log) + 1);
    let precision = length.max(scale);
    if precision > 38 {
        return None;
    }
    let signed = if negative { -unscaled } else { unscaled };
    Some((signed, precision as u8, scale as i8))
}

fn list_of<'py>(
    py: Python<'py>,
    objects: impl Iterator<Item = Bound<'py, PyAny>>,
    depth: usize,
) -> PyResult<Value> {
    let depth = inside(py, depth)?;
    let mut values = objects
        .map(|object| nested_value(&object, depth))
        .collect::<PyResult<Vec<_>>>()?;
    let element = unify(py, &mut values)?;
    Ok(Value::List(Value::new_list(&values, &element, true)))
}

fn struct_of(dict: &Bound<'_, PyDict>, depth: usize) -> PyResult<Value> {
    let py = dict.py();
    let depth = inside(py, depth)?;
    let mut fields = Vec::with_capacity(dict.len());
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(dict.len());
    for (name, member) in dict.iter() {
        let array = nested_value(&member, depth)?
            .to_array_of_size(1)
            .map_err(|error| errors::to_python(py, &error.into(), None))?;
        let name = text(&name, "the name of a struct's member")?;
        fields.push(Field::new(name, array.data_type().clone(), true));
        columns.push(array);
    }
    if columns.is_empty() {
        return Err(invalid(py, "an empty dict is no struct".into()));
    }
    let array = StructArray::try_new(Fields::from(fields), columns, None)
        .map_err(|error| errors::to_python(py, &error.into(), None))?;
    Ok(Value::Struct(Arc::new(array)))
}

/// The text of a string; a lone surrogate, which no UTF-8 has, is 22021.
fn utf8<'a>(string: &'a Bound<'_, PyString>) -> PyResult<&'a str> {
    string.to_str().map_err(|_| {
        let error = Error::new(
            SqlState::CharacterNotInRepertoire,
            "a string with a lone surrogate is no valid UTF-8",
        );
        errors::to_python(string.py(), &error, None)
    })
}

fn type_name(object: &Bound<'_, PyAny>) -> String {
    object
        .get_type()
        .name()
        .map_or_else(|_| "object".into(), |name| name.to_string())
}

fn invalid(py: Python<'_>, message: String) -> PyErr {
    errors::misuse(py, &Error::new(SqlState::InvalidParameterValue, message))
}

fn out_of_range(py: Python<'_>, message: &str) -> PyErr {
    let error = Error::new(SqlState::NumericValueOutOfRange, message);
    errors::to_python(py, &error, None)
}
