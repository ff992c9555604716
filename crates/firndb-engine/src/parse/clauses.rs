//! Clauses of a query that the planner knows in another form.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, Cte, DataType, Expr, FunctionArg, FunctionArgExpr, FunctionArguments,
    GroupByExpr, Ident, ObjectName, OrderBy, OrderByKind, Query, Select, SelectItem, SetExpr,
    SetOperator, TableFactor, Value, With, helpers::attached_token::AttachedToken, visit_relations,
};

use super::names::text_name;
use super::pieces::call;
use crate::error::{Error, Result, SqlState};

/// GROUP BY () and HAVING alone make one group of all rows, which the planner knows by an aggregate only.
pub(super) fn one_group(select: &mut Select) {
    let GroupByExpr::Expressions(keys, _) = &mut select.group_by else {
        return;
    };
    let given = keys.len();
    keys.retain(|key| !matches!(key, Expr::Tuple(members) if members.is_empty()));
    if !keys.is_empty() || given == 0 && select.having.is_none() {
        return;
    }
    let mut count = call("count", vec![]);
    if let Expr::Function(function) = &mut count
        && let FunctionArguments::List(list) = &mut function.args
    {
        list.args = vec![FunctionArg::Unnamed(FunctionArgExpr::Wildcard)];
    }
    let always = Expr::BinaryOp {
        left: Box::new(count),
        op: BinaryOperator::GtEq,
        right: Box::new(Expr::value(Value::Number("0".to_owned(), false))),
    };
    select.having = Some(match select.having.take() {
        Some(having) => Expr::BinaryOp {
            left: Box::new(Expr::Nested(Box::new(having))),
            op: BinaryOperator::And,
            right: Box::new(always),
        },
        None => always,
    });
}

/// `SELECT 5 AS k … GROUP BY k`: the planner would read the constant that the name stands for as a position.
pub(super) fn constant_keys(select: &mut Select) {
    let GroupByExpr::Expressions(keys, _) = &select.group_by else {
        return;
    };
    let by_name = |name: &Ident| {
        keys.iter()
            .any(|key| matches!(key, Expr::Identifier(key) if key.value == name.value))
    };
    for item in &mut select.projection {
        if let SelectItem::ExprWithAlias { expr, alias } = item
            && let Expr::Value(value) = expr
            && let Value::Number(digits, _) = &value.value
            && digits.parse::<i64>().is_ok()
            && by_name(alias)
        {
            *expr = Expr::Cast {
                kind: CastKind::Cast,
                expr: Box::new(expr.clone()),
                data_type: DataType::BigInt(None),
                array: false,
                format: None,
            };
        }
    }
}

/// `SELECT DISTINCT a + 1 … ORDER BY a + 1`: the sort expression is the item, and the planner knows it only by its name.
/// A name that several different items have is ambiguous.
pub(super) fn order_by_names(query: &mut Query) -> Result<()> {
    let SetExpr::Select(select) = query.body.as_mut() else {
        return Ok(());
    };
    let Some(OrderBy {
        kind: OrderByKind::Expressions(orders),
        ..
    }) = &mut query.order_by
    else {
        return Ok(());
    };
    for order in orders.iter() {
        if let Expr::Identifier(name) = &order.expr
            && is_ambiguous(name, &select.projection)
        {
            return Err(Error::new(
                SqlState::AmbiguousColumn,
                format!("ORDER BY \"{}\" is ambiguous", name.value),
            )
            .with_hint("Several columns of the result have that name. Order by their number."));
        }
    }
    if select.distinct.is_none() {
        return Ok(());
    }
    for order in orders {
        if let Expr::CompoundIdentifier(parts) = &order.expr
            && let Some(last) = parts.last()
        {
            // A member of a struct that is an item is known by the item's name.
            let alias = Ident::with_quote('"', last.value.clone());
            let mut named = select
                .projection
                .iter_mut()
                .filter(|item| output_name(item).is_some_and(|name| name.value == last.value));
            if let (Some(item), None) = (named.next(), named.next())
                && let SelectItem::UnnamedExpr(expr) = item
                && *expr == order.expr
            {
                *item = SelectItem::ExprWithAlias {
                    expr: expr.clone(),
                    alias: alias.clone(),
                };
                order.expr = Expr::Identifier(alias);
            }
            continue;
        }
        if matches!(order.expr, Expr::Identifier(_) | Expr::Value(_)) {
            continue;
        }
        let name = select.projection.iter().find_map(|item| match item {
            SelectItem::UnnamedExpr(expr) if *expr == order.expr => Some(text_name(expr)),
            SelectItem::ExprWithAlias { expr, alias } if *expr == order.expr => {
                Some(alias.value.clone())
            }
            _ => None,
        });
        if let Some(name) = name {
            order.expr = Expr::Identifier(Ident::with_quote('"', name));
        }
    }
    Ok(())
}

