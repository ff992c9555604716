//! The sum and count of values in one group or window frame.

use std::fmt::Debug;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::datatypes::{
    ArrowNativeType, DataType, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::Accumulator;
use firndb_storage::memory::stream;

use super::{Kind, total_type};
use crate::Error;
use crate::expr::convert::{POWERS, decimal_to_float, out_of_range, with_integer, within};

/// A sum with the means to add values and take them away again.
pub(super) trait Total: Debug + Default + Clone + Send + Sync + 'static {
    /// The Arrow type of a sum as intermediate state.
    type State: ArrowPrimitiveType;
    fn state(&self) -> <Self::State as ArrowPrimitiveType>::Native;
    fn merge(&mut self, state: <Self::State as ArrowPrimitiveType>::Native);
    fn add(&mut self, other: &Self);
    fn subtract(&mut self, other: &Self);
    /// Sum or average of `count` values, whose sum is of the type given.
    fn result(&self, kind: Kind, count: i64, total: &DataType) -> Result<ScalarValue>;
}

/// Values of which a batch is totalled at once.
pub(super) trait Summable: ArrowPrimitiveType + Debug + Sized {
    type Total: Total;
    fn total(values: &PrimitiveArray<Self>) -> Self::Total;
}

/// The exact sum of integers or decimals.
#[derive(Debug, Default, Clone)]
pub(super) struct Exact {
    pub(super) sum: i128,
    pub(super) overflow: bool,
}

impl Total for Exact {
    type State = Decimal128Type;

    fn state(&self) -> i128 {
        // A sum that overflowed stays beyond every decimal.
        if self.overflow { i128::MAX } else { self.sum }
    }

    fn merge(&mut self, state: i128) {
        let (sum, overflow) = self.sum.overflowing_add(state);
        self.sum = sum;
        self.overflow |= overflow || state == i128::MAX;
    }

    fn add(&mut self, other: &Self) {
        let (sum, overflow) = self.sum.overflowing_add(other.sum);
        self.sum = sum;
        self.overflow |= overflow || other.overflow;
    }

    fn subtract(&mut self, other: &Self) {
        let (sum, overflow) = self.sum.overflowing_sub(other.sum);
        self.sum = sum;
        self.overflow |= overflow || other.overflow;
    }

    fn result(&self, kind: Kind, count: i64, total: &DataType) -> Result<ScalarValue> {
        let DataType::Decimal128(precision, scale) = total else {
            return exec_err!("{total} is no exact sum");
        };
        let sum = checked_sum(self.sum, self.overflow, total)?;
        Ok(match kind {
            Kind::Sum => ScalarValue::Decimal128(Some(sum), *precision, *scale),
            Kind::Average => ScalarValue::Float64(Some(average(sum, count, *scale))),
        })
    }
}

pub(super) fn checked_sum(sum: i128, overflow: bool, total: &DataType) -> Result<i128, Error> {
    within(sum, POWERS[38])
        .filter(|_| !overflow)
        .ok_or_else(|| out_of_range(total))
}

/// The double nearest to sum · 10^-scale / count, as far as a division of two doubles tells.
pub(super) fn average(sum: i128, count: i64, scale: i8) -> f64 {
    const EXACT: u128 = 1 << 53;
    let power = POWERS[usize::try_from(scale).unwrap_or(0).min(38)];
    match power.checked_mul(i128::from(count)) {
        Some(divisor) if sum.unsigned_abs() <= EXACT && divisor.unsigned_abs() <= EXACT => {
            sum as f64 / divisor as f64
        }
        Some(divisor) => (sum / divisor) as f64 + (sum % divisor) as f64 / divisor as f64,
        None => decimal_to_float(sum, scale) / count as f64,
    }
}

/// A sum of doubles with the digits that it lost (Neumaier's compensation), and how many values were not finite, so
/// that those can leave a window frame again.
#[derive(Debug, Default, Clone)]
pub(super) struct Approximate {
    sum: f64,
    lost: f64,
    nans: i64,
    positive: i64,
    negative: i64,
}

impl Approximate {
    fn add_finite(&mut self, value: f64) {
        let sum = self.sum + value;
        if !sum.is_finite() {
            // Beyond the largest double, as IEEE 754 has it: nothing that was lost makes up for that.
            self.sum = sum;
            return;
        }
        self.lost += if self.sum.abs() >= value.abs() {
            (self.sum - sum) + value
        } else {
            (value - sum) + self.sum
        };
        self.sum = sum;
    }

    fn add_value(&mut self, value: f64) {
        if value.is_finite() {
            self.add_finite(value);
        } else if value.is_nan() {
            self.nans += 1;
        } else if value > 0.0 {
            self.positive += 1;
        } else {
            self.negative += 1;
        }
    }

