//! Sets of parameters as columns, one array for each parameter, without a value object for each.
//!
//! Only sets of one length whose k-th values are of one of the commonest classes, or None, become columns here, of the types that
//! the values would have one by one.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryBuilder, BooleanBuilder, Float64Builder, Int64Builder, NullArray, StringBuilder,
};
use firndb::Datum;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::parameters;

/// Bytes of all strings together.
const MOST_BYTES: usize = 1 << 30;

enum Column {
    /// Only NULLs so far.
    Null(usize),
    Boolean(BooleanBuilder),
    Integer(Int64Builder),
    Float(Float64Builder),
    Text(StringBuilder),
    Bytes(BinaryBuilder),
}

/// The columns of sets of parameters; `None` if they are not of the simple kind, or there are none.
pub(crate) fn columns(sets: &Bound<'_, PyAny>) -> Option<Vec<ArrayRef>> {
    let sets = sets.cast_exact::<PyList>().ok()?;
    let rows = sets.len();
    let mut columns: Vec<Column> = Vec::new();
    let mut bytes = 0;
    for (number, set) in sets.iter().enumerate() {
        let mut at = 0;
        let mut push = |item: &Bound<'_, PyAny>| -> Option<()> {
            if number == 0 {
                columns.push(Column::Null(0));
            }
            let datum = parameters::datum(item)?;
            bytes += match datum {
                Datum::Text(text) => text.len(),
                Datum::Bytes(value) => value.len(),
                _ => 0,
            };
            columns.get_mut(at)?.push(datum, rows)?;
            at += 1;
            Some(())
        };
        if let Ok(tuple) = set.cast_exact::<PyTuple>() {
            for item in tuple.iter_borrowed() {
                push(&item)?;
            }
        } else {
            for item in set.cast_exact::<PyList>().ok()?.iter() {
                push(&item)?;
            }
        }
        if at != columns.len() || bytes > MOST_BYTES {
            return None;
        }
    }
    let arrays: Vec<ArrayRef> = columns.into_iter().map(Column::finish).collect();
    (!arrays.is_empty()).then_some(arrays)
}

impl Column {
    /// Adds a value; `None` if it is of another class than those before.
    fn push(&mut self, datum: Datum<'_>, rows: usize) -> Option<()> {
        if let (Column::Null(nulls), false) = (&*self, matches!(datum, Datum::Null)) {
            *self = Column::of(datum, *nulls, rows)?;
        }
        match (self, datum) {
            (Column::Null(nulls), Datum::Null) => *nulls += 1,
            (Column::Boolean(column), Datum::Null) => column.append_null(),
            (Column::Boolean(column), Datum::Boolean(value)) => column.append_value(value),
            (Column::Integer(column), Datum::Null) => column.append_null(),
            (Column::Integer(column), Datum::Integer(value)) => column.append_value(value),
            (Column::Float(column), Datum::Null) => column.append_null(),
            (Column::Float(column), Datum::Float(value)) => column.append_value(value),
            (Column::Text(column), Datum::Null) => column.append_null(),
            (Column::Text(column), Datum::Text(value)) => column.append_value(value),
            (Column::Bytes(column), Datum::Null) => column.append_null(),
            (Column::Bytes(column), Datum::Bytes(value)) => column.append_value(value),
            _ => return None,
        }
        Some(())
    }

    /// A column for values like `datum`, after so many NULLs.
    fn of(datum: Datum<'_>, nulls: usize, rows: usize) -> Option<Column> {
        macro_rules! begun {
            ($kind:ident, $builder:expr) => {{
                let mut builder = $builder;
                for _ in 0..nulls {
                    builder.append_null();
                }
                Column::$kind(builder)
            }};
        }
        Some(match datum {
            Datum::Boolean(_) => begun!(Boolean, BooleanBuilder::with_capacity(rows)),
            Datum::Integer(_) => begun!(Integer, Int64Builder::with_capacity(rows)),
            Datum::Float(_) => begun!(Float, Float64Builder::with_capacity(rows)),
            Datum::Text(_) => begun!(Text, StringBuilder::with_capacity(rows, 0)),
            Datum::Bytes(_) => begun!(Bytes, BinaryBuilder::with_capacity(rows, 0)),
            _ => return None,
        })
    }

    fn finish(self) -> ArrayRef {
        match self {
            Column::Null(nulls) => Arc::new(NullArray::new(nulls)),
            Column::Boolean(mut column) => Arc::new(column.finish()),
            Column::Integer(mut column) => Arc::new(column.finish()),
            Column::Float(mut column) => Arc::new(column.finish()),
            Column::Text(mut column) => Arc::new(column.finish()),
            Column::Bytes(mut column) => Arc::new(column.finish()),
        }
    }
}
