//! Epochs: when memory that was unlinked may be freed.
//!
//! Each storage operation holds a [`Pin`] for its duration, never across an await or user code. What is
//! unlinked at some time is freed once every pin that was taken before is gone.
//!
//! A pin is a word in a table that holds the global epoch. The pinning thread stores it, fences, and then loads
//! shared pointers; the freeing thread unlinks, fences, and then looks at the words. Both fences are sequentially consistent, so either the
//! freeing thread sees the pin, or the pinned thread sees the unlinking. A thread that loaded an epoch which
//! has passed meanwhile only delays freeing.

use std::sync::atomic::Ordering;

use super::atomics::{Atomics, Word};

/// A word on a cache line of its own.
#[repr(align(128))]
struct Padded<W>(W);

/// The epochs of one database.
pub struct Epochs<A: Atomics> {
    global: A::Word,
    pins: Box<[Padded<A::Word>]>,
}

const FREE: u64 = 0;

impl<A: Atomics> Epochs<A> {
    /// Epochs with room for `pins` operations at a time; further ones wait for a place.
    pub fn new(pins: usize) -> Self {
        Self {
            global: A::Word::new(1),
            pins: (0..pins).map(|_| Padded(A::Word::new(FREE))).collect(),
        }
    }

    /// Pins the current epoch. `hint` is where to look for a free place first: a number of the thread.
    #[inline]
    pub fn pin(&self, hint: usize) -> Pin<'_, A> {
        let mut at = hint % self.pins.len();
        let mut tried = 0;
        loop {
            let epoch = self.global.load(Ordering::Acquire);
            let pinned = &self.pins[at].0;
            if pinned
                .compare_exchange(FREE, epoch, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
            {
                A::fence(Ordering::SeqCst);
                return Pin { word: pinned };
            }
            at = (at + 1) % self.pins.len();
            tried += 1;
            if tried % self.pins.len() == 0 {
                A::pause();
            }
        }
    }

    /// Begins a new epoch and gives the old one: what was unlinked before this call may be freed when it [has passed](Self::passed).
    pub fn advance(&self) -> u64 {
        A::fence(Ordering::SeqCst);
        self.global.fetch_add(1, Ordering::AcqRel)
    }

    /// The newest epoch of which no pin is left, nor of any before.
    pub fn passed(&self) -> u64 {
        let current = self.global.load(Ordering::Acquire);
        A::fence(Ordering::SeqCst);
        self.pins
            .iter()
            .map(|pin| pin.0.load(Ordering::Acquire))
            .filter(|&epoch| epoch != FREE)
            .fold(current, u64::min)
            - 1
    }
}

/// Proof that nothing unlinked from now on is freed before it is dropped.
pub struct Pin<'e, A: Atomics> {
    word: &'e A::Word,
}

impl<A: Atomics> Drop for Pin<'_, A> {
    fn drop(&mut self) {
        self.word.store(FREE, Ordering::Release);
    }
}
