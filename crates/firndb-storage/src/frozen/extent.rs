//! Extents: the columns of a run of rows.

use arrow::datatypes::SchemaRef;

use crate::frozen::FrozenColumn;

/// Immutable columns over the rows of several blocks. Held by reference: descriptors, scans and exports keep what
/// they show alive.
#[derive(Debug)]
pub struct Extent {
    schema: SchemaRef,
    rows: usize,
    columns: Vec<FrozenColumn>,
}

impl Extent {
    /// An extent of columns that have `rows` rows each.
    pub(crate) fn new(schema: SchemaRef, rows: usize, columns: Vec<FrozenColumn>) -> Self {
        debug_assert!(columns.iter().all(|column| column.rows() == rows));
        Self {
            schema,
            rows,
            columns,
        }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The stored schema it was built with.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The column at a position of the schema. Panics beyond it.
    pub fn column(&self, position: usize) -> &FrozenColumn {
        &self.columns[position]
    }

    /// All columns.
    pub fn columns(&self) -> &[FrozenColumn] {
        &self.columns
    }

    /// Bytes of frozen memory, lazily built views included.
    pub fn bytes(&self) -> usize {
        self.columns.iter().map(FrozenColumn::bytes).sum()
    }
}
