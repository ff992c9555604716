//! A lock for state behind Python objects.
//!
//! Waiting for it releases the interpreter's lock, so a holder that needs the interpreter gets on. A thread that comes back
//! while it holds the lock (a signal handler, a finalizer run by the garbage collector) gets an error instead of
//! waiting for itself.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use firndb::{Error, SqlState};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;

use crate::errors;

static NEXT_THREAD: AtomicU64 = AtomicU64::new(1);

thread_local! {
    static THREAD: u64 = NEXT_THREAD.fetch_add(1, Ordering::Relaxed);
}

/// State that one thread at a time works on.
pub(crate) struct Exclusive<T> {
    /// The holder's number, 0 when free. Only the holder itself ever finds its own number here.
    holder: AtomicU64,
    value: Mutex<T>,
}

/// Exclusive access until dropped.
pub(crate) struct ExclusiveGuard<'a, T> {
    holder: &'a AtomicU64,
    value: MutexGuard<'a, T>,
}

impl<T> Exclusive<T> {
    pub(crate) fn new(value: T) -> Self {
        Exclusive {
            holder: AtomicU64::new(0),
            value: Mutex::new(value),
        }
    }

    /// Waits for the state; a ProgrammingError when this thread has it already.
    pub(crate) fn lock(&self, py: Python<'_>) -> PyResult<ExclusiveGuard<'_, T>> {
        let thread = THREAD.with(|&thread| thread);
        if self.holder.load(Ordering::Relaxed) == thread {
            let error = Error::new(
                SqlState::WrongObjectType,
                "recursive use of a connection or result",
            );
            return Err(errors::to_python(py, &error, None));
        }
        let value = self
            .value
            .lock_py_attached(py)
            .unwrap_or_else(PoisonError::into_inner);
        self.holder.store(thread, Ordering::Relaxed);
        Ok(ExclusiveGuard {
            holder: &self.holder,
            value,
        })
    }

    /// The state of an object that nobody else can reach any more.
    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.value.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Deref for ExclusiveGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for ExclusiveGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T> Drop for ExclusiveGuard<'_, T> {
    fn drop(&mut self) {
        self.holder.store(0, Ordering::Relaxed);
    }
}
