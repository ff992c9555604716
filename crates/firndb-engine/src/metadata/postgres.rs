//! `pg_catalog`: what drivers and tools look up there. Numbers of objects (oids) are hashes of their names: equal in every session.

use arrow::datatypes::{DataType, Field};

use super::definitions::constraint_text;
use super::rows::{Cell, Kind, Rows};
use super::standard::{all_relations, constraint_kind, key_columns};
use super::{DATABASE, SYSTEM_SCHEMAS};
use crate::catalog::{
    CatalogState, Constraint, IndexEntry, IndexKey, IndexPart, Relation, TableEntry,
};

use Kind::{BigInteger, Integer, Text, Truth};

/// The relations there are, sorted.
pub(super) const NAMES: [&str; 16] = [
    "pg_attrdef",
    "pg_attribute",
    "pg_class",
    "pg_constraint",
    "pg_database",
    "pg_description",
    "pg_enum",
    "pg_index",
    "pg_indexes",
    "pg_namespace",
    "pg_roles",
    "pg_sequences",
    "pg_settings",
    "pg_tables",
    "pg_type",
    "pg_views",
];

/// Oids below belong to PostgreSQL itself.
const FIRST_OID: i64 = 16_384;
/// Who owns everything.
const OWNER_OID: i64 = 10;
/// `pg_class` and `pg_namespace` as objects, in `pg_description`.
const CLASS_OID: i64 = 1_259;

pub(super) fn relation(catalog: &CatalogState, name: &str) -> Option<Rows> {
    Some(match name {
        "pg_namespace" => pg_namespace(catalog),
        "pg_class" => pg_class(catalog),
        "pg_attribute" => pg_attribute(catalog),
        "pg_attrdef" => pg_attrdef(catalog),
        "pg_type" => pg_type(catalog),
        "pg_enum" => pg_enum(catalog),
        "pg_index" => pg_index(catalog),
        "pg_indexes" => pg_indexes(catalog),
        "pg_constraint" => pg_constraint(catalog),
        "pg_tables" => pg_tables(catalog),
        "pg_views" => pg_views(catalog),
        "pg_description" => pg_description(catalog),
        "pg_database" => pg_database(),
        "pg_roles" => pg_roles(),
        "pg_sequences" => pg_sequences(catalog),
        _ => return None,
    })
}

/// FNV-1a over the parts of a name, in the range of PostgreSQL's oids for users' objects.
fn oid(kind: &str, parts: &[&str]) -> i64 {
    let mut hash: u32 = 0x811c_9dc5;
    for part in std::iter::once(&kind).chain(parts) {
        for byte in part.bytes().chain(std::iter::once(0)) {
            hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        }
    }
    FIRST_OID + i64::from(hash & 0x3fff_ffff)
}

fn namespace_oid(schema: &str) -> i64 {
    match schema {
        "pg_catalog" => 11,
        other => oid("namespace", &[other]),
    }
}

fn class_oid(schema: &str, name: &str) -> i64 {
    oid("class", &[schema, name])
}

/// PostgreSQL's type for a column: oid, name, size, category.
fn type_of(field: &Field) -> (i64, &'static str, i64, &'static str) {
    match field.data_type() {
        DataType::Boolean => (16, "bool", 1, "B"),
        DataType::Binary | DataType::BinaryView | DataType::LargeBinary => (17, "bytea", -1, "U"),
        DataType::Int8 | DataType::Int16 | DataType::UInt8 => (21, "int2", 2, "N"),
        DataType::Int32 | DataType::UInt16 => (23, "int4", 4, "N"),
        DataType::Int64 | DataType::UInt32 => (20, "int8", 8, "N"),
        DataType::Float16 | DataType::Float32 => (700, "float4", 4, "N"),
        DataType::Float64 => (701, "float8", 8, "N"),
        DataType::Date32 | DataType::Date64 => (1082, "date", 4, "D"),
        DataType::Time32(_) | DataType::Time64(_) => (1083, "time", 8, "D"),
        DataType::Timestamp(_, None) => (1114, "timestamp", 8, "D"),
        DataType::Timestamp(_, Some(_)) => (1184, "timestamptz", 8, "D"),
        DataType::Interval(_) | DataType::Duration(_) => (1186, "interval", 16, "T"),
        DataType::UInt64
        | DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => (1700, "numeric", -1, "N"),
        DataType::FixedSizeBinary(16) => (2950, "uuid", 16, "U"),
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => {
            (2277, "anyarray", -1, "A")
        }
        DataType::Struct(_) | DataType::Map(..) => (2249, "record", -1, "C"),
        _ => (25, "text", -1, "S"),
    }
}

