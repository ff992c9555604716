//! JSON read as SQL's values: objects as structs by their members' names and as maps, arrays as lists, all else as the text of the value.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ListArray, MapArray, StringViewArray, StructArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, Fields};

use super::Json;
use crate::expr::convert::{Conversion, canonical_type, convert, invalid_text, message_name};
use crate::types::Refinement;
use crate::{Error, Result};

/// Values as `target` describes them; what is absent or `null` is NULL.
pub(crate) fn read(
    values: &[Option<&Json<'_>>],
    target: &Field,
    how: Conversion,
) -> Result<ArrayRef> {
    let converted = match canonical_type(target.data_type()) {
        DataType::Struct(fields) => structs(values, &fields, target, how)?,
        DataType::List(item) => lists(values, &item, target, how)?,
        DataType::Map(entries, sorted) => maps(values, &entries, sorted, target, how)?,
        _ => return scalars(values, target, how),
    };
    if converted.data_type() == target.data_type() {
        return Ok(converted);
    }
    Ok(arrow::compute::cast(&converted, target.data_type())?)
}

fn refused(value: &Json<'_>, target: &Field) -> Error {
    invalid_text(&message_name(target), &value.to_text())
}

fn scalars(values: &[Option<&Json<'_>>], target: &Field, how: Conversion) -> Result<ArrayRef> {
    let json = Refinement::of(target) == Refinement::Json;
    let texts: StringViewArray = values
        .iter()
        .map(|value| match value {
            None => None,
            Some(Json::Null) if !json => None,
            Some(Json::String(text)) if !json => Some(text.to_string()),
            Some(Json::Number(digits)) if !json => Some(digits.to_string()),
            Some(value) => Some(value.to_text()),
        })
        .collect();
    let texts: ArrayRef = Arc::new(texts);
    convert(
        &texts,
        &Field::new("", DataType::Utf8View, true),
        target,
        how,
    )
}

fn structs(
    values: &[Option<&Json<'_>>],
    fields: &Fields,
    target: &Field,
    how: Conversion,
) -> Result<ArrayRef> {
    let mut objects = Vec::with_capacity(values.len());
    for value in values {
        objects.push(match value {
            None | Some(Json::Null) => None,
            Some(object @ Json::Object(_)) => Some(*object),
            Some(other) => how.settle(Err(refused(other, target)))?,
        });
    }
    let columns = fields
        .iter()
        .map(|field| {
            let members: Vec<_> = objects
                .iter()
                .map(|object| object.and_then(|object| object.member(field.name())))
                .collect();
            read(&members, field, how)
        })
        .collect::<Result<Vec<_>>>()?;
    let nulls: NullBuffer = objects.iter().map(Option::is_some).collect();
    let converted =
        StructArray::try_new_with_length(fields.clone(), columns, Some(nulls), values.len())?;
    Ok(Arc::new(converted))
}

fn lists(
    values: &[Option<&Json<'_>>],
    item: &Arc<Field>,
    target: &Field,
    how: Conversion,
) -> Result<ArrayRef> {
    let mut items = Vec::new();
    let mut lengths = Vec::with_capacity(values.len());
    let mut valid = Vec::with_capacity(values.len());
    for value in values {
        let members: Option<&[Json<'_>]> = match value {
            None | Some(Json::Null) => None,
            Some(Json::Array(members)) => Some(members),
            Some(other) => how.settle(Err(refused(other, target)))?,
        };
        valid.push(members.is_some());
        lengths.push(members.map_or(0, <[_]>::len));
        items.extend(members.unwrap_or_default().iter().map(Some));
    }
    let items = read(&items, item, how)?;
    let converted = ListArray::try_new(
        Arc::clone(item),
        OffsetBuffer::from_lengths(lengths),
        items,
        Some(NullBuffer::from(valid)),
    )?;
    Ok(Arc::new(converted))
}

fn maps(
    values: &[Option<&Json<'_>>],
    entries: &Arc<Field>,
    sorted: bool,
    target: &Field,
    how: Conversion,
) -> Result<ArrayRef> {
    let DataType::Struct(pair) = entries.data_type() else {
        return Err(Error::internal("a map's entries are pairs"));
    };
    let mut keys = Vec::new();
    let mut items = Vec::new();
    let mut lengths = Vec::with_capacity(values.len());
    let mut valid = Vec::with_capacity(values.len());
    for value in values {
        let members = match value {
            None | Some(Json::Null) => None,
            Some(Json::Object(members)) => Some(members),
            Some(other) => how.settle(Err(refused(other, target)))?,
        };
        valid.push(members.is_some());
        lengths.push(members.map_or(0, Vec::len));
        for (name, value) in members.into_iter().flatten() {
            keys.push(Json::String(name.clone()));
            items.push(Some(value));
        }
    }
    let keys: Vec<_> = keys.iter().map(Some).collect();
    let columns = vec![read(&keys, &pair[0], how)?, read(&items, &pair[1], how)?];
    let converted = MapArray::try_new(
        Arc::clone(entries),
        OffsetBuffer::from_lengths(lengths),
        StructArray::try_new(pair.clone(), columns, None)?,
        Some(NullBuffer::from(valid)),
        sorted,
    )?;
    Ok(Arc::new(converted))
}
