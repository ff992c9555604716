//! DESCRIBE, SHOW TABLES and SUMMARIZE: relations about relations.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::sql::sqlparser::ast::{self, ObjectName};

use super::described::Described;
use super::{Scope, StatementContext, limits, split_name};
use crate::catalog::{Constraint, DATABASE, Relation, TEMPORARY_SCHEMA, TableEntry};
use crate::error::{Error, Result, SqlState};
use crate::metadata;
use crate::parse;
use crate::session::{Outcome, Rows};
use crate::types;

/// DESCRIBE a relation.
pub(crate) async fn relation(context: &StatementContext, name: &ObjectName) -> Result<Outcome> {
    let (schema, table) = split_name(name)?;
    if let Some(Relation::Table(entry)) = context.scope.relation(schema.as_deref(), &table) {
        return described(&entry);
    }
    let query = parse::parse_query(&format!("SELECT * FROM {name}"))?;
    self::query(context, &query).await
}

/// DESCRIBE a query.
pub(super) async fn query(context: &StatementContext, query: &ast::Query) -> Result<Outcome> {
    let schema = context.scope.rows(query).await?.schema();
    let count = schema.fields().len();
    let nulls: Vec<Option<String>> = vec![None; count];
    listing(
        "DESCRIBE",
        &[
            ("column_name", names(&schema)),
            (
                "column_type",
                texts(
                    schema
                        .fields()
                        .iter()
                        .map(|field| Some(types::sql_name(field))),
                ),
            ),
            (
                "null",
                texts(
                    schema
                        .fields()
                        .iter()
                        .map(|field| Some(yes_no(field.is_nullable()))),
                ),
            ),
            ("key", texts(nulls.clone())),
            ("default", texts(nulls.clone())),
            ("extra", texts(nulls)),
        ],
    )
}

/// SHOW TABLES: what can be named without a schema.
pub(crate) fn tables(context: &StatementContext) -> Result<Outcome> {
    let found = table_names(&context.scope);
    listing("SHOW", &[("name", texts(found.into_iter().map(Some)))])
}

/// What can be named without a schema, sorted.
pub(super) fn table_names(scope: &Scope) -> Vec<String> {
    let mut found: Vec<String> = scope
        .path
        .iter()
        .map(String::as_str)
        .chain([TEMPORARY_SCHEMA])
        .flat_map(|schema| scope.catalog.relations(schema))
        .map(|relation| relation.name().to_owned())
        .chain(scope.registered.keys().cloned())
        .collect();
    found.sort();
    found.dedup();
    found
}

/// SHOW CREATE TABLE and SHOW CREATE VIEW.
pub(super) fn creation(
    context: &StatementContext,
    kind: &ast::ShowCreateObject,
    name: &ObjectName,
) -> Result<Outcome> {
    let (schema, folded) = split_name(name)?;
    let scope = &context.scope;
    let relation = scope
        .relation(schema.as_deref(), &folded)
        .ok_or_else(|| scope.unknown_relation(schema.as_deref(), &folded))?;
    let fits = match (kind, &relation) {
        (ast::ShowCreateObject::Table, _) => true,
        (ast::ShowCreateObject::View, Relation::View(_)) => true,
        (ast::ShowCreateObject::View, Relation::Table(_)) => {
            return Err(Error::new(
                SqlState::WrongObjectType,
                format!("\"{}\" is not a view", relation.name()),
            ));
        }
        _ => false,
    };
    if !fits {
        return Err(Error::unsupported(format!(
            "SHOW CREATE {kind} is not supported"
        )));
    }
    listing(
        "SHOW",
        &[
            ("name", texts([Some(relation.name().to_owned())])),
            ("sql", texts([Some(metadata::definition(&relation))])),
        ],
    )
}

/// SHOW SCHEMAS.
pub(super) fn schemas(context: &StatementContext) -> Result<Outcome> {
    let schemas = context.catalog.schemas();
    listing(
        "SHOW",
        &[("schema_name", texts(schemas.into_iter().map(Some)))],
    )
}

/// SHOW DATABASES.
pub(super) fn databases() -> Result<Outcome> {
    listing(
        "SHOW",
        &[("database_name", texts([Some(DATABASE.to_owned())]))],
    )
}

/// SUMMARIZE: for each column its range, distinct values, mean, spread, quartiles and nulls.
pub(super) async fn summarize(context: &StatementContext, query: &ast::Query) -> Result<Outcome> {
    let scope = &context.scope;
    let schema = scope.rows(query).await?.schema();
    let settled = limits::settled(scope, query).await?;
    let planned = scope.plan(&settled, None)?;
    let columns = planned.schema().fields().iter().zip(schema.fields());
    let text = summary_query(columns.map(|(field, shown)| (field.name().as_str(), shown)))?;
    let mut summary = parse::parse_query(&text)?;
    if let Some(table) = summary
        .with
        .as_mut()
        .and_then(|with| with.cte_tables.first_mut())
    {
        *table.query = query.clone();
    }
    let plain = Scope {
        aliases: Arc::default(),
        columns: Arc::default(),
        ..scope.as_ref().clone()
    };
    let rows = Arc::new(plain).rows(&summary).await?;
    Ok(Outcome::rows("SUMMARIZE", rows))
}

