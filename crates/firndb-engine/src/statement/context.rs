//! What the writing half of a statement runs with.

use std::sync::Arc;

use datafusion::common::{DFSchema, DataFusionError, TableReference};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::sql::sqlparser::ast;
use firndb_storage::{Form, Snapshot, Transaction};
use futures::StreamExt;

use super::dml::Deferred;
use super::limits;
use super::scope::Scope;
use crate::catalog::{CatalogState, TableEntry, fold};
use crate::error::{Error, Result, SqlState};
use crate::parse::Arguments;
use crate::session::cancel::Cancellation;

/// What one statement runs with: catalog and snapshot of its transaction, parameters, frames, cancellation.
#[derive(Debug)]
pub struct StatementContext {
    /// The catalog as this transaction sees it.
    pub catalog: Arc<CatalogState>,
    /// The transaction (autocommit statements have one of their own).
    pub transaction: Arc<Transaction>,
    /// What this statement sees.
    pub snapshot: Snapshot,
    pub(crate) scope: Arc<Scope>,
    pub(crate) read_only: bool,
    /// What is checked before the commit.
    pub(crate) deferred: Arc<Deferred>,
}

impl StatementContext {
    /// A context over a scope.
    pub(crate) fn new(
        scope: Arc<Scope>,
        transaction: Arc<Transaction>,
        read_only: bool,
        deferred: Arc<Deferred>,
    ) -> Self {
        StatementContext {
            catalog: Arc::clone(&scope.catalog),
            transaction,
            snapshot: scope.snapshot.clone(),
            scope,
            read_only,
            deferred,
        }
    }

    /// The same statement's next step, which sees what the steps before it wrote, with these parameters.
    pub(crate) fn renewed(&self, arguments: Arguments) -> Self {
        self.renewed_in(Arc::clone(&self.catalog), arguments)
    }

    /// The same statement's next step, with what the steps before it made of the catalog.
    pub(crate) fn renewed_in(&self, catalog: Arc<CatalogState>, arguments: Arguments) -> Self {
        let mut scope = self.scope.as_ref().clone();
        scope.catalog = catalog;
        scope.snapshot = self.transaction.snapshot();
        scope.arguments = Arc::new(arguments);
        StatementContext::new(
            Arc::new(scope),
            Arc::clone(&self.transaction),
            self.read_only,
            Arc::clone(&self.deferred),
        )
    }

    /// Finds a base table to write to; 42P01 with a hint, 42809 for a view.
    pub fn table(&self, name: &ast::ObjectName) -> Result<Arc<TableEntry>> {
        self.scope.table(name)
    }

    /// Plans a query (optimized later), parameters bound. With `target`, the relation named `TARGET` is that table with its `__slot`.
    pub async fn plan_query(
        &self,
        query: &ast::Query,
        target: Option<&Arc<TableEntry>>,
    ) -> Result<LogicalPlan> {
        let query = limits::settled(&self.scope, query).await?;
        self.scope.plan(&query, target)
    }

    /// Optimizes and runs a plan; batches come in plan output order.
    pub async fn run(&self, plan: LogicalPlan) -> Result<SendableRecordBatchStream> {
        let physical = self.scope.physical(&plan).await?;
        let rows = self.scope.stream(physical);
        // Rows may come as fast as they are taken: then nothing ever waits, and only this tells that the statement was cancelled.
        let cancellation = Arc::clone(&self.scope.cancellation);
        let schema = rows.schema();
        let checked = rows.map(move |batch| {
            cancellation.check().map_err(DataFusionError::from)?;
            batch
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, checked)))
    }

    /// Compiles an expression over a table's columns (`Form::Compute` types, in table order), as CHECK and RETURNING need.
    pub fn row_expression(
        &self,
        table: &TableEntry,
        expression: &ast::Expr,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let schema = table_columns(table)?;
        let planned = self.scope.expression(expression, &schema)?;
        let state = &self.scope.state;
        let context = SimplifyContext::builder()
            .with_schema(Arc::new(schema.clone()))
            .with_config_options(Arc::clone(state.config_options()))
            .with_query_execution_start_time(Some(self.scope.started))
            .build();
        let simplifier = ExprSimplifier::new(context);
        let coerced = simplifier.coerce(planned, &schema)?;
        let simplified = simplifier.simplify(coerced)?;
        Ok(state.create_physical_expr(simplified, &schema)?)
    }

    /// The flag that `interrupt` sets.
    pub fn cancellation(&self) -> &Cancellation {
        &self.scope.cancellation
    }

    /// A result's name for a column: with the case that the statement or the catalog wrote it in.
    pub fn written_name(&self, folded: &str) -> String {
        self.scope.written(folded)
    }

    /// Threads that the statement may use.
    pub fn threads(&self) -> usize {
        self.scope.state.config().target_partitions()
    }

    /// 25006 in a read-only transaction.
    pub fn check_writable(&self, command: &str) -> Result<()> {
        if self.read_only {
            return Err(Error::new(
                SqlState::ReadOnlySqlTransaction,
                format!("cannot execute {command} in a read-only transaction"),
            ));
        }
        Ok(())
    }
}

/// A table's columns under their folded names, qualified by its name.
pub(crate) fn table_columns(table: &TableEntry) -> Result<DFSchema> {
    let compute = Form::Compute.schema(table.stored_schema());
    let fields: Vec<_> = compute
        .fields()
        .iter()
        .zip(table.folded_names())
        .map(|(field, name)| field.as_ref().clone().with_name(name))
        .collect();
    Ok(DFSchema::try_from_qualified_schema(
        TableReference::bare(fold(&table.name)),
        &arrow::datatypes::Schema::new(fields),
    )?)
}
