//! Formats and their options, by the names that PostgreSQL and DuckDB use.

use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::{Field, FieldRef};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;

use crate::expr::moments_by;
pub use crate::parse::copy::OptionValue;
use crate::{Error, Result, SqlState};

/// A file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Comma-separated values, and their relatives.
    Csv,
    /// Apache Parquet.
    Parquet,
    /// JSON objects, one a line or in one array.
    Json,
    /// Arrow IPC, file or stream.
    Arrow,
}

impl Format {
    /// By name, as `FORMAT` gives it.
    pub fn of_name(name: &str) -> Result<Format> {
        Ok(match name.to_ascii_lowercase().as_str() {
            "csv" => Format::Csv,
            "parquet" => Format::Parquet,
            "json" | "ndjson" | "jsonl" => Format::Json,
            "arrow" | "arrows" | "feather" | "ipc" => Format::Arrow,
            "text" | "binary" => {
                return Err(
                    Error::unsupported(format!("COPY format \"{name}\" is not supported"))
                        .with_hint("The formats are csv, parquet, json and arrow."),
                );
            }
            _ => {
                return Err(Error::new(
                    SqlState::InvalidParameterValue,
                    format!("COPY format \"{name}\" not recognized"),
                )
                .with_hint("The formats are csv, parquet, json and arrow."));
            }
        })
    }

    /// By a path's extension, that of a compression left aside.
    pub fn of_path(path: &Path) -> Option<Format> {
        let extension = |p: &Path| {
            p.extension()
                .and_then(|e| e.to_str())
                .map(str::to_ascii_lowercase)
        };
        let last = extension(path)?;
        let last = match Compression::of_extension(&last) {
            Some(_) => extension(Path::new(path.file_stem()?))?,
            None => last,
        };
        Some(match last.as_str() {
            "csv" | "tsv" | "tbl" => Format::Csv,
            "parquet" | "pq" => Format::Parquet,
            "json" | "ndjson" | "jsonl" => Format::Json,
            "arrow" | "arrows" | "feather" | "ipc" => Format::Arrow,
            _ => return None,
        })
    }
}

/// A compression of a file, or of what is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// None.
    None,
    /// gzip.
    Gzip,
    /// bzip2 (read only).
    Bzip2,
    /// xz (read only).
    Xz,
    /// Zstandard.
    Zstd,
    /// Snappy (Parquet).
    Snappy,
    /// LZ4 (Parquet, Arrow).
    Lz4,
    /// Brotli (Parquet).
    Brotli,
}

impl Compression {
    /// By name.
    pub fn of_name(name: &str) -> Result<Option<Compression>> {
        Ok(Some(match name.to_ascii_lowercase().as_str() {
            "auto" | "auto_detect" => return Ok(None),
            "none" | "uncompressed" => Compression::None,
            "gzip" | "gz" => Compression::Gzip,
            "bzip2" | "bz2" => Compression::Bzip2,
            "xz" => Compression::Xz,
            "zstd" | "zst" => Compression::Zstd,
            "snappy" => Compression::Snappy,
            "lz4" | "lz4_raw" => Compression::Lz4,
            "brotli" => Compression::Brotli,
            _ => {
                return Err(Error::new(
                    SqlState::InvalidParameterValue,
                    format!("compression \"{name}\" not recognized"),
                ));
            }
        }))
    }

    fn of_extension(extension: &str) -> Option<Compression> {
        Some(match extension {
            "gz" => Compression::Gzip,
            "bz2" => Compression::Bzip2,
            "xz" => Compression::Xz,
            "zst" => Compression::Zstd,
            _ => return None,
        })
    }

    /// By a path's extension.
    pub fn of_path(path: &Path) -> Compression {
        path.extension()
            .and_then(|e| e.to_str())
            .and_then(|e| Compression::of_extension(&e.to_ascii_lowercase()))
            .unwrap_or(Compression::None)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Compression::None => "none",
            Compression::Gzip => "gzip",
            Compression::Bzip2 => "bzip2",
            Compression::Xz => "xz",
            Compression::Zstd => "zstd",
            Compression::Snappy => "snappy",
            Compression::Lz4 => "lz4",
            Compression::Brotli => "brotli",
        }
    }
}

impl OptionValue {
    /// As text; `what` names the option in errors.
    fn text(&self, what: &str) -> Result<String> {
        match self {
            OptionValue::Text(text) => Ok(text.clone()),
            OptionValue::Boolean(value) => Ok(value.to_string()),
            OptionValue::List(items) if items.len() == 1 => Ok(items[0].clone()),
            _ => Err(invalid(what, "a single value")),
        }
    }

