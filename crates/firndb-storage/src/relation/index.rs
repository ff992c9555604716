//! Indexes of a relation: which entries there are, and when they may go.
//!
//! An entry leads from a key to a slot. The key is what some columns hold, or what a [`KeyProgram`] makes of them: expressions, and for partial indexes
//! which rows have a key at all. Unique indexes have no entries for keys with a NULL, the others do. Invariants:
//! - Every live version of a row that somebody may see has its entry: it is added after the row was written and before the statement's
//!   keys are checked, and taken away only when no version of the row has the key.
//! - Entries that lead to versions with another key, or to none, are harmless: who follows one rechecks the key on the version that
//!   counts for him.
//! - An index is complete for the snapshots that see the transaction which made it, and for that transaction. Others must not read it.
//!
//! Two transactions that write one key at a time: each adds its entry and then looks the key up, so at least one of them finds the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::compute::{SortOptions, cast};
use arrow::datatypes::DataType;

use super::chain::chain;
use super::read::{Stage, Wanted, staged};
use super::{ColumnInfo, Relation};
use crate::block::cells::Rows;
use crate::block::{Block, place};
use crate::frozen::Form;
use crate::index::{Key, KeyEncoder, UniqueIndex};
use crate::protocol::{Head, Observed, Outcome, Standard, View, settle};
use crate::reclaim::Pin;
use crate::resources::Resources;
use crate::slot::Slot;
use crate::snapshot::TransactionState;
use crate::{Error, Result};

/// What the keys of an index are, where they are not just its columns.
///
/// It must be a pure function of the columns, and must not panic.
pub trait KeyProgram: std::fmt::Debug + Send + Sync {
    /// The stored types of the key's parts.
    fn types(&self) -> &[DataType];
    /// The key's parts as messages name them.
    fn names(&self) -> &[String];
    /// The key's parts of rows, of which the index's columns are given in [`Form::Compute`], and which of the rows have a key (all of them if `None`).
    fn keys(
        &self,
        columns: &[ArrayRef],
        rows: usize,
    ) -> Result<(Vec<ArrayRef>, Option<BooleanArray>)>;
}

/// What an index is to be.
#[derive(Debug, Clone)]
pub struct IndexDefinition {
    /// Its name.
    pub name: String,
    /// Positions of the columns that it reads: the key, unless there is a program.
    pub columns: Vec<usize>,
    /// Whether a key may live once only.
    pub unique: bool,
    /// How each part of the key orders.
    pub order: Vec<SortOptions>,
    /// What makes the key of the columns.
    pub program: Option<Arc<dyn KeyProgram>>,
}

/// An index.
pub(crate) struct Index {
    pub(crate) name: String,
    pub(crate) columns: Vec<Arc<ColumnInfo>>,
    pub(crate) unique: bool,
    program: Option<Arc<dyn KeyProgram>>,
    pub(crate) encoder: KeyEncoder,
    /// Shared with the index that this one renames.
    pub(crate) entries: Arc<UniqueIndex>,
    /// The transaction that made it.
    creator: Arc<TransactionState>,
    /// Whether an open transaction, which excludes other writers, has dropped it: it is maintained, and no longer checked.
    dropped: AtomicBool,
}

/// Who holds a key, besides the rows of the one who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holder {
    /// Nobody.
    Nobody,
    /// A row that the transaction sees, its current statement included.
    Visible,
    /// An open transaction, or a commit that the transaction does not see.
    Unseen,
}

impl Index {
    pub(crate) fn new(
        definition: &IndexDefinition,
        columns: Vec<Arc<ColumnInfo>>,
        creator: &Arc<TransactionState>,
        resources: &Resources,
    ) -> Result<Self> {
        let of_columns: Vec<_> = columns.iter().map(|column| column.stored.clone()).collect();
        let types = match &definition.program {
            Some(program) => program.types(),
            None => &of_columns,
        };
        let encoder = match definition.unique {
            true => KeyEncoder::new(types)?,
            false => KeyEncoder::with_nulls(types, &definition.order)?,
        };
        Ok(Self {
            name: definition.name.clone(),
            entries: Arc::new(UniqueIndex::within(
                &encoder,
                &resources.budget,
                &resources.reclaimer,
            )),
            columns,
            unique: definition.unique,
            program: definition.program.clone(),
            encoder,
            creator: Arc::clone(creator),
            dropped: AtomicBool::new(false),
        })
    }

