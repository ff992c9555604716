//! ALTER TABLE.
//!
//! Each operation makes a new entry and puts it into the catalog; the old layout is retired, so that a transaction that still
//! holds the old entry fails with 40001 when it writes.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::compute::cast;
use datafusion::sql::sqlparser::ast::{
    AlterColumnOperation, AlterTable, AlterTableOperation, ColumnDef, DataType as SqlType,
    DropBehavior, Expr, RenameTableNameKind, visit_expressions,
};
use futures::StreamExt;

use super::definition::{self, DefinedConstraint, Kind};
use super::{constraint, depend, drop, index, reference, rename, rewrite, sequence};
use crate::catalog::{Column, Constraint, ForeignKey, Relation, TableEntry, fold};
use crate::error::{Error, Result, SqlState, nearest};
use crate::session::Outcome;
use crate::statement::{Work, split_name, unknown_column};
use crate::{expr, parse};

/// ALTER TABLE.
pub(super) async fn alter_table(work: &mut Work<'_>, alter: &AlterTable) -> Result<Outcome> {
    if alter.on_cluster.is_some() || alter.location.is_some() {
        return Err(Error::unsupported(
            "this form of ALTER TABLE is not supported",
        ));
    }
    if let [AlterTableOperation::RenameTable { table_name }] = alter.operations.as_slice()
        && let (schema, view) = split_name(&alter.name)?
        && let Some(Relation::View(view)) = work.context.scope.relation(schema.as_deref(), &view)
    {
        let name = new_name(work, table_name, &view.schema)?;
        rename::rename_view(work, &view, name)?;
        return Ok(Outcome::done("ALTER VIEW"));
    }
    let entry = match work.context.table(&alter.name) {
        Ok(entry) => entry,
        Err(error) if alter.if_exists && error.state == SqlState::UndefinedTable => {
            return Ok(Outcome::done("ALTER TABLE"));
        }
        Err(error) => return Err(error),
    };
    let mut current = entry.as_ref().clone();
    for (number, operation) in alter.operations.iter().enumerate() {
        let next;
        let context = match number {
            0 => work.context,
            _ => {
                // An operation sees the rows and the catalog that those before it left.
                work.context.transaction.begin_statement();
                let arguments = work.context.scope.arguments.as_ref().clone();
                next = work
                    .context
                    .renewed_in(Arc::clone(work.changes.state()), arguments);
                &next
            }
        };
        let mut step = Work {
            context,
            changes: &mut *work.changes,
            source: work.source,
        };
        if let Some(mut changed) = apply(&mut step, &current, operation).await? {
            changed.follow_settings();
            work.changes.remove(&current.schema, &current.name);
            work.changes.put(Relation::Table(Arc::new(changed.clone())));
            current = changed;
        }
    }
    Ok(Outcome::done("ALTER TABLE"))
}

/// The name that RENAME TO gives, as it is written.
fn new_name(work: &Work<'_>, name: &RenameTableNameKind, own: &str) -> Result<String> {
    let (RenameTableNameKind::As(name) | RenameTableNameKind::To(name)) = name;
    let (schema, folded) = split_name(name)?;
    if schema.is_some_and(|schema| fold(&schema) != fold(own)) {
        return Err(Error::unsupported("a table stays in its schema"));
    }
    let last = name.0.last().and_then(|part| part.as_ident());
    Ok(last.map_or(folded, |ident| work.source.written(ident)))
}

/// A column that takes, or does not take, NULL.
pub(super) fn nullability(column: Column, nullable: bool) -> Column {
    let field = column.field.as_ref().clone().with_nullable(nullable);
    Column {
        field: Arc::new(field),
        ..column
    }
}

