//! One program of a cell: how it is started, what it is told by files, what it leaves.

use super::children::Child;
use super::result::Timed;
use anyhow::{Context, Result, bail};
use duct::cmd;
use protocol::Priority;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use workloads::profile::ProfileSet;

/// How much of a program's stderr is kept of a failure: its last lines, and of them so many characters.
const LAST_LINES: usize = 8;
const LAST_CHARS: usize = 800;

/// The folder of the cell's daemon, below its private one.
pub const DAEMON: &str = "run";

/// What the jobs of a cell have in common.
pub struct Setting<'a> {
    /// The folder of `tally`.
    pub tools: &'a Path,
    /// The cell's private folder.
    pub scratch: &'a Path,
    pub uuid: &'a str,
    /// `None`: programs run as they are, without the runtime.
    pub policy: Option<&'a str>,
    pub stack: ProfileSet,
}

impl Setting<'_> {
    fn go(&self) -> PathBuf {
        self.scratch.join("go")
    }

    fn stop(&self) -> PathBuf {
        self.scratch.join("stop")
    }

    /// Lets all jobs begin.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn give_go(&self) -> Result<()> {
        fs::write(self.go(), "").context("cannot let the programs begin")
    }

    /// Tells trainings to end after their iteration.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn give_stop(&self) -> Result<()> {
        fs::write(self.stop(), "").context("cannot tell the programs to end")
    }
}

/// What a program does once it is warm.
pub enum Loop<'a> {
    Closed { requests: u64, seconds: f64 },
    Paced { arrivals_ns: &'a [u64], seconds: f64 },
    Training { seconds: f64 },
}

/// The user's own settings of the runtime: a cell's key does not know them, so they must not matter.
fn settings() -> impl Iterator<Item = OsString> {
    let names = std::env::vars_os().map(|(name, _)| name);
    names.filter(|name| name.to_string_lossy().starts_with("TALLY_"))
}

/// A started program.
pub struct Job {
    child: Child,
    name: String,
    priority: Priority,
    /// What its files begin with.
    prefix: PathBuf,
}

impl Job {
    /// Starts the program of a workload, `index` of the cell.
    ///
    /// # Errors
    /// A file cannot be written, or the program cannot be started.
    pub fn start(
        setting: &Setting,
        index: usize,
        priority: Priority,
        id: &str,
        program: &Path,
        busy_share: Option<f64>,
        work: &Loop,
    ) -> Result<Job> {
        let prefix = setting.scratch.join(format!("{index}"));
        let file = |extension: &str| prefix.with_extension(extension);
        let mut arguments: Vec<OsString> = vec![program.into()];
        let mut add = |name: &str, value: OsString| arguments.extend([OsString::from(name), value]);
        let seconds = match work {
            Loop::Closed { requests, seconds } => {
                add("--mode", "closed".into());
                add("--units", requests.to_string().into());
                seconds
            }
            Loop::Paced { arrivals_ns, seconds } => {
                let times: Vec<f64> = arrivals_ns.iter().map(|ns| *ns as f64 / 1e9).collect();
                fs::write(file("arrivals"), serde_json::to_vec(&times)?).context("cannot write arrivals")?;
                add("--mode", "paced".into());
                add("--arrivals", file("arrivals").into());
                seconds
            }
            Loop::Training { seconds } => {
                add("--mode", "train".into());
                seconds
            }
        };
        add("--seconds", seconds.to_string().into());
        for (name, path) in [("--ready", file("ready")), ("--out", file("json"))] {
            add(name, path.into());
        }
        add("--go", setting.go().into());
        add("--stop", setting.stop().into());
        if setting.stack == ProfileSet::Artifact {
            add("--stack", "artifact".into());
        }
        if let Some(share) = busy_share {
            add("--busy-share", share.to_string().into());
        }
        let command = match setting.policy {
            None => {
                let command = cmd("python3", arguments).env("CUDA_VISIBLE_DEVICES", setting.uuid);
                match probe::nvidia::mps_folder() {
                    // Else it would go through somebody else's MPS daemon; there is none in this folder.
                    Some(_) => command.env("CUDA_MPS_PIPE_DIRECTORY", setting.scratch.join("no-mps")),
                    None => command,
                }
            }
            Some(policy) => {
                let reports = file("reports");
                fs::create_dir(&reports).context("cannot make a folder for reports")?;
                let mut run: Vec<OsString> = vec!["run".into(), "--quiet".into()];
                let mut add = |name: &str, value: OsString| run.extend([OsString::from(name), value]);
                add("--priority", priority.name().into());
                add("--policy", policy.into());
                add("--gpu", setting.uuid.into());
                add("--report", reports.into());
                // A daemon for this cell alone: it ends with the cell's last program.
                add("--dir", setting.scratch.join(DAEMON).into());
                run.extend(["--".into(), "python3".into()]);
                let command = cmd(setting.tools.join("tally"), run.into_iter().chain(arguments));
                // Durations of this cell's own: what an earlier one measured would make a difference. What is said first
                // counts.
                let command = command.env("TALLY_PROFILES", setting.scratch.join("profiles"));
                settings().fold(command, |command, name| command.env_remove(name))
            }
        };
        let command = command.stdin_null().stdout_path(file("out")).stderr_path(file("err"));
        let name = format!("`{id}` ({priority})");
        let child = Child::start(&command).with_context(|| format!("cannot start {name}"))?;
        Ok(Job { child, name, priority, prefix })
    }

