//! Window frames that DataFusion takes and SQL does not: `ORDER BY text RANGE 1 PRECEDING`, for texts have no distances.

use datafusion::common::Result as PlanResult;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{
    Expr, ExprSchemable, LogicalPlan, WindowFrameBound, WindowFrameUnits,
};

use crate::types::sql_name;
use crate::{Error, Result};

/// Checks the frames of a plan and its subqueries. 0A000 for distances between what has none.
pub(super) fn check(plan: &LogicalPlan) -> Result<()> {
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Window(window) = node {
            for expression in &window.window_expr {
                check_expression(expression, window.input.schema())?;
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

fn check_expression(expression: &Expr, schema: &datafusion::common::DFSchema) -> PlanResult<()> {
    expression.apply(|part| {
        let Expr::WindowFunction(function) = part else {
            return Ok(TreeNodeRecursion::Continue);
        };
        let frame = &function.params.window_frame;
        let distance = |bound: &WindowFrameBound| {
            matches!(bound, WindowFrameBound::Preceding(by) | WindowFrameBound::Following(by) if !by.is_null())
        };
        if frame.units == WindowFrameUnits::Range
            && (distance(&frame.start_bound) || distance(&frame.end_bound))
            && let [key] = function.params.order_by.as_slice()
        {
            let (_, field) = key.expr.to_field(schema)?;
            if field.data_type().is_string() {
                return Err(Error::unsupported(format!(
                    "RANGE with offset PRECEDING or FOLLOWING is not supported for column type {}",
                    sql_name(&field).to_lowercase()
                ))
                .into());
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}
