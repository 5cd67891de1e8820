//! A run over time: the rate of requests, the server's p99, and the training's progress.

use anyhow::Result;

use crate::axis::Scale;
use crate::canvas::{Anchor, PAGE_WIDTH, Picture, Rgb, Text};
use crate::chart::Chart;
use crate::csv::{self, Csv};
use crate::grid::Facts;
use crate::inputs::Inputs;
use crate::layout::AXIS_ROOM;
use crate::page::{self, MARGIN, Swatch};
use crate::plot::{head, text};
use crate::records::{Backend, Kind, Records};
use crate::sheet;
use crate::stats;
use crate::style::{self, BODY, GREY, Styles, SystemStyle, inference_label, number, short_job};

/// Columns of the record, in its order.
pub const COLUMNS: &str = "experiment key backend machine kind system inference training load seed trace series \
    start_ns end_ns n value";

const RATE_HEIGHT: i32 = 240;
const LATENCY_HEIGHT: i32 = 520;
const PROGRESS_HEIGHT: i32 = 340;
/// Room above a plot for its name, px.
const NAME: i32 = 60;

/// One interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    pub start_s: f64,
    pub end_s: f64,
    /// Arrivals, requests or iterations.
    pub n: u64,
    pub value: Option<f64>,
}

/// A number over time under one system.
#[derive(Clone, Debug)]
pub struct Line {
    pub system: SystemStyle,
    pub points: Vec<Point>,
}

/// What the figure shows.
#[derive(Clone, Debug)]
pub struct Timeline {
    pub facts: Facts,
    pub inference: String,
    pub training: String,
    /// Arrivals per second.
    pub arrivals: Vec<Point>,
    /// p99 service time, ms.
    pub latency: Vec<Line>,
    /// Iterations per second.
    pub progress: Vec<Line>,
    /// Of the training alone.
    pub progress_alone_hz: Option<f64>,
    /// What the server alone serves back to back.
    pub capacity_hz: Option<f64>,
    /// Systems of the plan without a series.
    pub missing: Vec<String>,
}

impl Timeline {
    /// Reads the experiment's table and its series.
    ///
    /// # Errors
    /// A record that is not as docs/FORMATS.md says, or a system without a style.
    pub fn of(inputs: &Inputs, record: &str) -> Result<Timeline> {
        let records = inputs.first()?;
        let path = inputs.path(record);
        let columns: Vec<&str> = COLUMNS.split_whitespace().collect();
        let facts = Facts::among(records, Kind::Timeline, "timeline")?;
        let mut rows = Vec::new();
        for row in sheet::read(&path, &columns)? {
            let (start, end) = (row.count("start_ns")?, row.count("end_ns")?);
            let (Some(start), Some(end)) = (start, end) else { return Err(row.bad("end_ns", "is missing")) };
            if start >= end {
                return Err(row.bad("end_ns", "is not after the start of the interval"));
            }
            if row.required("machine")? != facts.machine
                || row.required("backend")? != csv::backend(facts.backend)
            {
                return Err(row.bad("machine", "is not that of the experiment's table"));
            }
            let n = row.count("n")?.ok_or_else(|| row.bad("n", "is missing"))?;
            let value = row.real("value", 0.0)?;
            let point = Point { start_s: start as f64 / 1e9, end_s: end as f64 / 1e9, n, value };
            rows.push((row.required("series")?, row.required("system")?, point));
        }
        let styles = Styles::of(rows.iter().map(|row| row.1.as_str()))?;
        let points = |series: &str, system: &str, scale: f64| -> Vec<Point> {
            let own = rows.iter().filter(|r| r.0 == series && r.1 == system).map(|r| r.2);
            own.map(|p| Point { value: p.value.map(|v| v * scale), ..p }).collect()
        };
        let lines = |series: &str, scale: f64| -> Result<Vec<Line>> {
            let mut systems: Vec<&str> = Vec::new();
            for row in rows.iter().filter(|row| row.0 == series) {
                if !systems.contains(&row.1.as_str()) {
                    systems.push(&row.1);
                }
            }
            systems.sort_by_key(|system| style::system_rank(system));
            let line = |system: &str| {
                Ok(Line { system: styles.get(system)?.clone(), points: points(series, system, scale) })
            };
            systems.into_iter().map(line).collect()
        };
        let latency = lines("service_p99_ns", 1e-6)?;
        let planned = records.rows.iter().filter(|r| r.kind == Kind::Timeline);
        let mut missing: Vec<String> = planned.map(|r| r.system.clone()).collect();
        missing.retain(|system| latency.iter().all(|line| line.system.id != *system));
        let first = records.rows.iter().find(|r| r.kind == Kind::Timeline);
        let job = |of: fn(&crate::records::Record) -> &Option<String>| {
            first.and_then(|r| of(r).clone()).unwrap_or_default()
        };
        Ok(Timeline {
            inference: job(|r| &r.inference),
            training: job(|r| &r.training),
            arrivals: points("arrival_rate_hz", "no-sharing", 1.0),
            progress: lines("be_rate_hz", 1.0)?,
            progress_alone_hz: alone(records, Kind::SoloTraining, |r| r.be_rate_hz),
            capacity_hz: alone(records, Kind::SoloStream, |r| r.hp_rate_hz),
            latency,
            facts,
            missing,
        })
    }

