//! The heap of a hot variable-length column: append-only buffers that are freed when nothing in them lives.
//!
//! ```text
//!   view  ┌ length ┬ prefix ┬ buffer ┬ offset ┐      (12 bytes or less: inline)
//!                               │        └────────┐
//!   buffers  0 [frozen heap, adopted]  1 [sealed] 2 [open ▒▒▒▒───]
//! ```
//!
//! Invariants:
//! - Bytes below `used` never change; those above belong to the writers that reserved them.
//! - `live` counts the bytes that views in cells and before-images refer to, each value once; it is raised *before* bytes are reserved, so a
//!   sealed buffer whose count is zero has no writer and will have none.
//! - A buffer leaves the directory, and its number is used again, only when every operation that ran when its count
//!   fell to zero has ended: until then somebody may hold a view that he will not follow.
//! - Readers look buffers up after they have patched, so each view that they follow is of a version that they see, hence counted.

use std::alloc::{self, Layout};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use arrow::buffer::Buffer;
use parking_lot::Mutex;

use super::directory::Directory;
use crate::memory::{Budget, Kind, Reservation};
use crate::reclaim::{Pin, Reclaimer};
use crate::{Error, Result};

const INLINE: usize = 12;
const SMALLEST: usize = 1 << 10;
const LARGEST: usize = 1 << 20;
const SEALED: usize = 1 << (usize::BITS - 1);

/// A view's length.
#[inline]
pub(crate) fn view_length(view: [u64; 2]) -> usize {
    view[0] as u32 as usize
}

/// A view's buffer and offset; `None` when the value is inline.
#[inline]
pub(crate) fn view_place(view: [u64; 2]) -> Option<(u32, usize)> {
    (view_length(view) > INLINE).then_some((view[1] as u32, (view[1] >> 32) as usize))
}

fn inline_view(bytes: &[u8]) -> [u64; 2] {
    let mut view = [0; 16];
    view[..4].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
    view[4..4 + bytes.len()].copy_from_slice(bytes);
    words_of(u128::from_le_bytes(view))
}

fn long_view(bytes: &[u8], number: u32, offset: usize) -> [u64; 2] {
    let mut prefix = [0; 4];
    prefix.copy_from_slice(&bytes[..4]);
    [
        bytes.len() as u64 | (u64::from(u32::from_le_bytes(prefix)) << 32),
        u64::from(number) | ((offset as u64) << 32),
    ]
}

/// A view as its two words.
pub(crate) fn words_of(view: u128) -> [u64; 2] {
    [view as u64, (view >> 64) as u64]
}

enum Memory {
    Own { start: *mut u8, layout: Layout },
    Adopted(Buffer),
}

struct HeapBuffer {
    number: u32,
    memory: Memory,
    /// Bytes given out, and whether no more are.
    used: AtomicUsize,
    live: AtomicUsize,
    retired: AtomicBool,
    _reservation: Option<Reservation>,
}

// SAFETY: bytes are written by the one writer that reserved them, before any view leads there.
unsafe impl Send for HeapBuffer {}
// SAFETY: as above.
unsafe impl Sync for HeapBuffer {}

impl HeapBuffer {
    fn capacity(&self) -> usize {
        match &self.memory {
            Memory::Own { layout, .. } => layout.size(),
            Memory::Adopted(buffer) => buffer.len(),
        }
    }

    fn start(&self) -> *const u8 {
        match &self.memory {
            Memory::Own { start, .. } => start.cast_const(),
            Memory::Adopted(buffer) => buffer.as_ptr(),
        }
    }

    fn reserve(&self, length: usize) -> Option<usize> {
        self.used
            .fetch_update(Ordering::SeqCst, Ordering::Relaxed, |used| {
                (used & SEALED == 0 && length <= self.capacity() - used).then(|| used + length)
            })
            .ok()
    }

    fn is_sealed(&self) -> bool {
        self.used.load(Ordering::SeqCst) & SEALED != 0
    }
}

impl Drop for HeapBuffer {
    fn drop(&mut self) {
        if let Memory::Own { start, layout } = self.memory {
            // SAFETY: allocated with this layout in `Heap::grow`.
            unsafe { alloc::dealloc(start, layout) };
        }
    }
}

#[derive(Default)]
struct Numbers {
    next: u32,
    free: Vec<u32>,
    /// The buffer that is appended to.
    open: Option<u32>,
    /// Capacity of the next buffer.
    size: usize,
}

/// The heap of one column of one block.
pub(crate) struct Heap {
    buffers: Directory<HeapBuffer>,
    /// Number of the open buffer plus one; zero for none.
    open: AtomicUsize,
    numbers: Mutex<Numbers>,
    capacity: AtomicUsize,
    /// An epoch that has to pass before values are moved again.
    moved: AtomicUsize,
    budget: Arc<Budget>,
    reclaimer: Weak<Reclaimer>,
}

