//! What DataFusion says in words of its own, in PostgreSQL's, where only the text marks the case: a SQLSTATE and a message without
//! its types and trees.

use super::types::in_sql;
use super::{Error, SqlState};

/// The error that a line of DataFusion's means, where it is one of those known.
pub(super) fn known(line: &str) -> Option<Error> {
    let line = line.strip_prefix("Execution error: ").unwrap_or(line);
    if let Some((operator, left, right)) = uncompared(line) {
        return Some(
            Error::new(
                SqlState::UndefinedFunction,
                format!("operator does not exist: {left} {operator} {right}"),
            )
            .with_hint("No operator matches the given argument types. You might need to add explicit type casts."),
        );
    }
    if let Some(kind) = line.strip_prefix("Cannot run range queries on datatype: ") {
        return Some(Error::unsupported(format!(
            "RANGE with offset PRECEDING or FOLLOWING is not supported for column type {}",
            in_sql(kind)
        )));
    }
    if let Some(error) = misused(line) {
        return Some(error);
    }
    let (state, message): (SqlState, String) = if let Some(position) =
        between(line, "Cannot find column with position ", " in SELECT")
    {
        (
            SqlState::InvalidColumnReference,
            format!("GROUP BY position {position} is not in select list"),
        )
    } else if line.starts_with("Inconsistent data length across values list") {
        (
            SqlState::SyntaxError,
            "VALUES lists must all be the same length".to_owned(),
        )
    } else if line.starts_with("For SELECT DISTINCT, ORDER BY expressions") {
        (
            SqlState::InvalidColumnReference,
            "for SELECT DISTINCT, ORDER BY expressions must appear in select list".to_owned(),
        )
    } else if line.starts_with("Too many columns! The subquery") {
        (
            SqlState::SyntaxError,
            "subquery must return only one column".to_owned(),
        )
    } else if let Some(name) = between(line, "Field ", " not found in struct") {
        (
            SqlState::UndefinedColumn,
            format!("the struct has no member \"{name}\""),
        )
    } else if let Some(given) = between(line, "Cannot access field at argument 1: type ", " is not")
    {
        (
            SqlState::WrongObjectType,
            format!("a value of type {} has no members", in_sql(&given)),
        )
    } else if line.contains("cannot take square root of a negative number") {
        (
            SqlState::InvalidArgumentForPower,
            "cannot take square root of a negative number".to_owned(),
        )
    } else if line.contains("zero raised to a negative power is undefined") {
        (
            SqlState::InvalidArgumentForPower,
            "zero raised to a negative power is undefined".to_owned(),
        )
    } else if let Some((_, given)) = line.split_once("overlay start position must be at least 1: ")
    {
        (
            SqlState::InvalidParameterValue,
            format!("overlay begins at a position of at least 1, not {given}"),
        )
    } else if let Some((_, key)) = line.split_once("map key must be unique, duplicate key found: ")
    {
        (
            SqlState::InvalidParameterValue,
            format!("map keys must be unique, but {key} comes twice"),
        )
    } else if line.contains("map key cannot be null") {
        (
            SqlState::NullValueNotAllowed,
            "map keys can not be NULL".to_owned(),
        )
    } else if line.contains("date_part requires non-empty constant string") {
        (
            SqlState::InvalidParameterValue,
            "date part \"\" not recognized".to_owned(),
        )
    } else if let Some((_, given)) =
        line.split_once(" requires both list inputs to have the same length, got ")
    {
        (
            SqlState::InvalidParameterValue,
            format!("the lists differ in length: {given}"),
        )
    } else if line.contains("the second parameter of array_sort expects DESC or ASC") {
        (
            SqlState::InvalidParameterValue,
            "sorting order must be either ASC or DESC".to_owned(),
        )
    } else if let Some((state, message)) = of_value(line).or_else(|| of_frame(line)) {
        (state, message)
    } else if line.contains("NTILE requires a positive integer") {
        (
            SqlState::InvalidArgumentForNtile,
            "argument of ntile must be greater than zero".to_owned(),
        )
    } else if let Some(part) = between(line, "Date part '", "' not supported") {
        (
            SqlState::InvalidParameterValue,
            format!("date part \"{part}\" not recognized"),
        )
    } else if line.starts_with("Incompatible inputs for Union")
        || line.starts_with("Incompatible inputs for UNION")
    {
        let types =
            between(line, "of type ", ", but").zip(between(line, "incompatible type ", " on"));
        let (left, right) = types?;
        (
            SqlState::DatatypeMismatch,
            format!(
                "UNION types {} and {} cannot be matched",
                in_sql(&left),
                in_sql(&right)
            ),
        )
    } else if line.contains("Unary operator '-'") {
        (
            SqlState::UndefinedFunction,
            "operator does not exist: - of what is no number and no interval".to_owned(),
        )
    } else if line.contains("Step cannot be zero") {
        (
            SqlState::InvalidParameterValue,
            "step size cannot equal zero".to_owned(),
        )
    } else if line.contains("LIMIT must be >= 0") {
        (
            SqlState::InvalidRowCountInLimit,
            "LIMIT must not be negative".to_owned(),
        )
    } else if line.contains("OFFSET must be >=") {
        (
            SqlState::InvalidRowCountInOffset,
            "OFFSET must not be negative".to_owned(),
        )
    } else if line.contains("Expected LIMIT to be an integer")
        || line.contains("Expected OFFSET to be an integer")
    {
        (
            SqlState::DatatypeMismatch,
            "LIMIT and OFFSET take integers".to_owned(),
        )
    } else if line.contains("unnest() can only be applied to") {
        (
            SqlState::UndefinedFunction,
            "unnest takes a list or a struct".to_owned(),
        )
    } else if line.starts_with("unnest() requires exactly one argument") {
        (
            SqlState::UndefinedFunction,
            "unnest takes one list or struct".to_owned(),
        )
    } else if line.starts_with("Unsupported Value 'SingleQuotedByteStringLiteral") {
        (
            SqlState::FeatureNotSupported,
            "bit strings are not supported".to_owned(),
        )
    } else if let Some(name) = line.strip_prefix("Invalid qualifier ") {
        (
            SqlState::UndefinedTable,
            format!("missing FROM-clause entry for table \"{name}\""),
        )
    } else if line.contains("value '")
        && line.ends_with("is out of range")
        && (line.starts_with("Month") || line.starts_with("Day") || line.starts_with("Year"))
    {
        (
            SqlState::DatetimeFieldOverflow,
            "date/time field value out of range".to_owned(),
        )
    } else {
        return None;
    };
    Some(Error::new(state, message))
}

