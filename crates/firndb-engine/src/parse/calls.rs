//! Functions and operators that stand for others, written out before anything is planned: those of [`super::macros`], and those
//! that need more than a template. Aggregates keep their FILTER: a condition of the function's own is added to it.

use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, CastKind, DataType, DateTimeField, Expr, Function, FunctionArg,
    FunctionArgExpr, FunctionArgumentClause, FunctionArguments, Ident, NullTreatment, ObjectName,
    Subscript, UnaryOperator, Value,
};

use super::macros::expanded;
use super::members::{struct_pack, struct_with};
use super::pieces::call;
use super::{aggregates, arrays, frames, intervals, json, lambdas, moments, templates, to_number};
use crate::error::Result;

/// `date_part` of a part that is no constant.
pub(crate) const DATE_PART: &str = "__firndb_date_part";

/// LAG by offsets or with defaults that are no constants, or that passes over NULLs.
pub(crate) const LAG: &str = "__firndb_lag";
/// LEAD of the same.
pub(crate) const LEAD: &str = "__firndb_lead";
/// `substring(x FROM pattern)`.
pub(crate) const SUBSTRING_MATCHING: &str = "__firndb_substring_matching";
/// The members of a list's lists, and of theirs.
pub(crate) const FLAT: &str = "__firndb_flat";
/// `trunc` to digits.
pub(crate) const TRUNC: &str = "__firndb_trunc";
/// `regexp_matches` with options.
pub(crate) const MATCHES: &str = "__firndb_regexp_matches";

/// Parts of dates that the planner's `date_part` lacks, and the functions that yield them.
const PARTS: &[(&str, &str)] = &[
    ("century", "century"),
    ("centuries", "century"),
    ("decade", "decade"),
    ("decades", "decade"),
    ("millennium", "millennium"),
    ("millennia", "millennium"),
    ("era", "era"),
    ("isoyear", "isoyear"),
    ("yearweek", "yearweek"),
    ("julian", "julian"),
];

/// Rewrites calls and operators that stand for others; every other expression stays as it is.
pub(super) fn rewrite(expr: &mut Expr) -> Result<()> {
    if let Some(replaced) = replacement(expr)? {
        *expr = replaced;
    }
    Ok(())
}

