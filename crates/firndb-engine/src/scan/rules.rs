//! Physical rules that come after DataFusion's own.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::physical_expr::expressions::DynamicFilterPhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, PhysicalExpr};

use super::exec::MorselScan;
use super::merge::OrderedMergeExec;

/// Merges partitions in their order wherever DataFusion would interleave them, at the root of the plan too.
#[derive(Debug)]
pub struct PreserveOrder;

impl PhysicalOptimizerRule for PreserveOrder {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = plan
            .transform_up(|node| {
                let Some(merge) = node.downcast_ref::<CoalescePartitionsExec>() else {
                    return Ok(Transformed::no(node));
                };
                if merge.input().output_partitioning().partition_count() < 2 {
                    return Ok(Transformed::no(node));
                }
                let input = Arc::clone(merge.input());
                Ok(Transformed::yes(Arc::new(OrderedMergeExec::new(
                    input,
                    merge.fetch(),
                ))))
            })
            .data()?;
        if plan.output_partitioning().partition_count() > 1 {
            return Ok(Arc::new(OrderedMergeExec::new(plan, None)));
        }
        Ok(plan)
    }

    fn name(&self) -> &str {
        "preserve_order"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Takes from a scan the dynamic filters of operators above a limit that lies between them.
///
/// DataFusion pushes a join's dynamic filter through operators that have a row limit of their own; the scan would then drop rows that count
/// towards the limit, and the limit would let in rows that it should not.
#[derive(Debug)]
pub struct ConfineDynamicFilters;

impl PhysicalOptimizerRule for ConfineDynamicFilters {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !has_limit(&plan)? {
            return Ok(plan);
        }
        confine(plan, None)
    }

    fn name(&self) -> &str {
        "confine_dynamic_filters"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn has_limit(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    plan.exists(|node| Ok(node.fetch().is_some()))
}

/// `allowed`: the filters made below the nearest limit above; `None` when there is no limit.
fn confine(
    plan: Arc<dyn ExecutionPlan>,
    allowed: Option<&HashSet<u64>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some(scan) = plan.downcast_ref::<MorselScan>() {
        let Some(allowed) = allowed else {
            return Ok(plan);
        };
        let kept = scan
            .dynamic_filters()
            .iter()
            .filter(|filter| made_within(filter, allowed))
            .cloned()
            .collect::<Vec<_>>();
        if kept.len() == scan.dynamic_filters().len() {
            return Ok(plan);
        }
        return Ok(Arc::new(scan.with_dynamic_filters(kept)));
    }
    // A node's own filter applies below its limit: a top-k's bound, for one.
    let own = plan
        .dynamic_expressions_produced()
        .into_iter()
        .filter_map(|e| e.expression_id());
    let below: Option<HashSet<u64>> = match (allowed, plan.fetch()) {
        (_, Some(_)) => Some(own.collect()),
        (Some(allowed), None) => Some(allowed.iter().copied().chain(own).collect()),
        (None, None) => None,
    };
    let children = plan.children();
    if children.is_empty() {
        return Ok(plan);
    }
    let mut changed = false;
    let mut confined = Vec::with_capacity(children.len());
    for child in children {
        let new = confine(Arc::clone(child), below.as_ref())?;
        changed |= !Arc::ptr_eq(&new, child);
        confined.push(new);
    }
    if changed {
        replace_children_if_necessary(plan, confined)
    } else {
        Ok(plan)
    }
}

/// Whether every dynamic filter in an expression is one of `allowed`.
fn made_within(filter: &Arc<dyn PhysicalExpr>, allowed: &HashSet<u64>) -> bool {
    let mut within = true;
    let walked = filter.apply(|e| {
        if let Some(dynamic) = e.downcast_ref::<DynamicFilterPhysicalExpr>()
            && !dynamic
                .expression_id()
                .is_some_and(|id| allowed.contains(&id))
        {
            within = false;
            return Ok(TreeNodeRecursion::Stop);
        }
        Ok(TreeNodeRecursion::Continue)
    });
    walked.is_ok() && within
}
