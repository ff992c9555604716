//! Durability: one file, `name.firn`, beside one log, `name.firn.wal`.
//!
//! ```text
//!            commit                                checkpoint
//!   transaction ──► redo ──► log ─┄─► (crash) ─┄─► replay
//!                             │                      ▲
//!                             └── extents, objects ──┴──► root ──► file
//! ```
//!
//! | module | holds |
//! | --- | --- |
//! | [`host`], [`simulated`] | the operating system's files, and a disk that fails on demand |
//! | [`log`], [`record`] | groups of records, and what is in a record |
//! | [`root`], [`space`] | the head of the file, its free room |
//! | [`extent`], [`encode`], [`writer`] | its rows |
//! | [`open`], [`replay`] | from a file and its log to tables |
//! | [`checkpoint`] | from tables to a new root |
//! | [`wire`] | integers and Arrow IPC streams as bytes |
//!
//! # The protocol
//!
//! *Commit.* A transaction makes its redo record from its undo buffer ([`crate::transaction`]), enters the **gate** (shared), appends the record, waits until its
//! group is written (`synchronous = normal`, `off`) or durable (`full`), publishes its timestamp, leaves the gate. So
//!
//! 1. nothing is visible that is not in the log, and with `full` nothing that is not durable: there are no speculative reads, and a transaction whose
//!    record could not be written rolls back as if it had never tried;
//! 2. who depends on a commit began after its publication, so his record is behind its record: every prefix of the log is a consistent state.
//!
//! A sync that fails leaves open what is durable: the transactions that waited for it fail, and so does everything after ([`Error::Broken`]) until the
//! database is opened again. A full disk fails the transactions of one group; the next ones may find room.
//!
//! *Loads.* Blocks that a transaction loaded in bulk, if they are large, are written to free room of the file and synced before its record, which refers to
//! them. They are in the file once: the next checkpoint leaves them where they are. If the transaction fails after all, their room is free again.
//!
//! *Moves.* Compaction gives rows other slots while no transaction is open. It appends the pairs under the clock's latch, before anybody can begin, and waits for
//! nothing: who uses a new slot is behind it in the log.
//!
//! *Checkpoint.* (1) With the gate held alone (nobody is between appending and publishing) and the clock's latch (nobody moves): the log's open group is cut,
//! the sets of changed blocks are taken, and a snapshot begins. So the snapshot is exactly what the log holds up to the cut. (2) The gate opens; rows of
//! changed blocks, and the catalog, are written to free room; what did not change stays where it is. (3) Sync. (4) The root with the next sequence number
//! overwrites the older one, with the cut's place in the log. Sync. (5) The log is replaced, by renaming, by a file that holds what follows the cut. (6) What
//! only the old root led to is free. A crash before (4) is done leaves the old root and the whole log; after it, the new root and a log that
//! reaches back far enough, whatever of (5) is done.
//!
//! *Recovery.* The root, then the commits in the log behind its place, in their order; slots in the log are looked up in the root's, and the rows get new
//! ones. It writes nothing before it is done; then a checkpoint begins the new naming of slots. Cut short, it starts again from the same root and log.
//!
//! *Closing* takes a checkpoint whose root is marked clean, and removes the log: a clean database is one file. If there is no room for the checkpoint, the log
//! stays, with an end mark: damage of its last group is told from what a crash tore.
//!
//! A log says for which root it was begun. If that is newer than the newest valid root, that root was damaged; its predecessor is never taken for it.

pub(crate) mod checkpoint;
mod encode;
#[cfg(test)]
mod encode_tests;
mod extent;
pub mod host;
mod log;
pub(crate) mod open;
pub(crate) mod record;
mod replay;
mod root;
pub mod simulated;
mod space;
mod wire;
mod writer;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use arrow::datatypes::SchemaRef;
use parking_lot::{Mutex, RwLock, RwLockReadGuard};

use crate::relation::layout::Layout;
use crate::relation::{ColumnInfo, Relation};
use crate::slot::Slot;
use crate::{Error, Result, Table};
use checkpoint::Stored;
use host::{Host, HostFile};
use log::Log;
use record::{Kind, RecordWriter, TablePart};
use writer::ExtentWriter;

