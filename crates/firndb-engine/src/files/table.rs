//! Files as a DataFusion source.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, ScalarValue, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::object_store::ObjectMeta;
use datafusion::object_store::path::Path as StorePath;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, ScalarFunctionExpr};
use datafusion::physical_plan::coop::make_cooperative;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PhysicalExpr, PlanProperties,
};
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};

use super::infer;
use super::options::{FileOptions, Format};
use super::paths::{expand, file_error};
use super::reader::{Order, Reading, batches, file_name_field, missing_column};
use crate::expr::CanonicalFloat;
use crate::scan::frame::compute_schema;
use crate::types::has_floats;
use crate::{Error, Result};

/// Files of one format with the columns of the first. The columns of the others go by their names, wherever a file has names for them.
#[derive(Debug)]
pub struct FileTable {
    files: Arc<[PathBuf]>,
    reading: Arc<Reading>,
    schema: SchemaRef,
}

impl FileTable {
    /// Finds the files that `patterns` name, and their columns.
    pub fn open(patterns: &[String], options: FileOptions) -> Result<Self> {
        let files = expand(patterns)?;
        let options = infer::with_newline(&files[0], options)?;
        let (mut schema, csv) = if options.format == Format::Csv {
            let shape = infer::csv(&files[0], &options)?;
            (shape.schema, Some((shape.dialect, shape.header)))
        } else {
            (infer::schema(&files[0], &options)?, None)
        };
        let by_name = options.columns.is_none()
            && options.names.is_none()
            && csv.is_none_or(|(_, header)| header);
        if options.union_by_name && by_name {
            let mut schemas = vec![schema];
            for file in &files[1..] {
                schemas.push(infer::schema(file, &options)?);
            }
            schema = infer::union(&schemas);
        }
        if options.format == Format::Parquet && !options.union_by_name {
            for file in &files[1..] {
                let other = infer::schema(file, &options)?;
                for field in schema.fields() {
                    if other.index_of(field.name()).is_err() {
                        return Err(missing_column(file, field.name()));
                    }
                }
            }
        }
        let mut orders = HashMap::new();
        if let Some((dialect, true)) = csv
            && by_name
        {
            // The first file, too, may lack columns of a union.
            let others = if options.union_by_name {
                &files[..]
            } else {
                &files[1..]
            };
            for file in others {
                if let Some(order) = infer::csv_order(file, &options, dialect, &schema)? {
                    orders.insert(file.clone(), order);
                }
            }
        }
        Ok(FileTable::reading(files, options, schema, csv, orders))
    }

    /// Files with known columns: for CSV, the fields that values are assigned to.
    pub fn with_schema(
        files: Vec<PathBuf>,
        options: FileOptions,
        schema: SchemaRef,
        csv: Option<(super::csv::Dialect, bool)>,
    ) -> Self {
        FileTable::reading(files, options, schema, csv, HashMap::new())
    }

    fn reading(
        files: Vec<PathBuf>,
        options: FileOptions,
        schema: SchemaRef,
        csv: Option<(super::csv::Dialect, bool)>,
        orders: HashMap<PathBuf, Order>,
    ) -> Self {
        let parallelism = std::thread::available_parallelism().map_or(2, usize::from);
        let mut shown = compute_schema(&schema);
        if options.filename.is_some() {
            let mut fields = shown.fields().to_vec();
            fields.push(file_name_field(&options));
            shown = Arc::new(Schema::new(fields));
        }
        FileTable {
            files: files.into(),
            schema: shown,
            reading: Arc::new(Reading {
                options,
                schema,
                csv,
                orders,
                parallelism,
            }),
        }
    }

