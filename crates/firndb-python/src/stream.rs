//! A result that is being read: batches still to come, and those read ahead of their reader.
//!
//! ```text
//! engine ─▶ Rows ─▶ Stream ─┬─▶ a connection's fetches
//!                           ├─▶ a relation that keeps what it reads
//!                           └─▶ an Arrow stream outside
//! ```
//!
//! The form of the batches is fixed when the first is read; a reader that wants another one gets them converted.
//! A stream is locked with the interpreter's lock released only.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use firndb::{Error, Form, Rows, SqlState};
use pyo3::prelude::*;

use crate::fork::Generation;

/// A result that is being read, shared by its reader and the connection that may have to settle it.
pub(crate) struct Stream {
    state: Mutex<State>,
    /// Nothing is left.
    finished: AtomicBool,
    /// Batches were read that no reader got.
    lost: AtomicBool,
    generation: Generation,
}

struct State {
    rows: Option<Rows>,
    /// The form that batches come in, once one was read.
    form: Option<Form>,
    schema: SchemaRef,
    ahead: VecDeque<RecordBatch>,
    /// Met while reading, after the batches read ahead; every later read meets it again.
    failure: Option<Error>,
}

impl Stream {
    pub(crate) fn new(rows: Rows) -> Arc<Stream> {
        Self::over(rows.schema(), Some(rows), VecDeque::new())
    }

    /// Batches that are there already.
    pub(crate) fn of_batches(schema: SchemaRef, batches: Vec<RecordBatch>) -> Arc<Stream> {
        Self::over(schema, None, VecDeque::from(batches))
    }

    fn over(schema: SchemaRef, rows: Option<Rows>, ahead: VecDeque<RecordBatch>) -> Arc<Stream> {
        Arc::new(Stream {
            state: Mutex::new(State {
                rows,
                form: None,
                schema,
                ahead,
                failure: None,
            }),
            finished: AtomicBool::new(false),
            lost: AtomicBool::new(false),
            generation: Generation::current(),
        })
    }

    /// Whether the end was reached. Takes no lock.
    pub(crate) fn is_finished(&self) -> bool {
        self.finished.load(Ordering::Acquire)
    }

    /// Notes that what a read returned did not arrive (its reader was interrupted): the rest alone would be a wrong result.
    pub(crate) fn lose(&self) {
        self.lost.store(true, Ordering::Release);
    }

    fn check(&self) -> Result<(), Error> {
        self.generation.check()?;
        if self.lost.load(Ordering::Acquire) {
            return Err(Error::new(
                SqlState::QueryCanceled,
                "the result was interrupted while it was read",
            ));
        }
        Ok(())
    }

    /// The next batch that has rows, in `form`.
    pub(crate) fn next(&self, form: Form) -> Result<Option<RecordBatch>, Error> {
        self.check()?;
        let mut state = self.lock();
        loop {
            let batch = match state.ahead.pop_front() {
                Some(batch) => Some(batch),
                None => state.read(form)?,
            };
            match batch {
                Some(batch) if batch.num_rows() == 0 => {}
                Some(batch) => return convert_batch(batch, form).map(Some),
                None => {
                    self.finished.store(true, Ordering::Release);
                    return Ok(None);
                }
            }
        }
    }

    /// Every batch that is left, in `form`, and their schema.
    pub(crate) fn rest(&self, form: Form) -> Result<(SchemaRef, Vec<RecordBatch>), Error> {
        self.check()?;
        let mut state = self.lock();
        state.begin(form)?;
        let schema = convert_schema(&state.schema, form);
        let mut batches = Vec::from(std::mem::take(&mut state.ahead));
        if let Some(failure) = &state.failure {
            return Err(failure.clone());
        }
        if let Some(rows) = state.rows.take() {
            match rows.collect() {
                Ok(rest) => batches.extend(rest),
                Err(failure) => return Err(state.failure.insert(failure).clone()),
            }
        }
        drop(state);
        self.finished.store(true, Ordering::Release);
        let batches = batches
            .into_iter()
            .filter(|batch| batch.num_rows() > 0)
            .map(|batch| with_schema(convert_batch(batch, form)?, &schema))
            .collect::<Result<Vec<_>, Error>>()?;
        Ok((schema, batches))
    }

    /// Reads what is left into memory, before its transaction writes or ends. A failure is the reader's to see.
    pub(crate) fn settle(&self) {
        if !self.generation.is_current() {
            return;
        }
        let mut state = self.lock();
        while let Ok(Some(batch)) = state.read(Form::Compute) {
            state.ahead.push_back(batch);
        }
    }

