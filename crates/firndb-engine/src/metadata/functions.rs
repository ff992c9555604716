//! Table functions about the database: `firndb_tables()`, `firndb_columns()`, `firndb_constraints()`, `firndb_indexes()`, `firndb_schemas()`, `firndb_views()`,
//! also under DuckDB's names (`duckdb_tables()` …), `pragma_table_info('t')`, and SQLite's `sqlite_master`.

use std::time::Duration;

use firndb_storage::{BlockState, MemoryUse};

use super::definitions::{self, constraint_text};
use super::listed;
use super::rows::{Cell, Kind, Rows};
use super::standard::{all_relations, constraint_kind, key_columns};
use super::{DATABASE, SYSTEM_SCHEMAS};
use crate::catalog::{
    CatalogState, Constraint, Relation, TEMPORARY_SCHEMA, TableEntry, strings_name,
};
use crate::types::sql_name;

use Kind::{BigInteger, Integer, Text, Texts, Truth};

pub(super) fn relation(catalog: &CatalogState, name: &str) -> Option<Rows> {
    Some(match name {
        "firndb_tables" | "duckdb_tables" => tables(catalog),
        "firndb_columns" | "duckdb_columns" => columns(catalog),
        "firndb_constraints" | "duckdb_constraints" => constraints(catalog),
        "firndb_indexes" | "duckdb_indexes" => indexes(catalog),
        "firndb_schemas" | "duckdb_schemas" => schemas(catalog),
        "firndb_views" | "duckdb_views" => views(catalog),
        "firndb_sequences" | "duckdb_sequences" => sequences(catalog),
        "firndb_databases" | "duckdb_databases" => databases(),
        "firndb_types" | "duckdb_types" => listed::types(catalog),
        "pragma_database_list" => database_list(),
        "pragma_version" => version(),
        "pragma_show_tables" => names(catalog),
        "sqlite_master" | "sqlite_schema" => master(catalog),
        _ => return None,
    })
}

fn tables(catalog: &CatalogState) -> Rows {
    let mut rows = Rows::new(&[
        ("database_name", Text),
        ("schema_name", Text),
        ("table_name", Text),
        ("table_id", BigInteger),
        ("comment", Text),
        ("temporary", Truth),
        ("has_primary_key", Truth),
        ("column_count", BigInteger),
        ("unique_count", BigInteger),
        ("check_constraint_count", BigInteger),
        ("index_count", BigInteger),
        ("blocks_frozen", BigInteger),
        ("columns_thawed", BigInteger),
        ("blocks_copied", BigInteger),
        ("blocks_shared", BigInteger),
        ("rows_moved", BigInteger),
        ("blocks_emptied", BigInteger),
        ("compacting_us", BigInteger),
        ("waiting_us", BigInteger),
        ("gathering_us", BigInteger),
        ("sketching_us", BigInteger),
        ("strings", Text),
        ("freeze", Truth),
        ("freeze_after_us", BigInteger),
        ("internal", Truth),
        ("sql", Text),
    ]);
    for table in catalog.tables() {
        let count = |wanted: fn(&Constraint) -> bool| {
            table.constraints.iter().filter(|c| wanted(c)).count()
        };
        let primary = count(|c| matches!(c, Constraint::PrimaryKey { .. }));
        let counts = table.table.freeze_counts();
        let number = |count: u64| Cell::from(i64::try_from(count).ok());
        let microseconds = |time: Duration| Cell::from(i64::try_from(time.as_micros()).ok());
        rows.push([
            DATABASE.into(),
            table.schema.as_str().into(),
            table.name.as_str().into(),
            i64::try_from(table.table.id()).ok().into(),
            table.comment.clone().into(),
            table.temporary.into(),
            (primary > 0).into(),
            table.columns.len().into(),
            (primary + count(|c| matches!(c, Constraint::Unique { .. }))).into(),
            count(|c| matches!(c, Constraint::Check { .. })).into(),
            table.indexes.len().into(),
            number(counts.frozen),
            number(counts.thawed),
            number(counts.copied),
            number(counts.shared),
            number(counts.moved),
            number(counts.emptied),
            microseconds(counts.compacting),
            microseconds(counts.waiting),
            microseconds(counts.gathering),
            microseconds(counts.sketching),
            strings_name(table.settings.strings).into(),
            (!table.settings.frozen_on_demand).into(),
            freeze_after(&table).into(),
            false.into(),
            definitions::of_table(&table).into(),
        ]);
    }
    rows
}

