//! Builds extents from foreign batches.
//!
//! A task copies one column of one extent; threads take tasks from a shared counter until none is left or one has
//! failed. Each thread writes to a lane of its own in the arena, because the kernel serialises writes to one
//! memfd.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::types::IntervalMonthDayNano;
use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, SchemaRef};
use arrow::error::ArrowError;
use parking_lot::Mutex;

use super::adopt::adopt;
use super::bytes::{copy_bytes, heap_bytes};
pub(crate) use super::cells::{CellPieces, Cells, Texts};
use super::cells::{copy_cells, copy_texts};
use super::column::Statistics;
use super::fixed::{copy_booleans, copy_fixed, copy_fixed_binary};
use super::nested::copy_nested;
pub(crate) use super::run_extremes::Peaks;
use super::source::{Pieces, as_stored, check_stored, not_stored};
use super::strings::{Strings, formatted};
use crate::frozen::{Extent, FrozenColumn};
use crate::memory::{Arena, ArenaRange, OpenRange};
use crate::{Error, Result};

/// Another thread is worth its start from this many bytes on.
const BYTES_PER_THREAD: usize = 1 << 20;

/// Copies the first rows of `batches` into extents of `rows_per_extent` rows each, in parallel over (extent, column) on up to
/// `threads` threads. `schema` has the stored types; the batches may have any type that [`as_stored`] takes. Rows
/// beyond the sum of `rows_per_extent` are left to the caller; fewer rows than the sum are an `Internal` error.
///
/// Errors: `OutOfMemory`; `Limit` for a variable-length column of more than 2 GiB in one extent; `ValueOutOfRange` for a
/// decimal with more digits than its type; `Arrow` for types that do not fit.
pub fn build_extents(
    arena: &Arc<Arena>,
    schema: &SchemaRef,
    batches: &[RecordBatch],
    rows_per_extent: &[usize],
    threads: usize,
) -> Result<Vec<Arc<Extent>>> {
    let strings = vec![Strings::Offsets; schema.fields().len()];
    build_formatted(arena, schema, &strings, batches, rows_per_extent, threads)
}

/// As [`build_extents`], the strings of each column in a format.
pub(crate) fn build_formatted(
    arena: &Arc<Arena>,
    schema: &SchemaRef,
    strings: &[Strings],
    batches: &[RecordBatch],
    rows_per_extent: &[usize],
    threads: usize,
) -> Result<Vec<Arc<Extent>>> {
    check_batches(schema, batches)?;
    let rows: Vec<usize> = batches.iter().map(RecordBatch::num_rows).collect();
    let extents = cut(&rows, rows_per_extent)?;
    let columns = schema.fields().len();
    let tasks = extents.len() * columns;
    let task = |task: usize, lane: usize| -> Result<FrozenColumn> {
        let (extent, column) = (task / columns, task % columns);
        let field = schema.field(column);
        let pieces = pieces(field.data_type(), batches, &extents[extent], column)?;
        let target = Target { arena, lane };
        if let Some(column) = adopt(&target, &pieces, strings[column])? {
            return Ok(column);
        }
        formatted(&target, copy_caught(&target, &pieces)?, strings[column])
    };
    let bytes: usize = batches.iter().map(RecordBatch::get_array_memory_size).sum();
    let threads = threads.min(bytes / BYTES_PER_THREAD).clamp(1, tasks.max(1));
    let mut built = run(tasks, threads, task)?.into_iter();
    let extent = |rows: &usize| {
        let columns = built.by_ref().take(columns).collect();
        Arc::new(Extent::new(Arc::clone(schema), *rows, columns))
    };
    Ok(rows_per_extent.iter().map(extent).collect())
}

