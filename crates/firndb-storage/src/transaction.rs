//! Transactions: writing, committing, rolling back, savepoints and statements.
//!
//! Invariants:
//! - Every row that a transaction wrote has its record in the undo buffer, in the order of writing. Undoing goes backwards: all rows are
//!   restored in place first, then the records are marked, in one epoch.
//! - Statement numbers only grow, also over rollbacks to savepoints.
//! - A transaction enters a relation before it writes there and leaves it after its outcome is visible.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

use crate::block::cells::Rows;
use crate::block::hot::HotColumn;
use crate::block::{Block, slot};
use crate::clock::{Alone, Presence, Registration};
use crate::collect::{Collector, Entry, Finished};
use crate::index::Key;
use crate::protocol::{Head, Linked, Observed, Outcome, Standard, View, may_write, settle};
use crate::reclaim::Pin;
use crate::relation::Relation;
use crate::relation::index::Index;
use crate::relation::layout::Layout;
use crate::slot::Slot;
use crate::snapshot::{Snapshot, TransactionState};
use crate::undo::{Author, Change, Own, Position, Shape, UndoBuffer, UndoRecord};
use crate::{Error, Result};

/// What a transaction sees of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// One snapshot for the whole transaction.
    Snapshot,
}

/// Something besides rows that a transaction did, to be done on commit or undone on rollback.
#[derive(Clone)]
pub(crate) enum Action {
    /// Blocks were loaded: first, count.
    Load(Arc<Relation>, u32, u32),
    /// Writes under the layout fail from the commit on.
    RetireLayout(Arc<Layout>),
    /// All writes fail from the commit on.
    RetireRelation(Arc<Relation>),
    /// The index was added.
    AddIndex(Arc<Relation>, Arc<Index>),
    /// The index goes with the commit.
    DropIndex(Arc<Relation>, Arc<Index>),
}

/// An index entry that a transaction added, or that its commit may make superfluous.
pub(crate) struct KeyWritten {
    pub(crate) relation: Arc<Relation>,
    pub(crate) index: Arc<Index>,
    pub(crate) key: Key,
    pub(crate) slot: Slot,
    pub(crate) added: bool,
}

impl KeyWritten {
    fn entry(self) -> Entry {
        Entry {
            relation: self.relation,
            index: self.index,
            key: self.key,
            slot: self.slot,
        }
    }
}

/// Keys that the current statement loaded in bulk: to be checked, block by block.
pub(crate) struct KeysLoaded {
    pub(crate) relation: Arc<Relation>,
    pub(crate) index: Arc<Index>,
    pub(crate) first: u32,
    pub(crate) count: u32,
}

/// What a transaction wrote.
#[derive(Default)]
pub(crate) struct Writes {
    undo: UndoBuffer,
    relations: Vec<Arc<Relation>>,
    actions: Vec<Action>,
    pub(crate) keys: Vec<KeyWritten>,
    /// Keys before this one were written by earlier statements.
    pub(crate) statement_keys: usize,
    pub(crate) loaded: Vec<KeysLoaded>,
    /// Entries of rolled back statements.
    stale: Vec<Entry>,
    /// An epoch that passes after every partial rollback.
    epoch: u64,
}

/// A transaction. `Send + Sync`; its methods take `&self`, one statement at a time writes through it.
/// Dropping it without `commit` rolls it back.
pub struct Transaction {
    collector: Arc<Collector>,
    state: Arc<TransactionState>,
    registration: Arc<Registration>,
    writes: Mutex<Writes>,
    ended: bool,
    /// None if it yields. Goes when the outcome is visible.
    presence: Option<Presence>,
}

/// A place in a transaction to return to.
#[derive(Debug, Clone)]
pub struct Savepoint {
    transaction: u64,
    undo: Position,
    actions: usize,
    keys: usize,
}

fn next_id() -> u64 {
    static IDS: AtomicU64 = AtomicU64::new(1);
    IDS.fetch_add(1, Ordering::Relaxed)
}

impl Transaction {
    pub(crate) fn new(collector: &Arc<Collector>, _isolation: Isolation) -> Self {
        let (presence, registration) = collector.resources().clock.open();
        Self {
            collector: Arc::clone(collector),
            state: TransactionState::new(next_id()),
            registration: Arc::new(registration),
            writes: Mutex::default(),
            ended: false,
            presence: Some(presence),
        }
    }

    /// A transaction that gives way to all others: it ends by [`commit_alone`](Self::commit_alone) only.
    pub(crate) fn yielding(collector: &Arc<Collector>) -> Self {
        Self {
            collector: Arc::clone(collector),
            state: TransactionState::yielding(next_id()),
            registration: Arc::new(collector.resources().clock.register()),
            writes: Mutex::default(),
            ended: false,
            presence: None,
        }
    }

    /// Begins the next statement: later snapshots of this transaction see what was written before
    /// this call and not what is written after it.
    /// The returned savepoint undoes the statement.
    pub fn begin_statement(&self) -> Savepoint {
        let mut writes = self.writes.lock();
        self.state.next_statement();
        writes.statement_keys = writes.keys.len();
        writes.loaded.clear();
        self.place(&writes)
    }

