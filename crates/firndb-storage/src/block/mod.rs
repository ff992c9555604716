//! Blocks: a range of row positions, its descriptor, and the directory that leads from a block number to it.
//!
//! ```text
//!   Slot = block number << 15 | offset
//!            │
//!   Directory ──► Block ── columns ──► Hot(cells, validity, heap)  |  Frozen(extent, position, first row)
//!                   ├──── live         one bit a row
//!                   ├──── versions     one chain a row, only while there are any
//!                   └──── birth        of a block that was loaded in bulk: instead of a version a row
//! ```
//!
//! Invariants:
//! - A column goes from frozen to hot by swapping its pointer, once; frozen memory never changes. So before-images always
//!   belong to hot columns, and a frozen column needs no patching.
//! - `gone` counts rows that are not live in place, or that have a deletion in their chain; it is raised before the deletion is installed. Zero, loaded
//!   after settling, means that every row of a block that was loaded in bulk is visible.
//! - A row is *buried* when no snapshot, now or later, sees it. A closed block whose rows are all buried is removed.

pub(crate) mod cells;
pub(crate) mod directory;
pub(crate) mod heap;
pub(crate) mod hot;
pub(crate) mod source;

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::array::ArrayRef;

use crate::Result;
use crate::frozen::{Extent, Form, FrozenColumn};
use crate::protocol::{Stamp, Standard, Status, Versions, View};
use crate::reclaim::{Pin, Reclaimer};
use crate::slot::Slot;
use cells::Bits;
use hot::HotColumn;

/// Bits of a slot that hold the offset.
const OFFSET_BITS: u32 = 15;
/// Most rows of a block.
pub(crate) const MOST_ROWS: usize = 1 << OFFSET_BITS;

/// The slot of a row.
pub(crate) fn slot(block: u32, offset: usize) -> Slot {
    Slot((u64::from(block) << OFFSET_BITS) | offset as u64)
}

/// The block number and offset of a slot; `None` if it cannot be one of ours.
pub(crate) fn place(slot: Slot) -> Option<(u32, usize)> {
    let block = u32::try_from(slot.0 >> OFFSET_BITS).ok()?;
    Some((block, (slot.0 & (MOST_ROWS as u64 - 1)) as usize))
}

/// Where a block is between hot and frozen. `Cooling` and `Freezing` are entered by the freezing pipeline only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    Hot = 0,
    Frozen = 3,
}

/// Rows of an extent that are a block's column.
pub(crate) struct FrozenPart {
    pub(crate) extent: Arc<Extent>,
    pub(crate) position: usize,
    pub(crate) first_row: usize,
}

impl FrozenPart {
    pub(crate) fn column(&self) -> &FrozenColumn {
        self.extent.column(self.position)
    }

    /// The first `rows` rows.
    pub(crate) fn array(&self, rows: usize, form: Form) -> Result<ArrayRef> {
        self.column().slice(self.first_row, rows, form)
    }
}

/// A column of a block.
pub(crate) enum Column {
    Hot(HotColumn),
    Frozen(FrozenPart),
}

/// Pointers to columns by their number in the table. A null pointer: every row has the column's default.
struct Columns {
    entries: Box<[AtomicPtr<Column>]>,
    more: OnceLock<Box<Columns>>,
}

impl Columns {
    fn new(columns: Vec<Option<Column>>) -> Self {
        let pointer = |column: Option<Column>| {
            AtomicPtr::new(column.map_or(ptr::null_mut(), |column| Box::into_raw(Box::new(column))))
        };
        Self {
            entries: columns.into_iter().map(pointer).collect(),
            more: OnceLock::new(),
        }
    }

    fn find(&self, number: usize) -> Option<&AtomicPtr<Column>> {
        match self.entries.get(number) {
            Some(entry) => Some(entry),
            None => self.more.get()?.find(number - self.entries.len()),
        }
    }

