//! Indexes that are not unique, partial ones, and keys of expressions: against a model, under concurrent writers, through everything that moves rows.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, StringArray};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Int64Type};
use common::*;
use firndb_storage::index::KeyRange;
use firndb_storage::{
    Error, Form, IndexDefinition, KeyProgram, Result, Slot, Storage, Table, Transaction,
};

fn definition(name: &str, columns: &[usize]) -> IndexDefinition {
    IndexDefinition {
        name: name.to_owned(),
        columns: columns.to_vec(),
        unique: false,
        order: Vec::new(),
        program: None,
    }
}

/// A committed table with an index `i` over `id` and an index `n` over `name` and `id`.
fn indexed(storage: &Arc<Storage>) -> Table {
    let table = storage.create_table("t", schema()).unwrap();
    let transaction = begin(storage);
    table
        .create_index(&transaction, &definition("i", &[0]))
        .unwrap();
    table
        .create_index(&transaction, &definition("n", &[1, 0]))
        .unwrap();
    transaction.commit().unwrap();
    table
}

fn one(id: i64) -> ArrayRef {
    Arc::new(Int64Array::from(vec![id]))
}

fn name(text: &str) -> ArrayRef {
    Arc::new(StringArray::from(vec![text]))
}

fn between(lower: Bound<i64>, upper: Bound<i64>) -> KeyRange {
    KeyRange {
        equal: Vec::new(),
        lower: lower.map(one),
        upper: upper.map(one),
    }
}

/// The rows of a range that a transaction sees, as the index leads to them.
fn found(table: &Table, transaction: &Transaction, index: &str, range: &KeyRange) -> Vec<Row> {
    transaction.begin_statement();
    let snapshot = transaction.snapshot();
    let slots = table
        .index_slots(&snapshot, index, std::slice::from_ref(range), usize::MAX)
        .unwrap()
        .unwrap();
    let (batch, slots) = table
        .read_visible(&snapshot, &slots, &[0, 1], Form::Consumer)
        .unwrap();
    rows_of(&batch, &slots)
}

fn rows_of(batch: &RecordBatch, slots: &[Slot]) -> Vec<Row> {
    let ids = batch.column(0).as_primitive::<Int64Type>();
    let names = batch.column(1).as_string::<i32>();
    (0..batch.num_rows())
        .map(|row| {
            (
                slots[row],
                ids.is_valid(row).then(|| ids.value(row)),
                names.is_valid(row).then(|| names.value(row).to_owned()),
            )
        })
        .collect()
}

/// All rows in the order of an index.
fn in_order(
    table: &Table,
    transaction: &Transaction,
    index: &str,
    range: &KeyRange,
    reverse: bool,
) -> Vec<Row> {
    transaction.begin_statement();
    let snapshot = transaction.snapshot();
    let mut cursor = table
        .index_cursor(&snapshot, index, range, reverse, reverse)
        .unwrap()
        .unwrap();
    let mut all = Vec::new();
    while let Some(slots) = cursor.next(7).unwrap() {
        let batch = table
            .read(&snapshot, &slots, &[0, 1], Form::Consumer)
            .unwrap();
        all.extend(rows_of(&batch, &slots));
    }
    all
}

fn optional(ids: &[Option<i64>], names: &[Option<&str>]) -> RecordBatch {
    RecordBatch::try_new(
        schema(),
        vec![
            Arc::new(Int64Array::from(ids.to_vec())),
            Arc::new(StringArray::from(names.to_vec())),
        ],
    )
    .unwrap()
}

