//! The least and the greatest of a run of values.
//!
//! Several lanes at a time, and with AVX-512 where the processor has it: AVX2, for which we build, compares 64-bit integers but has no minimum of them.

use super::value::Fixed;

/// Lanes that are kept apart: enough registers that no comparison waits for the one before.
const LANES: usize = 32;

/// Least and greatest key; the least is above the greatest when there are no values.
pub(super) fn extremes<N: Fixed>(values: &[N]) -> (N::Key, N::Key) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if std::arch::is_x86_feature_detected!("avx512f")
        && std::arch::is_x86_feature_detected!("avx512bw")
    {
        // SAFETY: the processor has what the function needs.
        return unsafe { extremes_avx512(values) };
    }
    extremes_of(values)
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "avx512f,avx512bw")]
fn extremes_avx512<N: Fixed>(values: &[N]) -> (N::Key, N::Key) {
    extremes_of(values)
}

#[inline(always)]
fn extremes_of<N: Fixed>(values: &[N]) -> (N::Key, N::Key) {
    let mut least = [N::GREATEST; LANES];
    let mut greatest = [N::LEAST; LANES];
    let (runs, rest) = values.as_chunks::<LANES>();
    for run in runs {
        for lane in 0..LANES {
            let key = run[lane].key();
            least[lane] = if key < least[lane] { key } else { least[lane] };
            greatest[lane] = if key > greatest[lane] {
                key
            } else {
                greatest[lane]
            };
        }
    }
    let of_rest = rest.iter().map(|value| value.key());
    let least = least.into_iter().chain(of_rest.clone()).min();
    let greatest = greatest.into_iter().chain(of_rest).max();
    (least.unwrap_or(N::GREATEST), greatest.unwrap_or(N::LEAST))
}

#[cfg(test)]
mod tests {
    use super::extremes;

    #[test]
    fn every_position_counts() {
        assert_eq!(extremes::<i64>(&[]), (i64::MAX, i64::MIN));
        for len in 1..100 {
            for at in 0..len {
                let mut values = vec![0_i64; len];
                values[at] = -7;
                assert_eq!(extremes(&values), (-7, if len > 1 { 0 } else { -7 }));
                values[at] = i64::MAX;
                assert_eq!(extremes(&values).1, i64::MAX);
                let small: Vec<u8> = (0..len)
                    .map(|row| if row == at { 200 } else { 3 })
                    .collect();
                assert_eq!(extremes(&small), (if len > 1 { 3 } else { 200 }, 200));
            }
        }
    }
}
