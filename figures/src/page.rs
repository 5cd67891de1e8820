//! What surrounds the plots of a figure: title, banner, legend and footnotes.

use std::collections::BTreeSet;

use anyhow::Result;

use crate::canvas::{Anchor, PAGE_WIDTH, Picture, Rgb, Text, text_width};
use crate::chart::{self, Form};
use crate::grid::{Cell, Facts, Grid};
use crate::plot::text;
use crate::records::Backend;
use crate::style::{BANNER_GPU, BANNER_SIM, BODY, GREY, INK, SMALL, SystemStyle, TITLE};

/// Space left and right of everything, px.
pub const MARGIN: i32 = 24;

/// One entry of a legend.
pub enum Swatch {
    Box(Rgb),
    /// A pale filling with a dark edge.
    Outlined {
        fill: Rgb,
        edge: Rgb,
    },
    Dashes,
    /// A point on a line.
    Point(Rgb, Form),
    /// A point by itself.
    Dot(Rgb, Form),
    /// A letter.
    Mark(&'static str, Rgb),
}

/// What the banner says: where the numbers come from. The first word of a simulated one is SIMULATED.
pub fn banner_text(facts: &Facts, requests: Option<(u64, u64)>) -> String {
    banner(facts, &format!("load {}", facts.load), requests)
}

/// As [`banner_text`] for a picture of several loads, which `loads` names.
pub fn banner(facts: &Facts, loads: &str, requests: Option<(u64, u64)>) -> String {
    let origin = match facts.backend {
        Backend::Sim => format!("SIMULATED ({} model)", facts.machine),
        Backend::Gpu => format!("Measured on {}", facts.machine),
    };
    let traces = if facts.traces.is_empty() { "not labelled".to_owned() } else { facts.traces.join("; ") };
    let behind = match requests {
        Some((a, b)) if a == b => format!(" · {} requests behind each p99", count(a)),
        Some((a, b)) => format!(" · {} to {} requests behind each p99", count(a), count(b)),
        None => String::new(),
    };
    let seeds = match facts.seeds.len() {
        1 => "1 seed (arrivals)".to_owned(),
        n => format!("{n} seeds (arrival variance only)"),
    };
    let incomplete = if facts.incomplete { " · INCOMPLETE RUN" } else { "" };
    format!("{origin}{incomplete} · {loads} · arrivals: {traces} · {seeds}{behind}")
}

fn count(n: u64) -> String {
    crate::style::number(n as f64, 0)
}

/// Starts a page: title and banner. Returns the y below them.
///
/// # Errors
/// Text cannot be measured.
pub fn begin(picture: &mut Picture, title: &str, facts: &Facts, banner: &str) -> Result<i32> {
    picture.width = PAGE_WIDTH;
    picture.title = format!("{title}. {banner}");
    section(picture, 16, title, facts, banner)
}

/// Title and banner of a further part of a page. Returns the y below them.
///
/// # Errors
/// Text cannot be measured.
pub fn section(picture: &mut Picture, y: i32, title: &str, facts: &Facts, banner: &str) -> Result<i32> {
    let mut y = y + TITLE;
    picture.text(Text { bold: true, ..text(title, MARGIN, y, TITLE, Anchor::Start) });
    y += 18;
    let lines = wrap(banner, SMALL, true, PAGE_WIDTH - 2 * MARGIN - 32)?;
    let height = lines.len() as i32 * (SMALL + 10) + 16;
    let (fill, edge) = match facts.backend {
        Backend::Sim => (BANNER_SIM, Rgb(0xC9, 0x8A, 0x00)),
        Backend::Gpu => (BANNER_GPU, Rgb(0x4B, 0x8B, 0x6B)),
    };
    picture.rect(MARGIN, y, PAGE_WIDTH - 2 * MARGIN, height, fill);
    picture.rect(MARGIN, y, 10, height, edge);
    for (i, line) in lines.into_iter().enumerate() {
        let at = y + 8 + (i as i32 + 1) * (SMALL + 10) - 9;
        picture.text(Text { bold: true, ..text(line, MARGIN + 24, at, SMALL, Anchor::Start) });
    }
    Ok(y + height)
}

/// Draws a legend from `y`, in as many rows as it needs. Returns the y below it.
///
/// # Errors
/// Text cannot be measured.
pub fn legend(picture: &mut Picture, y: i32, entries: &[(Swatch, String)]) -> Result<i32> {
    let (box_w, gap) = (40, 40);
    let mut widths = Vec::new();
    for (_, label) in entries {
        widths.push(box_w + 12 + text_width(label, BODY, false)? + gap);
    }
    let (mut x, mut top) = (MARGIN, y + 18);
    for ((swatch, label), width) in entries.iter().zip(widths) {
        if x > MARGIN && x + width - gap > PAGE_WIDTH - MARGIN {
            x = MARGIN;
            top += BODY + 16;
        }
        match swatch {
            Swatch::Box(color) => picture.rect(x, top + 2, box_w, BODY - 4, *color),
            Swatch::Outlined { fill, edge } => {
                picture.rect(x, top + 2, box_w, BODY - 4, *edge);
                picture.rect(x + 2, top + 4, box_w - 4, BODY - 8, *fill);
            }
            Swatch::Point(color, form) => {
                let middle = (x + box_w / 2, top + BODY / 2);
                picture.line((x, middle.1), (x + box_w, middle.1), 4, *color);
                chart::point(picture, middle, *color, *form, false);
            }
            Swatch::Dot(color, form) => {
                chart::point(picture, (x + box_w / 2, top + BODY / 2), *color, *form, false);
            }
            Swatch::Mark(mark, color) => {
                let at = (x + box_w / 2, top + BODY - 5);
                let letter = text(*mark, at.0, at.1, BODY, Anchor::Middle);
                picture.text(Text { bold: true, color: *color, ..letter });
            }
            Swatch::Dashes => picture.dashes(x, x + box_w, top + BODY / 2, INK),
        }
        picture.text(text(label.clone(), x + box_w + 12, top + BODY - 5, BODY, Anchor::Start));
        x += width;
    }
    Ok(top + BODY)
}

/// Writes the footnotes from `y` and closes the page below them.
///
/// # Errors
/// Text cannot be measured.
pub fn footnotes(picture: &mut Picture, y: i32, notes: &[String]) -> Result<()> {
    let mut y = y + 12;
    for note in notes {
        for line in wrap(note, SMALL, false, PAGE_WIDTH - 2 * MARGIN)? {
            y += SMALL + 9;
            picture.text(Text { color: GREY, ..text(line, MARGIN, y, SMALL, Anchor::Start) });
        }
    }
    picture.height = y + 20;
    Ok(())
}

/// What a p99 is in every figure.
pub const P99_RULE: &str =
    "p99: service time by upstream's rule (second half of the run, at most the last 5,000 requests).";

/// What the dagger says.
pub const FEW_RULE: &str = "†: fewer than 1,000 requests behind the p99, which is then close to the maximum.";

/// What it means that a cell is marked as overloaded.
pub const OVERLOAD_RULE: &str =
    "overloaded (requests arrive faster than they are served): service time leaves the growing queue out.";

/// Notes that every grid needs: marks, repeats and variants. `throughput`: whether the figure shows it.
pub fn grid_notes(grid: &Grid, throughput: bool) -> Vec<String> {
    let mut notes = Vec::new();
    let mut rule = P99_RULE.to_owned();
    if grid.facts.seeds.len() > 1 {
        let mean = if throughput { " (throughput: mean)" } else { "" };
        rule.push_str(&format!(" Bars: median of the seeds{mean}; whiskers: minimum to maximum."));
    }
    notes.push(rule);
    if grid.cells().any(Cell::few) {
        notes.push(FEW_RULE.to_owned());
    }
    if grid.cells().any(|c| c.overloaded) {
        notes.push(format!("o: {OVERLOAD_RULE}"));
    }
    let sum = |f: fn(&crate::grid::Cell) -> usize| grid.cells().map(f).sum::<usize>();
    let reasons: BTreeSet<&str> =
        grid.panels.iter().flat_map(|p| &p.groups).filter_map(|g| g.left_out()).collect();
    for reason in reasons {
        notes.push(format!("{reason}: left out by the planner; the table of all pairs says why."));
    }
    let of_groups = |f: fn(&crate::grid::Group) -> usize| {
        grid.panels.iter().flat_map(|p| &p.groups).map(f).sum::<usize>()
    };
    let whole = of_groups(|g| match g.left_out() {
        Some(_) => g.cells.iter().flatten().map(|c| c.skipped).sum(),
        None => 0,
    });
    let (failed, skipped) = (sum(|c| c.failed), sum(|c| c.skipped) - whole);
    let empty = sum(|c| c.ok).saturating_sub(sum(|c| if c.has_numbers() { c.ok } else { 0 }));
    let parts: Vec<String> =
        [(failed, "failed"), (skipped, "skipped by the planner"), (empty, "without a number")]
            .iter()
            .filter(|(n, _)| *n > 0)
            .map(|(n, what)| format!("{n} {what}"))
            .collect();
    if !parts.is_empty() {
        notes.push(format!("x: no number ({}); reasons in the table of all pairs.", parts.join(", ")));
    }
    let variants: Vec<&str> = grid.systems.iter().map(|s| s.note).filter(|n| !n.is_empty()).collect();
    if !variants.is_empty() {
        notes.push(variants.join(" "));
    }
    notes
}

/// Notes that figures with lines need: what a point is, and the marks that occur.
pub fn line_notes(grids: &[&Grid], systems: &[&SystemStyle]) -> Vec<String> {
    let cells = || grids.iter().flat_map(|g| g.cells());
    let mut rule = format!("{P99_RULE} Best effort: throughput of the training job, alone = 1.");
    if grids.iter().any(|g| g.facts.seeds.len() > 1) {
        rule.push_str(" Points: median of the seeds (throughput: mean); upright lines: minimum to maximum.");
    }
    let mut notes = vec![rule];
    if cells().any(Cell::few) {
        notes.push(FEW_RULE.to_owned());
    }
    if cells().any(|c| c.overloaded) {
        notes.push(format!("Hollow: {OVERLOAD_RULE}"));
    }
    if cells().any(|c| c.p99_ms.is_none() || c.be_norm.is_none()) {
        notes.push("x: no number; the reason stands in the table of the experiment.".to_owned());
    }
    let variants: Vec<&str> = systems.iter().map(|s| s.note).filter(|n| !n.is_empty()).collect();
    if !variants.is_empty() {
        notes.push(variants.join(" "));
    }
    notes
}

/// Breaks a text at spaces into lines of at most `width` px.
fn wrap(content: &str, em: i32, bold: bool, width: i32) -> Result<Vec<String>> {
    let mut lines: Vec<String> = Vec::new();
    for word in content.split(' ') {
        match lines.last_mut() {
            Some(line) if text_width(&format!("{line} {word}"), em, bold)? <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    Ok(lines)
}
