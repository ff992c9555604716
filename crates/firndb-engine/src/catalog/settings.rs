//! How a table's rows are stored: what `WITH (…)` and `SET (…)` say.
//!
//! | setting | values |
//! | --- | --- |
//! | `strings` | `'auto'`, `'offset'`, `'view'`, `'dictionary'`: the format of strings and blobs in frozen memory; `{'column': format, …}` for single columns |
//! | `freeze` | `on`, `off`: whether blocks freeze by themselves |
//! | `freeze_after` | milliseconds, or text as `'50ms'`, `'2s'`; `'default'`: after how long without a write (it adapts upward) |
//!
//! They belong to the catalog's entry of the table, so they are transactional, and stay when storage is made anew (TRUNCATE, changes of type). Storage follows
//! when the transaction commits; what the transaction itself loads follows at once.

use std::time::Duration;

use datafusion::sql::sqlparser::ast::{Expr, SqlOption, Value};
use firndb_storage::{Strings, Table};

use super::entry::TableEntry;
use super::state::fold;
use crate::error::{Error, Result, SqlState};

/// The settings of a table; those of a column are in [`Column`](super::Column).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableSettings {
    /// The format of strings, where a column has none of its own.
    pub strings: Strings,
    /// Whether blocks freeze only when they are told to.
    pub frozen_on_demand: bool,
    /// After how long without a write blocks freeze, if that was set.
    pub freeze_after: Option<Duration>,
}

impl TableSettings {
    /// After how long without a write blocks freeze; `None` for never.
    fn threshold(&self) -> Option<Duration> {
        (!self.frozen_on_demand).then_some(self.freeze_after.unwrap_or(Table::FREEZE_AFTER))
    }
}

impl TableEntry {
    /// Changes settings.
    pub fn set(&mut self, options: &[SqlOption]) -> Result<()> {
        for option in options {
            let SqlOption::KeyValue { key, value } = option else {
                return Err(unknown(&option.to_string()));
            };
            match fold(&key.value).as_str() {
                "strings" => self.set_strings(value)?,
                "freeze" => self.settings.frozen_on_demand = !switch(value)?,
                "freeze_after" => self.settings.freeze_after = duration(value)?,
                other => return Err(unknown(other)),
            }
        }
        Ok(())
    }

    fn set_strings(&mut self, value: &Expr) -> Result<()> {
        let Expr::Dictionary(columns) = value else {
            self.settings.strings = format(value)?;
            for column in &mut self.columns {
                column.strings = None;
            }
            return Ok(());
        };
        for one in columns {
            let name = &one.key.value;
            let position = self.column(name).ok_or_else(|| {
                Error::new(
                    SqlState::UndefinedColumn,
                    format!(
                        "column \"{name}\" of relation \"{}\" does not exist",
                        self.name
                    ),
                )
            })?;
            let strings = format(&one.value)?;
            if !self.has_strings(position) {
                return Err(Error::new(
                    SqlState::InvalidParameterValue,
                    format!("column \"{name}\" holds no strings or blobs"),
                ));
            }
            self.columns[position].strings = Some(strings);
        }
        Ok(())
    }

    /// Whether the values of a column are of variable length.
    fn has_strings(&self, position: usize) -> bool {
        use arrow::datatypes::DataType;
        matches!(
            self.columns[position].field.data_type(),
            DataType::Utf8 | DataType::Binary
        )
    }

    /// The format of a column's strings in frozen memory; `None` for a column of something else.
    pub fn strings(&self, position: usize) -> Option<Strings> {
        let own = self.columns[position].strings;
        self.has_strings(position)
            .then(|| own.unwrap_or(self.settings.strings))
    }

    /// Makes the table's handle load and show strings as the settings say.
    pub fn follow_settings(&mut self) {
        let formats: Vec<Strings> = (0..self.columns.len())
            .map(|position| self.strings(position).unwrap_or_default())
            .collect();
        self.table = self.table.with_strings(&formats);
    }

    /// Makes storage follow the settings: the entry is the newest that everybody sees.
    pub(in crate::catalog) fn adopt_settings(&self) {
        self.table.adopt_strings();
        // Setting it forgets what it has adapted to.
        let threshold = self.settings.threshold();
        if self.table.freeze_setting() != threshold {
            self.table.set_freeze_after(threshold);
        }
    }

