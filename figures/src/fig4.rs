//! Motivation: p99 latency of a server under the ways of sharing that a GPU brings along.

use anyhow::Result;

use crate::axis::Scale;
use crate::canvas::Picture;
use crate::fig5::latency_range;
use crate::fig7a::{self, panels};
use crate::grid::Grid;
use crate::page::{self, Swatch};
use crate::plot::head;
use crate::style::style_of;

/// Lays the figure out.
///
/// # Errors
/// The bundled font cannot be used.
pub fn picture(grid: &Grid) -> Result<Picture> {
    let mut picture = Picture::default();
    let title = "Motivation: p99 latency beside a training job, without a scheduler";
    let banner = page::banner_text(&grid.facts, grid.requests());
    let y = page::begin(&mut picture, title, &grid.facts, &banner)?;
    let mut entries = vec![(Swatch::Box(style_of("no-sharing")?.color), "Baseline (alone)".to_owned())];
    entries.extend(grid.systems.iter().map(|s| (Swatch::Box(s.color), s.label.to_owned())));
    let y = page::legend(&mut picture, y, &entries)?;
    let wants_log = |(min, max)| Scale::wants_log(min, max);
    let log = grid.panels.iter().filter_map(latency_range).any(wants_log);
    let below = panels(&mut picture, y, grid, |(min, max)| {
        if log { Scale::log(min, max, head(fig7a::HEIGHT)) } else { Scale::linear(max, head(fig7a::HEIGHT)) }
    })?;
    page::footnotes(&mut picture, below, &page::grid_notes(grid, false))?;
    Ok(picture)
}
