//! The values of a CSV column in the column's type, from its fields' texts.
//!
//! Numbers may have another decimal separator, and separators of thousands; dates and timestamps may go by a format. Fields that can't be
//! converted are an error, or told apart when errors are ignored.

use std::sync::Arc;

use arrow::array::builder::StringViewBuilder;
use arrow::array::{Array, ArrayRef, AsArray, Date32Array, TimestampMicrosecondArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field};

use super::options::CsvOptions;
use crate::expr::{assign, moments_by};
use crate::types::compute_field;
use crate::{Error, Result, SqlState};

const MICROS_PER_DAY: i64 = 86_400_000_000;

/// Converts `strings` to the type of a column.
pub(super) fn converted(
    strings: &ArrayRef,
    field: &Field,
    options: &CsvOptions,
) -> Result<ArrayRef> {
    let kind = field.data_type();
    match kind {
        DataType::Date32 if let Some(format) = &options.date_format => {
            let days = by_format(strings, format)?
                .into_iter()
                .map(|moment| moment.map(|micros| micros.div_euclid(MICROS_PER_DAY) as i32));
            let days: Date32Array = days.collect();
            Ok(Arc::new(days))
        }
        DataType::Timestamp(..) if let Some(format) = &options.timestamp_format => {
            let stamps = TimestampMicrosecondArray::from(by_format(strings, format)?);
            let target = compute_field(field);
            Ok(cast(&stamps, target.data_type())?)
        }
        kind if kind.is_numeric() && has_separators(options) => {
            assign(&plain_numbers(strings, options)?, field)
        }
        _ => assign(strings, field),
    }
}

/// As [`converted`]: what can't be converted is NULL, and its place is set in `failed`.
pub(super) fn convertible(
    strings: &ArrayRef,
    field: &Field,
    options: &CsvOptions,
    failed: &mut [bool],
) -> Result<ArrayRef> {
    if let Ok(values) = converted(strings, field, options) {
        return Ok(values);
    }
    let mut kept = StringViewBuilder::with_capacity(strings.len());
    for (row, text) in strings.as_string_view().iter().enumerate() {
        let fits = converted(&strings.slice(row, 1), field, options).is_ok();
        failed[row] |= !fits;
        kept.append_option(text.filter(|_| fits));
    }
    let kept: ArrayRef = Arc::new(kept.finish());
    converted(&kept, field, options)
}

fn by_format(strings: &ArrayRef, format: &str) -> Result<Vec<Option<i64>>> {
    let moment = moments_by(format)?;
    strings
        .as_string_view()
        .iter()
        .map(|text| match text {
            None => Ok(None),
            Some(text) => moment(text).map(Some).ok_or_else(|| {
                Error::new(
                    SqlState::InvalidDatetimeFormat,
                    format!("could not parse \"{text}\" by the format \"{format}\""),
                )
            }),
        })
        .collect()
}

/// Whether numbers are written in another way than SQL's.
pub(super) fn has_separators(options: &CsvOptions) -> bool {
    options.decimal != b'.' || options.thousands.is_some()
}

fn plain_numbers(strings: &ArrayRef, options: &CsvOptions) -> Result<ArrayRef> {
    let mut plain = StringViewBuilder::with_capacity(strings.len());
    for text in strings.as_string_view() {
        match text {
            None => plain.append_null(),
            Some(text) => plain.append_value(plain_number(text, options).ok_or_else(|| {
                Error::new(
                    SqlState::InvalidTextRepresentation,
                    format!("invalid input syntax for a number: \"{text}\""),
                )
            })?),
        }
    }
    Ok(Arc::new(plain.finish()))
}

/// A number as SQL writes it; `None` where a separator stands in a place that is not its own.
pub(super) fn plain_number(text: &str, options: &CsvOptions) -> Option<String> {
    let decimal = char::from(options.decimal);
    let (whole, fraction) = match text.split_once(decimal) {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (text, None),
    };
    let whole = match options.thousands.map(char::from) {
        Some(separator) if whole.contains(separator) => {
            let mut groups = whole.trim_start_matches(['+', '-', ' ']).split(separator);
            let first = groups.next()?.len();
            if !(1..=3).contains(&first) || !groups.all(|group| group.trim_end().len() == 3) {
                return None;
            }
            whole.replace(separator, "")
        }
        _ => whole.to_owned(),
    };
    if decimal != '.' && (whole.contains('.') || fraction.is_some_and(|part| part.contains('.'))) {
        return None;
    }
    Some(match fraction {
        Some(fraction) => format!("{whole}.{fraction}"),
        None => whole,
    })
}
