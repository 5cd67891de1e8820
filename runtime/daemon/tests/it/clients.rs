//! Slots, deaths, reports, durations.

use super::*;
use protocol::Priority;
use protocol::process::Process;
use protocol::report::{Ended, Mode, Report};
use std::os::fd::AsFd;

fn home() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn nobody_waits_for_a_killed_server_and_its_report_is_written() {
    let home = home();
    let daemon = Daemon::start(home.path(), &[]);
    let mut low = daemon.client("best-effort", "hello stdin");
    assert_eq!(low.said(), "slot 0 gate 0");
    assert_eq!(low.step("activity"), "nobody 0");
    let mut high = daemon.client("high", "hello=/opt/server launch=41 active wait");
    assert_eq!((high.said(), high.said()), ("slot 1 gate 0".to_owned(), "active".to_owned()));
    assert_eq!(low.step("activity"), "active 10");
    let shown = daemon.status().clients;
    assert_eq!((shown.len(), shown[1].active, shown[1].launches), (2, Some(true), 41));
    let process = Process::find(high.child.id()).unwrap();
    assert_eq!(shown[1].process, process);
    high.kill();
    until("the mask to be cleared", || (low.step("activity") == "nobody 0").then_some(()));
    // A question that is asked after a death is answered after what the death brings.
    assert_eq!(daemon.status().clients.len(), 1);
    let report = Report::read(&daemon.reports().join(Report::file_name(process))).unwrap();
    assert_eq!((report.ended, report.mode.clone(), report.launches()), (Ended::Killed, Mode::Observed, 41));
    assert_eq!((&report.program[..], &report.policy[..]), ("/opt/server", "gate"));
    // The slot is another's now, and starts from 0.
    let mut next = daemon.client("high", "hello stdin");
    assert_eq!(next.said(), "slot 1 gate 0");
    assert_eq!(daemon.status().clients[1].launches, 0);
    assert_eq!(low.step("activity"), "idle 10");
}

#[test]
fn the_report_of_a_program_that_ends_is_its_own() {
    let home = home();
    let daemon = Daemon::start(home.path(), &[]);
    let mut client = daemon.client("best-effort", "hello launch=3 report");
    assert!(client.said().starts_with("slot 0"));
    let name = Report::file_name(Process::find(client.child.id()).unwrap());
    assert!(client.child.wait().unwrap().success());
    assert!(daemon.status().clients.is_empty());
    let report = Report::read(&daemon.reports().join(name)).unwrap();
    assert_eq!((report.ended, report.mode, report.admitted), (Ended::Exit, Mode::Scheduled, 3));
}

#[test]
fn a_death_counts_even_if_a_child_holds_the_socket() {
    let home = home();
    let daemon = Daemon::start(home.path(), &[]);
    let mut high = daemon.client("high", "hello active stdin");
    high.said();
    high.said();
    let child: u32 = high.step("leak").parse().unwrap();
    high.kill();
    assert!(fake::runs(child), "the child lives on");
    until("the client to be gone", || daemon.status().clients.is_empty().then_some(()));
    kill_process(Pid::from_raw(child as i32).unwrap(), Signal::KILL).unwrap();
}

#[test]
fn a_program_that_becomes_another_is_one_client() {
    let home = home();
    let daemon = Daemon::start(home.path(), &[]);
    let mut client = daemon.client("high", "hello=first stdin");
    assert!(client.said().starts_with("slot "));
    client.step("active");
    let slot = client.step("exec=hello=second,active,wait");
    assert!(slot.starts_with("slot "), "{slot}");
    let status = daemon.status();
    assert_eq!(status.clients.len(), 1);
    assert_eq!(
        (&status.clients[0].program[..], status.clients[0].process.pid),
        ("second", client.child.id())
    );
}

#[test]
fn the_65th_client_is_refused_and_a_place_becomes_free() {
    let home = home();
    let daemon = Daemon::start(home.path(), &[]);
    let mut clients: Vec<Client> = (0..64).map(|_| daemon.client("high", "hello wait")).collect();
    let mut slots: Vec<String> = clients.iter_mut().map(Client::said).collect();
    assert!(slots.iter().all(|slot| slot.starts_with("slot ")), "{slots:?}");
    slots.sort();
    slots.dedup();
    assert_eq!(slots.len(), 64, "everyone has a slot of their own");
    let mut one_more = daemon.client("best-effort", "hello");
    let refused = one_more.said();
    assert!(refused.contains("all 64 slots are taken; end a program"), "{refused}");
    clients[17].kill();
    until("a free slot", || daemon.client("high", "hello").said().starts_with("slot ").then_some(()));
}

