//! ORDER BY between the names of FROM and those of the select list.
//!
//! A key that is a name alone stands for the output of that name; within an expression (`ORDER BY a + 1`), and with its
//! table (`ORDER BY t.a`), a column of FROM goes before an output of the same name. DataFusion takes the output, or calls
//! the name ambiguous. Here such outputs get names of their own while the query is planned, and their names back above it. A
//! name that FROM lacks stays the output's.
//!
//! Keys that are no outputs reach below a select list only if it is a projection alone. Above an UNNEST in it they are outputs of
//! their own while the query is planned, and are left out above it: `SELECT unnest(l) FROM t ORDER BY i`.

use std::ops::ControlFlow;

use datafusion::common::{Column, DataFusionError, Result, SchemaError};
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::logical_expr::{Expr as PlanExpr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, OrderByKind, Query, SelectItem, SetExpr, Visit, Visitor,
};

use super::syntax::derived;
use crate::parse::UNIQUE;

/// Whether ORDER BY may mean a column of FROM by the name of an output.
pub(super) fn concerns(query: &Query) -> bool {
    !contested(query).is_empty() || unnests(query)
}

/// Plans a query whose ORDER BY may mean columns of FROM by the names of outputs.
pub(super) fn plan(query: Query, context: &mut dyn RelationPlannerContext) -> Result<LogicalPlan> {
    let mut names = contested(&query);
    while !names.is_empty() {
        let mut renamed = query.clone();
        rename(&mut renamed, &names);
        match context.plan(derived(renamed, None)) {
            Ok(plan) => return restored(plan),
            Err(error) => {
                let missing = missing_column(&error);
                let before = names.len();
                names.retain(|name| Some(name.as_str()) != missing);
                if names.len() == before {
                    break;
                }
            }
        }
    }
    // A key over outputs, which FROM lacks, is none to add: the query as it is then plans, or says what is wrong.
    if unnests(&query) {
        let mut keyed = query.clone();
        if add_keys(&mut keyed)
            && let Ok(plan) = context.plan(derived(keyed, None))
        {
            return without_keys(plan);
        }
    }
    context.plan(derived(query, None))
}

/// Whether the select list of a sorted query has an UNNEST.
fn unnests(query: &Query) -> bool {
    let (Some(order), SetExpr::Select(select)) = (&query.order_by, query.body.as_ref()) else {
        return false;
    };
    matches!(order.kind, OrderByKind::Expressions(_))
        && select.distinct.is_none()
        && select.projection.iter().any(|item| match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                has_unnest(expr)
            }
            _ => false,
        })
}

fn has_unnest(expr: &Expr) -> bool {
    let mut names = Names::default();
    let ControlFlow::Continue(()) = expr.visit(&mut names);
    names.unnests
}

fn key_name(place: usize) -> String {
    format!("{place}{}", key_end())
}

fn key_end() -> String {
    format!("{UNIQUE}k")
}

/// Makes outputs of the keys that are none; false where there are no such keys.
fn add_keys(query: &mut Query) -> bool {
    let SetExpr::Select(select) = query.body.as_mut() else {
        return false;
    };
    let outputs = select.projection.len();
    let Some(OrderByKind::Expressions(keys)) = query.order_by.as_mut().map(|order| &mut order.kind)
    else {
        return false;
    };
    for (place, key) in keys.iter_mut().enumerate() {
        let is_output = match &key.expr {
            Expr::Value(_) => true,
            Expr::Identifier(name) => select.projection.iter().any(|item| {
                matches!(item, SelectItem::ExprWithAlias { alias, .. } if alias.value == name.value)
            }),
            other => has_unnest(other),
        };
        if is_output {
            continue;
        }
        let alias = Ident::with_quote('"', key_name(place));
        let expr = std::mem::replace(&mut key.expr, Expr::Identifier(alias.clone()));
        select
            .projection
            .push(SelectItem::ExprWithAlias { expr, alias });
    }
    select.projection.len() > outputs
}

