//! What only data tell: LIMIT and OFFSET of a subquery's value or a percentage of the rows, and the columns of a PIVOT without a list.
//!
//! The planner takes constants. So what such a clause asks for is found first, by a query of its own over the same snapshot, and its
//! answer put in the clause's place, from the innermost query out:
//!
//! ```text
//! SELECT … LIMIT (SELECT max(n) FROM s)   ─▶  SELECT (SELECT max(n) FROM s)            ─▶  SELECT … LIMIT 7
//! SELECT … FROM t LIMIT 10%               ─▶  SELECT count(*) FROM (SELECT … FROM t)   ─▶  SELECT … FROM t LIMIT 12
//! FROM t PIVOT (sum(v) FOR q IN (ANY))    ─▶  SELECT DISTINCT q FROM t ORDER BY q       ─▶  FROM t PIVOT (sum(v) FOR q IN ('a', 'b'))
//! ```

use std::borrow::Cow;
use std::ops::ControlFlow;

use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    CastKind, DataType as SqlType, Distinct, Expr, ExprWithAlias, FunctionArg, FunctionArgExpr,
    FunctionArguments, Ident, LimitClause, OrderBy, OrderByExpr, OrderByKind, OrderByOptions,
    PivotValueSource, Query, SelectItem, SetExpr, TableFactor, TableWithJoins, Value, Visit,
    VisitMut, Visitor, VisitorMut, With, visit_expressions,
};
use futures::StreamExt;

use super::scope::Scope;
use super::syntax::{bare_query, no_rows, select_from};
use crate::error::{Error, Result, SqlState};
use crate::parse::{self, PERCENT, call};

/// The alias of a query whose rows are counted.
const COUNTED: &str = "__firndb_counted";
/// Columns that a PIVOT may find.
const MAX_PIVOTED: usize = 10_000;

/// A query with numbers in the clauses that only data tell.
pub(super) async fn settled<'q>(scope: &Scope, query: &'q Query) -> Result<Cow<'q, Query>> {
    let mut query = Cow::Borrowed(query);
    if !asks(&query) {
        return Ok(query);
    }
    while let Some((question, clause)) = first(query.to_mut(), None) {
        let answer = match question {
            Question::Value(value) => Answer::Number(whole(&one(scope, &value).await?, clause)?),
            Question::Share(rows, percent) => {
                let (rows, percent) = (one(scope, &rows).await?, one(scope, &percent).await?);
                Answer::Number(share(&rows, &percent)?)
            }
            Question::Columns(queries) => Answer::Columns(columns(scope, &queries).await?),
        };
        first(query.to_mut(), Some(answer));
    }
    Ok(query)
}

/// Refuses such clauses where there is nothing to ask yet.
pub(super) fn refuse(query: &Query) -> Result<()> {
    match asks(query) {
        true => Err(Error::unsupported(
            "a LIMIT or OFFSET of a subquery or a percentage, and a PIVOT without a list of values, are not supported in a view",
        )
        .with_hint("List the values: PIVOT … ON column IN ('a', 'b').")),
        false => Ok(()),
    }
}

fn asks(query: &Query) -> bool {
    struct Open;
    impl Visitor for Open {
        type Break = ();

        fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
            match is_open_pivot(factor) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        }

        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
            match &query.limit_clause {
                Some(LimitClause::LimitOffset { limit, offset, .. })
                    if limit.as_ref().is_some_and(is_open)
                        || offset.as_ref().is_some_and(|offset| is_open(&offset.value)) =>
                {
                    ControlFlow::Break(())
                }
                _ => ControlFlow::Continue(()),
            }
        }
    }
    query.visit(&mut Open).is_break()
}

/// What is to be found out: a query of one value, or of the number of rows and of the percentage.
enum Question {
    Value(Box<Query>),
    Share(Box<Query>, Box<Query>),
    /// The values of each column of a PIVOT, with their texts.
    Columns(Vec<Query>),
}

#[derive(Debug, Clone)]
enum Answer {
    /// `None` is no bound.
    Number(Option<u64>),
    Columns(Vec<ExprWithAlias>),
}

