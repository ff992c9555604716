//! Results as text, in one of several forms.
//!
//! | module | form |
//! | --- | --- |
//! | [`table`] | boxes, numbers to the right, cut to what fits a screen |
//! | [`csv`] | RFC 4180 |
//! | [`json`] | an array of objects, or an object a line |
//! | [`markdown`] | a table for documents |
//! | [`line`] | a value a line |

mod csv;
mod json;
mod line;
mod markdown;
mod table;

use std::io::Write;

use firndb::arrow::array::RecordBatch;
use firndb::arrow::datatypes::{DataType, Schema, SchemaRef};
use firndb::text::Column;

use crate::failure::Failure;

/// The form of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Table,
    Csv,
    Json,
    JsonLines,
    Markdown,
    Line,
}

impl Mode {
    /// Every mode with its name.
    pub(crate) const ALL: [(&'static str, Mode); 6] = [
        ("table", Mode::Table),
        ("csv", Mode::Csv),
        ("json", Mode::Json),
        ("jsonl", Mode::JsonLines),
        ("markdown", Mode::Markdown),
        ("line", Mode::Line),
    ];

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        Mode::ALL
            .iter()
            .find(|(_, mode)| *mode == self)
            .map_or("table", |(name, _)| name)
    }

    /// The mode of a name.
    pub(crate) fn named(name: &str) -> Option<Mode> {
        Mode::ALL
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, mode)| *mode)
    }
}

/// How results are to look.
#[derive(Debug, Clone)]
pub(crate) struct Style {
    pub mode: Mode,
    /// Whether column names are shown (table, csv).
    pub headers: bool,
    /// What stands for NULL; `None`: what the mode has by itself.
    pub null: Option<String>,
    /// Most rows of a table; `None`: all of them.
    pub max_rows: Option<usize>,
    /// Most characters of a table's line; `None`: as many as it needs.
    pub width: Option<usize>,
}

impl Style {
    fn null_or<'a>(&'a self, own: &'a str) -> &'a str {
        self.null.as_deref().unwrap_or(own)
    }
}

/// Writes a result. Rows are written as they come, but for tables, whose columns' widths depend on every row.
pub(crate) fn render(
    schema: &SchemaRef,
    batches: impl Iterator<Item = firndb::Result<RecordBatch>>,
    style: &Style,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let mut renderer: Box<dyn Renderer> = match style.mode {
        Mode::Table => Box::new(table::Table::new(schema, style)),
        Mode::Csv => Box::new(csv::Csv::new(style)),
        Mode::Json => Box::new(json::Json::array()),
        Mode::JsonLines => Box::new(json::Json::lines()),
        Mode::Markdown => Box::new(markdown::Markdown::new(style)),
        Mode::Line => Box::new(line::Line::new(style)),
    };
    let mut batches = batches.peekable();
    // A query that fails before its first row prints nothing.
    if let Some(Err(error)) = batches.next_if(Result::is_err) {
        return Err(error.into());
    }
    renderer.begin(schema, out)?;
    for batch in batches {
        renderer.batch(&batch?, out)?;
    }
    renderer.finish(out)
}

/// Writes one result: the beginning, batches of rows, the end.
trait Renderer {
    fn begin(&mut self, schema: &Schema, out: &mut dyn Write) -> Result<(), Failure>;
    fn batch(&mut self, batch: &RecordBatch, out: &mut dyn Write) -> Result<(), Failure>;
    fn finish(&mut self, out: &mut dyn Write) -> Result<(), Failure>;
}

/// The columns of a batch, ready to be written.
fn columns(batch: &RecordBatch) -> Result<Vec<Column>, Failure> {
    let schema = batch.schema_ref();
    let columns = schema.fields().iter().zip(batch.columns());
    Ok(columns
        .map(|(field, values)| Column::new(field, values))
        .collect::<firndb::Result<_>>()?)
}

/// Whether values of a type are aligned to the right.
fn is_number(data_type: &DataType) -> bool {
    data_type.is_numeric()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use firndb::arrow::array::{ArrayRef, Int32Array, StringArray};

    use super::*;

    /// The style of a mode as a script has it.
    pub(super) fn plain(mode: Mode) -> Style {
        Style {
            mode,
            headers: true,
            null: None,
            max_rows: None,
            width: None,
        }
    }

    /// A result of a number and a text.
    pub(super) fn people(rows: &[(Option<i32>, Option<&str>)]) -> RecordBatch {
        let ids: Int32Array = rows.iter().map(|(id, _)| *id).collect();
        let names: StringArray = rows.iter().map(|(_, name)| *name).collect();
        batch(vec![("id", Arc::new(ids)), ("name", Arc::new(names))])
    }

    pub(super) fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
        RecordBatch::try_from_iter_with_nullable(
            columns.into_iter().map(|(name, array)| (name, array, true)),
        )
        .unwrap()
    }

    pub(super) fn rendered(batch: RecordBatch, style: &Style) -> String {
        let mut out = Vec::new();
        let schema = batch.schema();
        render(&schema, [Ok(batch)].into_iter(), style, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_mode_is_found_by_its_name() {
        for (name, mode) in Mode::ALL {
            assert_eq!(Mode::named(&name.to_uppercase()), Some(mode));
            assert_eq!(mode.name(), name);
        }
        assert_eq!(Mode::named("chart"), None);
    }
}
