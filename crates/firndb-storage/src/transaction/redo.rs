//! What a transaction did, as records of the log: made when it commits, from its undo buffer.
//!
//! The undo buffer names every row that was written, and until the transaction ends what is in place of these rows is its own. So nothing is noted while it
//! runs: at its commit the after-images are read in place, once a row however often that was written, and rows that it
//! inserted and deleted again do not show. Rows loaded in bulk are read from their blocks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Action, Transaction, Writes};
use crate::block::cells::Rows;
use crate::block::{place, slot};
use crate::durable::record::{Kind, RecordWriter, Rows as What, runs};
use crate::durable::{Definitions, Durable, DurableTable, FileExtent, numbered};
use crate::frozen::Form;
use crate::protocol::{Outcome, Standard, View};
use crate::relation::{ColumnInfo, Relation};
use crate::slot::Slot;
use crate::undo::{Change, Position};
use crate::{Error, Result};

/// Bytes of a record from which it is written before the transaction ends.
const PIECE: usize = 8 << 20;
/// Bytes of loaded blocks from which they go to the file.
const LARGE: usize = 512 << 10;

/// The rows of one relation that a transaction wrote.
#[derive(Default)]
struct Written {
    inserted: Vec<Slot>,
    deleted: Vec<Slot>,
    /// By the columns that changed.
    updated: BTreeMap<Vec<usize>, Vec<Slot>>,
}

/// Makes the records of a transaction, and writes all but the last.
pub(super) struct Redo<'a> {
    durable: &'a Durable,
    transaction: &'a Transaction,
    record: RecordWriter,
    loaded: Vec<(u64, Vec<FileExtent>)>,
}

/// A transaction's last record, and what is to be said once it is in the log.
pub(super) struct Recorded {
    pub(super) record: RecordWriter,
    /// Blocks that changed.
    pub(super) touched: Vec<(Arc<Relation>, BTreeSet<u32>)>,
    /// Extents in the file that it refers to, by their tables.
    pub(super) loaded: Vec<(u64, Vec<FileExtent>)>,
}

impl<'a> Redo<'a> {
    /// The last record of a transaction and what it refers to; `None` if it did nothing that lasts.
    pub(super) fn record(
        durable: &'a Durable,
        transaction: &'a Transaction,
        writes: &Writes,
        definitions: Option<&Definitions>,
    ) -> Result<Option<Recorded>> {
        let mut redo = Self {
            durable,
            transaction,
            record: RecordWriter::new(Kind::Commit, transaction.state.id),
            loaded: Vec::new(),
        };
        if let Some(definitions) = definitions {
            for table in &definitions.tables {
                redo.record.table(&table.durable_part()?)?;
            }
        }
        let mut touched = Vec::new();
        for (number, relation) in writes.relations.iter().enumerate() {
            let Some(columns) = relation.durable() else {
                continue;
            };
            let (written, loaded) = redo.written(writes, number as u32, relation)?;
            let mut blocks = written.blocks();
            if loaded.is_empty() && blocks.is_empty() {
                continue;
            }
            if !redo.load_extents(relation, &columns, &loaded)? {
                redo.loaded(relation, &columns.columns, columns.id, &loaded)?;
                blocks.extend(&loaded);
            }
            redo.rows(relation, &columns.columns, columns.id, &written)?;
            touched.push((Arc::clone(relation), blocks));
        }
        if let Some(definitions) = definitions {
            for &table in &definitions.dropped {
                redo.record.drop_table(table);
            }
            for (key, value) in &definitions.objects {
                redo.record.object(key, value.as_deref());
            }
        }
        let is_empty = redo.record.is_empty() && touched.is_empty();
        Ok((!is_empty).then(|| Recorded {
            record: std::mem::replace(&mut redo.record, RecordWriter::new(Kind::Commit, 0)),
            touched,
            loaded: std::mem::take(&mut redo.loaded),
        }))
    }