/// Leaves the keys out that were made outputs.
fn without_keys(plan: LogicalPlan) -> Result<LogicalPlan> {
    let end = key_end();
    let columns: Vec<PlanExpr> = plan
        .schema()
        .iter()
        .filter(|(_, field)| !field.name().ends_with(&end))
        .map(|(qualifier, field)| PlanExpr::Column(Column::from((qualifier, field))))
        .collect();
    LogicalPlanBuilder::from(plan).project(columns)?.build()
}

/// Outputs whose names ORDER BY also uses within expressions or with a table.
fn contested(query: &Query) -> Vec<String> {
    let (Some(order), SetExpr::Select(select)) = (&query.order_by, query.body.as_ref()) else {
        return Vec::new();
    };
    let OrderByKind::Expressions(keys) = &order.kind else {
        return Vec::new();
    };
    let mut used = Names::default();
    for key in keys {
        if !matches!(key.expr, Expr::Identifier(_)) {
            let ControlFlow::Continue(()) = key.expr.visit(&mut used);
        }
    }
    if used.names.is_empty() {
        return Vec::new();
    }
    let outputs = select.projection.iter().filter_map(|item| match item {
        SelectItem::ExprWithAlias { expr, alias } => {
            let same = matches!(expr, Expr::Identifier(name) if name.value == alias.value);
            (!same).then_some(&alias.value)
        }
        _ => None,
    });
    outputs
        .filter(|name| used.names.contains(name))
        .cloned()
        .collect()
}

/// The names of columns in an expression, and whether it has an UNNEST, outside subqueries.
#[derive(Default)]
struct Names {
    names: Vec<String>,
    unnests: bool,
    depth: usize,
}

impl Visitor for Names {
    type Break = std::convert::Infallible;

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<Self::Break> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<Self::Break> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Self::Break> {
        let name = match expr {
            Expr::Identifier(name) => Some(name),
            Expr::CompoundIdentifier(parts) => parts.last(),
            _ => None,
        };
        if self.depth == 0
            && let Expr::Function(function) = expr
        {
            let name = function.name.0.last().and_then(|part| part.as_ident());
            self.unnests |= name.is_some_and(|name| name.value.eq_ignore_ascii_case("unnest"));
        }
        if self.depth == 0
            && let Some(name) = name
        {
            self.names.push(name.value.clone());
        }
        ControlFlow::Continue(())
    }
}

fn hidden(name: &str) -> String {
    format!("{name}{UNIQUE}o")
}

/// Gives outputs names that nothing else has, in the select list and where ORDER BY means them.
fn rename(query: &mut Query, names: &[String]) {
    let rename = |ident: &mut Ident| {
        if names.contains(&ident.value) {
            *ident = Ident::with_quote('"', hidden(&ident.value));
        }
    };
    if let SetExpr::Select(select) = query.body.as_mut() {
        for item in &mut select.projection {
            if let SelectItem::ExprWithAlias { alias, .. } = item {
                rename(alias);
            }
        }
    }
    if let Some(order) = &mut query.order_by
        && let OrderByKind::Expressions(keys) = &mut order.kind
    {
        for key in keys {
            if let Expr::Identifier(name) = &mut key.expr {
                rename(name);
            }
        }
    }
}

/// Gives outputs their names back.
fn restored(plan: LogicalPlan) -> Result<LogicalPlan> {
    let end = hidden("");
    let columns: Vec<PlanExpr> = plan
        .schema()
        .iter()
        .map(|(qualifier, field)| {
            let column = PlanExpr::Column(Column::from((qualifier, field)));
            match field.name().strip_suffix(&end) {
                Some(name) => column.alias_qualified(qualifier.cloned(), name),
                None => column,
            }
        })
        .collect();
    LogicalPlanBuilder::from(plan).project(columns)?.build()
}

/// The name of the column that an error misses.
fn missing_column(error: &DataFusionError) -> Option<&str> {
    match error.find_root() {
        DataFusionError::SchemaError(missing, _) => match missing.as_ref() {
            SchemaError::FieldNotFound { field, .. } => Some(&field.name),
            _ => None,
        },
        _ => None,
    }
}
