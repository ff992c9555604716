//! Memory stays where it is: under endless updates, under many threads, and when everybody has gone.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use common::*;
use firndb_storage::{Error, Form};

#[test]
fn ten_million_updates_of_one_long_string_do_not_grow_memory() {
    let storage = storage();
    let long = LONG.repeat(3);
    let (table, slots) = table_with(&storage, &[1], &[&long]);
    let values = strings(&[&long]);
    for update in 0..10_000_000 {
        let transaction = begin(&storage);
        table.update(&transaction, &slots, &[1], &values).unwrap();
        transaction.commit().unwrap();
        if update % 100_000 == 0 {
            let memory = storage.memory();
            assert!(memory.hot + memory.undo < 64 << 20, "{memory:?}");
        }
    }
    storage.collect();
    let memory = storage.memory();
    assert_eq!(memory.undo, 0);
    assert!(memory.hot < 4 << 20, "{memory:?}");
}

#[test]
fn updates_under_an_old_snapshot_keep_what_it_needs_and_no_more() {
    let storage = storage();
    let long = LONG.repeat(3);
    let (table, slots) = table_with(&storage, &[1], &[&long]);
    let reader = begin(&storage);
    let values = strings(&[&LONG.repeat(4)]);
    for _ in 0..200_000 {
        let transaction = begin(&storage);
        table.update(&transaction, &slots, &[1], &values).unwrap();
        transaction.commit().unwrap();
    }
    storage.collect();
    let memory = storage.memory();
    assert!(memory.hot + memory.undo < 8 << 20, "{memory:?}");
    assert_eq!(seen(&table, &reader)[0].1, long);
}

#[test]
fn a_heap_that_is_mostly_garbage_is_rewritten() {
    let storage = storage();
    let long = LONG.repeat(20);
    let ids: Vec<i64> = (0..4000).collect();
    let (table, slots) = table_with(&storage, &ids, &vec![long.as_str(); 4000]);
    // Every tenth value stays where it is, so no buffer becomes empty by itself.
    let full = storage.memory().hot;
    let changed: Vec<_> = (0..4000).filter(|at| at % 10 != 0).collect();
    let transaction = begin(&storage);
    let changed_slots: Vec<_> = changed.iter().map(|&at| slots[at]).collect();
    table
        .update(
            &transaction,
            &changed_slots,
            &[1],
            &strings(&vec!["short"; 3600]),
        )
        .unwrap();
    transaction.commit().unwrap();
    for _ in 0..3 {
        storage.collect();
        let transaction = begin(&storage);
        table
            .update(
                &transaction,
                &changed_slots[..1],
                &[1],
                &strings(&["other"]),
            )
            .unwrap();
        transaction.commit().unwrap();
    }
    storage.collect();
    assert!(
        storage.memory().hot < full / 2,
        "{full} {:?}",
        storage.memory()
    );
    let found = contents(&storage, &table);
    assert!(
        found
            .iter()
            .all(|(id, name)| (id % 10 == 0) == (*name == long))
    );
}

#[test]
fn the_values_of_deleted_rows_are_given_up_once() {
    let storage = storage();
    let text = |row: usize, round: usize| format!("{row} in round {round} {}", LONG.repeat(20));
    let ids: Vec<i64> = (0..4000).collect();
    let first: Vec<String> = (0..4000).map(|row| text(row, 0)).collect();
    let names: Vec<&str> = first.iter().map(String::as_str).collect();
    let (table, slots) = table_with(&storage, &ids, &names);
    let (kept, gone): (Vec<usize>, Vec<usize>) = (0..4000).partition(|row| row % 3 == 0);
    let gone: Vec<_> = gone.iter().map(|&row| slots[row]).collect();
    let transaction = begin(&storage);
    table.delete(&transaction, &gone).unwrap();
    transaction.commit().unwrap();
    storage.collect();
    // The heap is rewritten, and the numbers of its buffers are used again, while the deleted rows lie there.
    for round in 1..60 {
        let changed: Vec<usize> = kept
            .iter()
            .copied()
            .filter(|row| row % 2 == round % 2)
            .collect();
        let values: Vec<String> = changed.iter().map(|&row| text(row, round)).collect();
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        let slots: Vec<_> = changed.iter().map(|&row| slots[row]).collect();
        let transaction = begin(&storage);
        table
            .update(&transaction, &slots, &[1], &strings(&values))
            .unwrap();
        transaction.commit().unwrap();
        storage.collect();
        for (id, name) in contents(&storage, &table) {
            let row = id as usize;
            let last = if row % 2 == round % 2 {
                round
            } else {
                round - 1
            };
            assert_eq!(name, text(row, last));
        }
    }
}