/// The table after one operation; `None` when it changes nothing.
async fn apply(
    work: &mut Work<'_>,
    entry: &TableEntry,
    operation: &AlterTableOperation,
) -> Result<Option<TableEntry>> {
    match operation {
        AlterTableOperation::AddColumn {
            if_not_exists,
            column_def,
            column_position,
            ..
        } => {
            if column_position.is_some() {
                return Err(Error::unsupported("a new column comes last"));
            }
            add_column(work, entry, column_def, *if_not_exists).await
        }
        AlterTableOperation::DropColumn {
            column_names,
            if_exists,
            drop_behavior,
            ..
        } => {
            let cascade = matches!(drop_behavior, Some(DropBehavior::Cascade));
            let mut changed = None;
            for name in column_names {
                let table = changed.as_ref().unwrap_or(entry);
                match table.column(&name.value) {
                    Some(position) => {
                        changed = Some(drop_column(work, table, position, cascade)?);
                    }
                    None if *if_exists => {}
                    None => return Err(unknown_column(table, &name.value)),
                }
            }
            Ok(changed)
        }
        AlterTableOperation::RenameColumn {
            old_column_name,
            new_column_name,
        } => match old_column_name
            .value
            .strip_prefix(parse::RENAMED_CONSTRAINT)
        {
            Some(name) => rename::rename_constraint(work, entry, name, new_column_name).map(Some),
            None => rename::rename_column(work, entry, old_column_name, new_column_name).map(Some),
        },
        AlterTableOperation::RenameTable { table_name } => {
            let written = new_name(work, table_name, &entry.schema)?;
            rename::rename_table(work, entry, written).map(Some)
        }
        AlterTableOperation::AlterColumn { column_name, op } => {
            let position = entry
                .column(&column_name.value)
                .ok_or_else(|| unknown_column(entry, &column_name.value))?;
            alter_column(work, entry, position, op).await.map(Some)
        }
        AlterTableOperation::AddConstraint { constraint, .. } => {
            let defined = definition::constraint(work, constraint)?;
            constraint::add_constraint(work, entry, &defined)
                .await
                .map(Some)
        }
        AlterTableOperation::DropConstraint {
            if_exists,
            name,
            drop_behavior,
        } => {
            let cascade = matches!(drop_behavior, Some(DropBehavior::Cascade));
            let found = entry
                .constraints
                .iter()
                .find(|constraint| fold(constraint.name()) == fold(&name.value));
            match found {
                Some(constraint) => {
                    constraint::without_constraint(work, entry, constraint.name(), cascade)
                        .map(Some)
                }
                None if *if_exists => Ok(None),
                None => Err(unknown_constraint(entry, &name.value)),
            }
        }
        AlterTableOperation::DropPrimaryKey { .. } => {
            let found = entry
                .constraints
                .iter()
                .find(|constraint| matches!(constraint, Constraint::PrimaryKey { .. }))
                .ok_or_else(|| unknown_constraint(entry, "primary key"))?;
            constraint::without_constraint(work, entry, found.name(), false).map(Some)
        }
        AlterTableOperation::RenameConstraint { old_name, new_name } => {
            rename::rename_constraint(work, entry, &old_name.value, new_name).map(Some)
        }
        AlterTableOperation::SetOptionsParens { options } => {
            let mut changed = entry.clone();
            changed.set(options)?;
            Ok(Some(changed))
        }
        AlterTableOperation::OwnerTo { .. } => Err(Error::unsupported("OWNER TO is not supported")),
        other => Err(Error::unsupported(format!(
            "ALTER TABLE … {other} is not supported"
        ))),
    }
}

