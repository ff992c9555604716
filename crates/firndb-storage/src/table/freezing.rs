//! Freezing as the engine sees it: forcing it, its setting, its counters, and the blocks of a table.

use std::time::Duration;

use super::Table;
use crate::block::{Block, Column, State};
use crate::freeze::freeze_now;
use crate::reclaim::Pin;
use crate::relation::heat::FreezeCounts;

/// What [`Table::freeze`] did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Freeze {
    /// Blocks that became frozen.
    pub frozen: usize,
    /// Blocks that stayed hot: they have versions that some snapshot needs, or were written meanwhile.
    pub hot: usize,
}

/// A block of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockInfo {
    /// Its number: the order of the table.
    pub number: u32,
    /// How far it is on its way from hot to frozen.
    pub state: State,
    /// Rows given out, gaps included.
    pub rows: usize,
    /// Rows that nobody sees, now or later, and rows that are being deleted.
    pub gaps: usize,
    /// Bytes of its columns' values, without the heaps of hot columns.
    pub bytes: usize,
    /// References to the frozen memory that its rows are in, besides the extent's own: batches, exports, mappings.
    pub holders: usize,
    /// Records in the chains of its rows.
    pub versions: u64,
}

impl Table {
    /// Freezes now what can be frozen, cold or not: blocks without versions that some snapshot needs. Waits for nobody but operations that are running.
    pub fn freeze(&self) -> Freeze {
        let visit = freeze_now(&self.collector, &self.relation);
        Freeze {
            frozen: visit.frozen.len(),
            hot: visit.busy.len() + visit.later.len(),
        }
    }

    /// After how long without a write blocks freeze by themselves (10 ms at first; it adapts); `None` for never.
    pub fn set_freeze_after(&self, threshold: Option<Duration>) {
        self.relation.heat.set(threshold);
        // What was not noted while it was off.
        let blocks = 0..self.relation.block_count();
        self.collector.observer().note(&self.relation, blocks);
    }

    /// After how long without a write blocks freeze now; `None` for never.
    pub fn freeze_after(&self) -> Option<Duration> {
        self.relation.heat.threshold()
    }

    /// What was counted about the table's blocks since it was made.
    pub fn freeze_counts(&self) -> FreezeCounts {
        self.relation.heat.counts()
    }

    /// The table's blocks, in its order.
    pub fn blocks(&self) -> Vec<BlockInfo> {
        (0..self.relation.block_count())
            .filter_map(|number| {
                let pin = self.pin();
                let block = self.relation.block(number, &pin)?;
                Some(self.describe(block, &pin))
            })
            .collect()
    }

    fn describe(&self, block: &Block, pin: &Pin<'_>) -> BlockInfo {
        let rows = block.rows();
        let (mut bytes, mut holders) = (0, 0);
        for info in &self.layout.columns {
            match block.column(info.number, pin) {
                Some(Column::Hot(_)) => bytes += (info.physical.bits() * rows).div_ceil(8),
                Some(Column::Frozen(part)) => {
                    let column = part.column();
                    bytes += column.bytes() / column.rows().max(1) * part.rows;
                    holders = holders.max(column.holders());
                }
                None => {}
            }
        }
        BlockInfo {
            number: block.number,
            state: block.state(pin),
            rows,
            gaps: block.gone(),
            bytes,
            holders,
            versions: block.versions.linked(),
        }
    }
}