    /// End of the last interval, s.
    fn span(&self) -> f64 {
        let all =
            self.latency.iter().chain(&self.progress).flat_map(|line| &line.points).chain(&self.arrivals);
        all.map(|p| p.end_s).fold(1.0, f64::max)
    }

    /// Fewest and most requests behind a drawn p99.
    fn requests(&self) -> Option<(u64, u64)> {
        let drawn = self.latency.iter().flat_map(|line| &line.points).filter(|p| p.value.is_some());
        let all: Vec<u64> = drawn.map(|p| p.n).collect();
        Some((*all.iter().min()?, *all.iter().max()?))
    }
}

fn alone(records: &Records, kind: Kind, of: fn(&crate::records::Record) -> Option<f64>) -> Option<f64> {
    let values: Vec<f64> = records.rows.iter().filter(|r| r.kind == kind).filter_map(of).collect();
    stats::median(&values)
}

/// Length of the intervals, s.
fn interval(points: &[Point]) -> f64 {
    points.first().map_or(0.0, |p| p.end_s - p.start_s)
}

/// Lays the figure out.
///
/// # Errors
/// The bundled font cannot be used.
pub fn picture(t: &Timeline) -> Result<Picture> {
    let mut picture = Picture::default();
    let title = "Timeline: recorded traffic, tail latency and training progress";
    let banner = page::banner(&t.facts, &format!("mean load {}", t.facts.load), t.requests());
    let y = page::begin(&mut picture, title, &t.facts, &banner)?;
    let mut entries = Vec::new();
    for line in &t.latency {
        let label = if line.system.id == "no-sharing" { "Baseline (alone)" } else { &line.system.label };
        entries.push((Swatch::Box(line.system.color), label.to_owned()));
    }
    entries.push((Swatch::Dashes, "training alone".to_owned()));
    let y = page::legend(&mut picture, y, &entries)?;
    let (left, w, span) = (AXIS_ROOM, PAGE_WIDTH - 2 * MARGIN - AXIS_ROOM, t.span());
    let step = match Scale::linear(span, 0.0) {
        Scale::Linear { step, .. } => step,
        Scale::Log { .. } => span,
    };
    let x = Scale::Linear { max: span, step };
    let ticks = x.ticks();

    let values = |lines: &[Line]| -> Vec<f64> {
        lines.iter().flat_map(|line| &line.points).filter_map(|p| p.value).collect()
    };
    let top = t.arrivals.iter().filter_map(|p| p.value).fold(0.0, f64::max);
    let rate = Chart::new((left, y + NAME), w, RATE_HEIGHT, x, Scale::linear(top, 0.05));
    let (min, max) = stats::range(&values(&t.latency)).unwrap_or((1.0, 1.0));
    let log = Scale::wants_log(min, max);
    let scale = if log { Scale::log(min, max, head(LATENCY_HEIGHT) / 2.0) } else { Scale::linear(max, 0.05) };
    let y = y + NAME + RATE_HEIGHT + SKIP;
    let latency = Chart::new((left, y + NAME), w, LATENCY_HEIGHT, x, scale);
    let y = y + NAME + LATENCY_HEIGHT + SKIP;
    let top = values(&t.progress).into_iter().chain(t.progress_alone_hz).fold(0.0, f64::max);
    let progress = Chart::new((left, y + NAME), w, PROGRESS_HEIGHT, x, Scale::linear(top, 0.08));
    let width = rate.tick_width()?.max(latency.tick_width()?).max(progress.tick_width()?);

    let capacity = t.capacity_hz.map(|hz| format!("; the server alone serves {} a second", number(hz, 0)));
    let server = inference_label(&t.inference);
    let seconds = |points: &[Point]| number(interval(points), 0);
    let first = |lines: &[Line]| lines.first().map(|line| seconds(&line.points)).unwrap_or_default();
    for (chart, axis, heading, height, last) in [
        (
            &rate,
            "requests/s",
            format!("requests to {server}, in {} s{}", seconds(&t.arrivals), capacity.unwrap_or_default()),
            NAME,
            false,
        ),
        (
            &latency,
            if log { "p99 latency (ms, log)" } else { "p99 latency (ms)" },
            format!("p99 of {server}, in {} s", first(&t.latency)),
            NAME,
            false,
        ),
        (
            &progress,
            "iterations/s",
            format!("{} training, in {} s", short_job(&t.training), first(&t.progress)),
            NAME,
            true,
        ),
    ] {
        let (_, top) = chart.at(0.0, f64::MAX);
        let at = (left, top - height + 44);
        picture.text(Text { bold: true, ..text(heading, at.0, at.1, BODY, Anchor::Start) });
        chart.frame(&mut picture, axis, width, &ticks, if last { "time (s)" } else { "" })?;
    }
    for p in &t.arrivals {
        if let Some(value) = p.value {
            let ((from, upper), (to, foot)) = (rate.at(p.start_s, value), rate.at(p.end_s, 0.0));
            picture.rect(from, upper, to - from, foot - upper, GREY.tint(0.35));
        }
    }
    for (chart, lines) in [(&latency, &t.latency), (&progress, &t.progress)] {
        for (k, line) in lines.iter().enumerate() {
            // Each a little thinner than those below it, so that equal lines do not hide each other.
            draw(&mut picture, chart, &line.points, line.system.color, 3 + (lines.len() - k).min(5) as i32);
        }
    }
    if let Some(alone) = t.progress_alone_hz {
        progress.level(&mut picture, alone);
    }
    for chart in [&rate, &latency, &progress] {
        chart.axes(&mut picture);
    }
    let below = y + NAME + PROGRESS_HEIGHT + 2 * BODY + 24;
    page::footnotes(&mut picture, below, &notes(t))?;
    Ok(picture)
}

