//! Random interleavings of several transactions against a simple model: a map per snapshot.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::{ArrayRef, Decimal128Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use common::*;
use firndb_storage::{Error, Savepoint, Slot, Storage, Table, Transaction};

/// A small generator of numbers (xorshift), so that a failing seed can be run again.
struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % below
    }
}

type Rows = BTreeMap<Slot, (i64, Option<String>)>;

/// Which committed transaction last changed each row.
type LastCommits = BTreeMap<Slot, u64>;

struct Open {
    transaction: Transaction,
    /// What it sees: its snapshot and its own changes.
    rows: Rows,
    /// Number of commits that its snapshot has.
    start: u64,
    changed: BTreeSet<Slot>,
    savepoints: Vec<(Savepoint, Rows, BTreeSet<Slot>)>,
}

struct World {
    storage: Arc<Storage>,
    table: Table,
    schema: SchemaRef,
    committed: Rows,
    last: LastCommits,
    commits: u64,
    open: Vec<Open>,
    next_id: i64,
    random: Random,
}

/// Wide, so that blocks have few rows.
fn wide_schema() -> SchemaRef {
    let mut fields = vec![
        Field::new("id", DataType::Int64, true),
        Field::new("name", DataType::Utf8, true),
    ];
    for number in 0..70 {
        let name = format!("filler{number}");
        fields.push(Field::new(name, DataType::Decimal128(38, 0), true));
    }
    Arc::new(Schema::new(fields))
}

fn wide_rows(schema: &SchemaRef, ids: Vec<i64>, names: Vec<Option<String>>) -> RecordBatch {
    let count = ids.len();
    let mut columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(ids)),
        Arc::new(StringArray::from(names)),
    ];
    let filler = Decimal128Array::from(vec![Some(1_i128); count])
        .with_precision_and_scale(38, 0)
        .unwrap();
    let filler: ArrayRef = Arc::new(filler);
    columns.resize_with(schema.fields().len(), || Arc::clone(&filler));
    RecordBatch::try_new(Arc::clone(schema), columns).unwrap()
}

impl World {
    fn new(seed: u64) -> Self {
        let storage = storage();
        let schema = wide_schema();
        let table = storage.create_table("t", Arc::clone(&schema)).unwrap();
        // The model knows rows by their slots, which compaction changes: see `tests/freezing.rs` for a model that knows them by key.
        table.set_freeze_after(None);
        let mut world = World {
            storage,
            table,
            schema,
            committed: Rows::new(),
            last: LastCommits::new(),
            commits: 0,
            open: Vec::new(),
            next_id: 0,
            random: Random(seed),
        };
        world.load();
        world
    }

    /// Loads blocks that are born frozen, and a remainder.
    fn load(&mut self) {
        let count = self.table.block_rows() + 100;
        let ids: Vec<i64> = (0..count as i64).map(|at| self.next_id + at).collect();
        self.next_id += count as i64;
        let names: Vec<Option<String>> = ids.iter().map(|_| self.name()).collect();
        let transaction = begin(&self.storage);
        let mut load = self.table.bulk_insert(&transaction).unwrap();
        load.append(wide_rows(&self.schema, ids, names)).unwrap();
        load.finish().unwrap();
        self.commits += 1;
        transaction.commit().unwrap();
        let reader = begin(&self.storage);
        for (slot, id, name) in scan(&self.table, &reader.snapshot()) {
            if self.committed.insert(slot, (id.unwrap(), name)).is_none() {
                self.last.insert(slot, self.commits);
            }
        }
    }

    fn name(&mut self) -> Option<String> {
        match self.random.next(4) {
            0 => None,
            1 => Some("short".into()),
            length => Some("long ".repeat(4 * length as usize + self.random.next(20) as usize)),
        }
    }

    fn step(&mut self) {
        if self.open.len() < 2 || (self.open.len() < 6 && self.random.next(8) == 0) {
            self.open.push(Open {
                transaction: begin(&self.storage),
                rows: self.committed.clone(),
                start: self.commits,
                changed: BTreeSet::new(),
                savepoints: Vec::new(),
            });
            return;
        }
        let at = self.random.next(self.open.len() as u64) as usize;
        match self.random.next(40) {
            0..=1 => self.commit(at),
            2 => {
                self.open.swap_remove(at).transaction.rollback();
            }
            3..=4 => {
                let open = &mut self.open[at];
                let savepoint = open.transaction.begin_statement();
                let entry = (savepoint, open.rows.clone(), open.changed.clone());
                open.savepoints.push(entry);
            }
            5 => self.roll_back_to(at),
            6 => self.storage.collect(),
            7..=14 => self.check(at),
            15..=20 => self.insert(at),
            21..=33 => self.update(at),
            _ => self.delete(at),
        }
    }

    fn commit(&mut self, at: usize) {
        let open = self.open.swap_remove(at);
        if open.transaction.has_writes() {
            self.commits += 1;
        }
        open.transaction.commit().unwrap();
        for slot in open.changed {
            match open.rows.get(&slot) {
                Some(row) => self.committed.insert(slot, row.clone()),
                None => self.committed.remove(&slot),
            };
            self.last.insert(slot, self.commits);
        }
    }

