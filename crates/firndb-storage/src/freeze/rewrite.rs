//! Rewriting: what still lives in an extent that is mostly garbage moves to a new one.
//!
//! An extent goes when no column of any block is in it any more. Blocks that are updated and freeze again go elsewhere one by one and column by column, so
//! without this a single cold column of a single block would keep the memory of 64 blocks. As with hot heaps: when the garbage of an extent exceeds
//! what lives in it, what lives is rewritten, so frozen memory is at most twice what is shown.
//!
//! The columns are thawed and gathered like any others. Nothing here is a new kind of step. So are those whose strings have another format than the one
//! that is asked for, when freezing is forced: by itself nothing is rewritten for a format.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::block::{Column, FrozenPart};
use crate::frozen::Strings;
use crate::reclaim::Pin;
use crate::relation::{ColumnInfo, Relation, heat};

/// Extents that are smaller are left alone.
const SMALLEST: usize = 256 << 10;
/// Looking costs something in a table of many blocks: not more often than this, in microseconds.
const PAUSE: u64 = 200_000;
/// Most blocks that are rewritten at a time.
const BLOCKS: usize = 64;
/// What is thawed takes at most this part of the memory that is free.
const SHARE: usize = 4;

/// The bytes of a part, as its share of the column's.
fn bytes(part: &FrozenPart) -> usize {
    let column = part.column();
    column.bytes() / column.rows().max(1) * part.rows
}

/// Thaws what lives in extents that are mostly garbage; gives the blocks, ascending, to be gathered. The caller holds the relation's `freezer`.
pub(super) fn thaw_sparse(relation: &Relation) -> Vec<u32> {
    let now = heat::now();
    let last = relation.heat.rewritten.load(Ordering::Relaxed);
    if now.saturating_sub(last) < PAUSE {
        return Vec::new();
    }
    relation.heat.rewritten.store(now, Ordering::Relaxed);
    let infos = relation.columns();
    // By the address of the extent, which is not looked at: bytes that live, and all bytes.
    let mut extents: HashMap<usize, (usize, usize)> = HashMap::new();
    let address = |part: &FrozenPart| Arc::as_ptr(&part.extent).addr();
    for number in 0..relation.block_count() {
        let pin = relation.resources.reclaimer.pin();
        let Some(block) = relation.block(number, &pin) else {
            continue;
        };
        for column in block.columns(&pin) {
            if let Column::Frozen(part) = column {
                let entry = extents
                    .entry(address(part))
                    .or_insert_with(|| (0, part.extent.bytes()));
                entry.0 += bytes(part);
            }
        }
    }
    extents.retain(|_, &mut (live, all)| all >= SMALLEST && 2 * live < all);
    if extents.is_empty() {
        return Vec::new();
    }
    let is_sparse = |_: &ColumnInfo, part: &FrozenPart| extents.contains_key(&address(part));
    thaw(relation, &infos, BLOCKS, is_sparse)
}

/// Thaws strings that have another format than the one that is asked for; gives the blocks, ascending, to be gathered. The caller holds the relation's `freezer`.
pub(super) fn thaw_other_formats(relation: &Relation) -> Vec<u32> {
    let infos = relation.columns();
    let is_other = |info: &ColumnInfo, part: &FrozenPart| {
        let wanted = relation.strings(info.number);
        let found = part.column().strings();
        wanted != Strings::Auto && found.is_some_and(|found| found != wanted)
    };
    thaw(relation, &infos, usize::MAX, is_other)
}

/// Thaws the frozen columns of at most so many blocks that are wanted, as memory allows.
fn thaw(
    relation: &Relation,
    infos: &[Arc<ColumnInfo>],
    blocks: usize,
    is_wanted: impl Fn(&ColumnInfo, &FrozenPart) -> bool,
) -> Vec<u32> {
    let mut thawed = Vec::new();
    let mut budget = relation.resources.budget.free() / SHARE;
    for number in 0..relation.block_count() {
        let pin: Pin<'_> = relation.resources.reclaimer.pin();
        let Some(block) = relation.block(number, &pin) else {
            continue;
        };
        let mut any = false;
        for info in infos {
            let Some(Column::Frozen(part)) = block.column(info.number, &pin) else {
                continue;
            };
            let needed = bytes(part).max(part.rows * info.physical.bits() / 8);
            if !is_wanted(info, part) || needed > budget {
                continue;
            }
            budget -= needed;
            any |= relation.warmed_by_freezer(block, info, &pin).is_ok();
        }
        if any {
            thawed.push(number);
        }
        if thawed.len() == blocks {
            break;
        }
    }
    thawed
}
