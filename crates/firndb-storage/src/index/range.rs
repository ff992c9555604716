//! Ranges of keys, and the entries in them in key order.
//!
//! A range fixes the values of the first key columns and may bound the next one. Where keys are numbers it is an interval of them, with or without
//! the NULLs; where they are bytes it is an interval of byte strings: the encoding of the first columns is a prefix of the whole key's, so
//! all keys that begin with some values lie between their encoding and its successor.
//!
//! Entries are read a piece at a time, each piece found from the last entry of the one before: nothing of the tree is held in between.

use std::ops::Bound;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};

use super::tree::{Bytes, BytesProbe, Edge, Kind};
use super::unique::{Entries, Tree};
use super::{Key, KeyEncoder, UniqueIndex};
use crate::Result;
use crate::reclaim::Pin;
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
    /// The first entries in key order (the NULLs of a number last), or the last ones with `reverse`, beyond the entry `after`. Of those that are
    /// there during the whole call none is left out between the ones given, maybe some come that come or go meanwhile. Up to `most`; none when there are no more.
    pub fn entries(
        &self,
        bounds: &Bounds,
        reverse: bool,
        after: Option<&(Key, Slot)>,
        most: usize,
        pin: &Pin<'_>,
    ) -> Vec<(Key, Slot)> {
        match (&self.tree, &bounds.interval) {
            (Tree::Number(tree, nulls), &Interval::Integer(least, greatest)) => {
                let numbers = |most: usize, found: &mut Vec<(Key, Slot)>| {
                    let after = match after {
                        Some((Key::Integer(number), slot)) => Some((*number, slot.0)),
                        _ => None,
                    };
                    if least <= greatest {
                        let ends = (Edge::Before((least, 0)), Edge::After((greatest, u64::MAX)));
                        let number = |raw: &[u64; 2]| (Key::Integer(raw[0]), Slot(raw[1]));
                        piece(
                            tree,
                            beyond(ends, after, reverse),
                            reverse,
                            most,
                            found,
                            number,
                            pin,
                        );
                    }
                };
                let unknown = |most: usize, found: &mut Vec<(Key, Slot)>| {
                    let after = match after {
                        Some((Key::Null, slot)) => Some((0, slot.0)),
                        _ => None,
                    };
                    if let Some(nulls) = nulls.get().filter(|_| bounds.nulls) {
                        let ends = beyond((Edge::Least, Edge::Greatest), after, reverse);
                        let null = |raw: &[u64; 2]| (Key::Null, Slot(raw[1]));
                        piece(nulls, ends, reverse, most, found, null, pin);
                    }
                };
                let mut found: Vec<(Key, Slot)> = Vec::new();
                if reverse {
                    if !matches!(after, Some((Key::Integer(_), _))) {
                        unknown(most, &mut found);
                    }
                    numbers(most - found.len(), &mut found);
                } else {
                    if !matches!(after, Some((Key::Null, _))) {
                        numbers(most, &mut found);
                    }
                    unknown(most - found.len(), &mut found);
                }
                found
            }
            (Tree::Bytes(tree), Interval::Bytes(from, before)) => {
                let from = Edge::Before(BytesProbe::new(from, 0));
                let to = match before {
                    Some(before) => Edge::Before(BytesProbe::new(before, 0)),
                    None => Edge::Greatest,
                };
                let after = match after {
                    Some((Key::Bytes(bytes), slot)) => Some(BytesProbe::new(bytes, slot.0)),
                    _ => None,
                };
                let mut found = Vec::new();
                let entry = |raw: &[u64; 3]| {
                    // SAFETY: found under the pin.
                    let probe = unsafe { <Bytes as Kind>::probe(raw) };
                    (Key::Bytes(probe.bytes.into()), Slot(probe.slot))
                };
                let ends = beyond((from, to), after, reverse);
                piece(tree, ends, reverse, most, &mut found, entry, pin);
                found
            }
            _ => Vec::new(),
        }
    }
}

/// An interval of entries, or what of it lies beyond an entry.
fn beyond<'a, K: Kind>(
    (from, to): (Edge<'a, K>, Edge<'a, K>),
    after: Option<K::Probe<'a>>,
    reverse: bool,
) -> (Edge<'a, K>, Edge<'a, K>) {
    match after {
        Some(after) if reverse => (from, Edge::Before(after)),
        Some(after) => (Edge::After(after), to),
        None => (from, to),
    }
}

/// Appends up to `most` entries at one end of an interval.
fn piece<K: Kind>(
    tree: &Entries<K>,
    ends: (Edge<'_, K>, Edge<'_, K>),
    reverse: bool,
    most: usize,
    found: &mut Vec<(Key, Slot)>,
    entry: impl Fn(&K::Raw) -> (Key, Slot),
    pin: &Pin<'_>,
) {
    let mut raws = Vec::new();
    tree.scan(ends, reverse, most, &mut raws, pin);
    found.extend(raws.iter().map(entry));
}