fn replacement(expr: &mut Expr) -> Result<Option<Expr>> {
    Ok(match expr {
        Expr::Function(function) => of_function(function)?,
        // Of any type, as in DuckDB.
        Expr::IsUnknown(value) => {
            let value = std::mem::replace(value.as_mut(), Expr::value(Value::Null));
            Some(Expr::IsNull(Box::new(value)))
        }
        Expr::IsNotUnknown(value) => {
            let value = std::mem::replace(value.as_mut(), Expr::value(Value::Null));
            Some(Expr::IsNotNull(Box::new(value)))
        }
        Expr::Extract { field, expr, .. } => {
            let part = match field {
                DateTimeField::Custom(name) => name.value.to_lowercase(),
                other => other.to_string().to_lowercase(),
            };
            if part == "epoch" {
                return Ok(Some(call("epoch", vec![expr.as_ref().clone()])));
            }
            let Some((_, name)) = PARTS.iter().find(|(known, _)| *known == part) else {
                return Ok(None);
            };
            expanded(name, &[expr.as_ref().clone()])
        }
        Expr::TypedString(typed) => match &typed.value.value {
            Value::SingleQuotedString(text) => moments::named(text, &typed.data_type),
            _ => None,
        },
        Expr::Cast {
            kind: CastKind::Cast | CastKind::DoubleColon,
            expr,
            data_type,
            ..
        } if let Expr::Value(value) = expr.as_ref()
            && let Value::SingleQuotedString(text) = &value.value =>
        {
            moments::named(text, data_type)
        }
        // A list literal loses sight of outer columns in the planner.
        Expr::Array(list) if !list.elem.is_empty() => {
            Some(call("make_array", std::mem::take(&mut list.elem)))
        }
        // Lists bring their members to one type.
        Expr::Map(map) if !map.entries.is_empty() => {
            let (keys, values) = std::mem::take(&mut map.entries)
                .into_iter()
                .map(|entry| (*entry.key, *entry.value))
                .unzip();
            let lists = [keys, values].map(|members| call("make_array", members));
            Some(call("map", lists.into()))
        }
        Expr::Interval(interval) => intervals::rewrite(interval)?,
        // Nothing is in an empty list, not even NULL, as in SQLite.
        Expr::InList { list, negated, .. } if list.is_empty() => {
            Some(Expr::value(Value::Boolean(*negated)))
        }
        Expr::BinaryOp { left, op, right }
            if let Some(call) = json::of_operator(left, op, right) =>
        {
            Some(call)
        }
        Expr::BinaryOp {
            left,
            op: BinaryOperator::PGOverlap,
            right,
        } => Some(call(
            "array_has_any",
            vec![left.as_ref().clone(), right.as_ref().clone()],
        )),
        Expr::BinaryOp {
            left,
            op: BinaryOperator::PGStartsWith,
            right,
        } => Some(call(
            "starts_with",
            vec![left.as_ref().clone(), right.as_ref().clone()],
        )),
        // In two's complement ~x is -1 - x, which no integer makes overflow.
        Expr::UnaryOp {
            op: UnaryOperator::BitwiseNot,
            expr,
        } => Some(Expr::Nested(Box::new(Expr::BinaryOp {
            left: Box::new(number("-1")),
            op: BinaryOperator::Minus,
            right: expr.clone(),
        }))),
        Expr::Substring {
            expr,
            substring_from: Some(pattern),
            substring_for: None,
            special: false,
            ..
        } if is_text(pattern) => Some(call(
            SUBSTRING_MATCHING,
            vec![expr.as_ref().clone(), pattern.as_ref().clone()],
        )),
        Expr::UnaryOp { op, expr } => {
            let name = match op {
                UnaryOperator::PGAbs => "abs",
                UnaryOperator::PGSquareRoot => "sqrt",
                UnaryOperator::PGCubeRoot => "cbrt",
                UnaryOperator::PGPostfixFactorial | UnaryOperator::PGPrefixFactorial => "factorial",
                _ => return Ok(None),
            };
            Some(call(name, vec![expr.as_ref().clone()]))
        }
        Expr::Lambda(lambda) => {
            lambdas::members_of_parameters(lambda);
            None
        }
        Expr::CompoundFieldAccess { root, access_chain } => {
            qualify(root, access_chain);
            for access in access_chain {
                complete(access);
            }
            None
        }
        _ => None,
    })
}

/// Whether an expression is plainly a text.
fn is_text(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_text(inner),
        Expr::Value(value) => matches!(value.value, Value::SingleQuotedString(_)),
        Expr::BinaryOp { op, .. } => *op == BinaryOperator::StringConcat,
        Expr::Cast { data_type, .. } => {
            matches!(data_type, DataType::Text | DataType::Varchar(_))
        }
        _ => false,
    }
}

/// The names at the front of `t.l[1]`: whether `t` is a table or a column is the planner's to know, and it does of `t.l`.
fn qualify(root: &mut Expr, chain: &mut Vec<AccessExpr>) {
    let Expr::Identifier(first) = &*root else {
        return;
    };
    let dots = chain
        .iter()
        .take_while(|access| matches!(access, AccessExpr::Dot(Expr::Identifier(_))))
        .count();
    if dots == 0 {
        return;
    }
    let mut names = vec![first.clone()];
    for access in chain.drain(..dots) {
        if let AccessExpr::Dot(Expr::Identifier(name)) = access {
            names.push(name);
        }
    }
    *root = Expr::CompoundIdentifier(names);
}

/// `.a` as `['a']`, and a slice's bounds where they are left out.
fn complete(access: &mut AccessExpr) {
    match access {
        AccessExpr::Dot(Expr::Identifier(name)) => {
            *access = AccessExpr::Subscript(Subscript::Index {
                index: Expr::value(Value::SingleQuotedString(name.value.clone())),
            });
        }
        AccessExpr::Subscript(Subscript::Slice {
            lower_bound,
            upper_bound,
            ..
        }) => {
            lower_bound.get_or_insert_with(|| number("1"));
            upper_bound.get_or_insert_with(|| number("-1"));
        }
        _ => {}
    }
}

