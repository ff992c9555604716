//! Sessions: independent connections to a database.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use arrow::array::{ArrayRef, RecordBatchReader};
use arrow::datatypes::SchemaRef;
use datafusion::execution::session_state::SessionState;
use parking_lot::Mutex;

use super::connection::Database;
use super::file::Usage;
use super::plans::Plans;
use super::prepare::PreparedStatement;
use super::shown_settings::Settings;
use super::transaction::OpenTransaction;
use crate::catalog::{SchemaEntry, TEMPORARY_SCHEMA, fold};
use crate::compiled::Cache;
use crate::error::{Error, Result, SqlState};
use crate::parse::{ParsedText, Variables};
use crate::scan::ScanProgress;
use crate::session::cancel::Running;
use crate::session::{Frame, FrameSource, Outcome, Parameters, Progress};
use crate::statement::GivenNumbers;

/// A session: an independent connection to a database. `Send + Sync`; statements of one session run one after the other.
/// An open result does not block the next statement.
pub struct Session {
    pub(super) database: Database,
    pub(super) inner: Mutex<Inner>,
    /// What `interrupt` cancels.
    pub(super) running: Running,
    /// The scans of the statement that runs or whose result is being read.
    pub(super) progress: Mutex<Weak<ScanProgress>>,
    pub(super) in_transaction: AtomicBool,
    pub(super) closed: AtomicBool,
    /// Keeps the database file open. Behind everything that a drop rolls back.
    usage: Mutex<Option<Arc<Usage>>>,
}

/// What a session's statements read and change, one at a time.
pub(super) struct Inner {
    pub(super) settings: Settings,
    /// DataFusion's options under the session's settings.
    pub(super) state: Arc<SessionState>,
    pub(super) transaction: Option<OpenTransaction>,
    /// The session's temporary objects as the last commit left them.
    pub(super) temporary: Arc<SchemaEntry>,
    pub(super) registered: Arc<BTreeMap<String, Frame>>,
    /// What `nextval` gave out.
    pub(super) given: Arc<GivenNumbers>,
    /// PREPARE's statements.
    pub(super) prepared: HashMap<String, PreparedStatement>,
    /// SET VARIABLE's values.
    pub(super) variables: Variables,
    /// How many rows its writes changed.
    pub(super) changes: Changes,
    /// Texts parsed before.
    pub(super) texts: HashMap<String, Arc<ParsedText>>,
    /// Texts compiled before.
    pub(super) programs: Cache,
    /// Queries planned before.
    pub(super) plans: Plans,
}

/// How many rows a session's INSERTs, UPDATEs, DELETEs and MERGEs changed: SQLite's `changes()` and `total_changes()`.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) last: i64,
    pub(super) all: i64,
}

impl Changes {
    pub(super) fn note(&mut self, tag: &str, affected: Option<u64>) {
        if let Some(rows) = affected
            && matches!(tag, "INSERT" | "UPDATE" | "DELETE" | "MERGE")
        {
            self.last = i64::try_from(rows).unwrap_or(i64::MAX);
            self.all = self.all.saturating_add(self.last);
        }
    }
}

/// A prepared statement.
#[derive(Debug, Clone)]
pub struct Prepared {
    pub(super) text: Arc<ParsedText>,
}

impl Prepared {
    /// Number of positional parameters, or of distinct named ones.
    pub fn parameters(&self) -> usize {
        self.text.parameters.count()
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Session")
            .field("in_transaction", &self.in_transaction())
            .field("closed", &self.closed)
            .finish_non_exhaustive()
    }
}

impl Session {
    pub(super) fn new(database: Database) -> Session {
        let state = Arc::clone(&database.shared.state);
        let Database { shared, usage } = database;
        let database = Database {
            shared,
            usage: None,
        };
        Session {
            usage: Mutex::new(usage),
            inner: Mutex::new(Inner {
                settings: Settings::default(),
                state,
                transaction: None,
                temporary: Arc::new(SchemaEntry::new(TEMPORARY_SCHEMA)),
                registered: Arc::default(),
                given: Arc::default(),
                prepared: HashMap::new(),
                variables: Variables::new(),
                changes: Changes::default(),
                texts: HashMap::new(),
                programs: Cache::default(),
                plans: Plans::default(),
            }),
            database,
            running: Running::default(),
            progress: Mutex::new(Weak::new()),
            in_transaction: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        }
    }

    /// Runs every statement of `sql`; the outcome is the last one's. Rows are produced as they are read.
    pub fn execute(&self, sql: &str, parameters: &Parameters) -> Result<Outcome> {
        self.execute_with(sql, parameters, None)
    }

    /// As `execute`, finding frames of the caller.
    pub fn execute_with(
        &self,
        sql: &str,
        parameters: &Parameters,
        frames: Option<Arc<dyn FrameSource>>,
    ) -> Result<Outcome> {
        let mut inner = self.enter()?;
        if let Some(outcome) = self.try_compiled(&mut inner, sql, parameters) {
            return outcome;
        }
        let text = self.parse(&mut inner, sql)?;
        let version = self.catalog_version(&inner);
        let outcome = self.run_text(&mut inner, &text, parameters, frames)?;
        self.compile(&mut inner, sql, &text, &outcome, version);
        Ok(outcome)
    }

