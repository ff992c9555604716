//! Conversions from and to text, with the lengths of VARCHAR(n), the labels of enums, UUID and JSON.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewBuilder, BooleanBuilder, FixedSizeBinaryBuilder,
    PrimitiveArray, PrimitiveBuilder, StringViewArray, StringViewBuilder,
};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Field, Float32Type, Float64Type,
    IntervalMonthDayNanoType, Time64MicrosecondType, TimestampMicrosecondType,
};

use super::calendar::{Fault, MICROS_PER_DAY, MICROS_PER_SECOND, parse_time};
use super::number::{POWERS, with_integer, within};
use super::parse::Parsed;
use super::spelled_dates::parse_moment;
use super::{
    Conversion, Rule, arc, cannot_cast, interval, invalid_text, json, message_name, moment,
    nested_text, out_of_range, parse, print,
};
use crate::types::{Refinement, TYPE_KEY};
use crate::{Error, Result, SqlState};

/// Prints values and holds the text to what its type allows.
pub(super) fn to_text(
    values: &ArrayRef,
    source: &Field,
    target: &Field,
    how: Conversion,
) -> Result<ArrayRef> {
    let refinement = Refinement::of(target);
    let texts = match values.data_type() {
        DataType::Utf8View if refinement == Refinement::None => return Ok(Arc::clone(values)),
        DataType::Utf8View if !needs_quotes(source, &refinement) => values.as_string_view().clone(),
        _ if refinement == Refinement::Json => {
            return Ok(Arc::new(json::texts(values, source, how)?));
        }
        _ => print::print(values, how)?,
    };
    match refinement {
        Refinement::None | Refinement::Uuid | Refinement::Digits(_) => Ok(Arc::new(texts)),
        Refinement::Length(most, _) => limit_length(texts, most, target, how),
        Refinement::Json if Refinement::of(source) == Refinement::Json => Ok(Arc::new(texts)),
        Refinement::Json => check(texts, how, |text| json::parse(text).map(|_| ())),
        Refinement::Enum(labels) => {
            let labels: std::collections::HashSet<String> = labels.into_iter().collect();
            let name = target
                .metadata()
                .get(TYPE_KEY)
                .map_or(String::new(), |name| format!(" {name}"));
            check(texts, how, |text| {
                if labels.contains(text) {
                    Ok(())
                } else {
                    Err(Error::new(
                        SqlState::InvalidTextRepresentation,
                        format!("invalid input value for enum{name}: \"{text}\""),
                    ))
                }
            })
        }
    }
}

/// Whether text of a type of its own becomes a string of JSON.
fn needs_quotes(source: &Field, target: &Refinement) -> bool {
    *target == Refinement::Json && matches!(Refinement::of(source), Refinement::Enum(_))
}

