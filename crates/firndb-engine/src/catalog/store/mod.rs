//! The catalog in the database file: each object as a JSON text under a key.
//!
//! ```text
//!   ["schema", s]          {"name"}
//!   ["relation", s, r]     [table or view, …]         names that differ by case alone share a key, as in the catalog
//!   ["type", s, t]         {"name", "labels"}
//!   ["macro", s, m]        {"name", "parameters", "body"}
//!   ["sequence", s, q]     {"name", "id", …}
//!   ["number", id]         {"value", "given"}         how far a sequence is: changes by itself, in no transaction
//! ```
//!
//! Storage keeps the texts and does not read them. A table's text names its number in the file; its rows, columns and their types are
//! storage's. Expressions and queries are kept as SQL. What is written is parsed again at once, and refused if it would not come back as it is: better an
//! error of CREATE than a database that does not open.
//!
//! Temporary objects are not kept.

mod decode;
mod encode;
mod sql;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use firndb_storage::{Definitions, Table};
use serde_json::json;

use super::entry::{Relation, SchemaEntry};
use super::state::CatalogState;
use crate::error::Result;

pub use decode::restore;
pub(super) use encode::sequence_number;

/// An object of the catalog: its key, and its text.
pub type Object = (String, Vec<u8>);

/// All objects of a catalog. `exact` says how far sequences are; else they may be further by what was logged ahead.
pub fn objects(state: &CatalogState, exact: bool) -> Result<Vec<Object>> {
    let mut found = Vec::new();
    for (key, schema) in state.schemas.iter() {
        found.push((schema_key(key), encode::text(&json!({"name": schema.name}))));
        for (name, relations) in &schema.relations {
            found.push((
                object_key("relation", key, name),
                encode::relations(relations)?,
            ));
        }
        for (name, entry) in &schema.types {
            found.push((object_key("type", key, name), encode::a_type(entry)?));
        }
        for (name, entry) in &schema.macros {
            found.push((object_key("macro", key, name), encode::a_macro(entry)?));
        }
        for (name, entry) in &schema.sequences {
            found.push((object_key("sequence", key, name), encode::sequence(entry)));
            if let Some(number) = entry.stored(exact) {
                found.push((number_key(&entry.id), number));
            }
        }
    }
    Ok(found)
}

/// The tables of a catalog that last.
pub fn tables(state: &CatalogState) -> Vec<Table> {
    state
        .schemas
        .values()
        .flat_map(|schema| tables_of(schema))
        .collect()
}

fn tables_of(schema: &SchemaEntry) -> impl Iterator<Item = Table> {
    schema.relations.values().flatten().filter_map(table_of)
}

fn table_of(relation: &Relation) -> Option<Table> {
    match relation {
        Relation::Table(entry) => Some(entry.table.clone()),
        Relation::View(_) => None,
    }
}

/// What is new in a catalog, changed or gone.
pub fn difference(before: &CatalogState, after: &CatalogState) -> Result<Definitions> {
    let mut found = Definitions::default();
    let mut gone: BTreeSet<u64> = BTreeSet::new();
    let empty = Arc::new(SchemaEntry::default());
    let keys: BTreeSet<&String> = before.schemas.keys().chain(after.schemas.keys()).collect();
    for key in keys {
        let (old, new) = (before.schemas.get(key), after.schemas.get(key));
        if let (Some(old), Some(new)) = (old, new)
            && Arc::ptr_eq(old, new)
        {
            continue;
        }
        let name = |schema: Option<&Arc<SchemaEntry>>| schema.map(|schema| schema.name.clone());
        if name(old) != name(new) {
            let text = new.map(|schema| encode::text(&json!({"name": schema.name})));
            found.objects.push((schema_key(key), text));
        }
        let (old, new) = (old.unwrap_or(&empty), new.unwrap_or(&empty));
        let same = |one: &Vec<Relation>, other: &Vec<Relation>| {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.same(other))
        };
        for (name, new) in changed(&old.relations, &new.relations, same) {
            let old = old.relations.get(name).into_iter().flatten();
            gone.extend(old.filter_map(table_of).map(|table| table.durable_id()));
            found
                .tables
                .extend(new.into_iter().flatten().filter_map(table_of));
            let text = new
                .map(|relations| encode::relations(relations))
                .transpose()?;
            found
                .objects
                .push((object_key("relation", key, name), text));
        }
        for (name, new) in changed(&old.types, &new.types, |one, other| one == other) {
            let text = new.map(|entry| encode::a_type(entry)).transpose()?;
            found.objects.push((object_key("type", key, name), text));
        }
        for (name, new) in changed(&old.macros, &new.macros, Arc::ptr_eq) {
            let text = new.map(|entry| encode::a_macro(entry)).transpose()?;
            found.objects.push((object_key("macro", key, name), text));
        }
        for (name, new) in changed(&old.sequences, &new.sequences, Arc::ptr_eq) {
            if let Some(old) = old.sequences.get(name) {
                found.objects.push((number_key(&old.id), None));
            }
            let text = new.map(|entry| encode::sequence(entry));
            found
                .objects
                .push((object_key("sequence", key, name), text));
            // One that was altered begins where the one before was.
            if let Some(new) = new
                && let Some(number) = new.stored(false)
            {
                found.objects.push((number_key(&new.id), Some(number)));
            }
        }
    }
    for table in &found.tables {
        gone.remove(&table.durable_id());
    }
    found.dropped = gone.into_iter().collect();
    Ok(found)
}

/// The keys under which two maps hold different things, and what the second one holds.
fn changed<'a, T>(
    old: &'a BTreeMap<String, T>,
    new: &'a BTreeMap<String, T>,
    same: impl Fn(&T, &T) -> bool,
) -> Vec<(&'a String, Option<&'a T>)> {
    let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    keys.into_iter()
        .map(|key| (key, old.get(key), new.get(key)))
        .filter(|(_, old, new)| match (old, new) {
            (Some(old), Some(new)) => !same(old, new),
            _ => true,
        })
        .map(|(key, _, new)| (key, new))
        .collect()
}

fn schema_key(schema: &str) -> String {
    json!(["schema", schema]).to_string()
}

fn object_key(kind: &str, schema: &str, name: &str) -> String {
    json!([kind, schema, name]).to_string()
}

pub(super) fn number_key(id: &str) -> String {
    json!(["number", id]).to_string()
}
