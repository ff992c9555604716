//! Segments: the pages that an arena is made of.
//!
//! On Linux a segment is a memfd of fixed size and one shared mapping of it, which is read-only for
//! its whole life. Bytes get in by `pwrite`: the kernel allocates a page when it is first written,
//! without clearing what is about to be overwritten and without a page fault, which costs a third less
//! than filling a new mapping (0.36 against 0.49 s of processor time per GiB), and no stray pointer can
//! change what has been shown. Writes to one memfd are serialised by the kernel, hence several segments
//! are filled at a time (`lane` in the arena).
//!
//! Elsewhere, and under Miri, a segment is plain memory.
//!
//! Invariants: the mapping covers the whole file; the file is sealed against changes of its size, so a
//! read of the mapping never faults with SIGBUS; a segment lives as long as a range of it is held.

use std::ptr::NonNull;

use crate::{Error, Result};

/// Pages, and where they are mapped.
pub(super) struct Segment {
    base: NonNull<u8>,
    len: usize,
    #[cfg(all(target_os = "linux", not(miri)))]
    file: std::fs::File,
}

// SAFETY: the mapping is plain memory that any thread may read. It is written only by `write`, whose
// callers own the bytes that they write (see there).
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

impl Segment {
    /// Number of bytes.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The address of a byte. Panics when it is not in the segment.
    pub(super) fn address(&self, offset: usize) -> NonNull<u8> {
        assert!(offset <= self.len, "offset within the segment");
        // SAFETY: the offset is within (or one past) the mapping, checked above.
        unsafe { self.base.add(offset) }
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
mod memfd {
    use std::fs::File;
    use std::io;
    use std::os::fd::{AsRawFd, FromRawFd};
    use std::os::unix::fs::FileExt;

    use super::{Error, NonNull, Result, Segment};

    /// Segments start with this size and double up to `LARGEST`: a small database maps little, a large
    /// one has few mappings.
    pub(in crate::memory) const SMALLEST: usize = 16 << 20;
    /// The size of the segments of a large arena (a larger range has a segment of its own).
    pub(in crate::memory) const LARGEST: usize = 1 << 30;
    /// Whether `discard` gives pages back.
    pub(in crate::memory) const DISCARDS: bool = true;
    /// Whether a forked child sees what happens to the pages later.
    pub(in crate::memory) const SHARED: bool = true;

    impl Segment {
        /// A new segment of `len` bytes, a multiple of the page size; no page is in use yet.
        pub(in crate::memory) fn create(len: usize) -> Result<Self> {
            let file = create_file().map_err(|error| system("memfd_create", &error))?;
            file.set_len(len as u64)
                .map_err(|error| system("ftruncate", &error))?;
            let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
            // SAFETY: fcntl on a descriptor that we own; adds seals, touches no memory.
            if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) } != 0 {
                return Err(system("fcntl(F_ADD_SEALS)", &io::Error::last_os_error()));
            }
            // SAFETY: a new mapping at an address that the kernel chooses, of a file that we own.
            let base = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    len,
                    libc::PROT_READ,
                    libc::MAP_SHARED | libc::MAP_NORESERVE,
                    file.as_raw_fd(),
                    0,
                )
            };
            if base == libc::MAP_FAILED {
                return Err(system("mmap", &io::Error::last_os_error()));
            }
            let base = NonNull::new(base.cast::<u8>())
                .ok_or_else(|| Error::System("mmap returned a null pointer".into()))?;
            Ok(Self { base, len, file })
        }

        /// Fills `offset..offset + bytes.len()`.
        ///
        /// # Safety
        /// The bytes lie within the segment and belong to the caller: nobody reads or writes them meanwhile.
        pub(in crate::memory) unsafe fn write(
            &self,
            offset: usize,
            bytes: &[u8],
        ) -> io::Result<()> {
            self.file.write_all_at(bytes, offset as u64)
        }

        /// Gives the pages of a range (page-aligned, held by nobody) back to the operating system.
        pub(in crate::memory) fn discard(&self, offset: usize, len: usize) -> bool {
            // SAFETY: punches a hole into a file that we own. The caller holds the only claim to the range, so
            // no reference sees its bytes change.
            let result = unsafe {
                libc::fallocate(
                    self.file.as_raw_fd(),
                    libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
                    offset as libc::off_t,
                    len as libc::off_t,
                )
            };
            result == 0
        }
    }

    impl Drop for Segment {
        fn drop(&mut self) {
            // SAFETY: the mapping is ours, and no range of it is held any more. In a forked child this ends
            // the child's own mapping only.
            unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
        }
    }

    fn create_file() -> io::Result<File> {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // MFD_NOEXEC_SEAL is unknown before Linux 6.3.
        let mut descriptor = -1;
        for extra in [libc::MFD_NOEXEC_SEAL, 0] {
            // SAFETY: creates a descriptor; the name is a C string.
            descriptor = unsafe { libc::memfd_create(c"firndb".as_ptr(), flags | extra) };
            if descriptor >= 0 {
                break;
            }
        }
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just created and has no other owner.
        Ok(unsafe { File::from_raw_fd(descriptor) })
    }

    fn system(call: &str, error: &io::Error) -> Error {
        Error::System(format!("{call} failed: {error}"))
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
mod heap {
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::io;

    use super::{Error, NonNull, Result, Segment};

    /// Each range has a segment of its own.
    pub(in crate::memory) const SMALLEST: usize = 0;
    /// As `SMALLEST`.
    pub(in crate::memory) const LARGEST: usize = 0;
    /// Pages are given back with the whole segment only.
    pub(in crate::memory) const DISCARDS: bool = false;
    /// A forked child has a copy.
    pub(in crate::memory) const SHARED: bool = false;

    impl Segment {
        /// A new segment of `len` bytes.
        pub(in crate::memory) fn create(len: usize) -> Result<Self> {
            // SAFETY: `len` is not zero (a range has at least a page).
            let base = unsafe { alloc_zeroed(layout(len)?) };
            let base = NonNull::new(base).ok_or_else(|| Error::OutOfMemory {
                requested: len,
                used: 0,
                limit: 0,
            })?;
            Ok(Self { base, len })
        }

        /// Fills `offset..offset + bytes.len()`.
        ///
        /// # Safety
        /// The bytes lie within the segment and belong to the caller: nobody reads or writes them meanwhile.
        pub(in crate::memory) unsafe fn write(
            &self,
            offset: usize,
            bytes: &[u8],
        ) -> io::Result<()> {
            // SAFETY: within the allocation and not shared, as the caller promises.
            unsafe {
                let target = self.base.as_ptr().add(offset);
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len());
            }
            Ok(())
        }

        /// Pages can't be given back one by one here.
        pub(in crate::memory) fn discard(&self, _offset: usize, _len: usize) -> bool {
            false
        }
    }

    impl Drop for Segment {
        fn drop(&mut self) {
            if let Ok(layout) = layout(self.len) {
                // SAFETY: allocated with the same layout in `create`.
                unsafe { dealloc(self.base.as_ptr(), layout) };
            }
        }
    }

    fn layout(len: usize) -> Result<Layout> {
        Layout::from_size_align(len.max(1), 4096)
            .map_err(|_| Error::Limit(format!("a range of {len} bytes")))
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
pub(super) use memfd::{DISCARDS, LARGEST, SHARED, SMALLEST};

#[cfg(not(all(target_os = "linux", not(miri))))]
pub(super) use heap::{DISCARDS, LARGEST, SHARED, SMALLEST};
