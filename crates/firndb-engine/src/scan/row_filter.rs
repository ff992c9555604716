//! Rows that a dynamic filter says nobody needs, taken away right after they were read, while that pays.
//!
//! A join's build side knows the keys that can match; dropping the others before they are repartitioned and probed saves most of that
//! work when few match, and costs a lookup for nothing when most do. So the filter is on probation: it stays on as long as it takes away
//! a good part of the rows, and is tried again when the filter has moved.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::{BatchCoalescer, prep_null_mask_filter};
use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::conjunction;
use datafusion::physical_expr::expressions::DynamicFilterTracking;
use datafusion::physical_plan::PhysicalExpr;

use super::source::MORSEL_ROWS;

/// Rows after which a filter's use is judged.
const PROBATION: usize = 2 * MORSEL_ROWS;

/// A filter over the batches of one partition; order stays.
pub struct RowFilter {
    predicate: Arc<dyn PhysicalExpr>,
    tracking: DynamicFilterTracking,
    active: bool,
    /// Rows seen and rows left since the filter was last judged.
    seen: usize,
    left: usize,
    /// What is left of filtered batches, until it fills one.
    pending: BatchCoalescer,
}

impl RowFilter {
    /// A filter by all of `predicates`; `None` when there are none.
    pub fn new(predicates: &[Arc<dyn PhysicalExpr>], schema: &SchemaRef) -> Option<Self> {
        if predicates.is_empty() {
            return None;
        }
        let predicate = conjunction(predicates.iter().cloned());
        Some(RowFilter {
            tracking: DynamicFilterTracking::classify(&predicate),
            predicate,
            active: true,
            seen: 0,
            left: 0,
            pending: BatchCoalescer::new(Arc::clone(schema), MORSEL_ROWS),
        })
    }

    /// Filters a batch; complete batches go to `ready`. Returns the number of rows taken away.
    pub fn push(&mut self, batch: RecordBatch, ready: &mut VecDeque<RecordBatch>) -> Result<usize> {
        if self.tracking.watcher().is_some_and(|w| w.changed()) {
            self.active = true;
            (self.seen, self.left) = (0, 0);
        }
        if !self.active || batch.num_rows() == 0 {
            self.pass(batch, ready)?;
            return Ok(0);
        }
        let mask = match self.predicate.evaluate(&batch) {
            Ok(ColumnarValue::Array(mask)) => mask,
            Ok(ColumnarValue::Scalar(ScalarValue::Boolean(Some(false)))) => {
                return Ok(batch.num_rows());
            }
            // Nothing known yet, or a predicate that can't be evaluated here: the operator above decides.
            Ok(ColumnarValue::Scalar(_)) => {
                self.pass(batch, ready)?;
                return Ok(0);
            }
            Err(_) => {
                self.active = false;
                self.pass(batch, ready)?;
                return Ok(0);
            }
        };
        let mask = mask.as_boolean();
        let mask = if mask.null_count() > 0 {
            prep_null_mask_filter(mask)
        } else {
            mask.clone()
        };
        let (rows, kept) = (batch.num_rows(), mask.true_count());
        self.seen += rows;
        self.left += kept;
        if self.seen >= PROBATION {
            self.active = self.left * 4 <= self.seen * 3;
            (self.seen, self.left) = (0, 0);
        }
        if kept == rows {
            self.pass(batch, ready)?;
        } else if kept > 0 {
            self.pending.push_batch_with_filter(batch, &mask)?;
            self.collect(ready);
        }
        Ok(rows - kept)
    }

    /// Hands out what is pending.
    pub fn finish(&mut self, ready: &mut VecDeque<RecordBatch>) -> Result<()> {
        self.pending.finish_buffered_batch()?;
        self.collect(ready);
        Ok(())
    }

    /// A batch goes on whole, after what came before it.
    fn pass(&mut self, batch: RecordBatch, ready: &mut VecDeque<RecordBatch>) -> Result<()> {
        self.finish(ready)?;
        if batch.num_rows() > 0 {
            ready.push_back(batch);
        }
        Ok(())
    }

    fn collect(&mut self, ready: &mut VecDeque<RecordBatch>) {
        while let Some(batch) = self.pending.next_completed_batch() {
            ready.push_back(batch);
        }
    }
}
