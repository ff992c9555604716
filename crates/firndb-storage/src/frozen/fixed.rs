//! Copies columns of fixed width: numbers, times, decimals, booleans, bytes of fixed size.
//!
//! One pass over each run of at most 4,096 values: converted where need be, then bounds and hashes while it is
//! in the first-level cache, then written.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::BooleanBufferBuilder;
use arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, BooleanArray, FixedSizeBinaryArray, make_array,
};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::{DataType, Decimal64Type, Decimal128Type, DecimalType};

use super::build::Target;
use super::bytes_statistics::BytesStatistics;
use super::column::{FrozenColumn, Statistics};
use super::distinct::{DistinctSketch, hash_word};
use super::extremes::extremes;
use super::source::{Piece, Pieces, aligned, not_stored};
use super::value::Fixed;
use super::zone::{BooleanBounds, FixedBounds, ZONE_ROWS, fixed_array};
use crate::memory::RangeWriter;
use crate::{Error, Result};

/// Values that need no conversion are written in pieces of this many bytes.
const WRITE_BYTES: usize = 128 << 10;

/// Copies a column of primitive values.
pub(super) fn copy_fixed<N: Fixed>(target: &Target<'_>, pieces: &Pieces) -> Result<FrozenColumn> {
    let values_bytes = pieces.rows * size_of::<N>();
    let validity_at = aligned(values_bytes);
    let range = target.allocate(validity_at + pieces.validity_bytes())?;
    let mut writer = RangeWriter::new(&range, 0, values_bytes);
    let mut statistics = FixedStatistics::<N>::new(&pieces.stored);
    let mut converted = Vec::with_capacity(ZONE_ROWS);
    for piece in &pieces.pieces {
        let data = piece.array.to_data();
        let source = Source::<N>::of(&data)?;
        let (mut at, mut written) = (0, 0);
        while at < piece.array.len() {
            let count = statistics.room().min(piece.array.len() - at);
            let nulls = chunk_nulls(piece, at, count);
            if let Source::Values(values) = source {
                let run = &values[at..at + count];
                if N::has_other_nan(run) {
                    converted.clear();
                    converted.extend(run.iter().map(|value| value.one_nan()));
                    statistics.add(&converted, nulls.as_ref());
                    writer.write_values(&values[written..at])?;
                    writer.write_values(&converted)?;
                    at += count;
                    written = at;
                    continue;
                }
                statistics.add(run, nulls.as_ref());
                at += count;
                if (at - written) * size_of::<N>() >= WRITE_BYTES || at == values.len() {
                    writer.write_values(&values[written..at])?;
                    written = at;
                }
            } else {
                source.convert(at, count, nulls.as_ref(), &pieces.stored, &mut converted)?;
                statistics.add(&converted, nulls.as_ref());
                writer.write_values(&converted)?;
                at += count;
            }
        }
    }
    writer.finish()?;
    pieces.write_validity(RangeWriter::new(
        &range,
        validity_at,
        pieces.validity_bytes(),
    ))?;
    let statistics = statistics.finish()?;
    let frozen = range.freeze();
    let data = ArrayData::builder(pieces.stored.clone())
        .len(pieces.rows)
        .add_buffer(frozen.buffer(0, values_bytes)?)
        .nulls(pieces.frozen_nulls(&frozen, validity_at)?)
        .build()?;
    Ok(target.column(make_array(data), frozen.bytes(), statistics))
}

/// Copies a column of booleans.
pub(super) fn copy_booleans(target: &Target<'_>, pieces: &Pieces) -> Result<FrozenColumn> {
    let mut bits = BooleanBufferBuilder::new(pieces.rows);
    let mut known = BooleanBufferBuilder::new(pieces.rows);
    for piece in &pieces.pieces {
        let array = piece
            .array
            .as_boolean_opt()
            .ok_or_else(|| not_stored(piece.array.data_type(), &pieces.stored))?;
        bits.append_buffer(array.values());
        match &piece.nulls {
            Some(nulls) => known.append_buffer(nulls.inner()),
            None => known.append_n(array.len(), true),
        }
    }
    let (bits, known) = (bits.finish(), known.finish());
    let bounds = boolean_bounds(&bits, &known);
    let statistics = boolean_statistics(bounds);

    let values_bytes = pieces.rows.div_ceil(8);
    let validity_at = aligned(values_bytes);
    let range = target.allocate(validity_at + pieces.validity_bytes())?;
    let mut writer = RangeWriter::new(&range, 0, values_bytes);
    writer.write(&bits.inner().as_slice()[..values_bytes])?;
    writer.finish()?;
    pieces.write_validity(RangeWriter::new(
        &range,
        validity_at,
        pieces.validity_bytes(),
    ))?;
    let frozen = range.freeze();
    let values = BooleanBuffer::new(frozen.buffer(0, values_bytes)?, 0, pieces.rows);
    let array = BooleanArray::new(values, pieces.frozen_nulls(&frozen, validity_at)?);
    Ok(target.column(Arc::new(array), frozen.bytes(), statistics))
}

