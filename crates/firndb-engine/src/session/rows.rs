//! Results: rows that are produced as they are read.
//!
//! ```text
//! Planned ──────── first read ───────▶ Running (a task on the workers, two batches ahead) ──▶ Done
//!    ├── begin ──▶ Begun ── first read ──▶ ┘                                                   ▲
//!    └────────── materialize ──────────▶ Stored ───────────────────────────────────────────────┘
//! ```
//!
//! `begin` is for callers that expect a statement's errors from the statement itself: most show in the first batch.
//!
//! A result reads the snapshot of its statement, so later statements do not change it. When its transaction ends after writing,
//! the session materializes what was not read yet: a snapshot of uncommitted rows does not outlive their transaction.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::execution::SendableRecordBatchStream;
use firndb_storage::Form;
use futures::StreamExt;
use parking_lot::Mutex;

use super::cancel::Cancellation;
use super::workers::Workers;
use crate::error::{Error, Result, SqlState};
use crate::types::full_schema;

/// A query that is planned and not yet started.
#[async_trait]
pub trait PlannedQuery: Send + Sync {
    /// The columns that it yields.
    fn schema(&self) -> SchemaRef;
    /// Whether it yields columns of a table as they are, all rows: it has no errors of its own, and any form is free.
    fn is_bare(&self) -> bool;
    /// Whether its columns are computed, so that every form is a conversion of what it yields.
    fn computes(&self) -> bool;
    /// Starts it on the workers.
    fn start(&self) -> Result<SendableRecordBatchStream>;
    /// The same query, planned to yield another form.
    async fn in_form(&self, form: Form) -> Result<Arc<dyn PlannedQuery>>;
}

/// Rows to read. Schema types: string and binary views, decimal128 (Form::Compute) unless asked otherwise.
/// Dropping it ends the query.
pub struct Rows {
    schema: SchemaRef,
    shared: Arc<SharedRows>,
}

/// The part of a result that its session knows.
pub struct SharedRows {
    state: Mutex<State>,
    cancellation: Arc<Cancellation>,
    workers: Option<Arc<Workers>>,
    /// Set when reading fails: the explicit transaction of the statement has failed then, too.
    failure: OnceLock<Arc<AtomicBool>>,
}

enum State {
    Planned(Arc<dyn PlannedQuery>),
    /// Running, its first batch read ahead; the query is kept in case another form is asked for.
    Begun {
        query: Arc<dyn PlannedQuery>,
        stream: SendableRecordBatchStream,
        first: RecordBatch,
    },
    Running(SendableRecordBatchStream),
    Stored(VecDeque<RecordBatch>),
    Failed(Error),
    Done,
}

impl std::fmt::Debug for Rows {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Rows")
            .field("schema", &self.schema)
            .finish_non_exhaustive()
    }
}

impl Rows {
    /// Rows that are already there.
    pub fn from_batches(schema: SchemaRef, batches: Vec<RecordBatch>) -> Rows {
        Rows {
            schema: full_schema(&schema),
            shared: Arc::new(SharedRows {
                state: Mutex::new(State::Stored(batches.into())),
                cancellation: Arc::new(Cancellation::default()),
                workers: None,
                failure: OnceLock::new(),
            }),
        }
    }

    /// The rows of a query, started when the first is read.
    pub(crate) fn planned(
        query: Arc<dyn PlannedQuery>,
        cancellation: Arc<Cancellation>,
        workers: Arc<Workers>,
    ) -> Rows {
        Rows {
            schema: full_schema(&query.schema()),
            shared: Arc::new(SharedRows {
                state: Mutex::new(State::Planned(query)),
                cancellation,
                workers: Some(workers),
                failure: OnceLock::new(),
            }),
        }
    }

