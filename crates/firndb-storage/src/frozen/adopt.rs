//! Columns whose memory is the arena's already: what was exported, or read by a query, comes back and is shown again without a copy.
//!
//! Foreign memory is always copied, since whoever owns it may write to it. Frozen memory never changes, whoever holds it. Invariants:
//! - An address proves nothing: a buffer may have been made up from an address whose range has been freed since. The arena is asked who owns the range *now*
//!   ([`Arena::shown`](crate::memory::Arena::shown)), and the column holds that owner, not what came with the buffer.
//! - Nor does a type: buffers of several columns may have been put together. Offsets, views and UTF-8 are checked; then statistics are taken as from a copy.
//! - Little does not keep much: a column is adopted only if it is at least half of the ranges that it keeps.
//!
//! A column is adopted whole, one array for all rows of the extent. So a table that is exported with `native=True` and appended again is adopted; filtered rows, or types that have to
//! be converted, are copied.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::types::IntervalMonthDayNano;
use arrow::array::{Array, ArrayData, AsArray, make_array};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::datatypes::DataType;

use super::build::Target;
use super::bytes_statistics::BytesStatistics;
use super::column::{FrozenColumn, Statistics};
use super::fixed::FixedStatistics;
use super::source::Pieces;
use super::strings::Strings;
use super::value::Fixed;
use crate::Result;
use crate::memory::FrozenBytes;

/// The column over the memory of its only piece; `None` if that is not the arena's, or has to be converted.
pub(super) fn adopt(
    target: &Target<'_>,
    pieces: &Pieces,
    strings: Strings,
) -> Result<Option<FrozenColumn>> {
    let [piece] = pieces.pieces.as_slice() else {
        return Ok(None);
    };
    let stored = &pieces.stored;
    let given = piece.array.data_type();
    let as_it_is = match (stored, given) {
        (DataType::Utf8, DataType::Utf8View) | (DataType::Binary, DataType::BinaryView) => {
            matches!(strings, Strings::Auto | Strings::View)
        }
        (DataType::Utf8 | DataType::Binary, _) => {
            given == stored && matches!(strings, Strings::Auto | Strings::Offsets)
        }
        _ => given == stored && given.is_primitive(),
    };
    if !as_it_is || piece.array.is_empty() {
        return Ok(None);
    }
    let Some((data, bytes)) = held(target, &piece.array.to_data()) else {
        return Ok(None);
    };
    if !given.is_primitive() && data.validate_full().is_err() {
        return Ok(None);
    }
    let array = make_array(data.clone());
    macro_rules! fixed {
        ($native:ty) => {
            fixed_statistics::<$native>(stored, &data)?
        };
    }
    let statistics = match stored {
        DataType::Int8 => fixed!(i8),
        DataType::Int16 => fixed!(i16),
        DataType::Int32 | DataType::Date32 => fixed!(i32),
        DataType::Int64
        | DataType::Time64(_)
        | DataType::Timestamp(..)
        | DataType::Decimal64(..) => fixed!(i64),
        DataType::UInt8 => fixed!(u8),
        DataType::UInt16 => fixed!(u16),
        DataType::UInt32 => fixed!(u32),
        DataType::UInt64 => fixed!(u64),
        DataType::Float32 => fixed!(f32),
        DataType::Float64 => fixed!(f64),
        DataType::Decimal128(..) => fixed!(i128),
        DataType::Interval(_) => fixed!(IntervalMonthDayNano),
        DataType::Utf8 | DataType::Binary => {
            let mut statistics = BytesStatistics::new(stored);
            macro_rules! add_all {
                ($values:expr, $bytes:expr) => {
                    $values
                        .iter()
                        .for_each(|value| statistics.add(value.map($bytes)))
                };
            }
            match given {
                DataType::Utf8 => add_all!(array.as_string::<i32>(), str::as_bytes),
                DataType::Binary => add_all!(array.as_binary::<i32>(), |bytes| bytes),
                DataType::Utf8View => add_all!(array.as_string_view(), str::as_bytes),
                _ => add_all!(array.as_binary_view(), |bytes| bytes),
            }
            statistics.finish(&array)?
        }
        _ => return Ok(None),
    };
    // What the column counts as its own references is what is left.
    drop(data);
    let column = target.column_of(stored.clone(), array, bytes, statistics);
    Ok(Some(column))
}

/// The array over the ranges that its memory lies in, held by their owners, and its bytes.
fn held(target: &Target<'_>, data: &ArrayData) -> Option<(ArrayData, usize)> {
    let mut owners: HashMap<*const FrozenBytes, usize> = HashMap::new();
    let mut hold = |buffer: &Buffer| -> Option<Buffer> {
        let (owner, offset) = target.place().0.shown(buffer)?;
        owners.insert(Arc::as_ptr(&owner), owner.bytes());
        owner.buffer(offset, buffer.len()).ok()
    };
    let buffers = data.buffers().iter().map(&mut hold);
    let buffers = buffers.collect::<Option<Vec<_>>>()?;
    let nulls = match data.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => None,
        Some(nulls) => {
            let bits = BooleanBuffer::new(hold(nulls.buffer())?, nulls.offset(), nulls.len());
            Some(NullBuffer::new(bits))
        }
    };
    let mut bytes = data.get_slice_memory_size().ok()?;
    if matches!(data.data_type(), DataType::Utf8View | DataType::BinaryView) {
        // The length is the first word of a view.
        let views = &data.buffer::<u128>(0)[..data.len()];
        bytes += views
            .iter()
            .map(|&view| view as u32 as usize)
            .sum::<usize>();
    }
    if 2 * bytes < owners.values().sum() {
        return None;
    }
    let builder = data.clone().into_builder().buffers(buffers).nulls(nulls);
    builder.build().ok().map(|data| (data, bytes))
}

fn fixed_statistics<N: Fixed>(stored: &DataType, data: &ArrayData) -> Result<Statistics> {
    let values: &[N] = &data.buffer::<N>(0)[..data.len()];
    let mut statistics = FixedStatistics::<N>::new(stored);
    let mut at = 0;
    while at < values.len() {
        let count = statistics.room().min(values.len() - at);
        let nulls = data.nulls().map(|nulls| nulls.slice(at, count));
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        statistics.add(&values[at..at + count], nulls.as_ref());
        at += count;
    }
    statistics.finish()
}
