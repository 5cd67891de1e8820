//! `gpu-check --dry` from its command line to its files, with stand-ins for `tally` and for the programs; the protocol of
//! commands is the real one.

#![cfg(unix)]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    /// None without Python, which building and testing the rest does not need.
    fn new() -> Option<Bench> {
        if !Command::new("python3").arg("--version").output().is_ok_and(|answer| answer.status.success()) {
            eprintln!("not run: there is no python3 on PATH");
            return None;
        }
        let bench = Bench { folder: tempfile::tempdir().unwrap() };
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        for job in ["bert-base-384-infer", "resnet50-train", "bert-base-384-train"] {
            bench.copy(&here.join("tests/stand-ins/program.py"), &format!("repo/workloads/{job}/program.py"));
        }
        bench.copy(&here.join("../../workloads/common/loops.py"), "repo/workloads/common/loops.py");
        bench.copy(&here.join("tests/stand-ins/outputs.py"), "repo/runtime/check/programs/outputs.py");
        // Drops its own arguments and becomes the program, as `tally run` does but for the library.
        bench.script("tools/tally", "echo \"$@\" >> \"$CALLS\"\n[ \"$1\" = run ] || exit 1\nwhile [ \"$1\" != -- ]; do shift; done\nshift\nRUNTIME=$WRONG exec \"$@\"\n");
        bench.script("tools/tallyd", "exit 1\n");
        Some(bench)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn copy(&self, from: &Path, to: &str) {
        fs::create_dir_all(self.path(to).parent().unwrap()).unwrap();
        fs::copy(from, self.path(to)).unwrap();
    }

    fn script(&self, name: &str, body: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, format!("#!/bin/sh\n{body}")).unwrap();
        fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    }

    /// Exit code and stderr; `wrong` is the case that gives other bytes under the runtime.
    fn run(&self, arguments: &[&str], wrong: &str) -> (i32, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpu-check"));
        command.arg("--tools").arg(self.path("tools")).arg("--repo").arg(self.path("repo"));
        command.arg("--out").arg(self.path("out")).args(arguments);
        command.env("WRONG", wrong).env("CALLS", self.path("calls"));
        let answer = command.output().unwrap();
        (answer.status.code().unwrap(), String::from_utf8(answer.stderr).unwrap())
    }

    /// Lines of a table, without its head.
    fn table(&self, name: &str) -> Vec<String> {
        fs::read_to_string(self.path(name)).unwrap().lines().skip(1).map(str::to_owned).collect()
    }
}

#[test]
fn cells_are_measured_once_and_the_next_call_goes_on() {
    let Some(bench) = Bench::new() else { return };
    let (code, err) = bench.run(&["--dry", "--only", "corun"], "");
    assert_eq!(code, 0, "{err}");
    assert!(err.starts_with("DRY RUN"), "{err}");
    let cells = bench.table("out/corun.csv");
    assert_eq!(cells.len(), 13, "{err}");
    assert!(cells.iter().all(|line| line.contains(",ok,")), "{cells:?}");
    let calls = fs::read_to_string(bench.path("calls")).unwrap();
    let runs = calls.lines().filter(|line| line.starts_with("run ")).count();
    // A server and two training jobs in each of the two sessions under a policy.
    assert_eq!(runs, 6, "{calls}");
    let ours = format!("gate:{}", check::corun::plan::OURS);
    assert!(calls.contains(&format!("--priority best-effort --policy {ours} --gpu none --dir ")), "{calls}");
    let samples = bench.table("out/samples.csv").len();
    assert!(samples > 20 && !bench.table("out/judgements.csv").is_empty());

    // One cell is lost: only its session runs again, with the server and the job that it needs.
    let lost = format!("{ours} pair resnet50-train poisson");
    let kept: Vec<&String> = cells.iter().filter(|line| !line.contains(&lost)).collect();
    assert_eq!(kept.len(), 12);
    let head = fs::read_to_string(bench.path("out/corun.csv")).unwrap().lines().next().unwrap().to_owned();
    let lines: Vec<&str> =
        std::iter::once(head.as_str()).chain(kept.iter().map(|line| line.as_str())).collect();
    fs::write(bench.path("out/corun.csv"), lines.join("\n") + "\n").unwrap();
    fs::remove_file(bench.path("calls")).unwrap();
    let (code, err) = bench.run(&["--dry", "--only", "corun"], "");
    assert_eq!(code, 0, "{err}");
    assert_eq!(bench.table("out/corun.csv").len(), 13);
    let calls = fs::read_to_string(bench.path("calls")).unwrap();
    assert_eq!(calls.lines().filter(|line| line.starts_with("run ")).count(), 2, "{calls}");
    assert!(bench.table("out/samples.csv").len() > samples);
    // Numbers that were not measured never become those of a device.
    let (code, err) = bench.run(&["--only", "answers"], "");
    assert!(code == 1 && err.contains("results of a dry run; choose another --out"), "{err}");
}

