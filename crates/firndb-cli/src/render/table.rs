//! Boxes:
//!
//! ```text
//! ┌────┬──────┐
//! │ id │ name │
//! ├────┼──────┤
//! │  1 │ a    │
//! └────┴──────┘
//! (1 row)
//! ```
//!
//! A result longer than `max_rows` shows its first and its last rows; those between are counted, not kept. A table wider than the
//! screen first shortens its widest values, then leaves columns out of its middle.

use std::collections::VecDeque;
use std::io::Write;

use firndb::arrow::array::RecordBatch;
use firndb::arrow::datatypes::{Schema, SchemaRef};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::{Renderer, Style, columns, is_number};
use crate::failure::Failure;
use crate::progress::grouped;

/// Values are never cut shorter than this to make a table fit.
const NARROWEST: usize = 8;
const ELLIPSIS: char = '…';

pub(super) struct Table {
    headers: bool,
    null: String,
    max_rows: Option<usize>,
    width: Option<usize>,
    names: Vec<String>,
    right: Vec<bool>,
    /// The first rows, at most half of `max_rows`.
    head: Vec<Vec<String>>,
    /// The last rows behind those, at most the other half.
    tail: VecDeque<Vec<String>>,
    count: usize,
}

impl Table {
    pub(super) fn new(schema: &SchemaRef, style: &Style) -> Self {
        let fields = schema.fields();
        Table {
            headers: style.headers,
            null: style.null_or("NULL").to_string(),
            max_rows: style.max_rows,
            width: style.width,
            names: fields.iter().map(|field| printable(field.name())).collect(),
            right: fields
                .iter()
                .map(|field| is_number(field.data_type()))
                .collect(),
            head: Vec::new(),
            tail: VecDeque::new(),
            count: 0,
        }
    }

    /// The most rows that head and tail keep.
    fn capacity(&self) -> (usize, usize) {
        match self.max_rows {
            None => (usize::MAX, 0),
            Some(rows) => (rows.div_ceil(2), rows / 2),
        }
    }
}

impl Renderer for Table {
    fn begin(&mut self, _schema: &Schema, _out: &mut dyn Write) -> Result<(), Failure> {
        Ok(())
    }

    fn batch(&mut self, batch: &RecordBatch, _out: &mut dyn Write) -> Result<(), Failure> {
        let (head, tail) = self.capacity();
        let columns = columns(batch)?;
        let rows = batch.num_rows();
        let cells = |row: usize| -> Vec<String> {
            columns
                .iter()
                .map(|column| match column.text(row) {
                    Some(text) => printable(text),
                    None => self.null.clone(),
                })
                .collect()
        };
        let first = rows.min(head - self.head.len().min(head));
        let kept: Vec<_> = (0..first).map(&cells).collect();
        // Only a batch's last rows can be among the result's last.
        let last: Vec<_> = (first.max(rows.saturating_sub(tail))..rows)
            .map(&cells)
            .collect();
        self.head.extend(kept);
        self.tail.extend(last);
        self.tail.drain(..self.tail.len().saturating_sub(tail));
        self.count += rows;
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn Write) -> Result<(), Failure> {
        let shown = self.head.len() + self.tail.len();
        if self.names.is_empty() {
            return Ok(writeln!(out, "{}", footer(self.count, self.count))?);
        }
        let widths: Vec<usize> = (0..self.names.len())
            .map(|column| {
                let rows = self.head.iter().chain(&self.tail);
                let widest = rows.map(|row| row[column].width()).max().unwrap_or(0);
                let name = if self.headers {
                    self.names[column].width()
                } else {
                    0
                };
                widest.max(name).max(1)
            })
            .collect();
        let layout = Layout::fit(&widths, &self.right, self.width);
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        layout.rule(['┌', '┬', '┐'], out)?;
        if self.headers {
            layout.row(&names, out)?;
            layout.rule(['├', '┼', '┤'], out)?;
        }
        for row in &self.head {
            layout.row(&row.iter().map(String::as_str).collect::<Vec<_>>(), out)?;
        }
        if shown < self.count {
            layout.row(&vec!["·"; self.names.len()], out)?;
        }
        for row in &self.tail {
            layout.row(&row.iter().map(String::as_str).collect::<Vec<_>>(), out)?;
        }
        layout.rule(['└', '┴', '┘'], out)?;
        writeln!(out, "{}", footer(self.count, shown))?;
        if layout.left_out > 0 {
            writeln!(out, "({} columns not shown)", layout.left_out)?;
        }
        Ok(())
    }
}

