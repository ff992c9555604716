//! What trees order: numbers or strings of bytes, each with a slot.
//!
//! An entry is some words, the slot last. Numbers are a word. Of a byte string the node has the first eight bytes, which mostly decide a
//! comparison, and a pointer to all of them; the bytes never change. A separator is an entry that need not exist: the shortest that parts two leaves, with slot 0
//! where the keys differ, so that all entries of a key begin in one leaf.

use std::cmp::Ordering;

/// The words of an entry.
pub trait Words: Copy + std::fmt::Debug + Send + Sync + 'static {
    /// Their number.
    const COUNT: usize;
    /// The words of these numbers.
    fn new(word: impl FnMut(usize) -> u64) -> Self;
    /// One of them.
    fn word(&self, word: usize) -> u64;
    /// The last one.
    fn slot(&self) -> u64 {
        self.word(Self::COUNT - 1)
    }
}

impl<const W: usize> Words for [u64; W] {
    const COUNT: usize = W;
    #[inline]
    fn new(word: impl FnMut(usize) -> u64) -> Self {
        std::array::from_fn(word)
    }
    #[inline]
    fn word(&self, word: usize) -> u64 {
        self[word]
    }
}

/// A kind of entries.
pub trait Kind: Send + Sync + Sized + 'static {
    /// An entry's words.
    type Raw: Words;
    /// An entry to look for, which owns nothing.
    type Probe<'a>: Copy;
    /// Whether an entry owns memory.
    const OWNS: bool;

    /// How an entry of which `word` loads the words orders against a probe. `None` if `valid` is false when memory is to be followed.
    ///
    /// # Safety
    ///
    /// If `valid` gives true, the words loaded before are those of an entry that is not freed before this call ends.
    unsafe fn compare(
        word: impl Fn(usize) -> u64,
        valid: impl FnOnce() -> bool,
        probe: Self::Probe<'_>,
    ) -> Option<Ordering>;

    /// An entry as a probe.
    ///
    /// # Safety
    ///
    /// The entry is not freed during `'a`.
    unsafe fn probe<'a>(raw: &Self::Raw) -> Self::Probe<'a>;

    /// An entry of its own.
    fn own(probe: Self::Probe<'_>) -> Self::Raw;

    /// A new entry beyond the first and not beyond the second.
    fn separator(left: Self::Probe<'_>, right: Self::Probe<'_>) -> Self::Raw;

    /// Bytes that the entry of a probe owns.
    fn bytes(probe: Self::Probe<'_>) -> usize;

    /// Frees what an entry owns.
    ///
    /// # Safety
    ///
    /// Nobody follows the entry any more.
    unsafe fn free(raw: &Self::Raw);
}

/// Numbers.
#[derive(Debug, Clone, Copy)]
pub struct Number;

impl Kind for Number {
    type Raw = [u64; 2];
    type Probe<'a> = (u64, u64);
    const OWNS: bool = false;

    #[inline]
    unsafe fn compare(
        word: impl Fn(usize) -> u64,
        _: impl FnOnce() -> bool,
        probe: (u64, u64),
    ) -> Option<Ordering> {
        Some((word(0), word(1)).cmp(&probe))
    }

    #[inline]
    unsafe fn probe<'a>(raw: &[u64; 2]) -> Self::Probe<'a> {
        (raw[0], raw[1])
    }

    fn own((number, slot): (u64, u64)) -> [u64; 2] {
        [number, slot]
    }

    fn separator(left: (u64, u64), right: (u64, u64)) -> [u64; 2] {
        match left.0 == right.0 {
            true => [right.0, right.1],
            false => [right.0, 0],
        }
    }

    fn bytes(_: (u64, u64)) -> usize {
        0
    }

    unsafe fn free(_: &[u64; 2]) {}
}

/// Strings of bytes.
#[derive(Debug, Clone, Copy)]
pub struct Bytes;

/// A byte string and a slot to look for.
#[derive(Debug, Clone, Copy)]
pub struct BytesProbe<'a> {
    first: u64,
    /// The string.
    pub bytes: &'a [u8],
    /// The slot.
    pub slot: u64,
}

