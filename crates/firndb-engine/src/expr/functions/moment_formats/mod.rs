//! Moments written and read by formats: `strftime` and `strptime` by directives, `to_date` and `to_timestamp` by templates, too.
//!
//! ```text
//! strptime(text, format)     Format::read   ─▶  Fields  ─▶  microseconds     what a format lacks is midnight of 1900-01-01
//! to_date(text, template)    Template::read ─▶  Fields  ─▶  microseconds     … of the first of January 1 BC
//! strftime(moment, format)   Format::write
//! ```
//!
//! A text that names its zone gives an instant, in UTC; others give what a clock shows.

mod directives;
pub(in crate::expr) mod fields;
mod templates;

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, StringViewArray, StringViewBuilder, TimestampMicrosecondArray,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, TimeUnit, TimestampMicrosecondType};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::kernel::{Kernel, Takes};
use crate::expr::cast::session_zone;
use crate::expr::convert::{offset_at, timestamp_out_of_range};
use crate::parse::{PLAIN_MOMENT_BY, ZONED_MOMENT_BY};
use crate::{Error, SqlState};
use directives::{Format, Shown};
use fields::Fields;
use templates::Template;

pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
pub(super) const DAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];

/// The year of a moment whose format reads none.
const YEAR_OF_FORMATS: i64 = 1900;
const YEAR_OF_TEMPLATES: i64 = 0;

/// The functions of this module.
pub(super) fn kernels() -> Vec<Kernel> {
    let yields = |types: &[DataType]| {
        let text = |data_type: &DataType| data_type.is_string() || *data_type == DataType::Null;
        let formats = match &types[1] {
            DataType::List(item) => text(item.data_type()),
            other => text(other),
        };
        (text(&types[0]) && formats).then(stamp)
    };
    let kernel = |name, takes, yields, run| Kernel {
        name,
        aliases: &[],
        takes,
        arguments: (2, 2),
        yields,
        run,
    };
    vec![
        kernel("strptime", &[Takes::Any], yields, |args| {
            by_formats(args, true)
        }),
        kernel("try_strptime", &[Takes::Any], yields, |args| {
            by_formats(args, false)
        }),
        kernel(
            PLAIN_MOMENT_BY,
            &[Takes::Text],
            |_| Some(stamp()),
            |args| by_templates(args, false),
        ),
        kernel(
            ZONED_MOMENT_BY,
            &[Takes::Text],
            |_| Some(stamp()),
            |args| by_templates(args, true),
        ),
    ]
}

fn stamp() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, None)
}

/// Texts by a format or a list of formats of each row.
fn by_formats(args: &[ArrayRef], strict: bool) -> Result<ArrayRef> {
    let texts = cast(&args[0], &DataType::Utf8View)?;
    let texts = texts.as_string_view();
    let several = args[1].data_type().is_list();
    let given = match several {
        true => Arc::clone(&args[1]),
        false => cast(&args[1], &DataType::Utf8View)?,
    };
    let mut last: Option<(Vec<String>, Vec<Format>)> = None;
    let mut stamps = Vec::with_capacity(texts.len());
    for row in 0..texts.len() {
        if texts.is_null(row) || given.is_null(row) {
            stamps.push(None);
            continue;
        }
        let named: Vec<String> = match several {
            true => {
                let list = cast(&given.as_list::<i32>().value(row), &DataType::Utf8View)?;
                strings(list.as_string_view())
            }
            false => vec![given.as_string_view().value(row).to_owned()],
        };
        if last.as_ref().is_none_or(|(known, _)| *known != named) {
            let formats: crate::Result<_> =
                named.iter().map(|format| Format::new(format)).collect();
            last = Some((named, formats?));
        }
        let (named, formats) = last.as_ref().ok_or_else(|| Error::internal("no format"))?;
        stamps.push(match first_fit(texts.value(row), formats, named) {
            Ok(moment) => Some(moment),
            Err(_) if !strict => None,
            Err(error) => return Err(error.into()),
        });
    }
    Ok(Arc::new(TimestampMicrosecondArray::from(stamps)))
}