/// Cuts the first rows of `batches` into extents of whole blocks of `block_rows` rows, at most `max_blocks` blocks each, such that
/// each extent's variable-length columns fit 32-bit offsets: what to pass to [`build_extents`]. Rows that fill no block are
/// left. A single block that does not fit is an extent of its own, which `build_extents` refuses.
pub fn plan_extents(
    schema: &SchemaRef,
    batches: &[RecordBatch],
    block_rows: usize,
    max_blocks: usize,
) -> Result<Vec<usize>> {
    check_batches(schema, batches)?;
    let rows: Vec<usize> = batches.iter().map(RecordBatch::num_rows).collect();
    let blocks = rows.iter().sum::<usize>() / block_rows.max(1);
    let blocks = cut(&rows, &vec![block_rows; blocks])?;
    let is_variable = |&column: &usize| {
        matches!(
            schema.field(column).data_type(),
            DataType::Utf8 | DataType::Binary
        )
    };
    let variable: Vec<Vec<usize>> = (0..schema.fields().len())
        .filter(is_variable)
        .map(|column| heaps_of_blocks(batches, &blocks, column))
        .collect::<Result<_>>()?;
    let mut extents: Vec<usize> = Vec::new();
    let mut heaps = vec![0; variable.len()];
    for block in 0..blocks.len() {
        let grown = || {
            heaps
                .iter()
                .zip(&variable)
                .map(|(&heap, needed)| heap + needed[block])
        };
        let fits = grown().all(|heap| i32::try_from(heap).is_ok());
        match extents.last_mut() {
            Some(extent) if fits && *extent < max_blocks * block_rows => {
                *extent += block_rows;
                heaps = grown().collect();
            }
            _ => {
                extents.push(block_rows);
                heaps = variable.iter().map(|needed| needed[block]).collect();
            }
        }
    }
    Ok(extents)
}

/// Builds a column of type `stored` from arrays of values that [`as_stored`] takes, one after the other.
///
/// Errors: as [`build_extents`].
pub(crate) fn build_column(
    arena: &Arc<Arena>,
    stored: &DataType,
    arrays: Vec<ArrayRef>,
) -> Result<FrozenColumn> {
    let target = Target { arena, lane: 0 };
    copy_caught(&target, &Pieces::new(stored, arrays))
}

/// Builds a column of a type of fixed width from values that `cells` gives; `None` for another type.
///
/// Errors: as [`build_extents`].
pub(crate) fn build_cells(
    arena: &Arc<Arena>,
    stored: &DataType,
    pieces: &CellPieces,
    cells: &mut dyn Cells,
) -> Result<Option<FrozenColumn>> {
    let target = Target { arena, lane: 0 };
    macro_rules! copy {
        ($native:ty) => {
            copy_cells::<$native>(&target, stored, pieces, cells).map(Some)
        };
    }
    match stored {
        DataType::Int8 => copy!(i8),
        DataType::Int16 => copy!(i16),
        DataType::Int32 | DataType::Date32 => copy!(i32),
        DataType::Int64
        | DataType::Time64(_)
        | DataType::Timestamp(..)
        | DataType::Decimal64(..) => copy!(i64),
        DataType::UInt8 => copy!(u8),
        DataType::UInt16 => copy!(u16),
        DataType::UInt32 => copy!(u32),
        DataType::UInt64 => copy!(u64),
        DataType::Float32 => copy!(f32),
        DataType::Float64 => copy!(f64),
        DataType::Decimal128(..) => copy!(i128),
        DataType::Interval(_) => copy!(IntervalMonthDayNano),
        _ => Ok(None),
    }
}

/// Builds a column of strings or bytes that `texts` gives, in a format.
///
/// Errors: as [`build_extents`].
///
/// # Safety
/// For a column of strings, what `texts` loads is UTF-8, value by value.
pub(crate) unsafe fn build_texts(
    arena: &Arc<Arena>,
    stored: &DataType,
    strings: Strings,
    pieces: &CellPieces,
    texts: &mut dyn Texts,
) -> Result<FrozenColumn> {
    let target = Target { arena, lane: 0 };
    // SAFETY: the caller promises it.
    let column = unsafe { copy_texts(&target, stored, pieces, texts) }?;
    formatted(&target, column, strings)
}

