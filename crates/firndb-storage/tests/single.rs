//! Single rows by their keys.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use common::*;
use firndb_storage::{Cell, Error, Form, Reader, Row, RowByKey, Storage, Table, Transaction};

/// A committed table with a unique index `k` over `id`.
fn keyed(storage: &Arc<Storage>, ids: &[i64], names: &[&str]) -> Table {
    let table = storage.create_table("t", schema()).unwrap();
    let transaction = begin(storage);
    table.create_unique_index(&transaction, "k", &[0]).unwrap();
    table.insert(&transaction, &rows(ids, names)).unwrap();
    transaction.commit().unwrap();
    table
}

fn id(value: i64) -> Cell<'static> {
    Cell::Word(value as u64)
}

/// The name of the row with an id, as somebody sees it.
fn name_of(by_id: &RowByKey, reader: Reader<'_>, wanted: i64) -> Option<String> {
    let mut row = Row::default();
    by_id.read(reader, &[id(wanted)], &mut row).unwrap()?;
    match row.get(0) {
        Cell::Text(text) => Some(text.to_owned()),
        other => panic!("{other:?} is no name"),
    }
}

fn committed(table: &Table, wanted: i64) -> Option<String> {
    let by_id = table.row_by_key("k", &[1]).unwrap();
    name_of(&by_id, Reader::Moment(&table.moment()), wanted)
}

fn rename(table: &Table, transaction: &Transaction, wanted: i64, name: &str) -> Result<(), Error> {
    let by_id = table.row_by_key("k", &[]).unwrap();
    transaction.begin_statement();
    let reader = Reader::Transaction(transaction);
    let slot = by_id.read(reader, &[id(wanted)], &mut Row::default())?;
    let update = table.row_update(&[1])?;
    update.write(transaction, slot.unwrap(), &[Cell::Text(name)])?;
    Ok(())
}

#[test]
fn a_row_is_found_by_its_key() {
    let storage = storage();
    let table = keyed(&storage, &[1, -2, i64::MAX], &["one", LONG, ""]);
    assert_eq!(committed(&table, 1).as_deref(), Some("one"));
    assert_eq!(committed(&table, -2).as_deref(), Some(LONG));
    assert_eq!(committed(&table, i64::MAX).as_deref(), Some(""));
    assert_eq!(committed(&table, 2), None);
    let by_id = table.row_by_key("k", &[1]).unwrap();
    let moment = table.moment();
    let mut row = Row::default();
    let found = by_id.read(Reader::Moment(&moment), &[Cell::Null], &mut row);
    assert_eq!(found.unwrap(), None);
    assert!(row.is_empty());
}

#[test]
fn a_moment_sees_what_was_committed_before_it_and_nothing_else() {
    let storage = storage();
    let table = keyed(&storage, &[1, 2], &["one", "two"]);
    let by_id = table.row_by_key("k", &[1]).unwrap();
    let before = table.moment();
    let writer = begin(&storage);
    rename(&table, &writer, 1, LONG).unwrap();
    let meanwhile = table.moment();
    writer.commit().unwrap();
    storage.collect();
    for old in [&before, &meanwhile] {
        assert_eq!(
            name_of(&by_id, Reader::Moment(old), 1).as_deref(),
            Some("one")
        );
    }
    assert_eq!(committed(&table, 1).as_deref(), Some(LONG));
}

#[test]
fn a_transaction_sees_its_own_earlier_statements() {
    let storage = storage();
    let table = keyed(&storage, &[1], &["one"]);
    let by_id = table.row_by_key("k", &[1]).unwrap();
    let writer = begin(&storage);
    rename(&table, &writer, 1, "uno").unwrap();
    let reader = Reader::Transaction(&writer);
    assert_eq!(name_of(&by_id, reader, 1).as_deref(), Some("one"));
    let place = writer.begin_statement();
    assert_eq!(name_of(&by_id, reader, 1).as_deref(), Some("uno"));
    let slot = table
        .insert_row(&writer, &[id(2), Cell::Text(LONG)])
        .unwrap();
    writer.begin_statement();
    assert_eq!(name_of(&by_id, reader, 2).as_deref(), Some(LONG));
    table.delete_row(&writer, slot).unwrap();
    writer.begin_statement();
    assert_eq!(name_of(&by_id, reader, 2), None);
    writer.rollback_to(&place);
    writer.begin_statement();
    assert_eq!(name_of(&by_id, reader, 1).as_deref(), Some("uno"));
    writer.rollback();
    storage.collect();
    assert_eq!(contents(&storage, &table), pairs(&[(1, "one")]));
    assert_eq!(committed(&table, 2), None);
}

