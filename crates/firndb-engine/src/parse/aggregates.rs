//! Aggregates that stand for others: of several fractions, of the first so many values, under other names.
//!
//! ```text
//! quantile_cont(x, [0.1, 0.9])  ─▶  CASE WHEN count(x) > 0 THEN [quantile_cont(x, 0.1), quantile_cont(x, 0.9)] END
//! count(DISTINCT x, y)          ─▶  count(DISTINCT (x, y)) FILTER (WHERE x IS NOT NULL AND y IS NOT NULL)
//! total(x)                      ─▶  coalesce(CAST(sum(x) AS DOUBLE), 0e0)
//! max(x, n)                     ─▶  (array_agg(x ORDER BY x DESC) FILTER (WHERE x IS NOT NULL))[1:n]
//! max(x, n) OVER w              ─▶  list_sort(array_agg(x) FILTER (WHERE x IS NOT NULL) OVER w, 'DESC')[1:n]
//! max(x, y)                     ─▶  list_sort([x, y], 'DESC', 'NULLS FIRST')[1], SQLite's scalar function
//! arg_max(x, y, n)              ─▶  (array_agg(x ORDER BY y DESC) FILTER (WHERE x IS NOT NULL AND y IS NOT NULL))[1:n]
//! ```

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, CaseWhen, CastKind, DataType, DuplicateTreatment, ExactNumberInfo,
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments, Ident,
    LambdaFunction, LambdaFunctionParameter, LambdaSyntax, ObjectNamePart, OneOrManyWithParens,
    OrderByExpr, OrderByOptions, Subscript, Value,
};

use super::calls::{also, number, rename, set_arguments};
use super::pieces::call;

/// `percentile_disc(f) WITHIN GROUP (ORDER BY x DESC)`.
pub(crate) const QUANTILE_FROM_TOP: &str = "__firndb_quantile_from_top";

/// What a call of an aggregate stands for, if it is more than a call; another name for one is put in place.
pub(super) fn rewrite(name: &str, function: &mut Function, given: &[Expr]) -> Option<Expr> {
    match (name, given) {
        ("fsum" | "sumkahan" | "kahan_sum", [value]) => {
            rename(function, "sum");
            set_arguments(function, vec![double(value)]);
            None
        }
        ("favg", [value]) => {
            rename(function, "avg");
            set_arguments(function, vec![double(value)]);
            None
        }
        ("count", [_, _, ..]) if is_distinct(function) => {
            set_arguments(function, vec![call("struct", given.to_vec())]);
            given.iter().for_each(|value| also(function, known(value)));
            None
        }
        ("total", [_]) => {
            let mut sum = function.clone();
            rename(&mut sum, "sum");
            let sum = double(&Expr::Function(sum));
            Some(call("coalesce", vec![sum, number("0e0")]))
        }
        ("sum_no_overflow", [_]) => {
            rename(function, "sum");
            None
        }
        ("median", [value]) if function.over.is_none() && is_distinct(function) => {
            let mut list = function.clone();
            rename(&mut list, "array_agg");
            also(&mut list, known(value));
            Some(call("list_median", vec![Expr::Function(list)]))
        }
        ("histogram", [value]) => {
            let mut list = function.clone();
            rename(&mut list, "array_agg");
            also(&mut list, known(value));
            Some(call("list_histogram", vec![Expr::Function(list)]))
        }
        (
            "quantile" | "quantile_cont" | "quantile_disc" | "approx_quantile"
            | "reservoir_quantile",
            [value, fractions, ..],
        ) if let Some(fractions) = members(fractions) => {
            Some(at_each(name, function, value, &fractions))
        }
        ("percentile_disc" | "percentile_cont", [fraction]) if function.within_group.len() == 1 => {
            let order = function.within_group.remove(0);
            let descending = order.options.asc == Some(false);
            match members(fraction) {
                None => {
                    within(name, function, order.expr, descending, fraction);
                    None
                }
                Some(fractions) => {
                    Some(each(function, &order.expr, &fractions, |one, fraction| {
                        within(name, one, order.expr.clone(), descending, fraction);
                    }))
                }
            }
        }
        // An exact value is approximate enough.
        ("approx_quantile" | "reservoir_quantile", [value, fraction, ..]) => {
            exact(name, function);
            set_arguments(function, vec![value.clone(), fraction.clone()]);
            None
        }
        ("max" | "min", [_, _, ..]) if is_scalar(function, given) => {
            Some(extreme(given, name == "min"))
        }
        ("max" | "min", [value, count]) => {
            Some(first(function, value, value, name == "min", count))
        }
        ("arg_max" | "max_by" | "argmax", [value, by, count]) => {
            Some(first(function, value, by, false, count))
        }
        ("arg_min" | "min_by" | "argmin", [value, by, count]) => {
            Some(first(function, value, by, true, count))
        }
        _ => None,
    }
}

