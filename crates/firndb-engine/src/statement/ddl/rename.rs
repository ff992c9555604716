//! ALTER TABLE … RENAME: columns, tables, constraints, and the expressions that say their names.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{Expr, Ident, VisitMut, VisitorMut};

use super::alter::{check_views, unknown_constraint};
use super::{depend, duplicate, existing, index, reference};
use crate::catalog::{Constraint, Relation, TableEntry, ViewEntry, fold};
use crate::error::{Error, Result, SqlState};
use crate::statement::keys::index_definition;
use crate::statement::{Work, unknown_column};

pub(super) fn rename_column(
    work: &mut Work<'_>,
    entry: &TableEntry,
    old: &Ident,
    new: &Ident,
) -> Result<TableEntry> {
    let position = entry
        .column(&old.value)
        .ok_or_else(|| unknown_column(entry, &old.value))?;
    if entry
        .column(&new.value)
        .is_some_and(|other| other != position)
    {
        return Err(Error::new(
            SqlState::DuplicateColumn,
            format!(
                "column \"{}\" of relation \"{}\" already exists",
                new.value, entry.name
            ),
        ));
    }
    let written = work.source.written(new);
    entry.table.lock_exclusive(&work.context.transaction)?;
    let mut changed = entry.clone();
    changed.table = entry.table.rename_column(position, &written)?;
    let column = &mut changed.columns[position];
    column.field = Arc::new(column.field.as_ref().clone().with_name(&written));
    let mut renamer = Renamer {
        old: fold(entry.columns[position].field.name()),
        new: fold(&written),
    };
    rewrite_expressions(&mut changed, &mut renamer);
    let before = entry.columns[position].field.name();
    reference::change_referring(work, entry, &mut changed, |key| {
        for name in key.referred.iter_mut().filter(|name| *name == before) {
            name.clone_from(&written);
        }
    });
    for index in &changed.indexes {
        if index.columns().is_none() {
            // Messages name the key as it is written now.
            let definition = index_definition(work.context, &changed, index)?;
            let transaction = &work.context.transaction;
            entry
                .table
                .rename_index(transaction, &index.name, &definition)?;
        }
    }
    check_views(
        work,
        entry,
        &changed,
        false,
        &format!(
            "column {} of table {}",
            entry.columns[position].field.name(),
            entry.name
        ),
    )?;
    Ok(changed)
}

pub(super) fn rename_constraint(
    work: &mut Work<'_>,
    entry: &TableEntry,
    old: &str,
    new: &Ident,
) -> Result<TableEntry> {
    let found = entry
        .constraints
        .iter()
        .find(|constraint| fold(constraint.name()) == fold(old))
        .ok_or_else(|| unknown_constraint(entry, old))?;
    let written = work.source.written(new);
    let taken = entry
        .constraints
        .iter()
        .any(|other| fold(other.name()) == fold(&written));
    if taken || found.key().is_some() && index::is_taken(work, &entry.schema, &written) {
        return Err(Error::new(
            SqlState::DuplicateObject,
            format!(
                "constraint \"{written}\" for relation \"{}\" already exists",
                entry.name
            ),
        ));
    }
    let found = found.name();
    let mut changed = index::renamed(work, entry, found, &written)?;
    reference::rename_referrers(work, entry, &mut changed, |one| {
        if one.constraint == found {
            one.constraint.clone_from(&written);
        }
    });
    Ok(changed)
}

/// Rewrites the expressions that belong to a table.
fn rewrite_expressions(table: &mut TableEntry, rewriter: &mut impl VisitorMut<Break = ()>) {
    for constraint in &mut table.constraints {
        if let Constraint::Check { condition, .. } = constraint {
            let _ = condition.visit(rewriter);
        }
    }
    for column in &mut table.columns {
        if let Some(expression) = &mut column.generated {
            let _ = expression.visit(rewriter);
        }
    }
    for index in &mut table.indexes {
        for expression in index.expressions_mut() {
            let _ = expression.visit(rewriter);
        }
    }
}

struct Renamer {
    old: String,
    new: String,
}

impl VisitorMut for Renamer {
    type Break = ();

    fn pre_visit_expr(&mut self, expression: &mut Expr) -> std::ops::ControlFlow<()> {
        let name = match expression {
            Expr::Identifier(name) => Some(name),
            Expr::CompoundIdentifier(parts) => parts.last_mut(),
            _ => None,
        };
        if let Some(name) = name
            && name.value == self.old
        {
            name.value.clone_from(&self.new);
            name.quote_style = Some('"');
        }
        std::ops::ControlFlow::Continue(())
    }
}

pub(super) fn rename_table(
    work: &mut Work<'_>,
    entry: &TableEntry,
    name: String,
) -> Result<TableEntry> {
    if let Some(other) = existing(work, &entry.schema, &name)
        && other.name() != entry.name
    {
        return Err(duplicate(&name));
    }
    let views = depend::views_on(work.changes.state(), &entry.schema, &entry.name);
    if !views.is_empty() {
        return Err(still_named(&format!("table {}", entry.name), &views));
    }
    entry.table.lock_exclusive(&work.context.transaction)?;
    let mut changed = entry.clone();
    // A check that says the table's name before a column goes on doing so.
    let mut renamer = Requalifier {
        old: fold(&entry.name),
        new: fold(&name),
    };
    rewrite_expressions(&mut changed, &mut renamer);
    reference::change_referring(work, entry, &mut changed, |key| key.table.clone_from(&name));
    reference::rename_referrers(work, entry, &mut changed, |one| one.table.clone_from(&name));
    changed.name = name;
    Ok(changed)
}

/// Why a relation keeps its name: views say it.
fn still_named(what: &str, views: &[Arc<ViewEntry>]) -> Error {
    let error = depend::still_needed(what, views);
    Error {
        message: format!("cannot rename {what} because other objects depend on it"),
        hint: None,
        ..error
    }
}

/// ALTER VIEW … RENAME TO. Views over it are in the way, as over a table.
pub(super) fn rename_view(work: &mut Work<'_>, view: &ViewEntry, name: String) -> Result<()> {
    if let Some(other) = existing(work, &view.schema, &name)
        && other.name() != view.name
    {
        return Err(duplicate(&name));
    }
    let views = depend::views_on(work.changes.state(), &view.schema, &view.name);
    if !views.is_empty() {
        return Err(still_named(&format!("view {}", view.name), &views));
    }
    work.changes.remove(&view.schema, &view.name);
    let renamed = ViewEntry {
        name,
        ..view.clone()
    };
    work.changes.put(Relation::View(Arc::new(renamed)));
    Ok(())
}

struct Requalifier {
    old: String,
    new: String,
}

impl VisitorMut for Requalifier {
    type Break = ();

    fn pre_visit_expr(&mut self, expression: &mut Expr) -> std::ops::ControlFlow<()> {
        if let Expr::CompoundIdentifier(parts) = expression
            && let [table, _] = parts.as_mut_slice()
            && table.value == self.old
        {
            table.value.clone_from(&self.new);
            table.quote_style = Some('"');
        }
        std::ops::ControlFlow::Continue(())
    }
}
