//! A job of `workloads/` that is started once and told what to do next, so that its start and warm-up are paid once.
//!
//! The protocol is `--commands` of `workloads/common/harness.py`: numbered files in a folder.

use crate::program::{Program, Tally, until};
use crate::setup::Setup;
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A running job.
#[derive(Debug)]
pub struct Worker {
    program: Program,
    folder: PathBuf,
    next: u32,
    /// Of the process itself, once it is warm.
    pub pid: u32,
}

/// What a loop of a job gives back, times in ns of CLOCK_MONOTONIC.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Loop {
    pub begin_ns: u64,
    pub elapsed_ns: u64,
    /// Of each request (start to synchronised end) or iteration.
    pub samples_ns: Vec<u64>,
    /// Of each request of a paced loop, from its planned arrival.
    #[serde(default)]
    pub end_to_end_ns: Vec<u64>,
}

/// A command that was given, to ask for its answer.
#[derive(Clone, Copy, Debug)]
pub struct Ticket(u32);

impl Worker {
    /// Starts a job; [`Worker::warm`] waits for it.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(setup: &Setup, name: &str, job: &str, tally: Option<&Tally>) -> Result<Worker> {
        let folder = setup.folder(&format!("commands/{name}"))?;
        let mut arguments: Vec<OsString> = vec![setup.workload(job).into()];
        arguments.extend(["--commands".into(), folder.clone().into()]);
        arguments.extend(["--ready".into(), folder.join("ready").into()]);
        arguments.extend(setup.python_options().iter().map(OsString::from));
        let program = Program::start(setup, name, tally, &setup.python, &arguments)?;
        Ok(Worker { program, folder, next: 0, pid: 0 })
    }

    /// Waits until it is warm.
    ///
    /// # Errors
    /// It ended, or takes longer than the limit.
    pub fn warm(&mut self, limit: Duration) -> Result<()> {
        let ready = self.folder.join("ready");
        self.await_file(&ready, limit, "warm")?;
        let text = bounded::text(&ready, bounded::DEFINITION)?;
        self.pid = text.trim().parse().with_context(|| format!("{} holds {text:?}", ready.display()))?;
        Ok(())
    }

    /// Gives the next command; it begins when the one before has ended.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn send(&mut self, command: &Value) -> Result<Ticket> {
        let path = self.folder.join(format!("{}.json", self.next));
        let partial = self.folder.join("partial");
        std::fs::write(&partial, command.to_string())?;
        std::fs::rename(&partial, &path).with_context(|| format!("cannot write {}", path.display()))?;
        self.next += 1;
        Ok(Ticket(self.next - 1))
    }

    /// A closed loop of requests or iterations for so long.
    ///
    /// # Errors
    /// As [`Worker::send`].
    pub fn closed(&mut self, seconds: f64) -> Result<Ticket> {
        self.send(&json!({"mode": "closed", "seconds": seconds}))
    }

    /// Requests at these times.
    ///
    /// # Errors
    /// As [`Worker::send`].
    pub fn paced(&mut self, arrivals: &Path, seconds: f64) -> Result<Ticket> {
        self.send(&json!({"mode": "paced", "arrivals": arrivals, "seconds": seconds}))
    }

    /// Iterations until [`Worker::halt`].
    ///
    /// # Errors
    /// As [`Worker::send`].
    pub fn train(&mut self, most_seconds: f64) -> Result<Ticket> {
        let stop = self.stop_file(Ticket(self.next));
        self.send(&json!({"mode": "train", "seconds": most_seconds, "stop": stop}))
    }

    /// Ends a [`Worker::train`] after its present iteration.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn halt(&self, ticket: Ticket) -> Result<()> {
        Ok(std::fs::write(self.stop_file(ticket), "")?)
    }

    fn stop_file(&self, Ticket(number): Ticket) -> PathBuf {
        self.folder.join(format!("{number}.stop"))
    }

    /// What a command gave, waiting for it.
    ///
    /// # Errors
    /// The job failed or ended, or the limit has passed.
    pub fn answer(&mut self, Ticket(number): Ticket, limit: Duration) -> Result<Loop> {
        let path = self.folder.join(format!("{number}.out.json"));
        self.await_file(&path, limit, "done")?;
        let text = bounded::text(&path, bounded::SAMPLES)?;
        let answer: Value = serde_json::from_str(&text)?;
        match answer.get("error") {
            Some(error) => bail!("the job failed: {}", error.as_str().unwrap_or("no message")),
            None => {
                serde_json::from_value(answer).with_context(|| format!("{} is no answer", path.display()))
            }
        }
    }

    /// Lets it end, and waits.
    ///
    /// # Errors
    /// It does not end, or not with code 0.
    pub fn quit(&mut self, limit: Duration) -> Result<()> {
        self.send(&json!({"mode": "quit"}))?;
        self.program.succeed(limit)?;
        Ok(())
    }

    fn await_file(&mut self, path: &Path, limit: Duration, what: &str) -> Result<()> {
        let program = &mut self.program;
        let found = until(limit, || {
            if path.exists() {
                return Some(Ok(()));
            }
            match program.ended() {
                Ok(None) => None,
                // It may have answered with its last breath.
                Ok(Some(_)) if path.exists() => Some(Ok(())),
                Ok(Some(ended)) => Some(Err(format!("it ended with code {}", ended.code))),
                Err(error) => Some(Err(error.to_string())),
            }
        });
        match found {
            Some(Ok(())) => Ok(()),
            Some(Err(why)) => bail!("the job was not {what}: {why}; {}", self.program.tail()),
            None => {
                bail!("the job was not {what} within {:.0} s; {}", limit.as_secs_f64(), self.program.tail())
            }
        }
    }
}

