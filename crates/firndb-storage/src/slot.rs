//! The name of a row's place.

/// A row's place: block number and offset. Shown to the engine as a `u64`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Slot(pub u64);
