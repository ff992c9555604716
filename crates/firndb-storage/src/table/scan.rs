//! Scans: what a snapshot sees, in morsels, in the table's order.
//!
//! Neighbouring blocks of one extent make one morsel; when rows only pass through, even the whole extent. Each read looks at the blocks again: as long as
//! the asked columns are frozen, follow each other in one extent, and no row of them was deleted, it slices the extent; else it copies and patches
//! (see [`crate::protocol`]). That a block is frozen says that all its rows but those that are gone are visible (see [`crate::block`]), to every snapshot that
//! it was born for.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::{Array, ArrayRef, RecordBatch, UInt32Array, UInt64Array, new_null_array};
use arrow::compute::{concat, take};
use arrow::datatypes::{DataType, Field, Schema};

use super::{Table, batch, join};
use crate::block::cells::Rows;
use crate::block::{Block, Column, FrozenPart, place, slot};
use crate::frozen::Form;
use crate::frozen::strings::as_dictionary;
use crate::protocol::{Standard, settle};
use crate::reclaim::Pin;
use crate::relation::ColumnInfo;
use crate::slot::Slot;
use crate::{Result, Snapshot};

/// Most rows of a morsel for operators: a batch that caches hold.
const ROWS: usize = 32_768;

/// The name of the column of slots.
const SLOT: &str = "__slot";

#[derive(Debug, Clone, Copy)]
struct Morsel {
    first: u32,
    blocks: u32,
    rows: usize,
}

/// A scan of one snapshot, cut into morsels in the table's order. `Send + Sync`; morsels may be read from many threads.
#[derive(Debug)]
pub struct Scan {
    table: Table,
    snapshot: Snapshot,
    morsels: Vec<Morsel>,
}

impl Table {
    /// A scan of what `snapshot` sees, in morsels of at most 32,768 rows.
    pub fn scan(&self, snapshot: &Snapshot) -> Result<Scan> {
        self.scan_by(snapshot, false)
    }

    /// A scan of what `snapshot` sees for a consumer outside: what can be shared comes extent by extent.
    pub fn scan_whole(&self, snapshot: &Snapshot) -> Result<Scan> {
        self.scan_by(snapshot, true)
    }

    fn scan_by(&self, snapshot: &Snapshot, whole: bool) -> Result<Scan> {
        self.relation.heat.note_scan();
        let view = snapshot.view();
        let mut morsels: Vec<Morsel> = Vec::new();
        let mut last: Option<&Block> = None;
        // Whether the last morsel may grow to the whole extent. Where rows went, the rest of the extent is not to be copied with them.
        let mut grows = false;
        let pin = self.pin();
        for number in 0..self.relation.block_count() {
            let block = self
                .relation
                .block(number, &pin)
                .filter(|block| block.rows() > 0 && block.is_born(&view, &pin));
            let Some(block) = block else {
                last = None;
                continue;
            };
            let rows = block.rows();
            let clean = whole && self.is_clean(block, &pin);
            let goes_on = last.is_some_and(|last| self.goes_on(last, block, &pin));
            match morsels.last_mut() {
                Some(morsel)
                    if goes_on
                        && (morsel.rows + rows <= ROWS && grows == clean || grows && clean) =>
                {
                    morsel.blocks += 1;
                    morsel.rows += rows;
                }
                _ => morsels.push(Morsel {
                    first: number,
                    blocks: 1,
                    rows,
                }),
            }
            grows = clean;
            last = Some(block);
        }
        drop(pin);
        Ok(Scan {
            table: self.clone(),
            snapshot: snapshot.clone(),
            morsels,
        })
    }

    /// A frozen column of a block, if it has one. All of them show the same rows, unless some were frozen again after others.
    pub(super) fn frozen_part<'g>(
        &self,
        block: &'g Block,
        pin: &'g Pin<'_>,
    ) -> Option<&'g FrozenPart> {
        self.layout
            .columns
            .iter()
            .find_map(|info| match block.column(info.number, pin) {
                Some(Column::Frozen(part)) => Some(part),
                _ => None,
            })
    }

    /// Whether nothing of a block has to be copied, if it stays as it is.
    fn is_clean(&self, block: &Block, pin: &Pin<'_>) -> bool {
        self.frozen_part(block, pin)
            .is_some_and(|part| block.gone() == part.cut)
            && self
                .layout
                .columns
                .iter()
                .all(|info| block.hot_column(info.number, pin).is_none())
    }

    /// Whether the columns of the next block go on where those of a block end.
    fn goes_on(&self, block: &Block, next: &Block, pin: &Pin<'_>) -> bool {
        let mut shares = false;
        let alike = self.layout.columns.iter().all(|info| {
            match (
                block.column(info.number, pin),
                next.column(info.number, pin),
            ) {
                (Some(Column::Frozen(part)), Some(Column::Frozen(next))) => {
                    shares = true;
                    part.is_before(next)
                }
                (Some(Column::Hot(_)), Some(Column::Hot(_))) | (None, None) => true,
                _ => false,
            }
        });
        alike && shares
    }
}

