//! UPDATE and DELETE of the row with a key, without a plan.
//!
//! When the condition is `column = constant` for each column of a unique constraint and nothing else, the row is found through
//! the constraint's index, and expressions are evaluated over it alone. Whatever is less plain than that (a comparison that
//! converts, a subquery, another relation) goes the general way, which gives the same result and the errors.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Schema};
use datafusion::common::ScalarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::sql::sqlparser::ast;
use firndb_storage::Slot;

use super::Target;
use super::assignment::Assignments;
use super::conflict::write_changes;
use super::values::constant;
use crate::Result;
use crate::types::Refinement;

/// The key of one row.
pub(super) struct Point {
    index: String,
    columns: Vec<usize>,
    key: Vec<ArrayRef>,
}

impl Point {
    /// The key that a condition fixes, if that is all it does.
    pub(super) fn of(target: &Target, condition: Option<&ast::Expr>) -> Option<Point> {
        let mut fixed = Vec::new();
        collect(target, condition?, &mut fixed)?;
        target.entry().unique_keys().find_map(|unique| {
            let columns = unique.columns?;
            if columns.len() != fixed.len() {
                return None;
            }
            let key = columns.iter().map(|column| {
                let of_column = fixed.iter().find(|(other, _)| other == column);
                of_column.map(|(_, value)| Arc::clone(value))
            });
            Some(Point {
                index: unique.name.to_owned(),
                key: key.collect::<Option<Vec<_>>>()?,
                columns,
            })
        })
    }

    /// The row's slot; none if no row has the key.
    pub(super) fn find(&self, target: &Target) -> Result<Vec<Slot>> {
        let fields: Vec<_> = self
            .columns
            .iter()
            .map(|&column| target.schema().field(column).clone())
            .collect();
        let schema = Arc::new(Schema::new(fields));
        let keys = arrow::array::RecordBatch::try_new(schema, self.key.clone())?;
        let snapshot = &target.context().snapshot;
        let found = target.table().lookup(snapshot, &self.index, &keys)?;
        Ok(found.into_iter().flatten().collect())
    }
}

/// A SET clause over one row.
pub(super) struct PointUpdate<'s> {
    assignments: &'s Assignments,
    values: Vec<Value>,
}

enum Value {
    Constant(ArrayRef),
    Expression(Arc<dyn PhysicalExpr>),
}

impl<'s> PointUpdate<'s> {
    /// Compiles a SET clause; `None` if it takes a plan.
    pub(super) fn compile(target: &Target, assignments: &'s Assignments) -> Option<Self> {
        let values = assignments.expressions().iter().map(|expression| {
            if let Some(value) = constant(expression) {
                return value.to_array().ok().map(Value::Constant);
            }
            if has_subquery(expression) {
                return None;
            }
            let context = target.context();
            let compiled = context.row_expression(target.entry(), expression);
            compiled.ok().map(Value::Expression)
        });
        Some(PointUpdate {
            values: values.collect::<Option<_>>()?,
            assignments,
        })
    }

    /// Updates the rows at `slots`, of which there is at most one, and returns the new row.
    pub(super) fn apply(&self, target: &Target, slots: &[Slot]) -> Result<Vec<ArrayRef>> {
        let stored = target.read(slots)?;
        let results = self
            .values
            .iter()
            .map(|value| match value {
                Value::Constant(value) => Ok(Arc::clone(value)),
                Value::Expression(expression) => Ok(expression.evaluate(&stored)?.into_array(1)?),
            })
            .collect::<Result<Vec<_>>>()?;
        let values = self.assignments.values(target, &results)?;
        let mut rows = stored.columns().to_vec();
        write_changes(target, slots, self.assignments.columns(), values, &mut rows)?;
        Ok(rows)
    }
}

/// Adds the columns that a conjunction of equalities fixes; `None` if there is anything else in it.
fn collect(
    target: &Target,
    condition: &ast::Expr,
    fixed: &mut Vec<(usize, ArrayRef)>,
) -> Option<()> {
    match condition {
        ast::Expr::Nested(inner) => collect(target, inner, fixed),
        ast::Expr::BinaryOp {
            left,
            op: ast::BinaryOperator::And,
            right,
        } => {
            collect(target, left, fixed)?;
            collect(target, right, fixed)
        }
        ast::Expr::BinaryOp {
            left,
            op: ast::BinaryOperator::Eq,
            right,
        } => {
            let (column, value) = match column_of(target, left) {
                Some(column) => (column, right),
                None => (column_of(target, right)?, left),
            };
            if fixed.iter().any(|(other, _)| *other == column) {
                return None;
            }
            fixed.push((column, key_value(target, column, &constant(value)?)?));
            Some(())
        }
        _ => None,
    }
}

fn column_of(target: &Target, expression: &ast::Expr) -> Option<usize> {
    match expression {
        ast::Expr::Identifier(column) => target.find(column).ok(),
        ast::Expr::CompoundIdentifier(parts) => match parts.as_slice() {
            [qualifier, column] if qualifier.value == target.name().value => {
                target.find(column).ok()
            }
            _ => None,
        },
        _ => None,
    }
}

/// A constant as the key column's type, when comparing it with the column converts neither: integers that the column can hold,
/// and text.
fn key_value(target: &Target, column: usize, value: &ScalarValue) -> Option<ArrayRef> {
    let field = target.schema().field(column);
    let is_plain = match value {
        ScalarValue::Int64(Some(_)) => field.data_type().is_integer(),
        ScalarValue::Utf8(Some(_)) => {
            *field.data_type() == DataType::Utf8View
                && Refinement::of(&target.entry().columns[column].field) == Refinement::None
        }
        _ => false,
    };
    if !is_plain {
        return None;
    }
    // What is out of range becomes null.
    let value = cast(&value.to_array().ok()?, field.data_type()).ok()?;
    (value.null_count() == 0).then_some(value)
}

fn has_subquery(expression: &ast::Expr) -> bool {
    let flow = ast::visit_expressions(expression, |expression| match expression {
        ast::Expr::Subquery(_)
        | ast::Expr::Exists { .. }
        | ast::Expr::InSubquery { .. }
        | ast::Expr::AllOp { .. }
        | ast::Expr::AnyOp { .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    flow.is_break()
}