/// Copies a column of bytes of one size.
pub(super) fn copy_fixed_binary(
    target: &Target<'_>,
    pieces: &Pieces,
    width: i32,
) -> Result<FrozenColumn> {
    let size =
        usize::try_from(width).map_err(|_| Error::Limit(format!("values of {width} bytes")))?;
    let values_bytes = pieces.rows * size;
    let validity_at = aligned(values_bytes);
    let range = target.allocate(validity_at + pieces.validity_bytes())?;
    let mut writer = RangeWriter::new(&range, 0, values_bytes);
    let mut statistics = BytesStatistics::new(&pieces.stored);
    for piece in &pieces.pieces {
        let array = piece
            .array
            .as_fixed_size_binary_opt()
            .ok_or_else(|| not_stored(piece.array.data_type(), &pieces.stored))?;
        for row in 0..array.len() {
            let valid = piece.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
            statistics.add(valid.then(|| array.value(row)));
        }
        writer.write(&array.value_data()[..array.len() * size])?;
    }
    writer.finish()?;
    pieces.write_validity(RangeWriter::new(
        &range,
        validity_at,
        pieces.validity_bytes(),
    ))?;
    let frozen = range.freeze();
    let values = frozen.buffer(0, values_bytes)?;
    let nulls = pieces.frozen_nulls(&frozen, validity_at)?;
    let array: ArrayRef = Arc::new(FixedSizeBinaryArray::try_new_with_len(
        width,
        values,
        nulls,
        pieces.rows,
    )?);
    let statistics = statistics.finish(&array)?;
    Ok(target.column(array, frozen.bytes(), statistics))
}

/// The nulls of part of a piece; `None` when it has none.
fn chunk_nulls(piece: &Piece, at: usize, count: usize) -> Option<NullBuffer> {
    piece
        .nulls
        .as_ref()
        .map(|nulls| nulls.slice(at, count))
        .filter(|nulls| nulls.null_count() > 0)
}

