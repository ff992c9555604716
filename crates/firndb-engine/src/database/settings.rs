//! SET, RESET, SHOW, USE.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use datafusion::sql::sqlparser::ast::{self, Expr, Value};
use firndb_storage::{Compression, Synchronous};

use super::answers::{strings, table};
use super::connection::{environment, use_threads};
use super::execute::Call;
use super::file;
use super::foreign_settings;
use super::null_order::{self, reach_operators};
use super::session::{Inner, Session};
use super::setting_values::{boolean, invalid};
use super::shown_settings::{SETTINGS, Settings, ShownSettings, is_global};
use super::transaction::{self, Modes, OpenTransaction};
use crate::catalog::{DATABASE, MAIN_SCHEMA, fold};
use crate::error::{Error, Result, SqlState, nearest};
use crate::parse::Source;
use crate::session::Outcome;
use crate::session::memory::parse_bytes;
use crate::statement;

/// Other names of settings.
const SYNONYMS: [(&str, &str); 7] = [
    ("wal_autocheckpoint", "checkpoint_threshold"),
    ("max_memory", "memory_limit"),
    ("null_order", "default_null_order"),
    ("worker_threads", "threads"),
    ("time_zone", "timezone"),
    ("schema", "search_path"),
    ("access_mode_read_only", "default_transaction_read_only"),
];

impl Session {
    /// Runs a statement on settings; `None` when it is none after all.
    pub(super) fn setting(
        &self,
        inner: &mut Inner,
        statement: &ast::Statement,
        call: &Call,
        source: &Source,
    ) -> Result<Option<Outcome>> {
        // A setting may change what names mean.
        inner.programs.clear();
        inner.plans.clear();
        match statement {
            ast::Statement::Set(set) => self.set_statement(inner, set).map(Some),
            ast::Statement::Reset(reset) => {
                match &reset.reset {
                    ast::Reset::ALL => {
                        for (name, _) in SETTINGS {
                            if !is_fixed(name) && !is_global(name) {
                                self.reset(inner, name)?;
                            }
                        }
                    }
                    ast::Reset::ConfigurationParameter(name) => {
                        let name = name.to_string();
                        if !foreign_settings::takes(&name, None)? {
                            self.reset(inner, known(&name)?)?;
                        }
                    }
                }
                Ok(Some(Outcome::done("RESET")))
            }
            ast::Statement::ShowVariable { variable } => {
                let words: Vec<&str> = variable.iter().map(|word| word.value.as_str()).collect();
                self.show(inner, &words, call, source).map(Some)
            }
            ast::Statement::Use(target) => {
                let text = target.to_string();
                let name = text
                    .trim_start_matches("USE ")
                    .trim_start_matches("SCHEMA ")
                    .trim_start_matches("DATABASE ");
                // The database's own name before the schema's, as this or as DuckDB calls one in memory.
                let schema = [DATABASE, "memory"]
                    .iter()
                    .find_map(|database| name.strip_prefix(database)?.strip_prefix('.'));
                let name = schema.unwrap_or(name).trim_matches('"');
                // The database itself is its schema for tables.
                let database = schema.is_none() && [DATABASE, "memory"].contains(&name);
                let name = if database { MAIN_SCHEMA } else { name };
                self.run_in_transaction(
                    inner,
                    call,
                    async |work| match work.context.scope.catalog.schema(name) {
                        Some(_) => Ok(Outcome::done("USE")),
                        None => Err(Error::new(
                            SqlState::InvalidSchemaName,
                            format!("schema \"{name}\" does not exist"),
                        )),
                    },
                    source,
                )?;
                self.set(inner, "search_path", &[name.to_owned()])?;
                Ok(Some(Outcome::done("USE")))
            }
            ast::Statement::Pragma { name, value, .. } => self
                .pragma(inner, &name.to_string(), value.as_ref(), call, source)
                .map(Some),
            _ => Ok(None),
        }
    }

