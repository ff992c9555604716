//! INSERT, UPDATE, DELETE, MERGE and loads: a query reads, an apply step writes.
//!
//! ```text
//! statement ─▶ generated query over __firndb_target ─▶ batches of slots and new values
//!                                                        │ assignment casts, defaults
//!                                                        │ NOT NULL, CHECK
//!                                                        ▼
//!                          RETURNING ◀─ rows ─ storage: insert, bulk load, update, delete ─▶ unique keys
//! ```
//!
//! | module | holds |
//! | --- | --- |
//! | [`query`] | generated queries, and expressions over rows at hand |
//! | [`target`] | the table: names, defaults, NOT NULL and CHECK |
//! | [`assignment`] | SET clauses |
//! | [`values`] | VALUES lists without a plan |
//! | [`insert`], [`conflict`] | INSERT, loads, ON CONFLICT |
//! | [`update`] | UPDATE and DELETE |
//! | [`point`] | UPDATE and DELETE of the row with a key, without a plan |
//! | [`merge`] | MERGE |
//! | [`returning`] | RETURNING |
//! | [`write`] | hot or bulk insertion, sets of slots |
//!
//! Invariants:
//!
//! - A statement never sees its own writes: all its queries read the statement's snapshot. So it may write while it reads, and
//!   nothing but the batch at hand, the rows of RETURNING and the keys of ON CONFLICT is held in memory.
//! - A row is changed at most once by a statement, which is also what `Table::update` and `Table::delete` ask for.
//! - NOT NULL and CHECK hold before a row is written; unique keys are checked once, after the last write.
//! - A statement that fails leaves its rows to the caller, who returns to the savepoint of the statement.
//! - DataFusion's own UPDATE and DELETE are not used: its optimizer turns subqueries into joins before the hooks of a table see
//!   the condition, and no condition would mean every row.

use std::sync::Arc;

use datafusion::execution::SendableRecordBatchStream;
use datafusion::sql::sqlparser::ast;

pub(crate) use reference::Deferred;
pub(crate) use with_writes::{run_with_writes, writes_within};

use super::StatementContext;
use crate::catalog::TableEntry;
use crate::session::Outcome;
use crate::{Error, Result};

mod assignment;
mod conflict;
mod generated;
mod insert;
mod members;
mod merge;
mod point;
mod query;
mod reference;
mod returning;
mod target;
mod update;
mod values;
mod with_writes;
mod write;

use target::Target;
pub(crate) use values::constant;

/// INSERT: VALUES, SELECT, DEFAULT VALUES, ON CONFLICT, RETURNING.
pub async fn insert(context: &StatementContext, insert: &ast::Insert) -> Result<Outcome> {
    insert::run(context, insert, None).await
}

/// UPDATE: FROM, subqueries, RETURNING.
pub async fn update(context: &StatementContext, update: &ast::Update) -> Result<Outcome> {
    update::update(context, update, None).await
}

/// DELETE: USING, subqueries, RETURNING.
pub async fn delete(context: &StatementContext, delete: &ast::Delete) -> Result<Outcome> {
    update::delete(context, delete, None).await
}

/// MERGE: matched and not matched rows, conditions, RETURNING.
pub async fn merge(context: &StatementContext, merge: &ast::Merge) -> Result<Outcome> {
    merge::run(context, merge, None).await
}

/// Whether a query is a write after a WITH clause: `WITH … INSERT | UPDATE | DELETE | MERGE`.
pub fn is_write(query: &ast::Query) -> bool {
    matches!(
        query.body.as_ref(),
        ast::SetExpr::Insert(_)
            | ast::SetExpr::Update(_)
            | ast::SetExpr::Delete(_)
            | ast::SetExpr::Merge(_)
    )
}

/// A write after a WITH clause, whose tables all parts of the write can name.
pub async fn write_with(context: &StatementContext, query: &ast::Query) -> Result<Outcome> {
    let with = query.with.as_ref();
    let statement = match query.body.as_ref() {
        ast::SetExpr::Insert(statement)
        | ast::SetExpr::Update(statement)
        | ast::SetExpr::Delete(statement)
        | ast::SetExpr::Merge(statement) => statement,
        _ => return Err(Error::internal("not a write")),
    };
    match statement {
        ast::Statement::Insert(insert) => insert::run(context, insert, with).await,
        ast::Statement::Update(update) => update::update(context, update, with).await,
        ast::Statement::Delete(delete) => update::delete(context, delete, with).await,
        ast::Statement::Merge(merge) => merge::run(context, merge, with).await,
        other => Err(Error::unsupported(format!("WITH before {other}"))),
    }
}

/// Writes rows into a table: assignment casts, defaults for columns not named, NOT NULL, CHECK and unique keys, big loads born frozen.
/// `columns` are positions in the table, one for each column of `rows`. What CREATE TABLE AS, COPY FROM, append and executemany call.
pub async fn load(
    context: &StatementContext,
    table: &Arc<TableEntry>,
    columns: &[usize],
    rows: SendableRecordBatchStream,
    numbers: Numbers,
) -> Result<u64> {
    insert::load(context, table, columns, rows, numbers).await
}

/// What a load's rows may bring for columns that make their own values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numbers {
    /// Numbers of identity columns are taken; generated columns are computed, whatever is brought.
    Given,
    /// Nothing: 428C9, as for INSERT.
    Own,
}

/// The target of a write that names it like a relation of a query.
fn named_target<'c>(
    context: &'c StatementContext,
    relation: &ast::TableFactor,
) -> Result<Target<'c>> {
    match relation {
        ast::TableFactor::Table {
            name,
            alias,
            args: None,
            sample: None,
            ..
        } => match alias {
            Some(alias) if !alias.columns.is_empty() => Err(Error::unsupported(
                "column aliases for the target of a write",
            )),
            alias => Target::new(context, name, alias.as_ref().map(|alias| &alias.name)),
        },
        _ => Err(Error::new(
            crate::SqlState::WrongObjectType,
            "the target of a write must be a table",
        )),
    }
}
