//! The rows of VALUES, whose planner wants all cells of a column to say alike what they are.
//!
//! ```text
//! VALUES (CAST('…' AS UUID)), (NULL), ('…')  ─▶  VALUES (CAST('…' AS UUID)), (CAST(NULL AS UUID)), (CAST('…' AS UUID))
//! VALUES (DATE '2020-01-01'), ('2020-01-02') ─▶  VALUES (DATE '2020-01-01'), (CAST('2020-01-02' AS DATE))
//! VALUES (CAST('…' AS VARCHAR(2))), ('…')    ─▶  VALUES (coalesce(CAST('…' AS VARCHAR(2)))), ('…')     a text without a length
//! ```

use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Expr, Query, SetExpr, TableFactor, TypedString, Value, Values,
};

use super::pieces::call;
use crate::error::Result;

/// Casts NULLs and string constants to what the other rows of their column are cast to.
pub(super) fn typed(query: &mut Query) {
    let SetExpr::Values(values) = query.body.as_mut() else {
        return;
    };
    if values.rows.len() < 2 {
        return;
    }
    let width = values.rows.iter().map(|row| row.len()).max().unwrap_or(0);
    for column in 0..width {
        cast_untyped(values, column);
        free_of_limits(values, column);
    }
}

/// `IN (VALUES …)` as `IN (SELECT * FROM (VALUES …))`: the planner asks a subquery for its select list.
pub(super) fn selected(subquery: &mut Query) -> Result<()> {
    if !matches!(subquery.body.as_ref(), SetExpr::Values(_)) {
        return Ok(());
    }
    let mut outer = super::parse_query("SELECT * FROM (SELECT 1) AS listed")?;
    if let SetExpr::Select(select) = outer.body.as_mut()
        && let Some(from) = select.from.first_mut()
        && let TableFactor::Derived {
            subquery: inner, ..
        } = &mut from.relation
    {
        std::mem::swap(inner.as_mut(), subquery);
        *subquery = outer;
    }
    Ok(())
}

fn cast_untyped(values: &mut Values, column: usize) {
    let cells = values.rows.iter().filter_map(|row| row.get(column));
    let mut types = cells.filter_map(type_of);
    let Some(data_type) = types.next() else {
        return;
    };
    if is_limited_text(&data_type) || types.any(|other| other != data_type) {
        return;
    }
    let cells = values.rows.iter_mut().filter_map(|row| row.get_mut(column));
    for cell in cells.filter(|cell| is_untyped(cell)) {
        *cell = Expr::Cast {
            kind: CastKind::Cast,
            expr: Box::new(cell.clone()),
            data_type: data_type.clone(),
            array: false,
            format: None,
        };
    }
}

/// Takes lengths and digits off a column's cells, where not all have the same.
fn free_of_limits(values: &mut Values, column: usize) {
    let limits = values
        .rows
        .iter()
        .map(|row| row.get(column).and_then(type_of).filter(is_limited));
    let limits: Vec<Option<DataType>> = limits.collect();
    if limits.iter().any(|limit| *limit != limits[0]) {
        for (row, limit) in values.rows.iter_mut().zip(limits) {
            if let (Some(cell), Some(_)) = (row.get_mut(column), limit) {
                *cell = call("coalesce", vec![cell.clone()]);
            }
        }
    }
}

/// The type that a cell names.
fn type_of(cell: &Expr) -> Option<DataType> {
    match cell {
        Expr::Cast { data_type, .. } | Expr::TypedString(TypedString { data_type, .. }) => {
            Some(data_type.clone())
        }
        Expr::Interval(_) => Some(DataType::Interval {
            fields: None,
            precision: None,
        }),
        Expr::Value(value) if matches!(value.value, Value::Boolean(_)) => Some(DataType::Boolean),
        Expr::Nested(inner) => type_of(inner),
        _ => None,
    }
}

/// Whether a type has a length or a number of digits, which the planner takes for one of its own.
fn is_limited(data_type: &DataType) -> bool {
    match data_type {
        DataType::Custom(name, _) => {
            matches!(name.to_string().as_str(), "timestamp_s" | "timestamp_ms")
        }
        DataType::Timestamp(Some(_), _)
        | DataType::Time(Some(_), _)
        | DataType::Datetime(Some(_)) => true,
        other => is_limited_text(other),
    }
}

fn is_limited_text(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Char(Some(_))
            | DataType::Character(Some(_))
            | DataType::Varchar(Some(_))
            | DataType::CharVarying(Some(_))
            | DataType::CharacterVarying(Some(_))
            | DataType::Nvarchar(Some(_))
    )
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
