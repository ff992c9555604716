//! Values printed as text, as a cast to VARCHAR yields them.

use std::fmt::Write;

use arrow::array::timezone::Tz;
use arrow::array::{Array, ArrayRef, AsArray, StringViewArray, StringViewBuilder};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Field, Float32Type, Float64Type,
    IntervalMonthDayNanoType, Time64MicrosecondType, TimestampMicrosecondType,
};

use super::calendar::{MICROS_PER_SECOND, print_date, print_time, print_timestamp};
use super::number::{POWERS, with_integer};
use super::{Conversion, canonical, interval, moment};
use crate::types::Refinement;
use crate::{Error, Result};

/// Prints each value; NULL stays NULL. `values` is canonical.
pub(super) fn print(values: &ArrayRef, how: Conversion) -> Result<StringViewArray> {
    if values.data_type() == &DataType::Null {
        return Ok(StringViewArray::new_null(values.len()));
    }
    let mut builder = StringViewBuilder::with_capacity(values.len());
    let mut text = String::new();
    let mut write = printer(values, how)?;
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

type Printer<'a> = Box<dyn FnMut(&mut String, usize) + 'a>;

fn printer(values: &ArrayRef, how: Conversion) -> Result<Printer<'_>> {
    let zone = how.zone;
    Ok(match values.data_type() {
        DataType::Boolean => {
            let values = values.as_boolean();
            Box::new(move |out, row| out.push_str(if values.value(row) { "true" } else { "false" }))
        }
        DataType::Float32 => {
            let values = values.as_primitive::<Float32Type>();
            Box::new(move |out, row| {
                let value = values.value(row);
                print_float(
                    out,
                    value.is_finite(),
                    f64::from(value),
                    format_args!("{value:?}"),
                );
            })
        }
        DataType::Float64 => {
            let values = values.as_primitive::<Float64Type>();
            Box::new(move |out, row| {
                let value = values.value(row);
                print_float(out, value.is_finite(), value, format_args!("{value:?}"));
            })
        }
        DataType::Decimal128(_, scale) => {
            let (values, scale) = (values.as_primitive::<Decimal128Type>(), *scale);
            Box::new(move |out, row| print_decimal(out, values.value(row), scale))
        }
        DataType::Date32 => {
            let values = values.as_primitive::<Date32Type>();
            Box::new(move |out, row| print_date(out, values.value(row)))
        }
        DataType::Time64(_) => {
            let values = values.as_primitive::<Time64MicrosecondType>();
            Box::new(move |out, row| print_time(out, values.value(row)))
        }
        DataType::Timestamp(_, zoned) => {
            let values = values.as_primitive::<TimestampMicrosecondType>();
            let zoned = zoned.is_some();
            Box::new(move |out, row| {
                if zoned {
                    print_instant(out, values.value(row), zone);
                } else {
                    print_timestamp(out, values.value(row));
                }
            })
        }
        DataType::Interval(_) => {
            let values = values.as_primitive::<IntervalMonthDayNanoType>();
            Box::new(move |out, row| interval::print(out, values.value(row)))
        }
        // Foreign bytes of fixed size come as BLOBs; a constant that was folded has lost the field that says what it is.
        DataType::FixedSizeBinary(16) => {
            let values = values.as_fixed_size_binary();
            Box::new(move |out, row| print_uuid(out, values.value(row)))
        }
        DataType::FixedSizeBinary(_) => {
            let values = values.as_fixed_size_binary();
            Box::new(move |out, row| print_bytes(out, values.value(row)))
        }
        DataType::BinaryView => {
            let values = values.as_binary_view();
            Box::new(move |out, row| print_bytes(out, values.value(row)))
        }
        DataType::Utf8View => {
            let values = values.as_string_view();
            Box::new(move |out, row| out.push_str(values.value(row)))
        }
        DataType::List(item) => {
            // JSON in a list stays JSON.
            let quotes = quotes(item) && Refinement::of(item) != Refinement::Json;
            let lists = values.as_list::<i32>();
            let items = texts(lists.values(), how)?;
            Box::new(move |out, row| {
                let offsets = lists.value_offsets();
                out.push('[');
                for position in offsets[row]..offsets[row + 1] {
                    if position > offsets[row] {
                        out.push_str(", ");
                    }
                    print_item(out, &items, position as usize, quotes);
                }
                out.push(']');
            })
        }
        DataType::Struct(fields) => {
            let members = values
                .as_struct()
                .columns()
                .iter()
                .zip(fields)
                .map(|(column, field)| {
                    let mut name = String::new();
                    print_quoted(&mut name, field.name());
                    Ok((name, texts(column, how)?, quotes(field)))
                })
                .collect::<Result<Vec<_>>>()?;
            Box::new(move |out, row| {
                out.push('{');
                for (position, (name, texts, quotes)) in members.iter().enumerate() {
                    if position > 0 {
                        out.push_str(", ");
                    }
                    let _ = write!(out, "{name}: ");
                    print_item(out, texts, row, *quotes);
                }
                out.push('}');
            })
        }
        DataType::Map(..) => {
            let maps = values.as_map();
            let nested = |values: &ArrayRef| values.data_type().is_nested();
            let (quoted_keys, quoted_items) = (!nested(maps.keys()), !nested(maps.values()));
            let keys = texts(maps.keys(), how)?;
            let items = texts(maps.values(), how)?;
            Box::new(move |out, row| {
                let offsets = maps.value_offsets();
                out.push('{');
                for position in offsets[row]..offsets[row + 1] {
                    if position > offsets[row] {
                        out.push_str(", ");
                    }
                    print_item(out, &keys, position as usize, quoted_keys);
                    out.push('=');
                    print_item(out, &items, position as usize, quoted_items);
                }
                out.push('}');
            })
        }
        integer => with_integer!(integer, T => {
            let values = values.as_primitive::<T>();
            Box::new(move |out: &mut String, row| { let _ = write!(out, "{}", values.value(row)); })
        }, else return Err(Error::unsupported(format!("{integer} cannot be shown as text")))),
    })
}

