//! The concurrent ordered multimap behind PRIMARY KEY, UNIQUE and CREATE INDEX.
//!
//! A [B+ tree](super::tree) over pairs of key and slot. Being in the set is all that an
//! entry says, so adding and taking away an entry are atomic by themselves. A writer that adds its entry first
//! and then reads the key's slots finds every other writer of the key that did so before it, or is found by it:
//! this makes the uniqueness check of concurrent transactions sound.
//!
//! The budget counts the nodes of the trees and the keys in them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::tree::{self, Bytes, BytesProbe, Edge, Garbage, Host, Kind, Number};
use crate::Result;
use crate::index::{Key, KeyEncoder};
use crate::memory::{self, Budget};
use crate::protocol::Standard;
use crate::reclaim::{Pin, Reclaimer};
use crate::slot::Slot;

/// Words of a node: with its head a kibibyte.
const NODE: usize = 125;

pub(super) type Entries<K> = tree::Tree<Standard, K, NODE>;

/// A concurrent ordered multimap from keys to slots. Every method takes `&self` and may be called from many threads.
pub struct UniqueIndex {
    pub(super) tree: Tree,
    entries: AtomicUsize,
    space: Space,
}

#[derive(Debug)]
pub(super) enum Tree {
    /// Numbers with their slots, and the slots of NULLs, if there ever were any.
    Number(Entries<Number>, OnceLock<Entries<Number>>),
    Bytes(Entries<Bytes>),
}

impl UniqueIndex {
    /// An empty index over the keys of `encoder`, with epochs of its own.
    pub fn new(encoder: &KeyEncoder, budget: &Arc<Budget>) -> Self {
        Self::within(encoder, budget, &Arc::new(Reclaimer::new()))
    }

    /// An empty index over the keys of `encoder`.
    pub(crate) fn within(
        encoder: &KeyEncoder,
        budget: &Arc<Budget>,
        reclaimer: &Arc<Reclaimer>,
    ) -> Self {
        let space = Space {
            budget: Arc::clone(budget),
            reclaimer: Arc::clone(reclaimer),
            bytes: AtomicUsize::new(0),
            dead: Mutex::default(),
        };
        space.add(Entries::<Number>::NODE);
        let tree = if encoder.is_integer() {
            Tree::Number(Entries::new(), OnceLock::new())
        } else {
            Tree::Bytes(Entries::new())
        };
        Self {
            tree,
            entries: AtomicUsize::new(0),
            space,
        }
    }

