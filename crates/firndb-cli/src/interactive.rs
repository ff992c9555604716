//! The dialogue at a terminal: line editing, history, completion.

use std::env::var_os;
use std::path::{Path, PathBuf};

use rustyline::config::BellStyle;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config, Editor};

use crate::commands::{self, Flow};
use crate::complete::Assistant;
use crate::failure::Failure;
use crate::shell::Shell;
use crate::split::Splitter;

/// Rows of a table that a screen is given, unless `.maxrows` says otherwise.
const SCREEN_ROWS: usize = 40;
const PROMPT: &str = "firndb> ";
const HISTORY: usize = 10_000;

/// Reads and runs statements until Ctrl-D or `.quit`.
pub(crate) fn run(
    shell: &mut Shell,
    keep_history: bool,
    file: Option<&Path>,
) -> Result<(), Failure> {
    let config = Config::builder()
        .max_history_size(HISTORY)
        .map_err(terminal)?
        .history_ignore_space(true)
        .completion_type(CompletionType::List)
        .bell_style(BellStyle::None)
        .build();
    let mut editor: Editor<Assistant, FileHistory> =
        Editor::with_config(config).map_err(terminal)?;
    editor.set_helper(Some(Assistant::new(shell.session().clone())));
    let history = if keep_history { history_path() } else { None };
    if let Some(path) = &history {
        // A history that is not there yet is made at the end.
        let _ = editor.load_history(path);
    }
    shell.interactive = true;
    shell.style.max_rows = Some(SCREEN_ROWS);
    let database = match file {
        Some(path) => path.display().to_string(),
        None => "in-memory database".to_owned(),
    };
    println!(
        "FirnDB {} · {database} · .help for commands, Ctrl-D to leave",
        env!("CARGO_PKG_VERSION")
    );
    let result = converse(shell, &mut editor);
    if let Some(path) = &history
        && let Err(error) = editor.append_history(path)
    {
        eprintln!("The history was not saved in {}: {error}", path.display());
    }
    result
}

fn converse(shell: &mut Shell, editor: &mut Editor<Assistant, FileHistory>) -> Result<(), Failure> {
    loop {
        shell.style.width = editor.dimensions().map(|(columns, _)| usize::from(columns));
        let input = match editor.readline(PROMPT) {
            Ok(input) => input,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => return Ok(()),
            Err(error) => return Err(terminal(error)),
        };
        if input.trim().is_empty() {
            continue;
        }
        editor
            .add_history_entry(input.trim_end())
            .map_err(terminal)?;
        if answer(shell, &input) == Flow::Quit {
            return Ok(());
        }
    }
}

/// Runs what was typed, up to the first error, which is shown.
fn answer(shell: &mut Shell, input: &str) -> Flow {
    if commands::is_command(input) {
        return commands::run(shell, input, 0).unwrap_or_else(|failure| {
            failure.show(None);
            Flow::Continue
        });
    }
    let mut splitter = Splitter::new();
    splitter.push(input);
    while let Some(statement) = splitter.next_statement() {
        if let Err(failure) = shell.run(&statement) {
            failure.show(Some(&statement));
            break;
        }
    }
    Flow::Continue
}

/// `$XDG_STATE_HOME/firndb/history` where that variable is set, else `~/.firndb_history`.
fn history_path() -> Option<PathBuf> {
    let state = var_os("XDG_STATE_HOME").filter(|path| !path.is_empty());
    if let Some(state) = state {
        let folder = PathBuf::from(state).join("firndb");
        // Where it cannot be made, saving the history says so.
        let _ = std::fs::create_dir_all(&folder);
        return Some(folder.join("history"));
    }
    let home = var_os("HOME").filter(|path| !path.is_empty())?;
    Some(PathBuf::from(home).join(".firndb_history"))
}

fn terminal(error: ReadlineError) -> Failure {
    match error {
        ReadlineError::Io(error) => Failure::Io(error),
        other => Failure::Io(std::io::Error::other(other.to_string())),
    }
}
