//! Checkpoints: from a snapshot to a new root. The module above says when each step is taken, and why it is sound.
//!
//! What did not change is not written again: an extent stays where it is as long as no row of its blocks was written or moved since it was made. Small
//! extents of a table that is written anyway are joined.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::{
    ArrayRef, BinaryArray, ListBuilder, RecordBatch, StringArray, UInt32Builder, UInt64Array,
    UInt64Builder,
};
use xxhash_rust::xxh3::xxh3_64;

use super::extent::FileExtent;
use super::log::{Group, Place};
use super::root::{Root, Segment};
use super::space::Space;
use super::wire::{stream_of, stream_of_schema};
use super::writer::ExtentWriter;
use super::{Durable, Synchronous};
use crate::block::cells::Rows;
use crate::block::{place, slot};
use crate::frozen::Form;
use crate::slot::Slot;
use crate::snapshot::TransactionState;
use crate::{Error, Result, Snapshot, Storage, Table};

/// Extents of fewer bytes are joined with others when their table is written.
const SMALL: u64 = 256 << 10;

/// What the newest root leads to.
#[derive(Debug, Default)]
pub(super) struct Stored {
    pub(super) root: Root,
    pub(super) space: Space,
    pub(super) extents: BTreeMap<u64, Vec<FileExtent>>,
    /// Extents that commits have put there since the last checkpoint began, and the log refers to.
    pub(super) recent: BTreeMap<u64, Vec<FileExtent>>,
    /// Extents of commits that are under way, by the first one's place.
    pub(super) pending: BTreeMap<u64, Vec<FileExtent>>,
}

impl Stored {
    /// Takes the recent extents among those of the next root.
    fn settle(&mut self) {
        for (table, recent) in std::mem::take(&mut self.recent) {
            self.extents.entry(table).or_default().extend(recent);
        }
    }
}

/// A checkpoint that has begun: its snapshot is what the log holds up to its cut.
pub struct Checkpoint {
    durable: Arc<Durable>,
    snapshot: Snapshot,
    cut: Option<Arc<Group>>,
    end: Place,
    changed: BTreeMap<u64, BTreeSet<u32>>,
    done: bool,
}

impl std::fmt::Debug for Checkpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Checkpoint")
            .field("snapshot", &self.snapshot)
            .finish_non_exhaustive()
    }
}

impl Storage {
    /// Begins a checkpoint; waits for commits that are being written, and those that begin wait meanwhile. The caller sees to it that the catalog
    /// he hands over is that of this moment, and that there is one checkpoint at a time. The first one begins the logging.
    pub fn begin_checkpoint(self: &Arc<Self>) -> Result<Checkpoint> {
        let durable = self
            .file()
            .ok_or_else(|| Error::Internal("a database in memory has no checkpoints".into()))?;
        durable.check()?;
        let resources = self.resources();
        let gate = durable.gate.write();
        let (registration, (cut, end, changed)) = resources.clock.register_with(|| {
            let cut = durable.log.cut();
            let changed = durable.take_changed();
            // From now on commits and moves are logged.
            let _ = resources.durable.set(Arc::clone(durable));
            (cut, durable.log.end(), changed)
        });
        // Nobody is between putting extents there and publishing them.
        durable.stored.lock().settle();
        drop(gate);
        Ok(Checkpoint {
            durable: Arc::clone(durable),
            snapshot: Snapshot::new(&Arc::new(registration), &TransactionState::new(0)),
            cut,
            end,
            changed,
            done: false,
        })
    }
}

impl Durable {
    fn take_changed(&self) -> BTreeMap<u64, BTreeSet<u32>> {
        let relations = self.relations.lock();
        relations
            .iter()
            .filter_map(|(&id, relation)| Some((id, relation.upgrade()?.take_changed())))
            .collect()
    }

    fn give_back_changed(&self, changed: &BTreeMap<u64, BTreeSet<u32>>) {
        let relations = self.relations.lock();
        for (id, blocks) in changed {
            if let Some(relation) = relations.get(id).and_then(std::sync::Weak::upgrade) {
                relation.note_changed(blocks.iter().copied());
            }
        }
    }

    /// Syncs the file, unless nothing is ever synced.
    pub(super) fn sync_file(&self) -> Result<()> {
        if self.synchronous() == Synchronous::Off {
            return Ok(());
        }
        self.file()?.sync().map_err(|error| {
            // What of the file is durable is unknown.
            let reason = format!("syncing {} failed: {error}", self.path.display());
            self.log.break_off(reason.clone());
            Error::Broken(reason)
        })
    }

    /// Gives the disk back what was written for nothing: room that neither the root nor the log refers to.
    pub(super) fn give_up_room(&self) {
        // If what the newest root is is unknown, everything stays.
        if self.log.check().is_err() {
            return;
        }
        let mut stored = self.stored.lock();
        if let Ok(space) = used(
            &stored.root,
            &[&stored.extents, &stored.recent, &stored.pending],
        ) {
            stored.space = space;
        }
        let end = stored.space.end();
        if let Ok(file) = self.file()
            && file.length().is_ok_and(|length| length > end)
        {
            // Shorter or not, the file is right.
            let _ = file.set_length(end);
        }
    }

