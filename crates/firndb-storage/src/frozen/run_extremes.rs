//! The least and the greatest of a run of strings or bytes that lie one behind the other.
//!
//! Values are compared 8 bytes at a time, as big-endian numbers padded with zeros, all values at once: the numbers of one depth are written down without a branch, and
//! their least and greatest found by the vector unit. As long as all of them are equal the next 8 bytes are looked at. Only the values that have the least or the
//! greatest number are compared whole. So neither a long common prefix nor an ascending column costs a branch that is not foreseen.

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
    use super::RunExtremes;
    use crate::frozen::samples::{Random, bytes, text};

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
