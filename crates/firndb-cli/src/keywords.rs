//! The words of SQL that completion offers, and those that a name must be quoted for.

/// Words that cannot be a column's or table's name without quotes.
const RESERVED: &[&str] = &[
    "all",
    "and",
    "any",
    "array",
    "as",
    "asc",
    "both",
    "case",
    "cast",
    "check",
    "collate",
    "column",
    "constraint",
    "create",
    "cross",
    "current_date",
    "current_time",
    "current_timestamp",
    "default",
    "desc",
    "distinct",
    "do",
    "else",
    "end",
    "except",
    "exists",
    "false",
    "fetch",
    "for",
    "foreign",
    "from",
    "full",
    "grant",
    "group",
    "having",
    "in",
    "inner",
    "intersect",
    "into",
    "is",
    "join",
    "lateral",
    "leading",
    "left",
    "like",
    "limit",
    "natural",
    "not",
    "null",
    "offset",
    "on",
    "only",
    "or",
    "order",
    "outer",
    "primary",
    "qualify",
    "references",
    "returning",
    "right",
    "select",
    "some",
    "table",
    "then",
    "to",
    "trailing",
    "true",
    "union",
    "unique",
    "user",
    "using",
    "values",
    "when",
    "where",
    "window",
    "with",
];

/// Words that completion offers beside the reserved ones.
const OTHERS: &[&str] = &[
    "add",
    "alter",
    "analyze",
    "anti",
    "begin",
    "between",
    "bigint",
    "blob",
    "boolean",
    "by",
    "cascade",
    "commit",
    "conflict",
    "copy",
    "cube",
    "date",
    "deallocate",
    "decimal",
    "delete",
    "double",
    "drop",
    "escape",
    "exclude",
    "execute",
    "explain",
    "extract",
    "filter",
    "first",
    "following",
    "format",
    "grouping",
    "if",
    "ilike",
    "index",
    "insert",
    "integer",
    "interval",
    "last",
    "merge",
    "nothing",
    "nulls",
    "over",
    "partition",
    "preceding",
    "precision",
    "prepare",
    "range",
    "real",
    "recursive",
    "release",
    "rename",
    "replace",
    "rollback",
    "rollup",
    "row",
    "rows",
    "savepoint",
    "schema",
    "semi",
    "set",
    "sets",
    "show",
    "smallint",
    "summarize",
    "temporary",
    "text",
    "time",
    "timestamp",
    "timestamptz",
    "transaction",
    "truncate",
    "try_cast",
    "unbounded",
    "update",
    "uuid",
    "varchar",
    "view",
];

/// Whether a name must be quoted.
pub(crate) fn is_reserved(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    RESERVED.binary_search(&name.as_str()).is_ok()
}

/// The words that begin with a prefix (without regard to case), in lower case.
pub(crate) fn beginning_with(prefix: &str) -> impl Iterator<Item = &'static str> {
    let prefix = prefix.to_ascii_lowercase();
    RESERVED
        .iter()
        .chain(OTHERS)
        .copied()
        .filter(move |word| word.starts_with(&prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_sorted() {
        assert!(RESERVED.is_sorted());
        assert!(OTHERS.is_sorted());
    }

    #[test]
    fn reserved_words_are_found_in_any_case() {
        assert!(is_reserved("Select"));
        assert!(!is_reserved("view"));
    }
}
