//! Databases in files: opening, sharing within the process, checkpoints, closing.
//!
//! ```text
//!   connect ──► registry (device, inode) ──► Usage ──► Shared        connections and handles of one file share one database
//!                                             │ the last one goes
//!                                             ▼
//!                                    checkpoint, log removed, file let go
//! ```
//!
//! A process opens a file once, whatever it is called. While one is being opened, others wait; while one is being closed, who wants to open it
//! waits, too.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock, Weak};
use std::time::Duration;

use firndb_storage::durable::host::{Host, RealHost};
use firndb_storage::{Compression, FileOptions, Recovered, Storage, StorageConfig, Synchronous};
use parking_lot::Mutex;

use super::connection::{Database, Shared};
use super::execute::{Call, arguments};
use super::session::Session;
use crate::catalog::store;
use crate::error::{Error, Result, SqlState};
use crate::parse;
use crate::session::{Config, Parameters};
use crate::statement;

/// Bytes of log from which a checkpoint runs by itself.
pub(super) const CHECKPOINT_THRESHOLD: u64 = 64 << 20;

/// A file: its device and its number there.
type Key = (u64, u64);

/// The process that has a file open, since a forked child inherits the list; and its usage. If that is gone, the file is being closed.
type Opened = (u32, Weak<Usage>);

/// The files that this process has open.
static OPEN: LazyLock<Mutex<HashMap<Key, Opened>>> = LazyLock::new(|| Mutex::new(HashMap::new()));

/// What the handles and open sessions of a database hold. With the last of them it is closed.
#[derive(Debug)]
pub(super) struct Usage {
    shared: Arc<Shared>,
    key: Option<Key>,
    process: u32,
}

/// What `synchronous` is called.
pub(super) fn synchronous(name: &str) -> Option<Synchronous> {
    match name.to_ascii_lowercase().as_str() {
        "full" | "on" | "extra" | "2" | "3" | "true" => Some(Synchronous::Full),
        "normal" | "1" => Some(Synchronous::Normal),
        "off" | "0" | "false" => Some(Synchronous::Off),
        _ => None,
    }
}

/// What `compression` is called.
pub(super) fn compression(name: &str) -> Option<Compression> {
    match name.to_ascii_lowercase().as_str() {
        "auto" | "on" | "true" | "zstd" => Some(Compression::Auto),
        "none" | "off" | "false" | "uncompressed" => Some(Compression::None),
        _ => None,
    }
}

/// A database file's own path: that of a symbolic link's target, so that file and log are side by side whatever they are called.
fn real_path(path: &Path) -> Result<PathBuf> {
    let failed = |error: std::io::Error| {
        let state = match error.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => {
                SqlState::UndefinedFile
            }
            std::io::ErrorKind::PermissionDenied => SqlState::InsufficientPrivilege,
            _ => SqlState::IoError,
        };
        Error::new(state, format!("opening {} failed: {error}", path.display()))
    };
    if path.as_os_str().is_empty() {
        return Err(Error::new(
            SqlState::InvalidParameterValue,
            "the path of a database must not be empty",
        ));
    }
    if path.symlink_metadata().is_ok() {
        return path.canonicalize().map_err(failed);
    }
    let name = path
        .file_name()
        .ok_or_else(|| failed(std::io::ErrorKind::IsADirectory.into()))?;
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    Ok(parent.canonicalize().map_err(failed)?.join(name))
}

fn key(path: &Path) -> Option<Key> {
    let found = path.metadata().ok()?;
    Some((found.dev(), found.ino()))
}

impl Database {
    /// Opens a database file, and makes it if it is not there. Who opens it again, in this process, gets the same database.
    pub fn open_file(path: impl AsRef<Path>, config: Config) -> Result<Database> {
        let path = real_path(path.as_ref())?;
        loop {
            let mut open = OPEN.lock();
            let found = key(&path)
                .and_then(|key| open.get(&key))
                .filter(|(process, _)| *process == std::process::id());
            match found {
                Some((_, usage)) => {
                    if let Some(usage) = usage.upgrade() {
                        drop(open);
                        return shared(usage, &path, &config);
                    }
                    // It is being closed.
                    drop(open);
                    std::thread::sleep(Duration::from_millis(1));
                }
                None => {
                    let usage = Arc::new(open_new(&path, &config)?);
                    if let Some(key) = usage.key {
                        open.insert(key, (usage.process, Arc::downgrade(&usage)));
                    }
                    drop(open);
                    return Ok(Database {
                        shared: Arc::clone(&usage.shared),
                        usage: Some(usage),
                    });
                }
            }
        }
    }

