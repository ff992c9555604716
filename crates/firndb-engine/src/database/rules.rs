//! DataFusion's logical rules without what answers wrongly.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{NullEquality, Result};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Distinct, Expr, Filter, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, Optimizer, OptimizerConfig, OptimizerRule};

use crate::expr::filter_behind;
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
            "push_down_filter" => Arc::new(Filters { rule }),
            "optimize_projections" | "eliminate_join" => Arc::new(Prepared {
                rule,
                prepare: told_of_no_dependencies,
            }),
            "replace_distinct_aggregate" => Arc::new(Prepared {
                rule,
                prepare: sorted_by_each_once,
            }),
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

/// The rule that moves conditions down.
///
/// DataFusion 55 makes one filter of two that meet, and evaluates all of it for every row. So the outer condition is guarded by the inner one:
/// `SELECT q FROM (SELECT 10 / a AS q FROM t WHERE a <> 0) WHERE q > 1`.
#[derive(Debug)]
struct Filters {
    rule: Rule,
}

impl OptimizerRule for Filters {
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
        let LogicalPlan::Filter(mut filter) = plan else {
            return self.rule.rewrite(plan, config);
        };
        let mut merged = false;
        while let LogicalPlan::Filter(inner) = filter.input.as_ref() {
            let predicate = filter_behind(inner.predicate.clone(), filter.predicate)?;
            filter = Filter::try_new(predicate, Arc::clone(&inner.input))?;
            merged = true;
        }
        let plan = LogicalPlan::Filter(filter);
        if filters_a_row_of_nothing(&plan) {
            return Ok(match merged {
                true => Transformed::yes(plan),
                false => Transformed::no(plan),
            });
        }
        let mut moved = self.rule.rewrite(plan, config)?;
        moved.transformed |= merged;
        Ok(moved)
    }
}

/// A rule that gets plans in another form.
#[derive(Debug)]
struct Prepared {
    rule: Rule,
    prepare: fn(LogicalPlan) -> Result<LogicalPlan>,
}

impl OptimizerRule for Prepared {
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
        self.rule.rewrite((self.prepare)(plan)?, config)
    }
}

/// DataFusion 55 says of a grouping that the keys of a grouping below it determine *all* its columns, also where a join stands between. Then it
/// drops the other keys of a grouping above: `SELECT DISTINCT u.c, d.n FROM (SELECT DISTINCT n FROM e) d, u` with `GROUP BY c, n` above it came to be grouped by `n`. Or it
/// makes a semi join of a join with such a grouping.
fn told_of_no_dependencies(plan: LogicalPlan) -> Result<LogicalPlan> {
    Ok(plan
        .transform_up_with_subqueries(without_dependencies)?
        .data)
}

/// `DISTINCT ON (x) … ORDER BY x, x`: DataFusion 55 counts the keys of the order once with and once without those that come again, and fails.
fn sorted_by_each_once(plan: LogicalPlan) -> Result<LogicalPlan> {
    Ok(match plan {
        LogicalPlan::Distinct(Distinct::On(mut distinct)) => {
            let mut seen = HashSet::new();
            if let Some(keys) = &mut distinct.sort_expr {
                keys.retain(|key| seen.insert(key.expr.clone()));
            }
            LogicalPlan::Distinct(Distinct::On(distinct))
        }
        other => other,
    })
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
fn filters_a_row_of_nothing(plan: &LogicalPlan) -> bool {
    let LogicalPlan::Filter(filter) = plan else {
        return false;
    };
    let LogicalPlan::Aggregate(aggregate) = filter.input.as_ref() else {
        return false;
    };
    let mut keys = aggregate.group_expr.iter();
    let conditions = split_conjunction(&filter.predicate);
    keys.all(|key| matches!(key, Expr::GroupingSet(_)))
        && conditions
            .iter()
            .any(|condition| condition.column_refs().is_empty())
}

#[cfg(test)]
mod tests {
    use super::logical;

    #[test]
    fn each_rule_that_is_kept_from_some_plans_exists() {
        let rules = format!("{:?}", logical());
        assert_eq!(rules.matches("Kept {").count(), 1);
        assert_eq!(rules.matches("Filters {").count(), 1);
        assert_eq!(rules.matches("Prepared {").count(), 3);
    }
}
