//! The first rows of an order, the least and the greatest value: through an index where one leads there soon.
//!
//! ```text
//!   IndexFirst ─┬─ the first rows, read in the index's order          tried first
//!               └─ the plan as it was: sort, or aggregate all rows     if that gave up
//! ```
//!
//! `ORDER BY key LIMIT n` reads the index from one end. `min(key)` is the first row with NULLs last, `max(key)` the first one descending: the aggregates run over those rows
//! alone. Filters stay between the scan and the limit. Where they let too few rows through, the scan gives up after a small share of the table, and
//! the plan as it was runs after all.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::SortOptions;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::limit::LocalLimitExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PhysicalExpr,
    PlanProperties,
};
use futures::{StreamExt, TryStreamExt};

use super::exec::MorselScan;
use super::merge::OrderedMergeExec;
use super::ordered::gave_up;

/// Runs a plan that may give up, then another one for the same rows.
#[derive(Debug)]
pub struct IndexFirst {
    attempt: Arc<dyn ExecutionPlan>,
    otherwise: Arc<dyn ExecutionPlan>,
}

impl DisplayAs for IndexFirst {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "IndexFirst: by index, or else in full")
    }
}

impl ExecutionPlan for IndexFirst {
    fn name(&self) -> &str {
        "IndexFirst"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.otherwise.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.attempt, &self.otherwise]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.pop()) {
            (Some(otherwise), Some(attempt)) => Ok(Arc::new(IndexFirst { attempt, otherwise })),
            _ => internal_err!("a try has two children"),
        }
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let mut attempt = self.attempt.execute(partition, Arc::clone(&context))?;
        let otherwise = Arc::clone(&self.otherwise);
        let schema = self.schema();
        let of_rows = Arc::clone(&schema);
        let rows = async move {
            // Nothing goes out before it is known that all of it comes from here.
            let mut rows = Vec::new();
            loop {
                match attempt.next().await {
                    Some(Ok(batch)) => rows.push(batch),
                    Some(Err(error)) if gave_up(&error) => {
                        return otherwise.execute(partition, context);
                    }
                    Some(Err(error)) => return Err(error),
                    None => break,
                }
            }
            let rows: Vec<Result<RecordBatch>> = rows.into_iter().map(Ok).collect();
            let rows = RecordBatchStreamAdapter::new(of_rows, futures::stream::iter(rows));
            Ok(Box::pin(rows) as SendableRecordBatchStream)
        };
        let stream = futures::stream::once(rows).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream)))
    }
}

/// Puts [`IndexFirst`] over sorts with a limit, and over the least and greatest of all rows.
#[derive(Debug)]
pub struct FirstByIndex;

