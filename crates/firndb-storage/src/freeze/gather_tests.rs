//! The steps of gathering, one by one, with a writer, a reader, a holder or the collector between two of them.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};

use super::gather::{Freezing, await_epoch, build, cool, freeze, publish};
use super::{Visit, freeze_now};
use crate::relation::Relation;
use crate::table::{BlockState, Form, Slot, Table};
use crate::{Isolation, Storage, StorageConfig};

struct World {
    storage: Arc<Storage>,
    table: Table,
    slots: Vec<Slot>,
}

fn text(row: i64) -> String {
    format!("the text of row {row}")
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("a", DataType::Int64, true),
        Field::new("s", DataType::Utf8, true),
    ]))
}

impl World {
    /// Two full hot blocks that freeze only when they are told to.
    fn new() -> Self {
        let storage = Storage::open(StorageConfig {
            memory_limit: None,
            threads: 1,
        })
        .unwrap();
        let table = storage.create_table("t", schema()).unwrap();
        table.set_freeze_after(None);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(0..1024)),
            Arc::new(StringArray::from_iter_values((0..1024).map(text))),
        ];
        let rows = RecordBatch::try_new(schema(), columns).unwrap();
        let mut slots = Vec::new();
        for half in [rows.slice(0, 512), rows.slice(512, 512)] {
            let transaction = storage.begin(Isolation::Snapshot);
            slots.extend(table.insert(&transaction, &half).unwrap());
            transaction.commit().unwrap();
        }
        storage.collect();
        Self {
            storage,
            table,
            slots,
        }
    }

    fn relation(&self) -> &Arc<Relation> {
        self.table.relation()
    }

    /// As far as both blocks are freezing.
    fn freezing(&self, visit: &mut Visit) -> Vec<Freezing> {
        let relation = self.relation();
        let blocks: Vec<u32> = (0..relation.block_count()).collect();
        let cooling = cool(relation, &blocks, visit);
        let reclaimer = &relation.resources.reclaimer;
        assert!(await_epoch(reclaimer, reclaimer.advance()));
        let freezing = freeze(relation, cooling, visit);
        assert!(!freezing.is_empty());
        freezing
    }

    /// Commits another number in a row.
    fn update(&self, row: usize, value: i64) {
        let one = RecordBatch::try_new(
            Arc::new(schema().project(&[0]).unwrap()),
            vec![Arc::new(Int64Array::from(vec![value]))],
        )
        .unwrap();
        let transaction = self.storage.begin(Isolation::Snapshot);
        transaction.begin_statement();
        self.table
            .update(&transaction, &[self.slots[row]], &[0], &one)
            .unwrap();
        transaction.commit().unwrap();
    }

    /// All rows, as a new transaction sees them; the texts are as ever.
    fn numbers(&self) -> Vec<i64> {
        let transaction = self.storage.begin(Isolation::Snapshot);
        let scan = self.table.scan(&transaction.snapshot()).unwrap();
        let mut numbers = Vec::new();
        for morsel in 0..scan.morsels() {
            let (batch, _) = scan.read(morsel, &[0, 1], Form::Consumer, false).unwrap();
            for (at, found) in batch.column(1).as_string::<i32>().iter().enumerate() {
                assert_eq!(found, Some(text((numbers.len() + at) as i64).as_str()));
            }
            numbers.extend(batch.column(0).as_primitive::<Int64Type>().values());
        }
        numbers
    }

    fn states(&self) -> Vec<BlockState> {
        self.table
            .blocks()
            .iter()
            .map(|block| block.state)
            .collect()
    }

    fn hot_bytes(&self) -> usize {
        self.storage.memory().hot
    }
}

fn with(row: usize, value: i64) -> Vec<i64> {
    let mut numbers: Vec<i64> = (0..1024).collect();
    numbers[row] = value;
    numbers
}

#[test]
fn a_writer_that_comes_before_the_copy_keeps_his_block_and_the_others_freeze() {
    let world = World::new();
    let mut visit = Visit::default();
    let mut blocks = world.freezing(&mut visit);
    assert!(
        world
            .states()
            .iter()
            .all(|state| *state == BlockState::Freezing)
    );
    let count = blocks.len();
    world.update(3, -1);
    let extent = build(world.relation(), &mut blocks).unwrap();
    assert_eq!(blocks.iter().filter(|block| block.preempted).count(), 1);
    if let Some(extent) = extent {
        publish(world.relation(), &blocks, &extent, &mut visit);
        assert_eq!(visit.frozen.len(), count - 1);
    }
    assert_eq!(world.numbers(), with(3, -1));
    assert_ne!(world.states()[0], BlockState::Frozen);
}

