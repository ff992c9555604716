//! Freezing: each state under racing writers, readers, holders and the collector; compaction; memory that comes back.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use common::*;
use firndb_storage::{BlockState, Error, Form, Slot, Storage, Strings, Table};

/// A small generator of numbers (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % below
    }
}

fn name_of(id: i64) -> String {
    format!("{id} {LONG}")
}

/// A committed table of rows 0..count that does not freeze by itself.
fn table_of(storage: &Arc<Storage>, count: i64) -> (Table, Vec<Slot>) {
    let table = storage.create_table("t", schema()).unwrap();
    table.set_freeze_after(None);
    let ids: Vec<i64> = (0..count).collect();
    let names: Vec<String> = ids.iter().map(|&id| name_of(id)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let transaction = begin(storage);
    let slots = table.insert(&transaction, &rows(&ids, &names)).unwrap();
    transaction.commit().unwrap();
    (table, slots)
}

fn all_frozen(table: &Table) -> bool {
    table
        .blocks()
        .iter()
        .all(|block| block.state == BlockState::Frozen)
}

/// Waits for something that happens by itself.
fn eventually(what: &str, happened: impl Fn() -> bool) {
    let begun = Instant::now();
    while !happened() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn whole(table: &Table, storage: &Arc<Storage>) -> (Vec<RecordBatch>, bool) {
    let transaction = begin(storage);
    let scan = table.scan_whole(&transaction.snapshot()).unwrap();
    let mut shared = true;
    let batches = (0..scan.morsels())
        .map(|morsel| {
            let (batch, is_shared) = scan.read(morsel, &[0, 1], Form::Consumer, false).unwrap();
            shared &= is_shared;
            batch
        })
        .collect();
    (batches, shared)
}

#[test]
fn a_cold_table_freezes_by_itself_and_is_shared() {
    let storage = storage();
    let (table, _) = table_of(&storage, 100_000);
    assert!(!all_frozen(&table));
    let before = contents(&storage, &table);
    table.set_freeze_after(Some(Duration::from_millis(1)));
    eventually("a cold table freezes", || all_frozen(&table));
    assert_eq!(contents(&storage, &table), before);
    let (batches, shared) = whole(&table, &storage);
    assert!(shared);
    assert_eq!(
        batches.iter().map(RecordBatch::num_rows).sum::<usize>(),
        100_000
    );
    assert!(table.freeze_counts().frozen as usize >= table.blocks().len());
    eventually("hot memory is given back", || {
        storage.collect();
        storage.memory().hot == 0
    });
}

#[test]
fn a_small_table_ends_frozen_and_goes_on_growing_in_the_same_block() {
    let storage = storage();
    let (table, _) = table_of(&storage, 5);
    assert_eq!(table.freeze().frozen, 1);
    assert!(all_frozen(&table));
    for id in 5..300 {
        let transaction = begin(&storage);
        table
            .insert(&transaction, &rows(&[id], &[&name_of(id)]))
            .unwrap();
        transaction.commit().unwrap();
        if id % 7 == 0 {
            storage.collect();
            assert!(table.freeze().frozen >= 1, "the open block freezes");
        }
        let found = contents(&storage, &table);
        assert!(found.iter().map(|row| row.0).eq(0..=id));
    }
    // 256 rows, then the next block.
    assert_eq!(table.blocks().len(), 2);
}

#[test]
fn an_open_insertion_keeps_the_open_block_hot() {
    let storage = storage();
    let (table, _) = table_of(&storage, 5);
    let open = begin(&storage);
    table.insert(&open, &rows(&[5], &["x"])).unwrap();
    assert_eq!((table.freeze().frozen, table.freeze().hot), (0, 1));
    let versions = table.blocks()[0].versions;
    assert_eq!(versions, 1);
    open.rollback();
    assert_eq!(table.freeze().frozen, 1);
    let block = table.blocks()[0].clone();
    assert_eq!((block.rows, block.gaps), (6, 1));
    assert_eq!(contents(&storage, &table).len(), 5);
}

#[test]
fn a_block_whose_versions_a_snapshot_needs_stays_hot() {
    let storage = storage();
    let (table, slots) = table_of(&storage, 1000);
    let reader = begin(&storage);
    let writer = begin(&storage);
    table
        .update(&writer, &slots[..1], &[0], &integers(&[-1]))
        .unwrap();
    writer.commit().unwrap();
    let hot = table.freeze().hot;
    assert_eq!(hot, 1);
    assert_eq!(seen(&table, &reader)[0].0, 0);
    drop(reader);
    assert_eq!(table.freeze().frozen, 1);
    assert_eq!(contents(&storage, &table)[0].0, -1);
}

#[test]
fn a_held_batch_never_changes() {
    let storage = storage();
    let (table, slots) = table_of(&storage, 20_000);
    table.freeze();
    let (held, shared) = whole(&table, &storage);
    assert!(shared);
    let holders = table.blocks().iter().map(|block| block.holders).max();
    assert!(holders.unwrap() > 0);
    let copies: Vec<String> = held.iter().map(|batch| format!("{batch:?}")).collect();
    for round in 0..5 {
        let transaction = begin(&storage);
        let changed: Vec<Slot> = slots.iter().skip(round).step_by(3).copied().collect();
        table
            .update(
                &transaction,
                &changed,
                &[1],
                &strings(&vec!["changed"; changed.len()]),
            )
            .unwrap();
        transaction.commit().unwrap();
        table.freeze();
        assert!(all_frozen(&table));
    }
    let copies_now: Vec<String> = held.iter().map(|batch| format!("{batch:?}")).collect();
    assert_eq!(copies, copies_now);
    drop(held);
    assert_eq!(
        table.blocks().iter().map(|block| block.holders).max(),
        Some(0)
    );
    storage.collect();
    let once = storage.memory().frozen;
    // What nobody holds is given back: a tenth version takes no more room than the second.
    for _ in 0..5 {
        let transaction = begin(&storage);
        table
            .update(
                &transaction,
                &slots,
                &[1],
                &strings(&vec!["changed"; slots.len()]),
            )
            .unwrap();
        transaction.commit().unwrap();
        table.freeze();
    }
    storage.collect();
    assert!(storage.memory().frozen <= once + once / 10);
}

#[test]
fn only_thawed_columns_are_frozen_again() {
    let storage = storage();
    let (table, slots) = table_of(&storage, 20_000);
    table.freeze();
    let address = |column: usize| {
        let (batches, shared) = whole(&table, &storage);
        assert!(shared);
        batches[0].column(column).to_data().buffers()[0].as_ptr() as usize
    };
    let (id, name) = (address(0), address(1));
    let transaction = begin(&storage);
    table
        .update(&transaction, &slots[..1], &[0], &integers(&[-1]))
        .unwrap();
    transaction.commit().unwrap();
    assert!(!all_frozen(&table));
    assert!(table.freeze_counts().thawed > 0);
    table.freeze();
    assert!(all_frozen(&table));
    assert_eq!(address(1), name, "the strings stay where they are");
    assert_ne!(address(0), id);
    assert_eq!(contents(&storage, &table)[0].0, -1);
}

#[test]
fn gaps_at_the_end_are_cut_off_and_gaps_inside_are_filled() {
    let storage = storage();
    let (table, slots) = table_of(&storage, 40_000);
    let transaction = begin(&storage);
    let deleted: Vec<Slot> = slots.iter().step_by(10).copied().collect();
    table.delete(&transaction, &deleted).unwrap();
    transaction.commit().unwrap();
    let before: BTreeMap<i64, String> = contents(&storage, &table).into_iter().collect();
    assert_eq!(before.len(), 36_000);
    table.freeze();
    let after: BTreeMap<i64, String> = contents(&storage, &table).into_iter().collect();
    assert_eq!(before, after);
    let counts = table.freeze_counts();
    assert!(counts.moved > 0);
    // All but the open block.
    let blocks = table.blocks();
    let (open, closed) = blocks.split_last().unwrap();
    assert!(closed.iter().all(|block| block.state == BlockState::Frozen));
    assert_eq!(open.state, BlockState::Frozen);
    let gaps: Vec<usize> = closed
        .iter()
        .map(|block| block.gaps)
        .filter(|&gaps| gaps > 0)
        .collect();
    assert!(gaps.len() <= 1, "one block is filled in part: {gaps:?}");
}

#[test]
fn without_deletions_the_order_of_insertion_stays() {
    let storage = storage();
    let (table, slots) = table_of(&storage, 60_000);
    let transaction = begin(&storage);
    table
        .update(&transaction, &slots[100..200], &[1], &strings(&["u"; 100]))
        .unwrap();
    transaction.commit().unwrap();
    table.freeze();
    table.freeze();
    assert!(
        contents(&storage, &table)
            .iter()
            .map(|row| row.0)
            .eq(0..60_000)
    );
    assert_eq!(table.freeze_counts().moved, 0);
}

#[test]
fn space_comes_back_when_nine_tenths_of_a_frozen_table_are_deleted() {
    let storage = storage();
    // Of one value, a dictionary would leave little to come back.
    let table = storage
        .create_table("t", schema())
        .unwrap()
        .with_strings(&[Strings::Offsets; 2]);
    table.adopt_strings();
    let count = 40 * table.block_rows() as i64;
    let ids: Vec<i64> = (0..count).collect();
    let transaction = begin(&storage);
    let mut load = table.bulk_insert(&transaction).unwrap();
    load.append(rows(&ids, &vec![LONG; ids.len()])).unwrap();
    load.finish().unwrap();
    transaction.commit().unwrap();
    let full = storage.memory().frozen;
    let (held, _) = whole(&table, &storage);
    let transaction = begin(&storage);
    let gone: Vec<Slot> = scan(&table, &transaction.snapshot())
        .into_iter()
        .filter(|(_, id, _)| id.unwrap() % 10 != 0)
        .map(|(slot, _, _)| slot)
        .collect();
    table.delete(&transaction, &gone).unwrap();
    transaction.commit().unwrap();
    eventually("deleted rows give their space back", || {
        table.blocks().len() <= 5 && all_frozen(&table)
    });
    let found = contents(&storage, &table);
    let mut ids: Vec<i64> = found.iter().map(|row| row.0).collect();
    ids.sort_unstable();
    assert!(ids.into_iter().eq((0..count).step_by(10)));
    assert_eq!(
        held.iter().map(RecordBatch::num_rows).sum::<usize>() as i64,
        count
    );
    assert_eq!(held[0].column(0).as_primitive::<Int64Type>().value(7), 7);
    drop(held);
    eventually("the memory of held batches comes back", || {
        storage.collect();
        storage.memory().frozen < full / 5
    });
    assert_eq!(storage.memory().undo, 0);
}

/// Ends the other threads when this one fails, too.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A table with a unique index and gaps, a transaction, and rows on the move while it is open: `act` meets them.
fn while_rows_move(act: impl Fn(&Arc<Storage>, &Table, firndb_storage::Transaction)) {
    let storage = storage();
    let (table, slots) = table_of(&storage, 100_000);
    let transaction = begin(&storage);
    table.create_unique_index(&transaction, "id", &[0]).unwrap();
    let deleted: Vec<Slot> = slots.iter().step_by(2).copied().collect();
    table.delete(&transaction, &deleted).unwrap();
    transaction.commit().unwrap();
    for _ in 0..3 {
        storage.collect();
        let open = begin(&storage);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    table.freeze();
                }
            });
            let _done = SetOnDrop(&done);
            let is_moving = || table.blocks().iter().any(|block| block.versions > 0);
            eventually("rows move", is_moving);
            act(&storage, &table, open);
        });
        // All keys are found where the rows are now.
        let last = begin(&storage);
        let keys = integers(&(0..100_000).collect::<Vec<_>>());
        let found = table.lookup(&last.snapshot(), "id", &keys).unwrap();
        for (id, slot) in found.iter().enumerate() {
            assert_eq!(slot.is_some(), id % 2 == 1, "key {id}");
        }
        assert_eq!(seen(&table, &last).len(), 50_000);
        // Gaps again: the rows of one third go and come back elsewhere.
        last.begin_statement();
        let gone: Vec<i64> = (1..100_000).step_by(6).collect();
        let found = table
            .lookup(&last.snapshot(), "id", &integers(&gone))
            .unwrap();
        let slots: Vec<Slot> = found.into_iter().flatten().collect();
        table.delete(&last, &slots).unwrap();
        last.begin_statement();
        let names: Vec<String> = gone.iter().map(|&id| name_of(id)).collect();
        let refs: Vec<&str> = names.iter().map(String::as_str).collect();
        table.insert(&last, &rows(&gone, &refs)).unwrap();
        table.check_unique(&last).unwrap();
        last.commit().unwrap();
    }
    eventually("rows have moved", || {
        table.freeze();
        table.freeze_counts().moved > 0
    });
}