    fn set_statement(&self, inner: &mut Inner, set: &ast::Set) -> Result<Outcome> {
        match set {
            ast::Set::SingleAssignment {
                variable,
                values,
                scope,
                ..
            } => {
                if matches!(scope, Some(ast::ContextModifier::Local)) {
                    return Err(Error::unsupported("SET LOCAL is not supported"));
                }
                let texts = values.iter().map(text).collect::<Result<Vec<_>>>()?;
                if foreign_settings::takes(
                    &variable.to_string(),
                    texts.first().map(String::as_str),
                )? {
                    return Ok(Outcome::done("SET"));
                }
                let name = known(&variable.to_string())?;
                if let [only] = texts.as_slice()
                    && only.eq_ignore_ascii_case("default")
                {
                    self.reset(inner, name)?;
                } else {
                    self.set(inner, name, &texts)?;
                }
            }
            ast::Set::MultipleAssignments { assignments } => {
                for assignment in assignments {
                    let name = known(&assignment.name.to_string())?;
                    self.set(inner, name, &[text(&assignment.value)?])?;
                }
            }
            ast::Set::SetTimeZone { value, .. } => {
                let zone = text(value)?;
                if zone.eq_ignore_ascii_case("default") || zone.eq_ignore_ascii_case("local") {
                    self.reset(inner, "timezone")?;
                } else {
                    self.set(inner, "timezone", &[zone])?;
                }
            }
            ast::Set::SetNames { charset_name, .. } => {
                let encoding = std::slice::from_ref(&charset_name.value);
                self.set(inner, "client_encoding", encoding)?;
            }
            ast::Set::SetTransaction { modes, session, .. } => {
                let read_only = match &inner.transaction {
                    Some(open) if !*session => open.read_only,
                    _ => inner.settings.read_only,
                };
                let current = Modes { read_only };
                let modes = Modes::parse(modes, current)?;
                if *session {
                    inner.settings.read_only = modes.read_only;
                } else {
                    open(inner)?.set_read_only(modes.read_only)?;
                }
            }
            other => return Err(Error::unsupported(format!("not supported: {other}"))),
        }
        Ok(Outcome::done("SET"))
    }

    pub(super) fn set(&self, inner: &mut Inner, name: &str, values: &[String]) -> Result<()> {
        let shared = &self.database.shared;
        let value = match values {
            [only] => only.trim(),
            _ if name == "search_path" => "",
            _ => return Err(invalid(name, &values.join(", "))),
        };
        match name {
            "memory_limit" => {
                let limit = parse_bytes(value)?;
                shared.set_memory_limit(limit);
            }
            "synchronous" => {
                let synchronous = file::synchronous(value).ok_or_else(|| invalid(name, value))?;
                shared.storage.set_synchronous(synchronous);
            }
            "compression" => {
                let compression = file::compression(value).ok_or_else(|| invalid(name, value))?;
                shared.storage.set_compression(compression);
            }
            "checkpoint_threshold" => {
                let bytes = parse_bytes(value)? as u64;
                shared.checkpoint_threshold.store(bytes, Ordering::Relaxed);
            }
            "threads" => {
                let threads: usize = value.parse().map_err(|_| invalid(name, value))?;
                if threads == 0 || threads > 1_024 {
                    return Err(invalid(name, value));
                }
                shared.limits.lock().threads = threads;
                let state = Arc::make_mut(&mut inner.state);
                use_threads(state.config_mut().options_mut(), threads);
            }
            "temp_directory" => {
                let directory = std::path::PathBuf::from(value);
                let environment = environment(&shared.memory, Some(&directory))?;
                let mut limits = shared.limits.lock();
                limits.directory = Some(directory);
                limits.environment = Arc::clone(&environment);
                drop(limits);
                replace_environment(inner, environment);
            }
            "timezone" => {
                let zone = zone(value)?;
                let state = Arc::make_mut(&mut inner.state);
                state.config_mut().options_mut().execution.time_zone = Some(zone);
                reach_operators(state);
            }
            "search_path" => {
                let path: Vec<String> = values
                    .iter()
                    .flat_map(|one| one.split(','))
                    .map(|one| one.trim().trim_matches('"').to_owned())
                    .filter(|one| !one.is_empty() && one != "$user")
                    .collect();
                if path.is_empty() {
                    return Err(invalid(name, &values.join(", ")));
                }
                inner.settings.path = Arc::from(path);
            }
            "default_null_order" => {
                let order = null_order::named(value).ok_or_else(|| invalid(name, value))?;
                null_order::set(inner, order);
            }
            "default_transaction_read_only" => inner.settings.read_only = boolean(name, value)?,
            "default_transaction_isolation" | "transaction_isolation" => {
                transaction::isolation(value).unwrap_or_else(|| Err(invalid(name, value)))?;
            }
            "transaction_read_only" => open(inner)?.set_read_only(boolean(name, value)?)?,
            "compiled_statements" => inner.programs.enable(boolean(name, value)?),
            "application_name" => inner.settings.application = value.to_owned(),
            "client_encoding" => {
                if !matches!(fold(value).as_str(), "utf8" | "utf-8" | "unicode") {
                    return Err(invalid(name, value));
                }
            }
            "standard_conforming_strings" => {
                if !boolean(name, value)? {
                    return Err(invalid(name, value));
                }
            }
            other => {
                return Err(Error::new(
                    SqlState::CantChangeRuntimeParam,
                    format!("parameter \"{other}\" cannot be changed"),
                ));
            }
        }
        Ok(())
    }

