//! Tables and frames as DataFusion sources.
//!
//! Whatever can be cut into **morsels** of up to 32,768 rows in a fixed order is a [`MorselSource`](source::MorselSource): a stored table at a
//! snapshot, a caller's frame, a system relation. One provider and one operator scan them all:
//!
//! ```text
//!   MorselSource ── TableProvider ── MorselScan ──▶ partition 0: morsels 0 … k
//!   (table, frame)        │              │      ──▶ partition 1: morsels k+1 … n
//!                    static filters   dynamic filters          (ranges in table order, balanced by rows)
//!                    skip morsels     skip morsels and rows
//! ```
//!
//! **Order.** Partitions are consecutive ranges of the table, filters and projections keep the order within them, and
//! [`merge::OrderedMergeExec`] drains them one after the other where DataFusion would interleave them. So scans, filters, projections and
//! LIMIT give rows in the table's order, and two queries of one snapshot agree on it.
//!
//! **Statistics** are exact only when the source says so for this very snapshot; DataFusion answers COUNT, MIN and MAX from exact ones.
//!
//! | module | holds |
//! | --- | --- |
//! | [`source`] | what a scan reads from; tables |
//! | [`frame`] | frames, and the types that operators compute with |
//! | [`index`] | rows that an index leads to |
//! | [`provider`] | the `TableProvider`: projection, limit, static filters |
//! | [`exec`] | the operator and its streams |
//! | [`recursion`] | recursive queries |
//! | [`renewal`] | plans that run again at another snapshot |
//! | [`skipping`] | morsels that no row of which can match |
//! | [`row_filter`] | rows that a dynamic filter takes away |
//! | [`merge`] | partitions to one stream in order |
//! | [`rules`] | what the optimizer must do for order and sound dynamic filters |

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use datafusion::catalog::TableProvider;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::ensure_requirements::EnsureRequirements;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_optimizer::projection_pushdown::ProjectionPushdown;
use firndb_storage::{Form, Snapshot, Table};

use crate::Result;
use crate::session::Frame;

mod constants;
pub mod exec;
pub mod first;
pub mod frame;
pub mod index;
mod limits;
pub mod merge;
mod nulls;
mod opaque;
pub mod ordered;
mod probing;
pub mod provider;
pub mod recursion;
pub mod renewal;
pub mod row_filter;
pub mod rules;
pub mod skipping;
pub mod source;

/// The name of the column that tells a row's slot, where a scan was asked for it.
pub const SLOT_COLUMN: &str = "__slot";

/// Rows that a statement's scans will read at most, and have read: what the progress interface shows.
#[derive(Debug, Default)]
pub struct ScanProgress {
    /// Rows to read, as far as known.
    pub total: AtomicU64,
    /// Rows read.
    pub done: AtomicU64,
}

/// What a table's scan yields.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// The types of its columns.
    pub form: Form,
    /// Whether its last column is `__slot`.
    pub slots: bool,
    /// Whether batches may be as large as extents: nothing computes with them.
    pub whole: bool,
}

/// A stored table at a snapshot as a DataFusion source.
pub fn table_provider(
    table: &Table,
    snapshot: &Snapshot,
    shape: Shape,
    progress: Arc<ScanProgress>,
    paths: Vec<index::IndexPath>,
) -> Result<Arc<dyn TableProvider>> {
    let source = source::TableSource::open(table, snapshot, shape, progress, paths)?;
    Ok(Arc::new(provider::MorselTable::new(Arc::new(source))))
}

/// A caller's frame, scanned in place.
pub fn frame_provider(frame: &Frame) -> Result<Arc<dyn TableProvider>> {
    let source = frame::FrameSource::new(frame)?;
    Ok(Arc::new(provider::MorselTable::new(Arc::new(source))))
}

/// All physical optimizer rules: DataFusion's, as far as they are sound, and ours.
pub fn optimizer_rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    with_constants_hidden(false)
}

/// The rules for a plan that the others led to a refusal of.
pub fn careful_optimizer_rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules = with_constants_hidden(true);
    // It mistakes columns of one side of a join for those of the other (DataFusion 55).
    let projections = ProjectionPushdown::new();
    rules.retain(|rule| rule.name() != projections.name());
    rules
}

fn with_constants_hidden(always: bool) -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules = rules::sound(PhysicalOptimizer::new().rules);
    // Before anything is decided by what is constant, and again before sorts are placed: joins may have been turned.
    let requirements = EnsureRequirements::new();
    if let Some(place) = rules
        .iter()
        .position(|rule| rule.name() == requirements.name())
    {
        rules.insert(place + 1, Arc::new(limits::Limits::Free));
        rules.insert(place, Arc::new(limits::Limits::Held));
        rules.insert(place, Arc::new(constants::ConstantsBelowJoins { always }));
    }
    rules.insert(
        0,
        Arc::new(constants::ConstantsBelowJoins { always: false }),
    );
    rules.insert(0, Arc::new(nulls::KnownKeys));
    rules.extend(physical_rules());
    rules
}

/// Physical optimizer rules that come after DataFusion's own.
pub fn physical_rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    vec![
        Arc::new(rules::ConfineDynamicFilters),
        Arc::new(rules::PreserveOrder),
        Arc::new(rules::YieldingJoins),
        Arc::new(first::FirstByIndex),
        Arc::new(recursion::OwnRecursion),
    ]
}
