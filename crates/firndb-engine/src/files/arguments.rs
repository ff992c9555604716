//! Arguments of the functions that read files.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::Schema;
use datafusion::catalog::TableFunctionArgs;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, Expr};

/// The value of an argument that does not depend on rows.
pub(crate) fn constant(argument: &Expr, args: &TableFunctionArgs) -> Result<ScalarValue> {
    if let Expr::Literal(value, _) = argument {
        return Ok(value.clone());
    }
    let compiled = args
        .session()
        .create_physical_expr(argument.clone(), &DFSchema::empty())?;
    let row = RecordBatch::try_new_with_options(
        Arc::new(Schema::empty()),
        Vec::new(),
        &RecordBatchOptions::new().with_row_count(Some(1)),
    )?;
    Ok(match compiled.evaluate(&row)? {
        ColumnarValue::Scalar(value) => value,
        ColumnarValue::Array(array) => ScalarValue::try_from_array(&array, 0)?,
    })
}

/// A text or a list of texts.
pub(crate) fn texts(value: &ScalarValue) -> Option<Vec<String>> {
    if let Some(Some(text)) = value.try_as_str() {
        return Some(vec![text.to_owned()]);
    }
    let items = match value {
        ScalarValue::List(list) => list.values(),
        ScalarValue::LargeList(list) => list.values(),
        ScalarValue::FixedSizeList(list) => list.values(),
        _ => return None,
    };
    (0..items.len())
        .map(|row| {
            let item = ScalarValue::try_from_array(items, row).ok()?;
            item.try_as_str().flatten().map(str::to_owned)
        })
        .collect()
}
