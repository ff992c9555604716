//! Functions of numbers whose result keeps to the argument's type.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, Float64Array, Int8Array, Int64Array,
};
use arrow::compute::cast;
use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, Field, FieldRef, Float64Type, Int64Type,
    UInt64Type,
};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use super::kernel::{Kernel, Takes};
use crate::expr::convert::POWERS;
use crate::parse::TRUNC;
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
            takes: &[Any],
            arguments: (1, 1),
            yields: |types| has_infinity(&types[0]).then_some(DataType::Boolean),
            run: |args| of_finite(args, f64::is_infinite, false),
        },
        Kernel {
            name: "isfinite",
            aliases: &[],
            takes: &[Any],
            arguments: (1, 1),
            yields: |types| has_infinity(&types[0]).then_some(DataType::Boolean),
            run: |args| of_finite(args, f64::is_finite, true),
        },
        Kernel {
            name: TRUNC,
            aliases: &[],
            takes: &[Double, Integer],
            arguments: (2, 2),
            yields: |_| Some(DataType::Float64),
            run: |args| {
                let (values, digits) = (
                    args[0].as_primitive::<Float64Type>(),
                    args[1].as_primitive::<Int64Type>(),
                );
                let cut: Float64Array = values
                    .iter()
                    .zip(digits)
                    .map(|(value, digits)| Some(cut(value?, digits?)))
                    .collect();
                Ok(Arc::new(cut))
            },
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
            name: "signbit",
            aliases: &[],
            takes: &[Double],
            arguments: (1, 1),
            yields: |_| Some(DataType::Boolean),
            run: |args| tested(args, f64::is_sign_negative),
        },
        Kernel {
            name: "gamma",
            aliases: &[],
            takes: &[Double],
            arguments: (1, 1),
            yields: |_| Some(DataType::Float64),
            run: |args| of_gamma(args, "gamma", libm::tgamma),
        },
        Kernel {
            name: "lgamma",
            aliases: &[],
            takes: &[Double],
            arguments: (1, 1),
            yields: |_| Some(DataType::Float64),
            run: |args| of_gamma(args, "lgamma", libm::lgamma),
        },
        Kernel {
            name: "nextafter",
            aliases: &[],
            takes: &[Double],
            arguments: (2, 2),
            yields: |_| Some(DataType::Float64),
            run: |args| {
                let [from, to] = [0, 1].map(|place| args[place].as_primitive::<Float64Type>());
                let next: Float64Array = arrow::compute::binary(from, to, libm::nextafter)?;
                Ok(Arc::new(next))
            },
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
            takes: &[Any],
            arguments: (1, 1),
            yields: |types| {
                (types[0].is_integer() || types[0].is_null()).then_some(DataType::Int64)
            },
            run: |args| {
                // Of the bits that the type has, which a negative number fills.
                let bits = 8 * args[0].data_type().primitive_width().unwrap_or(8) as u32;
                let mask = u64::MAX >> (64 - bits.min(64));
                let wide = match args[0].data_type() {
                    DataType::UInt64 => cast(&args[0], &DataType::UInt64)?,
                    _ => cast(&args[0], &DataType::Int64)?,
                };
                let counts: Int64Array = match wide.data_type() {
                    DataType::UInt64 => wide
                        .as_primitive::<UInt64Type>()
                        .unary(|value| i64::from(value.count_ones())),
                    _ => wide
                        .as_primitive::<Int64Type>()
                        .unary(|value| i64::from((value as u64 & mask).count_ones())),
                };
                Ok(Arc::new(counts))
            },
        },
    ]
}

/// `round`: a decimal keeps the digits asked for, as in DuckDB, and the type says so; a floating point number may have any
/// number of digits; what else there is stays DataFusion's.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Round {
    inner: ScalarUDF,
    signature: Signature,
}

/// The `round` that replaces DataFusion's.
pub(super) fn round() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::new_from_impl(Round {
        inner: datafusion::functions::math::round().as_ref().clone(),
        signature: Signature::user_defined(Volatility::Immutable),
    }))
}

fn digits_of(value: &ScalarValue) -> Option<i64> {
    match value.cast_to(&DataType::Int64) {
        Ok(ScalarValue::Int64(digits)) => digits,
        _ => None,
    }
}