    /// The columns, with their names' case and SQL type metadata.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Asks for the form that batches come in, before the first is read: `Compute` (default), `Consumer`, `Native`.
    /// Bare columns of frozen blocks come without a copy in `Consumer` (but decimals) and `Native`.
    pub fn set_form(&mut self, form: Form) -> Result<()> {
        let mut state = self.shared.state.lock();
        let query = match &*state {
            State::Planned(query) => query,
            State::Begun { .. } if form == Form::Compute => return Ok(()),
            State::Begun { query, .. } if query.computes() => {
                self.schema = convert::schema(&self.schema, form);
                return Ok(());
            }
            // Starting again yields the same rows: nobody has seen the first ones.
            State::Begun { query, .. } => query,
            _ if form == Form::Compute => return Ok(()),
            _ => {
                drop(state);
                return self.convert(form);
            }
        };
        let Some(workers) = &self.shared.workers else {
            return Err(Error::internal("a planned result without workers"));
        };
        let cancellation = &self.shared.cancellation;
        // Planned anew, on a stack for the deepest of statements.
        let planned = workers.block_on(true, cancellation.guard(query.in_form(form)))?;
        self.schema = full_schema(&planned.schema());
        *state = State::Planned(planned);
        Ok(())
    }

    /// Computes the first batch now, unless the rows are a table's own: what is wrong with the statement shows before its rows are asked for.
    pub fn begin(&mut self) -> Result<()> {
        let mut state = self.shared.state.lock();
        let State::Planned(query) = &*state else {
            return Ok(());
        };
        if query.is_bare() {
            return Ok(());
        }
        let query = Arc::clone(query);
        let Some(workers) = &self.shared.workers else {
            return Err(Error::internal("a planned result without workers"));
        };
        let cancellation = &self.shared.cancellation;
        let begun = query.start().and_then(|mut stream| {
            let first = workers.block_on(
                false,
                cancellation.guard(async { Ok(stream.next().await.transpose()?) }),
            )?;
            Ok((stream, first))
        });
        match begun {
            Ok((stream, Some(first))) => {
                *state = State::Begun {
                    query,
                    stream,
                    first,
                };
                Ok(())
            }
            Ok((_, None)) => {
                *state = State::Stored(VecDeque::new());
                Ok(())
            }
            Err(error) => {
                *state = State::Done;
                self.shared.fail();
                Err(error)
            }
        }
    }

    /// Stored rows in another form.
    fn convert(&mut self, form: Form) -> Result<()> {
        let mut state = self.shared.state.lock();
        let State::Stored(batches) = &mut *state else {
            return Err(Error::new(
                SqlState::ObjectInUse,
                "the form of a result can't change after its first row was read",
            ));
        };
        let schema = convert::schema(&self.schema, form);
        for batch in batches.iter_mut() {
            *batch = convert::batch(batch, &schema)?;
        }
        self.schema = schema;
        Ok(())
    }

    /// Reads everything that is left.
    pub fn collect(self) -> Result<Vec<RecordBatch>> {
        Iterator::collect(self)
    }

    /// Stored rows under another schema of the same types; other rows stay as they are.
    pub(crate) fn renamed(mut self, name: impl Fn(&SchemaRef) -> SchemaRef) -> Result<Rows> {
        let mut state = self.shared.state.lock();
        if let State::Stored(batches) = &mut *state {
            let schema = name(&self.schema);
            for batch in batches.iter_mut() {
                *batch = convert::batch(batch, &schema)?;
            }
            self.schema = schema;
        }
        drop(state);
        Ok(self)
    }

    /// A computed batch in the form that was asked for after the first was computed.
    fn converted(&self, batch: RecordBatch) -> Result<RecordBatch> {
        if Arc::ptr_eq(batch.schema_ref(), &self.schema) {
            return Ok(batch);
        }
        convert::batch(&batch, &self.schema)
    }

    /// What a session keeps to materialize it.
    pub(crate) fn shared(&self) -> &Arc<SharedRows> {
        &self.shared
    }
}