/// Reads text as another type. `wanted` is the target's canonical type.
pub(super) fn from_text(
    values: &ArrayRef,
    target: &Field,
    wanted: &DataType,
    how: Conversion,
) -> Result<ArrayRef> {
    let texts = values.as_string_view();
    let name = message_name(target);
    let invalid = |text: &str| invalid_text(&name, text);
    match wanted {
        DataType::Boolean => {
            let mut builder = BooleanBuilder::with_capacity(texts.len());
            for text in texts {
                builder.append_option(match text {
                    Some(text) => how.settle(parse::boolean(text).ok_or_else(|| invalid(text)))?,
                    None => None,
                });
            }
            Ok(Arc::new(builder.finish()))
        }
        DataType::Float64 => read::<Float64Type>(texts, how, |text| {
            parse::float(text).map_err(|large| too_large_or(large, &name, text))
        }),
        DataType::Float32 => read::<Float32Type>(texts, how, |text| {
            let value = parse::float(text).map_err(|large| too_large_or(large, &name, text))?;
            let narrow = value as f32;
            if narrow.is_infinite() && value.is_finite() {
                return Err(too_large_or(true, &name, text));
            }
            Ok(narrow)
        }),
        DataType::Decimal128(precision, scale) => {
            let limit = POWERS[usize::from(*precision).min(38)];
            let decimals = parse_each::<Decimal128Type>(texts, how, |text| {
                match parse::decimal(text, *scale) {
                    Parsed::Value(value) => {
                        within(value, limit).ok_or_else(|| out_of_range(wanted))
                    }
                    Parsed::TooLarge => Err(out_of_range(wanted)),
                    Parsed::Invalid => Err(invalid(text)),
                }
            })?;
            Ok(arc(decimals.with_data_type(wanted.clone())))
        }
        DataType::Date32 => read::<Date32Type>(texts, how, |text| {
            parse_moment(text)
                .map(|moment| moment.days)
                .map_err(|fault| moment_fault(fault, "date", text))
        }),
        DataType::Time64(_) => read::<Time64MicrosecondType>(texts, how, |text| {
            parse_time(text)
                .map(|time| time.min(MICROS_PER_DAY))
                .map_err(|fault| moment_fault(fault, "time", text))
        }),
        DataType::Timestamp(_, zone) => {
            let zoned = zone.is_some();
            let stamps = parse_each::<TimestampMicrosecondType>(texts, how, |text| {
                let moment =
                    parse_moment(text).map_err(|fault| moment_fault(fault, "timestamp", text))?;
                let local = i64::from(moment.days)
                    .checked_mul(MICROS_PER_DAY)
                    .and_then(|days| days.checked_add(moment.time));
                // Without a zone in the type, an offset in the text says nothing, as in PostgreSQL.
                let micros = match (zoned, moment.offset, how.zone) {
                    (true, Some(offset), _) => local
                        .and_then(|local| local.checked_sub(i64::from(offset) * MICROS_PER_SECOND)),
                    (true, None, Some(zone)) => {
                        local.and_then(|local| moment::instant(local, zone))
                    }
                    _ => local,
                };
                micros.ok_or_else(moment::timestamp_out_of_range)
            })?;
            Ok(arc(stamps.with_data_type(wanted.clone())))
        }
        DataType::Interval(_) => read::<IntervalMonthDayNanoType>(texts, how, |text| {
            interval::parse(text).ok_or_else(|| invalid(text))
        }),
        DataType::BinaryView => {
            let mut builder = BinaryViewBuilder::with_capacity(texts.len());
            for text in texts {
                let bytes = match text {
                    Some(text) => how.settle(parse::bytes(text).ok_or_else(|| invalid(text)))?,
                    None => None,
                };
                builder.append_option(bytes);
            }
            Ok(Arc::new(builder.finish()))
        }
        DataType::FixedSizeBinary(16) => {
            let mut builder = FixedSizeBinaryBuilder::with_capacity(texts.len(), 16);
            for text in texts {
                let uuid = match text {
                    Some(text) => {
                        how.settle(parse::uuid(text).ok_or_else(|| invalid_text("uuid", text)))?
                    }
                    None => None,
                };
                match uuid {
                    Some(uuid) => builder.append_value(uuid)?,
                    None => builder.append_null(),
                }
            }
            Ok(Arc::new(builder.finish()))
        }
        DataType::List(_) | DataType::Struct(_) | DataType::Map(_, _) => {
            nested_text::from_text(texts, target, how)
        }
        integer => with_integer!(integer, T => {
            type Native = <T as ArrowPrimitiveType>::Native;
            read::<T>(texts, how, |text| {
                if let Ok(value) = text.parse::<Native>() {
                    return Ok(value);
                }
                let too_large = || too_large_or(true, &name, text);
                match parse::decimal(text, 0) {
                    Parsed::Value(value) => Native::try_from(value).map_err(|_| too_large()),
                    Parsed::TooLarge => Err(too_large()),
                    Parsed::Invalid => Err(invalid(text)),
                }
            })
        }, else Err(cannot_cast(&Field::new("", DataType::Utf8View, true), target))),
    }
}