impl ScalarUDFImpl for Round {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let Some(DataType::Decimal128(precision, scale)) =
            args.arg_fields.first().map(|field| field.data_type())
        else {
            return self.inner.return_field_from_args(args);
        };
        let digits = match args.scalar_arguments.get(1) {
            None => Some(0),
            Some(Some(digits)) => digits_of(digits),
            Some(None) => None,
        };
        let kept = match digits {
            Some(digits) => digits.clamp(0, i64::from(*scale)) as i8,
            None => *scale,
        };
        // 99 to tens is 100.
        let more = u8::from(kept == *scale || digits.is_none_or(|digits| digits < 0));
        let precision = (*precision + more).min(DECIMAL128_MAX_PRECISION);
        let data_type = DataType::Decimal128(precision, kept);
        Ok(Arc::new(Field::new(self.name(), data_type, true)))
    }

    /// The digits of a decimal stay the literal that they are: the type depends on them.
    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [DataType::Decimal128(_, _)] => Ok(types.to_vec()),
            [DataType::Decimal128(_, _), digits] if digits.is_integer() || digits.is_null() => {
                Ok(types.to_vec())
            }
            _ => {
                let fields: Vec<FieldRef> = types
                    .iter()
                    .map(|data_type| Arc::new(Field::new("", data_type.clone(), true)))
                    .collect();
                let coerced = fields_with_udf(&fields, &self.inner)?;
                Ok(coerced
                    .iter()
                    .map(|field| field.data_type().clone())
                    .collect())
            }
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some(values) = args.args.first() else {
            return self.inner.invoke_with_args(args);
        };
        let data_type = values.data_type();
        if matches!(data_type, DataType::Decimal128(_, _)) {
            let values = values.to_array(args.number_rows)?;
            let digits = match args.args.get(1) {
                Some(digits) => cast(&digits.to_array(args.number_rows)?, &DataType::Int64)?,
                None => Arc::new(Int64Array::from(vec![0; values.len()])),
            };
            let rounded = round_decimals(&values, &digits, args.return_field.data_type())?;
            return Ok(ColumnarValue::Array(rounded));
        }
        if let (true, Some(ColumnarValue::Scalar(digits))) =
            (data_type.is_floating(), args.args.get(1))
            && let Some(digits) = digits_of(digits)
            && digits.abs() > 300
        {
            // No double has digits that far behind the point, and none so far before it that would not round to zero.
            if digits > 0 {
                return Ok(values.clone());
            }
            let doubles = cast(&values.to_array(args.number_rows)?, &DataType::Float64)?;
            let zeros = doubles
                .as_primitive::<Float64Type>()
                .unary::<_, Float64Type>(|value| if value.is_finite() { 0.0 } else { value });
            return Ok(ColumnarValue::Array(cast(&zeros, &data_type)?));
        }
        self.inner.invoke_with_args(args)
    }
}

/// Halves go away from zero.
fn round_decimals(values: &ArrayRef, digits: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let (DataType::Decimal128(_, scale), DataType::Decimal128(precision, kept)) =
        (values.data_type(), to)
    else {
        return exec_err!("round of decimals yields decimals");
    };
    let (scale, kept) = (i64::from(*scale), i64::from(*kept));
    let out_of_range = || {
        Error::new(
            SqlState::NumericValueOutOfRange,
            format!("a rounded number does not fit DECIMAL({precision}, {kept})"),
        )
    };
    let values = values.as_primitive::<Decimal128Type>();
    let rounded = values
        .iter()
        .zip(digits.as_primitive::<Int64Type>())
        .map(|pair| {
            let (Some(value), Some(digits)) = pair else {
                return Ok(None);
            };
            let dropped = scale - digits.min(scale);
            let whole = match usize::try_from(dropped).ok().and_then(|n| POWERS.get(n)) {
                Some(unit) => {
                    let rest = value % unit;
                    let up = rest.unsigned_abs() >= unit.unsigned_abs() - rest.unsigned_abs();
                    let step = if up { unit * value.signum() } else { 0 };
                    (value - rest).checked_add(step).ok_or_else(out_of_range)?
                }
                // More digits than any decimal has.
                None => 0,
            };
            let unit = POWERS[usize::try_from(scale - kept).unwrap_or(0)];
            let limit = POWERS[usize::from(*precision).min(38)];
            match whole / unit {
                value if value.abs() < limit => Ok(Some(value)),
                _ => Err(out_of_range()),
            }
        })
        .collect::<std::result::Result<Decimal128Array, Error>>()?;
    Ok(Arc::new(rounded.with_data_type(to.clone())))
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

/// A number without its digits behind so many, which may be negative. A double has no digit beyond 323 places.
fn cut(value: f64, digits: i64) -> f64 {
    match digits {
        -308..=-1 => {
            let unit = 10_f64.powi(-digits as i32);
            (value / unit).trunc() * unit
        }
        0 => value.trunc(),
        1..=308 => {
            let unit = 10_f64.powi(digits as i32);
            let moved = value * unit;
            match moved.is_finite() {
                true => moved.trunc() / unit,
                false => value,
            }
        }
        ..0 => match value.is_finite() {
            true => 0.0,
            false => value,
        },
        _ => value,
    }
}

/// Numbers and moments, of which doubles alone may be infinite.
fn has_infinity(data_type: &DataType) -> bool {
    let moment = matches!(data_type, DataType::Date32 | DataType::Timestamp(_, _));
    moment || data_type.is_numeric() || data_type.is_null()
}

fn of_finite(args: &[ArrayRef], test: fn(f64) -> bool, of_moments: bool) -> Result<ArrayRef> {
    if args[0].data_type().is_temporal() {
        let known: BooleanArray = (0..args[0].len())
            .map(|row| args[0].is_valid(row).then_some(of_moments))
            .collect();
        return Ok(Arc::new(known));
    }
    tested(&[cast(&args[0], &DataType::Float64)?], test)
}

fn tested(args: &[ArrayRef], test: fn(f64) -> bool) -> Result<ArrayRef> {
    let values = args[0].as_primitive::<Float64Type>();
    let tested: BooleanArray = values.iter().map(|value| value.map(test)).collect();
    Ok(Arc::new(tested))
}

/// The gamma function or its logarithm, which zero has not.
fn of_gamma(args: &[ArrayRef], name: &str, function: fn(f64) -> f64) -> Result<ArrayRef> {
    let values = args[0].as_primitive::<Float64Type>();
    if values.iter().flatten().any(|value| value == 0.0) {
        return Err(Error::new(
            SqlState::NumericValueOutOfRange,
            format!("cannot take {name} of zero"),
        )
        .into());
    }
    Ok(Arc::new(values.unary::<_, Float64Type>(function)))
}
