//! Copies columns of variable length: strings and bytes.
//!
//! Every value goes into one heap in row order, with 32-bit offsets. Where the source has offsets too, the
//! heap is copied in long pieces and the offsets are shifted; views and dictionaries are gathered value by value. What
//! lies under a null is copied along when it comes with the heap, and is empty otherwise.
//!
//! Values are compared and hashed by their first 16 bytes, one big-endian number that orders as the bytes do;
//! only longer ones need more.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::types::{BinaryViewType, ByteViewType, StringViewType};
use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, GenericByteArray, GenericByteViewArray, OffsetSizeTrait,
    StringArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{
    BinaryType, ByteArrayType, DataType, LargeBinaryType, LargeUtf8Type, Utf8Type,
};

use super::build::Target;
use super::column::{FrozenColumn, Statistics};
use super::distinct::{DistinctSketch, hash_bytes};
use super::form::Form;
use super::source::{Pieces, aligned, not_stored};
use super::zone::{BytesBounds, ZONE_ROWS};
use crate::memory::RangeWriter;
use crate::{Error, Result};

/// The widest values of fixed size that have bounds.
const BOUNDED_BYTES: i32 = 32;
/// Offsets that are shifted before they are written.
const OFFSETS_AT_ONCE: usize = 4096;

/// Copies a column of strings or bytes.
pub(super) fn copy_bytes(target: &Target<'_>, pieces: &Pieces) -> Result<FrozenColumn> {
    let sources: Vec<Values<'_>> = pieces
        .pieces
        .iter()
        .map(|piece| {
            Values::of(&piece.array, piece.nulls.as_ref())
                .ok_or_else(|| Error::from(not_stored(piece.array.data_type(), &pieces.stored)))
        })
        .collect::<Result<_>>()?;
    let heap_bytes: usize = sources
        .iter()
        .map(|source| source.heap_bytes(0, source.rows()))
        .sum();
    if i32::try_from(heap_bytes).is_err() {
        return Err(Error::Limit(format!(
            "{heap_bytes} bytes of one column in one extent, 2 GiB is the limit"
        )));
    }
    let offsets_bytes = (pieces.rows + 1) * size_of::<i32>();
    let heap_at = aligned(offsets_bytes);
    let validity_at = aligned(heap_at + heap_bytes);
    let range = target.allocate(validity_at + pieces.validity_bytes())?;

    let mut offsets = RangeWriter::new(&range, 0, offsets_bytes);
    let mut heap = RangeWriter::new(&range, heap_at, heap_bytes);
    let mut statistics = BytesStatistics::new(&pieces.stored);
    let mut end = 0;
    offsets.write_values(&[0_i32])?;
    for source in &sources {
        end = source.copy(end, &mut offsets, &mut heap, &mut statistics)?;
    }
    offsets.finish()?;
    heap.finish()?;
    pieces.write_validity(RangeWriter::new(
        &range,
        validity_at,
        pieces.validity_bytes(),
    ))?;

    let frozen = range.freeze();
    let offsets = ScalarBuffer::<i32>::new(frozen.buffer(0, offsets_bytes)?, 0, pieces.rows + 1);
    let heap = frozen.buffer(heap_at, heap_bytes)?;
    let nulls = pieces.frozen_nulls(&frozen, validity_at)?;
    // SAFETY: the offsets begin with 0, never decrease (each is the one before and a length) and end with the heap's length, which
    // the writers have checked.
    let offsets = unsafe { OffsetBuffer::new_unchecked(offsets) };
    let array: ArrayRef = match pieces.stored {
        // SAFETY: every value is that of a string array, at the same bounds, and null where that is null.
        DataType::Utf8 => Arc::new(unsafe { StringArray::new_unchecked(offsets, heap, nulls) }),
        _ => Arc::new(BinaryArray::try_new(offsets, heap, nulls)?),
    };
    let statistics = statistics.finish(&array)?;
    Ok(target.column(array, frozen.bytes(), statistics))
}

/// Bytes that ranges of rows of an array need in a heap, each; `None` for an array of something else.
pub(super) fn heap_bytes<'r>(
    array: &ArrayRef,
    ranges: impl IntoIterator<Item = &'r Range<usize>>,
) -> Option<Vec<usize>> {
    let nulls = array.logical_nulls();
    let values = Values::of(array, nulls.as_ref())?;
    Some(
        ranges
            .into_iter()
            .map(|range| values.heap_bytes(range.start, range.len()))
            .collect(),
    )
}

