//! Disks that are full or cannot be written, clocks that go backwards, records that are torn or of another version.

use crate::faults::{Sequence, tell, whole_cells};
use crate::interrupted::undisturbed;
use crate::repository::{CELLS, Repository, finished_cells};
use artifact::runinfo::RunInfo;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file system in memory, for the time of a test.
struct Mount(PathBuf);

impl Mount {
    /// Only root may; `None` with the reason told.
    fn new(path: PathBuf, size: &str) -> Option<Mount> {
        fs::create_dir_all(&path).unwrap();
        let output = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(&path)
            .output();
        match output {
            Ok(output) if output.status.success() => Some(Mount(path)),
            Ok(output) => {
                let why = String::from_utf8_lossy(&output.stderr);
                tell(&format!("no disk of a test's own: {}", why.lines().next().unwrap_or_default()));
                None
            }
            Err(error) => {
                tell(&format!("no disk of a test's own: mount: {error}"));
                None
            }
        }
    }

    fn change(&self, options: &str) {
        let options = format!("remount,{options}");
        let status = Command::new("mount").args(["-o", &options]).arg(&self.0).status().unwrap();
        assert!(status.success());
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

/// Names that only unfinished things have.
fn half_written(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    let is_partial = |path: &&PathBuf| path.file_name().unwrap().to_string_lossy().contains(".partial");
    let mut found: Vec<PathBuf> = paths.iter().filter(is_partial).cloned().collect();
    found.extend(paths.iter().filter(|path| path.is_dir()).flat_map(|path| half_written(path)));
    found
}

#[test]
fn a_full_disk() {
    let repository = Repository::new();
    let expected = undisturbed(&repository);
    let (mut full, mut at_the_end) = (0, 0);
    // From one that holds nothing to one that holds everything; a finished run has about 400 KiB.
    for kib in (16..=512).step_by(16) {
        let Some(mount) = Mount::new(repository.path("disk"), &format!("{kib}k")) else {
            return tell("SKIPPED: a_full_disk needs root and a mount");
        };
        let first = repository.run(&["fake", "--jobs", "2", "--out", "disk/run"]);
        let kept = whole_cells(&repository.path("disk/run")).len();
        if first.code != Some(0) {
            full += 1;
            at_the_end += usize::from(kept == CELLS);
            first
                .expect(1, "No space left on device")
                .expect(1, "what was finished before is kept: make room");
        }
        assert_eq!(half_written(&repository.path("disk")), [] as [PathBuf; 0], "{kib} KiB");
        mount.change("size=64m");
        let rest = CELLS - kept;
        let second = repository.run(&["fake", "--out", "disk/run"]);
        second.expect(0, &format!("{rest} run, {kept} were stored"));
        assert_eq!(fs::read(repository.path("disk/run/one.csv")).unwrap(), expected, "{kib} KiB");
        repository.run(&["verify", "--run", "disk/run"]).expect(0, "1. files: ok");
        if first.code == Some(0) {
            break;
        }
    }
    tell(&format!("{full} sizes of a disk that were too small, {at_the_end} of them after the last cell"));
    assert!(full >= 5, "the disks are too large to test anything");
}

#[test]
fn a_read_only_folder() {
    let repository = Repository::new();
    let expected = undisturbed(&repository);
    // Without a mount, which root alone may make, the rights of the folders must do; to root those mean nothing.
    let mount = Mount::new(repository.path("disk"), "64m");
    let folders = ["disk/run/cells", "disk/run", "disk"].map(|name| repository.path(name));
    let freeze = |frozen: bool| match &mount {
        Some(mount) => mount.change(if frozen { "ro" } else { "rw" }),
        None => {
            let mode = if frozen { 0o555 } else { 0o755 };
            folders.iter().for_each(|f| fs::set_permissions(f, fs::Permissions::from_mode(mode)).unwrap());
        }
    };
    repository.run(&["fake", "--out", "disk/run"]).expect(0, "14 run");
    freeze(true);
    if mount.is_none() && fs::write(repository.path("disk/probe"), "").is_ok() {
        return tell("SKIPPED: a_read_only_folder needs a mount, or another user than root");
    }
    for out in ["disk/run", "disk/new"] {
        let answer = repository.run(&["fake", "--out", out]);
        let why = if mount.is_some() { "Read-only file system" } else { "Permission denied" };
        answer.expect(1, why).expect(1, "choose another folder with --out");
    }
    // What only reads goes on.
    repository.run(&["verify", "--run", "disk/run"]).expect(0, "1. files: ok");
    repository.run(&["compare", "disk/run", "undisturbed"]).expect(0, "14 same");
    freeze(false);
    repository.run(&["fake", "--out", "disk/run"]).expect(0, "0 run, 14 were stored");
    assert_eq!(fs::read(repository.path("disk/run/one.csv")).unwrap(), expected);
}

#[test]
fn a_clock_that_goes_backwards() {
    let repository = Repository::new();
    let expected = undisturbed(&repository);
    repository.run(&["fake", "--out", "run", "--fail", "pair"]).expect(3, "10 failed");
    let text = fs::read_to_string(repository.path("run/run.toml")).unwrap();
    let started = text.lines().find(|line| line.starts_with("started = ")).unwrap();
    repository.replace("run/run.toml", started, "started = \"2999-12-31T23:59:59Z\"");
    for (cell, date) in
        finished_cells(&repository.path("run")).iter().zip(["2999-01-01", "1970-01-02"].iter().cycle())
    {
        let cell = repository.path(&format!("run/cells/{cell}"));
        let status =
            Command::new("touch").args(["-d", date]).arg(cell.join("cell.toml")).arg(&cell).status().unwrap();
        assert!(status.success());
    }
    repository.run(&["fake", "--out", "run"]).expect(0, "10 run, 4 were stored");
    let info = RunInfo::read(&repository.path("run")).unwrap();
    let executed: Vec<u64> = info.invocation.iter().map(|invocation| invocation.cells_executed).collect();
    assert_eq!(executed, [4, 10], "in the order in which they were made");
    assert!(info.invocation[0].started > info.invocation[1].started);
    assert_eq!(fs::read(repository.path("run/one.csv")).unwrap(), expected);
    repository.run(&["verify", "--run", "run"]).expect(0, "1. files: ok");
    repository.run(&["compare", "run", "undisturbed"]).expect(0, "14 same");
}

#[test]
fn records_of_another_version() {
    let repository = Repository::new();
    let expected = undisturbed(&repository);
    repository.run(&["fake", "--out", "run"]).expect(0, "14 run");
    let run = repository.path("run");
    let cells = finished_cells(&run);
    // A cell of an older version has another key: it is left alone and counted nowhere.
    fs::create_dir(run.join("cells/0123456789abcdef")).unwrap();
    fs::write(run.join("cells/0123456789abcdef/cell.toml"), "key = \"0123456789abcdef\"\nformat = 0\n")
        .unwrap();
    // One of a newer version that kept the key.
    let cell = format!("run/cells/{}/cell.toml", cells[0]);
    repository.replace(&cell, "status = ", "colour = \"red\"\nstatus = ");
    // And a run.toml that knows more than this version.
    repository.replace("run/run.toml", "size = \"default\"", "size = \"default\"\ncluster = \"x\"");
    let answer = repository.run(&["fake", "--out", "run"]);
    answer.expect(0, "1 run, 13 were stored").expect(0, "cell.toml is torn or of another version");
    answer.expect(0, "run.toml is torn or of another version; kept as run/run.toml.old-1");
    assert!(fs::read_to_string(run.join("run.toml.old-1")).unwrap().contains("cluster = \"x\""));
    assert!(run.join("cells/0123456789abcdef/cell.toml").exists());
    assert_eq!(fs::read(run.join("one.csv")).unwrap(), expected);
    repository.run(&["verify", "--run", "run"]).expect(0, "1. files: ok");
}

#[test]
fn a_record_torn_or_changed_at_any_byte() {
    let repository = Repository::new();
    let expected = undisturbed(&repository);
    repository.run(&["fake", "--out", "run"]).expect(0, "14 run");
    let cells = finished_cells(&repository.path("run"));
    let mut sequence = Sequence(7);
    let mut damages = 0;
    for file in ["cell.toml", "samples.parquet"] {
        for round in 0..16 {
            let cell = &cells[sequence.below(CELLS as u64) as usize];
            let path = repository.path(&format!("run/cells/{cell}/{file}"));
            // The cell of the training alone has few samples, and still a file.
            let mut bytes = fs::read(&path).unwrap();
            let at = match round {
                0 => 0,
                1 => bytes.len() - 1,
                _ => sequence.below(bytes.len() as u64) as usize,
            };
            if round < 10 {
                bytes.truncate(at);
            } else {
                bytes[at] ^= 1 << sequence.below(7);
            }
            fs::write(&path, bytes).unwrap();
            let answer = repository.run(&["fake", "--out", "run"]);
            answer.expect(0, "1 run, 13 were stored").expect(0, &format!("cells/{cell}: "));
            assert_eq!(fs::read(repository.path("run/one.csv")).unwrap(), expected, "{file} at {at}");
            damages += 1;
        }
    }
    tell(&format!("{damages} records torn or changed by one bit, each found and made again"));
    whole_cells(&repository.path("run"));
}

#[test]
fn what_is_not_a_file_of_this_kind_is_refused() {
    let repository = Repository::new();
    let expected = undisturbed(&repository);
    repository.run(&["fake", "--out", "run"]).expect(0, "14 run");
    let cells = finished_cells(&repository.path("run"));
    // Sizes that nobody has memory for, and a pipe that nobody writes to.
    let at = |n: usize, file: &str| repository.path(&format!("run/cells/{}/{file}", cells[n]));
    fs::File::create(at(0, "cell.toml")).unwrap().set_len(1 << 40).unwrap();
    fs::File::create(at(1, "samples.parquet")).unwrap().set_len(1 << 40).unwrap();
    fs::remove_file(at(2, "cell.toml")).unwrap();
    assert!(Command::new("mkfifo").arg(at(2, "cell.toml")).status().unwrap().success());
    let answer = repository.run(&["fake", "--out", "run"]);
    answer
        .expect(0, "3 run, 11 were stored")
        .expect(0, "1099511627776 bytes or more")
        .expect(0, "not a regular file");
    assert_eq!(fs::read(repository.path("run/one.csv")).unwrap(), expected);

    let table = repository.path("artifact/experiments/one.toml");
    let text = fs::read_to_string(&table).unwrap();
    fs::File::create(&table).unwrap().set_len(1 << 40).unwrap();
    repository.run(&["fake"]).expect(1, "one.toml").expect(1, "a file of this kind has at most 4194304");
    // Nesting that would overflow the stack of a careless reader.
    repository.write("artifact/experiments/one.toml", &format!("x = {}", "[".repeat(100_000)));
    let answer = repository.run(&["fake"]);
    answer.expect(1, "one.toml").expect(1, "cannot recurse further");
    assert!(answer.err.len() < 5000, "the message repeats the file: {} bytes", answer.err.len());
    fs::write(&table, text).unwrap();
    repository.run(&["fake", "--out", "run"]).expect(0, "0 run, 14 were stored");
}
