//! The scan operator: partitions of consecutive morsels, read one by one.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::compute::SortOptions;
use arrow::datatypes::SchemaRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_expr::expressions::{Column, DynamicFilterTracking};
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation, PushedDown,
};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet,
};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PhysicalExpr, PlanProperties,
    RecordBatchStream,
};
use futures::Stream;

use super::ordered::{OrderedScan, SHARE};
use super::probing;
use super::row_filter::RowFilter;
use super::skipping::{DynamicSkipping, may_match};
use super::source::{MORSEL_ROWS, MorselSource};

/// Rows below which a partition of its own is not worth a task.
const PARTITION_ROWS: usize = 8_192;

/// A limit up to which one partition reads alone: others would work ahead for nothing.
const SHORT_LIMIT: usize = 2 * MORSEL_ROWS;

/// The morsels that a scan reads, ascending.
#[derive(Debug, Clone)]
pub struct Selection {
    kept: Arc<[usize]>,
    skipped: usize,
    /// What is known of the rows that are wanted, over the source's columns.
    filters: Arc<[Arc<dyn PhysicalExpr>]>,
}

impl Selection {
    /// All of them.
    pub fn all(morsels: usize) -> Self {
        Selection {
            kept: (0..morsels).collect(),
            skipped: 0,
            filters: Arc::default(),
        }
    }

    /// Those in which a row may pass all of `filters`, which are over the source's columns.
    pub fn of(source: &dyn MorselSource, filters: Arc<[Arc<dyn PhysicalExpr>]>) -> Self {
        let morsels = source.morsels();
        let schema = source.schema();
        let columns: Vec<usize> = (0..schema.fields().len()).collect();
        let mut keep = vec![true; morsels];
        for filter in filters.iter() {
            if let Some(verdicts) = may_match(filter, source, schema, &columns, 0..morsels) {
                keep.iter_mut().zip(verdicts).for_each(|(k, v)| *k &= v);
            }
        }
        let kept: Arc<[usize]> = (0..morsels).filter(|m| keep[*m]).collect();
        Selection {
            skipped: morsels - kept.len(),
            kept,
            filters,
        }
    }
}

