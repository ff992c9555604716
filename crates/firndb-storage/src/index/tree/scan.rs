//! Reading the entries between two edges, in order or against it.

use super::kind::{Kind, Words};
use super::node::{Changed, Node, Version};
use super::{At, Tree};
use crate::protocol::{Atomics, Pin};

/// A place between entries.
pub enum Edge<'a, K: Kind> {
    /// Before all.
    Least,
    /// Just before where an entry is or would be.
    Before(K::Probe<'a>),
    /// Just after it.
    After(K::Probe<'a>),
    /// After all.
    Greatest,
}

impl<K: Kind> Clone for Edge<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: Kind> Copy for Edge<'_, K> {}

impl<K: Kind> Edge<'_, K> {
    /// Whether a separator lies before it.
    fn is_beyond(&self, separator: &K::Raw) -> bool {
        let order = |probe| {
            // SAFETY: the separator was read and checked under the caller's pin.
            unsafe { K::compare(|word| separator.word(word), || true, probe) }
        };
        match *self {
            Edge::Least => false,
            Edge::Before(probe) => order(probe).is_some_and(|order| order.is_lt()),
            Edge::After(probe) => order(probe).is_some_and(|order| order.is_le()),
            Edge::Greatest => true,
        }
    }

    /// Whether it lies before all entries from a separator on, and maybe before others.
    fn is_before(&self, separator: &K::Raw) -> bool {
        let order = |probe| {
            // SAFETY: as above.
            unsafe { K::compare(|word| separator.word(word), || true, probe) }
        };
        match *self {
            Edge::Least => true,
            Edge::Before(probe) | Edge::After(probe) => {
                order(probe).is_some_and(|order| order.is_gt())
            }
            Edge::Greatest => false,
        }
    }
}

impl<A: Atomics, K: Kind, const N: usize> Node<A, K, N> {
    /// How many entries or separators come before an edge.
    #[inline]
    fn before(&self, version: Version, edge: &Edge<'_, K>) -> Result<usize, Changed> {
        match *edge {
            Edge::Least => Ok(0),
            Edge::Before(probe) => self.partition(version, probe, |order| order.is_lt()),
            Edge::After(probe) => self.partition(version, probe, |order| order.is_le()),
            Edge::Greatest => Ok(self.count().min(self.capacity())),
        }
    }
}

/// A leaf and the separators that bound it.
struct Bounded<'t, A: Atomics, K: Kind, const N: usize> {
    leaf: At<'t, A, K, N>,
    low: Option<K::Raw>,
    high: Option<K::Raw>,
}

impl<A: Atomics, K: Kind, const N: usize> Tree<A, K, N> {
    /// The slots of the entries between two edges in order, if one leaf has them all; `None` if not, or somebody changed it meanwhile.
    #[inline]
    pub fn slots_in_leaf(
        &self,
        from: K::Probe<'_>,
        to: K::Probe<'_>,
        found: &mut Vec<u64>,
        _pin: &Pin<'_, A>,
    ) -> Option<()> {
        let (mut node, mut version) = self.root().ok()?;
        while !node.is_leaf() {
            let child = node.partition(version, from, |order| order.is_le()).ok()?;
            (node, version) = self.follow(node, version, child).ok()?;
        }
        let first = node.partition(version, from, |order| order.is_lt()).ok()?;
        let count = node.count().min(node.capacity());
        let mut at = first;
        while at < count {
            let raw = node.raw(at);
            // SAFETY: as in `partition`.
            let order = unsafe { K::compare(|word| raw.word(word), || node.is(version), to) }?;
            if order.is_gt() {
                break;
            }
            found.push(node.slot(at));
            at += 1;
        }
        // Where the leaf ends with them there may be more in the next one.
        (at < count && node.is(version)).then_some(())
    }

    /// Appends the entries between two edges to `found`, in order or against it, up to `most`. What they own may be followed under the same pin.
    /// Those that are there during the whole call are all among them, each once; maybe others that come or go meanwhile.
    pub fn scan(
        &self,
        (from, to): (Edge<'_, K>, Edge<'_, K>),
        reverse: bool,
        most: usize,
        found: &mut Vec<K::Raw>,
        _pin: &Pin<'_, A>,
    ) {
        let most = found.len().saturating_add(most);
        let mut at: Option<K::Raw> = None;
        while found.len() < most {
            let before = found.len();
            let next = match &at {
                None => self.try_scan((from, to), reverse, most, found),
                Some(separator) => {
                    // SAFETY: read and checked under the pin.
                    let edge = Edge::Before(unsafe { K::probe(separator) });
                    match reverse {
                        false => self.try_scan((edge, to), reverse, most, found),
                        true => self.try_scan((from, edge), reverse, most, found),
                    }
                }
            };
            match next {
                Ok(Some(separator)) => at = Some(separator),
                Ok(None) => return,
                Err(Changed) => found.truncate(before),
            }
        }
    }

    /// Reads the leaf at one end; gives the separator at which to go on.
    fn try_scan(
        &self,
        (from, to): (Edge<'_, K>, Edge<'_, K>),
        reverse: bool,
        most: usize,
        found: &mut Vec<K::Raw>,
    ) -> Result<Option<K::Raw>, Changed> {
        let Bounded { leaf, low, high } = match reverse {
            true => self.leaf(|node, version| node.before(version, &to))?,
            false => self.leaf(|node, version| match from {
                Edge::Before(probe) => node.partition(version, probe, |order| order.is_le()),
                from => node.before(version, &from),
            })?,
        };
        let (node, version) = leaf;
        let first = node.before(version, &from)?;
        let end = node.before(version, &to)?;
        let room = most - found.len();
        if reverse {
            let entries = (first..end).rev().take(room);
            found.extend(entries.map(|entry| node.raw(entry)));
        } else {
            let entries = (first..end).take(room);
            found.extend(entries.map(|entry| node.raw(entry)));
        }
        node.check(version)?;
        Ok(match reverse {
            true => low.filter(|low| from.is_before(low)),
            false => high.filter(|high| to.is_beyond(high)),
        })
    }

    /// The leaf to which `choose` leads.
    fn leaf(
        &self,
        choose: impl Fn(&Node<A, K, N>, Version) -> Result<usize, Changed>,
    ) -> Result<Bounded<'_, A, K, N>, Changed> {
        let (mut node, mut version) = self.root()?;
        let (mut low, mut high) = (None, None);
        while !node.is_leaf() {
            let child = choose(node, version)?;
            let count = node.count().min(node.capacity());
            let left = child.checked_sub(1).map(|left| node.raw(left));
            let right = (child < count).then(|| node.raw(child));
            // Checks the version, so that what was loaded belongs together.
            (node, version) = self.follow(node, version, child)?;
            low = left.or(low);
            high = right.or(high);
        }
        Ok(Bounded {
            leaf: (node, version),
            low,
            high,
        })
    }
}