/// A bound to ask for.
#[derive(Clone, Copy)]
enum Bound {
    Minimum,
    Maximum,
}

impl Scan {
    /// The morsel that has a slot.
    pub fn morsel_of(&self, slot: Slot) -> Option<usize> {
        let (block, _) = place(slot)?;
        let after = self.morsels.partition_point(|morsel| morsel.first <= block);
        let morsel = after.checked_sub(1)?;
        let Morsel { first, blocks, .. } = self.morsels[morsel];
        (block - first < blocks).then_some(morsel)
    }

    /// Number of morsels; each holds one block, or several frozen blocks of one extent together.
    pub fn morsels(&self) -> usize {
        self.morsels.len()
    }

    /// Number of blocks of a morsel.
    pub fn blocks(&self, morsel: usize) -> usize {
        self.morsels[morsel].blocks as usize
    }

    /// Upper bound of the rows of a morsel.
    pub fn rows(&self, morsel: usize) -> usize {
        self.morsels[morsel].rows
    }

    /// Least value of a column (position in the layout, `Form::Compute` type) for each morsel, null where unknown or all null;
    /// sound for every row that the snapshot sees. Strings may be cut short (still a bound).
    pub fn minimums(&self, column: usize) -> Option<ArrayRef> {
        self.bounds(column, Bound::Minimum)
    }

    /// Greatest value, as `minimums`.
    pub fn maximums(&self, column: usize) -> Option<ArrayRef> {
        self.bounds(column, Bound::Maximum)
    }

    /// Null counts (UInt64), null where unknown.
    pub fn null_counts(&self, column: usize) -> Option<ArrayRef> {
        let info = self.table.layout.columns.get(column)?;
        let pin = self.table.pin();
        let counts: Vec<Option<u64>> = self
            .morsels
            .iter()
            .map(|morsel| match self.column_of(morsel, info, &pin)? {
                Part::Frozen(part, rows) => {
                    Some(part.column().null_count(part.first_row, rows) as u64)
                }
                Part::Default(rows) => {
                    let null = info.default.as_ref().is_none_or(|value| value.is_null(0));
                    Some(if null { rows as u64 } else { 0 })
                }
            })
            .collect();
        Some(Arc::new(UInt64Array::from(counts)))
    }

    fn bounds(&self, column: usize, bound: Bound) -> Option<ArrayRef> {
        let info = self.table.layout.columns.get(column)?;
        let data_type = Form::Compute.data_type(&info.stored);
        if data_type.is_nested() {
            return None;
        }
        let unknown = new_null_array(&data_type, 1);
        let pin = self.table.pin();
        // Morsels of one extent are asked about together; then the answers are brought into order.
        let mut known: Vec<ArrayRef> = vec![unknown];
        let mut next = 1;
        let mut places = vec![0_u32; self.morsels.len()];
        let mut at = 0;
        while at < self.morsels.len() {
            match self.column_of(&self.morsels[at], info, &pin) {
                None => at += 1,
                Some(Part::Default(_)) => {
                    known.push(info.defaults(1, Form::Compute).ok()?);
                    places[at] = next;
                    next += 1;
                    at += 1;
                }
                Some(Part::Frozen(part, _)) => {
                    let mut ranges = Vec::new();
                    let first = at;
                    while at < self.morsels.len()
                        && let Some(Part::Frozen(other, rows)) =
                            self.column_of(&self.morsels[at], info, &pin)
                        && Arc::ptr_eq(&other.extent, &part.extent)
                    {
                        ranges.push(other.first_row..other.first_row + rows);
                        at += 1;
                    }
                    let zones = part.column().zones(&ranges).ok()?;
                    let bounds = match bound {
                        Bound::Minimum => zones.min,
                        Bound::Maximum => zones.max,
                    };
                    if let Some(bounds) = bounds {
                        known.push(bounds);
                        for place in &mut places[first..at] {
                            *place = next;
                            next += 1;
                        }
                    }
                }
            }
        }
        let known: Vec<&dyn Array> = known.iter().map(AsRef::as_ref).collect();
        take(&concat(&known).ok()?, &UInt32Array::from(places), None).ok()
    }

