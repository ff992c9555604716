//! Frozen memory: immutable extents of Arrow arrays.
//!
//! ```text
//!   RecordBatch, RecordBatch, …      foreign buffers, any accepted type
//!        │ build: one task per extent and column, several threads
//!        ▼
//!   Extent ── FrozenColumn   values │ validity            one arena range a column, page-aligned
//!          ├─ FrozenColumn   offsets │ heap │ validity    + views, built when first asked for
//!          └─ …
//!        │ slice(offset, length, Form)
//!        ▼
//!   Arrow arrays that keep the range alive
//! ```
//!
//! After *Mainlining Databases*, section 4 (the frozen state of a block); an extent is column-major over
//! many blocks, so that a column of it is one array and one mapping.
//!
//! Modules: [`build`] drives the copy of one extent after another; `adopt` takes memory that is the arena's already; `source` says what foreign types are
//! taken for a stored one; `fixed`, `bytes`, `nested` copy a column of such values, and on the way compute
//! [`zone`] bounds, the [`distinct`] sketch and the extremes; `cells` does so for what hot blocks hold; [`strings`] has the formats that
//! strings can have beyond the first; [`column`] shows the result.

mod adopt;
pub mod build;
mod bytes;
mod bytes_statistics;
mod cells;
pub mod column;
pub mod distinct;
pub mod extent;
mod extremes;
mod fixed;
pub mod form;
mod nested;
mod one_nan;
mod run_extremes;
#[cfg(test)]
mod samples;
mod source;
pub mod strings;
#[cfg(test)]
mod tests;
mod value;
pub mod zone;

pub use build::{build_extents, plan_extents};
pub use column::FrozenColumn;
pub use distinct::DistinctSketch;
pub use extent::Extent;
pub use form::Form;
pub use one_nan::{one_nan, rows_with_one_nan};
pub use source::as_stored;
pub use strings::Strings;
pub use zone::{Zone, Zones};
