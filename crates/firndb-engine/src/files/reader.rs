//! The batches of files.
//!
//! ```text
//!   blocking task: read, decompress, cut ──▶ channel of 2 ──▶ blocking tasks: parse (several at a time) ──▶ batches in file order
//! ```

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::builder::StringViewBuilder;
use arrow::array::{ArrayRef, RecordBatch, new_null_array};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::reader::{FileReader, StreamReader};
use arrow::json::ReaderBuilder;
use datafusion_datasource_json::utils::JsonArrayToNdjsonReader;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use super::chunks::{Boundary, Chunk, Chunks, Lines};
use super::csv::{Dialect, Records};
use super::options::{FileOptions, Format};
use super::paths::{file_error, malformed, open};
use crate::scan::frame::compute_array;
use crate::scan::source::MORSEL_ROWS;
use crate::{Error, Result};

/// How the files of one relation are read.
#[derive(Debug)]
pub struct Reading {
    /// What was said about them.
    pub options: FileOptions,
    /// All columns of a file. For CSV in the types that they are assigned to, else in compute types.
    pub schema: SchemaRef,
    /// CSV: its dialect, and whether a header is passed over.
    pub csv: Option<(Dialect, bool)>,
    /// CSV files whose headers name other columns, or in another order.
    pub orders: HashMap<PathBuf, Order>,
    /// Pieces parsed at a time.
    pub parallelism: usize,
}

/// Where a file has a relation's columns.
#[derive(Debug, Clone)]
pub struct Order {
    /// How many columns the file has.
    pub width: usize,
    /// The place of each of the relation's columns, if the file has it.
    pub places: Arc<[Option<usize>]>,
}

/// The batches of a file, in order, of at most [`MORSEL_ROWS`] rows.
pub fn batches(
    reading: Arc<Reading>,
    path: PathBuf,
    projection: Arc<[usize]>,
) -> BoxStream<'static, Result<RecordBatch>> {
    let order = reading.orders.get(&path).cloned();
    let is_read = |column: &usize| {
        let width = reading.schema.fields().len();
        let has = |order: &Order| order.places.get(*column).is_some_and(Option::is_some);
        *column < width && order.as_ref().is_none_or(has)
    };
    let read: Arc<[usize]> = projection.iter().copied().filter(is_read).collect();
    let completion = (read.len() < projection.len()).then(|| Completion {
        reading: Arc::clone(&reading),
        present: projection.iter().map(is_read).collect(),
        projection: Arc::clone(&projection),
        path: path.clone(),
    });
    let projection = read;
    let whole = match (reading.options.format, reading.csv) {
        (Format::Csv, Some((dialect, header))) => {
            let (schema, projection) = match &order {
                Some(order) => reordered(&reading.schema, order, &projection),
                None => (Arc::clone(&reading.schema), projection),
            };
            let parse = Parser {
                reading,
                schema,
                projection,
                path: path.clone(),
                header,
            };
            pieces(path, dialect, parse, Parser::csv)
        }
        (Format::Json, _) => {
            let parse = Parser {
                schema: Arc::clone(&reading.schema),
                reading,
                projection,
                path: path.clone(),
                header: false,
            };
            pieces(path, Lines(b'\n'), parse, Parser::json)
        }
        _ => arrow_file(reading, path, projection),
    };
    whole
        .map(move |batch| match &completion {
            Some(completion) => completion.complete(&batch?),
            None => batch,
        })
        .map_ok(|batch| stream::iter(split(batch).into_iter().map(Ok)))
        .try_flatten()
        .boxed()
}

/// A file's own columns, and the projection of them, where `order` tells the place of each column in the file.
fn reordered(schema: &SchemaRef, order: &Order, projection: &[usize]) -> (SchemaRef, Arc<[usize]>) {
    let unnamed = Arc::new(Field::new("", DataType::Utf8View, true));
    let mut fields: Vec<FieldRef> = vec![unnamed; order.width];
    for (field, place) in schema.fields().iter().zip(order.places.iter()) {
        if let Some(place) = place {
            fields[*place] = Arc::clone(field);
        }
    }
    let places = projection.iter().filter_map(|&column| order.places[column]);
    (Arc::new(Schema::new(fields)), places.collect())
}

/// Adds to a file's batches the columns that it has not: NULLs, and its own name.
struct Completion {
    reading: Arc<Reading>,
    projection: Arc<[usize]>,
    /// By projected column, whether the batches have it.
    present: Vec<bool>,
    path: PathBuf,
}

impl Completion {
    fn complete(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        let mut read = batch.columns().iter().zip(batch.schema_ref().fields());
        let mut fields: Vec<FieldRef> = Vec::with_capacity(self.projection.len());
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.projection.len());
        for (&column, present) in self.projection.iter().zip(&self.present) {
            if *present {
                let (values, field) = read
                    .next()
                    .ok_or_else(|| Error::internal("a file's batch lacks a column"))?;
                columns.push(Arc::clone(values));
                fields.push(Arc::clone(field));
                continue;
            }
            let field = match self.reading.schema.fields().get(column) {
                Some(field) => Arc::new(crate::types::compute_field(field)),
                None => file_name_field(&self.reading.options),
            };
            columns.push(if column < self.reading.schema.fields().len() {
                new_null_array(field.data_type(), rows)
            } else {
                let name = self.path.to_string_lossy();
                let mut names = StringViewBuilder::new();
                (0..rows).for_each(|_| names.append_value(&name));
                Arc::new(names.finish())
            });
            fields.push(field);
        }
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = Arc::new(Schema::new(fields));
        Ok(RecordBatch::try_new_with_options(
            schema, columns, &options,
        )?)
    }
}

