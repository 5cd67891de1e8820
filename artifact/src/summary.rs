//! `<experiment>.csv`: one row per planned cell, with the ratios that need several cells. The columns are documented in
//! docs/FORMATS.md; their names are those of the fields of [`Row`].

use crate::cell::{Cell, Kind};
use crate::measures::Measures;
use crate::plan::{Plan, Planned, Table};
use crate::stats::{self, Summary};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What became of a cell.
#[derive(Clone, Debug)]
pub enum Finished {
    Ok(Box<Measures>),
    Failed { key: String, error: String },
    Skipped(String),
}

impl Finished {
    /// The numbers, if there are any.
    pub fn measures(&self) -> Option<&Measures> {
        match self {
            Finished::Ok(measures) => Some(measures),
            _ => None,
        }
    }
}

/// One row. An empty field is a missing number.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    pub key: String,
    pub experiment: String,
    pub backend: String,
    pub machine: String,
    pub kind: String,
    pub system: String,
    pub inference: String,
    pub training: String,
    pub load: Option<f64>,
    pub seed: u64,
    pub trace: String,
    pub status: String,
    pub error: String,
    pub requests: Option<u64>,
    pub span_ns: Option<u64>,
    pub upstream_n: Option<u64>,
    pub upstream_mean_ms: Option<f64>,
    pub upstream_p50_ms: Option<f64>,
    pub upstream_p90_ms: Option<f64>,
    pub upstream_p95_ms: Option<f64>,
    pub upstream_p99_ms: Option<f64>,
    pub service_n: Option<u64>,
    pub service_mean_ns: Option<f64>,
    pub service_p50_ns: Option<f64>,
    pub service_p90_ns: Option<f64>,
    pub service_p95_ns: Option<f64>,
    pub service_p99_ns: Option<f64>,
    pub e2e_n: Option<u64>,
    pub e2e_mean_ns: Option<f64>,
    pub e2e_p50_ns: Option<f64>,
    pub e2e_p90_ns: Option<f64>,
    pub e2e_p95_ns: Option<f64>,
    pub e2e_p99_ns: Option<f64>,
    pub utilisation: Option<f64>,
    pub overloaded: Option<bool>,
    pub hp_rate_hz: Option<f64>,
    pub be_rate_hz: Option<f64>,
    pub hp_norm: Option<f64>,
    pub be_norm: Option<f64>,
    pub system_throughput: Option<f64>,
    pub hp_norm_2d: Option<f64>,
    pub be_norm_2d: Option<f64>,
    pub baseline_p99_ms: Option<f64>,
    pub p99_overhead: Option<f64>,
    pub clients: Option<u64>,
    pub arrivals: String,
    pub service_p99_low_ns: Option<f64>,
    pub service_p99_high_ns: Option<f64>,
}

/// The rows of one experiment, in plan order.
pub fn rows(plan: &Plan, table: &Table, finished: &[Finished], backend: &str, machine: &str) -> Vec<Row> {
    let row = |planned: &Planned| {
        let mut row = Row::new(&plan.cells[planned.cell], &table.experiment.id, backend, machine);
        match &finished[planned.cell] {
            Finished::Ok(measures) => {
                row.status = "ok".to_owned();
                row.put(measures);
                row.compare(measures, planned, finished);
            }
            Finished::Failed { key, error } => {
                row.key.clone_from(key);
                row.status = "failed".to_owned();
                row.error.clone_from(error);
            }
            Finished::Skipped(reason) => {
                row.status = "skipped".to_owned();
                row.error.clone_from(reason);
            }
        }
        row
    };
    table.rows.iter().map(row).collect()
}

impl Row {
    fn new(cell: &Cell, experiment: &str, backend: &str, machine: &str) -> Row {
        let crowd = match cell.kind {
            Kind::Crowd { clients, pattern } => Some((clients, pattern)),
            _ => None,
        };
        Row {
            experiment: experiment.to_owned(),
            backend: backend.to_owned(),
            machine: machine.to_owned(),
            kind: cell.kind.name().to_owned(),
            system: cell.system.clone(),
            inference: cell.inference.clone().unwrap_or_default(),
            training: cell.training.clone().unwrap_or_default(),
            load: cell.load.map(|load| load.ratio()),
            seed: cell.seed,
            clients: crowd.map(|(clients, _)| u64::from(clients)),
            arrivals: crowd.map(|(_, pattern)| pattern.name().to_owned()).unwrap_or_default(),
            ..Row::default()
        }
    }

    /// What the cell says by itself.
    fn put(&mut self, m: &Measures) {
        self.key.clone_from(&m.key);
        self.trace = m.trace.clone().unwrap_or_default();
        self.span_ns = Some(m.span_ns);
        self.requests = m.service_ns.map(|s| s.n);
        if let Some(Summary { n, mean, p50, p90, p95, p99 }) = m.upstream_ms {
            self.upstream_n = Some(n);
            self.upstream_mean_ms = Some(mean);
            self.upstream_p50_ms = Some(p50);
            self.upstream_p90_ms = Some(p90);
            self.upstream_p95_ms = Some(p95);
            self.upstream_p99_ms = Some(p99);
        }
        if let Some(Summary { n, mean, p50, p90, p95, p99 }) = m.service_ns {
            self.service_n = Some(n);
            self.service_mean_ns = Some(mean);
            self.service_p50_ns = Some(p50);
            self.service_p90_ns = Some(p90);
            self.service_p95_ns = Some(p95);
            self.service_p99_ns = Some(p99);
        }
        (self.service_p99_low_ns, self.service_p99_high_ns) = m.service_p99_interval_ns.unzip();
        if let Some(Summary { n, mean, p50, p90, p95, p99 }) = m.end_to_end_ns {
            self.e2e_n = Some(n);
            self.e2e_mean_ns = Some(mean);
            self.e2e_p50_ns = Some(p50);
            self.e2e_p90_ns = Some(p90);
            self.e2e_p95_ns = Some(p95);
            self.e2e_p99_ns = Some(p99);
        }
        self.utilisation = m.utilisation;
        self.overloaded = m.overloaded;
        self.hp_rate_hz = m.hp_rate_hz;
        self.be_rate_hz = m.be_rate_hz;
    }

