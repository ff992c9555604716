//! ARRAY_AGG and STRING_AGG, each in its own order.
//!
//! DataFusion sorts the input once for all aggregates of a query: one without ORDER BY would take another's order, and one with
//! DISTINCT the reverse of its own. Here each sorts what it gathered, unless the input comes in its order anyway.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::{array_agg, string_agg};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF, Signature,
};

use super::frames::Frame;

/// The aggregates of this module.
pub(super) fn functions() -> Vec<Arc<AggregateUDF>> {
    [
        (array_agg::array_agg_udaf(), &["list"][..]),
        (
            string_agg::string_agg_udaf(),
            &["group_concat", "listagg"][..],
        ),
    ]
    .into_iter()
    .map(|(function, aliases)| {
        Arc::new(AggregateUDF::new_from_impl(Ordered {
            inner: function.as_ref().clone(),
            aliases: aliases.iter().map(ToString::to_string).collect(),
        }))
    })
    .collect()
}

/// An aggregate whose result depends on the order of its input.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Ordered {
    inner: AggregateUDF,
    aliases: Vec<String>,
}

impl AggregateUDFImpl for Ordered {
    fn name(&self) -> &str {
        self.inner.inner().name()
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        self.inner.inner().signature()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.inner().coerce_types(types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.inner().return_type(types)
    }

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        self.inner.inner().return_field(fields)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.inner.inner().state_fields(args)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.inner.inner().accumulator(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.inner.inner().groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        self.inner.inner().create_groups_accumulator(args)
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
        AggregateOrderSensitivity::Beneficial
    }

    fn with_beneficial_ordering(
        self: Arc<Self>,
        beneficial: bool,
    ) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        // Only the aggregates that know such an order take it; the others sort.
        let inner = match self.inner.inner().order_sensitivity() {
            AggregateOrderSensitivity::SoftRequirement | AggregateOrderSensitivity::Beneficial => {
                Arc::clone(self.inner.inner()).with_beneficial_ordering(beneficial)?
            }
            _ => None,
        };
        let ordered = Ordered {
            inner: match inner {
                Some(inner) => AggregateUDF::new_from_shared_impl(inner),
                None => self.inner.clone(),
            },
            aliases: self.aliases.clone(),
        };
        Ok(Some(Arc::new(ordered)))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::NotSupported
    }
}
