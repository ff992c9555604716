//! Functions of text and bytes.

use std::fmt::Write as _;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewBuilder, BooleanArray, Int64Array, ListBuilder,
    StringViewArray, StringViewBuilder,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, exec_err};

use super::kernel::{Kernel, Takes};
use crate::parse::{LIKE_PATTERN, SIMILAR_PATTERN, escape, like_pattern, similar_pattern};
use crate::{Error, SqlState};

/// The functions of this module.
pub(super) fn kernels() -> Vec<Kernel> {
    use Takes::{Any, Integer, Text};
    let text = |_: &[DataType]| Some(DataType::Utf8View);
    vec![
        Kernel {
            name: "substr",
            aliases: &["substring"],
            takes: &[Text, Integer],
            arguments: (2, 3),
            yields: text,
            run: |args| parts_of(args, slice),
        },
        Kernel {
            name: "hex",
            aliases: &["to_hex_upper"],
            takes: &[Any],
            arguments: (1, 1),
            yields: |types| {
                let known = types[0].is_integer() || is_bytes(&types[0]);
                known.then_some(DataType::Utf8View)
            },
            run: hex,
        },
        Kernel {
            name: "text_of_bytes",
            aliases: &[],
            takes: &[Any],
            arguments: (1, 1),
            yields: |types| is_bytes(&types[0]).then_some(DataType::Utf8View),
            run: text_of_bytes,
        },
        Kernel {
            name: "unhex",
            aliases: &["from_hex"],
            takes: &[Text],
            arguments: (1, 1),
            yields: |_| Some(DataType::BinaryView),
            run: unhex,
        },
        Kernel {
            name: "bin",
            aliases: &["to_binary"],
            takes: &[Integer],
            arguments: (1, 1),
            yields: text,
            run: |args| {
                let digits = |number: i64| format!("{number:b}");
                let numbers = args[0].as_primitive::<Int64Type>();
                Ok(texts(numbers.iter().map(|number| number.map(digits))))
            },
        },
        Kernel {
            name: "to_base",
            aliases: &[],
            takes: &[Integer],
            arguments: (2, 3),
            yields: text,
            run: to_base,
        },
        Kernel {
            name: "octet_length",
            aliases: &["strlen"],
            takes: &[Any],
            arguments: (1, 1),
            yields: |types| is_bytes(&types[0]).then_some(DataType::Int64),
            run: octets,
        },
        Kernel {
            name: "string_split",
            aliases: &["str_split", "split"],
            takes: &[Text],
            arguments: (2, 2),
            yields: |_| Some(DataType::new_list(DataType::Utf8View, true)),
            run: |args| {
                let (texts, separators) = (args[0].as_string_view(), args[1].as_string_view());
                let mut lists = ListBuilder::new(StringViewBuilder::new());
                for (text, separator) in texts.iter().zip(separators) {
                    let Some(text) = text else {
                        lists.append(false);
                        continue;
                    };
                    match separator {
                        None => lists.values().append_value(text),
                        Some("") => {
                            for (place, character) in text.char_indices() {
                                let end = place + character.len_utf8();
                                lists.values().append_value(&text[place..end]);
                            }
                        }
                        Some(separator) => {
                            for part in text.split(separator) {
                                lists.values().append_value(part);
                            }
                        }
                    }
                    lists.append(true);
                }
                Ok(Arc::new(lists.finish()))
            },
        },
        Kernel {
            name: "hamming",
            aliases: &["mismatches"],
            takes: &[Text],
            arguments: (2, 2),
            yields: |_| Some(DataType::Int64),
            run: hamming,
        },
        Kernel {
            name: LIKE_PATTERN,
            aliases: &[],
            takes: &[Text],
            arguments: (2, 2),
            yields: text,
            run: |args| patterns(args, like_pattern),
        },
        Kernel {
            name: SIMILAR_PATTERN,
            aliases: &[],
            takes: &[Text],
            arguments: (2, 2),
            yields: text,
            run: |args| patterns(args, similar_pattern),
        },
        Kernel {
            name: "glob",
            aliases: &[],
            takes: &[Text],
            arguments: (2, 2),
            yields: |_| Some(DataType::Boolean),
            run: |args| {
                let (globs, texts) = (args[0].as_string_view(), args[1].as_string_view());
                let matched: BooleanArray = texts
                    .iter()
                    .zip(globs)
                    .map(|(text, pattern)| Some(glob_matches(text?, pattern?)))
                    .collect();
                Ok(Arc::new(matched))
            },
        },
    ]
}

