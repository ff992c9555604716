//! Row by row out of batches.
//!
//! Rows are turned into Python objects a few at a time, column by column: one for the first fetch, then more and more, so that a
//! point query pays for one row and a loop over millions for no dispatch.

use std::collections::VecDeque;

use arrow::array::RecordBatch;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::objects;

/// Most rows that are converted ahead of their fetch.
const MOST_AHEAD: usize = 1024;

/// A position in a sequence of batches.
#[derive(Default)]
pub(crate) struct RowCursor {
    converted: VecDeque<Py<PyTuple>>,
    batch: Option<RecordBatch>,
    /// Rows of `batch` that were converted.
    offset: usize,
    ahead: usize,
}

/// Where a cursor gets its next batch that has rows.
pub(crate) type Pull<'a> = &'a mut dyn FnMut(Python<'_>) -> PyResult<Option<RecordBatch>>;

impl RowCursor {
    /// The next row.
    pub(crate) fn next<'py>(
        &mut self,
        py: Python<'py>,
        pull: Pull<'_>,
    ) -> PyResult<Option<Bound<'py, PyTuple>>> {
        if let Some(row) = self.converted() {
            return Ok(Some(row.into_bound(py)));
        }
        self.ahead = (self.ahead * 4).clamp(1, MOST_AHEAD);
        let rows = self.convert(py, self.ahead, pull)?;
        self.converted.extend(rows.into_iter().map(Bound::unbind));
        Ok(self.converted.pop_front().map(|row| row.into_bound(py)))
    }

    /// The next row, if it was converted ahead.
    pub(crate) fn converted(&mut self) -> Option<Py<PyTuple>> {
        self.converted.pop_front()
    }

    /// At most `limit` rows; all when `None`.
    pub(crate) fn take<'py>(
        &mut self,
        py: Python<'py>,
        limit: Option<usize>,
        pull: Pull<'_>,
    ) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        let mut left = limit.unwrap_or(usize::MAX);
        while left > 0
            && let Some(row) = self.converted.pop_front()
        {
            list.append(row)?;
            left -= 1;
        }
        while left > 0 {
            let rows = self.convert(py, left, &mut *pull)?;
            if rows.is_empty() {
                break;
            }
            left -= rows.len();
            for row in rows {
                list.append(row)?;
            }
        }
        Ok(list)
    }

    /// What is left of the batch in hand, for a reader of batches.
    pub(crate) fn unread(&mut self) -> Option<RecordBatch> {
        let batch = self.batch.take()?;
        let from = self.offset - self.converted.len();
        self.converted.clear();
        Some(batch.slice(from, batch.num_rows() - from))
    }

    /// Converts up to `limit` rows of one batch; none at the end.
    fn convert<'py>(
        &mut self,
        py: Python<'py>,
        limit: usize,
        pull: Pull<'_>,
    ) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        if self
            .batch
            .as_ref()
            .is_none_or(|batch| self.offset == batch.num_rows())
        {
            self.batch = pull(py)?;
            self.offset = 0;
        }
        let Some(batch) = &self.batch else {
            return Ok(Vec::new());
        };
        let length = limit.min(batch.num_rows() - self.offset);
        let rows = objects::rows(py, &batch.slice(self.offset, length))?;
        self.offset += length;
        Ok(rows)
    }
}
