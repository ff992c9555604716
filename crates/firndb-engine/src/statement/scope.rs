//! What one statement plans and runs with: the catalog, the snapshot and the settings of its transaction, its
//! parameters and its caller's frames.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use datafusion::catalog::TableProvider;
use datafusion::execution::TaskContext;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::sql::sqlparser::ast::{ObjectName, ObjectNamePart};
use firndb_storage::{Form, Snapshot, Storage};
use parking_lot::Mutex;

use super::kept::PlanPlace;
use super::sequences::GivenNumbers;
use crate::catalog::{CatalogState, DATABASE, Relation, TEMPORARY_SCHEMA, TableEntry, fold};
use crate::error::{Error, Result, SqlState, nearest};
use crate::metadata;
use crate::parse::Arguments;
use crate::scan::ScanProgress;
use crate::session::cancel::Cancellation;
use crate::session::workers::Workers;
use crate::session::{Frame, FrameSource};

/// System schemas whose relations come from `metadata`.
const SYSTEM_SCHEMAS: [&str; 2] = ["information_schema", "pg_catalog"];

/// What one statement plans and runs with. Owns no transaction, so an open result can keep it.
#[derive(Clone)]
pub struct Scope {
    /// The catalog as the transaction sees it.
    pub catalog: Arc<CatalogState>,
    /// What the statement sees of tables.
    pub snapshot: Snapshot,
    /// DataFusion's functions, rules and options for the session.
    pub state: Arc<SessionState>,
    /// How SQL's type names are planned.
    pub type_planner: Option<Arc<dyn TypePlanner>>,
    /// Where tables are made.
    pub storage: Arc<Storage>,
    /// When the transaction began: what `now()` says.
    pub started: DateTime<Utc>,
    /// Schemas in which names without a schema are looked for.
    pub path: Arc<[String]>,
    /// Values of the parameters.
    pub arguments: Arc<Arguments>,
    /// The caller's frames.
    pub frames: Option<Arc<dyn FrameSource>>,
    /// What the session's `nextval` gave out.
    pub(crate) given: Arc<GivenNumbers>,
    /// Frames registered with the session, by folded name.
    pub registered: Arc<BTreeMap<String, Frame>>,
    /// What the progress interface shows.
    pub progress: Arc<ScanProgress>,
    /// What settings are.
    pub settings: Arc<dyn metadata::SettingsSource>,
    /// Where operators run.
    pub workers: Arc<Workers>,
    /// Cancels the statement.
    pub cancellation: Arc<Cancellation>,
    /// The form in which tables are scanned.
    pub form: Form,
    /// Whether tables are scanned by whole extents: their columns go out as they are.
    pub whole: bool,
    /// How aliases and relations were written, by folded name.
    pub aliases: Arc<HashMap<String, String>>,
    /// How relations were written, by folded name.
    pub relations: Arc<HashMap<String, String>>,
    /// How columns of the relations met so far are written, by folded name.
    pub columns: Arc<Mutex<HashMap<String, String>>>,
    /// Where the plan of the query is kept that the text is, if it may be.
    pub(crate) place: Option<Arc<PlanPlace>>,
    /// The caller's frames that were looked for: a name means one frame for the whole statement.
    pub found: Arc<Mutex<HashMap<String, Option<Frame>>>>,
}

impl fmt::Debug for Scope {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Scope").finish_non_exhaustive()
    }
}

/// What a name in FROM stands for.
pub(super) enum Found {
    /// A table or view of the catalog.
    Relation(Relation),
    /// A frame.
    Frame(Frame),
    /// A relation of a system schema.
    System(Arc<dyn TableProvider>),
}