#[test]
fn rows_written_one_by_one_are_as_those_written_in_batches() {
    let storage = storage();
    let table = keyed(&storage, &[1, 2, 3], &["one", LONG, "three"]);
    let writer = begin(&storage);
    table
        .insert_row(&writer, &[id(4), Cell::Text(LONG)])
        .unwrap();
    table
        .insert_row(&writer, &[Cell::Null, Cell::Null])
        .unwrap();
    table.check_unique(&writer).unwrap();
    rename(&table, &writer, 2, "two").unwrap();
    let slot = slot_of(&table, &writer, 1);
    table.delete_row(&writer, slot).unwrap();
    writer.commit().unwrap();
    storage.collect();
    let expected = pairs(&[(2, "two"), (3, "three"), (4, LONG), (-1, "")]);
    assert_eq!(contents(&storage, &table), expected);
}

#[test]
fn a_key_that_is_taken_is_found_when_it_is_checked() {
    let storage = storage();
    let table = keyed(&storage, &[1, 2], &["one", "two"]);
    let writer = begin(&storage);
    let place = writer.begin_statement();
    table.insert_row(&writer, &[id(2), Cell::Null]).unwrap();
    assert!(matches!(
        table.check_unique(&writer),
        Err(Error::UniqueViolation { .. })
    ));
    writer.rollback_to(&place);
    writer.begin_statement();
    let slot = slot_of(&table, &writer, 1);
    let update = table.row_update(&[0]).unwrap();
    assert!(update.write(&writer, slot, &[id(2)]).unwrap());
    assert!(matches!(
        table.check_unique(&writer),
        Err(Error::UniqueViolation { .. })
    ));
    writer.rollback();
    // The same key again is no change of it.
    let writer = begin(&storage);
    let slot = slot_of(&table, &writer, 1);
    assert!(!update.write(&writer, slot, &[id(1)]).unwrap());
    assert!(update.write(&writer, slot, &[id(7)]).unwrap());
    table.check_unique(&writer).unwrap();
    writer.commit().unwrap();
    assert_eq!(committed(&table, 1), None);
    assert_eq!(committed(&table, 7).as_deref(), Some("one"));
}

#[test]
fn the_first_writer_wins() {
    let storage = storage();
    let table = keyed(&storage, &[1], &["one"]);
    let (first, second) = (begin(&storage), begin(&storage));
    rename(&table, &first, 1, "first").unwrap();
    let refused = rename(&table, &second, 1, "second");
    assert!(matches!(refused, Err(Error::Conflict { .. })));
    first.commit().unwrap();
    let refused = rename(&table, &second, 1, "second");
    assert!(matches!(refused, Err(Error::Conflict { .. })));
    second.rollback();
    assert_eq!(committed(&table, 1).as_deref(), Some("first"));
}

#[test]
fn cells_of_another_type_than_their_column_are_refused() {
    let storage = storage();
    let table = keyed(&storage, &[1], &["one"]);
    let writer = begin(&storage);
    for cells in [
        [Cell::Text("1"), Cell::Null],
        [Cell::Wide(1), Cell::Null],
        [id(2), Cell::Bytes(b"\xff")],
        [id(2), Cell::Word(1)],
    ] {
        let place = writer.begin_statement();
        let refused = table.insert_row(&writer, &cells);
        assert!(matches!(refused, Err(Error::Internal(_))));
        writer.rollback_to(&place);
    }
    writer.begin_statement();
    let slot = slot_of(&table, &writer, 1);
    let update = table.row_update(&[0, 1]).unwrap();
    let refused = update.write(&writer, slot, &[id(3), Cell::Bytes(b"\xff")]);
    assert!(matches!(refused, Err(Error::Internal(_))));
    writer.commit().unwrap();
    storage.collect();
    assert_eq!(contents(&storage, &table), pairs(&[(1, "one")]));
}

/// One value of each type that has cells, beside its cell.
fn samples() -> Vec<(DataType, &'static str, Cell<'static>)> {
    let micros = TimeUnit::Microsecond;
    vec![
        (DataType::Boolean, "true", Cell::Word(1)),
        (DataType::Int8, "-3", Cell::Word(0xfd)),
        (DataType::Int16, "-3", Cell::Word(0xfffd)),
        (DataType::Int32, "-3", Cell::Word(0xffff_fffd)),
        (DataType::Int64, "-3", Cell::Word(-3_i64 as u64)),
        (DataType::UInt8, "200", Cell::Word(200)),
        (DataType::UInt16, "60000", Cell::Word(60_000)),
        (DataType::UInt32, "4000000000", Cell::Word(4_000_000_000)),
        (
            DataType::UInt64,
            "18446744073709551615",
            Cell::Word(u64::MAX),
        ),
        (
            DataType::Float32,
            "1.5",
            Cell::Word(u64::from(1.5_f32.to_bits())),
        ),
        (
            DataType::Float64,
            "-0.25",
            Cell::Word((-0.25_f64).to_bits()),
        ),
        (DataType::Date32, "1969-12-31", Cell::Word(0xffff_ffff)),
        (DataType::Time64(micros), "00:00:01", Cell::Word(1_000_000)),
        (
            DataType::Timestamp(micros, None),
            "1970-01-01T00:00:01",
            Cell::Word(1_000_000),
        ),
        (
            DataType::Decimal64(5, 2),
            "-1.25",
            Cell::Word(-125_i64 as u64),
        ),
        (
            DataType::Decimal128(30, 2),
            "-1.25",
            Cell::Wide(-125_i128 as u128),
        ),
        (DataType::Utf8, "text", Cell::Text("text")),
        (DataType::Binary, "bytes", Cell::Bytes(b"bytes")),
    ]
}

