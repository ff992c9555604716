//! MIN and MAX by group over REAL and DOUBLE.
//!
//! DataFusion 55 begins each group at the greatest finite value and takes every NaN as a new extreme: `min` of infinity alone is
//! 1.8e308 there, and what came before a NaN is forgotten. Here NaN is the greatest value, as everywhere in SQL, and a group without a value is NULL.
//! All other types are DataFusion's.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, FieldRef, Float32Type, Float64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF,
    SetMonotonicity, Signature, StatisticsArgs,
};

/// The aggregates that replace DataFusion's of the same name.
pub(super) fn functions() -> Vec<Arc<AggregateUDF>> {
    [
        (min_udaf(), Ordering::Less),
        (max_udaf(), Ordering::Greater),
    ]
    .into_iter()
    .map(|(inner, wanted)| {
        Arc::new(AggregateUDF::new_from_impl(Extreme {
            inner: inner.as_ref().clone(),
            wanted,
        }))
    })
    .collect()
}

/// MIN or MAX.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Extreme {
    inner: AggregateUDF,
    /// How a better value compares to one before.
    wanted: Ordering,
}

impl AggregateUDFImpl for Extreme {
    fn name(&self) -> &str {
        self.inner.name()
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
        Ok(match args.return_field.data_type() {
            DataType::Float32 => Box::new(GroupExtremes::<Float32Type>::new(self.wanted)),
            DataType::Float64 => Box::new(GroupExtremes::<Float64Type>::new(self.wanted)),
            _ => return self.inner.inner().create_groups_accumulator(args),
        })
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.inner.inner().create_sliding_accumulator(args)
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        self.inner.inner().default_value(data_type)
    }

    fn is_descending(&self) -> Option<bool> {
        self.inner.inner().is_descending()
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.inner().order_sensitivity()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        self.inner.inner().reverse_expr()
    }

    fn value_from_stats(&self, args: &StatisticsArgs) -> Option<ScalarValue> {
        self.inner.inner().value_from_stats(args)
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.inner.inner().set_monotonicity(data_type)
    }
}

/// The least or greatest values of groups.
struct GroupExtremes<T: ArrowPrimitiveType> {
    wanted: Ordering,
    values: Vec<T::Native>,
    /// Whether a group has a value.
    seen: Vec<bool>,
}

/// SQL's order of floating-point numbers: NaN is the greatest and equal to itself, zeros are equal.
fn order<N: PartialOrd>(one: &N, other: &N) -> Ordering {
    let is_nan = |value: &N| value.partial_cmp(value).is_none();
    one.partial_cmp(other)
        .unwrap_or_else(|| is_nan(one).cmp(&is_nan(other)))
}

impl<T: ArrowPrimitiveType> GroupExtremes<T> {
    fn new(wanted: Ordering) -> Self {
        GroupExtremes {
            wanted,
            values: Vec::new(),
            seen: Vec::new(),
        }
    }

    fn meet(
        &mut self,
        values: &ArrayRef,
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) {
        self.values.resize(total_groups, T::Native::default());
        self.seen.resize(total_groups, false);
        let values = values.as_primitive::<T>();
        for (row, &group) in groups.iter().enumerate() {
            let counts = filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
            if values.is_null(row) || !counts {
                continue;
            }
            let value = values.value(row);
            if !self.seen[group] || order(&value, &self.values[group]) == self.wanted {
                self.values[group] = value;
                self.seen[group] = true;
            }
        }
    }

    fn take(&mut self, emit: EmitTo) -> ArrayRef {
        let values = emit.take_needed(&mut self.values);
        let nulls = NullBuffer::from(emit.take_needed(&mut self.seen));
        Arc::new(PrimitiveArray::<T>::new(values.into(), Some(nulls)))
    }
}

impl<T: ArrowPrimitiveType> GroupsAccumulator for GroupExtremes<T> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<()> {
        self.meet(&values[0], groups, filter, total_groups);
        Ok(())
    }

    fn merge_batch(
        &mut self,
        states: &[ArrayRef],
        groups: &[usize],
        total_groups: usize,
    ) -> Result<()> {
        self.meet(&states[0], groups, None, total_groups);
        Ok(())
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        Ok(self.take(emit))
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.take(emit)])
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let values = values[0].as_primitive::<T>();
        let passed = filter.map(|filter| {
            NullBuffer::from_iter(
                (0..filter.len()).map(|row| filter.is_valid(row) && filter.value(row)),
            )
        });
        let nulls = NullBuffer::union(values.nulls(), passed.as_ref());
        let values = PrimitiveArray::<T>::new(values.values().clone(), nulls);
        Ok(vec![Arc::new(values)])
    }

    fn size(&self) -> usize {
        self.values.capacity() * size_of::<T::Native>() + self.seen.capacity()
    }
}
