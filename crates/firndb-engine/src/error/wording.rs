//! What DataFusion says in words of its own, in PostgreSQL's, where only the text marks the case: a SQLSTATE and a message without
//! its types and trees.

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
    let (state, message): (SqlState, String) = if let Some(position) =
        between(line, "Cannot find column with position ", " in SELECT")
    {
        (
            SqlState::InvalidColumnReference,
            format!("GROUP BY position {position} is not in select list"),
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

/// What is not supported, without the tree of it that DataFusion shows behind its name.
pub(super) fn without_tree(line: &str) -> String {
    let line = line.replace("Unsupported ast node in sqltorel: ", "");
    let line = line.replace("Unsupported ast node ", "");
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

/// A text with Arrow's types in SQL's words.
pub(super) fn in_sql(text: &str) -> String {
    const NAMES: [(&str, &str); 23] = [
        ("LargeUtf8", "text"),
        ("Utf8View", "text"),
        ("Utf8", "text"),
        ("UInt64", "ubigint"),
        ("UInt32", "uinteger"),
        ("UInt16", "usmallint"),
        ("UInt8", "utinyint"),
        ("Int64", "bigint"),
        ("Int32", "integer"),
        ("Int16", "smallint"),
        ("Int8", "tinyint"),
        ("Float64", "double precision"),
        ("Float32", "real"),
        ("Boolean", "boolean"),
        ("BinaryView", "bytea"),
        ("FixedSizeBinary(16)", "uuid"),
        ("Date32", "date"),
        ("Decimal128", "numeric"),
        ("Timestamp(µs, \"UTC\")", "timestamptz"),
        ("Timestamp(µs)", "timestamp"),
        ("Time64(µs)", "time"),
        ("Interval(MonthDayNano)", "interval"),
        ("Null", "unknown"),
    ];
    let named = NAMES.iter().fold(text.to_owned(), |text, (arrow, sql)| {
        text.replace(arrow, sql)
    });
    lists(&named)
}

/// `List(bigint)` as `bigint[]`.
fn lists(text: &str) -> String {
    let Some(start) = text.find("List(") else {
        return text.replace("Struct(", "struct(").replace("\": ", "\" ");
    };
    let inner = start + "List(".len();
    let mut depth = 1_usize;
    for (place, character) in text[inner..].char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            let (element, rest) = (&text[inner..inner + place], &text[inner + place + 1..]);
            return format!("{}{}[]{}", &text[..start], lists(element), lists(rest));
        }
    }
    text.to_owned()
}

fn between(text: &str, before: &str, after: &str) -> Option<String> {
    let start = text.find(before)? + before.len();
    let end = start + text[start..].find(after)?;
    Some(text[start..end].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_in_the_words_of_sql() {
        assert_eq!(
            in_sql("List(List(Int64)), Struct(\"a\": Utf8View)"),
            "bigint[][], struct(\"a\" text)"
        );
        assert_eq!(in_sql("Int64"), "bigint");
    }

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
