//! Table `overheads`: per system the p99 overhead and the throughputs, beside the published numbers.
//!
//! Formulas, over the finished cells of a system (every pair and seed is one cell): overhead o =
//! `upstream_p99_ms / baseline_p99_ms - 1`; arithmetic mean of o, which is the paper's number; geometric mean
//! `exp(mean(ln(1 + o))) - 1`; median and extremes of o; arithmetic means of the normalised throughputs,
//! unrounded (upstream rounds each to 2 decimals first). Tally's share: over the cells that both systems
//! finished, the ratio of the mean system throughputs, and the mean of the ratios.

use std::collections::BTreeMap;

use anyhow::Result;
use intervals::{CONFIDENCE, Interval};

use crate::csv::{self, Csv};
use crate::grid::Facts;
use crate::markdown::{Table, percent, percent_range, ratio, wrapped};
use crate::published;
use crate::records::{Record, Records, Status};
use crate::stats;
use crate::style;

/// Aggregates of one system. Ratios; `None` where no cell has the number.
#[derive(Clone, Debug)]
pub struct Summary {
    pub system: String,
    pub cells: usize,
    pub overloaded: usize,
    pub failed: usize,
    pub skipped: usize,
    pub mean: Option<f64>,
    pub geometric: Option<f64>,
    pub median: Option<f64>,
    pub range: Option<(f64, f64)>,
    /// Of the mean, from seed to seed; `None` with a single seed.
    pub over_seeds: Option<Interval>,
    /// Median of the end-to-end p99 over the baseline's p99, and the cells behind it: all that are not overloaded.
    pub end_to_end: (Option<f64>, usize),
    pub hp_norm: Option<f64>,
    pub be_norm: Option<f64>,
    pub system_throughput: Option<f64>,
    /// Tally's system throughput over this system's: ratio of means, and mean of ratios.
    pub tally_share: Option<(f64, f64)>,
}

/// Aggregates per system, in drawing order.
pub fn summaries(records: &Records) -> Vec<Summary> {
    let pairs: Vec<&Record> = records.pairs().filter(|r| r.system != "no-sharing").collect();
    let mut systems: Vec<&str> = Vec::new();
    for r in &pairs {
        if !systems.contains(&r.system.as_str()) {
            systems.push(&r.system);
        }
    }
    systems.sort_by_key(|s| style::system_rank(s));
    systems.into_iter().map(|s| summary(&pairs, s)).collect()
}

fn summary(pairs: &[&Record], system: &str) -> Summary {
    let rows: Vec<&Record> = pairs.iter().copied().filter(|r| r.system == system).collect();
    let ok: Vec<&Record> = rows.iter().copied().filter(|r| r.status == Status::Ok).collect();
    let get = |f: fn(&Record) -> Option<f64>| ok.iter().filter_map(|r| f(r)).collect::<Vec<_>>();
    let overheads = get(Record::p99_overhead);
    Summary {
        system: system.to_owned(),
        cells: ok.len(),
        overloaded: ok.iter().filter(|r| r.overloaded == Some(true)).count(),
        failed: rows.iter().filter(|r| r.status == Status::Failed).count(),
        skipped: rows.iter().filter(|r| r.status == Status::Skipped).count(),
        mean: stats::mean(&overheads),
        geometric: stats::geometric_overhead(&overheads),
        median: stats::median(&overheads),
        range: stats::range(&overheads),
        over_seeds: over_seeds(&ok),
        end_to_end: end_to_end(&ok),
        hp_norm: stats::mean(&get(|r| r.hp_norm)),
        be_norm: stats::mean(&get(|r| r.be_norm)),
        system_throughput: stats::mean(&get(|r| r.system_throughput)),
        tally_share: tally_share(pairs, &ok),
    }
}