/// The column that tells each row's file.
pub fn file_name_field(options: &FileOptions) -> FieldRef {
    let name = options.filename.as_deref().unwrap_or("filename");
    Arc::new(Field::new(name, DataType::Utf8View, true))
}

fn split(batch: RecordBatch) -> Vec<RecordBatch> {
    let rows = batch.num_rows();
    if rows <= MORSEL_ROWS {
        return if rows == 0 { Vec::new() } else { vec![batch] };
    }
    (0..rows)
        .step_by(MORSEL_ROWS)
        .map(|at| batch.slice(at, MORSEL_ROWS.min(rows - at)))
        .collect()
}

/// What turns a piece into a batch.
#[derive(Clone)]
struct Parser {
    reading: Arc<Reading>,
    /// The columns in the order of the file.
    schema: SchemaRef,
    projection: Arc<[usize]>,
    path: PathBuf,
    header: bool,
}

impl Parser {
    fn csv(&self, chunk: &Chunk, first: bool) -> Result<RecordBatch> {
        let Some((dialect, _)) = self.reading.csv else {
            return Err(Error::internal("a CSV file without a dialect"));
        };
        let schema = &self.schema;
        let columns = schema.fields().len();
        let mut records = Records::parse(chunk, dialect, columns, &self.path)?;
        if first && self.header {
            records.skip(1);
        }
        let options = &self.reading.options.csv;
        records.batch(schema, &self.projection, options, &self.path)
    }

    fn json(&self, chunk: &Chunk, _first: bool) -> Result<RecordBatch> {
        let schema = Arc::new(self.schema.project(&self.projection)?);
        let place = |error: ArrowError| {
            malformed(&self.path, "JSON", &error).with_detail(format!(
                "In the lines from {} on of file \"{}\".",
                chunk.line,
                self.path.display()
            ))
        };
        // The decoder sets room for a batch aside, so that is no larger than the piece can fill.
        let bytes = chunk.bytes.as_slice();
        let lines = memchr::memchr_iter(b'\n', bytes).count() + 1;
        let reader = ReaderBuilder::new(Arc::clone(&schema))
            .with_batch_size(lines)
            .with_coerce_primitive(true)
            .build(bytes)
            .map_err(place)?;
        let batches = reader
            .collect::<std::result::Result<Vec<_>, _>>()
            .map_err(place)?;
        Ok(arrow::compute::concat_batches(&schema, &batches)?)
    }
}

/// Reads a text file in pieces and parses them in parallel.
fn pieces<B: Boundary>(
    path: PathBuf,
    boundary: B,
    parser: Parser,
    parse: fn(&Parser, &Chunk, bool) -> Result<RecordBatch>,
) -> BoxStream<'static, Result<RecordBatch>> {
    let parallelism = parser.reading.parallelism.max(1);
    let reading = Arc::clone(&parser.reading);
    let (sender, receiver) = mpsc::channel::<Result<(Chunk, bool)>>(2);
    let cut = move || {
        let opened = open_text(&path, &reading.options);
        let mut chunks = match opened {
            Ok(reader) => Chunks::new(reader, &path, boundary),
            Err(error) => {
                let _ = sender.blocking_send(Err(error));
                return;
            }
        };
        let mut first = true;
        for chunk in &mut chunks {
            // The receiver is gone when nobody wants more.
            if sender.blocking_send(chunk.map(|c| (c, first))).is_err() {
                return;
            }
            first = false;
        }
    };
    stream::once(async move {
        let cutter = spawn_blocking(cut);
        received(receiver)
            .chain(finished(cutter))
            .map(move |chunk| {
                let parser = parser.clone();
                async move {
                    let (chunk, first) = chunk?;
                    spawn_blocking(move || parse(&parser, &chunk, first))
                        .await
                        .map_err(lost)?
                }
            })
            .buffered(parallelism)
    })
    .flatten()
    .boxed()
}

fn received<T: Send + 'static>(receiver: mpsc::Receiver<T>) -> impl futures::Stream<Item = T> {
    stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|item| (item, receiver))
    })
}

/// Nothing, or the error of a task that did not end well: a lost task must not look like the end of a file.
fn finished<T: Send + 'static>(
    task: tokio::task::JoinHandle<()>,
) -> impl futures::Stream<Item = Result<T>> {
    stream::once(task).filter_map(|ended| async move { ended.err().map(|e| Err(lost(e))) })
}

fn lost(error: tokio::task::JoinError) -> Error {
    Error::internal(format!("reading a file: {error}"))
}

