//! Conversions among booleans, integers, decimals and floating point numbers.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, PrimitiveArray};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Decimal128Type, Float32Type, Float64Type, Int8Type,
};

use super::{Conversion, arc, out_of_range};
use crate::{Error, Result};

/// 10^n for every n that a decimal can need.
pub(crate) const POWERS: [i128; 39] = {
    let mut powers = [1i128; 39];
    let mut n = 1;
    while n < 39 {
        powers[n] = powers[n - 1] * 10;
        n += 1;
    }
    powers
};

/// Integers, whose values an `i128` holds.
pub(crate) trait Integer:
    ArrowPrimitiveType<Native: Copy + TryFrom<i128> + Into<i128>>
{
}
impl<T: ArrowPrimitiveType<Native: Copy + TryFrom<i128> + Into<i128>>> Integer for T {}

pub(super) fn is_number(data_type: &DataType) -> bool {
    data_type.is_integer()
        || matches!(
            data_type,
            DataType::Boolean | DataType::Float32 | DataType::Float64 | DataType::Decimal128(_, _)
        )
}

/// Calls `$body` with `$T` as the Arrow type of an integer type.
macro_rules! with_integer {
    ($data_type:expr, $T:ident => $body:expr, else $other:expr) => {
        match $data_type {
            DataType::Int8 => {
                type $T = ::arrow::datatypes::Int8Type;
                $body
            }
            DataType::Int16 => {
                type $T = ::arrow::datatypes::Int16Type;
                $body
            }
            DataType::Int32 => {
                type $T = ::arrow::datatypes::Int32Type;
                $body
            }
            DataType::Int64 => {
                type $T = ::arrow::datatypes::Int64Type;
                $body
            }
            DataType::UInt8 => {
                type $T = ::arrow::datatypes::UInt8Type;
                $body
            }
            DataType::UInt16 => {
                type $T = ::arrow::datatypes::UInt16Type;
                $body
            }
            DataType::UInt32 => {
                type $T = ::arrow::datatypes::UInt32Type;
                $body
            }
            DataType::UInt64 => {
                type $T = ::arrow::datatypes::UInt64Type;
                $body
            }
            _ => $other,
        }
    };
}
pub(crate) use with_integer;

pub(super) fn convert(values: &ArrayRef, to: &DataType, how: Conversion) -> Result<ArrayRef> {
    if values.data_type() == to {
        return Ok(Arc::clone(values));
    }
    match values.data_type() {
        DataType::Boolean => from_boolean(values.as_boolean(), to, how),
        DataType::Float32 => {
            let wide = values
                .as_primitive::<Float32Type>()
                .unary::<_, Float64Type>(f64::from);
            from_float(&wide, to, how)
        }
        DataType::Float64 => from_float(values.as_primitive(), to, how),
        DataType::Decimal128(_, scale) => from_decimal(values.as_primitive(), *scale, to, how),
        from => with_integer!(from, S => from_integer::<S>(values.as_primitive(), to, how),
            else Err(Error::internal(format!("{from} is no number")))),
    }
}

fn from_boolean(values: &BooleanArray, to: &DataType, how: Conversion) -> Result<ArrayRef> {
    let bits: PrimitiveArray<Int8Type> = values
        .iter()
        .map(|value| value.map(i8::from))
        .collect::<PrimitiveArray<Int8Type>>();
    convert(&arc(bits), to, how)
}

fn from_integer<S: Integer>(
    values: &PrimitiveArray<S>,
    to: &DataType,
    how: Conversion,
) -> Result<ArrayRef> {
    match to {
        DataType::Boolean => Ok(nonzero(values, |value| value.into() != 0)),
        DataType::Float64 => Ok(arc(
            values.unary::<_, Float64Type>(|value| value.into() as f64)
        )),
        DataType::Float32 => Ok(arc(
            values.unary::<_, Float32Type>(|value| value.into() as f32)
        )),
        DataType::Decimal128(precision, scale) => {
            let (factor, limit) = scale_and_limit(*precision, *scale);
            let scaled = how.map::<S, Decimal128Type>(
                values,
                |value| within(value.into().checked_mul(factor)?, limit),
                |_| out_of_range(to),
            )?;
            Ok(arc(scaled.with_data_type(to.clone())))
        }
        _ => with_integer!(to, T => Ok(arc(how.map::<S, T>(
                values,
                |value| value.into().try_into().ok(),
                |_| out_of_range(to),
            )?)), else Err(Error::internal(format!("{to} is no number")))),
    }
}

fn from_float(
    values: &PrimitiveArray<Float64Type>,
    to: &DataType,
    how: Conversion,
) -> Result<ArrayRef> {
    match to {
        DataType::Boolean => Ok(nonzero(values, |value| value != 0.0)),
        DataType::Float64 => Ok(arc(values.clone())),
        DataType::Float32 => Ok(arc(how.map::<_, Float32Type>(
            values,
            |value| {
                let narrow = value as f32;
                (narrow.is_finite() || !value.is_finite()).then_some(narrow)
            },
            |_| out_of_range(to),
        )?)),
        DataType::Decimal128(precision, scale) => {
            let (precision, scale) = (*precision, *scale);
            let decimals = how.map::<_, Decimal128Type>(
                values,
                |value| float_to_decimal(value, precision, scale),
                |_| out_of_range(to),
            )?;
            Ok(arc(decimals.with_data_type(to.clone())))
        }
        // Every integer type lies within what an f64 brings to an i128 exactly; `as` saturates, and then `try_into` refuses.
        _ => with_integer!(to, T => Ok(arc(how.map::<_, T>(
                values,
                |value| {
                    let rounded = value.round_ties_even();
                    if rounded.is_finite() { (rounded as i128).try_into().ok() } else { None }
                },
                |_| out_of_range(to),
            )?)), else Err(Error::internal(format!("{to} is no number")))),
    }
}

