//! Subqueries in FROM that name columns to their left without LATERAL, as in DuckDB: `FROM t, (SELECT t.i + 1) u(j)`.
//!
//! A query is planned as it is first, so a name means what it does within the subquery and in the queries around. Where one is not
//! found, every subquery that stands behind another relation of its FROM is LATERAL, and what is not found then is the
//! first planning's error.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Query, Select, TableFactor, VisitMut, VisitorMut};

use crate::error::{Error, SqlState};

/// Marks subqueries as LATERAL, where `error` is about a name that is not found; whether there were any.
pub(super) fn resolve(query: &mut Query, error: &Error) -> bool {
    if !matches!(
        error.state,
        SqlState::UndefinedColumn | SqlState::UndefinedTable
    ) {
        return false;
    }
    let mut laterals = Laterals { marked: false };
    let ControlFlow::Continue(()) = query.visit(&mut laterals);
    laterals.marked
}

struct Laterals {
    marked: bool,
}

impl VisitorMut for Laterals {
    type Break = std::convert::Infallible;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Self::Break> {
        let factors = select.from.iter_mut().flat_map(|table| {
            let joined = table.joins.iter_mut().map(|join| &mut join.relation);
            std::iter::once(&mut table.relation).chain(joined)
        });
        for factor in factors.skip(1) {
            if let TableFactor::Derived { lateral, .. } = factor
                && !*lateral
            {
                *lateral = true;
                self.marked = true;
            }
        }
        ControlFlow::Continue(())
    }
}
