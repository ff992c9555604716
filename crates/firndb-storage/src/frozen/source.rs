//! What may be stored in a column of a given type, and the pieces that a column is made of.

use std::sync::Arc;

use arrow::array::BooleanBufferBuilder;
use arrow::array::{Array, ArrayRef};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, FieldRef, IntervalUnit, TimeUnit};
use arrow::error::ArrowError;

use crate::memory::{FrozenBytes, RangeWriter};
use crate::{Error, Result};

/// An array that can be copied into a column of type `stored`: the array itself, or, for the less usual types (dictionaries of
/// other things than strings, nested types with other names or representations inside), a cast of it that loses nothing.
///
/// Taken as they are: the stored type; Utf8, LargeUtf8, Utf8View and dictionaries of them for Utf8, likewise for
/// Binary; Decimal64 and Decimal128 of the same scale for each other; timestamps of the same unit, both with
/// or both without a zone. Anything else is an `Arrow` error.
pub fn as_stored(array: &ArrayRef, stored: &DataType) -> Result<ArrayRef> {
    let source = array.data_type();
    if is_taken(source, stored) {
        return Ok(Arc::clone(array));
    }
    match (source, stored) {
        (DataType::Dictionary(_, value), _) if is_taken(value, stored) => {
            // The values' own type first, whatever representation it has.
            as_stored(&cast(array, value)?, stored)
        }
        _ if stored.is_nested() && has_the_same_values(source, stored) => cast(array, stored),
        _ => Err(not_stored(source, stored).into()),
    }
}

/// Refuses types that no column has.
pub(super) fn check_stored(stored: &DataType) -> Result<()> {
    let known = match stored {
        DataType::Boolean
        | DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::UInt8
        | DataType::UInt16
        | DataType::UInt32
        | DataType::UInt64
        | DataType::Float32
        | DataType::Float64
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Date32
        | DataType::Time64(TimeUnit::Microsecond)
        | DataType::Timestamp(TimeUnit::Microsecond, _)
        | DataType::Interval(IntervalUnit::MonthDayNano)
        | DataType::Utf8
        | DataType::Binary
        | DataType::List(_)
        | DataType::Struct(_)
        | DataType::Map(..)
        | DataType::FixedSizeList(..) => true,
        DataType::FixedSizeBinary(width) => *width >= 0,
        _ => false,
    };
    if known {
        return Ok(());
    }
    Err(ArrowError::NotYetImplemented(format!("columns of type {stored}")).into())
}

fn is_taken(source: &DataType, stored: &DataType) -> bool {
    match (stored, source) {
        (DataType::Utf8, DataType::Dictionary(_, value)) => is_text(value),
        (DataType::Utf8, _) => is_text(source),
        (DataType::Binary, DataType::Dictionary(_, value)) => is_binary(value),
        (DataType::Binary, _) => is_binary(source),
        (
            DataType::Decimal64(_, scale) | DataType::Decimal128(_, scale),
            DataType::Decimal64(_, given) | DataType::Decimal128(_, given),
        ) => scale == given,
        (DataType::Timestamp(unit, zone), DataType::Timestamp(given, given_zone)) => {
            unit == given && zone.is_some() == given_zone.is_some()
        }
        _ => source == stored,
    }
}

