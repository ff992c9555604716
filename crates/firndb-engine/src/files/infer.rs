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

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::ipc::reader::{FileReader, StreamReader};
use arrow::json::reader::infer_json_schema;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};

use super::chunks::{Chunk, Chunks};
use super::csv::{Dialect, Records};
use super::kinds::{Kinds, is_code, kinds_of};
use super::options::{CsvOptions, FileOptions, Format, Newline};
use super::paths::{file_error, malformed, open};
use super::reader::{JsonLines, Order, missing_column, passed_lines};
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

/// The options with what ends a line, which is `\r` where the file's beginning has that alone.
pub fn with_newline(path: &Path, options: FileOptions) -> Result<FileOptions> {
    let mut options = options;
    if options.format == Format::Csv && options.csv.newline.is_none() {
        let mut bytes = Vec::new();
        open(path, options.compression)?
            .take(1 << 20)
            .read_to_end(&mut bytes)
            .map_err(|e| file_error(path, "read", &e))?;
        let returns = memchr::memchr2(b'\n', b'\r', &bytes).is_some_and(|at| bytes[at] == b'\r')
            && memchr::memchr(b'\n', &bytes).is_none();
        options.csv.newline = Some(match returns {
            true => Newline::Return,
            false => Newline::Feed,
        });
    }
    Ok(options)
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
        None => match &options.columns {
            None => is_header(&records, &first, &rest),
            Some(columns) => has_names(&records, columns),
        },
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
                    .find(|t| t.name().eq_ignore_ascii_case(&name))
                    .or_else(|| options.first_types.get(column));
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
    if options.first_types.len() > fields.len() {
        return Err(Error::new(
            SqlState::InvalidParameterValue,
            format!(
                "{} types are given, but the file has {} columns",
                options.first_types.len(),
                fields.len()
            ),
        ));
    }
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

/// The columns of several files by name, each nullable and of a type that all of its values fit.
pub fn union(schemas: &[SchemaRef]) -> SchemaRef {
    let mut fields: Vec<FieldRef> = Vec::new();
    for field in schemas.iter().flat_map(|schema| schema.fields()) {
        let known = fields
            .iter_mut()
            .find(|known| known.name().eq_ignore_ascii_case(field.name()));
        let Some(known) = known else {
            fields.push(Arc::new(field.as_ref().clone().with_nullable(true)));
            continue;
        };
        let common = common_type(known.data_type(), field.data_type());
        if *known.data_type() != common {
            *known = Arc::new(Field::new(known.name(), common, true));
        }
    }
    Arc::new(Schema::new(fields))
}

fn common_type(one: &DataType, other: &DataType) -> DataType {
    use DataType::{Date32, Decimal128, Timestamp};
    match (one, other) {
        (one, other) if one == other => one.clone(),
        (Decimal128(..), whole) | (whole, Decimal128(..)) if whole.is_integer() => {
            Decimal128(38, 0)
        }
        (one, other) if one.is_integer() && other.is_integer() => DataType::Int64,
        (one, other) if one.is_numeric() && other.is_numeric() => DataType::Float64,
        (Date32, stamp @ Timestamp(_, None)) | (stamp @ Timestamp(_, None), Date32) => {
            stamp.clone()
        }
        _ => DataType::Utf8View,
    }
}

/// The place of each of `schema`'s columns in another file with a header; `None` where it is the same.
pub fn csv_order(
    path: &Path,
    options: &FileOptions,
    dialect: Dialect,
    schema: &SchemaRef,
) -> Result<Option<Order>> {
    let chunk = first_chunk(path, options)?;
    let mut records = sample(path, dialect, &chunk)?;
    if records.is_empty() {
        return Ok(None);
    }
    let width = records.width(0);
    let names = names(&mut records, width, true, options);
    let places: Arc<[Option<usize>]> = schema
        .fields()
        .iter()
        .map(|field| {
            let wanted = field.name();
            names
                .iter()
                .position(|name| name == wanted)
                .or_else(|| names.iter().position(|n| n.eq_ignore_ascii_case(wanted)))
                .map_or_else(
                    || match options.union_by_name {
                        true => Ok(None),
                        false => Err(missing_column(path, wanted)),
                    },
                    |place| Ok(Some(place)),
                )
        })
        .collect::<Result<_>>()?;
    let extra = (0..width).find(|place| !places.contains(&Some(*place)));
    if extra.is_some() {
        let name = extra.map_or("", |place| names[place].as_str());
        return Err(Error::new(
            SqlState::BadCopyFileFormat,
            format!(
                "file \"{}\" has a column \"{name}\" that the first file has not",
                path.display()
            ),
        ));
    }
    let same = places
        .iter()
        .enumerate()
        .all(|(column, &place)| place == Some(column));
    Ok((!same).then_some(Order { width, places }))
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
    let whole = passed_lines(whole, options, path)?;
    // A sample that ends inside a record is cut at its last whole one by the caller's dialect; lines do for a start.
    let mut chunks = Chunks::new(whole, path, super::chunks::Lines(options.csv.line_end()));
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
            let base = match options.csv.normalize_names {
                true => normalized(&base),
                false => base,
            };
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

/// A name in lower case, of letters, digits and underscores.
fn normalized(name: &str) -> String {
    let plain = |one: char| if one.is_alphanumeric() { one } else { '_' };
    let name: String = name.trim().to_lowercase().chars().map(plain).collect();
    match name.starts_with(|first: char| first.is_ascii_digit()) {
        true => format!("_{name}"),
        false => name,
    }
}

/// Whether the first record has the names of these columns.
fn has_names(records: &Records, columns: &[FieldRef]) -> bool {
    !records.is_empty()
        && records.width(0) == columns.len()
        && columns.iter().enumerate().all(|(place, column)| {
            let written = records.field(0, place);
            written.is_some_and(|(text, _)| text.trim().eq_ignore_ascii_case(column.name()))
        })
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
