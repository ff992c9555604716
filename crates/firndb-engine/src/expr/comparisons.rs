//! Comparisons with our semantics, by what is compared: numbers, intervals, enums, nested values, floating point numbers.

use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{BinaryExpr, Expr};

use super::operators::comparison;
use super::{floats, intervals, nested, orders};

/// A comparison with our semantics, where they are other than those that it has.
pub(super) fn compared(binary: &BinaryExpr, schema: &DFSchema) -> Result<Option<Expr>> {
    // The column first: in an outer join's condition DataFusion takes `0 = column` for a key of the side that it says nothing about.
    let turned = match binary.op.swap() {
        Some(operator) if !binary.left.any_column_refs() && binary.right.any_column_refs() => Some(
            BinaryExpr::new(binary.right.clone(), operator, binary.left.clone()),
        ),
        _ => None,
    };
    if let Some(turned) = turned {
        let rewritten = compared(&turned, schema)?;
        return Ok(Some(rewritten.unwrap_or(Expr::BinaryExpr(turned))));
    }
    let typed = comparison(&binary.left, binary.op, &binary.right, schema)?;
    let binary = match &typed {
        Some(Expr::BinaryExpr(typed)) => typed,
        _ => binary,
    };
    if let Some(intervals) = intervals::comparison(binary, schema)? {
        return Ok(Some(intervals));
    }
    if let Some(enums) = orders::comparison(binary, schema)? {
        return Ok(Some(enums));
    }
    if let Some(nested) = nested::comparison(binary, schema)? {
        return Ok(Some(nested));
    }
    Ok(floats::comparison(binary, schema)?.or(typed))
}
