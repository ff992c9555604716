//! A connection: a session and the result of its last statement.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow::datatypes::SchemaRef;
use firndb::{Config, Database, Error, Form, FrameSource, OneRow, Outcome, SqlState};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use pyo3_arrow::PyRecordBatchReader;

use crate::columns::ColumnTable;
use crate::cursor::RowCursor;
use crate::errors;
use crate::fork::{self, Generation};
use crate::frames::{self, Frames};
use crate::link::Link;
use crate::lock::Exclusive;
use crate::many;
use crate::parameters;
use crate::relation::{NativeRelation, Query, describe};
use crate::single;
use crate::stream::{Stream, drop_detached};
use crate::text;

/// An open database, from which connections come.
#[pyclass(frozen, module = "firndb._firndb")]
pub struct NativeDatabase {
    /// Empty only while dropped.
    database: Option<Database>,
    generation: Generation,
}

#[pymethods]
impl NativeDatabase {
    /// A database in a file, or in memory.
    #[new]
    #[pyo3(signature = (path = None, *, read_only = false, memory_limit = None, threads = None, temp_directory = None))]
    fn new(
        py: Python<'_>,
        path: Option<PathBuf>,
        read_only: bool,
        memory_limit: Option<usize>,
        threads: Option<usize>,
        temp_directory: Option<PathBuf>,
    ) -> PyResult<Self> {
        let config = Config {
            memory_limit,
            threads,
            temp_directory,
            read_only,
            synchronous: None,
        };
        let open = || match path {
            Some(path) => Database::open_file(path, config),
            None => Database::open(config),
        };
        let database = py
            .detach(|| fork::check_new().and_then(|()| open()))
            .map_err(|error| errors::to_python(py, &error, None))?;
        Ok(NativeDatabase {
            database: Some(database),
            generation: Generation::current(),
        })
    }
}

impl Drop for NativeDatabase {
    fn drop(&mut self) {
        let database = self.database.take();
        if self.generation.is_current() {
            drop_detached(database);
        } else {
            std::mem::forget(database);
        }
    }
}

/// A connection: an independent session of a database. The class `firndb.Connection` derives from it.
#[pyclass(subclass, frozen, weakref, module = "firndb._firndb")]
pub struct Connection {
    link: Arc<Link>,
    last: Exclusive<Last>,
    /// Rows that `fetchmany` returns without a size.
    arraysize: AtomicUsize,
}

/// What the last statement left.
#[derive(Default)]
struct Last {
    affected: Option<u64>,
    result: Option<LastResult>,
}

struct LastResult {
    schema: SchemaRef,
    rows: LastRows,
    cursor: RowCursor,
}

/// The rows of the last result.
enum LastRows {
    Stream(Arc<Stream>),
    /// Of a compiled statement: one row, or none any more.
    One(OneRow),
    /// A relation took them over.
    Taken,
}

