//! Undo records: before-images in a transaction's undo buffer.
//!
//! ```text
//!   UndoBuffer: segment (4 KiB) ── segment (64 KiB) ── …          from a pool, never moved while linked
//!                 │
//!                 └ UndoRecord │ Link │ slot, shape, kind │ null words │ value words …
//! ```
//!
//! Invariants:
//! - A record is complete before it is installed and does not change afterwards, but for its link and `unlinked`, which is the
//!   collector's.
//! - A segment goes back to the pool when all its records are unlinked and an epoch has passed.

use std::alloc::{self, Layout};
use std::collections::HashMap;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, RwLock};

use crate::block::cells::{Physical, Value};
use crate::memory::{Budget, Kind, Reservation};
use crate::protocol::{Link, Linked, Standard, Status};
use crate::slot::Slot;
use crate::{Error, Result};

/// What a record says about the version before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Change {
    /// The row was not there.
    Insert,
    /// Another row was there, which is buried (compaction).
    Refill,
    /// The columns of the shape had other values.
    Update,
    /// The row was there.
    Delete,
}

/// A column in the image of a shape.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part {
    /// The column's number in the table.
    pub(crate) column: usize,
    /// Its first word in the image.
    word: usize,
    words: usize,
}

/// Which columns an update changed, and where their before-images lie. Shared by all records of a table that change the same
/// columns, and kept as long as the table.
#[derive(Debug)]
pub(crate) struct Shape {
    parts: Box<[Part]>,
    words: usize,
}

impl Shape {
    /// The shape of columns, given by number and physical type.
    pub(crate) fn new(columns: &[(usize, Physical)]) -> Self {
        let mut word = columns.len().div_ceil(64);
        let parts = columns
            .iter()
            .map(|&(column, physical)| {
                let part = Part {
                    column,
                    word,
                    words: physical.words(),
                };
                word += part.words;
                part
            })
            .collect();
        Self { parts, words: word }
    }

    /// Its columns.
    pub(crate) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Whether every column of `self` is in `covered`.
    pub(crate) fn is_within(&self, covered: &[usize]) -> bool {
        self.parts.iter().all(|part| covered.contains(&part.column))
    }
}

/// The shapes of a table.
#[derive(Debug, Default)]
pub(crate) struct Shapes(RwLock<HashMap<Box<[usize]>, Arc<Shape>>>);

impl Shapes {
    /// The shape of these columns.
    pub(crate) fn get(
        &self,
        columns: &[usize],
        physical: impl Fn(usize) -> Physical,
    ) -> Arc<Shape> {
        if let Some(shape) = self.0.read().get(columns) {
            return Arc::clone(shape);
        }
        let typed: Vec<_> = columns
            .iter()
            .map(|&column| (column, physical(column)))
            .collect();
        Arc::clone(
            self.0
                .write()
                .entry(columns.into())
                .or_insert_with(|| Arc::new(Shape::new(&typed))),
        )
    }
}

/// An undo record. Its image follows it in memory.
#[repr(C, align(16))]
pub(crate) struct UndoRecord {
    /// First, so that a pointer to the link is a pointer to the record.
    link: Link<Standard>,
    pub(crate) slot: Slot,
    shape: *const Shape,
    /// The table: a position in the transaction's list.
    pub(crate) table: u32,
    bytes: u32,
    pub(crate) change: Change,
    unlinked: AtomicBool,
}

const HEADER: usize = size_of::<UndoRecord>();
const _: () = assert!(HEADER == 64 && align_of::<UndoRecord>() == 16);

impl UndoRecord {
    /// The whole record that a link belongs to.
    #[inline]
    pub(crate) fn of<'g>(link: Linked<'g, Standard>) -> &'g UndoRecord {
        // SAFETY: every link of the running system is the first field of a record made by `UndoBuffer::reserve`, and
        // the pointer was made from one to the record.
        unsafe { &*link.pointer().cast::<UndoRecord>() }
    }

    pub(crate) fn link(&self) -> &Link<Standard> {
        &self.link
    }

    /// The shape; of insertions and deletions an empty one.
    #[inline]
    pub(crate) fn parts(&self) -> &[Part] {
        // SAFETY: null, or a shape of the record's table, which is kept while records of it are linked.
        unsafe { self.shape.as_ref() }.map_or(&[], Shape::parts)
    }

    pub(crate) fn shape(&self) -> Option<&Shape> {
        // SAFETY: as in `parts`.
        unsafe { self.shape.as_ref() }
    }

    /// Whether the collector has unlinked it.
    pub(crate) fn is_unlinked(&self) -> bool {
        self.unlinked.load(Ordering::Relaxed)
    }

    /// Says that it is unlinked; gives whether it was before.
    pub(crate) fn set_unlinked(&self) -> bool {
        self.unlinked.swap(true, Ordering::Relaxed)
    }
}

