//! The analyzer rules that give plans our semantics, whichever way their expressions came.
//!
//! ```text
//! plan of SQL text ──CheckedSemantics──▶ DataFusion's type coercion ──CheckedCoercions──▶ optimizer
//! ```
//!
//! [`CheckedSemantics`] replaces casts, negation, arithmetic that had untyped parameters when it was planned, and
//! comparisons; timestamps become microseconds. [`CheckedCoercions`] replaces those casts of DataFusion's coercion that
//! could fail or differ from ours. Names of columns stay.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr::{HigherOrderFunction, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Between, BinaryExpr, Case, Expr, ExprSchemable, Like, LogicalPlan, Operator, and, not,
};
use datafusion::optimizer::AnalyzerRule;

use super::arithmetic::ArithmeticOperator;
use super::branches::{
    refined_union, refined_values, settled_set, settled_union, unified_call, unified_case,
    unified_rows,
};
use super::canonical_float::CanonicalFloat;
use super::cast::{Cast, is_lossless};
use super::comparisons::compared;
use super::convert::{Rule, canonical_type, message_name};
use super::floats;
use super::functions::{self, Expansion};
use super::guards;
use super::in_lists::listed;
use super::operators::{arithmetic, negation};
use super::orders;
use super::{peers, refined, untyped};
use crate::parse::{DATE_PART, MODIFIED_STRFTIME};
use crate::types::has_floats;
use crate::{Error, SqlState};

/// Before DataFusion's coercion.
#[derive(Debug)]
pub(crate) struct CheckedSemantics;

impl AnalyzerRule for CheckedSemantics {
    fn name(&self) -> &str {
        "checked_semantics"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|plan| {
            let plan = rewrite_expressions(unified_rows(plan)?, &mut |expr, schema| {
                checked(expr, schema)?.transform_data(guards::guarded)
            })?;
            let plan = match plan {
                LogicalPlan::Filter(mut filter) => {
                    filter.predicate = guards::of_filter(filter.predicate)?;
                    LogicalPlan::Filter(filter)
                }
                LogicalPlan::Unnest(unnest) => refined::unnested(unnest)?,
                LogicalPlan::Values(values) => refined_values(values)?,
                LogicalPlan::Union(union) => refined_union(union)?,
                LogicalPlan::RecursiveQuery(query) => refined::recursive(query)?,
                other => other,
            };
            floats::equal_zeros(plan).map(Transformed::yes)
        })
        .map(|transformed| transformed.data)
    }
}

/// After DataFusion's coercion.
#[derive(Debug)]
pub(crate) struct CheckedCoercions;

impl AnalyzerRule for CheckedCoercions {
    fn name(&self) -> &str {
        "checked_coercions"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|plan| {
            rewrite_expressions(plan, &mut |expr, schema| match expr {
                Expr::Cast(cast) if is_ours(cast.field.data_type()) => {
                    let (_, source) = cast.expr.to_field(schema)?;
                    if is_lossless(&source, &cast.field) {
                        return Ok(Transformed::no(Expr::Cast(cast)));
                    }
                    Ok(Transformed::yes(Cast::call(
                        *cast.expr,
                        &source,
                        &cast.field,
                        Rule::Explicit,
                    )?))
                }
                other => Ok(Transformed::no(other)),
            })
            .map(Transformed::yes)
        })
        .map(|transformed| transformed.data)
    }
}

/// A plan whose CASEs and unions have the types of all of their branches, before anything above it is typed by its columns.
pub(crate) fn settled(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up(|node| {
        let node = match node {
            LogicalPlan::Union(union) => settled_union(union)?,
            LogicalPlan::Join(join) => settled_set(join)?,
            other => other,
        };
        rewrite_expressions(node, &mut |expr, schema| match expr {
            Expr::Case(case) => unified_case(case, schema),
            other => Ok(Transformed::no(other)),
        })
        .map(Transformed::yes)
    })
    .map(|plan| plan.data)
}

