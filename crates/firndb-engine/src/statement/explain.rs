//! EXPLAIN and EXPLAIN ANALYZE.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::array::StringArray;
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::sql::sqlparser::ast::{self, AnalyzeFormat, AnalyzeFormatKind, Expr, Statement};
use futures::StreamExt;

use super::{Work, limits};
use crate::error::{Error, Result, SqlState};
use crate::parse::parse_query;
use crate::session::{Outcome, Rows};

/// What EXPLAIN asks for.
#[derive(Debug, Clone, Copy)]
struct Options {
    analyze: bool,
    verbose: bool,
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Text,
    Tree,
    Json,
}

/// EXPLAIN a query: its operators, with ANALYZE after they ran.
pub(super) async fn explain(work: &mut Work<'_>, statement: &Statement) -> Result<Outcome> {
    let Statement::Explain {
        analyze,
        verbose,
        format,
        options,
        statement,
        describe_alias,
        ..
    } = statement
    else {
        return Err(Error::internal("not an EXPLAIN"));
    };
    let written;
    let query = match statement.as_ref() {
        Statement::Query(query) => query.as_ref(),
        Statement::Update(update) if !analyze => {
            written = updated_rows(update)?;
            &written
        }
        Statement::Delete(delete) if !analyze => {
            written = deleted_rows(delete)?;
            &written
        }
        Statement::Insert(insert) if insert.source.is_some() && !analyze => insert
            .source
            .as_deref()
            .ok_or_else(|| Error::internal("an INSERT lost its source"))?,
        Statement::CreateTable(table) if table.query.is_some() && !analyze => table
            .query
            .as_deref()
            .ok_or_else(|| Error::internal("a CREATE TABLE lost its query"))?,
        other => {
            let word = other.to_string();
            let word = word.split_whitespace().next().unwrap_or("this").to_owned();
            return Err(Error::unsupported(format!(
                "EXPLAIN of {word} is not supported"
            )));
        }
    };
    if !matches!(describe_alias, ast::DescribeAlias::Explain) {
        return super::describe::query(work.context, query).await;
    }
    let options = parse_options(*analyze, *verbose, format.as_ref(), options.as_deref())?;
    let context = work.context;
    let scope = &context.scope;
    let settled = limits::settled(scope, query).await?;
    let logical = scope.plan(&settled, None)?;
    let physical = scope.physical(&logical).await?;
    if options.analyze {
        let mut stream = scope.stream(Arc::clone(&physical));
        while let Some(batch) = stream.next().await {
            batch?;
        }
    }
    let text = render(&options, &logical, physical.as_ref(), scope)?;
    let head = match statement.as_ref() {
        Statement::Update(update) => Some(format!("Update: {}", update.table)),
        Statement::Delete(_) => Some("Delete".to_owned()),
        _ => None,
    };
    let lines: Vec<&str> = match options.format {
        Format::Json => vec![text.as_str()],
        _ => head.as_deref().into_iter().chain(text.lines()).collect(),
    };
    let schema = Arc::new(Schema::new(vec![Field::new(
        "QUERY PLAN",
        DataType::Utf8,
        false,
    )]));
    let batch = RecordBatch::try_new(
        Arc::clone(&schema),
        vec![Arc::new(StringArray::from(lines))],
    )?;
    Ok(Outcome::rows(
        "EXPLAIN",
        Rows::from_batches(schema, vec![batch]),
    ))
}

/// The query for an UPDATE's rows and their new values.
fn updated_rows(update: &ast::Update) -> Result<ast::Query> {
    let mut from = vec![update.table.clone()];
    if let Some(
        ast::UpdateTableFromKind::BeforeSet(tables) | ast::UpdateTableFromKind::AfterSet(tables),
    ) = &update.from
    {
        from.extend(tables.iter().cloned());
    }
    let values = update
        .assignments
        .iter()
        .map(|assignment| assignment.value.clone())
        .filter(|value| !matches!(value, Expr::Identifier(name) if name.value == "default"))
        .collect();
    rows_of(from, update.selection.clone(), values)
}

