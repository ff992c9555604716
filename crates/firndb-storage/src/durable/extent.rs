//! Rows in the file: an extent is one self-contained Arrow IPC stream of one record batch, buffers 64-byte aligned.
//!
//! ```text
//!   schema message │ record batch message │ buffers of column 0 │ buffers of column 1 │ … │ end of stream
//!   └────────── checksum 0 ──────────────┘  └── checksum 1 ───┘   └── checksum 2 ───┘       └ checksum 0
//! ```
//!
//! The checksums (XXH3) are kept by who leads here, not in the extent: what was never written, or went elsewhere, is found as well as a flipped bit.

use std::ops::Range;

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::DataType;
use arrow::ipc::root_as_message;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::wire::{read_stream, stream_of};
use crate::{Error, Result};

/// An extent in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileExtent {
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) rows: u64,
    /// Of the messages, then of each column.
    pub(crate) checksums: Vec<u64>,
    /// The slots that its rows had when the root was made, as runs.
    pub(crate) slots: Vec<(u64, u32)>,
}

/// Where the parts of a stream are.
struct Parts {
    body: Range<usize>,
    columns: Vec<Range<usize>>,
}

/// The bytes of an extent and their checksums.
pub(super) fn encode(batch: &RecordBatch) -> Result<(Vec<u8>, Vec<u64>)> {
    let bytes = stream_of(batch)?;
    let parts = body(&bytes)
        .and_then(|body| {
            parts(
                &bytes,
                body,
                batch
                    .schema()
                    .fields()
                    .iter()
                    .map(|field| field.data_type()),
            )
        })
        .ok_or_else(|| Error::Internal("a stream that was just written can't be read".into()))?;
    let checksums = std::iter::once(frame_checksum(&bytes, &parts.body))
        .chain(
            parts
                .columns
                .iter()
                .map(|column| xxh3_64(&bytes[column.clone()])),
        )
        .collect();
    Ok((bytes, checksums))
}

/// Checks the bytes of an extent of a table, and reads them.
pub(super) fn decode(bytes: Buffer, extent: &FileExtent, table: &str) -> Result<RecordBatch> {
    let place = format!(
        "an extent of table \"{table}\" (bytes {} to {} of the database file)",
        extent.offset,
        extent.offset + extent.length
    );
    let damaged = || Error::Damaged(format!("{place} is damaged: its checksum is wrong"));
    let body = body(&bytes).ok_or_else(damaged)?;
    if Some(&frame_checksum(&bytes, &body)) != extent.checksums.first() {
        return Err(damaged());
    }
    let schema = schema_of(&bytes).ok_or_else(damaged)?;
    let parts = parts(
        &bytes,
        body,
        schema.fields().iter().map(|field| field.data_type()),
    )
    .ok_or_else(damaged)?;
    if parts.columns.len() + 1 != extent.checksums.len() {
        return Err(damaged());
    }
    for ((column, checksum), field) in parts
        .columns
        .iter()
        .zip(&extent.checksums[1..])
        .zip(schema.fields())
    {
        if xxh3_64(&bytes[column.clone()]) != *checksum {
            return Err(Error::Damaged(format!(
                "column \"{}\" of {place} is damaged: its checksum is wrong",
                field.name()
            )));
        }
    }
    let (_, batches) = read_stream(bytes, &place)?;
    match <[RecordBatch; 1]>::try_from(batches) {
        Ok([batch]) if batch.num_rows() as u64 == extent.rows => Ok(batch),
        _ => Err(damaged()),
    }
}

fn frame_checksum(bytes: &[u8], body: &Range<usize>) -> u64 {
    let mut hash = Xxh3::new();
    hash.update(&bytes[..body.start]);
    hash.update(&bytes[body.end..]);
    hash.digest()
}

/// The metadata of the message at a place.
fn message(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    let word = |at: usize| {
        let word = bytes.get(at..at.checked_add(4)?)?;
        Some(u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
    };
    let length = word(at + 4)? as usize;
    let metadata = at + 8..(at + 8).checked_add(length)?;
    (word(at)? == u32::MAX && metadata.end <= bytes.len()).then_some(metadata)
}

/// The buffers of the second message: behind its metadata up to the end of the stream's eight last bytes.
fn body(bytes: &[u8]) -> Option<Range<usize>> {
    let schema = message(bytes, 0)?;
    let batch = message(bytes, schema.end)?;
    let end = bytes.len().checked_sub(8)?;
    (batch.end <= end).then_some(batch.end..end)
}

fn schema_of(bytes: &[u8]) -> Option<arrow::datatypes::SchemaRef> {
    let metadata = message(bytes, 0)?;
    let message = root_as_message(&bytes[metadata]).ok()?;
    Some(std::sync::Arc::new(arrow::ipc::convert::fb_to_schema(
        message.header_as_schema()?,
    )))
}

/// Where each column's buffers are.
fn parts<'a>(
    bytes: &[u8],
    body: Range<usize>,
    types: impl Iterator<Item = &'a DataType>,
) -> Option<Parts> {
    let metadata = message(bytes, message(bytes, 0)?.end)?;
    let message = root_as_message(&bytes[metadata]).ok()?;
    let buffers = message.header_as_record_batch()?.buffers()?;
    let mut starts = Vec::new();
    let mut number = 0;
    for data_type in types {
        let start = if number < buffers.len() {
            usize::try_from(buffers.get(number).offset()).ok()?
        } else {
            body.len()
        };
        starts.push(start);
        number += buffers_of(data_type);
    }
    if number != buffers.len() {
        return None;
    }
    starts.push(body.len());
    let mut columns = Vec::new();
    for pair in starts.windows(2) {
        let column = body.start + pair[0]..body.start + pair[1];
        if pair[0] > pair[1] || column.end > body.end {
            return None;
        }
        columns.push(column);
    }
    if starts.first() != Some(&0) && !columns.is_empty() {
        return None;
    }
    Some(Parts { body, columns })
}

/// Number of buffers of an array of a stored type.
fn buffers_of(data_type: &DataType) -> usize {
    match data_type {
        DataType::Utf8 | DataType::Binary => 3,
        DataType::List(field) | DataType::Map(field, _) => 2 + buffers_of(field.data_type()),
        DataType::FixedSizeList(field, _) => 1 + buffers_of(field.data_type()),
        DataType::Struct(fields) => {
            1 + fields
                .iter()
                .map(|field| buffers_of(field.data_type()))
                .sum::<usize>()
        }
        _ => 2,
    }
}
