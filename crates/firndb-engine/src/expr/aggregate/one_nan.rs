//! Aggregates whose result may be a NaN of any bits, with the one NaN (`crate::types::one_nan`).

use arrow::array::{ArrayRef, BooleanArray};
use arrow::datatypes::FieldRef;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};

use crate::types::{has_floats, one_nan, one_nan_of};

/// The accumulator, with one NaN if its results are floating point numbers.
pub(super) fn accumulator(inner: Box<dyn Accumulator>, result: &FieldRef) -> Box<dyn Accumulator> {
    match has_floats(result.data_type()) {
        true => Box::new(OneNan(inner)),
        false => inner,
    }
}

/// As [`accumulator`], of groups.
pub(super) fn groups(
    inner: Box<dyn GroupsAccumulator>,
    result: &FieldRef,
) -> Box<dyn GroupsAccumulator> {
    match has_floats(result.data_type()) {
        true => Box::new(OneNanOfGroups(inner)),
        false => inner,
    }
}

#[derive(Debug)]
struct OneNan(Box<dyn Accumulator>);

impl Accumulator for OneNan {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.update_batch(values)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(one_nan_of(&self.0.evaluate()?)?)
    }

    fn size(&self) -> usize {
        self.0.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.0.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.0.merge_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.0.supports_retract_batch()
    }
}

struct OneNanOfGroups(Box<dyn GroupsAccumulator>);

impl GroupsAccumulator for OneNanOfGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        filter: Option<&BooleanArray>,
        groups: usize,
    ) -> Result<()> {
        self.0.update_batch(values, group_indices, filter, groups)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        Ok(one_nan(&self.0.evaluate(emit_to)?)?)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.0.state(emit_to)
    }

    fn merge_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        groups: usize,
    ) -> Result<()> {
        self.0.merge_batch(values, group_indices, groups)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        self.0.convert_to_state(values, filter)
    }

    fn size(&self) -> usize {
        self.0.size()
    }
}