/// The query for a DELETE's rows.
fn deleted_rows(delete: &ast::Delete) -> Result<ast::Query> {
    let (ast::FromTable::WithFromKeyword(tables) | ast::FromTable::WithoutKeyword(tables)) =
        &delete.from;
    let mut from = tables.clone();
    from.extend(delete.using.iter().flatten().cloned());
    rows_of(from, delete.selection.clone(), Vec::new())
}

fn rows_of(
    from: Vec<ast::TableWithJoins>,
    selection: Option<Expr>,
    values: Vec<Expr>,
) -> Result<ast::Query> {
    let mut query = parse_query("SELECT 1 FROM t")?;
    let ast::SetExpr::Select(select) = query.body.as_mut() else {
        return Err(Error::internal("a query of ours"));
    };
    select.from = from;
    select.selection = selection;
    if !values.is_empty() {
        select.projection = values
            .into_iter()
            .enumerate()
            .map(|(place, expr)| ast::SelectItem::ExprWithAlias {
                expr,
                alias: ast::Ident::with_quote('"', format!("value {}", place + 1)),
            })
            .collect();
    }
    Ok(query)
}

fn render(
    options: &Options,
    logical: &LogicalPlan,
    physical: &dyn ExecutionPlan,
    scope: &super::Scope,
) -> Result<String> {
    let display = if options.analyze {
        DisplayableExecutionPlan::with_metrics(physical)
    } else {
        DisplayableExecutionPlan::new(physical)
    };
    Ok(match options.format {
        Format::Text => display.indent(options.verbose).to_string(),
        Format::Tree => display.tree_render().to_string(),
        Format::Json if options.analyze => {
            return Err(Error::unsupported(
                "EXPLAIN ANALYZE with FORMAT JSON is not supported",
            ));
        }
        Format::Json => scope.optimize(logical)?.display_pg_json().to_string(),
    })
}

fn parse_options(
    analyze: bool,
    verbose: bool,
    format: Option<&AnalyzeFormatKind>,
    options: Option<&[ast::UtilityOption]>,
) -> Result<Options> {
    let mut parsed = Options {
        analyze,
        verbose,
        format: Format::Text,
    };
    if let Some(AnalyzeFormatKind::Keyword(format) | AnalyzeFormatKind::Assignment(format)) = format
    {
        parsed.format = match format {
            AnalyzeFormat::TEXT => Format::Text,
            AnalyzeFormat::JSON => Format::Json,
            AnalyzeFormat::TREE => Format::Tree,
            other => return Err(unknown_format(&other.to_string())),
        };
    }
    for option in options.unwrap_or_default() {
        let value = option.arg.as_ref().map(|value| match value {
            Expr::Identifier(ident) => ident.value.clone(),
            other => other.to_string().trim_matches('\'').to_lowercase(),
        });
        let on = !matches!(value.as_deref(), Some("false" | "off" | "0"));
        match option.name.value.as_str() {
            "analyze" => parsed.analyze = on,
            "verbose" => parsed.verbose = on,
            "format" => {
                parsed.format = match value.as_deref() {
                    Some("text") => Format::Text,
                    Some("json") => Format::Json,
                    Some("tree") => Format::Tree,
                    other => return Err(unknown_format(other.unwrap_or_default())),
                };
            }
            // PostgreSQL's, of what is not shown here.
            "costs" | "settings" | "generic_plan" | "buffers" | "serialize" | "wal" | "timing"
            | "summary" | "memory" => {}
            other => {
                return Err(Error::new(
                    SqlState::SyntaxError,
                    format!("unrecognized EXPLAIN option \"{other}\""),
                ));
            }
        }
    }
    Ok(parsed)
}

fn unknown_format(name: &str) -> Error {
    Error::new(
        SqlState::InvalidParameterValue,
        format!("unrecognized value for EXPLAIN option \"format\": \"{name}\""),
    )
    .with_hint("The formats are text, tree and json.")
}
