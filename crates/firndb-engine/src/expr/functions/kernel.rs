//! Scalar functions of ours: a name, what they take and yield, and a function over arrays.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{DataType, Field, TimeUnit};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::expr::convert::message_name;
use crate::{Error, SqlState};

/// What an argument is brought to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    Text,
    Integer,
    Double,
    /// A timestamp without a zone; dates and text become one.
    Stamp,
    /// What it is.
    Any,
}

/// A function over arrays of equal length.
pub(super) type Run = fn(&[ArrayRef]) -> Result<ArrayRef>;

/// A scalar function.
#[derive(Debug)]
pub(super) struct Kernel {
    pub(super) name: &'static str,
    pub(super) aliases: &'static [&'static str],
    /// What the arguments are brought to; the last one stands for those behind it.
    pub(super) takes: &'static [Takes],
    /// The least and the greatest number of arguments.
    pub(super) arguments: (usize, usize),
    /// The result's type, or `None` where the arguments' types do not fit.
    pub(super) yields: fn(&[DataType]) -> Option<DataType>,
    pub(super) run: Run,
}

impl Kernel {
    pub(super) fn function(self) -> Arc<ScalarUDF> {
        Arc::new(ScalarUDF::new_from_impl(KernelFunction {
            aliases: self.aliases.iter().map(ToString::to_string).collect(),
            signature: Signature::user_defined(Volatility::Immutable),
            kernel: self,
        }))
    }
}

#[derive(Debug)]
struct KernelFunction {
    kernel: Kernel,
    aliases: Vec<String>,
    signature: Signature,
}

impl PartialEq for KernelFunction {
    fn eq(&self, other: &Self) -> bool {
        self.kernel.name == other.kernel.name
    }
}

impl Eq for KernelFunction {}

impl Hash for KernelFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.kernel.name.hash(state);
    }
}

/// 42883: no function of this name takes these types.
pub(super) fn undefined(name: &str, types: &[DataType]) -> Error {
    let types: Vec<String> = types
        .iter()
        .map(|data_type| message_name(&Field::new("", data_type.clone(), true)))
        .collect();
    Error::new(
        SqlState::UndefinedFunction,
        format!(
            "function {}({}) does not exist",
            name.trim_start_matches("__firndb_"),
            types.join(", ")
        ),
    )
    .with_hint("No function matches the given name and argument types. You might need to add explicit type casts.")
}

impl ScalarUDFImpl for KernelFunction {
    fn name(&self) -> &str {
        self.kernel.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let (least, most) = self.kernel.arguments;
        if !(least..=most).contains(&types.len()) {
            return Err(undefined(self.kernel.name, types).into());
        }
        let last = self.kernel.takes.last().copied().unwrap_or(Takes::Any);
        let takes = self.kernel.takes.iter().copied();
        types
            .iter()
            .zip(takes.chain(std::iter::repeat(last)))
            .map(|(given, takes)| {
                brought_to(given, takes).ok_or_else(|| undefined(self.kernel.name, types).into())
            })
            .collect()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        (self.kernel.yields)(types).ok_or_else(|| undefined(self.kernel.name, types).into())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        over_arrays(&args, |arrays, _| (self.kernel.run)(arrays))
    }
}

/// Runs a function of arrays, and of a number of rows: one row where all arguments are constant, whose result is a constant, too.
pub(super) fn over_arrays(
    args: &ScalarFunctionArgs,
    run: impl FnOnce(&[ArrayRef], usize) -> Result<ArrayRef>,
) -> Result<ColumnarValue> {
    let is_constant = |argument: &ColumnarValue| matches!(argument, ColumnarValue::Scalar(_));
    let constant = args.args.iter().all(is_constant);
    let rows = if constant { 1 } else { args.number_rows };
    let arrays = args.args.iter().map(|argument| argument.to_array(rows));
    let result = run(&arrays.collect::<Result<Vec<_>>>()?, rows)?;
    debug_assert_eq!(result.len(), rows);
    Ok(match constant {
        true => ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?),
        false => ColumnarValue::Array(result),
    })
}

fn brought_to(given: &DataType, takes: Takes) -> Option<DataType> {
    use DataType::{Date32, Null, Timestamp};
    let null = *given == Null;
    match takes {
        Takes::Any => Some(given.clone()),
        Takes::Text if null || given.is_string() => Some(DataType::Utf8View),
        Takes::Integer if null || given.is_integer() => Some(DataType::Int64),
        Takes::Double if null || given.is_numeric() => Some(DataType::Float64),
        Takes::Stamp if null || given.is_string() || matches!(given, Date32 | Timestamp(_, _)) => {
            Some(Timestamp(TimeUnit::Microsecond, None))
        }
        _ => None,
    }
}
