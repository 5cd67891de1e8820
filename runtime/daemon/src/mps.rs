//! NVIDIA MPS: a control daemon with folders of its own, so that one that somebody else runs is neither used nor touched.
//!
//! Everything is learned by asking the control tool, never by waiting for a time that should suffice.

use crate::{place, processes};
use anyhow::{Context, Result, anyhow, bail, ensure};
use probe::Answer;
use std::fs::{self, DirBuilder, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const CONTROL: &str = "nvidia-cuda-mps-control";
const SERVER: &str = "nvidia-cuda-mps-server";
const PIPE: &str = "CUDA_MPS_PIPE_DIRECTORY";
const LOG: &str = "CUDA_MPS_LOG_DIRECTORY";
/// The longest that one command may take.
const ANSWER: Duration = Duration::from_secs(5);
/// Between two questions.
const STEP: Duration = Duration::from_millis(50);
/// The longest that a control daemon may take to become ready, and to end.
pub const START: Duration = Duration::from_secs(30);
const END: Duration = Duration::from_secs(10);
/// Of its log, when it does not become ready.
const LINES: usize = 20;

/// A control daemon, running or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mps {
    folder: PathBuf,
    pipe: PathBuf,
    log: PathBuf,
}

impl Mps {
    /// The one whose folders are in this folder.
    pub fn at(folder: &Path) -> Mps {
        Mps { folder: folder.to_owned(), pipe: folder.join("pipe"), log: folder.join("log") }
    }

    /// What its clients need in their environment.
    pub fn environment(&self) -> Vec<(String, String)> {
        [(PIPE, &self.pipe), (LOG, &self.log)]
            .map(|(name, path)| (name.to_owned(), path.to_string_lossy().into_owned()))
            .to_vec()
    }

    /// Starts it for the device of this UUID and waits until it answers.
    ///
    /// # Errors
    /// It cannot be started, is another user's, or does not answer within `limit`; with its folder, the user, and the end
    /// of its log. Nothing of it is left then.
    pub fn start(&self, uuid: Option<&str>, limit: Duration) -> Result<()> {
        // The longest name that it makes a socket of.
        place::check_socket_path(&self.pipe.join("control_privileged"))?;
        for folder in [&self.folder, &self.pipe, &self.log] {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(folder)
                .with_context(|| format!("cannot make {}", folder.display()))?;
        }
        self.start_in_folders(uuid, limit).map_err(|error| {
            let text = self.explain(&error.to_string());
            self.stop();
            anyhow!(text)
        })
    }

    fn start_in_folders(&self, uuid: Option<&str>, limit: Duration) -> Result<()> {
        let end = Instant::now() + limit;
        // Into a file: the daemon keeps what it is given, and a pipe would stay open for as long as it lives.
        let output = self.log.join("start.log");
        let file = File::create(&output).with_context(|| format!("cannot write {}", output.display()))?;
        let mut command = self.control();
        if let Some(uuid) = uuid {
            command.env("CUDA_VISIBLE_DEVICES", uuid);
        }
        let mut child = command
            .arg("-d")
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .map_err(|error| match error.kind() {
                std::io::ErrorKind::NotFound => anyhow!(
                    "there is no {CONTROL} on PATH; it comes with the driver (Debian, Ubuntu: package nvidia-cuda-mps or \
                     nvidia-compute-utils-*). Policies without MPS, such as gate, do not need it"
                ),
                _ => anyhow!("{CONTROL} cannot be started: {error}"),
            })?;
        let status = loop {
            match child.try_wait()? {
                Some(status) => break status,
                None if Instant::now() < end => std::thread::sleep(STEP),
                None => {
                    let _ = child.kill();
                    let _ = child.wait();
                    bail!("{CONTROL} -d did not end within {} s", limit.as_secs_f64());
                }
            }
        };
        let said = fs::read_to_string(&output).unwrap_or_default();
        ensure!(status.success(), "{CONTROL} -d failed ({status}): {}", said.trim());
        let mut last = loop {
            match self
                .ask("get_server_list", ANSWER.min(end.saturating_duration_since(Instant::now()) + STEP))
            {
                Ok(_) => return self.check_user(),
                Err(error) if Instant::now() >= end => break error.to_string(),
                Err(_) => std::thread::sleep(STEP),
            }
        };
        last.insert_str(0, &format!("{CONTROL} did not become ready within {} s: ", limit.as_secs_f64()));
        bail!(last)
    }

    /// A control daemon of another user answers, and keeps the clients of this one waiting for ever.
    fn check_user(&self) -> Result<()> {
        let Some(pid) = self.pid() else { return Ok(()) };
        let Ok(found) = fs::metadata(format!("/proc/{pid}")) else { return Ok(()) };
        let (owner, uid) = (found.uid(), place::uid());
        ensure!(
            owner == uid,
            "the control daemon (process {pid}) belongs to user {owner}, and clients of user {uid} would wait for ever"
        );
        Ok(())
    }

    /// The control daemon's number, which it writes into its folder.
    fn pid(&self) -> Option<u32> {
        bounded::text(&self.pipe.join("nvidia-cuda-mps-control.pid"), 64).ok()?.trim().parse().ok()
    }

    fn control(&self) -> Command {
        let mut command = Command::new(CONTROL);
        command.env(PIPE, &self.pipe).env(LOG, &self.log);
        command
    }

