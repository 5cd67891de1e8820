//! Performance decomposition, panel a: p99 without scheduling, without transformation, and with both.

use anyhow::Result;

use crate::axis::Scale;
use crate::canvas::{Anchor, Picture};
use crate::crowd::{self, Crowd};
use crate::fig5::{heading, latency_range, marks};
use crate::grid::{Grid, Panel};
use crate::layout::Layout;
use crate::page::{self, Swatch};
use crate::plot::{Columns, Marks, Plot, group_names, head, text};
use crate::style::{BODY, short_job, style_of};

/// Height of a plot, px.
pub const HEIGHT: i32 = 540;

/// Lays the figure out. The axis is logarithmic, as upstream's.
///
/// # Errors
/// The bundled font cannot be used.
pub fn picture(grid: &Grid, crowd: Option<&Crowd>) -> Result<Picture> {
    let mut picture = Picture::default();
    let title = "Performance decomposition (a): p99 latency without scheduling or transformation";
    let banner = page::banner_text(&grid.facts, grid.requests());
    let y = page::begin(&mut picture, title, &grid.facts, &banner)?;
    let mut entries = vec![(Swatch::Box(style_of("no-sharing")?.color), "Baseline (alone)".to_owned())];
    for system in &grid.systems {
        let label = if system.id == "tally" { "Tally (both)" } else { &system.label };
        entries.push((Swatch::Box(system.color), label.to_owned()));
    }
    let y = page::legend(&mut picture, y, &entries)?;
    let below = panels(&mut picture, y, grid, |(min, max)| Scale::log(min, max, head(HEIGHT)))?;
    let mut notes = page::grid_notes(grid, false);
    let Some(crowd) = crowd else {
        notes.push(PANEL_B.to_owned());
        page::footnotes(&mut picture, below, &notes)?;
        return Ok(picture);
    };
    let title = "Scalability (b): one high-priority server among best-effort servers";
    let y = page::section(&mut picture, below + 30, title, &crowd.facts, &crowd.banner())?;
    let below = crowd::panels(&mut picture, y, crowd)?;
    notes.iter_mut().for_each(|note| note.insert_str(0, "(a) "));
    notes.extend(crowd::notes(crowd).into_iter().map(|note| format!("(b) {note}")));
    page::footnotes(&mut picture, below, &notes)?;
    Ok(picture)
}

/// What is said wherever the figure is drawn or named.
pub const PANEL_B: &str = "Panel b: run the experiment fig7b too.";

/// One panel per server: for each training a bar alone and one under each system. Returns the y below them.
///
/// # Errors
/// Text cannot be measured.
pub fn panels(
    picture: &mut Picture,
    y: i32,
    grid: &Grid,
    scale: impl Fn((f64, f64)) -> Scale,
) -> Result<i32> {
    let layout = Layout::new(grid.panels.len(), 2);
    let mut y = y;
    for row in 0..layout.rows() {
        let mut below = y;
        for (i, x, w) in layout.row(row) {
            let panel = &grid.panels[i];
            // One bar more than systems: the baseline.
            let columns = Columns::new(x, w, panel.groups.len(), grid.systems.len() + 1);
            heading(picture, &columns, y + 58, panel)?;
            let scale = scale(latency_range(panel).unwrap_or((1.0, 10.0)));
            let plot = Plot { columns, y: y + 82, h: HEIGHT, scale };
            bars(picture, &plot, grid, panel)?;
            let names: Vec<&str> = panel.groups.iter().map(|g| short_job(&g.training)).collect();
            let foot = plot.y + plot.h + 8;
            below = below.max(foot + group_names(picture, &columns, foot, &names)?);
        }
        y = below;
    }
    for (_, x, w) in layout.row(layout.rows() - 1) {
        picture.text(text("best-effort training job", x + w / 2, y + BODY + 8, BODY, Anchor::Middle));
    }
    Ok(y + BODY + 12)
}

fn bars(picture: &mut Picture, plot: &Plot, grid: &Grid, panel: &Panel) -> Result<()> {
    let log = matches!(plot.scale, Scale::Log { .. });
    plot.frame(picture, if log { "p99 latency (ms, log)" } else { "p99 latency (ms)" }, plot.tick_width()?);
    let baseline_color = style_of("no-sharing")?.color;
    let plain = Marks { overloaded: false, missing: panel.baseline_p99_ms.is_none(), few: false };
    for (g, group) in panel.groups.iter().enumerate() {
        if let Some(baseline) = panel.baseline_p99_ms {
            plot.bar(picture, g, 0, baseline, baseline_color);
        }
        for (s, cell) in group.cells.iter().enumerate() {
            if let Some(p99) = cell.as_ref().and_then(|c| c.p99_ms) {
                plot.bar(picture, g, s + 1, p99.value, grid.systems[s].color);
                plot.whisker(picture, g, s + 1, &p99);
            }
        }
    }
    if let Some(baseline) = panel.baseline_p99_ms {
        plot.level(picture, baseline);
    }
    for (g, group) in panel.groups.iter().enumerate() {
        plot.marks(picture, (g, 0), panel.baseline_p99_ms, plain, 3)?;
        if let Some(reason) = group.left_out() {
            plot.left_out(picture, g, reason);
            continue;
        }
        for (s, cell) in group.cells.iter().enumerate() {
            if let Some(cell) = cell {
                plot.marks(picture, (g, s + 1), cell.p99_ms.map(|p| p.max), marks(panel, cell), 3)?;
            }
        }
    }
    plot.axes(picture);
    Ok(())
}
