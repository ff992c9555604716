//! The index beside libraries that could be in its place: `python -m bench indexes` runs it and keeps its figures.
//!
//! ```text
//! cargo run --release -p firndb-storage --example index_libraries [entries]
//! ```
//!
//! Every candidate is a set of pairs of key and slot, with keys of one number, or of 24 bytes. Each line printed is a figure as JSON. At last, entries that stay while writers add
//! and remove their neighbours are looked for by whole scans: how many scans of a thousand did not see each of them exactly once.

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeSet;
use std::hint::black_box;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, FixedSizeBinaryArray, UInt64Array};
use arrow::datatypes::DataType;
use crossbeam_skiplist::SkipSet;
use firndb_storage::Slot;
use firndb_storage::index::{Bounds, Key, KeyEncoder, KeyRange, UniqueIndex};
use firndb_storage::memory::Budget;
use parking_lot::RwLock;
use scc::{Guard, TreeIndex};

/// Counts what is allocated, as the allocator rounds it.
struct Counting;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add((layout.size() + 8).next_multiple_of(16), Ordering::Relaxed);
        // SAFETY: as the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub((layout.size() + 8).next_multiple_of(16), Ordering::Relaxed);
        // SAFETY: as the caller's.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// A set of keys and slots. Keys are given by number.
trait Candidate: Sync {
    fn insert(&self, key: u64);
    fn remove(&self, key: u64);
    /// The number of slots that a key has.
    fn get(&self, key: u64) -> usize;
    /// The number of entries from one key on and before another.
    fn range(&self, from: u64, to: u64) -> usize;
    /// The numbers of all keys in order, or against it.
    fn all(&self, reverse: bool) -> Vec<u64>;
}

/// A key of 24 bytes whose first ones are those of all others: what an encoder makes of 23.
fn bytes_of(key: u64) -> [u8; 24] {
    let mut bytes = *b"\x01a warehouse, 15........";
    bytes[16..].copy_from_slice(&key.to_be_bytes());
    bytes
}

fn number_of(bytes: &[u8]) -> u64 {
    bytes
        .last_chunk()
        .map_or(0, |last| u64::from_be_bytes(*last))
}

struct Ours {
    index: UniqueIndex,
    encoder: KeyEncoder,
    bytes: bool,
}

impl Ours {
    fn new(bytes: bool) -> Self {
        let data_type = match bytes {
            true => DataType::FixedSizeBinary(23),
            false => DataType::UInt64,
        };
        let encoder = KeyEncoder::new(&[data_type]).expect("an encoder");
        Self {
            index: UniqueIndex::new(&encoder, &Budget::new(None)),
            encoder,
            bytes,
        }
    }

    fn key(&self, key: u64) -> Key {
        match self.bytes {
            true => Key::Bytes(Arc::from(bytes_of(key))),
            false => Key::Integer(key),
        }
    }

    fn value(&self, key: u64) -> ArrayRef {
        match self.bytes {
            true => {
                let bytes = bytes_of(key);
                let value = std::iter::once(&bytes[1..]);
                Arc::new(FixedSizeBinaryArray::try_from_iter(value).expect("a value"))
            }
            false => Arc::new(UInt64Array::from(vec![key])),
        }
    }
}

impl Candidate for Ours {
    fn insert(&self, key: u64) {
        let added = self
            .index
            .insert(&self.key(key), Slot(key), &self.index.pin());
        added.expect("memory");
    }

    fn remove(&self, key: u64) {
        self.index
            .remove(&self.key(key), Slot(key), &self.index.pin());
    }

    fn get(&self, key: u64) -> usize {
        self.index.slots(&self.key(key), &self.index.pin()).len()
    }

    fn range(&self, from: u64, to: u64) -> usize {
        let range = KeyRange {
            equal: Vec::new(),
            lower: Bound::Included(self.value(from)),
            upper: Bound::Excluded(self.value(to)),
        };
        let bounds = Bounds::new(&self.encoder, &range).expect("bounds");
        let pin = self.index.pin();
        self.index
            .entries(&bounds, false, None, usize::MAX, &pin)
            .len()
    }

