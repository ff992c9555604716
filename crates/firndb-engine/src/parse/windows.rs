//! Named windows, written out where they are used.
//!
//! `OVER w` is the window itself; `OVER (w ORDER BY …)` takes its partitions, and its order where it has none of its own,
//! as PostgreSQL has it: a window that is refined has no frame, partitions are never overridden, an order only where
//! there was none.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, NamedWindowDefinition, NamedWindowExpr, Query, Select, SetExpr, VisitMut,
    VisitorMut, WindowSpec, WindowType,
};

use super::exclusion;
use crate::error::{Error, Result, SqlState};

/// Writes out the windows in ORDER BY.
pub(super) fn in_order(query: &mut Query) -> Result<()> {
    let SetExpr::Select(select) = query.body.as_ref() else {
        return Ok(());
    };
    if select.named_window.is_empty() {
        return Ok(());
    }
    let windows = definitions(&select.named_window)?;
    match &mut query.order_by {
        Some(order) => write_out(order, &windows),
        None => Ok(()),
    }
}

/// Writes out the windows of a SELECT and takes its WINDOW clause away.
pub(super) fn in_select(select: &mut Select) -> Result<()> {
    let windows = definitions(&std::mem::take(&mut select.named_window))?;
    write_out(&mut select.projection, &windows)?;
    write_out(&mut select.qualify, &windows)
}

type Windows = Vec<(String, WindowSpec)>;

fn definitions(given: &[NamedWindowDefinition]) -> Result<Windows> {
    let mut windows = Windows::with_capacity(given.len());
    for NamedWindowDefinition(name, window) in given {
        if windows.iter().any(|(known, _)| *known == name.value) {
            return Err(Error::new(
                SqlState::WindowingError,
                format!("window \"{}\" is already defined", name.value),
            ));
        }
        let spec = match window {
            NamedWindowExpr::NamedWindow(other) => find(&windows, other)?.clone(),
            NamedWindowExpr::WindowSpec(spec) => refined(spec, &windows)?,
        };
        windows.push((name.value.clone(), spec));
    }
    Ok(windows)
}

fn find<'a>(windows: &'a Windows, name: &Ident) -> Result<&'a WindowSpec> {
    windows
        .iter()
        .find_map(|(known, spec)| (*known == name.value).then_some(spec))
        .ok_or_else(|| {
            Error::new(
                SqlState::UndefinedObject,
                format!("window \"{}\" does not exist", name.value),
            )
        })
}

/// A window over the one that it names.
fn refined(spec: &WindowSpec, windows: &Windows) -> Result<WindowSpec> {
    let Some(name) = &spec.window_name else {
        return Ok(spec.clone());
    };
    let (excluding, name) = exclusion::split(name);
    let Some(name) = &name else {
        return Ok(spec.clone());
    };
    let base = find(windows, name)?;
    let refused = |what: String| Err(Error::new(SqlState::WindowingError, what));
    let name = &name.value;
    if !spec.partition_by.is_empty() {
        return refused(format!(
            "cannot override PARTITION BY clause of window \"{name}\""
        ));
    }
    if !spec.order_by.is_empty() && !base.order_by.is_empty() {
        return refused(format!(
            "cannot override ORDER BY clause of window \"{name}\""
        ));
    }
    if base.window_frame.is_some() {
        return refused(format!(
            "cannot copy window \"{name}\" because it has a frame clause"
        ));
    }
    let order = match spec.order_by.is_empty() {
        true => &base.order_by,
        false => &spec.order_by,
    };
    Ok(WindowSpec {
        window_name: excluding.map(exclusion::marked),
        partition_by: base.partition_by.clone(),
        order_by: order.clone(),
        window_frame: spec.window_frame.clone(),
    })
}

fn write_out<T: VisitMut>(syntax: &mut T, windows: &Windows) -> Result<()> {
    match syntax.visit(&mut Uses { windows, depth: 0 }) {
        ControlFlow::Break(error) => Err(*error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// Calls over windows, outside subqueries, which see none of these.
struct Uses<'a> {
    windows: &'a Windows,
    depth: usize,
}

impl VisitorMut for Uses<'_> {
    type Break = Box<Error>;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<Self::Break> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Self::Break> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        if self.depth > 0 {
            return ControlFlow::Continue(());
        }
        let Expr::Function(function) = expr else {
            return ControlFlow::Continue(());
        };
        let written = match &function.over {
            None => return ControlFlow::Continue(()),
            Some(WindowType::NamedWindow(name)) => find(self.windows, name).cloned(),
            Some(WindowType::WindowSpec(spec)) => refined(spec, self.windows),
        };
        match written {
            Ok(spec) => {
                function.over = Some(WindowType::WindowSpec(spec));
                ControlFlow::Continue(())
            }
            Err(error) => ControlFlow::Break(Box::new(error)),
        }
    }
}
