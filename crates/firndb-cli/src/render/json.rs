//! JSON: an array of objects, or an object a line (JSON Lines).
//!
//! Numbers and decimals are JSON numbers with every digit; NaN and the infinities, which JSON does not know, are strings. Lists,
//! structs and maps nest. Values of the type JSON are embedded as they are. Everything else is a string of the value's text.

use std::io::Write;
use std::ops::Range;

use firndb::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use firndb::arrow::datatypes::{DataType, Field, Schema};
use firndb::text::Column;

use super::Renderer;
use crate::failure::Failure;

type Encoder<'a> = Box<dyn Fn(usize, &mut String) + 'a>;

pub(super) struct Json {
    /// Whether objects stand in an array.
    array: bool,
    names: Vec<String>,
    first: bool,
    line: String,
}

impl Json {
    pub(super) fn array() -> Self {
        Json {
            array: true,
            names: Vec::new(),
            first: true,
            line: String::new(),
        }
    }

    pub(super) fn lines() -> Self {
        Json {
            array: false,
            ..Json::array()
        }
    }
}

impl Renderer for Json {
    fn begin(&mut self, schema: &Schema, _out: &mut dyn Write) -> Result<(), Failure> {
        self.names = schema
            .fields()
            .iter()
            .map(|field| quoted(field.name()))
            .collect();
        Ok(())
    }

    fn batch(&mut self, batch: &RecordBatch, out: &mut dyn Write) -> Result<(), Failure> {
        let schema = batch.schema_ref();
        let encoders = schema
            .fields()
            .iter()
            .zip(batch.columns())
            .map(|(field, array)| encoder(field, array))
            .collect::<firndb::Result<Vec<_>>>()?;
        for row in 0..batch.num_rows() {
            self.line.clear();
            if self.array {
                self.line.push_str(if self.first { "[" } else { ",\n" });
            }
            self.first = false;
            self.line.push('{');
            for (position, (name, encode)) in self.names.iter().zip(&encoders).enumerate() {
                if position > 0 {
                    self.line.push(',');
                }
                self.line.push_str(name);
                self.line.push(':');
                encode(row, &mut self.line);
            }
            self.line.push('}');
            if !self.array {
                self.line.push('\n');
            }
            out.write_all(self.line.as_bytes())?;
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn Write) -> Result<(), Failure> {
        if self.array {
            out.write_all(if self.first { b"[]\n" } else { b"]\n" })?;
        }
        Ok(())
    }
}

fn encoder<'a>(field: &Field, array: &'a ArrayRef) -> firndb::Result<Encoder<'a>> {
    let value = not_null(field, array)?;
    let nulls = array.logical_nulls();
    Ok(Box::new(move |row, out| {
        if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            out.push_str("null");
        } else {
            value(row, out);
        }
    }))
}

fn not_null<'a>(field: &Field, array: &'a ArrayRef) -> firndb::Result<Encoder<'a>> {
    Ok(match array.data_type() {
        DataType::List(item) => {
            let lists = array.as_list::<i32>();
            let item = encoder(item, lists.values())?;
            Box::new(move |row, out| {
                let offsets = lists.value_offsets();
                list(offsets[row] as usize..offsets[row + 1] as usize, &item, out);
            })
        }
        DataType::LargeList(item) => {
            let lists = array.as_list::<i64>();
            let item = encoder(item, lists.values())?;
            Box::new(move |row, out| {
                let offsets = lists.value_offsets();
                list(offsets[row] as usize..offsets[row + 1] as usize, &item, out);
            })
        }
        DataType::FixedSizeList(item, length) => {
            let lists = array.as_fixed_size_list();
            let item = encoder(item, lists.values())?;
            let length = *length as usize;
            Box::new(move |row, out| list(row * length..(row + 1) * length, &item, out))
        }
        DataType::Struct(fields) => {
            let members = fields
                .iter()
                .zip(array.as_struct().columns())
                .map(|(field, column)| Ok((quoted(field.name()), encoder(field, column)?)))
                .collect::<firndb::Result<Vec<_>>>()?;
            Box::new(move |row, out| {
                out.push('{');
                for (position, (name, member)) in members.iter().enumerate() {
                    if position > 0 {
                        out.push(',');
                    }
                    out.push_str(name);
                    out.push(':');
                    member(row, out);
                }
                out.push('}');
            })
        }
        DataType::Map(entries, _) => {
            let maps = array.as_map();
            let DataType::Struct(fields) = entries.data_type() else {
                return Err(firndb::Error::internal("a map without key and value"));
            };
            let key = Column::new(&fields[0], maps.keys())?;
            let value = encoder(&fields[1], maps.values())?;
            Box::new(move |row, out| {
                let offsets = maps.value_offsets();
                out.push('{');
                for entry in offsets[row] as usize..offsets[row + 1] as usize {
                    if entry > offsets[row] as usize {
                        out.push(',');
                    }
                    out.push_str(&quoted(key.text(entry).unwrap_or_default()));
                    out.push(':');
                    value(entry, out);
                }
                out.push('}');
            })
        }
        _ => leaf(field, array)?,
    })
}

