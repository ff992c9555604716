//! Conversions of lists, structs and maps: their values convert, their shape stays.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, ListArray, MapArray, StringViewArray, StructArray, new_null_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Fields};

use super::{
    Conversion, cannot_cast, canonical_type, check_convertible, invalid_text, message_name,
};
use crate::catalog::fold;
use crate::{Error, Result};

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

/// Reads lists written as `[1, 2, NULL]`; values with commas or brackets in them are quoted or nested.
pub(super) fn from_text(
    texts: &StringViewArray,
    target: &Field,
    how: Conversion,
) -> Result<ArrayRef> {
    let DataType::List(item) = canonical_type(target.data_type()) else {
        return Err(Error::internal("a list is read into what is no list"));
    };
    let mut items: Vec<Option<String>> = Vec::new();
    let mut lengths = Vec::with_capacity(texts.len());
    let mut valid = Vec::with_capacity(texts.len());
    for text in texts {
        let read = match text {
            Some(text) => how.settle(
                split_list(text).ok_or_else(|| invalid_text(&message_name(target), text)),
            )?,
            None => None,
        };
        valid.push(read.is_some());
        let read = read.unwrap_or_default();
        lengths.push(read.len());
        items.extend(read);
    }
    let items: ArrayRef = Arc::new(items.into_iter().collect::<StringViewArray>());
    let source = Field::new("", DataType::Utf8View, true);
    let items = super::convert(&items, &source, &item, how)?;
    let lists = ListArray::try_new(
        item,
        OffsetBuffer::from_lengths(lengths),
        items,
        Some(NullBuffer::from(valid)),
    )?;
    Ok(Arc::new(lists))
}

/// The items of `[a, b]` or `{a,b}` as text; `None` when the brackets or quotes do not match.
fn split_list(text: &str) -> Option<Vec<Option<String>>> {
    let text = text.trim();
    let inner = match text.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']')?,
        None => text.strip_prefix('{')?.strip_suffix('}')?,
    };
    let mut items = Vec::new();
    if inner.trim().is_empty() {
        return Some(items);
    }
    let (mut item, mut quoted, mut depth) = (String::new(), false, 0usize);
    let mut letters = inner.chars();
    loop {
        let letter = letters.next();
        match letter {
            Some(quote @ ('"' | '\'')) if depth == 0 && item.trim().is_empty() && !quoted => {
                item.clear();
                quoted = true;
                loop {
                    match letters.next()? {
                        '\\' => item.push(letters.next()?),
                        end if end == quote => break,
                        other => item.push(other),
                    }
                }
            }
            Some(',') if depth == 0 => {
                items.push(finish_item(std::mem::take(&mut item), quoted)?);
                quoted = false;
            }
            None => {
                items.push(finish_item(item, quoted)?);
                return (depth == 0).then_some(items);
            }
            Some(blank) if quoted => {
                if !blank.is_whitespace() {
                    return None;
                }
            }
            Some(letter) => {
                match letter {
                    '[' | '{' => depth += 1,
                    ']' | '}' => depth = depth.checked_sub(1)?,
                    _ => {}
                }
                item.push(letter);
            }
        }
    }
}

fn finish_item(item: String, quoted: bool) -> Option<Option<String>> {
    if quoted {
        return Some(Some(item));
    }
    match item.trim() {
        "" => None,
        null if null.eq_ignore_ascii_case("null") => Some(None),
        plain => Some(Some(plain.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::split_list;

    #[test]
    fn lists_are_split_at_their_own_commas() {
        let items = split_list("[1, NULL, 'a, b', [2, 3]]").unwrap();
        let items: Vec<_> = items.iter().map(Option::as_deref).collect();
        assert_eq!(items, [Some("1"), None, Some("a, b"), Some("[2, 3]")]);
        assert_eq!(split_list("[]"), Some(vec![]));
        assert_eq!(split_list("{1,2}").map(|items| items.len()), Some(2));
        assert_eq!(split_list("[1, ]"), None);
        assert_eq!(split_list("1, 2"), None);
        assert_eq!(split_list("[[1]"), None);
    }
}
