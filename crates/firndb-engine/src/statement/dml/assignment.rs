//! SET clauses: which columns get which expressions.
//!
//! A row of expressions gives each column its own; a subquery that yields several columns is one expression, a struct whose
//! fields go to the columns, so that it is evaluated once for each row.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StructArray};
use arrow::compute::take;
use datafusion::sql::sqlparser::ast;

use super::members::{Place, overlap, updated};
use super::query::{alone, identifier, is_default, select};
use super::{Target, generated};
use crate::{Error, Result, SqlState};

/// The columns that a statement sets, in the order of its SET clause.
pub(super) struct Assignments {
    columns: Vec<usize>,
    sources: Vec<Source>,
    expressions: Vec<ast::Expr>,
    /// The members that are set of columns.
    members: Vec<(usize, Vec<String>)>,
}

/// Where a column's value comes from.
enum Source {
    /// An expression.
    Expression(usize),
    /// A field of an expression.
    Field(usize, usize),
}

impl Assignments {
    /// Resolves a SET clause; DEFAULT becomes the column's default.
    pub(super) fn resolve(target: &Target, set: &[ast::Assignment]) -> Result<Self> {
        let mut assignments = Assignments {
            columns: Vec::new(),
            sources: Vec::new(),
            expressions: Vec::new(),
            members: Vec::new(),
        };
        for assignment in set {
            match &assignment.target {
                ast::AssignmentTarget::ColumnName(name) => {
                    let place = Place::resolve(target, name)?;
                    match place.members.is_empty() {
                        true => assignments.set(target, place.column, &assignment.value)?,
                        false => assignments.set_member(target, place, &assignment.value)?,
                    }
                }
                ast::AssignmentTarget::Tuple(names) => {
                    let columns: Vec<usize> = names
                        .iter()
                        .map(|name| target.position(name))
                        .collect::<Result<_>>()?;
                    assignments.set_row(target, &columns, &assignment.value)?;
                }
            }
        }
        Ok(assignments)
    }

    /// The columns that are set.
    pub(super) fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// The expressions to evaluate, in the order in which [`Assignments::values`] takes their results.
    pub(super) fn expressions(&self) -> &[ast::Expr] {
        &self.expressions
    }

    /// From the expressions' results, the values of [`Assignments::columns`] in the columns' types.
    pub(super) fn values(&self, target: &Target, results: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
        self.columns
            .iter()
            .zip(&self.sources)
            .map(|(&column, source)| match source {
                Source::Expression(number) => target.assign(&results[*number], column),
                Source::Field(number, field) => {
                    target.assign(&field_of(&results[*number], *field)?, column)
                }
            })
            .collect()
    }

    fn set(&mut self, target: &Target, column: usize, value: &ast::Expr) -> Result<()> {
        if target.is_own(column) && !is_default(value) {
            return Err(generated::refuse_update(target, column));
        }
        if target.is_generated(column) {
            return Ok(());
        }
        let expression = if is_default(value) {
            target.default_expression(column)
        } else {
            value.clone()
        };
        self.add_column(target, column, Source::Expression(self.expressions.len()))?;
        self.expressions.push(expression);
        Ok(())
    }

    /// Sets a member of a struct; several members of one column are one expression.
    fn set_member(&mut self, target: &Target, place: Place, value: &ast::Expr) -> Result<()> {
        let Place { column, members } = place;
        if is_default(value) {
            return Err(Error::unsupported("a member of a struct has no DEFAULT"));
        }
        if target.is_own(column) {
            return Err(generated::refuse_update(target, column));
        }
        let of_column = |(other, _): &&(usize, Vec<String>)| *other == column;
        let mut before = self.members.iter().filter(of_column);
        if before.clone().any(|(_, path)| overlap(path, &members)) {
            return Err(Error::new(
                SqlState::SyntaxError,
                format!(
                    "multiple assignments to same member \"{}\" of column \"{}\"",
                    members.join("."),
                    target.schema().field(column).name()
                ),
            ));
        }
        let place = match before
            .next()
            .and_then(|_| self.columns.iter().position(|at| *at == column))
        {
            Some(place) => place,
            None => {
                self.add_column(target, column, Source::Expression(self.expressions.len()))?;
                let name = target.folded_name(column);
                self.expressions
                    .push(super::query::column(target.name(), name));
                self.columns.len() - 1
            }
        };
        let Source::Expression(number) = self.sources[place] else {
            return Err(Error::internal("a member is set in an expression"));
        };
        let of = self.expressions[number].clone();
        self.expressions[number] = updated(of, &members, value.clone());
        self.members.push((column, members));
        Ok(())
    }

    fn set_row(&mut self, target: &Target, columns: &[usize], value: &ast::Expr) -> Result<()> {
        if let ast::Expr::Subquery(query) = value {
            let number = self.expressions.len();
            for (field, &column) in columns.iter().enumerate() {
                self.add_column(target, column, Source::Field(number, field))?;
            }
            self.expressions.push(row_subquery(query, columns.len())?);
            return Ok(());
        }
        let values = row_values(value).ok_or_else(|| {
            Error::new(
                SqlState::FeatureNotSupported,
                "source for a multiple-column UPDATE item must be a sub-SELECT or ROW() expression",
            )
        })?;
        if values.len() != columns.len() {
            return Err(count_mismatch());
        }
        for (&column, value) in columns.iter().zip(values) {
            self.set(target, column, value)?;
        }
        Ok(())
    }

