//! Ranges of keys, and the entries in them in key order.
//!
//! A range fixes the values of the first key columns and may bound the next one. Where keys are numbers it is an interval of them, with or without
//! the NULLs; where they are bytes it is an interval of byte strings: the encoding of the first columns is a prefix of the whole key's, so
//! all keys that begin with some values lie between their encoding and its successor.
//!
//! Entries are read a piece at a time, each piece found from the last entry of the one before: nothing of the tree is held in between.

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use scc::{Comparable, Guard, TreeIndex};

use super::key::Probe;
use super::unique::Tree;
use super::{Key, KeyEncoder, UniqueIndex};
use crate::Result;
use crate::slot::Slot;

/// A range of an index's keys, by values of one row each in the key columns' types.
#[derive(Debug, Clone)]
pub struct KeyRange {
    /// What the first key columns equal; NULL is the columns' NULL.
    pub equal: Vec<ArrayRef>,
    /// The least values of the next key column.
    pub lower: Bound<ArrayRef>,
    /// The greatest values of the next key column. With either bound its NULLs are left out.
    pub upper: Bound<ArrayRef>,
}

impl KeyRange {
    /// All keys.
    pub fn all() -> Self {
        Self::equal(Vec::new())
    }

    /// The keys whose first columns have these values.
    pub fn equal(values: Vec<ArrayRef>) -> Self {
        Self {
            equal: values,
            lower: Bound::Unbounded,
            upper: Bound::Unbounded,
        }
    }
}

/// An interval of encoded keys.
#[derive(Debug, Clone)]
pub struct Bounds {
    interval: Interval,
    /// Whether the NULLs of a number are in it.
    nulls: bool,
}

#[derive(Debug, Clone)]
enum Interval {
    /// Both ends belong to it; empty if they cross.
    Integer(u64, u64),
    /// From the first on, before the second.
    Bytes(Vec<u8>, Option<Vec<u8>>),
}

/// First bytes of a column's encoding between which those of values lie, and those of NULLs don't.
const FIRST_OF_VALUES: u8 = 1;
const FIRST_AFTER_VALUES: u8 = 0xff;

impl Bounds {
    /// The interval of a range of an encoder's keys.
    pub fn new(encoder: &KeyEncoder, range: &KeyRange) -> Result<Self> {
        if encoder.is_integer() {
            integers(encoder, range)
        } else {
            bytes(encoder, range)
        }
    }

    /// Whether the NULLs of a number are in it, which stand apart.
    pub(crate) fn has_nulls(&self) -> bool {
        self.nulls
    }

    /// Without the NULLs of a number.
    pub(crate) fn without_nulls(self) -> Self {
        Self {
            nulls: false,
            ..self
        }
    }

    /// The NULLs of a number alone.
    pub(crate) fn nulls_alone() -> Self {
        Self {
            interval: Interval::Integer(1, 0),
            nulls: true,
        }
    }
}

fn integers(encoder: &KeyEncoder, range: &KeyRange) -> Result<Bounds> {
    let nothing = Bounds {
        interval: Interval::Integer(1, 0),
        nulls: false,
    };
    if let Some(value) = range.equal.first() {
        return Ok(match encoder.number(value)? {
            Some(number) => Bounds {
                interval: Interval::Integer(number, number),
                nulls: false,
            },
            None => Bounds::nulls_alone(),
        });
    }
    let number = |value: &ArrayRef| encoder.number(value);
    let least = match &range.lower {
        Bound::Unbounded => Some(0),
        Bound::Included(value) => number(value)?,
        Bound::Excluded(value) => number(value)?.and_then(|number| number.checked_add(1)),
    };
    let greatest = match &range.upper {
        Bound::Unbounded => Some(u64::MAX),
        Bound::Included(value) => number(value)?,
        Bound::Excluded(value) => number(value)?.and_then(|number| number.checked_sub(1)),
    };
    let unbounded = matches!(
        (&range.lower, &range.upper),
        (Bound::Unbounded, Bound::Unbounded)
    );
    Ok(match (least, greatest) {
        (Some(least), Some(greatest)) => Bounds {
            interval: Interval::Integer(least, greatest),
            nulls: unbounded,
        },
        _ => nothing,
    })
}

