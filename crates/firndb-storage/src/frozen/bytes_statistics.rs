//! Bounds, extremes and distinct values of strings and bytes.
//!
//! Values are compared and hashed by their first 16 bytes, one big-endian number that orders as the bytes do;
//! only longer ones need more.

use std::time::{Duration, Instant};

use arrow::array::{Array, ArrayRef};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;

use super::column::Statistics;
use super::distinct::{DistinctSketch, hash_bytes};
use super::form::Form;
use super::run_extremes::{Peaks, RunExtremes};
use super::zone::{BytesBounds, ZONE_ROWS};
use crate::Result;

/// The widest values of fixed size that have bounds.
const BOUNDED_BYTES: i32 = 32;

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
    run: RunExtremes,
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
            run: RunExtremes::default(),
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
    pub(super) fn add_within(&mut self, heap: &'a [u8], start: usize, end: usize) {
        self.add_value(ends_within(heap, start, end), &heap[start..end]);
    }

    /// Rows until the zone is full.
    pub(super) fn room(&self) -> usize {
        ZONE_ROWS - self.zone_rows
    }

    /// Adds a run of rows that fits the zone: values of these lengths one behind the other, nulls without bytes. The least and the
    /// greatest are among `peaks`. The value of a row ends at `end_of` it.
    pub(super) fn add_run(
        &mut self,
        heap: &'a [u8],
        lengths: &[u32],
        nulls: Option<&NullBuffer>,
        peaks: &Peaks,
        end_of: impl Fn(usize) -> usize,
    ) {
        let is_valid = |row: usize| nulls.is_none_or(|nulls| nulls.is_valid(row));
        let start_of = |row: usize| end_of(row) - lengths[row] as usize;
        for &row in peaks.rows.iter().filter(|&&row| is_valid(row)) {
            self.add_peak(heap, row, start_of(row), end_of(row));
        }
        for part in &peaks.parts {
            if nulls.is_some() {
                for row in part.clone().filter(|&row| is_valid(row)) {
                    self.add_peak(heap, row, start_of(row), end_of(row));
                }
                continue;
            }
            let first = start_of(part.start);
            let found = self.run.of(&heap[first..], &lengths[part.clone()]);
            for (row, start, end) in found.into_iter().flatten() {
                self.add_peak(heap, part.start + row, first + start, first + end);
            }
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

    /// Adds what may be an extreme: `heap[start..end]`, the value of a row of the run.
    #[inline]
    fn add_peak(&mut self, heap: &'a [u8], row: usize, start: usize, end: usize) {
        let (prefix, _) = ends_within(heap, start, end);
        self.add_extremes(prefix, &heap[start..end], self.row + row as u32);
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
