//! Functions that stand for expressions of other functions.
//!
//! [`MACROS`] says what they stand for, `a`, `b` … being their arguments.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::LazyLock;

use datafusion::sql::sqlparser::ast::{Expr, SelectItem, SetExpr, VisitMut, VisitorMut};

use super::parse_query;

/// The names of these functions.
pub fn macro_names() -> impl Iterator<Item = &'static str> {
    MACROS
        .iter()
        .map(|(name, _, _)| *name)
        .filter(|name| !name.starts_with("__firndb_"))
}

/// `a = ANY (b)` of a list, with three truth values.
pub(super) const ANY_EQUAL: &str = "__firndb_any_equal";
/// NULL as a condition.
pub(super) const UNKNOWN: &str = "__firndb_unknown";
/// `a <> ANY (b)`, and the like for the other comparisons.
pub(super) const ANY_OTHER: &str = "__firndb_any_other";
pub(super) const ANY_LESS: &str = "__firndb_any_less";
pub(super) const ANY_LESS_OR_EQUAL: &str = "__firndb_any_less_or_equal";
pub(super) const ANY_GREATER: &str = "__firndb_any_greater";
pub(super) const ANY_GREATER_OR_EQUAL: &str = "__firndb_any_greater_or_equal";
/// The earlier end of a period from `a` to `b`, or of length `b`; an unknown end leaves the other.
pub(super) const PERIOD_FIRST: &str = "__firndb_period_first";
/// The later end of the same, NULL if one of them is.
pub(super) const PERIOD_LAST: &str = "__firndb_period_last";
/// Whether the period from `a` to `b` overlaps that from `c` to `d`, where an end may be unknown.
pub(super) const OVERLAPS: &str = "__firndb_overlaps";

