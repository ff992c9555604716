//! Columns of values that lie in the cells of hot blocks: they go into the extent in one pass, without an array of their own.
//!
//! A run of at most 4,096 values is copied to its place, and its bounds and hashes are taken there, while it is in the cache.

use std::sync::Arc;

use arrow::array::{
    ArrayData, ArrayRef, BinaryArray, BooleanBufferBuilder, StringArray, make_array,
};
use arrow::buffer::{BooleanBuffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::DataType;

use super::build::Target;
use super::bytes_statistics::BytesStatistics;
use super::column::FrozenColumn;
use super::fixed::FixedStatistics;
use super::run_extremes::Peaks;
use super::source::aligned;
use super::value::Fixed;
use crate::memory::FrozenBytes;
use crate::{Error, Result};

/// Values that are read while a column is built, run by run.
pub(crate) trait Cells {
    /// Copies the values of rows of a piece, one behind the other: of `rows`, those from `from` on that fill `into`.
    fn load(&mut self, piece: usize, from: usize, into: &mut [u8]);
}

/// Rows and nulls of consecutive pieces of a column.
pub(crate) type CellPieces = [(usize, Option<NullBuffer>)];

/// Builds a column of values of fixed width. `cells` loads the values of rows from its `from` on.
pub(super) fn copy_cells<N: Fixed>(
    target: &Target<'_>,
    stored: &DataType,
    pieces: &CellPieces,
    cells: &mut dyn Cells,
) -> Result<FrozenColumn> {
    let rows: usize = pieces.iter().map(|(rows, _)| rows).sum();
    let values_bytes = rows * size_of::<N>();
    let validity = Validity::of(pieces, rows, values_bytes);
    let mut range = target.open(validity.end)?;
    let bytes = range.bytes_mut();
    validity.write(bytes);
    let mut rest = &mut bytes[..values_bytes];
    let mut statistics = FixedStatistics::<N>::new(stored);
    for (piece, (rows, nulls)) in pieces.iter().enumerate() {
        let mut at = 0;
        while at < *rows {
            let count = statistics.room().min(rows - at);
            let (run, others) = rest.split_at_mut(count * size_of::<N>());
            rest = others;
            cells.load(piece, at, run);
            statistics.add(values_of::<N>(run), run_nulls(nulls, at, count).as_ref());
            at += count;
        }
    }
    let statistics = statistics.finish()?;
    let frozen = range.freeze()?;
    let data = ArrayData::builder(stored.clone())
        .len(rows)
        .add_buffer(frozen.buffer(0, values_bytes)?)
        .nulls(validity.frozen(&frozen)?)
        .build()?;
    Ok(target.column(make_array(data), frozen.bytes(), statistics))
}

/// Strings or bytes that are read while a column is built.
pub(crate) trait Texts {
    /// Number of bytes of each row of a piece; nulls have none.
    fn lengths(&self, piece: usize) -> &[u32];

    /// Copies the values of rows of a piece, one behind the other: `into` has as many bytes as `rows` have. Tells among which of them, counted from
    /// the first of `rows`, the least and the greatest value are that `nulls` does not have.
    fn load(
        &mut self,
        piece: usize,
        rows: std::ops::Range<usize>,
        nulls: Option<&NullBuffer>,
        into: &mut [u8],
        peaks: &mut Peaks,
    );
}

/// Builds a column of strings or bytes.
///
/// # Safety
/// For a column of strings, what `texts` loads is UTF-8, value by value.
pub(super) unsafe fn copy_texts(
    target: &Target<'_>,
    stored: &DataType,
    pieces: &CellPieces,
    texts: &mut dyn Texts,
) -> Result<FrozenColumn> {
    let rows: usize = pieces.iter().map(|(rows, _)| rows).sum();
    let bytes_of = |lengths: &[u32]| lengths.iter().map(|&length| u64::from(length)).sum::<u64>();
    let heap_bytes: u64 = (0..pieces.len())
        .map(|piece| bytes_of(texts.lengths(piece)))
        .sum();
    let heap_bytes = usize::try_from(heap_bytes).unwrap_or(usize::MAX);
    if i32::try_from(heap_bytes).is_err() {
        return Err(Error::Limit(format!(
            "{heap_bytes} bytes of one column in one extent, 2 GiB is the limit"
        )));
    }
    let offsets_bytes = (rows + 1) * size_of::<i32>();
    let heap_at = aligned(offsets_bytes);
    let validity = Validity::of(pieces, rows, heap_at + heap_bytes);
    let mut range = target.open(validity.end)?;
    let bytes = range.bytes_mut();
    validity.write(bytes);
    let (offsets, heap) = bytes.split_at_mut(heap_at);
    let (first, mut ends) = offsets[..offsets_bytes].split_at_mut(size_of::<i32>());
    first.fill(0);
    let mut rest = &mut heap[..heap_bytes];
    let mut statistics = BytesStatistics::new(stored);
    let mut peaks = Peaks::default();
    let mut end = 0_i32;
    for (piece, (rows, nulls)) in pieces.iter().enumerate() {
        let mut at = 0;
        while at < *rows {
            let count = statistics.room().min(rows - at);
            let run = at..at + count;
            let (run_ends, others) = ends.split_at_mut(count * size_of::<i32>());
            ends = others;
            let lengths = &texts.lengths(piece)[run.clone()];
            let (start, mut length) = (end, 0);
            let (run_ends, _) = run_ends.as_chunks_mut();
            for (place, &bytes) in run_ends.iter_mut().zip(lengths) {
                length += bytes as usize;
                // The heap as a whole was checked to fit.
                *place = (start + length as i32).to_ne_bytes();
            }
            end += length as i32;
            let (values, others) = std::mem::take(&mut rest).split_at_mut(length);
            rest = others;
            let nulls = run_nulls(nulls, at, count);
            peaks.clear();
            texts.load(piece, run, nulls.as_ref(), values, &mut peaks);
            let lengths = &texts.lengths(piece)[at..at + count];
            let end_of = |row: usize| (i32::from_ne_bytes(run_ends[row]) - start) as usize;
            statistics.add_run(values, lengths, nulls.as_ref(), &peaks, end_of);
            at += count;
        }
    }
    let heap_is_full = rest.is_empty();
    let statistics = statistics.end();
    let frozen = range.freeze()?;
    if !heap_is_full {
        return Err(Error::Internal("a heap that is not full".into()));
    }
    let offsets = ScalarBuffer::<i32>::new(frozen.buffer(0, offsets_bytes)?, 0, rows + 1);
    // SAFETY: the offsets begin with 0, never decrease, and end with the heap's length.
    let offsets = unsafe { OffsetBuffer::new_unchecked(offsets) };
    let heap = frozen.buffer(heap_at, heap_bytes)?;
    let nulls = validity.frozen(&frozen)?;
    let array: ArrayRef = match stored {
        // SAFETY: the caller promises it.
        DataType::Utf8 => Arc::new(unsafe { StringArray::new_unchecked(offsets, heap, nulls) }),
        _ => Arc::new(BinaryArray::try_new(offsets, heap, nulls)?),
    };
    let statistics = statistics.of(&array)?;
    Ok(target.column(array, frozen.bytes(), statistics))
}

/// The bytes of plain numbers as the numbers.
fn values_of<N: Fixed>(bytes: &[u8]) -> &[N] {
    assert!(bytes.as_ptr().cast::<N>().is_aligned());
    // SAFETY: aligned, and any bytes are values of these types, which are plain numbers.
    unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / size_of::<N>()) }
}

