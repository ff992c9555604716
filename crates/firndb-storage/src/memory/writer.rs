//! Writing a range from front to back.

use arrow::datatypes::{ArrowNativeType, ToByteSlice};

use crate::memory::ArenaRange;
use crate::{Error, Result};

/// Bytes that are gathered before they are written: large enough that a system call is cheap beside the
/// copy, small enough to stay in the second-level cache.
const BUFFER_BYTES: usize = 128 << 10;
/// Pieces from this size on are written from where they are.
const DIRECT_BYTES: usize = 32 << 10;

/// Fills a section of an [`ArenaRange`] sequentially.
#[derive(Debug)]
pub struct RangeWriter<'a> {
    range: &'a ArenaRange,
    /// Where the first byte of `buffer` goes.
    position: usize,
    /// First byte after the section.
    end: usize,
    buffer: Vec<u8>,
}

impl<'a> RangeWriter<'a> {
    /// A writer for `len` bytes at `start` of `range`.
    pub fn new(range: &'a ArenaRange, start: usize, len: usize) -> Self {
        let buffer = Vec::with_capacity(len.min(BUFFER_BYTES));
        Self {
            range,
            position: start,
            end: start + len,
            buffer,
        }
    }

    /// Appends bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.len() >= DIRECT_BYTES {
            self.flush()?;
            self.check_room(bytes.len())?;
            self.range.write_at(self.position, bytes)?;
            self.position += bytes.len();
            return Ok(());
        }
        if self.buffer.len() + bytes.len() > BUFFER_BYTES {
            self.flush()?;
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    /// Appends the values that `values` yields, in memory order.
    pub fn write_values<T: ArrowNativeType>(&mut self, values: &[T]) -> Result<()> {
        self.write(values.to_byte_slice())
    }

    /// Writes what is left and checks that the section is full.
    pub fn finish(mut self) -> Result<()> {
        self.flush()?;
        if self.position != self.end {
            return Err(Error::Internal(format!(
                "a section of frozen memory ends at {} instead of {}",
                self.position, self.end
            )));
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        self.check_room(self.buffer.len())?;
        self.range.write_at(self.position, &self.buffer)?;
        self.position += self.buffer.len();
        self.buffer.clear();
        Ok(())
    }

    /// A section never runs into the next one.
    fn check_room(&self, bytes: usize) -> Result<()> {
        if bytes > self.end - self.position {
            return Err(Error::Internal(
                "a section of frozen memory is too small".into(),
            ));
        }
        Ok(())
    }
}