/// A scan of a [`MorselSource`].
#[derive(Debug, Clone)]
pub struct MorselScan {
    source: Arc<dyn MorselSource>,
    projection: Arc<[usize]>,
    schema: SchemaRef,
    selection: Selection,
    /// By partition, a range of positions in the selection.
    partitions: Arc<[Range<usize>]>,
    fetch: Option<usize>,
    /// Filters of operators above that do not change.
    filters: Arc<[Expr]>,
    /// Filters of operators above that change while they run, over this scan's columns. Rows that fail them are not needed.
    dynamic: Vec<Arc<dyn PhysicalExpr>>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl MorselScan {
    /// A scan of `projection`, in up to `target_partitions` partitions, each yielding at most `fetch` rows.
    pub fn try_new(
        source: Arc<dyn MorselSource>,
        projection: Vec<usize>,
        selection: Selection,
        target_partitions: usize,
        fetch: Option<usize>,
    ) -> Result<Self> {
        let schema = Arc::new(source.schema().project(&projection)?);
        let most = if fetch.is_some_and(|limit| limit <= SHORT_LIMIT) {
            1
        } else {
            target_partitions
        };
        let partitions = balance(source.as_ref(), &selection.kept, most);
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(partitions.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        Ok(MorselScan {
            source,
            projection: projection.into(),
            schema,
            selection,
            partitions: partitions.into(),
            fetch,
            filters: Arc::new([]),
            dynamic: Vec::new(),
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// The same scan below filters that are applied above.
    #[must_use]
    pub fn with_filters(self, filters: &[Expr]) -> Self {
        MorselScan {
            filters: filters.into(),
            ..self
        }
    }

    /// The rows in an order of columns through an index, if there is one and `wanted` are few enough to be worth it.
    pub(super) fn in_order(
        &self,
        orders: &[(usize, SortOptions)],
        wanted: usize,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let rows: usize = (0..self.source.morsels())
            .map(|morsel| self.source.rows(morsel))
            .sum();
        let budget = rows / SHARE;
        if wanted == 0 || wanted > budget || self.fetch.is_some() {
            return Ok(None);
        }
        let orders: Vec<_> = orders
            .iter()
            .map(|(column, options)| (self.projection[*column], *options))
            .collect();
        let Some(found) = self.source.in_order(&self.filters, &orders)? else {
            return Ok(None);
        };
        let projection = Arc::clone(&self.projection);
        let scan = OrderedScan::try_new(found, projection, wanted, budget)?;
        Ok(Some(Arc::new(scan)))
    }

    /// The filters that change while the plan runs.
    pub fn dynamic_filters(&self) -> &[Arc<dyn PhysicalExpr>] {
        &self.dynamic
    }

    /// The same scan with other dynamic filters.
    #[must_use]
    pub fn with_dynamic_filters(&self, dynamic: Vec<Arc<dyn PhysicalExpr>>) -> Self {
        MorselScan {
            dynamic,
            metrics: ExecutionPlanMetricsSet::new(),
            ..self.clone()
        }
    }

    /// The same scan without its rows, if the source can do without: a place for [`over`](Self::over) to start from.
    pub(super) fn vacated(&self) -> Option<Self> {
        if !self.dynamic.is_empty() {
            return None;
        }
        Some(MorselScan {
            source: self.source.vacated()?,
            metrics: ExecutionPlanMetricsSet::new(),
            ..self.clone()
        })
    }

    /// The same scan of a source with the same columns; `None` if its rows don't make as many partitions.
    pub(super) fn over(&self, source: Arc<dyn MorselSource>) -> Option<Self> {
        let selection = Selection::of(source.as_ref(), Arc::clone(&self.selection.filters));
        let partitions = balance(source.as_ref(), &selection.kept, self.partitions.len());
        (partitions.len() == self.partitions.len()).then(|| MorselScan {
            source,
            selection,
            partitions: partitions.into(),
            metrics: ExecutionPlanMetricsSet::new(),
            ..self.clone()
        })
    }

    pub(super) fn source(&self) -> &Arc<dyn MorselSource> {
        &self.source
    }

    fn rows_of(&self, partition: &Range<usize>) -> usize {
        self.selection.kept[partition.clone()]
            .iter()
            .map(|m| self.source.rows(*m))
            .sum()
    }
}

/// Cuts the kept morsels into at most `most` consecutive ranges of nearly equal rows; at least one range, maybe empty.
fn balance(source: &dyn MorselSource, kept: &[usize], most: usize) -> Vec<Range<usize>> {
    let total: usize = kept.iter().map(|m| source.rows(*m)).sum();
    let parts = most
        .min(total.div_ceil(PARTITION_ROWS))
        .min(kept.len())
        .max(1);
    let mut ranges = Vec::with_capacity(parts);
    let (mut start, mut before) = (0, 0);
    for (position, morsel) in kept.iter().enumerate() {
        before += source.rows(*morsel);
        let due = (ranges.len() + 1) * total / parts;
        // Each remaining part must get a morsel.
        let left = kept.len() - position - 1;
        if ranges.len() + 1 < parts && (before >= due || left < parts - ranges.len()) {
            ranges.push(start..position + 1);
            start = position + 1;
        }
    }
    ranges.push(start..kept.len());
    ranges
}

impl MorselScan {
    /// Whether exact statistics say that a column of the scan holds no NULL.
    pub(super) fn never_null(&self, column: usize) -> bool {
        let statistics = self.source.statistics(&self.projection);
        statistics
            .column_statistics
            .get(column)
            .is_some_and(|column| column.null_count == Precision::Exact(0))
    }
}

impl DisplayAs for MorselScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let columns: Vec<&str> = self
            .schema
            .fields()
            .iter()
            .map(|field| field.name().as_str())
            .collect();
        write!(
            f,
            "MorselScan: columns=[{}], partitions={}, morsels={}",
            columns.join(", "),
            self.partitions.len(),
            self.selection.kept.len()
        )?;
        if let Some(index) = self.source.access() {
            write!(f, ", index={index}")?;
        }
        if self.selection.skipped > 0 {
            write!(f, ", skipped={}", self.selection.skipped)?;
        }
        if let Some(fetch) = self.fetch {
            write!(f, ", fetch={fetch}")?;
        }
        if !self.dynamic.is_empty() {
            let filters: Vec<String> = self.dynamic.iter().map(|e| e.to_string()).collect();
            write!(f, ", dynamic=[{}]", filters.join(", "))?;
            if let Some(index) = probing::index_of(self.source.as_ref(), &self.dynamic) {
                write!(f, ", index for few keys={index}")?;
            }
        }
        Ok(())
    }
}

impl ExecutionPlan for MorselScan {
    fn name(&self) -> &str {
        "MorselScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for expression in &self.dynamic {
            if f(expression)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() {
            Ok(self)
        } else {
            internal_err!("a scan has no children")
        }
    }

    fn execute(
        &self,
        partition: usize,
        _context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let Some(range) = self.partitions.get(partition) else {
            return internal_err!("the scan has no partition {partition}");
        };
        self.source.begin(self.rows_of(range));
        let metrics = ScanMetrics::new(&self.metrics, partition);
        if partition == 0 {
            metrics.skipped.add(self.selection.skipped);
        }
        Ok(Box::pin(cooperative(MorselStream {
            source: Arc::clone(&self.source),
            projection: Arc::clone(&self.projection),
            schema: Arc::clone(&self.schema),
            morsels: Arc::clone(&self.selection.kept),
            next: range.start,
            end: range.end,
            wanted: self.fetch,
            skipping: self
                .dynamic
                .iter()
                .map(|e| DynamicSkipping::new(Arc::clone(e)))
                .collect(),
            dynamic: self.dynamic.clone(),
            filter: RowFilter::new(&self.dynamic, &self.schema),
            ready: VecDeque::new(),
            metrics,
        })))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        _inputs: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let mut statistics = self.source.statistics(&self.projection).as_ref().clone();
        for column in &mut statistics.column_statistics {
            // DataFusion would take the column for a constant, in joins also where it is none, and while it plans only.
            if column.min_value.get_value() == column.max_value.get_value() {
                column.min_value = Precision::Absent;
                column.max_value = Precision::Absent;
            }
        }
        statistics.total_byte_size = statistics
            .column_statistics
            .iter()
            .fold(Precision::Inexact(0), |sum, c| sum.add(&c.byte_size));
        let range = match args.partition() {
            Some(partition) => self.partitions.get(partition).cloned().unwrap_or(0..0),
            None => 0..self.selection.kept.len(),
        };
        if range.len() + self.selection.skipped != self.source.morsels()
            || self.selection.skipped > 0
        {
            let rows = self.rows_of(&range);
            let whole = statistics.num_rows.get_value().copied().unwrap_or(rows);
            let share = rows.min(whole) as f64 / whole.max(1) as f64;
            statistics = statistics.to_inexact();
            statistics.num_rows = Precision::Inexact(rows.min(whole));
            statistics.total_byte_size =
                statistics.total_byte_size.with_estimated_selectivity(share);
        }
        Ok(Arc::new(statistics.with_fetch(self.fetch, 0, 1)?))
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        // A limit counts rows before any dynamic filter takes some away.
        if !self.dynamic.is_empty() {
            return None;
        }
        Some(Arc::new(MorselScan {
            fetch: limit,
            metrics: ExecutionPlanMetricsSet::new(),
            ..self.clone()
        }))
    }

    fn fetch(&self) -> Option<usize> {
        self.fetch
    }

    fn try_swapping_with_projection(
        &self,
        projection: &ProjectionExec,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if !self.dynamic.is_empty() {
            return Ok(None);
        }
        let mut columns = Vec::with_capacity(projection.expr().len());
        for item in projection.expr() {
            match item.expr.downcast_ref::<Column>() {
                Some(column) if column.name() == item.alias => {
                    columns.push(self.projection[column.index()]);
                }
                _ => return Ok(None),
            }
        }
        let scan = MorselScan::try_new(
            Arc::clone(&self.source),
            columns,
            self.selection.clone(),
            self.partitions.len(),
            self.fetch,
        )?;
        Ok(Some(Arc::new(scan.with_filters(&self.filters))))
    }

    /// Takes dynamic filters: to skip morsels, and rows while that pays. Their owners don't need them applied.
    fn handle_child_pushdown_result(
        &self,
        phase: FilterPushdownPhase,
        result: ChildPushdownResult,
        _config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        let offered = result.parent_filters;
        let unapplied = vec![PushedDown::No; offered.len()];
        let propagation = FilterPushdownPropagation::with_parent_pushdown_result(unapplied);
        if phase != FilterPushdownPhase::Post || self.fetch.is_some() {
            return Ok(propagation);
        }
        let mut dynamic = self.dynamic.clone();
        dynamic.extend(
            offered
                .into_iter()
                .map(|f| f.filter)
                .filter(|f| DynamicFilterTracking::classify(f).contains_dynamic_filter()),
        );
        if dynamic.len() == self.dynamic.len() {
            return Ok(propagation);
        }
        let updated: Arc<dyn ExecutionPlan> = Arc::new(self.with_dynamic_filters(dynamic));
        Ok(propagation.with_updated_node(updated))
    }
}

/// What EXPLAIN ANALYZE shows of a scan.
struct ScanMetrics {
    baseline: BaselineMetrics,
    /// Morsels not read because no row of them can match.
    skipped: Count,
    /// Morsels handed out as slices of frozen memory (or of a frame).
    shared: Count,
    /// Morsels copied or converted.
    copied: Count,
    /// Their blocks.
    blocks_shared: Count,
    blocks_copied: Count,
    /// Rows read through an index that dynamic filters led to.
    found: Count,
    /// Rows read that dynamic filters took away.
    filtered: Count,
    /// Bytes of the batches handed out: fixed widths and views.
    bytes: Count,
}

impl ScanMetrics {
    fn new(set: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        ScanMetrics {
            baseline: BaselineMetrics::new(set, partition),
            skipped: MetricBuilder::new(set).counter("morsels_skipped", partition),
            shared: MetricBuilder::new(set).counter("morsels_shared", partition),
            copied: MetricBuilder::new(set).counter("morsels_copied", partition),
            blocks_shared: MetricBuilder::new(set).counter("blocks_shared", partition),
            blocks_copied: MetricBuilder::new(set).counter("blocks_copied", partition),
            found: MetricBuilder::new(set).counter("rows_by_index", partition),
            filtered: MetricBuilder::new(set).counter("rows_filtered", partition),
            bytes: MetricBuilder::new(set).counter("bytes", partition),
        }
    }
}

/// The rows of one partition.
struct MorselStream {
    source: Arc<dyn MorselSource>,
    projection: Arc<[usize]>,
    schema: SchemaRef,
    morsels: Arc<[usize]>,
    /// Position in `morsels` of the next one to read.
    next: usize,
    end: usize,
    /// Rows still wanted.
    wanted: Option<usize>,
    skipping: Vec<DynamicSkipping>,
    /// The dynamic filters until the first step, which may find all rows by an index.
    dynamic: Vec<Arc<dyn PhysicalExpr>>,
    filter: Option<RowFilter>,
    /// Batches read and not yet handed out.
    ready: VecDeque<RecordBatch>,
    metrics: ScanMetrics,
}

impl MorselStream {
    /// Reads all rows that dynamic filters want through an index; `false` if none is worth it.
    fn look_up(&mut self) -> Result<bool> {
        let known = probing::known_values(&std::mem::take(&mut self.dynamic));
        let morsels = &self.morsels[self.next..self.end];
        if known.is_empty() {
            return Ok(false);
        }
        let Some(found) = self.source.looked_up(&known, morsels)? else {
            return Ok(false);
        };
        let rows = morsels.iter().map(|morsel| self.source.rows(*morsel)).sum();
        for part in 0..found.morsels() {
            let (batch, _) = found.read(part, &self.projection)?;
            self.metrics.found.add(batch.num_rows());
            self.accept(batch)?;
        }
        self.next = self.end;
        self.source.advance(rows);
        if let Some(filter) = &mut self.filter {
            filter.finish(&mut self.ready)?;
        }
        Ok(true)
    }

    /// Reads or skips the next morsel; batches that are complete go to `ready`.
    fn step(&mut self) -> Result<()> {
        if !self.dynamic.is_empty() && self.look_up()? {
            return Ok(());
        }
        let morsel = self.morsels[self.next];
        self.next += 1;
        let bound = self.source.rows(morsel);
        let source = self.source.as_ref();
        let may_match = self
            .skipping
            .iter_mut()
            .all(|s| s.may_match(morsel, source, &self.schema, &self.projection));
        if may_match {
            let (batch, shared) = source.read(morsel, &self.projection)?;
            if shared {
                self.metrics.shared.add(1);
                self.metrics.blocks_shared.add(source.blocks(morsel));
            } else {
                self.metrics.copied.add(1);
                self.metrics.blocks_copied.add(source.blocks(morsel));
            }
            self.accept(batch)?;
        } else {
            self.metrics.skipped.add(1);
        }
        self.source.advance(bound);
        if self.next == self.end
            && let Some(filter) = &mut self.filter
        {
            filter.finish(&mut self.ready)?;
        }
        Ok(())
    }

    fn accept(&mut self, batch: RecordBatch) -> Result<()> {
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let schema = Arc::clone(&self.schema);
        let columns = batch.columns().to_vec();
        let mut batch = RecordBatch::try_new_with_options(schema, columns, &options)?;
        if let Some(wanted) = &mut self.wanted {
            if batch.num_rows() > *wanted {
                batch = batch.slice(0, *wanted);
            }
            *wanted -= batch.num_rows();
        }
        match &mut self.filter {
            Some(filter) => {
                let taken = filter.push(batch, &mut self.ready)?;
                self.metrics.filtered.add(taken);
            }
            None if batch.num_rows() > 0 => self.ready.push_back(batch),
            None => {}
        }
        Ok(())
    }
}

impl Stream for MorselStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let elapsed = this.metrics.baseline.elapsed_compute().clone();
        let _timer = elapsed.timer();
        // Morsels that yield nothing are cheap or were read: after a few of them, others get their turn.
        for _ in 0..8 {
            if let Some(batch) = this.ready.pop_front() {
                this.metrics.baseline.record_output(batch.num_rows());
                this.metrics.bytes.add(flat_bytes(&batch));
                return Poll::Ready(Some(Ok(batch)));
            }
            if this.next == this.end || this.wanted == Some(0) {
                this.metrics.baseline.done();
                return Poll::Ready(None);
            }
            if let Err(error) = this.step() {
                this.end = this.next;
                return Poll::Ready(Some(Err(error)));
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl RecordBatchStream for MorselStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// Bytes of fixed-width values and of views.
fn flat_bytes(batch: &RecordBatch) -> usize {
    let width = |column: &arrow::array::ArrayRef| column.data_type().primitive_width();
    batch
        .columns()
        .iter()
        .map(|c| width(c).unwrap_or(16) * c.len())
        .sum()
}
