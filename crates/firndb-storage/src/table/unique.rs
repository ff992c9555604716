//! Unique indexes: checking a statement's keys, looking rows up.

use std::sync::Arc;

use arrow::array::RecordBatch;

use super::Table;
use crate::block::cells::Rows;
use crate::block::slot;
use crate::index::Key;
use crate::protocol::{Standard, View};
use crate::reclaim::Pin;
use crate::relation::index::{Holder, Index, IndexDefinition};
use crate::slot::Slot;
use crate::transaction::Transaction;
use crate::{Error, Result, Snapshot};

impl Table {
    /// Adds a unique index over columns of this layout: see [`create_index`](Self::create_index).
    pub fn create_unique_index(
        &self,
        transaction: &Transaction,
        name: &str,
        columns: &[usize],
    ) -> Result<()> {
        self.create_index(
            transaction,
            &IndexDefinition {
                name: name.to_owned(),
                columns: columns.to_vec(),
                unique: true,
                order: Vec::new(),
                program: None,
            },
        )
    }

    /// Takes the index away when the transaction commits.
    pub fn drop_unique_index(&self, transaction: &Transaction, name: &str) -> Result<()> {
        self.drop_index(transaction, name)
    }

    /// Checks the keys written by the current statement: `UniqueViolation` for a key that lives twice, `Conflict` for one whose
    /// other holder is an open transaction, or a commit that this transaction can't see.
    pub fn check_unique(&self, transaction: &Transaction) -> Result<()> {
        if self.relation.indexes().is_empty() {
            return Ok(());
        }
        let mut writer = transaction.write(&self.relation, &self.layout)?;
        let (writes, view) = writer.parts();
        for chunk in writes.keys[writes.statement_keys..].chunks(256) {
            let pin = self.pin();
            for written in chunk {
                let checked = written.added && written.index.unique && !written.index.is_dropped();
                if checked && Arc::ptr_eq(&written.relation, &self.relation) {
                    self.check(&written.index, &written.key, written.slot, &view, &pin)?;
                }
            }
        }
        for loaded in &writes.loaded {
            if !Arc::ptr_eq(&loaded.relation, &self.relation) || loaded.index.is_dropped() {
                continue;
            }
            for number in loaded.first..loaded.first + loaded.count {
                let pin = self.pin();
                let Some(block) = self.relation.block(number, &pin) else {
                    continue;
                };
                let rows = Rows::First(block.rows());
                let keys = loaded.index.keys_in_place(block, &rows, &pin)?;
                for (row, key) in keys.iter().enumerate() {
                    if let Some(key) = key {
                        self.check(&loaded.index, key, slot(number, row), &view, &pin)?;
                    }
                }
            }
        }
        writes.statement_keys = writes.keys.len();
        writes.loaded.clear();
        Ok(())
    }

    /// Checks a key that was written to the row at `own`.
    fn check(
        &self,
        index: &Index,
        key: &Key,
        own: Slot,
        view: &View<'_, Standard>,
        pin: &Pin<'_>,
    ) -> Result<()> {
        let slots = index.entries.slots(key, pin);
        if slots == [own] {
            return Ok(());
        }
        // A later write of the statement may have taken the key away from the row again.
        if index.holder(&self.relation, key, own, view, pin)? == Holder::Nobody {
            return Ok(());
        }
        let mut unseen = false;
        for slot in slots {
            if slot == own {
                continue;
            }
            match index.holder(&self.relation, key, slot, view, pin)? {
                Holder::Nobody => {}
                Holder::Visible => return Err(self.violation(index, key)),
                Holder::Unseen => unseen = true,
            }
        }
        if unseen {
            return Err(self.relation.conflict());
        }
        Ok(())
    }

    pub(super) fn violation(&self, index: &Index, key: &Key) -> Error {
        if let Some(names) = index.names() {
            return index.violation(key, names);
        }
        let names: Vec<String> = index
            .columns
            .iter()
            .map(|column| {
                let position = self
                    .layout
                    .columns
                    .iter()
                    .position(|info| info.number == column.number);
                match position {
                    Some(position) => self.schema().field(position).name().clone(),
                    None => "?".to_owned(),
                }
            })
            .collect();
        index.violation(key, &names)
    }

    /// The visible row with the key in each row of `keys` (one column for each of the index's columns), where there is one.
    pub fn lookup(
        &self,
        snapshot: &Snapshot,
        index: &str,
        keys: &RecordBatch,
    ) -> Result<Vec<Option<Slot>>> {
        let view = snapshot.view();
        let index = self.index(index, &view)?;
        self.rows_of(&index, &index.encoder.encode(keys.columns())?, &view)
    }

    /// The visible row with each key, where there is one.
    pub(super) fn rows_of(
        &self,
        index: &Index,
        keys: &[Option<Key>],
        view: &View<'_, Standard>,
    ) -> Result<Vec<Option<Slot>>> {
        let pin = self.pin();
        keys.iter()
            .map(|key| {
                let Some(key) = key else { return Ok(None) };
                for slot in index.entries.slots(key, &pin) {
                    if index.leads(&self.relation, key, slot, view, &pin)? {
                        return Ok(Some(slot));
                    }
                }
                Ok(None)
            })
            .collect()
    }
}
