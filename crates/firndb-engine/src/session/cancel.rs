//! Cancellation: one flag per running statement and open result, set from any thread.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::error::{Error, Result};

/// Whether a statement, or the result that it left open, was cancelled.
#[derive(Debug, Default)]
pub struct Cancellation {
    cancelled: AtomicBool,
    wake: Notify,
}

impl Cancellation {
    /// Cancels.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
        self.wake.notify_waiters();
    }

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    /// 57014 when it was cancelled.
    pub fn check(&self) -> Result<()> {
        if self.is_cancelled() {
            return Err(Error::cancelled());
        }
        Ok(())
    }

    /// Ends when it is cancelled.
    pub async fn cancelled(&self) {
        let woken = self.wake.notified();
        tokio::pin!(woken);
        // Waiting must have begun before the flag is read, or a cancellation between the two is lost.
        woken.as_mut().enable();
        if !self.is_cancelled() {
            woken.await;
        }
    }

    /// Runs a future until it ends or is cancelled (57014); a cancelled one is dropped.
    pub async fn guard<T>(&self, future: impl Future<Output = Result<T>>) -> Result<T> {
        self.check()?;
        tokio::select! {
            biased;
            () = self.cancelled() => Err(Error::cancelled()),
            result = future => result,
        }
    }
}

/// What a session has running or open.
#[derive(Debug, Default)]
pub struct Running {
    all: Mutex<Vec<Weak<Cancellation>>>,
}

impl Running {
    /// A flag for a statement that begins.
    pub fn begin(&self) -> Arc<Cancellation> {
        let cancellation = Arc::new(Cancellation::default());
        let mut all = self.all.lock();
        all.retain(|one| one.strong_count() > 0);
        all.push(Arc::downgrade(&cancellation));
        cancellation
    }

    /// Cancels everything that has begun and is still alive.
    pub fn interrupt(&self) {
        let all = std::mem::take(&mut *self.all.lock());
        for one in all.iter().filter_map(Weak::upgrade) {
            one.cancel();
        }
    }
}
