//! `information_schema` (ISO 9075-11), with the columns that tools read.

use arrow::datatypes::{DataType, Field};

use super::rows::{Cell, Kind, Rows, decimal};
use super::{DATABASE, SYSTEM_SCHEMAS};
use crate::catalog::{CatalogState, Column, Constraint, Identity, Relation, TableEntry};
use crate::types::{Refinement, sql_name};

use Kind::{Integer, Text};

/// The relations there are, sorted.
pub(super) const NAMES: [&str; 10] = [
    "check_constraints",
    "columns",
    "constraint_column_usage",
    "key_column_usage",
    "referential_constraints",
    "schemata",
    "sequences",
    "table_constraints",
    "tables",
    "views",
];

pub(super) fn relation(catalog: &CatalogState, name: &str) -> Option<Rows> {
    Some(match name {
        "schemata" => schemata(catalog),
        "tables" => tables(catalog),
        "columns" => columns(catalog),
        "views" => views(catalog),
        "table_constraints" => table_constraints(catalog),
        "key_column_usage" => key_column_usage(catalog),
        "constraint_column_usage" => constraint_column_usage(catalog),
        "check_constraints" => check_constraints(catalog),
        "referential_constraints" => referential_constraints(catalog),
        "sequences" => sequences(catalog),
        _ => return None,
    })
}

/// Every relation of every schema, in the order of their names.
pub(super) fn all_relations(catalog: &CatalogState) -> Vec<Relation> {
    let schemas = catalog.schemas();
    schemas
        .iter()
        .flat_map(|schema| catalog.relations(schema))
        .collect()
}

/// A constraint's name and the word for its kind.
pub(super) fn constraint_kind(constraint: &Constraint) -> (&str, &'static str) {
    match constraint {
        Constraint::PrimaryKey { name, .. } => (name, "PRIMARY KEY"),
        Constraint::Unique { name, .. } => (name, "UNIQUE"),
        Constraint::Check { name, .. } => (name, "CHECK"),
        Constraint::ForeignKey(key) => (&key.name, "FOREIGN KEY"),
    }
}

/// The columns of a key.
pub(super) fn key_columns(constraint: &Constraint) -> &[usize] {
    match constraint {
        Constraint::PrimaryKey { columns, .. } | Constraint::Unique { columns, .. } => columns,
        Constraint::ForeignKey(key) => &key.columns,
        Constraint::Check { .. } => &[],
    }
}

fn yes_or_no(truth: bool) -> Cell {
    if truth { "YES" } else { "NO" }.into()
}

fn schemata(catalog: &CatalogState) -> Rows {
    let mut rows = Rows::new(&[
        ("catalog_name", Text),
        ("schema_name", Text),
        ("schema_owner", Text),
        ("default_character_set_name", Text),
    ]);
    let system = SYSTEM_SCHEMAS.iter().map(|s| (*s).to_owned());
    for schema in catalog.schemas().into_iter().chain(system) {
        rows.push([DATABASE.into(), schema.into(), DATABASE.into(), Cell::Null]);
    }
    rows
}

fn tables(catalog: &CatalogState) -> Rows {
    let mut rows = Rows::new(&[
        ("table_catalog", Text),
        ("table_schema", Text),
        ("table_name", Text),
        ("table_type", Text),
        ("is_insertable_into", Text),
        ("table_comment", Text),
    ]);
    for relation in all_relations(catalog) {
        let (schema, name, kind, insertable, comment) = match &relation {
            Relation::Table(t) if t.temporary => {
                (&t.schema, &t.name, "LOCAL TEMPORARY", true, &t.comment)
            }
            Relation::Table(t) => (&t.schema, &t.name, "BASE TABLE", true, &t.comment),
            Relation::View(v) => (&v.schema, &v.name, "VIEW", false, &v.comment),
        };
        rows.push([
            DATABASE.into(),
            schema.as_str().into(),
            name.as_str().into(),
            kind.into(),
            yes_or_no(insertable),
            comment.clone().into(),
        ]);
    }
    for schema in SYSTEM_SCHEMAS {
        for name in super::relation_names(schema) {
            rows.push([
                DATABASE.into(),
                schema.into(),
                (*name).into(),
                "VIEW".into(),
                yes_or_no(false),
                Cell::Null,
            ]);
        }
    }
    rows
}