/// Whether a nested type holds the values of another: lists of any kind, structs of the same fields in the same order,
/// maps; whatever the elements are called.
fn has_the_same_values(source: &DataType, stored: &DataType) -> bool {
    let same = |source: &FieldRef, stored: &FieldRef| {
        has_the_same_values(source.data_type(), stored.data_type())
    };
    match (source, stored) {
        (DataType::List(given) | DataType::LargeList(given), DataType::List(item)) => {
            same(given, item)
        }
        (DataType::FixedSizeList(given, length), DataType::FixedSizeList(item, size)) => {
            length == size && same(given, item)
        }
        (DataType::Struct(given), DataType::Struct(fields)) => {
            given.len() == fields.len()
                && given
                    .iter()
                    .zip(fields)
                    .all(|(given, field)| given.name() == field.name() && same(given, field))
        }
        (DataType::Map(given, _), DataType::Map(entries, _)) => {
            match (given.data_type(), entries.data_type()) {
                (DataType::Struct(given), DataType::Struct(entry)) => {
                    given.len() == entry.len()
                        && given
                            .iter()
                            .zip(entry)
                            .all(|(given, field)| same(given, field))
                }
                _ => false,
            }
        }
        (DataType::Dictionary(_, value), _) if !matches!(stored, DataType::Dictionary(..)) => {
            has_the_same_values(value, stored)
        }
        _ => is_taken(source, stored),
    }
}

fn is_text(source: &DataType) -> bool {
    matches!(
        source,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
    )
}

fn is_binary(source: &DataType) -> bool {
    matches!(
        source,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView
    )
}

fn cast(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    // Not the default: that makes nulls of what does not fit.
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    Ok(cast_with_options(array, to, &options)?)
}

pub(super) fn not_stored(source: &DataType, stored: &DataType) -> ArrowError {
    ArrowError::InvalidArgumentError(format!(
        "a column of type {stored} does not take values of type {source}"
    ))
}

/// Consecutive rows of a column, from one batch.
pub(super) struct Piece {
    pub(super) array: ArrayRef,
    /// Only when there are nulls.
    pub(super) nulls: Option<NullBuffer>,
}

/// The rows of a column of an extent.
pub(super) struct Pieces {
    pub(super) stored: DataType,
    pub(super) pieces: Vec<Piece>,
    pub(super) rows: usize,
    nulls: usize,
}

impl Pieces {
    /// The pieces of a column, in types that `as_stored` gives.
    pub(super) fn new(stored: &DataType, arrays: Vec<ArrayRef>) -> Self {
        let piece = |array: ArrayRef| {
            let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
            Piece { array, nulls }
        };
        let pieces: Vec<_> = arrays.into_iter().map(piece).collect();
        let rows = pieces.iter().map(|piece| piece.array.len()).sum();
        let nulls = pieces
            .iter()
            .filter_map(|piece| piece.nulls.as_ref())
            .map(NullBuffer::null_count)
            .sum();
        Self {
            stored: stored.clone(),
            pieces,
            rows,
            nulls,
        }
    }

    /// Bytes of the validity bitmap; none when there are no nulls.
    pub(super) fn validity_bytes(&self) -> usize {
        if self.nulls == 0 {
            0
        } else {
            self.rows.div_ceil(8)
        }
    }

    /// Writes the validity bitmap, if there is one.
    pub(super) fn write_validity(&self, mut writer: RangeWriter<'_>) -> Result<()> {
        if self.nulls > 0 {
            let mut bits = BooleanBufferBuilder::new(self.rows);
            for piece in &self.pieces {
                match &piece.nulls {
                    Some(nulls) => bits.append_buffer(nulls.inner()),
                    None => bits.append_n(piece.array.len(), true),
                }
            }
            writer.write(bits.as_slice())?;
        }
        writer.finish()
    }

    /// The validity bitmap that was written at `offset`.
    pub(super) fn frozen_nulls(
        &self,
        bytes: &Arc<FrozenBytes>,
        offset: usize,
    ) -> Result<Option<NullBuffer>> {
        if self.nulls == 0 {
            return Ok(None);
        }
        let bitmap = BooleanBuffer::new(bytes.buffer(offset, self.validity_bytes())?, 0, self.rows);
        let nulls = NullBuffer::new(bitmap);
        if nulls.null_count() != self.nulls {
            return Err(Error::Internal("a validity bitmap lost nulls".into()));
        }
        Ok(Some(nulls))
    }
}

/// The next multiple of 64: where a section begins, as Arrow recommends.
pub(super) fn aligned(bytes: usize) -> usize {
    bytes.next_multiple_of(64)
}
