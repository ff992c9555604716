//! Orders that are not Arrow's: intervals by their lengths, the labels of an enum by their places, as in PostgreSQL and DuckDB.
//!
//! What is sorted, or compared by more or less, is then a value's *order key*. MIN and MAX become the first value in the order.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int32Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field};
use datafusion::common::{DFSchema, Result, ScalarValue, exec_err};
use datafusion::functions_aggregate::first_last::first_value_udaf;
use datafusion::logical_expr::expr::{AggregateFunction, WindowFunction};
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, Operator, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, SortExpr, Volatility, WindowFunctionDefinition,
};

use super::aggregate;
use super::intervals;
use crate::types::Refinement;
use crate::{Error, SqlState};

/// What an expression's values are sorted by, where that is not themselves.
pub(super) fn order_key(expr: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    if matches!(expr, Expr::GroupingSet(_)) {
        return Ok(None);
    }
    if intervals::is_interval(expr, schema)? {
        return Ok(Some(intervals::length_of(expr.clone())));
    }
    let (_, field) = expr.to_field(schema)?;
    Ok(labels(&field).map(|labels| place_of(expr.clone(), labels)))
}

/// The comparison by more or less of an enum with another of its type, or with a label.
pub(super) fn comparison(binary: &BinaryExpr, schema: &DFSchema) -> Result<Option<Expr>> {
    use Operator::{Gt, GtEq, Lt, LtEq};
    if !matches!(binary.op, Lt | LtEq | Gt | GtEq) {
        return Ok(None);
    }
    let (_, left) = binary.left.to_field(schema)?;
    let (_, right) = binary.right.to_field(schema)?;
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

pub(super) fn labels(field: &Field) -> Option<Vec<String>> {
    match Refinement::of(field) {
        Refinement::Enum(labels) => Some(labels),
        _ => None,
    }
}

/// The place of a label in its enum, from 1.
#[derive(Debug)]
struct Place {
    labels: Vec<String>,
    places: HashMap<String, i32, ahash::RandomState>,
    signature: Signature,
}

const NAME: &str = "enum_place";

impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        self.labels == other.labels
    }
}

impl Eq for Place {}

impl Hash for Place {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.labels.hash(state);
    }
}

pub(super) fn place_of(expr: Expr, labels: Vec<String>) -> Expr {
    let places = labels.iter().cloned().zip(1..).collect();
    let function = Place {
        labels,
        places,
        signature: Signature::any(1, Volatility::Immutable),
    };
    ScalarUDF::new_from_impl(function).call(vec![expr])
}

impl Place {
    fn places(&self, values: &ArrayRef) -> Result<ArrayRef> {
        let values = cast(values, &DataType::Utf8View)?;
        let places = values
            .as_string_view()
            .iter()
            .map(|label| match label {
                None => Ok(None),
                Some(label) => match self.places.get(label) {
                    Some(place) => Ok(Some(*place)),
                    None => Err(Error::new(
                        SqlState::InvalidTextRepresentation,
                        format!("invalid input value for enum: \"{label}\""),
                    )),
                },
            })
            .collect::<crate::Result<Int32Array>>()?;
        Ok(Arc::new(places))
    }
}

impl ScalarUDFImpl for Place {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int32)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.as_slice() {
            [ColumnarValue::Array(values)] => self.places(values).map(ColumnarValue::Array),
            [ColumnarValue::Scalar(value)] => {
                let places = self.places(&value.to_array()?)?;
                ScalarValue::try_from_array(&places, 0).map(ColumnarValue::Scalar)
            }
            _ => exec_err!("{NAME} takes one label"),
        }
    }
}