/// The query of a summary of the columns, by their names in plans, of what it calls `summarized`.
pub(super) fn summary_query<'f>(
    columns: impl Iterator<Item = (&'f str, &'f FieldRef)>,
) -> Result<String> {
    let selects: Vec<String> = columns.map(|(name, shown)| summary(name, shown)).collect();
    if selects.is_empty() {
        return Err(Error::unsupported("there is nothing to summarize"));
    }
    Ok(format!(
        "WITH summarized AS (SELECT 1) {}",
        selects.join(" UNION ALL ")
    ))
}

/// A row about a column. Quartiles are exact; of integers and dates they are rounded to those.
fn summary(name: &str, field: &Field) -> String {
    let column = format!("\"{}\"", name.replace('"', "\"\""));
    let text = |value: &str| format!("'{}'", value.replace('\'', "''"));
    let null = || "CAST(NULL AS VARCHAR)".to_owned();
    let kind = field.data_type();
    let extension = field.metadata().contains_key(types::EXTENSION_KEY);
    let numeric = kind.is_numeric();
    let moment = matches!(kind, DataType::Date32 | DataType::Timestamp(..));
    let time = matches!(kind, DataType::Time64(_));
    let extreme = |function: &str| match kind {
        DataType::Map(..) | DataType::Null => null(),
        _ => format!("CAST({function}({column}) AS VARCHAR)"),
    };
    let distinct = match kind {
        DataType::Map(..) | DataType::Null => "CAST(NULL AS BIGINT)".to_owned(),
        _ => format!("CAST(count(DISTINCT {column}) AS BIGINT)"),
    };
    let mean = match () {
        () if extension => null(),
        () if numeric => format!("CAST(avg(CAST({column} AS DOUBLE)) AS VARCHAR)"),
        () if moment || time => format!("CAST(avg({column}) AS VARCHAR)"),
        () => null(),
    };
    let spread = match numeric && !extension {
        true => format!("CAST(stddev(CAST({column} AS DOUBLE)) AS VARCHAR)"),
        false => null(),
    };
    let quartile = |share: &str| {
        let value = format!("quantile_cont({column}, {share})");
        match kind {
            _ if extension => null(),
            kind if kind.is_integer() => {
                format!("CAST(CAST(round({value}) AS DECIMAL(38, 0)) AS VARCHAR)")
            }
            DataType::Date32 => format!("CAST(CAST({value} AS DATE) AS VARCHAR)"),
            kind if kind.is_numeric() || moment => format!("CAST({value} AS VARCHAR)"),
            _ => null(),
        }
    };
    format!(
        "SELECT {name} AS column_name, {kind} AS column_type, {least} AS min, {most} AS max, \
         {distinct} AS approx_unique, {mean} AS avg, {spread} AS std, {first} AS q25, {second} AS q50, {third} AS q75, \
         count(*) AS count, CAST(CASE WHEN count(*) > 0 THEN (count(*) - count({column})) * 100.0 / count(*) END AS DECIMAL(9, 2)) AS null_percentage \
         FROM summarized",
        name = text(field.name()),
        kind = text(&types::sql_name(field)),
        least = extreme("min"),
        most = extreme("max"),
        first = quartile("0.25"),
        second = quartile("0.5"),
        third = quartile("0.75"),
    )
}

fn described(entry: &TableEntry) -> Result<Outcome> {
    let rows = table_rows(entry);
    let column = |number: usize| texts(rows.iter().map(|row| row[number].clone()));
    listing(
        "DESCRIBE",
        &[
            ("column_name", column(0)),
            ("column_type", column(1)),
            ("null", column(2)),
            ("key", column(3)),
            ("default", column(4)),
            ("extra", column(5)),
        ],
    )
}

/// DESCRIBE of a table.
pub(super) fn table_rows(entry: &TableEntry) -> Vec<Described> {
    let key = |position: usize| {
        entry.constraints.iter().find_map(|constraint| {
            let columns = constraint.key()?;
            if !columns.contains(&position) {
                return None;
            }
            Some(match constraint {
                Constraint::PrimaryKey { .. } => "PRI".to_owned(),
                _ => "UNI".to_owned(),
            })
        })
    };
    let columns = entry.columns.iter().enumerate();
    columns
        .map(|(position, column)| {
            let [name, kind, null, ..] = column_row(&column.field);
            let default = column.default.as_ref().map(ToString::to_string);
            [name, kind, null, key(position), default, None]
        })
        .collect()
}

/// DESCRIBE of a column of a query.
pub(super) fn column_row(field: &Field) -> Described {
    let known = [
        field.name().clone(),
        types::sql_name(field),
        yes_no(field.is_nullable()),
    ];
    let [name, kind, null] = known.map(Some);
    [name, kind, null, None, None, None]
}

fn yes_no(flag: bool) -> String {
    if flag { "YES" } else { "NO" }.to_owned()
}

fn names(schema: &SchemaRef) -> ArrayRef {
    texts(
        schema
            .fields()
            .iter()
            .map(|field| Some(field.name().clone())),
    )
}

fn texts(values: impl IntoIterator<Item = Option<String>>) -> ArrayRef {
    Arc::new(values.into_iter().collect::<StringArray>())
}

fn listing(tag: &'static str, columns: &[(&str, ArrayRef)]) -> Result<Outcome> {
    let fields: Vec<Field> = columns
        .iter()
        .map(|(name, _)| Field::new(*name, DataType::Utf8, true))
        .collect();
    let schema = Arc::new(Schema::new(fields));
    let arrays = columns
        .iter()
        .map(|(_, column)| Arc::clone(column))
        .collect();
    let batch = RecordBatch::try_new(Arc::clone(&schema), arrays)?;
    Ok(Outcome::rows(tag, Rows::from_batches(schema, vec![batch])))
}
