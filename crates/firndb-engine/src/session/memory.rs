//! One budget for tables and operators: DataFusion's memory pool draws on what storage leaves of `memory_limit`.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::common::DataFusionError;
use datafusion::execution::memory_pool::{MemoryLimit, MemoryPool, MemoryReservation};
use firndb_storage::Storage;

use crate::error::{Error, SqlState};

/// The pool of one database's operators. First come, first served; an operator that gets nothing spills or fails with 53200.
#[derive(Debug)]
pub struct OperatorMemory {
    storage: Arc<Storage>,
    limit: AtomicUsize,
    used: AtomicUsize,
}

impl OperatorMemory {
    /// A pool beside a storage, under one limit in bytes.
    pub fn new(storage: Arc<Storage>, limit: usize) -> Self {
        OperatorMemory {
            storage,
            limit: AtomicUsize::new(limit),
            used: AtomicUsize::new(0),
        }
    }

    /// Changes the limit; what is in use stays.
    pub fn set_limit(&self, limit: usize) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    fn stored(&self) -> usize {
        let memory = self.storage.memory();
        memory.frozen + memory.hot + memory.undo + memory.index
    }
}

impl fmt::Display for OperatorMemory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.name())
    }
}

impl MemoryPool for OperatorMemory {
    fn name(&self) -> &str {
        "operators"
    }

    fn grow(&self, _reservation: &MemoryReservation, additional: usize) {
        self.used.fetch_add(additional, Ordering::Relaxed);
    }

    fn shrink(&self, _reservation: &MemoryReservation, shrink: usize) {
        self.used.fetch_sub(shrink, Ordering::Relaxed);
    }

    fn try_grow(
        &self,
        reservation: &MemoryReservation,
        additional: usize,
    ) -> Result<(), DataFusionError> {
        let limit = self.limit.load(Ordering::Relaxed);
        let available = limit.saturating_sub(self.stored());
        let grown = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                let used = used.checked_add(additional)?;
                (used <= available).then_some(used)
            });
        match grown {
            Ok(_) => Ok(()),
            // Operators that can spill do so on this very variant.
            Err(used) => Err(DataFusionError::ResourcesExhausted(format!(
                "{} asked for {additional} bytes, operators hold {used} and tables {} of the {limit} bytes of memory_limit",
                reservation.consumer().name(),
                limit - available,
            ))),
        }
    }

    fn reserved(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.limit.load(Ordering::Relaxed))
    }
}

/// Bytes from a text such as `1GB`, `512 MiB`, `100000`; decimal and binary units.
pub fn parse_bytes(text: &str) -> Result<usize, Error> {
    let wrong = || {
        Error::new(
            SqlState::InvalidParameterValue,
            format!("invalid amount of memory: \"{text}\""),
        )
        .with_hint("Write a number and a unit: 500MB, 2GiB.")
    };
    let trimmed = text.trim();
    let digits = trimmed
        .find(|character: char| !character.is_ascii_digit() && character != '.')
        .unwrap_or(trimmed.len());
    let number: f64 = trimmed[..digits].parse().map_err(|_| wrong())?;
    let factor: f64 = match trimmed[digits..].trim().to_ascii_lowercase().as_str() {
        "" | "b" | "bytes" => 1.0,
        "k" | "kb" => 1e3,
        "m" | "mb" => 1e6,
        "g" | "gb" => 1e9,
        "t" | "tb" => 1e12,
        "kib" => 1024.0,
        "mib" => 1024.0 * 1024.0,
        "gib" => 1024.0 * 1024.0 * 1024.0,
        "tib" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return Err(wrong()),
    };
    let bytes = number * factor;
    if !bytes.is_finite() || bytes < 0.0 || bytes > i64::MAX as f64 {
        return Err(wrong());
    }
    Ok(bytes as usize)
}

/// Bytes as a text: `1.5 GiB`.
pub fn format_bytes(bytes: usize) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut amount = bytes as f64;
    let mut unit = 0;
    while amount >= 1024.0 && unit + 1 < UNITS.len() {
        amount /= 1024.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{bytes} B")
    } else {
        format!("{amount:.1} {}", UNITS[unit])
    }
}

/// 80 % of the host's memory; of 8 GiB where the host does not say.
pub fn default_limit() -> usize {
    let told = std::fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
            line.split_whitespace().nth(1)?.parse::<usize>().ok()
        });
    let kibibytes = told.unwrap_or(8 << 20);
    kibibytes * 1024 / 10 * 8
}

#[cfg(test)]
mod tests {
    use super::parse_bytes;

    #[test]
    fn units_are_decimal_or_binary() {
        assert_eq!(parse_bytes("2 GB").ok(), Some(2_000_000_000));
        assert_eq!(parse_bytes("1.5KiB").ok(), Some(1_536));
    }

    #[test]
    fn an_unknown_unit_is_an_error() {
        assert!(parse_bytes("5 parsecs").is_err());
    }
}
