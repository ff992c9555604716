//! Values of compiled statements: what comes in, and how it becomes what a column stores.
//!
//! A [`Datum`] is a parameter or a literal, with the types that the planner would give its text. Only conversions that lose nothing
//! and depend on nothing are made here ([`Kind::assigned`], [`Kind::compared`]): all others are `None`, and the statement takes the
//! general way, which rounds, parses or refuses.

use datafusion::scalar::ScalarValue;
use firndb_storage::Cell;

use arrow::datatypes::{DataType, Field, TimeUnit};

use crate::expr::POWERS;
use crate::types::Refinement;

/// A value that a statement is given.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Datum<'a> {
    /// NULL.
    Null,
    /// A boolean.
    Boolean(bool),
    /// An integer.
    Integer(i64),
    /// A floating point number.
    Float(f64),
    /// A decimal: unscaled value, scale.
    Decimal(i128, i8),
    /// Text.
    Text(&'a str),
    /// Bytes.
    Bytes(&'a [u8]),
    /// Days since 1970-01-01.
    Date(i32),
    /// Microseconds of a day.
    Time(i64),
    /// Microseconds since 1970-01-01 of a clock without zone.
    Timestamp(i64),
    /// Microseconds since 1970-01-01 UTC.
    Instant(i64),
    /// A UUID's 16 bytes.
    Uuid(&'a [u8]),
}

impl<'a> Datum<'a> {
    /// The data of values; `None` if there is one that only the general way knows.
    pub fn all(values: &'a [ScalarValue]) -> Option<Vec<Datum<'a>>> {
        values.iter().map(Datum::of).collect()
    }

    /// The datum of a value; `None` for what only the general way knows.
    pub fn of(value: &'a ScalarValue) -> Option<Datum<'a>> {
        Some(match value {
            ScalarValue::Null => Datum::Null,
            ScalarValue::Boolean(Some(value)) => Datum::Boolean(*value),
            ScalarValue::Int8(Some(value)) => Datum::Integer((*value).into()),
            ScalarValue::Int16(Some(value)) => Datum::Integer((*value).into()),
            ScalarValue::Int32(Some(value)) => Datum::Integer((*value).into()),
            ScalarValue::Int64(Some(value)) => Datum::Integer(*value),
            ScalarValue::UInt8(Some(value)) => Datum::Integer((*value).into()),
            ScalarValue::UInt16(Some(value)) => Datum::Integer((*value).into()),
            ScalarValue::UInt32(Some(value)) => Datum::Integer((*value).into()),
            ScalarValue::UInt64(Some(value)) => Datum::Integer(i64::try_from(*value).ok()?),
            ScalarValue::Float64(Some(value)) => Datum::Float(*value),
            ScalarValue::Decimal128(Some(value), _, scale) => Datum::Decimal(*value, *scale),
            ScalarValue::Utf8(Some(text))
            | ScalarValue::LargeUtf8(Some(text))
            | ScalarValue::Utf8View(Some(text)) => Datum::Text(text),
            ScalarValue::Binary(Some(bytes)) => Datum::Bytes(bytes),
            ScalarValue::Date32(Some(days)) => Datum::Date(*days),
            ScalarValue::Time64Microsecond(Some(time)) => Datum::Time(*time),
            ScalarValue::TimestampMicrosecond(Some(stamp), None) => Datum::Timestamp(*stamp),
            ScalarValue::TimestampMicrosecond(Some(stamp), Some(zone))
                if zone.as_ref() == "UTC" =>
            {
                Datum::Instant(*stamp)
            }
            ScalarValue::FixedSizeBinary(16, Some(bytes)) => Datum::Uuid(bytes),
            _ => return None,
        })
    }
}

/// What a column holds, as far as single values of it are read and written without a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Booleans.
    Boolean,
    /// Integers of so many bits, with a sign.
    Signed(u32),
    /// Integers of so many bits, without.
    Unsigned(u32),
    /// Single precision.
    Real,
    /// Double precision.
    Double,
    /// Decimals.
    Decimal {
        /// Digits.
        precision: u8,
        /// Digits after the point.
        scale: i8,
        /// Whether they are stored in 128 bits.
        wide: bool,
    },
    /// Text of at most so many characters.
    Text(usize),
    /// Text that is held to a rule: CHAR(n), JSON, enums.
    RuledText,
    /// Bytes.
    Bytes,
    /// Days.
    Date,
    /// Microseconds of a day.
    Time,
    /// Timestamps without zone.
    Timestamp,
    /// Timestamps with zone.
    Instant,
    /// UUIDs.
    Uuid,
}

impl Kind {
    /// The kind of a stored column; `None` for types that only the general way reads.
    pub fn of(stored: &Field) -> Option<Kind> {
        if let Refinement::Digits(_) = Refinement::of(stored) {
            return None;
        }
        Some(match stored.data_type() {
            DataType::Boolean => Kind::Boolean,
            DataType::Int8 => Kind::Signed(8),
            DataType::Int16 => Kind::Signed(16),
            DataType::Int32 => Kind::Signed(32),
            DataType::Int64 => Kind::Signed(64),
            DataType::UInt8 => Kind::Unsigned(8),
            DataType::UInt16 => Kind::Unsigned(16),
            DataType::UInt32 => Kind::Unsigned(32),
            DataType::UInt64 => Kind::Unsigned(64),
            DataType::Float32 => Kind::Real,
            DataType::Float64 => Kind::Double,
            DataType::Decimal64(precision, scale) => Kind::Decimal {
                precision: *precision,
                scale: *scale,
                wide: false,
            },
            DataType::Decimal128(precision, scale) => Kind::Decimal {
                precision: *precision,
                scale: *scale,
                wide: true,
            },
            DataType::Utf8 => match Refinement::of(stored) {
                Refinement::None => Kind::Text(usize::MAX),
                Refinement::Length(most, false) => Kind::Text(most),
                _ => Kind::RuledText,
            },
            DataType::Binary => Kind::Bytes,
            DataType::Date32 => Kind::Date,
            DataType::Time64(TimeUnit::Microsecond) => Kind::Time,
            DataType::Timestamp(TimeUnit::Microsecond, None) => Kind::Timestamp,
            DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => Kind::Instant,
            DataType::FixedSizeBinary(16) if Refinement::of(stored) == Refinement::Uuid => {
                Kind::Uuid
            }
            _ => return None,
        })
    }

    /// The value as the column stores it, where assignment changes nothing of it.
    pub fn assigned<'a>(self, datum: Datum<'a>) -> Option<Cell<'a>> {
        Some(match (self, datum) {
            (_, Datum::Null) => Cell::Null,
            (Kind::Double, Datum::Float(value)) => double(value),
            (Kind::Double, Datum::Integer(value)) => double(value as f64),
            (Kind::Real, Datum::Float(value)) => {
                let narrow = value as f32;
                if !narrow.is_finite() || (narrow == 0.0 && value != 0.0) {
                    return None;
                }
                Cell::Word(narrow.to_bits().into())
            }
            (Kind::Text(most), Datum::Text(text)) => {
                // As many bytes are at least as many characters.
                if text.len() > most && text.chars().count() > most {
                    return None;
                }
                Cell::Text(text)
            }
            (Kind::Bytes, Datum::Bytes(bytes)) => Cell::Bytes(bytes),
            (Kind::Decimal { .. }, _) => self.decimal(datum)?,
            _ => return self.exact(datum),
        })
    }

    /// The value as a key of the column, where comparing the two converts neither.
    pub fn compared<'a>(self, datum: Datum<'a>) -> Option<Cell<'a>> {
        match (self, datum) {
            (Kind::Text(_), Datum::Text(text)) => Some(Cell::Text(text)),
            (Kind::Decimal { wide: false, .. }, _) => self.decimal(datum),
            (Kind::Boolean, _) => None,
            _ => self.exact(datum),
        }
    }

    fn exact<'a>(self, datum: Datum<'a>) -> Option<Cell<'a>> {
        Some(match (self, datum) {
            (Kind::Boolean, Datum::Boolean(value)) => Cell::Word(value.into()),
            (Kind::Signed(_) | Kind::Unsigned(_), Datum::Integer(value)) => {
                self.integer(value.into())?
            }
            (Kind::Date, Datum::Date(days)) => Cell::Word(u64::from(days as u32)),
            (Kind::Time, Datum::Time(time)) => Cell::Word(time as u64),
            (Kind::Timestamp, Datum::Timestamp(stamp)) | (Kind::Instant, Datum::Instant(stamp)) => {
                Cell::Word(stamp as u64)
            }
            (Kind::Uuid, Datum::Uuid(bytes)) => Cell::Bytes(bytes),
            _ => return None,
        })
    }

    /// An integer as the column stores it, if it is in its range.
    fn integer(self, value: i128) -> Option<Cell<'static>> {
        let (least, most, bits) = match self {
            Kind::Signed(bits) => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1, bits),
            Kind::Unsigned(bits) => (0, (1 << bits) - 1, bits),
            _ => return None,
        };
        (least..=most)
            .contains(&value)
            .then(|| Cell::Word(value as u64 & (u64::MAX >> (64 - bits))))
    }

    /// A number of no more decimals than the column has.
    fn decimal(self, datum: Datum<'_>) -> Option<Cell<'static>> {
        let Kind::Decimal { scale, .. } = self else {
            return None;
        };
        let (value, given) = match datum {
            Datum::Integer(value) => (i128::from(value), 0),
            Datum::Decimal(value, given) => (value, given),
            _ => return None,
        };
        let shift = usize::try_from(scale.checked_sub(given)?).ok()?;
        self.unscaled(value.checked_mul(*POWERS.get(shift)?)?)
    }

    fn unscaled(self, value: i128) -> Option<Cell<'static>> {
        let Kind::Decimal {
            precision, wide, ..
        } = self
        else {
            return None;
        };
        if value.unsigned_abs() >= POWERS.get(usize::from(precision))?.unsigned_abs() {
            return None;
        }
        Some(match wide {
            true => Cell::Wide(value as u128),
            false => Cell::Word(value as i64 as u64),
        })
    }

    /// The sum of a stored value and what is added to it (or taken away), where nothing overflows or is rounded.
    pub(super) fn sum(
        self,
        stored: Cell<'_>,
        datum: Datum<'_>,
        minus: bool,
    ) -> Option<Cell<'static>> {
        if stored.is_null() {
            // NULL, if the other operand is one that arithmetic takes.
            return self.addend(datum).map(|_| Cell::Null);
        }
        match self.addend(datum)? {
            Addend::Exact(addend) => {
                let stored = self.number(stored)?;
                let sum = match minus {
                    true => stored.checked_sub(addend)?,
                    false => stored.checked_add(addend)?,
                };
                match self {
                    Kind::Decimal { .. } => self.unscaled(sum),
                    _ => self.integer(sum),
                }
            }
            Addend::Float(addend) => {
                let Cell::Word(bits) = stored else {
                    return None;
                };
                let stored = f64::from_bits(bits);
                let sum = if minus {
                    stored - addend
                } else {
                    stored + addend
                };
                sum.is_finite().then(|| double(sum))
            }
        }
    }

    fn addend(self, datum: Datum<'_>) -> Option<Addend> {
        match (self, datum) {
            (Kind::Signed(_) | Kind::Unsigned(8 | 16 | 32), Datum::Integer(value)) => {
                Some(Addend::Exact(value.into()))
            }
            (Kind::Decimal { wide: false, .. }, Datum::Integer(_) | Datum::Decimal(..)) => {
                match self.decimal(datum)? {
                    Cell::Word(bits) => Some(Addend::Exact((bits as i64).into())),
                    _ => None,
                }
            }
            (Kind::Double, Datum::Float(value)) if value.is_finite() => Some(Addend::Float(value)),
            (Kind::Double, Datum::Integer(value)) => Some(Addend::Float(value as f64)),
            _ => None,
        }
    }

    /// The number that a stored integer, or the digits of a decimal, stands for.
    pub fn number(self, cell: Cell<'_>) -> Option<i128> {
        Some(match (self, cell) {
            (Kind::Signed(8), Cell::Word(word)) => i128::from(word as i8),
            (Kind::Signed(16), Cell::Word(word)) => i128::from(word as i16),
            (Kind::Signed(32), Cell::Word(word)) => i128::from(word as i32),
            (Kind::Signed(_) | Kind::Decimal { .. }, Cell::Word(word)) => i128::from(word as i64),
            (Kind::Unsigned(_), Cell::Word(word)) => i128::from(word),
            (Kind::Decimal { .. }, Cell::Wide(wide)) => wide as i128,
            _ => return None,
        })
    }
}

