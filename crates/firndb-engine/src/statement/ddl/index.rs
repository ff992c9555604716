//! Indexes and constraints of tables that exist.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::CreateIndex;

use super::definition::{self, DefinedConstraint, Kind};
use super::rewrite;
use crate::catalog::{Constraint, Relation, TableEntry};
use crate::error::{Error, Result, SqlState};
use crate::session::Outcome;
use crate::statement::Work;

/// CREATE UNIQUE INDEX.
pub(super) fn create_index(work: &mut Work<'_>, create: &CreateIndex) -> Result<Outcome> {
    if !create.unique {
        return Err(
            Error::unsupported("indexes that are not unique are not supported yet")
                .with_hint("Queries skip blocks by their least and greatest values without one."),
        );
    }
    if create.predicate.is_some() || !create.include.is_empty() {
        return Err(Error::unsupported(
            "partial and covering indexes are not supported",
        ));
    }
    if create.nulls_distinct == Some(false) {
        return Err(Error::unsupported("NULLS NOT DISTINCT is not supported"));
    }
    let entry = work.context.table(&create.table_name)?;
    let name = create.name.as_ref().and_then(|name| {
        name.0
            .last()
            .and_then(|part| part.as_ident())
            .map(|ident| work.source.written(ident))
    });
    let columns = definition::key_columns(&create.columns)?;
    if let Some(name) = &name
        && entry
            .constraints
            .iter()
            .any(|constraint| constraint.name() == name)
    {
        if create.if_not_exists {
            return Ok(Outcome::done("CREATE INDEX"));
        }
        return Err(Error::new(
            SqlState::DuplicateTable,
            format!("relation \"{name}\" already exists"),
        ));
    }
    let name = name.or_else(|| Some(format!("{}_{}_idx", entry.name, columns.join("_"))));
    let defined = DefinedConstraint {
        name,
        kind: Kind::Unique(columns),
    };
    let changed = add_key(work, &entry, &defined)?;
    work.changes.put(Relation::Table(Arc::new(changed)));
    Ok(Outcome::done("CREATE INDEX"))
}

/// Adds a key to a table that may have rows: 23505 when they break it.
pub(super) fn add_key(
    work: &Work<'_>,
    entry: &TableEntry,
    defined: &DefinedConstraint,
) -> Result<TableEntry> {
    let constraint = definition::resolve(work, entry, defined)?;
    let transaction = &work.context.transaction;
    entry.table.lock_exclusive(transaction)?;
    if let Some(key) = constraint.key() {
        entry
            .table
            .create_unique_index(transaction, constraint.name(), key)?;
    }
    let mut changed = entry.clone();
    changed.constraints.push(constraint);
    Ok(changed)
}

/// Adds any constraint to a table that may have rows.
pub(super) async fn add_constraint(
    work: &Work<'_>,
    entry: &TableEntry,
    defined: &DefinedConstraint,
) -> Result<TableEntry> {
    match &defined.kind {
        Kind::Unique(_) => add_key(work, entry, defined),
        Kind::PrimaryKey(_) => {
            let mut changed = add_key(work, entry, defined)?;
            let key: Vec<usize> = changed
                .constraints
                .last()
                .and_then(Constraint::key)
                .map(<[usize]>::to_vec)
                .unwrap_or_default();
            for position in key {
                rewrite::check_no_nulls(work, entry, position).await?;
                let column = changed.columns[position].clone();
                changed.columns[position] = super::alter::nullability(column, false);
            }
            Ok(changed)
        }
        Kind::Check(condition) => {
            let constraint = definition::resolve(work, entry, defined)?;
            entry.table.lock_exclusive(&work.context.transaction)?;
            rewrite::check_holds(work, entry, constraint.name(), condition).await?;
            let mut changed = entry.clone();
            changed.constraints.push(constraint);
            Ok(changed)
        }
    }
}

/// Takes a constraint away.
pub(super) fn drop_constraint(work: &mut Work<'_>, entry: &TableEntry, name: &str) -> Result<()> {
    let changed = without_constraint(work, entry, name)?;
    work.changes.put(Relation::Table(Arc::new(changed)));
    Ok(())
}

/// The table without a constraint.
pub(super) fn without_constraint(
    work: &Work<'_>,
    entry: &TableEntry,
    name: &str,
) -> Result<TableEntry> {
    let transaction = &work.context.transaction;
    entry.table.lock_exclusive(transaction)?;
    let mut changed = entry.clone();
    let position = changed
        .constraints
        .iter()
        .position(|constraint| constraint.name() == name)
        .ok_or_else(|| Error::internal("a constraint vanished"))?;
    let constraint = changed.constraints.remove(position);
    if constraint.key().is_some() {
        entry
            .table
            .drop_unique_index(transaction, constraint.name())?;
    }
    Ok(changed)
}