/// A value that is no list, struct or map.
fn leaf<'a>(field: &Field, array: &ArrayRef) -> firndb::Result<Encoder<'a>> {
    let column = Column::new(field, array)?;
    let text = move |row| column.text(row).unwrap_or_default().to_string();
    Ok(match array.data_type() {
        DataType::Float16 | DataType::Float32 | DataType::Float64 => Box::new(move |row, out| {
            let text = text(row);
            if text.contains(['n', 'i']) {
                out.push_str(&quoted(&text));
            } else {
                out.push_str(&text);
            }
        }),
        plain if plain.is_numeric() || plain == &DataType::Boolean => {
            Box::new(move |row, out| out.push_str(&text(row)))
        }
        _ if field.extension_type_name() == Some("arrow.json") => Box::new(move |row, out| {
            let text = text(row);
            // A line of its own must stay one line, and what is no JSON is a string.
            match serde_json::from_str::<serde_json::Value>(&text) {
                Ok(_) if !text.contains('\n') => out.push_str(&text),
                Ok(value) => out.push_str(&value.to_string()),
                Err(_) => out.push_str(&quoted(&text)),
            }
        }),
        _ => Box::new(move |row, out| out.push_str(&quoted(&text(row)))),
    })
}

fn list(range: Range<usize>, item: &Encoder<'_>, out: &mut String) {
    out.push('[');
    for position in range.clone() {
        if position > range.start {
            out.push(',');
        }
        item(position, out);
    }
    out.push(']');
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use firndb::arrow::array::{
        BooleanArray, Date32Array, Decimal128Array, Float64Array, ListArray,
    };
    use firndb::arrow::datatypes::Int32Type;

    use super::super::Mode;
    use super::super::tests::{batch, people, plain, rendered};

    #[test]
    fn rows_are_objects_of_an_array() {
        let rows = people(&[(Some(1), Some("a \"b\"")), (None, None)]);
        assert_eq!(
            rendered(rows, &plain(Mode::Json)),
            "[{\"id\":1,\"name\":\"a \\\"b\\\"\"},\n{\"id\":null,\"name\":null}]\n"
        );
    }

    #[test]
    fn no_rows_are_an_empty_array() {
        assert_eq!(rendered(people(&[]), &plain(Mode::Json)), "[]\n");
        assert_eq!(rendered(people(&[]), &plain(Mode::JsonLines)), "");
    }

    #[test]
    fn lines_hold_an_object_each() {
        let rows = people(&[(Some(1), Some("a\nb")), (Some(2), None)]);
        assert_eq!(
            rendered(rows, &plain(Mode::JsonLines)),
            "{\"id\":1,\"name\":\"a\\nb\"}\n{\"id\":2,\"name\":null}\n"
        );
    }

    #[test]
    fn every_kind_of_value_has_its_json() {
        let decimals = Decimal128Array::from(vec![150])
            .with_precision_and_scale(10, 2)
            .unwrap();
        let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), None])]);
        let rows = batch(vec![
            ("b", Arc::new(BooleanArray::from(vec![true]))),
            ("d", Arc::new(decimals)),
            ("f", Arc::new(Float64Array::from(vec![1e300]))),
            ("n", Arc::new(Float64Array::from(vec![f64::NAN]))),
            ("t", Arc::new(Date32Array::from(vec![0]))),
            ("l", Arc::new(lists)),
        ]);
        let text = rendered(rows, &plain(Mode::JsonLines));
        assert_eq!(
            text,
            "{\"b\":true,\"d\":1.50,\"f\":1e+300,\"n\":\"nan\",\"t\":\"1970-01-01\",\"l\":[1,null]}\n"
        );
        assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
    }
}