/// What is added to a stored value.
enum Addend {
    /// An integer, or the digits of a decimal of the column's scale.
    Exact(i128),
    Float(f64),
}

/// A double, with one NaN.
fn double(value: f64) -> Cell<'static> {
    let value = if value.is_nan() { f64::NAN } else { value };
    Cell::Word(value.to_bits())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CENTS: Kind = Kind::Decimal {
        precision: 5,
        scale: 2,
        wide: false,
    };

    #[test]
    fn integers_out_of_their_columns_range_are_left_to_the_general_way() {
        assert_eq!(
            Kind::Signed(8).assigned(Datum::Integer(-128)),
            Some(Cell::Word(0x80))
        );
        assert_eq!(Kind::Signed(8).assigned(Datum::Integer(128)), None);
        assert_eq!(Kind::Unsigned(8).assigned(Datum::Integer(-1)), None);
        assert_eq!(
            Kind::Unsigned(8).assigned(Datum::Integer(255)),
            Some(Cell::Word(255))
        );
        assert_eq!(
            Kind::Signed(64).compared(Datum::Integer(i64::MIN)),
            Some(Cell::Word(1 << 63))
        );
    }

    #[test]
    fn decimals_gain_zeros_and_never_lose_digits() {
        assert_eq!(
            CENTS.assigned(Datum::Integer(-7)),
            Some(Cell::Word(-700_i64 as u64))
        );
        assert_eq!(CENTS.assigned(Datum::Decimal(75, 1)), Some(Cell::Word(750)));
        assert_eq!(CENTS.assigned(Datum::Decimal(755, 3)), None);
        assert_eq!(CENTS.assigned(Datum::Integer(1000)), None);
        assert_eq!(CENTS.assigned(Datum::Float(1.0)), None);
    }

    #[test]
    fn text_is_counted_in_characters() {
        assert_eq!(
            Kind::Text(3).assigned(Datum::Text("äöü")),
            Some(Cell::Text("äöü"))
        );
        assert_eq!(Kind::Text(3).assigned(Datum::Text("abcd")), None);
    }

    #[test]
    fn sums_beyond_the_column_are_left_to_the_general_way() {
        let small = Kind::Signed(16);
        assert_eq!(
            small.sum(Cell::Word(32_766), Datum::Integer(1), false),
            Some(Cell::Word(32_767))
        );
        assert_eq!(
            small.sum(Cell::Word(32_767), Datum::Integer(1), false),
            None
        );
        assert_eq!(
            small.sum(Cell::Null, Datum::Integer(1), false),
            Some(Cell::Null)
        );
        assert_eq!(small.sum(Cell::Word(5), Datum::Text("1"), false), None);
        assert_eq!(
            CENTS.sum(Cell::Word(100), Datum::Integer(2), true),
            Some(Cell::Word(-100_i64 as u64))
        );
        let tops = double(f64::MAX);
        assert_eq!(Kind::Double.sum(tops, Datum::Float(f64::MAX), false), None);
    }
}
