//! USING and NATURAL joins: a joined column appears once and holds the value of whichever side has a row.
//!
//! DataFusion takes the merged column from one side, which holds NULL where only the other has a row. Here the joins become
//! joins ON equalities, and what the merged column stands for is written in its place:
//!
//! | join | `x` stands for |
//! | --- | --- |
//! | inner, left | the left side's |
//! | right | the right side's |
//! | full | `coalesce(left, right)` |
//!
//! `*` lists the columns in the order of DuckDB and SQLite: the left side's, merged ones in place, then the right side's others.
//! A subquery inside the query that names a merged column without its table is told that the name is ambiguous.

use std::collections::HashSet;
use std::ops::ControlFlow;

use arrow::datatypes::DataType;
use datafusion::common::{Result, TableReference};
use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, ExcludeSelectItem, Expr, GroupByExpr, Ident, JoinConstraint, JoinOperator,
    ObjectName, OrderByKind, Query, RenameSelectItem, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, TableAlias, TableFactor, TableWithJoins, Value,
    VisitMut, VisitorMut, WildcardAdditionalOptions,
};

use super::sorted;
use super::syntax::derived;
use super::wild;
use crate::parse::{UNIQUE, call};
use crate::{Error, SqlState};

/// Whether a SELECT has joins whose columns merge.
pub(super) fn concerns(select: &Select) -> bool {
    fn merges(table: &TableWithJoins) -> bool {
        let nested = |factor: &TableFactor| matches!(factor, TableFactor::NestedJoin { table_with_joins, alias: None } if merges(table_with_joins));
        nested(&table.relation)
            || table.joins.iter().any(|join| {
                nested(&join.relation)
                    || matches!(
                        constraint(&join.join_operator),
                        Some(JoinConstraint::Using(_) | JoinConstraint::Natural)
                    )
            })
    }
    select.from.iter().any(merges)
}

/// Whether `*` and its like have to be written out: a column of `*` may stand beside itself, and DataFusion wants each name once.
pub(super) fn repeats(select: &Select) -> bool {
    if wild::concerns(select) {
        return true;
    }
    let wild = |item: &&SelectItem| {
        matches!(
            item,
            SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(_, _)
        )
    };
    let wildcards = select.projection.iter().filter(wild).count();
    let columns = select.projection.iter().any(|item| {
        matches!(
            item,
            SelectItem::UnnamedExpr(Expr::Identifier(_) | Expr::CompoundIdentifier(_))
                | SelectItem::ExprWithAlias { .. }
        )
    });
    let lateral = |factor: &TableFactor| {
        matches!(
            factor,
            TableFactor::Derived { lateral: true, .. } | TableFactor::UNNEST { .. }
        )
    };
    let laterals = select.from.iter().any(|table| {
        lateral(&table.relation) || table.joins.iter().any(|join| lateral(&join.relation))
    });
    !select.from.is_empty() && !laterals && (wildcards > 1 || wildcards == 1 && columns)
}

/// Plans a query whose SELECT has joins whose columns merge.
pub(super) fn plan(
    mut query: Query,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let SetExpr::Select(select) = query.body.as_mut() else {
        return context.plan(derived(query, None));
    };
    let mut from = From {
        context,
        unnamed: 0,
    };
    let mut outputs = Vec::new();
    for table in &mut select.from {
        outputs.extend(from.tables(table)?);
    }
    let merged: Vec<Output> = outputs
        .iter()
        .filter(|output| {
            output.merged
                && outputs
                    .iter()
                    .filter(|other| other.name == output.name)
                    .count()
                    == 1
        })
        .cloned()
        .collect();
    wild::expand(select, &outputs)?;
    expand(&mut select.projection, &outputs)?;
    let mut names = HashSet::new();
    // Beside `t.*`, which holds a column of the same name, a merged one hides under a name of its own.
    let hidden = select
        .projection
        .iter()
        .any(|item| matches!(item, SelectItem::QualifiedWildcard(_, _)));
    for item in &mut select.projection {
        name_item(item, &merged, &mut names, hidden);
    }
    let mut values = Values {
        merged: &merged,
        depth: 0,
    };
    values.replace_in(&mut select.projection);
    values.replace_in(&mut select.distinct);
    values.replace_in(&mut select.selection);
    if let GroupByExpr::Expressions(keys, _) = &mut select.group_by {
        values.replace_in(keys);
    }
    values.replace_in(&mut select.having);
    values.replace_in(&mut select.named_window);
    values.replace_in(&mut select.qualify);
    if let Some(order) = &mut query.order_by
        && let OrderByKind::Expressions(keys) = &mut order.kind
    {
        for key in keys {
            // A name of the select list goes before one of FROM.
            let listed = matches!(&key.expr, Expr::Identifier(name) if names.contains(&name.value));
            if !listed {
                values.replace_in(&mut key.expr);
            }
        }
    }
    sorted::plan(query, context)
}

