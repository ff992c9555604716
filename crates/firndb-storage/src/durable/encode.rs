//! Encodings of columns in the file: a dictionary where a column has few values, and ZSTD where it saves something.
//!
//! ```text
//!   pieces of a column ──join──► array ──if few values──► dictionary + codes ──buffer by buffer──► ZSTD, or as it is
//! ```
//!
//! Both are decided by what they gain on the column at hand, so a column may lie differently in two extents of a table. Codes of numbers follow the order
//! of the values; what has a value range of 2^16 is coded without hashing. Nothing of this is seen beyond the file: a reader gets the stored types back.

use std::sync::Arc;

use ahash::AHashMap;
use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, GenericByteArray, PrimitiveArray,
};
use arrow::buffer::Buffer;
use arrow::compute::{cast, take};
use arrow::datatypes::{
    ArrowNativeType, BinaryType, ByteArrayType, DataType, Field, FieldRef, Int8Type, Int16Type,
    TimeUnit, UInt32Type, Utf8Type,
};
use arrow::ipc::FieldNode;
use arrow::ipc::root_as_message;

use super::extent::{body, message_of_batch};
use super::wire::stream_of;
use crate::{Error, Result};

/// What the rows that are written to the file are compressed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Compression {
    /// They lie as in memory.
    None,
    /// Dictionaries and ZSTD, each where it saves something.
    Auto,
}

/// The level with which reading costs little and writing keeps up with a disk.
const LEVEL: i32 = 1;
/// Fewer rows have no dictionary.
const LEAST_ROWS: usize = 1024;
/// Most values of a dictionary: codes have 16 bits.
const MOST_VALUES: usize = 1 << 15;
/// A range of numbers that is looked through by a table of all its values.
const MOST_RANGE: u64 = 1 << 16;
/// Buffers from this length on are tried at a sample first.
const SAMPLED: usize = 256 << 10;
const SAMPLE: usize = 16 << 10;
/// Shorter buffers are never compressed.
const LEAST_BYTES: usize = 128;

/// Bytes of a buffer of an Arrow IPC message.
pub(super) struct Part {
    pub(super) plain: Buffer,
    pub(super) compressed: Option<Vec<u8>>,
}

/// The arrays of one column of a message.
pub(super) struct Encoded {
    pub(super) nodes: Vec<FieldNode>,
    pub(super) parts: Vec<Part>,
}

/// A column as it is written.
pub(super) struct EncodedColumn {
    /// With the type that it has in the file.
    pub(super) field: FieldRef,
    pub(super) values: Encoded,
    /// What its codes mean, and how many values that are.
    pub(super) dictionary: Option<(Encoded, usize)>,
}

/// Encodes columns, one after the other.
pub(super) struct ColumnEncoder {
    compressor: Option<zstd::bulk::Compressor<'static>>,
    /// What a buffer is compressed into.
    scratch: Vec<u8>,
}

impl ColumnEncoder {
    pub(super) fn new(compression: Compression) -> Result<Self> {
        let failed = |error| Error::System(format!("no memory to compress with: {error}"));
        Ok(Self {
            compressor: match compression {
                Compression::None => None,
                Compression::Auto => Some(zstd::bulk::Compressor::new(LEVEL).map_err(failed)?),
            },
            scratch: Vec::new(),
        })
    }

    /// Encodes an array of a stored type.
    pub(super) fn column(&mut self, field: &FieldRef, array: &ArrayRef) -> Result<EncodedColumn> {
        let coded = match self.compressor {
            Some(_) if !is_extension(field) => dictionary(array)?,
            _ => None,
        };
        // Nullability is not enforced by storage.
        let is_nullable = field.is_nullable() || array.null_count() > 0;
        let field = field.as_ref().clone().with_nullable(is_nullable);
        let Some((codes, values)) = coded else {
            let field = Arc::new(field);
            return Ok(EncodedColumn {
                values: self.array(&field, array)?,
                field,
                dictionary: None,
            });
        };
        let code = codes.data_type().clone();
        let code_field = Arc::new(Field::new("codes", code.clone(), true));
        let value_field = Arc::new(Field::new("values", values.data_type().clone(), true));
        let data_type = DataType::Dictionary(Box::new(code), Box::new(values.data_type().clone()));
        Ok(EncodedColumn {
            field: Arc::new(field.with_data_type(data_type)),
            values: self.array(&code_field, &codes)?,
            dictionary: Some((self.array(&value_field, &values)?, values.len())),
        })
    }

