//! Gathering: hot columns of blocks without versions become columns of a new extent.
//!
//! ```text
//!   block 7  hot  ┐                       ┌ rows of 7 ┬ rows of 8 ┬ rows of 9 ┐
//!   block 8  hot  ├── one column of each ─►  FrozenColumn, built elsewhere    │──► three pointers swapped
//!   block 9  hot  ┘                       └───────────┴───────────┴───────────┘
//! ```
//!
//! The steps are those of [`crate::protocol::Place`]. Invariants:
//! - The caller holds the relation's `freezer`: nobody else cools its columns, moves its rows, or takes tags for his own.
//! - No pin is held while an extent is being built but the one under which a single column is copied, so writers' memory is reclaimed meanwhile. Pointers to
//!   columns are kept as [`Address`]es and looked up again.
//! - A block that a writer takes back keeps its place in the extent, empty: the others go on.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use arrow::array::ArrayRef;
use arrow::datatypes::{Field, Schema};

use super::Visit;
use crate::Result;
use crate::block::hot::HotColumn;
use crate::block::{Address, Column, FrozenPart, QuietRows};
use crate::frozen::{Extent, FrozenColumn};
use crate::protocol::{Standard, settle};
use crate::reclaim::{Pin, Reclaimer};
use crate::relation::heat;
use crate::relation::read::gathered;
use crate::relation::{ColumnInfo, Relation};

/// Most blocks of an extent.
const BLOCKS: usize = 64;
/// An extent takes at most this part of the memory that is free.
const SHARE: usize = 4;
/// How long operations that were running are waited for. Nobody waits for the freezer meanwhile.
const PATIENCE: Duration = Duration::from_millis(500);

/// A hot column on its way.
type Way = (Arc<ColumnInfo>, Address);

/// A block whose hot columns are cooling.
pub(super) struct Cooling {
    number: u32,
    columns: Vec<Way>,
}

/// A block whose hot columns are freezing.
pub(super) struct Freezing {
    number: u32,
    columns: Vec<Way>,
    pub(super) rows: QuietRows,
    /// Buried rows at the end that are not shown.
    cut: usize,
    pub(super) preempted: bool,
}

