//! Bytes of log records and pages: little-endian integers, and rows as Arrow IPC streams.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::buffer::Buffer;
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamDecoder;
use arrow::ipc::writer::StreamWriter;

use crate::{Error, Result};

/// What is malformed though its checksum is right, or was never written by us.
pub(super) fn malformed(what: &str) -> Error {
    Error::Damaged(format!("{what} is malformed"))
}

/// Bytes that are being written.
#[derive(Debug, Default)]
pub(super) struct Encoder(pub(super) Vec<u8>);

impl Encoder {
    pub(super) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }
    pub(super) fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }
    pub(super) fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }
    /// A length and bytes.
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.u64(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }
}

/// Bytes that are being read.
#[derive(Debug)]
pub(super) struct Decoder<'a> {
    rest: &'a [u8],
    what: &'static str,
}

impl<'a> Decoder<'a> {
    pub(super) fn new(bytes: &'a [u8], what: &'static str) -> Self {
        Self { rest: bytes, what }
    }
    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self
            .rest
            .split_at_checked(count)
            .ok_or_else(|| malformed(self.what))?;
        self.rest = rest;
        Ok(taken)
    }
    pub(super) fn u8(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }
    pub(super) fn u32(&mut self) -> Result<u32> {
        let bytes = self.take(4)?;
        Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }
    pub(super) fn u64(&mut self) -> Result<u64> {
        let mut word = [0; 8];
        word.copy_from_slice(self.take(8)?);
        Ok(u64::from_le_bytes(word))
    }
    pub(super) fn bytes(&mut self) -> Result<&'a [u8]> {
        let length = self.u64()?;
        let length = usize::try_from(length).map_err(|_| malformed(self.what))?;
        self.take(length)
    }
}

/// A batch as a self-contained Arrow IPC stream.
pub(super) fn stream_of(batch: &RecordBatch) -> Result<Vec<u8>> {
    let mut writer = StreamWriter::try_new(Vec::new(), batch.schema_ref())?;
    writer.write(batch)?;
    Ok(writer.into_inner()?)
}

/// A schema as a stream without rows.
pub(super) fn stream_of_schema(schema: &Schema) -> Result<Vec<u8>> {
    let writer = StreamWriter::try_new(Vec::new(), schema)?;
    Ok(writer.into_inner()?)
}

/// The schema and the batches of a stream. What is no stream, or an invalid one, is an error.
pub(super) fn read_stream(bytes: Buffer, what: &str) -> Result<(SchemaRef, Vec<RecordBatch>)> {
    let wrong = |reason: &str| Error::Damaged(format!("{what} is malformed: {reason}"));
    // Its checksum was right, so it is as it was written. If it was not written by us, the decoder may do what it likes.
    match catch_unwind(AssertUnwindSafe(|| decode_stream(bytes))) {
        Ok(Ok((Some(schema), batches))) => Ok((schema, batches)),
        Ok(Ok((None, _))) => Err(wrong("it has no schema")),
        Ok(Err(error)) => Err(wrong(&error.to_string())),
        Err(_) => Err(wrong("it can't be decoded")),
    }
}

type Stream = (Option<SchemaRef>, Vec<RecordBatch>);

fn decode_stream(bytes: Buffer) -> std::result::Result<Stream, ArrowError> {
    let mut rest = bytes;
    let mut decoder = StreamDecoder::new();
    let mut batches = Vec::new();
    while let Some(batch) = decoder.decode(&mut rest)? {
        batches.push(batch);
    }
    decoder.finish()?;
    Ok((decoder.schema(), batches))
}

/// A batch of columns that are named by their numbers.
pub(crate) fn numbered(columns: Vec<(usize, ArrayRef)>, rows: usize) -> Result<RecordBatch> {
    let fields: Vec<Field> = columns
        .iter()
        .map(|(number, array)| Field::new(number.to_string(), array.data_type().clone(), true))
        .collect();
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(
        Arc::new(Schema::new(fields)),
        arrays,
        &options,
    )?)
}
