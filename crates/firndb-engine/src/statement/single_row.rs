//! Scalar subqueries: at most one row, checked when it matters, and NULL for none.
//!
//! DataFusion turns a correlated scalar subquery into a left join and therefore accepts it only when it is aggregated.
//! SQL accepts any, and reports 21000 when it yields more than one row *for a row that asks*. So the subquery's value is
//! aggregated into a pair of the value and the number of rows, and a function outside the subquery, evaluated for the rows of
//! the outer query alone, takes the pair apart and checks the number:
//!
//! ```text
//! (SELECT y FROM s WHERE s.k = t.k)   ─▶   only_row((SELECT single_row(y) FROM s WHERE s.k = t.k))
//! ```
//!
//! The same is done with a subquery that does not depend on the row, if its column can't be NULL and it may have no rows: DataFusion would take
//! its value for never NULL.

use std::mem::size_of_val;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StructArray};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Int64Type};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DataFusionError, Result as PlanResult, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, Aggregate, AggregateUDF, AggregateUDFImpl, ColumnarValue, Expr, LogicalPlan,
    Projection, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Subquery,
    Volatility,
};

use crate::{Error, Result, SqlState};

/// The name of a subquery's value in the plan.
const VALUE: &str = "__firndb_value";

/// Rewrites every correlated scalar subquery of a plan that may yield several rows, or whose value has the name of a column within, and others that may
/// yield none and seem never NULL.
pub fn guard(plan: LogicalPlan) -> Result<LogicalPlan> {
    let plan = plan.transform_up_with_subqueries(|node| {
        node.map_expressions(|expression| {
            expression.transform_up(|expression| match expression {
                Expr::ScalarSubquery(subquery) if needs_guard(&subquery)? => {
                    Ok(Transformed::yes(guarded(subquery)?))
                }
                Expr::ScalarSubquery(subquery) if hides_a_column(&subquery)? => {
                    Ok(Transformed::yes(named(subquery)?))
                }
                other => Ok(Transformed::no(other)),
            })
        })?
        .map_data(LogicalPlan::recompute_schema)
    })?;
    Ok(plan.data)
}

fn needs_guard(subquery: &Subquery) -> PlanResult<bool> {
    let plan = &subquery.subquery;
    let [field] = &plan.schema().fields()[..] else {
        return Ok(false);
    };
    Ok(
        match super::unnest::depends(plan)? || super::unnest::reads_round(plan)? {
            true => !is_aggregated(plan) && plan.max_rows().is_none_or(|rows| rows > 1),
            false => !field.is_nullable() && !has_a_row(plan),
        },
    )
}

/// Whether the plan yields a row in any case.
fn has_a_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(node) => has_a_row(&node.input),
        LogicalPlan::SubqueryAlias(node) => has_a_row(&node.input),
        LogicalPlan::EmptyRelation(node) => node.produce_one_row,
        LogicalPlan::Aggregate(node) => node.group_expr.is_empty(),
        _ => false,
    }
}

/// Whether the plan, below projections, groups by nothing: one row. A grouped one may have several.
fn is_aggregated(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(node) => is_aggregated(&node.input),
        LogicalPlan::SubqueryAlias(node) => is_aggregated(&node.input),
        LogicalPlan::Filter(node) => {
            matches!(node.input.as_ref(), LogicalPlan::Aggregate(_)) && is_aggregated(&node.input)
        }
        LogicalPlan::Aggregate(node) => node.group_expr.is_empty(),
        _ => false,
    }
}

/// Whether the value of a subquery that depends on the row has the name of a column within: the join that takes its place passes on
/// the columns that it compares, and the two would be one name.
fn hides_a_column(subquery: &Subquery) -> PlanResult<bool> {
    let LogicalPlan::Projection(projection) = subquery.subquery.as_ref() else {
        return Ok(false);
    };
    let [field] = projection.schema.fields().as_ref() else {
        return Ok(false);
    };
    let hidden = projection.input.exists(|node| {
        let fields = node.schema().fields();
        Ok(fields.iter().any(|one| one.name() == field.name()))
    })?;
    Ok(hidden && field.name() != VALUE && super::unnest::depends(&subquery.subquery)?)
}

