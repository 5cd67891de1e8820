//! The daemon as a process, with clients that are processes.

mod client;
mod clients;
mod fake;
mod mps;
mod starting;

use client::{Client, LIMIT, until};
use fake::Fake;
use protocol::VERSION;
use protocol::message::{Channel, Reply, Request, Status};
use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

/// A daemon in a folder of its own.
struct Daemon {
    child: Child,
    socket: PathBuf,
    home: PathBuf,
}

/// The command of a daemon in a folder.
fn tallyd(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tallyd"));
    command.arg("--dir").arg(home.join("d")).args(arguments);
    command.env("TALLY_PROFILES", home.join("profiles"));
    command.env_remove("CUDA_VISIBLE_DEVICES").stderr(Stdio::piped());
    command
}

impl Daemon {
    /// Starts one without a device and waits until it answers.
    fn start(home: &Path, arguments: &[&str]) -> Daemon {
        let mut command = tallyd(home, arguments);
        command.args(["--gpu", "none"]);
        Daemon::of(command, home, "default")
    }

    fn of(mut command: Command, home: &Path, name: &str) -> Daemon {
        let mut child = command.stderr(Stdio::inherit()).spawn().unwrap();
        let socket = home.join(format!("d/{name}.sock"));
        until("the daemon", || {
            assert!(child.try_wait().unwrap().is_none(), "the daemon has ended");
            Channel::connect(&socket).ok()
        });
        Daemon { child, socket, home: home.to_owned() }
    }

    fn client(&self, priority: &str, steps: &str) -> Client {
        let mut command = client::command(steps);
        command.env("TALLY_SOCKET", &self.socket).env("TALLY_PRIORITY", priority);
        command.env("TALLY_REPORT", self.reports());
        Client::start(command)
    }

    /// Where its clients' reports go.
    fn reports(&self) -> PathBuf {
        let folder = self.home.join("reports");
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn status(&self) -> Status {
        let channel = Channel::connect(&self.socket).unwrap();
        match channel.ask(&Request::Status { version: VERSION }, &[], LIMIT).unwrap() {
            (Reply::Status(status), _) => status,
            (other, _) => panic!("{other:?}"),
        }
    }

    fn end(mut self) -> ExitStatus {
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        self.child.wait().unwrap()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Cleanly, so that no fake MPS stays.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let _ = self.child.wait();
    }
}

/// What a daemon that does not start says.
fn refusal(mut command: Command) -> String {
    let output = command.output().unwrap();
    assert!(matches!(output.status.code(), Some(1 | 3)), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}
