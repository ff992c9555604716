//! Indexes: memcomparable keys, and a concurrent ordered multimap from keys to slots.
//!
//! An entry leads to a slot and says nothing about visibility: the reader rechecks the key on the version
//! that it sees. Entries of one key stand side by side, so that two transactions can write the same key at
//! the same time and find each other.

pub mod key;
mod range;
#[cfg(test)]
mod tests;
pub mod tree;
pub mod unique;

pub use key::{Key, KeyEncoder};
pub use range::{Bounds, KeyRange};
pub use unique::UniqueIndex;
