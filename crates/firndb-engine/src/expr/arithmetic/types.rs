//! The types of arithmetic, as DuckDB has them: the smallest type that holds both operands, decimals with room for the
//! result's digits, and floating point numbers where a quotient is asked for.

use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType};

use super::ArithmeticOperator;
use crate::{Error, Result, SqlState};

/// The types that an operator computes with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Operands {
    pub(crate) left: DataType,
    pub(crate) right: DataType,
    pub(crate) result: DataType,
}

impl Operands {
    fn all(data_type: DataType) -> Option<Operands> {
        Some(Operands {
            left: data_type.clone(),
            right: data_type.clone(),
            result: data_type,
        })
    }
}

/// `None` where the operator does not go with these types.
pub(crate) fn resolve(
    operator: ArithmeticOperator,
    left: &DataType,
    right: &DataType,
) -> Result<Option<Operands>> {
    use ArithmeticOperator::{Divide, IntegerDivide};
    use DataType::{Decimal128, Float32, Float64, Null};
    if !is_operand(left) || !is_operand(right) {
        return Ok(None);
    }
    Ok(match (left, right) {
        (Null, Null) if operator == Divide => Operands::all(Float64),
        (Null, Null) => Operands::all(DataType::Int64),
        (Null, known) | (known, Null) => return resolve(operator, known, known),
        (Float64, _) | (_, Float64) => Operands::all(Float64),
        (Float32, _) | (_, Float32) => Operands::all(Float32),
        _ if operator == Divide => Operands::all(Float64),
        (Decimal128(_, _), _) | (_, Decimal128(_, _)) => {
            let (Some((p1, s1)), Some((p2, s2))) = (digits(left), digits(right)) else {
                return Ok(None);
            };
            if operator == IntegerDivide && (s1 > 0 || s2 > 0) {
                return Ok(Operands::all(Float64));
            }
            Some(Operands {
                left: Decimal128(p1, s1),
                right: Decimal128(p2, s2),
                result: decimal_result(operator, (p1, s1), (p2, s2))?,
            })
        }
        _ => Operands::all(common_integer(left, right)),
    })
}

fn is_operand(data_type: &DataType) -> bool {
    data_type.is_integer()
        || matches!(
            data_type,
            DataType::Null | DataType::Float32 | DataType::Float64 | DataType::Decimal128(_, _)
        )
}

/// Digits before and after the point that values of a type can need.
fn digits(data_type: &DataType) -> Option<(u8, i8)> {
    match data_type {
        DataType::Decimal128(precision, scale) => Some((*precision, *scale)),
        integer => decimal_of_integer(integer),
    }
}

/// The decimal that holds every value of an integer type.
pub(crate) fn decimal_of_integer(data_type: &DataType) -> Option<(u8, i8)> {
    let precision = match data_type {
        DataType::Int8 | DataType::UInt8 => 3,
        DataType::Int16 | DataType::UInt16 => 5,
        DataType::Int32 | DataType::UInt32 => 10,
        DataType::Int64 => 19,
        DataType::UInt64 => 20,
        _ => return None,
    };
    Some((precision, 0))
}

fn decimal_result(
    operator: ArithmeticOperator,
    (p1, s1): (u8, i8),
    (p2, s2): (u8, i8),
) -> Result<DataType> {
    let whole = |precision: u8, scale: i8| i16::from(precision) - i16::from(scale);
    let scale = s1.max(s2);
    let widest = whole(p1, s1).max(whole(p2, s2)) + i16::from(scale);
    let (precision, scale) = match operator {
        ArithmeticOperator::Multiply => {
            let scale = i16::from(s1) + i16::from(s2);
            if scale > i16::from(DECIMAL128_MAX_PRECISION) {
                return Err(Error::new(
                    SqlState::NumericValueOutOfRange,
                    format!("the product of decimals of scale {s1} and {s2} needs a scale of {scale}, and {DECIMAL128_MAX_PRECISION} is the most"),
                )
                .with_hint("Cast an operand to DOUBLE, or to a decimal of a smaller scale."));
            }
            (i16::from(p1) + i16::from(p2), scale as i8)
        }
        ArithmeticOperator::Plus | ArithmeticOperator::Minus => (widest + 1, scale),
        _ => (widest, scale),
    };
    let precision = precision.clamp(1, i16::from(DECIMAL128_MAX_PRECISION)) as u8;
    Ok(DataType::Decimal128(precision, scale))
}

/// The wider of two integers of one sign; a signed type that holds both where one has a sign.
fn common_integer(left: &DataType, right: &DataType) -> DataType {
    let bits = |data_type: &DataType| data_type.primitive_width().unwrap_or(8);
    let (l, r) = (bits(left), bits(right));
    match (left.is_signed_integer(), right.is_signed_integer()) {
        (true, true) | (false, false) => if l >= r { left } else { right }.clone(),
        (true, false) if l > r => left.clone(),
        (false, true) if r > l => right.clone(),
        (true, false) if r < 8 => DataType::Int64,
        (false, true) if l < 8 => DataType::Int64,
        _ => DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ArithmeticOperator::*;
    use DataType::*;

    fn result(operator: ArithmeticOperator, left: DataType, right: DataType) -> DataType {
        resolve(operator, &left, &right).unwrap().unwrap().result
    }

    #[test]
    fn integers_meet_in_the_smallest_type_that_holds_both() {
        assert_eq!(result(Plus, Int32, Int32), Int32);
        assert_eq!(result(Plus, Int16, Int32), Int32);
        assert_eq!(result(Plus, UInt8, Int16), Int16);
        assert_eq!(result(Plus, UInt8, Int8), Int64);
        assert_eq!(result(Plus, UInt64, Int64), Decimal128(38, 0));
        assert_eq!(result(Divide, Int32, Int32), Float64);
        assert_eq!(result(IntegerDivide, Int32, Int64), Int64);
    }

    #[test]
    fn decimals_get_room_for_the_result() {
        let price = Decimal128(15, 2);
        assert_eq!(result(Minus, Int32, price.clone()), Decimal128(16, 2));
        assert_eq!(result(Plus, Int64, price.clone()), Decimal128(22, 2));
        assert_eq!(
            result(Multiply, price.clone(), Decimal128(16, 2)),
            Decimal128(31, 4)
        );
        assert_eq!(
            result(Modulo, Decimal128(10, 2), Decimal128(1, 1)),
            Decimal128(10, 2)
        );
        assert_eq!(result(Divide, price.clone(), Int32), Float64);
        assert_eq!(result(Plus, price, Float64), Float64);
        assert!(resolve(Multiply, &Decimal128(38, 20), &Decimal128(38, 19)).is_err());
    }

    #[test]
    fn booleans_and_texts_are_no_operands() {
        assert_eq!(resolve(Plus, &Boolean, &Int32).unwrap(), None);
        assert_eq!(resolve(Plus, &Utf8View, &Int32).unwrap(), None);
    }
}
