//! The log: redo records in groups, appended to `name.firn.wal`.
//!
//! ```text
//!   header (64 bytes) │ group │ group │ group │ 0 0 0 …          log sequence number (LSN) of a byte = first + (offset - 64)
//!                         └ magic, checksum, LSN, synced, salt, length, checksum of the payload, chain, flags │ record │ record │ …
//! ```
//!
//! Invariants:
//! - Groups are written one after the other, by one thread at a time (the *leader*, whoever found nobody writing). What is appended while it writes is the
//!   next group: that is group commit.
//! - A group is whole or not there: its header's checksum covers its payload's. Each header names the checksum of the header before it (*chain*),
//!   so what a failed write left behind is never taken for a group.
//! - `synced` in a header is how far the log was known to be durable when the group was written. So a bad group below the `synced` of a later
//!   header is damage; one above all of them is the torn tail of a crash, and is cut.
//! - A log that stays when its database is closed ends with a group without records ([`Log::seal`]): nothing before it is taken for a torn tail.
//! - After a write that failed for want of space the next group goes to the same place. After any other failure, and after a sync that failed, nothing is written
//!   any more: what is durable is unknown.
//! - Records that nobody waits for ([`Log::note`]) survive a failed write: they go into the next group, or wait for one. The others were reported as failed,
//!   and go. So each group is written once, whatever becomes of it, and a leader's work ends on a full disk, too.

mod header;
mod scan;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

pub(super) use header::{GroupHeader, LogHeader};
pub(super) use scan::{Scanned, scan};

use super::host::{Access, Host, HostFile};
use crate::{Error, Result};

/// Bytes of the file's header.
pub(super) const HEADER: u64 = 64;
/// Bytes from which an open group takes no more records.
const FULL: usize = 32 << 20;
/// Zeros are written ahead, so that most syncs do not change the file's length.
const FIRST_AHEAD: u64 = 64 << 10;
const MOST_AHEAD: u64 = 2 << 20;

/// A group that is being filled, written, or was.
#[derive(Debug, Default)]
pub(super) struct Group {
    outcome: OnceLock<std::result::Result<Place, Failure>>,
}

/// Why a group is not in the file.
#[derive(Debug, Clone)]
struct Failure {
    message: String,
    is_full: bool,
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure.is_full {
            true => Error::DiskFull(failure.message),
            false => Error::Io(failure.message),
        }
    }
}

/// The end of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) lsn: u64,
    pub(super) chain: u32,
}

#[derive(Debug, Default)]
struct Pending {
    group: Arc<Group>,
    payload: Vec<u8>,
    /// Parts that are not lost with the group.
    kept: Vec<Range<usize>>,
    closed: bool,
}

#[derive(Debug)]
struct State {
    file: Arc<dyn HostFile>,
    first: u64,
    /// Where the last group ends.
    end: Place,
    synced: u64,
    /// Bytes of the file that exist.
    length: u64,
    ahead: u64,
    pending: VecDeque<Pending>,
    /// Whether a thread is writing.
    writing: bool,
    broken: Option<String>,
    /// The root that the file was begun for.
    root: u64,
}

/// The log of a database that is open for writing.
#[derive(Debug)]
pub(super) struct Log {
    host: Arc<dyn Host>,
    path: PathBuf,
    salt: u64,
    state: Mutex<State>,
    changed: Condvar,
    /// Tests leave it out to see that they notice.
    omit_sync: bool,
}

/// Makes an empty log in a file's place.
pub(super) fn create(
    host: &Arc<dyn Host>,
    path: &Path,
    header: &LogHeader,
    live: &[u8],
    sync: bool,
) -> Result<Arc<dyn HostFile>> {
    let temporary = beside(path, ".new");
    let failed = |error| Error::io(error, &format!("writing {}", temporary.display()));
    let file = host.open(&temporary, Access::Truncate).map_err(failed)?;
    file.write_at(&header.encode(), 0).map_err(failed)?;
    file.write_at(live, HEADER).map_err(failed)?;
    if sync {
        file.sync().map_err(failed)?;
    }
    host.rename(&temporary, path)
        .map_err(|error| Error::io(error, &format!("renaming {}", temporary.display())))?;
    Ok(file)
}

/// The path with something after its name.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