fn pg_namespace(catalog: &CatalogState) -> Rows {
    let mut rows = Rows::new(&[
        ("oid", BigInteger),
        ("nspname", Text),
        ("nspowner", BigInteger),
    ]);
    let system = SYSTEM_SCHEMAS.iter().map(|s| (*s).to_owned());
    for schema in catalog.schemas().into_iter().chain(system) {
        let number = namespace_oid(&schema);
        rows.push([number.into(), schema.into(), Cell::Number(OWNER_OID)]);
    }
    rows
}

fn pg_class(catalog: &CatalogState) -> Rows {
    let mut rows = Rows::new(&[
        ("oid", BigInteger),
        ("relname", Text),
        ("relnamespace", BigInteger),
        ("relkind", Text),
        ("relowner", BigInteger),
        ("relnatts", Integer),
        ("relhasindex", Truth),
        ("relpersistence", Text),
        ("relispartition", Truth),
    ]);
    let mut push = |schema: &str, name: &str, kind: &str, columns: usize, indexed, temporary| {
        rows.push([
            class_oid(schema, name).into(),
            name.into(),
            namespace_oid(schema).into(),
            kind.into(),
            Cell::Number(OWNER_OID),
            columns.into(),
            Cell::Truth(indexed),
            if temporary { "t" } else { "p" }.into(),
            false.into(),
        ]);
    };
    for relation in all_relations(catalog) {
        match relation {
            Relation::Table(t) => {
                let indexes = indexes_of(&t);
                let indexed = !indexes.is_empty();
                push(
                    &t.schema,
                    &t.name,
                    "r",
                    t.columns.len(),
                    indexed,
                    t.temporary,
                );
                for index in indexes {
                    let width = index.columns.len();
                    push(&t.schema, &index.name, "i", width, false, t.temporary);
                }
            }
            Relation::View(v) => {
                push(&v.schema, &v.name, "v", v.columns.len(), false, v.temporary);
            }
        }
    }
    rows
}

fn is_key(constraint: &Constraint) -> bool {
    constraint.key().is_some()
}

/// An index, a constraint's or one that CREATE INDEX made.
struct ListedIndex {
    name: String,
    unique: bool,
    primary: bool,
    /// Numbers of the key's columns, from 1; 0 for an expression.
    columns: Vec<usize>,
    predicate: Option<String>,
    definition: String,
}

/// The indexes of a table: those of constraints first.
fn indexes_of(table: &TableEntry) -> Vec<ListedIndex> {
    let of_constraints = table.constraints.iter().filter_map(|constraint| {
        let key = constraint.key()?;
        let parts = key.iter().map(|&column| IndexPart {
            key: IndexKey::Column(column),
            descending: false,
            nulls_first: false,
        });
        let index = IndexEntry {
            name: constraint.name().to_owned(),
            unique: true,
            parts: parts.collect(),
            predicate: None,
        };
        let primary = matches!(constraint, Constraint::PrimaryKey { .. });
        Some(listed(table, &index, primary))
    });
    let made = table
        .indexes
        .iter()
        .map(|index| listed(table, index, false));
    of_constraints.chain(made).collect()
}

