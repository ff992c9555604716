//! The collector: unlinks and frees what no snapshot needs.
//!
//! Transactions that have ended queue up here with their undo buffers.
//!
//! - A committed transaction waits until every registered snapshot sees it; then the chains of its rows are cut. While it waits behind
//!   an old snapshot, records between snapshots are pruned, so one long reader keeps what it needs and no more.
//! - An aborted transaction waits until every operation has ended that may have copied its dirty data; then its records are
//!   taken out of their chains.
//!
//! Memory is freed an epoch after it was unlinked. One thread at a time collects: the collector's own, which sleeps when there is nothing to
//! do, or a committer, when the queue is long.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::block::place;
use crate::clock::{Horizon, Timestamp};
use crate::index::Key;
use crate::memory::trim;
use crate::observe::Observer;
use crate::protocol::Outcome;
use crate::reclaim::Pin;
use crate::relation::Relation;
use crate::relation::index::Index;
use crate::resources::Resources;
use crate::slot::Slot;
use crate::snapshot::TransactionState;
use crate::undo::{Own, Position, UndoBuffer, UndoRecord};

/// An index entry that may be superfluous.
pub(crate) struct Entry {
    pub(crate) relation: Arc<Relation>,
    pub(crate) index: Arc<Index>,
    pub(crate) key: Key,
    pub(crate) slot: Slot,
}

/// A transaction that has ended.
pub(crate) struct Finished {
    pub(crate) state: Arc<TransactionState>,
    pub(crate) undo: UndoBuffer,
    pub(crate) relations: Vec<Arc<Relation>>,
    /// Blocks that it loaded in bulk: relation, first, count.
    pub(crate) blocks: Vec<(Arc<Relation>, u32, u32)>,
    /// Entries to judge once its records are unlinked.
    pub(crate) entries: Vec<Entry>,
    /// The epoch that ended when it was marked aborted, or some of its records were.
    pub(crate) epoch: u64,
}

/// Queue length from which committers help.
const LONG: usize = 1024;
/// Queue length from which they wait.
const TOO_LONG: usize = 4096;
/// Records that are processed under one pin.
const CHUNK: usize = 512;
/// While there is work now and then, the collector looks by itself and nobody has to wake it.
const NAP: Duration = Duration::from_millis(1);
const NAPS: u32 = 20;
/// How long one who wants everything freed waits for operations of other threads.
const PATIENCE: Duration = Duration::from_millis(250);

#[derive(Default)]
struct Work {
    aborted: Vec<Finished>,
    committed: BTreeMap<Timestamp, Finished>,
    entries: Vec<Entry>,
    /// Blocks to look after when there is time.
    touched: HashSet<(u64, u32)>,
    /// Blocks that this pass met, by relation.
    written: HashMap<u64, (Arc<Relation>, HashSet<u32>)>,
    relations: Vec<Arc<Relation>>,
    /// Number of waiting transactions from which those that others emptied are looked for.
    swept: usize,
}

/// What a pass left.
#[derive(Debug, Clone, Copy, Default)]
struct Left {
    /// It did something.
    progress: bool,
    /// Things wait for operations to end: soon.
    operations: bool,
    /// Things wait for snapshots to be dropped: sometime.
    snapshots: bool,
}

/// The collector of one database.
pub(crate) struct Collector {
    resources: Arc<Resources>,
    queue: Mutex<Vec<Finished>>,
    queued: AtomicUsize,
    work: Mutex<Work>,
    stopped: AtomicBool,
    observer: Observer,
}

/// After how long without work memory that the allocator keeps is returned.
const REST: Duration = Duration::from_millis(250);

impl Collector {
    pub(crate) fn new(resources: &Arc<Resources>) -> Arc<Self> {
        Arc::new(Self {
            resources: Arc::clone(resources),
            queue: Mutex::default(),
            queued: AtomicUsize::new(0),
            work: Mutex::default(),
            stopped: AtomicBool::new(false),
            observer: Observer::new(),
        })
    }

