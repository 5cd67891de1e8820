//! The cells of experiments that are no grids of pairs.

use super::span_for;
use crate::cell::{Cell, Kind};
use crate::experiment::{Experiment, Form};
use anyhow::Result;

/// The cells in the order of the table; `None` for pairs.
///
/// # Errors
/// See [`super::Plan::new`].
pub(super) fn cells(e: &Experiment) -> Result<Option<Vec<Cell>>> {
    let shared = || e.systems.iter().filter(|system| *system != "no-sharing");
    let mut cells = Vec::new();
    match &e.form {
        Form::Pairs => return Ok(None),
        Form::Profiles(_) => {}
        Form::Timeline(_) => {
            for base in bases(e, Kind::Timeline) {
                cells.extend(base.solo_stream());
                cells.extend(base.solo_training());
                cells.extend(base.solo_paced());
                for system in shared() {
                    let span = span_for(system, e)?;
                    cells.push(Cell { system: system.clone(), span, ..base.clone() });
                }
            }
        }
        Form::Crowd(crowd) => {
            for &pattern in &crowd.patterns {
                for &clients in &crowd.clients {
                    for base in bases(e, Kind::Crowd { clients, pattern }) {
                        for solo in [base.solo_stream(), base.solo_paced()].into_iter().flatten() {
                            if !cells.contains(&solo) {
                                cells.push(solo);
                            }
                        }
                        for system in shared() {
                            let span = span_for(system, e)?;
                            cells.push(Cell { system: system.clone(), span, ..base.clone() });
                        }
                    }
                }
            }
            cells.sort_by_key(|cell| matches!(cell.kind, Kind::Crowd { .. }));
        }
    }
    Ok(Some(cells))
}

/// One cell for each seed, load, server and training, without a system.
fn bases(e: &Experiment, kind: Kind) -> Vec<Cell> {
    let mut cells = Vec::new();
    for seed in &e.seeds {
        for load in &e.loads {
            for inference in &e.inference {
                let mut push = |training: Option<&String>| {
                    cells.push(Cell {
                        kind,
                        system: "no-sharing".to_owned(),
                        inference: Some(inference.clone()),
                        training: training.cloned(),
                        load: Some(*load),
                        source: Some(e.source),
                        seed: *seed,
                        span: e.span,
                        base: e.span,
                    });
                };
                match e.training.as_slice() {
                    [] => push(None),
                    trainings => trainings.iter().for_each(|training| push(Some(training))),
                }
            }
        }
    }
    cells
}
