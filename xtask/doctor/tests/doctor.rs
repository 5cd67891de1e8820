//! The binary on a machine that the test makes up: its own PATH, home, user and results.

#![cfg(unix)]

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tempfile::TempDir;

struct Bench {
    folder: TempDir,
    _turn: MutexGuard<'static, ()>,
}

/// One test at a time: a stand-in that another test's child still holds open cannot be started ("text file busy").
static TURN: Mutex<()> = Mutex::new(());

const USER: &str = "carolinewinter";
const HOST: &str = "winterbox";

impl Bench {
    fn new() -> Bench {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let bench = Bench { folder: tempfile::tempdir().unwrap(), _turn: turn };
        let real = concat!(env!("CARGO_MANIFEST_DIR"), "/../../artifact");
        bench.write("repo/artifact/prices.toml", &fs::read_to_string(format!("{real}/prices.toml")).unwrap());
        let fig5 = fs::read_to_string(format!("{real}/experiments/fig5.toml")).unwrap();
        bench.write("repo/artifact/experiments/fig5.toml", &fig5);
        bench.program("cargo", "echo cargo 1.95.0");
        bench.program("rustc", "echo rustc 1.95.0");
        bench.program("cc", "echo cc 12.2.0");
        bench.program("df", "printf 'x\\n/dev/x 100000000 1 90000000 1%% /\\n'");
        bench.program("uname", &format!("echo {HOST}"));
        bench.program("id", &format!("echo {USER}"));
        bench.program("git", &format!("echo on {HOST} by {USER}"));
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), text).unwrap();
    }

    fn program(&self, name: &str, body: &str) {
        let name = format!("bin/{name}");
        self.write(&name, &format!("#!/bin/sh\n{body}\n"));
        fs::set_permissions(self.path(&name), fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_doctor"));
        command.current_dir(self.path("repo")).args(arguments);
        command.env_clear().env("PATH", self.path("bin")).env("HOME", self.path(&format!("homes/{USER}")));
        command.env("USER", USER).output().unwrap()
    }

    fn json(&self, code: i32) -> serde_json::Value {
        let output = self.run(&["--json"]);
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

#[test]
fn a_laptop_is_fit_for_the_simulator_alone() {
    let answer = Bench::new().json(0);
    assert_eq!((&answer["simulator"]["fit"], &answer["gpu"]["fit"]), (&true.into(), &false.into()));
    assert_eq!(answer["cost"][0]["experiment"], "fig5");
    for check in answer["check"].as_array().unwrap() {
        assert!(check["status"] != "failed" || check["fix"].is_string(), "{check}");
    }
}

#[test]
fn what_is_missing_makes_it_unfit_and_is_named() {
    let bench = Bench::new();
    bench.program("df", "printf 'x\\n/dev/x 100 1 90 1%% /\\n'");
    bench.program("rustc", "echo rustc 1.70.0");
    fs::remove_file(bench.path("bin/cc")).unwrap();
    bench.write("repo/artifact/experiments/bad.toml", "id = [");
    let answer = bench.json(1);
    assert_eq!(
        answer["simulator"]["failed"],
        serde_json::json!(["rust", "c compiler", "disk", "experiments"])
    );
}

#[test]
fn a_gpu_is_looked_at() {
    let bench = Bench::new();
    bench.program("nvidia-smi", "echo 0, NVIDIA H200, GPU-1234, 580.159, Default, 143771 MiB, Disabled");
    bench.program("python3", "echo torch 2.9.0; echo transformers -");
    let text = String::from_utf8(bench.run(&[]).stdout).unwrap();
    for expected in ["NVIDIA H200, GPU-1234, 140.4 GiB", "no transformers", "simulator: fit"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

#[test]
fn a_machine_with_everything_is_fit_to_measure() {
    let bench = Bench::new();
    bench.program("nvidia-smi", "echo 0, Stub GPU, GPU-1234, 580.159, Default, 81920 MiB, Disabled");
    bench.program("python3", "echo torch 2.9.0; echo transformers 4.57.1");
    bench.program("nvidia-cuda-mps-control", "");
    let answer = bench.json(0);
    assert_eq!(answer["gpu"], serde_json::json!({ "fit": true, "failed": [] }));
}

#[test]
fn the_bundle_tells_what_went_wrong_and_not_to_whom() {
    let bench = Bench::new();
    let home = bench.path(&format!("homes/{USER}"));
    let run = format!(
        "machine = \"h200\"\n[[invocation]]\ncommand = \"artifact --out {0}/out\"\nrevision = \"{1}\"\n# {2} at {3}\n",
        home.display(),
        bench.path("repo/x").display(),
        USER,
        HOST
    );
    bench.write("repo/results/of-carolinewinter/run.toml", &run);
    bench.write("repo/results/of-carolinewinter/cells/01/cell.toml", "status = \"ok\"\n");
    let failed =
        format!("status = \"failed\"\nerror = \"no {}/profile\"\n[inputs]\nseed = \"7\"\n", home.display());
    bench.write("repo/results/of-carolinewinter/cells/02/cell.toml", &failed);
    bench.write("repo/results/of-carolinewinter/cells/03/cell.toml", "status = ");
    // A link must not carry a file from elsewhere into the archive.
    bench.write("secret", "password");
    bench.write("repo/results/linked/x", "");
    std::os::unix::fs::symlink(bench.path("secret"), bench.path("repo/results/linked/run.toml")).unwrap();

    let output = bench.run(&["--bundle", "../report.tar"]);
    assert!(output.status.success(), "{output:?}");
    let bytes = fs::read(bench.path("report.tar")).unwrap();
    let mut all = String::new();
    let mut archive = tar::Archive::new(&bytes[..]);
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().to_string_lossy().into_owned();
        assert!(name.starts_with("bug-report/") && !name.contains(".."), "{name}");
        assert_eq!((entry.header().uid().unwrap(), entry.header().mtime().unwrap()), (0, 0));
        all += &format!("== {name}\n");
        entry.read_to_string(&mut all).unwrap();
    }
    let folder = bench.folder.path().to_string_lossy().into_owned();
    for secret in [USER, HOST, "winter", &home.to_string_lossy(), "password", &folder] {
        assert!(!all.contains(secret), "{secret}: {all}");
    }
    for expected in [
        "== bug-report/doctor.toml",
        "== bug-report/runs/of-_user_/run.toml",
        "command = \"artifact --out <home>/out\"",
        "revision = \"<repository>/x\"",
        "finished = 1\nfailed = 2",
        "error = \"no <home>/profile\"",
        "seed = \"7\"",
        "run.toml is not a regular file",
    ] {
        assert!(all.contains(expected), "{expected}: {all}");
    }
    let again = bench.run(&["--bundle", "../report.tar"]);
    assert_eq!(again.status.code(), Some(1));
    assert!(String::from_utf8(again.stderr).unwrap().contains("is there already"));
}