/// A column of FROM: what `*` lists and a bare name stands for.
#[derive(Clone)]
pub(super) struct Output {
    pub(super) name: String,
    pub(super) value: Expr,
    pub(super) merged: bool,
    pub(super) data_type: DataType,
}

struct From<'a> {
    context: &'a mut dyn RelationPlannerContext,
    unnamed: usize,
}

impl From<'_> {
    fn tables(&mut self, table: &mut TableWithJoins) -> Result<Vec<Output>> {
        let mut left = self.factor(&mut table.relation)?;
        for join in &mut table.joins {
            let right = self.factor(&mut join.relation)?;
            left = joined(left, right, &mut join.join_operator)?;
        }
        Ok(left)
    }

    fn factor(&mut self, factor: &mut TableFactor) -> Result<Vec<Output>> {
        if let TableFactor::NestedJoin {
            table_with_joins,
            alias: None,
        } = factor
        {
            return self.tables(table_with_joins);
        }
        if let TableFactor::Derived { alias, .. } | TableFactor::NestedJoin { alias, .. } = factor
            && alias.is_none()
        {
            self.unnamed += 1;
            *alias = Some(TableAlias {
                explicit: true,
                name: Ident::with_quote('"', format!("__firndb_side{}", self.unnamed)),
                columns: Vec::new(),
                at: None,
            });
        }
        if matches!(
            factor,
            TableFactor::Derived { lateral: true, .. }
                | TableFactor::Function { lateral: true, .. }
        ) {
            return Err(Error::unsupported(
                "LATERAL beside a USING or NATURAL join, COLUMNS or s.* is not supported",
            )
            .with_hint("Join ON the columns' equality, and name the columns.")
            .into());
        }
        let plan = self.context.plan(factor.clone())?;
        Ok(plan
            .schema()
            .iter()
            .map(|(qualifier, field)| Output {
                name: field.name().clone(),
                value: reference(qualifier, field.name()),
                merged: false,
                data_type: field.data_type().clone(),
            })
            .collect())
    }
}

fn reference(qualifier: Option<&TableReference>, name: &str) -> Expr {
    let quoted = |part: &str| Ident::with_quote('"', part);
    match qualifier {
        None => Expr::Identifier(quoted(name)),
        Some(qualifier) => {
            let mut parts: Vec<Ident> =
                qualifier.to_vec().iter().map(|part| quoted(part)).collect();
            parts.push(quoted(name));
            Expr::CompoundIdentifier(parts)
        }
    }
}

fn constraint(operator: &JoinOperator) -> Option<&JoinConstraint> {
    Some(match operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint)
        | JoinOperator::CrossJoin(constraint)
        | JoinOperator::Semi(constraint)
        | JoinOperator::LeftSemi(constraint)
        | JoinOperator::RightSemi(constraint)
        | JoinOperator::Anti(constraint)
        | JoinOperator::LeftAnti(constraint)
        | JoinOperator::RightAnti(constraint) => constraint,
        _ => return None,
    })
}

fn constraint_mut(operator: &mut JoinOperator) -> Option<&mut JoinConstraint> {
    Some(match operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint)
        | JoinOperator::CrossJoin(constraint)
        | JoinOperator::Semi(constraint)
        | JoinOperator::LeftSemi(constraint)
        | JoinOperator::RightSemi(constraint)
        | JoinOperator::Anti(constraint)
        | JoinOperator::LeftAnti(constraint)
        | JoinOperator::RightAnti(constraint) => constraint,
        _ => return None,
    })
}

