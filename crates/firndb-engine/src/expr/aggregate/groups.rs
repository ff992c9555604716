//! Sums and averages of many groups at once.
//!
//! Group `g` has its sum at `sums[g]`. A group comes to be with a row of its own, so while no row was NULL or filtered
//! away every group has a value, and nothing needs to be noted about it.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, Decimal128Array, Float64Array,
    Int64Array, PrimitiveArray,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    DataType, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};

use super::total::{average, checked_sum};
use super::{Kind, total_type};
use crate::expr::convert::with_integer;

pub(super) fn accumulator(kind: Kind, input: &DataType) -> Result<Box<dyn GroupsAccumulator>> {
    fn boxed<T: Addable>(kind: Kind, input: &DataType) -> Result<Box<dyn GroupsAccumulator>> {
        let Some(total_type) = total_type(input) else {
            return exec_err!("{input} cannot be summed");
        };
        Ok(Box::new(GroupSums::<T> {
            kind,
            total_type,
            sums: Vec::new(),
            counts: Vec::new(),
            seen: Seen::All,
            overflow: false,
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

/// Values that are added up in a wider type.
trait Addable: ArrowPrimitiveType {
    type Sum: ArrowPrimitiveType<Native: Sum>;
    fn widen(value: Self::Native) -> <Self::Sum as ArrowPrimitiveType>::Native;
}

/// What values are added up in.
trait Sum: Copy + Default + Send + Sync {
    /// Adds; whether that left the type.
    fn add(&mut self, value: Self) -> bool;
    /// The column of sums.
    fn sums(sums: Vec<Self>, nulls: Option<NullBuffer>, total: &DataType) -> Result<ArrayRef>;
    fn average(self, count: i64, total: &DataType) -> Result<f64>;
}

impl Sum for i128 {
    #[inline]
    fn add(&mut self, value: Self) -> bool {
        let (sum, overflow) = self.overflowing_add(value);
        *self = sum;
        overflow
    }

    fn sums(sums: Vec<Self>, nulls: Option<NullBuffer>, total: &DataType) -> Result<ArrayRef> {
        for sum in &sums {
            checked_sum(*sum, false, total)?;
        }
        let array = Decimal128Array::new(sums.into(), nulls);
        Ok(Arc::new(array.with_data_type(total.clone())))
    }

    fn average(self, count: i64, total: &DataType) -> Result<f64> {
        let DataType::Decimal128(_, scale) = total else {
            return exec_err!("{total} is no exact sum");
        };
        Ok(average(checked_sum(self, false, total)?, count, *scale))
    }
}

impl Sum for f64 {
    #[inline]
    fn add(&mut self, value: Self) -> bool {
        *self += value;
        false
    }

    fn sums(sums: Vec<Self>, nulls: Option<NullBuffer>, _: &DataType) -> Result<ArrayRef> {
        let canonical = |sum: f64| if sum.is_nan() { f64::NAN } else { sum };
        let sums: Vec<f64> = sums.into_iter().map(canonical).collect();
        Ok(Arc::new(Float64Array::new(sums.into(), nulls)))
    }

    fn average(self, count: i64, _: &DataType) -> Result<f64> {
        let average = self / count as f64;
        Ok(if average.is_nan() { f64::NAN } else { average })
    }
}

macro_rules! addable {
    ($($arrow:ty => $sum:ty),*) => { $(
        impl Addable for $arrow {
            type Sum = $sum;
            #[inline]
            fn widen(value: Self::Native) -> <$sum as ArrowPrimitiveType>::Native {
                value.into()
            }
        }
    )* };
}
addable!(
    Int8Type => Decimal128Type, Int16Type => Decimal128Type, Int32Type => Decimal128Type,
    Int64Type => Decimal128Type, UInt8Type => Decimal128Type, UInt16Type => Decimal128Type,
    UInt32Type => Decimal128Type, UInt64Type => Decimal128Type,
    Decimal128Type => Decimal128Type, Float32Type => Float64Type, Float64Type => Float64Type
);

/// Which groups have a value.
enum Seen {
    All,
    Some(Vec<bool>),
}

impl Seen {
    /// Keeps one flag for each group from now on.
    fn grow(&mut self, before: usize, groups: usize) {
        let mut flags = match std::mem::replace(self, Seen::All) {
            Seen::All => vec![true; before],
            Seen::Some(flags) => flags,
        };
        flags.resize(groups, false);
        *self = Seen::Some(flags);
    }

    fn mark(&mut self, group: usize) {
        if let Seen::Some(flags) = self {
            flags[group] = true;
        }
    }

    fn take(&mut self, emit: EmitTo) -> Option<NullBuffer> {
        match self {
            Seen::All => None,
            Seen::Some(flags) => Some(NullBuffer::from(emit.take_needed(flags)))
                .filter(|nulls| nulls.null_count() > 0),
        }
    }
}

struct GroupSums<T: Addable> {
    kind: Kind,
    total_type: DataType,
    sums: Vec<<T::Sum as ArrowPrimitiveType>::Native>,
    /// Of averages only.
    counts: Vec<i64>,
    seen: Seen,
    overflow: bool,
}

impl<T: Addable> GroupSums<T> {
    fn add<V: ArrowPrimitiveType>(
        &mut self,
        values: &PrimitiveArray<V>,
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
        widen: impl Fn(V::Native) -> <T::Sum as ArrowPrimitiveType>::Native,
    ) {
        let before = self.sums.len();
        self.sums.resize(total_groups, Default::default());
        let mut overflow = false;
        let plain = values.null_count() == 0 && filter.is_none();
        if plain {
            for (group, value) in groups.iter().zip(values.values()) {
                overflow |= self.sums[*group].add(widen(*value));
            }
            if let Seen::Some(_) = self.seen {
                self.seen.grow(before, total_groups);
                groups.iter().for_each(|group| self.seen.mark(*group));
            }
        } else {
            self.seen.grow(before, total_groups);
            for (row, group) in groups.iter().enumerate() {
                if values.is_valid(row) && passes(filter, row) {
                    overflow |= self.sums[*group].add(widen(values.value(row)));
                    self.seen.mark(*group);
                }
            }
        }
        self.overflow |= overflow;
    }

    fn check_overflow(&self) -> Result<()> {
        if self.overflow {
            checked_sum(0, true, &self.total_type)?;
        }
        Ok(())
    }
}

fn passes(filter: Option<&BooleanArray>, row: usize) -> bool {
    filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row))
}

impl<T: Addable> GroupsAccumulator for GroupSums<T> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<()> {
        let values = values[0].as_primitive::<T>();
        self.add(values, groups, filter, total_groups, T::widen);
        if self.kind == Kind::Average {
            self.counts.resize(total_groups, 0);
            if values.null_count() == 0 && filter.is_none() {
                for group in groups {
                    self.counts[*group] += 1;
                }
            } else {
                for (row, group) in groups.iter().enumerate() {
                    let counted = values.is_valid(row) && passes(filter, row);
                    self.counts[*group] += i64::from(counted);
                }
            }
        }
        Ok(())
    }

    fn merge_batch(
        &mut self,
        states: &[ArrayRef],
        groups: &[usize],
        total_groups: usize,
    ) -> Result<()> {
        let sums = states[0].as_primitive::<T::Sum>();
        self.add(sums, groups, None, total_groups, |sum| sum);
        if self.kind == Kind::Average {
            let counts = states[1].as_primitive::<Int64Type>();
            self.counts.resize(total_groups, 0);
            for (group, count) in groups.iter().zip(counts.values()) {
                self.counts[*group] += count;
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        self.check_overflow()?;
        let sums = emit.take_needed(&mut self.sums);
        let nulls = self.seen.take(emit);
        if self.kind == Kind::Sum {
            return Sum::sums(sums, nulls, &self.total_type);
        }
        let counts = emit.take_needed(&mut self.counts);
        let averages = sums
            .into_iter()
            .zip(counts)
            .map(|(sum, count)| {
                if count == 0 {
                    Ok(0.0)
                } else {
                    sum.average(count, &self.total_type)
                }
            })
            .collect::<Result<Vec<f64>>>()?;
        Ok(Arc::new(Float64Array::new(averages.into(), nulls)))
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        self.check_overflow()?;
        let sums = emit.take_needed(&mut self.sums);
        let nulls = self.seen.take(emit);
        let sums = Sum::sums(sums, nulls, &self.total_type)?;
        Ok(match self.kind {
            Kind::Sum => vec![sums],
            Kind::Average => {
                let counts = emit.take_needed(&mut self.counts);
                vec![sums, Arc::new(Int64Array::from(counts))]
            }
        })
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let values = values[0].as_primitive::<T>();
        let passed = filter.map(|filter| {
            NullBuffer::from_iter((0..filter.len()).map(|row| passes(Some(filter), row)))
        });
        let nulls = NullBuffer::union(values.nulls(), passed.as_ref());
        let sums: Vec<_> = values
            .values()
            .iter()
            .map(|value| T::widen(*value))
            .collect();
        let sums = PrimitiveArray::<T::Sum>::new(sums.into(), nulls.clone())
            .with_data_type(self.total_type.clone());
        Ok(match self.kind {
            Kind::Sum => vec![Arc::new(sums)],
            Kind::Average => {
                let counts: Vec<i64> = match &nulls {
                    None => vec![1; values.len()],
                    Some(nulls) => nulls.iter().map(i64::from).collect(),
                };
                vec![Arc::new(sums), Arc::new(Int64Array::from(counts))]
            }
        })
    }

    fn size(&self) -> usize {
        let flags = match &self.seen {
            Seen::All => 0,
            Seen::Some(flags) => flags.capacity(),
        };
        self.sums.capacity() * size_of::<<T::Sum as ArrowPrimitiveType>::Native>()
            + self.counts.capacity() * size_of::<i64>()
            + flags
    }
}
