//! Which columns determine which: what DataFusion must not be told.
//!
//! DataFusion 55 says of a grouping that the keys of a grouping below it determine *all* its columns, also where a join stands between. A
//! grouping above is then planned by columns that no one asked for (`SELECT o, count(*) … GROUP BY o` by `v` as well), or loses keys when it is optimized.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{FunctionalDependencies, Result};
use datafusion::logical_expr::{Distinct, LogicalPlan};
use datafusion::sql::sqlparser::ast::{GroupByExpr, Query, SetExpr};

/// Whether a query in FROM groups, so that its columns would determine one another.
pub(super) fn groups(query: &Query) -> bool {
    let SetExpr::Select(select) = query.body.as_ref() else {
        return false;
    };
    !matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty())
}

/// A plan whose columns determine nothing.
pub(super) fn independent(plan: LogicalPlan) -> Result<LogicalPlan> {
    let cleared = plan.transform_down(|node| {
        // These have the schema of their input.
        if matches!(
            node,
            LogicalPlan::Filter(_)
                | LogicalPlan::Sort(_)
                | LogicalPlan::Limit(_)
                | LogicalPlan::Repartition(_)
                | LogicalPlan::Distinct(Distinct::All(_))
        ) {
            return Ok(Transformed::no(node));
        }
        let mut cleared = without_dependencies(node)?;
        cleared.tnr = TreeNodeRecursion::Stop;
        Ok(cleared)
    })?;
    Ok(cleared.data)
}

/// An operator whose columns determine nothing.
pub(crate) fn without_dependencies(mut node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let schema = match &mut node {
        LogicalPlan::Projection(node) => &mut node.schema,
        LogicalPlan::Join(node) => &mut node.schema,
        LogicalPlan::Aggregate(node) => &mut node.schema,
        LogicalPlan::SubqueryAlias(node) => &mut node.schema,
        LogicalPlan::Window(node) => &mut node.schema,
        LogicalPlan::Union(node) => &mut node.schema,
        LogicalPlan::Unnest(node) => &mut node.schema,
        LogicalPlan::TableScan(node) => &mut node.projected_schema,
        LogicalPlan::Distinct(Distinct::On(node)) => &mut node.schema,
        _ => return Ok(Transformed::no(node)),
    };
    if schema.functional_dependencies().is_empty() {
        return Ok(Transformed::no(node));
    }
    let bare = schema.as_ref().clone();
    *schema = Arc::new(bare.with_functional_dependencies(FunctionalDependencies::empty())?);
    Ok(Transformed::yes(node))
}
