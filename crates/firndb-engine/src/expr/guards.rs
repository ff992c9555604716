//! Conditions guard what stands behind them: `x <> 0 AND 10 / x > 1` divides by no zero.
//!
//! DataFusion evaluates both sides of AND and OR, and both branches of a boolean CASE, for all rows of a batch, and
//! moves conjuncts about. So an operation that can fail takes its operand through [`KeepWhere`]: NULL where the
//! condition before it has decided already, and a NULL operand never fails. The condition is repeated and no
//! expression moves, so every rule of the optimizer still applies; common subexpressions are computed once.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, BooleanArray};
use arrow::compute::nullif;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue, TableReference, exec_err};
use datafusion::logical_expr::expr::{BinaryExpr, ScalarFunction};
use datafusion::logical_expr::utils::{conjunction, disjunction, split_conjunction};
use datafusion::logical_expr::{
    Case, ColumnarValue, Expr, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility, and,
};

use super::arithmetic::Arithmetic;
use super::cast::Cast;

/// The operations that can fail behind a condition, guarded by it.
pub(super) fn guarded(expr: Expr) -> Result<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if matches!(op, Operator::And | Operator::Or) && can_fail(&right)? =>
        {
            let right = match guard_before(&left, op, &right)? {
                Some(guard) => with_guard(*right, &guard)?,
                None => *right,
            };
            Ok(Transformed::yes(Expr::BinaryExpr(BinaryExpr::new(
                left,
                op,
                Box::new(right),
            ))))
        }
        Expr::Case(case) if case.expr.is_none() => branches(case),
        other => Ok(Transformed::no(other)),
    }
}

/// The guards of a filter, for which NULL decides as FALSE does: a row passes only where each conjunct is true.
pub(super) fn of_filter(predicate: Expr) -> Result<Expr> {
    let mut rest = predicate;
    let mut conjuncts = Vec::new();
    while let Expr::BinaryExpr(BinaryExpr {
        left,
        op: Operator::And,
        right,
    }) = rest
    {
        let right = if can_fail(&right)? {
            match guard_before(&left, Operator::And, &right)? {
                Some(Expr::IsNotFalse(guard)) => strictly(*right, &guard)?,
                _ => *right,
            }
        } else {
            *right
        };
        conjuncts.push(right);
        rest = *left;
    }
    Ok(conjuncts.into_iter().rev().fold(rest, and))
}

/// The predicate of two filters, the outer one guarded by the inner one.
pub(crate) fn behind(inner: Expr, outer: Expr) -> Result<Expr> {
    of_filter(guarded(and(inner, outer))?.data)
}

