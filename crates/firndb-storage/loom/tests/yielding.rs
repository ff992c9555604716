//! A transaction that yields (compaction) under loom: it deletes a row and is preempted by a writer of that row, while a reader looks.
//!
//! The row's liveness bit is one word; the row is there for everybody but who sees a committed deletion.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::Ordering::Relaxed;

use loom::sync::atomic::AtomicU64;
use loom::sync::{Arc, Mutex};
use loom::thread;

use firndb_storage_loom::Model;
use firndb_storage_loom::protocol::{
    Epochs, Head, Link, Linked, Observed, Outcome, Pin, Status, Timestamp, Versions, View, bypass,
    may_write, settle, walk,
};

type Record = Link<Model>;

#[repr(C)]
struct Undo {
    link: Record,
    is_deletion: bool,
}

struct Row {
    live: AtomicU64,
    versions: Versions<Model>,
    epochs: Epochs<Model>,
    records: Mutex<Vec<Box<Undo>>>,
    compaction: Status<Model>,
    writer: Status<Model>,
}

fn is_deletion(link: Linked<'_, Model>) -> bool {
    // SAFETY: every link of the model is the first field of an `Undo`.
    unsafe { (*link.pointer().cast::<Undo>()).is_deletion }
}

impl Row {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            live: AtomicU64::new(1),
            versions: Versions::new(1),
            epochs: Epochs::new(3),
            records: Mutex::new(Vec::new()),
            compaction: Status::yielding(),
            writer: Status::new(),
        })
    }

    fn record(&self, status: &Status<Model>, is_deletion: bool) -> *mut Record {
        let mut undo = Box::new(Undo {
            link: Link::new(status, 0),
            is_deletion,
        });
        let link = (&raw mut *undo).cast::<Record>();
        self.records.lock().unwrap().push(undo);
        link
    }

    /// The compaction's deletion; its record if it was first.
    fn delete(&self, checks: bool) -> Option<*mut Record> {
        let pin = self.epochs.pin(0);
        let heads = self.versions.attach(1, &pin);
        let view = View {
            start: Timestamp(1),
            own: Some(&self.compaction),
            statement: 1,
        };
        let Observed::Open(state) = heads.head(0).observe() else {
            return None;
        };
        if !may_write(Head::observed(state, &pin), &view, &pin) {
            self.versions.uncount(1);
            return None;
        }
        let link = self.record(&self.compaction, true);
        // SAFETY: complete, boxed, and kept to the end of the model.
        if unsafe { heads.head(0).install(state, link) } {
            self.while_newest(link, checks, &pin, || {
                self.live.fetch_and(0, Relaxed);
            });
            return Some(link);
        }
        self.versions.uncount(1);
        None
    }

    /// Acts under a mark if the record is the newest.
    fn while_newest(
        &self,
        own: *mut Record,
        checks: bool,
        pin: &Pin<'_, Model>,
        act: impl FnOnce(),
    ) {
        if !checks {
            return act();
        }
        let settled = settle::<Model>();
        let heads = self.versions.heads(&settled, pin).unwrap();
        let head = heads.head(0);
        loop {
            match head.observe() {
                Observed::Open(state) => {
                    if !Head::observed(state, pin).is_some_and(|newest| newest.pointer() == own) {
                        return;
                    }
                    if head.mark(state) {
                        act();
                        head.unmark(state, false);
                        return;
                    }
                }
                Observed::Marked | Observed::Sealed => thread::yield_now(),
            }
        }
    }

    /// Restores what the compaction deleted, marked already, and unlinks it if that may be.
    fn roll_back(&self, own: Option<*mut Record>, checks: bool) {
        self.compaction.preempt();
        let Some(own) = own else { return };
        let pin = self.epochs.pin(0);
        self.while_newest(own, checks, &pin, || {
            self.live.fetch_or(1, Relaxed);
        });
        drop(pin);
        let epoch = self.epochs.advance();
        if self.epochs.passed() >= epoch {
            let pin = self.epochs.pin(0);
            let settled = settle::<Model>();
            let heads = self.versions.heads(&settled, &pin).unwrap();
            let mut at = heads.head(0).newest(&settled, &pin);
            while let Some(link) = at {
                at = link.older(&pin);
                if link.pointer() == own {
                    bypass(heads.head(0), link, link.older(&pin), &pin);
                    self.versions.uncount(1);
                }
            }
        }
    }

    /// A writer's claim, which preempts; then it deletes the row, or leaves it.
    fn claim(&self, deletes: bool, pin: &Pin<'_, Model>) {
        let heads = self.versions.attach(1, pin);
        let view = View {
            start: Timestamp(1),
            own: Some(&self.writer),
            statement: 1,
        };
        loop {
            let state = match heads.head(0).observe() {
                Observed::Open(state) => state,
                Observed::Marked | Observed::Sealed => {
                    thread::yield_now();
                    continue;
                }
            };
            let newest = Head::observed(state, pin);
            if !may_write(newest, &view, pin) {
                assert!(
                    newest.unwrap().stamp.preempt(pin)
                        || matches!(newest.unwrap().stamp.outcome(pin), Outcome::Aborted(_)),
                    "a user had a conflict with a compaction"
                );
                continue;
            }
            let restores = newest.is_some_and(|newest| {
                is_deletion(newest) && matches!(newest.stamp.outcome(pin), Outcome::Aborted(_))
            });
            if !restores && self.live.load(Relaxed) == 0 {
                let _settled = settle::<Model>();
                let unchanged =
                    matches!(heads.head(0).observe(), Observed::Open(now) if now == state);
                assert!(!unchanged, "a row that is there was not found");
                continue;
            }
            let link = self.record(&self.writer, deletes);
            // SAFETY: complete, boxed, and kept to the end of the model.
            if unsafe { heads.head(0).install(state, link) } {
                if restores {
                    self.live.fetch_or(1, Relaxed);
                }
                if deletes {
                    self.live.fetch_and(0, Relaxed);
                }
                return;
            }
        }
    }

    fn is_seen(&self, start: u64, pin: &Pin<'_, Model>) -> bool {
        let mut live = self.live.load(Relaxed) == 1;
        let settled = settle::<Model>();
        if let Some(heads) = self.versions.heads(&settled, pin) {
            let view = View {
                start: Timestamp(start),
                own: None,
                statement: 0,
            };
            walk(heads.head(0).newest(&settled, pin), &view, pin, |link| {
                if is_deletion(link) {
                    live = true;
                }
            });
        }
        live
    }
}

