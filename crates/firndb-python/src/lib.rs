//! The Python module `_firndb`: FirnDB's sessions, results and parameters as Python and Arrow see them.
//!
//! ```text
//! firndb (Python)      names, frames, displays, PEP 249
//!        │
//! _firndb (this crate) ─┬─ connection   a session: execute, fetch, append
//!                       ├─ single       statements on single rows, without leaving the interpreter
//!                       ├─ relation     a lazy result that holds what it read
//!                       ├─ objects      Arrow → Python rows          ┐
//!                       ├─ arrays       Arrow → NumPy                ├ one converter a column
//!                       ├─ export, own  Arrow → Arrow C stream       ┘
//!                       ├─ parameters   Python → values of a statement
//!                       ├─ many         sets of parameters → Arrow
//!                       ├─ columns      NumPy and lists → Arrow
//!                       └─ frames       data frames of the caller, found by name
//! ```
//!
//! Two rules keep threads apart. The interpreter's lock is released while the engine works; and no lock of ours is
//! waited for with the interpreter's lock held (see [`lock`]), so the two can't block each other.
//! After `fork` nothing of the parent's is touched, not even to free it (see [`fork`]).
//!
//! The crate links as an extension of Python and is tested from there (`python/tests`).

use pyo3::prelude::*;

mod allocator;
mod arrays;
mod blocking;
mod columns;
mod connection;
mod cursor;
mod errors;
mod export;
mod fork;
mod frames;
mod link;
mod lock;
mod many;
mod objects;
mod own;
mod parameters;
mod relation;
mod single;
mod stream;
mod text;

/// The native part of the package `firndb`.
#[pymodule]
mod _firndb {
    use super::*;

    #[pymodule_export]
    use super::columns::{ColumnTable, hold, table_of_columns};
    #[pymodule_export]
    use super::connection::{Connection, NativeDatabase};
    #[pymodule_export]
    use super::export::BatchStream;
    #[pymodule_export]
    use super::relation::{NativeRelation, RelationRows};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        allocator::configure();
        fork::watch();
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("REFUSED", firndb::Frame::REFUSED)
    }
}
