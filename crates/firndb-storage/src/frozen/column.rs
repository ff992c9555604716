//! Frozen columns: what an extent shows.
//!
//! A column is one Arrow array of its stored type over arena memory, strings in one of several formats (see [`strings`](super::strings)). Everything
//! handed out is a slice of it, or of the string views beside it, and keeps the memory alive; only the widening of Decimal64 copies.
//!
//! Views point into the same heap as the offsets. They are built for the whole extent when first asked for,
//! once, because a table that is only exported with offsets needs none; so are offsets, and a heap in row order, of strings that are stored without.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arrow::array::{Array, ArrayData, ArrayRef, AsArray, BinaryViewArray, StringViewArray};
use arrow::buffer::{Buffer, NullBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Int32Type};
use parking_lot::Mutex;

use super::build::Target;
use super::strings::{Strings, as_dictionary, with_offsets};
use super::zone::{Bounds, zones_of};
use crate::cell::{Cell, cell_of};
use crate::frozen::{DistinctSketch, Form, Zone, Zones};
use crate::memory::{Arena, RangeWriter};
use crate::{Error, Result};

/// A column of an extent: immutable, contiguous, shared by reference.
pub struct FrozenColumn {
    arena: Arc<Arena>,
    lane: usize,
    /// References to its buffers that are its own, without the views'.
    own: Vec<usize>,
    stored: DataType,
    /// Of the stored type, or strings as views or a dictionary.
    array: ArrayRef,
    statistics: Statistics,
    views: OnceLock<ArrayRef>,
    /// Strings with offsets, where they are stored without.
    plain: OnceLock<ArrayRef>,
    /// Held by who builds one of these.
    building: Mutex<()>,
    bytes: AtomicUsize,
}

/// What was learnt about a column while it was copied.
#[derive(Debug, Default)]
pub(super) struct Statistics {
    pub(super) bounds: Option<Box<dyn Bounds>>,
    /// Least and greatest value of the extent (`Form::Compute`), exact.
    pub(super) extremes: Option<(ArrayRef, ArrayRef)>,
    pub(super) distinct: Option<DistinctSketch>,
    /// What the sketch took of the time.
    pub(super) sketching: Duration,
}

impl FrozenColumn {
    /// A column over an array of the stored type in `bytes` bytes of arena memory.
    pub(super) fn new(
        arena: &Arc<Arena>,
        lane: usize,
        array: ArrayRef,
        bytes: usize,
        statistics: Statistics,
    ) -> Self {
        let stored = array.data_type().clone();
        Self::of_type(arena, lane, stored, array, bytes, statistics)
    }

    /// As [`new`](Self::new), with strings in some format.
    pub(super) fn of_type(
        arena: &Arc<Arena>,
        lane: usize,
        stored: DataType,
        array: ArrayRef,
        bytes: usize,
        statistics: Statistics,
    ) -> Self {
        Self {
            arena: Arc::clone(arena),
            lane,
            // With those of the extremes, which are values of it.
            own: references(&array),
            stored,
            array,
            statistics,
            views: OnceLock::new(),
            plain: OnceLock::new(),
            building: Mutex::new(()),
            bytes: AtomicUsize::new(bytes),
        }
    }

    /// The same values in another format of strings, in `bytes` bytes of arena memory of their own.
    pub(super) fn rebuilt(
        self,
        target: &Target<'_>,
        array: ArrayRef,
        bytes: usize,
    ) -> Result<Self> {
        let mut statistics = self.statistics;
        // They are values of the memory that goes.
        if let Some((least, greatest)) = &mut statistics.extremes {
            for value in [least, greatest] {
                *value = match value.data_type() {
                    DataType::Utf8View => Arc::new(value.as_string_view().gc()),
                    _ => Arc::new(value.as_binary_view().gc()),
                };
            }
        }
        let (arena, lane) = target.place();
        Ok(Self::of_type(
            arena,
            lane,
            self.stored,
            array,
            bytes,
            statistics,
        ))
    }

