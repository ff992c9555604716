//! Measures tables: loading, exporting, scanning, and single-row transactions.
//!
//! ```text
//! cargo run --release -p firndb-storage --example tables [million rows]
//! ```

use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{
    ArrayRef, AsArray, Date32Array, Decimal128Array, Int32Array, Int64Array, RecordBatch,
    StringArray,
};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use firndb_storage::{Form, Isolation, Slot, Storage, StorageConfig, Table};

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let millions: usize = std::env::args().nth(1).map_or(Ok(6), |text| text.parse())?;
    let storage = Storage::open(StorageConfig {
        memory_limit: None,
        threads: 2,
    })?;
    let table = load(&storage, millions)?;
    export(&storage, &table)?;
    rows(&storage)?;
    frozen_updates(&storage, &table)
}

/// The shape of lineitem: integers, decimals, dates, strings.
fn batch(first: usize, count: usize) -> Outcome<RecordBatch> {
    let numbers = || first..first + count;
    let mut columns: Vec<(String, ArrayRef)> = Vec::new();
    for factor in 1..4 {
        let values = numbers().map(|row| (row * factor) as i64);
        columns.push((
            format!("k{factor}"),
            Arc::new(Int64Array::from_iter_values(values)),
        ));
    }
    let lines = numbers().map(|row| row as i32 % 7);
    columns.push(("line".into(), Arc::new(Int32Array::from_iter_values(lines))));
    for factor in 1..5 {
        let values = numbers().map(|row| (row * factor % 1_000_000) as i128);
        let decimals = Decimal128Array::from_iter_values(values).with_precision_and_scale(15, 2)?;
        columns.push((format!("d{factor}"), Arc::new(decimals)));
    }
    for part in ["flag", "status", "instruct", "mode"] {
        let values = numbers().map(|row| format!("{part}{}", row % 5));
        columns.push((part.into(), Arc::new(StringArray::from_iter_values(values))));
    }
    for factor in 1..4 {
        let values = numbers().map(|row| (row % 2500) as i32 + factor);
        columns.push((
            format!("t{factor}"),
            Arc::new(Date32Array::from_iter_values(values)),
        ));
    }
    let comments = numbers().map(|row| format!("a comment on the line number {row}"));
    columns.push((
        "comment".into(),
        Arc::new(StringArray::from_iter_values(comments)),
    ));
    Ok(RecordBatch::try_from_iter(columns)?)
}

fn stored(batch: &RecordBatch) -> SchemaRef {
    let schema = batch.schema();
    let fields = schema.fields().iter().map(|field| {
        let stored = match field.data_type() {
            DataType::Decimal128(precision, scale) => DataType::Decimal64(*precision, *scale),
            other => other.clone(),
        };
        field.as_ref().clone().with_data_type(stored)
    });
    Arc::new(Schema::new(fields.collect::<Vec<Field>>()))
}

fn load(storage: &Arc<Storage>, millions: usize) -> Outcome<Table> {
    const BATCH: usize = 100_000;
    let batches = (0..millions * 10)
        .map(|number| batch(number * BATCH, BATCH))
        .collect::<Outcome<Vec<_>>>()?;
    let table = storage.create_table("lineitem", stored(&batches[0]))?;
    for run in 0..3 {
        let transaction = storage.begin(Isolation::Snapshot);
        let start = Instant::now();
        let mut load = table.bulk_insert(&transaction)?;
        for batch in &batches {
            load.append(batch.clone())?;
        }
        let rows = load.finish()?;
        println!(
            "load {run}: {rows} rows in {:?}, blocks of {}",
            start.elapsed(),
            table.block_rows()
        );
        if run == 2 {
            transaction.commit()?;
        } else {
            let start = Instant::now();
            transaction.rollback();
            println!("  rolled back in {:?}", start.elapsed());
            storage.collect();
        }
    }
    Ok(table)
}

fn export(storage: &Arc<Storage>, table: &Table) -> Outcome<()> {
    let transaction = storage.begin(Isolation::Snapshot);
    let all: Vec<usize> = (0..table.schema().fields().len()).collect();
    for form in [
        Form::Native,
        Form::Native,
        Form::Consumer,
        Form::Compute,
        Form::Compute,
    ] {
        let start = Instant::now();
        let scan = table.scan(&transaction.snapshot())?;
        let made = start.elapsed();
        let mut shared = 0;
        for morsel in 0..scan.morsels() {
            shared += usize::from(black_box(scan.read(morsel, &all, form, false)?).1);
        }
        println!(
            "export {form:?}: {} morsels, {shared} shared, scan made in {made:?}, all in {:?}",
            scan.morsels(),
            start.elapsed()
        );
    }
    for _ in 0..3 {
        let start = Instant::now();
        let scan = table.scan(&transaction.snapshot())?;
        let mut sum = 0_i64;
        for morsel in 0..scan.morsels() {
            let (batch, _) = scan.read(morsel, &[0], Form::Compute, false)?;
            let column = batch.column(0).as_primitive::<Int64Type>();
            sum += column.values().iter().sum::<i64>();
        }
        println!("sum of one column: {sum} in {:?}", start.elapsed());
    }
    let start = Instant::now();
    let statistics = table.statistics(&transaction.snapshot())?;
    println!(
        "statistics: {} rows in {:?}",
        statistics.rows,
        start.elapsed()
    );
    Ok(())
}