fn footer(count: usize, shown: usize) -> String {
    let rows = if count == 1 { "row" } else { "rows" };
    if shown < count {
        format!(
            "({} {rows}, {} shown)",
            grouped(count as u64),
            grouped(shown as u64)
        )
    } else {
        format!("({} {rows})", grouped(count as u64))
    }
}

/// Which columns are shown, and how wide.
struct Layout {
    /// Column position, or `None` for the one that stands for those left out; width; whether aligned to the right.
    columns: Vec<(Option<usize>, usize, bool)>,
    left_out: usize,
}

impl Layout {
    fn fit(widths: &[usize], right: &[bool], available: Option<usize>) -> Layout {
        let all = |widths: &[usize]| {
            widths
                .iter()
                .zip(right)
                .enumerate()
                .map(|(column, (&width, &right))| (Some(column), width, right))
                .collect::<Vec<_>>()
        };
        let Some(available) = available else {
            return Layout {
                columns: all(widths),
                left_out: 0,
            };
        };
        // Each column has a border and two blanks beside its values, the table one border more.
        let total = |widths: &[usize]| widths.iter().map(|width| width + 3).sum::<usize>() + 1;
        if total(widths) <= available {
            return Layout {
                columns: all(widths),
                left_out: 0,
            };
        }
        let capped = |cap: usize| {
            widths
                .iter()
                .map(|&width| width.min(cap))
                .collect::<Vec<_>>()
        };
        let widest = widths.iter().copied().max().unwrap_or(0);
        // The total grows with the cap: search the largest that fits.
        let (mut low, mut high) = (NARROWEST, widest.max(NARROWEST));
        while low < high {
            let middle = low.midpoint(high + 1);
            if total(&capped(middle)) <= available {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        let widths = capped(low);
        let mut columns = all(&widths);
        let mut left_out = 0;
        let line = |columns: &[(Option<usize>, usize, bool)]| {
            columns.iter().map(|(_, width, _)| width + 3).sum::<usize>() + 1
        };
        while line(&columns) > available && widths.len() - left_out > 2 {
            // The column that marks the gap stays in the middle.
            columns.retain(|(column, _, _)| column.is_some());
            columns.remove(columns.len() / 2);
            left_out += 1;
            columns.insert(columns.len().div_ceil(2), (None, 1, false));
        }
        Layout { columns, left_out }
    }

    fn rule(&self, [left, middle, right]: [char; 3], out: &mut dyn Write) -> Result<(), Failure> {
        let mut line = String::from(left);
        for (position, (_, width, _)) in self.columns.iter().enumerate() {
            if position > 0 {
                line.push(middle);
            }
            line.push_str(&"─".repeat(width + 2));
        }
        line.push(right);
        Ok(writeln!(out, "{line}")?)
    }

    fn row(&self, cells: &[&str], out: &mut dyn Write) -> Result<(), Failure> {
        let mut line = String::from("│");
        for &(column, width, right) in &self.columns {
            let cell =
                column.map_or_else(|| ELLIPSIS.to_string(), |column| cut(cells[column], width));
            let blank = " ".repeat(width.saturating_sub(cell.width()));
            if right {
                line.extend([" ", &blank, &cell, " │"]);
            } else {
                line.extend([" ", &cell, &blank, " │"]);
            }
        }
        Ok(writeln!(out, "{line}")?)
    }
}

/// Shortens a text to a width, with an ellipsis at its end.
fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_string();
    }
    let mut used = 1;
    let mut shortened: String = text
        .chars()
        .take_while(|c| {
            used += c.width().unwrap_or(0);
            used <= width
        })
        .collect();
    shortened.push(ELLIPSIS);
    shortened
}

