//! What a scan reads from: morsels in a fixed order, with what is known about their values.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::{SortOptions, cast};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::stats::Precision;
use datafusion::common::{Column, ColumnStatistics, ScalarValue, Statistics};
use datafusion::logical_expr::Expr;
use firndb_storage::{Form, Scan, Slot, Snapshot, Table, TableStatistics};
use parking_lot::Mutex;

use super::index::{self, IndexPath, IndexSource};
use super::ordered::OrderedRows;
use super::{SLOT_COLUMN, ScanProgress, Shape};
use crate::error::{Error, Result};

/// The most rows that a batch of a scan has.
pub const MORSEL_ROWS: usize = 32_768;

/// Rows in a fixed order, cut into morsels that can be read from many threads.
///
/// Column positions are those of [`MorselSource::schema`]. What is said about the values of a morsel (least, greatest, number of nulls) is
/// sound for every row that `read` yields.
pub trait MorselSource: Debug + Send + Sync + 'static {
    /// What the rows look like.
    fn schema(&self) -> &SchemaRef;
    /// The number of morsels.
    fn morsels(&self) -> usize;
    /// Upper bound of the rows of a morsel, at most [`MORSEL_ROWS`] where operators compute with them.
    fn rows(&self, morsel: usize) -> usize;
    /// Number of a table's blocks that a morsel is made of.
    fn blocks(&self, _morsel: usize) -> usize {
        1
    }
    /// Refuses to read columns that nobody can read.
    fn check_readable(&self, _projection: &[usize]) -> Result<()> {
        Ok(())
    }
    /// Reads columns of a morsel, in the order of `projection`. The second value says whether memory was shared (`true`) or rows were copied.
    fn read(&self, morsel: usize, projection: &[usize]) -> Result<(RecordBatch, bool)>;
    /// Statistics of all rows, for these columns of the schema in this order.
    fn statistics(&self, columns: &[usize]) -> Arc<Statistics>;
    /// Least value of a column by morsel, in the column's type, null where unknown.
    fn minimums(&self, _column: usize) -> Option<ArrayRef> {
        None
    }
    /// Greatest value of a column by morsel, as `minimums`.
    fn maximums(&self, _column: usize) -> Option<ArrayRef> {
        None
    }
    /// Number of nulls of a column by morsel (UInt64), null where unknown.
    fn null_counts(&self, _column: usize) -> Option<ArrayRef> {
        None
    }
    /// Whether `minimums`, `maximums` or `null_counts` may know something.
    fn has_zones(&self) -> bool {
        false
    }
    /// The index that leads to the rows, if one does.
    fn access(&self) -> Option<&str> {
        None
    }
    /// The same rows, or as many of them as pass `filters`, through an index where that is worth it.
    fn through_index(&self, _filters: &[Expr]) -> Result<Option<Arc<dyn MorselSource>>> {
        Ok(None)
    }
    /// The same source without its rows, to be [renewed](Self::renewed) for another snapshot. `None` if it can't be.
    fn vacated(&self) -> Option<Arc<dyn MorselSource>> {
        None
    }
    /// A source without rows at another snapshot, if that sees the rows that it had.
    fn renewed(
        &self,
        _snapshot: &Snapshot,
        _progress: &Arc<ScanProgress>,
    ) -> Result<Option<Arc<dyn MorselSource>>> {
        Ok(None)
    }
    /// The same rows, or as many of them as pass `filters`, in an order of columns, if an index has it.
    fn in_order(
        &self,
        _filters: &[Expr],
        _orders: &[(usize, SortOptions)],
    ) -> Result<Option<OrderedRows>> {
        Ok(None)
    }
    /// An index whose keys begin with a column and that has all rows.
    fn index_of(&self, _column: &str) -> Option<&str> {
        None
    }
    /// Through an index, the rows of some morsels, ascending, that pass filters, and others; where that is worth it.
    fn looked_up(
        &self,
        _filters: &[Expr],
        _morsels: &[usize],
    ) -> Result<Option<Arc<dyn MorselSource>>> {
        Ok(None)
    }
    /// Called with the upper bound of rows when a scan begins.
    fn begin(&self, _rows: usize) {}
    /// Called with a part of that bound when it was read or skipped.
    fn advance(&self, _rows: usize) {}
}

