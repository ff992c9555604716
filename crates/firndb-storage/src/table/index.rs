//! Indexes: creating, dropping and renaming them, and reading rows through them.
//!
//! Rows are read in one of two ways. [`Table::index_slots`] gives the slots that the entries of some ranges lead to, in the table's order: a superset of the
//! rows that a view sees there, which [`Table::read_visible`] reads and whose key the caller checks again, as part of the condition that led to the
//! ranges. [`IndexCursor`] gives rows in key order, and checks the keys itself: a row comes where its own key is.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};

use super::{Form, Table, batch, join, same_block};
use crate::block::cells::Rows;
use crate::block::slot;
use crate::index::{Bounds, Key, KeyRange};
use crate::protocol::{Standard, View};
use crate::reclaim::Pin;
use crate::relation::index::{Index, IndexDefinition};
use crate::slot::Slot;
use crate::transaction::{Action, Transaction};
use crate::{Error, Result, Snapshot};

/// Entries that are read from an index at a time.
const PIECE: usize = 1024;

impl Table {
    /// Adds an index over columns of this layout and builds it from what `transaction` sees, then it is kept by every
    /// write. -0.0 equals 0.0, NaN equals NaN. Undone with the transaction. Excludes other writers, as `lock_exclusive` does.
    ///
    /// Of a unique index, keys with a NULL in them never collide, and uniqueness is exact at the end of each statement: insert, update and bulk loads collect
    /// their keys, and `check_unique` compares.
    pub fn create_index(
        &self,
        transaction: &Transaction,
        definition: &IndexDefinition,
    ) -> Result<()> {
        self.lock_exclusive(transaction)?;
        let relation = &self.relation;
        let taken = |index: &Arc<Index>| index.name == definition.name && !index.is_dropped();
        if relation.indexes().iter().any(taken) {
            return Err(Error::Internal(format!(
                "index \"{}\" is there already",
                definition.name
            )));
        }
        let columns = self.columns(&definition.columns)?;
        let mut writer = transaction.write(relation, &self.layout)?;
        let resources = &relation.resources;
        let index = Arc::new(Index::new(definition, columns, writer.state(), resources)?);
        {
            let view = writer.view();
            for number in 0..relation.block_count() {
                // Pinned block by block: building may take long.
                let pin = self.pin();
                self.index_block(&index, number, &view, &pin)?;
            }
        }
        relation.add_index(Arc::clone(&index));
        writer.act(Action::AddIndex(Arc::clone(relation), index));
        Ok(())
    }

    /// Adds the visible rows of a block to an index that nobody else has yet.
    fn index_block(
        &self,
        index: &Index,
        number: u32,
        view: &View<'_, Standard>,
        pin: &Pin<'_>,
    ) -> Result<()> {
        let relation = &self.relation;
        let block = relation
            .block(number, pin)
            .filter(|block| block.is_born(view, pin));
        let Some(block) = block else { return Ok(()) };
        let rows = Rows::First(block.rows());
        let seen = relation.read_block(block, &index.columns, &rows, view, Form::Native, pin)?;
        let keys = index.keys_of(&seen.columns, seen.offsets.len())?;
        for (key, row) in keys.iter().zip(seen.offsets) {
            let Some(key) = key else { continue };
            if index.unique && !index.entries.slots(key, pin).is_empty() {
                return Err(self.violation(index, key));
            }
            index.entries.insert(key, slot(number, row as usize), pin)?;
        }
        Ok(())
    }

    /// Takes the index away when the transaction commits; until then it is kept, and its keys are no longer checked. Excludes other writers.
    pub fn drop_index(&self, transaction: &Transaction, name: &str) -> Result<()> {
        self.lock_exclusive(transaction)?;
        let mut writer = transaction.write(&self.relation, &self.layout)?;
        let index = self.index(name, &writer.view())?;
        index.set_dropped(true);
        writer.act(Action::DropIndex(Arc::clone(&self.relation), index));
        Ok(())
    }

