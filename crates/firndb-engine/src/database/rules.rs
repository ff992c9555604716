//! DataFusion's logical rules without what answers wrongly.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{NullEquality, Result};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, Optimizer, OptimizerConfig, OptimizerRule};

use crate::statement::without_dependencies;

type Rule = Arc<dyn OptimizerRule + Send + Sync>;

/// The rules.
pub(super) fn logical() -> Vec<Rule> {
    let rules = Optimizer::new().rules.into_iter();
    rules
        .map(|rule| match rule.name() {
            "eliminate_cross_join" => Arc::new(Kept {
                rule,
                keeps: joins_nulls,
            }) as Rule,
            "push_down_filter" => Arc::new(Kept {
                rule,
                keeps: filters_a_row_of_nothing,
            }),
            "optimize_projections" => Arc::new(WithoutDependencies { rule }),
            _ => rule,
        })
        .collect()
}

/// A rule that leaves some plans as they are.
#[derive(Debug)]
struct Kept {
    rule: Rule,
    keeps: fn(&LogicalPlan) -> Result<bool>,
}

impl OptimizerRule for Kept {
    fn name(&self) -> &str {
        self.rule.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.rule.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        match (self.keeps)(&plan)? {
            true => Ok(Transformed::no(plan)),
            false => self.rule.rewrite(plan, config),
        }
    }
}

/// A rule that is not told which columns determine which.
///
/// DataFusion 55 says of a grouping that the keys of a grouping below it determine *all* its columns, also where a join stands between, and then
/// drops the other keys of a grouping above: `SELECT DISTINCT u.c, d.n FROM (SELECT DISTINCT n FROM e) d, u` with `GROUP BY c, n` above it came to be grouped by `n`.
#[derive(Debug)]
struct WithoutDependencies {
    rule: Rule,
}

impl OptimizerRule for WithoutDependencies {
    fn name(&self) -> &str {
        self.rule.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.rule.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let plan = plan.transform_up_with_subqueries(without_dependencies)?;
        self.rule.rewrite(plan.data, config)
    }
}

/// DataFusion 55 takes a chain of inner joins apart and makes it anew of keys that NULL never equals, also where
/// `IS NOT DISTINCT FROM` joined. Chains with such a join stay as they are.
fn joins_nulls(plan: &LogicalPlan) -> Result<bool> {
    plan.exists(|node| {
        Ok(matches!(node, LogicalPlan::Join(join)
            if join.null_equality == NullEquality::NullEqualsNull))
    })
}

/// DataFusion 55 pushes a condition without columns below every aggregate, of which one without keys, or with the empty grouping set, has a row
/// where its input has none: `SELECT count(*) FROM t HAVING NULL`. There the conditions stay above.
fn filters_a_row_of_nothing(plan: &LogicalPlan) -> Result<bool> {
    let LogicalPlan::Filter(filter) = plan else {
        return Ok(false);
    };
    let LogicalPlan::Aggregate(aggregate) = filter.input.as_ref() else {
        return Ok(false);
    };
    let mut keys = aggregate.group_expr.iter();
    let conditions = split_conjunction(&filter.predicate);
    Ok(keys.all(|key| matches!(key, Expr::GroupingSet(_)))
        && conditions
            .iter()
            .any(|condition| condition.column_refs().is_empty()))
}

#[cfg(test)]
mod tests {
    use super::logical;

    #[test]
    fn each_rule_that_is_kept_from_some_plans_exists() {
        let rules = format!("{:?}", logical());
        assert_eq!(rules.matches("Kept {").count(), 2);
        assert_eq!(rules.matches("WithoutDependencies {").count(), 1);
    }
}
