//! What a connection and the results it gave out share: the session, and which results are open.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use firndb::{Error, Outcome, Parameters, Session, SqlState};
use pyo3::prelude::*;

use crate::blocking;
use crate::errors;
use crate::fork::Generation;
use crate::frames::Frames;
use crate::stream::{Stream, drop_detached};
use crate::text;

/// A session and its open results.
pub(crate) struct Link {
    /// Empty only while dropped.
    session: Option<Arc<Session>>,
    generation: Generation,
    closed: AtomicBool,
    progress: AtomicBool,
    open: Mutex<Vec<Weak<Stream>>>,
    /// The links of its cursors, which are closed with it.
    cursors: Mutex<Vec<Weak<Link>>>,
    /// Relations that nobody has read yet.
    pub(crate) unread: AtomicUsize,
}

impl Link {
    pub(crate) fn new(session: Session, progress: bool) -> Arc<Link> {
        Arc::new(Link {
            session: Some(Arc::new(session)),
            generation: Generation::current(),
            closed: AtomicBool::new(false),
            progress: AtomicBool::new(progress),
            open: Mutex::new(Vec::new()),
            cursors: Mutex::new(Vec::new()),
            unread: AtomicUsize::new(0),
        })
    }

    /// The session; InterfaceError (08003) when the connection is closed or the parent process' own.
    pub(crate) fn session(&self, py: Python<'_>) -> PyResult<&Arc<Session>> {
        if let Err(error) = self.generation.check() {
            return Err(errors::to_python(py, &error, None));
        }
        match &self.session {
            Some(session) if !self.closed.load(Ordering::Acquire) => Ok(session),
            _ => Err(errors::interface(
                py,
                SqlState::ConnectionDoesNotExist,
                "the connection is closed",
            )),
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub(crate) fn progress(&self) -> bool {
        self.progress.load(Ordering::Relaxed)
    }

    pub(crate) fn set_progress(&self, shown: bool) {
        self.progress.store(shown, Ordering::Relaxed);
    }

    /// Closes the session and those of its cursors. Results that were read stay; open ones end.
    pub(crate) fn close(&self, py: Python<'_>) {
        let mut cursors = self.close_alone(py);
        while let Some(cursor) = cursors.pop() {
            if let Some(cursor) = cursor.upgrade() {
                cursors.append(&mut cursor.close_alone(py));
            }
        }
    }

    /// Closes the session; gives its cursors, which are still open.
    fn close_alone(&self, py: Python<'_>) -> Vec<Weak<Link>> {
        if self.closed.swap(true, Ordering::AcqRel) || !self.generation.is_current() {
            return Vec::new();
        }
        if let Some(session) = self.session.clone() {
            py.detach(move || session.close());
        }
        std::mem::take(&mut *self.cursors.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes a link one of a cursor: it is closed with this one.
    pub(crate) fn adopt(&self, py: Python<'_>, cursor: &Arc<Link>) {
        {
            let mut cursors = self.cursors.lock().unwrap_or_else(PoisonError::into_inner);
            if cursors.len() == cursors.capacity() {
                cursors.retain(|known| known.strong_count() > 0);
            }
            cursors.push(Arc::downgrade(cursor));
        }
        // Closed meanwhile by another thread, which may not have seen it.
        if self.is_closed() {
            cursor.close(py);
        }
    }

    /// Runs engine code with the interpreter's lock released; `statement` is what errors point into.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        py: Python<'_>,
        statement: Option<&str>,
        job: impl FnOnce(&Arc<Session>) -> Result<T, Error> + Send + 'static,
    ) -> PyResult<T> {
        let session = Arc::clone(self.session(py)?);
        let inner = Arc::clone(&session);
        blocking::run(py, &session, self.progress(), move || job(&inner))?
            .map_err(|error| errors::to_python(py, &error, statement))
    }

    /// Reads from an open result. When that fails the result is not read on: batches may be lost.
    pub(crate) fn read<T: Send + 'static>(
        &self,
        py: Python<'_>,
        stream: &Arc<Stream>,
        job: impl FnOnce(&Stream) -> Result<T, Error> + Send + 'static,
    ) -> PyResult<T> {
        let reader = Arc::clone(stream);
        self.run(py, None, move |_| job(&reader))
            .inspect_err(|_| stream.lose())
    }

    /// Runs the statements of `sql`, the last one as far as its first rows: its errors show here.
    pub(crate) fn execute(
        &self,
        py: Python<'_>,
        sql: &str,
        parameters: Parameters,
        frames: &Arc<Frames>,
    ) -> PyResult<Outcome> {
        self.start(py, sql, parameters, frames, true)
    }

    /// Runs the statements of `sql`, the last one's rows as they are read.
    pub(crate) fn query(
        &self,
        py: Python<'_>,
        sql: &str,
        parameters: Parameters,
        frames: &Arc<Frames>,
    ) -> PyResult<Outcome> {
        self.start(py, sql, parameters, frames, false)
    }

    /// Open results of the transaction are read into memory before it writes or ends.
    fn start(
        &self,
        py: Python<'_>,
        sql: &str,
        parameters: Parameters,
        frames: &Arc<Frames>,
        begin: bool,
    ) -> PyResult<Outcome> {
        if self.unread.load(Ordering::Relaxed) > 0 {
            frames.read_relations(py, sql)?;
        }
        let open = self.to_settle(sql);
        let (text, source) = (sql.to_owned(), Arc::clone(frames));
        self.run(py, Some(sql), move |session| {
            if session.in_transaction() {
                open.iter().for_each(|stream| stream.settle());
            }
            let mut outcome = session.execute_with(&text, &parameters, Some(source))?;
            if begin && let Some(rows) = &mut outcome.rows {
                rows.begin()?;
            }
            Ok(outcome)
        })
    }

    /// Whether a statement on a single row leaves all results as they are, and no relation waits to be read before it.
    pub(crate) fn is_at_rest(&self, session: &Session) -> bool {
        self.unread.load(Ordering::Relaxed) == 0 && (!session.in_transaction() || !self.has_open())
    }

    fn has_open(&self) -> bool {
        // Given up after the lock: the last reference may be among them.
        let alive: Vec<Arc<Stream>> = {
            let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            open.iter().filter_map(Weak::upgrade).collect()
        };
        alive.iter().any(|stream| !stream.is_finished())
    }

    /// The open results that `sql` may pull the snapshot from under.
    pub(crate) fn to_settle(&self, sql: &str) -> Vec<Arc<Stream>> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.is_empty() || !text::may_write(sql) {
            return Vec::new();
        }
        open.iter().filter_map(Weak::upgrade).collect()
    }

    /// Remembers an open result for as long as its reader holds it.
    pub(crate) fn opened(&self, stream: &Arc<Stream>) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.len() == open.capacity() {
            open.retain(|known| known.strong_count() > 0);
        }
        open.push(Arc::downgrade(stream));
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let session = self.session.take();
        if self.generation.is_current() {
            drop_detached(session);
        } else {
            std::mem::forget(session);
        }
    }
}
