//! Deferred freeing: what was unlinked waits here until its epoch has passed.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::protocol::{self, Epochs, Standard};

/// A pin of the running system.
pub(crate) type Pin<'e> = protocol::Pin<'e, Standard>;

/// Frees something, or takes its next step towards it.
pub(crate) type Garbage = Box<dyn FnOnce() + Send>;

/// Operations that may run at one time; further ones wait.
const PINS: usize = 256;

thread_local! {
    static HINT: Cell<usize> = const { Cell::new(usize::MAX) };
}

fn thread_hint() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    HINT.with(|hint| {
        if hint.get() == usize::MAX {
            hint.set(NEXT.fetch_add(1, Ordering::Relaxed) % PINS);
        }
        hint.get()
    })
}

/// The epochs of a database and what waits for them.
pub(crate) struct Reclaimer {
    epochs: Epochs<Standard>,
    limbo: Mutex<VecDeque<(u64, Garbage)>>,
    /// What threads are freeing just now. Counted under the latch of `limbo` when it is taken out of there, so a thing that is not freed yet
    /// is always seen in one of the two.
    freeing: AtomicUsize,
}

impl Reclaimer {
    pub(crate) fn new() -> Self {
        Self {
            epochs: Epochs::new(PINS),
            limbo: Mutex::new(VecDeque::new()),
            freeing: AtomicUsize::new(0),
        }
    }

    /// Pins the current epoch for one storage operation. An operation pins once.
    #[inline]
    pub(crate) fn pin(&self) -> Pin<'_> {
        self.epochs.pin(thread_hint())
    }

    /// Begins a new epoch; see [`Epochs::advance`].
    pub(crate) fn advance(&self) -> u64 {
        self.epochs.advance()
    }

    /// The newest epoch that no operation is in.
    pub(crate) fn passed(&self) -> u64 {
        self.epochs.passed()
    }

    /// Frees `garbage`, which nothing leads to any more, when every operation that runs now has ended.
    pub(crate) fn retire(&self, garbage: Garbage) {
        let epoch = self.epochs.advance();
        self.limbo.lock().push_back((epoch, garbage));
    }

    /// Frees what may be freed. Gives the number of things that still wait, or that other threads are freeing.
    pub(crate) fn reclaim(&self) -> usize {
        let passed = self.passed();
        loop {
            // One at a time, outside the latch: freeing may retire something else.
            let mut limbo = self.limbo.lock();
            match limbo.front() {
                Some(&(epoch, _)) if epoch <= passed => {
                    let garbage = limbo.pop_front();
                    let _freeing = Freeing::begin(&self.freeing);
                    drop(limbo);
                    if let Some((_, garbage)) = garbage {
                        garbage();
                    }
                }
                _ => return limbo.len() + self.freeing.load(Ordering::Acquire),
            }
        }
    }
}

/// Counts something that is being freed until it is dropped.
struct Freeing<'r>(&'r AtomicUsize);

impl<'r> Freeing<'r> {
    fn begin(count: &'r AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Freeing<'_> {
    fn drop(&mut self) {
        // Whoever reads the count then sees what was freed.
        self.0.fetch_sub(1, Ordering::Release);
    }
}

impl std::fmt::Debug for Reclaimer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reclaimer")
            .field("waiting", &self.limbo.lock().len())
            .finish()
    }
}
