//! -0.0 equals 0.0, and every NaN equals every other and is greater than all numbers.
//!
//! Arrow compares floating point numbers by IEEE 754's total order, in which -0.0 is less than 0.0 and a NaN with its
//! sign bit set less than everything. So keys of groups, DISTINCT, joins and sorts, and both sides of a comparison of
//! two columns, are brought to one zero and one NaN, at any depth of lists and structs. A comparison with a constant keeps its column
//! bare, so that scans can skip by it: the constant is then the zero of the right sign. Another NaN than the one is in no
//! column (`crate::types::one_nan`).

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{InSubquery, WindowFunctionParams};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Aggregate, Between, BinaryExpr, Distinct, Expr, ExprSchemable, GroupingSet, LogicalPlan,
    LogicalPlanBuilder, Operator, SortExpr,
};

use super::canonical_float::{CanonicalFloat, NAME};
use super::operators::joined;
use super::{inherited, intervals, orders};
use crate::types::has_floats;

/// The comparison of floating point numbers `binary`, if it is one that Arrow would get wrong.
pub(super) fn comparison(binary: &BinaryExpr, schema: &DFSchema) -> Result<Option<Expr>> {
    let (left, right) = (binary.left.as_ref(), binary.right.as_ref());
    if !is_float(left, schema)? && !is_float(right, schema)? {
        return Ok(None);
    }
    let nested = left.get_type(schema)?.is_nested() || right.get_type(schema)?.is_nested();
    match (left, right) {
        _ if nested => {}
        (Expr::Literal(_, _), Expr::Literal(_, _)) => {}
        (column, Expr::Literal(value, _)) => {
            return Ok(zero_of(value).and_then(|zeros| with_zero(column, binary.op, zeros)));
        }
        (Expr::Literal(value, _), column) => {
            return Ok(match (zero_of(value), binary.op.swap()) {
                (Some(zeros), Some(operator)) => with_zero(column, operator, zeros),
                _ => None,
            });
        }
        _ => {}
    }
    let side = |expr: &Expr| -> Result<Expr> {
        Ok(if is_float(expr, schema)? && !is_canonical(expr) {
            CanonicalFloat::call(expr.clone())
        } else {
            expr.clone()
        })
    };
    Ok(Some(Expr::BinaryExpr(BinaryExpr::new(
        Box::new(side(left)?),
        binary.op,
        Box::new(side(right)?),
    ))))
}

/// The zeros of a zero's type, the negative one first.
fn zero_of(value: &ScalarValue) -> Option<(ScalarValue, ScalarValue)> {
    let zeros = || {
        (
            ScalarValue::Float64(Some(-0.0)),
            ScalarValue::Float64(Some(0.0)),
        )
    };
    match value {
        ScalarValue::Float64(Some(number)) if *number == 0.0 => Some(zeros()),
        ScalarValue::Float32(Some(number)) if *number == 0.0 => Some((
            ScalarValue::Float32(Some(-0.0)),
            ScalarValue::Float32(Some(0.0)),
        )),
        ScalarValue::Int64(Some(0)) | ScalarValue::Decimal128(Some(0), _, _) => Some(zeros()),
        _ => None,
    }
}

/// The zero with the other sign, for lists.
pub(super) fn other_zero(item: &Expr) -> Option<Expr> {
    let Expr::Literal(value, _) = item else {
        return None;
    };
    let negative = match value {
        ScalarValue::Float64(Some(number)) if *number == 0.0 => number.is_sign_negative(),
        ScalarValue::Float32(Some(number)) if *number == 0.0 => number.is_sign_negative(),
        _ => return None,
    };
    let (minus, plus) = zero_of(value)?;
    Some(Expr::Literal(if negative { plus } else { minus }, None))
}

fn with_zero(
    column: &Expr,
    operator: Operator,
    (minus, plus): (ScalarValue, ScalarValue),
) -> Option<Expr> {
    let literal = |zero| Box::new(Expr::Literal(zero, None));
    let column = Box::new(column.clone());
    let zero = match operator {
        Operator::Lt | Operator::GtEq => minus,
        Operator::Gt | Operator::LtEq => plus,
        Operator::Eq | Operator::NotEq => {
            let negated = operator == Operator::NotEq;
            return Some(Expr::Between(Between::new(
                column,
                negated,
                literal(minus),
                literal(plus),
            )));
        }
        _ => {
            return Some(Expr::BinaryExpr(BinaryExpr::new(
                Box::new(CanonicalFloat::call(*column)),
                operator,
                literal(plus),
            )));
        }
    };
    Some(Expr::BinaryExpr(BinaryExpr::new(
        column,
        operator,
        literal(zero),
    )))
}