    /// Runs one statement for each row of parameters, as one statement: all or nothing. Returns rows affected.
    pub fn execute_many(&self, sql: &str, rows: Vec<Parameters>) -> Result<u64> {
        let mut inner = self.enter()?;
        let text = self.parse(&mut inner, sql)?;
        let rows = self.run_many(&mut inner, sql, &text, rows)?;
        inner.changes.note("INSERT", Some(rows));
        Ok(rows)
    }

    /// As `execute_many` for an INSERT of one row of parameters, all rows' values of a parameter as one array. `None`, and nothing is done,
    /// if the statement is anything else.
    pub fn execute_columns(&self, sql: &str, columns: &[ArrayRef]) -> Result<Option<u64>> {
        let mut inner = self.enter()?;
        let text = self.parse(&mut inner, sql)?;
        let rows = self.run_columns(&mut inner, &text, columns)?;
        inner.changes.note("INSERT", rows);
        Ok(rows)
    }

    /// Prepares one statement.
    pub fn prepare(&self, sql: &str) -> Result<Prepared> {
        let mut inner = self.enter()?;
        let text = self.parse(&mut inner, sql)?;
        if text.statements.len() != 1 {
            return Err(Error::new(
                SqlState::SyntaxError,
                "a prepared text holds exactly one statement",
            ));
        }
        Ok(Prepared { text })
    }

    /// Runs a prepared statement.
    pub fn execute_prepared(
        &self,
        statement: &Prepared,
        parameters: &Parameters,
    ) -> Result<Outcome> {
        let mut inner = self.enter()?;
        let sql = statement.text.source.text();
        if let Some(outcome) = self.try_compiled(&mut inner, sql, parameters) {
            return outcome;
        }
        let version = self.catalog_version(&inner);
        let outcome = self.run_text(&mut inner, &statement.text, parameters, None)?;
        self.compile(&mut inner, sql, &statement.text, &outcome, version);
        Ok(outcome)
    }

    /// The columns that a query yields, without running it.
    pub fn describe(
        &self,
        sql: &str,
        parameters: &Parameters,
        frames: Option<Arc<dyn FrameSource>>,
    ) -> Result<SchemaRef> {
        let mut inner = self.enter()?;
        let text = self.parse(&mut inner, sql)?;
        self.describe_text(&mut inner, &text, parameters, frames)
    }

    /// Appends rows to a table, as one statement. Columns are matched by name or, with `Some(false)`, by position; with `None` by
    /// position, and names that say another order are an error. Returns their number.
    pub fn append(
        &self,
        table: &str,
        rows: Box<dyn RecordBatchReader + Send>,
        by_name: Option<bool>,
    ) -> Result<u64> {
        let mut inner = self.enter()?;
        self.append_rows(&mut inner, table, rows, by_name)
    }

    /// Registers a frame as a temporary view of this session, replacing one of the same name.
    pub fn register(&self, name: &str, frame: Frame) -> Result<()> {
        let mut inner = self.enter()?;
        inner.programs.clear();
        inner.plans.clear();
        Arc::make_mut(&mut inner.registered).insert(fold(name), frame);
        Ok(())
    }

    /// Takes a registered frame away.
    pub fn unregister(&self, name: &str) -> Result<bool> {
        let mut inner = self.enter()?;
        inner.programs.clear();
        inner.plans.clear();
        Ok(Arc::make_mut(&mut inner.registered)
            .remove(&fold(name))
            .is_some())
    }

    /// Cancels the running statement and open results, from any thread. They fail with 57014.
    pub fn interrupt(&self) {
        self.running.interrupt();
    }

    /// The running statement's progress.
    pub fn progress(&self) -> Option<Progress> {
        let progress = self.progress.lock().upgrade()?;
        let done = progress.done.load(Ordering::Relaxed);
        let total = progress.total.load(Ordering::Relaxed);
        let fraction = if total == 0 {
            0.0
        } else {
            (done as f64 / total as f64).clamp(0.0, 1.0)
        };
        Some(Progress {
            fraction,
            rows: done,
        })
    }

    /// Whether an explicit transaction is open (failed or not).
    pub fn in_transaction(&self) -> bool {
        self.in_transaction.load(Ordering::Acquire)
    }

    /// A new session of the same database.
    pub fn duplicate(&self) -> Result<Session> {
        self.check_open()?;
        let database = Database {
            shared: Arc::clone(&self.database.shared),
            usage: self.usage.lock().clone(),
        };
        database.connect()
    }

    /// Closes: rolls back, cancels results; later calls fail with 08003.
    pub fn close(&self) {
        if self.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        self.running.interrupt();
        let mut inner = self.inner.lock();
        if let Some(transaction) = inner.transaction.take() {
            transaction.rollback();
        }
        self.in_transaction.store(false, Ordering::Release);
        inner.temporary = Arc::new(SchemaEntry::new(TEMPORARY_SCHEMA));
        inner.registered = Arc::default();
        inner.prepared.clear();
        inner.texts.clear();
        inner.programs.clear();
        inner.plans.clear();
        drop(inner);
        let usage = self.usage.lock().take();
        drop(usage);
    }

    fn enter(&self) -> Result<parking_lot::MutexGuard<'_, Inner>> {
        self.check_open()?;
        let inner = self.inner.lock();
        self.check_open()?;
        Ok(inner)
    }

    fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::new(
                SqlState::ConnectionDoesNotExist,
                "the connection is closed",
            ));
        }
        self.database.shared.workers.check_process()?;
        Ok(self.database.shared.storage.check()?)
    }
}