    fn array(&mut self, field: &FieldRef, array: &ArrayRef) -> Result<Encoded> {
        let schema = arrow::datatypes::Schema::new(vec![Arc::clone(field)]);
        let batch = crate::table::batch(Arc::new(schema), vec![Arc::clone(array)], array.len())?;
        let bytes = Buffer::from_vec(stream_of(&batch)?);
        let mut found = arrays(&bytes).ok_or_else(|| {
            Error::Internal("a stream that was just written can't be read".into())
        })?;
        for part in &mut found.parts {
            part.compressed = self.compressed(&part.plain)?;
        }
        Ok(found)
    }

    /// A buffer's compressed bytes behind its length, if that saves a tenth.
    fn compressed(&mut self, plain: &[u8]) -> Result<Option<Vec<u8>>> {
        let Some(compressor) = &mut self.compressor else {
            return Ok(None);
        };
        if plain.len() < LEAST_BYTES {
            return Ok(None);
        }
        let failed = |error| Error::System(format!("compressing failed: {error}"));
        let pays = |before: usize, after: usize| after + after / 9 <= before;
        if plain.len() >= SAMPLED {
            let middle = (plain.len() / 2) & !63;
            let sample = &plain[middle..middle + SAMPLE];
            if !pays(SAMPLE, compressor.compress(sample).map_err(failed)?.len()) {
                return Ok(None);
            }
        }
        let bound = zstd::zstd_safe::compress_bound(plain.len());
        if self.scratch.len() < bound {
            let more = bound - self.scratch.len();
            self.scratch
                .try_reserve_exact(more)
                .map_err(|_| Error::System("no memory to compress with".into()))?;
            self.scratch.resize(bound, 0);
        }
        let length = compressor
            .compress_to_buffer(plain, &mut self.scratch[..])
            .map_err(failed)?;
        if !pays(plain.len(), length + 8) {
            return Ok(None);
        }
        let mut bytes = Vec::with_capacity(length + 8);
        bytes.extend_from_slice(&(plain.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&self.scratch[..length]);
        Ok(Some(bytes))
    }
}

/// Whether a column has a type of its own in Arrow: of a dictionary that is not known everywhere.
fn is_extension(field: &Field) -> bool {
    field.metadata().contains_key("ARROW:extension:name")
}

/// The nodes and buffers of a stream with one batch.
fn arrays(bytes: &Buffer) -> Option<Encoded> {
    let body = body(bytes)?;
    let message = root_as_message(&bytes[message_of_batch(bytes)?]).ok()?;
    let batch = message.header_as_record_batch()?;
    let nodes = batch.nodes()?.iter().copied().collect();
    let parts = batch
        .buffers()?
        .iter()
        .map(|buffer| {
            let start = body.start + usize::try_from(buffer.offset()).ok()?;
            let length = usize::try_from(buffer.length()).ok()?;
            (start + length <= body.end).then(|| Part {
                plain: bytes.slice_with_length(start, length),
                compressed: None,
            })
        })
        .collect::<Option<Vec<_>>>()?;
    Some(Encoded { nodes, parts })
}

/// The stored type of what may lie as a dictionary.
pub(super) fn stored_type(in_file: &DataType) -> &DataType {
    match in_file {
        DataType::Dictionary(_, values) => values,
        other => other,
    }
}

/// An array as it lies in the file, in its stored type.
pub(super) fn stored_array(in_file: &ArrayRef) -> Result<ArrayRef> {
    match in_file.data_type() {
        DataType::Dictionary(_, stored) => Ok(cast(in_file, stored)?),
        _ => Ok(Arc::clone(in_file)),
    }
}

/// Codes and values, if that is less than the array itself.
fn dictionary(array: &ArrayRef) -> Result<Option<(ArrayRef, ArrayRef)>> {
    if array.len() < LEAST_ROWS || array.null_count() == array.len() {
        return Ok(None);
    }
    match array.data_type() {
        DataType::Int32 | DataType::UInt32 | DataType::Date32 => numbers::<i32>(array, i64::from),
        DataType::Int64
        | DataType::UInt64
        | DataType::Decimal64(..)
        | DataType::Time64(TimeUnit::Microsecond)
        | DataType::Timestamp(TimeUnit::Microsecond, _) => numbers::<i64>(array, |value| value),
        DataType::Utf8 => strings::<Utf8Type>(array),
        DataType::Binary => strings::<BinaryType>(array),
        _ => Ok(None),
    }
}

/// Codes of numbers in a small range, in their order. Unsigned ones count as signed: only differences matter.
fn numbers<T: ArrowNativeType>(
    array: &ArrayRef,
    value_of: impl Fn(T) -> i64,
) -> Result<Option<(ArrayRef, ArrayRef)>> {
    let data = array.to_data();
    let values = &data.buffer::<T>(0)[..array.len()];
    let nulls = array.nulls();
    let is_valid = |row: usize| nulls.is_none_or(|nulls| nulls.is_valid(row));
    let (mut least, mut greatest) = (i64::MAX, i64::MIN);
    match nulls {
        None => {
            for &value in values {
                least = least.min(value_of(value));
                greatest = greatest.max(value_of(value));
            }
        }
        Some(nulls) => {
            for row in nulls.valid_indices() {
                least = least.min(value_of(values[row]));
                greatest = greatest.max(value_of(values[row]));
            }
        }
    }
    if greatest.wrapping_sub(least) as u64 >= MOST_RANGE {
        return Ok(None);
    }
    let place = |value: T| value_of(value).wrapping_sub(least) as u16 as usize;
    let range = greatest.wrapping_sub(least) as usize + 1;
    let mut seen = vec![false; range];
    for (row, &value) in values.iter().enumerate() {
        if is_valid(row) {
            seen[place(value)] = true;
        }
    }
    let count = seen.iter().filter(|&&seen| seen).count();
    if !pays(
        count,
        count * size_of::<T>(),
        array.len(),
        size_of::<T>() * array.len(),
    ) {
        return Ok(None);
    }
    // The first row of each value is where it is taken from.
    let mut codes = vec![0_i16; MOST_RANGE as usize];
    for (code, at) in (0..range).filter(|&at| seen[at]).enumerate() {
        codes[at] = code as i16;
    }
    let mut first = vec![0_u32; count];
    let mut missing = count;
    for (row, &value) in values.iter().enumerate() {
        if is_valid(row) && std::mem::take(&mut seen[place(value)]) {
            first[codes[place(value)] as usize] = row as u32;
            missing -= 1;
            if missing == 0 {
                break;
            }
        }
    }
    let dictionary = take(array, &PrimitiveArray::<UInt32Type>::from(first), None)?;
    let all = values.iter().map(|&value| codes[place(value)]);
    let codes: ArrayRef = match count <= 1 << 7 {
        true => codes_array::<Int8Type>(all.map(|code| code as i8), array),
        false => codes_array::<Int16Type>(all, array),
    };
    Ok(Some((codes, dictionary)))
}

fn codes_array<K: ArrowPrimitiveType>(
    codes: impl Iterator<Item = K::Native>,
    of: &ArrayRef,
) -> ArrayRef {
    let codes: Vec<K::Native> = codes.collect();
    Arc::new(PrimitiveArray::<K>::new(codes.into(), of.nulls().cloned()))
}

/// Codes of strings in the order in which they come.
fn strings<T: ByteArrayType<Offset = i32>>(
    array: &ArrayRef,
) -> Result<Option<(ArrayRef, ArrayRef)>> {
    let all: &GenericByteArray<T> = array.as_bytes::<T>();
    let offsets = all.value_offsets();
    let bytes = all.value_data();
    let size = (offsets[array.len()] - offsets[0]) as usize + 4 * array.len();
    let string = |row: usize| &bytes[offsets[row] as usize..offsets[row + 1] as usize];
    // A sample says whether it is worth a try.
    let mut sample: AHashMap<&[u8], u32> = AHashMap::new();
    let step = array.len() / LEAST_ROWS;
    for row in (0..LEAST_ROWS).map(|row| row * step) {
        sample.insert(string(row), 0);
    }
    if sample.len() > LEAST_ROWS / 2 {
        return Ok(None);
    }
    let mut known: AHashMap<&[u8], i16> = AHashMap::with_capacity(sample.len());
    let mut first: Vec<u32> = Vec::new();
    let mut codes: Vec<i16> = Vec::with_capacity(array.len());
    let mut heap = 0;
    for row in 0..array.len() {
        if array.is_null(row) {
            codes.push(0);
            continue;
        }
        let string = string(row);
        let code = match known.get(string) {
            Some(&code) => code,
            None => {
                let code = first.len();
                heap += string.len() + 4;
                if code == MOST_VALUES || !pays(code + 1, heap, array.len(), size) {
                    return Ok(None);
                }
                first.push(row as u32);
                known.insert(string, code as i16);
                code as i16
            }
        };
        codes.push(code);
    }
    let dictionary = take(array, &PrimitiveArray::<UInt32Type>::from(first), None)?;
    let codes = match dictionary.len() <= 1 << 7 {
        true => codes_array::<Int8Type>(codes.into_iter().map(|code| code as i8), array),
        false => codes_array::<Int16Type>(codes.into_iter(), array),
    };
    Ok(Some((codes, dictionary)))
}

/// Whether a dictionary of some values is less than the rows themselves, by a tenth at least.
fn pays(values: usize, bytes: usize, rows: usize, plain: usize) -> bool {
    let code = if values <= 1 << 7 { 1 } else { 2 };
    values <= MOST_VALUES && (rows * code + bytes) * 10 <= plain * 9
}