/// What both indexes must yield agrees with a scan, for some ranges and both directions.
fn agrees(table: &Table, transaction: &Transaction) {
    transaction.begin_statement();
    let all = scan(table, &transaction.snapshot());
    for (lower, upper) in [
        (Bound::Unbounded, Bound::Unbounded),
        (Bound::Included(3), Bound::Included(3)),
        (Bound::Excluded(3), Bound::Unbounded),
        (Bound::Unbounded, Bound::Excluded(12)),
        (Bound::Included(-5), Bound::Excluded(9)),
        (Bound::Excluded(9), Bound::Excluded(9)),
    ] {
        let within = |id: &Option<i64>| match id {
            Some(id) => (lower, upper).contains_id(*id),
            None => (lower, upper) == (Bound::Unbounded, Bound::Unbounded),
        };
        let expected: Vec<Row> = all.iter().filter(|row| within(&row.1)).cloned().collect();
        let range = between(lower, upper);
        let mut seen = found(table, transaction, "i", &range);
        seen.retain(|row| within(&row.1));
        assert_eq!(seen, expected, "{lower:?} {upper:?}");
        let mut ascending = expected.clone();
        ascending.sort_by_key(|row| (row.1.is_none(), row.1, row.0));
        assert_eq!(in_order(table, transaction, "i", &range, false), ascending);
        ascending.reverse();
        assert_eq!(in_order(table, transaction, "i", &range, true), ascending);
    }
    for text in ["a", "b", LONG, ""] {
        let mut seen = found(table, transaction, "n", &KeyRange::equal(vec![name(text)]));
        seen.retain(|row| row.2.as_deref() == Some(text));
        let expected: Vec<Row> = all
            .iter()
            .filter(|row| row.2.as_deref() == Some(text))
            .cloned()
            .collect();
        assert_eq!(seen, expected);
        let range = KeyRange {
            equal: vec![name(text)],
            lower: Bound::Excluded(one(2)),
            upper: Bound::Included(one(9)),
        };
        let mut expected: Vec<Row> = expected
            .into_iter()
            .filter(|row| row.1.is_some_and(|id| id > 2 && id <= 9))
            .collect();
        expected.sort_by_key(|row| (row.1, row.0));
        assert_eq!(in_order(table, transaction, "n", &range, false), expected);
    }
}

trait ContainsId {
    fn contains_id(&self, id: i64) -> bool;
}

impl ContainsId for (Bound<i64>, Bound<i64>) {
    fn contains_id(&self, id: i64) -> bool {
        std::ops::RangeBounds::contains(self, &id)
    }
}

/// A small generator of numbers (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

#[test]
fn ranges_and_orders_agree_with_a_model_through_updates_aborts_and_savepoints() {
    let storage = storage();
    let table = indexed(&storage);
    table.set_freeze_after(None);
    let names = [Some("a"), Some("b"), Some(LONG), Some(""), None];
    let mut random = Random(0x1234_5678_9abc_def1);
    let mut model: BTreeMap<Slot, (Option<i64>, Option<String>)> = BTreeMap::new();
    let mut old = None;
    for round in 0..150 {
        let transaction = begin(&storage);
        let mut attempt = model.clone();
        let mut kept = None;
        for _ in 0..random.below(6) {
            transaction.begin_statement();
            let id = (random.below(10) > 0).then(|| random.below(20) as i64 - 4);
            let text = names[random.below(5) as usize];
            let slots: Vec<Slot> = attempt.keys().copied().collect();
            match random.below(4) {
                0 if !slots.is_empty() => {
                    let slot = slots[random.below(slots.len() as u64) as usize];
                    table.delete(&transaction, &[slot]).unwrap();
                    attempt.remove(&slot);
                }
                1 if !slots.is_empty() => {
                    let slot = slots[random.below(slots.len() as u64) as usize];
                    table
                        .update(&transaction, &[slot], &[0, 1], &optional(&[id], &[text]))
                        .unwrap();
                    attempt.insert(slot, (id, text.map(str::to_owned)));
                }
                2 if kept.is_none() => kept = Some((transaction.savepoint(), attempt.clone())),
                _ => {
                    let slot = table
                        .insert(&transaction, &optional(&[id], &[text]))
                        .unwrap()[0];
                    attempt.insert(slot, (id, text.map(str::to_owned)));
                }
            }
        }
        if let Some((savepoint, before)) = kept
            && random.below(2) == 0
        {
            transaction.rollback_to(&savepoint);
            attempt = before;
        }
        agrees(&table, &transaction);
        let seen: BTreeMap<Slot, (Option<i64>, Option<String>)> =
            found(&table, &transaction, "i", &KeyRange::all())
                .into_iter()
                .map(|(slot, id, text)| (slot, (id, text)))
                .collect();
        assert_eq!(seen, attempt);
        if random.below(3) == 0 {
            transaction.rollback();
        } else {
            transaction.commit().unwrap();
            model = attempt;
        }
        if round % 40 == 7 {
            old = Some((begin(&storage), model.clone()));
        }
        if let Some((reader, before)) = &old {
            agrees(&table, reader);
            let seen = found(&table, reader, "i", &KeyRange::all());
            assert_eq!(seen.len(), before.len());
        }
        if random.below(4) == 0 {
            storage.collect();
        }
    }
    drop(old);
    storage.collect();
    agrees(&table, &begin(&storage));
}

