//! CREATE INDEX, DROP INDEX, ALTER INDEX.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    AlterIndexOperation, CreateIndex, Expr, Ident, IndexColumn, IndexType, ObjectName, OrderByExpr,
};

use super::{constraint, definition, duplicate, existing};
use crate::catalog::{
    Constraint, ForeignKey, IndexEntry, IndexKey, IndexPart, Relation, TEMPORARY_SCHEMA,
    TableEntry, fold,
};
use crate::error::{Error, Result, SqlState, nearest};
use crate::session::Outcome;
use crate::statement::keys::index_definition;
use crate::statement::{Work, split_name, unknown_column};
use firndb_storage::IndexDefinition;

/// CREATE INDEX.
pub(super) fn create_index(work: &mut Work<'_>, create: &CreateIndex) -> Result<Outcome> {
    let done = Outcome::done("CREATE INDEX");
    check_options(create)?;
    let entry = work.context.table(&create.table_name)?;
    let entry = newest(work, &entry);
    let parts = create
        .columns
        .iter()
        .map(|column| part(&entry, column))
        .collect::<Result<Vec<_>>>()?;
    for column in &create.include {
        if entry.column(&column.value).is_none() {
            return Err(unknown_column(&entry, &column.value));
        }
    }
    let name = match &create.name {
        Some(name) => {
            let (schema, written) = written_name(work, name)?;
            if schema.is_some_and(|schema| !is_schema(work, &schema, &entry)) {
                return Err(Error::new(
                    SqlState::SyntaxError,
                    "an index is in the schema of its table",
                ));
            }
            if is_taken(work, &entry.schema, &written) {
                return match create.if_not_exists {
                    true => Ok(done),
                    false => Err(duplicate(&written)),
                };
            }
            written
        }
        None if create.if_not_exists => {
            return Err(Error::new(
                SqlState::SyntaxError,
                "CREATE INDEX IF NOT EXISTS needs a name",
            ));
        }
        None => made_name(work, &entry, &parts),
    };
    let index = IndexEntry {
        name,
        unique: create.unique,
        parts,
        predicate: create.predicate.clone(),
    };
    let definition = index_definition(work.context, &entry, &index)?;
    let transaction = &work.context.transaction;
    entry.table.create_index(transaction, &definition)?;
    let mut changed = entry.as_ref().clone();
    changed.indexes.push(index);
    work.changes.put(Relation::Table(Arc::new(changed)));
    Ok(done)
}

/// DROP INDEX of one name.
pub(super) fn drop_index(work: &mut Work<'_>, name: &ObjectName, if_exists: bool) -> Result<()> {
    let Some((entry, found)) = find(work, name)? else {
        return match if_exists {
            true => Ok(()),
            false => Err(unknown_index(work, name)),
        };
    };
    if let Some(constraint) = entry.constraints.iter().find(|one| one.name() == found) {
        let name = constraint.name();
        return Err(Error::new(
            SqlState::DependentObjectsStillExist,
            format!(
                "cannot drop index {name} because constraint {name} on table {} requires it",
                entry.name
            ),
        )
        .with_hint("Drop the constraint instead."));
    }
    let mut changed = entry.as_ref().clone();
    changed.indexes.retain(|index| index.name != found);
    constraint::require_keys(work, &entry, &mut changed, false, &format!("index {found}"))?;
    let transaction = &work.context.transaction;
    entry.table.drop_index(transaction, &found)?;
    work.changes.put(Relation::Table(Arc::new(changed)));
    Ok(())
}

/// ALTER INDEX … RENAME TO.
pub(super) fn alter_index(
    work: &mut Work<'_>,
    name: &ObjectName,
    operation: &AlterIndexOperation,
) -> Result<Outcome> {
    let AlterIndexOperation::RenameIndex { index_name } = operation;
    let Some((entry, found)) = find(work, name)? else {
        return Err(unknown_index(work, name));
    };
    let (_, written) = written_name(work, index_name)?;
    if is_taken(work, &entry.schema, &written) {
        return Err(duplicate(&written));
    }
    let changed = renamed(work, &entry, &found, &written)?;
    work.changes.put(Relation::Table(Arc::new(changed)));
    Ok(Outcome::done("ALTER INDEX"))
}

