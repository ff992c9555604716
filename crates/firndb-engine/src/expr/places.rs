//! The places of an enum's labels, from 1, by which they are sorted, also within lists, structs and maps.
//!
//! ```text
//! ['happy', 'sad']  ──places_of──▶  [3, 1]  ──labels_of──▶  ['happy', 'sad']
//! ```
//!
//! What is sorted or compared is a value of the same shape with numbers where the labels were, so that no operator needs to know
//! of enums. Both ways keep every other value and NULL. A text under a list or struct that is NULL itself has no place.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeListArray, GenericListArray, Int32Array, MapArray,
    OffsetSizeTrait, StringViewArray, StructArray,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Int32Type};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use crate::types::Refinement;
use crate::types::full;
use crate::{Error, SqlState};

/// The labels of an enum's field.
pub(super) fn labels(field: &Field) -> Option<Vec<String>> {
    match Refinement::of(field) {
        Refinement::Enum(labels) => Some(labels),
        _ => None,
    }
}

/// Where the labels of enums are in the values of a type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Enums {
    /// The values are labels, with their places.
    Here(Vec<String>, HashMap<String, i32, ahash::RandomState>),
    /// In some of the fields within, which are these in their order.
    Within(Vec<Option<Enums>>),
}

impl Hash for Enums {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Enums::Here(labels, _) => labels.hash(state),
            Enums::Within(fields) => fields.hash(state),
        }
    }
}

impl Enums {
    pub(super) fn of_labels(labels: Vec<String>) -> Enums {
        let places = labels.iter().cloned().zip(1..).collect();
        Enums::Here(labels, places)
    }

    /// The enums in the values of a field; `None` where there are none.
    pub(super) fn of(field: &Field) -> Option<Enums> {
        Enums::of_full(&full(field))
    }

    fn of_full(field: &Field) -> Option<Enums> {
        if let Some(labels) = labels(field) {
            return Some(Enums::of_labels(labels));
        }
        let within: Vec<_> = fields_within(field.data_type())
            .iter()
            .map(|field| Enums::of_full(field))
            .collect();
        within
            .iter()
            .any(Option::is_some)
            .then_some(Enums::Within(within))
    }

    /// The values with numbers for labels.
    pub(super) fn places(&self, values: &ArrayRef) -> Result<ArrayRef> {
        self.mapped(values, &|values, labels, places, top| {
            let values = cast(values, &DataType::Utf8View)?;
            let place = |label: &str| match places.get(label) {
                Some(place) => Ok(Some(*place)),
                None if !top => Ok(None),
                None => Err(Error::new(
                    SqlState::InvalidTextRepresentation,
                    format!("invalid input value for enum: \"{label}\""),
                )),
            };
            debug_assert_eq!(labels.len(), places.len(), "labels differ");
            let places = values
                .as_string_view()
                .iter()
                .map(|label| label.map_or(Ok(None), place))
                .collect::<crate::Result<Int32Array>>()?;
            Ok(Arc::new(places))
        })
    }

    /// The values with labels for numbers.
    fn labels(&self, values: &ArrayRef) -> Result<ArrayRef> {
        self.mapped(values, &|values, labels, _, _| {
            let label = |place: i32| {
                let index = usize::try_from(place).ok()?.checked_sub(1)?;
                labels.get(index).map(String::as_str)
            };
            let places = values.as_primitive::<Int32Type>();
            let labels = places.iter().map(|place| place.and_then(label));
            Ok(Arc::new(labels.collect::<StringViewArray>()))
        })
    }

    fn mapped(&self, values: &ArrayRef, leaf: &Leaf) -> Result<ArrayRef> {
        match self {
            Enums::Here(labels, places) => leaf(values, labels, places, true),
            Enums::Within(_) => self.mapped_within(values, leaf),
        }
    }

    fn mapped_within(&self, values: &ArrayRef, leaf: &Leaf) -> Result<ArrayRef> {
        let fields = match self {
            Enums::Here(labels, places) => return leaf(values, labels, places, false),
            Enums::Within(fields) => fields,
        };
        let one = |values: &ArrayRef| match fields.as_slice() {
            [Some(item)] => item.mapped_within(values, leaf),
            _ => Ok(Arc::clone(values)),
        };
        Ok(match values.data_type() {
            DataType::List(field) => list::<i32>(values, field, one)?,
            DataType::LargeList(field) => list::<i64>(values, field, one)?,
            DataType::FixedSizeList(field, length) => {
                let lists = values.as_fixed_size_list();
                let items = one(lists.values())?;
                let field = retyped(field, items.data_type());
                let nulls = lists.nulls().cloned();
                Arc::new(FixedSizeListArray::try_new(field, *length, items, nulls)?)
            }
            DataType::Map(field, sorted) => {
                let maps = values.as_map();
                let entries = one(&(Arc::new(maps.entries().clone()) as ArrayRef))?;
                let field = retyped(field, entries.data_type());
                Arc::new(MapArray::try_new(
                    field,
                    maps.offsets().clone(),
                    entries.as_struct().clone(),
                    maps.nulls().cloned(),
                    *sorted,
                )?)
            }
            DataType::Struct(members) => {
                let structs = values.as_struct();
                let mut columns = Vec::with_capacity(members.len());
                for (column, enums) in structs.columns().iter().zip(fields) {
                    columns.push(match enums {
                        Some(enums) => enums.mapped_within(column, leaf)?,
                        None => Arc::clone(column),
                    });
                }
                let members: Fields = members
                    .iter()
                    .zip(&columns)
                    .map(|(member, column)| retyped(member, column.data_type()))
                    .collect();
                Arc::new(StructArray::try_new_with_length(
                    members,
                    columns,
                    structs.nulls().cloned(),
                    structs.len(),
                )?)
            }
            other => return exec_err!("{other} has no enums within"),
        })
    }

