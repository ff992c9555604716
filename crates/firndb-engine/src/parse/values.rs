//! The rows of VALUES, whose planner wants all cells of a column to say alike what they are.
//!
//! ```text
//! VALUES (CAST('…' AS UUID)), (NULL), ('…')  ─▶  VALUES (CAST('…' AS UUID)), (CAST(NULL AS UUID)), (CAST('…' AS UUID))
//! ```

use datafusion::sql::sqlparser::ast::{CastKind, DataType, Expr, Query, SetExpr, Value};

/// Casts NULLs and string constants to what another row of their column is cast to.
pub(super) fn typed(query: &mut Query) {
    let SetExpr::Values(values) = query.body.as_mut() else {
        return;
    };
    let width = values.rows.iter().map(|row| row.len()).max().unwrap_or(0);
    if values.rows.len() < 2 {
        return;
    }
    for column in 0..width {
        let cells = values.rows.iter().filter_map(|row| row.get(column));
        let Some(data_type) = cells.into_iter().find_map(cast_to).cloned() else {
            continue;
        };
        for row in values.rows.iter_mut() {
            let Some(cell) = row.get_mut(column) else {
                continue;
            };
            if is_untyped(cell) {
                *cell = Expr::Cast {
                    kind: CastKind::Cast,
                    expr: Box::new(cell.clone()),
                    data_type: data_type.clone(),
                    array: false,
                    format: None,
                };
            }
        }
    }
}

/// The type of a cast to one that Arrow has no type for: UUID, JSON, the name of an enum.
fn cast_to(cell: &Expr) -> Option<&DataType> {
    match cell {
        Expr::Cast { data_type, .. } => matches!(
            data_type,
            DataType::Uuid | DataType::JSON | DataType::JSONB | DataType::Custom(..)
        )
        .then_some(data_type),
        Expr::Nested(inner) => cast_to(inner),
        _ => None,
    }
}

fn is_untyped(cell: &Expr) -> bool {
    match cell {
        Expr::Value(value) => {
            matches!(value.value, Value::Null | Value::SingleQuotedString(_))
        }
        Expr::Nested(inner) => is_untyped(inner),
        _ => false,
    }
}
