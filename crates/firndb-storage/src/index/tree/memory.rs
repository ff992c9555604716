//! Memory of trees: who counts it, and what waits to be freed.

use std::marker::PhantomData;

use super::Failed;
use super::kind::Kind;
use super::node::{Changed, Latched, Node};
use crate::protocol::Atomics;

/// Where the memory of a tree comes from and goes to.
pub trait Host<A: Atomics, K: Kind, const N: usize> {
    /// Why there is none.
    type Error;
    /// Counts `bytes` for a node, if they are allowed.
    fn reserve(&self, bytes: usize) -> Result<(), Self::Error>;
    /// Counts bytes of a separator, which cannot be refused.
    fn charge(&self, bytes: usize);
    /// Takes back what was counted and never used.
    fn release(&self, bytes: usize);
    /// Drops `garbage`, of so many bytes, when the pins of this time are gone.
    fn retire(&self, garbage: Garbage<A, K, N>, bytes: usize);
}

/// What is no longer in a tree.
#[derive(Debug)]
pub enum Garbage<A: Atomics, K: Kind, const N: usize> {
    /// A node, without what its entries own.
    Node(OwnedNode<A, K, N>),
    /// What an entry owns.
    Key(OwnedKey<K>),
}

/// A node that is freed when this is dropped. No reference, and no box: others may still look at it.
#[derive(Debug)]
pub struct OwnedNode<A: Atomics, K: Kind, const N: usize>(pub(super) *mut Node<A, K, N>);

// SAFETY: a node is atomic words.
unsafe impl<A: Atomics, K: Kind, const N: usize> Send for OwnedNode<A, K, N> {}

impl<A: Atomics, K: Kind, const N: usize> Drop for OwnedNode<A, K, N> {
    fn drop(&mut self) {
        // SAFETY: from `into_raw`, taken out of the tree once, and its epoch has passed.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

/// An entry that frees what it owns.
#[derive(Debug)]
pub struct OwnedKey<K: Kind>(pub(super) K::Raw);

impl<K: Kind> OwnedKey<K> {
    pub(super) fn into_raw(self) -> K::Raw {
        std::mem::ManuallyDrop::new(self).0
    }
}

impl<K: Kind> Drop for OwnedKey<K> {
    fn drop(&mut self) {
        // SAFETY: either it never came into a tree, or its epoch has passed.
        unsafe { K::free(&self.0) };
    }
}

/// A node that is counted and not in the tree yet.
pub(super) struct Fresh<'h, A: Atomics, K: Kind, const N: usize, H: Host<A, K, N>> {
    node: Box<Node<A, K, N>>,
    counted: Counted<'h, A, K, N, H>,
}

/// The bytes of a node, taken back unless it comes into the tree.
struct Counted<'h, A: Atomics, K: Kind, const N: usize, H: Host<A, K, N>> {
    host: &'h H,
    of: PhantomData<Node<A, K, N>>,
}

impl<'h, A: Atomics, K: Kind, const N: usize, H: Host<A, K, N>> Fresh<'h, A, K, N, H> {
    pub(super) fn new(level: u64, host: &'h H) -> Result<Self, Failed<H::Error>> {
        host.reserve(size_of::<Node<A, K, N>>())
            .map_err(Failed::Refused)?;
        let counted = Counted {
            host,
            of: PhantomData,
        };
        Ok(Self {
            node: Node::new(level),
            counted,
        })
    }

    pub(super) fn node(&self) -> &Node<A, K, N> {
        &self.node
    }

    pub(super) fn latch(&self) -> Result<Latched<'_, A, K, N>, Changed> {
        let version = self.node().begin()?;
        self.node().latch(version)
    }

    pub(super) fn into_pointer(self) -> *mut Node<A, K, N> {
        std::mem::forget(self.counted);
        exposed(self.node)
    }
}

impl<A: Atomics, K: Kind, const N: usize, H: Host<A, K, N>> Drop for Counted<'_, A, K, N, H> {
    fn drop(&mut self) {
        self.host.release(size_of::<Node<A, K, N>>());
    }
}

/// A node that is led to by its address.
pub(super) fn exposed<A: Atomics, K: Kind, const N: usize>(
    node: Box<Node<A, K, N>>,
) -> *mut Node<A, K, N> {
    let node = Box::into_raw(node);
    node.expose_provenance();
    node
}
