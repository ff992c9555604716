//! Freezing as the engine sees it: forcing it, its setting, its counters, and the blocks of a table.

use std::time::Duration;

use super::Table;
use crate::block::{Block, Column, State};
use crate::freeze::freeze_now;
use crate::frozen::Strings;
use crate::reclaim::Pin;
use crate::relation::heat::{FreezeCounts, THRESHOLD};

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
    /// After how long without a write blocks freeze by themselves, unless something else is set.
    pub const FREEZE_AFTER: Duration = THRESHOLD;

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

    /// What [`set_freeze_after`](Self::set_freeze_after) was told last.
    pub fn freeze_setting(&self) -> Option<Duration> {
        self.relation.heat.setting()
    }

    /// After how long without a write blocks freeze now; `None` for never.
    pub fn freeze_after(&self) -> Option<Duration> {
        self.relation.heat.threshold()
    }

    /// A handle under which the strings of columns, by position, have these formats: those that it loads, and in what it shows (see
    /// [`schema_in`](Self::schema_in)). What freezes follows the handle that was [`adopted`](Self::adopt_strings) last.
    #[must_use]
    pub fn with_strings(&self, formats: &[Strings]) -> Table {
        let columns = self.layout.columns.iter().zip(formats);
        Table {
            formats: columns
                .map(|(info, &strings)| (info.number, strings))
                .collect(),
            ..self.clone()
        }
    }

    /// From now on blocks freeze in this handle's formats of strings, whatever writes them.
    pub fn adopt_strings(&self) {
        self.relation.set_strings(self.formats.clone());
    }

    /// The blocks of which a column, by position, lies in frozen memory as a dictionary.
    pub fn dictionary_blocks(&self, position: usize) -> usize {
        let Some(info) = self.layout.columns.get(position) else {
            return 0;
        };
        let is_coded = |number: &u32| {
            let pin = self.pin();
            let block = self.relation.block(*number, &pin);
            let column = block.and_then(|block| block.column(info.number, &pin));
            matches!(column, Some(Column::Frozen(part))
                if part.column().strings() == Some(Strings::Dictionary))
        };
        (0..self.relation.block_count()).filter(is_coded).count()
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