impl PhysicalOptimizerRule for FirstByIndex {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_down(|node| {
            if node.output_partitioning().partition_count() != 1 {
                return Ok(Transformed::no(node));
            }
            let attempt = match first_rows(&node)? {
                Some(attempt) => Some(attempt),
                None => extremes(&node)?,
            };
            let Some(attempt) = attempt else {
                return Ok(Transformed::no(node));
            };
            let tried: Arc<dyn ExecutionPlan> = Arc::new(IndexFirst {
                attempt,
                otherwise: node,
            });
            Ok(Transformed::new(tried, true, TreeNodeRecursion::Jump))
        })
        .data()
    }

    fn name(&self) -> &str {
        "first_by_index"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The rows of a sort with a limit, by an index.
fn first_rows(node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let (sort, fetch) = match node.downcast_ref::<SortPreservingMergeExec>() {
        Some(merge) => (merge.input(), merge.fetch()),
        None => (node, node.fetch()),
    };
    // Partitions may be projected after each was sorted.
    let mut projections = Vec::new();
    let mut sort = sort;
    while let Some(projection) = sort.downcast_ref::<ProjectionExec>() {
        projections.push(Arc::clone(sort));
        sort = projection.input();
    }
    let (Some(sort), Some(fetch)) = (sort.downcast_ref::<SortExec>(), fetch) else {
        return Ok(None);
    };
    let Some(orders) = orders(sort.expr()) else {
        return Ok(None);
    };
    let Some(rows) = in_order(sort.input(), &orders, fetch)? else {
        return Ok(None);
    };
    let mut rows: Arc<dyn ExecutionPlan> = Arc::new(LocalLimitExec::new(rows, fetch));
    while let Some(projection) = projections.pop() {
        rows = replace_children_if_necessary(projection, vec![rows])?;
    }
    Ok(Some(rows))
}

/// A column and how its values come.
type Order = (usize, SortOptions);

fn orders(ordering: &LexOrdering) -> Option<Vec<Order>> {
    let order = |sort: &PhysicalSortExpr| {
        let column = sort.expr.downcast_ref::<Column>()?;
        Some((column.index(), sort.options))
    };
    ordering.iter().map(order).collect()
}

/// Aggregates that are all the least or the greatest of a column, over the first rows by it.
fn extremes(node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(last) = node.downcast_ref::<AggregateExec>() else {
        return Ok(None);
    };
    let mut input = last.input();
    let mut first = last;
    if !matches!(
        last.mode(),
        AggregateMode::Single | AggregateMode::SinglePartitioned
    ) {
        while let Some(merge) = merged(input) {
            input = merge;
        }
        match input.downcast_ref::<AggregateExec>() {
            Some(partial) if *partial.mode() == AggregateMode::Partial => first = partial,
            _ => return Ok(None),
        }
        input = first.input();
    }
    if !first.group_expr().is_true_no_grouping() || first.filter_expr().iter().any(Option::is_some)
    {
        return Ok(None);
    }
    let schema = input.schema();
    let mut rows: Vec<Arc<dyn ExecutionPlan>> = Vec::new();
    for aggregate in first.aggr_expr() {
        let descending = match aggregate.fun().name() {
            "min" => false,
            "max" => true,
            _ => return Ok(None),
        };
        let arguments = aggregate.expressions();
        let [argument] = arguments.as_slice() else {
            return Ok(None);
        };
        let Some(column) = argument.downcast_ref::<Column>() else {
            return Ok(None);
        };
        // What is least and greatest among numbers that are none is the aggregate's own matter.
        if schema.field(column.index()).data_type().is_floating() {
            return Ok(None);
        }
        let options = SortOptions {
            descending,
            nulls_first: false,
        };
        match in_order(input, &[(column.index(), options)], 1)? {
            Some(found) => rows.push(Arc::new(LocalLimitExec::new(found, 1))),
            None => return Ok(None),
        }
    }
    let rows = match (rows.pop(), rows.is_empty()) {
        (None, _) => return Ok(None),
        (Some(one), true) => one,
        (Some(one), false) => {
            rows.push(one);
            Arc::new(OrderedMergeExec::new(UnionExec::try_new(rows)?, None))
        }
    };
    let aggregate = AggregateExec::try_new(
        AggregateMode::Single,
        first.group_expr().clone(),
        first.aggr_expr().to_vec(),
        first.filter_expr().to_vec(),
        rows,
        schema,
    )?;
    Ok(
        (aggregate.schema() == node.schema())
            .then(|| Arc::new(aggregate) as Arc<dyn ExecutionPlan>),
    )
}

/// The input of an operator that only brings partitions together or apart.
fn merged(node: &Arc<dyn ExecutionPlan>) -> Option<&Arc<dyn ExecutionPlan>> {
    if node.fetch().is_some() {
        return None;
    }
    let passes = node.is::<CoalescePartitionsExec>()
        || node.is::<OrderedMergeExec>()
        || node.is::<RepartitionExec>()
        || node.is::<CooperativeExec>();
    match (passes, node.children().as_slice()) {
        (true, [input]) => Some(*input),
        _ => None,
    }
}

/// A plan's rows in an order of its columns, if filters and projections are all that is between it and a scan that an index serves.
fn in_order(
    node: &Arc<dyn ExecutionPlan>,
    orders: &[Order],
    wanted: usize,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if node.fetch().is_some() {
        return Ok(None);
    }
    if let Some(input) = merged(node) {
        return in_order(input, orders, wanted);
    }
    if let Some(scan) = node.downcast_ref::<MorselScan>() {
        return scan.in_order(orders, wanted);
    }
    let mut above = Arc::clone(node);
    let (input, below): (_, Option<Vec<Order>>) =
        if let Some(filter) = node.downcast_ref::<FilterExec>() {
            // Else it would wait for more rows than anybody wants.
            above = Arc::new(filter.with_batch_size(1)?);
            let below = |(at, options): &Order| match filter.projection() {
                Some(projection) => Some((*projection.get(*at)?, *options)),
                None => Some((*at, *options)),
            };
            (filter.input(), orders.iter().map(below).collect())
        } else if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
            let below = |(at, options): &Order| {
                let column = projection.expr().get(*at)?.expr.downcast_ref::<Column>()?;
                Some((column.index(), *options))
            };
            (projection.input(), orders.iter().map(below).collect())
        } else {
            return Ok(None);
        };
    let Some(below) = below else { return Ok(None) };
    let Some(input) = in_order(input, &below, wanted)? else {
        return Ok(None);
    };
    Ok(Some(replace_children_if_necessary(above, vec![input])?))
}
