//! Single rows by their keys, without Arrow arrays: what a statement does that was compiled once and runs again and again.
//!
//! The handles here hold what a statement would look up each time: the index, the columns, the shape of its undo records. They belong to
//! one layout, as the table that made them.

use std::sync::Arc;

use super::Table;
use crate::block::cells::Rows;
use crate::block::{Block, place, slot};
use crate::cell::{Cell, Row, cell_of};
use crate::clock::Registration;
use crate::index::Key;
use crate::protocol::{Standard, View};
use crate::reclaim::Pin;
use crate::relation::ColumnInfo;
use crate::relation::index::Index;
use crate::relation::single::{Staged, storable};
use crate::slot::Slot;
use crate::transaction::{Transaction, Writer};
use crate::undo::{Change, Shape};
use crate::{Error, Result};

/// What is committed at a moment. It keeps the versions that it needs until it is dropped.
#[derive(Debug)]
pub struct Moment(Registration);

/// Who reads a row.
#[derive(Debug, Clone, Copy)]
pub enum Reader<'a> {
    /// Nobody's transaction: what was committed then.
    Moment(&'a Moment),
    /// The current statement of a transaction.
    Transaction(&'a Transaction),
}

impl Reader<'_> {
    fn view(&self) -> View<'_, Standard> {
        match self {
            Reader::Moment(moment) => View {
                start: moment.0.start,
                own: None,
                statement: 0,
            },
            Reader::Transaction(transaction) => transaction.view(),
        }
    }
}

/// Reads columns of the row that has a key of a unique index.
pub struct RowByKey {
    table: Table,
    index: Arc<Index>,
    /// The index's, then those that are asked for.
    columns: Vec<Arc<ColumnInfo>>,
}

/// Changes columns of a row.
pub struct RowUpdate {
    table: Table,
    columns: Vec<Arc<ColumnInfo>>,
    shape: Arc<Shape>,
}

impl Table {
    /// What is committed now.
    pub fn moment(&self) -> Moment {
        Moment(self.collector.resources().clock.register())
    }

    /// Prepares to read `columns` (positions in this layout) of rows by their keys in a unique index.
    pub fn row_by_key(&self, index: &str, columns: &[usize]) -> Result<RowByKey> {
        let index = self.plain_index(index)?;
        let wanted = self.columns(columns)?;
        Ok(RowByKey {
            table: self.clone(),
            columns: index.columns.iter().cloned().chain(wanted).collect(),
            index,
        })
    }

    fn plain_index(&self, name: &str) -> Result<Arc<Index>> {
        let indexes = self.relation.indexes();
        let serves = |index: &&Arc<Index>| {
            index.name == name && index.unique && index.is_plain() && !index.is_dropped()
        };
        indexes
            .iter()
            .rev()
            .find(serves)
            .cloned()
            .ok_or_else(|| self.relation.conflict())
    }

    /// Prepares to change `columns` (positions in this layout) of rows.
    pub fn row_update(&self, columns: &[usize]) -> Result<RowUpdate> {
        let columns = self.columns(columns)?;
        Ok(RowUpdate {
            table: self.clone(),
            shape: self.relation.shape(&columns),
            columns,
        })
    }

    /// Inserts a row, given by a cell for each column of this layout. As after [`insert`](Self::insert), unique keys are checked by
    /// `check_unique`.
    pub fn insert_row(&self, transaction: &Transaction, cells: &[Cell<'_>]) -> Result<Slot> {
        let layout = &self.layout;
        if cells.len() != layout.columns.len() {
            return Err(Error::Internal(format!(
                "{} cells for the {} columns of a table",
                cells.len(),
                layout.columns.len()
            )));
        }
        let mut writer = transaction.write(&self.relation, layout)?;
        let pin = self.pin();
        let (block, row, _) = self.relation.reserve(layout.id, &layout.columns, 1, &pin)?;
        writer.claim_fresh(block, row, 1, &pin)?;
        for (info, &cell) in layout.columns.iter().zip(cells) {
            let hot = self.relation.warmed(block, info, &pin)?;
            hot.store(row, storable(hot, info, cell, &pin)?);
        }
        block.live.put(row, true);
        let slot = slot(block.number, row);
        let mut key = Vec::new();
        for index in self.relation.indexes().iter() {
            if !index.is_plain() {
                writer.add_key(index, key_in_place(index, block, row, &pin)?, slot, &pin)?;
                continue;
            }
            key.clear();
            for wanted in &index.columns {
                let position = layout
                    .columns
                    .iter()
                    .position(|info| info.number == wanted.number);
                // A column that the layout does not have is at its default.
                key.push(match (position, &wanted.default) {
                    (Some(position), _) => cells[position],
                    (None, None) => Cell::Null,
                    (None, Some(default)) => cell_of(default.as_ref(), 0)
                        .ok_or_else(|| Error::Internal("a key without cells".into()))?,
                });
            }
            writer.add_key(index, index.encoder.encode_cells(&key)?, slot, &pin)?;
        }
        Ok(slot)
    }

    /// Deletes the row at a slot, which the transaction sees.
    pub fn delete_row(&self, transaction: &Transaction, slot: Slot) -> Result<()> {
        let mut writer = transaction.write(&self.relation, &self.layout)?;
        let pin = self.pin();
        let (block, row) = self.row_to_write(&writer, slot, &pin)?;
        block.count_gone(1);
        writer
            .claim(block, row, Change::Delete, None, &[], &pin)
            .inspect_err(|_| block.uncount_gone(1))?;
        block.live.put(row, false);
        for index in self.relation.indexes().iter() {
            let old = key_in_place(index, block, row, &pin)?;
            writer.leave_key(index, old, slot);
        }
        Ok(())
    }

    fn row_to_write<'g>(
        &'g self,
        writer: &Writer<'_>,
        slot: Slot,
        pin: &'g Pin<'_>,
    ) -> Result<(&'g Block, usize)> {
        let (number, row) = place(slot).ok_or_else(|| self.not_there())?;
        self.relation
            .block(number, pin)
            .filter(|block| block.is_born(&writer.view(), pin) && row < block.rows())
            .map(|block| (block, row))
            .ok_or_else(|| self.not_there())
    }
}

