//! Writing rows: small numbers into hot blocks, large ones born frozen, and which slots a statement has touched.

use std::collections::HashMap;

use arrow::array::RecordBatch;
use firndb_storage::frozen::rows_with_one_nan;
use firndb_storage::{BulkInsert, Table, Transaction};

use crate::Result;

/// From this many rows on a statement's rows are loaded in bulk: the rows of the smallest ordinary block. What fills no block
/// ends in the table's hot tail in either case.
const BULK_ROWS: usize = 4096;

/// Inserts a statement's rows, holding back the first ones until it is known whether they are many.
pub(super) struct Writer<'a> {
    table: &'a Table,
    transaction: &'a Transaction,
    waiting: Vec<RecordBatch>,
    rows: usize,
    bulk: Option<BulkInsert<'a>>,
}

impl<'a> Writer<'a> {
    /// A writer that has written nothing.
    pub(super) fn new(table: &'a Table, transaction: &'a Transaction) -> Self {
        Writer {
            table,
            transaction,
            waiting: Vec::new(),
            rows: 0,
            bulk: None,
        }
    }

    /// Adds rows that satisfy NOT NULL and CHECK. Floating point columns may have any NaN; what is stored has one.
    pub(super) fn write(&mut self, rows: RecordBatch) -> Result<()> {
        if rows.num_rows() == 0 {
            return Ok(());
        }
        self.rows += rows.num_rows();
        if let Some(bulk) = &mut self.bulk {
            bulk.append(rows)?;
            return Ok(());
        }
        self.waiting.push(rows);
        if self.rows >= BULK_ROWS {
            let mut bulk = self.table.bulk_insert(self.transaction)?;
            for rows in self.waiting.drain(..) {
                bulk.append(rows)?;
            }
            self.bulk = Some(bulk);
        }
        Ok(())
    }

    /// Writes what is left and returns the number of rows.
    pub(super) fn finish(self) -> Result<u64> {
        if let Some(bulk) = self.bulk {
            bulk.finish()?;
        }
        for rows in self.waiting {
            self.table
                .insert(self.transaction, &rows_with_one_nan(rows)?)?;
        }
        Ok(self.rows as u64)
    }
}

/// A set of slots, one bit each: slots come in runs.
#[derive(Default)]
pub(super) struct SlotSet {
    chunks: HashMap<u64, Box<[u64; SlotSet::WORDS]>, ahash::RandomState>,
}

impl SlotSet {
    const WORDS: usize = 32;
    const CHUNK: u64 = 64 * SlotSet::WORDS as u64;

    /// Adds a slot; `false` if it was there.
    pub(super) fn insert(&mut self, slot: u64) -> bool {
        let chunk = self
            .chunks
            .entry(slot / SlotSet::CHUNK)
            .or_insert_with(|| Box::new([0; SlotSet::WORDS]));
        let bit = slot % SlotSet::CHUNK;
        let word = &mut chunk[(bit / 64) as usize];
        let mask = 1 << (bit % 64);
        let is_new = *word & mask == 0;
        *word |= mask;
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::SlotSet;

    #[test]
    fn a_slot_is_new_once() {
        let mut slots = SlotSet::default();
        for slot in [0, 1, 63, 64, 2047, 2048, u64::MAX] {
            assert!(slots.insert(slot));
            assert!(!slots.insert(slot));
        }
    }
}
