//! One state of the catalog, and how names are found in it.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::entry::{MacroEntry, Relation, SchemaEntry, TableEntry, TypeEntry};
use super::sequence::SequenceEntry;
use super::{MAIN_SCHEMA, TEMPORARY_SCHEMA};
use crate::types::NamedType;

/// The form in which names are compared: each character in lower case where that is one character.
pub fn fold(name: &str) -> String {
    if name.is_ascii() {
        return name.to_ascii_lowercase();
    }
    name.chars()
        .map(|character| {
            let mut lower = character.to_lowercase();
            match (lower.next(), lower.next()) {
                (Some(single), None) => single,
                _ => character,
            }
        })
        .collect()
}

/// One state of the catalog. Names are found exactly first, then without regard to case.
#[derive(Debug, Clone)]
pub struct CatalogState {
    /// Schemas by folded name.
    pub(super) schemas: Arc<BTreeMap<String, Arc<SchemaEntry>>>,
    /// The session's own objects.
    pub(super) temporary: Arc<SchemaEntry>,
}

impl Default for CatalogState {
    fn default() -> Self {
        let main = Arc::new(SchemaEntry::new(MAIN_SCHEMA));
        CatalogState {
            schemas: Arc::new(BTreeMap::from([(MAIN_SCHEMA.to_owned(), main)])),
            temporary: Arc::new(SchemaEntry::new(TEMPORARY_SCHEMA)),
        }
    }
}

impl CatalogState {
    /// Whether this is the very same catalog.
    pub fn is_same(&self, other: &CatalogState) -> bool {
        Arc::ptr_eq(&self.schemas, &other.schemas) && Arc::ptr_eq(&self.temporary, &other.temporary)
    }

    /// The schemas, sorted; `temp` among them when it holds something.
    pub fn schemas(&self) -> Vec<String> {
        let mut names: Vec<String> = self
            .schemas
            .values()
            .map(|schema| schema.name.clone())
            .collect();
        if !self.temporary.is_empty() {
            names.push(TEMPORARY_SCHEMA.to_owned());
        }
        names.sort();
        names
    }

    /// The relations of a schema, sorted by name.
    pub fn relations(&self, schema: &str) -> Vec<Relation> {
        self.schema(schema)
            .map(|schema| schema.relations.values().flatten().cloned().collect())
            .unwrap_or_default()
    }

    /// Every base table, schema by schema, sorted by name.
    pub fn tables(&self) -> Vec<Arc<TableEntry>> {
        let schemas = self.schemas();
        let relations = schemas.iter().flat_map(|schema| self.relations(schema));
        relations
            .filter_map(|relation| match relation {
                Relation::Table(table) => Some(table),
                Relation::View(_) => None,
            })
            .collect()
    }

    /// Finds a relation.
    pub fn relation(&self, schema: &str, name: &str) -> Option<Relation> {
        self.schema(schema)?.relation(name).cloned()
    }

    /// Enum types: name and labels in order.
    pub fn enums(&self, schema: &str) -> Vec<(String, Vec<String>)> {
        self.schema(schema)
            .map(|schema| {
                let types = schema.types.values();
                types
                    .filter_map(|entry| match &entry.definition {
                        NamedType::Enum(labels) => Some((entry.name.clone(), labels.clone())),
                        NamedType::Alias(_) => None,
                    })
                    .collect()
            })
            .unwrap_or_default()
    }

    /// The types with names of a schema.
    pub fn types(&self, schema: &str) -> Vec<Arc<TypeEntry>> {
        self.schema(schema)
            .map(|schema| schema.types.values().cloned().collect())
            .unwrap_or_default()
    }

    /// Finds a schema; `public` is `main` unless a schema has that name.
    pub fn schema(&self, name: &str) -> Option<&Arc<SchemaEntry>> {
        let folded = fold(name);
        if folded == TEMPORARY_SCHEMA || folded == "pg_temp" {
            return Some(&self.temporary);
        }
        self.schemas.get(&folded).or_else(|| {
            (folded == "public")
                .then(|| self.schemas.get(MAIN_SCHEMA))
                .flatten()
        })
    }

    /// The sequences of a schema, sorted by name.
    pub fn sequences(&self, schema: &str) -> Vec<Arc<SequenceEntry>> {
        self.schema(schema)
            .map(|schema| schema.sequences.values().cloned().collect())
            .unwrap_or_default()
    }

    /// Finds a sequence.
    pub fn sequence(&self, schema: &str, name: &str) -> Option<Arc<SequenceEntry>> {
        self.schema(schema)?.sequences.get(&fold(name)).cloned()
    }

    /// A type, looked for in the session's own objects and then in `path`.
    pub fn named_type(&self, path: &[String], name: &str) -> Option<&Arc<TypeEntry>> {
        self.temporary.named_type(name).or_else(|| {
            path.iter()
                .find_map(|schema| self.schema(schema)?.named_type(name))
        })
    }

    /// A macro, looked for like a type.
    pub fn macro_named(&self, path: &[String], name: &str) -> Option<Arc<MacroEntry>> {
        let temporary = self.temporary.macro_named(name);
        let found = temporary.or_else(|| {
            path.iter()
                .find_map(|schema| self.schema(schema)?.macro_named(name))
        });
        found.cloned()
    }

    /// Whether any schema has macros.
    pub fn has_macros(&self) -> bool {
        self.schemas
            .values()
            .chain([&self.temporary])
            .any(|schema| schema.macros().next().is_some())
    }

    /// Quoted names that must not be folded, because something differs from them by case alone.
    pub fn case_sensitive_names(&self) -> HashSet<String> {
        let mut names = HashSet::new();
        for schema in self
            .schemas
            .values()
            .chain(std::iter::once(&self.temporary))
        {
            for candidates in schema.relations.values() {
                if candidates.len() > 1 {
                    names.extend(candidates.iter().map(|one| one.name().to_owned()));
                }
                for relation in candidates {
                    if let Relation::Table(table) = relation {
                        let exact = table.folded_names();
                        names.extend(exact.into_iter().filter(|name| fold(name) != *name));
                    }
                }
            }
        }
        names
    }
}