    fn boolean(&self, what: &str) -> Result<bool> {
        match self {
            OptionValue::None => Ok(true),
            OptionValue::Boolean(value) => Ok(*value),
            OptionValue::Text(text) => match text.to_ascii_lowercase().as_str() {
                "true" | "on" | "1" | "yes" => Ok(true),
                "false" | "off" | "0" | "no" => Ok(false),
                _ => Err(invalid(what, "a Boolean value")),
            },
            _ => Err(invalid(what, "a Boolean value")),
        }
    }

    fn number(&self, what: &str) -> Result<usize> {
        self.text(what)?
            .parse()
            .map_err(|_| invalid(what, "a whole number"))
    }

    /// One byte, or nothing for an empty text.
    fn byte(&self, what: &str) -> Result<Option<u8>> {
        let text = self.text(what)?;
        match text.as_bytes() {
            [] => Ok(None),
            b"\\t" => Ok(Some(b'\t')),
            [byte] if byte.is_ascii() => Ok(Some(*byte)),
            _ => Err(invalid(what, "a single one-byte character")),
        }
    }

    fn list(&self, what: &str) -> Result<Vec<String>> {
        match self {
            OptionValue::Text(text) => Ok(vec![text.clone()]),
            OptionValue::List(items) => Ok(items.clone()),
            _ => Err(invalid(what, "a list")),
        }
    }
}

fn invalid(what: &str, wanted: &str) -> Error {
    Error::new(
        SqlState::InvalidParameterValue,
        format!("option \"{what}\" requires {wanted}"),
    )
}

/// What ends a line of CSV.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Newline {
    /// `\n`, perhaps after `\r`.
    Feed,
    /// `\r\n`: the same when read.
    ReturnFeed,
    /// `\r` alone.
    Return,
}

/// How CSV is written down.
#[derive(Debug, Clone, PartialEq)]
pub struct CsvOptions {
    /// Between fields; found out when not given.
    pub delimiter: Option<u8>,
    /// Around fields that need it.
    pub quote: Option<u8>,
    /// Before a quote within quotes.
    pub escape: Option<u8>,
    /// Whether the first record names the columns; found out when not given.
    pub header: Option<bool>,
    /// What stands for NULL when not quoted.
    pub nulls: Vec<String>,
    /// Lines before the header to pass over.
    pub skip: usize,
    /// Lines that begin with it are passed over.
    pub comment: Option<u8>,
    /// Whether missing fields at the end of a record are NULL.
    pub null_padding: bool,
    /// Whether every column is text.
    pub all_varchar: bool,
    /// Records from which types are found out.
    pub sample: usize,
    /// What ends a line; found out when not given.
    pub newline: Option<Newline>,
    /// Whether records that do not fit are passed over.
    pub ignore_errors: bool,
    /// Between a number's whole part and its fraction.
    pub decimal: u8,
    /// Between the thousands of a number.
    pub thousands: Option<u8>,
    /// How dates are written.
    pub date_format: Option<String>,
    /// How timestamps are written.
    pub timestamp_format: Option<String>,
    /// Whether names are made ones that need no quotes.
    pub normalize_names: bool,
    /// The types that are found out; all when not given.
    pub candidates: Option<Vec<String>>,
    /// Columns whose values are quoted when written; `None` in it for all.
    pub force_quote: Option<Vec<String>>,
    /// Columns where the null text is that text.
    pub force_not_null: Vec<String>,
    /// Columns where the quoted null text is NULL too.
    pub force_null: Vec<String>,
}

impl Default for CsvOptions {
    fn default() -> Self {
        CsvOptions {
            delimiter: None,
            quote: Some(b'"'),
            escape: None,
            header: None,
            nulls: vec![String::new()],
            skip: 0,
            comment: None,
            null_padding: false,
            all_varchar: false,
            sample: 20_480,
            newline: None,
            ignore_errors: false,
            decimal: b'.',
            thousands: None,
            date_format: None,
            timestamp_format: None,
            normalize_names: false,
            candidates: None,
            force_quote: None,
            force_not_null: Vec::new(),
            force_null: Vec::new(),
        }
    }
}

impl CsvOptions {
    /// The byte that ends a line.
    pub fn line_end(&self) -> u8 {
        match self.newline {
            Some(Newline::Return) => b'\r',
            _ => b'\n',
        }
    }
}

