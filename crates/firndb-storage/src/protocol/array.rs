//! The version array of a block: one head per row, there only while the block has versions.

use std::ptr;
use std::sync::atomic::Ordering;

use super::atomics::{Atomics, Pointer, Word};
use super::epoch::Pin;
use super::version::{Head, Settled};

/// The heads of a block's rows.
pub struct Heads<A: Atomics>(Box<[Head<A>]>);

impl<A: Atomics> Heads<A> {
    /// The head of a row.
    #[inline]
    pub fn head(&self, row: usize) -> &Head<A> {
        &self.0[row]
    }
    /// The heads in row order.
    pub fn iter(&self) -> impl Iterator<Item = &Head<A>> {
        self.0.iter()
    }
}

/// Where a block keeps its version array, and how many records are in its chains.
///
/// `linked` is raised before a record is installed and lowered after it was unlinked. So a reader that settled and
/// finds zero needs no chain: had it loaded data of a record that it does not see, it would find that record counted.
pub struct Versions<A: Atomics> {
    heads: A::Pointer<Heads<A>>,
    linked: A::Word,
    rows: usize,
}

impl<A: Atomics> Versions<A> {
    /// No versions, for a block of `rows` rows.
    pub fn new(rows: usize) -> Self {
        Self {
            heads: A::Pointer::new(ptr::null_mut()),
            linked: A::Word::new(0),
            rows,
        }
    }

    /// Number of records in the block's chains.
    pub fn linked(&self) -> u64 {
        self.linked.load(Ordering::Acquire)
    }

    /// The array, if there are versions.
    #[inline]
    pub fn heads<'g>(&self, _settled: &Settled, _pin: &'g Pin<'_, A>) -> Option<&'g Heads<A>> {
        if self.linked.load(Ordering::Acquire) == 0 {
            return None;
        }
        // SAFETY: a detached array is freed after an epoch; the caller is pinned.
        unsafe { self.heads.load(Ordering::Acquire).as_ref() }
    }

    /// The array, attached if it is not there. The caller is about to install `records` records.
    pub fn attach<'g>(&self, records: u64, pin: &'g Pin<'_, A>) -> &'g Heads<A> {
        self.linked.fetch_add(records, Ordering::AcqRel);
        self.reattach(pin)
    }

    /// The array again, after a seal was met.
    pub fn reattach<'g>(&self, _pin: &'g Pin<'_, A>) -> &'g Heads<A> {
        let mut heads = self.heads.load(Ordering::Acquire);
        if heads.is_null() {
            let new: Box<[Head<A>]> = (0..self.rows).map(|_| Head::new()).collect();
            let new = Box::into_raw(Box::new(Heads(new)));
            heads = match self.heads.compare_exchange(
                ptr::null_mut(),
                new,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => new,
                Err(other) => {
                    // SAFETY: `new` comes from `into_raw` and nobody else has seen it.
                    drop(unsafe { Box::from_raw(new) });
                    other
                }
            };
        }
        // SAFETY: not null; freed an epoch after it was detached, and the caller is pinned.
        unsafe { &*heads }
    }

    /// Takes back the count of records that were not installed after all, or that were unlinked.
    pub fn uncount(&self, records: u64) {
        self.linked.fetch_sub(records, Ordering::AcqRel);
    }

    /// Takes the array away if no row has a version. What it gives is dropped an epoch later. Only the collector calls this.
    pub fn detach(&self) -> Option<Detached<A>> {
        if self.linked.load(Ordering::Acquire) != 0 {
            return None;
        }
        let pointer = self.heads.load(Ordering::Acquire);
        // SAFETY: only the collector, our caller, detaches; so what is attached stays.
        let heads = unsafe { pointer.as_ref() }?;
        for (row, head) in heads.0.iter().enumerate() {
            if !head.seal() {
                heads.0[..row].iter().for_each(Head::unseal);
                return None;
            }
        }
        self.heads.store(ptr::null_mut(), Ordering::Release);
        Some(Detached(pointer))
    }
}

/// An array that no block leads to any more; pinned threads may still look at it.
pub struct Detached<A: Atomics>(*mut Heads<A>);

// SAFETY: heads are atomics, shared and freed from any thread.
unsafe impl<A: Atomics> Send for Detached<A> {}

impl<A: Atomics> Drop for Detached<A> {
    fn drop(&mut self) {
        // SAFETY: the pointer came from `into_raw` in `reattach`; `detach` took it out, once.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

impl<A: Atomics> Drop for Versions<A> {
    fn drop(&mut self) {
        let heads = self.heads.load(Ordering::Acquire);
        if !heads.is_null() {
            // SAFETY: we have the only reference to the block.
            drop(unsafe { Box::from_raw(heads) });
        }
    }
}