/// `x IN (SELECT y …)` of floating point numbers: value and members in the type in which they are compared, with one zero and one NaN. `None`
/// where there are none.
pub(super) fn membership(membership: &InSubquery, schema: &DFSchema) -> Result<Option<Expr>> {
    let subquery = &membership.subquery;
    let [(qualifier, field)] = subquery.subquery.schema().iter().collect::<Vec<_>>()[..] else {
        return Ok(None);
    };
    let member = Expr::from((qualifier, field));
    let members = subquery.subquery.schema();
    let brought = is_canonical(&membership.expr);
    if brought || !is_float(&membership.expr, schema)? && !has_floats(field.data_type()) {
        return Ok(None);
    }
    let value = membership.expr.as_ref().clone();
    let (value, member) = joined(value, schema, member, members)?;
    let member = canonical_key(member, members)?.alias(field.name());
    let plan = LogicalPlanBuilder::from(subquery.subquery.as_ref().clone())
        .project(vec![member])?
        .build()?;
    Ok(Some(Expr::InSubquery(InSubquery::new(
        Box::new(canonical_key(value, schema)?),
        subquery.with_plan(Arc::new(plan)),
        membership.negated,
    ))))
}

/// Brings the keys of a plan node to one zero and one NaN.
pub(super) fn equal_zeros(plan: LogicalPlan) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Aggregate(aggregate) => match group_keys(inherited::order(aggregate)?)? {
            LogicalPlan::Aggregate(aggregate) => intervals::groups(aggregate),
            other => Ok(other),
        },
        LogicalPlan::Distinct(Distinct::All(input)) => {
            let input = canonical_columns(Arc::unwrap_or_clone(input), |_| true)?;
            if intervals::has_interval(input.schema()) {
                return intervals::distinct(input);
            }
            Ok(LogicalPlan::Distinct(Distinct::All(Arc::new(input))))
        }
        LogicalPlan::Distinct(Distinct::On(mut distinct)) => {
            // The first keys of the order are those that are distinct: both change alike.
            let schema = Arc::clone(distinct.input.schema());
            distinct.on_expr = std::mem::take(&mut distinct.on_expr)
                .into_iter()
                .map(|key| sort_key(key, &schema))
                .collect::<Result<_>>()?;
            distinct.sort_expr = match distinct.sort_expr.take() {
                Some(keys) => Some(canonical_sort(keys, &schema)?),
                None => None,
            };
            Ok(LogicalPlan::Distinct(Distinct::On(distinct)))
        }
        LogicalPlan::Join(mut join) => {
            let (left, right) = (
                Arc::clone(join.left.schema()),
                Arc::clone(join.right.schema()),
            );
            join.on = join
                .on
                .into_iter()
                .map(|(l, r)| {
                    let (l, r) = joined(l, &left, r, &right)?;
                    let interval = intervals::is_interval(&l, &left)?;
                    if interval || is_float(&l, &left)? || is_float(&r, &right)? {
                        Ok((canonical_key(l, &left)?, canonical_key(r, &right)?))
                    } else {
                        Ok((l, r))
                    }
                })
                .collect::<Result<_>>()?;
            Ok(LogicalPlan::Join(join))
        }
        LogicalPlan::Sort(mut sort) => {
            let schema = Arc::clone(sort.input.schema());
            sort.expr = canonical_sort(nulls_at_end(sort.expr, &schema)?, &schema)?;
            Ok(LogicalPlan::Sort(sort))
        }
        LogicalPlan::Window(_) => {
            let schema = merge_schema(&plan.inputs());
            let names = NamePreserver::new(&plan);
            plan.map_expressions(|expr| {
                let name = names.save(&expr);
                let rewritten = expr.transform_up(|expr| window_keys(expr, &schema))?;
                Ok(rewritten.update_data(|expr| name.restore(expr)))
            })?
            .data
            .recompute_schema()
        }
        other => Ok(other),
    }
}

fn group_keys(aggregate: Aggregate) -> Result<LogicalPlan> {
    let Aggregate {
        input,
        group_expr,
        aggr_expr,
        ..
    } = aggregate;
    let schema = Arc::clone(input.schema());
    let aggr_expr = aggr_expr
        .into_iter()
        .map(|expr| distinct_arguments(expr, &schema))
        .collect::<Result<Vec<_>>>()?;
    let sets = group_expr
        .iter()
        .any(|expr| matches!(expr, Expr::GroupingSet(_)));
    if sets {
        // Inside grouping sets keys are told apart by their columns, so the columns themselves change.
        let keys: Vec<Expr> = group_expr.iter().flat_map(set_keys).collect();
        let input = canonical_columns(Arc::unwrap_or_clone(input), |column| keys.contains(column))?;
        return Aggregate::try_new(Arc::new(input), group_expr, aggr_expr)
            .map(LogicalPlan::Aggregate);
    }
    let group_expr = group_expr
        .into_iter()
        .map(|expr| {
            if !is_float(&expr, &schema)? || is_canonical(&expr) {
                return Ok(expr);
            }
            let (relation, name) = expr.qualified_name();
            let key = expr.unalias();
            Ok(CanonicalFloat::call(key).alias_qualified(relation, name))
        })
        .collect::<Result<Vec<_>>>()?;
    Aggregate::try_new(input, group_expr, aggr_expr).map(LogicalPlan::Aggregate)
}

