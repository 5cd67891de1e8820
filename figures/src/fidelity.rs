//! Simulated p99 slowdowns against published and measured ones, a point per pair of jobs and system.

use std::path::Path;

use anyhow::{Result, bail};

use crate::axis::Scale;
use crate::canvas::{Anchor, Picture, Text};
use crate::chart::{self, Chart};
use crate::csv::Csv;
use crate::fig9::form;
use crate::grid::Facts;
use crate::layout::Layout;
use crate::page::{self, Swatch};
use crate::plot::text;
use crate::records::Backend;
use crate::sheet;
use crate::stats;
use crate::style::{BODY, GREY, RULE, SystemStyle, style_of, system_rank};

const HEIGHT: i32 = 470;

/// Columns of the table, see docs/FORMATS.md.
const COLUMNS: &str = "source run profiles system simulated_system role inference training load seed known_slowdown \
    simulated_slowdown null_slowdown log_ratio null_log_ratio known_be_norm simulated_be_norm";

/// Edges of the grey band: a simulated slowdown of half and of twice the known one.
const FACTOR: f64 = 2.0;

/// One pair with both numbers.
struct Dot {
    panel: usize,
    style: SystemStyle,
    /// `validation`, or a role that is no test of the model.
    role: String,
    run: String,
    inference: String,
    training: String,
    load: Option<f64>,
    seed: String,
    known: f64,
    simulated: f64,
}

impl Dot {
    fn is_test(&self) -> bool {
        self.role == "validation"
    }
}

/// All points of `fidelity-pairs.csv`.
pub struct Known {
    /// Source and set of recordings.
    panels: Vec<(String, String)>,
    dots: Vec<Dot>,
    /// Known pairs without a simulated number.
    missing: usize,
}

impl Known {
    /// Takes the points from the table.
    ///
    /// # Errors
    /// See [`sheet::read`]; and a slowdown that is no positive number, or a system without a style.
    pub fn read(path: &Path) -> Result<Known> {
        let mut known = Known { panels: Vec::new(), dots: Vec::new(), missing: 0 };
        let columns: Vec<&str> = COLUMNS.split_whitespace().collect();
        for row in sheet::read(path, &columns)? {
            let panel = (row.required("source")?, row.required("profiles")?);
            let text = |column: &str| row.shown(column).to_owned();
            let (of, simulated) = (row.time("known_slowdown")?, row.time("simulated_slowdown")?);
            let Some((of, simulated)) = of.zip(simulated) else {
                known.missing += 1;
                continue;
            };
            let at = known.panels.iter().position(|other| *other == panel).unwrap_or_else(|| {
                known.panels.push(panel);
                known.panels.len() - 1
            });
            known.dots.push(Dot {
                panel: at,
                style: style_of(&row.required("simulated_system")?)?,
                role: text("role"),
                run: text("run"),
                inference: text("inference"),
                training: text("training"),
                load: row.real("load", 0.0)?,
                seed: text("seed"),
                known: of,
                simulated,
            });
        }
        if known.dots.is_empty() {
            bail!("fidelity-pairs.csv: no pair has both slowdowns; next: run `cargo xtask fidelity`");
        }
        Ok(known)
    }

    fn of_panel(&self, panel: usize) -> impl Iterator<Item = &Dot> {
        self.dots.iter().filter(move |dot| dot.panel == panel)
    }

    fn systems(&self) -> Vec<&SystemStyle> {
        let mut systems: Vec<&SystemStyle> = self.dots.iter().map(|dot| &dot.style).collect();
        systems.sort_by(|a, b| (system_rank(&a.id), &a.id).cmp(&(system_rank(&b.id), &b.id)));
        systems.dedup_by(|a, b| a.id == b.id);
        systems
    }
}

/// The name of a panel; the banner says which GPU was measured by whom.
fn name((source, profiles): &(String, String)) -> String {
    let source = match source.as_str() {
        "published" => "A100",
        "measured" => "H200",
        "folder" => "run folder",
        other => other,
    };
    format!("{source}, {profiles} profiles")
}

