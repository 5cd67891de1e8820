//! What each experiment costs: minutes in the simulator, hours and dollars on a GPU.
//!
//! The hours are those of the plan: every cell of the experiment for its span, and the time to set it up. They are
//! counted here from the experiment's file alone, without the crates that run it; a test of the crate `artifact` compares
//! the two.

mod kinds;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// `artifact/prices.toml`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    pub estimate: Estimate,
    #[serde(default)]
    pub price: Vec<Price>,
}

/// What the hours rest on beside the experiments.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Estimate {
    pub setup_seconds_per_cell: f64,
    pub setup_origin: String,
}

/// What an hour costs somewhere.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    pub name: String,
    pub dollars_per_hour: f64,
    pub source: String,
    pub date: String,
    /// Shows the form and is nobody's price.
    pub example: bool,
}

/// One experiment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cost {
    pub experiment: String,
    /// `default`, or `full` for `--full`, which only the experiments with a full form have.
    pub size: &'static str,
    /// Run when no experiment is named.
    pub default: bool,
    pub cells: u64,
    /// In the simulator on 2 cores, as the experiment states it.
    pub simulator_minutes: f64,
    /// Of the cells alone.
    pub gpu_span_hours: f64,
    /// With the time to set them up.
    pub gpu_hours: f64,
    /// By price.
    pub dollars: BTreeMap<String, f64>,
}

/// What every kind of experiment says.
#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    kind: kinds::Kind,
    default: bool,
    expected_minutes: f64,
}

/// The part of an experiment of pairs that the cost depends on; what is wrong with the rest is its reader's to say.
#[derive(Deserialize)]
struct Experiment {
    systems: Vec<String>,
    #[serde(default)]
    alone: Vec<String>,
    inference: Vec<String>,
    training: Vec<String>,
    loads: Vec<f64>,
    seeds: Vec<u64>,
    span: Span,
    full: Option<Full>,
}

/// What `--full` replaces.
#[derive(Clone, Deserialize)]
struct Full {
    expected_minutes: Option<f64>,
    systems: Option<Vec<String>>,
    inference: Option<Vec<String>>,
    training: Option<Vec<String>>,
    loads: Option<Vec<f64>>,
    seeds: Option<Vec<u64>>,
    span: Option<Span>,
}

#[derive(Clone, Copy, Deserialize)]
struct Span {
    min_seconds: u64,
    min_requests: u64,
}

/// Reads the prices.
///
/// # Errors
/// The file cannot be read, or a price is none, by name.
pub fn prices(path: &Path) -> Result<Prices> {
    let read = || -> Result<Prices> {
        let prices: Prices = toml::from_str(&bounded::text(path, bounded::DEFINITION)?)?;
        let is_number = |x: f64| x.is_finite() && x >= 0.0;
        ensure!(
            is_number(prices.estimate.setup_seconds_per_cell),
            "setup_seconds_per_cell must be 0 or more"
        );
        for price in &prices.price {
            ensure!(
                is_number(price.dollars_per_hour),
                "price `{}`: dollars_per_hour must be 0 or more",
                price.name
            );
            ensure!(!price.source.trim().is_empty(), "price `{}`: source is empty", price.name);
        }
        Ok(prices)
    };
    read().with_context(|| format!("in {}", path.display()))
}

/// The costs of all experiments of the repository, by their names.
///
/// # Errors
/// An experiment that cannot be read, by file.
pub fn all(root: &Path, prices: &Prices) -> Result<Vec<Cost>> {
    let folder = root.join("artifact/experiments");
    let mut costs = Vec::new();
    for entry in std::fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            costs.extend(both(root, &path, prices).with_context(|| format!("in {}", path.display()))?);
        }
    }
    costs.sort_by(|a, b| (&a.experiment, a.size).cmp(&(&b.experiment, b.size)));
    Ok(costs)
}