/// The values of a piece.
enum Values<'a> {
    Offsets32(Slots<'a, i32>),
    Offsets64(Slots<'a, i64>),
    /// Views, by value.
    Views {
        lengths: &'a [u128],
        get: Box<dyn Fn(usize) -> &'a [u8] + 'a>,
        nulls: Option<&'a NullBuffer>,
    },
    /// The values of a dictionary, by key; `None` for null.
    Keys {
        keys: Vec<Option<usize>>,
        values: Vec<&'a [u8]>,
    },
}

/// Offsets, heap and nulls of an array.
struct Slots<'a, O> {
    offsets: &'a [O],
    heap: &'a [u8],
    nulls: Option<&'a NullBuffer>,
}

impl<'a> Values<'a> {
    /// The values of an array of strings, bytes, or a dictionary of them.
    fn of(array: &'a ArrayRef, nulls: Option<&'a NullBuffer>) -> Option<Self> {
        Some(match array.data_type() {
            DataType::Utf8 => {
                Values::Offsets32(Slots::of(array.as_bytes_opt::<Utf8Type>()?, nulls))
            }
            DataType::Binary => {
                Values::Offsets32(Slots::of(array.as_bytes_opt::<BinaryType>()?, nulls))
            }
            DataType::LargeUtf8 => {
                Values::Offsets64(Slots::of(array.as_bytes_opt::<LargeUtf8Type>()?, nulls))
            }
            DataType::LargeBinary => {
                Values::Offsets64(Slots::of(array.as_bytes_opt::<LargeBinaryType>()?, nulls))
            }
            DataType::Utf8View => {
                Self::of_views(array.as_byte_view_opt::<StringViewType>()?, nulls)
            }
            DataType::BinaryView => {
                Self::of_views(array.as_byte_view_opt::<BinaryViewType>()?, nulls)
            }
            DataType::Dictionary(..) => {
                let dictionary = array.as_any_dictionary_opt()?;
                let values = Self::of(dictionary.values(), None)?.slices();
                let rows = dictionary.keys().len();
                if values.is_empty() {
                    return Some(Values::Keys {
                        keys: vec![None; rows],
                        values,
                    });
                }
                let mut keys: Vec<_> = dictionary.normalized_keys().into_iter().map(Some).collect();
                if let Some(nulls) = nulls {
                    keys.iter_mut()
                        .enumerate()
                        .filter(|(row, _)| nulls.is_null(*row))
                        .for_each(|(_, key)| *key = None);
                }
                Values::Keys { keys, values }
            }
            _ => return None,
        })
    }

    fn of_views<T: ByteViewType>(
        array: &'a GenericByteViewArray<T>,
        nulls: Option<&'a NullBuffer>,
    ) -> Self {
        let get = Box::new(move |row: usize| -> &'a [u8] {
            let value: &'a T::Native = array.value(row);
            value.as_ref()
        });
        Values::Views {
            lengths: array.views(),
            get,
            nulls,
        }
    }

    fn rows(&self) -> usize {
        match self {
            Values::Offsets32(slots) => slots.rows(),
            Values::Offsets64(slots) => slots.rows(),
            Values::Views { lengths, .. } => lengths.len(),
            Values::Keys { keys, .. } => keys.len(),
        }
    }

    /// Bytes that rows need in the heap.
    fn heap_bytes(&self, offset: usize, len: usize) -> usize {
        match self {
            Values::Offsets32(slots) => slots.heap_bytes(offset, len),
            Values::Offsets64(slots) => slots.heap_bytes(offset, len),
            Values::Views {
                lengths,
                nulls: None,
                ..
            } => {
                // The length is the first word of a view.
                lengths[offset..offset + len]
                    .iter()
                    .map(|&view| view as u32 as usize)
                    .sum()
            }
            Values::Views {
                lengths,
                nulls: Some(nulls),
                ..
            } => {
                let valid = (offset..offset + len).filter(|&row| nulls.is_valid(row));
                valid.map(|row| lengths[row] as u32 as usize).sum()
            }
            Values::Keys { keys, values } => keys[offset..offset + len]
                .iter()
                .flatten()
                .map(|&key| values[key].len())
                .sum(),
        }
    }

    /// All values; a null's is whatever lies under it.
    fn slices(&self) -> Vec<&'a [u8]> {
        (0..self.rows())
            .map(|row| match self {
                Values::Offsets32(slots) => slots.value(row),
                Values::Offsets64(slots) => slots.value(row),
                Values::Views { get, .. } => get(row),
                Values::Keys { keys, values } => keys[row].map_or(&[][..], |key| values[key]),
            })
            .collect()
    }

    /// Copies all rows behind a heap of `end` bytes; gives its new size.
    fn copy(
        &self,
        end: usize,
        offsets: &mut RangeWriter<'_>,
        heap: &mut RangeWriter<'_>,
        statistics: &mut BytesStatistics<'a>,
    ) -> Result<usize> {
        match self {
            Values::Offsets32(slots) => slots.copy(end, offsets, heap, statistics),
            Values::Offsets64(slots) => slots.copy(end, offsets, heap, statistics),
            Values::Views { get, nulls, .. } => {
                let value = |row| {
                    nulls
                        .is_none_or(|nulls| nulls.is_valid(row))
                        .then(|| get(row))
                };
                gather(self.rows(), value, end, offsets, heap, statistics)
            }
            Values::Keys { keys, values } => {
                let value = |row: usize| keys[row].map(|key| values[key]);
                gather(keys.len(), value, end, offsets, heap, statistics)
            }
        }
    }
}