    pub(super) fn write(&self, space: &mut Space, bytes: &[u8]) -> Result<Segment> {
        let offset = space.allocate(bytes.len() as u64);
        self.file()?
            .write_at(bytes, offset)
            .map_err(|error| Error::io(error, &format!("writing {}", self.path.display())))?;
        Ok(Segment {
            offset,
            length: bytes.len() as u64,
            checksum: xxh3_64(bytes),
        })
    }
}

impl Checkpoint {
    /// Writes the tables and objects of the catalog, and makes them the database's newest root. With `clean` it is the last one: nothing is committed any
    /// more, and the log goes.
    pub fn finish(
        mut self,
        objects: &[(String, Vec<u8>)],
        tables: &[Table],
        clean: bool,
    ) -> Result<()> {
        let durable = Arc::clone(&self.durable);
        let end = match &self.cut {
            // A root must not name a place that the log does not reach.
            Some(group) => durable
                .log
                .flush(group, durable.synchronous() != Synchronous::Off)?,
            None => {
                if durable.synchronous() != Synchronous::Off {
                    durable.log.sync()?;
                }
                self.end
            }
        };
        let mut stored = durable.stored.lock();
        let mut space = stored.space.clone();
        let mut extents = BTreeMap::new();
        for table in tables {
            let id = table.durable_id();
            let none = BTreeSet::new();
            let changed = self.changed.get(&id).unwrap_or(&none);
            let old = stored.extents.get(&id).map_or(&[][..], Vec::as_slice);
            let mut new = if changed.is_empty() {
                old.to_vec()
            } else {
                self.write_table(table, old, changed, &mut space)?
            };
            new.sort_by_key(|extent| extent.slots.first().copied());
            extents.insert(id, new);
        }
        let root = Root {
            sequence: stored.root.sequence + 1,
            lsn: end.lsn,
            chain: end.chain,
            clean,
            next_table: durable.next_table.load(Ordering::Relaxed),
            tables: durable.write(&mut space, &stream_of(&table_batch(tables)?)?)?,
            extents: durable.write(&mut space, &stream_of(&extent_batch(&extents)?)?)?,
            objects: durable.write(&mut space, &stream_of(&object_batch(objects)?)?)?,
        };
        if !durable.omit_checkpoint_sync {
            durable.sync_file()?;
        }
        let file = durable.file()?;
        let written = file.write_at(&root.encode(durable.salt), Root::place(root.sequence));
        if let Err(error) = written {
            // Part of it may be there, or all.
            let reason = format!(
                "writing the root of {} failed: {error}",
                durable.path.display()
            );
            durable.log.break_off(reason.clone());
            return Err(Error::Broken(reason));
        }
        durable.sync_file()?;
        // From here on the new root holds, whatever fails.
        self.done = true;
        stored.space = used(&root, &[&extents, &stored.recent, &stored.pending])?;
        stored.root = root;
        stored.extents = extents;
        if clean {
            durable.log.break_off("it was closed".into());
            let log = super::log_path(&durable.path);
            let removed = durable.host.remove(&log);
            removed.map_err(|error| Error::io(error, &format!("removing {}", log.display())))?;
        } else {
            durable.log.rotate(
                root.sequence,
                end,
                durable.synchronous() != Synchronous::Off,
            )?;
        }
        let end = stored.space.end();
        if file.length().is_ok_and(|length| length > end) {
            // Shorter or not, the file is right.
            let _ = file.set_length(end);
        }
        Ok(())
    }

    /// Writes the rows of a table that are in no extent which stays. Gives all its extents.
    fn write_table(
        &self,
        table: &Table,
        old: &[FileExtent],
        changed: &BTreeSet<u32>,
        space: &mut Space,
    ) -> Result<Vec<FileExtent>> {
        let kept: Vec<&FileExtent> = old
            .iter()
            .filter(|extent| extent.length >= SMALL && !touches(extent, changed))
            .collect();
        let mut covered: Vec<(u64, u64)> = kept
            .iter()
            .flat_map(|extent| &extent.slots)
            .map(|&(first, count)| (first, first + u64::from(count)))
            .collect();
        covered.sort_unstable();
        let mut writer = ExtentWriter::new(&self.durable, table.schema(), space);
        let relation = table.relation();
        let view = self.snapshot.view();
        for number in 0..relation.block_count() {
            let pin = table.pinned();
            let block = relation
                .block(number, &pin)
                .filter(|block| block.is_born(&view, &pin));
            let Some(block) = block else { continue };
            let all = Rows::First(block.rows());
            let seen = relation.read_block(block, &[], &all, &view, Form::Stored, &pin)?;
            let rows: Vec<u32> = seen
                .offsets
                .into_iter()
                .filter(|&row| !is_covered(&covered, slot(number, row as usize).0))
                .collect();
            let Some(&first) = rows.first() else { continue };
            let first = slot(number, first as usize);
            if writer.is_parted_from(&covered, first) {
                writer.flush()?;
            }
            let seen = relation.read_block(
                block,
                &table.layout().columns,
                &Rows::At(&rows),
                &view,
                Form::Stored,
                &pin,
            )?;
            if seen.offsets != rows {
                return Err(Error::Internal("a snapshot changed".into()));
            }
            let slots = rows.iter().map(|&row| slot(number, row as usize));
            writer.push(slots, seen.columns)?;
        }
        let mut extents = writer.finish()?;
        extents.extend(kept.into_iter().cloned());
        Ok(extents)
    }
}