/// The name that an item has as a column of the result.
fn output_name(item: &SelectItem) -> Option<&Ident> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(alias),
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(name),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => parts.last(),
        _ => None,
    }
}

/// Whether different items have a name, one of them as its alias.
fn is_ambiguous(name: &Ident, items: &[SelectItem]) -> bool {
    let mut aliased = false;
    let mut found: Vec<&Expr> = Vec::new();
    for item in items {
        if output_name(item).is_none_or(|output| output.value != name.value) {
            continue;
        }
        let expr = match item {
            SelectItem::ExprWithAlias { expr, .. } => {
                aliased = true;
                expr
            }
            SelectItem::UnnamedExpr(expr) => expr,
            _ => continue,
        };
        let same = |other: &&Expr| match (*other, expr) {
            (Expr::Identifier(short), Expr::CompoundIdentifier(long))
            | (Expr::CompoundIdentifier(long), Expr::Identifier(short)) => {
                long.last().is_some_and(|last| last.value == short.value)
            }
            (left, right) => left == right,
        };
        if !found.iter().any(same) {
            found.push(expr);
        }
    }
    aliased && found.len() > 1
}

/// LIMIT of a common table expression that refers to itself bounds its rows, as in SQLite:
/// `r AS (a UNION ALL b LIMIT n)` is `r AS (WITH RECURSIVE r AS (a UNION ALL b) SELECT * FROM r LIMIT n)`. 0A000 for ORDER BY: there is no moment at
/// which it could be sorted.
pub(super) fn bound_recursion(table: &mut Cte) -> Result<()> {
    if !is_recursive(table) {
        return Ok(());
    }
    if table.query.order_by.is_some() {
        return Err(Error::unsupported(
            "ORDER BY in a recursive query is not supported",
        ));
    }
    if table.query.limit_clause.is_none() && table.query.fetch.is_none() {
        return Ok(());
    }
    let mut bounded = super::parse_query("SELECT * FROM x")?;
    if let SetExpr::Select(select) = bounded.body.as_mut()
        && let Some(from) = select.from.first_mut()
        && let TableFactor::Table { name, .. } = &mut from.relation
    {
        *name = ObjectName::from(table.alias.name.clone());
    }
    bounded.limit_clause = table.query.limit_clause.take();
    bounded.fetch = table.query.fetch.take();
    bounded.with = Some(With {
        with_token: AttachedToken::empty(),
        recursive: true,
        cte_tables: vec![table.clone()],
    });
    *table.query = bounded;
    Ok(())
}

/// Whether a common table expression is a union that refers to itself.
fn is_recursive(table: &Cte) -> bool {
    let union = matches!(
        table.query.body.as_ref(),
        SetExpr::SetOperation {
            op: SetOperator::Union,
            ..
        }
    );
    union
        && visit_relations(&table.query.body, |name| {
            match name.to_string() == table.alias.name.value {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        })
        .is_break()
}