    fn all(&self, reverse: bool) -> Vec<u64> {
        let bounds = Bounds::new(&self.encoder, &KeyRange::all()).expect("bounds");
        let pin = self.index.pin();
        let found = self.index.entries(&bounds, reverse, None, usize::MAX, &pin);
        found.iter().map(|(_, slot)| slot.0).collect()
    }
}

struct Scc(TreeIndex<(u64, u64), ()>);

impl Candidate for Scc {
    fn insert(&self, key: u64) {
        self.0.insert_sync((key, key), ()).ok();
    }

    fn remove(&self, key: u64) {
        self.0.remove_sync(&(key, key));
    }

    fn get(&self, key: u64) -> usize {
        let guard = Guard::new();
        self.0.range((key, 0)..=(key, u64::MAX), &guard).count()
    }

    fn range(&self, from: u64, to: u64) -> usize {
        let guard = Guard::new();
        self.0.range((from, 0)..(to, 0), &guard).count()
    }

    fn all(&self, reverse: bool) -> Vec<u64> {
        let guard = Guard::new();
        let entries = self.0.iter(&guard).map(|(entry, ())| entry.0);
        let mut entries: Vec<u64> = match reverse {
            true => self
                .0
                .iter(&guard)
                .rev()
                .map(|(entry, ())| entry.0)
                .collect(),
            false => entries.collect(),
        };
        entries.dedup();
        entries
    }
}

type Shared = (Arc<[u8]>, u64);

fn shared(key: u64, slot: u64) -> Shared {
    (Arc::from(bytes_of(key)), slot)
}

struct SccBytes(TreeIndex<Shared, ()>);

impl Candidate for SccBytes {
    fn insert(&self, key: u64) {
        self.0.insert_sync(shared(key, key), ()).ok();
    }

    fn remove(&self, key: u64) {
        self.0.remove_sync(&shared(key, key));
    }

    fn get(&self, key: u64) -> usize {
        let guard = Guard::new();
        self.0
            .range(shared(key, 0)..=shared(key, u64::MAX), &guard)
            .count()
    }

    fn range(&self, from: u64, to: u64) -> usize {
        let guard = Guard::new();
        self.0.range(shared(from, 0)..shared(to, 0), &guard).count()
    }

    fn all(&self, reverse: bool) -> Vec<u64> {
        let guard = Guard::new();
        let mut entries: Vec<u64> = match reverse {
            true => self
                .0
                .iter(&guard)
                .rev()
                .map(|(entry, ())| number_of(&entry.0))
                .collect(),
            false => self
                .0
                .iter(&guard)
                .map(|(entry, ())| number_of(&entry.0))
                .collect(),
        };
        entries.dedup();
        entries
    }
}

struct Skip(SkipSet<(u64, u64)>);

impl Candidate for Skip {
    fn insert(&self, key: u64) {
        self.0.insert((key, key));
    }

    fn remove(&self, key: u64) {
        self.0.remove(&(key, key));
    }

    fn get(&self, key: u64) -> usize {
        self.0.range((key, 0)..=(key, u64::MAX)).count()
    }

    fn range(&self, from: u64, to: u64) -> usize {
        self.0.range((from, 0)..(to, 0)).count()
    }

    fn all(&self, reverse: bool) -> Vec<u64> {
        match reverse {
            true => self.0.iter().rev().map(|entry| entry.0).collect(),
            false => self.0.iter().map(|entry| entry.0).collect(),
        }
    }
}

struct SkipBytes(SkipSet<Shared>);

impl Candidate for SkipBytes {
    fn insert(&self, key: u64) {
        self.0.insert(shared(key, key));
    }

    fn remove(&self, key: u64) {
        self.0.remove(&shared(key, key));
    }

    fn get(&self, key: u64) -> usize {
        self.0.range(shared(key, 0)..=shared(key, u64::MAX)).count()
    }

    fn range(&self, from: u64, to: u64) -> usize {
        self.0.range(shared(from, 0)..shared(to, 0)).count()
    }

    fn all(&self, reverse: bool) -> Vec<u64> {
        match reverse {
            true => self
                .0
                .iter()
                .rev()
                .map(|entry| number_of(&entry.0))
                .collect(),
            false => self.0.iter().map(|entry| number_of(&entry.0)).collect(),
        }
    }
}

/// The standard library's B-tree behind one lock.
struct Locked(RwLock<BTreeSet<(u64, u64)>>);