/// The moment of a text by the first of several formats that fits it.
fn first_fit(text: &str, formats: &[Format], named: &[String]) -> crate::Result<i64> {
    let mut reason = "no format is given".to_owned();
    for format in formats {
        match format.read(text) {
            Ok(fields) => match fields.moment(YEAR_OF_FORMATS) {
                Ok(moment) => return Ok(moment),
                Err(error) if formats.len() == 1 => {
                    return Err(error.with_hint("try_strptime yields NULL instead."));
                }
                Err(error) => reason = error.to_string(),
            },
            Err(unfit) => reason = format!("{} (at character {})", unfit.reason, unfit.at + 1),
        }
    }
    Err(Error::new(
        SqlState::InvalidDatetimeFormat,
        format!(
            "could not parse \"{text}\" by the format \"{}\": {reason}",
            named.join("\", \"")
        ),
    )
    .with_hint("try_strptime yields NULL instead."))
}

fn strings(texts: &StringViewArray) -> Vec<String> {
    texts.iter().flatten().map(str::to_owned).collect()
}

/// A template of PostgreSQL, or a format of directives, which has a percent sign.
enum Reading {
    Directives(Format, String),
    Template(Template),
}

impl Reading {
    fn new(text: &str) -> crate::Result<Self> {
        Ok(match text.contains('%') {
            true => Reading::Directives(Format::new(text)?, text.to_owned()),
            false => Reading::Template(Template::new(text)?),
        })
    }

    fn reads_zone(&self) -> bool {
        match self {
            Reading::Directives(format, _) => format.reads_zone(),
            Reading::Template(template) => template.reads_zone(),
        }
    }

    fn moment(&self, text: &str) -> crate::Result<(i64, bool)> {
        match self {
            Reading::Directives(format, named) => {
                let one = std::slice::from_ref(format);
                let moment = first_fit(text, one, std::slice::from_ref(named))?;
                Ok((moment, format.reads_zone()))
            }
            Reading::Template(template) => {
                let fields: Fields = template.read(text)?;
                Ok((fields.moment(YEAR_OF_TEMPLATES)?, fields.is_zoned()))
            }
        }
    }
}

/// Texts by templates: those that name a zone, or those that name none; NULL for the others.
fn by_templates(args: &[ArrayRef], zoned: bool) -> Result<ArrayRef> {
    let (texts, given) = (args[0].as_string_view(), args[1].as_string_view());
    let mut last: Option<(&str, Reading)> = None;
    let mut stamps = Vec::with_capacity(texts.len());
    for pair in texts.iter().zip(given) {
        let (Some(text), Some(template)) = pair else {
            stamps.push(None);
            continue;
        };
        if last.as_ref().is_none_or(|(known, _)| *known != template) {
            last = Some((template, Reading::new(template)?));
        }
        let (_, reading) = last
            .as_ref()
            .ok_or_else(|| Error::internal("no template"))?;
        if zoned && !reading.reads_zone() {
            stamps.push(None);
            continue;
        }
        let (moment, is_zoned) = reading.moment(text)?;
        stamps.push((is_zoned == zoned).then_some(moment));
    }
    Ok(Arc::new(TimestampMicrosecondArray::from(stamps)))
}

/// Reads moments, as microseconds, that are written by a format of `strptime`; `None` for text that the format does not fit.
pub(crate) fn moments_by(format: &str) -> crate::Result<impl Fn(&str) -> Option<i64>> {
    let format = Format::new(format)?;
    Ok(move |text: &str| {
        let fields = format.read(text).ok()?;
        fields.moment(YEAR_OF_FORMATS).ok()
    })
}

/// Texts in one of several formats of `strptime` each.
pub(super) fn in_formats(args: &[ArrayRef]) -> Result<ArrayRef> {
    let texts = cast(&args[0], &DataType::Utf8View)?;
    let columns: Vec<ArrayRef> = args[1..]
        .iter()
        .map(|formats| cast(formats, &DataType::Utf8View))
        .collect::<std::result::Result<_, _>>()?;
    let mut last: Option<(Vec<String>, Vec<Format>)> = None;
    let mut stamps = Vec::with_capacity(texts.len());
    for (row, text) in texts.as_string_view().iter().enumerate() {
        let named: Vec<String> = columns
            .iter()
            .filter(|column| column.is_valid(row))
            .map(|column| column.as_string_view().value(row).to_owned())
            .collect();
        let Some(text) = text.filter(|_| !named.is_empty()) else {
            stamps.push(None);
            continue;
        };
        if last.as_ref().is_none_or(|(known, _)| *known != named) {
            let formats: crate::Result<_> =
                named.iter().map(|format| Format::new(format)).collect();
            last = Some((named, formats?));
        }
        let (named, formats) = last.as_ref().ok_or_else(|| Error::internal("no format"))?;
        stamps.push(Some(first_fit(text, formats, named)?));
    }
    Ok(Arc::new(TimestampMicrosecondArray::from(stamps)))
}

