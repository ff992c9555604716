//! Frozen columns: what an extent shows.
//!
//! A column is one Arrow array of its stored type over arena memory. Everything handed out is a slice of it,
//! or of the string views beside it, and keeps the memory alive; only the widening of Decimal64 copies.
//!
//! Views point into the same heap as the offsets. They are built for the whole extent when first asked for,
//! once, because a table that is only exported with offsets needs none.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BinaryViewArray, GenericByteArray, StringArray,
    StringViewArray,
};
use arrow::buffer::{Buffer, NullBuffer, ScalarBuffer};
use arrow::datatypes::{ByteArrayType, DataType};
use parking_lot::Mutex;

use super::zone::{Bounds, zones_of};
use crate::frozen::{DistinctSketch, Form, Zone, Zones};
use crate::memory::{Arena, RangeWriter};
use crate::{Error, Result};

/// A column of an extent: immutable, contiguous, shared by reference.
pub struct FrozenColumn {
    arena: Arc<Arena>,
    lane: usize,
    /// References to its memory that are its own, without the views'.
    own: usize,
    array: ArrayRef,
    statistics: Statistics,
    views: OnceLock<ArrayRef>,
    building_views: Mutex<()>,
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
        Self {
            arena: Arc::clone(arena),
            lane,
            // With those of the extremes, which are values of it.
            own: references(&array),
            array,
            statistics,
            views: OnceLock::new(),
            building_views: Mutex::new(()),
            bytes: AtomicUsize::new(bytes),
        }
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
        self.array.data_type()
    }

    /// The whole column in its stored type (Utf8 and Binary with offsets, Decimal64), without a copy.
    pub fn array(&self) -> &ArrayRef {
        &self.array
    }

    /// Rows `offset..offset + len` in the given form: without a copy, but for the widening of Decimal64. String views are
    /// built when first asked for, once per extent (which can fail with `OutOfMemory`).
    pub fn slice(&self, offset: usize, len: usize, form: Form) -> Result<ArrayRef> {
        if offset.checked_add(len).is_none_or(|end| end > self.rows()) {
            return Err(Error::Internal(format!(
                "rows {offset}..+{len} of a frozen column with {} rows",
                self.rows()
            )));
        }
        match (self.data_type(), form) {
            (DataType::Utf8 | DataType::Binary, Form::Compute | Form::Native) => {
                Ok(self.views()?.slice(offset, len))
            }
            _ => form.apply(&self.array.slice(offset, len)),
        }
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
        let own = self.own + usize::from(self.views.get().is_some());
        references(&self.array).saturating_sub(own)
    }

    /// The whole column as views.
    fn views(&self) -> Result<&ArrayRef> {
        if let Some(views) = self.views.get() {
            return Ok(views);
        }
        let _building = self.building_views.lock();
        if let Some(views) = self.views.get() {
            return Ok(views);
        }
        let built: ArrayRef = match self.data_type() {
            DataType::Utf8 => {
                let (strings, views) = (
                    self.array.as_string::<i32>(),
                    self.build_views::<StringArray>()?,
                );
                let heap = strings.values().clone();
                // SAFETY: the views lie within the heap, which is the one of the string array: each is the UTF-8 of a value of it.
                Arc::new(unsafe { StringViewArray::new_unchecked(views, vec![heap], self.nulls()) })
            }
            _ => {
                let (binary, views) = (
                    self.array.as_binary::<i32>(),
                    self.build_views::<BinaryArray>()?,
                );
                let heap = binary.values().clone();
                // SAFETY: as above, of bytes.
                Arc::new(unsafe { BinaryViewArray::new_unchecked(views, vec![heap], self.nulls()) })
            }
        };
        Ok(self.views.get_or_init(|| built))
    }

    fn build_views<A: OffsetArray + 'static>(&self) -> Result<ScalarBuffer<u128>> {
        let array = self
            .array
            .as_any()
            .downcast_ref::<A>()
            .ok_or_else(|| Error::Internal(format!("views of {}", self.data_type())))?;
        let (offsets, heap) = array.parts();
        let len = self.rows() * size_of::<u128>();
        let range = self.arena.allocate(len, self.lane)?;
        let mut writer = RangeWriter::new(&range, 0, len);
        let mut views = Vec::with_capacity(VIEWS_AT_ONCE);
        // The last offset begins no value.
        for pairs in offsets[..self.rows()]
            .chunks(VIEWS_AT_ONCE)
            .zip(offsets[1..].chunks(VIEWS_AT_ONCE))
        {
            views.clear();
            views.extend(
                pairs
                    .0
                    .iter()
                    .zip(pairs.1)
                    .map(|(&start, &end)| view(heap, start as usize, end as usize)),
            );
            writer.write_values(&views)?;
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

/// References to the memory of an array: of its buffer that has the most.
fn references(array: &ArrayRef) -> usize {
    let data = array.to_data();
    let buffers = data.buffers().iter().map(Buffer::strong_count);
    buffers.max().unwrap_or(0)
}

/// Views that are made before they are written.
const VIEWS_AT_ONCE: usize = 4096;

/// The longest value that a view holds itself.
const INLINE_BYTES: usize = 12;

/// Offsets and heap of a variable-length array.
trait OffsetArray {
    fn parts(&self) -> (&[i32], &[u8]);
}

impl<T: ByteArrayType<Offset = i32>> OffsetArray for GenericByteArray<T> {
    fn parts(&self) -> (&[i32], &[u8]) {
        (self.value_offsets(), self.value_data())
    }
}

/// The view of `heap[start..end]` in buffer 0.
#[inline(always)]
fn view(heap: &[u8], start: usize, end: usize) -> u128 {
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
