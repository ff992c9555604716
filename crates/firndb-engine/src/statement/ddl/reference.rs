//! Foreign keys of definitions: what they refer to, and keeping both tables' entries true to each other.
//!
//! A foreign key stands in the referring table's constraints and, as a [`Referrer`], in the entry of the table that it refers to. That table's layout is
//! renewed when it gets its first word of a referrer: a transaction that holds the old entry would delete keys without asking.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::sql::sqlparser::ast::{
    ConstraintReferenceMatchKind, DeferrableInitial, ForeignKeyConstraint, ReferentialAction,
};

use super::definition::{DefinedConstraint, Kind, unique_name};
use super::{existing, rewrite};
use crate::catalog::{
    Constraint, ForeignKey, ReferenceAction, Referrer, Relation, TEMPORARY_SCHEMA, TableEntry, fold,
};
use crate::error::{Error, Result, SqlState};
use crate::statement::{Work, split_name, unknown_column};
use crate::types;

/// Reads FOREIGN KEY, or REFERENCES of the column `own`.
pub(super) fn defined(
    work: &Work<'_>,
    key: &ForeignKeyConstraint,
    own: Option<&str>,
) -> Result<DefinedConstraint> {
    if let Some(kind) = &key.match_kind
        && !matches!(kind, ConstraintReferenceMatchKind::Simple)
        && !(matches!(kind, ConstraintReferenceMatchKind::Full) && key.columns.len() <= 1)
    {
        return Err(Error::unsupported(format!("{kind} is not supported")));
    }
    let mut key = key.clone();
    if let Some(own) = own {
        key.columns = vec![own.into()];
    }
    if let Some(characteristics) = &key.characteristics
        && characteristics.enforced == Some(false)
    {
        return Err(Error::unsupported("NOT ENFORCED is not supported"));
    }
    Ok(DefinedConstraint {
        name: key.name.as_ref().map(|name| work.source.written(name)),
        kind: Kind::ForeignKey(Box::new(key)),
    })
}

