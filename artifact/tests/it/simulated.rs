//! The real simulator on the recorded profiles, in cells short enough for a test.

use crate::repository::Repository;
use std::fs;
use std::path::Path;

/// The test repository with the real machines and workloads, and an experiment of short cells.
fn repository() -> Repository {
    let repository = Repository::new();
    let real = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    fs::remove_dir_all(repository.path("workloads")).unwrap();
    std::os::unix::fs::symlink(real.join("workloads"), repository.path("workloads")).unwrap();
    let table = "artifact/experiments/one.toml";
    repository.replace(table, "\"server\"", "\"bert-infer\"");
    repository.replace(table, "\"trainer\"", "\"resnet50-train\"");
    repository.replace(table, "[0.3, 0.5]", "[0.5]");
    repository.replace(table, "min_seconds = 2", "min_seconds = 1");
    repository
}

#[test]
fn one_thread_and_two_give_the_same_table() {
    let repository = repository();
    for jobs in ["1", "2"] {
        repository.run(&["reproduce", "--jobs", jobs, "--out", jobs]).expect(0, "8 run");
    }
    let table = |jobs: &str| fs::read_to_string(repository.path(jobs).join("one.csv")).unwrap();
    assert_eq!(table("1"), table("2"));
    assert_eq!(table("1").matches(",sim,h200,").count(), 8);
    // Equal digests of the raw samples, too.
    let sums = |jobs: &str| fs::read_to_string(repository.path(jobs).join("SHA256SUMS")).unwrap();
    assert_eq!(sums("1"), sums("2"));
}

#[test]
fn golden_values_are_made_and_compared() {
    let repository = repository();
    let run = ["reproduce", "--out", "run"];
    repository.run(&run).expect(0, "8 run");
    let verify = ["verify", "--run", "run"];
    repository.run(&verify).expect(0, "not compared: there is no");
    repository
        .run(&["verify", "--run", "run", "--update-golden"])
        .expect(0, "8 rows equal the golden values");
    repository.run(&verify).expect(0, "2. numbers: ok");
    // Another number in the table, with sums to match: only the golden values can tell.
    let table = fs::read_to_string(repository.path("run/one.csv")).unwrap();
    let row = table.lines().nth(1).unwrap();
    let mut fields: Vec<&str> = row.split(',').collect();
    let value = fields[20];
    assert!(value.parse::<f64>().is_ok(), "{row}");
    fields[20] = "99.5";
    repository.write("run/one.csv", &table.replace(row, &fields.join(",")));
    repository.run(&verify).expect(1, "one.csv: changed since it was written");
    repository.run(&["seal", "--run", "run"]).expect(0, "");
    let answer = repository.run(&verify);
    answer.expect(1, "1. files: ok").expect(1, &format!("upstream_p99_ms is 99.5, golden {value}"));
}