/// Student's interval of the mean overhead: the mean over the pairs is one number per seed. Only pairs that every seed has
/// count, since others would make the seeds differ by their pairs.
fn over_seeds(rows: &[&Record]) -> Option<Interval> {
    let mut by_seed: BTreeMap<u64, BTreeMap<_, f64>> = BTreeMap::new();
    for r in rows {
        if let Some((seed, overhead)) = r.seed.zip(r.p99_overhead()) {
            by_seed.entry(seed).or_default().insert((&r.inference, &r.training), overhead);
        }
    }
    let in_all = |pair: &_| by_seed.values().all(|pairs| pairs.contains_key(pair));
    let mean_of = |pairs: &BTreeMap<_, f64>| {
        let values: Vec<f64> = pairs.iter().filter(|(pair, _)| in_all(pair)).map(|(_, o)| *o).collect();
        stats::mean(&values)
    };
    let means: Option<Vec<f64>> = by_seed.values().map(mean_of).collect();
    intervals::t_interval(&means?, CONFIDENCE)
}

/// An overloaded cell's end-to-end times grow with its span, so that no number over cells may hold them.
fn end_to_end(rows: &[&Record]) -> (Option<f64>, usize) {
    let ratio = |r: &&&Record| Some(r.e2e_p99_ns? / 1e6 / r.baseline_p99_ms?);
    let stable = rows.iter().filter(|r| r.overloaded == Some(false));
    let ratios: Vec<f64> = stable.filter_map(|r| ratio(&r)).collect();
    (stats::median(&ratios), ratios.len())
}

/// Compares only cells that both finished: means over different pairs would compare the pairs.
fn tally_share(pairs: &[&Record], others: &[&Record]) -> Option<(f64, f64)> {
    let mut both = Vec::new();
    for other in others {
        let tally = pairs.iter().find(|r| {
            r.system == "tally"
                && r.inference == other.inference
                && r.training == other.training
                && r.seed == other.seed
        });
        if let Some((t, o)) = tally.and_then(|t| t.system_throughput).zip(other.system_throughput)
            && o > 0.0
        {
            both.push((t, o));
        }
    }
    let column = |f: fn(&(f64, f64)) -> f64| stats::mean(&both.iter().map(f).collect::<Vec<_>>());
    Some((column(|b| b.0)? / column(|b| b.1)?, column(|b| b.0 / b.1)?))
}

