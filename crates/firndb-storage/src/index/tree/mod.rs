//! A concurrent B+ tree: optimistic readers, writers that latch what they change, nodes freed by epochs.
//!
//! After *The ART of Practical Synchronization* (optimistic lock coupling). A tree is a set of entries, each a key and a slot, in their order. Generic over
//! its atomics, as the memory protocol is, so that loom checks the code that runs, and over the size of its nodes, so that a few entries make a tall tree.
//!
//! ```text
//!   root ──►  inner   version │ count │ s0 s1 …  │ c0 c1 c2 …        child ci holds entries from s(i-1) on, before si
//!                                         │
//!             leaf    version │ count │ e0 e1 e2 …                    no pointers between leaves
//! ```
//!
//! **Reader.** (1) Loads the version of the root, acquiring, and the root pointer again; (2) chooses a child, [checks](node::Node::check) the version, loads the child's version,
//! checks the parent's again; (3) so on to a leaf; (4) copies from the leaf and checks its version. A check that fails begins the step from the root again.
//! Readers store nothing.
//!
//! **Writer.** Finds its leaf as a reader does, then latches it at the version that it read, by compare-and-swap; changes it; unlatches it with a new version. A full node is split,
//! and one nearly empty appended to its left neighbour, under the latches of the parent and both. Inner nodes are split on the way down, so a split never reaches higher than the parent.
//! Latches are only tried for, so no order of them can block.
//!
//! # Why each race is safe
//!
//! *Torn nodes.* A writer's latch is followed by a release fence, a reader's check preceded by an acquire fence: a reader that loaded even one word that a writer stored
//! sees the latch, or a later version, and does not believe what it loaded. Versions only grow, so none comes twice.
//!
//! *The right leaf.* What leaf an entry belongs to changes only under the latch of the leaf that has it: splits and merges latch and so outdate both leaves. While a leaf keeps its version, the
//! interval that it holds can only grow (a neighbour was merged into it, which outdates it, so not even that). A reader loads the leaf's version between two checks of the parent, so at that moment the separators that it
//! followed bounded the leaf; when the check of the leaf succeeds, they still do. The root has no parent: its pointer is loaded after its version again, and a root is replaced only under its latch.
//!
//! *Ranges.* A leaf is copied whole and as of one moment, together with the separators on its two sides; the next step looks for the separator, not for a neighbour. So the steps of a range are
//! intervals that follow each other without gap or overlap, each read at one moment: an entry that is there all the time is seen exactly once, in either direction, and one that comes or goes meanwhile
//! at most once.
//!
//! *Memory.* The caller holds a [`Pin`] during each call. Pointers to nodes and keys are followed only after a check that succeeds: at that moment, after the pin was taken, the node was in the tree and what it
//! showed was in use. What is taken out goes to the [`Host`], which frees it when the pins of its time are gone. A node out of the tree is marked for good, so who comes to it late begins anew.
//!
//! *Two writers of a key.* [`insert`](Tree::insert) ends with a sequentially consistent fence. Of two threads that add entries of one key and then read the key's entries, one fence comes first; the
//! other thread's reads come after its own, and see what came before the first. That holds when the entries are in different leaves too.

mod kind;
mod memory;
mod node;
mod scan;
#[cfg(test)]
mod tests;

use std::marker::PhantomData;
use std::sync::atomic::Ordering::{Acquire, Release, SeqCst};

pub use kind::{Bytes, BytesProbe, Kind, Number, Words};
use memory::{Fresh, exposed};
pub use memory::{Garbage, Host, OwnedKey, OwnedNode};
pub use node::Node;
use node::{Changed, Latched, Version};
pub use scan::Edge;

use crate::protocol::{Atomics, Pin, Pointer};

/// The tree.
pub struct Tree<A: Atomics, K: Kind, const N: usize> {
    root: A::Pointer<Node<A, K, N>>,
    kind: PhantomData<K>,
}

