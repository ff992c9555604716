//! Maps made of lists: `map_from_entries`, `histogram`.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, ListArray, MapArray, StructArray, UInt64Array,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{SortOptions, sort_to_indices, take};
use arrow::datatypes::{DataType, Field, FieldRef};
use arrow::row::{RowConverter, SortField};
use datafusion::common::{Result, exec_err};

use super::kernel::{Kernel, Takes};
use crate::types::canonical;
use crate::{Error, SqlState};

/// The functions of this module.
pub(super) fn kernels() -> Vec<Kernel> {
    vec![
        Kernel {
            name: "map_from_entries",
            aliases: &[],
            takes: &[Takes::Any],
            arguments: (1, 1),
            yields: |types| {
                let (key, value) = entry_types(&types[0])?;
                Some(map_type(&key, &value))
            },
            run: |args| from_entries(&args[0]),
        },
        Kernel {
            name: "list_histogram",
            aliases: &["array_histogram"],
            takes: &[Takes::Any],
            arguments: (1, 1),
            yields: |types| Some(map_type(item(&types[0])?.data_type(), &DataType::Int64)),
            run: |args| histogram(&args[0]),
        },
    ]
}

fn item(list: &DataType) -> Option<&FieldRef> {
    match list {
        DataType::List(item) => Some(item),
        _ => None,
    }
}

/// The types of the two members of a list's structs.
fn entry_types(list: &DataType) -> Option<(DataType, DataType)> {
    let DataType::Struct(fields) = item(list)?.data_type() else {
        return None;
    };
    let [key, value] = fields.as_ref() else {
        return None;
    };
    Some((key.data_type().clone(), value.data_type().clone()))
}

fn entries_field(key: &DataType, value: &DataType) -> FieldRef {
    let members = vec![
        Field::new("key", key.clone(), false),
        Field::new("value", value.clone(), true),
    ];
    Arc::new(Field::new(
        "entries",
        DataType::Struct(members.into()),
        false,
    ))
}

fn map_type(key: &DataType, value: &DataType) -> DataType {
    DataType::Map(entries_field(key, value), false)
}

fn map(
    keys: ArrayRef,
    values: ArrayRef,
    offsets: OffsetBuffer<i32>,
    lists: &ListArray,
) -> Result<ArrayRef> {
    let field = entries_field(keys.data_type(), values.data_type());
    let DataType::Struct(members) = field.data_type() else {
        return exec_err!("a map's entries are structs");
    };
    let entries = StructArray::try_new(members.clone(), vec![keys, values], None)?;
    let map = MapArray::try_new(field, offsets, entries, lists.nulls().cloned(), false)?;
    Ok(Arc::new(map))
}

fn from_entries(lists: &ArrayRef) -> Result<ArrayRef> {
    let lists = lists.as_list::<i32>();
    // Entries in the order of the lists, without those of lists that are NULL.
    let mut places = Vec::new();
    let mut lengths = Vec::with_capacity(lists.len());
    for (row, bounds) in lists.offsets().windows(2).enumerate() {
        let length = match lists.is_valid(row) {
            true => bounds[1] - bounds[0],
            false => 0,
        };
        places.extend((bounds[0]..bounds[0] + length).map(|place| place as u64));
        lengths.push(length as usize);
    }
    let entries = take(lists.values(), &UInt64Array::from(places), None)?;
    let entries = entries.as_struct();
    let (keys, values) = (entries.column(0), entries.column(1));
    let refused = |what: &str| Error::new(SqlState::InvalidParameterValue, what);
    if entries.logical_null_count() > 0 || keys.logical_null_count() > 0 {
        return Err(refused("a map's keys are not NULL").into());
    }
    let converter = RowConverter::new(vec![SortField::new(keys.data_type().clone())])?;
    let rows = converter.convert_columns(std::slice::from_ref(keys))?;
    let mut start = 0;
    for length in &lengths {
        let mut seen = std::collections::HashSet::with_capacity(*length);
        if !(start..start + length).all(|place| seen.insert(rows.row(place))) {
            return Err(refused("a map's keys are all different").into());
        }
        start += length;
    }
    map(
        Arc::clone(keys),
        Arc::clone(values),
        OffsetBuffer::from_lengths(lengths),
        lists,
    )
}

/// How often each value of a list comes, in the order of the values; a list that is NULL has no histogram.
fn histogram(lists: &ArrayRef) -> Result<ArrayRef> {
    let lists = canonical(lists)?;
    let lists = lists.as_list::<i32>();
    let values = lists.values();
    let converter = RowConverter::new(vec![SortField::new(values.data_type().clone())])?;
    let rows = converter.convert_columns(std::slice::from_ref(values))?;
    let mut places: Vec<u64> = Vec::new();
    let mut counts: Vec<i64> = Vec::new();
    let mut lengths = Vec::with_capacity(lists.len());
    for (row, bounds) in lists.offsets().windows(2).enumerate() {
        let before = places.len();
        if lists.is_valid(row) {
            let start = bounds[0] as usize;
            let list = values.slice(start, (bounds[1] - bounds[0]) as usize);
            let order = sort_to_indices(&list, Some(SortOptions::default()), None)?;
            for place in order.values() {
                let place = start + *place as usize;
                if values.is_null(place) {
                    continue;
                }
                match (places[before..].last(), counts.last_mut()) {
                    (Some(last), Some(count)) if rows.row(*last as usize) == rows.row(place) => {
                        *count += 1;
                    }
                    _ => {
                        places.push(place as u64);
                        counts.push(1);
                    }
                }
            }
        }
        lengths.push(places.len() - before);
    }
    let keys = take(values, &UInt64Array::from(places), None)?;
    map(
        keys,
        Arc::new(Int64Array::from(counts)),
        OffsetBuffer::from_lengths(lengths),
        lists,
    )
}