/// The table whose index, or constraint, has another name.
pub(super) fn renamed(
    work: &Work<'_>,
    entry: &TableEntry,
    old: &str,
    new: &str,
) -> Result<TableEntry> {
    let mut changed = entry.clone();
    let transaction = &work.context.transaction;
    if let Some(constraint) = changed.constraints.iter_mut().find(|one| one.name() == old) {
        entry.table.lock_exclusive(transaction)?;
        let columns = constraint.key().map(<[usize]>::to_vec);
        constraint.rename(new);
        if let Constraint::ForeignKey(key) = constraint {
            let definition = reference_index(key);
            entry.table.rename_index(transaction, old, &definition)?;
        }
        if let Some(columns) = columns {
            let definition = IndexDefinition {
                name: new.to_owned(),
                columns,
                unique: true,
                order: Vec::new(),
                program: None,
            };
            entry.table.rename_index(transaction, old, &definition)?;
        }
        return Ok(changed);
    }
    if let Some(index) = changed.indexes.iter_mut().find(|index| index.name == old) {
        new.clone_into(&mut index.name);
        let definition = index_definition(work.context, entry, index)?;
        entry.table.rename_index(transaction, old, &definition)?;
    }
    Ok(changed)
}

/// Makes the indexes of an entry in new storage.
pub(super) fn create_all(work: &Work<'_>, entry: &TableEntry) -> Result<()> {
    let transaction = &work.context.transaction;
    for constraint in &entry.constraints {
        if let Some(key) = constraint.key() {
            entry
                .table
                .create_unique_index(transaction, constraint.name(), key)?;
        }
    }
    for key in entry.foreign_keys() {
        entry
            .table
            .create_index(transaction, &reference_index(key))?;
    }
    for index in &entry.indexes {
        let definition = index_definition(work.context, entry, index)?;
        entry.table.create_index(transaction, &definition)?;
    }
    Ok(())
}

/// The index over what refers to another table.
pub(super) fn reference_index(key: &ForeignKey) -> IndexDefinition {
    IndexDefinition {
        name: key.name.clone(),
        columns: key.columns.clone(),
        unique: false,
        order: Vec::new(),
        program: None,
    }
}

/// Whether an index names a column.
pub(super) fn mentions(entry: &TableEntry, index: &IndexEntry, position: usize) -> bool {
    let of_parts = index
        .parts
        .iter()
        .any(|part| matches!(part.key, IndexKey::Column(column) if column == position));
    of_parts
        || index
            .expressions()
            .any(|one| definition::mentioned_columns(entry, one).contains(&position))
}

/// An index after the column at `position`, which it does not name, went away.
pub(super) fn shifted(index: &IndexEntry, position: usize) -> IndexEntry {
    let mut index = index.clone();
    for part in &mut index.parts {
        if let IndexKey::Column(column) = &mut part.key {
            *column -= usize::from(*column > position);
        }
    }
    index
}

/// The statement's own catalog may already show what an earlier part of the same statement made.
fn newest(work: &Work<'_>, entry: &Arc<TableEntry>) -> Arc<TableEntry> {
    match existing(work, &entry.schema, &entry.name) {
        Some(Relation::Table(newest)) => newest,
        _ => Arc::clone(entry),
    }
}

fn check_options(create: &CreateIndex) -> Result<()> {
    let kinds =
        create.using.iter().chain(
            create
                .index_options
                .iter()
                .filter_map(|option| match option {
                    datafusion::sql::sqlparser::ast::IndexOption::Using(kind) => Some(kind),
                    datafusion::sql::sqlparser::ast::IndexOption::Comment(_) => None,
                }),
        );
    for kind in kinds {
        match kind {
            IndexType::BTree | IndexType::Hash => {}
            IndexType::Custom(name) if fold(&name.value) == "art" => {}
            other => {
                return Err(Error::new(
                    SqlState::UndefinedObject,
                    format!(
                        "access method \"{}\" does not exist",
                        other.to_string().to_lowercase()
                    ),
                )
                .with_hint("Indexes are btree."));
            }
        }
    }
    if create.nulls_distinct == Some(false) {
        return Err(Error::unsupported("NULLS NOT DISTINCT is not supported"));
    }
    if !create.with.is_empty() || !create.alter_options.is_empty() {
        return Err(Error::unsupported(
            "options of CREATE INDEX are not supported",
        ));
    }
    if create.columns.is_empty() {
        return Err(Error::new(
            SqlState::SyntaxError,
            "an index has at least one column",
        ));
    }
    Ok(())
}

/// A part of the key.
fn part(entry: &TableEntry, column: &IndexColumn) -> Result<IndexPart> {
    if let Some(class) = &column.operator_class
        && !class.to_string().ends_with("_ops")
    {
        return Err(Error::new(
            SqlState::UndefinedObject,
            format!("operator class \"{class}\" does not exist"),
        ));
    }
    let OrderByExpr {
        expr,
        options,
        with_fill: None,
    } = &column.column
    else {
        return Err(Error::new(
            SqlState::SyntaxError,
            "WITH FILL is no part of an index",
        ));
    };
    let descending = options.asc == Some(false);
    Ok(IndexPart {
        key: key(entry, expr)?,
        descending,
        nulls_first: options.nulls_first.unwrap_or(descending),
    })
}

