//! One budget for everything large that a database keeps in memory.
//!
//! Large allocations reserve first ([`Budget::reserve`]) and fail with [`Error::OutOfMemory`];
//! small ones that cannot be refused are counted after the fact ([`Budget::charge`]).
//!
//! Invariants:
//! - `total` is the sum of the kinds and of `idle`; every byte in it is given back exactly once,
//!   a reservation's by its `Drop`.
//! - `idle` counts pages that the arena keeps for reuse. They are in use for the operating system, so
//!   they count against the limit, but they are nobody's: before a reservation fails, the arena is
//!   asked to return them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::{Error, Result};

/// Bytes in use, by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Frozen extents, those only held by exports included.
    pub frozen: usize,
    /// Hot blocks and their heaps.
    pub hot: usize,
    /// Undo records.
    pub undo: usize,
    /// Indexes.
    pub index: usize,
    /// Pages that are kept for reuse: nobody's, but not the operating system's yet.
    pub idle: usize,
}

/// What memory is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Frozen extents.
    Frozen,
    /// Hot blocks and their heaps.
    Hot,
    /// Undo records.
    Undo,
    /// Indexes.
    Index,
}

impl Kind {
    const COUNT: usize = 4;
}

/// Something that keeps memory for reuse and can return it.
pub trait Reclaim: Send + Sync {
    /// Returns up to `wanted` idle bytes (or somewhat more) to the operating system and takes them off the budget;
    /// gives their number.
    fn reclaim(&self, wanted: usize) -> usize;
}

/// The memory budget of one database.
pub struct Budget {
    /// `usize::MAX` when there is no limit.
    limit: AtomicUsize,
    total: AtomicUsize,
    idle: AtomicUsize,
    kinds: [AtomicUsize; Kind::COUNT],
    reclaimers: Mutex<Vec<Weak<dyn Reclaim>>>,
}

impl Budget {
    /// A budget of `limit` bytes; `None` for no limit.
    pub fn new(limit: Option<usize>) -> Arc<Self> {
        Arc::new(Self {
            limit: AtomicUsize::new(limit.unwrap_or(usize::MAX)),
            total: AtomicUsize::new(0),
            idle: AtomicUsize::new(0),
            kinds: Default::default(),
            reclaimers: Mutex::new(Vec::new()),
        })
    }

    /// Reserves `bytes`; they are given back when the reservation is dropped.
    ///
    /// Fails with [`Error::OutOfMemory`] when the limit does not allow it, even after idle memory was returned.
    pub fn reserve(self: &Arc<Self>, kind: Kind, bytes: usize) -> Result<Reservation> {
        self.try_charge(kind, bytes)?;
        Ok(Reservation {
            budget: Arc::clone(self),
            kind,
            bytes,
        })
    }

