//! Writing rows to the file: blocks are gathered until they make an extent.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{Array, ArrayRef};
use arrow::compute::concat;
use arrow::datatypes::SchemaRef;

use super::Durable;
use super::encode::{ColumnEncoder, Compression, EncodedColumn};
use super::extent::{FileExtent, encode};
use super::record::runs;
use super::space::Space;
use crate::slot::Slot;
use crate::{Error, Result};

/// Most rows of an extent, and bytes from which it takes no more blocks.
const MOST_ROWS: usize = 512 << 10;
const MOST_BYTES: usize = 16 << 20;
/// Extents from these bytes on are encoded by several threads.
const PARALLEL: usize = 1 << 20;

/// Gathers rows into extents.
pub(crate) struct ExtentWriter<'a> {
    durable: &'a Durable,
    schema: &'a SchemaRef,
    space: &'a mut Space,
    slots: Vec<Slot>,
    columns: Vec<Vec<ArrayRef>>,
    bytes: usize,
    extents: Vec<FileExtent>,
}

impl<'a> ExtentWriter<'a> {
    pub(super) fn new(durable: &'a Durable, schema: &'a SchemaRef, space: &'a mut Space) -> Self {
        Self {
            durable,
            schema,
            space,
            slots: Vec::new(),
            columns: vec![Vec::new(); schema.fields().len()],
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

    /// Adds rows of a block, in the stored types.
    pub(crate) fn push(
        &mut self,
        slots: impl Iterator<Item = Slot>,
        columns: Vec<ArrayRef>,
    ) -> Result<()> {
        self.slots.extend(slots);
        for (pieces, column) in self.columns.iter_mut().zip(columns) {
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
        let pieces: Vec<Vec<ArrayRef>> = self.columns.iter_mut().map(std::mem::take).collect();
        let slots = std::mem::take(&mut self.slots);
        let threads = match std::mem::take(&mut self.bytes) {
            bytes if bytes < PARALLEL => 1,
            _ => self.durable.threads,
        };
        let columns = encode_columns(self.schema, &pieces, self.durable.compression(), threads)?;
        drop(pieces);
        let (bytes, checksums) = encode(self.schema, &columns, slots.len())?;
        drop(columns);
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

/// Joins and encodes columns, the largest first, on several threads.
fn encode_columns(
    schema: &SchemaRef,
    columns: &[Vec<ArrayRef>],
    compression: Compression,
    threads: usize,
) -> Result<Vec<EncodedColumn>> {
    let size = |number: &usize| -> usize {
        let pieces = columns[*number].iter();
        pieces
            .map(|piece| piece.to_data().get_slice_memory_size().unwrap_or(0))
            .sum()
    };
    let mut order: Vec<usize> = (0..columns.len()).collect();
    order.sort_by_cached_key(|number| std::cmp::Reverse(size(number)));
    let done: Vec<OnceLock<EncodedColumn>> = columns.iter().map(|_| OnceLock::new()).collect();
    let next = AtomicUsize::new(0);
    let work = || -> Result<()> {
        let mut encoder = ColumnEncoder::new(compression)?;
        while let Some(&number) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            let pieces: Vec<&dyn Array> = columns[number].iter().map(AsRef::as_ref).collect();
            let joined = concat(&pieces)?;
            let _ = done[number].set(encoder.column(&schema.fields()[number], &joined)?);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        // Without a thread this one does it all.
        let others: Vec<_> = (1..threads.min(columns.len()))
            .filter_map(|_| std::thread::Builder::new().spawn_scoped(scope, work).ok())
            .collect();
        let mut result = work();
        for other in others {
            let ended = other.join();
            let ended =
                ended.unwrap_or_else(|_| Err(Error::Internal("encoding a column panicked".into())));
            result = result.and(ended);
        }
        result
    })?;
    done.into_iter()
        .map(|column| {
            column
                .into_inner()
                .ok_or_else(|| Error::Internal("a column was not encoded".into()))
        })
        .collect()
}
