//! `printf` in C's language and `format` in Python's, as DuckDB has them.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewBuilder};
use arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, ScalarValue};

use super::kernel::{Kernel, Takes};
use crate::expr::cast::convert_scalar;
use crate::expr::convert::{Conversion, Rule};
use crate::{Error, SqlState};

/// The functions of this module.
pub(super) fn kernels() -> Vec<Kernel> {
    let text = |_: &[DataType]| Some(DataType::Utf8View);
    vec![
        Kernel {
            name: "printf",
            aliases: &[],
            takes: &[Takes::Text, Takes::Any],
            arguments: (1, usize::MAX),
            yields: text,
            run: |args| each_row(args, printf),
        },
        Kernel {
            name: "format",
            aliases: &[],
            takes: &[Takes::Text, Takes::Any],
            arguments: (1, usize::MAX),
            yields: text,
            run: |args| each_row(args, format_braces),
        },
    ]
}

/// NULL where any argument is NULL.
fn each_row(
    args: &[ArrayRef],
    write: fn(&str, &[ScalarValue]) -> crate::Result<String>,
) -> Result<ArrayRef> {
    let formats = args[0].as_string_view();
    let mut builder = StringViewBuilder::new();
    for row in 0..formats.len() {
        if args
            .iter()
            .any(|array| array.is_null(row) || *array.data_type() == DataType::Null)
        {
            builder.append_null();
            continue;
        }
        let values = args[1..]
            .iter()
            .map(|array| ScalarValue::try_from_array(array, row))
            .collect::<Result<Vec<_>>>()?;
        builder.append_value(write(formats.value(row), &values)?);
    }
    Ok(Arc::new(builder.finish()))
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(SqlState::InvalidParameterValue, message)
}

/// How one value is written.
#[derive(Debug, Default)]
struct Spec {
    fill: Option<char>,
    align: Option<char>,
    plus: bool,
    blank: bool,
    alternate: bool,
    zero: bool,
    group: Option<char>,
    width: usize,
    precision: Option<usize>,
    kind: Option<char>,
}

/// Widths and precisions beyond this are refused, lest one value fill the memory.
const MAX_WIDTH: usize = 100_000;

fn digits(
    characters: &mut std::iter::Peekable<std::str::Chars<'_>>,
) -> crate::Result<Option<usize>> {
    let mut number = None;
    while let Some(digit) = characters.peek().and_then(|c| c.to_digit(10)) {
        characters.next();
        let next = number.unwrap_or(0_usize) * 10 + digit as usize;
        if next > MAX_WIDTH {
            return Err(invalid("a width or precision is too large"));
        }
        number = Some(next);
    }
    Ok(number)
}

fn printf(format: &str, values: &[ScalarValue]) -> crate::Result<String> {
    let mut written = String::with_capacity(format.len());
    let mut values = values.iter();
    let mut characters = format.chars().peekable();
    while let Some(character) = characters.next() {
        if character != '%' {
            written.push(character);
            continue;
        }
        if characters.next_if_eq(&'%').is_some() {
            written.push('%');
            continue;
        }
        let mut spec = Spec::default();
        while let Some(flag) = characters.next_if(|c| "-+ #0',".contains(*c)) {
            match flag {
                '-' => spec.align = Some('<'),
                '+' => spec.plus = true,
                ' ' => spec.blank = true,
                '#' => spec.alternate = true,
                '0' => spec.zero = true,
                group => spec.group = Some(if group == '\'' { ',' } else { group }),
            }
        }
        spec.width = digits(&mut characters)?.unwrap_or(0);
        if characters.next_if_eq(&'.').is_some() {
            spec.precision = Some(digits(&mut characters)?.unwrap_or(0));
        }
        while characters.next_if(|c| "hlLqjzt".contains(*c)).is_some() {}
        let kind = characters
            .next()
            .ok_or_else(|| invalid("the format ends after %"))?;
        spec.kind = Some(match kind {
            'i' | 'u' => 'd',
            'F' => 'f',
            other => other,
        });
        let value = values
            .next()
            .ok_or_else(|| invalid("the format asks for more values than are given"))?;
        if spec.align.is_none() {
            spec.align = Some('>');
        }
        written.push_str(&one(&spec, value)?);
    }
    Ok(written)
}

