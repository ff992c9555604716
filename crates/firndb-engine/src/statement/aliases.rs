//! Names of the select list used beside and before it: `SELECT a + 1 AS b, b * 2 FROM t WHERE b > 1`, as in DuckDB.
//!
//! A column of FROM goes before such a name, and only the planner knows the columns. So a query is planned as it is first; where
//! that finds no column of a name which the select list has, the name's expression is put in its place.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Query, Select, SelectItem, VisitMut, VisitorMut};

use crate::error::{Error, SqlState};

/// Replaces the name that `error` misses in those SELECTs that define it. Whether there was one.
pub(super) fn resolve(query: &mut Query, error: &Error) -> bool {
    if error.state != SqlState::UndefinedColumn {
        return false;
    }
    let missing = error
        .message
        .strip_prefix("column \"")
        .and_then(|rest| rest.strip_suffix("\" does not exist"));
    let Some(missing) = missing else {
        return false;
    };
    let mut selects = Selects {
        missing,
        replaced: false,
    };
    let ControlFlow::Continue(()) = query.visit(&mut selects);
    selects.replaced
}

struct Selects<'a> {
    missing: &'a str,
    replaced: bool,
}

impl VisitorMut for Selects<'_> {
    type Break = std::convert::Infallible;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Self::Break> {
        let defined = select.projection.iter().position(|item| {
            matches!(item, SelectItem::ExprWithAlias { alias, .. } if alias.value == self.missing)
        });
        let Some(place) = defined else {
            return ControlFlow::Continue(());
        };
        let Some(SelectItem::ExprWithAlias { expr, .. }) = select.projection.get(place) else {
            return ControlFlow::Continue(());
        };
        let mut names = Names::new(self.missing, Expr::Nested(Box::new(expr.clone())));
        for item in select.projection.iter_mut().skip(place + 1) {
            let ControlFlow::Continue(()) = item.visit(&mut names);
        }
        let ControlFlow::Continue(()) = select.selection.visit(&mut names);
        let ControlFlow::Continue(()) = select.qualify.visit(&mut names);
        self.replaced |= names.replaced;
        ControlFlow::Continue(())
    }
}

/// Puts an expression in the place of a name, outside subqueries.
pub(super) struct Names<'a> {
    missing: &'a str,
    value: Expr,
    depth: usize,
    /// Whether the name was there.
    pub(super) replaced: bool,
}

impl<'a> Names<'a> {
    pub(super) fn new(missing: &'a str, value: Expr) -> Self {
        Names {
            missing,
            value,
            depth: 0,
            replaced: false,
        }
    }
}

impl VisitorMut for Names<'_> {
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
        if self.depth == 0 && matches!(expr, Expr::Identifier(name) if name.value == self.missing) {
            *expr = self.value.clone();
            self.replaced = true;
        }
        ControlFlow::Continue(())
    }
}
