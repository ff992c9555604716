//! Changing the catalog: a transaction's private copy, and the replay of its changes at commit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::entry::{MacroEntry, Relation, SchemaEntry, TypeEntry};
use super::sequence::SequenceEntry;
use super::state::{CatalogState, fold};
use super::{MAIN_SCHEMA, TEMPORARY_SCHEMA};
use crate::error::{Error, Result, SqlState};

/// A database's newest catalog.
#[derive(Debug, Default)]
pub struct Catalog {
    newest: Mutex<CatalogState>,
    /// Grows with every change, before the change can be seen.
    version: AtomicU64,
}

impl Catalog {
    /// Begins a transaction: runs `begin` and reads the catalog as one step with respect to `commit`, so that a storage
    /// snapshot and the catalog beside it belong together.
    pub fn begin<T>(
        &self,
        temporary: &Arc<SchemaEntry>,
        begin: impl FnOnce() -> T,
    ) -> (T, CatalogChanges) {
        let newest = self.newest.lock();
        let begun = begin();
        let state = CatalogState {
            schemas: Arc::clone(&newest.schemas),
            temporary: Arc::clone(temporary),
        };
        let version = self.version();
        drop(newest);
        (begun, CatalogChanges::new(Arc::new(state), version))
    }

    /// The catalog that a database file holds, before anybody has seen another one.
    pub fn restore(&self, state: CatalogState) {
        *self.newest.lock() = state;
        self.version.fetch_add(1, Ordering::SeqCst);
    }

    /// The newest catalog, and what `at` gives as one step with respect to `commit`.
    pub fn at_newest<T>(&self, at: impl FnOnce() -> T) -> (CatalogState, T) {
        let newest = self.newest.lock();
        let given = at();
        (newest.clone(), given)
    }

    /// A number that grows with every change. Who takes a snapshot, then finds the version as it was, has a snapshot that
    /// belongs to the catalog of that version.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }

    /// Publishes a transaction's changes if `commit` succeeds; 40001 when another transaction changed the same objects.
    /// Returns the session's temporary schema as the transaction leaves it.
    /// `commit` gets the catalog before and after, if it changes.
    pub fn commit(
        &self,
        changes: &CatalogChanges,
        commit: impl FnOnce(Option<(&CatalogState, &CatalogState)>) -> Result<()>,
    ) -> Result<Arc<SchemaEntry>> {
        if changes.touched.is_empty() {
            commit(None)?;
            return Ok(Arc::clone(&changes.state.temporary));
        }
        let mut newest = self.newest.lock();
        let merged = changes.replay(&newest)?;
        self.version.fetch_add(1, Ordering::SeqCst);
        commit(Some((&newest, &merged)))?;
        *newest = merged;
        Ok(Arc::clone(&changes.state.temporary))
    }
}

/// What a change concerns; names are folded.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Object {
    Schema(String),
    Relation(String, String),
    Type(String, String),
    Macro(String, String),
    Sequence(String, String),
}

/// A transaction's view of the catalog and what it changed there.
#[derive(Debug, Clone)]
pub struct CatalogChanges {
    base: Arc<CatalogState>,
    state: Arc<CatalogState>,
    touched: BTreeSet<Object>,
    version: u64,
}

/// A place to return to.
#[derive(Debug, Clone)]
pub struct CatalogMark {
    state: Arc<CatalogState>,
    touched: BTreeSet<Object>,
}

impl CatalogChanges {
    fn new(base: Arc<CatalogState>, version: u64) -> Self {
        CatalogChanges {
            state: Arc::clone(&base),
            base,
            touched: BTreeSet::new(),
            version,
        }
    }

    /// The version of the catalog that the transaction sees; `None` when it has changed something itself.
    pub fn version(&self) -> Option<u64> {
        Arc::ptr_eq(&self.base, &self.state).then_some(self.version)
    }

    /// The catalog as the transaction sees it.
    pub fn state(&self) -> &Arc<CatalogState> {
        &self.state
    }

    /// Whether anything was changed.
    pub fn is_empty(&self) -> bool {
        self.touched.is_empty() && Arc::ptr_eq(&self.base.temporary, &self.state.temporary)
    }

