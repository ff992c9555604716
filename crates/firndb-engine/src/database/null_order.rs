//! The setting `default_null_order`: where NULLs are sorted to without NULLS FIRST or LAST.
//!
//! It is an option of the planner, so it holds for ORDER BY of queries, windows and aggregates alike.

use std::sync::Arc;

use datafusion::execution::session_state::SessionState;

use super::session::Inner;
use crate::catalog::fold;

/// The planner's word for the default.
pub(super) const DEFAULT: &str = "nulls_max";

/// Where NULLs may be sorted to: the planner's word, and the words that a session may use. The first is the default: NULL is the
/// greatest value, as in PostgreSQL.
const ORDERS: [(&str, &[&str]); 4] = [
    (
        "nulls_max",
        &["nulls_last_on_asc_first_on_desc", "postgres", "default"],
    ),
    (
        "nulls_min",
        &["nulls_first_on_asc_last_on_desc", "sqlite", "mysql"],
    ),
    ("nulls_first", &["nulls_first", "first", "nulls first"]),
    (
        "nulls_last",
        &["nulls_last", "last", "nulls last", "duckdb"],
    ),
];

/// Operators read the options that the session state had when they were last told.
pub(super) fn reach_operators(state: &mut SessionState) {
    let options = Arc::clone(state.config_options());
    state.execution_props_mut().config_options = Some(options);
}

pub(super) fn named(value: &str) -> Option<&'static str> {
    let value = fold(value);
    ORDERS
        .iter()
        .find(|(_, names)| names.contains(&value.as_str()))
        .map(|(order, _)| *order)
}

pub(super) fn set(inner: &mut Inner, order: &str) {
    let state = Arc::make_mut(&mut inner.state);
    state
        .config_mut()
        .options_mut()
        .sql_parser
        .default_null_ordering = order.to_owned();
    reach_operators(state);
}

/// The setting as it is shown.
pub(super) fn shown(state: &SessionState) -> String {
    let order = &state.config_options().sql_parser.default_null_ordering;
    ORDERS
        .iter()
        .find(|(known, _)| known == order)
        .map_or(order.as_str(), |(_, names)| names[0])
        .to_owned()
}