/// The columns of a join, whose constraint becomes a condition.
fn joined(
    left: Vec<Output>,
    right: Vec<Output>,
    operator: &mut JoinOperator,
) -> Result<Vec<Output>> {
    let keys: Option<Vec<String>> = match constraint(operator) {
        Some(JoinConstraint::Using(names)) => {
            Some(names.iter().map(using_name).collect::<Result<Vec<_>>>()?)
        }
        Some(JoinConstraint::Natural) => Some(
            left.iter()
                .map(|output| output.name.clone())
                .filter(|name| right.iter().any(|output| output.name == *name))
                .collect(),
        ),
        _ => None,
    };
    let mut pairs = Vec::new();
    for key in keys.iter().flatten() {
        let left = only(&left, key, "left")?.value.clone();
        let right = only(&right, key, "right")?.value.clone();
        pairs.push((key.clone(), left, right));
    }
    if keys.is_some()
        && let Some(constraint) = constraint_mut(operator)
    {
        let condition = pairs
            .iter()
            .map(|(_, left, right)| Expr::BinaryOp {
                left: Box::new(left.clone()),
                op: BinaryOperator::Eq,
                right: Box::new(right.clone()),
            })
            .reduce(|all, next| Expr::BinaryOp {
                left: Box::new(all),
                op: BinaryOperator::And,
                right: Box::new(next),
            });
        let always = || Expr::value(Value::Boolean(true));
        *constraint = JoinConstraint::On(condition.unwrap_or_else(always));
    }
    let merged = |output: Output| {
        let Some((_, left, right)) = pairs.iter().find(|(key, _, _)| *key == output.name) else {
            return output;
        };
        let value = match operator {
            JoinOperator::Right(_) | JoinOperator::RightOuter(_) => right.clone(),
            JoinOperator::FullOuter(_) => call("coalesce", vec![left.clone(), right.clone()]),
            _ => left.clone(),
        };
        Output {
            value,
            merged: true,
            ..output
        }
    };
    Ok(match operator {
        JoinOperator::Semi(_)
        | JoinOperator::LeftSemi(_)
        | JoinOperator::Anti(_)
        | JoinOperator::LeftAnti(_) => left,
        JoinOperator::RightSemi(_) | JoinOperator::RightAnti(_) => right,
        _ => {
            let others = right
                .into_iter()
                .filter(|output| !pairs.iter().any(|(key, _, _)| *key == output.name));
            left.into_iter().map(merged).chain(others).collect()
        }
    })
}

fn using_name(name: &ObjectName) -> Result<String> {
    match name.0.as_slice() {
        [part] => part.as_ident().map(|ident| ident.value.clone()),
        _ => None,
    }
    .ok_or_else(|| Error::new(SqlState::SyntaxError, "USING takes names of columns").into())
}

fn only<'a>(outputs: &'a [Output], name: &str, side: &str) -> Result<&'a Output> {
    let mut found = outputs.iter().filter(|output| output.name == name);
    match (found.next(), found.next()) {
        (Some(output), None) => Ok(output),
        (None, _) => {
            let error = Error::new(
                SqlState::UndefinedColumn,
                format!(
                    "column \"{name}\" specified in USING clause does not exist in {side} table"
                ),
            );
            let names = outputs.iter().map(|output| output.name.as_str());
            Err(match crate::error::nearest(name, names) {
                Some(near) => error.with_hint(format!(
                    "Perhaps you meant to reference the column \"{near}\"."
                )),
                None => error,
            }
            .into())
        }
        (Some(_), Some(_)) => Err(Error::new(
            SqlState::AmbiguousColumn,
            format!("common column name \"{name}\" appears more than once in {side} table"),
        )
        .into()),
    }
}

/// Writes out what `*` stands for.
fn expand(items: &mut Vec<SelectItem>, outputs: &[Output]) -> Result<()> {
    let mut expanded = Vec::with_capacity(items.len());
    for item in items.drain(..) {
        match item {
            SelectItem::Wildcard(options) => expanded.extend(listed(options, outputs)?),
            SelectItem::QualifiedWildcard(
                SelectItemQualifiedWildcardKind::ObjectName(name),
                options,
            ) => {
                let of_table = columns_of(&name, outputs);
                match of_table.is_empty() {
                    true => expanded.push(SelectItem::QualifiedWildcard(
                        SelectItemQualifiedWildcardKind::ObjectName(name),
                        options,
                    )),
                    false => expanded.extend(listed(options, &of_table)?),
                }
            }
            other => expanded.push(other),
        }
    }
    *items = expanded;
    Ok(())
}

/// The columns of one table, if its columns are all among the outputs: none of them merged.
pub(super) fn columns_of(name: &ObjectName, outputs: &[Output]) -> Vec<Output> {
    let Some(table) = name.0.last().and_then(|part| part.as_ident()) else {
        return Vec::new();
    };
    if outputs.iter().any(|output| output.merged) {
        return Vec::new();
    }
    outputs
        .iter()
        .filter(|output| match &output.value {
            Expr::CompoundIdentifier(parts) => {
                parts.len() > 1 && parts[parts.len() - 2].value == table.value
            }
            _ => false,
        })
        .cloned()
        .collect()
}

