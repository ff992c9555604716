//! The name of a row's place.

/// A row's place: block number and offset. Shown to the engine as a `u64`.
///
/// It is good for the transaction that read it, as long as that is open; afterwards compaction may move the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Slot(pub u64);
