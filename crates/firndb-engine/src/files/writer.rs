//! Batches to a file.
//!
//! A file is written under a temporary name beside its place and renamed when it is whole, so nobody ever sees half of it; a writer that is
//! dropped before [`FileWriter::finish`] takes its file away. What exists and is no file (a pipe, a device) is written to directly.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::Array;
use arrow::array::{ArrayRef, AsArray, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::ipc::CompressionType;
use arrow::ipc::writer::{FileWriter as IpcFile, IpcWriteOptions, StreamWriter as IpcStream};
use arrow::json::writer::{JsonArray, LineDelimited, Writer as JsonWriter, WriterBuilder};
use parquet::arrow::ArrowWriter;
use parquet::basic::{BrotliLevel, Compression as Codec, GzipLevel, ZstdLevel};
use parquet::file::properties::WriterProperties;

use super::options::{Compression, CsvOptions, FileOptions, Format, Newline};
use super::paths::file_error;
use super::target::Target;
use crate::expr::{moments_as, show};
use crate::types::{full, retyped};
use crate::{Error, Result, SqlState};

/// A file being written.
pub struct FileWriter {
    sink: Option<Sink>,
    schema: SchemaRef,
    shown: SchemaRef,
    place: PathBuf,
    /// The temporary name, until it is renamed.
    temporary: Option<PathBuf>,
    rows: u64,
}

enum Sink {
    Csv(CsvSink),
    JsonLines(JsonWriter<Output, LineDelimited>),
    JsonArray(JsonWriter<Output, JsonArray>),
    Parquet(Box<ArrowWriter<Output>>),
    ArrowFile(Box<IpcFile<Output>>),
    ArrowStream(Box<IpcStream<Output>>),
}

impl FileWriter {
    /// Begins a file with the columns of `schema`.
    pub fn create(path: &Path, schema: &SchemaRef, options: &FileOptions) -> Result<Self> {
        let special = std::fs::metadata(path).is_ok_and(|m| !m.is_file());
        if special && std::fs::metadata(path).is_ok_and(|m| m.is_dir()) {
            return Err(Error::new(
                SqlState::WrongObjectType,
                format!("\"{}\" is a directory", path.display()),
            ));
        }
        let temporary = (!special).then(|| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            path.with_file_name(format!(".{name}.{}.tmp", uuid::Uuid::new_v4().simple()))
        });
        let target = temporary.as_deref().unwrap_or(path);
        let file = File::create(target).map_err(|e| file_error(path, "write to", &e))?;
        let shown = shown_schema(schema, options.format);
        let mut writer = FileWriter {
            sink: None,
            schema: Arc::clone(schema),
            shown,
            place: path.to_owned(),
            temporary,
            rows: 0,
        };
        writer.sink = Some(writer.open_sink(Target::new(file), options)?);
        Ok(writer)
    }

    fn open_sink(&self, file: Target, options: &FileOptions) -> Result<Sink> {
        let shown = &self.shown;
        Ok(match options.format {
            Format::Csv => {
                let output = Output::compressed(file, &self.place, options)?;
                let mut sink = CsvSink::new(output, &options.csv, shown);
                if options.csv.header != Some(false) {
                    sink.header(shown).map_err(|e| self.failed(&e))?;
                }
                Sink::Csv(sink)
            }
            Format::Json => {
                let output = Output::compressed(file, &self.place, options)?;
                let builder = WriterBuilder::new().with_explicit_nulls(true);
                if options.array == Some(true) {
                    Sink::JsonArray(builder.build(output))
                } else {
                    Sink::JsonLines(builder.build(output))
                }
            }
            Format::Parquet => {
                let mut properties =
                    WriterProperties::builder().set_compression(parquet_codec(options)?);
                if let Some(rows) = options.row_group {
                    properties = properties.set_max_row_group_row_count(Some(rows));
                }
                let output = Output::Plain(BufWriter::with_capacity(1 << 20, file));
                let writer =
                    ArrowWriter::try_new(output, Arc::clone(shown), Some(properties.build()))
                        .map_err(|e| self.refused(&e))?;
                Sink::Parquet(Box::new(writer))
            }
            Format::Arrow => {
                let codec = match options.compression.unwrap_or(Compression::None) {
                    Compression::None => None,
                    Compression::Lz4 => Some(CompressionType::LZ4_FRAME),
                    Compression::Zstd => Some(CompressionType::ZSTD),
                    other => return Err(unfit(other, "Arrow")),
                };
                let ipc = IpcWriteOptions::default().try_with_compression(codec)?;
                let output = Output::Plain(BufWriter::with_capacity(1 << 20, file));
                let is_stream = self
                    .place
                    .extension()
                    .is_some_and(|e| e.eq_ignore_ascii_case("arrows"));
                if is_stream {
                    let writer = IpcStream::try_new_with_options(output, shown, ipc)?;
                    Sink::ArrowStream(Box::new(writer))
                } else {
                    let writer = IpcFile::try_new_with_options(output, shown, ipc)?;
                    Sink::ArrowFile(Box::new(writer))
                }
            }
        })
    }

    fn failed(&self, error: &std::io::Error) -> Error {
        file_error(&self.place, "write to", error)
    }

    fn refused(&self, error: &dyn std::error::Error) -> Error {
        Error::new(
            SqlState::IoError,
            format!(
                "could not write to file \"{}\": {error}",
                self.place.display()
            ),
        )
    }

    /// Writes rows.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let shown = shown_batch(batch, &self.schema, &self.shown)?;
        self.rows += batch.num_rows() as u64;
        let Some(mut sink) = self.sink.take() else {
            return Err(Error::internal("the file is finished"));
        };
        match &mut sink {
            Sink::Csv(csv) => csv.write(batch, &self.schema, &self.place)?,
            Sink::JsonLines(json) => json.write(&shown).map_err(|e| self.refused(&e))?,
            Sink::JsonArray(json) => json.write(&shown).map_err(|e| self.refused(&e))?,
            Sink::Parquet(parquet) => parquet.write(&shown).map_err(|e| self.refused(&e))?,
            Sink::ArrowFile(ipc) => ipc.write(&shown).map_err(|e| self.refused(&e))?,
            Sink::ArrowStream(ipc) => ipc.write(&shown).map_err(|e| self.refused(&e))?,
        }
        self.sink = Some(sink);
        Ok(())
    }

    /// Completes the file and gives it its name. Returns the rows written.
    pub fn finish(mut self) -> Result<u64> {
        let Some(sink) = self.sink.take() else {
            return Err(Error::internal("the file is finished"));
        };
        let output = match sink {
            Sink::Csv(csv) => csv.output,
            Sink::JsonLines(mut json) => {
                json.finish().map_err(|e| self.refused(&e))?;
                json.into_inner()
            }
            Sink::JsonArray(mut json) => {
                json.finish().map_err(|e| self.refused(&e))?;
                json.into_inner()
            }
            Sink::Parquet(parquet) => parquet.into_inner().map_err(|e| self.refused(&e))?,
            Sink::ArrowFile(mut ipc) => {
                ipc.finish().map_err(|e| self.refused(&e))?;
                ipc.into_inner().map_err(|e| self.refused(&e))?
            }
            Sink::ArrowStream(mut ipc) => {
                ipc.finish().map_err(|e| self.refused(&e))?;
                ipc.into_inner().map_err(|e| self.refused(&e))?
            }
        };
        output.finish().map_err(|e| self.failed(&e))?;
        if let Some(temporary) = &self.temporary {
            std::fs::rename(temporary, &self.place).map_err(|e| self.failed(&e))?;
        }
        self.temporary = None;
        Ok(self.rows)
    }
}

