//! Formats of frozen strings: whatever the format, the same history gives the same rows in every form.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, Int64Array, RecordBatch, StringArray, UInt64Array,
};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef, UInt64Type};
use common::{begin, storage};
use firndb_storage::{BlockState, Form, Slot, Storage, Strings, Table};

const FORMATS: [Strings; 4] = [
    Strings::Auto,
    Strings::Offsets,
    Strings::View,
    Strings::Dictionary,
];
const FORMS: [Form; 3] = [Form::Compute, Form::Consumer, Form::Native];

/// A small generator of numbers (xorshift), so that a failing seed can be run again.
struct Random(u64);

impl Random {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % below
    }
}

type Text = Option<String>;
type Bytes = Option<Vec<u8>>;

/// Many rows with few values, short ones and long ones, some of them null.
fn text(random: &mut Random) -> Text {
    Some(match random.next(8) {
        0 => return None,
        1 => String::new(),
        2 => format!("x{}", random.next(5)),
        3 => "ö".repeat(random.next(9)),
        4 => format!("unlike any other {}", random.next(1 << 40)),
        _ => format!("a value of many bytes that comes often {}", random.next(7)),
    })
}

fn bytes(random: &mut Random) -> Bytes {
    let length = random.next(40);
    (random.next(6) > 0).then(|| vec![random.next(4) as u8; length])
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, true),
        Field::new("s", DataType::Utf8, true),
        Field::new("b", DataType::Binary, true),
    ]))
}

fn rows(values: &[(i64, Text, Bytes)]) -> RecordBatch {
    let ids = values.iter().map(|row| row.0);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(ids)),
        Arc::new(StringArray::from_iter(
            values.iter().map(|row| row.1.as_deref()),
        )),
        Arc::new(BinaryArray::from_iter(
            values.iter().map(|row| row.2.as_deref()),
        )),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

fn table_of(storage: &Arc<Storage>, strings: Strings) -> Table {
    let table = storage.create_table("t", schema()).unwrap();
    table.set_freeze_after(None);
    let table = table.with_strings(&[strings; 3]);
    table.adopt_strings();
    table
}

/// Every visible row in a form, strings as `Utf8`, bytes as `Binary`; and the slots by id.
fn seen(storage: &Arc<Storage>, table: &Table, form: Form) -> (RecordBatch, BTreeMap<i64, Slot>) {
    let transaction = begin(storage);
    let scan = table.scan(&transaction.snapshot()).unwrap();
    let (mut plain, mut slots) = (Vec::new(), BTreeMap::new());
    for morsel in 0..scan.morsels() {
        let (batch, _) = scan.read(morsel, &[0, 1, 2], form, true).unwrap();
        let expected = table.schema_in(form);
        for (column, field) in batch.columns().iter().zip(expected.fields()) {
            assert_eq!(column.data_type(), field.data_type());
            column.to_data().validate_full().unwrap();
        }
        let ids = batch.column(0).as_primitive::<Int64Type>();
        let found: &UInt64Array = batch.column(3).as_primitive::<UInt64Type>();
        slots.extend(
            ids.values()
                .iter()
                .zip(found.values())
                .map(|(&id, &slot)| (id, Slot(slot))),
        );
        let columns: Vec<ArrayRef> = (0..3)
            .map(|at| cast(batch.column(at), schema().field(at).data_type()).unwrap())
            .collect();
        plain.push(RecordBatch::try_new(schema(), columns).unwrap());
    }
    (concat_batches(&schema(), &plain).unwrap(), slots)
}

/// One step of a history, done to a table.
enum Step {
    Load(Vec<(i64, Text, Bytes)>),
    Insert(Vec<(i64, Text, Bytes)>),
    Update(Vec<(i64, Text, Bytes)>),
    Delete(Vec<i64>),
    Freeze,
}

