//! Functions of numbers whose result keeps to the argument's type.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int8Array, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal128Type, FieldRef, Float64Type, Int64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

use super::kernel::{Kernel, Takes};
use crate::expr::convert::POWERS;
use crate::{Error, SqlState};

/// The functions of this module.
pub(super) fn kernels() -> Vec<Kernel> {
    use Takes::{Any, Double, Integer};
    vec![
        Kernel {
            name: "sign",
            aliases: &[],
            takes: &[Any],
            arguments: (1, 1),
            yields: |types| is_number(&types[0]).then_some(DataType::Int8),
            run: sign,
        },
        Kernel {
            name: "floor",
            aliases: &[],
            takes: &[Any],
            arguments: (1, 1),
            yields: whole,
            run: |args| rounded(args, f64::floor, i128::div_euclid),
        },
        Kernel {
            name: "ceil",
            aliases: &["ceiling"],
            takes: &[Any],
            arguments: (1, 1),
            yields: whole,
            run: |args| rounded(args, f64::ceil, |value, power| -(-value).div_euclid(power)),
        },
        Kernel {
            name: "isinf",
            aliases: &[],
            takes: &[Double],
            arguments: (1, 1),
            yields: |_| Some(DataType::Boolean),
            run: |args| tested(args, f64::is_infinite),
        },
        Kernel {
            name: "isfinite",
            aliases: &[],
            takes: &[Double],
            arguments: (1, 1),
            yields: |_| Some(DataType::Boolean),
            run: |args| tested(args, f64::is_finite),
        },
        Kernel {
            name: "isnan",
            aliases: &[],
            takes: &[Double],
            arguments: (1, 1),
            yields: |_| Some(DataType::Boolean),
            run: |args| tested(args, f64::is_nan),
        },
        Kernel {
            name: "even",
            aliases: &[],
            takes: &[Double],
            arguments: (1, 1),
            yields: |_| Some(DataType::Float64),
            run: |args| {
                let values = args[0].as_primitive::<Float64Type>();
                let even = |value: f64| ((value.abs() / 2.0).ceil() * 2.0).copysign(value);
                Ok(Arc::new(values.unary::<_, Float64Type>(even)))
            },
        },
        Kernel {
            name: "round_even",
            aliases: &["roundbankers"],
            takes: &[Double, Integer],
            arguments: (2, 2),
            yields: |_| Some(DataType::Float64),
            run: |args| {
                let values = args[0].as_primitive::<Float64Type>();
                let digits = args[1].as_primitive::<Int64Type>();
                let rounded: Float64Array = values
                    .iter()
                    .zip(digits)
                    .map(|(value, digits)| Some(round_even(value?, digits?)))
                    .collect();
                Ok(Arc::new(rounded))
            },
        },
        Kernel {
            name: "shift_left",
            aliases: &[],
            takes: &[Integer, Integer],
            arguments: (2, 2),
            yields: |_| Some(DataType::Int64),
            run: |args| {
                shifted(args, |value, places| {
                    let shifted = value << places;
                    // Bits that leave the number would change it.
                    (shifted >> places == value).then_some(shifted)
                })
            },
        },
        Kernel {
            name: "shift_right",
            aliases: &[],
            takes: &[Integer, Integer],
            arguments: (2, 2),
            yields: |_| Some(DataType::Int64),
            run: |args| shifted(args, |value, places| Some(value >> places)),
        },
        Kernel {
            name: "bit_count",
            aliases: &[],
            takes: &[Integer],
            arguments: (1, 1),
            yields: |_| Some(DataType::Int64),
            run: |args| {
                let values = args[0].as_primitive::<Int64Type>();
                let counts: Int64Array = values.unary(|value| i64::from(value.count_ones()));
                Ok(Arc::new(counts))
            },
        },
    ]
}

/// `round` of floating point numbers to any number of digits; other numbers are DataFusion's, which multiplies by a power that
/// a double may not have.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Round {
    inner: ScalarUDF,
}

/// The `round` that replaces DataFusion's.
pub(super) fn round() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::new_from_impl(Round {
        inner: datafusion::functions::math::round().as_ref().clone(),
    }))
}