impl Log {
    /// A log in a file that begins with a header and has groups up to `end`.
    pub(super) fn new(
        host: &Arc<dyn Host>,
        path: &Path,
        file: Arc<dyn HostFile>,
        header: &LogHeader,
        end: Place,
        omit_sync: bool,
    ) -> Self {
        let LogHeader {
            salt, first, root, ..
        } = *header;
        Self {
            host: Arc::clone(host),
            path: path.to_owned(),
            salt,
            state: Mutex::new(State {
                file,
                first,
                end,
                synced: end.lsn,
                length: HEADER + (end.lsn - first),
                ahead: FIRST_AHEAD,
                pending: VecDeque::new(),
                writing: false,
                broken: None,
                root,
            }),
            changed: Condvar::new(),
            omit_sync,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a record whose author waits for [`flush`](Self::flush) of the group.
    pub(super) fn append(&self, record: &[u8]) -> Result<Arc<Group>> {
        let mut state = self.state();
        state.check()?;
        Ok(state.push(record, false))
    }

    /// Adds a record that is needed by later ones only: nobody waits for it.
    pub(super) fn note(&self, record: &[u8]) {
        self.state().push(record, true);
    }

    /// Ends the open group: what is appended from now on is after the group given.
    pub(super) fn cut(&self) -> Option<Arc<Group>> {
        let mut state = self.state();
        let last = state.pending.back_mut()?;
        last.closed = true;
        Some(Arc::clone(&last.group))
    }

    /// Bytes of groups in the file.
    pub(super) fn bytes(&self) -> u64 {
        let state = self.state();
        state.end.lsn - state.first
    }

    /// Where the last group ends that was written.
    pub(super) fn end(&self) -> Place {
        self.state().end
    }

    /// An error once the log can't be written any more.
    pub(super) fn check(&self) -> Result<()> {
        self.state().check()
    }

    /// Refuses everything from now on.
    pub(super) fn break_off(&self, reason: String) {
        let mut state = self.state();
        state.broken.get_or_insert(reason);
        self.changed.notify_all();
    }

    /// Waits until a group is written, and with `sync` durable; writes it and those before it if nobody else does. Gives where it ends.
    pub(super) fn flush(&self, group: &Arc<Group>, sync: bool) -> Result<Place> {
        let sync = sync && !self.omit_sync;
        let mut state = self.state();
        loop {
            if let Some(outcome) = group.outcome.get() {
                let place = outcome.clone()?;
                if !sync || state.synced >= place.lsn {
                    return Ok(place);
                }
            }
            state.check()?;
            if state.writing {
                state = self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state.writing = true;
            state = self.write_pending(state);
            if sync && state.broken.is_none() && state.synced < state.end.lsn {
                state = self.sync_written(state);
            }
            state.writing = false;
            self.changed.notify_all();
        }
    }

    /// Makes durable what was written.
    pub(super) fn sync(&self) -> Result<()> {
        let last = self.cut();
        if let Some(group) = last {
            return self.flush(&group, true).map(drop);
        }
        let mut state = self.wait_for_writer();
        state.check()?;
        if state.synced < state.end.lsn && !self.omit_sync {
            state.writing = true;
            state = self.sync_written(state);
            state.writing = false;
            self.changed.notify_all();
        }
        state.check()
    }

    /// Ends a log that stays: makes it durable, and says so in a last group without records. From then on what can't be read of it is damage.
    pub(super) fn seal(&self) -> Result<()> {
        self.sync()?;
        let mut state = self.wait_for_writer();
        state.check()?;
        if state.end.lsn == state.first || state.synced < state.end.lsn {
            return Ok(());
        }
        state.pending.push_back(Pending {
            closed: true,
            ..Pending::default()
        });
        state.writing = true;
        state = self.write_pending(state);
        if state.broken.is_none() && state.synced < state.end.lsn {
            state = self.sync_written(state);
        }
        state.writing = false;
        self.changed.notify_all();
        state.check()
    }

    fn wait_for_writer(&self) -> MutexGuard<'_, State> {
        let state = self.state();
        self.changed
            .wait_while(state, |state| state.writing)
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The leader's work: ends when no group waits, or when all that waits are records that were saved. The state is unlocked while it writes.
    fn write_pending<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        while state.broken.is_none()
            && let Some(pending) = state.pending.pop_front()
        {
            let header = GroupHeader::of(&pending.payload, state.end, state.synced, self.salt);
            let mut bytes = header.encode().to_vec();
            bytes.extend_from_slice(&pending.payload);
            bytes.resize(bytes.len().next_multiple_of(8), 0);
            let size = bytes.len() as u64;
            let at = HEADER + (state.end.lsn - state.first);
            let (file, length, ahead) = (Arc::clone(&state.file), state.length, state.ahead);
            drop(state);
            let grown = write_group(&*file, bytes, at, length, ahead);
            state = self.state();
            match grown {
                Ok(length) => {
                    if length > state.length {
                        state.ahead = (2 * state.ahead).min(MOST_AHEAD);
                        state.length = length;
                    }
                    state.end = Place {
                        lsn: state.end.lsn + size,
                        chain: header.checksum,
                    };
                    let _ = pending.group.outcome.set(Ok(state.end));
                }
                Err(error) => {
                    let failure = Failure {
                        message: format!("writing {} failed: {error}", self.path.display()),
                        is_full: is_full(&error),
                    };
                    if !failure.is_full {
                        state.broken = Some(failure.message.clone());
                    }
                    // What is in the file beyond the end is unknown.
                    state.length = at;
                    let _ = pending.group.outcome.set(Err(failure));
                    if state.keep(&pending) == Kept::Alone {
                        break;
                    }
                }
            }
        }
        state
    }

    fn sync_written<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let (file, end) = (Arc::clone(&state.file), state.end.lsn);
        drop(state);
        let synced = file.sync();
        state = self.state();
        match synced {
            Ok(()) => state.synced = state.synced.max(end),
            Err(error) => {
                state.broken = Some(format!("syncing {} failed: {error}", self.path.display()));
            }
        }
        state
    }

    /// Begins a new file with what follows `from`, in the place of the old one. After an error the old one goes on, unless the log broke.
    pub(super) fn rotate(&self, root: u64, from: Place, sync: bool) -> Result<()> {
        let sync = sync && !self.omit_sync;
        let mut state = self.wait_for_writer();
        state.check()?;
        if (state.root, state.first) == (root, from.lsn) {
            return Ok(());
        }
        state.writing = true;
        let (file, end, first) = (Arc::clone(&state.file), state.end, state.first);
        drop(state);
        let made = self.copy_after(&*file, root, from, end, first, sync);
        let mut state = self.state();
        let result = match made {
            Ok(file) => {
                state.file = file;
                state.root = root;
                state.first = from.lsn;
                state.length = HEADER + (end.lsn - from.lsn);
                if sync {
                    state.synced = end.lsn;
                }
                if let Err(error) = if sync {
                    self.host.sync_directory(&self.path)
                } else {
                    Ok(())
                } {
                    // The name may lead to the old file after a crash.
                    state.broken = Some(format!(
                        "syncing the directory of {} failed: {error}",
                        self.path.display()
                    ));
                }
                state.check()
            }
            Err(error) => Err(error),
        };
        state.writing = false;
        self.changed.notify_all();
        result
    }

    fn copy_after(
        &self,
        file: &dyn HostFile,
        root: u64,
        from: Place,
        end: Place,
        first: u64,
        sync: bool,
    ) -> Result<Arc<dyn HostFile>> {
        let length = usize::try_from(end.lsn - from.lsn)
            .map_err(|_| Error::Limit("a log too long for this machine".into()))?;
        let mut live = vec![0; length];
        file.read_at(&mut live, HEADER + (from.lsn - first))
            .map_err(|error| Error::io(error, &format!("reading {}", self.path.display())))?;
        let header = LogHeader {
            salt: self.salt,
            first: from.lsn,
            root,
            chain: from.chain,
        };
        create(&self.host, &self.path, &header, &live, sync)
    }
}

impl State {
    fn check(&self) -> Result<()> {
        match &self.broken {
            None => Ok(()),
            Some(reason) => Err(Error::Broken(reason.clone())),
        }
    }

