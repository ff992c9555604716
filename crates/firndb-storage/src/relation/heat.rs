//! How warm a relation is: after how long without a write its blocks freeze, and what became of those that did.
//!
//! The threshold adapts: it is doubled when a block thaws within ten thresholds of freezing, since that freezing was in vain, and halved when none did for
//! ten thresholds, down to what was set. Looked at when there is something to freeze, so no timer is needed for it.

use std::collections::BTreeSet;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The threshold of a new table.
pub(crate) const THRESHOLD: Duration = Duration::from_millis(10);
/// The threshold does not grow beyond this many times what was set.
const MOST_TIMES: u64 = 1024;
/// A block that thaws within so many thresholds was frozen too early.
const EARLY: u64 = 10;
/// The longest threshold that can be set.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// A table that was scanned is not compacted for so long, ...
const REST: Duration = Duration::from_secs(2);
/// ... but is after so long, even if it is scanned all the time.
const LONGEST_REST: Duration = Duration::from_secs(10);
/// No threshold: nothing freezes by itself.
const OFF: u64 = u64::MAX;

/// Microseconds since some moment of the process, never 0.
pub(crate) fn now() -> u64 {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    let elapsed = ORIGIN.get_or_init(Instant::now).elapsed().as_micros();
    u64::try_from(elapsed).unwrap_or(u64::MAX).saturating_add(1)
}

fn duration(micros: &AtomicU64) -> Option<Duration> {
    match micros.load(Ordering::Relaxed) {
        OFF => None,
        micros => Some(Duration::from_micros(micros)),
    }
}

/// What was counted about the blocks of a table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FreezeCounts {
    /// Blocks that became frozen.
    pub frozen: u64,
    /// Columns of blocks that were thawed by writers.
    pub thawed: u64,
    /// Blocks whose rows scans copied.
    pub copied: u64,
    /// Blocks whose rows scans shared.
    pub shared: u64,
    /// Rows that compaction moved.
    pub moved: u64,
    /// Blocks that compaction emptied.
    pub emptied: u64,
    /// Time that compactions took.
    pub compacting: Duration,
    /// Time that was waited for operations to end.
    pub waiting: Duration,
    /// Time that building columns took.
    pub gathering: Duration,
    /// What their sketches of distinct values took of that.
    pub sketching: Duration,
}

/// A sum of times.
#[derive(Debug, Default)]
pub(crate) struct Stopwatch(AtomicU64);

