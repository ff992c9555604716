//! The trees of indexes under loom: nodes of four entries, so that one insertion splits a leaf and one removal merges two.
//!
//! Nodes out of the tree are kept to the end: freeing is the epochs' business.
#![allow(clippy::unwrap_used)]

use std::convert::Infallible;

use loom::sync::{Arc, Mutex};
use loom::thread;

use firndb_storage_loom::Model;
use firndb_storage_loom::index::tree::{Edge, Garbage, Host, Number, Tree};
use firndb_storage_loom::protocol::Epochs;

const N: usize = 10;

struct Shared {
    tree: Tree<Model, Number, N>,
    epochs: Epochs<Model>,
    dead: Mutex<Vec<Garbage<Model, Number, N>>>,
}

impl Host<Model, Number, N> for Shared {
    type Error = Infallible;

    fn reserve(&self, _: usize) -> Result<(), Infallible> {
        Ok(())
    }

    fn charge(&self, _: usize) {}

    fn release(&self, _: usize) {}

    fn retire(&self, garbage: Garbage<Model, Number, N>, _: usize) {
        self.dead.lock().unwrap().push(garbage);
    }
}

impl Shared {
    fn new(entries: &[u64]) -> Arc<Self> {
        let shared = Arc::new(Self {
            tree: Tree::new(),
            epochs: Epochs::new(3),
            dead: Mutex::new(Vec::new()),
        });
        entries.iter().for_each(|&number| shared.insert(number, 0));
        shared
    }

    fn insert(&self, number: u64, slot: u64) {
        let pin = self.epochs.pin(0);
        assert!(self.tree.insert((number, slot), self, &pin).unwrap());
    }

    fn remove(&self, number: u64) {
        let pin = self.epochs.pin(0);
        assert!(self.tree.remove((number, 0), self, &pin));
    }

    fn scan(&self, reverse: bool) -> Vec<u64> {
        let pin = self.epochs.pin(1);
        let mut found = Vec::new();
        let ends = (Edge::Least, Edge::Greatest);
        self.tree.scan(ends, reverse, usize::MAX, &mut found, &pin);
        if reverse {
            found.reverse();
        }
        found.iter().map(|raw| raw[0]).collect()
    }

    /// Adds an entry of a key, then looks for another.
    fn finds(&self, slot: u64, other: u64) -> bool {
        // One pin: taking another would be a fence by itself.
        let pin = self.epochs.pin(0);
        assert!(self.tree.insert((1, slot), self, &pin).unwrap());
        let mut found = Vec::new();
        let ends = (Edge::Before((1, other)), Edge::After((1, other)));
        self.tree.scan(ends, false, usize::MAX, &mut found, &pin);
        !found.is_empty()
    }
}

fn model(preemptions: usize, check: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 100_000;
    // All of them would take minutes; taking a check or the fence away shows in the first thousands.
    builder.max_permutations = Some(30_000);
    builder.check(check);
}

/// Scans in both directions beside a change of one entry: what stays is seen just once, and in order.
fn scans_are_complete(entries: &'static [u64], change: fn(&Shared), changed: u64, reverse: bool) {
    model(2, move || {
        let shared = Shared::new(entries);
        let reader = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.scan(reverse))
        };
        change(&shared);
        let found = reader.join().unwrap();
        let mut stay = entries.to_vec();
        stay.sort_unstable();
        stay.retain(|&number| number != changed);
        let mut rest = found.clone();
        rest.retain(|&number| number != changed);
        assert_eq!(rest, stay);
        assert!(found.is_sorted_by(|one, other| one < other));
    });
}

/// Five entries fill the root, so the sixth splits it under a new one.
const FULL: &[u64] = &[10, 20, 30, 40, 50];
/// Two leaves under a root: the next entry splits the left one.
const TWO_LEAVES: &[u64] = &[10, 20, 40, 50, 60, 30, 15, 17];
/// As filled in order: five entries in the left leaf, two in the right one.
const TO_MERGE: &[u64] = &[10, 20, 30, 40, 50, 60, 25];

#[test]
fn scans_beside_a_split_of_the_root_are_complete() {
    for reverse in [false, true] {
        scans_are_complete(FULL, |shared| shared.insert(25, 0), 25, reverse);
    }
}

#[test]
fn scans_beside_a_split_of_a_leaf_are_complete() {
    for reverse in [false, true] {
        scans_are_complete(TWO_LEAVES, |shared| shared.insert(12, 0), 12, reverse);
    }
}

#[test]
fn scans_beside_a_removal_are_complete() {
    for reverse in [false, true] {
        scans_are_complete(TO_MERGE, |shared| shared.remove(25), 25, reverse);
    }
}

#[test]
fn scans_beside_a_merge_are_complete() {
    // The left leaf is emptied but for one entry; taking that merges the leaves, and the root goes.
    const ENTRIES: &[u64] = &[10, 60];
    for reverse in [false, true] {
        model(2, move || {
            let shared = Shared::new(&[10, 20, 30, 40, 50, 60]);
            for number in [20, 30, 40, 50] {
                shared.remove(number);
            }
            let reader = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || shared.scan(reverse))
            };
            shared.remove(10);
            let found = reader.join().unwrap();
            assert!(found == ENTRIES || found == [60], "{found:?}");
            assert_eq!(shared.scan(reverse), [60]);
        });
    }
}

#[test]
fn two_writers_keep_both_entries() {
    model(2, || {
        let shared = Shared::new(FULL);
        let writer = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.insert(25, 0))
        };
        shared.insert(45, 0);
        writer.join().unwrap();
        assert_eq!(shared.scan(false), [10, 20, 25, 30, 40, 45, 50]);
    });
}

/// The interleaving behind uniqueness, the key's entries in two leaves.
#[test]
fn of_two_writers_of_a_key_one_finds_the_other() {
    model(2, || {
        let shared = Shared::new(&[]);
        for slot in [10, 20, 30, 40, 50, 60] {
            shared.insert(1, slot);
        }
        // Room in the first leaf, so that no split brings the two together.
        for slot in [20, 30, 40, 50] {
            let pin = shared.epochs.pin(0);
            assert!(shared.tree.remove((1, slot), &*shared, &pin));
        }
        let writer = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.finds(65, 5))
        };
        let found = shared.finds(5, 65);
        assert!(writer.join().unwrap() || found);
    });
}