/// Bytes of a column's heap in each block.
fn heaps_of_blocks(
    batches: &[RecordBatch],
    blocks: &[Vec<BatchRows>],
    column: usize,
) -> Result<Vec<usize>> {
    let mut pieces: Vec<Vec<(usize, &Range<usize>)>> = vec![Vec::new(); batches.len()];
    for (block, parts) in blocks.iter().enumerate() {
        for (batch, rows) in parts {
            pieces[*batch].push((block, rows));
        }
    }
    let mut heaps = vec![0; blocks.len()];
    for (batch, pieces) in batches.iter().zip(&pieces) {
        let array = batch.column(column);
        let bytes = heap_bytes(array, pieces.iter().map(|(_, rows)| *rows))
            .ok_or_else(|| not_stored(array.data_type(), &DataType::Binary))?;
        pieces
            .iter()
            .zip(bytes)
            .for_each(|((block, _), bytes)| heaps[*block] += bytes);
    }
    Ok(heaps)
}

/// Where a task's column goes.
pub(super) struct Target<'a> {
    arena: &'a Arc<Arena>,
    lane: usize,
}

impl Target<'_> {
    /// A range for the column.
    pub(super) fn allocate(&self, bytes: usize) -> Result<ArenaRange> {
        self.arena.allocate(bytes, self.lane)
    }

    /// A range for the column, to be filled in place.
    pub(super) fn open(&self, bytes: usize) -> Result<OpenRange> {
        self.arena.open(bytes, self.lane)
    }

    pub(super) fn new(arena: &Arc<Arena>, lane: usize) -> Target<'_> {
        Target { arena, lane }
    }

    /// The arena, and the lane in it.
    pub(super) fn place(&self) -> (&Arc<Arena>, usize) {
        (self.arena, self.lane)
    }

    /// The column over its frozen array.
    pub(super) fn column(
        &self,
        array: ArrayRef,
        bytes: usize,
        statistics: Statistics,
    ) -> FrozenColumn {
        FrozenColumn::new(self.arena, self.lane, array, bytes, statistics)
    }

    /// The column of a stored type over an array of it in some format.
    pub(super) fn column_of(
        &self,
        stored: DataType,
        array: ArrayRef,
        bytes: usize,
        statistics: Statistics,
    ) -> FrozenColumn {
        FrozenColumn::of_type(self.arena, self.lane, stored, array, bytes, statistics)
    }
}

