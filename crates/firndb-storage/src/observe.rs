//! Which blocks were written lately, and when each will be cold.
//!
//! After *Mainlining Databases*, section 4.2: writers note nothing; the collector, which goes through their undo records anyway, tells what it met. A block is
//! cold when the collector has not met it for its table's threshold. One whose versions are not collected yet will be met later, so it
//! need not be asked about until then.
//!
//! Invariant: every hot block with rows that was written since its last visit by the freezer is listed here, or its records are still to be met.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::clock::Bell;
use crate::relation::Relation;

/// A block that may become cold.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    written: Instant,
    /// How often it was visited in vain since.
    attempts: u32,
}

/// Visits in vain after which a block is left alone until it is written again, or its versions are collected.
const ATTEMPTS: u32 = 10;

impl Candidate {
    /// When to visit it: after the threshold, then ever more rarely.
    fn due(self, threshold: Duration) -> Instant {
        self.written + threshold * (1 << self.attempts)
    }
}

struct Table {
    relation: Weak<Relation>,
    blocks: BTreeMap<u32, Candidate>,
}

#[derive(Default)]
struct Tables {
    by_id: HashMap<u64, Table>,
    /// When the freezer will look; `None` if it will sleep until it is woken.
    next: Option<Instant>,
}

/// The blocks of a database that may become cold.
pub(crate) struct Observer {
    tables: Mutex<Tables>,
    bell: Bell,
    stopped: AtomicBool,
}

/// Blocks of one relation that are cold, ascending.
pub(crate) struct Cold {
    pub(crate) relation: Arc<Relation>,
    pub(crate) blocks: Vec<u32>,
}

impl Observer {
    pub(crate) fn new() -> Self {
        Self {
            tables: Mutex::default(),
            bell: Bell::default(),
            stopped: AtomicBool::new(false),
        }
    }

    /// Notes blocks that were written.
    pub(crate) fn note(&self, relation: &Arc<Relation>, blocks: impl IntoIterator<Item = u32>) {
        self.note_for(relation, blocks, Duration::ZERO);
    }

    /// Notes blocks as if they were written in some time.
    pub(crate) fn note_for(
        &self,
        relation: &Arc<Relation>,
        blocks: impl IntoIterator<Item = u32>,
        later: Duration,
    ) {
        let Some(threshold) = relation.heat.threshold() else {
            return;
        };
        let candidate = Candidate {
            written: Instant::now() + later,
            attempts: 0,
        };
        let mut tables = self.tables.lock();
        let table = tables.by_id.entry(relation.id).or_insert_with(|| Table {
            relation: Arc::downgrade(relation),
            blocks: BTreeMap::new(),
        });
        let before = table.blocks.len();
        for block in blocks {
            table.blocks.insert(block, candidate);
        }
        if before == 0 && table.blocks.is_empty() {
            tables.by_id.remove(&relation.id);
            return;
        }
        // Mostly the freezer looks earlier than that anyway.
        let due = candidate.due(threshold);
        let is_first = tables.next.is_none_or(|next| due < next);
        if is_first {
            tables.next = Some(due);
        }
        drop(tables);
        if is_first {
            self.bell.ring();
        }
    }

    /// Takes the blocks out that are cold by `now`, and says when to ask again.
    pub(crate) fn take_cold(&self, now: Instant) -> (Vec<Cold>, Option<Instant>) {
        let mut cold = Vec::new();
        let mut next: Option<Instant> = None;
        let mut tables = self.tables.lock();
        tables.by_id.retain(|_, table| {
            let Some(relation) = table.relation.upgrade() else {
                return false;
            };
            let Some(threshold) = relation.heat.threshold() else {
                return false;
            };
            let mut blocks = Vec::new();
            table.blocks.retain(|&number, candidate| {
                let due = candidate.due(threshold);
                if due <= now {
                    blocks.push((number, candidate.attempts));
                    // Listed until the visit tells what became of it, so that a note meanwhile is not lost.
                    candidate.attempts += 1;
                    return candidate.attempts <= ATTEMPTS;
                }
                next = Some(next.map_or(due, |next| next.min(due)));
                true
            });
            if !blocks.is_empty() {
                cold.push(Cold {
                    relation,
                    blocks: blocks.into_iter().map(|(number, _)| number).collect(),
                });
            }
            !table.blocks.is_empty()
        });
        tables.next = next;
        drop(tables);
        (cold, next)
    }

    /// Forgets blocks that were visited after `since` and are done with, unless they were written again.
    pub(crate) fn forget(&self, relation: &Relation, blocks: &[u32], since: Instant) {
        let mut tables = self.tables.lock();
        if let Some(table) = tables.by_id.get_mut(&relation.id) {
            for block in blocks {
                if table
                    .blocks
                    .get(block)
                    .is_some_and(|candidate| candidate.written <= since)
                {
                    table.blocks.remove(block);
                }
            }
            if table.blocks.is_empty() {
                tables.by_id.remove(&relation.id);
            }
        }
    }

    /// Sleeps until `next`, which [`take_cold`](Self::take_cold) said, or until there is something to look after earlier, and not longer than `most`.
    pub(crate) fn wait(&self, next: Option<Instant>, most: Option<Duration>) {
        self.bell.listen();
        // A note that came before we listened has changed this; a later one rings.
        if self.stopped() || self.tables.lock().next != next {
            self.bell.stay_awake();
            return;
        }
        let until_next = next.map(|next| next.saturating_duration_since(Instant::now()));
        match until_next.into_iter().chain(most).min() {
            None => self.bell.sleep(),
            Some(time) => {
                self.bell.sleep_for(time);
            }
        }
    }

    /// Ends the freezer.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        self.bell.alarm();
    }

    pub(crate) fn stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }
}
