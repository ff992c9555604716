use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use arrow::array::*;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int32Type, TimeUnit};

use super::{Key, KeyEncoder, UniqueIndex};
use crate::Error;
use crate::memory::Budget;
use crate::slot::Slot;

fn keys(types: &[DataType], columns: &[ArrayRef]) -> Vec<Option<Key>> {
    KeyEncoder::new(types)
        .expect("an encoder")
        .encode(columns)
        .expect("keys")
}

fn index(types: &[DataType]) -> (KeyEncoder, UniqueIndex) {
    let encoder = KeyEncoder::new(types).expect("an encoder");
    let index = UniqueIndex::new(&encoder, &Budget::new(None));
    (encoder, index)
}

#[test]
fn keys_order_as_values() {
    let ascending: Vec<(DataType, ArrayRef)> = vec![
        (
            DataType::Int8,
            Arc::new(Int8Array::from(vec![i8::MIN, -1, 0, 1, i8::MAX])),
        ),
        (
            DataType::Int64,
            Arc::new(Int64Array::from(vec![i64::MIN, -1, 0, 1, i64::MAX])),
        ),
        (
            DataType::UInt64,
            Arc::new(UInt64Array::from(vec![
                0,
                1,
                u64::MAX >> 1,
                (u64::MAX >> 1) + 1,
                u64::MAX,
            ])),
        ),
        (
            DataType::Date32,
            Arc::new(Date32Array::from(vec![i32::MIN, -1, 0, 20_000])),
        ),
        (
            DataType::Float64,
            Arc::new(Float64Array::from(vec![
                f64::NEG_INFINITY,
                -1.5,
                0.0,
                1e-300,
                2.0,
                f64::INFINITY,
                f64::NAN,
            ])),
        ),
        (
            DataType::Utf8,
            Arc::new(StringArray::from(vec![
                "", "\0", "a", "a\0", "aa", "b", "ä",
            ])),
        ),
        (
            DataType::Boolean,
            Arc::new(BooleanArray::from(vec![false, true])),
        ),
        (
            DataType::Decimal128(38, 2),
            Arc::new(
                Decimal128Array::from(vec![-10_i128.pow(30), -1, 0, 1, 10_i128.pow(30)])
                    .with_precision_and_scale(38, 2)
                    .expect("a decimal"),
            ),
        ),
    ];
    for (data_type, column) in ascending {
        let keys = keys(std::slice::from_ref(&data_type), &[column]);
        assert!(keys.windows(2).all(|pair| pair[0] < pair[1]), "{data_type}");
    }
}

#[test]
fn composite_keys_order_by_the_first_column_first() {
    let first: ArrayRef = Arc::new(StringArray::from(vec!["a", "a", "ab", "b"]));
    let second: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, -5, -9]));
    let keys = keys(&[DataType::Utf8, DataType::Int32], &[first, second]);
    assert!(keys.windows(2).all(|pair| pair[0] < pair[1]));
}

#[test]
fn a_null_in_any_column_makes_no_key() {
    let first: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None, Some(3)]));
    let second: ArrayRef = Arc::new(StringArray::from(vec![Some("x"), Some("y"), None]));
    let both = keys(
        &[DataType::Int32, DataType::Utf8],
        &[Arc::clone(&first), second],
    );
    assert_eq!(
        both.iter().map(Option::is_some).collect::<Vec<_>>(),
        [true, false, false]
    );
    let one = keys(&[DataType::Int32], &[first]);
    assert_eq!(
        one.iter().map(Option::is_some).collect::<Vec<_>>(),
        [true, false, true]
    );
}

#[test]
fn zeros_are_one_key_and_nans_are_one_key() {
    let odd_nan = f64::from_bits(f64::NAN.to_bits() | 1);
    let column: ArrayRef = Arc::new(Float64Array::from(vec![
        0.0,
        -0.0,
        f64::NAN,
        -f64::NAN,
        odd_nan,
    ]));
    let keys = keys(&[DataType::Float64], &[column]);
    assert_eq!(keys[0], keys[1]);
    assert_eq!(keys[2], keys[3]);
    assert_eq!(keys[2], keys[4]);
    assert_ne!(keys[0], keys[2]);
}