fn check(bound: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(bound);
    builder.check(model);
}

/// The writer deletes or updates the row that the compaction is moving; afterwards the row is as the writer left it.
fn the_writer_wins(deletes: bool, clear_checks: bool, restore_checks: bool) {
    check(3, move || {
        let row = Row::new();
        let compaction = thread::spawn({
            let row = row.clone();
            move || {
                let own = row.delete(clear_checks);
                row.roll_back(own, restore_checks);
            }
        });
        let pin = row.epochs.pin(1);
        row.claim(deletes, &pin);
        drop(pin);
        row.writer.set(Outcome::Committed(Timestamp(2)));
        compaction.join().unwrap();
        let pin = row.epochs.pin(1);
        assert!(row.is_seen(1, &pin), "an older snapshot lost the row");
        assert_eq!(row.is_seen(2, &pin), !deletes, "the writer did not win");
    });
}

#[test]
fn a_row_that_is_deleted_while_it_moves_stays_deleted() {
    the_writer_wins(true, true, true);
}

#[test]
fn a_row_that_is_updated_while_it_moves_stays_there() {
    the_writer_wins(false, true, true);
}

#[test]
#[should_panic(expected = "the writer did not win")]
fn restoring_a_row_whoever_wrote_it_since_brings_it_back() {
    the_writer_wins(true, true, false);
}

#[test]
#[should_panic]
fn clearing_a_row_whoever_wrote_it_since_loses_it() {
    the_writer_wins(false, false, true);
}

#[test]
fn a_reader_sees_the_row_whether_it_is_restored_or_not() {
    check(3, || {
        let row = Row::new();
        let compaction = thread::spawn({
            let row = row.clone();
            move || {
                let own = row.delete(true);
                row.roll_back(own, true);
            }
        });
        let preempter = thread::spawn({
            let row = row.clone();
            move || row.compaction.preempt()
        });
        let pin = row.epochs.pin(1);
        assert!(row.is_seen(1, &pin), "a snapshot lost the row");
        drop(pin);
        compaction.join().unwrap();
        preempter.join().unwrap();
    });
}

#[test]
fn a_compaction_commits_or_was_preempted() {
    check(3, || {
        let row = Row::new();
        let compaction = thread::spawn({
            let row = row.clone();
            move || {
                let own = row.delete(true);
                assert!(own.is_some());
                row.compaction.settle(Outcome::Committed(Timestamp(2)))
            }
        });
        let preempted = row.compaction.preempt();
        let committed = compaction.join().unwrap();
        assert_ne!(preempted, committed);
        let pin = row.epochs.pin(1);
        assert_eq!(row.is_seen(2, &pin), preempted);
        assert!(row.is_seen(1, &pin));
    });
}
