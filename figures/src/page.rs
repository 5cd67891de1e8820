//! What surrounds the plots of a figure: title, banner, legend and footnotes.

use anyhow::Result;

use crate::canvas::{Anchor, PAGE_WIDTH, Picture, Rgb, Text, text_width};
use crate::grid::{Facts, Grid};
use crate::plot::text;
use crate::records::Backend;
use crate::style::{BANNER_GPU, BANNER_SIM, BODY, GREY, INK, SMALL, TITLE};

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
}

/// What the banner says: where the numbers come from. The first word of a simulated one is SIMULATED.
pub fn banner_text(facts: &Facts, requests: Option<(u64, u64)>) -> String {
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
    format!("{origin}{incomplete} · load {} · arrivals: {traces} · {seeds}{behind}", facts.load)
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
    let mut y = 16 + TITLE;
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

/// Notes that every grid needs: marks, repeats and variants. `throughput`: whether the figure shows it.
pub fn grid_notes(grid: &Grid, throughput: bool) -> Vec<String> {
    let mut notes = Vec::new();
    let few = grid.requests().is_some_and(|r| r.0 < 1000);
    let mut rule =
        "p99: service time by upstream's rule (second half of the run, at most the last 5,000 requests)."
            .to_owned();
    if few {
        rule.push_str(" Below 1,000 requests a p99 is close to the maximum.");
    }
    if grid.facts.seeds.len() > 1 {
        let mean = if throughput { " (throughput: mean)" } else { "" };
        rule.push_str(&format!(" Bars: median of the seeds{mean}; whiskers: minimum to maximum."));
    }
    notes.push(rule);
    if grid.cells().any(|c| c.overloaded) {
        notes.push(
            "o: overloaded (requests arrive faster than they are served): service time leaves the growing queue out."
                .to_owned(),
        );
    }
    let sum = |f: fn(&crate::grid::Cell) -> usize| grid.cells().map(f).sum::<usize>();
    let (failed, skipped) = (sum(|c| c.failed), sum(|c| c.skipped));
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
