//! PRAGMA: what has no name in SQL.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int32Array, StringArray};
use datafusion::sql::sqlparser::ast::{self, Value};

use super::answers::{strings, table};
use super::execute::Call;
use super::foreign_settings;
use super::session::{Inner, Session};
use super::settings::known;
use crate::catalog::fold;
use crate::error::Result;
use crate::parse::Source;
use crate::session::Outcome;
use crate::statement::{self, split_name};

impl Session {
    pub(super) fn pragma(
        &self,
        inner: &mut Inner,
        name: &str,
        value: Option<&ast::ValueWithSpan>,
        call: &Call,
        source: &Source,
    ) -> Result<Outcome> {
        let argument = value.map(|value| match &value.value {
            Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) => text.clone(),
            other => other.to_string(),
        });
        if foreign_settings::takes(name, argument.as_deref())? {
            return Ok(Outcome::done("PRAGMA"));
        }
        match (name, argument) {
            ("platform", None) => {
                let platform = format!("{}_{}", std::env::consts::OS, std::env::consts::ARCH);
                table(&[("platform", strings([platform.as_str()]))])
            }
            ("collations", None) => table(&[("collname", strings(["binary", "nocase"]))]),
            ("version", None) => {
                let version = env!("CARGO_PKG_VERSION");
                table(&[("library_version", strings([version]))])
            }
            ("database_list", None) => self.listed(inner, "pragma_database_list()", call, source),
            ("index_list" | "foreign_key_list", Some(table)) => {
                let table = Value::SingleQuotedString(table);
                self.listed(inner, &format!("pragma_{name}({table})"), call, source)
            }
            ("integrity_check", None) => {
                let damaged = self.database.shared.storage.verify()?;
                let found: Vec<&str> = match damaged.is_empty() {
                    true => vec!["ok"],
                    false => damaged.iter().map(String::as_str).collect(),
                };
                table(&[("integrity_check", strings(found))])
            }
            ("show_tables", None) => self.listing(inner, call, source),
            ("freeze", Some(table)) => self.freeze(inner, &table, call, source),
            ("table_info" | "show", Some(table)) => self.table_info(inner, &table, call, source),
            (name, None) => self.show(inner, &[name], call, source),
            (name, Some(value)) => {
                let name = known(name)?;
                self.set(inner, name, &[value])?;
                Ok(Outcome::done("PRAGMA"))
            }
        }
    }

    /// The rows of a function.
    fn listed(
        &self,
        inner: &mut Inner,
        function: &str,
        call: &Call,
        source: &Source,
    ) -> Result<Outcome> {
        let query = crate::parse::parse_query(&format!("SELECT * FROM {function}"))?;
        self.run_in_transaction(
            inner,
            call,
            async |work| {
                let rows = work.context.scope.rows(&query).await?;
                Ok(Outcome::rows("PRAGMA", rows))
            },
            source,
        )
    }

    pub(super) fn listing(
        &self,
        inner: &mut Inner,
        call: &Call,
        source: &Source,
    ) -> Result<Outcome> {
        self.run_in_transaction(
            inner,
            call,
            async |work| statement::tables(work.context),
            source,
        )
    }

    /// SQLite's and DuckDB's `PRAGMA table_info('t')`.
    fn table_info(
        &self,
        inner: &mut Inner,
        name: &str,
        call: &Call,
        source: &Source,
    ) -> Result<Outcome> {
        let name = table_name(name)?;
        self.run_in_transaction(
            inner,
            call,
            async |work| {
                let entry = work.context.table(&name)?;
                let columns = &entry.columns;
                let primary: Vec<usize> = entry
                    .constraints
                    .iter()
                    .find_map(|constraint| match constraint {
                        crate::catalog::Constraint::PrimaryKey { columns, .. } => {
                            Some(columns.clone())
                        }
                        _ => None,
                    })
                    .unwrap_or_default();
                let types: Vec<String> = columns
                    .iter()
                    .map(|column| crate::types::sql_name(&column.field))
                    .collect();
                let defaults: Vec<Option<String>> = columns
                    .iter()
                    .map(|column| column.default.as_ref().map(ToString::to_string))
                    .collect();
                let numbers: Int32Array = (0..columns.len() as i32).collect::<Vec<_>>().into();
                let required: BooleanArray = columns
                    .iter()
                    .map(|column| Some(!column.field.is_nullable()))
                    .collect();
                let keys: BooleanArray = (0..columns.len())
                    .map(|position| Some(primary.contains(&position)))
                    .collect();
                let names = columns.iter().map(|column| column.field.name().as_str());
                table(&[
                    ("cid", Arc::new(numbers) as ArrayRef),
                    ("name", strings(names)),
                    ("type", strings(types.iter().map(String::as_str))),
                    ("notnull", Arc::new(required)),
                    ("dflt_value", Arc::new(StringArray::from(defaults))),
                    ("pk", Arc::new(keys)),
                ])
            },
            source,
        )
    }
}

/// The name of a table as a text has it: `t`, `schema.t`.
pub(super) fn table_name(text: &str) -> Result<ast::ObjectName> {
    let idents = text
        .split('.')
        .map(|part| ast::Ident::with_quote('"', fold(part)));
    let name = ast::ObjectName::from(idents.collect::<Vec<_>>());
    split_name(&name)?;
    Ok(name)
}