/// A value that a function does not take.
fn of_value(line: &str) -> Option<(SqlState, String)> {
    use SqlState::{
        DatetimeFieldOverflow, FeatureNotSupported, InvalidDatetimeFormat, InvalidParameterValue,
        NumericValueOutOfRange, ProgramLimitExceeded, UndefinedFunction,
    };
    Some(if line.starts_with("Overflow happened on FACTORIAL") {
        (NumericValueOutOfRange, "bigint out of range".to_owned())
    } else if line.contains("factorial of a negative number is undefined") {
        let message = "factorial of a negative number is undefined";
        (NumericValueOutOfRange, message.to_owned())
    } else if line.contains("Unable to represent") && line.contains("integer") {
        let message = "interval field value out of range";
        (DatetimeFieldOverflow, message.to_owned())
    } else if line.ends_with("Timestamp out of range") {
        (DatetimeFieldOverflow, "timestamp out of range".to_owned())
    } else if line.contains("Unable to parse date from") {
        let message = "date/time field value out of range";
        (DatetimeFieldOverflow, message.to_owned())
    } else if line == "Format error" {
        let message = "the format has a specifier that is not recognized";
        (InvalidDatetimeFormat, message.to_owned())
    } else if let Some((unit, given)) = line.split_once(" does not support: ") {
        let unit = unit.rsplit(' ').next().unwrap_or(unit);
        // The days of a week are told with the day that begins it.
        let unit = unit.trim_end_matches("Sunday0").trim_end_matches("Monday0");
        let unit = unit.to_lowercase();
        let message = format!("unit \"{unit}\" not supported for type {}", in_sql(given));
        (FeatureNotSupported, message)
    } else if let Some((_, code)) = line.split_once("invalid Unicode scalar value: ") {
        let message = format!("requested character not valid for encoding: {code}");
        (ProgramLimitExceeded, message)
    } else if let Some((_, given)) =
        line.split_once("must be an INTEGER, TIMESTAMP, DATE or NULL, got ")
    {
        let message = format!("function range({}) does not exist", in_sql(given));
        (UndefinedFunction, message)
    } else if line.contains("Failed to decode value using hex") {
        let message = match between(line, "Invalid character '", "'") {
            Some(digit) => format!("invalid hexadecimal digit: \"{digit}\""),
            None => "invalid hexadecimal data: odd number of digits".to_owned(),
        };
        (InvalidParameterValue, message)
    } else if line.contains("Failed to decode value using base64") {
        let message = "invalid symbol found while decoding base64 sequence";
        (InvalidParameterValue, message.to_owned())
    } else if let Some(name) = between(line, "There is no built-in encoding named '", "'") {
        let message = format!("unrecognized encoding: \"{name}\"");
        (InvalidParameterValue, message)
    } else if line.ends_with("field position must not be zero") {
        let message = "field position must not be zero";
        (InvalidParameterValue, message.to_owned())
    } else if line.ends_with("Expected an integer value") {
        let message = "the offset of lag and lead must be an integer";
        (InvalidParameterValue, message.to_owned())
    } else {
        return None;
    })
}