/// After how many microseconds without a write blocks freeze now; `None` for never.
fn freeze_after(table: &TableEntry) -> Option<i64> {
    let after = table.table.freeze_after()?;
    i64::try_from(after.as_micros()).ok()
}

/// Names of tables, as SHOW TABLES lists them.
pub(super) fn table_names(names: Vec<String>) -> Rows {
    let mut rows = Rows::new(&[("name", Text)]);
    for name in names {
        rows.push([name.into()]);
    }
    rows
}

/// The blocks of a table, as `firndb_blocks('t')` shows them.
pub(super) fn blocks(table: &TableEntry) -> Rows {
    let mut rows = Rows::new(&[
        ("block", BigInteger),
        ("state", Text),
        ("rows", BigInteger),
        ("gaps", BigInteger),
        ("bytes", BigInteger),
        ("holders", BigInteger),
        ("versions", BigInteger),
    ]);
    for block in table.table.blocks() {
        let state = match block.state {
            BlockState::Hot => "hot",
            BlockState::Cooling => "cooling",
            BlockState::Freezing => "freezing",
            BlockState::Frozen => "frozen",
        };
        rows.push([
            i64::from(block.number).into(),
            state.into(),
            block.rows.into(),
            block.gaps.into(),
            block.bytes.into(),
            block.holders.into(),
            i64::try_from(block.versions).ok().into(),
        ]);
    }
    rows
}

/// Memory in use, as `firndb_memory()` shows it.
pub(super) fn memory(usage: MemoryUse) -> Rows {
    let mut rows = Rows::new(&[("tag", Text), ("memory_usage_bytes", BigInteger)]);
    let MemoryUse {
        frozen,
        hot,
        undo,
        index,
        idle,
    } = usage;
    for (tag, bytes) in [
        ("frozen", frozen),
        ("hot", hot),
        ("undo", undo),
        ("index", index),
        ("idle", idle),
    ] {
        rows.push([tag.into(), bytes.into()]);
    }
    rows
}

fn columns(catalog: &CatalogState) -> Rows {
    let mut rows = Rows::new(&[
        ("database_name", Text),
        ("schema_name", Text),
        ("table_name", Text),
        ("column_name", Text),
        ("column_index", Integer),
        ("comment", Text),
        ("column_default", Text),
        ("is_nullable", Truth),
        ("data_type", Text),
        ("strings", Text),
        ("dictionary_blocks", BigInteger),
        ("internal", Truth),
    ]);
    for table in catalog.tables() {
        for (position, column) in table.columns.iter().enumerate() {
            let strings = table.strings(position);
            rows.push([
                DATABASE.into(),
                table.schema.as_str().into(),
                table.name.as_str().into(),
                column.field.name().as_str().into(),
                (position + 1).into(),
                column.comment.clone().into(),
                column.default.as_ref().map(ToString::to_string).into(),
                column.field.is_nullable().into(),
                sql_name(&column.field).into(),
                strings
                    .map(|strings| strings_name(strings).to_owned())
                    .into(),
                strings
                    .and_then(|_| i64::try_from(table.table.dictionary_blocks(position)).ok())
                    .into(),
                false.into(),
            ]);
        }
    }
    rows
}

