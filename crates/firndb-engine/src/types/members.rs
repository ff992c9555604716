//! What the values inside lists, structs and maps are more than their Arrow types say.
//!
//! ```text
//! full:  LIST(item: Utf8 {arrow.json})            what files, frames and clients see
//! flat:  LIST(item: Utf8) {firndb:members: …}     what operators see
//! ```
//!
//! Operators rebuild lists without the metadata of their items (a scalar of DataFusion keeps the item's name and nothing
//! else) and refuse to put together arrays whose types differ by it. So the type of a column inside the engine is *flat*:
//! no field within it has metadata, and the column's own field says under [`MEMBERS_KEY`] what the fields within would. A
//! field that has lost it is a list of texts or bytes, and never an array that fits no operator. 16 bytes of fixed size are
//! a UUID wherever they are: foreign ones that are none become BLOBs.
//!
//! Invariant: `full(flat(field))` is `full(field)`, and both have the same values ([`retyped`]).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeListArray, GenericListArray, MapArray, OffsetSizeTrait,
    StructArray,
};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::error::ArrowError;

use super::{EXTENSION_KEY, UUID_EXTENSION, kept_metadata};

/// Metadata key of what the fields within a column are, by their places on the way to them: `{"0.1": {key: value}}`.
const MEMBERS_KEY: &str = "firndb:members";

type Members = BTreeMap<String, BTreeMap<String, String>>;

/// A field as operators see it.
pub(crate) fn flat(field: &Field) -> Field {
    if !field.data_type().is_nested() {
        return field.clone();
    }
    let mut members = stated(field);
    let bare = stripped(field.data_type(), "", &mut members);
    let mut metadata = field.metadata().clone();
    metadata.remove(MEMBERS_KEY);
    if !members.is_empty() {
        // Texts as keys and values are always written.
        let text = serde_json::to_string(&members).unwrap_or_default();
        metadata.insert(MEMBERS_KEY.into(), text);
    }
    field.clone().with_data_type(bare).with_metadata(metadata)
}

/// A field as clients see it, each field within with its own metadata. UUIDs say that they are.
pub(crate) fn full(field: &Field) -> Field {
    let data_type = field.data_type();
    let uuid = *data_type == DataType::FixedSizeBinary(16);
    if !uuid && !data_type.is_nested() {
        return field.clone();
    }
    let mut metadata = field.metadata().clone();
    if uuid {
        mark_uuid(&mut metadata);
        return field.clone().with_metadata(metadata);
    }
    metadata.remove(MEMBERS_KEY);
    let dressed = dressed(data_type, "", &stated(field));
    field
        .clone()
        .with_data_type(dressed)
        .with_metadata(metadata)
}

