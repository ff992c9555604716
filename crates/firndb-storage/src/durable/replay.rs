//! Doing again what the log tells, on tables that were made from the root.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Schema};

use super::extent::FileExtent;
use super::open::Reader;
use super::record::{Kind, Part, RecordReader, Rows, TablePart, slots_of};
use super::wire::malformed;
use crate::slot::Slot;
use crate::transaction::Isolation;
use crate::{Error, Result, Storage, Table, Transaction};

/// From the slots that the log names to those that rows have now, run by run.
#[derive(Debug, Default)]
pub(super) struct SlotMap(BTreeMap<u64, (u64, u64)>);

impl SlotMap {
    /// Where a row is now.
    fn get(&self, slot: u64) -> Option<u64> {
        let (&first, &(now, count)) = self.0.range(..=slot).next_back()?;
        (slot - first < count).then(|| now + (slot - first))
    }

    /// Says where rows are now. What these slots named before is forgotten.
    pub(super) fn insert(&mut self, slot: u64, now: u64, count: u64) {
        self.remove(slot, count);
        if let Some((&first, (start, length))) = self.0.range_mut(..slot).next_back()
            && first + *length == slot
            && *start + *length == now
        {
            *length += count;
            return;
        }
        self.0.insert(slot, (now, count));
    }

    fn remove(&mut self, slot: u64, count: u64) {
        let end = slot + count;
        if let Some((&first, &(now, length))) = self.0.range(..slot).next_back()
            && first + length > slot
        {
            self.0.insert(first, (now, slot - first));
            if first + length > end {
                self.0
                    .insert(end, (now + (end - first), first + length - end));
            }
        }
        let inside: Vec<u64> = self.0.range(slot..end).map(|(&first, _)| first).collect();
        for first in inside {
            if let Some((now, length)) = self.0.remove(&first)
                && first + length > end
            {
                self.0
                    .insert(end, (now + (end - first), first + length - end));
            }
        }
    }
}

/// A table that is being recovered.
#[derive(Debug)]
pub(super) struct Recovering {
    pub(super) table: Table,
    /// The numbers of its columns in the log.
    pub(super) columns: Vec<u32>,
    pub(super) slots: SlotMap,
}

/// A recovery.
pub(super) struct Replay<'a> {
    storage: Arc<Storage>,
    file: &'a Reader,
    /// Where rows are in the file.
    pub(super) extents: BTreeMap<u64, Vec<FileExtent>>,
    pub(super) tables: BTreeMap<u64, Recovering>,
    pub(super) objects: BTreeMap<String, Vec<u8>>,
    pub(super) next_table: u64,
    /// Transactions that end in the log.
    committed: HashSet<u64>,
    open: HashMap<u64, Transaction>,
}

const WHAT: &str = "a record of the log";

impl<'a> Replay<'a> {
    pub(super) fn new(storage: &Arc<Storage>, file: &'a Reader, next_table: u64) -> Self {
        Self {
            storage: Arc::clone(storage),
            file,
            extents: BTreeMap::new(),
            tables: BTreeMap::new(),
            objects: BTreeMap::new(),
            next_table,
            committed: HashSet::new(),
            open: HashMap::new(),
        }
    }

    pub(super) fn storage(&self) -> &Arc<Storage> {
        &self.storage
    }

    /// First pass: which transactions end. Those that were written piece by piece are not touched unless they do.
    pub(super) fn look(&mut self, record: &[u8]) -> Result<()> {
        let record = RecordReader::new(record)?;
        if record.kind == Kind::Commit {
            self.committed.insert(record.transaction);
        }
        Ok(())
    }

    /// Second pass.
    pub(super) fn apply(&mut self, record: &[u8]) -> Result<()> {
        let mut record = RecordReader::new(record)?;
        let number = record.transaction;
        if record.kind == Kind::Note {
            while let Some(part) = record.next()? {
                self.note(part)?;
            }
            return Ok(());
        }
        if !self.committed.contains(&number) {
            return Ok(());
        }
        let transaction = match self.open.remove(&number) {
            Some(transaction) => transaction,
            None => self.storage.begin(Isolation::Snapshot),
        };
        while let Some(part) = record.next()? {
            transaction.begin_statement();
            self.part(&transaction, part)?;
        }
        match record.kind {
            Kind::Commit => transaction.commit()?,
            _ => {
                self.open.insert(number, transaction);
            }
        }
        Ok(())
    }

