//! INTERSECT ALL and EXCEPT ALL count: the n-th copy of a row meets the n-th copy of the other side.
//!
//! Each side's rows are numbered among their equals, and the set operation takes the number for one more column. DataFusion's
//! semi and anti joins alone would keep or drop all copies at once.

use datafusion::common::{Column, DataFusionError, Result};
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::logical_expr::{Expr, ExprFunctionExt, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{Query, SetExpr, SetOperator};

use super::grouping_sets;
use super::syntax::{bare_query, derived};
use crate::expr::{set_inputs, settled};
use crate::{Error, SqlState};

/// Plans `l INTERSECT ALL r` or `l EXCEPT ALL r`.
pub(super) fn plan(query: Query, context: &mut dyn RelationPlannerContext) -> Result<LogicalPlan> {
    let SetExpr::SetOperation {
        op, left, right, ..
    } = *query.body
    else {
        return context.plan(derived(query, None));
    };
    let left = context.plan(derived(bare_query(*left), None))?;
    let right = context.plan(derived(bare_query(*right), None))?;
    let (width, other) = (left.schema().fields().len(), right.schema().fields().len());
    if width != other {
        return Err(Error::new(
            SqlState::SyntaxError,
            format!("each {op} query must have the same number of columns"),
        )
        .into());
    }
    let named: Vec<_> = left
        .schema()
        .iter()
        .map(|(qualifier, field)| (qualifier.cloned(), field.name().clone()))
        .collect();
    // Rows are numbered among those that they equal on the other side, too.
    let (left, right) = set_inputs(
        settled(grouping_sets::rewrite(left)?)?,
        settled(grouping_sets::rewrite(right)?)?,
    )?;
    let (left, right) = (numbered(left)?, numbered(right)?);
    let plan = match op {
        SetOperator::Intersect => LogicalPlanBuilder::intersect(left, right, true)?,
        _ => LogicalPlanBuilder::except(left, right, true)?,
    };
    let columns: Vec<Expr> = plan
        .schema()
        .iter()
        .zip(named)
        .map(|(column, (qualifier, name))| {
            Expr::Column(Column::from(column)).alias_qualified(qualifier, name)
        })
        .collect();
    debug_assert_eq!(columns.len(), width);
    LogicalPlanBuilder::from(plan).project(columns)?.build()
}

/// The rows under positional names, each with its number among its equals at the end.
fn numbered(plan: LogicalPlan) -> Result<LogicalPlan> {
    let columns: Vec<Expr> = plan
        .schema()
        .iter()
        .enumerate()
        .map(|(position, column)| {
            Expr::Column(Column::from(column)).alias(format!("__firndb_{position}"))
        })
        .collect();
    let width = columns.len();
    let plan = LogicalPlanBuilder::from(plan).project(columns)?.build()?;
    let names: Vec<Expr> = (0..width)
        .map(|position| Expr::Column(Column::new_unqualified(format!("__firndb_{position}"))))
        .collect();
    let number = row_number().partition_by(names.clone()).build()?;
    let name = number.schema_name().to_string();
    let number = Expr::Column(Column::new_unqualified(name)).alias(format!("__firndb_{width}"));
    LogicalPlanBuilder::from(plan)
        .window(vec![row_number().partition_by(names.clone()).build()?])?
        .project(names.into_iter().chain([number]))?
        .build()
        .map_err(|error: DataFusionError| error)
}