/// Room below a plot for its tick labels, px.
const SKIP: i32 = 44;

/// A line through the middles of the intervals, broken where one has no number.
fn draw(picture: &mut Picture, chart: &Chart, points: &[Point], color: Rgb, width: i32) {
    let at = |p: &Point| p.value.map(|v| chart.at((p.start_s + p.end_s) / 2.0, v));
    for (k, point) in points.iter().enumerate() {
        let Some(here) = at(point) else { continue };
        let before = k.checked_sub(1).and_then(|k| at(&points[k]));
        let after = points.get(k + 1).and_then(at);
        if let Some(after) = after {
            picture.line(here, after, width, color);
        }
        // An interval with none beside it would not show.
        if before.is_none() && after.is_none() {
            picture.disc(here, 2 * width, color);
        }
    }
}

fn notes(t: &Timeline) -> Vec<String> {
    let mut notes = vec![
        "p99: service time of the requests that ended in an interval; iterations count where they end. An interval without \
         requests has no p99: the line is broken."
            .to_owned(),
    ];
    if t.facts.backend == Backend::Sim && t.facts.traces.iter().any(|trace| trace.contains("excerpt")) {
        notes.push(
            "The arrivals are bootstrapped from a recorded excerpt of 1.8 hours: they keep its bursts but have no daily pattern. \
             With the full trace (cargo xtask fetch) the two weeks themselves are squeezed into the span."
                .to_owned(),
        );
    }
    if t.requests().is_some_and(|r| r.0 < 1000) {
        notes.push("Below 1,000 requests in an interval its p99 is close to the maximum.".to_owned());
    }
    if !t.missing.is_empty() {
        notes.push(format!("No numbers (the cell failed or was skipped): {}.", t.missing.join(", ")));
    }
    let variants: Vec<&str> = t.latency.iter().map(|l| l.system.note).filter(|n| !n.is_empty()).collect();
    if !variants.is_empty() {
        notes.push(variants.join(" "));
    }
    notes
}

/// Exactly the numbers drawn, one row per interval.
pub fn csv(t: &Timeline) -> String {
    let mut out =
        Csv::new("backend machine inference training load series unit system start_s end_s n value");
    let mut push = |series: &str, unit: &str, system: &str, points: &[Point]| {
        for p in points {
            out.text(csv::backend(t.facts.backend)).text(&t.facts.machine);
            out.text(&t.inference).text(&t.training).real(Some(t.facts.load));
            out.text(series).text(unit).text(system);
            out.real(Some(p.start_s)).real(Some(p.end_s)).count(Some(p.n)).real(p.value).end();
        }
    };
    push("arrivals", "1/s", "", &t.arrivals);
    for line in &t.latency {
        push("service_p99", "ms", &line.system.id, &line.points);
    }
    for line in &t.progress {
        push("iterations", "1/s", &line.system.id, &line.points);
    }
    if t.progress_alone_hz.is_some() {
        let whole = Point { start_s: 0.0, end_s: t.span(), n: 1, value: t.progress_alone_hz };
        push("iterations_alone", "1/s", "no-sharing", &[whole]);
    }
    out.finish()
}
