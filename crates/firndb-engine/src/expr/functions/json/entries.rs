//! `json_each` and `json_tree`: a document's values as rows.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ListArray, StringViewBuilder, StructArray, UInt64Builder};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::Result;

use super::edit::type_of;
use super::json_field;
use crate::expr::convert::json::Json;

/// The members of a row.
pub(super) fn fields() -> Fields {
    let text = |name: &str| Field::new(name, DataType::Utf8View, true);
    let number = |name: &str| Field::new(name, DataType::UInt64, true);
    Fields::from(vec![
        text("key"),
        json_field("value"),
        text("type"),
        json_field("atom"),
        number("id"),
        number("parent"),
        text("fullkey"),
        text("path"),
    ])
}

/// Collects the rows of one document after the other.
pub(super) struct Entries {
    /// Whether all levels are listed, or only the one below.
    deep: bool,
    texts: [StringViewBuilder; 6],
    ids: UInt64Builder,
    parents: UInt64Builder,
    rows: usize,
    lengths: Vec<usize>,
    valid: Vec<bool>,
}

impl Entries {
    pub(super) fn new(deep: bool) -> Self {
        Entries {
            deep,
            texts: std::array::from_fn(|_| StringViewBuilder::new()),
            ids: UInt64Builder::new(),
            parents: UInt64Builder::new(),
            rows: 0,
            lengths: Vec::new(),
            valid: Vec::new(),
        }
    }

    /// A document's rows, from the value at `path`, which has the number `id`.
    pub(super) fn document(&mut self, value: Option<&Json<'_>>, id: u64, path: &str) {
        let before = self.rows;
        if let Some(value) = value {
            let nested = matches!(value, Json::Array(_) | Json::Object(_));
            let mut next = id;
            if self.deep || !nested {
                self.row(None, value, id, None, path, path);
            }
            self.below(value, &mut next, path);
        }
        self.lengths.push(self.rows - before);
        self.valid.push(value.is_some());
    }

    fn below(&mut self, value: &Json<'_>, next: &mut u64, path: &str) {
        let own = *next;
        let parent = self.deep.then_some(own);
        match value {
            Json::Array(items) => {
                for (place, item) in items.iter().enumerate() {
                    *next += 1;
                    let full = format!("{path}[{place}]");
                    self.row(Some(&place.to_string()), item, *next, parent, &full, path);
                    self.pass(item, next, &full);
                }
            }
            Json::Object(members) => {
                for (name, item) in members {
                    // A name has a number, too.
                    *next += 2;
                    let plain = !name.is_empty()
                        && name
                            .chars()
                            .all(|letter| letter.is_alphanumeric() || letter == '_');
                    let full = match plain {
                        true => format!("{path}.{name}"),
                        false => format!("{path}.\"{name}\""),
                    };
                    self.row(Some(name), item, *next, parent, &full, path);
                    self.pass(item, next, &full);
                }
            }
            _ => {}
        }
    }

    /// Lists what is below a value, or only counts it.
    fn pass(&mut self, value: &Json<'_>, next: &mut u64, path: &str) {
        match self.deep {
            true => self.below(value, next, path),
            false => *next += count(value),
        }
    }

    fn row(
        &mut self,
        key: Option<&str>,
        value: &Json<'_>,
        id: u64,
        parent: Option<u64>,
        full: &str,
        path: &str,
    ) {
        let text = value.to_text();
        let nested = matches!(value, Json::Array(_) | Json::Object(_));
        let cells = [
            key,
            Some(&text),
            Some(type_of(value)),
            (!nested).then_some(text.as_str()),
            Some(full),
            Some(path),
        ];
        for (builder, cell) in self.texts.iter_mut().zip(cells) {
            builder.append_option(cell);
        }
        self.ids.append_value(id);
        self.parents.append_option(parent);
        self.rows += 1;
    }

    /// The lists of rows.
    pub(super) fn finish(mut self) -> Result<ArrayRef> {
        let [key, value, kind, atom, full, path] = self
            .texts
            .map(|mut builder| Arc::new(builder.finish()) as ArrayRef);
        let columns: Vec<ArrayRef> = vec![
            key,
            value,
            kind,
            atom,
            Arc::new(self.ids.finish()),
            Arc::new(self.parents.finish()),
            full,
            path,
        ];
        let rows = StructArray::try_new_with_length(fields(), columns, None, self.rows)?;
        let item = Field::new_list_field(DataType::Struct(fields()), true);
        Ok(Arc::new(ListArray::try_new(
            Arc::new(item),
            OffsetBuffer::from_lengths(self.lengths),
            Arc::new(rows) as Arc<dyn Array>,
            Some(NullBuffer::from(self.valid)),
        )?))
    }
}

/// How many numbers the values and names below a value take.
fn count(value: &Json<'_>) -> u64 {
    match value {
        Json::Array(items) => items.iter().map(|item| 1 + count(item)).sum(),
        Json::Object(members) => members.iter().map(|(_, item)| 2 + count(item)).sum(),
        _ => 0,
    }
}

/// The number of the value that a path leads to.
pub(super) fn number_of(document: &Json<'_>, wanted: &Json<'_>) -> Option<u64> {
    fn search(value: &Json<'_>, wanted: *const (), next: &mut u64) -> bool {
        if std::ptr::from_ref(value).cast::<()>() == wanted {
            return true;
        }
        match value {
            Json::Array(items) => items.iter().any(|item| {
                *next += 1;
                search(item, wanted, next)
            }),
            Json::Object(members) => members.iter().any(|(_, item)| {
                *next += 2;
                search(item, wanted, next)
            }),
            _ => false,
        }
    }
    let mut next = 0;
    search(document, std::ptr::from_ref(wanted).cast::<()>(), &mut next).then_some(next)
}