fn listed(table: &TableEntry, index: &IndexEntry, primary: bool) -> ListedIndex {
    let columns = index.parts.iter().map(|part| match part.key {
        IndexKey::Column(column) => column + 1,
        IndexKey::Expression(_) => 0,
    });
    ListedIndex {
        name: index.name.clone(),
        unique: index.unique,
        primary,
        columns: columns.collect(),
        predicate: index.predicate.as_ref().map(ToString::to_string),
        definition: index.definition(table),
    }
}

/// The indexes of a table: where they come from is a CREATE INDEX, a UNIQUE constraint or the primary key.
pub(super) fn index_list(table: &TableEntry) -> Rows {
    let mut rows = Rows::new(&[
        ("seq", BigInteger),
        ("name", Text),
        ("unique", Truth),
        ("origin", Text),
        ("partial", Truth),
    ]);
    let made = |name: &str| table.indexes.iter().any(|index| index.name == name);
    for (place, index) in indexes_of(table).into_iter().enumerate() {
        let origin = match (index.primary, made(&index.name)) {
            (true, _) => "pk",
            (false, true) => "c",
            (false, false) => "u",
        };
        rows.push([
            place.into(),
            index.name.into(),
            index.unique.into(),
            origin.into(),
            index.predicate.is_some().into(),
        ]);
    }
    rows
}

fn pg_attribute(catalog: &CatalogState) -> Rows {
    let mut rows = Rows::new(&[
        ("attrelid", BigInteger),
        ("attname", Text),
        ("atttypid", BigInteger),
        ("attlen", Integer),
        ("attnum", Integer),
        ("atttypmod", Integer),
        ("attnotnull", Truth),
        ("atthasdef", Truth),
        ("attisdropped", Truth),
        ("attidentity", Text),
        ("attgenerated", Text),
    ]);
    for table in catalog.tables() {
        for (position, column) in table.columns.iter().enumerate() {
            let (number, _, size, _) = type_of(&column.field);
            rows.push([
                class_oid(&table.schema, &table.name).into(),
                column.field.name().as_str().into(),
                number.into(),
                size.into(),
                (position + 1).into(),
                type_modifier(&column.field).into(),
                (!column.field.is_nullable()).into(),
                column.default.is_some().into(),
                false.into(),
                "".into(),
                if column.generated.is_some() { "s" } else { "" }.into(),
            ]);
        }
    }
    rows
}

/// Precision and scale, or a length, as PostgreSQL packs them; -1 for none.
fn type_modifier(field: &Field) -> i64 {
    match super::rows::decimal(field.data_type()) {
        Some((precision, scale)) => (i64::from(precision) << 16 | i64::from(scale)) + 4,
        None => -1,
    }
}

fn pg_attrdef(catalog: &CatalogState) -> Rows {
    let mut rows = Rows::new(&[
        ("oid", BigInteger),
        ("adrelid", BigInteger),
        ("adnum", Integer),
        ("adbin", Text),
    ]);
    for table in catalog.tables() {
        for (position, column) in table.columns.iter().enumerate() {
            if let Some(default) = &column.default {
                let parts = [&table.schema, &table.name, column.field.name()];
                rows.push([
                    oid("default", &parts.map(String::as_str)).into(),
                    class_oid(&table.schema, &table.name).into(),
                    (position + 1).into(),
                    default.to_string().into(),
                ]);
            }
        }
    }
    rows
}

