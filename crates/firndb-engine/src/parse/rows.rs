//! Row values: `(a, b) = (1, 2)`, `(a, b) IN ((1, 2), (3, 4))`, `(a, b) IN (SELECT …)`; and `x < ANY (SELECT …)`.
//!
//! Each becomes a condition on the rows' members, with the standard's three truth values. Membership in a subquery becomes
//! EXISTS over the subquery under names of ours; where NULL must be told from FALSE, two of them:
//!
//! ```text
//! (a, b) IN (q)  ─▶  CASE WHEN EXISTS (SELECT 1 FROM (q) r(c1, c2) WHERE a = c1 AND b = c2) THEN TRUE
//!                         WHEN EXISTS (… WHERE (a = c1 AND b = c2) IS NULL) THEN NULL ELSE FALSE END
//! ```

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Query,
    SelectItem, SetExpr, TableFactor, UnaryOperator, Value, visit_expressions,
};

use super::macros::{
    ANY_EQUAL, ANY_GREATER, ANY_GREATER_OR_EQUAL, ANY_LESS, ANY_LESS_OR_EQUAL, ANY_OTHER, OVERLAPS,
    PERIOD_FIRST, PERIOD_LAST, UNKNOWN, expanded,
};
use super::pieces::call;
use super::{aggregates, parse_query};
use crate::error::{Error, Result, SqlState};

/// The list that a text stands for beside a value: `__firndb_list_of('{1,2}', x)`.
pub(crate) const LIST_OF: &str = "__firndb_list_of";

/// The name under which a rewritten membership sees its subquery; no user's name starts like this.
const ROWS: &str = "__firndb_rows";

/// Rewrites an operation on row values; every other expression stays as it is.
pub(super) fn rewrite(expr: &mut Expr) -> Result<()> {
    let replaced = match expr {
        Expr::BinaryOp { left, op, right } => match (members(left), members(right)) {
            (Some(left), Some(right)) => compared(&left, op, &right)?,
            (Some(_), None) | (None, Some(_))
                if matches!(left.as_ref(), Expr::Subquery(_))
                    || matches!(right.as_ref(), Expr::Subquery(_)) =>
            {
                return Err(
                    Error::unsupported("comparing a row with a subquery is not supported")
                        .with_hint("Write IN (SELECT …), or compare the columns one by one."),
                );
            }
            _ => None,
        },
        Expr::IsDistinctFrom(left, right) => match (members(left), members(right)) {
            (Some(left), Some(right)) => Some(not(same(&left, &right)?)),
            _ => None,
        },
        Expr::IsNotDistinctFrom(left, right) => match (members(left), members(right)) {
            (Some(left), Some(right)) => Some(same(&left, &right)?),
            _ => None,
        },
        Expr::Between {
            expr,
            negated,
            low,
            high,
        } => match (members(expr), members(low), members(high)) {
            (Some(row), Some(low), Some(high)) => {
                let above = ordered(&row, BinaryOperator::Gt, true, &low)?;
                let below = ordered(&row, BinaryOperator::Lt, true, &high)?;
                let within = Expr::Nested(Box::new(both(above, below)));
                Some(if *negated { not(within) } else { within })
            }
            _ => None,
        },
        Expr::InList {
            expr,
            list,
            negated,
        } => match members(expr) {
            Some(row) if list.iter().all(|item| members(item).is_some()) => {
                let mut equal = Vec::with_capacity(list.len());
                for item in list.iter().filter_map(members) {
                    equal.push(equality(&row, &item)?);
                }
                let any = any_of(equal);
                Some(if *negated { not(any) } else { any })
            }
            _ => None,
        },
        Expr::InSubquery {
            expr,
            subquery,
            negated,
        } => match members(expr) {
            Some(row) => Some(in_subquery(&row, subquery, *negated)?),
            None => None,
        },
        Expr::AnyOp { left, right, .. } | Expr::AllOp { left, right, .. }
            if may_aggregate(left)
                && let Some(subquery) = subquery_of(right) =>
        {
            // `HAVING count(*) >= ALL (SELECT …)`: written into the subquery, the aggregate would be one of its own.
            **right = Expr::Subquery(Box::new(subquery.clone()));
            None
        }
        Expr::AnyOp {
            left,
            compare_op,
            right,
            ..
        } => match subquery_of(right) {
            Some(subquery) => {
                let test = |columns: &[Expr]| member_test(left, compare_op, columns);
                Some(quantified(1, subquery, false, test)?)
            }
            None => any_member(left, compare_op, right),
        },
        Expr::AllOp {
            left,
            compare_op,
            right,
        } => match (subquery_of(right), opposite(compare_op)) {
            (Some(subquery), Some(opposite)) => {
                let test = |columns: &[Expr]| member_test(left, &opposite, columns);
                Some(quantified(1, subquery, true, test)?)
            }
            // All are, unless one is not.
            (None, Some(opposite)) => any_member(left, &opposite, right).map(not),
            _ => None,
        },
        Expr::Like { any: true, .. } | Expr::ILike { any: true, .. } => Some(like_any(expr)?),
        _ => None,
    };
    if let Some(replaced) = replaced {
        *expr = replaced;
    }
    Ok(())
}

