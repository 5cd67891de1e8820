//! Reads `<experiment>.csv` of a run folder into typed rows.
//!
//! Source of the columns: docs/FORMATS.md. An empty field is a missing number, never 0. Everything else that
//! the format does not say is refused, with file, line, column and value, because a figure drawn from a
//! misread file looks right.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::sheet::{self, Row};

/// Columns of the format, in its order.
pub const COLUMNS: &str = "key experiment backend machine kind system inference training load seed trace status error \
    requests span_ns \
    upstream_n upstream_mean_ms upstream_p50_ms upstream_p90_ms upstream_p95_ms upstream_p99_ms \
    service_n service_mean_ns service_p50_ns service_p90_ns service_p95_ns service_p99_ns \
    e2e_n e2e_mean_ns e2e_p50_ns e2e_p90_ns e2e_p95_ns e2e_p99_ns \
    utilisation overloaded hp_rate_hz be_rate_hz hp_norm be_norm system_throughput hp_norm_2d be_norm_2d \
    baseline_p99_ms p99_overhead clients arrivals service_p99_low_ns service_p99_high_ns";

fn columns() -> impl Iterator<Item = &'static str> {
    COLUMNS.split_whitespace()
}

/// Where the numbers come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    Sim,
    Gpu,
}

/// What ran in a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Inference alone, closed loop.
    SoloStream,
    /// Inference alone, paced arrivals.
    SoloPaced,
    SoloTraining,
    Pair,
    /// As a pair, on a timeline.
    Timeline,
    /// One server among best-effort servers.
    Crowd,
}

/// How a cell ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Ok,
    Failed,
    /// Left out by the planner, e.g. because the two jobs do not fit in memory.
    Skipped,
}

/// One row. Fields are named after their column and keep its unit.
#[derive(Clone, Debug)]
pub struct Record {
    /// Line in the file, the header being line 1.
    pub line: usize,
    pub backend: Backend,
    pub machine: String,
    pub kind: Kind,
    pub system: String,
    pub inference: Option<String>,
    pub training: Option<String>,
    pub load: Option<f64>,
    pub seed: Option<u64>,
    pub trace: Option<String>,
    pub status: Status,
    pub error: Option<String>,
    pub span_ns: Option<u64>,
    pub upstream_n: Option<u64>,
    pub upstream_p50_ms: Option<f64>,
    pub upstream_p99_ms: Option<f64>,
    pub service_n: Option<u64>,
    pub service_p99_ns: Option<f64>,
    /// Ends of its 95 % interval within the run.
    pub service_p99_interval_ns: Option<(f64, f64)>,
    pub e2e_n: Option<u64>,
    pub e2e_p99_ns: Option<f64>,
    pub overloaded: Option<bool>,
    pub hp_norm: Option<f64>,
    pub be_norm: Option<f64>,
    pub system_throughput: Option<f64>,
    pub baseline_p99_ms: Option<f64>,
    pub hp_rate_hz: Option<f64>,
    pub be_rate_hz: Option<f64>,
    /// Servers of a crowd.
    pub clients: Option<u64>,
    /// How their arrivals relate.
    pub arrivals: Option<String>,
}

impl Record {
    /// `upstream_p99_ms / baseline_p99_ms - 1`, the paper's overhead.
    pub fn p99_overhead(&self) -> Option<f64> {
        Some(self.upstream_p99_ms? / self.baseline_p99_ms? - 1.0)
    }
}

/// The table of one experiment.
#[derive(Clone, Debug)]
pub struct Records {
    pub path: PathBuf,
    pub rows: Vec<Record>,
}

impl Records {
    /// Rows with both jobs.
    pub fn pairs(&self) -> impl Iterator<Item = &Record> {
        self.rows.iter().filter(|r| r.kind == Kind::Pair)
    }

    /// The table with some of its rows.
    pub fn only(&self, keep: impl Fn(&Record) -> bool) -> Records {
        Records { path: self.path.clone(), rows: self.rows.iter().filter(|r| keep(r)).cloned().collect() }
    }

    /// Why the table is incomplete: failed cells, and finished pairs without a number that figures need.
    /// Cells that the planner skipped are no gap.
    pub fn gaps(&self) -> Vec<String> {
        let mut gaps = Vec::new();
        for r in &self.rows {
            let who = || {
                let jobs: Vec<&str> =
                    [&r.inference, &r.training].into_iter().flatten().map(String::as_str).collect();
                format!("line {}: {} {}", r.line, r.system, jobs.join(" + "))
            };
            match r.status {
                Status::Failed => {
                    gaps.push(format!(
                        "{} failed: {}",
                        who(),
                        r.error.as_deref().unwrap_or("no reason given")
                    ));
                }
                Status::Ok if r.kind == Kind::Pair => {
                    let needed = [
                        ("upstream_n", r.upstream_n.map(|n| n as f64)),
                        ("upstream_p99_ms", r.upstream_p99_ms),
                        ("baseline_p99_ms", r.baseline_p99_ms),
                        ("hp_norm", r.hp_norm),
                        ("be_norm", r.be_norm),
                        ("system_throughput", r.system_throughput),
                    ];
                    let missing: Vec<_> = needed.iter().filter(|n| n.1.is_none()).map(|n| n.0).collect();
                    if !missing.is_empty() {
                        gaps.push(format!("{} has no {}", who(), missing.join(", ")));
                    }
                }
                _ => {}
            }
        }
        gaps
    }
}