/// Finds the table and the columns that a foreign key of `table` refers to.
pub(super) fn resolve(
    work: &Work<'_>,
    table: &TableEntry,
    defined: &DefinedConstraint,
    key: &ForeignKeyConstraint,
) -> Result<ForeignKey> {
    let mut columns = Vec::with_capacity(key.columns.len());
    for name in &key.columns {
        let position = table.column(&name.value).ok_or_else(|| Error {
            message: format!(
                "column \"{}\" referenced in foreign key constraint does not exist",
                name.value
            ),
            ..unknown_column(table, &name.value)
        })?;
        if columns.contains(&position) {
            return Err(Error::new(
                SqlState::DuplicateColumn,
                format!("column \"{}\" appears twice in a key", name.value),
            ));
        }
        columns.push(position);
    }
    let own = |schema: Option<&str>, name: &str| {
        fold(name) == fold(&table.name)
            && schema.is_none_or(|schema| is_schema(work, schema, &table.schema))
    };
    let (schema, name) = split_name(&key.foreign_table)?;
    let parent = match own(schema.as_deref(), &name) {
        true => Arc::new(table.clone()),
        false => work.context.table(&key.foreign_table)?,
    };
    let parent = match existing(work, &parent.schema, &parent.name) {
        Some(Relation::Table(newest))
            if newest.name == parent.name && newest.name != table.name =>
        {
            newest
        }
        _ => parent,
    };
    if parent.temporary != table.temporary {
        let (one, other) = match table.temporary {
            true => ("temporary", "temporary"),
            false => ("permanent", "permanent"),
        };
        return Err(Error::new(
            SqlState::InvalidTableDefinition,
            format!("constraints on {one} tables may reference only {other} tables"),
        ));
    }
    let mut referred = Vec::with_capacity(columns.len());
    for name in &key.referred_columns {
        referred.push(
            parent
                .column(&name.value)
                .ok_or_else(|| unknown_column(&parent, &name.value))?,
        );
    }
    if referred.is_empty() {
        let primary = parent.constraints.iter().find_map(|one| match one {
            Constraint::PrimaryKey { columns, .. } => Some(columns.clone()),
            _ => None,
        });
        referred = primary.ok_or_else(|| {
            Error::new(
                SqlState::UndefinedObject,
                format!(
                    "there is no primary key for referenced table \"{}\"",
                    parent.name
                ),
            )
        })?;
    }
    if referred.len() != columns.len() {
        return Err(Error::new(
            SqlState::InvalidForeignKey,
            "number of referencing and referenced columns for foreign key disagree",
        ));
    }
    if parent.unique_key_over(&referred).is_none() {
        return Err(Error::new(
            SqlState::InvalidForeignKey,
            format!(
                "there is no unique constraint matching given keys for referenced table \"{}\"",
                parent.name
            ),
        ));
    }
    let names: Vec<String> = columns
        .iter()
        .map(|&column| table.columns[column].field.name().clone())
        .collect();
    let name = unique_name(table, defined, "fkey", &names);
    for (&column, &target) in columns.iter().zip(&referred) {
        check_types(&name, table, column, &parent, target)?;
    }
    let characteristics = key.characteristics.as_ref();
    let deferred = characteristics
        .is_some_and(|how| matches!(how.initially, Some(DeferrableInitial::Deferred)));
    let deferrable = characteristics.and_then(|how| how.deferrable);
    if deferred && deferrable == Some(false) {
        return Err(Error::new(
            SqlState::SyntaxError,
            "constraint declared INITIALLY DEFERRED must be DEFERRABLE",
        ));
    }
    Ok(ForeignKey {
        name,
        columns,
        schema: parent.schema.clone(),
        table: parent.name.clone(),
        referred: referred
            .iter()
            .map(|&column| parent.columns[column].field.name().clone())
            .collect(),
        on_delete: action(key.on_delete.as_ref()),
        on_update: action(key.on_update.as_ref()),
        deferrable: deferred || deferrable == Some(true),
        deferred,
    })
}

fn action(given: Option<&ReferentialAction>) -> ReferenceAction {
    match given {
        None | Some(ReferentialAction::NoAction) => ReferenceAction::NoAction,
        Some(ReferentialAction::Restrict) => ReferenceAction::Restrict,
        Some(ReferentialAction::Cascade) => ReferenceAction::Cascade,
        Some(ReferentialAction::SetNull) => ReferenceAction::SetNull,
        Some(ReferentialAction::SetDefault) => ReferenceAction::SetDefault,
    }
}

/// 42804 unless values of the one type can be keys of the other.
fn check_types(
    name: &str,
    table: &TableEntry,
    column: usize,
    parent: &TableEntry,
    target: usize,
) -> Result<()> {
    let (own, other) = (&table.columns[column].field, &parent.columns[target].field);
    let kind = |data_type: &DataType| match data_type {
        data_type if data_type.is_integer() => 1,
        DataType::Decimal64(..) | DataType::Decimal128(..) => 2,
        DataType::Float32 | DataType::Float64 => 3,
        DataType::Utf8 => 4,
        DataType::Timestamp(_, zone) => 5 + i32::from(zone.is_some()),
        _ => 0,
    };
    let (a, b) = (own.data_type(), other.data_type());
    if a == b || kind(a) != 0 && kind(a) == kind(b) || kind(a) == 1 && kind(b) == 2 {
        return Ok(());
    }
    Err(Error::new(
        SqlState::DatatypeMismatch,
        format!("foreign key constraint \"{name}\" cannot be implemented"),
    )
    .with_detail(format!(
        "Key columns \"{}\" of the referencing table and \"{}\" of the referenced table are of incompatible types: {} and {}.",
        own.name(),
        other.name(),
        types::sql_name(own).to_lowercase(),
        types::sql_name(other).to_lowercase()
    )))
}

