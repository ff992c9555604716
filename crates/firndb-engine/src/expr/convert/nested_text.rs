//! Lists, structs and maps read from text, as they are written when they become text:
//!
//! ```text
//! [1, NULL, 'a, b', [2]]    {1,2}           lists, the second one as PostgreSQL writes it
//! {'a': 1, b: x y}          (1,x y)         structs, by names (those left out are NULL) or by position
//! {k=v, 'a, b'=NULL}                        maps
//! ```
//!
//! A value with commas, brackets or the like in it is quoted; in quotes, a backslash or a second quote stands before a quote.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ListArray, MapArray, StringViewArray, StructArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, FieldRef, Fields};

use super::{Conversion, canonical_type, invalid_text, message_name};
use crate::catalog::fold;
use crate::{Error, Result};

/// Values as they are written, `None` being NULL.
type Texts = Vec<Option<String>>;

/// Reads values of a nested type.
pub(super) fn from_text(
    texts: &StringViewArray,
    target: &Field,
    how: Conversion,
) -> Result<ArrayRef> {
    let data_type = canonical_type(target.data_type());
    let mut reader: Box<dyn Reader> = match &data_type {
        DataType::List(item) => Box::new(Lists {
            item: Arc::clone(item),
            items: Vec::new(),
            lengths: Vec::new(),
        }),
        DataType::Struct(fields) => Box::new(Structs {
            fields: fields.clone(),
            columns: vec![Vec::with_capacity(texts.len()); fields.len()],
        }),
        DataType::Map(entries, sorted) => Box::new(Maps {
            entries: Arc::clone(entries),
            sorted: *sorted,
            keys: Vec::new(),
            values: Vec::new(),
            lengths: Vec::new(),
        }),
        _ => return Err(Error::internal("text is read into what is not nested")),
    };
    let mut valid = Vec::with_capacity(texts.len());
    for text in texts {
        let read = match text {
            Some(text) => {
                let read = reader.read(text);
                how.settle(read.ok_or_else(|| invalid_text(&message_name(target), text)))?
            }
            None => None,
        };
        valid.push(read.is_some());
        if read.is_none() {
            reader.null();
        }
    }
    reader.finish(NullBuffer::from(valid), how)
}

/// Takes values of one type one by one.
trait Reader {
    /// Takes one; `None`, with nothing taken, for what is none.
    fn read(&mut self, text: &str) -> Option<()>;
    fn null(&mut self);
    fn finish(self: Box<Self>, valid: NullBuffer, how: Conversion) -> Result<ArrayRef>;
}

fn converted(texts: Texts, target: &Field, how: Conversion) -> Result<ArrayRef> {
    let texts: ArrayRef = Arc::new(texts.into_iter().collect::<StringViewArray>());
    let source = Field::new("", DataType::Utf8View, true);
    super::convert(&texts, &source, target, how)
}

struct Lists {
    item: FieldRef,
    items: Texts,
    lengths: Vec<usize>,
}

impl Reader for Lists {
    fn read(&mut self, text: &str) -> Option<()> {
        let text = text.trim();
        let inner = within(text, '[', ']').or_else(|| within(text, '{', '}'))?;
        let items = pieces(inner)?.into_iter().map(value);
        let items: Texts = items.collect::<Option<_>>()?;
        self.lengths.push(items.len());
        self.items.extend(items);
        Some(())
    }

    fn null(&mut self) {
        self.lengths.push(0);
    }

    fn finish(self: Box<Self>, valid: NullBuffer, how: Conversion) -> Result<ArrayRef> {
        let items = converted(self.items, &self.item, how)?;
        let offsets = OffsetBuffer::from_lengths(self.lengths);
        Ok(Arc::new(ListArray::try_new(
            self.item,
            offsets,
            items,
            Some(valid),
        )?))
    }
}

struct Structs {
    fields: Fields,
    columns: Vec<Texts>,
}