impl Loop {
    /// Units that ended within a span of time, the unfinished ones at both ends by their share.
    ///
    /// The samples leave out what happens between units; that time is spread evenly over them.
    pub fn units_within(&self, from_ns: u64, to_ns: u64) -> f64 {
        let between = self.elapsed_ns.saturating_sub(self.samples_ns.iter().sum()) as f64
            / self.samples_ns.len().max(1) as f64;
        let mut begin = self.begin_ns as f64;
        let mut units = 0.0;
        for sample in &self.samples_ns {
            let end = begin + *sample as f64 + between;
            let inside = end.min(to_ns as f64) - begin.max(from_ns as f64);
            if inside > 0.0 && end > begin {
                units += inside / (end - begin);
            }
            begin = end;
        }
        units
    }

    /// Mean duration of a unit, ns.
    ///
    /// # Errors
    /// There was none.
    pub fn mean_ns(&self) -> Result<f64> {
        ensure!(!self.samples_ns.is_empty(), "the job did nothing in {} ns", self.elapsed_ns);
        Ok(self.samples_ns.iter().sum::<u64>() as f64 / self.samples_ns.len() as f64)
    }

    /// Units per second over the whole loop.
    pub fn rate(&self) -> Option<f64> {
        (self.elapsed_ns > 0 && !self.samples_ns.is_empty())
            .then(|| self.samples_ns.len() as f64 * 1e9 / self.elapsed_ns as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_count_by_their_share_of_the_span() {
        // Three units of 10 ns each, with 1 ns after each: they end at 111, 122 and 133.
        let done = Loop { begin_ns: 100, elapsed_ns: 33, samples_ns: vec![10, 10, 10], ..Loop::default() };
        assert!((done.units_within(0, 1000) - 3.0).abs() < 1e-9);
        assert!((done.units_within(111, 122) - 1.0).abs() < 1e-9);
        // Half of the first and all of the second.
        assert!((done.units_within(105, 122) - (6.0 / 11.0 + 1.0)).abs() < 1e-9);
        assert_eq!(done.units_within(200, 300), 0.0);
        assert_eq!(Loop::default().units_within(0, 10), 0.0);
        assert!((done.rate().unwrap() - 3e9 / 33.0).abs() < 1.0);
        assert_eq!(Loop::default().rate(), None);
    }
}
