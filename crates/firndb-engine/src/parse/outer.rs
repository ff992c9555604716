//! Aggregates of an outer query within a subquery without FROM: `SELECT (SELECT sum(t.a)) FROM t` is `SELECT sum(t.a) FROM t`.
//!
//! An aggregate belongs to the query whose columns it is of, so this one to the outer query, as the standard has it. A subquery
//! that aggregates no column (`count(*)`) keeps its own single row.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, GroupByExpr, Query, Select, SelectItem, SetExpr, Visit, Visitor,
    visit_expressions,
};

/// Functions of which one over columns makes a query an aggregating one.
const AGGREGATES: [&str; 25] = [
    "sum",
    "count",
    "min",
    "max",
    "avg",
    "mean",
    "median",
    "mode",
    "product",
    "first",
    "first_value",
    "last",
    "last_value",
    "array_agg",
    "list",
    "string_agg",
    "group_concat",
    "bool_and",
    "bool_or",
    "stddev",
    "stddev_pop",
    "variance",
    "var_pop",
    "quantile_cont",
    "quantile_disc",
];

/// Puts the expression of such a subquery in the subquery's place.
pub(super) fn rewrite(expr: &mut Expr) {
    let Expr::Subquery(query) = expr else {
        return;
    };
    if let Some(inner) = only_expression(query)
        && aggregates_columns(inner)
    {
        *expr = Expr::Nested(Box::new(inner.clone()));
    }
}

/// The expression of `SELECT e` without anything else.
fn only_expression(query: &Query) -> Option<&Expr> {
    let Query {
        with: None,
        body,
        order_by: None,
        limit_clause: None,
        fetch: None,
        ..
    } = query
    else {
        return None;
    };
    let SetExpr::Select(select) = body.as_ref() else {
        return None;
    };
    let Select {
        distinct: None,
        top: None,
        into: None,
        selection: None,
        having: None,
        qualify: None,
        from,
        group_by: GroupByExpr::Expressions(keys, modifiers),
        projection,
        ..
    } = select.as_ref()
    else {
        return None;
    };
    match (from.as_slice(), keys.as_slice(), modifiers.as_slice()) {
        ([], [], []) => {}
        _ => return None,
    }
    match projection.as_slice() {
        [SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }] => Some(expr),
        _ => None,
    }
}

/// Whether an expression has aggregates, each of columns.
fn aggregates_columns(expr: &Expr) -> bool {
    let mut aggregates = Aggregates {
        queries: 0,
        found: false,
    };
    expr.visit(&mut aggregates).is_continue() && aggregates.found
}

struct Aggregates {
    queries: usize,
    found: bool,
}

impl Visitor for Aggregates {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(function) if self.queries == 0 && is_aggregate(function) => {
                self.found = true;
                match has_column(function) {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                }
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

fn is_aggregate(function: &Function) -> bool {
    function.over.is_none() && AGGREGATES.contains(&function.name.to_string().as_str())
}

fn has_column(function: &Function) -> bool {
    visit_expressions(&function.args, |part| match part {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })
    .is_break()
}
