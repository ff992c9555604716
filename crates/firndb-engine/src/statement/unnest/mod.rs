//! Correlated subqueries of any shape, as joins (Neumann and Kemper, "Unnesting Arbitrary Queries", BTW 2015).
//!
//! DataFusion joins a correlated scalar subquery only when it is an aggregate over rows that equal columns of the outer row,
//! and a lateral subquery hardly otherwise. What it does right stays with it ([`shape`]). Any other subquery is
//! computed once for each *distinct* combination of the outer columns that it names, the domain, and joined back:
//!
//! ```text
//! T, with (SELECT f(…) FROM S WHERE S.x < T.a)   ─▶   T ⟕ Q on Q.key = T.a,   Q = S × D grouped by key,   D = distinct(T.a)
//! ```
//!
//! [`push`] carries the domain below the operators of the subquery, down to where the outer columns are named; [`domain`] makes it and
//! compares its columns, NULL being equal to NULL.
//!
//! Invariants:
//!
//! - A rewritten scalar subquery yields at most one row for each row of its domain (`single_row` saw to that before), and
//!   the domain holds each combination once: the join neither drops nor repeats rows of `T`.
//! - Inner subqueries come first. An outer column that `T` does not have belongs to a query further out. It stays where it is,
//!   now in the plan of `T`, until that query's turn.
//! - `T` is planned several times and must yield the same rows each time: a volatile function in it is an error (0A000).

mod domain;
mod push;
mod shape;

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result as PlanResult};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    Expr, Join, JoinType, LogicalPlan, LogicalPlanBuilder, Subquery, SubqueryAlias,
};

use self::domain::Domain;
use crate::{Error, Result};

pub(super) use shape::{depends, joins_rows, needed, outer_columns, reads_round};

