//! A growing array of pointers that is read without locks.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::reclaim::Pin;

const FIRST: usize = 8;
const LEVELS: usize = 28;

/// Pointers by number. Level `k` has room for `8 << k` of them and never moves.
///
/// ```text
///   level 0: 0..8    level 1: 8..24    level 2: 24..56    …
/// ```
pub(crate) struct Directory<T> {
    levels: [AtomicPtr<AtomicPtr<T>>; LEVELS],
}

impl<T> Directory<T> {
    pub(crate) fn new() -> Self {
        Self {
            levels: [const { AtomicPtr::new(ptr::null_mut()) }; LEVELS],
        }
    }

    fn place(number: u32) -> (usize, usize) {
        let shifted = number as usize / FIRST + 1;
        let level = shifted.ilog2() as usize;
        (level, number as usize - FIRST * ((1 << level) - 1))
    }

    fn entry(&self, number: u32) -> Option<&AtomicPtr<T>> {
        let (level, at) = Self::place(number);
        let entries = self.levels[level].load(Ordering::Acquire);
        if entries.is_null() {
            return None;
        }
        // SAFETY: the level has `FIRST << level` entries, `at` is below that, and it stays until the directory is dropped.
        Some(unsafe { &*entries.add(at) })
    }

    /// What the entry points to.
    #[inline]
    pub(crate) fn get<'g>(&self, number: u32, _pin: &'g Pin<'_>) -> Option<&'g T> {
        let pointer = self.entry(number)?.load(Ordering::Acquire);
        // SAFETY: what is taken out is freed an epoch later, and the caller is pinned.
        unsafe { pointer.as_ref() }
    }

    /// Makes an entry point to `value`, which came from `Box::into_raw` and is the directory's now. One thread at a time puts and takes.
    pub(crate) fn put(&self, number: u32, value: *mut T) {
        let (level, at) = Self::place(number);
        if self.levels[level].load(Ordering::Acquire).is_null() {
            let entries: Box<[AtomicPtr<T>]> = (0..FIRST << level)
                .map(|_| AtomicPtr::new(ptr::null_mut()))
                .collect();
            let entries = Box::into_raw(entries).cast::<AtomicPtr<T>>();
            self.levels[level].store(entries, Ordering::Release);
        }
        let entries = self.levels[level].load(Ordering::Acquire);
        // SAFETY: as in `entry`; the level is there.
        unsafe { &*entries.add(at) }.store(value, Ordering::Release);
    }

    /// Empties an entry and gives what it pointed to, to be freed an epoch later.
    pub(crate) fn take(&self, number: u32) -> Option<Taken<T>> {
        let pointer = self.entry(number)?.swap(ptr::null_mut(), Ordering::AcqRel);
        (!pointer.is_null()).then_some(Taken(pointer))
    }
}

impl<T> Drop for Directory<T> {
    fn drop(&mut self) {
        for (level, entries) in self.levels.iter_mut().enumerate() {
            let entries = *entries.get_mut();
            if entries.is_null() {
                continue;
            }
            let slice = ptr::slice_from_raw_parts_mut(entries, FIRST << level);
            // SAFETY: made by `put` from a box of that length.
            let mut entries = unsafe { Box::from_raw(slice) };
            for entry in &mut entries {
                let value = *entry.get_mut();
                if !value.is_null() {
                    // SAFETY: `put` was given the result of `Box::into_raw`, and nothing else owns it.
                    drop(unsafe { Box::from_raw(value) });
                }
            }
        }
    }
}

/// What was taken out of a directory; pinned threads may still look at it, so it stays a pointer until it is dropped.
pub(crate) struct Taken<T>(*mut T);

// SAFETY: it owns the value.
unsafe impl<T: Send + Sync> Send for Taken<T> {}

impl<T> Taken<T> {
    /// Looks at it before it is freed.
    pub(crate) fn get(&self) -> &T {
        // SAFETY: it is freed by our drop.
        unsafe { &*self.0 }
    }
}

impl<T> Drop for Taken<T> {
    fn drop(&mut self) {
        // SAFETY: `put` was given the result of `Box::into_raw`, and `take` took it out.
        drop(unsafe { Box::from_raw(self.0) });
    }
}
