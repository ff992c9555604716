//! Answers of a few rows: what SHOW and PRAGMA yield.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{Field, Schema};

use crate::error::Result;
use crate::session::{Outcome, Rows};

/// Rows of a few columns.
pub(super) fn table(columns: &[(&str, ArrayRef)]) -> Result<Outcome> {
    let fields: Vec<Field> = columns
        .iter()
        .map(|(name, column)| Field::new(*name, column.data_type().clone(), true))
        .collect();
    let schema = Arc::new(Schema::new(fields));
    let arrays = columns
        .iter()
        .map(|(_, column)| Arc::clone(column))
        .collect();
    let batch = RecordBatch::try_new(Arc::clone(&schema), arrays)?;
    Ok(Outcome::rows(
        "SHOW",
        Rows::from_batches(schema, vec![batch]),
    ))
}

/// A column of texts.
pub(super) fn strings<'a>(values: impl IntoIterator<Item = &'a str>) -> ArrayRef {
    let array: StringArray = values.into_iter().map(Some).collect();
    Arc::new(array)
}
