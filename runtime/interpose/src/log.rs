//! The event log: what the policy was told and what it answered, as [`sched::client::replay`] reads it.

use sched::client::{Event, Header, Line, Op};
use std::fmt::Display;
use std::fs::File;
use std::io::{BufWriter, Result, Write};
use std::path::Path;

/// A log that is being written. An error of writing ends it; the program goes on.
#[derive(Debug)]
pub struct Log(Option<BufWriter<File>>);

impl Log {
    /// Starts a log with its first line.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn create(path: &Path, header: &Header) -> Result<Log> {
        let mut log = Log(Some(BufWriter::new(File::create(path)?)));
        log.line(header);
        Ok(log)
    }

    /// One step of the policy.
    pub fn step(&mut self, at: u64, event: Event, op: Option<Op>) {
        self.line(&Line::Event { at, event });
        if let Some(op) = op {
            self.line(&Line::Op { at, op });
        }
    }

    /// Everything so far is in the file.
    pub fn flush(&mut self) {
        if let Some(file) = &mut self.0
            && file.flush().is_err()
        {
            self.0 = None;
        }
    }

    fn line(&mut self, line: &impl Display) {
        if let Some(file) = &mut self.0
            && writeln!(file, "{line}").is_err()
        {
            self.0 = None;
        }
    }
}
