//! One database's storage.

use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use arrow::datatypes::SchemaRef;
use parking_lot::Mutex;

use crate::collect::Collector;
use crate::durable::host::HostFile;
use crate::durable::{Compression, Durable, Synchronous};
use crate::freeze;
use crate::memory::{MemoryUse, trim};
use crate::relation::Relation;
use crate::relation::layout::Layout;
use crate::resources::Resources;
use crate::table::Table;
use crate::transaction::{Isolation, Transaction};
use crate::{Error, Result};

/// How a database's storage is set up.
#[derive(Debug, Clone)]
pub struct StorageConfig {
    /// Bytes that storage may use; `None` for no limit.
    pub memory_limit: Option<usize>,
    /// Threads that a bulk load may use.
    pub threads: usize,
}

/// One database's storage: clock, epochs, arena, collector. Cheap to clone by `Arc`.
///
/// Dropping the last reference ends its threads: the collector's and the freezer's. Tables, transactions and snapshots that are still held stay valid.
pub struct Storage {
    collector: Arc<Collector>,
    threads: Vec<JoinHandle<()>>,
    /// The database file, if it has one that is open for writing.
    file: OnceLock<Arc<Durable>>,
    /// The file of a database that is only read: as long as it is here, nobody writes it.
    read: Mutex<Option<Arc<dyn HostFile>>>,
    /// The process that opened it: a forked child has no threads to join.
    process: u32,
}

impl Storage {
    /// Opens storage in memory.
    pub fn open(config: StorageConfig) -> Result<Arc<Storage>> {
        let resources = Resources::new(config.memory_limit, config.threads)?;
        let collector = Collector::new(&resources);
        // Made before the threads: if one is refused, dropping it ends the other.
        let mut storage = Storage {
            collector,
            threads: Vec::new(),
            file: OnceLock::new(),
            read: Mutex::new(None),
            process: std::process::id(),
        };
        storage.spawn("firndb-collect", |collector| collector.run())?;
        storage.spawn("firndb-freeze", freeze::run)?;
        Ok(Arc::new(storage))
    }

    fn spawn(&mut self, name: &str, work: fn(&Arc<Collector>)) -> Result<()> {
        let collector = Arc::clone(&self.collector);
        let thread = std::thread::Builder::new()
            .name(name.into())
            .spawn(move || work(&collector))
            .map_err(|error| Error::System(format!("no thread {name}: {error}")))?;
        self.threads.push(thread);
        Ok(())
    }

    /// Begins a transaction; its snapshot is the last published commit.
    pub fn begin(self: &Arc<Self>, isolation: Isolation) -> Transaction {
        Transaction::new(&self.collector, isolation)
    }

    /// Makes an empty table. Not transactional: a table is visible to whom the catalog shows it.
    /// `schema` has the storage types (see `Form`); a field's nullability is not enforced here.
    pub fn create_table(self: &Arc<Self>, name: &str, schema: SchemaRef) -> Result<Table> {
        let relation = Relation::new(name, &schema, self.collector.resources())?;
        let layout = Layout::new(schema, relation.columns());
        Ok(Table::new(&self.collector, relation, layout))
    }

    pub(crate) fn resources(&self) -> &Arc<Resources> {
        self.collector.resources()
    }

    pub(crate) fn file(&self) -> Option<&Arc<Durable>> {
        self.file.get()
    }

    pub(crate) fn set_file(&self, durable: Durable) {
        // It was opened just now and has none.
        let _ = self.file.set(Arc::new(durable));
    }

    pub(crate) fn keep_read(&self, file: Arc<dyn HostFile>) {
        *self.read.lock() = Some(file);
    }

    /// Whether what is committed lasts.
    pub fn is_durable(&self) -> bool {
        self.file.get().is_some()
    }

    /// An error if the database refuses work, because what is durable is unknown or another process opened it.
    pub fn check(&self) -> Result<()> {
        self.file.get().map_or(Ok(()), |durable| durable.check())
    }

    /// Lets the database file go, so that it can be opened elsewhere. Nothing can be committed any more.
    pub fn close_file(&self) {
        if let Some(durable) = self.file.get() {
            durable.close();
        }
        *self.read.lock() = None;
    }

    /// Reads the rows in the database file and checks them: what is damaged. In memory nothing is.
    pub fn verify(&self) -> Result<Vec<String>> {
        self.file
            .get()
            .map_or(Ok(Vec::new()), |durable| durable.verify())
    }

    /// What commits wait for; `None` in memory.
    pub fn synchronous(&self) -> Option<Synchronous> {
        self.file.get().map(|durable| durable.synchronous())
    }

    /// Sets what commits wait for.
    pub fn set_synchronous(&self, synchronous: Synchronous) {
        if let Some(durable) = self.file.get() {
            durable.set_synchronous(synchronous);
        }
    }

    /// How rows are written to the file; `None` in memory.
    pub fn compression(&self) -> Option<Compression> {
        self.file.get().map(|durable| durable.compression())
    }

    /// Sets how rows are written from now on. What is in the file stays as it is.
    pub fn set_compression(&self, compression: Compression) {
        if let Some(durable) = self.file.get() {
            durable.set_compression(compression);
        }
    }

    /// Bytes in the log.
    pub fn log_bytes(&self) -> u64 {
        self.file.get().map_or(0, |durable| durable.log_bytes())
    }

    /// Changes an object of the catalog by itself, in no transaction, durable as a commit is. In memory nothing.
    pub fn set_object(&self, key: &str, value: &[u8]) -> Result<()> {
        match self.resources().durable.get() {
            Some(durable) => durable.set_object(key, value),
            None => Ok(()),
        }
    }

    /// Bytes in use.
    pub fn memory(&self) -> MemoryUse {
        self.collector.resources().budget.usage()
    }

    /// Changes the limit; what is in use stays.
    pub fn set_memory_limit(&self, limit: Option<usize>) {
        self.collector.resources().budget.set_limit(limit);
    }

    /// Runs the collector until nothing more can be freed (tests and `PRAGMA`).
    pub fn collect(&self) {
        self.collector.collect();
    }

    /// Collects, and returns what is kept for reuse to the operating system.
    pub fn vacuum(&self) {
        self.collector.collect();
        self.collector.resources().budget.return_all_idle();
        trim();
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            return;
        }
        self.collector.observer().stop();
        self.collector.stop();
        for thread in self.threads.drain(..) {
            // A panic has been reported by its thread; there is nobody to tell here.
            let _ = thread.join();
        }
        self.collector.collect();
    }
}

impl std::fmt::Debug for Storage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Storage")
            .field("memory", &self.memory())
            .finish_non_exhaustive()
    }
}
