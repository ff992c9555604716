//! Writes within WITH, as in PostgreSQL.
//!
//! ```text
//! WITH gone AS (DELETE FROM t WHERE … RETURNING *) INSERT INTO old SELECT * FROM gone
//! ```
//!
//! Each write runs once, in the order of the clause, whether or not it is read from. All parts of the statement read the snapshot
//! that it began with, so none sees what another writes but through RETURNING, whose rows are a relation of the write's name.
//! A table is written to by one part alone: a row is changed at most once by a statement.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::sql::sqlparser::ast::{
    self, Cte, FromTable, ObjectName, Query, SetExpr, Statement, TableFactor, TableObject, With,
};
use futures::TryStreamExt;

use super::{is_write, write_with};
use crate::catalog::fold;
use crate::session::{Frame, Outcome, Rows};
use crate::statement::StatementContext;
use crate::{Error, Result, SqlState};

/// Whether a query's WITH clause writes.
pub(crate) fn writes_within(query: &Query) -> bool {
    let tables = query.with.iter().flat_map(|with| &with.cte_tables);
    tables.into_iter().any(|table| is_write(&table.query))
}

/// Runs such a query.
pub(crate) async fn run_with_writes(context: &StatementContext, query: &Query) -> Result<Outcome> {
    let mut query = query.clone();
    let Some(with) = query.with.take() else {
        return Err(Error::internal("a query without WITH"));
    };
    if with.recursive {
        return Err(Error::unsupported(
            "a write in WITH RECURSIVE is not supported",
        ));
    }
    check_targets(&query, &with)?;
    let mut scope = context.scope.as_ref().clone();
    let mut frames = scope.registered.as_ref().clone();
    let mut plain: Vec<Cte> = Vec::new();
    let clause = |tables: &[Cte]| {
        (!tables.is_empty()).then(|| With {
            cte_tables: tables.to_vec(),
            ..with.clone()
        })
    };
    for table in &with.cte_tables {
        if !is_write(&table.query) {
            plain.push(table.clone());
            continue;
        }
        scope.registered = Arc::new(frames.clone());
        let context = with_scope(context, scope.clone());
        let write = Query {
            with: clause(&plain),
            ..table.query.as_ref().clone()
        };
        let outcome = write_with(&context, &write).await?;
        if let Some(rows) = outcome.rows {
            let frame = frame(rows, table)?;
            frames.insert(fold(&table.alias.name.value), frame);
        }
    }
    scope.registered = Arc::new(frames);
    let context = with_scope(context, scope);
    query.with = clause(&plain);
    if is_write(&query) {
        return write_with(&context, &query).await;
    }
    // The rows are read at once, while the statement's snapshot is that of before its writes.
    let plan = context.plan_query(&query, None).await?;
    let stream = context.run(plan).await?;
    let schema = stream.schema();
    let batches: Vec<RecordBatch> = stream.try_collect().await?;
    let rows = Rows::from_batches(Arc::clone(&schema), batches);
    let rows = rows.renamed(|schema| context.scope.result_schema(schema))?;
    Ok(Outcome::rows("SELECT", rows))
}

fn with_scope(context: &StatementContext, scope: crate::statement::Scope) -> StatementContext {
    StatementContext::new(
        Arc::new(scope),
        Arc::clone(&context.transaction),
        context.read_only,
        Arc::clone(&context.deferred),
    )
}

/// The rows of a RETURNING clause under the names that WITH gives.
fn frame(rows: Rows, table: &Cte) -> Result<Frame> {
    let given = &table.alias.columns;
    let schema = rows.schema();
    if given.len() > schema.fields().len() {
        return Err(Error::new(
            SqlState::InvalidColumnReference,
            format!(
                "WITH query \"{}\" has {} columns available but {} columns specified",
                table.alias.name.value,
                schema.fields().len(),
                given.len()
            ),
        ));
    }
    let fields: Vec<Field> = schema
        .fields()
        .iter()
        .enumerate()
        .map(|(place, field)| match given.get(place) {
            Some(column) => field.as_ref().clone().with_name(&column.name.value),
            None => field.as_ref().clone(),
        })
        .collect();
    let schema: SchemaRef = Arc::new(Schema::new(fields));
    let mut batches = Vec::new();
    for batch in rows {
        let columns = batch?.columns().to_vec();
        batches.push(RecordBatch::try_new(Arc::clone(&schema), columns)?);
    }
    Ok(Frame { schema, batches })
}

/// 0A000 where two parts of a statement write to one table.
fn check_targets(query: &Query, with: &With) -> Result<()> {
    let parts = with
        .cte_tables
        .iter()
        .map(|table| table.query.as_ref())
        .chain(std::iter::once(query));
    let mut written = HashSet::new();
    for name in parts.filter_map(target) {
        if !written.insert(name.clone()) {
            return Err(Error::unsupported(format!(
                "writing to table \"{name}\" twice in one statement is not supported"
            ))
            .with_hint("Write in two statements of one transaction."));
        }
    }
    Ok(())
}

/// The table that a write writes to.
fn target(query: &Query) -> Option<String> {
    let statement = match query.body.as_ref() {
        SetExpr::Insert(statement)
        | SetExpr::Update(statement)
        | SetExpr::Delete(statement)
        | SetExpr::Merge(statement) => statement,
        _ => return None,
    };
    let last = |name: &ObjectName| {
        let part = name.0.last().and_then(ast::ObjectNamePart::as_ident);
        part.map(|part| fold(&part.value))
    };
    let factor = |factor: &TableFactor| match factor {
        TableFactor::Table { name, .. } => last(name),
        _ => None,
    };
    match statement {
        Statement::Insert(insert) => match &insert.table {
            TableObject::TableName(name) => last(name),
            _ => None,
        },
        Statement::Update(update) => factor(&update.table.relation),
        Statement::Delete(delete) => {
            let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
            from.first().and_then(|table| factor(&table.relation))
        }
        Statement::Merge(merge) => factor(&merge.table),
        _ => None,
    }
}