    /// Counts `bytes` if the limit allows it; the caller gives them back with [`Budget::release`].
    pub fn try_charge(&self, kind: Kind, bytes: usize) -> Result<()> {
        self.add_within_limit(bytes)?;
        self.kinds[kind as usize].fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Counts `bytes` whatever the limit is: for small things that cannot be refused.
    pub fn charge(&self, kind: Kind, bytes: usize) {
        self.total.fetch_add(bytes, Ordering::Relaxed);
        self.kinds[kind as usize].fetch_add(bytes, Ordering::Relaxed);
    }

    /// Gives back bytes counted by [`Budget::charge`] or [`Budget::try_charge`].
    pub fn release(&self, kind: Kind, bytes: usize) {
        self.kinds[kind as usize].fetch_sub(bytes, Ordering::Relaxed);
        self.total.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Changes the limit. What is in use stays, and new reservations fail until enough is given back.
    pub fn set_limit(&self, limit: Option<usize>) {
        self.limit
            .store(limit.unwrap_or(usize::MAX), Ordering::Relaxed);
    }

    /// The limit; `None` when there is none.
    pub fn limit(&self) -> Option<usize> {
        match self.limit.load(Ordering::Relaxed) {
            usize::MAX => None,
            limit => Some(limit),
        }
    }

    /// Bytes in use, by kind.
    pub fn usage(&self) -> MemoryUse {
        let of = |kind: Kind| self.kinds[kind as usize].load(Ordering::Relaxed);
        MemoryUse {
            frozen: of(Kind::Frozen),
            hot: of(Kind::Hot),
            undo: of(Kind::Undo),
            index: of(Kind::Index),
            idle: self.idle(),
        }
    }

    /// Bytes that may be reserved before the limit is met, idle ones included; `usize::MAX` when there is no limit.
    pub fn free(&self) -> usize {
        match self.limit() {
            None => usize::MAX,
            Some(limit) => {
                let used = self.total.load(Ordering::Relaxed);
                limit.saturating_sub(used.saturating_sub(self.idle()))
            }
        }
    }

    /// Bytes that are kept for reuse.
    pub fn idle(&self) -> usize {
        self.idle.load(Ordering::Relaxed)
    }

    /// Whether more is in use than the limit allows (it was lowered, or small things were counted past it).
    pub fn is_exceeded(&self) -> bool {
        self.total.load(Ordering::Relaxed) > self.limit.load(Ordering::Relaxed)
    }

    /// Returns what is kept for reuse to the operating system.
    pub(crate) fn return_all_idle(&self) {
        self.reclaim(usize::MAX);
    }

    /// Registers who can return idle memory when a reservation would fail.
    pub fn register_reclaimer(&self, reclaimer: Weak<dyn Reclaim>) {
        self.reclaimers.lock().push(reclaimer);
    }

    /// Memory that was in use is kept for reuse from now on.
    pub(super) fn retire_to_idle(&self, kind: Kind, bytes: usize) {
        self.idle.fetch_add(bytes, Ordering::Relaxed);
        self.kinds[kind as usize].fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Idle memory is in use again.
    pub(super) fn reuse_idle(&self, kind: Kind, bytes: usize) {
        self.kinds[kind as usize].fetch_add(bytes, Ordering::Relaxed);
        self.idle.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Idle memory was returned to the operating system.
    pub(super) fn return_idle(&self, bytes: usize) {
        self.idle.fetch_sub(bytes, Ordering::Relaxed);
        self.total.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn add_within_limit(&self, bytes: usize) -> Result<()> {
        loop {
            let limit = self.limit.load(Ordering::Relaxed);
            let added = self
                .total
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |total| {
                    total.checked_add(bytes).filter(|&sum| sum <= limit)
                });
            let Err(used) = added else { return Ok(()) };
            let missing = used.saturating_add(bytes).saturating_sub(limit);
            if self.reclaim(missing) == 0 {
                return Err(Error::OutOfMemory {
                    requested: bytes,
                    used: used - self.idle().min(used),
                    limit,
                });
            }
        }
    }

    /// Asks the reclaimers for `wanted` bytes; gives what they returned.
    fn reclaim(&self, wanted: usize) -> usize {
        if self.idle() == 0 {
            return 0;
        }
        // The list is copied out: a reclaimer takes its own locks.
        let reclaimers: Vec<_> = {
            let mut list = self.reclaimers.lock();
            list.retain(|reclaimer| reclaimer.strong_count() > 0);
            list.iter().filter_map(Weak::upgrade).collect()
        };
        let mut returned = 0;
        for reclaimer in reclaimers {
            if returned >= wanted {
                break;
            }
            returned += reclaimer.reclaim(wanted - returned);
        }
        returned
    }
}

impl std::fmt::Debug for Budget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Budget")
            .field("limit", &self.limit())
            .field("usage", &self.usage())
            .field("idle", &self.idle())
            .finish()
    }
}

/// Bytes reserved from a [`Budget`], given back on drop.
#[derive(Debug)]
pub struct Reservation {
    budget: Arc<Budget>,
    kind: Kind,
    bytes: usize,
}

impl Reservation {
    /// The bytes held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Reserves `bytes` more; on [`Error::OutOfMemory`] the reservation is as it was.
    pub fn grow(&mut self, bytes: usize) -> Result<()> {
        self.budget.try_charge(self.kind, bytes)?;
        self.bytes += bytes;
        Ok(())
    }

    /// Gives back `bytes` of it (at most all).
    pub fn shrink(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.budget.release(self.kind, bytes);
    }

    /// Takes `bytes` (at most all) out into a reservation of their own.
    pub fn split(&mut self, bytes: usize) -> Reservation {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Reservation {
            budget: Arc::clone(&self.budget),
            kind: self.kind,
            bytes,
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.release(self.kind, self.bytes);
    }
}
