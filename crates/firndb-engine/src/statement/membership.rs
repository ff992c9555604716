//! `IN (SELECT …)` and `EXISTS` with SQL's three truth values, wherever an expression may stand.
//!
//! DataFusion turns these predicates into semi, anti and mark joins, and only in WHERE. Where that is right, it stays:
//!
//! - a conjunct `x IN (q)`, `EXISTS (q)` or `NOT EXISTS (q)` of a filter, also below AND and OR alone: there NULL and
//!   FALSE both reject the row (if `q` depends on the row, then by the conditions of filters alone);
//! - a conjunct `x NOT IN (q)` when `q` does not depend on the row and `x` does: the null-aware anti join.
//!
//! Elsewhere DataFusion 55 refuses the statement, or takes NULL for FALSE (`7 NOT IN (q)` of a `q` with NULLs, a mark
//! join under NOT). There a predicate becomes counts, which are correct scalar subqueries anywhere:
//!
//! ```text
//! x IN (q)    ─▶  CASE WHEN (SELECT count(*) FROM q WHERE y = x) > 0 THEN TRUE
//!                      WHEN (x IS NULL AND (SELECT count(*) FROM q) > 0)
//!                           OR (SELECT count(*) FROM q WHERE y IS NULL) > 0 THEN NULL
//!                      ELSE FALSE END
//! EXISTS (q)  ─▶  (SELECT count(*) FROM q) > 0
//! x < ANY (q) ─▶  CASE WHEN (SELECT count(*) FROM q WHERE x < y) > 0 THEN TRUE
//!                      WHEN (SELECT count(*) FROM q WHERE (x < y) IS NULL) > 0 THEN NULL
//!                      ELSE FALSE END
//! x < ALL (q) ─▶  NOT (NOT x < y) for ANY of q
//! ```

mod below;
mod join_conditions;

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{
    Column, DFSchemaRef, DataFusionError, ExprSchema, Result as PlanResult, ScalarValue,
};
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison, SetQuantifier};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, Filter, LogicalPlan, LogicalPlanBuilder, Operator, Subquery,
    binary_expr, lit, not, when,
};

use super::unnest;
use crate::types::has_floats;
use crate::{Error, Result, SqlState};

/// The name under which a rewritten predicate sees its subquery; no user's name starts like this.
const MEMBERS: &str = "__firndb_members";
/// The name of their number, which must not be the row's own count's.
const ROWS: &str = "__firndb_number_of_members";

/// Rewrites the predicates of a plan and its subqueries that DataFusion's joins would get wrong or refuse.
pub(super) fn rewrite(plan: LogicalPlan) -> Result<LogicalPlan> {
    let plan = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Filter(filter) => rewrite_filter(filter),
        LogicalPlan::Join(join) => join_conditions::rewrite(join),
        node => {
            let names = NamePreserver::new(&node);
            let schemas: Vec<_> = node
                .inputs()
                .into_iter()
                .map(|input| Arc::clone(input.schema()))
                .collect();
            let [schema] = schemas.as_slice() else {
                return Ok(Transformed::no(node));
            };
            node.map_expressions(|expression| {
                if !has_predicate(&expression)? {
                    return Ok(Transformed::no(expression));
                }
                let name = names.save(&expression);
                let value = as_value(expression, schema, false)?;
                Ok(Transformed::yes(name.restore(value)))
            })?
            .map_data(LogicalPlan::recompute_schema)?
            .transform_data(below::compute)
        }
    })?;
    Ok(plan.data)
}

fn rewrite_filter(filter: Filter) -> PlanResult<Transformed<LogicalPlan>> {
    if !has_predicate(&filter.predicate)? {
        return Ok(Transformed::no(LogicalPlan::Filter(filter)));
    }
    let schema = Arc::clone(filter.input.schema());
    let conjuncts = split_conjunction_owned(filter.predicate)
        .into_iter()
        .map(|conjunct| match negated_membership(conjunct) {
            Ok(membership) if is_null_aware(&membership, &schema)? => {
                Ok(Expr::InSubquery(membership))
            }
            Ok(membership) => as_value(Expr::InSubquery(membership), &schema, true),
            Err(other) => as_condition(other, &schema, false),
        })
        .collect::<PlanResult<Vec<_>>>()?;
    let predicate = conjunction(conjuncts).unwrap_or_else(|| lit(true));
    Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(
        predicate,
        filter.input,
    )?)))
}

/// `x NOT IN (q)` in either spelling, or the expression as it was.
fn negated_membership(expression: Expr) -> std::result::Result<InSubquery, Expr> {
    match expression {
        Expr::InSubquery(membership) if membership.negated => Ok(membership),
        Expr::Not(inner) => match *inner {
            Expr::InSubquery(membership) if !membership.negated => Ok(InSubquery {
                negated: true,
                ..membership
            }),
            other => Err(Expr::Not(Box::new(other))),
        },
        other => Err(other),
    }
}