    fn push(&mut self, record: &[u8], kept: bool) -> Arc<Group> {
        if self
            .pending
            .back()
            .is_none_or(|last| last.closed || last.payload.len() >= FULL)
        {
            self.pending.push_back(Pending::default());
        }
        let last = self.pending.len() - 1;
        let pending = &mut self.pending[last];
        let start = pending.payload.len();
        pending
            .payload
            .extend_from_slice(&(record.len() as u32).to_le_bytes());
        pending.payload.extend_from_slice(record);
        if kept {
            pending.kept.push(start..pending.payload.len());
        }
        Arc::clone(&pending.group)
    }

    /// Saves what is not lost with a group that failed: in front of the next one.
    fn keep(&mut self, failed: &Pending) -> Kept {
        if failed.kept.is_empty() {
            return Kept::WithOthers;
        }
        let mut saved = Pending::default();
        for part in &failed.kept {
            let start = saved.payload.len();
            saved
                .payload
                .extend_from_slice(&failed.payload[part.clone()]);
            saved.kept.push(start..saved.payload.len());
        }
        let Some(next) = self.pending.front_mut() else {
            self.pending.push_back(saved);
            return Kept::Alone;
        };
        let by = saved.payload.len();
        let kept = next.kept.iter();
        saved
            .kept
            .extend(kept.map(|part| part.start + by..part.end + by));
        saved.payload.append(&mut next.payload);
        (next.payload, next.kept) = (saved.payload, saved.kept);
        Kept::WithOthers
    }
}

/// What became of the records that a failed group leaves.
#[derive(Debug, PartialEq, Eq)]
enum Kept {
    /// They are in a group that waits, or there are none.
    WithOthers,
    /// No other group waits.
    Alone,
}

/// Writes a group, with zeros behind it when the file has to grow. Gives the file's length.
fn write_group(
    file: &dyn HostFile,
    mut bytes: Vec<u8>,
    at: u64,
    length: u64,
    ahead: u64,
) -> std::io::Result<u64> {
    let size = bytes.len();
    let end = at + size as u64;
    if end <= length {
        file.write_at(&bytes, at)?;
        return Ok(length);
    }
    bytes.resize(size + ahead as usize, 0);
    match file.write_at(&bytes, at) {
        Ok(()) => Ok(end + ahead),
        Err(error) if is_full(&error) => {
            // There may be room for the group alone.
            file.write_at(&bytes[..size], at)?;
            Ok(end)
        }
        Err(error) => Err(error),
    }
}

/// Whether there is no room on the disk.
pub(super) fn is_full(error: &std::io::Error) -> bool {
    use std::io::ErrorKind;
    matches!(
        error.kind(),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge
    )
}