    /// A place to return to.
    pub fn savepoint(&self) -> Savepoint {
        self.place(&self.writes.lock())
    }

    fn place(&self, writes: &Writes) -> Savepoint {
        Savepoint {
            transaction: self.state.id,
            undo: writes.undo.position(),
            actions: writes.actions.len(),
            keys: writes.keys.len(),
        }
    }

    /// Undoes everything since the savepoint (which can be used again). A savepoint of another transaction is ignored.
    pub fn rollback_to(&self, savepoint: &Savepoint) {
        if savepoint.transaction != self.state.id {
            return;
        }
        let mut writes = self.writes.lock();
        let writes = &mut *writes;
        if writes.undo.position() != savepoint.undo {
            self.restore(&writes.undo, &writes.relations, savepoint.undo);
            writes.epoch = self.collector.resources().reclaimer.advance();
            for own in writes.undo.records(savepoint.undo) {
                let record = own.record(&writes.undo);
                record.link().stamp.set(Outcome::Aborted(writes.epoch));
            }
        }
        writes.loaded.clear();
        let keys = writes.keys.split_off(savepoint.keys.min(writes.keys.len()));
        writes.statement_keys = writes.statement_keys.min(writes.keys.len());
        let actions = writes
            .actions
            .split_off(savepoint.actions.min(writes.actions.len()));
        let epoch = writes.epoch;
        writes.stale.extend(self.undo_rest(actions, keys, epoch));
    }

    /// What the current statement sees. Owned, `Clone + Send + Sync + 'static`; it keeps the versions that it
    /// needs alive, and stays valid (for committed data) after the transaction has ended.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(&self.registration, &self.state)
    }

    /// Whether anything was written.
    pub fn has_writes(&self) -> bool {
        let writes = self.writes.lock();
        !writes.undo.is_empty() || !writes.actions.is_empty()
    }

    /// Commits.
    pub fn commit(mut self) -> Result<()> {
        self.ended = true;
        let mut writes = std::mem::take(self.writes.get_mut());
        let resources = self.collector.resources();
        if writes.undo.is_empty() && writes.actions.is_empty() {
            // Nothing refers to the status word but snapshots, which see no records of it.
            for relation in &writes.relations {
                relation.access.leave(self.state.id, None);
            }
            return Ok(());
        }
        let time = resources
            .clock
            .commit(|time| self.state.status.set(Outcome::Committed(time)));
        let mut blocks = Vec::new();
        for action in std::mem::take(&mut writes.actions) {
            match action {
                Action::Load(relation, first, count) => blocks.push((relation, first, count)),
                Action::RetireLayout(layout) => layout.retire(),
                Action::RetireRelation(relation) => relation.access.retire(),
                Action::DropIndex(relation, index) => relation.remove_index(&index),
                Action::AddIndex(..) => {}
            }
        }
        for relation in &writes.relations {
            relation.access.leave(self.state.id, Some(time));
        }
        self.hand_over(writes, blocks);
        Ok(())
    }

    /// Gives what a commit leaves to the collector.
    fn hand_over(&self, writes: Writes, blocks: Vec<(Arc<Relation>, u32, u32)>) {
        let superfluous = writes.keys.into_iter().filter(|written| !written.added);
        let mut entries = writes.stale;
        entries.extend(superfluous.map(KeyWritten::entry));
        self.collector.push(Finished {
            state: Arc::clone(&self.state),
            undo: writes.undo,
            relations: writes.relations,
            blocks,
            entries,
            epoch: writes.epoch,
        });
    }

    /// Commits a transaction that yields at the first moment when no other transaction is open. Rolls back, and gives `false`, when somebody preempted it,
    /// or no such moment came for so long.
    pub(crate) fn commit_alone(mut self, patience: Duration) -> bool {
        let clock = Arc::clone(&self.collector.resources().clock);
        let begun = Instant::now();
        clock.commit_alone(Arc::clone(&self.state) as Arc<dyn Alone>);
        let mut nap = Duration::from_micros(20);
        let stopped = || self.collector.observer().stopped();
        while self.state.status.outcome() == Outcome::InProgress
            && begun.elapsed() < patience
            && !stopped()
        {
            std::thread::sleep(nap);
            nap = (nap * 2).min(Duration::from_millis(1));
        }
        if !clock.withdraw(&*self.state) {
            return false;
        }
        self.ended = true;
        let writes = std::mem::take(self.writes.get_mut());
        for relation in &writes.relations {
            relation.access.leave_compaction();
        }
        self.hand_over(writes, Vec::new());
        true
    }

    /// Rolls back.
    pub fn rollback(mut self) {
        self.roll_back();
    }

    fn roll_back(&mut self) {
        self.ended = true;
        let mut writes = std::mem::take(self.writes.get_mut());
        // Of one that yields the mark comes first (see the protocol); whoever preempted it may have set it already.
        let yields = self.presence.is_none();
        if yields {
            self.state.status.preempt();
            self.restore_yielded(&writes.undo, &writes.relations);
        } else {
            self.restore(&writes.undo, &writes.relations, Position::default());
        }
        let epoch = self.collector.resources().reclaimer.advance();
        if !yields {
            self.state.status.set(Outcome::Aborted(epoch));
        }
        let mut entries = writes.stale;
        entries.extend(self.undo_rest(writes.actions, std::mem::take(&mut writes.keys), epoch));
        for relation in &writes.relations {
            if yields {
                relation.access.leave_compaction();
            } else {
                relation.access.leave(self.state.id, None);
            }
        }
        if writes.undo.is_empty() && entries.is_empty() {
            return;
        }
        self.collector.push(Finished {
            state: Arc::clone(&self.state),
            undo: writes.undo,
            relations: writes.relations,
            blocks: Vec::new(),
            entries,
            epoch,
        });
    }

    /// Restores rows in place, the last change first. Records that were undone before are passed over.
    fn restore(&self, undo: &UndoBuffer, relations: &[Arc<Relation>], from: Position) {
        const CHUNK: usize = 512;
        let records: Vec<Own> = undo.records(from).collect();
        for chunk in records.rchunks(CHUNK) {
            let pin = self.collector.resources().reclaimer.pin();
            for &own in chunk.iter().rev() {
                let record = own.record(undo);
                let undone = matches!(record.link().stamp.outcome(&pin), Outcome::Aborted(_));
                if let Some(relation) = relations.get(record.table as usize).filter(|_| !undone) {
                    relation.restore(own, record, &pin);
                }
            }
        }
    }

    /// Restores the liveness that a transaction changed which yields. Its records are marked already, so the rows that it deleted may have been written by others.
    fn restore_yielded(&self, undo: &UndoBuffer, relations: &[Arc<Relation>]) {
        for own in undo.records(Position::default()) {
            let pin = self.collector.resources().reclaimer.pin();
            let record = own.record(undo);
            if let Some(relation) = relations.get(record.table as usize) {
                relation.restore_yielded(own, record, &pin);
            }
        }
    }

    /// Undoes what is not in the undo buffer; the records are marked aborted already. Gives entries that cannot be judged yet.
    fn undo_rest(&self, actions: Vec<Action>, keys: Vec<KeyWritten>, epoch: u64) -> Vec<Entry> {
        let mut later = Vec::new();
        let pin = self.collector.resources().reclaimer.pin();
        for written in keys.into_iter().rev().filter(|written| written.added) {
            let judged = written
                .index
                .forget(&written.relation, &written.key, written.slot, &pin);
            if matches!(judged, Ok(false)) {
                later.push(written.entry());
            }
        }
        for action in actions.into_iter().rev() {
            match action {
                Action::Load(relation, first, count) => {
                    for number in first..first + count {
                        unload(&relation, number, epoch, &pin);
                    }
                }
                Action::AddIndex(relation, index) => relation.remove_index(&index),
                Action::RetireLayout(_) | Action::RetireRelation(_) | Action::DropIndex(..) => {}
            }
        }
        later
    }
}