impl Candidate for Locked {
    fn insert(&self, key: u64) {
        self.0.write().insert((key, key));
    }

    fn remove(&self, key: u64) {
        self.0.write().remove(&(key, key));
    }

    fn get(&self, key: u64) -> usize {
        self.0.read().range((key, 0)..=(key, u64::MAX)).count()
    }

    fn range(&self, from: u64, to: u64) -> usize {
        self.0.read().range((from, 0)..(to, 0)).count()
    }

    fn all(&self, reverse: bool) -> Vec<u64> {
        let tree = self.0.read();
        match reverse {
            true => tree.iter().rev().map(|entry| entry.0).collect(),
            false => tree.iter().map(|entry| entry.0).collect(),
        }
    }
}

struct LockedBytes(RwLock<BTreeSet<Shared>>);

impl Candidate for LockedBytes {
    fn insert(&self, key: u64) {
        self.0.write().insert(shared(key, key));
    }

    fn remove(&self, key: u64) {
        self.0.write().remove(&shared(key, key));
    }

    fn get(&self, key: u64) -> usize {
        let ends = shared(key, 0)..=shared(key, u64::MAX);
        self.0.read().range(ends).count()
    }

    fn range(&self, from: u64, to: u64) -> usize {
        self.0.read().range(shared(from, 0)..shared(to, 0)).count()
    }

    fn all(&self, reverse: bool) -> Vec<u64> {
        let tree = self.0.read();
        match reverse {
            true => tree.iter().rev().map(|entry| number_of(&entry.0)).collect(),
            false => tree.iter().map(|entry| number_of(&entry.0)).collect(),
        }
    }
}

type Make = fn() -> Box<dyn Candidate>;

