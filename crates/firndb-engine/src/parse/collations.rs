//! COLLATE: text is compared by its bytes, or without case.
//!
//! ```text
//! a COLLATE "C"               a                        BINARY, POSIX and UCS_BASIC too: what comparisons do anyway
//! a = b COLLATE NOCASE        lower(a) = lower(b)      for every comparison, IN and BETWEEN
//! a LIKE b COLLATE NOCASE     a ILIKE b
//! ORDER BY a COLLATE NOCASE   ORDER BY lower(a)    also PARTITION BY, keys of indexes, and ORDER BY of aggregates
//! GROUP BY a COLLATE NOCASE   GROUP BY lower(a)    a in the select list is then min(a), one of the group's texts
//! DISTINCT a COLLATE NOCASE   the same groups
//! min(a COLLATE NOCASE)       first_value(a ORDER BY lower(a), a) of those that are not NULL
//! ```
//!
//! SELECT a COLLATE NOCASE is a where the statement's result does not depend on it. A collation in any other place stays and is refused by
//! the planner: columns of tables and views have none but the bytes' order.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Distinct, DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentClause, FunctionArguments, GroupByExpr, Ident, IndexColumn, ObjectName,
    OrderByExpr, OrderByKind, OrderByOptions, Query, Select, SelectItem, SetExpr, TableFactor,
    Value, WindowType,
};

use super::calls::{also, rename};
use super::names::text_name;
use super::parse_query;
use super::pieces::call;

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
        Expr::Like { .. } => like(expr),
        Expr::InSubquery {
            expr: value,
            subquery,
            ..
        } => in_subquery(value, subquery),
        Expr::Case {
            operand: Some(operand),
            conditions,
            ..
        } => fold(
            std::iter::once(operand.as_mut())
                .chain(conditions.iter_mut().map(|when| &mut when.condition)),
        ),
        Expr::Function(function) => {
            if let Some(WindowType::WindowSpec(window)) = &mut function.over {
                keys(&mut window.order_by);
                window.partition_by.iter_mut().for_each(|key| fold([key]));
            }
            keys(&mut function.within_group);
            in_arguments(function);
        }
        _ => {}
    }
}

/// LIKE without case where one side says so.
fn like(expr: &mut Expr) {
    let taken = std::mem::replace(expr, Expr::value(Value::Null));
    *expr = match taken {
        Expr::Like {
            negated,
            any,
            expr,
            pattern,
            escape_char,
        } if bare(&expr).is_some() || bare(&pattern).is_some() => {
            let plain = |side: Box<Expr>| match bare(&side) {
                Some(value) => Box::new(value.clone()),
                None => side,
            };
            Expr::ILike {
                negated,
                any,
                expr: plain(expr),
                pattern: plain(pattern),
                escape_char,
            }
        }
        other => other,
    };
}

/// `a COLLATE NOCASE IN (SELECT …)`: the subquery's texts in lower case, too.
fn in_subquery(value: &mut Expr, subquery: &mut Query) {
    if bare(value).is_none() {
        return;
    }
    const LOWER: &str = "SELECT lower(value) AS value FROM (SELECT 1) AS __firndb_caseless (value)";
    let Ok(mut lower) = parse_query(LOWER) else {
        return;
    };
    if let SetExpr::Select(select) = lower.body.as_mut()
        && let Some(from) = select.from.first_mut()
        && let TableFactor::Derived { subquery: rows, .. } = &mut from.relation
    {
        std::mem::swap(rows.as_mut(), subquery);
        *subquery = lower;
        fold([value]);
    }
}

