//! The programs over the stub driver alone: what they do there is what they must do under an interposer.

use std::process::Output;

use stub::Call;

/// Runs a program with a log; gives its output and the calls.
fn run(name: &str, arguments: &[&str], settings: &[(&str, &str)]) -> (Output, Vec<Call>) {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("calls");
    let mut command = stub::command(name);
    command.args(arguments).env("STUB_LOG", &log).envs(settings.iter().copied());
    let output = command.output().unwrap();
    let calls = stub::read_log(&log).unwrap_or_else(|error| panic!("{error}\n{output:?}"));
    (output, calls)
}

fn text(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

#[track_caller]
fn succeeded(output: &Output) {
    assert!(output.status.success(), "{output:?}");
}

fn count(calls: &[Call], name: &str) -> usize {
    calls.iter().filter(|call| call.name == name).count()
}

#[test]
fn every_launch_is_found_in_every_way() {
    for way in ["direct", "dlsym", "default", "getproc", "getproc_v2"] {
        let (output, calls) = run("launches", &[way], &[]);
        succeeded(&output);
        let symbols: Vec<_> = text(&output).lines().filter_map(|line| line.strip_suffix(" 0")).collect();
        assert_eq!(symbols.len(), 69, "{way}");
        for symbol in symbols {
            // One cuLaunchKernel is captured for the graph.
            let expected = if symbol == "cuLaunchKernel" { 2 } else { 1 };
            assert_eq!(count(&calls, symbol), expected, "{way} {symbol}");
        }
    }
}

/// The driver's symbols carry no versions. An interposer may not invent an answer either.
#[test]
fn no_launch_is_found_by_version() {
    let (output, _) = run("launches", &["dlvsym"], &[]);
    assert!(!output.status.success());
    assert_eq!(text(&output).lines().filter(|line| line.ends_with(" not found")).count(), 69);
}

#[test]
fn eight_threads_initialise_at_once() {
    let (output, calls) = run("init8", &[], &[]);
    assert_eq!(text(&output), "ok 8\n");
    assert_eq!(count(&calls, "cuInit"), 8);
}

#[test]
fn launch_attributes_are_logged_bit_for_bit() {
    let (output, calls) = run("attributes", &[], &[]);
    succeeded(&output);
    let call = calls.iter().find(|call| call.name == "cuLaunchKernelEx").unwrap();
    assert_eq!(call.argument("bytes"), text(&output).trim());
    assert_eq!(
        [call.argument("attributes"), call.argument("grid"), call.argument("shared")],
        ["3", "4,1,1", "128"]
    );
}

#[test]
fn a_capture_becomes_a_graph() {
    let (output, calls) =
        run("capture", &["--launches", "50", "--replays", "5"], &[("STUB_CAPTURE_STRICT", "1")]);
    assert_eq!(text(&output), "errors 0 nodes 50 replays 5\n");
    let launch = calls.iter().find(|call| call.name == "cuGraphLaunch").unwrap();
    assert_eq!(launch.argument("nodes"), "50");
}

#[test]
fn export_tables() {
    let (output, _) = run("exporttable", &[], &[]);
    assert_eq!(text(&output), "known 0 32 0x1111 0x2222 0x3333\nunknown 1 0x1234\n");
}
