//! Freezing under loom: one row of two words in a column that a freezer replaces by a frozen copy, while a writer changes it and a reader reads it.
//!
//! The block is full and no compaction ever touched it, so nothing but cooling and the epoch wait keeps the writer's store from being lost. Each of the
//! two is taken away once: then the model must find the loss.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::Ordering::Relaxed;

use loom::sync::atomic::AtomicU64;
use loom::sync::{Arc, Mutex};
use loom::thread;

use firndb_storage_loom::Model;
use firndb_storage_loom::protocol::{
    Epochs, Head, Link, Observed, Outcome, Pin, Place, Status, Timestamp, Versions, View, bypass,
    may_write, settle, walk,
};

type Record = Link<Model>;

#[repr(C)]
struct Undo {
    link: Record,
    image: [u64; 2],
}

#[repr(align(16))]
struct Column {
    words: [AtomicU64; 2],
    frozen: bool,
}

impl Column {
    fn new(words: [u64; 2], frozen: bool) -> *mut Self {
        Box::into_raw(Box::new(Self {
            words: words.map(AtomicU64::new),
            frozen,
        }))
    }
}

/// The value of the version that is committed from the beginning.
const OLD: u64 = 7;
const NEW: u64 = 8;

/// The steps of a freezer; a correct one takes all.
#[derive(Clone, Copy)]
struct Steps {
    cooling: bool,
    epoch: bool,
    versions: bool,
}

const ALL: Steps = Steps {
    cooling: true,
    epoch: true,
    versions: true,
};

struct Block {
    place: Place<Model, Column>,
    versions: Versions<Model>,
    epochs: Epochs<Model>,
    /// What is published, and the starts of registered snapshots.
    clock: Mutex<(u64, Vec<u64>)>,
    status: Status<Model>,
    /// Kept to the end: freeing is the epochs' business.
    records: Mutex<Vec<Box<Undo>>>,
    columns: Mutex<Vec<Kept>>,
}

struct Kept(*mut Column);

// SAFETY: a column is atomics.
unsafe impl Send for Kept {}

