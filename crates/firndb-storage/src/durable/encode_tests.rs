//! Every stored type goes to the file and comes back, however it lies there.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal64Array, Decimal128Array,
    FixedSizeBinaryArray, Float64Array, Int16Array, Int32Array, Int64Array, ListArray, StringArray,
    StructArray, TimestampMicrosecondArray, UInt32Array, UInt64Array,
};
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type, Schema};

use super::encode::{ColumnEncoder, Compression};
use super::extent::{FileExtent, decode, encode};
use super::simulated::Random;
use crate::Error;

const ROWS: i64 = 5_000;

/// A column as an extent of its own.
fn extent(array: &ArrayRef, compression: Compression) -> (FieldRef, Vec<u8>, FileExtent) {
    let field: FieldRef = Arc::new(Field::new("x", array.data_type().clone(), false));
    let mut encoder = ColumnEncoder::new(compression).unwrap();
    let column = encoder.column(&field, array).unwrap();
    let in_file = Arc::clone(&column.field);
    let schema = Schema::new(vec![field]);
    let (bytes, checksums) = encode(&schema, &[column], array.len()).unwrap();
    let extent = FileExtent {
        offset: 0,
        length: bytes.len() as u64,
        rows: array.len() as u64,
        checksums,
        slots: vec![(0, array.len() as u32)],
    };
    (in_file, bytes, extent)
}

/// The type in the file and the length there, once the column was found to come back as it was.
fn stored(array: &ArrayRef, compression: Compression) -> (DataType, usize) {
    let (field, bytes, extent) = extent(array, compression);
    let length = bytes.len();
    let batch = decode(Buffer::from_vec(bytes), &extent, "t").unwrap();
    assert_eq!(batch.column(0), array);
    (field.data_type().clone(), length)
}

fn is_coded(array: &ArrayRef) -> bool {
    stored(array, Compression::None);
    matches!(stored(array, Compression::Auto).0, DataType::Dictionary(..))
}

fn int64(value: impl Fn(i64) -> Option<i64>) -> ArrayRef {
    Arc::new((0..ROWS).map(value).collect::<Int64Array>())
}

#[test]
fn numbers_in_a_small_range_are_coded_and_come_back() {
    assert!(is_coded(&int64(|row| Some(row % 7))));
    assert!(is_coded(&int64(|row| Some(i64::MIN + row % 128))));
    assert!(is_coded(&int64(|row| Some(i64::MAX - row % 129))));
    assert!(is_coded(&int64(
        |row| (row % 3 > 0).then_some(-(row % 1000))
    )));
    assert!(is_coded(&int64(|row| Some(row % 2 * 65_535 - 4))));
    assert!(!is_coded(&int64(|row| Some(row % 2 * 65_536))));
    assert!(!is_coded(&int64(|row| Some(
        [i64::MIN, i64::MAX][row as usize % 2]
    ))));
    assert!(!is_coded(&int64(Some)), "as many values as rows");
    assert!(!is_coded(&int64(|_| None)));
    assert!(is_coded(&int64(|row| (row == 4_999).then_some(5))));
    // What lies under a null is nobody's value.
    let values = Int64Array::new(
        (0..ROWS)
            .map(|row| row * 1_000_000_007 * (row % 2))
            .collect(),
        Some((0..ROWS).map(|row| row % 2 == 0).collect::<Vec<_>>().into()),
    );
    assert!(is_coded(&(Arc::new(values) as ArrayRef)));
}

#[test]
fn other_numbers_are_coded_by_their_bits() {
    let coded: [ArrayRef; 6] = [
        Arc::new(
            (0..ROWS)
                .map(|row| Some(row as i32 % 11))
                .collect::<Int32Array>(),
        ),
        Arc::new(
            (0..ROWS)
                .map(|row| u32::MAX - row as u32 % 300)
                .collect::<UInt32Array>(),
        ),
        Arc::new(
            (0..ROWS)
                .map(|row| u64::MAX / 2 - 3 + row as u64 % 7)
                .collect::<UInt64Array>(),
        ),
        Arc::new(
            (0..ROWS)
                .map(|row| Some(row as i32 % 365 - 800_000))
                .collect::<Date32Array>(),
        ),
        Arc::new(
            (0..ROWS)
                .map(|row| Some(row % 50 * 100))
                .collect::<Decimal64Array>()
                .with_precision_and_scale(15, 2)
                .unwrap(),
        ),
        Arc::new(
            (0..ROWS)
                .map(|row| Some(row % 60))
                .collect::<TimestampMicrosecondArray>()
                .with_timezone("UTC"),
        ),
    ];
    for (number, array) in coded.iter().enumerate() {
        let expected = number != 2;
        assert_eq!(is_coded(array), expected, "{}", array.data_type());
    }
}

