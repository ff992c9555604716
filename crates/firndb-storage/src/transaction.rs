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

use parking_lot::{Mutex, RwLockReadGuard};

use crate::Result;
use crate::block::cells::Rows;
use crate::block::slot;
use crate::clock::{Alone, Presence, Registration};
use crate::collect::{Collector, Entry, Finished};
use crate::durable::{Definitions, Durable, DurableTable};
use crate::index::Key;
use crate::protocol::{Outcome, Standard, View};
use crate::reclaim::Pin;
use crate::relation::Relation;
use crate::relation::index::Index;
use crate::relation::layout::Layout;
use crate::slot::Slot;
use crate::snapshot::{Snapshot, TransactionState};
use crate::undo::{Own, Position, UndoBuffer};
use redo::Redo;

mod redo;
mod writer;

pub(crate) use writer::Writer;

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

    /// What the current statement sees, for an operation that ends before the statement does.
    pub(crate) fn view(&self) -> View<'_, Standard> {
        View {
            start: self.registration.start,
            own: Some(&self.state.status),
            statement: self.state.statement(),
        }
    }

    /// Whether anything was written.
    pub fn has_writes(&self) -> bool {
        let writes = self.writes.lock();
        !writes.undo.is_empty() || !writes.actions.is_empty()
    }

    /// Commits. In a database with a file it is done when the log has it as the setting `synchronous` says; after an error it was rolled back.
    pub fn commit(self) -> Result<()> {
        self.commit_with(None)
    }

    /// As [`commit`](Self::commit), with what the transaction defined.
    pub fn commit_with(mut self, definitions: Option<&Definitions>) -> Result<()> {
        let durable = self.collector.resources().durable.get().cloned();
        let logged = match &durable {
            // Rolled back when dropped, if that fails.
            Some(durable) => self.log(durable, definitions)?,
            None => None,
        };
        self.ended = true;
        let mut writes = std::mem::take(self.writes.get_mut());
        if writes.undo.is_empty() && writes.actions.is_empty() {
            // Nothing refers to the status word but snapshots, which see no records of it.
            for relation in &writes.relations {
                relation.access.leave(self.state.id, None);
            }
            return Ok(());
        }
        let resources = self.collector.resources();
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
        drop(logged);
        Ok(())
    }

    /// Brings what it did into the log. As long as what it gives lives, no checkpoint begins.
    fn log<'d>(
        &mut self,
        durable: &'d Durable,
        definitions: Option<&Definitions>,
    ) -> Result<Option<RwLockReadGuard<'d, ()>>> {
        if definitions.is_none() {
            let writes = self.writes.get_mut();
            if writes.undo.is_empty() && writes.actions.is_empty() {
                return Ok(None);
            }
        }
        let gate = durable.enter()?;
        // Tables that have other columns from now on. Nobody else writes them.
        let tables = definitions.map_or(&[][..], |definitions| &definitions.tables);
        let before: Vec<_> = tables
            .iter()
            .map(|table| {
                let id = table.durable_id();
                let before = table.relation().durable();
                table.relation().set_durable(Some(Arc::new(DurableTable {
                    id,
                    columns: table.layout().columns.clone(),
                    schema: Arc::clone(table.schema()),
                })));
                (table.relation(), before)
            })
            .collect();
        let result = self.append(durable, definitions);
        for (relation, before) in before {
            if result.is_err() {
                relation.set_durable(before);
            } else if before.is_some_and(|before| !before.has_same_columns(relation)) {
                // Its extents in the file have other columns.
                relation.note_changed(0..relation.block_count());
            }
        }
        result.map(|()| Some(gate))
    }

    fn append(&self, durable: &Durable, definitions: Option<&Definitions>) -> Result<()> {
        let record = Redo::record(durable, self, &self.writes.lock(), definitions)?;
        let Some(recorded) = record else {
            return Ok(());
        };
        if let Err(error) = durable.append(&recorded.record) {
            durable.abandon_extents(&recorded.loaded);
            return Err(error);
        }
        durable.adopt_extents(recorded.loaded);
        for (relation, blocks) in recorded.touched {
            relation.note_changed(blocks);
        }
        Ok(())
    }

    /// Does something when it commits alone, before anybody can begin.
    pub(crate) fn at_commit(&self, action: Box<dyn FnOnce() + Send>) {
        self.state.at_commit(action);
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
                Action::DropIndex(_, index) => index.set_dropped(false),
                Action::RetireLayout(_) | Action::RetireRelation(_) => {}
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
                    index.entries.remove(key, slot(number, row), pin);
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
