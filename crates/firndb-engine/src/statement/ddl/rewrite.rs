//! Tables that are made anew, and rows that are looked through: TRUNCATE, changes of type, constraints on rows that exist.

use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::sql::sqlparser::ast::{CascadeOption, Expr, Truncate, TruncateIdentityOption};
use futures::StreamExt;

use super::create::new_storage;
use super::{index, reference, sequence};
use crate::catalog::{Column, Relation, TableEntry};
use crate::error::{Error, Result, SqlState};
use crate::parse;
use crate::session::Outcome;
use crate::statement::{Numbers, Work, dml};

/// TRUNCATE: new, empty storage in the place of the old.
pub(super) fn truncate(work: &mut Work<'_>, truncate: &Truncate) -> Result<Outcome> {
    if truncate.partitions.is_some() {
        return Err(Error::unsupported(
            "TRUNCATE of partitions is not supported",
        ));
    }
    let cascades = matches!(truncate.cascade, Some(CascadeOption::Cascade));
    let mut waiting = Vec::new();
    for target in &truncate.table_names {
        let entry = match work.context.table(&target.name) {
            Ok(entry) => entry,
            Err(error) if truncate.if_exists && error.state == SqlState::UndefinedTable => {
                continue;
            }
            Err(error) => return Err(error),
        };
        waiting.push(entry);
    }
    let mut emptied: Vec<(String, String)> = Vec::new();
    while let Some(entry) = waiting.pop() {
        let name = (entry.schema.clone(), entry.name.clone());
        if emptied.contains(&name) {
            continue;
        }
        emptied.push(name);
        // The statement's own catalog may already show what an earlier target of the same statement made.
        let entry = match work.changes.state().relation(&entry.schema, &entry.name) {
            Some(Relation::Table(newest)) => newest,
            _ => entry,
        };
        if cascades {
            let referring = reference::referring(work, &entry);
            waiting.extend(referring.into_iter().map(|(table, _)| table));
        } else {
            check_referrers(work, truncate, &entry)?;
        }
        if matches!(truncate.identity, Some(TruncateIdentityOption::Restart)) {
            sequence::restart_owned(work, &entry)?;
        }
        let changed = renewed(work, &entry, entry.columns.clone())?;
        work.changes.put(Relation::Table(Arc::new(changed)));
    }
    Ok(Outcome::done("TRUNCATE TABLE"))
}

/// 0A000 when a table refers to this one that is not emptied with it.
fn check_referrers(work: &Work<'_>, truncate: &Truncate, entry: &TableEntry) -> Result<()> {
    for (table, _) in reference::referring(work, entry) {
        let is_named = truncate.table_names.iter().any(|target| {
            work.context
                .table(&target.name)
                .is_ok_and(|one| one.name == table.name && one.schema == table.schema)
        });
        if !is_named && table.name != entry.name {
            return Err(Error::unsupported(
                "cannot truncate a table referenced in a foreign key constraint",
            )
            .with_detail(format!(
                "Table \"{}\" references \"{}\".",
                table.name, entry.name
            ))
            .with_hint(format!(
                "Truncate table \"{}\" at the same time, or DELETE.",
                table.name
            )));
        }
    }
    Ok(())
}

/// A table like this one with new storage for these columns and no rows; the old storage is retired.
fn renewed(work: &Work<'_>, entry: &TableEntry, columns: Vec<Column>) -> Result<TableEntry> {
    let transaction = &work.context.transaction;
    entry.table.lock_exclusive(transaction)?;
    entry.table.retire(transaction, true)?;
    let table = new_storage(work, &entry.name, &columns)?;
    let mut changed = TableEntry {
        columns,
        table,
        ..entry.clone()
    };
    changed.follow_settings();
    index::create_all(work, &changed)?;
    Ok(changed)
}

/// Copies a table into new storage for these columns; `values` yields each column from the old row.
pub(super) async fn rewritten(
    work: &Work<'_>,
    entry: &TableEntry,
    columns: Vec<Column>,
    values: &[String],
) -> Result<TableEntry> {
    let alias = quoted(&crate::catalog::fold(&entry.name));
    let stream = select(work, entry, &alias, &values.join(", "), None).await?;
    let changed = Arc::new(renewed(work, entry, columns)?);
    let positions: Vec<usize> = (0..changed.columns.len()).collect();
    dml::load(work.context, &changed, &positions, stream, Numbers::Given).await?;
    Ok(Arc::unwrap_or_clone(changed))
}

/// How many rows a table has.
pub(super) async fn count(work: &Work<'_>, entry: &TableEntry) -> Result<i64> {
    let alias = quoted(&crate::catalog::fold(&entry.name));
    let mut stream = select(work, entry, &alias, "count(*)", None).await?;
    let mut rows = 0;
    while let Some(batch) = stream.next().await {
        let batch = batch?;
        let counts = batch.column(0).as_primitive::<Int64Type>();
        rows += counts.iter().flatten().sum::<i64>();
    }
    Ok(rows)
}

/// 23502 when a column holds a NULL.
pub(super) async fn check_no_nulls(
    work: &Work<'_>,
    entry: &TableEntry,
    position: usize,
) -> Result<()> {
    let column = quoted(&entry.folded_names()[position]);
    let condition = format!("{column} IS NULL");
    if any_row(work, entry, &condition).await? {
        return Err(Error::new(
            SqlState::NotNullViolation,
            format!(
                "column \"{}\" of relation \"{}\" contains null values",
                entry.columns[position].field.name(),
                entry.name
            ),
        ));
    }
    Ok(())
}

/// 23514 when a row breaks a condition.
pub(super) async fn check_holds(
    work: &Work<'_>,
    entry: &TableEntry,
    name: &str,
    condition: &Expr,
) -> Result<()> {
    if any_row(work, entry, &format!("NOT ({condition})")).await? {
        return Err(Error::new(
            SqlState::CheckViolation,
            format!(
                "check constraint \"{name}\" of relation \"{}\" is violated by some row",
                entry.name
            ),
        ));
    }
    Ok(())
}

/// Whether the table has a row.
pub(super) async fn has_rows(work: &Work<'_>, entry: &TableEntry) -> Result<bool> {
    any_row(work, entry, "TRUE").await
}

/// A name as SQL text.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

async fn any_row(work: &Work<'_>, entry: &TableEntry, condition: &str) -> Result<bool> {
    any_row_as(
        work,
        entry,
        &quoted(&crate::catalog::fold(&entry.name)),
        condition,
    )
    .await
}

/// Whether a row satisfies a condition, which knows it by this name.
pub(super) async fn any_row_as(
    work: &Work<'_>,
    entry: &TableEntry,
    alias: &str,
    condition: &str,
) -> Result<bool> {
    let mut stream = select(work, entry, alias, "1", Some(condition)).await?;
    while let Some(batch) = stream.next().await {
        if batch?.num_rows() > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// `SELECT values FROM table [WHERE condition LIMIT 1]` over the table as the statement finds it.
async fn select(
    work: &Work<'_>,
    entry: &TableEntry,
    alias: &str,
    values: &str,
    condition: Option<&str>,
) -> Result<SendableRecordBatchStream> {
    let tail = condition.map_or_else(String::new, |condition| {
        format!(" WHERE {condition} LIMIT 1")
    });
    let text = format!(
        "SELECT {values} FROM {} AS {alias}{tail}",
        crate::statement::TARGET
    );
    let query = parse::parse_query(&text)?;
    let target = Arc::new(entry.clone());
    let plan = work.context.plan_query(&query, Some(&target)).await?;
    work.context.run(plan).await
}