/// Dates or timestamps, on the clock of UTC, as text in a format of `strftime`.
pub(crate) fn moments_as(moments: &ArrayRef, format: &str) -> crate::Result<StringViewArray> {
    let stamps = cast(moments, &stamp())?;
    let format = Format::new(format)?;
    let mut texts = StringViewBuilder::new();
    let mut text = String::new();
    for moment in stamps.as_primitive::<TimestampMicrosecondType>() {
        let Some(micros) = moment else {
            texts.append_null();
            continue;
        };
        text.clear();
        let (offset, zone) = (0, "");
        format.write(
            &mut text,
            Shown {
                micros,
                offset,
                zone,
            },
        );
        texts.append_value(&text);
    }
    Ok(texts.finish())
}

/// `strftime` by a format of each row: instants on the session's clock.
pub(super) fn formatted(moment: Expr, format: Expr) -> Expr {
    let signature = Signature::any(2, Volatility::Stable);
    Arc::new(ScalarUDF::new_from_impl(Formatted { signature })).call(vec![moment, format])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Formatted {
    signature: Signature,
}

impl ScalarUDFImpl for Formatted {
    fn name(&self) -> &str {
        "format_moment"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let moment = matches!(
            types[0],
            DataType::Timestamp(_, _) | DataType::Date32 | DataType::Null
        );
        let format = types[1].is_string() || types[1].is_null();
        match moment && format {
            true => Ok(DataType::Utf8View),
            false => Err(super::kernel::undefined("strftime", types).into()),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let execution = &args.config_options.execution;
        let (zone, name) = match args.args[0].data_type() {
            DataType::Timestamp(_, Some(_)) => (
                session_zone(&args.config_options)?,
                execution.time_zone.as_deref().unwrap_or("UTC"),
            ),
            _ => (None, ""),
        };
        let is_constant = |argument: &ColumnarValue| matches!(argument, ColumnarValue::Scalar(_));
        let constant = args.args.iter().all(is_constant);
        let rows = if constant { 1 } else { args.number_rows };
        let moments = cast(&args.args[0].to_array(rows)?, &stamp())?;
        let formats = cast(&args.args[1].to_array(rows)?, &DataType::Utf8View)?;
        let mut last: Option<(&str, Format)> = None;
        let mut texts = StringViewBuilder::new();
        let mut text = String::new();
        let moments = moments.as_primitive::<TimestampMicrosecondType>();
        for pair in moments.iter().zip(formats.as_string_view()) {
            let (Some(micros), Some(format)) = pair else {
                texts.append_null();
                continue;
            };
            if last.as_ref().is_none_or(|(known, _)| *known != format) {
                last = Some((format, Format::new(format)?));
            }
            let offset = match zone {
                Some(zone) => {
                    i64::from(offset_at(micros, zone).ok_or_else(timestamp_out_of_range)?)
                }
                None => 0,
            };
            let micros = micros
                .checked_add(offset * 1_000_000)
                .ok_or_else(timestamp_out_of_range)?;
            text.clear();
            if let Some((_, format)) = &last {
                let zone = name;
                format.write(
                    &mut text,
                    Shown {
                        micros,
                        offset,
                        zone,
                    },
                );
            }
            texts.append_value(&text);
        }
        let texts: ArrayRef = Arc::new(texts.finish());
        Ok(match constant {
            true => {
                ColumnarValue::Scalar(datafusion::common::ScalarValue::try_from_array(&texts, 0)?)
            }
            false => ColumnarValue::Array(texts),
        })
    }
}
