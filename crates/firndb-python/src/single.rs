//! Statements on single rows, run while the interpreter waits.
//!
//! A compiled statement takes about a microsecond and waits for nobody, so the interpreter's lock is kept and the caller's
//! own thread runs it. Whatever is not compiled, or does not succeed, goes the way of all statements.

use std::panic::{AssertUnwindSafe, catch_unwind};

use firndb::{Cell, Datum, Done, Error, Kind, OneRow, Session, Value};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyTuple, PyTzInfo};

use crate::errors;
use crate::fork::Running;
use crate::{objects, parameters};

/// Runs a compiled statement; `None` if nothing was done.
pub(crate) fn execute(
    py: Python<'_>,
    session: &Session,
    sql: &str,
    given: Option<&Bound<'_, PyAny>>,
) -> PyResult<Option<Done>> {
    let Some(items) = parameters::items(given) else {
        return Ok(None);
    };
    let others: Vec<Value>;
    let mut arguments: Vec<Datum<'_>> = Vec::with_capacity(items.len());
    let plain = items
        .iter()
        .map_while(parameters::datum)
        .map(|datum| arguments.push(datum))
        .count();
    if plain < items.len() {
        // Decimals, dates, NumPy's scalars. An error is the other way's to raise, in its place.
        let values: PyResult<_> = items.iter().map(parameters::value).collect();
        let Ok(values) = values else { return Ok(None) };
        others = values;
        arguments.clear();
        for value in &others {
            let Some(datum) = Datum::of(value) else {
                return Ok(None);
            };
            arguments.push(datum);
        }
    }
    let run = || {
        let _running = Running::begin();
        session.execute_compiled(sql, &arguments)
    };
    catch_unwind(AssertUnwindSafe(run)).map_err(|_| {
        let error = Error::internal("a panic inside the database; the statement was abandoned");
        errors::to_python(py, &error, None)
    })
}

/// Takes the row as a tuple; none if it was taken, or there was none.
pub(crate) fn take<'py>(
    py: Python<'py>,
    one: &mut OneRow,
) -> PyResult<Option<Bound<'py, PyTuple>>> {
    let Some(row) = &one.row else {
        return Ok(None);
    };
    let objects = one
        .columns
        .kinds
        .iter()
        .enumerate()
        .map(|(at, &kind)| object(py, kind, row.get(at)))
        .collect::<PyResult<Vec<_>>>()?;
    let tuple = PyTuple::new(py, objects)?;
    // What cannot be converted stays, and is an error again.
    one.row = None;
    Ok(Some(tuple))
}

fn object<'py>(py: Python<'py>, kind: Kind, cell: Cell<'_>) -> PyResult<Bound<'py, PyAny>> {
    match (kind, cell) {
        (_, Cell::Null) => Ok(py.None().into_bound(py)),
        (Kind::Boolean, Cell::Word(word)) => (word != 0).into_bound_py_any(py),
        (Kind::Signed(8), Cell::Word(word)) => (word as i8).into_bound_py_any(py),
        (Kind::Signed(16), Cell::Word(word)) => (word as i16).into_bound_py_any(py),
        (Kind::Signed(32), Cell::Word(word)) => (word as i32).into_bound_py_any(py),
        (Kind::Signed(_), Cell::Word(word)) => (word as i64).into_bound_py_any(py),
        (Kind::Unsigned(_), Cell::Word(word)) => word.into_bound_py_any(py),
        (Kind::Real, Cell::Word(word)) => f32::from_bits(word as u32).into_bound_py_any(py),
        (Kind::Double, Cell::Word(word)) => f64::from_bits(word).into_bound_py_any(py),
        (Kind::Decimal { scale, .. }, _) => match kind.number(cell) {
            Some(number) => objects::decimal(py, &digits(number, scale)),
            None => Err(unreadable(py)),
        },
        (Kind::Text(_) | Kind::RuledText, Cell::Text(text)) => {
            Ok(PyString::new(py, text).into_any())
        }
        (Kind::Bytes, Cell::Bytes(bytes)) => Ok(PyBytes::new(py, bytes).into_any()),
        (Kind::Date, Cell::Word(word)) => objects::date(py, i64::from(word as i32)),
        (Kind::Time, Cell::Word(word)) => objects::time(py, word as i64),
        (Kind::Timestamp, Cell::Word(word)) => objects::timestamp(py, word as i64, None),
        (Kind::Instant, Cell::Word(word)) => {
            let zone = PyTzInfo::utc(py)?.to_owned();
            objects::timestamp(py, word as i64, Some(&zone))
        }
        (Kind::Uuid, Cell::Bytes(bytes)) => objects::uuid(py, bytes),
        _ => Err(unreadable(py)),
    }
}

/// A decimal as text, with all digits of its scale.
fn digits(number: i128, scale: i8) -> String {
    let scale = usize::try_from(scale).unwrap_or(0);
    let sign = if number < 0 { "-" } else { "" };
    let digits = number.unsigned_abs().to_string();
    match scale {
        0 => format!("{sign}{digits}"),
        _ => {
            let digits = format!("{digits:0>width$}", width = scale + 1);
            let (whole, fraction) = digits.split_at(digits.len() - scale);
            format!("{sign}{whole}.{fraction}")
        }
    }
}

fn unreadable(py: Python<'_>) -> PyErr {
    let error = Error::internal("a stored value of another type than its column");
    errors::to_python(py, &error, None)
}