fn from_decimal(
    values: &PrimitiveArray<Decimal128Type>,
    from_scale: i8,
    to: &DataType,
    how: Conversion,
) -> Result<ArrayRef> {
    match to {
        DataType::Boolean => Ok(nonzero(values, |value| value != 0)),
        DataType::Float64 => Ok(decimals_to_floats(values, from_scale)),
        DataType::Float32 => {
            Ok(arc(values.unary::<_, Float32Type>(|value| {
                decimal_to_float(value, from_scale) as f32
            })))
        }
        DataType::Decimal128(precision, scale) => {
            let limit = POWERS[usize::from(*precision).min(38)];
            let scale = *scale;
            let rescaled = how.map::<_, Decimal128Type>(
                values,
                |value| within(rescale(value, from_scale, scale)?, limit),
                |_| out_of_range(to),
            )?;
            Ok(arc(rescaled.with_data_type(to.clone())))
        }
        _ => with_integer!(to, T => Ok(arc(how.map::<_, T>(
                values,
                |value| rescale(value, from_scale, 0)?.try_into().ok(),
                |_| out_of_range(to),
            )?)), else Err(Error::internal(format!("{to} is no number")))),
    }
}

/// As [`decimal_to_float`] for each; values of at most 15 digits, most of what there is, in 64 bits.
fn decimals_to_floats(values: &PrimitiveArray<Decimal128Type>, scale: i8) -> ArrayRef {
    if matches!(values.data_type(), DataType::Decimal128(..=15, 0..=22)) {
        let power = POWERS[scale as usize] as f64;
        return arc(values.unary::<_, Float64Type>(|value| value as i64 as f64 / power));
    }
    arc(values.unary::<_, Float64Type>(|value| decimal_to_float(value, scale)))
}

fn nonzero<S: ArrowPrimitiveType>(
    values: &PrimitiveArray<S>,
    f: impl Fn(S::Native) -> bool,
) -> ArrayRef {
    let bits = arrow::buffer::BooleanBuffer::collect_bool(values.len(), |i| f(values.values()[i]));
    Arc::new(BooleanArray::new(bits, values.nulls().cloned()))
}

/// The factor of a scale, and the first magnitude that has too many digits.
fn scale_and_limit(precision: u8, scale: i8) -> (i128, i128) {
    (
        POWERS[usize::try_from(scale).unwrap_or(0).min(38)],
        POWERS[usize::from(precision).min(38)],
    )
}

pub(crate) fn within(value: i128, limit: i128) -> Option<i128> {
    (-limit < value && value < limit).then_some(value)
}

/// A decimal's digits under another scale, rounded half away from zero; `None` beyond an `i128`.
pub(crate) fn rescale(value: i128, from: i8, to: i8) -> Option<i128> {
    let shift = i16::from(to) - i16::from(from);
    let power = POWERS.get(usize::from(shift.unsigned_abs()));
    if shift >= 0 {
        match power {
            Some(power) => value.checked_mul(*power),
            None => (value == 0).then_some(0),
        }
    } else {
        Some(power.map_or(0, |power| divide_rounded(value, *power)))
    }
}

/// value / divisor (positive), rounded half away from zero.
pub(crate) fn divide_rounded(value: i128, divisor: i128) -> i128 {
    let quotient = value / divisor;
    let rest = (value % divisor).unsigned_abs();
    if rest >= divisor.unsigned_abs().div_ceil(2) {
        quotient + value.signum()
    } else {
        quotient
    }
}

/// The nearest double: exact digits and powers of ten divide with one rounding; longer values go by their digits.
pub(crate) fn decimal_to_float(value: i128, scale: i8) -> f64 {
    const EXACT: u128 = 1 << 53;
    if scale == 0 {
        return value as f64;
    }
    match (value.unsigned_abs() <= EXACT, scale) {
        (true, 1..=22) => value as f64 / POWERS[scale as usize] as f64,
        // Every such text is a number.
        _ => format!("{value}e{}", -i32::from(scale))
            .parse()
            .unwrap_or(f64::NAN),
    }
}

pub(crate) fn float_to_decimal(value: f64, precision: u8, scale: i8) -> Option<i128> {
    let (factor, limit) = scale_and_limit(precision, scale);
    let scaled = (value * factor as f64).round();
    if scaled.is_finite() && scaled.abs() < 1.7e38 {
        within(scaled as i128, limit)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_round_half_away_from_zero() {
        assert_eq!(rescale(25, 1, 0), Some(3));
        assert_eq!(rescale(-25, 1, 0), Some(-3));
        assert_eq!(rescale(24, 1, 0), Some(2));
        assert_eq!(rescale(125, 3, 2), Some(13));
    }

    #[test]
    fn rescaling_beyond_an_i128_is_refused() {
        assert_eq!(rescale(i128::MAX, 0, 1), None);
        assert_eq!(rescale(i128::MAX, 38, 0), Some(2));
    }

    #[test]
    fn a_double_becomes_the_nearest_decimal() {
        assert_eq!(float_to_decimal(0.125, 4, 2), Some(13));
        assert_eq!(float_to_decimal(1e37, 38, 2), None);
        assert_eq!(float_to_decimal(f64::NAN, 38, 2), None);
    }
}