#[test]
fn writing_a_row_on_the_move_is_no_conflict() {
    while_rows_move(|_, table, open| {
        for id in (1..100_000).step_by(1000) {
            open.begin_statement();
            let found = table
                .lookup(&open.snapshot(), "id", &integers(&[id]))
                .unwrap();
            table
                .update(&open, &[found[0].unwrap()], &[1], &strings(&["u"]))
                .unwrap();
        }
        open.commit().unwrap();
    });
}

#[test]
fn a_key_whose_row_is_on_the_move_is_taken() {
    while_rows_move(|_, table, open| {
        for id in (1..100_000).step_by(1000) {
            let savepoint = open.begin_statement();
            table.insert(&open, &rows(&[id], &["twice"])).unwrap();
            let refused = table.check_unique(&open);
            assert!(
                matches!(refused, Err(Error::UniqueViolation { .. })),
                "{refused:?}"
            );
            open.rollback_to(&savepoint);
        }
        open.rollback();
    });
}

#[test]
fn an_index_that_is_made_while_rows_move_leads_to_all_of_them() {
    while_rows_move(|storage, table, open| {
        table.create_unique_index(&open, "other", &[0]).unwrap();
        open.commit().unwrap();
        let last = begin(storage);
        let keys = integers(&(1..100_000).step_by(2).collect::<Vec<_>>());
        let found = table.lookup(&last.snapshot(), "other", &keys).unwrap();
        assert!(found.iter().all(Option::is_some));
        drop(last);
        let transaction = begin(storage);
        table.drop_unique_index(&transaction, "other").unwrap();
        transaction.commit().unwrap();
    });
}

