//! CREATE TABLE, also AS a query, and SELECT INTO.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::{FieldRef, Schema};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::sql::sqlparser::ast::{
    ColumnDef, CreateTable, CreateTableOptions, OnCommit, Query, SelectInto, SetExpr, SqlOption,
    TableFactor,
};
use firndb_storage::Table;

use super::definition::{self, DefinedConstraint};
use super::{drop, duplicate, existing, index, like, new_name, reference, sequence, told_apart};
use crate::catalog::{
    Column, Constraint, Relation, TEMPORARY_SCHEMA, TableEntry, TableSettings, fold,
};
use crate::error::{Error, Result, SqlState};
use crate::parse::{LIKE_TABLE, ROWS};
use crate::session::Outcome;
use crate::statement::{Numbers, Work, dml, limits};
use crate::types;

/// Columns that a table may have.
const MAX_COLUMNS: usize = 4_096;

/// CREATE TABLE.
pub(super) async fn create_table(work: &mut Work<'_>, create: &CreateTable) -> Result<Outcome> {
    check_options(create)?;
    let (schema, name) = new_name(work, &create.name, create.temporary)?;
    if !make_room(work, create, &schema, &name)? {
        return Ok(Outcome::done("CREATE TABLE"));
    }
    let Some(query) = &create.query else {
        let mut columns = Vec::with_capacity(create.columns.len());
        let mut constraints = Vec::new();
        let mut identities = Vec::new();
        for definition in &create.columns {
            if let Some(copied) = definition.name.value.strip_prefix(LIKE_TABLE) {
                let (copied, of_table) = like::copied(work, copied)?;
                columns.extend(copied);
                constraints.extend(of_table);
                continue;
            }
            let defined = definition::column(work, definition)?;
            if let Some(options) = defined.identity {
                identities.push((columns.len(), options));
            }
            columns.push(defined.column);
            constraints.extend(defined.constraints);
        }
        for constraint in &create.constraints {
            constraints.push(definition::constraint(work, constraint)?);
        }
        if columns.is_empty() {
            return Err(Error::new(
                SqlState::InvalidTableDefinition,
                "a table has at least one column",
            ));
        }
        sequence::own_sequences(work, &schema, &name, &mut columns, &identities)?;
        let entry = define(work, schema, name, columns, &constraints, settings(create))?;
        work.changes.put(Relation::Table(Arc::new(entry)));
        return Ok(Outcome::done("CREATE TABLE"));
    };
    if !create.constraints.is_empty() {
        return Err(Error::unsupported(
            "constraints beside CREATE TABLE AS are not supported",
        ));
    }
    let rows = create_as(work, schema, name, &create.columns, settings(create), query).await?;
    Ok(Outcome::affected("CREATE TABLE", rows))
}

/// SELECT … INTO table: CREATE TABLE AS.
pub(in crate::statement) async fn select_into(
    work: &mut Work<'_>,
    query: &Query,
    into: &SelectInto,
) -> Result<Outcome> {
    let mut query = query.clone();
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.into = None;
    }
    let (schema, name) = new_name(work, &into.name, into.temporary)?;
    if existing(work, &schema, &name).is_some() {
        return Err(duplicate(&name));
    }
    let rows = create_as(work, schema, name, &[], &[], &query).await?;
    Ok(Outcome::affected("SELECT", rows))
}

/// Makes storage for a new table's columns.
pub(super) fn new_storage(work: &Work<'_>, name: &str, columns: &[Column]) -> Result<Table> {
    let fields: Vec<FieldRef> = columns
        .iter()
        .map(|column| Arc::clone(&column.field))
        .collect();
    let scope = &work.context.scope;
    Ok(scope
        .storage
        .create_table(name, Arc::new(Schema::new(fields)))?)
}

/// Whether the table is to be made: IF NOT EXISTS and OR REPLACE see to one of the same name.
fn make_room(work: &mut Work<'_>, create: &CreateTable, schema: &str, name: &str) -> Result<bool> {
    match existing(work, schema, name) {
        None => Ok(true),
        Some(_) if create.if_not_exists => Ok(false),
        Some(Relation::Table(entry)) if create.or_replace => {
            drop::drop_table(work, &entry, false)?;
            Ok(true)
        }
        Some(Relation::View(_)) if create.or_replace => Err(Error::new(
            SqlState::WrongObjectType,
            format!("\"{name}\" is not a table"),
        )
        .with_detail("It is a view.")),
        Some(_) => Err(duplicate(name)),
    }
}

/// A new table with its constraints.
fn define(
    work: &mut Work<'_>,
    schema: String,
    name: String,
    columns: Vec<Column>,
    constraints: &[DefinedConstraint],
    settings: &[SqlOption],
) -> Result<TableEntry> {
    check_columns(&columns)?;
    let columns = require_keys(columns, constraints);
    let table = new_storage(work, &name, &columns)?;
    let mut entry = TableEntry {
        temporary: schema == TEMPORARY_SCHEMA,
        schema,
        name,
        columns,
        constraints: Vec::new(),
        indexes: Vec::new(),
        referrers: Vec::new(),
        table,
        comment: None,
        settings: TableSettings::default(),
    };
    entry.set(settings)?;
    entry.follow_settings();
    // Keys first: a foreign key may refer to them.
    let is_reference =
        |one: &&DefinedConstraint| matches!(one.kind, definition::Kind::ForeignKey(_));
    let keys = constraints.iter().filter(|one| !is_reference(one));
    for defined in keys.chain(constraints.iter().filter(is_reference)) {
        let constraint = definition::resolve(work, &entry, defined)?;
        entry.constraints.push(constraint);
    }
    definition::check_generated(work, &entry)?;
    index::create_all(work, &entry)?;
    reference::link(work, &mut entry)?;
    debug_assert!(
        entry
            .constraints
            .iter()
            .filter(|one| matches!(one, Constraint::PrimaryKey { .. }))
            .count()
            <= 1
    );
    Ok(entry)
}

