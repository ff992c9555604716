//! MEDIAN: DataFusion's of numbers, of dates and timestamps the moment halfway between the two in the middle, and of texts and enums the
//! first of the two, as in DuckDB.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::Result;
use datafusion::functions_aggregate::median::median_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, Signature, Volatility,
};

use super::frames::Frame;
use super::{gather, one_nan};

/// The aggregate.
pub(super) fn function() -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::new_from_impl(Median {
        numbers: median_udaf().as_ref().clone(),
        moments: gather::percentile_function(),
        signature: Signature::user_defined(Volatility::Immutable),
    }))
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Median {
    numbers: AggregateUDF,
    moments: AggregateUDF,
    signature: Signature,
}

/// Whether all values are gathered: moments and texts are.
fn is_gathered(data_type: Option<&FieldRef>) -> bool {
    data_type.is_some_and(|field| {
        field.data_type().is_string() || matches!(field.data_type(), DataType::Timestamp(_, _))
    })
}

impl AggregateUDFImpl for Median {
    fn name(&self) -> &str {
        "median"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [value] = types else {
            return Err(gather::undefined(self.name(), types).into());
        };
        if let Some(moment) = gather::as_moment(value) {
            return Ok(vec![moment]);
        }
        match value {
            value if value.is_string() => Ok(vec![value.clone()]),
            // HUGEINT and the sums of integers are such decimals.
            DataType::Decimal128(_, 0) => Ok(vec![DataType::Float64]),
            value if value.is_integer() || value.is_null() => Ok(vec![DataType::Float64]),
            value if value.is_numeric() => Ok(vec![value.clone()]),
            _ => Err(gather::undefined(self.name(), types).into()),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [text] if text.is_string() => Ok(text.clone()),
            _ => self.numbers.inner().return_type(types),
        }
    }

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        let types: Vec<DataType> = fields
            .iter()
            .map(|field| field.data_type().clone())
            .collect();
        let field = Field::new(self.name(), self.return_type(&types)?, true);
        Ok(Arc::new(match fields {
            [text] if text.data_type().is_string() => field.with_metadata(text.metadata().clone()),
            _ => field,
        }))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        match is_gathered(args.input_fields.first()) {
            true => self.moments.inner().state_fields(args),
            false => self.numbers.inner().state_fields(args),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match is_gathered(args.expr_fields.first()) {
            true => gather::middle(&args),
            false => {
                let result = Arc::clone(&args.return_field);
                let inner = self.numbers.inner().accumulator(args)?;
                Ok(one_nan::accumulator(inner, &result))
            }
        }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        !is_gathered(args.expr_fields.first())
            && self.numbers.inner().groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        let result = Arc::clone(&args.return_field);
        let inner = self.numbers.inner().create_groups_accumulator(args)?;
        Ok(one_nan::groups(inner, &result))
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let function = AggregateUDF::new_from_impl(self.clone());
        Ok(Box::new(Frame::new(&function, &args)))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}