    /// The type of values with numbers for labels.
    fn places_type(&self, given: &DataType) -> DataType {
        let fields = match self {
            Enums::Here(_, _) => return DataType::Int32,
            Enums::Within(fields) => fields,
        };
        let changed = |(field, enums): (&FieldRef, &Option<Enums>)| match enums {
            Some(enums) => retyped(field, &enums.places_type(field.data_type())),
            None => Arc::clone(field),
        };
        let one = |field: &FieldRef| changed((field, fields.first().unwrap_or(&None)));
        match given {
            DataType::List(item) => DataType::List(one(item)),
            DataType::LargeList(item) => DataType::LargeList(one(item)),
            DataType::FixedSizeList(item, length) => DataType::FixedSizeList(one(item), *length),
            DataType::Map(entries, sorted) => DataType::Map(one(entries), *sorted),
            DataType::Struct(members) => {
                DataType::Struct(members.iter().zip(fields).map(changed).collect())
            }
            other => other.clone(),
        }
    }
}

type Leaf<'a> = dyn Fn(&ArrayRef, &[String], &HashMap<String, i32, ahash::RandomState>, bool) -> Result<ArrayRef>
    + 'a;

fn fields_within(data_type: &DataType) -> Vec<FieldRef> {
    match data_type {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => vec![Arc::clone(item)],
        DataType::Struct(members) => members.to_vec(),
        _ => Vec::new(),
    }
}

fn retyped(field: &FieldRef, data_type: &DataType) -> FieldRef {
    Arc::new(field.as_ref().clone().with_data_type(data_type.clone()))
}

fn list<O: OffsetSizeTrait>(
    values: &ArrayRef,
    field: &FieldRef,
    item: impl Fn(&ArrayRef) -> Result<ArrayRef>,
) -> Result<ArrayRef> {
    let lists = values.as_list::<O>();
    let items = item(lists.values())?;
    let field = retyped(field, items.data_type());
    let (offsets, nulls) = (lists.offsets().clone(), lists.nulls().cloned());
    Ok(Arc::new(GenericListArray::<O>::try_new(
        field, offsets, items, nulls,
    )?))
}

/// The values of `expr` with numbers for labels.
pub(super) fn places_of(expr: Expr, enums: Enums) -> Expr {
    ScalarUDF::new_from_impl(Places {
        enums,
        labels: None,
        signature: Signature::any(1, Volatility::Immutable),
    })
    .call(vec![expr])
}

/// The values of `expr`, numbers from [`places_of`], with the labels of a flat field for numbers.
pub(super) fn labels_of(expr: Expr, enums: Enums, field: FieldRef) -> Expr {
    ScalarUDF::new_from_impl(Places {
        enums,
        labels: Some(field),
        signature: Signature::any(1, Volatility::Immutable),
    })
    .call(vec![expr])
}

/// Either way.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Places {
    enums: Enums,
    /// What the result is, on the way back.
    labels: Option<FieldRef>,
    signature: Signature,
}

impl Places {
    fn run(&self, values: &ArrayRef) -> Result<ArrayRef> {
        match &self.labels {
            None => self.enums.places(values),
            Some(field) => Ok(cast(&self.enums.labels(values)?, field.data_type())?),
        }
    }
}

impl ScalarUDFImpl for Places {
    fn name(&self) -> &str {
        match self.labels {
            None => "enum_place",
            Some(_) => "enum_label",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match (&self.labels, types) {
            (Some(field), _) => Ok(field.data_type().clone()),
            (None, [given]) => Ok(self.enums.places_type(given)),
            _ => exec_err!("{} takes one value", self.name()),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<DataType> = args
            .arg_fields
            .iter()
            .map(|field| field.data_type().clone())
            .collect();
        let field = Field::new(self.name(), self.return_type(&types)?, true);
        Ok(Arc::new(match &self.labels {
            Some(wanted) => field.with_metadata(wanted.metadata().clone()),
            None => field,
        }))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.as_slice() {
            [ColumnarValue::Array(values)] => self.run(values).map(ColumnarValue::Array),
            [ColumnarValue::Scalar(value)] => {
                let places = self.run(&value.to_array()?)?;
                ScalarValue::try_from_array(&places, 0).map(ColumnarValue::Scalar)
            }
            _ => exec_err!("{} takes one value", self.name()),
        }
    }
}