pub use encode::Compression;
pub(crate) use extent::FileExtent;
pub(crate) use wire::numbered;

/// What a commit waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Synchronous {
    /// Nothing is ever synced: after a power failure the database may be damaged, which is found. A crash of the program loses nothing.
    Off,
    /// Its record is given to the operating system, and synced with the next checkpoint: a power failure may lose the last commits.
    Normal,
    /// Its record is durable.
    Full,
}

/// How a database file is opened.
#[derive(Debug, Clone)]
pub struct FileOptions {
    /// Nothing is written; others may read, too.
    pub read_only: bool,
    /// What commits wait for.
    pub synchronous: Synchronous,
    /// Leaves out the syncs of the log. For the tests of the tests alone.
    #[doc(hidden)]
    pub omit_log_sync: bool,
    /// Leaves out the sync between the parts of a checkpoint and its root. For the tests of the tests alone.
    #[doc(hidden)]
    pub omit_checkpoint_sync: bool,
}

impl Default for FileOptions {
    fn default() -> Self {
        Self {
            read_only: false,
            synchronous: Synchronous::Full,
            omit_log_sync: false,
            omit_checkpoint_sync: false,
        }
    }
}

/// What a transaction defines besides rows. Storage keeps it and does not know what it means.
#[derive(Debug, Default)]
pub struct Definitions {
    /// Objects by their keys; `None` for those that went.
    pub objects: Vec<(String, Option<Vec<u8>>)>,
    /// Tables that are new, or have other columns.
    pub tables: Vec<Table>,
    /// Numbers of tables that went.
    pub dropped: Vec<u64>,
}

/// A table as the file knows it.
pub(crate) struct DurableTable {
    pub(crate) id: u64,
    /// The columns that are there, in the order of the table.
    pub(crate) columns: Vec<Arc<ColumnInfo>>,
    pub(crate) schema: SchemaRef,
}

impl DurableTable {
    /// Whether a relation still shows just these columns.
    pub(crate) fn has_same_columns(&self, relation: &Relation) -> bool {
        let numbers = |table: &DurableTable| -> Vec<usize> {
            table.columns.iter().map(|info| info.number).collect()
        };
        relation
            .durable()
            .is_some_and(|now| numbers(&now) == numbers(self))
    }
}

/// A database file that is open for writing.
#[derive(Debug)]
pub(crate) struct Durable {
    host: Arc<dyn Host>,
    path: PathBuf,
    /// None when it was closed. Closing the file lets others open it.
    file: Mutex<Option<Arc<dyn HostFile>>>,
    salt: u64,
    log: Log,
    synchronous: AtomicU8,
    compression: AtomicU8,
    /// Threads that encode columns.
    threads: usize,
    /// Shared from appending to publishing; alone while a checkpoint begins.
    gate: RwLock<()>,
    stored: Mutex<Stored>,
    relations: Mutex<BTreeMap<u64, Weak<Relation>>>,
    next_table: AtomicU64,
    omit_checkpoint_sync: bool,
    process: u32,
}

impl Durable {
    /// What commits wait for.
    pub(crate) fn synchronous(&self) -> Synchronous {
        match self.synchronous.load(Ordering::Relaxed) {
            0 => Synchronous::Off,
            1 => Synchronous::Normal,
            _ => Synchronous::Full,
        }
    }

    pub(crate) fn set_synchronous(&self, synchronous: Synchronous) {
        self.synchronous.store(synchronous as u8, Ordering::Relaxed);
    }

    /// How rows are written.
    pub(crate) fn compression(&self) -> Compression {
        match self.compression.load(Ordering::Relaxed) {
            0 => Compression::None,
            _ => Compression::Auto,
        }
    }

    pub(crate) fn set_compression(&self, compression: Compression) {
        self.compression.store(compression as u8, Ordering::Relaxed);
    }

