//! `FETCH FIRST n ROWS WITH TIES`: the first rows, and those that the last of them equals by ORDER BY.
//!
//! ```text
//! SELECT … ORDER BY k OFFSET m FETCH FIRST n ROWS WITH TIES  ─▶  SELECT … QUALIFY rank() OVER (ORDER BY k) <= m + n ORDER BY k OFFSET m
//! ```

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, LimitClause, OrderByExpr, OrderByKind, Query, SelectItem, SetExpr, Value,
    WindowSpec, WindowType, visit_expressions,
};

use super::outputs::{by_number, is_wild, output};
use super::pieces::call;
use crate::error::{Error, Result, SqlState};

/// Keeps the first `quantity` rows of a query and their ties.
pub(super) fn keep(query: &mut Query, quantity: Expr) -> Result<()> {
    let Some(order) = query.order_by.as_ref().map(|order| &order.kind) else {
        return Err(Error::new(
            SqlState::SyntaxError,
            "WITH TIES cannot be specified without ORDER BY clause",
        ));
    };
    let SetExpr::Select(select) = query.body.as_mut() else {
        return Err(unsupported("beside a set operation or VALUES"));
    };
    let by_all: Vec<OrderByExpr>;
    let order = match order {
        OrderByKind::Expressions(order) => order,
        OrderByKind::All(_) if select.projection.iter().any(is_wild) => {
            return Err(unsupported("by all columns of *"));
        }
        OrderByKind::All(options) => {
            by_all = (1..=select.projection.len())
                .map(|place| OrderByExpr {
                    expr: Expr::value(Value::Number(place.to_string(), false)),
                    options: *options,
                    with_fill: None,
                })
                .collect();
            &by_all
        }
    };
    if select.distinct.is_some() {
        return Err(unsupported("beside DISTINCT"));
    }
    let order = order
        .iter()
        .map(|key| {
            Ok(OrderByExpr {
                expr: sorted_by(&key.expr, &select.projection)?,
                ..key.clone()
            })
        })
        .collect::<Result<Vec<_>>>()?;
    let windowed = |key: &OrderByExpr| {
        visit_expressions(&key.expr, |part| match part {
            Expr::Function(function) if function.over.is_some() => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        })
        .is_break()
    };
    if order.iter().any(windowed) {
        return Err(unsupported("by the value of a window function"));
    }
    let last = match &query.limit_clause {
        None => quantity,
        Some(LimitClause::LimitOffset {
            limit: None,
            offset: None,
            limit_by,
        }) if limit_by.is_empty() => quantity,
        Some(LimitClause::LimitOffset {
            limit: None,
            offset: Some(offset),
            limit_by,
        }) if limit_by.is_empty() => binary(offset.value.clone(), BinaryOperator::Plus, quantity),
        Some(_) => return Err(unsupported("beside LIMIT")),
    };
    let mut rank = call("rank", Vec::new());
    if let Expr::Function(function) = &mut rank {
        function.over = Some(WindowType::WindowSpec(WindowSpec {
            window_name: None,
            partition_by: Vec::new(),
            order_by: order,
            window_frame: None,
        }));
    }
    let first = binary(rank, BinaryOperator::LtEq, last);
    select.qualify = Some(match select.qualify.take() {
        Some(_) => return Err(unsupported("beside QUALIFY")),
        None => first,
    });
    Ok(())
}

fn unsupported(where_: &str) -> Error {
    Error::unsupported(format!("FETCH … WITH TIES {where_} is not supported"))
        .with_hint("Put the query into a subquery of FROM.")
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp {
        left: Box::new(Expr::Nested(Box::new(left))),
        op,
        right: Box::new(Expr::Nested(Box::new(right))),
    }
}

/// A key of ORDER BY, or the expression that it names by an alias or a number.
fn sorted_by(key: &Expr, items: &[SelectItem]) -> Result<Expr> {
    match (output(key, items), by_number(key, items)) {
        (Some(expr), _) => Ok(expr.clone()),
        (None, None) => Ok(key.clone()),
        (None, Some(_)) if items.iter().any(is_wild) => {
            Err(unsupported("by the position of a column of *"))
        }
        (None, Some((place, _))) => Err(Error::new(
            SqlState::InvalidColumnReference,
            format!("ORDER BY position {place} is not in select list"),
        )),
    }
}
