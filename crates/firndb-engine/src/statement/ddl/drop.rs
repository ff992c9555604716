//! DROP of tables, views, schemas, types and indexes.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{ObjectName, ObjectType, Statement};

use super::{depend, index, reference, sequence};
use crate::catalog::{MAIN_SCHEMA, Relation, TEMPORARY_SCHEMA, TableEntry, ViewEntry};
use crate::error::{Error, Result, SqlState, nearest};
use crate::session::Outcome;
use crate::statement::{Work, split_name};

/// DROP.
pub(super) fn drop_objects(work: &mut Work<'_>, statement: &Statement) -> Result<Outcome> {
    let Statement::Drop {
        object_type,
        if_exists,
        names,
        cascade,
        ..
    } = statement
    else {
        return Err(Error::internal("not a DROP"));
    };
    let tag = match object_type {
        ObjectType::Table => "DROP TABLE",
        ObjectType::View => "DROP VIEW",
        ObjectType::Schema => "DROP SCHEMA",
        ObjectType::Type => "DROP TYPE",
        ObjectType::Index => "DROP INDEX",
        ObjectType::Sequence => "DROP SEQUENCE",
        other => {
            return Err(Error::unsupported(format!("DROP {other} is not supported")));
        }
    };
    let mut names = names.clone();
    while !names.is_empty() {
        // Tables that refer to others of the list go first.
        let free = names.iter().position(|name| !is_referred_to(work, name));
        let name = &names.remove(free.unwrap_or(0));
        match object_type {
            ObjectType::Table | ObjectType::View => {
                drop_relation(work, name, object_type, *if_exists, *cascade)?;
            }
            ObjectType::Schema => drop_schema(work, name, *if_exists, *cascade)?,
            ObjectType::Type => drop_type(work, name, *if_exists)?,
            ObjectType::Sequence => {
                sequence::drop_sequence(work, name, *if_exists, *cascade)?;
            }
            _ => index::drop_index(work, name, *if_exists)?,
        }
    }
    Ok(Outcome::done(tag))
}

/// Whether a foreign key of another table refers to one.
fn is_referred_to(work: &Work<'_>, name: &ObjectName) -> bool {
    let Ok(entry) = work.context.table(name) else {
        return false;
    };
    let newest = work.changes.state().exact_table(&entry.schema, &entry.name);
    newest.is_some_and(|entry| entry.referrers.iter().any(|one| !one.is_of(&entry)))
}

/// Drops a table, with the views on it if `cascade`.
pub(super) fn drop_table(work: &mut Work<'_>, entry: &TableEntry, cascade: bool) -> Result<()> {
    drop_views_on(work, &entry.schema, &entry.name, cascade, "table")?;
    let what = format!("table {}", entry.name);
    reference::drop_referring(work, entry, cascade, &what, |_, _| true)?;
    for key in entry.foreign_keys() {
        reference::unlink(work, entry, key);
    }
    sequence::drop_owned(work, entry.columns.iter());
    let transaction = &work.context.transaction;
    entry.table.lock_exclusive(transaction)?;
    entry.table.retire(transaction, true)?;
    work.changes.remove(&entry.schema, &entry.name);
    Ok(())
}

/// Drops a view, with the views on it if `cascade`.
pub(super) fn drop_view(work: &mut Work<'_>, view: &ViewEntry, cascade: bool) -> Result<()> {
    drop_views_on(work, &view.schema, &view.name, cascade, "view")?;
    work.changes.remove(&view.schema, &view.name);
    Ok(())
}

/// Drops the views on a relation, or refuses.
pub(super) fn drop_views_on(
    work: &mut Work<'_>,
    schema: &str,
    name: &str,
    cascade: bool,
    kind: &str,
) -> Result<()> {
    let views = depend::views_on(work.changes.state(), schema, name);
    if views.is_empty() {
        return Ok(());
    }
    if !cascade {
        return Err(depend::still_needed(&format!("{kind} {name}"), &views));
    }
    for view in views {
        let still = work.changes.state().relation(&view.schema, &view.name);
        if let Some(Relation::View(view)) = still {
            drop_view(work, &view, true)?;
        }
    }
    Ok(())
}

