//! One server among best-effort servers of the same job: its p99, and what all of them serve, against their number.

use anyhow::{Result, bail};

use crate::axis::Scale;
use crate::canvas::{Anchor, Picture, Rgb, Text};
use crate::chart::{Chart, Form, Point};
use crate::csv::{self, Csv};
use crate::grid::{Facts, Spread};
use crate::layout::Layout;
use crate::page::{self, Swatch};
use crate::plot::{head, text};
use crate::records::{Kind, Record, Records, Status};
use crate::stats;
use crate::style::{self, BODY, GREY, Styles, SystemStyle, inference_label, number};

const HEIGHT: i32 = 480;
const OFFERED: Rgb = Rgb(0xDC, 0xD3, 0xC4);

/// What the figure shows.
#[derive(Clone, Debug)]
pub struct Crowd {
    pub facts: Facts,
    pub inference: String,
    /// p99 alone with the same arrivals, ms.
    pub alone_p99_ms: Option<f64>,
    pub lines: Vec<Line>,
}

/// One system with one pattern of arrivals.
#[derive(Clone, Debug)]
pub struct Line {
    pub system: SystemStyle,
    pub arrivals: String,
    pub points: Vec<Number>,
}

/// So many servers.
#[derive(Clone, Debug, PartialEq)]
pub struct Number {
    pub clients: u64,
    /// Rows with and without a result.
    pub ok: usize,
    pub lost: usize,
    /// Any seed overloaded.
    pub overloaded: bool,
    /// Requests behind the p99: the fewest of any seed.
    pub requests: Option<u64>,
    /// Of the high-priority server, ms: the median of the seeds.
    pub p99_ms: Option<Spread>,
    /// Served by all servers: the mean of the seeds.
    pub per_minute: Option<Spread>,
}

impl Crowd {
    /// Reads the rows of kind `crowd`.
    ///
    /// # Errors
    /// None of them, several servers, or a system without a style; see [`Facts::of`].
    pub fn of(records: &Records) -> Result<Crowd> {
        let facts = Facts::among(records, Kind::Crowd, "crowd")?;
        let rows: Vec<&Record> = records.rows.iter().filter(|r| r.kind == Kind::Crowd).collect();
        let inference = rows[0].inference.clone().unwrap_or_default();
        if let Some(other) = rows.iter().find(|r| r.inference.as_ref() != Some(&inference)) {
            bail!(
                "{}, line {}, column `inference`: another server than `{inference}`; one picture shows one of them",
                records.path.display(),
                other.line
            );
        }
        let alone = records.rows.iter().filter(|r| r.kind == Kind::SoloPaced);
        let alone: Vec<f64> = alone.filter_map(|r| r.service_p99_ns).map(|ns| ns / 1e6).collect();
        let mut keys: Vec<(&str, &str)> = Vec::new();
        for row in &rows {
            let key = (row.system.as_str(), row.arrivals.as_deref().unwrap_or_default());
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        keys.sort_by_key(|key| style::system_rank(key.0));
        let styles = Styles::of(keys.iter().map(|key| key.0))?;
        let line = |(system, arrivals): (&str, &str)| {
            let own = |r: &&&Record| r.system == system && r.arrivals.as_deref() == Some(arrivals);
            let mut clients: Vec<u64> = rows.iter().filter(own).filter_map(|r| r.clients).collect();
            clients.sort_unstable();
            clients.dedup();
            let number = |n: u64| {
                Number::of(
                    n,
                    &rows.iter().filter(own).filter(|r| r.clients == Some(n)).copied().collect::<Vec<_>>(),
                )
            };
            let points = clients.into_iter().map(number).collect();
            Ok(Line { system: styles.get(system)?.clone(), arrivals: arrivals.to_owned(), points })
        };
        let lines = keys.into_iter().map(line).collect::<Result<_>>()?;
        Ok(Crowd { facts, inference, alone_p99_ms: stats::median(&alone), lines })
    }

    fn numbers(&self) -> impl Iterator<Item = &Number> {
        self.lines.iter().flat_map(|line| &line.points)
    }

    fn patterns(&self) -> Vec<&str> {
        let mut patterns: Vec<&str> = Vec::new();
        for line in &self.lines {
            if !patterns.contains(&line.arrivals.as_str()) {
                patterns.push(&line.arrivals);
            }
        }
        patterns
    }

    /// What one server serves in a minute when it is alone.
    fn offered(&self) -> Option<f64> {
        let alone = self.numbers().filter(|n| n.clients == 1).filter_map(|n| n.per_minute);
        alone.map(|s| s.value).max_by(f64::total_cmp)
    }

    /// What the banner says of these numbers.
    pub fn banner(&self) -> String {
        let requests: Vec<u64> = self.numbers().filter_map(|n| n.requests).collect();
        let range = requests.iter().min().copied().zip(requests.iter().max().copied());
        page::banner(&self.facts, &format!("load {} each", self.facts.load), range)
    }
}

impl Number {
    fn of(clients: u64, rows: &[&Record]) -> Number {
        let ok: Vec<&Record> = rows.iter().copied().filter(|r| r.status == Status::Ok).collect();
        // A server alone has nobody beside it, which is no missing number.
        let served =
            |r: &Record| Some((r.hp_rate_hz? + if clients > 1 { r.be_rate_hz? } else { 0.0 }) * 60.0);
        let p99: Vec<f64> = ok.iter().filter_map(|r| r.service_p99_ns).map(|ns| ns / 1e6).collect();
        Number {
            clients,
            ok: ok.len(),
            lost: rows.len() - ok.len(),
            overloaded: ok.iter().any(|r| r.overloaded == Some(true)),
            requests: ok.iter().filter_map(|r| r.service_n).min(),
            p99_ms: Spread::of(&p99, stats::median),
            per_minute: Spread::of(&ok.iter().filter_map(|r| served(r)).collect::<Vec<_>>(), stats::mean),
        }
    }

