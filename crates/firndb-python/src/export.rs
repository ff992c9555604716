//! Record batches out through the Arrow C stream interface (the Arrow PyCapsule protocol).
//!
//! Batches keep the buffers of frozen memory: a consumer sees the memory that the database holds, and keeps it alive. A requested schema
//! is met by the form that needs the fewest casts, and casts for the rest; a value that does not fit is an error.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchIterator, RecordBatchOptions, RecordBatchReader};
use arrow::datatypes::{DataType, Field, IntervalUnit, Schema, SchemaRef, TimeUnit};
use arrow::error::ArrowError;
use arrow::ffi::FFI_ArrowSchema;
use arrow::ffi_stream::FFI_ArrowArrayStream;
use firndb::{Error, Form, Frame, SqlState};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use pyo3_arrow::PySchema;

use crate::arrays;
use crate::columns::ColumnTable;
use crate::errors;
use crate::link::Link;
use crate::own::own;
use crate::stream::{Stream, cast_batch, convert_schema};

/// A stream of batches that are there.
pub(crate) fn batches<'py>(
    py: Python<'py>,
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    requested: Option<&Bound<'py, PyCapsule>>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let batches = py.detach(|| own(batches));
    match wanted_schema(py, &schema, requested)? {
        None => {
            let reader = RecordBatchIterator::new(batches.into_iter().map(Ok), schema);
            capsule(py, Box::new(reader))
        }
        Some(wanted) => {
            let target = Arc::clone(&wanted);
            let cast = batches
                .into_iter()
                .map(move |batch| cast_batch(&batch, &target).map_err(into_arrow));
            capsule(py, Box::new(RecordBatchIterator::new(cast, wanted)))
        }
    }
}

/// Intervals as durations, for consumers that know no months: a month counts 30 days, as everywhere in Python.
pub(crate) fn with_durations(
    schema: &SchemaRef,
    batches: Vec<RecordBatch>,
) -> Result<(SchemaRef, Vec<RecordBatch>), Error> {
    let is_interval =
        |data_type: &DataType| matches!(data_type, DataType::Interval(IntervalUnit::MonthDayNano));
    let fields = schema.fields().iter();
    if !fields.clone().any(|field| is_interval(field.data_type())) {
        return Ok((Arc::clone(schema), batches));
    }
    let duration = DataType::Duration(TimeUnit::Microsecond);
    let fields: Vec<Field> = fields
        .map(|field| match is_interval(field.data_type()) {
            true => field.as_ref().clone().with_data_type(duration.clone()),
            false => field.as_ref().clone(),
        })
        .collect();
    let schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
    let batches = batches
        .into_iter()
        .map(|batch| {
            let columns = batch
                .columns()
                .iter()
                .map(|column| match is_interval(column.data_type()) {
                    true => arrays::durations(column),
                    false => Ok(Arc::clone(column)),
                })
                .collect::<Result<Vec<_>, Error>>()?;
            let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
            Ok(RecordBatch::try_new_with_options(
                Arc::clone(&schema),
                columns,
                &options,
            )?)
        })
        .collect::<Result<Vec<_>, Error>>()?;
    Ok((schema, batches))
}

/// The form of `schema`'s rows that is nearest to what the consumer asks for.
pub(crate) fn form_for(
    py: Python<'_>,
    schema: &SchemaRef,
    requested: Option<&Bound<'_, PyCapsule>>,
) -> PyResult<Form> {
    let Some(wanted) = wanted_schema(py, schema, requested)? else {
        return Ok(Form::Consumer);
    };
    let casts = |form: Form| {
        let offered = convert_schema(schema, form);
        offered
            .fields()
            .iter()
            .zip(wanted.fields())
            .filter(|(offered, wanted)| {
                // Whether it lies as a dictionary shows only in what comes.
                let may_lie_so =
                    form == Form::Native && matches!(wanted.data_type(), DataType::Dictionary(..));
                offered.data_type() != wanted.data_type() && !may_lie_so
            })
            .count()
    };
    let forms = [Form::Consumer, Form::Compute, Form::Native];
    Ok(forms
        .into_iter()
        .min_by_key(|&form| casts(form))
        .unwrap_or(Form::Consumer))
}

/// A schema as a capsule.
pub(crate) fn schema<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyCapsule>> {
    let exported = FFI_ArrowSchema::try_from(schema)
        .map_err(|error| errors::to_python(py, &error.into(), None))?;
    PyCapsule::new_with_value(py, exported, c"arrow_schema")
}

/// Our columns with the types of the requested schema, which must name the same columns.
fn wanted_schema(
    py: Python<'_>,
    schema: &SchemaRef,
    requested: Option<&Bound<'_, PyCapsule>>,
) -> PyResult<Option<SchemaRef>> {
    let Some(requested) = requested else {
        return Ok(None);
    };
    let requested = PySchema::from_arrow_pycapsule(requested)?.into_inner();
    let names = |schema: &SchemaRef| -> Vec<String> {
        schema
            .fields()
            .iter()
            .map(|field| field.name().clone())
            .collect()
    };
    if names(schema) != names(&requested) {
        let error = Error::new(
            SqlState::DatatypeMismatch,
            "the requested schema does not name the columns of the result",
        )
        .with_detail(format!(
            "requested: {}; there are: {}",
            names(&requested).join(", "),
            names(schema).join(", ")
        ));
        return Err(errors::to_python(py, &error, None));
    }
    let fields: Vec<Field> = schema
        .fields()
        .iter()
        .zip(requested.fields())
        .map(|(ours, wanted)| {
            ours.as_ref()
                .clone()
                .with_data_type(wanted.data_type().clone())
        })
        .collect();
    Ok(Some(Arc::new(Schema::new_with_metadata(
        fields,
        schema.metadata().clone(),
    ))))
}

fn capsule<'py>(
    py: Python<'py>,
    reader: Box<dyn RecordBatchReader + Send>,
) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), c"arrow_array_stream")
}

fn into_arrow(error: Error) -> ArrowError {
    ArrowError::ExternalError(Box::new(error))
}

/// A result that is read batch by batch and not kept.
#[pyclass(frozen, module = "firndb._firndb")]
pub struct BatchStream {
    link: Arc<Link>,
    stream: Arc<Stream>,
    schema: SchemaRef,
    form: Form,
}

impl BatchStream {
    pub(crate) fn new(link: Arc<Link>, stream: Arc<Stream>, schema: SchemaRef, form: Form) -> Self {
        BatchStream {
            link,
            stream,
            schema,
            form,
        }
    }
}

#[pymethods]
impl BatchStream {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    /// The next batch, as a table of its own.
    fn __next__(&self, py: Python<'_>) -> PyResult<Option<ColumnTable>> {
        let form = self.form;
        let batch = self
            .link
            .read(py, &self.stream, move |stream| stream.next(form))?;
        Ok(batch.map(|batch| ColumnTable {
            frame: Frame {
                schema: Arc::clone(&self.schema),
                batches: vec![batch],
            },
        }))
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema(py, &self.schema)
    }
}