#[test]
fn durations_reach_the_next_client_and_the_next_daemon() {
    let home = home();
    let daemon = Daemon::start(home.path(), &[]);
    let mut client = daemon.client("best-effort", "hello durations");
    assert_eq!((client.said(), client.said()), ("slot 0 gate 0".to_owned(), "done".to_owned()));
    assert!(daemon.client("best-effort", "hello").said().ends_with(" gate 1"));
    assert!(daemon.end().success());
    let text = std::fs::read_to_string(home.path().join("profiles/stub.csv")).unwrap();
    assert!(text.contains("\n0000000000000005,77,3,k,"), "{text}");
    let daemon = Daemon::start(home.path(), &["--policy", "tgs"]);
    assert_eq!(daemon.client("best-effort", "hello").said(), "slot 0 tgs 1");
}

#[test]
fn another_version_is_refused_with_both_named() {
    let home = home();
    let daemon = Daemon::start(home.path(), &[]);
    let requests = [
        Request::Status { version: 99 },
        Request::Attach { version: 99, policy: None },
        Request::Hello {
            version: 99,
            process: Process::this().unwrap(),
            priority: Priority::High,
            program: String::new(),
            calls: Vec::new(),
            report: None,
        },
    ];
    for request in requests {
        let channel = Channel::connect(&daemon.socket).unwrap();
        let error = channel.ask(&request, &[], LIMIT).unwrap_err().to_string();
        assert!(error.contains("speaks version 1 and the program version 99"), "{error}");
    }
    assert!(daemon.status().clients.is_empty());
}

#[test]
fn what_is_no_message_harms_nobody() {
    let home = home();
    let daemon = Daemon::start(home.path(), &[]);
    let channel = Channel::connect(&daemon.socket).unwrap();
    channel.send(&[1, 2, 3], &[]).unwrap();
    let (reply, _): (Reply, _) = channel.receive(LIMIT).unwrap();
    assert!(matches!(reply, Reply::Refused { why, .. } if why.contains("does not understand")));
    // Somebody else's number.
    let process = Process { pid: 1, ..Process::this().unwrap() };
    let (priority, program) = (Priority::High, String::new());
    let hello =
        Request::Hello { version: VERSION, process, priority, program, calls: Vec::new(), report: None };
    let error = channel.ask(&hello, &[], LIMIT).unwrap_err().to_string();
    assert!(error.contains("one PID namespace"), "{error}");
    // Durations that are none, then no descriptor at all.
    let file = std::fs::File::open("/dev/zero").unwrap();
    assert!(channel.ask(&Request::Durations, &[file.as_fd()], LIMIT).is_err());
    assert!(channel.ask(&Request::Durations, &[], LIMIT).is_err());
    let (mine, _) = channel.ask(&Request::Status { version: VERSION }, &[], LIMIT).unwrap();
    assert!(matches!(mine, Reply::Status(_)), "the connection is still served");
}

#[test]
fn another_user_is_refused_by_name() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    if daemon::place::uid() != 0 {
        eprintln!("skipped: only root can start a process of another user");
        return;
    }
    let home = home();
    let daemon = Daemon::start(home.path(), &[]);
    // Opened by hand: as the daemon makes them nobody else gets so far.
    for (path, mode) in [(home.path(), 0o755), (&home.path().join("d"), 0o755), (&daemon.socket, 0o777)] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    // The test's executable may lie where the other user cannot read.
    let copy = home.path().join("client");
    std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    let mut command = Command::new(&copy);
    command.args(client::arguments()).env("CLIENT_DO", "hello").uid(65534).gid(65534).current_dir("/");
    command.env("TALLY_SOCKET", &daemon.socket).env("TALLY_PRIORITY", "high");
    let refused = Client::start(command).said();
    assert!(refused.contains("serves user 0 only, and this is user 65534"), "{refused}");
}

#[test]
fn clients_learn_that_the_daemon_was_killed() {
    let home = home();
    let mut daemon = Daemon::start(home.path(), &[]);
    let mut client = daemon.client("best-effort", "hello gone stdin");
    client.said();
    daemon.child.kill().unwrap();
    daemon.child.wait().unwrap();
    assert_eq!(client.said(), "gone");
    assert_eq!(client.step("activity"), "nobody 0", "its segment is still there");
}