impl Iterator for Rows {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        let mut state = self.shared.state.lock();
        loop {
            if self.shared.cancellation.is_cancelled() && !matches!(*state, State::Done) {
                *state = State::Done;
                self.shared.fail();
                return Some(Err(Error::cancelled()));
            }
            match &mut *state {
                State::Begun { .. } => {
                    if let State::Begun { stream, first, .. } =
                        std::mem::replace(&mut *state, State::Done)
                    {
                        *state = State::Running(stream);
                        return Some(self.converted(first));
                    }
                }
                State::Planned(query) => match query.start() {
                    Ok(stream) => *state = State::Running(stream),
                    Err(error) => *state = State::Failed(error),
                },
                State::Running(stream) => {
                    let Some(workers) = &self.shared.workers else {
                        *state = State::Failed(Error::internal("a running result without workers"));
                        continue;
                    };
                    let cancellation = &self.shared.cancellation;
                    let next = workers
                        .block_on(false, cancellation.guard(async { Ok(stream.next().await) }));
                    match next {
                        Ok(Some(Ok(batch))) => return Some(self.converted(batch)),
                        Ok(Some(Err(error))) => *state = State::Failed(error.into()),
                        Ok(None) => *state = State::Done,
                        Err(error) => *state = State::Failed(error),
                    }
                }
                State::Stored(batches) => match batches.pop_front() {
                    Some(batch) => return Some(self.converted(batch)),
                    None => *state = State::Done,
                },
                State::Failed(error) => {
                    let error = error.clone();
                    *state = State::Done;
                    self.shared.fail();
                    return Some(Err(error));
                }
                State::Done => return None,
            }
        }
    }
}

impl SharedRows {
    /// Tells a transaction when reading these rows fails.
    pub(crate) fn report_failure(&self, failure: &Arc<AtomicBool>) {
        // Only the transaction of the statement reports, once.
        let _ = self.failure.set(Arc::clone(failure));
    }

    fn fail(&self) {
        if let Some(failure) = self.failure.get() {
            failure.store(true, Ordering::Release);
        }
    }

    /// Reads what was not read yet into memory.
    pub(crate) fn materialize(&self) {
        let mut state = self.state.lock();
        let mut batches = VecDeque::new();
        let started = match std::mem::replace(&mut *state, State::Done) {
            State::Planned(query) => query.start(),
            State::Begun { stream, first, .. } => {
                batches.push_back(first);
                Ok(stream)
            }
            State::Running(stream) => Ok(stream),
            other => {
                *state = other;
                return;
            }
        };
        let read = started.and_then(|mut stream| {
            let Some(workers) = &self.workers else {
                return Err(Error::internal("a running result without workers"));
            };
            workers.block_on(
                false,
                self.cancellation.guard(async {
                    while let Some(batch) = stream.next().await {
                        batches.push_back(batch?);
                    }
                    Ok(())
                }),
            )
        });
        *state = match read {
            Ok(()) => State::Stored(batches),
            Err(error) => State::Failed(error),
        };
    }
}

/// Changing the form of rows that were computed.
pub(crate) mod convert {
    use std::sync::Arc;

    use arrow::array::{RecordBatch, RecordBatchOptions};
    use arrow::compute::cast;
    use arrow::datatypes::{DataType, Schema, SchemaRef};
    use firndb_storage::Form;

    use crate::error::Result;
    use crate::types::retyped;

    /// The schema of computed rows in a form: what is computed has no stored form, so `Native` leaves it as it is.
    pub(crate) fn schema(schema: &SchemaRef, form: Form) -> SchemaRef {
        if form != Form::Consumer {
            return Arc::clone(schema);
        }
        let fields = schema.fields().iter().map(|field| {
            let wanted = match field.data_type() {
                DataType::Utf8View => DataType::Utf8,
                DataType::BinaryView => DataType::Binary,
                _ => return Arc::clone(field),
            };
            Arc::new(field.as_ref().clone().with_data_type(wanted))
        });
        Arc::new(Schema::new_with_metadata(
            fields.collect::<Vec<_>>(),
            schema.metadata().clone(),
        ))
    }

    /// A batch under a schema of as many columns, cast where types differ.
    pub(crate) fn batch(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
        let columns = batch
            .columns()
            .iter()
            .zip(schema.fields())
            .map(|(column, field)| {
                if column.data_type().is_nested() {
                    retyped(column, field.data_type())
                } else if column.data_type() == field.data_type() {
                    Ok(Arc::clone(column))
                } else {
                    cast(column, field.data_type())
                }
            })
            .collect::<std::result::Result<Vec<_>, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(
            Arc::clone(schema),
            columns,
            &options,
        )?)
    }
}