impl RowByKey {
    /// The row that has the key, given by a cell for each column of the index: its slot, its columns in `row`. `None` if there is none,
    /// as there is for a key with a NULL.
    pub fn read(
        &self,
        reader: Reader<'_>,
        key: &[Cell<'_>],
        row: &mut Row,
    ) -> Result<Option<Slot>> {
        row.clear();
        let Some(wanted) = self.index.encoder.encode_cells(key)? else {
            return Ok(None);
        };
        let view = reader.view();
        if !self.index.serves(&view) {
            return Err(self.table.relation.conflict());
        }
        let pin = self.table.pin();
        let mut staged = Staged::default();
        for slot in self.index.entries.slots(&wanted, &pin) {
            if self.stage(slot, &wanted, &view, &mut staged, &pin)? {
                for (at, info) in self.columns.iter().enumerate().skip(key.len()) {
                    staged.cell(at, info, &pin, |cell| row.push(cell))?;
                }
                return Ok(Some(slot));
            }
        }
        Ok(None)
    }

    /// Stages the row at a slot; whether the view sees it with the key.
    fn stage<'g>(
        &'g self,
        slot: Slot,
        wanted: &Key,
        view: &View<'_, Standard>,
        staged: &mut Staged<'g>,
        pin: &'g Pin<'_>,
    ) -> Result<bool> {
        let found = place(slot)
            .and_then(|(number, row)| Some((self.table.relation.block(number, pin)?, row)));
        let Some((block, row)) = found.filter(|(block, _)| block.is_born(view, pin)) else {
            return Ok(false);
        };
        if !staged.load(block, &self.columns, row, view, pin) {
            return Ok(false);
        }
        Ok(staged.key(&self.index, pin)?.as_ref() == Some(wanted))
    }
}

impl RowUpdate {
    /// Replaces the columns' values in the row at a slot, which the transaction sees, by one cell each. Gives whether a key changed,
    /// which `check_unique` has to look at then.
    pub fn write(&self, transaction: &Transaction, slot: Slot, cells: &[Cell<'_>]) -> Result<bool> {
        if cells.len() != self.columns.len() {
            return Err(Error::Internal(
                "an update's cells do not match its columns".into(),
            ));
        }
        let table = &self.table;
        let relation = &table.relation;
        let mut writer = transaction.write(relation, &table.layout)?;
        let pin = table.pin();
        let (block, row) = table.row_to_write(&writer, slot, &pin)?;
        let mut hot = Vec::with_capacity(cells.len());
        for info in &self.columns {
            hot.push(relation.warmed(block, info, &pin)?);
        }
        let mut made = Vec::with_capacity(cells.len());
        let mut result = Ok(());
        for ((column, info), &cell) in hot.iter().zip(&self.columns).zip(cells) {
            match storable(column, info, cell, &pin) {
                Ok(value) => made.push(value),
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        let result = result
            .and_then(|()| writer.claim(block, row, Change::Update, Some(&self.shape), &hot, &pin));
        if let Err(error) = result {
            for (column, value) in hot.iter().zip(made) {
                column.release(value, &pin);
            }
            return Err(error);
        }
        let indexes = relation.indexes();
        let covers =
            |index: &&Arc<Index>| self.columns.iter().any(|info| index.covers(info.number));
        // A row that was claimed is always stored, even when a key fails: an abort releases what it finds in place.
        let old: Vec<_> = indexes
            .iter()
            .filter(covers)
            .map(|index| key_in_place(index, block, row, &pin))
            .collect();
        for (column, value) in hot.iter().zip(made) {
            column.store(row, value);
        }
        let mut changed = false;
        for (index, old) in indexes.iter().filter(covers).zip(old) {
            let old = old?;
            let new = key_in_place(index, block, row, &pin)?;
            if old != new {
                changed = true;
                writer.leave_key(index, old, slot);
                writer.add_key(index, new, slot, &pin)?;
            }
        }
        Ok(changed)
    }
}

impl std::fmt::Debug for RowByKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowByKey")
            .field("table", &self.table)
            .field("index", &self.index.name)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for RowUpdate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowUpdate")
            .field("table", &self.table)
            .finish_non_exhaustive()
    }
}

/// The key in place of a row that the caller owns.
fn key_in_place(index: &Index, block: &Block, row: usize, pin: &Pin<'_>) -> Result<Option<Key>> {
    if !index.is_plain() {
        let rows = [row as u32];
        return Ok(index
            .keys_in_place(block, &Rows::At(&rows), pin)?
            .pop()
            .flatten());
    }
    let mut staged = Staged::default();
    staged.load_in_place(block, &index.columns, row, pin);
    staged.key(index, pin)
}