/// 16 bytes are a UUID.
pub(super) fn bytes_to_uuid(values: &ArrayRef, how: Conversion) -> Result<ArrayRef> {
    if *values.data_type() == DataType::FixedSizeBinary(16) {
        return Ok(Arc::clone(values));
    }
    let values = arrow::compute::cast(values, &DataType::BinaryView)?;
    let mut builder = FixedSizeBinaryBuilder::with_capacity(values.len(), 16);
    for bytes in values.as_binary_view() {
        let uuid = match bytes {
            Some(bytes) => how.settle(<[u8; 16]>::try_from(bytes).map_err(|_| {
                Error::new(
                    SqlState::InvalidTextRepresentation,
                    format!("a uuid has 16 bytes, not {}", bytes.len()),
                )
            }))?,
            None => None,
        };
        match uuid {
            Some(uuid) => builder.append_value(uuid)?,
            None => builder.append_null(),
        }
    }
    Ok(Arc::new(builder.finish()))
}

fn read<T: ArrowPrimitiveType>(
    texts: &StringViewArray,
    how: Conversion,
    parse: impl Fn(&str) -> Result<T::Native>,
) -> Result<ArrayRef> {
    Ok(arc(parse_each::<T>(texts, how, parse)?))
}

fn parse_each<T: ArrowPrimitiveType>(
    texts: &StringViewArray,
    how: Conversion,
    parse: impl Fn(&str) -> Result<T::Native>,
) -> Result<PrimitiveArray<T>> {
    let mut builder = PrimitiveBuilder::<T>::with_capacity(texts.len());
    for text in texts {
        match text {
            Some(text) => builder.append_option(how.settle(parse(text))?),
            None => builder.append_null(),
        }
    }
    Ok(builder.finish())
}

/// The same texts, NULL under [`Rule::Try`] where `valid` refuses.
fn check(
    texts: StringViewArray,
    how: Conversion,
    valid: impl Fn(&str) -> Result<()>,
) -> Result<ArrayRef> {
    let mut refused = false;
    for text in texts.iter().flatten() {
        match valid(text) {
            Ok(()) => {}
            Err(_) if how.rule == Rule::Try => {
                refused = true;
                break;
            }
            Err(error) => return Err(error),
        }
    }
    if !refused {
        return Ok(Arc::new(texts));
    }
    let mut builder = StringViewBuilder::with_capacity(texts.len());
    for text in &texts {
        builder.append_option(text.filter(|text| valid(text).is_ok()));
    }
    Ok(Arc::new(builder.finish()))
}

/// Holds text to VARCHAR(n): a cast cuts, an assignment cuts only blanks (ISO 9075-2, 9.2).
fn limit_length(
    texts: StringViewArray,
    most: usize,
    target: &Field,
    how: Conversion,
) -> Result<ArrayRef> {
    // No text has more characters than bytes.
    let may_be_long = |text: &str| text.len() > most;
    if !texts.iter().flatten().any(may_be_long) {
        return Ok(Arc::new(texts));
    }
    let mut builder = StringViewBuilder::with_capacity(texts.len());
    for text in &texts {
        let Some(text) = text else {
            builder.append_null();
            continue;
        };
        let Some((end, _)) = text.char_indices().nth(most) else {
            builder.append_value(text);
            continue;
        };
        let beyond = &text[end..];
        if how.rule == Rule::Assignment && !beyond.bytes().all(|byte| byte == b' ') {
            return Err(Error::new(
                SqlState::StringDataRightTruncation,
                format!("value too long for type {}", message_name(target)),
            ));
        }
        builder.append_value(&text[..end]);
    }
    Ok(Arc::new(builder.finish()))
}

fn too_large_or(too_large: bool, name: &str, text: &str) -> Error {
    if too_large {
        Error::new(
            SqlState::NumericValueOutOfRange,
            format!("value \"{text}\" is out of range for type {name}"),
        )
    } else {
        invalid_text(name, text)
    }
}

fn moment_fault(fault: Fault, name: &str, text: &str) -> Error {
    match fault {
        Fault::Syntax => invalid_text(name, text),
        Fault::Range => Error::new(
            SqlState::DatetimeFieldOverflow,
            format!("date/time field value out of range: \"{text}\""),
        ),
    }
}
