//! Definitions: what changes the catalog. All of it is transactional: storage undoes what it made, the catalog forgets it.

mod alter;
mod comment;
mod constraint;
mod create;
mod definition;
mod depend;
mod drop;
mod functions;
mod index;
mod like;
mod macros;
mod reference;
mod rename;
mod rewrite;
mod sequence;
mod view;

use std::collections::{HashMap, HashSet};

use datafusion::sql::sqlparser::ast::{self, ObjectName, SchemaName, Statement};

use super::{Work, split_name};
use crate::catalog::{MAIN_SCHEMA, Relation, TEMPORARY_SCHEMA, TypeEntry, fold};
use crate::error::{Error, Result, SqlState};
use crate::parse;
use crate::session::Outcome;
use crate::types::NamedType;

/// SELECT … INTO table.
pub(super) use create::select_into;
pub(super) use sequence::alter_sequence;
pub(super) use view::rename_view;

/// Runs a definition.
pub(super) async fn run(work: &mut Work<'_>, statement: &Statement) -> Result<Outcome> {
    work.context.check_writable(verb(statement))?;
    match statement {
        Statement::CreateTable(table) => create::create_table(work, table).await,
        Statement::AlterTable(alter) => alter::alter_table(work, alter).await,
        Statement::CreateView(view) => view::create_view(work, view),
        Statement::CreateIndex(index) => index::create_index(work, index),
        Statement::AlterIndex { name, operation } => index::alter_index(work, name, operation),
        Statement::CreateSchema {
            schema_name,
            if_not_exists,
            ..
        } => create_schema(work, schema_name, *if_not_exists),
        Statement::CreateType {
            name,
            representation,
        } => create_type(work, name, representation.as_ref()),
        Statement::Drop { .. } => drop::drop_objects(work, statement),
        Statement::Truncate(truncate) => rewrite::truncate(work, truncate),
        Statement::Comment { .. } => comment::comment(work, statement),
        Statement::CreateSequence { .. } => sequence::create_sequence(work, statement),
        Statement::CreateMacro { .. } => macros::create_macro(work, statement),
        Statement::DropFunction(drop) => macros::drop_macro(work, drop),
        Statement::CreateFunction(create) => functions::create_function(work, create),
        other => Err(Error::unsupported(format!(
            "{} is not supported",
            verb(other)
        ))),
    }
}

/// Makes the indexes of a table's storage that has none yet.
pub(crate) fn make_indexes(work: &Work<'_>, entry: &crate::catalog::TableEntry) -> Result<()> {
    index::create_all(work, entry)
}

/// A statement's first words.
fn verb(statement: &Statement) -> &'static str {
    match statement {
        Statement::CreateTable(_) => "CREATE TABLE",
        Statement::AlterTable(_) => "ALTER TABLE",
        Statement::CreateView(_) => "CREATE VIEW",
        Statement::CreateIndex(_) => "CREATE INDEX",
        Statement::AlterIndex { .. } => "ALTER INDEX",
        Statement::CreateSchema { .. } => "CREATE SCHEMA",
        Statement::CreateType { .. } => "CREATE TYPE",
        Statement::Drop { .. } => "DROP",
        Statement::Truncate(_) => "TRUNCATE",
        Statement::Comment { .. } => "COMMENT",
        Statement::Grant(_) => "GRANT",
        Statement::Revoke(_) => "REVOKE",
        Statement::CreateMacro { .. } => "CREATE MACRO",
        Statement::CreateFunction(_) => "CREATE FUNCTION",
        Statement::DropFunction(_) => "DROP FUNCTION",
        Statement::CreateTrigger(_) => "CREATE TRIGGER",
        Statement::CreateDatabase { .. } => "CREATE DATABASE",
        Statement::CreateRole(_) => "CREATE ROLE",
        Statement::AlterType(_) => "ALTER TYPE",
        Statement::AttachDatabase { .. } | Statement::AttachDuckDBDatabase { .. } => "ATTACH",
        _ => "this statement",
    }
}

/// The schema and the name, as written, of an object to be made.
fn new_name(work: &Work<'_>, name: &ObjectName, temporary: bool) -> Result<(String, String)> {
    let (schema, folded) = split_name(name)?;
    let written = name
        .0
        .last()
        .and_then(|part| part.as_ident())
        .map_or(folded, |ident| work.source.written(ident));
    let scope = &work.context.scope;
    let schema = match schema {
        None if temporary => TEMPORARY_SCHEMA.to_owned(),
        None => scope
            .path
            .iter()
            .find(|schema| scope.catalog.schema(schema).is_some())
            .cloned()
            .unwrap_or_else(|| MAIN_SCHEMA.to_owned()),
        Some(schema) => schema,
    };
    if matches!(fold(&schema).as_str(), "information_schema" | "pg_catalog") {
        return Err(Error::new(
            SqlState::InvalidSchemaName,
            format!("permission denied to create in schema \"{schema}\""),
        ));
    }
    let found = scope
        .catalog
        .schema(&schema)
        .ok_or_else(|| scope.unknown_schema(&schema))?;
    if temporary && found.name != TEMPORARY_SCHEMA {
        return Err(Error::new(
            SqlState::InvalidTableDefinition,
            "cannot create a temporary relation in a schema that is not temporary",
        ));
    }
    Ok((found.name.clone(), written))
}

