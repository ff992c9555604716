//! `hash(a, b, …)`: 64 bits that equal values share, from the bytes by which rows are compared (XXH3).
//!
//! The numbers are the same in every run of one version; they are not DuckDB's. NULL has a hash, too. Numbers of one value and of
//! different types have different hashes.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float32Array, Float64Array, UInt64Array};
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use arrow::row::{RowConverter, SortField};
use datafusion::common::Result;
use xxhash_rust::xxh3::xxh3_64;

use super::kernel::{Kernel, Takes};

/// The function of this module.
pub(super) fn kernel() -> Kernel {
    Kernel {
        name: "hash",
        aliases: &[],
        takes: &[Takes::Any],
        arguments: (1, usize::MAX),
        yields: |types| {
            let fields: Vec<SortField> = types.iter().cloned().map(SortField::new).collect();
            RowConverter::supports_fields(&fields).then_some(DataType::UInt64)
        },
        run: hashes,
    }
}

fn hashes(args: &[ArrayRef]) -> Result<ArrayRef> {
    let columns: Vec<ArrayRef> = args.iter().map(one_zero).collect();
    let fields = columns
        .iter()
        .map(|column| SortField::new(column.data_type().clone()));
    let converter = RowConverter::new(fields.collect())?;
    let rows = converter.convert_columns(&columns)?;
    let hashes = rows.iter().map(|row| xxh3_64(row.data()));
    Ok(Arc::new(UInt64Array::from_iter_values(hashes)))
}

/// Floating point numbers with one zero and one NaN.
fn one_zero(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Float64 => {
            let one = |value: f64| {
                if value.is_nan() {
                    f64::NAN
                } else {
                    value + 0.0
                }
            };
            let values: Float64Array = column.as_primitive::<Float64Type>().unary(one);
            Arc::new(values)
        }
        DataType::Float32 => {
            let one = |value: f32| {
                if value.is_nan() {
                    f32::NAN
                } else {
                    value + 0.0
                }
            };
            let values: Float32Array = column.as_primitive::<Float32Type>().unary(one);
            Arc::new(values)
        }
        _ => Arc::clone(column),
    }
}