#[derive(Debug, Clone, Copy)]
enum Clause {
    Limit,
    Offset,
    Pivot,
}

/// The first clause, from the innermost query out, that only data tell; with an answer, the answer takes its place.
fn first(query: &mut Query, answer: Option<Answer>) -> Option<(Question, Clause)> {
    let mut clauses = Clauses {
        answer,
        around: Vec::new(),
    };
    match query.visit(&mut clauses) {
        ControlFlow::Break(found) => found.map(|found| *found),
        ControlFlow::Continue(()) => None,
    }
}

/// The common table expressions of a query around, and how many of them the place at hand sees.
struct Around {
    with: Option<With>,
    queries: Vec<*const Query>,
    seen: usize,
}

struct Clauses {
    answer: Option<Answer>,
    around: Vec<Around>,
}

impl VisitorMut for Clauses {
    type Break = Option<Box<(Question, Clause)>>;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        let here: *const Query = query;
        if let Some(around) = self.around.last_mut() {
            let place = around.queries.iter().position(|&other| other == here);
            around.seen = place.unwrap_or(around.queries.len());
        }
        let tables = query.with.iter().flat_map(|with| &with.cte_tables);
        let queries: Vec<*const Query> = tables
            .map(|table| std::ptr::from_ref(table.query.as_ref()))
            .collect();
        self.around.push(Around {
            with: query.with.clone(),
            seen: queries.len(),
            queries,
        });
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        if let Some(around) = self.around.last_mut() {
            around.seen = around.queries.len();
        }
        let found = self
            .of_pivots(&mut query.body)
            .or_else(|| self.of_query(query));
        self.around.pop();
        match found {
            Some(found) => ControlFlow::Break(found),
            None => ControlFlow::Continue(()),
        }
    }
}

impl Clauses {
    /// The first PIVOT without a list in FROM.
    fn of_pivots(&self, body: &mut SetExpr) -> Option<<Self as VisitorMut>::Break> {
        match body {
            SetExpr::Select(select) => select.from.iter_mut().find_map(|table| {
                let joined = table.joins.iter_mut().map(|join| &mut join.relation);
                std::iter::once(&mut table.relation)
                    .chain(joined)
                    .find_map(|factor| self.of_factor(factor))
            }),
            SetExpr::SetOperation { left, right, .. } => {
                self.of_pivots(left).or_else(|| self.of_pivots(right))
            }
            _ => None,
        }
    }

    fn of_factor(&self, factor: &mut TableFactor) -> Option<<Self as VisitorMut>::Break> {
        let open = is_open_pivot(factor);
        let TableFactor::Pivot {
            table,
            value_column,
            value_source,
            ..
        } = factor
        else {
            return None;
        };
        if let Some(inner) = self.of_factor(table) {
            return Some(inner);
        }
        if !open {
            return None;
        }
        if let Some(Answer::Columns(values)) = &self.answer {
            *value_source = PivotValueSource::List(values.clone());
            return Some(None);
        }
        let queries = value_column.iter().map(|by| {
            let mut select = selects(by.clone());
            if let SetExpr::Select(select) = select.body.as_mut() {
                select.distinct = Some(Distinct::Distinct);
                select.projection = vec![
                    SelectItem::ExprWithAlias {
                        expr: by.clone(),
                        alias: Ident::new("value"),
                    },
                    SelectItem::ExprWithAlias {
                        expr: Expr::Cast {
                            kind: CastKind::Cast,
                            expr: Box::new(by.clone()),
                            data_type: SqlType::Varchar(None),
                            array: false,
                            format: None,
                        },
                        alias: Ident::new("label"),
                    },
                ];
                select.selection = Some(Expr::IsNotNull(Box::new(by.clone())));
                select.from = vec![TableWithJoins {
                    relation: table.as_ref().clone(),
                    joins: Vec::new(),
                }];
            }
            select.order_by = Some(OrderBy {
                kind: OrderByKind::Expressions(vec![OrderByExpr {
                    expr: Expr::value(Value::Number("1".to_owned(), false)),
                    options: OrderByOptions {
                        asc: None,
                        nulls_first: None,
                    },
                    with_fill: None,
                }]),
                interpolate: None,
            });
            self.within(select)
        });
        let question = Question::Columns(queries.collect());
        Some(Some(Box::new((question, Clause::Pivot))))
    }

