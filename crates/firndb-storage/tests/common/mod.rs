//! A small table of integers and strings, and ways to look at it.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef, UInt64Type};
use firndb_storage::{Form, Isolation, Slot, Snapshot, Storage, StorageConfig, Table, Transaction};

pub fn storage() -> Arc<Storage> {
    Storage::open(StorageConfig {
        memory_limit: None,
        threads: 2,
    })
    .unwrap()
}

pub fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, true),
        Field::new("name", DataType::Utf8, true),
    ]))
}

pub fn rows(ids: &[i64], names: &[&str]) -> RecordBatch {
    RecordBatch::try_new(
        schema(),
        vec![
            Arc::new(Int64Array::from(ids.to_vec())) as ArrayRef,
            Arc::new(StringArray::from(names.to_vec())),
        ],
    )
    .unwrap()
}

pub fn integers(values: &[i64]) -> RecordBatch {
    let schema = Schema::new(vec![Field::new("id", DataType::Int64, true)]);
    RecordBatch::try_new(
        Arc::new(schema),
        vec![Arc::new(Int64Array::from(values.to_vec()))],
    )
    .unwrap()
}

pub fn strings(values: &[&str]) -> RecordBatch {
    let schema = Schema::new(vec![Field::new("name", DataType::Utf8, true)]);
    RecordBatch::try_new(
        Arc::new(schema),
        vec![Arc::new(StringArray::from(values.to_vec()))],
    )
    .unwrap()
}

pub fn begin(storage: &Arc<Storage>) -> Transaction {
    let transaction = storage.begin(Isolation::Snapshot);
    transaction.begin_statement();
    transaction
}

pub type Row = (Slot, Option<i64>, Option<String>);

/// All visible rows of an id and a name, in the table's order.
pub fn scan(table: &Table, snapshot: &Snapshot) -> Vec<Row> {
    let scan = table.scan(snapshot).unwrap();
    let mut all = Vec::new();
    for morsel in 0..scan.morsels() {
        let (batch, _) = scan.read(morsel, &[0, 1], Form::Consumer, true).unwrap();
        let ids = batch.column(0).as_primitive::<Int64Type>();
        let names = batch.column(1).as_string::<i32>();
        let slots: &UInt64Array = batch.column(2).as_primitive::<UInt64Type>();
        for row in 0..batch.num_rows() {
            all.push((
                Slot(slots.value(row)),
                ids.is_valid(row).then(|| ids.value(row)),
                names.is_valid(row).then(|| names.value(row).to_owned()),
            ));
        }
    }
    all
}

/// What a new transaction sees: ids and names.
pub fn contents(storage: &Arc<Storage>, table: &Table) -> Vec<(i64, String)> {
    seen(table, &begin(storage))
}

/// What a transaction sees in a new statement.
pub fn seen(table: &Table, transaction: &Transaction) -> Vec<(i64, String)> {
    transaction.begin_statement();
    scan(table, &transaction.snapshot())
        .into_iter()
        .map(|(_, id, name)| (id.unwrap_or(-1), name.unwrap_or_default()))
        .collect()
}

/// The slot of the row with an id, as a transaction sees it in a new statement.
pub fn slot_of(table: &Table, transaction: &Transaction, id: i64) -> Slot {
    transaction.begin_statement();
    scan(table, &transaction.snapshot())
        .into_iter()
        .find(|(_, found, _)| *found == Some(id))
        .map(|(slot, _, _)| slot)
        .unwrap()
}

pub fn pairs(expected: &[(i64, &str)]) -> Vec<(i64, String)> {
    expected
        .iter()
        .map(|&(id, name)| (id, name.to_owned()))
        .collect()
}

/// A committed table with these rows.
pub fn table_with(storage: &Arc<Storage>, ids: &[i64], names: &[&str]) -> (Table, Vec<Slot>) {
    let table = storage.create_table("t", schema()).unwrap();
    let transaction = begin(storage);
    let slots = table.insert(&transaction, &rows(ids, names)).unwrap();
    transaction.commit().unwrap();
    (table, slots)
}

pub const LONG: &str = "a string that is too long to lie in its view";
