//! Orders that are not Arrow's: intervals by their lengths, the labels of an enum by their places, as in PostgreSQL and DuckDB.
//!
//! What is sorted, or compared by more or less, is then a value's *order key*. MIN and MAX become the first value in the order.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion::common::{DFSchema, Result};
use datafusion::functions_aggregate::first_last::first_value_udaf;
use datafusion::logical_expr::expr::{AggregateFunction, ScalarFunction, WindowFunction};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, Operator, SortExpr, WindowFunctionDefinition,
};

use super::convert::message_name;
use super::places::{Enums, labels, labels_of, places_of};
use super::{aggregate, intervals, nested};
use crate::Error;
use crate::types::{Refinement, flat, full};

/// What an expression's values are sorted by, where that is not themselves.
pub(super) fn order_key(expr: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    if matches!(expr, Expr::GroupingSet(_)) {
        return Ok(None);
    }
    if intervals::is_interval(expr, schema)? {
        return Ok(Some(intervals::length_of(expr.clone())));
    }
    let (_, field) = expr.to_field(schema)?;
    Ok(Enums::of(&field).map(|enums| places_of(expr.clone(), enums)))
}

/// The comparison by more or less of an enum with another of its type, or with a label, or of nested values with the same enums
/// within.
pub(super) fn comparison(binary: &BinaryExpr, schema: &DFSchema) -> Result<Option<Expr>> {
    use Operator::{Gt, GtEq, Lt, LtEq};
    if !matches!(binary.op, Lt | LtEq | Gt | GtEq) {
        return Ok(None);
    }
    let (_, left) = binary.left.to_field(schema)?;
    let (_, right) = binary.right.to_field(schema)?;
    if left.data_type().is_nested()
        && let (Some(enums), Some(others)) = (Enums::of(&left), Enums::of(&right))
        && enums == others
    {
        let places = BinaryExpr::new(
            Box::new(places_of(binary.left.as_ref().clone(), enums)),
            binary.op,
            Box::new(places_of(binary.right.as_ref().clone(), others)),
        );
        return nested::comparison(&places, schema);
    }
    let is_label = |expr: &Expr, field: &Field| {
        matches!(expr, Expr::Literal(_, _)) && field.data_type().is_string()
    };
    let labels = match (labels(&left), labels(&right)) {
        (Some(left), Some(right)) if left == right => left,
        (Some(known), None) if is_label(&binary.right, &right) => known,
        (None, Some(known)) if is_label(&binary.left, &left) => known,
        _ => return Ok(None),
    };
    Ok(Some(Expr::BinaryExpr(BinaryExpr::new(
        Box::new(place_of(binary.left.as_ref().clone(), labels.clone())),
        binary.op,
        Box::new(place_of(binary.right.as_ref().clone(), labels)),
    ))))
}

/// A function that compares values, or those of a list, over their places.
pub(super) fn over_places(function: &ScalarFunction, schema: &DFSchema) -> Result<Option<Expr>> {
    let keeps_list = match function.name() {
        "array_sort" => true,
        "array_min" | "array_max" => false,
        "greatest" | "least" => return among(function, schema),
        _ => return Ok(None),
    };
    let Some(list) = function.args.first() else {
        return Ok(None);
    };
    let (_, field) = list.to_field(schema)?;
    if let (false, DataType::List(item) | DataType::LargeList(item)) =
        (keeps_list, field.data_type())
        && item.data_type().is_nested()
    {
        return Err(Error::unsupported(format!(
            "the least or greatest value of {} is not supported",
            message_name(&field)
        ))
        .with_hint("Sort the list with list_sort and take its first or last value.")
        .into());
    }
    let Some(enums) = Enums::of(&field) else {
        return Ok(None);
    };
    let (of_result, result) = match (&enums, full(&field).data_type()) {
        (_, _) if keeps_list => (enums.clone(), flat(&field)),
        (Enums::Within(items), DataType::List(item) | DataType::LargeList(item)) => {
            let [Some(of_item)] = items.as_slice() else {
                return Ok(None);
            };
            (of_item.clone(), flat(item))
        }
        _ => return Ok(None),
    };
    let mut sorted = function.clone();
    if let Some(list) = sorted.args.first_mut() {
        *list = places_of(std::mem::take(list), enums);
    }
    Ok(Some(labels_of(
        Expr::ScalarFunction(sorted),
        of_result,
        Arc::new(result),
    )))
}

