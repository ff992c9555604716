//! Programs: what a compiled statement does to storage.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::scalar::ScalarValue;
use firndb_storage::{Cell, Form, Reader, Row, RowByKey, RowUpdate, Transaction};

use super::row::{Columns, Done, OneRow};
use super::value::{Datum, Kind};
use crate::catalog::TableEntry;
use crate::error::Result;

/// Where a value comes from.
#[derive(Debug, Clone)]
pub(super) enum Source {
    /// The parameter of this number, from 0.
    Parameter(usize),
    /// A literal.
    Constant(ScalarValue),
}

impl Source {
    fn datum<'a>(&'a self, arguments: &[Datum<'a>]) -> Option<Datum<'a>> {
        match self {
            Source::Parameter(number) => arguments.get(*number).copied(),
            Source::Constant(value) => Datum::of(value),
        }
    }
}

/// A key that a condition fixes.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) constraint: String,
    /// One for each column of the constraint.
    pub(super) values: Vec<(Kind, Source)>,
}

impl Key {
    fn cells<'a>(&'a self, arguments: &[Datum<'a>]) -> Option<Vec<Cell<'a>>> {
        self.values
            .iter()
            .map(|(kind, source)| kind.compared(source.datum(arguments)?))
            // NULL equals nothing: what that yields is left to the general way.
            .map(|cell| cell.filter(|cell| !cell.is_null()))
            .collect()
    }
}

/// What a column is set to.
#[derive(Debug)]
pub(super) enum Change {
    /// A value.
    Value(Source),
    /// The stored value of a column of the same type, at this place among those that are read.
    Stored(usize),
    /// That, and a value added to it or taken away.
    Sum {
        stored: usize,
        value: Source,
        minus: bool,
    },
}

/// A column that is set.
#[derive(Debug)]
pub(super) struct Set {
    pub(super) kind: Kind,
    pub(super) nullable: bool,
    pub(super) change: Change,
}

/// Where a column of RETURNING comes from.
#[derive(Debug, Clone, Copy)]
pub(super) enum Returned {
    /// What was read, at this place.
    Stored(usize),
    /// What was written, at this place.
    Written(usize),
}

/// A column of a new row.
#[derive(Debug)]
pub(super) struct Fresh {
    pub(super) kind: Option<Kind>,
    pub(super) nullable: bool,
    /// None: NULL.
    pub(super) value: Option<Source>,
}

/// What a program does.
#[derive(Debug)]
pub enum Operation {
    /// SELECT.
    Select(Select),
    /// UPDATE.
    Update(Update),
    /// DELETE.
    Delete(Delete),
    /// INSERT.
    Insert(Insert),
}

/// SELECT of the row with a key.
#[derive(Debug)]
pub struct Select {
    pub(super) key: Key,
    pub(super) rows: RowByKey,
}

/// UPDATE of the row with a key.
#[derive(Debug)]
pub struct Update {
    pub(super) key: Key,
    pub(super) rows: RowByKey,
    pub(super) sets: Vec<Set>,
    pub(super) write: RowUpdate,
    pub(super) returning: Vec<Returned>,
}

/// DELETE of the row with a key.
#[derive(Debug)]
pub struct Delete {
    pub(super) key: Key,
    pub(super) rows: RowByKey,
}

/// INSERT of one row.
#[derive(Debug)]
pub struct Insert {
    pub(super) columns: Vec<Fresh>,
    pub(super) returning: Vec<usize>,
    /// ON CONFLICT DO NOTHING: the keys that are looked for before.
    pub(super) unless: Vec<Arbiter>,
}

/// A key that a new row must not meet.
#[derive(Debug)]
pub(super) struct Arbiter {
    pub(super) rows: RowByKey,
    /// The table's columns that make it up.
    pub(super) columns: Vec<usize>,
}

/// A compiled statement.
#[derive(Debug)]
pub struct Program {
    pub(super) table: Arc<TableEntry>,
    pub(super) operation: Operation,
    pub(super) parameters: usize,
    /// The kinds of what it yields, if it yields rows, and the table's columns that these are.
    pub(super) yields: Option<Vec<(Kind, usize)>>,
    /// What its rows look like, once that is known.
    pub(super) columns: Option<Arc<Columns>>,
}

impl Program {
    /// The table.
    pub fn table(&self) -> &firndb_storage::Table {
        &self.table.table
    }

