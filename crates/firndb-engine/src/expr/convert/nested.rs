//! Conversions of lists, structs and maps: their values convert, their shape stays.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, MapArray, StructArray, new_null_array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Fields};

use super::{Conversion, cannot_cast, canonical_type, check_convertible};
use crate::Result;
use crate::catalog::fold;

pub(super) fn convertible(from: &DataType, to: &DataType) -> bool {
    match (from, to) {
        (DataType::List(from), DataType::List(to)) => check_convertible(from, to).is_ok(),
        (DataType::Struct(from), DataType::Struct(to)) => {
            members(from, to).is_some_and(|members| {
                members.iter().zip(to).all(|(member, to)| {
                    member.is_none_or(|place| check_convertible(&from[place], to).is_ok())
                })
            })
        }
        (DataType::Map(from, _), DataType::Map(to, _)) => check_convertible(from, to).is_ok(),
        _ => false,
    }
}

/// Where each member of a struct comes from: by name, those that lack one being NULL, as in DuckDB; by position where no name is
/// common, as a row without names has it. `None` where a value would be lost.
fn members(from: &Fields, to: &Fields) -> Option<Vec<Option<usize>>> {
    let place = |name: &str| {
        from.iter()
            .position(|field| fold(field.name()) == fold(name))
    };
    let members: Vec<Option<usize>> = to.iter().map(|field| place(field.name())).collect();
    match members.iter().flatten().count() {
        0 if from.len() == to.len() => Some((0..to.len()).map(Some).collect()),
        found if found == from.len() && found > 0 => Some(members),
        _ => None,
    }
}

/// Members of a struct match by name (see [`members`]).
pub(super) fn convert(
    values: &ArrayRef,
    source: &Field,
    target: &Field,
    how: Conversion,
) -> Result<ArrayRef> {
    let from = canonical_type(values.data_type());
    match (&from, target.data_type()) {
        (
            DataType::List(item),
            DataType::List(wanted)
            | DataType::LargeList(wanted)
            | DataType::FixedSizeList(wanted, _),
        ) => {
            let lists = cast(values, &from)?;
            let lists = lists.as_list::<i32>();
            let items = super::convert(lists.values(), item, wanted, how)?;
            let converted = ListArray::try_new(
                Arc::clone(wanted),
                lists.offsets().clone(),
                items,
                lists.nulls().cloned(),
            )?;
            Ok(Arc::new(converted))
        }
        (DataType::Struct(given), DataType::Struct(wanted)) => {
            let structs = values.as_struct();
            let Some(members) = members(given, wanted) else {
                return Err(cannot_cast(source, target));
            };
            let columns = members
                .into_iter()
                .zip(wanted)
                .map(|(member, to)| match member {
                    Some(place) => super::convert(structs.column(place), &given[place], to, how),
                    None => Ok(new_null_array(to.data_type(), structs.len())),
                })
                .collect::<Result<Vec<_>>>()?;
            let converted = StructArray::try_new_with_length(
                wanted.clone(),
                columns,
                structs.nulls().cloned(),
                structs.len(),
            )?;
            Ok(Arc::new(converted))
        }
        (DataType::Map(_, _), DataType::Map(wanted, sorted)) => {
            let maps = values.as_map();
            let entries: ArrayRef = Arc::new(maps.entries().clone());
            let from = Field::new("entries", entries.data_type().clone(), false);
            let entries = convert(&entries, &from, wanted, how)?;
            let converted = MapArray::try_new(
                Arc::clone(wanted),
                maps.offsets().clone(),
                entries.as_struct().clone(),
                maps.nulls().cloned(),
                *sorted,
            )?;
            Ok(Arc::new(converted))
        }
        _ => Err(cannot_cast(source, target)),
    }
}