impl Drop for FileWriter {
    fn drop(&mut self) {
        self.sink = None;
        if let Some(temporary) = self.temporary.take() {
            // Nothing more can be done about a file that can't be removed.
            let _ = std::fs::remove_file(temporary);
        }
    }
}

/// Where bytes go, compressed or not.
enum Output {
    Plain(BufWriter<Target>),
    Gzip(Box<flate2::write::GzEncoder<BufWriter<Target>>>),
    Zstd(Box<zstd::Encoder<'static, BufWriter<Target>>>),
}

impl Output {
    fn compressed(file: Target, path: &Path, options: &FileOptions) -> Result<Output> {
        let plain = BufWriter::with_capacity(1 << 20, file);
        let compression = options
            .compression
            .unwrap_or_else(|| Compression::of_path(path));
        Ok(match compression {
            Compression::None => Output::Plain(plain),
            Compression::Gzip => {
                let level = options
                    .level
                    .map_or(flate2::Compression::default(), |level| {
                        flate2::Compression::new(level.clamp(0, 9) as u32)
                    });
                Output::Gzip(Box::new(flate2::write::GzEncoder::new(plain, level)))
            }
            Compression::Zstd => {
                let level = options.level.unwrap_or(zstd::DEFAULT_COMPRESSION_LEVEL);
                let encoder = zstd::Encoder::new(plain, level)
                    .map_err(|e| file_error(path, "write to", &e))?;
                Output::Zstd(Box::new(encoder))
            }
            other => return Err(unfit(other, "text")),
        })
    }