impl Scope {
    /// Finds a relation by a name of one to three parts. A view's definition must not see frames (`bare`).
    pub(super) fn find(
        &self,
        schema: Option<&str>,
        name: &str,
        bare: bool,
    ) -> Result<Option<Found>> {
        if let Some(schema) = schema {
            if let Some(relation) = self.catalog.relation(schema, name) {
                return Ok(Some(Found::Relation(relation)));
            }
            let folded = fold(schema);
            if SYSTEM_SCHEMAS.contains(&folded.as_str()) {
                return self.system(&folded, name);
            }
            if self.catalog.schema(schema).is_none() {
                // What is missing in FROM is a relation; its schema is the hint.
                let hint = self.unknown_schema(schema);
                let error = self.unknown_relation(Some(schema), name);
                return Err(match hint.hint {
                    Some(near) => error.with_hint(near),
                    None => error.with_detail(hint.message),
                });
            }
            return Ok(None);
        }
        if !bare && let Some(frame) = self.registered.get(&fold(name)) {
            return Ok(Some(Found::Frame(frame.clone())));
        }
        if let Some(relation) = self.relation(None, name) {
            return Ok(Some(Found::Relation(relation)));
        }
        if let Some(system) = self.system("pg_catalog", name)? {
            return Ok(Some(system));
        }
        if bare {
            return Ok(None);
        }
        Ok(self.frame(name)?.map(Found::Frame))
    }

    /// A frame of the caller, under its name as written or folded.
    fn frame(&self, name: &str) -> Result<Option<Frame>> {
        let Some(frames) = &self.frames else {
            return Ok(None);
        };
        if let Some(found) = self.found.lock().get(name) {
            return Ok(found.clone());
        }
        let mut found = match self.relations.get(name) {
            Some(written) => frames.find(written)?,
            None => None,
        };
        if found.is_none() {
            found = frames.find(name)?;
        }
        self.found.lock().insert(name.to_owned(), found.clone());
        Ok(found)
    }

    /// A table or view of the catalog, in its schema or along the path.
    pub fn relation(&self, schema: Option<&str>, name: &str) -> Option<Relation> {
        match schema {
            Some(schema) => self.catalog.relation(schema, name),
            None => self.catalog.relation(TEMPORARY_SCHEMA, name).or_else(|| {
                self.path
                    .iter()
                    .find_map(|schema| self.catalog.relation(schema, name))
            }),
        }
    }

    /// Finds a base table to write to; 42P01 with a hint, 42809 for a view.
    pub fn table(&self, name: &ObjectName) -> Result<Arc<TableEntry>> {
        let (schema, table) = split_name(name)?;
        if let Some(schema) = &schema
            && self.catalog.schema(schema).is_none()
        {
            if SYSTEM_SCHEMAS.contains(&fold(schema).as_str()) {
                return Err(Error::new(
                    SqlState::WrongObjectType,
                    format!("\"{table}\" is a system relation"),
                ));
            }
            return Err(self.unknown_schema(schema));
        }
        match self.relation(schema.as_deref(), &table) {
            Some(Relation::Table(entry)) => Ok(entry),
            Some(Relation::View(view)) => Err(Error::new(
                SqlState::WrongObjectType,
                format!("\"{}\" is not a table", view.name),
            )
            .with_detail("It is a view.")),
            None if schema.is_none() && self.registered.contains_key(&fold(&table)) => {
                Err(Error::new(
                    SqlState::WrongObjectType,
                    format!("\"{table}\" is not a table"),
                )
                .with_detail("It is a registered frame."))
            }
            None => Err(self.unknown_relation(schema.as_deref(), &table)),
        }
    }

    /// 42P01, with the nearest name as hint.
    pub fn unknown_relation(&self, schema: Option<&str>, name: &str) -> Error {
        let written = self.relations.get(name).map_or(name, String::as_str);
        let shown = match schema {
            Some(schema) => format!("{schema}.{written}"),
            None => written.to_owned(),
        };
        let error = Error::new(
            SqlState::UndefinedTable,
            format!("relation \"{shown}\" does not exist"),
        );
        let mut names: Vec<String> = Vec::new();
        match schema {
            Some(schema) => {
                names.extend(self.names_in(schema));
            }
            None => {
                for schema in self
                    .path
                    .iter()
                    .map(String::as_str)
                    .chain([TEMPORARY_SCHEMA])
                {
                    names.extend(self.names_in(schema));
                }
                names.extend(self.registered.keys().cloned());
            }
        }
        match nearest(name, names.iter().map(String::as_str)) {
            Some(near) => error.with_hint(format!(
                "Perhaps you meant to reference the relation \"{near}\"."
            )),
            None => error,
        }
    }

