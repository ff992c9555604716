//! Aggregates over frames that move, and those that depend on the order of their input.
//!
//! DataFusion takes the rows that leave a frame out of an aggregate's state. For variances that cancels to noise, or to a
//! negative number; others cannot do it at all, and the query is refused. Here a frame's rows are kept and aggregated anew whenever
//! its value is asked for: as exact as over all rows, in time that grows with the frame.
//!
//! ARRAY_AGG and STRING_AGG have each its own order, too. DataFusion sorts the input once for all aggregates of a query: one without
//! ORDER BY would take another's order, and one with DISTINCT the reverse of its own. Here each sorts what it gathered, unless the
//! input comes in its order anyway.

use std::collections::VecDeque;
use std::mem::size_of_val;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::{
    array_agg, bit_and_or_xor, bool_and_or, correlation, covariance, regr, stddev, string_agg,
    variance,
};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF, Signature,
};
use datafusion::physical_expr::PhysicalExpr;

use super::one_nan;
use crate::types::{flat, full, one_nan_of};

/// The aggregates that replace DataFusion's of the same name.
pub(super) fn functions() -> Vec<Arc<AggregateUDF>> {
    let ordered = [
        (array_agg::array_agg_udaf(), &["list"][..]),
        (string_agg::string_agg_udaf(), &["group_concat", "listagg"]),
    ];
    let others = [
        (
            variance::var_samp_udaf(),
            &["var_samp", "var_sample", "variance"][..],
        ),
        (variance::var_pop_udaf(), &["var_population"]),
        (stddev::stddev_udaf(), &["stddev_samp"]),
        (stddev::stddev_pop_udaf(), &[]),
        (covariance::covar_samp_udaf(), &["covar"]),
        (covariance::covar_pop_udaf(), &[]),
        (correlation::corr_udaf(), &[]),
        (regr::regr_slope_udaf(), &[]),
        (regr::regr_intercept_udaf(), &[]),
        (regr::regr_r2_udaf(), &[]),
        (regr::regr_avgx_udaf(), &[]),
        (regr::regr_avgy_udaf(), &[]),
        (regr::regr_sxx_udaf(), &[]),
        (regr::regr_syy_udaf(), &[]),
        (regr::regr_sxy_udaf(), &[]),
        (bool_and_or::bool_and_udaf(), &["every"]),
        (bool_and_or::bool_or_udaf(), &[]),
        (bit_and_or_xor::bit_and_udaf(), &[]),
        (bit_and_or_xor::bit_or_udaf(), &[]),
        (bit_and_or_xor::bit_xor_udaf(), &[]),
    ];
    let ordered = ordered.into_iter().map(|named| (named, true));
    let others = others.into_iter().map(|named| (named, false));
    ordered
        .chain(others)
        .map(|((function, aliases), ordered)| {
            Arc::new(AggregateUDF::new_from_impl(Framed {
                inner: function.as_ref().clone(),
                aliases: aliases.iter().map(ToString::to_string).collect(),
                ordered,
            }))
        })
        .collect()
}

/// An aggregate whose frames are aggregated anew.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Framed {
    inner: AggregateUDF,
    aliases: Vec<String>,
    /// Whether its result depends on the order of its input.
    ordered: bool,
}

