//! Writing hot rows: insert, update, delete.
//!
//! Rows are written block by block: first all rows of the block are claimed, then, when a key changes, the old keys
//! are read, then the values are stored. A row that was claimed is always stored, even when a later one fails: an abort releases what it
//! finds in place.

use arrow::array::RecordBatch;

use super::{Table, same_block};
use crate::block::Block;
use crate::block::cells::{Rows, Value};
use crate::block::hot::HotColumn;
use crate::block::slot;
use crate::block::source::Source;
use crate::reclaim::Pin;
use crate::relation::index::Index;
use crate::slot::Slot;
use crate::transaction::{Transaction, Writer};
use crate::undo::Change;
use crate::{Error, Result};
use std::sync::Arc;

impl Table {
    /// Inserts rows into hot blocks. `rows` has this layout's schema in any `Form` (strings as Utf8, LargeUtf8 or Utf8View,
    /// decimals as Decimal64 or Decimal128 of the same precision and scale). Unique indexes are checked by `check_unique`.
    /// Returns the slots, one a row.
    pub fn insert(&self, transaction: &Transaction, rows: &RecordBatch) -> Result<Vec<Slot>> {
        let layout = &self.layout;
        if rows.num_columns() != layout.columns.len() {
            return Err(Error::Internal(format!(
                "{} columns for the {} of table \"{}\"",
                rows.num_columns(),
                layout.columns.len(),
                self.relation.name
            )));
        }
        let sources = rows
            .columns()
            .iter()
            .zip(&layout.columns)
            .map(|(array, info)| Source::new(array, &info.stored))
            .collect::<Result<Vec<_>>>()?;
        let mut writer = transaction.write(&self.relation, layout)?;
        let pin = self.pin();
        let total = rows.num_rows();
        let mut slots = Vec::with_capacity(total);
        while slots.len() < total {
            let done = slots.len();
            let (block, first, count) =
                self.relation
                    .reserve(layout.id, &layout.columns, total - done, &pin)?;
            writer.claim_fresh(block, first, count, &pin)?;
            for (info, source) in layout.columns.iter().zip(&sources) {
                let column = self.relation.warmed(block, info, &pin)?;
                column.fill(first, source, done, count, &pin)?;
            }
            block.live.set_range(first, count);
            slots.extend((first..first + count).map(|row| slot(block.number, row)));
        }
        for index in self.relation.indexes().iter() {
            let keys = index.keys_of(&self.key_columns(index, rows)?, total)?;
            for (key, &slot) in keys.into_iter().zip(&slots) {
                writer.add_key(index, key, slot, &pin)?;
            }
        }
        Ok(slots)
    }

    /// The columns of an index in rows of this layout. A column that the layout does not have is at its default.
    pub(super) fn key_columns(
        &self,
        index: &Index,
        rows: &RecordBatch,
    ) -> Result<Vec<arrow::array::ArrayRef>> {
        index
            .columns
            .iter()
            .map(|wanted| {
                let position = self
                    .layout
                    .columns
                    .iter()
                    .position(|info| info.number == wanted.number);
                match position {
                    Some(position) => Ok(Arc::clone(rows.column(position))),
                    None => wanted.defaults(rows.num_rows(), super::Form::Native),
                }
            })
            .collect()
    }

