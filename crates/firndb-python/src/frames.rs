//! Data frames of the caller, found by name.
//!
//! The engine asks for a frame when the catalog knows no relation of a name; the variables of the calling Python code are looked at
//! only then. What was found is kept for the statement (and for a relation, until it is read), so each frame is converted
//! once and every scan of it sees the same rows.
//!
//! A relation of the same connection that nobody has read yet can't be run while the engine plans another statement on that
//! session. Relations that a statement mentions are therefore read before it starts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use firndb::{Error, Frame, FrameSource};
use pyo3::prelude::*;
use pyo3_arrow::PyRecordBatchReader;

use crate::columns::ColumnTable;
use crate::errors;
use crate::relation::NativeRelation;
use crate::text;

/// The frames that one statement can name.
pub(crate) struct Frames {
    /// Python's number of the calling thread, which waits while frames are looked for.
    thread: u64,
    state: Mutex<State>,
}

struct State {
    /// Whether the caller's variables may still be looked at: only while its call lasts.
    open: bool,
    found: HashMap<String, Frame>,
}

impl Frames {
    /// The frames of the Python code that calls.
    pub(crate) fn of_caller(py: Python<'_>) -> PyResult<Arc<Frames>> {
        Ok(Arc::new(Frames {
            thread: thread_ident(py)?,
            state: Mutex::new(State {
                open: true,
                found: HashMap::new(),
            }),
        }))
    }

    /// Ends the search: from now on only what was found is there.
    pub(crate) fn close(&self) {
        self.lock().open = false;
    }

    /// Gives a frame a name of its own.
    pub(crate) fn insert(&self, name: &str, frame: Frame) {
        self.lock().found.insert(name.to_owned(), frame);
    }

    /// Reads the relations among the caller's variables that `sql` mentions and nobody has read yet.
    pub(crate) fn read_relations(&self, py: Python<'_>, sql: &str) -> PyResult<()> {
        for name in text::names(sql) {
            if let Some(object) = self.variable(py, &name)?
                && let Ok(relation) = object.cast::<NativeRelation>()
            {
                relation.get().read(py)?;
            }
        }
        Ok(())
    }

    /// What `firndb.frames` finds under a name: something with an Arrow stream, or nothing.
    fn variable<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        let found = py
            .import("firndb.frames")?
            .call_method1("find", (name, self.thread))?;
        Ok(if found.is_none() { None } else { Some(found) })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FrameSource for Frames {
    fn find(&self, name: &str) -> Result<Option<Frame>, Error> {
        {
            let state = self.lock();
            if let Some(frame) = state.found.get(name) {
                return Ok(Some(frame.clone()));
            }
            if !state.open {
                return Ok(None);
            }
        }
        let frame = Python::attach(|py| {
            self.variable(py, name)
                .and_then(|found| found.map(|object| import(&object)).transpose())
                .map_err(|error| errors::from_python(py, &error))
        })?;
        if let Some(frame) = &frame {
            self.lock().found.insert(name.to_owned(), frame.clone());
        }
        Ok(frame)
    }
}

/// The batches of an object with an Arrow stream.
pub(crate) fn import(object: &Bound<'_, PyAny>) -> PyResult<Frame> {
    let py = object.py();
    if let Ok(table) = object.cast::<ColumnTable>() {
        return Ok(table.get().frame.clone());
    }
    if let Ok(relation) = object.cast::<NativeRelation>() {
        return relation.get().frame(py);
    }
    let reader = object.extract::<PyRecordBatchReader>()?.into_reader()?;
    let schema = reader.schema();
    let batches = py
        .detach(move || reader.collect::<Result<Vec<_>, _>>())
        .map_err(|error| errors::to_python(py, &error.into(), None))?;
    Ok(Frame { schema, batches })
}

fn thread_ident(py: Python<'_>) -> PyResult<u64> {
    use std::cell::OnceCell;
    thread_local! {
        static IDENT: OnceCell<u64> = const { OnceCell::new() };
    }
    if let Some(ident) = IDENT.with(|ident| ident.get().copied()) {
        return Ok(ident);
    }
    let ident: u64 = py
        .import("threading")?
        .call_method0("get_ident")?
        .extract()?;
    IDENT.with(|cell| {
        let _ = cell.set(ident);
    });
    Ok(ident)
}