/// What is said about files besides their paths.
#[derive(Debug, Clone, PartialEq)]
pub struct FileOptions {
    /// The format.
    pub format: Format,
    /// The compression; by extension when not given.
    pub compression: Option<Compression>,
    /// CSV.
    pub csv: CsvOptions,
    /// Columns as the user declares them.
    pub columns: Option<Vec<FieldRef>>,
    /// Types of some columns, by name.
    pub types: Vec<FieldRef>,
    /// Types of the first columns.
    pub first_types: Vec<FieldRef>,
    /// The name of a column that tells each row's file.
    pub filename: Option<String>,
    /// Whether the columns are those of all files, by name.
    pub union_by_name: bool,
    /// Names of the columns.
    pub names: Option<Vec<String>>,
    /// JSON: objects in one array instead of one a line; found out when not given.
    pub array: Option<bool>,
    /// Rows of a Parquet row group.
    pub row_group: Option<usize>,
    /// Level of compression.
    pub level: Option<i32>,
}

impl FileOptions {
    /// Nothing said.
    pub fn new(format: Format) -> Self {
        FileOptions {
            format,
            compression: None,
            csv: CsvOptions::default(),
            columns: None,
            types: Vec::new(),
            first_types: Vec::new(),
            filename: None,
            union_by_name: false,
            names: None,
            array: None,
            row_group: None,
            level: None,
        }
    }

    /// Takes an option. Names are those of PostgreSQL's COPY and of DuckDB's readers and COPY.
    pub fn set(&mut self, name: &str, value: &OptionValue) -> Result<()> {
        let name = name.to_ascii_lowercase();
        match (name.as_str(), self.format) {
            ("compression" | "codec", _) => {
                self.compression = Compression::of_name(&value.text(&name)?)?;
            }
            ("compression_level", _) => {
                let level = value.text(&name)?.parse();
                self.level = Some(level.map_err(|_| invalid(&name, "a whole number"))?);
            }
            ("columns", Format::Csv | Format::Json) => {
                let OptionValue::Pairs(pairs) = value else {
                    return Err(invalid(&name, "a struct of names and types"));
                };
                self.columns = Some(declared(pairs)?);
            }
            ("types" | "dtypes" | "column_types", Format::Csv) => match value {
                OptionValue::Pairs(pairs) => self.types = declared(pairs)?,
                OptionValue::List(types) => {
                    let unnamed = |kind: &String| (String::new(), kind.clone());
                    let pairs: Vec<_> = types.iter().map(unnamed).collect();
                    self.first_types = declared(&pairs)?;
                }
                _ => {
                    return Err(invalid(
                        &name,
                        "a list of types, or a struct of names and types",
                    ));
                }
            },
            ("filename", _) => {
                self.filename = match value {
                    OptionValue::Text(column) if !is_boolean(column) => Some(column.clone()),
                    other => other.boolean(&name)?.then(|| "filename".to_owned()),
                }
            }
            ("union_by_name", _) => self.union_by_name = value.boolean(&name)?,
            ("hive_partitioning", _) => {
                if value.boolean(&name)? {
                    return Err(Error::unsupported(
                        "columns from the names of folders (hive_partitioning) are not supported",
                    ));
                }
            }
            ("names" | "column_names", Format::Csv) => self.names = Some(value.list(&name)?),
            ("format", Format::Json) => match value.text(&name)?.to_ascii_lowercase().as_str() {
                "auto" => self.array = None,
                "array" => self.array = Some(true),
                "newline_delimited" | "nd" => self.array = Some(false),
                _ => return Err(invalid(&name, "auto, array or newline_delimited")),
            },
            ("array", Format::Json) => self.array = Some(value.boolean(&name)?),
            ("row_group_size", Format::Parquet) => {
                self.row_group = Some(value.number(&name)?.max(1));
            }
            ("sample_size" | "maximum_sample_files" | "auto_detect", Format::Json) => {}
            ("sample_size", Format::Csv) => {
                self.csv.sample = match value.text(&name)?.as_str() {
                    "-1" => usize::MAX,
                    // The first record may be a header.
                    _ => value.number(&name)?.max(1).saturating_add(1),
                };
            }
            (_, Format::Csv) => self.set_csv(&name, value)?,
            _ => return Err(unknown(&name)),
        }
        Ok(())
    }

