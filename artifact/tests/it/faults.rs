//! Real processes that are ended at any moment. What was tried and what happened: docs/FAULTS.md, which the last test keeps
//! complete.

use crate::interrupted::undisturbed;
use crate::repository::{Answer, CELLS, Repository, finished_cells};
use artifact::key;
use artifact::store::{self, Stored};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

const KILLS: usize = 200;

/// A line that cargo shows of a test that passes, too.
pub fn tell(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Numbers that are other ones each time and the same ones in every run of the test.
pub struct Sequence(pub u64);

impl Sequence {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// The digests of everything in the finished cells of a run, by cell. Every one must be whole.
pub fn whole_cells(run: &Path) -> BTreeMap<String, String> {
    let digest = |name: String| {
        let folder = run.join("cells").join(&name);
        match store::read_any(&folder).unwrap() {
            (inputs, Stored::Done(_)) => assert_eq!(inputs.key(), name),
            other => panic!("{name}: {other:?}"),
        }
        let files =
            ["cell.toml", "samples.parquet"].map(|file| key::sha256_file(&folder.join(file)).unwrap());
        (name, files.concat())
    };
    finished_cells(run).into_iter().map(digest).collect()
}

fn wait_until(what: impl Fn() -> bool) {
    let began = Instant::now();
    while !what() {
        assert!(began.elapsed() < Duration::from_secs(20));
        sleep(Duration::from_millis(1));
    }
}

fn interrupt(child: Child) -> Answer {
    let status = Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status().unwrap();
    assert!(status.success());
    Answer::of(child.wait_with_output().unwrap())
}

#[test]
fn killed_two_hundred_times() {
    let repository = Repository::new();
    let expected = undisturbed(&repository);
    let mut sequence = Sequence(2021);
    let (mut kills, mut folder, mut rounds, mut by_stage) = (0, 0, 0, [0; 4]);
    // As long as a run takes on this machine, at this load.
    let measured = Instant::now();
    repository.run(&["fake", "--cell-ms", "6", "--jobs", "2", "--out", "measured"]).expect(0, "14 run");
    let whole_run = measured.elapsed().as_micros() as u64;
    let began = Instant::now();
    while kills < KILLS {
        rounds += 1;
        assert!(rounds < 10 * KILLS, "the moments are too late to test anything");
        let out = format!("run-{folder}");
        let run = repository.path(&out);
        let before = whole_cells(&run);
        let mut child =
            repository.command(&["fake", "--cell-ms", "6", "--jobs", "2", "--out", &out]).spawn().unwrap();
        // Every other time after a number of cells, so that the end is met as often as the beginning.
        let (cells, delay) = match rounds % 2 {
            0 => (sequence.below(CELLS as u64 + 1) as usize, sequence.below(12_000)),
            _ => (0, sequence.below(whole_run)),
        };
        let is_running = |child: &mut Child| child.try_wait().unwrap().is_none();
        while finished_cells(&run).len() < cells && is_running(&mut child) {
            sleep(Duration::from_micros(200));
        }
        let (started, delay) = (Instant::now(), Duration::from_micros(delay));
        while started.elapsed() < delay && is_running(&mut child) {
            sleep(Duration::from_micros(200));
        }
        child.kill().unwrap();
        let answer = Answer::of(child.wait_with_output().unwrap());
        let after = whole_cells(&run);
        // Nothing that was finished is lost or written again.
        assert!(before.iter().all(|(cell, digest)| after.get(cell) == Some(digest)), "round {rounds}");
        if answer.code == Some(0) {
            let (kept, rest) = (before.len(), CELLS - before.len());
            answer.expect(0, &format!("{rest} run, {kept} were stored"));
            assert_eq!(fs::read(run.join("one.csv")).unwrap(), expected, "round {rounds}");
            assert_eq!(
                fs::read_dir(run.join("cells")).unwrap().count(),
                CELLS,
                "something half-written is left"
            );
            folder += 1;
            continue;
        }
        assert_eq!(answer.code, None, "{answer:#?}");
        kills += 1;
        let stage = match (run.join(".lock").exists(), after.len()) {
            (false, _) => 0,
            (true, n) if n == before.len() => 1,
            (true, n) if n < CELLS => 2,
            _ => 3,
        };
        by_stage[stage] += 1;
    }
    let [start, prepared, cells, end] = by_stage;
    tell(&format!(
        "{kills} kills in {rounds} runs and {folder} finished folders, {:.0} s: {start} before the folder was there, \
         {prepared} before a further cell was finished, {cells} after one, {end} after the last one",
        began.elapsed().as_secs_f64()
    ));
    assert!(folder >= 10 && cells >= 20 && end >= 1, "{by_stage:?}");
}

#[test]
fn ctrl_c_at_each_stage() {
    let repository = Repository::new();
    let expected = undisturbed(&repository);
    let stopped = |out: &str, answer: &Answer, fewest: usize, most: usize| {
        answer.expect(130, "interrupted: finished cells are kept");
        let run = repository.path(out);
        let kept = whole_cells(&run).len();
        assert!((fewest..=most).contains(&kept), "{out}: {kept} cells");
        let rest = CELLS - kept;
        repository.run(&["fake", "--out", out]).expect(0, &format!("{rest} run, {kept} were stored"));
        assert_eq!(fs::read(run.join("one.csv")).unwrap(), expected, "{out}");
        repository.run(&["verify", "--run", out]).expect(0, "1. files: ok");
    };

    // Before the folder is locked, git is asked for the revision: here one that takes its time.
    repository.write("bin/git", "#!/bin/sh\necho > git-runs\nexec sleep 3\n");
    fs::set_permissions(repository.path("bin/git"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", repository.path("bin").display(), std::env::var("PATH").unwrap());
    let child = repository.command(&["fake", "--out", "before"]).env("PATH", path).spawn().unwrap();
    wait_until(|| repository.path("git-runs").exists());
    stopped("before", &interrupt(child), 0, 0);

    for (out, cells) in [("solos", 1), ("pairs", 7)] {
        let child =
            repository.command(&["fake", "--cell-ms", "40", "--jobs", "1", "--out", out]).spawn().unwrap();
        wait_until(|| finished_cells(&repository.path(out)).len() >= cells);
        stopped(out, &interrupt(child), cells, CELLS - 1);
    }

    // After the last cell, digests are made of all files: here of one that takes its time.
    fs::create_dir(repository.path("sums")).unwrap();
    fs::File::create(repository.path("sums/large")).unwrap().set_len(4 << 30).unwrap();
    let child = repository.command(&["fake", "--out", "sums"]).spawn().unwrap();
    wait_until(|| repository.path("sums/run.toml").exists());
    let answer = interrupt(child);
    assert!(!repository.path("sums/SHA256SUMS").exists());
    fs::remove_file(repository.path("sums/large")).unwrap();
    stopped("sums", &answer, CELLS, CELLS);
}

#[test]
fn ten_runs_at_once_in_one_folder() {
    let repository = Repository::new();
    let expected = undisturbed(&repository);
    let start = |_| repository.command(&["fake", "--cell-ms", "60", "--out", "shared"]).spawn().unwrap();
    let children: Vec<Child> = (0..10).map(start).collect();
    let answers: Vec<Answer> =
        children.into_iter().map(|child| Answer::of(child.wait_with_output().unwrap())).collect();
    let (ran, refused): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.code == Some(0));
    for answer in &refused {
        answer
            .expect(1, "another run is writing to shared; wait for it, or choose another folder with --out");
    }
    assert!(!ran.is_empty() && !refused.is_empty(), "{answers:#?}");
    let info = artifact::runinfo::RunInfo::read(&repository.path("shared")).unwrap();
    let executed: u64 = info.invocation.iter().map(|invocation| invocation.cells_executed).sum();
    assert_eq!((executed, info.invocation.len()), (CELLS as u64, ran.len()));
    assert_eq!(fs::read(repository.path("shared/one.csv")).unwrap(), expected);
    repository.run(&["verify", "--run", "shared"]).expect(0, "1. files: ok");
}

/// Every fault is a row of docs/FAULTS.md and names the test that tries it.
#[test]
fn the_table_of_faults_is_complete() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let table = fs::read_to_string(folder.join("../docs/FAULTS.md")).unwrap();
    let listed: Vec<&str> = table
        .lines()
        .filter(|line| line.starts_with("| ") && line.contains("::"))
        .filter_map(|line| line.trim_end_matches(" |").rsplit('|').next())
        .flat_map(|tests| tests.split(','))
        .map(|test| test.trim().trim_matches('`'))
        .collect();
    let mut tests = Vec::new();
    for module in ["faults", "interrupted", "storage"] {
        let source = fs::read_to_string(folder.join(format!("tests/it/{module}.rs"))).unwrap();
        let functions = source.split("#[test]\n").skip(1);
        let names = functions.filter_map(|text| text.trim_start().strip_prefix("fn ")?.split('(').next());
        tests.extend(names.map(|name| format!("{module}::{name}")));
    }
    tests.retain(|test| test != "faults::the_table_of_faults_is_complete");
    assert!(tests.len() > 10);
    for test in &tests {
        assert!(listed.contains(&test.as_str()), "docs/FAULTS.md has no row for `{test}`");
    }
    for row in listed {
        assert!(tests.iter().any(|test| test == row), "docs/FAULTS.md names `{row}`, which is no test");
    }
}