impl Drop for Checkpoint {
    fn drop(&mut self) {
        if !self.done {
            self.durable.give_back_changed(&self.changed);
            self.durable.give_up_room();
        }
    }
}

/// Whether an extent has rows of a changed block.
fn touches(extent: &FileExtent, changed: &BTreeSet<u32>) -> bool {
    extent.slots.iter().any(|&(first, count)| {
        let block = |slot: u64| place(Slot(slot)).map_or(0, |(block, _)| block);
        let last = first + u64::from(count.max(1)) - 1;
        changed.range(block(first)..=block(last)).next().is_some()
    })
}

fn is_covered(covered: &[(u64, u64)], slot: u64) -> bool {
    let after = covered.partition_point(|&(first, _)| first <= slot);
    after > 0 && slot < covered[after - 1].1
}

/// The room that a root takes.
pub(super) fn used(root: &Root, extents: &[&BTreeMap<u64, Vec<FileExtent>>]) -> Result<Space> {
    let mut space = Space::default();
    for segment in [root.tables, root.extents, root.objects] {
        space.take(segment.offset, segment.length)?;
    }
    for extent in extents.iter().flat_map(|of| of.values()).flatten() {
        space.take(extent.offset, extent.length)?;
    }
    Ok(space)
}

fn table_batch(tables: &[Table]) -> Result<RecordBatch> {
    let mut columns = ListBuilder::new(UInt32Builder::new());
    let mut schemas = Vec::new();
    for table in tables {
        for info in &table.layout().columns {
            columns.values().append_value(info.number as u32);
        }
        columns.append(true);
        schemas.push(stream_of_schema(table.schema())?);
    }
    let arrays: [(&str, ArrayRef); 4] = [
        (
            "id",
            Arc::new(UInt64Array::from_iter_values(
                tables.iter().map(Table::durable_id),
            )),
        ),
        (
            "name",
            Arc::new(StringArray::from_iter_values(
                tables.iter().map(|table| &table.relation().name),
            )),
        ),
        (
            "schema",
            Arc::new(BinaryArray::from_iter_values(schemas.iter())),
        ),
        ("columns", Arc::new(columns.finish())),
    ];
    Ok(RecordBatch::try_from_iter(arrays)?)
}

fn extent_batch(extents: &BTreeMap<u64, Vec<FileExtent>>) -> Result<RecordBatch> {
    let rows = || {
        extents
            .iter()
            .flat_map(|(&table, extents)| extents.iter().map(move |extent| (table, extent)))
    };
    let numbers = |of: fn((u64, &FileExtent)) -> u64| -> ArrayRef {
        Arc::new(UInt64Array::from_iter_values(rows().map(of)))
    };
    let mut checksums = ListBuilder::new(UInt64Builder::new());
    let mut slots = ListBuilder::new(UInt64Builder::new());
    let mut counts = ListBuilder::new(UInt32Builder::new());
    for (_, extent) in rows() {
        checksums.values().append_slice(&extent.checksums);
        checksums.append(true);
        for &(first, count) in &extent.slots {
            slots.values().append_value(first);
            counts.values().append_value(count);
        }
        slots.append(true);
        counts.append(true);
    }
    let arrays: [(&str, ArrayRef); 7] = [
        ("table", numbers(|(table, _)| table)),
        ("offset", numbers(|(_, extent)| extent.offset)),
        ("length", numbers(|(_, extent)| extent.length)),
        ("rows", numbers(|(_, extent)| extent.rows)),
        ("checksums", Arc::new(checksums.finish())),
        ("slots", Arc::new(slots.finish())),
        ("counts", Arc::new(counts.finish())),
    ];
    Ok(RecordBatch::try_from_iter(arrays)?)
}

fn object_batch(objects: &[(String, Vec<u8>)]) -> Result<RecordBatch> {
    let arrays: [(&str, ArrayRef); 2] = [
        (
            "key",
            Arc::new(StringArray::from_iter_values(
                objects.iter().map(|(key, _)| key),
            )),
        ),
        (
            "value",
            Arc::new(BinaryArray::from_iter_values(
                objects.iter().map(|(_, value)| value),
            )),
        ),
    ];
    Ok(RecordBatch::try_from_iter(arrays)?)
}
