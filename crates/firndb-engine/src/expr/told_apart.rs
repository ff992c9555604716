//! A value whose name in a plan tells its casts, which DataFusion leaves out of names.
//!
//! The function yields its argument and is gone when the optimizer has simplified the plan; until then it keeps `a` and
//! `a::BIGINT` apart where one list has both.

use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

/// The value under a name with its casts.
pub(super) fn told_apart(value: Expr) -> Expr {
    static FUNCTION: LazyLock<ScalarUDF> = LazyLock::new(|| {
        ScalarUDF::new_from_impl(ToldApart {
            signature: Signature::any(1, Volatility::Immutable),
        })
    });
    FUNCTION.call(vec![value])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ToldApart {
    signature: Signature,
}

impl ScalarUDFImpl for ToldApart {
    fn name(&self) -> &'static str {
        "__firndb_told_apart"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(args.iter().map(ToString::to_string).collect())
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments.first().cloned().unwrap_or(DataType::Null))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(match args.arg_fields {
            [given, ..] => Arc::clone(given),
            [] => Arc::new(Field::new(self.name(), DataType::Null, true)),
        })
    }

    fn simplify(&self, args: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let mut args = args;
        Ok(match args.pop() {
            Some(value) => ExprSimplifyResult::Simplified(value),
            None => ExprSimplifyResult::Original(args),
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let given = args.args.into_iter().next();
        Ok(given.unwrap_or(ColumnarValue::Scalar(ScalarValue::Null)))
    }
}
