//! Records of the log: what transactions did.
//!
//! ```text
//!   record = kind (1) │ transaction (8) │ part │ part │ …
//!     piece    parts of a transaction that goes on, or never ends
//!     commit   the last parts of a transaction: with this record it is there, as a whole
//!     note     parts that belong to no transaction: moved rows, objects that change by themselves
//!   part = tag (1) │ …
//!     table    number, name, schema, its columns' numbers, what rows have that are older than a column
//!     extent   table, slots, where in the file rows are that were loaded in bulk, and their checksums
//!     insert   table, slots, all columns          ┐
//!     update   table, slots, the changed columns  ├ after-images as Arrow IPC streams whose fields are named by column numbers
//!     delete   table, slots                       ┘
//!     drop     table
//!     object   key, definition or nothing
//!     move     table, pairs of slots: a row changed its place
//! ```
//!
//! A slot is a name for a row that holds from one root to the next: the root says which of its rows have which slots.

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;

use super::extent::FileExtent;
use super::wire::{Decoder, Encoder, malformed, read_stream, stream_of, stream_of_schema};
use crate::Result;
use crate::slot::Slot;

/// What a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Piece = 1,
    Commit = 2,
    Note = 3,
}

/// What happens to the rows of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rows {
    Insert = 2,
    Update = 3,
}

const TABLE: u8 = 1;
const DELETE: u8 = 4;
const DROP: u8 = 5;
const OBJECT: u8 = 6;
const MOVE: u8 = 7;
const EXTENT: u8 = 8;

/// A record that is being written.
#[derive(Debug)]
pub(crate) struct RecordWriter {
    out: Encoder,
    empty: usize,
}

/// A table as the log tells of it.
#[derive(Debug, Clone)]
pub(crate) struct TablePart {
    pub(crate) id: u64,
    pub(crate) name: String,
    pub(crate) schema: SchemaRef,
    /// The numbers of its columns.
    pub(crate) columns: Vec<u32>,
    /// One row: the defaults of columns that were added, by their numbers.
    pub(crate) defaults: Option<RecordBatch>,
}

/// A part of a record that is being read.
#[derive(Debug)]
pub(crate) enum Part<'a> {
    Table(TablePart),
    Write(Rows, u64, Vec<(u64, u32)>, RecordBatch),
    Delete(u64, Vec<(u64, u32)>),
    Drop(u64),
    Object(&'a str, Option<&'a [u8]>),
    Move(u64, Vec<(u64, u64)>),
    Extent(u64, FileExtent),
}

impl RecordWriter {
    pub(crate) fn new(kind: Kind, transaction: u64) -> Self {
        let mut out = Encoder::default();
        out.u8(kind as u8);
        out.u64(transaction);
        let empty = out.0.len();
        Self { out, empty }
    }

    /// Whether there are no parts in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.out.0.len() == self.empty
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.out.0
    }

    pub(crate) fn len(&self) -> usize {
        self.out.0.len()
    }

    pub(crate) fn table(&mut self, table: &TablePart) -> Result<()> {
        self.out.u8(TABLE);
        self.out.u64(table.id);
        self.out.bytes(table.name.as_bytes());
        self.out.bytes(&stream_of_schema(&table.schema)?);
        self.out.u32(table.columns.len() as u32);
        for &column in &table.columns {
            self.out.u32(column);
        }
        match &table.defaults {
            Some(defaults) => self.out.bytes(&stream_of(defaults)?),
            None => self.out.bytes(&[]),
        }
        Ok(())
    }

    pub(crate) fn write(
        &mut self,
        what: Rows,
        table: u64,
        slots: &[(u64, u32)],
        rows: &RecordBatch,
    ) -> Result<()> {
        self.out.u8(what as u8);
        self.out.u64(table);
        self.slots(slots);
        self.out.bytes(&stream_of(rows)?);
        Ok(())
    }

    pub(crate) fn delete(&mut self, table: u64, slots: &[(u64, u32)]) {
        self.out.u8(DELETE);
        self.out.u64(table);
        self.slots(slots);
    }

    pub(crate) fn extent(&mut self, table: u64, extent: &FileExtent) {
        self.out.u8(EXTENT);
        self.out.u64(table);
        self.slots(&extent.slots);
        self.out.u64(extent.offset);
        self.out.u64(extent.length);
        self.out.u32(extent.checksums.len() as u32);
        for &checksum in &extent.checksums {
            self.out.u64(checksum);
        }
    }

    pub(crate) fn drop_table(&mut self, table: u64) {
        self.out.u8(DROP);
        self.out.u64(table);
    }

    pub(crate) fn object(&mut self, key: &str, value: Option<&[u8]>) {
        self.out.u8(OBJECT);
        self.out.bytes(key.as_bytes());
        self.out.u8(u8::from(value.is_some()));
        self.out.bytes(value.unwrap_or_default());
    }

    pub(crate) fn moves(&mut self, table: u64, moves: &[(Slot, Slot)]) {
        self.out.u8(MOVE);
        self.out.u64(table);
        self.out.u32(moves.len() as u32);
        for (from, to) in moves {
            self.out.u64(from.0);
            self.out.u64(to.0);
        }
    }

    fn slots(&mut self, runs: &[(u64, u32)]) {
        self.out.u32(runs.len() as u32);
        for &(first, count) in runs {
            self.out.u64(first);
            self.out.u32(count);
        }
    }
}