fn is_distinct(function: &Function) -> bool {
    matches!(&function.args, FunctionArguments::List(list)
        if list.duplicate_treatment == Some(DuplicateTreatment::Distinct))
}

fn exact(name: &str, function: &mut Function) {
    if matches!(name, "approx_quantile" | "reservoir_quantile") {
        rename(function, "quantile_disc");
    }
}

/// The members of a list literal, which may have been written out as a call.
pub(super) fn members(expr: &Expr) -> Option<Vec<Expr>> {
    match expr {
        Expr::Array(list) => Some(list.elem.clone()),
        Expr::Function(function) if function.name.to_string() == "make_array" => {
            let FunctionArguments::List(list) = &function.args else {
                return None;
            };
            list.args
                .iter()
                .map(|argument| match argument {
                    FunctionArg::Unnamed(FunctionArgExpr::Expr(member)) => Some(member.clone()),
                    _ => None,
                })
                .collect()
        }
        _ => None,
    }
}

/// `percentile_cont(fraction) WITHIN GROUP (ORDER BY value)`.
fn within(name: &str, function: &mut Function, value: Expr, descending: bool, fraction: &Expr) {
    let fraction = fraction.clone();
    let (name, fraction) = match (name, descending) {
        ("percentile_disc", false) => ("quantile_disc", fraction),
        ("percentile_disc", true) => (QUANTILE_FROM_TOP, fraction),
        (_, false) => ("quantile_cont", fraction),
        (_, true) => {
            let rest = Expr::BinaryOp {
                left: Box::new(number("1")),
                op: BinaryOperator::Minus,
                right: Box::new(Expr::Nested(Box::new(fraction))),
            };
            ("quantile_cont", rest)
        }
    };
    rename(function, name);
    set_arguments(function, vec![value, fraction]);
}

/// A list of the quantiles, or NULL where there are no values.
fn at_each(name: &str, function: &Function, value: &Expr, fractions: &[Expr]) -> Expr {
    each(function, value, fractions, |one, fraction| {
        exact(name, one);
        set_arguments(one, vec![value.clone(), fraction.clone()]);
    })
}

/// A list of one aggregate for each fraction, or NULL where there are no values.
fn each(
    function: &Function,
    value: &Expr,
    fractions: &[Expr],
    at: impl Fn(&mut Function, &Expr),
) -> Expr {
    let quantile = |fraction: &Expr| {
        let mut one = function.clone();
        at(&mut one, fraction);
        Expr::Function(one)
    };
    let mut count = function.clone();
    rename(&mut count, "count");
    set_arguments(&mut count, vec![value.clone()]);
    let some = Expr::BinaryOp {
        left: Box::new(Expr::Function(count)),
        op: BinaryOperator::Gt,
        right: Box::new(number("0")),
    };
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen {
            condition: some,
            result: call("make_array", fractions.iter().map(quantile).collect()),
        }],
        else_result: None,
    }
}

/// Whether MAX or MIN is SQLite's function of a row's values, and not DuckDB's aggregate of the first so many: of more than two
/// values, of a second one that is no count, or of constants.
fn is_scalar(function: &Function, given: &[Expr]) -> bool {
    let aggregates = function.over.is_some()
        || function.filter.is_some()
        || matches!(&function.args, FunctionArguments::List(list)
            if list.duplicate_treatment.is_some() || !list.clauses.is_empty());
    let is_count = |expr: &Expr| {
        matches!(expr, Expr::Value(value) if match &value.value {
            Value::Number(digits, _) => digits.parse::<u64>().is_ok_and(|count| count > 0),
            Value::Placeholder(_) => true,
            _ => false,
        })
    };
    !aggregates
        && match given {
            [Expr::Value(first), Expr::Value(_)] => !matches!(first.value, Value::Placeholder(_)),
            [_, count] => !is_count(count),
            _ => true,
        }
}

/// The greatest or least of a row's values, NULL if one of them is.
fn extreme(given: &[Expr], ascending: bool) -> Expr {
    let text = |text: &str| Expr::value(Value::SingleQuotedString(text.to_owned()));
    let sorted = vec![
        call("make_array", given.to_vec()),
        text(if ascending { "ASC" } else { "DESC" }),
        text("NULLS FIRST"),
    ];
    Expr::CompoundFieldAccess {
        root: Box::new(Expr::Nested(Box::new(call("list_sort", sorted)))),
        access_chain: vec![AccessExpr::Subscript(Subscript::Index {
            index: number("1"),
        })],
    }
}

