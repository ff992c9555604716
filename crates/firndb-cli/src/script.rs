//! Statements and dot commands from a file, standard input or `-c`, one after the other, up to the first error.

use std::fs::File;
use std::io::{BufRead, BufReader};

use crate::commands::{self, Flow};
use crate::failure::Failure;
use crate::shell::Shell;
use crate::split::Splitter;

/// Scripts may read scripts, but not without end.
const DEEPEST: usize = 32;

/// Runs the text of a reader. The error of a statement is shown where it happens and ends the script.
pub(crate) fn run(
    shell: &mut Shell,
    input: &mut dyn BufRead,
    depth: usize,
) -> Result<Flow, Failure> {
    let mut splitter = Splitter::new();
    let mut line = Vec::new();
    let mut number = 0;
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        number += 1;
        let Ok(text) = std::str::from_utf8(&line) else {
            return Err(firndb::Error::new(
                firndb::SqlState::CharacterNotInRepertoire,
                format!("line {number} of the script is not valid UTF-8"),
            )
            .into());
        };
        // A byte order mark is no part of the text.
        let text = match number {
            1 => text.strip_prefix('\u{feff}').unwrap_or(text),
            _ => text,
        };
        if !splitter.pending() && commands::is_command(text) {
            if commands::run(shell, text, depth)? == Flow::Quit {
                return Ok(Flow::Quit);
            }
            splitter.skip_line();
            continue;
        }
        splitter.push(text);
        while let Some(statement) = splitter.next_statement() {
            show(shell.run(&statement), &statement)?;
        }
    }
    if let Some(statement) = splitter.finish() {
        show(shell.run(&statement), &statement)?;
    }
    Ok(Flow::Continue)
}

/// Runs a file.
pub(crate) fn run_file(shell: &mut Shell, path: &str, depth: usize) -> Result<Flow, Failure> {
    if depth >= DEEPEST {
        return Err(Failure::Usage(format!(
            "{path}: scripts read one another more than {DEEPEST} deep"
        )));
    }
    let file = File::open(path).map_err(|error| Failure::File {
        path: path.to_string(),
        error,
    })?;
    run(shell, &mut BufReader::new(file), depth + 1)
}

/// Shows a statement's failure with its text, which those further up no longer have.
fn show(result: Result<(), Failure>, statement: &crate::split::Statement) -> Result<(), Failure> {
    match result {
        Err(failure) if !failure.is_broken_pipe() => {
            failure.show(Some(statement));
            Err(Failure::Shown)
        }
        result => result,
    }
}