    fn of_query(&self, query: &mut Query) -> Option<<Self as VisitorMut>::Break> {
        let Some(LimitClause::LimitOffset { limit, offset, .. }) = &mut query.limit_clause else {
            return None;
        };
        let clause = if limit.as_ref().is_some_and(is_open) {
            Clause::Limit
        } else if offset.as_ref().is_some_and(|offset| is_open(&offset.value)) {
            Clause::Offset
        } else {
            return None;
        };
        if let Some(Answer::Number(answer)) = &self.answer {
            let number = answer.map(|rows| Expr::value(Value::Number(rows.to_string(), false)));
            match (clause, number, offset.as_mut()) {
                (Clause::Limit, number, _) => *limit = number,
                (Clause::Offset, Some(number), Some(offset)) => offset.value = number,
                (Clause::Offset | Clause::Pivot, ..) => *offset = None,
            }
            return Some(None);
        }
        let value = match clause {
            Clause::Limit => limit.clone()?,
            Clause::Offset | Clause::Pivot => offset.as_ref()?.value.clone(),
        };
        let question = match percentage(&value) {
            None => Question::Value(Box::new(self.within(selects(value)))),
            Some(share) => {
                let rows = Query {
                    with: None,
                    order_by: None,
                    limit_clause: None,
                    ..query.clone()
                };
                let mut counts = select_from(rows, COUNTED);
                if let SetExpr::Select(select) = &mut counts {
                    select.projection = vec![SelectItem::UnnamedExpr(call(
                        "count",
                        vec![Expr::value(Value::Number("1".to_owned(), false))],
                    ))];
                }
                Question::Share(
                    Box::new(self.within(bare_query(counts))),
                    Box::new(selects(share.clone())),
                )
            }
        };
        Some(Some(Box::new((question, clause))))
    }

    /// A query with the common table expressions of all queries around.
    fn within(&self, mut query: Query) -> Query {
        for (number, around) in self.around.iter().rev().enumerate() {
            let Some(with) = &around.with else { continue };
            let mut with = with.clone();
            with.cte_tables.truncate(around.seen);
            if with.cte_tables.is_empty() {
                continue;
            }
            query = bare_query(select_from(query, &format!("{COUNTED}_{number}")));
            query.with = Some(with);
        }
        query
    }
}

fn is_open_pivot(factor: &TableFactor) -> bool {
    matches!(
        factor,
        TableFactor::Pivot {
            value_source: PivotValueSource::Any(_),
            ..
        }
    )
}

/// The columns of a PIVOT: the values that its queries yield, every one of a column with every one of the next.
async fn columns(scope: &Scope, queries: &[Query]) -> Result<Vec<ExprWithAlias>> {
    let mut found: Vec<(Vec<Expr>, String)> = vec![(Vec::new(), String::new())];
    for query in queries {
        let mut values = Vec::new();
        for (value, label) in all(scope, query).await? {
            let literal = parse::literal(&value).ok_or_else(|| {
                Error::unsupported(format!(
                    "PIVOT without a list of values by a column of type {} is not supported",
                    value.data_type()
                ))
            })?;
            values.push((literal, label));
        }
        if found.len().saturating_mul(values.len()) > MAX_PIVOTED {
            return Err(Error::new(
                SqlState::StatementTooComplex,
                format!("PIVOT makes more than {MAX_PIVOTED} columns"),
            ));
        }
        found = found
            .iter()
            .flat_map(|(before, name)| {
                values.iter().map(move |(value, label)| {
                    let mut several = before.clone();
                    several.push(value.clone());
                    let name = match before.is_empty() {
                        true => label.clone(),
                        false => format!("{name}_{label}"),
                    };
                    (several, name)
                })
            })
            .collect();
    }
    Ok(found
        .into_iter()
        .filter_map(|(mut values, name)| {
            let expr = match values.len() {
                1 => values.pop()?,
                _ => Expr::Tuple(values),
            };
            Some(ExprWithAlias {
                expr,
                alias: Some(Ident::with_quote('"', name)),
            })
        })
        .collect())
}

