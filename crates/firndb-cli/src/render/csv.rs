//! Comma-separated values (RFC 4180): fields are quoted where they must be. NULL is empty and an empty text is `""`, so that the
//! two can be told apart when the file is read back.

use std::io::Write;

use firndb::arrow::array::RecordBatch;
use firndb::arrow::datatypes::Schema;

use super::{Renderer, Style, columns};
use crate::failure::Failure;

pub(super) struct Csv {
    headers: bool,
    null: String,
    line: String,
    text: String,
}

impl Csv {
    pub(super) fn new(style: &Style) -> Self {
        Csv {
            headers: style.headers,
            null: style.null_or("").to_string(),
            line: String::new(),
            text: String::new(),
        }
    }

    fn field(&mut self, position: usize) {
        if position > 0 {
            self.line.push(',');
        }
        // A text that looks like the NULL marker is quoted as well.
        let quoted = self.text.is_empty()
            || self.text == self.null
            || self.text.contains([',', '"', '\n', '\r']);
        if quoted {
            self.line.push('"');
            self.line.push_str(&self.text.replace('"', "\"\""));
            self.line.push('"');
        } else {
            self.line.push_str(&self.text);
        }
    }

    fn end_line(&mut self, out: &mut dyn Write) -> Result<(), Failure> {
        self.line.push('\n');
        out.write_all(self.line.as_bytes())?;
        self.line.clear();
        Ok(())
    }
}

impl Renderer for Csv {
    fn begin(&mut self, schema: &Schema, out: &mut dyn Write) -> Result<(), Failure> {
        if !self.headers {
            return Ok(());
        }
        for (position, field) in schema.fields().iter().enumerate() {
            self.text.clone_from(field.name());
            self.field(position);
        }
        self.end_line(out)
    }

    fn batch(&mut self, batch: &RecordBatch, out: &mut dyn Write) -> Result<(), Failure> {
        let columns = columns(batch)?;
        for row in 0..batch.num_rows() {
            for (position, column) in columns.iter().enumerate() {
                match column.text(row) {
                    Some(text) => {
                        self.text.clear();
                        self.text.push_str(text);
                        self.field(position);
                    }
                    None => {
                        if position > 0 {
                            self.line.push(',');
                        }
                        self.line.push_str(&self.null);
                    }
                }
            }
            self.end_line(out)?;
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
    fn fields_are_quoted_where_they_must_be() {
        let rows = people(&[
            (Some(1), Some("plain")),
            (Some(2), Some("a, \"b\"")),
            (Some(3), Some("two\nlines")),
        ]);
        assert_eq!(
            rendered(rows, &plain(Mode::Csv)),
            "id,name\n1,plain\n2,\"a, \"\"b\"\"\"\n3,\"two\nlines\"\n"
        );
    }

    #[test]
    fn null_and_the_empty_text_differ() {
        let rows = people(&[(None, Some("")), (Some(1), None)]);
        assert_eq!(rendered(rows, &plain(Mode::Csv)), "id,name\n,\"\"\n1,\n");
    }

    #[test]
    fn a_text_like_the_null_marker_is_quoted() {
        let mut style = plain(Mode::Csv);
        style.null = Some("NULL".into());
        style.headers = false;
        let rows = people(&[(Some(1), Some("NULL")), (Some(2), None)]);
        assert_eq!(rendered(rows, &style), "1,\"NULL\"\n2,NULL\n");
    }
}