fn columns(catalog: &CatalogState) -> Rows {
    let mut rows = Rows::new(&[
        ("table_catalog", Text),
        ("table_schema", Text),
        ("table_name", Text),
        ("column_name", Text),
        ("ordinal_position", Integer),
        ("column_default", Text),
        ("is_nullable", Text),
        ("data_type", Text),
        ("character_maximum_length", Integer),
        ("numeric_precision", Integer),
        ("numeric_precision_radix", Integer),
        ("numeric_scale", Integer),
        ("datetime_precision", Integer),
        ("column_comment", Text),
        ("is_identity", Text),
        ("identity_generation", Text),
        ("is_generated", Text),
        ("generation_expression", Text),
    ]);
    let mut push = |relation: (&str, &str),
                    position: usize,
                    name: &str,
                    field: &Field,
                    nullable: bool,
                    default: Cell,
                    comment: Cell,
                    column: Option<&Column>| {
        let identity = column.and_then(|column| column.identity);
        let generated = column.and_then(|column| column.generated.as_ref());
        let sql_type = sql_name(field);
        let (precision, radix, scale) = numeric_shape(field.data_type());
        rows.push([
            DATABASE.into(),
            relation.0.into(),
            relation.1.into(),
            name.into(),
            (position + 1).into(),
            default,
            yes_or_no(nullable),
            sql_type.as_str().into(),
            declared_length(&sql_type).into(),
            precision.into(),
            radix.into(),
            scale.into(),
            datetime_precision(field).into(),
            comment,
            yes_or_no(identity.is_some()),
            identity
                .map(|identity| match identity {
                    Identity::Always => "ALWAYS",
                    Identity::ByDefault | Identity::AutoIncrement => "BY DEFAULT",
                })
                .into(),
            if generated.is_some() {
                "ALWAYS"
            } else {
                "NEVER"
            }
            .into(),
            generated.map(ToString::to_string).into(),
        ]);
    };
    for relation in all_relations(catalog) {
        match &relation {
            Relation::Table(table) => {
                for (position, column) in table.columns.iter().enumerate() {
                    push(
                        (&table.schema, &table.name),
                        position,
                        column.field.name(),
                        &column.field,
                        column.field.is_nullable(),
                        column.default.as_ref().map(ToString::to_string).into(),
                        column.comment.clone().into(),
                        Some(column),
                    );
                }
            }
            Relation::View(view) => {
                for (position, (name, field)) in view.columns.iter().zip(&view.fields).enumerate() {
                    push(
                        (&view.schema, &view.name),
                        position,
                        name,
                        field,
                        true,
                        Cell::Null,
                        Cell::Null,
                        None,
                    );
                }
            }
        }
    }
    rows
}

/// Precision, its radix, and scale of numbers.
fn numeric_shape(data_type: &DataType) -> (Option<i64>, Option<i64>, Option<i64>) {
    if let Some((precision, scale)) = decimal(data_type) {
        return (Some(precision.into()), Some(10), Some(scale.into()));
    }
    let bits = match data_type {
        DataType::Int8 | DataType::UInt8 => 8,
        DataType::Int16 | DataType::UInt16 => 16,
        DataType::Int32 | DataType::UInt32 => 32,
        DataType::Int64 | DataType::UInt64 => 64,
        DataType::Float32 => return (Some(24), Some(2), None),
        DataType::Float64 => return (Some(53), Some(2), None),
        _ => return (None, None, None),
    };
    (Some(bits), Some(2), Some(0))
}

/// n of VARCHAR(n) and CHAR(n).
fn declared_length(sql_type: &str) -> Option<i64> {
    let inner = sql_type
        .strip_prefix("VARCHAR(")
        .or_else(|| sql_type.strip_prefix("CHAR("))?;
    inner.strip_suffix(')')?.parse().ok()
}