/// A stored table at a snapshot.
#[derive(Debug)]
pub struct TableSource {
    scan: Scan,
    table: Table,
    snapshot: Snapshot,
    form: Form,
    whole: bool,
    schema: SchemaRef,
    /// Position of `__slot`, the last column, if the scan shows it.
    slot: Option<usize>,
    /// Statistics by the columns that were asked for: a plan asks more than once, and never for all of a wide table.
    statistics: Mutex<Vec<(Vec<usize>, Arc<Statistics>)>>,
    progress: Arc<ScanProgress>,
    paths: Vec<IndexPath>,
}

impl TableSource {
    /// Opens a scan of what `snapshot` sees, which may go through an index.
    pub fn open(
        table: &Table,
        snapshot: &Snapshot,
        shape: Shape,
        progress: Arc<ScanProgress>,
        paths: Vec<IndexPath>,
    ) -> Result<Self> {
        let Shape { form, slots, whole } = shape;
        let stored = table.schema_in(form);
        let (schema, slot) = if slots {
            let mut fields: Vec<_> = stored.fields().iter().cloned().collect();
            fields.push(Arc::new(Field::new(SLOT_COLUMN, DataType::UInt64, false)));
            let schema = Schema::new_with_metadata(fields, stored.metadata().clone());
            (Arc::new(schema), Some(stored.fields().len()))
        } else {
            (stored, None)
        };
        Ok(TableSource {
            scan: match whole {
                true => table.scan_whole(snapshot)?,
                false => table.scan(snapshot)?,
            },
            table: table.clone(),
            snapshot: snapshot.clone(),
            form,
            whole,
            schema,
            slot,
            statistics: Mutex::default(),
            progress,
            paths,
        })
    }

    /// The best index for filters, and where it leads to.
    fn chosen(&self, filters: &[Expr]) -> Result<Option<(String, Vec<Slot>)>> {
        let rows = (0..self.scan.morsels())
            .map(|morsel| self.scan.rows(morsel))
            .sum();
        index::choose(&self.table, &self.snapshot, &self.paths, filters, rows)
    }

    /// The rows to which an index led.
    fn at(&self, found: (String, Vec<Slot>)) -> Arc<dyn MorselSource> {
        let (table, snapshot) = (&self.table, &self.snapshot);
        let source = IndexSource::new(table, snapshot, found, self.form, &self.schema, self.slot);
        Arc::new(source)
    }

    fn compute_statistics(&self, columns: &[usize]) -> Statistics {
        let stored: Vec<usize> = columns
            .iter()
            .copied()
            .filter(|&column| Some(column) != self.slot)
            .collect();
        let fields: Vec<_> = stored
            .iter()
            .map(|&column| Arc::clone(&self.schema.fields()[column]))
            .collect();
        let schema = Schema::new(fields);
        let mut statistics = match self.table.statistics_of(&self.snapshot, &stored) {
            Ok(known) => table_statistics(&schema, &known),
            Err(_) => Statistics::new_unknown(&schema),
        };
        for (position, &column) in columns.iter().enumerate() {
            if Some(column) == self.slot {
                let unknown = ColumnStatistics::new_unknown();
                statistics.column_statistics.insert(position, unknown);
            }
        }
        statistics
    }

    /// A bound in the type that this form shows; `None` where the type can't carry it.
    fn zone(&self, column: usize, bounds: Option<ArrayRef>) -> Option<ArrayRef> {
        let expected = self.schema.field(column).data_type();
        let bounds = bounds?;
        if bounds.data_type() == expected {
            Some(bounds)
        } else {
            cast(&bounds, expected).ok()
        }
    }
}

impl MorselSource for TableSource {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn morsels(&self) -> usize {
        self.scan.morsels()
    }

    fn rows(&self, morsel: usize) -> usize {
        self.scan.rows(morsel)
    }

    fn blocks(&self, morsel: usize) -> usize {
        self.scan.blocks(morsel)
    }

