//! One type for several values.

use arrow::datatypes::{DataType, Field};
use firndb::Value;
use pyo3::prelude::*;

use super::invalid;
use crate::errors;

/// Brings values to one type, as the elements of a list or column need it, and returns the type.
pub(super) fn unify(py: Python<'_>, values: &mut [Value]) -> PyResult<DataType> {
    let mut types: Vec<DataType> = Vec::new();
    for value in values.iter() {
        let data_type = value.data_type();
        if !data_type.is_null() && !types.contains(&data_type) {
            types.push(data_type);
        }
    }
    if types.len() > 1 {
        // An empty list fits every list.
        types
            .retain(|known| !matches!(known, DataType::List(child) if child.data_type().is_null()));
    }
    let common = match types.as_slice() {
        [] => DataType::Null,
        [only] => only.clone(),
        several => common_type(several).ok_or_else(|| {
            let names: Vec<String> = several.iter().map(shown_type).collect();
            invalid(
                py,
                format!("values of different types together: {}", names.join(", ")),
            )
        })?,
    };
    for value in values.iter_mut() {
        if value.data_type() != common {
            *value = value
                .cast_to(&common)
                .map_err(|error| errors::to_python(py, &error.into(), None))?;
        }
    }
    Ok(common)
}

/// A type as SQL names it.
fn shown_type(data_type: &DataType) -> String {
    firndb::sql_name(&Field::new("", data_type.clone(), true))
}

fn common_type(types: &[DataType]) -> Option<DataType> {
    let exact = |data_type: &DataType| match data_type {
        DataType::Int64 => Some((19, 0)),
        DataType::Decimal128(precision, scale) => {
            Some((i32::from(*precision) - i32::from(*scale), i32::from(*scale)))
        }
        _ => None,
    };
    if let Some(shapes) = types.iter().map(exact).collect::<Option<Vec<_>>>() {
        let whole = shapes.iter().map(|shape| shape.0).max()?;
        let scale = shapes.iter().map(|shape| shape.1).max()?;
        let precision = u8::try_from((whole + scale).min(38)).ok()?;
        return Some(DataType::Decimal128(precision, i8::try_from(scale).ok()?));
    }
    if types
        .iter()
        .all(|data_type| *data_type == DataType::Float64 || exact(data_type).is_some())
    {
        return Some(DataType::Float64);
    }
    let elements: Option<Vec<&DataType>> = types
        .iter()
        .map(|data_type| match data_type {
            DataType::List(child) => Some(child.data_type()),
            _ => None,
        })
        .collect();
    if let Some(elements) = elements {
        let mut different: Vec<DataType> = Vec::new();
        for element in elements {
            if !element.is_null() && !different.contains(element) {
                different.push(element.clone());
            }
        }
        let common = match different.as_slice() {
            [only] => only.clone(),
            several => common_type(several)?,
        };
        return Some(DataType::new_list(common, true));
    }
    let is_stamp =
        |data_type: &DataType| matches!(data_type, DataType::Date32 | DataType::Timestamp(_, None));
    if types.iter().all(is_stamp) {
        return types
            .iter()
            .find(|data_type| matches!(data_type, DataType::Timestamp(..)))
            .cloned();
    }
    None
}
