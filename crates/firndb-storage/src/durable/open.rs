//! Opening a database file: making it, or recovering what it and its log hold.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64};

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::buffer::{Buffer, MutableBuffer};
use arrow::datatypes::{UInt32Type, UInt64Type};
use parking_lot::{Mutex, RwLock};
use xxhash_rust::xxh3::xxh3_64;

use super::checkpoint::{Stored, used};
use super::encode::Compression;
use super::extent::{FileExtent, decode};
use super::host::{Access, Host, HostFile, Lock};
use super::log::{self, Log, LogHeader, Place, Scanned};
use super::record::TablePart;
use super::replay::{Replay, load_extents};
use super::root::{Head, PAGE, Root, SEGMENTS, Segment};
use super::wire::{malformed, read_stream};
use super::{Durable, FileOptions};
use crate::storage::StorageConfig;
use crate::transaction::Isolation;
use crate::{Error, Result, Storage, Table};

/// What was found in a database file.
#[derive(Debug, Default)]
pub struct Recovered {
    /// Objects by their keys.
    pub objects: BTreeMap<String, Vec<u8>>,
    /// Tables by their numbers.
    pub tables: BTreeMap<u64, Table>,
    /// Bytes of transactions in the log that a crash left unfinished, and that were cut off.
    pub torn: u64,
    /// Bytes of the log that were done again.
    pub replayed: u64,
}

/// A file that is being opened.
struct Opening<'a> {
    host: &'a Arc<dyn Host>,
    path: &'a Path,
    name: String,
    file: Arc<dyn HostFile>,
    options: &'a FileOptions,
}

/// A log beside the file.
struct FoundLog {
    file: Arc<dyn HostFile>,
    header: LogHeader,
    scanned: Scanned,
}

/// Reads parts of the file.
pub(super) struct Reader {
    name: String,
    file: Arc<dyn HostFile>,
}

impl Reader {
    pub(super) fn new(path: &Path, file: Arc<dyn HostFile>) -> Self {
        Self {
            name: path.display().to_string(),
            file,
        }
    }

    /// The rows of an extent of a table, once they are known to be right.
    pub(super) fn extent(&self, extent: &FileExtent, table: &str) -> Result<RecordBatch> {
        let what = format!("an extent of table \"{table}\"");
        decode(
            self.bytes(extent.offset, extent.length, &what)?,
            extent,
            table,
        )
    }

    /// Bytes of the file, aligned for Arrow.
    pub(super) fn bytes(&self, offset: u64, length: u64, what: &str) -> Result<Buffer> {
        let failed = |error| Error::io(error, &format!("reading {}", self.name));
        let file = self.file.length().map_err(failed)?;
        if offset.checked_add(length).is_none_or(|end| end > file) {
            return Err(Error::Damaged(format!(
                "{} is damaged: it ends before {what} (bytes {offset} to {})",
                self.name,
                offset.saturating_add(length)
            )));
        }
        let mut bytes = MutableBuffer::from_len_zeroed(length as usize);
        self.file
            .read_at(bytes.as_slice_mut(), offset)
            .map_err(failed)?;
        Ok(bytes.into())
    }
}

impl Storage {
    /// Opens a database file, and makes it if it is not there. Until the first checkpoint nothing is logged: the caller takes one before it lets
    /// anybody work.
    pub fn open_file(
        config: StorageConfig,
        host: &Arc<dyn Host>,
        path: &Path,
        options: &FileOptions,
    ) -> Result<(Arc<Storage>, Recovered)> {
        let name = path.display().to_string();
        let access = match options.read_only {
            true => Access::Read,
            false => Access::Create,
        };
        let file = host
            .open(path, access)
            .map_err(|error| Error::io(error, &format!("opening {name}")))?;
        let opening = Opening {
            host,
            path,
            name,
            file,
            options,
        };
        opening.lock()?;
        let storage = Storage::open(config)?;
        let (recovered, durable) = opening.recover(&storage)?;
        match durable {
            Some(durable) => storage.set_file(durable),
            None => storage.keep_read(opening.file),
        }
        Ok((storage, recovered))
    }
}

