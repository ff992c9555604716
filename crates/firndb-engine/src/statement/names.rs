//! Names in queries where the planner has other rules: aliases of some columns, arguments that differ by a cast alone, renamed
//! common table expressions.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::common::Result as PlanResult;
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::logical_expr::{self as logical, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    ObjectName, ObjectNamePart, Query, Select, SelectItem, SetExpr, TableAlias, TableFactor, Value,
    VisitorMut, visit_expressions,
};

use super::syntax::{bare_query, no_rows, select_from};
use super::wild::names_relation;
use crate::error::{Error, SqlState};
use crate::expr::{DECIDED, NAMED};

/// A relation whose alias names its columns, be it only the first ones: the others keep their names.
pub(super) fn partly_named(
    relation: &TableFactor,
    context: &mut dyn RelationPlannerContext,
) -> PlanResult<Option<LogicalPlan>> {
    let mut bare = relation.clone();
    let (TableFactor::Table {
        alias: Some(alias), ..
    }
    | TableFactor::Derived {
        alias: Some(alias),
        lateral: false,
        ..
    }) = &mut bare
    else {
        return Ok(None);
    };
    if alias.columns.is_empty() {
        return Ok(None);
    }
    let names = std::mem::take(&mut alias.columns);
    let table = alias.name.value.clone();
    let plan = context.plan(bare)?;
    let columns = plan.schema().columns();
    if names.len() > columns.len() {
        return Err(Error::new(
            SqlState::InvalidColumnReference,
            format!(
                "table \"{table}\" has {} columns available but {} columns specified",
                columns.len(),
                names.len()
            ),
        )
        .into());
    }
    let names = names.into_iter().map(|column| Some(column.name.value));
    let columns = columns
        .into_iter()
        .zip(names.chain(std::iter::repeat(None)))
        .map(|(column, name)| match name {
            Some(name) => logical::Expr::Column(column).alias(name),
            None => logical::Expr::Column(column),
        });
    LogicalPlanBuilder::from(plan)
        .project(columns)?
        .alias(table)?
        .build()
        .map(Some)
}

/// Types the arguments of a function by their CASEs' branches, where strings without a type of their own are among them:
/// `sum(CASE WHEN b THEN '9' ELSE n END)`. DataFusion looks for the function by the first branch.
pub(super) fn decide_branches(function: &mut Function) {
    let FunctionArguments::List(list) = &mut function.args else {
        return;
    };
    for argument in &mut list.args {
        if let FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) = argument
            && visit_expressions(value, |part| match part {
                Expr::Case {
                    conditions,
                    else_result,
                    ..
                } => {
                    let results = conditions.iter().map(|branch| &branch.result);
                    let text = results.chain(else_result.as_deref()).any(|result| {
                        matches!(result, Expr::Value(value)
                            if matches!(value.value, Value::SingleQuotedString(_)))
                    });
                    match text {
                        true => ControlFlow::Break(()),
                        false => ControlFlow::Continue(()),
                    }
                }
                _ => ControlFlow::Continue(()),
            })
            .is_break()
        {
            let taken = std::mem::replace(value, Expr::value(Value::Null));
            *value = Expr::BinaryOp {
                left: Box::new(taken),
                op: BinaryOperator::Custom(DECIDED.to_owned()),
                right: Box::new(Expr::value(Value::SingleQuotedString(String::new()))),
            };
        }
    }
}

/// Names the columns that a LATERAL subquery hands through from outside: `LATERAL (SELECT t.a) q` has the column `a`.
pub(super) fn name_outer_columns(body: &mut SetExpr) {
    let select = match body {
        SetExpr::Select(select) => select.as_mut(),
        SetExpr::SetOperation { left, .. } => return name_outer_columns(left),
        SetExpr::Query(query) => return name_outer_columns(&mut query.body),
        _ => return,
    };
    let name = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(name.clone()),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => parts.last().cloned(),
        SelectItem::ExprWithAlias { alias, .. } => Some(alias.clone()),
        _ => None,
    };
    let names: Vec<Option<Ident>> = select.projection.iter().map(name).collect();
    let foreign: Vec<bool> = select
        .projection
        .iter()
        .map(|item| match item {
            SelectItem::UnnamedExpr(Expr::Identifier(_)) => select.from.is_empty(),
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => {
                parts.len() == 2 && !names_relation(&ObjectName::from(parts[0].clone()), select)
            }
            _ => false,
        })
        .collect();
    for ((item, name), foreign) in select.projection.iter_mut().zip(&names).zip(foreign) {
        let Some(name) = name.as_ref().filter(|_| foreign) else {
            continue;
        };
        let alike = names
            .iter()
            .flatten()
            .filter(|other| other.value == name.value);
        if alike.count() == 1
            && let SelectItem::UnnamedExpr(expr) = item
        {
            let expr = std::mem::replace(expr, Expr::value(Value::Null));
            *item = SelectItem::ExprWithAlias {
                alias: Ident::with_quote('"', name.value.as_str()),
                expr,
            };
        }
    }
}

