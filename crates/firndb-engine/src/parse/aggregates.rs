//! Aggregates that stand for others: of several fractions, of the first so many values, under other names.
//!
//! ```text
//! quantile_cont(x, [0.1, 0.9])  ─▶  CASE WHEN count(x) > 0 THEN [quantile_cont(x, 0.1), quantile_cont(x, 0.9)] END
//! count(DISTINCT x, y)          ─▶  count(DISTINCT (x, y)) FILTER (WHERE x IS NOT NULL AND y IS NOT NULL)
//! total(x)                      ─▶  coalesce(CAST(sum(x) AS DOUBLE), 0e0)
//! max(x, n)                     ─▶  (array_agg(x ORDER BY x DESC) FILTER (WHERE x IS NOT NULL))[1:n]
//! arg_max(x, y, n)              ─▶  (array_agg(x ORDER BY y DESC) FILTER (WHERE x IS NOT NULL AND y IS NOT NULL))[1:n]
//! ```

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, CaseWhen, CastKind, DataType, DuplicateTreatment, ExactNumberInfo,
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments,
    OrderByExpr, OrderByOptions, Subscript,
};

use super::calls::{also, number, rename, set_arguments};
use super::normalize::call;

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
            set_arguments(function, vec![Expr::Tuple(given.to_vec())]);
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

/// The values of the first rows by `by`.
fn first(function: &Function, value: &Expr, by: &Expr, ascending: bool, count: &Expr) -> Expr {
    let mut list = function.clone();
    rename(&mut list, "array_agg");
    set_arguments(&mut list, vec![value.clone()]);
    if let FunctionArguments::List(arguments) = &mut list.args {
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
    also(&mut list, known(value));
    if value != by {
        also(&mut list, known(by));
    }
    Expr::CompoundFieldAccess {
        root: Box::new(Expr::Nested(Box::new(Expr::Function(list)))),
        access_chain: vec![AccessExpr::Subscript(Subscript::Slice {
            lower_bound: Some(number("1")),
            upper_bound: Some(count.clone()),
            stride: None,
        })],
    }
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