fn candidates(bytes: bool) -> [(&'static str, Make); 4] {
    match bytes {
        false => [
            ("FirnDB", || Box::new(Ours::new(false))),
            ("scc::TreeIndex", || Box::new(Scc(TreeIndex::new()))),
            ("crossbeam SkipSet", || Box::new(Skip(SkipSet::new()))),
            ("RwLock<BTreeSet>", || Box::new(Locked(RwLock::default()))),
        ],
        true => [
            ("FirnDB", || Box::new(Ours::new(true))),
            ("scc::TreeIndex", || Box::new(SccBytes(TreeIndex::new()))),
            ("crossbeam SkipSet", || Box::new(SkipBytes(SkipSet::new()))),
            ("RwLock<BTreeSet>", || {
                Box::new(LockedBytes(RwLock::default()))
            }),
        ],
    }
}

/// The longest that one figure may take: some candidates are quadratic in a case.
const LONGEST: Duration = Duration::from_millis(400);
/// The least key, so that ranges can begin below it.
const FIRST: u64 = 1_000_000;

fn main() {
    let entries: u64 = std::env::args()
        .nth(1)
        .and_then(|text| text.parse().ok())
        .unwrap_or(300_000);
    // Neighbours in this order are far from each other: an odd factor visits every number once.
    let shuffled = |entry: u64| entry.wrapping_mul(0x9e37_79b1) % entries.next_power_of_two();
    let size = entries.next_power_of_two();
    for (bytes, kind) in [(false, "number"), (true, "24 bytes")] {
        for threads in [1, 2] {
            for (name, make) in candidates(bytes) {
                let report = |case: &str, seconds: f64| {
                    let case = format!("{kind}, {threads} threads: {case}");
                    figure(&case, name, 1.0 / seconds, "1/s");
                };
                let orders: [(&str, &(dyn Fn(u64) -> u64 + Sync)); 3] = [
                    ("ascending", &|entry| FIRST + entry),
                    ("descending", &|entry| FIRST + size - entry),
                    ("random", &|entry| FIRST + shuffled(entry)),
                ];
                for (order, key) in orders {
                    let before = ALLOCATED.load(Ordering::Relaxed);
                    let tree = make();
                    let seconds = each(entries, threads, |entry| tree.insert(key(entry)));
                    report(&format!("insert {order}"), seconds);
                    if threads == 1 {
                        let bytes = ALLOCATED.load(Ordering::Relaxed) - before;
                        let bytes = bytes as f64 / entries as f64;
                        figure(&format!("{kind}: memory, {order}"), name, bytes, "bytes");
                    }
                    if order == "random" {
                        use_of(tree.as_ref(), entries, threads, key, &report);
                    }
                }
                // What an insertion into a unique index does.
                let tree = make();
                let seconds = each(entries, threads, |entry| {
                    tree.insert(FIRST + size - entry);
                    assert_eq!(tree.get(FIRST + size - entry), 1);
                });
                report("insert descending, each looked up", seconds);
            }
        }
        for (name, make) in candidates(bytes) {
            for reverse in [false, true] {
                let order = if reverse { "descending" } else { "ascending" };
                let lost = wrong_scans(make().as_ref(), reverse);
                figure(
                    &format!("{kind}: wrong {order} scans of 1,000"),
                    name,
                    lost,
                    "wrong",
                );
            }
        }
    }
}

/// Figures of a tree that is filled.
fn use_of(
    tree: &dyn Candidate,
    entries: u64,
    threads: u64,
    key: &(dyn Fn(u64) -> u64 + Sync),
    report: &dyn Fn(&str, f64),
) {
    // Not the least key: what begins below that is measured apart.
    let other = |entry: u64| key(1 + entry % (entries - 1));
    let seconds = each(entries, threads, |entry| {
        black_box(tree.get(other(entry)));
    });
    report("get", seconds);
    let seconds = each(entries, threads, |entry| {
        let from = other(entry);
        black_box(tree.range(from, from + 20));
    });
    report("range of 20", seconds);
    let seconds = each(entries, threads, |_| {
        black_box(tree.range(0, FIRST + 20));
    });
    report("range of 20 from below the least", seconds);
    let seconds = each(20, threads, |_| {
        black_box(tree.all(false));
    });
    report("an entry of a whole scan", seconds / entries as f64);
    let seconds = each(20, threads, |_| {
        black_box(tree.all(true));
    });
    report(
        "an entry of a whole scan, descending",
        seconds / entries as f64,
    );
    let seconds = each(entries, threads, |entry| tree.remove(key(entry)));
    report("remove", seconds);
}

/// Seconds for one of `count` operations, which the threads share; measured over as many as the time allows.
fn each(count: u64, threads: u64, work: impl Fn(u64) + Sync) -> f64 {
    let done = AtomicUsize::new(0);
    let start = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (work, done) = (&work, &done);
            scope.spawn(move || {
                let mut own = 0_usize;
                for entry in (thread..count).step_by(threads as usize) {
                    work(entry);
                    own += 1;
                    let look = own.is_multiple_of(64) || own < 64 && own.is_power_of_two();
                    if look && start.elapsed() > LONGEST {
                        break;
                    }
                }
                done.fetch_add(own, Ordering::Relaxed);
            });
        }
    });
    start.elapsed().as_secs_f64() / done.into_inner() as f64
}

/// How many of a thousand scans beside writers miss entries that stay, or see one twice.
fn wrong_scans(tree: &dyn Candidate, reverse: bool) -> f64 {
    const STABLE: u64 = 400;
    const SCANS: usize = 1_000;
    for number in 0..STABLE {
        tree.insert(number << 8);
    }
    let done = AtomicBool::new(false);
    let mut wrong = 0;
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let done = &done;
            scope.spawn(move || {
                let mut place = writer;
                while !done.load(Ordering::Relaxed) {
                    // Leaves fill and empty. Before the least entry that stays there are neighbours too.
                    place = (place * 7 + 3) % STABLE;
                    let first = (place << 8) + 1 + writer * 100;
                    (first..first + 60).for_each(|key| tree.insert(key));
                    (first..first + 60).for_each(|key| tree.remove(key));
                }
            });
        }
        for _ in 0..SCANS {
            let mut found = tree.all(reverse);
            if reverse {
                found.reverse();
            }
            let in_order = found.windows(2).all(|pair| pair[0] < pair[1]);
            let stable = found.iter().filter(|key| *key & 0xff == 0);
            if !in_order || !stable.copied().eq((0..STABLE).map(|number| number << 8)) {
                wrong += 1;
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    f64::from(wrong)
}

fn figure(case: &str, engine: &str, value: f64, unit: &str) {
    println!(r#"{{"case": "{case}", "engine": "{engine}", "value": {value}, "unit": "{unit}"}}"#);
}
