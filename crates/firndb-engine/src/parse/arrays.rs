//! `ARRAY(SELECT …)` as an aggregate over the query's rows, and `ANY (ARRAY(SELECT …))` as ANY of the rows.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArgumentClause, FunctionArguments, OrderBy, OrderByExpr, OrderByKind,
    OrderByOptions, Query, SelectItem, SetExpr, TableFactor, Value, VisitMut, VisitorMut,
    WindowSpec, WindowType,
};

use super::parse_query;
use super::pieces::call;
use super::rows::subquery_of;
use crate::error::Result;

/// `ARRAY(SELECT x … ORDER BY y)`: the list of a query's rows in their order, empty if there are none.
pub(crate) fn of_query(query: &Query) -> Result<Expr> {
    const NUMBERED: &str =
        "SELECT coalesce(array_agg(x ORDER BY n), []) FROM (SELECT 1) AS __firndb_members(x, n)";
    const SORTED: &str =
        "SELECT coalesce(array_agg(x ORDER BY x), []) FROM (SELECT 1) AS __firndb_members(x)";
    let mut query = query.clone();
    let keys = match &query.order_by {
        Some(OrderBy {
            kind: OrderByKind::Expressions(keys),
            ..
        }) => keys.clone(),
        _ => Vec::new(),
    };
    let single = matches!(query.body.as_ref(), SetExpr::Select(select)
        if select.distinct.is_none() && select.projection.len() == 1);
    let text = match (&keys[..], single) {
        ([], _) => "SELECT coalesce(array_agg(x), []) FROM (SELECT 1) AS __firndb_members(x)",
        (_, true) => NUMBERED,
        // What is DISTINCT, or the union of others, is sorted by its only column.
        _ => SORTED,
    };
    if text == NUMBERED
        && let SetExpr::Select(select) = query.body.as_mut()
    {
        let item = match select.projection.first() {
            Some(SelectItem::UnnamedExpr(item)) => Some((item.clone(), None)),
            Some(SelectItem::ExprWithAlias { expr, alias }) => {
                Some((expr.clone(), Some(alias.value.clone())))
            }
            _ => None,
        };
        let own = |key: &Expr| match (key, &item) {
            (Expr::Value(value), Some((item, _))) if matches!(&value.value, Value::Number(n, _) if n == "1") => {
                item.clone()
            }
            (Expr::Identifier(name), Some((item, Some(alias)))) if name.value == *alias => {
                item.clone()
            }
            _ => key.clone(),
        };
        let keys = keys
            .iter()
            .map(|key| OrderByExpr {
                expr: own(&key.expr),
                ..key.clone()
            })
            .collect();
        let mut number = call("row_number", Vec::new());
        if let Expr::Function(function) = &mut number {
            function.over = Some(WindowType::WindowSpec(WindowSpec {
                window_name: None,
                partition_by: Vec::new(),
                order_by: keys,
                window_frame: None,
            }));
        }
        select.projection.push(SelectItem::UnnamedExpr(number));
    }
    let mut outer = parse_query(text)?;
    if text == SORTED
        && let ([key], SetExpr::Select(select)) = (&keys[..], outer.body.as_mut())
    {
        let ControlFlow::Continue(()) = select.visit(&mut Directions(key.options));
    }
    let ControlFlow::Continue(()) = outer.visit(&mut Members { query: &query });
    Ok(Expr::Subquery(Box::new(outer)))
}

/// Sorts as another key does.
struct Directions(OrderByOptions);

impl VisitorMut for Directions {
    type Break = std::convert::Infallible;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        if let Expr::Function(function) = expr
            && let FunctionArguments::List(list) = &mut function.args
        {
            for clause in &mut list.clauses {
                if let FunctionArgumentClause::OrderBy(keys) = clause {
                    for key in keys {
                        key.options = self.0;
                    }
                }
            }
        }
        ControlFlow::Continue(())
    }
}

/// Puts a query in the place of `SELECT 1`.
struct Members<'a> {
    query: &'a Query,
}

impl VisitorMut for Members<'_> {
    type Break = std::convert::Infallible;

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Self::Break> {
        if let TableFactor::Derived {
            subquery,
            alias: Some(alias),
            ..
        } = factor
            && !alias.columns.is_empty()
        {
            **subquery = self.query.clone();
        }
        ControlFlow::Continue(())
    }
}

/// `x = ANY (ARRAY(SELECT …))` asks what `x = ANY (SELECT …)` does.
pub(super) fn ask_rows(expr: &mut Expr) {
    if let Expr::AnyOp { right, .. } | Expr::AllOp { right, .. } = expr
        && let Some(query) = subquery_of(right)
    {
        **right = Expr::Subquery(Box::new(query.clone()));
    }
}
