//! Published numbers that the tables show beside ours.
//!
//! Two sources: the paper's headline, typed in here, and the published A100 demo, computed from
//! `reference/reference_a100.csv` (origin: `reference/PROVENANCE.md`) each time.

use anyhow::{Context, Result, anyhow};

use crate::stats;

/// Mean p99 overhead in the paper (ratio), by our name of the system. Its TGS stands beside the port, as the published rows do:
/// of which revision the paper's own runs were is unknown.
pub const PAPER_OVERHEAD: &[(&str, f64)] =
    &[("time-slicing", 2.523), ("mps", 3.450), ("mps-priority", 1.955), (TGS, 1.889), ("tally", 0.072)];

/// Our name of what the published TGS rows were made with.
pub const TGS: &str = "tgs-artifact";

/// The paper's throughput claim: Tally reaches more than this share of TGS's system throughput.
pub const PAPER_TALLY_OVER_TGS: f64 = 0.80;

/// A name of the demo in our words: its TGS rows come from the port, not from the system of the TGS paper.
fn our_name(published: &str) -> &str {
    if published == "tgs" { TGS } else { published }
}

/// One pair of the demo.
#[derive(Clone, Debug)]
pub struct Row {
    pub system: String,
    pub inference: String,
    pub training: String,
    pub overhead: f64,
    pub hp_norm: f64,
    pub be_norm: f64,
}

/// Aggregates over pairs; all ratios.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Aggregate {
    pub mean: f64,
    pub geometric: f64,
    pub median: f64,
    pub min: f64,
    pub max: f64,
    pub hp_norm: f64,
    pub be_norm: f64,
    pub system_throughput: f64,
}

/// The pairs of the demo, without the rows of the baseline.
///
/// # Errors
/// The bundled file is damaged.
pub fn rows() -> Result<Vec<Row>> {
    let text = include_str!("../reference/reference_a100.csv");
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let mut rows = Vec::new();
    for (index, line) in lines.enumerate() {
        let fields: Vec<&str> = line.split(',').collect();
        let get = |column: &str| {
            let at = header.iter().position(|h| *h == column);
            at.and_then(|i| fields.get(i).copied())
                .ok_or_else(|| anyhow!("reference_a100.csv, line {}: no column `{column}`", index + 2))
        };
        let real = |column: &str| -> Result<f64> {
            let value = get(column)?;
            value.parse().with_context(|| {
                format!("reference_a100.csv, line {}, column `{column}`: value `{value}`", index + 2)
            })
        };
        if get("system")? == "no-sharing" {
            continue;
        }
        rows.push(Row {
            system: our_name(get("system")?).to_owned(),
            inference: get("inference")?.to_owned(),
            training: get("training")?.to_owned(),
            overhead: real("p99_ms")? / real("baseline_p99_ms")? - 1.0,
            hp_norm: real("hp_norm_throughput")?,
            be_norm: real("be_norm_throughput")?,
        });
    }
    Ok(rows)
}

/// The demo's aggregate of one of our systems; `None` where it has no such rows.
pub fn aggregate(rows: &[Row], system: &str) -> Option<Aggregate> {
    let of: Vec<&Row> = rows.iter().filter(|r| r.system == system).collect();
    let get = |f: fn(&Row) -> f64| of.iter().map(|r| f(r)).collect::<Vec<_>>();
    let overheads = get(|r| r.overhead);
    let (min, max) = stats::range(&overheads)?;
    Some(Aggregate {
        mean: stats::mean(&overheads)?,
        geometric: stats::geometric_overhead(&overheads)?,
        median: stats::median(&overheads)?,
        min,
        max,
        hp_norm: stats::mean(&get(|r| r.hp_norm))?,
        be_norm: stats::mean(&get(|r| r.be_norm))?,
        system_throughput: stats::mean(&get(|r| r.hp_norm + r.be_norm))?,
    })
}

/// Mean overhead of a system in the paper, a ratio.
pub fn paper_overhead(system: &str) -> Option<f64> {
    PAPER_OVERHEAD.iter().find(|p| p.0 == system).map(|p| p.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Aggregates of the demo as they were computed independently when the reference was collected.
    #[test]
    fn aggregates_match_the_known_ones() {
        let rows = rows().unwrap();
        assert_eq!(rows.len(), 84);
        let percent = |x: f64| (x * 1000.0).round() / 10.0;
        let thousandths = |x: f64| (x * 1000.0).round() / 1000.0;
        for (system, mean, median, min, max, hp, be, total) in [
            ("time-slicing", 137.9, 150.4, 76.8, 173.5, 0.908, 0.544, 1.452),
            ("mps", 289.9, 188.4, 29.5, 1077.6, 0.857, 0.873, 1.730),
            ("mps-priority", 195.6, 131.0, 26.7, 481.0, 0.928, 0.847, 1.774),
            ("tgs-artifact", 177.1, 107.1, 22.2, 411.3, 0.950, 0.788, 1.738),
            ("tally", 4.8, 4.2, 1.5, 9.9, 1.000, 0.443, 1.443),
            ("tally-no-transform", 30.8, 13.0, 2.7, 145.9, 1.000, 0.505, 1.505),
            ("tally-no-scheduling", 589.3, 198.2, 27.2, 4142.7, 0.851, 0.853, 1.703),
        ] {
            let a = aggregate(&rows, system).unwrap();
            let found = [a.mean, a.median, a.min, a.max].map(percent);
            assert_eq!(found, [mean, median, min, max], "{system}");
            let found = [a.hp_norm, a.be_norm, a.system_throughput].map(thousandths);
            for (f, e) in found.iter().zip([hp, be, total]) {
                assert!((f - e).abs() < 0.0011, "{system}: {f} and {e}");
            }
        }
        // One name for the paper's and the demo's numbers.
        assert_eq!((aggregate(&rows, "tgs"), paper_overhead("tgs")), (None, None));
        assert_eq!(paper_overhead("tgs-artifact"), Some(1.889));
    }
}
