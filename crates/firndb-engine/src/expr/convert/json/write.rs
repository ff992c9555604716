//! SQL's values written as JSON: structs and maps are objects, lists arrays; what JSON has no type for is the text that a cast to
//! VARCHAR yields.

use std::fmt::Write;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewArray, StringViewBuilder};
use arrow::datatypes::{DataType, Decimal128Type, Field, Float32Type, Float64Type};

use super::{parse, quote};
use crate::Result;
use crate::expr::convert::number::with_integer;
use crate::expr::convert::print::{print, print_decimal};
use crate::expr::convert::{Conversion, canonical};
use crate::types::{Refinement, full, retyped};

/// Writes the value of a row; NULL as `null`.
pub(crate) type Writer = Box<dyn Fn(&mut String, usize)>;

/// Decimals of up to so many digits are doubles without loss.
const EXACT_DIGITS: u32 = 15;

/// Each value as JSON; NULL stays NULL.
pub(crate) fn texts(values: &ArrayRef, field: &Field, how: Conversion) -> Result<StringViewArray> {
    if values.data_type() == &DataType::Null {
        return Ok(StringViewArray::new_null(values.len()));
    }
    let write = writer(values, field, how)?;
    let mut builder = StringViewBuilder::with_capacity(values.len());
    let mut text = String::new();
    for row in 0..values.len() {
        if values.is_null(row) {
            builder.append_null();
        } else {
            text.clear();
            write(&mut text, row);
            builder.append_value(&text);
        }
    }
    Ok(builder.finish())
}

/// What writes the rows of `values`, which `field` describes.
pub(crate) fn writer(values: &ArrayRef, field: &Field, how: Conversion) -> Result<Writer> {
    let field = full(field);
    let values = match values.data_type().is_nested() && field.data_type().is_nested() {
        true => retyped(values, field.data_type())?,
        false => Arc::clone(values),
    };
    let values = canonical::canonical(&values, how)?;
    let nulls = values.logical_nulls();
    let write = known(values, &field, how)?;
    Ok(match nulls {
        None => write,
        Some(nulls) => Box::new(move |out, row| match nulls.is_null(row) {
            true => out.push_str("null"),
            false => write(out, row),
        }),
    })
}

fn known(values: ArrayRef, field: &Field, how: Conversion) -> Result<Writer> {
    Ok(match values.data_type() {
        DataType::Null => Box::new(|out, _| out.push_str("null")),
        DataType::Boolean => {
            let values = values.as_boolean().clone();
            Box::new(move |out, row| out.push_str(if values.value(row) { "true" } else { "false" }))
        }
        DataType::Float32 => {
            let values = values.as_primitive::<Float32Type>().clone();
            Box::new(move |out, row| {
                let value = values.value(row);
                float(out, f64::from(value), format_args!("{value:?}"));
            })
        }
        DataType::Float64 => {
            let values = values.as_primitive::<Float64Type>().clone();
            Box::new(move |out, row| {
                let value = values.value(row);
                float(out, value, format_args!("{value:?}"));
            })
        }
        DataType::Decimal128(_, scale) => {
            let (values, scale) = (values.as_primitive::<Decimal128Type>().clone(), *scale);
            Box::new(move |out, row| {
                let (value, start) = (values.value(row), out.len());
                print_decimal(out, value, scale);
                if scale > 0
                    && value.unsigned_abs() < 10_u128.pow(EXACT_DIGITS)
                    && let Ok(value) = out[start..].parse::<f64>()
                {
                    out.truncate(start);
                    let _ = write!(out, "{value:?}");
                }
            })
        }
        DataType::Utf8View if Refinement::of(field) == Refinement::Json => {
            let values = values.as_string_view().clone();
            Box::new(move |out, row| match parse(values.value(row)) {
                Ok(json) => json.write(out),
                Err(_) => quote(out, values.value(row)),
            })
        }
        DataType::Utf8View => {
            let values = values.as_string_view().clone();
            Box::new(move |out, row| quote(out, values.value(row)))
        }
        DataType::List(item) => {
            let lists = values.as_list::<i32>().clone();
            let items = writer(lists.values(), item, how)?;
            Box::new(move |out, row| {
                let offsets = lists.value_offsets();
                out.push('[');
                for place in offsets[row]..offsets[row + 1] {
                    if place > offsets[row] {
                        out.push(',');
                    }
                    items(out, place as usize);
                }
                out.push(']');
            })
        }
        DataType::Struct(fields) => {
            let columns = values.as_struct().columns().iter();
            let members = columns
                .zip(fields)
                .map(|(column, field)| Ok((field.name().clone(), writer(column, field, how)?)))
                .collect::<Result<Vec<_>>>()?;
            Box::new(move |out, row| {
                out.push('{');
                for (place, (name, member)) in members.iter().enumerate() {
                    if place > 0 {
                        out.push(',');
                    }
                    quote(out, name);
                    out.push(':');
                    member(out, row);
                }
                out.push('}');
            })
        }
        DataType::Map(entries, _) => {
            let maps = values.as_map().clone();
            let keys = print(&canonical::canonical(maps.keys(), how)?, how)?;
            let item = match entries.data_type() {
                DataType::Struct(fields) if fields.len() == 2 => fields[1].as_ref().clone(),
                _ => Field::new("value", maps.values().data_type().clone(), true),
            };
            let items = writer(maps.values(), &item, how)?;
            Box::new(move |out, row| {
                let offsets = maps.value_offsets();
                out.push('{');
                for place in offsets[row]..offsets[row + 1] {
                    if place > offsets[row] {
                        out.push(',');
                    }
                    quote(out, keys.value(place as usize));
                    out.push(':');
                    items(out, place as usize);
                }
                out.push('}');
            })
        }
        integer if integer.is_integer() => {
            with_integer!(integer, T => {
                let values = values.as_primitive::<T>().clone();
                Box::new(move |out: &mut String, row| { let _ = write!(out, "{}", values.value(row)); })
            }, else quoted(print(&values, how)?))
        }
        _ => quoted(print(&values, how)?),
    })
}

fn quoted(texts: StringViewArray) -> Writer {
    Box::new(move |out, row| quote(out, texts.value(row)))
}

/// What is no number in JSON is a text.
fn float(out: &mut String, value: f64, digits: std::fmt::Arguments<'_>) {
    match value {
        value if value.is_nan() => out.push_str("\"NaN\""),
        value if value.is_infinite() && value > 0.0 => out.push_str("\"Infinity\""),
        value if value.is_infinite() => out.push_str("\"-Infinity\""),
        _ => {
            let _ = out.write_fmt(digits);
        }
    }
}
