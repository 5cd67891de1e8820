//! Registration, forks, and programs that never launch: cases C01, C10, C13.

use crate::session::{Session, interposer, succeeded};
use protocol::Priority::{BestEffort, High};
use protocol::report::Mode;
use std::os::unix::net::UnixListener;
use std::process::Command;
use std::time::{Duration, Instant};

/// Case C10: children that only sleep are nobody, and those that launch are counted as what they are.
#[test]
fn children_are_no_clients() {
    for priority in [High, BestEffort] {
        let session = Session::new("gate");
        succeeded(&mut session.command(priority, "forks"));
        assert_eq!(session.report("forks").calls["cuLaunchKernel"], 2);
        let session = Session::new("gate");
        succeeded(session.command(priority, "forks").args(["--use", "1"]));
        // Children that leave by `_exit` write nothing.
        assert_eq!(session.report("forks").calls["cuLaunchKernel"], 2);
    }
}

/// Case C10: programs without CUDA are preloaded too, also one that executes a program with it under its own number.
#[test]
fn a_program_that_launches_nothing_is_no_client() {
    let session = Session::new("gate");
    let begun = Instant::now();
    let mut trainer = session.command(BestEffort, "trainer");
    succeeded(trainer.args(["--iterations", "0"]));
    let other = |name: &str| {
        let mut command = Command::new(name);
        let settings = trainer.get_envs().filter_map(|(name, value)| Some((name, value?)));
        command.envs(settings);
        command
    };
    succeeded(other("ls").arg("/"));
    assert_eq!(session.reports(), []);
    succeeded(other("env").arg(trainer.get_program()).args(["--iterations", "1"]));
    assert_eq!(session.report("trainer").admitted, 20);
    assert!(begun.elapsed() < Duration::from_secs(10));
}

/// Case C10: the second program under one process number is a client of its own.
#[test]
fn a_program_that_executes_another_is_followed() {
    let session = Session::new("gate");
    let next = stub::program("cooperative");
    succeeded(session.command(BestEffort, "forks").arg("--exec").arg(next));
    let report = session.report("cooperative");
    assert!(report.admitted > 0, "{report:?}");
}

/// Case C01: the first call comes from eight threads at once.
#[test]
fn eight_threads_may_begin_at_once() {
    for priority in [High, BestEffort] {
        let session = Session::new("gate");
        let begun = Instant::now();
        succeeded(&mut session.command(priority, "init8"));
        let mut server = session.command(priority, "server");
        succeeded(server.args(["--threads", "8", "--requests", "5"]));
        assert!(begun.elapsed() < Duration::from_secs(20));
        assert_eq!(session.report("server").calls["cuLaunchKernel"], 400);
    }
}

/// Cases C01 and C13: without an answer within the limit the program runs on, says why once, and its record says so.
#[test]
fn a_daemon_that_does_not_answer_is_not_waited_for() {
    let session = Session::new("gate");
    let socket = session.path().join("silent.sock");
    let _silent = rustix_listener(&socket);
    for missing in [false, true] {
        let mut command = session.command(BestEffort, "trainer");
        if missing {
            command.env("TALLY_SOCKET", session.path().join("nobody.sock"));
        } else {
            command.env("TALLY_SOCKET", &socket);
        }
        command.args(["--iterations", "3", "--launches", "10"]).env("TALLY_START_LIMIT_MS", "200");
        let output = succeeded(&mut command);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(text.matches("runs unscheduled").count(), 1, "{text}");
        assert!(text.contains(".sock"), "{text}");
    }
    let reports = session.reports();
    assert_eq!(reports.len(), 2);
    for report in reports {
        assert!(matches!(&report.mode, Mode::Unscheduled(why) if why.contains("no answer from the daemon")));
        assert_eq!(
            (report.passed["unregistered"], report.admitted),
            (33, 0),
            "launches and copies: {report:?}"
        );
    }
}

/// A socket of the daemon's kind that accepts and never answers.
fn rustix_listener(path: &std::path::Path) -> std::os::fd::OwnedFd {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .expect("a socket");
    bind(&socket, &SocketAddrUnix::new(path).expect("a short path")).expect("a free path");
    listen(&socket, 8).expect("it listens");
    socket
}

/// A socket of another kind is no daemon either.
#[test]
fn bad_settings_and_foreign_sockets_are_named_once() {
    let session = Session::new("gate");
    let stream = session.path().join("stream.sock");
    let _stream = UnixListener::bind(&stream).expect("a free path");
    for (name, value, said) in [
        ("TALLY_PRIORITY", "", "TALLY_PRIORITY is not"),
        ("TALLY_PRIORTY", "high", "unknown setting TALLY_PRIORTY"),
        ("TALLY_SPIN_US", "-1", "TALLY_SPIN_US=-1"),
        ("TALLY_SOCKET", stream.to_str().expect("text"), "stream.sock"),
    ] {
        let mut command = session.command(BestEffort, "trainer");
        let output = succeeded(command.args(["--iterations", "2"]).env(name, value));
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(text.lines().filter(|line| line.contains(said)).count(), 1, "{name}: {text}");
        assert_eq!(text.matches("runs unscheduled").count(), 1, "{text}");
    }
}

/// Case C13: a policy that interrupts kernels holds them back at their launch instead, says so once, and the record has it.
#[test]
fn what_is_not_possible_is_done_in_a_weaker_way() {
    for policy in ["gate-cubin", "gate:level=ptx"] {
        let session = Session::new(policy);
        let output = succeeded(session.command(BestEffort, "trainer").args(["--iterations", "2"]));
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(text.matches("level=launch").count(), 1, "{text}");
        let report = session.report("trainer");
        assert_eq!((&report.mode, report.admitted), (&Mode::Scheduled, 40));
        assert!(report.notes.iter().any(|note| note.contains("level=launch")), "{report:?}");
    }
}

/// Without `TALLY_SOCKET` the library does nothing at all.
#[test]
fn without_a_socket_nothing_happens() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut command = stub::command("trainer");
    command.args(["--iterations", "2"]).env("LD_PRELOAD", interposer()).env("TALLY_REPORT", folder.path());
    let output = succeeded(command.env_remove("TALLY_SOCKET"));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
}
