//! Decimals of 128 bits.
//!
//! A decimal of up to 18 digits fits 64 bits, so the digits of such operands are read as `i64` and multiplied to an
//! `i128` in one instruction. Wider operands mostly hold small values too: the product is computed as if they fitted
//! 64 bits, a flag tells whether that was so, and only else is it computed in full. Results are checked against their
//! precision only where the types leave no room for every result.

use std::sync::Arc;

use arrow::array::{ArrayRef, PrimitiveArray};
use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, Decimal128Type};
use datafusion::logical_expr::ColumnarValue;

use super::ArithmeticOperator;
use super::division_by_zero;
use super::kernels::{Operand, map_rows};
use crate::expr::convert::{POWERS, out_of_range, within};
use crate::{Error, Result};

/// The most digits that always fit 64 bits.
const NARROW: u8 = 18;

type Decimals = Operand<Decimal128Type>;

pub(super) fn compute(
    operator: ArithmeticOperator,
    left: &ColumnarValue,
    right: &ColumnarValue,
    rows: usize,
    result: &DataType,
) -> Result<ArrayRef> {
    let (
        DataType::Decimal128(p1, s1),
        DataType::Decimal128(p2, s2),
        DataType::Decimal128(precision, scale),
    ) = (left.data_type(), right.data_type(), result)
    else {
        return Err(Error::internal("decimals are computed from decimals"));
    };
    let (left, right) = (Decimals::of(left)?, Decimals::of(right)?);
    let (array, raised) = match operator {
        ArithmeticOperator::Multiply => multiply(&left, p1, &right, p2, rows),
        ArithmeticOperator::Plus | ArithmeticOperator::Minus => {
            let factors = (factor(s1, *scale), factor(s2, *scale));
            let roomy = needed(p1, s1, p2, s2) < DECIMAL128_MAX_PRECISION;
            let negative = operator == ArithmeticOperator::Minus;
            add(&left, &right, factors, negative, roomy, rows)
        }
        ArithmeticOperator::Modulo | ArithmeticOperator::IntegerDivide => {
            let factors = (factor(s1, *scale), factor(s2, *scale));
            let remainder = operator == ArithmeticOperator::Modulo;
            divide(&left, &right, factors, remainder, rows)?
        }
        ArithmeticOperator::Divide => {
            return Err(Error::internal("decimals are divided as doubles"));
        }
    };
    if raised {
        return Err(out_of_range(result));
    }
    debug_assert!(*precision <= DECIMAL128_MAX_PRECISION);
    Ok(Arc::new(array.with_data_type(result.clone())))
}

/// Digits that both operands need under the larger of their scales.
fn needed(p1: u8, s1: i8, p2: u8, s2: i8) -> u8 {
    let whole = (i16::from(p1) - i16::from(s1)).max(i16::from(p2) - i16::from(s2));
    (whole + i16::from(s1.max(s2))).clamp(0, 255) as u8
}

fn factor(from: i8, to: i8) -> i128 {
    POWERS[usize::from(to.abs_diff(from)).min(38)]
}

/// Whether a value has more than 38 digits.
#[inline]
fn too_long(value: i128) -> bool {
    within(value, POWERS[38]).is_none()
}

fn multiply(
    left: &Decimals,
    p1: u8,
    right: &Decimals,
    p2: u8,
    rows: usize,
) -> (PrimitiveArray<Decimal128Type>, bool) {
    if p1 <= NARROW && p2 <= NARROW {
        return map_rows(left, right, rows, |l, r| {
            (i128::from(l as i64) * i128::from(r as i64), false)
        });
    }
    let (array, wide) = map_rows(left, right, rows, |l: i128, r: i128| {
        let (low, other) = (l as i64, r as i64);
        let cut = i128::from(low) != l || i128::from(other) != r;
        (i128::from(low) * i128::from(other), cut)
    });
    if !wide {
        return (array, false);
    }
    map_rows(left, right, rows, |l: i128, r: i128| {
        let (product, overflow) = l.overflowing_mul(r);
        (product, overflow || too_long(product))
    })
}

fn add(
    left: &Decimals,
    right: &Decimals,
    (f1, f2): (i128, i128),
    negative: bool,
    roomy: bool,
    rows: usize,
) -> (PrimitiveArray<Decimal128Type>, bool) {
    match (roomy, f1 == 1 && f2 == 1, negative) {
        (true, true, false) => map_rows(left, right, rows, |l: i128, r: i128| {
            (l.wrapping_add(r), false)
        }),
        (true, true, true) => map_rows(left, right, rows, |l: i128, r: i128| {
            (l.wrapping_sub(r), false)
        }),
        (true, false, false) => map_rows(left, right, rows, |l: i128, r: i128| {
            (l.wrapping_mul(f1).wrapping_add(r.wrapping_mul(f2)), false)
        }),
        (true, false, true) => map_rows(left, right, rows, |l: i128, r: i128| {
            (l.wrapping_mul(f1).wrapping_sub(r.wrapping_mul(f2)), false)
        }),
        (false, _, _) => map_rows(left, right, rows, |l: i128, r: i128| {
            let (l, first) = l.overflowing_mul(f1);
            let (r, second) = r.overflowing_mul(f2);
            let (sum, third) = if negative {
                l.overflowing_sub(r)
            } else {
                l.overflowing_add(r)
            };
            (sum, first || second || third || too_long(sum))
        }),
    }
}

/// Quotient or remainder of the operands under one scale.
fn divide(
    left: &Decimals,
    right: &Decimals,
    (f1, f2): (i128, i128),
    remainder: bool,
    rows: usize,
) -> Result<(PrimitiveArray<Decimal128Type>, bool)> {
    let zero = |_, r: i128| (0, r == 0);
    if map_rows::<Decimal128Type, Decimal128Type, Decimal128Type>(left, right, rows, zero).1 {
        return Err(division_by_zero());
    }
    Ok(map_rows(left, right, rows, |l: i128, r: i128| {
        let (Some(l), Some(r)) = (l.checked_mul(f1), r.checked_mul(f2)) else {
            return (0, true);
        };
        let quotient = if remainder {
            l.checked_rem(r)
        } else {
            l.checked_div(r)
        };
        match quotient {
            Some(quotient) => (quotient, false),
            // Only what lies under a NULL divides by zero here.
            None => (0, r != 0),
        }
    }))
}
