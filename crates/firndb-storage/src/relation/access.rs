//! Who may write a relation: the writers that are open, and the one that excludes others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::clock::Timestamp;
use crate::snapshot::TransactionState;

#[derive(Default)]
struct Writers {
    exclusive: Option<u64>,
    open: Vec<u64>,
    last_commit: Timestamp,
    /// The compaction that is moving rows. It excludes nobody, and yields to who excludes others.
    compaction: Option<Arc<TransactionState>>,
}

/// The lock of a relation: shared by writers, exclusive for who alters it. Nobody waits; who is refused has a conflict.
#[derive(Default)]
pub(crate) struct Access {
    writers: Mutex<Writers>,
    retired: AtomicBool,
}

impl Access {
    /// Enters a transaction as a writer; `false` if another one excludes it, or the relation is retired.
    pub(crate) fn enter(&self, transaction: u64) -> bool {
        let mut writers = self.writers.lock();
        let free = writers.exclusive.is_none_or(|owner| owner == transaction);
        if !free || self.is_retired() {
            return false;
        }
        writers.open.push(transaction);
        true
    }

    /// Excludes other writers; `false` if one is open, or one committed after `start`. The transaction has entered.
    pub(crate) fn exclude(&self, transaction: u64, start: Timestamp) -> bool {
        let mut writers = self.writers.lock();
        if writers.open.iter().any(|&other| other != transaction) || writers.last_commit > start {
            return false;
        }
        writers.exclusive = Some(transaction);
        if let Some(compaction) = writers.compaction.take() {
            compaction.status.preempt();
        }
        true
    }

    /// Enters a compaction; `false` if a writer excludes others, or the relation is retired.
    pub(crate) fn enter_compaction(&self, compaction: &Arc<TransactionState>) -> bool {
        let mut writers = self.writers.lock();
        if writers.exclusive.is_some() || self.is_retired() {
            return false;
        }
        writers.compaction = Some(Arc::clone(compaction));
        true
    }

    /// Ends a compaction.
    pub(crate) fn leave_compaction(&self) {
        self.writers.lock().compaction = None;
    }

    /// Whether the transaction excludes others.
    pub(crate) fn is_exclusive(&self, transaction: u64) -> bool {
        self.writers.lock().exclusive == Some(transaction)
    }

    /// Ends a writer that has entered. What it retires is retired before.
    pub(crate) fn leave(&self, transaction: u64, committed: Option<Timestamp>) {
        let mut writers = self.writers.lock();
        if let Some(at) = writers.open.iter().position(|&open| open == transaction) {
            writers.open.swap_remove(at);
        }
        if writers.exclusive == Some(transaction) {
            writers.exclusive = None;
        }
        if let Some(time) = committed {
            writers.last_commit = writers.last_commit.max(time);
        }
    }

    /// The last commit of a writer, if a snapshot taken at `start`, before this call, sees all that was ever written: nobody is writing, and nobody
    /// committed later. A writer leaves only after its commit can be seen, so who commits before `start` either is still in or has told.
    pub(crate) fn settled(&self, start: Timestamp) -> Option<Timestamp> {
        let writers = self.writers.lock();
        (writers.open.is_empty() && writers.last_commit <= start).then_some(writers.last_commit)
    }

    /// Refuses every later writer.
    pub(crate) fn retire(&self) {
        self.retired.store(true, Ordering::Release);
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }
}
