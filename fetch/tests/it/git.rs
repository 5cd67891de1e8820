//! A git source: a repository on this machine in the place of the real one.

use crate::bench::{Bench, source};
use fetch::{Kind, Place};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const FILE: &str = "bench-1.tar";

/// Runs git without the user's settings; its output, or `None` where there is no git.
fn git(folder: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .args([
            "-c",
            "user.name=nobody",
            "-c",
            "user.email=nobody@localhost",
            "-c",
            "init.defaultBranch=main",
        ])
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .ok()?;
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap().trim().to_owned())
}

/// A repository of two commits; the first is the pinned one.
fn repository(folder: &Path) -> Option<String> {
    fs::create_dir_all(folder).unwrap();
    git(folder, &["init", "--quiet"])?;
    git(folder, &["config", "uploadpack.allowAnySHA1InWant", "true"])?;
    fs::write(folder.join("config.py"), "batch = 8\n").unwrap();
    git(folder, &["add", "."])?;
    git(folder, &["commit", "--quiet", "-m", "one"])?;
    let commit = git(folder, &["rev-parse", "HEAD"])?;
    fs::write(folder.join("config.py"), "batch = 16\n").unwrap();
    git(folder, &["commit", "--quiet", "-am", "two"])?;
    Some(commit)
}

fn bench(commit: &str, repositories: &[PathBuf]) -> Bench {
    let places = repositories.iter().map(|path| Place::Git(format!("file://{}", path.display()))).collect();
    let mut bench = Bench::of(vec![source("trace", FILE, Kind::Commit(commit.to_owned()), places)]);
    bench.fetcher.settings.path = std::env::var_os("PATH").unwrap();
    bench
}

#[test]
fn the_pinned_commit_is_packed_whatever_came_after_it() {
    let folder = tempfile::tempdir().unwrap();
    let there = folder.path().join("there");
    let Some(commit) = repository(&there) else {
        println!("skipped: there is no git");
        return;
    };
    let gone = folder.path().join("gone");
    let bench = bench(&commit, &[gone, there.clone()]);
    assert_eq!(bench.fetch(), format!("ok: file://{}", there.display()));
    let packed = fs::read(bench.data().join(FILE)).unwrap();
    let text = String::from_utf8_lossy(&packed);
    assert!(text.contains("bench-1/config.py") && text.contains("batch = 8\n") && text.contains(&commit));
    assert_eq!(bench.disk().len(), 2, "{:?}", bench.disk());
    assert_eq!(bench.fetch(), "present");
    fs::write(bench.data().join(FILE), "damaged").unwrap();
    assert!(bench.fetch().contains("not as it was made; move it away"), "{}", bench.fetch());
}

#[test]
fn a_clone_can_be_brought_and_an_unknown_commit_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let there = folder.path().join("a clone");
    let Some(commit) = repository(&there) else {
        println!("skipped: there is no git");
        return;
    };
    let mut brought = bench(&commit, &[folder.path().join("gone")]);
    brought.fetcher.from = Some(there.clone());
    assert!(brought.fetch().starts_with("ok: "), "{}", brought.fetch());
    let unknown = "0123456789012345678901234567890123456789";
    let mut bench = bench(unknown, std::slice::from_ref(&there));
    let message = bench.fetch();
    assert!(message.contains(&format!("no place has commit {unknown}")), "{message}");
    assert!(message.contains("git ended with exit status: 128"), "{message}");
    assert!(bench.disk().is_empty(), "{:?}", bench.disk());
    bench.fetcher.from = Some(there.join("config.py"));
    assert!(bench.fetch().contains("--from takes the folder of a git clone"));
}

#[test]
fn without_git_it_is_left_for_later() {
    let mut bench = bench("0123456789012345678901234567890123456789", &[PathBuf::from("/nowhere")]);
    bench.fetcher.settings.path = "".into();
    let message = bench.fetch();
    assert!(message.starts_with("left for later: ") && message.contains("install package git"), "{message}");
    assert!(bench.disk().is_empty());
}
