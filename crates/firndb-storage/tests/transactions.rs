//! Writing, committing and undoing, one transaction after the other.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, ListArray, RecordBatch, StringArray, StructArray,
};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use common::*;
use firndb_storage::{Error, Form};

#[test]
fn committed_rows_are_seen_in_the_order_of_insertion() {
    let storage = storage();
    let (table, slots) = table_with(&storage, &[3, 1, 2], &["c", LONG, ""]);
    assert_eq!(slots.len(), 3);
    assert_eq!(
        contents(&storage, &table),
        pairs(&[(3, "c"), (1, LONG), (2, "")])
    );
}

#[test]
fn a_statement_sees_earlier_statements_and_not_itself() {
    let storage = storage();
    let table = storage.create_table("t", schema()).unwrap();
    let transaction = begin(&storage);
    let snapshot = transaction.snapshot();
    table.insert(&transaction, &rows(&[1], &["one"])).unwrap();
    assert!(scan(&table, &snapshot).is_empty());
    assert!(scan(&table, &transaction.snapshot()).is_empty());
    transaction.begin_statement();
    assert_eq!(scan(&table, &transaction.snapshot()).len(), 1);
    assert!(scan(&table, &snapshot).is_empty());
}

#[test]
fn update_and_delete_change_what_later_snapshots_see() {
    let storage = storage();
    let (table, slots) = table_with(&storage, &[1, 2, 3], &["a", "b", "c"]);
    let before = begin(&storage).snapshot();
    let transaction = begin(&storage);
    table
        .update(&transaction, &[slots[0]], &[1], &strings(&[LONG]))
        .unwrap();
    table.delete(&transaction, &[slots[1]]).unwrap();
    transaction.commit().unwrap();
    assert_eq!(contents(&storage, &table), pairs(&[(1, LONG), (3, "c")]));
    assert_eq!(scan(&table, &before).len(), 3);
    assert_eq!(scan(&table, &before)[0].2.as_deref(), Some("a"));
}

#[test]
fn rollback_restores_values_rows_and_memory() {
    let storage = storage();
    let (table, slots) = table_with(&storage, &[1, 2], &[LONG, "b"]);
    storage.collect();
    let memory = storage.memory();
    let transaction = begin(&storage);
    table
        .update(
            &transaction,
            &slots,
            &[1],
            &strings(&["x", &LONG.repeat(50)]),
        )
        .unwrap();
    table.delete(&transaction, &[slots[0]]).unwrap();
    table
        .insert(&transaction, &rows(&[9], &[&LONG.repeat(100)]))
        .unwrap();
    transaction.rollback();
    assert_eq!(contents(&storage, &table), pairs(&[(1, LONG), (2, "b")]));
    storage.collect();
    assert_eq!(storage.memory().undo, memory.undo);
}

#[test]
fn a_savepoint_undoes_what_came_after_it_again_and_again() {
    let storage = storage();
    let (table, slots) = table_with(&storage, &[1], &["a"]);
    let transaction = begin(&storage);
    table
        .update(&transaction, &slots, &[1], &strings(&["kept"]))
        .unwrap();
    let savepoint = transaction.begin_statement();
    for _ in 0..3 {
        transaction.begin_statement();
        table
            .update(&transaction, &slots, &[1], &strings(&[LONG]))
            .unwrap();
        table.insert(&transaction, &rows(&[2], &["b"])).unwrap();
        transaction.begin_statement();
        table.delete(&transaction, &slots).unwrap();
        assert_eq!(seen(&table, &transaction), pairs(&[(2, "b")]));
        transaction.rollback_to(&savepoint);
        assert_eq!(seen(&table, &transaction), pairs(&[(1, "kept")]));
    }
    transaction.commit().unwrap();
    assert_eq!(contents(&storage, &table), pairs(&[(1, "kept")]));
}

#[test]
fn a_dropped_transaction_is_rolled_back() {
    let storage = storage();
    let (table, _) = table_with(&storage, &[1], &["a"]);
    {
        let transaction = begin(&storage);
        table.insert(&transaction, &rows(&[2], &["b"])).unwrap();
        assert!(transaction.has_writes());
    }
    assert_eq!(contents(&storage, &table), pairs(&[(1, "a")]));
}

