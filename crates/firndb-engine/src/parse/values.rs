//! The rows of VALUES, whose planner wants all cells of a column to say alike what they are.
//!
//! ```text
//! VALUES (CAST('…' AS UUID)), (NULL), ('…')  ─▶  VALUES (CAST('…' AS UUID)), (CAST(NULL AS UUID)), (CAST('…' AS UUID))
//! VALUES (DATE '2020-01-01'), ('2020-01-02') ─▶  VALUES (DATE '2020-01-01'), (CAST('2020-01-02' AS DATE))
//! VALUES ('a'::CHAR(4)), ('b')               ─▶  VALUES ('a'::CHAR(4) || ''), ('b' || '')
//! ```

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, Expr, Query, SetExpr, TypedString, Value, Values,
};

/// Casts NULLs and string constants to what another row of their column is cast to.
pub(super) fn typed(query: &mut Query) {
    let SetExpr::Values(values) = query.body.as_mut() else {
        return;
    };
    if values.rows.len() < 2 {
        return;
    }
    let width = values.rows.iter().map(|row| row.len()).max().unwrap_or(0);
    for column in 0..width {
        let types: Vec<DataType> = cells(values, column).filter_map(type_of).collect();
        let Some(first) = types.first() else {
            continue;
        };
        let alike = types.iter().all(|other| other == first);
        if types.iter().any(is_limited) {
            if !alike || types.len() < values.rows.len() {
                unlimited(values, column);
            }
        } else if alike {
            cast(values, column, first, is_untyped);
        }
    }
}

fn cells(values: &Values, column: usize) -> impl Iterator<Item = &Expr> {
    values.rows.iter().filter_map(move |row| row.get(column))
}

fn cast(values: &mut Values, column: usize, data_type: &DataType, which: impl Fn(&Expr) -> bool) {
    let cells = values.rows.iter_mut().filter_map(|row| row.get_mut(column));
    for cell in cells.filter(|cell| which(cell)) {
        let value = std::mem::replace(cell, Expr::value(Value::Null));
        *cell = Expr::Cast {
            kind: CastKind::Cast,
            expr: Box::new(value),
            data_type: data_type.clone(),
            array: false,
            format: None,
        };
    }
}

/// Cells as strings of no certain length: a cast alone would keep what the planner knows of them.
fn unlimited(values: &mut Values, column: usize) {
    for cell in values.rows.iter_mut().filter_map(|row| row.get_mut(column)) {
        let value = std::mem::replace(cell, Expr::value(Value::Null));
        *cell = Expr::BinaryOp {
            left: Box::new(Expr::Nested(Box::new(value))),
            op: BinaryOperator::StringConcat,
            right: Box::new(Expr::value(Value::SingleQuotedString(String::new()))),
        };
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

/// A type of strings with a length, which the planner takes for one of its own.
fn is_limited(data_type: &DataType) -> bool {
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
