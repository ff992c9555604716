//! The columns of a block: hot or frozen, each by its own pointer (see [`Place`] for how one becomes the other).

use std::ptr;
use std::sync::{Arc, OnceLock};

use arrow::array::ArrayRef;

use super::hot::HotColumn;
use crate::frozen::{Extent, Form, FrozenColumn};
use crate::protocol::{Place, Standard};
use crate::{Error, Result};

/// Rows of an extent that are a block's column.
#[derive(Clone)]
pub(crate) struct FrozenPart {
    pub(crate) extent: Arc<Extent>,
    pub(crate) position: usize,
    pub(crate) first_row: usize,
    /// The block's first rows; those beyond were given out later, or are buried.
    pub(crate) rows: usize,
    /// Rows of the block beyond `rows` that are buried: what [`Block::gone`](super::Block::gone) is while every row of the part is visible.
    pub(crate) cut: usize,
}

impl FrozenPart {
    pub(crate) fn column(&self) -> &FrozenColumn {
        self.extent.column(self.position)
    }

    /// The first `rows` rows.
    pub(crate) fn array(&self, rows: usize, form: Form) -> Result<ArrayRef> {
        if rows > self.rows {
            return Err(Error::Internal(format!(
                "{rows} rows of a frozen block that has {}",
                self.rows
            )));
        }
        self.column().slice(self.first_row, rows, form)
    }

    /// Whether `next` goes on in the extent where this part ends.
    pub(crate) fn is_before(&self, next: &FrozenPart) -> bool {
        Arc::ptr_eq(&self.extent, &next.extent)
            && self.position == next.position
            && self.first_row + self.rows == next.first_row
    }
}

/// A column of a block.
#[repr(align(16))]
pub(crate) enum Column {
    Hot(HotColumn),
    Frozen(FrozenPart),
}

/// The place of one column.
pub(super) type ColumnPlace = Place<Standard, Column>;

/// Places of columns by their number in the table. A null pointer: every row has the column's default.
pub(super) struct Columns {
    entries: Box<[ColumnPlace]>,
    more: OnceLock<Box<Columns>>,
}

impl Columns {
    pub(super) fn new(columns: Vec<Option<Column>>) -> Self {
        let place = |column: Option<Column>| {
            Place::new(column.map_or(ptr::null_mut(), |column| Box::into_raw(Box::new(column))))
        };
        Self {
            entries: columns.into_iter().map(place).collect(),
            more: OnceLock::new(),
        }
    }

    #[inline]
    pub(super) fn find(&self, number: usize) -> Option<&ColumnPlace> {
        match self.entries.get(number) {
            Some(entry) => Some(entry),
            None => self.more.get()?.find(number - self.entries.len()),
        }
    }

    #[inline]
    pub(super) fn find_or_make(&self, number: usize) -> &ColumnPlace {
        match self.entries.get(number) {
            Some(entry) => entry,
            None => self
                .more
                .get_or_init(|| Box::new(Columns::new((0..16).map(|_| None).collect())))
                .find_or_make(number - self.entries.len()),
        }
    }

    /// All places.
    pub(super) fn iter(&self) -> Box<dyn Iterator<Item = &ColumnPlace> + '_> {
        let more = self.more.get().into_iter().flat_map(|more| more.iter());
        Box::new(self.entries.iter().chain(more))
    }
}

impl Drop for Columns {
    fn drop(&mut self) {
        for entry in &self.entries {
            let column = entry.load();
            if !column.is_null() {
                // SAFETY: made by `Box::into_raw`; the block is being dropped, nobody else has it.
                drop(unsafe { Box::from_raw(column) });
            }
        }
    }
}

/// A column that was swapped out.
pub(super) struct Retired(pub(super) *mut Column);

// SAFETY: it owns the column.
unsafe impl Send for Retired {}

impl Drop for Retired {
    fn drop(&mut self) {
        // SAFETY: made by `Box::into_raw`, swapped out once, and an epoch has passed.
        drop(unsafe { Box::from_raw(self.0) });
    }
}
