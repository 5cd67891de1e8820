//! The binary as `cargo xtask fetch` starts it: what it prints, and its exit code.

use crate::bench::{disk, rows};
use crate::server::{Answer, Server};
use fetch::Pin;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

const SIZE: usize = 20_000;

/// A repository with a manifest of one source, `trace`, at this address.
fn repository(data: &[u8], url: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let Pin { size, sha256 } = Pin::of(data);
    let text = format!(
        "[[source]]\nid = \"trace\"\nwhat = \"rows\"\nfolder = \"traces/full\"\nfile = \"trace.txt\"\nsize = {size}\n\
         sha256 = \"{sha256}\"\nlicence = \"CC-BY-4.0\"\nattribution = \"its authors\"\nafter = \"the label is now MAF2\"\n\
         without = \"reproduce runs without it\"\n[[source.place]]\nurl = \"{url}\"\n"
    );
    fs::create_dir(folder.path().join("artifact")).unwrap();
    fs::write(folder.path().join("artifact/sources.toml"), text).unwrap();
    folder
}

fn command(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fetch"));
    command.current_dir(folder);
    for name in ["http_proxy", "https_proxy", "all_proxy", "no_proxy"] {
        command.env_remove(name).env_remove(name.to_uppercase());
    }
    command
}

fn answer(output: Output) -> (i32, String, String) {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn success_says_what_is_different_now() {
    let data = rows(SIZE);
    let server = Server::start();
    server.answer("x", [Answer::ok(&data)]);
    let folder = repository(&data, &server.url("x"));
    // Also from a folder below.
    fs::create_dir(folder.path().join("below")).unwrap();
    let (code, out, err) = answer(command(&folder.path().join("below")).output().unwrap());
    assert_eq!(code, 0, "{err}");
    assert!(
        out.starts_with(&format!("trace: traces/full/trace.txt: verified, from {}\n", server.url("x"))),
        "{out}"
    );
    assert!(out.contains("licence CC-BY-4.0; keep with any copy: its authors"), "{out}");
    assert!(out.ends_with("  the label is now MAF2\n"), "{out}");
    assert_eq!(disk(&folder.path().join("traces/full")), ["trace.txt 20000"]);
    let (code, out, _) = answer(command(folder.path()).arg("--offline").output().unwrap());
    assert!(code == 0 && out.contains("already there and verified"), "{out}");
    // Elsewhere nobody looks for it.
    let (code, out, _) = answer(command(folder.path()).args(["--dir", "else where"]).output().unwrap());
    assert_eq!(code, 0);
    assert!(out.contains("only looked for as traces/full/trace.txt"), "{out}");
    assert_eq!(disk(&folder.path().join("else where")), ["trace.txt 20000"]);
}

#[test]
fn failure_says_what_runs_without_it() {
    let data = rows(SIZE);
    let server = Server::start();
    let folder = repository(&data, &server.url("x"));
    let (code, out, err) = answer(command(folder.path()).output().unwrap());
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    assert!(err.contains("error: trace: no place has it:") && err.contains("404 Not Found"), "{err}");
    assert!(err.ends_with("trace: reproduce runs without it\n"), "{err}");
}

#[test]
fn the_list_has_everything_and_asks_nothing() {
    let data = rows(SIZE);
    let server = Server::start();
    let folder = repository(&data, &server.url("x"));
    let (code, out, err) = answer(command(folder.path()).arg("--list").output().unwrap());
    assert_eq!(code, 0, "{err}");
    for part in
        ["trace: rows", "traces/full/trace.txt: not there", "20000 bytes", "CC-BY-4.0", &server.url("x")]
    {
        assert!(out.contains(part), "{out}");
    }
    assert!(server.asked().is_empty());
    let (code, _, err) = answer(command(folder.path()).arg("trase").output().unwrap());
    assert!(code == 1 && err.contains("there is no source \"trase\"; there are trace"), "{err}");
}

#[test]
fn proxies_of_the_environment_are_honoured() {
    let data = rows(SIZE);
    let proxy = Server::start();
    // A name that cannot be resolved: only the proxy can know it.
    let url = "http://data.invalid/x";
    proxy.answer(url, [Answer::ok(&data)]);
    let folder = repository(&data, url);
    let address = proxy.url("").trim_end_matches('/').to_owned();
    let (code, _, err) = answer(command(folder.path()).env("http_proxy", &address).output().unwrap());
    assert_eq!(code, 0, "{err}");
    assert_eq!(proxy.asked()[0].target, url);
}

#[test]
fn progress_is_a_line_now_and_then_when_nobody_watches() {
    let data = rows(SIZE);
    let server = Server::start();
    server.answer("x", [Answer::ok(&data)]);
    let folder = repository(&data, &server.url("x"));
    let (_, _, err) = answer(command(folder.path()).output().unwrap());
    assert_eq!(err, format!("trace: 19.5 KiB from {}\n", server.url("x")));
}

#[cfg(unix)]
#[test]
fn ctrl_c_keeps_what_was_received_and_the_next_run_goes_on() {
    let data = rows(SIZE);
    let server = Server::start();
    server.answer("x", [Answer { stall_after: Some(9000), ..Answer::ok(&data) }, Answer::ok(&data)]);
    let folder = repository(&data, &server.url("x"));
    let mut child = command(folder.path()).stderr(std::process::Stdio::null()).spawn().unwrap();
    let part: PathBuf = folder.path().join("traces/full/trace.txt.part");
    let began = std::time::Instant::now();
    while part.metadata().map_or(0, |m| m.len()) < 9000 {
        assert!(began.elapsed().as_secs() < 20);
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let status = Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status().unwrap();
    assert!(status.success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    server.asked();
    let (code, _, err) = answer(command(folder.path()).output().unwrap());
    assert_eq!(code, 0, "{err}");
    assert_eq!(server.asked()[0].header("range"), "bytes=9000-");
}