impl Opening<'_> {
    fn failed(&self, error: std::io::Error) -> Error {
        Error::io(error, &format!("reading {}", self.name))
    }

    fn lock(&self) -> Result<()> {
        let kind = match self.options.read_only {
            true => Lock::Shared,
            false => Lock::Exclusive,
        };
        match self.file.lock(kind).map_err(|error| self.failed(error))? {
            Ok(()) => Ok(()),
            Err(holder) => {
                let by = match holder.process {
                    Some(process) => format!("process {process}"),
                    None => "another process".to_owned(),
                };
                Err(Error::InUse {
                    message: format!("{} is in use by {by}", self.name),
                    process: holder.process,
                })
            }
        }
    }

    fn recover(&self, storage: &Arc<Storage>) -> Result<(Recovered, Option<Durable>)> {
        let Some((salt, root)) = self.root()? else {
            // Read-only, and nothing in it.
            return Ok((Recovered::default(), None));
        };
        let reader = Reader::new(self.path, Arc::clone(&self.file));
        let mut replay = Replay::new(storage, &reader, root.next_table);
        self.load(&reader, &mut replay, &root)?;
        let place = Place {
            lsn: root.lsn,
            chain: root.chain,
        };
        let log = self.replay(&mut replay, salt, &root)?;
        let end = log.as_ref().map_or(place, |log| log.scanned.end);
        let durable = match self.options.read_only {
            true => None,
            false => Some(self.durable(&mut replay, salt, root, end, log.as_ref())?),
        };
        let mut recovered = Recovered {
            objects: std::mem::take(&mut replay.objects),
            tables: BTreeMap::new(),
            torn: log.as_ref().map_or(0, |log| log.scanned.torn),
            replayed: end.lsn - root.lsn,
        };
        for (id, found) in replay.tables {
            recovered.tables.insert(id, found.table);
        }
        Ok((recovered, durable))
    }

    /// The database's number and its newest root; makes them in an empty file.
    fn root(&self) -> Result<Option<(u64, Root)>> {
        let length = self.file.length().map_err(|error| self.failed(error))?;
        let mut pages = vec![0; length.min(SEGMENTS) as usize];
        self.file
            .read_at(&mut pages, 0)
            .map_err(|error| self.failed(error))?;
        let is_blank = pages.iter().take(PAGE as usize).all(|&byte| byte == 0);
        if is_blank && length <= SEGMENTS {
            if self.options.read_only {
                return Ok(None);
            }
            return self.make().map(Some);
        }
        pages.resize(SEGMENTS as usize, 0);
        let page = |number: usize| &pages[number * PAGE as usize..(number + 1) * PAGE as usize];
        let salt = match Head::decode(page(0), &self.name) {
            Ok(head) => head.salt,
            Err(error) => {
                // Making it was cut short by a crash: the first root is there, the head was being written.
                let first = page(2);
                let salt = u64::from_le_bytes(first[8..16].try_into().unwrap_or_default());
                match Root::decode(first, salt) {
                    Some(root) if length <= SEGMENTS && root.sequence == 1 << 1 => {
                        if !self.options.read_only {
                            self.write_head(salt)?;
                        }
                        salt
                    }
                    _ => return Err(error),
                }
            }
        };
        let newest = [page(1), page(2)]
            .into_iter()
            .filter_map(|page| Root::decode(page, salt))
            .max_by_key(|root| root.sequence);
        let root = newest.ok_or_else(|| {
            Error::Damaged(format!(
                "{} is damaged: neither of its roots is valid",
                self.name
            ))
        })?;
        Ok(Some((salt, root)))
    }

    /// Makes a database without anything in it: first a root, then the head, which makes it one.
    fn make(&self) -> Result<(u64, Root)> {
        let failed = |error| Error::io(error, &format!("writing {}", self.name));
        let salt = RandomState::new().build_hasher().finish();
        let root = Root {
            sequence: 1 << 1,
            clean: true,
            next_table: 1,
            ..Root::default()
        };
        let mut page = root.encode(salt);
        page.resize(PAGE as usize, 0);
        // The second page's place, so that the file has its three pages from the first write on.
        debug_assert_eq!(Root::place(root.sequence), PAGE);
        self.file.write_at(&page, 2 * PAGE).map_err(failed)?;
        self.file.write_at(&page, PAGE).map_err(failed)?;
        self.file.sync().map_err(failed)?;
        self.write_head(salt)?;
        self.host.sync_directory(self.path).map_err(failed)?;
        Ok((salt, root))
    }

    fn write_head(&self, salt: u64) -> Result<()> {
        let failed = |error| Error::io(error, &format!("writing {}", self.name));
        self.file
            .write_at(&Head { salt }.encode(), 0)
            .map_err(failed)?;
        self.file.sync().map_err(failed)
    }

    /// Reads a segment and checks it.
    fn segment(&self, reader: &Reader, segment: Segment, what: &str) -> Result<Vec<RecordBatch>> {
        if segment.length == 0 {
            return Ok(Vec::new());
        }
        let bytes = reader.bytes(segment.offset, segment.length, what)?;
        if xxh3_64(&bytes) != segment.checksum {
            return Err(Error::Damaged(format!(
                "{what} of {} (bytes {} to {}) is damaged: its checksum is wrong",
                self.name,
                segment.offset,
                segment.offset + segment.length
            )));
        }
        read_stream(bytes, what).map(|(_, batches)| batches)
    }

    /// Reads what a root leads to.
    fn load(&self, reader: &Reader, replay: &mut Replay<'_>, root: &Root) -> Result<()> {
        for batch in self.segment(reader, root.objects, "the list of objects")? {
            let keys = column(&batch, "key")?.as_string_opt::<i32>();
            let values = column(&batch, "value")?.as_binary_opt::<i32>();
            let (Some(keys), Some(values)) = (keys, values) else {
                return Err(malformed("the list of objects"));
            };
            for (key, value) in keys.iter().zip(values) {
                replay.objects.insert(
                    key.unwrap_or_default().to_owned(),
                    value.unwrap_or_default().to_vec(),
                );
            }
        }
        let mut extents: BTreeMap<u64, Vec<FileExtent>> = BTreeMap::new();
        for batch in self.segment(reader, root.extents, "the list of extents")? {
            for (table, extent) in
                read_extents(&batch).ok_or_else(|| malformed("the list of extents"))?
            {
                extents.entry(table).or_default().push(extent);
            }
        }
        // Refuses extents that share bytes.
        used(root, &[&extents])?;
        for batch in self.segment(reader, root.tables, "the list of tables")? {
            for part in read_tables(&batch)? {
                let id = part.id;
                let transaction = replay.begin();
                replay.table(&transaction, part)?;
                if let (Some(extents), Some(found)) =
                    (extents.remove(&id), replay.tables.get_mut(&id))
                {
                    let extents = load_extents(reader, &transaction, found, extents)?;
                    replay.extents.insert(id, extents);
                }
                transaction.commit()?;
            }
        }
        match extents.is_empty() {
            true => Ok(()),
            false => Err(malformed("the list of extents")),
        }
    }

    /// Does the log again. `None` if there is none, and none is needed.
    fn replay(&self, replay: &mut Replay<'_>, salt: u64, root: &Root) -> Result<Option<FoundLog>> {
        let path = super::log_path(self.path);
        let name = path.display().to_string();
        let failed = |error| Error::io(error, &format!("opening {name}"));
        if !self.host.exists(&path) {
            return match root.clean {
                true => Ok(None),
                false => Err(Error::Damaged(format!(
                    "the log {name} is missing: {} was not closed, and its last changes are there",
                    self.name
                ))),
            };
        }
        let access = match self.options.read_only {
            true => Access::Read,
            false => Access::Write,
        };
        let file = self.host.open(&path, access).map_err(failed)?;
        let mut bytes = [0; log::HEADER as usize];
        let header = file
            .read_at(&mut bytes, 0)
            .map_err(|error| match error.kind() {
                std::io::ErrorKind::UnexpectedEof => {
                    Error::Damaged(format!("{name} is damaged: its header is not valid"))
                }
                _ => failed(error),
            })
            .and_then(|()| LogHeader::decode(&bytes, &name))?;
        if header.salt != salt {
            return Err(Error::Damaged(format!(
                "{name} is the log of another database than {}",
                self.name
            )));
        }
        if header.first > root.lsn {
            return Err(self.newer_root(&name));
        }
        let place = Place {
            lsn: root.lsn,
            chain: root.chain,
        };
        let scanned = log::scan(&*file, &name, &header, place, |record| replay.look(record))?;
        if header.root > root.sequence && !(root.clean && scanned.end == place) {
            return Err(self.newer_root(&name));
        }
        log::scan(&*file, &name, &header, place, |record| replay.apply(record))?;
        Ok(Some(FoundLog {
            file,
            header,
            scanned,
        }))
    }

    fn newer_root(&self, log: &str) -> Error {
        Error::Damaged(format!(
            "{} is damaged: its newest root is not valid, and {log} does not reach back to the one before",
            self.name
        ))
    }

    fn durable(
        &self,
        replay: &mut Replay<'_>,
        salt: u64,
        root: Root,
        end: Place,
        found: Option<&FoundLog>,
    ) -> Result<Durable> {
        let path = super::log_path(self.path);
        let sync = !self.options.omit_log_sync;
        let (file, header) = match found {
            Some(found) if !root.clean => (Arc::clone(&found.file), found.header),
            _ => {
                // Of a clean database; what is there belongs to its past.
                let header = LogHeader {
                    salt,
                    first: end.lsn,
                    root: root.sequence + 1,
                    chain: end.chain,
                };
                let file = log::create(self.host, &path, &header, &[], sync)?;
                if sync {
                    self.host
                        .sync_directory(&path)
                        .map_err(|error| Error::io(error, &format!("making {}", path.display())))?;
                }
                (file, header)
            }
        };
        let durable = Durable {
            host: Arc::clone(self.host),
            path: self.path.to_owned(),
            file: Mutex::new(Some(Arc::clone(&self.file))),
            salt,
            log: Log::new(
                self.host,
                &path,
                file,
                &header,
                end,
                self.options.omit_log_sync,
            ),
            synchronous: AtomicU8::new(self.options.synchronous as u8),
            compression: AtomicU8::new(Compression::Auto as u8),
            threads: replay.storage().resources().threads,
            gate: RwLock::new(()),
            stored: Mutex::new(Stored {
                root,
                space: used(&root, &[&replay.extents])?,
                extents: std::mem::take(&mut replay.extents),
                recent: BTreeMap::new(),
                pending: BTreeMap::new(),
            }),
            relations: Mutex::default(),
            next_table: AtomicU64::new(replay.next_table),
            omit_checkpoint_sync: self.options.omit_checkpoint_sync,
            process: std::process::id(),
        };
        for (&id, found) in &replay.tables {
            durable.register(found.table.relation(), id, found.table.layout());
        }
        Ok(durable)
    }
}