    fn view(&self) -> View<'_, Standard> {
        View {
            start: self.transaction.registration.start,
            own: Some(&self.transaction.state.status),
            statement: self.transaction.state.statement() + 1,
        }
    }

    /// The rows of a relation that lasts, and its blocks that were loaded.
    fn written(
        &self,
        writes: &Writes,
        table: u32,
        relation: &Arc<Relation>,
    ) -> Result<(Written, Vec<u32>)> {
        let mut loaded = Vec::new();
        for action in &writes.actions {
            if let Action::Load(of, first, count) = action
                && Arc::ptr_eq(of, relation)
            {
                loaded.extend(*first..first + count);
            }
        }
        let pin = self.transaction.collector.resources().reclaimer.pin();
        let mut records: Vec<(Slot, Change, Vec<usize>)> = Vec::new();
        for own in writes.undo.records(Position::default()) {
            let record = own.record(&writes.undo);
            let is_undone = matches!(record.link().stamp.outcome(&pin), Outcome::Aborted(_));
            if record.table != table || is_undone {
                continue;
            }
            let is_loaded =
                place(record.slot).is_some_and(|(block, _)| loaded.binary_search(&block).is_ok());
            if !is_loaded {
                let columns = record.parts().iter().map(|part| part.column).collect();
                records.push((record.slot, record.change, columns));
            }
        }
        records.sort_by_key(|&(slot, ..)| slot);
        let mut written = Written::default();
        for of_row in records.chunk_by(|one, other| one.0 == other.0) {
            let slot = of_row[0].0;
            let (number, row) =
                place(slot).ok_or_else(|| Error::Internal("a record without a row".into()))?;
            let is_there = relation
                .block(number, &pin)
                .is_some_and(|block| block.live.get(row));
            let is_new = of_row[0].1 == Change::Insert;
            match (is_new, is_there) {
                (true, true) => written.inserted.push(slot),
                (true, false) => {}
                (false, false) => written.deleted.push(slot),
                (false, true) => {
                    let columns: BTreeSet<usize> = of_row
                        .iter()
                        .flat_map(|(.., columns)| columns.iter().copied())
                        .collect();
                    written
                        .updated
                        .entry(columns.into_iter().collect())
                        .or_default()
                        .push(slot);
                }
            }
        }
        Ok((written, loaded))
    }

    fn rows(
        &mut self,
        relation: &Relation,
        columns: &[Arc<ColumnInfo>],
        id: u64,
        written: &Written,
    ) -> Result<()> {
        if !written.deleted.is_empty() {
            self.record
                .delete(id, &runs(written.deleted.iter().copied()));
        }
        for (numbers, slots) in &written.updated {
            // What was updated and then dropped is not there to be told.
            let changed: Vec<Arc<ColumnInfo>> = columns
                .iter()
                .filter(|info| numbers.contains(&info.number))
                .cloned()
                .collect();
            if !changed.is_empty() {
                self.images(relation, &changed, id, What::Update, slots)?;
            }
        }
        self.images(relation, columns, id, What::Insert, &written.inserted)
    }

    /// The after-images of rows, block by block.
    fn images(
        &mut self,
        relation: &Relation,
        columns: &[Arc<ColumnInfo>],
        id: u64,
        what: What,
        slots: &[Slot],
    ) -> Result<()> {
        let block_of = |slot: &Slot| place(*slot).map(|(block, _)| block);
        for slots in slots.chunk_by(|one, other| block_of(one) == block_of(other)) {
            let number = block_of(&slots[0])
                .ok_or_else(|| Error::Internal("a record without a row".into()))?;
            let offsets: Vec<u32> = slots
                .iter()
                .filter_map(|&slot| place(slot))
                .map(|(_, row)| row as u32)
                .collect();
            self.block(
                relation,
                columns,
                id,
                what,
                number,
                &Rows::At(&offsets),
                Some(slots.len()),
            )?;
        }
        Ok(())
    }

    /// Writes loaded blocks to the file, if they are large, and refers to them.
    fn load_extents(
        &mut self,
        relation: &Relation,
        table: &DurableTable,
        blocks: &[u32],
    ) -> Result<bool> {
        let bits: usize = table.columns.iter().map(|info| info.physical.bits()).sum();
        if blocks.len() * relation.block_rows * bits / 8 < LARGE {
            return Ok(false);
        }
        let view = self.view();
        let extents = self.durable.write_extents(table, |writer| {
            for &number in blocks {
                let pin = self.transaction.collector.resources().reclaimer.pin();
                let Some(block) = relation.block(number, &pin) else {
                    continue;
                };
                let rows = Rows::First(block.rows());
                let form = Form::Stored;
                let seen = relation.read_block(block, &table.columns, &rows, &view, form, &pin)?;
                let slots = seen.offsets.iter().map(|&row| slot(number, row as usize));
                writer.push(slots, seen.columns)?;
            }
            Ok(())
        })?;
        for extent in &extents {
            self.record.extent(table.id, extent);
        }
        self.loaded.push((table.id, extents));
        Ok(true)
    }

    /// The rows of blocks that were loaded.
    fn loaded(
        &mut self,
        relation: &Relation,
        columns: &[Arc<ColumnInfo>],
        id: u64,
        blocks: &[u32],
    ) -> Result<()> {
        for &number in blocks {
            let rows = {
                let pin = self.transaction.collector.resources().reclaimer.pin();
                relation.block(number, &pin).map_or(0, |block| block.rows())
            };
            self.block(
                relation,
                columns,
                id,
                What::Insert,
                number,
                &Rows::First(rows),
                None,
            )?;
        }
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "one block's part of a record")]
    fn block(
        &mut self,
        relation: &Relation,
        columns: &[Arc<ColumnInfo>],
        id: u64,
        what: What,
        number: u32,
        rows: &Rows<'_>,
        expected: Option<usize>,
    ) -> Result<()> {
        let (slots, batch) = {
            let pin = self.transaction.collector.resources().reclaimer.pin();
            let Some(block) = relation.block(number, &pin) else {
                // Of a loaded block every row was deleted again.
                return match expected {
                    None => Ok(()),
                    Some(_) => Err(Error::Internal("a written row without a block".into())),
                };
            };
            let seen =
                relation.read_block(block, columns, rows, &self.view(), Form::Stored, &pin)?;
            if expected.is_some_and(|expected| expected != seen.offsets.len()) {
                return Err(Error::Internal(
                    "a written row is not visible to its writer".into(),
                ));
            }
            let count = seen.offsets.len();
            let arrays = columns
                .iter()
                .zip(seen.columns)
                .map(|(info, array)| (info.number, array))
                .collect();
            let slots = runs(seen.offsets.iter().map(|&row| slot(number, row as usize)));
            (slots, numbered(arrays, count)?)
        };
        if batch.num_rows() > 0 {
            self.record.write(what, id, &slots, &batch)?;
        }
        if self.record.len() >= PIECE {
            let commit = RecordWriter::new(Kind::Commit, self.transaction.state.id);
            let piece = std::mem::replace(&mut self.record, commit);
            self.durable.write_piece(&piece)?;
        }
        Ok(())
    }
}

impl Drop for Redo<'_> {
    fn drop(&mut self) {
        // What was not handed over: an error came between.
        self.durable.abandon_extents(&self.loaded);
    }
}

impl Written {
    fn blocks(&self) -> BTreeSet<u32> {
        self.inserted
            .iter()
            .chain(&self.deleted)
            .chain(self.updated.values().flatten())
            .filter_map(|&slot| place(slot))
            .map(|(block, _)| block)
            .collect()
    }
}