/// The default form of an experiment, and the full one if it has one.
fn both(root: &Path, path: &Path, prices: &Prices) -> Result<Vec<Cost>> {
    let text = bounded::text(path, bounded::DEFINITION)?;
    let head: Head = toml::from_str(&text)?;
    let id = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let counts = match head.kind {
        kinds::Kind::Pairs => pairs_of_all_sizes(root, toml::from_str(&text)?),
        kind => kinds::count(root, kind, &text)?,
    };
    let cost = |size, minutes, of| cost(&id, &head, size, minutes, of, prices);
    let full = counts.full.map(|(minutes, of)| cost("full", minutes.unwrap_or(head.expected_minutes), of));
    Ok([cost("default", head.expected_minutes, counts.default)].into_iter().chain(full).collect())
}

/// Cells of an experiment, and their seconds together.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Counts {
    default: (f64, f64),
    /// With the minutes that the full form states; where it has none, those of the default one hold.
    full: Option<(Option<f64>, (f64, f64))>,
}

fn pairs_of_all_sizes(root: &Path, mut e: Experiment) -> Counts {
    let full = e.full.take();
    let default = pairs(root, &e);
    let full = full.map(|full| {
        let e = Experiment {
            systems: full.systems.unwrap_or(e.systems),
            inference: full.inference.unwrap_or(e.inference),
            training: full.training.unwrap_or(e.training),
            loads: full.loads.unwrap_or(e.loads),
            seeds: full.seeds.unwrap_or(e.seeds),
            span: full.span.unwrap_or(e.span),
            ..e
        };
        (full.expected_minutes, pairs(root, &e))
    });
    Counts { default, full }
}

/// Cells of an experiment of pairs, and their seconds together.
fn pairs(root: &Path, e: &Experiment) -> (f64, f64) {
    // Beside the pairs, a server has a cell alone without sharing, and one under each of these.
    let alone = 1.0 + e.alone.len() as f64;
    let shared = e.systems.iter().filter(|system| *system != "no-sharing").count() as f64;
    let (seeds, trainings) = (e.seeds.len() as f64, e.training.len() as f64);
    let (mut cells, mut seconds) = (0.0, 0.0);
    let mut add = |count: f64, each: f64| {
        cells += count;
        seconds += count * each;
    };
    let least = e.span.min_seconds as f64;
    add(seeds * trainings, least);
    for server in &e.inference {
        // Without a recording, the span without its requests: at least so long.
        let mean_s = mean_seconds(root, server).unwrap_or(0.0);
        let fewest = e.span.min_requests as f64;
        add(seeds, closed_loop_seconds(mean_s, least, fewest));
        for load in &e.loads {
            add(seeds * (alone + trainings * shared), paced_seconds(mean_s, least, fewest, *load));
        }
    }
    (cells, seconds)
}

/// Of a server that answers one request after the other: it needs no more than 10,000.
fn closed_loop_seconds(mean_s: f64, least_s: f64, fewest: f64) -> f64 {
    let requests = if mean_s > 0.0 { (least_s / mean_s).floor() } else { 0.0 };
    requests.clamp(fewest, fewest.max(10_000.0)) * mean_s
}

/// Of a cell with planned arrivals: a fiftieth more than asked for, as the plan has it.
fn paced_seconds(mean_s: f64, least_s: f64, fewest: f64, load: f64) -> f64 {
    least_s.max((fewest + (fewest / 50.0).ceil()) * mean_s / load)
}

/// So many cells of so many seconds together, as the cost of an experiment in a size.
fn cost(
    experiment: &str,
    head: &Head,
    size: &'static str,
    minutes: f64,
    (cells, seconds): (f64, f64),
    prices: &Prices,
) -> Cost {
    let gpu_hours = (seconds + cells * prices.estimate.setup_seconds_per_cell) / 3600.0;
    let dollars =
        prices.price.iter().map(|price| (price.name.clone(), cents(gpu_hours * price.dollars_per_hour)));
    Cost {
        experiment: experiment.to_owned(),
        size,
        default: head.default,
        cells: cells as u64,
        simulator_minutes: minutes,
        gpu_span_hours: hundredths(seconds / 3600.0),
        gpu_hours: hundredths(gpu_hours),
        dollars: dollars.collect(),
    }
}