    /// The format of its strings; `None` for another type.
    pub fn strings(&self) -> Option<Strings> {
        if !matches!(self.stored, DataType::Utf8 | DataType::Binary) {
            return None;
        }
        Some(match self.array.data_type() {
            DataType::Dictionary(..) => Strings::Dictionary,
            DataType::Utf8View | DataType::BinaryView => Strings::View,
            _ => Strings::Offsets,
        })
    }

    /// What the sketch of distinct values took of the time in which the column was built.
    pub(crate) fn sketching(&self) -> Duration {
        self.statistics.sketching
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.array.len()
    }

    /// The stored type.
    pub fn data_type(&self) -> &DataType {
        &self.stored
    }

    /// The whole column as it lies, without a copy: in its stored type (Utf8 and Binary with offsets, Decimal64), strings also as views or a dictionary.
    pub fn array(&self) -> &ArrayRef {
        &self.array
    }

    /// Rows `offset..offset + len` in the given form: without a copy, but for the widening of Decimal64. String views, and offsets
    /// of strings that lie without, are built when first asked for, once per extent (which can fail with `OutOfMemory`).
    pub fn slice(&self, offset: usize, len: usize, form: Form) -> Result<ArrayRef> {
        self.check(offset, len)?;
        match (&self.stored, form) {
            (DataType::Utf8 | DataType::Binary, Form::Compute | Form::Native) => {
                Ok(self.views()?.slice(offset, len))
            }
            (DataType::Utf8 | DataType::Binary, Form::Consumer | Form::Stored)
                if self.array.data_type() != &self.stored =>
            {
                Ok(self.plain()?.slice(offset, len))
            }
            _ => form.apply(&self.array.slice(offset, len)),
        }
    }

    /// Rows `offset..offset + len` as a dictionary: without a copy, if that is how they lie.
    pub(crate) fn dictionary(&self, offset: usize, len: usize) -> Result<ArrayRef> {
        self.check(offset, len)?;
        as_dictionary(&self.array.slice(offset, len), &self.stored)
    }

