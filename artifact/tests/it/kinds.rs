//! Experiments that are no grids of pairs, from the file to the records.

use crate::repository::Repository;
use std::fs;
use std::path::Path;

const HEAD: &str = "title = \"A test\"\nreason = \"Tests.\"\nupstream_counterpart = \"None.\"\ndefault = false\n\
    expected_minutes = 0.1\n";

/// A repository with one experiment of each kind; the jobs are these.
fn repository(inference: &str, training: &str) -> Repository {
    let repository = Repository::new();
    let crowd = format!(
        "id = \"crowd\"\nkind = \"crowd\"\n{HEAD}systems = [\"mps\", \"gate\"]\ninference = \"{inference}\"\n\
        clients = [1, 3]\narrivals = [\"independent\", \"coinciding\"]\nload = 0.2\nseeds = [1]\ntrace = \"poisson\"\n\
        seconds = 2\nquick = {{ clients = [2], seconds = 1 }}\n"
    );
    let timeline = format!(
        "id = \"timeline\"\nkind = \"timeline\"\n{HEAD}systems = [\"no-sharing\", \"gate\"]\n\
        inference = \"{inference}\"\ntraining = \"{training}\"\nload = 0.2\nseed = 1\ntrace = \"maf2-two-weeks\"\n\
        seconds = 4\nintervals = {{ arrivals_seconds = 1, latency_seconds = 2, progress_seconds = 4 }}\n\
        quick = {{ seconds = 4 }}\n"
    );
    let profiles = format!(
        "id = \"profiles\"\nkind = \"profiles\"\n{HEAD}training = [\"{training}\"]\nclasses_us = [100, 1000]\n"
    );
    for (id, text) in [("crowd", crowd), ("timeline", timeline), ("profiles", profiles)] {
        repository.write(&format!("artifact/experiments/{id}.toml"), &text);
    }
    repository
}

const ALL: [&str; 6] = ["--experiment", "crowd", "--experiment", "timeline", "--experiment", "profiles"];

fn rows(path: &Path) -> Vec<Vec<String>> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_path(path).unwrap();
    reader.records().map(|row| row.unwrap().iter().map(str::to_owned).collect()).collect()
}

/// Values of a column of the rows with this text in another one.
fn column(rows: &[Vec<String>], name: &str, (by, value): (&str, &str)) -> Vec<String> {
    let at = |name: &str| rows[0].iter().position(|column| column == name).unwrap();
    rows[1..].iter().filter(|row| row[at(by)] == value).map(|row| row[at(name)].clone()).collect()
}

#[test]
fn every_kind_leaves_its_records() {
    let repository = repository("bert-infer", "bert-train");
    let real = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    fs::remove_dir_all(repository.path("workloads")).unwrap();
    std::os::unix::fs::symlink(real.join("workloads"), repository.path("workloads")).unwrap();
    // Crowd: stream, paced, 2 numbers x 2 patterns x 2 systems; timeline: stream, training, paced and one system. Streams
    // of different spans are different cells.
    let command = [&["reproduce", "--out", "run"], &ALL[..]].concat();
    repository.run(&command).expect(0, "14 cells: 14 run");
    repository.run(&command).expect(0, "0 run, 14 were stored");

    let crowd = rows(&repository.path("run/crowd.csv"));
    assert_eq!(column(&crowd, "clients", ("kind", "crowd")), ["1", "1", "3", "3", "1", "1", "3", "3"]);
    let rates = column(&crowd, "be_rate_hz", ("kind", "crowd"));
    assert!(
        rates
            .iter()
            .zip([true, false].into_iter().cycle().flat_map(|x| [x, x]))
            .all(|(r, e)| r.is_empty() == e)
    );
    let alone = column(&crowd, "hp_rate_hz", ("clients", "1"));
    assert!(alone.iter().all(|rate| *rate == alone[0]), "{alone:?}");

    let series = rows(&repository.path("run/timeline-series.csv"));
    assert_eq!(column(&series, "n", ("series", "arrival_rate_hz")).len(), 4);
    // Two cells of two intervals each.
    for name in ["service_p99_ns", "e2e_p99_ns"] {
        let values = column(&series, "value", ("series", name));
        assert!(values.len() == 4 && values.iter().all(|v| v.parse::<f64>().unwrap() > 0.0), "{values:?}");
    }
    let requests: u64 =
        column(&series, "n", ("series", "service_p99_ns")).iter().map(|n| n.parse::<u64>().unwrap()).sum();
    let table = rows(&repository.path("run/timeline.csv"));
    let served = |kind| column(&table, "requests", ("kind", kind))[0].parse::<u64>().unwrap();
    assert!(requests.abs_diff(served("timeline") + served("solo-paced")) <= 2, "{requests}");
    let progress = column(&series, "value", ("series", "be_rate_hz"));
    let whole: f64 = column(&table, "be_rate_hz", ("kind", "timeline"))[0].parse().unwrap();
    assert!((progress[0].parse::<f64>().unwrap() - whole).abs() < 0.5, "{progress:?} {whole}");

    assert!(!repository.path("run/profiles.csv").exists());
    assert_eq!(rows(&repository.path("run/profiles-durations.csv")).len(), 1 + 3);
    assert_eq!(rows(&repository.path("run/profiles-turnaround.csv")).len(), 1 + 3);

    // All records are covered by sums, golden values and comparisons.
    let verify = ["verify", "--run", "run"];
    repository.run(&[&verify[..], &["--update-golden"]].concat()).expect(0, "numbers: ok");
    for name in ["crowd", "timeline", "timeline-series", "profiles-durations", "profiles-turnaround"] {
        repository.run(&verify).expect(0, &format!("{name}: "));
        assert!(repository.path(&format!("artifact/golden/{name}.csv")).is_file(), "{name}");
    }
    repository.run(&["compare", "run", "run"]).expect(0, "14");
    let (golden, record) =
        (repository.path("artifact/golden/timeline-series.csv"), repository.path("run/timeline-series.csv"));
    let text = fs::read_to_string(&record).unwrap();
    fs::write(&record, text.replacen("arrival_rate_hz,0,", "arrival_rate_hz,1,", 1)).unwrap();
    repository.run(&verify).expect(1, "timeline-series.csv: changed since it was written");
    repository.run(&verify).expect(1, "start_ns is 1, golden 0");
    assert!(golden.is_file());
}

#[test]
fn a_lost_file_beside_a_cell_is_made_again() {
    let repository = repository("server", "trainer");
    let command = [&["fake", "--out", "run"], &ALL[..]].concat();
    repository.run(&command).expect(0, "14 run");
    let mut lost = 0;
    for cell in fs::read_dir(repository.path("run/cells")).unwrap() {
        for name in ["peers.parquet", "iterations.parquet"] {
            lost += usize::from(fs::remove_file(cell.as_ref().unwrap().path().join(name)).is_ok());
        }
    }
    // Four crowds of three servers, and one timeline; a server alone has no peers.
    assert_eq!(lost, 5);
    repository.run(&command).expect(0, "5 run, 9 were stored");
    // Made-up programs have no recordings.
    assert!(!repository.path("run/profiles-durations.csv").exists());
}

#[test]
fn the_list_says_what_a_crowd_is() {
    let repository = repository("server", "trainer");
    let answer = repository.run(&["fake", "--list", "--experiment", "crowd", "--experiment", "profiles"]);
    answer.expect(0, "2 servers, coinciding").expect(0, "profiles: A test");
}