/// The columns of a primary key are NOT NULL.
fn require_keys(columns: Vec<Column>, constraints: &[DefinedConstraint]) -> Vec<Column> {
    let keys: HashSet<&str> = constraints
        .iter()
        .filter_map(|constraint| match &constraint.kind {
            definition::Kind::PrimaryKey(names) => Some(names.iter().map(String::as_str)),
            _ => None,
        })
        .flatten()
        .collect();
    columns
        .into_iter()
        .map(|column| {
            let name = column.field.name();
            if keys.contains(name.as_str()) || keys.contains(fold(name).as_str()) {
                super::alter::nullability(column, false)
            } else {
                column
            }
        })
        .collect()
}

/// CREATE TABLE AS.
async fn create_as(
    work: &mut Work<'_>,
    schema: String,
    name: String,
    definitions: &[ColumnDef],
    settings: &[SqlOption],
    query: &Query,
) -> Result<u64> {
    let context = work.context;
    let scope = &context.scope;
    let query = limits::settled(scope, query).await?;
    let plan = scope.plan(&query, None)?;
    let physical = scope.physical(&plan).await?;
    let result = scope.result_schema(&physical.schema());
    if !definitions.is_empty() && definitions.len() != result.fields().len() {
        return Err(Error::new(
            SqlState::SyntaxError,
            format!(
                "the query yields {} columns, but {} names are given",
                result.fields().len(),
                definitions.len()
            ),
        ));
    }
    let fields = result.fields().iter();
    let mut names: Vec<String> = match definitions {
        [] => fields.map(|field| field.name().clone()).collect(),
        given => given
            .iter()
            .map(|definition| work.source.written(&definition.name))
            .collect(),
    };
    let given = named_columns(query.as_ref());
    told_apart(&mut names, definitions.len().max(given));
    let mut columns = Vec::with_capacity(result.fields().len());
    for (name, field) in names.into_iter().zip(result.fields()) {
        let stored = types::stored_field(field)?.with_nullable(true);
        let stored = stored.with_name(name);
        columns.push(Column {
            field: Arc::new(stored),
            default: None,
            generated: None,
            identity: None,
            sequence: None,
            comment: None,
            strings: None,
        });
    }
    let entry = Arc::new(define(work, schema, name, columns, &[], settings)?);
    let stream: SendableRecordBatchStream = scope.stream(physical);
    let positions: Vec<usize> = (0..entry.columns.len()).collect();
    let rows = dml::load(context, &entry, &positions, stream, Numbers::Given).await?;
    work.changes.put(Relation::Table(entry));
    Ok(rows)
}

/// How many columns `CREATE TABLE t (a, b) AS` names, which the parser made the alias of the query.
fn named_columns(query: &Query) -> usize {
    let SetExpr::Select(select) = query.body.as_ref() else {
        return 0;
    };
    match select.from.as_slice() {
        [from] => match &from.relation {
            TableFactor::Derived {
                alias: Some(alias), ..
            } if alias.name.value == ROWS => alias.columns.len(),
            _ => 0,
        },
        _ => 0,
    }
}

fn check_columns(columns: &[Column]) -> Result<()> {
    if columns.len() > MAX_COLUMNS {
        return Err(Error::new(
            SqlState::ProgramLimitExceeded,
            format!("tables can have at most {MAX_COLUMNS} columns"),
        ));
    }
    let mut names = HashSet::new();
    for column in columns {
        let name = column.field.name();
        if name == "__slot" {
            return Err(Error::new(
                SqlState::InvalidTableDefinition,
                "column name \"__slot\" is reserved",
            ));
        }
        if !names.insert(fold(name)) {
            return Err(Error::new(
                SqlState::DuplicateColumn,
                format!("column \"{name}\" specified more than once"),
            ));
        }
    }
    Ok(())
}

/// What `WITH` says.
fn settings(create: &CreateTable) -> &[SqlOption] {
    match &create.table_options {
        CreateTableOptions::With(options) => options,
        _ => &[],
    }
}

fn check_options(create: &CreateTable) -> Result<()> {
    let refused = [
        (create.external, "CREATE EXTERNAL TABLE"),
        (
            create.like.is_some() || create.clone.is_some(),
            "CREATE TABLE LIKE",
        ),
        (create.inherits.is_some(), "INHERITS"),
        (
            create.partition_by.is_some() || create.partition_of.is_some(),
            "PARTITION BY",
        ),
        (
            create.on_cluster.is_some() || create.cluster_by.is_some(),
            "CLUSTER BY",
        ),
        (
            create.order_by.is_some() || create.primary_key.is_some(),
            "ORDER BY in CREATE TABLE",
        ),
        (
            !matches!(create.on_commit, None | Some(OnCommit::PreserveRows)),
            "ON COMMIT DROP and DELETE ROWS",
        ),
        (
            create.transient || create.iceberg || create.dynamic,
            "this kind of table",
        ),
        (
            !matches!(
                create.table_options,
                CreateTableOptions::None | CreateTableOptions::With(_)
            ),
            "an option of CREATE TABLE",
        ),
    ];
    for (given, what) in refused {
        if given {
            return Err(Error::unsupported(format!("{what} is not supported")));
        }
    }
    Ok(())
}