async fn add_column(
    work: &mut Work<'_>,
    entry: &TableEntry,
    definition: &ColumnDef,
    if_not_exists: bool,
) -> Result<Option<TableEntry>> {
    if entry.column(&definition.name.value).is_some() {
        if if_not_exists {
            return Ok(None);
        }
        return Err(Error::new(
            SqlState::DuplicateColumn,
            format!(
                "column \"{}\" of relation \"{}\" already exists",
                definition.name.value, entry.name
            ),
        ));
    }
    let defined = definition::column(work, definition)?;
    if fold(defined.column.field.name()) == "__slot" {
        return Err(Error::new(
            SqlState::InvalidTableDefinition,
            "column name \"__slot\" is reserved",
        ));
    }
    if let Some(options) = &defined.identity {
        let mut columns = entry.columns.clone();
        let position = columns.len();
        columns.push(defined.column.clone());
        let wanted = [(position, options.clone())];
        sequence::own_sequences(work, &entry.schema, &entry.name, &mut columns, &wanted)?;
        let mut values = all_columns(entry);
        values.push(sequence::numbered(work, &columns[position])?);
        let rows = rewrite::count(work, entry).await?;
        let mut changed = rewrite::rewritten(work, entry, columns, &values).await?;
        sequence::passed(work, &changed.columns[position], rows)?;
        for constraint in &defined.constraints {
            changed = index_on_new(work, &changed, constraint)?;
        }
        return Ok(Some(changed));
    }
    // What differs from call to call is called for each row.
    if let Some(default) = defined
        .column
        .default
        .as_ref()
        .filter(|default| is_volatile(default))
        && rewrite::has_rows(work, entry).await?
    {
        let mut values = all_columns(entry);
        values.push(default.to_string());
        let mut columns = entry.columns.clone();
        columns.push(defined.column.clone());
        let mut changed = rewrite::rewritten(work, entry, columns, &values).await?;
        for constraint in &defined.constraints {
            changed = index_on_new(work, &changed, constraint)?;
        }
        return Ok(Some(changed));
    }
    if defined.column.generated.is_some() {
        // The rows that are there are written anew, the column computed as they are.
        let mut columns = entry.columns.clone();
        columns.push(defined.column);
        let trial = TableEntry {
            columns: columns.clone(),
            table: super::create::new_storage(work, &entry.name, &columns)?,
            ..entry.clone()
        };
        definition::check_generated(work, &trial)?;
        let mut values = all_columns(entry);
        values.push("NULL".to_owned());
        let mut changed = rewrite::rewritten(work, entry, columns, &values).await?;
        for constraint in &defined.constraints {
            changed = index_on_new(work, &changed, constraint)?;
        }
        return Ok(Some(changed));
    }
    let transaction = &work.context.transaction;
    entry.table.lock_exclusive(transaction)?;
    let value = default_value(work, &defined.column).await?;
    if !defined.column.field.is_nullable()
        && value.is_null(0)
        && rewrite::has_rows(work, entry).await?
    {
        return Err(Error::new(
            SqlState::NotNullViolation,
            format!(
                "column \"{}\" of relation \"{}\" contains null values",
                defined.column.field.name(),
                entry.name
            ),
        ));
    }
    let table = entry
        .table
        .add_column(transaction, Arc::clone(&defined.column.field), value)?;
    entry.table.retire(transaction, false)?;
    let mut changed = entry.clone();
    let has_default = defined.column.default.is_some();
    changed.columns.push(defined.column);
    changed.table = table;
    for constraint in &defined.constraints {
        changed = match &constraint.kind {
            Kind::ForeignKey(_) if has_default && rewrite::has_rows(work, entry).await? => {
                return Err(Error::unsupported(
                    "a new column with a DEFAULT and REFERENCES on a table with rows is not supported",
                )
                .with_hint("Add the column first, then the constraint."));
            }
            Kind::Check(_) if rewrite::has_rows(work, entry).await? => {
                return Err(Error::unsupported(
                    "a new column with a CHECK on a table with rows is not supported",
                )
                .with_hint("Add the column first, then the constraint."));
            }
            _ => index_on_new(work, &changed, constraint)?,
        };
    }
    Ok(Some(changed))
}