fn each(what: &str, count: usize, mut act: impl FnMut(usize) -> Outcome<()>) -> Outcome<()> {
    let start = Instant::now();
    for at in 0..count {
        act(at)?;
    }
    let nanoseconds = start.elapsed().as_nanos() / count as u128;
    println!("{what}: {nanoseconds} ns each");
    Ok(())
}

/// Single-row work on a hot table of an integer and a string.
fn rows(storage: &Arc<Storage>) -> Outcome<()> {
    const COUNT: usize = 300_000;
    let schema = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, true),
        Field::new("name", DataType::Utf8, true),
    ]));
    let row = |id: i64| -> Outcome<RecordBatch> {
        let ids: ArrayRef = Arc::new(Int64Array::from(vec![id]));
        let names: ArrayRef = Arc::new(StringArray::from(vec!["a name of some length"]));
        Ok(RecordBatch::try_new(Arc::clone(&schema), vec![ids, names])?)
    };
    let table = storage.create_table("rows", Arc::clone(&schema))?;
    let one = row(1)?;
    let id = one.project(&[0])?;
    let mut slots: Vec<Slot> = Vec::with_capacity(COUNT);
    let transaction = storage.begin(Isolation::Snapshot);
    each("insert in one transaction", COUNT, |_| {
        transaction.begin_statement();
        slots.extend(table.insert(&transaction, &one)?);
        Ok(())
    })?;
    transaction.commit()?;
    each("update, autocommit", COUNT, |at| {
        let transaction = storage.begin(Isolation::Snapshot);
        table.update(&transaction, &slots[at..=at], &[0], &id)?;
        Ok(transaction.commit()?)
    })?;
    each("update of one row, autocommit", COUNT, |_| {
        let transaction = storage.begin(Isolation::Snapshot);
        table.update(&transaction, &slots[..1], &[0], &id)?;
        Ok(transaction.commit()?)
    })?;
    each("read by slot", COUNT, |at| {
        let transaction = storage.begin(Isolation::Snapshot);
        black_box(table.read(
            &transaction.snapshot(),
            &slots[at..=at],
            &[0, 1],
            Form::Compute,
        )?);
        Ok(())
    })?;
    each("delete, autocommit", COUNT, |at| {
        let transaction = storage.begin(Isolation::Snapshot);
        table.delete(&transaction, &slots[at..=at])?;
        Ok(transaction.commit()?)
    })?;
    each("begin and commit", COUNT, |_| {
        Ok(storage.begin(Isolation::Snapshot).commit()?)
    })?;
    storage.collect();
    println!("{:?}", storage.memory());

    let table = storage.create_table("keyed", schema.clone())?;
    let transaction = storage.begin(Isolation::Snapshot);
    table.create_unique_index(&transaction, "key", &[0])?;
    transaction.commit()?;
    let batches = (0..COUNT as i64).map(row).collect::<Outcome<Vec<_>>>()?;
    each("insert with a key, autocommit", COUNT, |at| {
        let transaction = storage.begin(Isolation::Snapshot);
        transaction.begin_statement();
        table.insert(&transaction, &batches[at])?;
        table.check_unique(&transaction)?;
        Ok(transaction.commit()?)
    })?;
    let keys = batches
        .iter()
        .map(|batch| Ok(batch.project(&[0])?))
        .collect::<Outcome<Vec<_>>>()?;
    each("lookup", COUNT, |at| {
        let transaction = storage.begin(Isolation::Snapshot);
        black_box(table.lookup(&transaction.snapshot(), "key", &keys[at])?);
        Ok(())
    })
}

/// One update of a million frozen rows, and what it costs scans until it is collected.
fn frozen_updates(storage: &Arc<Storage>, table: &Table) -> Outcome<()> {
    let transaction = storage.begin(Isolation::Snapshot);
    let snapshot = transaction.snapshot();
    let scan = table.scan(&snapshot)?;
    let mut slots: Vec<Slot> = Vec::new();
    for morsel in 0..scan.morsels() {
        let (batch, _) = scan.read(morsel, &[], Form::Compute, true)?;
        let found = batch
            .column(0)
            .as_primitive::<arrow::datatypes::UInt64Type>();
        slots.extend(found.values().iter().map(|&slot| Slot(slot)));
        if slots.len() >= 1_000_000 {
            break;
        }
    }
    let new: ArrayRef = Arc::new(Int64Array::from(vec![7; slots.len()]));
    let new = RecordBatch::try_from_iter([("k1", new)])?;
    let start = Instant::now();
    table.update(&transaction, &slots, &[0], &new)?;
    println!(
        "update of {} frozen rows in {:?}",
        slots.len(),
        start.elapsed()
    );
    transaction.commit()?;
    for when in ["with versions", "collected"] {
        let transaction = storage.begin(Isolation::Snapshot);
        let start = Instant::now();
        let scan = table.scan(&transaction.snapshot())?;
        let mut sum = 0;
        for morsel in 0..scan.morsels() {
            let (batch, _) = scan.read(morsel, &[0], Form::Compute, false)?;
            sum += batch
                .column(0)
                .as_primitive::<Int64Type>()
                .values()
                .iter()
                .sum::<i64>();
        }
        println!("sum {when}: {sum} in {:?}", start.elapsed());
        drop(transaction);
        drop(scan);
        drop(snapshot.clone());
        storage.collect();
    }
    Ok(())
}
