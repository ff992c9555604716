//! Dot commands: what the shell does beside SQL. A command is one line that begins with a dot.

use std::path::Path;

use firndb::{Parameters, SqlState, Value};

use crate::failure::Failure;
use crate::render::Mode;
use crate::schema;
use crate::script;
use crate::shell::Shell;

/// Whether to go on after a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    /// Read on.
    Continue,
    /// Leave the shell.
    Quit,
}

/// A dot command: its name, arguments, and what it does.
pub(crate) struct Command {
    pub name: &'static str,
    arguments: &'static str,
    summary: &'static str,
}

/// Every command, in the order of `.help`.
pub(crate) const COMMANDS: &[Command] = &[
    Command {
        name: ".exit",
        arguments: "",
        summary: "Leave the shell",
    },
    Command {
        name: ".headers",
        arguments: "on|off",
        summary: "Show or hide column names (table, csv)",
    },
    Command {
        name: ".help",
        arguments: "[COMMAND]",
        summary: "Show this text, or one command's line",
    },
    Command {
        name: ".import",
        arguments: "FILE TABLE",
        summary: "Load a csv, parquet, json or arrow file, creating the table if there is none",
    },
    Command {
        name: ".maxrows",
        arguments: "N|all",
        summary: "Show at most N rows of a table",
    },
    Command {
        name: ".mode",
        arguments: "[MODE]",
        summary: "Print results as table, csv, json, jsonl, markdown or line",
    },
    Command {
        name: ".nullvalue",
        arguments: "[TEXT]",
        summary: "Print TEXT for NULL; without TEXT as each mode does by itself",
    },
    Command {
        name: ".output",
        arguments: "[FILE]",
        summary: "Send results to FILE, or to the screen again",
    },
    Command {
        name: ".quit",
        arguments: "",
        summary: "Leave the shell",
    },
    Command {
        name: ".read",
        arguments: "FILE",
        summary: "Run the statements of FILE",
    },
    Command {
        name: ".schema",
        arguments: "[TABLE]",
        summary: "Show the statements that create the tables and views",
    },
    Command {
        name: ".tables",
        arguments: "[PATTERN]",
        summary: "List tables and views, those LIKE PATTERN",
    },
    Command {
        name: ".timer",
        arguments: "on|off",
        summary: "Print how long each statement took",
    },
];

/// Whether a line, when no statement is open, is a command.
pub(crate) fn is_command(line: &str) -> bool {
    let mut characters = line.trim_start().chars();
    characters.next() == Some('.') && characters.next().is_some_and(|c| c.is_ascii_alphabetic())
}

/// Runs a command. `depth` is how many scripts are being read.
pub(crate) fn run(shell: &mut Shell, line: &str, depth: usize) -> Result<Flow, Failure> {
    let words = words(line)?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let Some((&name, arguments)) = words.split_first() else {
        return Ok(Flow::Continue);
    };
    let name = resolve(name)?;
    match (name, arguments) {
        (".quit" | ".exit", []) => return Ok(Flow::Quit),
        (".read", [path]) => return script::run_file(shell, path, depth),
        (".help", []) => shell.print(&COMMANDS.iter().map(Command::line).collect::<String>())?,
        (".help", [topic]) => {
            let dotted = format!(".{}", topic.trim_start_matches('.'));
            let name = resolve(&dotted)?;
            let line = COMMANDS
                .iter()
                .find(|command| command.name == name)
                .map(Command::line);
            shell.print(&line.unwrap_or_default())?;
        }
        (".headers", [switch]) => shell.style.headers = on_off(name, switch)?,
        (".timer", [switch]) => shell.timer = on_off(name, switch)?,
        (".mode", []) => {
            let text = format!("mode: {}\n", shell.style.mode.name());
            shell.print(&text)?;
        }
        (".mode", [mode]) => shell.style.mode = find_mode(mode)?,
        (".nullvalue", []) => shell.style.null = None,
        (".nullvalue", [text]) => shell.style.null = Some((*text).to_string()),
        (".maxrows", ["all"]) => shell.style.max_rows = None,
        (".maxrows", [count]) => match count.parse() {
            Ok(count) if count > 0 => shell.style.max_rows = Some(count),
            _ => return Err(usage(name)),
        },
        (".output", [] | ["stdout"]) => shell.redirect(None)?,
        (".output", [path]) => shell.redirect(Some(path))?,
        (".tables", []) => list(shell, "%")?,
        (".tables", [pattern]) => list(shell, pattern)?,
        (".schema", []) => {
            let text = schema::statements(shell, None)?;
            shell.print(&text)?;
        }
        (".schema", [table]) => {
            let text = schema::statements(shell, Some(table))?;
            shell.print(&text)?;
        }
        (".import", [path, table]) => import(shell, path, table)?,
        _ => return Err(usage(name)),
    }
    Ok(Flow::Continue)
}

impl Command {
    fn line(&self) -> String {
        let usage = format!("{} {}", self.name, self.arguments);
        format!("{usage:<22} {}\n", self.summary)
    }
}

