//! Writing a relation: entering it, claiming rows, noting keys.
//!
//! Whoever writes a row claims it first: its undo record is reserved, linked at the head of the row's chain, and only then are values stored (see
//! [`crate::protocol`]). A claim fails when another transaction that this one does not see was there first.

use std::sync::Arc;

use parking_lot::MutexGuard;

use super::{Action, KeyWritten, Transaction, Writes};
use crate::block::hot::HotColumn;
use crate::block::{Block, slot};
use crate::index::Key;
use crate::protocol::{Head, Linked, Observed, Outcome, Standard, View, may_write, settle};
use crate::reclaim::Pin;
use crate::relation::Relation;
use crate::relation::index::Index;
use crate::relation::layout::Layout;
use crate::slot::Slot;
use crate::snapshot::TransactionState;
use crate::undo::{Author, Change, Draft, Shape, UndoRecord};
use crate::{Error, Result};

/// A transaction that is writing a relation.
pub(crate) struct Writer<'t> {
    transaction: &'t Transaction,
    pub(crate) writes: MutexGuard<'t, Writes>,
    pub(crate) relation: Arc<Relation>,
    table: u32,
    statement: u32,
}

impl Transaction {
    /// Enters a relation, if it has not, to write rows under a layout.
    pub(crate) fn write(&self, relation: &Arc<Relation>, layout: &Layout) -> Result<Writer<'_>> {
        if layout.is_retired() {
            return Err(relation.conflict());
        }
        let mut writes = self.writes.lock();
        let known = writes
            .relations
            .iter()
            .position(|known| Arc::ptr_eq(known, relation));
        let table = match known {
            Some(table) => table,
            None => {
                if !relation.access.enter(self.state.id) {
                    return Err(relation.conflict());
                }
                writes.relations.push(Arc::clone(relation));
                writes.relations.len() - 1
            }
        };
        // Looked at again: it may have been retired before we entered; now it cannot be.
        if layout.is_retired() {
            return Err(relation.conflict());
        }
        Ok(Writer {
            transaction: self,
            writes,
            relation: Arc::clone(relation),
            table: table as u32,
            statement: self.state.statement(),
        })
    }

    /// Enters a relation to move rows; `None` if somebody excludes others. The transaction yields.
    pub(crate) fn compact(&self, relation: &Arc<Relation>) -> Option<Writer<'_>> {
        if !relation.access.enter_compaction(&self.state) {
            return None;
        }
        let mut writes = self.writes.lock();
        writes.relations.push(Arc::clone(relation));
        Some(Writer {
            transaction: self,
            writes,
            relation: Arc::clone(relation),
            table: 0,
            statement: self.state.statement(),
        })
    }

    /// Whether somebody preempted it.
    pub(crate) fn is_preempted(&self) -> bool {
        matches!(self.state.status.outcome(), Outcome::Aborted(_))
    }

    /// Enters a relation, if it has not, and excludes other writers. When that is refused, it is a writer only if it was one before.
    pub(crate) fn exclude(&self, relation: &Arc<Relation>, layout: &Layout) -> Result<()> {
        let before = self.writes.lock().relations.len();
        let mut writer = self.write(relation, layout)?;
        let start = self.registration.start;
        if relation.access.exclude(self.state.id, start) {
            return Ok(());
        }
        if writer.writes.relations.len() > before {
            writer.writes.relations.pop();
            relation.access.leave(self.state.id, None);
        }
        Err(relation.conflict())
    }

    /// Whether it excludes others from a relation.
    pub(crate) fn excludes(&self, relation: &Relation) -> bool {
        relation.access.is_exclusive(self.state.id)
    }
}

/// How often a writer looks again at a row whose newest record was aborted while he looked.
const LOOKS: u32 = 8;

