//! Rows in the file: an extent is one self-contained Arrow IPC stream of one record batch, buffers 64-byte aligned.
//!
//! ```text
//!   schema message │ dictionaries │ record batch message │ buffers of column 0 │ buffers of column 1 │ … │ end of stream
//!   └───────────────── checksum 0 ──────────────────────┘  └── checksum 1 ───┘   └── checksum 2 ───┘       └ checksum 0
//! ```
//!
//! The checksums (XXH3) are kept by who leads here, not in the extent: what was never written, or went elsewhere, is found as well as a flipped bit.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, FieldRef, Schema};
use arrow::ipc::{self, root_as_message};
use flatbuffers::FlatBufferBuilder;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::encode::{Encoded, EncodedColumn, Part, stored_array, stored_type};
use super::wire::{malformed, read_stream, stream_of_schema};
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

/// What buffers begin at a multiple of.
const ALIGNMENT: usize = 64;
/// How a stream ends.
const END: [u8; 8] = [0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0];
/// What is before a buffer that is not compressed, in a message where others are.
const NOT_COMPRESSED: [u8; 8] = [0xFF; 8];

/// The bytes of an extent and their checksums.
pub(super) fn encode(
    schema: &Schema,
    columns: &[EncodedColumn],
    rows: usize,
) -> Result<(Vec<u8>, Vec<u64>)> {
    let fields: Vec<FieldRef> = columns
        .iter()
        .map(|column| Arc::clone(&column.field))
        .collect();
    let schema = Schema::new_with_metadata(fields, schema.metadata().clone());
    let mut bytes = stream_of_schema(&schema)?;
    bytes.truncate(bytes.len() - END.len());
    let dictionaries = columns
        .iter()
        .filter_map(|column| column.dictionary.as_ref());
    // In the order in which the schema numbers them.
    for (number, (values, count)) in dictionaries.enumerate() {
        write_message(&mut bytes, &[values], *count, Some(number as i64));
    }
    let values: Vec<&Encoded> = columns.iter().map(|column| &column.values).collect();
    let (body, ranges) = write_message(&mut bytes, &values, rows, None);
    bytes.extend_from_slice(&END);
    let checksums = std::iter::once(frame_checksum(&bytes, &body))
        .chain(ranges.into_iter().map(|column| xxh3_64(&bytes[column])))
        .collect();
    Ok((bytes, checksums))
}

/// Appends a message with the arrays of some columns, or with a dictionary of one. Gives where its buffers are, and those of each column.
fn write_message(
    out: &mut Vec<u8>,
    columns: &[&Encoded],
    rows: usize,
    dictionary: Option<i64>,
) -> (Range<usize>, Vec<Range<usize>>) {
    let parts = || columns.iter().flat_map(|column| &column.parts);
    let is_compressed = parts().any(|part| part.compressed.is_some());
    let size = |part: &Part| match &part.compressed {
        Some(bytes) => bytes.len(),
        None if is_compressed && !part.plain.is_empty() => part.plain.len() + NOT_COMPRESSED.len(),
        None => part.plain.len(),
    };
    let mut buffers = Vec::new();
    let mut ends = Vec::new();
    let mut length = 0;
    for column in columns {
        for part in &column.parts {
            buffers.push(ipc::Buffer::new(length as i64, size(part) as i64));
            length = (length + size(part)).next_multiple_of(ALIGNMENT);
        }
        ends.push(length);
    }
    let metadata = metadata(columns, &buffers, rows, length, is_compressed, dictionary);
    out.reserve(metadata.len() + 8 + ALIGNMENT + length);
    let padded = (metadata.len() + 8).next_multiple_of(ALIGNMENT);
    out.extend_from_slice(&u32::MAX.to_le_bytes());
    out.extend_from_slice(&((padded - 8) as u32).to_le_bytes());
    let start = out.len() - 8 + padded;
    out.extend_from_slice(&metadata);
    out.resize(start, 0);
    for part in parts() {
        match &part.compressed {
            Some(bytes) => out.extend_from_slice(bytes),
            None => {
                if is_compressed && !part.plain.is_empty() {
                    out.extend_from_slice(&NOT_COMPRESSED);
                }
                out.extend_from_slice(&part.plain);
            }
        }
        out.resize(start + (out.len() - start).next_multiple_of(ALIGNMENT), 0);
    }
    let starts = std::iter::once(0).chain(ends.iter().copied());
    let ranges = starts
        .zip(&ends)
        .map(|(first, &end)| start + first..start + end)
        .collect();
    (start..out.len(), ranges)
}

