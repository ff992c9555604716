//! One type for values that meet: the branches of CASE, the arguments of COALESCE and its like, the inputs of UNION, INTERSECT and
//! EXCEPT, the rows of VALUES.
//!
//! DataFusion's coercion makes a double and a decimal a DECIMAL(30,15), which turns 1e-20 into 0 and refuses NaN. A double
//! that meets a decimal makes both doubles, as in PostgreSQL and DuckDB. And before DataFusion coerces, a CASE claims the type
//! of its first branch, so an operator above it may have been typed by a branch alone: it is typed anew here.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, NullEquality, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::type_coercion::binary::type_union_coercion;
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::type_coercion::other::get_coerce_type_for_case_expression;
use datafusion::logical_expr::{
    Case, Distinct, Expr, ExprSchemable, Join, JoinType, LogicalPlan, Projection, Union, Values,
};
use datafusion::optimizer::analyzer::type_coercion::TypeCoercionRewriter;

use super::arithmetic::Arithmetic;
use super::cast::{CAST, Cast};
use super::convert::Rule;
use super::functions::{bytes_in, is_nothing};
use super::operators::arithmetic;
use super::{refined, untyped};
use crate::types::{Refinement, flat, full};

/// The branches of a CASE brought to their common type.
pub(crate) fn unified_case(mut case: Case, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let mut branches: Vec<&mut Box<Expr>> = case
        .when_then_expr
        .iter_mut()
        .map(|(_, then)| then)
        .chain(case.else_expr.as_mut())
        .collect();
    let types_of = |branches: &[&mut Box<Expr>]| {
        let types = branches.iter().map(|branch| branch.get_type(schema));
        types.collect::<Result<Vec<_>>>()
    };
    let mut types = types_of(&branches)?;
    // Numbers may stand beside words, all of them being text then.
    let values: Vec<&Expr> = branches.iter().map(|branch| &***branch).collect();
    let typed = match get_coerce_type_for_case_expression(&types, None) {
        None => untyped::meeting(&values, schema)?,
        Some(_) => untyped::meeting_exactly(&values, schema)?,
    };
    if let Some(typed) = typed {
        for (branch, typed) in branches.iter_mut().zip(typed) {
            ***branch = typed;
        }
        types = types_of(&branches)?;
    }
    let refined = refinement(branches.iter().map(|branch| branch.as_ref()), schema)?;
    let common = if types.windows(2).all(|pair| pair[0] == pair[1]) {
        None
    } else {
        common(&types).or_else(|| get_coerce_type_for_case_expression(&types, None))
    };
    let Some(common) = common else {
        return Ok(match refined {
            Some(field) => {
                Transformed::yes(Cast::function(Expr::Case(case), &field, Rule::Explicit))
            }
            None => Transformed::no(Expr::Case(case)),
        });
    };
    for (branch, from) in branches.iter_mut().zip(&types) {
        let value = std::mem::take(branch.as_mut());
        ***branch = converted(value, from, &common)?;
    }
    let case = Expr::Case(case);
    Ok(Transformed::yes(match refined {
        Some(field) => Cast::function(case, &field, Rule::Explicit),
        None => case,
    }))
}

/// An operand whose CASEs have the types of all of their branches: until then a CASE claims the first one's, and the operator would be
/// typed by it.
pub(crate) fn settled(operand: &Expr, schema: &DFSchema) -> Result<Expr> {
    let undecided = operand.exists(|part| Ok(matches!(part, Expr::Case(_))))?;
    if !undecided {
        return Ok(operand.clone());
    }
    let settled = operand.clone().transform_up(|part| match part {
        Expr::Case(case) => unified_case(case, schema),
        other => Ok(Transformed::no(other)),
    })?;
    Ok(settled.data)
}

/// A union whose inputs have their common types, so that what is computed over it is typed by those.
pub(crate) fn settled_union(union: Union) -> Result<LogicalPlan> {
    match unified_union(union)? {
        LogicalPlan::Union(union) => TypeCoercionRewriter::coerce_union(union),
        other => Ok(other),
    }
}