fn drop_relation(
    work: &mut Work<'_>,
    name: &ObjectName,
    kind: &ObjectType,
    if_exists: bool,
    cascade: bool,
) -> Result<()> {
    let (schema, folded) = split_name(name)?;
    let state = Arc::clone(work.changes.state());
    let scope = &work.context.scope;
    let found = match &schema {
        Some(schema) => state.relation(schema, &folded),
        None => state.relation(TEMPORARY_SCHEMA, &folded).or_else(|| {
            scope
                .path
                .iter()
                .find_map(|schema| state.relation(schema, &folded))
        }),
    };
    match (found, kind) {
        (Some(Relation::Table(entry)), ObjectType::Table) => drop_table(work, &entry, cascade),
        (Some(Relation::View(view)), ObjectType::View) => drop_view(work, &view, cascade),
        (Some(Relation::Table(entry)), _) => Err(Error::new(
            SqlState::WrongObjectType,
            format!("\"{}\" is not a view", entry.name),
        )
        .with_hint("Use DROP TABLE to remove a table.")),
        (Some(Relation::View(view)), _) => Err(Error::new(
            SqlState::WrongObjectType,
            format!("\"{}\" is not a table", view.name),
        )
        .with_hint("Use DROP VIEW to remove a view.")),
        (None, _) if if_exists => Ok(()),
        (None, _) => {
            let word = if *kind == ObjectType::Table {
                "table"
            } else {
                "view"
            };
            let error = scope.unknown_relation(schema.as_deref(), &folded);
            Err(Error {
                message: error.message.replacen("relation", word, 1),
                ..error
            })
        }
    }
}

fn drop_schema(
    work: &mut Work<'_>,
    name: &ObjectName,
    if_exists: bool,
    cascade: bool,
) -> Result<()> {
    let (database, folded) = split_name(name)?;
    if database.is_some() {
        return Err(Error::new(
            SqlState::SyntaxError,
            format!("\"{name}\" is no schema name"),
        ));
    }
    let state = Arc::clone(work.changes.state());
    let Some(schema) = state.schema(&folded) else {
        if if_exists {
            return Ok(());
        }
        return Err(work.context.scope.unknown_schema(&folded));
    };
    let has_macros = schema.macros().next().is_some();
    let schema = schema.name.clone();
    if schema == MAIN_SCHEMA || schema == TEMPORARY_SCHEMA {
        return Err(Error::new(
            SqlState::DependentObjectsStillExist,
            format!("cannot drop schema {schema}: the database needs it"),
        ));
    }
    let relations = state.relations(&schema);
    let others = !state.types(&schema).is_empty() || !state.sequences(&schema).is_empty();
    if !cascade && (!relations.is_empty() || others || has_macros) {
        let list: Vec<String> = relations
            .iter()
            .map(|relation| format!("{} depends on schema {schema}", relation.name()))
            .collect();
        return Err(Error::new(
            SqlState::DependentObjectsStillExist,
            format!("cannot drop schema {schema} because other objects depend on it"),
        )
        .with_detail(list.join("; "))
        .with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
    }
    for relation in relations {
        match work.changes.state().relation(&schema, relation.name()) {
            Some(Relation::Table(entry)) => drop_table(work, &entry, true)?,
            Some(Relation::View(view)) => drop_view(work, &view, true)?,
            None => {}
        }
    }
    work.changes.drop_schema(&schema);
    Ok(())
}

fn drop_type(work: &mut Work<'_>, name: &ObjectName, if_exists: bool) -> Result<()> {
    let (schema, folded) = split_name(name)?;
    let state = Arc::clone(work.changes.state());
    let path: Vec<String> = match schema {
        Some(schema) => vec![schema],
        None => work.context.scope.path.to_vec(),
    };
    let holder = path.iter().find(|schema| {
        state
            .schema(schema)
            .is_some_and(|schema| schema.named_type(&folded).is_some())
    });
    match holder {
        Some(schema) => {
            let schema = state
                .schema(schema)
                .map_or_else(|| schema.clone(), |entry| entry.name.clone());
            work.changes.remove_type(&schema, &folded);
            Ok(())
        }
        None if if_exists => Ok(()),
        None => {
            let error = Error::new(
                SqlState::UndefinedObject,
                format!("type \"{folded}\" does not exist"),
            );
            let known: Vec<String> = path
                .iter()
                .flat_map(|schema| state.types(schema))
                .map(|entry| entry.name.clone())
                .collect();
            Err(match nearest(&folded, known.iter().map(String::as_str)) {
                Some(near) => error.with_hint(format!("Perhaps you meant the type \"{near}\".")),
                None => error,
            })
        }
    }
}