fn key(entry: &TableEntry, expression: &Expr) -> Result<IndexKey> {
    match expression {
        Expr::Nested(inner) => key(entry, inner),
        Expr::Collate { expr, collation } => {
            definition::check_collation(collation)?;
            key(entry, expr)
        }
        Expr::Identifier(name) => {
            let position = entry
                .column(&name.value)
                .ok_or_else(|| unknown_column(entry, &name.value))?;
            Ok(IndexKey::Column(position))
        }
        other => Ok(IndexKey::Expression(other.clone())),
    }
}

fn written_name(work: &Work<'_>, name: &ObjectName) -> Result<(Option<String>, String)> {
    let (schema, folded) = split_name(name)?;
    let ident = name.0.last().and_then(|part| part.as_ident());
    let written = ident.map_or(folded, |ident: &Ident| work.source.written(ident));
    Ok((schema, written))
}

fn is_schema(work: &Work<'_>, name: &str, entry: &TableEntry) -> bool {
    let state = work.changes.state();
    state
        .schema(name)
        .is_some_and(|schema| schema.name == entry.schema)
}

/// Whether a relation or an index of a schema has a name.
pub(super) fn is_taken(work: &Work<'_>, schema: &str, name: &str) -> bool {
    let folded = fold(name);
    let relations = work.changes.state().relations(schema);
    relations.iter().any(|relation| {
        fold(relation.name()) == folded
            || matches!(relation, Relation::Table(table) if index_names(table).any(|one| fold(one) == folded))
    })
}

/// `table_column_idx`, with a number where that is taken.
fn made_name(work: &Work<'_>, entry: &TableEntry, parts: &[IndexPart]) -> String {
    let mut words = vec![entry.name.as_str()];
    words.extend(parts.iter().map(|part| {
        match &part.key {
            IndexKey::Column(position) => entry.columns[*position].field.name().as_str(),
            IndexKey::Expression(Expr::Function(function)) => function
                .name
                .0
                .last()
                .and_then(|part| part.as_ident())
                .map_or("expr", |ident| ident.value.as_str()),
            IndexKey::Expression(_) => "expr",
        }
    }));
    words.push("idx");
    let base = words.join("_");
    let mut name = base.clone();
    let mut number = 1;
    while is_taken(work, &entry.schema, &name) {
        name = format!("{base}{number}");
        number += 1;
    }
    name
}

fn index_names(table: &TableEntry) -> impl Iterator<Item = &str> {
    let keys = table.constraints.iter().filter(|one| one.key().is_some());
    let of_constraints = keys.map(Constraint::name);
    of_constraints.chain(table.indexes.iter().map(|index| index.name.as_str()))
}

fn schemas(work: &Work<'_>, schema: Option<String>) -> Vec<String> {
    match schema {
        Some(schema) => vec![schema],
        None => std::iter::once(TEMPORARY_SCHEMA.to_owned())
            .chain(work.context.scope.path.iter().cloned())
            .collect(),
    }
}

/// The table and the exact name of an index: by its exact name first, then without regard to case.
fn find(work: &Work<'_>, name: &ObjectName) -> Result<Option<(Arc<TableEntry>, String)>> {
    let (schema, folded) = split_name(name)?;
    let state = work.changes.state();
    for schema in schemas(work, schema) {
        let tables: Vec<Arc<TableEntry>> = state
            .relations(&schema)
            .into_iter()
            .filter_map(|relation| match relation {
                Relation::Table(entry) => Some(entry),
                Relation::View(_) => None,
            })
            .collect();
        for exact in [true, false] {
            for entry in &tables {
                let same = |one: &&str| match exact {
                    true => **one == folded,
                    false => fold(one) == fold(&folded),
                };
                if let Some(found) = index_names(entry).find(same) {
                    return Ok(Some((Arc::clone(entry), found.to_owned())));
                }
            }
        }
        if state.relation(&schema, &folded).is_some() {
            return Err(Error::new(
                SqlState::WrongObjectType,
                format!("\"{folded}\" is not an index"),
            ));
        }
    }
    Ok(None)
}

fn unknown_index(work: &Work<'_>, name: &ObjectName) -> Error {
    let (schema, folded) = match split_name(name) {
        Ok(parts) => parts,
        Err(error) => return error,
    };
    let error = Error::new(
        SqlState::UndefinedObject,
        format!("index \"{folded}\" does not exist"),
    );
    let mut names = Vec::new();
    for schema in schemas(work, schema) {
        for relation in work.changes.state().relations(&schema) {
            if let Relation::Table(entry) = relation {
                names.extend(index_names(&entry).map(str::to_owned));
            }
        }
    }
    match nearest(&folded, names.iter().map(String::as_str)) {
        Some(near) => error.with_hint(format!("Perhaps you meant the index \"{near}\".")),
        None => error,
    }
}