    /// All rows, outside of a plan.
    pub fn stream(&self) -> BoxStream<'static, Result<RecordBatch>> {
        let reading = Arc::clone(&self.reading);
        let projection: Arc<[usize]> = (0..self.schema.fields().len()).collect();
        stream::iter(self.files.to_vec())
            .flat_map(move |file| batches(Arc::clone(&reading), file, Arc::clone(&projection)))
            .boxed()
    }

    async fn scan_parquet(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut options = state.table_options().parquet.clone();
        options.global.skip_metadata = true;
        let format = ParquetFormat::default().with_options(options);
        let url = ObjectStoreUrl::local_filesystem();
        let store = state.runtime_env().object_store(&url)?;
        let in_files = compute_schema(&self.reading.schema);
        let mut files = Vec::with_capacity(self.files.len());
        for path in self.files.iter() {
            let metadata = std::fs::metadata(path).map_err(|e| file_error(path, "open", &e))?;
            let whole = std::fs::canonicalize(path).map_err(|e| file_error(path, "open", &e))?;
            let object = ObjectMeta {
                location: StorePath::from_absolute_path(&whole)
                    .map_err(|e| Error::internal(format!("{}: {e}", whole.display())))?,
                last_modified: metadata
                    .modified()
                    .map_err(|e| file_error(path, "open", &e))?
                    .into(),
                size: metadata.len(),
                e_tag: None,
                version: None,
            };
            let statistics = format
                .infer_stats(state, &store, Arc::clone(&in_files), &object)
                .await?;
            let mut file = PartitionedFile::new_from_meta(object);
            if self.reading.options.filename.is_some() {
                let name = path.to_string_lossy().into_owned();
                file.partition_values = vec![ScalarValue::Utf8View(Some(name))];
            }
            files.push(file.with_statistics(Arc::new(statistics)));
        }
        let statistics = datafusion::common::Statistics::try_merge_iter(
            files.iter().filter_map(|f| f.statistics.as_deref()),
            &self.schema,
        )?;
        let named = self.reading.options.filename.is_some();
        let named = named.then(|| file_name_field(&self.reading.options));
        let table = TableSchema::builder(in_files)
            .with_table_partition_cols(named.into_iter().collect::<Vec<_>>())
            .build();
        let source = ParquetSource::new(table);
        // Files are read in the order of their names: consecutive ones make a group.
        let groups = FileGroup::new(files).split_files(state.config().target_partitions());
        let config = FileScanConfigBuilder::new(url, Arc::new(source))
            .with_file_groups(groups)
            .with_statistics(statistics)
            .with_preserve_order(true)
            .with_projection_indices(projection.cloned())?
            .with_limit(limit)
            .build();
        one_nan(format.create_physical_plan(state, config).await?)
    }
}

/// Rows whose floating point numbers have one NaN. A file's statistics know no NaN, so nothing above may skip or answer by those of
/// such a column, nor does it.
fn one_nan(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = plan.schema();
    let floats = |field: &FieldRef| has_floats(field.data_type());
    if !schema.fields().iter().any(floats) {
        return Ok(plan);
    }
    let function = Arc::new(CanonicalFloat::one_nan());
    let options = Arc::new(ConfigOptions::default());
    let columns = schema
        .fields()
        .iter()
        .enumerate()
        .map(|(place, field)| {
            let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(field.name(), place));
            let shown: Arc<dyn PhysicalExpr> = match floats(field) {
                false => column,
                true => Arc::new(ScalarFunctionExpr::new(
                    function.name(),
                    Arc::clone(&function),
                    vec![column],
                    Arc::clone(field),
                    Arc::clone(&options),
                )),
            };
            (shown, field.name().clone())
        })
        .collect::<Vec<_>>();
    Ok(Arc::new(ProjectionExec::try_new(columns, plan)?))
}

#[async_trait]
impl TableProvider for FileTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> std::result::Result<Arc<dyn ExecutionPlan>, DataFusionError> {
        if self.reading.options.format == Format::Parquet {
            return Ok(self.scan_parquet(state, projection, limit).await?);
        }
        let all = || (0..self.schema.fields().len()).collect();
        let projection = projection.cloned().unwrap_or_else(all);
        Ok(Arc::new(FileScan::try_new(
            self,
            projection,
            state.config().target_partitions(),
            limit,
        )?))
    }
}

