//! Reading rows of a block as a view sees them: the reader's side of the protocol.
//!
//! [`Stage::load`] copies data and liveness; only then are chains looked at, and [`Stage::patch`] applies before-images;
//! [`Stage::finish`] follows views into heaps and builds Arrow arrays. Frozen columns need no patching: they are sliced.

use std::sync::Arc;

use arrow::array::{
    ArrayData, ArrayRef, BinaryArray, BinaryBuilder, BinaryViewBuilder, BooleanArray,
    FixedSizeBinaryBuilder, StringArray, UInt32Array, make_array,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::compute::take;
use arrow::datatypes::DataType;

use super::{ColumnInfo, Relation};
use crate::block::cells::{CellCopy, Rows, copy_bits, get_bit, put_bit};
use crate::block::heap::{view_length, view_place};
use crate::block::hot::{HotColumn, HotCopy};
use crate::block::{Block, Column, FrozenPart, QuietRows};
use crate::frozen::Form;
use crate::protocol::{Linked, Standard, View, settle, walk};
use crate::reclaim::Pin;
use crate::undo::{Change, Image, UndoRecord};
use crate::{Error, Result};

enum Cells<'g> {
    Hot(&'g HotColumn, HotCopy),
    Frozen(&'g FrozenPart),
    Default,
}

/// Rows of a block, copied and being patched.
pub(crate) struct Stage<'g> {
    columns: Vec<(Arc<ColumnInfo>, Cells<'g>)>,
    live: Vec<u64>,
    rows: usize,
}

/// Which of the staged rows are wanted.
pub(crate) enum Wanted {
    All,
    Some(Vec<u32>),
}

impl Wanted {
    fn len(&self, staged: usize) -> usize {
        match self {
            Wanted::All => staged,
            Wanted::Some(positions) => positions.len(),
        }
    }
}

impl<'g> Stage<'g> {
    /// Copies data and liveness as they are in place.
    pub(crate) fn load(
        block: &'g Block,
        columns: &[Arc<ColumnInfo>],
        rows: &Rows<'_>,
        pin: &'g Pin<'_>,
    ) -> Self {
        let columns = columns
            .iter()
            .map(|info| {
                let cells = match block.column(info.number, pin) {
                    Some(Column::Hot(hot)) => Cells::Hot(hot, hot.copy(rows)),
                    Some(Column::Frozen(frozen)) => Cells::Frozen(frozen),
                    None => Cells::Default,
                };
                (Arc::clone(info), cells)
            })
            .collect();
        Self {
            columns,
            live: copy_bits(&block.live, rows),
            rows: rows.len(),
        }
    }

    /// Makes the row at a staged position what it was before a record.
    pub(crate) fn patch(&mut self, at: usize, link: Linked<'_, Standard>) {
        let record = UndoRecord::of(link);
        match record.change {
            Change::Insert | Change::Refill => put_bit(&mut self.live, at, false),
            Change::Delete => put_bit(&mut self.live, at, true),
            Change::Update => {
                let image = Image::of(link);
                for (position, part) in record.parts().iter().enumerate() {
                    for (info, cells) in &mut self.columns {
                        if info.number == part.column
                            && let Cells::Hot(_, copy) = cells
                        {
                            copy.set(at, image.value(position, part));
                        }
                    }
                }
            }
        }
    }

    pub(crate) fn is_live(&self, at: usize) -> bool {
        get_bit(&self.live, at)
    }

    /// The rows that are live.
    pub(crate) fn live_rows(&self) -> Wanted {
        let live: usize = self
            .live
            .iter()
            .map(|word| word.count_ones() as usize)
            .sum();
        if live == self.rows {
            return Wanted::All;
        }
        let mut positions = Vec::with_capacity(live);
        for (number, &word) in self.live.iter().enumerate() {
            let mut word = word;
            while word != 0 {
                positions.push(number as u32 * 64 + word.trailing_zeros());
                word &= word - 1;
            }
        }
        Wanted::Some(positions)
    }

    /// Builds a column from the wanted rows.
    pub(crate) fn finish(
        &self,
        column: usize,
        rows: &Rows<'_>,
        wanted: &Wanted,
        form: Form,
        pin: &Pin<'_>,
    ) -> Result<ArrayRef> {
        let (info, cells) = &self.columns[column];
        match cells {
            Cells::Default => info.defaults(wanted.len(self.rows), form),
            Cells::Frozen(frozen) => frozen_rows(frozen, rows, wanted, form),
            Cells::Hot(hot, copy) => hot_rows(info, hot, copy, self.rows, wanted, form, pin),
        }
    }
}

fn frozen_rows(
    frozen: &FrozenPart,
    rows: &Rows<'_>,
    wanted: &Wanted,
    form: Form,
) -> Result<ArrayRef> {
    let offsets: Vec<u32> = match (rows, wanted) {
        (Rows::First(count), Wanted::All) => return frozen.array(*count, form),
        (Rows::First(_), Wanted::Some(positions)) => positions.clone(),
        (Rows::At(offsets), Wanted::All) => offsets.to_vec(),
        (Rows::At(offsets), Wanted::Some(positions)) => positions
            .iter()
            .map(|&position| offsets[position as usize])
            .collect(),
    };
    let Some(&last) = offsets.iter().max() else {
        return frozen.array(0, form);
    };
    let array = frozen.array(last as usize + 1, form)?;
    Ok(take(&array, &UInt32Array::from(offsets), None)?)
}

fn hot_rows(
    info: &ColumnInfo,
    hot: &HotColumn,
    copy: &HotCopy,
    staged: usize,
    wanted: &Wanted,
    form: Form,
    pin: &Pin<'_>,
) -> Result<ArrayRef> {
    let nulls = nulls(&copy.valid, staged, wanted);
    macro_rules! fixed {
        ($cells:expr) => {
            build_fixed(info, pick($cells, wanted), nulls, form)
        };
    }
    match &copy.cells {
        CellCopy::Bits(words) => {
            let bits = match wanted {
                Wanted::All => BooleanBuffer::new(Buffer::from_slice_ref(words), 0, staged),
                Wanted::Some(positions) => BooleanBuffer::collect_bool(positions.len(), |at| {
                    get_bit(words, positions[at] as usize)
                }),
            };
            Ok(Arc::new(BooleanArray::new(bits, nulls)))
        }
        CellCopy::W8(cells) => fixed!(cells),
        CellCopy::W16(cells) => fixed!(cells),
        CellCopy::W32(cells) => fixed!(cells),
        CellCopy::W64(cells) => match (&info.stored, form) {
            (DataType::Decimal64(..), Form::Compute | Form::Consumer) => {
                let wide: Vec<i128> = pick(cells, wanted)
                    .into_iter()
                    .map(|word| i128::from(word as i64))
                    .collect();
                build_fixed(info, wide, nulls, form)
            }
            _ => fixed!(cells),
        },
        CellCopy::W128(cells) => {
            let cells = pick(cells, wanted);
            if hot.heap().is_some() {
                build_variable(info, hot, &cells, nulls, form, pin)
            } else {
                let wide: Vec<u128> = cells
                    .into_iter()
                    .map(|[low, high]| u128::from(low) | (u128::from(high) << 64))
                    .collect();
                build_fixed(info, wide, nulls, form)
            }
        }
    }
}

fn pick<T: Copy>(cells: &[T], wanted: &Wanted) -> Vec<T> {
    match wanted {
        Wanted::All => cells.to_vec(),
        Wanted::Some(positions) => positions.iter().map(|&at| cells[at as usize]).collect(),
    }
}

fn nulls(valid: &[u64], staged: usize, wanted: &Wanted) -> Option<NullBuffer> {
    let bits = match wanted {
        Wanted::All => BooleanBuffer::new(Buffer::from_slice_ref(valid), 0, staged),
        Wanted::Some(positions) => BooleanBuffer::collect_bool(positions.len(), |at| {
            get_bit(valid, positions[at] as usize)
        }),
    };
    Some(NullBuffer::new(bits)).filter(|nulls| nulls.null_count() > 0)
}

fn build_fixed<T: arrow::datatypes::ArrowNativeType>(
    info: &ColumnInfo,
    values: Vec<T>,
    nulls: Option<NullBuffer>,
    form: Form,
) -> Result<ArrayRef> {
    let data = ArrayData::builder(form.data_type(&info.stored))
        .len(values.len())
        .add_buffer(Buffer::from_vec(values))
        .nulls(nulls)
        .build()?;
    Ok(make_array(data))
}

/// The bytes of a value; of a NULL, none.
fn bytes<'a>(
    hot: &HotColumn,
    cell: &'a [u64; 2],
    inline: &'a mut [u8; 16],
    pin: &'a Pin<'_>,
) -> Result<&'a [u8]> {
    if view_place(*cell).is_none() {
        inline[..8].copy_from_slice(&cell[0].to_le_bytes());
        inline[8..].copy_from_slice(&cell[1].to_le_bytes());
        return Ok(&inline[4..4 + view_length(*cell)]);
    }
    match hot.heap() {
        Some(heap) => heap.bytes(*cell, pin),
        None => Err(Error::Internal("a view without a heap".into())),
    }
}

