//! Keys: the values of an index's columns as one comparable thing.
//!
//! A key of one integer, date, time, timestamp or short decimal is a number; any other is a string of bytes that orders
//! as the columns do one after the other (Arrow's row format). SQL's equality is made the keys' equality:
//! -0.0 becomes 0.0, and every NaN the same one.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::types::*;
use arrow::array::{Array, ArrayData, ArrayRef, AsArray, make_array};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use arrow_row::{RowConverter, SortField};

use crate::frozen::as_stored;
use crate::{Error, Result};

/// An encoded key: compares as the values do, column by column. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A key of one integer-like column.
    Integer(u64),
    /// Any other key.
    Bytes(Arc<[u8]>),
}

/// Encodes the values of an index's columns.
pub struct KeyEncoder {
    types: Vec<DataType>,
    /// Whether keys are numbers.
    integer: bool,
    converter: RowConverter,
}

impl KeyEncoder {
    /// An encoder for columns of these stored types; `Arrow` for types that cannot be indexed (nested ones, intervals).
    pub fn new(types: &[DataType]) -> Result<Self> {
        let unordered =
            |stored: &&DataType| stored.is_nested() || matches!(stored, DataType::Interval(_));
        if let Some(stored) = types.iter().find(unordered) {
            return Err(ArrowError::NotYetImplemented(format!("keys of type {stored}")).into());
        }
        if types.is_empty() {
            return Err(ArrowError::InvalidArgumentError("a key without columns".into()).into());
        }
        let fields = types.iter().cloned().map(SortField::new).collect();
        Ok(Self {
            types: types.to_vec(),
            integer: is_integer(types),
            converter: RowConverter::new(fields)?,
        })
    }

    /// One key a row, `None` where any column is null. The columns may have any `Form`, or the types that `Table::insert` takes.
    pub fn encode(&self, columns: &[ArrayRef]) -> Result<Vec<Option<Key>>> {
        if columns.len() != self.types.len() {
            return Err(Error::Internal(format!(
                "{} columns for a key of {}",
                columns.len(),
                self.types.len()
            )));
        }
        let columns: Vec<ArrayRef> = columns
            .iter()
            .zip(&self.types)
            .map(|(column, stored)| exact(column, stored))
            .collect::<Result<_>>()?;
        let nulls = columns.iter().fold(None, |all, column| {
            NullBuffer::union(all.as_ref(), column.nulls())
        });
        let valid = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        if self.integer {
            let numbers = numbers(&columns[0])?;
            let key = |(row, number)| valid(row).then_some(Key::Integer(number));
            return Ok(numbers.into_iter().enumerate().map(key).collect());
        }
        let rows = self.converter.convert_columns(&columns)?;
        let key = |row: usize| valid(row).then(|| Key::Bytes(rows.row(row).data().into()));
        Ok((0..rows.num_rows()).map(key).collect())
    }

    /// The key as text for messages: its values, separated by ", ".
    pub fn display(&self, key: &Key) -> Result<String> {
        let columns = match key {
            Key::Integer(number) => vec![array_of(*number, &self.types[0])?],
            Key::Bytes(bytes) => self
                .converter
                .convert_rows([self.converter.parser().parse(bytes)])?,
        };
        let options = FormatOptions::new()
            .with_timestamp_format(Some("%Y-%m-%d %H:%M:%S%.f"))
            .with_timestamp_tz_format(Some("%Y-%m-%d %H:%M:%S%.f%:z"));
        let text = |column: &ArrayRef| -> Result<String> {
            Ok(ArrayFormatter::try_new(column.as_ref(), &options)?
                .value(0)
                .try_to_string()?)
        };
        Ok(columns
            .iter()
            .map(text)
            .collect::<Result<Vec<_>>>()?
            .join(", "))
    }

    /// Whether the keys are [`Key::Integer`].
    pub(super) fn is_integer(&self) -> bool {
        self.integer
    }
}

impl std::fmt::Debug for KeyEncoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyEncoder")
            .field("types", &self.types)
            .finish_non_exhaustive()
    }
}

/// Orders an entry of bytes and a slot without owning the bytes.
#[derive(Debug)]
pub(super) struct Probe<'a>(pub(super) &'a [u8], pub(super) u64);

