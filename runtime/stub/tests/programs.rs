//! The programs over the stub driver alone: what they do there is what they must do under an interposer.

#![cfg(target_os = "linux")]

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
        assert_eq!(symbols.len(), 80, "{way}");
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
    assert_eq!(text(&output).lines().filter(|line| line.ends_with(" not found")).count(), 80);
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

/// What a hook must not do, and how it may: the negative control of every test with STUB_CAPTURE_STRICT.
#[test]
fn strict_captures_are_broken_by_others() {
    let strict = [("STUB_CAPTURE_STRICT", "1")];
    let intrude = |what: &str, more: &[&str], settings: &[(&str, &str)]| {
        let mut arguments = vec!["--launches", "10", "--replays", "2", "--intrude", what];
        arguments.extend(more);
        text(&run("capture", &arguments, settings).0).to_owned()
    };
    for what in ["query", "alloc", "sync"] {
        let broken = "intruder 900\nerrors 6 nodes 0 replays 0\n";
        let whole = "intruder 0\nerrors 0 nodes 10 replays 2\n";
        assert_eq!(intrude(what, &[], &strict), broken, "{what}");
        // Waiting for the whole context is never allowed.
        let relaxed = if what == "sync" { broken } else { whole };
        assert_eq!(intrude(what, &["--relaxed", "1"], &strict), relaxed, "{what}");
        assert_eq!(intrude(what, &["--mode", "thread"], &strict), relaxed, "{what}");
        assert_eq!(intrude(what, &[], &[]), relaxed, "{what}: not strict");
    }
}

/// The snapshot is what was measured on an H200, driver 580: machines/evidence/driver/captures.csv, line by line.
#[test]
fn captures_allow_what_the_real_driver_allows() {
    let settings = [("STUB_CAPTURE_STRICT", "1"), ("STUB_DURATION_US", "busy=10000")];
    let (output, _) = run("captures", &[], &settings);
    succeeded(&output);
    insta::assert_snapshot!(text(&output));
}

#[test]
fn export_tables() {
    let (output, _) = run("exporttable", &[], &[]);
    assert_eq!(text(&output), "known 0 32 0x1111 0x2222 0x3333\nunknown 1 0x1234\n");
}

#[test]
fn kernels_of_libraries_and_reused_addresses() {
    let (output, calls) = run("modules", &[], &[]);
    succeeded(&output);
    let kernels: Vec<_> = calls
        .iter()
        .filter(|call| call.name == "cuLaunchKernel")
        .map(|call| call.argument("kernel"))
        .collect();
    assert_eq!(kernels, ["library_kernel", "library_kernel", "first", "second", "fat_kernel", "ex_kernel"]);
    let reused = text(&output).lines().find_map(|line| line.strip_prefix("b ")).unwrap();
    let [first, second, in_module] = reused.split(' ').collect::<Vec<_>>()[..] else { panic!("{reused}") };
    assert_eq!((first, in_module), (second, "1"));
}

#[test]
fn null_pointers_are_answered() {
    let (output, _) = run("nulls", &[], &[]);
    succeeded(&output);
    insta::assert_snapshot!(text(&output));
}

#[test]
fn a_forked_child_cannot_use_the_driver() {
    let (output, calls) = run("forks", &["--use", "1", "--sleep-ms", "1"], &[]);
    succeeded(&output);
    let mut lines: Vec<_> = text(&output).lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["child 3", "child 3", "child 3", "child 3", "parent 0 0"]);
    let mut processes: Vec<_> = calls.iter().map(|call| call.process).collect();
    processes.sort_unstable();
    processes.dedup();
    assert_eq!(processes.len(), 5);
}

#[test]
fn a_cooperative_grid_must_fit() {
    let (output, _) = run("cooperative", &[], &[]);
    // 2048 threads of a multiprocessor take 8 blocks of 256.
    assert_eq!(text(&output), format!("limit {}\nat 0\nabove 720\n", 8 * 132));
}

#[test]
fn a_second_preloaded_library_works() {
    let mut command = stub::command("rtldnext");
    command
        .arg(stub::preload_library("libcudnn_fake"))
        .env("LD_PRELOAD", stub::preload_library("librtldnext"));
    let output = command.output().unwrap();
    assert_eq!(text(&output), "mallocs 1 creates 1 recursions 0 status 42 42\n", "{output:?}");
}

/// Times of requests, `(begin, end)` ns.
fn requests(output: &Output) -> Vec<(u64, u64)> {
    let times = text(output).lines().filter_map(|line| {
        let mut words = line.strip_prefix("request ")?.split(' ').skip(2).map(|word| word.parse().unwrap());
        Some((words.next()?, words.next()?))
    });
    times.collect()
}

#[test]
fn every_way_of_waiting_waits() {
    for mode in ["ctx", "stream", "event", "query", "poll", "memcpy"] {
        let arguments =
            ["--mode", mode, "--requests", "3", "--launches", "4", "--streams", "2", "--pause-us", "0"];
        let (output, calls) = run("server", &arguments, &[("STUB_DURATION_US", "serve=1000")]);
        succeeded(&output);
        let requests = requests(&output);
        assert_eq!(requests.len(), 3, "{mode}");
        // Two launches of 1 ms in each of two streams that run side by side.
        assert!(requests.iter().all(|(begin, end)| end - begin >= 2_000_000), "{mode}: {requests:?}");
        assert_eq!(count(&calls, "cuLaunchKernel"), 12, "{mode}");
    }
}