impl Structs {
    fn by_name(&self, inner: &str) -> Option<Texts> {
        let mut members = vec![None; self.fields.len()];
        let mut seen = HashSet::new();
        for piece in pieces(inner)? {
            let (name, member) = split(piece, ':')?;
            let name = fold(&value(name)??);
            let place = self
                .fields
                .iter()
                .position(|field| fold(field.name()) == name)?;
            if !seen.insert(place) {
                return None;
            }
            members[place] = value(member)?;
        }
        Some(members)
    }

    fn by_position(&self, inner: &str) -> Option<Texts> {
        let members = pieces(inner)?.into_iter().map(|piece| match piece.trim() {
            "" => Some(None),
            _ => value(piece),
        });
        let members: Texts = members.collect::<Option<_>>()?;
        (members.len() == self.fields.len()).then_some(members)
    }
}

impl Reader for Structs {
    fn read(&mut self, text: &str) -> Option<()> {
        let text = text.trim();
        let members = match within(text, '{', '}') {
            Some(inner) => self.by_name(inner)?,
            None => self.by_position(within(text, '(', ')')?)?,
        };
        for (column, member) in self.columns.iter_mut().zip(members) {
            column.push(member);
        }
        Some(())
    }

    fn null(&mut self) {
        for column in &mut self.columns {
            column.push(None);
        }
    }

    fn finish(self: Box<Self>, valid: NullBuffer, how: Conversion) -> Result<ArrayRef> {
        let columns = self.columns.into_iter().zip(&self.fields);
        let columns = columns
            .map(|(texts, field)| converted(texts, field, how))
            .collect::<Result<Vec<_>>>()?;
        let length = valid.len();
        let structs = StructArray::try_new_with_length(self.fields, columns, Some(valid), length)?;
        Ok(Arc::new(structs))
    }
}

struct Maps {
    entries: FieldRef,
    sorted: bool,
    keys: Texts,
    values: Texts,
    lengths: Vec<usize>,
}

impl Reader for Maps {
    fn read(&mut self, text: &str) -> Option<()> {
        let inner = within(text.trim(), '{', '}')?;
        let mut seen = HashSet::new();
        let mut entries = Vec::new();
        for piece in pieces(inner)? {
            let (key, item) = split(piece, '=')?;
            let key = value(key)??;
            if !seen.insert(key.clone()) {
                return None;
            }
            entries.push((key, value(item)?));
        }
        self.lengths.push(entries.len());
        for (key, item) in entries {
            self.keys.push(Some(key));
            self.values.push(item);
        }
        Some(())
    }

    fn null(&mut self) {
        self.lengths.push(0);
    }

    fn finish(self: Box<Self>, valid: NullBuffer, how: Conversion) -> Result<ArrayRef> {
        let DataType::Struct(fields) = self.entries.data_type() else {
            return Err(Error::internal("a map's entries are no structs"));
        };
        let [key, item] = fields.as_ref() else {
            return Err(Error::internal("a map's entries are no pairs"));
        };
        let columns = vec![
            converted(self.keys, key, how)?,
            converted(self.values, item, how)?,
        ];
        let entries = StructArray::try_new(fields.clone(), columns, None)?;
        let offsets = OffsetBuffer::from_lengths(self.lengths);
        let maps = MapArray::try_new(
            Arc::clone(&self.entries),
            offsets,
            entries,
            Some(valid),
            self.sorted,
        )?;
        Ok(Arc::new(maps))
    }
}

/// What is between two brackets.
fn within(text: &str, open: char, close: char) -> Option<&str> {
    text.strip_prefix(open)?.strip_suffix(close)
}

/// The parts between commas that are in no quotes and no brackets; `None` where those do not match.
fn pieces(text: &str) -> Option<Vec<&str>> {
    let mut pieces = Vec::new();
    if text.trim().is_empty() {
        return Some(pieces);
    }
    let mut rest = text;
    loop {
        match outside(rest, ',')? {
            Some(place) => {
                pieces.push(&rest[..place]);
                rest = &rest[place + 1..];
            }
            None => {
                pieces.push(rest);
                return Some(pieces);
            }
        }
    }
}