/// Copies values one by one.
fn gather<'a>(
    rows: usize,
    value: impl Fn(usize) -> Option<&'a [u8]>,
    mut end: usize,
    offsets: &mut RangeWriter<'_>,
    heap: &mut RangeWriter<'_>,
    statistics: &mut BytesStatistics<'a>,
) -> Result<usize> {
    let mut ends = Vec::with_capacity(OFFSETS_AT_ONCE);
    for start in (0..rows).step_by(OFFSETS_AT_ONCE) {
        ends.clear();
        for row in start..rows.min(start + OFFSETS_AT_ONCE) {
            let value = value(row);
            statistics.add(value);
            if let Some(value) = value {
                heap.write(value)?;
                end += value.len();
            }
            // The heap as a whole was checked to fit.
            ends.push(end as i32);
        }
        offsets.write_values(&ends)?;
    }
    Ok(end)
}

impl<'a, O: OffsetSizeTrait> Slots<'a, O> {
    fn of<T: ByteArrayType<Offset = O>>(
        array: &'a GenericByteArray<T>,
        nulls: Option<&'a NullBuffer>,
    ) -> Self {
        Self {
            offsets: array.value_offsets(),
            heap: array.value_data(),
            nulls,
        }
    }

    fn rows(&self) -> usize {
        self.offsets.len() - 1
    }

    fn heap_bytes(&self, offset: usize, len: usize) -> usize {
        self.offsets[offset + len].as_usize() - self.offsets[offset].as_usize()
    }

    fn value(&self, row: usize) -> &'a [u8] {
        &self.heap[self.offsets[row].as_usize()..self.offsets[row + 1].as_usize()]
    }

    fn copy(
        &self,
        end: usize,
        offsets: &mut RangeWriter<'_>,
        heap: &mut RangeWriter<'_>,
        statistics: &mut BytesStatistics<'a>,
    ) -> Result<usize> {
        let first = self.offsets[0].as_usize();
        let mut shifted = Vec::with_capacity(OFFSETS_AT_ONCE);
        let mut written = first;
        let mut row = 0;
        for ends in self.offsets[1..].chunks(OFFSETS_AT_ONCE) {
            let mut start = self.offsets[row].as_usize();
            match self.nulls {
                None => {
                    for &value_end in ends {
                        let value_end = value_end.as_usize();
                        statistics.add_within(self.heap, start, value_end);
                        start = value_end;
                    }
                }
                Some(nulls) => {
                    for (at, &value_end) in ends.iter().enumerate() {
                        let value_end = value_end.as_usize();
                        if nulls.is_valid(row + at) {
                            statistics.add_within(self.heap, start, value_end);
                        } else {
                            statistics.add(None);
                        }
                        start = value_end;
                    }
                }
            }
            shifted.clear();
            // The heap as a whole was checked to fit.
            shifted.extend(
                ends.iter()
                    .map(|&value_end| (value_end.as_usize() - first + end) as i32),
            );
            offsets.write_values(&shifted)?;
            // The values are in the cache now.
            heap.write(&self.heap[written..start])?;
            written = start;
            row += ends.len();
        }
        Ok(end + written - first)
    }
}

/// Bounds, extremes and distinct values of a column of bytes, gathered value by value.
pub(super) struct BytesStatistics<'a> {
    /// `None` where bounds make no sense.
    bounds: Option<BytesBounds>,
    distinct: DistinctSketch,
    /// What the sketch took of the time, where that is known.
    sketching: Duration,
    row: u32,
    /// Rows of the zone that is being filled.
    zone_rows: usize,
    zone: Option<Extremes<'a>>,
    whole: Option<Extremes<'a>>,
}

#[derive(Clone, Copy)]
struct Extremes<'a> {
    least: Value<'a>,
    greatest: Value<'a>,
}

