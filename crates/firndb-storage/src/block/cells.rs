//! Cells that many threads read and change in place: relaxed atomics, laid out as Arrow lays out its buffers.

use std::alloc::{self, Layout};
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

use arrow::datatypes::{DataType, IntervalUnit};

use crate::memory::stream;
use crate::{Error, Result};

/// How a column's values lie in hot memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Physical {
    /// Booleans: words of bits.
    Bits,
    /// Fixed width, in bytes: 1, 2, 4, 8 or 16.
    Fixed(usize),
    /// 16-byte views into the column's heap: strings, binaries of any kind, row-encoded nested values.
    View,
}

impl Physical {
    /// The physical type of a stored type.
    pub(crate) fn of(data_type: &DataType) -> Result<Self> {
        use DataType as D;
        Ok(match data_type {
            D::Boolean => Physical::Bits,
            D::Int8 | D::UInt8 => Physical::Fixed(1),
            D::Int16 | D::UInt16 | D::Float16 => Physical::Fixed(2),
            D::Int32
            | D::UInt32
            | D::Float32
            | D::Date32
            | D::Time32(_)
            | D::Decimal32(..)
            | D::Interval(IntervalUnit::YearMonth) => Physical::Fixed(4),
            D::Int64
            | D::UInt64
            | D::Float64
            | D::Date64
            | D::Time64(_)
            | D::Timestamp(..)
            | D::Duration(_)
            | D::Decimal64(..)
            | D::Interval(IntervalUnit::DayTime) => Physical::Fixed(8),
            D::Decimal128(..) | D::Interval(IntervalUnit::MonthDayNano) => Physical::Fixed(16),
            D::Utf8
            | D::Binary
            | D::FixedSizeBinary(_)
            | D::List(_)
            | D::LargeList(_)
            | D::FixedSizeList(..)
            | D::Struct(_)
            | D::Map(..) => Physical::View,
            other => {
                return Err(Error::Limit(format!(
                    "a column of type {other} cannot be stored"
                )));
            }
        })
    }

    /// Bits a row, validity included.
    pub(crate) fn bits(self) -> usize {
        match self {
            Physical::Bits => 2,
            Physical::Fixed(width) => 8 * width + 1,
            Physical::View => 8 * 16 + 1,
        }
    }

    /// 64-bit words of one value in an undo record.
    pub(crate) fn words(self) -> usize {
        match self {
            Physical::Fixed(16) | Physical::View => 2,
            _ => 1,
        }
    }
}

/// A value of any physical type. The second word is used by 16-byte values only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Value {
    /// Whether it is not NULL.
    pub(crate) valid: bool,
    /// The bits; of a NULL, anything.
    pub(crate) words: [u64; 2],
}

impl Value {
    pub(crate) const NULL: Value = Value {
        valid: false,
        words: [0; 2],
    };
}

/// Atomics for which memory of zeros is a value.
///
/// # Safety
/// All bits zero is a valid value, and dropping one does nothing.
pub(crate) unsafe trait Zero {}
// SAFETY: an atomic integer of zero.
unsafe impl Zero for AtomicU8 {}
// SAFETY: as above.
unsafe impl Zero for AtomicU16 {}
// SAFETY: as above.
unsafe impl Zero for AtomicU32 {}
// SAFETY: as above.
unsafe impl Zero for AtomicU64 {}
// SAFETY: an array of two of them.
unsafe impl Zero for [AtomicU64; 2] {}

/// Zeros, which the operating system may give lazily.
pub(crate) fn zeros<T: Zero>(count: usize) -> Result<Box<[T]>> {
    let refused = |_| Error::Limit(format!("{count} values in a block"));
    let layout = Layout::array::<T>(count).map_err(refused)?;
    if layout.size() == 0 {
        return Ok(Box::new([]));
    }
    // SAFETY: the layout has a size.
    let memory = unsafe { alloc::alloc_zeroed(layout) }.cast::<T>();
    if memory.is_null() {
        return Err(Error::System(format!(
            "the operating system refused {} bytes of memory",
            layout.size()
        )));
    }
    // SAFETY: allocated with the layout of `[T; count]`; zeros are values of `T`.
    Ok(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(memory, count)) })
}

/// Bits that change only by read-modify-write operations (see the protocol).
pub(crate) struct Bits(Box<[AtomicU64]>);

impl Bits {
    /// All zero.
    pub(crate) fn zeros(bits: usize) -> Result<Self> {
        Ok(Self(zeros(bits.div_ceil(64))?))
    }

    /// The first `bits` set.
    pub(crate) fn ones(bits: usize) -> Result<Self> {
        let new = Self::zeros(bits)?;
        new.set_range(0, bits);
        Ok(new)
    }

    #[inline]
    pub(crate) fn get(&self, at: usize) -> bool {
        self.0[at / 64].load(Relaxed) >> (at % 64) & 1 != 0
    }

