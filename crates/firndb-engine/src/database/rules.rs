//! DataFusion's logical rules without what answers wrongly.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{NullEquality, Result};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::eliminate_cross_join::EliminateCrossJoin;
use datafusion::optimizer::{ApplyOrder, Optimizer, OptimizerConfig, OptimizerRule};

/// The rules.
pub(super) fn logical() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let cross_join = EliminateCrossJoin::new();
    Optimizer::new()
        .rules
        .into_iter()
        .map(|rule| match rule.name() == cross_join.name() {
            true => Arc::new(NullsKept(EliminateCrossJoin::new())) as _,
            false => rule,
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
