//! A result that is run when its rows are first wanted, and then holds them.
//!
//! ```text
//! Unread ──read whole──────────────▶ Whole
//!    │                                 ▲
//!    └──first rows──▶ Open ──the rest──┘
//! ```
//!
//! A relation takes its snapshot when it is first read. What it has read it keeps, so every later reader sees the same rows; over bare columns
//! of frozen blocks that costs no memory. `stream` alone reads without keeping.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use firndb::{Error, Form, Frame, Parameters};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList, PyTuple};

use crate::arrays::{self, MaskedColumn, Wanted};
use crate::cursor::RowCursor;
use crate::errors;
use crate::export::{self, BatchStream};
use crate::fork::Generation;
use crate::frames::Frames;
use crate::link::Link;
use crate::lock::Exclusive;
use crate::parameters;
use crate::stream::{Stream, convert_batch, convert_schema};

/// A query's rows, lazily.
#[pyclass(frozen, module = "firndb._firndb")]
pub struct NativeRelation {
    link: Arc<Link>,
    state: Exclusive<State>,
    generation: Generation,
}

struct State {
    source: Source,
    /// For fetches of rows: the cursor, and the next batch of those kept that it reads.
    cursor: RowCursor,
    next: usize,
}

enum Source {
    Unread(Query),
    Open {
        stream: Arc<Stream>,
        schema: SchemaRef,
        kept: Vec<RecordBatch>,
    },
    Whole {
        schema: SchemaRef,
        batches: Vec<RecordBatch>,
    },
}

/// A query that was described and not run.
#[derive(Clone)]
pub(crate) struct Query {
    pub(crate) sql: String,
    pub(crate) parameters: Parameters,
    pub(crate) frames: Arc<Frames>,
    /// Its columns, as described.
    pub(crate) schema: SchemaRef,
}

impl NativeRelation {
    /// A query to be run when it is read.
    pub(crate) fn lazy(link: Arc<Link>, query: Query) -> Self {
        link.unread.fetch_add(1, Ordering::Relaxed);
        Self::new(link, Source::Unread(query))
    }

    /// The rows that a stream still has, after those of `kept`.
    pub(crate) fn open(
        link: Arc<Link>,
        stream: Arc<Stream>,
        schema: SchemaRef,
        kept: Vec<RecordBatch>,
    ) -> Self {
        Self::new(
            link,
            Source::Open {
                stream,
                schema,
                kept,
            },
        )
    }

    fn new(link: Arc<Link>, source: Source) -> Self {
        NativeRelation {
            link,
            state: Exclusive::new(State {
                source,
                cursor: RowCursor::default(),
                next: 0,
            }),
            generation: Generation::current(),
        }
    }

    /// Reads everything.
    pub(crate) fn read(&self, py: Python<'_>) -> PyResult<()> {
        let mut state = self.state.lock(py)?;
        self.complete(py, &mut state, Form::Compute)
    }

    /// Its rows as a frame that another query scans.
    pub(crate) fn frame(&self, py: Python<'_>) -> PyResult<Frame> {
        let (schema, batches) = self.whole(py, Form::Compute)?;
        Ok(Frame { schema, batches })
    }

    /// Every row in the form that it is kept in: `form`, if nothing was read yet.
    fn kept(&self, py: Python<'_>, form: Form) -> PyResult<(SchemaRef, Vec<RecordBatch>)> {
        let mut state = self.state.lock(py)?;
        self.complete(py, &mut state, form)?;
        match &state.source {
            Source::Whole { schema, batches } => Ok((Arc::clone(schema), batches.clone())),
            _ => {
                let error = Error::internal("a relation that was read is not whole");
                Err(errors::to_python(py, &error, None))
            }
        }
    }

