//! Errors as psql shows them: message with SQLSTATE, the line with a caret at the position, detail and hint.

use std::fmt::Write;

use firndb::Error;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::split::Statement;

/// The widest part of a line that is shown around a position.
const WINDOW: usize = 72;

/// The lines to print for an error of a statement, without a line break at the end.
pub(crate) fn report(error: &Error, statement: &Statement) -> String {
    let mut out = format!("ERROR: {} ({})", error.message, error.state.code());
    if let Some(position) = error.position {
        point_at(statement, position, &mut out);
    }
    if let Some(detail) = &error.detail {
        let _ = write!(out, "\nDETAIL: {detail}");
    }
    if let Some(hint) = &error.hint {
        let _ = write!(out, "\nHINT: {hint}");
    }
    out
}

/// Adds the line that holds a position (in characters) and a caret below it.
fn point_at(statement: &Statement, position: usize, out: &mut String) {
    let before: String = statement.text.chars().take(position).collect();
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let number = statement.line + before.matches('\n').count();
    let line = statement.text[line_start..].lines().next().unwrap_or("");
    let column = before[line_start..].chars().count();
    let (shown, column) = window(line, column);
    let label = format!("LINE {number}: ");
    let indent: usize = label.width()
        + shown
            .chars()
            .take(column)
            .map(|c| c.width().unwrap_or(0))
            .sum::<usize>();
    let _ = write!(out, "\n{label}{shown}\n{:indent$}^", "");
}

/// Cuts a long line around a column; gives the column in what is left. Control characters become blanks.
fn window(line: &str, column: usize) -> (String, usize) {
    let line: Vec<char> = line
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if line.len() <= WINDOW {
        return (line.into_iter().collect(), column);
    }
    let start = column
        .saturating_sub(WINDOW / 2)
        .min(line.len().saturating_sub(WINDOW));
    let end = (start + WINDOW).min(line.len());
    let mut shown = String::new();
    let mut column = column - start;
    if start > 0 {
        shown.push_str("...");
        column += 3;
    }
    shown.extend(&line[start..end]);
    if end < line.len() {
        shown.push_str("...");
    }
    (shown, column)
}

#[cfg(test)]
mod tests {
    use firndb::SqlState;

    use super::*;

    fn statement(text: &str, line: usize) -> Statement {
        Statement {
            text: text.into(),
            line,
        }
    }

    fn undefined(position: usize) -> Error {
        let mut error = Error::new(SqlState::UndefinedColumn, "column \"y\" does not exist");
        error.position = Some(position);
        error
    }

    #[test]
    fn the_caret_stands_below_the_position() {
        let text = report(&undefined(7), &statement("select y from t", 1));
        assert_eq!(
            text,
            "ERROR: column \"y\" does not exist (42703)\nLINE 1: select y from t\n               ^"
        );
    }

    #[test]
    fn lines_are_counted_from_where_the_statement_begins() {
        let text = report(&undefined(12), &statement("select\n  1, y", 4));
        assert_eq!(
            text.lines().skip(1).collect::<Vec<_>>(),
            ["LINE 5:   1, y", "             ^"]
        );
    }

    #[test]
    fn wide_characters_move_the_caret() {
        let text = report(&undefined(12), &statement("select '雪', y", 1));
        assert_eq!(text.lines().last(), Some("                     ^"));
    }

    #[test]
    fn long_lines_are_cut_around_the_position() {
        let long = format!("select {}y{}", " ".repeat(500), " ".repeat(500));
        let text = report(&undefined(507), &statement(&long, 1));
        let lines: Vec<&str> = text.lines().collect();
        let caret = lines[2].find('^').unwrap();
        assert_eq!(&lines[1][caret..=caret], "y");
        assert!(lines[1].len() < 100);
    }

    #[test]
    fn a_position_past_the_end_points_behind_the_text() {
        let text = report(&undefined(99), &statement("select", 1));
        assert_eq!(text.lines().last(), Some("              ^"));
    }

    #[test]
    fn detail_and_hint_follow() {
        let error = Error::new(SqlState::UniqueViolation, "duplicate key")
            .with_detail("Key (id)=(1) already exists.")
            .with_hint("Use ON CONFLICT.");
        assert_eq!(
            report(&error, &statement("insert", 1)),
            "ERROR: duplicate key (23505)\nDETAIL: Key (id)=(1) already exists.\nHINT: Use ON CONFLICT."
        );
    }
}