/// Names the arguments of an aggregate that hold casts. DataFusion leaves casts out of the names of its plans, so that `sum(a)` and
/// `sum(a::DOUBLE)` would be one column.
pub(super) fn tell_casts_apart(function: &mut Function) {
    const AGGREGATES: [&str; 33] = [
        "sum",
        "count",
        "avg",
        "mean",
        "min",
        "max",
        "median",
        "mode",
        "product",
        "stddev",
        "stddev_pop",
        "stddev_samp",
        "variance",
        "var_pop",
        "var_samp",
        "array_agg",
        "list",
        "string_agg",
        "bool_and",
        "bool_or",
        "first_value",
        "last_value",
        "quantile_cont",
        "quantile_disc",
        "mad",
        "skewness",
        "kurtosis",
        "kurtosis_pop",
        "entropy",
        "bit_and",
        "bit_or",
        "bit_xor",
        "approx_distinct",
    ];
    let [ObjectNamePart::Identifier(name)] = function.name.0.as_slice() else {
        return;
    };
    if !AGGREGATES.contains(&name.value.as_str()) {
        return;
    }
    let FunctionArguments::List(list) = &mut function.args else {
        return;
    };
    if !list.clauses.is_empty() {
        // ORDER BY may have to name the argument as it is.
        return;
    }
    for argument in &mut list.args {
        if let FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) = argument
            && visit_expressions(value, |part| match part {
                Expr::Cast { .. } => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            })
            .is_break()
        {
            let name = Expr::value(Value::SingleQuotedString(value.to_string()));
            let taken = std::mem::replace(value, Expr::value(Value::Null));
            *value = Expr::BinaryOp {
                left: Box::new(taken),
                op: BinaryOperator::Custom(NAMED.to_owned()),
                right: Box::new(name),
            };
        }
    }
}

/// `WITH q (a) AS (…)` is `WITH q AS (SELECT * FROM (…) AS q (a))`: the alias of a relation may name the first columns only.
pub(super) fn name_columns(query: &mut Query) {
    let Some(with) = &mut query.with else {
        return;
    };
    if with.recursive {
        return;
    }
    for table in &mut with.cte_tables {
        if table.alias.columns.is_empty() {
            continue;
        }
        let alias = TableAlias {
            columns: std::mem::take(&mut table.alias.columns),
            ..table.alias.clone()
        };
        let empty = bare_query(SetExpr::Values(no_rows()));
        let inner = std::mem::replace(table.query.as_mut(), empty);
        let mut body = select_from(inner, &alias.name.value);
        if let SetExpr::Select(select) = &mut body
            && let Some(from) = select.from.first_mut()
            && let TableFactor::Derived { alias: named, .. } = &mut from.relation
        {
            *named = Some(alias);
        }
        *table.query = bare_query(body);
    }
}

/// `SELECT s.a` of a struct `s` is called `a`, unless another column is; DataFusion calls it `t.s[a]`.
pub(super) fn name_members(select: &mut Select) {
    let output = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(name.value.clone()),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => {
            parts.last().map(|name| name.value.clone())
        }
        SelectItem::ExprWithAlias { alias, .. } => Some(alias.value.clone()),
        _ => None,
    };
    let outputs: Vec<Option<String>> = select.projection.iter().map(output).collect();
    let members: Vec<usize> = select
        .projection
        .iter()
        .enumerate()
        .filter(|(place, item)| match item {
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => {
                let of_relation =
                    |name: &Ident| names_relation(&ObjectName::from(name.clone()), select);
                let member = match parts.as_slice() {
                    [first, _] => !of_relation(first),
                    [first, _, _] => of_relation(first),
                    _ => false,
                };
                let name = &outputs[*place];
                member && outputs.iter().filter(|other| *other == name).count() == 1
            }
            _ => false,
        })
        .map(|(place, _)| place)
        .collect();
    for place in members {
        let item = &mut select.projection[place];
        if let SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) = &*item
            && let Some(last) = parts.last()
        {
            *item = SelectItem::ExprWithAlias {
                alias: Ident::with_quote('"', last.value.as_str()),
                expr: Expr::CompoundIdentifier(parts.clone()),
            };
        }
    }
}

/// References to renamed common table expressions; they keep the old name as alias.
#[derive(Default)]
pub(super) struct Renames {
    pub(super) names: HashMap<String, String>,
}

impl VisitorMut for Renames {
    type Break = std::convert::Infallible;

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Self::Break> {
        if let TableFactor::Table {
            name,
            alias,
            args: None,
            ..
        } = factor
            && let [part] = name.0.as_slice()
            && let Some(ident) = part.as_ident()
            && let Some(new) = self.names.get(&ident.value)
        {
            if alias.is_none() {
                *alias = Some(TableAlias {
                    explicit: true,
                    name: ident.clone(),
                    columns: Vec::new(),
                    at: None,
                });
            }
            *name = ObjectName::from(Ident::with_quote('"', new.as_str()));
        }
        ControlFlow::Continue(())
    }
}