/// Writers, readers and holders race a freezer that freezes all the time; sums are right in every snapshot and every held batch.
fn race(seed: u64, time: Duration) {
    const ACCOUNTS: i64 = 6000;
    let storage = storage();
    let table = storage.create_table("t", schema()).unwrap();
    table.set_freeze_after(Some(Duration::from_micros(100)));
    let transaction = begin(&storage);
    table
        .create_unique_index(&transaction, "name", &[1])
        .unwrap();
    let names: Vec<String> = (0..ACCOUNTS).map(|at| format!("{at} {LONG}")).collect();
    let refs: Vec<&str> = names.iter().map(String::as_str).collect();
    // In small pieces, so that there are many blocks.
    for names in refs.chunks(50) {
        table
            .insert(&transaction, &rows(&[100; 50], names))
            .unwrap();
    }
    transaction.commit().unwrap();
    let total = 100 * ACCOUNTS;
    let sum = |batches: &[RecordBatch]| -> i64 {
        batches
            .iter()
            .flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().iter())
            .sum()
    };
    let done = AtomicBool::new(false);
    let (commits, conflicts) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for writer in 0..2_usize {
            let (storage, table, names, done) = (&storage, &table, &names, &done);
            let (commits, conflicts) = (&commits, &conflicts);
            scope.spawn(move || {
                let mut random = Random(seed + writer as u64 + 1);
                while !done.load(Ordering::Relaxed) {
                    let transaction = begin(storage);
                    let (one, other) = (random.next(names.len()), random.next(names.len()));
                    let result = transfer(table, &transaction, names, one, other, &mut random);
                    match result {
                        Ok(()) => {
                            transaction.commit().unwrap();
                            commits.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(Error::Conflict { .. }) => {
                            transaction.rollback();
                            conflicts.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) => panic!("{error}"),
                    }
                    // A pause now and then, so that something becomes cold.
                    if random.next(50) == 0 {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                }
            });
        }
        scope.spawn(|| {
            let mut held: Vec<(Vec<RecordBatch>, i64)> = Vec::new();
            let mut snapshots = Vec::new();
            while !done.load(Ordering::Relaxed) {
                let (batches, _) = whole(&table, &storage);
                let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
                assert_eq!((rows as i64, sum(&batches)), (ACCOUNTS, total));
                held.push((batches, total));
                if held.len() > 8 {
                    held.remove(0);
                }
                assert!(held.iter().all(|(batches, total)| sum(batches) == *total));
                // A snapshot that outlives its transaction.
                snapshots.push(begin(&storage).snapshot());
                if snapshots.len() > 4 {
                    let snapshot = snapshots.remove(0);
                    let found = scan(&table, &snapshot);
                    assert_eq!(found.len() as i64, ACCOUNTS);
                    assert_eq!(found.iter().map(|row| row.1.unwrap()).sum::<i64>(), total);
                }
            }
        });
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                table.freeze();
                std::thread::sleep(Duration::from_micros(300));
            }
        });
        std::thread::sleep(time);
        // Of a busy machine each thread gets little; what the race is about has to happen, though.
        let raced = || {
            let counts = table.freeze_counts();
            counts.moved > 0 && counts.thawed > 0 && commits.load(Ordering::Relaxed) > 0
        };
        let end = Instant::now() + Duration::from_secs(60);
        while !raced() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        done.store(true, Ordering::Relaxed);
        assert!(raced(), "{:?}", table.freeze_counts());
    });
    let (batches, _) = whole(&table, &storage);
    assert_eq!(sum(&batches), total);
    eventually("a table that nobody writes freezes", || all_frozen(&table));
    storage.collect();
    assert_eq!(storage.memory().undo, 0);
    // Each name once, and found by its index.
    let mut found: Vec<String> = contents(&storage, &table)
        .into_iter()
        .map(|row| row.1)
        .collect();
    found.sort();
    let mut expected = names.clone();
    expected.sort();
    assert_eq!(found, expected);
    let last = begin(&storage);
    let refs: Vec<&str> = names.iter().map(String::as_str).collect();
    let slots = table
        .lookup(&last.snapshot(), "name", &strings(&refs))
        .unwrap();
    assert!(slots.iter().all(Option::is_some));
    let blocks = table.blocks();
    let rows: usize = blocks.iter().map(|block| block.rows).sum();
    assert!(
        rows < 4 * ACCOUNTS as usize + 2 * table.block_rows(),
        "{blocks:?}"
    );
}

