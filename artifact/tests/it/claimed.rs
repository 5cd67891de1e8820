//! Claims are judged at the end of a run, recorded in its folder, and change no exit code.

use crate::repository::Repository;
use std::fs;

const CLAIMS: &str = "artifact/claims.toml";

#[test]
fn verdicts_are_recorded_under_checksums_and_change_no_exit_code() {
    let repository = Repository::new();
    // Two pairs of a load each are too few for a share; and a band that no throughput is in.
    let missed = "relation = \"within\"\nsystems = [\"mps\"]\nband = [5.0, 9.0]";
    repository.replace(CLAIMS, "statistic = \"share\"", "statistic = \"mean\"");
    repository.replace(
        CLAIMS,
        "relation = \"below\"\nsystems = [\"mps\", \"tally\", \"gate\"]\nband = [0.5, 1.0]",
        missed,
    );
    let answer = repository.run(&["fake", "--out", "run"]);
    answer
        .expect(0, "claims:\n")
        .expect(0, "missed in simulation, ")
        .expect(0, "over 2 pairs, accepted 5 to 9: one");
    let read = |name: &str| fs::read_to_string(repository.path("run").join(name)).unwrap();
    let (header, row) = {
        let text = read("claims.csv");
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        assert_eq!(lines.len(), 2, "{text}");
        (lines[0].clone(), lines[1].clone())
    };
    assert!(header.starts_with("claim,text,source,"), "{header}");
    assert!(row.contains(",missed in simulation,not run,simulated,fake,"), "{row}");
    for name in ["claims.csv", "mechanisms.csv"] {
        assert!(read("SHA256SUMS").contains(&format!("  {name}\n")), "{name}");
    }
    repository.run(&["verify", "--run", "run"]).expect(0, "1. files: ok");
    let again = read("claims.csv");
    repository.run(&["fake", "--out", "run"]).expect(0, "0 run, 14 were stored");
    assert_eq!(read("claims.csv"), again);
}

#[test]
fn a_claim_may_rest_on_a_table_that_an_earlier_run_left() {
    let repository = Repository::new();
    let one = fs::read_to_string(repository.path("artifact/experiments/one.toml")).unwrap();
    repository.write("artifact/experiments/two.toml", &one.replace("id = \"one\"", "id = \"two\""));
    let claims = |experiment: &str| {
        repository.run(&["fake", "--out", "run", "--experiment", experiment]).expect(0, "claims:");
        fs::read_to_string(repository.path("run/claims.csv")).unwrap()
    };
    assert_eq!(claims("two").matches(",not run,not run,").count(), 2);
    let judged = claims("one");
    assert_eq!(judged.matches(",not run,not run,").count(), 0);
    assert_eq!(claims("two"), judged);
    repository.write("run/one.csv", "key\n");
    repository.replace("run/one.csv", "key\n", "key,other\n1,2\n");
    repository
        .run(&["fake", "--out", "run", "--experiment", "two"])
        .expect(0, "an earlier table is not judged");
}

#[test]
fn a_wrong_claim_stops_before_anything_is_run() {
    let repository = Repository::new();
    repository.replace(CLAIMS, "\"mps\"", "\"mqs\"");
    repository
        .run(&["fake", "--out", "run"])
        .expect(1, "claims.toml: claim `one`: systems: unknown system `mqs`");
    fs::remove_file(repository.path(CLAIMS)).unwrap();
    repository.run(&["fake", "--out", "run"]).expect(1, "cannot read").expect(1, "claims.toml");
    assert!(!repository.path("run").exists());
}
