//! ARG_MIN and ARG_MAX over windows: the value of the row whose key is the least or the greatest, of several the first.
//!
//! Without a window they are the first value in an order (`parse::calls`), which aggregates over windows cannot have.

use std::cmp::Ordering;
use std::mem::size_of_val;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, make_comparator};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
};

use super::frames::Frame;

/// The aggregates of this module.
pub(super) fn functions() -> Vec<Arc<AggregateUDF>> {
    ["arg_min", "arg_max"]
        .into_iter()
        .filter_map(at_extreme)
        .collect()
}

/// ARG_MIN or ARG_MAX.
pub(in crate::expr) fn at_extreme(name: &str) -> Option<Arc<AggregateUDF>> {
    let (name, wanted) = match name {
        "arg_min" => ("arg_min", Ordering::Less),
        "arg_max" => ("arg_max", Ordering::Greater),
        _ => return None,
    };
    Some(Arc::new(AggregateUDF::new_from_impl(AtExtreme {
        name,
        wanted,
        signature: Signature::any(2, Volatility::Immutable),
    })))
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct AtExtreme {
    name: &'static str,
    wanted: Ordering,
    signature: Signature,
}

impl AggregateUDFImpl for AtExtreme {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [value, _] => Ok(value.clone()),
            _ => exec_err!("{} takes a value and a key", self.name),
        }
    }

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        let [value, _] = fields else {
            return exec_err!("{} takes a value and a key", self.name);
        };
        let field = Field::new(self.name, value.data_type().clone(), true);
        Ok(Arc::new(field.with_metadata(value.metadata().clone())))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let [value, key] = args.input_fields else {
            return exec_err!("{} takes a value and a key", self.name);
        };
        let state = |field: &FieldRef, part: &str| {
            let name = format_state_name(args.name, part);
            Arc::new(Field::new(name, field.data_type().clone(), true))
        };
        Ok(vec![state(value, "value"), state(key, "key")])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let [value, key] = args.expr_fields else {
            return exec_err!("{} takes a value and a key", self.name);
        };
        Ok(Box::new(Extreme {
            wanted: self.wanted,
            value: ScalarValue::try_from(value.data_type())?,
            key: ScalarValue::try_from(key.data_type())?,
        }))
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let function = AggregateUDF::new_from_impl(self.clone());
        Ok(Box::new(Frame::new(&function, &args)))
    }
}

/// Within nested keys; a key that is NULL itself counts for nothing.
const NULLS_ARE_GREATEST: SortOptions = SortOptions {
    descending: false,
    nulls_first: false,
};

/// The value found so far and its key, NULL before there is one.
#[derive(Debug)]
struct Extreme {
    wanted: Ordering,
    value: ScalarValue,
    key: ScalarValue,
}

impl Accumulator for Extreme {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let [values, keys] = values else {
            return exec_err!("an extreme has a value and a key");
        };
        let (no_value, no_key) = (values.logical_nulls(), keys.logical_nulls());
        let known = |row: &usize| {
            let valid = |nulls: &Option<arrow::buffer::NullBuffer>| {
                nulls.as_ref().is_none_or(|nulls| nulls.is_valid(*row))
            };
            valid(&no_value) && valid(&no_key)
        };
        let compare = make_comparator(keys, keys, NULLS_ARE_GREATEST)?;
        let best = (0..keys.len()).filter(known).reduce(|best, row| {
            match compare(row, best) == self.wanted {
                true => row,
                false => best,
            }
        });
        let Some(best) = best else {
            return Ok(());
        };
        let better = self.key.is_null() || {
            let so_far = self.key.to_array()?;
            make_comparator(keys, &so_far, NULLS_ARE_GREATEST)?(best, 0) == self.wanted
        };
        if better {
            self.value = ScalarValue::try_from_array(values, best)?;
            self.key = ScalarValue::try_from_array(keys, best)?;
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.value.clone(), self.key.clone()])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.value.clone())
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.value.size() + self.key.size()
    }
}