/// Moves money between two accounts: by updates, or by deleting one and inserting it again.
fn transfer(
    table: &Table,
    transaction: &firndb_storage::Transaction,
    names: &[String],
    one: usize,
    other: usize,
    random: &mut Random,
) -> Result<(), Error> {
    if one == other {
        return Ok(());
    }
    let keys = strings(&[&names[one], &names[other]]);
    let slots: Vec<Slot> = table
        .lookup(&transaction.snapshot(), "name", &keys)?
        .into_iter()
        .map(|slot| slot.expect("every account is there"))
        .collect();
    let read = table.read(&transaction.snapshot(), &slots, &[0], Form::Compute)?;
    let values = read.column(0).as_primitive::<Int64Type>();
    let amount = random.next(10) as i64;
    let new = [values.value(0) - amount, values.value(1) + amount];
    transaction.begin_statement();
    if random.next(2) == 0 {
        return table.update(transaction, &slots, &[0], &integers(&new));
    }
    table.update(transaction, &slots[..1], &[0], &integers(&new[..1]))?;
    transaction.begin_statement();
    table.delete(transaction, &slots[1..])?;
    transaction.begin_statement();
    table.insert(transaction, &rows(&new[1..], &[&names[other]]))?;
    table.check_unique(transaction)
}

#[test]
fn sums_stay_right_while_everything_freezes_thaws_and_moves() {
    for seed in [7, 77, 777] {
        race(seed, Duration::from_secs(3));
    }
}

