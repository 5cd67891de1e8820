//! `tally run`.

use crate::args::Run;
use crate::connect::{self, Attached, Wanted};
use crate::jobs::{self, Ended, Job, Jobs};
use crate::program::Way;
use crate::summary;
use crate::{Failure, fail};
use anyhow::{Context, anyhow};
use daemon::mps::Mps;
use daemon::place::{self, Lock};
use daemon::policy;
use daemon::say;
use protocol::VERSION;
use protocol::message::{Reply, Request};
use protocol::process::Process;
use protocol::settings::Settings;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The longest that the daemon may take to write reports of killed programs.
const ANSWER: Duration = Duration::from_secs(10);

/// Runs one program or two; the exit code.
pub fn run(run: &Run, settings: &Settings) -> Result<u8, Failure> {
    let programs = run.programs().map_err(|why| Failure { code: 2, error: anyhow!(why) })?;
    if run.policy.as_deref() == Some(policy::NONE) {
        if run.both {
            let error = anyhow!("--policy none runs one program untouched, and --both needs two that share");
            return Err(Failure { code: 2, error });
        }
        let mut command = Command::new(&run.command[0]);
        let error = command.args(&run.command[1..]).exec();
        return Err(cannot_start(&run.command[0].to_string_lossy(), error));
    }

    let wanted = Wanted { policy: run.policy.as_deref(), gpu: run.gpu.as_deref(), dir: run.dir.as_deref() };
    let way = Way::find(run.shim, settings)?;
    let mut signals = jobs::catch_signals()?;
    let daemon = connect::attach(wanted, settings)?;
    let scratch = Scratch::new(&daemon.place.dir)?;
    let reports = match run.report.as_deref().or(settings.report.as_deref()) {
        Some(folder) => std::path::absolute(folder).context("cannot tell the current folder")?,
        None => scratch.0.join("reports"),
    };
    fs::create_dir_all(&reports).with_context(|| format!("cannot make {}", reports.display()))?;
    let before = summary::list(&reports);
    let entry = way.enter(&scratch.0)?;
    if !run.quiet {
        let names = programs.iter().map(|(priority, words)| {
            format!("{} ({})", words[0].to_string_lossy(), jobs::describe(*priority))
        });
        let gpu = daemon.gpu.as_deref().unwrap_or("no particular GPU");
        let weaker = daemon.policy.weakened().map_or(String::new(), |text| format!("; {text}"));
        let (policy, substrate) = (daemon.policy.name(), daemon.policy.substrate());
        let names = names.collect::<Vec<_>>().join(" and ");
        say!("tally: {names} under {policy} over {substrate} on {gpu}{weaker}");
    }
    let mut shared = daemon.environment.clone();
    if let Some(other) = without_mps(run, &daemon) {
        // A folder without a daemon: the program has a context of its own, as the policy says.
        shared.push(("CUDA_MPS_PIPE_DIRECTORY".to_owned(), other));
    }
    let mut started = Vec::new();
    for (index, (priority, words)) in programs.iter().enumerate() {
        // A terminal's Ctrl-C goes to the programs that are there, and is not passed on later.
        if let Some(number) = jobs::ending(&mut signals) {
            end_all(started);
            say!("tally: {} was not started: signal {number} came first", words[0].to_string_lossy());
            return Ok(128 + number as u8);
        }
        let mut environment = shared.clone();
        if let Some((name, value)) = daemon.policy.environment(*priority) {
            environment.push((name.to_owned(), value.to_owned()));
        }
        let command = entry.command(words, *priority, &daemon.place.socket(), &reports, &environment);
        match Job::start(command, index > 0) {
            Ok(job) => started.push(job),
            Err(error) => {
                let failure = cannot_start(&words[0].to_string_lossy(), error);
                end_all(started);
                return Err(failure);
            }
        }
    }
    let mps = daemon.policy.needs_mps().then(|| Mps::at(&daemon.place.mps()));
    let grace = Duration::from_secs(run.grace);
    let mut jobs = Jobs { jobs: started, mps, grace, signals };
    let ended = jobs.run(Some(&daemon.channel))?;
    finish(run, &daemon, &ended, jobs.mps.as_ref())?;
    if !run.quiet {
        summary::print(&summary::since(&reports, &before), &run.command[0].to_string_lossy(), ended.code);
    }
    Ok(ended.code)
}