    #[inline]
    pub(crate) fn put(&self, at: usize, bit: bool) {
        let word = &self.0[at / 64];
        let mask = 1 << (at % 64);
        if bit {
            word.fetch_or(mask, Relaxed);
        } else {
            word.fetch_and(!mask, Relaxed);
        }
    }

    /// Sets `count` bits from `from` on.
    pub(crate) fn set_range(&self, from: usize, count: usize) {
        let mut at = from;
        let end = from + count;
        while at < end {
            let taken = (64 - at % 64).min(end - at);
            let mask = (u64::MAX >> (64 - taken)) << (at % 64);
            self.0[at / 64].fetch_or(mask, Relaxed);
            at += taken;
        }
    }

    /// Copies the first `bits`; those beyond are zero.
    pub(crate) fn copy(&self, bits: usize) -> Vec<u64> {
        let mut words: Vec<u64> = self.0[..bits.div_ceil(64)]
            .iter()
            .map(|word| word.load(Relaxed))
            .collect();
        if let Some(last) = words.last_mut()
            && !bits.is_multiple_of(64)
        {
            *last &= u64::MAX >> (64 - bits % 64);
        }
        words
    }
}

/// The values of a hot column.
pub(crate) enum Cells {
    Bits(Bits),
    W8(Box<[AtomicU8]>),
    W16(Box<[AtomicU16]>),
    W32(Box<[AtomicU32]>),
    W64(Box<[AtomicU64]>),
    W128(Box<[[AtomicU64; 2]]>),
}

/// Loads cells into as many places.
fn load_each<C, V>(cells: &[C], mut into: &mut [V], load: impl Fn(&C) -> V) {
    for run in stream(cells) {
        let (places, rest) = into.split_at_mut(run.len());
        into = rest;
        for (place, cell) in places.iter_mut().zip(run) {
            *place = load(cell);
        }
    }
}

impl Cells {
    pub(crate) fn zeros(physical: Physical, rows: usize) -> Result<Self> {
        Ok(match physical {
            Physical::Bits => Cells::Bits(Bits::zeros(rows)?),
            Physical::Fixed(1) => Cells::W8(zeros(rows)?),
            Physical::Fixed(2) => Cells::W16(zeros(rows)?),
            Physical::Fixed(4) => Cells::W32(zeros(rows)?),
            Physical::Fixed(8) => Cells::W64(zeros(rows)?),
            Physical::Fixed(_) | Physical::View => Cells::W128(zeros(rows)?),
        })
    }

    #[inline]
    pub(crate) fn load(&self, row: usize) -> [u64; 2] {
        match self {
            Cells::Bits(bits) => [u64::from(bits.get(row)), 0],
            Cells::W8(cells) => [u64::from(cells[row].load(Relaxed)), 0],
            Cells::W16(cells) => [u64::from(cells[row].load(Relaxed)), 0],
            Cells::W32(cells) => [u64::from(cells[row].load(Relaxed)), 0],
            Cells::W64(cells) => [cells[row].load(Relaxed), 0],
            Cells::W128(cells) => [cells[row][0].load(Relaxed), cells[row][1].load(Relaxed)],
        }
    }

    #[inline]
    pub(crate) fn store(&self, row: usize, words: [u64; 2]) {
        match self {
            Cells::Bits(bits) => bits.put(row, words[0] & 1 != 0),
            Cells::W8(cells) => cells[row].store(words[0] as u8, Relaxed),
            Cells::W16(cells) => cells[row].store(words[0] as u16, Relaxed),
            Cells::W32(cells) => cells[row].store(words[0] as u32, Relaxed),
            Cells::W64(cells) => cells[row].store(words[0], Relaxed),
            Cells::W128(cells) => {
                cells[row][0].store(words[0], Relaxed);
                cells[row][1].store(words[1], Relaxed);
            }
        }
    }

    /// Loads the values of rows from `row` on, of fixed width, in memory order.
    pub(crate) fn load_bytes(&self, row: usize, into: &mut [u8]) {
        macro_rules! load {
            ($cells:expr, $width:literal, $load:expr) => {{
                let (into, _) = into.as_chunks_mut::<$width>();
                let cells = &$cells[row..row + into.len()];
                load_each(cells, into, |cell| $load(cell).to_ne_bytes());
            }};
        }
        match self {
            Cells::Bits(_) => {}
            Cells::W8(cells) => load!(cells, 1, |cell: &AtomicU8| cell.load(Relaxed)),
            Cells::W16(cells) => load!(cells, 2, |cell: &AtomicU16| cell.load(Relaxed)),
            Cells::W32(cells) => load!(cells, 4, |cell: &AtomicU32| cell.load(Relaxed)),
            Cells::W64(cells) => load!(cells, 8, |cell: &AtomicU64| cell.load(Relaxed)),
            Cells::W128(cells) => load!(cells, 16, |cell: &[AtomicU64; 2]| {
                u128::from(cell[0].load(Relaxed)) | u128::from(cell[1].load(Relaxed)) << 64
            }),
        }
    }

