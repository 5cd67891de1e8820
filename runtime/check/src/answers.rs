//! What is said where something is missing: `tally run` among stand-ins for the driver's tools. Needs no GPU.
//!
//! Each text must be an error that names what is wrong; all are kept in `answers.txt`, to be read by people.

use crate::program::Program;
use crate::rows::Rows;
use crate::setup::Setup;
use anyhow::{Context, Result};
use flags::Part;
use protocol::VERSION;
use protocol::message::{Channel, Reply, Request};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::fs::Permissions;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// An answer that takes longer is none: people press Ctrl-C.
const LIMIT: Duration = Duration::from_secs(20);

const ONE: &str = "GPU-11111111-2222-3333-4444-555555555555";
const TWO: &str = "GPU-99999999-8888-7777-6666-555555555555";

/// One situation.
struct Case {
    name: &'static str,
    /// Devices that the stand-in for nvidia-smi lists; none if it says that there are none, absent if it is absent.
    devices: Option<&'static [&'static str]>,
    arguments: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
    program: &'static str,
    /// Words of the answer.
    wanted: &'static [&'static str],
}

const CASE: Case = Case {
    name: "",
    devices: Some(&[ONE]),
    arguments: &[],
    environment: &[],
    program: "/bin/true",
    wanted: &[],
};

const CASES: &[Case] = &[
    Case { name: "no nvidia-smi", devices: None, wanted: &["nvidia-smi"], ..CASE },
    Case { name: "no device", devices: Some(&[]), wanted: &["nvidia-smi", "--gpu none"], ..CASE },
    Case {
        name: "every device hidden",
        environment: &[("CUDA_VISIBLE_DEVICES", "")],
        wanted: &["CUDA_VISIBLE_DEVICES"],
        ..CASE
    },
    Case {
        name: "two devices and none chosen",
        devices: Some(&[ONE, TWO]),
        wanted: &[ONE, TWO, "--gpu"],
        ..CASE
    },
    Case { name: "a device that is not there", arguments: &["--gpu", TWO], wanted: &[TWO], ..CASE },
    Case {
        name: "MPS without its tool",
        arguments: &["--policy", "mps"],
        wanted: &["nvidia-cuda-mps-control"],
        ..CASE
    },
    Case {
        name: "a policy that is only simulated",
        arguments: &["--policy", "tally", "--gpu", "none"],
        wanted: &["tally", "simulated"],
        ..CASE
    },
    Case {
        name: "an unknown policy",
        arguments: &["--policy", "gatee", "--gpu", "none"],
        wanted: &["gatee", "known"],
        ..CASE
    },
    Case {
        name: "an unknown setting",
        arguments: &["--gpu", "none"],
        environment: &[("TALLY_SPIN", "5")],
        wanted: &["TALLY_SPIN"],
        ..CASE
    },
    Case {
        name: "a value out of range",
        arguments: &["--gpu", "none"],
        environment: &[("TALLY_SPIN_US", "-1")],
        wanted: &["TALLY_SPIN_US=-1"],
        ..CASE
    },
    Case {
        name: "a program that is not there",
        arguments: &["--gpu", "none"],
        program: "/no/such/program",
        wanted: &["/no/such/program"],
        ..CASE
    },
];

/// Runs the part.
///
/// # Errors
/// Results cannot be written.
pub fn run(setup: &Setup, rows: &mut Rows) -> Result<()> {
    let mut texts = String::new();
    for (number, case) in CASES.iter().enumerate() {
        let answer = ask(setup, case, &format!("a{number}"));
        keep(setup, rows, &mut texts, case.name, case.wanted, answer)?;
    }
    let answer = other_version(setup);
    keep(setup, rows, &mut texts, "a daemon of another version", &["version"], answer)?;
    let path = setup.out.join("answers.txt");
    std::fs::write(&path, texts).with_context(|| format!("cannot write {}", path.display()))
}

/// Exit code, and what was printed.
type Answer = (i32, String);

fn keep(
    setup: &Setup,
    rows: &mut Rows,
    texts: &mut String,
    name: &str,
    wanted: &[&str],
    answer: Result<Answer>,
) -> Result<()> {
    let (held, detail, text) = match answer {
        Ok((code, text)) => {
            // Folders of this one run say nothing to a reader.
            let text = text
                .replace(&*setup.scratch().to_string_lossy(), "SCRATCH")
                .replace(&*setup.tools.to_string_lossy(), "TOOLS");
            let (held, why) = judge(code, &text, wanted);
            (held, format!("code {code}, {why}"), text)
        }
        Err(error) => (false, format!("{error:#}"), String::new()),
    };
    *texts += &format!("== {name}: {detail}\n{}\n\n", text.trim_end());
    rows.judge(Part::Answers, name, held, detail)
}

