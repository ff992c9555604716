//! Decimals as the nearest doubles.
//!
//! An integer of at most 53 bits over a power of ten up to 10^22 is one correctly rounded division; the rest goes through text, whose
//! parser rounds correctly.

use std::fmt::Display;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, DecimalType};
use firndb::{Error, PrivateMemory};

use super::memory::filled;

/// Integers up to here are doubles.
const EXACT: u64 = 1 << 53;
/// Values whose exactness is found out together.
const VALUES_AT_ONCE: usize = 1024;
/// Powers of ten up to here are doubles.
const EXACT_SCALES: std::ops::RangeInclusive<i8> = 0..=22;

/// Decimals of 32 bits.
pub(super) fn of_32(chunks: &[&ArrayRef], scale: i8) -> Result<PrivateMemory, Error> {
    doubles::<Decimal32Type>(chunks, scale, |_| true, f64::from)
}

/// Decimals of 64 bits.
pub(super) fn of_64(chunks: &[&ArrayRef], scale: i8) -> Result<PrivateMemory, Error> {
    doubles::<Decimal64Type>(
        chunks,
        scale,
        |value| value.unsigned_abs() <= EXACT,
        |value| value as f64,
    )
}

/// Decimals of 128 bits.
pub(super) fn of_128(chunks: &[&ArrayRef], scale: i8) -> Result<PrivateMemory, Error> {
    doubles::<Decimal128Type>(
        chunks,
        scale,
        |value| value.unsigned_abs() <= u128::from(EXACT),
        // Below 2^53.
        |value| value as i64 as f64,
    )
}

/// Decimals of 256 bits.
pub(super) fn of_256(chunks: &[&ArrayRef], scale: i8) -> Result<PrivateMemory, Error> {
    doubles::<Decimal256Type>(chunks, scale, |_| false, |_| f64::NAN)
}

/// `is_exact` tells whether an unscaled value is a double, `exact` gives it.
fn doubles<T: DecimalType>(
    chunks: &[&ArrayRef],
    scale: i8,
    is_exact: impl Fn(T::Native) -> bool + Sync,
    exact: impl Fn(T::Native) -> f64 + Sync,
) -> Result<PrivateMemory, Error>
where
    T::Native: Display,
{
    let divisor = EXACT_SCALES
        .contains(&scale)
        .then(|| 10f64.powi(i32::from(scale)));
    filled(chunks, |chunk, doubles: &mut [f64]| {
        let decimals = chunk.as_primitive::<T>();
        for (number, (values, doubles)) in decimals
            .values()
            .chunks(VALUES_AT_ONCE)
            .zip(doubles.chunks_mut(VALUES_AT_ONCE))
            .enumerate()
        {
            // Without a branch for each value.
            let all_exact = values
                .iter()
                .fold(true, |all, &value| all & is_exact(value));
            if let (true, Some(divisor)) = (all_exact, divisor) {
                for (&value, double) in values.iter().zip(doubles) {
                    *double = exact(value) / divisor;
                }
                continue;
            }
            for (at, (&value, double)) in values.iter().zip(doubles).enumerate() {
                *double = match divisor {
                    Some(divisor) if is_exact(value) => exact(value) / divisor,
                    // What lies under a null may be anything.
                    _ if decimals.is_null(number * VALUES_AT_ONCE + at) => f64::NAN,
                    _ => parsed(&value.to_string(), scale),
                };
            }
        }
        Ok(())
    })
}

fn parsed(unscaled: &str, scale: i8) -> f64 {
    // Digits with an exponent always parse.
    format!("{unscaled}e{}", -i32::from(scale))
        .parse()
        .unwrap_or(f64::NAN)
}
