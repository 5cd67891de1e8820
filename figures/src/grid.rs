//! From rows to the grid that a figure draws: inference jobs by training jobs by systems.
//!
//! Repeats (seeds) of a cell become one: the median for the p99, because averages of percentiles mean
//! nothing, and the arithmetic mean for throughputs, so that the stacked parts still add up to the drawn
//! total.

use std::path::Path;

use anyhow::{Result, bail};

use crate::pairs::few;
use crate::records::{Backend, Kind, Record, Records, Status};
use crate::stats;
use crate::style::{self, Styles, SystemStyle};

/// A value over the seeds of a cell, with its extremes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    pub value: f64,
    pub min: f64,
    pub max: f64,
}

impl Spread {
    /// Center and extremes; `None` for no values.
    pub fn of(values: &[f64], center: fn(&[f64]) -> Option<f64>) -> Option<Spread> {
        let (min, max) = stats::range(values)?;
        Some(Spread { value: center(values)?, min, max })
    }
}

/// All seeds of one system in one pair.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    pub p99_ms: Option<Spread>,
    pub hp_norm: Option<Spread>,
    pub be_norm: Option<Spread>,
    pub system_throughput: Option<Spread>,
    /// Any seed overloaded.
    pub overloaded: bool,
    /// Rows by status.
    pub ok: usize,
    pub failed: usize,
    pub skipped: usize,
    /// Requests behind the p99: fewest and most of any seed.
    pub requests: Option<(u64, u64)>,
    /// Why the planner left the whole cell out, in a few words.
    pub left_out: Option<String>,
}

impl Cell {
    /// Whether everything that figures draw is there.
    pub fn has_numbers(&self) -> bool {
        self.p99_ms.is_some()
            && self.hp_norm.is_some()
            && self.be_norm.is_some()
            && self.system_throughput.is_some()
    }

    /// Whether some row of the cell gave no number; such a cell is marked.
    pub fn has_gap(&self) -> bool {
        self.failed + self.skipped > 0 || !self.has_numbers()
    }

    /// Whether the p99 of some seed has fewer requests behind it than a p99 needs.
    pub fn few(&self) -> bool {
        self.requests.is_some_and(|(fewest, _)| few(Some(fewest)))
    }

    fn of(rows: &[&Record]) -> Cell {
        let ok: Vec<&Record> = rows.iter().copied().filter(|r| r.status == Status::Ok).collect();
        let get = |f: fn(&Record) -> Option<f64>| ok.iter().filter_map(|r| f(r)).collect::<Vec<_>>();
        let count = |s| rows.iter().filter(|r| r.status == s).count();
        let requests: Vec<u64> = ok.iter().filter_map(|r| r.upstream_n).collect();
        Cell {
            p99_ms: Spread::of(&get(|r| r.upstream_p99_ms), stats::median),
            hp_norm: Spread::of(&get(|r| r.hp_norm), stats::mean),
            be_norm: Spread::of(&get(|r| r.be_norm), stats::mean),
            system_throughput: Spread::of(&get(|r| r.system_throughput), stats::mean),
            overloaded: ok.iter().any(|r| r.overloaded == Some(true)),
            ok: ok.len(),
            failed: count(Status::Failed),
            skipped: count(Status::Skipped),
            requests: requests.iter().min().copied().zip(requests.iter().max().copied()),
            left_out: left_out(rows),
        }
    }
}

/// The reason of a cell whose rows were all skipped: what stands before the colon, as `does not fit`.
fn left_out(rows: &[&Record]) -> Option<String> {
    let all = rows.iter().all(|r| r.status == Status::Skipped);
    let reason = rows.first().filter(|_| all)?.error.as_deref().unwrap_or("skipped");
    Some(reason.split(':').next().unwrap_or(reason).to_owned())
}

/// One training job of a panel; `cells` has one entry per system of the grid, `None` where the plan has no
/// such cell.
#[derive(Clone, Debug)]
pub struct Group {
    pub training: String,
    pub cells: Vec<Option<Cell>>,
}

