//! Service time against response time: p99 from start to end, and from planned arrival to end, of every pair.
//!
//! Upstream measures service time. A server that falls behind then looks better the later it starts a request
//! (coordinated omission), so each pair is a point here, and its distance from the diagonal is the waiting.

use anyhow::Result;

use crate::axis::Scale;
use crate::canvas::{Anchor, Picture, Rgb, Text};
use crate::chart::{self, Chart, Form};
use crate::csv::{self, Csv};
use crate::grid::Facts;
use crate::layout::Layout;
use crate::page::{self, Swatch};
use crate::pairs::few;
use crate::plot::{FEW, text};
use crate::records::{Kind, Record, Records, Status};
use crate::stats;
use crate::style::{BODY, GREY, INK, SMALL, Styles, inference_label, job_rank, number, system_rank};

const HEIGHT: i32 = 470;

/// One pair under one system with one seed, or the server alone with the same arrivals.
struct Dot<'a> {
    record: &'a Record,
    color: Rgb,
    service_ms: f64,
    e2e_ms: f64,
    /// p99 alone in a closed loop, ms.
    baseline_ms: f64,
}

impl Dot<'_> {
    /// Both as multiples of the baseline: service, end to end.
    fn ratios(&self) -> (f64, f64) {
        (self.service_ms / self.baseline_ms, self.e2e_ms / self.baseline_ms)
    }

    fn overloaded(&self) -> bool {
        self.record.overloaded == Some(true)
    }
}

/// All points, and what is said about them together.
pub struct Dots<'a> {
    dots: Vec<Dot<'a>>,
    facts: Facts,
    servers: Vec<String>,
    systems: Vec<String>,
    styles: Styles,
    /// Finished or failed pairs that lack one of the numbers.
    missing: usize,
    left_out: usize,
}

impl<'a> Dots<'a> {
    /// Takes the points from the table.
    ///
    /// # Errors
    /// See [`Facts::of`]; also a system without a style.
    pub fn of(records: &'a Records) -> Result<Dots<'a>> {
        let facts = Facts::of(records)?;
        let mut dots = Vec::new();
        let (mut missing, mut left_out) = (0, 0);
        let shown = |r: &&Record| match r.kind {
            Kind::Pair => r.system != "no-sharing",
            Kind::SoloPaced => r.system == "no-sharing",
            _ => false,
        };
        let mut drawn: Vec<&str> = records.rows.iter().filter(shown).map(|r| r.system.as_str()).collect();
        drawn.sort_by_key(|system| (system_rank(system), *system));
        let styles = Styles::of(drawn)?;
        for record in records.rows.iter().filter(shown) {
            let color = styles.get(&record.system)?.color;
            let baseline = record.baseline_p99_ms;
            match (record.service_p99_ns, record.e2e_p99_ns, baseline) {
                (Some(service), Some(e2e), Some(baseline_ms)) => dots.push(Dot {
                    record,
                    color,
                    service_ms: service / 1e6,
                    e2e_ms: e2e / 1e6,
                    baseline_ms,
                }),
                _ if record.status == Status::Skipped => left_out += 1,
                _ => missing += 1,
            }
        }
        let job = |r: &Record| r.inference.clone().unwrap_or_default();
        let mut servers: Vec<String> = dots.iter().map(|d| job(d.record)).collect();
        servers.sort_by(|a, b| (job_rank(a), a).cmp(&(job_rank(b), b)));
        servers.dedup();
        let pairs = dots.iter().filter(|d| d.record.kind == Kind::Pair);
        let mut systems: Vec<String> = pairs.map(|d| d.record.system.clone()).collect();
        systems.sort_by(|a, b| (system_rank(a), a).cmp(&(system_rank(b), b)));
        systems.dedup();
        // The server alone is drawn below the pairs, which its arms look out from.
        dots.sort_by_key(|d| d.record.kind == Kind::Pair);
        Ok(Dots { dots, facts, servers, systems, styles, missing, left_out })
    }

    fn of_server<'b>(&'b self, server: &'b str) -> impl Iterator<Item = &'b Dot<'a>> {
        self.dots.iter().filter(move |d| d.record.inference.as_deref() == Some(server))
    }

    /// How long the runs with an overloaded server lasted, for the note.
    fn spans(&self) -> String {
        let of = |server: &String| {
            let spans = self.of_server(server).filter(|d| d.overloaded()).filter_map(|d| d.record.span_ns);
            let seconds: Vec<f64> = spans.map(|ns| ns as f64 / 1e9).collect();
            let (min, max) = stats::range(&seconds)?;
            let name = inference_label(server).replace(" inference", "");
            let span = match number(min, 0) == number(max, 0) {
                true => format!("{} s", number(max, 0)),
                false => format!("{} to {} s", number(min, 0), number(max, 0)),
            };
            Some((name, span))
        };
        let spans: Vec<(String, String)> = self.servers.iter().filter_map(of).collect();
        match spans.first() {
            Some((_, first)) if spans.iter().all(|(_, span)| span == first) => first.clone(),
            _ => spans.iter().map(|(name, span)| format!("{name} {span}")).collect::<Vec<_>>().join(", "),
        }
    }
}

