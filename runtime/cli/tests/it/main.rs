//! `tally` as a process, with daemons that it starts and programs that register as interposed ones do.

// The stand-ins of the daemon's tests; not every one is used in both.
#[allow(dead_code)]
#[path = "../../../daemon/tests/it/client.rs"]
mod client;
#[allow(dead_code)]
#[path = "../../../daemon/tests/it/fake.rs"]
mod fake;
mod mps;
mod run;

use client::until;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;

/// `tally`, `tallyd` and a library to preload in one folder, as they are installed. The library of the runtime is not
/// needed here: the programs of these tests speak with the daemon themselves.
fn tools() -> &'static Path {
    static TOOLS: OnceLock<PathBuf> = OnceLock::new();
    TOOLS.get_or_init(|| {
        let tally = Path::new(env!("CARGO_BIN_EXE_tally"));
        let folder = tally.parent().unwrap();
        // Into the folder of this build, whatever its profile is.
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--package", "daemon", "--bin", "tallyd", "--target-dir"]);
        build.arg(folder.parent().unwrap());
        if folder.ends_with("release") {
            build.arg("--release");
        }
        let built = build.status().unwrap();
        assert!(built.success(), "tallyd cannot be built");
        assert!(folder.join("tallyd").is_file());
        folder.to_owned()
    })
}

/// A home of its own for each test.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Home {
        tools();
        Home(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A command with the folders of this home.
    fn tally(&self, arguments: &[&str]) -> Command {
        let library = self.file("library.so");
        if !library.exists() {
            // Something that the loader loads into any program.
            let text = self.file("library.c");
            fs::write(&text, "int tally_test_library;\n").unwrap();
            let built = Command::new("cc").args(["-shared", "-o"]).arg(&library).arg(&text).status();
            assert!(built.unwrap().success(), "cc cannot make a shared library");
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_tally"));
        command.args(arguments).env("TALLY_DIR", self.file("d")).env("TALLY_LIBRARY", library);
        command.env("TALLY_PROFILES", self.file("profiles"));
        for other in ["CUDA_VISIBLE_DEVICES", "LD_PRELOAD", "TALLY_SOCKET", "TALLY_REPORT", "TALLY_PRIORITY"]
        {
            command.env_remove(other);
        }
        command
    }

    /// `tally run` without a device; its program is a client with these steps.
    fn run(&self, flags: &[&str], steps: &str) -> Command {
        let mut command = self.tally(&["run", "--gpu", "none"]);
        command.args(flags).arg("--").arg(std::env::current_exe().unwrap()).args(client::arguments());
        command.env("CLIENT_DO", steps);
        command
    }

    /// Waits until the daemon that was started has ended by itself and left nothing.
    fn is_left_clean(&self) {
        let folder = self.file("d");
        until("a clean folder", || {
            let names = fake::names(&folder);
            names.iter().all(|name| name.ends_with(".log")).then_some(())
        });
    }

    fn status(&self) -> String {
        let output = self.tally(&["status", "--json"]).output().unwrap();
        text(&output.stdout)
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn said(output: &Output) -> String {
    text(&output.stderr)
}

/// A signal to a child that is not waited for yet.
fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// The number that a client process wrote into a file.
fn number(path: &Path) -> u32 {
    until("a file with a number", || fs::read_to_string(path).ok()?.trim().parse().ok())
}
