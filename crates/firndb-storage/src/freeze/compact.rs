//! Compaction: rows of a group of blocks move into the group's gaps, so that blocks become full, or empty and are removed.
//!
//! After *Mainlining Databases*, section 4.3, with another commit rule. One transaction a group: it writes each moved row into a buried slot and deletes it where
//! it was; index entries follow. It **yields**, and **commits alone**:
//!
//! - *Nobody waits for it, nobody fails because of it.* Whoever wants to write a row that it is moving preempts it by one compare-and-swap (see the
//!   protocol, *Yielding*), and it undoes itself. Unique checks look through it. It keeps nobody from excluding writers (ALTER), and is preempted by that.
//! - *Nobody conflicts with it after its commit.* A transaction that is older than a committed move and then writes the row would find a newer deletion. So
//!   the move commits at a moment when no other transaction is open (the last one to end commits it, see [`crate::clock`]): every transaction that can write from
//!   then on began later. Snapshots that are older belong to transactions that have ended; they read the rows where they were, as long as they are held.
//! - *No such moment*: after some patience it undoes itself, and the blocks freeze with their gaps. It is tried again later, ever more rarely.
//!
//! The design asks that no older transaction has *touched the table*. That would not do: one that has not touched it yet may do so later, with its old
//! snapshot, and conflict.
//!
//! Which blocks form a group: those of which more than a tenth is gone among the blocks that are cold, 64 at most, with what
//! earlier compactions left filled in part. A group is compacted if that empties a block or fills a gap in the middle of one. A gap is written again
//! only when its row is buried: no snapshot, now or later, sees it.
//!
//! *Order*: without deletions there are no gaps, and the order of insertion stays. A compaction changes the order between two queries of different snapshots, and
//! users do lay two results side by side. So a few deletions move nothing, and a table that was scanned lately is left alone for a while.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::select::{Occupancy, Plan, select};
use crate::block::cells::Rows;
use crate::block::source::{Incoming, Source};
use crate::block::{Block, place, slot};
use crate::collect::Collector;
use crate::frozen::Form;
use crate::protocol::Outcome;
use crate::reclaim::Pin;
use crate::relation::{ColumnInfo, Relation, heat};
use crate::slot::Slot;
use crate::transaction::{Transaction, Writer};
use crate::undo::Change;
use crate::{Error, Result};

/// Most blocks of a group.
const GROUP: usize = 64;
/// A group with more moves is split, as long as the halves have so many blocks: its undo records would take much memory.
const MOVES: usize = 256 << 10;
const SMALLEST_GROUP: usize = 10;
/// After how long a compaction that was undone is tried again; doubled each time.
const FIRST_WAIT: Duration = Duration::from_millis(250);
/// What thaws takes at most this part of the memory that is free.
const SHARE: usize = 4;
/// How long a moment without other transactions is waited for.
const PATIENCE: Duration = Duration::from_millis(100);

/// Compacts what is worth it among these blocks; gives whether rows moved. The blocks that they left and went to are noted again once that is
/// collected. With `force` it is tried however often it was in vain. The caller holds the relation's `freezer`.
pub(super) fn compact(
    collector: &Arc<Collector>,
    relation: &Arc<Relation>,
    blocks: &[u32],
    force: bool,
) -> bool {
    let heat = &relation.heat;
    let mut candidates: BTreeSet<u32> = std::mem::take(&mut *heat.sparse.lock());
    candidates.extend(blocks);
    let members: Vec<Occupancy> = candidates
        .into_iter()
        .filter_map(|number| occupancy(collector, relation, number))
        .collect();
    let retry = heat.retry_at.load(Ordering::Relaxed);
    let now = heat::now();
    let wait = retry.saturating_sub(now).max(heat.unrest(now));
    let mut moved = false;
    let mut groups: Vec<&[Occupancy]> = members.chunks(GROUP).collect();
    groups.reverse();
    while let Some(group) = groups.pop() {
        let plan = select(group);
        if plan.moves.len() > MOVES && group.len() >= 2 * SMALLEST_GROUP {
            let (one, other) = group.split_at(group.len() / 2);
            groups.extend([other, one]);
            continue;
        }
        if !is_worth_it(group, &plan) {
            heat.sparse.lock().extend(plan.partial);
            continue;
        }
        let begun = Instant::now();
        let done = (wait == 0 || force) && move_all(collector, relation, group, &plan);
        heat.compacting.add(begun.elapsed());
        if done {
            moved = true;
            heat.yielded.store(0, Ordering::Relaxed);
            heat.postponed.store(0, Ordering::Relaxed);
            continue;
        }
        // Nor would the others have come through.
        let wait = if wait == 0 {
            let yielded = heat.yielded.fetch_add(1, Ordering::Relaxed);
            let wait = FIRST_WAIT * (1 << yielded.min(6));
            let retry_at = heat::now() + wait.as_micros() as u64;
            heat.retry_at.store(retry_at, Ordering::Relaxed);
            wait
        } else {
            Duration::from_micros(wait)
        };
        let rest = std::iter::once(group).chain(groups);
        let rest: Vec<u32> = rest.flatten().map(|block| block.number).collect();
        collector.observer().note_for(relation, rest, wait);
        break;
    }
    moved
}