    /// An error if the database refuses work.
    pub(crate) fn check(&self) -> Result<()> {
        if self.process != std::process::id() {
            return Err(Error::System(
                "this database was opened by another process".into(),
            ));
        }
        self.log.check()
    }

    fn file(&self) -> Result<Arc<dyn HostFile>> {
        let file = self.file.lock().clone();
        file.ok_or_else(|| Error::Broken("it was closed".into()))
    }

    /// Lets the files go: from now on others may open the database.
    pub(crate) fn close(&self) {
        if self.process == std::process::id() {
            if self.synchronous() != Synchronous::Off {
                // Without the end mark the log is as right, and damage of its last group looks like a crash.
                let _ = self.log.seal();
            }
            self.log.break_off("it was closed".into());
            *self.file.lock() = None;
        }
    }

    pub(crate) fn log_bytes(&self) -> u64 {
        self.log.bytes()
    }

    /// Enters the gate: as long as the guard lives, no checkpoint begins.
    pub(crate) fn enter(&self) -> Result<RwLockReadGuard<'_, ()>> {
        self.check()?;
        let gate = self.gate.read();
        // It may have broken, or been closed, meanwhile.
        self.check()?;
        Ok(gate)
    }

    /// Writes a record and waits as the setting says. The caller is in the gate.
    pub(crate) fn append(&self, record: &RecordWriter) -> Result<()> {
        check_length(record.bytes())?;
        let group = self.log.append(record.bytes())?;
        let sync = self.synchronous() == Synchronous::Full;
        self.log.flush(&group, sync).map(drop)
    }

    /// Writes the first parts of a transaction. The caller is in the gate until it ends: no checkpoint cuts it in two.
    pub(crate) fn write_piece(&self, parts: &RecordWriter) -> Result<()> {
        let mut record = parts.bytes().to_vec();
        record[0] = Kind::Piece as u8;
        check_length(&record)?;
        let group = self.log.append(&record)?;
        self.log.flush(&group, false).map(drop)
    }

    /// Writes rows to free room of the file, as `fill` gives them, and syncs it. They belong to nobody until [`adopt_extents`](Self::adopt_extents); if that
    /// does not come, [`abandon_extents`](Self::abandon_extents) must. The caller is in the gate.
    pub(crate) fn write_extents(
        &self,
        table: &DurableTable,
        fill: impl FnOnce(&mut ExtentWriter<'_>) -> Result<()>,
    ) -> Result<Vec<FileExtent>> {
        let mut stored = self.stored.lock();
        let mut writer = ExtentWriter::new(self, &table.schema, &mut stored.space);
        let written = fill(&mut writer).and_then(|()| writer.finish());
        if let Ok(extents) = &written
            && let Some(first) = extents.first()
        {
            stored.pending.insert(first.offset, extents.clone());
        }
        drop(stored);
        let extents = written.inspect_err(|_| self.give_up_room())?;
        self.sync_file()?;
        Ok(extents)
    }

    /// Takes extents in whose transaction is in the log. The caller is in the gate.
    pub(crate) fn adopt_extents(&self, loaded: Vec<(u64, Vec<FileExtent>)>) {
        let mut stored = self.stored.lock();
        for (table, extents) in loaded {
            if let Some(first) = extents.first() {
                stored.pending.remove(&first.offset);
            }
            stored.recent.entry(table).or_default().extend(extents);
        }
    }

    /// Gives up extents whose transaction failed.
    pub(crate) fn abandon_extents(&self, loaded: &[(u64, Vec<FileExtent>)]) {
        if loaded.is_empty() {
            return;
        }
        let mut stored = self.stored.lock();
        for first in loaded.iter().filter_map(|(_, extents)| extents.first()) {
            stored.pending.remove(&first.offset);
        }
        drop(stored);
        self.give_up_room();
    }

    /// Notes that rows moved. The caller holds the clock's latch.
    pub(crate) fn note_moves(&self, relation: &Relation, moves: &[(Slot, Slot)]) {
        let Some(table) = relation.durable() else {
            return;
        };
        let mut record = RecordWriter::new(Kind::Note, 0);
        record.moves(table.id, moves);
        self.log.note(record.bytes());
        let slots = moves.iter().flat_map(|&(from, to)| [from, to]);
        relation.note_changed(
            slots.filter_map(|slot| crate::block::place(slot).map(|(block, _)| block)),
        );
    }

    /// Changes an object by itself, in no transaction, and waits as a commit does.
    pub(crate) fn set_object(&self, key: &str, value: &[u8]) -> Result<()> {
        let mut record = RecordWriter::new(Kind::Note, 0);
        record.object(key, Some(value));
        let _entered = self.enter()?;
        self.append(&record)
    }

    /// Reads all extents and checks them. Gives what is damaged.
    pub(crate) fn verify(&self) -> Result<Vec<String>> {
        let reader = open::Reader::new(&self.path, self.file()?);
        let extents: Vec<(u64, FileExtent)> = {
            let stored = self.stored.lock();
            let all = [&stored.extents, &stored.recent];
            all.into_iter()
                .flatten()
                .flat_map(|(&id, extents)| extents.iter().map(move |extent| (id, extent.clone())))
                .collect()
        };
        let mut damaged = Vec::new();
        for (id, extent) in extents {
            let name = match self.relations.lock().get(&id).and_then(Weak::upgrade) {
                Some(relation) => relation.name.clone(),
                None => continue,
            };
            match reader.extent(&extent, &name) {
                Ok(_) => {}
                // A checkpoint may have put something else there meanwhile.
                Err(_) if !self.is_stored(id, &extent) => {}
                Err(Error::Damaged(what)) => damaged.push(what),
                Err(error) => return Err(error),
            }
        }
        Ok(damaged)
    }

    fn is_stored(&self, table: u64, extent: &FileExtent) -> bool {
        let stored = self.stored.lock();
        [&stored.extents, &stored.recent]
            .iter()
            .filter_map(|extents| extents.get(&table))
            .flatten()
            .any(|other| (other.offset, &other.checksums) == (extent.offset, &extent.checksums))
    }

    /// Gives a relation a number, if it has none.
    pub(crate) fn adopt(&self, relation: &Arc<Relation>, layout: &Layout) -> u64 {
        if let Some(table) = relation.durable() {
            return table.id;
        }
        let id = self.next_table.fetch_add(1, Ordering::Relaxed);
        self.register(relation, id, layout);
        id
    }

    fn register(&self, relation: &Arc<Relation>, id: u64, layout: &Layout) {
        relation.set_durable(Some(Arc::new(DurableTable {
            id,
            columns: layout.columns.clone(),
            schema: Arc::clone(&layout.schema),
        })));
        let mut relations = self.relations.lock();
        relations.retain(|_, relation| relation.strong_count() > 0);
        relations.insert(id, Arc::downgrade(relation));
    }
}

