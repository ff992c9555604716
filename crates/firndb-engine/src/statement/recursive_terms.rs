//! Recursive terms that read their query in subqueries of expressions alone: `… UNION SELECT a + 1 FROM t WHERE a IN (SELECT n FROM r)`.
//!
//! DataFusion takes a term for recursive where FROM reads the query. So such a term gets a branch that does, and has no rows:
//!
//! ```text
//! SELECT … WHERE a IN (SELECT n FROM r)  ─▶  (SELECT … WHERE a IN (SELECT n FROM r)) UNION ALL SELECT * FROM r WHERE FALSE
//! ```

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Cte, Expr, Ident, Query, SetExpr, SetOperator, SetQuantifier, TableFactor, TableWithJoins,
    Value, visit_relations,
};

use super::syntax::{bare_query, no_rows};

/// Lets FROM read a recursive query in its recursive term.
pub(super) fn read_in_from(table: &mut Cte) {
    let name = table.alias.name.clone();
    let SetExpr::SetOperation {
        op: SetOperator::Union,
        right,
        ..
    } = table.query.body.as_mut()
    else {
        return;
    };
    let reads = visit_relations(right, |relation| match is_named(relation, &name) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    })
    .is_break();
    if !reads || in_body(right, &name) {
        return;
    }
    let term = std::mem::replace(right.as_mut(), SetExpr::Values(no_rows()));
    let Some(nothing) = no_rows_of(&name) else {
        **right = term;
        return;
    };
    **right = SetExpr::SetOperation {
        op: SetOperator::Union,
        set_quantifier: SetQuantifier::All,
        left: Box::new(SetExpr::Query(Box::new(bare_query(term)))),
        right: Box::new(nothing),
    };
}

/// `SELECT * FROM name WHERE FALSE`.
fn no_rows_of(name: &Ident) -> Option<SetExpr> {
    let mut body = *crate::parse::parse_query("SELECT * FROM x").ok()?.body;
    if let SetExpr::Select(select) = &mut body {
        select.selection = Some(Expr::value(Value::Boolean(false)));
        if let TableFactor::Table { name: relation, .. } = &mut select.from.first_mut()?.relation {
            *relation = name.clone().into();
        }
    }
    Some(body)
}

fn is_named(relation: &datafusion::sql::sqlparser::ast::ObjectName, name: &Ident) -> bool {
    matches!(relation.0.as_slice(), [part] if part.as_ident().is_some_and(|part| part.value == name.value))
}

/// Whether FROM of a query or of one in it reads the name.
fn in_body(body: &SetExpr, name: &Ident) -> bool {
    match body {
        SetExpr::Select(select) => select.from.iter().any(|table| in_table(table, name)),
        SetExpr::Query(query) => in_query(query, name),
        SetExpr::SetOperation { left, right, .. } => in_body(left, name) || in_body(right, name),
        _ => false,
    }
}

fn in_query(query: &Query, name: &Ident) -> bool {
    in_body(&query.body, name)
}

fn in_table(table: &TableWithJoins, name: &Ident) -> bool {
    let joined = table.joins.iter().map(|join| &join.relation);
    std::iter::once(&table.relation)
        .chain(joined)
        .any(|factor| match factor {
            TableFactor::Table { name: relation, .. } => is_named(relation, name),
            TableFactor::Derived { subquery, .. } => in_query(subquery, name),
            TableFactor::NestedJoin {
                table_with_joins, ..
            } => in_table(table_with_joins, name),
            _ => false,
        })
}