    fn read(&self, morsel: usize, projection: &[usize]) -> Result<(RecordBatch, bool)> {
        let Some(slot) = self.slot.filter(|slot| projection.contains(slot)) else {
            return Ok(self.scan.read(morsel, projection, self.form, false)?);
        };
        // Storage gives slots after the other columns; a projection may want them anywhere.
        let columns: Vec<usize> = projection.iter().copied().filter(|c| *c != slot).collect();
        let (batch, shared) = self.scan.read(morsel, &columns, self.form, true)?;
        let mut next = 0;
        let order: Vec<usize> = projection
            .iter()
            .map(|c| {
                if *c == slot {
                    columns.len()
                } else {
                    next += 1;
                    next - 1
                }
            })
            .collect();
        Ok((batch.project(&order)?, shared))
    }

    fn statistics(&self, columns: &[usize]) -> Arc<Statistics> {
        let mut known = self.statistics.lock();
        if let Some((_, statistics)) = known.iter().find(|(asked, _)| asked == columns) {
            return Arc::clone(statistics);
        }
        let statistics = Arc::new(self.compute_statistics(columns));
        known.push((columns.to_vec(), Arc::clone(&statistics)));
        statistics
    }

    fn minimums(&self, column: usize) -> Option<ArrayRef> {
        if Some(column) == self.slot {
            return None;
        }
        self.zone(column, self.scan.minimums(column))
    }

    fn maximums(&self, column: usize) -> Option<ArrayRef> {
        if Some(column) == self.slot {
            return None;
        }
        self.zone(column, self.scan.maximums(column))
    }

    fn null_counts(&self, column: usize) -> Option<ArrayRef> {
        if Some(column) == self.slot {
            return None;
        }
        self.scan.null_counts(column)
    }

    fn has_zones(&self) -> bool {
        true
    }

    fn through_index(&self, filters: &[Expr]) -> Result<Option<Arc<dyn MorselSource>>> {
        if self.paths.is_empty() || filters.is_empty() {
            return Ok(None);
        }
        Ok(self.chosen(filters)?.map(|found| self.at(found)))
    }

    fn index_of(&self, column: &str) -> Option<&str> {
        let path = self.paths.iter().find(|path| {
            let first = path.parts.first();
            let is_column =
                |part: &index::PathPart| part.expression == Expr::Column(Column::from_name(column));
            path.predicate.is_none() && first.is_some_and(is_column)
        })?;
        Some(&path.name)
    }

    fn looked_up(
        &self,
        filters: &[Expr],
        morsels: &[usize],
    ) -> Result<Option<Arc<dyn MorselSource>>> {
        if self.paths.is_empty() || filters.is_empty() {
            return Ok(None);
        }
        let Some((index, mut slots)) = self.chosen(filters)? else {
            return Ok(None);
        };
        slots.retain(|slot| {
            let morsel = self.scan.morsel_of(*slot);
            morsel.is_some_and(|morsel| morsels.binary_search(&morsel).is_ok())
        });
        Ok(Some(self.at((index, slots))))
    }

    fn in_order(
        &self,
        filters: &[Expr],
        orders: &[(usize, SortOptions)],
    ) -> Result<Option<OrderedRows>> {
        OrderedRows::find(
            (&self.table, &self.snapshot),
            &self.paths,
            filters,
            (&self.schema, self.form, self.slot),
            orders,
        )
    }

    fn vacated(&self) -> Option<Arc<dyn MorselSource>> {
        let shape = Shape {
            form: self.form,
            slots: self.slot.is_some(),
            whole: self.whole,
        };
        let settled = self.table.settled(&self.snapshot)?;
        let vacant = VacantTable::new(&self.table, shape, &self.schema, settled);
        Some(Arc::new(vacant))
    }

    fn begin(&self, rows: usize) {
        self.progress
            .total
            .fetch_add(rows as u64, Ordering::Relaxed);
    }

    fn advance(&self, rows: usize) {
        self.progress.done.fetch_add(rows as u64, Ordering::Relaxed);
    }
}

/// A table in a plan without rows.
#[derive(Debug)]
struct VacantTable {
    table: Table,
    shape: Shape,
    schema: SchemaRef,
    /// What the table's rows were known by.
    settled: u64,
}