    fn reset(&self, inner: &mut Inner, name: &str) -> Result<()> {
        let shared = &self.database.shared;
        match name {
            "memory_limit" => {
                let limit = crate::session::memory::default_limit();
                self.set(inner, name, &[limit.to_string()])
            }
            "threads" => {
                let threads = std::thread::available_parallelism().map_or(1, usize::from);
                self.set(inner, name, &[threads.to_string()])
            }
            "synchronous" => {
                shared.storage.set_synchronous(Synchronous::Full);
                Ok(())
            }
            "compression" => {
                shared.storage.set_compression(Compression::Auto);
                Ok(())
            }
            "checkpoint_threshold" => {
                let bytes = file::CHECKPOINT_THRESHOLD;
                shared.checkpoint_threshold.store(bytes, Ordering::Relaxed);
                Ok(())
            }
            "temp_directory" => {
                let environment = environment(&shared.memory, None)?;
                let mut limits = shared.limits.lock();
                limits.directory = None;
                limits.environment = Arc::clone(&environment);
                drop(limits);
                replace_environment(inner, environment);
                Ok(())
            }
            "timezone" => {
                let default = shared.state.config_options().execution.time_zone.clone();
                let state = Arc::make_mut(&mut inner.state);
                state.config_mut().options_mut().execution.time_zone = default;
                reach_operators(state);
                Ok(())
            }
            "search_path" => {
                inner.settings.path = Settings::default().path;
                Ok(())
            }
            "default_null_order" => {
                null_order::set(inner, null_order::DEFAULT);
                Ok(())
            }
            "default_transaction_read_only" => {
                inner.settings.read_only = false;
                Ok(())
            }
            "application_name" => {
                inner.settings.application.clear();
                Ok(())
            }
            "compiled_statements" => {
                inner.programs.enable(true);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The value of the setting of a name, or of another name for it.
    pub(super) fn setting_text(&self, inner: &Inner, name: &str) -> Result<String> {
        Ok(self.value(inner, known(name)?))
    }

    /// A setting's value as text.
    fn value(&self, inner: &Inner, name: &str) -> String {
        let shared = &self.database.shared;
        ShownSettings::new(shared, inner).value(shared, name)
    }

    pub(super) fn show(
        &self,
        inner: &mut Inner,
        words: &[&str],
        call: &Call,
        source: &Source,
    ) -> Result<Outcome> {
        match words {
            ["all"] => {
                let values: Vec<String> = SETTINGS
                    .iter()
                    .map(|(name, _)| self.value(inner, name))
                    .collect();
                table(&[
                    ("name", strings(SETTINGS.iter().map(|(name, _)| *name))),
                    ("setting", strings(values.iter().map(String::as_str))),
                    (
                        "description",
                        strings(SETTINGS.iter().map(|(_, text)| *text)),
                    ),
                ])
            }
            ["all", "tables"] => self.listing(inner, call, source),
            ["transaction", "isolation", "level"] => {
                self.show(inner, &["transaction_isolation"], call, source)
            }
            ["time", "zone"] => self.show(inner, &["timezone"], call, source),
            _ => {
                let written = words.join("_");
                let name = match (known(&written), words) {
                    (Ok(name), _) => name,
                    (Err(error), [relation]) => {
                        return self.shown_relation(inner, relation, error, call, source);
                    }
                    (Err(error), _) => return Err(error),
                };
                let value = self.value(inner, name);
                table(&[(name, strings([value.as_str()]))])
            }
        }
    }
}

impl Session {
    /// `SHOW t`: the columns of a relation, where there is no setting of that name.
    fn shown_relation(
        &self,
        inner: &mut Inner,
        name: &str,
        unknown: Error,
        call: &Call,
        source: &Source,
    ) -> Result<Outcome> {
        let relation = ast::ObjectName::from(ast::Ident::with_quote('"', name));
        self.run_in_transaction(
            inner,
            call,
            async |work| statement::describe_relation(work.context, &relation).await,
            source,
        )
        .map_err(|error| match error.state {
            SqlState::UndefinedTable => unknown,
            _ => error,
        })
    }
}

/// The transaction that SET TRANSACTION changes.
fn open(inner: &mut Inner) -> Result<&mut OpenTransaction> {
    inner.transaction.as_mut().ok_or_else(|| {
        Error::new(
            SqlState::NoActiveSqlTransaction,
            "SET TRANSACTION can only be used in transaction blocks",
        )
    })
}

/// A setting's own name; 42704 with a hint for none.
pub(super) fn known(name: &str) -> Result<&'static str> {
    let folded = fold(name.trim_matches('"'));
    if let Some((found, _)) = SETTINGS.iter().find(|(known, _)| *known == folded) {
        return Ok(found);
    }
    if let Some((_, found)) = SYNONYMS.iter().find(|(known, _)| *known == folded) {
        return Ok(found);
    }
    let error = Error::new(
        SqlState::UndefinedObject,
        format!("unrecognized configuration parameter \"{folded}\""),
    );
    let names = SETTINGS
        .iter()
        .map(|(name, _)| *name)
        .chain(SYNONYMS.iter().map(|(name, _)| *name));
    Err(match nearest(&folded, names) {
        Some(near) => error.with_hint(format!("Perhaps you meant \"{near}\".")),
        None => error.with_hint("SHOW ALL lists the settings."),
    })
}

fn is_fixed(name: &str) -> bool {
    matches!(
        name,
        "server_version" | "transaction_isolation" | "transaction_read_only"
    )
}

/// A setting's value as it is written: a word, a string, a number.
fn text(value: &Expr) -> Result<String> {
    Ok(match value {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) => text.clone(),
            other => other.to_string(),
        },
        Expr::Identifier(ident) => ident.value.clone(),
        other => other.to_string(),
    })
}

/// A time zone that the kernels know.
fn zone(value: &str) -> Result<String> {
    if fold(value) == "utc" || fold(value) == "gmt" {
        return Ok("UTC".to_owned());
    }
    match value.parse::<arrow::array::timezone::Tz>() {
        Ok(_) => Ok(value.to_owned()),
        Err(_) => Err(invalid("timezone", value)),
    }
}

fn replace_environment(
    inner: &mut Inner,
    environment: Arc<datafusion::execution::runtime_env::RuntimeEnv>,
) {
    let builder = datafusion::execution::session_state::SessionStateBuilder::new_from_existing(
        inner.state.as_ref().clone(),
    );
    inner.state = Arc::new(builder.with_runtime_env(environment).build());
}
