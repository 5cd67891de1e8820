//! Starting and ending: folders, locks, devices.

use super::*;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

#[test]
fn a_clean_end_leaves_nothing() {
    let home = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(home.path(), &[]);
    let folder = home.path().join("d");
    assert_eq!(fake::names(&folder), ["default.lock", "default.sock"]);
    let mode = |name: &str| std::fs::metadata(folder.join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(""), mode("default.sock")), (0o700, 0o600));
    assert!(daemon.end().success());
    assert_eq!(fake::names(&folder), Vec::<String>::new());
}

#[test]
fn a_killed_daemon_is_followed_by_the_next() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("d");
    // Moments from before the folder is made to long after the socket is.
    let mut seed = 20_u64;
    for round in 0..20 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut child = tallyd(home.path(), &["--gpu", "none"]).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_micros((seed >> 33) % 20_000));
        child.kill().unwrap();
        child.wait().unwrap();
        if folder.exists() {
            let left = fake::names(&folder);
            let known = ["default.lock", "default.new", "default.sock"];
            assert!(left.iter().all(|name| known.contains(&&name[..])), "round {round}: {left:?}");
        }
    }
    // And with a client, killed for sure after it was ready.
    let mut daemon = Daemon::start(home.path(), &[]);
    let mut client = daemon.client("high", "hello wait");
    client.said();
    daemon.child.kill().unwrap();
    daemon.child.wait().unwrap();
    assert!(folder.join("default.sock").exists());
    let next = Daemon::start(home.path(), &[]);
    assert!(next.status().clients.is_empty());
    assert!(next.end().success());
    assert_eq!(fake::names(&folder), Vec::<String>::new());
}

#[test]
fn there_is_one_daemon_per_folder_and_device() {
    let home = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(home.path(), &[]);
    let said = refusal(tallyd(home.path(), &["--gpu", "none"]));
    assert!(said.contains(&format!("another tallyd (process {})", daemon.child.id())), "{said}");
}

#[test]
fn an_idle_daemon_ends_with_the_last_connection() {
    let home = tempfile::tempdir().unwrap();
    let mut daemon = Daemon::start(home.path(), &["--until-idle"]);
    let channel = Channel::connect(&daemon.socket).unwrap();
    let attach =
        |policy: Option<&str>| Request::Attach { version: VERSION, policy: policy.map(str::to_owned) };
    let (reply, _) = channel.ask(&attach(Some("gate:depth=64")), &[], LIMIT).unwrap();
    assert!(matches!(reply, Reply::Ready { environment, .. } if environment.is_empty()));
    let other = Channel::connect(&daemon.socket).unwrap();
    let error = other.ask(&attach(Some("gate:depth=2")), &[], LIMIT).unwrap_err().to_string();
    assert!(error.contains("runs the policy gate, not gate:depth=2"), "{error}");
    drop(other);
    let mut client = daemon.client("high", "hello stdin");
    client.said();
    drop(channel);
    client.step("activity");
    assert!(daemon.child.try_wait().unwrap().is_none(), "a client is still there");
    client.kill();
    let status = until("the daemon's end", || daemon.child.try_wait().unwrap());
    assert!(status.success());
    assert_eq!(fake::names(&home.path().join("d")), Vec::<String>::new());
}

#[test]
fn a_daemon_that_nobody_needs_makes_room_for_another_policy() {
    let home = tempfile::tempdir().unwrap();
    let mut daemon = Daemon::start(home.path(), &["--until-idle"]);
    let channel = Channel::connect(&daemon.socket).unwrap();
    let request = Request::Attach { version: VERSION, policy: Some("tgs".to_owned()) };
    assert!(channel.ask(&request, &[], LIMIT).is_err());
    assert!(until("the daemon's end", || daemon.child.try_wait().unwrap()).success());
    // One that stays says no instead.
    let daemon = Daemon::start(home.path(), &[]);
    let channel = Channel::connect(&daemon.socket).unwrap();
    assert!(channel.ask(&request, &[], LIMIT).unwrap_err().to_string().contains("runs the policy gate"));
}

#[test]
fn folders_that_others_can_enter_are_refused() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("d");
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o770)).unwrap();
    let said = refusal(tallyd(home.path(), &["--gpu", "none"]));
    assert!(said.contains("(mode 770)") && said.contains("chmod 700"), "{said}");
    let mut long = Command::new(env!("CARGO_BIN_EXE_tallyd"));
    long.arg("--dir").arg(home.path().join("x".repeat(100))).args(["--gpu", "none"]);
    let said = refusal(long);
    assert!(said.contains("at most 107 bytes") && said.contains("--dir"), "{said}");
}

const TWO: &str = "0, NVIDIA H200, GPU-aaaa, 580.159, Default, 143771 MiB, Disabled\n\
                   1, NVIDIA H200, GPU-bbbb, 580.159, Prohibited, 143771 MiB, Disabled\n";

#[test]
fn the_device_is_chosen_and_named_to_programs() {
    let home = tempfile::tempdir().unwrap();
    let fake = Fake::new();
    fake.nvidia_smi(TWO);
    let with = |arguments: &[&str]| {
        let mut command = tallyd(home.path(), arguments);
        command.env("PATH", fake.path());
        command
    };
    let said = refusal(with(&[]));
    assert!(said.contains("2 devices and none chosen") && said.contains("GPU-bbbb  NVIDIA H200"), "{said}");
    assert!(refusal(with(&["--gpu", "GPU-bbbb"])).contains("is Prohibited"));
    assert!(refusal(with(&["--gpu", "GPU-cccc"])).contains("which is not here"));
    let mut command = with(&[]);
    command.env("CUDA_VISIBLE_DEVICES", "GPU-aaaa");
    let daemon = Daemon::of(command, home.path(), "GPU-aaaa");
    assert_eq!(daemon.status().gpu.as_deref(), Some("GPU-aaaa"));
    let channel = Channel::connect(&daemon.socket).unwrap();
    let (reply, _) = channel.ask(&Request::Attach { version: VERSION, policy: None }, &[], LIMIT).unwrap();
    let Reply::Ready { environment, .. } = reply else { panic!("{reply:?}") };
    let expected = [("CUDA_DEVICE_ORDER", "PCI_BUS_ID"), ("CUDA_VISIBLE_DEVICES", "GPU-aaaa")];
    assert_eq!(environment, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
}

#[test]
fn a_machine_without_a_device_is_an_error_unless_that_is_meant() {
    let home = tempfile::tempdir().unwrap();
    let empty = Fake::new();
    std::fs::create_dir(empty.file("bin")).unwrap();
    let without = |arguments: &[&str]| {
        let mut command = tallyd(home.path(), arguments);
        command.env("PATH", empty.file("bin"));
        command
    };
    let said = refusal(without(&[]));
    assert!(said.contains("no nvidia-smi on PATH") && said.contains("--gpu none"), "{said}");
    let mut with_driver = without(&[]);
    with_driver.env("TALLY_DRIVER", "/some/libcuda.so.1");
    Daemon::of(with_driver, home.path(), "default").end();
    let said = refusal(without(&["--policy", "orion"]));
    assert!(said.contains("orion is simulated only"), "{said}");
    let mut mistake = without(&[]);
    mistake.env("TALLY_SPIN_US", "soon");
    let output = mistake.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("TALLY_SPIN_US=soon"));
}