    /// Gives one command to the control tool.
    ///
    /// # Errors
    /// It failed, with what it said, or did not answer within `limit`.
    pub fn ask(&self, command: &str, limit: Duration) -> Result<String> {
        match probe::run(&mut self.control(), &format!("{command}\n"), limit) {
            // It says this with status 0 in some versions.
            Ok(Answer { success: true, out, .. }) if !out.contains("Cannot find MPS control daemon") => {
                Ok(out)
            }
            Ok(answer) => bail!("`{command}`: {}", answer.line()),
            Err(probe::Silence::Absent) => bail!("there is no {CONTROL} on PATH"),
            Err(probe::Silence::Broken(why)) => bail!("`{command}`: {why}"),
        }
    }

    /// Each server with its clients.
    ///
    /// # Errors
    /// The control daemon does not answer.
    pub fn clients(&self) -> Result<Vec<(u32, Vec<u32>)>> {
        let numbers = |text: &str| -> Vec<u32> {
            text.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect()
        };
        let servers = numbers(&self.ask("get_server_list", ANSWER)?);
        servers
            .into_iter()
            .map(|server| Ok((server, numbers(&self.ask(&format!("get_client_list {server}"), ANSWER)?))))
            .collect()
    }

    /// Takes these processes off the device where they are clients, so that they can be killed without harm to the
    /// others. Returns those that were.
    ///
    /// # Errors
    /// The control daemon does not answer.
    pub fn terminate(&self, pids: &[u32]) -> Result<Vec<u32>> {
        let mut terminated = Vec::new();
        for (server, clients) in self.clients()? {
            for client in clients.into_iter().filter(|client| pids.contains(client)) {
                self.ask(&format!("terminate_client {server} {client}"), END)?;
                terminated.push(client);
            }
        }
        Ok(terminated)
    }

    /// Ends what a daemon that was killed has left behind.
    ///
    /// # Errors
    /// Programs still use it, named by their process numbers.
    pub fn clean_up(&self) -> Result<()> {
        if !self.folder.exists() {
            return Ok(());
        }
        let servers = self.clients().unwrap_or_default();
        let used: Vec<String> = servers.iter().flat_map(|(_, clients)| clients).map(u32::to_string).collect();
        ensure!(
            used.is_empty(),
            "programs still use the MPS of a tallyd that was killed; end these processes first: {}",
            used.join(", ")
        );
        self.stop();
        Ok(())
    }

    /// Ends it and its servers, by asking and then by signals to processes that have our folder in their environment, and
    /// removes its folders. Never fails: what is left is said.
    pub fn stop(&self) {
        // Also where the folder has gone: somebody may have removed it while the processes ran.
        let processes = || -> Vec<u32> {
            let pipe = self.pipe.to_string_lossy();
            let mut found = processes::with_variable(CONTROL, PIPE, &pipe);
            found.extend(processes::with_variable(SERVER, PIPE, &pipe));
            // One that has cleared its environment.
            found.extend(self.pid().filter(|pid| processes::is_named(*pid, CONTROL)));
            found.sort_unstable();
            found.dedup();
            found
        };
        if !processes().is_empty() {
            let asked = self.ask("quit", END);
            let end = Instant::now() + if asked.is_ok() { END } else { Duration::ZERO };
            while !processes().is_empty() && Instant::now() < end {
                std::thread::sleep(STEP);
            }
        }
        for signal in [rustix::process::Signal::TERM, rustix::process::Signal::KILL] {
            let left = processes();
            for pid in &left {
                if let Some(pid) = rustix::process::Pid::from_raw(*pid as i32) {
                    let _ = rustix::process::kill_process(pid, signal);
                }
            }
            let end = Instant::now() + Duration::from_secs(2);
            while !left.is_empty() && !processes().is_empty() && Instant::now() < end {
                std::thread::sleep(STEP);
            }
        }
        let left = processes();
        if left.is_empty() {
            // Absent where the policy has no MPS.
            let _ = fs::remove_dir_all(&self.folder);
        } else {
            say!(
                "tally: MPS processes that do not end: {left:?}; their folder stays: {}",
                self.folder.display()
            );
        }
    }

    /// A failure with all that tells why (what a bug report would be asked for).
    fn explain(&self, error: &str) -> String {
        let modes = match probe::nvidia::devices() {
            Ok(devices) => devices
                .iter()
                .map(|device| format!("{} {}", device.uuid, device.compute_mode))
                .collect::<Vec<_>>()
                .join(", "),
            Err(why) => why,
        };
        let log = self.log.join("control.log");
        let lines = match end_of(&log) {
            Ok(text) => {
                let lines: Vec<&str> = text.lines().collect();
                let last = &lines[lines.len().saturating_sub(LINES)..];
                last.iter().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
            }
            Err(error) => format!("    {error}"),
        };
        format!(
            "MPS: {error}\n  pipe folder: {}\n  user: {}\n  compute mode: {modes}\n  end of {}:\n{lines}",
            self.pipe.display(),
            place::uid(),
            log.display(),
        )
    }
}

/// The last 64 KiB of a file.
fn end_of(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(64 << 10)))?;
    let mut bytes = Vec::new();
    file.take(64 << 10).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
