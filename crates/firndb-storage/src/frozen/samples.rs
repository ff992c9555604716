//! Random columns of every type, for tests.

use std::sync::Arc;

use arrow::array::builder::{Int32Builder, MapBuilder, StringBuilder};
use arrow::array::types::IntervalMonthDayNano;
use arrow::array::*;
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::*;

/// SplitMix64: the same cases in every run.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        (self.word() % end as u64) as usize
    }
}

/// How many of the values of a sample are null.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Nulls {
    No,
    Some,
    All,
}

/// `rows` random values, extremes among them.
pub(super) fn sample(
    data_type: &DataType,
    rows: usize,
    nulls: Nulls,
    random: &mut Random,
) -> ArrayRef {
    let validity = match nulls {
        Nulls::No => None,
        Nulls::Some => Some(NullBuffer::from_iter(
            (0..rows).map(|_| random.below(5) > 0),
        )),
        Nulls::All => Some(NullBuffer::new_null(rows)),
    };
    macro_rules! primitive {
        ($type:ty, $value:expr) => {{
            let values: Vec<_> = (0..rows).map(|_| $value).collect();
            let array = PrimitiveArray::<$type>::new(values.into(), validity);
            Arc::new(array.with_data_type(data_type.clone())) as ArrayRef
        }};
    }
    macro_rules! integer {
        ($type:ty) => {{
            type Native = <$type as ArrowPrimitiveType>::Native;
            primitive!(
                $type,
                match random.below(8) {
                    0 => Native::MIN,
                    1 => Native::MAX,
                    2 => 0,
                    3 => random.word() as Native,
                    _ => random.below(100) as Native,
                }
            )
        }};
    }
    macro_rules! float {
        ($type:ty) => {{
            type Native = <$type as ArrowPrimitiveType>::Native;
            primitive!(
                $type,
                match random.below(40) {
                    0 => Native::NAN,
                    1 => -0.0,
                    2 => 0.0,
                    3 => Native::INFINITY,
                    4 => Native::NEG_INFINITY,
                    5 => Native::MIN,
                    6 => Native::MIN_POSITIVE,
                    _ => random.below(1_000) as Native - 500.5,
                }
            )
        }};
    }
    let valid = |row: usize| validity.as_ref().is_none_or(|nulls| nulls.is_valid(row));
    match data_type {
        DataType::Int8 => integer!(Int8Type),
        DataType::Int16 => integer!(Int16Type),
        DataType::Int32 => integer!(Int32Type),
        DataType::Int64 => integer!(Int64Type),
        DataType::UInt8 => integer!(UInt8Type),
        DataType::UInt16 => integer!(UInt16Type),
        DataType::UInt32 => integer!(UInt32Type),
        DataType::UInt64 => integer!(UInt64Type),
        DataType::Date32 => integer!(Date32Type),
        DataType::Time64(_) => {
            primitive!(Time64MicrosecondType, random.below(86_400_000_000) as i64)
        }
        DataType::Timestamp(..) => integer!(TimestampMicrosecondType),
        DataType::Float32 => float!(Float32Type),
        DataType::Float64 => float!(Float64Type),
        DataType::Decimal64(precision, _) => {
            let limit = 10_i64.pow(u32::from(*precision));
            primitive!(Decimal64Type, random.word() as i64 % limit)
        }
        DataType::Decimal128(precision, _) => {
            let limit = 10_i128.pow(u32::from(*precision));
            let wide =
                |random: &mut Random| i128::from(random.word() as i64) * i128::from(random.word());
            primitive!(Decimal128Type, wide(random) % limit)
        }
        DataType::Interval(_) => primitive!(
            IntervalMonthDayNanoType,
            IntervalMonthDayNano::new(
                random.word() as i32,
                random.word() as i32,
                random.word() as i64
            )
        ),
        DataType::Boolean => Arc::new(BooleanArray::new(
            (0..rows).map(|_| random.below(2) == 0).collect(),
            validity.clone(),
        )),
        DataType::FixedSizeBinary(width) => {
            let values: Vec<u8> = (0..rows * *width as usize)
                .map(|_| random.word() as u8)
                .collect();
            Arc::new(FixedSizeBinaryArray::new(
                *width,
                values.into(),
                validity.clone(),
            ))
        }
        DataType::Utf8 => {
            let text: Vec<_> = (0..rows)
                .map(|row| valid(row).then(|| text(random)))
                .collect();
            Arc::new(StringArray::from(text))
        }
        DataType::Binary => {
            let bytes: Vec<_> = (0..rows)
                .map(|row| valid(row).then(|| bytes(random)))
                .collect();
            Arc::new(BinaryArray::from_iter(bytes))
        }
        DataType::List(field) => {
            let lengths: Vec<usize> = (0..rows)
                .map(|row| if valid(row) { random.below(4) } else { 0 })
                .collect();
            let values = sample(field.data_type(), lengths.iter().sum(), nulls, random);
            let offsets = arrow::buffer::OffsetBuffer::from_lengths(lengths);
            Arc::new(ListArray::new(
                Arc::clone(field),
                offsets,
                values,
                validity.clone(),
            ))
        }
        DataType::FixedSizeList(field, size) => {
            let values = sample(field.data_type(), rows * *size as usize, nulls, random);
            Arc::new(FixedSizeListArray::new(
                Arc::clone(field),
                *size,
                values,
                validity.clone(),
            ))
        }
        DataType::Struct(fields) => {
            let columns = fields
                .iter()
                .map(|field| sample(field.data_type(), rows, nulls, random))
                .collect();
            Arc::new(StructArray::new(fields.clone(), columns, validity.clone()))
        }
        DataType::Map(..) => {
            let mut builder = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
            for row in 0..rows {
                for entry in 0..random.below(3) {
                    builder.keys().append_value(format!("k{entry}"));
                    builder
                        .values()
                        .append_option((entry > 0).then_some(row as i32));
                }
                builder.append(valid(row)).expect("an entry");
            }
            Arc::new(builder.finish())
        }
        other => cast(&sample(&stored_of(other), rows, nulls, random), other).expect("a cast"),
    }
}