    fn find_or_make(&self, number: usize) -> &AtomicPtr<Column> {
        match self.entries.get(number) {
            Some(entry) => entry,
            None => self
                .more
                .get_or_init(|| Box::new(Columns::new((0..16).map(|_| None).collect())))
                .find_or_make(number - self.entries.len()),
        }
    }
}

impl Drop for Columns {
    fn drop(&mut self) {
        for entry in &mut self.entries {
            let column = *entry.get_mut();
            if !column.is_null() {
                // SAFETY: made by `Box::into_raw`; the block is being dropped, nobody else has it.
                drop(unsafe { Box::from_raw(column) });
            }
        }
    }
}

/// When and how a block was born that was loaded in bulk.
struct Birth {
    stamp: Stamp<Standard>,
    statement: u32,
    /// A number of its extent, and its first row there.
    run: (u64, usize),
}

const CLOSED: u32 = 1 << 31;

/// A block's descriptor.
pub(crate) struct Block {
    pub(crate) number: u32,
    /// The layout whose rows may be inserted here.
    pub(crate) layout: u64,
    pub(crate) capacity: usize,
    columns: Columns,
    state: AtomicU8,
    birth: Option<Birth>,
    /// Rows given out to inserters, and whether no more are.
    given: AtomicU32,
    pub(crate) live: Bits,
    pub(crate) versions: Versions<Standard>,
    gone: AtomicU32,
    buried: AtomicU32,
}

impl Block {
    /// An empty hot block.
    pub(crate) fn hot(
        number: u32,
        layout: u64,
        capacity: usize,
        columns: Vec<Option<Column>>,
    ) -> Result<Self> {
        Ok(Self {
            number,
            layout,
            capacity,
            columns: Columns::new(columns),
            state: AtomicU8::new(State::Hot as u8),
            birth: None,
            given: AtomicU32::new(0),
            live: Bits::zeros(capacity)?,
            versions: Versions::new(capacity),
            gone: AtomicU32::new(0),
            buried: AtomicU32::new(0),
        })
    }

    /// A full block, born frozen.
    pub(crate) fn frozen(
        number: u32,
        layout: u64,
        rows: usize,
        columns: Vec<Option<Column>>,
        status: &Status<Standard>,
        statement: u32,
        run: (u64, usize),
    ) -> Result<Self> {
        Ok(Self {
            number,
            layout,
            capacity: rows,
            columns: Columns::new(columns),
            state: AtomicU8::new(State::Frozen as u8),
            birth: Some(Birth {
                stamp: Stamp::of(status),
                statement,
                run,
            }),
            given: AtomicU32::new(rows as u32 | CLOSED),
            live: Bits::ones(rows)?,
            versions: Versions::new(rows),
            gone: AtomicU32::new(0),
            buried: AtomicU32::new(0),
        })
    }

    /// Rows given out.
    pub(crate) fn rows(&self) -> usize {
        (self.given.load(Ordering::Acquire) & !CLOSED) as usize
    }

    /// Whether all rows given out so far are all that ever will be.
    pub(crate) fn is_closed(&self) -> bool {
        let given = self.given.load(Ordering::Acquire);
        given & CLOSED != 0 || given as usize == self.capacity
    }

    /// Gives out no more rows.
    pub(crate) fn close(&self) {
        self.given.fetch_or(CLOSED, Ordering::AcqRel);
    }