impl Group {
    /// Why the whole pair was left out, whatever the system.
    pub fn left_out(&self) -> Option<&str> {
        let mut cells = self.cells.iter().flatten();
        let reason = cells.next()?.left_out.as_deref()?;
        cells.all(|c| c.left_out.is_some()).then_some(reason)
    }
}

/// One inference job.
#[derive(Clone, Debug)]
pub struct Panel {
    pub inference: String,
    /// p99 of the closed-loop run alone, ms; the median over seeds.
    pub baseline_p99_ms: Option<f64>,
    pub groups: Vec<Group>,
}

impl Panel {
    /// Whether every p99 of the panel has too few requests behind it. The panel's name is marked then, not each bar.
    pub fn few(&self) -> bool {
        let mut cells = self.groups.iter().flat_map(|g| &g.cells).flatten().filter(|c| c.requests.is_some());
        cells.clone().count() > 0 && cells.all(Cell::few)
    }
}

/// What one figure shows.
#[derive(Clone, Debug)]
pub struct Grid {
    pub systems: Vec<SystemStyle>,
    pub panels: Vec<Panel>,
    pub facts: Facts,
}

/// What is the same for all rows of a figure and goes on the picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    pub backend: Backend,
    pub machine: String,
    pub load: f64,
    pub traces: Vec<String>,
    pub seeds: Vec<u64>,
    /// Some rows failed or lack numbers; see [`Records::gaps`].
    pub incomplete: bool,
}

impl Facts {
    /// Reads the facts off the rows.
    ///
    /// # Errors
    /// No pair rows, or rows of several backends, machines or loads: one picture must not mix them.
    pub fn of(records: &Records) -> Result<Facts> {
        Facts::among(records, Kind::Pair, "pair")
    }

    /// As [`Facts::of`] with rows of another kind in the place of pairs.
    ///
    /// # Errors
    /// See [`Facts::of`].
    pub fn among(records: &Records, kind: Kind, name: &str) -> Result<Facts> {
        let path = &records.path;
        let rows = || records.rows.iter().filter(|r| r.kind == kind);
        let Some(first) = rows().next() else {
            bail!("{}: no rows of kind `{name}`; next: run the experiment again", path.display())
        };
        for r in &records.rows {
            if r.backend != first.backend || r.machine != first.machine {
                let (a, b) = (
                    format!("{:?} {}", first.backend, first.machine),
                    format!("{:?} {}", r.backend, r.machine),
                );
                return Err(mixed(path, r.line, "machine", &a, &b));
            }
        }
        let load = first.load.unwrap_or_default();
        for r in rows() {
            if r.load != first.load {
                let other = r.load.unwrap_or_default();
                return Err(mixed(path, r.line, "load", &load.to_string(), &other.to_string()));
            }
        }
        let mut traces: Vec<String> = Vec::new();
        let mut seeds: Vec<u64> = rows().filter_map(|r| r.seed).collect();
        for trace in rows().filter_map(|r| r.trace.clone()) {
            if !traces.contains(&trace) {
                traces.push(trace);
            }
        }
        seeds.sort_unstable();
        seeds.dedup();
        let incomplete = !records.gaps().is_empty();
        Ok(Facts { backend: first.backend, machine: first.machine.clone(), load, traces, seeds, incomplete })
    }
}

impl Facts {
    /// What is common to several pictures in one; the load is that of the first.
    ///
    /// # Errors
    /// No facts: a table without pairs.
    pub fn over<'a>(all: impl Iterator<Item = &'a Facts>, records: &Records) -> Result<Facts> {
        let merged = all.cloned().reduce(|mut merged, facts| {
            for trace in facts.traces {
                if !merged.traces.contains(&trace) {
                    merged.traces.push(trace);
                }
            }
            merged.seeds.extend(facts.seeds);
            merged.seeds.sort_unstable();
            merged.seeds.dedup();
            merged.incomplete |= facts.incomplete;
            merged
        });
        match merged {
            Some(facts) => Ok(facts),
            None => {
                bail!("{}: no rows of kind `pair`; next: run the experiment again", records.path.display())
            }
        }
    }
}

