//! Frozen memory that comes back is shown again without a copy; everything else is copied.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Decimal128Array, Float64Array, Int64Array, RecordBatch, StringArray,
    make_array,
};
use arrow::buffer::Buffer;
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Decimal64Type, Field, Int64Type, Schema, SchemaRef};
use common::{begin, storage};
use firndb_storage::{BlockState, Form, Storage, Table};

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("i", DataType::Int64, true),
        Field::new("d", DataType::Decimal64(10, 2), true),
        Field::new("f", DataType::Float64, true),
        Field::new("s", DataType::Utf8, true),
    ]))
}

/// A batch of rows, some of them null.
fn rows(count: usize) -> RecordBatch {
    let all = 0..count as i64;
    let decimals = all.clone().map(|row| Some(i128::from(row)));
    let text = |row: i64| (row % 7 > 0).then(|| format!("row {row} is like no other row"));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(all.clone())),
        Arc::new(
            Decimal128Array::from_iter(decimals)
                .with_precision_and_scale(10, 2)
                .unwrap(),
        ),
        Arc::new(Float64Array::from_iter(
            all.clone().map(|row| (row % 5 > 0).then_some(row as f64)),
        )),
        Arc::new(StringArray::from_iter(all.map(text))),
    ];
    let fields: Vec<Field> = schema()
        .fields()
        .iter()
        .zip(&columns)
        .map(|(field, column)| {
            field
                .as_ref()
                .clone()
                .with_data_type(column.data_type().clone())
        })
        .collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

fn load(storage: &Arc<Storage>, schema: SchemaRef, batches: &[RecordBatch]) -> Table {
    let table = storage.create_table("t", schema).unwrap();
    table.set_freeze_after(None);
    let transaction = begin(storage);
    let mut load = table.bulk_insert(&transaction).unwrap();
    for batch in batches {
        load.append(batch.clone()).unwrap();
    }
    load.finish().unwrap();
    transaction.commit().unwrap();
    table
}

fn whole(storage: &Arc<Storage>, table: &Table, form: Form) -> Vec<RecordBatch> {
    let transaction = begin(storage);
    let scan = table.scan_whole(&transaction.snapshot()).unwrap();
    let columns: Vec<usize> = (0..table.schema().fields().len()).collect();
    (0..scan.morsels())
        .map(|morsel| scan.read(morsel, &columns, form, false).unwrap().0)
        .collect()
}

fn address(column: &ArrayRef) -> usize {
    let data = column.to_data();
    data.buffers().last().unwrap().as_ptr() as usize
}

fn frozen_bytes(storage: &Arc<Storage>) -> usize {
    storage.memory().frozen
}

#[test]
fn what_was_exported_is_adopted_in_every_form_that_needs_no_conversion() {
    let storage = storage();
    let count = 3 * 64 * 32_768 / 2;
    let source = load(&storage, schema(), &[rows(count)]);
    for (form, adopted) in [
        (Form::Native, [true; 4]),
        (Form::Consumer, [true, false, true, true]),
    ] {
        let batches = whole(&storage, &source, form);
        let before = frozen_bytes(&storage);
        let copy = load(&storage, schema(), &batches);
        let again = whole(&storage, &copy, form);
        for (given, shown) in batches.iter().zip(&again) {
            if given.num_rows() % copy.block_rows() != 0 {
                continue;
            }
            for (column, adopted) in adopted.into_iter().enumerate() {
                let same = address(given.column(column)) == address(shown.column(column));
                // The widening of decimals copies in any case.
                assert_eq!(same, adopted, "column {column} of {form:?}");
            }
        }
        if form == Form::Native {
            assert!(
                frozen_bytes(&storage) < before + before / 8,
                "the memory is shared"
            );
        }
        let (ours, theirs) = (
            whole(&storage, &copy, Form::Compute),
            whole(&storage, &source, Form::Compute),
        );
        let one = |batches: &[RecordBatch]| concat_batches(&batches[0].schema(), batches).unwrap();
        assert_eq!(one(&ours), one(&theirs));
        let reader = begin(&storage);
        let statistics = |table: &Table| {
            table
                .statistics_of(&reader.snapshot(), &[0, 1, 2, 3])
                .unwrap()
        };
        for (ours, theirs) in statistics(&copy)
            .columns
            .iter()
            .zip(&statistics(&source).columns)
        {
            assert_eq!(
                (&ours.minimum, &ours.maximum, ours.nulls),
                (&theirs.minimum, &theirs.maximum, theirs.nulls)
            );
        }
    }
}