    fn note(&mut self, part: Part<'_>) -> Result<()> {
        match part {
            Part::Object(key, value) => self.object(key, value),
            Part::Move(table, moves) => {
                let Some(found) = self.tables.get_mut(&table) else {
                    // Of a table that was not committed yet, or no more.
                    return Ok(());
                };
                let now: Vec<Option<u64>> = moves
                    .iter()
                    .map(|&(from, _)| found.slots.get(from))
                    .collect();
                for (&(from, _), _) in moves.iter().zip(&now) {
                    found.slots.remove(from, 1);
                }
                for ((_, to), now) in moves.into_iter().zip(now) {
                    if let Some(now) = now {
                        found.slots.insert(to, now, 1);
                    }
                }
            }
            _ => return Err(malformed(WHAT)),
        }
        Ok(())
    }

    fn object(&mut self, key: &str, value: Option<&[u8]>) {
        match value {
            Some(value) => self.objects.insert(key.to_owned(), value.to_vec()),
            None => self.objects.remove(key),
        };
    }

    fn part(&mut self, transaction: &Transaction, part: Part<'_>) -> Result<()> {
        match part {
            Part::Table(part) => self.table(transaction, part)?,
            Part::Drop(table) => {
                // Its extents stay taken: until the next root, a recovery begins with them.
                self.tables.remove(&table);
            }
            Part::Object(key, value) => self.object(key, value),
            Part::Write(Rows::Insert, table, slots, rows) => {
                let found = self.found(table)?;
                let batch = in_layout(&rows, &found.table, &found.columns)?;
                let now = found.table.insert(transaction, &batch)?;
                found.table.note_changed(&now);
                for (slot, Slot(now)) in slots_of(&slots).zip(now) {
                    found.slots.insert(slot, now, 1);
                }
            }
            Part::Write(Rows::Update, table, slots, rows) => {
                let found = self.found(table)?;
                let now = found.now(&slots)?;
                let (mut positions, mut arrays) = (Vec::new(), Vec::new());
                for (field, array) in rows.schema().fields().iter().zip(rows.columns()) {
                    let position = found
                        .columns
                        .iter()
                        .position(|number| number.to_string() == *field.name())
                        .ok_or_else(|| malformed(WHAT))?;
                    positions.push(position);
                    arrays.push(Arc::clone(array));
                }
                let values = RecordBatch::try_new(rows.schema(), arrays)?;
                found.table.update(transaction, &now, &positions, &values)?;
                found.table.note_changed(&now);
            }
            Part::Extent(table, extent) => {
                let found = self.tables.get_mut(&table).ok_or_else(|| no_table(table))?;
                let extent = load_extents(self.file, transaction, found, vec![extent])?;
                self.extents.entry(table).or_default().extend(extent);
            }
            Part::Delete(table, slots) => {
                let found = self.found(table)?;
                let now = found.now(&slots)?;
                found.table.delete(transaction, &now)?;
                found.table.note_changed(&now);
            }
            Part::Move(..) => return Err(malformed(WHAT)),
        }
        Ok(())
    }

    fn found(&mut self, table: u64) -> Result<&mut Recovering> {
        self.tables.get_mut(&table).ok_or_else(|| no_table(table))
    }

    /// Makes a table, or gives it other columns.
    pub(super) fn table(&mut self, transaction: &Transaction, part: TablePart) -> Result<()> {
        self.next_table = self.next_table.max(part.id + 1);
        if part.schema.fields().len() != part.columns.len() {
            return Err(malformed("a table"));
        }
        let Some(found) = self.tables.get_mut(&part.id) else {
            let table = self
                .storage
                .create_table(&part.name, Arc::clone(&part.schema))?;
            self.tables.insert(
                part.id,
                Recovering {
                    table,
                    columns: part.columns,
                    slots: SlotMap::default(),
                },
            );
            return Ok(());
        };
        let mut table = found.table.clone();
        table.lock_exclusive(transaction)?;
        let before = found.columns.len();
        for position in (0..found.columns.len()).rev() {
            if !part.columns.contains(&found.columns[position]) {
                table = table.drop_column(transaction, position)?;
                found.columns.remove(position);
            }
        }
        let is_narrower = found.columns.len() < before;
        if !part.columns.starts_with(&found.columns) {
            return Err(malformed("a table"));
        }
        for position in found.columns.len()..part.columns.len() {
            let name = part.columns[position].to_string();
            let default = part
                .defaults
                .as_ref()
                .and_then(|defaults| defaults.column_by_name(&name))
                .ok_or_else(|| malformed("a table"))?;
            let field = Arc::clone(&part.schema.fields()[position]);
            table = table.add_column(transaction, field, Arc::clone(default))?;
        }
        if found.columns != part.columns || is_narrower {
            // Their extents have other columns.
            let relation = table.relation();
            relation.note_changed(0..relation.block_count());
        }
        found.columns = part.columns;
        found.table = table.with_schema(part.schema)?;
        Ok(())
    }
}