/// Whether an expression calls what yields another value each time.
fn is_volatile(expr: &Expr) -> bool {
    const VOLATILE: [&str; 5] = ["nextval", "random", "uuid", "gen_random_uuid", "uuidv4"];
    visit_expressions(expr, |part| match part {
        Expr::Function(function)
            if VOLATILE.contains(&fold(&function.name.to_string()).as_str()) =>
        {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    })
    .is_break()
}

fn index_on_new(
    work: &mut Work<'_>,
    entry: &TableEntry,
    defined: &DefinedConstraint,
) -> Result<TableEntry> {
    match &defined.kind {
        Kind::ForeignKey(_) => constraint::add_reference(work, entry, defined),
        Kind::Check(_) => {
            let constraint = definition::resolve(work, entry, defined)?;
            let mut changed = entry.clone();
            changed.constraints.push(constraint);
            Ok(changed)
        }
        _ => constraint::add_key(work, entry, defined),
    }
}

/// What rows that exist get for a new column: the default, evaluated once.
async fn default_value(work: &Work<'_>, column: &Column) -> Result<ArrayRef> {
    let stored = column.field.data_type();
    let Some(default) = &column.default else {
        return Ok(arrow::array::new_null_array(stored, 1));
    };
    let planned = work
        .context
        .scope
        .expression(default, &datafusion::common::DFSchema::empty())?;
    if planned.is_volatile() {
        return Err(Error::unsupported(
            "a new column whose default differs from row to row is not supported",
        )
        .with_hint("Add the column without it, UPDATE, then SET DEFAULT."));
    }
    let query = parse::parse_query(&format!("SELECT {default}"))?;
    let plan = work.context.plan_query(&query, None).await?;
    let mut stream = work.context.run(plan).await?;
    while let Some(batch) = stream.next().await {
        let batch = batch?;
        if batch.num_rows() > 0 {
            let zone = expr::session_zone(work.context.scope.state.config_options())?;
            let value = expr::assign_in(batch.column(0), &column.field, zone)?;
            return Ok(cast(&value, stored)?);
        }
    }
    Err(Error::internal("a default yielded no value"))
}

fn drop_column(
    work: &mut Work<'_>,
    entry: &TableEntry,
    position: usize,
    cascade: bool,
) -> Result<TableEntry> {
    if entry.columns.len() == 1 {
        return Err(Error::new(
            SqlState::InvalidTableDefinition,
            format!("cannot drop the only column of table \"{}\"", entry.name),
        ));
    }
    let transaction = Arc::clone(&work.context.transaction);
    let depends = |column: &&Column| {
        column.generated.as_ref().is_some_and(|expression| {
            definition::mentioned_columns(entry, expression).contains(&position)
        })
    };
    if let Some(column) = entry.columns.iter().find(depends) {
        let (gone, made) = (entry.columns[position].field.name(), column.field.name());
        return Err(Error::new(
            SqlState::DependentObjectsStillExist,
            format!(
                "cannot drop column {gone} of table {} because other objects depend on it",
                entry.name
            ),
        )
        .with_detail(format!(
            "column {made} of table {} is generated from it",
            entry.name
        ))
        .with_hint(format!("Drop column {made} first.")));
    }
    entry.table.lock_exclusive(&transaction)?;
    let mut changed = entry.clone();
    changed.constraints.clear();
    for constraint in &entry.constraints {
        let touched = match constraint {
            Constraint::Check { condition, .. } => {
                definition::mentioned_columns(entry, condition).contains(&position)
            }
            Constraint::ForeignKey(key) => key.columns.contains(&position),
            other => other.key().is_some_and(|key| key.contains(&position)),
        };
        if touched {
            if constraint.key().is_some() {
                entry
                    .table
                    .drop_unique_index(&transaction, constraint.name())?;
            }
            if let Constraint::ForeignKey(key) = constraint {
                entry.table.drop_index(&transaction, &key.name)?;
                changed
                    .referrers
                    .retain(|one| !(one.is_of(entry) && one.constraint == key.name));
                reference::unlink(work, entry, key);
            }
        } else {
            changed.constraints.push(shifted(constraint, position));
        }
    }
    changed.indexes.clear();
    for index in &entry.indexes {
        if index::mentions(entry, index, position) {
            entry.table.drop_index(&transaction, &index.name)?;
        } else {
            changed.indexes.push(index::shifted(index, position));
        }
    }
    changed.table = entry.table.drop_column(&transaction, position)?;
    entry.table.retire(&transaction, false)?;
    sequence::drop_owned(work, std::iter::once(&entry.columns[position]));
    changed.columns.remove(position);
    let what = format!(
        "column {} of table {}",
        entry.columns[position].field.name(),
        entry.name
    );
    constraint::require_keys(work, entry, &mut changed, cascade, &what)?;
    check_views(
        work,
        entry,
        &changed,
        cascade,
        &format!(
            "column {} of table {}",
            entry.columns[position].field.name(),
            entry.name
        ),
    )?;
    Ok(changed)
}

/// A constraint after the column at `position` went away.
fn shifted(constraint: &Constraint, position: usize) -> Constraint {
    let shift = |columns: &[usize]| {
        columns
            .iter()
            .map(|column| column - usize::from(*column > position))
            .collect()
    };
    match constraint {
        Constraint::PrimaryKey { name, columns } => Constraint::PrimaryKey {
            name: name.clone(),
            columns: shift(columns),
        },
        Constraint::Unique { name, columns } => Constraint::Unique {
            name: name.clone(),
            columns: shift(columns),
        },
        Constraint::ForeignKey(key) => Constraint::ForeignKey(ForeignKey {
            columns: shift(&key.columns),
            ..key.clone()
        }),
        check @ Constraint::Check { .. } => check.clone(),
    }
}

async fn alter_column(
    work: &mut Work<'_>,
    entry: &TableEntry,
    position: usize,
    operation: &AlterColumnOperation,
) -> Result<TableEntry> {
    let mut changed = entry.clone();
    match operation {
        AlterColumnOperation::SetDefault { .. } if entry.columns[position].generated.is_some() => {
            return Err(Error::new(
                SqlState::SyntaxError,
                format!(
                    "column \"{}\" of relation \"{}\" is a generated column",
                    entry.columns[position].field.name(),
                    entry.name
                ),
            ));
        }
        AlterColumnOperation::SetDefault { value } => {
            definition::check_default(work, value)?;
            changed.columns[position].default = Some(value.clone());
        }
        AlterColumnOperation::DropDefault => changed.columns[position].default = None,
        AlterColumnOperation::SetNotNull => {
            // Whoever holds the old entry would write NULLs.
            changed.table = entry.table.renewed(&work.context.transaction)?;
            rewrite::check_no_nulls(work, entry, position).await?;
            let column = changed.columns[position].clone();
            changed.columns[position] = nullability(column, false);
        }
        AlterColumnOperation::DropNotNull => {
            let keyed = entry.constraints.iter().any(|constraint| {
                matches!(constraint, Constraint::PrimaryKey { columns, .. } if columns.contains(&position))
            });
            if keyed {
                return Err(Error::new(
                    SqlState::InvalidTableDefinition,
                    format!(
                        "column \"{}\" is in a primary key",
                        entry.columns[position].field.name()
                    ),
                ));
            }
            let column = changed.columns[position].clone();
            changed.columns[position] = nullability(column, true);
            if !entry.stored_schema().field(position).is_nullable() {
                // Storage's own field says that there are no nulls, and plans rely on it.
                let columns = changed.columns.clone();
                return rewrite::rewritten(work, entry, columns, &all_columns(entry)).await;
            }
        }
        AlterColumnOperation::SetDataType {
            data_type, using, ..
        } => return change_type(work, entry, position, data_type, using.as_ref()).await,
        other => {
            return Err(Error::unsupported(format!(
                "ALTER COLUMN … {other} is not supported"
            )));
        }
    }
    Ok(changed)
}

async fn change_type(
    work: &mut Work<'_>,
    entry: &TableEntry,
    position: usize,
    data_type: &SqlType,
    using: Option<&Expr>,
) -> Result<TableEntry> {
    let column = &entry.columns[position];
    let field = definition::field(
        work,
        column.field.name(),
        data_type,
        column.field.is_nullable(),
    )?;
    let mut columns = entry.columns.clone();
    columns[position].field = Arc::new(field);
    let mut values = all_columns(entry);
    if let Some(using) = using {
        definition::check_transform(work, entry, using)?;
        values[position] = using.to_string();
    }
    let changed = rewrite::rewritten(work, entry, columns, &values).await?;
    for constraint in &changed.constraints {
        if let Constraint::Check { condition, .. } = constraint {
            work.context.row_expression(&changed, condition)?;
        }
    }
    check_views(
        work,
        entry,
        &changed,
        false,
        &format!("the type of column {}", column.field.name()),
    )?;
    Ok(changed)
}

fn all_columns(entry: &TableEntry) -> Vec<String> {
    entry
        .folded_names()
        .iter()
        .map(|name| rewrite::quoted(name))
        .collect()
}

/// Views that no longer plan over the changed table are dropped if `cascade`; else the change is refused.
pub(super) fn check_views(
    work: &mut Work<'_>,
    entry: &TableEntry,
    changed: &TableEntry,
    cascade: bool,
    what: &str,
) -> Result<()> {
    let views = depend::views_on(work.changes.state(), &entry.schema, &entry.name);
    if views.is_empty() {
        return Ok(());
    }
    let mut trial = work.changes.clone();
    trial.remove(&entry.schema, &entry.name);
    trial.put(Relation::Table(Arc::new(changed.clone())));
    let scope = work.context.scope.over(Arc::clone(trial.state()));
    let broken: Vec<_> = views
        .into_iter()
        .filter(|view| scope.check_view(view).is_err())
        .collect();
    if broken.is_empty() {
        return Ok(());
    }
    if !cascade {
        return Err(depend::still_needed(what, &broken));
    }
    for view in broken {
        drop::drop_view(work, &view, true)?;
    }
    Ok(())
}

pub(super) fn unknown_constraint(entry: &TableEntry, name: &str) -> Error {
    let error = Error::new(
        SqlState::UndefinedObject,
        format!(
            "constraint \"{name}\" of relation \"{}\" does not exist",
            entry.name
        ),
    );
    let names = entry.constraints.iter().map(Constraint::name);
    match nearest(name, names) {
        Some(near) => error.with_hint(format!("Perhaps you meant the constraint \"{near}\".")),
        None => error,
    }
}
