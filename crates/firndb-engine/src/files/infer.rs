//! The columns of a file, found out from its beginning (CSV, JSON) or its metadata (Parquet, Arrow).
//!
//! A CSV column has the first of these types that all sampled values are: BOOLEAN, BIGINT, DECIMAL(38,0), DOUBLE, DATE, TIMESTAMP,
//! TIMESTAMP WITH TIME ZONE, TIME, VARCHAR; numbers with leading zeros are text. The first record is a header when it is all text and either
//! some column below has another type, or every column is text and has a name of its own.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};
use arrow::ipc::reader::{FileReader, StreamReader};
use arrow::json::reader::infer_json_schema;
use chrono::{NaiveDate, NaiveTime};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};

use super::chunks::{Chunk, Chunks};
use super::csv::{Dialect, Records};
use super::options::{CsvOptions, FileOptions, Format};
use super::paths::{file_error, open};
use super::reader::{JsonLines, missing_column, passed_lines};
use crate::scan::frame::compute_schema;
use crate::{Error, Result, SqlState};

/// Delimiters that are tried, in this order.
const DELIMITERS: [u8; 4] = [b',', b'\t', b';', b'|'];
/// Records by which delimiters are compared.
const COMPARED: usize = 100;
/// JSON objects from which a schema is found out.
const JSON_SAMPLE: usize = 20_480;

/// What was found out about a CSV file.
#[derive(Debug, Clone)]
pub struct CsvShape {
    /// Its dialect.
    pub dialect: Dialect,
    /// Whether its first record names the columns.
    pub header: bool,
    /// Its columns, nullable, in types that the engine computes with.
    pub schema: SchemaRef,
}

/// The columns of a file that is no CSV.
pub fn schema(path: &Path, options: &FileOptions) -> Result<SchemaRef> {
    if let Some(columns) = &options.columns {
        return Ok(compute_schema(&Schema::new(columns.clone())));
    }
    let found = match options.format {
        Format::Parquet => {
            let file = File::open(path).map_err(|e| file_error(path, "open", &e))?;
            let metadata = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new())
                .map_err(|e| malformed(path, "Parquet", &e))?;
            Arc::clone(metadata.schema())
        }
        Format::Arrow => {
            let file = File::open(path).map_err(|e| file_error(path, "open", &e))?;
            match FileReader::try_new(BufReader::new(&file), None) {
                Ok(reader) => reader.schema(),
                Err(_) => {
                    let again = File::open(path).map_err(|e| file_error(path, "open", &e))?;
                    StreamReader::try_new(BufReader::new(again), None)
                        .map_err(|e| malformed(path, "Arrow", &e))?
                        .schema()
                }
            }
        }
        Format::Json => {
            let lines = JsonLines::open(path, options)?;
            let (found, _) = infer_json_schema(BufReader::new(lines), Some(JSON_SAMPLE))
                .map_err(|e| malformed(path, "JSON", &e))?;
            Arc::new(found)
        }
        Format::Csv => return Ok(csv(path, options)?.schema),
    };
    let shown = compute_schema(&found);
    // What a file notes for itself is no part of the columns; nothing promises that values are there.
    let fields: Vec<FieldRef> = shown
        .fields()
        .iter()
        .map(|f| Arc::new(f.as_ref().clone().with_nullable(true)))
        .collect();
    Ok(Arc::new(Schema::new(fields)))
}

/// A file that is not what it should be.
pub fn malformed(path: &Path, format: &str, error: &dyn std::error::Error) -> Error {
    Error::new(
        SqlState::BadCopyFileFormat,
        format!("file \"{}\" is not valid {format}: {error}", path.display()),
    )
}

