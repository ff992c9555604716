//! Ctrl-C: cancels the running statement, or ends a program that runs none.
//!
//! SIGINT is blocked in every thread (a thread inherits the mask of the one that made it, so blocking comes before the database
//! is opened) and taken by one thread that waits for it. No code runs inside a signal handler, so it may lock and call the engine.
//!
//! A session that is interrupted before the engine has begun a statement does not hear it. So the thread repeats the interrupt until
//! the statement that ran when the signal came is over; the lock keeps it from meeting the next one. That statement may have come to its
//! end all the same; a script ends before its next statement then.

use std::process::exit;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use firndb::Session;
use nix::sys::signal::{SigSet, Signal};

/// The exit status of a program that SIGINT ended, as shells report it.
const INTERRUPTED: i32 = 130;
/// How long the thread waits for a statement to end before it interrupts again.
const PATIENCE: Duration = Duration::from_millis(50);

/// Knows what Ctrl-C is to cancel.
#[derive(Debug, Clone)]
pub(crate) struct Interrupts {
    shared: Arc<Shared>,
    interactive: bool,
}

#[derive(Debug, Default)]
struct Shared {
    running: Mutex<Running>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct Running {
    /// The session of the statement that runs.
    session: Option<Arc<Session>>,
    /// Counts statements, so that one is told from the next.
    statement: u64,
    /// A signal came while a statement ran.
    interrupted: bool,
}

impl Interrupts {
    /// Blocks SIGINT in this thread and those to come, and starts the thread that waits for it. When no statement runs, SIGINT
    /// ends the program unless it is `interactive`.
    pub(crate) fn watch(interactive: bool) -> std::io::Result<Self> {
        let mut signals = SigSet::empty();
        signals.add(Signal::SIGINT);
        signals.thread_block()?;
        let shared = Arc::new(Shared::default());
        let watched = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("interrupts".into())
            .spawn(move || {
                while signals.wait().is_ok() {
                    if !watched.interrupt() && !interactive {
                        exit(INTERRUPTED);
                    }
                }
            })?;
        Ok(Interrupts {
            shared,
            interactive,
        })
    }

    /// Until the guard is dropped, SIGINT cancels the statement that `session` runs. Ends a script that was interrupted before.
    pub(crate) fn cancel(&self, session: &Arc<Session>) -> Cancelling<'_> {
        let mut running = self.shared.lock();
        if std::mem::take(&mut running.interrupted) && !self.interactive {
            exit(INTERRUPTED);
        }
        running.session = Some(Arc::clone(session));
        running.statement += 1;
        Cancelling { interrupts: self }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Interrupts the statement that runs until it is over; false if none runs.
    fn interrupt(&self) -> bool {
        let mut running = self.lock();
        let statement = running.statement;
        let found = running.session.is_some();
        running.interrupted = found;
        while running.statement == statement
            && let Some(session) = &running.session
        {
            session.interrupt();
            running = self
                .ended
                .wait_timeout(running, PATIENCE)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        found
    }
}

/// While it lives, SIGINT cancels a statement.
#[derive(Debug)]
pub(crate) struct Cancelling<'a> {
    interrupts: &'a Interrupts,
}

impl Drop for Cancelling<'_> {
    fn drop(&mut self) {
        self.interrupts.shared.lock().session = None;
        self.interrupts.shared.ended.notify_all();
    }
}
