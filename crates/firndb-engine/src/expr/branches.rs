//! One type for values that meet: the branches of CASE, the arguments of COALESCE and its like, the inputs of UNION, the
//! rows of VALUES.
//!
//! DataFusion's coercion makes a double and a decimal a DECIMAL(30,15), which turns 1e-20 into 0 and refuses NaN. A double
//! that meets a decimal makes both doubles, as in PostgreSQL and DuckDB. And before DataFusion coerces, a CASE claims the type
//! of its first branch, so an operator above it may have been typed by a branch alone: it is typed anew here.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::type_coercion::other::get_coerce_type_for_case_expression;
use datafusion::logical_expr::{Case, Expr, ExprSchemable, LogicalPlan, Projection, Union, Values};

use super::arithmetic::Arithmetic;
use super::cast::Cast;
use super::convert::Rule;
use super::operators::arithmetic;

/// The branches of a CASE brought to their common type.
pub(crate) fn unified_case(mut case: Case, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let mut branches: Vec<&mut Box<Expr>> = case
        .when_then_expr
        .iter_mut()
        .map(|(_, then)| then)
        .chain(case.else_expr.as_mut())
        .collect();
    let types = branches
        .iter()
        .map(|branch| branch.get_type(schema))
        .collect::<Result<Vec<_>>>()?;
    let common = if types.windows(2).all(|pair| pair[0] == pair[1]) {
        None
    } else if is_mixed(&types) {
        Some(DataType::Float64)
    } else {
        get_coerce_type_for_case_expression(&types, None)
    };
    let Some(common) = common else {
        return Ok(Transformed::no(Expr::Case(case)));
    };
    for (branch, from) in branches.iter_mut().zip(&types) {
        let value = std::mem::take(branch.as_mut());
        ***branch = converted(value, from, &common)?;
    }
    Ok(Transformed::yes(Expr::Case(case)))
}

/// A call whose arguments are values of one result, or an operator whose operands changed their types below it.
pub(crate) fn unified_call(function: &ScalarFunction, schema: &DFSchema) -> Result<Option<Expr>> {
    if let (Some(operator), [left, right]) = (
        function.func.inner().downcast_ref::<Arithmetic>(),
        function.args.as_slice(),
    ) {
        let (left_type, right_type) = (left.get_type(schema)?, right.get_type(schema)?);
        if operator.takes(&left_type, &right_type)? {
            return Ok(None);
        }
        return arithmetic(operator.operator(), left, right, schema);
    }
    if !matches!(
        function.func.name(),
        "coalesce" | "greatest" | "least" | "nvl" | "ifnull" | "make_array"
    ) {
        return Ok(None);
    }
    let types = function
        .args
        .iter()
        .map(|argument| argument.get_type(schema))
        .collect::<Result<Vec<_>>>()?;
    if !is_mixed(&types) {
        return Ok(None);
    }
    let args = function
        .args
        .iter()
        .zip(&types)
        .map(|(argument, from)| converted(argument.clone(), from, &DataType::Float64))
        .collect::<Result<Vec<_>>>()?;
    Ok(Some(Expr::ScalarFunction(ScalarFunction::new_udf(
        Arc::clone(&function.func),
        args,
    ))))
}

/// The inputs of a UNION, or the rows of VALUES, with doubles where doubles and decimals meet.
pub(crate) fn unified_rows(plan: LogicalPlan) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Union(union) => unified_union(union),
        LogicalPlan::Values(values) => unified_values(values),
        other => Ok(other),
    }
}

fn unified_union(union: Union) -> Result<LogicalPlan> {
    let width = union
        .inputs
        .iter()
        .map(|input| input.schema().fields().len())
        .min()
        .unwrap_or(0);
    let mixed: Vec<bool> = (0..width)
        .map(|column| {
            let types: Vec<DataType> = union
                .inputs
                .iter()
                .map(|input| input.schema().field(column).data_type().clone())
                .collect();
            is_mixed(&types)
        })
        .collect();
    if !mixed.contains(&true) {
        return Ok(LogicalPlan::Union(union));
    }
    let inputs = union
        .inputs
        .into_iter()
        .map(|input| {
            let columns = input
                .schema()
                .iter()
                .zip(&mixed)
                .map(|((qualifier, field), &mixed)| {
                    let column = Expr::from((qualifier, field));
                    if !mixed {
                        return Ok(column);
                    }
                    let double = converted(column, field.data_type(), &DataType::Float64)?;
                    Ok(double.alias_qualified(qualifier.cloned(), field.name()))
                })
                .collect::<Result<Vec<_>>>()?;
            Ok(Arc::new(LogicalPlan::Projection(Projection::try_new(
                columns, input,
            )?)))
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?))
}

fn unified_values(values: Values) -> Result<LogicalPlan> {
    let none = DFSchema::empty();
    // The planner has cast each cell to the column's type already.
    let bare = |cell: &Expr| match cell {
        Expr::Cast(cast) => cast.expr.as_ref().clone(),
        other => other.clone(),
    };
    let mut rows = values.values;
    let mut fields: Vec<_> = values.schema.fields().iter().cloned().collect();
    let mut changed = false;
    for (column, field) in fields.iter_mut().enumerate() {
        if !field.data_type().is_decimal() {
            continue;
        }
        let types = rows
            .iter()
            .map(|row| bare(&row[column]).get_type(&none))
            .collect::<Result<Vec<_>>>()?;
        if !types.iter().any(DataType::is_floating) {
            continue;
        }
        for (row, from) in rows.iter_mut().zip(&types) {
            row[column] = converted(bare(&row[column]), from, &DataType::Float64)?;
        }
        *field = Arc::new(field.as_ref().clone().with_data_type(DataType::Float64));
        changed = true;
    }
    let schema = if changed {
        Arc::new(DFSchema::from_unqualified_fields(
            fields.into(),
            values.schema.metadata().clone(),
        )?)
    } else {
        values.schema
    };
    Ok(LogicalPlan::Values(Values {
        schema,
        values: rows,
    }))
}

/// Whether floating point numbers and decimals are among the types.
fn is_mixed(types: &[DataType]) -> bool {
    types.iter().any(DataType::is_floating) && types.iter().any(DataType::is_decimal)
}

fn converted(value: Expr, from: &DataType, to: &DataType) -> Result<Expr> {
    if from == to {
        return Ok(value);
    }
    let source = Field::new("", from.clone(), true);
    let target = Arc::new(Field::new("", to.clone(), true));
    Ok(Cast::call(value, &source, &target, Rule::Explicit)?)
}
