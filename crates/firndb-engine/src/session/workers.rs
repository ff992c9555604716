//! The threads of a database, and waiting for them from a thread that is none of them.
//!
//! A statement is planned and applied on its caller's thread; its operators run on the workers. So a caller that waits can be
//! woken by `interrupt` whatever an operator does, and a single statement needs two hand-overs at most.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use tokio::runtime::{Builder, Handle, Runtime};

use crate::error::{Error, Result, SqlState};

/// Bytes of stack of a worker: operators evaluate expressions recursively. Pages are used as they are touched.
const WORKER_STACK: usize = 32 << 20;
/// Stack that must be free where a statement is planned.
const RED_ZONE: usize = 1 << 20;
/// Stack for planning an ordinary statement, and one whose tree is deep.
const STACK: usize = 4 << 20;
const DEEP_STACK: usize = 128 << 20;

/// The threads of a database.
#[derive(Debug)]
pub struct Workers {
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
    handle: Handle,
    process: u32,
}

impl Workers {
    /// Starts `threads` workers.
    pub fn start(threads: usize) -> Result<Arc<Workers>> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads.max(1))
            .thread_name("firndb")
            .thread_stack_size(WORKER_STACK)
            // They spill, and write what is exported.
            .on_thread_start(firndb_storage::memory::file_size::block_signal)
            .enable_time()
            .build()
            .map_err(|error| {
                Error::new(
                    SqlState::IoError,
                    format!("could not start threads: {error}"),
                )
            })?;
        Ok(Arc::new(Workers {
            handle: runtime.handle().clone(),
            runtime: Some(runtime),
            process: std::process::id(),
        }))
    }

    /// Where tasks are spawned.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// 08003 in a process that was forked from the one that opened the database: threads do not survive a fork.
    pub fn check_process(&self) -> Result<()> {
        if std::process::id() == self.process {
            return Ok(());
        }
        Err(Error::new(
            SqlState::ConnectionDoesNotExist,
            "this database was opened by another process",
        )
        .with_hint("After a fork, open a new database in the child."))
    }

    /// Runs a future on the calling thread; what it spawns runs on the workers. `deep` asks for a large stack.
    pub fn block_on<T>(&self, deep: bool, future: impl Future<Output = T>) -> T {
        let _entered = self.handle.enter();
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut context = Context::from_waker(&waker);
        let mut future = pin!(future);
        let (red_zone, stack) = if deep {
            (DEEP_STACK / 2, DEEP_STACK)
        } else {
            (RED_ZONE, STACK)
        };
        loop {
            let poll = stacker::maybe_grow(red_zone, stack, || future.as_mut().poll(&mut context));
            match poll {
                Poll::Ready(value) => return value,
                Poll::Pending => std::thread::park(),
            }
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            if std::process::id() == self.process {
                // Blocking here would panic on a worker, and a worker may drop the last handle.
                runtime.shutdown_background();
            } else {
                // A forked child has none of the threads that a shutdown would wait for.
                std::mem::forget(runtime);
            }
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}