    /// The value of a row that is there; `None` for types without cells.
    pub(crate) fn cell(&self, row: usize) -> Option<Cell<'_>> {
        match self.array.as_dictionary_opt::<Int32Type>() {
            Some(coded) => match coded.key(row) {
                Some(key) => cell_of(coded.values().as_ref(), key),
                None => Some(Cell::Null),
            },
            None => cell_of(self.array.as_ref(), row),
        }
    }

    fn check(&self, offset: usize, len: usize) -> Result<()> {
        if offset.checked_add(len).is_none_or(|end| end > self.rows()) {
            return Err(Error::Internal(format!(
                "rows {offset}..+{len} of a frozen column with {} rows",
                self.rows()
            )));
        }
        Ok(())
    }

    /// Nulls in rows `offset..offset + len`.
    pub fn null_count(&self, offset: usize, len: usize) -> usize {
        match self.array.nulls() {
            None => 0,
            Some(nulls) if len == nulls.len() => nulls.null_count(),
            Some(nulls) => len - nulls.inner().slice(offset, len).count_set_bits(),
        }
    }

    /// What is known about rows `first_row..first_row + rows`.
    pub fn zone(&self, first_row: usize, rows: usize) -> Result<Zone> {
        let zones = self.zones(std::slice::from_ref(&(first_row..first_row + rows)))?;
        let known = |bounds: Option<ArrayRef>| bounds.filter(|bound| bound.is_valid(0));
        Ok(Zone {
            nulls: zones.nulls[0],
            min: known(zones.min),
            max: known(zones.max),
        })
    }

    /// As `zone` for many ranges of rows at once: one entry a range.
    pub fn zones(&self, ranges: &[Range<usize>]) -> Result<Zones> {
        if ranges
            .iter()
            .any(|range| range.start > range.end || range.end > self.rows())
        {
            return Err(Error::Internal(
                "a zone beyond the rows of a frozen column".into(),
            ));
        }
        let nulls = ranges
            .iter()
            .map(|range| self.null_count(range.start, range.len()))
            .collect();
        let Some(bounds) = &self.statistics.bounds else {
            return Ok(Zones {
                nulls,
                min: None,
                max: None,
            });
        };
        let zones: Vec<_> = ranges.iter().map(zones_of).collect();
        let (min, max) = bounds.over(&zones)?;
        Ok(Zones {
            nulls,
            min: Some(min),
            max: Some(max),
        })
    }

    /// The least value of the extent, exact, in the `Form::Compute` type (one row); `None` when all are null, the type has no
    /// order, or there is a NaN.
    pub fn minimum(&self) -> Option<ArrayRef> {
        self.statistics
            .extremes
            .as_ref()
            .map(|(least, _)| Arc::clone(least))
    }

    /// The greatest value of the extent, as [`minimum`](Self::minimum).
    pub fn maximum(&self) -> Option<ArrayRef> {
        self.statistics
            .extremes
            .as_ref()
            .map(|(_, greatest)| Arc::clone(greatest))
    }

    /// The sketch of its distinct values: merge those of a table's extents, then estimate. `None` for nested types.
    pub fn distinct(&self) -> Option<&DistinctSketch> {
        self.statistics.distinct.as_ref()
    }

    /// Bytes of frozen memory, lazily built views included.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// References to its memory besides its own: slices that are held, by anybody.
    pub fn holders(&self) -> usize {
        let views = usize::from(self.views.get().is_some());
        references(&self.array)
            .into_iter()
            .zip(&self.own)
            .enumerate()
            // Views share the last buffer, the heap.
            .map(|(at, (now, &own))| {
                let heap = at + 1 == self.own.len();
                now.saturating_sub(own + if heap { views } else { 0 })
            })
            .chain(self.plain.get().into_iter().flat_map(|plain| {
                // One is its own.
                references(plain)
                    .into_iter()
                    .map(|now| now.saturating_sub(1))
            }))
            .max()
            .unwrap_or(0)
    }

    /// The whole column with offsets, where it lies without.
    fn plain(&self) -> Result<&ArrayRef> {
        if let Some(plain) = self.plain.get() {
            return Ok(plain);
        }
        let _building = self.building.lock();
        if let Some(plain) = self.plain.get() {
            return Ok(plain);
        }
        let target = Target::new(&self.arena, self.lane);
        let (built, bytes) = with_offsets(&target, &self.array, &self.stored)?;
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(self.plain.get_or_init(|| built))
    }

    /// The whole column as views.
    fn views(&self) -> Result<&ArrayRef> {
        if matches!(
            self.array.data_type(),
            DataType::Utf8View | DataType::BinaryView
        ) {
            return Ok(&self.array);
        }
        if let Some(views) = self.views.get() {
            return Ok(views);
        }
        let _building = self.building.lock();
        if let Some(views) = self.views.get() {
            return Ok(views);
        }
        let values = match self.array.as_dictionary_opt::<Int32Type>() {
            Some(coded) => coded.values(),
            None => &self.array,
        };
        let (offsets, heap) = match &self.stored {
            DataType::Utf8 => {
                let strings = values.as_string::<i32>();
                (strings.value_offsets(), strings.values())
            }
            _ => {
                let bytes = values.as_binary::<i32>();
                (bytes.value_offsets(), bytes.values())
            }
        };
        let views = self.build_views(offsets, heap)?;
        let heap = vec![heap.clone()];
        let built: ArrayRef = match &self.stored {
            DataType::Utf8 => {
                // SAFETY: the views lie within the heap, which is the one of the string array: each is the UTF-8 of a value of it.
                Arc::new(unsafe { StringViewArray::new_unchecked(views, heap, self.nulls()) })
            }
            // SAFETY: as above, of bytes.
            _ => Arc::new(unsafe { BinaryViewArray::new_unchecked(views, heap, self.nulls()) }),
        };
        Ok(self.views.get_or_init(|| built))
    }

    /// The views of all rows' values, which lie in `heap` between these offsets, each or, of a dictionary, those of its values.
    fn build_views(&self, offsets: &[i32], heap: &[u8]) -> Result<ScalarBuffer<u128>> {
        let len = self.rows() * size_of::<u128>();
        let range = self.arena.allocate(len, self.lane)?;
        let mut writer = RangeWriter::new(&range, 0, len);
        let mut views = Vec::with_capacity(VIEWS_AT_ONCE);
        // The last offset begins no value.
        let starts = &offsets[..offsets.len() - 1];
        let of_values = |(&start, &end): (&i32, &i32)| view(heap, start as usize, end as usize);
        match self.array.as_dictionary_opt::<Int32Type>() {
            Some(coded) => {
                let values: Vec<u128> = starts.iter().zip(&offsets[1..]).map(of_values).collect();
                for codes in coded.keys().values().chunks(VIEWS_AT_ONCE) {
                    views.clear();
                    // Under nulls alone there may be no value.
                    let view = |&code: &i32| values.get(code as usize).copied().unwrap_or(0);
                    views.extend(codes.iter().map(view));
                    writer.write_values(&views)?;
                }
            }
            None => {
                let ends = offsets[1..].chunks(VIEWS_AT_ONCE);
                for (starts, ends) in starts.chunks(VIEWS_AT_ONCE).zip(ends) {
                    views.clear();
                    views.extend(starts.iter().zip(ends).map(of_values));
                    writer.write_values(&views)?;
                }
            }
        }
        writer.finish()?;
        let frozen = range.freeze();
        self.bytes.fetch_add(frozen.bytes(), Ordering::Relaxed);
        Ok(ScalarBuffer::new(frozen.buffer(0, len)?, 0, self.rows()))
    }

    fn nulls(&self) -> Option<NullBuffer> {
        self.array.nulls().cloned()
    }
}