/// The values of the first rows by `by`.
fn first(function: &Function, value: &Expr, by: &Expr, ascending: bool, count: &Expr) -> Expr {
    let mut list = function.clone();
    rename(&mut list, "array_agg");
    set_arguments(&mut list, vec![value.clone()]);
    also(&mut list, known(value));
    if value != by {
        also(&mut list, known(by));
    }
    let list = match list.over {
        Some(_) => sorted_over(list, value, by, ascending),
        None => {
            order_by(&mut list, by, ascending);
            Expr::Function(list)
        }
    };
    Expr::CompoundFieldAccess {
        root: Box::new(Expr::Nested(Box::new(list))),
        access_chain: vec![AccessExpr::Subscript(Subscript::Slice {
            lower_bound: Some(number("1")),
            upper_bound: Some(count.clone()),
            stride: None,
        })],
    }
}

/// An aggregate's ORDER BY. A constant would be taken for a column's position, and orders nothing.
pub(super) fn order_by(function: &mut Function, by: &Expr, ascending: bool) {
    if matches!(by, Expr::Value(_)) {
        return;
    }
    if let FunctionArguments::List(arguments) = &mut function.args {
        arguments
            .clauses
            .push(FunctionArgumentClause::OrderBy(vec![OrderByExpr {
                expr: by.clone(),
                options: OrderByOptions {
                    asc: Some(ascending),
                    nulls_first: Some(false),
                },
                with_fill: None,
            }]));
    }
}

/// Takes the constants out of an aggregate's ORDER BY, where they are no positions.
pub(super) fn drop_constant_orders(function: &mut Function) {
    let FunctionArguments::List(list) = &mut function.args else {
        return;
    };
    list.clauses.retain_mut(|clause| match clause {
        FunctionArgumentClause::OrderBy(orders) => {
            orders.retain(|order| !matches!(order.expr, Expr::Value(_)));
            !orders.is_empty()
        }
        _ => true,
    });
}

/// A window's values, gathered as they come and sorted then: windows have no ORDER BY within their aggregates.
fn sorted_over(mut list: Function, value: &Expr, by: &Expr, ascending: bool) -> Expr {
    let text = |text: &str| Expr::value(Value::SingleQuotedString(text.to_owned()));
    let direction = if ascending { "ASC" } else { "DESC" };
    let sort = |list: Function| {
        call(
            "list_sort",
            vec![Expr::Function(list), text(direction), text("NULLS LAST")],
        )
    };
    if value == by {
        return sort(list);
    }
    let pair = call(
        "named_struct",
        vec![text("by"), by.clone(), text("value"), value.clone()],
    );
    set_arguments(&mut list, vec![pair]);
    let parameter = Ident::with_quote('"', "pair");
    let member = Expr::CompoundFieldAccess {
        root: Box::new(Expr::Identifier(parameter.clone())),
        access_chain: vec![AccessExpr::Subscript(Subscript::Index {
            index: text("value"),
        })],
    };
    let lambda = Expr::Lambda(LambdaFunction {
        params: OneOrManyWithParens::One(LambdaFunctionParameter {
            name: parameter,
            data_type: None,
        }),
        body: Box::new(member),
        syntax: LambdaSyntax::LambdaKeyword,
    });
    call("list_transform", vec![sort(list), lambda])
}

fn known(value: &Expr) -> Expr {
    Expr::IsNotNull(Box::new(value.clone()))
}

pub(super) fn double(value: &Expr) -> Expr {
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(value.clone()),
        data_type: DataType::Double(ExactNumberInfo::None),
        array: false,
        format: None,
    }
}

/// `count(DISTINCT t.*)` counts rows: those of a relation's name as a value.
pub(super) fn count_rows(function: &mut Function) {
    let FunctionArguments::List(list) = &mut function.args else {
        return;
    };
    if list.duplicate_treatment != Some(DuplicateTreatment::Distinct) {
        return;
    }
    if let [FunctionArg::Unnamed(argument)] = list.args.as_mut_slice()
        && let FunctionArgExpr::QualifiedWildcard(name) = argument
        && let [ObjectNamePart::Identifier(table)] = name.0.as_slice()
    {
        *argument = FunctionArgExpr::Expr(Expr::Identifier(table.clone()));
    }
}