/// Name, number of arguments, and the expression that the call stands for.
const MACROS: &[(&str, usize, &str)] = &[
    (
        "version",
        0,
        concat!("'FirnDB ", env!("CARGO_PKG_VERSION"), "'"),
    ),
    (
        ANY_EQUAL,
        2,
        "CASE WHEN b IS NULL THEN NULL WHEN list_contains(b, a) THEN TRUE WHEN len(b) > 0 AND (a IS NULL OR len(list_compact(b)) < len(b)) THEN NULL ELSE FALSE END",
    ),
    (
        ANY_OTHER,
        2,
        "CASE WHEN b IS NULL THEN NULL WHEN array_min(b) <> a OR array_max(b) <> a THEN TRUE WHEN len(b) > 0 AND (a IS NULL OR len(list_compact(b)) < len(b)) THEN NULL ELSE FALSE END",
    ),
    (
        ANY_LESS,
        2,
        "CASE WHEN b IS NULL THEN NULL WHEN a < array_max(b) THEN TRUE WHEN len(b) > 0 AND (a IS NULL OR len(list_compact(b)) < len(b)) THEN NULL ELSE FALSE END",
    ),
    (
        ANY_LESS_OR_EQUAL,
        2,
        "CASE WHEN b IS NULL THEN NULL WHEN a <= array_max(b) THEN TRUE WHEN len(b) > 0 AND (a IS NULL OR len(list_compact(b)) < len(b)) THEN NULL ELSE FALSE END",
    ),
    (
        ANY_GREATER,
        2,
        "CASE WHEN b IS NULL THEN NULL WHEN a > array_min(b) THEN TRUE WHEN len(b) > 0 AND (a IS NULL OR len(list_compact(b)) < len(b)) THEN NULL ELSE FALSE END",
    ),
    (
        ANY_GREATER_OR_EQUAL,
        2,
        "CASE WHEN b IS NULL THEN NULL WHEN a >= array_min(b) THEN TRUE WHEN len(b) > 0 AND (a IS NULL OR len(list_compact(b)) < len(b)) THEN NULL ELSE FALSE END",
    ),
    (UNKNOWN, 0, "CAST(NULL AS BOOLEAN)"),
    (PERIOD_FIRST, 2, "least(a, __firndb_period_end(a, b))"),
    (
        PERIOD_LAST,
        2,
        "CASE WHEN a IS NOT NULL AND __firndb_period_end(a, b) IS NOT NULL THEN greatest(a, __firndb_period_end(a, b)) END",
    ),
    (
        OVERLAPS,
        4,
        "CASE WHEN a > c THEN CASE WHEN d IS NULL THEN NULL WHEN a < d THEN TRUE WHEN b IS NULL THEN NULL ELSE FALSE END \
         WHEN a < c THEN CASE WHEN b IS NULL THEN NULL WHEN c < b THEN TRUE WHEN d IS NULL THEN NULL ELSE FALSE END \
         WHEN a = c THEN CASE WHEN b IS NULL OR d IS NULL THEN NULL ELSE TRUE END END",
    ),
    ("list_unique", 1, "len(list_distinct(list_compact(a)))"),
    ("array_unique", 1, "len(list_distinct(list_compact(a)))"),
    ("length", 1, "len(a)"),
    ("char_length", 1, "len(a)"),
    ("character_length", 1, "len(a)"),
    ("list_value", 0, "[]"),
    ("list_pack", 0, "[]"),
    ("ord", 1, "CASE WHEN a = '' THEN -1 ELSE ascii(a) END"),
    ("unicode", 1, "CASE WHEN a = '' THEN -1 ELSE ascii(a) END"),
    ("list_reverse_sort", 1, "array_sort(a, 'DESC')"),
    ("array_reverse_sort", 1, "array_sort(a, 'DESC')"),
    ("list_count", 1, "array_length(list_compact(a))"),
    ("list_min", 1, "array_min(a)"),
    ("list_first", 1, "(a)[1]"),
    ("list_last", 1, "(a)[-1]"),
    ("list_any_value", 1, "(list_compact(a))[1]"),
    ("base64", 1, "encode(a, 'base64pad')"),
    ("to_base64", 1, "encode(a, 'base64pad')"),
    ("from_base64", 1, "decode(a, 'base64pad')"),
    ("encode", 1, "unhex(hex(CAST(a AS VARCHAR)))"),
    ("date_add", 2, "(a + b)"),
    ("to_millennia", 1, "(INTERVAL '1000 years' * a)"),
    ("to_centuries", 1, "(INTERVAL '100 years' * a)"),
    ("to_decades", 1, "(INTERVAL '10 years' * a)"),
    ("to_years", 1, "(INTERVAL '1 year' * a)"),
    ("to_quarters", 1, "(INTERVAL '3 months' * a)"),
    ("to_months", 1, "(INTERVAL '1 month' * a)"),
    ("to_weeks", 1, "(INTERVAL '7 days' * a)"),
    ("to_days", 1, "(INTERVAL '1 day' * a)"),
    ("to_hours", 1, "(INTERVAL '1 hour' * a)"),
    ("to_minutes", 1, "(INTERVAL '1 minute' * a)"),
    ("to_seconds", 1, "(INTERVAL '1 second' * a)"),
    ("to_milliseconds", 1, "(INTERVAL '1 millisecond' * a)"),
    ("to_microseconds", 1, "(INTERVAL '1 microsecond' * a)"),
    (
        "last_day",
        1,
        "CAST(date_trunc('month', CAST(a AS DATE)) + INTERVAL '1 month' - INTERVAL '1 day' AS DATE)",
    ),
    ("monthname", 1, "strftime(a, '%B')"),
    ("dayname", 1, "strftime(a, '%A')"),
    (
        "make_timestamp",
        1,
        "(TIMESTAMP '1970-01-01' + INTERVAL '1 microsecond' * a)",
    ),
    ("make_timestamp_us", 1, "make_timestamp(a)"),
    (
        "make_timestamp_ms",
        1,
        "(TIMESTAMP '1970-01-01' + INTERVAL '1 millisecond' * a)",
    ),
    (
        "make_timestamptz",
        1,
        "CAST('1970-01-01 00:00:00+00' AS TIMESTAMPTZ) + INTERVAL '1 microsecond' * a",
    ),
    (
        "make_timestamptz",
        6,
        "CAST(make_timestamp(a, b, c, d, e, f) AS TIMESTAMPTZ)",
    ),
    (
        "make_timestamptz",
        7,
        "(make_timestamp(a, b, c, d, e, f) AT TIME ZONE g)",
    ),
    ("age", 1, "age(CAST(current_date() AS TIMESTAMP), a)"),
    ("isodow", 1, "CAST(date_part('isodow', a) AS BIGINT)"),
    (
        "microsecond",
        1,
        "CAST(date_part('microsecond', a) AS BIGINT)",
    ),
    (
        "millisecond",
        1,
        "CAST(date_part('millisecond', a) AS BIGINT)",
    ),
    (
        "century",
        1,
        "CASE WHEN typeof(a) = 'INTERVAL' THEN CASE WHEN year(a) < 0 THEN -((- year(a)) // 100) ELSE year(a) // 100 END WHEN year(a) > 0 THEN (year(a) + 99) // 100 ELSE -((- year(a)) // 100) - 1 END",
    ),
    ("decade", 1, "(year(a) // 10)"),
    (
        "millennium",
        1,
        "CASE WHEN typeof(a) = 'INTERVAL' THEN CASE WHEN year(a) < 0 THEN -((- year(a)) // 1000) ELSE year(a) // 1000 END WHEN year(a) > 0 THEN (year(a) + 999) // 1000 ELSE -((- year(a)) // 1000) - 1 END",
    ),
    (
        "era",
        1,
        "CASE WHEN year(a) > 0 THEN 1 WHEN year(a) <= 0 THEN 0 END",
    ),
    (
        "isoyear",
        1,
        "year(date_trunc('week', a) + INTERVAL '3 days')",
    ),
    (
        "yearweek",
        1,
        "(year(date_trunc('week', a) + INTERVAL '3 days') * 100 + CASE WHEN year(date_trunc('week', a) + INTERVAL '3 days') > 0 THEN week(a) ELSE - week(a) END)",
    ),
    (
        "timeofday",
        0,
        "strftime(clock_timestamp(), '%a %b %d %H:%M:%S.%f %Y %Z')",
    ),
    ("normalized_interval", 1, "justify_interval(a)"),
    (
        "list_negative_dot_product",
        2,
        "(- inner_product(CAST(a AS DOUBLE[]), CAST(b AS DOUBLE[])))",
    ),
    (
        "array_negative_inner_product",
        2,
        "(- inner_product(CAST(a AS DOUBLE[]), CAST(b AS DOUBLE[])))",
    ),
    (
        "array_negative_dot_product",
        2,
        "(- inner_product(CAST(a AS DOUBLE[]), CAST(b AS DOUBLE[])))",
    ),
    (
        "array_dot_product",
        2,
        "inner_product(CAST(a AS DOUBLE[]), CAST(b AS DOUBLE[]))",
    ),
    (
        "uuid_extract_version",
        1,
        "CASE WHEN substr(CAST(CAST(a AS UUID) AS VARCHAR), 20, 1) IN ('8', '9', 'a', 'b') THEN CAST(substr(CAST(CAST(a AS UUID) AS VARCHAR), 15, 1) AS INTEGER) END",
    ),
    (
        "quote_nullable",
        1,
        "CASE WHEN a IS NULL THEN 'NULL' ELSE '''' || replace(CAST(a AS VARCHAR), '''', '''''') || '''' END",
    ),
    ("iif", 3, "CASE WHEN a THEN b ELSE c END"),
    ("if", 3, "CASE WHEN a THEN b ELSE c END"),
    ("nullif", 2, "CASE WHEN a = b THEN NULL ELSE a END"),
    ("sem", 1, "(stddev_pop(a) / sqrt(count(a)))"),
    ("geomean", 1, "exp(avg(ln(a)))"),
    ("geometric_mean", 1, "exp(avg(ln(a)))"),
    ("isnull", 1, "(a IS NULL)"),
    ("add", 1, "(+ a)"),
    ("subtract", 1, "(- a)"),
    ("add", 2, "(a + b)"),
    ("subtract", 2, "(a - b)"),
    ("multiply", 2, "(a * b)"),
    ("divide", 2, "(a // b)"),
    ("square", 1, "(a * a)"),
    ("timezone", 2, "(b AT TIME ZONE a)"),
    (
        "list_inner_product",
        2,
        "inner_product(CAST(a AS DOUBLE[]), CAST(b AS DOUBLE[]))",
    ),
    (
        "array_inner_product",
        2,
        "inner_product(CAST(a AS DOUBLE[]), CAST(b AS DOUBLE[]))",
    ),
    (
        "list_dot_product",
        2,
        "inner_product(CAST(a AS DOUBLE[]), CAST(b AS DOUBLE[]))",
    ),
    (
        "list_negative_inner_product",
        2,
        "(- inner_product(CAST(a AS DOUBLE[]), CAST(b AS DOUBLE[])))",
    ),
    (
        "list_cosine_distance",
        2,
        "cosine_distance(CAST(a AS DOUBLE[]), CAST(b AS DOUBLE[]))",
    ),
    (
        "list_cosine_similarity",
        2,
        "(1 - cosine_distance(CAST(a AS DOUBLE[]), CAST(b AS DOUBLE[])))",
    ),
    (
        "array_cosine_similarity",
        2,
        "(1 - cosine_distance(CAST(a AS DOUBLE[]), CAST(b AS DOUBLE[])))",
    ),
    ("list_string_agg", 1, "array_to_string(a, ',')"),
    ("list_string_agg", 2, "array_to_string(a, b)"),
    ("list_extract", 2, "(a)[b]"),
    ("list_element", 2, "(a)[b]"),
    ("array_extract", 2, "(a)[b]"),
    (
        "list_select",
        2,
        "CASE WHEN a IS NOT NULL THEN list_transform(b, place -> (a)[place]) END",
    ),
    (
        "array_select",
        2,
        "CASE WHEN a IS NOT NULL THEN list_transform(b, place -> (a)[place]) END",
    ),
    ("map_contains", 2, "list_contains(map_keys(a), b)"),
    ("map_contains_value", 2, "list_contains(map_values(a), b)"),
    (
        "array_upper",
        2,
        "CASE WHEN array_length(a, b) > 0 THEN CAST(array_length(a, b) AS BIGINT) END",
    ),
    (
        "array_lower",
        2,
        "CASE WHEN array_length(a, b) > 0 THEN CAST(1 AS BIGINT) END",
    ),
    ("array_fill", 2, "array_repeat(a, (b)[1])"),
    ("generate_subscripts", 2, "unnest(range(1, len(a) + 1))"),
    (
        "regexp_split_to_table",
        2,
        "unnest(string_to_array(regexp_replace(a, b, chr(1), 'g'), chr(1)))",
    ),
    (
        "quote_literal",
        1,
        "('''' || replace(CAST(a AS VARCHAR), '''', '''''') || '''')",
    ),
    (
        "quote_ident",
        1,
        "CASE WHEN regexp_like(a, '^[a-z_][a-z0-9_$]*$') THEN a ELSE '\"' || replace(a, '\"', '\"\"') || '\"' END",
    ),
    (
        "width_bucket",
        4,
        "CASE WHEN b < c THEN CASE WHEN a < b THEN 0 WHEN a >= c THEN d + 1 ELSE CAST(floor((CAST(a AS DOUBLE) - b) / (CAST(c AS DOUBLE) - b) * d) AS BIGINT) + 1 END ELSE CASE WHEN a > b THEN 0 WHEN a <= c THEN d + 1 ELSE CAST(floor((CAST(b AS DOUBLE) - a) / (CAST(b AS DOUBLE) - c) * d) AS BIGINT) + 1 END END",
    ),
    ("fdiv", 2, "floor(CAST(a AS DOUBLE) / b)"),
    ("greatest_common_divisor", 2, "gcd(a, b)"),
    ("least_common_multiple", 2, "lcm(a, b)"),
    ("constant_or_null", 2, "CASE WHEN b IS NOT NULL THEN a END"),
    ("ago", 1, "(now() - a)"),
    (
        "days_in_month",
        1,
        "day(date_trunc('month', CAST(a AS DATE)) + INTERVAL '1 month' - INTERVAL '1 day')",
    ),
    (
        "julian",
        1,
        "(epoch(CAST(a AS TIMESTAMP)) / 86400.0 + 2440588.0)",
    ),
    (
        "nanosecond",
        1,
        "(CAST(date_part('microsecond', a) AS BIGINT) * 1000)",
    ),
    ("uuidv4", 0, "uuid()"),
    ("parse_filename", 1, "regexp_extract(a, '[^/\\\\]*$')"),
    (
        "parse_dirpath",
        1,
        "regexp_extract(a, '^(.*)[/\\\\][^/\\\\]*$', 1)",
    ),
    (
        "parse_dirname",
        1,
        "CASE WHEN a LIKE '/%' THEN '/' ELSE regexp_extract(a, '^([^/\\\\]*)[/\\\\]', 1) END",
    ),
    (
        "parse_path",
        1,
        "CASE WHEN a LIKE '/%' THEN list_concat(['/'], regexp_extract_all(a, '[^/\\\\]+')) ELSE regexp_extract_all(a, '[^/\\\\]+') END",
    ),
    (
        "list_where",
        2,
        "list_transform(list_filter(range(1, len(a) + 1), place -> (b)[place]), place -> (a)[place])",
    ),
    (
        "array_where",
        2,
        "list_transform(list_filter(range(1, len(a) + 1), place -> (b)[place]), place -> (a)[place])",
    ),
    ("array_slice", 3, "(a)[b:c]"),
    ("list_slice", 3, "(a)[b:c]"),
    ("map_extract_value", 2, "(map_extract(a, b))[1]"),
    (
        "map_contains_entry",
        3,
        "CASE WHEN a IS NOT NULL THEN coalesce((a)[b] = c, FALSE) END",
    ),
    ("array_push_front", 2, "list_prepend(b, a)"),
    ("make_date", 1, "(DATE '1970-01-01' + CAST(a AS INTEGER))"),
    ("like", 2, "(b LIKE a)"),
    ("current_schemas", 1, "[current_schema()]"),
    (
        "list_grade_up",
        1,
        "list_transform(list_sort(list_zip(a, range(1, len(a) + 1)), 'ASC', 'NULLS LAST'), pair -> pair['2'])",
    ),
    (
        "array_grade_up",
        1,
        "list_transform(list_sort(list_zip(a, range(1, len(a) + 1)), 'ASC', 'NULLS LAST'), pair -> pair['2'])",
    ),
    ("std", 1, "stddev(a)"),
    (
        "array_cross_product",
        2,
        "[a[2] * b[3] - a[3] * b[2], a[3] * b[1] - a[1] * b[3], a[1] * b[2] - a[2] * b[1]]",
    ),
    ("wavg", 2, "(sum(a * b) / sum(b))"),
    ("weighted_avg", 2, "(sum(a * b) / sum(b))"),
];

