//! Errors of DataFusion and Arrow as errors of SQL: a SQLSTATE, PostgreSQL's wording where it has one, a hint.
//!
//! Errors of ours that travelled through operators come back as they were. What DataFusion tells by its error's type is
//! translated by type; what it tells in words alone, by the words that mark the case.

use arrow::error::ArrowError;
use datafusion::common::{Column, DataFusionError, SchemaError};
use datafusion::parquet::errors::ParquetError;
use datafusion::sql::sqlparser::parser::ParserError;

use super::types::in_sql;
use super::wording;
use super::{Error, SqlState, nearest};

/// Functions that are nothing without OVER.
const WINDOW_FUNCTIONS: [&str; 8] = [
    "row_number",
    "rank",
    "dense_rank",
    "percent_rank",
    "cume_dist",
    "ntile",
    "lag",
    "lead",
];

/// Translates an error of DataFusion.
pub(super) fn datafusion(error: &DataFusionError) -> Error {
    match error {
        DataFusionError::External(inner) => external(inner.as_ref(), error),
        DataFusionError::ArrowError(inner, _) => arrow(inner),
        DataFusionError::ParquetError(inner) => parquet(inner),
        DataFusionError::ObjectStore(inner) => object_store(&inner.to_string()),
        DataFusionError::IoError(inner) => io(inner),
        DataFusionError::SQL(inner, _) => parser(inner),
        DataFusionError::NotImplemented(message) => not_implemented(message),
        DataFusionError::Internal(message) => {
            let line = first_line(message);
            wording::known(&line).unwrap_or_else(|| Error::internal(in_sql(&line)))
        }
        DataFusionError::Plan(message) => plan(message),
        DataFusionError::Configuration(message) => {
            Error::new(SqlState::InvalidParameterValue, first_line(message))
        }
        DataFusionError::SchemaError(inner, _) => schema(inner),
        DataFusionError::Execution(message) => execution(message),
        DataFusionError::ExecutionJoin(inner) => {
            if inner.is_cancelled() {
                Error::cancelled()
            } else {
                Error::internal(format!("an operator failed: {inner}"))
            }
        }
        DataFusionError::ResourcesExhausted(message) => Error::new(
            SqlState::OutOfMemory,
            format!("out of memory: {}", first_line(message)),
        )
        .with_hint("Raise memory_limit, or lower threads."),
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => {
            datafusion(inner)
        }
        DataFusionError::Shared(inner) => datafusion(inner),
        DataFusionError::Collection(errors) => errors
            .first()
            .map_or_else(|| Error::internal("an empty list of errors"), datafusion),
        DataFusionError::Substrait(message) | DataFusionError::Ffi(message) => {
            Error::internal(first_line(message))
        }
    }
}

/// Translates an error of Arrow.
pub(super) fn arrow(error: &ArrowError) -> Error {
    match error {
        ArrowError::ExternalError(inner) => {
            if let Some(ours) = inner.downcast_ref::<Error>() {
                ours.clone()
            } else if let Some(theirs) = inner.downcast_ref::<DataFusionError>() {
                datafusion(theirs)
            } else {
                Error::internal(inner.to_string())
            }
        }
        ArrowError::DivideByZero => Error::new(SqlState::DivisionByZero, "division by zero"),
        // How text is joined beyond what 32-bit offsets reach.
        ArrowError::ArithmeticOverflow(message) if message.contains("offset overflow") => {
            Error::too_much_text()
        }
        ArrowError::ArithmeticOverflow(message) => Error::new(
            SqlState::NumericValueOutOfRange,
            format!("value out of range: {}", first_line(message)),
        ),
        ArrowError::CastError(message) | ArrowError::ParseError(message) => conversion(message),
        ArrowError::MemoryError(message) => Error::new(SqlState::OutOfMemory, first_line(message)),
        ArrowError::NotYetImplemented(message) => Error::unsupported(in_sql(&first_line(message))),
        ArrowError::CsvError(message)
        | ArrowError::JsonError(message)
        | ArrowError::AvroError(message)
        | ArrowError::IpcError(message)
        | ArrowError::ParquetError(message) => {
            Error::new(SqlState::BadCopyFileFormat, first_line(message))
        }
        ArrowError::IoError(_, inner) => io(inner),
        ArrowError::OffsetOverflowError(_) => Error::too_much_text(),
        ArrowError::ComputeError(message) | ArrowError::InvalidArgumentError(message) => {
            computation(message)
        }
        ArrowError::SchemaError(_)
        | ArrowError::CDataInterface(_)
        | ArrowError::DictionaryKeyOverflowError
        | ArrowError::RunEndIndexOverflowError => Error::internal(error.to_string()),
    }
}

