//! The reading half of PostgreSQL's `to_number`: a text by a template, as the text of a decimal.
//!
//! A template's digits, groups and points take what they stand for where it comes next, and nothing otherwise; what follows the last digit of
//! the template is not read.

use std::sync::Arc;

use arrow::array::{AsArray, StringViewArray};
use arrow::datatypes::DataType;

use super::kernel::{Kernel, Takes};
use crate::expr::convert::invalid_text;
use crate::parse::{Part, TO_NUMBER, template_parts};

/// The function of this module.
pub(super) fn kernel() -> Kernel {
    Kernel {
        name: TO_NUMBER,
        aliases: &[],
        takes: &[Takes::Text],
        arguments: (2, 2),
        yields: |_| Some(DataType::Utf8View),
        run: |args| {
            let (texts, templates) = (args[0].as_string_view(), args[1].as_string_view());
            let mut known: Option<(&str, Vec<Part>)> = None;
            let numbers = texts
                .iter()
                .zip(templates)
                .map(|pair| {
                    let (Some(text), Some(template)) = pair else {
                        return Ok(None);
                    };
                    if known.as_ref().is_none_or(|(of, _)| *of != template) {
                        known = Some((template, template_parts(template)?));
                    }
                    let parts = known.as_ref().map_or(&[][..], |(_, parts)| parts);
                    read(text, parts)
                        .map(Some)
                        .ok_or_else(|| invalid_text("numeric", text))
                })
                .collect::<crate::Result<StringViewArray>>()?;
            Ok(Arc::new(numbers))
        },
    }
}

/// The number that a text is by a template; `None` where it has no digit.
fn read(text: &str, parts: &[Part]) -> Option<String> {
    let mut rest = text.trim_start();
    let mut negative = false;
    let (mut number, mut digits) = (String::new(), 0_usize);
    let take = |rest: &mut &str, wanted: &dyn Fn(char) -> bool| -> Option<char> {
        let next = rest.chars().next().filter(|next| wanted(*next))?;
        *rest = &rest[next.len_utf8()..];
        Some(next)
    };
    let brackets = parts.contains(&Part::Brackets);
    for part in parts {
        match part {
            Part::Digit => {
                rest = rest.trim_start();
                if digits == 0 && number.is_empty() {
                    if take(&mut rest, &|next| next == '-' || brackets && next == '<').is_some() {
                        negative = true;
                    } else {
                        take(&mut rest, &|next| next == '+');
                    }
                    rest = rest.trim_start();
                }
                if let Some(digit) = take(&mut rest, &|next| next.is_ascii_digit()) {
                    number.push(digit);
                    digits += 1;
                }
            }
            Part::Group => drop(take(&mut rest, &|next| next == ',')),
            Part::Point => {
                if let Some(point) = take(&mut rest, &|next| next == '.') {
                    number.push(point);
                }
            }
            Part::Sign => {
                rest = rest.trim_start();
                let sign = take(&mut rest, &|next| matches!(next, '+' | '-'));
                negative |= sign == Some('-');
            }
            Part::Brackets => drop(take(&mut rest, &|next| next == '>')),
            Part::Currency => drop(take(&mut rest, &|next| {
                !next.is_ascii_digit() && !matches!(next, '+' | '-' | '.' | ',' | '<')
            })),
            Part::Ordinal => {
                for _ in 0..2 {
                    take(&mut rest, &|next| next.is_ascii_alphabetic());
                }
            }
            Part::Other(wanted) => drop(take(&mut rest, &|next| next == *wanted)),
        }
    }
    (digits > 0).then(|| format!("{}{number}", if negative { "-" } else { "" }))
}