    /// Every row, in `form`.
    fn whole(&self, py: Python<'_>, form: Form) -> PyResult<(SchemaRef, Vec<RecordBatch>)> {
        let (schema, batches) = self.kept(py, form)?;
        let wanted = convert_schema(&schema, form);
        if Arc::ptr_eq(&wanted, &schema) {
            return Ok((schema, batches));
        }
        let converted = py
            .detach(|| {
                batches
                    .into_iter()
                    .map(|batch| convert_batch(batch, form))
                    .collect::<Result<Vec<_>, _>>()
            })
            .map_err(|error| errors::to_python(py, &error, None))?;
        Ok((wanted, converted))
    }

    /// Reads what is missing, in `form` if nothing was read yet. A query that fails stays unread.
    fn complete(&self, py: Python<'_>, state: &mut State, form: Form) -> PyResult<()> {
        match &mut state.source {
            Source::Unread(query) => {
                let (stream, _) = self.run(py, query.clone())?;
                let (schema, batches) = self
                    .link
                    .read(py, &stream, move |stream| stream.rest(form))?;
                state.source = Source::Whole { schema, batches };
                self.link.unread.fetch_sub(1, Ordering::Relaxed);
            }
            Source::Open { stream, kept, .. } => {
                let (schema, rest) = self
                    .link
                    .read(py, stream, move |stream| stream.rest(form))?;
                // All that is kept gets the form of the rest.
                let mut batches = kept
                    .iter()
                    .map(|batch| convert_batch(batch.clone(), form))
                    .collect::<Result<Vec<_>, _>>()
                    .map_err(|error| {
                        stream.lose();
                        errors::to_python(py, &error, None)
                    })?;
                batches.extend(rest);
                state.source = Source::Whole { schema, batches };
            }
            Source::Whole { .. } => {}
        }
        Ok(())
    }

    /// Runs the query; its rows are then to be read.
    fn start(&self, py: Python<'_>, state: &mut State) -> PyResult<()> {
        let Source::Unread(query) = &state.source else {
            return Ok(());
        };
        let (stream, schema) = self.run(py, query.clone())?;
        state.source = Source::Open {
            stream,
            schema,
            kept: Vec::new(),
        };
        self.link.unread.fetch_sub(1, Ordering::Relaxed);
        Ok(())
    }

    fn run(&self, py: Python<'_>, query: Query) -> PyResult<(Arc<Stream>, SchemaRef)> {
        let outcome = self
            .link
            .query(py, &query.sql, query.parameters, &query.frames)?;
        let Some(rows) = outcome.rows else {
            let error = Error::internal("a query gave no rows");
            return Err(errors::to_python(py, &error, Some(&query.sql)));
        };
        let schema = rows.schema();
        let stream = Stream::new(rows);
        self.link.opened(&stream);
        Ok((stream, schema))
    }

    /// The next batch that the row cursor has not seen.
    fn pull(
        &self,
        py: Python<'_>,
        source: &mut Source,
        next: &mut usize,
    ) -> PyResult<Option<RecordBatch>> {
        let kept = match source {
            Source::Open { kept, .. } => kept,
            Source::Whole { batches, .. } => batches,
            Source::Unread(_) => return Ok(None),
        };
        if let Some(batch) = kept.get(*next) {
            *next += 1;
            return Ok(Some(batch.clone()));
        }
        let Source::Open { stream, kept, .. } = source else {
            return Ok(None);
        };
        let batch = self
            .link
            .read(py, stream, |stream| stream.next(Form::Compute))?;
        match batch {
            Some(batch) => {
                kept.push(batch.clone());
                *next += 1;
                Ok(Some(batch))
            }
            None => {
                let schema = self
                    .link
                    .read(py, stream, |stream| stream.schema(Form::Compute))?;
                *source = Source::Whole {
                    schema,
                    batches: std::mem::take(kept),
                };
                Ok(None)
            }
        }
    }