/// The relation that has a name already.
fn existing(work: &Work<'_>, schema: &str, name: &str) -> Option<Relation> {
    work.changes.state().relation(schema, name)
}

/// 42P07.
fn duplicate(name: &str) -> Error {
    Error::new(
        SqlState::DuplicateTable,
        format!("relation \"{name}\" already exists"),
    )
}

fn create_schema(work: &mut Work<'_>, name: &SchemaName, if_not_exists: bool) -> Result<Outcome> {
    let SchemaName::Simple(name) = name else {
        return Err(Error::unsupported(
            "CREATE SCHEMA AUTHORIZATION is not supported",
        ));
    };
    let ident = name
        .0
        .last()
        .and_then(|part| part.as_ident())
        .filter(|_| name.0.len() == 1)
        .ok_or_else(|| {
            Error::new(
                SqlState::SyntaxError,
                format!("\"{name}\" is no schema name"),
            )
        })?;
    let written = work.source.written(ident);
    if ident.value.starts_with("pg_") || ident.value == "information_schema" {
        return Err(Error::new(
            SqlState::DuplicateSchema,
            format!("unacceptable schema name \"{written}\""),
        )
        .with_detail("It is reserved for the system."));
    }
    if work.changes.state().schema(&written).is_some() {
        if if_not_exists {
            return Ok(Outcome::done("CREATE SCHEMA"));
        }
        return Err(Error::new(
            SqlState::DuplicateSchema,
            format!("schema \"{written}\" already exists"),
        ));
    }
    work.changes.create_schema(&written);
    Ok(Outcome::done("CREATE SCHEMA"))
}

fn create_type(
    work: &mut Work<'_>,
    name: &ObjectName,
    representation: Option<&ast::UserDefinedTypeRepresentation>,
) -> Result<Outcome> {
    let (schema, written) = new_name(work, name, false)?;
    let taken = work
        .changes
        .state()
        .schema(&schema)
        .is_some_and(|schema| schema.named_type(&written).is_some());
    if taken {
        return Err(Error::new(
            SqlState::DuplicateObject,
            format!("type \"{written}\" already exists"),
        ));
    }
    if parse::is_built_in_type(&written) {
        return Err(Error::new(
            SqlState::DuplicateObject,
            format!("type \"{written}\" already exists"),
        ));
    }
    let definition = match representation {
        Some(ast::UserDefinedTypeRepresentation::Enum { labels }) => {
            NamedType::Enum(distinct_labels(labels)?)
        }
        Some(ast::UserDefinedTypeRepresentation::Composite { attributes }) => {
            let mut data_type = match attributes.as_slice() {
                [one] if one.name.value == parse::TYPE_ALIAS => one.data_type.clone(),
                members => composite(members),
            };
            definition::expand_type(work, &mut data_type)?;
            NamedType::Alias(data_type)
        }
        _ => {
            return Err(Error::unsupported(
                "this form of CREATE TYPE is not supported",
            ));
        }
    };
    work.changes.put_type(
        &schema,
        TypeEntry {
            name: written,
            definition,
        },
    );
    Ok(Outcome::done("CREATE TYPE"))
}

fn distinct_labels(labels: &[ast::Ident]) -> Result<Vec<String>> {
    let labels: Vec<String> = labels.iter().map(|label| label.value.clone()).collect();
    for (number, label) in labels.iter().enumerate() {
        if labels[..number].contains(label) {
            return Err(Error::new(
                SqlState::DuplicateObject,
                format!("enum label \"{label}\" is given twice"),
            ));
        }
    }
    Ok(labels)
}

/// PostgreSQL's `CREATE TYPE name AS (a INTEGER, b TEXT)` is a struct.
fn composite(members: &[ast::UserDefinedTypeCompositeAttributeDef]) -> ast::DataType {
    let members = members.iter().map(|member| ast::StructField {
        field_name: Some(member.name.clone()),
        field_type: member.data_type.clone(),
        options: None,
    });
    ast::DataType::Struct(members.collect(), ast::StructBracketKind::AngleBrackets)
}

/// The names of a query's columns as a table or a view may have them: those that come again get a number, as in DuckDB.
fn told_apart(names: &mut [String], from: usize) {
    let mut taken: HashSet<String> = HashSet::with_capacity(names.len());
    let mut repeated: HashMap<String, usize> = HashMap::new();
    for (place, name) in names.iter_mut().enumerate() {
        let folded = fold(name);
        if place < from || !taken.contains(&folded) {
            taken.insert(folded);
            continue;
        }
        let number = repeated.entry(folded).or_default();
        let free = loop {
            *number += 1;
            let numbered = format!("{name}_{number}");
            if taken.insert(fold(&numbered)) {
                break numbered;
            }
        };
        *name = free;
    }
}
