//! Functions of regular expressions that yield what was found.
//!
//! Options are letters, as in DuckDB and PostgreSQL: `i` without case, `c` with it, `s` a dot is a line's end too, `m`, `n` and `p` a
//! line's ends are ends, `l` the pattern is a plain text. `g` is for replacements and means nothing here.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, ListBuilder, StringViewArray, StringViewBuilder,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::Result;
use regex::{Regex, RegexBuilder};

use super::kernel::{Kernel, Takes};
use crate::parse::{MATCHES, SUBSTRING_MATCHING};
use crate::{Error, SqlState};

/// The functions of this module.
pub(super) fn kernels() -> Vec<Kernel> {
    use Takes::{Integer, Text};
    let list = |_: &[DataType]| Some(DataType::new_list(DataType::Utf8View, true));
    vec![
        Kernel {
            name: "regexp_extract",
            aliases: &[],
            takes: &[Text, Text, Integer, Text],
            arguments: (2, 4),
            yields: |_| Some(DataType::Utf8View),
            run: extract,
        },
        Kernel {
            name: "regexp_extract_all",
            aliases: &[],
            takes: &[Text, Text, Integer, Text],
            arguments: (2, 4),
            yields: list,
            run: extract_all,
        },
        Kernel {
            name: SUBSTRING_MATCHING,
            aliases: &[],
            takes: &[Text],
            arguments: (2, 2),
            yields: |_| Some(DataType::Utf8View),
            run: substring,
        },
        Kernel {
            name: "regexp_split_to_array",
            aliases: &["string_split_regex", "str_split_regex"],
            takes: &[Text],
            arguments: (2, 3),
            yields: list,
            run: split,
        },
        Kernel {
            name: "regexp_full_match",
            aliases: &[],
            takes: &[Text],
            arguments: (2, 3),
            yields: |_| Some(DataType::Boolean),
            run: |args| matches(args, true),
        },
        Kernel {
            name: MATCHES,
            aliases: &[],
            takes: &[Text],
            arguments: (3, 3),
            yields: |_| Some(DataType::Boolean),
            run: |args| matches(args, false),
        },
    ]
}

/// The expressions of a column of patterns; one that repeats is compiled once.
struct Expressions<'a> {
    patterns: &'a StringViewArray,
    options: Option<ArrayRef>,
    whole: bool,
    last: Option<((String, String), Regex)>,
}

impl<'a> Expressions<'a> {
    fn new(patterns: &'a ArrayRef, options: Option<&ArrayRef>) -> Result<Self> {
        let options = options.map(|options| cast(options, &DataType::Utf8View));
        Ok(Expressions {
            patterns: patterns.as_string_view(),
            options: options.transpose()?,
            whole: false,
            last: None,
        })
    }

    /// The expression of a row; `None` if it is NULL.
    fn at(&mut self, row: usize) -> Result<Option<&Regex>> {
        if self.patterns.is_null(row) {
            return Ok(None);
        }
        let options = match &self.options {
            Some(options) if options.is_null(row) => return Ok(None),
            Some(options) => options.as_string_view().value(row),
            None => "",
        };
        let pattern = self.patterns.value(row);
        let known = |((pattern_before, options_before), _): &((String, String), Regex)| {
            pattern_before == pattern && options_before == options
        };
        if !self.last.as_ref().is_some_and(known) {
            let compiled = compiled(pattern, options, self.whole)?;
            self.last = Some(((pattern.to_owned(), options.to_owned()), compiled));
        }
        Ok(self.last.as_ref().map(|(_, compiled)| compiled))
    }
}

fn compiled(pattern: &str, options: &str, whole: bool) -> crate::Result<Regex> {
    let plain = match options.contains('l') {
        true => regex::escape(pattern),
        false => pattern.to_owned(),
    };
    let text = match whole {
        true => format!("^(?:{plain})$"),
        false => plain,
    };
    let mut builder = RegexBuilder::new(&text);
    for option in options.chars() {
        match option {
            'i' => builder.case_insensitive(true),
            'c' => builder.case_insensitive(false),
            's' => builder.dot_matches_new_line(true),
            'm' | 'n' | 'p' => builder.multi_line(true),
            'l' | 'g' => &mut builder,
            other => {
                return Err(Error::new(
                    SqlState::InvalidParameterValue,
                    format!("invalid regular expression option: \"{other}\""),
                )
                .with_hint("The options are c, g, i, l, m, n, p and s."));
            }
        };
    }
    builder.build().map_err(|error| {
        let reason = match error {
            regex::Error::Syntax(text) => text.lines().last().unwrap_or_default().to_owned(),
            other => other.to_string(),
        };
        Error::new(
            SqlState::InvalidRegularExpression,
            format!(
                "invalid regular expression: {}",
                reason.trim_start_matches("error: ")
            ),
        )
    })
}

