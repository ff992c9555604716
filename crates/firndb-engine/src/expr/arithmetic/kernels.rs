//! Kernels over two columns, or a column and a constant, of one primitive type.
//!
//! The loops are branch-free: each row yields a value and a flag, the flags are gathered with `or`. A raised flag may
//! come from what lies under a NULL, so only then are the rows looked at one by one.

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::buffer::NullBuffer;
use datafusion::logical_expr::ColumnarValue;
use std::sync::Arc;

use super::{ArithmeticOperator, division_by_zero};
use crate::{Error, Result};

/// Why a kernel has no result.
#[derive(Debug)]
pub(super) enum Fault {
    Overflow,
    DivisionByZero,
    Operands(Error),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Fault::Operands(error)
    }
}

/// One side of an operator.
pub(super) enum Operand<T: ArrowPrimitiveType> {
    Column(PrimitiveArray<T>),
    /// The same value in every row; `None` is NULL.
    Constant(Option<T::Native>),
}

impl<T: ArrowPrimitiveType> Operand<T> {
    pub(super) fn of(value: &ColumnarValue) -> Result<Self> {
        let wrong = || Error::internal("an operand is not of the type planned");
        match value {
            ColumnarValue::Array(array) => array
                .as_primitive_opt::<T>()
                .map(|array| Operand::Column(array.clone()))
                .ok_or_else(wrong),
            ColumnarValue::Scalar(scalar) => {
                let array = scalar.to_array()?;
                let array = array.as_primitive_opt::<T>().ok_or_else(wrong)?;
                Ok(Operand::Constant(array.is_valid(0).then(|| array.value(0))))
            }
        }
    }
}

/// Applies `f` to each row; whether any valid row raised its flag comes with the values.
pub(super) fn map_rows<L, R, O>(
    left: &Operand<L>,
    right: &Operand<R>,
    rows: usize,
    f: impl Fn(L::Native, R::Native) -> (O::Native, bool),
) -> (PrimitiveArray<O>, bool)
where
    L: ArrowPrimitiveType,
    R: ArrowPrimitiveType,
    O: ArrowPrimitiveType,
{
    let mut raised = false;
    let (values, nulls): (Vec<O::Native>, Option<NullBuffer>) = match (left, right) {
        (Operand::Column(left), Operand::Column(right)) => (
            left.values()
                .iter()
                .zip(right.values())
                .map(|(l, r)| {
                    let (value, flag) = f(*l, *r);
                    raised |= flag;
                    value
                })
                .collect(),
            NullBuffer::union(left.nulls(), right.nulls()),
        ),
        (Operand::Column(left), Operand::Constant(Some(right))) => (
            left.values()
                .iter()
                .map(|l| {
                    let (value, flag) = f(*l, *right);
                    raised |= flag;
                    value
                })
                .collect(),
            left.nulls().cloned(),
        ),
        (Operand::Constant(Some(left)), Operand::Column(right)) => (
            right
                .values()
                .iter()
                .map(|r| {
                    let (value, flag) = f(*left, *r);
                    raised |= flag;
                    value
                })
                .collect(),
            right.nulls().cloned(),
        ),
        (Operand::Constant(Some(left)), Operand::Constant(Some(right))) => {
            let (value, flag) = f(*left, *right);
            raised = flag;
            (vec![value; rows], None)
        }
        _ => return (PrimitiveArray::new_null(rows), false),
    };
    let array = PrimitiveArray::<O>::new(values.into(), nulls);
    if raised && array.null_count() > 0 {
        raised = false;
        let at = |operand: &Operand<L>, row: usize| match operand {
            Operand::Column(column) => Some(column.value(row)),
            Operand::Constant(value) => *value,
        };
        let at_right = |row: usize| match right {
            Operand::Column(column) => Some(column.value(row)),
            Operand::Constant(value) => *value,
        };
        for row in (0..array.len()).filter(|row| array.is_valid(*row)) {
            if let (Some(l), Some(r)) = (at(left, row), at_right(row)) {
                raised |= f(l, r).1;
            }
        }
    }
    (array, raised)
}

/// Integers that tell whether an operation left their range.
pub(super) trait Checked: Copy + PartialEq {
    const ZERO: Self;
    fn add(self, other: Self) -> (Self, bool);
    fn subtract(self, other: Self) -> (Self, bool);
    fn multiply(self, other: Self) -> (Self, bool);
    /// Zero with a flag where there is no quotient.
    fn divide(self, other: Self) -> (Self, bool);
    fn remainder(self, other: Self) -> (Self, bool);
}

macro_rules! checked_common {
    () => {
        const ZERO: Self = 0;
        #[inline]
        fn divide(self, other: Self) -> (Self, bool) {
            match self.checked_div(other) {
                Some(quotient) => (quotient, false),
                None => (0, true),
            }
        }
        /// MIN % -1 is 0, which needs no larger type.
        #[inline]
        fn remainder(self, other: Self) -> (Self, bool) {
            if other == 0 {
                (0, true)
            } else {
                (self.wrapping_rem(other), false)
            }
        }
    };
}

macro_rules! checked_signed {
    ($($native:ty => $wide:ty),*) => { $(
        impl Checked for $native {
            checked_common!();
            #[inline]
            fn add(self, other: Self) -> (Self, bool) {
                let sum = self.wrapping_add(other);
                (sum, (self ^ sum) & (other ^ sum) < 0)
            }
            #[inline]
            fn subtract(self, other: Self) -> (Self, bool) {
                let difference = self.wrapping_sub(other);
                (difference, (self ^ other) & (self ^ difference) < 0)
            }
            #[inline]
            fn multiply(self, other: Self) -> (Self, bool) {
                let product = <$wide>::from(self) * <$wide>::from(other);
                (product as $native, product != <$wide>::from(product as $native))
            }
        }
    )* };
}