/// Mean time of a request of this server when it was recorded.
fn mean_seconds(root: &Path, workload: &str) -> Option<f64> {
    let path = root.join("workloads/profiles/h200").join(format!("{workload}.toml"));
    let profile: toml::Table = toml::from_str(&bounded::text(&path, bounded::DEFINITION).ok()?).ok()?;
    let mean = profile.get("unprofiled")?.get("mean_ns")?;
    let mean_ns = mean.as_float().or_else(|| mean.as_integer().map(|i| i as f64))?;
    (mean_ns > 0.0).then_some(mean_ns / 1e9)
}

fn hundredths(x: f64) -> f64 {
    (x * 100.0).round() / 100.0
}

fn cents(dollars: f64) -> f64 {
    hundredths(dollars)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_small_experiment_by_hand() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        fs::create_dir_all(at("artifact/experiments")).unwrap();
        fs::create_dir_all(at("workloads/profiles/h200")).unwrap();
        fs::write(at("workloads/profiles/h200/s.toml"), "[unprofiled]\nmean_ns = 2_000_000_000\n").unwrap();
        let text = "default = true\nexpected_minutes = 1.5\nsystems = [\"no-sharing\", \"mps\", \"gate\"]\n\
            inference = [\"s\", \"unrecorded\"]\ntraining = [\"t\"]\nloads = [0.5]\nseeds = [1]\n\
            [span]\nmin_seconds = 300\nmin_requests = 100\n\
            [full]\nexpected_minutes = 9\nseeds = [1, 2]\nsystems = [\"mps\"]\ninference = [\"unrecorded\"]\n\
            span = { min_seconds = 600, min_requests = 100 }\n";
        fs::write(at("artifact/experiments/x.toml"), text).unwrap();
        let price = Price {
            name: "p".to_owned(),
            dollars_per_hour: 2.0,
            source: "a test".to_owned(),
            date: String::new(),
            example: true,
        };
        let prices = Prices {
            estimate: Estimate { setup_seconds_per_cell: 60.0, setup_origin: String::new() },
            price: vec![price],
        };
        let costs = all(root.path(), &prices).unwrap();
        // Training 300 s; s: 150 requests of 2 s, and three cells of 102 requests each 4 s; the other three of 300 s.
        let seconds = 300.0 + 150.0 * 2.0 + 3.0 * 408.0 + 3.0 * 300.0;
        assert_eq!((costs[0].cells, costs[0].simulator_minutes), (9, 1.5));
        assert_eq!(costs[0].gpu_span_hours, hundredths(seconds / 3600.0));
        assert_eq!(costs[0].gpu_hours, hundredths((seconds + 540.0) / 3600.0));
        assert_eq!(costs[0].dollars["p"], cents((seconds + 540.0) / 1800.0));
        // Twice: training, the server alone (which counts nothing without a recording) and paced, and one pair.
        assert_eq!((costs[1].size, costs[1].cells, costs[1].simulator_minutes), ("full", 8, 9.0));
        assert_eq!(costs[1].gpu_span_hours, hundredths(2.0 * 3.0 * 600.0 / 3600.0));
    }

    #[test]
    fn a_price_without_a_source_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prices.toml");
        let text = "[estimate]\nsetup_seconds_per_cell = 1\nsetup_origin = \"\"\n[[price]]\nname = \"p\"\n\
            dollars_per_hour = 1\nsource = \" \"\ndate = \"\"\nexample = false\n";
        fs::write(&path, text).unwrap();
        assert!(format!("{:#}", prices(&path).unwrap_err()).contains("price `p`: source is empty"));
        fs::write(&path, text.replace("dollars_per_hour = 1", "dollars_per_hour = nan")).unwrap();
        assert!(format!("{:#}", prices(&path).unwrap_err()).contains("dollars_per_hour"));
    }

    #[test]
    fn the_prices_of_the_repository_are_marked_as_examples() {
        let prices =
            prices(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../artifact/prices.toml"))).unwrap();
        assert!(!prices.price.is_empty());
        for price in prices.price {
            assert!(price.example == price.source.starts_with("example"), "{price:?}");
        }
    }
}