#[test]
fn writers_of_many_threads_keep_an_index_complete() {
    let storage = storage();
    let table = indexed(&storage);
    table.set_freeze_after(None);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4_u64)
            .map(|number| {
                let (storage, table) = (&storage, &table);
                scope.spawn(move || {
                    let mut random = Random(number * 77 + 1);
                    let mut own: Vec<Slot> = Vec::new();
                    for _ in 0..10_000 {
                        let transaction = begin(storage);
                        let id = random.below(16) as i64;
                        let mut next = own.clone();
                        match random.below(3) {
                            0 if !own.is_empty() => {
                                let at = random.below(own.len() as u64) as usize;
                                table.delete(&transaction, &[next.swap_remove(at)]).unwrap();
                            }
                            1 if !own.is_empty() => {
                                let slot = own[random.below(own.len() as u64) as usize];
                                table
                                    .update(&transaction, &[slot], &[0], &integers(&[id]))
                                    .unwrap();
                            }
                            _ => next
                                .extend(table.insert(&transaction, &rows(&[id], &["a"])).unwrap()),
                        }
                        if random.below(4) == 0 {
                            transaction.rollback();
                        } else {
                            transaction.commit().unwrap();
                            own = next;
                        }
                    }
                })
            })
            .collect();
        let (storage, table, done) = (&storage, &table, &done);
        let reader = scope.spawn(move || {
            while !done.load(Ordering::Relaxed) {
                agrees(table, &begin(storage));
            }
        });
        for writer in writers {
            writer.join().unwrap();
        }
        done.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
    storage.collect();
    agrees(&table, &begin(&storage));
}

#[test]
fn an_index_is_built_over_rows_that_exist_and_goes_with_its_transaction() {
    let storage = storage();
    let (table, _) = table_with(&storage, &[3, 1, 3], &["a", "b", "a"]);
    let transaction = begin(&storage);
    table
        .create_index(&transaction, &definition("i", &[0]))
        .unwrap();
    table
        .create_index(&transaction, &definition("n", &[1, 0]))
        .unwrap();
    table
        .insert(&transaction, &rows(&[9, 3], &["a", LONG]))
        .unwrap();
    agrees(&table, &transaction);
    // Nobody writes beside it.
    let other = begin(&storage);
    let refused = table.insert(&other, &rows(&[5], &["a"]));
    assert!(matches!(refused, Err(Error::Conflict { .. })));
    transaction.rollback();
    let later = begin(&storage);
    let snapshot = later.snapshot();
    let slots = table.index_slots(&snapshot, "i", &[KeyRange::all()], usize::MAX);
    assert!(slots.unwrap().is_none());
    assert_eq!(storage.memory().index, 0);
}

#[test]
fn a_snapshot_from_before_an_index_does_not_read_it() {
    let storage = storage();
    let (table, slots) = table_with(&storage, &[3], &["a"]);
    let old = begin(&storage);
    let writer = begin(&storage);
    table
        .update(&writer, &slots, &[0], &integers(&[4]))
        .unwrap();
    writer.commit().unwrap();
    let builder = begin(&storage);
    table
        .create_index(&builder, &definition("i", &[0]))
        .unwrap();
    builder.commit().unwrap();
    let slots = |transaction: &Transaction| {
        table
            .index_slots(
                &transaction.snapshot(),
                "i",
                &[KeyRange::equal(vec![one(3)])],
                9,
            )
            .unwrap()
    };
    assert_eq!(slots(&old), None);
    assert_eq!(slots(&begin(&storage)), Some(Vec::new()));
}

