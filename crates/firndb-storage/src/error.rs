//! What can go wrong below SQL. The engine maps each variant to a SQLSTATE.

/// The result of a storage operation.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of the storage layer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another transaction changed the row (or the table's schema) first: SQLSTATE 40001.
    #[error("could not serialize access due to concurrent update of table \"{table}\"")]
    Conflict {
        /// The table's name.
        table: String,
    },
    /// A key exists already: SQLSTATE 23505.
    #[error(
        "duplicate key value violates unique constraint \"{constraint}\": Key ({columns})=({key}) already exists"
    )]
    UniqueViolation {
        /// The constraint's name.
        constraint: String,
        /// The column names, separated by ", ".
        columns: String,
        /// The offending key, as text.
        key: String,
    },
    /// The memory budget does not allow the operation: SQLSTATE 53200.
    #[error("out of memory: {requested} bytes requested, {used} of {limit} bytes in use")]
    OutOfMemory {
        /// Bytes asked for.
        requested: usize,
        /// Bytes in use.
        used: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// A limit of the format was exceeded (a value over 2 GiB, too many columns): SQLSTATE 54000.
    #[error("{0}")]
    Limit(String),
    /// A value does not fit the column's type, a decimal its precision: SQLSTATE 22003.
    #[error("value {value} is out of range for type {data_type}")]
    ValueOutOfRange {
        /// The value, as text.
        value: String,
        /// The column's type.
        data_type: arrow::datatypes::DataType,
    },
    /// The operating system refused (memfd_create, mmap, a forked child): SQLSTATE 58000.
    #[error("{0}")]
    System(String),
    /// A file could not be read or written: SQLSTATE 58030.
    #[error("{0}")]
    Io(String),
    /// A file or directory is not there: SQLSTATE 58P01.
    #[error("{0}")]
    NoFile(String),
    /// The operating system forbids it: SQLSTATE 42501.
    #[error("{0}")]
    Forbidden(String),
    /// The disk is full: SQLSTATE 53100. What was to be written was not; it can be tried again.
    #[error("{0}")]
    DiskFull(String),
    /// What is durable is unknown since a write or a sync failed: SQLSTATE 58030.
    #[error("the database refuses work until it is opened again: {0}")]
    Broken(String),
    /// The file is no database: SQLSTATE 42809.
    #[error("{0}")]
    NotADatabase(String),
    /// The file is of a version that is not known yet: SQLSTATE 0A000.
    #[error("{0}")]
    Newer(String),
    /// The file or its log is damaged, and where: SQLSTATE XX001.
    #[error("{0}")]
    Damaged(String),
    /// Another process has the database open: SQLSTATE 55006.
    #[error("{message}")]
    InUse {
        /// What is in use, and by whom.
        message: String,
        /// The process that has it open, where the system tells.
        process: Option<u32>,
    },
    /// The program of an index's keys failed: the SQLSTATE is its own.
    #[error(transparent)]
    Key(Box<dyn std::error::Error + Send + Sync>),
    /// Arrow refused: a type or shape that does not fit. A bug of the caller: SQLSTATE XX000.
    #[error(transparent)]
    Arrow(#[from] arrow::error::ArrowError),
    /// An invariant does not hold: SQLSTATE XX000.
    #[error("internal error: {0}")]
    Internal(String),
}

impl Error {
    /// What the operating system said of a file.
    pub(crate) fn io(error: std::io::Error, doing: &str) -> Self {
        use std::io::ErrorKind;
        let message = format!("{doing} failed: {error}");
        match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => Error::NoFile(message),
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                Error::Forbidden(message)
            }
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
                Error::DiskFull(message)
            }
            _ => Error::Io(message),
        }
    }
}
