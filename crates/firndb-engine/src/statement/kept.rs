//! Plans kept by the text of their query.
//!
//! A query without parameters leaves its operators in its text's [`PlanPlace`] when it runs a second time. From then on they run again,
//! at the snapshot of each time, as long as
//!
//! - names mean what they meant: the same catalog, settings, search path and registered frames;
//! - the plan says what the query says at any time: no function of the moment or of chance, and nothing was asked while it was planned;
//! - each table holds the rows that the plan was made for ([`VacantPlan`]).
//!
//! Otherwise the query is planned as ever.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, Volatility};
use datafusion::sql::sqlparser::ast;
use parking_lot::Mutex;

use super::plain::Plain;
use crate::catalog::CatalogState;
use crate::scan::renewal::VacantPlan;
use crate::session::Frame;

/// What names in a query mean.
#[derive(Clone)]
pub(super) struct Names {
    pub(super) catalog: Arc<CatalogState>,
    pub(super) state: Arc<SessionState>,
    pub(super) path: Arc<[String]>,
    pub(super) registered: Arc<BTreeMap<String, Frame>>,
}

impl Names {
    fn are(&self, other: &Names) -> bool {
        self.catalog.is_same(&other.catalog)
            && Arc::ptr_eq(&self.state, &other.state)
            && Arc::ptr_eq(&self.path, &other.path)
            && Arc::ptr_eq(&self.registered, &other.registered)
    }
}

/// A query planned before.
pub(super) struct KeptPlan {
    /// What it was planned with.
    pub(super) names: Names,
    pub(super) plan: VacantPlan,
    pub(super) query: Arc<ast::Query>,
    pub(super) plain: Plain,
    pub(super) whole: bool,
    pub(super) schema: SchemaRef,
}

/// Where the plan of one text is kept.
#[derive(Default)]
pub(crate) struct PlanPlace {
    state: Mutex<State>,
}

#[derive(Default)]
enum State {
    /// It has not run: most texts run once.
    #[default]
    New,
    /// It has run, and no plan is kept.
    Seen,
    Kept(Arc<KeptPlan>),
}

impl fmt::Debug for PlanPlace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PlanPlace").finish_non_exhaustive()
    }
}

impl PlanPlace {
    /// The plan, if one is kept for these names.
    pub(super) fn find(&self, names: &Names) -> Option<Arc<KeptPlan>> {
        match &*self.state.lock() {
            State::Kept(kept) if kept.names.are(names) => Some(Arc::clone(kept)),
            _ => None,
        }
    }

    /// Whether the query has run before. It has, from now on.
    pub(super) fn is_seen(&self) -> bool {
        let mut state = self.state.lock();
        if matches!(*state, State::New) {
            *state = State::Seen;
            return false;
        }
        true
    }

    /// Whether a plan is kept.
    #[cfg(test)]
    pub(crate) fn is_kept(&self) -> bool {
        matches!(*self.state.lock(), State::Kept(_))
    }

    /// Keeps a plan, or none.
    pub(super) fn keep(&self, plan: Option<KeptPlan>) {
        *self.state.lock() = match plan {
            Some(plan) => State::Kept(Arc::new(plan)),
            None => State::Seen,
        };
    }
}

/// Whether a plan, as bound, says the same at any moment: what it calls depends on its arguments alone.
pub(super) fn is_timeless(plan: &LogicalPlan) -> Result<bool> {
    let mut timeless = true;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Some(view) = scan.source.get_logical_plan()
        {
            timeless &= is_timeless(&view)?;
        }
        node.apply_expressions(|expression| {
            expression.apply(|part| {
                timeless &= match part {
                    Expr::ScalarFunction(call) => {
                        call.func.signature().volatility == Volatility::Immutable
                    }
                    Expr::Placeholder(_) | Expr::ScalarVariable(..) => false,
                    _ => true,
                };
                Ok(step(timeless))
            })
        })?;
        Ok(step(timeless))
    })?;
    Ok(timeless)
}

fn step(go_on: bool) -> TreeNodeRecursion {
    match go_on {
        true => TreeNodeRecursion::Continue,
        false => TreeNodeRecursion::Stop,
    }
}
