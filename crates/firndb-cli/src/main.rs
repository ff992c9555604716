//! The `firndb` shell.
//!
//! | module | holds |
//! | --- | --- |
//! | [`options`] | the command line |
//! | [`interactive`] | the dialogue at a terminal |
//! | [`script`] | statements from files and standard input |
//! | [`shell`] | running a statement and printing its result |
//! | [`commands`], [`schema`] | dot commands |
//! | [`split`] | where statements end |
//! | [`render`] | results as text |
//! | [`report`], [`failure`] | errors as psql shows them |
//! | [`complete`], [`keywords`] | completion |
//! | [`interrupt`], [`progress`] | Ctrl-C, the progress bar |
#![forbid(unsafe_code)]

mod commands;
mod complete;
mod failure;
mod interactive;
mod interrupt;
mod keywords;
mod options;
mod progress;
mod render;
mod report;
mod schema;
mod script;
mod shell;
mod split;

use std::io::{IsTerminal, stdin, stdout};
use std::process::ExitCode;

use firndb::{Config, Database};

use crate::commands::Flow;
use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::options::Options;
use crate::render::Style;
use crate::shell::Shell;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What a shell reports for a program that wrote to a closed pipe.
const BROKEN_PIPE: u8 = 141;

fn main() -> ExitCode {
    let options = Options::from_process();
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) if failure.is_broken_pipe() => ExitCode::from(BROKEN_PIPE),
        Err(failure) => {
            failure.show(None);
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), Failure> {
    let from_input = options.commands.is_empty() && options.script.is_none();
    let interactive = from_input && stdin().is_terminal() && stdout().is_terminal();
    // Before the database starts threads, so that none of them takes SIGINT.
    let interrupts = Interrupts::watch(interactive)?;
    let config = Config {
        read_only: options.read_only,
        ..Config::default()
    };
    let session = match options.file() {
        Some(path) => Database::open_file(path, config)?,
        None => Database::open(config)?,
    }
    .connect()?;
    let style = Style {
        mode: options.mode(),
        headers: !options.no_header,
        null: options.null.clone(),
        max_rows: None,
        width: None,
    };
    let mut shell = Shell::new(session, interrupts, style);
    for command in &options.commands {
        if script::run(&mut shell, &mut command.as_bytes(), 0)? == Flow::Quit {
            return Ok(());
        }
    }
    if let Some(path) = &options.script {
        script::run_file(&mut shell, &path.to_string_lossy(), 0)?;
    }
    if interactive {
        interactive::run(&mut shell, !options.no_history, options.file())?;
    } else if from_input {
        script::run(&mut shell, &mut stdin().lock(), 0)?;
    }
    Ok(())
}
