//! `l POSITIONAL JOIN r`, as in DuckDB: the n-th row of one side beside the n-th of the other, NULLs beside what is left over.
//!
//! The parser's part of it is `(SELECT * FROM l, r) AS <mark>`. Each side's rows are numbered in their order, the sides joined by
//! their numbers, and the result is sorted by them.

use datafusion::common::{Column, JoinType, Result};
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{Query, SetExpr};

use crate::Error;

/// The columns that number the sides' rows.
const NUMBERS: [&str; 2] = ["__firndb_left_number", "__firndb_right_number"];

/// Plans the join.
pub(super) fn plan(query: Query, context: &mut dyn RelationPlannerContext) -> Result<LogicalPlan> {
    let SetExpr::Select(select) = *query.body else {
        return Err(Error::internal("a POSITIONAL JOIN without sides").into());
    };
    let mut sides = Vec::new();
    for (table, number) in select.from.into_iter().zip(NUMBERS) {
        sides.push(numbered(context.plan(table.relation)?, number)?);
    }
    let (Some(right), Some(left)) = (sides.pop(), sides.pop()) else {
        return Err(Error::internal("a POSITIONAL JOIN of one side").into());
    };
    let columns: Vec<Expr> = (left.schema().iter().chain(right.schema().iter()))
        .filter(|(_, field)| !NUMBERS.contains(&field.name().as_str()))
        .map(|column| Expr::Column(Column::from(column)))
        .collect();
    let number = |name: &str| Column::new_unqualified(name);
    let [first, second] = NUMBERS;
    LogicalPlanBuilder::from(left)
        .join(
            right,
            JoinType::Full,
            (vec![number(first)], vec![number(second)]),
            None,
        )?
        .sort([coalesce(vec![
            Expr::Column(number(first)),
            Expr::Column(number(second)),
        ])
        .sort(true, false)])?
        .project(columns)?
        .build()
}

/// The rows of a side with their numbers at the end.
fn numbered(plan: LogicalPlan, name: &str) -> Result<LogicalPlan> {
    let number = row_number().alias(name);
    LogicalPlanBuilder::from(plan).window([number])?.build()
}
