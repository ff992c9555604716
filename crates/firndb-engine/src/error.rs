//! One error for everything that a statement can meet: SQLSTATE, message, position, detail, hint.
//!
//! Errors that arise inside DataFusion's operators travel as `DataFusionError::External` and are found again
//! at the boundary, so a kernel's SQLSTATE reaches the user.

mod suggest;
mod translate;
mod types;
mod wording;

use datafusion::common::DataFusionError;

pub use suggest::nearest;

/// The result of an engine operation.
pub type Result<T> = std::result::Result<T, Error>;

macro_rules! sql_states {
    ($($(#[$doc:meta])* $name:ident = $code:literal),* $(,)?) => {
        /// The SQLSTATE codes that the engine reports (ISO 9075, PostgreSQL's appendix A).
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum SqlState { $($(#[$doc])* $name),* }
        impl SqlState {
            /// The five characters.
            pub fn code(self) -> &'static str { match self { $(SqlState::$name => $code),* } }
            /// The state of five characters, if the engine reports it.
            pub fn of(code: &str) -> Option<SqlState> { match code { $($code => Some(SqlState::$name),)* _ => None } }
        }
    };
}

sql_states! {
    /// A connection that was closed, or is used in a forked child.
    ConnectionDoesNotExist = "08003",
    /// What SQL or FirnDB does not offer.
    FeatureNotSupported = "0A000",
    /// More than one row where one is allowed.
    CardinalityViolation = "21000",
    /// A string too long for its column.
    StringDataRightTruncation = "22001",
    /// A number outside its type.
    NumericValueOutOfRange = "22003",
    /// A date or time outside its range.
    DatetimeFieldOverflow = "22008",
    /// Text that does not fit the format of a date or time.
    InvalidDatetimeFormat = "22007",
    /// x / 0.
    DivisionByZero = "22012",
    /// Bytes that are no UTF-8.
    CharacterNotInRepertoire = "22021",
    /// A value that an operation can't take, where no narrower class says why.
    DataException = "22000",
    /// An escape of LIKE that is none, or that nothing follows.
    InvalidEscapeSequence = "22025",
    /// A pattern that is no regular expression.
    InvalidRegularExpression = "2201B",
    /// The square root of a negative number, and the like.
    InvalidArgumentForPower = "2201F",
    /// ntile(0).
    InvalidArgumentForNtile = "22014",
    /// The offset of a window frame is negative or no number.
    InvalidPrecedingOrFollowingSize = "22013",
    /// A negative LIMIT.
    InvalidRowCountInLimit = "2201W",
    /// A negative OFFSET.
    InvalidRowCountInOffset = "2201X",
    /// A parameter that does not fit.
    InvalidParameterValue = "22023",
    /// A NULL where none may be.
    NullValueNotAllowed = "22004",
    /// A text that is no value of the type.
    InvalidTextRepresentation = "22P02",
    /// A sequence at its end.
    SequenceGeneratorLimitExceeded = "2200H",
    /// A malformed file in COPY or a reader.
    BadCopyFileFormat = "22P04",
    /// NULL in a NOT NULL column.
    NotNullViolation = "23502",
    /// A key without its referenced row.
    ForeignKeyViolation = "23503",
    /// A key that exists already.
    UniqueViolation = "23505",
    /// A row against a CHECK.
    CheckViolation = "23514",
    /// BEGIN inside a transaction.
    ActiveSqlTransaction = "25001",
    /// COMMIT or SAVEPOINT outside a transaction.
    NoActiveSqlTransaction = "25P01",
    /// A write in a read-only transaction.
    ReadOnlySqlTransaction = "25006",
    /// A statement after an error, before ROLLBACK.
    InFailedSqlTransaction = "25P02",
    /// An unknown prepared statement.
    InvalidSqlStatementName = "26000",
    /// DROP of what others depend on.
    DependentObjectsStillExist = "2BP01",
    /// An unknown savepoint.
    InvalidSavepointSpecification = "3B001",
    /// An unknown schema.
    InvalidSchemaName = "3F000",
    /// Another transaction was first.
    SerializationFailure = "40001",
    /// SQL that parses and means nothing, where no narrower class says why.
    SyntaxErrorOrAccessRuleViolation = "42000",
    /// SQL that does not parse.
    SyntaxError = "42601",
    /// What the operating system forbids.
    InsufficientPrivilege = "42501",
    /// An unknown column.
    UndefinedColumn = "42703",
    /// A name with two meanings.
    AmbiguousColumn = "42702",
    /// An unknown function, or one without these argument types.
    UndefinedFunction = "42883",
    /// An unknown table or view.
    UndefinedTable = "42P01",
    /// A parameter without a value.
    UndefinedParameter = "42P02",
    /// An unknown type, setting, constraint, index.
    UndefinedObject = "42704",
    /// A table named twice in FROM.
    DuplicateAlias = "42712",
    /// A column named twice.
    DuplicateColumn = "42701",
    /// A table that exists already.
    DuplicateTable = "42P07",
    /// A schema that exists already.
    DuplicateSchema = "42P06",
    /// Another object that exists already.
    DuplicateObject = "42710",
    /// A function that exists already.
    DuplicateFunction = "42723",
    /// A column neither grouped nor aggregated.
    GroupingError = "42803",
    /// A window function where none can be.
    WindowingError = "42P20",
    /// Types that do not go together.
    DatatypeMismatch = "42804",
    /// A cast between types that have none.
    CannotCoerce = "42846",
    /// An object of the wrong kind.
    WrongObjectType = "42809",
    /// A malformed definition.
    InvalidTableDefinition = "42P16",
    /// A definition that cannot be: an index over what changes by itself, a circle of sequences.
    InvalidObjectDefinition = "42P17",
    /// A value for a column that is generated.
    GeneratedAlways = "428C9",
    /// A foreign key without a key that it could refer to.
    InvalidForeignKey = "42830",
    /// A malformed function.
    InvalidFunctionDefinition = "42P13",
    /// ON CONFLICT without a matching constraint.
    InvalidColumnReference = "42P10",
    /// A name over its limit.
    NameTooLong = "42622",
    /// The disk is full.
    DiskFull = "53100",
    /// Memory is spent.
    OutOfMemory = "53200",
    /// A limit of the program: nesting, columns, value size.
    ProgramLimitExceeded = "54000",
    /// A statement nested too deeply.
    StatementTooComplex = "54001",
    /// Something that is not yet there to be asked for.
    ObjectNotInPrerequisiteState = "55000",
    /// Something that is in use.
    ObjectInUse = "55006",
    /// A setting that can't change now.
    CantChangeRuntimeParam = "55P02",
    /// Cancelled by the user.
    QueryCanceled = "57014",
    /// The operating system failed.
    IoError = "58030",
    /// A file that is not there.
    UndefinedFile = "58P01",
    /// A database file is damaged.
    DataCorrupted = "XX001",
    /// A bug of FirnDB.
    InternalError = "XX000",
}

/// An error of a statement.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// Its class.
    pub state: SqlState,
    /// One sentence, as PostgreSQL would word it.
    pub message: String,
    /// More about the values involved.
    pub detail: Option<String>,
    /// What to do, for instance the nearest name.
    pub hint: Option<String>,
    /// Character offset into the statement's text, from 0.
    pub position: Option<usize>,
}

impl Error {
    /// An error with a message alone.
    pub fn new(state: SqlState, message: impl Into<String>) -> Self {
        Error {
            state,
            message: shortened(message.into()),
            detail: None,
            hint: None,
            position: None,
        }
    }
    /// Adds a hint.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
    /// Adds a detail.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }
    /// An invariant that does not hold.
    pub fn internal(message: impl Into<String>) -> Self {
        Error::new(SqlState::InternalError, message)
    }
    /// Adds a position, unless there is one.
    #[must_use]
    pub fn at(mut self, position: Option<usize>) -> Self {
        self.position = self.position.or(position);
        self
    }
    /// More text in one column of a batch than its 32-bit offsets reach.
    pub(crate) fn too_much_text() -> Self {
        Error::new(
            SqlState::ProgramLimitExceeded,
            "a column of one batch exceeds 2 GiB of text",
        )
    }

    /// What an operator or kernel panicked with. Arrow's builders panic where text exceeds their offsets.
    pub(crate) fn of_panic(reason: &str) -> Self {
        match reason.contains("offset overflow") || reason.contains("byte array offset") {
            true => Error::too_much_text(),
            false => Error::internal(format!("an operator panicked: {reason}")),
        }
    }

    /// A caught panic.
    pub(crate) fn of_unwinding(panic: &(dyn std::any::Any + Send)) -> Self {
        let reason = panic
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Error::of_panic(reason.unwrap_or_default())
    }

    /// The user cancelled the statement.
    pub fn cancelled() -> Self {
        Error::new(
            SqlState::QueryCanceled,
            "canceling statement due to user request",
        )
    }
    /// Something not offered.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Error::new(SqlState::FeatureNotSupported, message)
    }
    /// Whether another transaction was in the way: 40001.
    pub fn is_conflict(&self) -> bool {
        self.state == SqlState::SerializationFailure
    }
    /// As it travels through DataFusion.
    pub fn into_datafusion(self) -> DataFusionError {
        DataFusionError::External(Box::new(self))
    }
}

/// Characters of one value that a message repeats.
const MAX_SHOWN: usize = 200;

/// The beginning of a value that a message repeats.
pub(crate) fn excerpt(value: &str) -> std::borrow::Cow<'_, str> {
    match value.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}...", &value[..end]).into(),
        None => value.into(),
    }
}