fn run_nulls(nulls: &Option<NullBuffer>, at: usize, count: usize) -> Option<NullBuffer> {
    let nulls = nulls.as_ref()?.slice(at, count);
    (nulls.null_count() > 0).then_some(nulls)
}

/// The validity of all pieces, and where it lies in the column's range.
struct Validity {
    bits: Option<BooleanBuffer>,
    at: usize,
    end: usize,
}

impl Validity {
    /// The validity, to lie behind `bytes` bytes.
    fn of(pieces: &CellPieces, rows: usize, bytes: usize) -> Self {
        let at = aligned(bytes);
        if pieces.iter().all(|(_, nulls)| nulls.is_none()) {
            return Self {
                bits: None,
                at,
                end: at,
            };
        }
        let mut bits = BooleanBufferBuilder::new(rows);
        for (rows, nulls) in pieces {
            match nulls {
                Some(nulls) => bits.append_buffer(nulls.inner()),
                None => bits.append_n(*rows, true),
            }
        }
        Self {
            bits: Some(bits.finish()),
            at,
            end: at + rows.div_ceil(8),
        }
    }

    fn write(&self, range: &mut [u8]) {
        if let Some(bits) = &self.bits {
            let bytes = &bits.inner().as_slice()[..self.end - self.at];
            range[self.at..self.end].copy_from_slice(bytes);
        }
    }

    fn frozen(&self, frozen: &Arc<FrozenBytes>) -> Result<Option<NullBuffer>> {
        let Some(bits) = &self.bits else {
            return Ok(None);
        };
        let buffer = frozen.buffer(self.at, self.end - self.at)?;
        let bits = BooleanBuffer::new(buffer, 0, bits.len());
        Ok(Some(NullBuffer::new(bits)))
    }
}
