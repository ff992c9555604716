//! Formats of frozen strings and bytes, and how a column gets into another one than the first.
//!
//! ```text
//!   offsets     offsets │ heap │ validity               + views over the same heap, built when first asked for
//!   view        views   │ heap │ validity               + offsets and a heap in row order, built when first asked for
//!   dictionary  codes   │ validity │ offsets │ heap     the heap holds each value once, sorted; + views, or as above, built when first asked for
//! ```
//!
//! Every column is built with offsets; then all is known that the choice needs, the number of distinct values among it (from the sketch). A column that
//! is to have another format is copied once more, into a range of its own. Values are the same in every format, and so are bounds and sketches; what
//! a dictionary saves is memory, what it costs is time (*Mainlining Databases*, section 6.2, measures both).
//!
//! The codes of one extent mean nothing in another: dictionaries are per extent, and consumers get one with each batch.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BinaryViewArray, DictionaryArray, Int32Array,
    StringArray, StringViewArray,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Int32Type, ToByteSlice};

use super::build::Target;
use super::column::{FrozenColumn, view};
use super::source::aligned;
use crate::memory::FrozenBytes;
use crate::{Error, Result};

/// How the strings or bytes of a column lie in frozen memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Strings {
    /// With offsets, or as a dictionary where that takes less than a quarter of the memory.
    #[default]
    Auto,
    /// One heap in row order with offsets, and views into it when they are asked for.
    Offsets,
    /// Views into one heap, without offsets.
    View,
    /// Codes into a sorted dictionary. [`Form::Native`](super::Form::Native) shows it as such.
    Dictionary,
}

/// A dictionary pays when it takes less than one part in so many of the memory.
const PAYS: u64 = 4;
/// And when it has at most one value for so many rows.
const ROWS_PER_VALUE: u64 = 16;
/// Columns of less are not worth the look.
const SMALLEST: u64 = 64 << 10;

impl Strings {
    /// The format for a column that was built with offsets.
    fn chosen(self, column: &FrozenColumn) -> Strings {
        if self != Strings::Auto {
            return self;
        }
        let Some(parts) = Parts::of(column.array()) else {
            return Strings::Offsets;
        };
        let rows = column.rows() as u64;
        let heap = parts.heap.len() as u64;
        let Some(distinct) = column.distinct().map(|sketch| sketch.estimate() as u64) else {
            return Strings::Offsets;
        };
        let valid = rows - column.array().null_count() as u64;
        let width = size_of::<i32>() as u64;
        let plain = heap + width * rows;
        let values = distinct * (heap / valid.max(1) + width);
        let coded = width * rows + values;
        let pays = plain >= SMALLEST && distinct * ROWS_PER_VALUE <= rows && coded * PAYS < plain;
        match pays {
            true => Strings::Dictionary,
            false => Strings::Offsets,
        }
    }
}

/// The column in the format that is asked for; columns of other types, and what has it already, as they are. Of a dictionary that was chosen only because a
/// sketch says that it pays, one that turns out larger is not made.
pub(super) fn formatted(
    target: &Target<'_>,
    column: FrozenColumn,
    strings: Strings,
) -> Result<FrozenColumn> {
    let Some(parts) = Parts::of(column.array()) else {
        return Ok(column);
    };
    let rebuilt = match strings.chosen(&column) {
        Strings::Auto | Strings::Offsets => None,
        Strings::View => Some(viewed(target, &column, &parts)?),
        Strings::Dictionary => {
            let most = match strings {
                Strings::Auto => column.rows() / ROWS_PER_VALUE as usize * 2,
                _ => usize::MAX,
            };
            coded(target, &column, &parts, most)?
        }
    };
    match rebuilt {
        Some((array, bytes)) => column.rebuilt(target, array, bytes),
        None => Ok(column),
    }
}

/// Strings or bytes of any representation as a dictionary in ordinary memory, sorted.
pub(crate) fn as_dictionary(array: &ArrayRef, stored: &DataType) -> Result<ArrayRef> {
    if matches!(array.data_type(), DataType::Dictionary(..)) {
        return Ok(Arc::clone(array));
    }
    let plain = arrow::compute::cast(array, stored)?;
    let parts = Parts::of(&plain)
        .ok_or_else(|| Error::Internal(format!("a dictionary of {}", array.data_type())))?;
    let codes = Codes::of(&parts, usize::MAX)
        .ok_or_else(|| Error::Internal("a dictionary that has no end".into()))?;
    let mut offsets = vec![0_i32];
    let mut heap = Vec::with_capacity(codes.heap_bytes());
    for value in &codes.values {
        heap.extend_from_slice(value);
        offsets.push(heap.len() as i32);
    }
    let values = byte_array(
        stored,
        ScalarBuffer::from(offsets),
        Buffer::from_vec(heap),
        None,
    )?;
    let keys = Int32Array::try_new(codes.codes.into(), plain.nulls().cloned())?;
    Ok(Arc::new(DictionaryArray::<Int32Type>::try_new(
        keys, values,
    )?))
}

