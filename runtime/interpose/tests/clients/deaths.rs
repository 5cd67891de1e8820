//! What happens when a process is killed: case C11.

use crate::session::{LIMIT, Session, read_until, until};
use protocol::Priority::{BestEffort, High};
use std::io::BufRead;
use std::time::{Duration, Instant};

const KILLS: usize = 20;

/// A small generator, so that the moments are the same in every run.
fn moments() -> impl Iterator<Item = Duration> {
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    std::iter::from_fn(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        Some(Duration::from_micros(state % 20_000))
    })
}

/// Best effort goes on within a second of the death of a high-priority process, whatever that held.
#[test]
fn best_effort_outlives_high_priority() {
    let session = Session::new("gate");
    let mut trainer = session.command(BestEffort, "trainer");
    let trainer =
        trainer.args(["--launches", "2"]).env("STUB_DURATION_US", "default=20").env_remove("STUB_LOG");
    let (_trainer, mut lines) = session.spawn(trainer);
    read_until(&mut lines, "iteration 0");
    for moment in moments().take(KILLS) {
        let mut server = session.command(High, "server");
        // Nearly always active, with little queued on the device.
        server.args(["--pause-us", "0", "--launches", "4"]).env_remove("STUB_LOG");
        let (mut server, mut served) = session.spawn(server.env("STUB_DURATION_US", "serve=100"));
        read_until(&mut served, "request 0 0");
        std::thread::sleep(moment);
        server.0.kill().expect("it runs");
        server.0.wait().expect("it was started here");
        drop(server);
        let killed = protocol::clock::now();
        let end = Instant::now() + LIMIT;
        loop {
            let line = read_until(&mut lines, "iteration");
            let at: u64 = line.rsplit(' ').next().and_then(|ns| ns.parse().ok()).expect("a time");
            if at > killed {
                // A second, and as much again for a busy machine.
                let stood = (at - killed) / 1_000_000;
                assert!(stood < 2000, "best effort stood still for {stood} ms");
                break;
            }
            assert!(Instant::now() < end);
        }
    }
    let reported = || session.reports().iter().filter(|report| report.program == "server").count();
    until("the daemon's report of each of them", || reported() == KILLS);
}

/// Without the daemon best effort is still held back, and still outlives high priority.
#[test]
fn the_daemon_s_death_changes_nothing_but_the_report() {
    let mut session = Session::new("gate");
    let mut server = session.command(High, "server");
    // Three threads, so that there is no gap even if one of them loses its core.
    server.args(["--pause-us", "0", "--launches", "1", "--threads", "3"]).env_remove("STUB_LOG");
    let (mut server, mut served) = session.spawn(server.env("STUB_DURATION_US", "serve=30000"));
    read_until(&mut served, "request 0 0");
    let mut trainer = session.command(BestEffort, "trainer");
    trainer.args(["--iterations", "2", "--launches", "2"]).stderr(std::process::Stdio::piped());
    let (mut trainer, mut lines) = session.spawn(&mut trainer);
    let mut said = std::io::BufReader::new(trainer.0.stderr.take().expect("a pipe"));
    for _ in 0..3 {
        read_until(&mut served, "request");
    }
    session.kill_daemon();
    let mut line = String::new();
    said.read_line(&mut line).expect("a line");
    assert!(line.contains("the daemon has gone; best effort is still held back"), "{line}");
    for _ in 0..5 {
        read_until(&mut served, "request");
    }
    assert!(trainer.0.try_wait().expect("it was started").is_none(), "it is not held back any more");
    server.0.kill().expect("it runs");
    server.0.wait().expect("it was started here");
    read_until(&mut lines, "iteration 1");
    assert!(trainer.0.wait().expect("it was started").success());
    let report = session.report("trainer");
    assert!(report.daemon_lost && report.admitted == 4, "{report:?}");
}