    /// Whether it only reads.
    pub fn is_query(&self) -> bool {
        matches!(self.operation, Operation::Select(_))
    }

    /// Whether it may run: what it yields is known.
    pub fn is_complete(&self) -> bool {
        self.yields.is_none() || self.columns.is_some()
    }

    /// Learns from the general way what its rows look like; `None` if they are not what was expected.
    pub fn with_schema(mut self, schema: Option<SchemaRef>) -> Option<Program> {
        let Some(yields) = &self.yields else {
            return schema.is_none().then_some(self);
        };
        let schema = schema?;
        let stored = self.table.stored_schema();
        let same = schema.fields().len() == yields.len()
            && schema
                .fields()
                .iter()
                .zip(yields)
                .all(|(field, &(_, column))| {
                    *field.data_type() == Form::Compute.data_type(stored.field(column).data_type())
                });
        if !same {
            return None;
        }
        let kinds = yields.iter().map(|&(kind, _)| kind).collect();
        self.columns = Some(Arc::new(Columns { schema, kinds }));
        Some(self)
    }

    /// What it does, in a line, for EXPLAIN.
    pub fn describe(&self) -> String {
        let by = |key: &Key| format!("{} by {}", self.table.name, key.constraint);
        match &self.operation {
            Operation::Select(select) => format!("compiled: select from {}", by(&select.key)),
            Operation::Update(update) => format!("compiled: update of {}", by(&update.key)),
            Operation::Delete(delete) => format!("compiled: delete from {}", by(&delete.key)),
            Operation::Insert(_) => format!("compiled: insert into {}", self.table.name),
        }
    }

    /// Runs a query. `None`: take the general way.
    pub fn read(&self, reader: Reader<'_>, arguments: &[Datum<'_>]) -> Result<Option<Done>> {
        let Operation::Select(select) = &self.operation else {
            return Ok(None);
        };
        let (true, Some(columns)) = (arguments.len() == self.parameters, &self.columns) else {
            return Ok(None);
        };
        let Some(key) = select.key.cells(arguments) else {
            return Ok(None);
        };
        let mut row = Row::default();
        let found = select.rows.read(reader, &key, &mut row)?;
        Ok(Some(Done {
            tag: "SELECT",
            affected: None,
            rows: Some(OneRow {
                columns: Arc::clone(columns),
                row: found.map(|_| row),
            }),
        }))
    }

