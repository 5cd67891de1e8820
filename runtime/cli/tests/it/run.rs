//! `tally run` over plain contexts.

use super::*;
use protocol::report::{Ended, Report};

#[test]
fn a_program_runs_and_is_reported() {
    let home = Home::new();
    let output =
        home.run(&["--priority", "best-effort"], "hello launch=12345 report exit=7").output().unwrap();
    let said = said(&output);
    assert_eq!(output.status.code(), Some(7), "{said}");
    assert!(said.contains("(best effort) under gate over contexts on no particular GPU"), "{said}");
    assert!(said.contains("12,345 launches, 12,345 admitted, 0 of them waited"), "{said}");
    home.is_left_clean();
}

#[test]
fn quiet_is_quiet_and_reports_are_kept_where_asked() {
    let home = Home::new();
    let reports = home.file("reports");
    let mut command = home.run(&["--quiet", "--report", reports.to_str().unwrap()], "hello report exit=0");
    let output = command.output().unwrap();
    assert_eq!((output.status.code(), said(&output)), (Some(0), String::new()));
    assert_eq!(fake::names(&reports).len(), 1);
    let report = Report::read(&reports.join(&fake::names(&reports)[0])).unwrap();
    assert_eq!((report.ended, &report.program[..]), (Ended::Exit, "client"));
}

#[test]
fn a_killed_program_has_its_code_and_its_report() {
    let home = Home::new();
    let pid = home.file("pid");
    let steps = format!("hello launch=5 touch={} wait", pid.display());
    let child = home.run(&[], &steps).stderr(Stdio::piped()).spawn().unwrap();
    let program = Pid::from_raw(number(&pid) as i32).unwrap();
    kill_process(program, Signal::KILL).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(128 + 9));
    assert!(
        said(&output).contains("5 launches, none held; became active 0 times; killed, or stopped"),
        "{}",
        said(&output)
    );
    home.is_left_clean();
}

#[test]
fn programs_that_cannot_be_started_and_mistakes_have_their_codes() {
    let home = Home::new();
    let code = |command: &mut Command, expected: i32, part: &str| {
        let output = command.output().unwrap();
        let said = said(&output);
        assert_eq!(output.status.code(), Some(expected), "{said}");
        assert!(said.contains(part), "no `{part}` in: {said}");
    };
    let run = ["run", "--gpu", "none"];
    let tally = |words: &[&str]| home.tally(&[&run[..], words].concat());
    code(&mut tally(&["--", "/no/such/program"]), 127, "cannot start /no/such/program");
    code(&mut tally(&["--", "/"]), 126, "cannot start /");
    code(&mut tally(&["--both", "--", "true"]), 2, "--both needs two programs");
    code(&mut tally(&["--priority", "low", "--", "true"]), 2, "known are high and best-effort");
    code(tally(&["--", "true"]).env("TALLY_SPIN", "1"), 2, "unknown setting TALLY_SPIN");
    code(tally(&["--", "true"]).env("TALLY_SPIN_US", "x"), 2, "TALLY_SPIN_US=x");
    code(&mut tally(&["--policy", "reef", "--", "true"]), 125, "reef is simulated only");
    code(tally(&["--", "true"]).env("TALLY_LIBRARY", "/no.so"), 125, "/no.so is no file");
    // The partner is ended again.
    let pid = home.file("pid");
    let mut command = home.tally(&["run", "--gpu", "none", "--both", "--"]);
    command.arg(std::env::current_exe().unwrap()).args(client::arguments());
    command.args(["--", "/no/such/program"]).env("CLIENT_DO", format!("touch={} wait", pid.display()));
    code(&mut command, 127, "cannot start /no/such/program");
    assert!(!pid.exists() || !fake::runs(number(&pid)));
    home.is_left_clean();
}

