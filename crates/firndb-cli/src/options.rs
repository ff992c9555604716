//! The command line.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{ArgGroup, Parser};

use crate::render::Mode;

/// An SQL database whose tables are Apache Arrow.
///
/// Without -c and -f, statements are read from standard input: with line editing when it is a terminal, else as a script, which
/// ends with a non-zero status at its first error.
#[derive(Debug, Parser)]
#[command(name = "firndb", version, group(ArgGroup::new("mode").multiple(false)))]
pub(crate) struct Options {
    /// The database file; without one (or with `:memory:`) the database is in memory
    #[arg(value_name = "FILE")]
    pub database: Option<PathBuf>,
    /// Run SQL (or a dot command) and exit; may be given several times
    #[arg(short, long = "command", value_name = "SQL")]
    pub commands: Vec<String>,
    /// Run the statements of a file and exit, after those of -c
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub script: Option<PathBuf>,
    /// Open the database file without writing to it (also -readonly)
    #[arg(long = "readonly", visible_alias = "read-only")]
    pub read_only: bool,
    /// Print results as boxes (the default)
    #[arg(long, group = "mode")]
    table: bool,
    /// Print results as comma-separated values (also -csv)
    #[arg(long, group = "mode")]
    csv: bool,
    /// Print results as a JSON array of objects (also -json)
    #[arg(long, group = "mode")]
    json: bool,
    /// Print results as a JSON object a line (also -jsonl)
    #[arg(long, group = "mode")]
    jsonl: bool,
    /// Print results as a Markdown table (also -markdown)
    #[arg(long, group = "mode")]
    markdown: bool,
    /// Print results as a value a line (also -line)
    #[arg(long, group = "mode")]
    line: bool,
    /// Print no column names (also -noheader)
    #[arg(long = "noheader")]
    pub no_header: bool,
    /// Print this text for NULL
    #[arg(long = "nullvalue", value_name = "TEXT")]
    pub null: Option<String>,
    /// Neither read nor write the history of the line editor
    #[arg(long)]
    pub no_history: bool,
}

/// Long options that are also taken with a single dash, as users of other shells type them.
const SINGLE_DASH: [&str; 9] = [
    "-readonly",
    "-csv",
    "-json",
    "-jsonl",
    "-markdown",
    "-line",
    "-table",
    "-noheader",
    "-nullvalue",
];

impl Options {
    /// Reads the arguments of the process; prints and exits where they ask for help or are wrong.
    pub(crate) fn from_process() -> Options {
        Options::parse_from(with_double_dashes(std::env::args_os()))
    }

    /// The database file, if it is not in memory.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.database
            .as_deref()
            .filter(|path| path.as_os_str() != ":memory:")
    }

    /// The mode that was asked for.
    pub(crate) fn mode(&self) -> Mode {
        let asked = [
            (self.csv, Mode::Csv),
            (self.json, Mode::Json),
            (self.jsonl, Mode::JsonLines),
            (self.markdown, Mode::Markdown),
            (self.line, Mode::Line),
        ];
        asked
            .into_iter()
            .find_map(|(asked, mode)| asked.then_some(mode))
            .unwrap_or(Mode::Table)
    }
}

/// Gives the options of [`SINGLE_DASH`] their second dash, up to a `--` and but for values of options.
fn with_double_dashes(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    const WITH_VALUE: [&str; 5] = ["-c", "--command", "-f", "--file", "--nullvalue"];
    let mut out: Vec<OsString> = Vec::new();
    let mut ended = false;
    for argument in arguments {
        ended |= argument == "--";
        let is_value = out
            .last()
            .is_some_and(|before| WITH_VALUE.iter().any(|option| before == option));
        let single = SINGLE_DASH.iter().any(|option| argument == *option);
        if single && !ended && !is_value {
            let mut double = OsString::from("-");
            double.push(argument);
            out.push(double);
        } else {
            out.push(argument);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(arguments: &[&str]) -> Options {
        let arguments = std::iter::once("firndb").chain(arguments.iter().copied());
        Options::parse_from(with_double_dashes(arguments.map(OsString::from)))
    }

    #[test]
    fn modes_take_one_dash_or_two() {
        assert_eq!(options(&["-csv"]).mode(), Mode::Csv);
        assert_eq!(options(&["--csv"]).mode(), Mode::Csv);
        assert_eq!(options(&["-jsonl"]).mode(), Mode::JsonLines);
        assert_eq!(options(&[]).mode(), Mode::Table);
    }

    #[test]
    fn commands_may_repeat() {
        assert_eq!(
            options(&["-c", "select 1", "--command", "select 2"]).commands,
            ["select 1", "select 2"]
        );
    }

    #[test]
    fn values_keep_their_single_dash() {
        assert_eq!(options(&["--nullvalue=-csv"]).null.as_deref(), Some("-csv"));
        assert_eq!(
            with_double_dashes(["-f", "-csv"].into_iter().map(OsString::from)),
            ["-f", "-csv"].map(OsString::from)
        );
    }

    #[test]
    fn two_modes_are_refused() {
        let arguments = ["firndb", "--csv", "--json"];
        assert!(Options::try_parse_from(arguments).is_err());
    }
}
