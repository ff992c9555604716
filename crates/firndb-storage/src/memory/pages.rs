//! Pages of one user: a reserved range of addresses into which frozen pages are mapped privately.
//!
//! Everywhere but on Linux, and under Miri, nothing is mapped: the range is anonymous memory and callers copy.

use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::NonNull;

/// The file of a segment, for as long as a buffer of it is borrowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Source<'a> {
    /// Where the segment is mapped: tells it from others.
    pub(super) base: usize,
    /// Its descriptor.
    pub(super) file: i32,
    pub(super) holder: PhantomData<&'a [u8]>,
}

/// Pages that read as zeros until they are written to or show something else.
pub(super) struct Pages {
    base: NonNull<u8>,
    len: usize,
    /// A part that is not known to be ours any more.
    lost: Option<Range<usize>>,
}

impl Pages {
    /// The first byte.
    pub(super) fn base(&self) -> NonNull<u8> {
        self.base
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
mod linux {
    use std::sync::OnceLock;

    use super::{NonNull, Pages, Source};

    /// Memory of this size may come in huge pages, which are cleared faster than so many small ones.
    const HUGE: usize = 2 << 20;

    impl Pages {
        /// At least `bytes` bytes; `None` when the system has no addresses for them.
        pub(in crate::memory) fn reserve(bytes: usize) -> Option<Self> {
            let len = bytes.checked_next_multiple_of(super::size())?;
            // SAFETY: a new mapping at an address that the kernel chooses.
            let base = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    len,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                    -1,
                    0,
                )
            };
            if base == libc::MAP_FAILED {
                return None;
            }
            if len >= HUGE {
                // SAFETY: advice about a mapping of ours; it changes no byte, and refusing it does no harm.
                unsafe { libc::madvise(base, len, libc::MADV_HUGEPAGE) };
            }
            Some(Self {
                base: NonNull::new(base.cast())?,
                len,
                lost: None,
            })
        }

        /// Shows `len` bytes from `offset` of a segment at byte `at`, copied page by page when they are written to; false
        /// when the system refuses: then the memory must not be used any more. All three are multiples of the page size.
        ///
        /// # Safety
        /// The segment's bytes do not change, and its range is not given back, as long as the pages live. Nobody has a
        /// reference to the bytes that they replace.
        pub(in crate::memory) unsafe fn show(
            &mut self,
            at: usize,
            len: usize,
            source: Source<'_>,
            offset: usize,
        ) -> bool {
            assert!(at.checked_add(len).is_some_and(|end| end <= self.len));
            // SAFETY: the place lies within our own reservation, and the caller promises the rest. The descriptor is open,
            // because the segment is held.
            let shown = unsafe {
                libc::mmap(
                    self.base.as_ptr().add(at).cast(),
                    len,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_PRIVATE | libc::MAP_FIXED | libc::MAP_NORESERVE,
                    source.file,
                    offset as libc::off_t,
                )
            };
            if shown == libc::MAP_FAILED {
                // The kernel may have unmapped the place before it failed, and another thread may have it now.
                self.lost = Some(at..at + len);
                return false;
            }
            true
        }
    }

    impl Drop for Pages {
        fn drop(&mut self) {
            let lost = self.lost.clone().unwrap_or(self.len..self.len);
            for part in [0..lost.start, lost.end..self.len] {
                if !part.is_empty() {
                    // SAFETY: the part is ours, and whoever owned the pages has no reference to them any more.
                    unsafe { libc::munmap(self.base.as_ptr().add(part.start).cast(), part.len()) };
                }
            }
        }
    }

    /// Mappings that the kernel allows a process.
    pub(in crate::memory) fn most_mappings() -> usize {
        static MOST: OnceLock<usize> = OnceLock::new();
        const DEFAULT: usize = 65_530;
        *MOST.get_or_init(|| {
            let read = std::fs::read_to_string("/proc/sys/vm/max_map_count");
            let known = read.ok().and_then(|text| text.trim().parse().ok());
            known.unwrap_or(DEFAULT)
        })
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
mod heap {
    use std::alloc::{Layout, alloc_zeroed, dealloc};

    use super::{NonNull, Pages, Source};

    impl Pages {
        /// At least `bytes` bytes; `None` when there is no memory for them.
        pub(in crate::memory) fn reserve(bytes: usize) -> Option<Self> {
            let len = bytes
                .checked_next_multiple_of(super::size())?
                .max(super::size());
            let layout = Layout::from_size_align(len, super::size()).ok()?;
            // SAFETY: the size is not zero.
            let base = NonNull::new(unsafe { alloc_zeroed(layout) })?;
            Some(Self {
                base,
                len,
                lost: None,
            })
        }

        /// Nothing can be shown here; the memory stays as it is.
        ///
        /// # Safety
        /// None is needed.
        pub(in crate::memory) unsafe fn show(
            &mut self,
            _at: usize,
            _len: usize,
            _source: Source<'_>,
            _offset: usize,
        ) -> bool {
            false
        }
    }

    impl Drop for Pages {
        fn drop(&mut self) {
            if let Ok(layout) = Layout::from_size_align(self.len, super::size()) {
                // SAFETY: allocated with the same layout in `reserve`.
                unsafe { dealloc(self.base.as_ptr(), layout) };
            }
        }
    }

    /// None: nothing is mapped.
    pub(in crate::memory) fn most_mappings() -> usize {
        0
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
pub(super) use heap::most_mappings;
#[cfg(all(target_os = "linux", not(miri)))]
pub(super) use linux::most_mappings;

/// Bytes of a page.
pub(super) fn size() -> usize {
    #[cfg(all(unix, not(miri)))]
    {
        // SAFETY: reads a constant of the system.
        let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        if let Ok(size) = usize::try_from(size)
            && size.is_power_of_two()
        {
            return size;
        }
    }
    4096
}
