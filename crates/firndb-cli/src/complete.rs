//! What the line editor knows of SQL: when Enter ends the input, and how a word goes on.

use std::cell::RefCell;
use std::sync::Arc;

use firndb::Session;
use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper};

use crate::commands::{self, COMMANDS};
use crate::keywords;
use crate::render::Mode;
use crate::schema::quote_identifier;
use crate::shell::ask;
use crate::split::Splitter;

/// Completion and validation over a session.
pub(crate) struct Assistant {
    session: Arc<Session>,
    files: FilenameCompleter,
    names: RefCell<Names>,
}

/// Tables and their columns as they were when last asked for.
#[derive(Debug, Default)]
struct Names {
    /// Relation and column, one a pair.
    columns: Vec<(String, String)>,
}

impl Assistant {
    /// An assistant for a session.
    pub(crate) fn new(session: Arc<Session>) -> Self {
        Assistant {
            session,
            files: FilenameCompleter::new(),
            names: RefCell::default(),
        }
    }

    /// Reads the names anew. A failing question would fail the user's transaction, so inside one another session asks.
    fn refresh(&self) {
        const COLUMNS: &str = "SELECT table_name, column_name FROM information_schema.columns \
             WHERE table_schema NOT IN ('information_schema', 'pg_catalog') ORDER BY 1, ordinal_position";
        let rows = if self.session.in_transaction() {
            self.session
                .duplicate()
                .map_err(Into::into)
                .and_then(|other| ask(&other, COLUMNS, Vec::new()))
        } else {
            ask(&self.session, COLUMNS, Vec::new())
        };
        // Without an answer the names known so far are offered.
        if let Ok(rows) = rows {
            self.names.borrow_mut().columns = rows
                .into_iter()
                .filter_map(|row| <[String; 2]>::try_from(row).ok())
                .map(|[table, column]| (table, column))
                .collect();
        }
    }

    fn command_words(&self, line: &str, start: usize, word: &str) -> Vec<String> {
        let command = line[..start].trim();
        match command {
            "" => COMMANDS
                .iter()
                .map(|command| command.name.to_string())
                .filter(|name| name.starts_with(word))
                .collect(),
            ".mode" => starting(Mode::ALL.iter().map(|(name, _)| (*name).to_string()), word),
            ".timer" | ".headers" => starting(["on", "off"].map(String::from).into_iter(), word),
            ".help" => starting(
                COMMANDS
                    .iter()
                    .map(|command| command.name.trim_start_matches('.').to_string()),
                word,
            ),
            ".schema" | ".tables" => {
                self.refresh();
                self.names.borrow().tables(word)
            }
            _ => Vec::new(),
        }
    }
}

impl Names {
    fn tables(&self, prefix: &str) -> Vec<String> {
        let mut tables: Vec<String> = self
            .columns
            .iter()
            .map(|(table, _)| table.clone())
            .collect();
        tables.dedup();
        starting(tables.into_iter(), prefix)
    }

    fn columns(&self, table: Option<&str>, prefix: &str) -> Vec<String> {
        let of_table = self
            .columns
            .iter()
            .filter(|(of, _)| table.is_none_or(|table| of.eq_ignore_ascii_case(table)))
            .map(|(_, column)| column.clone());
        let mut columns = starting(of_table, prefix);
        columns.sort();
        columns.dedup();
        columns
    }
}

/// The names that begin with a prefix, without regard to case, quoted where needed.
fn starting(names: impl Iterator<Item = String>, prefix: &str) -> Vec<String> {
    let prefix = prefix.to_lowercase();
    names
        .filter(|name| name.to_lowercase().starts_with(&prefix))
        .map(|name| quote_identifier(&name))
        .collect()
}

/// Where the word before the cursor begins.
fn word_start(line: &str) -> usize {
    line.rfind(|c: char| !(c.is_alphanumeric() || c == '_'))
        .map_or(0, |before| {
            before + line[before..].chars().next().map_or(0, char::len_utf8)
        })
}