/// How many of the values are NULL, or are not.
fn counted(values: Vec<Expr>, nulls: bool) -> Expr {
    let one = |value: Expr| {
        let condition = match nulls {
            true => Expr::IsNull(Box::new(value)),
            false => Expr::IsNotNull(Box::new(value)),
        };
        Expr::Cast {
            kind: CastKind::Cast,
            expr: Box::new(condition),
            data_type: DataType::BigInt(None),
            array: false,
            format: None,
        }
    };
    let sum = values
        .into_iter()
        .map(one)
        .reduce(|sum, next| Expr::BinaryOp {
            left: Box::new(sum),
            op: BinaryOperator::Plus,
            right: Box::new(next),
        });
    Expr::Nested(Box::new(sum.unwrap_or_else(|| number("0"))))
}

pub(super) fn number(digits: &str) -> Expr {
    Expr::value(Value::Number(digits.to_owned(), false))
}

/// The texts of a list literal.
fn texts_of(list: &Expr) -> Option<Vec<String>> {
    let members = aggregates::members(list)?;
    let text = |member: &Expr| match member {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text.clone()),
            _ => None,
        },
        _ => None,
    };
    members.iter().map(text).collect()
}

/// A struct of named values.
fn struct_of(members: impl Iterator<Item = (String, Expr)>) -> Expr {
    let arguments =
        members.flat_map(|(name, value)| [Expr::value(Value::SingleQuotedString(name)), value]);
    call("named_struct", arguments.collect())
}

/// Several parts of a date as a struct.
fn parts_of_date(parts: &[String], moment: &Expr) -> Result<Expr> {
    let mut members = Vec::with_capacity(parts.len());
    for part in parts {
        let name = Expr::value(Value::SingleQuotedString(part.clone()));
        let mut value = call("date_part", vec![name, moment.clone()]);
        rewrite(&mut value)?;
        members.push((part.clone(), value));
    }
    Ok(struct_of(members.into_iter()))
}

fn name_of(function: &Function) -> Option<&str> {
    match function.name.0.as_slice() {
        [name] => name.as_ident().map(|name| name.value.as_str()),
        _ => None,
    }
}

/// The arguments of a call, if each is an expression.
fn arguments(function: &Function) -> Option<Vec<Expr>> {
    match &function.args {
        FunctionArguments::List(list) => list
            .args
            .iter()
            .map(|argument| match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
                _ => None,
            })
            .collect(),
        _ => None,
    }
}

pub(super) fn set_arguments(function: &mut Function, arguments: Vec<Expr>) {
    if let FunctionArguments::List(list) = &mut function.args {
        list.args = arguments
            .into_iter()
            .map(|argument| FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)))
            .collect();
    }
}

pub(super) fn rename(function: &mut Function, name: &str) {
    function.name = ObjectName::from(Ident::new(name));
}

