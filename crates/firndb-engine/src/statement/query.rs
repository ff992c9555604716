//! Queries: planned in one step, run in another.

use std::borrow::Cow;
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, Schema, SchemaRef};
use async_trait::async_trait;
use chrono::{DateTime, Utc};
use datafusion::common::alias::AliasGenerator;
use datafusion::common::config::ConfigOptions;
use datafusion::common::{DFSchema, DataFusionError};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::execution::{FunctionRegistry, SendableRecordBatchStream};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::OptimizerConfig;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::stream::{
    RecordBatchReceiverStreamBuilder, RecordBatchStreamAdapter,
};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, execute_stream};
use datafusion::sql::sqlparser::ast;
use firndb_storage::Form;
use futures::{FutureExt, StreamExt};
use parking_lot::Mutex;

use super::bind::Binder;
use super::kept::{KeptPlan, Names, is_timeless};
use super::limits;
use super::plain::{Plain, plainness};
use super::scope::Scope;
use crate::catalog::{CatalogState, TableEntry, ViewEntry};
use crate::error::{Error, Result};
use crate::scan;
use crate::scan::renewal::VacantPlan;
use crate::session::rows::{PlannedQuery, Rows, convert};

/// Batches that a query works ahead of its reader.
const AHEAD: usize = 2;

impl Scope {
    /// Plans a query; with `target`, the relation `TARGET` is that table with its slots.
    pub fn plan(
        &self,
        query: &ast::Query,
        target: Option<&Arc<TableEntry>>,
    ) -> Result<LogicalPlan> {
        Binder::new(self, target).query(query)
    }

    /// Plans a view's definition.
    pub(super) fn plan_view(&self, query: &ast::Query) -> Result<LogicalPlan> {
        limits::refuse(query)?;
        Binder::new(self, None).definition(query)
    }

    /// Plans a view as queries see it.
    pub(super) fn check_view(&self, view: &ViewEntry) -> Result<()> {
        Binder::new(self, None).check_view(view)
    }

    /// Plans an expression over columns, parameters in their places.
    pub(super) fn expression(&self, expression: &ast::Expr, schema: &DFSchema) -> Result<Expr> {
        let planned = Binder::new(self, None).expression(expression, schema)?;
        Ok(self.arguments.apply_to(planned)?)
    }

    /// The same statement over another catalog.
    pub(super) fn over(&self, catalog: Arc<CatalogState>) -> Scope {
        Scope {
            catalog,
            ..self.clone()
        }
    }

    /// Optimizes a plan into operators.
    pub async fn physical(&self, plan: &LogicalPlan) -> Result<Arc<dyn ExecutionPlan>> {
        let optimized = self.optimize(plan)?;
        let planner = self.state.query_planner();
        let physical = match planner
            .create_physical_plan(&optimized, self.state.as_ref())
            .await
        {
            Err(error) if is_refused(&error) => {
                let careful = SessionStateBuilder::new_from_existing(self.state.as_ref().clone())
                    .with_physical_optimizer_rules(scan::careful_optimizer_rules())
                    .build();
                planner.create_physical_plan(&optimized, &careful).await?
            }
            planned => planned?,
        };
        if physical.output_partitioning().partition_count() <= 1 {
            return Ok(physical);
        }
        // What the root's partitions merge into is a physical rule's business, too: it keeps the table's order.
        let merged = Arc::new(CoalescePartitionsExec::new(physical));
        Ok(scan::rules::PreserveOrder.optimize(merged, self.state.config_options())?)
    }

    /// Applies the logical rules. DataFusion's own entry point takes the statement's time from the session's state, which
    /// would have to be copied for each statement.
    pub fn optimize(&self, plan: &LogicalPlan) -> Result<LogicalPlan> {
        let options = self.state.config_options();
        let analyzed = self
            .state
            .analyzer()
            .execute_and_check(plan.clone(), options, |_, _| {})?;
        let config = StatementConfig {
            scope: self,
            aliases: Arc::new(AliasGenerator::new()),
        };
        Ok(self
            .state
            .optimizer()
            .optimize(analyzed, &config, |_, _| {})?)
    }