#[test]
fn strings_of_few_values_are_coded() {
    let strings = |value: &dyn Fn(i64) -> Option<String>| -> ArrayRef {
        Arc::new((0..ROWS).map(value).collect::<StringArray>())
    };
    assert!(is_coded(&strings(&|row| Some(
        ["AIR", "RAIL", ""][row as usize % 3].into()
    ))));
    assert!(is_coded(&strings(
        &|row| (row % 5 > 0).then(|| format!("kind {}", row % 300))
    )));
    assert!(!is_coded(&strings(&|row| Some(format!("text {row}")))));
    assert!(!is_coded(&strings(&|_| None)));
    // Few values in the sample, many behind it.
    assert!(!is_coded(&strings(&|row| Some(match row % 4 {
        0 => "a".to_owned(),
        _ => format!("text {row}"),
    }))));
    let slice = strings(&|row| Some(format!("kind {}", row % 9))).slice(1_234, 3_000);
    assert!(is_coded(&slice));
    let bytes: ArrayRef = Arc::new(
        (0..ROWS)
            .map(|row| Some(vec![row as u8 % 3; row as usize % 4]))
            .collect::<BinaryArray>(),
    );
    assert!(is_coded(&bytes));
}

#[test]
fn every_other_type_comes_back_and_is_no_longer_than_plain() {
    let list = ListArray::from_iter_primitive::<Int64Type, _, _>(
        (0..ROWS).map(|row| (row % 4 > 0).then(|| (0..row % 5).map(Some).collect::<Vec<_>>())),
    );
    let fields = vec![
        (
            Arc::new(Field::new("a", DataType::Int64, true)),
            int64(|row| (row % 2 > 0).then_some(row)),
        ),
        (
            Arc::new(Field::new("b", DataType::Utf8, true)),
            Arc::new(StringArray::from_iter_values(
                (0..ROWS).map(|row| row.to_string()),
            )) as ArrayRef,
        ),
    ];
    let mut random = Random::new(9);
    let noise: Vec<i64> = (0..200_000)
        .map(|_| random.below(1 << 53) as i64 * 2053)
        .collect();
    let arrays: [ArrayRef; 9] = [
        Arc::new(
            (0..ROWS)
                .map(|row| Some(row % 3 > 0))
                .collect::<BooleanArray>(),
        ),
        Arc::new((0..ROWS).map(|row| row as i16).collect::<Int16Array>()),
        Arc::new(
            (0..ROWS)
                .map(|row| row as f64 / 7.0)
                .collect::<Float64Array>(),
        ),
        Arc::new(
            (0..ROWS)
                .map(|row| Some(i128::from(row) << 70))
                .collect::<Decimal128Array>(),
        ),
        Arc::new(
            FixedSizeBinaryArray::try_from_iter((0..ROWS).map(|row| row.to_le_bytes())).unwrap(),
        ),
        Arc::new(list),
        Arc::new(StructArray::from(fields)),
        Arc::new(Int64Array::from(noise)),
        Arc::new(Int64Array::from(Vec::<i64>::new())),
    ];
    for array in &arrays {
        let (plain_type, plain) = stored(array, Compression::None);
        let (data_type, length) = stored(array, Compression::Auto);
        assert_eq!(
            (&plain_type, &data_type),
            (array.data_type(), array.data_type())
        );
        assert!(length <= plain + 64, "{data_type}: {length} for {plain}");
    }
}

#[test]
fn a_flipped_bit_of_a_compressed_extent_is_found() {
    let array: ArrayRef = Arc::new(
        (0..ROWS)
            .map(|row| Some(format!("kind {}", row % 300)))
            .collect::<StringArray>(),
    );
    let (_, bytes, extent) = extent(&array, Compression::Auto);
    for byte in 0..bytes.len() {
        let mut bytes = bytes.clone();
        bytes[byte] ^= 1 << (byte % 8);
        let found = decode(Buffer::from_vec(bytes), &extent, "t");
        assert!(matches!(found, Err(Error::Damaged(_))), "byte {byte}");
    }
}