fn build_variable(
    info: &ColumnInfo,
    hot: &HotColumn,
    cells: &[[u64; 2]],
    nulls: Option<NullBuffer>,
    form: Form,
    pin: &Pin<'_>,
) -> Result<ArrayRef> {
    let is_null = |row: usize| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
    let mut inline = [0; 16];
    macro_rules! append_all {
        ($builder:expr) => {
            for (row, cell) in cells.iter().enumerate() {
                if is_null(row) {
                    $builder.append_null();
                } else {
                    $builder.append_value(bytes(hot, cell, &mut inline, pin)?);
                }
            }
        };
    }
    Ok(match form.data_type(&info.stored) {
        DataType::Utf8View => {
            let mut builder = BinaryViewBuilder::with_capacity(cells.len());
            append_all!(builder);
            // SAFETY: hot columns of type Utf8 are filled from string arrays only.
            Arc::new(unsafe { builder.finish().to_string_view_unchecked() })
        }
        DataType::BinaryView => {
            let mut builder = BinaryViewBuilder::with_capacity(cells.len());
            append_all!(builder);
            Arc::new(builder.finish())
        }
        DataType::Utf8 | DataType::Binary => {
            let total: usize = (0..cells.len())
                .filter(|&row| !is_null(row))
                .map(|row| view_length(cells[row]))
                .sum();
            if i32::try_from(total).is_err() {
                return Err(Error::Limit(
                    "more than 2 GiB of strings in one block".into(),
                ));
            }
            let mut builder = BinaryBuilder::with_capacity(cells.len(), total);
            append_all!(builder);
            let array: BinaryArray = builder.finish();
            if info.stored == DataType::Binary {
                return Ok(Arc::new(array));
            }
            let (offsets, values, nulls) = array.into_parts();
            // SAFETY: as above.
            Arc::new(unsafe { StringArray::new_unchecked(offsets, values, nulls) })
        }
        DataType::FixedSizeBinary(width) => {
            let mut builder = FixedSizeBinaryBuilder::with_capacity(cells.len(), width);
            for (row, cell) in cells.iter().enumerate() {
                if is_null(row) {
                    builder.append_null();
                } else {
                    builder.append_value(bytes(hot, cell, &mut inline, pin)?)?;
                }
            }
            Arc::new(builder.finish())
        }
        nested => {
            let Some(decoder) = &info.decoder else {
                return Err(Error::Internal(format!("no decoder for {nested}")));
            };
            decode(info, decoder, hot, cells, is_null, pin)?
        }
    })
}

