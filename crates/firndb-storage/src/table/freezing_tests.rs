//! Freezing against a writer that stops in the middle of an operation: between its look at a column and its store.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};

use super::{Form, Table};
use crate::block::State;
use crate::block::cells::Value;
use crate::undo::Change;
use crate::{Isolation, Storage, StorageConfig};

/// A table whose first block is full, written by nobody else, and never compacted.
fn full_block() -> (Arc<Storage>, Table) {
    let storage = Storage::open(StorageConfig {
        memory_limit: None,
        threads: 1,
    })
    .unwrap();
    let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, true)]));
    let table = storage.create_table("t", Arc::clone(&schema)).unwrap();
    table.set_freeze_after(None);
    let rows: ArrayRef = Arc::new(Int64Array::from_iter_values(0..512));
    let rows = RecordBatch::try_new(schema, vec![rows]).unwrap();
    let transaction = storage.begin(Isolation::Snapshot);
    table.insert(&transaction, &rows).unwrap();
    transaction.commit().unwrap();
    storage.collect();
    assert!(table.blocks()[0].rows == 512 && table.blocks()[0].versions == 0);
    (storage, table)
}

fn first_value(storage: &Arc<Storage>, table: &Table) -> i64 {
    let transaction = storage.begin(Isolation::Snapshot);
    let scan = table.scan(&transaction.snapshot()).unwrap();
    let (batch, _) = scan.read(0, &[0], Form::Compute, false).unwrap();
    batch.column(0).as_primitive::<Int64Type>().value(0)
}

fn state(table: &Table) -> State {
    table.blocks()[0].state
}

/// Waits until the freezer has got as far as it gets while the writer stands still.
fn let_it_run(table: &Table, done: impl Fn() -> bool) {
    let begun = Instant::now();
    while state(table) == State::Hot && !done() {
        assert!(begun.elapsed() < Duration::from_secs(10));
        std::thread::yield_now();
    }
    std::thread::sleep(Duration::from_millis(50));
}

#[test]
fn a_writer_that_looked_before_cooling_is_waited_for() {
    let (storage, table) = full_block();
    let transaction = storage.begin(Isolation::Snapshot);
    let info = Arc::clone(&table.layout.columns[0]);
    let shape = table.relation.shape(std::slice::from_ref(&info));
    std::thread::scope(|scope| {
        let mut writer = transaction.write(&table.relation, &table.layout).unwrap();
        let pin = table.pin();
        let block = table.relation.block(0, &pin).unwrap();
        let hot = table.relation.warmed(block, &info, &pin).unwrap();
        let freezer = scope.spawn(|| table.freeze());
        let_it_run(&table, || freezer.is_finished());
        assert_eq!(state(&table), State::Cooling, "the freezer waits");
        writer
            .claim(block, 0, Change::Update, Some(&shape), &[hot], &pin)
            .unwrap();
        let value = Value {
            valid: true,
            words: [77, 0],
        };
        hot.store(0, value);
        drop(pin);
        drop(writer);
        let freeze = freezer.join().unwrap();
        assert_eq!((freeze.frozen, freeze.hot), (0, 1));
    });
    assert_eq!(first_value(&storage, &table), 0, "it is not committed");
    transaction.commit().unwrap();
    assert_eq!(first_value(&storage, &table), 77);
    assert_eq!(table.freeze().frozen, 1);
    assert_eq!(first_value(&storage, &table), 77);
}

#[test]
fn a_writer_that_looks_while_it_cools_preempts() {
    let (storage, table) = full_block();
    let info = Arc::clone(&table.layout.columns[0]);
    std::thread::scope(|scope| {
        // Some operation that keeps the freezer waiting.
        let pin = table.pin();
        let freezer = scope.spawn(|| table.freeze());
        let_it_run(&table, || freezer.is_finished());
        assert_eq!(state(&table), State::Cooling);
        let block = table.relation.block(0, &pin).unwrap();
        table.relation.warmed(block, &info, &pin).unwrap();
        assert_eq!(state(&table), State::Hot);
        drop(pin);
        assert_eq!(freezer.join().unwrap().frozen, 0);
    });
    assert_eq!(table.freeze().frozen, 1);
    assert_eq!(first_value(&storage, &table), 0);
}

#[test]
fn the_hot_column_is_given_back_after_freezing() {
    let (_storage, table) = full_block();
    let hot = || table.collector.resources().budget.usage().hot;
    let before = hot();
    assert_eq!(table.freeze().frozen, 1);
    table.collector.collect();
    assert!(hot() < before);
    assert_eq!(state(&table), State::Frozen);
}