/// A pointer to a record together with the right to read its image.
#[derive(Clone, Copy)]
pub(crate) struct Image(*const UndoRecord);

impl Image {
    /// The image of a record in a chain, or of the caller's own.
    pub(crate) fn of(link: Linked<'_, Standard>) -> Self {
        Self(link.pointer().cast_const().cast())
    }

    /// The before-image of a column, by the position of its part.
    #[inline]
    pub(crate) fn value(self, position: usize, part: &Part) -> Value {
        // SAFETY: the words of its shape follow the record; they do not change once it is installed.
        unsafe {
            let words = self.0.add(1).cast::<u64>();
            let null_word = *words.add(position / 64);
            let first = *words.add(part.word);
            let second = if part.words == 2 {
                *words.add(part.word + 1)
            } else {
                0
            };
            Value {
                valid: null_word >> (position % 64) & 1 != 0,
                words: [first, second],
            }
        }
    }
}

/// A record that is being made: not installed yet.
pub(crate) struct Draft(*mut UndoRecord);

impl Draft {
    /// Sets the before-image of a column.
    #[inline]
    pub(crate) fn set(&mut self, position: usize, part: &Part, value: Value) {
        // SAFETY: room for the shape was reserved, zeroed, and nobody else sees the record yet.
        unsafe {
            let words = self.0.add(1).cast::<u64>();
            let null_word = words.add(position / 64);
            let bit = 1 << (position % 64);
            if value.valid {
                *null_word |= bit;
            } else {
                *null_word &= !bit;
            }
            *words.add(part.word) = value.words[0];
            if part.words == 2 {
                *words.add(part.word + 1) = value.words[1];
            }
        }
    }

    /// What `Head::install` takes.
    pub(crate) fn link(&self) -> *mut Link<Standard> {
        self.0.cast()
    }
}

/// A record of the owner of an undo buffer: it stays valid as long as the buffer.
#[derive(Clone, Copy)]
pub(crate) struct Own(*mut UndoRecord);

// SAFETY: records are shared by all threads.
unsafe impl Send for Own {}

impl Own {
    /// The record. The caller has the buffer that it is in.
    pub(crate) fn record(self, _buffer: &UndoBuffer) -> &UndoRecord {
        // SAFETY: it lies in the buffer.
        unsafe { &*self.0 }
    }
    /// Its image.
    pub(crate) fn image(self) -> Image {
        Image(self.0)
    }
    /// Whether it is the record of this link.
    pub(crate) fn is(self, link: Linked<'_, Standard>) -> bool {
        ptr::eq(self.0.cast::<Link<Standard>>(), link.pointer())
    }
}

const SMALL: usize = 4 << 10;
const LARGE: usize = 64 << 10;
const ALIGNMENT: usize = 16;

/// Memory of a segment.
struct Memory {
    start: *mut u8,
    size: usize,
}

// SAFETY: it owns the memory.
unsafe impl Send for Memory {}

impl Memory {
    fn layout(size: usize) -> Result<Layout> {
        Layout::from_size_align(size, ALIGNMENT)
            .map_err(|_| Error::Limit(format!("an undo record of {size} bytes")))
    }

    fn new(size: usize) -> Result<Self> {
        let layout = Self::layout(size)?;
        // SAFETY: the size is not zero.
        let start = unsafe { alloc::alloc(layout) };
        if start.is_null() {
            return Err(Error::System(format!(
                "the operating system refused {size} bytes of memory"
            )));
        }
        Ok(Self { start, size })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Ok(layout) = Self::layout(self.size) {
            // SAFETY: allocated with this layout.
            unsafe { alloc::dealloc(self.start, layout) };
        }
    }
}

/// Segments that are not in use.
pub(crate) struct SegmentPool {
    budget: Arc<Budget>,
    small: Mutex<Vec<Memory>>,
    large: Mutex<Vec<Memory>>,
}

const KEPT_SMALL: usize = 256;
const KEPT_LARGE: usize = 16;

impl SegmentPool {
    pub(crate) fn new(budget: &Arc<Budget>) -> Arc<Self> {
        Arc::new(Self {
            budget: Arc::clone(budget),
            small: Mutex::new(Vec::new()),
            large: Mutex::new(Vec::new()),
        })
    }

    fn take(self: &Arc<Self>, size: usize) -> Result<Segment> {
        let reservation = self.budget.reserve(Kind::Undo, size)?;
        let kept = match size {
            SMALL => self.small.lock().pop(),
            LARGE => self.large.lock().pop(),
            _ => None,
        };
        let memory = match kept {
            Some(memory) => memory,
            None => Memory::new(size)?,
        };
        Ok(Segment {
            memory: Some(memory),
            used: 0,
            pool: Arc::clone(self),
            _reservation: reservation,
        })
    }

    fn give_back(&self, memory: Memory) {
        let (list, most) = match memory.size {
            SMALL => (&self.small, KEPT_SMALL),
            LARGE => (&self.large, KEPT_LARGE),
            _ => return,
        };
        let mut list = list.lock();
        if list.len() < most {
            list.push(memory);
        }
    }
}