/// Ascending slots as runs: the first, and how many follow each other.
pub(crate) fn runs(slots: impl Iterator<Item = Slot>) -> Vec<(u64, u32)> {
    let mut runs: Vec<(u64, u32)> = Vec::new();
    for Slot(slot) in slots {
        match runs.last_mut() {
            Some((first, count)) if *first + u64::from(*count) == slot && *count < u32::MAX => {
                *count += 1;
            }
            _ => runs.push((slot, 1)),
        }
    }
    runs
}

/// The slots of runs.
pub(crate) fn slots_of(runs: &[(u64, u32)]) -> impl Iterator<Item = u64> {
    runs.iter()
        .flat_map(|&(first, count)| first..first + u64::from(count))
}

/// A record that is being read.
pub(crate) struct RecordReader<'a> {
    pub(crate) kind: Kind,
    pub(crate) transaction: u64,
    input: Decoder<'a>,
}

const WHAT: &str = "a record of the log";

impl<'a> RecordReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Self> {
        let mut input = Decoder::new(bytes, WHAT);
        let kind = match input.u8()? {
            1 => Kind::Piece,
            2 => Kind::Commit,
            3 => Kind::Note,
            _ => return Err(malformed(WHAT)),
        };
        Ok(Self {
            kind,
            transaction: input.u64()?,
            input,
        })
    }

    /// The next part.
    pub(crate) fn next(&mut self) -> Result<Option<Part<'a>>> {
        if self.input.is_empty() {
            return Ok(None);
        }
        let input = &mut self.input;
        let tag = input.u8()?;
        if tag == OBJECT {
            let key = std::str::from_utf8(input.bytes()?).map_err(|_| malformed(WHAT))?;
            let is_there = input.u8()? != 0;
            let value = input.bytes()?;
            return Ok(Some(Part::Object(key, is_there.then_some(value))));
        }
        let table = input.u64()?;
        Ok(Some(match tag {
            TABLE => Part::Table(self.table(table)?),
            2 | 3 => {
                let what = if tag == 2 { Rows::Insert } else { Rows::Update };
                let slots = self.slots()?;
                let rows = self.batch()?.ok_or_else(|| malformed(WHAT))?;
                let named: u64 = slots.iter().map(|&(_, count)| u64::from(count)).sum();
                if named != rows.num_rows() as u64 {
                    return Err(malformed(WHAT));
                }
                Part::Write(what, table, slots, rows)
            }
            DELETE => Part::Delete(table, self.slots()?),
            DROP => Part::Drop(table),
            EXTENT => Part::Extent(table, self.extent()?),
            MOVE => {
                let count = input.u32()?;
                let mut moves = Vec::new();
                for _ in 0..count {
                    moves.push((input.u64()?, input.u64()?));
                }
                Part::Move(table, moves)
            }
            _ => return Err(malformed(WHAT)),
        }))
    }

    fn table(&mut self, id: u64) -> Result<TablePart> {
        let name = std::str::from_utf8(self.input.bytes()?).map_err(|_| malformed(WHAT))?;
        let (schema, _) = read_stream(Buffer::from(self.input.bytes()?), WHAT)?;
        let count = self.input.u32()?;
        let mut columns = Vec::new();
        for _ in 0..count {
            columns.push(self.input.u32()?);
        }
        Ok(TablePart {
            id,
            name: name.to_owned(),
            schema,
            columns,
            defaults: self.batch()?,
        })
    }

    fn extent(&mut self) -> Result<FileExtent> {
        let slots = self.slots()?;
        let (offset, length) = (self.input.u64()?, self.input.u64()?);
        let count = self.input.u32()?;
        let mut checksums = Vec::new();
        for _ in 0..count {
            checksums.push(self.input.u64()?);
        }
        Ok(FileExtent {
            offset,
            length,
            rows: slots.iter().map(|&(_, count)| u64::from(count)).sum(),
            checksums,
            slots,
        })
    }

    fn batch(&mut self) -> Result<Option<RecordBatch>> {
        let bytes = self.input.bytes()?;
        if bytes.is_empty() {
            return Ok(None);
        }
        let (_, batches) = read_stream(Buffer::from(bytes), WHAT)?;
        match <[RecordBatch; 1]>::try_from(batches) {
            Ok([batch]) => Ok(Some(batch)),
            Err(_) => Err(malformed(WHAT)),
        }
    }

    fn slots(&mut self) -> Result<Vec<(u64, u32)>> {
        let count = self.input.u32()?;
        let mut runs = Vec::new();
        let mut rows = 0_u64;
        for _ in 0..count {
            let (first, length) = (self.input.u64()?, self.input.u32()?);
            rows += u64::from(length);
            if first.checked_add(u64::from(length)).is_none() || rows > 1 << 32 {
                return Err(malformed(WHAT));
            }
            runs.push((first, length));
        }
        Ok(runs)
    }
}
