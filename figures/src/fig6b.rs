//! Load sweep: p99 and best-effort throughput from a busy server to an idle one.

use anyhow::Result;

use crate::axis::Scale;
use crate::canvas::Picture;
use crate::chart::Form;
use crate::csv::{self, Csv};
use crate::grid::{Facts, Grid, Panel};
use crate::page::{self, Swatch};
use crate::records::Records;
use crate::stats;
use crate::style::{Styles, SystemStyle, inference_label, short_job};
use crate::sweep::{Pane, Series, Sweep};

/// The two families of rate control and priority scheduling differ in form as well.
fn form(system: &SystemStyle) -> Form {
    if system.id.starts_with("tgs") { Form::Square } else { Form::Disc }
}

/// The grids of all loads, from the smallest.
pub struct Loads {
    grids: Vec<(f64, Grid)>,
    facts: Facts,
}

impl Loads {
    /// One grid for each load of the table.
    ///
    /// # Errors
    /// See [`Grid::of`].
    pub fn of(records: &Records) -> Result<Loads> {
        let mut loads: Vec<f64> = records.pairs().filter_map(|r| r.load).collect();
        loads.sort_by(f64::total_cmp);
        loads.dedup();
        let styles = Styles::of(records.pairs().map(|r| r.system.as_str()))?;
        let mut grids = Vec::new();
        for load in loads {
            let of_load = records.only(|r| r.load.is_none_or(|l| l == load));
            grids.push((load, Grid::with(&of_load, &styles)?));
        }
        let facts = Facts::over(grids.iter().map(|g| &g.1.facts), records)?;
        Ok(Loads { grids, facts })
    }

    fn panels(&self) -> impl Iterator<Item = (f64, &Grid, &Panel)> {
        self.grids.iter().flat_map(|(load, grid)| grid.panels.iter().map(move |p| (*load, grid, p)))
    }

    /// Inference and training of each pane, in drawing order.
    fn pairs(&self) -> Vec<(String, String)> {
        let mut pairs = Vec::new();
        for (_, _, panel) in self.panels() {
            for group in &panel.groups {
                let pair = (panel.inference.clone(), group.training.clone());
                if !pairs.contains(&pair) {
                    pairs.push(pair);
                }
            }
        }
        let rank = |p: &(String, String)| (crate::style::job_rank(&p.0), crate::style::job_rank(&p.1));
        pairs.sort_by_key(rank);
        pairs
    }

    /// Every system of some load, in drawing order.
    fn systems(&self) -> Vec<&SystemStyle> {
        let mut systems: Vec<&SystemStyle> = Vec::new();
        for style in self.grids.iter().flat_map(|g| &g.1.systems) {
            if systems.iter().all(|s| s.id != style.id) {
                systems.push(style);
            }
        }
        systems
    }

    fn panes(&self) -> Vec<Pane> {
        let mut panes = Vec::new();
        for (inference, training) in self.pairs() {
            let of_pair = |grid: &Grid, panel: &Panel, system: &str| {
                let group = panel.groups.iter().find(|g| g.training == training)?;
                let at = grid.systems.iter().position(|s| s.id == system)?;
                group.cells[at].clone()
            };
            let panels: Vec<_> = self.panels().filter(|p| p.2.inference == inference).collect();
            // Upstream draws the largest baseline of all loads; ours is one and the same closed loop.
            let baseline =
                stats::median(&panels.iter().filter_map(|p| p.2.baseline_p99_ms).collect::<Vec<_>>());
            let series = self.systems().into_iter().map(|system| Series {
                color: system.color,
                form: form(system),
                // From busy to idle, as the axis has it.
                cells: panels
                    .iter()
                    .rev()
                    .map(|(l, grid, p)| (1.0 - l, of_pair(grid, p, &system.id)))
                    .collect(),
            });
            let name = format!(
                "{} + {}",
                inference_label(&inference).replace(" inference", ""),
                short_job(&training)
            );
            panes.push(Pane { name, baseline, latency: None, series: series.collect() });
        }
        // Panes of one server share their axis.
        let pairs = self.pairs();
        let ranges: Vec<_> = panes.iter().map(Pane::range).collect();
        for (i, pane) in panes.iter_mut().enumerate() {
            let same = pairs.iter().zip(&ranges).filter(|(p, _)| p.0 == pairs[i].0).filter_map(|(_, r)| *r);
            pane.latency = same.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        }
        panes
    }
}

/// Lays the figure out.
///
/// # Errors
/// The bundled font cannot be used.
pub fn picture(loads: &Loads) -> Result<Picture> {
    let mut picture = Picture::default();
    let title = "Load sweep: p99 latency and best-effort throughput against the server's idle share";
    let ranges: Vec<_> = loads.grids.iter().filter_map(|g| g.1.requests()).collect();
    let requests = ranges.iter().map(|r| r.0).min().zip(ranges.iter().map(|r| r.1).max());
    let all: Vec<String> = loads.grids.iter().map(|g| g.0.to_string()).collect();
    let banner = page::banner(&loads.facts, &format!("loads {}", all.join(", ")), requests);
    let y = page::begin(&mut picture, title, &loads.facts, &banner)?;
    let mut entries = vec![(Swatch::Dashes, "Baseline (alone, closed loop)".to_owned())];
    entries.extend(loads.systems().iter().map(|s| (Swatch::Point(s.color, form(s)), s.label.to_owned())));
    let y = page::legend(&mut picture, y, &entries)?;
    let x = Scale::Linear { max: 1.0, step: 0.1 };
    let ticks =
        loads.grids.iter().map(|(l, _)| (1.0 - l, format!("{:.0}", (1.0 - l) * 100.0))).rev().collect();
    let sweep = Sweep { x, ticks, title: "idle share = 1 - load (%)", usual: None, panes: loads.panes() };
    let below = sweep.draw(&mut picture, y)?;
    let grids: Vec<&Grid> = loads.grids.iter().map(|g| &g.1).collect();
    page::footnotes(&mut picture, below, &page::line_notes(&grids, &loads.systems()))?;
    Ok(picture)
}

/// Exactly the numbers drawn, one row per point.
pub fn csv(loads: &Loads) -> String {
    let mut out = Csv::new(
        "backend machine inference training system load idle_share rows_ok rows_failed rows_skipped overloaded \
         requests_min requests_max p99_few baseline_p99_ms p99_ms p99_min_ms p99_max_ms be_norm be_norm_min be_norm_max",
    );
    for (inference, training) in loads.pairs() {
        for system in loads.systems() {
            for (load, grid, panel) in loads.panels().filter(|p| p.2.inference == inference) {
                let group = panel.groups.iter().find(|g| g.training == training);
                let at = grid.systems.iter().position(|s| s.id == system.id);
                let Some(cell) = group.zip(at).and_then(|(g, at)| g.cells[at].as_ref()) else { continue };
                out.text(csv::backend(grid.facts.backend)).text(&grid.facts.machine);
                out.text(&inference).text(&training).text(&system.id);
                out.real(Some(load)).real(Some(1.0 - load));
                out.cell(cell).real(panel.baseline_p99_ms).spread(cell.p99_ms).spread(cell.be_norm).end();
            }
        }
    }
    out.finish()
}
