//! Intervals of a mean and of a ratio of two means over the same pairs.

use crate::{Interval, beta};

/// The value that a variable of Student's distribution with `freedom` degrees stays within, either way, with this
/// confidence: 2.201 for 11 and 0.95.
pub fn student_quantile(freedom: usize, confidence: f64) -> f64 {
    let degrees = freedom as f64;
    // P(|T| > t) = I_x(degrees / 2, 1 / 2) at x = degrees / (degrees + t^2) (DLMF 8.17; Abramowitz and Stegun 26.5.27).
    let x = beta::quantile(1.0 - confidence, degrees / 2.0, 0.5);
    libm::sqrt(degrees * (1.0 / x - 1.0))
}

/// Student's interval of a mean, `None` below two values. Exact for normal values; with a few large values among many small
/// ones it is too short above and too long below.
pub fn t_interval(values: &[f64], confidence: f64) -> Option<Interval> {
    let n = values.len();
    if n < 2 {
        return None;
    }
    let mean = mean(values);
    let reach = student_quantile(n - 1, confidence) * libm::sqrt(covariance(values, values) / n as f64);
    Some(Interval { low: mean - reach, high: mean + reach })
}

/// The interval of mean(a) / mean(b) over pairs `(a, b)`: every ratio `r` for which the mean of `a - r b` is not
/// significantly different from 0 (Fieller, Journal of the Royal Statistical Society B 16(2), 1954). `None` below two pairs,
/// and where the mean of `b` is not significantly different from 0, so that any ratio is possible.
pub fn fieller(pairs: &[(f64, f64)], confidence: f64) -> Option<Interval> {
    let n = pairs.len();
    if n < 2 {
        return None;
    }
    let (a, b): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    let t = student_quantile(n - 1, confidence);
    let scale = t * t / n as f64;
    // The ends solve square r^2 - 2 linear r + constant = 0.
    let square = mean(&b) * mean(&b) - scale * covariance(&b, &b);
    let linear = mean(&a) * mean(&b) - scale * covariance(&a, &b);
    let constant = mean(&a) * mean(&a) - scale * covariance(&a, &a);
    if square <= 0.0 {
        return None;
    }
    // Rounding may put an exact double root below 0.
    let root = libm::sqrt((linear * linear - square * constant).max(0.0));
    Some(Interval { low: (linear - root) / square, high: (linear + root) / square })
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Of at least two values, unbiased.
fn covariance(a: &[f64], b: &[f64]) -> f64 {
    let (mean_a, mean_b) = (mean(a), mean(b));
    let sum: f64 = a.iter().zip(b).map(|(a, b)| (a - mean_a) * (b - mean_b)).sum();
    sum / (a.len() - 1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantiles_as_in_tables() {
        for (freedom, confidence, expected) in [
            (1, 0.95, 12.706),
            (2, 0.95, 4.303),
            (4, 0.95, 2.776),
            (11, 0.95, 2.201),
            (35, 0.95, 2.030),
            (10, 0.99, 3.169),
        ] {
            let found = student_quantile(freedom, confidence);
            assert!((found - expected).abs() < 5e-4, "{freedom}: {found}");
        }
    }

    #[test]
    fn means_by_hand() {
        // Mean 2, variance 1, n 3: 2 +- 4.303 / sqrt(3).
        let found = t_interval(&[1.0, 2.0, 3.0], 0.95).unwrap();
        assert!((found.high - 4.484).abs() < 1e-3 && (found.low + 0.484).abs() < 1e-3, "{found:?}");
        assert_eq!(t_interval(&[1.0], 0.95), None);
        assert_eq!(t_interval(&[2.0, 2.0], 0.95), Some(Interval { low: 2.0, high: 2.0 }));
    }

    #[test]
    fn ratios_by_hand() {
        // A constant denominator: the interval of the mean, divided.
        let found = fieller(&[(1.0, 2.0), (2.0, 2.0), (3.0, 2.0)], 0.95).unwrap();
        assert!(
            (found.high - 4.484 / 2.0).abs() < 1e-3 && (found.low + 0.484 / 2.0).abs() < 1e-3,
            "{found:?}"
        );
        // Every pair has the same ratio: so has every draw of pairs.
        let found =
            fieller(&[(10.0, 20.0), (12.0, 24.0), (50.0, 100.0), (40.0, 80.0), (45.0, 90.0)], 0.95).unwrap();
        assert!((found.low - 0.5).abs() < 1e-6 && (found.high - 0.5).abs() < 1e-6, "{found:?}");
        // A denominator that may be 0.
        assert_eq!(fieller(&[(1.0, -5.0), (1.0, 6.0)], 0.95), None);
        assert_eq!(fieller(&[(1.0, 2.0)], 0.95), None);
    }

    proptest! {
        /// What the interval is made from: at its ends the mean of a - r b is just significant.
        #[test]
        fn the_ends_are_just_significant(
            a in prop::collection::vec(0.0f64..10.0, 5),
            b in prop::collection::vec(5.0f64..9.0, 5),
        ) {
            let pairs: Vec<_> = a.iter().copied().zip(b.iter().copied()).collect();
            if let Some(found) = fieller(&pairs, 0.95) {
                for end in [found.low, found.high] {
                    let rest: Vec<f64> = pairs.iter().map(|(a, b)| a - end * b).collect();
                    let zero = t_interval(&rest, 0.95).unwrap();
                    prop_assert!(zero.low.abs().min(zero.high.abs()) < 1e-6, "{found:?}, {zero:?}");
                }
                let ratio = mean(&a) / mean(&b);
                prop_assert!(found.low <= ratio && ratio <= found.high);
            }
        }
    }
}
