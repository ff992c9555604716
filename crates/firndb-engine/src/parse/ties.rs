//! `FETCH FIRST n ROWS WITH TIES`: the first rows, and those that the last of them equals by ORDER BY.
//!
//! ```text
//! SELECT … ORDER BY k OFFSET m FETCH FIRST n ROWS WITH TIES  ─▶  SELECT … QUALIFY rank() OVER (ORDER BY k) <= m + n ORDER BY k OFFSET m
//! ```

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, LimitClause, OrderByExpr, OrderByKind, Query, SelectItem, SetExpr, Value,
    WindowSpec, WindowType,
};

use super::pieces::call;
use crate::error::{Error, Result, SqlState};

/// Keeps the first `quantity` rows of a query and their ties.
pub(super) fn keep(query: &mut Query, quantity: Expr) -> Result<()> {
    let Some(OrderByKind::Expressions(order)) = query.order_by.as_ref().map(|order| &order.kind)
    else {
        return Err(Error::new(
            SqlState::SyntaxError,
            "WITH TIES cannot be specified without ORDER BY clause",
        ));
    };
    let SetExpr::Select(select) = query.body.as_mut() else {
        return Err(unsupported("beside a set operation or VALUES"));
    };
    if select.distinct.is_some() {
        return Err(unsupported("beside DISTINCT"));
    }
    let order = order
        .iter()
        .map(|key| {
            Ok(OrderByExpr {
                expr: output(&key.expr, &select.projection)?,
                ..key.clone()
            })
        })
        .collect::<Result<_>>()?;
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

/// The expression that a key of ORDER BY names by an alias or a number.
fn output(key: &Expr, items: &[SelectItem]) -> Result<Expr> {
    let named = |name: &str| {
        items.iter().find_map(|item| match item {
            SelectItem::ExprWithAlias { expr, alias } if alias.value == name => Some(expr.clone()),
            _ => None,
        })
    };
    Ok(match key {
        Expr::Identifier(name) => named(&name.value).unwrap_or_else(|| key.clone()),
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => {
                let place = digits.parse::<usize>().ok();
                match place.and_then(|place| items.get(place.checked_sub(1)?)) {
                    Some(
                        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. },
                    ) => expr.clone(),
                    Some(_) => return Err(unsupported("by the position of a column of *")),
                    None => {
                        return Err(Error::new(
                            SqlState::InvalidColumnReference,
                            format!("ORDER BY position {digits} is not in select list"),
                        ));
                    }
                }
            }
            _ => key.clone(),
        },
        _ => key.clone(),
    })
}
