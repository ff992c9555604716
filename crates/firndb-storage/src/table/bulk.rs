//! Bulk loads: whole extents, born frozen.
//!
//! Batches are kept as they come until extents can be filled by all threads, and copied once. The blocks of an extent carry the loading
//! transaction's stamp and statement instead of a version a row. What fills no block goes to the hot tail, after them. Floating point
//! columns may be given with any NaN, and are stored with one.

use std::sync::Arc;

use arrow::array::RecordBatch;

use super::Table;
use crate::Result;
use crate::block::{Block, Column, FrozenPart, slot};
use crate::durable::record::runs;
use crate::frozen::build::{build_formatted, plan_extents};
use crate::frozen::{Extent, Form, Strings, rows_with_one_nan};
use crate::relation::index::Index;
use crate::transaction::{Action, KeysLoaded, Transaction};

/// Most blocks of an extent.
const BLOCKS: usize = 64;

impl Table {
    /// Begins a load that writes whole extents, born frozen.
    pub fn bulk_insert<'a>(&'a self, transaction: &'a Transaction) -> Result<BulkInsert<'a>> {
        // Enters the table, so that a conflict shows before anything is copied.
        drop(transaction.write(&self.relation, &self.layout)?);
        let threads = self.relation.resources.threads;
        let tasks = self.layout.columns.len().max(1);
        let extents = (2 * threads).div_ceil(tasks).max(2);
        Ok(BulkInsert {
            table: self,
            transaction,
            pending: Vec::new(),
            rows: 0,
            enough: extents * BLOCKS * self.relation.block_rows,
            loaded: 0,
            places: None,
        })
    }
}

/// A running bulk load. Dropping it without `finish` leaves the rows for the statement's savepoint to undo.
#[derive(Debug)]
pub struct BulkInsert<'a> {
    table: &'a Table,
    transaction: &'a Transaction,
    pending: Vec<RecordBatch>,
    rows: usize,
    /// Rows from which extents are built.
    enough: usize,
    loaded: u64,
    /// Where the rows went, as runs, if somebody asks.
    places: Option<Vec<(u64, u32)>>,
}