fn pg_type(catalog: &CatalogState) -> Rows {
    let mut rows = Rows::new(&[
        ("oid", BigInteger),
        ("typname", Text),
        ("typnamespace", BigInteger),
        ("typlen", Integer),
        ("typtype", Text),
        ("typcategory", Text),
        ("typelem", BigInteger),
        ("typrelid", BigInteger),
    ]);
    let known: [(i64, &str, i64, &str); 17] = [
        (16, "bool", 1, "B"),
        (17, "bytea", -1, "U"),
        (20, "int8", 8, "N"),
        (21, "int2", 2, "N"),
        (23, "int4", 4, "N"),
        (25, "text", -1, "S"),
        (114, "json", -1, "U"),
        (700, "float4", 4, "N"),
        (701, "float8", 8, "N"),
        (1043, "varchar", -1, "S"),
        (1082, "date", 4, "D"),
        (1083, "time", 8, "D"),
        (1114, "timestamp", 8, "D"),
        (1184, "timestamptz", 8, "D"),
        (1186, "interval", 16, "T"),
        (1700, "numeric", -1, "N"),
        (2950, "uuid", 16, "U"),
    ];
    for (number, name, size, category) in known {
        rows.push([
            number.into(),
            name.into(),
            namespace_oid("pg_catalog").into(),
            size.into(),
            "b".into(),
            category.into(),
            Cell::Number(0),
            Cell::Number(0),
        ]);
    }
    for schema in catalog.schemas() {
        for (name, _) in catalog.enums(&schema) {
            rows.push([
                oid("type", &[&schema, &name]).into(),
                name.into(),
                namespace_oid(&schema).into(),
                Cell::Number(4),
                "e".into(),
                "E".into(),
                Cell::Number(0),
                Cell::Number(0),
            ]);
        }
    }
    rows
}

fn pg_enum(catalog: &CatalogState) -> Rows {
    let mut rows = Rows::new(&[
        ("oid", BigInteger),
        ("enumtypid", BigInteger),
        ("enumsortorder", Integer),
        ("enumlabel", Text),
    ]);
    for schema in catalog.schemas() {
        for (name, labels) in catalog.enums(&schema) {
            for (position, label) in labels.iter().enumerate() {
                rows.push([
                    oid("label", &[&schema, &name, label]).into(),
                    oid("type", &[&schema, &name]).into(),
                    (position + 1).into(),
                    label.as_str().into(),
                ]);
            }
        }
    }
    rows
}

fn pg_index(catalog: &CatalogState) -> Rows {
    let mut rows = Rows::new(&[
        ("indexrelid", BigInteger),
        ("indrelid", BigInteger),
        ("indnatts", Integer),
        ("indisunique", Truth),
        ("indisprimary", Truth),
        ("indisvalid", Truth),
        ("indkey", Text),
        ("indpred", Text),
    ]);
    for table in catalog.tables() {
        for index in indexes_of(&table) {
            let numbers: Vec<String> = index.columns.iter().map(ToString::to_string).collect();
            rows.push([
                class_oid(&table.schema, &index.name).into(),
                class_oid(&table.schema, &table.name).into(),
                index.columns.len().into(),
                index.unique.into(),
                index.primary.into(),
                true.into(),
                numbers.join(" ").into(),
                index.predicate.into(),
            ]);
        }
    }
    rows
}

fn pg_indexes(catalog: &CatalogState) -> Rows {
    let mut rows = Rows::new(&[
        ("schemaname", Text),
        ("tablename", Text),
        ("indexname", Text),
        ("tablespace", Text),
        ("indexdef", Text),
    ]);
    for table in catalog.tables() {
        for index in indexes_of(&table) {
            rows.push([
                table.schema.as_str().into(),
                table.name.as_str().into(),
                index.name.into(),
                Cell::Null,
                index.definition.into(),
            ]);
        }
    }
    rows
}

/// The numbers of a key's columns, from 1.
fn numbers(key: &Constraint, between: &str) -> String {
    let numbers: Vec<String> = key_columns(key)
        .iter()
        .map(|c| (c + 1).to_string())
        .collect();
    numbers.join(between)
}

fn pg_constraint(catalog: &CatalogState) -> Rows {
    let mut rows = Rows::new(&[
        ("oid", BigInteger),
        ("conname", Text),
        ("connamespace", BigInteger),
        ("contype", Text),
        ("conrelid", BigInteger),
        ("conindid", BigInteger),
        ("conkey", Text),
        ("condef", Text),
    ]);
    for table in catalog.tables() {
        for constraint in &table.constraints {
            let (name, _) = constraint_kind(constraint);
            let kind = match constraint {
                Constraint::PrimaryKey { .. } => "p",
                Constraint::Unique { .. } => "u",
                Constraint::Check { .. } => "c",
                Constraint::ForeignKey(_) => "f",
            };
            let index = is_key(constraint).then(|| class_oid(&table.schema, name));
            rows.push([
                oid("constraint", &[&table.schema, &table.name, name]).into(),
                name.into(),
                namespace_oid(&table.schema).into(),
                kind.into(),
                class_oid(&table.schema, &table.name).into(),
                index.unwrap_or(0).into(),
                format!("{{{}}}", numbers(constraint, ",")).into(),
                constraint_text(&table, constraint).into(),
            ]);
        }
    }
    rows
}

