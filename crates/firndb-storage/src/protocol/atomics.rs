//! The atomics that the protocol is generic over, so that loom checks the very code that runs.

use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// A family of atomic types.
pub trait Atomics: Send + Sync + Sized + 'static {
    /// A 64-bit word.
    type Word: Word;
    /// A pointer.
    type Pointer<T>: Pointer<T>;
    /// How often a short latch is looked at before a [`pause`](Self::pause).
    const SPINS: usize;
    /// A fence.
    fn fence(order: Ordering);
    /// Called in loops that wait for another thread.
    fn pause();
}

/// An atomic 64-bit word.
pub trait Word: Send + Sync {
    /// A word with a value.
    fn new(value: u64) -> Self;
    /// Loads.
    fn load(&self, order: Ordering) -> u64;
    /// Stores.
    fn store(&self, value: u64, order: Ordering);
    /// Adds, giving the old value.
    fn fetch_add(&self, value: u64, order: Ordering) -> u64;
    /// Subtracts, giving the old value.
    fn fetch_sub(&self, value: u64, order: Ordering) -> u64;
    /// Stores `new` if the word holds `current`.
    fn compare_exchange(
        &self,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64>;
}

/// An atomic pointer. The low bits of what it holds may be tags.
pub trait Pointer<T>: Send + Sync {
    /// A pointer with a value.
    fn new(value: *mut T) -> Self;
    /// Loads.
    fn load(&self, order: Ordering) -> *mut T;
    /// Stores.
    fn store(&self, value: *mut T, order: Ordering);
    /// Stores `new` if the pointer holds `current`.
    fn compare_exchange(
        &self,
        current: *mut T,
        new: *mut T,
        success: Ordering,
        failure: Ordering,
    ) -> Result<*mut T, *mut T>;
}

impl Word for AtomicU64 {
    fn new(value: u64) -> Self {
        Self::new(value)
    }
    #[inline]
    fn load(&self, order: Ordering) -> u64 {
        self.load(order)
    }
    #[inline]
    fn store(&self, value: u64, order: Ordering) {
        self.store(value, order);
    }
    #[inline]
    fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
        self.fetch_add(value, order)
    }
    #[inline]
    fn fetch_sub(&self, value: u64, order: Ordering) -> u64 {
        self.fetch_sub(value, order)
    }
    #[inline]
    fn compare_exchange(
        &self,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64> {
        self.compare_exchange(current, new, success, failure)
    }
}

impl<T> Pointer<T> for AtomicPtr<T>
where
    AtomicPtr<T>: Send + Sync,
{
    fn new(value: *mut T) -> Self {
        Self::new(value)
    }
    #[inline]
    fn load(&self, order: Ordering) -> *mut T {
        self.load(order)
    }
    #[inline]
    fn store(&self, value: *mut T, order: Ordering) {
        self.store(value, order);
    }
    #[inline]
    fn compare_exchange(
        &self,
        current: *mut T,
        new: *mut T,
        success: Ordering,
        failure: Ordering,
    ) -> Result<*mut T, *mut T> {
        self.compare_exchange(current, new, success, failure)
    }
}

/// The atomics of the standard library: what runs.
#[derive(Debug, Clone, Copy)]
pub struct Standard;

impl Atomics for Standard {
    type Word = AtomicU64;
    type Pointer<T> = AtomicPtr<T>;
    const SPINS: usize = 64;
    #[inline]
    fn fence(order: Ordering) {
        std::sync::atomic::fence(order);
    }
    fn pause() {
        std::thread::yield_now();
    }
}
