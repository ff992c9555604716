//! Relations: what all handles of one table share. Its columns, its blocks, who may write it, its indexes.
//!
//! Invariants:
//! - Column numbers are never reused; a dropped column keeps its number. A block knows its columns by number, so it outlives any
//!   number of layouts.
//! - Block numbers ascend and are never reused. The order of blocks is the order of the table.
//! - Inserted rows go to the open tail, and only to one that was made for the inserter's layout.

mod access;
pub(crate) mod chain;
pub(crate) mod heat;
pub(crate) mod index;
pub(crate) mod layout;
mod moving;
pub(crate) mod read;
pub(crate) mod single;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use arrow::array::{Array, ArrayRef, UInt32Array};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, SchemaRef};
use arrow_row::RowConverter;
use parking_lot::{Mutex, RwLock};

use crate::block::cells::Physical;
use crate::block::directory::Directory;
use crate::block::hot::{HotColumn, row_decoder};
use crate::block::source::Source;
use crate::block::{Block, Column, FrozenPart, MOST_ROWS};
use crate::durable::DurableTable;
use crate::frozen::{Form, Strings};
use crate::reclaim::Pin;
use crate::resources::Resources;
use crate::undo::{Shape, Shapes};
use crate::{Error, Result};
use access::Access;
use heat::Heat;
use index::Index;

/// A column of a relation.
pub(crate) struct ColumnInfo {
    pub(crate) number: usize,
    pub(crate) stored: DataType,
    pub(crate) physical: Physical,
    /// What rows have that are older than the column: one value.
    pub(crate) default: Option<ArrayRef>,
    /// Decodes hot values of a nested type.
    pub(crate) decoder: Option<RowConverter>,
}

impl ColumnInfo {
    fn new(number: usize, stored: &DataType, default: Option<ArrayRef>) -> Result<Self> {
        Ok(Self {
            number,
            stored: stored.clone(),
            physical: Physical::of(stored)?,
            default,
            decoder: if stored.is_nested() {
                Some(row_decoder(stored)?)
            } else {
                None
            },
        })
    }

    /// The default, `rows` times.
    pub(crate) fn defaults(&self, rows: usize, form: Form) -> Result<ArrayRef> {
        let data_type = form.data_type(&self.stored);
        match &self.default {
            Some(value) => {
                let value = if *value.data_type() == data_type {
                    Arc::clone(value)
                } else {
                    cast(value, &data_type)?
                };
                Ok(take(&value, &UInt32Array::from(vec![0; rows]), None)?)
            }
            None => Ok(arrow::array::new_null_array(&data_type, rows)),
        }
    }
}

/// Formats of strings by the number of their column.
#[derive(Debug, Clone, Default)]
pub(crate) struct Formats(Arc<[Strings]>);

impl Formats {
    /// The format of a column.
    pub(crate) fn of(&self, column: usize) -> Strings {
        self.0.get(column).copied().unwrap_or_default()
    }
}

impl FromIterator<(usize, Strings)> for Formats {
    fn from_iter<T: IntoIterator<Item = (usize, Strings)>>(formats: T) -> Self {
        let mut all = Vec::new();
        for (column, strings) in formats {
            all.resize(all.len().max(column + 1), Strings::default());
            all[column] = strings;
        }
        Self(all.into())
    }
}

/// The end of the table, where rows are inserted.
struct Tail {
    open: Option<u32>,
    /// Rows of the next hot block: hot blocks grow, so that a small table stays small.
    next_capacity: usize,
}

const FIRST_CAPACITY: usize = 256;

/// What all handles of a table share.
pub(crate) struct Relation {
    pub(crate) id: u64,
    pub(crate) name: String,
    pub(crate) resources: Arc<Resources>,
    /// Rows of a block that is loaded in bulk, and most rows of a hot one.
    pub(crate) block_rows: usize,
    columns: RwLock<Vec<Arc<ColumnInfo>>>,
    blocks: Directory<Block>,
    count: AtomicU32,
    tail: Mutex<Tail>,
    shapes: Shapes,
    pub(crate) access: Access,
    pub(crate) heat: Heat,
    /// Formats of strings that are asked for, by the number of their column.
    strings: RwLock<Formats>,
    indexes: RwLock<Arc<[Arc<Index>]>>,
    /// What the database file calls it; `None` if its rows do not last.
    durable: RwLock<Option<Arc<DurableTable>>>,
    /// Blocks of which rows were written or moved since the last checkpoint began.
    changed: Mutex<BTreeSet<u32>>,
}

/// Rows of which the fixed-width data is about 1 MiB.
fn block_rows(columns: &[Arc<ColumnInfo>]) -> usize {
    let bits: usize = columns.iter().map(|column| column.physical.bits()).sum();
    let ideal = (1 << 23) as f64 / bits.max(1) as f64;
    (1_usize << (ideal.log2().round() as u32).clamp(10, 15)).min(MOST_ROWS)
}

