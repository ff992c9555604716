//! An aggregate that depends on the order of its rows reads them in the order of the subquery below:
//! `SELECT list(x) FROM (SELECT x FROM t ORDER BY x DESC)`.
//!
//! Operators do not promise to keep an order that nobody asks for, so the aggregate asks for the one of the Sort below it, as if
//! it had an ORDER BY of its own.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, SortExpr};

/// Gives the order of the rows below to those aggregates that depend on one and name none.
pub(super) fn order(mut aggregate: Aggregate) -> Result<Aggregate> {
    if !aggregate.aggr_expr.iter().any(depends_on_order) {
        return Ok(aggregate);
    }
    let Some(keys) = order_of(&aggregate.input) else {
        return Ok(aggregate);
    };
    let values = std::mem::take(&mut aggregate.aggr_expr);
    let mut ordered = Vec::with_capacity(values.len());
    for value in values {
        let (relation, name) = value.qualified_name();
        let value = value.transform_up(|expr| {
            let asks = asks_none(&expr);
            Ok(match expr {
                Expr::AggregateFunction(mut function) if asks => {
                    function.params.order_by = keys.clone();
                    Transformed::yes(Expr::AggregateFunction(function))
                }
                other => Transformed::no(other),
            })
        })?;
        ordered.push(match value.transformed {
            true => value.data.unalias().alias_qualified(relation, name),
            false => value.data,
        });
    }
    Aggregate::try_new(aggregate.input, aggregate.group_expr, ordered)
}

fn depends_on_order(expr: &Expr) -> bool {
    let mut found = false;
    // The closure does not fail.
    let _ = expr.apply(|part| {
        found |= asks_none(part);
        Ok(datafusion::common::tree_node::TreeNodeRecursion::Continue)
    });
    found
}

fn asks_none(expr: &Expr) -> bool {
    matches!(expr, Expr::AggregateFunction(function)
        if function.params.order_by.is_empty()
            && !function.params.distinct
            && matches!(function.func.name(), "array_agg" | "string_agg" | "first_value" | "last_value"))
}

/// The keys by which a plan's rows are sorted, as its own columns tell them.
fn order_of(plan: &LogicalPlan) -> Option<Vec<SortExpr>> {
    match plan {
        LogicalPlan::Sort(sort) => Some(sort.expr.clone()),
        LogicalPlan::SubqueryAlias(alias) => {
            let below = alias.input.schema();
            let renamed = |column: &Column| {
                let place = below.maybe_index_of_column(column)?;
                let (qualifier, field) = alias.schema.qualified_field(place);
                Some(Column::from((qualifier, field)))
            };
            mapped(order_of(&alias.input)?, renamed)
        }
        LogicalPlan::Projection(projection) => {
            let passed = |column: &Column| {
                let place = projection.expr.iter().position(
                    |expr| matches!(expr.clone().unalias(), Expr::Column(own) if own == *column),
                )?;
                let (qualifier, field) = projection.schema.qualified_field(place);
                Some(Column::from((qualifier, field)))
            };
            mapped(order_of(&projection.input)?, passed)
        }
        LogicalPlan::Limit(limit) => order_of(&limit.input),
        _ => None,
    }
}

/// The keys over other columns; those from the first one on that cannot be told are left out.
fn mapped(
    keys: Vec<SortExpr>,
    column: impl Fn(&Column) -> Option<Column>,
) -> Option<Vec<SortExpr>> {
    let mut result = Vec::with_capacity(keys.len());
    for key in keys {
        let mut known = true;
        let expr = key.expr.transform_up(|expr| {
            Ok(match &expr {
                Expr::Column(own) => match column(own) {
                    Some(own) => Transformed::yes(Expr::Column(own)),
                    None => {
                        known = false;
                        Transformed::no(expr)
                    }
                },
                _ => Transformed::no(expr),
            })
        });
        match expr {
            Ok(expr) if known => result.push(SortExpr {
                expr: expr.data,
                ..key
            }),
            _ => break,
        }
    }
    (!result.is_empty()).then_some(result)
}
