//! Ends the programs when this process is told to end: each has a process group of its own, so a terminal's Ctrl-C does not
//! reach it, and a job that waits for commands would keep the device's memory for ever.

use crate::program::{pid, until};
use anyhow::{Context, Result};
use protocol::process::Process;
use rustix::process::{Signal, kill_process, kill_process_group, test_kill_process_group};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Longer than `tally run` takes to end its program, over MPS too.
const GRACE: Duration = Duration::from_secs(60);
/// What SIGKILL may take. A group stays for as long as its leader has not been waited for, so that this is often used up.
const GONE: Duration = Duration::from_millis(500);

struct State {
    stopping: bool,
    /// Leaders of groups that have not been waited for.
    running: Vec<u32>,
    scratch: Option<PathBuf>,
}

static STATE: Mutex<State> = Mutex::new(State { stopping: false, running: Vec::new(), scratch: None });

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a program with `start`, which gives its number, and remembers it until [`forget`]. Once this process has been
/// told to end, nothing is started any more.
///
/// # Errors
/// Those of `start`.
pub fn remember<T>(start: impl FnOnce() -> Result<(u32, T)>) -> Result<T> {
    let mut state = state();
    if state.stopping {
        drop(state);
        wait_for_the_end();
    }
    let (number, program) = start()?;
    state.running.push(number);
    Ok(program)
}

/// A program has been waited for. Does not return once this process has been told to end: a program that was ended for
/// that reason has not failed, and no row may say so.
pub fn forget(number: u32) {
    let mut state = state();
    state.running.retain(|running| *running != number);
    if state.stopping {
        drop(state);
        wait_for_the_end();
    }
}

/// The thread that answers the signal ends this process.
fn wait_for_the_end() -> ! {
    loop {
        std::thread::park();
    }
}

/// From here on a signal ends the programs, then removes the folder, then ends this process.
///
/// # Errors
/// The system does not let signals be caught.
pub fn answer(scratch: &Path) -> Result<()> {
    state().scratch = Some(scratch.to_owned());
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM]).context("cannot catch signals")?;
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            eprintln!("interrupted: rows that are written are kept; the programs are ended");
            stop();
            std::process::exit(128 + signal);
        }
    });
    Ok(())
}

fn stop() {
    let (running, scratch) = {
        let mut state = state();
        state.stopping = true;
        (state.running.clone(), state.scratch.clone())
    };
    // The latest first: best effort leaves before the server. `tally run` passes it on.
    running.iter().rev().filter_map(|number| pid(*number)).for_each(|pid| {
        let _ = kill_process(pid, Signal::TERM);
    });
    let lives = |number: &u32| Process::find(*number).is_ok_and(Process::is_alive);
    until(GRACE, || (!running.iter().any(lives)).then_some(()));
    // Also of those that have ended: what they started may still be there, as behind a Python that is a shell script.
    let groups: Vec<_> = running.iter().filter_map(|number| pid(*number)).collect();
    for group in &groups {
        let _ = kill_process_group(*group, Signal::KILL);
    }
    until(GONE, || groups.iter().all(|group| test_kill_process_group(*group).is_err()).then_some(()));
    if let Some(scratch) = scratch {
        let _ = std::fs::remove_dir_all(scratch);
    }
}
