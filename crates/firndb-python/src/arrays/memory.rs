//! The memory of NumPy arrays: joined from the buffers of a column, or filled chunk by chunk.

use std::sync::{Mutex, PoisonError};

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::Buffer;
use arrow::datatypes::{ArrowNativeType, ArrowPrimitiveType};
use firndb::{Error, PrivateMemory};
use numpy::ndarray::ArrayView1;
use numpy::{Element, PyArray1};
use pyo3::prelude::*;

use crate::fork::Generation;
use crate::stream::drop_detached;

/// Rows that are converted at once: what they read and write stays in the cache.
const ROWS_AT_ONCE: usize = 64 << 10;
/// Another thread is worth its start from this many rows on.
const ROWS_PER_THREAD: usize = 256 << 10;

/// The owner of an array's values.
#[pyclass(frozen, module = "firndb._firndb")]
struct ArrayMemory {
    /// Empty only while dropped.
    memory: Option<PrivateMemory>,
    generation: Generation,
}

impl Drop for ArrayMemory {
    /// Unmapping takes a moment, and may end the last hold on a table's memory: not with the interpreter's lock held. A forked
    /// child leaves it to its own end.
    fn drop(&mut self) {
        let memory = self.memory.take();
        if self.generation.is_current() {
            drop_detached(memory);
        } else {
            std::mem::forget(memory);
        }
    }
}

/// Threads that share work on `rows` rows.
pub(super) fn threads(rows: usize) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    cores.min(rows / ROWS_PER_THREAD).max(1)
}

/// The values of chunks one after the other: shown where they are frozen memory, else copied.
pub(super) fn joined<T: ArrowPrimitiveType>(chunks: &[&ArrayRef]) -> Result<PrivateMemory, Error> {
    let pieces: Vec<Buffer> = chunks
        .iter()
        .map(|chunk| chunk.as_primitive::<T>().values().inner().clone())
        .collect();
    let rows = chunks.iter().map(|chunk| chunk.len()).sum();
    Ok(PrivateMemory::joined(&pieces, threads(rows))?)
}

/// Memory that `convert` fills from one slice of a chunk after the other, on several threads where that pays.
pub(super) fn filled<V: ArrowNativeType>(
    chunks: &[&ArrayRef],
    convert: impl Fn(&ArrayRef, &mut [V]) -> Result<(), Error> + Sync,
) -> Result<PrivateMemory, Error> {
    let rows: usize = chunks.iter().map(|chunk| chunk.len()).sum();
    let mut memory = PrivateMemory::zeroed(rows * size_of::<V>())?;
    let mut parts = Vec::new();
    let mut rest = memory.values_mut::<V>();
    for chunk in chunks {
        for from in (0..chunk.len()).step_by(ROWS_AT_ONCE) {
            let count = ROWS_AT_ONCE.min(chunk.len() - from);
            let (part, beyond) = std::mem::take(&mut rest).split_at_mut(count);
            parts.push((chunk.slice(from, count), part));
            rest = beyond;
        }
    }
    let threads = threads(rows);
    if threads == 1 {
        for (chunk, part) in parts {
            convert(&chunk, part)?;
        }
        return Ok(memory);
    }
    let parts = Mutex::new(parts.into_iter());
    let work = || -> Result<(), Error> {
        loop {
            let next = parts.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((chunk, part)) = next else {
                return Ok(());
            };
            convert(&chunk, part)?;
        }
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads)
            // Fewer threads do the same work.
            .map_while(|_| std::thread::Builder::new().spawn_scoped(scope, work).ok())
            .collect();
        let own = work();
        others.into_iter().fold(own, |outcome, other| {
            let failed = || Error::internal("a thread that fills an array panicked");
            outcome.and(other.join().unwrap_or_else(|_| Err(failed())))
        })
    })?;
    Ok(memory)
}

/// An array over the whole memory, which it owns.
pub(super) fn into_array<T: Element>(
    py: Python<'_>,
    memory: PrivateMemory,
) -> PyResult<Bound<'_, PyArray1<T>>> {
    if memory.is_empty() {
        return Ok(PyArray1::from_vec(py, Vec::new()));
    }
    let (start, rows) = (memory.as_ptr().cast::<T>(), memory.len() / size_of::<T>());
    assert!(start.is_aligned());
    let owner = Bound::new(
        py,
        ArrayMemory {
            memory: Some(memory),
            generation: Generation::current(),
        },
    )?;
    // SAFETY: `rows` values from `start` are the memory's own and initialised; what fills it writes values of `T` (numbers, or
    // 0 and 1 for booleans). The array holds its owner, through which nobody else reaches them.
    unsafe {
        let values = ArrayView1::from_shape_ptr(rows, start.as_ptr());
        Ok(PyArray1::borrow_from_array(&values, owner.into_any()))
    }
}
