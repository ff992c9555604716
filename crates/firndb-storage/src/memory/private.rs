//! Memory of one user: frozen values back to back, writable without harm.
//!
//! ```text
//!   extent 0      ▒▒▒▒▒▒▒▒▒▒    extent 1   ▒▒▒▒▒▒    hot rows ░
//!                 │ map                    │ map         │ copy
//!   PrivateMemory ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒░░             one range of addresses
//! ```
//!
//! The pages of frozen memory are mapped privately one after the other into a reserved range (the memory rewiring
//! of the MonetDBLite paper), so a whole column is one array without a copy, and the kernel copies a page when its user
//! writes to it. Bytes that no page can show are copied into anonymous pages of the same range: pieces too small to be
//! worth a mapping, pieces that lie differently within their pages, the ends of pieces that share a page with others.
//!
//! Invariants:
//! - A private page shows the arena's page until it is written to. The memory therefore holds the buffers that it maps: their ranges
//!   are neither recycled nor punched before it is unmapped.
//! - The mappings of a process are bounded by the kernel (`vm.max_map_count`). Half of them are a budget for all private
//!   memory; beyond it everything is copied. Small memory comes from the allocator and needs none.
//! - **Fork.** A child unmaps its own copy of the range only; what it shows stays pinned as the arena says.

use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::buffer::{Buffer, MutableBuffer};
use arrow::datatypes::ArrowNativeType;

use super::pages::{self, Pages};
use super::segment::Segment;
use crate::{Error, Result};

/// From this size on memory is mapped pages; below, the allocator is cheaper.
const MAPPED_BYTES: usize = 256 << 10;
/// Pieces with fewer bytes of whole pages are copied.
const WORTH_MAPPING: usize = 64 << 10;
/// Copies from this size on are shared by threads, a part of this size at a time.
const BYTES_AT_ONCE: usize = 1 << 20;

/// Bytes that belong to their owner alone, though they may show frozen memory until they are written to.
pub struct PrivateMemory {
    /// Before `shown`: unmapped before what it shows is given back.
    backing: Backing,
    /// Where the bytes begin in the backing.
    start: usize,
    len: usize,
    /// Mappings of frozen pages.
    mappings: usize,
    /// What is mapped.
    shown: Vec<Buffer>,
}

enum Backing {
    Pages(Pages),
    Heap(HeapBytes),
}

/// Whether a buffer shows frozen memory: nobody can write to it, whatever they were given.
pub fn is_frozen(buffer: &Buffer) -> bool {
    Segment::holding(buffer).is_some()
}

/// Bytes of the allocator.
struct HeapBytes(MutableBuffer);

impl HeapBytes {
    fn zeroed(len: usize) -> Self {
        Self(MutableBuffer::from_len_zeroed(len))
    }

    fn data(&self) -> NonNull<u8> {
        // What Arrow has for an empty buffer is no null pointer either.
        NonNull::new(self.0.as_ptr().cast_mut()).unwrap_or(NonNull::dangling())
    }
}

// SAFETY: the memory is owned and only reached through `&self` (reads) and `&mut self` (writes); frozen pages that it shows
// never change.
unsafe impl Send for PrivateMemory {}
// SAFETY: as above.
unsafe impl Sync for PrivateMemory {}

impl PrivateMemory {
    /// Memory of zeros.
    pub fn zeroed(len: usize) -> Result<Self> {
        Self::reserve(0, len)
    }

