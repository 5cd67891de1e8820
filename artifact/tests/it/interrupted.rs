//! Killed, interrupted and damaged runs: the same command goes on and ends with the same table.

use crate::repository::{Answer, CELLS, Repository, finished_cells};
use std::fs;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

const SLOW: [&str; 7] = ["fake", "--cell-ms", "40", "--jobs", "2", "--out", "killed"];

/// The table of a run that nothing disturbed.
pub fn undisturbed(repository: &Repository) -> Vec<u8> {
    repository.run(&["fake", "--out", "undisturbed"]).expect(0, "14 cells: 14 run");
    fs::read(repository.path("undisturbed/one.csv")).unwrap()
}

#[test]
fn killed_at_random_moments_and_resumed() {
    let repository = Repository::new();
    let expected = undisturbed(&repository);
    // A linear congruential sequence: other moments each time, the same ones in every run of the test.
    let mut state = 12_345_u64;
    let mut kills = 0;
    loop {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // Every third time from the start of the process on, else from the next finished cells on: however slow the machine
        // is, the work goes on.
        let (new_cells, pause) = ((state >> 40) % 3, Duration::from_millis((state >> 33) % 120));
        let had = finished_cells(&repository.path("killed")).len();
        let mut child = repository.command(&SLOW).spawn().unwrap();
        while finished_cells(&repository.path("killed")).len() < had + new_cells as usize
            && child.try_wait().unwrap().is_none()
        {
            sleep(Duration::from_millis(1));
        }
        let began = Instant::now();
        while began.elapsed() < pause && child.try_wait().unwrap().is_none() {
            sleep(Duration::from_millis(1));
        }
        let before = finished_cells(&repository.path("killed")).len();
        child.kill().unwrap();
        let answer = Answer::of(child.wait_with_output().unwrap());
        if answer.code == Some(0) {
            break;
        }
        kills += 1;
        assert!(finished_cells(&repository.path("killed")).len() >= before);
        assert!(kills < 100, "no progress: {answer:#?}");
    }
    assert!(kills >= 2, "the moments are too late to test anything");
    assert_eq!(fs::read(repository.path("killed/one.csv")).unwrap(), expected);
    assert_eq!(finished_cells(&repository.path("killed")).len(), CELLS);
    let leftovers = fs::read_dir(repository.path("killed/cells")).unwrap().count();
    assert_eq!(leftovers, CELLS, "something half-written is left");
    repository.run(&["verify", "--run", "killed"]).expect(0, "1. files: ok");
}

#[test]
fn ctrl_c_keeps_what_is_finished_and_a_rerun_does_the_rest() {
    let repository = Repository::new();
    let expected = undisturbed(&repository);
    let child = repository.command(&SLOW).spawn().unwrap();
    let began = Instant::now();
    while finished_cells(&repository.path("killed")).len() < 4 {
        assert!(began.elapsed() < Duration::from_secs(20));
        sleep(Duration::from_millis(1));
    }
    let status = Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status().unwrap();
    assert!(status.success());
    Answer::of(child.wait_with_output().unwrap()).expect(130, "interrupted: finished cells are kept");
    let kept = finished_cells(&repository.path("killed")).len();
    assert!((4..CELLS).contains(&kept));
    let rest = CELLS - kept;
    repository.run(&SLOW).expect(0, &format!("{rest} run, {kept} were stored"));
    assert_eq!(fs::read(repository.path("killed/one.csv")).unwrap(), expected);
    repository.run(&SLOW).expect(0, &format!("0 run, {CELLS} were stored"));
}

#[test]
fn two_runs_in_one_folder() {
    let repository = Repository::new();
    let first = repository.command(&["fake", "--cell-ms", "200", "--out", "shared"]).spawn().unwrap();
    let began = Instant::now();
    while !repository.path("shared/.lock").exists() {
        assert!(began.elapsed() < Duration::from_secs(20));
        sleep(Duration::from_millis(1));
    }
    // The lock is taken right after its file is made.
    sleep(Duration::from_millis(50));
    let second = repository.run(&["fake", "--out", "shared"]);
    second.expect(1, "another run is writing to shared");
    Answer::of(first.wait_with_output().unwrap()).expect(0, "14 cells: 14 run");
}

#[test]
fn a_damaged_record_is_named_and_made_again() {
    let repository = Repository::new();
    let run = ["fake", "--out", "run"];
    let expected = undisturbed(&repository);
    repository.run(&run).expect(0, "14 run");
    let cells = finished_cells(&repository.path("run"));
    let samples = repository.path(&format!("run/cells/{}/samples.parquet", cells[0]));
    let bytes = fs::read(&samples).unwrap();
    fs::write(&samples, &bytes[..bytes.len() / 2]).unwrap();
    fs::write(repository.path(&format!("run/cells/{}/cell.toml", cells[1])), "key = ").unwrap();
    repository.run(&["verify", "--run", "run"]).expect(1, "samples.parquet: changed since it was written");
    let again = repository.run(&run);
    again.expect(0, "2 run, 12 were stored");
    again.expect(0, "samples.parquet has the SHA-256").expect(0, "cell.toml is torn or of another version");
    assert!(again.err.contains(&cells[0]) && again.err.contains(&cells[1]), "{again:#?}");
    assert_eq!(fs::read(repository.path("run/one.csv")).unwrap(), expected);
    repository.run(&["verify", "--run", "run"]).expect(0, "1. files: ok");
}

#[test]
fn a_folder_that_cannot_be_written_stops_the_run_and_says_what_to_do() {
    let repository = Repository::new();
    repository.write("run/cells", "a file where a folder should be");
    let answer = repository.run(&["fake", "--out", "run"]);
    answer.expect(1, "what was finished before is kept").expect(1, "--out");
}

#[test]
fn a_failed_cell_is_a_row_and_is_tried_again() {
    let repository = Repository::new();
    let expected = undisturbed(&repository);
    let answer = repository.run(&["fake", "--out", "run", "--fail", "pair tally"]);
    answer.expect(3, "2 failed").expect(3, "this cell was told to fail");
    let table = fs::read_to_string(repository.path("run/one.csv")).unwrap();
    assert_eq!(table.matches(",failed,this cell was told to fail,").count(), 2);
    repository.run(&["fake", "--out", "run"]).expect(0, "2 run, 12 were stored");
    assert_eq!(fs::read(repository.path("run/one.csv")).unwrap(), expected);
    // A failed base fails what depends on it, with the reason.
    let answer = repository.run(&["fake", "--out", "other", "--fail", "solo-stream"]);
    answer.expect(3, "the server's solo run failed: this cell was told to fail");
}