#[test]
fn cells_of_every_type_are_as_their_arrays_in_hot_and_frozen_rows() {
    for (data_type, text, cell) in samples() {
        let storage = storage();
        let schema = Arc::new(Schema::new(vec![Field::new("v", data_type.clone(), true)]));
        let table = storage.create_table("t", schema.clone()).unwrap();
        let writer = begin(&storage);
        table.create_unique_index(&writer, "k", &[0]).unwrap();
        table.insert_row(&writer, &[cell]).unwrap();
        table.check_unique(&writer).unwrap();
        writer.commit().unwrap();
        let text: ArrayRef = Arc::new(arrow::array::StringArray::from(vec![text]));
        let array = cast(&text, &data_type).unwrap();
        let look = |table: &Table| {
            let by_value = table.row_by_key("k", &[0]).unwrap();
            let mut row = Row::default();
            let moment = table.moment();
            let found = by_value
                .read(Reader::Moment(&moment), &[cell], &mut row)
                .unwrap();
            assert!(found.is_some(), "{data_type}");
            assert_eq!(row.get(0), cell, "{data_type}");
            let reader = begin(&storage);
            let batch: RecordBatch = table
                .read(&reader.snapshot(), &[found.unwrap()], &[0], Form::Native)
                .unwrap();
            assert_eq!(
                &cast(batch.column(0), &data_type).unwrap(),
                &array,
                "{data_type}"
            );
        };
        look(&table);
        // Loaded in bulk: frozen.
        let frozen = storage.create_table("f", schema.clone()).unwrap();
        let writer = begin(&storage);
        frozen.create_unique_index(&writer, "k", &[0]).unwrap();
        let nulls = arrow::array::new_null_array(&data_type, frozen.block_rows() - 1);
        let column = arrow::compute::concat(&[&array, &nulls]).unwrap();
        let mut bulk = frozen.bulk_insert(&writer).unwrap();
        let rows = RecordBatch::try_new(schema.clone(), vec![column]).unwrap();
        bulk.append(rows).unwrap();
        bulk.finish().unwrap();
        writer.commit().unwrap();
        look(&frozen);
    }
}

/// A reader never sees half of a row: both columns are always of one commit.
#[test]
fn a_row_that_is_being_written_is_read_whole() {
    let storage = storage();
    let schema = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, true),
        Field::new("a", DataType::Int64, true),
        Field::new("b", DataType::Utf8, true),
    ]));
    let table = storage.create_table("t", schema).unwrap();
    let writer = begin(&storage);
    table.create_unique_index(&writer, "k", &[0]).unwrap();
    table
        .insert_row(&writer, &[id(1), id(0), Cell::Text("0")])
        .unwrap();
    writer.commit().unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let by_id = table.row_by_key("k", &[1, 2]).unwrap();
                    let (mut row, mut last) = (Row::default(), 0);
                    while !done.load(Ordering::Acquire) {
                        let moment = table.moment();
                        by_id
                            .read(Reader::Moment(&moment), &[id(1)], &mut row)
                            .unwrap()
                            .unwrap();
                        let Cell::Word(number) = row.get(0) else {
                            panic!()
                        };
                        let Cell::Text(text) = row.get(1) else {
                            panic!()
                        };
                        let text_number: u64 = text.trim_end_matches('-').parse().unwrap();
                        assert_eq!(number, text_number);
                        assert!(number >= last);
                        last = number;
                    }
                })
            })
            .collect();
        let by_id = table.row_by_key("k", &[1]).unwrap();
        let update = table.row_update(&[1, 2]).unwrap();
        for number in 1..20_000_i64 {
            let writer = begin(&storage);
            let reader = Reader::Transaction(&writer);
            let slot = by_id
                .read(reader, &[id(1)], &mut Row::default())
                .unwrap()
                .unwrap();
            let text = format!("{number}--------------");
            update
                .write(&writer, slot, &[id(number), Cell::Text(&text)])
                .unwrap();
            writer.commit().unwrap();
        }
        done.store(true, Ordering::Release);
        for reader in readers {
            reader.join().unwrap();
        }
    });
}
