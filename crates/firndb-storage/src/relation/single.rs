//! One row of a block as a view sees it, without Arrow arrays: the reader's side of the protocol for a single row.
//!
//! As in [`read`](super::read): data and liveness are copied first, only then is the row's chain looked at and before-images
//! are applied, and only then views are followed into heaps. Frozen columns need no patching.

use std::sync::Arc;

use arrow::datatypes::DataType;

use super::ColumnInfo;
use super::index::Index;
use crate::block::cells::{Physical, Value};
use crate::block::heap::{view_length, view_place};
use crate::block::hot::HotColumn;
use crate::block::{Block, Column, FrozenPart};
use crate::cell::{Cell, Row, cell_of};
use crate::index::Key;
use crate::protocol::{Standard, View, settle, walk};
use crate::reclaim::Pin;
use crate::undo::{Change, Image, UndoRecord};
use crate::{Error, Result};

/// A column's value of the row.
enum Part<'g> {
    Hot(&'g HotColumn, Value),
    Frozen(&'g FrozenPart),
    Default,
}

/// A row, copied and patched.
#[derive(Default)]
pub(crate) struct Staged<'g> {
    parts: Vec<Part<'g>>,
    row: usize,
    live: bool,
}

impl<'g> Staged<'g> {
    /// Copies columns of a row as they are in place: of a row that the caller owns.
    pub(crate) fn load_in_place(
        &mut self,
        block: &'g Block,
        columns: &[Arc<ColumnInfo>],
        row: usize,
        pin: &'g Pin<'_>,
    ) {
        self.parts.clear();
        self.row = row;
        for info in columns {
            self.parts.push(match block.column(info.number, pin) {
                Some(Column::Hot(hot)) => Part::Hot(hot, hot.load(row)),
                Some(Column::Frozen(frozen)) => Part::Frozen(frozen),
                None => Part::Default,
            });
        }
        self.live = block.live.get(row);
    }

    /// Copies columns of a row and patches them to what the view sees; gives whether the view sees the row.
    pub(crate) fn load(
        &mut self,
        block: &'g Block,
        columns: &[Arc<ColumnInfo>],
        row: usize,
        view: &View<'_, Standard>,
        pin: &'g Pin<'_>,
    ) -> bool {
        self.load_in_place(block, columns, row, pin);
        let settled = settle::<Standard>();
        if let Some(heads) = block.versions.heads(&settled, pin) {
            walk(heads.head(row).newest(&settled, pin), view, pin, |link| {
                let record = UndoRecord::of(link);
                match record.change {
                    Change::Insert | Change::Refill => self.live = false,
                    Change::Delete => self.live = true,
                    Change::Update => {
                        let image = Image::of(link);
                        for (position, changed) in record.parts().iter().enumerate() {
                            for (info, part) in columns.iter().zip(&mut self.parts) {
                                if info.number == changed.column
                                    && let Part::Hot(_, value) = part
                                {
                                    *value = image.value(position, changed);
                                }
                            }
                        }
                    }
                }
            });
        }
        self.live
    }

    /// The row's key in an index, whose columns are the first that were loaded.
    pub(crate) fn key(&self, index: &Index, pin: &Pin<'_>) -> Result<Option<Key>> {
        if let [column] = index.columns.as_slice() {
            return self.cell(0, column, pin, |cell| index.encoder.encode_cells(&[cell]))?;
        }
        let mut row = Row::default();
        for (at, column) in index.columns.iter().enumerate() {
            self.cell(at, column, pin, |cell| row.push(cell))?;
        }
        let cells: Vec<Cell<'_>> = (0..row.len()).map(|at| row.get(at)).collect();
        index.encoder.encode_cells(&cells)
    }