/// Finds out dialect, header and columns of a CSV file.
pub fn csv(path: &Path, options: &FileOptions) -> Result<CsvShape> {
    let chunk = first_chunk(path, options)?;
    let dialect = dialect(path, &options.csv, &chunk);
    let mut records = sample(path, dialect, &chunk)?;
    // The first record says how many columns there are; with padding, later ones may have more.
    let compared = if options.csv.null_padding {
        COMPARED
    } else {
        1
    };
    let width = (0..records.len().min(compared))
        .map(|r| records.width(r))
        .max()
        .unwrap_or(0);
    if width == 0 && options.columns.is_none() && options.names.is_none() {
        return Err(Error::new(
            SqlState::BadCopyFileFormat,
            format!(
                "file \"{}\" is empty: its columns can't be found out",
                path.display()
            ),
        ));
    }
    let rows = records.len().min(options.csv.sample);
    let first: Vec<Kinds> = (0..width)
        .map(|column| kinds_of(&records, 0..1.min(rows), column, &options.csv))
        .collect();
    let rest: Vec<Kinds> = (0..width)
        .map(|column| kinds_of(&records, 1.min(rows)..rows, column, &options.csv))
        .collect();
    let header = match options.csv.header {
        Some(header) => header,
        None => options.columns.is_none() && is_header(&records, &first, &rest),
    };
    let kinds = |column: usize| {
        if header {
            rest[column]
        } else {
            first[column].and(rest[column])
        }
    };
    let fields: Vec<FieldRef> = if let Some(columns) = &options.columns {
        columns.clone()
    } else {
        let names = names(&mut records, width, header, options);
        (0..width.max(names.len()))
            .map(|column| {
                let name = names[column].clone();
                let typed = options
                    .types
                    .iter()
                    .find(|t| t.name().eq_ignore_ascii_case(&name));
                match typed {
                    Some(field) => Arc::new(field.as_ref().clone().with_name(name)),
                    None => {
                        let known = column < width && !options.csv.all_varchar;
                        let data_type = if known {
                            kinds(column).data_type()
                        } else {
                            DataType::Utf8View
                        };
                        Arc::new(Field::new(name, data_type, true))
                    }
                }
            })
            .collect()
    };
    for typed in &options.types {
        if !fields
            .iter()
            .any(|f| f.name().eq_ignore_ascii_case(typed.name()))
        {
            return Err(Error::new(
                SqlState::UndefinedColumn,
                format!("column \"{}\" does not exist in the file", typed.name()),
            ));
        }
    }
    Ok(CsvShape {
        dialect,
        header,
        schema: Arc::new(Schema::new(fields)),
    })
}

/// The place of each of `schema`'s columns in another file with a header; `None` where it is the same.
pub fn csv_order(
    path: &Path,
    options: &FileOptions,
    dialect: Dialect,
    schema: &SchemaRef,
) -> Result<Option<Arc<[usize]>>> {
    let chunk = first_chunk(path, options)?;
    let mut records = sample(path, dialect, &chunk)?;
    if records.is_empty() {
        return Ok(None);
    }
    let width = records.width(0);
    let names = names(&mut records, width, true, options);
    let order: Arc<[usize]> = schema
        .fields()
        .iter()
        .map(|field| {
            let wanted = field.name();
            names
                .iter()
                .position(|name| name == wanted)
                .or_else(|| names.iter().position(|n| n.eq_ignore_ascii_case(wanted)))
                .ok_or_else(|| missing_column(path, wanted))
        })
        .collect::<Result<_>>()?;
    if width > order.len() {
        let extra = (0..width).find(|place| !order.contains(place));
        let name = extra.map_or("", |place| names[place].as_str());
        return Err(Error::new(
            SqlState::BadCopyFileFormat,
            format!(
                "file \"{}\" has a column \"{name}\" that the first file has not",
                path.display()
            ),
        ));
    }
    let same = order
        .iter()
        .enumerate()
        .all(|(column, &place)| column == place);
    Ok((!same).then_some(order))
}

/// The delimiter, where the options don't give it, and what follows from it.
pub fn dialect(path: &Path, options: &CsvOptions, chunk: &Chunk) -> Dialect {
    if let Some(delimiter) = options.delimiter {
        return Dialect::new(options, delimiter);
    }
    let mut best = (1, Dialect::new(options, b','));
    for delimiter in DELIMITERS {
        let candidate = Dialect::new(options, delimiter);
        let Ok(records) = sample(path, candidate, chunk) else {
            continue;
        };
        let count = records.len().min(COMPARED);
        if count == 0 {
            continue;
        }
        let width = records.width(0);
        let even = (0..count).all(|r| records.width(r) == width);
        if even && width > best.0 {
            best = (width, candidate);
        }
    }
    if best.0 == 1
        && path
            .extension()
            .is_some_and(|e| e.eq_ignore_ascii_case("tsv"))
    {
        return Dialect::new(options, b'\t');
    }
    best.1
}

