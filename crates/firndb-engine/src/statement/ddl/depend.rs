//! What depends on what: views on the relations that their queries name.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{ObjectName, Query, Visit, Visitor};

use crate::catalog::{CatalogState, Relation, ViewEntry, fold};
use crate::error::{Error, SqlState};
use crate::statement::split_name;

/// The views that name this relation, directly.
pub(super) fn views_on(state: &CatalogState, schema: &str, name: &str) -> Vec<Arc<ViewEntry>> {
    let (schema, name) = (fold(schema), fold(name));
    let mut found = Vec::new();
    for holder in state
        .schemas()
        .iter()
        .map(String::as_str)
        .chain([crate::catalog::TEMPORARY_SCHEMA])
    {
        for relation in state.relations(holder) {
            if let Relation::View(view) = relation
                && !found.iter().any(|other| Arc::ptr_eq(other, &view))
                && names(&view.query).iter().any(|(in_schema, named)| {
                    *named == name
                        && in_schema
                            .as_ref()
                            .is_none_or(|in_schema| *in_schema == schema)
                })
            {
                found.push(view);
            }
        }
    }
    found
}

/// The relations that a query names, folded; a view's names have their schemas.
pub(super) fn names(query: &Query) -> HashSet<(Option<String>, String)> {
    let mut collector = Collector {
        tables: HashSet::new(),
        common: HashSet::new(),
    };
    let _ = query.visit(&mut collector);
    let Collector { tables, common } = collector;
    tables
        .into_iter()
        .filter(|(schema, name)| schema.is_some() || !common.contains(name))
        .collect()
}

/// The names of the common table expressions of a query.
pub(super) fn common_names(query: &Query) -> HashSet<String> {
    let mut collector = Collector {
        tables: HashSet::new(),
        common: HashSet::new(),
    };
    let _ = query.visit(&mut collector);
    collector.common
}

/// 2BP01.
pub(super) fn still_needed(what: &str, views: &[Arc<ViewEntry>]) -> Error {
    let list: Vec<String> = views
        .iter()
        .map(|view| format!("view {} depends on {what}", view.name))
        .collect();
    Error::new(
        SqlState::DependentObjectsStillExist,
        format!("cannot drop {what} because other objects depend on it"),
    )
    .with_detail(list.join("; "))
    .with_hint("Use DROP ... CASCADE to drop the dependent objects too.")
}

struct Collector {
    tables: HashSet<(Option<String>, String)>,
    common: HashSet<String>,
}

impl Visitor for Collector {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        if let Some(with) = &query.with {
            self.common.extend(
                with.cte_tables
                    .iter()
                    .map(|table| table.alias.name.value.clone()),
            );
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        if let Ok((schema, name)) = split_name(relation) {
            self.tables
                .insert((schema.map(|schema| fold(&schema)), fold(&name)));
        }
        ControlFlow::Continue(())
    }
}