/// Whether the null-aware anti join answers `x NOT IN (q)`. What is more than a column may turn out to be a constant, and its join
/// one that does not know NULLs.
fn is_null_aware(membership: &InSubquery, schema: &DFSchemaRef) -> PlanResult<bool> {
    let mut key = membership.expr.as_ref();
    while let Expr::Cast(cast) = key {
        key = &cast.expr;
    }
    Ok(matches!(key, Expr::Column(_))
        && !unnest::depends(&membership.subquery.subquery)?
        && !compares_floats(membership, schema)?)
}

/// Whether value or members are floating point numbers, or hold some: `x = y` then compares what they are brought to, not columns.
fn compares_floats(membership: &InSubquery, schema: &DFSchemaRef) -> PlanResult<bool> {
    let members = membership.subquery.subquery.schema().fields();
    Ok(has_floats(&membership.expr.get_type(schema)?)
        || members.iter().any(|member| has_floats(member.data_type())))
}

/// An expression for whose value NULL and FALSE are alike: joins may answer its predicates below AND and OR. A constant is no key of
/// a join: DataFusion would name the members twice.
fn as_condition(expression: Expr, schema: &DFSchemaRef, below_or: bool) -> PlanResult<Expr> {
    match expression {
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: op @ (Operator::And | Operator::Or),
            right,
        }) => {
            let below_or = below_or || op == Operator::Or;
            Ok(Expr::BinaryExpr(BinaryExpr {
                left: Box::new(as_condition(*left, schema, below_or)?),
                op,
                right: Box::new(as_condition(*right, schema, below_or)?),
            }))
        }
        Expr::InSubquery(membership)
            if !membership.negated
                && membership.expr.any_column_refs()
                && !has_subquery(&membership.expr)?
                && unnest::joins_rows(&membership.subquery, schema)?
                && is_typed_alike(&membership, schema)?
                && !(below_or && is_of_computed_floats(&membership)) =>
        {
            Ok(Expr::InSubquery(with_named_member(membership)?))
        }
        other => as_value(other, schema, true),
    }
}

/// Whether the members are floating point numbers, and no columns: below OR they would be listed twice.
fn is_of_computed_floats(membership: &InSubquery) -> bool {
    let members = membership.subquery.subquery.schema();
    let mut columns = members.iter();
    columns.any(|(table, member)| table.is_none() && has_floats(member.data_type()))
}

/// The same membership, its members under a name of their own: the name of an aggregate, `max(t.a)`, is one that DataFusion's mark joins
/// would list twice. Columns keep their names, and so do floating point numbers, which are compared as what they are brought to: that
/// would get the new name again.
fn with_named_member(mut membership: InSubquery) -> PlanResult<InSubquery> {
    let members = &membership.subquery.subquery;
    let [(qualifier, field)] = members.schema().iter().collect::<Vec<_>>()[..] else {
        return Ok(membership);
    };
    if qualifier.is_some() || has_floats(field.data_type()) || unnest::depends(members)? {
        return Ok(membership);
    }
    let member = Expr::Column(Column::new(qualifier.cloned(), field.name()));
    let named = LogicalPlanBuilder::from(members.as_ref().clone())
        .project([member.alias(MEMBERS)])?
        .build()?;
    membership.subquery.subquery = Arc::new(named);
    Ok(membership)
}

/// Whether no cast stands between the value and the members. DataFusion's decorrelation would yield the cast column beside the bare one
/// that a condition names, both under one name.
fn is_typed_alike(membership: &InSubquery, schema: &DFSchemaRef) -> PlanResult<bool> {
    let members = membership.subquery.subquery.schema();
    let [member] = members.fields().iter().collect::<Vec<_>>()[..] else {
        return Ok(true);
    };
    Ok(!unnest::depends(&membership.subquery.subquery)?
        || membership.expr.get_type(schema)? == *member.data_type()
            && !compares_floats(membership, schema)?)
}

