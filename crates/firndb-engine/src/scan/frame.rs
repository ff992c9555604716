//! Frames: a caller's record batches, scanned in place.
//!
//! Columns come in the types that operators compute with ([`compute_type`]): strings and binaries as views over the caller's own buffers,
//! decimals as Decimal128, dictionaries and runs unpacked. The conversion happens morsel by morsel as the scan reads.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::error::ArrowError;
use datafusion::common::Statistics;
use datafusion::common::stats::Precision;

use super::source::{MORSEL_ROWS, MorselSource};
use crate::session::Frame;
use crate::types::{flat, one_nan, retyped, says_uuid, stored_field};
use crate::{Error, Result, SqlState};

/// The type in which the engine computes what a foreign Arrow column holds: itself for most.
/// Nested types keep the types of their leaves, as stored tables do.
pub fn compute_type(foreign: &DataType) -> DataType {
    match foreign {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            DataType::Decimal128(*precision, *scale)
        }
        DataType::Decimal256(precision, scale) if *precision <= 38 => {
            DataType::Decimal128(*precision, *scale)
        }
        DataType::Float16 => DataType::Float32,
        DataType::Dictionary(_, values) => compute_type(values),
        DataType::ListView(item) | DataType::LargeListView(item) => {
            DataType::List(Arc::clone(item))
        }
        DataType::RunEndEncoded(_, values) => compute_type(values.data_type()),
        other => other.clone(),
    }
}

/// A field with its [`compute_type`]; name, nullability and metadata stay, what is said within goes to the field itself.
pub fn compute_field(foreign: &Field) -> FieldRef {
    let data_type = match known_bytes(foreign) {
        DataType::Binary => DataType::BinaryView,
        other => compute_type(&other),
    };
    Arc::new(flat(&foreign.clone().with_data_type(data_type)))
}

/// The type of a field whose bytes of fixed size, at any depth, are UUIDs or BLOBs.
fn known_bytes(field: &Field) -> DataType {
    let known =
        |inner: &FieldRef| Arc::new(inner.as_ref().clone().with_data_type(known_bytes(inner)));
    match field.data_type() {
        DataType::FixedSizeBinary(16) if says_uuid(field) => DataType::FixedSizeBinary(16),
        DataType::FixedSizeBinary(_) => DataType::Binary,
        DataType::List(item) => DataType::List(known(item)),
        DataType::LargeList(item) => DataType::LargeList(known(item)),
        DataType::FixedSizeList(item, length) => DataType::FixedSizeList(known(item), *length),
        DataType::Struct(members) => DataType::Struct(members.iter().map(known).collect()),
        DataType::Map(entries, sorted) => DataType::Map(known(entries), *sorted),
        other => other.clone(),
    }
}

/// A schema of [`compute_field`]s.
pub fn compute_schema(foreign: &Schema) -> SchemaRef {
    let fields: Vec<FieldRef> = foreign.fields().iter().map(|f| compute_field(f)).collect();
    Arc::new(Schema::new_with_metadata(
        fields,
        foreign.metadata().clone(),
    ))
}

/// A column as `target`, its [`compute_type`], with one NaN. Strings and binaries keep their data buffers.
pub fn compute_array(
    array: &ArrayRef,
    target: &DataType,
) -> std::result::Result<ArrayRef, ArrowError> {
    one_nan(&decoded(array, target)?)
}

fn decoded(array: &ArrayRef, target: &DataType) -> std::result::Result<ArrayRef, ArrowError> {
    if array.data_type() == target {
        return Ok(Arc::clone(array));
    }
    let strict = CastOptions {
        safe: false,
        ..Default::default()
    };
    // Runs of strings unpack into their own type first.
    if let DataType::RunEndEncoded(_, values) = array.data_type()
        && values.data_type() != target
    {
        let unpacked = cast_with_options(array, values.data_type(), &strict)?;
        return decoded(&unpacked, target);
    }
    // A dictionary may hold a NULL among its values, which the cast to views does not see.
    if let Some(dictionary) = array.as_any_dictionary_opt()
        && dictionary.values().logical_null_count() > 0
    {
        let values = decoded(dictionary.values(), target)?;
        return arrow::compute::take(&values, dictionary.keys(), None);
    }
    match array.data_type() {
        DataType::ListView(item) | DataType::LargeListView(item) => {
            let lists = cast_with_options(array, &DataType::List(Arc::clone(item)), &strict)?;
            retyped(&lists, target)
        }
        nested if nested.is_nested() => retyped(array, target),
        _ => cast_with_options(array, target, &strict),
    }
}

