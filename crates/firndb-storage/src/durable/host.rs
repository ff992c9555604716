//! The file layer: what durability asks of an operating system, and the real one.
//!
//! Everything that touches the database file or its log goes through [`Host`] and [`HostFile`], so that [`super::simulated`] can stand in for the disk
//! and do what disks do when power fails. Reads and writes name their place; there is no file cursor. A write is durable after [`HostFile::sync`]; that a
//! file has a name is durable after [`Host::sync_directory`].

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Result};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::memory::file_size;

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// An existing file, for reading alone.
    Read,
    /// An existing file.
    Write,
    /// A file that is made if it is not there.
    Create,
    /// A file that is made, or emptied.
    Truncate,
}

/// What a lock is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lock {
    /// Others may read, nobody writes.
    Shared,
    /// Nobody else.
    Exclusive,
}

/// Who holds a lock that was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    /// Its process, where the system tells.
    pub process: Option<u32>,
}

/// An operating system's files.
pub trait Host: std::fmt::Debug + Send + Sync {
    /// Opens a file.
    fn open(&self, path: &Path, access: Access) -> Result<Arc<dyn HostFile>>;
    /// Gives a file another name, in the place of what had it, as one step.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;
    /// Takes a name away.
    fn remove(&self, path: &Path) -> Result<()>;
    /// Makes names in the directory of this file durable.
    fn sync_directory(&self, of: &Path) -> Result<()>;
    /// Whether there is a file of this name.
    fn exists(&self, path: &Path) -> bool;
}

/// An open file.
pub trait HostFile: std::fmt::Debug + Send + Sync {
    /// Fills `bytes` from a place; an error of kind `UnexpectedEof` if the file ends before.
    fn read_at(&self, bytes: &mut [u8], at: u64) -> Result<()>;
    /// Writes all of `bytes` at a place. After an error any part of them may be there.
    fn write_at(&self, bytes: &[u8], at: u64) -> Result<()>;
    /// Makes durable what was written, and the length.
    fn sync(&self) -> Result<()>;
    /// Bytes in the file.
    fn length(&self) -> Result<u64>;
    /// Cuts or extends the file.
    fn set_length(&self, length: u64) -> Result<()>;
    /// Locks the file until it is closed, without waiting.
    fn lock(&self, lock: Lock) -> Result<std::result::Result<(), Holder>>;
}

/// The operating system.
#[derive(Debug, Default)]
pub struct RealHost;

#[derive(Debug)]
struct RealFile(File);

impl Host for RealHost {
    fn open(&self, path: &Path, access: Access) -> Result<Arc<dyn HostFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(access != Access::Read);
        options.create(matches!(access, Access::Create | Access::Truncate));
        options.truncate(access == Access::Truncate);
        let file = options.open(path)?;
        if !file.metadata()?.is_file() {
            return Err(Error::new(ErrorKind::IsADirectory, "not a regular file"));
        }
        Ok(Arc::new(RealFile(file)))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        std::fs::remove_file(path)
    }

    fn sync_directory(&self, of: &Path) -> Result<()> {
        File::open(directory(of))?.sync_all()
    }

    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }
}

/// The directory that a file is in.
fn directory(of: &Path) -> PathBuf {
    match of.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

impl HostFile for RealFile {
    fn read_at(&self, bytes: &mut [u8], at: u64) -> Result<()> {
        self.0.read_exact_at(bytes, at)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> Result<()> {
        file_size::check(at.saturating_add(bytes.len() as u64))?;
        self.0.write_all_at(bytes, at)
    }

    fn sync(&self) -> Result<()> {
        self.0.sync_data()
    }

    fn length(&self) -> Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn set_length(&self, length: u64) -> Result<()> {
        // Cutting is always allowed.
        if length > self.length()? {
            file_size::check(length)?;
        }
        self.0.set_len(length)
    }

    fn lock(&self, lock: Lock) -> Result<std::result::Result<(), Holder>> {
        let kind = match lock {
            Lock::Shared => libc::F_RDLCK,
            Lock::Exclusive => libc::F_WRLCK,
        };
        // The lock belongs to the open file: closing another descriptor of it in this process does not take it away.
        if self.control(libc::F_OFD_SETLK, kind, 0)?.is_none() {
            let holder = self.control(libc::F_GETLK, libc::F_WRLCK, 1)?;
            let process = holder.and_then(|held| {
                (i32::from(held.l_type) != libc::F_UNLCK && held.l_pid > 0)
                    .then_some(held.l_pid as u32)
            });
            return Ok(Err(Holder { process }));
        }
        // A lock of the process beside it tells its number to who is refused; nothing depends on it.
        let _ = self.control(libc::F_SETLK, kind, 1);
        Ok(Ok(()))
    }
}

impl RealFile {
    /// A lock operation on one byte; `None` if it is refused.
    fn control(
        &self,
        command: libc::c_int,
        kind: libc::c_int,
        byte: i64,
    ) -> Result<Option<libc::flock>> {
        // SAFETY: a structure of integers.
        let mut range: libc::flock = unsafe { std::mem::zeroed() };
        range.l_type = kind as libc::c_short;
        range.l_whence = libc::SEEK_SET as libc::c_short;
        range.l_start = byte;
        range.l_len = 1;
        // SAFETY: the descriptor is open as long as `self`, and `range` lives through the call.
        let done = unsafe { libc::fcntl(self.0.as_raw_fd(), command, &mut range) };
        if done == 0 {
            return Ok(Some(range));
        }
        let error = Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EACCES) => Ok(None),
            _ => Err(error),
        }
    }
}
