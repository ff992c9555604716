//! The order and the hash of values of fixed width.
//!
//! Integers order as they are; floats order totally by their bits (IEEE 754 `totalOrder`, which Arrow's
//! kernels use), as integers, so that one loop finds least and greatest of any type and vectorises.
//!
//! Bounds have to be sound under SQL's order too, where -0.0 equals 0.0 and every NaN is one value above all
//! others: [`Fixed::bounds`] moves a zero outward and lets any NaN open the range to the top.

use std::fmt::Debug;

use arrow::array::types::IntervalMonthDayNano;
use arrow::datatypes::ArrowNativeType;

use super::distinct::{hash_word, hash_words};

/// A value of fixed width.
pub(super) trait Fixed: ArrowNativeType {
    /// What orders as the values do.
    type Key: Copy + Ord + Debug + Send + Sync + 'static;
    /// The least key.
    const LEAST: Self::Key;
    /// The greatest key.
    const GREATEST: Self::Key;
    /// Whether the order means anything to SQL.
    const ORDERED: bool = true;

    /// The key of a value.
    fn key(self) -> Self::Key;
    /// The value of a key.
    fn from_key(key: Self::Key) -> Self;
    /// A hash; equal for values that SQL takes for equal (save NaNs of different bits).
    fn hash(self) -> u64;

    /// Bounds that are sound whichever order compares them, from least and greatest key.
    fn bounds(least: Self::Key, greatest: Self::Key) -> (Self::Key, Self::Key) {
        (least, greatest)
    }
    /// Whether least and greatest are what SQL's MIN and MAX give.
    fn is_exact(_least: Self::Key, _greatest: Self::Key) -> bool {
        true
    }
    /// Fills `into` from 128-bit integers; whether all fit, `None` if the type takes none.
    fn narrow(_source: &[i128], _into: &mut Vec<Self>) -> Option<bool> {
        None
    }
    /// Fills `into` from 64-bit integers; whether the type takes them.
    fn widen(_source: &[i64], _into: &mut Vec<Self>) -> bool {
        false
    }
    /// The value as a 128-bit integer, for decimals.
    fn as_decimal(self) -> Option<i128> {
        None
    }
    /// Whether one of the values is a NaN other than SQL's one.
    fn has_other_nan(_values: &[Self]) -> bool {
        false
    }
    /// The value, of NaNs the one.
    fn one_nan(self) -> Self {
        self
    }
}

macro_rules! integers {
    ($($native:ty),*) => {$(
        impl Fixed for $native {
            type Key = Self;
            const LEAST: Self = <$native>::MIN;
            const GREATEST: Self = <$native>::MAX;
            #[inline(always)]
            fn key(self) -> Self {
                self
            }
            #[inline(always)]
            fn from_key(key: Self) -> Self {
                key
            }
            #[inline(always)]
            fn hash(self) -> u64 {
                hash_word(self as u64)
            }
        }
    )*};
}

integers!(i8, i16, i32, u8, u16, u32, u64);

impl Fixed for i64 {
    type Key = Self;
    const LEAST: Self = i64::MIN;
    const GREATEST: Self = i64::MAX;

    #[inline(always)]
    fn key(self) -> Self {
        self
    }

    #[inline(always)]
    fn from_key(key: Self) -> Self {
        key
    }

    #[inline(always)]
    fn hash(self) -> u64 {
        hash_word(self as u64)
    }

    fn narrow(source: &[i128], into: &mut Vec<Self>) -> Option<bool> {
        into.clear();
        let mut lost = 0;
        into.extend(source.iter().map(|&wide| {
            let value = wide as i64;
            // The upper half of a value that fits repeats the sign.
            lost |= ((wide >> 64) as i64) ^ (value >> 63);
            value
        }));
        Some(lost == 0)
    }

    fn as_decimal(self) -> Option<i128> {
        Some(self.into())
    }
}

impl Fixed for i128 {
    type Key = Self;
    const LEAST: Self = i128::MIN;
    const GREATEST: Self = i128::MAX;

    #[inline(always)]
    fn key(self) -> Self {
        self
    }

    #[inline(always)]
    fn from_key(key: Self) -> Self {
        key
    }

    #[inline(always)]
    fn hash(self) -> u64 {
        hash_words(self as u64, (self >> 64) as u64)
    }

    fn widen(source: &[i64], into: &mut Vec<Self>) -> bool {
        into.clear();
        into.extend(source.iter().map(|&value| i128::from(value)));
        true
    }

    fn as_decimal(self) -> Option<i128> {
        Some(self)
    }
}

