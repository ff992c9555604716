//! Text without accents and in its normal form, counted in graphemes; bars; bytes of binary digits; SHA-1.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryViewBuilder, Int64Array, StringViewBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::Result;
use sha1::{Digest, Sha1};
use sha2::Sha256;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;
use unicode_segmentation::UnicodeSegmentation;

use super::kernel::{Kernel, Takes};
use super::text::parts_of;
use crate::{Error, SqlState};

/// Characters that a bar may have.
const MAX_BAR: f64 = 1_000.0;

/// The functions of this module.
pub(super) fn kernels() -> Vec<Kernel> {
    use Takes::{Any, Double, Integer, Text};
    let text = |_: &[DataType]| Some(DataType::Utf8View);
    vec![
        Kernel {
            name: "strip_accents",
            aliases: &[],
            takes: &[Text],
            arguments: (1, 1),
            yields: text,
            run: |args| {
                mapped(&args[0], |text| {
                    text.nfd().filter(|one| !is_combining_mark(*one)).collect()
                })
            },
        },
        Kernel {
            name: "nfc_normalize",
            aliases: &[],
            takes: &[Text],
            arguments: (1, 1),
            yields: text,
            run: |args| mapped(&args[0], |text| text.nfc().collect()),
        },
        Kernel {
            name: "length_grapheme",
            aliases: &[],
            takes: &[Text],
            arguments: (1, 1),
            yields: |_| Some(DataType::Int64),
            run: |args| {
                let count = |text: &str| text.graphemes(true).count() as i64;
                let counts = args[0].as_string_view().iter().map(|text| text.map(count));
                Ok(Arc::new(counts.collect::<Int64Array>()))
            },
        },
        Kernel {
            name: "substring_grapheme",
            aliases: &[],
            takes: &[Text, Integer],
            arguments: (2, 3),
            yields: text,
            run: |args| parts_of(args, graphemes),
        },
        Kernel {
            name: "left_grapheme",
            aliases: &[],
            takes: &[Text, Integer],
            arguments: (2, 2),
            yields: text,
            run: |args| parts_of(args, |text, count, _| left(text, count)),
        },
        Kernel {
            name: "right_grapheme",
            aliases: &[],
            takes: &[Text, Integer],
            arguments: (2, 2),
            yields: text,
            run: |args| parts_of(args, |text, count, _| right(text, count)),
        },
        Kernel {
            name: "bar",
            aliases: &[],
            takes: &[Double],
            arguments: (3, 4),
            yields: text,
            run: bars,
        },
        Kernel {
            name: "unbin",
            aliases: &["from_binary"],
            takes: &[Text],
            arguments: (1, 1),
            yields: |_| Some(DataType::BinaryView),
            run: from_binary,
        },
        Kernel {
            name: "sha1",
            aliases: &[],
            takes: &[Any],
            arguments: (1, 1),
            yields: |types| has_digest(types).then_some(DataType::Utf8View),
            run: |args| digests(&args[0], |bytes| hexadecimal(&Sha1::digest(bytes))),
        },
        // PostgreSQL's digest of bytes is bytes, DuckDB's of text is text.
        Kernel {
            name: "sha256",
            aliases: &[],
            takes: &[Any],
            arguments: (1, 1),
            yields: |types| {
                let bytes = types[0].is_binary();
                let digest = if bytes {
                    DataType::BinaryView
                } else {
                    DataType::Utf8View
                };
                has_digest(types).then_some(digest)
            },
            run: |args| {
                if !args[0].data_type().is_binary() {
                    return digests(&args[0], |bytes| hexadecimal(&Sha256::digest(bytes)));
                }
                let bytes = cast(&args[0], &DataType::BinaryView)?;
                let mut digests = BinaryViewBuilder::new();
                for value in bytes.as_binary_view() {
                    digests.append_option(value.map(Sha256::digest));
                }
                Ok(Arc::new(digests.finish()))
            },
        },
    ]
}

fn has_digest(types: &[DataType]) -> bool {
    types[0].is_string() || types[0].is_binary() || types[0].is_null()
}

