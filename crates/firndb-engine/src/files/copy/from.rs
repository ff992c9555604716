//! COPY FROM: files into a table, all or nothing.
//!
//! CSV fields go by position, or by name where the header names columns of the table; other formats by name, or by position where no
//! name fits. CSV text is converted to the columns' types as it is parsed, so that an error can name the line.
//!
//! Generated columns are computed and never read: without a list of columns they are left out, as COPY TO leaves them out. Identity
//! columns take what the file says, GENERATED ALWAYS ones too, as in PostgreSQL: a file brings back what was copied out.

use std::path::PathBuf;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::LogicalPlanBuilder;
use datafusion::sql::sqlparser::ast::{CopySource, Ident};

use crate::catalog::TableEntry;
use crate::files::csv::Records;
use crate::files::infer;
use crate::files::options::{FileOptions, Format};
use crate::files::paths::expand;
use crate::files::table::FileTable;
use crate::statement::{Numbers, StatementContext, dml};
use crate::types::compute_field;
use crate::{Error, Result, SqlState};

/// Loads the files that `pattern` names into a table; returns the number of rows.
pub(super) async fn copy_from(
    context: &StatementContext,
    source: &CopySource,
    pattern: &str,
    options: FileOptions,
) -> Result<u64> {
    let CopySource::Table {
        table_name,
        columns,
    } = source
    else {
        return Err(Error::new(
            SqlState::SyntaxError,
            "COPY FROM requires a table",
        ));
    };
    let table = context.table(table_name)?;
    let positions = positions(&table, columns)?;
    let files = expand(&[pattern.to_owned()])?;
    let (relation, positions) = match options.format {
        Format::Csv => csv_relation(&table, positions, files, options)?,
        _ => named_relation(&table, &positions, files, options)?,
    };
    let plan = LogicalPlanBuilder::scan("file", provider_as_source(Arc::new(relation)), None)?;
    let rows = context.run(plan.build()?).await?;
    dml::load(context, &table, &positions, rows, Numbers::Given).await
}

/// The positions of the columns named, or of all that take values.
fn positions(table: &TableEntry, columns: &[Ident]) -> Result<Vec<usize>> {
    if columns.is_empty() {
        return Ok(table.given_columns());
    }
    let mut positions = Vec::with_capacity(columns.len());
    for column in columns {
        let position = position(table, &column.value).ok_or_else(|| {
            Error::new(
                SqlState::UndefinedColumn,
                format!(
                    "column \"{}\" of relation \"{}\" does not exist",
                    column.value, table.name
                ),
            )
        })?;
        refuse_generated(table, position)?;
        if positions.contains(&position) {
            return Err(Error::new(
                SqlState::DuplicateColumn,
                format!("column \"{}\" specified more than once", column.value),
            ));
        }
        positions.push(position);
    }
    Ok(positions)
}

/// 428C9 for a generated column.
fn refuse_generated(table: &TableEntry, column: usize) -> Result<()> {
    let column = &table.columns[column];
    if column.generated.is_none() {
        return Ok(());
    }
    let name = column.field.name();
    Err(Error::new(
        SqlState::GeneratedAlways,
        format!("cannot copy into column \"{name}\""),
    )
    .with_detail(format!("Column \"{name}\" is a generated column.")))
}

/// A column by name: as written first, then without regard to case.
fn position(table: &TableEntry, name: &str) -> Option<usize> {
    let names = || table.columns.iter().map(|c| c.field.name());
    names()
        .position(|n| n == name)
        .or_else(|| names().position(|n| n.eq_ignore_ascii_case(name)))
}