    /// Gives an index another name, or its program other words for the same keys. Excludes other writers.
    pub fn rename_index(
        &self,
        transaction: &Transaction,
        name: &str,
        definition: &IndexDefinition,
    ) -> Result<()> {
        self.lock_exclusive(transaction)?;
        let mut writer = transaction.write(&self.relation, &self.layout)?;
        let old = self.index(name, &writer.view())?;
        let new = Arc::new(old.renamed(&definition.name, definition.program.clone())?);
        old.set_dropped(true);
        let relation = &self.relation;
        relation.add_index(Arc::clone(&new));
        writer.act(Action::DropIndex(Arc::clone(relation), old));
        writer.act(Action::AddIndex(Arc::clone(relation), new));
        Ok(())
    }

    /// The index of a name that is complete for a view: the newest one that is not dropped, or one whose drop the view does not see.
    pub(super) fn index(&self, name: &str, view: &View<'_, Standard>) -> Result<Arc<Index>> {
        let indexes = self.relation.indexes();
        let found = || {
            indexes
                .iter()
                .rev()
                .filter(|index| index.name == name && index.serves(view))
        };
        found()
            .find(|index| !index.is_dropped())
            .or_else(|| found().next())
            .cloned()
            .ok_or_else(|| self.relation.conflict())
    }

    /// The slots, in the table's order, of all rows that `snapshot` sees with a key in one of these ranges, and of others; `None` if there may be more than
    /// `most`, or the index is not complete for the snapshot.
    pub fn index_slots(
        &self,
        snapshot: &Snapshot,
        index: &str,
        ranges: &[KeyRange],
        most: usize,
    ) -> Result<Option<Vec<Slot>>> {
        let Ok(index) = self.index(index, &snapshot.view()) else {
            return Ok(None);
        };
        let mut slots = Vec::new();
        for range in ranges {
            let bounds = Bounds::new(&index.encoder, range)?;
            let mut after: Option<(Key, Slot)> = None;
            loop {
                let found = {
                    let pin = self.pin();
                    index
                        .entries
                        .entries(&bounds, false, after.as_ref(), PIECE, &pin)
                };
                slots.extend(found.iter().map(|(_, slot)| *slot));
                if slots.len() > most {
                    return Ok(None);
                }
                if found.is_empty() {
                    break;
                }
                after = found.into_iter().next_back();
            }
        }
        slots.sort_unstable();
        slots.dedup();
        Ok(Some(slots))
    }

    /// The rows at those of `slots`, ascending, that `snapshot` sees, with their slots.
    pub fn read_visible(
        &self,
        snapshot: &Snapshot,
        slots: &[Slot],
        projection: &[usize],
        form: Form,
    ) -> Result<(RecordBatch, Vec<Slot>)> {
        let columns = self.columns(projection)?;
        let schema = form.schema(&Arc::new(self.schema().project(projection)?));
        let order: Vec<usize> = (0..slots.len()).collect();
        let pin = self.pin();
        let view = snapshot.view();
        let mut pieces: Vec<Vec<ArrayRef>> = vec![Vec::new(); columns.len()];
        let mut visible = Vec::with_capacity(slots.len());
        let mut at = 0;
        while at < order.len() {
            let (number, mut offsets) = same_block(slots, &order[at..])?;
            at += offsets.len();
            let block = self
                .relation
                .block(number, &pin)
                .filter(|block| block.is_born(&view, &pin));
            let Some(block) = block else { continue };
            offsets.retain(|&row| (row as usize) < block.rows());
            let rows = Rows::At(&offsets);
            let seen = self
                .relation
                .read_block(block, &columns, &rows, &view, form, &pin)?;
            visible.extend(seen.offsets.iter().map(|&row| slot(number, row as usize)));
            for (pieces, column) in pieces.iter_mut().zip(seen.columns) {
                pieces.push(column);
            }
        }
        let arrays = pieces
            .iter()
            .zip(schema.fields())
            .map(|(pieces, field)| join(pieces, field.data_type()))
            .collect::<Result<Vec<_>>>()?;
        Ok((batch(schema, arrays, visible.len())?, visible))
    }

    /// The keys of rows about to be written, all columns of this layout in any `Form`, and the rows that `snapshot` sees with these keys.
    pub fn conflicts(
        &self,
        snapshot: &Snapshot,
        index: &str,
        rows: &RecordBatch,
    ) -> Result<Vec<(Option<Key>, Option<Slot>)>> {
        let view = snapshot.view();
        let index = self.index(index, &view)?;
        let keys = index.keys_of(&self.key_columns(&index, rows)?, rows.num_rows())?;
        let found = self.rows_of(&index, &keys, &view)?;
        Ok(keys.into_iter().zip(found).collect())
    }

