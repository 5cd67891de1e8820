//! Starts a program, with or without the runtime around it, and waits with a limit.

use crate::interrupt;
use crate::setup::Setup;
use anyhow::{Context, Result, bail};
use protocol::Priority;
use protocol::message::Status;
use protocol::report::Report;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::ffi::{OsStr, OsString};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How the library gets into a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Preload,
    Shim,
}

/// What `tally run` is told.
#[derive(Clone, Debug)]
pub struct Tally {
    pub priority: Priority,
    pub policy: String,
    /// The daemon's folder; programs that share a device share it.
    pub dir: PathBuf,
    pub report: PathBuf,
    pub way: Way,
}

impl Tally {
    /// The arguments of `tally` before those of the program.
    fn arguments(&self, setup: &Setup) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = vec!["run".into()];
        let mut add = |name: &str, value: &OsStr| arguments.extend([name.into(), value.to_owned()]);
        add("--priority", self.priority.name().as_ref());
        add("--policy", self.policy.as_ref());
        add("--gpu", setup.gpu_argument().as_ref());
        add("--dir", self.dir.as_ref());
        add("--report", self.report.as_ref());
        if self.way == Way::Shim {
            arguments.push("--shim".into());
        }
        arguments.extend(["--quiet".into(), "--".into()]);
        arguments
    }
}

/// A program that was started; killed with all its children when dropped.
#[derive(Debug)]
pub struct Program {
    child: Child,
    name: String,
    log: PathBuf,
    began: Instant,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ended {
    /// As in a shell: 128 + signal.
    pub code: i32,
    pub seconds: f64,
}

impl Program {
    /// Starts one in a process group of its own; its output goes to a file of its name.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(
        setup: &Setup,
        name: &str,
        tally: Option<&Tally>,
        program: &Path,
        arguments: &[OsString],
    ) -> Result<Program> {
        let mut command = match tally {
            None => {
                let mut command = Command::new(program);
                if let Some(gpu) = &setup.gpu {
                    command.env("CUDA_VISIBLE_DEVICES", &gpu.uuid);
                }
                if doctor::probe::nvidia::mps_folder().is_some() {
                    // Else it would go through somebody else's MPS daemon; there is none in this folder.
                    command.env("CUDA_MPS_PIPE_DIRECTORY", setup.scratch().join("no-mps"));
                }
                command
            }
            Some(tally) => {
                let mut command = Command::new(setup.tools.join("tally"));
                command.args(tally.arguments(setup)).arg(program);
                // Durations that earlier checks measured would hide what a first start costs.
                command.env("TALLY_PROFILES", setup.folder("profiles")?);
                command
            }
        };
        command.args(arguments);
        Program::spawn(setup, name, command)
    }