/// The stored type of a foreign one.
pub(super) fn stored_of(foreign: &DataType) -> DataType {
    match foreign {
        DataType::LargeUtf8 | DataType::Utf8View => DataType::Utf8,
        DataType::LargeBinary | DataType::BinaryView => DataType::Binary,
        DataType::Dictionary(_, value) => stored_of(value),
        DataType::Decimal128(precision @ ..=18, scale) => DataType::Decimal64(*precision, *scale),
        other => other.clone(),
    }
}

/// Texts of 0 to 40 bytes, of common prefixes and with characters of several bytes.
pub(super) fn text(random: &mut Random) -> String {
    let parts = [
        "",
        "a",
        "ab\0",
        "Straße",
        "same prefix of 16",
        "\u{10ffff}",
        "ö",
        "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz",
    ];
    let mut text = String::new();
    for _ in 0..random.below(3) {
        text.push_str(parts[random.below(parts.len())]);
    }
    if random.below(2) == 0 {
        text.push_str(&random.below(1_000).to_string());
    }
    text
}

pub(super) fn bytes(random: &mut Random) -> Vec<u8> {
    let byte = [0, 1, 127, 255][random.below(4)];
    let mut bytes = vec![byte; random.below(45)];
    bytes.push(random.word() as u8);
    bytes
}

/// Every pair of a stored type and a type that it takes.
pub(super) fn types() -> Vec<(DataType, DataType)> {
    let dictionary = |key, value| DataType::Dictionary(Box::new(key), Box::new(value));
    let item = |data_type| Arc::new(Field::new_list_field(data_type, true));
    let fields = Fields::from(vec![
        Field::new("number", DataType::Int64, true),
        Field::new("text", DataType::Utf8, true),
        Field::new("view", DataType::Utf8View, true),
        Field::new("list", DataType::List(item(DataType::Boolean)), true),
    ]);
    let map = sample(
        &DataType::Map(item(DataType::Null), false),
        0,
        Nulls::No,
        &mut Random(0),
    );
    let foreign = vec![
        DataType::Boolean,
        DataType::Int8,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::UInt8,
        DataType::UInt16,
        DataType::UInt32,
        DataType::UInt64,
        DataType::Float32,
        DataType::Float64,
        DataType::Date32,
        DataType::Time64(TimeUnit::Microsecond),
        DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        DataType::Interval(IntervalUnit::MonthDayNano),
        DataType::Decimal64(15, 2),
        DataType::Decimal64(18, 0),
        DataType::Decimal128(15, 2),
        DataType::Decimal128(38, 4),
        DataType::FixedSizeBinary(16),
        DataType::FixedSizeBinary(40),
        DataType::Utf8,
        DataType::LargeUtf8,
        DataType::Utf8View,
        dictionary(DataType::Int8, DataType::Utf8),
        dictionary(DataType::UInt32, DataType::LargeUtf8),
        DataType::Binary,
        DataType::LargeBinary,
        DataType::BinaryView,
        dictionary(DataType::Int64, DataType::Binary),
        dictionary(DataType::Int16, DataType::Int64),
        DataType::List(item(DataType::Int32)),
        DataType::List(item(DataType::List(item(DataType::Utf8)))),
        DataType::FixedSizeList(item(DataType::Float64), 3),
        DataType::Struct(fields),
        map.data_type().clone(),
    ];
    let mut types: Vec<_> = foreign
        .into_iter()
        .map(|foreign| (stored_of(&foreign), foreign))
        .collect();
    types.push((DataType::Decimal128(20, 3), DataType::Decimal64(18, 3)));
    types
}

/// A sample of a foreign type with few distinct values where the dictionary's key demands it.
pub(super) fn foreign_sample(
    foreign: &DataType,
    rows: usize,
    nulls: Nulls,
    random: &mut Random,
) -> ArrayRef {
    if let DataType::Dictionary(key, value) = foreign {
        let values = sample(value, 50, Nulls::No, random);
        let keys = Int64Array::from_iter((0..rows).map(|_| match nulls {
            Nulls::All => None,
            Nulls::Some if random.below(5) == 0 => None,
            _ => Some(random.below(50) as i64),
        }));
        let keys = cast(&keys, key).expect("small keys");
        return make_dictionary(&keys, values);
    }
    sample(foreign, rows, nulls, random)
}

pub(super) fn make_dictionary(keys: &ArrayRef, values: ArrayRef) -> ArrayRef {
    macro_rules! of {
        ($key:ty) => {
            Arc::new(DictionaryArray::<$key>::new(
                keys.as_primitive::<$key>().clone(),
                values,
            ))
        };
    }
    match keys.data_type() {
        DataType::Int8 => of!(Int8Type),
        DataType::Int16 => of!(Int16Type),
        DataType::UInt32 => of!(UInt32Type),
        _ => of!(Int64Type),
    }
}