#[test]
fn every_form_of_a_value_has_the_same_key() {
    let text = vec!["", "short", "a text of more than twelve bytes"];
    let stored: ArrayRef = Arc::new(StringArray::from(text.clone()));
    let expected = keys(&[DataType::Utf8], &[Arc::clone(&stored)]);
    let dictionary: DictionaryArray<Int32Type> = text.into_iter().collect();
    let forms: [ArrayRef; 3] = [
        cast(&stored, &DataType::Utf8View).expect("a cast"),
        cast(&stored, &DataType::LargeUtf8).expect("a cast"),
        Arc::new(dictionary),
    ];
    for form in forms {
        assert_eq!(keys(&[DataType::Utf8], &[form]), expected);
    }
    let wide: ArrayRef = Arc::new(
        Decimal128Array::from(vec![-123, 0, 99_999])
            .with_precision_and_scale(15, 2)
            .expect("a decimal"),
    );
    let narrow = cast(&wide, &DataType::Decimal64(15, 2)).expect("a cast");
    let stored = [DataType::Decimal64(15, 2)];
    assert_eq!(keys(&stored, &[wide]), keys(&stored, &[narrow]));
}

#[test]
fn integer_like_columns_alone_have_number_keys() {
    let timestamp = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let column: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![5]).with_timezone("UTC"));
    assert!(matches!(
        keys(std::slice::from_ref(&timestamp), &[Arc::clone(&column)])[0],
        Some(Key::Integer(_))
    ));
    let two = keys(
        &[timestamp.clone(), timestamp],
        &[Arc::clone(&column), column],
    );
    assert!(matches!(two[0], Some(Key::Bytes(_))));
}

#[test]
fn keys_are_shown_as_their_values() {
    let shown = |types: &[DataType], columns: &[ArrayRef]| {
        let encoder = KeyEncoder::new(types).expect("an encoder");
        let keys = encoder.encode(columns).expect("keys");
        encoder
            .display(keys[0].as_ref().expect("a key"))
            .expect("a text")
    };
    assert_eq!(
        shown(&[DataType::Int32], &[Arc::new(Int32Array::from(vec![-7]))]),
        "-7"
    );
    assert_eq!(
        shown(
            &[DataType::UInt64],
            &[Arc::new(UInt64Array::from(vec![u64::MAX]))]
        ),
        u64::MAX.to_string()
    );
    assert_eq!(
        shown(
            &[DataType::Date32],
            &[Arc::new(Date32Array::from(vec![19_723]))]
        ),
        "2024-01-01"
    );
    let timestamp = DataType::Timestamp(TimeUnit::Microsecond, None);
    let column: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![1_500_000]));
    assert_eq!(shown(&[timestamp], &[column]), "1970-01-01 00:00:01.500");
    let decimal: ArrayRef = Arc::new(
        Decimal64Array::from(vec![-123])
            .with_precision_and_scale(5, 2)
            .expect("a decimal"),
    );
    assert_eq!(shown(&[DataType::Decimal64(5, 2)], &[decimal]), "-1.23");
    let columns: [ArrayRef; 2] = [
        Arc::new(StringViewArray::from(vec!["a, b"])),
        Arc::new(Int64Array::from(vec![3])),
    ];
    assert_eq!(
        shown(&[DataType::Utf8, DataType::Int64], &columns),
        "a, b, 3"
    );
}

#[test]
fn types_without_an_order_are_refused() {
    let list = DataType::new_list(DataType::Int32, true);
    assert!(matches!(KeyEncoder::new(&[list]), Err(Error::Arrow(_))));
    let interval = DataType::Interval(arrow::datatypes::IntervalUnit::MonthDayNano);
    assert!(matches!(KeyEncoder::new(&[interval]), Err(Error::Arrow(_))));
}

#[test]
fn columns_of_another_type_are_refused() {
    let encoder = KeyEncoder::new(&[DataType::Int32]).expect("an encoder");
    assert!(
        encoder
            .encode(&[Arc::new(Int64Array::from(vec![1]))])
            .is_err()
    );
    assert!(encoder.encode(&[]).is_err());
}

#[test]
fn a_key_has_the_slots_that_were_added_in_order() {
    for data_type in [DataType::Int64, DataType::Utf8] {
        let (encoder, index) = index(std::slice::from_ref(&data_type));
        let column = cast(&Int64Array::from(vec![1, 2, 3]), &data_type).expect("a cast");
        let keys: Vec<Key> = encoder
            .encode(&[column])
            .expect("keys")
            .into_iter()
            .flatten()
            .collect();
        for slot in [9, 0, u64::MAX, 4] {
            assert!(
                index
                    .insert(&keys[1], Slot(slot), &index.pin())
                    .expect("memory")
            );
        }
        assert!(
            index
                .insert(&keys[0], Slot(5), &index.pin())
                .expect("memory")
        );
        assert!(
            !index
                .insert(&keys[0], Slot(5), &index.pin())
                .expect("memory")
        );
        assert_eq!(index.slots(&keys[0], &index.pin()), [Slot(5)]);
        assert_eq!(
            index.slots(&keys[1], &index.pin()),
            [Slot(0), Slot(4), Slot(9), Slot(u64::MAX)]
        );
        assert_eq!(index.slots(&keys[2], &index.pin()), []);
        assert_eq!(index.len(), 5);
        assert!(index.remove(&keys[1], Slot(4), &index.pin()));
        assert!(!index.remove(&keys[1], Slot(4), &index.pin()));
        assert_eq!(
            index.slots(&keys[1], &index.pin()),
            [Slot(0), Slot(9), Slot(u64::MAX)]
        );
        assert_eq!(index.len(), 4);
    }
}