/// An expression with our semantics that is no part of a plan: a CHECK, a DEFAULT.
pub(crate) fn expression(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    expr.transform_up(|expr| checked(expr, schema)?.transform_data(guards::guarded))
        .map(|expr| expr.data)
}

/// Rewrites every expression of a plan node, bottom up, with the columns of its inputs in sight.
fn rewrite_expressions(
    plan: LogicalPlan,
    rewrite: &mut impl FnMut(Expr, &DFSchema) -> Result<Transformed<Expr>>,
) -> Result<LogicalPlan> {
    let mut schema = merge_schema(&plan.inputs());
    if let LogicalPlan::TableScan(scan) = &plan {
        schema.merge(&DFSchema::try_from_qualified_schema(
            scan.table_name.clone(),
            &scan.source.schema(),
        )?);
    }
    let names = NamePreserver::new(&plan);
    let rewritten = plan.map_expressions(|expr| {
        let name = names.save(&expr);
        let rewritten = expr.transform_up(|expr| rewrite(expr, &schema))?;
        Ok(if rewritten.transformed {
            rewritten.update_data(|expr| name.restore(expr))
        } else {
            rewritten
        })
    })?;
    // The types of inputs may have changed below a node that itself did not.
    rewritten.data.recompute_schema()
}

/// 42883 for LIKE of what has no text of its own.
fn refuse_nested_pattern(like: &Like, schema: &DFSchema) -> Result<()> {
    let (_, value) = like.expr.to_field(schema)?;
    let (_, pattern) = like.pattern.to_field(schema)?;
    if !value.data_type().is_nested() && !pattern.data_type().is_nested() {
        return Ok(());
    }
    let operator = if like.case_insensitive { "~~*" } else { "~~" };
    Err(Error::new(
        SqlState::UndefinedFunction,
        format!(
            "operator does not exist: {} {operator} {}",
            message_name(&value),
            message_name(&pattern)
        ),
    )
    .with_hint(
        "No operator matches the given argument types. You might need to add explicit type casts.",
    )
    .into())
}

/// A call whose lambdas' parameters are what its lists now say, its result being what the lambdas' bodies then are.
fn settled_lambdas(function: &HigherOrderFunction, schema: &DFSchema) -> Result<Option<Expr>> {
    let call = Expr::HigherOrderFunction(function.clone());
    // Within another lambda its parameters are not known yet: the outer call settles this one, too.
    let Ok(Transformed { data: settled, .. }) = call.clone().resolve_lambda_variables(schema)
    else {
        return Ok(None);
    };
    let Expr::HigherOrderFunction(mut function) = settled else {
        return Ok(None);
    };
    let mut changed = Expr::HigherOrderFunction(function.clone()) != call;
    if changed {
        for argument in &mut function.args {
            if let Expr::Lambda(lambda) = argument {
                let body = std::mem::take(lambda.body.as_mut());
                let body = body
                    .transform_up(|expr| checked(expr, schema)?.transform_data(guards::guarded))?;
                *lambda.body = body.data;
            }
        }
    }
    if let Some(refined) = refined::over_elements(&function, schema)? {
        return Ok(Some(refined));
    }
    changed |= Expr::HigherOrderFunction(function.clone()) != call;
    Ok(changed.then_some(Expr::HigherOrderFunction(function)))
}

