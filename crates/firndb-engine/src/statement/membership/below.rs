//! Scalar subqueries computed below the operator that asks for their values.
//!
//! DataFusion joins subqueries in projections and filters only, and takes two copies of one that stands in a sort key for different
//! orders. So where an aggregation, a sort, a window or a join holds subqueries, a projection below it yields their values as columns,
//! which end above it:
//!
//! ```text
//! Sort by (SELECT …) over t    ─▶   project t.* over Sort by v over project t.*, (SELECT …) AS v over t
//! ```

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, Result as PlanResult};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan, LogicalPlanBuilder};

use super::MEMBERS;

/// Computes the scalar subqueries of an aggregation, a sort, a window or DISTINCT ON in a projection below it.
pub(super) fn compute(plan: LogicalPlan) -> PlanResult<Transformed<LogicalPlan>> {
    if !matches!(
        plan,
        LogicalPlan::Aggregate(_)
            | LogicalPlan::Sort(_)
            | LogicalPlan::Window(_)
            | LogicalPlan::Distinct(Distinct::On(_))
    ) {
        return Ok(Transformed::no(plan));
    }
    let outputs = plan.schema().columns();
    let names = NamePreserver::new(&plan);
    let mut below = Below::default();
    let rewritten = plan.map_expressions(|expression| {
        let name = names.save(&expression);
        let pulled = below.pull(expression, &mut |_| Ok(true))?;
        Ok(match pulled.transformed {
            true => pulled.update_data(|expression| name.restore(expression)),
            false => pulled,
        })
    })?;
    if below.values.is_empty() {
        return Ok(rewritten);
    }
    let plan = match rewritten.data {
        LogicalPlan::Distinct(Distinct::On(mut node)) => {
            node.input = Arc::new(below.over(Arc::unwrap_or_clone(node.input))?);
            return Ok(Transformed::yes(LogicalPlan::Distinct(Distinct::On(node))));
        }
        plan => plan,
    };
    let input = match plan.inputs()[..] {
        [input] => below.over(input.clone())?,
        _ => return Ok(Transformed::no(plan)),
    };
    let expressions = plan.expressions();
    let plan = plan.with_new_exprs(expressions, vec![input])?;
    if matches!(plan, LogicalPlan::Aggregate(_)) {
        return Ok(Transformed::yes(plan));
    }
    let plan = LogicalPlanBuilder::from(plan)
        .project(outputs.into_iter().map(Expr::Column))?
        .build()?;
    Ok(Transformed::yes(plan))
}

/// Scalar subqueries taken out of expressions, each with the column that holds its value.
#[derive(Debug, Default)]
pub(super) struct Below {
    values: Vec<(Expr, Column)>,
    /// What tells the columns from those of another such projection.
    mark: &'static str,
}

impl Below {
    /// For one of two inputs.
    pub(super) fn of_side(mark: &'static str) -> Self {
        Below {
            values: Vec::new(),
            mark,
        }
    }

    /// Puts columns in the places of those scalar subqueries that `taken` tells.
    pub(super) fn pull(
        &mut self,
        expression: Expr,
        taken: &mut dyn FnMut(&Expr) -> PlanResult<bool>,
    ) -> PlanResult<Transformed<Expr>> {
        expression.transform_down(|part| {
            if !matches!(part, Expr::ScalarSubquery(_)) || !taken(&part)? {
                return Ok(Transformed::no(part));
            }
            let known = self.values.iter().find(|(value, _)| *value == part);
            let column = match known {
                Some((_, column)) => column.clone(),
                None => {
                    let name = format!("{MEMBERS}_{}{}", self.mark, self.values.len());
                    let column = Column::new_unqualified(name);
                    self.values.push((part, column.clone()));
                    column
                }
            };
            Ok(Transformed::yes(Expr::Column(column)))
        })
    }

    /// The rows of `input` with the values beside them.
    pub(super) fn over(self, input: LogicalPlan) -> PlanResult<LogicalPlan> {
        if self.values.is_empty() {
            return Ok(input);
        }
        let columns = input.schema().columns().into_iter().map(Expr::Column);
        let values = self
            .values
            .into_iter()
            .map(|(value, column)| value.alias(column.name));
        let projected: Vec<Expr> = columns.chain(values).collect();
        LogicalPlanBuilder::from(input).project(projected)?.build()
    }
}