#[test]
fn a_writer_that_comes_between_the_copy_and_its_publication_is_not_lost() {
    let world = World::new();
    let mut visit = Visit::default();
    let mut blocks = world.freezing(&mut visit);
    let extent = build(world.relation(), &mut blocks).unwrap().unwrap();
    assert!(blocks.iter().all(|block| !block.preempted));
    world.update(3, -1);
    publish(world.relation(), &blocks, &extent, &mut visit);
    assert_eq!(visit.busy, [0]);
    assert_eq!(world.numbers(), with(3, -1));
    // The column that he did not touch froze all the same, and is thawed by who writes it.
    world.storage.collect();
    freeze_now(&world.table.collector(), world.relation());
    assert!(
        world
            .states()
            .iter()
            .all(|state| *state == BlockState::Frozen)
    );
    assert_eq!(world.numbers(), with(3, -1));
}

#[test]
fn a_writer_that_comes_after_the_publication_thaws_and_a_holder_keeps_what_he_has() {
    let world = World::new();
    let mut visit = Visit::default();
    let mut blocks = world.freezing(&mut visit);
    let extent = build(world.relation(), &mut blocks).unwrap().unwrap();
    publish(world.relation(), &blocks, &extent, &mut visit);
    assert!(
        world
            .states()
            .iter()
            .all(|state| *state == BlockState::Frozen)
    );
    let transaction = world.storage.begin(Isolation::Snapshot);
    let scan = world.table.scan_whole(&transaction.snapshot()).unwrap();
    let (held, shared) = scan.read(0, &[0], Form::Native, false).unwrap();
    assert!(shared);
    world.update(3, -1);
    assert_eq!(world.states()[0], BlockState::Hot);
    assert_eq!(world.numbers(), with(3, -1));
    let numbers = held.column(0).as_primitive::<Int64Type>();
    assert!(
        numbers
            .values()
            .iter()
            .copied()
            .eq(0..numbers.values().len() as i64)
    );
}

#[test]
fn a_reader_that_looked_before_the_publication_reads_on_and_then_the_memory_goes() {
    let world = World::new();
    let relation = Arc::clone(world.relation());
    let before = world.hot_bytes();
    let mut visit = Visit::default();
    let mut blocks = world.freezing(&mut visit);
    let extent = build(&relation, &mut blocks).unwrap().unwrap();
    let pin = relation.resources.reclaimer.pin();
    let block = relation.block(0, &pin).unwrap();
    let number = relation.columns()[0].number;
    let hot = block.hot_column(number, &pin).unwrap();
    publish(&relation, &blocks, &extent, &mut visit);
    world.storage.collect();
    assert_eq!(hot.load(511).words[0], 511, "it is pinned");
    assert_eq!(world.hot_bytes(), before);
    drop(pin);
    for _ in 0..3 {
        world.storage.collect();
    }
    assert!(world.hot_bytes() < before);
    assert_eq!(world.numbers(), (0..1024).collect::<Vec<_>>());
}

#[test]
fn versions_that_come_while_a_block_cools_send_it_back() {
    let world = World::new();
    let relation = world.relation();
    let mut visit = Visit::default();
    let blocks: Vec<u32> = (0..relation.block_count()).collect();
    let cooling = cool(relation, &blocks, &mut visit);
    world.update(3, -1);
    let reclaimer = &relation.resources.reclaimer;
    assert!(await_epoch(reclaimer, reclaimer.advance()));
    let freezing = freeze(relation, cooling, &mut visit);
    assert_eq!(visit.busy, [0]);
    assert_eq!(freezing.len() + 1, blocks.len());
    assert_eq!(world.numbers(), with(3, -1));
    // The collector takes the versions away; then it freezes.
    let mut visit = Visit::default();
    let mut rest = freezing;
    let extent = build(relation, &mut rest).unwrap().unwrap();
    publish(relation, &rest, &extent, &mut visit);
    world.storage.collect();
    world.table.freeze();
    assert!(
        world
            .states()
            .iter()
            .all(|state| *state == BlockState::Frozen)
    );
    assert_eq!(world.numbers(), with(3, -1));
}
