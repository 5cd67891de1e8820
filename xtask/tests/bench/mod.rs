//! A copy of `xtask` among stand-ins for everything that it starts.

// Each test binary uses a part of it.
#![allow(dead_code)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tempfile::TempDir;

/// A copy of the binary beside stand-ins that write what they were called with to `calls`.
pub struct Bench {
    folder: TempDir,
    _turn: MutexGuard<'static, ()>,
}

/// One test at a time: a process that another test forks while a stand-in is being written would keep it open, and it
/// could not be started ("text file busy").
static TURN: Mutex<()> = Mutex::new(());

impl Bench {
    pub fn new() -> Bench {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let bench = Bench { folder: tempfile::tempdir().unwrap(), _turn: turn };
        fs::copy(env!("CARGO_BIN_EXE_xtask"), bench.path("xtask")).unwrap();
        fs::create_dir(bench.path("bin")).unwrap();
        bench.script("cargo", "echo cargo \"$@\" >> calls; echo building >&2");
        bench.script("artifact", "echo artifact \"$@\" >> calls; echo cells");
        bench.script("figures", "echo figures \"$@\" >> calls; echo pictures");
        bench.script("fetch", "echo fetch \"$@\" >> calls; echo data");
        bench
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn script(&self, name: &str, body: &str) {
        let path = self.path(name);
        fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    pub fn nvidia_smi(&self, body: &str) {
        self.script("bin/nvidia-smi", body);
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.path("xtask"));
        command.current_dir(self.folder.path()).args(arguments);
        command.env("PATH", self.path("bin")).env("CARGO", self.path("cargo"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Exit code, lines of stdout, stderr.
    pub fn run(&self, arguments: &[&str]) -> (i32, Vec<String>, String) {
        answer(self.command(arguments).output().unwrap())
    }

    pub fn calls(&self) -> String {
        let calls = fs::read_to_string(self.path("calls")).unwrap_or_default();
        let _ = fs::remove_file(self.path("calls"));
        calls
    }
}

/// Exit code, lines of stdout, stderr.
pub fn answer(output: Output) -> (i32, Vec<String>, String) {
    let out = String::from_utf8(output.stdout).unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    (output.status.code().unwrap(), out.lines().map(str::to_owned).collect(), err)
}
