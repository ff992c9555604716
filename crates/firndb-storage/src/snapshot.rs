//! Snapshots: what a statement sees, and the state of the transaction that it belongs to.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;

use crate::clock::{Alone, Registration, Timestamp};
use crate::protocol::{Outcome, Standard, Status, View};

/// The part of a transaction that its records and snapshots refer to.
pub(crate) struct TransactionState {
    pub(crate) id: u64,
    pub(crate) status: Status<Standard>,
    statement: AtomicU32,
    /// What is done at the moment of a commit alone, before anybody can begin.
    at_commit: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl std::fmt::Debug for TransactionState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TransactionState")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl TransactionState {
    pub(crate) fn new(id: u64) -> Arc<Self> {
        Arc::new(Self {
            id,
            status: Status::new(),
            statement: AtomicU32::new(0),
            at_commit: Mutex::new(None),
        })
    }

    /// Of a transaction that gives way to others.
    pub(crate) fn yielding(id: u64) -> Arc<Self> {
        Arc::new(Self {
            id,
            status: Status::yielding(),
            statement: AtomicU32::new(0),
            at_commit: Mutex::new(None),
        })
    }

    /// Does something at the moment when it commits alone.
    pub(crate) fn at_commit(&self, action: Box<dyn FnOnce() + Send>) {
        *self.at_commit.lock() = Some(action);
    }

    /// The number of the current statement.
    pub(crate) fn statement(&self) -> u32 {
        self.statement.load(Ordering::Acquire)
    }

    pub(crate) fn next_statement(&self) {
        self.statement.fetch_add(1, Ordering::AcqRel);
    }
}

impl Alone for TransactionState {
    fn commit(&self, time: Timestamp) -> bool {
        let committed = self.status.settle(Outcome::Committed(time));
        if committed && let Some(action) = self.at_commit.lock().take() {
            action();
        }
        committed
    }

    fn has_committed(&self) -> bool {
        matches!(self.status.outcome(), Outcome::Committed(_))
    }
}

struct Held {
    registration: Arc<Registration>,
    own: Arc<TransactionState>,
    statement: u32,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.own.status.release();
    }
}

/// A consistent view of the database.
#[derive(Clone)]
pub struct Snapshot(Arc<Held>);

impl Snapshot {
    pub(crate) fn new(registration: &Arc<Registration>, own: &Arc<TransactionState>) -> Self {
        own.status.hold();
        Self(Arc::new(Held {
            registration: Arc::clone(registration),
            statement: own.statement(),
            own: Arc::clone(own),
        }))
    }

    /// What it sees.
    pub(crate) fn view(&self) -> View<'_, Standard> {
        View {
            start: self.0.registration.start,
            own: Some(&self.0.own.status),
            statement: self.0.statement,
        }
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot")
            .field("start", &self.0.registration.start)
            .field("statement", &self.0.statement)
            .finish_non_exhaustive()
    }
}
