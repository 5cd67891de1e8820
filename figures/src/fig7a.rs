//! Performance decomposition, panel a: p99 without scheduling, without transformation, and with both.

use anyhow::Result;

use crate::axis::Scale;
use crate::canvas::{Anchor, PAGE_WIDTH, Picture};
use crate::fig5::{heading, latency_range};
use crate::grid::{Grid, Panel};
use crate::page::{self, MARGIN, Swatch};
use crate::plot::{Columns, Marks, Plot, group_names, head, text};
use crate::style::{BODY, short_job, style_of};

const HEIGHT: i32 = 540;
const AXIS_ROOM: i32 = 150;

/// Lays the figure out. The axis is logarithmic, as upstream's.
///
/// # Errors
/// The bundled font cannot be used.
pub fn picture(grid: &Grid) -> Result<Picture> {
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
    let slot = (PAGE_WIDTH - MARGIN) / grid.panels.len().max(1) as i32;
    let mut below = y;
    for (i, panel) in grid.panels.iter().enumerate() {
        let x = slot * i as i32 + AXIS_ROOM;
        // One bar more than systems: the baseline.
        let columns = Columns::new(x, slot - AXIS_ROOM, panel.groups.len(), grid.systems.len() + 1);
        heading(&mut picture, &columns, y + 58, panel)?;
        let (min, max) = latency_range(panel).unwrap_or((1.0, 10.0));
        let plot = Plot { columns, y: y + 82, h: HEIGHT, scale: Scale::log(min, max, head(HEIGHT)) };
        bars(&mut picture, &plot, grid, panel)?;
        let names: Vec<&str> = panel.groups.iter().map(|g| short_job(&g.training)).collect();
        let foot = plot.y + plot.h + 8;
        let used = group_names(&mut picture, &columns, foot, &names)?;
        below = below.max(foot + used);
    }
    for i in 0..grid.panels.len() as i32 {
        let middle = slot * i + AXIS_ROOM + (slot - AXIS_ROOM) / 2;
        picture.text(text("best-effort training job", middle, below + BODY + 8, BODY, Anchor::Middle));
    }
    let mut notes = page::grid_notes(grid, false);
    notes.push(PANEL_B.to_owned());
    page::footnotes(&mut picture, below + BODY + 12, &notes)?;
    Ok(picture)
}

/// What is said wherever the figure is drawn or named.
pub const PANEL_B: &str = "Panel b is not part of this version's data.";

fn bars(picture: &mut Picture, plot: &Plot, grid: &Grid, panel: &Panel) -> Result<()> {
    plot.frame(picture, "p99 latency (ms, log)", plot.tick_width()?);
    let baseline_color = style_of("no-sharing")?.color;
    let plain = Marks { overloaded: false, missing: panel.baseline_p99_ms.is_none() };
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
        for (s, cell) in group.cells.iter().enumerate() {
            if let Some(cell) = cell {
                let marks = Marks { overloaded: cell.overloaded, missing: cell.has_gap() };
                plot.marks(picture, (g, s + 1), cell.p99_ms.map(|p| p.max), marks, 3)?;
            }
        }
    }
    plot.axes(picture);
    Ok(())
}
