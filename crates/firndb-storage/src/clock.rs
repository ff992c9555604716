//! The clock: timestamps of commits, and which snapshots are registered.
//!
//! Invariants:
//! - `published` is the greatest timestamp all of whose commits are complete; it never goes back.
//! - A registered start is not below what was published at any earlier moment, so once the collector has read the [`Horizon`], no
//!   snapshot can appear below it, nor between two starts that it lists.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, MutexGuard, PoisonError};

use parking_lot::Mutex;

pub(crate) use crate::protocol::Timestamp;

#[derive(Debug)]
struct Order {
    published: Timestamp,
    /// Registered starts in ascending order, with how many share one.
    starts: VecDeque<(Timestamp, usize)>,
}

/// The clock of one database.
#[derive(Debug)]
pub(crate) struct Clock {
    order: Mutex<Order>,
    /// Whether the collector keeps records until a snapshot goes.
    awaited: AtomicBool,
    bell: Bell,
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
            }),
            awaited: AtomicBool::new(false),
            bell: Bell::default(),
        })
    }

    /// Registers a snapshot of what is published.
    pub(crate) fn register(self: &Arc<Self>) -> Registration {
        let mut order = self.order.lock();
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

    /// Sleeps until a ring or an alarm, or for a time.
    pub(crate) fn sleep_for(&self, time: std::time::Duration) {
        let woken = self
            .changed
            .wait_timeout_while(self.rung(), time, |rung| !*rung);
        drop(woken.unwrap_or_else(PoisonError::into_inner));
        self.asleep.store(false, Ordering::SeqCst);
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
