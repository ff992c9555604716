//! Table functions about the database: `firndb_tables()`, `firndb_columns()`, `firndb_constraints()`, `firndb_schemas()`, `firndb_views()`.

use firndb_storage::{BlockState, MemoryUse};

use super::rows::{Cell, Kind, Rows};
use super::standard::{all_relations, constraint_kind, key_columns};
use super::{DATABASE, SYSTEM_SCHEMAS};
use crate::catalog::{CatalogState, Constraint, Relation, TableEntry};
use crate::types::sql_name;

use Kind::{BigInteger, Integer, Text, Truth};

pub(super) fn relation(catalog: &CatalogState, name: &str) -> Option<Rows> {
    Some(match name {
        "firndb_tables" => tables(catalog),
        "firndb_columns" => columns(catalog),
        "firndb_constraints" => constraints(catalog),
        "firndb_schemas" => schemas(catalog),
        "firndb_views" => views(catalog),
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
        ("blocks_frozen", BigInteger),
        ("columns_thawed", BigInteger),
        ("blocks_copied", BigInteger),
        ("blocks_shared", BigInteger),
        ("rows_moved", BigInteger),
    ]);
    for table in catalog.tables() {
        let count = |wanted: fn(&Constraint) -> bool| {
            table.constraints.iter().filter(|c| wanted(c)).count()
        };
        let primary = count(|c| matches!(c, Constraint::PrimaryKey { .. }));
        let counts = table.table.freeze_counts();
        let number = |count: u64| Cell::from(i64::try_from(count).ok());
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
            number(counts.frozen),
            number(counts.thawed),
            number(counts.copied),
            number(counts.shared),
            number(counts.moved),
        ]);
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
    ]);
    for table in catalog.tables() {
        for (position, column) in table.columns.iter().enumerate() {
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
    ]);
    for table in catalog.tables() {
        for constraint in &table.constraints {
            let (name, kind) = constraint_kind(constraint);
            rows.push([
                DATABASE.into(),
                table.schema.as_str().into(),
                table.name.as_str().into(),
                name.into(),
                kind.into(),
                constraint_text(&table, constraint).into(),
            ]);
        }
    }
    rows
}

/// A constraint as CREATE TABLE has it.
pub(super) fn constraint_text(table: &TableEntry, constraint: &Constraint) -> String {
    let (_, kind) = constraint_kind(constraint);
    if let Constraint::Check { condition, .. } = constraint {
        return format!("CHECK ({condition})");
    }
    let columns: Vec<&str> = key_columns(constraint)
        .iter()
        .filter_map(|c| table.columns.get(*c))
        .map(|c| c.field.name().as_str())
        .collect();
    format!("{kind} ({})", columns.join(", "))
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

fn views(catalog: &CatalogState) -> Rows {
    let mut rows = Rows::new(&[
        ("database_name", Text),
        ("schema_name", Text),
        ("view_name", Text),
        ("comment", Text),
        ("temporary", Truth),
        ("sql", Text),
    ]);
    for relation in all_relations(catalog) {
        if let Relation::View(view) = relation {
            rows.push([
                DATABASE.into(),
                view.schema.as_str().into(),
                view.name.as_str().into(),
                view.comment.clone().map_or(Cell::Null, Cell::Text),
                view.temporary.into(),
                view.query.to_string().into(),
            ]);
        }
    }
    rows
}