fn bytes(encoder: &KeyEncoder, range: &KeyRange) -> Result<Bounds> {
    let prefix = encoder.prefix(&range.equal)?;
    let with = |value: &ArrayRef| {
        let mut values = range.equal.clone();
        values.push(Arc::clone(value));
        encoder.prefix(&values)
    };
    let within = |byte: u8| {
        let mut bound = prefix.clone();
        bound.push(byte);
        bound
    };
    let is_null = |bound: &Bound<ArrayRef>| match bound {
        Bound::Included(value) | Bound::Excluded(value) => value.is_null(0),
        Bound::Unbounded => false,
    };
    if is_null(&range.lower) || is_null(&range.upper) {
        // Nothing is less or greater than NULL.
        return Ok(Bounds {
            interval: Interval::Bytes(Vec::new(), Some(Vec::new())),
            nulls: false,
        });
    }
    let column = range.equal.len();
    let (first, last) = match encoder.order(column).descending {
        false => (&range.lower, &range.upper),
        true => (&range.upper, &range.lower),
    };
    let bounded = !matches!((first, last), (Bound::Unbounded, Bound::Unbounded));
    let from = match first {
        Bound::Unbounded if bounded => within(FIRST_OF_VALUES),
        Bound::Unbounded => prefix.clone(),
        Bound::Included(value) => with(value)?,
        Bound::Excluded(value) => match successor(with(value)?) {
            Some(from) => from,
            None => return Ok(empty()),
        },
    };
    let before = match last {
        Bound::Unbounded if bounded => Some(within(FIRST_AFTER_VALUES)),
        Bound::Unbounded => successor(prefix),
        Bound::Included(value) => successor(with(value)?),
        Bound::Excluded(value) => Some(with(value)?),
    };
    Ok(Bounds {
        interval: Interval::Bytes(from, before),
        nulls: false,
    })
}

fn empty() -> Bounds {
    Bounds {
        interval: Interval::Bytes(Vec::new(), Some(Vec::new())),
        nulls: false,
    }
}

/// The least byte string after all that begin with this one.
fn successor(mut bytes: Vec<u8>) -> Option<Vec<u8>> {
    while let Some(last) = bytes.pop() {
        if last < u8::MAX {
            bytes.push(last + 1);
            return Some(bytes);
        }
    }
    None
}

impl UniqueIndex {
    /// Some of the first entries in key order (the NULLs of a number last), or of the last ones with `reverse`, beyond the entry `after`: of those that are
    /// there during the whole call none is left out between the ones given, maybe some come that come or go meanwhile. About `most`; none when there are no more.
    pub fn entries(
        &self,
        bounds: &Bounds,
        reverse: bool,
        after: Option<&(Key, Slot)>,
        most: usize,
    ) -> Vec<(Key, Slot)> {
        let guard = Guard::new();
        match (&self.tree, &bounds.interval) {
            (Tree::Integer(tree, nulls), &Interval::Integer(least, greatest)) => {
                let numbers = |most: usize| {
                    let after = match after {
                        Some((Key::Integer(number), slot)) => Some((*number, slot.0)),
                        _ => None,
                    };
                    let (from, to) = beyond((least, 0), (greatest, u64::MAX), after, reverse);
                    piece(tree, from, to, reverse, most, &guard)
                        .into_iter()
                        .map(|entry| (Key::Integer(entry.0), Slot(entry.1)))
                };
                let unknown = |most: usize| {
                    let after = match after {
                        Some((Key::Null, slot)) => Some(slot.0),
                        _ => None,
                    };
                    let (from, to) = beyond(0, u64::MAX, after, reverse);
                    let most = if bounds.nulls { most } else { 0 };
                    piece(nulls, from, to, reverse, most, &guard)
                        .into_iter()
                        .map(|slot| (Key::Null, Slot(*slot)))
                };
                let mut found: Vec<(Key, Slot)> = Vec::new();
                if reverse {
                    if !matches!(after, Some((Key::Integer(_), _))) {
                        found.extend(unknown(most));
                    }
                    if found.is_empty() {
                        found.extend(numbers(most));
                    }
                } else {
                    if !matches!(after, Some((Key::Null, _))) {
                        found.extend(numbers(most));
                    }
                    if found.is_empty() {
                        found.extend(unknown(most));
                    }
                }
                found
            }
            (Tree::Bytes(tree), Interval::Bytes(from, before)) => {
                let mut from = Bound::Included(Probe(from, 0));
                let mut to = match before {
                    Some(before) => Bound::Excluded(Probe(before, 0)),
                    None => Bound::Unbounded,
                };
                match after {
                    Some((Key::Bytes(bytes), slot)) if reverse => {
                        to = Bound::Excluded(Probe(bytes, slot.0));
                    }
                    Some((Key::Bytes(bytes), slot)) => from = Bound::Excluded(Probe(bytes, slot.0)),
                    _ => {}
                }
                piece(tree, from, to, reverse, most, &guard)
                    .into_iter()
                    .map(|entry| (Key::Bytes(Arc::clone(&entry.0)), Slot(entry.1)))
                    .collect()
            }
            _ => Vec::new(),
        }
    }
}

