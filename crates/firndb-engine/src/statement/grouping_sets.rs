//! GROUPING SETS, ROLLUP and CUBE over expressions: they are computed below the aggregate, which groups by columns alone.
//!
//! ```text
//!   GROUP BY ROLLUP(a + 1)   ─▶   SELECT … FROM (SELECT *, a + 1 AS g FROM t) GROUP BY ROLLUP(g)
//! ```
//!
//! An expression of a plain GROUP BY keeps its name by an alias when it is simplified. In a grouping set it can have none, and what
//! is above would not find it any more. A constant is hidden in a function of some column: DataFusion would take it
//! for one in the sets that leave it out, too, and not sort by it.

use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, Result as PlanResult, ScalarValue};
use datafusion::logical_expr::{
    Aggregate, ColumnarValue, Expr, GroupingSet, LogicalPlan, Projection, ReturnFieldArgs,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::Result;

/// Begins the names of what is computed below. No user's name starts like them.
const NAME: &str = "__firndb_group";

/// Rewrites every aggregate of a plan that has grouping sets over more than columns.
pub(super) fn rewrite(plan: LogicalPlan) -> Result<LogicalPlan> {
    let plan = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Aggregate(aggregate) => by_columns(aggregate),
        other => Ok(Transformed::no(other)),
    })?;
    Ok(plan.data)
}

fn by_columns(aggregate: Aggregate) -> PlanResult<Transformed<LogicalPlan>> {
    let [Expr::GroupingSet(sets)] = &aggregate.group_expr[..] else {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    };
    let computed: Vec<Expr> = sets
        .distinct_expr()
        .into_iter()
        .filter(|expr| !matches!(expr, Expr::Column(_)) && !expr.contains_outer())
        .cloned()
        .collect();
    if computed.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    let named = |expr: &Expr| -> Option<Expr> {
        let at = computed.iter().position(|one| one == expr)?;
        Some(Expr::Column(Column::new_unqualified(format!(
            "{NAME}_{at}"
        ))))
    };
    let input = &aggregate.input;
    let columns = input.schema().iter().map(Expr::from);
    let values = computed.iter().enumerate();
    let values = values.map(|(at, expr)| {
        let value = expr.clone();
        let value = match expr.any_column_refs() {
            true => value,
            false => {
                let beside = input.schema().iter().next().map(Expr::from);
                HIDDEN.call(std::iter::once(value).chain(beside).collect())
            }
        };
        value.alias(format!("{NAME}_{at}"))
    });
    let below = Projection::try_new(columns.chain(values).collect(), Arc::clone(input))?;
    let groups = |exprs: &[Expr]| -> Vec<Expr> {
        let exprs = exprs.iter();
        exprs
            .map(|expr| named(expr).unwrap_or_else(|| expr.clone()))
            .collect()
    };
    let sets = match sets {
        GroupingSet::Rollup(exprs) => GroupingSet::Rollup(groups(exprs)),
        GroupingSet::Cube(exprs) => GroupingSet::Cube(groups(exprs)),
        GroupingSet::GroupingSets(sets) => {
            GroupingSet::GroupingSets(sets.iter().map(|set| groups(set)).collect())
        }
    };
    // What `grouping` asks for.
    let aggregates = aggregate.aggr_expr.iter().map(|expr| {
        let replaced = expr.clone().transform_down(|part| {
            let Expr::AggregateFunction(mut call) = part else {
                return Ok(Transformed::no(part));
            };
            if call.func.name() == "grouping" {
                call.params.args = groups(&call.params.args);
            }
            Ok(Transformed::yes(Expr::AggregateFunction(call)))
        });
        Ok(replaced?.data)
    });
    let aggregates = aggregates.collect::<PlanResult<Vec<_>>>()?;
    let below = Arc::new(LogicalPlan::Projection(below));
    let grouped = Aggregate::try_new(below, vec![Expr::GroupingSet(sets)], aggregates)?;
    // Under the names that they had, without the number of the set, which is the aggregate's own.
    let columns = grouped.schema.iter().zip(aggregate.schema.iter());
    let shown = columns.filter(|(_, (_, field))| field.name() != Aggregate::INTERNAL_GROUPING_ID);
    let columns = shown.map(|(new, (qualifier, field))| {
        Expr::from(new).alias_qualified(qualifier.cloned(), field.name())
    });
    let columns = columns.collect();
    let above = Projection::try_new(columns, Arc::new(LogicalPlan::Aggregate(grouped)))?;
    Ok(Transformed::yes(LogicalPlan::Projection(above)))
}

/// The first argument, which the planner takes for a value that differs by row.
static HIDDEN: LazyLock<ScalarUDF> = LazyLock::new(|| {
    ScalarUDF::new_from_impl(Hidden {
        signature: Signature::variadic_any(Volatility::Volatile),
    })
});

#[derive(Debug, PartialEq, Eq, Hash)]
struct Hidden {
    signature: Signature,
}

impl ScalarUDFImpl for Hidden {
    fn name(&self) -> &'static str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> PlanResult<DataType> {
        Ok(arguments.first().cloned().unwrap_or(DataType::Null))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> PlanResult<FieldRef> {
        Ok(match args.arg_fields {
            [given, ..] => Arc::new(given.as_ref().clone().with_nullable(true)),
            [] => Arc::new(Field::new(NAME, DataType::Null, true)),
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        let given = args.args.into_iter().next();
        Ok(given.unwrap_or(ColumnarValue::Scalar(ScalarValue::Null)))
    }
}