/// A node on the way down: its version, and which child was taken.
struct Step<'t, A: Atomics, K: Kind, const N: usize> {
    node: &'t Node<A, K, N>,
    version: Version,
    child: usize,
}

type At<'t, A, K, const N: usize> = (&'t Node<A, K, N>, Version);

/// What became of a node that is nearly empty.
enum Shrunk {
    /// It is one with a neighbour now, and the parent has a child less.
    Merged,
    /// It has no neighbours under its parent.
    Alone,
    /// It stays: it is the root, has enough entries, or no neighbour has room for them.
    Not,
}

/// Why an attempt to insert ended without.
enum Failed<E> {
    Changed,
    Refused(E),
}

impl<E> From<Changed> for Failed<E> {
    fn from(_: Changed) -> Self {
        Failed::Changed
    }
}

impl<A: Atomics, K: Kind, const N: usize> Tree<A, K, N> {
    /// Bytes of a node.
    pub const NODE: usize = size_of::<Node<A, K, N>>();

    /// An empty tree: one node.
    pub fn new() -> Self {
        Self {
            root: A::Pointer::new(exposed(Node::new(0))),
            kind: PhantomData,
        }
    }

    /// Adds an entry; `false` if it was there.
    pub fn insert<H: Host<A, K, N>>(
        &self,
        probe: K::Probe<'_>,
        host: &H,
        _pin: &Pin<'_, A>,
    ) -> Result<bool, H::Error> {
        let mut entry = None;
        let added = loop {
            match self.try_insert(probe, &mut entry, host) {
                Ok(added) => break added,
                Err(Failed::Changed) => {}
                Err(Failed::Refused(error)) => return Err(error),
            }
        };
        A::fence(SeqCst);
        Ok(added)
    }

    fn try_insert<H: Host<A, K, N>>(
        &self,
        probe: K::Probe<'_>,
        entry: &mut Option<OwnedKey<K>>,
        host: &H,
    ) -> Result<bool, Failed<H::Error>> {
        let (mut node, mut version) = self.root()?;
        let mut parent: Option<Step<'_, A, K, N>> = None;
        while !node.is_leaf() {
            let child = node.partition(version, probe, |order| order.is_le())?;
            if node.count() >= node.capacity() {
                node.check(version)?;
                self.split_inner(parent.as_ref(), (node, version), child, host)?;
                return Err(Failed::Changed);
            }
            let next = self.follow(node, version, child)?;
            parent = Some(Step {
                node,
                version,
                child,
            });
            (node, version) = next;
        }
        loop {
            match self.insert_at(parent.as_ref(), (node, version), probe, entry, host) {
                Err(Failed::Changed) => {}
                done => return done,
            }
            // Another writer of the same leaf: as long as the parent is the same, it is still the right one.
            version = node.begin()?;
            match &parent {
                Some(step) => step.node.check(step.version)?,
                None => return Err(Failed::Changed),
            }
        }
    }

    /// Inserts into a leaf.
    fn insert_at<H: Host<A, K, N>>(
        &self,
        parent: Option<&Step<'_, A, K, N>>,
        (node, version): At<'_, A, K, N>,
        probe: K::Probe<'_>,
        entry: &mut Option<OwnedKey<K>>,
        host: &H,
    ) -> Result<bool, Failed<H::Error>> {
        let at = node.partition(version, probe, |order| order.is_lt())?;
        if node.partition(version, probe, |order| order.is_le())? > at {
            node.check(version)?;
            return Ok(false);
        }
        let raw = entry.get_or_insert_with(|| OwnedKey(K::own(probe))).0;
        if node.count() < node.capacity() {
            node.latch(version)?.insert(at, &raw);
        } else {
            self.split_leaf(parent, (node, version), at, &raw, host)?;
        }
        // The tree has it now.
        if let Some(entry) = entry.take() {
            entry.into_raw();
        }
        Ok(true)
    }