fn pg_tables(catalog: &CatalogState) -> Rows {
    let mut rows = Rows::new(&[
        ("schemaname", Text),
        ("tablename", Text),
        ("tableowner", Text),
        ("tablespace", Text),
        ("hasindexes", Truth),
        ("hasrules", Truth),
        ("hastriggers", Truth),
        ("rowsecurity", Truth),
    ]);
    for table in catalog.tables() {
        rows.push([
            table.schema.as_str().into(),
            table.name.as_str().into(),
            DATABASE.into(),
            Cell::Null,
            (!indexes_of(&table).is_empty()).into(),
            false.into(),
            false.into(),
            false.into(),
        ]);
    }
    rows
}

fn pg_views(catalog: &CatalogState) -> Rows {
    let mut rows = Rows::new(&[
        ("schemaname", Text),
        ("viewname", Text),
        ("viewowner", Text),
        ("definition", Text),
    ]);
    for relation in all_relations(catalog) {
        if let Relation::View(view) = relation {
            rows.push([
                view.schema.as_str().into(),
                view.name.as_str().into(),
                DATABASE.into(),
                view.query.to_string().into(),
            ]);
        }
    }
    rows
}

fn pg_description(catalog: &CatalogState) -> Rows {
    let mut rows = Rows::new(&[
        ("objoid", BigInteger),
        ("classoid", BigInteger),
        ("objsubid", Integer),
        ("description", Text),
    ]);
    let mut push = |number: i64, column: usize, comment: &Option<String>| {
        if let Some(comment) = comment {
            rows.push([
                number.into(),
                CLASS_OID.into(),
                column.into(),
                comment.as_str().into(),
            ]);
        }
    };
    for relation in all_relations(catalog) {
        match relation {
            Relation::Table(table) => describe_table(&table, &mut push),
            Relation::View(view) => push(class_oid(&view.schema, &view.name), 0, &view.comment),
        }
    }
    rows
}

fn describe_table(table: &TableEntry, push: &mut impl FnMut(i64, usize, &Option<String>)) {
    let number = class_oid(&table.schema, &table.name);
    push(number, 0, &table.comment);
    for (position, column) in table.columns.iter().enumerate() {
        push(number, position + 1, &column.comment);
    }
}

fn pg_database() -> Rows {
    let mut rows = Rows::new(&[
        ("oid", BigInteger),
        ("datname", Text),
        ("encoding", Integer),
        ("datallowconn", Truth),
        ("datistemplate", Truth),
    ]);
    let number = oid("database", &[DATABASE]);
    // 6 is PostgreSQL's number of UTF8.
    rows.push([
        number.into(),
        DATABASE.into(),
        Cell::Number(6),
        true.into(),
        false.into(),
    ]);
    rows
}

/// The only role there is, who may do everything.
fn pg_roles() -> Rows {
    let mut rows = Rows::new(&[
        ("oid", BigInteger),
        ("rolname", Text),
        ("rolsuper", Truth),
        ("rolcanlogin", Truth),
    ]);
    rows.push([
        Cell::Number(OWNER_OID),
        DATABASE.into(),
        true.into(),
        true.into(),
    ]);
    rows
}

fn pg_sequences(catalog: &CatalogState) -> Rows {
    let mut rows = Rows::new(&[
        ("schemaname", Text),
        ("sequencename", Text),
        ("sequenceowner", Text),
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
                sequence.schema.as_str().into(),
                sequence.name.as_str().into(),
                DATABASE.into(),
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
