//! The domain of a correlated subquery: the distinct combinations of the outer columns that it names.

use std::sync::Arc;

use arrow::array::{AsArray, MapArray, new_null_array};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::DataType;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Column, DFSchema, ExprSchema, Result as PlanResult, ScalarValue};
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, lit};

use super::{Names, position};
use crate::Error;
use crate::types::sql_name;

/// The distinct values of some columns of the outer query.
#[derive(Debug)]
pub(super) struct Domain {
    outer: LogicalPlan,
    columns: Vec<Column>,
}

impl Domain {
    /// The domain of `columns` of `outer`. 0A000 when `outer` would not yield the same rows again.
    pub(super) fn new(outer: &LogicalPlan, columns: Vec<Column>) -> PlanResult<Domain> {
        if !columns.is_empty() && is_volatile(outer)? {
            return Err(Error::unsupported(
                "a correlated subquery of this form over rows of a volatile function is not supported",
            )
            .with_hint("Store those rows in a temporary table first.")
            .into());
        }
        Ok(Domain {
            outer: outer.clone(),
            columns,
        })
    }

    /// The outer columns, in the domain's order.
    pub(super) fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The place of an outer column in the domain; `None` for one of a query further out.
    pub(super) fn position(&self, column: &Column) -> Option<usize> {
        position(&self.columns, column, self.outer.schema())
    }

    /// The domain's rows under names that no other copy of it has.
    pub(super) fn rows(&self, names: &mut Names) -> PlanResult<(LogicalPlan, Vec<Column>)> {
        let aliases: Vec<String> = self.columns.iter().map(|_| names.next()).collect();
        let columns = self
            .columns
            .iter()
            .zip(&aliases)
            .map(|(column, alias)| Expr::Column(column.clone()).alias(alias));
        let plan = LogicalPlanBuilder::from(self.outer.clone())
            .project(columns)?
            .distinct()?
            .build()?;
        let columns = aliases.into_iter().map(Column::new_unqualified).collect();
        Ok((plan, columns))
    }

    /// The condition that two copies of the domain's columns are the same row, NULL being equal to NULL.
    ///
    /// It is made of plain equalities of values that are never NULL: DataFusion's joins have one rule for NULLs in all keys, and
    /// it moves other equalities into a join's keys later, where theirs must stay.
    pub(super) fn matches(&self, left: &[Column], right: &[Column]) -> PlanResult<Vec<Expr>> {
        let schema: &DFSchema = self.outer.schema();
        let mut conditions = Vec::with_capacity(left.len());
        for ((column, left), right) in self.columns.iter().zip(left).zip(right) {
            let field = schema.field_from_column(column)?;
            let (left, right) = (Expr::Column(left.clone()), Expr::Column(right.clone()));
            if !field.is_nullable() {
                conditions.push(left.eq(right));
                continue;
            }
            conditions.push(left.clone().is_null().eq(right.clone().is_null()));
            if field.data_type().is_null() {
                continue;
            }
            let default = default_value(field.data_type()).ok_or_else(|| {
                Error::unsupported(format!(
                    "a correlated subquery of this form over the column \"{}\" of type {} is not supported",
                    column.name,
                    sql_name(field)
                ))
            })?;
            let present = |value: Expr| coalesce(vec![value, lit(default.clone())]);
            conditions.push(present(left).eq(present(right)));
        }
        if conditions.is_empty() {
            conditions.push(lit(true));
        }
        Ok(conditions)
    }
}

/// Some value of a type.
fn default_value(data_type: &DataType) -> Option<ScalarValue> {
    // DataFusion makes a map's of what is none.
    if let DataType::Map(_, _) = data_type {
        let nothing = new_null_array(data_type, 1);
        let maps = nothing.as_map();
        let (entries, _, values, _, sorted) = maps.clone().into_parts();
        let empty = MapArray::try_new(entries, OffsetBuffer::new_zeroed(1), values, None, sorted);
        return Some(ScalarValue::Map(Arc::new(empty.ok()?)));
    }
    ScalarValue::new_default(data_type).ok()
}

fn is_volatile(plan: &LogicalPlan) -> PlanResult<bool> {
    let mut volatile = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expression| {
            volatile |= expression.is_volatile();
            Ok(if volatile {
                TreeNodeRecursion::Stop
            } else {
                TreeNodeRecursion::Continue
            })
        })
    })?;
    Ok(volatile)
}
