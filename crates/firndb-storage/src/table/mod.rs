//! Tables: the handles through which rows are written and read.

mod alter;
mod bulk;
mod freezing;
#[cfg(test)]
mod freezing_tests;
mod index;
mod reference;
mod scan;
mod single;
mod statistics;
mod unique;
mod write;

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow::compute::{concat, take};
use arrow::datatypes::{DataType, Schema, SchemaRef};

use crate::block::cells::Rows;
use crate::block::place;
use crate::collect::Collector;
use crate::reclaim::Pin;
use crate::relation::{ColumnInfo, Formats, Relation};
use crate::{Error, Result, Snapshot};

pub use crate::block::State as BlockState;
pub use crate::frozen::{Form, Strings};
pub use crate::relation::heat::FreezeCounts;
pub use crate::relation::index::{IndexDefinition, KeyProgram};
pub use crate::relation::layout::Layout;
pub use crate::slot::Slot;
pub use bulk::BulkInsert;
pub use freezing::{BlockInfo, Freeze};
pub use index::{IndexCursor, PartOrder};
pub use scan::Scan;
pub use single::{Moment, Reader, RowByKey, RowUpdate};
pub use statistics::{ColumnStatistics, TableStatistics};

/// A handle to a table under one layout version. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Table {
    relation: Arc<Relation>,
    layout: Arc<Layout>,
    /// What this handle loads, and what [`Form::Native`] shows.
    formats: Formats,
    /// Keeps the undo records that the relation's chains lead to.
    collector: Arc<Collector>,
}

impl Table {
    pub(crate) fn new(
        collector: &Arc<Collector>,
        relation: Arc<Relation>,
        layout: Arc<Layout>,
    ) -> Self {
        Self {
            relation,
            layout,
            formats: Formats::default(),
            collector: Arc::clone(collector),
        }
    }

    pub(crate) fn relation(&self) -> &Arc<Relation> {
        &self.relation
    }

