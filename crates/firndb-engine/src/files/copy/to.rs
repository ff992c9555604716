//! COPY TO: a query's rows into a file.

use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::sql::sqlparser::ast::{CopySource, Ident, ObjectName, Query};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;
use futures::StreamExt;

use crate::files::options::FileOptions;
use crate::files::writer::FileWriter;
use crate::statement::StatementContext;
use crate::{Error, Result};

/// Writes the rows of `source` to `path`; returns their number.
pub(super) async fn copy_to(
    context: &StatementContext,
    source: &CopySource,
    path: &Path,
    options: &FileOptions,
) -> Result<u64> {
    let query = match source {
        CopySource::Query(query) => query.clone(),
        CopySource::Table {
            table_name,
            columns,
        } => table_query(context, table_name, columns)?,
    };
    let plan = context.plan_query(&query, None).await?;
    let mut rows = context.run(plan).await?;
    let schema = written_names(context, &rows.schema());
    let mut writer = FileWriter::create(path, &schema, options)?;
    while let Some(batch) = rows.next().await {
        writer.write(&batch?)?;
    }
    writer.finish()
}

/// The columns named, or all that COPY FROM reads: generated ones are computed again there.
fn table_query(
    context: &StatementContext,
    table: &ObjectName,
    columns: &[Ident],
) -> Result<Box<Query>> {
    let mut names: Vec<String> = columns.iter().map(ToString::to_string).collect();
    if names.is_empty()
        && let Ok(entry) = context.table(table)
        && entry
            .columns
            .iter()
            .any(|column| column.generated.is_some())
    {
        let folded = entry.folded_names();
        let given = entry.given_columns().into_iter();
        names.extend(given.map(|column| format!("\"{}\"", folded[column].replace('"', "\"\""))));
    }
    let list = if names.is_empty() {
        "*".to_owned()
    } else {
        names.join(", ")
    };
    Parser::new(&GenericDialect {})
        .try_with_sql(&format!("SELECT {list} FROM {table}"))
        .and_then(|mut parser| parser.parse_query())
        .map_err(|e| Error::internal(format!("COPY: {e}")))
}

/// The columns under their names with their case.
fn written_names(context: &StatementContext, schema: &SchemaRef) -> SchemaRef {
    let fields: Vec<_> = schema
        .fields()
        .iter()
        .map(|field| {
            let name = context.written_name(field.name());
            Arc::new(field.as_ref().clone().with_name(name))
        })
        .collect();
    Arc::new(Schema::new(fields))
}
