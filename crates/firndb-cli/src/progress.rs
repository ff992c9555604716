//! A progress bar on standard error for statements that take longer than two seconds.
//!
//! A thread asks the session how far it is. Dropping the bar erases it, which happens before the first row is printed.

use std::fmt::Write as _;
use std::io::{Write, stderr};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use firndb::{Progress, Session};

const PATIENCE: Duration = Duration::from_secs(2);
const REFRESH: Duration = Duration::from_millis(100);
const CELLS: usize = 40;

/// Watches the running statement until it is dropped.
#[derive(Debug)]
pub(crate) struct ProgressBar {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ProgressBar {
    /// Starts watching what `session` runs from now on.
    pub(crate) fn watch(session: &Arc<Session>) -> std::io::Result<Self> {
        let session = Arc::clone(session);
        let (stop, stopped) = channel::<()>();
        let thread = std::thread::Builder::new()
            .name("progress".into())
            .spawn(move || {
                let begun = Instant::now();
                let mut wait = PATIENCE;
                let mut drawn = 0;
                while stopped.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                    wait = REFRESH;
                    if let Some(progress) = session.progress() {
                        let line = bar(progress, begun.elapsed());
                        let width = line.chars().count();
                        let erase = drawn.max(width) - width;
                        // A terminal that cannot be written to has no bar.
                        let _ = write!(stderr(), "\r{line}{:erase$}", "");
                        let _ = stderr().flush();
                        drawn = width;
                    }
                }
                if drawn > 0 {
                    let _ = write!(stderr(), "\r{:drawn$}\r", "");
                    let _ = stderr().flush();
                }
            })?;
        Ok(ProgressBar {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for ProgressBar {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// ` 37% ▕██████████          ▏ 1,234,567 rows, 3 s (about 5 s left)`
fn bar(progress: Progress, elapsed: Duration) -> String {
    let fraction = if progress.fraction.is_finite() {
        progress.fraction.clamp(0.0, 1.0)
    } else {
        0.0
    };
    let full = (fraction * CELLS as f64) as usize;
    let mut line = format!(
        "{:>3}% ▕{}{}▏ {} rows, {} s",
        (fraction * 100.0) as u32,
        "█".repeat(full),
        " ".repeat(CELLS - full),
        grouped(progress.rows),
        elapsed.as_secs()
    );
    if fraction > 0.05 {
        let left = elapsed.as_secs_f64() * (1.0 - fraction) / fraction;
        let _ = write!(line, " (about {left:.0} s left)");
    }
    line
}

/// A count with a comma between every three digits.
pub(crate) fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_fills_with_the_fraction() {
        let progress = Progress {
            fraction: 0.5,
            rows: 1_234_567,
        };
        let line = bar(progress, Duration::from_secs(4));
        assert_eq!(
            line,
            format!(
                " 50% ▕{}{}▏ 1,234,567 rows, 4 s (about 4 s left)",
                "█".repeat(20),
                " ".repeat(20)
            )
        );
    }

    #[test]
    fn counts_are_grouped_by_thousands() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1000), "1,000");
        assert_eq!(grouped(1_234_567), "1,234,567");
    }
}
