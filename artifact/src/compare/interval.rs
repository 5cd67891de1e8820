//! Intervals from one run: a moving-block bootstrap (Kuensch, Annals of Statistics 17(3), 1989) of the requests of a cell.
//!
//! Neighbouring requests depend on each other (queues, time slices, a training step that many of them meet), so single
//! ones must not be drawn: whole blocks of neighbours are, each begun at a uniformly drawn place. A block has the square
//! root of all requests: longer than the cube root that is best for the variance of a mean of weakly dependent numbers,
//! since a burst at load 0.5 outlasts it, and still 31 blocks in 1,000 requests. The draws are seeded by the samples
//! themselves, so that the same two folders always give the same verdict.
//!
//! What the interval says: how far a number would move if the same server met other requests of the same kind. It knows
//! nothing of what stays equal within a run, such as clocks, drivers or the neighbour's seed.

use crate::stats;
use intervals::blocks::Series;
use sha2::{Digest, Sha256};
use traces::rng::{Use, below, generator};

/// Drawn series. With 1,000 the ends of a 99 % interval are the 5th smallest and largest, of a 95 % one the 25th.
pub const REPLICATES: usize = 1000;

/// Of an interval that two runs are compared by: with hundreds of numbers, a tenth as many false alarms as 95 % gives.
pub const CONFIDENCE: f64 = 0.99;

/// Both numbers of one drawn series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drawn {
    pub mean: f64,
    pub p99: f64,
}

/// Draws [`REPLICATES`] series from these times in their order. `stream` separates two runs with equal samples.
pub fn replicates(times_ns: &[u64], stream: u8) -> Vec<Drawn> {
    let Some(series) = Series::new(times_ns) else { return Vec::new() };
    let mut rng = generator(seed(times_ns, stream), Use::Bootstrap);
    let places = series.places() as u64;
    let mut starts = vec![0; series.blocks()];
    let mut draw = || {
        starts.iter_mut().for_each(|start| *start = below(&mut rng, places) as usize);
        let drawn = series.drawn(&mut starts);
        Drawn { mean: drawn.mean, p99: stats::percentile(&[drawn.below, drawn.above], drawn.weight) }
    };
    (0..REPLICATES).map(|_| draw()).collect()
}

/// The 95 % interval of the 99th percentile of these times, from [`REPLICATES`] series; `None` for no times.
pub fn of_p99(times_ns: &[u64]) -> Option<(f64, f64)> {
    ends(replicates(times_ns, 0).iter().map(|drawn| drawn.p99).collect(), intervals::CONFIDENCE)
}

/// The ends of the interval around drawn numbers with this confidence; `None` for none.
pub fn ends(mut numbers: Vec<f64>, confidence: f64) -> Option<(f64, f64)> {
    numbers.retain(|number| number.is_finite());
    if numbers.is_empty() {
        return None;
    }
    numbers.sort_by(f64::total_cmp);
    let outside = ((1.0 - confidence) / 2.0 * numbers.len() as f64).floor() as usize;
    Some((numbers[outside.saturating_sub(1)], numbers[numbers.len() - outside.max(1)]))
}

fn seed(times_ns: &[u64], stream: u8) -> u64 {
    let mut hash = Sha256::new();
    hash.update([stream]);
    for time in times_ns {
        hash.update(time.to_le_bytes());
    }
    let digest = hash.finalize();
    digest.iter().take(8).fold(0, |seed, byte| (seed << 8) | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exponential-like times that depend on their neighbours, from a seed.
    fn times(seed: u64, n: usize, scale: f64) -> Vec<u64> {
        let mut rng = generator(seed, Use::Poisson);
        let mut last = 0.0;
        let mut next = || {
            last = 0.5 * last - (below(&mut rng, 1_000_000) as f64 + 1.0).log2() + 20.0;
            (last * scale * 1e6) as u64 + 1
        };
        (0..n).map(|_| next()).collect()
    }

    #[test]
    fn equal_runs_are_seldom_told_apart_and_slower_ones_always() {
        let ratio = |a: &[u64], b: &[u64]| {
            let (a, b) = (replicates(a, 0), replicates(b, 1));
            ends(a.iter().zip(&b).map(|(a, b)| b.p99 / a.p99).collect(), CONFIDENCE).unwrap()
        };
        let holds_one = |(low, high): (f64, f64)| low <= 1.0 && 1.0 <= high;
        let (mut equal, mut slower) = (0, 0);
        for seed in 0..40 {
            let a = times(2 * seed, 2000, 1.0);
            equal += usize::from(holds_one(ratio(&a, &times(2 * seed + 1, 2000, 1.0))));
            slower += usize::from(holds_one(ratio(&a, &times(2 * seed + 1, 2000, 1.5))));
        }
        assert!(equal >= 38 && slower == 0, "{equal} of 40 equal, {slower} of 40 slower ones within");
    }

    #[test]
    fn draws_repeat_and_streams_differ() {
        let a = times(1, 300, 1.0);
        assert_eq!(replicates(&a, 0), replicates(&a, 0));
        assert_ne!(replicates(&a, 0), replicates(&a, 1));
        assert!(replicates(&[], 0).is_empty());
        assert!(replicates(&[5, 5, 5], 0).iter().all(|drawn| *drawn == Drawn { mean: 5.0, p99: 5.0 }));
        assert_eq!(ends(vec![], CONFIDENCE), None);
        let thousand: Vec<f64> = (1..=1000).map(f64::from).collect();
        assert_eq!(ends(thousand.clone(), 0.99), Some((5.0, 996.0)));
        assert_eq!(ends(thousand, 0.95), Some((25.0, 976.0)));
    }
}