/// Translates an error of the parser; its position is in its text.
fn parser(error: &ParserError) -> Error {
    match error {
        ParserError::TokenizerError(message) | ParserError::ParserError(message) => {
            Error::new(SqlState::SyntaxError, first_line(message))
        }
        ParserError::RecursionLimitExceeded => Error::new(
            SqlState::StatementTooComplex,
            "the statement is nested too deeply",
        ),
    }
}

fn external(
    inner: &(dyn std::error::Error + Send + Sync + 'static),
    whole: &DataFusionError,
) -> Error {
    if let Some(ours) = inner.downcast_ref::<Error>() {
        ours.clone()
    } else if let Some(theirs) = inner.downcast_ref::<DataFusionError>() {
        datafusion(theirs)
    } else if let Some(arrow_error) = inner.downcast_ref::<ArrowError>() {
        arrow(arrow_error)
    } else if let Some(io_error) = inner.downcast_ref::<std::io::Error>() {
        io(io_error)
    } else {
        let message = inner.to_string();
        match is_pattern(&message) {
            true => pattern(&message),
            false if message.contains("panicked") => Error::of_panic(&message),
            false => Error::internal(whole.to_string()),
        }
    }
}

fn is_pattern(message: &str) -> bool {
    message.contains("regex parse error") || message.contains("Regular expression did not compile")
}

/// A regular expression that is none: the regex library's last line says why.
fn pattern(message: &str) -> Error {
    let reason = message
        .lines()
        .rev()
        .find_map(|line| line.trim().strip_prefix("error: "));
    let reason = reason.unwrap_or("the pattern can't be parsed");
    Error::new(
        SqlState::InvalidRegularExpression,
        format!("invalid regular expression: {reason}"),
    )
}

fn parquet(error: &ParquetError) -> Error {
    match error {
        ParquetError::External(inner) => {
            if let Some(ours) = inner.downcast_ref::<Error>() {
                return ours.clone();
            }
            Error::new(SqlState::BadCopyFileFormat, inner.to_string())
        }
        other => Error::new(SqlState::BadCopyFileFormat, other.to_string()),
    }
}

fn object_store(message: &str) -> Error {
    let state = if message.contains("not found") || message.contains("No such file") {
        SqlState::UndefinedFile
    } else {
        SqlState::IoError
    };
    Error::new(state, first_line(message))
}

fn io(error: &std::io::Error) -> Error {
    let state = match error.kind() {
        std::io::ErrorKind::NotFound => SqlState::UndefinedFile,
        std::io::ErrorKind::OutOfMemory => SqlState::OutOfMemory,
        std::io::ErrorKind::InvalidData => SqlState::BadCopyFileFormat,
        _ => SqlState::IoError,
    };
    Error::new(state, error.to_string())
}

fn schema(error: &SchemaError) -> Error {
    match error {
        SchemaError::FieldNotFound {
            field,
            valid_fields,
        } => undefined_column(field, valid_fields),
        SchemaError::AmbiguousReference { field } => Error::new(
            SqlState::AmbiguousColumn,
            format!("column reference \"{}\" is ambiguous", field.name()),
        )
        .with_hint("Write the table's name or alias before the column."),
        SchemaError::DuplicateQualifiedField { qualifier, .. } => Error::new(
            SqlState::DuplicateAlias,
            format!(
                "table name \"{}\" specified more than once",
                qualifier.table()
            ),
        )
        .with_hint("Give one of them an alias."),
        SchemaError::DuplicateUnqualifiedField { name } => Error::new(
            SqlState::DuplicateColumn,
            format!("column \"{name}\" specified more than once"),
        ),
    }
}

fn undefined_column(field: &Column, valid: &[Column]) -> Error {
    if let Some(relation) = &field.relation {
        let known = valid.iter().any(|column| {
            column
                .relation
                .as_ref()
                .is_some_and(|other| other.table() == relation.table())
        });
        if !known {
            let tables = valid
                .iter()
                .filter_map(|column| column.relation.as_ref().map(|one| one.table()));
            let error = Error::new(
                SqlState::UndefinedTable,
                format!(
                    "missing FROM-clause entry for table \"{}\"",
                    relation.table()
                ),
            );
            return match nearest(relation.table(), tables) {
                Some(table) => error.with_hint(format!(
                    "Perhaps you meant to reference the table \"{table}\"."
                )),
                None => error,
            };
        }
    }
    let name = match &field.relation {
        Some(relation) => format!("{}.{}", relation.table(), field.name()),
        None => field.name().to_owned(),
    };
    let error = Error::new(
        SqlState::UndefinedColumn,
        format!("column \"{name}\" does not exist"),
    );
    let Some(near) = nearest(
        field.name(),
        valid.iter().map(|column| column.name.as_str()),
    ) else {
        return error;
    };
    let place = valid
        .iter()
        .find(|column| column.name == near)
        .and_then(|column| column.relation.as_ref())
        .map(|relation| format!("{}.{near}", relation.table()));
    let near = place.unwrap_or_else(|| near.to_owned());
    error.with_hint(format!(
        "Perhaps you meant to reference the column \"{near}\"."
    ))
}

/// What DataFusion does not do, and the types that it does not know.
fn not_implemented(message: &str) -> Error {
    let line = first_line(message);
    if line.contains("does not support logical expression WindowFunction") {
        return Error::new(
            SqlState::WindowingError,
            "window functions are not allowed here",
        )
        .with_hint("Compute them in a subquery, or filter with QUALIFY.");
    }
    match line.strip_prefix("Unsupported SQL type ") {
        Some(name) => Error::new(
            SqlState::UndefinedObject,
            format!("type \"{}\" does not exist", name.to_lowercase()),
        ),
        None => wording::known(&line).unwrap_or_else(|| {
            match wording::without_tree(&line).as_ref() {
                "Collate" => Error::unsupported(
                    "COLLATE is supported in comparisons, IN, LIKE, GROUP BY, DISTINCT, ORDER BY, min, max and plain select lists, with NOCASE, C and BINARY",
                )
                .with_hint("Elsewhere, use lower(column) for text without case."),
                what => Error::unsupported(format!("not supported: {}", in_sql(what))),
            }
        }),
    }
}

/// What the planner says in words.
fn plan(message: &str) -> Error {
    let line = first_line(message);
    if line.contains("offset overflow") {
        return Error::too_much_text();
    }
    if let Some(error) = wording::known(&line) {
        return error;
    }
    if line.contains("must appear in the GROUP BY") {
        let name = between(&line, "column \"", "\"").unwrap_or_default();
        return Error::new(
            SqlState::GroupingError,
            format!(
                "column \"{name}\" must appear in the GROUP BY clause or be used in an aggregate function"
            ),
        );
    }
    if line.starts_with("Order by ")
        && let Some(position) = between(&line, "specified: ", ",")
            .or_else(|| line.contains("starts at 1").then(|| "0".to_owned()))
    {
        return Error::new(
            SqlState::InvalidColumnReference,
            format!("ORDER BY position {position} is not in select list"),
        );
    }
    if let Some(name) = between(&line, "Invalid function '", "'") {
        if let Some(name) = name.strip_prefix("__firndb_") {
            return Error::new(
                SqlState::WrongObjectType,
                format!("window function {name} requires an OVER clause"),
            );
        }
        if WINDOW_FUNCTIONS.contains(&name.as_str()) {
            return Error::new(
                SqlState::WrongObjectType,
                format!("window function {name} requires an OVER clause"),
            );
        }
        let error = Error::new(
            SqlState::UndefinedFunction,
            format!("function {name} does not exist"),
        );
        return match between(message, "Did you mean '", "'") {
            Some(near) if nearest(&name, [near.as_str()]).is_some() => {
                error.with_hint(format!("Perhaps you meant the function \"{near}\"."))
            }
            _ => error,
        };
    }
    if let Some(call) = uncallable(&line) {
        return Error::new(
            SqlState::UndefinedFunction,
            format!("function {call} does not exist"),
        )
        .with_hint("No function matches the given name and argument types. You might need to add explicit type casts.");
    }
    let state = if line.contains("could not be resolved from available columns")
        || line.contains("non-aggregate values")
        || line.contains("must be part of GROUP BY clause")
        || line.contains("Aggregate functions are not allowed")
        || line.contains("Aggregate function calls cannot be nested")
    {
        SqlState::GroupingError
    } else if line.contains("No function matches")
        || line.contains("Failed to coerce arguments")
        || line.contains("Function '")
        || line.contains("does not support zero arguments")
    {
        SqlState::UndefinedFunction
    } else if line.contains("Cannot infer common argument type")
        || line.contains("cannot be converted to")
        || line.contains("Cannot cast")
        || line.contains("Unsupported CAST")
        || line.contains("coerc")
        || line.contains("Cannot create filter with non-boolean predicate")
        || line.contains("have the same number of columns")
        || line.contains("UNION")
    {
        SqlState::DatatypeMismatch
    } else if line.contains("Cannot parse")
        || line.contains("Cannot parse number")
        || line.contains("cannot parse")
    {
        SqlState::InvalidTextRepresentation
    } else if line.contains("unique expression names") {
        SqlState::DuplicateColumn
    } else {
        SqlState::SyntaxErrorOrAccessRuleViolation
    };
    Error::new(state, in_sql(&line))
}

/// The call of a function that there is, but not for these arguments.
fn uncallable(line: &str) -> Option<String> {
    if line.contains("Substring without for/from") {
        return Some("substr(text)".to_owned());
    }
    if let Some(call) = between(line, "argument types '", "'.") {
        return Some(in_sql(&call));
    }
    let (before, _) = line.split_once("' failed to match any signature")?;
    let (_, name) = before.rsplit_once("Function '")?;
    Some(format!("{name} with these arguments"))
}

/// What an operator or a function says in words.
fn execution(message: &str) -> Error {
    if is_pattern(message) {
        return pattern(message);
    }
    let line = first_line(message);
    if let Some(error) = wording::known(&line) {
        return error;
    }
    let lower = line.to_lowercase();
    let state = if lower.contains("divide by zero") || lower.contains("division by zero") {
        return Error::new(SqlState::DivisionByZero, "division by zero");
    } else if lower.contains("more than one row") {
        return Error::new(
            SqlState::CardinalityViolation,
            "more than one row returned by a subquery used as an expression",
        );
    } else if lower.contains("overflow") || lower.contains("out of range") {
        SqlState::NumericValueOutOfRange
    } else if lower.contains("error parsing") || lower.contains("cannot parse") {
        SqlState::InvalidTextRepresentation
    } else {
        SqlState::DataException
    };
    Error::new(state, in_sql(&line))
}

/// What a cast says in words.
fn conversion(message: &str) -> Error {
    let line = first_line(message);
    if let Some(error) = wording::known(&line) {
        return error;
    }
    let lower = line.to_lowercase();
    let state = if lower.contains("can't cast value")
        || lower.contains("overflow")
        || lower.contains("out of range")
        || lower.contains("too large")
    {
        SqlState::NumericValueOutOfRange
    } else {
        SqlState::InvalidTextRepresentation
    };
    Error::new(state, in_sql(&line))
}

/// What a kernel says in words.
fn computation(message: &str) -> Error {
    if let Some((array, _)) = message.split_once("Array overflow on abs(") {
        let name = match array.rsplit(' ').next() {
            Some("Int8") => "tinyint",
            Some("Int16") => "smallint",
            Some("Int32") => "integer",
            _ => "bigint",
        };
        let what = format!("{name} out of range");
        return Error::new(SqlState::NumericValueOutOfRange, what);
    }
    if is_pattern(message) {
        return pattern(message);
    }
    let line = first_line(message);
    if let Some(error) = wording::known(&line) {
        return error;
    }
    let lower = line.to_lowercase();
    let state = if lower.contains("overflow") || lower.contains("is too large") {
        SqlState::NumericValueOutOfRange
    } else if lower.contains("divide by zero") {
        SqlState::DivisionByZero
    } else {
        SqlState::DataException
    };
    Error::new(state, in_sql(&line))
}

fn first_line(message: &str) -> String {
    let end = message.find("\n\nbacktrace").unwrap_or(message.len());
    let text = message[..end].trim();
    text.lines().next().unwrap_or(text).to_owned()
}

fn between(text: &str, before: &str, after: &str) -> Option<String> {
    let start = text.find(before)? + before.len();
    let end = start + text[start..].find(after)?;
    Some(text[start..end].to_owned())
}
