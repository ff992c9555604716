//! The rows of the round before, as a relation of the recursive term.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PhysicalExpr, PlanProperties,
};

/// What the name of a recursive query stands for in its recursive term.
#[derive(Debug)]
pub(crate) struct RecursionTable {
    name: String,
    schema: SchemaRef,
}

impl RecursionTable {
    pub(crate) fn new(name: &str, schema: SchemaRef) -> Self {
        RecursionTable {
            name: name.to_owned(),
            schema,
        }
    }

    /// The query's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

#[async_trait]
impl TableProvider for RecursionTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = match projection {
            Some(columns) => Arc::new(self.schema.project(columns)?),
            None => Arc::clone(&self.schema),
        };
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Ok(Arc::new(WorkingRows {
            name: self.name.clone(),
            projection: projection.cloned(),
            schema,
            query: None,
            rows: None,
            properties: Arc::new(properties),
        }))
    }
}

/// Tells one recursive query of a plan from the others.
#[derive(Debug)]
pub(super) struct QueryKey;

/// Yields the rows of the round before.
#[derive(Debug, Clone)]
pub(super) struct WorkingRows {
    name: String,
    projection: Option<Vec<usize>>,
    schema: SchemaRef,
    query: Option<Arc<QueryKey>>,
    rows: Option<Arc<Vec<RecordBatch>>>,
    properties: Arc<PlanProperties>,
}

impl WorkingRows {
    /// The same, as a reader of `query`, if it is one of a query of that name and of no other yet.
    pub(super) fn of_query(&self, name: &str, query: &Arc<QueryKey>) -> Option<Self> {
        (self.query.is_none() && self.name == name).then(|| WorkingRows {
            query: Some(Arc::clone(query)),
            ..self.clone()
        })
    }

    /// The same over the rows of a round of `query`, if it reads that.
    pub(super) fn over(&self, query: &Arc<QueryKey>, rows: &Arc<Vec<RecordBatch>>) -> Option<Self> {
        let own = self
            .query
            .as_ref()
            .is_some_and(|own| Arc::ptr_eq(own, query));
        own.then(|| WorkingRows {
            rows: Some(Arc::clone(rows)),
            ..self.clone()
        })
    }
}

impl DisplayAs for WorkingRows {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "WorkingRows: name={}", self.name)
    }
}

impl ExecutionPlan for WorkingRows {
    fn name(&self) -> &str {
        "WorkingRows"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(
        &self,
        partition: usize,
        _context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let Some(rows) = &self.rows else {
            return internal_err!(
                "the rows of {} are read outside its recursive term",
                self.name
            );
        };
        if partition != 0 {
            return internal_err!("the rows of a round have one partition, not {partition}");
        }
        // A batch of the query has the query's own schema, in which a column may be known never to be NULL.
        let schema = Arc::clone(&self.schema);
        let projection = self.projection.clone();
        let rows = Arc::clone(rows);
        let batches = (0..rows.len()).map(move |place| {
            let batch = &rows[place];
            let columns = match &projection {
                Some(columns) => batch.project(columns)?,
                None => batch.clone(),
            };
            let options =
                arrow::array::RecordBatchOptions::new().with_row_count(Some(columns.num_rows()));
            let columns = columns.columns().to_vec();
            Ok(RecordBatch::try_new_with_options(
                Arc::clone(&schema),
                columns,
                &options,
            )?)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            Arc::clone(&self.schema),
            futures::stream::iter(batches),
        )))
    }
}