/// Where programs are to look for MPS so that they find none, although somebody else's daemon runs here; `None` where the
/// policy has MPS or there is no such daemon.
fn without_mps(run: &Run, daemon: &Attached) -> Option<String> {
    let theirs = probe::nvidia::mps_folder().filter(|_| !daemon.policy.needs_mps())?;
    if !run.quiet {
        say!(
            "tally: an MPS daemon that is not ours listens in {}; {} is without MPS, so the programs do not use it",
            theirs.display(),
            daemon.policy.name()
        );
    }
    Some(daemon.place.mps().join("none").to_string_lossy().into_owned())
}

/// What has to be seen to once the programs have ended.
fn finish(run: &Run, daemon: &Attached, ended: &Ended, mps: Option<&Mps>) -> Result<(), Failure> {
    if ended.daemon_lost {
        // Nobody else does, unless another one has been started meanwhile, which then holds the lock.
        if let Some(lock) = Lock::try_take(&daemon.place.lock())? {
            match mps.map(Mps::clean_up) {
                Some(Err(error)) => say!("tally: {error}"),
                _ => {
                    let _ = fs::remove_file(daemon.place.socket());
                    lock.remove();
                }
            }
        }
    } else {
        // Deaths are answered first, so that after this the reports of killed programs are written.
        let asked = daemon.channel.ask(&Request::Status { version: VERSION }, &[], ANSWER);
        if !matches!(asked, Ok((Reply::Status(_), _))) {
            say!("tally: the daemon did not answer; reports of programs that were killed may be missing");
        }
    }
    if let Some(mps) = mps.filter(|_| ended.killed && !ended.daemon_lost) {
        let opened = mps.ask("get_server_list", ANSWER).map(drop).and_then(|()| {
            if daemon.gpu.is_some() {
                probe::nvidia::devices().map_err(|why| anyhow!(why))?;
            }
            Ok(())
        });
        if let Err(error) = opened {
            return Err(fail(anyhow!(
                "after {} was killed the device can no longer be used: {error}; start nothing more on it, end its programs, \
                 and if `nvidia-smi` does not answer either, reset the device or reboot",
                run.command[0].to_string_lossy()
            )));
        }
    }
    Ok(())
}

/// Ends what was started when the rest could not be.
fn end_all(jobs: Vec<Job>) {
    for mut job in jobs {
        job.abandon();
    }
}

fn cannot_start(program: &str, error: std::io::Error) -> Failure {
    let code = if error.kind() == ErrorKind::NotFound { 127 } else { 126 };
    Failure { code, error: anyhow!("cannot start {program}: {error}") }
}

/// A folder of this run in the private one.
struct Scratch(PathBuf);

const SCRATCH: &str = "run-";

impl Scratch {
    fn new(dir: &Path) -> anyhow::Result<Scratch> {
        sweep(dir);
        let this = Process::this().context("cannot read /proc")?;
        let folder = dir.join(format!("{SCRATCH}{}-{}", this.pid, this.start));
        place::private(&folder)?;
        Ok(Scratch(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Removes the folders of runs that were killed.
fn sweep(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name.strip_prefix(SCRATCH).and_then(|rest| rest.split_once('-'));
        let Some((pid, start)) = owner else { continue };
        let (Ok(pid), Ok(start)) = (pid.parse(), start.parse()) else { continue };
        if !(Process { pid, start }).is_alive() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_of_dead_runs_are_swept() {
        let dir = tempfile::tempdir().unwrap();
        let this = Process::this().unwrap();
        let alive = dir.path().join(format!("run-{}-{}", this.pid, this.start));
        let dead = dir.path().join(format!("run-{}-{}", this.pid, this.start + 1));
        let other = dir.path().join("run-x");
        for folder in [&alive, &dead, &other] {
            fs::create_dir(folder).unwrap();
        }
        sweep(dir.path());
        assert_eq!([&alive, &dead, &other].map(|folder| folder.exists()), [true, false, true]);
    }
}
