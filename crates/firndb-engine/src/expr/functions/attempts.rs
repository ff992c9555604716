//! `try(x)`: NULL where the computation of `x` fails for a row, as in DuckDB.
//!
//! The parser writes it as a function of a constant and a lambda whose body is `x`, so that `x` is computed here. It is computed for all rows
//! at once; where that fails, for either half, and so on down to the rows that fail. What fails otherwise than over its data (SQLSTATE class
//! 22), as for want of memory or by cancellation, fails the statement.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, UInt64Array, new_empty_array, new_null_array};
use arrow::compute::{cast, concat, take, take_arrays};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, HigherOrderFunctionArgs, HigherOrderReturnFieldArgs, HigherOrderSignature,
    HigherOrderUDF, HigherOrderUDFImpl, LambdaArgument, LambdaParametersProgress, ValueOrLambda,
    Volatility,
};

use crate::parse::TRY;
use crate::{Error, SqlState};

/// The function.
pub(in crate::expr) fn function() -> Arc<HigherOrderUDF> {
    Arc::new(HigherOrderUDF::new_from_impl(Try {
        signature: HigherOrderSignature::user_defined(Volatility::Immutable),
    }))
}

#[derive(Debug)]
struct Try {
    signature: HigherOrderSignature,
}

impl PartialEq for Try {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Try {}

impl Hash for Try {
    fn hash<H: Hasher>(&self, state: &mut H) {
        TRY.hash(state);
    }
}

fn usage<T>() -> Result<T> {
    Err(Error::new(SqlState::UndefinedFunction, "try takes one expression").into())
}

impl HigherOrderUDFImpl for Try {
    fn name(&self) -> &str {
        TRY
    }

    fn signature(&self) -> &HigherOrderSignature {
        &self.signature
    }

    fn coerce_value_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        Ok(types.to_vec())
    }

    /// What is tried must not be computed before, as a part that two expressions share.
    fn short_circuits(&self) -> bool {
        true
    }

    fn lambda_parameters(
        &self,
        _: usize,
        fields: &[ValueOrLambda<FieldRef, Option<FieldRef>>],
    ) -> Result<LambdaParametersProgress> {
        match fields {
            [ValueOrLambda::Value(row), ValueOrLambda::Lambda(_)] => Ok(
                LambdaParametersProgress::Complete(vec![vec![Arc::clone(row)]]),
            ),
            _ => usage(),
        }
    }

    fn return_field_from_args(&self, args: HigherOrderReturnFieldArgs) -> Result<FieldRef> {
        match args.arg_fields {
            [_, ValueOrLambda::Lambda(value)] => {
                let value: &Field = value;
                Ok(Arc::new(value.clone().with_name("").with_nullable(true)))
            }
            _ => usage(),
        }
    }

    fn invoke_with_args(&self, args: HigherOrderFunctionArgs) -> Result<ColumnarValue> {
        let [ValueOrLambda::Value(marks), ValueOrLambda::Lambda(value)] = args.args.as_slice()
        else {
            return usage();
        };
        let attempt = Attempt {
            marks: marks.to_array(args.number_rows)?,
            value,
            result: args.return_field.data_type().clone(),
        };
        let mut parts = Vec::new();
        attempt.rows(0, args.number_rows, &mut parts)?;
        let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
        Ok(ColumnarValue::Array(match parts.as_slice() {
            [] => new_empty_array(&attempt.result),
            parts => concat(parts)?,
        }))
    }
}

struct Attempt<'a> {
    marks: ArrayRef,
    value: &'a LambdaArgument,
    result: DataType,
}

impl Attempt<'_> {
    /// The values of some rows, in parts.
    fn rows(&self, start: usize, count: usize, parts: &mut Vec<ArrayRef>) -> Result<()> {
        if count == 0 {
            return Ok(());
        }
        let failure = match self.computed(start, count) {
            Ok(values) => {
                parts.push(values);
                return Ok(());
            }
            Err(error) => Error::from(error),
        };
        if !failure.state.code().starts_with("22") {
            return Err(failure.into());
        }
        if count == 1 {
            parts.push(new_null_array(&self.result, 1));
            return Ok(());
        }
        let half = count / 2;
        self.rows(start, half, parts)?;
        self.rows(start + half, count - half, parts)
    }

    fn computed(&self, start: usize, count: usize) -> Result<ArrayRef> {
        let rows: UInt64Array = (start as u64..(start + count) as u64).collect();
        let marks = || Ok(take(&self.marks, &rows, None)?);
        let values = self
            .value
            .evaluate(&[&marks], |captured| {
                Ok(take_arrays(captured, &rows, None)?)
            })?
            .into_array(count)?;
        Ok(match *values.data_type() == self.result {
            true => values,
            false => cast(&values, &self.result)?,
        })
    }
}
