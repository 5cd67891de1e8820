//! MPS, with a control tool that is a script and control daemons that are processes.

use super::*;
use daemon::mps::Mps;
use std::fs;
use std::time::Duration;

const ONE: &str = "0, Stub GPU, GPU-aaaa, 580.159, Default, 143771 MiB, Disabled\n";

fn fake() -> Fake {
    let fake = Fake::new();
    fake.nvidia_smi(ONE);
    fake.mps();
    fake
}

fn over_mps(home: &Path, fake: &Fake) -> Command {
    let mut command = tallyd(home, &["--policy", "mps-priority"]);
    command.env("PATH", fake.path());
    command
}

/// Starts MPS in a process of its own, whose PATH and limit can be set.
#[test]
#[ignore = "a process of other tests"]
fn starting() {
    let Ok(folder) = std::env::var("MPS_FOLDER") else { return };
    let limit = Duration::from_millis(std::env::var("MPS_LIMIT").unwrap().parse().unwrap());
    let mps = Mps::at(Path::new(&folder));
    match mps.start(Some("GPU-aaaa"), limit) {
        Ok(()) => {
            assert!(mps.clients().is_ok());
            mps.stop();
            println!("MPS started");
        }
        Err(error) => println!("MPS failed: {error}"),
    }
}

fn start(fake: &Fake, folder: &Path, limit: &str) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["mps::starting", "--exact", "--ignored", "--nocapture"])
        .env("PATH", fake.path())
        .env("MPS_FOLDER", folder)
        .env("MPS_LIMIT", limit)
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_daemon_of_ours_is_started_for_one_device_and_ended() {
    let home = tempfile::tempdir().unwrap();
    let fake = fake();
    let daemon = Daemon::of(over_mps(home.path(), &fake), home.path(), "GPU-aaaa");
    assert_eq!(fake.read("visible"), "GPU-aaaa\n");
    assert_eq!(fake.mps_daemons().len(), 1);
    let channel = Channel::connect(&daemon.socket).unwrap();
    let (reply, _) = channel.ask(&Request::Attach { version: VERSION, policy: None }, &[], LIMIT).unwrap();
    let Reply::Ready { environment, substrate, .. } = reply else { panic!("{reply:?}") };
    assert_eq!(substrate, "mps");
    let pipe = home.path().join("d/GPU-aaaa.mps/pipe").to_str().unwrap().to_owned();
    assert!(environment.contains(&("CUDA_MPS_PIPE_DIRECTORY".to_owned(), pipe)), "{environment:?}");
    assert!(daemon.end().success());
    assert!(fake.read("commands").contains("quit"));
    assert_eq!(fake.mps_daemons(), [0_u32; 0]);
    assert_eq!(fake::names(&home.path().join("d")), Vec::<String>::new());
}

#[test]
fn that_of_another_folder_is_left_alone() {
    let homes = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let fake = fake();
    let start = |home: &tempfile::TempDir| Daemon::of(over_mps(home.path(), &fake), home.path(), "GPU-aaaa");
    let first = start(&homes[0]);
    let theirs = fake.mps_daemons();
    let second = start(&homes[1]);
    assert_eq!(fake.mps_daemons().len(), 2);
    assert!(second.end().success());
    assert_eq!(fake.mps_daemons(), theirs);
    assert!(first.end().success());
    assert_eq!(fake.mps_daemons(), [0_u32; 0]);
}

#[test]
fn it_is_asked_until_it_answers() {
    let (fake, scratch) = (fake(), tempfile::tempdir().unwrap());
    fs::write(fake.file("unready"), "20").unwrap();
    let said = start(&fake, &scratch.path().join("m"), "30000");
    assert!(said.contains("MPS started"), "{said}");
    assert_eq!(fake.mps_daemons(), [0_u32; 0]);
}

#[test]
fn one_that_never_answers_is_an_error_with_all_that_helps() {
    let (fake, scratch) = (fake(), tempfile::tempdir().unwrap());
    fs::write(fake.file("never"), "").unwrap();
    let folder = scratch.path().join("m");
    let said = start(&fake, &folder, "300");
    for part in [
        "did not become ready within 0.3 s: `get_server_list`: Cannot find MPS control daemon process",
        &format!("pipe folder: {}", folder.join("pipe").display()),
        &format!("user: {}", daemon::place::uid()),
        "compute mode: GPU-aaaa Default",
        "[Control] line 30 of user 1234",
        "[Control] line 11 of",
    ] {
        assert!(said.contains(part), "no `{part}` in: {said}");
    }
    assert!(!said.contains("line 10 of"), "only the last 20 lines: {said}");
    assert_eq!(fake.mps_daemons(), [0_u32; 0], "nothing of it stays");
    assert!(!folder.exists());
}

#[test]
fn one_of_another_user_is_named() {
    use std::os::unix::process::CommandExt;
    if daemon::place::uid() != 0 {
        eprintln!("skipped: only root can start a process of another user");
        return;
    }
    let (fake, scratch) = (fake(), tempfile::tempdir().unwrap());
    let mut other = Command::new("sleep").arg("60").uid(65534).current_dir("/").spawn().unwrap();
    fs::write(fake.file("pid"), other.id().to_string()).unwrap();
    let said = start(&fake, &scratch.path().join("m"), "10000");
    assert!(said.contains("belongs to user 65534, and clients of user 0 would wait"), "{said}");
    assert!(other.try_wait().unwrap().is_none(), "somebody else's process is left alone");
    other.kill().unwrap();
    other.wait().unwrap();
}

#[test]
fn without_the_tool_the_package_is_named() {
    let home = tempfile::tempdir().unwrap();
    let fake = Fake::new();
    fake.nvidia_smi(ONE);
    let said = refusal(over_mps(home.path(), &fake));
    assert!(said.contains("no nvidia-cuda-mps-control on PATH") && said.contains("such as gate"), "{said}");
}

#[test]
fn what_a_killed_daemon_left_is_ended_by_the_next() {
    let home = tempfile::tempdir().unwrap();
    let fake = fake();
    let mut daemon = Daemon::of(over_mps(home.path(), &fake), home.path(), "GPU-aaaa");
    daemon.child.kill().unwrap();
    daemon.child.wait().unwrap();
    let left = fake.mps_daemons();
    assert_eq!(left.len(), 1, "nobody could end it");
    // Not while a program uses it.
    fs::write(fake.file("clients"), "4711\n").unwrap();
    let said = refusal(over_mps(home.path(), &fake));
    assert!(said.contains("end these processes first: 4711"), "{said}");
    fs::remove_file(fake.file("clients")).unwrap();
    let next = Daemon::of(over_mps(home.path(), &fake), home.path(), "GPU-aaaa");
    assert_ne!(fake.mps_daemons(), left);
    assert_eq!(fake.mps_daemons().len(), 1);
    assert!(next.end().success());
    assert_eq!(fake.mps_daemons(), [0_u32; 0]);
}

#[test]
fn it_is_ended_although_its_folder_has_gone_and_when_the_terminal_has() {
    let home = tempfile::tempdir().unwrap();
    let fake = fake();
    fs::write(fake.file("stay"), "").unwrap();
    let mut daemon = Daemon::of(over_mps(home.path(), &fake), home.path(), "GPU-aaaa");
    assert_eq!(fake.mps_daemons().len(), 1);
    fs::remove_dir_all(home.path().join("d/GPU-aaaa.mps")).unwrap();
    kill_process(Pid::from_child(&daemon.child), Signal::HUP).unwrap();
    assert!(daemon.child.wait().unwrap().success());
    assert_eq!(fake.mps_daemons(), [0_u32; 0]);
}
