//! The protocol under loom: a row of two words that always change together, so that a reader who sees them differ has seen a race.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64};
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
    image: [u64; 2],
}

/// What is published, and the starts of registered snapshots.
struct Clock {
    published: u64,
    starts: Vec<u64>,
}

struct Row {
    words: [AtomicU64; 2],
    versions: Versions<Model>,
    epochs: Epochs<Model>,
    clock: Mutex<Clock>,
    /// Records of all transactions; kept to the end, so unlinking is checked apart from freeing.
    records: Mutex<Vec<Box<Undo>>>,
}

/// The value of the version that is committed from the beginning.
const OLD: u64 = 7;

impl Row {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            words: [AtomicU64::new(OLD), AtomicU64::new(OLD)],
            versions: Versions::new(1),
            epochs: Epochs::new(3),
            clock: Mutex::new(Clock {
                published: 1,
                starts: Vec::new(),
            }),
            records: Mutex::new(Vec::new()),
        })
    }

    fn begin(&self) -> u64 {
        let mut clock = self.clock.lock().unwrap();
        let start = clock.published;
        clock.starts.push(start);
        start
    }

    fn end(&self, start: u64) {
        let mut clock = self.clock.lock().unwrap();
        let at = clock.starts.iter().position(|&other| other == start);
        clock.starts.remove(at.unwrap());
    }

    fn commit(&self, status: &Status<Model>) -> u64 {
        let mut clock = self.clock.lock().unwrap();
        let time = clock.published + 1;
        status.set(Outcome::Committed(Timestamp(time)));
        clock.published = time;
        time
    }

    /// Steps 1 to 4 of a writer; `false` on a conflict.
    fn write(&self, value: u64, start: u64, status: &Status<Model>, pin: &Pin<'_, Model>) -> bool {
        let mut heads = self.versions.attach(1, pin);
        loop {
            let state = match heads.head(0).observe() {
                Observed::Open(state) => state,
                Observed::Marked => {
                    thread::yield_now();
                    continue;
                }
                Observed::Sealed => {
                    thread::yield_now();
                    heads = self.versions.reattach(pin);
                    continue;
                }
            };
            let view = View {
                start: Timestamp(start),
                own: Some(status),
                statement: 1,
            };
            if !may_write(Head::observed(state, pin), &view, pin) {
                self.versions.uncount(1);
                return false;
            }
            let mut undo = Box::new(Undo {
                link: Link::new(status, 0),
                image: [0, 1].map(|word: usize| self.words[word].load(Relaxed)),
            });
            let image = undo.image;
            let link = (&raw mut *undo).cast::<Record>();
            // SAFETY: complete, boxed, and kept to the end of the model.
            let installed = unsafe { heads.head(0).install(state, link) };
            self.records.lock().unwrap().push(undo);
            if installed {
                assert_eq!(image[0], image[1], "a torn before-image was installed");
                self.store(value);
                return true;
            }
        }
    }

    fn store(&self, value: u64) {
        for word in &self.words {
            word.store(value, Relaxed);
        }
    }

    /// The reader's side.
    fn read(&self, view: &View<'_, Model>, pin: &Pin<'_, Model>) -> u64 {
        let mut words = [0, 1].map(|word: usize| self.words[word].load(Relaxed));
        let settled = settle::<Model>();
        if let Some(heads) = self.versions.heads(&settled, pin) {
            walk(heads.head(0).newest(&settled, pin), view, pin, |link| {
                words = image(link);
            });
        }
        assert_eq!(words[0], words[1], "a torn row was seen");
        words[0]
    }

    fn newest<'g>(&self, pin: &'g Pin<'_, Model>) -> Option<Linked<'g, Model>> {
        let settled = settle::<Model>();
        let heads = self.versions.heads(&settled, pin)?;
        heads.head(0).newest(&settled, pin)
    }

    /// The collector's truncation, for a commit that everybody sees.
    fn truncate(&self, time: u64, pin: &Pin<'_, Model>) {
        let oldest = {
            let clock = self.clock.lock().unwrap();
            clock
                .starts
                .iter()
                .copied()
                .min()
                .unwrap_or(clock.published)
        };
        let Some(newest) = self.newest(pin).filter(|_| time <= oldest) else {
            return;
        };
        let settled = settle::<Model>();
        if let Some(heads) = self.versions.heads(&settled, pin)
            && newest.stamp.outcome(pin) == Outcome::Committed(Timestamp(time))
        {
            bypass(heads.head(0), newest, None, pin);
            self.versions.uncount(1);
        }
    }
}

