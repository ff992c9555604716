//! What a call may carry: OVER, FILTER, DISTINCT and ORDER BY belong to aggregates and window functions.
//!
//! DataFusion's planner reads a scalar function's name and arguments and passes over the rest.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArgumentClause, FunctionArguments, Query, Visit, Visitor,
};

use crate::error::{Error, Result, SqlState};

/// 42809 for a scalar function with what only aggregates and window functions have.
pub(super) fn check(query: &Query, is_scalar: &dyn Fn(&str) -> bool) -> Result<()> {
    match query.visit(&mut Calls { is_scalar }) {
        ControlFlow::Break(error) => Err(*error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Calls<'a> {
    is_scalar: &'a dyn Fn(&str) -> bool,
}

impl Visitor for Calls<'_> {
    type Break = Box<Error>;

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Self::Break> {
        if let Expr::Function(function) = expr
            && let Some(what) = carried(function)
            && let [name] = function.name.0.as_slice()
            && let Some(name) = name.as_ident()
            && (self.is_scalar)(&name.value)
        {
            let kind = match what {
                "OVER" => "a window function nor an aggregate function",
                _ => "an aggregate function",
            };
            return ControlFlow::Break(Box::new(Error::new(
                SqlState::WrongObjectType,
                format!("{what} specified, but {} is not {kind}", name.value),
            )));
        }
        ControlFlow::Continue(())
    }
}

fn carried(function: &Function) -> Option<&'static str> {
    if function.over.is_some() {
        return Some("OVER");
    }
    if function.filter.is_some() {
        return Some("FILTER");
    }
    if !function.within_group.is_empty() {
        return Some("WITHIN GROUP");
    }
    let FunctionArguments::List(list) = &function.args else {
        return None;
    };
    if list.duplicate_treatment.is_some() {
        return Some("DISTINCT");
    }
    list.clauses
        .iter()
        .any(|clause| matches!(clause, FunctionArgumentClause::OrderBy(_)))
        .then_some("ORDER BY")
}