impl Heap {
    pub(crate) fn new(budget: &Arc<Budget>, reclaimer: &Arc<Reclaimer>) -> Arc<Self> {
        Arc::new(Self {
            buffers: Directory::new(),
            open: AtomicUsize::new(0),
            numbers: Mutex::new(Numbers {
                size: SMALLEST,
                ..Numbers::default()
            }),
            capacity: AtomicUsize::new(0),
            moved: AtomicUsize::new(0),
            budget: Arc::clone(budget),
            reclaimer: Arc::downgrade(reclaimer),
        })
    }

    /// Takes over the buffers of a frozen column that is being thawed, under their numbers; `live` has the bytes that views
    /// refer to in each. Before anything else is done with the heap.
    pub(crate) fn adopt(&self, buffers: &[Buffer], live: &[usize]) {
        let mut numbers = self.numbers.lock();
        for (buffer, &live) in buffers.iter().zip(live) {
            let number = numbers.next;
            numbers.next += 1;
            let buffer = HeapBuffer {
                number,
                memory: Memory::Adopted(buffer.clone()),
                used: AtomicUsize::new(SEALED | buffer.len()),
                live: AtomicUsize::new(live),
                retired: AtomicBool::new(false),
                _reservation: None,
            };
            self.buffers.put(number, Box::into_raw(Box::new(buffer)));
        }
    }

    /// Stores a value and gives its view. Until the view is released it is counted as live.
    pub(crate) fn append(self: &Arc<Self>, bytes: &[u8], pin: &Pin<'_>) -> Result<[u64; 2]> {
        if bytes.len() <= INLINE {
            return Ok(inline_view(bytes));
        }
        if i32::try_from(bytes.len()).is_err() {
            return Err(Error::Limit(format!(
                "a value of {} bytes exceeds the limit of 2 GiB",
                bytes.len()
            )));
        }
        loop {
            let open = self.open.load(Ordering::Acquire);
            let buffer = match open {
                0 => None,
                open => self.buffers.get(open as u32 - 1, pin),
            };
            if let Some(buffer) = buffer {
                buffer.live.fetch_add(bytes.len(), Ordering::SeqCst);
                if let Some(offset) = buffer.reserve(bytes.len()) {
                    if let Memory::Own { start, .. } = buffer.memory {
                        // SAFETY: the range was reserved for us alone and lies in the buffer.
                        unsafe {
                            start
                                .add(offset)
                                .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
                        }
                    }
                    return Ok(long_view(bytes, buffer.number, offset));
                }
                self.release_bytes(buffer, bytes.len());
            }
            self.grow(open, bytes.len(), pin)?;
        }
    }

    /// Opens another buffer, unless somebody else did.
    fn grow(self: &Arc<Self>, seen: usize, length: usize, pin: &Pin<'_>) -> Result<()> {
        let mut numbers = self.numbers.lock();
        if self.open.load(Ordering::Acquire) != seen {
            return Ok(());
        }
        let capacity = numbers.size.max(length);
        let reservation = self.budget.reserve(Kind::Hot, capacity)?;
        let layout = Layout::from_size_align(capacity, 8)
            .map_err(|_| Error::Limit(format!("a value of {length} bytes")))?;
        // SAFETY: the layout has a size.
        let start = unsafe { alloc::alloc(layout) };
        if start.is_null() {
            return Err(Error::System(format!(
                "the operating system refused {capacity} bytes of memory"
            )));
        }
        let number = numbers.free.pop().unwrap_or_else(|| {
            numbers.next += 1;
            numbers.next - 1
        });
        numbers.size = (numbers.size * 2).min(LARGEST);
        let buffer = HeapBuffer {
            number,
            memory: Memory::Own { start, layout },
            used: AtomicUsize::new(0),
            live: AtomicUsize::new(0),
            retired: AtomicBool::new(false),
            _reservation: Some(reservation),
        };
        self.capacity.fetch_add(capacity, Ordering::Relaxed);
        self.buffers.put(number, Box::into_raw(Box::new(buffer)));
        let sealed = numbers.open.replace(number);
        self.open.store(number as usize + 1, Ordering::Release);
        drop(numbers);
        if let Some(sealed) = sealed.and_then(|sealed| self.buffers.get(sealed, pin)) {
            self.seal(sealed);
        }
        Ok(())
    }

    fn seal(self: &Arc<Self>, buffer: &HeapBuffer) {
        buffer.used.fetch_or(SEALED, Ordering::SeqCst);
        self.release_bytes(buffer, 0);
    }

    fn release_bytes(self: &Arc<Self>, buffer: &HeapBuffer, bytes: usize) {
        let before = buffer.live.fetch_sub(bytes, Ordering::SeqCst);
        invariant!(before >= bytes, "a value was released twice");
        let left = before.wrapping_sub(bytes);
        if left != 0 || !buffer.is_sealed() || buffer.retired.swap(true, Ordering::AcqRel) {
            return;
        }
        let Some(reclaimer) = self.reclaimer.upgrade() else {
            return;
        };
        let heap = Arc::clone(self);
        let number = buffer.number;
        reclaimer.retire(Box::new(move || heap.free(number)));
    }