/// The values of a piece, as they are given.
#[derive(Clone, Copy)]
enum Source<'a, N> {
    Values(&'a [N]),
    /// Decimal128 for a column of Decimal64.
    Wide(&'a [i128]),
    /// Decimal64 for a column of Decimal128.
    Narrow(&'a [i64]),
}

impl<'a, N: Fixed> Source<'a, N> {
    fn of(data: &'a ArrayData) -> Result<Self> {
        let given = match data.data_type() {
            DataType::Decimal64(..) => size_of::<i64>(),
            DataType::Decimal128(..) => size_of::<i128>(),
            _ => size_of::<N>(),
        };
        let len = data.len();
        Ok(if given == size_of::<N>() {
            Source::Values(&data.buffer::<N>(0)[..len])
        } else if given > size_of::<N>() {
            Source::Wide(&data.buffer::<i128>(0)[..len])
        } else {
            Source::Narrow(&data.buffer::<i64>(0)[..len])
        })
    }

    /// Converts a run of values; an error if a valid one does not fit.
    fn convert(
        &self,
        at: usize,
        count: usize,
        nulls: Option<&NullBuffer>,
        stored: &DataType,
        into: &mut Vec<N>,
    ) -> Result<()> {
        match self {
            Source::Values(values) => {
                into.clear();
                into.extend_from_slice(&values[at..at + count]);
                Ok(())
            }
            Source::Narrow(values) => {
                if N::widen(&values[at..at + count], into) {
                    return Ok(());
                }
                Err(Error::Internal(format!("64-bit integers for {stored}")))
            }
            Source::Wide(values) => {
                let values = &values[at..at + count];
                match N::narrow(values, into) {
                    Some(true) => Ok(()),
                    Some(false) => {
                        // What lies under a null may be anything.
                        let valid = |row: usize| nulls.is_none_or(|nulls| nulls.is_valid(row));
                        let misfit = |&(row, &value): &(usize, &i128)| {
                            valid(row) && i64::try_from(value).is_err()
                        };
                        match values.iter().enumerate().find(misfit) {
                            Some((_, &value)) => Err(out_of_range(value, stored)),
                            None => Ok(()),
                        }
                    }
                    None => Err(Error::Internal(format!("128-bit integers for {stored}"))),
                }
            }
        }
    }
}

/// Bounds, extremes and distinct values of a column of fixed width, gathered run by run.
pub(super) struct FixedStatistics<N: Fixed> {
    bounds: FixedBounds<N>,
    distinct: DistinctSketch,
    sketching: Duration,
    /// The zone that is being filled.
    rows: usize,
    least: N::Key,
    greatest: N::Key,
}

impl<N: Fixed> FixedStatistics<N> {
    pub(super) fn new(stored: &DataType) -> Self {
        Self {
            bounds: FixedBounds {
                stored: stored.clone(),
                least: Vec::new(),
                greatest: Vec::new(),
            },
            distinct: DistinctSketch::default(),
            sketching: Duration::ZERO,
            rows: 0,
            least: N::GREATEST,
            greatest: N::LEAST,
        }
    }

    /// Rows until the zone is full.
    pub(super) fn room(&self) -> usize {
        ZONE_ROWS - self.rows
    }

    /// Adds a run that fits the zone.
    pub(super) fn add(&mut self, values: &[N], nulls: Option<&NullBuffer>) {
        match nulls {
            None => {
                let (least, greatest) = extremes(values);
                self.least = self.least.min(least);
                self.greatest = self.greatest.max(greatest);
                let begun = Instant::now();
                values
                    .iter()
                    .for_each(|value| self.distinct.insert(value.hash()));
                self.sketching += begun.elapsed();
            }
            Some(nulls) => {
                for value in nulls.valid_indices().map(|row| values[row]) {
                    self.least = self.least.min(value.key());
                    self.greatest = self.greatest.max(value.key());
                }
                let begun = Instant::now();
                nulls
                    .valid_indices()
                    .for_each(|row| self.distinct.insert(values[row].hash()));
                self.sketching += begun.elapsed();
            }
        }
        self.rows += values.len();
        if self.rows == ZONE_ROWS {
            self.end_zone();
        }
    }

    fn end_zone(&mut self) {
        self.bounds.least.push(self.least);
        self.bounds.greatest.push(self.greatest);
        (self.rows, self.least, self.greatest) = (0, N::GREATEST, N::LEAST);
    }

    /// The statistics; an error if a decimal has more digits than its type.
    pub(super) fn finish(mut self) -> Result<Statistics> {
        if self.rows > 0 {
            self.end_zone();
        }
        let FixedStatistics {
            bounds,
            distinct,
            sketching,
            ..
        } = self;
        let least = bounds.least.iter().copied().min().unwrap_or(N::GREATEST);
        let greatest = bounds.greatest.iter().copied().max().unwrap_or(N::LEAST);
        let mut statistics = Statistics {
            distinct: Some(distinct),
            sketching,
            ..Statistics::default()
        };
        if !N::ORDERED {
            return Ok(statistics);
        }
        if least <= greatest {
            check_precision(&bounds.stored, N::from_key(least))?;
            check_precision(&bounds.stored, N::from_key(greatest))?;
            if N::is_exact(least, greatest) {
                let array = |key| fixed_array::<N>(&bounds.stored, vec![N::from_key(key)], None);
                statistics.extremes = Some((array(least)?, array(greatest)?));
            }
        }
        statistics.bounds = Some(Box::new(bounds));
        Ok(statistics)
    }
}

/// Whether a decimal has no more digits than its type says. Least and greatest stand for all.
fn check_precision<N: Fixed>(stored: &DataType, value: N) -> Result<()> {
    let (DataType::Decimal64(precision, _) | DataType::Decimal128(precision, _)) = stored else {
        return Ok(());
    };
    let (Some(value), Some(limit)) = (
        value.as_decimal(),
        10_u128.checked_pow(u32::from(*precision)),
    ) else {
        return Ok(());
    };
    if value.unsigned_abs() < limit {
        Ok(())
    } else {
        Err(out_of_range(value, stored))
    }
}

fn out_of_range(value: i128, stored: &DataType) -> Error {
    let value = match stored {
        DataType::Decimal64(_, scale) => match i64::try_from(value) {
            Ok(value) => Decimal64Type::format_decimal(value, Decimal64Type::MAX_PRECISION, *scale),
            Err(_) => Decimal128Type::format_decimal(value, Decimal128Type::MAX_PRECISION, *scale),
        },
        DataType::Decimal128(_, scale) => {
            Decimal128Type::format_decimal(value, Decimal128Type::MAX_PRECISION, *scale)
        }
        _ => value.to_string(),
    };
    Error::ValueOutOfRange {
        value,
        data_type: stored.clone(),
    }
}

fn boolean_bounds(bits: &BooleanBuffer, known: &BooleanBuffer) -> BooleanBounds {
    let mut bounds = BooleanBounds::default();
    for start in (0..bits.len()).step_by(ZONE_ROWS) {
        let count = ZONE_ROWS.min(bits.len() - start);
        let (bits, known) = (bits.slice(start, count), known.slice(start, count));
        let trues = (&bits & &known).count_set_bits();
        bounds.has_true.push(trues > 0);
        bounds.has_false.push(known.count_set_bits() > trues);
    }
    bounds
}

fn boolean_statistics(bounds: BooleanBounds) -> Statistics {
    let mut distinct = DistinctSketch::default();
    let (no, yes) = (
        bounds.has_false.contains(&true),
        bounds.has_true.contains(&true),
    );
    for value in [no.then_some(false), yes.then_some(true)]
        .into_iter()
        .flatten()
    {
        distinct.insert(hash_word(u64::from(value)));
    }
    let one = |value: bool| Arc::new(BooleanArray::from(vec![value])) as ArrayRef;
    let extremes = (no || yes).then(|| (one(!no), one(yes)));
    Statistics {
        bounds: Some(Box::new(bounds)),
        extremes,
        distinct: Some(distinct),
        sketching: Duration::ZERO,
    }
}
