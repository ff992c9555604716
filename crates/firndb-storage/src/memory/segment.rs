//! Segments: the pages that an arena is made of.
//!
//! On Linux a segment is a memfd of fixed size and one shared mapping of it, which is read-only but for
//! ranges that are being filled in place (see [`open`](super::open)). Bytes get in by `pwrite`: the kernel allocates a page when it is first written,
//! without clearing what is about to be overwritten and without a page fault, which costs a third less
//! than filling a new mapping (0.36 against 0.49 s of processor time per GiB), and no stray pointer can
//! change what has been shown. Writes to one memfd are serialised by the kernel, hence several segments
//! are filled at a time (`lane` in the arena).
//!
//! Elsewhere, and under Miri, a segment is plain memory.
//!
//! Invariants: the mapping covers the whole file; the file is sealed against changes of its size, so a
//! read of the mapping never faults with SIGBUS; a segment lives as long as a range of it is held. Whoever holds a
//! buffer in the mapping holds its range, and so the segment: the list of segments tells whose pages a buffer shows.

use std::ptr::NonNull;

use arrow::buffer::Buffer;

use super::pages::Source;

use crate::{Error, Result};

/// Pages, and where they are mapped.
pub(super) struct Segment {
    base: NonNull<u8>,
    len: usize,
    #[cfg(all(target_os = "linux", not(miri)))]
    file: std::fs::File,
    /// The process that mapped it.
    #[cfg(all(target_os = "linux", not(miri)))]
    process: u32,
    /// Whether the list of segments has it.
    #[cfg(all(target_os = "linux", not(miri)))]
    listed: bool,
    /// The pages that exist and are mapped, as far as it is known: a bit each.
    #[cfg(all(target_os = "linux", not(miri)))]
    present: parking_lot::Mutex<Vec<u64>>,
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
    use std::collections::BTreeMap;
    use std::fs::File;
    use std::io;
    use std::marker::PhantomData;
    use std::os::fd::{AsRawFd, FromRawFd, RawFd};
    use std::os::unix::fs::FileExt;
    use std::sync::atomic::{AtomicBool, Ordering};

    use parking_lot::RwLock;

    use super::super::file_size;
    use super::{Buffer, Error, NonNull, Result, Segment, Source};

    /// The segments of the process by the address of their mapping: length and descriptor. A forked child never touches the
    /// list: a thread that it does not have may hold the lock.
    static SEGMENTS: RwLock<BTreeMap<usize, (usize, RawFd)>> = RwLock::new(BTreeMap::new());
    static IS_CHILD: AtomicBool = AtomicBool::new(false);

    /// Called in a forked child.
    pub(in crate::memory) extern "C" fn after_fork() {
        IS_CHILD.store(true, Ordering::SeqCst);
    }

    fn is_child() -> bool {
        IS_CHILD.load(Ordering::SeqCst)
    }

    /// Segments start with this size and double up to `LARGEST`: a small database maps little, a large
    /// one has few mappings.
    pub(in crate::memory) const SMALLEST: usize = 16 << 20;
    /// The size of the segments of a large arena (a larger range has a segment of its own).
    pub(in crate::memory) const LARGEST: usize = 1 << 30;
    /// A multiple of every page size, and a fraction of every segment.
    const GRANULE: usize = 64 << 10;
    /// Whether `discard` gives pages back.
    pub(in crate::memory) const DISCARDS: bool = true;
    /// Whether a forked child sees what happens to the pages later.
    pub(in crate::memory) const SHARED: bool = true;

    impl Segment {
        /// A new segment of `len` bytes, a multiple of the page size; no page is in use yet.
        pub(in crate::memory) fn create(len: usize) -> Result<Self> {
            let file = create_file().map_err(|error| system("memfd_create", &error))?;
            file_size::check(len as u64).map_err(|error| {
                Error::DiskFull(format!(
                    "the limit on the size of files (RLIMIT_FSIZE) leaves no room for {len} bytes of memory: {error}"
                ))
            })?;
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
            let listed = !is_child();
            if listed {
                let entry = (len, file.as_raw_fd());
                SEGMENTS.write().insert(base.as_ptr() as usize, entry);
            }
            Ok(Self {
                base,
                len,
                file,
                process: std::process::id(),
                listed,
                present: parking_lot::Mutex::new(Vec::new()),
            })
        }

        /// The segment whose mapping holds all of a buffer, and the offset of the buffer in it.
        pub(in crate::memory) fn holding(buffer: &Buffer) -> Option<(Source<'_>, usize)> {
            if is_child() {
                return None;
            }
            let address = buffer.as_ptr() as usize;
            let segments = SEGMENTS.read();
            let (&base, &(len, file)) = segments.range(..=address).next_back()?;
            let offset = address - base;
            let source = Source {
                base,
                file,
                holder: PhantomData,
            };
            (offset.checked_add(buffer.len())? <= len).then_some((source, offset))
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
            match file_size::check((offset + bytes.len()) as u64) {
                Ok(()) => self.file.write_all_at(bytes, offset as u64),
                // The limit is for writes: pages that are there already can be stored to.
                Err(_) => self.store(offset, bytes),
            }
        }