#[pymethods]
impl Connection {
    /// A session of a database, or one more session of another connection's database.
    #[new]
    fn new(py: Python<'_>, source: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(database) = source.cast::<NativeDatabase>() {
            let database = database.get();
            let opened =
                database
                    .generation
                    .check()
                    .and_then(|()| match database.database.clone() {
                        Some(database) => py.detach(move || database.connect()),
                        None => Err(Error::internal("a database without a handle")),
                    });
            let session = opened.map_err(|error| errors::to_python(py, &error, None))?;
            return Ok(Self::over(Link::new(session, true)));
        }
        let other = source.cast::<Connection>()?.get();
        let session = other.link.run(py, None, |session| session.duplicate())?;
        let link = Link::new(session, other.link.progress());
        other.link.adopt(py, &link);
        Ok(Self::over(link))
    }

    /// Runs the statements of `sql` and returns the connection, from which the last one's rows can be fetched.
    #[pyo3(signature = (sql, parameters = None, /))]
    fn execute<'py>(
        slf: Bound<'py, Self>,
        sql: &Bound<'py, PyAny>,
        parameters: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, Self>> {
        let py = slf.py();
        let this = slf.get();
        let session = this.link.session(py)?;
        let sql = parameters::text(sql, "a statement")?;
        if session.in_transaction() {
            // What the last statement left is given up in any case, and no open result then.
            let previous = std::mem::take(&mut *this.last.lock(py)?);
            drop(previous);
        }
        if this.link.is_at_rest(session)
            && let Some(done) = single::execute(py, session, sql, parameters)?
        {
            let last = Last {
                affected: done.affected,
                result: done.rows.map(|one| LastResult {
                    schema: Arc::clone(&one.columns.schema),
                    rows: LastRows::One(one),
                    cursor: RowCursor::default(),
                }),
            };
            let previous = std::mem::replace(&mut *this.last.lock(py)?, last);
            drop(previous);
            return Ok(slf);
        }
        let parameters = parameters::bind(parameters)?;
        let previous = std::mem::take(&mut *this.last.lock(py)?);
        drop(previous);
        let frames = Frames::of_caller(py)?;
        let outcome = this.link.execute(py, sql, parameters, &frames);
        frames.close();
        *this.last.lock(py)? = this.left_by(outcome?);
        Ok(slf)
    }

    /// Rows that `fetchmany` returns without a size.
    #[getter]
    fn arraysize(&self) -> usize {
        self.arraysize.load(Ordering::Relaxed)
    }

    #[setter]
    fn set_arraysize(&self, rows: &Bound<'_, PyAny>) -> PyResult<()> {
        self.arraysize
            .store(parameters::size(rows)?, Ordering::Relaxed);
        Ok(())
    }

    /// Runs one statement for each of the sets of parameters, as one statement.
    #[pyo3(signature = (sql, parameters, /))]
    fn executemany<'py>(
        slf: Bound<'py, Self>,
        sql: &Bound<'py, PyAny>,
        parameters: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, Self>> {
        let py = slf.py();
        let this = slf.get();
        this.link.session(py)?;
        let sql = parameters::text(sql, "a statement")?;
        if let Some(affected) = this.load(py, sql, parameters)? {
            this.last.lock(py)?.affected = Some(affected);
            return Ok(slf);
        }
        let rows = parameters::rows(parameters)?
            .map(|row| parameters::bind(Some(&row?)))
            .collect::<PyResult<Vec<_>>>()?;
        let previous = std::mem::take(&mut *this.last.lock(py)?);
        drop(previous);
        let open = this.link.to_settle(sql);
        let text = sql.to_owned();
        let affected = this.link.run(py, Some(sql), move |session| {
            if session.in_transaction() {
                open.iter().for_each(|stream| stream.settle());
            }
            session.execute_many(&text, rows)
        })?;
        this.last.lock(py)?.affected = Some(affected);
        Ok(slf)
    }

    /// The next row of the last result, or None.
    fn fetchone<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        match self.only_row(py)? {
            Some(row) => Ok(row),
            None => self.rows(py, |cursor, pull| cursor.next(py, pull)),
        }
    }

    /// The next `size` rows.
    #[pyo3(name = "_fetch_rows")]
    fn fetch_rows<'py>(
        &self,
        py: Python<'py>,
        size: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyList>> {
        let size = parameters::size(size)?;
        if size > 0
            && let Some(row) = self.only_row(py)?
        {
            return PyList::new(py, row);
        }
        self.rows(py, |cursor, pull| cursor.take(py, Some(size), pull))
    }

    /// Every row that is left.
    fn fetchall<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.link.session(py)?;
        let mut last = self.last.lock(py)?;
        let result = last.result.as_mut().ok_or_else(|| errors::no_result(py))?;
        let mut rest = Vec::new().into_iter();
        if let LastRows::One(one) = &mut result.rows {
            return PyList::new(py, single::take(py, one)?);
        }
        if let LastRows::Stream(stream) = &result.rows
            && !stream.is_finished()
        {
            let (_, batches) = self
                .link
                .read(py, stream, |stream| stream.rest(Form::Compute))?;
            rest = batches.into_iter();
        }
        result.cursor.take(py, None, &mut |_| Ok(rest.next()))
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        self.fetchone(py)
    }

    /// Name, SQL type and whether it may be NULL, by column of the last result; None without one.
    #[pyo3(name = "_columns")]
    fn columns(&self, py: Python<'_>) -> PyResult<Option<Vec<(String, String, bool)>>> {
        let last = self.last.lock(py)?;
        Ok(last.result.as_ref().map(|result| describe(&result.schema)))
    }

    /// Rows that the last statement wrote; -1 when it wrote none or does not tell.
    #[getter]
    fn rowcount(&self, py: Python<'_>) -> PyResult<i64> {
        let last = self.last.lock(py)?;
        Ok(last
            .affected
            .and_then(|rows| i64::try_from(rows).ok())
            .unwrap_or(-1))
    }

    /// What is left of the last result, as a relation of its own.
    #[pyo3(name = "_take_result")]
    fn take_result(&self, py: Python<'_>) -> PyResult<NativeRelation> {
        self.link.session(py)?;
        let mut last = self.last.lock(py)?;
        let result = last.result.as_mut().ok_or_else(|| errors::no_result(py))?;
        let stream = match std::mem::replace(&mut result.rows, LastRows::Taken) {
            LastRows::Stream(stream) => stream,
            LastRows::One(one) => {
                let batch = one.batch();
                let batch = batch.map_err(|error| errors::to_python(py, &error, None))?;
                let batches = batch.into_iter().collect();
                Stream::of_batches(Arc::clone(&result.schema), batches)
            }
            LastRows::Taken => {
                return Err(errors::interface(
                    py,
                    SqlState::WrongObjectType,
                    "the result was read already",
                ));
            }
        };
        let kept = result.cursor.unread().into_iter();
        let kept = kept.filter(|batch| batch.num_rows() > 0).collect();
        Ok(NativeRelation::open(
            Arc::clone(&self.link),
            stream,
            Arc::clone(&result.schema),
            kept,
        ))
    }

    /// A relation over `sql`: a query is run when its rows are wanted, everything else now. None when there are no rows.
    #[pyo3(name = "_relation", signature = (sql, parameters = None, /))]
    fn relation(
        &self,
        py: Python<'_>,
        sql: &Bound<'_, PyAny>,
        parameters: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Option<NativeRelation>> {
        self.link.session(py)?;
        let sql = parameters::text(sql, "a statement")?;
        let parameters = parameters::bind(parameters)?;
        let frames = Frames::of_caller(py)?;
        if !text::is_query(sql) {
            let outcome = self.link.execute(py, sql, parameters, &frames);
            frames.close();
            return Ok(self.left_by(outcome?).result.and_then(|result| {
                let LastRows::Stream(stream) = result.rows else {
                    return None;
                };
                let link = Arc::clone(&self.link);
                Some(NativeRelation::open(
                    link,
                    stream,
                    result.schema,
                    Vec::new(),
                ))
            }));
        }
        if self.link.unread.load(std::sync::atomic::Ordering::Relaxed) > 0 {
            frames.read_relations(py, sql)?;
        }
        let (text, values) = (sql.to_owned(), parameters.clone());
        let source: Arc<dyn FrameSource> = frames.clone();
        let schema = self.link.run(py, Some(sql), move |session| {
            session.describe(&text, &values, Some(source))
        });
        frames.close();
        let query = Query {
            sql: sql.to_owned(),
            parameters,
            frames,
            schema: schema?,
        };
        Ok(Some(NativeRelation::lazy(Arc::clone(&self.link), query)))
    }

    /// Runs a statement without touching the last result.
    #[pyo3(name = "_run")]
    fn run(&self, py: Python<'_>, sql: &str) -> PyResult<()> {
        let frames = Frames::of_caller(py)?;
        frames.close();
        let outcome = self.link.execute(py, sql, Default::default(), &frames)?;
        // SQL's COMMIT of a failed transaction rolls back and says so in its tag, which a program does not see.
        if sql == "COMMIT" && outcome.tag == "ROLLBACK" {
            let error = Error::new(
                SqlState::InFailedSqlTransaction,
                "the transaction had failed and was rolled back",
            )
            .with_hint("A statement of it failed; what follows an error that is caught is not committed. Use a savepoint.");
            return Err(errors::to_python(py, &error, None));
        }
        drop_detached(outcome.rows);
        Ok(())
    }

    /// Runs a statement over a frame that it names, without touching the last result. Returns the rows affected.
    #[pyo3(name = "_run_over")]
    fn run_over(
        &self,
        py: Python<'_>,
        sql: &str,
        name: &str,
        frame: &Bound<'_, PyAny>,
    ) -> PyResult<Option<u64>> {
        let frames = Frames::of_caller(py)?;
        frames.close();
        frames.insert(name, frames::import(frame)?);
        let outcome = self.link.execute(py, sql, Default::default(), &frames)?;
        drop_detached(outcome.rows);
        Ok(outcome.affected)
    }

    /// Appends the rows of an object with an Arrow stream to a table.
    #[pyo3(name = "_append_stream")]
    fn append_stream(
        &self,
        py: Python<'_>,
        table: &Bound<'_, PyAny>,
        rows: &Bound<'_, PyAny>,
        by_name: Option<bool>,
    ) -> PyResult<u64> {
        self.link.session(py)?;
        let name = parameters::text(table, "the name of a table")?.to_owned();
        let reader = reader_of(rows)?;
        let open = self.link.to_settle("INSERT");
        self.link.run(py, None, move |session| {
            if session.in_transaction() {
                open.iter().for_each(|stream| stream.settle());
            }
            session.append(&name, reader, by_name)
        })
    }

    /// Makes the rows of an object with an Arrow stream a view of this session.
    #[pyo3(name = "_register_stream")]
    fn register_stream(
        &self,
        py: Python<'_>,
        name: &Bound<'_, PyAny>,
        rows: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.link.session(py)?;
        let name = parameters::text(name, "the name of a view")?.to_owned();
        let frame = frames::import(rows)?;
        self.link
            .run(py, None, move |session| session.register(&name, frame))
    }

    /// Takes a registered view away; whether there was one.
    #[pyo3(name = "_unregister_name")]
    fn unregister_name(&self, py: Python<'_>, name: &Bound<'_, PyAny>) -> PyResult<bool> {
        let name = parameters::text(name, "the name of a view")?.to_owned();
        self.link
            .run(py, None, move |session| session.unregister(&name))
    }

    /// Cancels the running statement and open results, from any thread.
    fn interrupt(&self, py: Python<'_>) -> PyResult<()> {
        let session = Arc::clone(self.link.session(py)?);
        py.detach(move || session.interrupt());
        Ok(())
    }

    /// Closes the connection: an open transaction is rolled back, open results end. Closing again does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.link.close(py);
        // A thread that is inside the result keeps it until it returns.
        if let Ok(mut last) = self.last.lock(py) {
            let previous = std::mem::take(&mut *last);
            drop(last);
            drop(previous);
        }
        Ok(())
    }

    /// Whether the connection is closed.
    #[getter]
    fn closed(&self) -> bool {
        self.link.is_closed()
    }

    /// Whether an explicit transaction is open.
    #[getter]
    fn in_transaction(&self, py: Python<'_>) -> PyResult<bool> {
        let session = Arc::clone(self.link.session(py)?);
        Ok(py.detach(move || session.in_transaction()))
    }

    /// Whether long statements show their progress.
    #[getter]
    fn progress_bar(&self) -> bool {
        self.link.progress()
    }

    #[setter]
    fn set_progress_bar(&self, shown: bool) {
        self.link.set_progress(shown);
    }
}