    /// Gives up to `wanted` rows to the caller: the first, and how many.
    pub(crate) fn reserve(&self, wanted: usize) -> Option<(usize, usize)> {
        let mut taken = 0;
        let first = self
            .given
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |given| {
                if given & CLOSED != 0 {
                    return None;
                }
                taken = wanted.min(self.capacity - given as usize);
                (taken > 0).then(|| given + taken as u32)
            })
            .ok()?;
        Some((first as usize, taken))
    }

    /// Whether the block as a whole is there for `view`. Single rows may have versions.
    pub(crate) fn is_born(&self, view: &View<'_, Standard>, pin: &Pin<'_>) -> bool {
        self.birth
            .as_ref()
            .is_none_or(|birth| view.sees(&birth.stamp, birth.statement, pin))
    }

    /// The stamp of a block that was loaded in bulk.
    pub(crate) fn birth(&self) -> Option<&Stamp<Standard>> {
        self.birth.as_ref().map(|birth| &birth.stamp)
    }

    /// A number of the extent that a block was loaded in, and its first row there. Its columns may have thawed since.
    pub(crate) fn run(&self) -> Option<(u64, usize)> {
        self.birth.as_ref().map(|birth| birth.run)
    }

    /// A column by its number in the table; `None` when every row has the default.
    #[inline]
    pub(crate) fn column<'g>(&self, number: usize, _pin: &'g Pin<'_>) -> Option<&'g Column> {
        let pointer = self.columns.find(number)?.load(Ordering::Acquire);
        // SAFETY: a column that was swapped out is freed an epoch later, and the caller is pinned.
        unsafe { pointer.as_ref() }
    }

    /// A column if it is hot.
    #[inline]
    pub(crate) fn hot_column<'g>(&self, number: usize, pin: &'g Pin<'_>) -> Option<&'g HotColumn> {
        match self.column(number, pin) {
            Some(Column::Hot(hot)) => Some(hot),
            _ => None,
        }
    }

    /// The hot column, made by `thaw` from what is there now if it is not hot yet.
    pub(crate) fn thawed<'g>(
        &self,
        number: usize,
        reclaimer: &Reclaimer,
        _pin: &'g Pin<'_>,
        thaw: impl Fn(Option<&FrozenPart>) -> Result<HotColumn>,
    ) -> Result<&'g HotColumn> {
        let entry = self.columns.find_or_make(number);
        loop {
            let old = entry.load(Ordering::Acquire);
            // SAFETY: as in `column`.
            let frozen = match unsafe { old.as_ref::<'g>() } {
                Some(Column::Hot(hot)) => return Ok(hot),
                Some(Column::Frozen(frozen)) => Some(frozen),
                None => None,
            };
            let new = Box::into_raw(Box::new(Column::Hot(thaw(frozen)?)));
            if entry
                .compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed)
                .is_err()
            {
                // SAFETY: from `into_raw` above, and nobody else has seen it.
                drop(unsafe { Box::from_raw(new) });
                continue;
            }
            self.state.store(State::Hot as u8, Ordering::Release);
            if !old.is_null() {
                let old = Retired(old);
                reclaimer.retire(Box::new(move || drop(old)));
            }
        }
    }

    /// Number of rows that are deleted, or being deleted.
    pub(crate) fn gone(&self) -> usize {
        self.gone.load(Ordering::Acquire) as usize
    }

    /// Counts rows whose deletion is about to be installed.
    pub(crate) fn count_gone(&self, rows: u32) {
        self.gone.fetch_add(rows, Ordering::AcqRel);
    }

    /// Takes that back: not installed after all, or an aborted deletion was unlinked.
    pub(crate) fn uncount_gone(&self, rows: u32) {
        let before = self.gone.fetch_sub(rows, Ordering::AcqRel);
        invariant!(before >= rows, "more rows came back than were gone");
    }

    /// Counts a row that nobody sees, now or later. Gives whether that was the last.
    pub(crate) fn bury(&self, rows: usize) -> bool {
        let buried = self.buried.fetch_add(rows as u32, Ordering::AcqRel) as usize + rows;
        invariant!(buried <= self.rows(), "a row was buried twice");
        buried == self.rows() && self.is_closed()
    }

    /// Rows that somebody may see, now or later.
    pub(crate) fn unburied(&self) -> usize {
        self.rows()
            .saturating_sub(self.buried.load(Ordering::Acquire) as usize)
    }
}

/// A column that was swapped out.
struct Retired(*mut Column);

// SAFETY: it owns the column.
unsafe impl Send for Retired {}

impl Drop for Retired {
    fn drop(&mut self) {
        // SAFETY: made by `Box::into_raw`, swapped out once, and an epoch has passed.
        drop(unsafe { Box::from_raw(self.0) });
    }
}