/// The same expression with `guard IS NOT FALSE` in its guards as `guard`.
fn strictly(expr: Expr, guard: &Expr) -> Result<Expr> {
    let strict = expr.transform_down(|expr| match expr {
        Expr::ScalarFunction(mut function)
            if function.name() == "keep_where"
                && matches!(&function.args[1], Expr::IsNotFalse(own) if own.as_ref() == guard) =>
        {
            function.args[1] = guard.clone();
            Ok(Transformed::yes(Expr::ScalarFunction(function)))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(strict.data)
}

/// What must hold for the right side to matter. Of a conjunction only those parts count that look at the tables of the
/// right side alone, so that it can still be moved to their scan.
fn guard_before(left: &Expr, operator: Operator, right: &Expr) -> Result<Option<Expr>> {
    if operator == Operator::Or {
        return Ok(plain(left)?.then(|| Expr::IsNotTrue(Box::new(left.clone()))));
    }
    let tables = tables(right);
    let mut parts = Vec::new();
    for part in split_conjunction(left) {
        let own = self::tables(part);
        if !own.is_empty() && own.is_subset(&tables) && plain(part)? {
            parts.push(part.clone());
        }
    }
    Ok(conjunction(parts).map(|all| Expr::IsNotFalse(Box::new(all))))
}

fn branches(case: Case) -> Result<Transformed<Expr>> {
    let mut changed = false;
    let mut before: Vec<Expr> = Vec::new();
    let mut guard = |branch: Expr, condition: Option<Expr>| -> Result<Expr> {
        match condition {
            Some(condition) if can_fail(&branch)? && plain(&condition)? => {
                changed = true;
                with_guard(branch, &condition)
            }
            _ => Ok(branch),
        }
    };
    let mut when_then = Vec::with_capacity(case.when_then_expr.len());
    for (when, then) in case.when_then_expr {
        let missed = disjunction(before.clone()).map(|any| Expr::IsNotTrue(Box::new(any)));
        let when = guard(*when, missed)?;
        let then = guard(*then, Some(when.clone()))?;
        before.push(when.clone());
        when_then.push((Box::new(when), Box::new(then)));
    }
    let otherwise = match case.else_expr {
        Some(otherwise) => {
            let missed = disjunction(before).map(|any| Expr::IsNotTrue(Box::new(any)));
            Some(Box::new(guard(*otherwise, missed)?))
        }
        None => None,
    };
    let case = Expr::Case(Case::new(None, when_then, otherwise));
    Ok(if changed {
        Transformed::yes(case)
    } else {
        Transformed::no(case)
    })
}

/// Whether a condition may be computed again: it neither changes from call to call nor holds a subquery.
fn plain(condition: &Expr) -> Result<bool> {
    if condition.is_volatile() {
        return Ok(false);
    }
    condition
        .exists(|expr| {
            Ok(matches!(
                expr,
                Expr::ScalarSubquery(_)
                    | Expr::InSubquery(_)
                    | Expr::Exists(_)
                    | Expr::SetComparison(_)
            ))
        })
        .map(|subquery| !subquery)
}

fn tables(expr: &Expr) -> HashSet<Option<TableReference>> {
    expr.column_refs()
        .into_iter()
        .map(|column| column.relation.clone())
        .collect()
}

fn can_fail(expr: &Expr) -> Result<bool> {
    expr.exists(|expr| Ok(failing_operand(expr).is_some()))
}

/// Functions that fail for some values of their last argument, or of their only one, and yield NULL for NULL.
const FAILING: [&str; 12] = [
    "acos",
    "acosh",
    "asin",
    "atanh",
    "chr",
    "factorial",
    "gamma",
    "ln",
    "log",
    "log10",
    "log2",
    "sqrt",
];

/// The position of the operand that makes a division, a cast or a function fail.
fn failing_operand(expr: &Expr) -> Option<usize> {
    let Expr::ScalarFunction(function) = expr else {
        return None;
    };
    let inner: &dyn std::any::Any = function.func.inner().as_ref();
    let position = match inner.downcast_ref::<Arithmetic>() {
        Some(operation) if operation.divides() => 1,
        None if inner.is::<Cast>() => 0,
        None if FAILING.contains(&function.name()) => function.args.len().checked_sub(1)?,
        _ => return None,
    };
    let operand = function.args.get(position)?;
    (!matches!(operand, Expr::Literal(_, _))).then_some(position)
}

fn with_guard(expr: Expr, guard: &Expr) -> Result<Expr> {
    let guarded = expr.transform_down(|expr| {
        if matches!(&expr, Expr::ScalarFunction(function) if function.name() == "keep_where") {
            return Ok(Transformed::new(expr, false, TreeNodeRecursion::Jump));
        }
        let Some(position) = failing_operand(&expr) else {
            return Ok(Transformed::no(expr));
        };
        let Expr::ScalarFunction(ScalarFunction { func, mut args }) = expr else {
            return Ok(Transformed::no(expr));
        };
        args[position] = KeepWhere::call(args[position].clone(), guard.clone());
        Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction {
            func,
            args,
        })))
    })?;
    Ok(guarded.data)
}

/// A value where a condition is true, NULL elsewhere.
#[derive(Debug, PartialEq, Eq, Hash)]
struct KeepWhere {
    signature: Signature,
}

impl KeepWhere {
    fn call(value: Expr, condition: Expr) -> Expr {
        let function = KeepWhere {
            signature: Signature::any(2, Volatility::Immutable),
        };
        ScalarUDF::new_from_impl(function).call(vec![value, condition])
    }
}

impl ScalarUDFImpl for KeepWhere {
    fn name(&self) -> &str {
        "keep_where"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// A guard does not show in a column's name.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        match args {
            [value, _] => Ok(value.schema_name().to_string()),
            _ => exec_err!("keep_where takes a value and a condition"),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [value, _] => Ok(value.clone()),
            _ => exec_err!("keep_where takes a value and a condition"),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        match args.arg_fields {
            [value, _] => Ok(Arc::new(value.as_ref().clone().with_nullable(true))),
            _ => exec_err!("keep_where takes a value and a condition"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value, condition] = args.args.as_slice() else {
            return exec_err!("keep_where takes a value and a condition");
        };
        let condition = match condition {
            ColumnarValue::Scalar(ScalarValue::Boolean(Some(true))) => return Ok(value.clone()),
            ColumnarValue::Scalar(_) => {
                return ScalarValue::try_new_null(&value.data_type()).map(ColumnarValue::Scalar);
            }
            ColumnarValue::Array(condition) => {
                arrow::array::AsArray::as_boolean(condition.as_ref()).clone()
            }
        };
        let kept = match condition.nulls() {
            Some(nulls) => condition.values() & nulls.inner(),
            None => condition.values().clone(),
        };
        if kept.count_set_bits() == kept.len() {
            return Ok(value.clone());
        }
        let dropped = BooleanArray::new(!&kept, None);
        let value = value.to_array(args.number_rows)?;
        Ok(ColumnarValue::Array(nullif(&value, &dropped)?))
    }
}