        /// Fills a range through a mapping of its own, which the limit on the size of files does not concern.
        fn store(&self, offset: usize, bytes: &[u8]) -> io::Result<()> {
            if bytes.is_empty() {
                return Ok(());
            }
            let ahead = offset % GRANULE;
            let len = ahead + bytes.len();
            // SAFETY: a new mapping of a file that we own, at an address that the kernel chooses.
            let base = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    len,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_SHARED,
                    self.file.as_raw_fd(),
                    (offset - ahead) as libc::off_t,
                )
            };
            if base == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            // SAFETY: the pages are those of the mapping. Without memory for them this fails, where a store would be a SIGBUS.
            let populated = unsafe { libc::madvise(base, len, libc::MADV_POPULATE_WRITE) };
            let result = match populated {
                0 => {
                    // SAFETY: `ahead + bytes.len()` bytes are mapped; the caller says that these are his, and `bytes` lie elsewhere.
                    unsafe {
                        let to = base.cast::<u8>().add(ahead);
                        std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
                    }
                    Ok(())
                }
                _ => Err(io::Error::last_os_error()),
            };
            // SAFETY: our own mapping, which nobody else knows.
            unsafe { libc::munmap(base, len) };
            result
        }

        /// Makes the pages of a range (page-aligned, held by the caller alone) exist and writable in place.
        pub(in crate::memory) fn open(&self, offset: usize, len: usize) -> io::Result<()> {
            self.protect(offset, len, libc::PROT_READ | libc::PROT_WRITE)?;
            if self.present(offset, len, |word, bits| *word & bits == bits) {
                return Ok(());
            }
            // SAFETY: the pages are ours, and writable by now; their bytes stay.
            let populated = unsafe {
                libc::madvise(
                    self.address(offset).as_ptr().cast(),
                    len,
                    libc::MADV_POPULATE_WRITE,
                )
            };
            if populated != 0 {
                let error = io::Error::last_os_error();
                // Linux before 5.14 does not know it: writing makes pages as well.
                if error.raw_os_error() != Some(libc::EINVAL) {
                    return Err(error);
                }
                let zeros = vec![0; len.min(1 << 20)];
                for at in (0..len).step_by(zeros.len()) {
                    let piece = &zeros[..zeros.len().min(len - at)];
                    file_size::check((offset + at + piece.len()) as u64)?;
                    self.file.write_all_at(piece, (offset + at) as u64)?;
                }
            }
            self.present(offset, len, |word, bits| {
                *word |= bits;
                true
            });
            Ok(())
        }

        /// Makes the pages of a range read-only.
        pub(in crate::memory) fn close(&self, offset: usize, len: usize) -> io::Result<()> {
            self.protect(offset, len, libc::PROT_READ)
        }

        fn protect(&self, offset: usize, len: usize, protection: i32) -> io::Result<()> {
            assert!(
                offset.checked_add(len).is_some_and(|end| end <= self.len),
                "a range of the segment"
            );
            // SAFETY: pages of our own mapping; whoever may look at them goes on being allowed to.
            let result =
                unsafe { libc::mprotect(self.address(offset).as_ptr().cast(), len, protection) };
            if result == 0 {
                return Ok(());
            }
            Err(io::Error::last_os_error())
        }

        /// Visits the words of the bits of a range's pages until one says no; gives whether none did.
        fn present(
            &self,
            offset: usize,
            len: usize,
            mut visit: impl FnMut(&mut u64, u64) -> bool,
        ) -> bool {
            let page = super::super::pages::size();
            let mut words = self.present.lock();
            if words.is_empty() {
                words.resize((self.len / page).div_ceil(64), 0);
            }
            let (first, end) = (offset / page, (offset + len) / page);
            (first / 64..end.div_ceil(64)).all(|word| {
                let from = first.saturating_sub(64 * word);
                let to = (end - 64 * word).min(64);
                let bits = (u64::MAX >> (64 - (to - from))) << from;
                visit(&mut words[word], bits)
            })
        }

        /// Gives the pages of a range (page-aligned, held by nobody) back to the operating system.
        pub(in crate::memory) fn discard(&self, offset: usize, len: usize) -> bool {
            self.present(offset, len, |word, bits| {
                *word &= !bits;
                true
            });
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
            // A forked child leaves what its parent mapped as it is.
            if std::process::id() != self.process {
                return;
            }
            if self.listed {
                SEGMENTS.write().remove(&(self.base.as_ptr() as usize));
            }
            // SAFETY: the mapping is ours, and no range of it is held any more.
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

    use super::{Buffer, Error, NonNull, Result, Segment, Source};

    /// Each range has a segment of its own.
    pub(in crate::memory) const SMALLEST: usize = 0;
    /// As `SMALLEST`.
    pub(in crate::memory) const LARGEST: usize = 0;
    /// Pages are given back with the whole segment only.
    pub(in crate::memory) const DISCARDS: bool = false;
    /// A forked child has a copy.
    pub(in crate::memory) const SHARED: bool = false;

    /// Called in a forked child.
    #[cfg(all(unix, not(miri)))]
    pub(in crate::memory) extern "C" fn after_fork() {}

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

        /// Plain memory is writable.
        pub(in crate::memory) fn open(&self, _offset: usize, _len: usize) -> io::Result<()> {
            Ok(())
        }

        /// As `open`.
        pub(in crate::memory) fn close(&self, _offset: usize, _len: usize) -> io::Result<()> {
            Ok(())
        }

        /// No pages can be mapped a second time here.
        pub(in crate::memory) fn holding(_buffer: &Buffer) -> Option<(Source<'_>, usize)> {
            None
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
pub(super) use memfd::{DISCARDS, LARGEST, SHARED, SMALLEST, after_fork};

#[cfg(all(unix, not(target_os = "linux"), not(miri)))]
pub(super) use heap::after_fork;
#[cfg(not(all(target_os = "linux", not(miri))))]
pub(super) use heap::{DISCARDS, LARGEST, SHARED, SMALLEST};