/// The command that a word names: in full, or by a beginning that only one command has.
fn resolve(word: &str) -> Result<&'static str, Failure> {
    let word = word.to_ascii_lowercase();
    let mut found = COMMANDS
        .iter()
        .filter(|command| command.name.starts_with(&word));
    if let Some(exact) = COMMANDS.iter().find(|command| command.name == word) {
        return Ok(exact.name);
    }
    match (found.next(), found.next()) {
        (Some(command), None) => Ok(command.name),
        (Some(_), Some(_)) => Err(Failure::Usage(format!(
            "{word} could be several commands; .help lists them"
        ))),
        (None, _) => Err(Failure::Usage(format!(
            "unknown command {word}; .help lists those there are"
        ))),
    }
}

fn usage(name: &str) -> Failure {
    let line = COMMANDS.iter().find(|command| command.name == name);
    let arguments = line.map_or("", |command| command.arguments);
    Failure::Usage(format!("usage: {name} {arguments}").trim_end().to_string())
}

fn on_off(name: &str, switch: &str) -> Result<bool, Failure> {
    match switch.to_ascii_lowercase().as_str() {
        "on" | "true" | "yes" | "1" => Ok(true),
        "off" | "false" | "no" | "0" => Ok(false),
        _ => Err(usage(name)),
    }
}

fn find_mode(name: &str) -> Result<Mode, Failure> {
    Mode::named(name).ok_or_else(|| {
        let names: Vec<&str> = Mode::ALL.iter().map(|(name, _)| *name).collect();
        Failure::Usage(format!(
            "unknown mode {name}; the modes are {}",
            names.join(", ")
        ))
    })
}

fn list(shell: &mut Shell, pattern: &str) -> Result<(), Failure> {
    let mut text = String::new();
    for relation in schema::relations(shell, pattern)? {
        text.push_str(&relation.display_name());
        text.push('\n');
    }
    shell.print(&text)
}

/// Loads a file. A table that is not there yet is created with the columns that the file has.
fn import(shell: &mut Shell, path: &str, table: &str) -> Result<(), Failure> {
    let extension = Path::new(path)
        .extension()
        .and_then(|extension| extension.to_str());
    let format = match extension.map(str::to_ascii_lowercase).as_deref() {
        Some("parquet") => "parquet",
        Some("json" | "jsonl" | "ndjson") => "json",
        Some("arrow" | "feather" | "ipc") => "arrow",
        _ => "csv",
    };
    let file = format!("'{}'", path.replace('\'', "''"));
    let name = schema::quote_name(table);
    let exists = shell.session().describe(
        &format!("SELECT * FROM {name}"),
        &Parameters::default(),
        None,
    );
    let sql = match exists {
        Ok(_) if format == "csv" => format!("COPY {name} FROM {file} (FORMAT csv, HEADER true)"),
        Ok(_) => format!("COPY {name} FROM {file} (FORMAT {format})"),
        Err(error) if error.state == SqlState::UndefinedTable => {
            format!("CREATE TABLE {name} AS SELECT * FROM read_{format}({file})")
        }
        Err(error) => return Err(error.into()),
    };
    shell.run(&crate::split::Statement { text: sql, line: 1 })
}

/// The words of a command line: separated by white space, quoted with `'` or `"`.
fn words(line: &str) -> Result<Vec<String>, Failure> {
    let mut words = Vec::new();
    let mut characters = line.trim().chars().peekable();
    while let Some(&first) = characters.peek() {
        let mut word = String::new();
        if first.is_whitespace() {
            characters.next();
            continue;
        }
        if first == '\'' || first == '"' {
            characters.next();
            loop {
                match characters.next() {
                    Some(c) if c == first => break,
                    Some(c) => word.push(c),
                    None => return Err(Failure::Usage(format!("a {first} is not closed"))),
                }
            }
        } else {
            while let Some(c) = characters.next_if(|c| !c.is_whitespace()) {
                word.push(c);
            }
        }
        words.push(word);
    }
    // A habit of SQL is forgiven.
    if let Some(last) = words.last_mut()
        && last.len() > 1
        && last.ends_with(';')
    {
        last.pop();
    }
    Ok(words)
}

/// A text value for a parameter.
pub(crate) fn text(value: &str) -> Value {
    Value::Utf8(Some(value.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_begins_with_a_dot_and_a_letter() {
        assert!(is_command(".tables"));
        assert!(is_command("  .mode csv\n"));
        assert!(!is_command(".5"));
        assert!(!is_command("select .5"));
    }

    #[test]
    fn words_may_be_quoted() {
        assert_eq!(
            words(".import 'my file.csv' \"t\"\n").unwrap(),
            [".import", "my file.csv", "t"]
        );
        assert_eq!(words(".nullvalue ''").unwrap(), [".nullvalue", ""]);
        assert!(words(".read 'open").is_err());
    }

    #[test]
    fn a_semicolon_at_the_end_is_forgiven() {
        assert_eq!(words(".timer on;").unwrap(), [".timer", "on"]);
    }

    #[test]
    fn a_clear_beginning_names_a_command() {
        assert_eq!(resolve(".tab").unwrap(), ".tables");
        assert_eq!(resolve(".HELP").unwrap(), ".help");
        assert!(resolve(".m").unwrap_err().to_string().contains("several"));
        assert!(
            resolve(".chart")
                .unwrap_err()
                .to_string()
                .contains("unknown")
        );
    }

    #[test]
    fn commands_are_listed_in_order() {
        assert!(COMMANDS.is_sorted_by_key(|command| command.name));
    }
}