    /// The columns of the batches that `next` returns for `form`.
    pub(crate) fn schema(&self, form: Form) -> Result<SchemaRef, Error> {
        self.generation.check()?;
        let mut state = self.lock();
        state.begin(form)?;
        Ok(convert_schema(&state.schema, form))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Fixes the form, if no batch was read yet.
    fn begin(&mut self, form: Form) -> Result<(), Error> {
        if self.form.is_none()
            && let Some(rows) = &mut self.rows
        {
            rows.set_form(form)?;
            self.schema = rows.schema();
            self.form = Some(form);
        }
        Ok(())
    }

    fn read(&mut self, form: Form) -> Result<Option<RecordBatch>, Error> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        self.begin(form)?;
        let Some(rows) = &mut self.rows else {
            return Ok(None);
        };
        let batch = rows.next().transpose().and_then(|batch| {
            batch
                .map(|batch| with_schema(batch, &self.schema))
                .transpose()
        });
        if !matches!(batch, Ok(Some(_))) {
            self.rows = None;
        }
        batch.inspect_err(|failure| self.failure = Some(failure.clone()))
    }
}

impl Drop for Stream {
    /// Ends the query. That may wait for threads that are to give Python objects back, so not with the interpreter's lock held.
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let left = (state.rows.take(), std::mem::take(&mut state.ahead));
        if !self.generation.is_current() {
            std::mem::forget(left);
        } else if left.0.is_some() || !left.1.is_empty() {
            drop_detached(left);
        }
    }
}

/// Drops `value` with the interpreter's lock released, when it is held.
pub(crate) fn drop_detached<T: Send>(value: T) {
    let mut value = Some(value);
    Python::try_attach(|py| {
        let value = value.take();
        py.detach(move || drop(value));
    });
}

/// The type that stands for `data_type` in `form`.
fn convert_type(data_type: &DataType, form: Form) -> DataType {
    match (data_type, form) {
        (DataType::Utf8View, Form::Consumer) => DataType::Utf8,
        (DataType::BinaryView, Form::Consumer) => DataType::Binary,
        (DataType::Decimal64(precision, scale), Form::Consumer | Form::Compute) => {
            DataType::Decimal128(*precision, *scale)
        }
        (DataType::Utf8, Form::Compute | Form::Native) => DataType::Utf8View,
        (DataType::Binary, Form::Compute | Form::Native) => DataType::BinaryView,
        _ => data_type.clone(),
    }
}

/// The schema of `schema`'s columns in `form`.
pub(crate) fn convert_schema(schema: &SchemaRef, form: Form) -> SchemaRef {
    if schema
        .fields()
        .iter()
        .all(|field| convert_type(field.data_type(), form) == *field.data_type())
    {
        return Arc::clone(schema);
    }
    let fields: Vec<Field> = schema
        .fields()
        .iter()
        .map(|field| {
            let data_type = convert_type(field.data_type(), form);
            field.as_ref().clone().with_data_type(data_type)
        })
        .collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// The batch in `form`; the batch itself when it is so already.
pub(crate) fn convert_batch(batch: RecordBatch, form: Form) -> Result<RecordBatch, Error> {
    let schema = convert_schema(batch.schema_ref(), form);
    if Arc::ptr_eq(&schema, batch.schema_ref()) {
        return Ok(batch);
    }
    cast_batch(&batch, &schema)
}

/// The batch with its columns cast to the types of `schema`, position by position. Values that don't fit are an error.
pub(crate) fn cast_batch(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, Error> {
    let exact = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    let columns = batch
        .columns()
        .iter()
        .zip(schema.fields())
        .map(
            |(column, field)| match column.data_type() == field.data_type() {
                true => Ok(Arc::clone(column)),
                false => cast_with_options(column, field.data_type(), &exact),
            },
        )
        .collect::<Result<Vec<ArrayRef>, _>>()?;
    rebuild(batch, columns, schema)
}

/// The batch under `schema`, which has the same types and may say more about the columns.
fn with_schema(batch: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, Error> {
    if Arc::ptr_eq(batch.schema_ref(), schema) {
        return Ok(batch);
    }
    rebuild(&batch, batch.columns().to_vec(), schema)
}

fn rebuild(
    batch: &RecordBatch,
    columns: Vec<ArrayRef>,
    schema: &SchemaRef,
) -> Result<RecordBatch, Error> {
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(
        Arc::clone(schema),
        columns,
        &options,
    )?)
}