    /// The bytes of `pieces` one after the other: mapped where they are frozen memory that can be, else copied, on up to
    /// `threads` threads.
    pub fn joined(pieces: &[Buffer], threads: usize) -> Result<Self> {
        let len = pieces.iter().map(Buffer::len).sum();
        let runs = if len < MAPPED_BYTES {
            Vec::new()
        } else {
            frozen_runs(pieces)
        };
        let mut memory = Self::reserve(best_start(&runs), len)?;
        let mapped = match memory.map(&runs) {
            Some(mapped) => mapped,
            None => {
                memory = Self::reserve(0, len)?;
                Vec::new()
            }
        };
        if !mapped.is_empty() {
            let frozen = pieces.iter().filter(|piece| is_frozen(piece));
            memory.shown = frozen.cloned().collect();
        }
        memory.copy(pieces, &mapped, threads);
        Ok(memory)
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Mappings of frozen pages in it; 0 when all was copied.
    pub fn mappings(&self) -> usize {
        self.mappings
    }

    /// The first byte. Valid, and writable by whoever owns the memory, as long as the memory lives.
    pub fn as_ptr(&self) -> NonNull<u8> {
        let base = match &self.backing {
            Backing::Pages(pages) => pages.base(),
            Backing::Heap(bytes) => bytes.data(),
        };
        // SAFETY: the bytes begin within the backing.
        unsafe { base.add(self.start) }
    }

    /// The bytes as values to be written. Panics when they are not aligned for, or no multiple of, the type.
    pub fn values_mut<T: ArrowNativeType>(&mut self) -> &mut [T] {
        let start = self.as_ptr().cast::<T>();
        assert!(start.is_aligned() && self.len.is_multiple_of(size_of::<T>()));
        // SAFETY: `len` bytes from `start` are ours alone, as we are borrowed mutably; they are initialised (zeros, or
        // what was joined), and every bit pattern is a value of a native type.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), self.len / size_of::<T>()) }
    }

    fn reserve(start: usize, len: usize) -> Result<Self> {
        let backing = if len < MAPPED_BYTES {
            Backing::Heap(HeapBytes::zeroed(len))
        } else {
            let bytes = start.checked_add(len).ok_or_else(|| out_of_memory(len))?;
            Backing::Pages(Pages::reserve(bytes).ok_or_else(|| out_of_memory(len))?)
        };
        Ok(Self {
            backing,
            start,
            len,
            mappings: 0,
            shown: Vec::new(),
        })
    }

    /// Maps the whole pages of the runs that lie alike; gives what was mapped as ranges of our bytes, in order. `None` when
    /// the system refuses: then the memory is of no use.
    fn map(&mut self, runs: &[Run<'_>]) -> Option<Vec<(usize, usize)>> {
        let Backing::Pages(pages) = &mut self.backing else {
            return Some(Vec::new());
        };
        let page = pages::size();
        let mut mapped = Vec::new();
        for run in runs {
            // Positions in the backing.
            let (from, to) = (self.start + run.at, self.start + run.at + run.len);
            let (first, last) = (from.next_multiple_of(page), to - to % page);
            if from % page != run.offset % page || last < first + WORTH_MAPPING {
                continue;
            }
            if !take_mapping() {
                break;
            }
            let offset = run.offset + (first - from);
            // SAFETY: the pages from `offset` on are frozen memory of the segment that `pieces` holds, and we hold it until
            // they are unmapped; the place is reserved and holds nothing yet.
            if !unsafe { pages.show(first, last - first, run.segment, offset) } {
                give_mappings_back(1);
                return None;
            }
            self.mappings += 1;
            mapped.push((first - self.start, last - self.start));
        }
        Some(mapped)
    }

    /// Copies all bytes outside the `mapped` ranges.
    fn copy(&mut self, pieces: &[Buffer], mapped: &[(usize, usize)], threads: usize) {
        let target = self.values_mut::<u8>();
        let mut parts: Vec<(&[u8], &mut [u8])> = Vec::new();
        let (mut rest, mut at) = (target, 0);
        let mut shown = mapped.iter().peekable();
        for piece in pieces {
            let mut source = piece.as_slice();
            while !source.is_empty() {
                while shown.peek().is_some_and(|range| range.1 <= at) {
                    shown.next();
                }
                let (count, copied) = match shown.peek() {
                    Some(&&(from, to)) if from <= at => (source.len().min(to - at), false),
                    Some(&&(from, _)) => (source.len().min(from - at).min(BYTES_AT_ONCE), true),
                    None => (source.len().min(BYTES_AT_ONCE), true),
                };
                let (part, left) = source.split_at(count);
                let (into, beyond) = std::mem::take(&mut rest).split_at_mut(count);
                if copied {
                    parts.push((part, into));
                }
                (source, rest, at) = (left, beyond, at + count);
            }
        }
        let bytes: usize = parts.iter().map(|(part, _)| part.len()).sum();
        let threads = threads.min(bytes / BYTES_AT_ONCE);
        if threads <= 1 {
            parts
                .into_iter()
                .for_each(|(part, into)| into.copy_from_slice(part));
            return;
        }
        let parts = Mutex::new(parts.into_iter());
        let work = || {
            loop {
                let Some((part, into)) = parts.lock().ok().and_then(|mut parts| parts.next())
                else {
                    return;
                };
                into.copy_from_slice(part);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads {
                // Fewer threads do the same work.
                let _ = std::thread::Builder::new().spawn_scoped(scope, work);
            }
            work();
        });
    }
}

impl Drop for PrivateMemory {
    fn drop(&mut self) {
        give_mappings_back(self.mappings);
    }
}

impl std::fmt::Debug for PrivateMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PrivateMemory")
            .field("len", &self.len)
            .field("mappings", &self.mappings)
            .finish_non_exhaustive()
    }
}

/// Neighbouring pieces of one segment.
struct Run<'a> {
    /// Where its bytes go.
    at: usize,
    len: usize,
    segment: pages::Source<'a>,
    /// Where its bytes lie in the segment.
    offset: usize,
}

/// The pieces that are frozen memory, neighbours joined.
fn frozen_runs(pieces: &[Buffer]) -> Vec<Run<'_>> {
    let mut runs: Vec<Run<'_>> = Vec::new();
    let mut at = 0;
    for piece in pieces {
        if let Some((segment, offset)) = Segment::holding(piece) {
            match runs.last_mut() {
                Some(last)
                    if last.segment == segment
                        && last.offset + last.len == offset
                        && last.at + last.len == at =>
                {
                    last.len += piece.len();
                }
                _ => runs.push(Run {
                    at,
                    len: piece.len(),
                    segment,
                    offset,
                }),
            }
        }
        at += piece.len();
    }
    runs
}

/// Where in its first page memory has to begin for the most bytes to lie in it as they do in theirs.
fn best_start(runs: &[Run<'_>]) -> usize {
    let page = pages::size();
    let mut bytes: HashMap<usize, usize> = HashMap::new();
    for run in runs.iter().filter(|run| run.len >= WORTH_MAPPING) {
        let start = (run.offset % page + page - run.at % page) % page;
        *bytes.entry(start).or_default() += run.len;
    }
    let most = bytes
        .into_iter()
        .max_by_key(|&(start, bytes)| (bytes, std::cmp::Reverse(start)));
    most.map_or(0, |(start, _)| start)
}

/// Mappings of frozen pages in all private memory.
static MAPPINGS: AtomicUsize = AtomicUsize::new(0);

/// Whether one more mapping fits the process' budget. Each may cut the reserved range in two, hence the quarter.
fn take_mapping() -> bool {
    let most = pages::most_mappings() / 4;
    MAPPINGS
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
            (taken < most).then_some(taken + 1)
        })
        .is_ok()
}

fn give_mappings_back(count: usize) {
    MAPPINGS.fetch_sub(count, Ordering::Relaxed);
}

fn out_of_memory(bytes: usize) -> Error {
    Error::OutOfMemory {
        requested: bytes,
        used: 0,
        limit: 0,
    }
}