/// Decodes row-encoded nested values.
fn decode(
    info: &ColumnInfo,
    decoder: &arrow_row::RowConverter,
    hot: &HotColumn,
    cells: &[[u64; 2]],
    is_null: impl Fn(usize) -> bool,
    pin: &Pin<'_>,
) -> Result<ArrayRef> {
    let null = arrow::array::new_null_array(&info.stored, 1);
    let null = decoder.convert_columns(&[null])?;
    let parser = decoder.parser();
    let mut encoded = Vec::with_capacity(cells.len());
    for (row, cell) in cells.iter().enumerate() {
        let mut inline = [0; 16];
        encoded.push(if is_null(row) {
            null.row(0).data().to_vec()
        } else {
            bytes(hot, cell, &mut inline, pin)?.to_vec()
        });
    }
    let rows = encoded.iter().map(|bytes| parser.parse(bytes));
    let mut columns = decoder.convert_rows(rows)?;
    columns
        .pop()
        .ok_or_else(|| Error::Internal("a row without its column".into()))
}

/// The values of a hot column in the rows of a block that are live (null in the others), in a type that `as_stored` takes; `None` if `is_freezing` says
/// that a writer came.
pub(crate) fn gathered(
    info: &ColumnInfo,
    hot: &HotColumn,
    quiet: &QuietRows,
    is_freezing: impl FnOnce() -> bool,
    pin: &Pin<'_>,
) -> Result<Option<ArrayRef>> {
    let mut copy = hot.copy(&Rows::First(quiet.rows));
    // Whatever a writer may have stored while we copied, we see that he came (as a reader sees his record): then views must not be followed.
    let _settled = settle::<Standard>();
    if !is_freezing() {
        return Ok(None);
    }
    for (valid, live) in copy.valid.iter_mut().zip(&quiet.live) {
        *valid &= live;
    }
    hot_rows(
        info,
        hot,
        &copy,
        quiet.rows,
        &Wanted::All,
        Form::Native,
        pin,
    )
    .map(Some)
}

