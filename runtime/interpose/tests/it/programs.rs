//! Programs over the stub driver do the same with the library preloaded as without it: what they print, and the calls that
//! reach the driver.

use crate::build::interposer;
use hooks::{Hook, Kind};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Output;
use stub::Call;

/// How a program runs.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Form {
    Bare,
    /// Preloaded, and switched off.
    Off,
    /// Preloaded, and switched on; nobody answers at the socket.
    On,
}

fn run(name: &str, arguments: &[&str], form: Form, preload: &[PathBuf]) -> (Output, Vec<Call>) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let log = folder.path().join("calls");
    let mut command = stub::command(name);
    command.args(arguments).env("STUB_LOG", &log).env("STUB_CAPTURE_STRICT", "1").env_remove("TALLY_SOCKET");
    let mut libraries: Vec<_> = preload.iter().map(|path| path.display().to_string()).collect();
    if form != Form::Bare {
        libraries.insert(0, interposer().display().to_string());
    }
    if form == Form::On {
        command.env("TALLY_SOCKET", folder.path().join("none")).env("TALLY_START_LIMIT_MS", "50");
    }
    command.env("LD_PRELOAD", libraries.join(":"));
    let output = command.output().expect("the program starts");
    let calls = if log.exists() { stub::read_log(&log).expect("a log") } else { Vec::new() };
    (output, calls)
}

/// How often each symbol was called.
fn counts(calls: &[Call], wanted: impl Fn(&str) -> bool) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for call in calls.iter().filter(|call| wanted(&call.name)) {
        *counts.entry(call.name.to_string()).or_insert(0) += 1;
    }
    counts
}

fn gives_work(name: &str) -> bool {
    Hook::from_name(name.as_bytes())
        .is_some_and(|hook| matches!(hook.entry().kind, Kind::Launch | Kind::Copy))
}

/// Without what differs from run to run: addresses, and the order in which processes and threads print.
fn stable(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout);
    let steady =
        |word: &str| if word.starts_with("0x") && word.len() > 8 { "ADDRESS" } else { word }.to_owned();
    let mut lines: Vec<_> =
        text.lines().map(|line| line.split(' ').map(steady).collect::<Vec<_>>().join(" ")).collect();
    lines.sort_unstable();
    lines
}

fn unchanged(name: &str, arguments: &[&str]) {
    let (bare, expected) = run(name, arguments, Form::Bare, &[]);
    for form in [Form::Off, Form::On] {
        let (output, calls) = run(name, arguments, form, &[]);
        let context = format!("{name} {arguments:?} {form:?}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status, bare.status, "{context}");
        assert_eq!(stable(&output), stable(&bare), "{context}");
        assert_eq!(counts(&calls, gives_work), counts(&expected, gives_work), "{context}");
        if form == Form::Off {
            assert_eq!(counts(&calls, |_| true), counts(&expected, |_| true), "{context}");
        }
    }
}

/// Case C04. The stub's symbols have no versions, as the real driver's: dlvsym finds none, and no wrapper either.
#[test]
fn launches_in_every_way() {
    for way in ["direct", "dlsym", "dlvsym", "default", "getproc", "getproc_v2"] {
        unchanged("launches", &[way]);
    }
}

/// Case C01.
#[test]
fn eight_threads() {
    unchanged("init8", &[]);
}

/// Case C05.
#[test]
fn launch_attributes() {
    unchanged("attributes", &[]);
}

/// Case C06.
#[test]
fn stream_capture() {
    unchanged("capture", &["--launches", "1000", "--replays", "100"]);
}

/// Case C07.
#[test]
fn export_tables() {
    unchanged("exporttable", &[]);
}

/// Case C08.
#[test]
fn modules_and_libraries() {
    unchanged("modules", &[]);
}

/// Case C09.
#[test]
fn null_pointers() {
    unchanged("nulls", &[]);
}

/// Case C10.
#[test]
fn forks() {
    unchanged("forks", &["--use", "1", "--sleep-ms", "1"]);
}

/// Case C12.
#[test]
fn cooperative_grids() {
    unchanged("cooperative", &[]);
}

/// Case C02: on either side of a second library that is preloaded.
#[test]
fn a_second_preloaded_library() {
    let fake = stub::preload_library("libcudnn_fake");
    let second = [stub::preload_library("librtldnext")];
    let arguments = [fake.to_str().expect("UTF-8")];
    let (bare, _) = run("rtldnext", &arguments, Form::Bare, &second);
    for form in [Form::Off, Form::On] {
        let (output, _) = run("rtldnext", &arguments, form, &second);
        assert_eq!((output.status, stable(&output)), (bare.status, stable(&bare)), "{form:?}");
    }
}
