//! Text files cut into pieces at ends of records.
//!
//! A piece is as many whole records as fit into [`CHUNK_BYTES`]; a longer record makes a longer piece. Pieces know the line they begin at.

use std::io::Read;
use std::path::{Path, PathBuf};

use arrow::buffer::Buffer;

use super::paths::file_error;
use crate::{Error, Result, SqlState};

/// Bytes of a piece.
const CHUNK_BYTES: usize = 4 << 20;
/// Bytes that one record may have.
const MOST_BYTES: usize = 1 << 30;

/// Finds the end of the last whole record.
pub trait Boundary: Send + 'static {
    /// One past the end of the last record that surely ends in `bytes`, which begin with a record.
    fn last_end(&self, bytes: &[u8]) -> Option<usize>;

    /// What ends a line.
    fn newline(&self) -> u8 {
        b'\n'
    }
}

/// Records are lines, which end with this byte.
#[derive(Debug, Clone, Copy)]
pub struct Lines(pub u8);

impl Boundary for Lines {
    fn last_end(&self, bytes: &[u8]) -> Option<usize> {
        memchr::memrchr(self.0, bytes).map(|at| at + 1)
    }

    fn newline(&self) -> u8 {
        self.0
    }
}

/// Whole records.
#[derive(Debug, Clone)]
pub struct Chunk {
    /// The text.
    pub bytes: Buffer,
    /// The line it begins at, from 1.
    pub line: usize,
}

/// The pieces of one file.
pub struct Chunks<B> {
    reader: Box<dyn Read + Send>,
    path: PathBuf,
    boundary: B,
    carried: Vec<u8>,
    line: usize,
    started: bool,
    ended: bool,
}

impl<B: Boundary> Chunks<B> {
    /// Cuts what `reader` yields.
    pub fn new(reader: Box<dyn Read + Send>, path: &Path, boundary: B) -> Self {
        Chunks {
            reader,
            path: path.to_owned(),
            boundary,
            carried: Vec::new(),
            line: 1,
            started: false,
            ended: false,
        }
    }

    /// Reads until `bytes` has `target` bytes, or the file ends.
    fn fill(&mut self, bytes: &mut Vec<u8>, target: usize) -> Result<()> {
        let missing = target.saturating_sub(bytes.len()) as u64;
        let mut part = self.reader.by_ref().take(missing);
        let read = part
            .read_to_end(bytes)
            .map_err(|e| file_error(&self.path, "read", &e))?;
        self.ended |= (read as u64) < missing;
        if !self.started {
            self.started = true;
            if bytes.starts_with(b"\xEF\xBB\xBF") {
                bytes.drain(..3);
            }
        }
        Ok(())
    }

    fn cut(&mut self) -> Result<Option<Chunk>> {
        if self.ended && self.carried.is_empty() {
            return Ok(None);
        }
        let mut bytes = std::mem::take(&mut self.carried);
        let mut target = CHUNK_BYTES;
        loop {
            bytes.reserve(target.saturating_sub(bytes.len()));
            self.fill(&mut bytes, target)?;
            if self.ended {
                break;
            }
            if let Some(end) = self.boundary.last_end(&bytes) {
                self.carried = bytes.split_off(end);
                break;
            }
            target = bytes.len() * 2;
            if target > MOST_BYTES {
                return Err(Error::new(
                    SqlState::ProgramLimitExceeded,
                    format!(
                        "file \"{}\", line {}: a record has more than {} bytes",
                        self.path.display(),
                        self.line,
                        MOST_BYTES / 2
                    ),
                ));
            }
        }
        if bytes.is_empty() {
            return Ok(None);
        }
        let line = self.line;
        let newline = self.boundary.newline();
        self.line += memchr::memchr_iter(newline, &bytes).count();
        if let Err(error) = std::str::from_utf8(&bytes) {
            let at = error.valid_up_to();
            let bad = line + memchr::memchr_iter(newline, &bytes[..at]).count();
            return Err(Error::new(
                SqlState::CharacterNotInRepertoire,
                format!(
                    "invalid byte sequence for encoding \"UTF8\": 0x{:02x}",
                    bytes[at]
                ),
            )
            .with_detail(format!("File \"{}\", line {bad}.", self.path.display())));
        }
        Ok(Some(Chunk {
            bytes: Buffer::from_vec(bytes),
            line,
        }))
    }
}

impl<B: Boundary> Iterator for Chunks<B> {
    type Item = Result<Chunk>;

    fn next(&mut self) -> Option<Result<Chunk>> {
        let cut = self.cut();
        if cut.is_err() {
            (self.ended, self.carried) = (true, Vec::new());
        }
        cut.transpose()
    }
}