/// Arguments of aggregates, and the order in which they are read.
fn in_arguments(function: &mut Function) {
    let name = function.name.to_string();
    let FunctionArguments::List(list) = &mut function.args else {
        return;
    };
    for clause in &mut list.clauses {
        if let FunctionArgumentClause::OrderBy(order) = clause {
            keys(order);
        }
    }
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))] = list.args.as_mut_slice() else {
        return;
    };
    let Some(value) = bare(argument).cloned() else {
        return;
    };
    let distinct = list.duplicate_treatment == Some(DuplicateTreatment::Distinct);
    match name.as_str() {
        "count" if distinct => fold([argument]),
        "count" => *argument = value,
        "min" | "max" => {
            let lower = call("lower", vec![value.clone()]);
            list.duplicate_treatment = None;
            if function.over.is_some() {
                let place = FunctionArg::Unnamed(FunctionArgExpr::Expr(lower));
                list.args = vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(value)), place];
                rename(function, if name == "min" { "arg_min" } else { "arg_max" });
                return;
            }
            let key = |expr: Expr| OrderByExpr {
                expr,
                options: OrderByOptions {
                    asc: Some(name == "min"),
                    nulls_first: Some(false),
                },
                with_fill: None,
            };
            *argument = value.clone();
            let order = vec![key(lower), key(value.clone())];
            list.clauses.push(FunctionArgumentClause::OrderBy(order));
            rename(function, "first_value");
            also(function, Expr::IsNotNull(Box::new(value)));
        }
        _ => {}
    }
}

/// Groups without case: the keys of GROUP BY, or those of DISTINCT.
pub(super) fn in_groups(select: &mut Select) {
    let texts = match &mut select.group_by {
        GroupByExpr::Expressions(keys, modifiers) if !keys.is_empty() && modifiers.is_empty() => {
            let of_sets =
                |key: &Expr| matches!(key, Expr::Rollup(_) | Expr::Cube(_) | Expr::GroupingSets(_));
            if keys.iter().any(of_sets) {
                return;
            }
            group_keys(keys, &select.projection)
        }
        GroupByExpr::Expressions(keys, modifiers)
            if keys.is_empty()
                && modifiers.is_empty()
                && matches!(select.distinct, Some(Distinct::Distinct))
                && select.having.is_none() =>
        {
            let items: Option<Vec<&Expr>> = select.projection.iter().map(item).collect();
            let Some(items) = items else { return };
            let texts: Vec<Expr> = items
                .iter()
                .filter_map(|item| bare(item))
                .cloned()
                .collect();
            if texts.is_empty() {
                return;
            }
            let constant = |item: &Expr| matches!(item, Expr::Value(_));
            *keys = items
                .into_iter()
                .filter(|item| !constant(item))
                .map(|item| match bare(item) {
                    Some(text) => call("lower", vec![text.clone()]),
                    None => item.clone(),
                })
                .collect();
            select.distinct = None;
            texts
        }
        _ => return,
    };
    for item in &mut select.projection {
        let (expr, alias) = match &*item {
            SelectItem::UnnamedExpr(expr) => (expr, Ident::with_quote('"', text_name(expr))),
            SelectItem::ExprWithAlias { expr, alias } => (expr, alias.clone()),
            _ => continue,
        };
        let value = bare(expr).unwrap_or(expr);
        if texts.contains(value) {
            *item = SelectItem::ExprWithAlias {
                expr: call("min", vec![value.clone()]),
                alias,
            };
        }
    }
}

/// Brings keys to lower case, and tells the texts under them.
fn group_keys(keys: &mut [Expr], items: &[SelectItem]) -> Vec<Expr> {
    let mut texts = Vec::new();
    for key in keys {
        // A number is a place in the select list, and a name may be one of its names.
        let named = match &*key {
            Expr::Value(value) => match &value.value {
                Value::Number(number, _) => number.to_string().parse::<usize>().ok().and_then(|place| items.get(place.checked_sub(1)?)),
                _ => None,
            },
            Expr::Identifier(name) => items.iter().find(|item| {
                matches!(item, SelectItem::ExprWithAlias { alias, .. } if alias.value == name.value)
            }),
            _ => None,
        };
        let text = bare(key).or_else(|| named.and_then(item).and_then(bare));
        if let Some(text) = text.cloned() {
            *key = call("lower", vec![text.clone()]);
            texts.push(text);
        }
    }
    texts
}

fn item(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

/// Brings the keys of an index to lower case.
pub(super) fn in_index(columns: &mut [IndexColumn]) {
    for column in columns {
        fold([&mut column.column.expr]);
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

/// Whether a collation is the order of text by its bytes.
pub(crate) fn is_binary(collation: &ObjectName) -> bool {
    name_of(collation)
        .is_some_and(|name| matches!(name.as_str(), "c" | "posix" | "binary" | "ucs_basic"))
}

fn is_caseless(collation: &ObjectName) -> bool {
    name_of(collation).is_some_and(|name| name == "nocase")
}