/// Whether moving the rows empties a block or fills a gap in the middle of one.
fn is_worth_it(group: &[Occupancy], plan: &Plan) -> bool {
    !plan.moves.is_empty()
        && (!plan.emptied.is_empty() || group.iter().any(Occupancy::has_inner_gaps))
}

/// A block as a member of a group, if it is one.
fn occupancy(collector: &Collector, relation: &Relation, number: u32) -> Option<Occupancy> {
    let pin = relation.resources.reclaimer.pin();
    let block = relation.block(number, &pin)?;
    if !block.is_closed() || block.rows() == 0 || block.gone() == 0 {
        return None;
    }
    // Loaded by a transaction that not everybody sees: there is no hurry.
    let oldest = collector.resources().clock.horizon().oldest;
    let born = block.birth().is_none_or(
        |birth| matches!(birth.outcome(&pin), Outcome::Committed(time) if time <= oldest),
    );
    // Of a block that has lost little, the rest stays where it is.
    let stays = 10 * block.gone() <= block.rows();
    let quiet = block.quiet_rows().filter(|_| born && !stays)?;
    Some(Occupancy {
        number,
        slots: quiet.rows,
        live: quiet.live,
    })
}

/// Moves the rows of a group; `false` if that was undone.
fn move_all(
    collector: &Arc<Collector>,
    relation: &Arc<Relation>,
    group: &[Occupancy],
    plan: &Plan,
) -> bool {
    // Blocks thaw to be filled. Freezing must not make a statement fail for want of memory.
    let row: usize = relation
        .columns()
        .iter()
        .map(|info| info.physical.bits().div_ceil(8))
        .sum();
    let slots: usize = group.iter().map(|block| block.slots).sum();
    if row.saturating_mul(slots).saturating_mul(SHARE) > relation.resources.budget.free() {
        return false;
    }
    let transaction = Transaction::yielding(collector);
    let done = match transaction.compact(relation) {
        // Whatever an error was about (memory, a writer who was first), there is no hurry.
        Some(mut writer) => move_rows(&transaction, &mut writer, plan).is_ok(),
        None => false,
    };
    if done && collector.resources().durable.get().is_some() {
        let (relation, resources) = (Arc::clone(relation), Arc::clone(collector.resources()));
        let moves = plan.moves.clone();
        transaction.at_commit(Box::new(move || {
            if let Some(durable) = resources.durable.get() {
                durable.note_moves(&relation, &moves);
            }
        }));
    }
    if !done || !transaction.commit_alone(PATIENCE) {
        return false;
    }
    let heat = &relation.heat;
    heat.moved
        .fetch_add(plan.moves.len() as u64, Ordering::Relaxed);
    heat.emptied
        .fetch_add(plan.emptied.len() as u64, Ordering::Relaxed);
    heat.sparse.lock().extend(plan.partial);
    true
}

fn yielded() -> Error {
    Error::Internal("a compaction yields".into())
}

