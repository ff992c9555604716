//! Unique indexes.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use arrow::array::Int64Array;
use common::*;
use firndb_storage::{Error, Slot, Storage, Table, Transaction};

/// A committed table with a unique index `k` over `id`.
fn keyed(storage: &Arc<Storage>, ids: &[i64]) -> (Table, Vec<Slot>) {
    let table = storage.create_table("t", schema()).unwrap();
    let transaction = begin(storage);
    table.create_unique_index(&transaction, "k", &[0]).unwrap();
    let names = vec!["n"; ids.len()];
    let slots = table.insert(&transaction, &rows(ids, &names)).unwrap();
    table.check_unique(&transaction).unwrap();
    transaction.commit().unwrap();
    (table, slots)
}

fn insert(table: &Table, transaction: &Transaction, ids: &[i64]) -> Result<(), Error> {
    let savepoint = transaction.begin_statement();
    table.insert(transaction, &rows(ids, &vec!["n"; ids.len()]))?;
    let checked = table.check_unique(transaction);
    if checked.is_err() {
        transaction.rollback_to(&savepoint);
    }
    checked
}

fn set(table: &Table, transaction: &Transaction, slots: &[Slot], ids: &[i64]) -> Result<(), Error> {
    transaction.begin_statement();
    table.update(transaction, slots, &[0], &integers(ids))?;
    table.check_unique(transaction)
}

fn find(table: &Table, transaction: &Transaction, id: i64) -> Option<Slot> {
    transaction.begin_statement();
    table
        .lookup(&transaction.snapshot(), "k", &integers(&[id]))
        .unwrap()[0]
}

fn assert_violation(result: Result<(), Error>, expected: &str) {
    match result {
        Err(Error::UniqueViolation { key, .. }) => assert_eq!(key, expected),
        other => panic!("{other:?}"),
    }
}

fn assert_conflict(result: Result<(), Error>) {
    assert!(matches!(result, Err(Error::Conflict { .. })), "{result:?}");
}

#[test]
fn a_key_lives_once() {
    let storage = storage();
    let (table, _) = keyed(&storage, &[1, 2]);
    let transaction = begin(&storage);
    assert_violation(insert(&table, &transaction, &[3, 2]), "2");
    assert_violation(insert(&table, &transaction, &[4, 4]), "4");
    insert(&table, &transaction, &[3, 4]).unwrap();
    transaction.commit().unwrap();
    assert_eq!(contents(&storage, &table).len(), 4);
}

#[test]
fn keys_may_swap_within_a_statement() {
    let storage = storage();
    let (table, slots) = keyed(&storage, &[1, 2, 3]);
    let transaction = begin(&storage);
    set(&table, &transaction, &slots, &[2, 3, 4]).unwrap();
    set(&table, &transaction, &slots, &[3, 2, 4]).unwrap();
    assert_violation(set(&table, &transaction, &slots[..1], &[4]), "4");
}

#[test]
fn nulls_never_collide() {
    let storage = storage();
    let (table, _) = keyed(&storage, &[1]);
    let transaction = begin(&storage);
    let nulls = arrow::array::RecordBatch::try_new(
        schema(),
        vec![
            Arc::new(Int64Array::from(vec![None, None])),
            Arc::new(arrow::array::StringArray::from(vec!["a", "b"])),
        ],
    )
    .unwrap();
    transaction.begin_statement();
    table.insert(&transaction, &nulls).unwrap();
    table.check_unique(&transaction).unwrap();
}

#[test]
fn a_deleted_key_can_be_taken_again_by_the_same_and_by_later_transactions() {
    let storage = storage();
    let (table, slots) = keyed(&storage, &[1]);
    let transaction = begin(&storage);
    table.delete(&transaction, &slots).unwrap();
    insert(&table, &transaction, &[1]).unwrap();
    let taken = find(&table, &transaction, 1).unwrap();
    assert_ne!(taken, slots[0]);
    transaction.commit().unwrap();
    storage.collect();
    let later = begin(&storage);
    assert_eq!(find(&table, &later, 1), Some(taken));
    table.delete(&later, &[taken]).unwrap();
    insert(&table, &later, &[1]).unwrap();
}

#[test]
fn open_holders_and_unseen_commits_conflict() {
    let storage = storage();
    let (table, slots) = keyed(&storage, &[1, 2]);
    let (one, two, three) = (begin(&storage), begin(&storage), begin(&storage));
    insert(&table, &one, &[7]).unwrap();
    assert_conflict(insert(&table, &two, &[7]));
    one.commit().unwrap();
    assert_conflict(insert(&table, &two, &[7]));
    let deleter = begin(&storage);
    table.delete(&deleter, &slots[..1]).unwrap();
    assert_conflict(insert(&table, &three, &[1]));
    deleter.commit().unwrap();
    assert_conflict(insert(&table, &three, &[1]));
    let late = begin(&storage);
    insert(&table, &late, &[1]).unwrap();
    assert_violation(insert(&table, &late, &[7]), "7");
}

