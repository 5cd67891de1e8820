//! Where the panels of a figure stand: in rows, each as wide as the others.

use crate::canvas::PAGE_WIDTH;
use crate::page::MARGIN;

/// Room for tick labels, up to `100,000`, and axis titles left of a plot, px.
pub const AXIS_ROOM: i32 = 176;

/// Rows of panels.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    panels: usize,
    across: usize,
}

impl Layout {
    /// Panels in as few rows as possible with at most `most` in one, the rows as even as possible.
    pub fn new(panels: usize, most: usize) -> Layout {
        let panels = panels.max(1);
        Layout { panels, across: panels.div_ceil(panels.div_ceil(most)) }
    }

    pub fn rows(&self) -> usize {
        self.panels.div_ceil(self.across)
    }

    /// The panels of a row with the left edge and the width of the plot of each.
    pub fn row(&self, row: usize) -> impl Iterator<Item = (usize, i32, i32)> {
        let slot = (PAGE_WIDTH - MARGIN) / self.across as i32;
        let first = row * self.across;
        let last = self.panels.min(first + self.across);
        (first..last).map(move |i| (i, slot * (i - first) as i32 + AXIS_ROOM, slot - AXIS_ROOM))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_even_and_stay_on_the_page() {
        for (panels, most, rows) in [(1, 2, 1), (2, 2, 1), (6, 2, 3), (4, 3, 2), (3, 3, 1), (0, 2, 1)] {
            let layout = Layout::new(panels, most);
            assert_eq!(layout.rows(), rows, "{panels} of {most}");
            let all: Vec<_> = (0..rows).flat_map(|r| layout.row(r)).collect();
            assert_eq!(all.iter().map(|p| p.0).collect::<Vec<_>>(), (0..panels.max(1)).collect::<Vec<_>>());
            assert!(all.iter().all(|(_, x, w)| *w > 300 && x + w <= PAGE_WIDTH - MARGIN));
        }
        assert_eq!(Layout::new(4, 3).row(1).next().unwrap().0, 2, "two and two, not three and one");
    }
}