/// The schema of [`full`] fields.
pub(crate) fn full_schema(schema: &SchemaRef) -> SchemaRef {
    let fields: Vec<FieldRef> = schema.fields().iter().map(full_ref).collect();
    if fields
        .iter()
        .zip(schema.fields())
        .all(|(new, old)| Arc::ptr_eq(new, old))
    {
        return Arc::clone(schema);
    }
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

fn full_ref(field: &FieldRef) -> FieldRef {
    let full = full(field);
    match full == **field {
        true => Arc::clone(field),
        false => Arc::new(full),
    }
}

/// Whether the fields within two columns of one Arrow type mean the same.
pub(crate) fn same_members(one: &Field, other: &Field) -> bool {
    one.metadata().get(MEMBERS_KEY) == other.metadata().get(MEMBERS_KEY)
}

/// Whether a flat field says something of the fields within.
pub(crate) fn has_members(field: &Field) -> bool {
    field.metadata().contains_key(MEMBERS_KEY)
}

/// The same values under another type, whose fields differ in names, metadata and nullability alone.
pub(crate) fn retyped(values: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    if values.data_type() == to {
        return Ok(Arc::clone(values));
    }
    Ok(match (values.data_type(), to) {
        (DataType::List(_), DataType::List(item)) => list::<i32>(values, item)?,
        (DataType::LargeList(_), DataType::LargeList(item)) => list::<i64>(values, item)?,
        (DataType::FixedSizeList(_, length), DataType::FixedSizeList(item, wanted))
            if length == wanted =>
        {
            let lists = values.as_fixed_size_list();
            let items = retyped(lists.values(), item.data_type())?;
            let nulls = lists.nulls().cloned();
            Arc::new(FixedSizeListArray::try_new(
                Arc::clone(item),
                *length,
                items,
                nulls,
            )?)
        }
        (DataType::Struct(_), DataType::Struct(members)) => {
            Arc::new(structs(values.as_struct(), members)?)
        }
        (DataType::Map(_, _), DataType::Map(entries, sorted)) => {
            let maps = values.as_map();
            let DataType::Struct(pair) = entries.data_type() else {
                return Err(ArrowError::SchemaError("a map without entries".into()));
            };
            Arc::new(MapArray::try_new(
                Arc::clone(entries),
                maps.offsets().clone(),
                structs(maps.entries(), pair)?,
                maps.nulls().cloned(),
                *sorted,
            )?)
        }
        _ => arrow::compute::cast(values, to)?,
    })
}

fn list<O: OffsetSizeTrait>(values: &ArrayRef, item: &FieldRef) -> Result<ArrayRef, ArrowError> {
    let lists = values.as_list::<O>();
    let items = retyped(lists.values(), item.data_type())?;
    let nulls = lists.nulls().cloned();
    let lists =
        GenericListArray::<O>::try_new(Arc::clone(item), lists.offsets().clone(), items, nulls)?;
    Ok(Arc::new(lists))
}

fn structs(
    values: &StructArray,
    members: &arrow::datatypes::Fields,
) -> Result<StructArray, ArrowError> {
    let columns = values
        .columns()
        .iter()
        .zip(members)
        .map(|(column, member)| retyped(column, member.data_type()))
        .collect::<Result<Vec<_>, _>>()?;
    StructArray::try_new_with_length(
        members.clone(),
        columns,
        values.nulls().cloned(),
        values.len(),
    )
}

/// What a field says of those within.
fn stated(field: &Field) -> Members {
    let text = field.metadata().get(MEMBERS_KEY);
    text.and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default()
}

fn path(above: &str, place: usize) -> String {
    match above {
        "" => place.to_string(),
        above => format!("{above}.{place}"),
    }
}

/// A type without metadata within; what there was goes to `members`.
fn stripped(data_type: &DataType, above: &str, members: &mut Members) -> DataType {
    mapped(data_type, &mut |place, field| {
        let path = path(above, place);
        let kept: BTreeMap<String, String> = kept_metadata(field).into_iter().collect();
        // That 16 bytes are a UUID needs no words.
        if !kept.is_empty() && *field.data_type() != DataType::FixedSizeBinary(16) {
            members.insert(path.clone(), kept);
        }
        let below = stripped(field.data_type(), &path, members);
        field
            .clone()
            .with_data_type(below)
            .with_metadata(HashMap::new())
    })
}

/// A type with the metadata of `members` within.
fn dressed(data_type: &DataType, above: &str, members: &Members) -> DataType {
    mapped(data_type, &mut |place, field| {
        let path = path(above, place);
        let mut metadata = field.metadata().clone();
        if let Some(stated) = members.get(&path) {
            metadata.extend(stated.clone());
        }
        if *field.data_type() == DataType::FixedSizeBinary(16) {
            mark_uuid(&mut metadata);
        }
        let below = dressed(field.data_type(), &path, members);
        field.clone().with_data_type(below).with_metadata(metadata)
    })
}

/// Whether a field from outside says that its bytes are UUIDs.
pub(crate) fn says_uuid(field: &Field) -> bool {
    let extension = field.metadata().get(EXTENSION_KEY);
    extension.is_some_and(|name| name == UUID_EXTENSION)
}

fn mark_uuid(metadata: &mut HashMap<String, String>) {
    metadata.insert(EXTENSION_KEY.into(), UUID_EXTENSION.into());
}

/// A nested type with each field within replaced, by its place.
fn mapped(data_type: &DataType, replace: &mut dyn FnMut(usize, &Field) -> Field) -> DataType {
    let mut one = |field: &FieldRef| Arc::new(replace(0, field));
    match data_type {
        DataType::List(item) => DataType::List(one(item)),
        DataType::LargeList(item) => DataType::LargeList(one(item)),
        DataType::FixedSizeList(item, length) => DataType::FixedSizeList(one(item), *length),
        DataType::Map(entries, sorted) => DataType::Map(one(entries), *sorted),
        DataType::Struct(fields) => DataType::Struct(
            fields
                .iter()
                .enumerate()
                .map(|(place, field)| replace(place, field))
                .collect(),
        ),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{JSON_EXTENSION, sql_name};
    use super::*;

    fn json(name: &str) -> Field {
        let metadata = [(EXTENSION_KEY.to_string(), JSON_EXTENSION.to_string())];
        Field::new(name, DataType::Utf8, true).with_metadata(metadata.into())
    }

    #[test]
    fn a_field_is_flat_and_full_again() {
        let inner = DataType::Struct(
            vec![
                json("a"),
                Field::new("b", DataType::FixedSizeBinary(16), true),
            ]
            .into(),
        );
        let item = Field::new_list_field(inner, true);
        let given = Field::new("c", DataType::List(Arc::new(item)), true);
        let bare = flat(&given);
        assert_eq!(flat(&bare), bare);
        assert_eq!(full(&bare), full(&given));
        assert_eq!(sql_name(&bare), "STRUCT(a JSON, b UUID)[]");
        let DataType::List(item) = bare.data_type() else {
            panic!("a list")
        };
        let DataType::Struct(members) = item.data_type() else {
            panic!("a struct")
        };
        assert!(members.iter().all(|member| member.metadata().is_empty()));
    }
}
