//! One plot with grouped bars: frame, axis, bars and marks.

use anyhow::Result;

use crate::axis::Scale;
use crate::canvas::{Anchor, Picture, Rgb, Text, text_width};
use crate::grid::Spread;
use crate::style::{BAND, BODY, GREY, INK, RULE, SMALL, number};

/// Room above the largest value for the marks and the number of its bar, px.
const HEAD: i32 = 62;

/// [`HEAD`] as a share of a plot of height `h` px.
pub fn head(h: i32) -> f64 {
    f64::from(HEAD) / f64::from(h)
}

/// Widest bar, px: a run with one pair must not become a poster.
const MAX_BAR: i32 = 110;

/// Where the bars of a row of plots stand. Plots above each other share it.
#[derive(Clone, Copy, Debug)]
pub struct Columns {
    pub x: i32,
    pub w: i32,
    groups: i32,
    bars: i32,
    bar: i32,
}

impl Columns {
    /// Space for `groups` groups of `bars` bars in `w` px from `x`.
    pub fn new(x: i32, w: i32, groups: usize, bars: usize) -> Columns {
        let (groups, bars) = (groups.max(1) as i32, bars.max(1) as i32);
        let room = w / groups;
        let bar = ((room - (room / 7).max(14)) / bars).clamp(2, MAX_BAR);
        Columns { x, w, groups, bars, bar }
    }

    fn group_x(&self, group: usize) -> i32 {
        self.x + self.w * group as i32 / self.groups
    }

    /// Middle of a group.
    pub fn middle(&self, group: usize) -> i32 {
        (self.group_x(group) + self.group_x(group + 1)) / 2
    }

    /// Width of a group.
    pub fn room(&self) -> i32 {
        self.w / self.groups
    }

    /// Left edge and width of a bar, with a thin gap to its neighbour.
    pub fn bar(&self, group: usize, bar: usize) -> (i32, i32) {
        let gap = if self.bar >= 8 { 2 } else { 1 };
        let left = self.middle(group) - self.bar * self.bars / 2 + self.bar * bar as i32;
        (left + gap / 2, self.bar - gap)
    }
}

/// A plot: its bars' columns, its vertical extent and its scale.
#[derive(Clone, Copy, Debug)]
pub struct Plot {
    pub columns: Columns,
    pub y: i32,
    pub h: i32,
    pub scale: Scale,
}

impl Plot {
    /// Height of a value, px from the top of the picture.
    pub fn at(&self, value: f64) -> i32 {
        self.y + self.h - (self.scale.share(value) * f64::from(self.h)).round() as i32
    }

    /// Width of the widest tick label, px.
    ///
    /// # Errors
    /// Text cannot be measured.
    pub fn tick_width(&self) -> Result<i32> {
        let mut widest = 0;
        for (_, label) in self.scale.ticks() {
            widest = widest.max(text_width(&label, SMALL, false)?);
        }
        Ok(widest)
    }

    /// Background, grid lines, tick labels and the axis title, which stands clear of tick labels of `ticks`
    /// px (plots above each other pass the larger width, so that their titles line up). Call before the bars.
    pub fn frame(&self, picture: &mut Picture, title: &str, ticks: i32) {
        let c = &self.columns;
        for group in (1..c.groups as usize).step_by(2) {
            picture.rect(c.group_x(group), self.y, c.group_x(group + 1) - c.group_x(group), self.h, BAND);
        }
        for (value, label) in self.scale.ticks() {
            let y = self.at(value);
            picture.rect(c.x, y - 1, c.w, 2, RULE);
            picture.rect(c.x - 8, y - 1, 8, 2, INK);
            picture.text(text(label, c.x - 14, y + SMALL * 36 / 100, SMALL, Anchor::End));
        }
        let at = (c.x - 14 - ticks - 18, self.y + self.h / 2);
        picture.text(Text { vertical: true, ..text(title, at.0, at.1, BODY, Anchor::Middle) });
    }

    /// The axis lines. Call after the bars, which would cover them.
    pub fn axes(&self, picture: &mut Picture) {
        let c = &self.columns;
        picture.rect(c.x - 2, self.y, 3, self.h, INK);
        picture.rect(c.x - 2, self.y + self.h - 1, c.w + 2, 3, INK);
    }

    /// A dashed line across the plot.
    pub fn level(&self, picture: &mut Picture, value: f64) {
        picture.dashes(self.columns.x, self.columns.x + self.columns.w, self.at(value), INK);
    }

    /// A bar from the foot of the axis to `value`.
    pub fn bar(&self, picture: &mut Picture, group: usize, bar: usize, value: f64, color: Rgb) {
        let (x, w) = self.columns.bar(group, bar);
        let top = self.at(value);
        picture.rect(x, top, w, self.y + self.h - top, color);
    }

    /// A piece of a stacked bar, outlined so that a pale filling keeps its edge.
    pub fn piece(&self, picture: &mut Picture, at: (usize, usize), from: f64, to: f64, fill: Rgb, edge: Rgb) {
        let (x, w) = self.columns.bar(at.0, at.1);
        let (bottom, top) = (self.at(from), self.at(to));
        picture.rect(x, top, w, bottom - top, edge);
        picture.rect(x + 2, top + 2, w - 4, bottom - top - 2, fill);
    }

