//! The arena: page-aligned ranges of frozen memory.
//!
//! ```text
//!   Arena      segment 0 (lane 0)   │live│live│idle│live│ fresh ·············│
//!              segment 1 (lane 1)   │live│idle│ fresh ·······················│
//!
//!   fresh ──allocate──► ArenaRange ──freeze──► FrozenBytes ──last holder──► idle ──► fresh
//!           (pages come by writing) (immutable, shown)       (pages kept)      (given back)
//! ```
//!
//! A range is written once by its only owner ([`ArenaRange`]), frozen, and from then on shown by
//! reference ([`FrozenBytes`], the owner of Arrow buffers) until the last holder is gone. Then its
//! pages are kept for the next range, because new pages cost several times recycled ones, up to a share of
//! the machine's memory, or given back when the budget is short.
//!
//! Invariants:
//! - A byte of a segment belongs to at most one of: a range, the idle set, the fresh set.
//! - Ranges are multiples of the page size, counted in the budget as `Kind::Frozen` from allocation
//!   until the last holder is gone; idle pages count as the budget's idle memory.
//! - A segment lives as long as a range of it, so exports outlive the arena.
//! - **Fork.** A child shares the pages with its parent. A child never allocates, recycles or punches. In
//!   the parent, what was shown when a fork happened is never recycled or punched, because the child may
//!   still read it; it stays counted, and goes with its segment.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use arrow::buffer::Buffer;
use parking_lot::Mutex;

use super::pages;
use super::ranges::RangeSet;
use super::segment::{DISCARDS, LARGEST, SHARED, SMALLEST, Segment};
use crate::memory::{Budget, Kind, Reclaim};
use crate::{Error, Result};

/// The frozen memory of one database.
pub struct Arena {
    budget: Arc<Budget>,
    /// The process that made it.
    process: u32,
    page: usize,
    /// Most bytes kept idle.
    idle_limit: usize,
    pool: Mutex<Pool>,
    /// What is shown, by address.
    shown: Mutex<BTreeMap<usize, Weak<FrozenBytes>>>,
}

impl Arena {
    /// An empty arena; nothing is mapped before the first allocation.
    pub fn new(budget: &Arc<Budget>) -> Result<Arc<Self>> {
        watch_forks()?;
        let arena = Arc::new(Self {
            budget: Arc::clone(budget),
            process: std::process::id(),
            page: pages::size(),
            idle_limit: (physical_memory() / 16).min(IDLE_LIMIT),
            pool: Mutex::new(Pool::default()),
            shown: Mutex::default(),
        });
        let reclaimer: Weak<Arena> = Arc::downgrade(&arena);
        budget.register_reclaimer(reclaimer);
        Ok(arena)
    }

    /// The budget that the arena draws on.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// A range of at least `bytes` bytes for the caller to fill. Callers that write at the same time pass different
    /// `lane`s and get memory of different segments.
    ///
    /// Fails with `OutOfMemory` when the budget does not allow it, with `System` in a forked child.
    pub fn allocate(self: &Arc<Self>, bytes: usize, lane: usize) -> Result<ArenaRange> {
        if std::process::id() != self.process {
            return Err(Error::System(
                "a database can't be used in a forked child process".into(),
            ));
        }
        let len = bytes
            .max(1)
            .checked_next_multiple_of(self.page)
            .ok_or_else(|| Error::Limit(format!("a range of {bytes} bytes")))?;
        let recycled = self.pool.lock().take_idle(len, lane, &self.budget);
        let (segment, offset) = match recycled {
            Some(found) => found,
            None => {
                self.budget.try_charge(Kind::Frozen, len)?;
                let fresh = self.pool.lock().take_fresh(len, lane);
                fresh.inspect_err(|_| self.budget.release(Kind::Frozen, len))?
            }
        };
        let claim = Claim {
            arena: Arc::downgrade(self),
            budget: Arc::clone(&self.budget),
            segment,
            offset,
            len,
        };
        Ok(ArenaRange {
            claim,
            owner_writes: PhantomData,
        })
    }