/// Windows and aggregates where they may not stand, and frames that are none.
fn of_frame(line: &str) -> Option<(SqlState, String)> {
    let (state, message) = if line.contains("frame offsets for") {
        (
            SqlState::InvalidPrecedingOrFollowingSize,
            "the offset of a window frame must be a constant that is not negative",
        )
    } else if line.contains("Invalid window frame: start bound")
        || line.contains("Invalid window frame: end bound")
    {
        (
            SqlState::WindowingError,
            "a window frame cannot end before it starts",
        )
    } else if line.ends_with("RANGE requires exactly one ORDER BY column") {
        (
            SqlState::WindowingError,
            "RANGE with offset PRECEDING or FOLLOWING requires exactly one ORDER BY column",
        )
    } else if line.ends_with("Unsupported predicate type") {
        (
            SqlState::WindowingError,
            "window functions are not allowed here",
        )
    } else if line.contains("Window function calls cannot be nested") {
        (
            SqlState::WindowingError,
            "window function calls cannot be nested",
        )
    } else if line.contains("Aggregate function calls cannot be nested") {
        (
            SqlState::GroupingError,
            "aggregate function calls cannot be nested",
        )
    } else if line.contains("Aggregate functions are not allowed in the WHERE clause") {
        (
            SqlState::GroupingError,
            "aggregate functions are not allowed in WHERE",
        )
    } else if line.starts_with("EXCEPT queries have different")
        || line.starts_with("INTERSECT queries have different")
    {
        let (operator, _) = line.split_once(' ')?;
        let message = format!("{operator} queries have different number of columns");
        return Some((SqlState::DatatypeMismatch, message));
    } else {
        return None;
    };
    Some((state, message.to_owned()))
}

/// A function or an operator over values of types that it does not take.
fn misused(line: &str) -> Option<Error> {
    const EXPLICIT: &str = "You might need to add explicit type casts.";
    let line = line.trim_start_matches("Internal error: ");
    let undefined = |what: String| {
        let hint = format!("No function matches the given name and argument types. {EXPLICIT}");
        let message = format!("function {what} does not exist");
        Error::new(SqlState::UndefinedFunction, message).with_hint(hint)
    };
    let no_operator = |what: String| {
        let hint = format!("No operator matches the given argument types. {EXPLICIT}");
        let message = format!("operator does not exist: {what}");
        Error::new(SqlState::UndefinedFunction, message).with_hint(hint)
    };
    let untaken = |types: &str| {
        let message = format!("values of type {} are not what it takes", in_sql(types));
        Error::new(SqlState::UndefinedFunction, message).with_hint(EXPLICIT)
    };
    if let Some(call) = between(
        line,
        "Cannot coerce arithmetic expression ",
        " to valid types",
    ) {
        return Some(no_operator(in_sql(&call)));
    }
    if line.contains("in LIKE expression") || line.contains("in ILIKE expression") {
        let (left, right) = between(line, "to coerce ", " in ").and_then(|pair| {
            let (left, right) = pair.rsplit_once(" and ")?;
            Some((in_sql(left), in_sql(right)))
        })?;
        return Some(no_operator(format!("{left} ~~ {right}")));
    }
    if let Some((name, given)) = line
        .split_once("' requires ")
        .and_then(|(before, _)| before.rsplit_once("Function '"))
        .map(|(_, name)| name.to_owned())
        .zip(between(line, "(DataType: ", ").").or_else(|| between(line, "but received ", " (")))
    {
        return Some(undefined(format!("{name}({})", in_sql(&given))));
    }
    if let Some(rest) = line.strip_prefix("Unsupported data type ")
        && let Some((given, name)) = rest.split_once(" for function ")
    {
        return Some(undefined(format!(
            "{}({})",
            name.trim_end_matches('.'),
            in_sql(given)
        )));
    }
    if let Some((then, other)) =
        between(line, "Failed to coerce then (", ") to common types in CASE").and_then(|pair| {
            let (then, other) = pair.rsplit_once(") and else (")?;
            Some((in_sql(then), in_sql(other)))
        })
    {
        let message = format!("CASE types {then} and {other} cannot be matched");
        return Some(Error::new(SqlState::DatatypeMismatch, message));
    }
    if line.contains("to grouping function is not in grouping columns") {
        return Some(Error::new(
            SqlState::GroupingError,
            "arguments to GROUPING must be grouping expressions of the associated query level",
        ));
    }
    if let Some(name) = between(line, "Function '", "' user-defined coercion failed") {
        let name = name.trim_start_matches("__firndb_");
        return Some(undefined(format!("{name} of these arguments")));
    }
    if let Some(name) = misfitting(line) {
        return Some(undefined(format!("{name} of these arguments")));
    }
    if let Some((from, to)) = line
        .strip_prefix("Casting from ")
        .and_then(|rest| rest.strip_suffix(" not supported"))
        .and_then(|rest| rest.rsplit_once(" to "))
        .or_else(|| {
            line.strip_prefix("Cannot automatically convert ")?
                .rsplit_once(" to ")
        })
    {
        let message = format!("cannot cast type {} to {}", in_sql(from), in_sql(to));
        return Some(Error::new(SqlState::CannotCoerce, message).with_hint(EXPLICIT));
    }
    if let Some(given) = between(line, "from physical type ", ".").or_else(|| {
        let (_, given) = line.split_once("from physical type ")?;
        Some(given.to_owned())
    }) {
        return Some(untaken(&given));
    }
    if let Some(name) = line
        .split_once(" can only accept List")
        .map(|(name, _)| name.trim().to_owned())
    {
        return Some(undefined(format!("{name} of what is no list")));
    }
    if line.contains("nth_value not supported for n") {
        let message = "argument of nth_value must be an integer";
        return Some(Error::new(SqlState::InvalidParameterValue, message));
    }
    if line.contains("failed to convert size to usize") {
        let message = "the size of a list must not be negative";
        return Some(Error::new(SqlState::InvalidParameterValue, message));
    }
    if line.contains("Nth value indices are 1 based") {
        let message = "argument of nth_value must be greater than zero";
        return Some(Error::new(SqlState::InvalidParameterValue, message));
    }
    if let Some(given) = between(line, "could not cast array of type ", " to arrow_array")
        .or_else(|| between(line, "could not cast value to ", "."))
        .or_else(|| {
            between(line, "accumulator not implemented for type ", "unsorted)")
                .map(|one| one + "unsorted)")
        })
    {
        return Some(untaken(&given));
    }
    None
}

