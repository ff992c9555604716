//! What a forked child may not do.
//!
//! A child has the parent's memory but none of its threads, and frozen memory is a file that both map: a child that ran a
//! statement, or even freed a table, could wait forever or write into the parent's database. So the objects of a
//! generation before the fork refuse to work, and leak when they are dropped.
//!
//! A child may open a database of its own, unless the engine was at work on another thread at the moment of the fork: what that thread
//! held (a lock, a place in a queue of the process) nobody gives back in the child.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use firndb::{Error, SqlState};

static GENERATION: AtomicU32 = AtomicU32::new(0);
/// Calls of the engine under way.
static RUNNING: AtomicU32 = AtomicU32::new(0);
/// Whether this process, or one it descends from, was forked while the engine was at work.
static TORN: AtomicBool = AtomicBool::new(false);

extern "C" fn forked() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    if RUNNING.swap(0, Ordering::Relaxed) > 0 {
        TORN.store(true, Ordering::Relaxed);
    }
}

/// A call of the engine, while it lasts.
pub(crate) struct Running(Generation);

impl Running {
    pub(crate) fn begin() -> Self {
        RUNNING.fetch_add(1, Ordering::Relaxed);
        Running(Generation::current())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.0.is_current() {
            RUNNING.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// 08003 in a child that can't have a database of its own.
pub(crate) fn check_new() -> Result<(), Error> {
    if !TORN.load(Ordering::Relaxed) {
        return Ok(());
    }
    Err(Error::new(
        SqlState::ConnectionDoesNotExist,
        "the process was forked while a statement was running in its parent",
    )
    .with_hint("Start workers with the \"spawn\" method."))
}

/// Starts counting forks. Called once, when the module is imported.
pub(crate) fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: `forked` only changes atomics, which a child may do between fork and exec.
        unsafe { libc::pthread_atfork(None, None, Some(forked)) };
    });
}

/// The number of forks between the first process and this one, kept by what belongs to a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Generation(u32);

impl Generation {
    /// That of the running process.
    pub(crate) fn current() -> Self {
        Generation(GENERATION.load(Ordering::Relaxed))
    }

    /// Whether this is still the process that made it.
    pub(crate) fn is_current(self) -> bool {
        self == Self::current()
    }

    /// 08003 in a forked child.
    pub(crate) fn check(self) -> Result<(), Error> {
        if self.is_current() {
            return Ok(());
        }
        Err(Error::new(
            SqlState::ConnectionDoesNotExist,
            "the connection belongs to the parent process and cannot be used after fork",
        )
        .with_hint("Open a connection in the child, or start workers with the \"spawn\" method."))
    }
}
