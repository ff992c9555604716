//! What the functions do, row by row.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListBuilder, StringViewArray, StringViewBuilder};
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::{Result, exec_err};

use super::edit::{self, Put};
use super::path::Path;
use crate::expr::convert::json::{Json, Writer, parse, quote, writer};
use crate::expr::convert::{Conversion, Rule, convert};
use crate::types::full;
use crate::{Error, SqlState};

pub(super) fn text(values: &ArrayRef, row: usize) -> Option<&str> {
    let values = values.as_string_view();
    values.is_valid(row).then(|| values.value(row))
}

pub(super) fn of_texts(texts: Vec<Option<String>>) -> ArrayRef {
    Arc::new(texts.into_iter().collect::<StringViewArray>())
}

/// A string as it is, all else as JSON; `null` is NULL.
pub(super) fn plain(value: &Json<'_>) -> Option<String> {
    match value {
        Json::Null => None,
        Json::String(text) => Some(text.to_string()),
        other => Some(other.to_text()),
    }
}

/// The paths of a column; one that repeats is read once.
pub(super) struct Paths<'a> {
    column: Option<&'a ArrayRef>,
    last: Option<(String, Path)>,
}

impl<'a> Paths<'a> {
    pub(super) fn new(column: Option<&'a ArrayRef>) -> Self {
        Paths { column, last: None }
    }

    /// The path of a row; without a column, the one to the document itself.
    pub(super) fn at(&mut self, row: usize) -> Result<Option<Path>> {
        let Some(column) = self.column else {
            return Ok(Some(Path { steps: Vec::new() }));
        };
        if column.is_null(row) {
            return Ok(None);
        }
        if *column.data_type() == DataType::Int64 {
            let place = column.as_primitive::<Int64Type>().value(row);
            return Ok(Some(Path::item(place)));
        }
        let text = column.as_string_view().value(row);
        if let Some((known, path)) = &self.last
            && known == text
        {
            return Ok(Some(path.clone()));
        }
        let path = Path::parse(text)?;
        self.last = Some((text.to_owned(), path.clone()));
        Ok(Some(path))
    }
}