/// The beginning of a file, lines to skip left out.
pub fn first_chunk(path: &Path, options: &FileOptions) -> Result<Chunk> {
    let mut reader = open(path, options.compression)?;
    let mut bytes = Vec::new();
    reader
        .by_ref()
        .take(1 << 20)
        .read_to_end(&mut bytes)
        .map_err(|e| file_error(path, "read", &e))?;
    let whole: Box<dyn Read + Send> = Box::new(std::io::Cursor::new(bytes));
    let whole = passed_lines(whole, options.csv.skip, path)?;
    // A sample that ends inside a record is cut at its last whole one by the caller's dialect; lines do for a start.
    let mut chunks = Chunks::new(whole, path, super::chunks::Lines);
    match chunks.next() {
        Some(chunk) => chunk,
        None => Ok(Chunk {
            bytes: Vec::<u8>::new().into(),
            line: 1,
        }),
    }
}

/// The whole records of a beginning.
fn sample(path: &Path, dialect: Dialect, chunk: &Chunk) -> Result<Records> {
    use super::chunks::Boundary;
    match Records::parse(chunk, dialect, 0, path) {
        Ok(records) => Ok(records),
        // The sample ends inside quotes.
        Err(error) => match dialect.last_end(chunk.bytes.as_slice()) {
            Some(end) if end < chunk.bytes.len() => {
                let whole = Chunk {
                    bytes: chunk.bytes.slice_with_length(0, end),
                    line: chunk.line,
                };
                Records::parse(&whole, dialect, 0, path)
            }
            _ => Err(error),
        },
    }
}

/// The columns' names: the header's, made unique, or `column0`, `column1` …
fn names(records: &mut Records, width: usize, header: bool, options: &FileOptions) -> Vec<String> {
    let mut taken = HashSet::new();
    let mut names: Vec<String> = (0..width)
        .map(|column| {
            let written = records
                .field(0, column)
                .map(|(text, _)| text)
                .filter(|text| header && !text.trim().is_empty());
            let base = written.unwrap_or_else(|| format!("column{column}"));
            let mut name = base.clone();
            let mut number = 1;
            while !taken.insert(name.to_lowercase()) {
                name = format!("{base}_{number}");
                number += 1;
            }
            name
        })
        .collect();
    if let Some(given) = &options.names {
        for (position, name) in given.iter().enumerate() {
            match names.get_mut(position) {
                Some(slot) => slot.clone_from(name),
                None => names.push(name.clone()),
            }
        }
    }
    names
}

fn is_header(records: &Records, first: &[Kinds], rest: &[Kinds]) -> bool {
    if records.is_empty() {
        return false;
    }
    let blank = |column: usize| {
        records
            .field(0, column)
            .is_none_or(|(text, _)| text.trim().is_empty())
    };
    let columns = 0..first.len();
    if columns.clone().all(blank) {
        return false;
    }
    let is_name = |column: usize| {
        let code = records
            .field(0, column)
            .is_some_and(|(text, _)| is_code(text.trim().as_bytes()));
        first[column].is_text() && !code
    };
    let all_text = columns.clone().all(|c| blank(c) || is_name(c));
    // Names are rarely missing or doubled: then something below must tell that these are names.
    let mut seen = HashSet::new();
    let distinct = columns.clone().all(|column| {
        !blank(column)
            && records
                .field(0, column)
                .is_some_and(|(text, _)| seen.insert(text.to_lowercase()))
    });
    let typed_below = columns
        .clone()
        .any(|c| !blank(c) && !rest[c].is_text() && !rest[c].is_unknown());
    all_text
        && (distinct && (records.len() > 1 || rest.iter().all(|k| k.is_unknown())) || typed_below)
}

/// The types that all values so far can have, as a set of bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Kinds(u8);

impl Kinds {
    const BOOLEAN: u8 = 1;
    const INTEGER: u8 = 2;
    const DOUBLE: u8 = 4;
    const DATE: u8 = 8;
    const TIMESTAMP: u8 = 16;
    const ZONED: u8 = 32;
    const TIME: u8 = 64;
    /// Integers, some beyond BIGINT.
    const DECIMAL: u8 = 128;
    /// No value seen.
    const ANY: Kinds = Kinds(255);