/// The table as Markdown and as CSV.
///
/// # Errors
/// The rows cannot be summarised together (see [`Facts::of`]), or the bundled reference is damaged.
pub fn render(title: &str, records: &Records) -> Result<(String, String)> {
    let facts = Facts::of(records)?;
    let summaries = summaries(records);
    let rows = published::rows()?;
    let of_tally = published::aggregate(&rows, "tally");

    let mut run = Table::new(
        1,
        "system | cells | overloaded | failed | skipped | p99 overhead, mean | 95 % over seeds | \
         geometric mean | median | min..max | end-to-end p99 / baseline, median | of cells | HP | BE | system",
    );
    let mut beside = Table::new(
        1,
        "system | mean, this run | mean, paper | mean, demo | median, this run | median, demo | \
         min..max, this run | min..max, demo | system, this run | system, demo | \
         Tally / this, this run | mean of ratios | Tally / this, demo | Tally / this, paper",
    );
    let mut out = Csv::new(
        "backend machine load system cells overloaded failed skipped p99_overhead_mean \
         p99_overhead_geometric_mean p99_overhead_median p99_overhead_min p99_overhead_max p99_overhead_mean_seeds_low p99_overhead_mean_seeds_high \
         e2e_p99_over_baseline_median e2e_cells hp_norm_mean \
         be_norm_mean system_throughput_mean tally_share_of_means tally_share_mean_of_ratios \
         paper_p99_overhead_mean demo_p99_overhead_mean demo_p99_overhead_geometric_mean \
         demo_p99_overhead_median demo_p99_overhead_min demo_p99_overhead_max demo_hp_norm_mean \
         demo_be_norm_mean demo_system_throughput_mean demo_tally_share_of_means",
    );
    for s in &summaries {
        let demo = published::aggregate(&rows, &s.system);
        let paper = published::paper_overhead(&s.system);
        let demo_share = of_tally.zip(demo).map(|(t, d)| t.system_throughput / d.system_throughput);
        let paper_share = if s.system == published::TGS {
            format!("> {}", ratio(Some(published::PAPER_TALLY_OVER_TGS)))
        } else {
            String::new()
        };
        run.row([
            s.system.clone(),
            s.cells.to_string(),
            s.overloaded.to_string(),
            s.failed.to_string(),
            s.skipped.to_string(),
            percent(s.mean),
            percent_range(s.over_seeds.map(|i| (i.low, i.high))),
            percent(s.geometric),
            percent(s.median),
            percent_range(s.range),
            ratio(s.end_to_end.0),
            s.end_to_end.1.to_string(),
            ratio(s.hp_norm),
            ratio(s.be_norm),
            ratio(s.system_throughput),
        ]);
        beside.row([
            s.system.clone(),
            percent(s.mean),
            percent(paper),
            percent(demo.map(|d| d.mean)),
            percent(s.median),
            percent(demo.map(|d| d.median)),
            percent_range(s.range),
            percent_range(demo.map(|d| (d.min, d.max))),
            ratio(s.system_throughput),
            ratio(demo.map(|d| d.system_throughput)),
            ratio(s.tally_share.map(|t| t.0)),
            ratio(s.tally_share.map(|t| t.1)),
            ratio(demo_share),
            paper_share,
        ]);
        out.text(csv::backend(facts.backend)).text(&facts.machine).real(Some(facts.load)).text(&s.system);
        for n in [s.cells, s.overloaded, s.failed, s.skipped] {
            out.count(Some(n as u64));
        }
        out.real(s.mean)
            .real(s.geometric)
            .real(s.median)
            .real(s.range.map(|r| r.0))
            .real(s.range.map(|r| r.1));
        out.real(s.over_seeds.map(|i| i.low)).real(s.over_seeds.map(|i| i.high));
        out.real(s.end_to_end.0).count(Some(s.end_to_end.1 as u64));
        out.real(s.hp_norm).real(s.be_norm).real(s.system_throughput);
        out.real(s.tally_share.map(|t| t.0)).real(s.tally_share.map(|t| t.1)).real(paper);
        out.real(demo.map(|d| d.mean)).real(demo.map(|d| d.geometric)).real(demo.map(|d| d.median));
        out.real(demo.map(|d| d.min)).real(demo.map(|d| d.max)).real(demo.map(|d| d.hp_norm));
        out.real(demo.map(|d| d.be_norm)).real(demo.map(|d| d.system_throughput)).real(demo_share).end();
    }
    let body = format!(
        "# {title}\n\nThis run:\n\n{}\nBeside the published numbers; mean, median and min..max are of the p99 \
         overhead:\n\n{}\n{NOTES}",
        run.finish(),
        beside.finish()
    );
    Ok((wrapped(&facts, &body), out.finish()))
}

const NOTES: &str = "\
- p99 overhead: `upstream_p99_ms / baseline_p99_ms - 1` per cell; a cell is one pair and seed. Mean: arithmetic,
  the paper's number; a single bad pair can dominate it. Geometric mean: `exp(mean(ln(p99 / baseline))) - 1`.
- 95 % over seeds: Student's interval of that mean from seed to seed, over the pairs that every seed has. It is the
  variance of arrivals (simulated, also of drawn durations) only; with a single seed there is none.
- End-to-end p99 (planned arrival to end) over the baseline's p99: median over the cells that are not overloaded. In
  an overloaded cell it grows with the span, so it enters no number over cells; the table of all pairs has it.
- HP, BE, system: means of the normalised throughputs of the high-priority job, the best-effort job, and their
  sum.
- Tally / this: Tally's mean system throughput over that of the row, over the cells that both finished; beside it
  the mean of the ratios per cell.
- Paper: means over the paper's own pairs on an A100. Its throughput claim is against TGS.
- Demo: the published A100 run, computed from `figures/reference/reference_a100.csv`, 12 pairs. Its TGS rows come
  from a port whose rate control is disconnected: `tgs-artifact`. The paper's TGS numbers stand there too; of which
  revision its own runs were is unknown. Nothing published is of `tgs` and `tgs-mps`.
- Overloaded cells have a growing queue, which service times leave out. An empty cell is a missing number.
";
