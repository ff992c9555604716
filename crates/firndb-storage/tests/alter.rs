//! Layouts: excluding writers, adding, dropping and renaming columns, retiring.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::datatypes::{DataType, Field, Int64Type};
use common::*;
use firndb_storage::{Error, Form, Table, Transaction};

fn values(table: &Table, transaction: &Transaction, column: usize) -> Vec<Option<i64>> {
    transaction.begin_statement();
    let scan = table.scan(&transaction.snapshot()).unwrap();
    let mut all = Vec::new();
    for morsel in 0..scan.morsels() {
        let (batch, _) = scan.read(morsel, &[column], Form::Compute, false).unwrap();
        all.extend(batch.column(0).as_primitive::<Int64Type>().iter());
    }
    all
}

fn number(name: &str) -> Arc<Field> {
    Arc::new(Field::new(name, DataType::Int64, true))
}

fn one(value: i64) -> ArrayRef {
    Arc::new(Int64Array::from(vec![value]))
}

#[test]
fn an_added_column_reads_its_default_and_can_be_updated() {
    let storage = storage();
    let (table, slots) = table_with(&storage, &[1, 2], &["a", "b"]);
    let transaction = begin(&storage);
    table.lock_exclusive(&transaction).unwrap();
    let wide = table
        .add_column(&transaction, number("n"), one(42))
        .unwrap();
    table.retire(&transaction, false).unwrap();
    assert_eq!(values(&wide, &transaction, 2), [Some(42), Some(42)]);
    transaction.begin_statement();
    wide.update(&transaction, &slots[1..], &[2], &integers(&[7]))
        .unwrap();
    assert_eq!(values(&wide, &transaction, 2), [Some(42), Some(7)]);
    transaction.commit().unwrap();
    let later = begin(&storage);
    assert_eq!(values(&wide, &later, 2), [Some(42), Some(7)]);
    let refused = table.insert(&later, &rows(&[3], &["c"]));
    assert!(matches!(refused, Err(Error::Conflict { .. })));
}

#[test]
fn an_added_column_covers_frozen_blocks() {
    let storage = storage();
    let table = storage.create_table("t", schema()).unwrap();
    let transaction = begin(&storage);
    let ids: Vec<i64> = (0..table.block_rows() as i64).collect();
    let mut load = table.bulk_insert(&transaction).unwrap();
    load.append(rows(&ids, &vec!["n"; ids.len()])).unwrap();
    load.finish().unwrap();
    table.lock_exclusive(&transaction).unwrap();
    let wide = table
        .add_column(&transaction, number("n"), one(42))
        .unwrap();
    transaction.begin_statement();
    let slot = slot_of(&wide, &transaction, 5);
    wide.update(&transaction, &[slot], &[2], &integers(&[7]))
        .unwrap();
    let found = values(&wide, &transaction, 2);
    assert_eq!(found[4..7], [Some(42), Some(7), Some(42)]);
}

#[test]
fn a_dropped_column_is_hidden_and_new_rows_do_without_it() {
    let storage = storage();
    let (table, _) = table_with(&storage, &[1], &["a"]);
    let transaction = begin(&storage);
    table.lock_exclusive(&transaction).unwrap();
    let narrow = table.drop_column(&transaction, 1).unwrap();
    assert_eq!(narrow.schema().fields().len(), 1);
    narrow.insert(&transaction, &integers(&[2])).unwrap();
    transaction.commit().unwrap();
    assert_eq!(values(&narrow, &begin(&storage), 0), [Some(1), Some(2)]);
}

#[test]
fn a_renamed_column_keeps_its_values() {
    let storage = storage();
    let (table, _) = table_with(&storage, &[1], &["a"]);
    let renamed = table.rename_column(0, "number").unwrap();
    assert_eq!(renamed.schema().field(0).name(), "number");
    assert_eq!(renamed.id(), table.id());
    assert_eq!(values(&renamed, &begin(&storage), 0), [Some(1)]);
}

#[test]
fn an_exclusive_lock_keeps_others_from_writing_until_the_end() {
    let storage = storage();
    let (table, slots) = table_with(&storage, &[1], &["a"]);
    let owner = begin(&storage);
    table.lock_exclusive(&owner).unwrap();
    let other = begin(&storage);
    assert!(matches!(
        table.delete(&other, &slots),
        Err(Error::Conflict { .. })
    ));
    table.delete(&owner, &slots).unwrap();
    owner.rollback();
    table.delete(&other, &slots).unwrap();
    other.commit().unwrap();
}

#[test]
fn an_exclusive_lock_is_refused_while_others_write_or_wrote_unseen() {
    let storage = storage();
    let (table, slots) = table_with(&storage, &[1], &["a"]);
    let early = begin(&storage);
    let writer = begin(&storage);
    table
        .update(&writer, &slots, &[1], &strings(&["b"]))
        .unwrap();
    assert!(matches!(
        table.lock_exclusive(&early),
        Err(Error::Conflict { .. })
    ));
    writer.commit().unwrap();
    assert!(matches!(
        table.lock_exclusive(&early),
        Err(Error::Conflict { .. })
    ));
    // Neither attempt made `early` a writer.
    table.lock_exclusive(&begin(&storage)).unwrap();
}

#[test]
fn a_retired_table_refuses_every_later_write() {
    let storage = storage();
    let (table, slots) = table_with(&storage, &[1], &["a"]);
    let renamed = table.rename_column(0, "number").unwrap();
    let owner = begin(&storage);
    table.lock_exclusive(&owner).unwrap();
    table.retire(&owner, true).unwrap();
    owner.commit().unwrap();
    for handle in [&table, &renamed] {
        assert!(matches!(
            handle.delete(&begin(&storage), &slots),
            Err(Error::Conflict { .. })
        ));
    }
}

#[test]
fn statistics_are_exact_only_over_untouched_frozen_blocks() {
    let storage = storage();
    let table = storage.create_table("t", schema()).unwrap();
    let count = 2 * table.block_rows();
    let transaction = begin(&storage);
    let ids: Vec<i64> = (0..count as i64).collect();
    let mut load = table.bulk_insert(&transaction).unwrap();
    load.append(rows(&ids, &vec!["n"; count])).unwrap();
    load.finish().unwrap();
    transaction.commit().unwrap();
    let reader = begin(&storage);
    let exact = table.statistics(&reader.snapshot()).unwrap();
    assert!(exact.exact);
    assert_eq!(exact.rows, count);
    assert_eq!(exact.columns[0].nulls, Some(0));
    let maximum = exact.columns[0].maximum.as_ref().unwrap();
    assert_eq!(
        maximum.as_primitive::<Int64Type>().value(0),
        count as i64 - 1
    );
    let writer = begin(&storage);
    let slot = slot_of(&table, &writer, 9);
    table.delete(&writer, &[slot]).unwrap();
    assert!(!table.statistics(&reader.snapshot()).unwrap().exact);
    writer.rollback();
    storage.collect();
    assert!(table.statistics(&reader.snapshot()).unwrap().exact);
    let scan = table.scan(&reader.snapshot()).unwrap();
    let minimums = scan.minimums(0).unwrap();
    let minimums = minimums.as_primitive::<Int64Type>();
    let mut first = 0;
    for morsel in 0..scan.morsels() {
        assert_eq!(minimums.value(morsel), first);
        first += scan.rows(morsel) as i64;
    }
    assert_eq!(scan.null_counts(1).unwrap().null_count(), 0);
    assert!(
        scan.maximums(1)
            .unwrap()
            .as_any()
            .is::<arrow::array::StringViewArray>()
    );
}
