//! Model checking of the storage protocol with loom: the protocol's modules, included by path, over loom's atomics.

use std::sync::atomic::Ordering;

use loom::sync::atomic::{AtomicPtr, AtomicU64};

#[path = "../../src/protocol/mod.rs"]
pub mod protocol;

/// Where the trees of indexes are.
pub mod index {
    pub use super::tree;
}

#[path = "../../src/index/tree/mod.rs"]
pub mod tree;

use protocol::{Atomics, Pointer, Word};

/// The atomics of loom.
#[derive(Debug, Clone, Copy)]
pub struct Model;

impl Atomics for Model {
    type Word = AtomicU64;
    type Pointer<T> = AtomicPtr<T>;
    const SPINS: usize = 1;
    fn fence(order: Ordering) {
        loom::sync::atomic::fence(order);
    }
    fn pause() {
        loom::thread::yield_now();
    }
}

impl Word for AtomicU64 {
    fn new(value: u64) -> Self {
        Self::new(value)
    }
    fn load(&self, order: Ordering) -> u64 {
        self.load(order)
    }
    fn store(&self, value: u64, order: Ordering) {
        self.store(value, order);
    }
    fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
        self.fetch_add(value, order)
    }
    fn fetch_sub(&self, value: u64, order: Ordering) -> u64 {
        self.fetch_sub(value, order)
    }
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
    fn load(&self, order: Ordering) -> *mut T {
        self.load(order)
    }
    fn store(&self, value: *mut T, order: Ordering) {
        self.store(value, order);
    }
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
