//! Running the engine while Python stays responsive.
//!
//! Python runs signal handlers on its main thread only, between bytecodes. A call of the main thread that stayed in the engine would
//! shut Ctrl-C out. So the engine's part runs on a helper thread that is kept for the next call, and the main thread waits in
//! slices, in which it looks for signals and draws the progress bar. Other threads call the engine themselves.
//!
//! Waking a sleeping thread takes longer than a short statement does, so both sides look for each other a moment before they sleep.
//!
//! Helpers form a stack of idle threads: a call that a signal handler makes inside another takes a second one.

use std::cell::OnceCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use firndb::{Error, Session};
use pyo3::prelude::*;

use crate::errors;
use crate::fork::{Generation, Running};

/// How often the main thread looks for signals.
const SLICE: Duration = Duration::from_millis(40);
/// How long a statement runs before its progress shows.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often the bar is drawn.
const REDRAW: Duration = Duration::from_millis(120);
/// How long a thread looks for the other's message before it sleeps.
const SPIN: Duration = Duration::from_micros(40);
/// Stack of a helper, as a main thread's: statements are planned on it. Pages are used as they are touched.
const HELPER_STACK: usize = 8 << 20;

/// Runs `job` with the interpreter's lock released. A signal whose handler raises interrupts the session, and the
/// exception is raised when `job` has ended. With `progress`, long jobs show a bar.
pub(crate) fn run<T: Send + 'static>(
    py: Python<'_>,
    session: &Arc<Session>,
    progress: bool,
    job: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let guarded = move || {
        let _running = Running::begin();
        catch_unwind(AssertUnwindSafe(job))
    };
    let finished = if is_main_thread(py)? {
        on_helper(py, session, progress, guarded)?
    } else {
        py.detach(guarded)
    };
    finished.map_err(|_| {
        let error = Error::internal("a panic inside the database; the statement was abandoned");
        errors::to_python(py, &error, None)
    })
}

/// Whether this is the thread on which Python runs signal handlers.
pub(crate) fn is_main_thread(py: Python<'_>) -> PyResult<bool> {
    thread_local! {
        static MAIN: OnceCell<bool> = const { OnceCell::new() };
    }
    if let Some(known) = MAIN.with(|main| main.get().copied()) {
        return Ok(known);
    }
    let threading = py.import("threading")?;
    let main = threading
        .call_method0("main_thread")?
        .getattr("ident")?
        .eq(threading.call_method0("get_ident")?)?;
    MAIN.with(|cell| {
        let _ = cell.set(main);
    });
    Ok(main)
}

fn on_helper<T: Send + 'static>(
    py: Python<'_>,
    session: &Arc<Session>,
    progress: bool,
    job: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let (done, receiver) = sync_channel(1);
    let helper = Helper::take()?;
    helper.submit(Box::new(move || {
        // The waiting side only goes away with the process.
        let _ = done.send(job());
    }))?;
    let outcome = wait(py, session, progress, receiver);
    helper.give_back();
    outcome
}

fn wait<T: Send>(
    py: Python<'_>,
    session: &Arc<Session>,
    progress: bool,
    mut receiver: Receiver<T>,
) -> PyResult<T> {
    let started = Instant::now();
    let mut bar = Bar::new(progress);
    let mut raised: Option<PyErr> = None;
    let value = loop {
        let (slice, returned) = py.detach(move || {
            let slice = spin(&receiver).map_or_else(|| receiver.recv_timeout(SLICE), Ok);
            (slice, receiver)
        });
        receiver = returned;
        match slice {
            Ok(value) => break value,
            Err(RecvTimeoutError::Disconnected) => {
                let error = Error::internal("a helper thread ended early");
                return Err(errors::to_python(py, &error, None));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        if raised.is_none() {
            raised = py.check_signals().err();
        }
        if raised.is_some() {
            // Repeated: an interrupt that comes before the statement began is not remembered.
            let session = Arc::clone(session);
            py.detach(move || session.interrupt());
        } else if started.elapsed() >= PATIENCE {
            bar.update(py, session, started.elapsed());
        }
    };
    bar.clear(py);
    match raised {
        None => Ok(value),
        Some(raised) => {
            py.detach(move || drop(value));
            Err(raised)
        }
    }
}

/// A message that comes within a moment.
fn spin<T>(receiver: &Receiver<T>) -> Option<T> {
    let began = Instant::now();
    loop {
        match receiver.try_recv() {
            Ok(message) => return Some(message),
            Err(TryRecvError::Empty) if began.elapsed() < SPIN => std::hint::spin_loop(),
            Err(_) => return None,
        }
    }
}

type Job = Box<dyn FnOnce() + Send>;

struct Helper {
    jobs: Sender<Job>,
    generation: Generation,
}

static IDLE: Mutex<Vec<Helper>> = Mutex::new(Vec::new());

impl Helper {
    /// An idle helper, or a new one. A fork leaves no threads to the child, so its helpers are new.
    fn take() -> PyResult<Helper> {
        if let Ok(mut idle) = IDLE.try_lock() {
            while let Some(helper) = idle.pop() {
                if helper.generation.is_current() {
                    return Ok(helper);
                }
                std::mem::forget(helper);
            }
        }
        let (jobs, inbox) = channel::<Job>();
        std::thread::Builder::new()
            .name("firndb-helper".into())
            .stack_size(HELPER_STACK)
            .spawn(move || {
                while let Some(job) = spin(&inbox).or_else(|| inbox.recv().ok()) {
                    job();
                }
            })?;
        Ok(Helper {
            jobs,
            generation: Generation::current(),
        })
    }

    fn submit(&self, job: Job) -> PyResult<()> {
        self.jobs.send(job).map_err(|_| {
            Python::attach(|py| {
                errors::to_python(py, &Error::internal("a helper thread has ended"), None)
            })
        })
    }

    fn give_back(self) {
        if let Ok(mut idle) = IDLE.try_lock() {
            idle.push(self);
        }
    }
}

/// The progress bar of one statement, drawn by `firndb.progress`.
struct Bar {
    wanted: bool,
    drawn: Option<Py<PyAny>>,
    last: Option<Instant>,
}

impl Bar {
    fn new(wanted: bool) -> Self {
        Bar {
            wanted,
            drawn: None,
            last: None,
        }
    }

    /// Draws; a display that fails is given up, the statement goes on.
    fn update(&mut self, py: Python<'_>, session: &Session, elapsed: Duration) {
        if !self.wanted || self.last.is_some_and(|last| last.elapsed() < REDRAW) {
            return;
        }
        self.last = Some(Instant::now());
        let Some(progress) = session.progress() else {
            return;
        };
        let drawn = (|| -> PyResult<()> {
            if self.drawn.is_none() {
                let class = py.import("firndb.progress")?.getattr("ProgressBar")?;
                self.drawn = Some(class.call0()?.unbind());
            }
            if let Some(bar) = &self.drawn {
                bar.call_method1(
                    py,
                    "update",
                    (progress.fraction, progress.rows, elapsed.as_secs_f64()),
                )?;
            }
            Ok(())
        })();
        if drawn.is_err() {
            self.wanted = false;
        }
    }

    fn clear(&mut self, py: Python<'_>) {
        if let Some(bar) = self.drawn.take() {
            // Erasing is cosmetic: it must not hide the statement's own outcome.
            let _ = bar.call_method0(py, "clear");
        }
    }
}