fn csv_relation(
    table: &TableEntry,
    positions: Vec<usize>,
    files: Vec<PathBuf>,
    options: FileOptions,
) -> Result<(FileTable, Vec<usize>)> {
    let path = &files[0];
    let options = infer::with_newline(path, options)?;
    let chunk = infer::first_chunk(path, &options)?;
    let mut known = options.csv.clone();
    // One column leaves nothing to find a delimiter by.
    if positions.len() == 1 {
        known.delimiter = known.delimiter.or(Some(b','));
    }
    let dialect = infer::dialect(path, &known, &chunk);
    let first = first_record(&Records::parse(&chunk, dialect, positions.len(), path));
    let all: Option<Vec<usize>> = first
        .iter()
        .map(|name| position(table, name.trim()))
        .collect();
    if options.csv.header != Some(false)
        && let Some(generated) = all.and_then(|all| generated_of(table, &all))
    {
        refuse_generated(table, generated)?;
    }
    let named: Option<Vec<usize>> = first
        .iter()
        .map(|name| {
            let found = position(table, name.trim())?;
            positions.contains(&found).then_some(found)
        })
        .collect();
    let named = named.filter(|n| {
        n.len() == positions.len()
            && n.iter()
                .enumerate()
                .all(|(at, column)| !n[..at].contains(column))
    });
    let header = options.csv.header.unwrap_or(named.is_some());
    let order = match named {
        Some(named) if header => named,
        _ => positions,
    };
    let fields: Vec<FieldRef> = order
        .iter()
        .map(|p| Arc::new(table.columns[*p].field.as_ref().clone().with_nullable(true)))
        .collect();
    let schema = Arc::new(Schema::new(fields));
    let relation = FileTable::with_schema(files, options, schema, Some((dialect, header)));
    Ok((relation, order))
}

/// The first generated column among these.
fn generated_of(table: &TableEntry, columns: &[usize]) -> Option<usize> {
    let mut columns = columns.iter().copied();
    columns.find(|&column| table.columns[column].generated.is_some())
}

fn first_record(records: &Result<Records>) -> Vec<String> {
    match records {
        Ok(records) if !records.is_empty() => (0..records.width(0))
            .filter_map(|column| records.field(0, column).map(|(text, _)| text))
            .collect(),
        _ => Vec::new(),
    }
}

fn named_relation(
    table: &TableEntry,
    positions: &[usize],
    files: Vec<PathBuf>,
    options: FileOptions,
) -> Result<(FileTable, Vec<usize>)> {
    let schema = infer::schema(&files[0], &options)?;
    let order = matched(table, positions, &schema, options.format)?;
    if options.format != Format::Json {
        let patterns: Vec<String> = files
            .iter()
            .map(|f| f.to_string_lossy().into_owned())
            .collect();
        return Ok((FileTable::open(&patterns, options)?, order));
    }
    let fields: Vec<FieldRef> = schema
        .fields()
        .iter()
        .zip(&order)
        .map(|(found, position)| {
            let stored = table.columns[*position].field.as_ref();
            Arc::new(Field::new(found.name(), json_type(stored), true))
        })
        .collect();
    let schema = Arc::new(Schema::new(fields));
    Ok((FileTable::with_schema(files, options, schema, None), order))
}

/// For each column of a file, its place in the table.
fn matched(
    table: &TableEntry,
    positions: &[usize],
    schema: &SchemaRef,
    format: Format,
) -> Result<Vec<usize>> {
    let find = |name: &str| position(table, name).filter(|p| positions.contains(p));
    let found: Vec<Option<usize>> = schema.fields().iter().map(|f| find(f.name())).collect();
    if let Some(order) = found.iter().copied().collect::<Option<Vec<usize>>>() {
        return Ok(order);
    }
    let named = schema.fields().iter();
    if let Some(generated) = named
        .filter_map(|field| position(table, field.name()))
        .find(|&column| table.columns[column].generated.is_some())
    {
        refuse_generated(table, generated)?;
    }
    let none = found.iter().all(Option::is_none);
    if none && format != Format::Json && schema.fields().len() == positions.len() {
        return Ok(positions.to_vec());
    }
    let unknown = found
        .iter()
        .position(Option::is_none)
        .map_or("", |p| schema.field(p).name());
    Err(Error::new(
        SqlState::UndefinedColumn,
        format!(
            "column \"{unknown}\" of the file is no column of relation \"{}\"",
            table.name
        ),
    ))
}

/// The type in which a JSON value of a column is read: the column's where JSON's reader knows it, else text, which is then converted.
fn json_type(stored: &Field) -> DataType {
    let shown = compute_field(stored);
    match shown.data_type() {
        numeric if numeric.is_numeric() => numeric.clone(),
        known @ (DataType::Boolean
        | DataType::List(_)
        | DataType::Struct(_)
        | DataType::Map(..)) => known.clone(),
        _ => DataType::Utf8View,
    }
}