    fn and(self, other: Kinds) -> Kinds {
        Kinds(self.0 & other.0)
    }

    fn is_text(self) -> bool {
        self.0 == 0
    }

    fn is_unknown(self) -> bool {
        self == Kinds::ANY
    }

    fn of(text: &str) -> Kinds {
        let text = text.trim();
        if text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false") {
            return Kinds(Kinds::BOOLEAN);
        }
        // `007` is a code: as a number it would lose its zeros.
        let digits = text.trim_start_matches(['+', '-']).as_bytes();
        if is_code(digits) {
            return Kinds(0);
        }
        if text.parse::<i64>().is_ok() {
            return Kinds(Kinds::INTEGER | Kinds::DECIMAL | Kinds::DOUBLE);
        }
        if digits.len() <= 38 && digits.iter().all(u8::is_ascii_digit) && !digits.is_empty() {
            return Kinds(Kinds::DECIMAL | Kinds::DOUBLE);
        }
        let numeric = |b: u8| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-');
        if text.bytes().all(numeric) && text.parse::<f64>().is_ok_and(f64::is_finite) {
            return Kinds(Kinds::DOUBLE);
        }
        if is_time(text) {
            return Kinds(Kinds::TIME);
        }
        let Some((date, rest)) = text.split_at_checked(10) else {
            return Kinds(0);
        };
        if !date.is_ascii() || NaiveDate::parse_from_str(date, "%Y-%m-%d").is_err() {
            return Kinds(0);
        }
        if rest.is_empty() {
            return Kinds(Kinds::DATE | Kinds::TIMESTAMP);
        }
        let Some(time) = rest.strip_prefix([' ', 'T']) else {
            return Kinds(0);
        };
        if is_time(time) {
            return Kinds(Kinds::TIMESTAMP);
        }
        let zone = time
            .find(['Z', '+', '-'])
            .filter(|at| is_time(&time[..*at]) && is_zone(&time[*at..]));
        Kinds(if zone.is_some() { Kinds::ZONED } else { 0 })
    }

    fn data_type(self) -> DataType {
        let has = |bit: u8| self.0 & bit != 0;
        match self {
            k if k.is_unknown() || k.is_text() => DataType::Utf8View,
            _ if has(Kinds::BOOLEAN) => DataType::Boolean,
            _ if has(Kinds::INTEGER) => DataType::Int64,
            _ if has(Kinds::DECIMAL) => DataType::Decimal128(38, 0),
            _ if has(Kinds::DOUBLE) => DataType::Float64,
            _ if has(Kinds::DATE) => DataType::Date32,
            _ if has(Kinds::TIMESTAMP) => DataType::Timestamp(TimeUnit::Microsecond, None),
            _ if has(Kinds::ZONED) => {
                DataType::Timestamp(TimeUnit::Microsecond, Some(crate::types::UTC.into()))
            }
            _ => DataType::Time64(TimeUnit::Microsecond),
        }
    }
}

/// A number with leading zeros.
fn is_code(digits: &[u8]) -> bool {
    matches!(digits, [b'0', next, ..] if next.is_ascii_digit())
        && digits.iter().all(|b| b.is_ascii_digit() || *b == b'.')
}

fn is_time(text: &str) -> bool {
    text.len() >= 5
        && text.as_bytes()[0].is_ascii_digit()
        && ["%H:%M:%S%.f", "%H:%M"]
            .iter()
            .any(|format| NaiveTime::parse_from_str(text, format).is_ok())
}

fn is_zone(text: &str) -> bool {
    let digits = text.trim_start_matches(['+', '-']).replace(':', "");
    text == "Z" || (matches!(digits.len(), 2 | 4) && digits.bytes().all(|b| b.is_ascii_digit()))
}

fn kinds_of(
    records: &Records,
    rows: std::ops::Range<usize>,
    column: usize,
    options: &CsvOptions,
) -> Kinds {
    let mut kinds = Kinds::ANY;
    for record in rows {
        let Some((text, quoted)) = records.field(record, column) else {
            continue;
        };
        if !quoted && options.nulls.contains(&text) {
            continue;
        }
        kinds = kinds.and(Kinds::of(&text));
        if kinds.is_text() {
            break;
        }
    }
    kinds
}
