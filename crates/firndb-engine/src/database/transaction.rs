//! Transactions of a session: explicit ones with savepoints, and the one that each autocommit statement has.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use chrono::{DateTime, Utc};
use datafusion::sql::sqlparser::ast::{
    TransactionAccessMode, TransactionIsolationLevel, TransactionMode,
};
use firndb_storage::{Isolation, Savepoint, Transaction};

use super::connection::Shared;
use crate::catalog::{CatalogChanges, CatalogMark, SchemaEntry, store};
use crate::error::{Error, Result, SqlState};
use crate::session::rows::{Rows, SharedRows};
use crate::statement::Deferred;

/// A transaction: storage's, the catalog as it sees it, and its savepoints.
#[derive(Debug)]
pub(super) struct OpenTransaction {
    pub(super) storage: Arc<Transaction>,
    pub(super) changes: CatalogChanges,
    pub(super) started: DateTime<Utc>,
    pub(super) read_only: bool,
    /// An error happened: only ROLLBACK is left. Results that are still being read set it, too.
    failed: Arc<AtomicBool>,
    savepoints: Vec<NamedSavepoint>,
    results: Vec<Weak<SharedRows>>,
    /// What is checked before the commit.
    pub(super) deferred: Arc<Deferred>,
}

impl std::fmt::Debug for SharedRows {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("SharedRows")
    }
}

#[derive(Debug)]
struct NamedSavepoint {
    name: String,
    place: Place,
}

/// A place in a transaction to return to.
#[derive(Debug, Clone)]
pub(super) struct Place {
    storage: Savepoint,
    catalog: CatalogMark,
}

/// What BEGIN asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Modes {
    pub(super) read_only: bool,
}

impl Modes {
    /// Reads BEGIN's modes. A snapshot gives at least what READ COMMITTED and REPEATABLE READ promise.
    pub(super) fn parse(modes: &[TransactionMode], default: Modes) -> Result<Modes> {
        let mut parsed = default;
        for mode in modes {
            match mode {
                TransactionMode::AccessMode(access) => {
                    parsed.read_only = *access == TransactionAccessMode::ReadOnly;
                }
                TransactionMode::IsolationLevel(TransactionIsolationLevel::Serializable) => {
                    return Err(not_serializable());
                }
                TransactionMode::IsolationLevel(_) => {}
            }
        }
        Ok(parsed)
    }
}

/// 0A000: a snapshot is less than SERIALIZABLE promises.
fn not_serializable() -> Error {
    Error::unsupported("isolation level SERIALIZABLE is not supported yet")
        .with_hint("REPEATABLE READ is a snapshot of the whole transaction.")
}

/// Checks the name of an isolation level: whether a snapshot gives what it promises. `None` if there is no such level.
pub(super) fn isolation(level: &str) -> Option<Result<()>> {
    match level.to_ascii_lowercase().as_str() {
        "read uncommitted" | "read committed" | "repeatable read" | "snapshot" => Some(Ok(())),
        "serializable" => Some(Err(not_serializable())),
        _ => None,
    }
}

impl OpenTransaction {
    /// SET TRANSACTION READ ONLY or READ WRITE; what is read-only stays so.
    pub(super) fn set_read_only(&mut self, read_only: bool) -> Result<()> {
        if !read_only && self.read_only {
            return Err(Error::new(
                SqlState::ActiveSqlTransaction,
                "transaction read-write mode must be set at its beginning",
            ));
        }
        self.read_only = read_only;
        Ok(())
    }

    /// Begins: storage's snapshot and the catalog's belong together.
    pub(super) fn begin(shared: &Shared, temporary: &Arc<SchemaEntry>, modes: Modes) -> Self {
        let (storage, changes) = shared
            .catalog
            .begin(temporary, || shared.storage.begin(Isolation::Snapshot));
        OpenTransaction {
            storage: Arc::new(storage),
            changes,
            started: Utc::now(),
            read_only: modes.read_only || shared.read_only,
            failed: Arc::default(),
            savepoints: Vec::new(),
            results: Vec::new(),
            deferred: Arc::default(),
        }
    }

