//! What goes in and out of a session: configuration, parameters, frames, outcomes, rows.
//!
//! The leaves below the statement layer; databases and sessions themselves are in [`crate::database`].

pub mod cancel;
pub mod memory;
pub mod rows;
pub mod workers;

use std::collections::HashMap;

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, SchemaRef};

pub use rows::Rows;

use crate::{Error, Result, SqlState, Value};

/// How a database is opened. Each is also a setting (`SET name = value`).
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// Bytes for tables and operators together; `None`: 80 % of the host's memory.
    pub memory_limit: Option<usize>,
    /// Threads that a query uses; `None`: the host's cores.
    pub threads: Option<usize>,
    /// Where operators spill; `None`: the system's temporary directory.
    pub temp_directory: Option<std::path::PathBuf>,
    /// Whether a database file is opened without writing to it.
    pub read_only: bool,
    /// What commits to a database file wait for; `None`: that they are durable.
    pub synchronous: Option<firndb_storage::Synchronous>,
}

/// Values for a statement's parameters.
#[derive(Debug, Clone)]
pub enum Parameters {
    /// `?` and `$1`, from the first.
    Positional(Vec<Value>),
    /// `$name` (and `:name`).
    Named(HashMap<String, Value>),
}

impl Default for Parameters {
    fn default() -> Self {
        Parameters::Positional(Vec::new())
    }
}

/// Record batches that are scanned in place under a name (a caller's data frame).
#[derive(Debug, Clone)]
pub struct Frame {
    /// Its schema, as the caller's Arrow data has it.
    pub schema: SchemaRef,
    /// Its rows.
    pub batches: Vec<RecordBatch>,
}

impl Frame {
    /// In a field's metadata, why its column can't be read: a SQLSTATE, a blank, a message. Such a column is text without values,
    /// and only a statement that reads it fails.
    pub const REFUSED: &str = "firndb.refused";

    /// Why a column can't be read, if so.
    pub(crate) fn refusal(field: &Field) -> Option<Error> {
        let (code, message) = field.metadata().get(Frame::REFUSED)?.split_once(' ')?;
        let state = SqlState::of(code).unwrap_or(SqlState::InvalidParameterValue);
        Some(Error::new(state, message))
    }
}

/// Finds frames of the caller by name, when the catalog knows no relation of that name.
pub trait FrameSource: Send + Sync {
    /// The frame, if the caller has one of that name.
    fn find(&self, name: &str) -> Result<Option<Frame>>;
}

/// How far the running statement is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// From 0 to 1.
    pub fraction: f64,
    /// Rows read so far.
    pub rows: u64,
}

/// What a statement did.
#[derive(Debug)]
pub struct Outcome {
    /// The command tag, as PostgreSQL's: `SELECT`, `INSERT`, `CREATE TABLE`, `BEGIN` …
    pub tag: &'static str,
    /// Rows inserted, updated, deleted, copied.
    pub affected: Option<u64>,
    /// Rows to read: queries, RETURNING, SHOW, EXPLAIN.
    pub rows: Option<Rows>,
}

impl Outcome {
    /// A command without rows.
    pub fn done(tag: &'static str) -> Self {
        Outcome {
            tag,
            affected: None,
            rows: None,
        }
    }

    /// A command that wrote rows.
    pub fn affected(tag: &'static str, rows: u64) -> Self {
        Outcome {
            tag,
            affected: Some(rows),
            rows: None,
        }
    }

    /// A command that yields rows.
    pub fn rows(tag: &'static str, rows: Rows) -> Self {
        Outcome {
            tag,
            affected: None,
            rows: Some(rows),
        }
    }
}