    /// Makes storage follow the settings of the tables that were changed. After the commit.
    pub fn adopt_settings(&self) {
        if self.is_empty() {
            return;
        }
        for entry in self.state.tables() {
            let before = self.base.relation(&entry.schema, &entry.name);
            if !matches!(before, Some(Relation::Table(before)) if Arc::ptr_eq(&before, &entry)) {
                entry.adopt_settings();
            }
        }
    }

    /// A place to return to.
    pub fn mark(&self) -> CatalogMark {
        CatalogMark {
            state: Arc::clone(&self.state),
            touched: self.touched.clone(),
        }
    }

    /// Returns to a place.
    pub fn rollback_to(&mut self, mark: &CatalogMark) {
        self.state = Arc::clone(&mark.state);
        self.touched.clone_from(&mark.touched);
    }

    /// Adds a relation or replaces the one of exactly its name.
    pub fn put(&mut self, relation: Relation) {
        let (schema, name) = (relation.schema().to_owned(), relation.name().to_owned());
        self.edit(&schema, |entry| entry.put_relation(relation));
        self.touch(&schema, Object::Relation(fold(&schema), fold(&name)));
    }

    /// Takes away the relation of exactly this name.
    pub fn remove(&mut self, schema: &str, name: &str) {
        self.edit(schema, |entry| entry.take_relation(name));
        self.touch(schema, Object::Relation(fold(schema), fold(name)));
    }

    /// Adds a type.
    pub fn put_type(&mut self, schema: &str, entry: TypeEntry) {
        let key = fold(&entry.name);
        self.edit(schema, |schema| {
            schema.types.insert(key.clone(), Arc::new(entry));
        });
        self.touch(schema, Object::Type(fold(schema), key));
    }

    /// Takes a type away.
    pub fn remove_type(&mut self, schema: &str, name: &str) {
        let key = fold(name);
        self.edit(schema, |schema| {
            schema.types.remove(&key);
        });
        self.touch(schema, Object::Type(fold(schema), key));
    }

    /// Adds a macro or replaces the one of its name.
    pub fn put_macro(&mut self, schema: &str, entry: MacroEntry) {
        let key = fold(&entry.name);
        self.edit(schema, |schema| {
            schema.macros.insert(key.clone(), Arc::new(entry));
        });
        self.touch(schema, Object::Macro(fold(schema), key));
    }

    /// Takes a macro away.
    pub fn remove_macro(&mut self, schema: &str, name: &str) {
        let key = fold(name);
        self.edit(schema, |schema| {
            schema.macros.remove(&key);
        });
        self.touch(schema, Object::Macro(fold(schema), key));
    }

    /// Adds a sequence.
    pub fn put_sequence(&mut self, entry: SequenceEntry) {
        let (schema, key) = (entry.schema.clone(), fold(&entry.name));
        self.edit(&schema, |schema| {
            schema.sequences.insert(key.clone(), Arc::new(entry));
        });
        self.touch(&schema, Object::Sequence(fold(&schema), key));
    }

    /// Takes a sequence away.
    pub fn remove_sequence(&mut self, schema: &str, name: &str) {
        let key = fold(name);
        self.edit(schema, |schema| {
            schema.sequences.remove(&key);
        });
        self.touch(schema, Object::Sequence(fold(schema), key));
    }

    /// Adds a schema.
    pub fn create_schema(&mut self, name: &str) {
        let key = fold(name);
        let state = Arc::make_mut(&mut self.state);
        Arc::make_mut(&mut state.schemas).insert(key.clone(), Arc::new(SchemaEntry::new(name)));
        self.touched.insert(Object::Schema(key));
    }

    /// Takes a schema away with all that is in it.
    pub fn drop_schema(&mut self, name: &str) {
        let key = fold(name);
        let state = Arc::make_mut(&mut self.state);
        Arc::make_mut(&mut state.schemas).remove(&key);
        self.touched.insert(Object::Schema(key));
    }

    /// Remembers a change to be replayed; temporary objects are the session's own and need no replay.
    fn touch(&mut self, schema: &str, object: Object) {
        if fold(schema) != TEMPORARY_SCHEMA {
            self.touched.insert(object);
        }
    }

