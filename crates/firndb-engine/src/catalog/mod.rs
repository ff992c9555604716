//! The catalog: what names mean, as immutable snapshots shared by `Arc`.
//!
//! ```text
//! Catalog (one per database)          CatalogState (one per transaction)
//! ┌───────────────────────┐  begin    ┌─────────────────────────────────┐
//! │ newest: CatalogState  │ ────────▶ │ schemas: name ─▶ SchemaEntry    │
//! └───────────▲───────────┘           │ temporary: the session's schema │
//!             └── commit: replay ──── └─────────────────────────────────┘
//! ```
//!
//! A transaction reads the state that it began with and changes a private copy ([`CatalogChanges`]); commit replays
//! the changes on the newest state and fails with 40001 when another transaction changed the same objects.
//!
//! Invariants: a published state never changes; an entry is replaced, never edited, so two states hold the same object
//! exactly when they hold the same `Arc`.

mod change;
mod entry;
mod index;
mod reference;
mod sequence;
mod settings;
mod state;
pub mod store;

pub use change::{Catalog, CatalogChanges, CatalogMark};
pub use entry::{
    Column, Constraint, Identity, MacroBody, MacroEntry, Relation, SchemaEntry, TableEntry,
    TypeEntry, ViewEntry,
};
pub use index::{IndexEntry, IndexKey, IndexPart, UniqueKey, quoted};
pub use reference::{ForeignKey, ReferenceAction, Referrer};
pub use sequence::{SequenceEntry, SequenceOptions};
pub use settings::{TableSettings, name as strings_name};
pub use state::{CatalogState, fold};

/// The schema of every database, where names without a schema are made. `public` means it, too.
pub const MAIN_SCHEMA: &str = "main";
/// The schema of a session's temporary objects.
pub const TEMPORARY_SCHEMA: &str = "temp";
/// The name of the database in names of three parts and in `information_schema`.
pub const DATABASE: &str = "firndb";