macro_rules! floats {
    ($($float:ty, $unsigned:ty, $signed:ty);*) => {$(
        impl Fixed for $float {
            type Key = $signed;
            const LEAST: $signed = <$signed>::MIN;
            const GREATEST: $signed = <$signed>::MAX;

            #[inline(always)]
            fn key(self) -> $signed {
                // Negative values order the other way round: flip all bits but the sign.
                let bits = self.to_bits() as $signed;
                bits ^ (((bits >> (<$signed>::BITS - 1)) as $unsigned) >> 1) as $signed
            }

            #[inline(always)]
            fn from_key(key: $signed) -> Self {
                let bits = key ^ (((key >> (<$signed>::BITS - 1)) as $unsigned) >> 1) as $signed;
                Self::from_bits(bits as $unsigned)
            }

            #[inline(always)]
            fn hash(self) -> u64 {
                // Adding zero makes -0.0 positive.
                hash_word((self + 0.0).to_bits() as u64)
            }

            fn bounds(mut least: $signed, mut greatest: $signed) -> ($signed, $signed) {
                if !Self::is_exact(least, greatest) {
                    greatest = Self::GREATEST;
                }
                if least == (0.0 as $float).key() {
                    least = (-0.0 as $float).key();
                }
                if greatest == (-0.0 as $float).key() {
                    greatest = (0.0 as $float).key();
                }
                (least, greatest)
            }

            fn has_other_nan(values: &[Self]) -> bool {
                let other = |value: Self| {
                    value.is_nan() & (value.to_bits() != <$float>::NAN.to_bits())
                };
                // Without a branch, so that it vectorises.
                values.iter().fold(false, |any, value| any | other(*value))
            }

            fn one_nan(self) -> Self {
                match self.is_nan() {
                    true => <$float>::NAN,
                    false => self,
                }
            }

            fn is_exact(least: $signed, greatest: $signed) -> bool {
                least >= <$float>::NEG_INFINITY.key() && greatest <= <$float>::INFINITY.key()
            }
        }
    )*};
}

floats!(f32, u32, i32; f64, u64, i64);

/// Months, days and nanoseconds have no total order.
impl Fixed for IntervalMonthDayNano {
    type Key = ();
    const LEAST: () = ();
    const GREATEST: () = ();
    const ORDERED: bool = false;

    fn key(self) {}

    fn from_key((): ()) -> Self {
        Self::default()
    }

    #[inline(always)]
    fn hash(self) -> u64 {
        let days = (self.months as u32 as u64) << 32 | u64::from(self.days as u32);
        hash_words(days, self.nanoseconds as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::Fixed;

    #[test]
    fn float_keys_order_totally_and_lead_back() {
        let ordered = [
            f64::NEG_INFINITY,
            f64::MIN,
            -1.0,
            -f64::MIN_POSITIVE,
            -0.0,
            0.0,
            f64::MIN_POSITIVE,
            1.0,
            f64::MAX,
            f64::INFINITY,
            f64::NAN,
        ];
        for pair in ordered.windows(2) {
            assert!(pair[0].key() < pair[1].key(), "{pair:?}");
        }
        for value in ordered {
            assert_eq!(f64::from_key(value.key()).to_bits(), value.to_bits());
        }
    }

    #[test]
    fn bounds_of_zeros_hold_both_zeros() {
        let (least, greatest) = f64::bounds(0.0.key(), 0.0.key());
        assert!(f64::from_key(least).is_sign_negative());
        assert!(f64::from_key(greatest).is_sign_positive());
        let (_, greatest) = f32::bounds((-1.0_f32).key(), (-0.0_f32).key());
        assert!(f32::from_key(greatest).is_sign_positive());
    }

    #[test]
    fn a_nan_of_either_sign_opens_the_range_to_the_top() {
        for nan in [f64::NAN, -f64::NAN] {
            let (least, greatest) = (nan.key().min(1.0.key()), nan.key().max(1.0.key()));
            assert!(!f64::is_exact(least, greatest));
            assert!(f64::from_key(f64::bounds(least, greatest).1).is_nan());
        }
    }

    #[test]
    fn narrowing_tells_what_does_not_fit() {
        let mut into = Vec::new();
        assert_eq!(
            i64::narrow(&[i64::MIN.into(), -1, 0, i64::MAX.into()], &mut into),
            Some(true)
        );
        assert_eq!(into, [i64::MIN, -1, 0, i64::MAX]);
        assert_eq!(
            i64::narrow(&[i128::from(i64::MAX) + 1], &mut into),
            Some(false)
        );
        assert_eq!(
            i64::narrow(&[i128::from(i64::MIN) - 1], &mut into),
            Some(false)
        );
        assert_eq!(i64::narrow(&[i128::MIN], &mut into), Some(false));
    }
}