impl Drop for Kept {
    fn drop(&mut self) {
        // SAFETY: from `into_raw`, kept once, and the model is over.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

impl Block {
    fn new() -> Arc<Self> {
        let hot = Column::new([OLD; 2], false);
        Arc::new(Self {
            place: Place::new(hot),
            versions: Versions::new(1),
            epochs: Epochs::new(3),
            clock: Mutex::new((1, Vec::new())),
            status: Status::new(),
            records: Mutex::new(Vec::new()),
            columns: Mutex::new(vec![Kept(hot)]),
        })
    }

    fn keep(&self, column: *mut Column) -> *mut Column {
        self.columns.lock().unwrap().push(Kept(column));
        column
    }

    /// A writer's way to the hot column; thaws a frozen one.
    fn warmed(&self) -> &Column {
        loop {
            let value = self.place.warm();
            // SAFETY: columns are kept to the end of the model.
            let column = unsafe { &*value };
            if !column.frozen {
                return column;
            }
            let words = [0, 1].map(|word: usize| column.words[word].load(Relaxed));
            let thawed = self.keep(Column::new(words, false));
            self.place.replace(value, thawed);
        }
    }

    /// A whole transaction: writes, commits, and is collected if every snapshot sees it.
    fn update(&self) {
        let pin = self.epochs.pin(0);
        let column = self.warmed();
        assert!(self.write(column, &pin));
        drop(pin);
        let time = {
            let mut clock = self.clock.lock().unwrap();
            clock.0 += 1;
            self.status.set(Outcome::Committed(Timestamp(clock.0)));
            clock.0
        };
        let pin = self.epochs.pin(0);
        let oldest = {
            let clock = self.clock.lock().unwrap();
            clock.1.iter().copied().min().unwrap_or(clock.0)
        };
        if time <= oldest {
            let settled = settle::<Model>();
            let heads = self.versions.heads(&settled, &pin).unwrap();
            let newest = heads.head(0).newest(&settled, &pin).unwrap();
            bypass(heads.head(0), newest, None, &pin);
            self.versions.uncount(1);
        }
    }

    fn write(&self, column: &Column, pin: &Pin<'_, Model>) -> bool {
        let heads = self.versions.attach(1, pin);
        let Observed::Open(state) = heads.head(0).observe() else {
            return false;
        };
        let view = View {
            start: Timestamp(1),
            own: Some(&self.status),
            statement: 1,
        };
        if !may_write(Head::observed(state, pin), &view, pin) {
            return false;
        }
        let mut undo = Box::new(Undo {
            link: Link::new(&self.status, 0),
            image: [0, 1].map(|word: usize| column.words[word].load(Relaxed)),
        });
        let link = (&raw mut *undo).cast::<Record>();
        // SAFETY: complete, boxed, and kept to the end of the model.
        let installed = unsafe { heads.head(0).install(state, link) };
        self.records.lock().unwrap().push(undo);
        if installed {
            for word in &column.words {
                word.store(NEW, Relaxed);
            }
        }
        installed
    }

    /// The freezer; what it did not get through at once it gives up.
    fn freeze(&self, steps: Steps) -> bool {
        let hot = self.place.load();
        if steps.cooling {
            assert!(self.place.cool(hot));
        }
        let epoch = self.epochs.advance();
        if steps.epoch && self.epochs.passed() < epoch {
            return false;
        }
        if steps.versions && self.versions.linked() > 0 {
            return false;
        }
        if !steps.cooling && !self.place.cool(hot) {
            return false;
        }
        if !self.place.freeze(hot) {
            return false;
        }
        // SAFETY: columns are kept to the end of the model.
        let column = unsafe { &*hot };
        let words = [0, 1].map(|word: usize| column.words[word].load(Relaxed));
        let _settled = settle::<Model>();
        if !self.place.is_freezing(hot) {
            return false;
        }
        // Only now may views in them be followed.
        assert_eq!(words[0], words[1], "a torn row was gathered");
        let frozen = self.keep(Column::new(words, true));
        self.place.publish(hot, frozen)
    }

    /// What a snapshot sees.
    fn read(&self, start: u64, pin: &Pin<'_, Model>) -> u64 {
        // SAFETY: columns are kept to the end of the model.
        let column = unsafe { &*self.place.load() };
        let mut words = [0, 1].map(|word: usize| column.words[word].load(Relaxed));
        let settled = settle::<Model>();
        if let Some(heads) = self.versions.heads(&settled, pin) {
            let view = View {
                start: Timestamp(start),
                own: None,
                statement: 0,
            };
            walk(heads.head(0).newest(&settled, pin), &view, pin, |link| {
                // A before-image always belongs to a hot column.
                if !column.frozen {
                    // SAFETY: every link of the model is the first field of an `Undo`.
                    words = unsafe { (*link.pointer().cast::<Undo>()).image };
                }
            });
        }
        assert_eq!(words[0], words[1], "a torn row was seen");
        words[0]
    }
}

fn check(bound: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(bound);
    builder.check(model);
}

/// A freezer and a writer; afterwards the write is there.
fn no_write_is_lost(steps: Steps) {
    check(4, move || {
        let block = Block::new();
        let freezer = thread::spawn({
            let block = block.clone();
            move || block.freeze(steps)
        });
        block.update();
        freezer.join().unwrap();
        let pin = block.epochs.pin(1);
        assert_eq!(block.read(2, &pin), NEW, "a write was lost");
    });
}

#[test]
fn no_write_to_a_full_block_is_lost_while_it_freezes() {
    no_write_is_lost(ALL);
}

#[test]
#[should_panic(expected = "a write was lost")]
fn without_cooling_a_write_is_lost() {
    no_write_is_lost(Steps {
        cooling: false,
        ..ALL
    });
}

#[test]
#[should_panic]
fn without_the_epoch_wait_a_write_is_lost_or_torn() {
    no_write_is_lost(Steps {
        epoch: false,
        ..ALL
    });
}

/// A snapshot that a transaction's commit is not in needs its before-image, which belongs to the hot column.
fn an_old_snapshot_keeps_its_version(steps: Steps) {
    check(3, move || {
        let block = Block::new();
        let start = {
            let mut clock = block.clock.lock().unwrap();
            let start = clock.0;
            clock.1.push(start);
            start
        };
        let freezer = thread::spawn({
            let block = block.clone();
            move || block.freeze(steps)
        });
        block.update();
        freezer.join().unwrap();
        let pin = block.epochs.pin(1);
        assert_eq!(block.read(start, &pin), OLD, "a version was lost");
    });
}

#[test]
fn a_block_whose_versions_a_snapshot_needs_does_not_freeze() {
    an_old_snapshot_keeps_its_version(ALL);
}

#[test]
#[should_panic(expected = "a version was lost")]
fn without_the_look_at_the_versions_a_snapshot_loses_its_own() {
    an_old_snapshot_keeps_its_version(Steps {
        versions: false,
        ..ALL
    });
}

#[test]
fn a_reader_sees_its_snapshot_while_the_column_freezes_and_thaws() {
    check(2, || {
        let block = Block::new();
        let freezer = thread::spawn({
            let block = block.clone();
            move || block.freeze(ALL)
        });
        let writer = thread::spawn({
            let block = block.clone();
            move || block.update()
        });
        let start = {
            let mut clock = block.clock.lock().unwrap();
            let start = clock.0;
            clock.1.push(start);
            start
        };
        let pin = block.epochs.pin(1);
        let expected = if start >= 2 { NEW } else { OLD };
        assert_eq!(block.read(start, &pin), expected);
        drop(pin);
        freezer.join().unwrap();
        writer.join().unwrap();
    });
}

#[test]
fn of_a_freezer_and_a_collector_that_detaches_the_versions_none_loses_a_write() {
    check(3, || {
        let block = Block::new();
        {
            let pin = block.epochs.pin(0);
            block.versions.attach(1, &pin);
            block.versions.uncount(1);
        }
        let freezer = thread::spawn({
            let block = block.clone();
            move || {
                // Kept to the end: freeing is the epochs' business.
                let detached = block.versions.detach();
                block.freeze(ALL);
                detached
            }
        });
        let pin = block.epochs.pin(1);
        let column = block.warmed();
        let wrote = block.write(column, &pin);
        drop(pin);
        drop(freezer.join().unwrap());
        let pin = block.epochs.pin(1);
        assert_eq!(block.read(1, &pin), OLD);
        if wrote {
            // SAFETY: columns are kept to the end of the model.
            let column = unsafe { &*block.place.load() };
            assert!(!column.frozen, "a column with versions froze");
            assert_eq!(column.words[0].load(Relaxed), NEW);
        }
    });
}
