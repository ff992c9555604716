//! Looking the keys of a join up: the scan below a hash join reads through an index what the other side's few keys lead to.
//!
//! A hash join that has built its table from few rows tells the scan on its other side the keys, as a dynamic filter `column IN (…)`. Where an index on the
//! column leads to few rows, each partition of the scan reads those of them that lie in its own morsels: the join
//! above is the same, and need not know. Whether it is worth it is decided when the keys are there, by counting.

use std::sync::Arc;

use datafusion::common::Column as Named;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Expr, Operator};
use datafusion::physical_expr::expressions::{
    BinaryExpr, Column, DynamicFilterPhysicalExpr, InListExpr, Literal,
};
use datafusion::physical_expr::split_conjunction;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::PhysicalExpr;

use super::source::MorselSource;

/// What dynamic filters say by now about which values columns have: those that an index could be asked for.
pub(super) fn known_values(dynamic: &[Arc<dyn PhysicalExpr>]) -> Vec<Expr> {
    let mut known = Vec::new();
    for filter in dynamic {
        collect(filter, &mut known);
    }
    known
}

fn collect(filter: &Arc<dyn PhysicalExpr>, known: &mut Vec<Expr>) {
    for conjunct in split_conjunction(filter) {
        if let Some(dynamic) = conjunct.downcast_ref::<DynamicFilterPhysicalExpr>() {
            if let Ok(current) = dynamic.current() {
                collect(&current, known);
            }
        } else if let Some(list) = conjunct.downcast_ref::<InListExpr>() {
            known.extend(in_list(list));
        } else if let Some(binary) = conjunct.downcast_ref::<BinaryExpr>()
            && *binary.op() == Operator::Eq
            && let (Some(column), Some(value)) = (named(binary.left()), constant(binary.right()))
        {
            known.push(column.eq(value));
        }
    }
}

fn in_list(list: &InListExpr) -> Option<Expr> {
    let values = list.list().iter().map(constant);
    let values = values.collect::<Option<Vec<_>>>()?;
    let column = named(list.expr()).filter(|_| !list.negated())?;
    Some(Expr::InList(InList::new(Box::new(column), values, false)))
}

fn named(expression: &Arc<dyn PhysicalExpr>) -> Option<Expr> {
    let column = expression.downcast_ref::<Column>()?;
    Some(Expr::Column(Named::from_name(column.name())))
}

fn constant(expression: &Arc<dyn PhysicalExpr>) -> Option<Expr> {
    let literal = expression.downcast_ref::<Literal>()?;
    Some(Expr::Literal(literal.value().clone(), None))
}

/// The index by which the columns of dynamic filters could be looked up.
pub(super) fn index_of<'s>(
    source: &'s dyn MorselSource,
    dynamic: &[Arc<dyn PhysicalExpr>],
) -> Option<&'s str> {
    let columns = dynamic.iter().flat_map(collect_columns);
    columns
        .into_iter()
        .find_map(|column| source.index_of(column.name()))
}
