//! Blocks: a range of row positions, its descriptor, and the directory that leads from a block number to it.
//!
//! ```text
//!   Slot = block number << 15 | offset
//!            │
//!   Directory ──► Block ── columns ──► Hot(cells, validity, heap)  |  Frozen(extent, position, first row, rows)
//!                   ├──── live         one bit a row
//!                   ├──── versions     one chain a row, only while there are any
//!                   └──── birth        of a block that was loaded in bulk: instead of a version a row
//! ```
//!
//! Invariants:
//! - A column goes between frozen and hot by swapping its pointer; frozen memory never changes. While a block has versions, no column of it that they have
//!   before-images of freezes. So before-images always belong to hot columns, and a frozen column needs no patching.
//! - A column freezes only while every row given out is either visible to every snapshot, now and later, or buried ([`Block::quiet_rows`]). So
//!   whoever finds one frozen knows that of the rows of its part only those can be missing that are `gone`.
//! - `gone` counts rows that were written and are not live in place, or that have a deletion in their chain; it is raised before the deletion is installed.
//!   Loaded after settling and equal to the part's `cut`, it means that every row of the part is visible.
//! - A row is *buried* when no snapshot, now or later, sees it. A closed block whose rows are all buried is removed. A buried row may be written again, by
//!   compaction only.

pub(crate) mod cells;
mod columns;
pub(crate) mod directory;
pub(crate) mod heap;
pub(crate) mod hot;
pub(crate) mod source;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::Result;
use crate::protocol::{Phase, Stamp, Standard, Status, Versions, View, settle};
use crate::reclaim::{Pin, Reclaimer};
use crate::slot::Slot;
use cells::Bits;
use columns::{Columns, Retired};
use hot::HotColumn;

pub(crate) use columns::{Column, FrozenPart};

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

/// When and how a block was born that was loaded in bulk.
struct Birth {
    stamp: Stamp<Standard>,
    statement: u32,
}

/// How far a block is on its way from hot to frozen: as far as the column that is furthest behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Some column is changed in place.
    Hot,
    /// It was cold; who may have begun to write it unseen is waited for.
    Cooling,
    /// Its frozen columns are being built.
    Freezing,
    /// All columns are frozen.
    Frozen,
}

/// The rows of a block at a moment when it had no versions.
pub(crate) struct QuietRows {
    /// Rows given out.
    pub(crate) rows: usize,
    /// The bits of those that are visible to every snapshot, now and later; the others are buried.
    pub(crate) live: Vec<u64>,
}

/// A hot column that is on its way to frozen: where it is, without the right to look at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Address(*mut Column);

const CLOSED: u32 = 1 << 31;

