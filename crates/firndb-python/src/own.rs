//! A consumer's own copy of what frozen memory does not hold.
//!
//! Frozen memory is shown read-only: code that writes to an Arrow buffer of it is ended by the system. Everything else lies in
//! ordinary memory, which a relation keeps for its next reader, and a cached plan or the catalog for its next run (a literal, the rows of
//! VALUES). So that nothing written there changes an answer, the consumer gets a copy of its own.

use std::sync::{Mutex, PoisonError};

use arrow::array::{ArrayData, RecordBatch, make_array};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use firndb::is_frozen;

/// Columns of a batch up to this size are always copied. All that a plan or the catalog holds (a literal, the rows of VALUES, a
/// default) comes in small pieces, and so does what operators compute.
const SMALL_COLUMN: usize = 2 << 20;
/// Rows with more bytes in ordinary memory than this share their larger columns with the relation that they come from: to
/// copy those takes as long as to compute them.
const LARGE_RESULT: usize = 64 << 20;
/// Another thread is worth its start from this many bytes on.
const BYTES_PER_THREAD: usize = 8 << 20;

/// The batches, with a copy of their ordinary memory.
pub(crate) fn own(batches: Vec<RecordBatch>) -> Vec<RecordBatch> {
    let bytes: usize = batches
        .iter()
        .flat_map(RecordBatch::columns)
        .map(|column| ordinary_bytes(&column.to_data()))
        .sum();
    if bytes == 0 {
        return batches;
    }
    let limit = if bytes > LARGE_RESULT {
        SMALL_COLUMN
    } else {
        LARGE_RESULT
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = cores
        .min(bytes / BYTES_PER_THREAD)
        .min(batches.len())
        .max(1);
    let mut batches: Vec<(usize, RecordBatch)> = batches.into_iter().enumerate().collect();
    if threads == 1 {
        return batches
            .into_iter()
            .map(|(_, batch)| copied(batch, limit))
            .collect();
    }
    let (left, done) = (Mutex::new(batches.drain(..)), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let next = left.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((number, batch)) = next else { return };
            let batch = copied(batch, limit);
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            done.push((number, batch));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            // Fewer threads do the same work.
            let _ = std::thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_unstable_by_key(|&(number, _)| number);
    done.into_iter().map(|(_, batch)| batch).collect()
}

/// A batch with copies of the columns that hold up to `limit` bytes of ordinary memory.
fn copied(batch: RecordBatch, limit: usize) -> RecordBatch {
    let (schema, columns, rows) = batch.into_parts();
    let columns = columns
        .into_iter()
        .map(|column| {
            let data = column.to_data();
            match ordinary_bytes(&data) {
                0 => column,
                bytes if bytes > limit => column,
                _ => make_array(copy_data(&data)),
            }
        })
        .collect();
    // SAFETY: the columns are copies of those of a valid batch.
    unsafe { RecordBatch::new_unchecked(schema, columns, rows) }
}

fn ordinary_bytes(data: &ArrayData) -> usize {
    let own: usize = buffers(data)
        .filter(|buffer| !is_frozen(buffer))
        .map(Buffer::len)
        .sum();
    own + data.child_data().iter().map(ordinary_bytes).sum::<usize>()
}

fn buffers(data: &ArrayData) -> impl Iterator<Item = &Buffer> {
    let validity = data.nulls().map(NullBuffer::buffer);
    data.buffers().iter().chain(validity)
}

fn copy_data(data: &ArrayData) -> ArrayData {
    let copied = |buffer: &Buffer| match is_frozen(buffer) {
        true => buffer.clone(),
        false => Buffer::from_slice_ref(buffer.as_slice()),
    };
    let nulls = data.nulls().map(|nulls| {
        let bits = BooleanBuffer::new(copied(nulls.buffer()), nulls.offset(), nulls.len());
        NullBuffer::new(bits)
    });
    let builder = data
        .clone()
        .into_builder()
        .buffers(data.buffers().iter().map(copied).collect())
        .child_data(data.child_data().iter().map(copy_data).collect())
        .nulls(nulls);
    // SAFETY: the buffers hold the bytes of those of a valid array; Arrow's allocations are aligned for every type.
    unsafe { builder.build_unchecked() }
}