/// GREATEST and LEAST of values with the same enums.
fn among(function: &ScalarFunction, schema: &DFSchema) -> Result<Option<Expr>> {
    let mut known: Option<(Enums, Field)> = None;
    let mut args = Vec::with_capacity(function.args.len());
    for arg in &function.args {
        let (_, field) = arg.to_field(schema)?;
        if field.data_type().is_null() {
            args.push(arg.clone());
            continue;
        }
        let Some(enums) = Enums::of(&field) else {
            return Ok(None);
        };
        if let Some((others, other)) = &known
            && (*others != enums
                || field.data_type().is_nested() && field.data_type() != other.data_type())
        {
            return Ok(None);
        }
        args.push(places_of(arg.clone(), enums.clone()));
        known.get_or_insert((enums, flat(&field)));
    }
    let mut sorted = function.clone();
    sorted.args = args;
    Ok(known.map(|(enums, field)| labels_of(Expr::ScalarFunction(sorted), enums, Arc::new(field))))
}

/// MIN and MAX by an order key, or of a type that they would lose.
pub(super) fn extreme(function: &AggregateFunction, schema: &DFSchema) -> Result<Option<Expr>> {
    let ascending = match function.func.name() {
        "min" => true,
        "max" => false,
        _ => return Ok(None),
    };
    let [value] = function.params.args.as_slice() else {
        return Ok(None);
    };
    let Some(key) = extreme_key(value, schema)? else {
        return Ok(None);
    };
    let known = value.clone().is_not_null();
    let mut params = function.params.clone();
    params.distinct = false;
    params.filter = Some(Box::new(match params.filter.take() {
        Some(filter) => filter.and(known),
        None => known,
    }));
    // NULL within a nested value is greater than every other, whichever end is wanted.
    params.order_by = vec![SortExpr::new(key, ascending, !ascending)];
    Ok(Some(Expr::AggregateFunction(AggregateFunction {
        func: first_value_udaf(),
        params,
    })))
}

fn extreme_key(value: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    if let Some(key) = order_key(value, schema)? {
        return Ok(Some(key));
    }
    let (_, field) = value.to_field(schema)?;
    let refined = matches!(Refinement::of(&field), Refinement::Uuid | Refinement::Json);
    let sorted = refined || field.data_type().is_nested();
    Ok(sorted.then(|| value.clone()))
}

/// An aggregate's ORDER BY by order keys. One with DISTINCT is sorted by what it yields.
pub(super) fn within(
    function: &AggregateFunction,
    schema: &DFSchema,
) -> Result<Option<AggregateFunction>> {
    if function.params.distinct {
        for sort in &function.params.order_by {
            if Enums::of(&sort.expr.to_field(schema)?.1).is_some() {
                return Err(Error::unsupported(format!(
                    "{}(DISTINCT …) with ORDER BY over an enum is not supported",
                    function.func.name()
                ))
                .with_hint("Sort the distinct values in a subquery, or with list_sort.")
                .into());
            }
        }
        return Ok(None);
    }
    let mut sorted = function.clone();
    let mut changed = false;
    for sort in &mut sorted.params.order_by {
        if let Some(key) = order_key(&sort.expr, schema)?
            && key != sort.expr
        {
            sort.expr = key;
            changed = true;
        }
    }
    Ok(changed.then_some(sorted))
}

/// MIN, MAX, ARG_MIN and ARG_MAX over windows of what DataFusion would compare in another order: by an order key.
pub(super) fn over_window(
    function: &WindowFunction,
    schema: &DFSchema,
) -> Result<Option<WindowFunction>> {
    let (name, value, key) = match (function.fun.name(), function.params.args.as_slice()) {
        ("min", [value]) => ("arg_min", value, extreme_key(value, schema)?),
        ("max", [value]) => ("arg_max", value, extreme_key(value, schema)?),
        ("arg_min", [value, key]) => ("arg_min", value, order_key(key, schema)?),
        ("arg_max", [value, key]) => ("arg_max", value, order_key(key, schema)?),
        _ => return Ok(None),
    };
    let (Some(key), Some(at_extreme)) = (key, aggregate::at_extreme(name)) else {
        return Ok(None);
    };
    let mut ordered = function.clone();
    ordered.params.args = vec![value.clone(), key];
    ordered.params.distinct = false;
    ordered.fun = WindowFunctionDefinition::AggregateUDF(at_extreme);
    Ok(Some(ordered))
}

/// The place of a label in its enum, from 1.
pub(super) fn place_of(expr: Expr, labels: Vec<String>) -> Expr {
    places_of(expr, Enums::of_labels(labels))
}