/// A value and the row where it is.
#[derive(Clone, Copy)]
struct Value<'a> {
    prefix: u128,
    bytes: &'a [u8],
    row: u32,
}

impl<'a> BytesStatistics<'a> {
    pub(super) fn new(stored: &DataType) -> Self {
        let bounded = !matches!(stored, DataType::FixedSizeBinary(width) if *width > BOUNDED_BYTES);
        Self {
            bounds: bounded.then(|| BytesBounds::new(stored)),
            distinct: DistinctSketch::default(),
            sketching: Duration::ZERO,
            row: 0,
            zone_rows: 0,
            zone: None,
            whole: None,
        }
    }

    /// Adds the next row; `None` for null.
    #[inline(always)]
    pub(super) fn add(&mut self, value: Option<&'a [u8]>) {
        match value {
            Some(bytes) => self.add_value(ends_of(bytes), bytes),
            None => self.end_row(),
        }
    }

    /// Adds the next row, `heap[start..end]`.
    #[inline(always)]
    fn add_within(&mut self, heap: &'a [u8], start: usize, end: usize) {
        self.add_value(ends_within(heap, start, end), &heap[start..end]);
    }

    /// Rows until the zone is full.
    pub(super) fn room(&self) -> usize {
        ZONE_ROWS - self.zone_rows
    }

    /// Adds a run of rows that fits the zone: values of these lengths one behind the other, nulls without bytes.
    pub(super) fn add_run(&mut self, heap: &'a [u8], lengths: &[u32], nulls: Option<&NullBuffer>) {
        let is_valid = |row: usize| nulls.is_none_or(|nulls| nulls.is_valid(row));
        let mut start = 0;
        for (row, &length) in lengths.iter().enumerate() {
            let end = start + length as usize;
            if is_valid(row) {
                let (prefix, _) = ends_within(heap, start, end);
                self.add_extremes(prefix, &heap[start..end], self.row + row as u32);
            }
            start = end;
        }
        let begun = Instant::now();
        let mut start = 0;
        for (row, &length) in lengths.iter().enumerate() {
            let end = start + length as usize;
            if is_valid(row) {
                let (prefix, suffix) = ends_within(heap, start, end);
                self.distinct
                    .insert(hash_bytes(prefix, suffix, &heap[start..end]));
            }
            start = end;
        }
        self.sketching += begun.elapsed();
        self.row += lengths.len() as u32;
        self.zone_rows += lengths.len();
        if self.zone_rows == ZONE_ROWS {
            self.end_zone();
        }
    }

    #[inline(always)]
    fn add_value(&mut self, (prefix, suffix): (u128, u128), bytes: &'a [u8]) {
        self.distinct.insert(hash_bytes(prefix, suffix, bytes));
        self.add_extremes(prefix, bytes, self.row);
        self.end_row();
    }

    #[inline(always)]
    fn add_extremes(&mut self, prefix: u128, bytes: &'a [u8], row: u32) {
        let value = Value { prefix, bytes, row };
        match &mut self.zone {
            Some(zone) => {
                if may_precede(prefix, bytes, &zone.least) && precedes(&value, &zone.least) {
                    zone.least = value;
                }
                if may_follow(prefix, bytes, &zone.greatest) && precedes(&zone.greatest, &value) {
                    zone.greatest = value;
                }
            }
            None => {
                self.zone = Some(Extremes {
                    least: value,
                    greatest: value,
                });
            }
        }
    }

    #[inline(always)]
    fn end_row(&mut self) {
        self.row += 1;
        self.zone_rows += 1;
        if self.zone_rows == ZONE_ROWS {
            self.end_zone();
        }
    }

    fn end_zone(&mut self) {
        let zone = self.zone.take();
        self.zone_rows = 0;
        if let Some(bounds) = &mut self.bounds {
            bounds.push(zone.map(|zone| (zone.least.bytes, zone.greatest.bytes)));
        }
        let Some(zone) = zone else { return };
        match &mut self.whole {
            Some(whole) => {
                if zone.least.bytes < whole.least.bytes {
                    whole.least = zone.least;
                }
                if zone.greatest.bytes > whole.greatest.bytes {
                    whole.greatest = zone.greatest;
                }
            }
            None => self.whole = Some(zone),
        }
    }

    /// The statistics of `array`, the frozen copy of the rows that were added.
    pub(super) fn finish(self, array: &ArrayRef) -> Result<Statistics> {
        self.end().of(array)
    }

    /// Ends with the rows that were added.
    pub(super) fn end(mut self) -> EndedStatistics {
        if self.zone_rows > 0 {
            self.end_zone();
        }
        let whole = self.whole.filter(|_| self.bounds.is_some());
        EndedStatistics {
            bounds: self.bounds,
            extremes: whole.map(|whole| (whole.least.row, whole.greatest.row)),
            distinct: self.distinct,
            sketching: self.sketching,
        }
    }
}

