//! Keys: the values of an index's columns as one comparable thing.
//!
//! A key of one integer, date, time, timestamp or short decimal is a number; any other is a string of bytes that orders
//! as the columns do one after the other (Arrow's row format). SQL's equality is made the keys' equality:
//! -0.0 becomes 0.0, and every NaN the same one. A row with a NULL in its key has no key where keys are unique, and one otherwise.

use std::sync::Arc;

use arrow::array::types::*;
use arrow::array::{Array, ArrayData, ArrayRef, AsArray, make_array};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::compute::{CastOptions, SortOptions, cast_with_options};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use arrow_row::{RowConverter, SortField};

use crate::cell::{Cell, array_of as array_of_cell};
use crate::frozen::as_stored;
use crate::{Error, Result};

/// An encoded key: compares as the values do, column by column. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A key of one integer-like column.
    Integer(u64),
    /// Any other key.
    Bytes(Arc<[u8]>),
    /// The NULL of one integer-like column, in an index that has entries for NULLs.
    Null,
}

/// Encodes the values of an index's columns.
pub struct KeyEncoder {
    types: Vec<DataType>,
    /// How each column orders, where keys are bytes.
    order: Vec<SortOptions>,
    /// Whether NULLs make keys.
    nulls: bool,
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
        let order = vec![SortOptions::default(); types.len()];
        Ok(Self {
            types: types.to_vec(),
            integer: is_integer(types),
            converter: converter(types, &order)?,
            order,
            nulls: false,
        })
    }

    /// As [`new`](Self::new), with keys for NULLs too and an order for each column. Numbers ascend whatever their order, and the NULLs among them stand apart.
    pub fn with_nulls(types: &[DataType], order: &[SortOptions]) -> Result<Self> {
        let plain = Self::new(types)?;
        let default = || std::iter::repeat(SortOptions::default());
        let order: Vec<SortOptions> = order
            .iter()
            .copied()
            .chain(default())
            .take(types.len())
            .collect();
        Ok(Self {
            converter: converter(types, &order)?,
            order,
            nulls: true,
            ..plain
        })
    }

    /// One key a row; where any column is null, `None` unless NULLs make keys. The columns may have any `Form`, or the types that `Table::insert` takes.
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
            let key = |(row, number)| match valid(row) {
                true => Some(Key::Integer(number)),
                false => self.nulls.then_some(Key::Null),
            };
            return Ok(numbers.into_iter().enumerate().map(key).collect());
        }
        let rows = self.converter.convert_columns(&columns)?;
        let key = |row: usize| {
            (self.nulls || valid(row)).then(|| Key::Bytes(rows.row(row).data().into()))
        };
        Ok((0..rows.num_rows()).map(key).collect())
    }

    /// The key of one row, given by the cells of the index's columns; where one is null, `None` unless NULLs make keys.
    pub(crate) fn encode_cells(&self, cells: &[Cell<'_>]) -> Result<Option<Key>> {
        if cells.iter().any(Cell::is_null) {
            if !self.nulls {
                return Ok(None);
            }
            if self.integer {
                return Ok(Some(Key::Null));
            }
        }
        if self.integer
            && let [Cell::Word(word)] = cells
        {
            return Ok(Some(Key::Integer(number_of(*word, &self.types[0]))));
        }
        let columns = cells
            .iter()
            .zip(&self.types)
            .map(|(&cell, stored)| array_of_cell(cell, stored))
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| Error::Internal("a key of other types than its index".into()))?;
        Ok(self.encode(&columns)?.pop().flatten())
    }

    /// The key as text for messages: its values, separated by ", ".
    pub fn display(&self, key: &Key) -> Result<String> {
        let columns = match key {
            Key::Integer(number) => vec![array_of(*number, &self.types[0])?],
            Key::Null => return Ok("NULL".to_owned()),
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

    /// Another encoder of the same keys.
    pub(crate) fn same(&self) -> Result<Self> {
        Ok(Self {
            types: self.types.clone(),
            order: self.order.clone(),
            converter: converter(&self.types, &self.order)?,
            ..*self
        })
    }

    /// How a key column orders.
    pub(crate) fn order(&self, column: usize) -> SortOptions {
        self.order.get(column).copied().unwrap_or_default()
    }

    /// The bytes that the first values of a key make: those of all keys that begin with them begin so. One row.
    pub(super) fn prefix(&self, values: &[ArrayRef]) -> Result<Vec<u8>> {
        if values.is_empty() {
            return Ok(Vec::new());
        }
        let types = self.types.get(..values.len()).ok_or_else(|| {
            Error::Internal(format!(
                "{} columns for a key of {}",
                values.len(),
                self.types.len()
            ))
        })?;
        let values: Vec<ArrayRef> = values
            .iter()
            .zip(types)
            .map(|(value, stored)| exact(value, stored))
            .collect::<Result<_>>()?;
        let rows = converter(types, &self.order[..types.len()])?.convert_columns(&values)?;
        Ok(rows.row(0).data().to_vec())
    }

    /// The number of one value; `None` of NULL.
    pub(super) fn number(&self, value: &ArrayRef) -> Result<Option<u64>> {
        let value = exact(value, &self.types[0])?;
        if value.is_null(0) {
            return Ok(None);
        }
        Ok(numbers(&value)?.first().copied())
    }

    /// Whether the keys are [`Key::Integer`].
    pub(crate) fn is_integer(&self) -> bool {
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

fn converter(types: &[DataType], order: &[SortOptions]) -> Result<RowConverter> {
    let fields = types.iter().zip(order);
    let fields = fields.map(|(stored, order)| SortField::new_with_options(stored.clone(), *order));
    Ok(RowConverter::new(fields.collect())?)
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

/// The number of a value of an integer-like type, given by its bits.
fn number_of(word: u64, stored: &DataType) -> u64 {
    let signed = match stored {
        DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64 => return word,
        DataType::Int8 => i64::from(word as i8),
        DataType::Int16 => i64::from(word as i16),
        DataType::Int32 | DataType::Date32 => i64::from(word as i32),
        _ => word as i64,
    };
    signed as u64 ^ SIGN
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