    fn set_csv(&mut self, name: &str, value: &OptionValue) -> Result<()> {
        let csv = &mut self.csv;
        match name {
            "delimiter" | "delim" | "sep" => {
                csv.delimiter = value.byte(name)?;
                if csv.delimiter.is_none() || matches!(csv.delimiter, Some(b'\n' | b'\r')) {
                    return Err(invalid(name, "a single one-byte character"));
                }
            }
            "quote" => csv.quote = value.byte(name)?,
            "escape" => csv.escape = value.byte(name)?,
            "header" => {
                csv.header = match value {
                    // PostgreSQL's HEADER MATCH also checks the names.
                    OptionValue::Text(text) if text.eq_ignore_ascii_case("match") => Some(true),
                    _ => Some(value.boolean(name)?),
                }
            }
            "null" | "nullstr" | "nulls" => csv.nulls = value.list(name)?,
            "skip" => csv.skip = value.number(name)?,
            "comment" => csv.comment = value.byte(name)?,
            "new_line" | "newline" => {
                csv.newline = Some(match value.text(name)?.as_str() {
                    "\n" | "\\n" => Newline::Feed,
                    "\r\n" | "\\r\\n" => Newline::ReturnFeed,
                    "\r" | "\\r" => Newline::Return,
                    _ => return Err(invalid(name, "'\\n', '\\r\\n' or '\\r'")),
                });
            }
            "ignore_errors" => csv.ignore_errors = value.boolean(name)?,
            "decimal_separator" => {
                csv.decimal = match value.byte(name)? {
                    Some(separator @ (b'.' | b',')) => separator,
                    _ => return Err(invalid(name, "'.' or ','")),
                }
            }
            "thousands" => csv.thousands = value.byte(name)?,
            "dateformat" | "date_format" => csv.date_format = format_of(&value.text(name)?)?,
            "timestampformat" | "timestamp_format" => {
                csv.timestamp_format = format_of(&value.text(name)?)?;
            }
            "normalize_names" => csv.normalize_names = value.boolean(name)?,
            "auto_type_candidates" => csv.candidates = Some(value.list(name)?),
            "allow_quoted_nulls" => {
                csv.force_null = match value.boolean(name)? {
                    true => vec!["*".to_owned()],
                    false => Vec::new(),
                }
            }
            "null_padding" => csv.null_padding = value.boolean(name)?,
            "all_varchar" => csv.all_varchar = value.boolean(name)?,
            "force_quote" => csv.force_quote = Some(value.list(name)?),
            "force_not_null" => csv.force_not_null = value.list(name)?,
            "force_null" => csv.force_null = value.list(name)?,
            "encoding" => {
                let encoding = value.text(name)?.to_ascii_lowercase();
                if !matches!(encoding.as_str(), "utf8" | "utf-8" | "unicode") {
                    return Err(Error::unsupported(format!(
                        "files in encoding \"{encoding}\" are not supported"
                    )));
                }
            }
            // What they ask for is what happens.
            "freeze" | "auto_detect" | "parallel" | "strict_mode" => {
                value.boolean(name)?;
            }
            // Records may be of any length, and lines end as they do.
            "buffer_size" | "max_line_size" | "maximum_line_size" | "files_to_sniff" => {
                value.number(name)?;
            }
            _ => return Err(unknown(name)),
        }
        Ok(())
    }
}

fn is_boolean(text: &str) -> bool {
    matches!(
        text.to_ascii_lowercase().as_str(),
        "true" | "false" | "on" | "off"
    )
}

/// A format of `strptime`; `auto` is none.
fn format_of(text: &str) -> Result<Option<String>> {
    if text.is_empty() || text.eq_ignore_ascii_case("auto") {
        return Ok(None);
    }
    drop(moments_by(text)?);
    Ok(Some(text.to_owned()))
}

fn unknown(name: &str) -> Error {
    Error::new(
        SqlState::SyntaxError,
        format!("option \"{name}\" not recognized"),
    )
}

/// Fields from names and SQL types.
fn declared(pairs: &[(String, String)]) -> Result<Vec<FieldRef>> {
    pairs
        .iter()
        .map(|(name, sql)| {
            let dialect = GenericDialect {};
            let parsed = Parser::new(&dialect)
                .try_with_sql(sql)
                .and_then(|mut parser| parser.parse_data_type())
                .map_err(|_| {
                    Error::new(
                        SqlState::UndefinedObject,
                        format!("type \"{sql}\" does not exist"),
                    )
                })?;
            let field: Field = crate::types::column_field(name, &parsed, true, &|_| None)?;
            Ok(Arc::new(field))
        })
        .collect()
}