/// INTERSECT and EXCEPT, which are joins of all columns of both sides that take NULL for a value, with both sides in the types in
/// which their numbers meet.
pub(super) fn settled_set(join: Join) -> Result<LogicalPlan> {
    let (left, right) = (join.left.schema(), join.right.schema());
    let is_set = join.null_equality == NullEquality::NullEqualsNull
        && matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.on.len() == left.fields().len()
        && join.on.len() == right.fields().len();
    let types = set_types(left, right);
    if !is_set || types.iter().all(Option::is_none) {
        return Ok(LogicalPlan::Join(join));
    }
    // The left side's duplicates go after it is converted.
    let left = match join.left.as_ref() {
        LogicalPlan::Distinct(Distinct::All(input)) => Arc::new(LogicalPlan::Distinct(
            Distinct::All(Arc::new(converted_columns(input, &types)?)),
        )),
        other => Arc::new(converted_columns(other, &types)?),
    };
    let right = Arc::new(converted_columns(&join.right, &types)?);
    Ok(LogicalPlan::Join(Join::try_new(
        left,
        right,
        join.on,
        join.filter,
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?))
}

/// The inputs of a set operation in the types in which their numbers meet.
pub(crate) fn set_inputs(
    left: LogicalPlan,
    right: LogicalPlan,
) -> Result<(LogicalPlan, LogicalPlan)> {
    let types = set_types(left.schema(), right.schema());
    if types.iter().all(Option::is_none) {
        return Ok((left, right));
    }
    let left = converted_columns(&left, &types)?;
    Ok((left, converted_columns(&right, &types)?))
}

/// For each column the type in which its numbers meet, where the sides' types differ.
fn set_types(left: &DFSchema, right: &DFSchema) -> Vec<Option<DataType>> {
    let columns = left.fields().iter().zip(right.fields());
    columns
        .map(|(left, right)| {
            let (left, right) = (left.data_type(), right.data_type());
            if left == right || !left.is_numeric() || !right.is_numeric() {
                return None;
            }
            common(&[left.clone(), right.clone()]).or_else(|| type_union_coercion(left, right))
        })
        .collect()
}

/// A plan's columns under their names, some in other types.
fn converted_columns(input: &LogicalPlan, types: &[Option<DataType>]) -> Result<LogicalPlan> {
    let columns = input
        .schema()
        .iter()
        .zip(types)
        .map(|((qualifier, field), to)| {
            let column = Expr::from((qualifier, field));
            let Some(to) = to else {
                return Ok(column);
            };
            let value = converted(column, field.data_type(), to)?;
            Ok(value.alias_qualified(qualifier.cloned(), field.name()))
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(LogicalPlan::Projection(Projection::try_new(
        columns,
        Arc::new(input.clone()),
    )?))
}

/// What makes the values more than their Arrow type says, if it is the same for all that are not NULL: UUID, JSON, an enum, or
/// lists, structs and maps of them.
fn refinement<'a>(
    values: impl Iterator<Item = &'a Expr>,
    schema: &DFSchema,
) -> Result<Option<FieldRef>> {
    let mut fields = Vec::new();
    for value in values {
        let (_, field) = value.to_field(schema)?;
        if !field.data_type().is_null() {
            fields.push(full(&field));
        }
    }
    if !fields.iter().any(refined::says_more) {
        return Ok(None);
    }
    let common = refined::merged(&fields).filter(refined::says_more);
    Ok(common.map(|field| Arc::new(flat(&field.with_nullable(true)))))
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
    let name = function.func.name();
    if matches!(name, "array_append" | "array_prepend" | "array_concat") {
        return of_bytes(function, schema);
    }
    if !matches!(
        name,
        "coalesce" | "greatest" | "least" | "nvl" | "ifnull" | "nullif" | "make_array"
    ) {
        return Ok(None);
    }
    if name == "make_array"
        && let Some(call) = of_bytes(function, schema)?
    {
        return Ok(Some(call));
    }
    let refined = match name {
        "make_array" => None,
        "nullif" => refinement(function.args.iter().take(1), schema)?,
        _ => refinement(function.args.iter(), schema)?,
    };
    if let Some(field) = refined {
        let call = Expr::ScalarFunction(function.clone());
        return Ok(Some(Cast::function(call, &field, Rule::Explicit)));
    }
    let types = function
        .args
        .iter()
        .map(|argument| argument.get_type(schema))
        .collect::<Result<Vec<_>>>()?;
    let Some(common) = common(&types) else {
        return Ok(None);
    };
    let args = function
        .args
        .iter()
        .zip(&types)
        .map(|(argument, from)| converted(argument.clone(), from, &common))
        .collect::<Result<Vec<_>>>()?;
    Ok(Some(Expr::ScalarFunction(ScalarFunction::new_udf(
        Arc::clone(&function.func),
        args,
    ))))
}

/// A call that makes lists of UUIDs or BLOBs, its NULLs and empty lists being of those, too.
fn of_bytes(function: &ScalarFunction, schema: &DFSchema) -> Result<Option<Expr>> {
    let fields = function
        .args
        .iter()
        .map(|argument| Ok(argument.to_field(schema)?.1))
        .collect::<Result<Vec<_>>>()?;
    let nothing = |field: &FieldRef| is_nothing(field.data_type());
    if !fields.iter().any(nothing)
        || !fields
            .iter()
            .any(|field| bytes_in(field.data_type()).is_some())
    {
        return Ok(None);
    }
    let wanted = fields_with_udf(&fields, function.func.as_ref())?;
    let args = function
        .args
        .iter()
        .zip(fields.iter().zip(&wanted))
        .map(|(argument, (from, to))| match nothing(from) {
            true => converted(argument.clone(), from.data_type(), to.data_type()),
            false => Ok(argument.clone()),
        })
        .collect::<Result<Vec<_>>>()?;
    let call = ScalarFunction::new_udf(Arc::clone(&function.func), args);
    Ok(Some(Expr::ScalarFunction(call)))
}

/// The inputs of a set operation, or the rows of VALUES, with doubles where doubles and decimals meet.
pub(crate) fn unified_rows(plan: LogicalPlan) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Union(union) => unified_union(union),
        LogicalPlan::Values(values) => unified_values(values),
        LogicalPlan::Join(join) => settled_set(join),
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
    let mixed: Vec<Option<DataType>> = (0..width)
        .map(|column| {
            let types: Vec<DataType> = union
                .inputs
                .iter()
                .map(|input| input.schema().field(column).data_type().clone())
                .collect();
            common(&types).or_else(|| text_beside_others(&types))
        })
        .collect();
    if mixed.iter().all(Option::is_none) {
        return Ok(LogicalPlan::Union(union));
    }
    let inputs = union
        .inputs
        .iter()
        .map(|input| Ok(Arc::new(converted_columns(input, &mixed)?)))
        .collect::<Result<Vec<_>>>()?;
    Ok(LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?))
}

