//! Frames of peers over types that have an order and no distances.
//!
//! `RANGE` from or to `CURRENT ROW` means the rows that sort alike, as `GROUPS` does; the planner's `RANGE` takes only types of which
//! offsets can be told. It is every frame that is not written: `rank() OVER (ORDER BY id)` of a UUID, a BLOB, a struct.

use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::{ExprSchemable, WindowFrame, WindowFrameBound, WindowFrameUnits};

/// The function over `GROUPS`, where the planner has no `RANGE` for what it is sorted by.
pub(super) fn framed(
    function: &WindowFunction,
    schema: &DFSchema,
) -> Result<Option<WindowFunction>> {
    let frame = &function.params.window_frame;
    if frame.units != WindowFrameUnits::Range {
        return Ok(None);
    }
    let mut distant = true;
    for key in &function.params.order_by {
        distant &= has_distances(&key.expr.get_type(schema)?);
    }
    let is_offset = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::Preceding(by) | WindowFrameBound::Following(by) => !by.is_null(),
        WindowFrameBound::CurrentRow => false,
    };
    if distant || is_offset(&frame.start_bound) || is_offset(&frame.end_bound) {
        return Ok(None);
    }
    let mut grouped = function.clone();
    grouped.params.window_frame = WindowFrame::new_bounds(
        WindowFrameUnits::Groups,
        frame.start_bound.clone(),
        frame.end_bound.clone(),
    );
    Ok(Some(grouped))
}

fn has_distances(data_type: &DataType) -> bool {
    data_type.is_numeric()
        || data_type.is_string()
        || data_type.is_null()
        || matches!(
            data_type,
            DataType::Boolean | DataType::Date32 | DataType::Timestamp(..)
        )
}