    /// 3F000, with the nearest name as hint.
    pub fn unknown_schema(&self, name: &str) -> Error {
        let error = Error::new(
            SqlState::InvalidSchemaName,
            format!("schema \"{name}\" does not exist"),
        );
        let schemas = self.catalog.schemas();
        match nearest(name, schemas.iter().map(String::as_str)) {
            Some(near) => error.with_hint(format!("Perhaps you meant the schema \"{near}\".")),
            None => error,
        }
    }

    /// The context in which operators run.
    pub fn task(&self) -> Arc<TaskContext> {
        // Operators hold their functions; the maps are for decoding plans, which nobody does here.
        Arc::new(TaskContext::new(
            None,
            self.state.session_id().to_owned(),
            self.state.config().clone(),
            HashMap::new(),
            HashMap::new(),
            HashMap::new(),
            HashMap::new(),
            Arc::clone(self.state.runtime_env()),
        ))
    }

    /// Remembers how a column is written.
    pub(super) fn remember(&self, folded: &str, written: &str) {
        if folded != written {
            self.columns
                .lock()
                .entry(folded.to_owned())
                .or_insert_with(|| written.to_owned());
        }
    }

    /// A result column's name with its case.
    pub(super) fn written(&self, folded: &str) -> String {
        let plain = folded
            .split_once(crate::parse::UNIQUE)
            .map_or(folded, |(name, _)| name);
        if let Some(alias) = self.aliases.get(plain) {
            return alias.clone();
        }
        if let Some(column) = self.columns.lock().get(plain) {
            return column.clone();
        }
        plain.to_owned()
    }

    /// What `duckdb_settings()` and its like list.
    pub(super) fn about_session(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        metadata::about_session(&self.catalog, self.settings.as_ref(), &self.state, name)
    }

    /// What a function of this name lists about the database.
    pub(super) fn listing(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        match metadata::function(&self.catalog, name)? {
            Some(provider) => Ok(Some(provider)),
            None => self.about_session(name),
        }
    }

    fn system(&self, schema: &str, name: &str) -> Result<Option<Found>> {
        if schema == "pg_catalog"
            && let Some(provider) = self.about_session(&fold(name))?
        {
            return Ok(Some(Found::System(provider)));
        }
        Ok(metadata::relation(&self.catalog, schema, &fold(name))?.map(Found::System))
    }

    fn names_in(&self, schema: &str) -> Vec<String> {
        self.catalog
            .relations(schema)
            .iter()
            .map(|relation| relation.name().to_owned())
            .collect()
    }
}

/// Schema and name of an object; the database's name may stand before them.
pub fn split_name(name: &ObjectName) -> Result<(Option<String>, String)> {
    let parts: Vec<&str> = name
        .0
        .iter()
        .map(|part| {
            ObjectNamePart::as_ident(part)
                .map(|ident| ident.value.as_str())
                .ok_or_else(|| Error::new(SqlState::SyntaxError, format!("\"{name}\" is no name")))
        })
        .collect::<Result<_>>()?;
    match parts.as_slice() {
        [table] => Ok((None, (*table).to_owned())),
        [schema, table] => Ok((Some((*schema).to_owned()), (*table).to_owned())),
        [database, schema, table] => {
            check_database(database)?;
            Ok((Some((*schema).to_owned()), (*table).to_owned()))
        }
        _ => Err(Error::new(
            SqlState::SyntaxError,
            format!("improper qualified name (too many dotted names): {name}"),
        )),
    }
}

/// 0A000 for the name of another database.
pub(super) fn check_database(name: &str) -> Result<()> {
    if fold(name) == DATABASE || fold(name) == "memory" {
        return Ok(());
    }
    Err(Error::unsupported(format!(
        "cross-database references are not implemented: \"{name}\""
    )))
}
