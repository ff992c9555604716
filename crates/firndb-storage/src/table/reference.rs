//! Keys that other tables refer to: whether a row has one, and which rows refer to it, exactly under concurrency.
//!
//! Who adds a reference writes the referring row, with its index entry, and then asks [`Table::holds`]; who takes a key away writes that and then
//! asks [`Table::holders`] of the referring table. Whoever asks second finds what the other wrote, so of two transactions that would leave a reference to
//! nothing at least one has a conflict.

use arrow::array::RecordBatch;

use super::Table;
use crate::block::place;
use crate::index::Key;
use crate::protocol::{Outcome, Standard, View, settle};
use crate::reclaim::Pin;
use crate::relation::chain::chain;
use crate::relation::index::{Holder, Index};
use crate::slot::Slot;
use crate::transaction::Transaction;
use crate::undo::{Change, UndoRecord};
use crate::{Error, Result};

impl Table {
    /// For each key (one column for each of the index's columns) whether a row has it that the transaction sees, its current statement's rows included. `Conflict` if
    /// another transaction takes the key away, or has done so unseen.
    pub fn holds(
        &self,
        transaction: &Transaction,
        index: &str,
        keys: &RecordBatch,
    ) -> Result<Vec<bool>> {
        let mut writer = transaction.write(&self.relation, &self.layout)?;
        let (_, view) = writer.parts();
        let index = self.index(index, &view)?;
        let mut held = Vec::with_capacity(keys.num_rows());
        for keys in index.encoder.encode(keys.columns())?.chunks(256) {
            let pin = self.pin();
            for key in keys {
                held.push(match key {
                    Some(key) => self.is_held(&index, key, &view, &pin)?,
                    None => false,
                });
            }
        }
        Ok(held)
    }

    fn is_held(
        &self,
        index: &Index,
        key: &Key,
        view: &View<'_, Standard>,
        pin: &Pin<'_>,
    ) -> Result<bool> {
        for slot in index.entries.slots(key, pin) {
            if index.leads(&self.relation, key, slot, view, pin)? {
                if self.is_leaving(index, slot, view, pin) {
                    return Err(self.relation.conflict());
                }
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a version of a visible row that the view does not see takes it, or its key, away.
    fn is_leaving(
        &self,
        index: &Index,
        slot: Slot,
        view: &View<'_, Standard>,
        pin: &Pin<'_>,
    ) -> bool {
        let settled = settle::<Standard>();
        let found = place(slot).and_then(|(number, row)| {
            let block = self.relation.block(number, pin)?;
            Some(block.versions.heads(&settled, pin)?.head(row))
        });
        let Some(head) = found else { return false };
        chain(head, pin)
            .take_while(|link| !view.sees(&link.stamp, link.statement, pin))
            .any(|link| {
                let gone = matches!(link.stamp.outcome(pin), Outcome::Aborted(_))
                    || link.stamp.is_yielding(pin);
                let record = UndoRecord::of(link);
                let takes = match record.change {
                    Change::Delete => true,
                    Change::Update => record.parts().iter().any(|part| index.covers(part.column)),
                    Change::Insert | Change::Refill => false,
                };
                !gone && takes
            })
    }

    /// For each key the slots of the rows with it that the transaction sees, its current statement's rows included. `Conflict` if there is one that it does not see.
    pub fn holders(
        &self,
        transaction: &Transaction,
        index: &str,
        keys: &RecordBatch,
    ) -> Result<Vec<Vec<Slot>>> {
        let mut writer = transaction.write(&self.relation, &self.layout)?;
        let (_, view) = writer.parts();
        let index = self.index(index, &view)?;
        let mut holders = Vec::with_capacity(keys.num_rows());
        for key in index.encoder.encode(keys.columns())? {
            let mut slots = Vec::new();
            if let Some(key) = key {
                let all = index.entries.slots(&key, &self.pin());
                for piece in all.chunks(256) {
                    let pin = self.pin();
                    for &slot in piece {
                        match index.holder(&self.relation, &key, slot, &view, &pin)? {
                            Holder::Nobody => {}
                            Holder::Visible => slots.push(slot),
                            Holder::Unseen => return Err(self.relation.conflict()),
                        }
                    }
                }
            }
            holders.push(slots);
        }
        Ok(holders)
    }

    /// A handle under a new layout that looks the same: writes through this one fail with `Conflict` once the transaction has committed. Excludes other writers.
    pub fn renewed(&self, transaction: &Transaction) -> Result<Table> {
        self.lock_exclusive(transaction)?;
        let name = self
            .schema()
            .fields()
            .first()
            .map(|field| field.name().clone())
            .ok_or_else(|| Error::Internal("a table without columns".into()))?;
        let renewed = self.rename_column(0, &name)?;
        self.retire(transaction, false)?;
        Ok(renewed)
    }
}