#[test]
fn dropping_and_making_an_index_of_one_name_in_one_transaction() {
    let storage = storage();
    let table = indexed(&storage);
    let transaction = begin(&storage);
    table.insert(&transaction, &rows(&[1], &["b"])).unwrap();
    table.drop_index(&transaction, "i").unwrap();
    table
        .create_index(&transaction, &definition("i", &[1]))
        .unwrap();
    let of_b = KeyRange::equal(vec![name("b")]);
    assert_eq!(found(&table, &transaction, "i", &of_b).len(), 1);
    transaction.rollback();
    let other = begin(&storage);
    table.insert(&other, &rows(&[1], &["b"])).unwrap();
    agrees(&table, &other);
}

#[test]
fn renaming_keeps_the_entries() {
    let storage = storage();
    let table = indexed(&storage);
    let transaction = begin(&storage);
    table
        .insert(&transaction, &rows(&[1, 3, 9], &["b", "a", "a"]))
        .unwrap();
    transaction.commit().unwrap();
    let renamer = begin(&storage);
    table
        .rename_index(&renamer, "i", &definition("j", &[0]))
        .unwrap();
    assert_eq!(found(&table, &renamer, "j", &KeyRange::all()).len(), 3);
    renamer.rollback();
    agrees(&table, &begin(&storage));
    let renamer = begin(&storage);
    table
        .rename_index(&renamer, "i", &definition("j", &[0]))
        .unwrap();
    renamer.commit().unwrap();
    let later = begin(&storage);
    table.insert(&later, &rows(&[4], &["b"])).unwrap();
    assert_eq!(found(&table, &later, "j", &KeyRange::all()).len(), 4);
}

#[test]
fn bulk_loads_and_freezing_keep_indexes() {
    let storage = storage();
    let table = indexed(&storage);
    let count = table.block_rows() as i64 + 100;
    let empty = storage.memory().index;
    let transaction = begin(&storage);
    let ids: Vec<i64> = (0..count).map(|id| id % 50).collect();
    let mut load = table.bulk_insert(&transaction).unwrap();
    load.append(rows(&ids, &vec!["a"; ids.len()])).unwrap();
    load.finish().unwrap();
    transaction.rollback();
    assert_eq!(storage.memory().index, empty);
    let transaction = begin(&storage);
    let mut load = table.bulk_insert(&transaction).unwrap();
    load.append(rows(&ids, &vec!["a"; ids.len()])).unwrap();
    load.finish().unwrap();
    transaction.commit().unwrap();
    let reader = begin(&storage);
    agrees(&table, &reader);
    let limited = table.index_slots(&reader.snapshot(), "i", &[KeyRange::all()], 1000);
    assert_eq!(limited.unwrap(), None);
}

#[test]
fn compaction_takes_the_entries_along() {
    let storage = storage();
    let table = indexed(&storage);
    let transaction = begin(&storage);
    let ids: Vec<i64> = (0..40_000).map(|id| id % 50).collect();
    table
        .insert(&transaction, &rows(&ids, &vec!["a"; ids.len()]))
        .unwrap();
    transaction.commit().unwrap();
    let transaction = begin(&storage);
    let slots: Vec<Slot> = scan(&table, &transaction.snapshot())
        .into_iter()
        .map(|row| row.0)
        .collect();
    let gone: Vec<Slot> = slots.iter().copied().step_by(10).collect();
    table.delete(&transaction, &gone).unwrap();
    transaction.commit().unwrap();
    storage.collect();
    let begun = std::time::Instant::now();
    while table.freeze_counts().moved == 0 {
        assert!(begun.elapsed() < std::time::Duration::from_secs(30));
        table.freeze();
        storage.collect();
    }
    agrees(&table, &begin(&storage));
}

/// The length of `name`, where `id` is positive.
#[derive(Debug)]
struct Length {
    types: Vec<DataType>,
    names: Vec<String>,
}

impl KeyProgram for Length {
    fn types(&self) -> &[DataType] {
        &self.types
    }

    fn names(&self) -> &[String] {
        &self.names
    }

    fn keys(
        &self,
        columns: &[ArrayRef],
        _rows: usize,
    ) -> Result<(Vec<ArrayRef>, Option<BooleanArray>)> {
        let names = columns[1].as_string_view();
        let lengths: Int64Array = names
            .iter()
            .map(|name| name.map(|name| name.len() as i64))
            .collect();
        let ids = columns[0].as_primitive::<Int64Type>();
        let kept: BooleanArray = ids.iter().map(|id| id.map(|id| id > 0)).collect();
        Ok((vec![Arc::new(lengths)], Some(kept)))
    }
}

