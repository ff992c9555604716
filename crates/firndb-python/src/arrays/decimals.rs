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
/// Powers of ten up to here are doubles.
const EXACT_SCALES: std::ops::RangeInclusive<i8> = 0..=22;

/// Decimals of 32 bits.
pub(super) fn of_32(chunks: &[&ArrayRef], scale: i8) -> Result<PrivateMemory, Error> {
    doubles::<Decimal32Type>(chunks, scale, |value| {
        (u64::from(value.unsigned_abs()) <= EXACT).then_some(f64::from(value))
    })
}

/// Decimals of 64 bits.
pub(super) fn of_64(chunks: &[&ArrayRef], scale: i8) -> Result<PrivateMemory, Error> {
    doubles::<Decimal64Type>(chunks, scale, |value| {
        (value.unsigned_abs() <= EXACT).then_some(value as f64)
    })
}

/// Decimals of 128 bits.
pub(super) fn of_128(chunks: &[&ArrayRef], scale: i8) -> Result<PrivateMemory, Error> {
    doubles::<Decimal128Type>(chunks, scale, |value| {
        let narrow = i64::try_from(value).ok()?;
        (narrow.unsigned_abs() <= EXACT).then_some(narrow as f64)
    })
}

/// Decimals of 256 bits.
pub(super) fn of_256(chunks: &[&ArrayRef], scale: i8) -> Result<PrivateMemory, Error> {
    doubles::<Decimal256Type>(chunks, scale, |_| None)
}

/// `exact` gives the double that an unscaled value is, if it is one.
fn doubles<T: DecimalType>(
    chunks: &[&ArrayRef],
    scale: i8,
    exact: impl Fn(T::Native) -> Option<f64> + Sync,
) -> Result<PrivateMemory, Error>
where
    T::Native: Display,
{
    let divisor = EXACT_SCALES
        .contains(&scale)
        .then(|| 10f64.powi(i32::from(scale)));
    filled(chunks, |chunk, doubles: &mut [f64]| {
        let values = chunk.as_primitive::<T>();
        for (row, (&value, double)) in values.values().iter().zip(doubles).enumerate() {
            *double = match (exact(value), divisor) {
                (Some(value), Some(divisor)) => value / divisor,
                // What lies under a null may be anything.
                _ if values.is_null(row) => f64::NAN,
                _ => parsed(&value.to_string(), scale),
            };
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
