//! Limits that stay where they are while sorts are placed.
//!
//! DataFusion 55 moves a sort, and the order that a window or a join asks for, below a limit, and forgets the limit's offset: of
//! `SELECT i FROM (SELECT i FROM t LIMIT 2 OFFSET 1) ORDER BY i DESC` it made the second of the two greatest. And it takes the sort below an
//! offset away where nobody above asks for its order: `i NOT IN (SELECT i FROM t ORDER BY j OFFSET 4)`.
//!
//! So a limit passes no order on and takes no sort in, and the sort that decides which rows it takes is asked for, until sorts are placed:
//!
//! ```text
//! GlobalLimitExec                HeldExec of a limit                              GlobalLimitExec
//!   ProjectionExec       ──▶       ProjectionExec      ── EnsureRequirements ──▶    ProjectionExec
//!     SortExec                       HeldExec of an order                             SortExec
//!                                      SortExec
//! ```

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{
    Distribution, EquivalenceProperties, LexOrdering, OrderingRequirements,
};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::output_requirements::OutputRequirementExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, PhysicalExpr,
    PlanProperties,
};

/// Holds the limits, or lets them go.
#[derive(Debug)]
pub(super) enum Limits {
    Held,
    Free,
}

impl PhysicalOptimizerRule for Limits {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match self {
            Limits::Held => held(plan, true),
            Limits::Free => plan
                .transform_up(|node| match node.downcast_ref::<HeldExec>() {
                    Some(held) => Ok(Transformed::yes(held.freed())),
                    None => Ok(Transformed::no(node)),
                })
                .data(),
        }
    }

    fn name(&self) -> &str {
        match self {
            Limits::Held => "hold_limits",
            Limits::Free => "free_limits",
        }
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The plan with its limits held. At the root nothing asks for an order but the query itself, whose sort lies below: there a limit passes
/// its order on.
fn held(node: Arc<dyn ExecutionPlan>, at_root: bool) -> Result<Arc<dyn ExecutionPlan>> {
    let limit = node.downcast_ref::<GlobalLimitExec>();
    let stays_at_root = at_root
        && (limit.is_some()
            || node.is::<ProjectionExec>()
            || node.is::<CoalescePartitionsExec>()
            || node.is::<OutputRequirementExec>());
    let children = node.children().into_iter();
    let children = children
        .map(|child| held(Arc::clone(child), stays_at_root))
        .collect::<Result<Vec<_>>>()?;
    let node = replace_children_if_necessary(node, children)?;
    match node.downcast_ref::<GlobalLimitExec>() {
        Some(limit) if at_root => {
            let input = with_order_asked_for(Arc::clone(limit.input()))?;
            replace_children_if_necessary(node, vec![input])
        }
        Some(limit) => Ok(Arc::new(HeldExec::limit(limit)?)),
        None => Ok(node),
    }
}

/// A limit that stays where it is, or an order that is asked for.
#[derive(Debug, Clone)]
struct HeldExec {
    input: Arc<dyn ExecutionPlan>,
    limit: Option<Limit>,
    /// The order that the input has to have.
    order: Option<LexOrdering>,
    properties: Arc<PlanProperties>,
}

#[derive(Debug, Clone)]
struct Limit {
    skip: usize,
    fetch: Option<usize>,
    kept_order: Option<LexOrdering>,
}

impl HeldExec {
    fn limit(limit: &GlobalLimitExec) -> Result<Self> {
        Ok(HeldExec {
            input: with_order_asked_for(Arc::clone(limit.input()))?,
            limit: Some(Limit {
                skip: limit.skip(),
                fetch: limit.fetch(),
                kept_order: limit.required_ordering().clone(),
            }),
            order: limit.input().properties().output_ordering().cloned(),
            properties: Arc::new(without_order(limit)),
        })
    }

    fn order(sorted: Arc<dyn ExecutionPlan>) -> Self {
        HeldExec {
            limit: None,
            order: sorted.properties().output_ordering().cloned(),
            properties: Arc::clone(sorted.properties()),
            input: sorted,
        }
    }

    /// The limit, or the input.
    fn freed(&self) -> Arc<dyn ExecutionPlan> {
        let input = Arc::clone(&self.input);
        let Some(limit) = &self.limit else {
            return input;
        };
        let mut free = GlobalLimitExec::new(input, limit.skip, limit.fetch);
        free.set_required_ordering(limit.kept_order.clone());
        Arc::new(free)
    }
}

/// What is known of a limit's rows, but for their order and what is equal in them.
fn without_order(limit: &dyn ExecutionPlan) -> PlanProperties {
    let known = limit.properties();
    PlanProperties::new(
        EquivalenceProperties::new(limit.schema()),
        known.output_partitioning().clone(),
        known.emission_type,
        known.boundedness,
    )
    .with_evaluation_type(known.evaluation_type)
    .with_scheduling_type(known.scheduling_type)
}

/// The input of a limit, where the sort that gives it its order is asked for. The keys of the sort may be no columns any more, so it has to be
/// asked for where it is.
fn with_order_asked_for(node: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    if node.is::<SortExec>() {
        return Ok(Arc::new(HeldExec::order(node)));
    }
    let children = node.children();
    match (children.as_slice(), node.maintains_input_order().as_slice()) {
        ([child], [true]) => {
            let child = with_order_asked_for(Arc::clone(child))?;
            replace_children_if_necessary(node, vec![child])
        }
        _ => Ok(node),
    }
}

impl DisplayAs for HeldExec {
    fn fmt_as(&self, form: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        self.freed().fmt_as(form, f)
    }
}

impl ExecutionPlan for HeldExec {
    fn name(&self) -> &str {
        "HeldExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition])
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        vec![self.order.clone().map(OrderingRequirements::from)]
    }

    /// They do; but then sorts would move below.
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
            (Some(input), true) => {
                let mut new = Self::clone(&self);
                new.input = input;
                let free = new.freed();
                new.properties = match new.limit {
                    Some(_) => Arc::new(without_order(free.as_ref())),
                    None => Arc::clone(free.properties()),
                };
                Ok(Arc::new(new))
            }
            _ => internal_err!("a limit has one child"),
        }
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.freed().execute(partition, context)
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let Some(limit) = &self.limit else {
            return Ok(Arc::clone(&inputs[0]));
        };
        let statistics = inputs[0].as_ref().clone();
        Ok(Arc::new(statistics.with_fetch(
            limit.fetch,
            limit.skip,
            1,
        )?))
    }
}
