//! `compare`: two run folders side by side.

use crate::repository::{Answer, Repository};
use std::collections::BTreeMap;
use std::fs;

/// Runs of the fake executor in `a` and, with these arguments more, in `b`.
fn two_runs(repository: &Repository, more: &[&str]) {
    repository.run(&["fake", "--out", "a"]).expect(0, "14 run");
    let arguments: Vec<&str> = ["fake", "--out", "b"].iter().chain(more).copied().collect();
    repository.run(&arguments);
}

fn compare(repository: &Repository) -> Answer {
    repository.run(&["compare", "a", "b", "--csv", "compared.csv"])
}

/// The rows of the CSV by column.
fn rows(repository: &Repository) -> Vec<BTreeMap<String, String>> {
    let mut reader = csv::Reader::from_path(repository.path("compared.csv")).unwrap();
    reader.deserialize().map(|row| row.unwrap()).collect()
}

#[test]
fn a_run_made_again_is_the_same() {
    let repository = Repository::new();
    two_runs(&repository, &["--jobs", "1"]);
    let answer = compare(&repository);
    answer.expect(0, "14 cells: 14 same").expect(0, "verdict: the same numbers");
    answer.expect(0, "what went into them: the same");
    let rows = rows(&repository);
    assert!(
        rows.iter()
            .all(|row| row["cell_verdict"] == "same" && row["a"] == row["b"] && row["a_low"].is_empty())
    );
}

#[test]
fn a_longer_run_of_the_same_server_is_within_its_intervals() {
    let repository = Repository::new();
    repository.replace("artifact/experiments/one.toml", "min_seconds = 2", "min_seconds = 20");
    repository.run(&["fake", "--out", "a"]).expect(0, "14 run");
    repository.replace("artifact/experiments/one.toml", "min_seconds = 20", "min_seconds = 21");
    repository.run(&["fake", "--out", "b"]).expect(0, "14 run");
    let answer = compare(&repository);
    answer.expect(0, "other samples, all within their intervals").expect(0, "moving-block bootstrap");
    answer
        .expect(0, "input artifact/experiments/one.toml")
        .expect(0, "inputs of cells, with the number of cells");
    for row in
        rows(&repository).iter().filter(|row| row["verdict"] == "within" && row["number"].ends_with("_ns"))
    {
        let number = |name: &str| row[name].parse::<f64>().unwrap();
        assert!(number("a_low") <= number("a") && number("a") <= number("a_high"), "{row:?}");
        assert!(number("ratio_low") <= 1.0 && 1.0 <= number("ratio_high"), "{row:?}");
    }
    assert_eq!(compare(&repository).out, answer.out, "the draws are seeded");
}

#[test]
fn a_slower_server_differs() {
    let repository = Repository::new();
    two_runs(&repository, &["--slower", "10"]);
    let answer = compare(&repository);
    answer
        .expect(1, "verdict: DIFFERENT")
        .expect(1, "one solo-stream no-sharing server seed 1: service_p99_ns");
    // Equal inputs and other numbers: something went into the run that nobody wrote down.
    answer.expect(1, "although all inputs of the cell are the same");
    let stream = rows(&repository).into_iter().find(|row| row["kind"] == "solo-stream").unwrap();
    assert_eq!((stream["cell_verdict"].as_str(), stream["number"].as_str()), ("differs", "service_p99_ns"));
    let ratio = stream["b"].parse::<f64>().unwrap() / stream["a"].parse::<f64>().unwrap();
    assert!((ratio - 1.1).abs() < 1e-6, "{ratio}");
}

#[test]
fn failed_and_missing_cells_differ_with_their_reason() {
    let repository = Repository::new();
    two_runs(&repository, &["--fail", "pair tally"]);
    compare(&repository).expect(1, "A ok, B failed (this cell was told to fail)").expect(1, "12 same");
    repository.run(&["fake", "--out", "b", "--seeds", "2"]).expect(0, "16 run");
    compare(&repository).expect(1, "only in B").expect(1, "28 cells: 14 same, 0 within, 14 different");
    let cells = fs::read_dir(repository.path("b/cells")).unwrap();
    for cell in cells {
        fs::write(cell.unwrap().path().join("samples.parquet"), "").unwrap();
    }
    compare(&repository).expect(1, "B: samples.parquet has the SHA-256");
}

#[test]
fn what_cannot_be_compared_is_said() {
    let repository = Repository::new();
    two_runs(&repository, &["--fail", " "]);
    repository.run(&["fake", "--out", "a", "--fail", " "]);
    repository.run(&["compare", "a", "none"]).expect(1, "there is no run folder none");
    fs::create_dir(repository.path("empty")).unwrap();
    repository.run(&["compare", "a", "empty"]).expect(1, "holds no table of a finished run");
    repository.run(&["compare", "a", "b", "--csv", "b/x.csv"]).expect(1, "outside of both run folders");
    repository.run(&["compare", "a", "b", "--rate-tolerance", "2"]).expect(2, "a number from 0 to 1");
    repository.write("b/one.csv", "key,experiment\n1,one\n");
    compare(&repository).expect(1, "is not a table of this version");
}

#[test]
fn run_toml_names_what_went_in_and_no_place() {
    let repository = Repository::new();
    let out = repository.path("somewhere");
    repository.run(&["fake", "--out", out.to_str().unwrap()]).expect(0, "14 run");
    let text = fs::read_to_string(out.join("run.toml")).unwrap();
    assert!(text.contains("command = \"artifact fake --out somewhere\""), "{text}");
    assert!(!text.contains(out.parent().unwrap().to_str().unwrap()), "{text}");
    for expected in [
        "\"machines/h200.toml\" = ",
        "\"artifact/experiments/one.toml\" = ",
        "[invocation.levels]\ngate = \"launch\"",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    } // The machine itself stays with the run, under the checksums.
    let machine = fs::read(out.join("machine.toml")).unwrap();
    assert_eq!(machine, fs::read(repository.path("machines/h200.toml")).unwrap());
    assert!(fs::read_to_string(out.join("SHA256SUMS")).unwrap().contains("  machine.toml\n"));
}
