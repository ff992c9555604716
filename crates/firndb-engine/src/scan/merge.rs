//! Partitions to one stream, in order.
//!
//! DataFusion's `CoalescePartitionsExec` hands out batches as they come. Here partition 0 is drained first, then 1, and so on; meanwhile the
//! later ones work ahead into buffers bounded by bytes:
//!
//! ```text
//!   partition 0 ──▶ [buffer] ──┐ drained first
//!   partition 1 ──▶ [buffer]   ├──▶ rows in partition order, at most `fetch`
//!   partition 2 ──▶ [buffer] ──┘ works ahead, waits when its buffer is full
//! ```
//!
//! Each partition runs in a task that ends when the stream is dropped. A partition ends with an explicit mark, so a task that disappears is
//! an error, never a shorter result.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{
    DataFusionError, Result, Statistics, internal_datafusion_err, internal_err,
};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::execution_plan::{
    CardinalityEffect, EvaluationType, SchedulingType,
};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning,
    PhysicalExpr, PlanProperties, RecordBatchStream,
};
use futures::{FutureExt, Stream, StreamExt};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::Error;

/// Bytes that all partitions together may hold ready.
const BUFFERED_BYTES: usize = 256 << 20;
/// Bytes that one partition may always hold ready.
const LEAST_BUFFERED_BYTES: usize = 8 << 20;

