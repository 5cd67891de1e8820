//! The simulator beside cells that were measured on an H200: one row per measured cell, then two verdicts.

use crate::root::Root;
use crate::summary::Row;
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

/// The experiment's id.
pub const ID: &str = "h200-check";

/// The server of the measured cells.
pub const INFERENCE: &str = "bert-base-384-infer";

/// The load of the measured cells; the text beside their numbers says so.
pub const LOAD: f64 = 0.5;

/// What was measured, below the experiments; the text beside it says how.
pub const MEASURED: &str = "h200-check-measured.csv";

/// The server of every measured cell.
const SERVER: &str = "bert-base-384-infer";

/// How far a simulated p99 may be from the measured one, either way.
const P99_FACTOR: f64 = 1.5;

/// Measured values closer than this have no order: single runs of the same cell differ by as much.
const TIE: f64 = 0.05;

/// One measured cell; times in milliseconds.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Measured {
    pub run: u32,
    pub system: String,
    /// Empty for the server alone.
    pub training: String,
    pub service_p50_ms: f64,
    pub service_p99_ms: f64,
    pub be_norm: Option<f64>,
    pub e2e_p99_ms: Option<f64>,
}

/// A measured cell beside its simulation.
struct Compared<'a> {
    measured: Measured,
    row: Option<&'a Row>,
}

/// The comparison as text.
///
/// # Errors
/// The measured values cannot be read.
pub fn report(root: &Root, rows: &[Row]) -> Result<String> {
    Ok(compare(measured(root)?, rows))
}

/// The measured cells.
///
/// # Errors
/// They cannot be read, by line; or a value cannot be.
pub(crate) fn measured(root: &Root) -> Result<Vec<Measured>> {
    read(&root.experiments().join(MEASURED))
}

/// The server's id and its median latency alone, ms: without sharing, and as the only client of MPS, in the first run.
/// `None` where there are no measured values.
///
/// # Errors
/// The measured values cannot be read.
pub fn mps_alone(root: &Root) -> Result<Option<(String, f64, f64)>> {
    let path = root.experiments().join(MEASURED);
    if !path.exists() {
        return Ok(None);
    }
    let rows = read(&path)?;
    let alone = |system: &str| {
        let row = rows.iter().find(|row| row.run == 1 && row.training.is_empty() && row.system == system);
        row.map(|row| row.service_p50_ms)
    };
    Ok(alone("no-sharing").zip(alone("mps")).map(|(alone, mps)| (SERVER.to_owned(), alone, mps)))
}

fn read(path: &Path) -> Result<Vec<Measured>> {
    bounded::check(path, bounded::TABLE).with_context(|| format!("cannot read {}", path.display()))?;
    let mut reader =
        csv::Reader::from_path(path).with_context(|| format!("cannot read {}", path.display()))?;
    let rows: Vec<Measured> =
        reader.deserialize().collect::<Result<_, _>>().with_context(|| format!("in {}", path.display()))?;
    for row in &rows {
        ensure!(
            0.0 < row.service_p50_ms && row.service_p50_ms <= row.service_p99_ms,
            "in {}: {} {}: p50 {} ms, p99 {} ms",
            path.display(),
            row.system,
            row.training,
            row.service_p50_ms,
            row.service_p99_ms
        );
    }
    Ok(rows)
}

fn compare(measured: Vec<Measured>, rows: &[Row]) -> String {
    let find = |m: &Measured| {
        rows.iter().find(|row| {
            let kind = if m.training.is_empty() { "solo-paced" } else { "pair" };
            row.kind == kind && row.system == m.system && row.training == m.training && row.status == "ok"
        })
    };
    let cells: Vec<Compared> =
        measured.into_iter().map(|measured| Compared { row: find(&measured), measured }).collect();
    let mut text = "simulated (sim) beside measured (gpu) cells; times in ms, ratio = sim / gpu\n".to_owned();
    let _ = writeln!(
        text,
        "{:>3} {:13} {:20} | {:>7} {:>7} {:>5} | {:>7} {:>7} {:>5} | {:>5} {:>5} {:>5} | {:>7} {:>7} {:>5}",
        "run",
        "system",
        "training",
        "p50 sim",
        "gpu",
        "ratio",
        "p99 sim",
        "gpu",
        "ratio",
        "BE",
        "gpu",
        "ratio",
        "e2e p99",
        "gpu",
        "ratio"
    );
    for cell in &cells {
        let (m, row) = (&cell.measured, cell.row);
        let _ = writeln!(
            text,
            "{:>3} {:13} {:20} | {} | {} | {} | {}",
            m.run,
            m.system,
            m.training,
            triple(row.and_then(p50), Some(m.service_p50_ms), 7, 3),
            triple(row.and_then(p99), Some(m.service_p99_ms), 7, 3),
            triple(row.filter(|_| m.be_norm.is_some()).and_then(|row| row.be_norm), m.be_norm, 5, 2),
            triple(row.and_then(|row| Some(row.e2e_p99_ns? / 1e6)), m.e2e_p99_ms, 7, 2),
        );
    }
    let trainings: BTreeSet<&str> = cells.iter().map(|cell| cell.measured.training.as_str()).collect();
    for training in trainings.into_iter().filter(|training| !training.is_empty()) {
        let beside: Vec<&Compared> = cells.iter().filter(|cell| cell.measured.training == training).collect();
        let _ = writeln!(text, "order of the systems by p99 beside {training}: {}", order(&beside));
    }
    text += &worst(&cells);
    text
}