/// Strings or bytes that lie as views or a dictionary, with offsets into a heap in row order.
pub(super) fn with_offsets(
    target: &Target<'_>,
    array: &ArrayRef,
    stored: &DataType,
) -> Result<Rebuilt> {
    let plain = arrow::compute::cast(array, stored)?;
    let parts = Parts::of(&plain)
        .ok_or_else(|| Error::Internal(format!("offsets of {}", array.data_type())))?;
    let offsets_bytes = size_of_val(parts.offsets);
    let heap_at = aligned(offsets_bytes);
    let validity_at = aligned(heap_at + parts.heap.len());
    let mut range = target.open(validity_at + validity_bytes(&parts))?;
    let bytes = range.bytes_mut();
    bytes[..offsets_bytes].copy_from_slice(parts.offsets.to_byte_slice());
    bytes[heap_at..heap_at + parts.heap.len()].copy_from_slice(parts.heap);
    write_validity(&parts, &mut bytes[validity_at..]);
    let frozen = range.freeze()?;
    let array = byte_array(
        stored,
        ScalarBuffer::new(frozen.buffer(0, offsets_bytes)?, 0, parts.offsets.len()),
        frozen.buffer(heap_at, parts.heap.len())?,
        nulls(&parts, &frozen, validity_at)?,
    )?;
    Ok((array, frozen.bytes()))
}

/// Offsets, heap and nulls of an array of strings or bytes.
struct Parts<'a> {
    offsets: &'a [i32],
    heap: &'a [u8],
    nulls: Option<&'a NullBuffer>,
}

impl<'a> Parts<'a> {
    fn of(array: &'a ArrayRef) -> Option<Self> {
        let (offsets, heap) = match array.data_type() {
            DataType::Utf8 => {
                let array = array.as_string_opt::<i32>()?;
                (array.value_offsets(), array.value_data())
            }
            DataType::Binary => {
                let array = array.as_binary_opt::<i32>()?;
                (array.value_offsets(), array.value_data())
            }
            _ => return None,
        };
        Some(Self {
            offsets,
            heap,
            nulls: array.nulls(),
        })
    }

    fn rows(&self) -> usize {
        self.offsets.len() - 1
    }

    /// The bounds of a value.
    fn bounds(&self, row: usize) -> (usize, usize) {
        (self.offsets[row] as usize, self.offsets[row + 1] as usize)
    }

    fn is_null(&self, row: usize) -> bool {
        self.nulls.is_some_and(|nulls| nulls.is_null(row))
    }
}

/// The distinct values of a column, sorted, and the place of each row's among them.
struct Codes<'a> {
    values: Vec<&'a [u8]>,
    /// 0 for null.
    codes: Vec<i32>,
}

impl<'a> Codes<'a> {
    /// `None` when there are more than `most` values.
    fn of(parts: &Parts<'a>, most: usize) -> Option<Self> {
        let mut known: HashMap<&[u8], i32, ahash::RandomState> = HashMap::default();
        let mut values: Vec<&[u8]> = Vec::new();
        let mut codes = Vec::with_capacity(parts.rows());
        for row in 0..parts.rows() {
            if parts.is_null(row) {
                codes.push(0);
                continue;
            }
            let (start, end) = parts.bounds(row);
            let value = &parts.heap[start..end];
            let code = *known.entry(value).or_insert_with(|| {
                values.push(value);
                values.len() as i32 - 1
            });
            if values.len() > most {
                return None;
            }
            codes.push(code);
        }
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_unstable_by_key(|&at| values[at]);
        let mut place = vec![0; values.len()];
        for (sorted, &at) in order.iter().enumerate() {
            place[at] = sorted as i32;
        }
        if !values.is_empty() {
            codes
                .iter_mut()
                .for_each(|code| *code = place[*code as usize]);
        }
        Some(Self {
            values: order.into_iter().map(|at| values[at]).collect(),
            codes,
        })
    }

    fn heap_bytes(&self) -> usize {
        self.values.iter().map(|value| value.len()).sum()
    }
}

/// An array and the bytes of arena memory that it takes.
type Rebuilt = (ArrayRef, usize);

