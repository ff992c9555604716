//! Hot columns: values and validity in place, and the heap of a variable-length column.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryViewArray};
use arrow::datatypes::DataType;
use arrow_row::{RowConverter, SortField};

use super::cells::{Bits, CellCopy, Cells, Physical, Rows, Value, copy_bits};
use super::heap::{Heap, view_length, view_place, words_of};
use super::source::{Incoming, Source};
use crate::Result;
use crate::memory::{Budget, Kind, Reservation};
use crate::reclaim::{Pin, Reclaimer};

/// A column of a block in hot memory.
pub(crate) struct HotColumn {
    cells: Cells,
    valid: Bits,
    heap: Option<Arc<Heap>>,
    _reservation: Reservation,
}

impl HotColumn {
    /// All null.
    pub(crate) fn new(
        physical: Physical,
        rows: usize,
        budget: &Arc<Budget>,
        reclaimer: &Arc<Reclaimer>,
    ) -> Result<Self> {
        let reservation = budget.reserve(Kind::Hot, (physical.bits() * rows).div_ceil(8))?;
        Ok(Self {
            cells: Cells::zeros(physical, rows)?,
            valid: Bits::zeros(rows)?,
            heap: (physical == Physical::View).then(|| Heap::new(budget, reclaimer)),
            _reservation: reservation,
        })
    }

    /// Thaws: copies the values of `array` (`Form::Native`) to the first of `rows` rows. Strings keep their heap, which the views share.
    pub(crate) fn thaw(
        array: &ArrayRef,
        rows: usize,
        stored: &DataType,
        budget: &Arc<Budget>,
        reclaimer: &Arc<Reclaimer>,
        pin: &Pin<'_>,
    ) -> Result<Self> {
        let column = Self::new(Physical::of(stored)?, rows, budget, reclaimer)?;
        let views: Option<BinaryViewArray> = match array.data_type() {
            DataType::Utf8View => Some(array.as_string_view().clone().to_binary_view()),
            DataType::BinaryView => Some(array.as_binary_view().clone()),
            _ => None,
        };
        match (views, &column.heap) {
            (Some(views), Some(heap)) => {
                let mut live = vec![0; views.data_buffers().len()];
                for (row, &view) in views.views().iter().enumerate() {
                    if views.is_valid(row) {
                        let words = words_of(view);
                        if let Some((number, _)) = view_place(words) {
                            live[number as usize] += view_length(words);
                        }
                        column.store(row, Value { valid: true, words });
                    }
                }
                heap.adopt(views.data_buffers(), &live);
            }
            _ => {
                let source = Source::new(array, stored)?;
                for row in 0..array.len() {
                    let value = column.make(&source, row, pin)?;
                    column.store(row, value);
                }
            }
        }
        Ok(column)
    }

    /// The heap of a variable-length column.
    pub(crate) fn heap(&self) -> Option<&Arc<Heap>> {
        self.heap.as_ref()
    }

    /// The value in place.
    #[inline]
    pub(crate) fn load(&self, row: usize) -> Value {
        Value {
            valid: self.valid.get(row),
            words: self.cells.load(row),
        }
    }

    /// Stores a value in place.
    #[inline]
    pub(crate) fn store(&self, row: usize, value: Value) {
        self.cells.store(row, value.words);
        self.valid.put(row, value.valid);
    }

    /// Makes the value in place null, and leaves its words.
    pub(crate) fn invalidate(&self, row: usize) {
        self.valid.put(row, false);
    }

    /// Stores another place of the same bytes.
    pub(crate) fn relocate(&self, row: usize, view: [u64; 2]) {
        self.cells.store(row, view);
    }

    /// Makes the value of a row of `source` storable: long bytes go to the heap and are counted as live.
    #[inline]
    pub(crate) fn make(&self, source: &Source, row: usize, pin: &Pin<'_>) -> Result<Value> {
        match (source.get(row), &self.heap) {
            (Incoming::Words(value), _) => Ok(value),
            (Incoming::Bytes(bytes), Some(heap)) => Ok(Value {
                valid: true,
                words: heap.append(bytes, pin)?,
            }),
            (Incoming::Bytes(_), None) => Err(crate::Error::Internal(
                "bytes for a column without a heap".into(),
            )),
        }
    }

    /// Writes `count` rows of `source`, from its row `first` on, into fresh rows from `row` on.
    pub(crate) fn fill(
        &self,
        row: usize,
        source: &Source,
        first: usize,
        count: usize,
        pin: &Pin<'_>,
    ) -> Result<()> {
        let nulls = (first..first + count).any(|at| source.is_null(at));
        let mut filled = 0;
        let mut result = Ok(());
        while filled < count {
            match self.make(source, first + filled, pin) {
                Ok(value) => {
                    self.cells.store(row + filled, value.words);
                    if nulls && value.valid {
                        self.valid.put(row + filled, true);
                    }
                    filled += 1;
                }
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        // After an error too: what is in the heap belongs to its row, and is released with it.
        if !nulls {
            self.valid.set_range(row, filled);
        }
        result
    }

    /// A value that nothing refers to any more.
    #[inline]
    pub(crate) fn release(&self, value: Value, pin: &Pin<'_>) {
        if let Some(heap) = &self.heap
            && value.valid
        {
            heap.release(value.words, pin);
        }
    }

    /// Loads values of fixed width from `row` on, in memory order, and nothing of their validity.
    pub(crate) fn load_bytes(&self, row: usize, into: &mut [u8]) {
        self.cells.load_bytes(row, into);
    }

    /// The lengths of the views of the first rows, whether they are valid or not.
    pub(crate) fn view_lengths(&self, rows: usize) -> Vec<u32> {
        self.cells.view_lengths(rows)
    }

    /// Loads views from `row` on, and nothing of their validity.
    pub(crate) fn load_views(&self, row: usize, into: &mut [[u64; 2]]) {
        self.cells.load_views(row, into);
    }

    /// Copies the validity of the first `rows` rows.
    pub(crate) fn copy_validity(&self, rows: usize) -> Vec<u64> {
        self.valid.copy(rows)
    }

    /// Copies rows as they are in place, to be patched.
    pub(crate) fn copy(&self, rows: &Rows<'_>) -> HotCopy {
        HotCopy {
            cells: self.cells.copy(rows),
            valid: copy_bits(&self.valid, rows),
        }
    }
}

/// A private copy of rows of a hot column.
pub(crate) struct HotCopy {
    pub(crate) cells: CellCopy,
    pub(crate) valid: Vec<u64>,
}

impl HotCopy {
    /// Overwrites a value by a before-image.
    pub(crate) fn set(&mut self, at: usize, value: Value) {
        self.cells.set(at, value.words);
        super::cells::put_bit(&mut self.valid, at, value.valid);
    }
}

/// What decodes the row encoding of a nested column.
pub(crate) fn row_decoder(stored: &DataType) -> Result<RowConverter> {
    Ok(RowConverter::new(vec![SortField::new(stored.clone())])?)
}
