//! One NaN: SQL has one, and IEEE 754 many, with a sign and a payload.
//!
//! Stored values have no other than [`f64::NAN`] and [`f32::NAN`], so that equal values have equal bits (but for the zeros). Bulk
//! loads see to it as they copy, run by run in the first-level cache and on all their threads; whoever writes rows otherwise calls
//! [`one_nan`]. Floating point numbers within lists, structs and maps are the caller's to look after.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Float32Type, Float64Type};

use super::value::Fixed;
use crate::Result;

/// The values of a floating point column with one NaN; `None` if they have no other, or are of another type.
pub fn one_nan(values: &ArrayRef) -> Option<ArrayRef> {
    match values.data_type() {
        DataType::Float64 => {
            let values = values.as_primitive::<Float64Type>();
            f64::has_other_nan(values.values())
                .then(|| Arc::new(values.unary::<_, Float64Type>(f64::one_nan)) as ArrayRef)
        }
        DataType::Float32 => {
            let values = values.as_primitive::<Float32Type>();
            f32::has_other_nan(values.values())
                .then(|| Arc::new(values.unary::<_, Float32Type>(f32::one_nan)) as ArrayRef)
        }
        _ => None,
    }
}

/// Rows whose floating point columns have one NaN: the same, where they hold no other.
///
/// # Errors
/// None of its own: the columns fit the rows as they did.
pub fn rows_with_one_nan(rows: RecordBatch) -> Result<RecordBatch> {
    let changed: Vec<Option<ArrayRef>> = rows.columns().iter().map(one_nan).collect();
    if changed.iter().all(Option::is_none) {
        return Ok(rows);
    }
    let columns = changed
        .into_iter()
        .zip(rows.columns())
        .map(|(changed, given)| changed.unwrap_or_else(|| Arc::clone(given)));
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    Ok(RecordBatch::try_new_with_options(
        rows.schema(),
        columns.collect(),
        &options,
    )?)
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, Float32Array, Float64Array};
    use arrow::datatypes::{Field, Schema};

    use super::*;
    use crate::frozen::build_extents;
    use crate::memory::{Arena, Budget};

    #[test]
    fn a_load_stores_one_nan_wherever_another_stands() {
        // Runs of 4,096, writes of 16,384 values.
        const ROWS: usize = 70_000;
        let others = [0, 1, 4_095, 4_096, 16_383, 16_384, 40_000, ROWS - 1];
        let value = |row: usize| match row {
            row if others.contains(&row) => -f64::NAN,
            row if row % 1_000 == 7 => f64::NAN,
            row if row % 1_000 == 8 => -0.0,
            row => row as f64,
        };
        let doubles = Float64Array::from_iter((0..ROWS).map(|row| Some(value(row))));
        let reals =
            Float32Array::from_iter((0..ROWS).map(|row| (row % 3 > 0).then(|| value(row) as f32)));
        let field = |name, of: &dyn Array| Field::new(name, of.data_type().clone(), true);
        let schema = Arc::new(Schema::new(vec![field("d", &doubles), field("r", &reals)]));
        let columns: Vec<ArrayRef> = vec![Arc::new(doubles), Arc::new(reals.clone())];
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns).expect("a batch");
        let arena = Arena::new(&Budget::new(None)).expect("an arena");
        let extents = build_extents(&arena, &schema, &[batch], &[ROWS], 1).expect("an extent");
        let stored = extents[0].column(0).array().as_primitive::<Float64Type>();
        let stored_reals = extents[0].column(1).array().as_primitive::<Float32Type>();
        for row in 0..ROWS {
            assert_eq!(stored.value(row).to_bits(), value(row).one_nan().to_bits());
            assert_eq!(stored_reals.is_null(row), reals.is_null(row));
            if reals.is_valid(row) {
                let expected = reals.value(row).one_nan();
                assert_eq!(stored_reals.value(row).to_bits(), expected.to_bits());
            }
        }
    }

    #[test]
    fn a_column_without_another_nan_stays() {
        let values: ArrayRef = Arc::new(Float64Array::from(vec![f64::NAN, -0.0, 1.0]));
        assert!(one_nan(&values).is_none());
    }
}
