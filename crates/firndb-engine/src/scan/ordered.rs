//! Reading rows in the order of an index, a few at a time.
//!
//! Each row costs a look into the index and one into the table, hundreds of times what a scan pays for it: worth it only when few rows are wanted. How many
//! must be looked at until enough pass the filters above nobody knows, so the operator reads a share of the table at most and then gives up with
//! an [error of its own](gave_up), which [`super::first::IndexFirst`] catches.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow::compute::SortOptions;
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Column, DataFusionError, Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PhysicalExpr, PlanProperties,
};
use firndb_storage::index::KeyRange;
use firndb_storage::{Form, IndexCursor, PartOrder, Slot, Snapshot, Table};

use super::index::{IndexPath, fixed_range};
use crate::Error;

/// One row of so many may be looked at through an index.
pub(super) const SHARE: usize = 512;
/// Entries that are looked at together, at most.
const PIECE: usize = 4_096;

/// The rows of a table, or those that some filters leave, in the order of an index.
#[derive(Debug, Clone)]
pub struct OrderedRows {
    /// The table.
    pub table: Table,
    /// Who reads it.
    pub snapshot: Snapshot,
    /// The types of the columns.
    pub form: Form,
    /// The columns.
    pub schema: SchemaRef,
    /// Position of `__slot`, the last column, if the scan shows it.
    pub slot: Option<usize>,
    index: String,
    range: KeyRange,
    /// Parts of the key that the range fixes.
    fixed: usize,
    orders: Vec<PartOrder>,
}

impl OrderedRows {
    /// The rows that pass `filters`, and others, in the order of columns; `None` if no index has it.
    pub fn find(
        (table, snapshot): (&Table, &Snapshot),
        paths: &[IndexPath],
        filters: &[Expr],
        (schema, form, slot): (&SchemaRef, Form, Option<usize>),
        orders: &[(usize, SortOptions)],
    ) -> crate::Result<Option<Self>> {
        for path in paths {
            let Some((range, fixed)) = fixed_range(path, filters) else {
                continue;
            };
            let column = |part: &super::index::PathPart, column: usize| {
                let name = schema.field(column).name();
                part.ordered && part.expression == Expr::Column(Column::from_name(name))
            };
            let (parts_fixed, parts) = path.parts.split_at(fixed);
            // What has one value orders nothing.
            let wanted: Vec<_> = orders
                .iter()
                .filter(|(at, _)| !parts_fixed.iter().any(|part| column(part, *at)))
                .collect();
            let matches = wanted.len() <= parts.len()
                && wanted
                    .iter()
                    .zip(parts)
                    .all(|((at, _), part)| column(part, *at));
            if wanted.is_empty() || !matches {
                continue;
            }
            let orders = wanted
                .iter()
                .zip(parts)
                .map(|((_, options), part)| PartOrder {
                    descending: options.descending,
                    nulls_first: (path.nulls && part.nullable).then_some(options.nulls_first),
                });
            let found = OrderedRows {
                table: table.clone(),
                snapshot: snapshot.clone(),
                form,
                schema: Arc::clone(schema),
                slot,
                index: path.name.clone(),
                range,
                fixed,
                orders: orders.collect(),
            };
            if found.cursor()?.is_some() {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn cursor(&self) -> crate::Result<Option<IndexCursor>> {
        let (table, snapshot) = (&self.table, &self.snapshot);
        Ok(table.ordered_cursor(snapshot, &self.index, &self.range, self.fixed, &self.orders)?)
    }

    fn read(
        &self,
        slots: &[Slot],
        projection: &[usize],
        schema: &SchemaRef,
    ) -> crate::Result<RecordBatch> {
        let stored: Vec<usize> = projection
            .iter()
            .copied()
            .filter(|&column| Some(column) != self.slot)
            .collect();
        let batch = self.table.read(&self.snapshot, slots, &stored, self.form)?;
        let mut columns = batch.columns().iter();
        let columns = projection
            .iter()
            .map(|&column| match Some(column) == self.slot {
                true => {
                    let slots = slots.iter().map(|slot| slot.0);
                    Some(Arc::new(UInt64Array::from_iter_values(slots)) as ArrayRef)
                }
                false => columns.next().cloned(),
            })
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| Error::internal("an index scan lacks a column"))?;
        let options = RecordBatchOptions::new().with_row_count(Some(slots.len()));
        Ok(RecordBatch::try_new_with_options(
            Arc::clone(schema),
            columns,
            &options,
        )?)
    }
}

/// More rows would have to be looked at than is worth it.
#[derive(Debug)]
struct GaveUp;

impl fmt::Display for GaveUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an index scan gave up")
    }
}

