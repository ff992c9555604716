//! Values as the shell and tests show them.

use arrow::array::{Array, ArrayRef, AsArray, StringViewArray};
use arrow::datatypes::{DataType, Field};

use super::convert::{Conversion, Rule, convert};
use crate::Result;

/// The text of each value, as a cast to VARCHAR yields it with the session's zone at UTC; NULL stays NULL. `field` tells a UUID from
/// plain bytes.
///
/// # Errors
/// 0A000 for an Arrow type that no SQL type is computed as.
pub fn show(values: &ArrayRef, field: &Field) -> Result<StringViewArray> {
    let text = Field::new(field.name(), DataType::Utf8View, true);
    let texts = convert(values, field, &text, Conversion::new(Rule::Explicit))?;
    debug_assert_eq!(texts.len(), values.len());
    Ok(texts.as_string_view().clone())
}
