//! Cells and spans of experiments that are no grids of pairs.

use super::{Counts, closed_loop_seconds, mean_seconds, paced_seconds};
use anyhow::Result;
use serde::Deserialize;
use std::path::Path;

/// As in the field `kind`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    #[default]
    Pairs,
    Crowd,
    Timeline,
    Profiles,
}

/// Requests that a cell of these kinds needs at least.
const FEWEST_REQUESTS: f64 = 100.0;

#[derive(Deserialize)]
struct Crowd {
    systems: Vec<String>,
    inference: String,
    clients: Vec<u64>,
    arrivals: Vec<String>,
    load: f64,
    seeds: Vec<u64>,
    seconds: f64,
    full: Option<CrowdFull>,
}

/// What `--full` replaces.
#[derive(Deserialize)]
struct CrowdFull {
    expected_minutes: Option<f64>,
    clients: Option<Vec<u64>>,
    seeds: Option<Vec<u64>>,
    seconds: Option<f64>,
}

#[derive(Deserialize)]
struct Timeline {
    systems: Vec<String>,
    inference: String,
    load: f64,
    seconds: f64,
    full: Option<TimelineFull>,
}

/// What `--full` replaces.
#[derive(Deserialize)]
struct TimelineFull {
    expected_minutes: Option<f64>,
    seconds: Option<f64>,
}

/// Counts an experiment of one of these kinds.
///
/// # Errors
/// A field that the cost depends on is missing.
pub(super) fn count(root: &Path, kind: Kind, text: &str) -> Result<Counts> {
    Ok(match kind {
        Kind::Crowd => {
            let mut e: Crowd = toml::from_str(text)?;
            let full = e.full.take();
            let default = crowd(root, &e);
            let full = full.map(|full| {
                e.clients = full.clients.unwrap_or(std::mem::take(&mut e.clients));
                e.seeds = full.seeds.unwrap_or(std::mem::take(&mut e.seeds));
                e.seconds = full.seconds.unwrap_or(e.seconds);
                (full.expected_minutes, crowd(root, &e))
            });
            Counts { default, full }
        }
        Kind::Timeline => {
            let mut e: Timeline = toml::from_str(text)?;
            let full = e.full.take();
            let default = timeline(root, &e);
            let full = full.map(|full| {
                e.seconds = full.seconds.unwrap_or(e.seconds);
                (full.expected_minutes, timeline(root, &e))
            });
            Counts { default, full }
        }
        Kind::Profiles | Kind::Pairs => Counts { default: (0.0, 0.0), full: None },
    })
}

fn crowd(root: &Path, e: &Crowd) -> (f64, f64) {
    let mean_s = mean_seconds(root, &e.inference).unwrap_or(0.0);
    // Alone without sharing, and every number of servers with every pattern under every system.
    let paced = 1.0 + e.clients.len() as f64 * e.arrivals.len() as f64 * shared(&e.systems);
    let seconds = closed_loop_seconds(mean_s, e.seconds, FEWEST_REQUESTS)
        + paced * paced_seconds(mean_s, e.seconds, FEWEST_REQUESTS, e.load);
    let seeds = e.seeds.len() as f64;
    (seeds * (1.0 + paced), seeds * seconds)
}

fn timeline(root: &Path, e: &Timeline) -> (f64, f64) {
    let mean_s = mean_seconds(root, &e.inference).unwrap_or(0.0);
    let paced = 1.0 + shared(&e.systems);
    let seconds = closed_loop_seconds(mean_s, e.seconds, FEWEST_REQUESTS)
        + e.seconds
        + paced * paced_seconds(mean_s, e.seconds, FEWEST_REQUESTS, e.load);
    (2.0 + paced, seconds)
}

fn shared(systems: &[String]) -> f64 {
    systems.iter().filter(|system| *system != "no-sharing").count() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(kind: Kind, text: &str) -> Counts {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("workloads/profiles/h200");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("s.toml"), "[unprofiled]\nmean_ns = 100_000_000\n").unwrap();
        count(root.path(), kind, text).unwrap()
    }

    #[test]
    fn a_crowd_by_hand() {
        let text = "systems = [\"mps\", \"gate\"]\ninference = \"s\"\nclients = [1, 5]\n\
            arrivals = [\"independent\", \"coinciding\"]\nload = 0.1\nseeds = [1, 2]\nseconds = 60\n";
        // Per seed: 600 requests of 0.1 s in a loop, and 1 + 2 x 2 x 2 cells of 102 requests each second.
        let default = (20.0, 2.0 * (60.0 + 9.0 * 102.0));
        assert_eq!(counted(Kind::Crowd, text), Counts { default, full: None });
        let text =
            format!("{text}[full]\nexpected_minutes = 9\nclients = [1]\nseeds = [1, 2, 3]\nseconds = 600\n");
        let full = Some((Some(9.0), (18.0, 3.0 * 6.0 * 600.0)));
        assert_eq!(counted(Kind::Crowd, &text), Counts { default, full });
    }

    #[test]
    fn a_timeline_by_hand() {
        let text =
            "systems = [\"no-sharing\", \"mps\", \"gate\"]\ninference = \"s\"\nload = 0.5\nseconds = 300\n";
        let default = (5.0, 5.0 * 300.0);
        assert_eq!(counted(Kind::Timeline, text), Counts { default, full: None });
        let text = format!("{text}[full]\nseconds = 900\n");
        assert_eq!(
            counted(Kind::Timeline, &text),
            Counts { default, full: Some((None, (5.0, 5.0 * 900.0))) }
        );
        let nothing = Counts { default: (0.0, 0.0), full: None };
        assert_eq!(counted(Kind::Profiles, "classes_us = [1]"), nothing);
    }
}
