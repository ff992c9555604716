//! The least and the greatest of a run of strings or bytes that lie one behind the other.
//!
//! Values are compared 8 bytes at a time, as big-endian numbers padded with zeros, all values at once: the numbers of one depth are written down without a branch, and
//! their least and greatest found by the vector unit. As long as all of them are equal the next 8 bytes are looked at. Only the values that have the least or the
//! greatest number are compared whole. So neither a long common prefix nor an ascending column costs a branch that is not foreseen.

use std::ops::Range;

use arrow::buffer::NullBuffer;

/// How often the next 8 bytes are looked at before values are compared whole.
const DEPTHS: usize = 4;

/// The numbers of a run's values at one depth; kept for the next run.
#[derive(Debug, Default)]
pub(super) struct RunExtremes {
    numbers: Vec<u64>,
}

impl RunExtremes {
    /// The rows of the least and the greatest value with their bounds in `heap`; `None` of no values.
    pub(super) fn of(
        &mut self,
        heap: &[u8],
        lengths: &[u32],
    ) -> Option<[(usize, usize, usize); 2]> {
        let mut skipped = common_prefix(heap, lengths);
        let (mut least, mut greatest) = self.number(heap, lengths, skipped);
        for _ in 1..DEPTHS {
            if least < greatest {
                break;
            }
            skipped += 8;
            (least, greatest) = self.number(heap, lengths, skipped);
        }
        let mut found: Option<[(usize, usize, usize); 2]> = None;
        let mut start = 0;
        for (row, (&number, &length)) in self.numbers.iter().zip(lengths).enumerate() {
            let end = start + length as usize;
            if (number == least) | (number == greatest) {
                let place = (row, start, end);
                let [low, high] = found.get_or_insert([place; 2]);
                let value = |&(_, start, end): &(usize, usize, usize)| &heap[start..end];
                // Columns of few values have the same again and again.
                if number == least && is_less(&heap[start..end], value(low)) {
                    *low = place;
                }
                if number == greatest && is_less(value(high), &heap[start..end]) {
                    *high = place;
                }
            }
            start = end;
        }
        found
    }

    /// Writes down the 8 bytes of each value that follow its first `skipped`; gives the least and the greatest.
    fn number(&mut self, heap: &[u8], lengths: &[u32], skipped: usize) -> (u64, u64) {
        let (mut least, mut greatest) = (u64::MAX, 0);
        let mut start = 0;
        self.numbers.clear();
        self.numbers.extend(lengths.iter().map(|&length| {
            let length = length as usize;
            let at = start + skipped;
            let left = length.saturating_sub(skipped);
            start += length;
            let number = match heap.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
                Some(bytes) => {
                    // Clears what follows a shorter value.
                    let kept = u64::MAX.wrapping_shl(64 - 8 * left.min(8) as u32);
                    let kept = if left == 0 { 0 } else { kept };
                    u64::from_be_bytes(*bytes) & kept
                }
                None => number_at_end(heap, at, left),
            };
            least = least.min(number);
            greatest = greatest.max(number);
            number
        }));
        (least, greatest)
    }
}

/// The rows of a run among which its least and its greatest value are, as far as the first four bytes of the values tell, and perhaps some
/// that are null. Views have those bytes beside the length, so that most values need not be looked at.
#[derive(Debug, Default)]
pub(crate) struct Peaks {
    /// Rows of the least and of the greatest first bytes of a part.
    pub(super) rows: Vec<usize>,
    /// Parts of which all rows begin with the same bytes.
    pub(super) parts: Vec<Range<usize>>,
    heads: Vec<u32>,
}

impl Peaks {
    /// Begins with the next run.
    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.parts.clear();
    }

    /// Adds a part of the run, from `first_row` on: the first halves of its views, length and first bytes. `nulls` are the run's.
    pub(crate) fn add(
        &mut self,
        first_row: usize,
        views: impl ExactSizeIterator<Item = u64>,
        nulls: Option<&NullBuffer>,
    ) {
        /// Rows that are looked at without a branch.
        const AT_ONCE: usize = 16;
        let end = first_row + views.len();
        self.heads.clear();
        self.heads.extend(views.map(head));
        if let Some(nulls) = nulls {
            // What is null is like one that is not.
            let nulls = nulls.slice(first_row, self.heads.len());
            let Some(valid) = nulls.inner().set_indices().next() else {
                return;
            };
            let other = self.heads[valid];
            let rows = self.heads.iter_mut().zip(nulls.iter());
            rows.for_each(|(head, valid)| *head = if valid { *head } else { other });
        }
        let start = (u32::MAX, 0);
        let (least, greatest) = self.heads.iter().fold(start, |(least, greatest), &head| {
            (least.min(head), greatest.max(head))
        });
        if least == greatest {
            self.parts.push(first_row..end);
            return;
        }
        let is_peak = |head: u32| (head == least) | (head == greatest);
        for (number, heads) in self.heads.chunks(AT_ONCE).enumerate() {
            if heads.iter().fold(false, |any, &head| any | is_peak(head)) {
                let first_row = first_row + number * AT_ONCE;
                let rows = (first_row..).zip(heads);
                let rows = rows.filter(|&(_, &head)| is_peak(head));
                self.rows.extend(rows.map(|(row, _)| row));
            }
        }
    }
}