fn format_braces(format: &str, values: &[ScalarValue]) -> crate::Result<String> {
    let mut written = String::with_capacity(format.len());
    let mut next = 0_usize;
    let mut characters = format.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '{' if characters.next_if_eq(&'{').is_some() => written.push('{'),
            '}' if characters.next_if_eq(&'}').is_some() => written.push('}'),
            '}' => return Err(invalid("a } in the format has no {")),
            '{' => {
                let place = match digits(&mut characters)? {
                    Some(place) => place,
                    None => {
                        next += 1;
                        next - 1
                    }
                };
                let spec = match characters.next() {
                    Some('}') => Spec::default(),
                    Some(':') => braces_spec(&mut characters)?,
                    _ => return Err(invalid("a { in the format has no }")),
                };
                let value = values
                    .get(place)
                    .ok_or_else(|| invalid("the format asks for more values than are given"))?;
                written.push_str(&one(&spec, value)?);
            }
            other => written.push(other),
        }
    }
    Ok(written)
}

fn braces_spec(characters: &mut std::iter::Peekable<std::str::Chars<'_>>) -> crate::Result<Spec> {
    let mut spec = Spec::default();
    let is_align = |c: &char| "<>^=".contains(*c);
    let mut ahead = characters.clone();
    let (first, second) = (ahead.next(), ahead.next());
    if let (Some(fill), Some(align)) = (first, second)
        && is_align(&align)
    {
        (spec.fill, spec.align) = (Some(fill), Some(align));
        characters.next();
        characters.next();
    } else if let Some(align) = characters.next_if(is_align) {
        spec.align = Some(align);
    }
    while let Some(flag) = characters.next_if(|c| "+- #0".contains(*c)) {
        match flag {
            '+' => spec.plus = true,
            ' ' => spec.blank = true,
            '#' => spec.alternate = true,
            '0' => spec.zero = true,
            _ => {}
        }
    }
    spec.width = digits(characters)?.unwrap_or(0);
    spec.group = characters.next_if(|c| *c == ',' || *c == '_' || *c == '\'');
    if characters.next_if_eq(&'.').is_some() {
        spec.precision = Some(digits(characters)?.unwrap_or(0));
    }
    // DuckDB's `t,`: a letter for thousands, which may be any.
    if characters.next_if_eq(&'t').is_some() {
        spec.group = characters.next();
    }
    match characters.next() {
        Some('}') => return Ok(spec),
        Some(kind) => spec.kind = Some(kind),
        None => {}
    }
    match characters.next() {
        Some('}') => Ok(spec),
        _ => Err(invalid("a { in the format has no }")),
    }
}

/// One value as its specification asks.
fn one(spec: &Spec, value: &ScalarValue) -> crate::Result<String> {
    let kind = spec.kind.unwrap_or(match value.data_type() {
        number if number.is_integer() => 'd',
        number if number.is_floating() && spec.precision.is_some() => 'f',
        number if number.is_decimal() && spec.precision.is_some() => 'f',
        _ => 's',
    });
    let body = match kind {
        'd' => grouped(integer(value)?.to_string(), spec.group),
        'x' => based(value, spec, "0x", |n| format!("{n:x}"))?,
        'X' => based(value, spec, "0X", |n| format!("{n:X}"))?,
        'o' => based(value, spec, "0", |n| format!("{n:o}"))?,
        'b' => based(value, spec, "0b", |n| format!("{n:b}"))?,
        'c' => match value.data_type().is_integer() {
            true => u32::try_from(integer(value)?)
                .ok()
                .and_then(char::from_u32)
                .ok_or_else(|| invalid("the number is no character"))?
                .to_string(),
            false => text(value)?,
        },
        'f' => grouped(
            format!("{:.*}", spec.precision.unwrap_or(6), double(value)?),
            spec.group,
        ),
        'e' | 'E' => exponential(double(value)?, spec.precision.unwrap_or(6), kind),
        'g' | 'G' => general(double(value)?, spec.precision.unwrap_or(6), kind),
        's' => {
            let text = text(value)?;
            match spec.precision {
                Some(most) => text.chars().take(most).collect(),
                None => text,
            }
        }
        other => return Err(invalid(format!("the format has no conversion \"{other}\""))),
    };
    let numeric = !matches!(kind, 's' | 'c');
    let body = match numeric && !body.starts_with('-') {
        true if spec.plus => format!("+{body}"),
        true if spec.blank => format!(" {body}"),
        _ => body,
    };
    Ok(padded(spec, body, numeric))
}

fn padded(spec: &Spec, body: String, numeric: bool) -> String {
    let missing = spec.width.saturating_sub(body.chars().count());
    if missing == 0 {
        return body;
    }
    if spec.zero && numeric && spec.align != Some('<') {
        let sign = body.starts_with(['+', '-', ' ']);
        let (sign, rest) = body.split_at(usize::from(sign));
        return format!("{sign}{}{rest}", "0".repeat(missing));
    }
    let fill = spec.fill.unwrap_or(' ').to_string();
    let align = spec.align.unwrap_or(if numeric { '>' } else { '<' });
    match align {
        '<' => body + &fill.repeat(missing),
        '^' => {
            let before = missing / 2;
            format!(
                "{}{body}{}",
                fill.repeat(before),
                fill.repeat(missing - before)
            )
        }
        _ => fill.repeat(missing) + &body,
    }
}