#[test]
fn rollback_frees_keys() {
    let storage = storage();
    let (table, slots) = keyed(&storage, &[1]);
    let transaction = begin(&storage);
    insert(&table, &transaction, &[2]).unwrap();
    set(&table, &transaction, &slots, &[3]).unwrap();
    transaction.rollback();
    let other = begin(&storage);
    insert(&table, &other, &[2, 3]).unwrap();
    assert_violation(insert(&table, &other, &[1]), "1");
}

#[test]
fn lookups_follow_the_snapshot() {
    let storage = storage();
    let (table, slots) = keyed(&storage, &[1]);
    let old = begin(&storage);
    let writer = begin(&storage);
    set(&table, &writer, &slots, &[5]).unwrap();
    assert_eq!(find(&table, &writer, 5), Some(slots[0]));
    assert_eq!(find(&table, &writer, 1), None);
    writer.commit().unwrap();
    storage.collect();
    assert_eq!(find(&table, &old, 1), Some(slots[0]));
    assert_eq!(find(&table, &old, 5), None);
    drop(old);
    storage.collect();
    let new = begin(&storage);
    assert_eq!(find(&table, &new, 1), None);
    assert_eq!(find(&table, &new, 5), Some(slots[0]));
}

#[test]
fn a_key_that_goes_and_comes_back_keeps_its_entry() {
    let storage = storage();
    let (table, slots) = keyed(&storage, &[1]);
    for id in [2, 1, 3, 1] {
        let transaction = begin(&storage);
        set(&table, &transaction, &slots, &[id]).unwrap();
        transaction.commit().unwrap();
    }
    storage.collect();
    let transaction = begin(&storage);
    assert_eq!(find(&table, &transaction, 1), Some(slots[0]));
    assert_violation(insert(&table, &transaction, &[1]), "1");
}

#[test]
fn entries_of_deleted_rows_are_collected() {
    let storage = storage();
    let ids: Vec<i64> = (0..1000).collect();
    let (table, slots) = keyed(&storage, &ids);
    let full = storage.memory().index;
    let transaction = begin(&storage);
    table.delete(&transaction, &slots).unwrap();
    transaction.commit().unwrap();
    storage.collect();
    assert!(storage.memory().index < full / 10);
}

#[test]
fn a_bulk_load_is_checked_and_undone() {
    let storage = storage();
    let (table, _) = keyed(&storage, &[40]);
    let before = storage.memory().index;
    let transaction = begin(&storage);
    let count = table.block_rows() as i64 + 10;
    let names = vec!["n"; count as usize];
    let load = |first: i64| -> Result<(), Error> {
        let savepoint = transaction.begin_statement();
        let ids: Vec<i64> = (first..first + count).collect();
        let mut load = table.bulk_insert(&transaction)?;
        load.append(rows(&ids, &names))?;
        load.finish()?;
        let checked = table.check_unique(&transaction);
        if checked.is_err() {
            transaction.rollback_to(&savepoint);
        }
        checked
    };
    assert_violation(load(0), "40");
    assert_eq!(storage.memory().index, before);
    load(1000).unwrap();
    assert_violation(load(1000 + count - 5), &(1000 + count - 5).to_string());
    transaction.commit().unwrap();
    let reader = begin(&storage);
    assert!(find(&table, &reader, 1000 + count / 2).is_some());
    assert_eq!(contents(&storage, &table).len() as i64, 1 + count);
}

#[test]
fn an_index_over_duplicates_is_refused_and_undone_with_its_transaction() {
    let storage = storage();
    let (table, slots) = table_with(&storage, &[1, 1], &["a", "b"]);
    let transaction = begin(&storage);
    assert_violation(table.create_unique_index(&transaction, "k", &[0]), "1");
    table.delete(&transaction, &slots[..1]).unwrap();
    transaction.begin_statement();
    table.create_unique_index(&transaction, "k", &[0]).unwrap();
    assert_violation(insert(&table, &transaction, &[1]), "1");
    transaction.rollback();
    let other = begin(&storage);
    insert(&table, &other, &[1]).unwrap();
}

#[test]
fn of_many_inserters_of_one_key_at_most_one_commits() {
    let storage = storage();
    let (table, _) = keyed(&storage, &[]);
    for key in 0..200 {
        let won: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        let transaction = begin(&storage);
                        match insert(&table, &transaction, &[key]) {
                            Ok(()) => {
                                transaction.commit().unwrap();
                                1
                            }
                            Err(_) => 0,
                        }
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .sum()
        });
        assert!(won <= 1);
        assert_eq!(
            contents(&storage, &table)
                .iter()
                .filter(|row| row.0 == key)
                .count(),
            won
        );
    }
}