/// The rows of VALUES whose columns say what the lists, structs and maps in them say of their values.
pub(crate) fn refined_values(values: Values) -> Result<LogicalPlan> {
    let none = DFSchema::empty();
    let mut fields: Vec<_> = values.schema.fields().iter().cloned().collect();
    for (column, field) in fields.iter_mut().enumerate() {
        if field.data_type().is_nested()
            && let Some(said) = refinement(
                values
                    .values
                    .iter()
                    .map(|row| under_cast(&row[column]))
                    .filter(|cell| !matches!(cell, Expr::Literal(value, _) if value.is_null())),
                &none,
            )?
            && let Some(said) = refined::refined(field, &full(&said))
        {
            *field = said;
        }
    }
    let schema =
        DFSchema::from_unqualified_fields(fields.into(), values.schema.metadata().clone())?;
    Ok(LogicalPlan::Values(Values {
        schema: Arc::new(schema),
        values: values.values,
    }))
}

/// A union whose columns say what those of its inputs say of the values in lists, structs and maps, and no length or number of digits that
/// not all inputs have.
pub(crate) fn refined_union(union: Union) -> Result<LogicalPlan> {
    let mut fields = Vec::with_capacity(union.schema.fields().len());
    let mut unlimited = Vec::with_capacity(union.schema.fields().len());
    let mut changed = false;
    for (column, (qualifier, own)) in union.schema.iter().enumerate() {
        let inputs = union.inputs.iter();
        let given: Vec<Field> = inputs
            .filter(|input| !yields_null(input, column))
            .filter_map(|input| input.schema().fields().get(column))
            .map(|field| full(field))
            .collect();
        let nested = own.data_type().is_nested();
        let free = !nested && limits_differ(&given);
        let said = match (nested, free) {
            (true, _) => refined::merged(&given).and_then(|said| refined::refined(own, &said)),
            (false, true) => Some(refined::unlimited(own)),
            (false, false) => None,
        };
        unlimited.push(free);
        changed |= said.is_some();
        fields.push((qualifier.cloned(), said.unwrap_or_else(|| Arc::clone(own))));
    }
    if !changed {
        return Ok(LogicalPlan::Union(union));
    }
    let metadata = union.schema.metadata().clone();
    let inputs = match unlimited.contains(&true) {
        true => union
            .inputs
            .iter()
            .map(|input| refined::without_limits(input, &unlimited))
            .collect::<Result<Vec<_>>>()?,
        false => union.inputs,
    };
    Ok(LogicalPlan::Union(Union {
        schema: Arc::new(DFSchema::new_with_metadata(fields, metadata)?),
        inputs,
    }))
}