/// The column as codes into a dictionary; `None` when that has more than `most` values.
fn coded(
    target: &Target<'_>,
    column: &FrozenColumn,
    parts: &Parts<'_>,
    most: usize,
) -> Result<Option<Rebuilt>> {
    let Some(codes) = Codes::of(parts, most) else {
        return Ok(None);
    };
    let rows = parts.rows();
    let codes_bytes = rows * size_of::<i32>();
    let validity_at = aligned(codes_bytes);
    let offsets_at = aligned(validity_at + validity_bytes(parts));
    let offsets_bytes = (codes.values.len() + 1) * size_of::<i32>();
    let heap_at = aligned(offsets_at + offsets_bytes);
    let heap_bytes = codes.heap_bytes();
    let mut range = target.open(heap_at + heap_bytes)?;
    let bytes = range.bytes_mut();
    bytes[..codes_bytes].copy_from_slice(codes.codes.to_byte_slice());
    write_validity(parts, &mut bytes[validity_at..]);
    let mut offsets = vec![0_i32];
    let mut end = heap_at;
    for value in &codes.values {
        bytes[end..end + value.len()].copy_from_slice(value);
        end += value.len();
        // The heap of every row's value was checked to fit.
        offsets.push((end - heap_at) as i32);
    }
    bytes[offsets_at..offsets_at + offsets_bytes].copy_from_slice(offsets.to_byte_slice());
    let frozen = range.freeze()?;
    let keys = ScalarBuffer::<i32>::new(frozen.buffer(0, codes_bytes)?, 0, rows);
    let keys = Int32Array::try_new(keys, nulls(parts, &frozen, validity_at)?)?;
    let values = codes.values.len();
    let values = byte_array(
        column.data_type(),
        ScalarBuffer::new(frozen.buffer(offsets_at, offsets_bytes)?, 0, values + 1),
        frozen.buffer(heap_at, heap_bytes)?,
        None,
    )?;
    // SAFETY: each code is the place of a value, or 0 under a null.
    let array = unsafe { DictionaryArray::<Int32Type>::new_unchecked(keys, values) };
    Ok(Some((Arc::new(array), frozen.bytes())))
}

/// The column as views into a heap.
fn viewed(target: &Target<'_>, column: &FrozenColumn, parts: &Parts<'_>) -> Result<Rebuilt> {
    let rows = parts.rows();
    let views_bytes = rows * size_of::<u128>();
    let heap_bytes = parts.heap.len();
    let validity_at = aligned(views_bytes + heap_bytes);
    let mut range = target.open(validity_at + validity_bytes(parts))?;
    let bytes = range.bytes_mut();
    for (row, place) in bytes[..views_bytes]
        .as_chunks_mut()
        .0
        .iter_mut()
        .enumerate()
    {
        let (start, end) = parts.bounds(row);
        let view: u128 = match parts.is_null(row) {
            true => 0,
            false => view(parts.heap, start, end),
        };
        *place = view.to_ne_bytes();
    }
    bytes[views_bytes..views_bytes + heap_bytes].copy_from_slice(parts.heap);
    write_validity(parts, &mut bytes[validity_at..]);
    let frozen = range.freeze()?;
    let views = ScalarBuffer::<u128>::new(frozen.buffer(0, views_bytes)?, 0, rows);
    let heap = vec![frozen.buffer(views_bytes, heap_bytes)?];
    let nulls = nulls(parts, &frozen, validity_at)?;
    let array: ArrayRef = match column.data_type() {
        // SAFETY: the views lie within the heap, which is a copy of the string array's: each is the UTF-8 of a value of it.
        DataType::Utf8 => Arc::new(unsafe { StringViewArray::new_unchecked(views, heap, nulls) }),
        // SAFETY: as above, of bytes.
        _ => Arc::new(unsafe { BinaryViewArray::new_unchecked(views, heap, nulls) }),
    };
    Ok((array, frozen.bytes()))
}

fn validity_bytes(parts: &Parts<'_>) -> usize {
    parts.nulls.map_or(0, |nulls| nulls.len().div_ceil(8))
}

fn write_validity(parts: &Parts<'_>, into: &mut [u8]) {
    if let Some(nulls) = parts.nulls {
        let bits = nulls.inner().sliced();
        let bytes = validity_bytes(parts);
        into[..bytes].copy_from_slice(&bits.as_slice()[..bytes]);
    }
}

fn nulls(parts: &Parts<'_>, frozen: &Arc<FrozenBytes>, at: usize) -> Result<Option<NullBuffer>> {
    let Some(nulls) = parts.nulls else {
        return Ok(None);
    };
    let bits = frozen.buffer(at, validity_bytes(parts))?;
    Ok(Some(NullBuffer::new(BooleanBuffer::new(
        bits,
        0,
        nulls.len(),
    ))))
}

/// An array of values that were those of another of the same type.
fn byte_array(
    stored: &DataType,
    offsets: ScalarBuffer<i32>,
    heap: Buffer,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let offsets = OffsetBuffer::new(offsets);
    Ok(match stored {
        // SAFETY: each value is one of a string array, whole.
        DataType::Utf8 => Arc::new(unsafe { StringArray::new_unchecked(offsets, heap, nulls) }),
        _ => Arc::new(BinaryArray::try_new(offsets, heap, nulls)?),
    })
}
