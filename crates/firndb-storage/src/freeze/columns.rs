//! Building one column of an extent from the hot columns of its blocks.
//!
//! Values of fixed width, strings and bytes go from the cells to their place in the extent in one pass; anything else by way of arrays. Of a block that a writer takes back,
//! whatever is copied is not published: its place in the extent is filled with zeros and goes unused.
//!
//! Strings are read twice: first the lengths of all blocks' values, which tell how much room they need, then, a run at a time, the views and their bytes. Between the
//! two no pin is held. Views are followed only after the column was found freezing when they had been loaded, under the same pin: then no writer had come
//! since the lengths were counted, and what the views lead to lives as long as that pin.

use arrow::array::{ArrayRef, new_null_array};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::datatypes::DataType;

use super::gather::Freezing;
use crate::block::QuietRows;
use crate::block::cells::Physical;
use crate::block::heap::{HeapReader, view_length, view_place};
use crate::block::hot::HotColumn;
use crate::frozen::FrozenColumn;
use crate::frozen::build::{Cells, Peaks, Texts, build_cells, build_column, build_texts};
use crate::memory::ask;
use crate::relation::{ColumnInfo, Relation};
use crate::{Error, Result};

/// The column at a position of the blocks' hot columns.
pub(super) fn build(
    relation: &Relation,
    blocks: &mut [Freezing],
    position: usize,
    info: &ColumnInfo,
) -> Result<FrozenColumn> {
    let column = match (info.physical, &info.stored) {
        (Physical::Fixed(_), _) => build_fixed(relation, blocks, position, info)?,
        (Physical::View, DataType::Utf8 | DataType::Binary) => {
            Some(build_bytes(relation, blocks, position, info)?)
        }
        (Physical::Bits | Physical::View, _) => None,
    };
    match column {
        Some(column) => Ok(column),
        None => build_arrays(relation, blocks, position, info),
    }
}

fn build_fixed(
    relation: &Relation,
    blocks: &mut [Freezing],
    position: usize,
    info: &ColumnInfo,
) -> Result<Option<FrozenColumn>> {
    let mut pieces = Vec::with_capacity(blocks.len());
    for block in blocks.iter_mut() {
        let rows = &block.rows;
        let nulls = block.with_column(relation, position, |hot, _| nulls(hot, rows));
        block.preempted |= nulls.is_none();
        pieces.push((block.rows.rows, nulls.flatten()));
    }
    let mut cells = BlockCells {
        relation,
        blocks,
        position,
    };
    build_cells(&relation.resources.arena, &info.stored, &pieces, &mut cells)
}

/// The nulls of a hot column in the rows of a block, of which those that are not live are some.
fn nulls(hot: &HotColumn, quiet: &QuietRows) -> Option<NullBuffer> {
    let mut valid = hot.copy_validity(quiet.rows);
    for (valid, live) in valid.iter_mut().zip(&quiet.live) {
        *valid &= live;
    }
    let bits = BooleanBuffer::new(Buffer::from_vec(valid), 0, quiet.rows);
    Some(NullBuffer::new(bits)).filter(|nulls| nulls.null_count() > 0)
}

/// The cells of one column.
struct BlockCells<'a> {
    relation: &'a Relation,
    blocks: &'a mut [Freezing],
    position: usize,
}

impl Cells for BlockCells<'_> {
    fn load(&mut self, piece: usize, from: usize, into: &mut [u8]) {
        let block = &mut self.blocks[piece];
        let loaded = !block.preempted
            && block
                .with_column(self.relation, self.position, |hot, _| {
                    hot.load_bytes(from, into);
                })
                .is_some();
        if !loaded {
            block.preempted = true;
            into.fill(0);
        }
    }
}

fn build_bytes(
    relation: &Relation,
    blocks: &mut [Freezing],
    position: usize,
    info: &ColumnInfo,
) -> Result<FrozenColumn> {
    let mut pieces = Vec::with_capacity(blocks.len());
    let mut lengths = Vec::with_capacity(blocks.len());
    for block in blocks.iter_mut() {
        let rows = &block.rows;
        let loaded = (!block.preempted)
            .then(|| {
                let load = |hot: &HotColumn| (nulls(hot, rows), hot.view_lengths(rows.rows));
                block.load_column(relation, position, load, |loaded, _, _| loaded)
            })
            .flatten()
            .filter(|(_, lengths)| lengths.len() == rows.rows);
        block.preempted |= loaded.is_none();
        let (nulls, mut of_rows) = loaded.unwrap_or_else(|| (None, vec![0; rows.rows]));
        if let Some(nulls) = &nulls {
            let is_null = |row: &usize| nulls.is_null(*row);
            (0..of_rows.len())
                .filter(is_null)
                .for_each(|row| of_rows[row] = 0);
        }
        lengths.push(of_rows);
        pieces.push((block.rows.rows, nulls));
    }
    let mut texts = BlockTexts {
        relation,
        blocks,
        position,
        lengths,
        views: Vec::new(),
    };
    // SAFETY: hot columns of type Utf8 are filled from string arrays only, and what is copied of one that is freezing was not being written; zeros in the place of
    // one that was are UTF-8 too.
    unsafe {
        build_texts(
            &relation.resources.arena,
            &info.stored,
            relation.strings(info.number),
            &pieces,
            &mut texts,
        )
    }
}