    /// The same index under another name and with a program that says the same.
    pub(crate) fn renamed(&self, name: &str, program: Option<Arc<dyn KeyProgram>>) -> Result<Self> {
        Ok(Self {
            name: name.to_owned(),
            entries: Arc::clone(&self.entries),
            columns: self.columns.clone(),
            unique: self.unique,
            program,
            encoder: self.encoder.same()?,
            creator: Arc::clone(&self.creator),
            dropped: AtomicBool::new(false),
        })
    }

    /// Whether it is complete for a view.
    pub(crate) fn serves(&self, view: &View<'_, Standard>) -> bool {
        match self.creator.status.outcome() {
            Outcome::Committed(time) if time <= view.start => true,
            _ => view
                .own
                .is_some_and(|own| std::ptr::eq(own, &self.creator.status)),
        }
    }

    pub(crate) fn set_dropped(&self, dropped: bool) {
        self.dropped.store(dropped, Ordering::Release);
    }

    pub(crate) fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }

    /// The keys of rows of which the index's columns are given, in any `Form` or as `Table::insert` takes them.
    pub(crate) fn keys_of(&self, columns: &[ArrayRef], rows: usize) -> Result<Vec<Option<Key>>> {
        let Some(program) = &self.program else {
            return self.encoder.encode(columns);
        };
        let given = columns
            .iter()
            .zip(&self.columns)
            .map(|(column, info)| {
                let wanted = Form::Compute.data_type(&info.stored);
                match *column.data_type() == wanted {
                    true => Ok(Arc::clone(column)),
                    false => Ok(cast(column, &wanted)?),
                }
            })
            .collect::<Result<Vec<_>>>()?;
        let (parts, kept) = program.keys(&given, rows)?;
        let mut keys = self.encoder.encode(&parts)?;
        if let Some(kept) = kept {
            for (row, key) in keys.iter_mut().enumerate() {
                if kept.is_null(row) || !kept.value(row) {
                    *key = None;
                }
            }
        }
        Ok(keys)
    }

    /// Whether the key is what its columns hold, in each row.
    pub(crate) fn is_plain(&self) -> bool {
        self.program.is_none()
    }

    /// The names of the key's parts that do not come from columns.
    pub(crate) fn names(&self) -> Option<&[String]> {
        self.program.as_ref().map(|program| program.names())
    }

    /// Whether a column is part of the key.
    pub(crate) fn covers(&self, column: usize) -> bool {
        self.columns.iter().any(|other| other.number == column)
    }

    fn keys(&self, stage: &Stage<'_>, rows: &Rows<'_>, pin: &Pin<'_>) -> Result<Vec<Option<Key>>> {
        let columns = (0..self.columns.len())
            .map(|column| stage.finish(column, rows, &Wanted::All, Form::Native, pin))
            .collect::<Result<Vec<ArrayRef>>>()?;
        self.keys_of(&columns, rows.len())
    }

    /// The keys in place of rows that the caller owns or knows not to change.
    pub(crate) fn keys_in_place(
        &self,
        block: &Block,
        rows: &Rows<'_>,
        pin: &Pin<'_>,
    ) -> Result<Vec<Option<Key>>> {
        self.keys(&Stage::load(block, &self.columns, rows, pin), rows, pin)
    }

    /// Whether a view sees the row at a slot with this key.
    pub(crate) fn leads(
        &self,
        relation: &Relation,
        key: &Key,
        slot: Slot,
        view: &View<'_, Standard>,
        pin: &Pin<'_>,
    ) -> Result<bool> {
        let Some((number, row)) = place(slot) else {
            return Ok(false);
        };
        let Some(block) = relation
            .block(number, pin)
            .filter(|block| block.is_born(view, pin))
        else {
            return Ok(false);
        };
        let offsets = [row as u32];
        let rows = Rows::At(&offsets);
        let stage = staged(block, &self.columns, &rows, view, pin);
        Ok(stage.is_live(0) && self.keys(&stage, &rows, pin)?[0].as_ref() == Some(key))
    }

    /// Whether the row at a slot holds the key against the transaction of `view`, whose statement number is beyond its
    /// current one: any version from the newest to the one that it sees counts.
    pub(crate) fn holder(
        &self,
        relation: &Relation,
        key: &Key,
        slot: Slot,
        view: &View<'_, Standard>,
        pin: &Pin<'_>,
    ) -> Result<Holder> {
        let Some((number, row)) = place(slot) else {
            return Ok(Holder::Nobody);
        };
        let Some(block) = relation.block(number, pin) else {
            return Ok(Holder::Nobody);
        };
        let born = match block.birth() {
            None => true,
            Some(birth) => {
                if matches!(birth.outcome(pin), Outcome::Aborted(_)) {
                    return Ok(Holder::Nobody);
                }
                block.is_born(view, pin)
            }
        };
        let offsets = [row as u32];
        let rows = Rows::At(&offsets);
        let newest = || {
            let settled = settle::<Standard>();
            let heads = block.versions.heads(&settled, pin)?;
            heads.head(row).newest(&settled, pin)
        };
        // The version in place counts too, so it must be whole: nobody may write between two looks at the head.
        let mut at = newest();
        let mut stage = loop {
            let being_written = at.is_some_and(|link| {
                link.stamp.outcome(pin) == Outcome::InProgress
                    && !view.owns(&link.stamp, pin)
                    && !link.stamp.is_yielding(pin)
            });
            if being_written {
                return Ok(Holder::Unseen);
            }
            let stage = Stage::load(block, &self.columns, &rows, pin);
            let again = newest();
            if again == at {
                break stage;
            }
            at = again;
        };
        let mut unseen = !born;
        loop {
            // Rows on the move (compaction) count where they were: it does not commit while a transaction is open that could ask.
            while let Some(link) = at
                && (matches!(link.stamp.outcome(pin), Outcome::Aborted(_))
                    || link.stamp.is_yielding(pin))
            {
                stage.patch(0, link);
                at = link.older(pin);
            }
            let visible = at.is_none_or(|link| view.sees(&link.stamp, link.statement, pin));
            unseen |= !visible;
            let holds = stage.is_live(0) && self.keys(&stage, &rows, pin)?[0].as_ref() == Some(key);
            if holds {
                return Ok(if unseen {
                    Holder::Unseen
                } else {
                    Holder::Visible
                });
            }
            match at {
                Some(link) if !visible => {
                    stage.patch(0, link);
                    at = link.older(pin);
                }
                _ => return Ok(Holder::Nobody),
            }
        }
    }

    /// Takes an entry away unless a version of its row has the key. `false` if a writer is at the row: try again later.
    pub(crate) fn forget(
        &self,
        relation: &Relation,
        key: &Key,
        slot: Slot,
        pin: &Pin<'_>,
    ) -> Result<bool> {
        let found = place(slot)
            .and_then(|(number, row)| relation.block(number, pin).map(|block| (block, row)));
        let Some((block, row)) = found else {
            self.entries.remove(key, slot, pin);
            return Ok(true);
        };
        if block
            .birth()
            .is_some_and(|birth| matches!(birth.outcome(pin), Outcome::Aborted(_)))
        {
            self.entries.remove(key, slot, pin);
            return Ok(true);
        }
        let mut heads = block.versions.attach(1, pin);
        let result = loop {
            let head = heads.head(row);
            match head.observe() {
                Observed::Marked => std::thread::yield_now(),
                Observed::Sealed => {
                    std::thread::yield_now();
                    heads = block.versions.reattach(pin);
                }
                Observed::Open(state) => {
                    let writing = Head::observed(state, pin)
                        .is_some_and(|link| link.stamp.outcome(pin) == Outcome::InProgress);
                    if writing {
                        break Ok(false);
                    }
                    if head.mark(state) {
                        let held = self.is_held(block, row, head, key, pin);
                        if matches!(held, Ok(false)) {
                            self.entries.remove(key, slot, pin);
                        }
                        head.unmark(state, false);
                        break held.map(|_| true);
                    }
                }
            }
        };
        block.versions.uncount(1);
        result
    }

    /// Whether a version of a marked row has the key.
    fn is_held(
        &self,
        block: &Block,
        row: usize,
        head: &Head<Standard>,
        key: &Key,
        pin: &Pin<'_>,
    ) -> Result<bool> {
        let offsets = [row as u32];
        let rows = Rows::At(&offsets);
        let mut stage = Stage::load(block, &self.columns, &rows, pin);
        let mut links = chain(head, pin);
        loop {
            if stage.is_live(0) && self.keys(&stage, &rows, pin)?[0].as_ref() == Some(key) {
                return Ok(true);
            }
            match links.next() {
                Some(link) => stage.patch(0, link),
                None => return Ok(false),
            }
        }
    }

    /// The error for a key that lives twice.
    pub(crate) fn violation(&self, key: &Key, names: &[String]) -> Error {
        Error::UniqueViolation {
            constraint: self.name.clone(),
            columns: names.join(", "),
            key: self.encoder.display(key).unwrap_or_default(),
        }
    }
}

impl std::fmt::Debug for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Index")
            .field("name", &self.name)
            .field("unique", &self.unique)
            .finish_non_exhaustive()
    }
}