macro_rules! checked_unsigned {
    ($($native:ty => $wide:ty),*) => { $(
        impl Checked for $native {
            checked_common!();
            #[inline]
            fn add(self, other: Self) -> (Self, bool) {
                let sum = self.wrapping_add(other);
                (sum, sum < self)
            }
            #[inline]
            fn subtract(self, other: Self) -> (Self, bool) {
                (self.wrapping_sub(other), self < other)
            }
            #[inline]
            fn multiply(self, other: Self) -> (Self, bool) {
                let product = <$wide>::from(self) * <$wide>::from(other);
                (product as $native, product != <$wide>::from(product as $native))
            }
        }
    )* };
}

checked_signed!(i8 => i16, i16 => i32, i32 => i64, i64 => i128);
checked_unsigned!(u8 => u16, u16 => u32, u32 => u64, u64 => u128);

/// Integers of one type.
pub(super) fn integer<T>(
    operator: ArithmeticOperator,
    left: &ColumnarValue,
    right: &ColumnarValue,
    rows: usize,
) -> std::result::Result<ArrayRef, Fault>
where
    T: ArrowPrimitiveType<Native: Checked>,
{
    let (left, right) = (Operand::<T>::of(left)?, Operand::<T>::of(right)?);
    let (array, raised) = match operator {
        ArithmeticOperator::Plus => map_rows::<T, T, T>(&left, &right, rows, Checked::add),
        ArithmeticOperator::Minus => map_rows(&left, &right, rows, Checked::subtract),
        ArithmeticOperator::Multiply => map_rows(&left, &right, rows, Checked::multiply),
        ArithmeticOperator::IntegerDivide => map_rows(&left, &right, rows, Checked::divide),
        ArithmeticOperator::Modulo => map_rows(&left, &right, rows, Checked::remainder),
        ArithmeticOperator::Divide => {
            return Err(Error::internal("integers are divided as doubles").into());
        }
    };
    if !raised {
        return Ok(Arc::new(array));
    }
    let divides = matches!(
        operator,
        ArithmeticOperator::IntegerDivide | ArithmeticOperator::Modulo
    );
    let zero = |_, divisor: T::Native| (divisor, divisor == T::Native::ZERO);
    if divides && map_rows::<T, T, T>(&left, &right, rows, zero).1 {
        return Err(Fault::DivisionByZero);
    }
    Err(Fault::Overflow)
}

/// Floating point numbers; every NaN they yield is the one with a positive sign, which sorts last.
pub(super) trait Float: Copy + PartialEq {
    const ZERO: Self;
    fn canonical(self) -> Self;
    fn apply(operator: ArithmeticOperator, left: Self, right: Self) -> Self;
}

macro_rules! float {
    ($($native:ty),*) => { $(
        impl Float for $native {
            const ZERO: Self = 0.0;
            #[inline]
            fn canonical(self) -> Self {
                if self.is_nan() { Self::NAN } else { self }
            }
            #[inline]
            fn apply(operator: ArithmeticOperator, left: Self, right: Self) -> Self {
                match operator {
                    ArithmeticOperator::Plus => left + right,
                    ArithmeticOperator::Minus => left - right,
                    ArithmeticOperator::Multiply => left * right,
                    ArithmeticOperator::Divide | ArithmeticOperator::IntegerDivide => left / right,
                    ArithmeticOperator::Modulo => left % right,
                }
            }
        }
    )* };
}
float!(f32, f64);

pub(super) fn float<T>(
    operator: ArithmeticOperator,
    left: &ColumnarValue,
    right: &ColumnarValue,
    rows: usize,
) -> Result<ArrayRef>
where
    T: ArrowPrimitiveType<Native: Float>,
{
    use ArithmeticOperator::{Divide, IntegerDivide, Minus, Modulo, Multiply, Plus};
    fn run<T: ArrowPrimitiveType<Native: Float>>(
        left: &Operand<T>,
        right: &Operand<T>,
        rows: usize,
        f: impl Fn(T::Native, T::Native) -> T::Native,
        divides: bool,
    ) -> (PrimitiveArray<T>, bool) {
        map_rows(left, right, rows, |l, r| {
            (f(l, r).canonical(), divides && r == T::Native::ZERO)
        })
    }
    let (left, right) = (Operand::<T>::of(left)?, Operand::<T>::of(right)?);
    // One loop for each operator, with the operator known inside it.
    let (array, zero) = match operator {
        Plus => run(
            &left,
            &right,
            rows,
            |l, r| T::Native::apply(Plus, l, r),
            false,
        ),
        Minus => run(
            &left,
            &right,
            rows,
            |l, r| T::Native::apply(Minus, l, r),
            false,
        ),
        Multiply => run(
            &left,
            &right,
            rows,
            |l, r| T::Native::apply(Multiply, l, r),
            false,
        ),
        Divide | IntegerDivide => run(
            &left,
            &right,
            rows,
            |l, r| T::Native::apply(Divide, l, r),
            true,
        ),
        Modulo => run(
            &left,
            &right,
            rows,
            |l, r| T::Native::apply(Modulo, l, r),
            true,
        ),
    };
    if zero {
        return Err(division_by_zero());
    }
    Ok(Arc::new(array))
}