/// The values that a query yields, and their texts.
async fn all(scope: &Scope, query: &Query) -> Result<Vec<(ScalarValue, String)>> {
    let plan = scope.plan(query, None)?;
    let physical = scope.physical(&plan).await?;
    let mut rows = scope.stream(physical);
    let mut found = Vec::new();
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        let labels = cast(batch.column(1), &DataType::Utf8)?;
        let labels = arrow::array::AsArray::as_string::<i32>(&labels);
        for (row, label) in labels.iter().enumerate() {
            let value = ScalarValue::try_from_array(batch.column(0), row)?;
            found.push((value, label.unwrap_or_default().to_owned()));
        }
    }
    Ok(found)
}

/// Whether only data tell what a clause asks for.
fn is_open(expr: &Expr) -> bool {
    percentage(expr).is_some()
        || visit_expressions(expr, |part| match part {
            Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => {
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        })
        .is_break()
}

fn percentage(expr: &Expr) -> Option<&Expr> {
    let Expr::Function(function) = expr else {
        return None;
    };
    let FunctionArguments::List(list) = &function.args else {
        return None;
    };
    match list.args.as_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(share))]
            if function.name.to_string() == PERCENT =>
        {
            Some(share)
        }
        _ => None,
    }
}

/// `SELECT value`.
fn selects(value: Expr) -> Query {
    let mut select = select_from(bare_query(SetExpr::Values(no_rows())), COUNTED);
    if let SetExpr::Select(select) = &mut select {
        select.from.clear();
        select.projection = vec![SelectItem::UnnamedExpr(value)];
    }
    bare_query(select)
}

/// The one value that a query yields.
async fn one(scope: &Scope, query: &Query) -> Result<ScalarValue> {
    let plan = scope.plan(query, None)?;
    let physical = scope.physical(&plan).await?;
    let mut rows = scope.stream(physical);
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        if batch.num_rows() > 0 {
            return Ok(ScalarValue::try_from_array(batch.column(0), 0)?);
        }
    }
    Ok(ScalarValue::Null)
}

fn double(value: &ScalarValue) -> Result<Option<f64>> {
    let data_type = value.data_type();
    if !data_type.is_numeric() && data_type != DataType::Null {
        return Err(Error::new(
            SqlState::DatatypeMismatch,
            "LIMIT and OFFSET take integers",
        ));
    }
    let doubles = cast(&value.to_array()?, &DataType::Float64)?;
    let doubles = arrow::array::AsArray::as_primitive::<Float64Type>(&doubles);
    Ok(doubles.iter().next().flatten())
}

/// A number of rows; NULL is no bound.
fn whole(value: &ScalarValue, clause: Clause) -> Result<Option<u64>> {
    let Some(number) = double(value)? else {
        return Ok(None);
    };
    let number = number.round_ties_even();
    if number >= 0.0 {
        return Ok(Some(number.min(i64::MAX as f64 / 2.0) as u64));
    }
    Err(match clause {
        Clause::Limit => Error::new(
            SqlState::InvalidRowCountInLimit,
            "LIMIT must not be negative",
        ),
        Clause::Offset | Clause::Pivot => Error::new(
            SqlState::InvalidRowCountInOffset,
            "OFFSET must not be negative",
        ),
    })
}

/// So many percent of the rows, rounded down.
fn share(rows: &ScalarValue, percent: &ScalarValue) -> Result<Option<u64>> {
    let (Some(rows), Some(percent)) = (double(rows)?, double(percent)?) else {
        return Ok(None);
    };
    if !(0.0..=100.0).contains(&percent) {
        return Err(Error::new(
            SqlState::InvalidRowCountInLimit,
            "a percentage of LIMIT must be between 0 and 100",
        ));
    }
    Ok(Some((rows * percent / 100.0) as u64))
}