fn digests(values: &ArrayRef, digest: fn(&[u8]) -> String) -> Result<ArrayRef> {
    let bytes = cast(values, &DataType::BinaryView)?;
    let mut digests = StringViewBuilder::new();
    for value in bytes.as_binary_view() {
        digests.append_option(value.map(digest));
    }
    Ok(Arc::new(digests.finish()))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn mapped(texts: &ArrayRef, change: fn(&str) -> String) -> Result<ArrayRef> {
    let mut changed = StringViewBuilder::new();
    for text in texts.as_string_view() {
        changed.append_option(text.map(change));
    }
    Ok(Arc::new(changed.finish()))
}

/// `bar(x, least, greatest, width)`: blocks in eighths up to the value's share of the width, then blanks.
/// As `substring`, of graphemes.
fn graphemes(text: &str, start: i64, length: Option<i64>) -> &str {
    let start = i128::from(start);
    let first = match start < 0 {
        true => start + text.graphemes(true).count() as i128,
        false => start - 1,
    };
    let (from, to) = match length.map(i128::from) {
        None => (first, i128::MAX),
        Some(length) if length < 0 => (first + length, first),
        Some(length) => (first, first + length),
    };
    between(text, from, to)
}

/// The graphemes from one place to another, which may lie outside the text.
fn between(text: &str, from: i128, to: i128) -> &str {
    let byte = |grapheme: i128| {
        let grapheme = usize::try_from(grapheme.max(0)).unwrap_or(usize::MAX);
        let mut starts = text.grapheme_indices(true);
        starts.nth(grapheme).map_or(text.len(), |(byte, _)| byte)
    };
    let (from, to) = (byte(from), byte(to));
    if from < to { &text[from..to] } else { "" }
}

/// So many graphemes from the left, or all but so many at the other end.
fn left(text: &str, count: i64) -> &str {
    let count = i128::from(count);
    let end = match count < 0 {
        true => text.graphemes(true).count() as i128 + count,
        false => count,
    };
    between(text, 0, end)
}

/// So many graphemes from the right, or all but so many at the other end.
fn right(text: &str, count: i64) -> &str {
    let count = i128::from(count);
    let start = match count < 0 {
        true => -count,
        false => text.graphemes(true).count() as i128 - count,
    };
    between(text, start, i128::MAX)
}

fn bars(args: &[ArrayRef]) -> Result<ArrayRef> {
    let numbers: Vec<_> = args
        .iter()
        .map(|argument| argument.as_primitive::<Float64Type>())
        .collect();
    let mut bars = StringViewBuilder::new();
    for row in 0..args[0].len() {
        if numbers.iter().any(|column| column.is_null(row)) {
            bars.append_null();
            continue;
        }
        let value = |column: usize| numbers.get(column).map(|column| column.value(row));
        let (Some(x), Some(least), Some(greatest)) = (value(0), value(1), value(2)) else {
            bars.append_null();
            continue;
        };
        bars.append_value(bar(x, least, greatest, value(3).unwrap_or(80.0))?);
    }
    Ok(Arc::new(bars.finish()))
}

fn bar(x: f64, least: f64, greatest: f64, width: f64) -> Result<String> {
    let refused = |message: String| Error::new(SqlState::InvalidParameterValue, message);
    if !(1.0..=MAX_BAR).contains(&width) {
        return Err(refused(format!("the width of a bar is from 1 to {MAX_BAR}")).into());
    }
    if !(least.is_finite() && greatest.is_finite()) || x.is_nan() {
        return Err(refused("a bar is of finite numbers".to_owned()).into());
    }
    const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let share = if greatest <= least || x <= least {
        0.0
    } else {
        ((x - least) / (greatest - least)).min(1.0)
    };
    let eighths = (share * width * 8.0).floor() as usize;
    let cells = width.ceil() as usize;
    let mut bar = "█".repeat(eighths / 8);
    let mut used = eighths / 8;
    if used < cells && !eighths.is_multiple_of(8) {
        bar.push(EIGHTHS[eighths % 8]);
        used += 1;
    }
    bar.push_str(&" ".repeat(cells.saturating_sub(used)));
    Ok(bar)
}

/// The bytes that binary digits stand for; the first byte may have fewer than eight.
fn from_binary(args: &[ArrayRef]) -> Result<ArrayRef> {
    let mut bytes = BinaryViewBuilder::new();
    for text in args[0].as_string_view() {
        let Some(text) = text else {
            bytes.append_null();
            continue;
        };
        let digits = text.as_bytes();
        if let Some(other) = text.chars().find(|digit| !matches!(digit, '0' | '1')) {
            return Err(Error::new(
                SqlState::InvalidTextRepresentation,
                format!("\"{other}\" is no binary digit"),
            )
            .into());
        }
        let value = |digits: &[u8]| {
            digits
                .iter()
                .fold(0_u8, |byte, digit| byte << 1 | (digit - b'0'))
        };
        let (first, rest) = digits.split_at(digits.len() % 8);
        let first = (!first.is_empty()).then(|| value(first));
        let all: Vec<u8> = first.into_iter().chain(rest.chunks(8).map(value)).collect();
        bytes.append_value(all);
    }
    Ok(Arc::new(bytes.finish()))
}
