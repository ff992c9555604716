//! Bounds of window frames that are computed: `ROWS BETWEEN (n) PRECEDING AND 1 + 1 FOLLOWING`. The planner takes constants alone.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, UnaryOperator, Value, WindowFrameBound, WindowType,
};

use crate::error::{Error, Result, SqlState};

/// Computes the bounds of a call's frame.
pub(super) fn compute(function: &mut Function) -> Result<()> {
    let Some(WindowType::WindowSpec(spec)) = &mut function.over else {
        return Ok(());
    };
    let Some(frame) = &mut spec.window_frame else {
        return Ok(());
    };
    let bounds = std::iter::once(&mut frame.start_bound).chain(&mut frame.end_bound);
    for bound in bounds {
        let (WindowFrameBound::Preceding(Some(offset)) | WindowFrameBound::Following(Some(offset))) =
            bound
        else {
            continue;
        };
        while let Expr::Nested(inner) = offset.as_mut() {
            *offset = std::mem::replace(inner, Box::new(Expr::value(Value::Null)));
        }
        if matches!(
            offset.as_ref(),
            Expr::BinaryOp { .. } | Expr::UnaryOp { .. }
        ) && let Some(rows) = whole(offset)
        {
            if rows < 0 {
                return Err(Error::new(
                    SqlState::InvalidPrecedingOrFollowingSize,
                    "the offset of a window frame must not be negative",
                ));
            }
            **offset = Expr::value(Value::Number(rows.to_string(), false));
        }
    }
    Ok(())
}

/// The value of a constant expression of integers.
fn whole(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Nested(inner) => whole(inner),
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => digits.parse().ok(),
            _ => None,
        },
        Expr::UnaryOp { op, expr } => match op {
            UnaryOperator::Minus => whole(expr)?.checked_neg(),
            UnaryOperator::Plus => whole(expr),
            _ => None,
        },
        Expr::BinaryOp { left, op, right } => {
            let (left, right) = (whole(left)?, whole(right)?);
            match op {
                BinaryOperator::Plus => left.checked_add(right),
                BinaryOperator::Minus => left.checked_sub(right),
                BinaryOperator::Multiply => left.checked_mul(right),
                _ => None,
            }
        }
        _ => None,
    }
}
