//! DataFusion's logical rules without what answers wrongly.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{NullEquality, Result};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::eliminate_cross_join::EliminateCrossJoin;
use datafusion::optimizer::push_down_filter::PushDownFilter;
use datafusion::optimizer::{ApplyOrder, Optimizer, OptimizerConfig, OptimizerRule};

/// The rules.
pub(super) fn logical() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let (cross_join, filters) = (EliminateCrossJoin::new(), PushDownFilter::new());
    let rules = Optimizer::new().rules.into_iter();
    rules
        .map(|rule| match rule.name() {
            name if name == cross_join.name() => {
                Arc::new(NullsKept(EliminateCrossJoin::new())) as _
            }
            name if name == filters.name() => Arc::new(GroupsKept(PushDownFilter::new())) as _,
            _ => rule,
        })
        .collect()
}

/// DataFusion 55 takes a chain of inner joins apart and makes it anew of keys that NULL never equals, also where
/// `IS NOT DISTINCT FROM` joined. Chains with such a join stay as they are.
#[derive(Debug)]
struct NullsKept(EliminateCrossJoin);

impl OptimizerRule for NullsKept {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let nulls_join = plan.exists(|node| {
            Ok(matches!(node, LogicalPlan::Join(join)
                if join.null_equality == NullEquality::NullEqualsNull))
        })?;
        if nulls_join {
            return Ok(Transformed::no(plan));
        }
        self.0.rewrite(plan, config)
    }
}

/// DataFusion 55 pushes a condition without columns below every aggregate, of which one without keys, or with the empty grouping set, has a row
/// where its input has none: `SELECT count(*) FROM t HAVING NULL`. There the conditions stay above.
#[derive(Debug)]
struct GroupsKept(PushDownFilter);

impl OptimizerRule for GroupsKept {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        if let LogicalPlan::Filter(filter) = &plan
            && let LogicalPlan::Aggregate(aggregate) = filter.input.as_ref()
            && !aggregate
                .group_expr
                .iter()
                .any(|key| !matches!(key, Expr::GroupingSet(_)))
            && split_conjunction(&filter.predicate)
                .iter()
                .any(|condition| condition.column_refs().is_empty())
        {
            return Ok(Transformed::no(plan));
        }
        self.0.rewrite(plan, config)
    }
}
