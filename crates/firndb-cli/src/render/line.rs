//! A value a line, `name = value`, and a blank line between rows.

use std::io::Write;

use firndb::arrow::array::RecordBatch;
use firndb::arrow::datatypes::Schema;
use unicode_width::UnicodeWidthStr;

use super::{Renderer, Style, columns};
use crate::failure::Failure;

pub(super) struct Line {
    null: String,
    names: Vec<String>,
    width: usize,
    first: bool,
}

impl Line {
    pub(super) fn new(style: &Style) -> Self {
        Line {
            null: style.null_or("NULL").to_string(),
            names: Vec::new(),
            width: 0,
            first: true,
        }
    }
}

impl Renderer for Line {
    fn begin(&mut self, schema: &Schema, _out: &mut dyn Write) -> Result<(), Failure> {
        self.names = schema
            .fields()
            .iter()
            .map(|field| field.name().clone())
            .collect();
        self.width = self
            .names
            .iter()
            .map(|name| name.width())
            .max()
            .unwrap_or(0);
        Ok(())
    }

    fn batch(&mut self, batch: &RecordBatch, out: &mut dyn Write) -> Result<(), Failure> {
        let columns = columns(batch)?;
        for row in 0..batch.num_rows() {
            if !std::mem::take(&mut self.first) {
                writeln!(out)?;
            }
            for (name, column) in self.names.iter().zip(&columns) {
                let text = column.text(row).unwrap_or(&self.null);
                let blank = self.width - name.width();
                writeln!(out, "{:blank$}{name} = {text}", "")?;
            }
        }
        Ok(())
    }

    fn finish(&mut self, _out: &mut dyn Write) -> Result<(), Failure> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Mode;
    use super::super::tests::{people, plain, rendered};

    #[test]
    fn names_are_aligned_and_rows_apart() {
        let rows = people(&[(Some(1), Some("a")), (Some(2), None)]);
        assert_eq!(
            rendered(rows, &plain(Mode::Line)),
            "  id = 1\nname = a\n\n  id = 2\nname = NULL\n"
        );
    }
}