    /// Which blocks may become cold.
    pub(crate) fn observer(&self) -> &Observer {
        &self.observer
    }

    pub(crate) fn resources(&self) -> &Arc<Resources> {
        &self.resources
    }

    /// Takes a transaction over that has ended.
    pub(crate) fn push(&self, finished: Finished) {
        self.queue.lock().push(finished);
        let queued = self.queued.fetch_add(1, Ordering::SeqCst) + 1;
        self.resources.clock.bell().ring();
        if queued >= TOO_LONG {
            // Whoever collects cannot keep up: wait for it, holding nothing, and help.
            self.pass(&mut self.work.lock(), false);
        } else if queued >= LONG
            && let Some(mut work) = self.work.try_lock()
        {
            self.pass(&mut work, false);
        }
    }

    /// Collects until it is stopped.
    pub(crate) fn run(&self) {
        let bell = self.resources.clock.bell();
        let mut idle = 0;
        let mut has_worked = false;
        while !self.stopped.load(Ordering::SeqCst) {
            let left = self.pass(&mut self.work.lock(), idle >= NAPS);
            idle = if left.progress { 0 } else { idle + 1 };
            has_worked |= left.progress;
            if left.operations || idle <= NAPS {
                bell.nap(NAP);
                continue;
            }
            self.resources.clock.await_snapshots(left.snapshots);
            bell.listen();
            let missed = self.queued.load(Ordering::SeqCst) > 0
                || self.stopped.load(Ordering::SeqCst)
                || left.snapshots && self.is_due();
            if missed {
                bell.stay_awake();
            } else if !has_worked {
                bell.sleep();
            } else if !bell.sleep_for(REST) {
                trim();
                has_worked = false;
            }
            idle = 0;
        }
    }

