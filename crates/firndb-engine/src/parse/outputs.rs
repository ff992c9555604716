//! Keys of GROUP BY and ORDER BY that name a column of the select list, by its number or its alias.

use datafusion::sql::sqlparser::ast::{Expr, SelectItem, Value};

/// The number that a key is, and the expression of the select list there: none where there is no such place, or one behind or at a `*`.
pub(super) fn by_number<'a>(
    key: &Expr,
    items: &'a [SelectItem],
) -> Option<(usize, Option<&'a Expr>)> {
    let Expr::Value(value) = key else {
        return None;
    };
    let Value::Number(digits, _) = &value.value else {
        return None;
    };
    let place: usize = digits.parse().ok()?;
    let up_to = items.get(..place).unwrap_or_default();
    let expr = match up_to.last() {
        Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. })
            if !up_to.iter().any(is_wild) =>
        {
            Some(expr)
        }
        _ => None,
    };
    Some((place, expr))
}

/// The expression of the select list that a key names.
pub(crate) fn output<'a>(key: &Expr, items: &'a [SelectItem]) -> Option<&'a Expr> {
    if let Expr::Identifier(name) = key {
        return items.iter().find_map(|item| match item {
            SelectItem::ExprWithAlias { expr, alias } if alias.value == name.value => Some(expr),
            _ => None,
        });
    }
    by_number(key, items)?.1
}

/// Whether an item stands for several columns.
pub(super) fn is_wild(item: &SelectItem) -> bool {
    !matches!(
        item,
        SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. }
    )
}
