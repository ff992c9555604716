//! Sets of free ranges of a segment.

use std::collections::BTreeMap;

/// Disjoint ranges, neighbours joined, by offset.
#[derive(Debug, Default)]
pub(super) struct RangeSet {
    by_offset: BTreeMap<usize, usize>,
    bytes: usize,
}

impl RangeSet {
    /// A set of one range.
    pub(super) fn of(offset: usize, len: usize) -> Self {
        let mut set = Self::default();
        set.insert(offset, len);
        set
    }

    /// Sum of the ranges' lengths.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a range that overlaps none in the set.
    pub(super) fn insert(&mut self, mut offset: usize, mut len: usize) {
        if len == 0 {
            return;
        }
        self.bytes += len;
        if let Some((&before, &before_len)) = self.by_offset.range(..offset).next_back() {
            debug_assert!(before + before_len <= offset, "ranges are disjoint");
            if before + before_len == offset {
                self.by_offset.remove(&before);
                offset = before;
                len += before_len;
            }
        }
        if let Some(after_len) = self.by_offset.remove(&(offset + len)) {
            len += after_len;
        }
        self.by_offset.insert(offset, len);
    }

    /// Takes `len` bytes out of the smallest range that has them, from its front; gives the offset.
    pub(super) fn take(&mut self, len: usize) -> Option<usize> {
        let (&offset, &found) = self
            .by_offset
            .iter()
            .filter(|&(_, &found)| found >= len)
            .min_by_key(|&(_, &found)| found)?;
        self.by_offset.remove(&offset);
        if found > len {
            self.by_offset.insert(offset + len, found - len);
        }
        self.bytes -= len;
        Some(offset)
    }

    /// Takes out the largest range, cut to at most `limit` bytes; gives offset and length.
    pub(super) fn take_largest(&mut self, limit: usize) -> Option<(usize, usize)> {
        let (&offset, &found) = self.by_offset.iter().max_by_key(|&(_, &found)| found)?;
        self.by_offset.remove(&offset);
        let len = found.min(limit);
        if found > len {
            self.by_offset.insert(offset + len, found - len);
        }
        self.bytes -= len;
        Some((offset, len))
    }
}

#[cfg(test)]
mod tests {
    use super::RangeSet;

    #[test]
    fn neighbours_are_joined() {
        let mut set = RangeSet::default();
        set.insert(0, 10);
        set.insert(20, 10);
        set.insert(10, 10);
        assert_eq!(set.bytes(), 30);
        assert_eq!(set.take(30), Some(0));
        assert_eq!(set.take(1), None);
    }

    #[test]
    fn the_smallest_fitting_range_is_taken() {
        let mut set = RangeSet::default();
        set.insert(0, 100);
        set.insert(200, 20);
        set.insert(300, 50);
        assert_eq!(set.take(15), Some(200));
        assert_eq!(set.take(40), Some(300));
        assert_eq!(set.take(100), Some(0));
        assert_eq!(set.bytes(), 15);
    }

    #[test]
    fn the_largest_range_is_cut_to_the_limit() {
        let mut set = RangeSet::of(0, 100);
        set.insert(200, 20);
        assert_eq!(set.take_largest(60), Some((0, 60)));
        assert_eq!(set.take_largest(60), Some((60, 40)));
        assert_eq!(set.take_largest(60), Some((200, 20)));
        assert_eq!(set.take_largest(60), None);
    }
}