    /// Makes `run` return.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        self.resources.clock.bell().alarm();
    }

    /// Collects until nothing more can be freed, or what is left waits for snapshots or for operations of other threads that do not end
    /// within [`PATIENCE`].
    pub(crate) fn collect(&self) {
        let mut waits_since: Option<Instant> = None;
        loop {
            let left = self.pass(&mut self.work.lock(), true);
            if left.progress {
                waits_since = None;
                continue;
            }
            if !left.operations {
                return;
            }
            // A thread that was interrupted in the middle of its operation has to get a processor first.
            let waited = waits_since.get_or_insert_with(Instant::now).elapsed();
            if waited > PATIENCE {
                return;
            } else if waited > NAP {
                std::thread::sleep(NAP);
            } else {
                std::thread::yield_now();
            }
        }
    }

    /// Whether the oldest transaction that waits for snapshots may be collected.
    fn is_due(&self) -> bool {
        let oldest = self.resources.clock.horizon().oldest;
        let work = self.work.lock();
        work.committed
            .first_key_value()
            .is_some_and(|(&time, _)| time <= oldest)
    }

    fn pass(&self, work: &mut Work, thorough: bool) -> Left {
        let arrivals = std::mem::take(&mut *self.queue.lock());
        self.queued.fetch_sub(arrivals.len(), Ordering::AcqRel);
        let mut left = Left {
            progress: !arrivals.is_empty(),
            ..Left::default()
        };
        let horizon = self.resources.clock.horizon();
        let mut garbage = Vec::new();

        for finished in arrivals {
            self.arrive(work, finished, &horizon, &mut garbage);
        }
        while let Some(first) = work.committed.first_entry()
            && *first.key() <= horizon.oldest
        {
            let finished = first.remove();
            left.progress = true;
            self.collect_committed(work, finished, horizon.oldest, &mut garbage);
        }
        left.progress |= self.collect_aborted(work, &mut garbage);
        if !garbage.is_empty() {
            self.resources
                .reclaimer
                .retire(Box::new(move || drop(garbage)));
        }
        left.progress |= self.forget_entries(work);
        self.observe(work);
        self.tidy(work, thorough);
        let waiting = self.resources.reclaimer.reclaim();
        left.operations = waiting > 0 || !work.aborted.is_empty();
        left.snapshots = !work.committed.is_empty();
        left
    }

    fn arrive(
        &self,
        work: &mut Work,
        mut finished: Finished,
        horizon: &Horizon,
        garbage: &mut Vec<Box<dyn Send>>,
    ) {
        let pin = self.resources.reclaimer.pin();
        let outcome = finished.state.status.outcome();
        for (relation, first, count) in &finished.blocks {
            for number in *first..*first + *count {
                if let Some(birth) = relation.block(number, &pin).and_then(|block| block.birth()) {
                    birth.set(outcome);
                }
            }
        }
        drop(pin);
        finished.blocks.clear();
        let Outcome::Committed(time) = outcome else {
            work.aborted.push(finished);
            return;
        };
        if time > horizon.oldest && time <= horizon.published {
            self.prune(&mut finished, horizon, garbage);
            self.touch(work, &finished);
            if finished.undo.is_empty() && finished.entries.is_empty() {
                garbage.push(Box::new((finished.undo, finished.state)));
                return;
            }
        }
        work.committed.insert(time, finished);
    }

    /// Prunes the chains of a commit that some snapshot does not see.
    fn prune(&self, finished: &mut Finished, horizon: &Horizon, garbage: &mut Vec<Box<dyn Send>>) {
        self.each(finished, |relation, record, _, pin| {
            relation.prune(record, horizon, pin);
        });
        let segments = finished.undo.take_unlinked();
        if !segments.is_empty() {
            garbage.push(Box::new((segments, Arc::clone(&finished.state))));
        }
    }

    /// Cuts the chains of a commit that everybody sees.
    fn collect_committed(
        &self,
        work: &mut Work,
        mut finished: Finished,
        oldest: Timestamp,
        garbage: &mut Vec<Box<dyn Send>>,
    ) {
        let passed = self.resources.reclaimer.passed();
        let mut waits = false;
        self.each(&finished, |relation, record, own, pin| {
            match record.link().stamp.outcome(pin) {
                Outcome::Aborted(epoch) if record.is_unlinked() || epoch > passed => {
                    waits |= !record.is_unlinked();
                }
                Outcome::Aborted(_) => relation.unlink_aborted(own, record, pin),
                _ => relation.truncate(record, oldest, pin),
            }
        });
        self.touch(work, &finished);
        work.entries.append(&mut finished.entries);
        if waits {
            work.aborted.push(finished);
        } else {
            garbage.push(Box::new((finished.undo, finished.state)));
        }
    }

    /// Unlinks the records of aborted transactions, and aborted records of committed ones, whose epoch has passed.
    fn collect_aborted(&self, work: &mut Work, garbage: &mut Vec<Box<dyn Send>>) -> bool {
        let passed = self.resources.reclaimer.passed();
        let ready: Vec<Finished> = work
            .aborted
            .extract_if(.., |finished| finished.epoch <= passed)
            .collect();
        let progress = !ready.is_empty();
        for mut finished in ready {
            self.each(&finished, |relation, record, own, pin| {
                relation.unlink_aborted(own, record, pin);
            });
            self.touch(work, &finished);
            work.entries.append(&mut finished.entries);
            garbage.push(Box::new((finished.undo, finished.state)));
        }
        progress
    }

    /// Judges index entries that may be superfluous.
    fn forget_entries(&self, work: &mut Work) -> bool {
        let before = work.entries.len();
        let mut entries = std::mem::take(&mut work.entries);
        for chunk in entries.chunks_mut(CHUNK) {
            let pin = self.resources.reclaimer.pin();
            for entry in chunk {
                // An entry that cannot be judged (no memory for its key) stays, which does no harm.
                let judged = entry
                    .index
                    .forget(&entry.relation, &entry.key, entry.slot, &pin);
                if matches!(judged, Ok(false)) {
                    work.entries.push(Entry {
                        relation: Arc::clone(&entry.relation),
                        index: Arc::clone(&entry.index),
                        key: entry.key.clone(),
                        slot: entry.slot,
                    });
                }
            }
        }
        work.entries.len() < before
    }

    /// Remembers which blocks to look after, and that they were written.
    fn touch(&self, work: &mut Work, finished: &Finished) {
        for relation in &finished.relations {
            if !work
                .relations
                .iter()
                .any(|known| Arc::ptr_eq(known, relation))
            {
                work.relations.push(Arc::clone(relation));
            }
        }
        let mut last = None;
        for own in finished.undo.records(Position::default()) {
            let record = own.record(&finished.undo);
            if let (Some((block, _)), Some(relation)) = (
                place(record.slot),
                finished.relations.get(record.table as usize),
            ) {
                let block = (relation.id, block);
                // Records of one block mostly follow each other.
                if last != Some(block) {
                    last = Some(block);
                    work.touched.insert(block);
                    let (_, written) = work
                        .written
                        .entry(relation.id)
                        .or_insert_with(|| (Arc::clone(relation), HashSet::new()));
                    written.insert(block.1);
                }
            }
        }
    }

    /// Tells the observer what this pass met.
    fn observe(&self, work: &mut Work) {
        for (relation, blocks) in work.written.drain().map(|(_, written)| written) {
            self.observer.note(&relation, blocks);
        }
    }

    /// Rewrites heaps that hold mostly garbage; when there is time, takes version arrays away and frees transactions that
    /// others' pruning has emptied.
    fn tidy(&self, work: &mut Work, thorough: bool) {
        if work.touched.is_empty() && !thorough {
            return;
        }
        for &(relation, number) in &work.touched {
            let Some(relation) = work.relations.iter().find(|known| known.id == relation) else {
                continue;
            };
            let pin = self.resources.reclaimer.pin();
            let Some(block) = relation.block(number, &pin) else {
                continue;
            };
            // Without memory for the copy the garbage stays for now.
            let _ = relation.compact_heaps(block, &pin);
            if thorough && let Some(detached) = block.versions.detach() {
                self.resources
                    .reclaimer
                    .retire(Box::new(move || drop(detached)));
            }
        }
        let emptied = thorough || work.committed.len() >= work.swept;
        if emptied {
            let mut garbage: Vec<Box<dyn Send>> = Vec::new();
            work.committed.retain(|_, finished| {
                let segments = finished.undo.take_unlinked();
                if !segments.is_empty() {
                    garbage.push(Box::new((segments, Arc::clone(&finished.state))));
                }
                !finished.undo.is_empty() || !finished.entries.is_empty()
            });
            work.swept = 2 * work.committed.len() + LONG;
            self.resources
                .reclaimer
                .retire(Box::new(move || drop(garbage)));
        }
        if thorough {
            work.touched.clear();
            work.relations.clear();
        }
    }

    /// Calls `act` on every record with its relation, the last one first: of two aborted records of a row, the older one hides the dirty
    /// image of the newer one, so it has to stay longer.
    fn each(
        &self,
        finished: &Finished,
        mut act: impl FnMut(&Relation, &UndoRecord, Own, &Pin<'_>),
    ) {
        let mut pin = self.resources.reclaimer.pin();
        let records: Vec<Own> = finished.undo.records(Position::default()).collect();
        for (at, &own) in records.iter().rev().enumerate() {
            if at % CHUNK == CHUNK - 1 {
                drop(pin);
                pin = self.resources.reclaimer.pin();
            }
            let record = own.record(&finished.undo);
            if let Some(relation) = finished.relations.get(record.table as usize) {
                act(relation, record, own, &pin);
            }
        }
    }
}

impl std::fmt::Debug for Collector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Collector")
            .field("queued", &self.queued.load(Ordering::Relaxed))
            .finish_non_exhaustive()
    }
}
