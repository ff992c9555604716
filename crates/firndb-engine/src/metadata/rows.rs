//! Rows of text, numbers and truth values as a relation.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Int32Array, Int64Array, ListBuilder, RecordBatch, StringViewArray,
    StringViewBuilder,
};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::catalog::TableProvider;

use crate::scan::frame_provider;
use crate::session::Frame;
use crate::{Error, Result};

/// A value of a system relation.
#[derive(Debug, Clone)]
pub(super) enum Cell {
    Null,
    Text(String),
    Number(i64),
    Truth(bool),
    Texts(Vec<String>),
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Cell::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Cell::Text(text)
    }
}

impl From<i64> for Cell {
    fn from(number: i64) -> Self {
        Cell::Number(number)
    }
}

impl From<usize> for Cell {
    fn from(number: usize) -> Self {
        i64::try_from(number).map_or(Cell::Null, Cell::Number)
    }
}

impl From<bool> for Cell {
    fn from(truth: bool) -> Self {
        Cell::Truth(truth)
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Cell::Null, Into::into)
    }
}

/// What a column holds.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Text,
    Integer,
    BigInteger,
    Truth,
    /// Lists of texts.
    Texts,
}

/// A relation under construction.
#[derive(Debug)]
pub(super) struct Rows {
    columns: Vec<(&'static str, Kind)>,
    rows: Vec<Vec<Cell>>,
}

impl Rows {
    /// No rows of these columns.
    pub(super) fn new(columns: &[(&'static str, Kind)]) -> Self {
        Rows {
            columns: columns.to_vec(),
            rows: Vec::new(),
        }
    }

    /// Adds a row, one cell for each column.
    pub(super) fn push<const N: usize>(&mut self, row: [Cell; N]) {
        debug_assert_eq!(N, self.columns.len(), "a row has a cell for each column");
        self.rows.push(row.into());
    }

    /// As a table.
    pub(super) fn into_provider(self) -> Result<Arc<dyn TableProvider>> {
        let mut fields = Vec::with_capacity(self.columns.len());
        let mut arrays = Vec::with_capacity(self.columns.len());
        for (position, (name, kind)) in self.columns.iter().enumerate() {
            let cells = self.rows.iter().map(|row| &row[position]);
            let array = column(*kind, cells)
                .ok_or_else(|| Error::internal(format!("system column \"{name}\"")))?;
            fields.push(Field::new(*name, array.data_type().clone(), true));
            arrays.push(array);
        }
        let schema = Arc::new(Schema::new(fields));
        let batch = RecordBatch::try_new(Arc::clone(&schema), arrays)?;
        frame_provider(&Frame {
            schema,
            batches: vec![batch],
        })
    }
}

/// `None` when a cell is of another kind.
fn column<'a>(kind: Kind, cells: impl Iterator<Item = &'a Cell>) -> Option<ArrayRef> {
    fn collect<'a, T>(
        cells: impl Iterator<Item = &'a Cell>,
        value: impl Fn(&'a Cell) -> Option<T>,
    ) -> Option<Vec<Option<T>>> {
        cells
            .map(|cell| match cell {
                Cell::Null => Some(None),
                other => value(other).map(Some),
            })
            .collect()
    }
    let text = |cell: &'a Cell| match cell {
        Cell::Text(text) => Some(text.as_str()),
        _ => None,
    };
    let number = |cell: &'a Cell| match cell {
        Cell::Number(number) => Some(*number),
        _ => None,
    };
    let truth = |cell: &'a Cell| match cell {
        Cell::Truth(truth) => Some(*truth),
        _ => None,
    };
    Some(match kind {
        Kind::Text => Arc::new(StringViewArray::from_iter(collect(cells, text)?)),
        Kind::BigInteger => Arc::new(Int64Array::from(collect(cells, number)?)),
        Kind::Integer => {
            let small = |cell| number(cell).and_then(|n| i32::try_from(n).ok());
            Arc::new(Int32Array::from(collect(cells, small)?))
        }
        Kind::Texts => {
            let texts = |cell: &'a Cell| match cell {
                Cell::Texts(texts) => Some(texts),
                _ => None,
            };
            let mut lists = ListBuilder::new(StringViewBuilder::new());
            for texts in collect(cells, texts)? {
                match texts {
                    Some(texts) => {
                        texts
                            .iter()
                            .for_each(|text| lists.values().append_value(text));
                        lists.append(true);
                    }
                    None => lists.append_null(),
                }
            }
            Arc::new(lists.finish())
        }
        Kind::Truth => Arc::new(BooleanArray::from(collect(cells, truth)?)),
    })
}

/// The Arrow type of decimals, whatever their width: precision and scale.
pub(super) fn decimal(data_type: &DataType) -> Option<(u8, i8)> {
    match data_type {
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => Some((*precision, *scale)),
        _ => None,
    }
}
