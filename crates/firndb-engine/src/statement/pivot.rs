//! PIVOT and UNPIVOT of a relation.
//!
//! ```text
//! s PIVOT (sum(v) FOR q IN ('a', 'b'))     SELECT y, sum(v) FILTER (WHERE q = 'a') AS a, sum(v) FILTER (WHERE q = 'b') AS b FROM s GROUP BY y
//! w UNPIVOT (v FOR n IN (a, b))            SELECT id, n, v FROM (SELECT id, unnest(['a', 'b']) AS n, unnest([a, b]) AS v FROM w) WHERE v IS NOT NULL
//! ```
//!
//! What is neither aggregated nor pivoted is grouped by, and only the planner knows those columns.

use std::collections::HashSet;
use std::ops::ControlFlow;

use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, ExprWithAlias, FunctionArg, FunctionArgExpr, FunctionArguments,
    GroupByExpr, Ident, NullInclusion, PivotValueSource, Select, SelectItem, SetExpr, TableAlias,
    TableFactor, TableWithJoins, Value, visit_expressions,
};

use super::merged::Output;
use super::syntax::{bare_query, no_rows, select_from};
use super::wild;
use crate::parse::{GROUPS, call};
use crate::{Error, SqlState};

/// The alias of a relation of unpivoted columns.
const UNPIVOTED: &str = "__firndb_unpivoted";
/// Columns that a PIVOT may make.
const MAX_COLUMNS: usize = 10_000;

/// Plans a PIVOT or UNPIVOT; `None` for other relations.
pub(super) fn plan(
    relation: &TableFactor,
    context: &mut dyn RelationPlannerContext,
) -> Result<Option<LogicalPlan>> {
    let (select, alias) = match relation {
        TableFactor::Pivot {
            table,
            aggregate_functions,
            value_column,
            value_source,
            default_on_null,
            alias,
        } => {
            let values = match value_source {
                PivotValueSource::List(values) => values,
                _ => return Err(refused("PIVOT takes a list of constants")),
            };
            if default_on_null.is_some() {
                return Err(refused("PIVOT takes no DEFAULT ON NULL"));
            }
            let (aggregates, groups) = match aggregate_functions.split_last() {
                Some((last, aggregates)) if let Some(groups) = groups(&last.expr) => {
                    (aggregates, Some(groups))
                }
                _ => (aggregate_functions.as_slice(), None),
            };
            let pivoted = Pivot {
                aggregates,
                by: value_column,
                values,
                groups: groups.as_deref(),
            };
            let columns = columns(table, context)?;
            (pivoted.select(table, &columns)?, alias)
        }
        TableFactor::Unpivot {
            table,
            value,
            name,
            columns: unpivoted,
            null_inclusion,
            alias,
        } => {
            let values = value_names(value)
                .ok_or_else(|| refused("the values of UNPIVOT are names of columns"))?;
            let columns = columns(table, context)?;
            let nulls = matches!(null_inclusion, Some(NullInclusion::IncludeNulls));
            let select = unpivot(table, &columns, &values, name, unpivoted, nulls)?;
            (select, alias)
        }
        _ => return Ok(None),
    };
    let alias = alias.clone().unwrap_or_else(|| TableAlias {
        explicit: true,
        name: Ident::new(match relation {
            TableFactor::Pivot { .. } => "pivot",
            _ => "unpivot",
        }),
        columns: Vec::new(),
        at: None,
    });
    let derived = TableFactor::Derived {
        lateral: false,
        subquery: Box::new(bare_query(select)),
        alias: Some(alias),
        sample: None,
    };
    context.plan(derived).map(Some)
}

fn refused(what: &str) -> datafusion::common::DataFusionError {
    Error::unsupported(what).into()
}

/// The columns that a PIVOT names to group by, which stand beside its aggregates.
fn groups(expr: &Expr) -> Option<Vec<Expr>> {
    let Expr::Function(function) = expr else {
        return None;
    };
    let FunctionArguments::List(list) = &function.args else {
        return None;
    };
    if function.name.to_string() != GROUPS {
        return None;
    }
    list.args
        .iter()
        .map(|argument| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
            _ => None,
        })
        .collect()
}

/// The names of a relation's columns.
fn columns(table: &TableFactor, context: &mut dyn RelationPlannerContext) -> Result<Vec<String>> {
    let plan = context.plan(table.clone())?;
    let fields = plan.schema().fields().iter();
    Ok(fields.map(|field| field.name().clone()).collect())
}