impl Replay<'_> {
    fn begin(&self) -> crate::Transaction {
        self.storage().begin(Isolation::Snapshot)
    }
}

fn column<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a dyn Array> {
    batch
        .column_by_name(name)
        .map(AsRef::as_ref)
        .ok_or_else(|| malformed("a list of the database file"))
}

fn read_tables(batch: &RecordBatch) -> Result<Vec<TablePart>> {
    let what = "the list of tables";
    let wrong = || malformed(what);
    let ids = column(batch, "id")?
        .as_primitive_opt::<UInt64Type>()
        .ok_or_else(wrong)?;
    let names = column(batch, "name")?
        .as_string_opt::<i32>()
        .ok_or_else(wrong)?;
    let schemas = column(batch, "schema")?
        .as_binary_opt::<i32>()
        .ok_or_else(wrong)?;
    let columns = column(batch, "columns")?
        .as_list_opt::<i32>()
        .ok_or_else(wrong)?;
    (0..batch.num_rows())
        .map(|row| {
            let (schema, _) = read_stream(Buffer::from(schemas.value(row)), what)?;
            let numbers = columns.value(row);
            let numbers = numbers.as_primitive_opt::<UInt32Type>().ok_or_else(wrong)?;
            Ok(TablePart {
                id: ids.value(row),
                name: names.value(row).to_owned(),
                schema,
                columns: numbers.values().to_vec(),
                defaults: None,
            })
        })
        .collect()
}