impl Stopwatch {
    pub(crate) fn add(&self, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.0.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    fn total(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// The temperature of a relation. Times in microseconds.
pub(crate) struct Heat {
    set: AtomicU64,
    threshold: AtomicU64,
    adapted: AtomicU64,
    early: AtomicU64,
    pub(crate) frozen: AtomicU64,
    pub(crate) thawed: AtomicU64,
    pub(crate) copied: AtomicU64,
    pub(crate) shared: AtomicU64,
    pub(crate) moved: AtomicU64,
    pub(crate) emptied: AtomicU64,
    pub(crate) compacting: Stopwatch,
    pub(crate) waiting: Stopwatch,
    pub(crate) gathering: Stopwatch,
    pub(crate) sketching: Stopwatch,
    /// When extents that are mostly garbage were last looked for.
    pub(crate) rewritten: AtomicU64,
    /// How often in a row a compaction could not be committed, and when to try again.
    pub(crate) yielded: AtomicU32,
    pub(crate) retry_at: AtomicU64,
    /// When a scan began last.
    scanned: AtomicU64,
    /// Since when a compaction has been put off because of scans; 0 if none is.
    pub(crate) postponed: AtomicU64,
    /// Blocks with gaps that a later compaction may fill or empty.
    pub(crate) sparse: Mutex<BTreeSet<u32>>,
    /// Held by who compacts or freezes: one thread at a time.
    pub(crate) freezer: Mutex<()>,
}

impl Heat {
    pub(crate) fn new() -> Self {
        let threshold = THRESHOLD.as_micros() as u64;
        Self {
            set: AtomicU64::new(threshold),
            threshold: AtomicU64::new(threshold),
            adapted: AtomicU64::new(0),
            early: AtomicU64::new(0),
            frozen: AtomicU64::new(0),
            thawed: AtomicU64::new(0),
            copied: AtomicU64::new(0),
            shared: AtomicU64::new(0),
            moved: AtomicU64::new(0),
            emptied: AtomicU64::new(0),
            compacting: Stopwatch::default(),
            waiting: Stopwatch::default(),
            gathering: Stopwatch::default(),
            sketching: Stopwatch::default(),
            rewritten: AtomicU64::new(0),
            yielded: AtomicU32::new(0),
            retry_at: AtomicU64::new(0),
            scanned: AtomicU64::new(0),
            postponed: AtomicU64::new(0),
            sparse: Mutex::default(),
            freezer: Mutex::new(()),
        }
    }

    /// Sets what the threshold is at first; `None` to freeze nothing by itself.
    pub(crate) fn set(&self, threshold: Option<Duration>) {
        let micros = threshold.map_or(OFF, |threshold| threshold.min(LONGEST).as_micros() as u64);
        self.set.store(micros, Ordering::Relaxed);
        self.threshold.store(micros, Ordering::Relaxed);
    }

    /// The threshold now; `None` when nothing freezes by itself.
    pub(crate) fn threshold(&self) -> Option<Duration> {
        duration(&self.threshold)
    }

    /// What was set.
    pub(crate) fn setting(&self) -> Option<Duration> {
        duration(&self.set)
    }

    /// A writer thawed a column of a block that was frozen at `frozen_at`.
    pub(crate) fn note_thaw(&self, frozen_at: u64) {
        self.thawed.fetch_add(1, Ordering::Relaxed);
        let threshold = self.threshold.load(Ordering::Relaxed);
        let early =
            frozen_at != 0 && now().saturating_sub(frozen_at) <= threshold.saturating_mul(EARLY);
        if early {
            self.early.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A scan begins.
    pub(crate) fn note_scan(&self) {
        self.scanned.store(now(), Ordering::Relaxed);
    }

    /// How long a compaction has to wait, so that results of scans that are laid side by side agree on the order of rows. Called by who would compact.
    pub(crate) fn unrest(&self, now: u64) -> u64 {
        let scanned = self.scanned.load(Ordering::Relaxed);
        let rest = (scanned + REST.as_micros() as u64).saturating_sub(now);
        if scanned == 0 || rest == 0 {
            self.postponed.store(0, Ordering::Relaxed);
            return 0;
        }
        match self.postponed.load(Ordering::Relaxed) {
            0 => self.postponed.store(now, Ordering::Relaxed),
            since if now.saturating_sub(since) >= LONGEST_REST.as_micros() as u64 => return 0,
            _ => {}
        }
        rest
    }

    /// Adapts the threshold to what happened since the last time. Called by the freezer.
    pub(crate) fn adapt(&self) {
        let threshold = self.threshold.load(Ordering::Relaxed);
        if threshold == OFF {
            return;
        }
        let set = self.set.load(Ordering::Relaxed);
        let now = now();
        let since = now.saturating_sub(self.adapted.load(Ordering::Relaxed));
        let adapted = if self.early.swap(0, Ordering::Relaxed) > 0 {
            threshold
                .saturating_mul(2)
                .min(set.saturating_mul(MOST_TIMES))
        } else if since >= threshold.saturating_mul(EARLY) && threshold > set {
            (threshold / 2).max(set)
        } else {
            return;
        };
        self.adapted.store(now, Ordering::Relaxed);
        // Somebody may have set it meanwhile.
        let _ = self.threshold.compare_exchange(
            threshold,
            adapted,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
    }

    /// What was counted up to now.
    pub(crate) fn counts(&self) -> FreezeCounts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        FreezeCounts {
            frozen: of(&self.frozen),
            thawed: of(&self.thawed),
            copied: of(&self.copied),
            shared: of(&self.shared),
            moved: of(&self.moved),
            emptied: of(&self.emptied),
            compacting: self.compacting.total(),
            waiting: self.waiting.total(),
            gathering: self.gathering.total(),
            sketching: self.sketching.total(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_threshold_doubles_when_a_block_thaws_early_and_halves_when_none_does() {
        let heat = Heat::new();
        heat.set(Some(Duration::from_millis(10)));
        heat.note_thaw(now());
        heat.adapt();
        assert_eq!(heat.threshold(), Some(Duration::from_millis(20)));
        // Not at once: ten thresholds have to pass.
        heat.adapt();
        assert_eq!(heat.threshold(), Some(Duration::from_millis(20)));
        heat.adapted.store(0, Ordering::Relaxed);
        heat.threshold.store(0, Ordering::Relaxed);
        heat.set.store(0, Ordering::Relaxed);
        heat.threshold.store(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(1));
        heat.adapt();
        assert_eq!(heat.threshold(), Some(Duration::ZERO));
    }

    #[test]
    fn a_block_that_was_never_frozen_by_the_freezer_does_not_thaw_early() {
        let heat = Heat::new();
        heat.note_thaw(0);
        heat.adapt();
        assert_eq!(heat.threshold(), Some(THRESHOLD));
        assert_eq!(heat.counts().thawed, 1);
    }

    #[test]
    fn a_scan_puts_compactions_off_but_not_for_ever() {
        let heat = Heat::new();
        assert_eq!(heat.unrest(now()), 0);
        heat.note_scan();
        let scanned = heat.scanned.load(Ordering::Relaxed);
        let second = 1_000_000;
        assert_eq!(heat.unrest(scanned + second), second);
        heat.scanned.store(scanned + 12 * second, Ordering::Relaxed);
        assert_eq!(heat.unrest(scanned + 12 * second), 0);
        assert_eq!(heat.unrest(scanned + 14 * second), 0);
    }

    #[test]
    fn off_stays_off() {
        let heat = Heat::new();
        heat.set(None);
        heat.note_thaw(now());
        heat.adapt();
        assert_eq!(heat.threshold(), None);
    }
}
