//! IN with a list: `x IN (a, b)` answers as `x = a OR x = b` does.
//!
//! A list stays a list, which scans skip by and index look-ups read, where its items are constants of the type in which they are
//! compared with `x`. Constants of two kinds, as decimals and doubles beside a decimal, become two lists; what is computed
//! becomes comparisons.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator, lit, not};

use super::cast::Cast;
use super::comparisons::compared;
use super::convert::Rule;
use super::floats;
use super::intervals;
use super::operators::{aligned, double_of};
use crate::types::has_floats;

/// IN with a list, typed. DataFusion takes a CASE among the items for a constant, so a list of more than literals and columns
/// becomes comparisons.
pub(super) fn listed(list: InList, schema: &DFSchema) -> Result<Expr> {
    let (_, field) = list.expr.to_field(schema)?;
    let plain = |item: &Expr| matches!(item, Expr::Literal(_, _) | Expr::Column(_));
    if !list.list.iter().all(plain) {
        return any_equal(list, schema);
    }
    let mut floats = has_floats(field.data_type());
    for item in &list.list {
        floats |= has_floats(&item.get_type(schema)?);
    }
    if floats {
        return with_floats(list, &field, schema);
    }
    let mut items = Vec::with_capacity(list.list.len());
    for item in list.list {
        let (_, item_field) = item.to_field(schema)?;
        items.push(aligned(item, &item_field, &field)?);
    }
    if intervals::is_interval(&list.expr, schema)? {
        let items = items.into_iter().map(intervals::length_of).collect();
        let value = Box::new(intervals::length_of(*list.expr));
        return Ok(Expr::InList(InList::new(value, items, list.negated)));
    }
    Ok(Expr::InList(InList::new(list.expr, items, list.negated)))
}

/// A list in which floating point numbers occur.
fn with_floats(list: InList, field: &Field, schema: &DFSchema) -> Result<Expr> {
    let constants = list
        .list
        .iter()
        .all(|item| matches!(item, Expr::Literal(_, _)));
    let value_type = field.data_type();
    if !constants || !(value_type.is_numeric() || value_type.is_null()) {
        return any_equal(list, schema);
    }
    // Doubles beside a decimal or integer are a list of their own.
    if !value_type.is_floating() {
        let mut doubles = Vec::new();
        let mut others = Vec::new();
        for item in list.list {
            match item.get_type(schema)?.is_floating() {
                true => doubles.push(item),
                false => others.push(item),
            }
        }
        if value_type.is_null() {
            doubles.append(&mut others);
        }
        let double: FieldRef = Arc::new(Field::new("", DataType::Float64, true));
        let value = Cast::call(list.expr.as_ref().clone(), field, &double, Rule::Explicit)?;
        let mut any = floating(value, DataType::Float64, doubles, schema)?;
        if !others.is_empty() {
            let rest = InList::new(list.expr, others, false);
            any = listed(rest, schema)?.or(any);
        }
        return Ok(if list.negated { not(any) } else { any });
    }
    // A REAL stays one while its items are.
    let mut reals = *value_type == DataType::Float32;
    for item in &list.list {
        let number = number_of(item, schema)?;
        reals &= number.is_none_or(|number| {
            let real = f64::from(number as f32);
            number.is_nan() || real == number
        });
    }
    let (value, data_type) = match reals {
        true => (*list.expr, DataType::Float32),
        false => {
            let double: FieldRef = Arc::new(Field::new("", DataType::Float64, true));
            let value = Cast::call(*list.expr, field, &double, Rule::Explicit)?;
            (value, DataType::Float64)
        }
    };
    let any = floating(value, data_type, list.list, schema)?;
    Ok(if list.negated { not(any) } else { any })
}

/// A value of a floating point type in a list of constants of that type: every zero with both signs, every NaN the one.
fn floating(value: Expr, data_type: DataType, list: Vec<Expr>, schema: &DFSchema) -> Result<Expr> {
    let mut items = Vec::with_capacity(list.len());
    for item in list {
        let number = number_of(&item, schema)?;
        let number = number.map(|number| if number.is_nan() { f64::NAN } else { number });
        let item = Expr::Literal(
            match data_type {
                DataType::Float32 => ScalarValue::Float32(number.map(|number| number as f32)),
                _ => ScalarValue::Float64(number),
            },
            None,
        );
        items.extend(floats::other_zero(&item));
        items.push(item);
    }
    Ok(Expr::InList(InList::new(Box::new(value), items, false)))
}

/// A constant as a double; text is read as one.
fn number_of(item: &Expr, schema: &DFSchema) -> Result<Option<f64>> {
    let (_, field) = item.to_field(schema)?;
    let double = Field::new("", DataType::Float64, true);
    let item = aligned(item.clone(), &field, &double)?;
    let (_, field) = item.to_field(schema)?;
    Ok(match &item {
        Expr::Literal(value, _) => double_of(value, &field)?,
        _ => None,
    })
}

/// `x = a OR x = b …`.
fn any_equal(list: InList, schema: &DFSchema) -> Result<Expr> {
    let mut any: Option<Expr> = None;
    for item in list.list {
        let equal = BinaryExpr::new(list.expr.clone(), Operator::Eq, Box::new(item));
        let equal = compared(&equal, schema)?.unwrap_or(Expr::BinaryExpr(equal));
        any = Some(match any {
            Some(others) => others.or(equal),
            None => equal,
        });
    }
    let any = any.unwrap_or_else(|| lit(false));
    Ok(if list.negated { not(any) } else { any })
}