static EXPANSIONS: LazyLock<HashMap<(&'static str, usize), Expr>> = LazyLock::new(|| {
    MACROS
        .iter()
        .filter_map(|(name, arguments, text)| Some(((*name, *arguments), template(text)?)))
        .collect()
});

pub(super) fn template(text: &str) -> Option<Expr> {
    let SetExpr::Select(mut select) = *parse_query(&format!("SELECT {text}")).ok()?.body else {
        return None;
    };
    match select.projection.pop()? {
        SelectItem::UnnamedExpr(expr) => Some(expr),
        _ => None,
    }
}

/// What a call stands for, if it is of a macro.
pub(super) fn expanded(name: &str, arguments: &[Expr]) -> Option<Expr> {
    let (key, _) = MACROS
        .iter()
        .map(|(known, count, _)| ((*known, *count), ()))
        .find(|((known, count), ())| *known == name && *count == arguments.len())?;
    let mut expr = EXPANSIONS.get(&key)?.clone();
    let ControlFlow::Continue(()) = expr.visit(&mut Substitution { arguments });
    Some(expr)
}

/// Puts arguments in the place of `a`, `b` ….
struct Substitution<'a> {
    arguments: &'a [Expr],
}

impl VisitorMut for Substitution<'_> {
    type Break = std::convert::Infallible;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        if let Expr::Identifier(name) = expr
            && let [letter @ b'a'..=b'g'] = name.value.as_bytes()
            && let Some(argument) = self.arguments.get(usize::from(letter - b'a'))
        {
            *expr = match argument {
                Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Value(_) => {
                    argument.clone()
                }
                other => Expr::Nested(Box::new(other.clone())),
            };
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_macro_parses() {
        assert_eq!(EXPANSIONS.len(), MACROS.len());
    }
}