#[test]
fn a_snapshot_outlives_its_transaction_and_keeps_its_statement() {
    let storage = storage();
    let (table, slots) = table_with(&storage, &[1], &["a"]);
    let transaction = begin(&storage);
    table
        .update(&transaction, &slots, &[1], &strings(&["first"]))
        .unwrap();
    transaction.begin_statement();
    let snapshot = transaction.snapshot();
    table
        .update(&transaction, &slots, &[1], &strings(&["second"]))
        .unwrap();
    transaction.commit().unwrap();
    let other = begin(&storage);
    table
        .update(&other, &slots, &[1], &strings(&["third"]))
        .unwrap();
    other.commit().unwrap();
    storage.collect();
    assert_eq!(scan(&table, &snapshot)[0].2.as_deref(), Some("first"));
    assert_eq!(contents(&storage, &table), pairs(&[(1, "third")]));
}

#[test]
fn the_second_writer_of_a_row_conflicts() {
    let storage = storage();
    let (table, slots) = table_with(&storage, &[1], &["a"]);
    let (one, two) = (begin(&storage), begin(&storage));
    table.update(&one, &slots, &[0], &integers(&[10])).unwrap();
    let refused = table.update(&two, &slots, &[0], &integers(&[20]));
    assert!(matches!(refused, Err(Error::Conflict { .. })));
    one.commit().unwrap();
    let refused = table.delete(&two, &slots);
    assert!(matches!(refused, Err(Error::Conflict { .. })));
    drop(two);
    assert_eq!(contents(&storage, &table), pairs(&[(10, "a")]));
}

#[test]
fn a_writer_does_not_conflict_with_what_was_rolled_back() {
    let storage = storage();
    let (table, slots) = table_with(&storage, &[1], &["a"]);
    let later = begin(&storage);
    let aborted = begin(&storage);
    table
        .update(&aborted, &slots, &[0], &integers(&[10]))
        .unwrap();
    aborted.rollback();
    table
        .update(&later, &slots, &[0], &integers(&[20]))
        .unwrap();
    later.commit().unwrap();
    assert_eq!(contents(&storage, &table), pairs(&[(20, "a")]));
}

#[test]
fn naming_a_row_twice_is_refused() {
    let storage = storage();
    let (table, slots) = table_with(&storage, &[1], &["a"]);
    let transaction = begin(&storage);
    let twice = [slots[0], slots[0]];
    assert!(table.delete(&transaction, &twice).is_err());
    assert!(
        table
            .update(&transaction, &twice, &[0], &integers(&[1, 2]))
            .is_err()
    );
}

fn many(count: i64) -> RecordBatch {
    let names: Vec<String> = (0..count)
        .map(|id| format!("row number {id} of the table"))
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    rows(&(0..count).collect::<Vec<_>>(), &names)
}

#[test]
fn a_bulk_load_keeps_the_order_and_shares_frozen_memory() {
    let storage = storage();
    let table = storage.create_table("t", schema()).unwrap();
    let count = 2 * table.block_rows() as i64 * 40 + 17;
    let transaction = begin(&storage);
    table
        .insert(&transaction, &rows(&[-7], &["first"]))
        .unwrap();
    transaction.begin_statement();
    let mut load = table.bulk_insert(&transaction).unwrap();
    let all = many(count);
    for from in (0..count as usize).step_by(10_000) {
        let length = 10_000.min(count as usize - from);
        load.append(all.slice(from, length)).unwrap();
    }
    assert_eq!(load.finish().unwrap(), count as u64);
    transaction.begin_statement();
    table.insert(&transaction, &rows(&[-8], &["last"])).unwrap();
    transaction.commit().unwrap();

    let reader = begin(&storage);
    let found = seen(&table, &reader);
    assert_eq!(found.len() as i64, count + 2);
    assert_eq!(found[0].0, -7);
    assert!(
        found[1..]
            .iter()
            .take(count as usize)
            .map(|row| row.0)
            .eq(0..count)
    );
    assert_eq!(found.last().unwrap().0, -8);
    let scan = table.scan(&reader.snapshot()).unwrap();
    let address = || {
        let (batch, shared) = scan.read(1, &[0], Form::Consumer, false).unwrap();
        assert!(shared);
        batch
            .column(0)
            .as_primitive::<Int64Type>()
            .values()
            .as_ptr()
    };
    assert_eq!(address(), address());
}