fn apply(storage: &Arc<Storage>, table: &Table, step: &Step) {
    let (_, slots) = seen(storage, table, Form::Consumer);
    let transaction = begin(storage);
    match step {
        Step::Load(values) => {
            let mut load = table.bulk_insert(&transaction).unwrap();
            load.append(rows(values)).unwrap();
            load.finish().unwrap();
        }
        Step::Insert(values) => drop(table.insert(&transaction, &rows(values)).unwrap()),
        Step::Update(values) => {
            let slots: Vec<Slot> = values.iter().map(|row| slots[&row.0]).collect();
            let new = rows(values).project(&[1, 2]).unwrap();
            table.update(&transaction, &slots, &[1, 2], &new).unwrap();
        }
        Step::Delete(ids) => {
            let slots: Vec<Slot> = ids.iter().map(|id| slots[id]).collect();
            table.delete(&transaction, &slots).unwrap();
        }
        Step::Freeze => {}
    }
    transaction.commit().unwrap();
    storage.collect();
    if matches!(step, Step::Freeze) {
        table.freeze();
        storage.collect();
    }
}

#[test]
fn a_history_gives_the_same_rows_in_every_format_and_form() {
    for seed in 1..6 {
        let random = &mut Random(0x9e37_79b9 * seed);
        let storage = storage();
        let tables: Vec<Table> = FORMATS.map(|strings| table_of(&storage, strings)).into();
        let mut model: BTreeMap<i64, (Text, Bytes)> = BTreeMap::new();
        let mut next = 0;
        for _ in 0..14 {
            let mut fresh = |random: &mut Random, count: usize| {
                let first = next;
                next += count as i64;
                (first..next)
                    .map(|id| (id, text(random), bytes(random)))
                    .collect::<Vec<_>>()
            };
            let some = |random: &mut Random| -> Vec<i64> {
                let one_of = 1 + random.next(20);
                model
                    .keys()
                    .copied()
                    .filter(|_| random.next(one_of) == 0)
                    .collect()
            };
            let step = match random.next(7) {
                0 => Step::Load(fresh(random, 40_000)),
                1 => Step::Insert(fresh(random, 3_000)),
                2 => {
                    let ids = some(random);
                    Step::Update(
                        ids.into_iter()
                            .map(|id| (id, text(random), bytes(random)))
                            .collect(),
                    )
                }
                3 => Step::Delete(some(random)),
                _ => Step::Freeze,
            };
            match &step {
                Step::Load(values) | Step::Insert(values) | Step::Update(values) => {
                    model.extend(
                        values
                            .iter()
                            .map(|(id, s, b)| (*id, (s.clone(), b.clone()))),
                    );
                }
                Step::Delete(ids) => model.retain(|id, _| !ids.contains(id)),
                Step::Freeze => {}
            }
            let held: Vec<RecordBatch> = tables
                .iter()
                .map(|table| seen(&storage, table, Form::Native).0)
                .collect();
            let copies: Vec<RecordBatch> = held.clone();
            for table in &tables {
                apply(&storage, table, &step);
                for form in FORMS {
                    let (found, _) = seen(&storage, table, form);
                    assert_eq!(found.num_rows(), model.len());
                    let (ids, s, b) = (
                        found.column(0).as_primitive::<Int64Type>(),
                        found.column(1).as_string::<i32>(),
                        found.column(2).as_binary::<i32>(),
                    );
                    for row in 0..found.num_rows() {
                        let (text, bytes) = &model[&ids.value(row)];
                        assert_eq!(s.is_valid(row).then(|| s.value(row)), text.as_deref());
                        assert_eq!(b.is_valid(row).then(|| b.value(row)), bytes.as_deref());
                    }
                }
            }
            assert_eq!(held, copies);
        }
    }
}

/// Rows of a column that a dictionary makes much smaller.
fn repetitive(count: i64) -> Vec<(i64, Text, Bytes)> {
    let value = |id: i64| format!("one of a few values that are long {}", id % 11);
    (0..count).map(|id| (id, Some(value(id)), None)).collect()
}