fn move_rows(transaction: &Transaction, writer: &mut Writer<'_>, plan: &Plan) -> Result<()> {
    /// Rows that move under one pin.
    const CHUNK: usize = 512;
    for moves in plan
        .moves
        .chunk_by(|one, other| blocks_of(one) == blocks_of(other))
    {
        for moves in moves.chunks(CHUNK) {
            if transaction.is_preempted() {
                return Err(yielded());
            }
            move_chunk(writer, moves)?;
        }
    }
    Ok(())
}

fn blocks_of(&(from, to): &(Slot, Slot)) -> (Option<u32>, Option<u32>) {
    let block = |slot: Slot| place(slot).map(|(block, _)| block);
    (block(from), block(to))
}

/// Moves rows from one block to one block.
fn move_chunk(writer: &mut Writer<'_>, moves: &[(Slot, Slot)]) -> Result<()> {
    let relation = Arc::clone(&writer.relation);
    let pin = relation.resources.reclaimer.pin();
    let (Some(from), Some(to)) = blocks_of(&moves[0]) else {
        return Err(yielded());
    };
    let (Some(source), Some(target)) = (relation.block(from, &pin), relation.block(to, &pin))
    else {
        return Err(yielded());
    };
    let rows = |of: fn(&(Slot, Slot)) -> Slot| -> Vec<u32> {
        let offset = |moved| place(of(moved)).map_or(0, |(_, row)| row as u32);
        moves.iter().map(offset).collect()
    };
    let (left, taken) = (rows(|moved| moved.0), rows(|moved| moved.1));
    let infos: Vec<Arc<ColumnInfo>> = relation
        .columns()
        .into_iter()
        .filter(|info| {
            [source, target]
                .iter()
                .any(|block| block.column(info.number, &pin).is_some())
        })
        .collect();
    let seen = relation.read_block(
        source,
        &infos,
        &Rows::At(&left),
        &writer.view(),
        Form::Native,
        &pin,
    )?;
    if seen.offsets.len() != moves.len() {
        return Err(yielded());
    }
    let values = seen
        .columns
        .iter()
        .zip(&infos)
        .map(|(array, info)| Source::new(array, &info.stored))
        .collect::<Result<Vec<_>>>()?;
    write_rows(writer, target, &taken, &infos, &values, &pin)?;
    for &row in &left {
        source.count_gone(1);
        writer
            .claim(source, row as usize, Change::Delete, None, &[], &pin)
            .inspect_err(|_| source.uncount_gone(1))?;
        let status = &writer.state().status;
        if !relation.clear_yielding(source, row as usize, status, &pin) {
            return Err(yielded());
        }
    }
    for index in relation.indexes().iter() {
        let keys = index.keys_in_place(target, &Rows::At(&taken), &pin)?;
        for ((key, &left), &taken) in keys.into_iter().zip(&left).zip(&taken) {
            writer.leave_key(index, key.clone(), slot(from, left as usize));
            writer.add_key(index, key, slot(to, taken as usize), &pin)?;
        }
    }
    Ok(())
}

/// Writes rows into buried slots.
fn write_rows(
    writer: &mut Writer<'_>,
    target: &Block,
    rows: &[u32],
    infos: &[Arc<ColumnInfo>],
    values: &[Source],
    pin: &Pin<'_>,
) -> Result<()> {
    let relation = Arc::clone(&writer.relation);
    // Warm before anything is claimed: from now on nobody shares the block as frozen.
    let hot = infos
        .iter()
        .map(|info| relation.warmed_by_freezer(target, info, pin))
        .collect::<Result<Vec<_>>>()?;
    for (at, &row) in rows.iter().enumerate() {
        let row = row as usize;
        if !writer.claim_buried(target, row, pin)? {
            return Err(yielded());
        }
        for (column, values) in hot.iter().zip(values) {
            let new = match values.get(at) {
                Incoming::Words(value) => value,
                Incoming::Bytes(_) => column.make(values, at, pin)?,
            };
            // A row that was buried while it was frozen came back with its values when that thawed.
            let old = column.load(row);
            column.store(row, new);
            column.release(old, pin);
        }
        target.live.put(row, true);
    }
    Ok(())
}
