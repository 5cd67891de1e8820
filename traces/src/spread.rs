//! Exactly N arrivals in a span, from N + 1 gaps.
//!
//! The gaps are laid end to end and scaled so that all N + 1 fill the span; the N ends between them are the
//! arrivals. The offered rate is N / span to the last digit whatever the gaps were, no arrival has a fixed place, and
//! with exponential gaps the result is a Poisson process given its count: N independent uniform times, sorted
//! (e.g. Ross, Stochastic Processes, theorem 2.3.1).

use anyhow::{Result, ensure};

/// The arrivals, ascending, in `0..=span_ns`; rounded down to a nanosecond. Gaps may have any unit.
///
/// # Errors
/// If there are no gaps or all are 0.
pub fn spread(gaps: &[u64], span_ns: u64) -> Result<Vec<u64>> {
    let wide = |value: u64| u128::from(value);
    let total: u128 = gaps.iter().copied().map(wide).sum();
    ensure!(total > 0, "all {} gaps between arrivals are 0, so they have no rate", gaps.len());
    // A product fits: a u64 sum of gaps (checked here) times a u64 span.
    ensure!(total <= wide(u64::MAX), "the gaps between arrivals add up to more than 64 bits");
    let ends = gaps[..gaps.len() - 1].iter().scan(0u128, |end, &gap| {
        *end += wide(gap);
        Some(*end)
    });
    Ok(ends.map(|end| (end * wide(span_ns) / total) as u64).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        // Gaps 1 + 2 + 3 + 4 = 10 fill 100 ns: ends at 1, 3 and 6 tenths.
        assert_eq!(spread(&[1, 2, 3, 4], 100).unwrap(), [10, 30, 60]);
        // Rounded down: thirds of 10 ns.
        assert_eq!(spread(&[5, 5, 5], 10).unwrap(), [3, 6]);
        // Equal arrivals stay two requests.
        assert_eq!(spread(&[1, 0, 1], 10).unwrap(), [5, 5]);
        assert!(spread(&[], 10).is_err());
        assert!(spread(&[0, 0], 10).is_err());
    }
}
