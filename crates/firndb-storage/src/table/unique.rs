//! Unique indexes: creating and dropping them, checking a statement's keys, looking rows up.

use std::sync::Arc;

use arrow::array::RecordBatch;

use super::{Form, Table};
use crate::block::cells::Rows;
use crate::block::slot;
use crate::index::Key;
use crate::protocol::{Standard, View};
use crate::reclaim::Pin;
use crate::relation::index::{Holder, Index};
use crate::slot::Slot;
use crate::transaction::{Action, Transaction};
use crate::{Error, Result, Snapshot};

impl Table {
    /// Adds a unique index over columns of this layout and builds it from what `transaction` sees, then it is kept by every
    /// write. Keys with a NULL in them never collide. -0.0 equals 0.0, NaN equals NaN.
    /// Uniqueness is exact at the end of each statement: insert, update and bulk loads collect their keys, and
    /// `check_unique` compares. Undone with the transaction. Excludes other writers, as `lock_exclusive` does.
    pub fn create_unique_index(
        &self,
        transaction: &Transaction,
        name: &str,
        columns: &[usize],
    ) -> Result<()> {
        self.lock_exclusive(transaction)?;
        let relation = &self.relation;
        if relation.indexes().iter().any(|index| index.name == name) {
            return Err(Error::Internal(format!(
                "index \"{name}\" is there already"
            )));
        }
        let columns = self.columns(columns)?;
        let index = Arc::new(Index::new(name, columns, &relation.resources.budget)?);
        let mut writer = transaction.write(relation, &self.layout)?;
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
        let keys = index.encoder.encode(&seen.columns)?;
        for (key, row) in keys.iter().zip(seen.offsets) {
            let Some(key) = key else { continue };
            if !index.entries.slots(key).is_empty() {
                return Err(self.violation(index, key));
            }
            index.entries.insert(key, slot(number, row as usize))?;
        }
        Ok(())
    }

    /// Takes the index away when the transaction commits.
    pub fn drop_unique_index(&self, transaction: &Transaction, name: &str) -> Result<()> {
        let index = self.index(name)?;
        let mut writer = transaction.write(&self.relation, &self.layout)?;
        writer.act(Action::DropIndex(Arc::clone(&self.relation), index));
        Ok(())
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
                if written.added && Arc::ptr_eq(&written.relation, &self.relation) {
                    self.check(&written.index, &written.key, written.slot, &view, &pin)?;
                }
            }
        }
        for loaded in &writes.loaded {
            if !Arc::ptr_eq(&loaded.relation, &self.relation) {
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
        let slots = index.entries.slots(key);
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

    fn violation(&self, index: &Index, key: &Key) -> Error {
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

    fn index(&self, name: &str) -> Result<Arc<Index>> {
        self.relation
            .indexes()
            .iter()
            .find(|index| index.name == name)
            .cloned()
            .ok_or_else(|| Error::Internal(format!("there is no index \"{name}\"")))
    }

    /// The visible row with the key in each row of `keys` (one column for each of the index's columns), where there is one.
    pub fn lookup(
        &self,
        snapshot: &Snapshot,
        index: &str,
        keys: &RecordBatch,
    ) -> Result<Vec<Option<Slot>>> {
        let index = self.index(index)?;
        let view = snapshot.view();
        let pin = self.pin();
        index
            .encoder
            .encode(keys.columns())?
            .iter()
            .map(|key| {
                let Some(key) = key else { return Ok(None) };
                for slot in index.entries.slots(key) {
                    if index.leads(&self.relation, key, slot, &view, &pin)? {
                        return Ok(Some(slot));
                    }
                }
                Ok(None)
            })
            .collect()
    }
}