impl std::fmt::Debug for FrozenColumn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FrozenColumn")
            .field("data_type", self.data_type())
            .field("rows", &self.rows())
            .field("bytes", &self.bytes())
            .finish_non_exhaustive()
    }
}

/// References to each buffer of an array, a dictionary's behind those of its codes.
fn references(array: &ArrayRef) -> Vec<usize> {
    fn add(data: &ArrayData, counts: &mut Vec<usize>) {
        counts.extend(data.buffers().iter().map(Buffer::strong_count));
        data.child_data()
            .iter()
            .for_each(|child| add(child, counts));
    }
    let mut counts = Vec::new();
    match array.data_type() {
        DataType::Dictionary(..) => add(&array.to_data(), &mut counts),
        _ => counts.extend(array.to_data().buffers().iter().map(Buffer::strong_count)),
    }
    counts
}

/// Views that are made before they are written.
const VIEWS_AT_ONCE: usize = 4096;

/// The longest value that a view holds itself.
const INLINE_BYTES: usize = 12;

/// The view of `heap[start..end]` in buffer 0.
#[inline(always)]
pub(super) fn view(heap: &[u8], start: usize, end: usize) -> u128 {
    let len = end - start;
    let Some(bytes) = heap.get(start..start + 16) else {
        return view_at_end(heap, start, end);
    };
    let mut word = [0; 16];
    word.copy_from_slice(bytes);
    let word = u128::from_le_bytes(word);
    if len <= INLINE_BYTES {
        // Keep the value's bytes, move them behind the length.
        let kept = word & ((1_u128 << (8 * len)) - 1);
        kept << 32 | len as u128
    } else {
        (start as u128) << 96 | (word & u128::from(u32::MAX)) << 32 | len as u128
    }
}

/// As `view`, where fewer than 16 bytes follow `start`.
#[cold]
fn view_at_end(heap: &[u8], start: usize, end: usize) -> u128 {
    let mut padded = [0; 32];
    let rest = &heap[start..];
    padded[..rest.len()].copy_from_slice(rest);
    let local = view(&padded, 0, end - start);
    if end - start <= INLINE_BYTES {
        local
    } else {
        local | (start as u128) << 96
    }
}