fn of_function(function: &mut Function) -> Result<Option<Expr>> {
    let Some(name) = name_of(function).map(str::to_owned) else {
        return Ok(None);
    };
    if name == "struct_pack" {
        return struct_pack(function).map(Some);
    }
    if let "struct_insert" | "struct_update" = name.as_str() {
        return struct_with(&name, function).map(Some);
    }
    if name == "array"
        && let FunctionArguments::Subquery(query) = &function.args
    {
        return arrays::of_query(query).map(Some);
    }
    if name == "unnest"
        && let Some(list) = unnested_wholly(function)
    {
        return Ok(Some(call("unnest", vec![call(FLAT, vec![list])])));
    }
    aggregates::drop_constant_orders(function);
    frames::compute(function)?;
    if name == "count" {
        aggregates::count_rows(function);
    }
    let Some(given) = arguments(function) else {
        return Ok(None);
    };
    if let Some(replaced) = aggregates::rewrite(&name, function, &given) {
        return Ok(Some(replaced));
    }
    if let Some(replaced) = templates::rewrite(&name, &given) {
        return Ok(Some(replaced));
    }
    if let Some(replaced) = json::of_function(&name, function, &given)? {
        return Ok(Some(replaced));
    }
    moments::rewrite(&name, function, &given);
    match (name.as_str(), given.as_slice()) {
        ("num_nulls" | "num_nonnulls", [_, ..]) => {
            return Ok(Some(counted(given, name == "num_nulls")));
        }
        ("count_if" | "countif", [condition]) => {
            rename(function, "count");
            if let FunctionArguments::List(list) = &mut function.args {
                list.args = vec![FunctionArg::Unnamed(FunctionArgExpr::Wildcard)];
            }
            also(function, condition.clone());
        }
        ("fsum" | "kahan_sum" | "sumkahan" | "favg", [value]) => {
            rename(function, if name == "favg" { "avg" } else { "sum" });
            set_arguments(function, vec![as_double(value.clone())]);
        }
        ("sum_no_overflow", [_]) => rename(function, "sum"),
        ("approx_quantile" | "reservoir_quantile", [_, _]) => rename(function, "quantile_disc"),
        ("any_value", [value]) if function.over.is_none() => {
            rename(function, "first_value");
            also(function, Expr::IsNotNull(Box::new(value.clone())));
        }
        // Window functions have no aliases.
        ("first" | "arbitrary", [_]) if function.over.is_some() => rename(function, "first_value"),
        ("last", [_]) if function.over.is_some() => rename(function, "last_value"),
        ("arg_min" | "min_by" | "argmin" | "arg_max" | "max_by" | "argmax", [value, by]) => {
            if function.over.is_some() {
                let at = if name.contains("min") {
                    "arg_min"
                } else {
                    "arg_max"
                };
                rename(function, at);
                return Ok(None);
            }
            rename(function, "first_value");
            set_arguments(function, vec![value.clone()]);
            aggregates::order_by(function, by, name.contains("min"));
            also(function, Expr::IsNotNull(Box::new(value.clone())));
            also(function, Expr::IsNotNull(Box::new(by.clone())));
        }
        ("arg_min_null" | "arg_max_null", [value, by]) if function.over.is_none() => {
            rename(function, "first_value");
            set_arguments(function, vec![value.clone()]);
            aggregates::order_by(function, by, name == "arg_min_null");
            also(function, Expr::IsNotNull(Box::new(by.clone())));
        }
        ("string_agg" | "group_concat" | "listagg", [value, rest @ ..]) if rest.len() < 2 => {
            let separator = match rest {
                [separator] => separator.clone(),
                _ => Expr::value(Value::SingleQuotedString(",".to_owned())),
            };
            let distinct = matches!(&function.args, FunctionArguments::List(list) if list.duplicate_treatment.is_some());
            let value = match distinct {
                // Its ORDER BY must name the argument as it is.
                true => value.clone(),
                false => as_text(value.clone()),
            };
            set_arguments(function, vec![value, separator]);
        }
        ("mode", []) if function.within_group.len() == 1 => {
            let order = function.within_group.remove(0);
            set_arguments(function, vec![order.expr]);
        }
        ("count" | "count_star", []) if !matches!(function.args, FunctionArguments::None) => {
            rename(function, "count");
            if let FunctionArguments::List(list) = &mut function.args {
                list.args = vec![FunctionArg::Unnamed(FunctionArgExpr::Wildcard)];
            }
        }
        (
            "list_aggregate" | "list_aggr" | "array_aggregate" | "array_aggr" | "aggregate",
            [list, Expr::Value(what)],
        ) => {
            if let Value::SingleQuotedString(what) = &what.value {
                let mut inner = call(&format!("list_{}", what.to_lowercase()), vec![list.clone()]);
                rewrite(&mut inner)?;
                return Ok(Some(inner));
            }
        }
        ("date_part" | "datepart", [list, moment]) if let Some(parts) = texts_of(list) => {
            return parts_of_date(&parts, moment).map(Some);
        }
        ("strptime" | "try_strptime", [_, Expr::Value(format)]) if matches!(&format.value, Value::SingleQuotedString(format) if format.contains("%z") || format.contains("%Z")) =>
        {
            return Ok(Some(Expr::AtTimeZone {
                timestamp: Box::new(Expr::Function(function.clone())),
                time_zone: Box::new(Expr::value(Value::SingleQuotedString("UTC".to_owned()))),
            }));
        }
        ("regexp_extract", [text, pattern, list]) if let Some(names) = texts_of(list) => {
            let part = |(place, name): (usize, &String)| {
                let group = number(&(place + 1).to_string());
                let value = call("regexp_extract", vec![text.clone(), pattern.clone(), group]);
                (name.clone(), value)
            };
            return Ok(Some(struct_of(names.iter().enumerate().map(part))));
        }
        ("grouping_id", _) => rename(function, "grouping"),
        (
            "try",
            [
                Expr::Cast {
                    kind: CastKind::Cast | CastKind::DoubleColon,
                    expr,
                    data_type,
                    ..
                },
            ],
        ) if matches!(
            expr.as_ref(),
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Value(_)
        ) =>
        {
            return Ok(Some(Expr::Cast {
                kind: CastKind::TryCast,
                expr: expr.clone(),
                data_type: data_type.clone(),
                array: false,
                format: None,
            }));
        }
        ("to_number", [text, template]) => return to_number::of_call(text, template).map(Some),
        ("try", [value]) => return Ok(Some(lambdas::attempted(value))),
        // A NULL adds nothing to a list, and the planner knows no list of it.
        ("list_concat" | "array_concat" | "list_cat" | "array_cat", [first, second]) => {
            let null =
                |value: &Expr| matches!(value, Expr::Value(value) if value.value == Value::Null);
            match (null(first), null(second)) {
                (false, true) => return Ok(Some(first.clone())),
                (true, false) => return Ok(Some(second.clone())),
                _ => {}
            }
        }
        // NULLs are no values of a list's set.
        ("list_distinct" | "array_distinct", [list]) => {
            let known = call("list_compact", vec![list.clone()]);
            set_arguments(function, vec![known]);
        }
        // NULL is no common member.
        ("list_intersect" | "array_intersect", [_, _]) => {
            let common = Expr::Function(function.clone());
            return Ok(Some(call("list_compact", vec![common])));
        }
        ("trunc", [_, _]) => rename(function, TRUNC),
        ("date_part" | "datepart", [Expr::Value(part), moment]) if matches!(&part.value, Value::SingleQuotedString(part) if part.eq_ignore_ascii_case("epoch")) =>
        {
            return Ok(Some(call("epoch", vec![moment.clone()])));
        }
        ("decode", [_]) => rename(function, "text_of_bytes"),
        ("date_part" | "datepart", [Expr::Value(part), moment]) => {
            if let Value::SingleQuotedString(part) = &part.value
                && let Some((_, name)) = PARTS
                    .iter()
                    .find(|(known, _)| *known == part.to_lowercase())
            {
                return Ok(expanded(name, std::slice::from_ref(moment)));
            }
            match &part.value {
                Value::SingleQuotedString(_) if name == "datepart" => {
                    rename(function, "date_part");
                }
                Value::SingleQuotedString(_) => {}
                _ => rename(function, DATE_PART),
            }
        }
        // A NULL changes no result, and the planner finds no type for it beside a UUID.
        ("coalesce", [_, _, ..]) => {
            let null =
                |value: &Expr| matches!(value, Expr::Value(value) if value.value == Value::Null);
            let known: Vec<Expr> = given.iter().filter(|value| !null(value)).cloned().collect();
            if !known.is_empty() && known.len() < given.len() {
                set_arguments(function, known);
            }
        }
        // NULL is the greatest value, as in ORDER BY.
        ("list_sort" | "array_sort", [list, order @ ..]) if order.len() < 2 => {
            let text = |text: &str| Expr::value(Value::SingleQuotedString(text.to_owned()));
            let ascending = match order {
                [Expr::Value(order)] => {
                    matches!(&order.value, Value::SingleQuotedString(text) if text.eq_ignore_ascii_case("asc"))
                }
                others => others.is_empty(),
            };
            if ascending {
                let given = vec![list.clone(), text("ASC"), text("NULLS LAST")];
                set_arguments(function, given);
            }
        }
        // Neither does it count NULLs right in LEAD … IGNORE NULLS.
        ("lag" | "lead", [_, rest @ ..])
            if ignores_nulls(function) || !rest.iter().all(is_constant) =>
        {
            rename(function, if name == "lag" { LAG } else { LEAD });
        }
        ("regexp_matches", [_, _, _]) => rename(function, MATCHES),
        ("date_part" | "datepart", [_, _]) => rename(function, DATE_PART),
        ("xor", [left, right]) => {
            return Ok(Some(Expr::Nested(Box::new(Expr::BinaryOp {
                left: Box::new(left.clone()),
                op: BinaryOperator::PGBitwiseXor,
                right: Box::new(right.clone()),
            }))));
        }
        // Of hashes, for values of every type.
        ("approx_distinct" | "approx_count_distinct", [value]) => {
            let is_null = Expr::IsNull(Box::new(value.clone()));
            let null = Expr::value(Value::Null);
            let hash = call("hash", vec![value.clone()]);
            set_arguments(function, vec![call("if", vec![is_null, null, hash])]);
            return Ok(Some(signed(function)));
        }
        // DataFusion counts without a sign, and 1 - 2 would be out of range.
        (
            "row_number" | "rank" | "dense_rank" | "ntile" | "regr_count" | "array_length"
            | "list_length" | "array_position" | "list_position" | "list_indexof" | "cardinality"
            | "array_ndims",
            _,
        ) => return Ok(Some(signed(function))),
        (name, given) if function.over.is_none() && function.filter.is_none() => {
            return Ok(expanded(name, given));
        }
        _ => {}
    }
    Ok(None)
}