#[test]
fn not_waiting_does_not_wait() {
    let arguments = ["--mode", "nosync", "--requests", "3", "--launches", "4", "--pause-us", "0"];
    let (output, calls) = run("server", &arguments, &[("STUB_DURATION_US", "serve=100000")]);
    succeeded(&output);
    let launches: Vec<_> = calls.iter().filter(|call| call.name == "cuLaunchKernel").collect();
    let last_start = launches.last().unwrap().number("start").unwrap();
    assert!(launches.last().unwrap().end < last_start, "the queue is longer than the host took");
    // The end of the program waits for the context.
    let wait = calls.iter().find(|call| call.name == "cuCtxSynchronize").unwrap();
    assert!(wait.end >= last_start + 100_000_000);
}

#[test]
fn a_full_queue_holds_the_launch() {
    let arguments = ["--iterations", "1", "--launches", "1030", "--kernels", "64"];
    let (output, calls) = run("trainer", &arguments, &[("STUB_DURATION_US", "train0=30000")]);
    succeeded(&output);
    let launches: Vec<_> = calls.iter().filter(|call| call.name == "cuLaunchKernel").collect();
    assert_eq!(launches.len(), 1030);
    assert!(launches[1021].end >= launches[0].number("finish").unwrap());
}

#[test]
fn threads_have_streams_of_their_own() {
    let arguments = ["--threads", "3", "--streams", "2", "--requests", "5", "--pause-us", "0"];
    let (output, calls) = run("server", &arguments, &[]);
    succeeded(&output);
    assert_eq!(requests(&output).len(), 15);
    let launches = calls.iter().filter(|call| call.name == "cuLaunchKernel");
    let streams: std::collections::BTreeSet<_> = launches.map(|call| call.argument("on")).collect();
    assert_eq!(streams.len(), 6);
}

/// Start and end on the device of all kernels in a log.
fn intervals(calls: &[Call]) -> Vec<(u64, u64)> {
    let kernels = calls.iter().filter(|call| call.name == "cuLaunchKernel");
    kernels.map(|call| (call.number("start").unwrap(), call.number("finish").unwrap())).collect()
}

#[test]
fn two_processes_share_a_device_file() {
    let folder = tempfile::tempdir().unwrap();
    let start = |name: &str, arguments: &[&str]| {
        let log = folder.path().join(name);
        let mut command = stub::command(name);
        command
            .args(arguments)
            .env("STUB_LOG", &log)
            .env("STUB_DEVICE", folder.path().join("device"))
            .env("STUB_DURATION_US", "serve=500;default=700")
            .stdout(std::process::Stdio::null());
        (command.spawn().unwrap(), log)
    };
    let (mut trainer, trained) = start("trainer", &["--iterations", "10", "--launches", "5"]);
    let (mut server, served) = start("server", &["--requests", "10", "--launches", "3"]);
    assert!(trainer.wait().unwrap().success() && server.wait().unwrap().success());
    let mut all = intervals(&stub::read_log(&trained).unwrap());
    all.extend(intervals(&stub::read_log(&served).unwrap()));
    all.sort_unstable();
    assert_eq!(all.len(), 80);
    assert!(all.windows(2).all(|pair| pair[0].1 <= pair[1].0), "one kernel at a time: {all:?}");
}

#[test]
fn failures_come_when_asked_for() {
    let (output, calls) = run("capture", &[], &[("STUB_FAIL", "cuLaunchKernel=700:8")]);
    // Seven launches before the capture.
    assert_eq!(text(&output), "errors 1 nodes 999 replays 100\n");
    let eighth = calls.iter().filter(|call| call.name == "cuLaunchKernel").nth(7).unwrap();
    assert_eq!(eighth.result, 700);
}

#[test]
fn a_wrong_setting_is_named() {
    let output = stub::command("init8").env("STUB_DURATION_US", "gemm").output().unwrap();
    assert!(!output.status.success());
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("STUB_DURATION_US: `gemm` is not name=microseconds"), "{error}");
}

fn sequence(name: &str) -> String {
    format!("{}/sequences/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn a_sequence_is_replayed() {
    let (output, calls) = run("replay", &[&sequence("handmade.txt")], &[("STUB_CAPTURE_STRICT", "1")]);
    assert_eq!(text(&output), "calls 26 skipped 1 differences 0\n", "{output:?}");
    let ex = calls.iter().find(|call| call.name == "cuLaunchKernelEx").unwrap();
    let expected = ["_Z8backwardPfi", "4,1,1", "256,1,1", "1024", "2"];
    assert_eq!(["kernel", "grid", "block", "shared", "attributes"].map(|name| ex.argument(name)), expected);
    let launches: Vec<_> = calls.iter().filter(|call| call.name == "cuLaunchKernel").collect();
    let kernels: Vec<_> = launches.iter().map(|call| call.argument("kernel")).collect();
    assert_eq!(
        kernels,
        ["forward_kernel", "_Z5thirdv", "_Z8backwardPfi", "forward_kernel", "forward_kernel"]
    );
    assert_ne!(launches[0].thread, launches[2].thread);
    assert_eq!(["grid_y", "shared"].map(|name| launches[2].number(name)), [Some(2), Some(16)]);
}

#[test]
fn sequences_of_real_programs_are_replayed() {
    for entry in std::fs::read_dir(sequence("")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "txt") {
            let (output, _) = run("replay", &[path.to_str().unwrap()], &[]);
            assert!(output.status.success(), "{}: {output:?}", path.display());
        }
    }
}