fn image(link: Linked<'_, Model>) -> [u64; 2] {
    // SAFETY: every link of the model is the first field of an `Undo`.
    unsafe { (*link.pointer().cast::<Undo>()).image }
}

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

fn view(start: u64) -> View<'static, Model> {
    View {
        start: Timestamp(start),
        own: None,
        statement: 0,
    }
}

/// A status word that outlives every reader of the model.
fn status() -> Arc<Status<Model>> {
    Arc::new(Status::new())
}

#[test]
fn a_commit_is_seen_whole_or_not_at_all() {
    check(|| {
        let row = Row::new();
        let status = status();
        let writer = thread::spawn({
            let (row, status) = (row.clone(), status.clone());
            move || {
                let pin = row.epochs.pin(0);
                assert!(row.write(8, 1, &status, &pin));
                drop(pin);
                row.commit(&status);
            }
        });
        let start = row.begin();
        let pin = row.epochs.pin(1);
        let expected = if start >= 2 { 8 } else { OLD };
        assert_eq!(row.read(&view(start), &pin), expected);
        drop(pin);
        writer.join().unwrap();
    });
}

#[test]
fn dirty_data_of_an_abort_is_never_seen_however_soon_it_is_unlinked() {
    check(|| {
        let row = Row::new();
        let status = status();
        let writer = thread::spawn({
            let (row, status) = (row.clone(), status.clone());
            move || {
                let pin = row.epochs.pin(0);
                assert!(row.write(8, 1, &status, &pin));
                row.store(OLD);
                drop(pin);
                let epoch = row.epochs.advance();
                status.set(Outcome::Aborted(epoch));
                if row.epochs.passed() >= epoch {
                    let pin = row.epochs.pin(0);
                    let link = row.newest(&pin).unwrap();
                    let settled = settle::<Model>();
                    let heads = row.versions.heads(&settled, &pin).unwrap();
                    bypass(heads.head(0), link, link.older(&pin), &pin);
                    row.versions.uncount(1);
                }
            }
        });
        let start = row.begin();
        let pin = row.epochs.pin(1);
        assert_eq!(row.read(&view(start), &pin), OLD);
        drop(pin);
        writer.join().unwrap();
    });
}

/// Of two records of one row the newer one has a dirty image: it goes first.
#[test]
fn two_changes_of_an_abort_are_unlinked_newest_first() {
    check(|| {
        let row = Row::new();
        let status = status();
        let writer = thread::spawn({
            let (row, status) = (row.clone(), status.clone());
            move || {
                let pin = row.epochs.pin(0);
                assert!(row.write(8, 1, &status, &pin));
                assert!(row.write(9, 1, &status, &pin));
                row.store(8);
                row.store(OLD);
                drop(pin);
                let epoch = row.epochs.advance();
                status.set(Outcome::Aborted(epoch));
                if row.epochs.passed() >= epoch {
                    let pin = row.epochs.pin(0);
                    for _ in 0..2 {
                        let link = row.newest(&pin).unwrap();
                        let settled = settle::<Model>();
                        let heads = row.versions.heads(&settled, &pin).unwrap();
                        bypass(heads.head(0), link, link.older(&pin), &pin);
                        row.versions.uncount(1);
                    }
                }
            }
        });
        let start = row.begin();
        let pin = row.epochs.pin(1);
        assert_eq!(row.read(&view(start), &pin), OLD);
        drop(pin);
        writer.join().unwrap();
    });
}

#[test]
fn a_writer_takes_over_a_row_only_after_the_abort_has_restored_it() {
    check(|| {
        let row = Row::new();
        let (one, two) = (status(), status());
        let aborter = thread::spawn({
            let (row, one) = (row.clone(), one.clone());
            move || {
                let pin = row.epochs.pin(0);
                if row.write(8, 1, &one, &pin) {
                    row.store(OLD);
                }
                drop(pin);
                let epoch = row.epochs.advance();
                one.set(Outcome::Aborted(epoch));
            }
        });
        let pin = row.epochs.pin(1);
        let wrote = row.write(9, 1, &two, &pin);
        // Not committed: everybody else still sees the old version.
        assert_eq!(row.read(&view(1), &pin), OLD);
        drop(pin);
        aborter.join().unwrap();
        let pin = row.epochs.pin(0);
        assert_eq!(row.read(&view(1), &pin), OLD);
        if wrote {
            let own = View {
                start: Timestamp(1),
                own: Some(&*two),
                statement: 1,
            };
            assert_eq!(row.read(&own, &pin), 9);
        }
    });
}

