//! The engine: from SQL text to record batches.
//!
//! ```text
//! text ─▶ parse ─▶ names ─▶ statement ─┬─▶ catalog change, transaction control, settings
//!                                      ├─▶ query: logical plan ─▶ optimize ─▶ operators ─▶ batches
//!                                      └─▶ write: a query yields slots and values, apply writes them
//! ```
//!
//! | module | holds |
//! | --- | --- |
//! | [`error`] | one error with SQLSTATE, position and hint |
//! | [`types`] | SQL types and the Arrow fields they are stored as |
//! | `document` | a JSON text as a tree |
//! | [`expr`] | arithmetic, casts and functions that do not lie |
//! | [`catalog`] | schemas, tables, constraints, views; immutable snapshots |
//! | [`scan`] | tables and frames as DataFusion sources; physical rules |
//! | [`files`] | CSV, Parquet, JSON and Arrow files, in and out |
//! | [`metadata`] | `information_schema`, `pg_catalog`, table functions about the database |
//! | [`statement`] | DDL, DML, COPY, EXPLAIN, transaction control |
//! | [`compiled`] | statements on single rows, compiled once |
//! | [`parse`] | text to statements: dialect, names, parameters |
//! | [`session`] | what goes in and out of a session: parameters, frames, rows, cancellation |
//! | [`database`] | databases, sessions, transactions, settings |
#![forbid(unsafe_code)]

pub mod catalog;
pub mod compiled;
pub mod database;
mod document;
pub mod error;
pub mod expr;
pub mod files;
pub mod metadata;
pub mod parse;
pub mod scan;
pub mod session;
pub mod statement;
pub mod types;

pub use compiled::{Datum, Done, Kind, OneRow};
pub use database::{Database, Prepared, Session};
pub use datafusion::scalar::ScalarValue as Value;
pub use error::{Error, Result, SqlState};
pub use session::{Config, Frame, FrameSource, Outcome, Parameters, Progress, Rows};