#[test]
fn another_byte_is_a_failed_row_and_exit_code_3() {
    let Some(bench) = Bench::new() else { return };
    let (code, err) = bench.run(&["--dry", "--only", "correctness"], "resnet");
    assert_eq!(code, 3, "{err}");
    let rows = bench.table("out/rows.csv");
    let failed: Vec<&String> = rows.iter().filter(|line| line.contains(",failed,")).collect();
    assert_eq!(failed.len(), 2, "{rows:?}");
    assert!(
        failed.iter().all(|line| line.contains("resnet ") && line.contains("1 of 1 outputs DIFFER (x)")),
        "{failed:?}"
    );
    let (code, err) = bench.run(&["--dry", "--only", "correctness"], "");
    assert_eq!(code, 0, "{err}");
}

#[test]
fn a_job_that_dies_is_a_failed_row_and_the_next_session_runs() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.path("repo/workloads/bert-base-384-train/program.py");
    fs::write(program, "raise SystemExit('no such device')\n").unwrap();
    let (code, err) = bench.run(&["--dry", "--only", "corun", "--only", "selftest"], "");
    assert_eq!(code, 3, "{err}");
    let cells = bench.table("out/corun.csv");
    // No list of arrivals without the first session, so nothing else can be measured either; all of it is told.
    assert!(
        cells.iter().all(|line| line.contains(",failed,") && line.contains("no such device")),
        "{cells:?}"
    );
    assert!(err.contains("ok       selftest: launches of the trainer-gate are seen"), "{err}");
}

#[test]
fn what_is_missing_is_said() {
    let Some(bench) = Bench::new() else { return };
    let empty = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpu-check"));
    command.args(["--only", "selftest"]).env("PATH", empty.path());
    let answer = command.output().unwrap();
    let err = String::from_utf8(answer.stderr).unwrap();
    assert_eq!(answer.status.code(), Some(4), "{err}");
    assert_eq!(err.lines().count(), 1, "{err}");
    assert!(err.contains("no nvidia-smi on PATH"), "{err}");
    fs::remove_file(bench.path("tools/tallyd")).unwrap();
    let (code, err) = bench.run(&["--dry"], "");
    assert!(code == 1 && err.contains("there is no tallyd in ") && err.contains("--tools DIR"), "{err}");
    let (code, _) = bench.run(&["--only", "everything"], "");
    assert_eq!(code, 2);
    let (code, err) = bench.run(&["--record"], "");
    assert!(code == 1 && err.contains("no results of a check on a GPU"), "{err}");
}

#[test]
fn ctrl_c_leaves_no_program_and_no_folder() {
    let Some(bench) = Bench::new() else { return };
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpu-check"));
    command.arg("--tools").arg(bench.path("tools")).arg("--repo").arg(bench.path("repo"));
    command.arg("--out").arg(bench.path("out")).args(["--dry", "--only", "corun"]);
    command.env("WRONG", "").env("CALLS", bench.path("calls"));
    let child = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    // Programs name their command folders in the scratch area, and nobody else's are of this process.
    let programs = || -> Vec<(u32, String)> {
        let words = |pid: &u32| fs::read(format!("/proc/{pid}/cmdline")).ok();
        let all = fs::read_dir("/proc").unwrap().filter_map(|entry| {
            let pid: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
            let line = String::from_utf8(words(&pid)?).ok()?;
            let mine = line.contains(bench.path("repo").to_str()?) && line.contains("--commands");
            mine.then_some((pid, line))
        });
        all.collect()
    };
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let found = loop {
        let found = programs();
        if found.len() >= 2 {
            break found;
        }
        assert!(std::time::Instant::now() < end, "no program was started");
        std::thread::sleep(std::time::Duration::from_millis(5));
    };
    let words: Vec<&str> = found[0].1.split('\0').collect();
    let at = words.iter().position(|word| *word == "--commands").unwrap();
    let scratch = Path::new(words[at + 1]).ancestors().nth(2).unwrap().to_owned();
    assert!(scratch.is_dir());
    let status = Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status().unwrap();
    assert!(status.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    // They are killed by now, which may take a moment on a busy machine.
    let end = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while !programs().is_empty() && std::time::Instant::now() < end {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(programs(), []);
    assert!(!scratch.exists());
    // What was interrupted has not failed.
    let rows = fs::read_to_string(bench.path("out/rows.csv")).unwrap_or_default();
    assert!(!rows.contains("failed"), "{rows}");
}