/// A block's descriptor.
pub(crate) struct Block {
    pub(crate) number: u32,
    /// The layout whose rows may be inserted here.
    pub(crate) layout: u64,
    pub(crate) capacity: usize,
    columns: Columns,
    birth: Option<Birth>,
    /// Rows given out to inserters, and whether no more are.
    given: AtomicU32,
    pub(crate) live: Bits,
    pub(crate) versions: Versions<Standard>,
    gone: AtomicU32,
    buried: AtomicU32,
    /// When a column of it last became frozen by the freezer, in microseconds (see `relation::heat`); 0 for never.
    pub(crate) frozen_at: AtomicU64,
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
            birth: None,
            given: AtomicU32::new(0),
            live: Bits::zeros(capacity)?,
            versions: Versions::new(capacity),
            gone: AtomicU32::new(0),
            buried: AtomicU32::new(0),
            frozen_at: AtomicU64::new(0),
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
    ) -> Result<Self> {
        Ok(Self {
            number,
            layout,
            capacity: rows,
            columns: Columns::new(columns),
            birth: Some(Birth {
                stamp: Stamp::of(status),
                statement,
            }),
            given: AtomicU32::new(rows as u32 | CLOSED),
            live: Bits::ones(rows)?,
            versions: Versions::new(rows),
            gone: AtomicU32::new(0),
            buried: AtomicU32::new(0),
            frozen_at: AtomicU64::new(0),
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

    /// A column by its number in the table; `None` when every row has the default.
    #[inline]
    pub(crate) fn column<'g>(&self, number: usize, _pin: &'g Pin<'_>) -> Option<&'g Column> {
        let pointer = self.columns.find(number)?.load();
        // SAFETY: a column that was swapped out is freed an epoch later, and the caller is pinned.
        unsafe { pointer.as_ref() }
    }

    /// A column if it is hot. Only who has a record in the row's chain, or marked its head, may change it.
    #[inline]
    pub(crate) fn hot_column<'g>(&self, number: usize, pin: &'g Pin<'_>) -> Option<&'g HotColumn> {
        match self.column(number, pin) {
            Some(Column::Hot(hot)) => Some(hot),
            _ => None,
        }
    }

    /// The writer's way to a column: the hot one, kept from freezing; made by `thaw` from what is there now if it is not hot yet. The second value says
    /// whether a frozen one was thawed.
    #[inline]
    pub(crate) fn warmed<'g>(
        &self,
        number: usize,
        reclaimer: &Reclaimer,
        _pin: &'g Pin<'_>,
        thaw: impl Fn(Option<&FrozenPart>) -> Result<HotColumn>,
    ) -> Result<(&'g HotColumn, bool)> {
        let place = self.columns.find_or_make(number);
        loop {
            let old = place.warm();
            // SAFETY: as in `column`.
            let frozen = match unsafe { old.as_ref::<'g>() } {
                Some(Column::Hot(hot)) => return Ok((hot, false)),
                Some(Column::Frozen(frozen)) => Some(frozen),
                None => None,
            };
            let new = Box::into_raw(Box::new(Column::Hot(thaw(frozen)?)));
            if !place.replace(old, new) {
                // SAFETY: from `into_raw` above, and nobody else has seen it.
                drop(unsafe { Box::from_raw(new) });
                continue;
            }
            if !old.is_null() {
                let old = Retired(old);
                reclaimer.retire(Box::new(move || drop(old)));
            }
            // SAFETY: as in `column`: it may be swapped out again, not freed.
            if let (Column::Hot(hot), was_frozen) = (unsafe { &*new }, frozen.is_some()) {
                // Tagged since, or even frozen again, if it came to that: then the next look takes the tag away.
                if place.warm() == new {
                    return Ok((hot, was_frozen));
                }
            }
        }
    }

    /// The freezer's first step with a column; `None` if it is not hot.
    pub(crate) fn cool(&self, number: usize, _pin: &Pin<'_>) -> Option<Address> {
        let place = self.columns.find(number)?;
        let column = place.load();
        // SAFETY: as in `column`.
        let hot = matches!(unsafe { column.as_ref() }, Some(Column::Hot(_)));
        (hot && place.cool(column)).then_some(Address(column))
    }

    /// Goes on from cooling to freezing, unless a writer came.
    pub(crate) fn freeze(&self, number: usize, column: Address) -> bool {
        self.columns
            .find(number)
            .is_some_and(|place| place.freeze(column.0))
    }

    /// A column that is freezing, if no writer has come.
    pub(crate) fn freezing<'g>(
        &self,
        number: usize,
        column: Address,
        _pin: &'g Pin<'_>,
    ) -> Option<&'g HotColumn> {
        self.columns
            .find(number)
            .filter(|place| place.is_freezing(column.0))?;
        // SAFETY: the place leads there, so it is freed an epoch after it will have been swapped out; the caller is pinned.
        match unsafe { &*column.0 } {
            Column::Hot(hot) => Some(hot),
            Column::Frozen(_) => None,
        }
    }

    /// The freezer's last step: shows the frozen copy instead, unless a writer came.
    pub(crate) fn publish(
        &self,
        number: usize,
        column: Address,
        part: FrozenPart,
        reclaimer: &Reclaimer,
    ) -> bool {
        let new = Box::into_raw(Box::new(Column::Frozen(part)));
        let published = self
            .columns
            .find(number)
            .is_some_and(|place| place.publish(column.0, new));
        if published {
            let old = Retired(column.0);
            reclaimer.retire(Box::new(move || drop(old)));
        } else {
            // SAFETY: from `into_raw` above, and nobody else has seen it.
            drop(unsafe { Box::from_raw(new) });
        }
        published
    }

    /// Gives up freezing a column.
    pub(crate) fn warm(&self, number: usize) {
        if let Some(place) = self.columns.find(number) {
            place.warm();
        }
    }

    /// How far the block is on its way.
    pub(crate) fn state(&self, pin: &Pin<'_>) -> State {
        let mut state = State::Frozen;
        for place in self.columns.iter() {
            let phase = place.phase();
            // SAFETY: as in `column`.
            let column: Option<&Column> = unsafe { Self::look(place.load(), pin) };
            match (column, phase) {
                (None | Some(Column::Frozen(_)), _) => {}
                (Some(Column::Hot(_)), Phase::Settled) => return State::Hot,
                (Some(Column::Hot(_)), Phase::Cooling) => state = State::Cooling,
                (Some(Column::Hot(_)), Phase::Freezing) => {
                    if state == State::Frozen {
                        state = State::Freezing;
                    }
                }
            }
        }
        state
    }

    /// # Safety
    /// The pointer was loaded from a place, by the pinned caller.
    unsafe fn look<'g>(column: *mut Column, _pin: &'g Pin<'_>) -> Option<&'g Column> {
        // SAFETY: as in `column`.
        unsafe { column.as_ref() }
    }

    /// The columns that are not at their default.
    pub(crate) fn columns<'g>(&self, pin: &'g Pin<'_>) -> Vec<&'g Column> {
        self.columns
            .iter()
            // SAFETY: loaded just now, and the caller is pinned.
            .filter_map(|place| unsafe { Self::look(place.load(), pin) })
            .collect()
    }

    /// The rows, if every row given out is either visible to every snapshot, now and later, or buried.
    ///
    /// A row that was given out and not written yet is neither live nor buried, so the numbers do not add up. Buried rows are counted before the bits are
    /// copied and again afterwards, so no row is counted twice. That no record is linked after the bits were copied makes them right for everybody (see
    /// [`Versions`]).
    pub(crate) fn quiet_rows(&self) -> Option<QuietRows> {
        let buried = self.buried.load(Ordering::Acquire);
        let rows = self.rows();
        let live = self.live.copy(rows);
        let _settled = settle::<Standard>();
        let visible: usize = live.iter().map(|word| word.count_ones() as usize).sum();
        let quiet = self.versions.linked() == 0
            && self.buried.load(Ordering::Acquire) == buried
            && visible + buried as usize == rows;
        quiet.then_some(QuietRows { rows, live })
    }

    /// Number of rows that are deleted, being deleted, or were undone.
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

    /// Takes a buried row back, which the caller is about to write again; `false` if the block has none, or has gone with its last row.
    pub(crate) fn unbury(&self) -> bool {
        self.buried
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |buried| {
                let some_left = buried > 0 && (buried as usize) < self.rows();
                some_left.then(|| buried - 1)
            })
            .is_ok()
    }

    /// Rows that somebody may see, now or later.
    pub(crate) fn unburied(&self) -> usize {
        self.rows()
            .saturating_sub(self.buried.load(Ordering::Acquire) as usize)
    }
}