/// The list of `unnest(list, recursive := true)`.
fn unnested_wholly(function: &Function) -> Option<Expr> {
    let FunctionArguments::List(list) = &function.args else {
        return None;
    };
    match list.args.as_slice() {
        [
            FunctionArg::Unnamed(FunctionArgExpr::Expr(list)),
            FunctionArg::Named {
                name,
                arg: FunctionArgExpr::Expr(Expr::Value(value)),
                ..
            },
        ] if name.value == "recursive" && value.value == Value::Boolean(true) => Some(list.clone()),
        _ => None,
    }
}

/// Whether a call says IGNORE NULLS, among its arguments or behind them.
fn ignores_nulls(function: &Function) -> bool {
    let within = match &function.args {
        FunctionArguments::List(list) => list.clauses.iter().any(|clause| {
            matches!(
                clause,
                FunctionArgumentClause::IgnoreOrRespectNulls(NullTreatment::IgnoreNulls)
            )
        }),
        _ => false,
    };
    within || function.null_treatment == Some(NullTreatment::IgnoreNulls)
}

/// A literal, perhaps with a sign; NULL is none.
fn is_constant(expr: &Expr) -> bool {
    match expr {
        Expr::Value(value) => !matches!(value.value, Value::Null),
        Expr::UnaryOp { expr, .. } => is_constant(expr),
        _ => false,
    }
}

