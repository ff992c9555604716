//! Records and fields of CSV (RFC 4180, with the freedoms that files take).
//!
//! A quote opens a quoted field at its beginning only; inside, the escape (by default the quote itself) before a quote stands for the quote.
//! What follows a closing quote up to the delimiter belongs to the field. Lines end with `\n` or `\r\n`, or all with `\r`. Lines without anything are passed
//! over, except in files of one column, where such a line is that column's empty field.

use std::path::Path;
use std::sync::Arc;

use arrow::array::builder::StringViewBuilder;
use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::compute::filter_record_batch;
use arrow::datatypes::SchemaRef;

use super::chunks::{Boundary, Chunk};
use super::options::CsvOptions;
use super::values::{converted, convertible};
use crate::{Error, Result, SqlState};

/// The bytes that mean something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dialect {
    /// Between fields.
    pub delimiter: u8,
    /// Around fields.
    pub quote: Option<u8>,
    /// Before a quote within quotes.
    pub escape: Option<u8>,
    /// Begins a line that is passed over.
    pub comment: Option<u8>,
    /// Ends a line.
    pub newline: u8,
}

impl Dialect {
    /// As the options say, with a delimiter.
    pub fn new(options: &CsvOptions, delimiter: u8) -> Self {
        Dialect {
            delimiter,
            quote: options.quote,
            escape: options.escape.or(options.quote),
            comment: options.comment,
            newline: options.line_end(),
        }
    }

    /// One past the closing quote of the field that begins at `at` with a quote, and whether there are escapes in it; `None` when it does not end.
    /// A quote as the very last byte may be half of an escape, so it ends the field only when `complete`.
    fn quoted_end(
        &self,
        bytes: &[u8],
        at: usize,
        quote: u8,
        complete: bool,
    ) -> Option<(usize, bool)> {
        let escape = self.escape.unwrap_or(quote);
        let mut escaped = false;
        let mut position = at + 1;
        loop {
            position += memchr::memchr2(quote, escape, &bytes[position..])?;
            let byte = bytes[position];
            match bytes.get(position + 1) {
                Some(next) if byte == escape && (*next == quote || *next == escape) => {
                    escaped = true;
                    position += 2;
                }
                None if !complete => return None,
                _ if byte == quote => return Some((position + 1, escaped)),
                _ => position += 1,
            }
        }
    }
}

impl Boundary for Dialect {
    fn last_end(&self, bytes: &[u8]) -> Option<usize> {
        let quote = match self.quote {
            Some(quote) if memchr::memchr(quote, bytes).is_some() => quote,
            _ => return memchr::memrchr(self.newline, bytes).map(|at| at + 1),
        };
        let (mut position, mut end) = (0, None);
        let mut line_begins = true;
        while position < bytes.len() {
            if line_begins && self.comment == Some(bytes[position]) {
                match memchr::memchr(self.newline, &bytes[position..]) {
                    Some(at) => position += at + 1,
                    None => return end,
                }
                end = Some(position);
                continue;
            }
            if bytes[position] == quote {
                match self.quoted_end(bytes, position, quote, false) {
                    Some((after, _)) => position = after,
                    None => return end,
                }
            }
            match memchr::memchr2(self.delimiter, self.newline, &bytes[position..]) {
                Some(at) => position += at + 1,
                None => return end,
            }
            line_begins = bytes[position - 1] == self.newline;
            if line_begins {
                end = Some(position);
            }
        }
        end
    }

    fn newline(&self) -> u8 {
        self.newline
    }
}

/// How a field is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    Plain,
    Quoted,
    /// Quoted, with escapes inside or text behind the closing quote.
    Escaped,
}

/// A field: where its text lies.
#[derive(Debug, Clone, Copy)]
struct Span {
    start: u32,
    end: u32,
    written: Written,
}

/// The records of a piece of a file.
#[derive(Debug)]
pub struct Records {
    bytes: arrow::buffer::Buffer,
    dialect: Dialect,
    spans: Vec<Span>,
    /// By record, one past its last span.
    ends: Vec<usize>,
    /// By record, the line it begins at, from the piece's first.
    lines: Vec<u32>,
    first_line: usize,
}

impl Records {
    /// Finds the records of `chunk`. `columns` is 1 where a line without anything is a record.
    pub fn parse(chunk: &Chunk, dialect: Dialect, columns: usize, path: &Path) -> Result<Records> {
        let bytes = chunk.bytes.as_slice();
        let mut records = Records {
            bytes: chunk.bytes.clone(),
            dialect,
            spans: Vec::with_capacity(bytes.len() / 8),
            ends: Vec::new(),
            lines: Vec::new(),
            first_line: chunk.line,
        };
        let (mut position, mut line) = (0, 0u32);
        while position < bytes.len() {
            let rest = &bytes[position..];
            if dialect.comment == Some(rest[0]) {
                position += memchr::memchr(dialect.newline, rest).map_or(rest.len(), |at| at + 1);
                line += 1;
                continue;
            }
            let blank = match rest {
                [first, ..] if *first == dialect.newline => 1,
                [b'\r', b'\n', ..] => 2,
                _ => 0,
            };
            if blank > 0 && columns != 1 {
                position += blank;
                line += 1;
                continue;
            }
            records.lines.push(line);
            let (next, lines) = records.record(bytes, position).ok_or_else(|| {
                at_line(
                    path,
                    chunk.line + line as usize,
                    "unterminated CSV quoted field",
                )
            })?;
            records.ends.push(records.spans.len());
            position = next;
            line += lines;
        }
        Ok(records)
    }