    /// Runs operators on the workers.
    pub fn stream(&self, plan: Arc<dyn ExecutionPlan>) -> SendableRecordBatchStream {
        let task = self.task();
        let mut builder = RecordBatchReceiverStreamBuilder::new(plan.schema(), AHEAD);
        let sender = builder.tx();
        // Held while the query runs, also by one that scans no table: the session's progress is this as long as it lives.
        let progress = Arc::clone(&self.progress);
        builder.spawn_on(
            async move {
                let _running = progress;
                let all = async {
                    let mut stream = execute_stream(plan, task)?;
                    while let Some(batch) = stream.next().await {
                        if sender.send(batch).await.is_err() {
                            break;
                        }
                    }
                    Ok(())
                };
                // A panic of an operator would go on in whoever reads the rows.
                AssertUnwindSafe(all)
                    .catch_unwind()
                    .await
                    .unwrap_or_else(|panic| Err(Error::of_unwinding(&*panic).into()))
            },
            self.workers.handle(),
        );
        builder.build()
    }

    /// The columns of a result: names with their case, types as the operators yield them.
    pub fn result_schema(&self, schema: &Schema) -> SchemaRef {
        let fields: Vec<Field> = schema
            .fields()
            .iter()
            .map(|field| field.as_ref().clone().with_name(self.written(field.name())))
            .collect();
        Arc::new(Schema::new(fields))
    }

    /// Plans a query as a result to be read.
    pub async fn rows(self: &Arc<Self>, query: &ast::Query) -> Result<Rows> {
        let query = limits::settled(self, query).await?.into_owned();
        let (ready, _) = ReadyQuery::new(Arc::clone(self), Arc::new(query)).await?;
        Ok(ready.rows())
    }

    /// As `rows`, for the query that the whole text is: a plan that was kept runs again, another one may be kept.
    pub(super) async fn rows_of_text(self: &Arc<Self>, query: &ast::Query) -> Result<Rows> {
        let Some(place) = &self.place else {
            return self.rows(query).await;
        };
        let names = self.names();
        if let Some(kept) = place.find(&names)
            && let Some(physical) = kept.plan.renewed(&self.snapshot, &self.progress)?
        {
            return Ok(ReadyQuery::again(Arc::clone(self), &kept, physical).rows());
        }
        let again = place.is_seen();
        let settled = limits::settled(self, query).await?;
        let timely = matches!(settled, Cow::Owned(_));
        let query = Arc::new(settled.into_owned());
        let (ready, logical) = ReadyQuery::new(Arc::clone(self), query).await?;
        if again {
            let keeps = !timely && is_timeless(&logical)?;
            place.keep(if keeps { ready.kept(names)? } else { None });
        }
        Ok(ready.rows())
    }

    fn names(&self) -> Names {
        Names {
            catalog: Arc::clone(&self.catalog),
            state: Arc::clone(&self.state),
            path: Arc::clone(&self.path),
            registered: Arc::clone(&self.registered),
        }
    }

    /// The same statement scanning tables in another form. Names met so far are met again.
    fn in_form(&self, form: Form, whole: bool) -> Scope {
        Scope {
            form,
            whole,
            columns: Arc::new(Mutex::new(HashMap::new())),
            ..self.clone()
        }
    }
}

/// Whether DataFusion refuses a plan of its own rules: they left out a sort for a constant that another one lost, or took one column for another.
fn is_refused(error: &DataFusionError) -> bool {
    match error.find_root() {
        DataFusionError::Plan(message) => message.contains("does not satisfy order requirements"),
        DataFusionError::Internal(message) => {
            message.contains("does not match with the projection expression")
        }
        _ => false,
    }
}

/// What the logical rules ask about one statement.
struct StatementConfig<'a> {
    scope: &'a Scope,
    aliases: Arc<AliasGenerator>,
}