impl AggregateUDFImpl for Framed {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.inner().coerce_types(types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.inner().return_type(types)
    }

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        let field = self.inner.inner().return_field(fields)?;
        Ok(match (field.data_type(), fields) {
            // A list's items are what the argument is.
            (DataType::List(_), [value, ..]) if self.name() == "array_agg" => {
                let full = full(value).with_name(Field::LIST_FIELD_DEFAULT_NAME);
                let list = DataType::List(Arc::new(full));
                let listed = flat(&field.as_ref().clone().with_data_type(list));
                let metadata = listed.metadata().clone();
                Arc::new(field.as_ref().clone().with_metadata(metadata))
            }
            _ => field,
        })
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.inner.inner().state_fields(args)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let result = Arc::clone(&args.return_field);
        let inner = self.inner.inner().accumulator(args)?;
        Ok(one_nan::accumulator(inner, &result))
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.inner.inner().groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        let result = Arc::clone(&args.return_field);
        let inner = self.inner.inner().create_groups_accumulator(args)?;
        Ok(one_nan::groups(inner, &result))
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Frame::new(&self.inner, &args)))
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        self.inner.inner().default_value(data_type)
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.inner.inner().supports_null_handling_clause()
    }

    fn supports_within_group_clause(&self) -> bool {
        self.inner.inner().supports_within_group_clause()
    }

    /// An order is of use and never asked for.
    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        match self.ordered {
            true => AggregateOrderSensitivity::Beneficial,
            false => self.inner.inner().order_sensitivity(),
        }
    }

    fn with_beneficial_ordering(
        self: Arc<Self>,
        beneficial: bool,
    ) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        if !self.ordered {
            return Ok(None);
        }
        // Only the aggregates that know such an order take it; the others sort.
        let inner = match self.inner.inner().order_sensitivity() {
            AggregateOrderSensitivity::SoftRequirement | AggregateOrderSensitivity::Beneficial => {
                Arc::clone(self.inner.inner()).with_beneficial_ordering(beneficial)?
            }
            _ => None,
        };
        Ok(Some(Arc::new(Framed {
            inner: match inner {
                Some(inner) => AggregateUDF::new_from_shared_impl(inner),
                None => self.inner.clone(),
            },
            aliases: self.aliases.clone(),
            ordered: true,
        })))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        match self.ordered {
            true => ReversedUDAF::NotSupported,
            false => self.inner.inner().reverse_expr(),
        }
    }
}

/// The rows of a frame, and what an accumulator of theirs is made of.
#[derive(Debug)]
pub(super) struct Frame {
    function: AggregateUDF,
    return_field: FieldRef,
    schema: Schema,
    ignore_nulls: bool,
    name: String,
    is_distinct: bool,
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    expr_fields: Vec<FieldRef>,
    /// The arguments of the frame's rows, oldest first; no part is empty.
    parts: VecDeque<Vec<ArrayRef>>,
}

impl Frame {
    pub(super) fn new(function: &AggregateUDF, args: &AccumulatorArgs) -> Self {
        Frame {
            function: function.clone(),
            return_field: Arc::clone(&args.return_field),
            schema: args.schema.clone(),
            ignore_nulls: args.ignore_nulls,
            name: args.name.to_owned(),
            is_distinct: args.is_distinct,
            exprs: args.exprs.to_vec(),
            expr_fields: args.expr_fields.to_vec(),
            parts: VecDeque::new(),
        }
    }

    fn accumulator(&self) -> Result<Box<dyn Accumulator>> {
        self.function.accumulator(AccumulatorArgs {
            return_field: Arc::clone(&self.return_field),
            schema: &self.schema,
            ignore_nulls: self.ignore_nulls,
            order_bys: &[],
            is_reversed: false,
            name: &self.name,
            is_distinct: self.is_distinct,
            exprs: &self.exprs,
            expr_fields: &self.expr_fields,
        })
    }

    fn aggregated(&self) -> Result<Box<dyn Accumulator>> {
        let mut accumulator = self.accumulator()?;
        for part in &self.parts {
            accumulator.update_batch(part)?;
        }
        Ok(accumulator)
    }
}

impl Accumulator for Frame {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        if values.first().is_some_and(|values| !values.is_empty()) {
            self.parts.push_back(values.to_vec());
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let mut leaving = values.first().map_or(0, |values| values.len());
        while leaving > 0
            && let Some(oldest) = self.parts.front_mut()
        {
            let rows = oldest.first().map_or(0, |values| values.len());
            if rows <= leaving {
                leaving -= rows;
                self.parts.pop_front();
            } else {
                for values in oldest.iter_mut() {
                    *values = values.slice(leaving, rows - leaving);
                }
                leaving = 0;
            }
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        Err(crate::Error::internal("a frame is aggregated in one place").into())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.aggregated()?.state()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(one_nan_of(&self.aggregated()?.evaluate()?)?)
    }

    fn size(&self) -> usize {
        let parts: usize = self
            .parts
            .iter()
            .flatten()
            .map(|values| values.get_array_memory_size())
            .sum();
        size_of_val(self) + parts
    }
}
