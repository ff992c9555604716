//! The clock: timestamps of commits, and which snapshots are registered.
//!
//! Invariants:
//! - `published` is the greatest timestamp all of whose commits are complete; it never goes back.
//! - A transaction that yields ([`Clock::commit_alone`]) commits at a moment when no other transaction is open. So every transaction that can write sees it whole,
//!   and a snapshot that does not see it belongs to a transaction that has ended.
//! - A registered start is not below what was published at any earlier moment, so once the collector has read the [`Horizon`], no
//!   snapshot can appear below it, nor between two starts that it lists.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, MutexGuard, PoisonError};

use parking_lot::Mutex;

pub(crate) use crate::protocol::Timestamp;

/// A transaction that yields to others, and commits when there is no other.
pub(crate) trait Alone: std::fmt::Debug + Send + Sync {
    /// Commits, unless somebody preempted it.
    fn commit(&self, time: Timestamp) -> bool;
    /// Whether it has committed.
    fn has_committed(&self) -> bool;
}

#[derive(Debug)]
struct Order {
    published: Timestamp,
    /// Registered starts in ascending order, with how many share one.
    starts: VecDeque<(Timestamp, usize)>,
    /// Who waits to commit alone.
    alone: Vec<Arc<dyn Alone>>,
}

/// The clock of one database.
#[derive(Debug)]
pub(crate) struct Clock {
    order: Mutex<Order>,
    /// Whether the collector keeps records until a snapshot goes.
    awaited: AtomicBool,
    bell: Bell,
    /// Open transactions that do not yield. Raised under the latch.
    open: AtomicUsize,
    /// Whether somebody waits to commit alone.
    waiting: AtomicBool,
}

/// What bounds collection.
#[derive(Debug, Clone)]
pub(crate) struct Horizon {
    /// Commits up to here are seen by every snapshot, now and later.
    pub(crate) oldest: Timestamp,
    /// The last published commit.
    pub(crate) published: Timestamp,
    /// The registered starts, ascending.
    pub(crate) starts: Vec<Timestamp>,
}

impl Clock {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            order: Mutex::new(Order {
                published: Timestamp(1),
                starts: VecDeque::new(),
                alone: Vec::new(),
            }),
            awaited: AtomicBool::new(false),
            bell: Bell::default(),
            open: AtomicUsize::new(0),
            waiting: AtomicBool::new(false),
        })
    }

    /// Opens a transaction: counts it and registers its snapshot of what is published.
    pub(crate) fn open(self: &Arc<Self>) -> (Presence, Registration) {
        let mut order = self.order.lock();
        self.open.fetch_add(1, Ordering::SeqCst);
        let presence = Presence(Arc::clone(self));
        (presence, self.register_in(&mut order))
    }

    /// Registers a snapshot of what is published.
    pub(crate) fn register(self: &Arc<Self>) -> Registration {
        self.register_in(&mut self.order.lock())
    }

    /// As [`register`](Self::register), with what `also` gives at that very moment, at which nothing is published.
    pub(crate) fn register_with<T>(
        self: &Arc<Self>,
        also: impl FnOnce() -> T,
    ) -> (Registration, T) {
        let mut order = self.order.lock();
        let given = also();
        (self.register_in(&mut order), given)
    }

    fn register_in(self: &Arc<Self>, order: &mut Order) -> Registration {
        let start = order.published;
        match order.starts.back_mut() {
            Some((last, count)) if *last == start => *count += 1,
            _ => order.starts.push_back((start, 1)),
        }
        Registration {
            clock: Arc::clone(self),
            start,
        }
    }

    /// Takes the next timestamp, lets `publish` set status words to it, and publishes it.
    pub(crate) fn commit(&self, publish: impl FnOnce(Timestamp)) -> Timestamp {
        let mut order = self.order.lock();
        let time = Timestamp(order.published.0 + 1);
        publish(time);
        order.published = time;
        time
    }

    /// Lets a transaction that yields commit as soon as no other one is open: now, or when the last of them ends. See [`withdraw`](Self::withdraw).
    pub(crate) fn commit_alone(&self, transaction: Arc<dyn Alone>) {
        let mut order = self.order.lock();
        order.alone.push(transaction);
        self.waiting.store(true, Ordering::SeqCst);
        self.commit_waiting(&mut order);
    }

    /// Takes that back if it has not committed; gives whether it has.
    pub(crate) fn withdraw(&self, transaction: &dyn Alone) -> bool {
        let mut order = self.order.lock();
        order
            .alone
            .retain(|other| !std::ptr::addr_eq(Arc::as_ptr(other), transaction));
        self.waiting
            .store(!order.alone.is_empty(), Ordering::SeqCst);
        transaction.has_committed()
    }

    /// Nobody opens a transaction while the latch is held.
    fn commit_waiting(&self, order: &mut Order) {
        if self.open.load(Ordering::SeqCst) > 0 {
            return;
        }
        for transaction in std::mem::take(&mut order.alone) {
            let time = Timestamp(order.published.0 + 1);
            if transaction.commit(time) {
                order.published = time;
            }
        }
        self.waiting.store(false, Ordering::SeqCst);
    }

    pub(crate) fn horizon(&self) -> Horizon {
        let order = self.order.lock();
        Horizon {
            oldest: order
                .starts
                .front()
                .map_or(order.published, |&(start, _)| start),
            published: order.published,
            starts: order.starts.iter().map(|&(start, _)| start).collect(),
        }
    }

    /// Says whether the collector wants to hear when the oldest snapshot goes.
    pub(crate) fn await_snapshots(&self, awaited: bool) {
        self.awaited.store(awaited, Ordering::SeqCst);
    }

    /// What wakes the collector.
    pub(crate) fn bell(&self) -> &Bell {
        &self.bell
    }

    fn unregister(&self, start: Timestamp) {
        let mut order = self.order.lock();
        if let Ok(at) = order
            .starts
            .binary_search_by_key(&start, |&(start, _)| start)
        {
            order.starts[at].1 -= 1;
            if order.starts[at].1 == 0 {
                order.starts.remove(at);
                drop(order);
                if self.awaited.load(Ordering::SeqCst) {
                    self.bell.ring();
                }
            }
        }
    }
}

