//! Constraints of tables that exist.

use std::sync::Arc;

use super::definition::{self, DefinedConstraint, Kind};
use super::{index, reference, rewrite};
use crate::catalog::{Constraint, ForeignKey, TableEntry};
use crate::error::{Error, Result, SqlState};
use crate::statement::Work;

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
    work: &mut Work<'_>,
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
            // Whoever holds the old entry would write NULLs.
            changed.table = changed.table.renewed(&work.context.transaction)?;
            for position in key {
                rewrite::check_no_nulls(work, entry, position).await?;
                let column = changed.columns[position].clone();
                changed.columns[position] = super::alter::nullability(column, false);
            }
            Ok(changed)
        }
        Kind::ForeignKey(_) => {
            let changed = add_reference(work, entry, defined)?;
            let added = changed.foreign_keys().last().cloned();
            if let Some(key) = added {
                reference::check_rows(work, entry, &key).await?;
            }
            Ok(changed)
        }
        Kind::Check(condition) => {
            let constraint = definition::resolve(work, entry, defined)?;
            let mut changed = entry.clone();
            // Whoever holds the old entry would write without asking.
            changed.table = entry.table.renewed(&work.context.transaction)?;
            rewrite::check_holds(work, entry, constraint.name(), condition).await?;
            changed.constraints.push(constraint);
            Ok(changed)
        }
    }
}

/// The table without a constraint.
pub(super) fn without_constraint(
    work: &mut Work<'_>,
    entry: &TableEntry,
    name: &str,
    cascade: bool,
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
        require_keys(
            work,
            entry,
            &mut changed,
            cascade,
            &format!("constraint {name} on table {}", entry.name),
        )?;
    }
    if let Constraint::ForeignKey(key) = &constraint {
        entry.table.drop_index(transaction, &key.name)?;
        changed
            .referrers
            .retain(|one| !(one.is_of(entry) && one.constraint == key.name));
        reference::unlink(work, entry, key);
    }
    Ok(changed)
}

/// Adds a foreign key; whether rows hold to it is for the caller to see.
pub(super) fn add_reference(
    work: &mut Work<'_>,
    entry: &TableEntry,
    defined: &DefinedConstraint,
) -> Result<TableEntry> {
    let constraint = definition::resolve(work, entry, defined)?;
    let transaction = Arc::clone(&work.context.transaction);
    let mut changed = entry.clone();
    // Whoever holds the old entry would write without asking.
    changed.table = entry.table.renewed(&transaction)?;
    if let Constraint::ForeignKey(key) = &constraint {
        let definition = index::reference_index(key);
        changed.table.create_index(&transaction, &definition)?;
    }
    changed.constraints.push(constraint);
    reference::link(work, &mut changed)?;
    Ok(changed)
}

/// Sees that each foreign key which refers to a changed table still has a unique key to refer to; without one it goes, if `cascade`.
pub(super) fn require_keys(
    work: &mut Work<'_>,
    entry: &TableEntry,
    changed: &mut TableEntry,
    cascade: bool,
    what: &str,
) -> Result<()> {
    let lacks = |changed: &TableEntry, key: &ForeignKey| {
        let columns: Option<Vec<usize>> = key
            .referred
            .iter()
            .map(|name| changed.column(name))
            .collect();
        columns.is_none_or(|columns| changed.unique_key_over(&columns).is_none())
    };
    let own: Vec<ForeignKey> = changed
        .foreign_keys()
        .filter(|key| reference::is_own(entry, key) && lacks(changed, key))
        .cloned()
        .collect();
    if let Some(key) = own.first() {
        if !cascade {
            return Err(Error::new(
                SqlState::DependentObjectsStillExist,
                format!("cannot drop {what} because other objects depend on it"),
            )
            .with_detail(format!(
                "constraint {} on table {} depends on {what}",
                key.name, entry.name
            ))
            .with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        for key in &own {
            entry
                .table
                .drop_index(&work.context.transaction, &key.name)?;
            changed.constraints.retain(|one| one.name() != key.name);
            changed
                .referrers
                .retain(|one| !(one.is_of(entry) && one.constraint == key.name));
        }
    }
    let now = changed.clone();
    reference::drop_referring(work, entry, cascade, what, |_, key| lacks(&now, key))?;
    let state = work.changes.state();
    changed.referrers.retain(|one| {
        one.is_of(entry)
            || state
                .exact_table(&one.schema, &one.table)
                .is_some_and(|table| table.foreign_keys().any(|key| key.name == one.constraint))
    });
    Ok(())
}
