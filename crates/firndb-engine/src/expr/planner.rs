//! Operators of SQL text, typed before DataFusion coerces or folds them.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::planner::{
    ExprPlanner, PlannerResult, RawBinaryExpr, RawFieldAccessExpr,
};
use datafusion::logical_expr::{
    Expr, ExprSchemable, GetFieldAccess, Operator, binary_expr, cast, lit, when,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use super::arithmetic::ArithmeticOperator;
use super::branches::settled;
use super::cast::Cast;
use super::convert::{Rule, message_name};
use super::functions::searches::{contains_all, value_of};
use super::marks::{APART, DECIDED, NAMED, TRUTH};
use super::operators::{arithmetic, comparison};
use super::told_apart::{told_apart, told_apart_as};
use super::untyped;
use crate::types::has_floats;
use crate::{Error, SqlState};

/// Plans + - * / // % ^, comparisons, and conditions.
#[derive(Debug)]
pub(crate) struct CheckedOperators;

impl ExprPlanner for CheckedOperators {
    fn plan_binary_op(
        &self,
        mut raw: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let arithmetic_operator = match &raw.op {
            BinaryOperator::Plus => Some(ArithmeticOperator::Plus),
            BinaryOperator::Minus => Some(ArithmeticOperator::Minus),
            BinaryOperator::Multiply => Some(ArithmeticOperator::Multiply),
            BinaryOperator::Divide => Some(ArithmeticOperator::Divide),
            BinaryOperator::Modulo => Some(ArithmeticOperator::Modulo),
            BinaryOperator::DuckIntegerDivide | BinaryOperator::MyIntegerDivide => {
                Some(ArithmeticOperator::IntegerDivide)
            }
            BinaryOperator::StringConcat => return concatenation(raw, schema),
            BinaryOperator::AtArrow | BinaryOperator::ArrowAt
                if raw.left.get_type(schema)?.is_list()
                    && raw.right.get_type(schema)?.is_list() =>
            {
                let (list, members) = match raw.op {
                    BinaryOperator::AtArrow => (raw.left, raw.right),
                    _ => (raw.right, raw.left),
                };
                return Ok(PlannerResult::Planned(contains_all(list, members)));
            }
            BinaryOperator::And => return logical(raw, Operator::And, schema),
            BinaryOperator::Or => return logical(raw, Operator::Or, schema),
            BinaryOperator::Custom(name)
                if [APART, DECIDED, NAMED, TRUTH].contains(&name.as_str()) =>
            {
                let Expr::Literal(ScalarValue::Utf8(Some(text)), _) = &raw.right else {
                    return Ok(PlannerResult::Original(raw));
                };
                if name == DECIDED {
                    return Ok(PlannerResult::Planned(settled(&raw.left, schema)?));
                }
                if name == APART {
                    return Ok(PlannerResult::Planned(told_apart_as(raw.left, text)));
                }
                if name == NAMED && text.is_empty() {
                    return Ok(PlannerResult::Planned(told_apart(raw.left)));
                }
                if name == NAMED {
                    return Ok(PlannerResult::Planned(raw.left.alias(text)));
                }
                let condition = truth(raw.left, text, schema)?;
                return Ok(PlannerResult::Planned(condition));
            }
            _ => None,
        };
        if arithmetic_operator.is_some() {
            raw.left = settled(&raw.left, schema)?;
            raw.right = settled(&raw.right, schema)?;
        }
        let planned = match arithmetic_operator {
            Some(operator) => arithmetic(operator, &raw.left, &raw.right, schema)?,
            None => match comparison_operator(&raw.op) {
                Some(operator) => comparison(&raw.left, operator, &raw.right, schema)?,
                None => exponentiation(&raw, schema)?,
            },
        };
        Ok(match planned {
            Some(expr) => PlannerResult::Planned(expr),
            None => PlannerResult::Original(raw),
        })
    }

    /// A list's string constants are of the type of its other members.
    fn plan_array_literal(
        &self,
        members: Vec<Expr>,
        schema: &DFSchema,
    ) -> Result<PlannerResult<Vec<Expr>>> {
        let typed = untyped::meeting(&members.iter().collect::<Vec<_>>(), schema)?;
        Ok(PlannerResult::Original(typed.unwrap_or(members)))
    }

    /// `'abc'[2]` and `'abc'[1:2]` count characters from 1, from the end where negative.
    fn plan_field_access(
        &self,
        raw: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        if matches!(raw.field_access, GetFieldAccess::NamedStructField { .. }) {
            return Ok(PlannerResult::Original(raw));
        }
        let given = raw.expr.get_type(schema)?;
        if let GetFieldAccess::ListIndex { key } = &raw.field_access
            && let Some(place) = literal_place(key)
        {
            // No list is as long: the place is empty, and no error.
            if given.is_list() && i32::try_from(place).is_err() {
                let field_access = GetFieldAccess::ListIndex {
                    key: Box::new(lit(ScalarValue::Int64(None))),
                };
                return Ok(PlannerResult::Original(RawFieldAccessExpr {
                    field_access,
                    ..raw
                }));
            }
            // A row's member by its number.
            if let DataType::Struct(fields) = &given {
                let member = usize::try_from(place)
                    .ok()
                    .and_then(|place| fields.get(place.checked_sub(1)?));
                let Some(member) = member else {
                    return Err(Error::new(
                        SqlState::UndefinedColumn,
                        format!("a struct of {} members has no member {place}", fields.len()),
                    )
                    .into());
                };
                let member = datafusion::functions::core::get_field()
                    .call(vec![raw.expr, lit(member.name().as_str())]);
                return Ok(PlannerResult::Planned(member));
            }
        }
        // DataFusion looks a key up by its bits, and a constant alone.
        if let DataType::Map(entries, _) = &given
            && let DataType::Struct(members) = entries.data_type()
            && let Some(kept) = members.first()
            && let GetFieldAccess::ListIndex { key } = &raw.field_access
            && (has_floats(kept.data_type()) || !matches!(**key, Expr::Literal(_, _)))
        {
            let key = key.as_ref().clone().cast_to(kept.data_type(), schema)?;
            return Ok(PlannerResult::Planned(value_of(raw.expr, key)));
        }
        if !given.is_string() {
            return Ok(PlannerResult::Original(raw));
        }
        let part = match raw.field_access {
            GetFieldAccess::ListIndex { key } => vec![raw.expr, *key, lit(1_i64)],
            GetFieldAccess::ListRange { start, stop, .. } => {
                let first = from_start(&raw.expr, *start)?;
                let first = when(first.clone().lt(lit(1_i64)), lit(1_i64)).otherwise(first)?;
                let last = from_start(&raw.expr, *stop)?;
                let length = last - first.clone() + lit(1_i64);
                let length = when(length.clone().lt(lit(0_i64)), lit(0_i64)).otherwise(length)?;
                vec![raw.expr, first, length]
            }
            GetFieldAccess::NamedStructField { .. } => return Ok(PlannerResult::Original(raw)),
        };
        Ok(PlannerResult::Planned(super::functions::substring(part)))
    }

    /// `substring(x FROM y FOR z)` is ours like `substring(x, y, z)`.
    fn plan_substring(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(PlannerResult::Planned(super::functions::substring(args)))
    }
}

/// A place that is a constant.
fn literal_place(key: &Expr) -> Option<i128> {
    match key {
        Expr::Literal(ScalarValue::Int64(Some(place)), _) => Some(i128::from(*place)),
        Expr::Literal(ScalarValue::UInt64(Some(place)), _) => Some(i128::from(*place)),
        Expr::Negative(inner) => literal_place(inner).map(|place| -place),
        _ => None,
    }
}

fn comparison_operator(operator: &BinaryOperator) -> Option<Operator> {
    Some(match operator {
        BinaryOperator::Eq => Operator::Eq,
        BinaryOperator::NotEq => Operator::NotEq,
        BinaryOperator::Lt => Operator::Lt,
        BinaryOperator::LtEq => Operator::LtEq,
        BinaryOperator::Gt => Operator::Gt,
        BinaryOperator::GtEq => Operator::GtEq,
        _ => return None,
    })
}

/// A place in a text counted from its start.
fn from_start(text: &Expr, place: Expr) -> Result<Expr> {
    let length = datafusion::functions::unicode::character_length().call(vec![text.clone()]);
    let length = cast(length, DataType::Int64);
    when(
        place.clone().lt(lit(0_i64)),
        length + place.clone() + lit(1_i64),
    )
    .otherwise(place)
}

/// `^` is a power, as in PostgreSQL and DuckDB, of doubles.
fn exponentiation(raw: &RawBinaryExpr, schema: &DFSchema) -> Result<Option<Expr>> {
    if !matches!(raw.op, BinaryOperator::PGExp | BinaryOperator::BitwiseXor) {
        return Ok(None);
    }
    let double = |expr: &Expr| expr.clone().cast_to(&DataType::Float64, schema);
    Ok(Some(
        datafusion::functions::math::power().call(vec![double(&raw.left)?, double(&raw.right)?]),
    ))
}

const UUID: DataType = DataType::FixedSizeBinary(16);

/// `||` of what is neither bytes nor a list joins texts, those that a cast to VARCHAR yields.
fn concatenation(
    mut raw: RawBinaryExpr,
    schema: &DFSchema,
) -> Result<PlannerResult<RawBinaryExpr>> {
    let placeholder = |expr: &Expr| matches!(expr, Expr::Placeholder(_));
    let text = |expr: Expr| -> Result<Expr> {
        let (_, field) = expr.to_field(schema)?;
        let to = Arc::new(Field::new("", DataType::Utf8View, true));
        Ok(Cast::call(expr, &field, &to, Rule::Explicit)?)
    };
    let (left, right) = (raw.left.get_type(schema)?, raw.right.get_type(schema)?);
    let bytes = |data_type: &DataType| data_type.is_binary() && *data_type != UUID;
    if left.is_list()
        || right.is_list()
        || bytes(&left) && (bytes(&right) || right.is_null())
        || left.is_null() && bytes(&right)
    {
        return Ok(PlannerResult::Original(raw));
    }
    for (side, data_type) in [(&mut raw.left, left), (&mut raw.right, right)] {
        if !placeholder(side) && !data_type.is_string() {
            *side = text(std::mem::take(side))?;
        }
    }
    Ok(PlannerResult::Original(raw))
}

/// AND and OR of conditions.
fn logical(
    raw: RawBinaryExpr,
    operator: Operator,
    schema: &DFSchema,
) -> Result<PlannerResult<RawBinaryExpr>> {
    let clause = match operator {
        Operator::And => "AND",
        _ => "OR",
    };
    Ok(PlannerResult::Planned(binary_expr(
        truth(raw.left, clause, schema)?,
        operator,
        truth(raw.right, clause, schema)?,
    )))
}

/// What an operand means as a condition: a number means that it is not zero.
fn truth(operand: Expr, clause: &str, schema: &DFSchema) -> Result<Expr> {
    // A chain of ANDs is typed once, not once for each.
    let plain = match &operand {
        Expr::BinaryExpr(binary) => {
            binary.op.is_logic_operator() || binary.op.supports_propagation()
        }
        Expr::Placeholder(_) | Expr::Not(_) | Expr::IsNull(_) | Expr::IsNotNull(_) => true,
        _ => false,
    };
    if plain {
        return Ok(operand);
    }
    let (_, field) = operand.to_field(schema)?;
    match field.data_type() {
        DataType::Boolean | DataType::Null => Ok(operand),
        number if number.is_numeric() => {
            let zero = lit(0_i64);
            Ok(
                match comparison(&operand, Operator::NotEq, &zero, schema)? {
                    Some(condition) => condition,
                    None => binary_expr(operand, Operator::NotEq, zero),
                },
            )
        }
        // Text without a type of its own is read as one.
        text if text.is_string() && matches!(operand, Expr::Literal(_, _)) => {
            operand.cast_to(&DataType::Boolean, schema)
        }
        _ => Err(Error::new(
            SqlState::DatatypeMismatch,
            format!(
                "argument of {clause} must be type boolean, not type {}",
                message_name(&field)
            ),
        )
        .into()),
    }
}
