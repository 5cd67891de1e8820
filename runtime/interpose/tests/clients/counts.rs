//! What is counted, and what is passed on: cases C04, C05, C06, C08, C09, C12.

use crate::session::{Session, read_until, succeeded, until};
use hooks::{Hook, Kind};
use protocol::Priority::{self, BestEffort, High};
use protocol::report::{Mode, Report};
use std::collections::BTreeMap;

/// Calls that gave work, by symbol.
fn work(calls: &[stub::Call]) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for call in calls {
        let kind = Hook::from_name(call.name.as_bytes()).map(|hook| hook.entry().kind);
        if matches!(kind, Some(Kind::Launch | Kind::Copy)) {
            *counts.entry(call.name.clone()).or_insert(0) += 1;
        }
    }
    counts
}

fn reported(report: &Report) -> BTreeMap<String, u64> {
    let gives_work = |name: &str| {
        let kind = Hook::from_name(name.as_bytes()).map(|hook| hook.entry().kind);
        matches!(kind, Some(Kind::Launch | Kind::Copy))
    };
    report.calls.iter().filter(|(name, _)| gives_work(name)).map(|(name, &n)| (name.clone(), n)).collect()
}

fn run(policy: &str, priority: Priority, program: &str, arguments: &[&str]) -> (Session, Report, String) {
    let session = Session::new(policy);
    let mut command = session.command(priority, program);
    let output = succeeded(command.args(arguments).env("STUB_CAPTURE_STRICT", "1"));
    let report = session.report(program);
    (session, report, String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Case C04: every launch that the driver saw is in the report, and each has a decision or a reason.
#[test]
fn every_launch_is_counted_whichever_way_it_was_found() {
    for way in ["direct", "dlsym", "default", "getproc", "getproc_v2"] {
        for (policy, priority) in
            [("gate", High), ("gate", BestEffort), ("gate:depth=4,budget_us=500", BestEffort)]
        {
            let (session, report, _) = run(policy, priority, "launches", &[way]);
            let seen = work(&session.calls("launches"));
            assert!(seen.len() > 20, "{seen:?}");
            assert_eq!(reported(&report), seen, "{way} {priority}");
            if priority == BestEffort {
                let decided = report.admitted + report.passed.values().sum::<u64>();
                assert_eq!(decided, seen.values().sum::<u64>(), "{way}: {report:?}");
            }
        }
    }
}

#[test]
fn a_policy_that_holds_nothing_back_says_so() {
    let (session, report, _) = run("time-slicing", BestEffort, "launches", &["direct"]);
    assert_eq!(report.mode, Mode::Unscheduled("the policy holds nothing back".to_owned()));
    assert_eq!(report.passed.values().sum::<u64>(), work(&session.calls("launches")).values().sum::<u64>());
    assert!(report.passed["policy"] > 60, "{report:?}");
}

/// Case C05.
#[test]
fn launch_attributes_arrive_bit_for_bit() {
    let plain = {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let log = folder.path().join("calls");
        succeeded(stub::command("attributes").env("STUB_LOG", &log));
        stub::read_log(&log).expect("a log")
    };
    let attributes = |calls: &[stub::Call]| -> Vec<String> {
        let launches = calls.iter().filter(|call| call.name.starts_with("cuLaunchKernelEx"));
        launches.map(|call| format!("{} {}", call.argument("attributes"), call.argument("bytes"))).collect()
    };
    assert!(!attributes(&plain).is_empty());
    for priority in [High, BestEffort] {
        let (session, _, _) = run("gate", priority, "attributes", &[]);
        assert_eq!(attributes(&session.calls("attributes")), attributes(&plain));
    }
}

/// Case C06: nothing of ours disturbs a capture, whatever its mode.
#[test]
fn captures_are_left_alone() {
    for priority in [High, BestEffort] {
        for mode in ["global", "thread", "relaxed"] {
            for policy in ["gate", "gate:depth=64,budget_us=1000"] {
                let (_session, report, output) = run(policy, priority, "capture", &["--mode", mode]);
                assert_eq!(output, "errors 0 nodes 1000 replays 100\n", "{priority} {mode} {policy}");
                assert_eq!(report.passed["capturing"], 1000);
                assert_eq!(report.calls["cuGraphLaunch"], 100);
                if priority == BestEffort {
                    assert_eq!(report.admitted, 107, "seven launches and a hundred graphs");
                    assert!(report.kernels.iter().any(|kernel| kernel.name == "graph of 1000 nodes"));
                }
            }
        }
    }
}

/// Case C08: kernels by their own handle are known, and an address that comes again is other code.
#[test]
fn code_is_known_whichever_way_it_was_loaded() {
    let (_session, report, output) = run("gate", BestEffort, "modules", &[]);
    assert!(output.contains("b "), "{output}");
    assert!(report.notes.is_empty(), "{:?}", report.notes);
    let names: Vec<&str> = report.kernels.iter().map(|kernel| kernel.name.as_str()).collect();
    assert!(names.iter().all(|name| !name.starts_with("kernel at")), "{names:?}");
    assert!(names.len() >= 4, "{names:?}");
}

/// Case C09.
#[test]
fn null_pointers_are_the_driver_s_business() {
    let plain = succeeded(&mut stub::command("nulls"));
    for priority in [High, BestEffort] {
        let session = Session::new("gate");
        let output = succeeded(&mut session.command(priority, "nulls"));
        let (got, expected) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&plain.stdout));
        assert_eq!(got, expected, "{priority}");
    }
}

