//! Arrow's types within DataFusion's messages, in the words of SQL.
//!
//! A type is read as Arrow prints it, to any depth: `Map("entries": non-null Struct("key": non-null Utf8, "value": Int64),
//! unsorted)` is `map(text, bigint)`. What only looks like one stays as it is.

/// A text with Arrow's types in SQL's words.
pub(super) fn in_sql(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut inside_word = false;
    while let Some(letter) = rest.chars().next() {
        if !inside_word
            && letter.is_ascii_uppercase()
            && let Some((name, after)) = a_type(rest)
        {
            out.push_str(&name);
            rest = after;
            inside_word = false;
            continue;
        }
        inside_word = letter.is_alphanumeric() || letter == '_';
        out.push(letter);
        rest = &rest[letter.len_utf8()..];
    }
    out
}

/// The type at the start of a text in SQL's words, and what follows it.
fn a_type(text: &str) -> Option<(String, &str)> {
    let end = text
        .find(|letter: char| !letter.is_ascii_alphanumeric())
        .unwrap_or(text.len());
    let (word, after) = text.split_at(end);
    if after.starts_with('_') {
        return None;
    }
    let (inner, behind) = match after.strip_prefix('(') {
        Some(_) => {
            let close = closing(after)?;
            (Some(&after[1..close]), &after[close + 1..])
        }
        None => (None, after),
    };
    let plain = match word {
        "Utf8" | "LargeUtf8" | "Utf8View" => "text",
        "Int8" => "tinyint",
        "Int16" => "smallint",
        "Int32" => "integer",
        "Int64" => "bigint",
        "UInt8" => "utinyint",
        "UInt16" => "usmallint",
        "UInt32" => "uinteger",
        "UInt64" => "ubigint",
        "Float16" | "Float32" => "real",
        "Float64" => "double precision",
        "Boolean" => "boolean",
        "Binary" | "LargeBinary" | "BinaryView" => "bytea",
        "Date32" | "Date64" => "date",
        "Null" => "unknown",
        _ => "",
    };
    if !plain.is_empty() {
        return Some((plain.to_owned(), after));
    }
    let inner = inner?;
    let name = match word {
        "FixedSizeBinary" if inner == "16" => "uuid".to_owned(),
        "FixedSizeBinary" => "bytea".to_owned(),
        "Time32" | "Time64" => "time".to_owned(),
        "Interval" | "Duration" => "interval".to_owned(),
        "Timestamp" if inner.contains(',') && !inner.contains("None") => "timestamptz".to_owned(),
        "Timestamp" => "timestamp".to_owned(),
        "Decimal32" | "Decimal64" | "Decimal128" | "Decimal256" => format!("numeric({inner})"),
        "Dictionary" => in_sql(parts(inner).into_iter().nth(1)?.trim()),
        "List" | "LargeList" | "ListView" | "LargeListView" => {
            format!("{}[]", field(parts(inner).into_iter().next()?)?)
        }
        "FixedSizeList" => {
            let item = inner.split_once(" x ").map_or(inner, |(_, item)| item);
            format!("{}[]", field(parts(item).into_iter().next()?)?)
        }
        "Struct" => format!("struct({})", members(inner)?.join(", ")),
        "Map" => {
            let entries = parts(inner).into_iter().next()?;
            let (_, entries) = split_name(entries)?;
            let entries = entries.trim().trim_start_matches("non-null ");
            let pair = entries.strip_prefix("Struct(")?.strip_suffix(')')?;
            let types: Option<Vec<String>> = parts(pair)
                .into_iter()
                .filter_map(|part| split_name(part).map(|(_, data_type)| field(data_type)))
                .collect();
            format!("map({})", types?.join(", "))
        }
        _ => return None,
    };
    Some((name, behind))
}

/// `"a": Int64, "b": Utf8` as `a bigint`, `b text`.
fn members(text: &str) -> Option<Vec<String>> {
    parts(text)
        .into_iter()
        .filter_map(split_name)
        .map(|(name, data_type)| Some(format!("{name} {}", field(data_type)?)))
        .collect()
}

/// A field's type: `non-null Int64`.
fn field(text: &str) -> Option<String> {
    let text = text.trim().trim_start_matches("non-null ");
    a_type(text).map(|(name, _)| name)
}

/// The name and the rest of `"name": type`.
fn split_name(text: &str) -> Option<(&str, &str)> {
    let rest = text.trim().strip_prefix('"')?;
    let (name, data_type) = rest.split_once("\": ")?;
    Some((name, data_type))
}

/// The place of the parenthesis that closes the first one.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut quoted = false;
    for (place, letter) in text.char_indices() {
        match letter {
            '"' => quoted = !quoted,
            '(' | '{' if !quoted => depth += 1,
            ')' | '}' if !quoted => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(place);
                }
            }
            _ => {}
        }
    }
    None
}

/// The parts of a list with commas, those within parentheses and quotes aside.
fn parts(text: &str) -> Vec<&str> {
    let (mut depth, mut quoted, mut start) = (0_usize, false, 0);
    let mut parts = Vec::new();
    for (place, letter) in text.char_indices() {
        match letter {
            '"' => quoted = !quoted,
            '(' | '{' if !quoted => depth += 1,
            ')' | '}' if !quoted => depth = depth.saturating_sub(1),
            ',' if !quoted && depth == 0 => {
                parts.push(&text[start..place]);
                start = place + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::in_sql;

    #[test]
    fn types_of_any_depth_are_in_sql() {
        for (arrow, sql) in [
            ("Int64", "bigint"),
            ("f(Int8, Null)", "f(tinyint, unknown)"),
            ("List(List(Int64))", "bigint[][]"),
            ("Struct(\"a\": Utf8View)", "struct(a text)"),
            (
                "Map(\"entries\": non-null Struct(\"key\": non-null Utf8, \"value\": List(Float64)), unsorted)",
                "map(text, double precision[])",
            ),
            (
                "Timestamp(µs, \"UTC\") and Timestamp(ns)",
                "timestamptz and timestamp",
            ),
            ("Decimal128(38, 0)", "numeric(38, 0)"),
            ("List(Utf8, metadata: {\"a\": \"b\"})", "text[]"),
            ("an Int64_column", "an Int64_column"),
            ("Struct and List", "Struct and List"),
        ] {
            assert_eq!(in_sql(arrow), sql, "{arrow}");
        }
    }
}