#[test]
fn a_bulk_load_that_is_rolled_back_leaves_nothing() {
    let storage = storage();
    let (table, _) = table_with(&storage, &[1], &["a"]);
    table.set_freeze_after(None);
    storage.collect();
    let before = storage.memory();
    let transaction = begin(&storage);
    let mut load = table.bulk_insert(&transaction).unwrap();
    load.append(many(3 * table.block_rows() as i64 + 5))
        .unwrap();
    load.finish().unwrap();
    assert!(storage.memory().frozen > before.frozen);
    transaction.rollback();
    storage.collect();
    assert_eq!(storage.memory().frozen, before.frozen);
    assert_eq!(storage.memory().undo, before.undo);
    assert_eq!(contents(&storage, &table), pairs(&[(1, "a")]));
}

#[test]
fn frozen_rows_are_updated_and_deleted_while_old_batches_stay() {
    let storage = storage();
    let table = storage.create_table("t", schema()).unwrap();
    let count = 2 * table.block_rows() as i64;
    let transaction = begin(&storage);
    let mut load = table.bulk_insert(&transaction).unwrap();
    load.append(many(count)).unwrap();
    load.finish().unwrap();
    transaction.commit().unwrap();

    let old = begin(&storage);
    let held = table.scan(&old.snapshot()).unwrap();
    let (batch, shared) = held.read(0, &[0, 1], Form::Native, false).unwrap();
    assert!(shared);
    let writer = begin(&storage);
    let third = slot_of(&table, &writer, 2);
    let fourth = slot_of(&table, &writer, 3);
    table
        .update(&writer, &[third], &[1], &strings(&[LONG]))
        .unwrap();
    table.delete(&writer, &[fourth]).unwrap();
    writer.commit().unwrap();
    storage.collect();

    let now = contents(&storage, &table);
    assert_eq!(now.len() as i64, count - 1);
    assert_eq!(now[2], (2, LONG.to_owned()));
    assert_eq!(now[3].0, 4);
    assert_eq!(
        batch.column(1).as_string_view().value(2),
        "row number 2 of the table"
    );
    let (again, shared) = held.read(0, &[0, 1], Form::Native, false).unwrap();
    assert!(!shared);
    assert_eq!(again, batch);
}

#[test]
fn nested_values_come_back_from_hot_rows() {
    let storage = storage();
    let list = ListArray::from_iter_primitive::<Int64Type, _, _>(vec![
        Some(vec![Some(1), None, Some(3)]),
        None,
        Some(vec![]),
    ]);
    let fields = vec![
        Arc::new(Field::new("x", DataType::Int64, true)),
        Arc::new(Field::new("y", DataType::Utf8, true)),
    ];
    let structs = StructArray::new(
        fields.into(),
        vec![
            Arc::new(Int64Array::from(vec![Some(1), None, Some(3)])) as ArrayRef,
            Arc::new(StringArray::from(vec![Some(LONG), Some("b"), None])),
        ],
        None,
    );
    let schema = Arc::new(Schema::new(vec![
        Field::new("l", list.data_type().clone(), true),
        Field::new("s", structs.data_type().clone(), true),
    ]));
    let batch =
        RecordBatch::try_new(schema.clone(), vec![Arc::new(list), Arc::new(structs)]).unwrap();
    let table = storage.create_table("n", schema).unwrap();
    let transaction = begin(&storage);
    table.insert(&transaction, &batch).unwrap();
    transaction.begin_statement();
    let scan = table.scan(&transaction.snapshot()).unwrap();
    let (found, _) = scan.read(0, &[0, 1], Form::Compute, false).unwrap();
    assert_eq!(found, batch);
}

#[test]
fn rows_are_read_by_slot_in_the_order_asked() {
    let storage = storage();
    let ids: Vec<i64> = (0..2000).collect();
    let names = vec![LONG; 2000];
    let (table, slots) = table_with(&storage, &ids, &names);
    let reader = begin(&storage);
    let wanted = [slots[1500], slots[3], slots[700], slots[0]];
    let batch = table
        .read(&reader.snapshot(), &wanted, &[0], Form::Compute)
        .unwrap();
    assert_eq!(
        batch.column(0).as_primitive::<Int64Type>().values(),
        &[1500, 3, 700, 0]
    );
}