    /// Writes what the log holds to the database file. In memory there is nothing to do.
    pub fn checkpoint(&self) -> Result<()> {
        self.shared.checkpoint(false)
    }
}

/// One more handle of a database that is open.
fn shared(usage: Arc<Usage>, path: &Path, config: &Config) -> Result<Database> {
    let opened = usage.shared.read_only;
    if opened != config.read_only {
        let how = if opened { "for reading" } else { "for writing" };
        return Err(Error::new(
            SqlState::ObjectInUse,
            format!("{} is open {how} in this process", path.display()),
        )
        .with_hint("Close its connections first, or open it alike."));
    }
    if let Some(limit) = config.memory_limit {
        usage.shared.set_memory_limit(limit);
    }
    if let Some(threads) = config.threads.filter(|&threads| threads > 0) {
        usage.shared.limits.lock().threads = threads;
    }
    Ok(Database {
        shared: Arc::clone(&usage.shared),
        usage: Some(usage),
    })
}

fn open_new(path: &Path, config: &Config) -> Result<Usage> {
    let options = FileOptions {
        read_only: config.read_only,
        ..FileOptions::default()
    };
    let host: Arc<dyn Host> = Arc::new(RealHost);
    let mut recovered = Recovered::default();
    let shared = Shared::new(config, |storage: StorageConfig| {
        let (storage, found) = Storage::open_file(storage, &host, path, &options)?;
        recovered = found;
        Ok(storage)
    })?;
    let shared = Arc::new(shared);
    if let Err(error) = fill(&shared, &recovered) {
        shared.storage.close_file();
        return Err(error);
    }
    Ok(Usage {
        key: key(path),
        shared,
        process: std::process::id(),
    })
}

/// Gives a database what was found in its file, and begins its log.
fn fill(shared: &Arc<Shared>, recovered: &Recovered) -> Result<()> {
    let state = store::restore(&recovered.objects, &recovered.tables, &shared.storage)?;
    shared.catalog.restore(state);
    let database = Database {
        shared: Arc::clone(shared),
        usage: None,
    };
    Session::new(database).make_indexes()?;
    match shared.read_only {
        true => Ok(()),
        false => shared.checkpoint(false),
    }
}

impl Session {
    /// Makes the indexes of all tables, which are not in the file.
    fn make_indexes(&self) -> Result<()> {
        let text = parse::parse("SELECT 1", &|_| true)?;
        let parameters = Arc::new(arguments(&text.parameters, &Parameters::default())?);
        let mut inner = self.inner.lock();
        let call = Call::new(&text.statements[0], parameters, None, self.running.begin());
        self.run_in_transaction(
            &mut inner,
            &call,
            async |work| {
                for entry in work.context.scope.catalog.tables() {
                    statement::ddl::make_indexes(work, &entry)?;
                }
                Ok(0_u64)
            },
            &text.source,
        )?;
        Ok(())
    }
}

impl Shared {
    /// Takes a checkpoint; `clean` before the database is closed.
    pub(super) fn checkpoint(&self, clean: bool) -> Result<()> {
        if !self.storage.is_durable() {
            return Ok(());
        }
        let _alone = self.checkpoints.lock();
        let (state, begun) = self.catalog.at_newest(|| self.storage.begin_checkpoint());
        let begun = begun?;
        let objects = store::objects(&state, clean)?;
        begun.finish(&objects, &store::tables(&state), clean)?;
        Ok(())
    }

    /// Takes a checkpoint in the background when the log has grown long.
    pub(super) fn after_commit(self: &Arc<Self>) {
        let long = self.checkpoint_threshold.load(Ordering::Relaxed);
        if !self.storage.is_durable()
            || self.storage.log_bytes() < long
            || self.is_checkpointing.swap(true, Ordering::AcqRel)
        {
            return;
        }
        let shared = Arc::clone(self);
        let thread = std::thread::Builder::new().name("firndb-checkpoint".into());
        let spawned = thread.spawn(move || {
            // What fails here fails again, and is told, at CHECKPOINT; the log has everything.
            let _ = shared.checkpoint(false);
            shared.is_checkpointing.store(false, Ordering::Release);
        });
        if spawned.is_err() {
            self.is_checkpointing.store(false, Ordering::Release);
        }
    }
}

impl Drop for Usage {
    fn drop(&mut self) {
        // A forked child has neither the threads nor the right to write.
        if self.process != std::process::id() {
            return;
        }
        if self.shared.storage.is_durable() {
            // If it fails, the log has everything, and the next one who opens the file reads it.
            let _ = self.shared.checkpoint(true);
        }
        self.shared.storage.close_file();
        if let Some(key) = self.key {
            OPEN.lock().remove(&key);
        }
    }
}