/// Takes a block away whose load was undone, with its index entries.
fn unload(relation: &Relation, number: u32, epoch: u64, pin: &Pin<'_>) {
    let Some(block) = relation.block(number, pin) else {
        return;
    };
    for index in relation.indexes().iter() {
        // Entries that lead to a block which is gone do no harm; without memory for the keys they stay.
        if let Ok(keys) = index.keys_in_place(block, &Rows::First(block.capacity), pin) {
            for (row, key) in keys.iter().enumerate() {
                if let Some(key) = key {
                    index.entries.remove(key, slot(number, row));
                }
            }
        }
    }
    if let Some(birth) = block.birth() {
        birth.set(Outcome::Aborted(epoch));
    }
    relation.remove_block(number);
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if !self.ended {
            self.roll_back();
        }
    }
}

impl std::fmt::Debug for Transaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transaction")
            .field("id", &self.state.id)
            .field("start", &self.registration.start)
            .finish_non_exhaustive()
    }
}

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

    pub(crate) fn state(&self) -> &TransactionState {
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
    ) -> Result<()> {
        let Some(key) = key else { return Ok(()) };
        index.entries.insert(&key, slot)?;
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
            let drafted = self.writes.undo.reserve(
                &self.relation.resources.segments,
                &Author {
                    status: &self.transaction.state.status,
                    statement: self.statement,
                    table: self.table,
                },
                slot(block.number, row),
                Change::Insert,
                None,
            );
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
            let drafted = self.writes.undo.reserve(
                &self.relation.resources.segments,
                &Author {
                    status: &self.transaction.state.status,
                    statement: self.statement,
                    table: self.table,
                },
                slot(block.number, row),
                Change::Refill,
                None,
            );
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
            let mut draft = self.writes.undo.reserve(
                &self.relation.resources.segments,
                &Author {
                    status: &self.transaction.state.status,
                    statement: self.statement,
                    table: self.table,
                },
                slot(block.number, row),
                change,
                shape,
            )?;
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
