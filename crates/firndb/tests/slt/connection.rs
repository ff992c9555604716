//! A session as the runner sees it, and how it writes values.

use std::sync::{Arc, Mutex};

use firndb::arrow::datatypes::{DataType, Schema};
use firndb::text::Column;
use firndb::{Error, Parameters, Session};
use sqllogictest::{ColumnType, DB, DBOutput};

/// What a column's letter says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `I`: integers, decimals without a fraction.
    Integer,
    /// `R`: doubles, reals, decimals. True for binary floating point, which other systems may print with other digits.
    Real(bool),
    /// `T`: everything else.
    Text,
    /// `B`
    Boolean,
    /// `?`: any.
    Any,
}

impl ColumnType for Kind {
    fn from_char(letter: char) -> Option<Self> {
        Some(match letter {
            'I' => Kind::Integer,
            'R' => Kind::Real(false),
            'T' => Kind::Text,
            'B' => Kind::Boolean,
            '?' => Kind::Any,
            _ => return None,
        })
    }

    fn to_char(&self) -> char {
        match self {
            Kind::Integer => 'I',
            Kind::Real(_) => 'R',
            Kind::Text => 'T',
            Kind::Boolean => 'B',
            Kind::Any => '?',
        }
    }
}

impl Kind {
    fn of(data_type: &DataType) -> Kind {
        match data_type {
            DataType::Boolean => Kind::Boolean,
            DataType::Float32 | DataType::Float64 => Kind::Real(true),
            DataType::Decimal32(_, scale)
            | DataType::Decimal64(_, scale)
            | DataType::Decimal128(_, scale)
            | DataType::Decimal256(_, scale)
                if *scale > 0 =>
            {
                Kind::Real(false)
            }
            DataType::Null => Kind::Any,
            number if number.is_numeric() => Kind::Integer,
            _ => Kind::Text,
        }
    }
}

/// Whose way of writing values a file follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Convention {
    /// Values as they print.
    DuckDb,
    /// Values as the expected letter asks: `I` as an integer, `R` with three digits, `T` with `@` for what is not printable.
    Sqlite,
}

/// The convention of a file, and the letters of the query that runs next.
#[derive(Debug, Clone)]
pub(crate) struct Format {
    convention: Convention,
    letters: Arc<Mutex<Vec<Kind>>>,
}

impl Format {
    pub(crate) fn new(convention: Convention) -> Self {
        Format {
            convention,
            letters: Arc::default(),
        }
    }

    /// Remembers the letters of the query that runs next.
    pub(crate) fn expect(&self, letters: &[Kind]) {
        *self.letters.lock().unwrap() = letters.to_vec();
    }

    fn write(&self, column: usize, kind: Kind, text: Option<String>) -> String {
        let Some(text) = text else {
            return "NULL".into();
        };
        if self.convention == Convention::DuckDb {
            return if text.is_empty() {
                "(empty)".into()
            } else {
                text
            };
        }
        let text = match (kind, text.as_str()) {
            (Kind::Boolean, "true") => "1".to_string(),
            (Kind::Boolean, _) => "0".to_string(),
            _ => text,
        };
        let number = || text.parse::<f64>().unwrap_or(0.0);
        match self.letters.lock().unwrap().get(column) {
            // An integer's digits may be more than a double holds.
            Some(Kind::Integer) if text.parse::<i128>().is_ok() => text,
            Some(Kind::Integer) => format!("{}", number().trunc() as i64),
            Some(Kind::Real(_)) => format!("{:.3}", number()),
            _ if text.is_empty() => "(empty)".into(),
            _ => text
                .chars()
                .map(|c| if (' '..='~').contains(&c) { c } else { '@' })
                .collect(),
        }
    }
}

/// A session of the file's database.
#[derive(Debug)]
pub(crate) struct Connection {
    session: Session,
    format: Format,
}

impl Connection {
    pub(crate) fn new(session: Session, format: Format) -> Self {
        Connection { session, format }
    }
}

/// The engine's error, whose text is its message alone.
#[derive(Debug)]
pub(crate) struct SqlError(Error);

impl SqlError {
    /// Its SQLSTATE.
    pub(crate) fn state(&self) -> &str {
        self.0.state.code()
    }
}

impl std::fmt::Display for SqlError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for SqlError {}

impl From<Error> for SqlError {
    fn from(error: Error) -> Self {
        SqlError(error)
    }
}

impl DB for Connection {
    type Error = SqlError;
    type ColumnType = Kind;

    /// A query that says the same at any time runs three times: the third may run a plan that the second left.
    fn run(&mut self, sql: &str) -> Result<DBOutput<Kind>, SqlError> {
        let first = self.run_once(sql)?;
        if let DBOutput::Rows { rows, .. } = &first
            && says_the_same(sql)
        {
            // Which rows there are, in any order: a join's own need not be the same.
            let sorted = |rows: &Vec<Vec<String>>| {
                let mut rows = rows.clone();
                rows.sort();
                rows
            };
            let rows = sorted(rows);
            for time in 2..4 {
                let again = self.run_once(sql)?;
                let same =
                    matches!(&again, DBOutput::Rows { rows: others, .. } if sorted(others) == rows);
                assert!(same, "other rows the {time}. time: {sql}");
            }
        }
        Ok(first)
    }

    fn engine_name(&self) -> &str {
        "firndb"
    }

    fn error_sql_state(error: &SqlError) -> Option<String> {
        Some(error.state().to_string())
    }
}

/// Words of queries that change something, or say another thing each time.
const TIMELY: [&str; 14] = [
    "nextval", "setval", "lastval", "random", "uuid", "now", "current", "clock", "sample",
    "firndb_", "duckdb_", "insert", "update", "delete",
];

fn says_the_same(sql: &str) -> bool {
    let lower = sql.trim_start().to_lowercase();
    let is_query = ["select", "from", "with", "values", "(", "table"]
        .iter()
        .any(|word| lower.starts_with(word));
    is_query && !TIMELY.iter().any(|word| lower.contains(word))
}

impl Connection {
    fn run_once(&mut self, sql: &str) -> Result<DBOutput<Kind>, SqlError> {
        let outcome = self.session.execute(sql, &Parameters::default())?;
        let Some(mut batches) = outcome.rows else {
            return Ok(DBOutput::StatementComplete(outcome.affected.unwrap_or(0)));
        };
        let types = kinds(&batches.schema());
        let mut rows = Vec::new();
        for batch in batches.by_ref() {
            let batch = batch?;
            let schema = batch.schema_ref();
            let columns = schema
                .fields()
                .iter()
                .zip(batch.columns())
                .map(|(field, values)| Column::new(field, values))
                .collect::<firndb::Result<Vec<_>>>()?;
            for row in 0..batch.num_rows() {
                let cells = columns.iter().zip(&types).enumerate();
                rows.push(
                    cells
                        .map(|(at, (column, kind))| {
                            self.format
                                .write(at, *kind, column.text(row).map(str::to_string))
                        })
                        .collect(),
                );
            }
        }
        Ok(DBOutput::Rows { types, rows })
    }
}

fn kinds(schema: &Schema) -> Vec<Kind> {
    let fields = schema.fields().iter();
    fields.map(|field| Kind::of(field.data_type())).collect()
}
