//! What can be listed beside the catalog's objects: settings, functions and types, as `duckdb_settings()`, `duckdb_functions()` and
//! `duckdb_types()` do, and `pg_settings`.

use std::collections::BTreeMap;

use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::Volatility;

use super::rows::{Cell, Kind, Rows};
use super::{DATABASE, SettingRow};
use crate::catalog::{CatalogState, MAIN_SCHEMA, MacroBody, TEMPORARY_SCHEMA};
use crate::parse::macro_names;
use crate::types::NamedType;

use Kind::{BigInteger, Text, Texts, Truth};

/// Types that need no parameters: name, bytes of a value, category.
const TYPES: [(&str, Option<i64>, &str); 27] = [
    ("BIGINT", Some(8), "NUMERIC"),
    ("BLOB", None, "STRING"),
    ("BOOLEAN", Some(1), "BOOLEAN"),
    ("DATE", Some(4), "DATETIME"),
    ("DECIMAL", None, "NUMERIC"),
    ("DOUBLE", Some(8), "NUMERIC"),
    ("ENUM", None, "STRING"),
    ("HUGEINT", Some(16), "NUMERIC"),
    ("INTEGER", Some(4), "NUMERIC"),
    ("INTERVAL", Some(16), "DATETIME"),
    ("JSON", None, "STRING"),
    ("LIST", None, "COMPOSITE"),
    ("MAP", None, "COMPOSITE"),
    ("REAL", Some(4), "NUMERIC"),
    ("SMALLINT", Some(2), "NUMERIC"),
    ("STRUCT", None, "COMPOSITE"),
    ("TIME", Some(8), "DATETIME"),
    ("TIMESTAMP", Some(8), "DATETIME"),
    ("TIMESTAMP WITH TIME ZONE", Some(8), "DATETIME"),
    ("TINYINT", Some(1), "NUMERIC"),
    ("UBIGINT", Some(8), "NUMERIC"),
    ("UINTEGER", Some(4), "NUMERIC"),
    ("USMALLINT", Some(2), "NUMERIC"),
    ("UTINYINT", Some(1), "NUMERIC"),
    ("UUID", Some(16), "STRING"),
    ("VARCHAR", None, "STRING"),
    ("CHAR", None, "STRING"),
];

pub(super) fn settings(settings: &[SettingRow]) -> Rows {
    let mut rows = Rows::new(&[
        ("name", Text),
        ("value", Text),
        ("description", Text),
        ("input_type", Text),
        ("scope", Text),
    ]);
    for setting in settings {
        rows.push([
            setting.name.into(),
            setting.value.as_str().into(),
            setting.description.into(),
            setting.data_type.into(),
            if setting.is_global { "GLOBAL" } else { "LOCAL" }.into(),
        ]);
    }
    rows
}

pub(super) fn pg_settings(settings: &[SettingRow]) -> Rows {
    let mut rows = Rows::new(&[
        ("name", Text),
        ("setting", Text),
        ("unit", Text),
        ("short_desc", Text),
        ("vartype", Text),
    ]);
    for setting in settings {
        let kind = match setting.data_type {
            "BOOLEAN" => "bool",
            "BIGINT" => "integer",
            _ => "string",
        };
        rows.push([
            setting.name.into(),
            setting.value.as_str().into(),
            Cell::Null,
            setting.description.into(),
            kind.into(),
        ]);
    }
    rows
}

