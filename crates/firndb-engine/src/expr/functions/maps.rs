//! Maps made of lists: `map_from_entries`, `histogram`; the value of a key, and maps put together.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, ListArray, MapArray, StructArray, UInt64Array,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{cast, concat, take};
use arrow::datatypes::{DataType, Field, FieldRef};
use arrow::row::{RowConverter, SortField};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::type_coercion::binary::type_union_resolution;

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
            name: "map_extract",
            aliases: &["element_at"],
            takes: &[Takes::Any],
            arguments: (2, 2),
            yields: |types| {
                let value = &map_types(&types[0])?.1;
                Some(DataType::new_list(value.clone(), true))
            },
            run: |args| extract(&args[0], &args[1]),
        },
        Kernel {
            name: "map_concat",
            aliases: &[],
            takes: &[Takes::Any],
            arguments: (1, usize::MAX),
            yields: |types| {
                let known = types.iter().filter(|one| !one.is_null());
                let parts: Option<Vec<(DataType, DataType)>> = known.map(map_types).collect();
                let (keys, values): (Vec<_>, Vec<_>) = parts?.into_iter().unzip();
                Some(map_type(&in_common(&keys)?, &in_common(&values)?))
            },
            run: concatenated,
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

/// The types of a map's keys and values.
fn map_types(map: &DataType) -> Option<(DataType, DataType)> {
    let DataType::Map(entries, _) = map else {
        return None;
    };
    let DataType::Struct(fields) = entries.data_type() else {
        return None;
    };
    let [key, value] = fields.as_ref() else {
        return None;
    };
    Some((key.data_type().clone(), value.data_type().clone()))
}

/// A list of a key's value, which is empty where the map has no such key.
fn extract(maps: &ArrayRef, wanted: &ArrayRef) -> Result<ArrayRef> {
    let maps = maps.as_map();
    let wanted = canonical(&cast(wanted, maps.keys().data_type())?)?;
    let converter = RowConverter::new(vec![SortField::new(wanted.data_type().clone())])?;
    let keys = converter.convert_columns(&[canonical(maps.keys())?])?;
    let rows = converter.convert_columns(std::slice::from_ref(&wanted))?;
    let mut places: Vec<u64> = Vec::new();
    let mut lengths = Vec::with_capacity(maps.len());
    for (row, bounds) in maps.offsets().windows(2).enumerate() {
        let known = maps.is_valid(row) && wanted.is_valid(row);
        let found = (bounds[0] as usize..bounds[1] as usize)
            .find(|&place| known && keys.row(place) == rows.row(row));
        places.extend(found.map(|place| place as u64));
        lengths.push(usize::from(found.is_some()));
    }
    let values = take(maps.values(), &UInt64Array::from(places), None)?;
    let item = Arc::new(Field::new_list_field(values.data_type().clone(), true));
    let nulls = maps.nulls().cloned();
    let list = ListArray::try_new(item, OffsetBuffer::from_lengths(lengths), values, nulls)?;
    Ok(Arc::new(list))
}

/// The entries of all maps; of a key that several have, the last one's value in the first one's place. NULL has no entries; of NULLs
/// alone comes NULL.
fn concatenated(args: &[ArrayRef]) -> Result<ArrayRef> {
    let maps: Vec<&MapArray> = args
        .iter()
        .filter(|argument| !argument.data_type().is_null())
        .map(|argument| argument.as_map())
        .collect();
    let arrays = |of: fn(&MapArray) -> &ArrayRef| -> Vec<&dyn Array> {
        maps.iter().map(|map| of(map).as_ref()).collect()
    };
    let keys = common(&arrays(MapArray::keys))?;
    let values = common(&arrays(MapArray::values))?;
    let converter = RowConverter::new(vec![SortField::new(keys.data_type().clone())])?;
    let rows = converter.convert_columns(&[canonical(&keys)?])?;
    let (mut key_places, mut value_places) = (Vec::<u64>::new(), Vec::<u64>::new());
    let mut lengths = Vec::new();
    let mut known = Vec::new();
    for row in 0..args[0].len() {
        let before = key_places.len();
        let mut seen = HashMap::new();
        let mut start = 0;
        for map in &maps {
            let (first, last) = (map.value_offsets()[row], map.value_offsets()[row + 1]);
            if map.is_valid(row) {
                for place in first as usize + start..last as usize + start {
                    match seen.entry(rows.row(place)) {
                        Entry::Occupied(slot) => value_places[*slot.get()] = place as u64,
                        Entry::Vacant(slot) => {
                            slot.insert(key_places.len());
                            key_places.push(place as u64);
                            value_places.push(place as u64);
                        }
                    }
                }
            }
            start += map.keys().len();
        }
        lengths.push(key_places.len() - before);
        known.push(maps.iter().any(|map| map.is_valid(row)));
    }
    let keys = take(&keys, &UInt64Array::from(key_places), None)?;
    let values = take(&values, &UInt64Array::from(value_places), None)?;
    let field = entries_field(keys.data_type(), values.data_type());
    let DataType::Struct(members) = field.data_type() else {
        return exec_err!("a map's entries are structs");
    };
    let entries = StructArray::try_new(members.clone(), vec![keys, values], None)?;
    let offsets = OffsetBuffer::from_lengths(lengths);
    let map = MapArray::try_new(field, offsets, entries, Some(known.into()), false)?;
    Ok(Arc::new(map))
}

/// The type that values of these have in common: numbers and texts become no others.
fn in_common(types: &[DataType]) -> Option<DataType> {
    let first = types.iter().find(|one| !one.is_null())?;
    let fits = |one: &DataType| {
        one == first
            || one.is_null()
            || one.is_numeric() && first.is_numeric()
            || one.is_string() && first.is_string()
    };
    match types.iter().all(fits) {
        true => type_union_resolution(types),
        false => None,
    }
}

/// The values of all arrays, in the type that they have in common.
fn common(arrays: &[&dyn Array]) -> Result<ArrayRef> {
    let types: Vec<DataType> = arrays.iter().map(|one| one.data_type().clone()).collect();
    let Some(known) = in_common(&types) else {
        return exec_err!("maps of different types");
    };
    let arrays = arrays
        .iter()
        .map(|one| cast(*one, &known))
        .collect::<std::result::Result<Vec<_>, _>>()?;
    let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
    Ok(concat(&arrays)?)
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
            let mut order: Vec<usize> = (start..bounds[1] as usize).collect();
            order.sort_by(|one, other| rows.row(*one).cmp(&rows.row(*other)));
            for place in order {
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
