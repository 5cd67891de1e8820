//! Planned arrivals of a cell, from the traces.

use crate::cell::{Cell, Load, Pattern, Source};
use crate::root::Root;
use anyhow::{Context, Result, ensure};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use traces::{Arrivals, Loaded, Target};

/// Where the full MAF2 text is looked for, below the repository.
pub const MAF2_TEXT: &str = "traces/full/AzureFunctionsInvocationTraceForTwoWeeksJan2021.txt";

/// Traces, each read when it is first needed.
pub struct Traffic {
    maf2_text: PathBuf,
    loaded: Mutex<BTreeMap<String, std::result::Result<Loaded, String>>>,
    notes: Mutex<BTreeSet<String>>,
}

impl Traffic {
    /// Reads nothing yet.
    pub fn new(root: &Root) -> Traffic {
        Traffic { maf2_text: root.path().join(MAF2_TEXT), loaded: Mutex::default(), notes: Mutex::default() }
    }

    /// The arrivals of a paced cell whose server takes `solo_mean_ns` when alone.
    ///
    /// # Errors
    /// The trace cannot be read, or it cannot give this load.
    pub fn arrivals(&self, cell: &Cell, source: Source, load: Load, solo_mean_ns: u64) -> Result<Arrivals> {
        let name = match source {
            Source::Maf2 if self.maf2_text.exists() => traces::Source::Maf2Full(self.maf2_text.clone()),
            Source::Maf2TwoWeeks if self.maf2_text.exists() => {
                traces::Source::Maf2TwoWeeks(self.maf2_text.clone())
            }
            Source::Maf2 | Source::Maf2TwoWeeks => traces::Source::Maf2Excerpt,
            Source::Poisson => traces::Source::Poisson,
            Source::AzureLlmCode => traces::Source::AzureLlmCode,
            Source::AzureLlmConv => traces::Source::AzureLlmConv,
        };
        let loaded = {
            let mut all =
                self.loaded.lock().map_err(|_| anyhow::anyhow!("a thread died while it read a trace"))?;
            let entry = all
                .entry(name.to_string())
                .or_insert_with(|| name.load().map_err(|error| crate::library::one_line(&error)));
            entry.clone().map_err(|message| anyhow::anyhow!("{message}"))?
        };
        let target = Target {
            solo_mean_ns,
            load: load.ratio(),
            span_ns: span_ns(cell, solo_mean_ns),
            seed: cell.seed,
        };
        let arrivals = loaded.arrivals(&target).with_context(|| format!("arrivals from {name}"))?;
        ensure!(
            arrivals.times_ns.len() as u64 >= crate::experiment::FEWEST_REQUESTS,
            "{} gives {} arrivals; percentiles need at least {}",
            arrivals.label,
            arrivals.times_ns.len(),
            crate::experiment::FEWEST_REQUESTS
        );
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).insert(arrivals.note.clone());
        Ok(arrivals)
    }

    /// The arrivals of every server of a crowd, the high-priority one first. A server keeps its list whatever the number
    /// of servers.
    ///
    /// # Errors
    /// As [`Traffic::arrivals`].
    pub fn crowd(
        &self,
        cell: &Cell,
        (clients, pattern): (u8, Pattern),
        source: Source,
        load: Load,
        solo_mean_ns: u64,
    ) -> Result<Vec<Arrivals>> {
        let list = |client: u8| {
            let seed = match pattern {
                Pattern::Coinciding => cell.seed,
                Pattern::Independent => cell.seed.wrapping_add(u64::from(client) << 32),
            };
            self.arrivals(&Cell { seed, ..cell.clone() }, source, load, solo_mean_ns)
        };
        (0..clients).map(list).collect()
    }

    /// How the lists made so far came about: rows read and left out, the rule, how bursty they are.
    pub fn notes(&self) -> Vec<String> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

/// Length of a cell, ns: for paced cells long enough for the expected number of requests.
pub fn span_ns(cell: &Cell, solo_mean_ns: u64) -> u64 {
    let least = cell.span.min_seconds * 1_000_000_000;
    match cell.load {
        // A fiftieth more than asked for: the requests that still wait at the end of the span are not served.
        Some(load) => {
            let requests = cell.span.min_requests + cell.span.min_requests.div_ceil(50);
            least.max((requests as f64 * solo_mean_ns as f64 / load.ratio()).ceil() as u64)
        }
        None => least,
    }
}

/// SHA-256 of a list of times, as hex.
pub fn digest(times_ns: &[u64]) -> String {
    let mut hash = Sha256::new();
    for time in times_ns {
        hash.update(time.to_le_bytes());
    }
    crate::key::hex(&hash.finalize())
}