fn texts(values: &ArrayRef, how: Conversion) -> Result<StringViewArray> {
    print(&canonical::canonical(values, how)?, how)
}

/// Whether values within others stand in quotes where their text would be read as something else.
fn quotes(field: &Field) -> bool {
    !field.data_type().is_nested()
}

fn print_item(out: &mut String, texts: &StringViewArray, at: usize, quotes: bool) {
    if texts.is_null(at) {
        out.push_str("NULL");
        return;
    }
    match texts.value(at) {
        text if quotes && is_ambiguous(text) => print_quoted(out, text),
        text => out.push_str(text),
    }
}

/// Whether a text within a list, struct or map would not be read as what it is.
fn is_ambiguous(text: &str) -> bool {
    let blank = |letter: char| letter.is_ascii_whitespace() || letter == '\u{b}';
    text.is_empty()
        || text.eq_ignore_ascii_case("null")
        || text.starts_with(blank)
        || text.ends_with(blank)
        || text.contains(['"', '\'', '(', ')', ',', ':', '=', '[', ']', '{', '}', '\\'])
}

fn print_quoted(out: &mut String, text: &str) {
    out.push('\'');
    for letter in text.chars() {
        if matches!(letter, '\'' | '\\') {
            out.push('\\');
        }
        out.push(letter);
    }
    out.push('\'');
}

/// The shortest digits that read back as the same number; exponents with a sign and two digits.
fn print_float(out: &mut String, finite: bool, value: f64, digits: std::fmt::Arguments<'_>) {
    if !finite {
        out.push_str(match value {
            value if value.is_nan() => "nan",
            value if value > 0.0 => "inf",
            _ => "-inf",
        });
        return;
    }
    let start = out.len();
    let _ = out.write_fmt(digits);
    let Some(at) = out[start..].find('e').map(|at| start + at) else {
        return;
    };
    let exponent: i32 = out[at + 1..].parse().unwrap_or_default();
    out.truncate(at);
    let sign = if exponent < 0 { '-' } else { '+' };
    let _ = write!(out, "e{sign}{:02}", exponent.abs());
}

pub(crate) fn print_decimal(out: &mut String, value: i128, scale: i8) {
    if scale <= 0 {
        let _ = write!(out, "{value}");
        for _ in scale..0 {
            out.push('0');
        }
        return;
    }
    let power = POWERS[(scale as usize).min(38)].unsigned_abs();
    let magnitude = value.unsigned_abs();
    let sign = if value < 0 { "-" } else { "" };
    let width = scale as usize;
    let _ = write!(
        out,
        "{sign}{}.{:0width$}",
        magnitude / power,
        magnitude % power
    );
}

/// As clocks in the session's zone show it, with their offset.
fn print_instant(out: &mut String, micros: i64, zone: Option<Tz>) {
    let offset = zone
        .and_then(|zone| moment::offset_at(micros, zone))
        .unwrap_or(0);
    let local = micros.saturating_add(i64::from(offset) * MICROS_PER_SECOND);
    print_timestamp(out, local);
    let sign = if offset < 0 { '-' } else { '+' };
    let minutes = offset.abs() / 60;
    let _ = write!(out, "{sign}{:02}", minutes / 60);
    if minutes % 60 != 0 {
        let _ = write!(out, ":{:02}", minutes % 60);
    }
}

fn print_uuid(out: &mut String, bytes: &[u8]) {
    for (position, byte) in bytes.iter().enumerate() {
        if matches!(position, 4 | 6 | 8 | 10) {
            out.push('-');
        }
        let _ = write!(out, "{byte:02x}");
    }
}

/// Printable ASCII as it is, other bytes as `\xHH`.
fn print_bytes(out: &mut String, bytes: &[u8]) {
    for byte in bytes {
        match byte {
            b'\\' | 0..=31 | 127..=255 => {
                let _ = write!(out, "\\x{byte:02X}");
            }
            printable => out.push(char::from(*printable)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn float(value: f64) -> String {
        let mut out = String::new();
        print_float(
            &mut out,
            value.is_finite(),
            value,
            format_args!("{value:?}"),
        );
        out
    }

    #[test]
    fn doubles_print_as_duckdb_prints_them() {
        assert_eq!(float(1.0), "1.0");
        assert_eq!(float(1e15), "1000000000000000.0");
        assert_eq!(float(1e16), "1e+16");
        assert_eq!(float(1e-5), "1e-05");
        assert_eq!(float(f64::NEG_INFINITY), "-inf");
    }

    #[test]
    fn decimals_keep_their_scale() {
        let mut out = String::new();
        print_decimal(&mut out, -150, 2);
        assert_eq!(out, "-1.50");
        out.clear();
        print_decimal(&mut out, 5, 3);
        assert_eq!(out, "0.005");
    }
}