/// The group of a row, the whole match if none is given; `None` if it is NULL.
fn group(groups: Option<&ArrayRef>, row: usize, expression: &Regex) -> Result<Option<usize>> {
    let Some(groups) = groups else {
        return Ok(Some(0));
    };
    let groups = groups.as_primitive::<Int64Type>();
    if groups.is_null(row) {
        return Ok(None);
    }
    let known = expression.captures_len();
    match usize::try_from(groups.value(row)) {
        Ok(group) if group < known => Ok(Some(group)),
        _ => Err(Error::new(
            SqlState::InvalidParameterValue,
            format!(
                "the pattern has {} groups, but group {} is asked for",
                known - 1,
                groups.value(row)
            ),
        )
        .into()),
    }
}

fn extract(args: &[ArrayRef]) -> Result<ArrayRef> {
    let texts = args[0].as_string_view();
    let mut expressions = Expressions::new(&args[1], args.get(3))?;
    let mut builder = StringViewBuilder::new();
    for (row, text) in texts.iter().enumerate() {
        let found = match (text, expressions.at(row)?) {
            (Some(text), Some(expression)) => match group(args.get(2), row, expression)? {
                Some(group) => {
                    let found = expression.captures(text);
                    let part = found.and_then(|found| found.get(group));
                    Some(part.map_or("", |part| part.as_str()))
                }
                None => None,
            },
            _ => None,
        };
        builder.append_option(found);
    }
    Ok(Arc::new(builder.finish()))
}

/// What a pattern matches, its first group where it has one; NULL where it matches nothing.
fn substring(args: &[ArrayRef]) -> Result<ArrayRef> {
    let texts = args[0].as_string_view();
    let mut expressions = Expressions::new(&args[1], None)?;
    let mut builder = StringViewBuilder::new();
    for (row, text) in texts.iter().enumerate() {
        let found = match (text, expressions.at(row)?) {
            (Some(text), Some(expression)) => {
                let group = usize::from(expression.captures_len() > 1);
                let found = expression.captures(text);
                found.and_then(|found| found.get(group))
            }
            _ => None,
        };
        builder.append_option(found.map(|found| found.as_str()));
    }
    Ok(Arc::new(builder.finish()))
}

fn extract_all(args: &[ArrayRef]) -> Result<ArrayRef> {
    let texts = args[0].as_string_view();
    let mut expressions = Expressions::new(&args[1], args.get(3))?;
    let mut builder = ListBuilder::new(StringViewBuilder::new());
    for (row, text) in texts.iter().enumerate() {
        let (Some(text), Some(expression)) = (text, expressions.at(row)?) else {
            builder.append_null();
            continue;
        };
        let Some(group) = group(args.get(2), row, expression)? else {
            builder.append_null();
            continue;
        };
        for found in expression.captures_iter(text) {
            let part = found.get(group).map_or("", |part| part.as_str());
            builder.values().append_value(part);
        }
        builder.append(true);
    }
    Ok(Arc::new(builder.finish()))
}

fn split(args: &[ArrayRef]) -> Result<ArrayRef> {
    let texts = args[0].as_string_view();
    let mut expressions = Expressions::new(&args[1], args.get(2))?;
    let mut builder = ListBuilder::new(StringViewBuilder::new());
    for (row, text) in texts.iter().enumerate() {
        let (Some(text), Some(expression)) = (text, expressions.at(row)?) else {
            builder.append_null();
            continue;
        };
        match expression.as_str() {
            // Between any two characters, not before the first one and behind the last.
            "" => {
                for (at, letter) in text.char_indices() {
                    builder
                        .values()
                        .append_value(&text[at..at + letter.len_utf8()]);
                }
            }
            _ => expression
                .split(text)
                .for_each(|part| builder.values().append_value(part)),
        }
        builder.append(true);
    }
    Ok(Arc::new(builder.finish()))
}

/// Whether each text matches, as a `whole` or in a part.
fn matches(args: &[ArrayRef], whole: bool) -> Result<ArrayRef> {
    let texts = args[0].as_string_view();
    let mut expressions = Expressions::new(&args[1], args.get(2))?;
    expressions.whole = whole;
    let matched = texts.iter().enumerate().map(|(row, text)| {
        Ok(match (text, expressions.at(row)?) {
            (Some(text), Some(expression)) => Some(expression.is_match(text)),
            _ => None,
        })
    });
    Ok(Arc::new(matched.collect::<Result<BooleanArray>>()?))
}