impl<'a> BytesProbe<'a> {
    /// A string and a slot.
    pub fn new(bytes: &'a [u8], slot: u64) -> Self {
        let mut first = [0; 8];
        let length = bytes.len().min(8);
        first[..length].copy_from_slice(&bytes[..length]);
        Self {
            first: u64::from_be_bytes(first),
            bytes,
            slot,
        }
    }
}

/// What stands before a string's bytes: their number.
const HEAD: usize = size_of::<usize>();

fn layout(length: usize) -> std::alloc::Layout {
    let size = (HEAD + length).max(1);
    match std::alloc::Layout::from_size_align(size, align_of::<usize>()) {
        Ok(layout) => layout,
        // No slice is so long.
        Err(_) => std::alloc::Layout::new::<usize>(),
    }
}

fn allocate(bytes: &[u8]) -> u64 {
    let layout = layout(bytes.len());
    // SAFETY: the layout has room for the head and the bytes, and is not empty.
    unsafe {
        let place = std::alloc::alloc(layout);
        if place.is_null() {
            std::alloc::handle_alloc_error(layout);
        }
        place.cast::<usize>().write(bytes.len());
        place
            .add(HEAD)
            .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        place.expose_provenance() as u64
    }
}

/// The bytes at a place that [`allocate`] gave.
///
/// # Safety
///
/// They are not freed during `'a`.
unsafe fn at<'a>(place: u64) -> &'a [u8] {
    let place = std::ptr::with_exposed_provenance::<u8>(place as usize);
    // SAFETY: written by `allocate`, and not changed since.
    unsafe {
        let length = place.cast::<usize>().read();
        std::slice::from_raw_parts(place.add(HEAD), length)
    }
}

impl Kind for Bytes {
    type Raw = [u64; 3];
    type Probe<'a> = BytesProbe<'a>;
    const OWNS: bool = true;

    #[inline]
    unsafe fn compare(
        word: impl Fn(usize) -> u64,
        valid: impl FnOnce() -> bool,
        probe: BytesProbe<'_>,
    ) -> Option<Ordering> {
        let order = word(0).cmp(&probe.first);
        if order.is_ne() {
            return Some(order);
        }
        let (place, slot) = (word(1), word(2));
        if !valid() {
            return None;
        }
        // SAFETY: valid, as the caller promises.
        let bytes = unsafe { at(place) };
        Some(bytes.cmp(probe.bytes).then(slot.cmp(&probe.slot)))
    }

    unsafe fn probe<'a>(raw: &[u64; 3]) -> Self::Probe<'a> {
        BytesProbe {
            first: raw[0],
            // SAFETY: as the caller promises.
            bytes: unsafe { at(raw[1]) },
            slot: raw[2],
        }
    }

    fn own(probe: BytesProbe<'_>) -> [u64; 3] {
        [probe.first, allocate(probe.bytes), probe.slot]
    }

    fn separator(left: BytesProbe<'_>, right: BytesProbe<'_>) -> [u64; 3] {
        if left.bytes == right.bytes {
            return Self::own(right);
        }
        let pairs = left.bytes.iter().zip(right.bytes);
        let same = pairs.take_while(|(left, right)| left == right).count();
        Self::own(BytesProbe::new(&right.bytes[..same + 1], 0))
    }

    fn bytes(probe: BytesProbe<'_>) -> usize {
        // What the allocator adds, and rounds up to.
        (HEAD + probe.bytes.len() + 8).next_multiple_of(16)
    }

    unsafe fn free(raw: &[u64; 3]) {
        // SAFETY: nobody follows it, as the caller promises; the layout is that of `allocate`.
        unsafe {
            let length = at(raw[1]).len();
            let place = std::ptr::with_exposed_provenance_mut::<u8>(raw[1] as usize);
            std::alloc::dealloc(place, layout(length));
        }
    }
}