/// The same subquery, its value under a name that no column has.
fn named(subquery: Subquery) -> PlanResult<Expr> {
    let name = subquery.subquery.schema().field(0).name().clone();
    let inner = Expr::ScalarSubquery(Subquery {
        subquery: under_value(&subquery.subquery)?,
        ..subquery
    });
    Ok(inner.alias(name))
}

/// A projection of one value, under the name that no column has.
fn under_value(plan: &Arc<LogicalPlan>) -> PlanResult<Arc<LogicalPlan>> {
    let LogicalPlan::Projection(projection) = plan.as_ref() else {
        return Ok(Arc::clone(plan));
    };
    let values = projection.expr.iter().cloned();
    let values = values.map(|value| value.unalias().alias(VALUE)).collect();
    let renamed = Projection::try_new(values, Arc::clone(&projection.input))?;
    Ok(Arc::new(LogicalPlan::Projection(renamed)))
}

fn guarded(subquery: Subquery) -> PlanResult<Expr> {
    let name = subquery.subquery.schema().field(0).name().clone();
    let values = under_value(&subquery.subquery)?;
    let value = Expr::Column(Column::from(values.schema().qualified_field(0)));
    let single = AggregateUDF::from(SingleRow::new()).call(vec![value]);
    let pair = single.schema_name().to_string();
    let aggregate = Aggregate::try_new(values, Vec::new(), vec![single])?;
    let output = Expr::Column(Column::new_unqualified(pair)).alias(VALUE);
    let projection =
        Projection::try_new(vec![output], Arc::new(LogicalPlan::Aggregate(aggregate)))?;
    let inner = Expr::ScalarSubquery(Subquery {
        subquery: Arc::new(LogicalPlan::Projection(projection)),
        outer_ref_columns: subquery.outer_ref_columns,
        spans: subquery.spans,
    });
    let outer = Arc::new(ScalarUDF::from(OnlyRow::new()));
    Ok(Expr::ScalarFunction(ScalarFunction::new_udf(outer, vec![inner])).alias(name))
}

fn pair_fields(value: DataType) -> Fields {
    Fields::from(vec![
        Field::new("value", value, true),
        Field::new("rows", DataType::Int64, false),
    ])
}

/// Aggregates rows to one of their values and their number.
#[derive(Debug, PartialEq, Eq, Hash)]
struct SingleRow {
    signature: Signature,
}

impl SingleRow {
    fn new() -> Self {
        SingleRow {
            signature: Signature::any(1, Volatility::Immutable),
        }
    }
}

impl AggregateUDFImpl for SingleRow {
    fn name(&self) -> &str {
        "single_row"
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, arguments: &[DataType]) -> PlanResult<DataType> {
        Ok(DataType::Struct(pair_fields(argument(arguments)?)))
    }
    /// What makes the value more than its Arrow type says goes with the pair.
    fn return_field(&self, arguments: &[FieldRef]) -> PlanResult<FieldRef> {
        let [value] = arguments else {
            return Err(Error::internal("one argument").into());
        };
        let pair = DataType::Struct(pair_fields(value.data_type().clone()));
        let field = Field::new(self.name(), pair, true);
        Ok(Arc::new(field.with_metadata(value.metadata().clone())))
    }
    fn accumulator(&self, arguments: AccumulatorArgs) -> PlanResult<Box<dyn Accumulator>> {
        let DataType::Struct(fields) = arguments.return_field.data_type() else {
            return Err(Error::internal("single_row yields a pair").into());
        };
        Ok(Box::new(SingleRowAccumulator {
            value: ScalarValue::try_from(fields[0].data_type())?,
            rows: 0,
            fields: fields.clone(),
        }))
    }
    fn state_fields(&self, arguments: StateFieldsArgs) -> PlanResult<Vec<FieldRef>> {
        let DataType::Struct(fields) = arguments.return_field.data_type() else {
            return Err(Error::internal("single_row yields a pair").into());
        };
        Ok(fields.iter().cloned().collect())
    }
}

