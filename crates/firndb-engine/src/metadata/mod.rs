//! The database about itself: `information_schema`, as much of `pg_catalog` as tools ask for, and functions such as `firndb_tables()`.
//!
//! Relations are computed from one catalog state when a statement names them, so they show what the statement's transaction sees.
//!
//! | module | holds |
//! | --- | --- |
//! | [`rows`] | rows of text, numbers and truth values as a relation |
//! | [`standard`] | `information_schema` (ISO 9075-11) |
//! | [`postgres`] | `pg_catalog` |
//! | [`definitions`] | the statements that make tables and views |
//! | [`listed`] | settings, functions and types |
//! | [`functions`] | `firndb_tables()` and its siblings |

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::execution::session_state::SessionState;
use firndb_storage::MemoryUse;

use crate::Result;
use crate::catalog::{CatalogState, Relation, TableEntry};

mod definitions;
mod functions;
mod listed;
mod postgres;
mod rows;
mod standard;

/// The name of the database in system relations.
pub const DATABASE: &str = "firndb";
/// The schemas whose relations are system relations.
pub const SYSTEM_SCHEMAS: [&str; 2] = ["information_schema", "pg_catalog"];

/// A session's settings.
pub trait SettingsSource: Send + Sync {
    /// Each setting with its value.
    fn rows(&self) -> Vec<SettingRow>;
}

/// A setting as it is listed.
#[derive(Debug, Clone)]
pub struct SettingRow {
    /// Its name.
    pub name: &'static str,
    /// Its value as text.
    pub value: String,
    /// What it is for.
    pub description: &'static str,
    /// The SQL type of its value.
    pub data_type: &'static str,
    /// Whether it is the whole database's, and not the session's.
    pub is_global: bool,
}

/// `duckdb_settings()`, `pg_settings` and `duckdb_functions()`: what is known beside the catalog.
pub fn about_session(
    catalog: &CatalogState,
    settings: &dyn SettingsSource,
    state: &SessionState,
    name: &str,
) -> Result<Option<Arc<dyn TableProvider>>> {
    let rows = match name {
        "firndb_settings" | "duckdb_settings" => listed::settings(&settings.rows()),
        "pg_settings" => listed::pg_settings(&settings.rows()),
        "firndb_functions" | "duckdb_functions" => listed::functions(catalog, state),
        _ => return Ok(None),
    };
    rows.into_provider().map(Some)
}

/// The relation of a system schema (`information_schema`, `pg_catalog`) by lower-case name, if there is one.
pub fn relation(
    catalog: &CatalogState,
    schema: &str,
    name: &str,
) -> Result<Option<Arc<dyn TableProvider>>> {
    let rows = match schema {
        "information_schema" => standard::relation(catalog, name),
        "pg_catalog" => postgres::relation(catalog, name),
        _ => None,
    };
    rows.map(rows::Rows::into_provider).transpose()
}

/// The names of a system schema's relations, sorted: for suggestions and completion.
pub fn relation_names(schema: &str) -> &'static [&'static str] {
    match schema {
        "information_schema" => &standard::NAMES,
        "pg_catalog" => &postgres::NAMES,
        _ => &[],
    }
}

/// The table function about the database of a lower-case name, if there is one: `firndb_tables`, `firndb_columns`,
/// `firndb_constraints`, `firndb_schemas`, `firndb_views`.
pub fn function(catalog: &CatalogState, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
    functions::relation(catalog, name)
        .map(rows::Rows::into_provider)
        .transpose()
}

/// The statement that makes a relation.
pub fn definition(relation: &Relation) -> String {
    definitions::of_relation(relation)
}

/// `pragma_table_info('t')`: the columns of a table.
pub fn table_info(table: &TableEntry) -> Result<Arc<dyn TableProvider>> {
    functions::table_info(table).into_provider()
}

/// `pragma_index_list('t')`: the indexes of a table, as SQLite lists them.
pub fn index_list(table: &TableEntry) -> Result<Arc<dyn TableProvider>> {
    postgres::index_list(table).into_provider()
}

/// `pragma_foreign_key_list('t')`: what a table refers to, as SQLite lists it.
pub fn foreign_key_list(table: &TableEntry) -> Result<Arc<dyn TableProvider>> {
    functions::foreign_key_list(table).into_provider()
}

/// Names of tables, as SHOW TABLES lists them.
pub fn table_names(names: Vec<String>) -> Result<Arc<dyn TableProvider>> {
    functions::table_names(names).into_provider()
}

/// `firndb_blocks('t')`: the blocks of a table.
pub fn blocks(table: &TableEntry) -> Result<Arc<dyn TableProvider>> {
    functions::blocks(table).into_provider()
}

/// `firndb_memory()`: the bytes of a database's memory, by what they are used for.
pub fn memory(usage: MemoryUse) -> Result<Arc<dyn TableProvider>> {
    functions::memory(usage).into_provider()
}
