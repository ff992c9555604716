//! Conversion of values from one SQL type to another: casts and assignments.
//!
//! ```text
//! any Arrow array ──canonical──▶ array of a compute type ──by target──▶ number │ text │ moment │ nested
//! ```
//!
//! Numbers round half away from zero, floating point numbers half to even (as DuckDB); what does not fit its target is
//! 22003, text that is no value of the type 22P02. Nothing wraps and nothing is cut off, but for an explicit cast to
//! VARCHAR(n), which the standard wants cut.

mod calendar;
mod canonical;
mod interval;
pub(crate) mod json;
mod moment;
mod nested;
mod nested_text;
mod number;
mod parse;
mod print;
mod spelled_dates;
mod text;

use std::sync::Arc;

use arrow::array::timezone::Tz;
use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray, new_null_array};
use arrow::datatypes::{DataType, Field};

pub(crate) use calendar::{MICROS_PER_DAY, civil_from_days, days_from_civil, parse_utc};
pub(crate) use canonical::canonical_type;
pub(crate) use interval::{
    NANOS_PER_MICRO, from_microseconds as interval_from_microseconds,
    out_of_range as interval_out_of_range,
};
pub(crate) use moment::{instant, offset_at, timestamp_out_of_range};
pub(crate) use number::{POWERS, decimal_to_float, rescale, with_integer, within};

pub(crate) use crate::error::invalid_text;
use crate::types::{Refinement, full, retyped, sql_name};
use crate::{Error, Result, SqlState};

/// What happens to a value that does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Rule {
    /// CAST: an error, but text is cut to VARCHAR(n).
    Explicit,
    /// INSERT and UPDATE: an error, but blanks beyond VARCHAR(n) are cut.
    Assignment,
    /// TRY_CAST: NULL.
    Try,
}

/// How a conversion is to be done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Conversion {
    /// What happens to a value that does not fit.
    pub(crate) rule: Rule,
    /// The session's zone, in which moments without a zone are read and shown.
    pub(crate) zone: Option<Tz>,
}

impl Conversion {
    /// A conversion whose moments are in UTC.
    pub(crate) fn new(rule: Rule) -> Self {
        Conversion { rule, zone: None }
    }

    /// Maps each value; `None` is an error worded by `fault`, or NULL under [`Rule::Try`].
    fn map<S: ArrowPrimitiveType, T: ArrowPrimitiveType>(
        self,
        values: &PrimitiveArray<S>,
        f: impl Fn(S::Native) -> Option<T::Native>,
        fault: impl Fn(S::Native) -> Error,
    ) -> Result<PrimitiveArray<T>> {
        match self.rule {
            Rule::Try => Ok(values.unary_opt(f)),
            _ => values.try_unary(|value| f(value).ok_or_else(|| fault(value))),
        }
    }