/// `invalid input syntax for type integer: "abc"`.
pub(crate) fn invalid_text(type_name: &str, text: &str) -> Error {
    Error::new(
        SqlState::InvalidTextRepresentation,
        format!(
            "invalid input syntax for type {type_name}: \"{}\"",
            excerpt(text)
        ),
    )
}

/// A message with its long words cut: a value of thousands of characters tells no more than its beginning.
fn shortened(message: String) -> String {
    const MANY: usize = 2 * MAX_SHOWN;
    if message.len() <= MANY || !message.split_whitespace().any(|word| word.len() > MANY) {
        return message;
    }
    let mut short = String::new();
    for part in message.split_inclusive(char::is_whitespace) {
        if part.len() <= MANY {
            short.push_str(part);
            continue;
        }
        short.extend(part.chars().take(MAX_SHOWN));
        short.push_str("...");
        // The quote behind it, and the blank.
        let last = part.char_indices().rev().take(2);
        let end = last
            .take_while(|(_, character)| !character.is_alphanumeric())
            .last();
        short.push_str(&part[end.map_or(part.len(), |(place, _)| place)..]);
    }
    short
}

impl From<Error> for DataFusionError {
    fn from(error: Error) -> Self {
        error.into_datafusion()
    }
}

impl From<firndb_storage::Error> for Error {
    fn from(error: firndb_storage::Error) -> Self {
        use firndb_storage::Error as Storage;
        let error = match error {
            Storage::Key(inner) => match inner.downcast::<Error>() {
                Ok(own) => return *own,
                Err(inner) => Storage::Key(inner),
            },
            error => error,
        };
        let state = match &error {
            Storage::Conflict { .. } => SqlState::SerializationFailure,
            Storage::UniqueViolation { .. } => SqlState::UniqueViolation,
            Storage::OutOfMemory { .. } => SqlState::OutOfMemory,
            Storage::Limit(_) => SqlState::ProgramLimitExceeded,
            Storage::ValueOutOfRange { .. } => SqlState::NumericValueOutOfRange,
            Storage::System(_) | Storage::Io(_) | Storage::Broken(_) => SqlState::IoError,
            Storage::NoFile(_) => SqlState::UndefinedFile,
            Storage::Forbidden(_) => SqlState::InsufficientPrivilege,
            Storage::DiskFull(_) => SqlState::DiskFull,
            Storage::NotADatabase(_) => SqlState::WrongObjectType,
            Storage::Newer(_) => SqlState::FeatureNotSupported,
            Storage::Damaged(_) => SqlState::DataCorrupted,
            Storage::InUse { .. } => SqlState::ObjectInUse,
            Storage::Arrow(_) | Storage::Internal(_) | Storage::Key(_) => SqlState::InternalError,
        };
        Error::new(state, error.to_string())
    }
}

impl From<DataFusionError> for Error {
    fn from(error: DataFusionError) -> Self {
        translate::datafusion(&error)
    }
}

impl From<arrow::error::ArrowError> for Error {
    fn from(error: arrow::error::ArrowError) -> Self {
        translate::arrow(&error)
    }
}
