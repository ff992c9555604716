//! Nodes: a version that is also the latch, a count, and words.
//!
//! The words of entry `i` (of a leaf) or separator `i` (of an inner node) stand a stride apart, so that a search runs along the first ones. An inner
//! node of `n` separators has `n + 1` children: child `i` holds the entries from separator `i - 1` on and before separator `i`.
//!
//! Everything is an atomic word. Who holds the latch may store; anyone may load, and believes what he loaded when the version is
//! still the one that he began with.

use std::cmp::Ordering;
use std::marker::PhantomData;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::kind::{Kind, Words};
use crate::protocol::{Atomics, Word};

const LATCHED: u64 = 1;
/// The node is out of the tree for good.
const GONE: u64 = 2;
const STEP: u64 = 4;

/// A node of `N` words.
#[repr(C, align(64))]
pub struct Node<A: Atomics, K: Kind, const N: usize> {
    version: A::Word,
    count: A::Word,
    /// 0 for leaves.
    pub(super) level: u64,
    words: [A::Word; N],
    kind: PhantomData<K>,
}

/// A version of a node at which it was not latched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Version(u64);

/// Somebody changed what was being read: begin anew.
#[derive(Debug)]
pub(super) struct Changed;

impl<A: Atomics, K: Kind, const N: usize> Node<A, K, N> {
    /// Entries of a leaf.
    pub(super) const LEAF: usize = N / K::Raw::COUNT;
    /// Separators of an inner node.
    pub(super) const INNER: usize = (N - 1) / (K::Raw::COUNT + 1);

    pub(super) fn new(level: u64) -> Box<Self> {
        const { assert!(Self::LEAF >= 4 && Self::INNER >= 3) };
        Box::new(Self {
            version: A::Word::new(0),
            count: A::Word::new(0),
            level,
            words: std::array::from_fn(|_| A::Word::new(0)),
            kind: PhantomData,
        })
    }

    pub(super) fn is_leaf(&self) -> bool {
        self.level == 0
    }

    /// Entries or separators that fit.
    pub(super) fn capacity(&self) -> usize {
        match self.is_leaf() {
            true => Self::LEAF,
            false => Self::INNER,
        }
    }

    /// Begins reading; waits while somebody writes.
    #[inline]
    pub(super) fn begin(&self) -> Result<Version, Changed> {
        let mut spins: usize = 0;
        loop {
            let version = self.version.load(Acquire);
            if version & (LATCHED | GONE) == 0 {
                return Ok(Version(version));
            }
            if version & GONE != 0 {
                return Err(Changed);
            }
            spins += 1;
            if spins.is_multiple_of(A::SPINS) {
                A::pause();
            } else {
                std::hint::spin_loop();
            }
        }
    }

    /// Whether all that was read since `version` belongs together.
    #[inline]
    pub(super) fn is(&self, version: Version) -> bool {
        A::fence(Acquire);
        self.version.load(Relaxed) == version.0
    }

    /// [`is`](Self::is), or what to do about it.
    #[inline]
    pub(super) fn check(&self, version: Version) -> Result<(), Changed> {
        match self.is(version) {
            true => Ok(()),
            false => Err(Changed),
        }
    }

    /// Latches the node if nobody did since `version`.
    pub(super) fn latch(&self, version: Version) -> Result<Latched<'_, A, K, N>, Changed> {
        self.version
            .compare_exchange(version.0, version.0 | LATCHED, Acquire, Relaxed)
            .map_err(|_| Changed)?;
        // Who sees one of the stores to come sees the latch too.
        A::fence(Release);
        Ok(Latched {
            node: self,
            after: version.0 + STEP,
        })
    }

    /// Number of entries or separators.
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.count.load(Relaxed) as usize
    }

    #[inline]
    fn word(&self, word: usize, at: usize) -> &A::Word {
        &self.words[word * self.capacity() + at]
    }

    /// An entry or a separator; words of several ones if somebody writes.
    #[inline]
    pub(super) fn raw(&self, at: usize) -> K::Raw {
        K::Raw::new(|word| self.word(word, at).load(Relaxed))
    }

    /// The slot of an entry.
    #[inline]
    pub(super) fn slot(&self, at: usize) -> u64 {
        self.word(K::Raw::COUNT - 1, at).load(Relaxed)
    }

    fn child_word(&self, at: usize) -> &A::Word {
        &self.words[K::Raw::COUNT * Self::INNER + at]
    }

    /// Where child `at` is. It may be followed after a check of the version.
    #[inline]
    pub(super) fn child(&self, at: usize) -> *mut Self {
        std::ptr::with_exposed_provenance_mut(self.child_word(at).load(Relaxed) as usize)
    }

    /// The number of entries or separators for whose order with `probe` the condition holds: those that come first.
    #[inline]
    pub(super) fn partition(
        &self,
        version: Version,
        probe: K::Probe<'_>,
        condition: impl Fn(Ordering) -> bool,
    ) -> Result<usize, Changed> {
        let stride = self.capacity();
        let mut left = self.count().min(stride);
        let mut first = 0;
        while left > 0 {
            let half = left / 2;
            let at = first + half;
            let load = |word: usize| self.words[word * stride + at].load(Relaxed);
            // SAFETY: the pin that led here is held, and the words were in the node together if its version is the same after they were loaded.
            let order = unsafe { K::compare(load, || self.is(version), probe) }.ok_or(Changed)?;
            if condition(order) {
                first = at + 1;
                left -= half + 1;
            } else {
                left = half;
            }
        }
        Ok(first)
    }
}

