//! What can go wrong in the shell.

use std::io;

use crate::report::report;
use crate::split::Statement;

/// Why a statement or command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The database refused.
    #[error(transparent)]
    Sql(#[from] firndb::Error),
    /// A file or the terminal failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A file that was named by the user failed.
    #[error("{path}: {error}")]
    File {
        /// As the user wrote it.
        path: String,
        /// What the system said.
        error: io::Error,
    },
    /// A command was not understood.
    #[error("{0}")]
    Usage(String),
    /// An error that was shown already, as deep as it happened.
    #[error("the script ended with an error")]
    Shown,
}

impl Failure {
    /// Shows the failure of a statement on standard error, unless that was done or nobody reads any more.
    pub(crate) fn show(&self, statement: Option<&Statement>) {
        match (self, statement) {
            (Failure::Shown, _) => {}
            (failure, _) if failure.is_broken_pipe() => {}
            (Failure::Sql(error), Some(statement)) => eprintln!("{}", report(error, statement)),
            (Failure::Sql(error), None) => {
                eprintln!("ERROR: {} ({})", error.message, error.state.code());
            }
            (failure, _) => eprintln!("ERROR: {failure}"),
        }
    }

    /// Whether the reader of our output went away.
    pub(crate) fn is_broken_pipe(&self) -> bool {
        matches!(self, Failure::Io(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}
