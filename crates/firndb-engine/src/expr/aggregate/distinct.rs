//! SUM and AVG over the distinct values of a group or window frame.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, ListArray, PrimitiveArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Decimal128Type, Field, Float32Type, Float64Type, ToByteSlice};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::Accumulator;

use super::total::{Summable, Total};
use super::{Kind, total_type};
use crate::expr::convert::with_integer;

pub(super) fn accumulator(kind: Kind, input: &DataType) -> Result<Box<dyn Accumulator>> {
    fn boxed<T: Summable>(kind: Kind, input: &DataType) -> Box<dyn Accumulator> {
        Box::new(DistinctAccumulator::<T> {
            kind,
            input: input.clone(),
            values: HashMap::default(),
        })
    }
    Ok(match input {
        DataType::Decimal128(_, _) => boxed::<Decimal128Type>(kind, input),
        DataType::Float64 => boxed::<Float64Type>(kind, input),
        DataType::Float32 => boxed::<Float32Type>(kind, input),
        _ => with_integer!(input, T => boxed::<T>(kind, input),
            else return exec_err!("{input} cannot be summed")),
    })
}

/// Each value by its bytes, with how often a window frame holds it. Floating point numbers come with one zero and one
/// NaN (`super::super::floats`), so that equal values have equal bytes.
#[derive(Debug)]
struct DistinctAccumulator<T: Summable> {
    kind: Kind,
    input: DataType,
    values: HashMap<Vec<u8>, (T::Native, usize), ahash::RandomState>,
}

impl<T: Summable> DistinctAccumulator<T> {
    fn key(value: T::Native) -> Vec<u8> {
        value.to_byte_slice().to_vec()
    }

    fn insert(&mut self, values: &PrimitiveArray<T>) {
        for value in values.iter().flatten() {
            self.values.entry(Self::key(value)).or_insert((value, 0)).1 += 1;
        }
    }

    fn distinct(&self) -> PrimitiveArray<T> {
        let values: Vec<T::Native> = self.values.values().map(|(value, _)| *value).collect();
        PrimitiveArray::<T>::new(values.into(), None).with_data_type(self.input.clone())
    }
}

impl<T: Summable> Accumulator for DistinctAccumulator<T> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.insert(values[0].as_primitive::<T>());
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in values[0].as_primitive::<T>().iter().flatten() {
            let key = Self::key(value);
            if let Some((_, count)) = self.values.get_mut(&key) {
                *count -= 1;
                if *count == 0 {
                    self.values.remove(&key);
                }
            }
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let Some(total) = total_type(&self.input) else {
            return exec_err!("{} cannot be summed", self.input);
        };
        match (self.values.len(), self.kind) {
            (0, Kind::Sum) => ScalarValue::try_from(&total),
            (0, Kind::Average) => Ok(ScalarValue::Float64(None)),
            (count, kind) => T::total(&self.distinct()).result(kind, count as i64, &total),
        }
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values = self.distinct();
        let item = Arc::new(Field::new_list_field(self.input.clone(), true));
        let list = ListArray::try_new(
            item,
            OffsetBuffer::from_lengths([values.len()]),
            Arc::new(values),
            None,
        )?;
        Ok(vec![ScalarValue::List(Arc::new(list))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let lists = states[0].as_list::<i32>();
        for list in lists.iter().flatten() {
            self.insert(list.as_primitive::<T>());
        }
        Ok(())
    }

    fn size(&self) -> usize {
        let entry = size_of::<(Vec<u8>, (T::Native, usize))>() + size_of::<T::Native>();
        size_of_val(self) + self.values.capacity() * entry
    }
}
