//! A value whose name in a plan tells its casts or its subquery, which DataFusion leaves out of names.
//!
//! The function yields its first argument and is gone when the optimizer has simplified the plan; until then it keeps `a` and
//! `a::BIGINT` apart where one list has both, and by a second argument `a IN (SELECT 1)` and `a IN (SELECT 2)`.

use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TypeSignature, Volatility, lit,
};

/// The value under a name with its casts.
pub(super) fn told_apart(value: Expr) -> Expr {
    function().call(vec![value])
}

/// The value under a name of its own.
pub(super) fn told_apart_as(value: Expr, name: &str) -> Expr {
    function().call(vec![value, lit(name)])
}

fn function() -> &'static ScalarUDF {
    static FUNCTION: LazyLock<ScalarUDF> = LazyLock::new(|| {
        let arities = vec![TypeSignature::Any(1), TypeSignature::Any(2)];
        ScalarUDF::new_from_impl(ToldApart {
            signature: Signature::one_of(arities, Volatility::Immutable),
        })
    });
    &FUNCTION
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
        Ok(match args {
            [_, Expr::Literal(ScalarValue::Utf8(Some(name)), _)] => name.clone(),
            args => args.iter().map(ToString::to_string).collect(),
        })
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
        if args.is_empty() {
            return Ok(ExprSimplifyResult::Original(args));
        }
        Ok(ExprSimplifyResult::Simplified(args.swap_remove(0)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let given = args.args.into_iter().next();
        Ok(given.unwrap_or(ColumnarValue::Scalar(ScalarValue::Null)))
    }
}
