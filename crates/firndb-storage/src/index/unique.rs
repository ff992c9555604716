//! The concurrent ordered multimap behind PRIMARY KEY, UNIQUE and CREATE INDEX.
//!
//! A B+ tree without latches on reads (`scc::TreeIndex`) over pairs of key and slot. Being in the set is all that an
//! entry says, so adding and taking away an entry are atomic by themselves. A writer that adds its entry first
//! and then reads the key's slots finds every other writer of the key that did so before it, or is found by it:
//! this makes the uniqueness check of concurrent transactions sound.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use scc::{Guard, TreeIndex};

use super::key::Probe;
use super::range::ascending;
use crate::Result;
use crate::index::{Key, KeyEncoder};
use crate::memory::{Budget, Kind};
use crate::slot::Slot;

/// A concurrent ordered multimap from keys to slots. Every method takes `&self` and may be called from many threads.
pub struct UniqueIndex {
    pub(super) tree: Tree,
    budget: Arc<Budget>,
    entries: AtomicUsize,
    /// What the budget was charged.
    bytes: AtomicUsize,
}

pub(super) enum Tree {
    /// Numbers with their slots, and the slots of NULLs.
    Integer(TreeIndex<(u64, u64), ()>, TreeIndex<u64, ()>),
    Bytes(TreeIndex<(Arc<[u8]>, u64), ()>),
}

/// Estimated bytes of an entry: the pair, its share of half-empty leaves and inner nodes.
const ENTRY_BYTES: usize = 32;
/// Estimated bytes of a key of its own: counts, allocation.
const KEY_BYTES: usize = 40;

impl UniqueIndex {
    /// An empty index over the keys of `encoder`.
    pub fn new(encoder: &KeyEncoder, budget: &Arc<Budget>) -> Self {
        let tree = if encoder.is_integer() {
            Tree::Integer(TreeIndex::new(), TreeIndex::new())
        } else {
            Tree::Bytes(TreeIndex::new())
        };
        Self {
            tree,
            budget: Arc::clone(budget),
            entries: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
        }
    }

    /// Adds an entry; `false` if it was there. `OutOfMemory` when the budget does not allow it.
    ///
    /// A key that another encoder made is never found and never added.
    pub fn insert(&self, key: &Key, slot: Slot) -> Result<bool> {
        let bytes = entry_bytes(key);
        self.budget.try_charge(Kind::Index, bytes)?;
        // Counted before it can be found, and so before it can be removed.
        self.entries.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let added = match (&self.tree, key) {
            (Tree::Integer(tree, _), Key::Integer(number)) => {
                tree.insert_sync((*number, slot.0), ()).is_ok()
            }
            (Tree::Integer(_, nulls), Key::Null) => nulls.insert_sync(slot.0, ()).is_ok(),
            (Tree::Bytes(tree), Key::Bytes(bytes)) => {
                tree.insert_sync((Arc::clone(bytes), slot.0), ()).is_ok()
            }
            _ => false,
        };
        if !added {
            self.uncount(bytes);
        }
        Ok(added)
    }

    /// Takes an entry away; `false` if it was not there.
    pub fn remove(&self, key: &Key, slot: Slot) -> bool {
        let removed = match (&self.tree, key) {
            (Tree::Integer(tree, _), Key::Integer(number)) => tree.remove_sync(&(*number, slot.0)),
            (Tree::Integer(_, nulls), Key::Null) => nulls.remove_sync(&slot.0),
            (Tree::Bytes(tree), Key::Bytes(bytes)) => tree.remove_sync(&Probe(bytes, slot.0)),
            _ => false,
        };
        if removed {
            self.uncount(entry_bytes(key));
        }
        removed
    }

    /// The slots of a key in ascending order: every entry that is there during the whole call, maybe some that come or go meanwhile.
    pub fn slots(&self, key: &Key) -> Vec<Slot> {
        let guard = Guard::new();
        match (&self.tree, key) {
            (Tree::Integer(_, nulls), Key::Null) => {
                nulls.iter(&guard).map(|(slot, ())| Slot(*slot)).collect()
            }
            (Tree::Integer(tree, _), Key::Integer(number)) => {
                let from = Bound::Included((*number, 0));
                let to = Bound::Included((*number, u64::MAX));
                let found = ascending(tree, from, to, usize::MAX, &guard);
                found.into_iter().map(|entry| Slot(entry.1)).collect()
            }
            (Tree::Bytes(tree), Key::Bytes(bytes)) => {
                let from = Bound::Included(Probe(bytes, 0));
                let to = Bound::Included(Probe(bytes, u64::MAX));
                let found = ascending(tree, from, to, usize::MAX, &guard);
                found.into_iter().map(|entry| Slot(entry.1)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.load(Ordering::Relaxed)
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn uncount(&self, bytes: usize) {
        self.entries.fetch_sub(1, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.budget.release(Kind::Index, bytes);
    }
}

impl Drop for UniqueIndex {
    fn drop(&mut self) {
        self.budget.release(Kind::Index, *self.bytes.get_mut());
    }
}

impl std::fmt::Debug for UniqueIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UniqueIndex")
            .field("entries", &self.len())
            .finish_non_exhaustive()
    }
}

fn entry_bytes(key: &Key) -> usize {
    match key {
        Key::Integer(_) | Key::Null => ENTRY_BYTES,
        Key::Bytes(bytes) => ENTRY_BYTES + KEY_BYTES + bytes.len(),
    }
}