/// Reads the table at `path`, which must belong to `experiment`.
///
/// # Errors
/// Missing or unreadable file; unknown, missing or repeated columns; a value that does not parse, is not
/// finite or is out of range; derived columns that contradict the ones they come from; a pair twice.
pub fn read(path: &Path, experiment: &str) -> Result<Records> {
    let table = sheet::read(path, &columns().collect::<Vec<_>>())?;
    let rows = table.iter().map(|row| row.record(experiment)).collect::<Result<Vec<_>>>()?;
    check_unique(path, &rows)?;
    Ok(Records { path: path.to_path_buf(), rows })
}

fn check_unique(path: &Path, rows: &[Record]) -> Result<()> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    for r in rows.iter().filter(|r| r.kind == Kind::Pair) {
        let id = format!("{} {:?} {:?} {:?} {:?}", r.system, r.inference, r.training, r.load, r.seed);
        if let Some(first) = seen.insert(id, r.line) {
            bail!(
                "{}, line {}, column `system`: value `{}`: the same pair, load and seed as line {first}; next: remove \
                 one row or run the experiment again",
                path.display(),
                r.line,
                r.system
            );
        }
    }
    Ok(())
}

impl Row<'_> {
    fn record(&self, experiment: &str) -> Result<Record> {
        // What was not run, or failed before its inputs were known, has none.
        if self.text("status").as_deref() == Some("ok") {
            self.required("key")?;
        }
        if self.required("experiment")? != experiment {
            return Err(
                self.bad("experiment", &format!("is not `{experiment}`, the experiment of this file"))
            );
        }
        // Columns that no figure uses are still read: a file that is wrong in one place is not to be trusted
        // in another.
        self.count("requests")?;
        for (of, unit) in [("upstream", "ms"), ("service", "ns"), ("e2e", "ns")] {
            for what in ["mean", "p50", "p90", "p95", "p99"] {
                self.time(&format!("{of}_{what}_{unit}"))?;
            }
        }
        for column in ["utilisation", "hp_norm_2d", "be_norm_2d"] {
            self.real(column, 0.0)?;
        }
        let kind = match self.required("kind")?.as_str() {
            "solo-stream" => Kind::SoloStream,
            "solo-paced" => Kind::SoloPaced,
            "solo-training" => Kind::SoloTraining,
            "pair" => Kind::Pair,
            "timeline" => Kind::Timeline,
            "crowd" => Kind::Crowd,
            _ => {
                let known = "solo-stream, solo-paced, solo-training, pair, timeline, crowd";
                return Err(self.bad("kind", &format!("is not one of {known}")));
            }
        };
        let needed: &[&str] = match kind {
            Kind::Pair | Kind::Timeline => &["inference", "training", "load", "seed"],
            Kind::Crowd => &["inference", "load", "seed", "clients", "arrivals"],
            _ => &[],
        };
        for column in needed {
            self.required(column)?;
        }
        let record = Record {
            line: self.line,
            backend: match self.required("backend")?.as_str() {
                "sim" => Backend::Sim,
                "gpu" => Backend::Gpu,
                _ => return Err(self.bad("backend", "is not one of sim, gpu")),
            },
            machine: self.required("machine")?,
            kind,
            system: self.required("system")?,
            inference: self.text("inference"),
            training: self.text("training"),
            load: self.real("load", 0.0)?,
            seed: self.count("seed")?,
            trace: self.text("trace"),
            status: match self.required("status")?.as_str() {
                "ok" => Status::Ok,
                "failed" => Status::Failed,
                "skipped" => Status::Skipped,
                _ => return Err(self.bad("status", "is not one of ok, failed, skipped")),
            },
            error: self.text("error"),
            span_ns: self.count("span_ns")?,
            upstream_n: self.count("upstream_n")?,
            upstream_p50_ms: self.time("upstream_p50_ms")?,
            upstream_p99_ms: self.time("upstream_p99_ms")?,
            service_n: self.count("service_n")?,
            service_p99_ns: self.time("service_p99_ns")?,
            service_p99_interval_ns: self.interval("service_p99_low_ns", "service_p99_high_ns")?,
            e2e_n: self.count("e2e_n")?,
            e2e_p99_ns: self.time("e2e_p99_ns")?,
            overloaded: match self.text("overloaded").as_deref() {
                None => None,
                Some("true") => Some(true),
                Some("false") => Some(false),
                Some(_) => return Err(self.bad("overloaded", "is not one of true, false")),
            },
            hp_norm: self.real("hp_norm", 0.0)?,
            be_norm: self.real("be_norm", 0.0)?,
            system_throughput: self.real("system_throughput", 0.0)?,
            baseline_p99_ms: self.time("baseline_p99_ms")?,
            hp_rate_hz: self.real("hp_rate_hz", 0.0)?,
            be_rate_hz: self.real("be_rate_hz", 0.0)?,
            clients: self.count("clients")?,
            arrivals: self.text("arrivals"),
        };
        if kind == Kind::Pair {
            let sum = record.hp_norm.zip(record.be_norm).map(|(hp, be)| hp + be);
            self.agrees("system_throughput", record.system_throughput, sum)?;
        }
        self.agrees("p99_overhead", self.real("p99_overhead", -1.0)?, record.p99_overhead())?;
        Ok(record)
    }
}
