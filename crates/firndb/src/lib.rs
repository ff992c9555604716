//! FirnDB for Rust programs: `Database`, `Session`, `Rows`.
//!
//! What Rust programs depend on; the other faces (Python, shell) are built on it too.

pub mod text;

pub use arrow;
/// The SQL name of a column's type.
pub use firndb_engine::types::sql_name;
pub use firndb_engine::{
    Config, Database, Datum, Done, Error, Frame, FrameSource, Kind, OneRow, Outcome, Parameters,
    Prepared, Progress, Result, Rows, Session, SqlState, Value,
};
/// A value of a row as its bits.
pub use firndb_storage::Cell;
/// The forms that rows can be asked for.
pub use firndb_storage::Form;
/// What commits to a database file wait for.
pub use firndb_storage::Synchronous;
/// How the program's allocator returns memory.
pub use firndb_storage::memory::set_trim;
/// Columns as one writable array: frozen pages mapped one after the other.
pub use firndb_storage::memory::{PrivateMemory, is_frozen};
