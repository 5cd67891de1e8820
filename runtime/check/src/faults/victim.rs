//! The small CUDA client of `programs/victim.c`, compiled here, and the file through which it is watched and told.

use crate::program::{Program, Tally, pid, until};
use crate::setup::Setup;
use anyhow::{Context, Result, bail};
use protocol::clock::now;
use rustix::process::{Signal, kill_process};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Opening the device, on a machine under load.
const START: Duration = Duration::from_secs(30);

/// Words of the file; the numbers are those of `victim.c`.
#[derive(Clone, Copy)]
enum Word {
    Pid = 0,
    State = 1,
    Rounds = 2,
    Last = 3,
    Longest = 4,
    Error = 5,
    Reset = 6,
    Command = 7,
}

const READY: u64 = 1;
const REFUSED: u64 = 4;
const GO: u64 = 1;
const STOP: u64 = 2;

/// What it does, see `victim.c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    Busy,
    Server,
    Train,
    Illegal,
    Memory,
}

impl Work {
    fn name(self) -> &'static str {
        match self {
            Work::Busy => "busy",
            Work::Server => "server",
            Work::Train => "train",
            Work::Illegal => "illegal",
            Work::Memory => "memory",
        }
    }
}

/// Compiles it.
///
/// # Errors
/// There is no C compiler, or it fails.
pub fn compile(setup: &Setup) -> Result<PathBuf> {
    let source = setup.repo.join("runtime/check/programs/victim.c");
    let program = setup.scratch().join("victim");
    let (source, out) = (source.to_string_lossy(), program.to_string_lossy());
    let arguments = ["-O2", "-std=gnu11", "-o", &out, &source, "-ldl"];
    match doctor::probe::ask_within("cc", &arguments, Duration::from_secs(60)) {
        Ok(answer) if answer.success => Ok(program),
        Ok(answer) => bail!("cc fails: {}", answer.line()),
        Err(doctor::probe::Silence::Absent) => bail!("there is no C compiler (cc) on PATH"),
        Err(doctor::probe::Silence::Broken(why)) => bail!("{why}"),
    }
}

/// A running client.
#[derive(Debug)]
pub struct Victim {
    pub program: Program,
    file: File,
}

impl Victim {
    /// Starts one; [`Victim::ready`] waits until it has the device.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(setup: &Setup, binary: &Path, name: &str, work: Work, tally: &Tally) -> Result<Victim> {
        let path = setup.folder("victims")?.join(name);
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
        file.set_len(64).with_context(|| format!("cannot write {}", path.display()))?;
        let arguments = [work.name().into(), path.into()];
        Ok(Victim { program: Program::start(setup, name, Some(tally), binary, &arguments)?, file })
    }

    fn get(&self, word: Word) -> u64 {
        let mut bytes = [0; 8];
        // The file has had its length since the start, so this cannot fail but for a broken system.
        let _ = self.file.read_exact_at(&mut bytes, word as u64 * 8);
        u64::from_ne_bytes(bytes)
    }

    fn set(&self, word: Word, value: u64) -> Result<()> {
        Ok(self.file.write_all_at(&value.to_ne_bytes(), word as u64 * 8)?)
    }

    /// Waits until it has opened the device.
    ///
    /// # Errors
    /// It ended, or the limit has passed.
    pub fn ready(&mut self) -> Result<()> {
        let found = until(START, || match (self.get(Word::State), self.program.ended()) {
            (READY, _) => Some(true),
            (_, Ok(None)) => None,
            _ => Some(false),
        });
        match found {
            Some(true) => Ok(()),
            _ => bail!("a client did not open the device; {}", self.program.tail()),
        }
    }

    /// Lets it launch.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn go(&self) -> Result<()> {
        self.set(Word::Command, GO)
    }

    /// Lets it end by itself, and waits.
    ///
    /// # Errors
    /// It does not end, or with another code than 0.
    pub fn stop(&mut self) -> Result<()> {
        self.set(Word::Command, STOP)?;
        self.program.succeed(Duration::from_secs(10))?;
        Ok(())
    }

    /// Kills the process itself, not the `tally run` around it. The time of it.
    ///
    /// # Errors
    /// There is none.
    pub fn sigkill(&self) -> Result<u64> {
        let pid =
            u32::try_from(self.get(Word::Pid)).ok().and_then(pid).context("the client has no number yet")?;
        let time = now();
        kill_process(pid, Signal::KILL).context("cannot kill the client")?;
        Ok(time)
    }

    /// Rounds done.
    pub fn rounds(&self) -> u64 {
        self.get(Word::Rounds)
    }

    /// The CUDA error that ended it, if one has.
    pub fn refused(&self) -> Option<u64> {
        (self.get(Word::State) == REFUSED).then(|| self.get(Word::Error))
    }

    /// From a time until it has done so many rounds since, ns; none when that takes longer than the limit, or when the
    /// driver refuses it.
    pub fn time_to_rounds(&self, since: u64, rounds: u64, limit: Duration) -> Option<u64> {
        let begun = self.rounds();
        until(limit, || {
            if self.refused().is_some() {
                return Some(None);
            }
            // The time is written before the count.
            (self.rounds() >= begun + rounds).then(|| Some(self.get(Word::Last).saturating_sub(since)))
        })
        .flatten()
    }

    /// The longest round since this was asked last, ns.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn longest(&self) -> Result<u64> {
        let longest = self.get(Word::Longest);
        self.set(Word::Reset, self.get(Word::Reset) + 1)?;
        Ok(longest)
    }
}
