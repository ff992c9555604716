//! Incoming values: a column of a batch, made ready to be written row by row into hot memory.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, BooleanArray, FixedSizeBinaryArray, PrimitiveArray,
};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal64Type, Decimal128Type, DecimalType};
use arrow_row::{RowConverter, Rows, SortField};

use super::cells::{Physical, Value};
use crate::frozen::as_stored;
use crate::{Error, Result};

/// Where the bytes of a fixed-width or boolean column are, or the values of a variable-length one.
enum Values {
    Bits(BooleanArray),
    Fixed { width: usize, buffer: Buffer },
    Views(BinaryViewArray),
    Blobs(FixedSizeBinaryArray),
    Rows(Rows),
}

/// A column of values.
pub(crate) struct Source {
    nulls: Option<NullBuffer>,
    values: Values,
}

/// A value to be written: words, or bytes that need a place in the heap.
pub(crate) enum Incoming<'a> {
    Words(Value),
    Bytes(&'a [u8]),
}

impl Source {
    /// Takes a column of any type that `Table::insert` takes, to be stored as `stored`.
    pub(crate) fn new(array: &ArrayRef, stored: &DataType) -> Result<Self> {
        let array = to_stored(array, stored)?;
        let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        let values = match Physical::of(stored)? {
            Physical::Bits => Values::Bits(array.as_boolean().clone()),
            Physical::Fixed(width) => {
                let data = array.to_data();
                let buffer =
                    data.buffers()[0].slice_with_length(data.offset() * width, data.len() * width);
                Values::Fixed { width, buffer }
            }
            Physical::View => match array.data_type() {
                DataType::Utf8View => {
                    Values::Views(array.as_string_view().clone().to_binary_view())
                }
                DataType::BinaryView => Values::Views(array.as_binary_view().clone()),
                DataType::FixedSizeBinary(_) => Values::Blobs(array.as_fixed_size_binary().clone()),
                nested => {
                    let converter = RowConverter::new(vec![SortField::new(nested.clone())])?;
                    Values::Rows(converter.convert_columns(&[array])?)
                }
            },
        };
        Ok(Self { nulls, values })
    }

    #[inline]
    pub(crate) fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    /// The value of a row.
    #[inline]
    pub(crate) fn get(&self, row: usize) -> Incoming<'_> {
        if self.is_null(row) {
            return Incoming::Words(Value::NULL);
        }
        let word = match &self.values {
            Values::Bits(bits) => u64::from(bits.value(row)),
            Values::Fixed { width, buffer } => {
                let mut words = [0; 16];
                let from = row * width;
                words[..*width].copy_from_slice(&buffer[from..from + width]);
                let words = super::heap::words_of(u128::from_le_bytes(words));
                return Incoming::Words(Value { valid: true, words });
            }
            Values::Views(views) => return Incoming::Bytes(views.value(row)),
            Values::Blobs(blobs) => return Incoming::Bytes(blobs.value(row)),
            Values::Rows(rows) => return Incoming::Bytes(rows.row(row).data()),
        };
        Incoming::Words(Value {
            valid: true,
            words: [word, 0],
        })
    }
}

/// Casts to the stored type, but strings and binaries to views.
fn to_stored(array: &ArrayRef, stored: &DataType) -> Result<ArrayRef> {
    let array = as_stored(array, stored)?;
    let found = array.data_type();
    match stored {
        DataType::Utf8 if *found != DataType::Utf8View => Ok(cast(&array, &DataType::Utf8View)?),
        DataType::Binary if *found != DataType::BinaryView => {
            Ok(cast(&array, &DataType::BinaryView)?)
        }
        DataType::Decimal64(precision, scale) if found != stored => {
            let refused = |value: String| Error::ValueOutOfRange {
                value,
                data_type: stored.clone(),
            };
            let narrow = match found {
                DataType::Decimal128(..) => array
                    .as_primitive::<Decimal128Type>()
                    .try_unary::<_, Decimal64Type, Error>(|value| {
                        i64::try_from(value)
                            .map_err(|_| refused(Decimal128Type::format_decimal(value, 38, *scale)))
                    })?,
                _ => array.as_primitive::<Decimal64Type>().clone(),
            };
            check_digits(&narrow, *precision, |value| {
                refused(Decimal64Type::format_decimal(value, 18, *scale))
            })?;
            Ok(Arc::new(
                narrow.with_precision_and_scale(*precision, *scale)?,
            ))
        }
        DataType::Decimal128(precision, scale) if found != stored => {
            let wide = match found {
                DataType::Decimal64(..) => array
                    .as_primitive::<Decimal64Type>()
                    .unary::<_, Decimal128Type>(i128::from),
                _ => array.as_primitive::<Decimal128Type>().clone(),
            };
            check_digits(&wide, *precision, |value| Error::ValueOutOfRange {
                value: Decimal128Type::format_decimal(value, 38, *scale),
                data_type: stored.clone(),
            })?;
            Ok(Arc::new(wide.with_precision_and_scale(*precision, *scale)?))
        }
        _ => Ok(array),
    }
}

/// Refuses a decimal with more digits than its type.
fn check_digits<T: DecimalType>(
    array: &PrimitiveArray<T>,
    precision: u8,
    refused: impl Fn(T::Native) -> Error,
) -> Result<()> {
    for value in array.iter().flatten() {
        if !T::is_valid_decimal_precision(value, precision) {
            return Err(refused(value));
        }
    }
    Ok(())
}