/// The parts before and after the first separator that is in no quotes and no brackets.
fn split(piece: &str, separator: char) -> Option<(&str, &str)> {
    let place = outside(piece, separator)??;
    Some((&piece[..place], &piece[place + 1..]))
}

/// Where the first separator, a single byte, is that is in no quotes and no brackets; `None` where those do not match before it.
fn outside(text: &str, separator: char) -> Option<Option<usize>> {
    let mut open = Vec::new();
    // A quote opens a value; within one, like in it's, it is a letter.
    let mut opens = true;
    let mut letters = text.char_indices().peekable();
    while let Some((place, letter)) = letters.next() {
        match letter {
            _ if letter == separator && open.is_empty() => return Some(Some(place)),
            '\'' | '"' if opens => {
                loop {
                    match letters.next()?.1 {
                        '\\' => {
                            letters.next()?;
                        }
                        end if end == letter
                            && letters.next_if(|(_, next)| *next == letter).is_none() =>
                        {
                            break;
                        }
                        _ => {}
                    }
                }
                opens = false;
            }
            '[' | '{' => {
                open.push(letter);
                opens = true;
            }
            // A parenthesis opens a row where a value begins, and is a letter elsewhere.
            '(' if opens => open.push(letter),
            ')' if open.last() == Some(&'(') => {
                open.pop();
                opens = false;
            }
            ']' | '}' => {
                let opened = if letter == ']' { '[' } else { '{' };
                if open.pop() != Some(opened) {
                    return None;
                }
                opens = false;
            }
            ',' | ':' | '=' => opens = true,
            blank if blank.is_whitespace() => {}
            _ => opens = false,
        }
    }
    open.is_empty().then_some(None)
}

/// A value without its quotes; `Some(None)` for NULL, `None` for what is none.
fn value(piece: &str) -> Option<Option<String>> {
    let piece = piece.trim();
    let Some(quote) = piece
        .chars()
        .next()
        .filter(|first| matches!(first, '\'' | '"'))
    else {
        return match piece {
            "" => None,
            null if null.eq_ignore_ascii_case("null") => Some(None),
            plain => Some(Some(plain.to_owned())),
        };
    };
    let mut text = String::with_capacity(piece.len());
    let mut letters = piece.chars().skip(1).peekable();
    loop {
        match letters.next()? {
            '\\' => text.push(letters.next()?),
            end if end == quote => {
                if letters.next_if_eq(&quote).is_none() {
                    break;
                }
                text.push(quote);
            }
            other => text.push(other),
        }
    }
    letters.next().is_none().then_some(Some(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_split_at_their_own_commas() {
        let items = |text| -> Option<Texts> { pieces(text)?.into_iter().map(value).collect() };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            items("1, NULL, 'a, b', [2, ']'], it's"),
            Some(vec![
                some("1"),
                None,
                some("a, b"),
                some("[2, ']']"),
                some("it's")
            ])
        );
        assert_eq!(items(""), Some(vec![]));
        assert_eq!(
            items("'it''s', \"a\\\"b\""),
            Some(vec![some("it's"), some("a\"b")])
        );
        assert_eq!(
            items(":-), (1, 2)"),
            Some(vec![some(":-)"), some("(1, 2)")])
        );
        for bad in ["1, ", ", 1", "[1", "1]", "'a", "'a' b", "{[}", "[1}"] {
            assert_eq!(items(bad), None, "{bad}");
        }
    }

    #[test]
    fn names_end_at_their_own_colon() {
        assert_eq!(split("'a:b': {'c': 1}", ':'), Some(("'a:b'", " {'c': 1}")));
        assert_eq!(split("a 1", ':'), None);
    }
}