/// What a function makes of the value that the second argument, or nothing, leads to.
pub(super) fn each<T>(
    args: &[ArrayRef],
    rows: usize,
    function: impl Fn(&Json<'_>) -> T,
) -> Result<Vec<Option<T>>> {
    let mut paths = Paths::new(args.get(1));
    (0..rows)
        .map(|row| {
            let (Some(text), Some(path)) = (text(&args[0], row), paths.at(row)?) else {
                return Ok(None);
            };
            Ok(path.first(&parse(text)?).map(&function))
        })
        .collect()
}

pub(super) fn extract(
    args: &[ArrayRef],
    result: &Field,
    rows: usize,
    show: impl Fn(&Json<'_>) -> Option<String>,
) -> Result<ArrayRef> {
    let DataType::List(item) = result.data_type() else {
        let mut paths = Paths::new(args.get(1));
        let found = (0..rows).map(|row| {
            let (Some(text), Some(path)) = (text(&args[0], row), paths.at(row)?) else {
                return Ok(None);
            };
            if path.is_wild() {
                return Err(Error::unsupported(
                    "a JSON path with wildcards must be a constant: it makes the result a list",
                )
                .into());
            }
            Ok(path.first(&parse(text)?).and_then(&show))
        });
        return Ok(Arc::new(found.collect::<Result<StringViewArray>>()?));
    };
    let mut builder = ListBuilder::new(StringViewBuilder::new()).with_field(Arc::clone(item));
    let several = args[1].data_type().is_list();
    let mut paths = Paths::new(args.get(1));
    for row in 0..rows {
        let (Some(document), true) = (text(&args[0], row), args[1].is_valid(row)) else {
            builder.append_null();
            continue;
        };
        let document = parse(document)?;
        if several {
            let list = args[1].as_list::<i32>().value(row);
            let mut own = Paths::new(Some(&list));
            for place in 0..list.len() {
                let path = own.at(place)?;
                let value = path.and_then(|path| path.first(&document).and_then(&show));
                builder.values().append_option(value);
            }
        } else if let Some(path) = paths.at(row)? {
            for value in path.all(&document) {
                builder.values().append_option(show(value));
            }
        }
        builder.append(true);
    }
    Ok(Arc::new(builder.finish()))
}

pub(super) fn writers(args: &[ArrayRef], fields: &[FieldRef]) -> Result<Vec<Writer>> {
    let how = Conversion::new(Rule::Explicit);
    args.iter()
        .zip(fields)
        .map(|(values, field)| Ok(writer(values, field, how)?))
        .collect()
}

pub(super) fn written(rows: usize, write: impl Fn(usize, &mut String)) -> ArrayRef {
    let mut builder = StringViewBuilder::with_capacity(rows);
    let mut out = String::new();
    for row in 0..rows {
        out.clear();
        write(row, &mut out);
        builder.append_value(&out);
    }
    Arc::new(builder.finish())
}

pub(super) fn no_name() -> Error {
    Error::new(
        SqlState::NullValueNotAllowed,
        "null value not allowed for the name of a JSON object's member",
    )
}

/// The texts of values that name members.
fn as_text(names: &ArrayRef, field: &Field) -> crate::Result<ArrayRef> {
    let text = Field::new("", DataType::Utf8View, true);
    convert(names, field, &text, Conversion::new(Rule::Explicit))
}

pub(super) fn object(args: &[ArrayRef], fields: &[FieldRef], rows: usize) -> Result<ArrayRef> {
    let values = writers(args, fields)?;
    let names = args
        .iter()
        .step_by(2)
        .zip(fields.iter().step_by(2))
        .map(|(names, field)| Ok(as_text(names, field)?))
        .collect::<Result<Vec<_>>>()?;
    if names.iter().any(|names| names.null_count() > 0) {
        return Err(no_name().into());
    }
    Ok(written(rows, |row, out| {
        out.push('{');
        for (place, names) in names.iter().enumerate() {
            if place > 0 {
                out.push(',');
            }
            quote(out, text(names, row).unwrap_or_default());
            out.push(':');
            values[place * 2 + 1](out, row);
        }
        out.push('}');
    }))
}

pub(super) fn object_of_lists(
    args: &[ArrayRef],
    fields: &[FieldRef],
    rows: usize,
) -> Result<ArrayRef> {
    let how = Conversion::new(Rule::Explicit);
    let lists: Vec<_> = args.iter().map(|lists| lists.as_list::<i32>()).collect();
    let (names, values) = (lists[0], lists[1]);
    let named = full(&fields[0]);
    let DataType::List(name) = named.data_type() else {
        return exec_err!("a list of names");
    };
    let texts = as_text(names.values(), name)?;
    let described = full(&fields[1]);
    let DataType::List(item) = described.data_type() else {
        return exec_err!("a list of values");
    };
    let write = writer(values.values(), item, how)?;
    let mut builder = StringViewBuilder::with_capacity(rows);
    let mut out = String::new();
    for row in 0..rows {
        if names.is_null(row) {
            builder.append_null();
            continue;
        }
        out.clear();
        out.push('{');
        let first = values.value_offsets()[row];
        let start = names.value_offsets()[row];
        for place in start..names.value_offsets()[row + 1] {
            if place > start {
                out.push(',');
            }
            let name = text(&texts, place as usize).ok_or_else(no_name)?;
            quote(&mut out, name);
            out.push(':');
            write(&mut out, (first + place - start) as usize);
        }
        out.push('}');
        builder.append_value(&out);
    }
    Ok(Arc::new(builder.finish()))
}

pub(super) fn merged(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let merged = (0..rows).map(|row| {
        let mut document: Option<Json<'_>> = None;
        for (place, arg) in args.iter().enumerate() {
            let Some(text) = text(arg, row) else {
                return Ok(None);
            };
            let value = parse(text)?;
            document = Some(match document {
                Some(document) if place > 0 => edit::merge(document, value),
                _ => value,
            });
        }
        Ok(document.map(|document| document.to_text()))
    });
    Ok(Arc::new(merged.collect::<Result<StringViewArray>>()?))
}

pub(super) fn put(
    args: &[ArrayRef],
    fields: &[FieldRef],
    rows: usize,
    how: Put,
) -> Result<ArrayRef> {
    let writers = writers(args, fields)?;
    let results = (0..rows).map(|row| {
        let Some(document) = text(&args[0], row) else {
            return Ok(None);
        };
        let values: Vec<String> = (2..args.len())
            .step_by(2)
            .map(|place| {
                let mut out = String::new();
                writers[place](&mut out, row);
                out
            })
            .collect();
        let mut document = parse(document)?;
        for (place, value) in values.iter().enumerate() {
            let Some(path) = text(&args[place * 2 + 1], row) else {
                return Ok(None);
            };
            edit::put(&mut document, &Path::parse(path)?, parse(value)?, how);
        }
        Ok(Some(document.to_text()))
    });
    Ok(Arc::new(results.collect::<Result<StringViewArray>>()?))
}

pub(super) fn removed(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let results = (0..rows).map(|row| {
        let Some(document) = text(&args[0], row) else {
            return Ok(None);
        };
        let mut document = parse(document)?;
        for paths in &args[1..] {
            let Some(path) = text(paths, row) else {
                return Ok(None);
            };
            if !edit::remove(&mut document, &Path::parse(path)?) {
                return Ok(None);
            }
        }
        Ok(Some(document.to_text()))
    });
    Ok(Arc::new(results.collect::<Result<StringViewArray>>()?))
}