impl Connection {
    fn over(link: Arc<Link>) -> Self {
        Connection {
            link,
            last: Exclusive::new(Last::default()),
            arraysize: AtomicUsize::new(1),
        }
    }

    /// Runs an INSERT of one row of parameters for many sets of simple values; `None` if it is anything else.
    fn load(
        &self,
        py: Python<'_>,
        sql: &str,
        parameters: &Bound<'_, PyAny>,
    ) -> PyResult<Option<u64>> {
        let first = sql.split_whitespace().next();
        if !first.is_some_and(|word| word.eq_ignore_ascii_case("insert")) {
            return Ok(None);
        }
        let Some(columns) = many::columns(parameters) else {
            return Ok(None);
        };
        let previous = std::mem::take(&mut *self.last.lock(py)?);
        drop(previous);
        let open = self.link.to_settle(sql);
        let text = sql.to_owned();
        self.link.run(py, Some(sql), move |session| {
            if session.in_transaction() {
                open.iter().for_each(|stream| stream.settle());
            }
            session.execute_columns(&text, &columns)
        })
    }

    fn left_by(&self, outcome: Outcome) -> Last {
        Last {
            affected: outcome.affected,
            result: outcome.rows.map(|rows| {
                let schema = rows.schema();
                let stream = Stream::new(rows);
                self.link.opened(&stream);
                LastResult {
                    schema,
                    rows: LastRows::Stream(stream),
                    cursor: RowCursor::default(),
                }
            }),
        }
    }

