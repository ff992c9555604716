//! Columns that differ, but not by what the planner calls them.
//!
//! - `SELECT x.a, y.a … UNION …`: behind a set operation, columns have no tables. Such a branch gets names of its own.
//! - `SELECT a::BIGINT, a … GROUP BY 1, 2`: DataFusion leaves casts out of the names of its plans. Such a SELECT's casts are named.
//! - `SELECT sum(a IN (SELECT 1)), sum(a IN (SELECT 2))`: subqueries of predicates, too. Each gets its text for a name.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::common::{Column, Result};
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::logical_expr::{self as logical, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, GroupByExpr, OrderBy, Query, Select, SelectItem, SetExpr, Value,
    VisitMut, VisitorMut,
};

use super::syntax::derived;
use crate::expr::{APART, NAMED};
use crate::parse::{UNIQUE, output};

/// Whether a branch of a set operation may have two columns of one name.
pub(super) fn repeats(select: &Select) -> bool {
    let mut seen = HashSet::new();
    let mut relations = select.from.len();
    relations += select
        .from
        .iter()
        .map(|from| from.joins.len())
        .sum::<usize>();
    select.projection.iter().any(|item| match item {
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => !seen.insert(&name.value),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => {
            parts.last().is_some_and(|name| !seen.insert(&name.value))
        }
        SelectItem::ExprWithAlias { alias, .. } => !seen.insert(&alias.value),
        SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(_, _) => {
            relations > 1 || select.projection.len() > 1
        }
        _ => false,
    })
}

/// Plans a branch of a set operation, each of its columns under a name of its own.
pub(super) fn branch(
    query: Query,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let plan = context.plan(derived(query, None))?;
    let mut seen = HashSet::new();
    let mut names = Vec::with_capacity(plan.schema().fields().len());
    for field in plan.schema().fields() {
        let mut name = field.name().clone();
        let mut number = 0;
        while !seen.insert(name.clone()) {
            number += 1;
            name = format!("{}{UNIQUE}b{number}", field.name());
        }
        names.push(name);
    }
    let columns = plan.schema().iter().zip(names);
    let columns: Vec<logical::Expr> = columns
        .map(|(column, name)| logical::Expr::Column(Column::from(column)).alias(name))
        .collect();
    LogicalPlanBuilder::from(plan).project(columns)?.build()
}

/// Names the casts of a SELECT two of whose keys differ by casts alone.
pub(super) fn tell_keys_apart(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_mut() else {
        return;
    };
    if !has_like_keys(select) {
        return;
    }
    let mut casts = Casts { queries: 0 };
    let ControlFlow::Continue(()) = select.projection.visit(&mut casts);
    let ControlFlow::Continue(()) = select.group_by.visit(&mut casts);
    let ControlFlow::Continue(()) = select.having.visit(&mut casts);
    let ControlFlow::Continue(()) = select.qualify.visit(&mut casts);
    let ControlFlow::Continue(()) = query.order_by.visit(&mut casts);
}

fn has_like_keys(select: &Select) -> bool {
    let GroupByExpr::Expressions(keys, _) = &select.group_by else {
        return false;
    };
    let mut bare: Vec<(&Expr, Expr)> = Vec::with_capacity(keys.len());
    let keys = keys.iter().flat_map(|key| match key {
        Expr::Cube(sets) | Expr::Rollup(sets) | Expr::GroupingSets(sets) => {
            sets.iter().flatten().collect()
        }
        key => vec![key],
    });
    let mut casts = false;
    for key in keys {
        let key = output(key, &select.projection).unwrap_or(key);
        let mut without = key.clone();
        let mut bared = Bared { casts: false };
        let ControlFlow::Continue(()) = without.visit(&mut bared);
        casts |= bared.casts;
        bare.push((key, without));
    }
    casts
        && bare.iter().enumerate().any(|(at, (key, without))| {
            let later = bare.iter().skip(at + 1);
            later
                .filter(|(other, _)| other != key)
                .any(|(_, other)| other == without)
        })
}

/// Takes away casts, parentheses and the tables before columns.
struct Bared {
    casts: bool,
}

impl VisitorMut for Bared {
    type Break = std::convert::Infallible;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        self.casts |= matches!(expr, Expr::Cast { .. });
        let inner = match expr {
            Expr::Cast { expr, .. } | Expr::Nested(expr) => {
                std::mem::replace(expr.as_mut(), Expr::value(Value::Null))
            }
            Expr::CompoundIdentifier(parts) => match parts.pop() {
                Some(name) => Expr::Identifier(name),
                None => return ControlFlow::Continue(()),
            },
            _ => return ControlFlow::Continue(()),
        };
        *expr = inner;
        ControlFlow::Continue(())
    }
}

/// Names the predicates over subqueries of a SELECT that has several.
pub(super) fn tell_predicates_apart(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_mut() else {
        return;
    };
    let mut predicates = Predicates::default();
    predicates.visit(select, &mut query.order_by);
    if predicates.texts.len() > 1 {
        predicates.names = true;
        predicates.visit(select, &mut query.order_by);
    }
}

/// Finds predicates over subqueries, and then names them.
#[derive(Default)]
struct Predicates {
    /// Subqueries around, whose predicates are not the SELECT's.
    queries: usize,
    texts: HashSet<String>,
    names: bool,
}

impl Predicates {
    fn visit(&mut self, select: &mut Select, order: &mut Option<OrderBy>) {
        let ControlFlow::Continue(()) = select.projection.visit(self);
        let ControlFlow::Continue(()) = select.group_by.visit(self);
        let ControlFlow::Continue(()) = select.having.visit(self);
        let ControlFlow::Continue(()) = select.named_window.visit(self);
        let ControlFlow::Continue(()) = select.qualify.visit(self);
        let ControlFlow::Continue(()) = order.visit(self);
    }
}

impl VisitorMut for Predicates {
    type Break = std::convert::Infallible;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<Self::Break> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Self::Break> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        let of_subquery = match expr {
            Expr::InSubquery { .. } | Expr::Exists { .. } => true,
            Expr::AnyOp { right, .. } | Expr::AllOp { right, .. } => {
                matches!(right.as_ref(), Expr::Subquery(_))
            }
            _ => false,
        };
        if self.queries > 0 || !of_subquery {
            return ControlFlow::Continue(());
        }
        let text = expr.to_string();
        if self.names {
            let predicate = std::mem::replace(expr, Expr::value(Value::Null));
            *expr = Expr::BinaryOp {
                left: Box::new(predicate),
                op: BinaryOperator::Custom(APART.to_owned()),
                right: Box::new(Expr::value(Value::SingleQuotedString(text))),
            };
        } else {
            self.texts.insert(text);
        }
        ControlFlow::Continue(())
    }
}

struct Casts {
    /// Subqueries around, whose casts are not the SELECT's.
    queries: usize,
}

impl VisitorMut for Casts {
    type Break = std::convert::Infallible;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<Self::Break> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Self::Break> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        if self.queries > 0 || !matches!(expr, Expr::Cast { .. }) {
            return ControlFlow::Continue(());
        }
        let cast = std::mem::replace(expr, Expr::value(Value::Null));
        // Without a text, the name is the planned expression's.
        *expr = Expr::BinaryOp {
            left: Box::new(cast),
            op: BinaryOperator::Custom(NAMED.to_owned()),
            right: Box::new(Expr::value(Value::SingleQuotedString(String::new()))),
        };
        ControlFlow::Continue(())
    }
}
