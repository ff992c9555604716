//! The functions that make equal floating point numbers the same, and the type in which two sides of a comparison meet.
//!
//! A floating point number beside a decimal, and a REAL beside an integer, are compared as doubles, as in PostgreSQL: the REAL
//! widens exactly, so that all spellings of a comparison and all numbers of up to 15 digits agree.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

use crate::types::{canonical, has_floats, one_nan};

/// The name of the function that makes one of the zeros, too.
pub(super) const NAME: &str = "canonical_float";

/// Brings floating point numbers, and those in lists and structs, to the one NaN, and perhaps to the one zero.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct CanonicalFloat {
    signature: Signature,
    /// Whether -0.0 becomes 0.0.
    one_zero: bool,
}

impl CanonicalFloat {
    fn function(one_zero: bool) -> ScalarUDF {
        ScalarUDF::new_from_impl(CanonicalFloat {
            signature: Signature::any(1, Volatility::Immutable),
            one_zero,
        })
    }

    /// The expression with one zero and one NaN.
    pub(super) fn call(expr: Expr) -> Expr {
        Self::function(true).call(vec![expr])
    }

    /// The function for what others yield, a function of DataFusion's or a file: it leaves zeros alone.
    pub(crate) fn one_nan() -> ScalarUDF {
        Self::function(false)
    }

    fn brought(&self, values: &ArrayRef) -> Result<ArrayRef> {
        Ok(match self.one_zero {
            true => canonical(values)?,
            false => one_nan(values)?,
        })
    }
}

impl ScalarUDFImpl for CanonicalFloat {
    fn name(&self) -> &str {
        match self.one_zero {
            true => NAME,
            false => "one_nan",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [floats] if has_floats(floats) => Ok(floats.clone()),
            _ => exec_err!(
                "{} takes one value with floating point numbers",
                self.name()
            ),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value] = args.args.as_slice() else {
            return exec_err!(
                "{} takes one value with floating point numbers",
                self.name()
            );
        };
        match value {
            ColumnarValue::Array(array) => self.brought(array).map(ColumnarValue::Array),
            ColumnarValue::Scalar(value) => {
                let array = self.brought(&value.to_array()?)?;
                ScalarValue::try_from_array(&array, 0).map(ColumnarValue::Scalar)
            }
        }
    }
}

/// The type in which values of two types are compared, where a floating point number meets another type: doubles. In lists and structs,
/// member by member. `None` where that does not arise.
pub(super) fn meeting(left: &DataType, right: &DataType) -> Option<DataType> {
    use DataType::{FixedSizeList, Float32, Float64, LargeList, List, Struct};
    let exact = |data_type: &DataType| data_type.is_decimal() || data_type.is_integer();
    match (left, right) {
        (Float32, Float64) | (Float64, Float32) => Some(Float64),
        (Float32 | Float64, other) | (other, Float32 | Float64) if exact(other) => Some(Float64),
        (
            List(one) | LargeList(one) | FixedSizeList(one, _),
            List(other) | LargeList(other) | FixedSizeList(other, _),
        ) => meeting(one.data_type(), other.data_type())
            .map(|item| List(Arc::new(Field::new("item", item, true)))),
        (Struct(one), Struct(other)) if one.len() == other.len() => {
            let mut any = false;
            let mut members = Vec::with_capacity(one.len());
            for (one, other) in one.iter().zip(other) {
                if one.name() != other.name() {
                    return None;
                }
                let (l, r) = (one.data_type(), other.data_type());
                let met = meeting(l, r);
                any |= met.is_some();
                let data_type = match met {
                    Some(met) => met,
                    None if l == r => l.clone(),
                    // Members of other types meet as DataFusion has them meet.
                    None => {
                        datafusion::logical_expr::type_coercion::binary::comparison_coercion(l, r)?
                    }
                };
                members.push(Field::new(one.name(), data_type, true));
            }
            any.then(|| Struct(members.into()))
        }
        _ => None,
    }
}