/// Refuses text that is not UTF-8, and dictionaries whose keys lead nowhere: what comes through Arrow's C interface was checked by nobody.
/// 22021 for text.
pub fn check_foreign(array: &ArrayRef) -> Result<()> {
    if !may_be_broken(array.data_type()) {
        return Ok(());
    }
    array.to_data().validate_full().map_err(|error| {
        let message = error.to_string();
        if message.to_lowercase().contains("utf8") || message.to_lowercase().contains("utf-8") {
            Error::new(
                SqlState::CharacterNotInRepertoire,
                "invalid byte sequence for encoding \"UTF8\"",
            )
        } else {
            Error::new(
                SqlState::DataException,
                format!("the Arrow data is not valid: {message}"),
            )
        }
    })
}

/// Whether values of a type refer to others, or are text.
fn may_be_broken(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::BinaryView
        | DataType::Dictionary(_, _)
        | DataType::RunEndEncoded(_, _) => true,
        nested => nested.is_nested(),
    }
}

/// A piece of a batch of the frame.
#[derive(Debug, Clone, Copy)]
struct Piece {
    batch: usize,
    offset: usize,
    rows: usize,
}

/// A frame as a source of morsels: slices of its batches, none across two of them.
#[derive(Debug)]
pub struct FrameSource {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    pieces: Vec<Piece>,
    statistics: Statistics,
    /// Why a column can't be read.
    refusals: Vec<Option<Error>>,
}

impl FrameSource {
    /// Checks that the batches have the frame's columns.
    pub fn new(frame: &Frame) -> Result<Self> {
        for field in frame.schema.fields() {
            // The type that a table would give the column: what none stores, no query reads.
            stored_field(field)?;
        }
        let fields = frame.schema.fields();
        let refusals: Vec<Option<Error>> = fields.iter().map(|f| Frame::refusal(f)).collect();
        let schema = without_refusals(compute_schema(&frame.schema));
        let mut pieces = Vec::new();
        for (batch, rows) in frame.batches.iter().enumerate() {
            let fits = rows.num_columns() == frame.schema.fields().len()
                && rows
                    .columns()
                    .iter()
                    .zip(frame.schema.fields())
                    .all(|(column, field)| column.data_type() == field.data_type());
            if !fits {
                return Err(Error::new(
                    SqlState::DatatypeMismatch,
                    "a batch of the frame does not have the frame's columns",
                ));
            }
            let mut offset = 0;
            while offset < rows.num_rows() {
                let length = MORSEL_ROWS.min(rows.num_rows() - offset);
                pieces.push(Piece {
                    batch,
                    offset,
                    rows: length,
                });
                offset += length;
            }
        }
        let mut statistics = Statistics::new_unknown(&schema);
        let rows: usize = pieces.iter().map(|p| p.rows).sum();
        statistics.num_rows = Precision::Exact(rows);
        for (position, column) in statistics.column_statistics.iter_mut().enumerate() {
            if refusals[position].is_some() {
                continue;
            }
            let nulls = frame
                .batches
                .iter()
                .map(|b| b.column(position).logical_null_count())
                .sum();
            column.null_count = Precision::Exact(nulls);
        }
        statistics.calculate_total_byte_size(&schema);
        Ok(FrameSource {
            schema,
            batches: frame.batches.clone(),
            pieces,
            statistics,
            refusals,
        })
    }
}

/// The schema without what its fields say of why they can't be read.
fn without_refusals(schema: SchemaRef) -> SchemaRef {
    let plain = |field: &FieldRef| match field.metadata().contains_key(Frame::REFUSED) {
        true => {
            let mut metadata = field.metadata().clone();
            metadata.remove(Frame::REFUSED);
            Arc::new(field.as_ref().clone().with_metadata(metadata))
        }
        false => Arc::clone(field),
    };
    let fields: Vec<FieldRef> = schema.fields().iter().map(plain).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

impl MorselSource for FrameSource {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn morsels(&self) -> usize {
        self.pieces.len()
    }

    fn rows(&self, morsel: usize) -> usize {
        self.pieces[morsel].rows
    }

    fn check_readable(&self, projection: &[usize]) -> Result<()> {
        let mut refused = projection
            .iter()
            .filter_map(|&at| self.refusals[at].clone());
        refused.next().map_or(Ok(()), Err)
    }

    fn read(&self, morsel: usize, projection: &[usize]) -> Result<(RecordBatch, bool)> {
        let piece = self.pieces[morsel];
        let rows = self.batches[piece.batch]
            .project(projection)?
            .slice(piece.offset, piece.rows);
        let schema = Arc::new(self.schema.project(projection)?);
        let mut shared = true;
        let mut columns = Vec::with_capacity(projection.len());
        for (column, field) in rows.columns().iter().zip(schema.fields()) {
            check_foreign(column)?;
            let values = compute_array(column, field.data_type())?;
            shared &= Arc::ptr_eq(&values, column);
            columns.push(values);
        }
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(piece.rows));
        let batch = RecordBatch::try_new_with_options(schema, columns, &options)?;
        Ok((batch, shared))
    }

    fn statistics(&self, columns: &[usize]) -> Arc<Statistics> {
        Arc::new(self.statistics.clone().project(Some(&columns.to_vec())))
    }
}