    /// Splits a full leaf and inserts an entry. One that is filled in order stays full.
    fn split_leaf<H: Host<A, K, N>>(
        &self,
        parent: Option<&Step<'_, A, K, N>>,
        (node, version): At<'_, A, K, N>,
        at: usize,
        raw: &K::Raw,
        host: &H,
    ) -> Result<(), Failed<H::Error>> {
        let right = Fresh::new(0, host)?;
        let root = parent.is_none().then(|| Fresh::new(1, host)).transpose()?;
        let above = parent
            .map(|step| step.node.latch(step.version))
            .transpose()?;
        let left_latch = node.latch(version)?;
        let count = node.count();
        let right_latch = right.latch()?;
        if at == 0 {
            left_latch.split_leaf(0, &right_latch);
            left_latch.insert(0, raw);
        } else if at == count {
            right_latch.insert(0, raw);
        } else {
            let half = count / 2;
            left_latch.split_leaf(half, &right_latch);
            match at <= half {
                true => left_latch.insert(at, raw),
                false => right_latch.insert(at - half, raw),
            }
        }
        let last = node.raw(node.count() - 1);
        let first = right.node().raw(0);
        // SAFETY: both are in latched leaves, so nobody takes them out.
        let (last, first) = unsafe { (K::probe(&last), K::probe(&first)) };
        let separator = K::separator(last, first);
        // SAFETY: made just now.
        host.charge(K::bytes(unsafe { K::probe(&separator) }));
        drop(right_latch);
        self.link(above.as_ref(), parent, &left_latch, &separator, right, root)?;
        Ok(())
    }

    /// Splits a full inner node, near the end at which it is being filled.
    fn split_inner<H: Host<A, K, N>>(
        &self,
        parent: Option<&Step<'_, A, K, N>>,
        (node, version): At<'_, A, K, N>,
        child: usize,
        host: &H,
    ) -> Result<(), Failed<H::Error>> {
        let right = Fresh::new(node.level, host)?;
        let level = node.level + 1;
        let root = parent
            .is_none()
            .then(|| Fresh::new(level, host))
            .transpose()?;
        let above = parent
            .map(|step| step.node.latch(step.version))
            .transpose()?;
        let left_latch = node.latch(version)?;
        let count = node.count();
        let at = match child {
            0 => 0,
            child if child == count => count - 1,
            _ => count / 2,
        };
        let right_latch = right.latch()?;
        let separator = left_latch.split_inner(at, &right_latch);
        drop(right_latch);
        self.link(above.as_ref(), parent, &left_latch, &separator, right, root)?;
        Ok(())
    }

    /// Puts a new right neighbour of a latched node under its latched parent, or both under a new root.
    fn link<H: Host<A, K, N>>(
        &self,
        above: Option<&Latched<'_, A, K, N>>,
        parent: Option<&Step<'_, A, K, N>>,
        left: &Latched<'_, A, K, N>,
        separator: &K::Raw,
        right: Fresh<'_, A, K, N, H>,
        root: Option<Fresh<'_, A, K, N, H>>,
    ) -> Result<(), Changed> {
        match (above, parent, root) {
            (Some(above), Some(step), _) => {
                above.insert_child(step.child, separator, right.into_pointer());
            }
            (_, _, Some(root)) => {
                let old = std::ptr::from_ref(left.node).cast_mut();
                root.latch()?
                    .set_children(old, separator, right.into_pointer());
                self.root.store(root.into_pointer(), Release);
            }
            _ => {}
        }
        Ok(())
    }