    /// The settings as `WITH` takes them; empty when there are none.
    pub fn settings_text(&self) -> String {
        let TableSettings {
            strings,
            frozen_on_demand,
            freeze_after,
        } = &self.settings;
        let mut parts = Vec::new();
        if *strings != Strings::Auto {
            parts.push(format!("strings = '{}'", name(*strings)));
        }
        let columns: Vec<String> = self
            .columns
            .iter()
            .filter_map(|column| {
                let quoted = column.field.name().replace('\'', "''");
                Some(format!("'{quoted}': '{}'", name(column.strings?)))
            })
            .collect();
        if !columns.is_empty() {
            parts.push(format!("strings = {{{}}}", columns.join(", ")));
        }
        if *frozen_on_demand {
            parts.push("freeze = off".to_owned());
        }
        if let Some(after) = freeze_after {
            parts.push(format!("freeze_after = '{}us'", after.as_micros()));
        }
        match parts.is_empty() {
            true => String::new(),
            false => format!(" WITH ({})", parts.join(", ")),
        }
    }
}

/// A format's name.
pub fn name(strings: Strings) -> &'static str {
    match strings {
        Strings::Auto => "auto",
        Strings::Offsets => "offset",
        Strings::View => "view",
        Strings::Dictionary => "dictionary",
    }
}

/// The format of a name.
pub(super) fn named(name: &str) -> Option<Strings> {
    Some(match name {
        "auto" | "default" => Strings::Auto,
        "offset" | "offsets" => Strings::Offsets,
        "view" | "views" => Strings::View,
        "dictionary" => Strings::Dictionary,
        _ => return None,
    })
}

fn format(value: &Expr) -> Result<Strings> {
    named(&word(value).unwrap_or_default()).ok_or_else(|| {
        invalid("strings", value)
            .with_hint("The formats are 'auto', 'offset', 'view' and 'dictionary'.")
    })
}

fn switch(value: &Expr) -> Result<bool> {
    match word(value).as_deref() {
        Some("on" | "true" | "yes" | "1" | "default") => Ok(true),
        Some("off" | "false" | "no" | "0") => Ok(false),
        _ => Err(invalid("freeze", value).with_hint("It is on or off.")),
    }
}

fn duration(value: &Expr) -> Result<Option<Duration>> {
    let refused = || {
        invalid("freeze_after", value)
            .with_hint("It is a number of milliseconds, or text such as '50ms', '2s' or 'default'.")
    };
    let text = word(value).ok_or_else(refused)?;
    if text == "default" {
        return Ok(None);
    }
    let digits = text.trim_end_matches(|letter: char| letter.is_alphabetic());
    let seconds = match text[digits.len()..].trim() {
        "us" | "microsecond" | "microseconds" => 1e-6,
        "" | "ms" | "millisecond" | "milliseconds" => 1e-3,
        "s" | "second" | "seconds" => 1.0,
        "min" | "minute" | "minutes" => 60.0,
        "h" | "hour" | "hours" => 3600.0,
        _ => return Err(refused()),
    };
    let number: f64 = digits.trim().parse().map_err(|_| refused())?;
    let duration = Duration::try_from_secs_f64(number * seconds).map_err(|_| refused())?;
    Ok(Some(duration))
}

/// A word, text or number, in lower case.
fn word(value: &Expr) -> Option<String> {
    match value {
        Expr::Identifier(name) => Some(fold(&name.value)),
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(fold(text)),
            Value::Number(number, _) => Some(number.to_string()),
            Value::Boolean(value) => Some(value.to_string()),
            _ => None,
        },
        _ => None,
    }
}

fn invalid(setting: &str, value: &Expr) -> Error {
    Error::new(
        SqlState::InvalidParameterValue,
        format!("invalid value for setting \"{setting}\" of a table: {value}"),
    )
}

fn unknown(name: &str) -> Error {
    Error::new(
        SqlState::InvalidParameterValue,
        format!("unrecognized setting of a table: {name}"),
    )
    .with_hint("The settings are strings, freeze and freeze_after.")
}