/// What a view sees of some rows of a block.
pub(crate) struct Seen {
    /// The columns, of the visible rows.
    pub(crate) columns: Vec<ArrayRef>,
    /// Offsets in the block of the visible rows.
    pub(crate) offsets: Vec<u32>,
}

impl Relation {
    /// Reads rows of a block that was born for the view.
    pub(crate) fn read_block(
        &self,
        block: &Block,
        columns: &[Arc<ColumnInfo>],
        rows: &Rows<'_>,
        view: &View<'_, Standard>,
        form: Form,
        pin: &Pin<'_>,
    ) -> Result<Seen> {
        let stage = staged(block, columns, rows, view, pin);
        let wanted = stage.live_rows();
        let columns = (0..columns.len())
            .map(|column| stage.finish(column, rows, &wanted, form, pin))
            .collect::<Result<Vec<_>>>()?;
        let offsets = match wanted {
            Wanted::All => (0..rows.len()).map(|at| rows.offset(at) as u32).collect(),
            Wanted::Some(positions) => positions
                .into_iter()
                .map(|at| rows.offset(at as usize) as u32)
                .collect(),
        };
        Ok(Seen { columns, offsets })
    }
}

/// Copies rows and patches them to what the view sees.
pub(crate) fn staged<'g>(
    block: &'g Block,
    columns: &[Arc<ColumnInfo>],
    rows: &Rows<'_>,
    view: &View<'_, Standard>,
    pin: &'g Pin<'_>,
) -> Stage<'g> {
    let mut stage = Stage::load(block, columns, rows, pin);
    let settled = settle::<Standard>();
    if let Some(heads) = block.versions.heads(&settled, pin) {
        match rows {
            Rows::First(count) => {
                for (at, head) in heads.iter().take(*count).enumerate() {
                    walk(head.newest(&settled, pin), view, pin, |link| {
                        stage.patch(at, link);
                    });
                }
            }
            Rows::At(offsets) => {
                for (at, &row) in offsets.iter().enumerate() {
                    let newest = heads.head(row as usize).newest(&settled, pin);
                    walk(newest, view, pin, |link| stage.patch(at, link));
                }
            }
        }
    }
    stage
}
