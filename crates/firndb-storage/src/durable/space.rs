//! The room in the file: which pages are taken.
//!
//! Invariant: what the last durable root leads to is taken, so a checkpoint never overwrites it; it is given back only after the next root is durable.

use std::collections::BTreeMap;

use super::root::{PAGE, SEGMENTS};
use crate::{Error, Result};

/// The taken ranges, by their first byte, in whole pages.
#[derive(Debug, Clone, Default)]
pub(super) struct Space(BTreeMap<u64, u64>);

impl Space {
    /// Takes a range that is known to be used; an error if it overlaps another.
    pub(super) fn take(&mut self, offset: u64, length: u64) -> Result<()> {
        if length == 0 {
            return Ok(());
        }
        let end = offset
            .checked_add(length)
            .and_then(|end| end.checked_next_multiple_of(PAGE));
        let before = self
            .0
            .range(..=offset)
            .next_back()
            .map_or(0, |(_, &end)| end);
        let after = self
            .0
            .range(offset..)
            .next()
            .map_or(u64::MAX, |(&start, _)| start);
        match end {
            Some(end)
                if offset >= SEGMENTS
                    && offset.is_multiple_of(PAGE)
                    && before <= offset
                    && end <= after =>
            {
                self.0.insert(offset, end);
                Ok(())
            }
            _ => Err(Error::Damaged(format!(
                "the database file is damaged: two parts of it share byte {offset}"
            ))),
        }
    }

    /// Finds room and takes it: the first gap that is large enough.
    pub(super) fn allocate(&mut self, length: u64) -> u64 {
        let length = length.next_multiple_of(PAGE).max(PAGE);
        let mut at = SEGMENTS;
        for (&start, &end) in &self.0 {
            if start - at >= length {
                break;
            }
            at = end;
        }
        self.0.insert(at, at + length);
        at
    }

    /// Where the last taken range ends.
    pub(super) fn end(&self) -> u64 {
        self.0.last_key_value().map_or(SEGMENTS, |(_, &end)| end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_used_first() {
        let mut space = Space::default();
        space.take(SEGMENTS, 10).unwrap();
        space.take(SEGMENTS + 3 * PAGE, PAGE).unwrap();
        assert_eq!(space.allocate(PAGE + 1), SEGMENTS + PAGE);
        assert_eq!(space.allocate(1), SEGMENTS + 4 * PAGE);
        assert_eq!(space.end(), SEGMENTS + 5 * PAGE);
    }

    #[test]
    fn an_overlap_is_damage() {
        let mut space = Space::default();
        space.take(SEGMENTS, 2 * PAGE).unwrap();
        assert!(space.take(SEGMENTS + PAGE, 1).is_err());
        assert!(space.take(0, 1).is_err());
    }
}
