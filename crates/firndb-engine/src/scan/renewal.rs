//! Plans that run again: what was planned at one snapshot, over the rows of another.
//!
//! ```text
//! plan ─▶ vacated: no snapshot, no rows ─▶ renewed at a snapshot ─▶ run
//!                    │                        ▲
//!                    └── kept by its text ────┘ as often as it sees the same rows
//! ```
//!
//! Much of a plan goes by the rows that it was made for: which morsels a filter leaves, what COUNT, MIN and MAX are, what a column's greatest
//! value is. So a plan runs again only where every table that it scans holds exactly the rows that it held: nobody is writing to it, and
//! the last commit is the one that the plan saw. Their blocks may have frozen or moved since: the scans are cut anew.
//!
//! What is kept holds tables, and no snapshot: it keeps no old version alive.

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use firndb_storage::Snapshot;

use super::ScanProgress;
use super::exec::MorselScan;
use super::merge::OrderedMergeExec;
use crate::error::Result;

/// A plan without rows.
#[derive(Debug)]
pub struct VacantPlan {
    plan: Arc<dyn ExecutionPlan>,
}

impl VacantPlan {
    /// The plan, if all it scans are tables at rest and all its operators begin anew when their inputs are replaced.
    pub fn of(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Self>> {
        let vacated = rebuilt(plan, &|scan| Ok(scan.vacated()))?;
        Ok(vacated.map(|plan| VacantPlan { plan }))
    }

    /// The plan over what `snapshot` sees, if those are the rows that it was made for.
    pub fn renewed(
        &self,
        snapshot: &Snapshot,
        progress: &Arc<ScanProgress>,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        rebuilt(&self.plan, &|scan| {
            let source = scan.source().renewed(snapshot, progress)?;
            Ok(source.and_then(|source| scan.over(source)))
        })
    }
}

/// A plan over other scans; `None` if one of them can't be replaced, or an operator may not begin anew.
fn rebuilt(
    node: &Arc<dyn ExecutionPlan>,
    scan: &impl Fn(&MorselScan) -> Result<Option<MorselScan>>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(leaf) = node.downcast_ref::<MorselScan>() {
        return Ok(scan(leaf)?.map(|leaf| Arc::new(leaf) as Arc<dyn ExecutionPlan>));
    }
    if !begins_anew(node) {
        return Ok(None);
    }
    let mut children = Vec::with_capacity(1);
    for child in node.children() {
        match rebuilt(child, scan)? {
            Some(child) => children.push(child),
            None => return Ok(None),
        }
    }
    let node = replace_children_if_necessary(Arc::clone(node), children)?;
    Ok(Some(node))
}

/// Whether an operator with other inputs shares nothing with the one that it was made from. Joins keep what they collected, and who filters
/// dynamically keeps the filter.
fn begins_anew(node: &Arc<dyn ExecutionPlan>) -> bool {
    if let Some(sort) = node.downcast_ref::<SortExec>() {
        return sort.fetch().is_none();
    }
    node.is::<AggregateExec>()
        || node.is::<FilterExec>()
        || node.is::<ProjectionExec>()
        || node.is::<RepartitionExec>()
        || node.is::<GlobalLimitExec>()
        || node.is::<LocalLimitExec>()
        || node.is::<SortPreservingMergeExec>()
        || node.is::<OrderedMergeExec>()
}