/// Merges partitions in their order.
#[derive(Debug, Clone)]
pub struct OrderedMergeExec {
    input: Arc<dyn ExecutionPlan>,
    fetch: Option<usize>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl OrderedMergeExec {
    /// Merges the partitions of `input`, yielding at most `fetch` rows.
    pub fn new(input: Arc<dyn ExecutionPlan>, fetch: Option<usize>) -> Self {
        let mut equivalences = input.equivalence_properties().clone();
        equivalences.clear_orderings();
        equivalences.clear_per_partition_constants();
        let properties = PlanProperties::new(
            equivalences,
            Partitioning::UnknownPartitioning(1),
            input.pipeline_behavior(),
            input.boundedness(),
        )
        .with_evaluation_type(EvaluationType::Eager)
        .with_scheduling_type(SchedulingType::Cooperative);
        OrderedMergeExec {
            input,
            fetch,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl DisplayAs for OrderedMergeExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "OrderedMergeExec")?;
        match self.fetch {
            Some(fetch) => write!(f, ": fetch={fetch}"),
            None => Ok(()),
        }
    }
}

impl ExecutionPlan for OrderedMergeExec {
    fn name(&self) -> &str {
        "OrderedMergeExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => Ok(Arc::new(OrderedMergeExec::new(input, self.fetch))),
            _ => internal_err!("a merge has one child"),
        }
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("a merge has one partition, not {partition}");
        }
        let count = self.input.output_partitioning().partition_count();
        let capacity = (BUFFERED_BYTES / count.max(1)).max(LEAST_BUFFERED_BYTES);
        let inputs = (0..count)
            .map(|partition| {
                let stream = self.input.execute(partition, Arc::clone(&context))?;
                let reservation = MemoryConsumer::new(format!("OrderedMergeExec[{partition}]"))
                    .register(context.memory_pool());
                Ok(BufferedPartition::start(stream, capacity, reservation))
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(Box::pin(OrderedMergeStream {
            schema: self.schema(),
            inputs: inputs.into_iter(),
            current: None,
            wanted: self.fetch,
            metrics: BaselineMetrics::new(&self.metrics, 0),
        }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn child_stats_requests(&self, _partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(None)]
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let statistics = inputs[0].as_ref().clone();
        Ok(Arc::new(statistics.with_fetch(self.fetch, 0, 1)?))
    }

    fn supports_limit_pushdown(&self) -> bool {
        true
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        Some(Arc::new(OrderedMergeExec::new(
            Arc::clone(&self.input),
            limit,
        )))
    }

    fn fetch(&self) -> Option<usize> {
        self.fetch
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }
}

/// What a partition's task sends. The permit is the batch's share of the buffer.
enum Message {
    Batch(RecordBatch, OwnedSemaphorePermit, usize),
    Failed(DataFusionError),
    Finished,
}

/// A partition that works ahead.
struct BufferedPartition {
    messages: UnboundedReceiver<Message>,
    reservation: Arc<MemoryReservation>,
    _task: SpawnedTask<()>,
}

impl BufferedPartition {
    fn start(
        stream: SendableRecordBatchStream,
        capacity: usize,
        reservation: MemoryReservation,
    ) -> Self {
        let (sender, messages) = unbounded_channel();
        let reservation = Arc::new(reservation);
        let task = SpawnedTask::spawn(work_ahead(
            stream,
            sender,
            capacity,
            Arc::clone(&reservation),
        ));
        BufferedPartition {
            messages,
            reservation,
            _task: task,
        }
    }
}

/// Sends the batches of `input`, at most `capacity` bytes ahead. Where the memory pool has nothing left, a batch goes out only when the buffer
/// is empty: working ahead must not fail a query.
async fn work_ahead(
    mut input: SendableRecordBatchStream,
    sender: UnboundedSender<Message>,
    capacity: usize,
    reservation: Arc<MemoryReservation>,
) {
    let permits = u32::try_from(capacity).unwrap_or(u32::MAX);
    let room = Arc::new(Semaphore::new(permits as usize));
    loop {
        let polled = tokio::select! {
            biased;
            () = sender.closed() => return,
            polled = AssertUnwindSafe(input.next()).catch_unwind() => polled,
        };
        let message = match polled {
            Ok(Some(Ok(batch))) => {
                let size = batch.columns().iter().map(buffered_bytes).sum::<usize>();
                let (share, reserved) = if reservation.try_grow(size).is_ok() {
                    (u32::try_from(size).unwrap_or(permits).min(permits), size)
                } else {
                    (permits, 0)
                };
                match Arc::clone(&room).acquire_many_owned(share).await {
                    Ok(permit) => Message::Batch(batch, permit, reserved),
                    Err(_) => Message::Failed(internal_datafusion_err!("a buffer was closed")),
                }
            }
            Ok(Some(Err(error))) => Message::Failed(error),
            Ok(None) => Message::Finished,
            Err(panic) => Message::Failed(Error::of_unwinding(&*panic).into()),
        };
        let last = !matches!(message, Message::Batch(..));
        if sender.send(message).is_err() || last {
            return;
        }
    }
}

/// An estimate of the bytes that a column alone keeps in memory. Buffers that slices share are not counted in full.
fn buffered_bytes(column: &ArrayRef) -> usize {
    let rows = column.len();
    let heaps = |buffers: &[arrow::buffer::Buffer]| {
        buffers
            .iter()
            .map(|b| b.len())
            .sum::<usize>()
            .min(32 * rows)
    };
    match column.data_type() {
        DataType::Utf8View => 16 * rows + heaps(column.as_string_view().data_buffers()),
        DataType::BinaryView => 16 * rows + heaps(column.as_binary_view().data_buffers()),
        DataType::Boolean => rows / 8,
        other => match other.primitive_width() {
            Some(width) => width * rows,
            None => column.get_buffer_memory_size().min(64 * rows),
        },
    }
}

/// The merged rows.
struct OrderedMergeStream {
    schema: SchemaRef,
    inputs: std::vec::IntoIter<BufferedPartition>,
    current: Option<BufferedPartition>,
    wanted: Option<usize>,
    metrics: BaselineMetrics,
}

impl OrderedMergeStream {
    /// Ends: the tasks of partitions not drained are cancelled.
    fn close(&mut self) {
        self.current = None;
        self.inputs = Vec::new().into_iter();
        self.metrics.done();
    }
}

impl Stream for OrderedMergeStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            if this.wanted == Some(0) {
                this.close();
                return Poll::Ready(None);
            }
            let Some(current) = &mut this.current else {
                match this.inputs.next() {
                    Some(next) => this.current = Some(next),
                    None => {
                        this.close();
                        return Poll::Ready(None);
                    }
                }
                continue;
            };
            match ready!(current.messages.poll_recv(cx)) {
                Some(Message::Batch(mut batch, _permit, reserved)) => {
                    current.reservation.shrink(reserved);
                    if let Some(wanted) = &mut this.wanted {
                        if batch.num_rows() > *wanted {
                            batch = batch.slice(0, *wanted);
                        }
                        *wanted -= batch.num_rows();
                    }
                    this.metrics.record_output(batch.num_rows());
                    return Poll::Ready(Some(Ok(batch)));
                }
                Some(Message::Finished) => this.current = None,
                Some(Message::Failed(error)) => {
                    this.close();
                    return Poll::Ready(Some(Err(error)));
                }
                None => {
                    this.close();
                    return Poll::Ready(Some(internal_err!("a partition's task was lost")));
                }
            }
        }
    }
}

impl RecordBatchStream for OrderedMergeStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