    /// Writes what is pending, down to the device.
    fn finish(self) -> std::io::Result<()> {
        let plain = match self {
            Output::Plain(plain) => plain,
            Output::Gzip(encoder) => encoder.finish()?,
            Output::Zstd(encoder) => encoder.finish()?,
        };
        let file = plain
            .into_inner()
            .map_err(std::io::IntoInnerError::into_error)?;
        match file.sync() {
            // Pipes and devices can't be synced.
            Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => Ok(()),
            other => other,
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Output::Plain(plain) => plain.write(bytes),
            Output::Gzip(encoder) => encoder.write(bytes),
            Output::Zstd(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Output::Plain(plain) => plain.flush(),
            Output::Gzip(encoder) => encoder.flush(),
            Output::Zstd(encoder) => encoder.flush(),
        }
    }
}

fn unfit(compression: Compression, format: &str) -> Error {
    Error::new(
        SqlState::InvalidParameterValue,
        format!(
            "{format} files can't be compressed with {}",
            compression.name()
        ),
    )
}

fn parquet_codec(options: &FileOptions) -> Result<Codec> {
    let level = options.level;
    let bad = |e: parquet::errors::ParquetError| {
        Error::new(SqlState::InvalidParameterValue, e.to_string())
    };
    Ok(match options.compression.unwrap_or(Compression::Snappy) {
        Compression::None => Codec::UNCOMPRESSED,
        Compression::Snappy => Codec::SNAPPY,
        Compression::Lz4 => Codec::LZ4_RAW,
        Compression::Zstd => Codec::ZSTD(match level {
            Some(level) => ZstdLevel::try_new(level).map_err(bad)?,
            None => ZstdLevel::default(),
        }),
        Compression::Gzip => Codec::GZIP(match level {
            Some(level) => GzipLevel::try_new(level.max(0) as u32).map_err(bad)?,
            None => GzipLevel::default(),
        }),
        Compression::Brotli => Codec::BROTLI(match level {
            Some(level) => BrotliLevel::try_new(level.max(0) as u32).map_err(bad)?,
            None => BrotliLevel::default(),
        }),
        other => return Err(unfit(other, "Parquet")),
    })
}

/// The columns as the file has them: offset strings, which every reader knows; in JSON, text for what JSON has no values for.
fn shown_schema(schema: &Schema, format: Format) -> SchemaRef {
    let fields: Vec<Field> = schema
        .fields()
        .iter()
        .map(|field| {
            let field = full(field);
            let data_type = match (format, field.data_type()) {
                (Format::Csv, _) => return field,
                (Format::Json, other) if has_json_value(other) => other.clone(),
                (Format::Json, _) => return Field::new(field.name(), DataType::Utf8View, true),
                (_, DataType::Utf8View) => DataType::Utf8,
                (_, DataType::BinaryView) => DataType::Binary,
                // Parquet has no type for columns of nothing but NULL that every reader takes.
                (Format::Parquet, DataType::Null) => DataType::Int32,
                (_, other) => other.clone(),
            };
            field.with_data_type(data_type)
        })
        .collect();
    Arc::new(Schema::new(fields))
}

fn has_json_value(data_type: &DataType) -> bool {
    data_type.is_numeric()
        || data_type.is_nested()
        || matches!(
            data_type,
            DataType::Boolean | DataType::Null | DataType::Utf8 | DataType::Utf8View
        )
}

fn shown_batch(batch: &RecordBatch, schema: &Schema, shown: &SchemaRef) -> Result<RecordBatch> {
    let columns = batch
        .columns()
        .iter()
        .zip(schema.fields())
        .zip(shown.fields())
        .map(|((column, field), shown)| -> Result<ArrayRef> {
            if column.data_type() == shown.data_type() {
                Ok(Arc::clone(column))
            } else if matches!(shown.data_type(), DataType::Utf8View) {
                Ok(Arc::new(show(column, field)?))
            } else {
                Ok(retyped(column, shown.data_type())?)
            }
        })
        .collect::<Result<Vec<_>>>()?;
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(
        Arc::clone(shown),
        columns,
        &options,
    )?)
}

/// CSV, written so that reading it back gives the same: NULL is the null text without quotes, a value like it is quoted.
struct CsvSink {
    output: Output,
    delimiter: u8,
    quote: u8,
    escape: u8,
    null: String,
    /// By column.
    forced: Vec<bool>,
    date_format: Option<String>,
    timestamp_format: Option<String>,
    newline: &'static [u8],
    line: Vec<u8>,
}

impl CsvSink {
    fn new(output: Output, options: &CsvOptions, schema: &Schema) -> Self {
        let quote = options.quote.unwrap_or(b'"');
        let forced = |field: &Field| {
            options.force_quote.as_ref().is_some_and(|columns| {
                columns
                    .iter()
                    .any(|c| c == "*" || c.eq_ignore_ascii_case(field.name()))
            })
        };
        CsvSink {
            output,
            delimiter: options.delimiter.unwrap_or(b','),
            quote,
            escape: options.escape.unwrap_or(quote),
            null: options.nulls.first().cloned().unwrap_or_default(),
            forced: schema.fields().iter().map(|f| forced(f)).collect(),
            date_format: options.date_format.clone(),
            timestamp_format: options.timestamp_format.clone(),
            newline: match options.newline {
                Some(Newline::Return) => b"\r",
                Some(Newline::ReturnFeed) => b"\r\n",
                _ => b"\n",
            },
            line: Vec::new(),
        }
    }

