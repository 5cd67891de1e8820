//! The end-to-end grid: p99 latency and system throughput of every pair under every system.
//!
//! One column per inference job; above the p99, below the throughput of both jobs, stacked.

use anyhow::Result;

use crate::axis::Scale;
use crate::canvas::{Anchor, Picture, Text, text_width};
use crate::csv::Csv;
use crate::grid::{Cell, Grid, Panel};
use crate::layout::Layout;
use crate::page::{self, Swatch};
use crate::plot::{Columns, FEW, Marks, Plot, group_names, head, text};
use crate::style::{BEST_EFFORT_TINT, BODY, GREY, INK, inference_label, number, short_job};

/// Lays the figure out.
///
/// # Errors
/// The bundled font cannot be used.
pub fn picture(grid: &Grid) -> Result<Picture> {
    let mut picture = Picture::default();
    let title = "End to end: p99 latency and system throughput";
    let banner = page::banner_text(&grid.facts, grid.requests());
    let y = page::begin(&mut picture, title, &grid.facts, &banner)?;
    let y = page::legend(&mut picture, y, &legend(grid))?;

    let log = grid.panels.iter().filter_map(latency_range).any(|(min, max)| Scale::wants_log(min, max));
    let layout = Layout::new(grid.panels.len(), 2);
    let heights = if layout.rows() == 1 { (500, 400) } else { (320, 240) };
    let top = grid.cells().filter_map(|c| c.system_throughput.map(|t| t.max)).fold(1.0, f64::max);
    let throughput = Scale::linear(top, head(heights.1));
    let mut y = y;
    for row in 0..layout.rows() {
        let mut below = y;
        for (i, x, w) in layout.row(row) {
            let panel = &grid.panels[i];
            let columns = Columns::new(x, w, panel.groups.len(), grid.systems.len());
            heading(&mut picture, &columns, y + 58, panel)?;
            let (min, max) = latency_range(panel).unwrap_or((1.0, 1.0));
            let scale =
                if log { Scale::log(min, max, head(heights.0)) } else { Scale::linear(max, head(heights.0)) };
            let upper = Plot { columns, y: y + 82, h: heights.0, scale };
            let lower = Plot { columns, y: upper.y + upper.h + 36, h: heights.1, scale: throughput };
            let ticks = upper.tick_width()?.max(lower.tick_width()?);
            upper.frame(&mut picture, if log { "p99 latency (ms, log)" } else { "p99 latency (ms)" }, ticks);
            lower.frame(
                &mut picture,
                if layout.rows() == 1 { "throughput (alone = 1)" } else { "throughput" },
                ticks,
            );
            latency(&mut picture, &upper, grid, panel)?;
            stacked(&mut picture, &lower, grid, panel)?;
            let names: Vec<&str> = panel.groups.iter().map(|g| short_job(&g.training)).collect();
            let foot = lower.y + lower.h + 8;
            let used = group_names(&mut picture, &columns, foot, &names)?;
            below = below.max(foot + used);
        }
        y = below;
    }
    for (_, x, w) in layout.row(layout.rows() - 1) {
        let middle = x + w / 2;
        picture.text(text("best-effort training job", middle, y + BODY + 8, BODY, Anchor::Middle));
    }
    let below = y;
    page::footnotes(&mut picture, below + BODY + 12, &page::grid_notes(grid, true))?;
    Ok(picture)
}

fn legend(grid: &Grid) -> Vec<(Swatch, String)> {
    let mut entries = vec![(Swatch::Dashes, "Baseline (alone)".to_owned())];
    entries.extend(grid.systems.iter().map(|s| (Swatch::Box(s.color), s.label.to_owned())));
    entries.push((Swatch::Box(GREY), "high priority (lower part)".to_owned()));
    let fill = GREY.tint(BEST_EFFORT_TINT);
    entries.push((Swatch::Outlined { fill, edge: GREY }, "best effort (upper part)".to_owned()));
    entries
}

/// Smallest and largest latency of a panel, the baseline included.
pub fn latency_range(panel: &Panel) -> Option<(f64, f64)> {
    let mut values: Vec<f64> = panel.baseline_p99_ms.into_iter().collect();
    for spread in panel.groups.iter().flat_map(|g| &g.cells).flatten().filter_map(|c| c.p99_ms) {
        values.extend([spread.min, spread.max]);
    }
    crate::stats::range(&values)
}