impl Relation {
    pub(crate) fn new(
        name: &str,
        schema: &SchemaRef,
        resources: &Arc<Resources>,
    ) -> Result<Arc<Self>> {
        static IDS: AtomicU64 = AtomicU64::new(1);
        let columns = schema
            .fields()
            .iter()
            .enumerate()
            .map(|(number, field)| ColumnInfo::new(number, field.data_type(), None).map(Arc::new))
            .collect::<Result<Vec<_>>>()?;
        let block_rows = block_rows(&columns);
        Ok(Arc::new(Self {
            id: IDS.fetch_add(1, Ordering::Relaxed),
            name: name.to_owned(),
            resources: Arc::clone(resources),
            block_rows,
            columns: RwLock::new(columns),
            blocks: Directory::new(),
            count: AtomicU32::new(0),
            tail: Mutex::new(Tail {
                open: None,
                next_capacity: FIRST_CAPACITY.min(block_rows),
            }),
            shapes: Shapes::default(),
            access: Access::default(),
            heat: Heat::new(),
            strings: RwLock::default(),
            indexes: RwLock::new(Arc::new([])),
            durable: RwLock::new(None),
            changed: Mutex::default(),
        }))
    }

    pub(crate) fn conflict(&self) -> Error {
        Error::Conflict {
            table: self.name.clone(),
        }
    }

    /// What the database file calls it.
    pub(crate) fn durable(&self) -> Option<Arc<DurableTable>> {
        self.durable.read().clone()
    }

    pub(crate) fn set_durable(&self, table: Option<Arc<DurableTable>>) {
        *self.durable.write() = table;
    }

    /// Says that rows of blocks were written or moved.
    pub(crate) fn note_changed(&self, blocks: impl IntoIterator<Item = u32>) {
        self.changed.lock().extend(blocks);
    }

    /// The blocks of which that was said since the last time.
    pub(crate) fn take_changed(&self) -> BTreeSet<u32> {
        std::mem::take(&mut *self.changed.lock())
    }

    /// All columns that there ever were.
    pub(crate) fn columns(&self) -> Vec<Arc<ColumnInfo>> {
        self.columns.read().clone()
    }

    /// Adds a column; rows that are there have `default`.
    pub(crate) fn add_column(
        &self,
        stored: &DataType,
        default: ArrayRef,
    ) -> Result<Arc<ColumnInfo>> {
        let mut columns = self.columns.write();
        let column = Arc::new(ColumnInfo::new(columns.len(), stored, Some(default))?);
        columns.push(Arc::clone(&column));
        Ok(column)
    }

    /// The format in which the strings of a column freeze.
    pub(crate) fn strings(&self, column: usize) -> Strings {
        self.strings.read().of(column)
    }

    pub(crate) fn set_strings(&self, formats: Formats) {
        *self.strings.write() = formats;
    }

    /// The shape of updates of these columns.
    pub(crate) fn shape(&self, columns: &[Arc<ColumnInfo>]) -> Arc<Shape> {
        let numbers: Vec<usize> = columns.iter().map(|column| column.number).collect();
        self.shapes.get(&numbers, |number| {
            columns
                .iter()
                .find(|column| column.number == number)
                .map_or(Physical::Bits, |column| column.physical)
        })
    }

    /// Number of blocks that there ever were.
    pub(crate) fn block_count(&self) -> u32 {
        self.count.load(Ordering::Acquire)
    }

    /// A block, if it has not been removed.
    #[inline]
    pub(crate) fn block<'g>(&self, number: u32, pin: &'g Pin<'_>) -> Option<&'g Block> {
        self.blocks.get(number, pin)
    }

    /// Appends blocks of a bulk load, made by `make` from their numbers. The tail is closed, so that rows inserted later come after them.
    pub(crate) fn append_blocks(
        &self,
        count: usize,
        pin: &Pin<'_>,
        make: impl Fn(usize, u32) -> Result<Block>,
    ) -> Result<u32> {
        let mut tail = self.tail.lock();
        let first = self.block_count();
        let end = u32::try_from(first as usize + count)
            .map_err(|_| Error::Limit(format!("too many blocks in table \"{}\"", self.name)))?;
        let blocks = (0..count)
            .map(|at| make(at, first + at as u32))
            .collect::<Result<Vec<_>>>()?;
        self.close_tail(&mut tail, pin);
        for block in blocks {
            self.blocks
                .put(block.number, Box::into_raw(Box::new(block)));
        }
        self.count.store(end, Ordering::Release);
        Ok(first)
    }

    fn close_tail(&self, tail: &mut Tail, pin: &Pin<'_>) {
        if let Some(block) = tail.open.take().and_then(|open| self.block(open, pin)) {
            block.close();
            if block.unburied() == 0 {
                self.remove_block(block.number);
            }
        }
    }

