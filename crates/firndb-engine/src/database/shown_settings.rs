//! Settings as they are shown: SHOW, `current_setting`, `duckdb_settings()` and `pg_settings`.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use datafusion::execution::session_state::SessionState;
use firndb_storage::{Compression, Synchronous};

use super::connection::Shared;
use super::null_order;
use super::session::Inner;
use crate::catalog::MAIN_SCHEMA;
use crate::metadata::{SettingRow, SettingsSource};
use crate::session::memory::format_bytes;

/// A session's settings.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    /// Schemas in which names are looked for.
    pub(super) path: Arc<[String]>,
    /// Whether transactions are read-only unless they say otherwise.
    pub(super) read_only: bool,
    pub(super) application: String,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            path: Arc::from([MAIN_SCHEMA.to_owned()]),
            read_only: false,
            application: String::new(),
        }
    }
}

/// Every setting and what it is for.
pub(super) const SETTINGS: [(&str, &str); 18] = [
    ("application_name", "A label of the session."),
    (
        "checkpoint_threshold",
        "Bytes of log from which a checkpoint runs by itself.",
    ),
    ("client_encoding", "Always UTF8."),
    (
        "compiled_statements",
        "Whether statements on single rows run without a plan.",
    ),
    (
        "compression",
        "How rows are written to a file: auto (dictionaries and ZSTD where they pay) or none.",
    ),
    (
        "default_null_order",
        "Where NULLs are sorted to without NULLS FIRST or LAST.",
    ),
    (
        "default_transaction_isolation",
        "Always repeatable read: a snapshot.",
    ),
    (
        "default_transaction_read_only",
        "Whether transactions are read-only unless they say otherwise.",
    ),
    (
        "memory_limit",
        "Bytes that tables and operators may use together.",
    ),
    (
        "search_path",
        "Schemas in which names without a schema are looked for.",
    ),
    ("server_version", "The version of FirnDB."),
    (
        "standard_conforming_strings",
        "Always on: backslashes in strings are backslashes.",
    ),
    (
        "synchronous",
        "What commits to a file wait for: full (durable), normal (written), off (never synced).",
    ),
    ("temp_directory", "Where operators spill."),
    ("threads", "Threads that a query uses."),
    (
        "timezone",
        "The zone in which timestamps with a zone are shown.",
    ),
    (
        "transaction_isolation",
        "Always repeatable read: a snapshot.",
    ),
    (
        "transaction_read_only",
        "Whether the current transaction is read-only.",
    ),
];

/// What a session's settings are at a moment. It does not keep the database open.
pub(super) struct ShownSettings {
    shared: Weak<Shared>,
    state: Arc<SessionState>,
    settings: Settings,
    /// Whether the transaction at hand is read-only.
    read_only: bool,
    compiled_statements: bool,
}

impl ShownSettings {
    pub(super) fn new(shared: &Arc<Shared>, inner: &Inner) -> Self {
        ShownSettings {
            shared: Arc::downgrade(shared),
            state: Arc::clone(&inner.state),
            settings: inner.settings.clone(),
            read_only: inner
                .transaction
                .as_ref()
                .map_or(inner.settings.read_only, |open| open.read_only),
            compiled_statements: inner.programs.is_enabled(),
        }
    }

    /// Those of a transaction that the session has handed out.
    pub(super) fn within(shared: &Arc<Shared>, inner: &Inner, read_only: bool) -> Self {
        ShownSettings {
            read_only,
            ..ShownSettings::new(shared, inner)
        }
    }

    /// A setting's value as text.
    pub(super) fn value(&self, shared: &Shared, name: &str) -> String {
        let limits = shared.limits.lock();
        match name {
            "memory_limit" => format_bytes(limits.memory),
            "threads" => self.state.config().target_partitions().to_string(),
            "synchronous" => match shared.storage.synchronous() {
                Some(Synchronous::Full) => "full",
                Some(Synchronous::Normal) => "normal",
                Some(Synchronous::Off) | None => "off",
            }
            .to_owned(),
            "compression" => match shared.storage.compression() {
                Some(Compression::Auto) => "auto",
                Some(Compression::None) | None => "none",
            }
            .to_owned(),
            "checkpoint_threshold" => {
                format_bytes(shared.checkpoint_threshold.load(Ordering::Relaxed) as usize)
            }
            "temp_directory" => match &limits.directory {
                Some(directory) => directory.display().to_string(),
                None => std::env::temp_dir().display().to_string(),
            },
            "timezone" => self
                .state
                .config_options()
                .execution
                .time_zone
                .clone()
                .unwrap_or_else(|| "UTC".to_owned()),
            "search_path" => self.settings.path.join(", "),
            "default_null_order" => null_order::shown(&self.state),
            "default_transaction_read_only" => on_off(self.settings.read_only),
            "transaction_read_only" => on_off(self.read_only),
            "application_name" => self.settings.application.clone(),
            "compiled_statements" => on_off(self.compiled_statements),
            "client_encoding" => "UTF8".to_owned(),
            "standard_conforming_strings" => "on".to_owned(),
            "default_transaction_isolation" | "transaction_isolation" => {
                "repeatable read".to_owned()
            }
            "server_version" => env!("CARGO_PKG_VERSION").to_owned(),
            _ => String::new(),
        }
    }
}

impl SettingsSource for ShownSettings {
    fn rows(&self) -> Vec<SettingRow> {
        let Some(shared) = self.shared.upgrade() else {
            return Vec::new();
        };
        SETTINGS
            .iter()
            .map(|(name, description)| SettingRow {
                name,
                value: self.value(&shared, name),
                description,
                data_type: data_type(name),
                is_global: is_global(name),
            })
            .collect()
    }
}

fn data_type(name: &str) -> &'static str {
    match name {
        "threads" => "BIGINT",
        "compiled_statements"
        | "default_transaction_read_only"
        | "standard_conforming_strings"
        | "transaction_read_only" => "BOOLEAN",
        _ => "VARCHAR",
    }
}

/// Whether a setting is the whole database's.
pub(super) fn is_global(name: &str) -> bool {
    matches!(
        name,
        "memory_limit" | "temp_directory" | "synchronous" | "compression" | "checkpoint_threshold"
    )
}

fn on_off(flag: bool) -> String {
    if flag { "on" } else { "off" }.to_owned()
}
