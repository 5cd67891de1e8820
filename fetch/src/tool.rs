//! Starts other people's tools: no shell, no input, a time limit, and their output as bytes to be judged.

use crate::sniff::one_line;
use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel, sync_channel};
use std::time::{Duration, Instant};

/// How a tool ended.
#[derive(Debug)]
pub struct Ended {
    pub success: bool,
    /// E.g. `exit status: 2`, with the last line that it wrote to stderr.
    pub how: String,
}

/// How much of stderr is kept.
const LAST_WORDS: usize = 4096;

/// The tool of this name in these folders.
pub fn find(name: &str, path: &OsStr) -> Option<PathBuf> {
    std::env::split_paths(path)
        // A relative folder would make it depend on where the command is started.
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|file| is_executable(file))
}

#[cfg(unix)]
fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(file).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(file: &Path) -> bool {
    file.is_file()
}

/// Runs it to its end, or to the limit. Each block that it writes to stdout goes to `take`, whose error ends it.
pub fn run<E>(
    command: &mut Command,
    limit: Duration,
    mut take: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<Ended, RunError<E>> {
    let deadline = Instant::now() + limit;
    command.env("LC_ALL", "C").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = Running(command.spawn().map_err(RunError::Start)?);
    let blocks = read_blocks(child.0.stdout.take());
    let last_words = read_last_words(child.0.stderr.take());
    let late = || RunError::Late(limit);
    loop {
        match blocks.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(block) => take(&block).map_err(RunError::Taken)?,
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => return Err(late()),
        }
    }
    let status = loop {
        match child.0.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() >= deadline => return Err(late()),
            Ok(None) => std::thread::sleep(Duration::from_millis(5)),
            Err(error) => return Err(RunError::Start(error)),
        }
    };
    // A grandchild may keep the pipe open; its words are not worth waiting for.
    let words = last_words.recv_timeout(Duration::from_secs(1)).unwrap_or_default();
    let words = String::from_utf8_lossy(&words);
    let last = words.lines().map(one_line).rfind(|line| !line.is_empty());
    let how = match last {
        Some(line) => format!("{status}, \"{line}\""),
        None => status.to_string(),
    };
    Ok(Ended { success: status.success(), how })
}

/// Why a tool didn't come to its end.
#[derive(Debug)]
pub enum RunError<E> {
    Start(std::io::Error),
    Late(Duration),
    Taken(E),
}

/// A child that doesn't outlive this.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // After its end both do nothing.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn read_blocks(stdout: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = sync_channel(8);
    std::thread::spawn(move || {
        let Some(mut stdout) = stdout else { return };
        let mut block = vec![0; 1 << 16];
        while let Ok(n @ 1..) = stdout.read(&mut block) {
            if sender.send(block[..n].to_vec()).is_err() {
                return;
            }
        }
    });
    receiver
}

fn read_last_words(stderr: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let Some(mut stderr) = stderr else { return };
        let (mut kept, mut block) = (Vec::new(), vec![0; LAST_WORDS]);
        while let Ok(n @ 1..) = stderr.read(&mut block) {
            kept.extend_from_slice(&block[..n]);
            kept.drain(..kept.len().saturating_sub(LAST_WORDS));
        }
        let _ = sender.send(kept);
    });
    receiver
}