    fn edit(&mut self, schema: &str, change: impl FnOnce(&mut SchemaEntry)) {
        let state = Arc::make_mut(&mut self.state);
        let key = fold(schema);
        if key == TEMPORARY_SCHEMA {
            change(Arc::make_mut(&mut state.temporary));
            return;
        }
        let schemas = Arc::make_mut(&mut state.schemas);
        if let Some(entry) = schemas.get_mut(&key) {
            change(Arc::make_mut(entry));
        }
    }

    /// The newest state with this transaction's changes in it.
    fn replay(&self, newest: &CatalogState) -> Result<CatalogState> {
        let mut merged = CatalogState {
            schemas: Arc::clone(&newest.schemas),
            temporary: Arc::clone(&CatalogState::default().temporary),
        };
        if Arc::ptr_eq(&newest.schemas, &self.base.schemas) {
            merged.schemas = Arc::clone(&self.state.schemas);
            return Ok(merged);
        }
        let schemas = Arc::make_mut(&mut merged.schemas);
        for object in &self.touched {
            match object {
                Object::Schema(key) => {
                    if !is_same(newest.schemas.get(key), self.base.schemas.get(key)) {
                        return Err(conflict("schema", key));
                    }
                    match self.state.schemas.get(key) {
                        Some(entry) => schemas.insert(key.clone(), Arc::clone(entry)),
                        None => schemas.remove(key),
                    };
                }
                Object::Relation(schema, name) => {
                    let relations = |state: &CatalogState| {
                        state
                            .schemas
                            .get(schema)
                            .and_then(|entry| entry.relations.get(name).cloned())
                    };
                    let (then, now) = (relations(&self.base), relations(newest));
                    let unchanged = match (&then, &now) {
                        (None, None) => true,
                        (Some(a), Some(b)) => {
                            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same(b))
                        }
                        _ => false,
                    };
                    if !unchanged {
                        return Err(conflict("relation", name));
                    }
                    put(schemas, schema, name, relations(&self.state), |entry| {
                        &mut entry.relations
                    })?;
                }
                Object::Sequence(schema, name) => {
                    let found = |state: &CatalogState| state.sequence(schema, name);
                    if !is_same(found(&self.base).as_ref(), found(newest).as_ref()) {
                        return Err(conflict("sequence", name));
                    }
                    put(schemas, schema, name, found(&self.state), |entry| {
                        &mut entry.sequences
                    })?;
                }
                Object::Type(schema, name) => {
                    let found = |state: &CatalogState| {
                        state
                            .schemas
                            .get(schema)
                            .and_then(|entry| entry.types.get(name).cloned())
                    };
                    if found(&self.base) != found(newest) {
                        return Err(conflict("type", name));
                    }
                    put(schemas, schema, name, found(&self.state), |entry| {
                        &mut entry.types
                    })?;
                }
                Object::Macro(schema, name) => {
                    let found = |state: &CatalogState| {
                        state
                            .schemas
                            .get(schema)
                            .and_then(|entry| entry.macros.get(name).cloned())
                    };
                    if !is_same(found(&self.base).as_ref(), found(newest).as_ref()) {
                        return Err(conflict("macro", name));
                    }
                    put(schemas, schema, name, found(&self.state), |entry| {
                        &mut entry.macros
                    })?;
                }
            }
        }
        debug_assert!(schemas.contains_key(MAIN_SCHEMA));
        Ok(merged)
    }
}

/// Whether two states have the same entry, or both none.
fn is_same<T>(one: Option<&Arc<T>>, other: Option<&Arc<T>>) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        _ => false,
    }
}

/// Puts an object into a schema, or takes it away; a conflict if the schema has gone.
fn put<T>(
    schemas: &mut BTreeMap<String, Arc<SchemaEntry>>,
    schema: &str,
    name: &str,
    wanted: Option<T>,
    of: impl FnOnce(&mut SchemaEntry) -> &mut BTreeMap<String, T>,
) -> Result<()> {
    let Some(entry) = schemas.get_mut(schema) else {
        return match wanted {
            None => Ok(()),
            Some(_) => Err(conflict("schema", schema)),
        };
    };
    let objects = of(Arc::make_mut(entry));
    match wanted {
        Some(object) => objects.insert(name.to_owned(), object),
        None => objects.remove(name),
    };
    Ok(())
}

fn conflict(kind: &str, name: &str) -> Error {
    Error::new(
        SqlState::SerializationFailure,
        format!("could not serialize access: {kind} \"{name}\" was changed by another transaction"),
    )
}
