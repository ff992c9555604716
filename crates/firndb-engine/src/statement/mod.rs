//! Statements: what one statement runs with, and what each kind of statement does.
//!
//! ```text
//! Scope ── plans and runs queries (bind, query) ◀── StatementContext ── adds the transaction ◀── Work ── adds catalog changes
//! ```
//!
//! Queries and writes know a [`StatementContext`]; definitions change the catalog through [`Work`]. Transaction control and
//! settings are the session's own (`database`).

mod aliases;
mod apart;
mod bind;
mod calls;
mod conditions;
mod context;
pub mod ddl;
mod dependencies;
mod describe;
mod described;
pub mod dml;
mod explain;
mod forms;
mod frames;
mod grouping_sets;
mod implicit_laterals;
mod kept;
mod keys;
mod limits;
mod macros;
mod membership;
mod merged;
mod multiset;
mod names;
mod outer_members;
mod pivot;
mod plain;
mod positional;
mod query;
mod recursive_terms;
mod rowids;
mod scope;
mod sequences;
pub mod single_row;
mod sorted;
mod syntax;
mod unnest;
mod whole_rows;
mod wild;
mod wild_names;

use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast;

pub use context::StatementContext;
pub(crate) use context::table_columns as compute_schema;
pub(crate) use dependencies::without_dependencies;
pub(crate) use describe::{relation as describe_relation, tables};
pub(crate) use dml::{Deferred, Numbers};
pub(crate) use kept::PlanPlace;
pub use scope::{Scope, split_name};
pub(crate) use sequences::GivenNumbers;

use crate::catalog::{CatalogChanges, TableEntry};
use crate::error::{Error, Result, SqlState, nearest};
use crate::files;
use crate::parse::{Command, Source};
use crate::session::Outcome;

/// The name under which a query that feeds a write sees its target table with the column `__slot` (UInt64) at its end.
pub const TARGET: &str = "__firndb_target";

/// A statement at work: its context, the catalog that it may change, and the text that names are written in.
pub(crate) struct Work<'a> {
    pub(crate) context: &'a StatementContext,
    pub(crate) changes: &'a mut CatalogChanges,
    pub(crate) source: &'a Source,
}

/// Runs a statement that needs no more than a transaction.
pub(crate) async fn run(work: &mut Work<'_>, command: &Command) -> Result<Outcome> {
    let context = work.context;
    let statement = match command {
        Command::Nothing(tag) => return Ok(Outcome::done(tag)),
        Command::AlterSequence(alter) => {
            context.check_writable("ALTER SEQUENCE")?;
            return ddl::alter_sequence(work, alter);
        }
        Command::RenameView(rename) => {
            context.check_writable("ALTER VIEW")?;
            return ddl::rename_view(work, rename);
        }
        Command::SetConstraints(names, deferred) => {
            context.deferred.set(
                names.as_deref(),
                *deferred,
                &context.catalog,
                &context.transaction,
            )?;
            return Ok(Outcome::done("SET CONSTRAINTS"));
        }
        Command::SetVariable(..) | Command::ResetVariable(_) => {
            return Err(Error::internal("variables are the session's"));
        }
        Command::Summarize(query) => return describe::summarize(context, query).await,
        Command::Sql(statement) => statement.as_ref(),
    };
    match statement {
        ast::Statement::Query(query) => {
            if let Some(into) = select_into(query) {
                context.check_writable("SELECT INTO")?;
                return ddl::select_into(work, query, &into).await;
            }
            if dml::writes_within(query) {
                context.check_writable("a write in WITH")?;
                return dml::run_with_writes(context, query).await;
            }
            if dml::is_write(query) {
                context.check_writable("a write after WITH")?;
                return dml::write_with(context, query).await;
            }
            let rows = context.scope.rows_of_text(query).await?;
            Ok(Outcome::rows("SELECT", rows))
        }
        ast::Statement::Insert(insert) => {
            context.check_writable("INSERT")?;
            returned(context, dml::insert(context, insert).await?)
        }
        ast::Statement::Update(update) => {
            context.check_writable("UPDATE")?;
            returned(context, dml::update(context, update).await?)
        }
        ast::Statement::Delete(delete) => {
            context.check_writable("DELETE")?;
            returned(context, dml::delete(context, delete).await?)
        }
        ast::Statement::Merge(merge) => {
            context.check_writable("MERGE")?;
            returned(context, dml::merge(context, merge).await?)
        }
        ast::Statement::Copy { to, .. } => {
            if !to {
                context.check_writable("COPY FROM")?;
            }
            files::copy(context, statement).await
        }
        ast::Statement::Explain { .. } => explain::explain(work, statement).await,
        ast::Statement::ExplainTable { table_name, .. } => {
            describe::relation(context, table_name).await
        }
        ast::Statement::ShowTables { .. } | ast::Statement::ShowViews { .. } => {
            describe::tables(context)
        }
        ast::Statement::ShowColumns { show_options, .. } => {
            let name = show_options
                .show_in
                .as_ref()
                .and_then(|place| place.parent_name.as_ref())
                .ok_or_else(|| Error::unsupported("SHOW COLUMNS needs FROM and a table"))?;
            describe::relation(context, name).await
        }
        ast::Statement::ShowCreate { obj_type, obj_name } => {
            describe::creation(context, obj_type, obj_name)
        }
        ast::Statement::ShowSchemas { .. } => describe::schemas(context),
        ast::Statement::ShowDatabases { .. } | ast::Statement::ShowCatalogs { .. } => {
            describe::databases()
        }
        // Statistics are kept as data changes.
        ast::Statement::Analyze(analyze) => {
            if let Some(name) = &analyze.table_name {
                let entry = context.table(name)?;
                for column in &analyze.columns {
                    if entry.column(&column.value).is_none() {
                        return Err(Error::new(
                            SqlState::UndefinedColumn,
                            format!(
                                "column \"{}\" of relation \"{name}\" does not exist",
                                column.value
                            ),
                        ));
                    }
                }
            }
            Ok(Outcome::done("ANALYZE"))
        }
        other => ddl::run(work, other).await,
    }
}

/// What a write yields, its columns' names with their case.
fn returned(context: &StatementContext, outcome: Outcome) -> Result<Outcome> {
    let rows = match outcome.rows {
        Some(rows) => Some(rows.renamed(|schema| context.scope.result_schema(schema))?),
        None => None,
    };
    Ok(Outcome { rows, ..outcome })
}

/// A planned query, with what DataFusion's joins would get wrong rewritten: predicates over subqueries, scalar subqueries.
fn sound(plan: LogicalPlan) -> Result<LogicalPlan> {
    frames::check(&plan)?;
    let plan = membership::rewrite(grouping_sets::rewrite(plan)?)?;
    unnest::rewrite(single_row::guard(plan)?)
}

/// 42703 for a table's column, with the nearest name as hint.
pub(crate) fn unknown_column(table: &TableEntry, name: &str) -> Error {
    let error = Error::new(
        SqlState::UndefinedColumn,
        format!(
            "column \"{name}\" of relation \"{}\" does not exist",
            table.name
        ),
    );
    let names = table
        .columns
        .iter()
        .map(|column| column.field.name().as_str());
    match nearest(name, names) {
        Some(near) => error.with_hint(format!(
            "Perhaps you meant to reference the column \"{}.{near}\".",
            table.name
        )),
        None => error,
    }
}

fn select_into(query: &ast::Query) -> Option<ast::SelectInto> {
    match query.body.as_ref() {
        ast::SetExpr::Select(select) => select.into.clone(),
        _ => None,
    }
}