fn datetime_precision(field: &Field) -> Option<i64> {
    if let Refinement::Digits(digits) = Refinement::of(field) {
        return Some(digits.into());
    }
    match field.data_type() {
        DataType::Date32 => Some(0),
        DataType::Timestamp(..) | DataType::Time64(_) | DataType::Interval(_) => Some(6),
        _ => None,
    }
}

fn views(catalog: &CatalogState) -> Rows {
    let mut rows = Rows::new(&[
        ("table_catalog", Text),
        ("table_schema", Text),
        ("table_name", Text),
        ("view_definition", Text),
        ("check_option", Text),
        ("is_updatable", Text),
        ("is_insertable_into", Text),
    ]);
    for relation in all_relations(catalog) {
        if let Relation::View(view) = relation {
            rows.push([
                DATABASE.into(),
                view.schema.as_str().into(),
                view.name.as_str().into(),
                view.query.to_string().into(),
                "NONE".into(),
                yes_or_no(false),
                yes_or_no(false),
            ]);
        }
    }
    rows
}

fn table_constraints(catalog: &CatalogState) -> Rows {
    let mut rows = Rows::new(&[
        ("constraint_catalog", Text),
        ("constraint_schema", Text),
        ("constraint_name", Text),
        ("table_catalog", Text),
        ("table_schema", Text),
        ("table_name", Text),
        ("constraint_type", Text),
        ("is_deferrable", Text),
        ("initially_deferred", Text),
        ("enforced", Text),
    ]);
    let mut push = |table: &TableEntry, name: Cell, kind: &str, when: (bool, bool)| {
        rows.push([
            DATABASE.into(),
            table.schema.as_str().into(),
            name,
            DATABASE.into(),
            table.schema.as_str().into(),
            table.name.as_str().into(),
            kind.into(),
            yes_or_no(when.0),
            yes_or_no(when.1),
            yes_or_no(true),
        ]);
    };
    for table in catalog.tables() {
        for constraint in &table.constraints {
            let (name, kind) = constraint_kind(constraint);
            let when = match constraint {
                Constraint::ForeignKey(key) => (key.deferrable, key.deferred),
                _ => (false, false),
            };
            push(&table, name.into(), kind, when);
        }
        for name in not_null_constraints(&table)
            .into_iter()
            .map(|(name, _)| name)
        {
            push(&table, name.into(), "CHECK", (false, false));
        }
    }
    rows
}

/// NOT NULL as the checks that the standard makes of them: name and column.
fn not_null_constraints(table: &TableEntry) -> Vec<(String, String)> {
    table
        .columns
        .iter()
        .map(|column| column.field.name())
        .zip(table.columns.iter().map(|c| c.field.is_nullable()))
        .filter(|(_, nullable)| !nullable)
        .map(|(column, _)| {
            (
                format!("{}_{column}_not_null", table.name),
                column.to_owned(),
            )
        })
        .collect()
}

fn key_column_usage(catalog: &CatalogState) -> Rows {
    let mut rows = Rows::new(&[
        ("constraint_catalog", Text),
        ("constraint_schema", Text),
        ("constraint_name", Text),
        ("table_catalog", Text),
        ("table_schema", Text),
        ("table_name", Text),
        ("column_name", Text),
        ("ordinal_position", Integer),
        ("position_in_unique_constraint", Integer),
    ]);
    for table in catalog.tables() {
        for constraint in &table.constraints {
            let (name, _) = constraint_kind(constraint);
            for (position, column) in key_columns(constraint).iter().enumerate() {
                rows.push([
                    DATABASE.into(),
                    table.schema.as_str().into(),
                    name.into(),
                    DATABASE.into(),
                    table.schema.as_str().into(),
                    table.name.as_str().into(),
                    column_name(&table, *column),
                    (position + 1).into(),
                    Cell::Null,
                ]);
            }
        }
    }
    rows
}

fn column_name(table: &TableEntry, position: usize) -> Cell {
    table
        .columns
        .get(position)
        .map(|c| c.field.name().as_str())
        .into()
}