/// Rewrites the conjuncts `(a, b) IN (SELECT …)` and `x < ANY (SELECT …)` of a WHERE clause, for which NULL is as good as
/// FALSE: a plain EXISTS.
pub(super) fn rewrite_conjuncts(condition: &mut Expr) -> Result<()> {
    let mut open = vec![condition];
    while let Some(part) = open.pop() {
        match part {
            Expr::BinaryOp {
                left,
                op: BinaryOperator::And,
                right,
            } => {
                open.push(left);
                open.push(right);
            }
            Expr::Nested(inner) => open.push(inner),
            Expr::InSubquery {
                expr,
                subquery,
                negated,
            } => {
                if let Some(row) = members(expr) {
                    check_width(&row, subquery)?;
                    let test = |columns: &[Expr]| equality(&row, columns);
                    *part = filtering(row.len(), subquery, *negated, test)?;
                }
            }
            Expr::AnyOp {
                left,
                compare_op,
                right,
                ..
            } => match subquery_of(right) {
                Some(subquery) if *compare_op == BinaryOperator::Eq => {
                    *part = Expr::InSubquery {
                        expr: left.clone(),
                        subquery: Box::new(subquery.clone()),
                        negated: false,
                    };
                }
                Some(subquery) => {
                    let test = |columns: &[Expr]| member_test(left, compare_op, columns);
                    *part = filtering(1, subquery, false, test)?;
                }
                None => {}
            },
            Expr::AllOp {
                left,
                compare_op,
                right,
            } => {
                if let (Some(subquery), BinaryOperator::NotEq) = (subquery_of(right), &*compare_op)
                {
                    *part = Expr::InSubquery {
                        expr: left.clone(),
                        subquery: Box::new(subquery.clone()),
                        negated: true,
                    };
                } else if let (Some(subquery), Some(opposite)) =
                    (subquery_of(right), opposite(compare_op))
                {
                    let test = |columns: &[Expr]| member_test(left, &opposite, columns);
                    *part = filtering(1, subquery, true, test)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether an expression calls a function, which may be an aggregate.
fn may_aggregate(expr: &Expr) -> bool {
    visit_expressions(expr, |part| match part {
        Expr::Function(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })
    .is_break()
}

/// The members of a row value: `(a, b)` or `ROW(a, b)`.
fn members(expr: &Expr) -> Option<Vec<Expr>> {
    match expr {
        Expr::Nested(inner) => members(inner),
        Expr::Tuple(members) if members.len() > 1 => Some(members.clone()),
        Expr::Function(function) if function.over.is_none() => {
            let [name] = function.name.0.as_slice() else {
                return None;
            };
            if name.as_ident()?.value != "row" {
                return None;
            }
            let FunctionArguments::List(list) = &function.args else {
                return None;
            };
            list.args
                .iter()
                .map(|argument| match argument {
                    FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
                    _ => None,
                })
                .collect()
        }
        _ => None,
    }
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp {
        left: Box::new(left),
        op,
        right: Box::new(right),
    }
}

fn both(left: Expr, right: Expr) -> Expr {
    binary(left, BinaryOperator::And, right)
}

fn not(expr: Expr) -> Expr {
    Expr::UnaryOp {
        op: UnaryOperator::Not,
        expr: Box::new(Expr::Nested(Box::new(expr))),
    }
}

/// A balanced tree, so that a long list makes no deep one.
fn any_of(mut parts: Vec<Expr>) -> Expr {
    while parts.len() > 1 {
        let mut next = Vec::with_capacity(parts.len().div_ceil(2));
        let mut rest = parts.into_iter();
        while let Some(left) = rest.next() {
            next.push(match rest.next() {
                Some(right) => binary(left, BinaryOperator::Or, right),
                None => left,
            });
        }
        parts = next;
    }
    let only = parts.pop();
    Expr::Nested(Box::new(
        only.unwrap_or_else(|| Expr::value(Value::Boolean(false))),
    ))
}

fn check_lengths(left: &[Expr], right: &[Expr]) -> Result<()> {
    if left.len() == right.len() {
        return Ok(());
    }
    Err(Error::new(
        SqlState::SyntaxError,
        "unequal number of entries in row expressions",
    ))
}

fn equality(left: &[Expr], right: &[Expr]) -> Result<Expr> {
    check_lengths(left, right)?;
    let equal = left
        .iter()
        .zip(right)
        .map(|(left, right)| binary(left.clone(), BinaryOperator::Eq, right.clone()))
        .reduce(both);
    Ok(Expr::Nested(Box::new(
        equal.unwrap_or_else(|| Expr::value(Value::Boolean(true))),
    )))
}

fn same(left: &[Expr], right: &[Expr]) -> Result<Expr> {
    check_lengths(left, right)?;
    let same = left
        .iter()
        .zip(right)
        .map(|(left, right)| {
            Expr::IsNotDistinctFrom(Box::new(left.clone()), Box::new(right.clone()))
        })
        .reduce(both);
    Ok(Expr::Nested(Box::new(
        same.unwrap_or_else(|| Expr::value(Value::Boolean(true))),
    )))
}

fn compared(left: &[Expr], op: &BinaryOperator, right: &[Expr]) -> Result<Option<Expr>> {
    Ok(Some(match op {
        BinaryOperator::Eq => equality(left, right)?,
        BinaryOperator::NotEq => not(equality(left, right)?),
        BinaryOperator::Lt => ordered(left, BinaryOperator::Lt, false, right)?,
        BinaryOperator::LtEq => ordered(left, BinaryOperator::Lt, true, right)?,
        BinaryOperator::Gt => ordered(left, BinaryOperator::Gt, false, right)?,
        BinaryOperator::GtEq => ordered(left, BinaryOperator::Gt, true, right)?,
        BinaryOperator::Overlaps => overlapping(left, right)?,
        _ => return Ok(None),
    }))
}

/// `(start, end) OVERLAPS (start, end)`, where an end may be a length of time, as in PostgreSQL.
fn overlapping(left: &[Expr], right: &[Expr]) -> Result<Expr> {
    if left.len() != 2 || right.len() != 2 {
        return Err(Error::new(
            SqlState::SyntaxError,
            "OVERLAPS takes two periods: (start, end) OVERLAPS (start, end)",
        ));
    }
    let mut ends = Vec::with_capacity(4);
    for (period, end) in [left, left, right, right]
        .into_iter()
        .zip([PERIOD_FIRST, PERIOD_LAST].into_iter().cycle())
    {
        ends.extend(expanded(end, period));
    }
    expanded(OVERLAPS, &ends).ok_or_else(|| Error::internal("a macro of ours"))
}

/// `x < ANY (list)`.
fn any_member(value: &Expr, op: &BinaryOperator, list: &Expr) -> Option<Expr> {
    let name = match op {
        BinaryOperator::Eq => ANY_EQUAL,
        BinaryOperator::NotEq => ANY_OTHER,
        BinaryOperator::Lt => ANY_LESS,
        BinaryOperator::LtEq => ANY_LESS_OR_EQUAL,
        BinaryOperator::Gt => ANY_GREATER,
        BinaryOperator::GtEq => ANY_GREATER_OR_EQUAL,
        _ => return None,
    };
    let mut list = list;
    while let Expr::Nested(inner) = list {
        list = inner;
    }
    let members = match list {
        Expr::Value(text) => match &text.value {
            Value::Null => return expanded(UNKNOWN, &[]),
            // PostgreSQL's text of an array: its members have the value's type.
            Value::SingleQuotedString(_) => call(LIST_OF, vec![list.clone(), value.clone()]),
            _ => list.clone(),
        },
        other => other.clone(),
    };
    expanded(name, &[value.clone(), members])
}

/// `x LIKE ANY (list)`: whether one of the patterns fits.
fn like_any(expr: &Expr) -> Result<Expr> {
    let (Expr::Like { pattern, .. } | Expr::ILike { pattern, .. }) = expr else {
        return Err(Error::internal("LIKE ANY without a pattern"));
    };
    let mut list = pattern.as_ref();
    while let Expr::Nested(inner) = list {
        list = inner;
    }
    let patterns = match list {
        Expr::Tuple(patterns) => Some(patterns.clone()),
        // One pattern in parentheses.
        Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_)) => {
            Some(vec![list.clone()])
        }
        list => aggregates::members(list),
    };
    let Some(patterns) = patterns else {
        return Err(Error::unsupported(
            "LIKE ANY of a list that is not written out is not supported",
        )
        .with_hint("Write LIKE ANY (ARRAY['a%', 'b%']), or join with unnest(list)."));
    };
    let mut fits = Vec::with_capacity(patterns.len());
    for one in patterns {
        let mut like = expr.clone();
        if let Expr::Like { any, pattern, .. } | Expr::ILike { any, pattern, .. } = &mut like {
            *any = false;
            **pattern = one;
        }
        super::patterns::rewrite(&mut like)?;
        fits.push(like);
    }
    Ok(any_of(fits))
}

/// `a < x OR (a = x AND (b < y OR …))`, the last member compared with `<=` where equal rows count.
fn ordered(left: &[Expr], op: BinaryOperator, or_equal: bool, right: &[Expr]) -> Result<Expr> {
    check_lengths(left, right)?;
    let last_op = match (&op, or_equal) {
        (BinaryOperator::Lt, true) => BinaryOperator::LtEq,
        (BinaryOperator::Gt, true) => BinaryOperator::GtEq,
        _ => op.clone(),
    };
    let mut pairs = left.iter().cloned().zip(right.iter().cloned()).rev();
    let Some((a, b)) = pairs.next() else {
        return Ok(Expr::value(Value::Boolean(or_equal)));
    };
    let mut condition = binary(a, last_op, b);
    for (a, b) in pairs {
        let equal = binary(a.clone(), BinaryOperator::Eq, b.clone());
        let rest = both(equal, Expr::Nested(Box::new(condition)));
        condition = binary(
            binary(a, op.clone(), b),
            BinaryOperator::Or,
            Expr::Nested(Box::new(rest)),
        );
    }
    Ok(Expr::Nested(Box::new(condition)))
}

pub(super) fn subquery_of(expr: &Expr) -> Option<&Query> {
    match expr {
        Expr::Subquery(query) => Some(query),
        Expr::Function(function) => match (function.name.0.as_slice(), &function.args) {
            ([name], FunctionArguments::Subquery(query))
                if name.as_ident().is_some_and(|name| name.value == "array") =>
            {
                Some(query)
            }
            _ => None,
        },
        Expr::Nested(inner) => subquery_of(inner),
        _ => None,
    }
}

fn member_test(value: &Expr, op: &BinaryOperator, columns: &[Expr]) -> Result<Expr> {
    match columns {
        [column] => Ok(Expr::Nested(Box::new(binary(
            Expr::Nested(Box::new(value.clone())),
            op.clone(),
            column.clone(),
        )))),
        _ => Err(Error::internal("ANY compares one column")),
    }
}

fn opposite(op: &BinaryOperator) -> Option<BinaryOperator> {
    Some(match op {
        BinaryOperator::Eq => BinaryOperator::NotEq,
        BinaryOperator::NotEq => BinaryOperator::Eq,
        BinaryOperator::Lt => BinaryOperator::GtEq,
        BinaryOperator::LtEq => BinaryOperator::Gt,
        BinaryOperator::Gt => BinaryOperator::LtEq,
        BinaryOperator::GtEq => BinaryOperator::Lt,
        _ => return None,
    })
}

/// The columns of a subquery that lists them must be as many as the row has members.
fn check_width(row: &[Expr], subquery: &Query) -> Result<()> {
    let SetExpr::Select(select) = subquery.body.as_ref() else {
        return Ok(());
    };
    let listed = select.projection.iter().all(|item| {
        matches!(
            item,
            SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. }
        )
    });
    let (columns, members) = (select.projection.len(), row.len());
    if !listed || columns == members {
        return Ok(());
    }
    let amount = if columns > members { "many" } else { "few" };
    Err(Error::new(
        SqlState::SyntaxError,
        format!("subquery has too {amount} columns"),
    ))
}

fn in_subquery(row: &[Expr], subquery: &Query, negated: bool) -> Result<Expr> {
    check_width(row, subquery)?;
    quantified(row.len(), subquery, negated, |columns| {
        equality(row, columns)
    })
}

/// Whether the test holds for a row of the subquery, or its negation, with three truth values.
fn quantified(
    width: usize,
    subquery: &Query,
    negated: bool,
    test: impl Fn(&[Expr]) -> Result<Expr>,
) -> Result<Expr> {
    let found = exists(width, subquery, false, &test)?;
    let unknown = exists(width, subquery, false, |columns| {
        Ok(Expr::IsNull(Box::new(test(columns)?)))
    })?;
    let case = parse_query("SELECT CASE WHEN a THEN TRUE WHEN b THEN NULL ELSE FALSE END")?;
    let SetExpr::Select(mut select) = *case.body else {
        return Err(Error::internal("a query of ours"));
    };
    let Some(SelectItem::UnnamedExpr(mut case)) = select.projection.pop() else {
        return Err(Error::internal("a query of ours"));
    };
    if let Expr::Case {
        conditions,
        else_result,
        ..
    } = &mut case
    {
        for (branch, condition) in conditions.iter_mut().zip([found, unknown]) {
            branch.condition = condition;
        }
        if let Some(first) = conditions.first_mut() {
            first.result = Expr::value(Value::Boolean(!negated));
        }
        *else_result = Some(Box::new(Expr::value(Value::Boolean(negated))));
    }
    Ok(case)
}

/// Whether the test holds for a row of the subquery, or its negation, where NULL and FALSE are alike.
fn filtering(
    width: usize,
    subquery: &Query,
    negated: bool,
    test: impl Fn(&[Expr]) -> Result<Expr>,
) -> Result<Expr> {
    exists(width, subquery, negated, |columns| {
        let test = test(columns)?;
        // The negation holds where the test is false for every row.
        Ok(match negated {
            true => Expr::IsNotFalse(Box::new(test)),
            false => test,
        })
    })
}

/// `EXISTS (SELECT 1 FROM (subquery) AS rows(c1, …) WHERE <test of the columns>)`.
fn exists(
    width: usize,
    subquery: &Query,
    negated: bool,
    test: impl FnOnce(&[Expr]) -> Result<Expr>,
) -> Result<Expr> {
    let names: Vec<String> = (1..=width).map(|n| format!("{ROWS}_{n}")).collect();
    let mut query = parse_query(&format!(
        "SELECT 1 AS one FROM (SELECT 1) AS {ROWS}({})",
        names.join(", ")
    ))?;
    let SetExpr::Select(select) = query.body.as_mut() else {
        return Err(Error::internal("a query of ours"));
    };
    if let Some(TableFactor::Derived {
        subquery: inner, ..
    }) = select.from.first_mut().map(|table| &mut table.relation)
    {
        **inner = subquery.clone();
    }
    let columns: Vec<Expr> = names
        .iter()
        .map(|name| {
            Expr::CompoundIdentifier(vec![
                Ident::with_quote('"', ROWS),
                Ident::with_quote('"', name.as_str()),
            ])
        })
        .collect();
    select.selection = Some(test(&columns)?);
    Ok(Expr::Exists {
        subquery: Box::new(query),
        negated,
    })
}

#[cfg(test)]
mod tests {
    use super::super::parse_query;
    use super::*;

    fn rewritten(condition: &str) -> Result<String> {
        let query = parse_query(&format!("SELECT 1 FROM t WHERE {condition}"))?;
        let SetExpr::Select(select) = *query.body else {
            return Err(Error::internal("no SELECT"));
        };
        let mut condition = select.selection.unwrap();
        rewrite(&mut condition)?;
        Ok(condition.to_string())
    }

    #[test]
    fn rows_compare_member_by_member() {
        assert_eq!(rewritten("(a, b) = (1, 2)").unwrap(), "(a = 1 AND b = 2)");
        assert_eq!(
            rewritten("(a, b) < (1, 2)").unwrap(),
            "(a < 1 OR (a = 1 AND (b < 2)))"
        );
        assert_eq!(
            rewritten("(a, b) IN ((1, 2), (3, 4))").unwrap(),
            "((a = 1 AND b = 2) OR (a = 3 AND b = 4))"
        );
    }

    #[test]
    fn rows_of_different_lengths_do_not_compare() {
        assert!(rewritten("(a, b) = (1, 2, 3)").is_err());
    }

    #[test]
    fn single_values_stay() {
        assert_eq!(rewritten("(a) = (1)").unwrap(), "(a) = (1)");
    }
}