    /// A column of a morsel, if it is all frozen or all default. Deletions only make bounds wider than needed.
    fn column_of<'g>(
        &self,
        morsel: &Morsel,
        info: &ColumnInfo,
        pin: &'g Pin<'_>,
    ) -> Option<Part<'g>> {
        let mut found: Option<Part<'g>> = None;
        for number in morsel.first..morsel.first + morsel.blocks {
            let block = self.relation_block(number, pin)?;
            let next = match block.column(info.number, pin) {
                Some(Column::Frozen(part)) => Part::Frozen(part, part.rows),
                Some(Column::Hot(_)) => return None,
                None => Part::Default(
                    self.table
                        .frozen_part(block, pin)
                        .map_or(block.rows(), |part| part.rows),
                ),
            };
            found = Some(match found {
                None => next,
                Some(found) => found.joined(next)?,
            });
        }
        found
    }

    fn relation_block<'g>(&self, number: u32, pin: &'g Pin<'_>) -> Option<&'g Block> {
        // The directory is reached through our own table, which outlives the pin's borrow in every caller.
        self.table.relation.block(number, pin)
    }

    /// Reads the visible rows of a morsel, in order; maybe none. With `slots`, a last column `__slot` (UInt64, not null).
    /// The second value says whether frozen memory was shared (`true`) or rows were copied.
    pub fn read(
        &self,
        morsel: usize,
        projection: &[usize],
        form: Form,
        slots: bool,
    ) -> Result<(RecordBatch, bool)> {
        let morsel = &self.morsels[morsel];
        let infos = self.table.columns(projection)?;
        let mut schema = self.table.schema_in(form).project(projection)?;
        let coded: Vec<bool> = projection
            .iter()
            .map(|&position| form == Form::Native && self.table.is_coded(position))
            .collect();
        if slots {
            let mut fields: Vec<_> = schema.fields().iter().cloned().collect();
            fields.push(Arc::new(Field::new(SLOT, DataType::UInt64, false)));
            schema = Schema::new_with_metadata(fields, schema.metadata().clone());
        }
        let schema = Arc::new(schema);
        let pin = self.table.pin();
        let heat = &self.table.relation.heat;
        if let Some((mut columns, rows)) = self.share(morsel, &infos, form, &coded, &pin)? {
            if slots {
                columns.push(all_slots(morsel.first, &rows));
            }
            heat.shared
                .fetch_add(u64::from(morsel.blocks), Ordering::Relaxed);
            return Ok((batch(schema, columns, rows.iter().sum())?, true));
        }
        heat.copied
            .fetch_add(u64::from(morsel.blocks), Ordering::Relaxed);
        let (columns, rows) = self.copy(morsel, &infos, form, slots, &pin)?;
        let columns = columns
            .iter()
            .zip(schema.fields())
            .map(|(pieces, field)| match field.data_type() {
                DataType::Dictionary(_, value) => {
                    as_dictionary(&join(pieces, &form.data_type(value))?, value)
                }
                data_type => join(pieces, data_type),
            })
            .collect::<Result<Vec<_>>>()?;
        Ok((batch(schema, columns, rows)?, false))
    }

    /// Slices of the extent, if that is what the snapshot sees, and the rows of each block.
    fn share(
        &self,
        morsel: &Morsel,
        infos: &[Arc<ColumnInfo>],
        form: Form,
        coded: &[bool],
        pin: &Pin<'_>,
    ) -> Result<Option<(Vec<ArrayRef>, Vec<usize>)>> {
        // Each column is looked at once. Of every block: its rows, and how many may be gone.
        let mut shown = Vec::with_capacity(morsel.blocks as usize);
        let mut parts: Vec<Option<Part<'_>>> = infos.iter().map(|_| None).collect();
        for number in morsel.first..morsel.first + morsel.blocks {
            let Some(block) = self.relation_block(number, pin) else {
                return Ok(None);
            };
            let columns: Vec<Option<&Column>> = infos
                .iter()
                .map(|info| block.column(info.number, pin))
                .collect();
            let frozen = columns.iter().find_map(|column| match column {
                Some(Column::Frozen(part)) => Some(part),
                _ => None,
            });
            let Some(frozen) = frozen.or_else(|| self.table.frozen_part(block, pin)) else {
                return Ok(None);
            };
            for (column, found) in columns.into_iter().zip(&mut parts) {
                let next = match column {
                    Some(Column::Frozen(part))
                        if (part.rows, part.cut) == (frozen.rows, frozen.cut) =>
                    {
                        Part::Frozen(part, part.rows)
                    }
                    None => Part::Default(frozen.rows),
                    Some(_) => return Ok(None),
                };
                let joined = match found.take() {
                    None => Some(next),
                    Some(found) => found.joined(next),
                };
                if joined.is_none() {
                    return Ok(None);
                }
                *found = joined;
            }
            shown.push((block, frozen.rows, frozen.cut));
        }
        let rows: Vec<usize> = shown.iter().map(|&(_, rows, _)| rows).collect();
        // Columns were looked at before; now that we settle, a deletion that the snapshot sees is counted.
        let _settled = settle::<Standard>();
        if shown.iter().any(|&(block, _, cut)| block.gone() != cut) {
            return Ok(None);
        }
        let arrays = parts
            .iter()
            .flatten()
            .zip(infos)
            .zip(coded)
            .map(|((part, info), &coded)| match part {
                Part::Frozen(part, rows) if coded => {
                    part.column().dictionary(part.first_row, *rows)
                }
                Part::Frozen(part, rows) => part.column().slice(part.first_row, *rows, form),
                Part::Default(rows) if coded => {
                    as_dictionary(&info.defaults(*rows, form)?, &info.stored)
                }
                Part::Default(rows) => info.defaults(*rows, form),
            })
            .collect::<Result<_>>()?;
        Ok(Some((arrays, rows)))
    }

    /// The pieces of each column, a block at a time, and the number of rows.
    fn copy(
        &self,
        morsel: &Morsel,
        infos: &[Arc<ColumnInfo>],
        form: Form,
        slots: bool,
        pin: &Pin<'_>,
    ) -> Result<(Vec<Vec<ArrayRef>>, usize)> {
        let view = self.snapshot.view();
        let mut pieces: Vec<Vec<ArrayRef>> = vec![Vec::new(); infos.len() + usize::from(slots)];
        let mut total = 0;
        let mut left = morsel.rows;
        for number in morsel.first..morsel.first + morsel.blocks {
            let Some(block) = self.relation_block(number, pin) else {
                // Removed: nobody sees its rows.
                continue;
            };
            // Rows that were added since the scan was made are not visible.
            let rows = block.rows().min(left);
            left -= rows;
            let rows = Rows::First(rows);
            let seen = self
                .table
                .relation
                .read_block(block, infos, &rows, &view, form, pin)?;
            total += seen.offsets.len();
            for (pieces, column) in pieces.iter_mut().zip(seen.columns) {
                pieces.push(column);
            }
            if slots && let Some(last) = pieces.last_mut() {
                let offsets = seen.offsets.iter();
                let slots: UInt64Array = offsets
                    .map(|&row| Some(slot(number, row as usize).0))
                    .collect();
                last.push(Arc::new(slots));
            }
        }
        Ok((pieces, total))
    }
}

/// A column of a morsel that needs no patching.
enum Part<'g> {
    Frozen(&'g FrozenPart, usize),
    Default(usize),
}

impl<'g> Part<'g> {
    /// This part followed by the next block's.
    fn joined(self, next: Part<'g>) -> Option<Part<'g>> {
        match (self, next) {
            (Part::Frozen(part, rows), Part::Frozen(next, more))
                if Arc::ptr_eq(&part.extent, &next.extent)
                    && part.position == next.position
                    && part.first_row + rows == next.first_row =>
            {
                Some(Part::Frozen(part, rows + more))
            }
            (Part::Default(rows), Part::Default(more)) => Some(Part::Default(rows + more)),
            _ => None,
        }
    }
}

fn all_slots(first: u32, rows: &[usize]) -> ArrayRef {
    let slots = (first..)
        .zip(rows)
        .flat_map(|(number, &rows)| (0..rows).map(move |row| slot(number, row).0));
    Arc::new(UInt64Array::from_iter_values(slots))
}
