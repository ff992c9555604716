//! Constants below joins.
//!
//! What is constant in the rows of one side of a join, DataFusion 55 keeps for constant in the join's rows, and leaves out the sort
//! that an ORDER BY or a window above needs. That is wrong where a row of the other side may go without a match: it has NULL
//! there. And where it is right, a later rule may lose the constant again, and the plan is refused. So the sides of joins that have
//! constants, and inputs of unions that have some, are hidden behind an operator that passes rows on and says nothing of them. A sort by a constant costs next to nothing.
//! A plan that is refused all the same is made again with every side hidden, and every input of a union. So are rows
//! of which a condition says that a column equals what is computed.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::union::{InterleaveExec, UnionExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use super::opaque::OpaqueExec;

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
            // A union loses what its inputs know to be equal, and with it a part of their order. What is constant in each of them
            // is none in all of them.
            let unions = node.is::<UnionExec>() || node.is::<InterleaveExec>();
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
