//! Writing rows to the file: blocks are gathered until they make an extent.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::compute::concat;
use arrow::datatypes::SchemaRef;

use super::Durable;
use super::extent::{FileExtent, encode};
use super::record::runs;
use super::space::Space;
use super::wire::in_stored_type;
use crate::Result;
use crate::relation::ColumnInfo;
use crate::slot::Slot;

/// Most rows of an extent, and bytes from which it takes no more blocks.
const MOST_ROWS: usize = 512 << 10;
const MOST_BYTES: usize = 16 << 20;

/// Gathers rows into extents.
pub(crate) struct ExtentWriter<'a> {
    durable: &'a Durable,
    schema: &'a SchemaRef,
    infos: &'a [Arc<ColumnInfo>],
    space: &'a mut Space,
    slots: Vec<Slot>,
    columns: Vec<Vec<ArrayRef>>,
    bytes: usize,
    extents: Vec<FileExtent>,
}

impl<'a> ExtentWriter<'a> {
    pub(super) fn new(
        durable: &'a Durable,
        schema: &'a SchemaRef,
        infos: &'a [Arc<ColumnInfo>],
        space: &'a mut Space,
    ) -> Self {
        Self {
            durable,
            schema,
            infos,
            space,
            slots: Vec::new(),
            columns: vec![Vec::new(); infos.len()],
            bytes: 0,
            extents: Vec::new(),
        }
    }

    /// Whether rows of an extent that stays come before `next`.
    pub(super) fn is_parted_from(&self, covered: &[(u64, u64)], next: Slot) -> bool {
        let Some(last) = self.slots.last() else {
            return false;
        };
        let after = covered.partition_point(|&(first, _)| first < last.0);
        covered.get(after).is_some_and(|&(first, _)| first < next.0)
    }

    /// Adds rows of a block, as they are read for a consumer.
    pub(crate) fn push(
        &mut self,
        slots: impl Iterator<Item = Slot>,
        columns: Vec<ArrayRef>,
    ) -> Result<()> {
        self.slots.extend(slots);
        for ((pieces, column), info) in self.columns.iter_mut().zip(columns).zip(self.infos) {
            let column = in_stored_type(column, &info.stored)?;
            // Slices share the buffers of their extent: what they show is counted.
            self.bytes += column.to_data().get_slice_memory_size()?;
            pieces.push(column);
        }
        if self.slots.len() >= MOST_ROWS || self.bytes >= MOST_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    /// Writes what was gathered as an extent.
    pub(super) fn flush(&mut self) -> Result<()> {
        if self.slots.is_empty() {
            return Ok(());
        }
        let arrays = self
            .columns
            .iter_mut()
            .map(|pieces| {
                let joined = {
                    let pieces: Vec<&dyn Array> = pieces.iter().map(AsRef::as_ref).collect();
                    concat(&pieces)?
                };
                pieces.clear();
                Ok(joined)
            })
            .collect::<Result<Vec<_>>>()?;
        let slots = std::mem::take(&mut self.slots);
        self.bytes = 0;
        let batch = crate::table::batch(Arc::clone(self.schema), arrays, slots.len())?;
        let (bytes, checksums) = encode(&batch)?;
        let segment = self.durable.write(self.space, &bytes)?;
        self.extents.push(FileExtent {
            offset: segment.offset,
            length: segment.length,
            rows: slots.len() as u64,
            checksums,
            slots: runs(slots.into_iter()),
        });
        Ok(())
    }

    /// The extents.
    pub(super) fn finish(mut self) -> Result<Vec<FileExtent>> {
        self.flush()?;
        Ok(self.extents)
    }
}