fn open_text(path: &Path, options: &FileOptions) -> Result<Box<dyn Read + Send>> {
    match options.format {
        Format::Json => Ok(Box::new(JsonLines::open(path, options)?)),
        _ => passed_lines(open(path, options.compression)?, options, path),
    }
}

/// Passes over the first lines.
pub fn passed_lines(
    mut reader: Box<dyn Read + Send>,
    options: &FileOptions,
    path: &Path,
) -> Result<Box<dyn Read + Send>> {
    let lines = options.csv.skip;
    if lines == 0 {
        return Ok(reader);
    }
    let mut buffered = BufReader::new(reader);
    let mut line = Vec::new();
    for _ in 0..lines {
        line.clear();
        std::io::BufRead::read_until(&mut buffered, options.csv.line_end(), &mut line)
            .map_err(|e| file_error(path, "read", &e))?;
    }
    reader = Box::new(buffered);
    Ok(reader)
}

/// What some editors begin a UTF-8 file with.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// A JSON file as lines of objects, whether it has them one a line or in one array.
pub struct JsonLines {
    lines: Box<dyn Read + Send>,
}

impl JsonLines {
    /// Opens a file. Its first byte that is not blank tells an array, unless the options do.
    pub fn open(path: &Path, options: &FileOptions) -> Result<Self> {
        let mut reader = open(path, options.compression)?;
        let mut start = Vec::new();
        let mut array = options.array;
        while array.is_none() {
            let before = start.len();
            reader
                .by_ref()
                .take(4096)
                .read_to_end(&mut start)
                .map_err(|e| file_error(path, "read", &e))?;
            let text = start.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&start);
            let first = text.iter().find(|b| !b.is_ascii_whitespace());
            array = first.map(|b| *b == b'[');
            if start.len() == before {
                break;
            }
        }
        if start.starts_with(BYTE_ORDER_MARK) {
            start.drain(..BYTE_ORDER_MARK.len());
        }
        let whole = std::io::Cursor::new(start).chain(reader);
        let lines: Box<dyn Read + Send> = if array == Some(true) {
            Box::new(ArrayLines(JsonArrayToNdjsonReader::new(whole)))
        } else {
            Box::new(whole)
        };
        Ok(JsonLines { lines })
    }
}

impl Read for JsonLines {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.lines.read(buffer)
    }
}

/// The objects of an array; an array that does not close is an error at its end.
struct ArrayLines<R: Read>(JsonArrayToNdjsonReader<R>);

impl<R: Read> Read for ArrayLines<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.0.read(buffer)?;
        if read == 0 && !buffer.is_empty() {
            self.0.validate_complete()?;
        }
        Ok(read)
    }
}

/// Reads an Arrow file or stream.
fn arrow_file(
    reading: Arc<Reading>,
    path: PathBuf,
    projection: Arc<[usize]>,
) -> BoxStream<'static, Result<RecordBatch>> {
    let (sender, receiver) = mpsc::channel(2);
    let read = move || {
        let outcome = arrow_batches(&path, |batch| {
            let union = reading.options.union_by_name;
            let shown = shown_batch(&reading.schema, &projection, &batch, &path, union);
            sender.blocking_send(shown).is_ok()
        });
        if let Err(error) = outcome {
            let _ = sender.blocking_send(Err(error));
        }
    };
    stream::once(async move {
        let task = spawn_blocking(read);
        received(receiver).chain(finished(task))
    })
    .flatten()
    .boxed()
}

/// Calls `take` with each batch until it wants no more.
fn arrow_batches(path: &Path, mut take: impl FnMut(RecordBatch) -> bool) -> Result<()> {
    let reopen = || File::open(path).map_err(|e| file_error(path, "open", &e));
    let bad = |e: ArrowError| malformed(path, "Arrow", &e);
    let batches: Box<dyn Iterator<Item = std::result::Result<RecordBatch, ArrowError>>> =
        match FileReader::try_new(BufReader::new(reopen()?), None) {
            Ok(reader) => Box::new(reader),
            Err(_) => {
                Box::new(StreamReader::try_new(BufReader::new(reopen()?), None).map_err(bad)?)
            }
        };
    for batch in batches {
        if !take(batch.map_err(bad)?) {
            break;
        }
    }
    Ok(())
}

/// The projected columns, found by name, in the types of `schema`.
fn shown_batch(
    schema: &SchemaRef,
    projection: &[usize],
    batch: &RecordBatch,
    path: &Path,
    union: bool,
) -> Result<RecordBatch> {
    let shown = Arc::new(schema.project(projection)?);
    let mut columns = Vec::with_capacity(projection.len());
    for field in shown.fields() {
        columns.push(match batch.column_by_name(field.name()) {
            Some(column) => compute_array(column, field.data_type())?,
            None if union => new_null_array(field.data_type(), batch.num_rows()),
            None => return Err(missing_column(path, field.name())),
        });
    }
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(shown, columns, &options)?)
}

/// A file of several that lacks a column of the first.
pub fn missing_column(path: &Path, column: &str) -> Error {
    Error::new(
        crate::SqlState::BadCopyFileFormat,
        format!("file \"{}\" has no column \"{column}\"", path.display()),
    )
}