fn is_bytes(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Null
            | DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Utf8View
            | DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
    )
}

fn texts<S: AsRef<str>>(values: impl Iterator<Item = Option<S>>) -> ArrayRef {
    let mut builder = StringViewBuilder::new();
    for value in values {
        builder.append_option(value);
    }
    Arc::new(builder.finish())
}

/// Characters from a place, counted from 1, or from the end where it is negative; a negative length takes those before it.
/// A part of each text, from a place on and of a length: what `part` makes of them.
pub(super) fn parts_of(
    args: &[ArrayRef],
    part: fn(&str, i64, Option<i64>) -> &str,
) -> Result<ArrayRef> {
    let values = args[0].as_string_view();
    let starts = args[1].as_primitive::<Int64Type>();
    let lengths = args
        .get(2)
        .map(|lengths| lengths.as_primitive::<Int64Type>());
    let parts = (0..values.len()).map(|row| {
        let given = values.is_valid(row) && starts.is_valid(row);
        if !given || lengths.is_some_and(|lengths| lengths.is_null(row)) {
            return None;
        }
        let length = lengths.map(|lengths| lengths.value(row));
        Some(part(values.value(row), starts.value(row), length))
    });
    Ok(texts(parts))
}

fn slice(text: &str, start: i64, length: Option<i64>) -> &str {
    let ascii = text.is_ascii();
    let count = || match ascii {
        true => text.len(),
        false => text.chars().count(),
    };
    let start = i128::from(start);
    let first = match start < 0 {
        true => start + count() as i128,
        false => start - 1,
    };
    let (from, to) = match length.map(i128::from) {
        None => (first, i128::MAX),
        Some(length) if length < 0 => (first + length, first),
        Some(length) => (first, first + length),
    };
    let byte = |character: i128| -> usize {
        let character = usize::try_from(character.max(0)).unwrap_or(usize::MAX);
        match ascii {
            true => character.min(text.len()),
            false => text
                .char_indices()
                .nth(character)
                .map_or(text.len(), |(byte, _)| byte),
        }
    };
    let (from, to) = (byte(from), byte(to));
    if from < to { &text[from..to] } else { "" }
}

fn bytes_of(values: &ArrayRef) -> Result<ArrayRef> {
    Ok(cast(values, &DataType::BinaryView)?)
}

fn hex(args: &[ArrayRef]) -> Result<ArrayRef> {
    if args[0].data_type().is_integer() {
        let numbers = cast(&args[0], &DataType::Int64)?;
        let digits = |number: i64| format!("{number:X}");
        let numbers = numbers.as_primitive::<Int64Type>();
        return Ok(texts(numbers.iter().map(|number| number.map(digits))));
    }
    let values = bytes_of(&args[0])?;
    Ok(texts(values.as_binary_view().iter().map(|value| {
        value.map(|bytes| {
            bytes.iter().fold(String::new(), |mut text, byte| {
                // Writing to a String cannot fail.
                let _ = write!(text, "{byte:02X}");
                text
            })
        })
    })))
}

/// Bytes that are UTF-8.
fn text_of_bytes(args: &[ArrayRef]) -> Result<ArrayRef> {
    let bytes = cast(&args[0], &DataType::BinaryView)?;
    let mut builder = StringViewBuilder::new();
    for bytes in bytes.as_binary_view() {
        match bytes.map(str::from_utf8) {
            None => builder.append_null(),
            Some(Ok(text)) => builder.append_value(text),
            Some(Err(_)) => {
                return Err(Error::new(
                    SqlState::CharacterNotInRepertoire,
                    "the bytes are no valid UTF-8",
                )
                .with_hint("encode(bytes, 'hex') and CAST(bytes AS VARCHAR) show any bytes.")
                .into());
            }
        }
    }
    Ok(Arc::new(builder.finish()))
}

fn unhex(args: &[ArrayRef]) -> Result<ArrayRef> {
    let mut builder = BinaryViewBuilder::new();
    for text in args[0].as_string_view() {
        match text {
            None => builder.append_null(),
            Some(text) => builder.append_value(bytes_of_hex(text)?),
        }
    }
    Ok(Arc::new(builder.finish()))
}