    /// Finds the fields of the record at `position`; one past it, and the lines it covers. `None` when a quote does not close.
    fn record(&mut self, bytes: &[u8], mut position: usize) -> Option<(usize, u32)> {
        let dialect = self.dialect;
        let mut lines = 0;
        loop {
            let start = position;
            let mut written = Written::Plain;
            let mut inner = (start, start);
            if let Some(quote) = dialect.quote
                && bytes.get(position) == Some(&quote)
            {
                let (after, escaped) = dialect.quoted_end(bytes, position, quote, true)?;
                lines +=
                    memchr::memchr_iter(dialect.newline, &bytes[position..after]).count() as u32;
                inner = (start + 1, after - 1);
                position = after;
                written = if escaped {
                    Written::Escaped
                } else {
                    Written::Quoted
                };
            }
            let found = memchr::memchr2(dialect.delimiter, dialect.newline, &bytes[position..]);
            let mut end = found.map_or(bytes.len(), |at| position + at);
            let last = found.is_none() || bytes[end] == dialect.newline;
            let next = end + usize::from(found.is_some());
            if last && dialect.newline == b'\n' && end > position && bytes[end - 1] == b'\r' {
                end -= 1;
            }
            let span = match written {
                Written::Plain => (start, end),
                _ if end == position => inner,
                // Text behind the closing quote: the field is rebuilt from all of it.
                _ => {
                    written = Written::Escaped;
                    (start, end)
                }
            };
            self.spans.push(Span {
                start: span.0 as u32,
                end: span.1 as u32,
                written,
            });
            if last {
                return Some((next, lines + u32::from(found.is_some())));
            }
            position = next;
        }
    }

    /// Their number.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The line that a record begins at, from 1.
    pub fn line(&self, record: usize) -> usize {
        self.first_line + self.lines.get(record).map_or(0, |l| *l as usize)
    }

    /// The number of fields of a record.
    pub fn width(&self, record: usize) -> usize {
        let start = record.checked_sub(1).map_or(0, |r| self.ends[r]);
        self.ends[record] - start
    }

    /// A field's text, and whether it was quoted. `None` where the record is shorter.
    pub fn field(&self, record: usize, column: usize) -> Option<(String, bool)> {
        let start = record.checked_sub(1).map_or(0, |r| self.ends[r]);
        if column >= self.ends[record] - start {
            return None;
        }
        let span = self.spans[start + column];
        let mut text = Vec::new();
        self.unescape(span, &mut text);
        let text = String::from_utf8_lossy(&text).into_owned();
        Some((text, span.written != Written::Plain))
    }

    /// Takes the first `count` records away.
    pub fn skip(&mut self, count: usize) {
        let count = count.min(self.len());
        let spans = count.checked_sub(1).map_or(0, |r| self.ends[r]);
        self.spans.drain(..spans);
        self.ends.drain(..count);
        self.lines.drain(..count);
        self.ends.iter_mut().for_each(|end| *end -= spans);
    }

    /// The text of a field without its quotes and escapes.
    fn unescape(&self, span: Span, text: &mut Vec<u8>) {
        let bytes = &self.bytes.as_slice()[span.start as usize..span.end as usize];
        text.clear();
        let (Written::Escaped, Some(quote)) = (span.written, self.dialect.quote) else {
            text.extend_from_slice(bytes);
            return;
        };
        let escape = self.dialect.escape.unwrap_or(quote);
        // The span lies within its quotes, or, with text behind the closing one, has them in it.
        let within = span.start > 0 && self.bytes.as_slice()[span.start as usize - 1] == quote;
        let mut inside = within;
        let mut at = 0;
        while at < bytes.len() {
            let byte = bytes[at];
            match bytes.get(at + 1) {
                Some(next) if inside && byte == escape && (*next == quote || *next == escape) => {
                    text.push(*next);
                    at += 2;
                    continue;
                }
                _ if byte == quote && !within => inside = !inside,
                _ => text.push(byte),
            }
            at += 1;
        }
    }

    /// Every record must have `columns` fields (or fewer, with `null_padding`).
    fn check_widths(&self, schema: &SchemaRef, options: &CsvOptions, path: &Path) -> Result<()> {
        let columns = schema.fields().len();
        for record in 0..self.len() {
            let width = self.width(record);
            let message = if width > columns {
                "extra data after last expected column".to_owned()
            } else if width < columns && !options.null_padding {
                format!("missing data for column \"{}\"", schema.field(width).name())
            } else {
                continue;
            };
            return Err(
                at_line(path, self.line(record), &message).with_hint(format!(
                    "The line has {width} fields, {columns} are expected."
                )),
            );
        }
        Ok(())
    }