/// Case C12.
#[test]
fn a_cooperative_launch_arrives_once_and_unchanged() {
    let plain = succeeded(&mut stub::command("cooperative"));
    let (session, report, output) = run("gate", BestEffort, "cooperative", &[]);
    assert_eq!(output, String::from_utf8_lossy(&plain.stdout));
    assert_eq!(reported(&report), work(&session.calls("cooperative")));
}

/// Durations come from runs alone on the device, and the next program has them from the start.
#[test]
fn durations_are_measured_once_and_kept() {
    let session = Session::new("gate:depth=16,budget_us=1000");
    let times = "train0=300;train1=2000";
    let run = || {
        let mut trainer = session.command(BestEffort, "trainer");
        trainer
            .args(["--iterations", "10", "--launches", "8", "--kernels", "2"])
            .env("STUB_DURATION_US", times);
        succeeded(&mut trainer);
    };
    run();
    let first = session.report("trainer");
    assert_eq!(first.profiled, 6, "three runs of two kernels: {first:?}");
    for (name, us) in [("train0", 300), ("train1", 2000)] {
        let kernel = first.kernels.iter().find(|kernel| kernel.name == name).expect(name);
        let ns = kernel.duration_ns.expect("measured");
        assert!((us * 1000..us * 4000).contains(&ns), "{name}: {ns}");
    }
    run();
    let second = session.reports().into_iter().find(|report| report.process != first.process);
    assert_eq!(second.expect("a second report").profiled, 0, "known from the first program");
}

/// A program that is killed has sent what it measured before.
#[test]
fn durations_of_a_killed_program_are_kept() {
    let session = Session::new("gate:depth=16,budget_us=1000");
    let times = "train0=300;train1=2000";
    let trainer = |arguments: &[&str]| {
        let mut trainer = session.command(BestEffort, "trainer");
        trainer.args(["--launches", "8", "--kernels", "2"]).args(arguments).env("STUB_DURATION_US", times);
        trainer
    };
    let (mut endless, mut lines) = session.spawn(&mut trainer(&[]));
    let profiles = session.path().join("profiles/stub.csv");
    until("the durations to be sent", || {
        read_until(&mut lines, "iteration");
        std::fs::read_to_string(&profiles).is_ok_and(|text| text.contains("train1"))
    });
    endless.0.kill().expect("it runs");
    endless.0.wait().expect("it ends");
    succeeded(&mut trainer(&["--iterations", "3"]));
    let second = session.reports().into_iter().find(|report| report.profiled == 0 && report.admitted > 0);
    assert!(second.is_some(), "known from the killed program: {:?}", session.reports());
}

/// The log of a run is what the policy answers when it is asked again.
#[test]
fn the_event_log_is_the_policy_s() {
    for policy in ["gate", "gate:depth=8", "gate:depth=8,budget_us=500"] {
        let session = Session::new(policy);
        let mut server = session.command(High, "server");
        let (_server, mut served) = session.spawn(server.env("STUB_DURATION_US", "serve=300"));
        read_until(&mut served, "request 0 0");
        let log = session.path().join("events");
        let mut trainer = session.command(BestEffort, "trainer");
        trainer
            .args(["--iterations", "20"])
            .env("TALLY_EVENT_LOG", &log)
            .env("STUB_DURATION_US", "default=50");
        succeeded(&mut trainer);
        let text = std::fs::read_to_string(log).expect("a log");
        let replayed = sched::client::replay(&text).unwrap_or_else(|mismatch| panic!("{policy}: {mismatch}"));
        assert_eq!(replayed.admitted, session.report("trainer").admitted);
        assert!(text.contains(" word active"), "{policy}: the server was never seen");
    }
}
