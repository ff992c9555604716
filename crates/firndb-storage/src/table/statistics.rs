//! Statistics of a table for one snapshot.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, UInt32Array};
use arrow::compute::{SortOptions, concat, sort_to_indices, take};

use super::Table;
use crate::block::Column;
use crate::frozen::{DistinctSketch, Extent};
use crate::protocol::{Standard, settle};
use crate::relation::ColumnInfo;
use crate::{Result, Snapshot};

/// Statistics of a table for one snapshot.
#[derive(Debug, Clone)]
pub struct TableStatistics {
    /// Rows; exact when `exact`.
    pub rows: usize,
    /// Whether everything here was computed for this very snapshot over frozen blocks without deletes or versions.
    pub exact: bool,
    /// Bytes of the columns asked for.
    pub bytes: usize,
    /// By column asked for.
    pub columns: Vec<ColumnStatistics>,
}

/// Statistics of a column.
#[derive(Debug, Clone, Default)]
pub struct ColumnStatistics {
    /// Nulls.
    pub nulls: Option<usize>,
    /// Least value (one row, `Form::Compute` type). Never a cut string.
    pub minimum: Option<ArrayRef>,
    /// Greatest value.
    pub maximum: Option<ArrayRef>,
    /// Estimated number of distinct values.
    pub distinct: Option<usize>,
}

/// What the blocks say about one column.
#[derive(Default)]
struct Gathered {
    nulls: usize,
    /// Frozen columns by extent, with the number of their rows that were met.
    parts: Vec<(Arc<Extent>, usize, usize)>,
    /// Some rows are not in frozen memory.
    partial: bool,
}

impl Table {
    /// A number for what `snapshot` sees of the table, if no transaction is writing to it and none committed later: two snapshots with
    /// one number see the same rows.
    pub fn settled(&self, snapshot: &Snapshot) -> Option<u64> {
        let last = self.relation.access.settled(snapshot.view().start)?;
        Some(last.0)
    }

    /// Statistics of all columns for `snapshot`.
    pub fn statistics(&self, snapshot: &Snapshot) -> Result<TableStatistics> {
        let all: Vec<usize> = (0..self.layout.columns.len()).collect();
        self.statistics_of(snapshot, &all)
    }

    /// Statistics of some columns (positions in the layout) for `snapshot`: what it costs goes with their number.
    pub fn statistics_of(&self, snapshot: &Snapshot, columns: &[usize]) -> Result<TableStatistics> {
        let view = snapshot.view();
        let pin = self.pin();
        let infos = self.columns(columns)?;
        let mut gathered: Vec<Gathered> = Vec::new();
        gathered.resize_with(infos.len(), Gathered::default);
        let (mut rows, mut hot_rows, mut exact) = (0, 0, true);
        for number in 0..self.relation.block_count() {
            let block = self
                .relation
                .block(number, &pin)
                .filter(|block| block.rows() > 0 && block.is_born(&view, &pin));
            let Some(block) = block else { continue };
            for (info, gathered) in infos.iter().zip(&mut gathered) {
                gathered.add(info, block.column(info.number, &pin), block.rows());
            }
            // A frozen column says that all rows of its part are visible that are not gone.
            let part = self.frozen_part(block, &pin);
            let _settled = settle::<Standard>();
            rows += match part {
                Some(part) => (part.rows + part.cut).saturating_sub(block.gone()),
                None => {
                    hot_rows += block.rows();
                    block.unburied()
                }
            };
            exact &=
                part.is_some_and(|part| block.gone() == part.cut) && block.versions.linked() == 0;
        }
        exact &= gathered.iter().all(|gathered| !gathered.partial);
        let mut bytes = 0;
        let columns = gathered
            .iter()
            .zip(&infos)
            .map(|(gathered, info)| {
                bytes += gathered.bytes() + hot_rows * info.physical.bits().div_ceil(8);
                gathered.finish(exact)
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(TableStatistics {
            rows,
            exact,
            bytes,
            columns,
        })
    }
}

impl Gathered {
    fn add(&mut self, info: &ColumnInfo, column: Option<&Column>, rows: usize) {
        match column {
            Some(Column::Frozen(part)) => {
                let rows = part.rows;
                self.nulls += part.column().null_count(part.first_row, rows);
                match self.parts.last_mut() {
                    Some((extent, position, met))
                        if Arc::ptr_eq(extent, &part.extent) && *position == part.position =>
                    {
                        *met += rows;
                    }
                    _ => self
                        .parts
                        .push((Arc::clone(&part.extent), part.position, rows)),
                }
            }
            // Defaults would have to be merged into the bounds: rare, so left unknown.
            None => {
                let null = info.default.as_ref().is_none_or(|value| value.is_null(0));
                self.nulls += if null { rows } else { 0 };
                self.partial = true;
            }
            Some(Column::Hot(_)) => self.partial = true,
        }
    }

    fn bytes(&self) -> usize {
        self.parts
            .iter()
            .map(|(extent, position, met)| {
                extent.column(*position).bytes() / extent.rows().max(1) * met
            })
            .sum()
    }

    fn finish(&self, exact: bool) -> Result<ColumnStatistics> {
        let whole = self
            .parts
            .iter()
            .all(|(extent, _, met)| *met == extent.rows());
        let known = !self.partial && (whole || !exact);
        let columns = || {
            self.parts
                .iter()
                .map(|(extent, position, _)| extent.column(*position))
        };
        let bound = |descending: bool| -> Result<Option<ArrayRef>> {
            if !known {
                return Ok(None);
            }
            let mut values = Vec::new();
            for column in columns() {
                let value = if descending {
                    column.maximum()
                } else {
                    column.minimum()
                };
                match value {
                    Some(value) => values.push(value),
                    // All null: no value to compare. Else unknown, and so is the whole.
                    None if column.null_count(0, column.rows()) == column.rows() => {}
                    None => return Ok(None),
                }
            }
            extreme(&values, descending)
        };
        let mut sketch: Option<DistinctSketch> = None;
        for column in columns() {
            match (column.distinct(), &mut sketch) {
                (Some(other), Some(sketch)) => sketch.merge(other),
                (Some(other), None) => sketch = Some(other.clone()),
                (None, _) => {}
            }
        }
        Ok(ColumnStatistics {
            nulls: (!self.partial).then_some(self.nulls),
            minimum: bound(false)?,
            maximum: bound(true)?,
            distinct: sketch.map(|sketch| sketch.estimate()),
        })
    }
}

/// The least or greatest of single values.
fn extreme(values: &[ArrayRef], descending: bool) -> Result<Option<ArrayRef>> {
    let values: Vec<&dyn Array> = values.iter().map(AsRef::as_ref).collect();
    if values.is_empty() {
        return Ok(None);
    }
    let values = concat(&values)?;
    let options = SortOptions {
        descending,
        nulls_first: false,
    };
    let first: UInt32Array = sort_to_indices(&values, Some(options), Some(1))?;
    Ok(Some(take(&values, &first, None)?))
}
