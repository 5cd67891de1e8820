//! `runtime.csv` of a measured run: what the runtime counted, one row per cell that it took part in.

use super::Runtime;
use crate::cell::Cell;
use crate::summary::Finished;
use anyhow::{Context, Result};
use serde::Serialize;

/// The file in the run folder.
pub const NAME: &str = "runtime.csv";

/// One row; docs/FORMATS.md documents the columns. `key` isn't the first, as it is in tables of results.
#[derive(Serialize)]
struct Row<'a> {
    system: &'a str,
    kind: &'a str,
    inference: &'a str,
    training: &'a str,
    load: Option<f64>,
    seed: u64,
    key: &'a str,
    substrate: &'a str,
    activations: u64,
    admitted: u64,
    held: u64,
    waited_ns: u64,
    passed: u64,
    profiled: u64,
    unprotected: u64,
    overflows: u64,
}

/// The text of the file.
///
/// # Errors
/// None that a caller can cause.
pub fn to_csv(cells: &[Cell], finished: &[Finished]) -> Result<Vec<u8>> {
    let mut writer = csv::WriterBuilder::new().from_writer(Vec::new());
    for (cell, finished) in cells.iter().zip(finished) {
        let Some(measures) = finished.measures() else { continue };
        let Some(Runtime {
            substrate,
            activations,
            admitted,
            held,
            waited_ns,
            passed,
            profiled,
            unprotected,
            overflows,
        }) = measures.runtime.as_deref()
        else {
            continue;
        };
        writer.serialize(Row {
            system: &cell.system,
            kind: cell.kind.name(),
            inference: cell.inference.as_deref().unwrap_or_default(),
            training: cell.training.as_deref().unwrap_or_default(),
            load: cell.load.map(|load| load.ratio()),
            seed: cell.seed,
            key: &measures.key,
            substrate,
            activations: *activations,
            admitted: *admitted,
            held: *held,
            waited_ns: *waited_ns,
            passed: *passed,
            profiled: *profiled,
            unprotected: *unprotected,
            overflows: *overflows,
        })?;
    }
    writer.into_inner().context("cannot finish the table of the runtime's counters")
}
