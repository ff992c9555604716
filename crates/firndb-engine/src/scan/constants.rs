//! Constants below joins.
//!
//! What is constant in the rows of one side of a join, DataFusion 55 keeps for constant in the join's rows, and leaves out the sort
//! that an ORDER BY or a window above needs. That is wrong where a row of the other side may go without a match: it has NULL
//! there. And where it is right, a later rule may lose the constant again, and the plan is refused. So the sides of joins that have
//! constants are hidden behind an operator that passes rows on and says nothing of them. A sort by a constant costs next to nothing.
//! A plan that is refused all the same is made again with every side hidden, and every input of a union. So are rows
//! of which a condition says that a column equals what is computed.

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::{CardinalityEffect, replace_children_if_necessary};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::filter_pushdown::{FilterDescription, FilterPushdownPhase};
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::union::{InterleaveExec, UnionExec};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PhysicalExpr,
    PlanProperties,
};

/// Hides the constants of joins' sides.
#[derive(Debug)]
pub(super) struct ConstantsBelowJoins {
    /// Whether to hide whatever DataFusion may come to know of every side, now or later.
    pub(super) always: bool,
}

impl PhysicalOptimizerRule for ConstantsBelowJoins {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            if node.is::<FilterExec>() && equals_computed(&node) {
                return Ok(Transformed::yes(Arc::new(OpaqueExec::new(node))));
            }
            let joins = node.is::<HashJoinExec>()
                || node.is::<NestedLoopJoinExec>()
                || node.is::<SortMergeJoinExec>();
            // A union loses what its inputs know to be equal, and with it a part of their order.
            let unions = self.always && (node.is::<UnionExec>() || node.is::<InterleaveExec>());
            if !joins && !unions {
                return Ok(Transformed::no(node));
            }
            let mut changed = false;
            let children = node
                .children()
                .into_iter()
                .map(|child| {
                    if !self.always && child.equivalence_properties().constants().is_empty() {
                        return Arc::clone(child);
                    }
                    changed = true;
                    Arc::new(OpaqueExec::new(Arc::clone(child))) as _
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
        "constants_below_joins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Whether rows are known to have columns that equal computed values: `WHERE lower(c) = c`. A window that is partitioned by such a column
/// would look for the value instead, and fail.
fn equals_computed(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let classes = plan.equivalence_properties().eq_group();
    let mut members = classes.iter().flat_map(|class| class.iter());
    members.any(|member| !member.is::<Column>() && !member.is::<Literal>())
}

/// Passes rows on and says nothing of them.
#[derive(Debug, Clone)]
struct OpaqueExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl OpaqueExec {
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
        OpaqueExec {
            input,
            properties: Arc::new(properties),
        }
    }
}

impl DisplayAs for OpaqueExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "OpaqueExec")
    }
}

impl ExecutionPlan for OpaqueExec {
    fn name(&self) -> &str {
        "OpaqueExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    /// It does; but a sort that the join asks for would be pushed below, and left out there for the constant.
    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false]
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
            (Some(input), true) => Ok(Arc::new(OpaqueExec::new(input))),
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