    /// Runs a write as the current statement of a transaction. `None`: undo it and take the general way.
    pub fn write(
        &self,
        transaction: &Transaction,
        arguments: &[Datum<'_>],
    ) -> Result<Option<Done>> {
        if arguments.len() != self.parameters || !self.is_complete() {
            return Ok(None);
        }
        match &self.operation {
            Operation::Select(_) => Ok(None),
            Operation::Update(update) => self.update(update, transaction, arguments),
            Operation::Delete(delete) => self.delete(delete, transaction, arguments),
            Operation::Insert(insert) => self.insert(insert, transaction, arguments),
        }
    }

    fn update(
        &self,
        update: &Update,
        transaction: &Transaction,
        arguments: &[Datum<'_>],
    ) -> Result<Option<Done>> {
        let Some(key) = update.key.cells(arguments) else {
            return Ok(None);
        };
        let mut stored = Row::default();
        let reader = Reader::Transaction(transaction);
        let found = update.rows.read(reader, &key, &mut stored)?;
        let Some(slot) = found else {
            let plain = update.sets.iter().all(|set| set.is_plain(arguments));
            return Ok(plain.then(|| self.done("UPDATE", 0, None)));
        };
        let cells: Option<Vec<Cell<'_>>> = update
            .sets
            .iter()
            .map(|set| set.cell(&stored, arguments))
            .collect();
        let Some(cells) = cells else { return Ok(None) };
        if update.write.write(transaction, slot, &cells)? {
            self.table().check_unique(transaction)?;
        }
        let row = self.columns.is_some().then(|| {
            let mut row = Row::default();
            for returned in &update.returning {
                row.push(match *returned {
                    Returned::Stored(at) => stored.get(at),
                    Returned::Written(at) => cells[at],
                });
            }
            row
        });
        Ok(Some(self.done("UPDATE", 1, row)))
    }

    fn delete(
        &self,
        delete: &Delete,
        transaction: &Transaction,
        arguments: &[Datum<'_>],
    ) -> Result<Option<Done>> {
        let Some(key) = delete.key.cells(arguments) else {
            return Ok(None);
        };
        let mut stored = Row::default();
        let reader = Reader::Transaction(transaction);
        match delete.rows.read(reader, &key, &mut stored)? {
            None => Ok(Some(self.done("DELETE", 0, None))),
            Some(slot) => {
                self.table().delete_row(transaction, slot)?;
                Ok(Some(self.done("DELETE", 1, Some(stored))))
            }
        }
    }

    fn insert(
        &self,
        insert: &Insert,
        transaction: &Transaction,
        arguments: &[Datum<'_>],
    ) -> Result<Option<Done>> {
        let cells: Option<Vec<Cell<'_>>> = insert
            .columns
            .iter()
            .map(|column| column.cell(arguments))
            .collect();
        let Some(cells) = cells else { return Ok(None) };
        for arbiter in &insert.unless {
            let key: Vec<Cell<'_>> = arbiter.columns.iter().map(|&at| cells[at]).collect();
            let reader = Reader::Transaction(transaction);
            if arbiter
                .rows
                .read(reader, &key, &mut Row::default())?
                .is_some()
            {
                return Ok(Some(self.done("INSERT", 0, None)));
            }
        }
        self.table().insert_row(transaction, &cells)?;
        self.table().check_unique(transaction)?;
        let row = self.columns.is_some().then(|| {
            let mut row = Row::default();
            for &at in &insert.returning {
                row.push(cells[at]);
            }
            row
        });
        Ok(Some(self.done("INSERT", 1, row)))
    }

    fn done(&self, tag: &'static str, affected: u64, row: Option<Row>) -> Done {
        Done {
            tag,
            affected: Some(affected),
            rows: self.columns.as_ref().map(|columns| OneRow {
                columns: Arc::clone(columns),
                row,
            }),
        }
    }
}

impl Set {
    /// Whether its value is one for the column, whatever is stored.
    fn is_plain(&self, arguments: &[Datum<'_>]) -> bool {
        let plain = |source: &Source| {
            let datum = source.datum(arguments)?;
            match &self.change {
                Change::Sum { minus, .. } => self.kind.sum(Cell::Null, datum, *minus).map(|_| ()),
                _ => self.kind.assigned(datum).map(|_| ()),
            }
        };
        match &self.change {
            Change::Value(source) | Change::Sum { value: source, .. } => plain(source).is_some(),
            Change::Stored(_) => true,
        }
    }

    fn cell<'a>(&'a self, stored: &'a Row, arguments: &[Datum<'a>]) -> Option<Cell<'a>> {
        let cell = match &self.change {
            Change::Value(source) => self.kind.assigned(source.datum(arguments)?)?,
            Change::Stored(at) => stored.get(*at),
            Change::Sum {
                stored: at,
                value,
                minus,
            } => self
                .kind
                .sum(stored.get(*at), value.datum(arguments)?, *minus)?,
        };
        (self.nullable || !cell.is_null()).then_some(cell)
    }
}

impl Fresh {
    fn cell<'a>(&'a self, arguments: &[Datum<'a>]) -> Option<Cell<'a>> {
        let cell = match (&self.value, self.kind) {
            (None, _) => Cell::Null,
            (Some(source), Some(kind)) => kind.assigned(source.datum(arguments)?)?,
            (Some(_), None) => return None,
        };
        (self.nullable || !cell.is_null()).then_some(cell)
    }
}