    /// For messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// As it was started.
    pub fn priority(&self) -> Priority {
        self.priority
    }

    /// Whether it is warm and waits.
    pub fn is_ready(&self) -> bool {
        self.prefix.with_extension("ready").exists()
    }

    /// The folder of the runtime's reports on it.
    pub fn reports(&self) -> PathBuf {
        self.prefix.with_extension("reports")
    }

    /// Whether it ended well; `None` while it runs.
    ///
    /// # Errors
    /// It failed, with the end of its stderr.
    pub fn has_ended(&self) -> Result<Option<()>> {
        let Some(output) = self.child.ended()? else { return Ok(None) };
        if output.status.success() {
            return Ok(Some(()));
        }
        bail!("{} ended with {}: {}", self.name, output.status, self.last_words())
    }

    /// # Errors
    /// It failed. One that has ended well is no failure.
    pub fn has_not_failed(&self) -> Result<()> {
        self.has_ended().map(|_| ())
    }

    /// # Errors
    /// It does not run any more.
    pub fn runs(&self) -> Result<()> {
        match self.has_ended()? {
            None => Ok(()),
            Some(()) => bail!("{} ended before it was told to begin: {}", self.name, self.last_words()),
        }
    }

    /// What it measured.
    ///
    /// # Errors
    /// See [`Timed::read`].
    pub fn result(&self) -> Result<Timed> {
        Timed::read(&self.prefix.with_extension("json"))
    }

    /// The end of its stderr, in one line.
    pub fn last_words(&self) -> String {
        let bytes = bounded::bytes(&self.prefix.with_extension("err"), bounded::TABLE).unwrap_or_default();
        last_words(&String::from_utf8_lossy(&bytes))
    }
}

fn last_words(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let tail = lines[lines.len().saturating_sub(LAST_LINES)..].join(" | ");
    let skip = tail.chars().count().saturating_sub(LAST_CHARS);
    let kept: String = tail.chars().skip(skip).filter(|c| !c.is_control()).collect();
    match (kept.is_empty(), skip) {
        (true, _) => "nothing on stderr".to_owned(),
        (_, 0) => kept,
        _ => format!("... {kept}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_stderr_in_one_line() {
        assert_eq!(last_words(" \n"), "nothing on stderr");
        assert_eq!(last_words("a\n\n b\u{1b}[0m\n"), "a | b[0m");
        let long: String = (0..100).map(|k| format!("line {k}\n")).collect();
        assert_eq!(
            last_words(&long),
            "line 92 | line 93 | line 94 | line 95 | line 96 | line 97 | line 98 | line 99"
        );
        assert_eq!(last_words(&"x".repeat(900)), format!("... {}", "x".repeat(800)));
    }
}