/// Views that are loaded at a time: the nearest cache holds them.
const VIEWS: usize = 1024;

/// The strings of one column.
struct BlockTexts<'a> {
    relation: &'a Relation,
    blocks: &'a mut [Freezing],
    position: usize,
    /// Of each value of each block, 0 for null.
    lengths: Vec<Vec<u32>>,
    /// Those that are loaded at a time.
    views: Vec<[u64; 2]>,
}

impl Texts for BlockTexts<'_> {
    fn lengths(&self, piece: usize) -> &[u32] {
        &self.lengths[piece]
    }

    fn load(
        &mut self,
        piece: usize,
        rows: std::ops::Range<usize>,
        nulls: Option<&NullBuffer>,
        into: &mut [u8],
        peaks: &mut Peaks,
    ) {
        let mut rest = into;
        let mut from = rows.start;
        while from < rows.end {
            let to = rows.end.min(from + VIEWS);
            let lengths = &self.lengths[piece][from..to];
            let bytes = lengths.iter().map(|&length| length as usize).sum();
            let (into, others) = rest.split_at_mut(bytes);
            rest = others;
            let block = &mut self.blocks[piece];
            let copied = (!block.preempted)
                .then(|| {
                    let mut views = std::mem::take(&mut self.views);
                    views.resize(to - from, [0; 2]);
                    let load = |hot: &HotColumn| {
                        hot.load_views(from, &mut views);
                        views
                    };
                    block.load_column(self.relation, self.position, load, |views, hot, pin| {
                        let copied = hot.heap().is_some_and(|heap| {
                            copy_values(&mut heap.reader(pin), &views, lengths, into).is_ok()
                        });
                        peaks.add(from - rows.start, views.iter().map(|view| view[0]), nulls);
                        (copied, views)
                    })
                })
                .flatten();
            let copied = copied.is_some_and(|(copied, views)| {
                self.views = views;
                copied
            });
            if !copied {
                // Nobody will see these bytes, nor what is told of them.
                block.preempted = true;
                into.fill(0);
            }
            from = to;
        }
    }
}

/// How far ahead of a value memory is asked for.
const AHEAD: usize = 1 << 10;

/// Copies values one behind the other; `into` has their size.
fn copy_values(
    reader: &mut HeapReader<'_, '_>,
    views: &[[u64; 2]],
    lengths: &[u32],
    into: &mut [u8],
) -> Result<()> {
    let mut at = 0;
    for (&view, &length) in views.iter().zip(lengths) {
        let length = length as usize;
        if length == 0 {
            continue;
        }
        // The column was freezing all the time, so this is what was counted.
        if view_length(view) != length || at + length > into.len() {
            return Err(Error::Internal(
                "a value that changed while it froze".into(),
            ));
        }
        if view_place(view).is_some() {
            let (from, into) = (reader.bytes(view)?, &mut into[at..at + length]);
            // Most values lie in the order of the rows, beyond every cache.
            ask(from.as_ptr().wrapping_add(AHEAD));
            ask(into.as_ptr().wrapping_add(AHEAD));
            copy_long(from, into);
        } else {
            // Behind the length; what is too much is overwritten by the next values.
            let inline = u128::from(view[0] >> 32) | u128::from(view[1]) << 32;
            let inline = inline.to_le_bytes();
            match into[at..].first_chunk_mut::<16>() {
                Some(place) => *place = inline,
                None => into[at..at + length].copy_from_slice(&inline[..length]),
            }
        }
        at += length;
    }
    Ok(())
}

/// Copies more than 12 bytes. Sizes that most strings have are copied by moves that overlap, without a call, and without a
/// branch on the size, which nobody can foresee.
#[inline(always)]
fn copy_long(from: &[u8], into: &mut [u8]) {
    const WIDTH: usize = 16;
    let length = from.len();
    if (WIDTH..=4 * WIDTH).contains(&length) && into.len() == length {
        let last = length - WIDTH;
        for at in [0, WIDTH.min(last), last.saturating_sub(WIDTH), last] {
            into[at..at + WIDTH].copy_from_slice(&from[at..at + WIDTH]);
        }
        return;
    }
    into.copy_from_slice(from);
}

/// A column of any other type: by way of arrays.
fn build_arrays(
    relation: &Relation,
    blocks: &mut [Freezing],
    position: usize,
    info: &ColumnInfo,
) -> Result<FrozenColumn> {
    let mut arrays: Vec<ArrayRef> = Vec::with_capacity(blocks.len());
    for block in blocks.iter_mut() {
        let array = if block.preempted {
            None
        } else {
            block.array(relation, position)?
        };
        arrays.push(match array {
            Some(array) => array,
            None => {
                block.preempted = true;
                new_null_array(&info.stored, block.rows.rows)
            }
        });
    }
    build_column(&relation.resources.arena, &info.stored, arrays)
}

#[cfg(test)]
mod tests {
    use super::copy_long;

    #[test]
    fn values_of_every_length_are_copied_whole() {
        let from: Vec<u8> = (0..200).collect();
        for length in 13..=200 {
            let mut into = vec![255; length];
            copy_long(&from[..length], &mut into);
            assert_eq!(into, from[..length]);
        }
    }
}