    fn header(&mut self, schema: &Schema) -> std::io::Result<()> {
        for (position, field) in schema.fields().iter().enumerate() {
            self.separate(position);
            self.field(field.name(), false);
        }
        self.line.extend_from_slice(self.newline);
        self.flush()
    }

    fn write(&mut self, batch: &RecordBatch, schema: &Schema, path: &Path) -> Result<()> {
        let columns: Vec<StringViewArray> = batch
            .columns()
            .iter()
            .zip(schema.fields())
            .map(|(column, field)| match column.as_string_view_opt() {
                Some(strings) => Ok(strings.clone()),
                None => match self.format_of(field) {
                    Some(format) => moments_as(column, format),
                    None => show(column, field),
                },
            })
            .collect::<Result<_>>()?;
        for row in 0..batch.num_rows() {
            for (position, column) in columns.iter().enumerate() {
                self.separate(position);
                if column.is_null(row) {
                    self.line.extend_from_slice(self.null.as_bytes());
                } else {
                    self.field(column.value(row), self.forced[position]);
                }
            }
            self.line.extend_from_slice(self.newline);
            if self.line.len() > 1 << 16 {
                self.flush().map_err(|e| file_error(path, "write to", &e))?;
            }
        }
        self.flush().map_err(|e| file_error(path, "write to", &e))
    }

    fn format_of(&self, field: &Field) -> Option<&str> {
        match field.data_type() {
            DataType::Date32 => self.date_format.as_deref(),
            DataType::Timestamp(_, None) => self.timestamp_format.as_deref(),
            _ => None,
        }
    }

    fn separate(&mut self, position: usize) {
        if position > 0 {
            self.line.push(self.delimiter);
        }
    }

    fn field(&mut self, text: &str, forced: bool) {
        let bytes = text.as_bytes();
        let special =
            |b: &u8| *b == self.delimiter || *b == self.quote || matches!(*b, b'\n' | b'\r');
        if !forced && text != self.null && !bytes.is_empty() && !bytes.iter().any(special) {
            self.line.extend_from_slice(bytes);
            return;
        }
        self.line.push(self.quote);
        for byte in bytes {
            if *byte == self.quote || *byte == self.escape {
                self.line.push(self.escape);
            }
            self.line.push(*byte);
        }
        self.line.push(self.quote);
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.output.write_all(&self.line)?;
        self.line.clear();
        Ok(())
    }
}
