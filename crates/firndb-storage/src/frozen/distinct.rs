//! Estimates of the number of distinct values: HyperLogLog over all values.
//!
//! Every value is hashed while it is copied; a sample would be cheaper, but can't tell a key from a column
//! of which each value comes four times in a row, and join orders depend on just that. Sketches of a
//! table's extents merge without loss. 2,048 registers give a standard error of 2.3 %.
//!
//! Flajolet et al., *HyperLogLog* (2007); the estimator is that of Ertl, *New cardinality estimation
//! algorithms for HyperLogLog sketches* (2017), section 2, which needs no correction by ranges.

/// Leading bits of a hash that choose the register.
const INDEX_BITS: u32 = 11;
const REGISTERS: usize = 1 << INDEX_BITS;
/// The greatest rank that the remaining bits can give.
const GREATEST_RANK: usize = 64 - INDEX_BITS as usize + 1;

/// A mergeable sketch of a set of values.
#[derive(Clone)]
pub struct DistinctSketch {
    registers: Box<[u8; REGISTERS]>,
}

impl DistinctSketch {
    /// Adds the values of another sketch (of the same stored type).
    pub fn merge(&mut self, other: &DistinctSketch) {
        for (register, &rank) in self.registers.iter_mut().zip(other.registers.iter()) {
            *register = rank.max(*register);
        }
    }

    /// Estimated number of distinct non-null values.
    pub fn estimate(&self) -> usize {
        let mut counts = [0_usize; GREATEST_RANK + 1];
        for &rank in self.registers.iter() {
            counts[usize::from(rank).min(GREATEST_RANK)] += 1;
        }
        if counts[0] == REGISTERS {
            return 0;
        }
        let registers = REGISTERS as f64;
        let mut sum = registers * tau(1.0 - counts[GREATEST_RANK] as f64 / registers);
        for &count in counts[1..GREATEST_RANK].iter().rev() {
            sum = 0.5 * (sum + count as f64);
        }
        sum += registers * sigma(counts[0] as f64 / registers);
        let estimate = registers * registers / (2.0 * std::f64::consts::LN_2 * sum);
        estimate.round() as usize
    }

    /// Adds a value by its hash.
    #[inline(always)]
    pub(super) fn insert(&mut self, hash: u64) {
        let index = (hash >> (64 - INDEX_BITS)) as usize;
        let rest = (hash << INDEX_BITS) | (1 << (INDEX_BITS - 1));
        let rank = rest.leading_zeros() as u8 + 1;
        let register = &mut self.registers[index];
        if rank > *register {
            *register = rank;
        }
    }
}

impl Default for DistinctSketch {
    fn default() -> Self {
        Self {
            registers: Box::new([0; REGISTERS]),
        }
    }
}

impl std::fmt::Debug for DistinctSketch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DistinctSketch")
            .field("estimate", &self.estimate())
            .finish()
    }
}

/// The share of registers that were never hit, as a series.
fn sigma(mut x: f64) -> f64 {
    let mut y = 1.0;
    let mut z = x;
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if z == before || !z.is_finite() {
            return z;
        }
    }
}

/// The share of registers that are full, as a series.
fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let mut y = 1.0;
    let mut z = 1.0 - x;
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x).powi(2) * y;
        if z == before {
            return z / 3.0;
        }
    }
}

const KEYS: [u64; 3] = [
    0x9e37_79b9_7f4a_7c15,
    0xd1b5_4a32_d192_ed03,
    0x8cb9_2ba7_2f3d_8dd7,
];

/// The two halves of a product, which mixes the bits of both factors.
#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ ((product >> 64) as u64)
}

/// The hash of a value of up to 64 bits.
#[inline(always)]
pub(super) fn hash_word(word: u64) -> u64 {
    fold(fold(word ^ KEYS[0], KEYS[1]) ^ KEYS[2], KEYS[0])
}

/// The hash of a value of 128 bits.
#[inline(always)]
pub(super) fn hash_words(low: u64, high: u64) -> u64 {
    fold(fold(low ^ KEYS[0], high ^ KEYS[1]) ^ KEYS[2], KEYS[0])
}

/// The hash of bytes: `prefix` has the first 16 (padded with zeros), `suffix` the last 16, or zero when there are not more
/// than 16. Two words of 16 bytes are hashed whatever the length is, because a branch on the length is
/// mispredicted more dearly.
#[inline(always)]
pub(super) fn hash_bytes(prefix: u128, suffix: u128, bytes: &[u8]) -> u64 {
    let length = (bytes.len() as u64).wrapping_mul(KEYS[2]);
    let mut hash = fold(
        (prefix as u64) ^ KEYS[0],
        ((prefix >> 64) as u64) ^ KEYS[1] ^ length,
    );
    if bytes.len() > 32 {
        let (middle, _) = bytes[16..bytes.len() - 16].as_chunks::<16>();
        for word in middle {
            hash = mix(hash, u128::from_be_bytes(*word));
        }
        // What the chunks leave out: 16 bytes before the suffix, some of them twice.
        if let Some(word) = bytes[..bytes.len() - 16].last_chunk::<16>() {
            hash = mix(hash, u128::from_be_bytes(*word));
        }
    }
    mix(hash, suffix)
}

#[inline(always)]
fn mix(hash: u64, word: u128) -> u64 {
    fold(
        hash ^ KEYS[2] ^ (word as u64),
        ((word >> 64) as u64) ^ KEYS[0],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frozen::bytes_statistics::ends_of;

    fn assert_close(estimate: usize, truth: usize) {
        let error = (estimate as f64 - truth as f64).abs() / truth as f64;
        assert!(error < 0.08, "{estimate} for {truth}");
    }

    #[test]
    fn an_empty_sketch_estimates_zero() {
        assert_eq!(DistinctSketch::default().estimate(), 0);
    }

    #[test]
    fn estimates_are_close_for_regular_sequences() {
        for step in [1, 4, 32, 1_000, 1 << 20, 1 << 32, 86_400_000_000] {
            for truth in [1_u64, 3, 100, 2_000, 10_000, 300_000] {
                let mut sketch = DistinctSketch::default();
                (0..truth).for_each(|i| sketch.insert(hash_word(i.wrapping_mul(step))));
                assert_close(sketch.estimate(), truth as usize);
            }
        }
    }

    #[test]
    fn estimates_are_close_for_strings_that_differ_anywhere() {
        let mut sketch = DistinctSketch::default();
        for i in 0..50_000 {
            for value in [
                format!("{i}"),
                format!("a long common prefix and then {i:08} and a long tail"),
            ] {
                let (prefix, suffix) = ends_of(value.as_bytes());
                sketch.insert(hash_bytes(prefix, suffix, value.as_bytes()));
            }
        }
        assert_close(sketch.estimate(), 100_000);
    }

    #[test]
    fn merging_counts_common_values_once() {
        let (mut left, mut right) = (DistinctSketch::default(), DistinctSketch::default());
        (0..60_000).for_each(|i| left.insert(hash_word(i)));
        (30_000..90_000).for_each(|i| right.insert(hash_word(i)));
        left.merge(&right);
        assert_close(left.estimate(), 90_000);
    }
}
