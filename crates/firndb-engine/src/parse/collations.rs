//! COLLATE: text is compared by its bytes, or without case.
//!
//! ```text
//! a COLLATE "C"               a                        BINARY, POSIX and UCS_BASIC too: what comparisons do anyway
//! a = b COLLATE NOCASE        lower(a) = lower(b)      for every comparison, IN and BETWEEN
//! ORDER BY a COLLATE NOCASE   ORDER BY lower(a)
//! ```
//!
//! SELECT a COLLATE NOCASE is a where the statement's result does not depend on it. A collation in any other place stays and is refused by the planner.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, GroupByExpr, ObjectName, OrderByExpr, OrderByKind, Query, SelectItem,
    SetExpr, Value, WindowType,
};

use super::normalize::call;

/// Rewrites one expression whose parts are rewritten.
pub(super) fn rewrite(expr: &mut Expr) {
    match expr {
        Expr::Collate {
            expr: value,
            collation,
        } if is_binary(collation) => {
            let taken = std::mem::replace(value.as_mut(), Expr::value(Value::Null));
            *expr = taken;
        }
        Expr::BinaryOp {
            left,
            op:
                BinaryOperator::Eq
                | BinaryOperator::NotEq
                | BinaryOperator::Lt
                | BinaryOperator::LtEq
                | BinaryOperator::Gt
                | BinaryOperator::GtEq,
            right,
        } => fold([left.as_mut(), right.as_mut()]),
        Expr::IsDistinctFrom(left, right) | Expr::IsNotDistinctFrom(left, right) => {
            fold([left.as_mut(), right.as_mut()]);
        }
        Expr::Between {
            expr: value,
            low,
            high,
            ..
        } => fold([value.as_mut(), low.as_mut(), high.as_mut()]),
        Expr::InList {
            expr: value, list, ..
        } => fold(std::iter::once(value.as_mut()).chain(list)),
        Expr::Function(function) => {
            if let Some(WindowType::WindowSpec(window)) = &mut function.over {
                keys(&mut window.order_by);
            }
            keys(&mut function.within_group);
        }
        _ => {}
    }
}

/// Takes the collations off the columns of a statement's result, where nothing is compared by them any more.
pub(super) fn in_result(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_mut() else {
        return;
    };
    let groups = match &select.group_by {
        GroupByExpr::All(_) => true,
        GroupByExpr::Expressions(keys, _) => !keys.is_empty(),
    };
    if groups || select.distinct.is_some() || query.order_by.is_some() {
        return;
    }
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item
            && let Some(value) = bare(expr).cloned()
        {
            *expr = value;
        }
    }
}

/// Rewrites the keys of a query's ORDER BY.
pub(super) fn in_order(query: &mut Query) {
    if let Some(order) = &mut query.order_by
        && let OrderByKind::Expressions(by) = &mut order.kind
    {
        keys(by);
    }
}

fn keys(keys: &mut [OrderByExpr]) {
    for key in keys {
        // A number is a place in the select list.
        if !matches!(bare(&key.expr), Some(Expr::Value(_))) {
            fold([&mut key.expr]);
        }
    }
}

/// The value under a collation without case.
fn bare(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::Nested(inner) => bare(inner),
        Expr::Collate { expr, collation } if is_caseless(collation) => Some(expr),
        _ => None,
    }
}

/// Compares in lower case where one side says so.
fn fold<'a>(sides: impl IntoIterator<Item = &'a mut Expr>) {
    let sides: Vec<&mut Expr> = sides.into_iter().collect();
    if !sides.iter().any(|side| bare(side).is_some()) {
        return;
    }
    for side in sides {
        let value = bare(side).unwrap_or(side).clone();
        *side = call("lower", vec![value]);
    }
}

fn name_of(collation: &ObjectName) -> Option<String> {
    let part = collation.0.last()?.as_ident()?;
    Some(part.value.to_lowercase())
}

fn is_binary(collation: &ObjectName) -> bool {
    name_of(collation)
        .is_some_and(|name| matches!(name.as_str(), "c" | "posix" | "binary" | "ucs_basic"))
}

fn is_caseless(collation: &ObjectName) -> bool {
    name_of(collation).is_some_and(|name| name == "nocase")
}