    /// Replaces the values of `columns` (positions in this layout) in the rows at `slots`, each named once and visible to the
    /// transaction; `values` has one column for each of `columns`. `Conflict` when another transaction was first.
    pub fn update(
        &self,
        transaction: &Transaction,
        slots: &[Slot],
        columns: &[usize],
        values: &RecordBatch,
    ) -> Result<()> {
        if values.num_columns() != columns.len() || values.num_rows() != slots.len() {
            return Err(Error::Internal(
                "an update's values do not match its columns and rows".into(),
            ));
        }
        let infos = self.columns(columns)?;
        let sources = values
            .columns()
            .iter()
            .zip(&infos)
            .map(|(array, info)| Source::new(array, &info.stored))
            .collect::<Result<Vec<_>>>()?;
        let order = distinct_order(slots)?;
        let mut writer = transaction.write(&self.relation, &self.layout)?;
        let shape = self.relation.shape(&infos);
        let indexes: Vec<Arc<Index>> = self
            .relation
            .indexes()
            .iter()
            .filter(|index| infos.iter().any(|info| index.covers(info.number)))
            .cloned()
            .collect();
        let pin = self.pin();
        let mut made: Vec<Value> = Vec::new();
        let mut at = 0;
        while at < order.len() {
            let (number, offsets) = same_block(slots, &order[at..])?;
            let block = self.block_to_write(&writer, number, &offsets, &pin)?;
            let hot = infos
                .iter()
                .map(|info| self.relation.warmed(block, info, &pin))
                .collect::<Result<Vec<&HotColumn>>>()?;
            made.clear();
            let mut claimed = 0;
            let mut result = Ok(());
            for (&offset, &row) in offsets.iter().zip(&order[at..]) {
                result = make(&hot, &sources, row, &mut made, &pin).and_then(|()| {
                    writer
                        .claim(
                            block,
                            offset as usize,
                            Change::Update,
                            Some(&shape),
                            &hot,
                            &pin,
                        )
                        .inspect_err(|_| release_last(&hot, &mut made, &pin))
                });
                if result.is_err() {
                    break;
                }
                claimed += 1;
            }
            let rows = Rows::At(&offsets[..claimed]);
            let old: Result<Vec<_>> = indexes
                .iter()
                .map(|index| index.keys_in_place(block, &rows, &pin))
                .collect();
            for (&offset, values) in offsets[..claimed]
                .iter()
                .zip(made.chunks_exact(hot.len().max(1)))
            {
                for (column, &value) in hot.iter().zip(values) {
                    column.store(offset as usize, value);
                }
            }
            for (index, old) in indexes.iter().zip(old?) {
                let new = index.keys_in_place(block, &rows, &pin)?;
                for ((&offset, old), new) in offsets.iter().zip(old).zip(new) {
                    if old != new {
                        let slot = slot(number, offset as usize);
                        writer.leave_key(index, old, slot);
                        writer.add_key(index, new, slot, &pin)?;
                    }
                }
            }
            result?;
            at += offsets.len();
        }
        Ok(())
    }

    /// Deletes the rows at `slots`, each named once and visible to the transaction.
    pub fn delete(&self, transaction: &Transaction, slots: &[Slot]) -> Result<()> {
        let order = distinct_order(slots)?;
        let mut writer = transaction.write(&self.relation, &self.layout)?;
        let indexes = self.relation.indexes();
        let pin = self.pin();
        let mut at = 0;
        while at < order.len() {
            let (number, offsets) = same_block(slots, &order[at..])?;
            let block = self.block_to_write(&writer, number, &offsets, &pin)?;
            let mut claimed = 0;
            let mut result = Ok(());
            for &offset in &offsets {
                block.count_gone(1);
                result = writer
                    .claim(block, offset as usize, Change::Delete, None, &[], &pin)
                    .inspect_err(|_| block.uncount_gone(1));
                if result.is_err() {
                    break;
                }
                block.live.put(offset as usize, false);
                claimed += 1;
            }
            let rows = Rows::At(&offsets[..claimed]);
            for index in indexes.iter() {
                let old = index.keys_in_place(block, &rows, &pin)?;
                for (&offset, key) in offsets.iter().zip(old) {
                    writer.leave_key(index, key, slot(number, offset as usize));
                }
            }
            result?;
            at += offsets.len();
        }
        Ok(())
    }

    fn block_to_write<'g>(
        &'g self,
        writer: &Writer<'_>,
        number: u32,
        offsets: &[u32],
        pin: &'g Pin<'_>,
    ) -> Result<&'g Block> {
        self.relation
            .block(number, pin)
            .filter(|block| block.is_born(&writer.view(), pin))
            .filter(|block| offsets.iter().all(|&row| (row as usize) < block.rows()))
            .ok_or_else(|| self.not_there())
    }
}

/// The order in which slots ascend; each must be named once.
fn distinct_order(slots: &[Slot]) -> Result<Vec<usize>> {
    let mut order: Vec<usize> = (0..slots.len()).collect();
    if slots.is_sorted_by(|one, other| one < other) {
        return Ok(order);
    }
    order.sort_unstable_by_key(|&at| slots[at]);
    if order
        .windows(2)
        .any(|pair| slots[pair[0]] == slots[pair[1]])
    {
        return Err(Error::Internal("a row is named twice".into()));
    }
    Ok(order)
}

/// Makes the values of a row storable, after those that are there; all of them or none.
fn make(
    hot: &[&HotColumn],
    sources: &[Source],
    row: usize,
    made: &mut Vec<Value>,
    pin: &Pin<'_>,
) -> Result<()> {
    let before = made.len();
    for (column, source) in hot.iter().zip(sources) {
        match column.make(source, row, pin) {
            Ok(value) => made.push(value),
            Err(error) => {
                for (column, value) in hot.iter().zip(made.drain(before..)) {
                    column.release(value, pin);
                }
                return Err(error);
            }
        }
    }
    Ok(())
}

/// Gives up the values of the last row.
fn release_last(hot: &[&HotColumn], made: &mut Vec<Value>, pin: &Pin<'_>) {
    let last = made.len() - hot.len();
    for (column, value) in hot.iter().zip(made.drain(last..)) {
        column.release(value, pin);
    }
}