/// The first four bytes of a value as a big-endian number, padded with zeros.
#[inline(always)]
fn head(view: u64) -> u32 {
    let length = (view as u32).min(4);
    let kept = u64::from(u32::MAX) << (32 - 8 * length);
    ((view >> 32) as u32).swap_bytes() & kept as u32
}

/// 16 where all values begin with the same 16 bytes, else 0.
fn common_prefix(heap: &[u8], lengths: &[u32]) -> usize {
    let Some(first) = heap
        .first_chunk::<16>()
        .map(|first| u128::from_ne_bytes(*first))
    else {
        return 0;
    };
    // Mostly two values tell.
    let mut start = 0;
    for lengths in lengths.chunks(64) {
        let mut other = 0;
        for &length in lengths {
            let Some(bytes) = heap.get(start..).and_then(|rest| rest.first_chunk::<16>()) else {
                return 0;
            };
            other |= (u128::from_ne_bytes(*bytes) ^ first) | u128::from(length < 16);
            start += length as usize;
        }
        if other != 0 {
            return 0;
        }
    }
    16
}

/// As 8 bytes, of which fewer are in the heap.
#[cold]
fn number_at_end(heap: &[u8], at: usize, left: usize) -> u64 {
    let mut padded = [0; 8];
    let left = left.min(8);
    if left > 0 {
        padded[..left].copy_from_slice(&heap[at..at + left]);
    }
    u64::from_be_bytes(padded)
}

/// Whether a value is less than another. Most that are compared are equal and short.
#[inline]
fn is_less(value: &[u8], other: &[u8]) -> bool {
    if let (Some(head), Some(other_head)) = (value.first_chunk::<16>(), other.first_chunk::<16>()) {
        let (head, other_head) = (u128::from_be_bytes(*head), u128::from_be_bytes(*other_head));
        if head != other_head {
            return head < other_head;
        }
        if value.len() == other.len() && value.len() <= 32 {
            let tail = |value: &[u8]| {
                value
                    .last_chunk::<16>()
                    .map(|tail| u128::from_be_bytes(*tail))
            };
            return tail(value) < tail(other);
        }
    }
    value < other
}

#[cfg(test)]
mod tests {
    use arrow::buffer::NullBuffer;

    use super::{Peaks, RunExtremes};
    use crate::frozen::samples::{Random, bytes, text};

    /// Length and first bytes, and behind them what must not matter.
    fn view(value: &[u8]) -> u64 {
        let mut head = [255; 4];
        let known = value.len().min(4);
        head[..known].copy_from_slice(&value[..known]);
        value.len() as u64 | u64::from(u32::from_le_bytes(head)) << 32
    }

    #[test]
    fn the_least_and_the_greatest_are_among_the_peaks() {
        let random = &mut Random(5);
        let mut peaks = Peaks::default();
        for round in 0..3000 {
            let prefix = "pp".repeat(round % 3);
            let values: Vec<Vec<u8>> = (0..random.below(90))
                .map(|_| match random.below(2) {
                    0 => [prefix.as_bytes(), &bytes(random)].concat(),
                    _ => format!("{prefix}{}", text(random)).into_bytes(),
                })
                .collect();
            let valid: Vec<bool> = values
                .iter()
                .map(|_| round % 2 == 0 || random.below(3) > 0)
                .collect();
            let nulls = NullBuffer::from(valid.clone());
            let nulls = Some(&nulls).filter(|nulls| nulls.null_count() > 0);
            peaks.clear();
            let middle = values.len() / 2;
            for (first, part) in [(0, &values[..middle]), (middle, &values[middle..])] {
                if !part.is_empty() {
                    peaks.add(first, part.iter().map(|value| view(value)), nulls);
                }
            }
            let rows = peaks.rows.iter().copied();
            let rows: Vec<usize> = rows.chain(peaks.parts.iter().cloned().flatten()).collect();
            let found = rows
                .iter()
                .filter(|&&row| valid[row])
                .map(|&row| &values[row]);
            let all = values.iter().zip(&valid).filter(|(_, valid)| **valid);
            let all = all.map(|(value, _)| value);
            assert_eq!(found.clone().min(), all.clone().min());
            assert_eq!(found.max(), all.max());
        }
    }

    #[test]
    fn the_extremes_of_random_runs_are_those_that_comparing_finds() {
        let random = &mut Random(3);
        let mut extremes = RunExtremes::default();
        for round in 0..3000 {
            let count = random.below(40);
            let prefix = "p".repeat(random.below(60) * (round % 2));
            let values: Vec<Vec<u8>> = (0..count)
                .map(|_| match random.below(3) {
                    0 => bytes(random),
                    1 => format!("{prefix}{}", text(random)).into_bytes(),
                    _ => [prefix.as_bytes(), &vec![0; random.below(20)]].concat(),
                })
                .filter(|value| round % 2 == 0 || value.starts_with(prefix.as_bytes()))
                .collect();
            let lengths: Vec<u32> = values.iter().map(|value| value.len() as u32).collect();
            let heap = values.concat();
            let found = extremes.of(&heap, &lengths);
            let found = found.map(|both| {
                both.map(|(row, start, end)| {
                    assert_eq!(values[row], heap[start..end]);
                    values[row].clone()
                })
            });
            let expected = values.iter().min().zip(values.iter().max());
            assert_eq!(
                found,
                expected.map(|(least, greatest)| [least.clone(), greatest.clone()])
            );
        }
    }
}
