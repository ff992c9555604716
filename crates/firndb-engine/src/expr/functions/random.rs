//! `random()` and `setseed(x)`: doubles from 0 up to 1, by SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
//! generators", OOPSLA 2014).
//!
//! A database has one sequence, which begins anywhere, or where `setseed` says. A batch takes as many numbers of it as it has rows, so they come
//! in the order of the rows where one thread computes them and no other session asks in between.

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{Array, AsArray, Float64Array, Int32Array};
use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::kernel::undefined;
use crate::{Error, SqlState};

/// What the state grows by from number to number.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The functions of this module, over one sequence.
pub(super) fn functions() -> [Arc<ScalarUDF>; 2] {
    let begin = uuid::Uuid::new_v4().as_u128() as u64;
    let state = Arc::new(AtomicU64::new(begin));
    let function = |name, signature| {
        Arc::new(ScalarUDF::new_from_impl(Random {
            name,
            state: Arc::clone(&state),
            signature,
        }))
    };
    [
        function(RANDOM, Signature::nullary(Volatility::Volatile)),
        function("setseed", Signature::user_defined(Volatility::Volatile)),
    ]
}

const RANDOM: &str = "random";

#[derive(Debug)]
struct Random {
    name: &'static str,
    state: Arc<AtomicU64>,
    signature: Signature,
}

impl PartialEq for Random {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Random {}

impl Hash for Random {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

/// The number of a state: 53 bits of it.
fn number(state: u64) -> f64 {
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
}

impl ScalarUDFImpl for Random {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [seed] if seed.is_numeric() || seed.is_null() => Ok(vec![DataType::Float64]),
            _ => Err(undefined(self.name, types).into()),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.name {
            RANDOM => DataType::Float64,
            _ => DataType::Int32,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows as u64;
        let Some(seeds) = args.args.first() else {
            let taken = rows.wrapping_mul(STEP);
            let begin = self.state.fetch_add(taken, Ordering::Relaxed);
            let states = (1..=rows).map(|row| begin.wrapping_add(row.wrapping_mul(STEP)));
            let numbers: Float64Array = states.map(|state| Some(number(state))).collect();
            return Ok(ColumnarValue::Array(Arc::new(numbers)));
        };
        let seeds = seeds.to_array(args.number_rows)?;
        for seed in seeds.as_primitive::<Float64Type>().iter().flatten() {
            if !(-1.0..=1.0).contains(&seed) {
                return Err(Error::new(
                    SqlState::InvalidParameterValue,
                    format!("setseed parameter {seed} is out of allowed range [-1,1]"),
                )
                .into());
            }
            // Both zeros are one seed.
            self.state.store((seed + 0.0).to_bits(), Ordering::Relaxed);
        }
        Ok(match seeds.len() {
            1 => ColumnarValue::Scalar(ScalarValue::Int32(None)),
            rows => ColumnarValue::Array(Arc::new(Int32Array::new_null(rows))),
        })
    }
}