/// Tells the tables that the foreign keys of a new entry refer to, or of one that has new ones.
pub(super) fn link(work: &mut Work<'_>, entry: &mut TableEntry) -> Result<()> {
    let keys: Vec<ForeignKey> = entry.foreign_keys().cloned().collect();
    for key in keys {
        let referrer = Referrer {
            schema: entry.schema.clone(),
            table: entry.name.clone(),
            constraint: key.name.clone(),
        };
        if is_own(entry, &key) {
            if !entry.referrers.contains(&referrer) {
                entry.referrers.push(referrer);
            }
            continue;
        }
        let parent = work.changes.state().exact_table(&key.schema, &key.table);
        let Some(parent) = parent.filter(|parent| !parent.referrers.contains(&referrer)) else {
            continue;
        };
        let mut changed = parent.as_ref().clone();
        changed.table = parent.table.renewed(&work.context.transaction)?;
        changed.referrers.push(referrer);
        work.changes.put(Relation::Table(Arc::new(changed)));
    }
    Ok(())
}

/// Whether a foreign key refers to its own table.
pub(super) fn is_own(entry: &TableEntry, key: &ForeignKey) -> bool {
    key.table == entry.name && fold(&key.schema) == fold(&entry.schema)
}

/// Tells the table that a foreign key refers to that it is gone.
pub(super) fn unlink(work: &mut Work<'_>, entry: &TableEntry, key: &ForeignKey) {
    if is_own(entry, key) {
        return;
    }
    if let Some(parent) = work.changes.state().exact_table(&key.schema, &key.table) {
        let mut changed = parent.as_ref().clone();
        changed
            .referrers
            .retain(|one| !(one.is_of(entry) && one.constraint == key.name));
        work.changes.put(Relation::Table(Arc::new(changed)));
    }
}

/// The foreign keys that refer to a table: each with the table that it is of.
pub(super) fn referring(work: &Work<'_>, entry: &TableEntry) -> Vec<(Arc<TableEntry>, ForeignKey)> {
    let state = work.changes.state();
    entry
        .referrers
        .iter()
        .filter_map(|referrer| {
            let table = match referrer.is_of(entry) {
                true => Arc::new(entry.clone()),
                false => state.exact_table(&referrer.schema, &referrer.table)?,
            };
            let key = table
                .foreign_keys()
                .find(|key| key.name == referrer.constraint)?;
            let key = key.clone();
            Some((table, key))
        })
        .collect()
}