    /// Starts a command that is ready.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn spawn(setup: &Setup, name: &str, mut command: Command) -> Result<Program> {
        let log = setup.folder("logs")?.join(format!("{name}.log"));
        let file = std::fs::File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).process_group(0);
        let shown = command.get_program().to_string_lossy().into_owned();
        let child = interrupt::remember(|| {
            let child = command.spawn().with_context(|| format!("cannot start {shown}"))?;
            Ok((child.id(), child))
        })?;
        Ok(Program { child, name: name.to_owned(), log, began: Instant::now() })
    }

    /// How it ended, if it has.
    ///
    /// # Errors
    /// The system does not tell.
    pub fn ended(&mut self) -> Result<Option<Ended>> {
        let Some(status) = self.child.try_wait()? else { return Ok(None) };
        interrupt::forget(self.child.id());
        let code = status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(1);
        Ok(Some(Ended { code, seconds: self.began.elapsed().as_secs_f64() }))
    }

    /// Waits for its end; after the limit it is killed.
    ///
    /// # Errors
    /// It did not end in time; the message has the end of its output.
    pub fn wait(&mut self, limit: Duration) -> Result<Ended> {
        match until(limit, || self.ended().transpose()) {
            Some(ended) => ended,
            None => {
                self.kill();
                bail!("{} did not end within {:.0} s; {}", self.name, limit.as_secs_f64(), self.tail())
            }
        }
    }

    /// Waits for its end and wants exit code 0.
    ///
    /// # Errors
    /// As [`Program::wait`], or another exit code.
    pub fn succeed(&mut self, limit: Duration) -> Result<Ended> {
        let ended = self.wait(limit)?;
        if ended.code != 0 {
            bail!("{} ended with code {}; {}", self.name, ended.code, self.tail());
        }
        Ok(ended)
    }

    /// Asks it to end; kills it after the limit.
    pub fn stop(&mut self, grace: Duration) {
        if let (Ok(None), Some(pid)) = (self.ended(), pid(self.child.id())) {
            let _ = kill_process(pid, Signal::TERM);
            until(grace, || self.ended().transpose());
        }
        self.kill();
    }

    /// Kills it and what it started.
    pub fn kill(&mut self) {
        // Only while it has not been waited for is the number surely its own.
        if let (Ok(None), Some(pid)) = (self.ended(), pid(self.child.id())) {
            let _ = kill_process_group(pid, Signal::KILL);
            let _ = self.child.wait();
            interrupt::forget(self.child.id());
        }
    }

    /// All that it printed.
    pub fn output(&self) -> String {
        bounded::text(&self.log, bounded::TABLE).unwrap_or_default()
    }

    /// The last lines that it printed, on one line.
    pub fn tail(&self) -> String {
        let output = self.output();
        let lines: Vec<&str> = output.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let last = &lines[lines.len().saturating_sub(4)..];
        if last.is_empty() {
            "it printed nothing".to_owned()
        } else {
            format!("it printed: {}", last.join(" | "))
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Waits for something to be there, looking every millisecond.
pub fn until<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + limit;
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if Instant::now() >= end {
            return None;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A process number for the system's calls.
pub fn pid(number: u32) -> Option<Pid> {
    i32::try_from(number).ok().and_then(Pid::from_raw)
}

/// The reports in a folder; what is no report is an error, so that none is lost silently.
///
/// # Errors
/// The folder or a file cannot be read.
pub fn reports(folder: &Path) -> Result<Vec<Report>> {
    let mut found = Vec::new();
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            found.push(Report::read(&path).with_context(|| format!("{} is no report", path.display()))?);
        }
    }
    Ok(found)
}

/// The report of the process that launched most: a program may have helpers that only register.
pub fn main_report(folder: &Path) -> Result<Option<Report>> {
    Ok(reports(folder)?.into_iter().max_by_key(launches))
}

/// Launches that the hooks saw: decided on, passed on, or, of a high-priority client, counted by entry point.
pub fn launches(report: &Report) -> u64 {
    let counted: u64 =
        report.calls.iter().filter(|(name, _)| name.contains("Launch")).map(|(_, count)| count).sum();
    counted.max(report.admitted + report.passed.values().sum::<u64>())
}

/// What the daemon of a folder says of itself and its clients.
///
/// # Errors
/// It does not answer, or not as this version does.
pub fn status(setup: &Setup, dir: &Path) -> Result<Status> {
    let tally = setup.tools.join("tally").to_string_lossy().into_owned();
    let dir = dir.to_string_lossy();
    let answer =
        doctor::probe::ask_within(&tally, &["status", "--json", "--dir", &dir], Duration::from_secs(5))
            .map_err(|silence| anyhow::anyhow!("tally status: {silence:?}"))?;
    if !answer.success {
        bail!("tally status --dir {dir}: {}", answer.line());
    }
    let all: Vec<Status> = serde_json::from_str(&answer.out)
        .with_context(|| format!("tally status --json answered {}", answer.line()))?;
    all.into_iter().next().with_context(|| format!("no daemon in {dir}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::process::Process;
    use protocol::report::{Ended as End, Mode};

    #[test]
    fn launches_are_counted_once() {
        let mut report =
            Report::new(Process { pid: 1, start: 2 }, Priority::BestEffort, Mode::Scheduled, End::Exit);
        report.calls.insert("cuLaunchKernel".to_owned(), 7);
        report.calls.insert("cuGraphLaunch".to_owned(), 2);
        report.calls.insert("cuMemcpyAsync".to_owned(), 100);
        report.admitted = 5;
        report.passed.insert("capturing".to_owned(), 3);
        assert_eq!(launches(&report), 9);
        report.admitted = 50;
        assert_eq!(launches(&report), 53);
        let folder = tempfile::tempdir().unwrap();
        assert!(main_report(folder.path()).unwrap().is_none());
        report.write(folder.path()).unwrap();
        let idle = Report::new(Process { pid: 9, start: 2 }, Priority::High, Mode::Observed, End::Exit);
        idle.write(folder.path()).unwrap();
        assert_eq!(main_report(folder.path()).unwrap().unwrap().process.pid, 1);
        std::fs::write(folder.path().join("x.json"), "{").unwrap();
        assert!(format!("{:#}", reports(folder.path()).unwrap_err()).contains("x.json is no report"));
    }
}