fn quoted(name: &str) -> Ident {
    Ident::with_quote('"', name)
}

fn identifier(name: &str) -> Expr {
    Expr::Identifier(quoted(name))
}

/// The columns that expressions name.
fn named<'a>(expressions: impl IntoIterator<Item = &'a Expr>) -> HashSet<String> {
    let mut names = HashSet::new();
    for expression in expressions {
        let ControlFlow::Continue(()) = visit_expressions(expression, |part| {
            match part {
                Expr::Identifier(name) => {
                    names.insert(name.value.clone());
                }
                Expr::CompoundIdentifier(parts) => {
                    names.extend(parts.last().map(|name| name.value.clone()));
                }
                _ => {}
            }
            ControlFlow::<std::convert::Infallible>::Continue(())
        });
    }
    names
}

/// `SELECT … FROM table`.
fn from(table: &TableFactor) -> Result<Box<Select>> {
    match select_from(bare_query(SetExpr::Values(no_rows())), UNPIVOTED) {
        SetExpr::Select(mut select) => {
            select.from = vec![TableWithJoins {
                relation: table.clone(),
                joins: Vec::new(),
            }];
            Ok(select)
        }
        _ => Err(Error::internal("no SELECT").into()),
    }
}

struct Pivot<'a> {
    aggregates: &'a [ExprWithAlias],
    by: &'a [Expr],
    values: &'a [ExprWithAlias],
    /// The columns to group by, if they are named.
    groups: Option<&'a [Expr]>,
}

impl Pivot<'_> {
    fn select(&self, table: &TableFactor, columns: &[String]) -> Result<SetExpr> {
        if self.values.len().saturating_mul(self.aggregates.len()) > MAX_COLUMNS {
            return Err(Error::new(
                SqlState::StatementTooComplex,
                format!("PIVOT makes more than {MAX_COLUMNS} columns"),
            )
            .into());
        }
        let aggregates = self.aggregates.iter().map(|aggregate| &aggregate.expr);
        let used = named(aggregates.chain(self.by));
        let groups: Vec<Expr> = match self.groups {
            Some(groups) => groups.to_vec(),
            None => columns
                .iter()
                .filter(|name| !used.contains(*name))
                .map(|name| identifier(name))
                .collect(),
        };
        let mut items: Vec<SelectItem> = groups
            .iter()
            .cloned()
            .map(SelectItem::UnnamedExpr)
            .collect();
        for value in self.values {
            let label = match &value.alias {
                Some(alias) => alias.value.clone(),
                None => text(&value.expr),
            };
            for aggregate in self.aggregates {
                let name = match (&aggregate.alias, self.aggregates) {
                    (Some(alias), _) => format!("{label}_{}", alias.value),
                    (None, [_]) => label.clone(),
                    (None, _) => format!("{label}_{}", aggregate.expr),
                };
                items.push(SelectItem::ExprWithAlias {
                    expr: filtered(&aggregate.expr, self.by, &value.expr)?,
                    alias: quoted(&name),
                });
            }
        }
        let mut select = from(table)?;
        select.projection = items;
        select.group_by = GroupByExpr::Expressions(groups, Vec::new());
        Ok(SetExpr::Select(select))
    }
}

/// What a value is called as a column.
fn text(value: &Expr) -> String {
    match value {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => text.clone(),
            other => other.to_string(),
        },
        Expr::Identifier(name) => name.value.clone(),
        other => other.to_string(),
    }
}

/// An aggregate of the rows of one value.
fn filtered(aggregate: &Expr, by: &[Expr], value: &Expr) -> Result<Expr> {
    let Expr::Function(function) = aggregate else {
        return Err(Error::new(SqlState::SyntaxError, "PIVOT takes calls of aggregates").into());
    };
    let mut function = function.clone();
    let values = match (by, value) {
        ([_], value) => std::slice::from_ref(value),
        (_, Expr::Tuple(values)) if values.len() == by.len() => values.as_slice(),
        _ => return Err(refused("PIVOT over several columns takes a value for each")),
    };
    let equal = by
        .iter()
        .zip(values)
        .map(|(by, value)| Expr::IsNotDistinctFrom(Box::new(by.clone()), Box::new(value.clone())))
        .reduce(|all, next| Expr::BinaryOp {
            left: Box::new(all),
            op: BinaryOperator::And,
            right: Box::new(next),
        })
        .ok_or_else(|| refused("PIVOT takes a column"))?;
    function.filter = Some(Box::new(match function.filter.take() {
        Some(filter) => Expr::BinaryOp {
            left: filter,
            op: BinaryOperator::And,
            right: Box::new(equal),
        },
        None => equal,
    }));
    Ok(Expr::Function(function))
}

