//! Physical rules: which of DataFusion's are sound, and those that come after them.

use std::cell::Cell;
use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::physical_expr::expressions::DynamicFilterPhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::filter_pushdown::FilterPushdown;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, PhysicalExpr};

use super::exec::MorselScan;
use super::merge::OrderedMergeExec;

/// DataFusion's rules without what answers wrongly.
///
/// DataFusion 55 carries filters down a physical plan by the *names* of columns. Below a join whose sides have columns of one name
/// (`a.v` and `b.v`) it finds the wrong one: `FROM a RIGHT JOIN b … WHERE (b.v < 6 OR a.v = 100) AND b.v <> 0` came to filter `b` by
/// `v = 100`. Static filters are where they belong already, thanks to the logical rules. Dynamic ones are carried only in plans
/// without such names.
pub(super) fn sound(
    rules: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>,
) -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let of_static = FilterPushdown::new();
    let of_dynamic = FilterPushdown::new_post_optimization();
    rules
        .into_iter()
        .filter(|rule| rule.name() != of_static.name())
        .map(|rule| {
            if rule.name() == of_dynamic.name() {
                Arc::new(UnambiguousPushdown(FilterPushdown::new_post_optimization()))
            } else {
                rule
            }
        })
        .collect()
}

/// Carries dynamic filters to scans where every column's name says which it is.
#[derive(Debug)]
struct UnambiguousPushdown(FilterPushdown);

impl PhysicalOptimizerRule for UnambiguousPushdown {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if plan.exists(|node| Ok(has_ambiguous_names(node) || has_nested_keys(node)))? {
            return Ok(plan);
        }
        self.0.optimize(plan, config)
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

/// Whether a join goes by lists, structs or maps: the least and the greatest of those with NULLs inside, by which a dynamic
/// filter goes, are in no order that the filter's comparison agrees with.
fn has_nested_keys(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let Some(join) = plan.downcast_ref::<HashJoinExec>() else {
        return false;
    };
    let schema = join.left().schema();
    join.on().iter().any(|(left, _)| {
        left.data_type(&schema)
            .map_or(true, |data_type| data_type.is_nested())
    })
}

fn has_ambiguous_names(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let schema = plan.schema();
    let mut names = HashSet::with_capacity(schema.fields().len());
    schema
        .fields()
        .iter()
        .any(|field| !names.insert(field.name().as_str()))
}

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

/// Lets joins yield to their runtime. From one batch of its input a join may make batches for hours, and a cancelled query ends where it yields.
///
/// A yielding operator takes one of the 128 steps that the runtime allows a task before it must yield, on the way to its input. Joins within
/// joins beyond that would never reach their input, so only the outermost yield.
#[derive(Debug)]
pub struct YieldingJoins;

/// Joins around one another that yield: well below the runtime's steps, of which scans and exchanges take some too.
const YIELDING: usize = 32;

impl PhysicalOptimizerRule for YieldingJoins {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let around = Cell::new(0_usize);
        plan.transform_down_up(
            |node| {
                around.set(around.get() + usize::from(is_join(&node)));
                Ok(Transformed::no(node))
            },
            |node| {
                if !is_join(&node) {
                    return Ok(Transformed::no(node));
                }
                around.set(around.get().saturating_sub(1));
                if around.get() >= YIELDING {
                    return Ok(Transformed::no(node));
                }
                Ok(Transformed::yes(Arc::new(CooperativeExec::new(node))))
            },
        )
        .data()
    }

    fn name(&self) -> &str {
        "yielding_joins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn is_join(node: &Arc<dyn ExecutionPlan>) -> bool {
    node.is::<CrossJoinExec>() || node.is::<NestedLoopJoinExec>() || node.is::<HashJoinExec>()
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