/// The columns of a table as SQLite's and DuckDB's `table_info` has them.
pub(super) fn table_info(table: &TableEntry) -> Rows {
    let mut rows = Rows::new(&[
        ("cid", Integer),
        ("name", Text),
        ("type", Text),
        ("notnull", Truth),
        ("dflt_value", Text),
        ("pk", Truth),
    ]);
    let primary = table
        .constraints
        .iter()
        .find(|constraint| matches!(constraint, Constraint::PrimaryKey { .. }))
        .map_or(&[][..], key_columns);
    for (position, column) in table.columns.iter().enumerate() {
        rows.push([
            position.into(),
            column.field.name().as_str().into(),
            sql_name(&column.field).into(),
            (!column.field.is_nullable()).into(),
            column.default.as_ref().map(ToString::to_string).into(),
            primary.contains(&position).into(),
        ]);
    }
    rows
}

/// The columns that refer to other tables.
pub(super) fn foreign_key_list(table: &TableEntry) -> Rows {
    let mut rows = Rows::new(&[
        ("id", BigInteger),
        ("seq", BigInteger),
        ("table", Text),
        ("from", Text),
        ("to", Text),
        ("on_update", Text),
        ("on_delete", Text),
        ("match", Text),
    ]);
    let keys = table
        .constraints
        .iter()
        .filter_map(|constraint| match constraint {
            Constraint::ForeignKey(key) => Some((key, key_columns(constraint))),
            _ => None,
        });
    for (number, (key, columns)) in keys.enumerate() {
        for (place, (column, referred)) in columns.iter().zip(&key.referred).enumerate() {
            let column = table.columns.get(*column);
            rows.push([
                number.into(),
                place.into(),
                key.table.as_str().into(),
                column.map(|column| column.field.name().clone()).into(),
                referred.as_str().into(),
                key.on_update.sql().into(),
                key.on_delete.sql().into(),
                "NONE".into(),
            ]);
        }
    }
    rows
}

/// The names of tables and views.
fn names(catalog: &CatalogState) -> Rows {
    let mut rows = Rows::new(&[("name", Text)]);
    for relation in all_relations(catalog) {
        rows.push([relation.name().into()]);
    }
    rows
}

/// SQLite's table of what there is.
fn master(catalog: &CatalogState) -> Rows {
    let mut rows = Rows::new(&[
        ("type", Text),
        ("name", Text),
        ("tbl_name", Text),
        ("rootpage", Integer),
        ("sql", Text),
    ]);
    for relation in all_relations(catalog) {
        let name = relation.name();
        let kind = match &relation {
            Relation::Table(_) => "table",
            Relation::View(_) => "view",
        };
        rows.push([
            kind.into(),
            name.into(),
            name.into(),
            0_i64.into(),
            definitions::of_relation(&relation).into(),
        ]);
        let Relation::Table(table) = &relation else {
            continue;
        };
        for index in &table.indexes {
            rows.push([
                "index".into(),
                index.name.as_str().into(),
                name.into(),
                0_i64.into(),
                format!("{};", index.definition(table)).into(),
            ]);
        }
    }
    rows
}

fn constraints(catalog: &CatalogState) -> Rows {
    let mut rows = Rows::new(&[
        ("database_name", Text),
        ("schema_name", Text),
        ("table_name", Text),
        ("constraint_name", Text),
        ("constraint_type", Text),
        ("constraint_text", Text),
        ("expression", Text),
        ("constraint_column_names", Texts),
    ]);
    for table in catalog.tables() {
        for constraint in &table.constraints {
            let (name, kind) = constraint_kind(constraint);
            let expression = match constraint {
                Constraint::Check { condition, .. } => Some(condition.to_string()),
                _ => None,
            };
            let columns = key_columns(constraint).iter();
            let names = columns
                .filter_map(|column| table.columns.get(*column))
                .map(|column| column.field.name().clone())
                .collect();
            rows.push([
                DATABASE.into(),
                table.schema.as_str().into(),
                table.name.as_str().into(),
                name.into(),
                kind.into(),
                constraint_text(&table, constraint).into(),
                expression.into(),
                match constraint {
                    Constraint::Check { .. } => Cell::Null,
                    _ => Cell::Texts(names),
                },
            ]);
        }
    }
    rows
}