/// Whether some inputs have a length or a number of digits that others have not.
fn limits_differ(given: &[Field]) -> bool {
    let limits: Vec<Refinement> = given.iter().map(Refinement::of).collect();
    limits.iter().any(refined::is_limit) && limits.iter().any(|limit| *limit != limits[0])
}

/// Whether a column is NULL in every row, cast to some type.
fn yields_null(plan: &LogicalPlan, column: usize) -> bool {
    let LogicalPlan::Projection(projection) = plan else {
        return false;
    };
    let Some(value) = projection.expr.get(column) else {
        return false;
    };
    match under_cast(value) {
        Expr::Literal(value, _) => value.is_null(),
        Expr::Column(own) => match projection.input.schema().maybe_index_of_column(own) {
            Some(place) => yields_null(&projection.input, place),
            None => false,
        },
        _ => false,
    }
}

/// A cell without the planner's cast to the column's type, which says nothing of what is within.
fn under_cast(cell: &Expr) -> &Expr {
    match cell {
        Expr::Cast(cast) => under_cast(&cast.expr),
        Expr::Alias(alias) => under_cast(&alias.expr),
        Expr::ScalarFunction(call) if call.name() == CAST => match call.args.as_slice() {
            [value] => under_cast(value),
            _ => cell,
        },
        other => other,
    }
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
        if !field.data_type().is_decimal()
            && !matches!(field.data_type(), DataType::Timestamp(_, _))
        {
            continue;
        }
        let types = rows
            .iter()
            .map(|row| bare(&row[column]).get_type(&none))
            .collect::<Result<Vec<_>>>()?;
        let Some(common) = common(&types) else {
            continue;
        };
        for (row, from) in rows.iter_mut().zip(&types) {
            row[column] = converted(bare(&row[column]), from, &common)?;
        }
        *field = Arc::new(field.as_ref().clone().with_data_type(common));
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

/// The type in which values meet, where DataFusion's coercion would lose some: doubles for numbers with decimals, microseconds
/// for dates and timestamps, which it would count in nanoseconds, of which a date three centuries off has too many.
fn common(types: &[DataType]) -> Option<DataType> {
    if types.iter().any(DataType::is_floating) && types.iter().any(DataType::is_decimal) {
        return Some(DataType::Float64);
    }
    let mut stamp = None;
    let mut dates = false;
    for data_type in types {
        match data_type {
            DataType::Null => {}
            DataType::Date32 => dates = true,
            DataType::Timestamp(TimeUnit::Microsecond, _)
                if stamp.as_ref().is_none_or(|known| known == data_type) =>
            {
                stamp = Some(data_type.clone());
            }
            _ => return None,
        }
    }
    stamp.filter(|_| dates)
}

/// The type of the strings among values that meet in no other, like intervals or truth values.
fn text_beside_others(types: &[DataType]) -> Option<DataType> {
    let text = types.iter().find(|one| one.is_string())?;
    if types.iter().any(DataType::is_nested) {
        return None;
    }
    let mut types = types.iter();
    let met = types.try_fold(DataType::Null, |met, one| type_union_coercion(&met, one));
    met.is_none().then(|| text.clone())
}

fn converted(value: Expr, from: &DataType, to: &DataType) -> Result<Expr> {
    if from == to {
        return Ok(value);
    }
    let source = Field::new("", from.clone(), true);
    let target = Arc::new(Field::new("", to.clone(), true));
    Ok(Cast::call(value, &source, &target, Rule::Explicit)?)
}
