//! One plot with two value axes: points, and lines between them.

use anyhow::Result;

use crate::axis::Scale;
use crate::canvas::{Anchor, Picture, Rgb, text_width};
use crate::grid::Spread;
use crate::plot::{Columns, FEW, Plot, text};
use crate::style::{BODY, INK, RULE, SMALL};

const WHITE: Rgb = Rgb(0xFF, 0xFF, 0xFF);
/// Diameter of a point, px.
const POINT: i32 = 17;
const STROKE: i32 = 4;

/// The form of a point, so that no reader depends on colour alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Disc,
    Square,
}

/// Where a plot stands and how values map to it.
#[derive(Clone, Copy, Debug)]
pub struct Chart {
    plot: Plot,
    x: Scale,
}

/// A point of a line.
#[derive(Clone, Debug)]
pub struct Point {
    pub x: f64,
    /// `None`: no number.
    pub y: Option<Spread>,
    /// Drawn hollow.
    pub hollow: bool,
    /// Marked as resting on too few requests.
    pub few: bool,
}

impl Chart {
    /// A plot of `w` by `h` px with its upper left corner at `at`.
    pub fn new(at: (i32, i32), w: i32, h: i32, x: Scale, y: Scale) -> Chart {
        Chart { plot: Plot { columns: Columns::new(at.0, w, 1, 1), y: at.1, h, scale: y }, x }
    }

    /// Where a value stands, px.
    pub fn at(&self, x: f64, y: f64) -> (i32, i32) {
        let c = &self.plot.columns;
        (c.x + (self.x.share(x) * f64::from(c.w)).round() as i32, self.plot.at(y))
    }

    /// Width of the widest label of the upright axis, px.
    ///
    /// # Errors
    /// Text cannot be measured.
    pub fn tick_width(&self) -> Result<i32> {
        self.plot.tick_width()
    }

    /// Grid, tick labels and the titles of the axes; `ticks` as in [`Plot::frame`]. Labels of the lower axis that would
    /// touch are left out. Call before the points. Returns the y below everything.
    ///
    /// # Errors
    /// Text cannot be measured.
    pub fn frame(
        &self,
        picture: &mut Picture,
        y_title: &str,
        ticks: i32,
        x_ticks: &[(f64, String)],
        x_title: &str,
    ) -> Result<i32> {
        let (c, foot) = (&self.plot.columns, self.plot.y + self.plot.h);
        self.plot.frame(picture, y_title, ticks);
        let mut free = i32::MIN;
        for (value, label) in x_ticks {
            let (x, _) = self.at(*value, 1.0);
            picture.rect(x - 1, self.plot.y, 2, self.plot.h, RULE);
            picture.rect(x - 1, foot, 2, 8, INK);
            let half = text_width(label, SMALL, false)? / 2;
            if x - half > free {
                picture.text(text(label.clone(), x, foot + SMALL + 12, SMALL, Anchor::Middle));
                free = x + half + 10;
            }
        }
        let mut below = foot + SMALL + 16;
        if !x_title.is_empty() {
            below += BODY + 8;
            picture.text(text(x_title, c.x + c.w / 2, below, BODY, Anchor::Middle));
        }
        Ok(below)
    }

    /// The axis lines. Call last.
    pub fn axes(&self, picture: &mut Picture) {
        self.plot.axes(picture);
    }

    /// A dashed line at this height.
    pub fn level(&self, picture: &mut Picture, value: f64) {
        self.plot.level(picture, value);
    }

    /// A thin line from foot to top at this place of the lower axis.
    pub fn upright(&self, picture: &mut Picture, value: f64, color: Rgb) {
        let (x, _) = self.at(value, 1.0);
        picture.rect(x - 2, self.plot.y, 4, self.plot.h, color);
    }

    /// A line from the first point to the last, broken where one has no number, with its extremes over the seeds.
    pub fn line(&self, picture: &mut Picture, points: &[Point], color: Rgb, form: Form) {
        let there = |p: &Point| p.y.map(|y| self.at(p.x, y.value));
        for pair in points.windows(2) {
            if let [Some(from), Some(to)] = [there(&pair[0]), there(&pair[1])] {
                picture.line(from, to, STROKE, color);
            }
        }
        for p in points {
            let Some(y) = p.y else {
                let (x, _) = self.at(p.x, 1.0);
                picture.text(text("x", x, self.plot.y + self.plot.h - 8, SMALL, Anchor::Middle));
                continue;
            };
            let (x, middle) = self.at(p.x, y.value);
            if y.min < y.max {
                let (low, high) = (self.at(p.x, y.min).1, self.at(p.x, y.max).1);
                picture.rect(x - 1, high, 3, low - high, color);
            }
            point(picture, (x, middle), color, form, p.hollow);
            if p.few {
                picture.text(text(FEW, x, middle - POINT, SMALL, Anchor::Middle));
            }
        }
    }
}

/// A point by itself.
pub fn point(picture: &mut Picture, at: (i32, i32), color: Rgb, form: Form, hollow: bool) {
    let mut one = |size: i32, color| match form {
        Form::Disc => picture.disc(at, size, color),
        Form::Square => picture.rect(at.0 - size / 2, at.1 - size / 2, size, size, color),
    };
    match form {
        Form::Disc => one(POINT, color),
        Form::Square => one(POINT - 2, color),
    }
    if hollow {
        one(POINT - 8, WHITE);
    }
}
