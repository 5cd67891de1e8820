//! Threshold sweep: p99 and best-effort throughput against Tally's turnaround-latency threshold.

use anyhow::{Result, bail};

use crate::axis::Scale;
use crate::canvas::Picture;
use crate::csv::{self, Csv};
use crate::grid::{Facts, Grid, Panel};
use crate::page::{self, Swatch};
use crate::records::Records;
use crate::style::{inference_label, job_rank, short_job, training_look};
use crate::sweep::{Pane, Series, Sweep};

/// The threshold of the system `tally` without parameters, ms: 10^-1.5, as the published runs had it.
const USUAL_MS: f64 = 0.0316;

/// The grids of all thresholds, from the smallest.
pub struct Thresholds {
    grids: Vec<(f64, Grid)>,
    facts: Facts,
}

/// The threshold in the name of a system, ms.
fn threshold_ms(system: &str) -> Option<f64> {
    match system.strip_prefix("tally")? {
        "" => Some(USUAL_MS),
        parameter => parameter.strip_prefix(":threshold_ms=")?.parse().ok().filter(|ms| *ms > 0.0),
    }
}

impl Thresholds {
    /// One grid for each threshold of the table.
    ///
    /// # Errors
    /// See [`Grid::of`]; also a system that is not Tally with a threshold.
    pub fn of(records: &Records) -> Result<Thresholds> {
        let mut thresholds = Vec::new();
        for r in records.pairs() {
            match threshold_ms(&r.system) {
                Some(ms) if !thresholds.contains(&ms) => thresholds.push(ms),
                Some(_) => {}
                None => bail!(
                    "{}, line {}, column `system`: value `{}` is not `tally` or `tally:threshold_ms=<ms>`; next: leave \
                     it out of the experiment",
                    records.path.display(),
                    r.line,
                    r.system
                ),
            }
        }
        thresholds.sort_by(f64::total_cmp);
        let mut grids = Vec::new();
        for ms in thresholds {
            let solo = |r: &crate::records::Record| r.kind != crate::records::Kind::Pair;
            let mut of_threshold = records.only(|r| solo(r) || threshold_ms(&r.system) == Some(ms));
            for row in of_threshold.rows.iter_mut().filter(|r| !solo(r)) {
                row.system = "tally".to_owned();
            }
            grids.push((ms, Grid::of(&of_threshold)?));
        }
        let facts = Facts::over(grids.iter().map(|g| &g.1.facts), records)?;
        Ok(Thresholds { grids, facts })
    }

    fn panels(&self) -> impl Iterator<Item = (f64, &Panel)> {
        self.grids.iter().flat_map(|(ms, grid)| grid.panels.iter().map(move |p| (*ms, p)))
    }

    fn servers(&self) -> Vec<String> {
        distinct(self.panels().map(|(_, p)| p.inference.clone()))
    }

    fn trainings(&self) -> Vec<String> {
        distinct(self.panels().flat_map(|(_, p)| &p.groups).map(|g| g.training.clone()))
    }
}

fn distinct(jobs: impl Iterator<Item = String>) -> Vec<String> {
    let mut jobs: Vec<String> = jobs.collect();
    jobs.sort_by(|a, b| (job_rank(a), a).cmp(&(job_rank(b), b)));
    jobs.dedup();
    jobs
}

/// Lays the figure out.
///
/// # Errors
/// The bundled font cannot be used.
pub fn picture(thresholds: &Thresholds) -> Result<Picture> {
    let mut picture = Picture::default();
    let title = "Tally's turnaround-latency threshold: p99 latency and best-effort throughput";
    let ranges: Vec<_> = thresholds.grids.iter().filter_map(|g| g.1.requests()).collect();
    let requests = ranges.iter().map(|r| r.0).min().zip(ranges.iter().map(|r| r.1).max());
    let banner = page::banner_text(&thresholds.facts, requests);
    let y = page::begin(&mut picture, title, &thresholds.facts, &banner)?;
    let trainings = thresholds.trainings();
    let looks: Vec<_> = trainings.iter().enumerate().map(|(i, t)| training_look(t, i)).collect();
    let mut entries = vec![(Swatch::Dashes, "Baseline (alone, closed loop)".to_owned())];
    let names = trainings.iter().zip(&looks);
    entries.extend(names.map(|(t, look)| (Swatch::Point(look.0, look.1), short_job(t).to_owned())));
    let y = page::legend(&mut picture, y, &entries)?;
    let panes = thresholds.servers().into_iter().map(|server| {
        let of_server = || thresholds.panels().filter(|(_, p)| p.inference == server);
        let series = trainings.iter().zip(&looks).map(|(training, (color, form))| Series {
            color: *color,
            form: *form,
            cells: of_server()
                .map(|(ms, p)| {
                    let group = p.groups.iter().find(|g| g.training == *training);
                    (ms, group.and_then(|g| g.cells.first().cloned().flatten()))
                })
                .collect(),
        });
        Pane {
            name: inference_label(&server),
            baseline: of_server().find_map(|(_, p)| p.baseline_p99_ms),
            latency: None,
            series: series.collect(),
        }
    });
    let all: Vec<f64> = thresholds.grids.iter().map(|g| g.0).collect();
    let (lo, hi) = crate::stats::range(&all).unwrap_or((0.01, 1.0));
    let sweep = Sweep {
        x: Scale::Log { lo: lo / 1.6, hi: hi * 1.6 },
        ticks: all.iter().map(|ms| (*ms, ms.to_string())).collect(),
        title: "threshold (ms, log)",
        usual: Some(USUAL_MS),
        panes: panes.collect(),
    };
    let below = sweep.draw(&mut picture, y)?;
    let grids: Vec<&Grid> = thresholds.grids.iter().map(|g| &g.1).collect();
    let mut notes = page::line_notes(&grids, &[]);
    notes.push(format!("Upright line: {USUAL_MS} ms, the threshold of Tally in the other figures."));
    page::footnotes(&mut picture, below, &notes)?;
    Ok(picture)
}

/// Exactly the numbers drawn, one row per point.
pub fn csv(thresholds: &Thresholds) -> String {
    let mut out = Csv::new(
        "backend machine load inference training threshold_ms rows_ok rows_failed rows_skipped overloaded requests_min \
         requests_max p99_few baseline_p99_ms p99_ms p99_min_ms p99_max_ms be_norm be_norm_min be_norm_max",
    );
    let facts = &thresholds.facts;
    for server in thresholds.servers() {
        for training in thresholds.trainings() {
            for (ms, panel) in thresholds.panels().filter(|(_, p)| p.inference == server) {
                let group = panel.groups.iter().find(|g| g.training == training);
                let Some(cell) = group.and_then(|g| g.cells.first()?.as_ref()) else { continue };
                out.text(csv::backend(facts.backend)).text(&facts.machine).real(Some(facts.load));
                out.text(&server).text(&training).real(Some(ms));
                out.cell(cell).real(panel.baseline_p99_ms).spread(cell.p99_ms).spread(cell.be_norm).end();
            }
        }
    }
    out.finish()
}

#[cfg(test)]
mod tests {
    use super::threshold_ms;

    #[test]
    fn thresholds_stand_in_the_name() {
        assert_eq!(threshold_ms("tally"), Some(0.0316));
        assert_eq!(threshold_ms("tally:threshold_ms=3.16"), Some(3.16));
        for other in
            ["tally-no-transform", "tally:threshold_ms=0", "tally:threshold_ms=x", "tally:wait=1", "gate"]
        {
            assert_eq!(threshold_ms(other), None, "{other}");
        }
    }
}