fn checked(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let replaced = match expr {
        Expr::Cast(cast) => {
            let (_, source) = cast.expr.to_field(schema)?;
            return Ok(Transformed::yes(match at_time_zone(&source, &cast.field) {
                Some(zone) => Cast::at_zone(*cast.expr, &source, zone)?,
                None => Cast::call(*cast.expr, &source, &cast.field, Rule::Explicit)?,
            }));
        }
        Expr::TryCast(cast) => {
            let (_, source) = cast.expr.to_field(schema)?;
            let tried = Cast::call(*cast.expr, &source, &cast.field, Rule::Try)?;
            return Ok(Transformed::yes(tried));
        }
        Expr::Negative(ref operand) => negation(operand, schema)?,
        Expr::BinaryExpr(ref binary) => match arithmetic_operator(binary.op) {
            Some(operator) => arithmetic(operator, &binary.left, &binary.right, schema)?,
            None if is_comparison(binary.op) => compared(binary, schema)?,
            None => None,
        },
        Expr::AggregateFunction(ref function) => match orders::extreme(function, schema)? {
            None => orders::within(function, schema)?.map(Expr::AggregateFunction),
            extreme => extreme,
        },
        Expr::WindowFunction(ref function) => {
            let ordered = orders::over_window(function, schema)?;
            let framed = peers::framed(ordered.as_ref().unwrap_or(function), schema)?;
            framed
                .or(ordered)
                .map(|function| Expr::WindowFunction(Box::new(function)))
        }
        Expr::InSubquery(ref membership) => floats::membership(membership, schema)?,
        Expr::Like(ref like) => {
            refuse_nested_pattern(like, schema)?;
            None
        }
        Expr::Between(ref between) => Some(bounded(between, schema)?),
        Expr::InList(list) => return listed(list, schema).map(Transformed::yes),
        Expr::Case(case) => {
            let case = searched(case, schema)?;
            return Ok(Transformed::yes(unified_case(case, schema)?.data));
        }
        Expr::HigherOrderFunction(ref function) => settled_lambdas(function, schema)?,
        Expr::ScalarFunction(ref function) => {
            if let Some(call) = untyped::typed_call(function, schema)? {
                return Ok(Transformed::yes(checked(call, schema)?.data));
            }
            if let Some(local) = in_session_zone(function, schema)? {
                return Ok(Transformed::yes(local));
            }
            if let Some(sorted) = orders::over_places(function, schema)? {
                return Ok(Transformed::yes(sorted));
            }
            if let Some(unified) = unified_call(function, schema)? {
                return Ok(Transformed::yes(unified));
            }
            if let Some(expansion) = expanded(function, schema)? {
                return Ok(Transformed::yes(expansion));
            }
            if let Some(texts) = functions::as_texts(function, schema)? {
                return Ok(Transformed::yes(texts));
            }
            if let Some(refined) = refined::call(function, schema)? {
                return Ok(Transformed::yes(refined));
            }
            if yields_nans(function) && has_floats(&expr.get_type(schema)?) {
                return Ok(Transformed::yes(CanonicalFloat::one_nan().call(vec![expr])));
            }
            let unit = match expr.get_type(schema)? {
                DataType::Timestamp(unit, zone) => Some((unit, zone)),
                _ => None,
            };
            match unit {
                // A date is truncated as a timestamp of microseconds, which all dates of interest have.
                _ if matches!(function.name(), "date_trunc" | "date_bin")
                    && has_dates(&function.args, schema)? =>
                {
                    let mut function = function.clone();
                    function.args = function
                        .args
                        .into_iter()
                        .map(|arg| microseconds_of_date(arg, schema))
                        .collect::<Result<_>>()?;
                    Some(Expr::ScalarFunction(function))
                }
                Some((unit, zone)) if unit != TimeUnit::Microsecond => {
                    let to = Arc::new(Field::new(
                        "",
                        DataType::Timestamp(TimeUnit::Microsecond, zone.clone()),
                        true,
                    ));
                    let from = Field::new("", DataType::Timestamp(unit, zone), true);
                    Some(Cast::call(expr.clone(), &from, &to, Rule::Explicit)?)
                }
                _ => None,
            }
        }
        _ => None,
    };
    Ok(match replaced {
        Some(replaced) => Transformed::yes(replaced),
        None => Transformed::no(expr),
    })
}