    /// Gives a column's value to `take`; an error for types without cells.
    pub(crate) fn cell<T>(
        &self,
        at: usize,
        info: &ColumnInfo,
        pin: &Pin<'_>,
        take: impl FnOnce(Cell<'_>) -> T,
    ) -> Result<T> {
        match &self.parts[at] {
            Part::Hot(hot, value) => {
                let mut inline = [0; 16];
                hot_cell(hot, info, *value, &mut inline, pin).map(take)
            }
            Part::Frozen(frozen) if self.row < frozen.rows => {
                let cell = frozen.column().cell(frozen.first_row + self.row);
                cell.map(take).ok_or_else(|| no_cell(info))
            }
            Part::Frozen(_) => Err(Error::Internal("a row beyond a frozen column".into())),
            Part::Default => match &info.default {
                None => Ok(take(Cell::Null)),
                Some(value) => cell_of(value.as_ref(), 0)
                    .map(take)
                    .ok_or_else(|| no_cell(info)),
            },
        }
    }
}

/// A value of a hot column; short strings are copied to `inline`.
fn hot_cell<'a>(
    hot: &'a HotColumn,
    info: &ColumnInfo,
    value: Value,
    inline: &'a mut [u8; 16],
    pin: &'a Pin<'_>,
) -> Result<Cell<'a>> {
    if !value.valid {
        return Ok(Cell::Null);
    }
    let [low, high] = value.words;
    Ok(match info.physical {
        Physical::Bits => Cell::Word(low & 1),
        Physical::Fixed(16) => Cell::Wide(u128::from(low) | u128::from(high) << 64),
        Physical::Fixed(_) => Cell::Word(low),
        Physical::View if info.stored.is_nested() => return Err(no_cell(info)),
        Physical::View => match (view_place(value.words), hot.heap()) {
            (None, _) => {
                inline[..8].copy_from_slice(&low.to_le_bytes());
                inline[8..].copy_from_slice(&high.to_le_bytes());
                bytes_cell(info, &inline[4..4 + view_length(value.words)])
            }
            (Some(_), Some(heap)) => bytes_cell(info, heap.bytes(value.words, pin)?),
            (Some(_), None) => return Err(Error::Internal("a view without a heap".into())),
        },
    })
}

fn bytes_cell<'a>(info: &ColumnInfo, bytes: &'a [u8]) -> Cell<'a> {
    match info.stored {
        // SAFETY: hot columns of type Utf8 are filled from strings only.
        DataType::Utf8 => Cell::Text(unsafe { std::str::from_utf8_unchecked(bytes) }),
        _ => Cell::Bytes(bytes),
    }
}

/// A cell as hot memory keeps it: long strings go to the heap and are counted as live. An error if it is of another type than its column.
pub(crate) fn storable(
    hot: &HotColumn,
    info: &ColumnInfo,
    cell: Cell<'_>,
    pin: &Pin<'_>,
) -> Result<Value> {
    let in_heap = |bytes| match hot.heap() {
        Some(heap) => heap.append(bytes, pin),
        None => Err(Error::Internal("bytes for a column without a heap".into())),
    };
    let words = match (cell, info.physical, &info.stored) {
        (Cell::Null, ..) => return Ok(Value::NULL),
        (Cell::Word(word), Physical::Bits | Physical::Fixed(1..=8), _) => [word, 0],
        (Cell::Wide(wide), Physical::Fixed(16), _) => [wide as u64, (wide >> 64) as u64],
        (Cell::Text(text), _, DataType::Utf8) => in_heap(text.as_bytes())?,
        (Cell::Bytes(bytes), _, DataType::Binary) => in_heap(bytes)?,
        (Cell::Bytes(bytes), _, DataType::FixedSizeBinary(width))
            if usize::try_from(*width) == Ok(bytes.len()) =>
        {
            in_heap(bytes)?
        }
        _ => {
            return Err(Error::Internal(format!(
                "a value of another type than its column, which is {}",
                info.stored
            )));
        }
    };
    Ok(Value { valid: true, words })
}

fn no_cell(info: &ColumnInfo) -> Error {
    Error::Internal(format!(
        "values of type {} are not read one by one",
        info.stored
    ))
}