    fn rows<'py, T>(
        &self,
        py: Python<'py>,
        fetch: impl FnOnce(&mut RowCursor, crate::cursor::Pull<'_>) -> PyResult<T>,
    ) -> PyResult<T> {
        let mut guard = self.state.lock(py)?;
        let state = &mut *guard;
        if let Source::Unread(_) = &state.source {
            self.start(py, state)?;
        }
        let State {
            source,
            cursor,
            next,
        } = state;
        fetch(cursor, &mut |py| self.pull(py, source, next))
    }

    fn schema(&self, py: Python<'_>) -> PyResult<SchemaRef> {
        let state = self.state.lock(py)?;
        Ok(match &state.source {
            Source::Unread(query) => Arc::clone(&query.schema),
            Source::Open { schema, .. } | Source::Whole { schema, .. } => Arc::clone(schema),
        })
    }
}

#[pymethods]
impl NativeRelation {
    /// Name, SQL type and whether it may be NULL, by column.
    fn columns(&self, py: Python<'_>) -> PyResult<Vec<(String, String, bool)>> {
        Ok(describe(&self.schema(py)?))
    }

    /// The next row, or None.
    fn fetchone<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        self.rows(py, |cursor, pull| cursor.next(py, pull))
    }

    /// The next `size` rows.
    fn fetchmany<'py>(
        &self,
        py: Python<'py>,
        size: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyList>> {
        let size = parameters::size(size)?;
        self.rows(py, |cursor, pull| cursor.take(py, Some(size), pull))
    }

    /// Every row that is left; fetches then begin anew.
    fn fetchall<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.rows(py, |cursor, pull| cursor.take(py, None, pull))
            .and_then(|rows| {
                let mut state = self.state.lock(py)?;
                (state.cursor, state.next) = (RowCursor::default(), 0);
                Ok(rows)
            })
    }

    /// A pass over every row, independent of fetches.
    fn __iter__(slf: Bound<'_, Self>) -> RelationRows {
        RelationRows {
            relation: slf.unbind(),
            position: Exclusive::new(Position::default()),
            generation: Generation::current(),
        }
    }

    /// The first `limit` rows, wherever fetches are, and the number of all rows if it is known without reading on.
    fn head<'py>(
        &self,
        py: Python<'py>,
        limit: &Bound<'py, PyAny>,
    ) -> PyResult<(Bound<'py, PyList>, Option<usize>)> {
        let limit = parameters::size(limit)?;
        let mut guard = self.state.lock(py)?;
        let state = &mut *guard;
        if let Source::Unread(_) = &state.source {
            self.start(py, state)?;
        }
        let (source, mut at) = (&mut state.source, 0);
        let mut first = RowCursor::default();
        let rows = first.take(py, Some(limit), &mut |py| self.pull(py, source, &mut at))?;
        if rows.len() < limit || limit == 0 {
            // Makes an exhausted stream known as whole.
            while rows.len() < limit && self.pull(py, source, &mut at)?.is_some() {}
        }
        let total = match source {
            Source::Whole { batches, .. } => Some(batches.iter().map(RecordBatch::num_rows).sum()),
            _ => None,
        };
        Ok((rows, total))
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let mut state = self.state.lock(py)?;
        self.complete(py, &mut state, Form::Consumer)?;
        Ok(match &state.source {
            Source::Whole { batches, .. } => batches.iter().map(RecordBatch::num_rows).sum(),
            _ => 0,
        })
    }

    /// Every row as an Arrow stream. Without a requested schema: types that every consumer computes with (`utf8`, `decimal128`);
    /// `form` "native" asks for the stored types, "polars" for string views and durations in place of intervals.
    #[pyo3(signature = (requested_schema = None, form = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyCapsule>>,
        form: Option<&str>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let wanted = match form {
            Some(name) => form_named(name),
            None => export::form_for(py, &self.schema(py)?, requested_schema)?,
        };
        let (mut schema, mut batches) = self.whole(py, wanted)?;
        if form == Some("polars") {
            (schema, batches) = export::with_durations(&schema, batches)
                .map_err(|error| errors::to_python(py, &error, None))?;
        }
        export::batches(py, schema, batches, requested_schema)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        export::schema(py, &convert_schema(&self.schema(py)?, Form::Consumer))
    }

    /// The columns at `positions` (all when None) as NumPy arrays with masks of their nulls. Without `objects`, None for columns
    /// whose values become Python objects.
    #[pyo3(signature = (positions = None, exact_decimals = false, objects = true))]
    fn arrays<'py>(
        &self,
        py: Python<'py>,
        positions: Option<Vec<usize>>,
        exact_decimals: bool,
        objects: bool,
    ) -> PyResult<Vec<MaskedColumn<'py>>> {
        // An array comes from any form alike.
        let (schema, batches) = self.kept(py, Form::Native)?;
        let positions = positions.unwrap_or_else(|| (0..schema.fields().len()).collect());
        let wanted = Wanted {
            exact_decimals,
            objects,
        };
        arrays::columns(py, &schema, &batches, &positions, wanted)
    }

    /// The rows as a stream of batches that are not kept. A relation that was not read yet stays so: the stream is a run of its own.
    fn stream(&self, py: Python<'_>, form: &str) -> PyResult<BatchStream> {
        let form = form_named(form);
        let query = match &self.state.lock(py)?.source {
            Source::Unread(query) => Some(query.clone()),
            _ => None,
        };
        let stream = match query {
            Some(query) => self.run(py, query)?.0,
            None => {
                let (schema, batches) = self.whole(py, form)?;
                Stream::of_batches(schema, batches)
            }
        };
        let schema = self
            .link
            .read(py, &stream, move |stream| stream.schema(form))?;
        Ok(BatchStream::new(
            Arc::clone(&self.link),
            stream,
            schema,
            form,
        ))
    }
}