/// Name of the inference job and its baseline, above a column of plots.
pub fn heading(picture: &mut Picture, columns: &Columns, y: i32, panel: &Panel) -> Result<()> {
    let (size, right) = (BODY + 3, columns.x + columns.w);
    let mut free = right;
    if let Some(baseline) = panel.baseline_p99_ms {
        let label = format!("alone {} ms", number(baseline, 3));
        free -= text_width(&label, BODY, false)? + 74;
        picture.dashes(free, free + 60, y - 10, INK);
        picture.text(text(label, right, y, BODY, Anchor::End));
    }
    let mark = if panel.few() { format!(" {FEW}") } else { String::new() };
    let mut name = inference_label(&panel.inference);
    if columns.x + text_width(&format!("{name}{mark}"), size, true)? + 16 > free {
        name = name.replace(" inference", "");
    }
    picture.text(Text { bold: true, ..text(name + &mark, columns.x, y, size, Anchor::Start) });
    Ok(())
}

/// The marks of a cell of this panel.
pub fn marks(panel: &Panel, cell: &Cell) -> Marks {
    Marks { overloaded: cell.overloaded, missing: cell.has_gap(), few: cell.few() && !panel.few() }
}

fn latency(picture: &mut Picture, plot: &Plot, grid: &Grid, panel: &Panel) -> Result<()> {
    let each = || {
        let there = panel.groups.iter().enumerate().filter(|(_, group)| group.left_out().is_none());
        there.flat_map(|(g, group)| {
            group.cells.iter().enumerate().filter_map(move |(s, cell)| Some((g, s, cell.as_ref()?)))
        })
    };
    for (g, s, cell) in each() {
        if let Some(p99) = cell.p99_ms {
            plot.bar(picture, g, s, p99.value, grid.systems[s].color);
            plot.whisker(picture, g, s, &p99);
        }
    }
    // Over the bars, so that it shows how far each of them rises above it.
    if let Some(baseline) = panel.baseline_p99_ms {
        plot.level(picture, baseline);
    }
    for (g, group) in panel.groups.iter().enumerate() {
        if let Some(reason) = group.left_out() {
            plot.left_out(picture, g, reason);
        }
    }
    for (g, s, cell) in each() {
        plot.marks(picture, (g, s), cell.p99_ms.map(|p| p.max), marks(panel, cell), 3)?;
    }
    plot.axes(picture);
    Ok(())
}

fn stacked(picture: &mut Picture, plot: &Plot, grid: &Grid, panel: &Panel) -> Result<()> {
    for (g, group) in panel.groups.iter().enumerate() {
        if let Some(reason) = group.left_out() {
            plot.left_out(picture, g, reason);
            continue;
        }
        for (s, cell) in group.cells.iter().enumerate() {
            let Some(cell) = cell else { continue };
            let color = grid.systems[s].color;
            if let (Some(hp), Some(be)) = (cell.hp_norm, cell.be_norm) {
                let pale = color.tint(BEST_EFFORT_TINT);
                plot.piece(picture, (g, s), 0.0, hp.value, color, color);
                plot.piece(picture, (g, s), hp.value, hp.value + be.value, pale, color);
            }
            if let Some(total) = cell.system_throughput {
                plot.whisker(picture, g, s, &total);
            }
            let top = cell.system_throughput.map(|t| t.max);
            plot.marks(
                picture,
                (g, s),
                top,
                Marks { overloaded: false, few: false, ..marks(panel, cell) },
                2,
            )?;
        }
    }
    plot.axes(picture);
    Ok(())
}

/// Exactly the numbers drawn, one row per cell.
pub fn csv(grid: &Grid) -> String {
    let mut csv = Csv::new(
        "backend machine load inference training system rows_ok rows_failed rows_skipped left_out overloaded \
         requests_min requests_max p99_few baseline_p99_ms p99_ms p99_min_ms p99_max_ms hp_norm be_norm \
         system_throughput system_throughput_min system_throughput_max",
    );
    for panel in &grid.panels {
        for group in &panel.groups {
            for (system, cell) in grid.systems.iter().zip(&group.cells) {
                let Some(c) = cell else { continue };
                csv.text(crate::csv::backend(grid.facts.backend))
                    .text(&grid.facts.machine)
                    .real(Some(grid.facts.load));
                csv.text(&panel.inference).text(&group.training).text(system.id);
                csv.count(Some(c.ok as u64)).count(Some(c.failed as u64)).count(Some(c.skipped as u64));
                csv.text(c.left_out.as_deref().unwrap_or_default());
                csv.text(if c.overloaded { "true" } else { "false" });
                csv.count(c.requests.map(|r| r.0)).count(c.requests.map(|r| r.1));
                csv.text(c.requests.map_or("", |_| if c.few() { "true" } else { "false" }));
                csv.real(panel.baseline_p99_ms);
                csv.real(c.p99_ms.map(|s| s.value))
                    .real(c.p99_ms.map(|s| s.min))
                    .real(c.p99_ms.map(|s| s.max));
                csv.real(c.hp_norm.map(|s| s.value)).real(c.be_norm.map(|s| s.value));
                let total = c.system_throughput;
                csv.real(total.map(|s| s.value)).real(total.map(|s| s.min)).real(total.map(|s| s.max));
                csv.end();
            }
        }
    }
    csv.finish()
}
