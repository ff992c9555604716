//! One NaN, and one zero where values are compared.
//!
//! SQL has one NaN, equal to itself and greater than every number; IEEE 754 has many, with a sign and a payload, and Arrow's kernels
//! tell them apart. So no array in the engine holds another NaN than [`f64::NAN`] and [`f32::NAN`]: [`one_nan`] is applied to what comes
//! from outside (frames, appended rows, files), and whatever computes a new NaN yields that one. It reads the values, and
//! copies them only where there is something to change.
//!
//! -0.0 equals 0.0 but is another value, which is kept. [`canonical`] makes one of the two where equal values have to be the same:
//! keys, and both sides of a comparison. Both look into lists, structs, maps and dictionaries.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, make_array};
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use arrow::error::ArrowError;
use datafusion::common::ScalarValue;

use crate::Result;

/// Whether values of a type are floating point numbers, or hold some.
pub(crate) fn has_floats(data_type: &DataType) -> bool {
    match data_type {
        DataType::Float32 | DataType::Float64 => true,
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => has_floats(item.data_type()),
        DataType::Struct(members) => members.iter().any(|member| has_floats(member.data_type())),
        DataType::Dictionary(_, values) => has_floats(values),
        DataType::RunEndEncoded(_, values) => has_floats(values.data_type()),
        _ => false,
    }
}

/// The values with one NaN: the same array, where it holds no other.
pub(crate) fn one_nan(values: &ArrayRef) -> std::result::Result<ArrayRef, ArrowError> {
    let changed = with_floats(values, &firndb_storage::frozen::one_nan)?;
    Ok(changed.unwrap_or_else(|| Arc::clone(values)))
}

/// A value with one NaN.
pub(crate) fn one_nan_of(value: &ScalarValue) -> Result<ScalarValue> {
    match value {
        ScalarValue::Float64(Some(number)) if number.is_nan() => {
            Ok(ScalarValue::Float64(Some(f64::NAN)))
        }
        ScalarValue::Float32(Some(number)) if number.is_nan() => {
            Ok(ScalarValue::Float32(Some(f32::NAN)))
        }
        nested if nested.data_type().is_nested() && has_floats(&nested.data_type()) => Ok(
            ScalarValue::try_from_array(&one_nan(&nested.to_array()?)?, 0)?,
        ),
        other => Ok(other.clone()),
    }
}

/// The values with one NaN and one zero, so that equal ones are the same.
pub(crate) fn canonical(values: &ArrayRef) -> std::result::Result<ArrayRef, ArrowError> {
    // -0.0 + 0.0 is 0.0, and nothing else changes by it.
    let changed = with_floats(values, &|values| match values.data_type() {
        DataType::Float64 => {
            let one = |value: f64| match value.is_nan() {
                true => f64::NAN,
                false => value + 0.0,
            };
            let values = values.as_primitive::<Float64Type>();
            Some(Arc::new(values.unary::<_, Float64Type>(one)))
        }
        DataType::Float32 => {
            let one = |value: f32| match value.is_nan() {
                true => f32::NAN,
                false => value + 0.0,
            };
            let values = values.as_primitive::<Float32Type>();
            Some(Arc::new(values.unary::<_, Float32Type>(one)))
        }
        _ => None,
    })?;
    Ok(changed.unwrap_or_else(|| Arc::clone(values)))
}

/// The values with their floating point numbers, at any depth, changed; `None` where nothing is.
fn with_floats(
    values: &ArrayRef,
    change: &impl Fn(&ArrayRef) -> Option<ArrayRef>,
) -> std::result::Result<Option<ArrayRef>, ArrowError> {
    if !has_floats(values.data_type()) {
        return Ok(None);
    }
    if values.data_type().is_floating() {
        return Ok(change(values));
    }
    let data = values.to_data();
    let mut any = false;
    let mut children = Vec::with_capacity(data.child_data().len());
    for child in data.child_data() {
        let changed = with_floats(&make_array(child.clone()), change)?;
        any |= changed.is_some();
        children.push(changed.map_or_else(|| child.clone(), |changed| changed.to_data()));
    }
    if !any {
        return Ok(None);
    }
    let rebuilt = data.into_builder().child_data(children).build()?;
    Ok(Some(make_array(rebuilt)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Float32Array, Float64Array, Int32Array, ListArray, StructArray};
    use arrow::datatypes::Field;

    fn bits(values: &ArrayRef) -> Vec<u64> {
        let values = values.as_primitive::<Float64Type>();
        values
            .values()
            .iter()
            .map(|value| value.to_bits())
            .collect()
    }

    #[test]
    fn every_nan_becomes_the_one_and_zeros_stay() {
        let values: ArrayRef = Arc::new(Float64Array::from(vec![-f64::NAN, -0.0, f64::NAN, 1.5]));
        let expected = [f64::NAN, -0.0, f64::NAN, 1.5].map(f64::to_bits);
        assert_eq!(bits(&one_nan(&values).unwrap()), expected);
        let canonical_bits = [f64::NAN, 0.0, f64::NAN, 1.5].map(f64::to_bits);
        assert_eq!(bits(&canonical(&values).unwrap()), canonical_bits);
        let reals: ArrayRef = Arc::new(Float32Array::from(vec![Some(-f32::NAN), None]));
        let one = one_nan(&reals).unwrap();
        let one = one.as_primitive::<Float32Type>();
        assert_eq!(one.value(0).to_bits(), f32::NAN.to_bits());
        assert!(one.is_null(1));
    }

    #[test]
    fn an_array_without_another_nan_is_not_copied() {
        let values: ArrayRef = Arc::new(Float64Array::from(vec![f64::NAN, -0.0]));
        assert!(Arc::ptr_eq(&one_nan(&values).unwrap(), &values));
    }

    #[test]
    fn nested_values_are_looked_into() {
        let lists = ListArray::from_iter_primitive::<Float64Type, _, _>([
            Some(vec![Some(1.0)]),
            Some(vec![Some(-f64::NAN), None, Some(-0.0)]),
            None,
        ]);
        let lists = lists.slice(1, 2);
        let field = Arc::new(Field::new("l", lists.data_type().clone(), true));
        let ints = Int32Array::from(vec![7, 8]);
        let number = Arc::new(Field::new("n", DataType::Int32, true));
        let structs: ArrayRef = Arc::new(StructArray::from(vec![
            (field, Arc::new(lists) as ArrayRef),
            (number, Arc::new(ints) as ArrayRef),
        ]));
        let result = canonical(&structs).unwrap();
        assert_eq!(result.data_type(), structs.data_type());
        let list = result.as_struct().column(0).as_list::<i32>().clone();
        assert!(list.is_null(1));
        let item = list.value(0);
        assert!(item.is_null(1));
        assert_eq!(bits(&item)[0], f64::NAN.to_bits());
        assert_eq!(bits(&item)[2], 0.0f64.to_bits());
    }
}
