//! The event log: what the policy was told and what it answered, as [`sched::client::replay`] reads it.

use sched::client::{Event, Header, Line, Op};
use std::fs::File;
use std::io::{Result, Write};
use std::path::Path;

/// A log that is being written, step by step, so that a program that is killed leaves all of it. An error of writing ends
/// the log; the program goes on.
#[derive(Debug)]
pub struct Log(Option<File>);

impl Log {
    /// Starts a log with its first line.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn create(path: &Path, header: &Header) -> Result<Log> {
        let mut file = File::create(path)?;
        file.write_all(format!("{header}\n").as_bytes())?;
        Ok(Log(Some(file)))
    }

    /// One step of the policy.
    pub fn step(&mut self, at: u64, event: Event, op: Option<Op>) {
        let mut text = format!("{}\n", Line::Event { at, event });
        if let Some(op) = op {
            text += &format!("{}\n", Line::Op { at, op });
        }
        if let Some(file) = &mut self.0
            && file.write_all(text.as_bytes()).is_err()
        {
            self.0 = None;
        }
    }
}
