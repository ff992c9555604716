//! Rewriting the heap of a block whose garbage exceeds what lives: single values move under a mark (see the protocol).

use std::sync::atomic::{Ordering, fence};

use super::Relation;
use super::chain::chain;
use crate::Result;
use crate::block::Block;
use crate::block::heap::view_place;
use crate::block::hot::HotColumn;
use crate::protocol::{Head, Observed, Outcome};
use crate::reclaim::Pin;

impl Relation {
    /// Moves values out of heap buffers that hold mostly garbage. Rows that are being written, or that have aborted records, stay for the
    /// next time. Only the collector calls this.
    pub(crate) fn compact_heaps(&self, block: &Block, pin: &Pin<'_>) -> Result<()> {
        for column in self.heap_columns(block, pin) {
            let Some(heap) = column.heap() else { continue };
            let sparse = heap.begin_moving(pin);
            if sparse.is_empty() {
                continue;
            }
            for row in 0..block.rows() {
                let value = column.load(row);
                let is_sparse =
                    view_place(value.words).is_some_and(|(buffer, _)| sparse.contains(&buffer));
                if value.valid && is_sparse {
                    move_value(block, column, row, &sparse, pin)?;
                }
            }
            heap.end_moving();
        }
        Ok(())
    }
}

fn move_value(
    block: &Block,
    column: &HotColumn,
    row: usize,
    sparse: &[u32],
    pin: &Pin<'_>,
) -> Result<()> {
    let Some(heap) = column.heap() else {
        return Ok(());
    };
    let heads = block.versions.attach(1, pin);
    let head = heads.head(row);
    let mut moved = Ok(());
    if let Observed::Open(state) = head.observe() {
        let quiet = Head::observed(state, pin)
            .is_none_or(|link| link.stamp.outcome(pin) != Outcome::InProgress)
            && !chain(head, pin).any(|link| matches!(link.stamp.outcome(pin), Outcome::Aborted(_)));
        if quiet && head.mark(state) {
            let old = column.load(row);
            let wanted = old.valid
                && view_place(old.words).is_some_and(|(buffer, _)| sparse.contains(&buffer));
            if wanted {
                moved = heap
                    .bytes(old.words, pin)
                    .and_then(|bytes| heap.append(bytes, pin))
                    .map(|words| {
                        fence(Ordering::Release);
                        column.relocate(row, words);
                    });
            }
            head.unmark(state, wanted && moved.is_ok());
            if wanted && moved.is_ok() {
                column.release(old, pin);
            }
        }
    }
    block.versions.uncount(1);
    moved
}