#[test]
fn adopted_columns_outlive_their_first_table_and_are_updated_apart() {
    let storage = storage();
    let source = load(&storage, schema(), &[rows(64 * 32_768)]);
    let batches = whole(&storage, &source, Form::Native);
    let copy = load(&storage, schema(), &batches);
    drop(batches);
    let changed = RecordBatch::try_new(
        Arc::new(Schema::new(vec![Field::new("i", DataType::Int64, true)])),
        vec![Arc::new(Int64Array::from(vec![-1]))],
    )
    .unwrap();
    let writer = begin(&storage);
    let slot = {
        let scan = source.scan(&writer.snapshot()).unwrap();
        let (batch, _) = scan.read(0, &[0], Form::Compute, true).unwrap();
        firndb_storage::Slot(
            batch
                .column(1)
                .as_primitive::<arrow::datatypes::UInt64Type>()
                .value(5),
        )
    };
    source.update(&writer, &[slot], &[0], &changed).unwrap();
    writer.commit().unwrap();
    source.freeze();
    let sum = |table: &Table| -> i64 {
        let batches = whole(&storage, table, Form::Compute);
        let ids = batches.iter().flat_map(|batch| {
            batch
                .column(0)
                .as_primitive::<Int64Type>()
                .values()
                .to_vec()
        });
        ids.sum()
    };
    let expected = sum(&copy);
    assert_eq!(sum(&source), expected - 6);
    drop(source);
    storage.collect();
    // What was given back is filled with other rows.
    let _others = load(&storage, schema(), &[rows(64 * 32_768)]);
    assert_eq!(sum(&copy), expected);
    assert!(
        copy.blocks()
            .iter()
            .all(|block| block.state == BlockState::Frozen)
    );
}

/// A buffer that claims to lie where another does, and keeps nothing alive.
fn forged(buffer: &Buffer) -> Buffer {
    let start = std::ptr::NonNull::new(buffer.as_ptr().cast_mut()).unwrap();
    // SAFETY: the bytes are read while the other buffer lives.
    unsafe { Buffer::from_custom_allocation(start, buffer.len(), Arc::new(())) }
}

#[test]
fn an_address_is_no_proof_of_ownership() {
    let storage = storage();
    let schema = Arc::new(Schema::new(vec![Field::new("i", DataType::Int64, true)]));
    let rows = RecordBatch::try_new(
        Arc::clone(&schema),
        vec![Arc::new(Int64Array::from_iter_values(0..64 * 32_768))],
    )
    .unwrap();
    let source = load(&storage, Arc::clone(&schema), &[rows]);
    let batches = whole(&storage, &source, Form::Native);
    let made_up: Vec<RecordBatch> = batches
        .iter()
        .map(|batch| {
            let data = batch.column(0).to_data();
            let buffers = vec![forged(&data.buffers()[0])];
            let column = make_array(data.into_builder().buffers(buffers).build().unwrap());
            RecordBatch::try_new(Arc::clone(&schema), vec![column]).unwrap()
        })
        .collect();
    let copy = load(&storage, Arc::clone(&schema), &made_up);
    drop((made_up, batches, source));
    storage.collect();
    let other = RecordBatch::try_new(
        Arc::clone(&schema),
        vec![Arc::new(Int64Array::from(vec![7; 4 * 64 * 32_768]))],
    )
    .unwrap();
    let _others = load(&storage, schema, &[other]);
    let seen = whole(&storage, &copy, Form::Native);
    let ids = seen.iter().flat_map(|batch| {
        batch
            .column(0)
            .as_primitive::<Int64Type>()
            .values()
            .to_vec()
    });
    assert!(ids.eq(0..64 * 32_768));
}

#[test]
fn buffers_put_together_from_several_columns_are_checked() {
    let storage = storage();
    let source = load(&storage, schema(), &[rows(64 * 32_768)]);
    let batch = whole(&storage, &source, Form::Native).remove(0);
    // 64-bit integers as decimals of two digits.
    let narrow = Arc::new(Schema::new(vec![Field::new(
        "d",
        DataType::Decimal64(2, 0),
        true,
    )]));
    let integers = batch
        .column(0)
        .to_data()
        .into_builder()
        .data_type(DataType::Decimal64(2, 0));
    let column = make_array(integers.build().unwrap());
    assert_eq!(column.as_primitive::<Decimal64Type>().value(500), 500);
    let table = storage.create_table("narrow", Arc::clone(&narrow)).unwrap();
    let transaction = begin(&storage);
    let mut load = table.bulk_insert(&transaction).unwrap();
    let loaded = load
        .append(RecordBatch::try_new(narrow, vec![column]).unwrap())
        .and_then(|()| load.finish());
    assert!(loaded.is_err());
}
