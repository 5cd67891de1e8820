//! Best effort waits for high priority, by the times in the stub's logs.

use crate::session::{Session, read_until, succeeded};
use protocol::Priority::{BestEffort, High};
use protocol::report::{Mode, Report};
use stub::Call;

/// The gate's `idle_wait_us`.
const WAIT_NS: u64 = 100_000;
/// A launch may have been admitted just before the other side became active, and its thread may have lost its core on the
/// way to the driver.
const LATE_NS: u64 = 2_000_000;

/// Launch calls of the stub's log, by their beginnings.
fn launches(calls: &[Call]) -> impl Iterator<Item = &Call> {
    calls.iter().filter(|call| call.name == "cuLaunchKernel")
}

/// From the first launch of a request to the end of the call that waits for it.
fn busy(output: &str, calls: &[Call], waits: &[&str]) -> Vec<(u64, u64)> {
    let requests = output.lines().filter_map(|line| {
        let fields: Vec<&str> = line.strip_prefix("request ")?.split(' ').collect();
        Some((fields[2].parse::<u64>().ok()?, fields[3].parse::<u64>().ok()?))
    });
    requests
        .map(|(begin, end)| {
            let within = |call: &&Call| call.begin >= begin && call.end <= end;
            let first = launches(calls).filter(within).map(|call| call.begin).min();
            let last = calls.iter().filter(within).filter(|call| waits.contains(&call.name.as_str()));
            (first.expect("a request launches"), last.map(|call| call.end).max().expect("a request waits"))
        })
        .collect()
}

/// A server and an endless trainer; the server's output and both reports' session.
fn corun(mode: &str, more: &[&str]) -> (Session, String, Vec<Call>, Vec<Call>) {
    let session = Session::new("gate");
    let times = "serve=500;default=200";
    let mut trainer = session.command(BestEffort, "trainer");
    let (mut trainer, mut lines) = session.spawn(trainer.env("STUB_DURATION_US", times));
    read_until(&mut lines, "iteration 0");
    let mut server = session.command(High, "server");
    server.args(["--requests", "30", "--launches", "10", "--pause-us", "6000", "--mode", mode]).args(more);
    let output = succeeded(server.env("STUB_DURATION_US", times));
    // The trainer goes on once nobody is active.
    let before = lines.buffer().len();
    for _ in 0..2 + before / 20 {
        read_until(&mut lines, "iteration");
    }
    let _ = trainer.0.kill();
    let (high, low) = (session.calls("server"), session.calls("trainer"));
    (session, String::from_utf8(output.stdout).expect("text"), high, low)
}

fn check(mode: &str, waits: &[&str]) -> Report {
    let (session, output, high, low) = corun(mode, &[]);
    let busy = busy(&output, &high, waits);
    assert_eq!(busy.len(), 30);
    let low: Vec<u64> = launches(&low).map(|call| call.begin).collect();
    let during = low.iter().filter(|&&at| busy.iter().any(|&(from, to)| at > from + LATE_NS && at < to));
    let soon = low.iter().filter(|&&at| busy.iter().any(|&(_, to)| at >= to && at < to + WAIT_NS));
    let (during, soon) = (during.count(), soon.count());
    assert!(during <= 2 && soon <= 2, "{mode}: {during} launches while active, {soon} within the wait");
    let between = low.iter().filter(|&&at| at > busy[0].1 && at < busy[29].0).count();
    assert!(between >= 30, "{mode}: only {between} launches between requests");
    session.report("server")
}

#[test]
fn nothing_is_launched_while_a_request_runs() {
    for (mode, waits) in [
        ("ctx", &["cuCtxSynchronize", "cuCtxSynchronize_v2"][..]),
        ("stream", &["cuStreamSynchronize"]),
        ("event", &["cuEventSynchronize"]),
        ("query", &["cuStreamQuery"]),
        ("poll", &["cuEventQuery"]),
    ] {
        let report = check(mode, waits);
        assert_eq!(report.mode, Mode::Observed);
        assert!(report.activations >= 30, "{mode}: {}", report.activations);
        assert_eq!(report.calls["cuLaunchKernel"], 300);
        assert!(report.passed.is_empty() && report.overflows == 0, "{report:?}");
    }
}

/// Nobody waits, or in a way that is not followed: the helper thread finds the end.
#[test]
fn the_end_of_work_that_nobody_waits_for_is_found() {
    for mode in ["nosync", "memcpy"] {
        let (session, output, high, low) = corun(mode, &[]);
        assert_eq!(output.lines().count(), 30);
        let report = session.report("server");
        assert!(report.found_idle > 0, "{mode}: {report:?}");
        let (from, to) = (high[0].begin, high.last().expect("calls").end);
        let between = launches(&low).filter(|call| call.begin > from && call.begin < to).count();
        assert!(mode == "nosync" || between > 0, "{mode}: best effort stood still");
    }
}

