//! `concat` and `concat_ws` over values of any type, each as the text that a cast to VARCHAR yields; `concat` of lists is a list.
//!
//! The arguments are texts when they come here: [`as_texts`] is how `semantics` casts them, before DataFusion's coercion would
//! print them in Arrow's words.

use std::sync::Arc;

use arrow::compute::can_cast_types;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{DFSchema, Result};
use datafusion::functions::string;
use datafusion::functions_nested::concat::array_concat_udf;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};

use super::kernel::undefined;
use crate::expr::cast::Cast;
use crate::expr::convert::Rule;

/// The functions of this module.
pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    [(string::concat(), 1), (string::concat_ws(), 2)]
        .into_iter()
        .map(|(texts, least)| {
            Arc::new(ScalarUDF::new_from_impl(Concatenation {
                texts,
                least,
                signature: Signature::user_defined(Volatility::Immutable),
            }))
        })
        .collect()
}

/// The call with its arguments as texts, where it is of a function that joins or fills in texts.
pub(in crate::expr) fn as_texts(
    function: &ScalarFunction,
    schema: &DFSchema,
) -> Result<Option<Expr>> {
    let name = function.func.name();
    if !matches!(
        name,
        "concat" | "concat_ws" | "format" | "printf" | "array_to_string"
    ) {
        return Ok(None);
    }
    let fields = function
        .args
        .iter()
        .map(|arg| Ok(arg.to_field(schema)?.1))
        .collect::<Result<Vec<_>>>()?;
    if name == "concat" && joins_lists(fields.iter().map(|field| field.data_type())) {
        return Ok(None);
    }
    let wanted = |place: usize, given: &DataType| match (name, given) {
        (_, DataType::Null) => None,
        ("array_to_string", DataType::List(item)) if place == 0 => {
            let plain = item.data_type().is_string() || item.data_type().is_nested();
            (!plain).then(|| DataType::new_list(DataType::Utf8, true))
        }
        ("array_to_string", _) => None,
        // These write numbers and truth in formats of their own.
        ("format" | "printf", given) if given.is_numeric() || *given == DataType::Boolean => None,
        (_, given) => (!given.is_string()).then_some(DataType::Utf8View),
    };
    let mut changed = false;
    let mut args = Vec::with_capacity(fields.len());
    for (place, (arg, field)) in function.args.iter().zip(&fields).enumerate() {
        args.push(match wanted(place, field.data_type()) {
            Some(text) => {
                changed = true;
                let text = Arc::new(Field::new("", text, true));
                Cast::call(arg.clone(), field, &text, Rule::Explicit)?
            }
            None => arg.clone(),
        });
    }
    let call = ScalarFunction::new_udf(Arc::clone(&function.func), args);
    Ok(changed.then_some(Expr::ScalarFunction(call)))
}

fn joins_lists<'a>(types: impl Iterator<Item = &'a DataType> + Clone) -> bool {
    types.clone().any(DataType::is_list)
        && types
            .into_iter()
            .all(|given| given.is_list() || given.is_null())
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Concatenation {
    texts: Arc<ScalarUDF>,
    least: usize,
    signature: Signature,
}

impl Concatenation {
    fn joins_lists(&self, types: &[DataType]) -> bool {
        self.least == 1 && joins_lists(types.iter())
    }
}

impl ScalarUDFImpl for Concatenation {
    fn name(&self) -> &str {
        self.texts.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let lists = types.iter().any(DataType::is_list);
        if types.len() < self.least || self.least == 1 && lists && !self.joins_lists(types) {
            return Err(undefined(self.name(), types).into());
        }
        if self.joins_lists(types) {
            let fields: Vec<FieldRef> = types
                .iter()
                .map(|given| Arc::new(Field::new("", given.clone(), true)))
                .collect();
            let coerced = fields_with_udf(&fields, array_concat_udf().as_ref())?;
            return Ok(coerced
                .iter()
                .map(|field| field.data_type().clone())
                .collect());
        }
        // What Arrow casts to no text comes as it is and is cast by `as_texts`.
        Ok(types
            .iter()
            .map(|given| match can_cast_types(given, &DataType::Utf8View) {
                true => DataType::Utf8View,
                false => given.clone(),
            })
            .collect())
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match self.joins_lists(types) {
            true => array_concat_udf().inner().return_type(types),
            false => Ok(DataType::Utf8View),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        match args
            .arg_fields
            .iter()
            .any(|field| field.data_type().is_list())
        {
            true => array_concat_udf().inner().return_field_from_args(args),
            false => Ok(Arc::new(Field::new(self.name(), DataType::Utf8View, true))),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args
            .arg_fields
            .iter()
            .any(|field| field.data_type().is_list())
        {
            true => array_concat_udf().inner().invoke_with_args(args),
            false => self.texts.inner().invoke_with_args(args),
        }
    }
}