impl ScalarUDFImpl for Round {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let far = |digits: &ScalarValue| match digits.cast_to(&DataType::Int64) {
            Ok(ScalarValue::Int64(Some(digits))) => digits.abs() > 300,
            _ => false,
        };
        if let [values, ColumnarValue::Scalar(digits)] = args.args.as_slice()
            && values.data_type().is_floating()
            && far(digits)
        {
            // Nothing of a double lies that far behind the point, and nothing as far before it but what rounds to zero.
            let down = matches!(digits.cast_to(&DataType::Int64)?, ScalarValue::Int64(Some(digits)) if digits < 0);
            if !down {
                return Ok(values.clone());
            }
            let zeros = values.to_array(args.number_rows)?;
            let doubles = cast(&zeros, &DataType::Float64)?;
            let zeros = doubles
                .as_primitive::<Float64Type>()
                .unary::<_, Float64Type>(|value| if value.is_finite() { 0.0 } else { value });
            let zeros = cast(&zeros, &values.data_type())?;
            return Ok(ColumnarValue::Array(zeros));
        }
        self.inner.invoke_with_args(args)
    }
}

/// A half goes to the even neighbour.
fn round_even(value: f64, digits: i64) -> f64 {
    let power = 10f64.powi(digits.clamp(-400, 400) as i32);
    let scaled = value * power;
    // Beyond a double's digits nothing is to be rounded, or nothing is left.
    match (scaled.is_finite(), power == 0.0) {
        (true, false) => scaled.round_ties_even() / power,
        (_, true) => 0.0,
        (false, _) => value,
    }
}

/// 22003 for places that a 64-bit integer does not have.
fn shifted(args: &[ArrayRef], shift: fn(i64, u32) -> Option<i64>) -> Result<ArrayRef> {
    let values = args[0].as_primitive::<Int64Type>();
    let places = args[1].as_primitive::<Int64Type>();
    let shifted: Int64Array = binary_try(values, places, |value, places| {
        u32::try_from(places)
            .ok()
            .filter(|places| *places < i64::BITS)
            .and_then(|places| shift(value, places))
            .ok_or_else(|| {
                let message = format!("a shift of {value} by {places} places is out of range");
                Error::new(SqlState::NumericValueOutOfRange, message)
            })
    })?;
    Ok(Arc::new(shifted))
}

fn binary_try(
    left: &Int64Array,
    right: &Int64Array,
    f: impl Fn(i64, i64) -> std::result::Result<i64, Error>,
) -> std::result::Result<Int64Array, Error> {
    left.iter()
        .zip(right)
        .map(|pair| match pair {
            (Some(left), Some(right)) => f(left, right).map(Some),
            _ => Ok(None),
        })
        .collect()
}

fn is_number(data_type: &DataType) -> bool {
    data_type.is_numeric() || *data_type == DataType::Null
}

/// A decimal without digits behind the point, or a double.
fn whole(types: &[DataType]) -> Option<DataType> {
    match &types[0] {
        DataType::Decimal128(precision, _) => Some(DataType::Decimal128(*precision, 0)),
        DataType::Float32 => Some(DataType::Float32),
        number if is_number(number) => Some(DataType::Float64),
        _ => None,
    }
}

fn rounded(
    args: &[ArrayRef],
    of_double: fn(f64) -> f64,
    of_decimal: fn(i128, i128) -> i128,
) -> Result<ArrayRef> {
    if let DataType::Decimal128(_, scale) = args[0].data_type() {
        let power = POWERS[usize::from(scale.max(&0).unsigned_abs())];
        let values = args[0].as_primitive::<Decimal128Type>();
        let whole_type = whole(std::slice::from_ref(args[0].data_type()));
        let values = values.unary::<_, Decimal128Type>(|value| of_decimal(value, power));
        return Ok(match whole_type {
            Some(data_type) => Arc::new(values.with_data_type(data_type)),
            None => Arc::new(values),
        });
    }
    let doubles = cast(&args[0], &DataType::Float64)?;
    let doubles = doubles.as_primitive::<Float64Type>();
    let rounded: ArrayRef = Arc::new(doubles.unary::<_, Float64Type>(of_double));
    match args[0].data_type() {
        DataType::Float32 => Ok(cast(&rounded, &DataType::Float32)?),
        _ => Ok(rounded),
    }
}

fn sign(args: &[ArrayRef]) -> Result<ArrayRef> {
    let signs: Int8Array = match args[0].data_type() {
        DataType::Decimal128(_, _) => args[0]
            .as_primitive::<Decimal128Type>()
            .unary(|value| value.signum() as i8),
        _ => cast(&args[0], &DataType::Float64)?
            .as_primitive::<Float64Type>()
            .unary(|value| match value {
                value if value > 0.0 => 1,
                value if value < 0.0 => -1,
                _ => 0,
            }),
    };
    Ok(Arc::new(signs))
}

fn tested(args: &[ArrayRef], test: fn(f64) -> bool) -> Result<ArrayRef> {
    let values = args[0].as_primitive::<Float64Type>();
    let tested: BooleanArray = values.iter().map(|value| value.map(test)).collect();
    Ok(Arc::new(tested))
}