fn p50(row: &Row) -> Option<f64> {
    Some(row.service_p50_ns? / 1e6)
}

fn p99(row: &Row) -> Option<f64> {
    Some(row.service_p99_ns? / 1e6)
}

/// Simulated, measured, ratio; a dash for what is missing.
fn triple(sim: Option<f64>, gpu: Option<f64>, width: usize, decimals: usize) -> String {
    let show = |x: Option<f64>| x.map_or("-".to_owned(), |x| format!("{x:.decimals$}"));
    let ratio = sim.zip(gpu).map_or("-".to_owned(), |(sim, gpu)| format!("{:.2}", sim / gpu));
    format!("{:>width$} {:>width$} {ratio:>5}", show(sim), show(gpu))
}

/// Whether the simulation ranks the systems as the device does. Only cells of one run are ranked.
fn order(cells: &[&Compared]) -> String {
    let mut wrong = Vec::new();
    let (mut compared, mut missing) = (0, 0);
    for (i, a) in cells.iter().enumerate() {
        for b in &cells[i + 1..] {
            let (x, y) = (a.measured.service_p99_ms, b.measured.service_p99_ms);
            if a.measured.run != b.measured.run || (x - y).abs() <= TIE * x.min(y) {
                continue;
            }
            let Some((sim_x, sim_y)) = a.row.and_then(p99).zip(b.row.and_then(p99)) else {
                missing += 1;
                continue;
            };
            compared += 1;
            if (x < y) != (sim_x < sim_y) {
                let (low, high) = if x < y { (a, b) } else { (b, a) };
                wrong.push(format!("{} should be below {}", low.measured.system, high.measured.system));
            }
        }
    }
    let missing = if missing > 0 { format!(", {missing} comparisons missing") } else { String::new() };
    match (wrong.is_empty(), compared) {
        (_, 0) => format!("not run{missing}"),
        (true, n) => format!("right in all {n} comparisons{missing}"),
        (false, n) => format!("WRONG in {} of {n}: {}{missing}", wrong.len(), wrong.join("; ")),
    }
}

/// The p99 that is furthest off, and how many are within the accepted factor.
fn worst(cells: &[Compared]) -> String {
    let factors: Vec<(f64, String)> = cells
        .iter()
        .filter_map(|cell| {
            let ratio = p99(cell.row?)? / cell.measured.service_p99_ms;
            let name = format!("{} {}", cell.measured.system, cell.measured.training);
            Some((ratio.max(1.0 / ratio), name.trim_end().to_owned()))
        })
        .collect();
    let within = factors.iter().filter(|(factor, _)| *factor <= P99_FACTOR).count();
    match factors.iter().max_by(|a, b| a.0.total_cmp(&b.0)) {
        None => "p99: not run\n".to_owned(),
        Some((factor, name)) => format!(
            "p99: {within} of {} cells within a factor of {P99_FACTOR}; the worst is off by {factor:.2} ({name})\n",
            factors.len()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(system: &str, p99: f64) -> Measured {
        Measured {
            run: 1,
            system: system.to_owned(),
            training: "resnet50-tf32-train".to_owned(),
            service_p50_ms: 1.0,
            service_p99_ms: p99,
            be_norm: Some(0.5),
            e2e_p99_ms: None,
        }
    }

    fn row(system: &str, p99_ms: f64) -> Row {
        Row {
            kind: "pair".to_owned(),
            system: system.to_owned(),
            training: "resnet50-tf32-train".to_owned(),
            status: "ok".to_owned(),
            service_p50_ns: Some(1e6),
            service_p99_ns: Some(p99_ms * 1e6),
            be_norm: Some(0.25),
            ..Row::default()
        }
    }

    #[test]
    fn the_shipped_values_are_read() {
        let root = Root::find().unwrap();
        let rows = read(&root.experiments().join(MEASURED)).unwrap();
        assert_eq!(rows.len(), 18);
        for row in &rows {
            sim::System::parse(&row.system).unwrap();
        }
    }

    #[test]
    fn order_and_worst_factor_by_hand() {
        let cells = || vec![measured("mps", 10.0), measured("gate", 2.0), measured("time-slicing", 4.0)];
        let right = compare(cells(), &[row("mps", 9.0), row("gate", 2.0), row("time-slicing", 5.0)]);
        assert!(right.contains("beside resnet50-tf32-train: right in all 3 comparisons"), "{right}");
        assert!(right.contains("3 of 3 cells within a factor of 1.5; the worst is off by 1.25"), "{right}");
        let wrong = compare(cells(), &[row("mps", 3.0), row("gate", 2.0), row("time-slicing", 5.0)]);
        assert!(wrong.contains("WRONG in 1 of 3: time-slicing should be below mps"), "{wrong}");
        assert!(
            wrong.contains("2 of 3 cells") && wrong.contains("off by 3.33 (mps resnet50-tf32-train)"),
            "{wrong}"
        );
        let none = compare(cells(), &[]);
        assert!(none.contains("not run, 3 comparisons missing") && none.contains("p99: not run"), "{none}");
    }
}
