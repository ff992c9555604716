//! What depends on what: views on the relations that their queries name, and whatever calls a function on it.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{Expr, ObjectName, Query, TableFactor, Visit, Visitor};

use crate::catalog::{CatalogState, Constraint, IndexKey, Relation, TableEntry, ViewEntry, fold};
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

/// What calls a function.
pub(super) enum Caller {
    View(Arc<ViewEntry>),
    /// A CHECK of a table, by its name.
    Check(Arc<TableEntry>, String),
    /// Another part of a table, in words.
    Part(String),
}

impl Caller {
    fn described(&self) -> String {
        match self {
            Caller::View(view) => format!("view {}", view.name),
            Caller::Check(table, name) => format!("constraint {name} on table {}", table.name),
            Caller::Part(part) => part.clone(),
        }
    }
}

/// 2BP01.
pub(super) fn still_called(what: &str, callers: &[&Caller], hint: &str) -> Error {
    let list: Vec<String> = callers
        .iter()
        .map(|caller| format!("{} depends on {what}", caller.described()))
        .collect();
    Error::new(
        SqlState::DependentObjectsStillExist,
        format!("cannot drop {what} because other objects depend on it"),
    )
    .with_detail(list.join("; "))
    .with_hint(hint)
}

/// What calls a function of a schema: views, and conditions, defaults, generated columns and indexes of tables. Bodies of other
/// functions are looked at when they are called, as PostgreSQL does.
pub(super) fn callers(state: &CatalogState, schema: &str, name: &str) -> Vec<Caller> {
    let (schema, name) = (fold(schema), fold(name));
    let schemas = state.schemas();
    let holders = schemas.iter().map(String::as_str);
    let relations = holders
        .chain([crate::catalog::TEMPORARY_SCHEMA])
        .flat_map(|holder| state.relations(holder));
    let mut found = Vec::new();
    let calls = |expr: &Expr| {
        let mut calls = Calls {
            schema: &schema,
            name: &name,
        };
        expr.visit(&mut calls).is_break()
    };
    for relation in relations {
        match relation {
            Relation::View(view) => {
                let mut calls = Calls {
                    schema: &schema,
                    name: &name,
                };
                if view.query.visit(&mut calls).is_break() {
                    found.push(Caller::View(view));
                }
            }
            Relation::Table(table) => {
                for constraint in &table.constraints {
                    if let Constraint::Check { name, condition } = constraint
                        && calls(condition)
                    {
                        found.push(Caller::Check(Arc::clone(&table), name.clone()));
                    }
                }
                for column in &table.columns {
                    let given = [&column.default, &column.generated].into_iter().flatten();
                    if given.into_iter().any(calls) {
                        let column = column.field.name();
                        let part = format!("column {column} of table {}", table.name);
                        found.push(Caller::Part(part));
                    }
                }
                for index in &table.indexes {
                    let keys = index.parts.iter().filter_map(|part| match &part.key {
                        IndexKey::Expression(expr) => Some(expr),
                        IndexKey::Column(_) => None,
                    });
                    if keys.chain(&index.predicate).any(calls) {
                        found.push(Caller::Part(format!("index {}", index.name)));
                    }
                }
            }
        }
    }
    found
}

/// Looks for a call of a function, which is behind a value, too: `x.f()`.
struct Calls<'a> {
    schema: &'a str,
    name: &'a str,
}

impl Calls<'_> {
    fn names(&self, name: &ObjectName) -> bool {
        match split_name(name) {
            Ok((schema, name)) => {
                let schema = schema.map(|schema| fold(&schema));
                fold(&name) == self.name && schema.is_none_or(|schema| schema == self.schema)
            }
            Err(_) => false,
        }
    }
}

impl Visitor for Calls<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(function) if self.names(&function.name) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table {
                name,
                args: Some(_),
                ..
            }
            | TableFactor::Function { name, .. }
                if self.names(name) =>
            {
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        }
    }
}
