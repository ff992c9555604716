//! A database: what all its sessions share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use datafusion::common::config::ConfigOptions;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::prelude::SessionConfig;
use firndb_storage::{Storage, StorageConfig};
use parking_lot::Mutex;

use super::file::{CHECKPOINT_THRESHOLD, Usage};
use super::session::Session;
use crate::catalog::Catalog;
use crate::error::{Error, Result, SqlState};
use crate::session::Config;
use crate::session::memory::{OperatorMemory, default_limit};
use crate::session::workers::Workers;
use crate::{expr, files, scan};

/// Rows of a batch that operators pass on.
const BATCH_ROWS: usize = 32_768;

/// A database. Cheap to clone; the last handle closes it.
#[derive(Debug, Clone)]
pub struct Database {
    pub(super) shared: Arc<Shared>,
    /// None within sessions, which hold theirs until they are closed.
    pub(super) usage: Option<Arc<Usage>>,
}

/// What the sessions of a database share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) storage: Arc<Storage>,
    pub(super) catalog: Catalog,
    pub(super) workers: Arc<Workers>,
    pub(super) memory: Arc<OperatorMemory>,
    pub(super) limits: Mutex<Limits>,
    /// How a session begins.
    pub(super) state: Arc<SessionState>,
    pub(super) type_planner: Option<Arc<dyn TypePlanner>>,
    /// Whether nothing may be written to its file.
    pub(super) read_only: bool,
    /// Held during a checkpoint.
    pub(super) checkpoints: Mutex<()>,
    /// Bytes of log from which a checkpoint runs by itself.
    pub(super) checkpoint_threshold: AtomicU64,
    pub(super) is_checkpointing: AtomicBool,
}

/// Settings of the whole database.
#[derive(Debug, Clone)]
pub(super) struct Limits {
    pub(super) memory: usize,
    pub(super) threads: usize,
    pub(super) directory: Option<std::path::PathBuf>,
    /// Operators' environment under these limits.
    pub(super) environment: Arc<RuntimeEnv>,
}

impl Database {
    /// Opens a database in memory.
    pub fn open(config: Config) -> Result<Database> {
        if config.read_only {
            return Err(Error::unsupported(
                "a database in memory cannot be read-only",
            ));
        }
        let shared = Shared::new(&config, |config| Ok(Storage::open(config)?))?;
        Ok(Database {
            shared: Arc::new(shared),
            usage: None,
        })
    }

    /// A new session.
    pub fn connect(&self) -> Result<Session> {
        self.shared.workers.check_process()?;
        Ok(Session::new(self.clone()))
    }

    /// The storage under it, for measurements.
    pub fn storage(&self) -> &Arc<Storage> {
        &self.shared.storage
    }
}

impl Shared {
    /// What a configuration asks for, over the storage that `open` opens.
    pub(super) fn new(
        config: &Config,
        open: impl FnOnce(StorageConfig) -> Result<Arc<Storage>>,
    ) -> Result<Shared> {
        let threads = match config.threads {
            Some(0) => {
                return Err(Error::new(
                    SqlState::InvalidParameterValue,
                    "threads must be at least 1",
                ));
            }
            Some(threads) => threads,
            None => std::thread::available_parallelism().map_or(1, usize::from),
        };
        let limit = config.memory_limit.unwrap_or_else(default_limit);
        let storage = open(StorageConfig {
            memory_limit: Some(limit),
            threads,
        })?;
        let memory = Arc::new(OperatorMemory::new(Arc::clone(&storage), limit));
        let environment = environment(&memory, config.temp_directory.as_deref())?;
        let workers = Workers::start(threads)?;
        let (state, type_planner) = session_state(threads, Arc::clone(&environment));
        if let Some(synchronous) = config.synchronous {
            storage.set_synchronous(synchronous);
        }
        Ok(Shared {
            storage,
            catalog: Catalog::default(),
            workers,
            memory,
            limits: Mutex::new(Limits {
                memory: limit,
                threads,
                directory: config.temp_directory.clone(),
                environment,
            }),
            state: Arc::new(state),
            type_planner,
            read_only: config.read_only,
            checkpoints: Mutex::new(()),
            checkpoint_threshold: AtomicU64::new(CHECKPOINT_THRESHOLD),
            is_checkpointing: AtomicBool::new(false),
        })
    }

