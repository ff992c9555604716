//! The shell's state and how it runs a statement: session, look of results, where they go.

use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write, stderr, stdout};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use firndb::{Outcome, Parameters, Session};

use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::progress::ProgressBar;
use crate::render::{Style, render};
use crate::split::Statement;

/// What the shell knows between statements.
pub(crate) struct Shell {
    session: Arc<Session>,
    interrupts: Interrupts,
    /// How results look.
    pub style: Style,
    /// Whether the time of each statement is printed.
    pub timer: bool,
    /// Whether a person types: command tags are printed.
    pub interactive: bool,
    output: Output,
}

/// Where results go.
enum Output {
    Standard,
    File(BufWriter<File>),
}

impl Shell {
    /// A shell over a session.
    pub(crate) fn new(session: Session, interrupts: Interrupts, style: Style) -> Self {
        Shell {
            session: Arc::new(session),
            interrupts,
            style,
            timer: false,
            interactive: false,
            output: Output::Standard,
        }
    }

    /// The session that statements run in.
    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Runs a statement and prints its result.
    pub(crate) fn run(&mut self, statement: &Statement) -> Result<(), Failure> {
        let begun = Instant::now();
        let result = self.run_and_print(statement);
        if self.timer {
            writeln!(stdout(), "Run time: {:.3} s", begun.elapsed().as_secs_f64())?;
        }
        result
    }

    fn run_and_print(&mut self, statement: &Statement) -> Result<(), Failure> {
        let cancelling = self.interrupts.cancel(&self.session);
        let bar = match stderr().is_terminal() {
            true => Some(ProgressBar::watch(&self.session)?),
            false => None,
        };
        let outcome = self
            .session
            .execute(&statement.text, &Parameters::default())?;
        let tag = tag(&outcome);
        let Some(rows) = outcome.rows else {
            drop(bar);
            if self.interactive {
                writeln!(stdout(), "{tag}")?;
            }
            return Ok(());
        };
        let mut out = AfterBar {
            bar,
            out: self.output.writer(),
        };
        let schema = rows.schema();
        render(&schema, rows, &self.style, &mut out)?;
        out.flush()?;
        drop(cancelling);
        Ok(())
    }

    /// Runs a query of the shell's own and returns its columns as text, row by row; NULL is empty.
    pub(crate) fn ask(
        &self,
        sql: &str,
        values: Vec<firndb::Value>,
    ) -> Result<Vec<Vec<String>>, Failure> {
        ask(&self.session, sql, values)
    }

    /// Writes text to where results go.
    pub(crate) fn print(&mut self, text: &str) -> Result<(), Failure> {
        let mut out = self.output.writer();
        out.write_all(text.as_bytes())?;
        Ok(out.flush()?)
    }

    /// Sends results to a file from now on, or to standard output again.
    pub(crate) fn redirect(&mut self, path: Option<&str>) -> Result<(), Failure> {
        self.output = match path {
            None => Output::Standard,
            Some(path) => {
                let file = File::create(Path::new(path)).map_err(|error| Failure::File {
                    path: path.to_string(),
                    error,
                })?;
                Output::File(BufWriter::new(file))
            }
        };
        Ok(())
    }
}

/// Runs a query and returns its columns as text, row by row; NULL is empty.
pub(crate) fn ask(
    session: &Session,
    sql: &str,
    values: Vec<firndb::Value>,
) -> Result<Vec<Vec<String>>, Failure> {
    let outcome = session.execute(sql, &Parameters::Positional(values))?;
    let mut found = Vec::new();
    for batch in outcome.rows.into_iter().flatten() {
        let batch = batch?;
        let schema = batch.schema_ref();
        let columns = schema
            .fields()
            .iter()
            .zip(batch.columns())
            .map(|(field, values)| firndb::text::Column::new(field, values))
            .collect::<firndb::Result<Vec<_>>>()?;
        for row in 0..batch.num_rows() {
            let cells = columns
                .iter()
                .map(|column| column.text(row).unwrap_or_default().to_string());
            found.push(cells.collect());
        }
    }
    Ok(found)
}

/// `INSERT 3`, `CREATE TABLE`.
fn tag(outcome: &Outcome) -> String {
    match outcome.affected {
        Some(affected) => format!("{} {affected}", outcome.tag),
        None => outcome.tag.to_string(),
    }
}

impl Output {
    fn writer(&mut self) -> Box<dyn Write + '_> {
        match self {
            Output::Standard => Box::new(BufWriter::new(stdout().lock())),
            Output::File(file) => Box::new(file),
        }
    }
}

/// Erases the progress bar before the first byte is written.
struct AfterBar<'a> {
    bar: Option<ProgressBar>,
    out: Box<dyn Write + 'a>,
}

impl Write for AfterBar<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.bar = None;
        self.out.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.bar = None;
        self.out.flush()
    }
}
