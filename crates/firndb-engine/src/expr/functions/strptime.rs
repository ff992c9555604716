//! `strptime` and `try_strptime`: text read by a format, or by the first of several that fits, of any year that a timestamp has.
//!
//! What a format lacks is taken from midnight of the first of January 1900, as in DuckDB. An offset (`%z`) moves the result to UTC.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewArray, TimestampMicrosecondArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, TimeUnit};
use chrono::format::{Parsed, StrftimeItems, parse};
use datafusion::common::Result;

use super::kernel::{Kernel, Takes};
use super::moments::chrono_pattern;
use crate::{Error, SqlState};

/// The functions of this module.
pub(super) fn kernels() -> Vec<Kernel> {
    let yields = |types: &[DataType]| {
        let text = |data_type: &DataType| data_type.is_string() || *data_type == DataType::Null;
        let formats = match &types[1] {
            DataType::List(item) => text(item.data_type()),
            other => text(other),
        };
        (text(&types[0]) && formats).then_some(DataType::Timestamp(TimeUnit::Microsecond, None))
    };
    let kernel = |name, run| Kernel {
        name,
        aliases: &[],
        takes: &[Takes::Any],
        arguments: (2, 2),
        yields,
        run,
    };
    vec![
        kernel("strptime", |args| run(args, true)),
        kernel("try_strptime", |args| run(args, false)),
    ]
}

fn run(args: &[ArrayRef], strict: bool) -> Result<ArrayRef> {
    let texts = cast(&args[0], &DataType::Utf8View)?;
    let texts = texts.as_string_view();
    let several = args[1].data_type().is_list();
    let formats = match several {
        true => Arc::clone(&args[1]),
        false => cast(&args[1], &DataType::Utf8View)?,
    };
    let mut last: Option<(Vec<String>, Vec<String>)> = None;
    let mut stamps = Vec::with_capacity(texts.len());
    for row in 0..texts.len() {
        if texts.is_null(row) || formats.is_null(row) {
            stamps.push(None);
            continue;
        }
        let given: Vec<String> = match several {
            true => {
                let list = cast(&formats.as_list::<i32>().value(row), &DataType::Utf8View)?;
                strings(list.as_string_view())
            }
            false => vec![formats.as_string_view().value(row).to_owned()],
        };
        if last.as_ref().is_none_or(|(known, _)| *known != given) {
            let patterns = given.iter().map(|format| chrono_pattern(format)).collect();
            last = Some((given, patterns));
        }
        let (given, patterns) = last.as_ref().ok_or_else(|| Error::internal("no format"))?;
        let text = texts.value(row);
        let found = patterns.iter().find_map(|pattern| moment(text, pattern));
        if found.is_none() && strict {
            return Err(Error::new(
                SqlState::InvalidDatetimeFormat,
                format!(
                    "could not parse \"{text}\" by the format \"{}\"",
                    given.join("\", \"")
                ),
            )
            .with_hint("try_strptime yields NULL instead.")
            .into());
        }
        stamps.push(found);
    }
    Ok(Arc::new(TimestampMicrosecondArray::from(stamps)))
}

fn strings(texts: &StringViewArray) -> Vec<String> {
    texts.iter().flatten().map(str::to_owned).collect()
}

/// The moment that a text names, if the format fits all of it.
pub(super) fn moment(text: &str, pattern: &str) -> Option<i64> {
    let mut parsed = Parsed::new();
    parse(&mut parsed, text.trim(), StrftimeItems::new(pattern.trim())).ok()?;
    if let Some(seconds) = parsed.timestamp() {
        return seconds.checked_mul(1_000_000);
    }
    let by_week = parsed.isoweek().is_some()
        || parsed.week_from_sun().is_some()
        || parsed.week_from_mon().is_some();
    if parsed.year().is_none() && parsed.year_mod_100().is_none() && parsed.isoyear().is_none() {
        parsed.set_year(1900).ok()?;
    }
    if parsed.ordinal().is_none() && !by_week {
        if parsed.month().is_none() {
            parsed.set_month(1).ok()?;
        }
        if parsed.day().is_none() {
            parsed.set_day(1).ok()?;
        }
    }
    if parsed.hour_mod_12().is_none() {
        parsed.set_hour(0).ok()?;
    } else if parsed.hour_div_12().is_none() {
        parsed.set_ampm(false).ok()?;
    }
    if parsed.minute().is_none() {
        parsed.set_minute(0).ok()?;
    }
    let date = parsed.to_naive_date().ok()?;
    let time = parsed.to_naive_time().ok()?;
    let offset = i64::from(parsed.offset().unwrap_or(0));
    let micros = date.and_time(time).and_utc().timestamp_micros();
    micros.checked_sub(offset.checked_mul(1_000_000)?)
}

#[cfg(test)]
mod tests {
    use super::moment;

    #[test]
    fn what_a_format_lacks_is_the_beginning_of_1900() {
        const DAY: i64 = 86_400_000_000;
        assert_eq!(moment("1970-01-02", "%Y-%m-%d"), Some(DAY));
        assert_eq!(moment("12", "%H"), Some(-25_567 * DAY + DAY / 2));
        assert_eq!(moment("1970", "%Y"), Some(0));
        assert_eq!(
            moment("1970-01-01 +01:00", "%Y-%m-%d %z"),
            Some(-3_600_000_000)
        );
        assert_eq!(moment("1970-13-01", "%Y-%m-%d"), None);
    }
}