#[test]
fn an_index_is_counted_and_limited_by_the_budget() {
    let encoder = KeyEncoder::new(&[DataType::Int64]).expect("an encoder");
    let budget = Budget::new(Some(10_000));
    let index = UniqueIndex::new(&encoder, &budget);
    let mut added = 0;
    let error = loop {
        match index.insert(&Key::Integer(added), Slot(added), &index.pin()) {
            Ok(_) => added += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::OutOfMemory { .. }));
    assert_eq!(index.len(), added as usize);
    assert!(index.remove(&Key::Integer(0), Slot(0), &index.pin()));
    assert!(
        index
            .insert(&Key::Integer(0), Slot(7), &index.pin())
            .expect("room again")
    );
    drop(index);
    assert_eq!(budget.usage().index, 0);
}

/// The interleaving behind uniqueness: of two writers of a key, at least one finds the other.
#[test]
fn of_two_writers_of_a_key_one_finds_the_other() {
    const ROUNDS: u64 = 3_000;
    let (_, index) = index(&[DataType::Int64]);
    let barrier = Barrier::new(2);
    let found = AtomicUsize::new(0);
    let alone = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let (index, barrier, found, alone) = (&index, &barrier, &found, &alone);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    barrier.wait();
                    index
                        .insert(&Key::Integer(round), Slot(writer), &index.pin())
                        .expect("memory");
                    let slots = index.slots(&Key::Integer(round), &index.pin());
                    assert!(slots.contains(&Slot(writer)));
                    found.fetch_add(slots.len() - 1, Ordering::Relaxed);
                    barrier.wait();
                    if writer == 0 && found.swap(0, Ordering::Relaxed) == 0 {
                        alone.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert_eq!(alone.into_inner(), 0);
}

#[test]
fn concurrent_writers_leave_what_each_of_them_did() {
    const THREADS: u64 = 4;
    const KEYS: u64 = 64;
    for data_type in [DataType::Int64, DataType::Utf8] {
        let (encoder, index) = index(std::slice::from_ref(&data_type));
        let column =
            cast(&Int64Array::from_iter_values(0..KEYS as i64), &data_type).expect("a cast");
        let keys: Vec<Key> = encoder
            .encode(&[column])
            .expect("keys")
            .into_iter()
            .flatten()
            .collect();
        let done = AtomicBool::new(false);
        let models: Vec<BTreeSet<(u64, u64)>> = std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                while !done.load(Ordering::Acquire) {
                    for key in &keys {
                        let slots = index.slots(key, &index.pin());
                        assert!(slots.is_sorted());
                    }
                }
            });
            let writers: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let (index, keys) = (&index, &keys);
                    scope.spawn(move || {
                        let mut model = BTreeSet::new();
                        let mut state = thread + 1;
                        for _ in 0..20_000 {
                            state = state
                                .wrapping_mul(6_364_136_223_846_793_005)
                                .wrapping_add(1_442_695_040_888_963_407);
                            let key = (state >> 33) % KEYS;
                            // Slots of one thread only, so that its model is exact.
                            let slot = (state >> 45) % 50 * THREADS + thread;
                            let name = &keys[key as usize];
                            if state >> 63 == 0 {
                                let added = index
                                    .insert(name, Slot(slot), &index.pin())
                                    .expect("memory");
                                assert_eq!(added, model.insert((key, slot)));
                            } else {
                                assert_eq!(
                                    index.remove(name, Slot(slot), &index.pin()),
                                    model.remove(&(key, slot))
                                );
                            }
                            let mine = index.slots(name, &index.pin()).contains(&Slot(slot));
                            assert_eq!(mine, model.contains(&(key, slot)));
                        }
                        model
                    })
                })
                .collect();
            let models = writers
                .into_iter()
                .map(|writer| writer.join().expect("a writer"))
                .collect();
            done.store(true, Ordering::Release);
            reader.join().expect("the reader");
            models
        });
        let all: BTreeSet<(u64, u64)> = models.into_iter().flatten().collect();
        assert_eq!(index.len(), all.len());
        for (number, key) in keys.iter().enumerate() {
            let expected: Vec<Slot> = all
                .iter()
                .filter(|entry| entry.0 == number as u64)
                .map(|entry| Slot(entry.1))
                .collect();
            assert_eq!(index.slots(key, &index.pin()), expected);
        }
    }
}
