//! Confidence intervals of a few numbers: pairs of jobs, seeds, counts of pairs. Pure functions, checked against published
//! tables.
//!
//! Which one is used where is said beside each number: a mean over pairs or seeds has Student's interval, a ratio of two
//! means over the same pairs Fieller's, a median the order statistics', a count of pairs Clopper and Pearson's. They all
//! take the pairs for independent draws of the same kind of pair, which jobs picked by hand are not quite: an interval says
//! how far the choice of pairs moves a number, and nothing of what all pairs share (machine, model, arrivals).
//!
//! **Architecture invariant:** no mathematics of the platform, so that the same numbers give the same text anywhere.

mod beta;
mod binomial;
pub mod blocks;
mod means;
mod percentile;

pub use binomial::{clopper_pearson, median};
pub use means::{fieller, student_quantile, t_interval};
pub use percentile::percentile;

/// The confidence of every interval in tables and verdicts.
pub const CONFIDENCE: f64 = 0.95;

/// Whether `n` samples are enough for their quantile `q` to mean something: ten beyond it, so 1,000 for a 99th percentile.
/// With fewer it is close to the maximum, and tables mark it.
pub fn enough_for(n: u64, q: f64) -> bool {
    // 1 - 0.99 is a little more than a hundredth.
    n as f64 * (1.0 - q) >= 10.0 - 1e-6
}

/// A range that holds the true value with the stated confidence; the ends may be infinite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    pub low: f64,
    pub high: f64,
}

/// Where an interval lies beside an accepted range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Every value of the interval is accepted.
    Inside,
    /// No value of it is.
    Outside,
    /// An end of the accepted range lies within the interval: the numbers do not tell.
    Across,
}

impl Interval {
    /// The interval beside a range whose ends are accepted.
    pub fn place(&self, low: f64, high: f64) -> Place {
        if low <= self.low && self.high <= high {
            Place::Inside
        } else if self.high < low || high < self.low {
            Place::Outside
        } else {
            Place::Across
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_samples_are_too_few() {
        assert!(enough_for(200, 0.5) && !enough_for(200, 0.99) && !enough_for(200, 0.999));
        for (q, needed) in [(0.5, 20), (0.9, 100), (0.95, 200), (0.99, 1000), (0.999, 10_000)] {
            assert!(enough_for(needed, q) && !enough_for(needed - 1, q), "{q}");
        }
    }

    #[test]
    fn an_edge_within_the_interval_decides_nothing() {
        let interval = Interval { low: 0.25, high: 0.5 };
        assert_eq!(interval.place(0.25, 0.5), Place::Inside);
        assert_eq!(interval.place(0.0, 1.0), Place::Inside);
        assert_eq!(interval.place(0.0, 0.3), Place::Across);
        assert_eq!(interval.place(0.3, 1.0), Place::Across);
        assert_eq!(interval.place(0.3, 0.4), Place::Across, "the range lies within the interval");
        assert_eq!(interval.place(0.6, 1.0), Place::Outside);
        assert_eq!(interval.place(0.0, 0.2), Place::Outside);
    }
}