impl Drop for NativeRelation {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        if let Source::Unread(_) = &state.source {
            self.link.unread.fetch_sub(1, Ordering::Relaxed);
        }
        if !self.generation.is_current() {
            std::mem::forget(std::mem::take(&mut state.cursor));
            if let Source::Open { kept: batches, .. } | Source::Whole { batches, .. } =
                &mut state.source
            {
                std::mem::forget(std::mem::take(batches));
            }
        }
    }
}

/// One pass over the rows of a relation.
#[pyclass(frozen, module = "firndb._firndb")]
pub struct RelationRows {
    relation: Py<NativeRelation>,
    position: Exclusive<Position>,
    generation: Generation,
}

#[derive(Default)]
struct Position {
    cursor: RowCursor,
    /// The next of the batches that the relation keeps.
    next: usize,
}

#[pymethods]
impl RelationRows {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let relation = self.relation.get();
        let mut position = self.position.lock(py)?;
        let Position { cursor, next } = &mut *position;
        if let Some(row) = cursor.converted() {
            return Ok(Some(row.into_bound(py)));
        }
        let mut state = relation.state.lock(py)?;
        if let Source::Unread(_) = &state.source {
            relation.start(py, &mut state)?;
        }
        cursor.next(py, &mut |py| relation.pull(py, &mut state.source, next))
    }
}

impl Drop for RelationRows {
    fn drop(&mut self) {
        if !self.generation.is_current() {
            std::mem::forget(std::mem::take(self.position.get_mut()));
        }
    }
}

fn form_named(name: &str) -> Form {
    match name {
        "native" => Form::Native,
        "polars" => Form::Compute,
        _ => Form::Consumer,
    }
}

/// Name, SQL type and whether it may be NULL, by column.
pub(crate) fn describe(schema: &SchemaRef) -> Vec<(String, String, bool)> {
    schema
        .fields()
        .iter()
        .map(|field| {
            (
                field.name().clone(),
                firndb::sql_name(field),
                field.is_nullable(),
            )
        })
        .collect()
}