    /// Takes an entry away; `false` if it was not there.
    pub fn remove<H: Host<A, K, N>>(
        &self,
        probe: K::Probe<'_>,
        host: &H,
        _pin: &Pin<'_, A>,
    ) -> bool {
        let (raw, left) = loop {
            match self.try_remove(probe) {
                Ok(Some(removed)) => break removed,
                Ok(None) => return false,
                Err(Changed) => {}
            }
        };
        if K::OWNS {
            host.retire(Garbage::Key(OwnedKey(raw)), K::bytes(probe));
        }
        // Not at each of the last entries: the neighbours may be too full for long.
        if left <= Node::<A, K, N>::LEAF / 4 && left.is_multiple_of(4) {
            self.shrink(probe, host);
        }
        true
    }

    /// The entry's words, and how many entries are left in its leaf.
    fn try_remove(&self, probe: K::Probe<'_>) -> Result<Option<(K::Raw, usize)>, Changed> {
        let (step, _) = self.step_to(0, probe)?;
        let (node, version) = (step.node, step.version);
        let at = node.partition(version, probe, |order| order.is_lt())?;
        if node.partition(version, probe, |order| order.is_le())? == at {
            node.check(version)?;
            return Ok(None);
        }
        let latched = node.latch(version)?;
        let raw = latched.remove(at);
        Ok(Some((raw, node.count())))
    }

    /// Merges the nodes on the way to an entry that are nearly empty with their neighbours, from the leaf on.
    fn shrink<H: Host<A, K, N>>(&self, probe: K::Probe<'_>, host: &H) {
        let mut level = 0;
        let mut alone = None;
        loop {
            match self.try_shrink(level, probe, host) {
                Ok(Shrunk::Merged) => {
                    // Who was alone has neighbours now.
                    level = alone.take().unwrap_or(level + 1);
                }
                Ok(Shrunk::Alone) => {
                    alone = alone.or(Some(level));
                    level += 1;
                }
                Ok(Shrunk::Not) => return,
                Err(Changed) => {}
            }
        }
    }

    /// One level of [`shrink`](Self::shrink).
    fn try_shrink<H: Host<A, K, N>>(
        &self,
        level: u64,
        probe: K::Probe<'_>,
        host: &H,
    ) -> Result<Shrunk, Changed> {
        let (step, parent) = self.step_to(level, probe)?;
        let (node, version) = (step.node, step.version);
        if node.level != level {
            // The tree is lower than that.
            return Ok(Shrunk::Not);
        }
        let count = node.count();
        let capacity = node.capacity();
        let Some(parent) = parent else {
            if !node.is_leaf() && count == 0 {
                let latched = node.latch(version)?;
                self.root.store(node.child(0), Release);
                latched.leave();
                self.retire_node(node, host);
            }
            return Ok(Shrunk::Not);
        };
        if count > capacity / 4 {
            node.check(version)?;
            return Ok(Shrunk::Not);
        }
        let above = parent.node;
        if above.count() == 0 {
            above.check(parent.version)?;
            return Ok(Shrunk::Alone);
        }
        for left in [parent.child.checked_sub(1), Some(parent.child)] {
            let Some(left) = left.filter(|&left| left < above.count()) else {
                continue;
            };
            let is_left = left == parent.child;
            let other = self.follow(above, parent.version, left + usize::from(is_left))?;
            let (others, more) = (other.0.count(), usize::from(!node.is_leaf()));
            let together = count + others + more;
            let empty = (count == 0 || others == 0) && together <= capacity;
            if together > capacity * 3 / 4 && !empty {
                continue;
            }
            let (one, two) = match is_left {
                true => ((node, version), other),
                false => (other, (node, version)),
            };
            let above_latch = above.latch(parent.version)?;
            let left_latch = one.0.latch(one.1)?;
            let right_latch = two.0.latch(two.1)?;
            let separator = above_latch.remove_child(left);
            left_latch.append(&separator, &right_latch);
            right_latch.leave();
            drop((left_latch, above_latch));
            if node.is_leaf() && K::OWNS {
                // SAFETY: retired below.
                let bytes = K::bytes(unsafe { K::probe(&separator) });
                host.retire(Garbage::Key(OwnedKey(separator)), bytes);
            }
            self.retire_node(two.0, host);
            return Ok(Shrunk::Merged);
        }
        above.check(parent.version)?;
        Ok(Shrunk::Not)
    }