    /// What every call needs: proof that nothing is freed meanwhile. Held for one storage operation.
    pub fn pin(&self) -> Pin<'_> {
        self.space.reclaimer.pin()
    }

    /// Adds an entry; `false` if it was there. `OutOfMemory` when the budget does not allow it.
    ///
    /// A key that another encoder made is never found and never added.
    pub fn insert(&self, key: &Key, slot: Slot, pin: &Pin<'_>) -> Result<bool> {
        // Counted before it can be found, and so before it can be removed.
        self.entries.fetch_add(1, Ordering::Relaxed);
        let space = &self.space;
        let added = match (&self.tree, key) {
            (Tree::Number(tree, _), Key::Integer(number)) => {
                tree.insert((*number, slot.0), space, pin)
            }
            (Tree::Number(_, nulls), Key::Null) => {
                let made = || {
                    space.add(Entries::<Number>::NODE);
                    Entries::new()
                };
                nulls.get_or_init(made).insert((0, slot.0), space, pin)
            }
            (Tree::Bytes(tree), Key::Bytes(bytes)) => {
                let probe = BytesProbe::new(bytes, slot.0);
                let owned = Bytes::bytes(probe);
                space.reserve(owned).and_then(|()| {
                    let added = tree.insert(probe, space, pin);
                    if !matches!(added, Ok(true)) {
                        space.give_back(owned);
                    }
                    added
                })
            }
            _ => Ok(false),
        };
        if !matches!(added, Ok(true)) {
            self.entries.fetch_sub(1, Ordering::Relaxed);
        }
        added
    }

    /// Takes an entry away; `false` if it was not there.
    pub fn remove(&self, key: &Key, slot: Slot, pin: &Pin<'_>) -> bool {
        let space = &self.space;
        let removed = match (&self.tree, key) {
            (Tree::Number(tree, _), Key::Integer(number)) => {
                tree.remove((*number, slot.0), space, pin)
            }
            (Tree::Number(_, nulls), Key::Null) => nulls
                .get()
                .is_some_and(|nulls| nulls.remove((0, slot.0), space, pin)),
            (Tree::Bytes(tree), Key::Bytes(bytes)) => {
                tree.remove(BytesProbe::new(bytes, slot.0), space, pin)
            }
            _ => false,
        };
        if removed {
            self.entries.fetch_sub(1, Ordering::Relaxed);
        }
        removed
    }

    /// The slots of a key in ascending order: every entry that is there during the whole call, maybe some that come or go meanwhile.
    #[inline]
    pub fn slots(&self, key: &Key, pin: &Pin<'_>) -> Vec<Slot> {
        match (&self.tree, key) {
            (Tree::Number(tree, _), Key::Integer(number)) => {
                slots_between(tree, (*number, 0), (*number, u64::MAX), pin)
            }
            (Tree::Number(_, nulls), Key::Null) => match nulls.get() {
                Some(nulls) => slots_between(nulls, (0, 0), (0, u64::MAX), pin),
                None => Vec::new(),
            },
            (Tree::Bytes(tree), Key::Bytes(bytes)) => {
                let end = |slot: u64| BytesProbe::new(bytes, slot);
                slots_between(tree, end(0), end(u64::MAX), pin)
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

    /// Bytes of its nodes and keys.
    pub fn bytes(&self) -> usize {
        self.space.bytes.load(Ordering::Relaxed)
    }
}

#[inline]
fn slots_between<K: Kind>(
    tree: &Entries<K>,
    from: K::Probe<'_>,
    to: K::Probe<'_>,
    pin: &Pin<'_>,
) -> Vec<Slot> {
    let mut slots = Vec::new();
    if tree.slots_in_leaf(from, to, &mut slots, pin).is_none() {
        slots.clear();
        let mut found = Vec::new();
        let ends = (Edge::Before(from), Edge::After(to));
        tree.scan(ends, false, usize::MAX, &mut found, pin);
        slots.extend(found.iter().map(tree::Words::slot));
    }
    slots.into_iter().map(Slot).collect()
}

impl std::fmt::Debug for UniqueIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UniqueIndex")
            .field("entries", &self.len())
            .finish_non_exhaustive()
    }
}

/// The memory of an index.
struct Space {
    budget: Arc<Budget>,
    reclaimer: Arc<Reclaimer>,
    /// What the budget was charged.
    bytes: AtomicUsize,
    /// What is out of the trees and not handed to the reclaimer yet.
    dead: Mutex<Vec<Dead>>,
}

/// Things that are handed to the reclaimer together.
const BATCH: usize = 64;

#[expect(dead_code, reason = "held to be dropped")]
enum Dead {
    Number(Garbage<Standard, Number, NODE>),
    Bytes(Garbage<Standard, Bytes, NODE>),
}

impl Space {
    fn add(&self, bytes: usize) {
        self.budget.charge(memory::Kind::Index, bytes);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn reserve(&self, bytes: usize) -> Result<()> {
        self.budget.try_charge(memory::Kind::Index, bytes)?;
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    fn give_back(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.budget.release(memory::Kind::Index, bytes);
    }

    fn bury(&self, dead: Dead, bytes: usize) {
        self.give_back(bytes);
        let mut all = self.dead.lock();
        all.push(dead);
        if all.len() < BATCH {
            return;
        }
        let dead = std::mem::take(&mut *all);
        drop(all);
        self.reclaimer.retire(Box::new(move || drop(dead)));
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        self.budget
            .release(memory::Kind::Index, *self.bytes.get_mut());
    }
}

impl Host<Standard, Number, NODE> for Space {
    type Error = crate::Error;

    fn reserve(&self, bytes: usize) -> Result<()> {
        Space::reserve(self, bytes)
    }

    fn charge(&self, bytes: usize) {
        self.add(bytes);
    }

    fn release(&self, bytes: usize) {
        self.give_back(bytes);
    }

    fn retire(&self, garbage: Garbage<Standard, Number, NODE>, bytes: usize) {
        self.bury(Dead::Number(garbage), bytes);
    }
}

impl Host<Standard, Bytes, NODE> for Space {
    type Error = crate::Error;

    fn reserve(&self, bytes: usize) -> Result<()> {
        Space::reserve(self, bytes)
    }

    fn charge(&self, bytes: usize) {
        self.add(bytes);
    }

    fn release(&self, bytes: usize) {
        self.give_back(bytes);
    }

    fn retire(&self, garbage: Garbage<Standard, Bytes, NODE>, bytes: usize) {
        self.bury(Dead::Bytes(garbage), bytes);
    }
}