    /// What is left of the last result, if that is one of a compiled statement.
    fn only_row<'py>(&self, py: Python<'py>) -> PyResult<Option<Option<Bound<'py, PyTuple>>>> {
        self.link.session(py)?;
        let mut last = self.last.lock(py)?;
        match &mut last.result {
            Some(LastResult {
                rows: LastRows::One(one),
                ..
            }) => single::take(py, one).map(Some),
            _ => Ok(None),
        }
    }

    fn rows<T>(
        &self,
        py: Python<'_>,
        fetch: impl FnOnce(&mut RowCursor, crate::cursor::Pull<'_>) -> PyResult<T>,
    ) -> PyResult<T> {
        self.link.session(py)?;
        let mut last = self.last.lock(py)?;
        let result = last.result.as_mut().ok_or_else(|| errors::no_result(py))?;
        let LastResult { rows, cursor, .. } = result;
        fetch(cursor, &mut |py| match rows {
            LastRows::Stream(stream) if !stream.is_finished() => {
                self.link
                    .read(py, stream, |stream| stream.next(Form::Compute))
            }
            _ => Ok(None),
        })
    }
}

fn reader_of(rows: &Bound<'_, PyAny>) -> PyResult<Box<dyn RecordBatchReader + Send>> {
    if rows.cast::<ColumnTable>().is_ok() || rows.cast::<NativeRelation>().is_ok() {
        let frame = frames::import(rows)?;
        let batches: Vec<RecordBatch> = frame.batches;
        return Ok(Box::new(RecordBatchIterator::new(
            batches.into_iter().map(Ok),
            frame.schema,
        )));
    }
    rows.extract::<PyRecordBatchReader>()?.into_reader()
}