/// Whether an answer is an error that names what is wrong.
fn judge(code: i32, text: &str, wanted: &[&str]) -> (bool, String) {
    let missing: Vec<&str> = wanted.iter().filter(|word| !text.contains(*word)).copied().collect();
    if code == 0 {
        (false, "which says that all is well".to_owned())
    } else if code > 128 || text.contains("panicked") {
        (false, "which is a crash".to_owned())
    } else if missing.is_empty() {
        (true, format!("names {}", wanted.join(" and ")))
    } else {
        (false, format!("does not name {}", missing.join(" and ")))
    }
}

fn ask(setup: &Setup, case: &Case, name: &str) -> Result<Answer> {
    let dir = setup.folder(name)?;
    let path = setup.folder(&format!("{name}-bin"))?;
    if let Some(devices) = case.devices {
        stand_in(&path.join("nvidia-smi"), devices)?;
    }
    let mut command = Command::new(setup.tools.join("tally"));
    command.arg("run").arg("--dir").arg(dir).args(case.arguments).arg("--").arg(case.program);
    command.env("PATH", path).env_remove("CUDA_VISIBLE_DEVICES").env_remove("TALLY_DRIVER");
    command.envs(case.environment.iter().copied());
    finish(setup, name, command)
}

fn finish(setup: &Setup, name: &str, command: Command) -> Result<Answer> {
    let mut program = Program::spawn(setup, name, command)?;
    let ended = program.wait(LIMIT)?;
    Ok((ended.code, program.output()))
}

/// A script that answers as nvidia-smi does, for whatever fields it is asked.
fn stand_in(path: &Path, devices: &[&str]) -> Result<()> {
    let list = match devices {
        [] => "echo 'No devices were found'\nexit 6\n".to_owned(),
        some => some.iter().enumerate().map(|(index, uuid)| format!("line {index} {uuid}\n")).collect(),
    };
    // Only what a shell has built in: PATH holds nothing else.
    let text = format!(
        "#!/bin/sh\n\
         fields=\n\
         for argument; do case $argument in --query-gpu=*) fields=${{argument#*=}};; esac; done\n\
         line() {{\n\
         out=; IFS=,\n\
         for field in $fields; do\n\
         case $field in\n\
         index) v=$1;; uuid) v=$2;; name) v='Stand-in GPU';; driver_version) v=580.1;; compute_mode) v=Default;;\n\
         memory.total) v='1024 MiB';; mig.mode.current) v=Disabled;; *) v='[N/A]';;\n\
         esac\n\
         out=${{out:+$out, }}$v\n\
         done\n\
         echo \"$out\"\n\
         }}\n\
         {list}"
    );
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(std::fs::set_permissions(path, Permissions::from_mode(0o755))?)
}

/// A daemon that speaks the next version.
fn other_version(setup: &Setup) -> Result<Answer> {
    let dir = setup.folder("av")?;
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(dir.join("default.sock"))?)?;
    rustix::net::listen(&socket, 8)?;
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                let _ = refuse(&socket);
            }
        });
        let mut command = Command::new(setup.tools.join("tally"));
        command.args(["run", "--gpu", "none", "--dir"]).arg(&dir).args(["--", "/bin/true"]);
        let answer = finish(setup, "av", command);
        is_over.store(true, Ordering::SeqCst);
        answer
    })
}

/// Takes one connection, if one comes soon, and refuses what it asks.
fn refuse(socket: &OwnedFd) -> Result<()> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let soon = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
    if poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&soon))? == 0 {
        return Ok(());
    }
    let channel = Channel::new(rustix::net::accept(socket)?);
    let _: (Request, _) = channel.receive(LIMIT)?;
    let why = format!("this daemon speaks version {}", VERSION + 1);
    Ok(channel.send(&Reply::Refused { version: VERSION + 1, why }, &[])?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_an_error_that_names_what_is_wrong() {
        let text = "error: 2 devices and none chosen; say --gpu UUID";
        assert!(judge(125, text, &["2 devices", "--gpu"]).0);
        assert!(!judge(0, text, &["2 devices"]).0);
        assert!(!judge(139, text, &["2 devices"]).0);
        assert!(!judge(101, "thread 'main' panicked at x", &[]).0);
        let (held, why) = judge(1, text, &["--gpu", "GPU-1"]);
        assert!(!held && why == "does not name GPU-1", "{why}");
    }

    #[test]
    fn the_stand_in_answers_like_nvidia_smi() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nvidia-smi");
        stand_in(&path, &[ONE, TWO]).unwrap();
        let ask = || {
            let mut command = Command::new(&path);
            command.args(["--query-gpu=index,name,uuid", "--format=csv,noheader"]).env("PATH", folder.path());
            command.output().unwrap()
        };
        let text = String::from_utf8(ask().stdout).unwrap();
        assert_eq!(text, format!("0, Stand-in GPU, {ONE}\n1, Stand-in GPU, {TWO}\n"));
        stand_in(&path, &[]).unwrap();
        assert_eq!((ask().status.code(), ask().stdout), (Some(6), b"No devices were found\n".to_vec()));
    }
}