#[test]
fn truncating_a_chain_takes_no_version_from_a_snapshot() {
    check(|| {
        let row = Row::new();
        let status = status();
        let writer = thread::spawn({
            let (row, status) = (row.clone(), status.clone());
            move || {
                let pin = row.epochs.pin(0);
                assert!(row.write(8, 1, &status, &pin));
                let time = row.commit(&status);
                row.truncate(time, &pin);
            }
        });
        let start = row.begin();
        let pin = row.epochs.pin(1);
        let expected = if start >= 2 { 8 } else { OLD };
        assert_eq!(row.read(&view(start), &pin), expected);
        drop(pin);
        row.end(start);
        writer.join().unwrap();
    });
}

#[test]
fn no_record_is_lost_when_the_version_array_is_detached() {
    check(|| {
        let row = Row::new();
        {
            let pin = row.epochs.pin(0);
            row.versions.attach(1, &pin);
            row.versions.uncount(1);
        }
        let status = status();
        let collector = thread::spawn({
            let row = row.clone();
            // Kept to the end: freeing is the epochs' business.
            move || row.versions.detach()
        });
        let writer = thread::spawn({
            let (row, status) = (row.clone(), status.clone());
            move || {
                let pin = row.epochs.pin(0);
                assert!(row.write(8, 1, &status, &pin));
            }
        });
        let pin = row.epochs.pin(1);
        assert_eq!(row.read(&view(1), &pin), OLD);
        drop(pin);
        let detached = collector.join().unwrap();
        writer.join().unwrap();
        let pin = row.epochs.pin(1);
        assert_eq!(row.read(&view(1), &pin), OLD);
        drop(detached);
    });
}

#[test]
fn a_before_image_that_was_copied_across_a_move_is_not_installed() {
    check(|| {
        let row = Row::new();
        let status = status();
        {
            let pin = row.epochs.pin(0);
            row.versions.attach(1, &pin);
        }
        let mover = thread::spawn({
            let row = row.clone();
            move || {
                let pin = row.epochs.pin(0);
                let settled = settle::<Model>();
                let heads = row.versions.heads(&settled, &pin).unwrap();
                if let Observed::Open(state) = heads.head(0).observe()
                    && Head::observed(state, &pin).is_none()
                    && heads.head(0).mark(state)
                {
                    row.store(11);
                    heads.head(0).unmark(state, true);
                    return true;
                }
                false
            }
        });
        let pin = row.epochs.pin(1);
        assert!(row.write(8, 1, &status, &pin));
        let before = image(row.newest(&pin).unwrap());
        drop(pin);
        let moved = mover.join().unwrap();
        assert_eq!(before, [if moved { 11 } else { OLD }; 2]);
        assert_eq!(row.words[0].load(Relaxed), 8);
    });
}

#[test]
fn nothing_is_freed_while_it_is_pinned() {
    check(|| {
        let epochs = Arc::new(Epochs::<Model>::new(2));
        let freed = Arc::new(AtomicBool::new(false));
        let target = Box::into_raw(Box::new(0_u64));
        let shared = Arc::new(AtomicPtr::new(target));
        let reader = thread::spawn({
            let (epochs, freed, shared) = (epochs.clone(), freed.clone(), shared.clone());
            move || {
                let pin = epochs.pin(0);
                if !shared.load(Acquire).is_null() {
                    assert!(!freed.load(Acquire));
                }
                drop(pin);
            }
        });
        shared.store(std::ptr::null_mut(), Release);
        let epoch = epochs.advance();
        if epochs.passed() >= epoch {
            freed.store(true, Release);
        }
        reader.join().unwrap();
        // SAFETY: boxed above, and both threads are done with it.
        drop(unsafe { Box::from_raw(target) });
    });
}