impl std::fmt::Debug for SegmentPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SegmentPool").finish_non_exhaustive()
    }
}

/// A part of an undo buffer. Dropping it gives the memory back: an epoch after its records were unlinked.
pub(crate) struct Segment {
    memory: Option<Memory>,
    used: usize,
    pool: Arc<SegmentPool>,
    _reservation: Reservation,
}

impl Segment {
    fn start(&self) -> *mut u8 {
        self.memory
            .as_ref()
            .map_or(ptr::null_mut(), |memory| memory.start)
    }

    fn free(&self) -> usize {
        self.memory.as_ref().map_or(0, |memory| memory.size) - self.used
    }

    /// Its records from byte `from` on, oldest first.
    fn records(&self, from: usize) -> impl Iterator<Item = Own> {
        let mut at = from;
        std::iter::from_fn(move || {
            if at >= self.used {
                return None;
            }
            // SAFETY: below `used` lie complete records, one after the other.
            let record = unsafe { self.start().add(at) }.cast::<UndoRecord>();
            // SAFETY: as above.
            at += unsafe { (*record).bytes } as usize;
            Some(Own(record))
        })
    }

    /// Whether all records are unlinked.
    pub(crate) fn is_unlinked(&self) -> bool {
        self.records(0).all(|own| {
            // SAFETY: a complete record of this segment.
            unsafe { &*own.0 }.is_unlinked()
        })
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            self.pool.give_back(memory);
        }
    }
}

/// A place in an undo buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Position {
    segment: usize,
    used: usize,
}

/// Who writes a record.
pub(crate) struct Author<'a> {
    pub(crate) status: &'a Status<Standard>,
    pub(crate) statement: u32,
    /// The table: a position in the transaction's list.
    pub(crate) table: u32,
}

/// The undo buffer of a transaction.
#[derive(Default)]
pub(crate) struct UndoBuffer {
    segments: Vec<Segment>,
}

impl UndoBuffer {
    /// The place after the last record.
    pub(crate) fn position(&self) -> Position {
        match self.segments.last() {
            Some(last) => Position {
                segment: self.segments.len() - 1,
                used: last.used,
            },
            None => Position::default(),
        }
    }

    /// Makes a record; its image is all null. If it is not installed, [`take_back`](Self::take_back) it.
    #[inline]
    pub(crate) fn reserve(
        &mut self,
        pool: &Arc<SegmentPool>,
        author: &Author<'_>,
        slot: Slot,
        change: Change,
        shape: Option<&Arc<Shape>>,
    ) -> Result<Draft> {
        let words = shape.map_or(0, |shape| shape.words);
        let bytes = HEADER + (words * 8).next_multiple_of(ALIGNMENT);
        if self.segments.last().is_none_or(|last| last.free() < bytes) {
            let size = if self.segments.is_empty() {
                SMALL
            } else {
                LARGE
            };
            self.segments.push(pool.take(size.max(bytes))?);
        }
        let Some(last) = self.segments.last_mut() else {
            return Err(Error::Internal("an undo buffer without segments".into()));
        };
        // SAFETY: `bytes` are free from `used` on; all sizes are multiples of the alignment.
        let record = unsafe { last.start().add(last.used) }.cast::<UndoRecord>();
        last.used += bytes;
        // SAFETY: as above; the memory is ours alone until the record is installed.
        unsafe {
            record.write(UndoRecord {
                link: Link::new(author.status, author.statement),
                slot,
                shape: shape.map_or(ptr::null(), Arc::as_ptr),
                table: author.table,
                bytes: bytes as u32,
                change,
                unlinked: AtomicBool::new(false),
            });
            record.add(1).cast::<u64>().write_bytes(0, words);
        }
        Ok(Draft(record))
    }

    /// Takes the last record back, which was not installed.
    pub(crate) fn take_back(&mut self, draft: Draft) {
        if let Some(last) = self.segments.last_mut() {
            // SAFETY: the draft is the last record of this segment.
            last.used -= unsafe { (*draft.0).bytes } as usize;
        }
    }

    /// The records after a place, oldest first.
    pub(crate) fn records(&self, from: Position) -> impl Iterator<Item = Own> {
        self.segments
            .iter()
            .enumerate()
            .skip(from.segment)
            .flat_map(move |(number, segment)| {
                segment.records(if number == from.segment { from.used } else { 0 })
            })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.segments.iter().all(|segment| segment.used == 0)
    }

    /// Takes the segments whose records are all unlinked out.
    pub(crate) fn take_unlinked(&mut self) -> Vec<Segment> {
        self.segments
            .extract_if(.., |segment| segment.is_unlinked())
            .collect()
    }
}

// SAFETY: the records belong to the buffer; what others may change in them is atomic.
unsafe impl Send for UndoBuffer {}