#[test]
fn eight_threads_of_transfers_keep_the_total_and_memory_returns() {
    const ACCOUNTS: usize = 64;
    const TRANSFERS: usize = 4000;
    let storage = storage();
    let (table, slots) = table_with(&storage, &[100; ACCOUNTS], &[LONG; ACCOUNTS]);
    storage.collect();
    let before = storage.memory();
    let done = AtomicBool::new(false);
    let committed = AtomicUsize::new(0);
    let total = || -> i64 { contents(&storage, &table).iter().map(|row| row.0).sum() };
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..8_u64)
            .map(|number| {
                let (storage, table, slots, committed) = (&storage, &table, &slots, &committed);
                scope.spawn(move || {
                    let mut seed = number + 1;
                    let mut random = |below: usize| {
                        seed ^= seed << 13;
                        seed ^= seed >> 7;
                        seed ^= seed << 17;
                        (seed >> 11) as usize % below
                    };
                    for _ in 0..TRANSFERS {
                        let from = random(ACCOUNTS);
                        let to = (from + 1 + random(ACCOUNTS - 1)) % ACCOUNTS;
                        let pair = [slots[from], slots[to]];
                        let transaction = begin(storage);
                        let read = table
                            .read(&transaction.snapshot(), &pair, &[0], Form::Compute)
                            .unwrap();
                        let read = read.column(0).as_primitive::<Int64Type>();
                        let amount = random(10) as i64;
                        let new = integers(&[read.value(0) - amount, read.value(1) + amount]);
                        match table.update(&transaction, &pair, &[0], &new) {
                            Ok(()) => {
                                transaction.commit().unwrap();
                                committed.fetch_add(1, Ordering::Relaxed);
                            }
                            Err(Error::Conflict { .. }) => transaction.rollback(),
                            Err(other) => panic!("{other}"),
                        }
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                assert_eq!(total(), 100 * ACCOUNTS as i64);
            }
        });
        for writer in writers {
            writer.join().unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(committed.load(Ordering::Relaxed) > 0);
    assert_eq!(total(), 100 * ACCOUNTS as i64);
    storage.collect();
    let after = storage.memory();
    assert_eq!(after.undo, before.undo);
    assert!(after.hot <= before.hot, "{before:?} {after:?}");
}

#[test]
fn deleting_everything_gives_the_blocks_back() {
    let storage = storage();
    let table = storage.create_table("t", schema()).unwrap();
    let transaction = begin(&storage);
    let ids: Vec<i64> = (0..table.block_rows() as i64).collect();
    let mut load = table.bulk_insert(&transaction).unwrap();
    load.append(rows(&ids, &vec![LONG; ids.len()])).unwrap();
    load.finish().unwrap();
    transaction.commit().unwrap();
    assert!(storage.memory().frozen > 0);
    let transaction = begin(&storage);
    let all: Vec<_> = scan(&table, &transaction.snapshot())
        .into_iter()
        .map(|(slot, _, _)| slot)
        .collect();
    table.delete(&transaction, &all).unwrap();
    transaction.commit().unwrap();
    storage.collect();
    assert_eq!(storage.memory().frozen, 0);
    assert_eq!(storage.memory().undo, 0);
}

#[test]
fn a_limit_refuses_and_leaves_the_transaction_usable() {
    let storage = storage();
    let (table, slots) = table_with(&storage, &[1], &["a"]);
    storage.collect();
    let transaction = begin(&storage);
    storage.set_memory_limit(Some(1 << 20));
    let savepoint = transaction.begin_statement();
    let huge = "x".repeat(4 << 20);
    let refused = table.update(&transaction, &slots, &[1], &strings(&[&huge]));
    assert!(
        matches!(refused, Err(Error::OutOfMemory { .. })),
        "{refused:?}"
    );
    transaction.rollback_to(&savepoint);
    table
        .update(&transaction, &slots, &[1], &strings(&["b"]))
        .unwrap();
    transaction.commit().unwrap();
    assert_eq!(contents(&storage, &table), pairs(&[(1, "b")]));
}