    /// Sets how many bytes tables and operators may use together.
    pub(super) fn set_memory_limit(&self, limit: usize) {
        self.storage.set_memory_limit(Some(limit));
        self.memory.set_limit(limit);
        self.limits.lock().memory = limit;
    }
}

/// The environment of operators: the budget, and where they spill.
pub(super) fn environment(
    memory: &Arc<OperatorMemory>,
    directory: Option<&std::path::Path>,
) -> Result<Arc<RuntimeEnv>> {
    let mode = match directory {
        Some(directory) => DiskManagerMode::Directories(vec![directory.to_owned()]),
        None => DiskManagerMode::OsTmpDirectory,
    };
    let pool: Arc<dyn datafusion::execution::memory_pool::MemoryPool> = Arc::clone(memory) as _;
    Ok(RuntimeEnvBuilder::new()
        .with_memory_pool(pool)
        .with_disk_manager_builder(DiskManagerBuilder::default().with_mode(mode))
        .build_arc()?)
}

/// A join builds one table for all partitions up to so many rows, or bytes where they are known, divided by the threads.
const SHARED_BUILD_ROWS: usize = 4 << 20;
const SHARED_BUILD_BYTES: usize = 200_000_000;

/// Plans for so many threads. The fewer they are, the larger a table one of them had better build alone: the other way is that all of them
/// hash and copy all rows of both sides to part them.
pub(super) fn use_threads(options: &mut ConfigOptions, threads: usize) {
    options.execution.target_partitions = threads;
    let optimizer = &mut options.optimizer;
    optimizer.hash_join_single_partition_threshold = SHARED_BUILD_BYTES / threads.max(1);
    optimizer.hash_join_single_partition_threshold_rows = SHARED_BUILD_ROWS / threads.max(1);
}

/// DataFusion's functions, rules and options with ours among them.
fn session_state(
    threads: usize,
    environment: Arc<RuntimeEnv>,
) -> (SessionState, Option<Arc<dyn TypePlanner>>) {
    let mut config = SessionConfig::new()
        .with_batch_size(BATCH_ROWS)
        // Our scans are cut into one range for each thread; dealing their batches round would lose the table's order.
        .with_round_robin_repartition(false)
        .with_information_schema(false);
    let options = config.options_mut();
    use_threads(options, threads);
    // Names are folded in the tokens already.
    options.sql_parser.enable_ident_normalization = false;
    options.sql_parser.parse_float_as_decimal = true;
    options.sql_parser.map_string_types_to_utf8view = true;
    // A subquery's ORDER BY orders what is read from it, as in PostgreSQL and DuckDB.
    options.sql_parser.enable_subquery_sort_elimination = false;
    // It takes columns of one name, under and above a projection, for the same (DataFusion 55), and tables here have nothing to read less of.
    options.optimizer.enable_leaf_expression_pushdown = false;
    options.execution.parquet.pushdown_filters = true;
    // It compares what the logical and the physical plan say of NULLs, which may differ for CASE: a column that the
    // one calls nullable and the other not is an internal error then.
    options.execution.skip_physical_aggregate_schema_check = true;
    let mut builder = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(environment)
        .with_default_features();
    builder = builder
        .with_optimizer_rules(super::rules::logical())
        .with_physical_optimizer_rules(scan::optimizer_rules());
    let mut builder = expr::configure(builder);
    let type_planner = builder.type_planner().clone();
    let mut state = builder.build();
    for (name, function) in files::table_functions() {
        state.register_udtf(name, function);
    }
    (state, type_planner)
}