/// An interval of entries, or what of it lies beyond an entry.
fn beyond<T>(least: T, greatest: T, after: Option<T>, reverse: bool) -> (Bound<T>, Bound<T>) {
    match after {
        Some(after) if reverse => (Bound::Included(least), Bound::Excluded(after)),
        Some(after) => (Bound::Excluded(after), Bound::Included(greatest)),
        None => (Bound::Included(least), Bound::Included(greatest)),
    }
}

/// About `most` entries at one end of an interval.
///
/// Against the order the tree may leave entries out while others change it, so that way it is only asked where to begin.
fn piece<'g, K, Q>(
    tree: &'g TreeIndex<K, ()>,
    from: Bound<Q>,
    to: Bound<Q>,
    reverse: bool,
    most: usize,
    guard: &'g Guard,
) -> Vec<&'g K>
where
    K: 'static + Clone + Ord,
    Q: Comparable<K> + Compare + Copy,
{
    if most == 0 || Q::crossed(&from, &to) {
        return Vec::new();
    }
    if !reverse {
        return ascending(tree, from, to, most, guard);
    }
    let last: Vec<&K> = tree
        .range::<Q, _>((from, to), guard)
        .rev()
        .map(|(entry, ())| entry)
        .take(most)
        .collect();
    let mut found = match last.last() {
        Some(begin) if last.len() == most => from_entry(tree, begin, to, guard),
        _ => ascending(tree, from, to, usize::MAX, guard),
    };
    found.reverse();
    found
}

/// The entries from one on, up to a bound.
fn from_entry<'g, K, Q>(
    tree: &'g TreeIndex<K, ()>,
    begin: &K,
    to: Bound<Q>,
    guard: &'g Guard,
) -> Vec<&'g K>
where
    K: 'static + Clone + Ord,
    Q: Comparable<K> + Copy,
{
    tree.range::<K, _>((Bound::Included(begin), Bound::Unbounded), guard)
        .map(|(entry, ())| entry)
        .take_while(|entry| is_within(&to, entry))
        .collect()
}

/// The first entries of an interval in order.
pub(super) fn ascending<'g, K, Q>(
    tree: &'g TreeIndex<K, ()>,
    from: Bound<Q>,
    to: Bound<Q>,
    most: usize,
    guard: &'g Guard,
) -> Vec<&'g K>
where
    K: 'static + Clone + Ord,
    Q: Comparable<K> + Copy,
{
    let range = || -> Vec<&K> {
        tree.range::<Q, _>((from, to), guard)
            .map(|(entry, ())| entry)
            .take(most)
            .collect()
    };
    let found = range();
    if !found.is_empty() {
        return found;
    }
    // A range gives nothing, too, when the tree's first leaf has lost all its entries and not been unlinked yet, or the root was just replaced.
    let is_after = |entry: &K| match &from {
        Bound::Included(from) => from.compare(entry).is_le(),
        Bound::Excluded(from) => from.compare(entry).is_lt(),
        Bound::Unbounded => true,
    };
    match tree.iter(guard).next() {
        None => Vec::new(),
        Some((first, ())) if is_after(first) => tree
            .iter(guard)
            .map(|(entry, ())| entry)
            .skip_while(|entry| !is_after(entry))
            .take_while(|entry| is_within(&to, entry))
            .take(most)
            .collect(),
        Some(_) => range(),
    }
}

fn is_within<K, Q: Comparable<K>>(to: &Bound<Q>, entry: &K) -> bool {
    match to {
        Bound::Included(to) => to.compare(entry).is_ge(),
        Bound::Excluded(to) => to.compare(entry).is_gt(),
        Bound::Unbounded => true,
    }
}

/// Bounds of entries that compare with each other.
trait Compare: Sized {
    fn compare_with(&self, other: &Self) -> Ordering;

    /// Whether nothing lies between two bounds.
    fn crossed(from: &Bound<Self>, to: &Bound<Self>) -> bool {
        match (from, to) {
            (Bound::Included(from), Bound::Included(to)) => from.compare_with(to).is_gt(),
            (
                Bound::Included(from) | Bound::Excluded(from),
                Bound::Included(to) | Bound::Excluded(to),
            ) => from.compare_with(to).is_ge(),
            _ => false,
        }
    }
}

impl Compare for (u64, u64) {
    fn compare_with(&self, other: &Self) -> Ordering {
        self.cmp(other)
    }
}

impl Compare for u64 {
    fn compare_with(&self, other: &Self) -> Ordering {
        self.cmp(other)
    }
}

impl Compare for Probe<'_> {
    fn compare_with(&self, other: &Self) -> Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}
