//! Queries that hand columns through: what they scan may come in the form that its reader wants.

use datafusion::logical_expr::{Expr, LogicalPlan};

/// How much a query does to the columns that it reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Plain {
    /// It computes.
    No,
    /// It filters and sorts, and yields bare columns.
    Rows,
    /// It yields bare columns of all rows.
    Columns,
}

/// How much a plan does to the columns that it reads.
pub(super) fn plainness(plan: &LogicalPlan) -> Plain {
    match plan {
        LogicalPlan::Projection(node) => {
            let bare = node.expr.iter().all(|expression| match expression {
                Expr::Column(_) => true,
                Expr::Alias(alias) => matches!(*alias.expr, Expr::Column(_)),
                _ => false,
            });
            if bare {
                plainness(&node.input)
            } else {
                Plain::No
            }
        }
        LogicalPlan::SubqueryAlias(node) => plainness(&node.input),
        LogicalPlan::Limit(node) => plainness(&node.input),
        LogicalPlan::Filter(node) => plainness(&node.input).min(Plain::Rows),
        LogicalPlan::Sort(node) => plainness(&node.input).min(Plain::Rows),
        LogicalPlan::TableScan(node) if node.filters.is_empty() => Plain::Columns,
        LogicalPlan::TableScan(_) => Plain::Rows,
        _ => Plain::No,
    }
}