/// Statistics that need the values no more.
pub(super) struct EndedStatistics {
    bounds: Option<BytesBounds>,
    /// The rows of the least and the greatest value.
    extremes: Option<(u32, u32)>,
    distinct: DistinctSketch,
    sketching: Duration,
}

impl EndedStatistics {
    /// The statistics of `array`, the frozen copy of the rows that were added.
    pub(super) fn of(self, array: &ArrayRef) -> Result<Statistics> {
        let row = |row: u32| Form::Compute.apply(&array.slice(row as usize, 1));
        let extremes = match self.extremes {
            Some((least, greatest)) => Some((row(least)?, row(greatest)?)),
            None => None,
        };
        let bounds = self.bounds.map(|bounds| Box::new(bounds) as _);
        Ok(Statistics {
            bounds,
            extremes,
            distinct: Some(self.distinct),
            sketching: self.sketching,
        })
    }
}

/// [`ends_of`] of `heap[start..end]`.
#[inline(always)]
fn ends_within(heap: &[u8], start: usize, end: usize) -> (u128, u128) {
    let bytes = &heap[start..end];
    let Some(first) = heap.get(start..start + 16) else {
        return ends_of(bytes);
    };
    let long = bytes.len() > 16;
    // The last 16 bytes, or 16 of others that are cleared: either way they are in the heap.
    let last = if long { end - 16 } else { start };
    let suffix = word_of(&heap[last..last + 16]) & u128::from(long).wrapping_neg();
    // Clear what follows a shorter value.
    let prefix = word_of(first);
    let kept = (u128::MAX << 1) << (127 - 8 * bytes.len().min(15));
    let prefix = if bytes.len() < 16 {
        prefix & kept
    } else {
        prefix
    };
    (prefix, suffix)
}

/// Whether a value can be less than `other`. Without a branch on equal prefixes, which columns of few values have
/// all the time in no order.
#[inline(always)]
fn may_precede(prefix: u128, bytes: &[u8], other: &Value<'_>) -> bool {
    (prefix < other.prefix) | ((prefix == other.prefix) & may_differ(bytes, other.bytes))
}

/// Whether a value can be greater than `other`.
#[inline(always)]
fn may_follow(prefix: u128, bytes: &[u8], other: &Value<'_>) -> bool {
    (prefix > other.prefix) | ((prefix == other.prefix) & may_differ(bytes, other.bytes))
}

/// Whether a value is less than another. Those of one prefix mostly differ soon behind it, before a call of `memcmp` would pay.
#[inline(always)]
fn precedes(value: &Value<'_>, other: &Value<'_>) -> bool {
    if value.prefix != other.prefix {
        return value.prefix < other.prefix;
    }
    let (Some(left), Some(right)) = (value.bytes.get(16..), other.bytes.get(16..)) else {
        return value.bytes < other.bytes;
    };
    let (left_words, right_words) = (left.as_chunks::<8>().0, right.as_chunks::<8>().0);
    for (at, (one, other)) in left_words.iter().zip(right_words).enumerate() {
        let (one, other) = (u64::from_be_bytes(*one), u64::from_be_bytes(*other));
        if one != other {
            return one < other;
        }
        if at == 3 {
            break;
        }
    }
    left < right
}

/// Whether values of equal prefixes can differ: behind it, or in zeros at the end.
#[inline(always)]
fn may_differ(left: &[u8], right: &[u8]) -> bool {
    (left.len() != right.len()) | (left.len() > 16)
}

/// The first 16 bytes as a big-endian number, padded with zeros, and, of more than 16 bytes, the last 16.
#[inline(always)]
pub(super) fn ends_of(bytes: &[u8]) -> (u128, u128) {
    match (bytes.first_chunk::<16>(), bytes.last_chunk::<16>()) {
        (Some(first), Some(last)) => {
            let suffix = if bytes.len() > 16 {
                u128::from_be_bytes(*last)
            } else {
                0
            };
            (u128::from_be_bytes(*first), suffix)
        }
        _ => {
            let mut padded = [0; 16];
            padded[..bytes.len()].copy_from_slice(bytes);
            (u128::from_be_bytes(padded), 0)
        }
    }
}

/// 16 bytes as a big-endian number.
#[inline(always)]
fn word_of(bytes: &[u8]) -> u128 {
    let mut word = [0; 16];
    word.copy_from_slice(bytes);
    u128::from_be_bytes(word)
}