    /// Who owns the frozen range that a buffer lies in, and where in it that is; `None` if no such range of this arena is shown.
    pub(crate) fn shown(&self, buffer: &Buffer) -> Option<(Arc<FrozenBytes>, usize)> {
        let address = buffer.as_ptr().addr();
        let shown = self.shown.lock();
        let (&start, owner) = shown.range(..=address).next_back()?;
        let owner = owner.upgrade();
        // The last reference may be ours: its drop takes the lock.
        drop(shown);
        let owner = owner?;
        let offset = address - start;
        let fits = offset.checked_add(buffer.len())? <= owner.claim.len;
        fits.then_some((owner, offset))
    }

    /// Takes a range back.
    fn free(&self, segment: &Arc<Segment>, offset: usize, len: usize) {
        if !DISCARDS {
            self.pool.lock().forget(segment);
            self.budget.release(Kind::Frozen, len);
            return;
        }
        let keep = self.budget.idle() + len <= self.idle_limit;
        // The pages are given back before the range can be found again.
        let emptied = !keep && segment.discard(offset, len);
        let mut pool = self.pool.lock();
        match pool.state_of(segment) {
            Some(state) if !emptied => {
                self.budget.retire_to_idle(Kind::Frozen, len);
                state.idle.insert(offset, len);
            }
            Some(state) => {
                self.budget.release(Kind::Frozen, len);
                state.fresh.insert(offset, len);
            }
            None => self.budget.release(Kind::Frozen, len),
        }
    }
}

impl Reclaim for Arena {
    fn reclaim(&self, wanted: usize) -> usize {
        if std::process::id() != self.process {
            return 0;
        }
        let mut returned = 0;
        while returned < wanted {
            let limit = (wanted - returned).next_multiple_of(self.page);
            let found = self.pool.lock().take_largest_idle(limit);
            let Some((segment, offset, len)) = found else {
                break;
            };
            let emptied = segment.discard(offset, len);
            let mut pool = self.pool.lock();
            let Some(state) = pool.state_of(&segment) else {
                break;
            };
            if !emptied {
                state.idle.insert(offset, len);
                break;
            }
            state.fresh.insert(offset, len);
            self.budget.return_idle(len);
            returned += len;
        }
        returned
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let idle: usize = self
            .pool
            .get_mut()
            .segments
            .iter()
            .map(|state| state.idle.bytes())
            .sum();
        self.budget.return_idle(idle);
    }
}

impl std::fmt::Debug for Arena {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Arena")
            .field("budget", &self.budget)
            .finish_non_exhaustive()
    }
}

/// A range that its owner fills.
#[derive(Debug)]
pub struct ArenaRange {
    pub(super) claim: Claim,
    /// One thread at a time writes: `Send`, not `Sync`.
    owner_writes: PhantomData<Cell<()>>,
}

impl ArenaRange {
    /// Number of bytes, a multiple of the page size.
    pub fn len(&self) -> usize {
        self.claim.len
    }

    /// Never: a range has at least a page.
    pub fn is_empty(&self) -> bool {
        self.claim.len == 0
    }

    /// Writes bytes at an offset. What is never written holds unspecified bytes.
    pub fn write_at(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        if offset
            .checked_add(bytes.len())
            .is_none_or(|end| end > self.claim.len)
        {
            return Err(Error::Internal(
                "a write beyond a range of the arena".into(),
            ));
        }
        // SAFETY: within the range, checked above. The range belongs to `self`, which is not shared between
        // threads and has shown its bytes to nobody (`freeze` consumes it).
        let written = unsafe { self.claim.segment.write(self.claim.offset + offset, bytes) };
        written.map_err(|error| self.claim.refused(bytes.len(), &error))
    }

    /// Ends writing: from now on the bytes never change.
    pub fn freeze(self) -> Arc<FrozenBytes> {
        self.claim.freeze()
    }
}

