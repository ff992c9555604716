//! Which outer columns a subquery names, and which subqueries DataFusion joins as they should be.

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result as PlanResult};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Distinct, Expr, ExprSchemable, LogicalPlan, Operator, Subquery};

use crate::Error;
use crate::scan::recursion::RecursionTable;
use crate::types::has_floats;

/// The columns of `schema` that a subquery's plan names as its outer row's, each once. Subqueries inside it are not asked: what they
/// name further out than their own query was moved into the plan before.
pub(in crate::statement) fn outer_columns(
    plan: &LogicalPlan,
    schema: &DFSchema,
) -> PlanResult<Vec<Column>> {
    let mut columns: Vec<Column> = Vec::new();
    each_outer(plan, &mut |column| {
        if schema.maybe_index_of_column(column).is_some()
            && super::position(&columns, column, schema).is_none()
        {
            columns.push(column.clone());
        }
    })?;
    Ok(columns)
}

/// Calls `found` for every outer column that a plan names.
pub(super) fn each_outer(plan: &LogicalPlan, found: &mut impl FnMut(&Column)) -> PlanResult<()> {
    plan.apply(|node| {
        node.apply_expressions(|expression| {
            expression.apply(|part| {
                if let Expr::OuterReferenceColumn(_, column) = part {
                    found(column);
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(())
}

/// The outer columns that a subquery needs, those of subqueries inside it that none of its own rows has included.
pub(in crate::statement) fn needed(plan: &LogicalPlan) -> PlanResult<Vec<Column>> {
    let mut columns = skipping(plan)?;
    each_outer(plan, &mut |column| columns.push(column.clone()))?;
    Ok(columns)
}

/// The outer columns that subqueries inside a plan name past the rows that they stand beside.
fn skipping(plan: &LogicalPlan) -> PlanResult<Vec<Column>> {
    let mut columns = Vec::new();
    plan.apply(|node| {
        node.apply_expressions(|expression| {
            expression.apply(|part| {
                let (Expr::ScalarSubquery(subquery)
                | Expr::Exists(Exists { subquery, .. })
                | Expr::InSubquery(InSubquery { subquery, .. })) = part
                else {
                    return Ok(TreeNodeRecursion::Continue);
                };
                let inputs = node.inputs();
                let near = |column: &Column| {
                    inputs
                        .iter()
                        .any(|input| input.schema().maybe_index_of_column(column).is_some())
                };
                columns.extend(needed(&subquery.subquery)?.into_iter().filter(|c| !near(c)));
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(columns)
}

/// Whether a subquery depends on a row outside it, be it through a subquery of its own.
pub(in crate::statement) fn depends(plan: &LogicalPlan) -> PlanResult<bool> {
    Ok(!needed(plan)?.is_empty())
}

/// Whether a plan reads the rows of a round of a recursive query around it: it yields other rows in each round, and DataFusion would compute a scalar
/// subquery of it once.
pub(in crate::statement) fn reads_round(plan: &LogicalPlan) -> PlanResult<bool> {
    let mut rounds = false;
    rounds_of(plan, &mut Vec::new(), &mut rounds)?;
    Ok(rounds)
}

fn rounds_of<'a>(
    plan: &'a LogicalPlan,
    own: &mut Vec<&'a str>,
    found: &mut bool,
) -> PlanResult<()> {
    if let LogicalPlan::TableScan(scan) = plan
        && let Ok(provider) = source_as_provider(&scan.source)
        && let Some(table) = provider.downcast_ref::<RecursionTable>()
        && !own.contains(&table.name())
    {
        *found = true;
    }
    if let LogicalPlan::RecursiveQuery(query) = plan {
        rounds_of(&query.static_term, own, found)?;
        own.push(&query.name);
        rounds_of(&query.recursive_term, own, found)?;
        own.pop();
        return Ok(());
    }
    for input in plan.inputs() {
        rounds_of(input, own, found)?;
    }
    plan.apply_subqueries(|subquery| {
        if let LogicalPlan::Subquery(inner) = subquery {
            *found |= rounds_within(&inner.subquery, own)?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

fn rounds_within(plan: &LogicalPlan, own: &[&str]) -> PlanResult<bool> {
    let mut found = false;
    rounds_of(plan, &mut own.to_vec(), &mut found)?;
    Ok(found)
}

/// Whether a plan names any outer column, of whichever query.
pub(super) fn is_correlated(plan: &LogicalPlan) -> PlanResult<bool> {
    let mut correlated = false;
    each_outer(plan, &mut |_| correlated = true)?;
    Ok(correlated)
}

/// Whether DataFusion computes a scalar subquery of a row of `schema`: it depends on no row, or it aggregates all rows that equal
/// columns of this row. Above an alias it loses sight of what it computes beside the aggregate.
pub(super) fn is_joined(subquery: &Subquery, schema: &DFSchema) -> PlanResult<bool> {
    let plan = subquery.subquery.as_ref();
    if !is_correlated(plan)? {
        return Ok(!reads_round(plan)?);
    }
    let mut plan = plan;
    loop {
        plan = match plan {
            LogicalPlan::Projection(node) if !plan.contains_outer_reference() => &node.input,
            LogicalPlan::Aggregate(node)
                if node.group_expr.is_empty() && !plan.contains_outer_reference() =>
            {
                return has_outer_filters(&node.input, schema, &is_equality);
            }
            _ => return Ok(false),
        };
    }
}

/// Whether DataFusion's semi, anti and mark joins find the rows of a subquery of EXISTS or IN: its conditions on the outer row of `schema`
/// stand in filters over its rows, and stay there: what its own subqueries become may take its rows into other operators.
pub(in crate::statement) fn joins_rows(subquery: &Subquery, schema: &DFSchema) -> PlanResult<bool> {
    let plan = &subquery.subquery;
    Ok(skipping(plan)?.is_empty()
        && !(is_correlated(plan)? && has_dependent_subqueries(plan)?)
        && has_outer_filters(&subquery.subquery, schema, &|_, _| Ok(true))?)
}

/// Whether a subquery within a plan depends on the rows that it stands beside.
fn has_dependent_subqueries(plan: &LogicalPlan) -> PlanResult<bool> {
    let mut found = false;
    plan.apply(|node| {
        node.apply_subqueries(|inner| {
            if let LogicalPlan::Subquery(inner) = inner {
                found |= depends(&inner.subquery)?;
            }
            Ok(TreeNodeRecursion::Jump)
        })?;
        Ok(match found {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(found)
}

/// Whether outer columns are all of `schema`, and named only by filters at the top of the plan, in conditions that are `right`.
/// Conditions below an alias are not: DataFusion would look for their columns above it.
fn has_outer_filters(
    plan: &LogicalPlan,
    schema: &DFSchema,
    right: &dyn Fn(&Expr, &DFSchema) -> PlanResult<bool>,
) -> PlanResult<bool> {
    if !is_correlated(plan)? {
        return Ok(true);
    }
    match plan {
        LogicalPlan::Projection(node) if !plan.contains_outer_reference() => {
            has_outer_filters(&node.input, schema, right)
        }
        LogicalPlan::Distinct(Distinct::All(input)) => has_outer_filters(input, schema, right),
        LogicalPlan::Filter(node) => {
            let conditions = split_conjunction(&node.predicate);
            for condition in conditions.into_iter().filter(|e| e.contains_outer()) {
                let foreign = condition.exists(|part| {
                    Ok(match part {
                        Expr::OuterReferenceColumn(_, column) => {
                            schema.maybe_index_of_column(column).is_none()
                        }
                        Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) => true,
                        _ => false,
                    })
                })?;
                if foreign || !right(condition, node.input.schema())? {
                    return Ok(false);
                }
            }
            has_outer_filters(&node.input, schema, right)
        }
        _ => Ok(false),
    }
}

/// `column = outer`, either way round: what may be pulled over an aggregate, which is then grouped by the column. Equality of
/// floating point numbers and intervals is one of what they are brought to, not of the columns.
fn is_equality(condition: &Expr, schema: &DFSchema) -> PlanResult<bool> {
    let Expr::BinaryExpr(binary) = condition else {
        return Ok(false);
    };
    if binary.op != Operator::Eq {
        return Ok(false);
    }
    let plain = |column: &Expr| -> PlanResult<bool> {
        let data_type = column.get_type(schema)?;
        Ok(!has_floats(&data_type) && !matches!(data_type, DataType::Interval(_)))
    };
    match (binary.left.as_ref(), binary.right.as_ref()) {
        (column @ Expr::Column(_), other) | (other, column @ Expr::Column(_)) => {
            // A text beside what is none is read by a conversion of ours, which is no column any more.
            let texts = column.get_type(schema)?.is_string() == other.get_type(schema)?.is_string();
            Ok(!other.any_column_refs() && texts && plain(column)? && plain(other)?)
        }
        _ => Ok(false),
    }
}

/// Refuses an aggregate over columns of an outer query alone: it belongs to that query.
pub(super) fn check_aggregate(expression: &Expr) -> PlanResult<()> {
    expression.apply(|part| {
        if let Expr::AggregateFunction(function) = part {
            let (mut outer, mut own) = (false, false);
            for argument in &function.params.args {
                argument.apply(|part| {
                    outer |= matches!(part, Expr::OuterReferenceColumn(_, _));
                    own |= matches!(part, Expr::Column(_));
                    Ok(TreeNodeRecursion::Continue)
                })?;
            }
            if outer && !own {
                return Err(Error::unsupported(
                    "an aggregate of columns of an outer query is not supported",
                )
                .with_hint("Compute it in the outer query, in a subquery in FROM.")
                .into());
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}
