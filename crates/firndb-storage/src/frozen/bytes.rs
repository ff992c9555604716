//! Copies columns of variable length: strings and bytes.
//!
//! Every value goes into one heap in row order, with 32-bit offsets. Where the source has offsets too, the
//! heap is copied in long pieces and the offsets are shifted; views and dictionaries are gathered value by value. What
//! lies under a null is copied along when it comes with the heap, and is empty otherwise.

use std::ops::Range;
use std::sync::Arc;

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
use super::bytes_statistics::BytesStatistics;
use super::column::FrozenColumn;
use super::source::{Pieces, aligned, not_stored};
use crate::memory::RangeWriter;
use crate::{Error, Result};

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