fn signed(function: &Function) -> Expr {
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(Expr::Function(function.clone())),
        data_type: DataType::BigInt(None),
        array: false,
        format: None,
    }
}

fn as_double(expr: Expr) -> Expr {
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(expr),
        data_type: DataType::DoublePrecision,
        array: false,
        format: None,
    }
}

fn as_text(expr: Expr) -> Expr {
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(expr),
        data_type: DataType::Text,
        array: false,
        format: None,
    }
}

/// One more condition of an aggregate's FILTER.
pub(super) fn also(function: &mut Function, condition: Expr) {
    let filter = match function.filter.take() {
        Some(filter) => Expr::BinaryOp {
            left: filter,
            op: BinaryOperator::And,
            right: Box::new(Expr::Nested(Box::new(condition))),
        },
        None => condition,
    };
    function.filter = Some(Box::new(filter));
}

#[cfg(test)]
mod tests {
    use super::super::macros::template;
    use super::*;

    fn rewritten(text: &str) -> String {
        let mut expr = template(text).unwrap();
        rewrite(&mut expr).unwrap();
        expr.to_string()
    }

    #[test]
    fn arguments_stand_in_their_places() {
        assert_eq!(rewritten("to_days(x + 1)"), "(INTERVAL '1 day' * (x + 1))");
        assert_eq!(rewritten("extract(decade FROM d)"), "(year(d) // 10)");
    }

    #[test]
    fn aggregates_keep_their_filter() {
        assert_eq!(
            rewritten("count_if(a) FILTER (WHERE b)"),
            "count(*) FILTER (WHERE b AND (a))"
        );
        assert_eq!(
            rewritten("arg_max(x, y)"),
            "first_value(x ORDER BY y DESC NULLS LAST) FILTER (WHERE x IS NOT NULL AND (y IS NOT NULL))"
        );
    }
}