fn read_extents(batch: &RecordBatch) -> Option<Vec<(u64, FileExtent)>> {
    let numbers = |name: &str| batch.column_by_name(name)?.as_primitive_opt::<UInt64Type>();
    let lists = |name: &str| batch.column_by_name(name)?.as_list_opt::<i32>();
    let (table, offset) = (numbers("table")?, numbers("offset")?);
    let (length, rows) = (numbers("length")?, numbers("rows")?);
    let (checksums, slots, counts) = (lists("checksums")?, lists("slots")?, lists("counts")?);
    (0..batch.num_rows())
        .map(|row| {
            let (first, count) = (slots.value(row), counts.value(row));
            let first = first.as_primitive_opt::<UInt64Type>()?;
            let count = count.as_primitive_opt::<UInt32Type>()?;
            let slots: Vec<(u64, u32)> = first
                .values()
                .iter()
                .copied()
                .zip(count.values().iter().copied())
                .collect();
            let total: u64 = slots.iter().map(|&(_, count)| u64::from(count)).sum();
            let is_sound = total == rows.value(row)
                && slots
                    .iter()
                    .all(|&(first, count)| first.checked_add(u64::from(count)).is_some());
            let extent = FileExtent {
                offset: offset.value(row),
                length: length.value(row),
                rows: rows.value(row),
                checksums: checksums
                    .value(row)
                    .as_primitive_opt::<UInt64Type>()?
                    .values()
                    .to_vec(),
                slots,
            };
            is_sound.then_some((table.value(row), extent))
        })
        .collect()
}