/// An open transaction that does not yield.
#[derive(Debug)]
pub(crate) struct Presence(Arc<Clock>);

impl Drop for Presence {
    fn drop(&mut self) {
        let clock = &self.0;
        let last = clock.open.fetch_sub(1, Ordering::SeqCst) == 1;
        if last && clock.waiting.load(Ordering::SeqCst) {
            clock.commit_waiting(&mut clock.order.lock());
        }
    }
}

/// A registered snapshot: keeps the versions that it needs.
#[derive(Debug)]
pub(crate) struct Registration {
    clock: Arc<Clock>,
    pub(crate) start: Timestamp,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.clock.unregister(self.start);
    }
}

/// Wakes one sleeping thread. Ringing is a load when it is awake or has heard already.
///
/// The lock and condition are the standard library's: a thread that sleeps in `parking_lot` stands in a queue of the whole process, which
/// a forked child inherits without the thread.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    asleep: AtomicBool,
    rung: std::sync::Mutex<bool>,
    changed: Condvar,
}

impl Bell {
    /// Wakes the sleeper.
    pub(crate) fn ring(&self) {
        if self.asleep.load(Ordering::SeqCst) && self.asleep.swap(false, Ordering::SeqCst) {
            *self.rung() = true;
            self.changed.notify_all();
        }
    }

    /// Announces a sleep: a ring from now on is heard. Look for work once more before [`sleep`](Self::sleep).
    pub(crate) fn listen(&self) {
        *self.rung() = false;
        self.asleep.store(true, Ordering::SeqCst);
    }

    /// Sleeps until a ring or an alarm.
    pub(crate) fn sleep(&self) {
        let woken = self.changed.wait_while(self.rung(), |rung| !*rung);
        drop(woken.unwrap_or_else(PoisonError::into_inner));
        self.asleep.store(false, Ordering::SeqCst);
    }

    /// Sleeps until a ring or an alarm, or for a time; gives whether it was woken.
    pub(crate) fn sleep_for(&self, time: std::time::Duration) -> bool {
        let woken = self
            .changed
            .wait_timeout_while(self.rung(), time, |rung| !*rung);
        let is_woken = *woken.unwrap_or_else(PoisonError::into_inner).0;
        self.asleep.store(false, Ordering::SeqCst);
        is_woken
    }

    /// Sleeps for a time, deaf to rings, until an alarm.
    pub(crate) fn nap(&self, time: std::time::Duration) {
        let woken = self
            .changed
            .wait_timeout_while(self.rung(), time, |rung| !*rung);
        *woken.unwrap_or_else(PoisonError::into_inner).0 = false;
    }

    /// Wakes the sleeper from sleep and nap.
    pub(crate) fn alarm(&self) {
        *self.rung() = true;
        self.changed.notify_all();
    }

    fn rung(&self) -> MutexGuard<'_, bool> {
        self.rung.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a [`listen`](Self::listen) back.
    pub(crate) fn stay_awake(&self) {
        self.asleep.store(false, Ordering::SeqCst);
    }
}