/// A text on one line: line breaks and other control characters, which could move the cursor, are escaped.
fn printable(text: &str) -> String {
    if !text.contains(char::is_control) {
        return text.to_string();
    }
    text.chars()
        .flat_map(|c| {
            let escaped = c.is_control();
            let plain = (!escaped).then_some(c);
            let escape = escaped.then(|| c.escape_default());
            plain.into_iter().chain(escape.into_iter().flatten())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use firndb::arrow::array::{Int32Array, StringArray};

    use super::super::tests::{batch, people, plain, rendered};
    use super::super::{Mode, render};

    #[test]
    fn numbers_are_aligned_to_the_right_and_null_is_shown() {
        let rows = people(&[(Some(1), Some("a")), (Some(1000), None)]);
        assert_eq!(
            rendered(rows, &plain(Mode::Table)),
            "┌──────┬──────┐\n\
             │   id │ name │\n\
             ├──────┼──────┤\n\
             │    1 │ a    │\n\
             │ 1000 │ NULL │\n\
             └──────┴──────┘\n\
             (2 rows)\n"
        );
    }

    #[test]
    fn no_rows_show_the_names() {
        assert_eq!(
            rendered(people(&[]), &plain(Mode::Table)),
            "┌────┬──────┐\n│ id │ name │\n├────┼──────┤\n└────┴──────┘\n(0 rows)\n"
        );
    }

    #[test]
    fn wide_characters_take_two_cells() {
        let rows = people(&[(Some(1), Some("雪")), (Some(2), Some("snow"))]);
        let text = rendered(rows, &plain(Mode::Table));
        assert!(text.contains("│  1 │ 雪   │\n"), "{text}");
    }

    #[test]
    fn control_characters_are_escaped() {
        let rows = people(&[(Some(1), Some("a\nb\u{1b}[2J"))]);
        let text = rendered(rows, &plain(Mode::Table));
        assert!(text.contains(r"a\nb\u{1b}[2J"), "{text}");
    }

    #[test]
    fn long_results_show_their_ends_and_the_count() {
        let mut style = plain(Mode::Table);
        style.max_rows = Some(4);
        let schema = people(&[]).schema();
        let batches = (0..10).map(|batch| {
            let rows: Vec<_> = (0..3).map(|row| (Some(batch * 3 + row), None)).collect();
            Ok(people(&rows))
        });
        let mut out = Vec::new();
        render(&schema, batches, &style, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let ids: Vec<&str> = text
            .lines()
            .skip(3)
            .take(5)
            .map(|line| line.split('│').nth(1).unwrap().trim())
            .collect();
        assert_eq!(ids, ["0", "1", "·", "28", "29"]);
        assert!(text.ends_with("(30 rows, 4 shown)\n"), "{text}");
    }

    #[test]
    fn a_result_that_just_fits_is_not_cut() {
        let mut style = plain(Mode::Table);
        style.max_rows = Some(3);
        let rows = people(&[(Some(1), None), (Some(2), None), (Some(3), None)]);
        let text = rendered(rows, &style);
        assert!(text.ends_with("(3 rows)\n"), "{text}");
        assert!(!text.contains('·'));
    }

    #[test]
    fn wide_values_are_shortened_to_the_screen() {
        let mut style = plain(Mode::Table);
        style.width = Some(30);
        let text = rendered(people(&[(Some(1), Some(&"x".repeat(100)))]), &style);
        assert!(
            text.lines().all(|line| line.chars().count() <= 30),
            "{text}"
        );
        assert!(text.contains("xxx…"), "{text}");
    }

    #[test]
    fn columns_that_do_not_fit_are_left_out_of_the_middle() {
        let mut style = plain(Mode::Table);
        style.width = Some(40);
        let columns = (0..12)
            .map(|n| {
                let array: Arc<StringArray> =
                    Arc::new(StringArray::from(vec![format!("value {n}")]));
                (
                    ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"][n],
                    array as _,
                )
            })
            .collect();
        let text = rendered(batch(columns), &style);
        assert!(
            text.lines().all(|line| line.chars().count() <= 40),
            "{text}"
        );
        assert!(text.contains("│ a "), "{text}");
        assert!(text.contains("│ l "), "{text}");
        assert!(text.contains("columns not shown)"), "{text}");
    }

    #[test]
    fn headers_can_be_turned_off() {
        let mut style = plain(Mode::Table);
        style.headers = false;
        let rows = batch(vec![("n", Arc::new(Int32Array::from(vec![1])))]);
        assert_eq!(rendered(rows, &style), "┌───┐\n│ 1 │\n└───┘\n(1 row)\n");
    }
}