fn check_batches(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<()> {
    schema
        .fields()
        .iter()
        .try_for_each(|field| check_stored(field.data_type()))?;
    match batches
        .iter()
        .find(|batch| batch.num_columns() != schema.fields().len())
    {
        None => Ok(()),
        Some(batch) => Err(ArrowError::SchemaError(format!(
            "a batch of {} columns for a table of {}",
            batch.num_columns(),
            schema.fields().len()
        ))
        .into()),
    }
}

/// The position of a batch, and rows of it.
type BatchRows = (usize, Range<usize>);

/// For each extent, the batches and the rows of them that it takes.
fn cut(batch_rows: &[usize], rows_per_extent: &[usize]) -> Result<Vec<Vec<BatchRows>>> {
    let (mut batch, mut offset) = (0, 0);
    let mut extents = Vec::with_capacity(rows_per_extent.len());
    for &rows in rows_per_extent {
        let mut pieces = Vec::new();
        let mut missing = rows;
        while missing > 0 {
            let Some(&available) = batch_rows.get(batch) else {
                return Err(Error::Internal(format!(
                    "{missing} rows are missing for an extent"
                )));
            };
            let count = missing.min(available - offset);
            if count > 0 {
                pieces.push((batch, offset..offset + count));
            }
            missing -= count;
            offset += count;
            if offset == available {
                (batch, offset) = (batch + 1, 0);
            }
        }
        extents.push(pieces);
    }
    Ok(extents)
}

fn pieces(
    stored: &DataType,
    batches: &[RecordBatch],
    pieces: &[BatchRows],
    column: usize,
) -> Result<Pieces> {
    let array = |(batch, rows): &BatchRows| {
        as_stored(
            &batches[*batch].column(column).slice(rows.start, rows.len()),
            stored,
        )
    };
    Ok(Pieces::new(
        stored,
        pieces.iter().map(array).collect::<Result<_>>()?,
    ))
}

/// Arrow's functions panic on arrays that are not what their types say.
fn copy_caught(target: &Target<'_>, pieces: &Pieces) -> Result<FrozenColumn> {
    catch_unwind(AssertUnwindSafe(|| copy_column(target, pieces))).unwrap_or_else(|_| {
        Err(Error::Internal(format!(
            "a column of type {} could not be copied",
            pieces.stored
        )))
    })
}

fn copy_column(target: &Target<'_>, pieces: &Pieces) -> Result<FrozenColumn> {
    match &pieces.stored {
        DataType::Boolean => copy_booleans(target, pieces),
        DataType::Int8 => copy_fixed::<i8>(target, pieces),
        DataType::Int16 => copy_fixed::<i16>(target, pieces),
        DataType::Int32 | DataType::Date32 => copy_fixed::<i32>(target, pieces),
        DataType::Int64
        | DataType::Time64(_)
        | DataType::Timestamp(..)
        | DataType::Decimal64(..) => copy_fixed::<i64>(target, pieces),
        DataType::UInt8 => copy_fixed::<u8>(target, pieces),
        DataType::UInt16 => copy_fixed::<u16>(target, pieces),
        DataType::UInt32 => copy_fixed::<u32>(target, pieces),
        DataType::UInt64 => copy_fixed::<u64>(target, pieces),
        DataType::Float32 => copy_fixed::<f32>(target, pieces),
        DataType::Float64 => copy_fixed::<f64>(target, pieces),
        DataType::Decimal128(..) => copy_fixed::<i128>(target, pieces),
        DataType::Interval(_) => copy_fixed::<IntervalMonthDayNano>(target, pieces),
        DataType::FixedSizeBinary(width) => copy_fixed_binary(target, pieces, *width),
        DataType::Utf8 | DataType::Binary => copy_bytes(target, pieces),
        nested if nested.is_nested() => copy_nested(target, pieces),
        other => Err(not_stored(other, other).into()),
    }
}

/// Runs `tasks` tasks on `threads` threads; results in order, or the first error that occurred.
fn run<T: Send>(
    tasks: usize,
    threads: usize,
    task: impl Fn(usize, usize) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    if threads == 1 {
        return (0..tasks).map(|index| task(index, 0)).collect();
    }
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<Option<T>>> = Mutex::new((0..tasks).map(|_| None).collect());
    let failure = Mutex::new(None);
    let work = |lane: usize| {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= tasks {
                return;
            }
            match task(index, lane) {
                Ok(result) => results.lock()[index] = Some(result),
                Err(error) => {
                    next.store(tasks, Ordering::Relaxed);
                    failure.lock().get_or_insert(error);
                }
            }
        }
    };
    std::thread::scope(|scope| -> Result<()> {
        for lane in 1..threads {
            let spawned = std::thread::Builder::new()
                .name("firndb-load".into())
                .spawn_scoped(scope, move || work(lane));
            // Fewer threads do the same work.
            if spawned.is_err() {
                break;
            }
        }
        work(0);
        Ok(())
    })?;
    if let Some(error) = failure.into_inner() {
        return Err(error);
    }
    let results: Option<Vec<T>> = results.into_inner().into_iter().collect();
    results.ok_or_else(|| Error::Internal("a column of an extent was not built".into()))
}