/// Parts of an instant, its text and the start of its day or month are those that clocks show in the session's zone.
fn in_session_zone(function: &ScalarFunction, schema: &DFSchema) -> Result<Option<Expr>> {
    let name = function.func.name();
    if !matches!(
        name,
        "date_part"
            | DATE_PART
            | "date_trunc"
            | "to_char"
            | "date"
            | "time"
            | "datetime"
            | MODIFIED_STRFTIME
    ) {
        return Ok(None);
    }
    let of_instant = |arg: &Expr| match arg {
        Expr::Literal(value, _) => value
            .try_as_str()
            .flatten()
            .is_some_and(|part| part.to_ascii_lowercase().starts_with("epoch")),
        _ => false,
    };
    if function.args.iter().any(of_instant) {
        return Ok(None);
    }
    let mut local = function.clone();
    let mut zoned = None;
    for arg in &mut local.args {
        let (_, field) = arg.to_field(schema)?;
        if let DataType::Timestamp(TimeUnit::Microsecond, Some(_)) = field.data_type() {
            let clock = DataType::Timestamp(TimeUnit::Microsecond, None);
            let to = Arc::new(Field::new("", clock, true));
            *arg = Cast::call(std::mem::take(arg), &field, &to, Rule::Explicit)?;
            zoned = Some((to, field));
        }
    }
    let Some((clock, instant)) = zoned else {
        return Ok(None);
    };
    let call = Expr::ScalarFunction(local);
    if name != "date_trunc" {
        return Ok(Some(call));
    }
    let to = Arc::new(Field::new("", instant.data_type().clone(), true));
    Ok(Some(Cast::call(call, &clock, &to, Rule::Explicit)?))
}

/// What a call of a shorthand stands for, itself checked.
fn expanded(function: &ScalarFunction, schema: &DFSchema) -> Result<Option<Expr>> {
    let fields = function
        .args
        .iter()
        .map(|arg| arg.to_field(schema).map(|(_, field)| field))
        .collect::<Result<Vec<_>>>()?;
    Ok(
        match functions::expand(&function.func, &function.args, &fields)? {
            None => None,
            Some(Expansion::Operator(operator, left, right)) => {
                arithmetic(operator, &left, &right, schema)?
            }
            Some(Expansion::Expression(expr)) => {
                Some(expr.transform_up(|expr| checked(expr, schema))?.data)
            }
        },
    )
}

/// Whether a function may yield another NaN than the one. Those that hand on what they are given, and our own, do not.
fn yields_nans(function: &ScalarFunction) -> bool {
    const MATHEMATICS: [&str; 34] = [
        "acos",
        "acosh",
        "array_add",
        "array_avg",
        "array_distance",
        "array_normalize",
        "array_product",
        "array_scale",
        "array_subtract",
        "array_sum",
        "cosine_distance",
        "inner_product",
        "asin",
        "asinh",
        "atan",
        "atan2",
        "atanh",
        "cbrt",
        "cos",
        "cosh",
        "cot",
        "exp",
        "gamma",
        "lgamma",
        "ln",
        "log",
        "log10",
        "log2",
        "power",
        "sin",
        "sinh",
        "sqrt",
        "tan",
        "tanh",
    ];
    MATHEMATICS.contains(&function.func.name())
}

fn arithmetic_operator(operator: Operator) -> Option<ArithmeticOperator> {
    Some(match operator {
        Operator::Plus => ArithmeticOperator::Plus,
        Operator::Minus => ArithmeticOperator::Minus,
        Operator::Multiply => ArithmeticOperator::Multiply,
        Operator::Divide => ArithmeticOperator::Divide,
        Operator::IntegerDivide => ArithmeticOperator::IntegerDivide,
        Operator::Modulo => ArithmeticOperator::Modulo,
        _ => return None,
    })
}

fn is_comparison(operator: Operator) -> bool {
    matches!(
        operator,
        Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq
            | Operator::IsDistinctFrom
            | Operator::IsNotDistinctFrom
    )
}

