//! `x NOT IN (SELECT y …)` where neither `x` nor `y` is ever NULL.
//!
//! With NULLs it needs an anti join that knows them, which gathers the side of `x` in one place, however large. Where both
//! keys are columns of tables whose statistics are exact for the snapshot and count no NULL, it is a plain anti join, which DataFusion
//! may turn and partition.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::logical_expr::JoinType;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;

use super::exec::MorselScan;

/// Makes plain anti joins of those that need not know of NULLs.
#[derive(Debug)]
pub(super) struct KnownKeys;

impl PhysicalOptimizerRule for KnownKeys {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let Some(join) = node.downcast_ref::<HashJoinExec>() else {
                return Ok(Transformed::no(node));
            };
            let known = join.null_aware
                && join.on().iter().all(|(left, right)| {
                    never_null(join.left(), left) && never_null(join.right(), right)
                });
            if !known {
                return Ok(Transformed::no(node));
            }
            let plain = join.builder().with_null_aware(false).build()?;
            Ok(Transformed::yes(Arc::new(plain)))
        })
        .data()
    }

    fn name(&self) -> &str {
        "known_keys"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn never_null(plan: &Arc<dyn ExecutionPlan>, key: &PhysicalExprRef) -> bool {
    key.downcast_ref::<Column>()
        .is_some_and(|column| is_known(plan, column.index()))
}

/// Whether a column comes from a scan, through operators that add no NULL to it, and that scan's statistics count none.
fn is_known(plan: &Arc<dyn ExecutionPlan>, column: usize) -> bool {
    if let Some(scan) = plan.downcast_ref::<MorselScan>() {
        return scan.never_null(column);
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        let column = match filter.projection() {
            Some(projection) => projection.get(column).copied(),
            None => Some(column),
        };
        return column.is_some_and(|column| is_known(filter.input(), column));
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let expr = projection.expr().get(column);
        return expr.is_some_and(|projected| never_null(projection.input(), &projected.expr));
    }
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        let column = match &join.projection {
            Some(projection) => projection.get(column).copied(),
            None => Some(column),
        };
        let (Some(column), JoinType::Inner) = (column, *join.join_type()) else {
            return false;
        };
        let left = join.left().schema().fields().len();
        return match column.checked_sub(left) {
            Some(column) => is_known(join.right(), column),
            None => is_known(join.left(), column),
        };
    }
    let passes = plan.is::<CooperativeExec>()
        || plan.is::<RepartitionExec>()
        || plan.is::<CoalescePartitionsExec>();
    match plan.children().as_slice() {
        [input] if passes => is_known(input, column),
        _ => false,
    }
}
