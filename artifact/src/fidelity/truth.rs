//! Known slowdowns: published ones, measured ones, and those of a run folder.

use crate::cell::Load;
use crate::fidelity::split::Source;
use crate::h200_check;
use crate::root::Root;
use crate::summary::Row;
use anyhow::{Context, Result};
use serde::Deserialize;

/// The published rows, built in as in `figures`.
const PUBLISHED: &str = include_str!("../../../figures/reference/reference_a100.csv");

const PUBLISHED_FROM: &str = "in figures/reference/reference_a100.csv, as built in";

/// One known pair.
#[derive(Clone, Debug, PartialEq)]
pub struct Truth {
    pub source: Source,
    /// Rows of different runs are not ranked.
    pub run: u32,
    pub system: String,
    pub inference: String,
    pub training: String,
    pub load: Load,
    /// Of our arrivals; `None` for arrivals of others, which are no seed of ours.
    pub seed: Option<u64>,
    /// p99 over the p99 of the server alone.
    pub slowdown: f64,
    /// Best-effort throughput over that of the training alone.
    pub be_norm: Option<f64>,
}

impl Truth {
    /// Whether both are of the same two jobs at the same load, and of the same arrivals where both have a seed.
    pub fn same_cell(&self, other: &Truth) -> bool {
        self.inference == other.inference && self.training == other.training && self.same_arrivals(other)
    }

    /// Whether both are of the same load, and of the same seed where both have one.
    pub fn same_arrivals(&self, other: &Truth) -> bool {
        self.load == other.load && self.seed.zip(other.seed).is_none_or(|(own, other)| own == other)
    }
}

/// What is used of a published row.
#[derive(Deserialize)]
struct PublishedRow {
    inference: String,
    training: String,
    load: f64,
    system: String,
    p99_ms: f64,
    baseline_p99_ms: f64,
    be_norm_throughput: Option<f64>,
}

/// The published pairs under our names; the rows named `tgs` come from the port that we call `tgs-artifact`.
///
/// # Errors
/// The file is damaged, by line.
pub fn published() -> Result<Vec<Truth>> {
    let rows: Vec<PublishedRow> = csv::Reader::from_reader(PUBLISHED.as_bytes())
        .deserialize()
        .collect::<Result<_, _>>()
        .context(PUBLISHED_FROM)?;
    let system = |name: &str| if name == "tgs" { "tgs-artifact".to_owned() } else { name.to_owned() };
    let training = |name: &str| match name {
        "whisper-large-v3" => "whisper-train".to_owned(),
        other => format!("{other}-train"),
    };
    let rows = rows.into_iter().filter(|row| row.system != "no-sharing");
    rows.map(|row| {
        Ok(Truth {
            source: Source::Published,
            run: 1,
            system: system(&row.system),
            inference: format!("{}-infer", row.inference),
            training: training(&row.training),
            load: Load::new(row.load).context(PUBLISHED_FROM)?,
            seed: None,
            slowdown: row.p99_ms / row.baseline_p99_ms,
            be_norm: row.be_norm_throughput,
        })
    })
    .collect()
}

/// The measured pairs of `h200-check`; each run has its own server alone to compare with.
///
/// # Errors
/// The file cannot be read, or a run lacks the server alone.
pub fn measured(root: &Root) -> Result<Vec<Truth>> {
    let rows = h200_check::measured(root)?;
    let pairs = rows.iter().filter(|row| !row.training.is_empty());
    pairs
        .map(|row| {
            let alone = rows
                .iter()
                .find(|other| other.run == row.run && other.system == "no-sharing")
                .with_context(|| format!("run {} has no row of the server alone", row.run))?;
            Ok(Truth {
                source: Source::Measured,
                run: row.run,
                system: row.system.clone(),
                inference: h200_check::INFERENCE.to_owned(),
                training: row.training.clone(),
                load: Load::new(h200_check::LOAD)?,
                seed: None,
                slowdown: row.service_p99_ms / alone.service_p99_ms,
                be_norm: row.be_norm,
            })
        })
        .collect()
}

/// The pairs of a table of ours.
pub fn of_table(rows: &[Row], run: u32) -> Vec<Truth> {
    let pairs = rows.iter().filter(|row| row.kind == "pair" && row.status == "ok");
    pairs
        .filter_map(|row| {
            Some(Truth {
                source: Source::Folder,
                run,
                system: row.system.clone(),
                inference: row.inference.clone(),
                training: row.training.clone(),
                load: Load::new(row.load?).ok()?,
                seed: Some(row.seed),
                slowdown: 1.0 + row.p99_overhead?,
                be_norm: row.be_norm,
            })
        })
        .collect()
}

#[cfg(test)]
impl Truth {
    /// A published pair, for tests.
    pub fn published(system: &str, training: &str, slowdown: f64) -> Truth {
        Truth {
            source: Source::Published,
            run: 1,
            system: system.to_owned(),
            inference: "a".to_owned(),
            training: training.to_owned(),
            load: Load::new(0.5).unwrap(),
            seed: None,
            slowdown,
            be_norm: Some(0.5),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn rows_have_our_names_and_their_own_baseline() {
        let root = Root::at(Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap());
        let published = published().unwrap();
        assert_eq!(published.len(), 84);
        let find = |system: &str, training: &str| {
            published.iter().find(|t| t.system == system && t.training == training).unwrap()
        };
        // 16.379 / 4.098 and 48.26 / 4.098.
        let tgs = find("tgs-artifact", "bert-train");
        assert!((tgs.slowdown - 3.9968).abs() < 1e-4 && tgs.be_norm == Some(0.88), "{tgs:?}");
        assert!((find("mps", "whisper-train").slowdown - 11.7765).abs() < 1e-4);
        let measured = measured(&root).unwrap();
        assert_eq!(measured.len(), 15);
        // 12.118 / 1.705 in run 1, 2.347 / 1.722 in run 2.
        let of = |system: &str, training: &str| {
            measured.iter().find(|t| t.system == system && t.training == training).unwrap().slowdown
        };
        assert!((of("mps-priority", "bert-base-384-train") - 7.1073).abs() < 1e-4);
        assert!((of("gate-1", "resnet50-tf32-train") - 1.3630).abs() < 1e-4);
    }
}