    /// Adds many values: sixteen sums side by side, each with what it lost (Knuth's branch-free sum of two), so that the loop
    /// vectorizes. A value that is not finite shows in them, and its run is added one by one.
    fn add_values<N: ArrowNativeType>(&mut self, values: &[N], double: impl Fn(N) -> f64) {
        const LANES: usize = 16;
        const RUN: usize = 4096;
        for run in values.chunks(RUN) {
            let (mut sums, mut lost) = ([0.0f64; LANES], [0.0f64; LANES]);
            let (lanes, rest) = run.as_chunks::<LANES>();
            for chunk in stream(lanes.as_flattened()).flat_map(|run| run.as_chunks::<LANES>().0) {
                for lane in 0..LANES {
                    let value = double(chunk[lane]);
                    let sum = sums[lane] + value;
                    let added = sum - sums[lane];
                    lost[lane] += (sums[lane] - (sum - added)) + (value - added);
                    sums[lane] = sum;
                }
            }
            if lost.iter().chain(&sums).all(|part| part.is_finite()) {
                lost.iter()
                    .chain(&sums)
                    .for_each(|&part| self.add_finite(part));
                rest.iter().for_each(|&value| self.add_value(double(value)));
            } else {
                run.iter().for_each(|&value| self.add_value(double(value)));
            }
        }
    }

    fn value(&self) -> f64 {
        match (self.nans, self.positive, self.negative) {
            (0, 0, 0) if self.sum.is_finite() => self.sum + self.lost,
            (0, 0, 0) => self.sum,
            (0, _, 0) => f64::INFINITY,
            (0, 0, _) => f64::NEG_INFINITY,
            _ => f64::NAN,
        }
    }
}

impl Total for Approximate {
    type State = Float64Type;

    fn state(&self) -> f64 {
        self.value()
    }

    fn merge(&mut self, state: f64) {
        self.add_value(state);
    }

    fn add(&mut self, other: &Self) {
        self.add_finite(other.sum);
        self.add_finite(other.lost);
        self.nans += other.nans;
        self.positive += other.positive;
        self.negative += other.negative;
    }

    fn subtract(&mut self, other: &Self) {
        self.add_finite(-other.sum);
        self.add_finite(-other.lost);
        self.nans -= other.nans;
        self.positive -= other.positive;
        self.negative -= other.negative;
    }

    fn result(&self, kind: Kind, count: i64, _: &DataType) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(Some(match kind {
            Kind::Sum => self.value(),
            Kind::Average => self.value() / count as f64,
        })))
    }
}

macro_rules! sum_narrow {
    ($($arrow:ty),*) => { $(
        impl Summable for $arrow {
            type Total = Exact;
            fn total(values: &PrimitiveArray<Self>) -> Exact {
                // A batch of 32-bit values cannot fill 64 bits.
                let sum: i64 = fold(values, 0, |sum, value| sum + value as i64);
                Exact { sum: i128::from(sum), overflow: false }
            }
        }
    )* };
}
sum_narrow!(
    Int8Type, Int16Type, Int32Type, UInt8Type, UInt16Type, UInt32Type
);

impl Summable for Int64Type {
    type Total = Exact;
    fn total(values: &PrimitiveArray<Self>) -> Exact {
        let sum = pieces(values).map(sum_signed).sum();
        Exact {
            sum,
            overflow: false,
        }
    }
}

/// Values whose sum cannot leave 64 bits when each lies within ±2^40.
const SAFE_PIECE: usize = 1 << 20;

/// The sum of 64-bit integers. Small ones, which most are, take an addition and a check each, both of which vectorize.
fn sum_signed(values: &[i64]) -> i128 {
    const BOUND: i64 = 1 << 40;
    let mut total = 0;
    for piece in values.chunks(SAFE_PIECE) {
        let start = (0i64, 0u64);
        let (sum, bits) = stream(piece).fold(start, |start, run| {
            run.iter().fold(start, |(sum, bits), &value| {
                let shifted = value.wrapping_add(BOUND) as u64;
                (sum.wrapping_add(value), bits | shifted)
            })
        });
        total += if bits < 2 * BOUND as u64 {
            i128::from(sum)
        } else {
            sum_wide(piece)
        };
    }
    total
}

/// As [`sum_signed`] for any values: their halves are summed apart, each within 64 bits.
fn sum_wide(values: &[i64]) -> i128 {
    let (low, high) = values.iter().fold((0u64, 0i64), |(low, high), &value| {
        (low + (value as u64 & 0xffff_ffff), high + (value >> 32))
    });
    (i128::from(high) << 32) + i128::from(low)
}

