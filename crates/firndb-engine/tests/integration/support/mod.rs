//! A plain DataFusion session with the engine's expressions, without storage or sessions.
#![allow(dead_code)]

use arrow::array::{Array, RecordBatch};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::DataFusionError;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::parser::Statement;
use firndb_engine::{Error, expr, parse};

pub(crate) fn context() -> SessionContext {
    let config = SessionConfig::new()
        .with_target_partitions(2)
        .set_bool("datafusion.sql_parser.parse_float_as_decimal", true);
    let builder = SessionStateBuilder::new()
        .with_config(config)
        .with_default_features();
    SessionContext::new_with_state(expr::configure(builder).build())
}

pub(crate) async fn batches(
    context: &SessionContext,
    sql: &str,
) -> Result<Vec<RecordBatch>, DataFusionError> {
    let state = context.state();
    let dialect = state.config().options().sql_parser.dialect;
    let mut parsed = state.sql_to_statement(sql, &dialect)?;
    if let Statement::Statement(statement) = &mut parsed {
        parse::type_literals(statement.as_mut())?;
    }
    let plan = state.statement_to_plan(parsed).await?;
    context.execute_logical_plan(plan).await?.collect().await
}

/// The rows of a query as text, NULL as `NULL`.
pub(crate) async fn rows(
    context: &SessionContext,
    sql: &str,
) -> Result<Vec<Vec<String>>, DataFusionError> {
    let options = FormatOptions::new().with_null("NULL");
    let mut rows = Vec::new();
    for batch in batches(context, sql).await? {
        let columns: Vec<_> = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column.as_ref() as &dyn Array, &options))
            .collect::<Result<_, _>>()?;
        for row in 0..batch.num_rows() {
            rows.push(
                columns
                    .iter()
                    .map(|column| column.value(row).to_string())
                    .collect(),
            );
        }
    }
    Ok(rows)
}

/// The SQLSTATE with which a statement fails.
pub(crate) async fn sql_state(context: &SessionContext, sql: &str) -> String {
    match batches(context, sql).await {
        Ok(batches) => panic!("{sql} yields {batches:?}"),
        Err(error) => Error::from(error).state.code().to_string(),
    }
}