fn bytes_of_hex(text: &str) -> Result<Vec<u8>> {
    let invalid = || {
        Error::new(
            SqlState::InvalidTextRepresentation,
            format!("invalid hexadecimal data: \"{text}\""),
        )
    };
    let padded = match text.len() % 2 {
        0 => text.to_owned(),
        _ => format!("0{text}"),
    };
    (0..padded.len())
        .step_by(2)
        .map(|place| {
            let pair = padded.get(place..place + 2).ok_or_else(invalid)?;
            u8::from_str_radix(pair, 16).map_err(|_| invalid().into())
        })
        .collect()
}

fn to_base(args: &[ArrayRef]) -> Result<ArrayRef> {
    let numbers = args[0].as_primitive::<Int64Type>();
    let bases = args[1].as_primitive::<Int64Type>();
    let widths = args.get(2).map(|widths| widths.as_primitive::<Int64Type>());
    let mut builder = StringViewBuilder::new();
    for row in 0..numbers.len() {
        if numbers.is_null(row) || bases.is_null(row) || widths.is_some_and(|w| w.is_null(row)) {
            builder.append_null();
            continue;
        }
        let (mut number, base) = (numbers.value(row), bases.value(row));
        if number < 0 || !(2..=36).contains(&base) {
            return Err(Error::new(
                SqlState::InvalidParameterValue,
                "to_base takes a number that is not negative and a base from 2 to 36",
            )
            .into());
        }
        let width = widths.map_or(0, |widths| widths.value(row));
        let mut digits = Vec::new();
        while number > 0 || digits.is_empty() || (digits.len() as i64) < width.min(64) {
            let digit = (number % base) as u32;
            digits.push(
                char::from_digit(digit, 36)
                    .unwrap_or('0')
                    .to_ascii_uppercase(),
            );
            number /= base;
        }
        builder.append_value(digits.iter().rev().collect::<String>());
    }
    Ok(Arc::new(builder.finish()))
}

fn octets(args: &[ArrayRef]) -> Result<ArrayRef> {
    let values = bytes_of(&args[0])?;
    let lengths: Int64Array = values
        .as_binary_view()
        .iter()
        .map(|value| value.map(|bytes| bytes.len() as i64))
        .collect();
    Ok(Arc::new(lengths))
}

fn hamming(args: &[ArrayRef]) -> Result<ArrayRef> {
    let (left, right) = (args[0].as_string_view(), args[1].as_string_view());
    let mut distances = Vec::with_capacity(left.len());
    for (left, right) in left.iter().zip(right) {
        let (Some(left), Some(right)) = (left, right) else {
            distances.push(None);
            continue;
        };
        if left.chars().count() != right.chars().count() {
            return exec_err!("hamming takes texts of equal length");
        }
        let unlike = left.chars().zip(right.chars()).filter(|(l, r)| l != r);
        distances.push(Some(unlike.count() as i64));
    }
    Ok(Arc::new(Int64Array::from(distances)))
}

fn patterns(
    args: &[ArrayRef],
    rewrite: fn(&str, Option<char>) -> crate::Result<String>,
) -> Result<ArrayRef> {
    let (patterns, escapes): (&StringViewArray, &StringViewArray) =
        (args[0].as_string_view(), args[1].as_string_view());
    let mut builder = StringViewBuilder::new();
    for (pattern, character) in patterns.iter().zip(escapes) {
        match (pattern, character) {
            (Some(pattern), Some(character)) => {
                builder.append_value(rewrite(pattern, escape(character)?)?);
            }
            _ => builder.append_null(),
        }
    }
    Ok(Arc::new(builder.finish()))
}

/// Whether a text matches a pattern of `*`, `?` and classes in brackets.
fn glob_matches(text: &str, pattern: &str) -> bool {
    match glob::Pattern::new(pattern) {
        Ok(pattern) => pattern.matches(text),
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::slice;

    #[test]
    fn places_count_from_either_end() {
        assert_eq!(slice("hello", -3, None), "llo");
        assert_eq!(slice("hello", -3, Some(2)), "ll");
        assert_eq!(slice("hello", 0, Some(2)), "h");
        assert_eq!(slice("hello", 3, Some(-2)), "he");
        assert_eq!(slice("grün", -2, None), "ün");
        // From far before the text, by a length that ends one character before its end.
        assert_eq!(slice("hello", i64::MIN, Some(i64::MAX)), "hell");
    }
}
