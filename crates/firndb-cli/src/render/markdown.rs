//! A Markdown table, columns as wide as their widest value. Pipes are escaped, line breaks become `<br>`.

use std::io::Write;

use firndb::arrow::array::RecordBatch;
use firndb::arrow::datatypes::Schema;
use unicode_width::UnicodeWidthStr;

use super::{Renderer, Style, columns, is_number};
use crate::failure::Failure;

/// Keeps all rows until the end: the widths depend on them.
pub(super) struct Markdown {
    null: String,
    right: Vec<bool>,
    widths: Vec<usize>,
    rows: Vec<Vec<String>>,
}

impl Markdown {
    pub(super) fn new(style: &Style) -> Self {
        Markdown {
            null: style.null_or("NULL").to_string(),
            right: Vec::new(),
            widths: Vec::new(),
            rows: Vec::new(),
        }
    }

    fn add(&mut self, cells: Vec<String>) {
        for (width, cell) in self.widths.iter_mut().zip(&cells) {
            *width = (*width).max(cell.width());
        }
        self.rows.push(cells);
    }
}

impl Renderer for Markdown {
    fn begin(&mut self, schema: &Schema, _out: &mut dyn Write) -> Result<(), Failure> {
        // The rule below the names needs three characters.
        self.widths = vec![3; schema.fields().len()];
        self.right = schema
            .fields()
            .iter()
            .map(|field| is_number(field.data_type()))
            .collect();
        self.add(
            schema
                .fields()
                .iter()
                .map(|field| escape(field.name()))
                .collect(),
        );
        Ok(())
    }

    fn batch(&mut self, batch: &RecordBatch, _out: &mut dyn Write) -> Result<(), Failure> {
        let columns = columns(batch)?;
        for row in 0..batch.num_rows() {
            let cells = columns
                .iter()
                .map(|column| match column.text(row) {
                    Some(text) => escape(text),
                    None => self.null.clone(),
                })
                .collect();
            self.add(cells);
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn Write) -> Result<(), Failure> {
        for (number, cells) in self.rows.iter().enumerate() {
            for ((cell, &width), &right) in cells.iter().zip(&self.widths).zip(&self.right) {
                let blank = width - cell.width();
                if right {
                    write!(out, "| {:blank$}{cell} ", "")?;
                } else {
                    write!(out, "| {cell}{:blank$} ", "")?;
                }
            }
            writeln!(out, "|")?;
            if number == 0 {
                for (&width, &right) in self.widths.iter().zip(&self.right) {
                    let colon = if right { ":" } else { "-" };
                    write!(out, "| {}{colon} ", "-".repeat(width - 1))?;
                }
                writeln!(out, "|")?;
            }
        }
        Ok(())
    }
}

fn escape(text: &str) -> String {
    text.replace('|', "\\|")
        .replace("\r\n", "<br>")
        .replace(['\n', '\r'], "<br>")
}

#[cfg(test)]
mod tests {
    use super::super::Mode;
    use super::super::tests::{people, plain, rendered};

    #[test]
    fn numbers_are_aligned_to_the_right() {
        let rows = people(&[(Some(1), Some("a")), (Some(1000), None)]);
        assert_eq!(
            rendered(rows, &plain(Mode::Markdown)),
            "|   id | name |\n| ---: | ---- |\n|    1 | a    |\n| 1000 | NULL |\n"
        );
    }

    #[test]
    fn pipes_and_line_breaks_do_not_break_the_table() {
        let rows = people(&[(Some(1), Some("a|b\nc"))]);
        let text = rendered(rows, &plain(Mode::Markdown));
        assert_eq!(text.lines().last(), Some("|   1 | a\\|b<br>c |"));
    }
}