/// A frozen range: the owner of the Arrow buffers in it.
#[derive(Debug)]
pub struct FrozenBytes {
    claim: Claim,
    /// Forks of the process before the range was shown.
    forks: usize,
}

impl FrozenBytes {
    /// A buffer over part of the range, which it keeps alive.
    pub fn buffer(self: &Arc<Self>, offset: usize, len: usize) -> Result<Buffer> {
        if offset
            .checked_add(len)
            .is_none_or(|end| end > self.claim.len)
        {
            return Err(Error::Internal(
                "a buffer beyond a range of the arena".into(),
            ));
        }
        let address: NonNull<u8> = self.claim.segment.address(self.claim.offset + offset);
        // SAFETY: `len` bytes from `address` are mapped as long as the segment lives, which the owner keeps
        // alive, and are not written again before the owner is dropped.
        Ok(unsafe { Buffer::from_custom_allocation(address, len, Arc::clone(self) as _) })
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.claim.len
    }
}

impl Drop for FrozenBytes {
    fn drop(&mut self) {
        // Before the range is free for others. A forked child has none to give back, and its lock may be held by a thread that it has not.
        if let Some(arena) = self.claim.arena.upgrade()
            && std::process::id() == arena.process
        {
            arena.shown.lock().remove(&self.claim.address());
        }
        if SHARED && self.forks != FORKS.load(Ordering::SeqCst) {
            self.claim.pin();
        }
    }
}

// The owner of a buffer may be dropped during unwinding; dropping takes a lock that does not poison.
impl std::panic::RefUnwindSafe for FrozenBytes {}

/// The right to a range of a segment; dropping it gives the range back.
pub(super) struct Claim {
    arena: Weak<Arena>,
    budget: Arc<Budget>,
    pub(super) segment: Arc<Segment>,
    pub(super) offset: usize,
    /// Zero once pinned.
    pub(super) len: usize,
}

impl Claim {
    /// Gives up the right without giving the range back: a forked child may read it.
    pub(super) fn pin(&mut self) {
        self.len = 0;
    }

    fn address(&self) -> usize {
        self.segment.address(self.offset).addr().get()
    }

    /// Shows the bytes, which never change from now on.
    pub(super) fn freeze(self) -> Arc<FrozenBytes> {
        let arena = self.arena.upgrade();
        let address = self.address();
        let frozen = Arc::new(FrozenBytes {
            claim: self,
            forks: FORKS.load(Ordering::SeqCst),
        });
        if let Some(arena) = arena {
            arena.shown.lock().insert(address, Arc::downgrade(&frozen));
        }
        frozen
    }

    /// A failure to fill the range.
    pub(super) fn refused(&self, bytes: usize, error: &std::io::Error) -> Error {
        match error.kind() {
            ErrorKind::OutOfMemory | ErrorKind::StorageFull => {
                let used = self.budget.usage().frozen;
                Error::OutOfMemory {
                    requested: bytes,
                    used,
                    limit: used,
                }
            }
            ErrorKind::FileTooLarge => {
                Error::DiskFull(format!("writing to memory failed: {error}"))
            }
            _ => Error::System(format!("writing to memory failed: {error}")),
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let Some(arena) = self.arena.upgrade() else {
            // The arena is gone: the pages go with the segment's last range, the count goes now.
            self.budget.release(Kind::Frozen, self.len);
            return;
        };
        if self.len > 0 && std::process::id() == arena.process {
            arena.free(&self.segment, self.offset, self.len);
        }
    }
}

impl std::fmt::Debug for Claim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Claim")
            .field("offset", &self.offset)
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

/// The segments of an arena and what is free in them.
#[derive(Default)]
struct Pool {
    segments: Vec<SegmentState>,
}

struct SegmentState {
    segment: Arc<Segment>,
    lane: usize,
    /// Free ranges with pages.
    idle: RangeSet,
    /// Free ranges without pages.
    fresh: RangeSet,
}

/// Most bytes that any arena keeps idle.
const IDLE_LIMIT: usize = 2 << 30;

/// Segments that are filled at the same time; callers' lanes are taken modulo this.
const LANES: usize = 8;

impl Pool {
    /// A range with pages, from the caller's lane if it can be; turns idle bytes of the budget into used ones.
    fn take_idle(
        &mut self,
        len: usize,
        lane: usize,
        budget: &Budget,
    ) -> Option<(Arc<Segment>, usize)> {
        if budget.idle() < len || budget.is_exceeded() {
            return None;
        }
        let lane = lane % LANES;
        for own in [true, false] {
            for state in self
                .segments
                .iter_mut()
                .filter(|state| (state.lane == lane) == own)
            {
                if let Some(offset) = state.idle.take(len) {
                    budget.reuse_idle(Kind::Frozen, len);
                    return Some((Arc::clone(&state.segment), offset));
                }
            }
        }
        None
    }

