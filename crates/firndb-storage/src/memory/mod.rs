//! Memory: the budget that everything large draws on, and the arena of frozen memory.
//!
//! ```text
//!   hot blocks, undo, indexes ──────────────────┐
//!                                               ├──► Budget   one limit for the database
//!   frozen columns ──► Arena ──► Segment ───────┘
//!                      ranges    pages of one memfd
//!                                   │ mapped privately
//!                                   ▼
//!                                PrivateMemory   one array over many extents, its user's own
//! ```
//!
//! Frozen memory never has a writable mapping: the arena fills its pages by writing to the file
//! descriptor, or in place while nobody sees them (see [`open`]), and shows them through a mapping that is read-only.

pub mod arena;
pub mod budget;
pub mod file_size;
mod open;
mod pages;
pub mod private;
#[cfg(test)]
mod private_tests;
mod ranges;
mod segment;
mod stream;
#[cfg(test)]
mod tests;
mod trim;
mod writer;

pub use arena::{Arena, ArenaRange, FrozenBytes};
pub use budget::{Budget, Kind, MemoryUse, Reclaim, Reservation};
pub use open::OpenRange;
pub use private::{PrivateMemory, is_frozen};
pub(crate) use stream::ask;
pub use stream::stream;
pub use trim::set_trim;
pub(crate) use trim::trim;
pub use writer::RangeWriter;