/// An expression whose predicates have all three values. EXISTS has two, so a filter's mark joins may keep it.
fn as_value(expression: Expr, schema: &DFSchemaRef, keep_exists: bool) -> PlanResult<Expr> {
    let rewritten = expression.transform_up(|part| match part {
        Expr::InSubquery(membership) => Ok(Transformed::yes(three_valued(membership, schema)?)),
        Expr::SetComparison(comparison) => Ok(Transformed::yes(quantified(comparison, schema)?)),
        Expr::Exists(Exists { subquery, negated })
            if !keep_exists || !unnest::joins_rows(&subquery, schema)? =>
        {
            let rows = counted(LogicalPlanBuilder::from(subquery.subquery.as_ref().clone()))?;
            Ok(Transformed::yes(if negated {
                rows.eq(lit(0_i64))
            } else {
                rows.gt(lit(0_i64))
            }))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(rewritten.data)
}

fn three_valued(membership: InSubquery, schema: &DFSchemaRef) -> PlanResult<Expr> {
    let InSubquery {
        expr,
        subquery,
        negated,
    } = membership;
    let members = LogicalPlanBuilder::from(subquery.subquery.as_ref().clone());
    // The alias keeps the subquery's columns apart from the row's. One that depends on the row goes without: the
    // decorrelation pulls its conditions up to the filter, where their columns must still be visible.
    let members = if !unnest::depends(&subquery.subquery)? {
        members.alias(MEMBERS)?
    } else {
        members
    };
    let [(qualifier, field)] = members.schema().iter().collect::<Vec<_>>()[..] else {
        return Err(DataFusionError::Plan(
            "subquery has too many columns".to_owned(),
        ));
    };
    let member = Expr::Column(Column::new(qualifier.cloned(), field.name()));
    let member_nullable = field.is_nullable();
    // A subquery without rows is NULL, whatever its column says.
    let value_nullable = expr.nullable(schema)? || has_subquery(&expr)?;
    let outer = as_outer(expr.as_ref().clone(), schema, members.schema())?;

    let matches = counted(members.clone().filter(member.clone().eq(outer))?)?.gt(lit(0_i64));
    let mut unknown = Vec::new();
    if value_nullable {
        unknown.push(expr.is_null().and(counted(members.clone())?.gt(lit(0_i64))));
    }
    if member_nullable {
        unknown.push(counted(members.filter(member.is_null())?)?.gt(lit(0_i64)));
    }
    let mut cases = when(matches, lit(!negated));
    if let Some(unknown) = unknown.into_iter().reduce(Expr::or) {
        cases = cases.when(unknown, lit(ScalarValue::Boolean(None)));
    }
    cases.otherwise(lit(negated))
}

/// `x < ANY (q)`, `x < ALL (q)`.
fn quantified(comparison: SetComparison, schema: &DFSchemaRef) -> PlanResult<Expr> {
    let SetComparison {
        expr,
        subquery,
        op,
        quantifier,
    } = comparison;
    let all = quantifier == SetQuantifier::All;
    let members = LogicalPlanBuilder::from(subquery.subquery.as_ref().clone());
    let members = if !unnest::depends(&subquery.subquery)? {
        members.alias(MEMBERS)?
    } else {
        members
    };
    let [(qualifier, field)] = members.schema().iter().collect::<Vec<_>>()[..] else {
        return Err(Error::new(SqlState::SyntaxError, "subquery has too many columns").into());
    };
    let member = Expr::Column(Column::new(qualifier.cloned(), field.name()));
    let outer = as_outer(*expr, schema, members.schema())?;
    let compared = binary_expr(outer, op, member);
    let decisive = match all {
        true => not(compared.clone()),
        false => compared.clone(),
    };
    let decided = counted(members.clone().filter(decisive)?)?.gt(lit(0_i64));
    let unknown = counted(members.filter(compared.is_null())?)?.gt(lit(0_i64));
    when(decided, lit(!all))
        .when(unknown, lit(ScalarValue::Boolean(None)))
        .otherwise(lit(all))
}

/// `(SELECT count(*) FROM rows)`.
fn counted(rows: LogicalPlanBuilder) -> PlanResult<Expr> {
    let plan = rows
        .aggregate(Vec::<Expr>::new(), vec![count(lit(1_i64)).alias(ROWS)])?
        .build()?;
    let outer_ref_columns = plan.all_out_ref_exprs();
    Ok(Expr::ScalarSubquery(Subquery {
        subquery: Arc::new(plan),
        outer_ref_columns,
        spans: Default::default(),
    }))
}

/// The expression as a subquery of the row sees it: its columns are the outer row's. What it names further out must not be a name of
/// the subquery's own rows.
fn as_outer(expression: Expr, schema: &DFSchemaRef, members: &DFSchemaRef) -> PlanResult<Expr> {
    let hidden = || {
        DataFusionError::from(Error::unsupported(
            "IN (SELECT …) here whose left side depends on a query further out is not supported",
        ))
    };
    let outer = expression.transform_up(|part| match part {
        Expr::Column(column) => {
            let field = Arc::clone(schema.field_from_column(&column)?);
            Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column)))
        }
        Expr::OuterReferenceColumn(_, ref column)
            if members.maybe_index_of_column(column).is_some() =>
        {
            Err(hidden())
        }
        Expr::ScalarSubquery(ref subquery)
            if !unnest::outer_columns(&subquery.subquery, members)?.is_empty() =>
        {
            Err(hidden())
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(outer.data)
}

fn has_predicate(expression: &Expr) -> PlanResult<bool> {
    expression.exists(|part| {
        Ok(matches!(
            part,
            Expr::InSubquery(_) | Expr::Exists(_) | Expr::SetComparison(_)
        ))
    })
}

fn has_subquery(expression: &Expr) -> PlanResult<bool> {
    let mut found = false;
    expression.apply(|part| {
        found |= matches!(
            part,
            Expr::InSubquery(_)
                | Expr::Exists(_)
                | Expr::SetComparison(_)
                | Expr::ScalarSubquery(_)
        );
        Ok(if found {
            TreeNodeRecursion::Stop
        } else {
            TreeNodeRecursion::Continue
        })
    })?;
    Ok(found)
}