/// A record's length is told in 32 bits.
fn check_length(record: &[u8]) -> Result<()> {
    match record.len() < 1 << 31 {
        true => Ok(()),
        false => Err(Error::Limit(format!(
            "a record of {} bytes is too long for the log",
            record.len()
        ))),
    }
}

/// The log of a database file.
pub(crate) fn log_path(path: &Path) -> PathBuf {
    log::beside(path, ".wal")
}

impl Table {
    /// Its number in the database file, which it gets when it has none; 0 in a database without a file.
    pub fn durable_id(&self) -> u64 {
        match self.durable_storage() {
            Some(durable) => durable.adopt(self.relation(), self.layout()),
            None => 0,
        }
    }

    /// The table as the log tells of it.
    pub(crate) fn durable_part(&self) -> Result<TablePart> {
        let columns = &self.layout().columns;
        let added = columns
            .iter()
            .filter_map(|info| Some((info.number, Arc::clone(info.default.as_ref()?))))
            .collect::<Vec<_>>();
        Ok(TablePart {
            id: self.durable_id(),
            name: self.relation().name.clone(),
            schema: Arc::clone(self.schema()),
            columns: columns.iter().map(|info| info.number as u32).collect(),
            defaults: match added.is_empty() {
                true => None,
                false => Some(numbered(added, 1)?),
            },
        })
    }
}