#[test]
fn an_interleaving_of_statements_and_freezing_agrees_with_a_map() {
    for seed in [3, 33, 333, 3333] {
        model(seed, 1500);
    }
}

/// One writer with random statements, and freezing at random moments: what is read is what a map by key says, in the writer's snapshot and in older ones.
fn model(seed: u64, steps: usize) {
    let storage = storage();
    let table = storage.create_table("t", schema()).unwrap();
    table.set_freeze_after(Some(Duration::from_micros(50)));
    let mut random = Random(seed * 0x9E37_79B9);
    let mut committed: BTreeMap<i64, String> = BTreeMap::new();
    let mut old: Vec<(firndb_storage::Snapshot, BTreeMap<i64, String>)> = Vec::new();
    let mut next = 0_i64;
    for step in 0..steps {
        let transaction = begin(&storage);
        let mut now = committed.clone();
        for _ in 0..1 + random.next(4) {
            transaction.begin_statement();
            let found = scan(&table, &transaction.snapshot());
            let seen: BTreeMap<i64, String> = found
                .iter()
                .map(|(_, id, name)| (id.unwrap(), name.clone().unwrap()))
                .collect();
            assert_eq!(seen, now, "seed {seed}, step {step}");
            assert_eq!(found.len(), now.len());
            let chosen: Vec<(Slot, i64)> = found
                .iter()
                .filter(|_| random.next(10) == 0)
                .map(|(slot, id, _)| (*slot, id.unwrap()))
                .collect();
            let slots: Vec<Slot> = chosen.iter().map(|row| row.0).collect();
            match random.next(5) {
                0 | 1 => {
                    let count = 1 + random.next(200) as i64;
                    let ids: Vec<i64> = (next..next + count).collect();
                    let names: Vec<String> = ids.iter().map(|&id| name_of(id)).collect();
                    let refs: Vec<&str> = names.iter().map(String::as_str).collect();
                    table.insert(&transaction, &rows(&ids, &refs)).unwrap();
                    now.extend(ids.into_iter().zip(names));
                    next += count;
                }
                2 => {
                    let name = format!("{} in step {step}", ["", LONG][random.next(2)]);
                    table
                        .update(
                            &transaction,
                            &slots,
                            &[1],
                            &strings(&vec![name.as_str(); slots.len()]),
                        )
                        .unwrap();
                    now.extend(chosen.into_iter().map(|(_, id)| (id, name.clone())));
                }
                _ => {
                    table.delete(&transaction, &slots).unwrap();
                    chosen.iter().for_each(|(_, id)| {
                        now.remove(id);
                    });
                }
            }
        }
        if random.next(5) == 0 {
            transaction.rollback();
        } else {
            transaction.commit().unwrap();
            committed = now;
        }
        match random.next(6) {
            0 => {
                table.freeze();
            }
            1 => storage.collect(),
            2 => old.push((begin(&storage).snapshot(), committed.clone())),
            3 if !old.is_empty() => {
                let (snapshot, expected) = old.remove(random.next(old.len()));
                let seen: BTreeMap<i64, String> = scan(&table, &snapshot)
                    .into_iter()
                    .map(|(_, id, name)| (id.unwrap(), name.unwrap()))
                    .collect();
                assert_eq!(seen, expected, "seed {seed}, step {step}");
            }
            _ => {}
        }
        if old.len() > 5 {
            old.remove(0);
        }
    }
    old.clear();
    eventually("a table that nobody writes freezes", || all_frozen(&table));
    assert!(table.freeze_counts().moved > 0);
    table.set_freeze_after(None);
    table.freeze();
    storage.collect();
    assert_eq!(storage.memory().undo, 0);
    let seen: BTreeMap<i64, String> = contents(&storage, &table).into_iter().collect();
    assert_eq!(seen, committed);
}