    /// The records that have too many or too few fields.
    fn note_widths(&self, schema: &SchemaRef, options: &CsvOptions, failed: &mut [bool]) {
        let columns = schema.fields().len();
        for (record, failed) in failed.iter_mut().enumerate() {
            let width = self.width(record);
            *failed |= width > columns || width < columns && !options.null_padding;
        }
    }

    /// A column as text, NULLs told from the rest.
    fn strings(&self, column: usize, nulls: &NullTexts) -> Result<ArrayRef> {
        let bytes = self.bytes.as_slice();
        let mut builder = StringViewBuilder::with_capacity(self.len());
        let block = builder.append_block(self.bytes.clone());
        let mut scratch = Vec::new();
        let mut start = 0;
        for end in &self.ends {
            match self.spans[start..*end].get(column) {
                None => builder.append_null(),
                Some(span) if span.written == Written::Escaped => {
                    self.unescape(*span, &mut scratch);
                    let text = std::str::from_utf8(&scratch)
                        .map_err(|e| Error::internal(format!("CSV field: {e}")))?;
                    builder.append_value(text);
                }
                Some(span) => {
                    let text = &bytes[span.start as usize..span.end as usize];
                    if nulls.is_null(text, span.written == Written::Quoted) {
                        builder.append_null();
                    } else {
                        builder.try_append_view(block, span.start, span.end - span.start)?;
                    }
                }
            }
            start = *end;
        }
        Ok(Arc::new(builder.finish()))
    }

    /// The records as a batch of `schema`'s columns at `projection`.
    pub fn batch(
        &self,
        schema: &SchemaRef,
        projection: &[usize],
        options: &CsvOptions,
        path: &Path,
    ) -> Result<RecordBatch> {
        let mut failed = vec![false; self.len()];
        if options.ignore_errors {
            self.note_widths(schema, options, &mut failed);
        } else {
            self.check_widths(schema, options, path)?;
        }
        let text = |column: usize| -> Result<ArrayRef> {
            self.strings(
                column,
                &NullTexts::new(options, schema.field(column).name()),
            )
        };
        let mut columns = Vec::with_capacity(projection.len());
        for column in projection {
            let field = schema.field(*column);
            let strings = text(*column)?;
            if options.ignore_errors {
                columns.push(convertible(&strings, field, options, &mut failed)?);
                continue;
            }
            let values = converted(&strings, field, options).map_err(|error| {
                let record = first_failure(&strings, field, options);
                let place = format!(
                    "File \"{}\", line {}, column {}.",
                    path.display(),
                    self.line(record),
                    field.name()
                );
                error.with_detail(place)
            })?;
            columns.push(values);
        }
        if options.ignore_errors {
            // Which rows there are does not depend on the columns that are asked for.
            for column in (0..schema.fields().len()).filter(|column| !projection.contains(column)) {
                convertible(&text(column)?, schema.field(column), options, &mut failed)?;
            }
        }
        let fields = projection
            .iter()
            .map(|c| Arc::new(crate::types::compute_field(schema.field(*c))));
        let shown = arrow::datatypes::Schema::new(fields.collect::<Vec<_>>());
        let rows = RecordBatchOptions::new().with_row_count(Some(self.len()));
        let batch = RecordBatch::try_new_with_options(Arc::new(shown), columns, &rows)?;
        if failed.contains(&true) {
            let kept: BooleanArray = failed.iter().map(|failed| Some(!failed)).collect();
            return Ok(filter_record_batch(&batch, &kept)?);
        }
        Ok(batch)
    }
}

/// The texts that stand for NULL in a column.
struct NullTexts<'a> {
    unquoted: &'a [String],
    quoted: &'a [String],
}

impl<'a> NullTexts<'a> {
    fn new(options: &'a CsvOptions, column: &str) -> Self {
        let named = |columns: &[String]| {
            columns
                .iter()
                .any(|c| c == "*" || c.eq_ignore_ascii_case(column))
        };
        let all = options.nulls.as_slice();
        NullTexts {
            unquoted: if named(&options.force_not_null) {
                &[]
            } else {
                all
            },
            quoted: if named(&options.force_null) { all } else { &[] },
        }
    }

    fn is_null(&self, text: &[u8], quoted: bool) -> bool {
        let texts = if quoted { self.quoted } else { self.unquoted };
        texts.iter().any(|null| null.as_bytes() == text)
    }
}

/// The first value that can't be converted.
fn first_failure(
    strings: &ArrayRef,
    field: &arrow::datatypes::Field,
    options: &CsvOptions,
) -> usize {
    // Invariant: some value in low..high fails, none before low does.
    let (mut low, mut high) = (0, strings.len());
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if converted(&strings.slice(low, middle - low), field, options).is_err() {
            high = middle;
        } else {
            low = middle;
        }
    }
    low
}

/// A malformed file, with the place.
pub fn at_line(path: &Path, line: usize, message: &str) -> Error {
    Error::new(SqlState::BadCopyFileFormat, message)
        .with_detail(format!("File \"{}\", line {line}.", path.display()))
}
