//! Copies nested columns: lists, structs, maps.
//!
//! The pieces are joined by Arrow, then every buffer of the joined array, children included, is copied into one
//! range. Only nulls are counted: a nested column has no bounds and no sketch.

use std::sync::Arc;

use arrow::array::{Array, ArrayData, ArrayDataBuilder, MutableArrayData, make_array};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::error::ArrowError;

use super::build::Target;
use super::column::{FrozenColumn, Statistics};
use super::source::{Pieces, aligned};
use crate::memory::{ArenaRange, FrozenBytes};
use crate::{Error, Result};

/// Copies a nested column.
pub(super) fn copy_nested(target: &Target<'_>, pieces: &Pieces) -> Result<FrozenColumn> {
    let joined = join(pieces)?;
    let range = target.allocate(total_bytes(&joined))?;
    let mut end = 0;
    write(&joined, &range, &mut end)?;
    let frozen = range.freeze();
    let mut end = 0;
    let array = make_array(relocate(&joined, &frozen, &mut end)?);
    Ok(target.column(array, frozen.bytes(), Statistics::default()))
}

/// One array of all pieces, with tight buffers.
fn join(pieces: &Pieces) -> Result<ArrayData> {
    let arrays: Vec<ArrayData> = pieces
        .pieces
        .iter()
        .map(|piece| piece.array.to_data())
        .collect();
    if arrays.is_empty() {
        return Ok(ArrayData::new_empty(&pieces.stored));
    }
    let mut joined = MutableArrayData::new(arrays.iter().collect(), false, pieces.rows);
    for (index, array) in arrays.iter().enumerate() {
        joined
            .try_extend(index, 0, array.len())
            .map_err(|error| match error {
                ArrowError::OffsetOverflowError(bytes) => {
                    Error::Limit(format!("{bytes} elements of one column in one extent"))
                }
                other => other.into(),
            })?;
    }
    // The pieces have equal types, but the first one's names the fields.
    Ok(joined
        .into_builder()
        .data_type(pieces.stored.clone())
        .build()?)
}

fn total_bytes(data: &ArrayData) -> usize {
    let own: usize = data
        .buffers()
        .iter()
        .map(|buffer| aligned(buffer.len()))
        .sum();
    let validity = data
        .nulls()
        .map_or(0, |nulls| aligned(nulls.len().div_ceil(8)));
    own + validity + data.child_data().iter().map(total_bytes).sum::<usize>()
}

/// Writes the buffers of `data`, in the order in which `relocate` finds them.
fn write(data: &ArrayData, range: &ArenaRange, end: &mut usize) -> Result<()> {
    for buffer in data.buffers() {
        range.write_at(*end, buffer)?;
        *end += aligned(buffer.len());
    }
    if let Some(nulls) = data.nulls() {
        // At bit 0, whatever its offset was.
        let bits = nulls.inner().sliced();
        let bytes = nulls.len().div_ceil(8);
        range.write_at(*end, &bits.as_slice()[..bytes])?;
        *end += aligned(bytes);
    }
    data.child_data()
        .iter()
        .try_for_each(|child| write(child, range, end))
}

/// The same array over the frozen copies of its buffers.
fn relocate(data: &ArrayData, frozen: &Arc<FrozenBytes>, end: &mut usize) -> Result<ArrayData> {
    let mut next = |bytes: usize| -> Result<Buffer> {
        let buffer = frozen.buffer(*end, bytes)?;
        *end += aligned(bytes);
        Ok(buffer)
    };
    let buffers = data
        .buffers()
        .iter()
        .map(|buffer| next(buffer.len()))
        .collect::<Result<Vec<_>>>()?;
    let nulls = match data.nulls() {
        Some(nulls) => {
            let bits = next(nulls.len().div_ceil(8))?;
            Some(NullBuffer::new(BooleanBuffer::new(bits, 0, nulls.len())))
        }
        None => None,
    };
    let children = data
        .child_data()
        .iter()
        .map(|child| relocate(child, frozen, end))
        .collect::<Result<Vec<_>>>()?;
    let builder = ArrayDataBuilder::new(data.data_type().clone())
        .len(data.len())
        .offset(data.offset())
        .buffers(buffers)
        .nulls(nulls)
        .child_data(children);
    // SAFETY: type, length, offset and the bytes of all buffers are those of valid array data.
    Ok(unsafe { builder.build_unchecked() })
}