/// Rounds of updates, deletions, insertions, exports that are held for a while, and in the middle nine tenths of the table deleted: after each round memory
/// is where it was.
#[test]
fn memory_stays_where_it_is_over_rounds_of_everything() {
    const ROWS: i64 = 30_000;
    let storage = storage();
    let table = storage.create_table("t", schema()).unwrap();
    table.set_freeze_after(Some(Duration::from_millis(1)));
    let mut random = Random(4711);
    let mut next = 0;
    let mut expected = 0_i64;
    let mut settled = Vec::new();
    let mut held: Vec<Vec<RecordBatch>> = Vec::new();
    let sum = |batches: &[RecordBatch]| -> i64 {
        let values = |batch: &RecordBatch| -> i64 {
            batch
                .column(0)
                .as_primitive::<Int64Type>()
                .values()
                .iter()
                .sum()
        };
        batches.iter().map(values).sum()
    };
    for round in 0..12 {
        let deletes_most = round == 6;
        for statement in 0..20 {
            let transaction = begin(&storage);
            let found = scan(&table, &transaction.snapshot());
            let share = if deletes_most && statement == 0 {
                90
            } else {
                10
            };
            let (gone, rest): (Vec<_>, Vec<_>) =
                found.into_iter().partition(|_| random.next(100) < share);
            transaction.begin_statement();
            let slots: Vec<Slot> = gone.iter().map(|row| row.0).collect();
            table.delete(&transaction, &slots).unwrap();
            expected -= gone.iter().map(|row| row.1.unwrap()).sum::<i64>();
            transaction.begin_statement();
            let changed: Vec<Slot> = rest.iter().step_by(50).map(|row| row.0).collect();
            let name = format!("{round} {statement} {LONG}");
            table
                .update(
                    &transaction,
                    &changed,
                    &[1],
                    &strings(&vec![name.as_str(); changed.len()]),
                )
                .unwrap();
            transaction.begin_statement();
            let missing = ROWS - rest.len() as i64;
            let ids: Vec<i64> = (next..next + missing).collect();
            next += missing;
            expected += ids.iter().sum::<i64>();
            for ids in ids.chunks(1000) {
                let names: Vec<String> = ids.iter().map(|&id| name_of(id)).collect();
                let refs: Vec<&str> = names.iter().map(String::as_str).collect();
                table.insert(&transaction, &rows(ids, &refs)).unwrap();
            }
            transaction.commit().unwrap();
            if statement % 5 == 0 {
                std::thread::sleep(Duration::from_millis(5));
                let (batches, _) = whole(&table, &storage);
                assert_eq!(
                    sum(&batches),
                    expected,
                    "round {round}, statement {statement}"
                );
                held.push(batches);
            }
        }
        held.clear();
        eventually("what nobody writes freezes", || all_frozen(&table));
        table.freeze();
        storage.collect();
        let memory = storage.memory();
        settled.push(memory.frozen + memory.hot + memory.undo);
    }
    // How full blocks are when a round ends is chance: the rounds before the great deletion count together, and those after it.
    let (before, after) = settled.split_at(6);
    let (before, after) = (before.iter().sum::<usize>(), after.iter().sum::<usize>());
    assert!(after <= before + before / 2, "{settled:?}");
    assert_eq!(storage.memory().undo, 0);
}

