//! Reading memory from front to back, with what follows on its way already.
//!
//! A processor that sees a stream asks for what comes next, but only within a page: at the end of each page of 4 KiB the
//! stream stops until the next has been met a few times. Over memory that no cache holds this takes a third of the time
//! (two threads that sum 48 MB of integers: 2.1 ms, with the next bytes asked for 1.5 ms; from a cache 0.9 ms both ways).

/// The bytes of a run.
const RUN: usize = 512;
/// How far ahead of a run memory is asked for.
const AHEAD: usize = 3 << 10;
/// The bytes of a line of the cache.
const LINE: usize = 64;

/// Consecutive runs of values. Whoever takes one has asked for the memory that is some runs further on, also behind
/// the end, where the next part of a column mostly lies.
pub fn stream<T>(values: &[T]) -> impl Iterator<Item = &[T]> {
    let length = RUN / size_of::<T>().clamp(1, RUN);
    values.chunks(length).inspect(move |run| {
        if run.len() == length {
            ask_ahead(run.as_ptr().cast());
        }
    })
}

/// Asks for the memory that lies behind a run that starts here.
#[inline(always)]
fn ask_ahead(run: *const u8) {
    for line in (0..RUN).step_by(LINE) {
        ask(run.wrapping_add(AHEAD + line));
    }
}

/// Asks for the line of the cache that holds an address, which may be any.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
pub(crate) fn ask(address: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

    // SAFETY: a hint, which reads nothing and never faults, whatever the address; SSE is part of x86-64.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
}

/// Here the processor is left alone.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
pub(crate) fn ask(_address: *const u8) {}

#[cfg(test)]
mod tests {
    use super::stream;

    #[test]
    fn the_runs_are_all_values_in_order() {
        for length in [0, 1, 63, 64, 65, 1000] {
            let values: Vec<i64> = (0..length).collect();
            let runs: Vec<&[i64]> = stream(&values).collect();
            assert_eq!(runs.concat(), values);
            let wide: Vec<i128> = (0..i128::from(length)).collect();
            assert_eq!(stream(&wide).collect::<Vec<_>>().concat(), wide);
        }
    }
}