/// Rewrites the correlated subqueries of a plan that DataFusion does not join.
pub(super) fn rewrite(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut names = Names::default();
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Aggregate(aggregate) = node {
            for expression in &aggregate.aggr_expr {
                shape::check_aggregate(expression)?;
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    let plan = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Filter(_)
        | LogicalPlan::Projection(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Window(_) => scalar_subqueries(node, &mut names),
        LogicalPlan::Join(join) => lateral(join, &mut names),
        other => Ok(Transformed::no(other)),
    })?;
    Ok(plan.data)
}

/// Numbers the columns that the rewriting adds. No user's name starts like them.
#[derive(Debug, Default)]
struct Names {
    next: usize,
}

impl Names {
    fn next(&mut self) -> String {
        self.next += 1;
        format!("__firndb_outer_{}", self.next)
    }
}

fn scalar_subqueries(node: LogicalPlan, names: &mut Names) -> PlanResult<Transformed<LogicalPlan>> {
    let input = match node.inputs()[..] {
        [input] => input.clone(),
        _ => return Ok(Transformed::no(node)),
    };
    let schema = Arc::clone(input.schema());
    let mut joined = input.clone();
    // DataFusion knows correlated subqueries in projections, filters and aggregates only.
    let elsewhere = matches!(node, LogicalPlan::Sort(_) | LogicalPlan::Window(_));
    let joins = |subquery: &Subquery| -> PlanResult<bool> {
        Ok(shape::is_joined(subquery, &schema)?
            && !(elsewhere && shape::is_correlated(&subquery.subquery)?))
    };
    let preserver = NamePreserver::new(&node);
    let before: Vec<Column> = node.schema().columns();
    let rewritten = node.map_expressions(|expression| {
        let name = preserver.save(&expression);
        let rewritten = expression.transform_down(|part| match part {
            Expr::ScalarSubquery(subquery) if !joins(&subquery)? => {
                let (plan, value) = join_value(&input, joined.clone(), &subquery, names)?;
                joined = plan;
                Ok(Transformed::new(
                    Expr::Column(value),
                    true,
                    TreeNodeRecursion::Jump,
                ))
            }
            // DataFusion goes by this list; what subqueries inside it named further out is in the plan itself by now.
            Expr::ScalarSubquery(mut subquery) => {
                subquery.outer_ref_columns = subquery.subquery.all_out_ref_exprs();
                Ok(Transformed::no(Expr::ScalarSubquery(subquery)))
            }
            other => Ok(Transformed::no(other)),
        })?;
        Ok(if rewritten.transformed {
            rewritten.update_data(|expression| name.restore(expression))
        } else {
            rewritten
        })
    })?;
    if !rewritten.transformed {
        return Ok(rewritten);
    }
    let node = replace_input(rewritten.data, joined)?;
    if matches!(node, LogicalPlan::Projection(_)) {
        return Ok(Transformed::yes(node));
    }
    // The joined columns end here. A window's own columns come last, under the names that they had.
    let plan = LogicalPlanBuilder::from(node)
        .project(before.into_iter().map(Expr::Column))?
        .build()?;
    Ok(Transformed::yes(plan))
}

fn replace_input(node: LogicalPlan, input: LogicalPlan) -> PlanResult<LogicalPlan> {
    let expressions = node.expressions();
    node.with_new_exprs(expressions, vec![input])
}

/// `joined` with the subquery's value for each row beside it: the value's column is the second.
fn join_value(
    outer: &LogicalPlan,
    joined: LogicalPlan,
    subquery: &Subquery,
    names: &mut Names,
) -> PlanResult<(LogicalPlan, Column)> {
    let plan = subquery.subquery.as_ref();
    let columns = outer_columns(plan, outer.schema())?;
    let domain = Domain::new(outer, columns)?;
    let pushed = push::push(plan.clone(), &domain, names)?;
    let value = match plan.schema().columns().as_slice() {
        [value] => value.clone(),
        _ => {
            return Err(Error::new(
                crate::SqlState::SyntaxError,
                "a subquery used as an expression must yield one column",
            )
            .into());
        }
    };
    // Under an alias of its own: the subquery may name its column like one of the outer query.
    let alias = names.next();
    let plan = SubqueryAlias::try_new(Arc::new(pushed.plan), alias.as_str())?;
    let keys: Vec<Column> = pushed
        .keys
        .iter()
        .map(|key| Column::new(Some(alias.as_str()), &key.name))
        .collect();
    let value = Column::new(Some(alias.as_str()), &value.name);
    let matched = domain.matches(domain.columns(), &keys)?;
    let joined = LogicalPlanBuilder::from(joined)
        .join_on(LogicalPlan::SubqueryAlias(plan), JoinType::Left, matched)?
        .build()?;
    Ok((joined, value))
}

/// A join whose right side sees the columns of its left.
fn lateral(mut join: Join, names: &mut Names) -> PlanResult<Transformed<LogicalPlan>> {
    let (subquery, alias) = match join.right.as_ref() {
        LogicalPlan::Subquery(subquery) => (subquery, None),
        LogicalPlan::SubqueryAlias(alias) => match alias.input.as_ref() {
            LogicalPlan::Subquery(subquery) => (subquery, Some(&alias.alias)),
            _ => return Ok(Transformed::no(LogicalPlan::Join(join))),
        },
        _ => return Ok(Transformed::no(LogicalPlan::Join(join))),
    };
    let columns = outer_columns(&subquery.subquery, join.left.schema())?;
    if columns.is_empty() && shape::is_correlated(&subquery.subquery)? {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    if columns.is_empty() {
        // LATERAL of nothing is a subquery like others.
        let plan = Arc::clone(&subquery.subquery);
        join.right = match alias {
            Some(alias) => {
                let named = SubqueryAlias::try_new(plan, alias.clone())?;
                Arc::new(LogicalPlan::SubqueryAlias(named))
            }
            None => plan,
        };
        return Ok(Transformed::yes(LogicalPlan::Join(join)));
    }
    if !matches!(join.join_type, JoinType::Inner | JoinType::Left) {
        return Err(Error::new(
            crate::SqlState::SyntaxError,
            "a LATERAL subquery that names columns of the left side can't stand in a RIGHT or FULL join",
        )
        .into());
    }
    let domain = Domain::new(&join.left, columns)?;
    let mut pushed = push::push(subquery.subquery.as_ref().clone(), &domain, names)?;
    if let Some(alias) = alias {
        pushed = pushed.aliased(alias.clone())?;
    }
    let mut conditions: Vec<Expr> = join
        .on
        .iter()
        .map(|(left, right)| left.clone().eq(right.clone()))
        .collect();
    conditions.extend(join.filter.clone());
    conditions.extend(domain.matches(domain.columns(), &pushed.keys)?);
    let outputs: Vec<Expr> = join
        .schema
        .columns()
        .into_iter()
        .map(Expr::Column)
        .collect();
    let plan = LogicalPlanBuilder::from(join.left.as_ref().clone())
        .join_on(pushed.plan, join.join_type, conditions)?
        .project(outputs)?
        .build()?;
    Ok(Transformed::yes(plan))
}

/// The position of a column in a list of columns of a schema, whether or not their names are qualified.
fn position(columns: &[Column], column: &Column, schema: &DFSchema) -> Option<usize> {
    let index = schema.maybe_index_of_column(column)?;
    columns
        .iter()
        .position(|one| schema.maybe_index_of_column(one) == Some(index))
}
