//! FirnDB for Rust programs: `Database`, `Session`, `Rows`.
//!
//! What Rust programs depend on; the other faces (Python, shell) are built on it too.

pub mod text;

pub use arrow;
/// The SQL name of a column's type.
pub use firndb_engine::types::sql_name;
pub use firndb_engine::{
    Config, Database, Error, Frame, FrameSource, Outcome, Parameters, Prepared, Progress, Result,
    Rows, Session, SqlState, Value,
};
/// The forms that rows can be asked for.
pub use firndb_storage::Form;
/// Columns as one writable array: frozen pages mapped one after the other.
pub use firndb_storage::memory::{PrivateMemory, is_frozen};
