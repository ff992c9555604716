//! The file that is written to. What would go beyond the limit on the size of files is an error before the system sends SIGXFSZ for it.

use std::fs::File;
use std::io::{Result, Write};

use firndb_storage::memory::file_size;

/// A file that grows from its beginning, or a pipe or device, which has no limit.
pub(super) struct Target {
    file: File,
    /// Bytes that are written, if it is a regular file.
    written: Option<u64>,
}

impl Target {
    pub(super) fn new(file: File) -> Self {
        let is_file = file.metadata().is_ok_and(|metadata| metadata.is_file());
        Self {
            written: is_file.then_some(0),
            file,
        }
    }

    /// Waits until the device has it all.
    pub(super) fn sync(&self) -> Result<()> {
        self.file.sync_all()
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        let Some(written) = &mut self.written else {
            return self.file.write(bytes);
        };
        file_size::check(*written + bytes.len() as u64)?;
        let count = self.file.write(bytes)?;
        *written += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> Result<()> {
        self.file.flush()
    }
}
