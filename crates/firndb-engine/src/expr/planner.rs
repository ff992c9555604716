//! Operators of SQL text, typed before DataFusion coerces or folds them.

use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, Operator};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use super::arithmetic::ArithmeticOperator;
use super::operators::{arithmetic, comparison};

/// Plans + - * / // % ^ and comparisons.
#[derive(Debug)]
pub(crate) struct CheckedOperators;

impl ExprPlanner for CheckedOperators {
    fn plan_binary_op(
        &self,
        raw: RawBinaryExpr,
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
            _ => None,
        };
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

    /// `substring(x FROM y FOR z)` is ours like `substring(x, y, z)`.
    fn plan_substring(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(PlannerResult::Planned(super::functions::substring(args)))
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

/// `^` is a power, as in PostgreSQL and DuckDB, of doubles.
fn exponentiation(raw: &RawBinaryExpr, schema: &DFSchema) -> Result<Option<Expr>> {
    use arrow::datatypes::DataType;
    if !matches!(raw.op, BinaryOperator::PGExp | BinaryOperator::BitwiseXor) {
        return Ok(None);
    }
    let double = |expr: &Expr| expr.clone().cast_to(&DataType::Float64, schema);
    Ok(Some(
        datafusion::functions::math::power().call(vec![double(&raw.left)?, double(&raw.right)?]),
    ))
}
