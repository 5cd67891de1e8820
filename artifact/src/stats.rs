//! Statistics as pure functions: upstream's definitions and ours, each on integer nanoseconds.

pub use intervals::percentile;

/// Mean and percentiles with the number of samples behind them, all in the unit of the samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    pub n: u64,
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub p95: f64,
    pub p99: f64,
}

impl Summary {
    /// Of all samples; `None` when there are none.
    pub fn of(samples: &[u64]) -> Option<Summary> {
        if samples.is_empty() {
            return None;
        }
        let mut sorted = samples.to_vec();
        sorted.sort_unstable();
        Some(Summary {
            n: sorted.len() as u64,
            mean: mean(samples),
            p50: percentile(&sorted, 0.50),
            p90: percentile(&sorted, 0.90),
            p95: percentile(&sorted, 0.95),
            p99: percentile(&sorted, 0.99),
        })
    }

    /// By upstream's rule: truncated, in milliseconds, rounded to 3 decimals.
    pub fn upstream_ms(samples_ns: &[u64]) -> Option<Summary> {
        let s = Summary::of(upstream_truncation(samples_ns))?;
        let ms = |ns: f64| round(ns / 1e6, 3);
        Some(Summary {
            n: s.n,
            mean: ms(s.mean),
            p50: ms(s.p50),
            p90: ms(s.p90),
            p95: ms(s.p95),
            p99: ms(s.p99),
        })
    }
}

/// The mean. The sum is exact: 2^64 ns are 584 years.
pub fn mean(samples: &[u64]) -> f64 {
    samples.iter().sum::<u64>() as f64 / samples.len() as f64
}

/// Upstream's cut: of more than 20 samples the second half, and of that the last 5,000.
pub fn upstream_truncation<T>(samples: &[T]) -> &[T] {
    if samples.len() <= 20 {
        return samples;
    }
    let half = &samples[samples.len() / 2..];
    &half[half.len().saturating_sub(5000)..]
}

/// Rounds like Python's `round`: to the nearest decimal of the float's exact value, ties to even. NumPy's own `round`
/// scales first and can differ in the last digit where the exact value lies next to a tie.
pub fn round(x: f64, decimals: usize) -> f64 {
    // The standard library formats the exact value with ties to even.
    format!("{x:.decimals$}").parse().expect("a formatted float is a float")
}

/// Whether requests arrive faster than they are served, so that end-to-end times depend on how long one waits.
///
/// Utilisation of 1 or more says so. Below, the queue counts as growing when the median wait of the last quarter of the
/// requests is over 5 times that of the first quarter (steady growth makes it 7) and over 10 mean service times; a burst
/// that the server recovers from does not meet both.
pub fn overloaded(utilisation: f64, waits_ns: &[u64], mean_service_ns: f64) -> bool {
    if utilisation >= 1.0 {
        return true;
    }
    let quarter = waits_ns.len() / 4;
    if quarter == 0 {
        return false;
    }
    let median = |waits: &[u64]| {
        let mut sorted = waits.to_vec();
        sorted.sort_unstable();
        percentile(&sorted, 0.5)
    };
    let (first, last) = (median(&waits_ns[..quarter]), median(&waits_ns[waits_ns.len() - quarter..]));
    last > 5.0 * first && last > 10.0 * mean_service_ns
}

/// A sender that was later than this at the 99th percentile did not send what was planned.
pub const LATE_NS: u64 = 1_000_000;

/// Whether the sender fell behind its planned arrivals, from how late each request was sent. Latencies count from the
/// planned arrival either way; but arrivals that bunch up are other traffic than was asked for. The simulator sends in time.
pub fn sender_was_late(delays_ns: &[u64]) -> bool {
    let mut sorted = delays_ns.to_vec();
    sorted.sort_unstable();
    !sorted.is_empty() && percentile(&sorted, 0.99) > LATE_NS as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncation_by_hand() {
        let numbers = |n: u64| (0..n).collect::<Vec<_>>();
        assert_eq!(upstream_truncation(&numbers(20)).len(), 20);
        assert_eq!(upstream_truncation(&numbers(21)), &numbers(21)[10..]);
        assert_eq!(upstream_truncation(&numbers(76)).len(), 38);
        let long = numbers(37_037);
        assert_eq!(upstream_truncation(&long), &long[32_037..]);
        assert!(upstream_truncation::<u64>(&[]).is_empty());
    }

    #[test]
    fn rounding_is_pythons() {
        // round(2.675, 2) == 2.67 in Python, as 2.675 is slightly less; 0.125 and 0.375 are exact ties.
        assert_eq!(round(2.675, 2), 2.67);
        assert_eq!(round(0.125, 2), 0.12);
        assert_eq!(round(0.375, 2), 0.38);
        assert_eq!((round(1_963.885_5, 3), round(1.0005, 3)), (1963.886, 1.0));
        assert_eq!(round(4.0, 3), 4.0);
    }

    #[test]
    fn upstream_summary_is_in_rounded_milliseconds() {
        let s = Summary::upstream_ms(&[1_000_000, 2_000_400, 3_000_000]).unwrap();
        assert_eq!((s.n, s.mean, s.p50), (3, 2.0, 2.0));
        assert_eq!(Summary::upstream_ms(&[]), None);
    }

    #[test]
    fn a_late_sender_is_one_at_the_99th_percentile() {
        let delays =
            |late: usize| (0..1000).map(|k| if k < late { 2_000_000 } else { 50_000 }).collect::<Vec<_>>();
        assert!(!sender_was_late(&delays(0)) && !sender_was_late(&delays(10)));
        assert!(sender_was_late(&delays(11)));
        assert!(!sender_was_late(&[]));
    }

    #[test]
    fn a_growing_queue_is_overload() {
        let growing: Vec<u64> = (0..1000).map(|k| k * 1000).collect();
        assert!(overloaded(0.9, &growing, 2000.0));
        assert!(overloaded(1.0, &[], 1.0));
        assert!(!overloaded(0.5, &[0; 1000], 2000.0));
        let burst: Vec<u64> = (0..1000).map(|k| if k > 400 && k < 500 { 1_000_000 } else { 0 }).collect();
        assert!(!overloaded(0.9, &burst, 2000.0));
    }
}
