//! Storage: blocks, versions and transactions over Apache Arrow.
//!
//! After *Mainlining Databases*. Two kinds of memory: **hot** memory is changed in place by many threads and never shown
//! outside a storage operation; **frozen** memory is written once, immutable, and shown to everyone.
//!
//! ```text
//!   Storage ── Transaction ── Snapshot                       what callers hold
//!      │            │
//!      │        Table (handle: relation + layout) ── Scan, BulkInsert
//!      │            │
//!   collect ──► observe ◄── freeze (cold blocks)
//!      │        relation: blocks, columns, access, indexes    one per table
//!      │            │
//!      │        block: hot columns and heaps │ frozen extents
//!      │            │
//!      └──────── undo, protocol, reclaim, clock, memory       versions, epochs, time, bytes
//!
//!   durable: the log and the database file                   redo of commits, extents of tables
//! ```
//!
//! Arrows point down; [`protocol`] says why it is safe.

/// Checks an invariant where tests turn internal assertions on (feature `assertions`).
macro_rules! invariant {
    ($($condition:tt)*) => {
        if cfg!(feature = "assertions") {
            assert!($($condition)*);
        }
    };
}

mod block;
mod cell;
mod clock;
mod collect;
pub mod durable;
pub mod error;
mod freeze;
pub mod frozen;
pub mod index;
pub mod memory;
mod observe;
pub mod protocol;
mod reclaim;
mod relation;
mod resources;
pub mod slot;
mod snapshot;
mod storage;
pub mod table;
pub mod transaction;
mod undo;

pub use cell::{Cell, Row};
pub use durable::checkpoint::Checkpoint;
pub use durable::open::Recovered;
pub use durable::{Compression, Definitions, FileOptions, Synchronous};
pub use error::{Error, Result};
pub use memory::MemoryUse;
pub use protocol::Timestamp;
pub use snapshot::Snapshot;
pub use storage::{Storage, StorageConfig};
pub use table::{
    BlockInfo, BlockState, BulkInsert, ColumnStatistics, Form, Freeze, FreezeCounts, IndexCursor,
    IndexDefinition, KeyProgram, Layout, Moment, PartOrder, Reader, RowByKey, RowUpdate, Scan,
    Slot, Strings, Table, TableStatistics,
};
pub use transaction::{Isolation, Savepoint, Transaction};