#[test]
fn a_dictionary_is_made_where_it_pays_by_loads_and_by_freezing() {
    let storage = storage();
    for strings in [Strings::Auto, Strings::Dictionary] {
        let loaded = table_of(&storage, strings);
        apply(&storage, &loaded, &Step::Load(repetitive(200_000)));
        let frozen = table_of(&storage, strings);
        apply(&storage, &frozen, &Step::Insert(repetitive(200_000)));
        assert_eq!(frozen.dictionary_blocks(1), 0);
        apply(&storage, &frozen, &Step::Freeze);
        for table in [&loaded, &frozen] {
            let blocks = table.blocks();
            let full = blocks
                .iter()
                .filter(|block| block.state == BlockState::Frozen);
            assert_eq!(table.dictionary_blocks(1), full.count());
        }
    }
    let unlike: Vec<_> = (0..100_000)
        .map(|id| {
            (
                id,
                Some(format!("a value that no other row has {id}")),
                None,
            )
        })
        .collect();
    let table = table_of(&storage, Strings::Auto);
    apply(&storage, &table, &Step::Load(unlike));
    assert_eq!(table.dictionary_blocks(1), 0);
}

#[test]
fn a_dictionary_takes_a_quarter_of_the_memory() {
    let storage = storage();
    let bytes = |strings| {
        let table = table_of(&storage, strings);
        apply(&storage, &table, &Step::Load(repetitive(300_000)));
        let blocks = table.blocks();
        blocks.iter().map(|block| block.bytes).sum::<usize>()
    };
    let (plain, coded) = (bytes(Strings::Offsets), bytes(Strings::Dictionary));
    assert!(2 * coded < plain, "{coded} of {plain}");
}

#[test]
fn freezing_rewrites_what_has_another_format_than_was_asked_for() {
    let storage = storage();
    let plain = table_of(&storage, Strings::Offsets);
    apply(&storage, &plain, &Step::Load(repetitive(200_000)));
    let before = seen(&storage, &plain, Form::Consumer).0;
    let coded = plain.with_strings(&[Strings::Dictionary; 3]);
    coded.adopt_strings();
    assert_eq!(coded.dictionary_blocks(1), 0);
    // Blocks that are not frozen as such are shown as such.
    assert_eq!(seen(&storage, &coded, Form::Native).0, before);
    coded.freeze();
    let frozen = coded.blocks().len();
    assert_eq!(coded.dictionary_blocks(1), frozen);
    assert_eq!(seen(&storage, &coded, Form::Native).0, before);
    // A handle that knows nothing of it sees the same rows.
    assert_eq!(seen(&storage, &plain, Form::Native).0, before);
    plain.adopt_strings();
    plain.freeze();
    assert_eq!(plain.dictionary_blocks(1), 0);
    assert_eq!(seen(&storage, &plain, Form::Consumer).0, before);
}

#[test]
fn a_held_dictionary_counts_as_a_holder_and_outlives_updates() {
    let storage = storage();
    let table = table_of(&storage, Strings::Dictionary);
    apply(&storage, &table, &Step::Load(repetitive(200_000)));
    let holders = || table.blocks().iter().map(|block| block.holders).max();
    assert_eq!(holders(), Some(0));
    let transaction = begin(&storage);
    let scan = table.scan_whole(&transaction.snapshot()).unwrap();
    let (held, shared) = scan.read(0, &[1], Form::Native, false).unwrap();
    assert!(shared);
    assert!(holders() > Some(0));
    let copy = cast(held.column(0), &DataType::Utf8).unwrap();
    drop((scan, transaction));
    let changed = repetitive(200_000)
        .into_iter()
        .map(|(id, ..)| (id, Some("new".into()), None));
    apply(&storage, &table, &Step::Update(changed.collect()));
    apply(&storage, &table, &Step::Freeze);
    assert_eq!(&cast(held.column(0), &DataType::Utf8).unwrap(), &copy);
}
