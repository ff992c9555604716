//! The operator: rounds of the recursive term until one yields no new row.

use std::fmt;
use std::sync::Arc;

use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::SchemaRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion::physical_plan::aggregates::order::GroupOrdering;
use datafusion::physical_plan::coop::make_cooperative;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, Partitioning, PhysicalExpr,
    PlanProperties,
};
use futures::StreamExt;

use super::table::{QueryKey, WorkingRows};

/// Puts [`RecursionExec`] in the place of DataFusion's operator.
#[derive(Debug)]
pub(crate) struct OwnRecursion;

impl PhysicalOptimizerRule for OwnRecursion {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let Some(recursion) = node.downcast_ref::<RecursiveQueryExec>() else {
                return Ok(Transformed::no(node));
            };
            let own = RecursionExec::new(recursion)?;
            Ok(Transformed::yes(Arc::new(own) as Arc<dyn ExecutionPlan>))
        })
        .data()
    }

    fn name(&self) -> &str {
        "own_recursion"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Runs a recursive query.
#[derive(Debug, Clone)]
pub(crate) struct RecursionExec {
    name: String,
    query: Arc<QueryKey>,
    /// The static and the recursive term.
    terms: [Arc<dyn ExecutionPlan>; 2],
    distinct: bool,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl RecursionExec {
    fn new(planned: &RecursiveQueryExec) -> Result<Self> {
        let query = Arc::new(QueryKey);
        let recursive = Arc::clone(planned.recursive_term())
            .transform_up(|node| {
                let reader = node.downcast_ref::<WorkingRows>();
                Ok(
                    match reader.and_then(|reader| reader.of_query(planned.name(), &query)) {
                        Some(reader) => {
                            Transformed::yes(Arc::new(reader) as Arc<dyn ExecutionPlan>)
                        }
                        None => Transformed::no(node),
                    },
                )
            })
            .data()?;
        let properties = PlanProperties::new(
            EquivalenceProperties::new(planned.schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Ok(RecursionExec {
            name: planned.name().to_owned(),
            query,
            terms: [Arc::clone(planned.static_term()), recursive],
            distinct: planned.is_distinct(),
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }
}

impl DisplayAs for RecursionExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(
            f,
            "RecursionExec: name={}, distinct={}",
            self.name, self.distinct
        )
    }
}

impl ExecutionPlan for RecursionExec {
    fn name(&self) -> &str {
        "RecursionExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.terms.iter().collect()
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false, false]
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![Distribution::SinglePartition, Distribution::SinglePartition]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Ok(terms) = children.try_into() else {
            return internal_err!("a recursive query has two terms");
        };
        Ok(Arc::new(RecursionExec {
            terms,
            metrics: ExecutionPlanMetricsSet::new(),
            ..self.as_ref().clone()
        }))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("a recursive query has one partition, not {partition}");
        }
        let schema = self.schema();
        let [first, recursive] = &self.terms;
        let consumer = MemoryConsumer::new("RecursionExec");
        let rounds = Rounds {
            current: first.execute(0, Arc::clone(&context))?,
            recursive: Arc::clone(recursive),
            query: Arc::clone(&self.query),
            known: match self.distinct {
                true => Some(KnownRows::new(Arc::clone(&schema), &context)?),
                false => None,
            },
            next: Vec::new(),
            reservation: consumer.register(context.memory_pool()),
            working: None,
            metrics: BaselineMetrics::new(&self.metrics, partition),
            context,
        };
        let rows = futures::stream::try_unfold(rounds, |mut rounds| async move {
            let batch = rounds.next().await?;
            Ok(batch.map(|batch| (batch, rounds)))
        });
        // A round may be ready at once, time and again: without this, it could not be cancelled.
        let rows = RecordBatchStreamAdapter::new(schema, rows);
        Ok(make_cooperative(Box::pin(rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// A recursive query at work.
struct Rounds {
    /// The rows of this round.
    current: SendableRecordBatchStream,
    recursive: Arc<dyn ExecutionPlan>,
    query: Arc<QueryKey>,
    /// All rows so far, if each is to come once.
    known: Option<KnownRows>,
    /// What the next round reads.
    next: Vec<RecordBatch>,
    reservation: MemoryReservation,
    /// What this round reads takes memory until the next one begins.
    working: Option<MemoryReservation>,
    metrics: BaselineMetrics,
    context: Arc<TaskContext>,
}

impl Rounds {
    /// The next batch with rows; `None` behind the last round.
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let Some(batch) = self.current.next().await else {
                if self.next.is_empty() {
                    return Ok(None);
                }
                self.begin_round()?;
                continue;
            };
            let batch = match &mut self.known {
                Some(known) => known.new_rows(&batch?)?,
                None => batch?,
            };
            if batch.num_rows() == 0 {
                continue;
            }
            self.reservation.try_grow(batch.get_array_memory_size())?;
            self.next.push(batch.clone());
            return Ok(Some(batch.record_output(&self.metrics)));
        }
    }

    fn begin_round(&mut self) -> Result<()> {
        let rows = Arc::new(std::mem::take(&mut self.next));
        self.working = Some(self.reservation.take());
        let round = Arc::clone(&self.recursive)
            .transform_up(|node| {
                let reader = node.downcast_ref::<WorkingRows>();
                let node = match reader.and_then(|reader| reader.over(&self.query, &rows)) {
                    Some(reader) => Arc::new(reader) as Arc<dyn ExecutionPlan>,
                    None => node.reset_state()?,
                };
                Ok(Transformed::yes(node))
            })
            .data()?;
        self.current = round.execute(0, Arc::clone(&self.context))?;
        Ok(())
    }
}

/// The rows that there were.
struct KnownRows {
    rows: Box<dyn GroupValues>,
    reservation: MemoryReservation,
    numbers: Vec<usize>,
}

impl KnownRows {
    fn new(schema: SchemaRef, context: &Arc<TaskContext>) -> Result<Self> {
        Ok(KnownRows {
            rows: new_group_values(schema, &GroupOrdering::None)?,
            reservation: MemoryConsumer::new("RecursionExec[known]")
                .register(context.memory_pool()),
            numbers: Vec::new(),
        })
    }

    /// Those rows of a batch that there were not yet, each once.
    fn new_rows(&mut self, batch: &RecordBatch) -> Result<RecordBatch> {
        let mut most = self.rows.len();
        self.numbers.clear();
        self.rows.intern(batch.columns(), &mut self.numbers)?;
        self.reservation.try_resize(self.rows.size())?;
        // Rows get numbers in the order in which they come: a new one's is greater than all before.
        let new: BooleanArray = self
            .numbers
            .iter()
            .map(|&number| {
                let new = number >= most;
                most = most.max(number + 1);
                Some(new)
            })
            .collect();
        Ok(filter_record_batch(batch, &new)?)
    }
}