/// Lays the figure out.
///
/// # Errors
/// The bundled font cannot be used.
pub fn picture(dots: &Dots) -> Result<Picture> {
    let mut picture = Picture::default();
    let title = "Service time against response time: p99 of every pair";
    let counts: Vec<u64> = dots.dots.iter().filter_map(|d| d.record.e2e_n).collect();
    let requests = counts.iter().min().copied().zip(counts.iter().max().copied());
    let banner = page::banner_text(&dots.facts, requests);
    let y = page::begin(&mut picture, title, &dots.facts, &banner)?;
    let mut entries = vec![(Swatch::Mark("+", INK), "alone, same arrivals".to_owned())];
    for system in &dots.systems {
        let style = dots.styles.get(system)?;
        entries.push((Swatch::Dot(style.color, form(system)), style.label.to_owned()));
    }
    let mut y = page::legend(&mut picture, y, &entries)?;

    let column = |f: fn((f64, f64)) -> f64| dots.dots.iter().map(|d| f(d.ratios())).collect::<Vec<_>>();
    let (x0, x1) = stats::range(&column(|r| r.0)).unwrap_or((1.0, 10.0));
    let (y0, y1) = stats::range(&column(|r| r.1)).unwrap_or((1.0, 10.0));
    // So that the diagonal is in the picture.
    let y0 = y0.min(x0);
    let (x, upright) = (Scale::log(x0, x1, 0.04), Scale::log(y0, y1, 0.06));
    let layout = Layout::new(dots.servers.len(), 3);
    for row in 0..layout.rows() {
        let mut below = y;
        for (i, left, w) in layout.row(row) {
            let server = &dots.servers[i];
            let all_few = dots.of_server(server).all(|d| few(d.record.e2e_n));
            let name = inference_label(server) + if all_few { " †" } else { "" };
            picture.text(Text { bold: true, ..text(name, left, y + 52, BODY, Anchor::Start) });
            let chart = Chart::new((left, y + 72), w, HEIGHT, x, upright);
            let x_title = if row + 1 == layout.rows() { "service p99 / alone (log)" } else { "" };
            let ticks = chart.tick_width()?;
            let foot =
                chart.frame(&mut picture, "end-to-end p99 / alone (log)", ticks, &x.ticks(), x_title)?;
            below = below.max(foot);
            let (low, high) = (x.lowest().max(upright.lowest()), x1.min(y1));
            picture.line(chart.at(low, low), chart.at(high, high), 3, GREY);
            for dot in dots.of_server(server) {
                let (a, b) = dot.ratios();
                let at = chart.at(a, b);
                if dot.record.kind == Kind::SoloPaced {
                    cross(&mut picture, at);
                } else {
                    chart::point(&mut picture, at, dot.color, form(&dot.record.system), dot.overloaded());
                }
                if !all_few && few(dot.record.e2e_n) {
                    picture.text(text(FEW, at.0, at.1 - 16, SMALL, Anchor::Middle));
                }
            }
            chart.axes(&mut picture);
        }
        y = below;
    }
    page::footnotes(&mut picture, y, &notes(dots)?)?;
    Ok(picture)
}

/// As in the load sweep: rate control differs from the others in form as well.
pub fn form(system: &str) -> Form {
    if system.starts_with("tgs") { Form::Square } else { Form::Disc }
}

fn cross(picture: &mut Picture, at: (i32, i32)) {
    picture.rect(at.0 - 13, at.1 - 2, 26, 5, INK);
    picture.rect(at.0 - 2, at.1 - 13, 5, 26, INK);
}

fn notes(dots: &Dots) -> Result<Vec<String>> {
    let mut notes = vec![
        "Service: start of a request to its end. End to end: planned arrival to end, waiting included. Both over all \
         requests of a run, as multiples of the p99 alone in a closed loop; one point per pair, system and seed. On the \
         grey diagonal no request waits."
            .to_owned(),
    ];
    if dots.dots.iter().any(Dot::overloaded) {
        notes.push(format!(
            "Hollow: overloaded. The queue grows until the run ends, so the end-to-end p99 says how long that was ({}) and \
             is no property of the pair; such points belong in no average.",
            dots.spans()
        ));
    }
    if dots.dots.iter().any(|d| few(d.record.e2e_n)) {
        notes.push(page::FEW_RULE.to_owned());
    }
    for (n, what) in [(dots.missing, "without a number"), (dots.left_out, "left out by the planner")] {
        if n > 0 {
            notes.push(format!("Not shown: {n} {what}; reasons in the table of all pairs."));
        }
    }
    let styles = dots.systems.iter().map(|s| dots.styles.get(s)).collect::<Result<Vec<_>>>()?;
    let variants: Vec<&str> = styles.iter().map(|s| s.note).filter(|n| !n.is_empty()).collect();
    if !variants.is_empty() {
        notes.push(variants.join(" "));
    }
    Ok(notes)
}

/// Exactly the numbers drawn, one row per point.
pub fn csv(dots: &Dots) -> String {
    let mut out = Csv::new(
        "backend machine load inference training system seed span_s overloaded n few baseline_p99_ms service_p99_ms \
         e2e_p99_ms service_ratio e2e_ratio",
    );
    for server in &dots.servers {
        for dot in dots.of_server(server) {
            let r = dot.record;
            out.text(csv::backend(r.backend)).text(&r.machine).real(r.load).text(server);
            out.text(r.training.as_deref().unwrap_or_default()).text(&r.system).count(r.seed);
            out.real(r.span_ns.map(|ns| ns as f64 / 1e9));
            out.text(if dot.overloaded() { "true" } else { "false" });
            out.count(r.e2e_n).text(if few(r.e2e_n) { "true" } else { "false" });
            out.real(Some(dot.baseline_ms)).real(Some(dot.service_ms)).real(Some(dot.e2e_ms));
            out.real(Some(dot.ratios().0)).real(Some(dot.ratios().1)).end();
        }
    }
    out.finish()
}
