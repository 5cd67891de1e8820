//! Moving-block bootstrap of gaps between arrivals (Kuensch, Annals of Statistics 17(3), 1989): makes a long series out
//! of the few recorded gaps that can be shipped, and keeps how neighbouring gaps depend on each other.
//!
//! The gaps of the MAF2 excerpt are those of **all functions together**: its 998 arrivals, merged and sorted, have 997
//! gaps, which vary by 1.75 of their mean (Poisson: 1). Upstream's rule for the full file takes the most frequent
//! function alone and fits a day of it to the load. In the excerpt that function is nearly a timer: its 174 arrivals
//! have 173 gaps that vary by 0.15 of their mean, so a list made of them would be almost evenly spaced and would
//! understate queueing: 37,037 arrivals at load 0.5, served one by one, would never wait, where those made of all gaps
//! wait for 6.3 solo latencies on average, and Poisson traffic for 0.5. Gaps of 0 (three arrivals that tie with the one
//! before) are kept.

use anyhow::{Result, ensure};

use crate::rng::{Use, below, generator};
use crate::spread::spread;

/// Gaps per block.
///
/// Arrivals of the excerpt come in short bursts. Of the first 28 autocorrelations of its 997 gaps, lags 1, 4, 5, 6 and
/// 7 are outside of the 95 % band for independence (0.31, 0.09, 0.11, 0.10, 0.08; the band is 2 / sqrt(997) = 0.063).
/// A block keeps lag k for all but k of its gaps: blocks of 8 would lose seven of eight pairs at lag 7, blocks of 16
/// keep nine of sixteen. The index of dispersion (variance of the sum of n neighbouring gaps over n times the squared
/// mean) says the same: it is 3.1 at 1 gap, 5.5 at 8, 6.1 at 16 and 6.0 at 32, so 16 is where it levels off. Still 982
/// different blocks begin in the 997 gaps; one lasts 104 s on average.
///
/// Slower changes are lost (the index is 10.5 at 128 gaps): the excerpt holds fewer than eight blocks of that length.
pub const BLOCK: usize = 16;

/// Differences of neighbours in a sorted list of starts.
pub fn gaps(starts_ns: &[u64]) -> Vec<u64> {
    starts_ns.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

/// `count` gaps: blocks of `block` neighbouring gaps, each begun at a uniformly drawn place where a whole block fits,
/// the last one cut off.
///
/// # Errors
/// If there is not one whole block, or `block` is 0.
pub fn resample(gaps: &[u64], block: usize, count: usize, seed: u64) -> Result<Vec<u64>> {
    ensure!(block > 0 && gaps.len() >= block, "{} gaps don't make a block of {block}", gaps.len());
    let places = (gaps.len() - block + 1) as u64;
    let mut rng = generator(seed, Use::Bootstrap);
    let mut drawn = Vec::with_capacity(count + block);
    while drawn.len() < count {
        let from = below(&mut rng, places) as usize;
        drawn.extend_from_slice(&gaps[from..from + block]);
    }
    drawn.truncate(count);
    Ok(drawn)
}

/// `count` arrivals over the span, with resampled gaps ([`spread`] says how they are scaled).
pub fn arrivals(gaps: &[u64], count: u64, span_ns: u64, seed: u64) -> Result<Vec<u64>> {
    spread(&resample(gaps, BLOCK, count as usize + 1, seed)?, span_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_keep_neighbours() {
        let gaps: Vec<u64> = (0..20).collect();
        let drawn = resample(&gaps, 4, 50, 3).unwrap();
        assert_eq!(drawn.len(), 50);
        for block in drawn.chunks(4) {
            assert!(block[0] <= 16 && block.windows(2).all(|w| w[1] == w[0] + 1), "{block:?}");
        }
        assert_eq!(drawn, resample(&gaps, 4, 50, 3).unwrap());
        assert_ne!(drawn, resample(&gaps, 4, 50, 4).unwrap());
    }

    #[test]
    fn every_place_is_drawn() {
        let gaps: Vec<u64> = (0..10).collect();
        let drawn = resample(&gaps, 3, 3000, 1).unwrap();
        let mut firsts: Vec<u64> = drawn.chunks(3).map(|block| block[0]).collect();
        firsts.sort_unstable();
        firsts.dedup();
        assert_eq!(firsts, (0..=7).collect::<Vec<_>>());
    }

    #[test]
    fn needs_a_block() {
        assert!(resample(&[1, 2], 3, 5, 0).is_err());
        assert!(resample(&[1, 2], 0, 5, 0).is_err());
        assert_eq!(resample(&[1, 2], 2, 5, 0).unwrap(), [1, 2, 1, 2, 1]);
    }
}