fn metadata(
    columns: &[&Encoded],
    buffers: &[ipc::Buffer],
    rows: usize,
    length: usize,
    is_compressed: bool,
    dictionary: Option<i64>,
) -> Vec<u8> {
    let mut builder = FlatBufferBuilder::new();
    let nodes: Vec<ipc::FieldNode> = columns
        .iter()
        .flat_map(|column| column.nodes.iter().copied())
        .collect();
    let nodes = builder.create_vector(&nodes);
    let buffers = builder.create_vector(buffers);
    let compression = is_compressed.then(|| {
        let codec = ipc::CompressionType::ZSTD;
        let method = ipc::BodyCompressionMethod::BUFFER;
        ipc::BodyCompression::create(&mut builder, &ipc::BodyCompressionArgs { codec, method })
    });
    let batch = ipc::RecordBatch::create(
        &mut builder,
        &ipc::RecordBatchArgs {
            length: rows as i64,
            nodes: Some(nodes),
            buffers: Some(buffers),
            compression,
            variadicBufferCounts: None,
        },
    );
    let (header_type, header) = match dictionary {
        None => (ipc::MessageHeader::RecordBatch, batch.as_union_value()),
        Some(id) => {
            let values = ipc::DictionaryBatchArgs {
                id,
                data: Some(batch),
                isDelta: false,
            };
            let batch = ipc::DictionaryBatch::create(&mut builder, &values);
            (ipc::MessageHeader::DictionaryBatch, batch.as_union_value())
        }
    };
    let message = ipc::Message::create(
        &mut builder,
        &ipc::MessageArgs {
            version: ipc::MetadataVersion::V5,
            header_type,
            header: Some(header),
            bodyLength: length as i64,
            custom_metadata: None,
        },
    );
    builder.finish(message, None);
    builder.finished_data().to_vec()
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
    let columns = parts(
        &bytes,
        body,
        schema.fields().iter().map(|field| field.data_type()),
    )
    .ok_or_else(damaged)?;
    if columns.len() + 1 != extent.checksums.len() {
        return Err(damaged());
    }
    for ((column, checksum), field) in columns
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
    check_room(&bytes)?;
    let (_, batches) = read_stream(bytes, &place)?;
    match <[RecordBatch; 1]>::try_from(batches) {
        Ok([batch]) if batch.num_rows() as u64 == extent.rows => stored_batch(&batch),
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

/// The messages behind the schema: metadata and buffers of each, up to the stream's eight last bytes.
fn messages(bytes: &[u8]) -> Option<Vec<(Range<usize>, Range<usize>)>> {
    let end = bytes.len().checked_sub(END.len())?;
    let mut at = message(bytes, 0)?.end;
    let mut found = Vec::new();
    while at < end {
        let metadata = message(bytes, at)?;
        let length = root_as_message(&bytes[metadata.clone()]).ok()?.bodyLength();
        let body = metadata.end..metadata.end.checked_add(usize::try_from(length).ok()?)?;
        if body.end > end {
            return None;
        }
        at = body.end;
        found.push((metadata, body));
    }
    Some(found)
}

/// The buffers of the record batch, which is the last message.
pub(super) fn body(bytes: &[u8]) -> Option<Range<usize>> {
    messages(bytes)?.pop().map(|(_, body)| body)
}

/// The metadata of the record batch.
pub(super) fn message_of_batch(bytes: &[u8]) -> Option<Range<usize>> {
    messages(bytes)?.pop().map(|(metadata, _)| metadata)
}

/// Refuses what needs more memory than there is once it is no longer compressed.
fn check_room(bytes: &[u8]) -> Result<()> {
    let wrong = || malformed("an extent");
    let mut total = 0_u64;
    for (metadata, body) in messages(bytes).ok_or_else(wrong)? {
        let message = root_as_message(&bytes[metadata]).map_err(|_| wrong())?;
        let batch = message
            .header_as_record_batch()
            .or_else(|| message.header_as_dictionary_batch()?.data())
            .ok_or_else(wrong)?;
        if batch.compression().is_none() {
            continue;
        }
        for buffer in batch.buffers().ok_or_else(wrong)? {
            let start = usize::try_from(buffer.offset()).map_err(|_| wrong())?;
            let word = start
                .checked_add(8)
                .and_then(|end| bytes[body.clone()].get(start..end));
            if buffer.length() == 0 {
                continue;
            }
            let mut length = [0; 8];
            length.copy_from_slice(word.ok_or_else(wrong)?);
            match i64::from_le_bytes(length) {
                -1 => {}
                length => {
                    let length = u64::try_from(length).map_err(|_| wrong())?;
                    total = total.checked_add(length).ok_or_else(wrong)?;
                }
            }
        }
    }
    let total = usize::try_from(total).map_err(|_| wrong())?;
    Vec::<u8>::new()
        .try_reserve_exact(total)
        .map_err(|_| Error::System(format!("no memory for {total} bytes of an extent")))
}

/// A batch of an extent with the stored types.
fn stored_batch(batch: &RecordBatch) -> Result<RecordBatch> {
    let schema = batch.schema();
    let fields: Vec<FieldRef> = schema
        .fields()
        .iter()
        .map(|field| match field.data_type() {
            DataType::Dictionary(..) => Arc::new(
                field
                    .as_ref()
                    .clone()
                    .with_data_type(stored_type(field.data_type()).clone()),
            ),
            _ => Arc::clone(field),
        })
        .collect();
    let columns = batch
        .columns()
        .iter()
        .map(stored_array)
        .collect::<Result<Vec<_>>>()?;
    let schema = Schema::new_with_metadata(fields, schema.metadata().clone());
    crate::table::batch(Arc::new(schema), columns, batch.num_rows())
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
) -> Option<Vec<Range<usize>>> {
    let metadata = message_of_batch(bytes)?;
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
    Some(columns)
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
