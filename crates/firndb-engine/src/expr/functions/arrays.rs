//! DataFusion's functions that make lists, where UUIDs or BLOBs and NULLs meet.
//!
//! DataFusion finds no common type for `[uuid, NULL]` and `list_append([], blob)`, as Arrow casts no NULL to bytes. Here the
//! bytes' type is the common one; `semantics` casts the NULLs.

use std::sync::Arc;

use arrow::array::{ListArray, new_null_array};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::Result;
use datafusion::functions_nested::{concat, make_array};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

/// The functions of this module.
pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    [
        (
            make_array::make_array_udf(),
            &["make_list", "list_value", "list_pack", "array_value"][..],
        ),
        (concat::array_append_udf(), &[]),
        (concat::array_prepend_udf(), &[]),
        (concat::array_concat_udf(), &[]),
    ]
    .into_iter()
    .map(|(inner, names)| {
        let further = names.iter().map(ToString::to_string);
        Arc::new(ScalarUDF::new_from_impl(OfBytes {
            aliases: inner.aliases().iter().cloned().chain(further).collect(),
            inner,
            signature: Signature::user_defined(Volatility::Immutable),
        }))
    })
    .collect()
}

/// A function whose NULLs and empty lists become bytes where another argument is bytes.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OfBytes {
    inner: Arc<ScalarUDF>,
    aliases: Vec<String>,
    signature: Signature,
}

/// The type of the UUIDs or BLOBs of a type, or of the lists in it.
pub(in crate::expr) fn bytes_in(data_type: &DataType) -> Option<&DataType> {
    match data_type {
        DataType::List(item) => bytes_in(item.data_type()),
        bytes => bytes.is_binary().then_some(bytes),
    }
}

/// How many lists are around a value.
fn depth(data_type: &DataType) -> usize {
    match data_type {
        DataType::List(item) => 1 + depth(item.data_type()),
        _ => 0,
    }
}

/// NULL, or lists of nothing else.
pub(in crate::expr) fn is_nothing(data_type: &DataType) -> bool {
    match data_type {
        DataType::Null => true,
        DataType::List(item) => is_nothing(item.data_type()),
        _ => false,
    }
}

/// A type around which there are so many lists.
fn in_lists(item: &DataType, depth: usize) -> DataType {
    (0..depth).fold(item.clone(), |item, _| DataType::new_list(item, true))
}

impl OfBytes {
    /// The types of the arguments with bytes for nothing; `None` where that is not what they lack.
    fn completed(&self, types: &[DataType]) -> Option<Vec<DataType>> {
        let known = types.iter().find(|given| bytes_in(given).is_some())?;
        let bytes = bytes_in(known)?;
        if !types.iter().any(is_nothing) {
            return None;
        }
        let depth_of = |place: usize, list: usize| match (self.inner.name(), place) {
            ("array_append", 1) | ("array_prepend", 0) => list - 1,
            _ => list,
        };
        let place = types.iter().position(|given| given == known)?;
        let list = match (self.inner.name(), place) {
            ("array_append", 1) | ("array_prepend", 0) => depth(known) + 1,
            _ => depth(known),
        };
        if list == 0 && self.inner.name() != "make_array" {
            return None;
        }
        let completed = types
            .iter()
            .enumerate()
            .map(|(place, given)| match is_nothing(given) {
                true => in_lists(bytes, depth_of(place, list)),
                false => given.clone(),
            });
        Some(completed.collect())
    }
}

/// How many arguments there are, if each is a NULL without a type and one is a column.
fn nulls(args: &ScalarFunctionArgs) -> Option<usize> {
    let column = args
        .args
        .iter()
        .any(|arg| matches!(arg, ColumnarValue::Array(_)));
    let untyped = args
        .arg_fields
        .iter()
        .all(|field| field.data_type().is_null());
    (column && untyped).then_some(args.args.len())
}

impl ScalarUDFImpl for OfBytes {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        if let Some(completed) = self.completed(types) {
            return Ok(completed);
        }
        let fields: Vec<FieldRef> = types
            .iter()
            .map(|given| Arc::new(Field::new("", given.clone(), true)))
            .collect();
        let coerced = fields_with_udf(&fields, self.inner.as_ref())?;
        Ok(coerced
            .iter()
            .map(|field| field.data_type().clone())
            .collect())
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.inner().return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.inner.inner().return_field_from_args(args)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        // DataFusion makes one list of columns of nothing but NULL.
        if self.inner.name() == "make_array"
            && let Some(width) = nulls(&args)
        {
            let items = new_null_array(&DataType::Null, width * args.number_rows);
            let lists = ListArray::try_new(
                Arc::new(Field::new_list_field(DataType::Null, true)),
                OffsetBuffer::from_repeated_length(width, args.number_rows),
                items,
                None,
            )?;
            return Ok(ColumnarValue::Array(Arc::new(lists)));
        }
        self.inner.inner().invoke_with_args(args)
    }
}
