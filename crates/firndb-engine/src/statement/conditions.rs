//! Numbers as conditions: `WHERE n`, `NOT 1`, `CASE WHEN count(*) THEN …` mean `n <> 0`, as in DuckDB and SQLite.
//!
//! Only the planner knows types, so in what it is given, whatever is not plainly boolean becomes the operand of
//! [`TRUTH`], which is taken away again while operators are planned: a boolean stays as it is, a number is compared with
//! zero, all else is an error that names the clause.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, JoinConstraint, JoinOperator, Select, TableWithJoins, UnaryOperator,
    Value,
};

use crate::expr::TRUTH;

/// Conditions within an expression.
pub(super) fn of_expression(expr: &mut Expr) {
    match expr {
        Expr::UnaryOp {
            op: UnaryOperator::Not,
            expr,
        } => condition(expr, "NOT"),
        Expr::IsTrue(expr) | Expr::IsNotTrue(expr) => condition(expr, "IS TRUE"),
        Expr::IsFalse(expr) | Expr::IsNotFalse(expr) => condition(expr, "IS FALSE"),
        Expr::Case {
            operand: None,
            conditions,
            ..
        } => {
            for when in conditions {
                condition(&mut when.condition, "CASE/WHEN");
            }
        }
        Expr::Function(function) => {
            if let Some(filter) = &mut function.filter {
                condition(filter, "FILTER");
            }
        }
        _ => {}
    }
}

/// The conditions of a SELECT's clauses.
pub(super) fn of_select(select: &mut Select) {
    for (clause, name) in [
        (&mut select.selection, "WHERE"),
        (&mut select.having, "HAVING"),
        (&mut select.qualify, "QUALIFY"),
    ] {
        if let Some(clause) = clause {
            condition(clause, name);
        }
    }
    of_joins(&mut select.from);
}

/// The conditions of joins.
pub(super) fn of_joins<'a>(from: impl IntoIterator<Item = &'a mut TableWithJoins>) {
    for table in from {
        for join in &mut table.joins {
            if let Some(JoinConstraint::On(on)) = constraint(&mut join.join_operator) {
                condition(on, "JOIN/ON");
            }
        }
    }
}

fn constraint(operator: &mut JoinOperator) -> Option<&mut JoinConstraint> {
    use JoinOperator::{
        Anti, FullOuter, Inner, Join, Left, LeftAnti, LeftOuter, LeftSemi, Right, RightAnti,
        RightOuter, RightSemi, Semi,
    };
    Some(match operator {
        Join(on) | Inner(on) | Left(on) | LeftOuter(on) | Right(on) | RightOuter(on)
        | FullOuter(on) | Semi(on) | LeftSemi(on) | RightSemi(on) | Anti(on) | LeftAnti(on)
        | RightAnti(on) => on,
        _ => return None,
    })
}

fn condition(expr: &mut Expr, clause: &str) {
    if is_boolean(expr) {
        return;
    }
    let taken = std::mem::replace(expr, Expr::value(Value::Null));
    *expr = Expr::BinaryOp {
        left: Box::new(taken),
        op: BinaryOperator::Custom(TRUTH.to_owned()),
        right: Box::new(Expr::value(Value::SingleQuotedString(clause.to_owned()))),
    };
}

/// Whether an expression is a condition whatever its operands are, or one that the planner types by its place.
fn is_boolean(expr: &Expr) -> bool {
    use BinaryOperator as Op;
    match expr {
        Expr::Nested(inner) => is_boolean(inner),
        Expr::BinaryOp { op, .. } => {
            matches!(
                op,
                Op::And | Op::Or | Op::Eq | Op::NotEq | Op::Lt | Op::LtEq | Op::Gt | Op::GtEq
            ) || matches!(op, Op::Custom(name) if name == TRUTH)
        }
        Expr::UnaryOp { op, .. } => *op == UnaryOperator::Not,
        Expr::Value(value) => matches!(
            value.value,
            Value::Boolean(_) | Value::Null | Value::Placeholder(_)
        ),
        Expr::IsNull(_)
        | Expr::IsNotNull(_)
        | Expr::IsTrue(_)
        | Expr::IsNotTrue(_)
        | Expr::IsFalse(_)
        | Expr::IsNotFalse(_)
        | Expr::IsUnknown(_)
        | Expr::IsNotUnknown(_)
        | Expr::IsDistinctFrom(_, _)
        | Expr::IsNotDistinctFrom(_, _)
        | Expr::InList { .. }
        | Expr::InSubquery { .. }
        | Expr::InUnnest { .. }
        | Expr::Between { .. }
        | Expr::Like { .. }
        | Expr::ILike { .. }
        | Expr::SimilarTo { .. }
        | Expr::RLike { .. }
        | Expr::AnyOp { .. }
        | Expr::AllOp { .. }
        | Expr::Exists { .. } => true,
        _ => false,
    }
}