    /// Whether only ROLLBACK is left.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Leaves only ROLLBACK.
    pub(super) fn fail(&self) {
        self.failed.store(true, Ordering::Release);
    }

    /// A statement's result whose reading may fail the transaction.
    pub(super) fn depend_on(&self, rows: &Rows) {
        rows.shared().report_failure(&self.failed);
    }

    /// Begins a statement and tells the place to which its failure returns.
    pub(super) fn begin_statement(&self) -> Place {
        Place {
            storage: self.storage.begin_statement(),
            catalog: self.changes.mark(),
        }
    }

    /// Undoes everything since a place.
    pub(super) fn return_to(&mut self, place: &Place) {
        self.storage.rollback_to(&place.storage);
        self.changes.rollback_to(&place.catalog);
    }

    /// Remembers a result that reads this transaction's rows.
    pub(super) fn watch(&mut self, rows: &Rows) {
        self.results.retain(|result| result.strong_count() > 0);
        self.results.push(Arc::downgrade(rows.shared()));
    }

    /// Reads open results to their end if what they see is about to go.
    pub(super) fn materialize_results(&mut self) {
        let results = std::mem::take(&mut self.results);
        if self.storage.has_writes() {
            for rows in results.iter().filter_map(Weak::upgrade) {
                rows.materialize();
            }
        }
    }

    /// SAVEPOINT.
    pub(super) fn savepoint(&mut self, name: &str) {
        let place = Place {
            storage: self.storage.savepoint(),
            catalog: self.changes.mark(),
        };
        self.savepoints.push(NamedSavepoint {
            name: name.to_owned(),
            place,
        });
    }

    /// RELEASE SAVEPOINT: it and those after it are forgotten.
    pub(super) fn release(&mut self, name: &str) -> Result<()> {
        let index = self.find(name)?;
        self.savepoints.truncate(index);
        Ok(())
    }

    /// ROLLBACK TO SAVEPOINT: it stays, those after it go; a failed transaction goes on.
    pub(super) fn rollback_to(&mut self, name: &str) -> Result<()> {
        let index = self.find(name)?;
        self.materialize_results();
        self.savepoints.truncate(index + 1);
        let place = self.savepoints[index].place.clone();
        self.return_to(&place);
        self.failed.store(false, Ordering::Release);
        Ok(())
    }

    /// Commits and returns the session's temporary schema; on an error nothing stays.
    pub(super) fn commit(mut self, shared: &Arc<Shared>) -> Result<Arc<SchemaEntry>> {
        self.materialize_results();
        let OpenTransaction {
            storage,
            changes,
            deferred,
            ..
        } = self;
        deferred.check(changes.state(), &storage)?;
        let storage = owned(storage)?;
        let temporary = shared.catalog.commit(&changes, |states| {
            let definitions = match states {
                Some((before, after)) if shared.storage.is_durable() => {
                    Some(store::difference(before, after)?)
                }
                _ => None,
            };
            Ok(storage.commit_with(definitions.as_ref())?)
        })?;
        changes.adopt_settings();
        shared.after_commit();
        Ok(temporary)
    }

    /// Rolls back.
    pub(super) fn rollback(mut self) {
        self.materialize_results();
        if let Ok(storage) = owned(self.storage) {
            storage.rollback();
        }
    }

    fn find(&self, name: &str) -> Result<usize> {
        self.savepoints
            .iter()
            .rposition(|savepoint| savepoint.name == name)
            .ok_or_else(|| {
                Error::new(
                    SqlState::InvalidSavepointSpecification,
                    format!("savepoint \"{name}\" does not exist"),
                )
            })
    }
}

/// The transaction, which no statement holds any more.
fn owned(storage: Arc<Transaction>) -> Result<Transaction> {
    Arc::try_unwrap(storage).map_err(|_| Error::internal("a statement outlived its transaction"))
}
