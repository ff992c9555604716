//! What a compiled statement leaves: a count, and at most one row, from which batches are made when somebody asks for them.

use std::sync::Arc;

use arrow::array::{
    ArrayData, ArrayRef, BinaryViewArray, BooleanArray, FixedSizeBinaryArray, RecordBatch,
    RecordBatchOptions, StringViewArray, make_array, new_null_array,
};
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, SchemaRef};
use firndb_storage::{Cell, Row};

use super::value::Kind;
use crate::error::{Error, Result};
use crate::session::Rows;

/// What the rows of a statement look like.
#[derive(Debug)]
pub struct Columns {
    /// As the general way yields them.
    pub schema: SchemaRef,
    /// What the cells of a row are.
    pub kinds: Vec<Kind>,
}

/// What a statement did.
#[derive(Debug)]
pub struct Done {
    /// The command tag.
    pub tag: &'static str,
    /// Rows that were written; `None` for a query.
    pub affected: Option<u64>,
    /// What it yields, if it yields rows.
    pub rows: Option<OneRow>,
}

/// The rows of a statement: one or none.
#[derive(Debug)]
pub struct OneRow {
    /// The columns.
    pub columns: Arc<Columns>,
    /// The row.
    pub row: Option<Row>,
}

impl OneRow {
    /// The row as a batch.
    pub fn batch(&self) -> Result<Option<RecordBatch>> {
        let Some(row) = &self.row else {
            return Ok(None);
        };
        let schema = &self.columns.schema;
        let arrays = schema
            .fields()
            .iter()
            .enumerate()
            .map(|(at, field)| array(row.get(at), field.data_type()))
            .collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        Ok(Some(RecordBatch::try_new_with_options(
            Arc::clone(schema),
            arrays,
            &options,
        )?))
    }

    /// As the result of a session.
    pub fn into_rows(self) -> Result<Rows> {
        let batches = self.batch()?.into_iter().collect();
        Ok(Rows::from_batches(
            Arc::clone(&self.columns.schema),
            batches,
        ))
    }
}

/// A cell as an array of a type of `Form::Compute`.
fn array(cell: Cell<'_>, data_type: &DataType) -> Result<ArrayRef> {
    let fixed = |bits: u128, width: usize| -> Result<ArrayRef> {
        let data = ArrayData::builder(data_type.clone())
            .len(1)
            .add_buffer(Buffer::from(&bits.to_le_bytes()[..width]))
            .align_buffers(true)
            .build()?;
        Ok(make_array(data))
    };
    Ok(match (cell, data_type) {
        (Cell::Null, _) => new_null_array(data_type, 1),
        (Cell::Word(word), DataType::Boolean) => Arc::new(BooleanArray::from(vec![word != 0])),
        // Decimals of few digits are stored in 64 bits.
        (Cell::Word(word), DataType::Decimal128(..)) => fixed(i128::from(word as i64) as u128, 16)?,
        (Cell::Word(word), fixed_width) => match fixed_width.primitive_width() {
            Some(width @ 1..=8) => fixed(word.into(), width)?,
            _ => return Err(mismatch(data_type)),
        },
        (Cell::Wide(wide), DataType::Decimal128(..)) => fixed(wide, 16)?,
        (Cell::Text(text), DataType::Utf8View) => Arc::new(StringViewArray::from(vec![text])),
        (Cell::Bytes(bytes), DataType::BinaryView) => Arc::new(BinaryViewArray::from(vec![bytes])),
        (Cell::Bytes(bytes), DataType::FixedSizeBinary(_)) => {
            Arc::new(FixedSizeBinaryArray::try_from_iter(std::iter::once(bytes))?)
        }
        _ => return Err(mismatch(data_type)),
    })
}

fn mismatch(data_type: &DataType) -> Error {
    Error::internal(format!("a stored value of another type than {data_type}"))
}