impl VacantTable {
    fn new(table: &Table, shape: Shape, schema: &SchemaRef, settled: u64) -> Self {
        VacantTable {
            table: table.clone(),
            shape,
            schema: Arc::clone(schema),
            settled,
        }
    }
}

impl MorselSource for VacantTable {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn morsels(&self) -> usize {
        0
    }

    fn rows(&self, _: usize) -> usize {
        0
    }

    fn read(&self, _: usize, _: &[usize]) -> Result<(RecordBatch, bool)> {
        Err(Error::internal("a plan without rows was run"))
    }

    fn statistics(&self, columns: &[usize]) -> Arc<Statistics> {
        let schema = self.schema.project(columns);
        let schema = schema.unwrap_or_else(|_| self.schema.as_ref().clone());
        Arc::new(Statistics::new_unknown(&schema))
    }

    fn renewed(
        &self,
        snapshot: &Snapshot,
        progress: &Arc<ScanProgress>,
    ) -> Result<Option<Arc<dyn MorselSource>>> {
        if self.table.settled(snapshot) != Some(self.settled) {
            return Ok(None);
        }
        let progress = Arc::clone(progress);
        let source = TableSource::open(&self.table, snapshot, self.shape, progress, Vec::new())?;
        Ok(Some(Arc::new(source)))
    }
}

/// Storage's statistics in DataFusion's words: exact only when all of them are.
fn table_statistics(schema: &Schema, known: &TableStatistics) -> Statistics {
    fn precision<T>(exact: bool, value: T) -> Precision<T>
    where
        T: Debug + Clone + PartialEq + Eq + PartialOrd,
    {
        if exact {
            Precision::Exact(value)
        } else {
            Precision::Inexact(value)
        }
    }
    let bound = |value: &Option<ArrayRef>, field: &Field| {
        value
            .as_ref()
            .and_then(|array| ScalarValue::try_from_array(array, 0).ok())
            .and_then(|scalar| scalar.cast_to(field.data_type()).ok())
            .filter(|scalar| !scalar.is_null() && !is_unordered(scalar))
            .map_or(Precision::Absent, |scalar| precision(known.exact, scalar))
    };
    let sizes = column_sizes(schema, known.rows, known.bytes);
    let columns = schema.fields().iter().enumerate().map(|(position, field)| {
        let Some(column) = known.columns.get(position) else {
            return ColumnStatistics::new_unknown();
        };
        let mut statistics = ColumnStatistics::new_unknown();
        statistics.null_count = column
            .nulls
            .map_or(Precision::Absent, |nulls| precision(known.exact, nulls));
        statistics.min_value = bound(&column.minimum, field);
        statistics.max_value = bound(&column.maximum, field);
        // A sketch never counts exactly.
        statistics.distinct_count = column
            .distinct
            .map_or(Precision::Absent, Precision::Inexact);
        statistics.byte_size = Precision::Inexact(sizes[position]);
        statistics
    });
    Statistics {
        num_rows: precision(known.exact, known.rows),
        column_statistics: columns.collect(),
        total_byte_size: Precision::Inexact(sizes.iter().sum()),
    }
}

/// Floating-point bounds that are zero or no number: SQL's order and Arrow's differ there, so nothing is answered from them.
fn is_unordered(value: &ScalarValue) -> bool {
    match value {
        ScalarValue::Float32(Some(v)) => v.is_nan() || *v == 0.0,
        ScalarValue::Float64(Some(v)) => v.is_nan() || *v == 0.0,
        _ => false,
    }
}

/// Bytes by column: widths where they are fixed, the rest shared evenly.
fn column_sizes(schema: &Schema, rows: usize, total: usize) -> Vec<usize> {
    let width = |field: &Field| field.data_type().primitive_width();
    let fixed: usize = schema
        .fields()
        .iter()
        .filter_map(|f| width(f))
        .sum::<usize>()
        * rows;
    let variable = schema
        .fields()
        .iter()
        .filter(|f| width(f).is_none())
        .count();
    let share = total.saturating_sub(fixed) / variable.max(1);
    schema
        .fields()
        .iter()
        .map(|f| width(f).map_or(share, |w| w * rows))
        .collect()
}