/// A node that nobody else changes. Unlatched when it is dropped.
pub(super) struct Latched<'n, A: Atomics, K: Kind, const N: usize> {
    pub(super) node: &'n Node<A, K, N>,
    after: u64,
}

impl<A: Atomics, K: Kind, const N: usize> Drop for Latched<'_, A, K, N> {
    fn drop(&mut self) {
        self.node.version.store(self.after, Release);
    }
}

impl<A: Atomics, K: Kind, const N: usize> Latched<'_, A, K, N> {
    /// Takes the node out of use: nobody who reads it will believe it, nor latch it again.
    pub(super) fn leave(mut self) {
        self.after |= GONE;
    }

    fn set_count(&self, count: usize) {
        debug_assert!(count <= self.node.capacity());
        self.node.count.store(count as u64, Relaxed);
    }

    fn put(&self, at: usize, raw: &K::Raw) {
        for word in 0..K::Raw::COUNT {
            self.node.word(word, at).store(raw.word(word), Relaxed);
        }
    }

    fn put_child(&self, at: usize, child: *mut Node<A, K, N>) {
        let address = child.expose_provenance() as u64;
        self.node.child_word(at).store(address, Relaxed);
    }

    /// Moves entries from `at` on to `to` and after, within the node.
    fn shift(&self, at: usize, to: usize) {
        let count = self.node.count();
        let move_one = |from: usize| {
            for word in 0..K::Raw::COUNT {
                let value = self.node.word(word, from).load(Relaxed);
                self.node.word(word, from - at + to).store(value, Relaxed);
            }
        };
        if to > at {
            (at..count).rev().for_each(move_one);
        } else {
            (at..count).for_each(move_one);
        }
    }

    /// Adds an entry to a leaf that has room.
    pub(super) fn insert(&self, at: usize, raw: &K::Raw) {
        self.shift(at, at + 1);
        self.put(at, raw);
        self.set_count(self.node.count() + 1);
    }

    /// Takes an entry out of a leaf.
    pub(super) fn remove(&self, at: usize) -> K::Raw {
        let raw = self.node.raw(at);
        self.shift(at + 1, at);
        self.set_count(self.node.count() - 1);
        raw
    }

    /// Makes an inner node of two children.
    pub(super) fn set_children(
        &self,
        left: *mut Node<A, K, N>,
        separator: &K::Raw,
        right: *mut Node<A, K, N>,
    ) {
        self.put_child(0, left);
        self.put_child(1, right);
        self.put(0, separator);
        self.set_count(1);
    }

    /// Adds a separator to an inner node that has room, and the child right of it.
    pub(super) fn insert_child(&self, at: usize, raw: &K::Raw, child: *mut Node<A, K, N>) {
        for from in (at + 1..=self.node.count()).rev() {
            self.put_child(from + 1, self.node.child(from));
        }
        self.put_child(at + 1, child);
        self.insert(at, raw);
    }

    /// Takes a separator out of an inner node, and the child right of it.
    pub(super) fn remove_child(&self, at: usize) -> K::Raw {
        for from in at + 2..=self.node.count() {
            self.put_child(from - 1, self.node.child(from));
        }
        self.remove(at)
    }

    /// Moves the entries from `at` on into an empty leaf.
    pub(super) fn split_leaf(&self, at: usize, right: &Self) {
        let count = self.node.count();
        for from in at..count {
            right.put(from - at, &self.node.raw(from));
        }
        right.set_count(count - at);
        self.set_count(at);
    }

    /// Moves what is right of separator `at` into an empty inner node, and gives the separator.
    pub(super) fn split_inner(&self, at: usize, right: &Self) -> K::Raw {
        let separator = self.node.raw(at);
        let count = self.node.count();
        for from in at + 1..count {
            right.put(from - at - 1, &self.node.raw(from));
        }
        for from in at + 1..=count {
            right.put_child(from - at - 1, self.node.child(from));
        }
        right.set_count(count - at - 1);
        self.set_count(at);
        separator
    }

    /// Appends what the right neighbour has; of inner nodes, the separator between them first.
    pub(super) fn append(&self, separator: &K::Raw, right: &Self) {
        let (mut count, more) = (self.node.count(), right.node.count());
        if !self.node.is_leaf() {
            self.put(count, separator);
            count += 1;
            for from in 0..=more {
                self.put_child(count + from, right.node.child(from));
            }
        }
        for from in 0..more {
            self.put(count + from, &right.node.raw(from));
        }
        self.set_count(count + more);
    }
}
