//! Arrow's many encodings brought to the one that operators compute with.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{
    DataType, Decimal128Type, Decimal256Type, DurationMicrosecondType, Int64Type,
    IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
    TimestampMicrosecondType,
};

use super::{Conversion, interval, out_of_range};
use crate::types::UTC;
use crate::{Error, Result, SqlState};

/// The type that values of a type are computed with.
pub(crate) fn canonical_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Float16 => DataType::Float32,
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal256(precision, scale) => {
            DataType::Decimal128((*precision).min(38), *scale)
        }
        DataType::Date64 => DataType::Date32,
        DataType::Time32(_) | DataType::Time64(_) => DataType::Time64(TimeUnit::Microsecond),
        DataType::Timestamp(_, zone) => {
            DataType::Timestamp(TimeUnit::Microsecond, zone.as_ref().map(|_| UTC.into()))
        }
        DataType::Duration(_) | DataType::Interval(_) => {
            DataType::Interval(IntervalUnit::MonthDayNano)
        }
        DataType::Dictionary(_, values) => canonical_type(values),
        DataType::RunEndEncoded(_, values) => canonical_type(values.data_type()),
        DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _) => DataType::List(Arc::clone(item)),
        other => other.clone(),
    }
}

/// The same values in the type of [`canonical_type`]. Fails where a moment or decimal is beyond what that holds.
pub(super) fn canonical(values: &ArrayRef, how: Conversion) -> Result<ArrayRef> {
    let data_type = values.data_type();
    let wanted = canonical_type(data_type);
    if *data_type == wanted {
        return Ok(Arc::clone(values));
    }
    match data_type {
        DataType::Dictionary(_, inner) => canonical(&cast(values, inner)?, how),
        DataType::RunEndEncoded(_, inner) => canonical(&cast(values, inner.data_type())?, how),
        DataType::Timestamp(unit, zone) => {
            let micros = microseconds(&cast(values, &DataType::Int64)?, *unit, how)?;
            let array = micros
                .as_primitive::<Int64Type>()
                .reinterpret_cast::<TimestampMicrosecondType>();
            Ok(Arc::new(
                array.with_timezone_opt(zone.as_ref().map(|_| UTC)),
            ))
        }
        DataType::Duration(unit) => {
            let micros = microseconds(&cast(values, &DataType::Int64)?, *unit, how)?;
            let micros = micros
                .as_primitive::<Int64Type>()
                .reinterpret_cast::<DurationMicrosecondType>();
            Ok(Arc::new(how.map::<_, IntervalMonthDayNanoType>(
                &micros,
                interval::from_microseconds,
                |_| interval::out_of_range(),
            )?))
        }
        DataType::Interval(IntervalUnit::DayTime) => {
            use arrow::datatypes::IntervalDayTimeType;
            let spans = values.as_primitive::<IntervalDayTimeType>();
            Ok(Arc::new(spans.unary::<_, IntervalMonthDayNanoType>(
                |span| {
                    IntervalMonthDayNano::new(
                        0,
                        span.days,
                        i64::from(span.milliseconds) * 1_000_000,
                    )
                },
            )))
        }
        DataType::Decimal256(_, _) => {
            let wide = values.as_primitive::<Decimal256Type>();
            Ok(Arc::new(
                how.map::<_, Decimal128Type>(
                    wide,
                    |value| {
                        value
                            .to_i128()
                            .filter(|v| v.unsigned_abs() < 10u128.pow(38))
                    },
                    |_| out_of_range(&wanted),
                )?
                .with_data_type(wanted.clone()),
            ))
        }
        _ => {
            let options = CastOptions {
                safe: false,
                ..CastOptions::default()
            };
            Ok(cast_with_options(values, &wanted, &options)?)
        }
    }
}

fn microseconds(values: &ArrayRef, unit: TimeUnit, how: Conversion) -> Result<ArrayRef> {
    let values = values.as_primitive::<Int64Type>();
    let scaled = match unit {
        TimeUnit::Microsecond => values.clone(),
        TimeUnit::Nanosecond => values.unary::<_, Int64Type>(|value| value.div_euclid(1_000)),
        TimeUnit::Second | TimeUnit::Millisecond => {
            let factor = if unit == TimeUnit::Second {
                1_000_000
            } else {
                1_000
            };
            how.map::<_, Int64Type>(
                values,
                |value| value.checked_mul(factor),
                |_| Error::new(SqlState::DatetimeFieldOverflow, "timestamp out of range"),
            )?
        }
    };
    Ok(Arc::new(scaled))
}