/// Takes away the foreign keys of other tables that refer to this one and of which `goes` says so; 2BP01 unless `cascade`. The table's own entry is the
/// caller's to change.
pub(super) fn drop_referring(
    work: &mut Work<'_>,
    entry: &TableEntry,
    cascade: bool,
    what: &str,
    goes: impl Fn(&TableEntry, &ForeignKey) -> bool,
) -> Result<()> {
    let found: Vec<_> = referring(work, entry)
        .into_iter()
        .filter(|(table, key)| !is_own(table, key) && goes(table, key))
        .collect();
    if !cascade && !found.is_empty() {
        let list: Vec<String> = found
            .iter()
            .map(|(table, key)| {
                format!(
                    "constraint {} on table {} depends on {what}",
                    key.name, table.name
                )
            })
            .collect();
        return Err(Error::new(
            SqlState::DependentObjectsStillExist,
            format!("cannot drop {what} because other objects depend on it"),
        )
        .with_detail(list.join("; "))
        .with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
    }
    for (table, key) in found {
        let transaction = &work.context.transaction;
        let table = work
            .changes
            .state()
            .exact_table(&table.schema, &table.name)
            .unwrap_or(table);
        table.table.drop_index(transaction, &key.name)?;
        let mut changed = table.as_ref().clone();
        changed.constraints.retain(|one| one.name() != key.name);
        work.changes.put(Relation::Table(Arc::new(changed)));
    }
    Ok(())
}

/// Changes the foreign keys of other tables that refer to this one, and those of its own that do.
pub(super) fn change_referring(
    work: &mut Work<'_>,
    entry: &TableEntry,
    changed: &mut TableEntry,
    change: impl Fn(&mut ForeignKey),
) {
    for (table, key) in referring(work, entry) {
        let apply = |table: &mut TableEntry| {
            for constraint in &mut table.constraints {
                if let Constraint::ForeignKey(one) = constraint
                    && one.name == key.name
                {
                    change(one);
                }
            }
        };
        if is_own(&table, &key) {
            apply(changed);
            continue;
        }
        // Several of its foreign keys may refer to this table.
        let newest = work.changes.state().exact_table(&table.schema, &table.name);
        let mut other = newest.unwrap_or(table).as_ref().clone();
        apply(&mut other);
        work.changes.put(Relation::Table(Arc::new(other)));
    }
}

/// Tells the tables that this one's foreign keys refer to what it, or one of them, is called now.
pub(super) fn rename_referrers(
    work: &mut Work<'_>,
    entry: &TableEntry,
    changed: &mut TableEntry,
    rename: impl Fn(&mut Referrer),
) {
    for referrer in changed.referrers.iter_mut().filter(|one| one.is_of(entry)) {
        rename(referrer);
    }
    for key in entry.foreign_keys().filter(|key| !is_own(entry, key)) {
        if let Some(parent) = work.changes.state().exact_table(&key.schema, &key.table) {
            let mut parent = parent.as_ref().clone();
            for referrer in parent.referrers.iter_mut().filter(|one| one.is_of(entry)) {
                rename(referrer);
            }
            work.changes.put(Relation::Table(Arc::new(parent)));
        }
    }
}

/// 23503 when a row of the table refers to nothing.
pub(super) async fn check_rows(
    work: &Work<'_>,
    entry: &TableEntry,
    key: &ForeignKey,
) -> Result<()> {
    let names = entry.folded_names();
    let alias = "__firndb_child";
    let of_row = |position: &usize| format!("{alias}.{}", rewrite::quoted(&names[*position]));
    let given: Vec<String> = key
        .columns
        .iter()
        .map(|position| format!("{} IS NOT NULL", of_row(position)))
        .collect();
    let parent = match is_own(entry, key) {
        true => Some(Arc::new(entry.clone())),
        false => work.changes.state().exact_table(&key.schema, &key.table),
    };
    let parent = parent.ok_or_else(|| Error::internal("a table of a foreign key vanished"))?;
    let parent_names = parent.folded_names();
    let matches: Vec<String> = key
        .columns
        .iter()
        .zip(&key.referred)
        .filter_map(|(position, referred)| {
            let column = parent.column(referred)?;
            Some(format!(
                "__firndb_parent.{} = {}",
                rewrite::quoted(&parent_names[column]),
                of_row(position)
            ))
        })
        .collect();
    let source = match is_own(entry, key) {
        true => crate::statement::TARGET.to_owned(),
        false => format!(
            "{}.{}",
            rewrite::quoted(&parent.schema),
            rewrite::quoted(&parent.name)
        ),
    };
    let condition = format!(
        "{} AND NOT EXISTS (SELECT 1 FROM {source} AS __firndb_parent WHERE {})",
        given.join(" AND "),
        matches.join(" AND ")
    );
    if rewrite::any_row_as(work, entry, alias, &condition).await? {
        return Err(Error::new(
            SqlState::ForeignKeyViolation,
            format!(
                "insert or update on table \"{}\" violates foreign key constraint \"{}\"",
                entry.name, key.name
            ),
        )
        .with_detail(format!(
            "A row refers to a key that is not present in table \"{}\".",
            parent.name
        )));
    }
    Ok(())
}

fn is_schema(work: &Work<'_>, name: &str, schema: &str) -> bool {
    let state = work.changes.state();
    fold(name) == fold(schema)
        || fold(schema) != TEMPORARY_SCHEMA
            && state.schema(name).is_some_and(|found| found.name == schema)
}