    pub(crate) fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    pub(crate) fn pinned(&self) -> Pin<'_> {
        self.pin()
    }

    /// Where its commits are logged, or will be.
    pub(crate) fn durable_storage(&self) -> Option<&Arc<crate::durable::Durable>> {
        self.collector.resources().durable.get()
    }

    /// Says that rows were written.
    pub(crate) fn note_changed(&self, slots: &[Slot]) {
        let blocks = slots.iter().filter_map(|&slot| place(slot));
        self.relation.note_changed(blocks.map(|(block, _)| block));
    }

    /// A handle whose columns have other names, or other words about them.
    pub(crate) fn with_schema(&self, schema: SchemaRef) -> Result<Self> {
        let types = |schema: &SchemaRef| -> Vec<_> {
            schema
                .fields()
                .iter()
                .map(|field| field.data_type().clone())
                .collect()
        };
        if types(&schema) != types(self.schema()) {
            return Err(Error::Damaged(
                "a table's columns changed their types".into(),
            ));
        }
        Ok(self.with_layout(Layout::new(schema, self.layout.columns.clone())))
    }

    fn with_layout(&self, layout: Arc<Layout>) -> Self {
        Self {
            layout,
            ..self.clone()
        }
    }

    /// What the tests of the freezer look at.
    #[cfg(test)]
    pub(crate) fn collector(&self) -> Arc<Collector> {
        Arc::clone(&self.collector)
    }

    fn pin(&self) -> Pin<'_> {
        self.collector.resources().reclaimer.pin()
    }

    /// The stored schema under this handle's layout.
    pub fn schema(&self) -> &SchemaRef {
        &self.layout.schema
    }

    /// The schema of scans in a form: as [`Form::schema`], with dictionaries of what is to be stored as such in [`Form::Native`].
    pub fn schema_in(&self, form: Form) -> SchemaRef {
        let schema = form.schema(self.schema());
        if form != Form::Native || !(0..self.layout.columns.len()).any(|at| self.is_coded(at)) {
            return schema;
        }
        let fields: Vec<_> = schema
            .fields()
            .iter()
            .zip(&self.layout.columns)
            .enumerate()
            .map(|(at, (field, info))| match self.is_coded(at) {
                true => {
                    let value = Box::new(info.stored.clone());
                    let coded = DataType::Dictionary(Box::new(DataType::Int32), value);
                    Arc::new(field.as_ref().clone().with_data_type(coded))
                }
                false => Arc::clone(field),
            })
            .collect();
        Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
    }

    /// Whether the column at a position is shown as a dictionary in `Form::Native`.
    fn is_coded(&self, position: usize) -> bool {
        let info = &self.layout.columns[position];
        self.formats.of(info.number) == Strings::Dictionary
            && matches!(info.stored, DataType::Utf8 | DataType::Binary)
    }

    /// A number that no other table of the process has; layouts of one table share it.
    pub fn id(&self) -> u64 {
        self.relation.id
    }

    /// Rows of a block that is loaded in bulk: what a load leaves beyond a multiple of it goes to the hot tail.
    pub fn block_rows(&self) -> usize {
        self.relation.block_rows
    }

    /// Reads rows by slot, in the order given; all must be visible.
    pub fn read(
        &self,
        snapshot: &Snapshot,
        slots: &[Slot],
        projection: &[usize],
        form: Form,
    ) -> Result<RecordBatch> {
        let columns = self.columns(projection)?;
        let schema = form.schema(&Arc::new(self.schema().project(projection)?));
        let mut order: Vec<usize> = (0..slots.len()).collect();
        let sorted = slots.is_sorted();
        if !sorted {
            order.sort_unstable_by_key(|&at| slots[at]);
        }
        let pin = self.pin();
        let view = snapshot.view();
        let mut pieces: Vec<Vec<ArrayRef>> = vec![Vec::new(); columns.len()];
        let mut at = 0;
        while at < order.len() {
            let (number, offsets) = same_block(slots, &order[at..])?;
            at += offsets.len();
            let block = self
                .relation
                .block(number, &pin)
                .filter(|block| block.is_born(&view, &pin))
                .ok_or_else(|| self.not_there())?;
            if offsets.iter().any(|&row| row as usize >= block.rows()) {
                return Err(self.not_there());
            }
            let rows = Rows::At(&offsets);
            let seen = self
                .relation
                .read_block(block, &columns, &rows, &view, form, &pin)?;
            if seen.offsets.len() != offsets.len() {
                return Err(self.not_there());
            }
            for (pieces, column) in pieces.iter_mut().zip(seen.columns) {
                pieces.push(column);
            }
        }
        let mut arrays = pieces
            .iter()
            .zip(schema.fields())
            .map(|(pieces, field)| join(pieces, field.data_type()))
            .collect::<Result<Vec<_>>>()?;
        if !sorted {
            let mut places = vec![0_u64; order.len()];
            for (place, &at) in order.iter().enumerate() {
                places[at] = place as u64;
            }
            let places = UInt64Array::from(places);
            for array in &mut arrays {
                *array = take(array, &places, None)?;
            }
        }
        batch(schema, arrays, slots.len())
    }

    fn not_there(&self) -> Error {
        Error::Internal(format!(
            "a row of table \"{}\" is not there",
            self.relation.name
        ))
    }

    fn columns(&self, projection: &[usize]) -> Result<Vec<Arc<ColumnInfo>>> {
        projection
            .iter()
            .map(|&position| {
                self.layout.columns.get(position).cloned().ok_or_else(|| {
                    Error::Internal(format!(
                        "table \"{}\" has no column {position}",
                        self.relation.name
                    ))
                })
            })
            .collect()
    }
}

/// The block of the first slot in `order`, and the offsets of all slots from there on that are in it.
fn same_block(slots: &[Slot], order: &[usize]) -> Result<(u32, Vec<u32>)> {
    let mut block = None;
    let mut offsets = Vec::new();
    for &at in order {
        let (number, row) = place(slots[at])
            .ok_or_else(|| Error::Internal(format!("{} is no slot", slots[at].0)))?;
        if *block.get_or_insert(number) != number {
            break;
        }
        offsets.push(row as u32);
    }
    Ok((block.unwrap_or_default(), offsets))
}

/// Pieces of a column as one.
fn join(pieces: &[ArrayRef], data_type: &arrow::datatypes::DataType) -> Result<ArrayRef> {
    match pieces {
        [] => Ok(arrow::array::new_empty_array(data_type)),
        [piece] => Ok(Arc::clone(piece)),
        pieces => {
            let pieces: Vec<_> = pieces.iter().map(AsRef::as_ref).collect();
            Ok(concat(&pieces)?)
        }
    }
}

/// A batch that may have no columns.
pub(crate) fn batch(schema: SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    // A stored field may be declared not null while storage does not enforce it.
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    match RecordBatch::try_new_with_options(Arc::clone(&schema), columns.clone(), &options) {
        Ok(batch) => Ok(batch),
        Err(_) => {
            let fields: Vec<_> = schema
                .fields()
                .iter()
                .map(|field| field.as_ref().clone().with_nullable(true))
                .collect();
            let schema = Schema::new_with_metadata(fields, schema.metadata().clone());
            Ok(RecordBatch::try_new_with_options(
                Arc::new(schema),
                columns,
                &options,
            )?)
        }
    }
}
