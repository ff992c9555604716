//! Databases and sessions: what the faces (Rust, Python, shell) call.
//!
//! ```text
//! Database ──▶ Shared: storage, catalog, workers, budget, DataFusion's rules and functions
//!    │ connect
//!    ▼
//! Session ──▶ SessionState: settings, temporary objects, registered frames, prepared statements, the open transaction
//! ```
//!
//! A database in a file goes with its last handle and open session (`file`).
//!
//! A session's statements run one after the other under its lock; `interrupt`, `progress` and `in_transaction` do not take it.

mod answers;
mod append;
mod compiled;
mod connection;
mod execute;
mod file;
mod foreign_settings;
mod maintenance;
mod null_order;
mod plans;
mod pragma;
mod prepare;
mod rules;
mod session;
mod setting_values;
mod settings;
mod shown_settings;
mod transaction;

pub use connection::Database;
pub use session::{Prepared, Session};
