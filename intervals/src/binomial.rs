//! Exact intervals from the binomial distribution: of a share of pairs, and of a median.

use crate::{Interval, beta};

/// The exact interval of a share of which `k` of `n` draws are known (Clopper and Pearson, Biometrika 26, 1934): at most
/// half of the remaining probability lies on either side. `None` for no draws or more hits than draws.
pub fn clopper_pearson(k: usize, n: usize, confidence: f64) -> Option<Interval> {
    if n == 0 || k > n {
        return None;
    }
    let tail = (1.0 - confidence) / 2.0;
    let (hits, misses) = (k as f64, (n - k) as f64);
    let low = if k == 0 { 0.0 } else { beta::quantile(tail, hits, misses + 1.0) };
    let high = if k == n { 1.0 } else { beta::quantile(1.0 - tail, hits + 1.0, misses) };
    Some(Interval { low, high })
}

/// The exact interval of the median, whatever the distribution: the innermost two order statistics that enclose it with at
/// least this confidence (David and Nagaraja, Order Statistics, 7.1). `None` where even the extremes do not: below 6
/// values at 95 %.
pub fn median(values: &[f64], confidence: f64) -> Option<Interval> {
    let n = values.len();
    let tail = (1.0 - confidence) / 2.0;
    // The `r`th smallest lies above the median with the probability that fewer than `r` values lie below it.
    let above = |r: usize| 1.0 - beta::regularised(0.5, r as f64, (n + 1 - r) as f64);
    let rank = (1..=n / 2).take_while(|r| above(*r) <= tail).last()?;
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    Some(Interval { low: sorted[rank - 1], high: sorted[n - rank] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_as_in_tables() {
        let close = |k, n, low: f64, high: f64| {
            let found = clopper_pearson(k, n, 0.95).unwrap();
            assert!((found.low - low).abs() < 1e-4 && (found.high - high).abs() < 1e-4, "{k}/{n}: {found:?}");
        };
        // All of n: the lower end is 0.025^(1/n).
        close(12, 12, 0.735_35, 1.0);
        close(6, 6, 0.540_74, 1.0);
        close(0, 10, 0.0, 0.308_5);
        close(5, 10, 0.187_09, 0.812_91);
        close(1, 2, 0.012_58, 0.987_42);
        assert_eq!(clopper_pearson(0, 0, 0.95), None);
        assert_eq!(clopper_pearson(3, 2, 0.95), None);
    }

    #[test]
    fn medians_as_in_tables() {
        let numbers = |n: u32| (1..=n).map(f64::from).collect::<Vec<_>>();
        let ranks = |n| median(&numbers(n), 0.95).map(|i| (i.low, i.high));
        // Ranks of the 95 % sign-test interval, as in the tables of nonparametric statistics.
        assert_eq!(ranks(5), None);
        assert_eq!(ranks(6), Some((1.0, 6.0)));
        assert_eq!(ranks(9), Some((2.0, 8.0)));
        assert_eq!(ranks(12), Some((3.0, 10.0)));
        assert_eq!(ranks(36), Some((12.0, 25.0)));
        assert_eq!(median(&[], 0.95), None);
        let shuffled = [6.0, 1.0, 4.0, 2.0, 3.0, 5.0];
        assert_eq!(median(&shuffled, 0.95), Some(Interval { low: 1.0, high: 6.0 }));
    }
}