impl Recovering {
    /// Where rows are now.
    fn now(&self, slots: &[(u64, u32)]) -> Result<Vec<Slot>> {
        slots_of(slots)
            .map(|slot| {
                self.slots.get(slot).map(Slot).ok_or_else(|| {
                    Error::Damaged("the log names a row that is not there".to_owned())
                })
            })
            .collect()
    }
}

fn no_table(table: u64) -> Error {
    Error::Damaged(format!("the log names table {table}, which is not there"))
}

/// Loads the rows of extents into their table; the extents get the slots that their rows have now.
pub(super) fn load_extents(
    file: &Reader,
    transaction: &Transaction,
    found: &mut Recovering,
    mut extents: Vec<FileExtent>,
) -> Result<Vec<FileExtent>> {
    let name = found.table.relation().name.clone();
    let mut load = found.table.bulk_insert(transaction)?;
    load.keep_places();
    for extent in &extents {
        let what = format!("an extent of table \"{name}\"");
        let rows = file.extent(extent, &name)?;
        let types = |schema: &Schema| -> Vec<DataType> {
            let fields = schema.fields().iter();
            fields.map(|field| field.data_type().clone()).collect()
        };
        if types(&rows.schema()) != types(found.table.schema()) {
            return Err(malformed(&what));
        }
        load.append(rows)?;
    }
    let mut now = load.finish_places()?.into_iter();
    let mut rest: (u64, u64) = (0, 0);
    for extent in &mut extents {
        let mut slots = Vec::new();
        for (old, count) in std::mem::take(&mut extent.slots) {
            let (mut old, mut left) = (old, u64::from(count));
            while left > 0 {
                if rest.1 == 0 {
                    rest = now
                        .next()
                        .map(|(first, count)| (first, u64::from(count)))
                        .ok_or_else(|| malformed("the list of extents"))?;
                }
                let taken = left.min(rest.1);
                found.slots.insert(old, rest.0, taken);
                slots.push((rest.0, taken as u32));
                old += taken;
                left -= taken;
                rest = (rest.0 + taken, rest.1 - taken);
            }
        }
        extent.slots = slots;
    }
    Ok(extents)
}

/// The columns of a batch that are named by numbers, in the order of a table.
fn in_layout(rows: &RecordBatch, table: &Table, columns: &[u32]) -> Result<RecordBatch> {
    let arrays = columns
        .iter()
        .map(|number| {
            rows.column_by_name(&number.to_string())
                .cloned()
                .ok_or_else(|| malformed(WHAT))
        })
        .collect::<Result<Vec<ArrayRef>>>()?;
    let fields: Vec<_> = table
        .schema()
        .fields()
        .iter()
        .map(|field| field.as_ref().clone().with_nullable(true))
        .collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    let schema = Arc::new(Schema::new(fields));
    RecordBatch::try_new_with_options(schema, arrays, &options)
        .map_err(|error| Error::Damaged(format!("{WHAT} is malformed: {error}")))
}

#[cfg(test)]
mod tests {
    use super::SlotMap;

    #[test]
    fn runs_join_and_split() {
        let mut map = SlotMap::default();
        map.insert(10, 100, 5);
        map.insert(15, 105, 5);
        assert_eq!(map.0.len(), 1);
        map.insert(12, 7, 1);
        let found: Vec<_> = (9..21).map(|slot| map.get(slot)).collect();
        let expected = [
            None,
            Some(100),
            Some(101),
            Some(7),
            Some(103),
            Some(104),
            Some(105),
            Some(106),
            Some(107),
            Some(108),
            Some(109),
            None,
        ];
        assert_eq!(found, expected);
        map.remove(0, 14);
        assert_eq!(map.get(13), None);
        assert_eq!(map.get(14), Some(104));
    }
}
