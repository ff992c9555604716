//! Forms: the Arrow types in which stored columns are handed out.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryViewArray, Decimal128Array, StringViewArray};
use arrow::datatypes::{DataType, Decimal64Type, Field, Schema, SchemaRef};

use crate::Result;

/// The Arrow types that a scan hands out for stored columns.
///
/// Stored types: Boolean, Int8..64, UInt8..64, Float32/64, Decimal64 (precision ≤ 18), Decimal128 (Decimal256 is refused),
/// Date32, Time64(µs), Timestamp(µs, any zone), Interval(MonthDayNano), FixedSizeBinary(n), Utf8, Binary, and nested
/// List, Struct, Map, FixedSizeList of those (their leaves stay as declared).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// What operators compute with: Utf8 as Utf8View, Binary as BinaryView, Decimal64 as Decimal128 (same precision and scale).
    Compute,
    /// What Arrow consumers can compute with: Utf8 (offsets), Binary (offsets), Decimal128.
    Consumer,
    /// As it lies in frozen memory: Utf8View, BinaryView, Decimal64.
    Native,
    /// The stored types themselves, as the database file and its log have them.
    Stored,
}

impl Form {
    /// The schema of a scan in this form: the same names, nullability and metadata with the types of [`Form::data_type`].
    pub fn schema(self, stored: &SchemaRef) -> SchemaRef {
        if stored
            .fields()
            .iter()
            .all(|field| self.data_type(field.data_type()) == *field.data_type())
        {
            return Arc::clone(stored);
        }
        let fields: Vec<Arc<Field>> = stored
            .fields()
            .iter()
            .map(|field| {
                Arc::new(
                    field
                        .as_ref()
                        .clone()
                        .with_data_type(self.data_type(field.data_type())),
                )
            })
            .collect();
        Arc::new(Schema::new_with_metadata(fields, stored.metadata().clone()))
    }

    /// The type in which a column of type `stored` is handed out.
    pub fn data_type(self, stored: &DataType) -> DataType {
        match (stored, self) {
            (DataType::Utf8, Form::Compute | Form::Native) => DataType::Utf8View,
            (DataType::Binary, Form::Compute | Form::Native) => DataType::BinaryView,
            (DataType::Decimal64(precision, scale), Form::Compute | Form::Consumer) => {
                DataType::Decimal128(*precision, *scale)
            }
            _ => stored.clone(),
        }
    }

    /// Turns an array of a stored type into this form. Views share the array's heap; decimals are widened.
    pub fn apply(self, stored: &ArrayRef) -> Result<ArrayRef> {
        Ok(match (stored.data_type(), self) {
            (DataType::Utf8, Form::Compute | Form::Native) => {
                Arc::new(StringViewArray::from(stored.as_string::<i32>()))
            }
            (DataType::Binary, Form::Compute | Form::Native) => {
                Arc::new(BinaryViewArray::from(stored.as_binary::<i32>()))
            }
            (DataType::Decimal64(precision, scale), Form::Compute | Form::Consumer) => {
                let narrow = stored.as_primitive::<Decimal64Type>();
                let values = narrow
                    .values()
                    .iter()
                    .map(|&value| i128::from(value))
                    .collect::<Vec<_>>();
                let wide = Decimal128Array::try_new(values.into(), narrow.nulls().cloned())?;
                Arc::new(wide.with_precision_and_scale(*precision, *scale)?)
            }
            _ => Arc::clone(stored),
        })
    }
}
