//! Values of single rows, as they go in and out without Arrow arrays.
//!
//! A [`Cell`] is a value of a stored type as its bits: what up to 8 bytes wide is, zero-extended into a word; 16-byte values as a
//! 128-bit integer; strings and binaries as they are. Whoever knows the stored type knows what the bits mean.
//! A [`Row`] owns the cells of one row, and is filled again and again without allocating.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, BinaryArray, BooleanArray, FixedSizeBinaryArray,
    StringArray, make_array, new_null_array,
};
use arrow::buffer::Buffer;
use arrow::datatypes::DataType;

/// One value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cell<'a> {
    /// NULL.
    Null,
    /// A value of up to 8 bytes: its bits, zero-extended. Booleans are 0 or 1.
    Word(u64),
    /// A value of 16 bytes: a wide decimal.
    Wide(u128),
    /// Text.
    Text(&'a str),
    /// Bytes, also of fixed size: a UUID.
    Bytes(&'a [u8]),
}

impl Cell<'_> {
    /// Whether it is NULL.
    pub fn is_null(&self) -> bool {
        matches!(self, Cell::Null)
    }
}

#[derive(Debug, Clone)]
enum Owned {
    Null,
    Word(u64),
    Wide(u128),
    Text(Range<usize>),
    Bytes(Range<usize>),
}

/// The cells of one row.
#[derive(Debug, Clone, Default)]
pub struct Row {
    cells: Vec<Owned>,
    bytes: Vec<u8>,
}

impl Row {
    /// Takes all cells away, and keeps their memory.
    pub fn clear(&mut self) {
        self.cells.clear();
        self.bytes.clear();
    }

    /// Adds a cell at the end.
    pub fn push(&mut self, cell: Cell<'_>) {
        let owned = match cell {
            Cell::Null => Owned::Null,
            Cell::Word(word) => Owned::Word(word),
            Cell::Wide(wide) => Owned::Wide(wide),
            Cell::Text(text) => Owned::Text(self.keep(text.as_bytes())),
            Cell::Bytes(bytes) => Owned::Bytes(self.keep(bytes)),
        };
        self.cells.push(owned);
    }

    fn keep(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }

    /// Number of cells.
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// Whether there are no cells.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// A cell; NULL beyond the last.
    pub fn get(&self, position: usize) -> Cell<'_> {
        match self.cells.get(position) {
            None | Some(Owned::Null) => Cell::Null,
            Some(Owned::Word(word)) => Cell::Word(*word),
            Some(Owned::Wide(wide)) => Cell::Wide(*wide),
            Some(Owned::Text(range)) => {
                // SAFETY: the bytes of a string that was pushed as a whole.
                Cell::Text(unsafe { std::str::from_utf8_unchecked(&self.bytes[range.clone()]) })
            }
            Some(Owned::Bytes(range)) => Cell::Bytes(&self.bytes[range.clone()]),
        }
    }
}

/// The value of a row of an array of a stored type; `None` for types that have no cells (nested ones, intervals).
pub(crate) fn cell_of(array: &dyn Array, row: usize) -> Option<Cell<'_>> {
    use arrow::datatypes as types;
    if array.is_null(row) {
        return Some(Cell::Null);
    }
    macro_rules! word {
        ($type:ty, $unsigned:ty) => {
            Cell::Word(
                <$unsigned>::from_ne_bytes(
                    array.as_primitive_opt::<$type>()?.value(row).to_ne_bytes(),
                )
                .into(),
            )
        };
    }
    Some(match array.data_type() {
        DataType::Boolean => Cell::Word(u64::from(array.as_boolean_opt()?.value(row))),
        DataType::Int8 => word!(types::Int8Type, u8),
        DataType::Int16 => word!(types::Int16Type, u16),
        DataType::Int32 => word!(types::Int32Type, u32),
        DataType::Int64 => word!(types::Int64Type, u64),
        DataType::UInt8 => word!(types::UInt8Type, u8),
        DataType::UInt16 => word!(types::UInt16Type, u16),
        DataType::UInt32 => word!(types::UInt32Type, u32),
        DataType::UInt64 => word!(types::UInt64Type, u64),
        DataType::Float32 => word!(types::Float32Type, u32),
        DataType::Float64 => word!(types::Float64Type, u64),
        DataType::Date32 => word!(types::Date32Type, u32),
        DataType::Time64(_) => word!(types::Time64MicrosecondType, u64),
        DataType::Timestamp(..) => word!(types::TimestampMicrosecondType, u64),
        DataType::Decimal64(..) => word!(types::Decimal64Type, u64),
        DataType::Decimal128(..) => Cell::Wide(
            array
                .as_primitive_opt::<types::Decimal128Type>()?
                .value(row) as u128,
        ),
        DataType::Utf8 => Cell::Text(array.as_string_opt::<i32>()?.value(row)),
        DataType::Utf8View => Cell::Text(array.as_string_view_opt()?.value(row)),
        DataType::Binary => Cell::Bytes(array.as_binary_opt::<i32>()?.value(row)),
        DataType::BinaryView => Cell::Bytes(array.as_binary_view_opt()?.value(row)),
        DataType::FixedSizeBinary(_) => Cell::Bytes(array.as_fixed_size_binary_opt()?.value(row)),
        _ => return None,
    })
}

/// An array of one cell of a stored type; `None` if the cell is of another type.
pub(crate) fn array_of(cell: Cell<'_>, stored: &DataType) -> Option<ArrayRef> {
    let fixed = |width: usize, bits: u128| {
        let bytes = bits.to_le_bytes();
        ArrayData::builder(stored.clone())
            .len(1)
            .add_buffer(Buffer::from_slice_ref(&bytes[..width]))
            .align_buffers(true)
            .build()
            .ok()
            .map(make_array)
    };
    Some(match (cell, stored) {
        (Cell::Null, _) => new_null_array(stored, 1),
        (Cell::Word(word), DataType::Boolean) => Arc::new(BooleanArray::from(vec![word != 0])),
        (Cell::Word(word), _) => fixed(stored.primitive_width()?.min(8), word.into())?,
        (Cell::Wide(wide), DataType::Decimal128(..)) => fixed(16, wide)?,
        (Cell::Text(text), DataType::Utf8) => Arc::new(StringArray::from(vec![text])),
        (Cell::Bytes(bytes), DataType::Binary) => Arc::new(BinaryArray::from(vec![bytes])),
        (Cell::Bytes(bytes), DataType::FixedSizeBinary(width)) => {
            let width = usize::try_from(*width)
                .ok()
                .filter(|&width| width == bytes.len())?;
            Arc::new(FixedSizeBinaryArray::try_from_iter(std::iter::once(&bytes[..width])).ok()?)
        }
        _ => return None,
    })
}