    fn add_column(&mut self, target: &Target, column: usize, source: Source) -> Result<()> {
        if target.is_generated(column) {
            return Err(generated::refuse_update(target, column));
        }
        if self.columns.contains(&column) {
            return Err(Error::new(
                SqlState::SyntaxError,
                format!(
                    "multiple assignments to same column \"{}\"",
                    target.schema().field(column).name()
                ),
            ));
        }
        self.columns.push(column);
        self.sources.push(source);
        Ok(())
    }
}

/// The expressions of `(a, b)`, `(a)` or `ROW(a, b)`.
fn row_values(value: &ast::Expr) -> Option<Vec<&ast::Expr>> {
    match value {
        ast::Expr::Tuple(values) => Some(values.iter().collect()),
        ast::Expr::Nested(value) => Some(vec![value]),
        ast::Expr::Function(function) if function.name.to_string().eq_ignore_ascii_case("row") => {
            let ast::FunctionArguments::List(list) = &function.args else {
                return None;
            };
            let values = list.args.iter().map(|argument| match argument {
                ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(value)) => Some(value),
                _ => None,
            });
            values.collect()
        }
        _ => None,
    }
}

/// A subquery of several columns as one that yields a struct of them.
fn row_subquery(query: &ast::Query, columns: usize) -> Result<ast::Expr> {
    let names: Vec<String> = (0..columns)
        .map(|number| format!("__firndb_{number}"))
        .collect();
    if let Some(mut inlined) = plain_select(query) {
        let ast::SetExpr::Select(body) = inlined.body.as_mut() else {
            return Err(Error::internal("a plain select is a select"));
        };
        if body.projection.len() != columns {
            return Err(count_mismatch());
        }
        let values = std::mem::take(&mut body.projection)
            .into_iter()
            .map(|item| match item {
                ast::SelectItem::UnnamedExpr(value)
                | ast::SelectItem::ExprWithAlias { expr: value, .. } => Ok(value),
                _ => Err(Error::internal("a plain select has no wildcards")),
            })
            .collect::<Result<Vec<_>>>()?;
        body.projection = vec![ast::SelectItem::UnnamedExpr(named_struct(&names, values))];
        return Ok(ast::Expr::Subquery(Box::new(inlined)));
    }
    let row = identifier("__firndb_row");
    let values = names
        .iter()
        .map(|name| super::query::column(&row, name))
        .collect();
    let projection = vec![ast::SelectItem::UnnamedExpr(named_struct(&names, values))];
    let relation = ast::TableFactor::Derived {
        lateral: false,
        subquery: Box::new(query.clone()),
        alias: Some(ast::TableAlias {
            columns: names
                .iter()
                .map(|name| ast::TableAliasColumnDef {
                    name: identifier(name),
                    data_type: None,
                })
                .collect(),
            ..super::query::alias(&row)
        }),
        sample: None,
    };
    let wrapped = select(None, projection, vec![alone(relation)], None);
    Ok(ast::Expr::Subquery(Box::new(wrapped)))
}

/// The query, if replacing its select list by one expression over the same values changes nothing else of it.
fn plain_select(query: &ast::Query) -> Option<ast::Query> {
    let ast::SetExpr::Select(body) = query.body.as_ref() else {
        return None;
    };
    let named = body.projection.iter().all(|item| {
        matches!(
            item,
            ast::SelectItem::UnnamedExpr(_) | ast::SelectItem::ExprWithAlias { .. }
        )
    });
    let by_name =
        matches!(&body.group_by, ast::GroupByExpr::Expressions(keys, _) if keys.is_empty());
    let plain = named
        && by_name
        && body.distinct.is_none()
        && body.having.is_none()
        && body.qualify.is_none()
        && query.order_by.is_none();
    plain.then(|| query.clone())
}

fn named_struct(names: &[String], values: Vec<ast::Expr>) -> ast::Expr {
    let arguments = names
        .iter()
        .zip(values)
        .flat_map(|(name, value)| {
            let name = ast::Value::SingleQuotedString(name.clone());
            [ast::Expr::Value(name.into()), value]
        })
        .map(|value| ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(value)))
        .collect();
    ast::Expr::Function(ast::Function {
        name: ast::ObjectName::from(vec![ast::Ident::new("named_struct")]),
        uses_odbc_syntax: false,
        parameters: ast::FunctionArguments::None,
        args: ast::FunctionArguments::List(ast::FunctionArgumentList {
            duplicate_treatment: None,
            args: arguments,
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// A field's values, NULL where the struct is.
fn field_of(row: &ArrayRef, field: usize) -> Result<ArrayRef> {
    let row = row
        .as_any()
        .downcast_ref::<StructArray>()
        .ok_or_else(|| Error::internal("a row subquery yields a struct"))?;
    let values = row.column(field);
    let Some(valid) = row.nulls() else {
        return Ok(Arc::clone(values));
    };
    let rows = (0..row.len()).map(|number| valid.is_valid(number).then_some(number as u64));
    Ok(take(
        values,
        &arrow::array::UInt64Array::from_iter(rows),
        None,
    )?)
}

fn count_mismatch() -> Error {
    Error::new(
        SqlState::SyntaxError,
        "number of columns does not match number of values",
    )
}