impl std::error::Error for GaveUp {}

/// Whether an error says that an [`OrderedScan`] gave up.
pub(super) fn gave_up(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::External(inner) if inner.is::<GaveUp>())
}

/// A scan in the order of an index: one partition.
#[derive(Debug, Clone)]
pub struct OrderedScan {
    rows: Arc<OrderedRows>,
    projection: Arc<[usize]>,
    schema: SchemaRef,
    /// Rows that are wanted.
    wanted: usize,
    /// Entries that may be looked at.
    budget: usize,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl OrderedScan {
    /// A scan of `projection` that is worth it for `wanted` rows, and gives up after `budget` entries.
    pub fn try_new(
        rows: OrderedRows,
        projection: Arc<[usize]>,
        wanted: usize,
        budget: usize,
    ) -> Result<Self> {
        let schema = Arc::new(rows.schema.project(&projection)?);
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        Ok(OrderedScan {
            rows: Arc::new(rows),
            projection,
            schema,
            wanted,
            budget,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }
}

impl DisplayAs for OrderedScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let columns: Vec<&str> = self
            .schema
            .fields()
            .iter()
            .map(|field| field.name().as_str())
            .collect();
        let descending = self.rows.orders.iter().any(|order| order.descending);
        write!(
            f,
            "OrderedScan: columns=[{}], index={}{}, at most {} entries",
            columns.join(", "),
            self.rows.index,
            if descending { " descending" } else { "" },
            self.budget
        )
    }
}

impl ExecutionPlan for OrderedScan {
    fn name(&self) -> &str {
        "OrderedScan"
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
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match children.is_empty() {
            true => Ok(self),
            false => internal_err!("a scan has no children"),
        }
    }

    fn execute(
        &self,
        partition: usize,
        _context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let Some(cursor) = self.rows.cursor()? else {
            return internal_err!("an index is gone");
        };
        let batches = Batches {
            rows: Arc::clone(&self.rows),
            projection: Arc::clone(&self.projection),
            schema: Arc::clone(&self.schema),
            cursor: Some(cursor),
            next: self.wanted.clamp(8, PIECE),
            left: self.budget,
            metrics: BaselineMetrics::new(&self.metrics, partition),
        };
        Ok(Box::pin(cooperative(RecordBatchStreamAdapter::new(
            Arc::clone(&self.schema),
            futures::stream::iter(batches),
        ))))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// Reads more at a time the longer it takes.
struct Batches {
    rows: Arc<OrderedRows>,
    projection: Arc<[usize]>,
    schema: SchemaRef,
    /// Until the end.
    cursor: Option<IndexCursor>,
    /// Entries to look at next.
    next: usize,
    /// Entries that may still be looked at.
    left: usize,
    metrics: BaselineMetrics,
}

impl Batches {
    fn read(&mut self) -> Result<Option<RecordBatch>> {
        let metrics = self.metrics.clone();
        let _timer = metrics.elapsed_compute().timer();
        let Some(cursor) = &mut self.cursor else {
            return Ok(None);
        };
        let most = self.next.min(self.left);
        if most == 0 {
            return Err(DataFusionError::External(Box::new(GaveUp)));
        }
        self.left -= most;
        self.next = (self.next * 2).min(PIECE);
        let Some(slots) = cursor.next(most).map_err(Error::from)? else {
            return Ok(None);
        };
        let batch = self.rows.read(&slots, &self.projection, &self.schema)?;
        Ok(Some(batch.record_output(&metrics)))
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let read = self.read().transpose();
        if !matches!(read, Some(Ok(_))) {
            self.cursor = None;
        }
        read
    }
}