    /// What it says beside its solo runs. A ratio whose base is missing is missing.
    fn compare(&mut self, m: &Measures, planned: &Planned, finished: &[Finished]) {
        let base = |index: Option<usize>| index.and_then(|i| finished[i].measures());
        let ratio = |a: Option<f64>, b: Option<f64>| Some(a? / b.filter(|b| *b > 0.0)?);
        self.hp_norm = ratio(m.hp_rate_hz, base(planned.solo_paced).and_then(|b| b.hp_rate_hz));
        self.be_norm = ratio(m.be_rate_hz, base(planned.solo_training).and_then(|b| b.be_rate_hz));
        self.system_throughput = self.hp_norm.zip(self.be_norm).map(|(hp, be)| hp + be);
        self.hp_norm_2d = self.hp_norm.map(|x| stats::round(x, 2));
        self.be_norm_2d = self.be_norm.map(|x| stats::round(x, 2));
        self.baseline_p99_ms = base(planned.solo_stream).and_then(|b| b.upstream_ms).map(|s| s.p99);
        self.p99_overhead = ratio(self.upstream_p99_ms, self.baseline_p99_ms).map(|x| x - 1.0);
    }
}

/// The canonical text of a table.
///
/// # Errors
/// None that a caller can cause.
pub fn to_csv(rows: &[Row]) -> Result<Vec<u8>> {
    let mut writer = csv::WriterBuilder::new().from_writer(Vec::new());
    for row in rows {
        writer.serialize(row)?;
    }
    writer.into_inner().context("cannot finish the table")
}

/// Whether a CSV of a run folder holds cells, one a row: these tables begin with the cells' keys.
///
/// # Errors
/// The file cannot be read.
pub fn is_table(path: &Path) -> Result<bool> {
    bounded::check(path, bounded::TABLE).with_context(|| format!("cannot read {}", path.display()))?;
    let mut reader =
        csv::Reader::from_path(path).with_context(|| format!("cannot read {}", path.display()))?;
    let header = reader.headers().with_context(|| format!("{} is not a table", path.display()))?;
    Ok(header.get(0) == Some("key"))
}

/// Reads a table back.
///
/// # Errors
/// The file, and the line and field of the first problem.
pub fn read_csv(path: &Path) -> Result<Vec<Row>> {
    bounded::check(path, bounded::TABLE).with_context(|| format!("cannot read {}", path.display()))?;
    let mut reader =
        csv::Reader::from_path(path).with_context(|| format!("cannot read {}", path.display()))?;
    let rows = reader.deserialize().collect::<Result<Vec<Row>, _>>();
    rows.with_context(|| format!("{} is not a table of this version", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measures::Record;
    use sim::{Progress, Request};

    fn measures(service_ns: u64, requests: u64, iterations: u64) -> Finished {
        let times = |k: u64| (k * 10_000_000, k * 10_000_000 + service_ns);
        let record = Record {
            trace: None,
            span_ns: 1_000_000_000,
            end_ns: 1_000_000_000,
            arrivals: requests,
            requests: (0..requests)
                .map(|k| Request { arrival_ns: times(k).0, start_ns: times(k).0, end_ns: times(k).1 })
                .collect(),
            best_effort: Some(Progress { iterations, partial: 0.0, elapsed_ns: 1_000_000_000 }),
            peers: Vec::new(),
            iteration_ends: Vec::new(),
            runtime: None,
        };
        Finished::Ok(Box::new(Measures::of("k".to_owned(), &record, true)))
    }

    #[test]
    fn normalisation_by_hand() {
        let finished = [measures(4_000_000, 100, 0), measures(4_000_000, 80, 9), measures(5_000_000, 60, 6)];
        let planned = Planned {
            cell: 2,
            skip: None,
            solo_stream: Some(0),
            solo_paced: Some(1),
            solo_training: Some(1),
        };
        let mut row = Row::default();
        let own = finished[2].measures().unwrap();
        row.put(own);
        row.compare(own, &planned, &finished);
        assert_eq!((row.hp_norm, row.be_norm), (Some(60.0 / 80.0), Some(6.0 / 9.0)));
        assert_eq!(row.system_throughput, Some(60.0 / 80.0 + 6.0 / 9.0));
        assert_eq!((row.hp_norm_2d, row.be_norm_2d), (Some(0.75), Some(0.67)));
        assert_eq!((row.baseline_p99_ms, row.p99_overhead), (Some(4.0), Some(0.25)));
        let missing = [Finished::Skipped(String::new()), finished[1].clone(), finished[2].clone()];
        row.compare(own, &planned, &missing);
        assert_eq!((row.baseline_p99_ms, row.p99_overhead), (None, None));
    }

    #[test]
    fn a_missing_number_is_an_empty_field() {
        let rows =
            [Row { seed: 1, status: "failed".to_owned(), error: "a, \"b\"".to_owned(), ..Row::default() }];
        let bytes = to_csv(&rows).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.csv");
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(read_csv(&path).unwrap(), rows);
        let text = String::from_utf8(bytes).unwrap();
        let empty = ",".repeat(35);
        assert!(
            text.ends_with(&format!(
                ",failed,\"a, \"\"b\"\"\"{empty}
"
            )),
            "{text}"
        );
    }
}