pub(super) fn functions(catalog: &CatalogState, state: &SessionState) -> Rows {
    let mut rows = Rows::new(&[
        ("database_name", Text),
        ("schema_name", Text),
        ("function_name", Text),
        ("function_type", Text),
        ("description", Text),
        ("return_type", Text),
        ("parameters", Texts),
        ("parameter_types", Texts),
        ("varargs", Text),
        ("macro_definition", Text),
        ("has_side_effects", Truth),
        ("internal", Truth),
        ("stability", Text),
    ]);
    for ((name, kind), volatility) in built_in(state) {
        let stability = volatility.map(|volatility| match volatility {
            Volatility::Immutable => "CONSISTENT",
            Volatility::Stable => "CONSISTENT_WITHIN_QUERY",
            Volatility::Volatile => "VOLATILE",
        });
        rows.push([
            DATABASE.into(),
            MAIN_SCHEMA.into(),
            name.into(),
            kind.into(),
            Cell::Null,
            Cell::Null,
            Cell::Null,
            Cell::Null,
            Cell::Null,
            Cell::Null,
            volatility
                .map(|volatility| volatility == Volatility::Volatile)
                .into(),
            true.into(),
            stability.into(),
        ]);
    }
    let schemas = catalog
        .schemas()
        .into_iter()
        .chain([TEMPORARY_SCHEMA.to_owned()]);
    for schema in schemas.filter_map(|schema| catalog.schema(&schema)) {
        for entry in schema.macros() {
            let (kind, definition) = match &entry.body {
                MacroBody::Expression(body) => ("macro", body.to_string()),
                MacroBody::Query(body) => ("table_macro", body.to_string()),
            };
            let names = entry
                .parameters
                .iter()
                .map(|parameter| parameter.name.value.clone());
            rows.push([
                DATABASE.into(),
                schema.name.as_str().into(),
                entry.name.as_str().into(),
                kind.into(),
                Cell::Null,
                Cell::Null,
                Cell::Texts(names.collect()),
                Cell::Null,
                Cell::Null,
                definition.into(),
                Cell::Null,
                false.into(),
                Cell::Null,
            ]);
        }
    }
    rows
}

/// The functions that come with the system, by name and kind. Names that begin with two underscores are its own.
fn built_in(state: &SessionState) -> BTreeMap<(String, &'static str), Option<Volatility>> {
    let scalars = state.scalar_functions().iter();
    let scalars = scalars.map(|(name, one)| (name, "scalar", Some(one.signature().volatility)));
    let aggregates = state.aggregate_functions().iter();
    let aggregates =
        aggregates.map(|(name, one)| (name, "aggregate", Some(one.signature().volatility)));
    let windows = state.window_functions().iter();
    let windows = windows.map(|(name, one)| (name, "window", Some(one.signature().volatility)));
    let tables = state.table_functions().keys();
    let tables = tables.map(|name| (name, "table", None));
    scalars
        .chain(aggregates)
        .chain(windows)
        .chain(tables)
        .map(|(name, kind, volatility)| ((name.clone(), kind), volatility))
        .chain(macro_names().map(|name| ((name.to_owned(), "scalar"), Some(Volatility::Immutable))))
        .filter(|((name, _), _)| !name.starts_with("__"))
        .collect()
}

pub(super) fn types(catalog: &CatalogState) -> Rows {
    let mut rows = Rows::new(&[
        ("database_name", Text),
        ("schema_name", Text),
        ("type_name", Text),
        ("type_size", BigInteger),
        ("logical_type", Text),
        ("type_category", Text),
        ("internal", Truth),
        ("labels", Texts),
    ]);
    for (name, size, category) in TYPES {
        rows.push([
            DATABASE.into(),
            MAIN_SCHEMA.into(),
            name.to_lowercase().into(),
            size.into(),
            name.into(),
            category.into(),
            true.into(),
            Cell::Null,
        ]);
    }
    for schema in catalog.schemas() {
        for entry in catalog.types(&schema) {
            let (logical, category, labels) = match &entry.definition {
                NamedType::Enum(labels) => (
                    "ENUM".to_owned(),
                    Some("STRING"),
                    Cell::Texts(labels.clone()),
                ),
                NamedType::Alias(of) => (of.to_string(), None, Cell::Null),
            };
            rows.push([
                DATABASE.into(),
                schema.as_str().into(),
                entry.name.as_str().into(),
                Cell::Null,
                logical.into(),
                category.into(),
                false.into(),
                labels,
            ]);
        }
    }
    rows
}