impl Freezing {
    /// Looks at a column that is freezing; `None` if a writer came.
    pub(super) fn with_column<R>(
        &self,
        relation: &Relation,
        position: usize,
        look: impl FnOnce(&HotColumn, &Pin<'_>) -> R,
    ) -> Option<R> {
        let (info, address) = &self.columns[position];
        let pin = relation.resources.reclaimer.pin();
        let found = relation.block(self.number, &pin)?;
        let hot = found.freezing(info.number, *address, &pin)?;
        Some(look(hot, &pin))
    }

    /// As [`with_column`](Self::with_column); `None` too if a writer came while `load` loaded. Whatever he may have stored, we see that he came, as a reader sees his
    /// record. What was loaded is looked at under the same pin.
    pub(super) fn load_column<L, R>(
        &self,
        relation: &Relation,
        position: usize,
        load: impl FnOnce(&HotColumn) -> L,
        look: impl FnOnce(L, &HotColumn, &Pin<'_>) -> R,
    ) -> Option<R> {
        let (info, address) = &self.columns[position];
        let pin = relation.resources.reclaimer.pin();
        let found = relation.block(self.number, &pin)?;
        let hot = found.freezing(info.number, *address, &pin)?;
        let loaded = load(hot);
        let _settled = settle::<Standard>();
        found.freezing(info.number, *address, &pin)?;
        Some(look(loaded, hot, &pin))
    }

    /// The values of a column as an array; `None` if a writer came.
    pub(super) fn array(&self, relation: &Relation, position: usize) -> Result<Option<ArrayRef>> {
        let (info, address) = &self.columns[position];
        let pin = relation.resources.reclaimer.pin();
        let Some(found) = relation.block(self.number, &pin) else {
            return Ok(None);
        };
        let is_freezing = || found.freezing(info.number, *address, &pin).is_some();
        match found.freezing(info.number, *address, &pin) {
            Some(hot) => gathered(info, hot, &self.rows, is_freezing, &pin),
            None => Ok(None),
        }
    }

    fn goes_with(&self, other: &Freezing) -> bool {
        self.columns.len() == other.columns.len()
            && self
                .columns
                .iter()
                .zip(&other.columns)
                .all(|((one, _), (other, _))| one.number == other.number)
    }
}

/// Freezes what can be frozen of these blocks.
pub(super) fn gather(relation: &Relation, blocks: &[u32]) -> Visit {
    let mut visit = Visit::default();
    for blocks in blocks.chunks(BLOCKS) {
        let cooling = cool(relation, blocks, &mut visit);
        if cooling.is_empty() {
            continue;
        }
        let reclaimer = &relation.resources.reclaimer;
        let epoch = reclaimer.advance();
        let begun = Instant::now();
        let passed = await_epoch(reclaimer, epoch);
        relation.heat.waiting.add(begun.elapsed());
        let freezing = if passed {
            freeze(relation, cooling, &mut visit)
        } else {
            for block in cooling {
                postpone(relation, block.number, &block.columns, &mut visit);
            }
            continue;
        };
        let mut rest = freezing;
        while !rest.is_empty() {
            let end = rest
                .iter()
                .position(|block| !block.goes_with(&rest[0]))
                .unwrap_or(rest.len());
            let others = rest.split_off(end);
            build_and_publish(relation, rest, &mut visit);
            rest = others;
        }
    }
    visit
}

/// Waits until every operation has ended that ran before `epoch` ended.
pub(super) fn await_epoch(reclaimer: &Reclaimer, epoch: u64) -> bool {
    let begun = Instant::now();
    let mut nap = Duration::from_micros(20);
    while reclaimer.passed() < epoch {
        if begun.elapsed() > PATIENCE {
            return false;
        }
        std::thread::sleep(nap);
        nap = (nap * 2).min(Duration::from_millis(1));
    }
    true
}

/// Takes the tags of a block away.
fn warm(relation: &Relation, number: u32, columns: &[Way]) {
    let pin = relation.resources.reclaimer.pin();
    if let Some(block) = relation.block(number, &pin) {
        for (info, _) in columns {
            block.warm(info.number);
        }
    }
}

/// Gives up a block that a writer has taken back, or that has versions.
fn yield_to_writer(relation: &Relation, number: u32, columns: &[Way], visit: &mut Visit) {
    warm(relation, number, columns);
    visit.busy.push(number);
}

/// Gives up a block for which there is no memory, or no time.
fn postpone(relation: &Relation, number: u32, columns: &[Way], visit: &mut Visit) {
    warm(relation, number, columns);
    visit.later.push(number);
}

/// Announces what is to be frozen.
pub(super) fn cool(relation: &Relation, blocks: &[u32], visit: &mut Visit) -> Vec<Cooling> {
    let infos = relation.columns();
    let mut cooling = Vec::new();
    for &number in blocks {
        let pin = relation.resources.reclaimer.pin();
        let block = relation
            .block(number, &pin)
            .filter(|block| block.rows() > 0);
        let Some(block) = block else {
            visit.done.push(number);
            continue;
        };
        // Not worth the announcement: it would only cost a writer his step back.
        if block.versions.linked() > 0 {
            visit.busy.push(number);
            continue;
        }
        let columns: Vec<Way> = infos
            .iter()
            .filter_map(|info| Some((Arc::clone(info), block.cool(info.number, &pin)?)))
            .collect();
        if columns.is_empty() {
            visit.done.push(number);
        } else {
            cooling.push(Cooling { number, columns });
        }
    }
    cooling
}

/// Goes on with the blocks that have no versions. Whoever began to write before the announcement has ended.
pub(super) fn freeze(
    relation: &Relation,
    cooling: Vec<Cooling>,
    visit: &mut Visit,
) -> Vec<Freezing> {
    let mut freezing = Vec::new();
    for Cooling { number, columns } in cooling {
        let pin = relation.resources.reclaimer.pin();
        let Some(block) = relation.block(number, &pin) else {
            visit.done.push(number);
            continue;
        };
        let quiet = block.quiet_rows().filter(|_| {
            columns
                .iter()
                .all(|&(ref info, column)| block.freeze(info.number, column))
        });
        let Some(mut rows) = quiet else {
            drop(pin);
            yield_to_writer(relation, number, &columns, visit);
            continue;
        };
        let given = rows.rows;
        // Beside columns that are frozen already the same rows are shown.
        let shown = block
            .columns(&pin)
            .into_iter()
            .find_map(|column| match column {
                Column::Frozen(part) if part.rows + part.cut == given => Some(part.rows),
                _ => None,
            });
        rows.rows = match shown {
            Some(shown) => shown,
            None if block.is_closed() => given.min(last_live(&rows.live)),
            None => given,
        };
        freezing.push(Freezing {
            number,
            columns,
            cut: given - rows.rows,
            rows,
            preempted: false,
        });
    }
    freezing
}

/// The number of rows up to the last live one.
fn last_live(live: &[u64]) -> usize {
    match live.iter().rposition(|&word| word != 0) {
        Some(at) => 64 * at + 64 - live[at].leading_zeros() as usize,
        None => 0,
    }
}

/// Whether there is memory for an extent of these blocks, and for whoever else needs some meanwhile: freezing must not make a statement fail. The hot
/// memory of the blocks comes back afterwards.
fn affords(relation: &Relation, blocks: &[Freezing]) -> bool {
    let free = relation.resources.budget.free();
    if free == usize::MAX {
        return true;
    }
    let mut bytes = 0;
    for block in blocks {
        for (position, (info, _)) in block.columns.iter().enumerate() {
            bytes += (info.physical.bits() * block.rows.rows).div_ceil(8);
            let heap = block.with_column(relation, position, |hot, _| {
                hot.heap().map_or(0, |heap| heap.capacity())
            });
            bytes += heap.unwrap_or(0);
        }
    }
    bytes.saturating_mul(SHARE) <= free
}

/// Builds an extent of blocks whose hot columns have the same numbers, and shows it in their place.
fn build_and_publish(relation: &Relation, mut blocks: Vec<Freezing>, visit: &mut Visit) {
    if !affords(relation, &blocks) {
        if blocks.len() > 1 {
            let rest = blocks.split_off(blocks.len() / 2);
            build_and_publish(relation, blocks, visit);
            return build_and_publish(relation, rest, visit);
        }
        for block in blocks {
            postpone(relation, block.number, &block.columns, visit);
        }
        return;
    }
    match build(relation, &mut blocks) {
        Ok(Some(extent)) => publish(relation, &blocks, &extent, visit),
        // Without memory, or with more than an extent can hold: fewer blocks at a time may go.
        Err(_) if blocks.len() > 1 => {
            for block in blocks {
                build_and_publish(relation, vec![block], visit);
            }
        }
        Err(_) => {
            for block in blocks {
                postpone(relation, block.number, &block.columns, visit);
            }
        }
        Ok(None) => {
            for block in blocks {
                yield_to_writer(relation, block.number, &block.columns, visit);
            }
        }
    }
}

/// The extent; `None` if writers came to most of the blocks.
pub(super) fn build(relation: &Relation, blocks: &mut [Freezing]) -> Result<Option<Arc<Extent>>> {
    let infos: Vec<Arc<ColumnInfo>> = blocks[0]
        .columns
        .iter()
        .map(|(info, _)| Arc::clone(info))
        .collect();
    let rows = blocks.iter().map(|block| block.rows.rows).sum();
    let mut columns = Vec::with_capacity(infos.len());
    let begun = Instant::now();
    for (position, info) in infos.iter().enumerate() {
        columns.push(super::columns::build(relation, blocks, position, info)?);
        if 2 * blocks.iter().filter(|block| block.preempted).count() > blocks.len() {
            return Ok(None);
        }
    }
    let heat = &relation.heat;
    heat.gathering.add(begun.elapsed());
    heat.sketching
        .add(columns.iter().map(FrozenColumn::sketching).sum());
    let fields: Vec<Field> = infos
        .iter()
        .map(|info| Field::new(info.number.to_string(), info.stored.clone(), true))
        .collect();
    let schema = Arc::new(Schema::new(fields));
    Ok(Some(Arc::new(Extent::new(schema, rows, columns))))
}

/// Swaps the pointers of the blocks to their rows of the extent.
pub(super) fn publish(
    relation: &Relation,
    blocks: &[Freezing],
    extent: &Arc<Extent>,
    visit: &mut Visit,
) {
    let reclaimer = &relation.resources.reclaimer;
    let mut first_row = 0;
    for block in blocks {
        let pin = reclaimer.pin();
        let first = first_row;
        first_row += block.rows.rows;
        let part = |position: usize| FrozenPart {
            extent: Arc::clone(extent),
            position,
            first_row: first,
            rows: block.rows.rows,
            cut: block.cut,
        };
        let found = relation
            .block(block.number, &pin)
            .filter(|_| !block.preempted);
        let Some(found) = found else {
            drop(pin);
            yield_to_writer(relation, block.number, &block.columns, visit);
            continue;
        };
        found.frozen_at.store(heat::now(), Ordering::Relaxed);
        let published = block
            .columns
            .iter()
            .enumerate()
            .filter(|(position, (info, address))| {
                found.publish(info.number, *address, part(*position), reclaimer)
            })
            .count();
        if published == block.columns.len() {
            relation.heat.frozen.fetch_add(1, Ordering::Relaxed);
            visit.frozen.push(block.number);
        } else {
            visit.busy.push(block.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::last_live;

    #[test]
    fn gaps_at_the_end_are_found_in_whole_words_and_within_one() {
        assert_eq!(last_live(&[]), 0);
        assert_eq!(last_live(&[0, 0]), 0);
        assert_eq!(last_live(&[1, 0]), 1);
        assert_eq!(last_live(&[u64::MAX, 0b101]), 67);
        assert_eq!(last_live(&[u64::MAX, u64::MAX]), 128);
    }
}
