//! Skipping: morsels that no row of which can match a predicate, by least and greatest values and null counts.
//!
//! Evidence only ever takes away work: a predicate that can't be analysed, or whose evaluation fails, skips nothing.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::datatypes::{DataType, Float32Type, Float64Type, SchemaRef};
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column, ScalarValue};
use datafusion::physical_expr::expressions::DynamicFilterTracking;
use datafusion::physical_optimizer::pruning::PruningPredicateBuilder;
use datafusion::physical_plan::PhysicalExpr;

use super::source::MorselSource;

/// What is known about a run of morsels, columns named as in `schema`.
struct Zones<'a> {
    source: &'a dyn MorselSource,
    schema: &'a SchemaRef,
    /// Source column by column of `schema`.
    projection: &'a [usize],
    morsels: Range<usize>,
}

impl Zones<'_> {
    fn column(&self, column: &Column) -> Option<usize> {
        let position = self.schema.index_of(column.name()).ok()?;
        self.projection.get(position).copied()
    }

    fn slice(&self, bounds: Option<ArrayRef>) -> Option<ArrayRef> {
        bounds.map(|b| b.slice(self.morsels.start, self.morsels.len()))
    }
}

impl PruningStatistics for Zones<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        let column = self.column(column)?;
        self.slice(self.source.minimums(column))
            .map(|bounds| widen_zero(bounds, false))
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        let column = self.column(column)?;
        self.slice(self.source.maximums(column))
            .map(|bounds| widen_zero(bounds, true))
    }

    fn num_containers(&self) -> usize {
        self.morsels.len()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        let column = self.column(column)?;
        self.slice(self.source.null_counts(column))
    }

    // A morsel's row count is an upper bound only, so "all null" can't be told from it.
    fn row_counts(&self) -> Option<ArrayRef> {
        None
    }

    fn contained(&self, _: &Column, _: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}

/// Arrow orders -0.0 before 0.0, SQL holds them equal: a bound of zero takes the sign that keeps both in, and NaN bounds nothing.
fn widen_zero(bounds: ArrayRef, upper: bool) -> ArrayRef {
    match bounds.data_type() {
        DataType::Float32 => {
            let zero = if upper { 0.0 } else { -0.0 };
            Arc::new(
                bounds
                    .as_primitive::<Float32Type>()
                    .unary_opt::<_, Float32Type>(|v| {
                        (!v.is_nan()).then_some(if v == 0.0 { zero } else { v })
                    }),
            )
        }
        DataType::Float64 => {
            let zero = if upper { 0.0 } else { -0.0 };
            Arc::new(
                bounds
                    .as_primitive::<Float64Type>()
                    .unary_opt::<_, Float64Type>(|v| {
                        (!v.is_nan()).then_some(if v == 0.0 { zero } else { v })
                    }),
            )
        }
        _ => bounds,
    }
}

/// For each morsel of `morsels`, whether a row of it may match `predicate`, whose columns are those of `schema`.
/// `None` when the predicate tells nothing.
pub fn may_match(
    predicate: &Arc<dyn PhysicalExpr>,
    source: &dyn MorselSource,
    schema: &SchemaRef,
    projection: &[usize],
    morsels: Range<usize>,
) -> Option<Vec<bool>> {
    if morsels.is_empty() || !source.has_zones() {
        return None;
    }
    let pruning = PruningPredicateBuilder::new()
        .with_file_schema(Arc::clone(schema))
        .try_build(Arc::clone(predicate))
        .ok()?;
    if pruning.always_true() {
        return None;
    }
    let zones = Zones {
        source,
        schema,
        projection,
        morsels,
    };
    pruning.prune(&zones).ok()
}

/// Morsels judged in one go.
const WINDOW: usize = 64;

/// Skipping by a predicate that changes while the scan runs (the bound of a top-k, the keys of a join's build side).
///
/// Morsels are judged in windows; when the predicate moves, the rest of a window is judged anew.
pub struct DynamicSkipping {
    predicate: Arc<dyn PhysicalExpr>,
    tracking: DynamicFilterTracking,
    window: Range<usize>,
    verdicts: Option<Vec<bool>>,
}

impl std::fmt::Debug for DynamicSkipping {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DynamicSkipping")
            .field("predicate", &self.predicate.to_string())
            .finish_non_exhaustive()
    }
}

impl DynamicSkipping {
    /// Watches `predicate`.
    pub fn new(predicate: Arc<dyn PhysicalExpr>) -> Self {
        DynamicSkipping {
            tracking: DynamicFilterTracking::classify(&predicate),
            predicate,
            window: 0..0,
            verdicts: None,
        }
    }

    /// Whether a row of `morsel` may match now. Morsels are asked in ascending order.
    pub fn may_match(
        &mut self,
        morsel: usize,
        source: &dyn MorselSource,
        schema: &SchemaRef,
        projection: &[usize],
    ) -> bool {
        let moved = self.tracking.watcher().is_some_and(|w| w.changed());
        if moved || !self.window.contains(&morsel) {
            self.window = morsel..(morsel + WINDOW).min(source.morsels());
            self.verdicts = may_match(
                &self.predicate,
                source,
                schema,
                projection,
                self.window.clone(),
            );
        }
        self.verdicts
            .as_ref()
            .and_then(|v| v.get(morsel - self.window.start))
            .copied()
            .unwrap_or(true)
    }
}
