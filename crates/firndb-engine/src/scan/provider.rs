//! The `TableProvider` over a [`MorselSource`]: projection, limit and static filters.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;

use super::exec::{MorselScan, Selection};
use super::source::MorselSource;
use crate::expr::CAST;

/// A source of morsels as a table.
///
/// Filters are `Inexact`: the scan skips morsels that can't match, the filter stays above it.
#[derive(Debug)]
pub struct MorselTable {
    source: Arc<dyn MorselSource>,
}

impl MorselTable {
    /// A table over `source`.
    pub fn new(source: Arc<dyn MorselSource>) -> Self {
        MorselTable { source }
    }

    /// The morsels in which a row may pass all of `filters`, in order; all of them if a filter may fail over a row: whether a query fails should
    /// not depend on what is frozen.
    fn select(&self, state: &dyn Session, filters: &[Expr]) -> Result<Selection> {
        if filters.is_empty()
            || !self.source.has_zones()
            || filters
                .iter()
                .any(|filter| reads_text(filter, self.source.schema()))
        {
            return Ok(Selection::all(self.source.morsels()));
        }
        let named = DFSchema::try_from(Arc::clone(self.source.schema()))?;
        let filters = filters
            .iter()
            .filter_map(|filter| state.create_physical_expr(filter.clone(), &named).ok())
            .collect();
        Ok(Selection::of(self.source.as_ref(), filters))
    }
}

#[async_trait]
impl TableProvider for MorselTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.source.schema())
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        filters
            .iter()
            .map(|filter| {
                Ok(if self.source.has_zones() && is_self_contained(filter)? {
                    TableProviderFilterPushDown::Inexact
                } else {
                    TableProviderFilterPushDown::Unsupported
                })
            })
            .collect()
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let all = || (0..self.source.schema().fields().len()).collect();
        let projection = projection.cloned().unwrap_or_else(all);
        self.source.check_readable(&projection)?;
        if let Some(source) = self.source.through_index(filters)? {
            let selection = Selection::all(source.morsels());
            let partitions = state.config().target_partitions();
            return Ok(Arc::new(MorselScan::try_new(
                source, projection, selection, partitions, limit,
            )?));
        }
        let selection = self.select(state, filters)?;
        let scan = MorselScan::try_new(
            Arc::clone(&self.source),
            projection,
            selection,
            state.config().target_partitions(),
            limit,
        )?;
        Ok(Arc::new(scan.with_filters(filters)))
    }
}

/// Whether a filter can be judged without running anything else: no subquery, no outer column, nothing volatile.
fn is_self_contained(filter: &Expr) -> Result<bool> {
    let mut contained = !filter.is_volatile();
    filter.apply(|e| {
        if matches!(
            e,
            Expr::ScalarSubquery(_)
                | Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::SetComparison(_)
                | Expr::OuterReferenceColumn(..)
                | Expr::Placeholder(_)
        ) {
            contained = false;
            return Ok(TreeNodeRecursion::Stop);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(contained)
}

/// Whether a filter makes something else of a column's text, which need not be there to be made.
fn reads_text(filter: &Expr, schema: &Schema) -> bool {
    let of_text = |argument: &Expr| {
        let Expr::Column(column) = argument else {
            return false;
        };
        let field = schema.field_with_name(&column.name);
        field.is_ok_and(|field| field.data_type().is_string())
    };
    let found = filter.exists(|part| {
        Ok(match part {
            Expr::ScalarFunction(call) => call.func.name() == CAST && call.args.iter().any(of_text),
            _ => false,
        })
    });
    found.unwrap_or(true)
}
