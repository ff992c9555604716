//! Errors of the engine as the exceptions of PEP 249.
//!
//! The classes live in `firndb.exceptions`; which one is raised follows from the class of the SQLSTATE.

use firndb::{Error, SqlState};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyModule};

/// The exception for an error; `statement` is the text that `position` points into.
pub(crate) fn to_python(py: Python<'_>, error: &Error, statement: Option<&str>) -> PyErr {
    build(py, class_of(error.state), error, statement).unwrap_or_else(|failure| failure)
}

/// An exception of the interface itself: a closed or forked connection, a result that is gone.
pub(crate) fn interface(py: Python<'_>, state: SqlState, message: &str) -> PyErr {
    let error = Error::new(state, message);
    build(py, "InterfaceError", &error, None).unwrap_or_else(|failure| failure)
}

/// A misuse of the interface: bad parameters, fetching without a result.
pub(crate) fn misuse(py: Python<'_>, error: &Error) -> PyErr {
    build(py, "ProgrammingError", error, None).unwrap_or_else(|failure| failure)
}

/// 24000: fetching where no statement gave rows.
pub(crate) fn no_result(py: Python<'_>) -> PyErr {
    let error = Error::new(
        SqlState::InternalError,
        "the last statement gave no rows to fetch",
    );
    build_coded(py, "ProgrammingError", "24000", &error, None).unwrap_or_else(|failure| failure)
}

/// What went wrong in Python while the engine waited for it (a frame that does not convert), for the engine to pass on.
pub(crate) fn from_python(py: Python<'_>, error: &PyErr) -> Error {
    let value = error.value(py);
    let told = |name: &str| {
        value
            .getattr(name)
            .and_then(|text| text.extract::<String>())
    };
    let state = told("sqlstate").ok().and_then(|code| SqlState::of(&code));
    match (state, told("message")) {
        (Some(state), Ok(message)) => Error::new(state, message),
        _ => Error::new(SqlState::InvalidParameterValue, value.to_string()),
    }
}

/// The class of PEP 249 for a SQLSTATE.
fn class_of(state: SqlState) -> &'static str {
    let code = state.code();
    match &code[..2] {
        "08" => "InterfaceError",
        "0A" => "NotSupportedError",
        "23" => "IntegrityError",
        _ if state == SqlState::InvalidParameterValue => "ProgrammingError",
        "21" | "22" => "DataError",
        "25" | "40" | "53" | "54" | "55" | "57" | "58" => "OperationalError",
        "24" | "26" | "2B" | "3B" | "3D" | "3F" | "42" => "ProgrammingError",
        _ => "InternalError",
    }
}

fn build(py: Python<'_>, class: &str, error: &Error, statement: Option<&str>) -> PyResult<PyErr> {
    build_coded(py, class, error.state.code(), error, statement)
}

fn build_coded(
    py: Python<'_>,
    class: &str,
    code: &str,
    error: &Error,
    statement: Option<&str>,
) -> PyResult<PyErr> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module = MODULE
        .get_or_try_init(py, || py.import("firndb.exceptions").map(Bound::unbind))?
        .bind(py);
    let attributes = PyDict::new(py);
    attributes.set_item("sqlstate", code)?;
    attributes.set_item("detail", error.detail.as_deref())?;
    attributes.set_item("hint", error.hint.as_deref())?;
    attributes.set_item("position", error.position)?;
    attributes.set_item("statement", statement)?;
    let value = module
        .getattr(class)?
        .call((error.message.as_str(),), Some(&attributes))?;
    Ok(PyErr::from_value(value))
}