/// Lays out a plot per source and set of recordings.
///
/// # Errors
/// The bundled font cannot be used.
pub fn picture(known: &Known) -> Result<Picture> {
    let mut picture = Picture::default();
    let facts = Facts {
        backend: Backend::Sim,
        machine: String::new(),
        load: 0.0,
        traces: Vec::new(),
        seeds: Vec::new(),
        incomplete: known.missing > 0,
    };
    let incomplete = if known.missing > 0 { " · INCOMPLETE RUN" } else { "" };
    let banner = format!(
        "SIMULATED{incomplete} (upright axis), against known slowdowns: published ones (A100) and measured ones (H200) · {} pairs",
        known.dots.len()
    );
    let y = page::begin(&mut picture, "Simulated slowdowns beside known ones", &facts, &banner)?;
    let systems = known.systems().into_iter();
    let entries: Vec<_> = systems.map(|s| (Swatch::Dot(s.color, form(&s.id)), s.label.clone())).collect();
    let mut y = page::legend(&mut picture, y, &entries)?;
    let layout = Layout::new(known.panels.len(), 3);
    for row in 0..layout.rows() {
        let mut below = y;
        for (i, left, w) in layout.row(row) {
            let heading = text(name(&known.panels[i]), left, y + 52, BODY, Anchor::Start);
            picture.text(Text { bold: true, ..heading });
            below = below.max(panel(&mut picture, known, i, (left, y + 72), w)?);
        }
        y = below;
    }
    page::footnotes(&mut picture, y, &notes(known))?;
    Ok(picture)
}

/// One plot, both axes alike; returns the y below it.
fn panel(picture: &mut Picture, known: &Known, panel: usize, at: (i32, i32), w: i32) -> Result<i32> {
    let values: Vec<f64> = known.of_panel(panel).flat_map(|dot| [dot.known, dot.simulated]).collect();
    let (min, max) = stats::range(&values).unwrap_or((1.0, 10.0));
    let scale = Scale::log(min, max, 0.05);
    let chart = Chart::new(at, w, HEIGHT, scale, scale);
    let width = chart.tick_width()?;
    let below = chart.frame(picture, "simulated (log)", width, &scale.ticks(), "known p99 / alone (log)")?;
    let (low, high) = (scale.lowest(), max);
    if low * FACTOR < high {
        picture.line(chart.at(low, low * FACTOR), chart.at(high / FACTOR, high), 3, RULE);
        picture.line(chart.at(low * FACTOR, low), chart.at(high, high / FACTOR), 3, RULE);
    }
    picture.line(chart.at(low, low), chart.at(high, high), 3, GREY);
    for dot in known.of_panel(panel) {
        let at = chart.at(dot.known, dot.simulated);
        chart::point(picture, at, dot.style.color, form(&dot.style.id), !dot.is_test());
    }
    chart.axes(picture);
    Ok(below)
}

fn notes(known: &Known) -> Vec<String> {
    let tests = known.dots.iter().filter(|dot| dot.is_test());
    let near = |dot: &&Dot| (1.0 / FACTOR..=FACTOR).contains(&(dot.simulated / dot.known));
    let mut notes = vec![format!(
        "Slowdown: p99 over that of the server alone; one point per pair of jobs and system. On the diagonal both are equal; \
         between the pale lines the simulated one is within a factor of {FACTOR}, as {} of {} full points are.",
        tests.clone().filter(near).count(),
        tests.count()
    )];
    if known.dots.iter().any(|dot| !dot.is_test()) {
        notes.push(
            "Hollow: no test of the model. Constants were set by these rows, or they belong to another system.".to_owned(),
        );
    }
    if known.missing > 0 {
        notes.push(format!("Not shown: {} known pairs without a simulated number.", known.missing));
    }
    notes
}

/// Exactly the numbers drawn, one row per point.
pub fn csv(known: &Known) -> String {
    let mut out = Csv::new(
        "source profiles run simulated_system role inference training load seed known_slowdown simulated_slowdown",
    );
    for dot in &known.dots {
        let (source, profiles) = &known.panels[dot.panel];
        out.text(source).text(profiles).text(&dot.run).text(&dot.style.id).text(&dot.role);
        out.text(&dot.inference).text(&dot.training).real(dot.load).text(&dot.seed);
        out.real(Some(dot.known)).real(Some(dot.simulated)).end();
    }
    out.finish()
}
