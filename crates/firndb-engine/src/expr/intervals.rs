//! Intervals are equal where they last equally long: a month is 30 days, a day 24 hours, as in PostgreSQL and DuckDB.
//!
//! Arrow compares intervals field by field: months, then days, then nanoseconds. So what is compared, sorted or joined is an
//! interval's [`Length`] in nanoseconds. Groups show the interval that came first.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{
    DataType, Decimal128Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit,
};
use datafusion::common::{Column, DFSchema, Result, ScalarValue, exec_err};
use datafusion::functions_aggregate::first_last::first_value_udaf;
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// An interval's length, by which it is compared.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Length {
    signature: Signature,
}

const NAME: &str = "interval_length";
const NANOS_OF_DAY: i128 = 86_400_000_000_000;
const DAYS_OF_MONTH: i128 = 30;
/// The longest interval has 25 digits.
const LENGTH: DataType = DataType::Decimal128(38, 0);

pub(super) fn length_of(expr: Expr) -> Expr {
    if is_length(&expr) {
        return expr;
    }
    let function = Length {
        signature: Signature::any(1, Volatility::Immutable),
    };
    ScalarUDF::new_from_impl(function).call(vec![expr])
}

fn is_length(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(function) if function.name() == NAME)
}

pub(super) fn is_interval(expr: &Expr, schema: &DFSchema) -> Result<bool> {
    if matches!(expr, Expr::GroupingSet(_)) {
        return Ok(false);
    }
    Ok(is_type(&expr.get_type(schema)?))
}

fn is_type(data_type: &DataType) -> bool {
    *data_type == DataType::Interval(IntervalUnit::MonthDayNano)
}

impl ScalarUDFImpl for Length {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [interval] if is_type(interval) => Ok(LENGTH),
            _ => exec_err!("{NAME} takes one interval"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.as_slice() {
            [ColumnarValue::Array(array)] => Ok(ColumnarValue::Array(lengths(array))),
            [ColumnarValue::Scalar(value)] => {
                let array = lengths(&value.to_array()?);
                ScalarValue::try_from_array(&array, 0).map(ColumnarValue::Scalar)
            }
            _ => exec_err!("{NAME} takes one interval"),
        }
    }
}

fn lengths(values: &ArrayRef) -> ArrayRef {
    let values = values.as_primitive::<IntervalMonthDayNanoType>();
    let lengths = values.unary::<_, Decimal128Type>(length);
    Arc::new(lengths.with_data_type(LENGTH))
}

fn length(value: IntervalMonthDayNano) -> i128 {
    let days = i128::from(value.months) * DAYS_OF_MONTH + i128::from(value.days);
    days * NANOS_OF_DAY + i128::from(value.nanoseconds)
}

/// The comparison of two intervals by their lengths.
pub(super) fn comparison(binary: &BinaryExpr, schema: &DFSchema) -> Result<Option<Expr>> {
    let both = is_interval(&binary.left, schema)? && is_interval(&binary.right, schema)?;
    if !both || is_length(&binary.left) && is_length(&binary.right) {
        return Ok(None);
    }
    Ok(Some(Expr::BinaryExpr(BinaryExpr::new(
        Box::new(length_of(binary.left.as_ref().clone())),
        binary.op,
        Box::new(length_of(binary.right.as_ref().clone())),
    ))))
}

/// Groups by the lengths of intervals and shows each group's first one.
pub(super) fn groups(aggregate: Aggregate) -> Result<LogicalPlan> {
    let schema = Arc::clone(aggregate.input.schema());
    let mut intervals = Vec::with_capacity(aggregate.group_expr.len());
    for key in &aggregate.group_expr {
        intervals.push(is_interval(key, &schema)? && !is_length(&key.clone().unalias()));
    }
    if !intervals.contains(&true) {
        return Ok(LogicalPlan::Aggregate(aggregate));
    }
    let outputs: Vec<Expr> = aggregate
        .schema
        .iter()
        .map(|column| Expr::Column(Column::from(column)))
        .collect();
    let mut keys = Vec::with_capacity(aggregate.group_expr.len());
    let mut values = aggregate.aggr_expr;
    let mut columns = outputs;
    for (place, (key, interval)) in aggregate.group_expr.into_iter().zip(intervals).enumerate() {
        if !interval {
            keys.push(key);
            continue;
        }
        let shown = format!("__firndb_interval_{place}");
        let (relation, name) = key.qualified_name();
        let value = key.unalias();
        keys.push(length_of(value.clone()).alias(format!("__firndb_key_{place}")));
        values.push(first_value_udaf().call(vec![value]).alias(shown.as_str()));
        columns[place] =
            Expr::Column(Column::new_unqualified(shown)).alias_qualified(relation, name);
    }
    let aggregate = Aggregate::try_new(aggregate.input, keys, values)?;
    LogicalPlanBuilder::from(LogicalPlan::Aggregate(aggregate))
        .project(columns)?
        .build()
}

/// DISTINCT rows among whose columns are intervals: groups of all columns.
pub(super) fn distinct(input: LogicalPlan) -> Result<LogicalPlan> {
    let columns: Vec<Expr> = input
        .schema()
        .iter()
        .map(|column| Expr::Column(Column::from(column)))
        .collect();
    groups(Aggregate::try_new(Arc::new(input), columns, Vec::new())?)
}

/// Whether a column of the schema is an interval.
pub(super) fn has_interval(schema: &DFSchema) -> bool {
    schema
        .fields()
        .iter()
        .any(|field| is_type(field.data_type()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lasts(months: i32, days: i32, nanos: i64) -> i128 {
        length(IntervalMonthDayNano::new(months, days, nanos))
    }

    #[test]
    fn a_month_has_thirty_days() {
        assert_eq!(lasts(1, 0, 0), lasts(0, 30, 0));
        assert_eq!(lasts(0, 1, 0), lasts(0, 0, 86_400_000_000_000));
        assert!(lasts(0, -1, 0) < lasts(0, 0, 0));
        assert!(lasts(1, 0, 0) < lasts(0, 31, 0));
    }
}