pub(super) fn listed(
    options: WildcardAdditionalOptions,
    outputs: &[Output],
) -> Result<Vec<SelectItem>> {
    if options.opt_ilike.is_some() || options.opt_alias.is_some() {
        return Err(Error::unsupported("* ILIKE and * AS are not supported").into());
    }
    let mut left_out: Vec<String> = match options.opt_exclude {
        Some(ExcludeSelectItem::Single(name)) => vec![using_name(&name)?],
        Some(ExcludeSelectItem::Multiple(names)) => {
            names.iter().map(using_name).collect::<Result<_>>()?
        }
        None => Vec::new(),
    };
    if let Some(except) = options.opt_except {
        left_out.push(except.first_element.value);
        left_out.extend(
            except
                .additional_elements
                .into_iter()
                .map(|name| name.value),
        );
    }
    let replaced = options
        .opt_replace
        .map_or(Vec::new(), |replace| replace.items);
    let renamed = match options.opt_rename {
        Some(RenameSelectItem::Single(one)) => vec![one],
        Some(RenameSelectItem::Multiple(several)) => several,
        None => Vec::new(),
    };
    let named = replaced
        .iter()
        .map(|item| (&item.column_name.value, "REPLACE"))
        .chain(renamed.iter().map(|item| (&item.ident.value, "RENAME")));
    for (name, list) in left_out.iter().map(|name| (name, "EXCLUDE")).chain(named) {
        if !outputs.iter().any(|output| output.name == *name) {
            return Err(Error::new(
                SqlState::UndefinedColumn,
                format!("column \"{name}\" in the {list} list does not exist"),
            )
            .into());
        }
    }
    if let Some(item) = replaced
        .iter()
        .find(|item| left_out.contains(&item.column_name.value))
    {
        return Err(Error::new(
            SqlState::SyntaxError,
            format!(
                "column \"{}\" is in both the EXCLUDE and the REPLACE list",
                item.column_name.value
            ),
        )
        .into());
    }
    Ok(outputs
        .iter()
        .filter(|output| !left_out.contains(&output.name))
        .map(|output| {
            let replacement = replaced
                .iter()
                .find(|item| item.column_name.value == output.name);
            let rename = renamed.iter().find(|item| item.ident.value == output.name);
            let expr = replacement.map_or(&output.value, |item| &item.expr).clone();
            let own = matches!(&expr, Expr::CompoundIdentifier(parts) if parts.last().is_some_and(|last| last.value == output.name));
            match rename {
                None if own && replacement.is_none() => SelectItem::UnnamedExpr(expr),
                None => SelectItem::ExprWithAlias {
                    expr,
                    alias: Ident::with_quote('"', output.name.as_str()),
                },
                Some(rename) => SelectItem::ExprWithAlias {
                    expr,
                    alias: rename.alias.clone(),
                },
            }
        })
        .collect())
}

/// Keeps the name of a merged column of the select list, and names of one list apart.
fn name_item(item: &mut SelectItem, merged: &[Output], names: &mut HashSet<String>, hidden: bool) {
    let (name, plain) = match item {
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => (name.value.clone(), true),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => match parts.last() {
            Some(last) => (last.value.clone(), true),
            None => return,
        },
        SelectItem::ExprWithAlias { alias, .. } => (alias.value.clone(), false),
        _ => return,
    };
    let stands_for_value = matches!(item, SelectItem::UnnamedExpr(Expr::Identifier(_)))
        && merged.iter().any(|output| output.name == name);
    let fresh = match stands_for_value && hidden {
        true => false,
        false => names.insert(name.clone()),
    };
    if fresh && !stands_for_value {
        return;
    }
    let mut unique = match stands_for_value && hidden {
        true => format!("{name}{UNIQUE}u"),
        false => name.clone(),
    };
    let mut number = 0;
    while !fresh && !names.insert(unique.clone()) {
        number += 1;
        unique = format!("{name}{UNIQUE}u{number}");
    }
    let alias = Ident::with_quote('"', unique);
    match item {
        SelectItem::UnnamedExpr(expr) if plain => {
            let expr = std::mem::replace(expr, Expr::value(Value::Null));
            *item = SelectItem::ExprWithAlias { expr, alias };
        }
        SelectItem::ExprWithAlias { alias: old, .. } => *old = alias,
        _ => {}
    }
}

/// Puts the values of merged columns in the place of their names, outside subqueries.
struct Values<'a> {
    merged: &'a [Output],
    depth: usize,
}

impl Values<'_> {
    fn replace_in<T: VisitMut>(&mut self, part: &mut T) {
        let ControlFlow::Continue(()) = part.visit(self);
    }
}

impl VisitorMut for Values<'_> {
    type Break = std::convert::Infallible;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<Self::Break> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Self::Break> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        if self.depth == 0
            && let Expr::Identifier(name) = expr
            && let Some(output) = self.merged.iter().find(|output| output.name == name.value)
        {
            *expr = output.value.clone();
        }
        ControlFlow::Continue(())
    }
}