#[test]
fn a_partial_unique_index_over_an_expression_is_exact() {
    let storage = storage();
    let table = storage.create_table("t", schema()).unwrap();
    let transaction = begin(&storage);
    let partial = IndexDefinition {
        unique: true,
        program: Some(Arc::new(Length {
            types: vec![DataType::Int64],
            names: vec!["length(name)".to_owned()],
        })),
        ..definition("u", &[0, 1])
    };
    table.create_index(&transaction, &partial).unwrap();
    transaction.commit().unwrap();
    let transaction = begin(&storage);
    let insert = |id: i64, name: &str| {
        let savepoint = transaction.begin_statement();
        let slots = table.insert(&transaction, &rows(&[id], &[name]))?;
        match table.check_unique(&transaction) {
            Ok(()) => Ok(slots[0]),
            Err(error) => {
                transaction.rollback_to(&savepoint);
                Err(error)
            }
        }
    };
    insert(1, "aa").unwrap();
    let outside = insert(-1, "bb").unwrap();
    match insert(2, "cc") {
        Err(Error::UniqueViolation { columns, key, .. }) => {
            assert_eq!((columns.as_str(), key.as_str()), ("length(name)", "2"));
        }
        other => panic!("{other:?}"),
    }
    insert(2, "ccc").unwrap();
    // Coming into the index.
    let savepoint = transaction.begin_statement();
    table
        .update(&transaction, &[outside], &[0], &integers(&[5]))
        .unwrap();
    let checked = table.check_unique(&transaction);
    assert!(matches!(checked, Err(Error::UniqueViolation { .. })));
    transaction.rollback_to(&savepoint);
    let snapshot = transaction.snapshot();
    let found = table
        .conflicts(&snapshot, "u", &rows(&[7, 7, -7], &["xx", "x", "xx"]))
        .unwrap();
    assert!(found[0].0.is_some() && found[1].0.is_some() && found[2].0.is_none());
    assert!(found[0].1.is_some() && found[1].1.is_none() && found[2].1.is_none());
}

#[test]
fn descending_columns_order_so() {
    let storage = storage();
    let table = storage.create_table("t", schema()).unwrap();
    let transaction = begin(&storage);
    let descending = IndexDefinition {
        order: vec![
            SortOptions {
                descending: true,
                nulls_first: false,
            },
            SortOptions::default(),
        ],
        ..definition("d", &[1, 0])
    };
    table.create_index(&transaction, &descending).unwrap();
    table
        .insert(
            &transaction,
            &optional(
                &[Some(2), Some(1), Some(5), None, Some(7)],
                &[Some("a"), Some("a"), Some("b"), Some("b"), None],
            ),
        )
        .unwrap();
    let ids = |range: &KeyRange, reverse: bool| -> Vec<Option<i64>> {
        in_order(&table, &transaction, "d", range, reverse)
            .into_iter()
            .map(|row| row.1)
            .collect()
    };
    let all = KeyRange::all();
    assert_eq!(ids(&all, false), [None, Some(5), Some(1), Some(2), Some(7)]);
    assert_eq!(ids(&all, true), [Some(7), Some(2), Some(1), Some(5), None]);
    let above = KeyRange {
        equal: Vec::new(),
        lower: Bound::Excluded(name("a")),
        upper: Bound::Unbounded,
    };
    assert_eq!(ids(&above, false), [None, Some(5)]);
    let below = KeyRange {
        equal: Vec::new(),
        lower: Bound::Unbounded,
        upper: Bound::Included(name("a")),
    };
    assert_eq!(ids(&below, false), [Some(1), Some(2)]);
}

#[test]
fn entries_of_an_index_are_collected_and_need_memory() {
    let storage = Storage::open(firndb_storage::StorageConfig {
        memory_limit: Some(64 << 20),
        threads: 1,
    })
    .unwrap();
    let table = indexed(&storage);
    let transaction = begin(&storage);
    let slots = table
        .insert(&transaction, &rows(&vec![1; 1000], &vec!["a"; 1000]))
        .unwrap();
    transaction.commit().unwrap();
    let full = storage.memory().index;
    assert!(full > 0);
    let transaction = begin(&storage);
    table.delete(&transaction, &slots).unwrap();
    transaction.commit().unwrap();
    storage.collect();
    assert!(storage.memory().index < full / 10);
    let transaction = begin(&storage);
    let many = vec![1; 10_000];
    let refused = (0..1000).find_map(|_| {
        table
            .insert(&transaction, &rows(&many, &vec!["a"; many.len()]))
            .err()
    });
    assert!(
        matches!(refused, Some(Error::OutOfMemory { .. })),
        "{refused:?}"
    );
}