    fn retire_node<H: Host<A, K, N>>(&self, node: &Node<A, K, N>, host: &H) {
        let address = std::ptr::from_ref(node).addr();
        let node = OwnedNode(std::ptr::with_exposed_provenance_mut(address));
        host.retire(Garbage::Node(node), Self::NODE);
    }

    /// The root, and a version at which it was that.
    #[inline]
    fn root(&self) -> Result<At<'_, A, K, N>, Changed> {
        let root = self.root.load(Acquire);
        // SAFETY: it was the root after the caller's pin was taken.
        let node = unsafe { &*root };
        let version = node.begin()?;
        match self.root.load(Acquire) == root {
            true => Ok((node, version)),
            false => Err(Changed),
        }
    }

    /// A child, and a version at which it was that.
    #[inline]
    fn follow<'t>(
        &'t self,
        node: &'t Node<A, K, N>,
        version: Version,
        child: usize,
    ) -> Result<At<'t, A, K, N>, Changed> {
        let child = node.child(child);
        node.check(version)?;
        // SAFETY: it was in the tree when the version was checked, after the caller's pin was taken.
        let child = unsafe { &*child };
        let of_child = child.begin()?;
        node.check(version)?;
        #[cfg(test)]
        visits::count();
        Ok((child, of_child))
    }

    /// The node of a level (or the root, if that is lower) on the way to an entry, and its parent.
    #[expect(clippy::type_complexity, reason = "a step and the one before")]
    fn step_to(
        &self,
        level: u64,
        probe: K::Probe<'_>,
    ) -> Result<(Step<'_, A, K, N>, Option<Step<'_, A, K, N>>), Changed> {
        let (mut node, mut version) = self.root()?;
        let mut parent = None;
        while node.level > level {
            let child = node.partition(version, probe, |order| order.is_le())?;
            let next = self.follow(node, version, child)?;
            parent = Some(Step {
                node,
                version,
                child,
            });
            (node, version) = next;
        }
        let step = Step {
            node,
            version,
            child: 0,
        };
        Ok((step, parent))
    }
}

impl<A: Atomics, K: Kind, const N: usize> Default for Tree<A, K, N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<A: Atomics, K: Kind, const N: usize> Drop for Tree<A, K, N> {
    fn drop(&mut self) {
        let mut nodes = vec![self.root.load(Acquire)];
        while let Some(node) = nodes.pop() {
            // SAFETY: from `into_raw`; nobody else has the tree, and each node is under one other.
            let node = unsafe { Box::from_raw(node) };
            if !node.is_leaf() {
                nodes.extend((0..=node.count()).map(|child| node.child(child)));
            }
            if K::OWNS {
                for at in 0..node.count() {
                    drop(OwnedKey::<K>(node.raw(at)));
                }
            }
        }
    }
}

impl<A: Atomics, K: Kind, const N: usize> std::fmt::Debug for Tree<A, K, N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tree").finish_non_exhaustive()
    }
}

impl<A: Atomics, K: Kind, const N: usize> std::fmt::Debug for Node<A, K, N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node").finish_non_exhaustive()
    }
}

/// How many nodes this thread visited: tests state costs in them.
#[cfg(test)]
pub(super) mod visits {
    use std::cell::Cell;

    thread_local! {
        static VISITS: Cell<usize> = const { Cell::new(0) };
    }

    pub(in crate::index) fn count() {
        VISITS.with(|visits| visits.set(visits.get() + 1));
    }

    pub(in crate::index) fn of<T>(work: impl FnOnce() -> T) -> (T, usize) {
        let before = VISITS.with(Cell::get);
        let result = work();
        (result, VISITS.with(Cell::get) - before)
    }
}
