//! How alike two texts are, and texts as parts of a URL.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, StringViewArray};
use arrow::datatypes::DataType;
use datafusion::common::Result;

use super::kernel::{Kernel, Takes};
use crate::{Error, SqlState};

/// The functions of this module.
pub(super) fn kernels() -> Vec<Kernel> {
    let likeness = |name: &'static str, aliases: &'static [&'static str], run| Kernel {
        name,
        aliases,
        takes: &[Takes::Text],
        arguments: (2, 2),
        yields: |_| Some(DataType::Float64),
        run,
    };
    vec![
        likeness("jaccard", &[], |args| {
            let mut alike = Vec::with_capacity(args[0].len());
            for (left, right) in pairs(args) {
                alike.push(match (left, right) {
                    (Some(left), Some(right)) => Some(jaccard(left, right)?),
                    _ => None,
                });
            }
            Ok(Arc::new(Float64Array::from(alike)))
        }),
        likeness("jaro_similarity", &[], |args| compared(args, strsim::jaro)),
        likeness("jaro_winkler_similarity", &[], |args| {
            compared(args, strsim::jaro_winkler)
        }),
        Kernel {
            name: "damerau_levenshtein",
            aliases: &[],
            takes: &[Takes::Text],
            arguments: (2, 2),
            yields: |_| Some(DataType::Int64),
            run: |args| {
                let distances: Int64Array = pairs(args)
                    .map(|(left, right)| Some(strsim::damerau_levenshtein(left?, right?) as i64))
                    .collect();
                Ok(Arc::new(distances))
            },
        },
        Kernel {
            name: "url_encode",
            aliases: &[],
            takes: &[Takes::Text],
            arguments: (1, 1),
            yields: |_| Some(DataType::Utf8View),
            run: |args| {
                let encoded: StringViewArray = args[0]
                    .as_string_view()
                    .iter()
                    .map(|text| text.map(url_encoded))
                    .collect();
                Ok(Arc::new(encoded))
            },
        },
        Kernel {
            name: "url_decode",
            aliases: &[],
            takes: &[Takes::Text],
            arguments: (1, 1),
            yields: |_| Some(DataType::Utf8View),
            run: |args| {
                let decoded = args[0]
                    .as_string_view()
                    .iter()
                    .map(|text| text.map(url_decoded).transpose())
                    .collect::<crate::Result<StringViewArray>>()?;
                Ok(Arc::new(decoded))
            },
        },
        Kernel {
            name: "regexp_escape",
            aliases: &[],
            takes: &[Takes::Text],
            arguments: (1, 1),
            yields: |_| Some(DataType::Utf8View),
            run: |args| {
                let escaped: StringViewArray = args[0]
                    .as_string_view()
                    .iter()
                    .map(|text| text.map(escaped))
                    .collect();
                Ok(Arc::new(escaped))
            },
        },
    ]
}

fn pairs(args: &[ArrayRef]) -> impl Iterator<Item = (Option<&str>, Option<&str>)> {
    args[0]
        .as_string_view()
        .iter()
        .zip(args[1].as_string_view().iter())
}

fn compared(args: &[ArrayRef], measure: fn(&str, &str) -> f64) -> Result<ArrayRef> {
    let alike: Float64Array = pairs(args)
        .map(|(left, right)| Some(measure(left?, right?)))
        .collect();
    Ok(Arc::new(alike))
}

/// The share of the characters of two texts that both have.
fn jaccard(left: &str, right: &str) -> crate::Result<f64> {
    let (left, right): (HashSet<char>, HashSet<char>) =
        (left.chars().collect(), right.chars().collect());
    if left.is_empty() || right.is_empty() {
        return Err(Error::new(
            SqlState::InvalidParameterValue,
            "jaccard takes texts that are not empty",
        ));
    }
    let both = left.intersection(&right).count();
    Ok(both as f64 / (left.len() + right.len() - both) as f64)
}

/// Every byte but letters, digits and `-._~` as `%` and two digits (RFC 3986).
fn url_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(byte));
            }
            // Writing to a text does not fail.
            _ => drop(write!(encoded, "%{byte:02X}")),
        }
    }
    encoded
}

fn url_decoded(text: &str) -> crate::Result<String> {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut place = 0;
    while let Some(byte) = bytes.get(place) {
        let digits = bytes
            .get(place + 1..place + 3)
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .filter(|_| *byte == b'%')
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match digits {
            Some(byte) => {
                decoded.push(byte);
                place += 3;
            }
            None => {
                decoded.push(*byte);
                place += 1;
            }
        }
    }
    String::from_utf8(decoded).map_err(|_| {
        Error::new(
            SqlState::CharacterNotInRepertoire,
            "a decoded URL is not valid UTF-8",
        )
    })
}

/// A text as a regular expression that matches it alone.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_ascii() && !character.is_ascii_alphanumeric() && character != '_' {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}
