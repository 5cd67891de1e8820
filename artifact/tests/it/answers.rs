//! What a user gets for a mistake: the place, the value and what to do.

use crate::repository::Repository;
use std::fs;

const TABLE: &str = "artifact/experiments/one.toml";

#[test]
fn bad_flags() {
    let repository = Repository::new();
    repository.run(&["reproduce", "--quik"]).expect(2, "'--quick'");
    repository.run(&["reproduce", "--backend", "tpu"]).expect(2, "[possible values: auto, sim, gpu]");
    repository.run(&["reproduce", "--seeds", "0"]).expect(2, "0 is not in 1..=1000");
    repository.run(&["reproduce", "--machine", "h100"]).expect(2, "possible values: h200, a100");
    repository.run(&["verify", "--run", "nowhere"]).expect(1, "no run folder nowhere");
}

#[test]
fn unknown_names() {
    let repository = Repository::new();
    let answer = repository.run(&["fake", "--experiment", "two"]);
    answer.expect(1, "unknown experiment `two`; known experiments: one");
    repository.replace(TABLE, "\"gate\"", "\"gat\"");
    repository.run(&["fake"]).expect(1, "one.toml: systems: unknown system `gat`; known systems: no-sharing");
    repository.replace(TABLE, "\"gat\"", "\"gate\"");
    repository.replace(TABLE, "[\"server\"]", "[\"severs\"]");
    repository.run(&["fake"]).expect(1, "unknown workload `severs`; known workloads: server, trainer");
}

#[test]
fn malformed_files_are_named_with_the_line() {
    let repository = Repository::new();
    repository.replace(TABLE, "loads = [0.3, 0.5]", "loads = [0.3, 0.5");
    repository.run(&["fake"]).expect(1, "one.toml").expect(1, "line 1");
    repository.replace(TABLE, "loads = [0.3, 0.5", "load = [0.3, 0.5]");
    repository.run(&["fake"]).expect(1, "unknown field `load`");
    repository.replace(TABLE, "load = ", "loads = ");
    repository.replace("workloads/server/workload.toml", "batch = 1", "batch = -1");
    repository.run(&["fake"]).expect(1, "workloads/server/workload.toml").expect(1, "line 9");
}

#[test]
fn a_missing_profile_fails_its_cells_and_says_how_to_record() {
    let repository = Repository::new();
    let answer = repository.run(&["reproduce", "--out", "run"]);
    answer.expect(3, "14 failed").expect(3, "workloads/profiles/h200/server.toml");
    answer.expect(3, "workloads/README.md says how to record it");
    let table = fs::read_to_string(repository.path("run/one.csv")).unwrap();
    assert_eq!(table.matches(",failed,").count(), 14, "{table}");
}

#[test]
fn the_plan_is_listed_without_running_it() {
    let repository = Repository::new();
    let answer = repository.run(&["fake", "--list"]);
    answer.expect(0, "14 cells").expect(0, "mps-priority").expect(0, "minutes");
    assert!(!repository.path("results").exists());
}

#[test]
fn another_machine_is_refused_as_long_as_there_is_none() {
    let repository = Repository::new();
    repository.run(&["reproduce", "--machine", "a100", "--out", "run"]).expect(1, "no usable machine `a100`");
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let repository = Repository::new();
    for jobs in ["1", "2", "7"] {
        repository.run(&["fake", "--jobs", jobs, "--seeds", "2", "--out", jobs]).expect(0, "28 run");
    }
    let table = |jobs: &str| fs::read(repository.path(jobs).join("one.csv")).unwrap();
    assert_eq!(table("1"), table("2"));
    assert_eq!(table("1"), table("7"));
}