fn mixed(path: &Path, line: usize, column: &str, first: &str, other: &str) -> anyhow::Error {
    anyhow::anyhow!(
        "{}, line {line}, column `{column}`: value `{other}` next to `{first}`: one picture shows one of them; next: \
         keep them in runs of their own",
        path.display()
    )
}

impl Grid {
    /// Builds the grid of the pair rows. `no-sharing` is the baseline, not a system of the grid.
    ///
    /// # Errors
    /// See [`Facts::of`]; also a system without a style.
    pub fn of(records: &Records) -> Result<Grid> {
        Grid::with(records, &Styles::of(records.pairs().map(|r| r.system.as_str()))?)
    }

    /// The same as one of several grids of a figure.
    ///
    /// # Errors
    /// See [`Grid::of`].
    pub fn with(records: &Records, styles: &Styles) -> Result<Grid> {
        let facts = Facts::of(records)?;
        let pairs: Vec<&Record> = records.pairs().filter(|r| r.system != "no-sharing").collect();
        let mut names = distinct(pairs.iter().map(|r| r.system.as_str()));
        names.sort_by_key(|s| style::system_rank(s));
        let systems = names.iter().map(|s| styles.get(s).cloned()).collect::<Result<Vec<_>>>()?;
        let job = |j: &Option<String>| j.clone().unwrap_or_default();
        let jobs = |values: Vec<String>| {
            let mut list = distinct(values.iter().map(String::as_str));
            list.sort_by_key(|j| style::job_rank(j));
            list
        };
        let trainings = jobs(pairs.iter().map(|r| job(&r.training)).collect());
        let mut panels = Vec::new();
        for inference in jobs(pairs.iter().map(|r| job(&r.inference)).collect()) {
            let groups = trainings
                .iter()
                .map(|training| {
                    let cell = |system: &String| {
                        let rows: Vec<&Record> = pairs
                            .iter()
                            .copied()
                            .filter(|r| {
                                r.system == *system
                                    && job(&r.inference) == inference
                                    && job(&r.training) == *training
                            })
                            .collect();
                        (!rows.is_empty()).then(|| Cell::of(&rows))
                    };
                    Group { training: training.clone(), cells: names.iter().map(cell).collect() }
                })
                .filter(|g: &Group| g.cells.iter().any(Option::is_some))
                .collect();
            let baseline_p99_ms = baseline(records, &inference);
            panels.push(Panel { inference, baseline_p99_ms, groups });
        }
        Ok(Grid { systems, panels, facts })
    }

    /// All cells that the plan has.
    pub fn cells(&self) -> impl Iterator<Item = &Cell> {
        self.panels.iter().flat_map(|p| &p.groups).flat_map(|g| &g.cells).flatten()
    }

    /// Fewest and most requests behind any drawn p99.
    pub fn requests(&self) -> Option<(u64, u64)> {
        let ranges: Vec<_> = self.cells().filter_map(|c| c.requests).collect();
        Some((ranges.iter().map(|r| r.0).min()?, ranges.iter().map(|r| r.1).max()?))
    }
}

/// The baseline that the pair rows were compared with; without any, that of the closed-loop rows themselves.
fn baseline(records: &Records, inference: &str) -> Option<f64> {
    let of = |r: &&Record| r.inference.as_deref() == Some(inference);
    let stored: Vec<f64> = records.pairs().filter(of).filter_map(|r| r.baseline_p99_ms).collect();
    let solo = records.rows.iter().filter(|r| r.kind == Kind::SoloStream).filter(of);
    stats::median(&stored)
        .or_else(|| stats::median(&solo.filter_map(|r| r.upstream_p99_ms).collect::<Vec<_>>()))
}

fn distinct<'a>(values: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for value in values {
        if !out.iter().any(|o| o == value) {
            out.push(value.to_owned());
        }
    }
    out
}
