//! The side of an outer join that a row may go without.
//!
//! What is constant in that side's rows is not constant in the join's: a row without a match has NULL there. DataFusion 55 keeps it
//! for constant all the same, and leaves out the sort that an ORDER BY or a window above the join needs. Here such a side is
//! hidden behind an operator that passes its rows on and says nothing of them.

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinType, Result, Statistics, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::{CardinalityEffect, replace_children_if_necessary};
use datafusion::physical_plan::filter_pushdown::{FilterDescription, FilterPushdownPhase};
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PhysicalExpr,
    PlanProperties,
};

/// Hides the constants of those sides.
#[derive(Debug)]
pub(super) struct OptionalSides;

impl PhysicalOptimizerRule for OptionalSides {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let Some(join_type) = join_type(&node) else {
                return Ok(Transformed::no(node));
            };
            let optional = match join_type {
                JoinType::Left => [false, true],
                JoinType::Right => [true, false],
                JoinType::Full => [true, true],
                _ => return Ok(Transformed::no(node)),
            };
            let mut changed = false;
            let children = node
                .children()
                .into_iter()
                .zip(optional)
                .map(|(child, optional)| {
                    if !optional || child.equivalence_properties().constants().is_empty() {
                        return Arc::clone(child);
                    }
                    changed = true;
                    Arc::new(OptionalSideExec::new(Arc::clone(child))) as _
                })
                .collect();
            match changed {
                true => replace_children_if_necessary(node, children).map(Transformed::yes),
                false => Ok(Transformed::no(node)),
            }
        })
        .data()
    }

    fn name(&self) -> &str {
        "optional_sides"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn join_type(plan: &Arc<dyn ExecutionPlan>) -> Option<JoinType> {
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        return Some(*join.join_type());
    }
    if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
        return Some(*join.join_type());
    }
    let join = plan.downcast_ref::<SortMergeJoinExec>()?;
    Some(join.join_type())
}

/// Passes rows on and says nothing of them.
#[derive(Debug, Clone)]
struct OptionalSideExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl OptionalSideExec {
    fn new(input: Arc<dyn ExecutionPlan>) -> Self {
        let known = input.properties();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            known.output_partitioning().clone(),
            input.pipeline_behavior(),
            input.boundedness(),
        )
        .with_evaluation_type(known.evaluation_type)
        .with_scheduling_type(known.scheduling_type);
        OptionalSideExec {
            input,
            properties: Arc::new(properties),
        }
    }
}

impl DisplayAs for OptionalSideExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "OptionalSideExec")
    }
}

impl ExecutionPlan for OptionalSideExec {
    fn name(&self) -> &str {
        "OptionalSideExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => Ok(Arc::new(OptionalSideExec::new(input))),
            _ => internal_err!("the side of a join has one child"),
        }
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        Ok(Arc::clone(&inputs[0]))
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }

    fn gather_filters_for_pushdown(
        &self,
        _: FilterPushdownPhase,
        parent_filters: Vec<Arc<dyn PhysicalExpr>>,
        _: &ConfigOptions,
    ) -> Result<FilterDescription> {
        FilterDescription::from_children(parent_filters, &self.children())
    }
}
