//! Best effort waits for high priority: the times of its work in the stub's log against those of admissions in the event
//! log. Work is there from the call that launches it to its end on the device. An admission has a time before the look that
//! it follows from, so that a thread that loses its core on the way to the driver makes no difference.

use crate::session::{Session, read_until, succeeded};
use protocol::Priority::{BestEffort, High};
use protocol::report::{Mode, Report};
use std::process::Command;
use stub::Call;

const TIMES: &str = "serve=500;default=200";
/// The gate's `idle_wait_us`.
const WAIT_NS: u64 = 50_000;
/// Launch calls of the stub's log, by their beginnings.
fn launches(calls: &[Call]) -> impl Iterator<Item = &Call> {
    calls.iter().filter(|call| call.name == "cuLaunchKernel")
}

/// When launches were admitted, by the event log of the trainer, which must be the policy's.
fn admissions(session: &Session) -> Vec<u64> {
    let text = std::fs::read_to_string(session.path().join("events")).expect("a log");
    let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
    sched::client::replay(whole).expect("the policy's own answers");
    let admitted = whole.lines().filter_map(|line| line.split_once(" > admit "));
    admitted.map(|(at, _)| at.parse().expect("a time")).collect()
}

/// Of these times, those while a request ran and those within the wait after it.
fn forbidden(times: &[u64], busy: &[(u64, u64)]) -> (usize, usize) {
    let during = times.iter().filter(|&&at| busy.iter().any(|&(from, to)| at > from && at < to));
    let soon = times.iter().filter(|&&at| busy.iter().any(|&(_, to)| at >= to && at < to + WAIT_NS));
    (during.count(), soon.count())
}

/// A trainer that never ends, with its event log.
fn trainer(session: &Session) -> Command {
    let mut trainer = session.command(BestEffort, "trainer");
    trainer.env("STUB_DURATION_US", TIMES).env("TALLY_EVENT_LOG", session.path().join("events"));
    trainer
}

/// From the call to the end on the device, of every launch since all threads have ended their first request: while one
/// thread registers, nobody sees the launches of the others.
fn busy(output: &str, calls: &[Call]) -> Vec<(u64, u64)> {
    let second = output.lines().filter_map(|line| {
        let fields: Vec<&str> = line.strip_prefix("request ")?.split(' ').collect();
        (fields[1] == "1").then(|| fields[2].parse::<u64>().ok())?
    });
    let from = second.max().expect("a second request");
    let spans = launches(calls).filter(|call| call.begin >= from);
    spans.map(|call| (call.begin, call.number("finish").expect("an end on the device"))).collect()
}

/// A server and an endless trainer; the server's output and both reports' session.
fn corun(mode: &str, more: &[&str]) -> (Session, String, Vec<Call>, Vec<Call>) {
    let session = Session::new("gate");
    let (mut trainer, mut lines) = session.spawn(&mut trainer(&session));
    read_until(&mut lines, "iteration 0");
    let mut server = session.command(High, "server");
    let pause = if more.is_empty() { &["--pause-us", "6000"][..] } else { more };
    server.args(["--requests", "30", "--launches", "10", "--mode", mode]).args(pause);
    let output = succeeded(server.env("STUB_DURATION_US", TIMES));
    // The trainer goes on once nobody is active.
    let before = lines.buffer().len();
    for _ in 0..2 + before / 20 {
        read_until(&mut lines, "iteration");
    }
    let _ = trainer.0.kill();
    let (high, low) = (session.calls("server"), session.calls("trainer"));
    (session, String::from_utf8(output.stdout).expect("text"), high, low)
}

fn check(mode: &str, more: &[&str]) -> Report {
    let (session, output, high, low) = corun(mode, more);
    let busy = busy(&output, &high);
    assert!(busy.len() >= 200 && output.lines().count() * 10 == launches(&high).count());
    let admitted = admissions(&session);
    assert_eq!(forbidden(&admitted, &busy), (0, 0), "{mode}: admissions while active, and within the wait");
    let launched = launches(&low).count();
    assert!(launched <= admitted.len() && launched + 1 >= admitted.len(), "{launched} of {}", admitted.len());
    let (from, to) = (busy[0].1, busy[busy.len() - 1].0);
    let between = admitted.iter().filter(|&&at| at > from && at < to).count();
    assert!(mode == "nosync" || between >= 10, "{mode}: only {between} launches between requests");
    session.report("server")
}

#[test]
fn nothing_is_launched_while_a_request_runs() {
    for mode in ["ctx", "stream", "event", "query", "poll"] {
        let report = check(mode, &[]);
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
        let report = check(mode, &[]);
        assert!(report.found_idle > 0, "{mode}: {report:?}");
    }
}

#[test]
fn several_threads_and_streams_are_one_activity() {
    for mode in ["ctx", "stream", "event"] {
        let report = check(mode, &["--threads", "3", "--streams", "2", "--pause-us", "30000"]);
        assert_eq!(report.calls["cuLaunchKernel"], 900);
    }
}

#[test]
fn two_servers_are_waited_for_both() {
    let session = Session::new("gate");
    let (_trainer, mut lines) = session.spawn(&mut trainer(&session));
    read_until(&mut lines, "iteration 0");
    let server = |name: &str| {
        let mut command = session.command(High, "server");
        command.args(["--requests", "30", "--pause-us", "8000"]).env("STUB_DURATION_US", TIMES);
        command.env("STUB_LOG", session.path().join(name));
        command
    };
    let (mut first, mut second) = (server("first.calls"), server("second.calls"));
    let first = first.stdout(std::process::Stdio::piped()).spawn().expect("it starts");
    let second = succeeded(&mut second);
    let first = first.wait_with_output().expect("it ends");
    assert!(first.status.success());
    read_until(&mut lines, "iteration");
    let admitted = admissions(&session);
    for (output, name) in [(first, "first"), (second, "second")] {
        let busy = busy(&String::from_utf8_lossy(&output.stdout), &session.calls(name));
        assert_eq!(forbidden(&admitted, &busy), (0, 0), "{name}");
    }
}

/// Case C14: a program of one tiny launch waits for a gap like any other.
#[test]
fn a_single_launch_waits_for_a_gap() {
    let session = Session::new("gate");
    let mut server = session.command(High, "server");
    server.args(["--launches", "1", "--pause-us", "0", "--threads", "3"]);
    let (mut server, mut lines) = session.spawn(server.env("STUB_DURATION_US", "serve=50000"));
    read_until(&mut lines, "request 0 1");
    let mut trainer = session.command(BestEffort, "trainer");
    trainer.args(["--iterations", "1", "--launches", "1", "--kernels", "1"]);
    let (mut trainer, _lines) = session.spawn(&mut trainer);
    // Three threads leave no gap of 100 µs, even if one of them loses its core.
    for _ in 0..20 {
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
