//! LAG and LEAD by offsets and with defaults that differ from row to row: `lag(x, n)`, `lead(x, 1, y * 10)`.
//!
//! DataFusion's own take constants, and LEAD miscounts where NULLs are ignored; such calls come here, under names of ours (`parse::calls`). The whole partition is
//! at hand: a row's value is that of the row so many places off, or its default where there is none.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, UInt64Array};
use arrow::compute::interleave;
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::function::{PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion::logical_expr::{
    PartitionEvaluator, Signature, Volatility, WindowUDF, WindowUDFImpl,
};

use crate::parse::{LAG, LEAD};

/// The window functions of this module.
pub(super) fn functions() -> Vec<Arc<WindowUDF>> {
    [(LAG, Direction::Back), (LEAD, Direction::Ahead)]
        .into_iter()
        .map(|(name, direction)| {
            Arc::new(WindowUDF::new_from_impl(Offset {
                name,
                direction,
                signature: Signature::user_defined(Volatility::Immutable),
            }))
        })
        .collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Direction {
    Back,
    Ahead,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Offset {
    name: &'static str,
    direction: Direction,
    signature: Signature,
}

impl WindowUDFImpl for Offset {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let (value, rest) = match types {
            [value, rest @ ..] if rest.len() < 3 => (value, rest),
            _ => return exec_err!("lag and lead take a value, an offset and a default"),
        };
        let whole = |offset: &DataType| offset.is_integer() || offset.is_null();
        if rest.first().is_some_and(|offset| !whole(offset)) {
            return exec_err!("the offset of lag and lead is an integer");
        }
        let taken = [value.clone(), DataType::Int64, value.clone()];
        Ok(taken.into_iter().take(types.len()).collect())
    }

    fn partition_evaluator(
        &self,
        args: PartitionEvaluatorArgs,
    ) -> Result<Box<dyn PartitionEvaluator>> {
        Ok(Box::new(Partition {
            direction: self.direction,
            ignore_nulls: args.ignore_nulls(),
        }))
    }

    fn field(&self, args: WindowUDFFieldArgs) -> Result<FieldRef> {
        let Some(value) = args.get_input_field(0) else {
            return exec_err!("lag and lead take a value");
        };
        let field = Field::new(args.name(), value.data_type().clone(), true);
        Ok(Arc::new(field.with_metadata(value.metadata().clone())))
    }
}

#[derive(Debug)]
struct Partition {
    direction: Direction,
    ignore_nulls: bool,
}

impl PartitionEvaluator for Partition {
    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let Some(value) = values.first() else {
            return exec_err!("lag and lead take a value");
        };
        let offsets = values
            .get(1)
            .map(|offsets| offsets.as_primitive::<Int64Type>());
        let none = arrow::array::new_null_array(value.data_type(), 1);
        let nulls = value.logical_nulls();
        let known = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        // The places of the rows that count, and how many of them come before each row.
        let (places, before): (UInt64Array, Vec<usize>) = match self.ignore_nulls {
            false => ((0..rows as u64).collect(), (0..rows).collect()),
            true => {
                let mut before = Vec::with_capacity(rows);
                let mut places = Vec::new();
                for row in 0..rows {
                    before.push(places.len());
                    if known(row) {
                        places.push(row as u64);
                    }
                }
                (places.into(), before)
            }
        };
        let mut sources = Vec::with_capacity(rows);
        for (row, before) in before.into_iter().enumerate() {
            let offset = match offsets {
                None => Some(1),
                Some(offsets) => offsets.is_valid(row).then(|| offsets.value(row)),
            };
            let Some(offset) = offset else {
                sources.push((0, 0));
                continue;
            };
            let ahead = match self.direction {
                Direction::Back => offset.checked_neg(),
                Direction::Ahead => Some(offset),
            };
            // Counted from this row, which may be one that does not count itself.
            let counts = !self.ignore_nulls || known(row);
            let place = ahead.and_then(|ahead| match ahead {
                0 => None,
                _ if ahead > 0 && !counts => (before as i64).checked_add(ahead - 1),
                _ => (before as i64).checked_add(ahead),
            });
            let found = match ahead {
                Some(0) => Some(row),
                _ => place
                    .and_then(|place| usize::try_from(place).ok())
                    .filter(|place| *place < places.len())
                    .map(|place| places.value(place) as usize),
            };
            sources.push(match found {
                Some(found) => (1, found),
                None if values.len() > 2 => (2, row),
                None => (0, 0),
            });
        }
        let mut arrays: Vec<&dyn Array> = vec![none.as_ref(), value.as_ref()];
        arrays.extend(values.get(2).map(AsRef::as_ref));
        Ok(interleave(&arrays, &sources)?)
    }
}