#[test]
fn an_extent_that_is_mostly_garbage_is_rewritten() {
    let storage = storage();
    let (table, slots) = table_of(&storage, 400_000);
    table.freeze();
    let full = storage.memory().frozen;
    // A block at a time, so that each freezes alone; one row of the first extent's blocks stays untouched in every column.
    let mut most = 0;
    for round in 0..40 {
        let transaction = begin(&storage);
        let changed = [slots[(round * 37_000) % slots.len()]];
        table
            .update(&transaction, &changed, &[1], &strings(&["other"]))
            .unwrap();
        transaction.commit().unwrap();
        table.freeze();
        storage.collect();
        most = most.max(storage.memory().frozen);
    }
    assert!(most < 3 * full, "{most} bytes at most, {full} at first");
    eventually("garbage is given back", || {
        table.freeze();
        storage.collect();
        storage.memory().frozen <= 2 * full
    });
    assert!(
        contents(&storage, &table)
            .iter()
            .map(|row| row.0)
            .eq(0..400_000)
    );
}

#[test]
fn a_compaction_that_a_transaction_holds_up_is_made_up_for_when_it_ends() {
    let storage = storage();
    let (table, slots) = table_of(&storage, 100_000);
    table.freeze();
    let transaction = begin(&storage);
    let gone: Vec<Slot> = slots
        .iter()
        .filter(|slot| slot.0 % 10 != 0)
        .copied()
        .collect();
    table.delete(&transaction, &gone).unwrap();
    transaction.commit().unwrap();
    storage.collect();
    let open = begin(&storage);
    let blocks = table.blocks().len();
    table.set_freeze_after(Some(Duration::from_millis(1)));
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(table.blocks().len(), blocks);
    assert_eq!(seen(&table, &open).len(), 100_000 - gone.len());
    drop(open);
    // Nobody writes any more.
    eventually("the rows move together", || table.blocks().len() < blocks);
    assert_eq!(contents(&storage, &table).len(), 100_000 - gone.len());
}

/// Values of every stored type, with nulls; `seed` makes them differ.
fn every_type(rows: i64, seed: i64) -> RecordBatch {
    use arrow::array::types::{Int32Type, IntervalMonthDayNano};
    use arrow::array::*;
    use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
    let some = |row: i64| (row % 7 != 3).then_some(row * 31 + seed);
    let numbers: Vec<Option<i64>> = (0..rows).map(some).collect();
    let each = |of: &dyn Fn(i64) -> String| -> Vec<Option<String>> {
        numbers.iter().map(|number| number.map(of)).collect()
    };
    macro_rules! numbers {
        ($array:ty, $native:ty) => {
            Arc::new(<$array>::from(
                numbers
                    .iter()
                    .map(|number| number.map(|number| number as $native))
                    .collect::<Vec<_>>(),
            )) as ArrayRef
        };
    }
    let texts = each(&|number| {
        if number % 2 == 0 {
            format!("{number}")
        } else {
            name_of(number)
        }
    });
    let bytes: Vec<Option<&[u8]>> = texts
        .iter()
        .map(|text| text.as_ref().map(|text| text.as_bytes()))
        .collect();
    let fixed = numbers
        .iter()
        .map(|number| number.map(|number| number.to_le_bytes().to_vec()));
    let lists = numbers.iter().map(|number| {
        number.map(|number| {
            (0..number % 4)
                .map(|at| Some(at as i32))
                .collect::<Vec<_>>()
        })
    });
    let decimal: Vec<Option<i128>> = numbers.iter().map(|n| n.map(i128::from)).collect();
    let narrow: Vec<Option<i64>> = numbers.clone();
    let intervals: Vec<Option<IntervalMonthDayNano>> = numbers
        .iter()
        .map(|n| n.map(|n| IntervalMonthDayNano::new(n as i32, n as i32, n)))
        .collect();
    let inner = Field::new("a", DataType::Int64, true);
    let outer = StructArray::from(vec![(
        Arc::new(inner),
        Arc::new(Int64Array::from(numbers.clone())) as ArrayRef,
    )]);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(BooleanArray::from(
            numbers
                .iter()
                .map(|n| n.map(|n| n % 2 == 0))
                .collect::<Vec<_>>(),
        )),
        numbers!(Int8Array, i8),
        numbers!(Int16Array, i16),
        numbers!(Int32Array, i32),
        numbers!(Int64Array, i64),
        numbers!(UInt8Array, u8),
        numbers!(UInt16Array, u16),
        numbers!(UInt32Array, u32),
        numbers!(UInt64Array, u64),
        numbers!(Float32Array, f32),
        numbers!(Float64Array, f64),
        Arc::new(
            Decimal64Array::from(narrow)
                .with_precision_and_scale(18, 2)
                .unwrap(),
        ),
        Arc::new(
            Decimal128Array::from(decimal)
                .with_precision_and_scale(38, 2)
                .unwrap(),
        ),
        numbers!(Date32Array, i32),
        numbers!(Time64MicrosecondArray, i64),
        numbers!(TimestampMicrosecondArray, i64),
        Arc::new(IntervalMonthDayNanoArray::from(intervals)),
        Arc::new(StringArray::from(texts.clone())),
        Arc::new(BinaryArray::from(bytes)),
        Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(fixed, 8).unwrap()),
        Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists)),
        Arc::new(outer),
    ];
    assert_eq!(
        columns[15].data_type(),
        &DataType::Timestamp(TimeUnit::Microsecond, None)
    );
    let fields: Vec<Field> = columns
        .iter()
        .enumerate()
        .map(|(number, column)| Field::new(format!("c{number}"), column.data_type().clone(), true))
        .collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