impl BulkInsert<'_> {
    /// Adds rows, in the types that `Table::insert` takes. Buffers until extents can be written in parallel.
    pub fn append(&mut self, rows: RecordBatch) -> Result<()> {
        self.loaded += rows.num_rows() as u64;
        self.rows += rows.num_rows();
        if rows.num_rows() > 0 {
            self.pending.push(rows);
        }
        if self.rows >= self.enough {
            self.flush(false)?;
        }
        Ok(())
    }

    /// Remembers where rows go.
    pub(crate) fn keep_places(&mut self) {
        self.places = Some(Vec::new());
    }

    /// As [`finish`](Self::finish); gives the slots of the rows, in their order, as runs.
    pub(crate) fn finish_places(mut self) -> Result<Vec<(u64, u32)>> {
        self.complete()?;
        Ok(self.places.unwrap_or_default())
    }

    /// Writes what is left; the remainder that fills no block goes to the hot tail. Returns the number of rows loaded.
    pub fn finish(mut self) -> Result<u64> {
        self.complete()?;
        Ok(self.loaded)
    }

    fn complete(&mut self) -> Result<()> {
        if self.rows >= self.table.relation.block_rows {
            self.flush(true)?;
        }
        for rows in std::mem::take(&mut self.pending) {
            let rows = rows_with_one_nan(rows)?;
            let slots = self.table.insert(self.transaction, &rows)?;
            if let Some(places) = &mut self.places {
                places.extend(runs(slots.into_iter()));
            }
        }
        Ok(())
    }

    /// Builds extents of the rows that fill blocks and appends them to the table. As long as more rows may come (not `last`), an extent that is not full
    /// waits for them: every extent is a batch of its own in every export.
    fn flush(&mut self, last: bool) -> Result<()> {
        let table = self.table;
        let relation = &table.relation;
        let schema = table.schema();
        let mut plan = plan_extents(schema, &self.pending, relation.block_rows, BLOCKS)?;
        let full = BLOCKS * relation.block_rows;
        if !last && plan.len() > 1 && plan.last().is_some_and(|&rows| rows < full) {
            plan.pop();
        }
        let strings: Vec<Strings> = table
            .layout
            .columns
            .iter()
            .map(|info| table.formats.of(info.number))
            .collect();
        let extents = build_formatted(
            &relation.resources.arena,
            schema,
            &strings,
            &self.pending,
            &plan,
            relation.resources.threads,
        )?;
        self.forget(plan.iter().sum());
        self.append_extents(&extents)
    }

    /// Drops the first rows of what is pending.
    fn forget(&mut self, rows: usize) {
        self.rows -= rows;
        let mut left = rows;
        let mut kept = Vec::new();
        for batch in self.pending.drain(..) {
            let dropped = left.min(batch.num_rows());
            left -= dropped;
            if dropped < batch.num_rows() {
                kept.push(batch.slice(dropped, batch.num_rows() - dropped));
            }
        }
        self.pending = kept;
    }

    fn append_extents(&mut self, extents: &[Arc<Extent>]) -> Result<()> {
        let table = self.table;
        let relation = &table.relation;
        let rows = relation.block_rows;
        let places: Vec<(&Arc<Extent>, usize)> = extents
            .iter()
            .flat_map(|extent| (0..extent.rows() / rows).map(move |block| (extent, block * rows)))
            .collect();
        if places.is_empty() {
            return Ok(());
        }
        let mut writer = self.transaction.write(relation, &table.layout)?;
        let statement = writer.statement();
        let pin = table.pin();
        let state = writer.state();
        let first = relation.append_blocks(places.len(), &pin, |at, number| {
            let (extent, first_row) = places[at];
            let mut columns = Vec::new();
            for (position, info) in table.layout.columns.iter().enumerate() {
                let at = info.number;
                columns.resize_with(columns.len().max(at + 1), || None);
                columns[at] = Some(Column::Frozen(FrozenPart {
                    extent: Arc::clone(extent),
                    position,
                    first_row,
                    rows,
                    cut: 0,
                }));
            }
            Block::frozen(
                number,
                table.layout.id,
                rows,
                columns,
                &state.status,
                statement,
            )
        })?;
        let count = places.len() as u32;
        if let Some(known) = &mut self.places {
            known.extend((first..first + count).map(|block| (slot(block, 0).0, rows as u32)));
        }
        writer.act(Action::Load(Arc::clone(relation), first, count));
        let mut number = first;
        for extent in extents {
            for index in relation.indexes().iter() {
                self.add_keys(index, extent, number)?;
            }
            number += (extent.rows() / rows) as u32;
        }
        let loaded = relation
            .indexes()
            .iter()
            .filter(|index| index.unique)
            .map(|index| KeysLoaded {
                relation: Arc::clone(relation),
                index: Arc::clone(index),
                first,
                count,
            })
            .collect::<Vec<_>>();
        writer.writes.loaded.extend(loaded);
        Ok(())
    }

    /// Adds the keys of an extent whose first block is `number`.
    fn add_keys(&self, index: &Index, extent: &Extent, number: u32) -> Result<()> {
        let table = self.table;
        let rows = table.relation.block_rows;
        for first_row in (0..extent.rows()).step_by(rows) {
            let block = number + (first_row / rows) as u32;
            let columns = index
                .columns
                .iter()
                .map(|wanted| {
                    let position = table
                        .layout
                        .columns
                        .iter()
                        .position(|info| info.number == wanted.number);
                    match position {
                        Some(position) => {
                            extent.column(position).slice(first_row, rows, Form::Native)
                        }
                        None => wanted.defaults(rows, Form::Native),
                    }
                })
                .collect::<Result<Vec<_>>>()?;
            let keys = index.keys_of(&columns, rows)?;
            let pin = table.pin();
            for (row, key) in keys.iter().enumerate() {
                if let Some(key) = key {
                    index.entries.insert(key, slot(block, row), &pin)?;
                }
            }
        }
        Ok(())
    }
}
