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
use sha2::{Digest, Sha256};
use traces::rng::{Use, below, generator};

/// Drawn series. With 1,000 the ends of a 99 % interval are the 5th smallest and largest.
pub const REPLICATES: usize = 1000;

/// Of an interval.
pub const CONFIDENCE: f64 = 0.99;

/// Both numbers of one drawn series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drawn {
    pub mean: f64,
    pub p99: f64,
}

/// Draws [`REPLICATES`] series from these times in their order. `stream` separates two runs with equal samples.
pub fn replicates(times_ns: &[u64], stream: u8) -> Vec<Drawn> {
    let n = times_ns.len();
    if n == 0 {
        return Vec::new();
    }
    let block = ((n as f64).sqrt().ceil() as usize).min(n);
    let blocks = n.div_ceil(block);
    let mut sums = vec![0];
    for time in times_ns {
        sums.push(sums[sums.len() - 1] + time);
    }
    // The largest first: the walk to the 99th percentile is short.
    let mut largest: Vec<usize> = (0..n).collect();
    largest.sort_by(|a, b| times_ns[*b].cmp(&times_ns[*a]).then(a.cmp(b)));
    let mut rng = generator(seed(times_ns, stream), Use::Bootstrap);
    let places = (n - block + 1) as u64;
    let mut draw = || {
        let mut starts: Vec<usize> = (0..blocks).map(|_| below(&mut rng, places) as usize).collect();
        starts.sort_unstable();
        let total: u64 = starts.iter().map(|start| sums[start + block] - sums[*start]).sum();
        let drawn = blocks * block;
        // How often a request was drawn: in as many blocks as begin at most a block before it.
        let times = |i: usize| {
            let until = starts.partition_point(|start| *start <= i);
            let before = starts.partition_point(|start| *start + block <= i);
            until - before
        };
        Drawn {
            mean: total as f64 / drawn as f64,
            p99: percentile_from_above(times_ns, &largest, times, drawn),
        }
    };
    (0..REPLICATES).map(|_| draw()).collect()
}

/// As [`stats::percentile`] at 0.99 of `drawn` values, of which value `i` stands there `times(i)` times.
fn percentile_from_above(
    values: &[u64],
    largest: &[usize],
    times: impl Fn(usize) -> usize,
    drawn: usize,
) -> f64 {
    let position = 0.99 * (drawn - 1) as f64;
    let below = position.floor() as usize;
    // Ranks from above, the largest being 0.
    let ranks = [drawn - 1 - (below + 1).min(drawn - 1), drawn - 1 - below];
    let mut found = [0, 0];
    let (mut seen, mut next) = (0, 0);
    for i in largest {
        seen += times(*i);
        while next < 2 && seen > ranks[next] {
            found[next] = values[*i];
            next += 1;
        }
        if next == 2 {
            break;
        }
    }
    let [above, below_value] = found;
    stats::percentile(&[below_value, above], position - below as f64)
}

/// The ends of the interval around drawn numbers; `None` for none.
pub fn ends(mut numbers: Vec<f64>) -> Option<(f64, f64)> {
    numbers.retain(|number| number.is_finite());
    if numbers.is_empty() {
        return None;
    }
    numbers.sort_by(f64::total_cmp);
    let outside = ((1.0 - CONFIDENCE) / 2.0 * numbers.len() as f64).floor() as usize;
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
    fn the_short_walk_finds_what_sorting_finds() {
        let values = times(5, 700, 1.0);
        let mut largest: Vec<usize> = (0..values.len()).collect();
        largest.sort_by(|a, b| values[*b].cmp(&values[*a]).then(a.cmp(b)));
        for weight in 0..5usize {
            let times = |i: usize| (i * 7 + weight) % 4;
            let mut drawn: Vec<u64> =
                values.iter().enumerate().flat_map(|(i, v)| std::iter::repeat_n(*v, times(i))).collect();
            drawn.sort_unstable();
            let found = percentile_from_above(&values, &largest, times, drawn.len());
            assert_eq!(found, stats::percentile(&drawn, 0.99));
        }
        assert_eq!(percentile_from_above(&[7], &[0], |_| 1, 1), 7.0);
    }

    #[test]
    fn equal_runs_are_seldom_told_apart_and_slower_ones_always() {
        let ratio = |a: &[u64], b: &[u64]| {
            let (a, b) = (replicates(a, 0), replicates(b, 1));
            ends(a.iter().zip(&b).map(|(a, b)| b.p99 / a.p99).collect()).unwrap()
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
        assert_eq!(ends(vec![]), None);
        let thousand = (1..=1000).map(f64::from).collect();
        assert_eq!(ends(thousand), Some((5.0, 996.0)));
    }
}