impl Summable for UInt64Type {
    type Total = Exact;
    fn total(values: &PrimitiveArray<Self>) -> Exact {
        let (low, high) = fold(values, (0u64, 0u64), |(low, high), value| {
            (low + (value & 0xffff_ffff), high + (value >> 32))
        });
        let sum = (i128::from(high) << 32) + i128::from(low);
        Exact {
            sum,
            overflow: false,
        }
    }
}

impl Summable for Decimal128Type {
    type Total = Exact;
    fn total(values: &PrimitiveArray<Self>) -> Exact {
        let (sum, overflow) = fold(values, (0i128, false), |(sum, overflow), value| {
            let (sum, over) = sum.overflowing_add(value);
            (sum, overflow | over)
        });
        Exact { sum, overflow }
    }
}

impl Summable for Float64Type {
    type Total = Approximate;
    fn total(values: &PrimitiveArray<Self>) -> Approximate {
        let mut total = Approximate::default();
        pieces(values).for_each(|piece| total.add_values(piece, |value| value));
        total
    }
}

impl Summable for Float32Type {
    type Total = Approximate;
    fn total(values: &PrimitiveArray<Self>) -> Approximate {
        let mut total = Approximate::default();
        pieces(values).for_each(|piece| total.add_values(piece, f64::from));
        total
    }
}

/// Folds the values that are not NULL.
#[inline]
fn fold<T: ArrowPrimitiveType, A>(
    values: &PrimitiveArray<T>,
    start: A,
    f: impl Fn(A, T::Native) -> A,
) -> A {
    pieces(values).flat_map(stream).fold(start, |sum, run| {
        run.iter().fold(sum, |sum, &value| f(sum, value))
    })
}

/// The runs of values that are not NULL.
fn pieces<T: ArrowPrimitiveType>(values: &PrimitiveArray<T>) -> impl Iterator<Item = &[T::Native]> {
    let all: &[T::Native] = values.values();
    let nulls = values.nulls().filter(|nulls| nulls.null_count() > 0);
    let whole = nulls.is_none().then_some(all);
    let runs = nulls.into_iter().flat_map(|nulls| nulls.valid_slices());
    whole
        .into_iter()
        .chain(runs.map(move |(start, end)| &all[start..end]))
}

pub(super) fn accumulator(kind: Kind, input: &DataType) -> Result<Box<dyn Accumulator>> {
    fn boxed<T: Summable>(kind: Kind, input: &DataType) -> Result<Box<dyn Accumulator>> {
        let Some(total_type) = total_type(input) else {
            return exec_err!("{input} cannot be summed");
        };
        Ok(Box::new(TotalAccumulator::<T> {
            kind,
            total_type,
            total: T::Total::default(),
            count: 0,
        }))
    }
    match input {
        DataType::Decimal128(_, _) => boxed::<Decimal128Type>(kind, input),
        DataType::Float64 => boxed::<Float64Type>(kind, input),
        DataType::Float32 => boxed::<Float32Type>(kind, input),
        _ => with_integer!(input, T => boxed::<T>(kind, input),
            else exec_err!("{input} cannot be summed")),
    }
}

#[derive(Debug)]
struct TotalAccumulator<T: Summable> {
    kind: Kind,
    total_type: DataType,
    total: T::Total,
    count: i64,
}

type State<T> = <<T as Summable>::Total as Total>::State;

impl<T: Summable> Accumulator for TotalAccumulator<T> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = values[0].as_primitive::<T>();
        self.count += (values.len() - values.null_count()) as i64;
        self.total.add(&T::total(values));
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = values[0].as_primitive::<T>();
        self.count -= (values.len() - values.null_count()) as i64;
        self.total.subtract(&T::total(values));
        if self.count == 0 {
            self.total = T::Total::default();
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.count > 0 {
            return self.total.result(self.kind, self.count, &self.total_type);
        }
        match self.kind {
            Kind::Sum => ScalarValue::try_from(&self.total_type),
            Kind::Average => Ok(ScalarValue::Float64(None)),
        }
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let sum = (self.count > 0).then(|| self.total.state());
        let sum = ScalarValue::new_primitive::<State<T>>(sum, &self.total_type)?;
        Ok(match self.kind {
            Kind::Sum => vec![sum],
            Kind::Average => vec![sum, ScalarValue::Int64(Some(self.count))],
        })
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let sums = states[0].as_primitive::<State<T>>();
        for sum in sums.iter().flatten() {
            self.total.merge(sum);
        }
        self.count += match self.kind {
            // One is as good as many: a sum only asks whether there were values.
            Kind::Sum => (sums.len() - sums.null_count()) as i64,
            Kind::Average => states[1].as_primitive::<Int64Type>().iter().flatten().sum(),
        };
        Ok(())
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}