fn constraint_column_usage(catalog: &CatalogState) -> Rows {
    let mut rows = Rows::new(&[
        ("table_catalog", Text),
        ("table_schema", Text),
        ("table_name", Text),
        ("column_name", Text),
        ("constraint_catalog", Text),
        ("constraint_schema", Text),
        ("constraint_name", Text),
    ]);
    for table in catalog.tables() {
        let mut push = |column: Cell, name: &str| {
            rows.push([
                DATABASE.into(),
                table.schema.as_str().into(),
                table.name.as_str().into(),
                column,
                DATABASE.into(),
                table.schema.as_str().into(),
                name.into(),
            ]);
        };
        for constraint in &table.constraints {
            let (name, _) = constraint_kind(constraint);
            for column in key_columns(constraint) {
                push(column_name(&table, *column), name);
            }
        }
        for (name, column) in not_null_constraints(&table) {
            push(column.into(), &name);
        }
    }
    rows
}

fn check_constraints(catalog: &CatalogState) -> Rows {
    let mut rows = Rows::new(&[
        ("constraint_catalog", Text),
        ("constraint_schema", Text),
        ("constraint_name", Text),
        ("check_clause", Text),
    ]);
    for table in catalog.tables() {
        for constraint in &table.constraints {
            if let Constraint::Check { name, condition } = constraint {
                rows.push([
                    DATABASE.into(),
                    table.schema.as_str().into(),
                    name.as_str().into(),
                    condition.to_string().into(),
                ]);
            }
        }
        for (name, column) in not_null_constraints(&table) {
            rows.push([
                DATABASE.into(),
                table.schema.as_str().into(),
                name.into(),
                format!("{column} IS NOT NULL").into(),
            ]);
        }
    }
    rows
}

fn referential_constraints(catalog: &CatalogState) -> Rows {
    let mut rows = Rows::new(&[
        ("constraint_catalog", Text),
        ("constraint_schema", Text),
        ("constraint_name", Text),
        ("unique_constraint_catalog", Text),
        ("unique_constraint_schema", Text),
        ("unique_constraint_name", Text),
        ("match_option", Text),
        ("update_rule", Text),
        ("delete_rule", Text),
    ]);
    for table in catalog.tables() {
        for key in table.foreign_keys() {
            let parent = catalog.exact_table(&key.schema, &key.table);
            let unique = parent.and_then(|parent| {
                let columns: Option<Vec<usize>> = key
                    .referred
                    .iter()
                    .map(|name| parent.column(name))
                    .collect();
                parent.unique_key_over(&columns?)
            });
            rows.push([
                DATABASE.into(),
                table.schema.as_str().into(),
                key.name.as_str().into(),
                DATABASE.into(),
                key.schema.as_str().into(),
                unique.map(|(name, _)| name).into(),
                "NONE".into(),
                key.on_update.sql().into(),
                key.on_delete.sql().into(),
            ]);
        }
    }
    rows
}

fn sequences(catalog: &CatalogState) -> Rows {
    let mut rows = Rows::new(&[
        ("sequence_catalog", Text),
        ("sequence_schema", Text),
        ("sequence_name", Text),
        ("data_type", Text),
        ("start_value", Text),
        ("minimum_value", Text),
        ("maximum_value", Text),
        ("increment", Text),
        ("cycle_option", Text),
    ]);
    for schema in catalog.schemas() {
        let tables = catalog.tables();
        let of_identity: Vec<&(String, String)> = tables
            .iter()
            .flat_map(|table| table.columns.iter())
            .filter(|column| column.identity.is_some())
            .filter_map(|column| column.sequence.as_ref())
            .collect();
        for sequence in catalog.sequences(&schema) {
            if of_identity
                .iter()
                .any(|(schema, name)| *schema == sequence.schema && *name == sequence.name)
            {
                continue;
            }
            let options = sequence.options;
            rows.push([
                DATABASE.into(),
                schema.as_str().into(),
                sequence.name.as_str().into(),
                "bigint".into(),
                options.start.to_string().into(),
                options.least.to_string().into(),
                options.greatest.to_string().into(),
                options.increment.to_string().into(),
                yes_or_no(options.cycle),
            ]);
        }
    }
    rows
}