#[test]
fn every_type_freezes_and_thaws_and_moves() {
    let storage = storage();
    let batch = every_type(9000, 0);
    let table = storage.create_table("t", batch.schema()).unwrap();
    table.set_freeze_after(None);
    let all: Vec<usize> = (0..batch.num_columns()).collect();
    let transaction = begin(&storage);
    let mut slots = Vec::new();
    for first in (0..9000).step_by(1000) {
        slots.extend(
            table
                .insert(&transaction, &batch.slice(first, 1000))
                .unwrap(),
        );
    }
    transaction.commit().unwrap();
    let shown = || -> Vec<String> {
        let transaction = begin(&storage);
        let scan = table.scan(&transaction.snapshot()).unwrap();
        let mut rows = Vec::new();
        for morsel in 0..scan.morsels() {
            let (found, _) = scan.read(morsel, &all, Form::Consumer, false).unwrap();
            let text = arrow::util::pretty::pretty_format_batches(&[found])
                .unwrap()
                .to_string();
            rows.extend(
                text.lines()
                    .skip(3)
                    .filter(|line| line.starts_with("| "))
                    .map(|line| line.split('|').map(str::trim).collect::<Vec<_>>().join("|")),
            );
        }
        rows
    };
    let hot = shown();
    assert_eq!(hot.len(), 9000);
    assert!(table.freeze().frozen > 0);
    assert!(all_frozen(&table));
    assert_eq!(shown(), hot);
    let other = every_type(9000, 7);
    let transaction = begin(&storage);
    let changed: Vec<Slot> = slots.iter().step_by(3).copied().collect();
    let values = (0..9000)
        .step_by(3)
        .map(|row| other.slice(row, 1))
        .collect::<Vec<_>>();
    let values = arrow::compute::concat_batches(&other.schema(), &values).unwrap();
    table.update(&transaction, &changed, &all, &values).unwrap();
    transaction.commit().unwrap();
    let changed = shown();
    assert_ne!(changed, hot);
    table.freeze();
    assert!(all_frozen(&table));
    assert_eq!(shown(), changed);
    let transaction = begin(&storage);
    let gone: Vec<Slot> = slots.iter().skip(1).step_by(2).copied().collect();
    table.delete(&transaction, &gone).unwrap();
    transaction.commit().unwrap();
    let mut left = shown();
    table.freeze();
    assert!(table.freeze_counts().moved > 0);
    let mut moved = shown();
    left.sort();
    moved.sort();
    assert_eq!(moved, left);
}

/// Every extent is a batch of its own in every export.
#[test]
fn a_load_in_large_batches_fills_its_extents() {
    let storage = storage();
    let table = storage.create_table("t", schema()).unwrap();
    let extent = 64 * table.block_rows();
    let each = extent / 2 + 1000;
    let transaction = begin(&storage);
    let mut load = table.bulk_insert(&transaction).unwrap();
    for number in 0..7 {
        let first = (number * each) as i64;
        let ids: Vec<i64> = (first..first + each as i64).collect();
        load.append(rows(&ids, &vec!["x"; each])).unwrap();
    }
    load.finish().unwrap();
    transaction.commit().unwrap();
    let transaction = begin(&storage);
    let scan = table.scan_whole(&transaction.snapshot()).unwrap();
    let whole = (0..scan.morsels()).filter(|&morsel| scan.rows(morsel) == extent);
    assert_eq!(whole.count(), 7 * each / extent);
    let ids = contents(&storage, &table).into_iter().map(|(id, _)| id);
    assert!(ids.eq(0..7 * each as i64));
}
