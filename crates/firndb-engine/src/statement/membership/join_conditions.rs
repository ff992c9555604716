//! Subqueries in the condition of a join.
//!
//! ```text
//! l JOIN r ON c           ─▶  σ c (l JOIN r)
//! l LEFT JOIN r ON c(r)   ─▶  l LEFT JOIN σ c (r)
//! l FULL JOIN r ON c(l)   ─▶  (l, c AS v) FULL JOIN r ON v              every subquery depends on one side alone
//! l LEFT JOIN r ON c(l,r) ─▶  l LEFT JOIN LATERAL (σ c (r))
//! l SEMI JOIN r ON c(l,r) ─▶  σ EXISTS (σ c (r)) (l)
//! ```
//!
//! A condition is taken apart at its ANDs; conditions without subqueries stay with the join.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchemaRef, DataFusionError, ExprSchema, Result as PlanResult};
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    Expr, Filter, Join, JoinType, LogicalPlan, LogicalPlanBuilder, Subquery, lit,
};

use super::below::Below;
use super::{as_value, has_subquery, rewrite_filter, unnest};
use crate::Error;

/// Takes conditions with subqueries out of a join, where DataFusion does not plan them.
pub(super) fn rewrite(mut join: Join) -> PlanResult<Transformed<LogicalPlan>> {
    let Some(condition) = &join.filter else {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    };
    if !has_subquery(condition)? {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    let mut kept = Vec::new();
    let mut taken = Vec::new();
    let conditions = join.filter.take();
    for condition in conditions.map_or_else(Vec::new, split_conjunction_owned) {
        match has_subquery(&condition)? {
            true => taken.push(condition),
            false => kept.push(condition),
        }
    }
    join.filter = conjunction(kept);
    let Some(taken) = conjunction(taken) else {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    };
    let optional = match join.join_type {
        JoinType::Inner => {
            return rewrite_filter(Filter::try_new(taken, Arc::new(LogicalPlan::Join(join)))?);
        }
        JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti => Some(&mut join.right),
        JoinType::Right | JoinType::RightSemi | JoinType::RightAnti => Some(&mut join.left),
        _ => None,
    };
    if let Some(side) = optional
        && is_of(&taken, side.schema())?
    {
        let filter = Filter::try_new(taken, Arc::clone(side))?;
        *side = Arc::new(rewrite_filter(filter)?.data);
        return Ok(Transformed::yes(LogicalPlan::Join(join)));
    }
    by_values(join, taken)
}

/// Computes the subqueries below the sides that they depend on.
fn by_values(mut join: Join, taken: Expr) -> PlanResult<Transformed<LogicalPlan>> {
    let both: DFSchemaRef = Arc::new(join.left.schema().join(join.right.schema())?);
    let condition = as_value(taken.clone(), &both, false)?;
    let mut sides = [Below::of_side("l"), Below::of_side("r")];
    let mut condition = condition;
    for (below, side) in sides.iter_mut().zip([&join.left, &join.right]) {
        let pulled = below.pull(condition, &mut |part| is_of(part, side.schema()))?;
        condition = pulled.data;
    }
    if has_subquery(&condition)? {
        return across(join, taken);
    }
    let outputs = join.schema.columns();
    let [left, right] = sides;
    let left = left.over(Arc::unwrap_or_clone(join.left))?;
    let right = right.over(Arc::unwrap_or_clone(join.right))?;
    let filter = conjunction(join.filter.take().into_iter().chain([condition]));
    let joined = Join::try_new(
        Arc::new(left),
        Arc::new(right),
        join.on,
        filter,
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?;
    let plan = LogicalPlanBuilder::from(LogicalPlan::Join(joined))
        .project(outputs.into_iter().map(Expr::Column))?
        .build()?;
    Ok(Transformed::yes(plan))
}

/// A condition whose subqueries depend on both sides at once: one side is asked for each row of the other.
fn across(join: Join, taken: Expr) -> PlanResult<Transformed<LogicalPlan>> {
    let outputs = join.schema.columns();
    let (kept, asked) = match join.join_type {
        JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti => (&join.left, &join.right),
        JoinType::Right | JoinType::RightSemi | JoinType::RightAnti => (&join.right, &join.left),
        _ => return Err(depends_on_both()),
    };
    let equalities = join
        .on
        .iter()
        .map(|(left, right)| left.clone().eq(right.clone()));
    let conditions = equalities.chain(join.filter.clone()).chain([taken]);
    let conditions = conditions
        .map(|condition| beyond(condition, kept.schema()))
        .collect::<PlanResult<Vec<_>>>()?;
    let Some(condition) = conjunction(conditions) else {
        return Err(depends_on_both());
    };
    let filter = Filter::try_new(condition, Arc::clone(asked))?;
    let rows = rewrite_filter(filter)?.data;
    let subquery = Subquery {
        outer_ref_columns: rows.all_out_ref_exprs(),
        subquery: Arc::new(rows),
        spans: Default::default(),
    };
    let kept = LogicalPlanBuilder::from(kept.as_ref().clone());
    let negated = match join.join_type {
        JoinType::LeftSemi | JoinType::RightSemi => false,
        JoinType::LeftAnti | JoinType::RightAnti => true,
        _ => {
            let joined = kept
                .join_on(LogicalPlan::Subquery(subquery), JoinType::Left, [lit(true)])?
                .project(outputs.into_iter().map(Expr::Column))?
                .build()?;
            return Ok(Transformed::yes(joined));
        }
    };
    let exists = Expr::Exists(Exists { subquery, negated });
    let kept = Arc::new(kept.build()?);
    Ok(Transformed::yes(
        rewrite_filter(Filter::try_new(exists, kept)?)?.data,
    ))
}

/// The condition as the asked side's rows see it: the kept side's columns are an outer row's.
fn beyond(condition: Expr, kept: &DFSchemaRef) -> PlanResult<Expr> {
    let outer = condition.transform_up(|part| match part {
        Expr::Column(column) if kept.maybe_index_of_column(&column).is_some() => {
            let field = Arc::clone(kept.field_from_column(&column)?);
            let outer = Expr::OuterReferenceColumn(field, column);
            Ok(Transformed::yes(outer))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(outer.data)
}

fn depends_on_both() -> DataFusionError {
    Error::unsupported(
        "a subquery in the condition of a FULL JOIN that depends on both sides at once is not supported",
    )
    .with_hint("Compute it in a subquery in FROM, and join that.")
    .into()
}

/// Whether an expression, its subqueries included, needs no other columns than those of `schema`.
fn is_of(expression: &Expr, schema: &DFSchemaRef) -> PlanResult<bool> {
    let mut within = true;
    expression.apply(|part| {
        match part {
            Expr::Column(column) => within &= schema.maybe_index_of_column(column).is_some(),
            Expr::ScalarSubquery(subquery)
            | Expr::Exists(Exists { subquery, .. })
            | Expr::InSubquery(InSubquery { subquery, .. })
            | Expr::SetComparison(SetComparison { subquery, .. }) => {
                for column in unnest::needed(&subquery.subquery)? {
                    within &= schema.maybe_index_of_column(&column).is_some();
                }
            }
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(within)
}