impl Writer<'_> {
    /// The transaction's view, with what it wrote up to now.
    pub(crate) fn view(&self) -> View<'_, Standard> {
        View {
            start: self.transaction.registration.start,
            own: Some(&self.transaction.state.status),
            statement: self.statement + 1,
        }
    }

    /// What the transaction wrote, with its view.
    pub(crate) fn parts(&mut self) -> (&mut Writes, View<'_, Standard>) {
        let view = View {
            start: self.transaction.registration.start,
            own: Some(&self.transaction.state.status),
            statement: self.statement + 1,
        };
        (&mut self.writes, view)
    }

    pub(crate) fn act(&mut self, action: Action) {
        self.writes.actions.push(action);
    }

    pub(crate) fn state(&self) -> &Arc<TransactionState> {
        &self.transaction.state
    }

    pub(crate) fn statement(&self) -> u32 {
        self.statement
    }

    /// Adds the entry of a key that was written.
    pub(crate) fn add_key(
        &mut self,
        index: &Arc<Index>,
        key: Option<Key>,
        slot: Slot,
        pin: &Pin<'_>,
    ) -> Result<()> {
        let Some(key) = key else { return Ok(()) };
        index.entries.insert(&key, slot, pin)?;
        self.note_key(index, key, slot, true);
        Ok(())
    }

    /// Remembers the entry of a key that was overwritten or deleted: it goes when nobody sees the old version.
    pub(crate) fn leave_key(&mut self, index: &Arc<Index>, key: Option<Key>, slot: Slot) {
        if let Some(key) = key {
            self.note_key(index, key, slot, false);
        }
    }

    fn note_key(&mut self, index: &Arc<Index>, key: Key, slot: Slot, added: bool) {
        let written = KeyWritten {
            relation: Arc::clone(&self.relation),
            index: Arc::clone(index),
            key,
            slot,
            added,
        };
        self.writes.keys.push(written);
    }

    /// Reserves the undo record of a row, to be linked.
    fn draft(
        &mut self,
        block: &Block,
        row: usize,
        change: Change,
        shape: Option<&Arc<Shape>>,
    ) -> Result<Draft> {
        let author = Author {
            status: &self.transaction.state.status,
            statement: self.statement,
            table: self.table,
        };
        let segments = &self.relation.resources.segments;
        let slot = slot(block.number, row);
        self.writes
            .undo
            .reserve(segments, &author, slot, change, shape)
    }

    /// Claims fresh rows: from now on they are the transaction's, and not there for others.
    pub(crate) fn claim_fresh(
        &mut self,
        block: &Block,
        first: usize,
        count: usize,
        pin: &Pin<'_>,
    ) -> Result<()> {
        let mut heads = block.versions.attach(count as u64, pin);
        for row in first..first + count {
            let drafted = self.draft(block, row, Change::Insert, None);
            let draft = match drafted {
                Ok(draft) => draft,
                Err(error) => {
                    // Rows without a record are nobody's.
                    let rest = first + count - row;
                    block.count_gone(rest as u32);
                    block.versions.uncount(rest as u64);
                    for row in row..first + count {
                        self.relation.bury(block, row, pin);
                    }
                    return Err(error);
                }
            };
            loop {
                if let Observed::Open(state) = heads.head(row).observe() {
                    // SAFETY: a complete record of the undo buffer, which the collector keeps until it is unlinked.
                    if unsafe { heads.head(row).install(state, draft.link()) } {
                        break;
                    }
                } else {
                    std::thread::yield_now();
                    heads = block.versions.reattach(pin);
                }
            }
        }
        Ok(())
    }

    /// Claims a buried row to be written again; `false` if it cannot be. From now on it is the transaction's, and not there for others.
    pub(crate) fn claim_buried(
        &mut self,
        block: &Block,
        row: usize,
        pin: &Pin<'_>,
    ) -> Result<bool> {
        if !block.unbury() {
            return Ok(false);
        }
        let mut heads = block.versions.attach(1, pin);
        let claimed = loop {
            let state = match heads.head(row).observe() {
                Observed::Open(state) if Head::observed(state, pin).is_none() => state,
                Observed::Open(_) => break Ok(false),
                Observed::Marked => {
                    std::thread::yield_now();
                    continue;
                }
                Observed::Sealed => {
                    std::thread::yield_now();
                    heads = block.versions.reattach(pin);
                    continue;
                }
            };
            if block.live.get(row) {
                break Ok(false);
            }
            let drafted = self.draft(block, row, Change::Refill, None);
            let draft = match drafted {
                Ok(draft) => draft,
                Err(error) => break Err(error),
            };
            // SAFETY: a complete record of the undo buffer, which the collector keeps until it is unlinked.
            if unsafe { heads.head(row).install(state, draft.link()) } {
                return Ok(true);
            }
            self.writes.undo.take_back(draft);
        };
        block.versions.uncount(1);
        // As it was. If that was the block's last row meanwhile, the block goes.
        if block.bury(1) {
            self.relation.remove_block(block.number);
        }
        claimed
    }

    /// Claims a row to be updated or deleted: copies the before-image of `columns` and installs the record. From now on the caller may
    /// store to these columns, or clear the liveness bit.
    pub(crate) fn claim(
        &mut self,
        block: &Block,
        row: usize,
        change: Change,
        shape: Option<&Arc<Shape>>,
        columns: &[&HotColumn],
        pin: &Pin<'_>,
    ) -> Result<()> {
        let result = self.try_claim(block, row, change, shape, columns, pin);
        if result.is_err() {
            block.versions.uncount(1);
        }
        result
    }

    fn try_claim(
        &mut self,
        block: &Block,
        row: usize,
        change: Change,
        shape: Option<&Arc<Shape>>,
        columns: &[&HotColumn],
        pin: &Pin<'_>,
    ) -> Result<()> {
        let mut heads = block.versions.attach(1, pin);
        let mut looked_again = 0;
        loop {
            let state = match heads.head(row).observe() {
                Observed::Open(state) => state,
                Observed::Marked => {
                    std::thread::yield_now();
                    continue;
                }
                Observed::Sealed => {
                    std::thread::yield_now();
                    heads = block.versions.reattach(pin);
                    continue;
                }
            };
            let newest = Head::observed(state, pin);
            if !may_write(newest, &self.view(), pin) {
                // A compaction gives way, or has just given up by itself; all others are a conflict. Its record is the newest: it does not write what
                // others are writing.
                if newest.is_some_and(|newest| newest.stamp.preempt(pin)) {
                    continue;
                }
                // Aborted since, and nothing else in the way; or aborted before, and something below is.
                let aborted = |newest: Linked<'_, Standard>| {
                    matches!(newest.stamp.outcome(pin), Outcome::Aborted(_))
                };
                if newest.is_some_and(aborted) && looked_again < LOOKS {
                    looked_again += 1;
                    continue;
                }
                return Err(self.relation.conflict());
            }
            // A compaction that was preempted restores in its own time.
            let restores = newest.is_some_and(|newest| {
                UndoRecord::of(newest).change == Change::Delete
                    && matches!(newest.stamp.outcome(pin), Outcome::Aborted(_))
            });
            if !restores && !block.live.get(row) {
                // Whose deletion we saw, we see the record of: look at the head again.
                let _settled = settle::<Standard>();
                if !matches!(heads.head(row).observe(), Observed::Open(now) if now == state) {
                    continue;
                }
                return Err(Error::Internal(format!(
                    "row {} of table \"{}\" is not there",
                    slot(block.number, row).0,
                    self.relation.name
                )));
            }
            let mut draft = self.draft(block, row, change, shape)?;
            if let Some(shape) = shape {
                for (position, part) in shape.parts().iter().enumerate() {
                    draft.set(position, part, columns[position].load(row));
                }
            }
            // SAFETY: a complete record of the undo buffer, which the collector keeps until it is unlinked.
            if unsafe { heads.head(row).install(state, draft.link()) } {
                if restores {
                    block.live.put(row, true);
                }
                return Ok(());
            }
            self.writes.undo.take_back(draft);
        }
    }
}