#[derive(Debug)]
struct SingleRowAccumulator {
    value: ScalarValue,
    rows: i64,
    fields: Fields,
}

impl Accumulator for SingleRowAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> PlanResult<()> {
        let [values] = values else {
            return Err(Error::internal("single_row has one argument").into());
        };
        if self.rows == 0 && !values.is_empty() {
            self.value = ScalarValue::try_from_array(values, 0)?.compacted();
        }
        self.rows += values.len() as i64;
        Ok(())
    }
    fn merge_batch(&mut self, states: &[ArrayRef]) -> PlanResult<()> {
        let [values, rows] = states else {
            return Err(Error::internal("single_row has two states").into());
        };
        let rows = rows.as_primitive::<Int64Type>();
        for (row, &count) in rows.values().iter().enumerate() {
            if self.rows == 0 && count > 0 {
                self.value = ScalarValue::try_from_array(values, row)?.compacted();
            }
            self.rows += count;
        }
        Ok(())
    }
    fn state(&mut self) -> PlanResult<Vec<ScalarValue>> {
        Ok(vec![
            self.value.clone(),
            ScalarValue::Int64(Some(self.rows)),
        ])
    }
    fn evaluate(&mut self) -> PlanResult<ScalarValue> {
        let columns = self
            .state()?
            .into_iter()
            .map(|state| state.to_array())
            .collect::<PlanResult<Vec<_>>>()?;
        let pair = StructArray::try_new(self.fields.clone(), columns, None)?;
        Ok(ScalarValue::Struct(Arc::new(pair)))
    }
    fn size(&self) -> usize {
        size_of_val(self) + self.value.size() - size_of_val(&self.value)
    }
}

/// Takes apart what [`SingleRow`] made: NULL for no row, the value for one, 21000 for more.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OnlyRow {
    signature: Signature,
}

impl OnlyRow {
    fn new() -> Self {
        OnlyRow {
            signature: Signature::any(1, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for OnlyRow {
    fn name(&self) -> &str {
        "only_row"
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, arguments: &[DataType]) -> PlanResult<DataType> {
        match argument(arguments)? {
            DataType::Struct(fields) if fields.len() == 2 => Ok(fields[0].data_type().clone()),
            _ => Err(Error::internal("only_row takes a pair").into()),
        }
    }
    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> PlanResult<FieldRef> {
        let [pair] = arguments.arg_fields else {
            return Err(Error::internal("one argument").into());
        };
        let value = self.return_type(&[pair.data_type().clone()])?;
        let field = Field::new(self.name(), value, true);
        Ok(Arc::new(field.with_metadata(pair.metadata().clone())))
    }
    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&arguments.args)?;
        let pairs = arrays
            .first()
            .and_then(|array| array.as_any().downcast_ref::<StructArray>())
            .ok_or_else(|| DataFusionError::from(Error::internal("only_row takes a pair")))?;
        let rows = pairs.column(1).as_primitive::<Int64Type>();
        let several = (0..pairs.len())
            .any(|row| pairs.is_valid(row) && rows.is_valid(row) && rows.value(row) > 1);
        if several {
            return Err(Error::new(
                SqlState::CardinalityViolation,
                "more than one row returned by a subquery used as an expression",
            )
            .into());
        }
        let values = match pairs.nulls() {
            None => Arc::clone(pairs.column(0)),
            Some(valid) => {
                let rows =
                    (0..pairs.len() as u64).map(|row| valid.is_valid(row as usize).then_some(row));
                take(
                    pairs.column(0),
                    &arrow::array::UInt64Array::from_iter(rows),
                    None,
                )?
            }
        };
        Ok(ColumnarValue::Array(values))
    }
}

fn argument(arguments: &[DataType]) -> PlanResult<DataType> {
    match arguments {
        [argument] => Ok(argument.clone()),
        _ => Err(Error::internal("one argument").into()),
    }
}
