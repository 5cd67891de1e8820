//! A repository with two experiments and three workloads, and the binary in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// Six systems, two loads, one pair: 2 solo cells without arrivals, 2 with, and 10 pairs.
pub const CELLS: usize = 14;

const EXPERIMENT: &str = r#"
id = "ID"
title = "A test"
reason = "Tests."
upstream_counterpart = "None."
default = true
expected_minutes = 0.1
systems = ["no-sharing", "time-slicing", "mps", "mps-priority", "tally", "gate"]
inference = ["server"]
training = ["trainer"]
loads = [0.3, 0.5]
seeds = [1]
trace = "poisson"
[span]
min_seconds = 2
min_requests = 100
[quick]
inference = ["server"]
training = ["trainer"]
span = { min_seconds = 1, min_requests = 100 }
"#;

const WORKLOAD: &str = r#"
id = "ID"
kind = "KIND"
paper_name = "None"
upstream_actual = "none"
ours = "none"
differences = []
shapes = "none"
batch = 1
precision = "none"
reason = "Tests."
source = "none"
program = "program.py"
segments = { all = 1 }
artifact = { profile = "same", reason = "a fixture" }
"#;

/// A repository in a temporary folder.
pub struct Repository {
    folder: TempDir,
}

impl Repository {
    pub fn new() -> Repository {
        let repository = Repository { folder: tempfile::tempdir().unwrap() };
        repository.write("artifact/experiments/one.toml", &EXPERIMENT.replace("ID", "one"));
        for (id, kind) in [("server", "inference"), ("trainer", "training")] {
            let text = WORKLOAD.replace("ID", id).replace("KIND", kind);
            repository.write(&format!("workloads/{id}/workload.toml"), &text);
        }
        let machine = concat!(env!("CARGO_MANIFEST_DIR"), "/../machines/h200.toml");
        repository.write("machines/h200.toml", &fs::read_to_string(machine).unwrap());
        repository
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub fn replace(&self, name: &str, from: &str, to: &str) {
        let text = fs::read_to_string(self.path(name)).unwrap();
        assert!(text.contains(from), "{text}");
        self.write(name, &text.replace(from, to));
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_artifact"));
        command.current_dir(self.folder.path()).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Answer {
        Answer::of(self.command(arguments).output().unwrap())
    }
}

/// What a command said.
#[derive(Debug)]
pub struct Answer {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Answer {
    pub fn of(output: Output) -> Answer {
        Answer {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Fails unless the command ended with this code and this text is somewhere in its answer.
    pub fn expect(&self, code: i32, text: &str) -> &Answer {
        assert!(self.code == Some(code), "code {code}: {self:#?}");
        assert!(self.out.contains(text) || self.err.contains(text), "`{text}`: {self:#?}");
        self
    }
}

/// Names in `cells`, without what is half-written.
pub fn finished_cells(run: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(run.join("cells")) else { return Vec::new() };
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| !name.starts_with('.')).collect()
}