impl scc::Equivalent<(Arc<[u8]>, u64)> for Probe<'_> {
    fn equivalent(&self, entry: &(Arc<[u8]>, u64)) -> bool {
        self.1 == entry.1 && *self.0 == *entry.0
    }
}

impl scc::Comparable<(Arc<[u8]>, u64)> for Probe<'_> {
    fn compare(&self, entry: &(Arc<[u8]>, u64)) -> Ordering {
        self.0.cmp(&entry.0).then(self.1.cmp(&entry.1))
    }
}

fn is_integer(types: &[DataType]) -> bool {
    let [stored] = types else { return false };
    stored.is_integer()
        || matches!(
            stored,
            DataType::Date32
                | DataType::Time64(_)
                | DataType::Timestamp(..)
                | DataType::Decimal64(..)
        )
}

/// The column in just its stored type, floats in the one form of each value.
fn exact(column: &ArrayRef, stored: &DataType) -> Result<ArrayRef> {
    let column = as_stored(column, stored)?;
    let column = if column.data_type() == stored {
        column
    } else {
        let options = CastOptions {
            safe: false,
            ..CastOptions::default()
        };
        cast_with_options(&column, stored, &options)?
    };
    macro_rules! one_of_each {
        ($float:ty, $one:expr) => {
            Arc::new(column.as_primitive::<$float>().unary::<_, $float>($one)) as ArrayRef
        };
    }
    Ok(match stored {
        DataType::Float32 => one_of_each!(Float32Type, |value| if value.is_nan() {
            f32::NAN
        } else {
            value + 0.0
        }),
        DataType::Float64 => one_of_each!(Float64Type, |value| if value.is_nan() {
            f64::NAN
        } else {
            value + 0.0
        }),
        _ => column,
    })
}

/// Moves the sign: signed numbers order as unsigned ones then.
const SIGN: u64 = 1 << 63;

/// The numbers of an integer-like column; anything where it is null.
fn numbers(column: &ArrayRef) -> Result<Vec<u64>> {
    macro_rules! signed {
        ($type:ty) => {
            column
                .as_primitive::<$type>()
                .values()
                .iter()
                .map(|&value| (i64::from(value) as u64) ^ SIGN)
                .collect()
        };
    }
    macro_rules! unsigned {
        ($type:ty) => {
            column
                .as_primitive::<$type>()
                .values()
                .iter()
                .map(|&value| u64::from(value))
                .collect()
        };
    }
    Ok(match column.data_type() {
        DataType::Int8 => signed!(Int8Type),
        DataType::Int16 => signed!(Int16Type),
        DataType::Int32 => signed!(Int32Type),
        DataType::Int64 => signed!(Int64Type),
        DataType::UInt8 => unsigned!(UInt8Type),
        DataType::UInt16 => unsigned!(UInt16Type),
        DataType::UInt32 => unsigned!(UInt32Type),
        DataType::UInt64 => unsigned!(UInt64Type),
        DataType::Date32 => signed!(Date32Type),
        DataType::Time64(_) => signed!(Time64MicrosecondType),
        DataType::Timestamp(..) => signed!(TimestampMicrosecondType),
        DataType::Decimal64(..) => signed!(Decimal64Type),
        other => return Err(Error::Internal(format!("integer keys of type {other}"))),
    })
}

/// The one value that has this number.
fn array_of(number: u64, stored: &DataType) -> Result<ArrayRef> {
    let signed = (number ^ SIGN) as i64;
    let values = match stored {
        DataType::Int8 => Buffer::from_vec(vec![signed as i8]),
        DataType::Int16 => Buffer::from_vec(vec![signed as i16]),
        DataType::Int32 | DataType::Date32 => Buffer::from_vec(vec![signed as i32]),
        DataType::UInt8 => Buffer::from_vec(vec![number as u8]),
        DataType::UInt16 => Buffer::from_vec(vec![number as u16]),
        DataType::UInt32 => Buffer::from_vec(vec![number as u32]),
        DataType::UInt64 => Buffer::from_vec(vec![number]),
        _ => Buffer::from_vec(vec![signed]),
    };
    Ok(make_array(
        ArrayData::builder(stored.clone())
            .len(1)
            .add_buffer(values)
            .build()?,
    ))
}
