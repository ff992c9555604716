//! ASOF joins, as in DuckDB: of the rows that fit by an inequality, the nearest one.
//!
//! ```text
//! l ASOF JOIN r ON l.k = r.k AND l.t >= r.t
//!     ─▶  l JOIN LATERAL (SELECT * FROM r WHERE l.k = r.k AND l.t >= r.t ORDER BY r.t DESC LIMIT 1) AS r ON TRUE
//! ```

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, Join, JoinConstraint, JoinOperator, LimitClause, OrderBy,
    OrderByExpr, OrderByKind, OrderByOptions, SetExpr, TableAlias, TableFactor, TableWithJoins,
    Value,
};

use super::calls::number;
use super::parse_query;
use crate::error::{Error, Result};

/// Rewrites one join.
pub(super) fn rewrite(join: &mut Join) -> Result<()> {
    let (JoinOperator::Join(constraint)
    | JoinOperator::Inner(constraint)
    | JoinOperator::Left(constraint)
    | JoinOperator::LeftOuter(constraint)) = &mut join.join_operator
    else {
        return Err(refused());
    };
    let always = JoinConstraint::On(Expr::value(Value::Boolean(true)));
    let JoinConstraint::On(condition) = std::mem::replace(constraint, always) else {
        return Err(refused());
    };
    let alias = alias_of(&join.relation).ok_or_else(refused)?;
    let (key, ascending) = nearest(&condition, &alias.name)?;
    let mut query = parse_query("SELECT * FROM r LIMIT 1")?;
    query.order_by = Some(OrderBy {
        kind: OrderByKind::Expressions(vec![OrderByExpr {
            expr: key,
            options: OrderByOptions {
                asc: Some(ascending),
                nulls_first: Some(false),
            },
            with_fill: None,
        }]),
        interpolate: None,
    });
    query.limit_clause = Some(LimitClause::LimitOffset {
        limit: Some(number("1")),
        offset: None,
        limit_by: Vec::new(),
    });
    let placeholder = TableFactor::Derived {
        lateral: true,
        subquery: Box::new(query.clone()),
        alias: Some(TableAlias {
            columns: Vec::new(),
            ..alias
        }),
        sample: None,
    };
    let relation = std::mem::replace(&mut join.relation, placeholder);
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.from = vec![TableWithJoins {
            relation,
            joins: Vec::new(),
        }];
        select.selection = Some(condition);
    }
    if let TableFactor::Derived { subquery, .. } = &mut join.relation {
        **subquery = query;
    }
    join.global = false;
    Ok(())
}

fn refused() -> Error {
    Error::unsupported("this ASOF join is not supported")
        .with_hint("Write l ASOF [LEFT] JOIN r ON l.k = r.k AND l.t >= r.t, with one inequality.")
}

fn alias_of(factor: &TableFactor) -> Option<TableAlias> {
    match factor {
        TableFactor::Table {
            alias: Some(alias), ..
        }
        | TableFactor::Derived {
            alias: Some(alias),
            lateral: false,
            ..
        } => Some(alias.clone()),
        TableFactor::Table {
            name, args: None, ..
        } => Some(TableAlias {
            explicit: true,
            name: name.0.last()?.as_ident()?.clone(),
            columns: Vec::new(),
            at: None,
        }),
        _ => None,
    }
}

/// What the rows that fit are sorted by, so that the nearest comes first, and whether ascending.
fn nearest(condition: &Expr, right: &Ident) -> Result<(Expr, bool)> {
    let mut found = None;
    let mut open = vec![condition];
    while let Some(part) = open.pop() {
        match part {
            Expr::Nested(inner) => open.push(inner),
            Expr::BinaryOp {
                left,
                op: BinaryOperator::And,
                right,
            } => open.extend([left.as_ref(), right.as_ref()]),
            Expr::BinaryOp {
                left,
                op:
                    op @ (BinaryOperator::Gt
                    | BinaryOperator::GtEq
                    | BinaryOperator::Lt
                    | BinaryOperator::LtEq),
                right: other,
            } => {
                if found.is_some() {
                    return Err(refused());
                }
                let least = matches!(op, BinaryOperator::Lt | BinaryOperator::LtEq);
                // The greatest that is not above, or the least that is not below.
                found = Some(match is_of(left, right) {
                    true => (left.as_ref().clone(), !least),
                    false => (other.as_ref().clone(), least),
                });
            }
            _ => {}
        }
    }
    found.ok_or_else(refused)
}

fn is_of(expr: &Expr, table: &Ident) -> bool {
    matches!(expr, Expr::CompoundIdentifier(parts) if parts.len() > 1 && parts[parts.len() - 2].value == table.value)
}
