//! The processes of a cell. Whatever ends the run, none of them may be left behind: they use the device.

use anyhow::{Context, Result};
use duct::unix::HandleExt;
use duct::{Expression, Handle};
use rustix::process::{Pid, Signal, kill_process_group};
use signal_hook::consts::SIGTERM;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Between two looks at a process: long beside what a look costs, so that the host is left to the programs.
const PAUSE: Duration = Duration::from_millis(10);

/// How long a process may take to end after SIGTERM. Longer than `tally run` needs at most over MPS: 10 s until it takes
/// its program off, up to 20 s for that, 10 s until the program is dead, 10 s for its report.
const GRACE: Duration = Duration::from_secs(60);

struct State {
    /// A signal ends this process: nothing may be started any more.
    stopping: bool,
    running: Vec<Arc<Handle>>,
    folders: Vec<PathBuf>,
}

static STATE: Mutex<State> = Mutex::new(State { stopping: false, running: Vec::new(), folders: Vec::new() });

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The thread that answers the signal ends this process. Until then nothing may be recorded: a cell that was interrupted
/// has not failed.
fn wait_for_the_end() -> ! {
    loop {
        std::thread::park();
    }
}

/// A process that ends with this value at the latest.
pub struct Child(Arc<Handle>);

impl Child {
    /// Starts it in a process group of its own, so that Ctrl-C in a terminal does not end programs before `tally run` can.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(command: &Expression) -> Result<Child> {
        let command = command.unchecked().before_spawn(|command| {
            std::os::unix::process::CommandExt::process_group(command, 0);
            Ok(())
        });
        let mut state = state();
        if state.stopping {
            drop(state);
            wait_for_the_end();
        }
        let handle = Arc::new(command.start()?);
        state.running.push(handle.clone());
        Ok(Child(handle))
    }

    /// How it ended; `None` while it runs.
    ///
    /// # Errors
    /// The system's.
    pub fn ended(&self) -> Result<Option<&Output>> {
        let ended = self.0.try_wait().context("cannot ask for a process")?;
        if ended.is_some() && state().stopping {
            wait_for_the_end();
        }
        Ok(ended)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        stop(&[&self.0]);
        state().running.retain(|running| !Arc::ptr_eq(running, &self.0));
    }
}

/// Waits until an answer is there, looking at it every now and then; `None` when the time is up.
///
/// # Errors
/// Those of the question.
pub fn wait_until<T>(limit: Duration, mut ask: impl FnMut() -> Result<Option<T>>) -> Result<Option<T>> {
    let began = Instant::now();
    loop {
        if let Some(answer) = ask()? {
            return Ok(Some(answer));
        }
        if began.elapsed() >= limit {
            return Ok(None);
        }
        std::thread::sleep(PAUSE);
    }
}

/// Ends processes in this order of asking: SIGTERM, then, for a whole group, SIGKILL.
fn stop(handles: &[&Arc<Handle>]) {
    let runs = |handle: &Arc<Handle>| matches!(handle.try_wait(), Ok(None));
    // A process that has ended meanwhile needs no signal.
    handles.iter().filter(|handle| runs(handle)).for_each(|handle| drop(handle.send_signal(SIGTERM)));
    let all_ended = || Ok((!handles.iter().any(|handle| runs(handle))).then_some(()));
    if let Ok(Some(())) = wait_until(GRACE, all_ended) {
        return;
    }
    for handle in handles.iter().filter(|handle| runs(handle)) {
        for pid in handle.pids() {
            if let Some(group) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
                let _ = kill_process_group(group, Signal::KILL);
            }
        }
        let _ = handle.wait();
    }
}

/// Ends all processes, the latest first: best effort leaves before the server. For the end of this process.
pub fn stop_all() {
    let (running, folders) = {
        let mut state = state();
        state.stopping = true;
        (state.running.clone(), state.folders.clone())
    };
    stop(&running.iter().rev().collect::<Vec<_>>());
    for folder in folders {
        super::let_daemon_go(&folder);
        let _ = fs::remove_dir_all(folder);
    }
}

/// A private folder for the files of a cell.
pub struct Scratch(TempDir);

impl Scratch {
    /// Makes it, with a short path: the paths of sockets have about 108 bytes.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn new() -> Result<Scratch> {
        let folder = tempfile::Builder::new().prefix("cell-").tempdir();
        let folder = folder.context("cannot make a folder for temporary files")?;
        state().folders.push(folder.path().to_path_buf());
        Ok(Scratch(folder))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        state().folders.retain(|folder| folder != self.0.path());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use duct::cmd;

    #[test]
    fn a_child_is_gone_when_its_value_is() {
        let folder = tempfile::tempdir().unwrap();
        let child = Child::start(&cmd!("sleep", "60").dir(folder.path())).unwrap();
        assert!(child.ended().unwrap().is_none());
        let handle = child.0.clone();
        drop(child);
        assert!(handle.try_wait().unwrap().is_some());
        let child = Child::start(&cmd!("false")).unwrap();
        let ended = wait_until(Duration::from_secs(20), || Ok(child.ended()?.map(|output| output.status)));
        assert_eq!(ended.unwrap().unwrap().code(), Some(1));
        assert_eq!(wait_until(Duration::ZERO, || Ok(None::<()>)).unwrap(), None);
    }
}