/// The columns of a list, each that COLUMNS stands for by itself.
fn listed(given: &[ExprWithAlias], columns: &[String]) -> Result<Vec<ExprWithAlias>> {
    let outputs: Vec<Output> = columns
        .iter()
        .map(|name| Output {
            name: name.clone(),
            value: identifier(name),
            merged: false,
            data_type: DataType::Null,
        })
        .collect();
    let mut listed = Vec::with_capacity(given.len());
    for column in given {
        match wild::columns_meant(&column.expr, &outputs)? {
            Some(meant) => listed.extend(
                meant
                    .into_iter()
                    .map(|expr| ExprWithAlias { expr, alias: None }),
            ),
            None => listed.push(column.clone()),
        }
    }
    Ok(listed)
}

/// The columns of values that an UNPIVOT yields.
fn value_names(value: &Expr) -> Option<Vec<Ident>> {
    match value {
        Expr::Identifier(name) => Some(vec![name.clone()]),
        Expr::Nested(inner) => value_names(inner),
        Expr::Tuple(names) => {
            let names = names.iter().map(value_names).collect::<Option<Vec<_>>>()?;
            Some(names.concat())
        }
        _ => None,
    }
}

/// The columns that make one row of values.
fn group(column: &Expr) -> &[Expr] {
    match column {
        Expr::Tuple(columns) => columns,
        Expr::Nested(inner) if matches!(inner.as_ref(), Expr::Tuple(_)) => group(inner),
        single => std::slice::from_ref(single),
    }
}

fn unpivot(
    table: &TableFactor,
    columns: &[String],
    value_names: &[Ident],
    name: &Ident,
    unpivoted: &[ExprWithAlias],
    nulls: bool,
) -> Result<SetExpr> {
    let unpivoted = &listed(unpivoted, columns)?;
    if let Some(other) = unpivoted
        .iter()
        .find(|column| group(&column.expr).len() != value_names.len())
    {
        return Err(Error::new(
            SqlState::SyntaxError,
            format!(
                "UNPIVOT yields {} columns of values, but {} is of {}",
                value_names.len(),
                other.expr,
                group(&other.expr).len()
            ),
        )
        .into());
    }
    let used = named(unpivoted.iter().flat_map(|column| group(&column.expr)));
    let labels = unpivoted.iter().map(|column| {
        let label = match &column.alias {
            Some(alias) => alias.value.clone(),
            None => {
                let names: Vec<String> = group(&column.expr).iter().map(text).collect();
                names.join("_")
            }
        };
        Expr::value(Value::SingleQuotedString(label))
    });
    let values = |place: usize| -> Vec<Expr> {
        let parts = unpivoted.iter().map(|column| group(&column.expr));
        parts
            .filter_map(|parts| parts.get(place).cloned())
            .collect()
    };
    let unnested = |list: Vec<Expr>, name: &Ident| SelectItem::ExprWithAlias {
        expr: call("unnest", vec![call("make_array", list)]),
        alias: quoted(&name.value),
    };
    let mut inner = from(table)?;
    inner.projection = columns
        .iter()
        .filter(|name| !used.contains(*name))
        .map(|name| SelectItem::UnnamedExpr(identifier(name)))
        .chain([unnested(labels.collect(), name)])
        .chain(
            value_names
                .iter()
                .enumerate()
                .map(|(place, name)| unnested(values(place), name)),
        )
        .collect();
    let mut outer = select_from(bare_query(SetExpr::Select(inner)), UNPIVOTED);
    if let SetExpr::Select(select) = &mut outer
        && !nulls
    {
        // A row that lacks a value is left out.
        select.selection = value_names
            .iter()
            .map(|name| Expr::IsNotNull(Box::new(identifier(&name.value))))
            .reduce(|all, next| Expr::BinaryOp {
                left: Box::new(all),
                op: BinaryOperator::And,
                right: Box::new(next),
            });
    }
    Ok(outer)
}