/// What is not supported, without the tree of it that DataFusion shows behind its name.
pub(super) fn without_tree(line: &str) -> String {
    let line = line.replace("Unsupported ast node in sqltorel: ", "");
    let line = line.replace("Unsupported ast node ", "");
    if line.starts_with("Nested(") {
        return "an expression here that is no constant".to_owned();
    }
    let end = [" { ", "(ScalarSubquery", "(\""]
        .iter()
        .filter_map(|tree| line.find(tree))
        .min()
        .unwrap_or(line.len());
    line[..end].to_owned()
}

/// The operator and the types of `… comparison operation List(Int64) = Int64`.
fn uncompared(line: &str) -> Option<(String, String, String)> {
    let (_, rest) = line.split_once("common argument type for comparison operation ")?;
    let operators = [
        " IS NOT DISTINCT FROM ",
        " IS DISTINCT FROM ",
        " <= ",
        " >= ",
        " != ",
        " <> ",
        " = ",
        " < ",
        " > ",
    ];
    operators.iter().find_map(|operator| {
        let (left, right) = rest.split_once(operator)?;
        Some((
            operator.trim().to_owned(),
            in_sql(left.trim()),
            in_sql(right.trim()),
        ))
    })
}

fn between(text: &str, before: &str, after: &str) -> Option<String> {
    let start = text.find(before)? + before.len();
    let end = start + text[start..].find(after)?;
    Some(text[start..end].to_owned())
}

/// The function that says of its arguments' number or types that it does not take them.
fn misfitting(line: &str) -> Option<&str> {
    const SAYINGS: [&str; 9] = [
        " does not support type",
        " expects array arguments, got",
        " expects list as first argument",
        " expects at least one argument",
        " function unsupported data type at index",
        " function only accepts format arguments",
        " requires an even number of arguments",
        " first argument must be a union",
        " only support unions",
    ];
    let saying = SAYINGS.iter().find(|saying| line.contains(**saying))?;
    let name = line.split(*saying).next()?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    (!name.is_empty() && name.bytes().all(is_name)).then_some(match name {
        "arrays_zip" => "list_zip",
        "make_map" => "map",
        other => other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparisons_that_there_are_not() {
        let error =
            known("Cannot infer common argument type for comparison operation List(Int64) = Int64");
        assert_eq!(
            error.unwrap().message,
            "operator does not exist: bigint[] = bigint"
        );
    }

    #[test]
    fn trees_are_cut_off() {
        assert_eq!(
            without_tree(
                "Unsupported ast node in sqltorel: Collate { expr: Value(ValueWithSpan { … }) }"
            ),
            "Collate"
        );
    }
}