    /// Gives up to `wanted` fresh rows for `layout`, which has these columns, to the caller: block, first row, count.
    pub(crate) fn reserve<'g>(
        &self,
        layout: u64,
        columns: &[Arc<ColumnInfo>],
        wanted: usize,
        pin: &'g Pin<'_>,
    ) -> Result<(&'g Block, usize, usize)> {
        loop {
            let mut tail = self.tail.lock();
            if let Some(block) = tail.open.and_then(|open| self.block(open, pin)) {
                if block.layout == layout
                    && let Some((first, count)) = block.reserve(wanted)
                {
                    return Ok((block, first, count));
                }
                self.close_tail(&mut tail, pin);
            }
            let number = self.block_count();
            if number == u32::MAX {
                return Err(Error::Limit(format!(
                    "too many blocks in table \"{}\"",
                    self.name
                )));
            }
            let capacity = tail
                .next_capacity
                .max(wanted.min(self.block_rows).next_power_of_two());
            let mut hot = Vec::new();
            for column in columns {
                hot.resize_with(hot.len().max(column.number + 1), || None);
                hot[column.number] = Some(Column::Hot(self.hot_column(column, capacity)?));
            }
            let block = Block::hot(number, layout, capacity, hot)?;
            tail.next_capacity = (2 * capacity).min(self.block_rows);
            self.blocks.put(number, Box::into_raw(Box::new(block)));
            self.count.store(number + 1, Ordering::Release);
            tail.open = Some(number);
        }
    }

    fn hot_column(&self, column: &ColumnInfo, rows: usize) -> Result<HotColumn> {
        let resources = &self.resources;
        HotColumn::new(
            column.physical,
            rows,
            &resources.budget,
            &resources.reclaimer,
        )
    }

    /// The hot column of a block for a writer, thawed if it is frozen, made if the block is older than the column.
    #[inline]
    pub(crate) fn warmed<'g>(
        &self,
        block: &'g Block,
        column: &ColumnInfo,
        pin: &'g Pin<'_>,
    ) -> Result<&'g HotColumn> {
        let reclaimer = &self.resources.reclaimer;
        let (hot, thawed) = block.warmed(column.number, reclaimer, pin, |frozen| {
            self.thaw(block, column, frozen, pin)
        })?;
        if thawed {
            let frozen_at = block.frozen_at.load(Ordering::Relaxed);
            self.heat.note_thaw(frozen_at);
        }
        Ok(hot)
    }

    /// As [`warmed`](Self::warmed), without a word about temperature.
    pub(crate) fn warmed_by_freezer<'g>(
        &self,
        block: &'g Block,
        column: &ColumnInfo,
        pin: &'g Pin<'_>,
    ) -> Result<&'g HotColumn> {
        let reclaimer = &self.resources.reclaimer;
        block
            .warmed(column.number, reclaimer, pin, |frozen| {
                self.thaw(block, column, frozen, pin)
            })
            .map(|(hot, _)| hot)
    }

    fn thaw(
        &self,
        block: &Block,
        column: &ColumnInfo,
        frozen: Option<&FrozenPart>,
        pin: &Pin<'_>,
    ) -> Result<HotColumn> {
        // More rows may be given out as long as it is not closed.
        let rows = if block.is_closed() {
            block.rows()
        } else {
            block.capacity
        };
        let Some(frozen) = frozen else {
            let hot = self.hot_column(column, rows)?;
            if let Some(default) = &column.default {
                let source = Source::new(default, &column.stored)?;
                for row in 0..rows {
                    hot.fill(row, &source, 0, 1, pin)?;
                }
            }
            return Ok(hot);
        };
        HotColumn::thaw(
            &frozen.array(frozen.rows, Form::Native)?,
            rows,
            &column.stored,
            &self.resources.budget,
            &self.resources.reclaimer,
            pin,
        )
    }

    /// Takes a block away that nobody sees.
    pub(crate) fn remove_block(&self, number: u32) {
        if let Some(block) = self.blocks.take(number) {
            self.resources
                .reclaimer
                .retire(Box::new(move || drop(block)));
        }
    }

    /// The indexes that writers maintain.
    pub(crate) fn indexes(&self) -> Arc<[Arc<Index>]> {
        Arc::clone(&self.indexes.read())
    }

    pub(crate) fn add_index(&self, index: Arc<Index>) {
        let mut indexes = self.indexes.write();
        *indexes = indexes.iter().cloned().chain([index]).collect();
    }

    pub(crate) fn remove_index(&self, index: &Arc<Index>) {
        let mut indexes = self.indexes.write();
        *indexes = indexes
            .iter()
            .filter(|other| !Arc::ptr_eq(other, index))
            .cloned()
            .collect();
    }
}

impl std::fmt::Debug for Relation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Relation")
            .field("name", &self.name)
            .field("blocks", &self.block_count())
            .finish_non_exhaustive()
    }
}