fn set_keys(expr: &Expr) -> Vec<Expr> {
    match expr {
        Expr::GroupingSet(GroupingSet::Rollup(keys) | GroupingSet::Cube(keys)) => keys.clone(),
        Expr::GroupingSet(GroupingSet::GroupingSets(sets)) => sets.concat(),
        key => vec![key.clone()],
    }
}

/// The arguments of a DISTINCT aggregate are keys, too.
fn distinct_arguments(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    let (relation, name) = expr.qualified_name();
    let rewritten = expr.transform_up(|expr| match expr {
        Expr::AggregateFunction(mut function) if function.params.distinct => {
            let mut changed = false;
            // An aggregate that shows its values shows intervals, not their lengths.
            let counts = function.func.name() == "count";
            let mut canonical = |arg: Expr| {
                if !counts && intervals::is_interval(&arg, schema)? {
                    return Ok(arg);
                }
                let key = canonical_key(arg.clone(), schema)?;
                changed |= key != arg;
                Ok(key)
            };
            let args = std::mem::take(&mut function.params.args);
            function.params.args = args
                .into_iter()
                .map(&mut canonical)
                .collect::<Result<_>>()?;
            // Its ORDER BY names its arguments.
            for key in &mut function.params.order_by {
                key.expr = canonical(std::mem::take(&mut key.expr))?;
            }
            let function = Expr::AggregateFunction(function);
            Ok(if changed {
                Transformed::yes(function)
            } else {
                Transformed::no(function)
            })
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(if rewritten.transformed {
        rewritten.data.unalias().alias_qualified(relation, name)
    } else {
        rewritten.data
    })
}

/// A projection of all columns, those that are floating point numbers and `chosen` brought to one zero and one NaN.
fn canonical_columns(input: LogicalPlan, chosen: impl Fn(&Expr) -> bool) -> Result<LogicalPlan> {
    let mut changed = false;
    let columns: Vec<Expr> = input
        .schema()
        .iter()
        .map(|(qualifier, field)| {
            let column = Expr::from((qualifier, field));
            if has_floats(field.data_type()) && chosen(&column) {
                changed = true;
                CanonicalFloat::call(column).alias_qualified(qualifier.cloned(), field.name())
            } else {
                column
            }
        })
        .collect();
    if changed {
        LogicalPlanBuilder::from(input).project(columns)?.build()
    } else {
        Ok(input)
    }
}

fn window_keys(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::WindowFunction(mut function) = expr else {
        return Ok(Transformed::no(expr));
    };
    let WindowFunctionParams {
        partition_by,
        order_by,
        ..
    } = &mut function.params;
    *partition_by = std::mem::take(partition_by)
        .into_iter()
        .map(|key| canonical_key(key, schema))
        .collect::<Result<_>>()?;
    let keys = nulls_at_end(std::mem::take(order_by), schema)?;
    *order_by = canonical_sort(keys, schema)?;
    Ok(Transformed::yes(Expr::WindowFunction(function)))
}

fn canonical_sort(keys: Vec<SortExpr>, schema: &DFSchema) -> Result<Vec<SortExpr>> {
    keys.into_iter()
        .map(|mut key| {
            key.expr = sort_key(key.expr, schema)?;
            Ok(key)
        })
        .collect()
}

/// NULL within a list, a struct or a map is greater than every other value wherever NULLs are asked for, as in PostgreSQL: so whether
/// the whole is NULL is a key of its own, where its place is not that of the greatest.
fn nulls_at_end(keys: Vec<SortExpr>, schema: &DFSchema) -> Result<Vec<SortExpr>> {
    let mut split = Vec::with_capacity(keys.len());
    for mut key in keys {
        if key.nulls_first == key.asc && key.expr.get_type(schema)?.is_nested() {
            let is_null = key.expr.clone().is_null();
            split.push(is_null.sort(!key.nulls_first, false));
            key.nulls_first = !key.asc;
        }
        split.push(key);
    }
    Ok(split)
}

fn sort_key(key: Expr, schema: &DFSchema) -> Result<Expr> {
    let order = orders::order_key(&key, schema)?;
    canonical_key(order.unwrap_or(key), schema)
}

fn canonical_key(key: Expr, schema: &DFSchema) -> Result<Expr> {
    Ok(if is_float(&key, schema)? && !is_canonical(&key) {
        CanonicalFloat::call(key)
    } else if intervals::is_interval(&key, schema)? {
        intervals::length_of(key)
    } else {
        key
    })
}

fn is_float(expr: &Expr, schema: &DFSchema) -> Result<bool> {
    if matches!(expr, Expr::GroupingSet(_)) {
        return Ok(false);
    }
    Ok(has_floats(&expr.get_type(schema)?))
}

fn is_canonical(expr: &Expr) -> bool {
    match expr {
        Expr::Alias(alias) => is_canonical(&alias.expr),
        Expr::ScalarFunction(function) => function.name() == NAME,
        _ => false,
    }
}