    /// Frees a buffer that nothing lives in and that nobody looks at.
    fn free(&self, number: u32) {
        let mut numbers = self.numbers.lock();
        if let Some(buffer) = self.buffers.take(number) {
            if matches!(buffer.get().memory, Memory::Own { .. }) {
                self.capacity
                    .fetch_sub(buffer.get().capacity(), Ordering::Relaxed);
            }
            numbers.free.push(number);
        }
    }

    /// A value that no cell and no before-image refers to any more. Its bytes may be read until the caller's pin is gone.
    pub(crate) fn release(self: &Arc<Self>, view: [u64; 2], pin: &Pin<'_>) {
        if let Some((number, _)) = view_place(view)
            && let Some(buffer) = self.buffers.get(number, pin)
        {
            self.release_bytes(buffer, view_length(view));
        }
    }

    /// The bytes of a long value.
    #[inline]
    pub(crate) fn bytes<'g>(&self, view: [u64; 2], pin: &'g Pin<'_>) -> Result<&'g [u8]> {
        let lost = || Error::Internal("a view leads to no buffer".into());
        let (number, offset) = view_place(view).ok_or_else(lost)?;
        let buffer = self.buffers.get(number, pin).ok_or_else(lost)?;
        if offset + view_length(view) > buffer.capacity() {
            return Err(lost());
        }
        // SAFETY: in bounds; a value's bytes are written before its view is stored, and never after. The buffer
        // is freed an epoch after the value's release, and the caller is pinned.
        Ok(unsafe { std::slice::from_raw_parts(buffer.start().add(offset), view_length(view)) })
    }

    /// As [`bytes`](Self::bytes) for many values: each buffer is looked up once.
    pub(crate) fn reader<'h, 'e>(&'h self, pin: &'h Pin<'e>) -> HeapReader<'h, 'e> {
        HeapReader {
            heap: self,
            pin,
            found: Vec::new(),
        }
    }

    /// Bytes of its own buffers.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity.load(Ordering::Relaxed)
    }

    /// Prepares to move values out of buffers that hold mostly garbage; gives the numbers of those buffers, sealed.
    /// None when the heap's garbage does not exceed what lives, or the epoch of the last move has not passed.
    pub(crate) fn begin_moving(self: &Arc<Self>, pin: &Pin<'_>) -> Vec<u32> {
        let capacity = self.capacity.load(Ordering::Relaxed);
        let Some(reclaimer) = self.reclaimer.upgrade() else {
            return Vec::new();
        };
        if capacity < LARGEST / 8 || self.moved.load(Ordering::Relaxed) as u64 > reclaimer.passed()
        {
            return Vec::new();
        }
        let numbers = self.numbers.lock();
        let own: Vec<&HeapBuffer> = (0..numbers.next)
            .filter_map(|number| self.buffers.get(number, pin))
            .filter(|buffer| matches!(buffer.memory, Memory::Own { .. }) && buffer.is_sealed())
            .collect();
        let (live, total) = own.iter().fold((0, 0), |(live, total), buffer| {
            (
                live + buffer.live.load(Ordering::SeqCst),
                total + buffer.capacity(),
            )
        });
        if total <= 2 * live {
            return Vec::new();
        }
        own.iter()
            .filter(|buffer| 2 * buffer.live.load(Ordering::SeqCst) < buffer.capacity())
            .map(|buffer| buffer.number)
            .collect()
    }

    /// Ends moving: values are not moved again before the current epoch has passed.
    pub(crate) fn end_moving(&self) {
        if let Some(reclaimer) = self.reclaimer.upgrade() {
            self.moved
                .store(reclaimer.advance() as usize, Ordering::Relaxed);
        }
    }
}

/// Reads values of a heap under one pin.
pub(crate) struct HeapReader<'h, 'e> {
    heap: &'h Heap,
    pin: &'h Pin<'e>,
    /// Buffers by number, where they were asked for.
    found: Vec<Option<&'h HeapBuffer>>,
}

impl<'h> HeapReader<'h, '_> {
    /// The bytes of a long value that was live when the pin began, or later.
    #[inline]
    pub(crate) fn bytes(&mut self, view: [u64; 2]) -> Result<&'h [u8]> {
        let lost = || Error::Internal("a view leads to no buffer".into());
        let (number, offset) = view_place(view).ok_or_else(lost)?;
        let buffer = match self.found.get(number as usize) {
            Some(&Some(buffer)) => buffer,
            _ => self.find(number).ok_or_else(lost)?,
        };
        if offset + view_length(view) > buffer.capacity() {
            return Err(lost());
        }
        // SAFETY: as in `Heap::bytes`.
        Ok(unsafe { std::slice::from_raw_parts(buffer.start().add(offset), view_length(view)) })
    }

    #[cold]
    fn find(&mut self, number: u32) -> Option<&'h HeapBuffer> {
        let buffer = self.heap.buffers.get(number, self.pin)?;
        let at = number as usize;
        if self.found.len() <= at {
            self.found.resize(at + 1, None);
        }
        self.found[at] = Some(buffer);
        Some(buffer)
    }
}