/// Two tables, a key 1 in the one, and an index over references in the other.
fn referring(storage: &Arc<Storage>) -> (Table, Slot, Table) {
    let parent = storage.create_table("p", schema()).unwrap();
    let child = storage.create_table("c", schema()).unwrap();
    let transaction = begin(storage);
    parent.create_unique_index(&transaction, "k", &[0]).unwrap();
    child
        .create_index(&transaction, &definition("r", &[0]))
        .unwrap();
    let slot = parent.insert(&transaction, &rows(&[1], &["p"])).unwrap()[0];
    transaction.commit().unwrap();
    (parent, slot, child)
}

#[test]
fn references_and_the_keys_that_they_need_exclude_each_other() {
    let storage = storage();
    let (parent, slot, child) = referring(&storage);
    let key = integers(&[1]);
    // The reference first, open or committed.
    for committed in [false, true] {
        let (adds, takes) = (begin(&storage), begin(&storage));
        child.insert(&adds, &rows(&[1], &["c"])).unwrap();
        assert_eq!(parent.holds(&adds, "k", &key).unwrap(), [true]);
        let open = if committed {
            adds.commit().unwrap();
            None
        } else {
            Some(adds)
        };
        parent.delete(&takes, &[slot]).unwrap();
        let refused = child.holders(&takes, "r", &key);
        assert!(
            matches!(refused, Err(Error::Conflict { .. })),
            "{refused:?}"
        );
        takes.rollback();
        drop(open);
    }
    let clean = begin(&storage);
    let held = child.holders(&clean, "r", &key).unwrap();
    assert_eq!(held[0].len(), 1);
    child.delete(&clean, &held[0]).unwrap();
    assert_eq!(child.holders(&clean, "r", &key).unwrap(), [vec![]]);
    clean.commit().unwrap();
    // The deletion first, open or committed; a change of other columns is in nobody's way.
    let (adds, other) = (begin(&storage), begin(&storage));
    parent
        .update(&other, &[slot], &[1], &strings(&["q"]))
        .unwrap();
    assert_eq!(parent.holds(&adds, "k", &key).unwrap(), [true]);
    other.rollback();
    drop(adds);
    for committed in [false, true] {
        let (adds, takes) = (begin(&storage), begin(&storage));
        parent.delete(&takes, &[slot]).unwrap();
        let open = if committed {
            takes.commit().unwrap();
            None
        } else {
            Some(takes)
        };
        child.insert(&adds, &rows(&[1], &["c"])).unwrap();
        let refused = parent.holds(&adds, "k", &key);
        assert!(
            matches!(refused, Err(Error::Conflict { .. })),
            "{refused:?}"
        );
        adds.rollback();
        drop(open);
    }
    assert_eq!(parent.holds(&begin(&storage), "k", &key).unwrap(), [false]);
}

#[test]
fn racing_threads_leave_no_reference_to_nothing() {
    let storage = storage();
    for _ in 0..300 {
        let (parent, slot, child) = referring(&storage);
        let key = integers(&[1]);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let transaction = begin(&storage);
                let added = child
                    .insert(&transaction, &rows(&[1], &["c"]))
                    .and_then(|_| parent.holds(&transaction, "k", &key));
                if matches!(added.as_deref(), Ok([true])) {
                    transaction.commit().unwrap();
                }
            });
            scope.spawn(|| {
                let transaction = begin(&storage);
                let taken = parent
                    .delete(&transaction, &[slot])
                    .and_then(|()| child.holders(&transaction, "r", &key));
                if taken.is_ok_and(|held| held[0].is_empty()) {
                    transaction.commit().unwrap();
                }
            });
        });
        let referred = contents(&storage, &child).len();
        let there = contents(&storage, &parent).len();
        assert!(referred <= there, "{referred} references to {there} rows");
    }
}