/// A scan of files that are parsed here. Consecutive files make a partition; one file is parsed in parallel by itself.
#[derive(Debug, Clone)]
struct FileScan {
    groups: Arc<[Vec<PathBuf>]>,
    reading: Arc<Reading>,
    projection: Arc<[usize]>,
    schema: SchemaRef,
    fetch: Option<usize>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl FileScan {
    fn try_new(
        table: &FileTable,
        projection: Vec<usize>,
        target_partitions: usize,
        fetch: Option<usize>,
    ) -> Result<Self> {
        let schema = Arc::new(table.schema.project(&projection)?);
        let size = table.files.len().div_ceil(target_partitions.max(1)).max(1);
        let groups: Arc<[Vec<PathBuf>]> = table.files.chunks(size).map(<[_]>::to_vec).collect();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(groups.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        Ok(FileScan {
            groups,
            reading: Arc::clone(&table.reading),
            projection: projection.into(),
            schema,
            fetch,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }
}

impl DisplayAs for FileScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let files: usize = self.groups.iter().map(Vec::len).sum();
        let columns: Vec<&str> = self
            .schema
            .fields()
            .iter()
            .map(|field| field.name().as_str())
            .collect();
        write!(
            f,
            "FileScan: format={:?}, files={files}, columns=[{}]",
            self.reading.options.format,
            columns.join(", ")
        )?;
        match self.fetch {
            Some(fetch) => write!(f, ", fetch={fetch}"),
            None => Ok(()),
        }
    }
}

impl ExecutionPlan for FileScan {
    fn name(&self) -> &str {
        "FileScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(
            &Arc<dyn PhysicalExpr>,
        ) -> std::result::Result<TreeNodeRecursion, DataFusionError>,
    ) -> std::result::Result<TreeNodeRecursion, DataFusionError> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> std::result::Result<Arc<dyn ExecutionPlan>, DataFusionError> {
        if children.is_empty() {
            Ok(self)
        } else {
            internal_err!("a scan has no children")
        }
    }

    fn execute(
        &self,
        partition: usize,
        _context: Arc<TaskContext>,
    ) -> std::result::Result<SendableRecordBatchStream, DataFusionError> {
        let Some(files) = self.groups.get(partition) else {
            return internal_err!("the scan has no partition {partition}");
        };
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let reading = Arc::clone(&self.reading);
        let projection = Arc::clone(&self.projection);
        let schema = Arc::clone(&self.schema);
        let mut wanted = self.fetch.unwrap_or(usize::MAX);
        let rows = stream::iter(files.clone())
            .flat_map(move |file| batches(Arc::clone(&reading), file, Arc::clone(&projection)))
            .map_err(DataFusionError::from)
            .and_then(move |batch| {
                let options =
                    arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
                let columns = batch.columns().to_vec();
                let shown =
                    RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &options);
                std::future::ready(shown.map_err(DataFusionError::from))
            })
            .scan((), move |(), batch| {
                let next = match batch {
                    _ if wanted == 0 => None,
                    Ok(batch) => {
                        let batch = batch.slice(0, batch.num_rows().min(wanted));
                        wanted -= batch.num_rows();
                        metrics.record_output(batch.num_rows());
                        Some(Ok(batch))
                    }
                    Err(error) => Some(Err(error)),
                };
                std::future::ready(next)
            });
        Ok(make_cooperative(Box::pin(RecordBatchStreamAdapter::new(
            Arc::clone(&self.schema),
            rows,
        ))))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        Some(Arc::new(FileScan {
            fetch: limit,
            metrics: ExecutionPlanMetricsSet::new(),
            ..self.clone()
        }))
    }

    fn fetch(&self) -> Option<usize> {
        self.fetch
    }
}
