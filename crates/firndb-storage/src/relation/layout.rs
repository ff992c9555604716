//! Layouts: the columns of a relation that a handle shows, and their names.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arrow::datatypes::SchemaRef;

use super::ColumnInfo;

/// Which columns a handle shows: the schema at one layout version.
pub struct Layout {
    pub(crate) id: u64,
    pub(crate) schema: SchemaRef,
    pub(crate) columns: Vec<Arc<ColumnInfo>>,
    retired: AtomicBool,
}

impl Layout {
    pub(crate) fn new(schema: SchemaRef, columns: Vec<Arc<ColumnInfo>>) -> Arc<Self> {
        static IDS: AtomicU64 = AtomicU64::new(1);
        Arc::new(Self {
            id: IDS.fetch_add(1, Ordering::Relaxed),
            schema,
            columns,
            retired: AtomicBool::new(false),
        })
    }

    /// The stored schema.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Refuses later writes under this layout.
    pub(crate) fn retire(&self) {
        self.retired.store(true, Ordering::Release);
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }
}

impl std::fmt::Debug for Layout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Layout")
            .field("id", &self.id)
            .field("schema", &self.schema)
            .finish_non_exhaustive()
    }
}