    /// A range without pages, from a new segment where need be.
    fn take_fresh(&mut self, len: usize, lane: usize) -> Result<(Arc<Segment>, usize)> {
        let lane = lane % LANES;
        for state in self.segments.iter_mut().filter(|state| state.lane == lane) {
            if let Some(offset) = state.fresh.take(len) {
                return Ok((Arc::clone(&state.segment), offset));
            }
        }
        let mapped: usize = self.segments.iter().map(|state| state.segment.len()).sum();
        let size = mapped.next_power_of_two().clamp(SMALLEST, LARGEST).max(len);
        let segment = Arc::new(Segment::create(size)?);
        self.segments.push(SegmentState {
            segment: Arc::clone(&segment),
            lane,
            idle: RangeSet::default(),
            fresh: RangeSet::of(len, size - len),
        });
        Ok((segment, 0))
    }

    /// The largest idle range, cut to `limit`; it is in neither set until the caller puts it back.
    fn take_largest_idle(&mut self, limit: usize) -> Option<(Arc<Segment>, usize, usize)> {
        let state = self
            .segments
            .iter_mut()
            .max_by_key(|state| state.idle.bytes())?;
        let (offset, len) = state.idle.take_largest(limit)?;
        Some((Arc::clone(&state.segment), offset, len))
    }

    fn state_of(&mut self, segment: &Arc<Segment>) -> Option<&mut SegmentState> {
        self.segments
            .iter_mut()
            .find(|state| Arc::ptr_eq(&state.segment, segment))
    }

    /// Drops a segment from the pool; it ends with its last range.
    fn forget(&mut self, segment: &Arc<Segment>) {
        self.segments
            .retain(|state| !Arc::ptr_eq(&state.segment, segment));
    }
}

/// Forks of this process since the first arena.
static FORKS: AtomicUsize = AtomicUsize::new(0);

/// Counts forks before they happen: a range freed by another thread during the fork is either gone for
/// the child too or pinned.
#[cfg(all(unix, not(miri)))]
fn watch_forks() -> Result<()> {
    extern "C" fn before_fork() {
        FORKS.fetch_add(1, Ordering::SeqCst);
    }
    static REGISTERED: std::sync::OnceLock<i32> = std::sync::OnceLock::new();
    let result = *REGISTERED.get_or_init(|| {
        // SAFETY: registers functions that live as long as the program and only touch an atomic each.
        unsafe { libc::pthread_atfork(Some(before_fork), None, Some(super::segment::after_fork)) }
    });
    if result != 0 {
        return Err(Error::System(format!(
            "pthread_atfork failed with {result}"
        )));
    }
    Ok(())
}

/// Nothing forks here.
#[cfg(not(all(unix, not(miri))))]
fn watch_forks() -> Result<()> {
    Ok(())
}

fn physical_memory() -> usize {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        // SAFETY: reads a constant of the system.
        let pages = unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) };
        if let Ok(count) = usize::try_from(pages) {
            return count.saturating_mul(pages::size());
        }
    }
    1 << 30
}