    /// A cursor over the rows of a range that come in these orders of the key's parts after `fixed` ones, which the range fixes; `None` if
    /// the index has no such order, or is not complete for the snapshot.
    pub fn ordered_cursor(
        &self,
        snapshot: &Snapshot,
        index: &str,
        range: &KeyRange,
        fixed: usize,
        orders: &[PartOrder],
    ) -> Result<Option<IndexCursor>> {
        let Ok(found) = self.index(index, &snapshot.view()) else {
            return Ok(None);
        };
        let Some(first) = orders.first() else {
            return Ok(None);
        };
        if found.encoder.is_integer() {
            // Numbers ascend, and their NULLs stand where they are wanted.
            let nulls_first = first.nulls_first.unwrap_or(false);
            return match orders.len() + fixed {
                1 => self.index_cursor(snapshot, index, range, first.descending, nulls_first),
                _ => Ok(None),
            };
        }
        let is = |reverse: bool| {
            orders.iter().enumerate().all(|(part, order)| {
                let own = found.encoder.order(fixed + part);
                (own.descending != reverse) == order.descending
                    && order
                        .nulls_first
                        .is_none_or(|first| (own.nulls_first != reverse) == first)
            })
        };
        match (is(false), is(true)) {
            (true, _) => self.index_cursor(snapshot, index, range, false, false),
            (_, true) => self.index_cursor(snapshot, index, range, true, false),
            _ => Ok(None),
        }
    }

    /// A cursor over the rows of a range in key order, or against it; `None` if the index is not complete for the snapshot. Where keys are numbers,
    /// `nulls_first` says where the NULLs come; elsewhere the index's own order does.
    pub fn index_cursor(
        &self,
        snapshot: &Snapshot,
        index: &str,
        range: &KeyRange,
        reverse: bool,
        nulls_first: bool,
    ) -> Result<Option<IndexCursor>> {
        let Ok(index) = self.index(index, &snapshot.view()) else {
            return Ok(None);
        };
        let bounds = Bounds::new(&index.encoder, range)?;
        // The NULLs of a number stand after the numbers, or before them in reverse.
        let parts = match bounds.has_nulls() && nulls_first != reverse {
            false => vec![bounds],
            true if reverse => vec![Bounds::nulls_alone(), bounds.without_nulls()],
            true => vec![bounds.without_nulls(), Bounds::nulls_alone()],
        };
        Ok(Some(IndexCursor {
            table: self.clone(),
            snapshot: snapshot.clone(),
            index,
            parts,
            reverse,
            after: None,
        }))
    }
}

/// How rows are to come in a part of a key.
#[derive(Debug, Clone, Copy)]
pub struct PartOrder {
    /// Whether the greatest comes first.
    pub descending: bool,
    /// Whether NULLs come first; `None` where there are none.
    pub nulls_first: Option<bool>,
}

/// A place in an index from which rows come in key order.
#[derive(Debug)]
pub struct IndexCursor {
    table: Table,
    snapshot: Snapshot,
    index: Arc<Index>,
    /// What is still to be read, the next part last.
    parts: Vec<Bounds>,
    reverse: bool,
    after: Option<(Key, Slot)>,
}

impl IndexCursor {
    /// The slots of the next rows, as the index orders them; of up to `most` entries, maybe none. `None` at the end.
    pub fn next(&mut self, most: usize) -> Result<Option<Vec<Slot>>> {
        loop {
            let Some(bounds) = self.parts.last() else {
                return Ok(None);
            };
            let entries = &self.index.entries;
            let found = {
                let pin = self.table.pin();
                let after = self.after.as_ref();
                entries.entries(bounds, self.reverse, after, most.max(1), &pin)
            };
            if found.is_empty() {
                self.parts.pop();
                self.after = None;
                continue;
            }
            let view = self.snapshot.view();
            let relation = &self.table.relation;
            let mut slots = Vec::with_capacity(found.len());
            for piece in found.chunks(PIECE) {
                let pin = self.table.pin();
                for (key, slot) in piece {
                    if self.index.leads(relation, key, *slot, &view, &pin)? {
                        slots.push(*slot);
                    }
                }
            }
            self.after = found.into_iter().next_back();
            return Ok(Some(slots));
        }
    }
}
