//! How the fields of queries, files and frames are stored, and how stored fields are computed with.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{
    DECIMAL64_MAX_PRECISION, DECIMAL128_MAX_PRECISION, DataType, Field, FieldRef, IntervalUnit,
    TimeUnit,
};

use super::{EXTENSION_KEY, JSON_EXTENSION, LABELS_KEY, TYPE_KEY, UTC, UUID_EXTENSION};
use super::{flat, full};
use crate::{Error, Result};

/// The field that stores what an Arrow field of a query, file or frame holds (CREATE TABLE AS, append to a new table).
pub fn stored_field(field: &Field) -> Result<Field> {
    let field = full(field);
    let stored = match nested(field.name(), &field)? {
        DataType::Decimal128(precision, scale) if precision <= DECIMAL64_MAX_PRECISION => {
            DataType::Decimal64(precision, scale)
        }
        other => other,
    };
    let stored = Field::new(field.name(), stored, field.is_nullable());
    Ok(flat(&stored.with_metadata(kept_metadata(&field))))
}

/// The field of a stored column as operators see it (`firndb_storage::Form::Compute`).
pub fn compute_field(stored: &Field) -> Field {
    let data_type = match stored.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            DataType::Decimal128(*precision, *scale)
        }
        _ => return stored.clone(),
    };
    stored.clone().with_data_type(data_type)
}

/// The stored type at any depth, decimals as `Decimal128`.
fn nested(column: &str, field: &Field) -> Result<DataType> {
    Ok(match field.data_type() {
        DataType::Null => DataType::Int32,
        DataType::Float16 => DataType::Float32,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => DataType::Utf8,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => DataType::Binary,
        DataType::FixedSizeBinary(16) => DataType::FixedSizeBinary(16),
        DataType::FixedSizeBinary(_) => DataType::Binary,
        DataType::Date64 => DataType::Date32,
        DataType::Time32(_) | DataType::Time64(_) => DataType::Time64(TimeUnit::Microsecond),
        DataType::Timestamp(_, zone) => {
            DataType::Timestamp(TimeUnit::Microsecond, zone.as_ref().map(|_| UTC.into()))
        }
        DataType::Duration(_) | DataType::Interval(_) => {
            DataType::Interval(IntervalUnit::MonthDayNano)
        }
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => decimal(column, *precision, *scale)?,
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item) => DataType::List(nested_field(column, "item", item)?),
        DataType::FixedSizeList(item, length) => {
            DataType::FixedSizeList(nested_field(column, "item", item)?, *length)
        }
        DataType::Struct(members) if members.is_empty() => {
            return Err(Error::unsupported(format!(
                "column \"{column}\" holds structs without members, which SQL has not"
            )));
        }
        DataType::Struct(members) => DataType::Struct(
            members
                .iter()
                .map(|member| nested_field(column, member.name(), member))
                .collect::<Result<_>>()?,
        ),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(pair) if pair.len() == 2 => {
                let key = nested_field(column, "key", &pair[0])?
                    .as_ref()
                    .clone()
                    .with_nullable(false);
                let value = nested_field(column, "value", &pair[1])?;
                let pair = DataType::Struct(vec![Arc::new(key), value].into());
                DataType::Map(Arc::new(Field::new("entries", pair, false)), false)
            }
            _ => return Err(unstorable(column, field.data_type())),
        },
        DataType::Dictionary(_, value) => nested(
            column,
            &field.clone().with_data_type(value.as_ref().clone()),
        )?,
        DataType::RunEndEncoded(_, values) => nested(column, values)?,
        DataType::Union(_, _) => return Err(unstorable(column, field.data_type())),
        plain => plain.clone(),
    })
}

fn nested_field(column: &str, name: &str, field: &Field) -> Result<FieldRef> {
    let data_type = nested(column, field)?;
    Ok(Arc::new(
        Field::new(name, data_type, true).with_metadata(kept_metadata(field)),
    ))
}

/// A decimal whose scale lies between 0 and its precision.
fn decimal(column: &str, precision: u8, scale: i8) -> Result<DataType> {
    let (precision, scale) = if scale < 0 {
        (precision.saturating_add(scale.unsigned_abs()), 0)
    } else {
        (precision.max(scale as u8), scale)
    };
    if precision > DECIMAL128_MAX_PRECISION {
        return Err(Error::unsupported(format!(
            "column \"{column}\" has decimals of {precision} digits; {DECIMAL128_MAX_PRECISION} is the most"
        )));
    }
    Ok(DataType::Decimal128(precision, scale))
}

fn unstorable(column: &str, data_type: &DataType) -> Error {
    Error::unsupported(format!(
        "column \"{column}\" has the type {data_type}, which no SQL type stores"
    ))
}

/// The metadata that is part of the SQL type; what a file or frame noted for itself is not.
pub(super) fn kept_metadata(field: &Field) -> HashMap<String, String> {
    field
        .metadata()
        .iter()
        .filter(|(key, value)| match key.as_str() {
            TYPE_KEY | LABELS_KEY => true,
            EXTENSION_KEY => matches!(value.as_str(), UUID_EXTENSION | JSON_EXTENSION),
            _ => false,
        })
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}