    /// Extremes over the seeds as a thin line with end caps; nothing where they are equal.
    pub fn whisker(&self, picture: &mut Picture, group: usize, bar: usize, spread: &Spread) {
        if spread.min < spread.max {
            let (x, w) = self.columns.bar(group, bar);
            let (low, high) = (self.at(spread.min), self.at(spread.max));
            picture.rect(x + w / 2 - 1, high, 3, low - high, INK);
            let cap = (w / 2).clamp(6, 20);
            picture.rect(x + w / 2 - cap / 2, high - 1, cap, 3, INK);
            picture.rect(x + w / 2 - cap / 2, low - 1, cap, 3, INK);
        }
    }

    /// What stands above a bar that ends at `top` (or has none): the mark of an overloaded cell, an x for a
    /// missing number, and the value where there is room to print it.
    ///
    /// # Errors
    /// Text cannot be measured.
    pub fn marks(
        &self,
        picture: &mut Picture,
        at: (usize, usize),
        top: Option<f64>,
        marks: Marks,
        decimals: usize,
    ) -> Result<()> {
        let (x, w) = self.columns.bar(at.0, at.1);
        let middle = x + w / 2;
        let mut y = top.map_or(self.y + self.h, |t| self.at(t)) - 6;
        if let Some(value) = top {
            let label = number(value, decimals);
            if text_width(&label, SMALL, false)? <= w + 4 {
                picture.text(text(label, middle, y - 2, SMALL, Anchor::Middle));
                y -= SMALL + 2;
            }
        }
        let em = (w * 2).clamp(20, 32);
        if marks.overloaded {
            picture.text(text("o", middle, y, em, Anchor::Middle));
            y -= em * 6 / 10;
        }
        if marks.few {
            picture.text(text(FEW, middle, y, em, Anchor::Middle));
            y -= em * 8 / 10;
        }
        if marks.missing {
            picture.text(text("x", middle, y, em, Anchor::Middle));
        }
        Ok(())
    }

    /// The place of a pair that was left out: the reason instead of bars.
    pub fn left_out(&self, picture: &mut Picture, group: usize, reason: &str) {
        let at = (self.columns.middle(group) + SMALL * 36 / 100, self.y + self.h / 2);
        picture.text(Text { vertical: true, color: GREY, ..text(reason, at.0, at.1, SMALL, Anchor::Middle) });
    }
}

/// Marks of a cell.
#[derive(Clone, Copy, Debug)]
pub struct Marks {
    pub overloaded: bool,
    /// Some row of the cell has no number.
    pub missing: bool,
    /// Fewer requests behind the p99 than it needs.
    pub few: bool,
}

/// The mark of a p99 with too few requests behind it.
pub const FEW: &str = "†";

/// Names of the training jobs under their groups, broken at a hyphen where they are too wide. Returns the
/// height used, px.
///
/// # Errors
/// Text cannot be measured.
pub fn group_names(picture: &mut Picture, columns: &Columns, y: i32, names: &[&str]) -> Result<i32> {
    let mut lines = 1;
    for (group, name) in names.iter().enumerate() {
        let parts = if text_width(name, BODY, false)? <= columns.room() - 12 {
            vec![(*name).to_owned()]
        } else {
            break_name(name)
        };
        lines = lines.max(parts.len() as i32);
        for (i, part) in parts.into_iter().enumerate() {
            let at = y + BODY + 6 + i as i32 * (BODY + 5);
            picture.text(text(part, columns.middle(group), at, BODY, Anchor::Middle));
        }
    }
    Ok(lines * (BODY + 5) + 6)
}

/// `pegasus-x-base` as `pegasus-` and `x-base`: at the hyphen that gives the most even lines.
fn break_name(name: &str) -> Vec<String> {
    let best = name.match_indices('-').min_by_key(|(i, _)| (name.len() as i32 - 2 * (*i as i32 + 1)).abs());
    match best {
        Some((i, _)) => vec![name[..=i].to_owned(), name[i + 1..].to_owned()],
        None => vec![name.to_owned()],
    }
}

/// A horizontal text in the normal ink.
pub fn text(content: impl Into<String>, x: i32, y: i32, em: i32, anchor: Anchor) -> Text {
    Text { content: content.into(), x, y, em, bold: false, anchor, vertical: false, color: INK }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_break_at_the_middle_hyphen() {
        assert_eq!(break_name("pegasus-x-base"), ["pegasus-", "x-base"]);
        assert_eq!(break_name("gpt2-large"), ["gpt2-", "large"]);
        assert_eq!(break_name("whisper"), ["whisper"]);
    }

    #[test]
    fn bars_stay_inside_their_group() {
        let columns = Columns::new(100, 900, 6, 9);
        for group in 0..6 {
            let (first, _) = columns.bar(group, 0);
            let (last, w) = columns.bar(group, 8);
            assert!(first >= columns.group_x(group) && last + w <= columns.group_x(group + 1));
        }
    }
}
