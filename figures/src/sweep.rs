//! Pairs of plots over one varied quantity: above the p99, below the throughput of the best-effort job.

use anyhow::Result;

use crate::axis::Scale;
use crate::canvas::{Anchor, Picture, Rgb, Text, text_width};
use crate::chart::{Chart, Form, Point};
use crate::grid::Cell;
use crate::layout::Layout;
use crate::plot::{head, text};
use crate::stats;
use crate::style::{BODY, INK, RULE, number};

const LATENCY_HEIGHT: i32 = 360;
const THROUGHPUT_HEIGHT: i32 = 270;
const MOST_ACROSS: usize = 3;

/// One line of each plot of a pane.
pub struct Series {
    pub color: Rgb,
    pub form: Form,
    /// Where on the lower axis, and what is there; `None` where the plan has no such cell.
    pub cells: Vec<(f64, Option<Cell>)>,
}

/// Two plots above each other.
pub struct Pane {
    pub name: String,
    /// p99 alone, ms.
    pub baseline: Option<f64>,
    /// What the latency axis must hold, when that is more than this pane's own values.
    pub latency: Option<(f64, f64)>,
    pub series: Vec<Series>,
}

/// All panes of a figure, and their common lower axis.
pub struct Sweep {
    pub x: Scale,
    pub ticks: Vec<(f64, String)>,
    pub title: &'static str,
    /// A value of the lower axis that other figures use.
    pub usual: Option<f64>,
    pub panes: Vec<Pane>,
}

impl Pane {
    /// Smallest and largest p99, the baseline included.
    pub fn range(&self) -> Option<(f64, f64)> {
        let cells = self.series.iter().flat_map(|s| &s.cells).filter_map(|c| c.1.as_ref()?.p99_ms);
        let mut values: Vec<f64> = self.baseline.into_iter().collect();
        values.extend(cells.flat_map(|p99| [p99.min, p99.max]));
        stats::range(&values)
    }

    /// Whether every p99 has too few requests behind it.
    fn few(&self) -> bool {
        let cells = self.series.iter().flat_map(|s| &s.cells).filter_map(|c| c.1.as_ref());
        let mut cells = cells.filter(|c| c.requests.is_some()).peekable();
        cells.peek().is_some() && cells.all(Cell::few)
    }
}

impl Sweep {
    /// Draws the panes from `y`; returns the y below them.
    ///
    /// # Errors
    /// Text cannot be measured.
    pub fn draw(&self, picture: &mut Picture, y: i32) -> Result<i32> {
        let layout = Layout::new(self.panes.len(), MOST_ACROSS);
        let mut y = y;
        for row in 0..layout.rows() {
            let mut below = y;
            for (i, x, w) in layout.row(row) {
                below = below.max(self.pane(picture, &self.panes[i], (x, y), w)?);
            }
            y = below;
        }
        Ok(y)
    }

    fn pane(&self, picture: &mut Picture, pane: &Pane, at: (i32, i32), w: i32) -> Result<i32> {
        let few = pane.few();
        let name = format!("{}{}", pane.name, if few { " †" } else { "" });
        let mut y = at.1 + 58;
        picture.text(Text { bold: true, ..text(name, at.0, y, BODY, Anchor::Start) });
        if let Some(baseline) = pane.baseline {
            y += BODY + 10;
            let label = format!("alone {} ms", number(baseline, 3));
            picture.dashes(at.0, at.0 + 60, y - 10, INK);
            picture.text(text(label.clone(), at.0 + 74, y, BODY, Anchor::Start));
            debug_assert!(text_width(&label, BODY, false)? + 74 < w);
        }
        let (min, max) = pane.latency.or_else(|| pane.range()).unwrap_or((1.0, 1.0));
        let log = Scale::wants_log(min, max);
        let latency = match log {
            true => Scale::log(min, max, head(LATENCY_HEIGHT)),
            false => Scale::linear(max, head(LATENCY_HEIGHT)),
        };
        let upper = Chart::new((at.0, y + 22), w, LATENCY_HEIGHT, self.x, latency);
        let y = y + 22 + LATENCY_HEIGHT + 56;
        let lower = Chart::new((at.0, y), w, THROUGHPUT_HEIGHT, self.x, Scale::linear(1.0, 0.08));
        let width = upper.tick_width()?.max(lower.tick_width()?);
        let title = if log { "p99 latency (ms, log)" } else { "p99 latency (ms)" };
        upper.frame(picture, title, width, &self.ticks, "")?;
        let below = lower.frame(picture, "best effort", width, &self.ticks, self.title)?;
        for chart in [&upper, &lower] {
            if let Some(usual) = self.usual {
                chart.upright(picture, usual, RULE);
            }
        }
        for series in &pane.series {
            let p99 = |c: &Cell| (c.p99_ms, c.few() && !few);
            upper.line(picture, &series.points(p99), series.color, series.form);
            lower.line(picture, &series.points(|c| (c.be_norm, false)), series.color, series.form);
        }
        if let Some(baseline) = pane.baseline {
            upper.level(picture, baseline);
        }
        upper.axes(picture);
        lower.axes(picture);
        Ok(below)
    }
}

impl Series {
    fn points(&self, of: impl Fn(&Cell) -> (Option<crate::grid::Spread>, bool)) -> Vec<Point> {
        let there = self.cells.iter().filter_map(|(x, cell)| Some((*x, cell.as_ref()?)));
        let points = there.map(|(x, cell)| {
            let (y, few) = of(cell);
            Point { x, y, hollow: cell.overloaded, few }
        });
        points.collect()
    }
}
