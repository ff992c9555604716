//! SUM and AVG that neither wrap nor round on the way.
//!
//! Integers and decimals are summed in 128 bits, which no number of 64-bit values fills; wider decimals are checked at
//! every step. The average is taken of the exact sum and becomes a double at the end.

mod distinct;
mod extremum;
mod floats;
mod frames;
mod gather;
mod groups;
mod middle;
mod moments;
mod one_nan;
mod total;

use std::sync::Arc;

use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, Field, FieldRef};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF, Signature,
    Volatility,
};

use crate::expr::convert::type_name;
use crate::{Error, SqlState};

pub(super) use extremum::at_extreme;

/// The aggregates that replace DataFusion's of the same name.
pub(super) fn functions() -> Vec<Arc<AggregateUDF>> {
    [Kind::Sum, Kind::Average]
        .into_iter()
        .map(|kind| {
            Arc::new(AggregateUDF::new_from_impl(Summing {
                kind,
                aliases: match kind {
                    Kind::Sum => vec![],
                    Kind::Average => vec!["mean".to_string()],
                },
                signature: Signature::user_defined(Volatility::Immutable),
            }))
        })
        .chain(gather::functions())
        .chain(extremum::functions())
        .chain(floats::functions())
        .chain(frames::functions())
        .chain(std::iter::once(middle::function()))
        .collect()
}

/// What becomes of a sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Sum,
    Average,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Summing {
    kind: Kind,
    aliases: Vec<String>,
    signature: Signature,
}

/// The type in which values of a type are summed: DECIMAL(38, scale), or double.
fn total_type(input: &DataType) -> Option<DataType> {
    match input {
        DataType::Decimal128(_, scale) => {
            Some(DataType::Decimal128(DECIMAL128_MAX_PRECISION, *scale))
        }
        DataType::Float32 | DataType::Float64 => Some(DataType::Float64),
        integer if integer.is_integer() => Some(DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0)),
        _ => None,
    }
}

fn input_type(args: &AccumulatorArgs) -> Result<DataType> {
    match args.expr_fields {
        [field, ..] => Ok(field.data_type().clone()),
        [] => exec_err!("sum and avg take one argument"),
    }
}

impl AggregateUDFImpl for Summing {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Sum => "sum",
            Kind::Average => "avg",
        }
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [input] = types else {
            return exec_err!("{} takes one argument", self.name());
        };
        let coerced = match input {
            DataType::Null | DataType::Boolean => DataType::Int64,
            DataType::Float16 => DataType::Float32,
            DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
                DataType::Decimal128(*precision, *scale)
            }
            DataType::Dictionary(_, value) if total_type(value).is_some() => value.as_ref().clone(),
            known if total_type(known).is_some() => known.clone(),
            other if let Some(moment) = moments::measured(self.kind, other) => moment,
            other => {
                return Err(Error::new(
                    SqlState::UndefinedFunction,
                    format!("function {}({}) does not exist", self.name(), type_name(other)),
                )
                .with_hint("No function matches the given name and argument types. You might need to add explicit type casts.")
                .into());
            }
        };
        Ok(vec![coerced])
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match (self.kind, types) {
            (kind, [input]) if let Some(moment) = moments::measured(kind, input) => Ok(moment),
            (Kind::Average, _) => Ok(DataType::Float64),
            (Kind::Sum, [input]) => match total_type(input) {
                Some(total) => Ok(total),
                None => exec_err!("{input} cannot be summed"),
            },
            _ => exec_err!("{} takes one argument", self.name()),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let Some(input) = args.input_fields.first().map(|field| field.data_type()) else {
            return exec_err!("{} takes one argument", self.name());
        };
        if args.is_distinct {
            let item = Field::new_list_field(input.clone(), true);
            let name = format_state_name(args.name, "distinct");
            return Ok(vec![Arc::new(Field::new_list(name, item, false))]);
        }
        if moments::measured(self.kind, input).is_some() {
            return Ok(moments::state_fields(args.name));
        }
        let Some(total) = total_type(input) else {
            return exec_err!("{input} cannot be summed");
        };
        let mut fields = vec![Arc::new(Field::new(
            format_state_name(args.name, "sum"),
            total,
            true,
        ))];
        if self.kind == Kind::Average {
            fields.push(Arc::new(Field::new(
                format_state_name(args.name, "count"),
                DataType::Int64,
                true,
            )));
        }
        Ok(fields)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let input = input_type(&args)?;
        if moments::measured(self.kind, &input).is_some() {
            if args.is_distinct {
                return Err(Error::unsupported(format!(
                    "{}(DISTINCT …) of {} is not supported",
                    self.name(),
                    type_name(&input)
                ))
                .into());
            }
            return Ok(moments::accumulator(self.kind, &input));
        }
        if args.is_distinct {
            distinct::accumulator(self.kind, &input)
        } else {
            total::accumulator(self.kind, &input)
        }
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.accumulator(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        let input = args.expr_fields.first().map(|field| field.data_type());
        let is_moment = input.is_some_and(|input| moments::measured(self.kind, input).is_some());
        !args.is_distinct && !is_moment
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        groups::accumulator(self.kind, &input_type(&args)?)
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}
