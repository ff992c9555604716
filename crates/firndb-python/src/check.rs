//! What comes in through the Arrow C interface, looked at before it is believed.
//!
//! The interface hands over pointers, and Rust's strings are UTF-8 by their type: text that a faulty producer calls UTF-8, and offsets
//! that run out of their buffer, would be undefined behaviour wherever they are read. Numbers can't be wrong in that way and
//! are not looked at.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use arrow::array::{Array, ArrayRef, AsArray, GenericStringArray, OffsetSizeTrait, RecordBatch};
use arrow::datatypes::{DataType, SchemaRef};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatchReader;
use firndb::{Error, SqlState};

/// Another thread is worth its start from this many bytes on.
const BYTES_PER_THREAD: usize = 4 << 20;

/// A reader whose batches are checked.
pub(crate) struct Checked<R>(pub(crate) R);

impl<R: RecordBatchReader> Iterator for Checked<R> {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.0.next()?;
        Some(batch.and_then(|batch| {
            checked(&batch).map_err(|error| ArrowError::ExternalError(Box::new(error)))?;
            Ok(batch)
        }))
    }
}

impl<R: RecordBatchReader> RecordBatchReader for Checked<R> {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }
}

/// An error if a column is not what its type says.
fn checked(batch: &RecordBatch) -> Result<(), Error> {
    let suspects: Vec<usize> = (0..batch.num_columns())
        .filter(|&column| is_suspect(batch.column(column).data_type()))
        .collect();
    let bytes: usize = suspects
        .iter()
        .map(|&column| batch.column(column).get_array_memory_size())
        .sum();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = cores.min(bytes / BYTES_PER_THREAD).min(suspects.len());
    let check = |column: usize| {
        if is_sound(batch.column(column)) {
            return Ok(());
        }
        let name = batch.schema_ref().field(column).name().clone();
        Err(Error::new(
            SqlState::CharacterNotInRepertoire,
            format!(
                "column \"{name}\" is no valid Arrow data: text that is no UTF-8, or values outside of their buffers"
            ),
        ))
    };
    if threads <= 1 {
        return suspects.into_iter().try_for_each(check);
    }
    let (next, failure) = (AtomicUsize::new(0), Mutex::new(None));
    let work = || {
        while let Some(&column) = suspects.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(error) = check(column) {
                *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            // Fewer threads do the same work.
            let _ = std::thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    let failure = failure.into_inner().unwrap_or_else(PoisonError::into_inner);
    failure.map_or(Ok(()), Err)
}

fn is_suspect(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::Dictionary(..)
        | DataType::RunEndEncoded(..) => true,
        other => other.is_nested(),
    }
}

fn is_sound(array: &ArrayRef) -> bool {
    match array.data_type() {
        DataType::Utf8 => is_text(array.as_string::<i32>()),
        DataType::LargeUtf8 => is_text(array.as_string::<i64>()),
        _ => array.to_data().validate_full().is_ok(),
    }
}

fn is_text<O: OffsetSizeTrait>(array: &GenericStringArray<O>) -> bool {
    let (offsets, bytes) = (array.value_offsets(), array.values().as_slice());
    let rises = |pair: &[O]| pair[0] <= pair[1];
    let (Some(first), Some(last)) = (offsets.first(), offsets.last()) else {
        return true;
    };
    let (Some(first), Some(last)) = (first.to_usize(), last.to_usize()) else {
        return false;
    };
    if !offsets.windows(2).all(rises) {
        return false;
    }
    let Some(bytes) = bytes.get(first..last) else {
        return false;
    };
    // What is all ASCII can be cut anywhere.
    bytes.is_ascii()
        || (0..array.len()).all(|row| {
            let range = offsets[row].as_usize() - first..offsets[row + 1].as_usize() - first;
            // What lies under a null may be anything.
            array.is_null(row) || std::str::from_utf8(&bytes[range]).is_ok()
        })
}