fn grouped(number: String, group: Option<char>) -> String {
    let Some(group) = group else {
        return number;
    };
    let (sign, number) = match number.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", number.as_str()),
    };
    let (whole, fraction) = match number.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (number, None),
    };
    let mut written = String::from(sign);
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place) % 3 == 0 {
            written.push(group);
        }
        written.push(digit);
    }
    if let Some(fraction) = fraction {
        written.push('.');
        written.push_str(fraction);
    }
    written
}

fn based(
    value: &ScalarValue,
    spec: &Spec,
    prefix: &str,
    digits: fn(i128) -> String,
) -> crate::Result<String> {
    let number = integer(value)?;
    let sign = if number < 0 { "-" } else { "" };
    let prefix = if spec.alternate { prefix } else { "" };
    Ok(format!("{sign}{prefix}{}", digits(number.abs())))
}

/// C's exponent has a sign and two digits at least.
fn exponential(value: f64, precision: usize, kind: char) -> String {
    if !value.is_finite() {
        return value.to_string().to_lowercase();
    }
    let text = format!("{value:.precision$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(rest) => ('-', rest),
        None => ('+', exponent),
    };
    format!("{mantissa}{kind}{sign}{exponent:0>2}")
}

fn general(value: f64, precision: usize, kind: char) -> String {
    if !value.is_finite() {
        return value.to_string().to_lowercase();
    }
    let precision = precision.max(1);
    let scientific = format!("{value:.*e}", precision - 1);
    let exponent = scientific
        .split_once('e')
        .and_then(|(_, exponent)| exponent.parse::<i64>().ok())
        .unwrap_or(0);
    let trim = |number: &str| match number.contains('.') {
        true => number
            .trim_end_matches('0')
            .trim_end_matches('.')
            .to_owned(),
        false => number.to_owned(),
    };
    if exponent < -4 || exponent >= precision as i64 {
        let kind = if kind == 'G' { 'E' } else { 'e' };
        let text = exponential(value, precision - 1, kind);
        return match text.split_once(kind) {
            Some((mantissa, exponent)) => format!("{}{kind}{exponent}", trim(mantissa)),
            None => text,
        };
    }
    let decimals = usize::try_from(precision as i64 - 1 - exponent).unwrap_or(0);
    trim(&format!("{value:.decimals$}"))
}

fn converted(value: &ScalarValue, to: DataType) -> crate::Result<ScalarValue> {
    let source = Field::new("", value.data_type(), true);
    let target = Field::new("", to, true);
    convert_scalar(value, &source, &target, Conversion::new(Rule::Explicit))
}

fn integer(value: &ScalarValue) -> crate::Result<i128> {
    match converted(value, DataType::Decimal128(38, 0))? {
        ScalarValue::Decimal128(Some(number), _, _) => Ok(number),
        _ => Err(invalid("the value is no integer")),
    }
}

fn double(value: &ScalarValue) -> crate::Result<f64> {
    match converted(value, DataType::Float64)? {
        ScalarValue::Float64(Some(number)) => Ok(number),
        _ => Err(invalid("the value is no number")),
    }
}

fn text(value: &ScalarValue) -> crate::Result<String> {
    let text = converted(value, DataType::Utf8View)?;
    match text.try_as_str() {
        Some(Some(text)) => Ok(text.to_owned()),
        _ => Err(invalid("the value has no text")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printf_writes_as_c_does() {
        let values = [
            ScalarValue::from(42_i64),
            ScalarValue::from(1.5_f64),
            ScalarValue::from("x"),
        ];
        let written = printf("%05d|%-6.2f|%3s|%%", &values).unwrap();
        assert_eq!(written, "00042|1.50  |  x|%");
        assert_eq!(
            printf("%e %g", &[1.5_f64.into(), 0.1_f64.into()]).unwrap(),
            "1.500000e+00 0.1"
        );
    }

    #[test]
    fn format_writes_as_python_does() {
        let values = [ScalarValue::from(1_234_567_i64), ScalarValue::from("a")];
        assert_eq!(
            format_braces("{:,} {1:>3} {0} {{}}", &values).unwrap(),
            "1,234,567   a 1234567 {}"
        );
        assert!(format_braces("{} {} {}", &values).is_err());
    }
}