    fn few(&self) -> bool {
        self.requests.is_some_and(|n| n < 1000)
    }
}

fn form(arrivals: &str) -> Form {
    if arrivals == "coinciding" { Form::Square } else { Form::Disc }
}

/// The figure by itself.
///
/// # Errors
/// The bundled font cannot be used.
pub fn picture(crowd: &Crowd) -> Result<Picture> {
    let mut picture = Picture::default();
    let title = "Scalability: one high-priority server among best-effort servers";
    let y = page::begin(&mut picture, title, &crowd.facts, &crowd.banner())?;
    let y = panels(&mut picture, y, crowd)?;
    page::footnotes(&mut picture, y, &notes(crowd))?;
    Ok(picture)
}

/// Legend and both plots; returns the y below them.
///
/// # Errors
/// Text cannot be measured.
pub fn panels(picture: &mut Picture, y: i32, crowd: &Crowd) -> Result<i32> {
    let mut entries =
        vec![(Swatch::Dashes, "Alone".to_owned()), (Swatch::Box(OFFERED), "all that is offered".to_owned())];
    let mut known: Vec<&str> = Vec::new();
    for line in &crowd.lines {
        if !known.contains(&line.system.id.as_str()) {
            known.push(&line.system.id);
            entries.push((Swatch::Box(line.system.color), line.system.label.to_owned()));
        }
    }
    for pattern in crowd.patterns() {
        entries.push((Swatch::Point(GREY, form(pattern)), format!("{pattern} arrivals")));
    }
    let y = page::legend(picture, y, &entries)?;
    let most = crowd.numbers().map(|n| n.clients).max().unwrap_or(1);
    let x = Scale::Linear { max: most as f64 + 0.5, step: 1.0 };
    let ticks: Vec<(f64, String)> = (1..=most).map(|n| (n as f64, n.to_string())).collect();
    let top = |of: fn(&Number) -> Option<Spread>, least: Option<f64>| {
        let all = crowd.numbers().filter_map(of).map(|s| s.max).chain(least);
        Scale::linear(all.fold(0.0, f64::max), head(HEIGHT))
    };
    let offered = crowd.offered().map(|each| each * most as f64);
    let left = top(|n| n.p99_ms, crowd.alone_p99_ms);
    let right = top(|n| n.per_minute.map(thousands), offered.map(|all| all / 1000.0));
    let title = "servers in all";
    let mut below = y;
    for (i, left_edge, w) in Layout::new(2, 2).row(0) {
        let (name, axis, scale) = match i {
            0 => (format!("{}, high priority", inference_label(&crowd.inference)), "p99 latency (ms)", left),
            _ => ("all servers together".to_owned(), "1,000 requests/min", right),
        };
        picture.text(Text { bold: true, ..text(name, left_edge, y + 58, BODY + 3, Anchor::Start) });
        let chart = Chart::new((left_edge, y + 82), w, HEIGHT, x, scale);
        below = below.max(chart.frame(picture, axis, chart.tick_width()?, &ticks, title)?);
        if let (1, Some(each)) = (i, crowd.offered()) {
            // Wide and pale below the lines: who serves everything runs in its middle.
            let at = |n: u64| chart.at(n as f64, each / 1000.0 * n as f64);
            picture.line(at(1), at(most), 22, OFFERED);
        }
        for line in &crowd.lines {
            let point = |n: &Number| Point {
                x: n.clients as f64,
                y: if i == 0 { n.p99_ms } else { n.per_minute.map(thousands) },
                hollow: n.overloaded,
                few: i == 0 && n.few(),
            };
            let points: Vec<Point> = line.points.iter().map(point).collect();
            chart.line(picture, &points, line.system.color, form(&line.arrivals));
        }
        // Over the lines, which may be the same.
        if let (0, Some(alone)) = (i, crowd.alone_p99_ms) {
            chart.level(picture, alone);
        }
        chart.axes(picture);
    }
    Ok(below)
}

fn thousands(s: Spread) -> Spread {
    Spread { value: s.value / 1000.0, min: s.min / 1000.0, max: s.max / 1000.0 }
}

/// What a reader must know of the two plots.
pub fn notes(crowd: &Crowd) -> Vec<String> {
    let mut notes = vec![
        "p99: service time of all requests, as in upstream's run of N workloads. Requests per minute: of all servers, those \
         finished within the run."
            .to_owned(),
    ];
    if crowd.patterns().len() > 1 {
        notes.push(
            "Independent: every server has arrivals of its own. Coinciding: all replay one list, as upstream's do, so that \
             their requests arrive at the same time."
                .to_owned(),
        );
    }
    if crowd.facts.seeds.len() > 1 {
        notes.push(
            "Points: median of the seeds (requests: mean); upright lines: minimum to maximum.".to_owned(),
        );
    }
    if crowd.numbers().any(Number::few) {
        notes.push(page::FEW_RULE.to_owned());
    }
    if crowd.numbers().any(|n| n.overloaded) {
        notes.push(format!("Hollow: {}", page::OVERLOAD_RULE));
    }
    let lost: usize = crowd.numbers().map(|n| n.lost).sum();
    if lost > 0 {
        notes.push(format!("x: no number ({} cells failed or were skipped).", number(lost as f64, 0)));
    }
    notes
}

/// Exactly the numbers drawn, one row per point.
pub fn csv(crowd: &Crowd) -> String {
    let mut out = Csv::new(
        "backend machine inference load system arrivals clients rows_ok rows_lost overloaded requests alone_p99_ms p99_ms p99_min_ms \
         p99_max_ms offered_per_minute requests_per_minute requests_per_minute_min requests_per_minute_max",
    );
    for line in &crowd.lines {
        for n in &line.points {
            out.text(csv::backend(crowd.facts.backend)).text(&crowd.facts.machine).text(&crowd.inference);
            out.real(Some(crowd.facts.load)).text(&line.system.id).text(&line.arrivals);
            out.count(Some(n.clients)).count(Some(n.ok as u64)).count(Some(n.lost as u64));
            out.text(if n.overloaded { "true" } else { "false" }).count(n.requests);
            out.real(crowd.alone_p99_ms).spread(n.p99_ms);
            out.real(crowd.offered().map(|each| each * n.clients as f64)).spread(n.per_minute).end();
        }
    }
    out.finish()
}