    /// The lengths of the views of the first `rows` rows; none of other cells.
    pub(crate) fn view_lengths(&self, rows: usize) -> Vec<u32> {
        match self {
            Cells::W128(cells) => {
                let mut lengths = Vec::with_capacity(rows);
                for run in stream(&cells[..rows]) {
                    lengths.extend(run.iter().map(|cell| cell[0].load(Relaxed) as u32));
                }
                lengths
            }
            _ => Vec::new(),
        }
    }

    /// Loads views of rows from `row` on; nothing of other cells.
    pub(crate) fn load_views(&self, row: usize, into: &mut [[u64; 2]]) {
        if let Cells::W128(cells) = self {
            load_each(&cells[row..row + into.len()], into, |cell| {
                [cell[0].load(Relaxed), cell[1].load(Relaxed)]
            });
        }
    }

    /// Copies the values of `rows`.
    pub(crate) fn copy(&self, rows: &Rows<'_>) -> CellCopy {
        macro_rules! copy {
            ($cells:expr, $load:expr) => {
                match rows {
                    Rows::First(count) => $cells[..*count].iter().map($load).collect(),
                    Rows::At(offsets) => offsets
                        .iter()
                        .map(|&row| &$cells[row as usize])
                        .map($load)
                        .collect(),
                }
            };
        }
        match self {
            Cells::Bits(bits) => CellCopy::Bits(copy_bits(bits, rows)),
            Cells::W8(cells) => CellCopy::W8(copy!(cells, |cell: &AtomicU8| cell.load(Relaxed))),
            Cells::W16(cells) => CellCopy::W16(copy!(cells, |cell: &AtomicU16| cell.load(Relaxed))),
            Cells::W32(cells) => CellCopy::W32(copy!(cells, |cell: &AtomicU32| cell.load(Relaxed))),
            Cells::W64(cells) => CellCopy::W64(copy!(cells, |cell: &AtomicU64| cell.load(Relaxed))),
            Cells::W128(cells) => CellCopy::W128(copy!(cells, |cell: &[AtomicU64; 2]| [
                cell[0].load(Relaxed),
                cell[1].load(Relaxed)
            ])),
        }
    }
}

/// Copies bits of rows, packed anew.
pub(crate) fn copy_bits(bits: &Bits, rows: &Rows<'_>) -> Vec<u64> {
    match rows {
        Rows::First(count) => bits.copy(*count),
        Rows::At(offsets) => {
            let mut words = vec![0; offsets.len().div_ceil(64)];
            for (at, &row) in offsets.iter().enumerate() {
                words[at / 64] |= u64::from(bits.get(row as usize)) << (at % 64);
            }
            words
        }
    }
}

/// Which rows of a block are read.
pub(crate) enum Rows<'a> {
    /// The first so many.
    First(usize),
    /// Those at these offsets, in this order.
    At(&'a [u32]),
}

impl Rows<'_> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Rows::First(count) => *count,
            Rows::At(offsets) => offsets.len(),
        }
    }

    pub(crate) fn offset(&self, at: usize) -> usize {
        match self {
            Rows::First(_) => at,
            Rows::At(offsets) => offsets[at] as usize,
        }
    }
}

/// A private copy of cells.
pub(crate) enum CellCopy {
    Bits(Vec<u64>),
    W8(Vec<u8>),
    W16(Vec<u16>),
    W32(Vec<u32>),
    W64(Vec<u64>),
    W128(Vec<[u64; 2]>),
}

impl CellCopy {
    /// Overwrites a value.
    pub(crate) fn set(&mut self, at: usize, words: [u64; 2]) {
        match self {
            CellCopy::Bits(bits) => put_bit(bits, at, words[0] & 1 != 0),
            CellCopy::W8(cells) => cells[at] = words[0] as u8,
            CellCopy::W16(cells) => cells[at] = words[0] as u16,
            CellCopy::W32(cells) => cells[at] = words[0] as u32,
            CellCopy::W64(cells) => cells[at] = words[0],
            CellCopy::W128(cells) => cells[at] = words,
        }
    }
}

#[inline]
pub(crate) fn get_bit(words: &[u64], at: usize) -> bool {
    words[at / 64] >> (at % 64) & 1 != 0
}

#[inline]
pub(crate) fn put_bit(words: &mut [u64], at: usize, bit: bool) {
    let mask = 1 << (at % 64);
    if bit {
        words[at / 64] |= mask;
    } else {
        words[at / 64] &= !mask;
    }
}