#[test]
fn several_threads_and_streams_are_one_activity() {
    let (session, output, high, low) = corun("stream", &["--threads", "3", "--streams", "2"]);
    assert_eq!(output.lines().count(), 90);
    let report = session.report("server");
    assert_eq!(report.calls["cuLaunchKernel"], 900);
    // While any launch is on the device and not waited for, nothing of best effort follows it.
    let spans: Vec<(u64, u64)> = busy(&output, &high, &["cuStreamSynchronize"]);
    let during = launches(&low)
        .filter(|call| spans.iter().any(|&(from, to)| call.begin > from + LATE_NS && call.begin < to))
        .count();
    assert!(during <= 3, "{during} launches while active");
}

#[test]
fn two_servers_are_waited_for_both() {
    let session = Session::new("gate");
    let times = "serve=500;default=200";
    let mut trainer = session.command(BestEffort, "trainer");
    let (_trainer, mut lines) = session.spawn(trainer.env("STUB_DURATION_US", times));
    read_until(&mut lines, "iteration 0");
    let server = |name: &str| {
        let mut command = session.command(High, "server");
        command.args(["--requests", "30", "--pause-us", "8000"]).env("STUB_DURATION_US", times);
        command.env("STUB_LOG", session.path().join(name));
        command
    };
    let (mut first, mut second) = (server("first.calls"), server("second.calls"));
    let first = first.stdout(std::process::Stdio::piped()).spawn().expect("it starts");
    let second = succeeded(&mut second);
    let first = first.wait_with_output().expect("it ends");
    assert!(first.status.success());
    read_until(&mut lines, "iteration");
    let low: Vec<u64> = launches(&session.calls("trainer")).map(|call| call.begin).collect();
    for (output, name) in [(first, "first"), (second, "second")] {
        let output = String::from_utf8(output.stdout).expect("text");
        let busy = busy(&output, &session.calls(name), &["cuStreamSynchronize"]);
        let during = low.iter().filter(|&&at| busy.iter().any(|&(from, to)| at > from + LATE_NS && at < to));
        let during = during.count();
        assert!(during <= 2, "{during} launches while {name} was active");
    }
}

/// Case C14: a program of one tiny launch waits for a gap like any other.
#[test]
fn a_single_launch_waits_for_a_gap() {
    let session = Session::new("gate");
    let mut server = session.command(High, "server");
    server.args(["--launches", "1", "--pause-us", "0", "--mode", "stream"]);
    let (mut server, mut lines) = session.spawn(server.env("STUB_DURATION_US", "serve=50000"));
    read_until(&mut lines, "request 0 1");
    let mut trainer = session.command(BestEffort, "trainer");
    trainer.args(["--iterations", "1", "--launches", "1", "--kernels", "1"]);
    let (mut trainer, _lines) = session.spawn(&mut trainer);
    // Requests follow each other without a gap of 100 µs.
    for _ in 0..10 {
        read_until(&mut lines, "request");
    }
    assert!(trainer.0.try_wait().expect("it was started").is_none(), "it did not wait");
    let _ = server.0.kill();
    let _ = server.0.wait();
    let killed = protocol::clock::now();
    assert!(trainer.0.wait().expect("it was started").success());
    let report = session.report("trainer");
    assert_eq!((report.admitted, report.held), (1, 1));
    assert!(report.waited_ns > 100_000_000, "{report:?}");
    let launched = launches(&session.calls("trainer")).next().expect("one launch").begin;
    assert!(launched > killed - 1_000_000_000, "it was launched long before the server had gone");
}

/// Case C17: TGS's counter is above zero. Its first sample comes after 5 s; until then next to nothing is admitted, by its
/// rules.
#[test]
fn tgs_measures_and_limits() {
    let session = Session::new("tgs");
    let mut server = session.command(High, "server");
    server.args(["--pause-us", "20000"]);
    let (_server, mut served) = session.spawn(&mut server);
    read_until(&mut served, "request 0 0");
    let log = session.path().join("events");
    let mut trainer = session.command(BestEffort, "trainer");
    trainer.args(["--iterations", "40", "--launches", "10"]).env("TALLY_EVENT_LOG", &log);
    succeeded(&mut trainer);
    let report = session.report("trainer");
    assert_eq!((&report.mode, report.admitted), (&Mode::Scheduled, 400));
    assert!(report.held > 100, "{report:?}");
    let text = std::fs::read_to_string(log).expect("a log");
    let rates: Vec<f64> = text.lines().filter_map(|line| line.split_once(" rate ")?.1.parse().ok()).collect();
    assert!(rates.first().is_some_and(|&rate| rate > 0.0), "rates {rates:?}");
    let replayed = sched::client::replay(&text).expect("the policy's own answers");
    assert_eq!(replayed.admitted, 400);
}
