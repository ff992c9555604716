//! The freezer: turns cold hot blocks into frozen extents, in the background.
//!
//! After *Mainlining Databases*, section 4.
//!
//! ```text
//!   collector ──note──► Observer ──cold blocks──► compact ──► collector (records of the moves) ──note──► …
//!                       (observe.rs)                  │ nothing to move
//!                                                     ▼
//!                                                  gather: cooling ─ epoch ─ freezing ─ build ─ publish
//! ```
//!
//! One thread, asleep while nothing is cold; a timer runs only while some block may become cold. [`freeze_now`] does the same on the caller's thread.
//!
//! Decisions, and why they are sound:
//!
//! - **The state is in each column's pointer** (see [`crate::protocol::Place`]), not in a flag of the block. So publishing is one compare-and-swap a
//!   column, a writer that comes in the middle finds some columns frozen and others hot, which is what a block looks like that was thawed in part, and nobody
//!   ever waits for the freezer. What the tables show as the state of a block is derived.
//! - **A deletion does not preempt.** It touches the descriptor only. The liveness that the freezer copied is right for every snapshot (no record was linked
//!   then); a row deleted later keeps its value in the frozen column, patched or dropped by its liveness as ever.
//! - **The open tail freezes too**, as a short part of an extent, and stays open: the next insertion thaws it, to its full capacity, and goes on in it. So
//!   insertion order holds, small tables end frozen, and there are no short blocks to be merged. Rows that were given out and not written yet show in the
//!   numbers of [`crate::block::Block::quiet_rows`]; an inserter warms every column before it stores, so he preempts like any writer.
//! - **Extents are rewritten** when their garbage exceeds what lives in them (see `rewrite`).
//! - **Trailing gaps of a closed block are cut off**: the part shows fewer rows, and the block is as clean as a full one.

mod columns;
mod compact;
mod gather;
#[cfg(test)]
mod gather_tests;
mod rewrite;
mod select;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::collect::Collector;
use crate::relation::Relation;

/// After how long blocks are visited again for which there was no memory.
const LATER: Duration = Duration::from_secs(1);

/// How often memory that waits for operations to end is looked after.
const RECLAIM: Duration = Duration::from_millis(5);

/// What became of blocks that were visited.
#[derive(Debug, Default)]
pub(crate) struct Visit {
    /// Blocks that became frozen.
    pub(crate) frozen: Vec<u32>,
    /// Blocks that are frozen already, empty, or gone.
    pub(crate) done: Vec<u32>,
    /// Blocks that have versions, or were written meanwhile: the collector will meet their records.
    pub(crate) busy: Vec<u32>,
    /// Blocks for which there was no memory, or an operation that ran for long.
    pub(crate) later: Vec<u32>,
}

/// Freezes what becomes cold until the collector's observer is stopped.
pub(crate) fn run(collector: &Arc<Collector>) {
    let observer = collector.observer();
    while !observer.stopped() {
        let now = Instant::now();
        let (cold, next) = observer.take_cold(now);
        if cold.is_empty() {
            // The hot columns that were replaced: the collector may be asleep.
            let waiting = collector.resources().reclaimer.reclaim();
            observer.wait(next, (waiting > 0).then_some(RECLAIM));
            continue;
        }
        for cold in cold {
            if observer.stopped() {
                return;
            }
            cold.relation.heat.adapt();
            // A panic leaves tags behind, which the next writer or freezer takes away.
            let visited = catch_unwind(AssertUnwindSafe(|| {
                visit(collector, &cold.relation, &cold.blocks)
            }));
            let Ok(visit) = visited else { continue };
            observer.forget(&cold.relation, &visit.frozen, now);
            observer.forget(&cold.relation, &visit.done, now);
            observer.note_for(&cold.relation, visit.later, LATER);
            // It looks after what waits for operations to end.
            collector.resources().clock.bell().ring();
        }
    }
}

/// Compacts and freezes what can be of these blocks, ascending. What a compaction moved freezes when its records have been collected.
fn visit(collector: &Arc<Collector>, relation: &Arc<Relation>, blocks: &[u32]) -> Visit {
    let _freezer = relation.heat.freezer.lock();
    compact::compact(collector, relation, blocks, false);
    let visit = gather::gather(relation, blocks);
    rewrite(collector, relation);
    visit
}

/// Rewrites what lives in extents that are mostly garbage. What cannot be gathered at once is noted.
fn rewrite(collector: &Collector, relation: &Arc<Relation>) {
    let thawed = rewrite::thaw_sparse(relation);
    if !thawed.is_empty() {
        let visit = gather::gather(relation, &thawed);
        let left = visit.busy.into_iter().chain(visit.later);
        collector.observer().note(relation, left);
    }
}

/// Compacts and freezes what can be of a relation, cold or not.
pub(crate) fn freeze_now(collector: &Arc<Collector>, relation: &Arc<Relation>) -> Visit {
    let blocks = || (0..relation.block_count()).collect::<Vec<u32>>();
    let _freezer = relation.heat.freezer.lock();
    // After the background's compaction, if we waited for one.
    collector.collect();
    if compact::compact(collector, relation, &blocks(), true) {
        collector.collect();
    }
    rewrite::thaw_other_formats(relation);
    let visit = gather::gather(relation, &blocks());
    rewrite(collector, relation);
    relation.resources.reclaimer.reclaim();
    visit
}