impl OptimizerConfig for StatementConfig<'_> {
    fn query_execution_start_time(&self) -> Option<DateTime<Utc>> {
        Some(self.scope.started)
    }

    fn alias_generator(&self) -> &Arc<AliasGenerator> {
        &self.aliases
    }

    fn options(&self) -> Arc<ConfigOptions> {
        Arc::clone(self.scope.state.config_options())
    }

    fn function_registry(&self) -> Option<&dyn FunctionRegistry> {
        Some(self.scope.state.as_ref())
    }
}

/// A query with its operators.
struct ReadyQuery {
    scope: Arc<Scope>,
    query: Arc<ast::Query>,
    physical: Arc<dyn ExecutionPlan>,
    /// Whether rows pass from the tables to the result as they are, or by whole columns.
    plain: Plain,
    /// Whether a table's columns go out as they are, to the last row.
    whole: bool,
    schema: SchemaRef,
}

impl ReadyQuery {
    /// Plans a query; with its plan as it was bound.
    async fn new(scope: Arc<Scope>, query: Arc<ast::Query>) -> Result<(Self, LogicalPlan)> {
        let logical = scope.plan(&query, None)?;
        let plain = plainness(&logical);
        let whole = plain == Plain::Columns && logical.max_rows().is_none();
        let physical = scope.physical(&logical).await?;
        let schema = scope.result_schema(&physical.schema());
        let ready = ReadyQuery {
            scope,
            query,
            physical,
            plain,
            whole,
            schema,
        };
        Ok((ready, logical))
    }

    /// A query planned before, with operators for this time.
    fn again(scope: Arc<Scope>, kept: &KeptPlan, physical: Arc<dyn ExecutionPlan>) -> Self {
        ReadyQuery {
            scope,
            query: Arc::clone(&kept.query),
            physical,
            plain: kept.plain,
            whole: kept.whole,
            schema: Arc::clone(&kept.schema),
        }
    }

    /// What is kept of it, if it can run again.
    fn kept(&self, names: Names) -> Result<Option<KeptPlan>> {
        let plan = VacantPlan::of(&self.physical)?;
        Ok(plan.map(|plan| KeptPlan {
            names,
            plan,
            query: Arc::clone(&self.query),
            plain: self.plain,
            whole: self.whole,
            schema: Arc::clone(&self.schema),
        }))
    }

    fn rows(self) -> Rows {
        let cancellation = Arc::clone(&self.scope.cancellation);
        let workers = Arc::clone(&self.scope.workers);
        Rows::planned(Arc::new(self), cancellation, workers)
    }
}

#[async_trait]
impl PlannedQuery for ReadyQuery {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn is_bare(&self) -> bool {
        self.plain == Plain::Columns
    }

    fn computes(&self) -> bool {
        self.plain == Plain::No
    }

    fn start(&self) -> Result<SendableRecordBatchStream> {
        let schema = Arc::clone(&self.schema);
        let renamed = self
            .scope
            .stream(Arc::clone(&self.physical))
            .map(move |batch| rename(&batch?, &schema));
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            Arc::clone(&self.schema),
            renamed,
        )))
    }

    async fn in_form(&self, form: Form) -> Result<Arc<dyn PlannedQuery>> {
        // Operators compute with `Compute` alone: only columns that they do not touch are scanned in another form.
        let scanned = match form {
            Form::Compute => Form::Compute,
            Form::Consumer if self.plain >= Plain::Rows => Form::Consumer,
            Form::Native if self.plain == Plain::Columns => Form::Native,
            _ => Form::Compute,
        };
        let scope = Arc::new(self.scope.in_form(scanned, self.whole));
        let (mut ready, _) = ReadyQuery::new(scope, Arc::clone(&self.query)).await?;
        ready.schema = convert::schema(&ready.schema, form);
        Ok(Arc::new(ready))
    }
}

fn rename(
    batch: &RecordBatch,
    schema: &SchemaRef,
) -> std::result::Result<RecordBatch, datafusion::common::DataFusionError> {
    Ok(convert::batch(batch, schema)?)
}
