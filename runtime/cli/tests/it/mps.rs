//! `tally run` over MPS, with a control tool that is a script.

use super::*;
use fake::Fake;

fn fake() -> Fake {
    let fake = Fake::new();
    fake.nvidia_smi("0, Stub GPU, GPU-aaaa, 580.159, Default, 143771 MiB, Disabled\n");
    fake.mps();
    fake
}

fn run(home: &Home, fake: &Fake, flags: &[&str], steps: &str) -> Command {
    let mut command = home.tally(&["run", "--policy", "mps-priority"]);
    command.args(flags).arg("--").arg(std::env::current_exe().unwrap()).args(client::arguments());
    command.env("CLIENT_DO", steps).env("PATH", fake.path());
    command
}

#[test]
fn programs_are_told_device_pipe_and_priority() {
    let (home, fake) = (Home::new(), fake());
    for (priority, level) in [("high", "0"), ("best-effort", "1")] {
        let flags = ["run", "--policy", "mps-priority", "--priority", priority, "--", "env"];
        let output = home.tally(&flags).env("PATH", fake.path()).output().unwrap();
        let found = text(&output.stdout);
        for line in [
            format!("CUDA_MPS_CLIENT_PRIORITY={level}"),
            "CUDA_VISIBLE_DEVICES=GPU-aaaa".to_owned(),
            format!("CUDA_MPS_PIPE_DIRECTORY={}", home.file("d/GPU-aaaa.mps/pipe").display()),
        ] {
            assert!(found.lines().any(|found| found == line), "no `{line}` in: {found}{}", said(&output));
        }
    }
    home.is_left_clean();
    assert_eq!(fake.mps_daemons(), [0_u32; 0]);
}

#[test]
fn a_client_is_taken_off_mps_before_it_is_killed() {
    let (home, fake) = (Home::new(), fake());
    let pid = home.file("pid");
    let steps = format!("hello ignore-term touch={} wait", pid.display());
    let child = run(&home, &fake, &["--grace", "0"], &steps).stderr(Stdio::piped()).spawn().unwrap();
    let program = number(&pid);
    fs::write(fake.file("clients"), format!("{program}\n")).unwrap();
    signal(&child, Signal::TERM);
    let output = child.wait_with_output().unwrap();
    let said = said(&output);
    assert_eq!(output.status.code(), Some(128 + 9), "{said}");
    let commands = fake.read("commands");
    let order: Vec<&str> = commands.lines().map(str::trim).collect();
    let terminated = order.iter().position(|line| *line == format!("terminate_client 4242 {program} alive"));
    let after = &order[terminated.expect("the control tool was told, while the program lived") + 1..];
    assert!(after.contains(&"get_server_list"), "the device is checked afterwards: {order:?}");
    fs::remove_file(fake.file("clients")).unwrap();
    home.is_left_clean();
}

#[test]
fn a_device_that_no_longer_answers_is_the_end() {
    let (home, fake) = (Home::new(), fake());
    let pid = home.file("pid");
    let steps = format!("hello ignore-term touch={} wait", pid.display());
    let child = run(&home, &fake, &["--grace", "0"], &steps).stderr(Stdio::piped()).spawn().unwrap();
    number(&pid);
    fs::write(fake.file("never"), "").unwrap();
    signal(&child, Signal::TERM);
    let output = child.wait_with_output().unwrap();
    let said = said(&output);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(
        said.contains("the device can no longer be used") && said.contains("start nothing more on it"),
        "{said}"
    );
    home.is_left_clean();
    assert_eq!(fake.mps_daemons(), [0_u32; 0], "by signals, as it does not answer");
}

#[test]
fn a_program_that_ends_when_asked_is_not_killed() {
    let (home, fake) = (Home::new(), fake());
    let pid = home.file("pid");
    let steps = format!("hello touch={} wait", pid.display());
    let child = run(&home, &fake, &[], &steps).stderr(Stdio::piped()).spawn().unwrap();
    number(&pid);
    signal(&child, Signal::INT);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(128 + 2));
    assert!(!fake.read("commands").contains("terminate_client"));
    home.is_left_clean();
}

#[test]
fn what_a_killed_daemon_leaves_is_ended_by_tally_run() {
    let (home, fake) = (Home::new(), fake());
    let (pid, go) = (home.file("pid"), home.file("go"));
    let steps = format!("hello touch={} gone see={} report exit=0", pid.display(), go.display());
    let child = run(&home, &fake, &[], &steps).stderr(Stdio::piped()).spawn().unwrap();
    number(&pid);
    let status: serde_json::Value = serde_json::from_str(&home.status()).unwrap();
    let daemon = status[0]["daemon"]["pid"].as_i64().unwrap() as i32;
    kill_process(Pid::from_raw(daemon).unwrap(), Signal::KILL).unwrap();
    assert_eq!(fake.mps_daemons().len(), 1);
    fs::write(&go, "").unwrap();
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(0));
    assert_eq!(fake.mps_daemons(), [0_u32; 0]);
    home.is_left_clean();
}

#[test]
fn a_signal_during_the_start_starts_no_program() {
    let (home, fake) = (Home::new(), fake());
    // Of the questions that a start asks, more than it will ask until the signal.
    fs::write(fake.file("unready"), "1000").unwrap();
    let begun = home.file("begun");
    let mut command = run(&home, &fake, &[], &format!("touch={} exit=0", begun.display()));
    let child = command.stderr(Stdio::piped()).spawn().unwrap();
    until("MPS", || (!fake.mps_daemons().is_empty()).then_some(()));
    signal(&child, Signal::INT);
    fs::write(fake.file("unready"), "0").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(128 + 2), "{}", said(&output));
    assert!(said(&output).contains("was not started: signal 2 came first"), "{}", said(&output));
    assert!(!begun.exists());
    home.is_left_clean();
}

#[test]
fn plain_contexts_stay_away_from_the_mps_of_others() {
    let (home, theirs) = (Home::new(), Home::new());
    fs::write(theirs.file("control"), "").unwrap();
    for (policy, expected) in [("gate", "d/default.mps/none"), ("time-slicing", "d/default.mps/none")] {
        let mut command = home.tally(&["run", "--gpu", "none", "--policy", policy, "--", "env"]);
        let output = command.env("CUDA_MPS_PIPE_DIRECTORY", theirs.file("")).output().unwrap();
        let expected = format!("CUDA_MPS_PIPE_DIRECTORY={}", home.file(expected).display());
        assert!(text(&output.stdout).lines().any(|line| line == expected), "{}", text(&output.stdout));
        assert!(said(&output).contains("an MPS daemon that is not ours listens in"), "{}", said(&output));
        home.is_left_clean();
    }
}