#[test]
fn without_launches_it_says_so() {
    let home = Home::new();
    let output = home.tally(&["run", "--gpu", "none", "--", "true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(said(&output).contains("no process of true launched anything on a GPU"), "{}", said(&output));
    assert!(said(&output).contains("try --shim"));
    let output = home.tally(&["run", "--gpu", "none", "--", "false"]).output().unwrap();
    assert!(output.status.code() == Some(1) && !said(&output).contains("try --shim"));
}

#[test]
fn none_is_the_program_itself() {
    let home = Home::new();
    let mut command = home.tally(&["run", "--policy", "none", "--", "printenv", "LD_PRELOAD"]);
    let output = command.output().unwrap();
    assert_eq!(
        (output.status.code(), text(&output.stdout), said(&output)),
        (Some(1), String::new(), String::new())
    );
    assert!(!home.file("d").exists(), "no daemon was started");
}

#[test]
fn what_a_program_finds_in_its_environment() {
    let home = Home::new();
    let mut command = home.tally(&["run", "--quiet", "--gpu", "none", "--", "env"]);
    let output = command.env("LD_PRELOAD", "libm.so.6").output().unwrap();
    let found = text(&output.stdout);
    let library = home.file("library.so");
    for line in [
        format!("LD_PRELOAD={}:libm.so.6", library.display()),
        format!("TALLY_SOCKET={}", home.file("d/default.sock").display()),
        "TALLY_PRIORITY=high".to_owned(),
    ] {
        assert!(found.lines().any(|found| found == line), "no `{line}` in: {found}");
    }
}

#[test]
fn the_shim_comes_first_and_knows_the_driver() {
    let home = Home::new();
    // A folder as it is installed, with a shim that nothing needs to load.
    let installed = home.file("bin");
    fs::create_dir(&installed).unwrap();
    for name in ["tally", "tallyd"] {
        fs::copy(tools().join(name), installed.join(name)).unwrap();
    }
    fs::write(installed.join("libtally_shim.so"), "").unwrap();
    let mut command = Command::new(installed.join("tally"));
    command.args(["run", "--quiet", "--shim", "--gpu", "none", "--", "env"]);
    command
        .env("TALLY_DIR", home.file("d"))
        .env("TALLY_PROFILES", home.file("profiles"))
        .env_remove("LD_PRELOAD");
    let found = text(&command.env("TALLY_DRIVER", "/opt/libcuda.so.1").output().unwrap().stdout);
    let folder = found.lines().find_map(|line| line.strip_prefix("LD_LIBRARY_PATH=")).unwrap();
    assert!(folder.starts_with(home.file("d/run-").to_str().unwrap()), "{folder}");
    assert!(found.contains("TALLY_DRIVER=/opt/libcuda.so.1") && !found.contains("LD_PRELOAD"), "{found}");
}

#[test]
fn many_at_once_share_one_daemon() {
    let home = Home::new();
    let go = home.file("go");
    let steps = format!("hello see={} report", go.display());
    let start = |_| home.run(&["--priority", "best-effort"], &steps).stderr(Stdio::piped()).spawn().unwrap();
    let children: Vec<Child> = (0..6).map(start).collect();
    let status = until("all clients", || {
        let status = home.status();
        (status.matches("\"slot\"").count() == 6).then_some(status)
    });
    assert_eq!(status.matches("\"daemon\"").count(), 1, "{status}");
    let pretty = text(&home.tally(&["status"]).output().unwrap().stdout);
    assert!(pretty.starts_with("gate over contexts on no particular GPU, tallyd "), "{pretty}");
    assert_eq!(pretty.matches(" best-effort ").count(), 6);
    // No terminal: one table and the end.
    assert_eq!(text(&home.tally(&["top"]).output().unwrap().stdout).matches(" best-effort ").count(), 6);
    // Another policy, meanwhile.
    let output = home.run(&["--policy", "tgs"], "exit=0").output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(said(&output).contains("runs the policy gate, not tgs"), "{}", said(&output));
    fs::write(&go, "").unwrap();
    for child in children {
        assert!(child.wait_with_output().unwrap().status.success());
    }
    home.is_left_clean();
    let output = home.tally(&["status"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("no daemon runs in"));
    assert_eq!(home.status(), "[]\n");
}

#[test]
fn policies_follow_each_other_without_a_pause() {
    let home = Home::new();
    for policy in ["gate", "tgs", "time-slicing", "gate:depth=2", "gate"] {
        let output = home.run(&["--policy", policy], "hello report exit=0").output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        assert!(said(&output).contains(&format!("under {policy} over")), "{}", said(&output));
    }
    home.is_left_clean();
}

#[test]
fn signals_reach_the_program() {
    let home = Home::new();
    let pid = home.file("pid");
    let steps = format!("hello term report touch={} exit=3", home.file("asked").display());
    let steps = format!("touch={} {steps}", pid.display());
    let child = home.run(&[], &steps).stderr(Stdio::piped()).spawn().unwrap();
    number(&pid);
    until("the client", || home.status().contains("\"slot\"").then_some(()));
    // It may have said hello and not yet be ready for the signal, of which it then dies; that is passing on as well.
    signal(&child, Signal::TERM);
    let output = child.wait_with_output().unwrap();
    let code = output.status.code();
    assert!(code == Some(3) || code == Some(128 + 15), "{code:?} {}", said(&output));
}

#[test]
fn the_second_program_is_stopped_with_the_first() {
    let home = Home::new();
    let (high, low) = (home.file("high"), home.file("low"));
    let mut command = home.tally(&["run", "--gpu", "none", "--both", "--grace", "0", "--"]);
    // The first waits for the second, which ignores that it is asked to end.
    command.args([
        "env",
        &format!("CLIENT_DO=hello touch={} see={} report exit=5", high.display(), low.display()),
    ]);
    command.arg(std::env::current_exe().unwrap()).args(client::arguments());
    command.args(["--", "env", &format!("CLIENT_DO=hello ignore-term touch={} wait", low.display())]);
    command.arg(std::env::current_exe().unwrap()).args(client::arguments());
    let output = command.output().unwrap();
    let said = said(&output);
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(said.contains("env did not end within 0 s, so it is killed"), "{said}");
    assert!(said.contains("high priority client") && said.contains("best effort client"), "{said}");
    assert!(!fake::runs(number(&low)));
    home.is_left_clean();
}

#[test]
fn workers_of_the_second_program_are_ended_too() {
    let home = Home::new();
    let (worker, go) = (home.file("worker"), home.file("go"));
    let mut command = home.tally(&["run", "--gpu", "none", "--both", "--grace", "0", "--"]);
    command.args(["env", &format!("CLIENT_DO=see={} exit=0", go.display())]);
    command.arg(std::env::current_exe().unwrap()).args(client::arguments()).arg("--");
    // Ends at once and leaves a worker that ignores that it is asked.
    let (worker_shown, go_shown) = (worker.display(), go.display());
    let worker_does = format!("ignore-term,touch={worker_shown},orphan,touch={go_shown},wait");
    let steps = format!("spawn={worker_does} see={worker_shown} exit=0");
    command.args(["env", &format!("CLIENT_DO={steps}")]);
    command.arg(std::env::current_exe().unwrap()).args(client::arguments());
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(said(&output).contains("that did not end are killed"), "{}", said(&output));
    let worker = number(&worker);
    until("the worker's end", || (!fake::runs(worker)).then_some(()));
    home.is_left_clean();
}

#[test]
fn a_program_outlives_its_daemon() {
    let home = Home::new();
    let go = home.file("go");
    let steps = format!("hello gone see={} report exit=4", go.display());
    let child = home.run(&[], &steps).stderr(Stdio::piped()).spawn().unwrap();
    let status = until("the client", || Some(home.status()).filter(|status| status.contains("\"slot\"")));
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    let daemon = status[0]["daemon"]["pid"].as_i64().unwrap() as i32;
    kill_process(Pid::from_raw(daemon).unwrap(), Signal::KILL).unwrap();
    // Another one meanwhile is told that the two do not see each other.
    let other = home.run(&["--quiet"], "hello report exit=0").output().unwrap();
    let program = &status[0]["clients"][0]["process"]["pid"];
    let warning = format!("do not see each other. End them first: [{program}]");
    assert!(said(&other).contains(&warning), "{}", said(&other));
    fs::write(&go, "").unwrap();
    let output = child.wait_with_output().unwrap();
    let said = said(&output);
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("the daemon has gone; the programs go on as before"), "{said}");
    home.is_left_clean();
    assert_eq!(home.run(&["--quiet"], "hello report exit=0").status().unwrap().code(), Some(0));
}

#[test]
fn a_daemon_that_cannot_start_says_why() {
    let home = Home::new();
    fs::write(home.file("file"), "").unwrap();
    let output = home.run(&[], "exit=0").env("TALLY_PROFILES", home.file("file/x")).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(
        said(&output).contains("the daemon did not start: cannot make the folder of durations"),
        "{}",
        said(&output)
    );
}

#[test]
fn a_second_program_that_fails_is_said_and_the_first_goes_on() {
    let home = Home::new();
    let mut command = home.tally(&["run", "--gpu", "none", "--quiet", "--both", "--", "sleep", "1", "--"]);
    let output = command.args(["sh", "-c", "exit 3"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(said(&output), "tally: sh failed (exit status: 3); the first program goes on\n");
}

#[test]
fn nobody_who_reads_is_no_reason_to_fail() {
    let home = Home::new();
    let go = home.file("go");
    let mut command = home.run(&[], &format!("see={} hello report exit=7", go.display()));
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stderr.take());
    fs::write(&go, "").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(7));
    home.is_left_clean();
}
