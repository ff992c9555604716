//! LIMIT and OFFSET that only data tell: of a subquery's value, or a percentage of the rows.
//!
//! The planner takes numbers. So what such a clause asks for is found first, by a query of its own over the same snapshot, and its
//! number put in the clause's place, from the innermost query out:
//!
//! ```text
//! SELECT … LIMIT (SELECT max(n) FROM s)   ─▶  SELECT (SELECT max(n) FROM s)            ─▶  SELECT … LIMIT 7
//! SELECT … FROM t LIMIT 10%               ─▶  SELECT count(*) FROM (SELECT … FROM t)   ─▶  SELECT … FROM t LIMIT 12
//! ```

use std::borrow::Cow;
use std::ops::ControlFlow;

use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, LimitClause, Query, SelectItem, SetExpr,
    Value, Visit, VisitMut, Visitor, VisitorMut, With, visit_expressions,
};
use futures::StreamExt;

use super::scope::Scope;
use super::syntax::{bare_query, no_rows, select_from};
use crate::error::{Error, Result, SqlState};
use crate::parse::{PERCENT, call};

/// The alias of a query whose rows are counted.
const COUNTED: &str = "__firndb_counted";

/// A query with numbers in the clauses that only data tell.
pub(super) async fn settled<'q>(scope: &Scope, query: &'q Query) -> Result<Cow<'q, Query>> {
    let mut query = Cow::Borrowed(query);
    if !asks(&query) {
        return Ok(query);
    }
    while let Some((question, clause)) = first(query.to_mut(), None) {
        let (answer, percent) = match question {
            Question::Value(value) => (one(scope, &value).await?, None),
            Question::Share(rows, share) => {
                (one(scope, &rows).await?, Some(one(scope, &share).await?))
            }
        };
        let number = match percent {
            None => whole(&answer, clause)?,
            Some(percent) => share(&answer, &percent)?,
        };
        first(query.to_mut(), Some(number));
    }
    Ok(query)
}

/// Refuses such clauses where there is nothing to ask yet.
pub(super) fn refuse(query: &Query) -> Result<()> {
    match asks(query) {
        true => Err(Error::unsupported(
            "a LIMIT or OFFSET of a subquery or a percentage is not supported in a view",
        )),
        false => Ok(()),
    }
}

fn asks(query: &Query) -> bool {
    struct Open;
    impl Visitor for Open {
        type Break = ();

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
}

#[derive(Debug, Clone, Copy)]
enum Clause {
    Limit,
    Offset,
}

/// The first clause, from the innermost query out, that only data tell; with an answer, the answer takes its place: `None` is no bound.
fn first(query: &mut Query, answer: Option<Option<u64>>) -> Option<(Question, Clause)> {
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
    answer: Option<Option<u64>>,
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
        let found = self.of_query(query);
        self.around.pop();
        match found {
            Some(found) => ControlFlow::Break(found),
            None => ControlFlow::Continue(()),
        }
    }
}

impl Clauses {
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
        if let Some(answer) = self.answer {
            let number = answer.map(|rows| Expr::value(Value::Number(rows.to_string(), false)));
            match (clause, number, offset.as_mut()) {
                (Clause::Limit, number, _) => *limit = number,
                (Clause::Offset, Some(number), Some(offset)) => offset.value = number,
                (Clause::Offset, ..) => *offset = None,
            }
            return Some(None);
        }
        let value = match clause {
            Clause::Limit => limit.clone()?,
            Clause::Offset => offset.as_ref()?.value.clone(),
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
        Clause::Offset => Error::new(
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