/// BETWEEN with bounds of the operand's type; where they are of another one, two comparisons.
fn bounded(between: &Between, schema: &DFSchema) -> Result<Expr> {
    let operand = between.expr.as_ref();
    let lower = BinaryExpr::new(
        Box::new(operand.clone()),
        Operator::GtEq,
        between.low.clone(),
    );
    let upper = BinaryExpr::new(
        Box::new(operand.clone()),
        Operator::LtEq,
        between.high.clone(),
    );
    let lower = compared(&lower, schema)?.unwrap_or(Expr::BinaryExpr(lower));
    let upper = compared(&upper, schema)?.unwrap_or(Expr::BinaryExpr(upper));
    Ok(match (&lower, &upper) {
        (Expr::BinaryExpr(low), Expr::BinaryExpr(high))
            if low.left == between.expr
                && high.left == between.expr
                && low.op == Operator::GtEq
                && high.op == Operator::LtEq =>
        {
            Expr::Between(Between::new(
                between.expr.clone(),
                between.negated,
                low.right.clone(),
                high.right.clone(),
            ))
        }
        _ if between.negated => not(and(lower, upper)),
        _ => and(lower, upper),
    })
}

/// `CASE x WHEN a` with floating point numbers as `CASE WHEN x = a`: DataFusion compares their bits, and decimals of another type than
/// `=` does.
fn searched(mut case: Case, schema: &DFSchema) -> Result<Case> {
    let Some(operand) = &case.expr else {
        return Ok(case);
    };
    let mut floats = has_floats(&operand.get_type(schema)?);
    for (when, _) in &case.when_then_expr {
        floats |= has_floats(&when.get_type(schema)?);
    }
    if !floats {
        return Ok(case);
    }
    if operand.is_volatile() {
        // It is computed once: as doubles, numbers of any two types compare.
        let brought = |expr: &Expr| -> Result<Box<Expr>> {
            let (_, field) = expr.to_field(schema)?;
            if !field.data_type().is_numeric() {
                return Ok(Box::new(expr.clone()));
            }
            let double = Arc::new(Field::new("", DataType::Float64, true));
            let double = Cast::call(expr.clone(), &field, &double, Rule::Explicit)?;
            Ok(Box::new(CanonicalFloat::call(double)))
        };
        case.expr = Some(brought(operand)?);
        for (when, _) in &mut case.when_then_expr {
            *when = brought(when)?;
        }
        return Ok(case);
    }
    let operand = operand.clone();
    case.expr = None;
    for (when, _) in &mut case.when_then_expr {
        let equal = BinaryExpr::new(operand.clone(), Operator::Eq, when.clone());
        **when = compared(&equal, schema)?.unwrap_or(Expr::BinaryExpr(equal));
    }
    Ok(case)
}

/// The zone of `x AT TIME ZONE 'zone'`, which SqlToRel plans as a cast to nanoseconds, a type that SQL text cannot name.
fn at_time_zone(source: &Field, target: &Field) -> Option<Arc<str>> {
    match (source.data_type(), target.data_type()) {
        (_, DataType::Timestamp(TimeUnit::Nanosecond, Some(zone))) => Some(Arc::clone(zone)),
        _ => None,
    }
}

fn has_dates(args: &[Expr], schema: &DFSchema) -> Result<bool> {
    for arg in args {
        if arg.get_type(schema)? == DataType::Date32 {
            return Ok(true);
        }
    }
    Ok(false)
}

fn microseconds_of_date(arg: Expr, schema: &DFSchema) -> Result<Expr> {
    let (_, field) = arg.to_field(schema)?;
    if *field.data_type() != DataType::Date32 {
        return Ok(arg);
    }
    let to: FieldRef = Arc::new(Field::new(
        "",
        DataType::Timestamp(TimeUnit::Microsecond, None),
        true,
    ));
    Ok(Cast::call(arg, &field, &to, Rule::Explicit)?)
}

/// Whether our casts yield a type; DataFusion's functions also want others (nanoseconds, dictionaries).
fn is_ours(data_type: &DataType) -> bool {
    !data_type.is_nested() && canonical_type(data_type) == *data_type
}