/// What CREATE INDEX made; the indexes of constraints are not shown.
fn indexes(catalog: &CatalogState) -> Rows {
    let mut rows = Rows::new(&[
        ("database_name", Text),
        ("schema_name", Text),
        ("index_name", Text),
        ("table_name", Text),
        ("is_unique", Truth),
        ("is_primary", Truth),
        ("expressions", Text),
        ("sql", Text),
    ]);
    for table in catalog.tables() {
        for index in &table.indexes {
            rows.push([
                DATABASE.into(),
                table.schema.as_str().into(),
                index.name.as_str().into(),
                table.name.as_str().into(),
                index.unique.into(),
                false.into(),
                format!("[{}]", index.part_names(&table).join(", ")).into(),
                format!("{};", index.definition(&table)).into(),
            ]);
        }
    }
    rows
}

fn schemas(catalog: &CatalogState) -> Rows {
    let mut rows = Rows::new(&[
        ("database_name", Text),
        ("schema_name", Text),
        ("internal", Truth),
    ]);
    for schema in catalog.schemas() {
        rows.push([DATABASE.into(), schema.into(), false.into()]);
    }
    for schema in SYSTEM_SCHEMAS {
        rows.push([DATABASE.into(), schema.into(), true.into()]);
    }
    rows
}

fn sequences(catalog: &CatalogState) -> Rows {
    let mut rows = Rows::new(&[
        ("database_name", Text),
        ("schema_name", Text),
        ("sequence_name", Text),
        ("temporary", Truth),
        ("start_value", BigInteger),
        ("min_value", BigInteger),
        ("max_value", BigInteger),
        ("increment_by", BigInteger),
        ("cycle", Truth),
    ]);
    for schema in catalog.schemas() {
        for sequence in catalog.sequences(&schema) {
            let options = sequence.options;
            rows.push([
                DATABASE.into(),
                sequence.schema.as_str().into(),
                sequence.name.as_str().into(),
                (sequence.schema == TEMPORARY_SCHEMA).into(),
                options.start.into(),
                options.least.into(),
                options.greatest.into(),
                options.increment.into(),
                options.cycle.into(),
            ]);
        }
    }
    rows
}

fn databases() -> Rows {
    let mut rows = Rows::new(&[("database_name", Text), ("internal", Truth), ("type", Text)]);
    rows.push([DATABASE.into(), false.into(), "firndb".into()]);
    rows
}

/// SQLite's list of databases.
fn database_list() -> Rows {
    let mut rows = Rows::new(&[("seq", BigInteger), ("name", Text), ("file", Text)]);
    rows.push([0_i64.into(), DATABASE.into(), Cell::Null]);
    rows
}

fn version() -> Rows {
    let mut rows = Rows::new(&[("library_version", Text)]);
    rows.push([env!("CARGO_PKG_VERSION").into()]);
    rows
}

fn views(catalog: &CatalogState) -> Rows {
    let mut rows = Rows::new(&[
        ("database_name", Text),
        ("schema_name", Text),
        ("view_name", Text),
        ("comment", Text),
        ("temporary", Truth),
        ("sql", Text),
        ("internal", Truth),
        ("column_count", BigInteger),
    ]);
    for relation in all_relations(catalog) {
        if let Relation::View(view) = relation {
            rows.push([
                DATABASE.into(),
                view.schema.as_str().into(),
                view.name.as_str().into(),
                view.comment.clone().map_or(Cell::Null, Cell::Text),
                view.temporary.into(),
                definitions::of_view(&view).into(),
                false.into(),
                view.columns.len().into(),
            ]);
        }
    }
    rows
}