    fn roll_back_to(&mut self, at: usize) {
        let count = self.open[at].savepoints.len() as u64;
        if count == 0 {
            return;
        }
        let chosen = self.random.next(count) as usize;
        let open = &mut self.open[at];
        open.savepoints.truncate(chosen + 1);
        let (savepoint, rows, changed) = open.savepoints[chosen].clone();
        open.transaction.rollback_to(&savepoint);
        open.rows = rows;
        open.changed = changed;
    }

    fn insert(&mut self, at: usize) {
        let (id, name) = (self.next_id, self.name());
        self.next_id += 1;
        let batch = wide_rows(&self.schema, vec![id], vec![name.clone()]);
        let open = &mut self.open[at];
        open.transaction.begin_statement();
        let slots = self.table.insert(&open.transaction, &batch).unwrap();
        open.rows.insert(slots[0], (id, name));
        open.changed.insert(slots[0]);
    }

    /// A row that the transaction sees: often one of a few, so that there are conflicts.
    fn pick(&mut self, at: usize) -> Option<Slot> {
        let count = self.open[at].rows.len() as u64;
        if count == 0 {
            return None;
        }
        let limit = if self.random.next(3) > 0 {
            count.min(12)
        } else {
            count
        };
        let nth = self.random.next(limit) as usize;
        self.open[at].rows.keys().nth(nth).copied()
    }

    /// Whether first writer wins against the transaction.
    fn conflicts(&self, at: usize, slot: Slot) -> bool {
        let open = &self.open[at];
        let taken = self
            .open
            .iter()
            .enumerate()
            .any(|(other, open)| other != at && open.changed.contains(&slot));
        let newer = self.last.get(&slot).is_some_and(|&last| last > open.start);
        taken || newer
    }

    fn update(&mut self, at: usize) {
        let Some(slot) = self.pick(at) else { return };
        let name = self.name();
        let (id, _) = self.open[at].rows[&slot].clone();
        let expected = self.conflicts(at, slot);
        let schema = Schema::new(vec![
            Field::new("name", DataType::Utf8, true),
            Field::new("id", DataType::Int64, true),
        ]);
        let both = self.random.next(2) == 0;
        let names: ArrayRef = Arc::new(StringArray::from(vec![name.clone()]));
        let ids: ArrayRef = Arc::new(Int64Array::from(vec![id + 1]));
        let values = RecordBatch::try_new(Arc::new(schema), vec![names, ids]).unwrap();
        let open = &mut self.open[at];
        open.transaction.begin_statement();
        let result = if both {
            self.table
                .update(&open.transaction, &[slot], &[1, 0], &values)
        } else {
            let values = values.project(&[0]).unwrap();
            self.table.update(&open.transaction, &[slot], &[1], &values)
        };
        if settled(result, expected) {
            let id = if both { id + 1 } else { id };
            open.rows.insert(slot, (id, name));
            open.changed.insert(slot);
        }
    }

    fn delete(&mut self, at: usize) {
        let Some(slot) = self.pick(at) else { return };
        let expected = self.conflicts(at, slot);
        let open = &mut self.open[at];
        open.transaction.begin_statement();
        let result = self.table.delete(&open.transaction, &[slot]);
        if settled(result, expected) {
            open.rows.remove(&slot);
            open.changed.insert(slot);
        }
    }

    fn check(&self, at: usize) {
        let open = &self.open[at];
        open.transaction.begin_statement();
        let found: Rows = scan(&self.table, &open.transaction.snapshot())
            .into_iter()
            .map(|(slot, id, name)| (slot, (id.unwrap(), name)))
            .collect();
        let differing: Vec<_> = found
            .keys()
            .chain(open.rows.keys())
            .filter(|slot| found.get(slot) != open.rows.get(slot))
            .map(|slot| (slot, found.get(slot), open.rows.get(slot)))
            .collect();
        assert!(differing.is_empty(), "found, expected: {differing:?}");
    }
}

/// Whether the write was done; it must be refused exactly when it was expected to be.
fn settled(result: Result<(), Error>, conflict: bool) -> bool {
    match (result, conflict) {
        (Ok(()), false) => true,
        (Err(Error::Conflict { .. }), true) => false,
        (result, _) => panic!("{result:?}, while a conflict was expected: {conflict}"),
    }
}

fn run(seed: u64, steps: usize) {
    let mut world = World::new(seed);
    for step in 0..steps {
        world.step();
        if step == steps / 2 && world.open.len() < 6 {
            world.load();
        }
    }
    for at in 0..world.open.len() {
        world.check(at);
    }
    world.open.clear();
    assert_eq!(
        contents(&world.storage, &world.table).len(),
        world.committed.len()
    );
    world.storage.collect();
    assert_eq!(world.storage.memory().undo, 0);
}

#[test]
fn interleaved_transactions_agree_with_the_model() {
    for seed in [1, 22, 333, 4444, 55555] {
        run(0x9E37_79B9_7F4A_7C15 ^ seed, 4000);
    }
}