    /// The value, an error, or NULL under [`Rule::Try`].
    fn settle<T>(self, value: Result<T>) -> Result<Option<T>> {
        match value {
            Ok(value) => Ok(Some(value)),
            Err(_) if self.rule == Rule::Try => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Converts values to exactly the type of `target`, a compute field or one inside a list, struct or map.
pub(crate) fn convert(
    values: &ArrayRef,
    source: &Field,
    target: &Field,
    how: Conversion,
) -> Result<ArrayRef> {
    if source.data_type().is_nested() || target.data_type().is_nested() {
        return convert_nested(values, source, target, how);
    }
    convert_full(values, source, target, how)
}

/// What a flat field says of the fields within is told by those fields while their values convert.
fn convert_nested(
    values: &ArrayRef,
    source: &Field,
    target: &Field,
    how: Conversion,
) -> Result<ArrayRef> {
    let (full_source, full_target) = (full(source), full(target));
    let values = match values.data_type() == source.data_type() {
        true => retyped(values, full_source.data_type())?,
        false => Arc::clone(values),
    };
    let converted = convert_full(&values, &full_source, &full_target, how)?;
    Ok(retyped(&converted, target.data_type())?)
}

fn convert_full(
    values: &ArrayRef,
    source: &Field,
    target: &Field,
    how: Conversion,
) -> Result<ArrayRef> {
    let values = canonical::canonical(values, how)?;
    let wanted = canonical_type(target.data_type());
    let converted = match (values.data_type(), &wanted) {
        (DataType::Null, _) => new_null_array(target.data_type(), values.len()),
        (_, DataType::Utf8View) => text::to_text(&values, source, target, how)?,
        (DataType::Utf8View, _) if Refinement::of(source) == Refinement::Json => {
            return from_json(&values, target, how);
        }
        (DataType::Utf8View, _) => text::from_text(&values, target, &wanted, how)?,
        (from, to) if number::is_number(from) && number::is_number(to) => {
            number::convert(&values, to, how)?
        }
        (DataType::BinaryView | DataType::FixedSizeBinary(_), DataType::BinaryView) => {
            arrow::compute::cast(&values, &wanted)?
        }
        (DataType::BinaryView | DataType::FixedSizeBinary(_), DataType::FixedSizeBinary(16)) => {
            text::bytes_to_uuid(&values, how)?
        }
        (from, to) if moment::is_moment(from) && moment::is_moment(to) => {
            moment::convert(&values, to, how)?.ok_or_else(|| cannot_cast(source, target))?
        }
        (from, to) if from.is_nested() && to.is_nested() => {
            nested::convert(&values, source, target, how)?
        }
        _ => return Err(cannot_cast(source, target)),
    };
    let converted = match Refinement::of(target) {
        Refinement::Digits(digits) => moment::rounded(&converted, digits, how)?,
        _ => converted,
    };
    if converted.data_type() == target.data_type() {
        return Ok(converted);
    }
    // The same values in another encoding: a zone's name, text with offsets.
    Ok(arrow::compute::cast(&converted, target.data_type())?)
}

/// JSON as what it holds.
fn from_json(values: &ArrayRef, target: &Field, how: Conversion) -> Result<ArrayRef> {
    let mut documents = Vec::with_capacity(values.len());
    for text in values.as_string_view() {
        documents.push(match text {
            Some(text) => how.settle(json::parse(text))?,
            None => None,
        });
    }
    let documents: Vec<_> = documents.iter().map(Option::as_ref).collect();
    json::read(&documents, target, how)
}

/// Whether some values of `source` convert to `target`, so that a cast can be refused when it is planned.
pub(crate) fn check_convertible(source: &Field, target: &Field) -> Result<()> {
    let (source, target) = (&full(source), &full(target));
    let from = canonical_type(source.data_type());
    let to = canonical_type(target.data_type());
    let possible = match (&from, &to) {
        (DataType::Null, _) | (_, DataType::Utf8View) => true,
        (DataType::Utf8View, _) => true,
        (DataType::BinaryView | DataType::FixedSizeBinary(_), DataType::BinaryView) => true,
        (DataType::BinaryView | DataType::FixedSizeBinary(_), DataType::FixedSizeBinary(16)) => {
            true
        }
        (from, to) if from.is_nested() || to.is_nested() => nested::convertible(from, to),
        (from, to) => {
            number::is_number(from) && number::is_number(to) || moment::convertible(from, to)
        }
    };
    if possible {
        Ok(())
    } else {
        Err(cannot_cast(source, target))
    }
}

/// A type as PostgreSQL's messages name it.
pub(crate) fn message_name(field: &Field) -> String {
    match Refinement::of(field) {
        Refinement::None => type_name(field.data_type()),
        Refinement::Length(length, true) => format!("character({length})"),
        Refinement::Length(length, false) => format!("character varying({length})"),
        _ => sql_name(field).to_lowercase(),
    }
}

pub(crate) fn type_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Float32 => "real".into(),
        DataType::Float64 => "double precision".into(),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "text".into(),
        DataType::Decimal128(_, _) | DataType::Decimal64(_, _) => "numeric".into(),
        other => sql_name(&Field::new("", other.clone(), true)).to_lowercase(),
    }
}

pub(crate) fn cannot_cast(source: &Field, target: &Field) -> Error {
    Error::new(
        SqlState::CannotCoerce,
        format!(
            "cannot cast type {} to {}",
            message_name(source),
            message_name(target)
        ),
    )
}

/// `integer out of range`, or for decimals `numeric field overflow` with the largest value.
pub(crate) fn out_of_range(data_type: &DataType) -> Error {
    match data_type {
        DataType::Decimal128(precision, scale) => Error::new(
            SqlState::NumericValueOutOfRange,
            "numeric field overflow",
        )
        .with_detail(format!(
            "A field with precision {precision}, scale {scale} must round to an absolute value less than 10^{}.",
            i16::from(*precision) - i16::from(*scale)
        )),
        other => Error::new(
            SqlState::NumericValueOutOfRange,
            format!("{} out of range", type_name(other)),
        ),
    }
}

fn arc<T: ArrowPrimitiveType>(array: PrimitiveArray<T>) -> ArrayRef {
    Arc::new(array)
}
