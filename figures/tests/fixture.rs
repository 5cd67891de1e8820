//! Makes the synthetic tables in `tests/data` and proves that they are up to date.
//!
//! After a change: `cargo test -p figures --test fixture -- --ignored`.

use std::fmt::Write as _;
use std::path::PathBuf;

use figures::records::COLUMNS;

const LABEL: &str = "SYNTHETIC test data, not a measurement";
/// Systems without published rows are a published row times a factor: (name, origin, latency, throughput of
/// best effort).
const DERIVED: &[(&str, &str, f64, f64)] =
    &[("tgs", "time-slicing", 1.12, 0.93), ("tgs-mps", "tgs", 0.93, 0.95), ("gate", "tally", 1.31, 1.25)];
const FIG5: &[&str] = &["time-slicing", "mps", "mps-priority", "tgs", "tally"];
const FIG7A: &[&str] = &["tally-no-scheduling", "tally-no-transform", "tally"];

/// One published row.
struct Row<'a> {
    fields: Vec<&'a str>,
}

impl Row<'_> {
    fn real(&self, column: usize) -> f64 {
        self.fields[column].parse().unwrap()
    }
}

fn published() -> Vec<Row<'static>> {
    include_str!("../reference/reference_a100.csv")
        .lines()
        .skip(1)
        .map(|line| Row { fields: line.split(',').collect() })
        .collect()
}

fn job(name: &str, role: &str) -> String {
    format!("{}-{role}", name.replace("whisper-large-v3", "whisper"))
}

/// Writes rows by column name; a column without a value stays empty.
fn push(out: &mut String, values: &[(&str, String)]) {
    let fields: Vec<&str> = COLUMNS
        .split_whitespace()
        .map(|c| values.iter().find(|v| v.0 == c).map_or("", |v| v.1.as_str()))
        .collect();
    writeln!(out, "{}", fields.join(",")).unwrap();
}

fn table(experiment: &str, systems: &[&str], seeds: u64) -> String {
    let mut out = COLUMNS.split_whitespace().collect::<Vec<_>>().join(",") + "\n";
    let rows = published();
    let mut key = 0u64;
    let mut base = |kind: &str, system: &str, seed: u64| {
        key += 1;
        vec![
            ("key", format!("{key:016x}")),
            ("experiment", experiment.to_owned()),
            ("backend", "sim".to_owned()),
            ("machine", "synthetic".to_owned()),
            ("kind", kind.to_owned()),
            ("system", system.to_owned()),
            ("load", "0.5".to_owned()),
            ("seed", seed.to_string()),
            ("trace", format!("\"{LABEL}\"")),
            ("status", "ok".to_owned()),
        ]
    };
    for inference in ["bert", "llama-2-7b"] {
        let solo = rows.iter().find(|r| r.fields[0] == inference).unwrap();
        let mut values = base("solo-stream", "no-sharing", 1);
        values.push(("inference", job(inference, "infer")));
        values.push(("upstream_n", "5000".to_owned()));
        values.push(("upstream_p99_ms", solo.fields[9].to_owned()));
        push(&mut out, &values);
    }
    for seed in 1..=seeds {
        // A spread between repeats that is easy to see and has no random part.
        let wobble = 1.0 + 0.03 * (seed as f64 - (seeds as f64 + 1.0) / 2.0);
        for r in rows.iter().filter(|r| systems.contains(&r.fields[3])) {
            let published = if r.fields[3] == "tgs" { "tgs-artifact" } else { r.fields[3] };
            pair(&mut out, base("pair", published, seed), r, wobble, 1.0);
            for (name, _, latency, throughput) in DERIVED.iter().filter(|d| d.1 == r.fields[3]) {
                if experiment == "fig5" {
                    pair(&mut out, base("pair", name, seed), r, wobble * latency, *throughput);
                }
            }
        }
    }
    out
}

fn pair(out: &mut String, mut values: Vec<(&'static str, String)>, r: &Row, latency: f64, best_effort: f64) {
    let (p99, baseline) = ((r.real(5) * latency * 1e3).round() / 1e3, r.real(9));
    // Arrival rate times mean service time, as at load 0.5.
    let utilisation = 0.5 * r.real(6) / r.real(10);
    let (hp, be) = (r.real(11), r.real(12) * best_effort);
    let (upstream_n, all) = if r.fields[0] == "bert" { (5000, 37_036) } else { (38, 76) };
    let tail = if utilisation >= 1.0 { 40.0 } else { 1.0 + utilisation };
    let mut add = |column, value: String| values.push((column, value));
    add("inference", job(r.fields[0], "infer"));
    add("training", job(r.fields[1], "train"));
    add("upstream_n", upstream_n.to_string());
    add("upstream_p50_ms", format!("{:.3}", r.real(6) * latency));
    add("upstream_p99_ms", format!("{p99:.3}"));
    for (column, n) in [("requests", all), ("service_n", all), ("e2e_n", all)] {
        add(column, n.to_string());
    }
    add("service_p99_ns", format!("{:.0}", p99 * 1.01e6));
    add("service_p99_low_ns", format!("{:.0}", p99 * 0.99e6));
    add("service_p99_high_ns", format!("{:.0}", p99 * 1.02e6));
    add("span_ns", "300000000000".to_owned());
    add("e2e_p99_ns", format!("{:.0}", p99 * tail * 1e6));
    add("utilisation", format!("{utilisation:.6}"));
    add("overloaded", (utilisation >= 1.0).to_string());
    add("hp_norm", format!("{hp:.6}"));
    add("be_norm", format!("{be:.6}"));
    add("system_throughput", format!("{:.6}", hp + be));
    add("baseline_p99_ms", format!("{baseline:.3}"));
    add("p99_overhead", format!("{:.6}", p99 / baseline - 1.0));
    push(out, &values);
}

fn tables() -> [(PathBuf, String); 2] {
    let path = |name| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    [(path("fig5.csv"), table("fig5", FIG5, 1)), (path("fig7a.csv"), table("fig7a", FIG7A, 3))]
}

#[test]
fn tables_are_up_to_date() {
    for (path, expected) in tables() {
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(found == expected, "{} is stale; see the head of this file", path.display());
    }
}

#[test]
#[ignore = "writes the tables"]
fn write_tables() {
    for (path, text) in tables() {
        std::fs::write(path, text).unwrap();
    }
}