/// SQL words in the case that the prefix was typed in.
fn sql_words(prefix: &str) -> Vec<String> {
    let upper = prefix.chars().any(|c| c.is_ascii_uppercase())
        && !prefix.chars().any(|c| c.is_ascii_lowercase());
    keywords::beginning_with(prefix)
        .map(|word| {
            if upper {
                word.to_ascii_uppercase()
            } else {
                word.to_string()
            }
        })
        .collect()
}

impl Completer for Assistant {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        cursor: usize,
        context: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let line = &line[..cursor];
        if commands::is_command(line) || line.trim() == "." {
            let command = line.split_whitespace().next().unwrap_or("");
            let in_arguments = line.trim_start().contains(char::is_whitespace);
            if in_arguments && matches!(command, ".read" | ".output" | ".import") {
                return self.files.complete(line, cursor, context);
            }
            let start = line.rfind(char::is_whitespace).map_or(0, |blank| blank + 1);
            let words = self.command_words(line, start, &line[start..]);
            return Ok((start, pairs(words)));
        }
        let start = word_start(line);
        let prefix = &line[start..];
        self.refresh();
        let names = self.names.borrow();
        // Behind `table.` only that table's columns make sense; behind an alias every column might.
        let words = match line[..start].strip_suffix('.') {
            Some(before) => {
                let table = &before[word_start(before)..];
                let columns = names.columns(Some(table), prefix);
                if columns.is_empty() {
                    names.columns(None, prefix)
                } else {
                    columns
                }
            }
            None => {
                let mut words = names.tables(prefix);
                if !prefix.is_empty() {
                    words.extend(names.columns(None, prefix));
                    words.extend(sql_words(prefix));
                }
                words
            }
        };
        Ok((start, pairs(words)))
    }
}

fn pairs(words: Vec<String>) -> Vec<Pair> {
    let mut seen = std::collections::HashSet::new();
    words
        .into_iter()
        .filter(|word| seen.insert(word.clone()))
        .map(|word| Pair {
            display: word.clone(),
            replacement: word,
        })
        .collect()
}

impl Validator for Assistant {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(if is_complete(context.input()) {
            ValidationResult::Valid(None)
        } else {
            ValidationResult::Incomplete
        })
    }
}

/// Whether Enter ends the input: it is a command, or no statement in it is open.
fn is_complete(input: &str) -> bool {
    if commands::is_command(input) {
        return true;
    }
    let mut splitter = Splitter::new();
    splitter.push(input);
    splitter.push("\n");
    while splitter.next_statement().is_some() {}
    !splitter.pending()
}

impl Hinter for Assistant {
    type Hint = String;
}
impl Highlighter for Assistant {}
impl Helper for Assistant {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enter_ends_commands_and_complete_statements() {
        assert!(is_complete(".tables"));
        assert!(is_complete("select 1;"));
        assert!(is_complete("select 1; -- done"));
        assert!(is_complete("  "));
        assert!(!is_complete("select 1"));
        assert!(!is_complete("select ';"));
        assert!(!is_complete("select 1; select"));
    }

    #[test]
    fn words_begin_behind_punctuation() {
        assert_eq!(word_start("select a.b"), 9);
        assert_eq!(word_start("sel"), 0);
        assert_eq!(word_start("select größ"), 7);
        assert_eq!(word_start("f(雪, "), 7);
    }

    #[test]
    fn keywords_follow_the_case_that_was_typed() {
        assert_eq!(sql_words("SEL"), ["SELECT"]);
        assert_eq!(sql_words("sel"), ["select"]);
        assert_eq!(sql_words("Sel"), ["select"]);
    }

    #[test]
    fn names_are_found_without_regard_to_case_and_quoted() {
        let names = Names {
            columns: vec![
                ("Flights".into(), "carrier".into()),
                ("Flights".into(), "Car Type".into()),
                ("planes".into(), "carrier".into()),
            ],
        };
        assert_eq!(names.tables("fl"), ["Flights"]);
        assert_eq!(names.columns(None, "CAR"), ["\"Car Type\"", "carrier"]);
        assert_eq!(names.columns(Some("PLANES"), ""), ["carrier"]);
    }
}
